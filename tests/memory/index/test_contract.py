"""What every backend promises: the same points give the same answers from each of them."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from server.errors import MemoryIndexError
from server.memory.index.base import EVERYTHING, IndexFilter, IndexPoint, MemoryIndex, point_id, rebuild
from tests.memory.index.indexes import (
    DIMENSIONS,
    NEW_YEAR,
    brute_force,
    make_points,
    memory_id,
    payload,
    search,
    unit,
)

# SQLite files, and an engine's own. What stands in for a server says what it leaves out.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]

TOKYO = ZoneInfo("Asia/Tokyo")
FILTERS = {
    "nothing": EVERYTHING,
    "one entity": IndexFilter(entity_keys=("entity3",)),
    "any of two entities": IndexFilter(entity_keys=("entity1", "entity2")),
    "a Japanese entity": IndexFilter(entity_keys=("富士通",)),
    "a topic": IndexFilter(topic=("話題 2",)),
    "types": IndexFilter(memory_type=("preference", "fact")),
    "active ones": IndexFilter(status=("active",)),
    "a speaker": IndexFilter(speakers=("guest",)),
    "persona, channel, visibility": IndexFilter(
        persona_id=("persona1",), channel_id=("stackchan:robot2",), visibility=("house",)
    ),
    "what a guest may read": IndexFilter(readable_by="guest"),
    "what a guest may read and is active": IndexFilter(readable_by="guest", status=("active",)),
    "what a stranger may read": IndexFilter(readable_by="nobody here"),
    "from a date": IndexFilter(occurred_from=NEW_YEAR + dt.timedelta(hours=200)),
    "before a date": IndexFilter(occurred_before=NEW_YEAR + dt.timedelta(hours=17)),
    "a day in Tokyo": IndexFilter(
        occurred_from=dt.datetime(2026, 1, 5, tzinfo=TOKYO), occurred_before=dt.datetime(2026, 1, 6, tzinfo=TOKYO)
    ),
    "everything at once": IndexFilter(
        entity_keys=("entity2", "entity4"),
        status=("active",),
        memory_type=("episode", "preference", "decision"),
        occurred_from=NEW_YEAR + dt.timedelta(hours=10),
        occurred_before=NEW_YEAR + dt.timedelta(hours=390),
    ),
    "nothing left": IndexFilter(entity_keys=("never said",)),
}


async def test_order_is_that_of_brute_force_under_every_filter(index: MemoryIndex) -> None:
    points = make_points(400)
    await index.upsert(points)
    for name, where in FILTERS.items():
        for query in np.random.default_rng(9).standard_normal((5, DIMENSIONS)).astype(np.float32):
            expected = brute_force(points, query, 20, where)
            hits = await search(index, points, query, 20, where)
            assert [hit.memory_id for hit in hits] == [found for found, _ in expected], name
            assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-5), name
            assert bool(hits) == (name != "nothing left")


async def test_a_day_is_the_one_of_its_zone(index: MemoryIndex) -> None:
    """Three memories around midnight in Tokyo; the range is inclusive at its start, exclusive at its end."""
    midnight = dt.datetime(2026, 3, 2, tzinfo=TOKYO)
    steps = (-1, 0, 1)
    points = [
        IndexPoint(memory_id(n), np.eye(DIMENSIONS, dtype=np.float32)[0], payload(occurred_at=midnight + n * step))
        for n, step in ((n, dt.timedelta(microseconds=1)) for n in steps)
        if n >= 0
    ]
    before = midnight - dt.timedelta(microseconds=1)
    points.append(IndexPoint("mem_before", points[0].vector, payload(occurred_at=before.astimezone(dt.UTC))))
    await index.upsert(points)
    day = IndexFilter(occurred_from=midnight, occurred_before=midnight + dt.timedelta(days=1))
    hits = await search(index, points, points[0].vector, 10, day)
    assert {hit.memory_id for hit in hits} == {memory_id(0), memory_id(1)}
    eve = IndexFilter(occurred_before=midnight)
    assert [hit.memory_id for hit in await search(index, points, points[0].vector, 10, eve)] == ["mem_before"]


async def test_only_the_ids_given_are_ranked(index: MemoryIndex) -> None:
    points = make_points(300)
    await index.upsert(points)
    allowed = points[5:290:3]
    query = points[4].vector
    hits = await index.search(query, limit=7, only=[point.memory_id for point in allowed] + ["mem_unknown"])
    assert [hit.memory_id for hit in hits] == [name for name, _ in brute_force(allowed, query, 7, EVERYTHING)]
    assert await index.search(query, limit=7, only=[]) == []
    assert [hit.memory_id for hit in await index.search(query, limit=7, only=[memory_id(9)])] == [memory_id(9)]


async def test_filters_are_taken_or_refused_never_ignored(index: MemoryIndex) -> None:
    points = make_points(10)
    await index.upsert(points)
    where = IndexFilter(status=("active",))
    if index.takes_filters:
        hits = await index.search(points[0].vector, limit=10, where=where)
        assert {hit.memory_id for hit in hits} == {memory_id(n) for n in range(10) if n % 7}
    else:
        with pytest.raises(MemoryIndexError) as raised:
            await index.search(points[0].vector, limit=10, where=where)
        assert raised.value.code == "index_invalid"


async def test_equal_scores_come_in_order_of_id_and_are_all_there(index: MemoryIndex) -> None:
    best, same, other = np.eye(DIMENSIONS, dtype=np.float32)[:3]
    tied = [IndexPoint(memory_id(n), same, payload(n)) for n in (31, 7, 19, 23, 2, *range(100, 140))]
    await index.upsert(
        [
            *tied,
            IndexPoint("mem_best", best, payload()),
            IndexPoint("mem_far", other, payload()),
        ]
    )
    hits = await index.search(best + 0.5 * same, limit=3)
    assert [hit.memory_id for hit in hits] == ["mem_best", *sorted(point.memory_id for point in tied)]
    assert hits[0].score == pytest.approx(1 / np.sqrt(1.25), abs=1e-6)


async def test_the_newest_of_a_memory_counts(index: MemoryIndex) -> None:
    first, second = np.eye(DIMENSIONS, dtype=np.float32)[:2]
    await index.upsert([IndexPoint("mem_a", first, payload(status="active")), IndexPoint("mem_b", second, payload())])
    await index.upsert([IndexPoint("mem_a", second, payload(status="forgotten"))])
    assert await index.count() == 2
    assert (await index.search(first, limit=1))[0].score == pytest.approx(0, abs=1e-6)
    if index.takes_filters:
        found = await index.search(second, limit=5, where=IndexFilter(status=("forgotten",)))
        assert [hit.memory_id for hit in found] == ["mem_a"]
    # Twice in one call: the later one.
    await index.upsert([IndexPoint("mem_c", second, payload()), IndexPoint("mem_c", first, payload())])
    assert (await index.search(first, limit=1))[0].memory_id == "mem_c"
    assert await index.ids() == {"mem_a", "mem_b", "mem_c"}


async def test_deleted_is_gone(index: MemoryIndex) -> None:
    points = make_points(60)
    await index.upsert(points)
    gone = [memory_id(n) for n in range(0, 60, 2)]
    await index.delete([*gone, "mem_never_there", ""])
    assert await index.count() == 30
    assert await index.ids() == {memory_id(n) for n in range(1, 60, 2)}
    left = [point for point in points if point.memory_id not in gone]
    hits = await index.search(points[0].vector, limit=60)
    assert [hit.memory_id for hit in hits] == [n for n, _ in brute_force(left, points[0].vector, 60, EVERYTHING)]
    assert await index.vectors(gone) == {}
    await index.delete([])
    assert await index.count() == 30


async def test_vectors_come_back_with_length_one(index: MemoryIndex) -> None:
    points = make_points(5)
    await index.upsert(points)
    found = await index.vectors([memory_id(1), memory_id(4), "mem_unknown"])
    assert set(found) == {memory_id(1), memory_id(4)}
    for number in (1, 4):
        assert found[memory_id(number)].dtype == np.float32
        np.testing.assert_allclose(found[memory_id(number)], unit(points[number].vector), atol=1e-6)


async def test_dropped_is_empty_and_takes_points_again(index: MemoryIndex) -> None:
    points = make_points(20)
    await index.upsert(points)
    await index.drop()
    assert await index.count() == 0
    assert await index.search(points[0].vector, limit=5) == []
    await index.upsert(points[:3])
    assert await index.ids() == {memory_id(0), memory_id(1), memory_id(2)}


async def test_rebuilt_answers_the_same(index: MemoryIndex) -> None:
    points = make_points(150)
    await index.upsert(points)
    before = await search(index, points, points[7].vector, 20)

    async def batches():  # type: ignore[no-untyped-def]
        for start in range(0, 150, 40):
            yield points[start : start + 40]

    assert await rebuild(index, batches()) == 150
    after = await search(index, points, points[7].vector, 20)
    assert [hit.memory_id for hit in after] == [hit.memory_id for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], abs=1e-5)


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(DIMENSIONS + 1, np.float32),
        np.ones((1, DIMENSIONS), np.float32),
        np.full(DIMENSIONS, np.nan, np.float32),
        np.array([np.inf] + [0.0] * (DIMENSIONS - 1), np.float32),
        np.zeros(DIMENSIONS, np.float32),
        np.array([], np.float32),
        ["a"] * DIMENSIONS,
    ],
    ids=["too long", "two axes", "NaN", "infinite", "zero", "empty", "text"],
)
async def test_a_vector_that_cannot_be_used_is_refused_and_nothing_written(
    index: MemoryIndex, vector: np.ndarray
) -> None:
    good = make_points(2)
    with pytest.raises(MemoryIndexError) as raised:
        await index.upsert([good[0], IndexPoint("mem_bad", vector, payload()), good[1]])
    assert raised.value.code == "index_invalid"
    with pytest.raises(MemoryIndexError):
        await index.search(vector, limit=3)
    assert await index.count() == 0
    await index.upsert(good)
    assert await index.count() == 2


async def test_what_else_cannot_be_used_is_refused(index: MemoryIndex) -> None:
    vector = make_points(1)[0].vector
    naive = dt.datetime(2026, 1, 1)
    refused = [
        index.upsert([IndexPoint("", vector, payload())]),
        index.upsert([IndexPoint("mem_\ud800", vector, payload())]),
        index.upsert([IndexPoint("mem_a", vector, payload(occurred_at=naive))]),
        index.search(vector, limit=0),
    ]
    if index.takes_filters:
        refused.append(index.search(vector, limit=1, where=IndexFilter(occurred_from=naive)))
    for call in refused:
        with pytest.raises(MemoryIndexError) as raised:
            await call
        assert raised.value.code == "index_invalid"
    assert await index.count() == 0


async def test_odd_text_is_kept_and_found(index: MemoryIndex) -> None:
    odd = ("👩‍👩‍👧", "ﾊﾝｶｸ", "が\u3099", "a\x00b", "x\ud800y", '"; DROP TABLE points', "العربية", "")
    vectors = np.eye(DIMENSIONS, dtype=np.float32)
    points = [
        IndexPoint(f"mem_{n}", vectors[n], payload(topic=text, entity_keys=(text,))) for n, text in enumerate(odd)
    ]
    await index.upsert(points)
    assert await index.count() == len(odd)
    if index.takes_filters:
        for n, text in enumerate(odd[:-1]):
            hits = await index.search(vectors[n], limit=3, where=IndexFilter(entity_keys=(text,)))
            assert [hit.memory_id for hit in hits] == [f"mem_{n}"], text


async def test_closed_says_so_and_close_is_safe_twice(index: MemoryIndex) -> None:
    await index.close()
    await index.close()
    for call in (index.count(), index.ids(), index.upsert(make_points(1)), index.delete(["mem_a"]), index.drop()):
        with pytest.raises(MemoryIndexError) as raised:
            await call
        assert raised.value.code == "index_closed"


async def test_opened_twice_is_refused(index: MemoryIndex) -> None:
    with pytest.raises(MemoryIndexError) as raised:
        await index.open()
    assert raised.value.code == "index_invalid"
    await index.upsert(make_points(1))
    assert await index.count() == 1


def test_point_ids_never_change() -> None:
    """Every stored point depends on this one."""
    assert point_id("mem_01JDXA7Y6QK9Z5T3W8R2V4B6C0") == "be2230dc-ba8d-544c-b56b-ab49d1f8325e"
