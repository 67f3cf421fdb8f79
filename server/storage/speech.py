"""The robot's voice, kept for an hour so that a device can fetch it: in memory while it is made, then one file a turn.

Not a record: what was said is in SQL, so these files are never backed up and may be deleted at any time. A file exists
only when it is whole; speech of a turn that was cut by a crash is simply gone. Knows samples, not wire formats.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from server.errors import BusyError, GoneError, NotFoundError
from server.events import AudioChunk, Pcm16
from server.storage.kept_files import PARTIAL, purge_older, write_whole

_log = logging.getLogger(__name__)
_FILE = re.compile(r"^(\d+)-(\d+)\.pcm$")
_READ_SECONDS = 1.0
_UNWRITTEN_TURNS = 8
_FIRST_SOUND_SECONDS = 30.0


@dataclass(slots=True)
class _Speech:
    """Speech that is still being made."""

    sample_rate_hz: int
    chunks: list[Pcm16] = field(default_factory=list)
    ended: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def begun(self, seconds: float) -> None:
        """Return when there is a first sound, or when it is certain that there will be none. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds), self.changed:
            while not (self.chunks or self.ended):
                await self.changed.wait()


@dataclass(frozen=True, slots=True)
class SpeechStream:
    """A turn's speech: `chunks` yields int16 mono; `samples_total` is None while it is still being made."""

    sample_rate_hz: int
    samples_total: int | None
    chunks: AsyncIterator[Pcm16]


class SpeechStore:
    """`<data>/speech/<turn_id>-<rate>.pcm`, 16-bit little-endian mono."""

    def __init__(
        self,
        folder: Path,
        keep_seconds: float,
        now: Callable[[], float] = time.time,
        *,
        first_sound_seconds: float = _FIRST_SOUND_SECONDS,
    ) -> None:
        self._folder = folder
        self._keep_seconds = keep_seconds
        self._now = now
        self._first_sound_seconds = first_sound_seconds
        self._live: dict[int, _Speech] = {}
        self._unwritten: dict[int, tuple[int, Pcm16, float]] = {}

    def begin(self, turn_id: int, sample_rate_hz: int) -> None:
        """Expect speech for this turn; readers may come from now on."""
        self._live[turn_id] = _Speech(sample_rate_hz)

    async def append(self, turn_id: int, chunk: AudioChunk) -> None:
        speech = self._live[turn_id]
        async with speech.changed:
            speech.chunks.append(chunk.samples)
            speech.changed.notify_all()

    async def end(self, turn_id: int, *, keep: bool) -> None:
        """No more will come. `keep`: write it to its file; readers that already follow get all of it either way.

        What the disk cannot take stays in memory, for the last few turns: the robot must not go mute.
        """
        speech = self._live.get(turn_id)
        if speech is None:
            return
        if keep and speech.chunks:
            samples = np.concatenate(speech.chunks)
            try:
                path = self._folder / f"{turn_id}-{speech.sample_rate_hz}.pcm"
                await asyncio.to_thread(lambda: write_whole(path, samples.astype("<i2").tobytes()))
            except OSError as error:
                _log.error("speech of turn %d is kept in memory only: %s", turn_id, error)
                self._unwritten[turn_id] = (speech.sample_rate_hz, samples, self._now())
                while len(self._unwritten) > _UNWRITTEN_TURNS:
                    del self._unwritten[next(iter(self._unwritten))]
        async with speech.changed:
            speech.ended = True
            speech.changed.notify_all()
        del self._live[turn_id]

    async def open(self, turn_id: int) -> SpeechStream:
        """The speech of a turn, from its beginning; follows it while it is being made.

        Of a turn that has not spoken yet it waits for the first sound: who reads gets sound, or is told that there is
        none. Raises `NotFoundError` (`audio_not_found`) when the turn has none, `BusyError` (`audio_pending`) when it
        has not begun in a fair time, `GoneError` (`audio_expired`) after its time.
        """
        live = self._live.get(turn_id)
        if live is not None:
            try:
                await live.begun(self._first_sound_seconds)
            except TimeoutError:
                raise BusyError(
                    "The robot has not begun to speak yet.", code="audio_pending", hint="Ask again."
                ) from None
            if not live.chunks:
                raise no_speech()
            return SpeechStream(live.sample_rate_hz, None, _follow(live))
        unwritten = self._unwritten.get(turn_id)
        if unwritten is not None:
            rate_hz, samples, made_at = unwritten
            if self._now() - made_at > self._keep_seconds:
                raise self.expired()
            return SpeechStream(rate_hz, len(samples), _once(samples))
        path = await asyncio.to_thread(self._find, turn_id)
        if path is None:
            raise no_speech()
        try:
            size, modified = await asyncio.to_thread(_stat, path)
        except FileNotFoundError:
            raise self.expired() from None
        if self._now() - modified > self._keep_seconds:
            raise self.expired()
        rate_hz = int(_FILE.match(path.name).group(2))  # type: ignore[union-attr]
        return SpeechStream(rate_hz, size // 2, _read(path, rate_hz))

    def has_expired(self, ended_at: float) -> bool:
        """Whether speech of a turn that ended then (unix seconds) is past its time."""
        return self._now() - ended_at > self._keep_seconds

    async def purge(self) -> int:
        """Delete files past their time and leftovers of a crash; the count. Call it at start and from time to time."""
        return await asyncio.to_thread(purge_older, self._folder, _is_ours, self._now() - self._keep_seconds)

    async def remove(self, turn_ids: Collection[int]) -> None:
        """Delete the speech of these turns, which were forgotten; what is being made now stays. Raises `OSError`."""
        for turn_id in turn_ids:
            self._unwritten.pop(turn_id, None)
        await asyncio.to_thread(self._remove_files, frozenset(turn_ids))

    def _remove_files(self, turn_ids: frozenset[int]) -> None:
        for path in self._folder.glob("*.pcm"):
            if (match := _FILE.match(path.name)) is not None and int(match.group(1)) in turn_ids:
                path.unlink(missing_ok=True)

    def expired(self) -> GoneError:
        """What a reader gets after the time is over."""
        minutes = round(self._keep_seconds / 60)
        return GoneError(f"Speech is kept for {minutes} minutes; this is older.", code="audio_expired")

    def _find(self, turn_id: int) -> Path | None:
        return next(iter(self._folder.glob(f"{turn_id}-*.pcm")), None)


def _is_ours(path: Path) -> bool:
    return path.suffix == PARTIAL or bool(_FILE.match(path.name))


def no_speech() -> NotFoundError:
    return NotFoundError("This turn has no speech.", code="audio_not_found")


def _stat(path: Path) -> tuple[int, float]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime


async def _once(samples: Pcm16) -> AsyncIterator[Pcm16]:
    yield samples


async def _follow(speech: _Speech) -> AsyncIterator[Pcm16]:
    index = 0
    while True:
        async with speech.changed:
            while len(speech.chunks) == index and not speech.ended:
                await speech.changed.wait()
            fresh, ended = speech.chunks[index:], speech.ended
        for samples in fresh:
            yield samples
        index += len(fresh)
        if ended and index == len(speech.chunks):
            return


async def _read(path: Path, sample_rate_hz: int) -> AsyncIterator[Pcm16]:
    step_bytes = int(sample_rate_hz * _READ_SECONDS) * 2
    with await asyncio.to_thread(path.open, "rb") as file:
        while data := await asyncio.to_thread(file.read, step_bytes):
            yield np.frombuffer(data, dtype="<i2")
