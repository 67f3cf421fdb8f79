"""Stand-in engines of `bench_latency` for our server: fixed delays, but the real ears. Knows no server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import numpy as np
from _latency_times import (
    CHARACTER_SECONDS,
    HEAR_SECONDS,
    HEARD,
    REPLY,
    SPEAK_SECONDS,
    SPEECH_RATE_HZ,
    TOKENS,
    token_seconds,
)

from server.config import load_settings
from server.engines.base import Engines, LlmCapabilities, LlmDelta, LlmDone, LlmRequest, LlmText, SpeechRequest
from server.engines.base import Transcription as Heard
from server.engines.registry import build_engines
from server.events import AudioChunk, Samples
from server.persona import find_persona, load_persona
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, fake_engines

ENGINES = "_latency_stub:stub_engines"
_BEFORE = '{"emotion":"happy","action":"nod","reply":"'


class FixedAsr(FakeAsr):
    async def transcribe(self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()) -> Heard:
        await asyncio.sleep(HEAR_SECONDS)
        return Heard(HEARD, "ja")


class FixedLlm(FakeLlm):
    """Like a model behind an endpoint: many requests at a time, each as fast as one alone."""

    capabilities = LlmCapabilities(
        native_tools=False, max_tools=8, streams=True, context_tokens=100_000, wants_examples=False
    )

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        began = asyncio.get_running_loop().time()
        for number, token in enumerate(TOKENS):
            # By the clock, so that late timers do not add up.
            await asyncio.sleep(max(0.0, began + token_seconds(number) - asyncio.get_running_loop().time()))
            yield LlmText(token if number else _BEFORE + token)
        yield LlmText('"}')
        yield LlmDone("stop", prompt_tokens=100, cached_tokens=90, completion_tokens=len(TOKENS))


class FixedTts(FakeTts):
    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        await asyncio.sleep(SPEAK_SECONDS)
        count = round(CHARACTER_SECONDS * SPEECH_RATE_HZ) * len(request.text)
        yield AudioChunk(np.full(count, 1000, np.int16), SPEECH_RATE_HZ)


def stub_engines() -> Engines:
    """A whole server's. Raises `StackChanError` where the ears' model is not there."""
    settings = load_settings()
    real = build_engines(settings, load_persona(find_persona(settings.data_dir, settings.persona_path)))
    kept: deque[object] = deque(maxlen=1)
    fakes = fake_engines(asr=FixedAsr(HEARD), llm=FixedLlm(requests=kept, warmed=kept), tts=FixedTts(spoken=kept))  # type: ignore[arg-type]
    assert REPLY.count("。") == 2
    return replace(fakes, vad=real.vad)
