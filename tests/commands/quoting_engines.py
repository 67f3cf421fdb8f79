"""Engines that fail as bad libraries and endpoints do: their errors quote the words they were given.

What happens is said in the words themselves: `model fails`, `model breaks`, `voice fails`, `voice breaks`,
`unknown tool`, `no json`. A recording shorter than a second makes the hearing fail, shorter than two makes it break.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence

from server.engines.base import (
    Engines,
    LlmDelta,
    LlmDone,
    LlmRequest,
    LlmText,
    LlmToolCall,
    SpeechRequest,
    Transcription,
)
from server.errors import AsrError, LlmError, TtsError
from server.events import AudioChunk, Samples
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer, fake_engines


def quoting_engines() -> Engines:
    return fake_engines(asr=_Hearing(text=os.environ["QUOTED_WORDS"]), llm=_Model(), tts=_Voice())


class _Hearing(FakeAsr):
    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        if len(samples) < 16_000:
            raise AsrError(f"Not understood: {self.text}")
        if len(samples) < 32_000:
            raise ValueError(self.text)
        return Transcription(self.text, "ja")


class _Model(FakeLlm):
    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        prompt = "\n".join(message.content for message in request.messages)
        words = next(message.content for message in reversed(request.messages) if message.role == "user")
        if "model fails" in words:
            raise LlmError(f"HTTP 400: {prompt}", code="llm_refused") from ValueError(prompt)
        if "model breaks" in words:
            raise RuntimeError(prompt) from KeyError(words)
        if "unknown tool" in words and request.tools:
            yield LlmToolCall(words, {"query": words})
            yield LlmDone("tool_calls", 10, 5, 2)
            return
        if "no json" in words:
            yield LlmText(words)
            yield LlmDone("stop", 10, 5, 2)
            return
        for delta in answer(
            f'{{"emotion":"{words[:30]}","action":"nod","reply":"{os.environ["QUOTED_REPLY"]} {words[-40:]}"}}'
        ):
            yield delta


class _Voice(FakeTts):
    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        if "voice fails" in request.text:
            raise TtsError(f"Cannot say {request.text}")
        if "voice breaks" in request.text:
            raise RuntimeError(request.text)
        async for chunk in super().synthesize(request):
            yield chunk
