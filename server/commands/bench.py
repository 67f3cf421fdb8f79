"""How long the models of these settings take here: for `stackchan doctor`, bounded to seconds.

Speaks one sentence and looks for speech in it; when asked, also hears it, thinks, and finds a memory. Uses the engines
through their Protocols, as a turn does, one after the other; needs no running server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from server.audio.resample import resample
from server.config import Settings
from server.engines.base import (
    EmbeddingEngine,
    Engine,
    LlmDone,
    LlmMessage,
    LlmRequest,
    LlmText,
    SpeechRequest,
    TtsEngine,
)
from server.errors import EmbeddingError, StackChanError
from server.events import ASR_SAMPLE_RATE_HZ, Pcm16
from server.persona import Persona

SENTENCES = {
    "ja": "今日はとても天気がいいので、散歩に行きたいと思っています。",
    "en": "The weather is lovely today, so I would like to go out for a walk.",
}
HEARD_SECONDS = 3.0
TOKENS = 20
REMEMBERED = {
    "ja": ("うちの猫の名前はミケです。", "駅前のパン屋は七時に開きます。", "来月、車を車検に出します。"),
    "en": ("Our cat is called Mimi.", "The bakery at the station opens at seven.", "The car is inspected next month."),
}
ASKED = {"ja": "飼っている猫は何という名前だっけ？", "en": "What was the name of my cat?"}
"""What is remembered, and what asks for the first of it."""
_PROMPT = "Tell me a long story about a small robot that lives on a desk and watches the birds outside."


@dataclass(frozen=True, slots=True)
class Measure:
    """One stage: `seconds` for `units` of work (`amount` in words); `start_seconds`: loading and warming it, once."""

    stage: str
    amount: str
    seconds: float
    start_seconds: float
    units: float
    """Seconds of sound, or tokens."""


async def measure_engines(
    settings: Settings, persona: Persona, *, full: bool, on_step: Callable[[str], None] = lambda step: None
) -> list[Measure]:
    """Speaking and finding speech; `full`: hearing, thinking and finding a memory too.

    Raises `StackChanError` when an engine cannot be used, or does not find what is asked for.
    """
    tts, vad = _build(settings, persona, "tts"), _build(settings, persona, "vad")
    on_step("speaking")
    async with _started(tts) as tts_start:
        speech, rate_hz, spoke = await _speak(tts, persona.languages[0])
    measures = [
        Measure("speak", f"a sentence of {len(speech) / rate_hz:.1f} s", spoke, tts_start, len(speech) / rate_hz)
    ]
    samples = resample(speech.astype(np.float32) / np.float32(32768), rate_hz, ASR_SAMPLE_RATE_HZ)
    samples = samples[: int(HEARD_SECONDS * ASR_SAMPLE_RATE_HZ)]
    heard_seconds = len(samples) / ASR_SAMPLE_RATE_HZ
    amount = f"{heard_seconds:.1f} s of speech"
    on_step("finding speech")
    async with _started(vad) as vad_start:
        began = time.perf_counter()
        await vad.probabilities(samples)
        measures.append(Measure("find speech", amount, time.perf_counter() - began, vad_start, heard_seconds))
    if not full:
        return measures
    on_step("hearing")
    asr = _build(settings, persona, "asr")
    async with _started(asr) as asr_start:
        began = time.perf_counter()
        await asr.transcribe(samples, languages=persona.languages)
        measures.append(Measure("hear", amount, time.perf_counter() - began, asr_start, heard_seconds))
    on_step("thinking")
    llm = _build(settings, persona, "llm")
    async with _started(llm) as llm_start:
        measures += await _think(llm, llm_start)
    if settings.memory.enabled:
        on_step("remembering")
        measures.append(await _remember(_build(settings, persona, "embedding"), persona.languages[0]))
    return measures


async def _remember(embedding: EmbeddingEngine, language: str) -> Measure:
    """Find one of three memories by a question in other words. Raises `EmbeddingError` when another one is nearer."""
    async with _started(embedding) as start_seconds:
        memories = await embedding.embed_documents(REMEMBERED[language])
        began = time.perf_counter()
        question = await embedding.embed_queries([ASKED[language]])
        nearest = int(np.argmax(memories @ question[0]))
        seconds = time.perf_counter() - began
    if nearest != 0:
        raise EmbeddingError(
            f"The embedding model {embedding.fingerprint.model} does not find a memory by its meaning.",
            hint="Choose another one with embedding.engine, or pull its files again: `stackchan models pull`.",
        )
    return Measure("remember", "1 question", seconds, start_seconds, 1)


async def _think(llm: Any, start_seconds: float) -> list[Measure]:
    request = LlmRequest(messages=(LlmMessage("user", _PROMPT),), max_tokens=TOKENS)
    began = time.perf_counter()
    first: float | None = None
    prompt_tokens = written = 0
    async with aclosing(llm.generate(request)) as deltas:
        async for delta in deltas:
            if isinstance(delta, LlmText) and first is None:
                first = time.perf_counter()
            if isinstance(delta, LlmDone):
                prompt_tokens, written = delta.prompt_tokens, delta.completion_tokens
    ended = time.perf_counter()
    first = ended if first is None else first
    return [
        Measure("read a prompt", f"{prompt_tokens} tokens", first - began, start_seconds, prompt_tokens),
        Measure("write", f"{written} tokens", ended - first, 0.0, written),
    ]


def _build(settings: Settings, persona: Persona, kind: str) -> Any:
    from server.engines import registry

    return registry.find_engine(settings, kind).build(settings, persona)


@asynccontextmanager
async def _started(engine: Engine) -> AsyncIterator[float]:
    began = time.perf_counter()
    try:
        await engine.start()
        yield time.perf_counter() - began
    finally:
        await engine.close()


async def _speak(tts: TtsEngine, language: str) -> tuple[Pcm16, int, float]:
    """Samples, their rate in Hz, and the seconds it took."""
    began = time.perf_counter()
    chunks = [chunk async for chunk in tts.synthesize(SpeechRequest(SENTENCES[language], language))]
    took = time.perf_counter() - began
    if not chunks:
        raise StackChanError("The speech engine gave no sound.", code="tts_failed")
    return np.concatenate([chunk.samples for chunk in chunks]), chunks[0].sample_rate_hz, took
