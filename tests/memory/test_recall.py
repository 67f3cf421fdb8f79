"""`Recall` over real SQLite, the real local index, and an embedding whose vectors are made of words."""

from __future__ import annotations

import asyncio
import datetime as dt
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from server.engines.base import EmbeddingFingerprint
from server.errors import EmbeddingError, MemoryIndexError, NotFoundError, RequestError, StorageError
from server.events import Samples
from server.memory.fusion import SUMMARIES_AND_SOURCES
from server.memory.index.base import IndexPayload, IndexPoint, MemoryIndex
from server.memory.index.factory import open_index
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery
from server.storage.database import Databases
from server.storage.memories import supersede
from server.storage.memory_records import Memory
from server.storage.words import entity_key, tokens
from tests.storage.house import NOW
from tests.storage.remembered import PERSONA, exchange, remember

pytestmark = pytest.mark.integration

TOKYO = ZoneInfo("Asia/Tokyo")
DIMENSIONS = 64
SAME_MEANING = {"pc": "コンピューター", "パソコン": "コンピューター", "にゃんこ": "猫"}


class WordVectors:
    """Texts that share words point the same way; `SAME_MEANING` shares no word and points the same way too."""

    name = "words"
    fingerprint = EmbeddingFingerprint("words", DIMENSIONS)

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        if self.error is not None:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
        return np.stack([_vector(text) for text in texts])

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        return np.stack([_vector(text) for text in texts])


def _vector(text: str) -> Samples:
    for one, other in SAME_MEANING.items():
        text = text.lower().replace(one, other)
    vector = np.full(DIMENSIONS, 0.01, np.float32)
    for word in tokens(text):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


class House:
    def __init__(self, databases: Databases, index: MemoryIndex) -> None:
        self.databases = databases
        self.index = index
        self.embedding = WordVectors()
        self.recall = Recall(lambda: databases.world(write=False), index, self.embedding)

    async def remember(self, number: int, summary: str, *, vector: bool = True, **changes: Any) -> Memory:
        memory = await remember(self.databases, number, summary, **changes)
        if vector:
            await self.put(memory)
        return memory

    async def put(self, memory: Memory) -> None:
        payload = IndexPayload(
            topic=memory.topic,
            entity_keys=tuple(entity_key(name) for name in memory.entities),
            memory_type=memory.memory_type,
            occurred_at=memory.occurred_at,
            status=memory.status,
            speakers=memory.speakers,
            persona_id=memory.persona_id,
            channel_id=memory.channel_id,
            visibility=memory.visibility,
        )
        await self.index.upsert([IndexPoint(memory.memory_id, _vector(f"{memory.topic}\n{memory.summary}"), payload)])

    async def found(self, text: str, **changes: Any) -> list[str]:
        result = await self.recall.search(asked(text, **changes))
        return [one.memory.summary for one in result.candidates]


def asked(text: str, **changes: Any) -> SearchQuery:
    values: dict[str, Any] = {"persona": PERSONA, "speaker": None, "now": NOW, "zone": TOKYO}
    return SearchQuery(text, **(values | changes))


