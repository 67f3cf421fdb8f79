"""Files that are whole or not there, their owner's alone, and forgotten in time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from server.storage.kept_files import purge_older, write_whole

pytestmark = pytest.mark.unit


def test_file_and_folder_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "1.wav"
    write_whole(path, b"sound")
    assert path.read_bytes() == b"sound"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_refuses_leaves_the_old_file_and_no_part_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.wav"
    write_whole(path, b"before")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, b"after")
    assert [(left.name, left.read_bytes()) for left in tmp_path.iterdir()] == [("1.wav", b"before")]


def test_only_our_files_past_their_time_are_removed(tmp_path: Path) -> None:
    for name, age in (("1.wav", 99), ("2.wav", 101), ("3.txt", 101)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert purge_older(tmp_path, lambda path: path.suffix == ".wav", before=900) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.wav", "3.txt"]
    assert purge_older(tmp_path / "nothing", lambda path: True, before=900) == 0
