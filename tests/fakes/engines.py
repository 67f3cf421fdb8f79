"""Engines that do exactly what a test tells them, and remember what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from server.engines.base import (
    AsrCapabilities,
    EmbeddingFingerprint,
    Engines,
    LlmCapabilities,
    LlmDelta,
    LlmDone,
    LlmMessage,
    LlmRequest,
    LlmText,
    SpeechRequest,
    ToolSpec,
    Transcription,
    TtsCapabilities,
)
from server.events import AudioChunk, Samples

UNSET = object()
ANSWER = '{"emotion":"happy","action":"nod","reply":"今日はいい天気だから、散歩に行こうよ。"}'


class FakeEngine:
    """Counts starts and closes."""

    name = "fake"

    def __init__(self) -> None:
        self.started = 0
        self.closed = 0
        self.start_error: Exception | None = None

    async def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.started += 1

    async def close(self) -> None:
        self.closed += 1


class FakeVad(FakeEngine):
    """Loud is speech: a window whose peak is above 0.1."""

    window_samples = 512

    def open_stream(self) -> FakeVadStream:
        return FakeVadStream(self)

    async def probabilities(self, samples: Samples) -> list[float]:
        windows = range(0, len(samples), self.window_samples)
        return [float(np.max(np.abs(samples[i : i + self.window_samples])) > 0.1) for i in windows]


class FakeVadStream:
    """Windows of live sound, judged by `vad`, a `FakeVad` or what a test made of it."""

    def __init__(self, vad: FakeVad) -> None:
        self._vad = vad
        self._rest: Samples = np.zeros(0, np.float32)
        self.closed = False

    async def push(self, samples: Samples) -> list[float]:
        if self.closed:
            return []
        heard = np.concatenate([self._rest, samples])
        whole = len(heard) // self._vad.window_samples * self._vad.window_samples
        self._rest = heard[whole:]
        return await self._vad.probabilities(heard[:whole])

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeAsr(FakeEngine):
    """Hears `text`, whatever is said; or gives back `result`, whatever that is."""

    text: str = "こんにちは"
    language: str = "ja"
    error: Exception | None = None
    result: Any = UNSET
    wait: asyncio.Event | None = None
    heard: list[Samples] = field(default_factory=list)
    expected: list[tuple[str, ...]] = field(default_factory=list)
    capabilities = AsrCapabilities(hot_words=True)

    def __post_init__(self) -> None:
        super().__init__()

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        self.heard.append(samples)
        self.expected.append(tuple(hot_words))
        if self.wait is not None:
            await self.wait.wait()
        if self.error is not None:
            raise self.error
        if self.result is not UNSET:
            return self.result  # type: ignore[no-any-return]
        return Transcription(self.text, self.language)


@dataclass
class FakeLlm(FakeEngine):
    """Plays scripts, one a call: deltas, errors to raise, events to wait for and seconds to sleep. The last repeats."""

    scripts: list[list[LlmDelta | Exception | asyncio.Event | float]] = field(default_factory=lambda: [answer()])
    requests: list[LlmRequest] = field(default_factory=list)
    cancelled: int = 0
    warmed: list[LlmMessage] = field(default_factory=list)
    ahead: list[tuple[LlmMessage, ...]] = field(default_factory=list)
    ahead_tools: tuple[str, ...] = ()
    capabilities = LlmCapabilities(native_tools=False, max_tools=8, streams=True, context_tokens=100_000)

    def __post_init__(self) -> None:
        super().__init__()

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self.requests.append(request)
        try:
            for step in script:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                elif isinstance(step, int | float):
                    await asyncio.sleep(step)
                else:
                    yield step
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled += 1
            raise

    async def count_tokens(self, text: str) -> int:
        return len(text)

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        self.warmed += messages

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        self.ahead.append(tuple(messages))
        self.ahead_tools = tuple(tool.name for tool in tools)


@dataclass
class FakeTts(FakeEngine):
    """Speaks 10 ms of a constant for each character, at 48 kHz; or gives `chunks`, whatever they are."""

    error: Exception | None = None
    chunks: list[Any] | None = None
    wait: asyncio.Event | None = None
    spoken: list[SpeechRequest] = field(default_factory=list)
    capabilities = TtsCapabilities(languages=("ja", "en"))

    def __post_init__(self) -> None:
        super().__init__()

    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        self.spoken.append(request)
        if self.error is not None:
            raise self.error
        if self.wait is not None:
            await self.wait.wait()
        if self.chunks is not None:
            for chunk in self.chunks:
                yield chunk
            return
        yield AudioChunk(np.full(480 * len(request.text), 1000, np.int16), 48_000)


class FakeEmbedding(FakeEngine):
    fingerprint = EmbeddingFingerprint("fake", 4)

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        return await self.embed_queries(texts)


def answer(text: str = ANSWER, step: int = 5) -> list[Any]:
    """A script that writes `text` in small pieces."""
    pieces: list[Any] = [LlmText(text[start : start + step]) for start in range(0, len(text), step)]
    return [*pieces, LlmDone("stop", prompt_tokens=100, cached_tokens=90, completion_tokens=20)]


def fake_engines(**changes: Any) -> Engines:
    """A set of fakes; name a kind to replace one."""
    parts: dict[str, Any] = {
        "vad": FakeVad(),
        "asr": FakeAsr(),
        "llm": FakeLlm(),
        "tts": FakeTts(),
        "embedding": FakeEmbedding(),
    }
    return Engines(**{**parts, **changes})


def loud(seconds: float) -> Samples:
    """Sound that `FakeVad` takes for speech."""
    return np.full(round(seconds * 16_000), 0.5, np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * 16_000), np.float32)
