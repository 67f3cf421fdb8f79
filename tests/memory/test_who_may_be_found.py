"""A search that is narrowed ranks what is left, by every backend alike: by status, by who said it, by whose it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.memory.indexer import index_point, memory_text
from server.memory.owner import Wanted
from server.memory.query_cache import CachedQueries
from server.storage import memories, memory_lookup
from server.storage.channels import ensure_channel
from server.storage.memory_records import MemoryFilter, NewMemory
from tests.fakes.engines import FakeEmbedding
from tests.memory.making import PERSONA, House, house
from tests.memory.said_and_noted import summaries
from tests.memory.test_owner import owner_of

pytestmark = pytest.mark.integration
CHANNEL = "stackchan:desk"


async def know(home: House, *told: tuple[str, dict[str, Any]]) -> list[str]:
    """Memories with these summaries and fields, their vectors in the index."""
    ids, now = [], home.clock()
    async with home.databases.world() as db:
        await ensure_channel(db, CHANNEL, kind="stackchan", now=now)
        for summary, fields in told:
            values: dict[str, Any] = {
                "memory_id": memories.new_memory_id(),
                "topic": "猫",
                "summary": summary,
                "entities": ("猫",),
                "memory_type": "fact",
                "occurred_at": now,
                "zone": "Asia/Tokyo",
                "language": "ja",
                "speakers": (),
                "confidence": "said",
                "importance": 3,
                "persona_id": PERSONA,
                "channel_id": CHANNEL,
                "visibility": "house",
                "source_turn_ids": (),
            }
            await memories.add(db, NewMemory(**values | fields), now=now)
            ids.append(values["memory_id"])
        stored = await memories.get_many(db, ids)
    vectors = await home.embedding.embed_documents([memory_text(memory) for memory in stored])
    assert home.index is not None
    await home.index.upsert([index_point(memory, vector) for memory, vector in zip(stored, vectors, strict=True)])
    return ids


@pytest.mark.parametrize("backend", ["local", "edge"])
async def test_of_many_that_fit_better_the_one_that_is_asked_for_is_found(tmp_path: Path, backend: Any) -> None:
    async with house(tmp_path, summaries, backend=backend) as home:
        better = [(f"猫の薬を買った。{number}回目。", {"speakers": ("hanako",)}) for number in range(60)]
        ids = await know(
            home,
            *better,
            ("夕方の公園で猫を見た長い話。", {"speakers": ("hanako",)}),
            ("夕方の公園で猫を見た長い話。", {"speakers": ("taro",)}),
        )
        async with home.databases.world() as db:
            await memories.supersede(db, ids[60], ids[0], now=home.clock())
        owner = owner_of(home)
        for narrowed, expected in (
            ({"status": "superseded"}, [ids[60]]),
            ({"speaker": "taro"}, [ids[61]]),
            ({"status": "superseded", "speaker": "hanako"}, [ids[60]]),
            ({"status": "superseded", "speaker": "taro"}, []),
        ):
            searched = await owner.find(Wanted(query="猫の薬を買った", limit=10, **narrowed))  # type: ignore[arg-type]
            listed = await owner.find(Wanted(limit=10, **narrowed))  # type: ignore[arg-type]
            assert [one["memory_id"] for one in searched["memories"]] == expected, narrowed
            assert [one["memory_id"] for one in listed["memories"]] == expected, narrowed


@pytest.mark.parametrize("backend", ["local", "edge"])
async def test_memories_of_others_do_not_make_few_memories_many(tmp_path: Path, backend: Any) -> None:
    """Among few, what is nearest is returned; among many, only what is near enough."""
    async with house(tmp_path, summaries, backend=backend) as home:
        few = home.recall.recipe.found_from_memories
        mine = [(f"猫の薬を{number}回買った。", {}) for number in range(10)]
        await know(home, *mine, *[(f"犬の薬を{number}回買った。", {"persona_id": "other"}) for number in range(few)])
        found = await home.recall.search(home.asked("zebra xylophone"))
        assert len(found.candidates) == 5
        assert found.searched.dropped == 0
        found = await home.recall.search(replace(home.asked("zebra xylophone"), persona="other"))
        assert (found.candidates, found.searched.dropped > 0) == ((), True)


async def test_who_is_named_in_a_question_is_who_it_is_about(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        names = ("Anna", "ann", "ミカ", "x", "owner")
        await know(home, *[(f"薬を買った。{name}", {"speakers": (name,)}) for name in names])
        async with home.databases.world(write=False) as db:
            for text, named in (
                ("What did anna buy?", ("Anna",)),
                ("Did Ann's cat buy it?", ("ann",)),
                ("Annabel and x", ()),
                ("ミカは何を買った？", ("ミカ",)),
                ("ＡＮＮＡとミカ", ("Anna", "ミカ")),
                ("", ()),
            ):
                assert await memory_lookup.speakers_named(db, text) == named, text
        found = await home.recall.search(home.asked("ミカは薬を買った？"))
        assert found.candidates[0].memory.speakers == ("ミカ",)


async def test_enough_is_counted_no_further(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await know(home, *[(f"猫{number}", {}) for number in range(3)], ("犬", {"persona_id": "other"}))
        async with home.databases.world(write=False) as db:
            mine = MemoryFilter(PERSONA, None)
            assert [await memory_lookup.at_least(db, mine, count) for count in (1, 3, 4)] == [True, True, False]


async def test_the_same_words_are_embedded_once_until_something_is_forgotten() -> None:
    class Counting(FakeEmbedding):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[str] = []

        async def embed_queries(self, texts: Any) -> Any:
            self.asked.extend(texts)
            return await super().embed_queries(texts)

    engine = Counting()
    cached = CachedQueries(engine)
    first = await cached.embed_queries(["猫", "犬", "猫"])
    again = await cached.embed_queries(["犬", "鳥"])
    assert (first.shape, again.shape, (await cached.embed_queries([])).shape) == ((3, 4), (2, 4), (0, 4))
    assert engine.asked == ["猫", "犬", "鳥"]
    cached.forget()
    await cached.embed_queries(["猫"])
    assert engine.asked[-1] == "猫"
    for number in range(100):
        await cached.embed_queries([str(number)])
    assert len(cached._kept) == 32
