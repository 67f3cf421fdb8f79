"""Recordings that could not be understood: whole, private, for a day, and never at the cost of anything else."""

from __future__ import annotations

import errno
import os
import stat
import time
import wave
from pathlib import Path

import numpy as np
import pytest

from server.storage.failed_audio import FailedAudioStore

pytestmark = pytest.mark.integration


async def test_a_recording_is_kept_as_it_was_for_its_owner_only(tmp_path: Path) -> None:
    store = FailedAudioStore(tmp_path / "failed-audio")
    await store.keep(384, np.array([0.0, 0.5, -0.5, 1.0, -1.0, 7.0, np.nan], np.float32))
    path = tmp_path / "failed-audio" / "384.wav"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16_000)
        levels = np.frombuffer(file.readframes(100), "<i2")
    assert levels.tolist() == [0, 16383, -16383, 32767, -32767, 32767, 0]
    assert os.listdir(path.parent) == ["384.wav"]


async def test_after_a_day_it_is_gone_and_strange_files_stay(tmp_path: Path) -> None:
    store = FailedAudioStore(tmp_path)
    for turn_id in (1, 2):
        await store.keep(turn_id, np.zeros(160, np.float32))
    (tmp_path / "3.partial").touch()
    (tmp_path / "notes.wav").touch()
    old = time.time() - 25 * 3600
    for name in ("1.wav", "3.partial", "notes.wav"):
        os.utime(tmp_path / name, (old, old))
    assert await store.purge() == 2
    assert sorted(os.listdir(tmp_path)) == ["2.wav", "notes.wav"]


async def test_what_was_forgotten_is_gone_at_once(tmp_path: Path) -> None:
    store = FailedAudioStore(tmp_path)
    for turn_id in (1, 2):
        await store.keep(turn_id, np.zeros(160, np.float32))
    await store.remove([1, 7])
    assert os.listdir(tmp_path) == ["2.wav"]
    await FailedAudioStore(tmp_path / "none").remove([1])


async def test_nothing_kept_is_nothing_to_purge(tmp_path: Path) -> None:
    assert await FailedAudioStore(tmp_path / "none").purge() == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
async def test_a_disk_that_refuses_is_only_told(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "replace", refuse)
    await FailedAudioStore(tmp_path).keep(384, np.zeros(160, np.float32))
    assert os.listdir(tmp_path) == []
    assert "could not be kept" in caplog.text
