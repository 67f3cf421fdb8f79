"""Recordings that could not be understood, kept for a day so that their owner can find out why.

`<data>/failed-audio/<turn_id>.wav`, readable by the owner only. Kept only where the owner asked for it. A file exists
only when it is whole; a disk that cannot take it loses nothing else. Knows samples, not engines or turns.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
import wave
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from server.events import ASR_SAMPLE_RATE_HZ, Samples
from server.storage.kept_files import PARTIAL, purge_older, write_whole

_log = logging.getLogger(__name__)
KEEP_SECONDS = 24 * 3600.0


class FailedAudioStore:
    """Writes and forgets recordings. `now`: unix seconds."""

    def __init__(self, folder: Path, keep_seconds: float = KEEP_SECONDS, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._keep_seconds = keep_seconds
        self._now = now

    async def keep(self, turn_id: int, samples: Samples) -> None:
        """Write a recording (float32 mono at 16 kHz, shape (n,)); what the disk refuses is only told in the log."""
        try:
            await asyncio.to_thread(lambda: write_whole(self._folder / f"{turn_id}.wav", _wav(samples)))
        except OSError as error:
            _log.error("the recording of turn %d could not be kept: %s", turn_id, error.strerror)

    async def remove(self, turn_ids: Collection[int]) -> None:
        """Delete the recordings of these turns, which were forgotten. Raises `OSError`."""
        await asyncio.to_thread(_remove_files, [self._folder / f"{turn_id}.wav" for turn_id in turn_ids])

    async def purge(self) -> int:
        """Delete recordings past their time and leftovers of a crash; the count."""
        return await asyncio.to_thread(purge_older, self._folder, _is_ours, self._now() - self._keep_seconds)


def _remove_files(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    return path.suffix in (".wav", PARTIAL) and path.stem.isdecimal()


def _wav(samples: Samples) -> bytes:
    whole = io.BytesIO()
    with wave.open(whole, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(ASR_SAMPLE_RATE_HZ)
        levels = np.nan_to_num(np.clip(samples, -1.0, 1.0))
        file.writeframes((levels * 32767).astype("<i2").tobytes())
    return whole.getvalue()
