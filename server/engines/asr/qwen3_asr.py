"""Qwen3-ASR (0.6B, 1.7B) through transformers' native classes, on the processor or a graphics processor.

Everything the model does runs on one thread, and this module says what runs next there: words that somebody waits for
before all else, several robots' together; then what can be done of utterances that are still being spoken; then, when
nothing is left to do, the words so far. The last two are done in small pieces and are dropped in the middle of one when
somebody waits. What hearing is, is in `qwen3_ears.py`; loading in `qwen3_loading.py`.

Whether anyone spoke is the VAD's matter; the model can say that nobody did, and that gives empty text. Which texts are
not believed (echoed hot words, loops) is decided above this room, for every engine alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from server.engines.asr.qwen3_ears import MOST_TOGETHER, Ears, Listening, Request, take_in
from server.engines.asr.qwen3_encoder import Interrupted
from server.engines.asr.qwen3_loading import Device, Numbers, check_folder, load
from server.engines.base import AsrCapabilities, Transcription
from server.engines.worker import ModelThread
from server.errors import AsrError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

Result = TypeVar("Result")

MOST_STREAMS = 8
"""Utterances that are listened to while they are spoken; each takes up to 100 MB in float32."""
LONGEST_STREAM_SECONDS = 150
"""What is pushed beyond is not kept."""
_ADVANCE_SAMPLES = ASR_SAMPLE_RATE_HZ // 2
_PARTIAL_SAMPLES = ASR_SAMPLE_RATE_HZ
"""So much new sound is worth finding the words anew."""
_PARTIAL_REST = 1.0
"""After finding the words so far, so many times as long nothing is done for them: others use this machine, too."""


@dataclass(eq=False, slots=True)
class _Job:
    """Somebody who waits for words. `listening`: asked on the thread."""

    listening: Callable[[], Listening]
    sample_count: int
    words: asyncio.Future[Transcription]


class Qwen3Asr:
    """Implements `AsrEngine` and `StreamingAsr`. `model_folder`: one of the `-hf` models, whole."""

    name = "qwen3-asr"
    capabilities = AsrCapabilities(hot_words=True)

    def __init__(
        self,
        model_folder: Path,
        *,
        device: Device = "auto",
        dtype: Numbers = "auto",
        threads: int | None = None,
        partial_words: bool = True,
    ) -> None:
        self._folder = model_folder
        self._device = device
        self._dtype = dtype
        self._threads = threads
        self._partial_words = partial_words
        self._thread = ModelThread(self.name, AsrError)
        self._ears: Ears | None = None
        self._line: deque[_Job] = deque()
        """Who waits. The thread takes from it, too, and looks at it to see whether to drop what it does."""
        self._streams: dict[Qwen3Stream, None] = {}
        self._worker: asyncio.Task[None] | None = None
        self._partials_from = 0.0

    async def start(self) -> None:
        check_folder(self._folder)
        self._ears = await self._thread.start(self._load)

    async def close(self) -> None:
        for stream in list(self._streams):
            stream.close()
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        self._fail(list(self._line), AsrError(f"The engine {self.name} was closed.", code="engine_unavailable"))
        await self._thread.close()
        self._ears = None

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        """Hear one utterance: float32 mono at 16 kHz, shape (n,). Empty text when nothing was said.

        `languages`: ISO 639-1, detected among them; that nobody spoke is always possible. Raises `AsrError`.
        """
        if samples.ndim != 1:
            raise AsrError(f"An utterance has the shape (n,), this one {samples.shape}.")
        self._running().writer.check_languages(languages)
        if not len(samples):
            return Transcription("", languages[0], no_speech_probability=1.0)
        listening = partial(self._listen, tuple(languages), tuple(hot_words), [samples])
        return await self._words(_Job(listening, len(samples), asyncio.get_running_loop().create_future()))

    def open_stream(self, *, languages: Sequence[str], hot_words: Sequence[str] = ()) -> Qwen3Stream:
        """Begin to hear an utterance that is being spoken. Raises `AsrError`."""
        self._running().writer.check_languages(languages)
        if len(self._streams) >= MOST_STREAMS:
            raise AsrError(f"{MOST_STREAMS} utterances are listened to already.", code="engine_unavailable")
        stream = Qwen3Stream(self, tuple(languages), tuple(hot_words), partial_words=self._partial_words)
        self._streams[stream] = None
        self.wake()
        return stream

    # --- for the streams ---

    def wake(self) -> None:
        """There may be something to do."""
        if self._ears is not None and (self._worker is None or self._worker.done()):
            self._worker = asyncio.create_task(self._work(), name="qwen3-asr")

    def forget(self, stream: Qwen3Stream) -> None:
        self._streams.pop(stream, None)

    async def words_of(self, stream: Qwen3Stream, sample_count: int) -> Transcription:
        words: asyncio.Future[Transcription] = asyncio.get_running_loop().create_future()
        stream.waiting.add(words)
        try:
            return await self._words(_Job(partial(self._listening_of, stream), sample_count, words))
        finally:
            stream.waiting.discard(words)

    # --- on the loop ---

    def _running(self) -> Ears:
        if self._ears is None:
            raise AsrError(
                f"The engine {self.name} is not running.",
                code="engine_unavailable",
                hint="Start it before use; after close it stays closed.",
            )
        return self._ears

    async def _words(self, job: _Job) -> Transcription:
        self._line.append(job)
        self.wake()
        try:
            return await job.words
        finally:
            # Cancelled, the work is dropped; an error that came at the same moment is nobody's any more.
            if job.words.done() and not job.words.cancelled():
                job.words.exception()

    async def _work(self) -> None:
        """Until there is nothing to do: whatever is most urgent, one piece after the other."""
        while True:
            if self._line:
                await self._hear()
            elif (stream := self._behind()) is not None:
                await self._tried(stream, partial(self._advance, stream))
            elif (stream := self._curious()) is not None:
                await self._find_partial(stream)
            else:
                return

    async def _hear(self) -> None:
        taken: list[_Job] = []
        try:
            await self._thread.call(self._hear_all, taken)
        except AsrError as error:
            self._fail(taken, error)
        except asyncio.CancelledError:
            self._fail(taken, AsrError(f"The engine {self.name} was closed.", code="engine_unavailable"))
            raise

    async def _tried(self, stream: Qwen3Stream, work: Callable[[], Result]) -> Result | None:
        """Do something nobody waits for; a failure of it closes the stream, whose words are then heard at once."""
        try:
            return await self._thread.call(work)
        except AsrError as error:
            stream.close(error)
            return None

    async def _find_partial(self, stream: Qwen3Stream) -> None:
        started = time.perf_counter()
        stream.partial_at = stream.pushed
        found = await self._tried(stream, partial(self._partial, stream))
        self._partials_from = time.perf_counter() + _PARTIAL_REST * (time.perf_counter() - started)
        if found is not None:
            stream.tell(found)

    def _behind(self) -> Qwen3Stream | None:
        return next((stream for stream in self._streams if stream.is_behind), None)

    def _curious(self) -> Qwen3Stream | None:
        if time.perf_counter() < self._partials_from:
            return None
        return next((stream for stream in self._streams if stream.is_curious), None)

    @staticmethod
    def _fail(jobs: Sequence[_Job], error: AsrError) -> None:
        for job in jobs:
            if not job.words.done():
                job.words.set_exception(error)

    # --- on the thread ---

    def _load(self) -> Ears:
        ears = load(self._folder, device=self._device, numbers=self._dtype, threads=self._threads)
        self._ears = ears
        listening = self._listen(("en",), (), [np.zeros(ASR_SAMPLE_RATE_HZ // 2, np.float32)])
        request = Request(listening, ASR_SAMPLE_RATE_HZ // 2, lambda words: None, lambda: True)
        self._in_inference(lambda ears: ears.hear([request], lambda most: ()))
        return ears

    def _in_inference(self, work: Callable[[Ears], Result]) -> Result:
        import torch

        with torch.inference_mode():
            return work(self._running())

    def _listen(self, languages: tuple[str, ...], hot_words: tuple[str, ...], sound: Sequence[Samples]) -> Listening:
        listening = self._in_inference(lambda ears: ears.listen(languages, hot_words))
        take_in(listening, sound)
        return listening

    def _listening_of(self, stream: Qwen3Stream) -> Listening:
        """The stream's, with all the sound that has come."""
        if stream.listening is None:
            stream.listening = self._listen(stream.languages, stream.hot_words, ())
        take_in(stream.listening, stream.drained())
        return stream.listening

    def _advance(self, stream: Qwen3Stream) -> None:
        advanced_to = stream.pushed
        listening = self._listening_of(stream)
        try:
            while self._in_inference(lambda ears: ears.advance(listening, self._someone_waits)):
                if self._line or stream.closed:
                    return
        except Interrupted:
            return
        stream.advanced_at = advanced_to

    def _partial(self, stream: Qwen3Stream) -> Transcription | None:
        found: list[Transcription] = []
        listening = self._listening_of(stream)
        request = Request(listening, listening.sound.sample_count, found.append, lambda: not stream.closed)
        try:
            self._in_inference(lambda ears: ears.hear([request], lambda most: (), self._someone_waits))
        except Interrupted:
            return None
        return found[0] if found else None

    def _someone_waits(self) -> bool:
        return bool(self._line)

    def _hear_all(self, taken: list[_Job]) -> None:
        def newcomers(most: int) -> list[Request]:
            requests: list[Request] = []
            while len(requests) < most and self._line:
                job = self._line.popleft()
                taken.append(job)
                if not job.words.done():
                    requests.append(self._request(job))
            return requests

        self._in_inference(lambda ears: ears.hear(newcomers(MOST_TOGETHER), newcomers))

    def _request(self, job: _Job) -> Request:
        loop = job.words.get_loop()

        def answer(words: Transcription) -> None:
            loop.call_soon_threadsafe(_settle, job.words, words)

        return Request(job.listening(), job.sample_count, answer, lambda: not job.words.done())


