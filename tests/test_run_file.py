"""How a running server is found, and what happens when its note cannot be written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from server.errors import StorageError
from server.run_file import RunFile, hold_data_dir, read_run_file, remove_run_file, write_run_file

pytestmark = pytest.mark.integration

RUN = RunFile(os.getpid(), "http://127.0.0.1:8000", "admin-token", "boot-1")


def test_it_is_read_back_and_private(tmp_path: Path) -> None:
    path = write_run_file(tmp_path, RUN)
    assert read_run_file(tmp_path) == RUN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "url": "", "token": "", "boot_id": ""}'])
def test_a_damaged_file_is_no_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_run_file(tmp_path) is None


def test_a_process_that_is_gone_is_no_server(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    write_run_file(tmp_path, RunFile(pid, RUN.url, RUN.token, RUN.boot_id))
    assert read_run_file(tmp_path) is None


def test_only_the_own_file_is_removed(tmp_path: Path) -> None:
    write_run_file(tmp_path, RUN)
    remove_run_file(tmp_path, "another boot")
    assert read_run_file(tmp_path) == RUN
    remove_run_file(tmp_path, "boot-1")
    assert read_run_file(tmp_path) is None


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(StorageError, match=r"run\.json cannot be written"):
        write_run_file(tmp_path, RUN)


def test_two_servers_cannot_hold_one_folder(tmp_path: Path) -> None:
    write_run_file(tmp_path, RUN)
    second = hold_data_dir(tmp_path)
    with hold_data_dir(tmp_path), pytest.raises(StorageError, match=f"process {os.getpid()} at http"), second:
        pass
    with hold_data_dir(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be used"), hold_data_dir(tmp_path / "file" / "data"):
        pass
