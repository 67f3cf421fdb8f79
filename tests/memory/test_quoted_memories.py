"""Memories in the user's own words through real SQLite and the local index: kept, corrected, found, forgotten."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from server.memory.ingest import UTTERANCE_CHARACTERS
from tests.memory.making import House, house
from tests.memory.said_and_noted import BOUGHT, summaries, summary_of

pytestmark = pytest.mark.integration
DAY = dt.timedelta(days=1)


async def recalled(home: House, memory_id: str, *said: str) -> None:
    """A session in which a memory is searched for, and then something is said."""
    session_id = await home.open_session()
    calls = [{"name": "search_memory", "arguments": {"query": "x"}, "result": {"candidates": [memory_id]}}]
    await home.say(session_id, "前に買ったやつ、いくらだっけ", "三万円だよ。", tool_calls=calls)
    for text in said:
        await home.say(session_id, text)
    await home.end(session_id)


async def test_no_model_is_asked_and_the_words_are_exact(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk("おはよう", BOUGHT, "うん", "上を向いて")
        (memory,) = await home.memories()
        assert memory.summary == "2026年11月29日、富士通のパソコンを三万円で買ったよ。"
        assert (memory.topic, memory.entities) == ("富士通、パソコン", ("富士通", "パソコン"))
        assert (memory.confidence, memory.memory_type) == ("said", "episode")
        assert memory.occurred_at == dt.datetime(2026, 11, 29, 3, 0, tzinfo=dt.UTC)
        assert home.summarizer.requests == []
        source = await home.recall.read_source(home.asked("x"), memory_id=memory.memory_id)
        assert [turn.text for turn in source] == [BOUGHT, "うん。"]


@pytest.mark.parametrize(
    ("said", "replaces"),
    [
        ("いや、二万五千円だよ", True),
        ("そうじゃない、二万五千円", True),
        ("ごめん、二万五千円だった", True),
        ("二万五千円の間違い", True),
        ("二万五千円だったよ", True),
        ("三万円じゃなくて二万五千円", True),
        ("三万円だったよね", False),
        ("あと五千円足りなかった", False),
        ("マウスは二千円だったよ", False),
    ],
)
async def test_a_value_right_after_a_memory_was_told_replaces_it(tmp_path: Path, said: str, replaces: bool) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk(BOUGHT)
        (bought,) = await home.memories()
        home.at += DAY
        await recalled(home, bought.memory_id, said)
        found = {one.memory_id: one for one in await home.memories()}
        assert (found[bought.memory_id].status == "superseded") is replaces
        if replaces:
            newest = found[str(found[bought.memory_id].superseded_by)]
            assert set(bought.entities) <= set(newest.entities)
            assert "二万五千円" in newest.summary


async def test_days_of_talk_bought_corrected_asked_forgotten(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk(BOUGHT)
        (bought,) = await home.memories()
        home.at += DAY
        await recalled(home, bought.memory_id, "違う、二万五千円")
        old, new = await home.memories()
        assert (old.status, old.superseded_by, new.status) == ("superseded", new.memory_id, "active")
        assert "二万五千円" in new.summary
        assert set(bought.entities) <= set(new.entities), "what is corrected is what it is about"
        home.at += DAY
        assert await home.found("富士通のパソコン") == [new.summary]
        await home.keeper.forget([new.memory_id])
        await home.worker.idle()
        assert await home.found("富士通のパソコン", history=True) == []
        assert await home.index.ids() == set()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (BOUGHT, "富士通のパソコン、違う、二万五千円だった"),
        (BOUGHT, "富士通のパソコンは二万五千円だったんだよね"),
        ("I bought a Fujitsu desktop for 30,000 yen", "No, actually the Fujitsu desktop was 25,000 yen"),
    ],
)
async def test_a_correction_replaces(tmp_path: Path, first: str, then: str) -> None:
    language = "en" if first.isascii() else "ja"
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk(first, language=language)
        home.at += DAY
        await home.talk(then, language=language)
        before, after = await home.memories()
        assert (before.status, before.superseded_by, after.status) == ("superseded", after.memory_id, "active")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        # One name shared, and a number, a day or a negation in a sentence about something else.
        (("猫のコムギが来た", "コムギはまだ二キロしかない"), ("コムギは掃除機がこわくない",)),
        (("猫のコムギはチキンを食べない",), ("コムギのカゴは棚の上に置いた",)),
        (("発表会は十月十八日、曲は三曲弾く",), ("発表会では最後の曲を間違えなかった",)),
    ],
)
async def test_talk_about_the_same_thing_replaces_nothing(
    tmp_path: Path, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk(*first)
        home.at += DAY
        await home.talk(*then)
        found = await home.memories()
        assert len(found) >= 2
        assert summary_of(found, "superseded") == []


async def test_what_is_said_again_is_one_memory(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk("姉の名前は志帆だよ")
        home.at += DAY
        await home.talk("姉の名前は志帆だよ")
        (memory,) = await home.memories()
        assert len(memory.source_turn_ids) == 4


async def test_of_endless_text_the_beginning_is_looked_at(tmp_path: Path) -> None:
    """Rules take a time that grows with the square of what they look at."""
    async with house(tmp_path, summaries, quotes=True) as home:
        noted = []
        for piece in ("の" * 30_000, "富士通のパソコンを買ったよ。" * 2_000):
            for said in (BOUGHT + piece, (BOUGHT + piece)[:UTTERANCE_CHARACTERS]):
                await home.talk(said)
                noted.append((await home.memories())[-1].summary)
        assert noted[0] == noted[1]
        assert noted[2] == noted[3]
        assert all(len(summary) <= UTTERANCE_CHARACTERS + 20 for summary in noted)
