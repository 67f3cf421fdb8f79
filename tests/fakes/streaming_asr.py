"""A hearing engine that hears while somebody speaks, and does exactly what a test tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import numpy as np

from server.engines.base import Transcription
from server.errors import AsrError
from server.events import Samples
from tests.fakes.engines import FakeAsr


@dataclass
class StreamingFakeAsr(FakeAsr):
    """`open_error`, `stream_error`: raised where a stream is opened or asked; `hears`: what it knows of the words by
    the second, and tells then."""

    open_error: Exception | None = None
    stream_error: Exception | None = None
    hears: Sequence[str] = ()
    takes_seconds: float = 0.0
    streams: list[FakeAsrStream] = field(default_factory=list)

    def open_stream(self, *, languages: Sequence[str], hot_words: Sequence[str] = ()) -> FakeAsrStream:
        if self.open_error is not None:
            raise self.open_error
        self.streams.append(FakeAsrStream(self, tuple(languages), tuple(hot_words)))
        return self.streams[-1]

    @property
    def open_streams(self) -> int:
        return sum(not stream.closed for stream in self.streams)


class FakeAsrStream:
    """One utterance. `asked`: of how many samples the words were wanted."""

    def __init__(self, engine: StreamingFakeAsr, languages: tuple[str, ...], hot_words: tuple[str, ...]) -> None:
        self.languages = languages
        self.hot_words = hot_words
        self.asked: list[int] = []
        self.cancelled = 0
        self.closed = False
        self._engine = engine
        self._pieces: list[Samples] = []
        self._news = asyncio.Event()

    @property
    def samples(self) -> Samples:
        return np.concatenate([np.zeros(0, np.float32), *self._pieces])

    def push(self, samples: Samples) -> None:
        assert not self.closed, "what is closed is given nothing"
        self._pieces.append(samples)
        self._news.set()

    async def transcribe(self, sample_count: int) -> Transcription:
        assert 0 < sample_count <= len(self.samples), "more was asked for than was pushed"
        self.asked.append(sample_count)
        try:
            await asyncio.sleep(self._engine.takes_seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.closed:
            raise AsrError("it was closed meanwhile", code="engine_unavailable")
        if self._engine.stream_error is not None:
            raise self._engine.stream_error
        return Transcription(self._engine.text, self._engine.language)

    async def partials(self) -> AsyncGenerator[Transcription, None]:
        told = 0
        while not self.closed:
            await self._news.wait()
            self._news.clear()
            if told < min(len(self._engine.hears), len(self.samples) // 16_000):
                told += 1
                yield Transcription(self._engine.hears[told - 1], self._engine.language)

    def close(self) -> None:
        self.closed = True
        self._news.set()