class Qwen3Stream:
    """Implements `AsrStream`. Made by `open_stream()`; lives on the engine's event loop but for what says otherwise."""

    def __init__(
        self, engine: Qwen3Asr, languages: tuple[str, ...], hot_words: tuple[str, ...], *, partial_words: bool
    ) -> None:
        self.languages = languages
        self.hot_words = hot_words
        self.listening: Listening | None = None
        """On the thread only, but for asking whether there is one."""
        self.pushed = 0
        self.advanced_at = -1
        """How many samples had been pushed when last there was nothing left to do."""
        self.partial_at = 0
        self.waiting: set[asyncio.Future[Transcription]] = set()
        self._engine = engine
        self._pieces: deque[Samples] = deque()
        self._partial_words = partial_words
        self._listeners = 0
        self._news = asyncio.Event()
        self._latest: Transcription | None = None
        self._error: AsrError | None = None
        self.closed = False

    def push(self, samples: Samples) -> None:
        """Take the next samples; returns at once."""
        room = LONGEST_STREAM_SECONDS * ASR_SAMPLE_RATE_HZ - self.pushed
        if self.closed or room <= 0 or not len(samples):
            return
        self._pieces.append(np.array(samples[:room], np.float32))
        self.pushed += min(len(samples), room)
        if self.is_behind or self.is_curious:
            self._engine.wake()

    async def transcribe(self, sample_count: int) -> Transcription:
        """The words of the first `sample_count` samples that were pushed. Raises `AsrError`."""
        if self.closed:
            raise self._error or AsrError("This utterance is not listened to any more.", code="engine_unavailable")
        if not 0 < sample_count <= self.pushed:
            raise AsrError(f"{self.pushed} samples are kept of this utterance, {sample_count} were asked for.")
        return await self._engine.words_of(self, sample_count)

    async def partials(self) -> AsyncGenerator[Transcription, None]:
        """The words so far, each time they are known anew, until the stream is closed."""
        self._listeners += 1
        try:
            while not self.closed:
                await self._news.wait()
                self._news.clear()
                latest, self._latest = self._latest, None
                if latest is not None and not self.closed:
                    yield latest
        finally:
            self._listeners -= 1

    def close(self, error: AsrError | None = None) -> None:
        """Let go of everything. Safe to call twice."""
        if self.closed:
            return
        self.closed = True
        self._error = error
        self._pieces.clear()
        self.listening = None
        self._engine.forget(self)
        self._news.set()
        for words in tuple(self.waiting):
            if not words.done():
                words.set_exception(
                    error
                    or AsrError("This utterance was closed before its words were known.", code="engine_unavailable")
                )

    # --- for the engine ---

    @property
    def is_behind(self) -> bool:
        """Whether something may be done ahead."""
        return not self.closed and (self.advanced_at < 0 or self.pushed - self.advanced_at >= _ADVANCE_SAMPLES)

    @property
    def is_curious(self) -> bool:
        """Whether somebody would like to know the words so far."""
        wanted = self._partial_words and self._listeners and not self.waiting and not self.closed
        return bool(wanted) and self.pushed - self.partial_at >= _PARTIAL_SAMPLES

    def drained(self) -> list[Samples]:
        """On the thread: the sound that has come since the last time."""
        pieces = []
        while True:
            try:
                pieces.append(self._pieces.popleft())
            except IndexError:
                return pieces

    def tell(self, words: Transcription) -> None:
        self._latest = words
        self._news.set()


def _settle(future: asyncio.Future[Any], words: Transcription) -> None:
    if not future.done():
        future.set_result(words)
