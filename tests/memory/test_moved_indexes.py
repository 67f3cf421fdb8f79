"""The index moves to another backend: the one before it goes, and keeps nothing of what is forgotten meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.memory import service
from server.memory.index.factory import open_index
from server.memory.index.server import ServerIndex
from server.memory.owner import Wanted
from server.memory.service import LongTermMemory
from tests.memory.home import Home, OtherVectors
from tests.memory.said_and_noted import files_with

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]

NAME = "富士通"


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings of `server`, with the client's in-memory stand-in for a Qdrant server that stays up."""
    from qdrant_client import AsyncQdrantClient

    client = AsyncQdrantClient(location=":memory:")

    def opened(kind: Any, folder: Path, dimensions: int, fingerprint: Any, url: Any, key: Any) -> Any:
        if kind == "server":
            return ServerIndex(url, fingerprint, collection="stackchan-test", client=client)
        return open_index(kind, folder, dimensions, fingerprint, url, key)

    monkeypatch.setattr(service, "open_index", opened)
    return {"index_kind": "server", "index_url": "http://index.test"}


def left(home: Home) -> list[str]:
    """What is left of an index on this machine."""
    return sorted(path.name for path in home.world.glob("index*") if path.is_dir())


def named_in_indexes(home: Home) -> bool:
    return any(files_with(folder, NAME) for folder in home.world.glob("index*") if folder.is_dir())


async def begun(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    async with home.open():
        await home.remember_the_pc()
    assert named_in_indexes(home)
    return home


async def forget_the_pc(memory: LongTermMemory) -> None:
    (pc,) = (await memory.owner.find(Wanted()))["memories"]
    answer = await memory.owner.forget(pc["memory_id"])
    assert answer["still_found"] == []


@pytest.mark.parametrize("change", [{"index_kind": "edge"}, {"embedding": OtherVectors()}], ids=["edge", "model"])
async def test_what_is_forgotten_is_not_left_in_an_index_that_does_not_fit(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    home = await begun(tmp_path)
    async with home.open(**change) as memory:
        assert left(home) == ["index"], "only opening it takes nothing away"
        await forget_the_pc(memory)
        assert not named_in_indexes(home)
        assert await memory.rebuild() == 0
    async with home.open(**change) as memory:
        assert memory.index_problem is None


async def test_a_rebuild_with_another_backend_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    home = await begun(tmp_path)
    async with home.open(index_kind="edge") as memory:
        await memory.rebuild()
        assert left(home) == ["index"]
        await forget_the_pc(memory)
        await memory.worker.idle()
    async with home.open(index_kind="edge") as memory:
        await memory.rebuild()
    assert not named_in_indexes(home)


async def test_the_index_on_this_machine_goes_when_the_one_on_the_server_is_complete(
    tmp_path: Path, moved: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    home = await begun(tmp_path)
    async with home.open(**moved) as memory:
        assert left(home) == ["index"], "the vectors are not on the server yet"
        await memory.worker.idle()
    async with home.open(**moved) as memory:
        assert left(home) == []
        assert (await home.search())["candidates"][0]["retrieval_score"] > 0.5
    assert [record.message for record in caplog.records if "was removed" in record.message] == [
        "the old memory index index was removed: the vectors are on the Qdrant server now"
    ]
    # And back again: made anew.
    async with home.open() as memory:
        await memory.worker.idle()
        assert (await home.search())["candidates"][0]["retrieval_score"] > 0.5


async def test_a_rebuild_on_the_server_removes_the_index_on_this_machine(tmp_path: Path, moved: dict[str, Any]) -> None:
    home = await begun(tmp_path)
    async with home.open(start=False, **moved) as memory:
        assert left(home) == ["index"]
        await memory.rebuild()
        assert left(home) == []


async def test_what_is_forgotten_before_the_move_is_complete_is_left_in_no_index(
    tmp_path: Path, moved: dict[str, Any]
) -> None:
    home = await begun(tmp_path)
    async with home.open(start=False, **moved) as memory:
        assert left(home) == ["index"]
        await forget_the_pc(memory)
        assert left(home) == []


async def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, moved: dict[str, Any]) -> None:
    home = Home(tmp_path)
    foreign = home.world / "index"
    async with home.open(start=False, **moved) as memory:
        foreign.mkdir(parents=True)
        (foreign / "letter.txt").write_text(NAME, encoding="utf-8")
        await memory.rebuild()
        assert (foreign / "letter.txt").exists()
