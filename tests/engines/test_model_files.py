"""What the disk says about model files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from server.engines import model_files
from server.engines.catalogue import Catalogue, HubFile, ModelEntry, ModelFile
from server.engines.model_files import (
    MARKER_NAME,
    SilentProgress,
    free_bytes,
    human_size,
    require,
    status,
    verify,
    write_failed,
)
from server.errors import ModelError

pytestmark = pytest.mark.unit

BODY = "重み weights".encode() * 1000


def catalogue_of(**bodies: bytes) -> Catalogue:
    files = tuple(
        ModelFile(name.replace("_", "."), len(body), hashlib.sha256(body).hexdigest(), HubFile("a/b", name))
        for name, body in bodies.items()
    )
    return Catalogue((ModelEntry("ears", "asr", "Ears", "MIT", files),))


def states(model_dir: Path, catalogue: Catalogue) -> list[str]:
    return [state.state for state in status(model_dir, catalogue=catalogue)]


def place(model_dir: Path, body: bytes, name: str = "model.bin") -> Path:
    path = model_dir / "ears" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


def test_status_tells_missing_wrong_and_unverified_without_hashing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(model_files, "sha256_of", None)
    catalogue = catalogue_of(model_bin=BODY)
    assert states(tmp_path, catalogue) == ["missing"]
    place(tmp_path, BODY[:-1])
    assert states(tmp_path, catalogue) == ["wrong"]
    place(tmp_path, BODY)
    assert states(tmp_path, catalogue) == ["unverified"]


def test_verify_remembers_until_the_file_changes(tmp_path: Path) -> None:
    catalogue = catalogue_of(model_bin=BODY)
    path = place(tmp_path, BODY)
    assert [state.state for state in verify(tmp_path, catalogue=catalogue)] == ["ok"]
    assert states(tmp_path, catalogue) == ["ok"]
    os.utime(path, ns=(1, 1))
    assert states(tmp_path, catalogue) == ["unverified"]


def test_verify_finds_a_changed_byte_that_the_marker_hides(tmp_path: Path) -> None:
    catalogue = catalogue_of(model_bin=BODY)
    path = place(tmp_path, BODY)
    verify(tmp_path, catalogue=catalogue)
    found = path.stat()
    path.write_bytes(BODY[:-1] + b"!")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert states(tmp_path, catalogue) == ["ok"]
    assert [state.state for state in verify(tmp_path, catalogue=catalogue)] == ["wrong"]


def test_verify_shows_every_byte_it_hashes(tmp_path: Path) -> None:
    class Counting(SilentProgress):
        total = 0

        def advanced(self, label: str, n: int) -> None:
            self.total += n

    place(tmp_path, BODY)
    counting = Counting()
    verify(tmp_path, ["ears"], counting, catalogue=catalogue_of(model_bin=BODY))
    assert counting.total == len(BODY)


def test_require_hashes_once_and_then_trusts_the_marker(tmp_path: Path, monkeypatch) -> None:
    catalogue = catalogue_of(model_bin=BODY, config_json=b"{}")
    place(tmp_path, BODY)
    place(tmp_path, b"{}", "config.json")
    assert require(tmp_path, "ears", catalogue=catalogue) == tmp_path / "ears"
    assert set(json.loads((tmp_path / "ears" / MARKER_NAME).read_text())) == {"model.bin", "config.json"}
    monkeypatch.setattr(model_files, "sha256_of", None)
    assert require(tmp_path, "ears", catalogue=catalogue) == tmp_path / "ears"


def test_require_says_what_to_do_when_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.bin is missing.*stackchan models pull") as caught:
        require(tmp_path, "ears", catalogue=catalogue_of(model_bin=BODY))
    assert caught.value.code == "model_missing"


def test_require_names_an_optional_model_in_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="`stackchan models pull ears`"):
        require(tmp_path, "ears", catalogue=catalogue_of(model_bin=BODY))


@pytest.mark.parametrize("body", [BODY[:-1], BODY[:-1] + b"?"], ids=["cut", "changed"])
def test_require_refuses_other_bytes(tmp_path: Path, body: bytes) -> None:
    place(tmp_path, body)
    with pytest.raises(ModelError) as caught:
        require(tmp_path, "ears", catalogue=catalogue_of(model_bin=BODY))
    assert caught.value.code == "model_hash_mismatch"


@pytest.mark.parametrize("marker", ["", "[]", "{", '{"model.bin": 3}', "\x00\ud7ff"])
def test_a_damaged_marker_proves_nothing(tmp_path: Path, marker: str) -> None:
    place(tmp_path, BODY)
    (tmp_path / "ears" / MARKER_NAME).write_text(marker, encoding="utf-8")
    catalogue = catalogue_of(model_bin=BODY)
    assert states(tmp_path, catalogue) == ["unverified"]
    assert require(tmp_path, "ears", catalogue=catalogue) == tmp_path / "ears"
    assert states(tmp_path, catalogue) == ["ok"]


def test_a_marker_of_an_older_catalogue_does_not_count(tmp_path: Path) -> None:
    place(tmp_path, BODY)
    verify(tmp_path, catalogue=catalogue_of(model_bin=BODY))
    newer = catalogue_of(model_bin=BODY[:-1] + b"?")
    assert states(tmp_path, newer) == ["unverified"]


def test_a_cache_that_cannot_be_written_is_still_used(tmp_path: Path, monkeypatch) -> None:
    place(tmp_path, BODY)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "read-only")

    monkeypatch.setattr(model_files.os, "replace", refuse)
    assert require(tmp_path, "ears", catalogue=catalogue_of(model_bin=BODY)) == tmp_path / "ears"
    assert sorted(path.name for path in (tmp_path / "ears").iterdir()) == ["model.bin"]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch) -> None:
    path = place(tmp_path, BODY)

    def refuse(*_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(model_files, "sha256_of", refuse)
    with pytest.raises(ModelError, match="Permission denied") as caught:
        require(tmp_path, "ears", catalogue=catalogue_of(model_bin=BODY))
    assert str(path) in caught.value.message


def test_free_bytes_works_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") > 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_refused_write_means_a_full_disk(tmp_path: Path, number: int) -> None:
    error = write_failed(OSError(number, "no"), tmp_path, 491_400_064, 1_500)
    assert error.code == "model_disk_full"
    assert "491.4 MB needed, 1.5 kB free" in error.message


def test_a_forbidden_write_names_the_folder(tmp_path: Path) -> None:
    error = write_failed(PermissionError(errno.EACCES, "Permission denied"), tmp_path, 1, 1)
    assert error.code == "model_download_failed"
    assert str(tmp_path) in error.message


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_327_524, "2.3 MB"), (1_117_320_768, "1.1 GB")],
)
def test_sizes_read_like_download_sizes(size_bytes: int, text: str) -> None:
    assert human_size(size_bytes) == text
