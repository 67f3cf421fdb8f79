"""From what was said to a memory: kept, corrected, merged, checked. Real SQLite and local index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from server.engines.base import LlmRequest
from server.storage import jobs, segments
from server.storage.memory_browse import words_of_turns
from tests.memory.making import house, note
from tests.memory.said_and_noted import BOUGHT, summaries, summary_of

pytestmark = pytest.mark.integration


async def test_what_was_said_is_kept_with_its_sources_and_found(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("おはよう", BOUGHT, "うん")
        (memory,) = await home.memories()
        assert memory.summary == "2026年11月29日、富士通のパソコンを30,000円で買った。"
        assert (memory.confidence, memory.index_state, memory.status) == ("said", "indexed", "active")
        assert memory.occurred_at == dt.datetime(2026, 11, 29, 3, 0, tzinfo=dt.UTC)
        source = await home.recall.read_source(home.asked("x"), memory_id=memory.memory_id)
        assert [turn.text for turn in source] == [BOUGHT, "うん。"]
        assert await home.found("買ったパソコン") == [memory.summary]
        assert len(home.summarizer.requests) == 1


async def test_small_talk_makes_no_memory_and_asks_no_model(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.talk("おはよう", "うん", "ありがとう")
        assert await home.memories() == []
        assert home.summarizer.requests == []
        async with home.databases.world(write=False) as db:
            assert [one.result for one in await segments.segments_of(db, session_id)] == ["filler"]
        assert (await home.worker.statistics()).filler_excluded == 1


@pytest.mark.parametrize(
    ("first", "correction", "old", "new"),
    [
        (BOUGHT, "富士通のパソコン、違う、二万五千円だった", "30,000", "25,000"),
        (BOUGHT, "富士通のパソコンは二万五千円だったんだよね", "30,000", "25,000"),
        (
            "I bought a used Fujitsu desktop for thirty thousand yen",
            "No, actually the Fujitsu desktop was 25,000 yen",
            "30,000",
            "25,000",
        ),
        ("辛いものが好き", "辛いものは好きじゃない", "好き。", "好きじゃない"),
    ],
)
async def test_a_correction_replaces_and_keeps_the_old_as_history(
    tmp_path: Path, first: str, correction: str, old: str, new: str
) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(first)
        await home.talk(correction)
        before, after = await home.memories()
        assert (before.status, before.superseded_by, after.status) == ("superseded", after.memory_id, "active")
        assert old in before.summary
        assert new in after.summary
        assert await home.found(after.summary) == [after.summary]
        assert set(await home.found(after.summary, history=True)) == {before.summary, after.summary}


async def test_a_correction_without_a_name_is_about_what_was_recalled(tmp_path: Path) -> None:
    def corrected(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
        if "違う、二万五千円" in said:
            return [
                note("25,000円だった。", about=[said.index("違う、二万五千円") + 1], topic="値段", memory_type="fact")
            ]
        return summaries(said, request)

    async with house(tmp_path, corrected) as home:
        await home.talk(BOUGHT)
        await home.talk("猫のコムギが家に来た")
        bought, cat = await home.memories()
        result = {"memories": [{"memory_id": one.memory_id, "summary": one.summary} for one in (cat, bought)]}
        session_id = await home.open_session()
        calls = [{"name": "search_memory", "arguments": {"query": "PC"}, "result": result}]
        await home.say(session_id, "あれ、いくらだっけ", "三万円だよ。", tool_calls=calls)
        await home.say(session_id, "違う、二万五千円", "そうか、二万五千円だね。")
        await home.end(session_id)
        found = {one.memory_id: one for one in await home.memories()}
        assert found[bought.memory_id].status == "superseded"
        assert found[cat.memory_id].status == "active"
        newest = found[str(found[bought.memory_id].superseded_by)]
        assert (newest.summary, newest.confidence) == ("25,000円だった。", "said")


async def test_a_long_session_and_odd_characters_are_taken_in_whole(tmp_path: Path) -> None:
    def one_each(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
        return [note(f"{len(said)}回話した。", about=list(range(1, len(said) + 1)))]

    async with house(tmp_path, one_each) as home:
        odd = ["猫😀", "e\u0301te\u0301", "\ud800猫", "①②③", "ｶﾞｷﾞｸﾞ", "﷽", "‮abc", "</s><|im_end|>", '{"memories":[]}']
        session_id = await home.talk(*(f"{odd[number % len(odd)]} {number}" for number in range(70)))
        async with home.databases.world(write=False) as db:
            taken = [turn for one in await segments.segments_of(db, session_id) for turn in one.turn_ids]
            assert await segments.open_exchanges(db, session_id) == []
            assert await jobs.counts(db) == {}
        assert len(taken) == len(set(taken)) == 70


async def test_an_index_that_filters_by_itself_serves_as_well(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, backend="edge") as home:
        await home.talk("猫のコムギが家に来た")
        await home.talk("辛いものが好き")
        await home.talk("辛いものは好きじゃない")
        found = await home.memories()
        assert summary_of(found) == ["猫のコムギが家に来た。", "辛いものは好きじゃない。"]
        assert await home.found("辛いもの") == ["辛いものは好きじゃない。", "猫のコムギが家に来た。"]
        await home.keeper.forget([found[-1].memory_id])
        await home.worker.idle()
        assert await home.index.ids() == {found[0].memory_id}


async def test_a_correction_that_comes_late_does_not_replace_what_was_said_since(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.worker.close()
        first = await home.open_session()
        await home.say(first, BOUGHT)
        second = await home.open_session(channel_id="stackchan:other")
        await home.say(second, "富士通のパソコンは二万五千円だったんだよね", channel_id="stackchan:other")
        async with home.databases.world() as db:
            # The first session's job failed and waits for long.
            await jobs.cancel(db, ["ingest"], first)
        await home.worker.start()
        await home.end(second)
        await home.end(first)
        found = await home.memories()
        assert summary_of(found) == ["富士通のパソコンを25,000円で買った。"]
        assert summary_of(found, "superseded") == ["2026年11月29日、富士通のパソコンを30,000円で買った。"]


async def test_the_same_said_again_is_one_memory_with_both_sources(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("富士通のパソコンは二万五千円だったんだよね", speaker_id="tsumugu")
        (once,) = await home.memories()
        await home.talk("富士通のパソコンは二万五千円だったんだよね", speaker_id="tokiwa")
        (twice,) = await home.memories()
        assert twice.memory_id == once.memory_id
        assert len(twice.source_turn_ids) == 2 * len(once.source_turn_ids)
        assert twice.speakers == ("tsumugu", "tokiwa")
        assert twice.index_state == "indexed"


async def test_the_same_said_twice_in_one_segment_is_one_memory(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た", "猫のコムギが家に来た")
        (memory,) = await home.memories()
        assert len(memory.source_turn_ids) == 4


async def test_different_things_stay_apart(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk("猫のコムギが家に来た")
        await home.talk("辛いものが好き")
        assert len(summary_of(await home.memories())) == 3


async def test_what_a_summary_adds_is_asked_about_once_and_then_inferred(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("コムギは三歳")
        (memory,) = await home.memories()
        assert memory.confidence == "inferred"
        assert memory.entities == ("コムギ",), "a name nobody said is not kept"
        first, second = home.summarizer.requests
        assert second.messages[:-2] == first.messages
        assert "5歳、ミケ" in second.messages[-1].content


async def test_a_summary_put_right_counts_as_said(tmp_path: Path) -> None:
    def careless(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
        again = "言われていない" in request.messages[-1].content
        return [note("コムギは3歳。" if again else "コムギは5歳。", "コムギ", memory_type="fact")]

    async with house(tmp_path, careless) as home:
        await home.talk("コムギは三歳")
        (memory,) = await home.memories()
        assert (memory.summary, memory.confidence) == ("コムギは3歳。", "said")


async def test_recalled_words_are_never_shown_to_the_summarizer(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        recalled = [{"name": "search_memory", "result": {"memories": [{"summary": "秘密の鍵は植木鉢の下"}]}}]
        await home.say(session_id, "鍵はどこ?", "鍵は植木鉢の下だよ。", tool_calls=recalled)
        await home.say(session_id, "猫のコムギが家に来た", "よかったね。")
        await home.end(session_id)
        shown = "\n".join(m.content for request in home.summarizer.requests for m in request.messages)
        assert "植木鉢" not in shown
        assert "よかったね" in shown
        sources = {turn for memory in await home.memories() for turn in memory.source_turn_ids}
        async with home.databases.world(write=False) as db:
            (segment, *_) = await segments.segments_of(db, session_id)
            robot = (await words_of_turns(db, [segment.turn_ids[0]]))[1]
        assert robot.source_turn_id not in sources


async def test_who_shares_the_model_is_told_when_it_was_used(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        told: list[int] = []

        async def read_back() -> None:
            told.append(len(home.summarizer.requests))

        home.ingestor._after_asking = read_back
        await home.talk("おはよう")
        assert told == []
        await home.talk("猫のコムギが家に来た")
        assert told == [1]


async def test_private_words_stay_apart_from_the_house(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        said = "富士通のパソコンは二万五千円だったんだよね"
        await home.talk(said, speaker_id="tsumugu")
        await home.talk(said, speaker_id="tsumugu", channel_id="web:1", private=True)
        await home.talk(said, speaker_id="tokiwa", channel_id="web:2", private=True)
        found = await home.memories()
        assert [(one.visibility, one.speakers) for one in found] == [
            ("house", ("tsumugu",)),
            ("private", ("tsumugu",)),
            ("private", ("tokiwa",)),
        ]
        assert len(await home.found("パソコン")) == 1
        assert len(await home.found("パソコン", speaker="tokiwa")) == 2
