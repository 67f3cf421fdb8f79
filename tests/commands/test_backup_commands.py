"""`stackchan backup` and `restore`: from a running server or the data folder, whole or not at all."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.persona import default_persona_path
from server.run_file import hold_data_dir
from tests.commands.conftest import Cli
from tests.commands.memory_house import PC, SECRET, TEA, WordsEmbedding, fill, use_embedding
from tests.commands.memory_server import MemoryServer

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    use_embedding(monkeypatch, WordsEmbedding)


@pytest.fixture
def house(data_dir: Path) -> Path:
    fill(data_dir)
    return data_dir


@pytest.fixture
def server(data_dir: Path) -> Iterator[MemoryServer]:
    with MemoryServer() as running:
        running.announce(data_dir)
        yield running


def answer(done: Any) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# From a running server


def test_a_running_server_sends_the_backup(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    file = tmp_path / "控え.tar"
    done = cli("backup", str(file))
    assert done.code == 0
    assert str(file) in done.out
    assert "plain text" in done.err
    assert file.read_bytes() == server.backup
    assert file.stat().st_mode & 0o777 == 0o600
    assert server.asked == [("GET", "/v1/backup", {})]


def test_a_backup_that_breaks_off_leaves_the_one_before(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    file.write_text("the one before")
    server.cut_at = 1000
    done = cli("backup", str(file), "--force")
    assert done.code == 1
    assert "connection_lost" in done.err
    assert file.read_text() == "the one before"
    assert names(tmp_path) == ["data", "out.tar"]


def test_a_refused_backup_leaves_nothing(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    server.fail["GET", "/v1/backup"] = (507, {"code": "storage_full", "message": "No room.", "hint": "Make some."})
    done = cli("backup", str(tmp_path / "out.tar"))
    assert done.code == 4
    assert "storage_full" in done.err
    assert names(tmp_path) == ["data"]


@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_replaced_unasked(cli: Cli, server: MemoryServer, tmp_path: Path, force: bool) -> None:
    file = tmp_path / "out.tar"
    file.write_text("mine")
    done = cli("backup", str(file), *(["--force"] if force else []))
    assert done.code == (0 if force else 2)
    assert (file.read_bytes() == server.backup) is force
    assert ("file_exists" in done.err) is not force


@pytest.mark.parametrize("target", [".", "no/such/folder/out.tar"])
def test_a_place_that_takes_no_file_is_wrong_use(
    cli: Cli, server: MemoryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("backup", target, "--force").code == 2
    assert server.asked == []


def test_restore_refuses_while_a_server_runs(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    file.write_bytes(b"x")
    done = cli("restore", str(file), "--yes")
    assert done.code == 1
    assert "data_in_use" in done.err
    assert "kill " in done.err
    assert server.url in done.err


# From the data folder


def test_a_backup_holds_the_databases_and_no_token(cli: Cli, house: Path, tmp_path: Path) -> None:
    token = answer(cli("token", "reset", "--json"))["token"]
    file = tmp_path / "out.tar"
    found = answer(cli("backup", str(file), "--json"))
    assert found == {"file": str(file), "bytes": file.stat().st_size}
    with tarfile.open(file) as tar:
        held = tar.getnames()
    assert {"server.sqlite", "worlds/home/session.sqlite"} <= set(held)
    assert token.encode() not in file.read_bytes()
    assert [name for name in names(house) if "backup" in name] == []


@pytest.mark.parametrize("own", [False, True])
def test_only_an_own_persona_goes_along(cli: Cli, house: Path, tmp_path: Path, own: bool) -> None:
    if own:
        (house / "persona.yaml").write_bytes(default_persona_path().read_bytes())
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    with tarfile.open(file) as tar:
        assert ("persona.yaml" in tar.getnames()) is own


def test_without_a_memory_there_is_nothing_to_back_up(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    done = cli("backup", str(tmp_path / "out.tar"))
    assert done.code == 1
    assert "memory_missing" in done.err
    assert names(tmp_path) == []


def test_a_backup_moves_to_a_new_computer(cli: Cli, house: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    new = tmp_path / "new"
    done = cli("restore", str(file), "--yes", "--data-dir", str(new))
    assert done.code == 0
    assert "Restored as of" in done.out
    assert "home" in done.out
    assert "What was there" not in done.out
    assert "違う、二万五千円" in cli("memory", "show", PC, "--data-dir", str(new)).out
    assert answer(cli("memory", "rebuild", "--json", "--data-dir", str(new)))["done"] == 4
    assert PC in cli("memory", "search", "富士通", "--data-dir", str(new)).out


def test_what_was_forgotten_since_stays_forgotten(cli: Cli, house: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    assert SECRET.encode() in file.read_bytes()
    assert cli("memory", "forget", PC, "--yes").code == 0
    found = answer(cli("restore", str(file), "--yes", "--json"))
    assert found["forgotten_memories"] == 2
    assert found["worlds"] == ["home"]
    aside = Path(found["moved_to"])
    assert (aside / "worlds" / "home" / "session.sqlite").is_file()
    assert cli("memory", "show", PC).code == 1
    assert PC not in cli("memory", "search", "富士通").out
    assert TEA in cli("memory", "search", "お茶").out
    assert SECRET.encode() not in (house / "worlds" / "home" / "session.sqlite").read_bytes()


def test_restoring_says_where_the_old_data_is(cli: Cli, house: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    done = cli("restore", str(file), "--yes")
    assert done.code == 0
    assert str(house / "replaced-") in done.out
    assert "memory rebuild" in done.err


def test_restoring_needs_a_yes(cli: Cli, house: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    before = names(house)
    done = cli("restore", str(file))
    assert done.code == 2
    assert "--yes" in done.err
    assert "It is whole: made 20" in done.err
    assert names(house) == before


def test_who_says_no_keeps_what_is_there(
    cli: Cli, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.tar"
    assert cli("backup", str(file)).code == 0
    before = names(house)
    stdin = type("Typed", (), {"isatty": lambda self: True, "readline": lambda self: "いいえ\n"})()
    monkeypatch.setattr("server.commands.asking.sys", type("S", (), {"stdin": stdin}))
    done = cli("restore", str(file))
    assert (done.code, names(house)) == (1, before)
    assert "Nothing was changed" in done.err


@pytest.mark.parametrize("yes", [["--yes"], []])
@pytest.mark.parametrize("content", [b"", b"not a tar", b"\0" * 10240, b"manifest.json", b"cut", b"another house"])
def test_a_file_that_cannot_be_restored_changes_nothing_and_nobody_is_asked(
    cli: Cli, house: Path, tmp_path: Path, content: bytes, yes: list[str]
) -> None:
    file = tmp_path / "out.tar"
    if content == b"cut":
        assert cli("backup", str(file)).code == 0
        content = file.read_bytes()[:-20_000]
    elif content == b"another house":
        fill(tmp_path / "theirs")
        assert cli("backup", str(file), "--data-dir", str(tmp_path / "theirs")).code == 0
        content = file.read_bytes()
    file.write_bytes(content)
    done = cli("restore", str(file), *yes)
    assert done.code == 1
    assert ("backup_foreign" in done.err) is (len(content) <= 10_240), "which no tar of ours is as small as"
    assert "戻しますか" not in done.err
    assert "not_confirmed" not in done.err
    assert "backup_" in done.err
    assert "Traceback" not in done.err
    assert PC in cli("memory", "search", "富士通").out
    assert [name for name in names(house) if "replaced" in name] == []


def test_a_file_that_is_not_there_is_wrong_use(cli: Cli, data_dir: Path) -> None:
    assert cli("restore", "no-such.tar", "--yes").code == 2
    assert not data_dir.exists()


def test_a_folder_in_use_is_left_alone(cli: Cli, house: Path, tmp_path: Path) -> None:
    with hold_data_dir(house):
        done = cli("backup", str(tmp_path / "out.tar"))
    assert done.code == 1
    assert "data_in_use" in done.err
    assert names(tmp_path) == ["data"]
