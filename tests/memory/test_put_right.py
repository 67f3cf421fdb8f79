"""A bare correction of what is remembered becomes the whole statement anew: real SQLite and index, no model asked."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from server.memory.check import Said, check
from server.storage.memory_records import Memory
from tests.memory.making import House, house
from tests.memory.said_and_noted import BOUGHT, summaries

pytestmark = pytest.mark.integration
DAY = dt.timedelta(days=1)


async def put_right(
    home: House, first: str, asked: str, told: str, correction: str, *, recalled: bool = True
) -> tuple[Memory, Memory | None]:
    """What was remembered of `first` after it was asked, told and corrected in a later talk, and what replaced it."""
    language = "en" if first.isascii() else "ja"
    await home.talk(first, language=language)
    (before,) = await home.memories()
    home.at += DAY
    session_id = await home.open_session()
    call = {"name": "search_memory", "arguments": {"query": "x"}, "result": {"candidates": [before.memory_id]}}
    await home.say(session_id, asked, told, language=language, tool_calls=[call] if recalled else None)
    await home.say(session_id, correction, language=language)
    await home.end(session_id)
    found = {one.memory_id: one for one in await home.memories()}
    return found[before.memory_id], found.get(str(found[before.memory_id].superseded_by))


@pytest.mark.parametrize(
    ("first", "asked", "told", "correction", "expected"),
    [
        (
            BOUGHT,
            "この前のパソコン、いくらだったっけ",
            "三万円だよ。",
            "違う、二万五千円だよ",
            "2026年11月29日、富士通のパソコンを二万五千円で買ったよ。",
        ),
        (
            BOUGHT,
            "前に買ったやつ、いくらだっけ",
            "三万円だよ。",
            "二万五千円だったよ",
            "2026年11月29日、富士通のパソコンを二万五千円で買ったよ。",
        ),
        ("歯医者は木曜日だよ", "歯医者いつだっけ", "木曜日だよ。", "ううん、金曜日だよ", "歯医者は金曜日だよ。"),
        ("歯医者は木曜日だよ", "歯医者いつだっけ", "木曜日だよ。", "金曜日だよ", "歯医者は金曜日だよ。"),
        (
            "猫のタマが家に来た",
            "猫の名前なんだっけ",
            "タマだよ。",
            "違う、タマじゃなくてミケだよ",
            "猫のミケが家に来た。",
        ),
        (
            "I bought a used Fujitsu desktop for 30,000 yen",
            "How much was the desktop again?",
            "It was 30,000 yen.",
            "No, it was 25,000 yen",
            "I bought a used Fujitsu desktop for 25,000 yen.",
        ),
        (
            "I bought a used Fujitsu desktop for 30,000 yen",
            "What did I pay for it?",
            "It was 30,000 yen.",
            "No, twenty-five thousand",
            "I bought a used Fujitsu desktop for twenty-five thousand yen.",
        ),
        (
            "My dentist appointment is on Thursday",
            "When is my dentist appointment?",
            "On Thursday.",
            "no, Friday",
            "My dentist appointment is on Friday.",
        ),
        (
            "My cat Lena moved in with us",
            "What is my cat called?",
            "She is called Lena.",
            "it's Luna, not Lena",
            "My cat Luna moved in with us.",
        ),
    ],
)
async def test_what_was_told_is_told_anew_with_the_value_as_it_was_said(
    tmp_path: Path, first: str, asked: str, told: str, correction: str, expected: str
) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        before, after = await put_right(home, first, asked, told, correction)
        assert after is not None
        assert (before.status, after.status, after.summary) == ("superseded", "active", expected)
        assert (after.memory_type, after.confidence, after.index_state) == (before.memory_type, "said", "indexed")
        source = await home.recall.read_source(home.asked("x"), memory_id=after.memory_id)
        assert {turn.text for turn in source} >= {first, correction}
        assert told not in {turn.text for turn in source}, "what came out of memory is no source"
        said = [Said(turn.text, turn.said_at.date()) for turn in source if turn.role == "user"]
        problems = check(after.topic, after.summary, after.entities, said)
        # A weekday is as it was said; which one it is, nobody said.
        assert set(problems.words()) <= {"on Friday"}
        assert await home.found(after.summary) == [after.summary]


async def test_names_topic_and_day_are_those_of_what_was_put_right(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        before, after = await put_right(home, BOUGHT, "前のやつ、いくらだっけ", "三万円だよ。", "違う、二万五千円")
        assert after is not None
        assert (
            (after.topic, after.entities)
            == (before.topic, before.entities)
            == ("富士通、パソコン", ("富士通", "パソコン"))
        )
        assert after.occurred_at == before.occurred_at, "it happened when it happened"
        assert set(before.source_turn_ids) < set(after.source_turn_ids)


async def test_a_name_is_put_right_in_topic_and_names_too(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        _, after = await put_right(home, "猫のタマが家に来た", "猫の名前は", "タマだよ。", "タマじゃなくてミケだよ")
        assert after is not None
        assert (after.topic, after.entities) == ("猫、ミケ、家", ("猫", "ミケ", "家"))


async def test_without_a_search_it_is_found_by_what_was_asked(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        asked = "この前のパソコン、いくらだったっけ"
        _, after = await put_right(home, BOUGHT, asked, "三万円かな。", "違う、二万五千円だよ", recalled=False)
        assert after is not None
        assert after.summary == "2026年11月29日、富士通のパソコンを二万五千円で買ったよ。"


@pytest.mark.parametrize(
    ("first", "asked", "told", "correction"),
    [
        (BOUGHT, "この前のパソコン、いくらだったっけ", "三万円だよ。", "三万円だったよね"),
        (BOUGHT, "この前のパソコン、いくらだったっけ", "三万円だよ。", "違う、三匹だよ"),
        ("猫のタマが家に来た", "猫の名前は", "タマだよ。", "クロじゃなくてミケだよ"),
        ("My cat Lena moved in with us", "What is my cat called?", "Lena.", "it's cold, not hot"),
    ],
)
async def test_what_is_not_in_it_replaces_nothing(
    tmp_path: Path, first: str, asked: str, told: str, correction: str
) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        before, after = await put_right(home, first, asked, told, correction)
        assert (before.status, after) == ("active", None)


async def test_what_was_put_right_is_forgotten_with_all_its_words(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        before, after = await put_right(home, BOUGHT, "前のやつ、いくらだっけ", "三万円だよ。", "違う、二万五千円")
        assert after is not None
        forgotten = await home.keeper.forget([after.memory_id])
        assert set(forgotten.reached.memory_ids) == {before.memory_id, after.memory_id}
        assert forgotten.still_found == ()


@pytest.mark.parametrize(
    ("first", "asked", "correction", "expected"),
    [
        ("面接は午後三時からだよ", "面接は何時だっけ", "違う、四時だよ", "面接は四時だよ。"),
        ("My interview is at 3 pm", "What time is my interview?", "no, it's at four", "My interview: at four."),
    ],
)
async def test_where_it_is_not_certain_which_words_go_the_value_stands_with_what_was_asked(
    tmp_path: Path, first: str, asked: str, correction: str, expected: str
) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        _, after = await put_right(home, first, asked, "三時だよ。", correction)
        assert [one.summary for one in await home.memories() if one.status == "active"] == [expected]
        assert after is not None


async def test_a_correction_is_put_right_again(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await put_right(home, BOUGHT, "この前のパソコン、いくらだったっけ", "三万円だよ。", "違う、二万五千円だよ")
        home.at += DAY
        await home.talk("パソコンはいくらだったっけ", "違う、二万八千円だよ")
        newest = [one.summary for one in await home.memories() if one.status == "active"]
        assert newest == ["2026年11月29日、富士通のパソコンを二万八千円で買ったよ。"]


async def test_an_answer_to_nothing_remembered_is_a_statement_by_itself(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk("車検はいくらかかったっけ", "九万四千円だよ")
        home.at += DAY
        await home.talk("How much was the kayak?", "640 dollars", language="en")
        assert [one.summary for one in await home.memories()] == ["車検は九万四千円だよ。", "The kayak: 640 dollars."]
        assert {one.confidence for one in await home.memories()} == {"said"}


async def test_a_question_alone_is_no_memory_among_several_topics(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, quotes=True) as home:
        await home.talk(
            "パソコンはいくらだったっけ",
            "猫のコムギが家に来た",
            "うちのパソコンの値段、覚えてる？",
            "I sold the red canoe yesterday",
            "庭のトマトが十二個できた",
            "パソコンはいくらだったっけ、覚えてる",
        )
        assert [one.summary for one in await home.memories()] == [
            "猫のコムギが家に来た。",
            "I sold the red canoe on November 29, 2026.",
            "庭のトマトが十二個できた。",
        ]
