"""What `stackchan memory` tells before is what it does, with a server and without; and takes what the server takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.memory.audit import SAMPLE_LIMIT
from server.memory.recall import CANDIDATES_LIMIT
from server.storage.database import Databases
from tests.commands.conftest import Cli
from tests.commands.memory_house import PC, TEA, WordsEmbedding, fill, in_database, use_embedding
from tests.commands.memory_server import PC_ID, TEA_ID, MemoryServer, said
from tests.storage.remembered import exchange

pytestmark = pytest.mark.integration


@pytest.fixture
def server(data_dir: Path) -> Iterator[MemoryServer]:
    with MemoryServer() as running:
        running.announce(data_dir)
        yield running


@pytest.fixture
def house(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_embedding(monkeypatch, WordsEmbedding)
    fill(data_dir)
    return data_dir


def amounts(text: str) -> tuple[str, str]:
    """How many memories and how many turns a text tells of, before (on the error stream) or after."""
    text = text.partition("This will be forgotten")[2] or text
    memories, turns = re.search(r"\d+ memor(?:y|ies)", text), re.search(r"\d+ turns?\b", text)
    assert memories is not None
    assert turns is not None
    return memories[0], turns[0]


def test_the_numbers_before_are_those_after(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "forget", PC_ID, "--yes")
    assert amounts(done.err) == amounts(done.out) == ("2 memories", "2 turns")
    asked = [(how, path) for how, path, _ in server.asked]
    assert asked == [("GET", f"/v1/memories/{PC_ID}/forgetting"), ("DELETE", f"/v1/memories/{PC_ID}")]


def test_so_they_are_without_a_server_with_all_that_would_be_blanked(cli: Cli, house: Path) -> None:
    async def told_again(databases: Databases) -> None:
        call = {"name": "search_memory", "arguments": {}, "result": {"candidates": [{"memory_id": PC}]}}
        await exchange(databases, 4, "パソコンはいくらだった？", "二万五千円だよ。", tool_calls=[call])

    in_database(house, told_again)
    done = cli("memory", "forget", PC, "--yes")
    assert done.code == 0
    assert amounts(done.err) == amounts(done.out) == ("2 memories", "3 turns")
    for going in ("25,000円", "30,000円", "違う、二万五千円", "二万五千円だよ。", "パソコンはいくらだった？"):
        assert going in done.err
    assert "お茶" not in done.err


def test_words_that_are_kept_are_not_counted(cli: Cli, house: Path) -> None:
    done = cli("memory", "forget", TEA, "--yes", "--keep-words")
    assert done.code == 0
    assert "The words in the log stay" in done.err
    assert "1 memory forgotten, the words of 0 turns blanked." in done.out


def test_a_forgetting_can_be_run_again(cli: Cli, house: Path) -> None:
    assert cli("memory", "forget", PC, "--yes").code == 0
    again = cli("memory", "forget", PC, "--yes")
    assert again.code == 0
    assert "memory_forgotten" not in again.err


def test_of_very_much_that_goes_some_is_shown_and_the_rest_counted(cli: Cli, server: MemoryServer) -> None:
    server.sources[TEA_ID] = [said(number, "user", f"お茶{number}") for number in range(100, 150)]
    done = cli("memory", "forget", TEA_ID, "--yes")
    assert "お茶119" in done.err
    assert "お茶120" not in done.err
    assert "and 30 more that were said / ほか30件の発言" in done.err


def test_of_much_that_was_parked_the_rest_is_counted(cli: Cli, server: MemoryServer) -> None:
    parked = [{"kind": "index", "subject": f"mem_{number}", "code": "embedding_failed"} for number in range(100)]
    server.status = {**server.status, "parked": parked, "parked_count": 1234}
    done = cli("memory", "status")
    assert "mem_19" in done.out
    assert "mem_20" not in done.out
    assert "and 1,214 more / ほか1,214件" in done.out


@pytest.mark.parametrize(
    ("name", "option", "most"), [("search", "limit", CANDIDATES_LIMIT), ("audit", "sample", SAMPLE_LIMIT)]
)
def test_the_command_line_takes_as_much_as_the_server(cli: Cli, name: str, option: str, most: int) -> None:
    too_much = cli("memory", name, f"--{option}", str(most + 1))
    assert (too_much.code, str(most) in too_much.err) == (2, True)
    assert "memory_missing" in cli("memory", name, f"--{option}", str(most)).err, "it was taken, and looked for"
