"""What the owner sees in process: figures, versions, everybody's memories; and forgetting beside other work."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from server.errors import GoneError, NotFoundError, RequestError, StorageError
from server.memory.owner import MemoryOwner, Wanted
from server.storage import memories
from server.storage.memory_records import Memory, MemoryChanges
from server.storage.turns import finish_turn
from tests.memory.making import DIMENSIONS, PERSONA, TOKYO, House, WordVectors, house
from tests.memory.said_and_noted import BOUGHT, files_with, summaries
from tests.storage.remembered import new_memory

pytestmark = pytest.mark.integration

CAT, CORRECTED = "猫のコムギが家に来た", "富士通のパソコン、違う、二万五千円だった"


def owner_of(home: House, **options: Any) -> MemoryOwner:
    return MemoryOwner(
        home.databases,
        home.keeper,
        home.indexer,
        home.recall,
        WordVectors.fingerprint,
        persona_id=PERSONA,
        clock=home.clock,
        zone=TOKYO,
        wake=home.worker.wake,
        **options,
    )


async def ask(home: House, text: str, told: list[str]) -> None:
    """An exchange that searched memory and told these."""
    from server.storage.turns import add_user_turn, create_turn

    session_id = await home.open_session()
    turn_id = await home.turn_ids.next_id()
    async with home.databases.world() as db:
        await create_turn(
            db,
            turn_id=turn_id,
            session_id=session_id,
            channel_id="stackchan:desk",
            device_id="desk",
            input_kind="text",
            persona_id=PERSONA,
            started_at=home.at,
        )
        await add_user_turn(
            db, turn_id, 5_000 + turn_id, text=text, language="ja", speaker_id=None, said_at=home.at, zone="Asia/Tokyo"
        )
        memory = {"searched": True, "memory_ids": told, "source_checked": False}
        await finish_turn(db, turn_id, outcome="ok", ended_at=home.at, memory=memory)
    await home.end(session_id)


async def test_searches_and_what_was_told_wrong_are_counted(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        owner = owner_of(home)
        assert ((await owner.status())["searches"], (await owner.status())["misses_corrected"]) == (0, 0)
        await home.talk(BOUGHT)
        (bought,) = await home.memories()
        await ask(home, "いくらで買った", [bought.memory_id])
        await ask(home, "ほかには", [])
        assert ((await owner.status())["searches"], (await owner.status())["misses_corrected"]) == (2, 0)
        await home.talk(CORRECTED)
        assert ((await owner.status())["searches"], (await owner.status())["misses_corrected"]) == (2, 1)


async def test_the_versions_of_a_memory_are_told_in_their_order(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        async with home.databases.world() as db:
            for number in (1, 2, 3):
                await memories.add(db, new_memory(number, f"第{number}版", channel_id="stackchan:desk"), now=home.at)
            for old, new in ((1, 2), (2, 3)):
                await memories.supersede(db, f"mem_{old:026d}", f"mem_{new:026d}", now=home.at)
        owner = owner_of(home)
        first, last = await owner.show(f"mem_{1:026d}"), await owner.show(f"mem_{3:026d}")
        assert [one["summary"] for one in first["newer"]] == ["第2版", "第3版"]
        assert [one["summary"] for one in last["older"]] == ["第2版", "第1版"]
        assert (first["older"], last["newer"]) == ([], [])


async def test_what_was_said_a_moment_ago_is_found_before_there_is_any_memory(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.say(await home.open_session(), "お茶が好き", "うん。")
        found = await owner_of(home).find(Wanted(query="お茶"))
    assert found["memories"] == []
    assert [one["text"] for one in found["not_yet_taken_in"]] == ["お茶が好き"]


async def test_a_search_goes_over_all_personas_and_people_and_finds_each_memory_once(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        async with home.databases.world() as db:
            other: dict[str, Any] = {"channel_id": "stackchan:desk", "entities": ("コムギ",)}
            await memories.add(db, new_memory(1, "コムギは白い", persona_id="second", **other), now=home.at)
            private = {"visibility": "private", "speakers": ("mika", "tsumugu"), **other}
            await memories.add(db, new_memory(2, "コムギに内緒のおやつ", **private), now=home.at)
        home.worker.wake()
        await home.worker.idle()
        found = await owner_of(home).find(Wanted(query="コムギ"))
        assert sorted(one["summary"] for one in found["memories"]) == sorted(
            ["コムギは白い", "コムギに内緒のおやつ", "猫のコムギが家に来た。"]
        )
        assert len((await owner_of(home).find(Wanted(query="コムギ", limit=1)))["memories"]) == 1


async def test_a_search_leaves_out_nobody_however_many_they_are(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        async with home.databases.world() as db:
            for number in range(1, 61):
                whose: dict[str, Any] = {"visibility": "private", "speakers": (f"person-{number:02d}",)}
                text = "金庫の番号は九八七" if number == 60 else f"{number}番の棚には茶碗"
                await memories.add(db, new_memory(number, text, channel_id="stackchan:desk", **whose), now=home.at)
        found = await owner_of(home).find(Wanted(query="金庫の番号", limit=50))
        assert "金庫の番号は九八七" in [one["summary"] for one in found["memories"]]


async def test_what_would_go_is_what_goes(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        (bought,) = await home.memories()
        await ask(home, "いくらで買った", [bought.memory_id])
        await home.talk(CAT)
        owner = owner_of(home)
        for also_source in (False, True):
            would = await owner.would_forget(bought.memory_id, also_source=also_source)
            assert [one["memory_id"] for one in would["memories"]] == [bought.memory_id]
            assert [one["text"] for one in would["said"] if one["role"] == "user"] == (
                [BOUGHT, "いくらで買った"] if also_source else []
            )
        assert len(await home.memories()) == 2, "nothing has gone"
        done = await owner.forget(bought.memory_id)
        before, after = (
            (len(would["memories"]), would["blanked_turns"]),
            (len(done["forgotten"]), done["blanked_turns"]),
        )
        assert before == after == (1, 2)
        again = await owner.would_forget(bought.memory_id)
        assert ([one["status"] for one in again["memories"]], again["said"]) == (["forgotten"], []), "as `forget` does"
        with pytest.raises(NotFoundError):
            await owner.would_forget("mem_x")


@pytest.mark.parametrize(
    "query", ["\ud800コムギ\udfff", "コム\0ギ", '"コムギ" OR NOT (', "👩‍👩‍👧‍👦コムギ", "コムギ" * 300]
)
async def test_odd_questions_are_answered(tmp_path: Path, query: str) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        found = await owner_of(home).find(Wanted(query=query))
        assert [one["summary"] for one in found["memories"]] == ["猫のコムギが家に来た。"]


async def test_what_is_not_there_and_what_was_forgotten_are_different(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        (cat,) = await home.memories()
        owner = owner_of(home)
        for attempt in (owner.show("mem_x"), owner.edit("mem_x", MemoryChanges(topic="x")), owner.forget("mem_x")):
            with pytest.raises(NotFoundError) as missing:
                await attempt
            assert missing.value.code == "memory_not_found"
        await owner.forget(cat.memory_id)
        for attempt in (owner.show(cat.memory_id), owner.edit(cat.memory_id, MemoryChanges(topic="x"))):
            with pytest.raises(GoneError) as gone:
                await attempt
            assert gone.value.code == "memory_forgotten"
        assert (await owner.status())["memories"] == {"active": 0, "superseded": 0, "forgotten": 1}


async def test_an_edit_that_a_forgetting_overtakes_is_told_that_it_was_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(CAT)
        (cat,) = await home.memories()
        owner, edit = owner_of(home), home.keeper.edit

        async def overtaken(memory_id: str, changes: MemoryChanges) -> Memory:
            await owner.forget(memory_id)
            return await edit(memory_id, changes)

        async def failing(memory_id: str, changes: MemoryChanges) -> Memory:
            raise StorageError("The disk failed.")

        monkeypatch.setattr(home.keeper, "edit", failing)
        with pytest.raises(StorageError, match="The disk failed"):
            await owner.edit(cat.memory_id, MemoryChanges(topic="x"))
        monkeypatch.setattr(home.keeper, "edit", overtaken)
        with pytest.raises(GoneError) as gone:
            await owner.edit(cat.memory_id, MemoryChanges(topic="x"))
        assert gone.value.code == "memory_forgotten"


@pytest.mark.parametrize(
    "changes",
    [
        MemoryChanges(),
        MemoryChanges(summary="\0 "),
        MemoryChanges(summary="\u200d"),
        MemoryChanges(entities=("富士通", "\u200d")),
        MemoryChanges(entities=("",)),
        MemoryChanges(summary="あ" * 4_001),
        MemoryChanges(topic="あ" * 201),
        MemoryChanges(importance=0),
        MemoryChanges(entities=("あ",) * 51),
        MemoryChanges(occurred_at=dt.datetime(9999, 12, 31, tzinfo=dt.UTC)),
        MemoryChanges(occurred_at=dt.datetime(1, 1, 1, tzinfo=TOKYO)),
    ],
)
async def test_a_senseless_edit_is_refused_before_anything_is_looked_up(changes: MemoryChanges) -> None:
    nothing: Any = None
    owner = MemoryOwner(
        nothing,
        nothing,
        _rebuilds_nothing(),
        nothing,
        WordVectors.fingerprint,
        persona_id=PERSONA,
        clock=nothing,
        zone=TOKYO,
    )
    with pytest.raises(RequestError):
        await owner.edit("mem_x", changes)


def _rebuilds_nothing() -> Any:
    class Nothing:
        index = None

        async def rebuild(self, progress: Any) -> int:
            return 0

    return Nothing()


async def test_a_memory_forgotten_during_a_rebuild_gets_no_vector_back(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CAT)
        bought = next(one for one in await home.memories() if "富士通" in one.summary)
        owner = owner_of(home)
        embed = home.embedding.embed_documents
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(texts: Any) -> Any:
            waiting.set()
            await go_on.wait()
            return await embed(texts)

        home.embedding.embed_documents = slowly  # type: ignore[method-assign]
        owner.rebuilding.start()
        await waiting.wait()
        forgotten = asyncio.create_task(owner.forget(bought.memory_id))
        assert (await forgotten)["still_found"] == []
        go_on.set()
        await owner.rebuilding.wait()
        assert owner.rebuilding.state()["state"] == "done"
        await home.worker.idle()
        assert bought.memory_id not in await home.index.ids()
        assert len(await home.index.ids()) == 1
        assert files_with(tmp_path, "富士通") == []
        await owner.close()
        assert home.index.fingerprint.dimensions == DIMENSIONS