@pytest.fixture(params=["local", "edge"])
async def house(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    index = open_index(request.param, tmp_path / "index", DIMENSIONS, WordVectors.fingerprint)
    await index.open()
    try:
        async with await Databases.open(tmp_path / "data", "home") as databases:
            await exchange(databases, 1, "こんにちは")
            yield House(databases, index)
    finally:
        await index.close()


async def test_the_most_like_comes_first_with_its_cosine(house: House) -> None:
    await house.remember(1, "猫のナギマルを迎えた。", topic="猫", entities=("ナギマル",))
    await house.remember(2, "富士通のパソコンを買った。", topic="買い物")
    result = await house.recall.search(asked("富士通のパソコン"))
    best = result.candidates[0]
    assert best.memory.summary == "富士通のパソコンを買った。"
    assert best.retrieval_score == pytest.approx(
        float(_vector("富士通のパソコン") @ _vector("買い物\n" + best.memory.summary)), abs=1e-5
    )
    assert result.searched.words_only is None


async def test_other_words_for_the_same_are_found_by_vectors(house: House) -> None:
    await house.remember(1, "猫を迎えた。", topic="猫")
    assert await house.found("にゃんこ") == ["猫を迎えた。"]


async def test_exact_words_of_a_source_turn_bring_up_its_memory(house: House) -> None:
    await exchange(house.databases, 2, "ハコブネ電機で四万九千八百円だった")
    await house.remember(1, "中古ノートを買った。", topic="買い物", source_turn_ids=(20,))
    await house.remember(2, "散歩をした。", topic="散歩")
    assert (await house.found("ハコブネ電機"))[0] == "中古ノートを買った。"


@pytest.mark.parametrize(
    ("said", "asks"),
    [("ハコブネ電機で四万九千八百円だった", "ハコブネ電機"), ("It came from Harbor Street", "Harbor Street")],
)
async def test_days_and_type_hold_for_what_only_the_words_of_its_source_find(
    house: House, said: str, asks: str
) -> None:
    at = NOW - dt.timedelta(days=40)
    await exchange(house.databases, 2, said)
    await house.remember(1, "中古ノートを買った。", topic="買い物", source_turn_ids=(20,), occurred_at=at)
    await house.remember(2, "散歩が好き。", topic="散歩", entities=("公園",), memory_type="preference")
    day = at.astimezone(TOKYO).date()
    within = {"date_from": day, "date_to": day}
    assert await house.found(asks, **within) == ["中古ノートを買った。"]
    assert await house.found(asks, date_from=day + dt.timedelta(days=1)) == ["散歩が好き。"]
    assert (await house.found(asks, memory_type="episode"))[0] == "中古ノートを買った。"
    assert await house.found(asks, memory_type="preference") == ["散歩が好き。"]
    assert await house.found(asks, **within, memory_type="episode", entities=("富士通",)) == ["中古ノートを買った。"]


async def test_what_was_said_a_minute_ago_is_found_before_it_is_a_memory(house: House) -> None:
    session = await exchange(house.databases, 2, "鍵は青い缶の中")
    result = await house.recall.search(asked("青い缶"))
    assert [turn.text for turn in result.said] == ["鍵は青い缶の中"]
    same = await house.recall.search(asked("青い缶", except_session_id=session))
    assert same.said == (), "the conversation in progress is in the prompt already"


async def test_a_memory_without_its_vector_is_found_by_words_and_has_no_score(house: House) -> None:
    await house.remember(1, "青い傘を買った。", vector=False)
    result = await house.recall.search(asked("青い傘"))
    assert [one.retrieval_score for one in result.candidates] == [None]


async def test_days_given_are_never_loosened(house: House) -> None:
    await house.remember(1, "傘を買った。", occurred_at=NOW - dt.timedelta(days=40))
    nothing = await house.found("傘", date_from=dt.date(2026, 11, 20), date_to=dt.date(2026, 11, 30))
    assert nothing == []
    day = (NOW - dt.timedelta(days=40)).astimezone(TOKYO).date()
    assert await house.found("傘", date_from=day, date_to=day) == ["傘を買った。"]


async def test_a_range_holds_its_last_local_day_to_the_end(house: House) -> None:
    await house.remember(1, "傘を買った。", occurred_at=dt.datetime(2026, 11, 10, 23, 59, tzinfo=TOKYO))
    await house.remember(2, "傘を直した。", occurred_at=dt.datetime(2026, 11, 11, 0, 0, tzinfo=TOKYO))
    tenth = dt.date(2026, 11, 10)
    assert await house.found("傘", date_from=tenth, date_to=tenth) == ["傘を買った。"]


async def test_days_in_the_question_raise_what_happened_then(house: House) -> None:
    for number, days_ago in ((1, 1), (2, 60)):
        await house.remember(number, f"傘を買った{number}。", occurred_at=NOW - dt.timedelta(days=days_ago))
    result = await house.recall.search(asked("昨日の傘"))
    assert result.candidates[0].memory.summary == "傘を買った1。"
    assert result.searched.days == ("昨日",)
    assert len(result.candidates) == 2, "a day named in passing hides nothing"


async def test_entities_narrow_and_are_given_up_before_the_type(house: House) -> None:
    await house.remember(1, "傘を買った。", entities=("ミドリ堂",), memory_type="episode")
    await house.remember(2, "傘が好き。", entities=("アオイ屋",), memory_type="preference")
    assert await house.found("傘", entities=("ﾐﾄﾞﾘ堂",)) == ["傘を買った。"]
    one = await house.recall.search(asked("傘", entities=("どこにもない",), memory_type="preference"))
    assert [found.memory.summary for found in one.candidates] == ["傘が好き。"]
    assert one.searched.loosened == ("entities",)
    both = await house.recall.search(asked("傘", entities=("どこにもない",), memory_type="decision"))
    assert len(both.candidates) == 2
    assert both.searched.loosened == ("entities", "memory_type")


async def test_private_memories_are_found_only_by_whose_they_are(house: House) -> None:
    await exchange(house.databases, 2, "内緒の指輪の話", channel_id="web:1", private=True, speaker_id="tsumugu")
    await house.remember(1, "指輪を買った。", visibility="private", speakers=("tsumugu",), source_turn_ids=(20,))
    assert await house.found("指輪", speaker="tsumugu") == ["指輪を買った。"]
    for stranger in (None, "tokiwa"):
        result = await house.recall.search(asked("指輪", speaker=stranger))
        assert (result.candidates, result.said) == ((), ())
    assert await house.found("指輪", speaker="tsumugu", persona="other") == []


async def test_superseded_memories_are_history(house: House) -> None:
    old = await house.remember(1, "傘は三千円。")
    new = await house.remember(2, "傘は二千円。")
    async with house.databases.world() as db:
        await house.put(await supersede(db, old.memory_id, new.memory_id, now=NOW))
    assert await house.found("傘") == ["傘は二千円。"]
    assert sorted(await house.found("傘", history=True)) == ["傘は三千円。", "傘は二千円。"]


async def test_equals_come_newest_first(house: House) -> None:
    for number, days_ago in ((1, 3), (2, 1), (3, 2)):
        await house.remember(number, "傘を買った。", occurred_at=NOW - dt.timedelta(days=days_ago))
    result = await house.recall.search(asked("傘"))
    assert [one.memory.memory_id[-1] for one in result.candidates] == ["2", "3", "1"]


async def test_two_like_things_are_ambiguous_and_one_thing_is_not(house: House) -> None:
    await house.remember(1, "猫のナギマルが来た。", topic="猫", entities=("ナギマル",))
    await house.remember(2, "猫のサザナミが来た。", topic="猫", entities=("サザナミ",))
    assert (await house.recall.search(asked("猫"))).ambiguous
    assert not (await house.recall.search(asked("猫のナギマル"))).ambiguous


@pytest.mark.parametrize("trouble", ["no index", "index error", "model error", "slow model"])
async def test_without_vectors_words_still_find_and_it_is_told(
    house: House, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.remember(1, "青い傘を買った。")
    recall = Recall(
        lambda: house.databases.world(write=False),
        None if trouble == "no index" else house.index,
        house.embedding,
        vectors_seconds=0.2,
    )
    expected = {
        "no index": "index_unavailable",
        "index error": "index_mismatch",
        "model error": "embedding_failed",
        "slow model": "timeout",
    }
    if trouble == "index error":

        async def fails(*_: Any, **__: Any) -> Any:
            raise MemoryIndexError("other model", code="index_mismatch")

        monkeypatch.setattr(house.index, "search", fails)
    house.embedding.error = EmbeddingError("broken") if trouble == "model error" else None
    house.embedding.hangs = trouble == "slow model"
    result = await recall.search(asked("青い傘"))
    assert [one.memory.summary for one in result.candidates] == ["青い傘を買った。"]
    assert result.searched.words_only == expected[trouble]


async def test_what_is_not_like_the_question_is_left_out_among_many(house: House) -> None:
    await house.remember(1, "猫を迎えた。", topic="猫")
    strict = replace(SUMMARIES_AND_SOURCES, found_from_memories=1, found_cosine=0.5, found_words=0.5)
    recall = Recall(lambda: house.databases.world(write=False), house.index, house.embedding, recipe=strict)
    result = await recall.search(asked("量子力学"))
    assert result.candidates == ()
    assert result.searched.dropped == 1


async def test_the_source_is_read_with_what_was_said_around_it(house: House) -> None:
    await exchange(house.databases, 2, "三万円だった", "そうなんだ。")
    memory = await house.remember(1, "パソコンを買った。", source_turn_ids=(20,))
    exact = await house.recall.read_source(asked("x"), memory_id=memory.memory_id)
    assert [turn.text for turn in exact] == ["三万円だった"]
    around = await house.recall.read_source(asked("x"), source_turn_ids=[20], around=1)
    assert [turn.source_turn_id for turn in around] == [11, 20, 21]


async def test_a_source_that_may_not_be_read_is_not_there(house: House) -> None:
    await exchange(house.databases, 2, "内緒", channel_id="web:1", private=True, speaker_id="tsumugu")
    memory = await house.remember(
        1, "内緒の話。", visibility="private", speakers=("tsumugu",), source_turn_ids=(20,), vector=False
    )
    for stranger in (asked("x"), asked("x", speaker="tokiwa"), asked("x", speaker="tsumugu", persona="other")):
        with pytest.raises(NotFoundError):
            await house.recall.read_source(stranger, memory_id=memory.memory_id)
        with pytest.raises(NotFoundError):
            await house.recall.read_source(stranger, source_turn_ids=[20])
    assert await house.recall.read_source(asked("x", speaker="tsumugu"), memory_id=memory.memory_id)


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "  "},
        {"limit": 0},
        {"limit": 51},
        {"date_from": dt.date(2026, 2, 1), "date_to": dt.date(2026, 1, 1)},
    ],
)
async def test_bad_arguments_are_told(house: House, changes: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        await house.recall.search(replace(asked("傘"), **changes))
    with pytest.raises(RequestError):
        await house.recall.read_source(asked("x"))


async def test_a_broken_database_is_told_as_itself(house: House) -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[Any]:
        raise StorageError("no such disk")
        yield

    with pytest.raises(StorageError, match="no such disk"):
        await Recall(broken, house.index, house.embedding).search(asked("傘"))


@pytest.mark.parametrize("text", ["😀", "\ud800", "\0", '" OR 1', "あ" * 5000])
async def test_odd_questions_find_nothing_wrong(house: House, text: str) -> None:
    await house.remember(1, "傘を買った。")
    assert await house.recall.search(asked(text)) is not None
