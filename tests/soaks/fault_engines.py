"""Engines that fail in the way the test asks for: ears by how loud the recording is, the voice by what it is to say.

The language model is the real endpoint engine; its failures come from a fake endpoint (`FAULTS_CHAT_URL`). Made in the
server's own process, so nothing here knows which turn is meant.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Sequence

import numpy as np

from server.config import load_settings
from server.engines.base import Engines, SpeechRequest, Transcription
from server.engines.llm.openai_chat import OpenAiChatLlm
from server.engines.llm.presets import resolve_endpoint
from server.engines.registry import ENDPOINT_SILENCE_SHARE
from server.errors import AsrError, TtsError
from server.events import AudioChunk, Samples
from tests.fakes.engines import FakeAsr, FakeTts, FakeVad, fake_engines

ENGINES = "tests.soaks.fault_engines:failing_engines"
# Peaks of a recording, in tenths.
HEARS, RAISES, DEFECT, HANGS, GIVES_NOTHING, LOOPS, DEAF_VAD = 2, 3, 4, 5, 6, 7, 8
HEARD = "声で話したよ"
# Words in a reply.
HOARSE, DEFECTIVE, STUCK, NOISE, RUNAWAY = "かぜ", "こわれ", "とまる", "ざあざあ", "えんえん"
LLM_SECONDS = 4.0
"""Enough for a second try, also after silence and on a busy machine."""


class Ears(FakeAsr):
    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        match peak(samples):
            case n if n == RAISES:
                raise AsrError("deaf")
            case n if n == DEFECT:
                raise ValueError("a defect")
            case n if n == HANGS:
                await asyncio.Event().wait()
            case n if n == GIVES_NOTHING:
                return None  # type: ignore[return-value]
            case n if n == LOOPS:
                return Transcription("はい" * 60, "ja")
        return Transcription(HEARD, "ja")


class Attention(FakeVad):
    async def probabilities(self, samples: Samples) -> list[float]:
        if peak(samples) == DEAF_VAD:
            raise RuntimeError("no attention")
        return await super().probabilities(samples)


class Mouth(FakeTts):
    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        if HOARSE in request.text:
            raise TtsError("hoarse")
        if DEFECTIVE in request.text:
            raise ZeroDivisionError
        if STUCK in request.text:
            await asyncio.Event().wait()
        if NOISE in request.text:
            yield AudioChunk(np.full(480, np.nan, np.float32), 48_000)  # type: ignore[arg-type]
        if RUNAWAY in request.text:
            for _ in range(600):
                yield AudioChunk(np.ones(48_000, np.int16), 48_000)
        async for chunk in super().synthesize(request):
            yield chunk


def peak(samples: Samples) -> int:
    return round(float(np.max(np.abs(samples), initial=0.0)) * 10)


def failing_engines() -> Engines:
    llm = load_settings({}, llm={"base_url": os.environ["FAULTS_CHAT_URL"], "model": "qwen-fake"}).llm
    silence_seconds = LLM_SECONDS * ENDPOINT_SILENCE_SHARE
    return fake_engines(
        vad=Attention(),
        asr=Ears(),
        llm=OpenAiChatLlm(
            resolve_endpoint(llm), context_tokens=8192, timeout_seconds=silence_seconds, connect_timeout_seconds=1
        ),
        tts=Mouth(spoken=deque(maxlen=1)),  # type: ignore[arg-type]
    )
