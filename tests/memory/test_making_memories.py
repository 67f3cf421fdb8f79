"""From what was said to what is found: kept, corrected, merged, forgotten, rebuilt. Real SQLite and local index."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.engines.base import LlmRequest
from server.errors import NotFoundError, StorageError
from server.memory.indexer import Indexer, index_point
from server.storage import forgetting, jobs, memories, segments, tombstones, word_index
from server.storage.memory_records import MemoryChanges, MemoryFilter, SourceFilter
from server.storage.turns import source_turns_of
from tests.memory.making import PERSONA, house, note

pytestmark = pytest.mark.integration

BOUGHT = "昨日、富士通のパソコンを三万円で買ったよ"
NOTES = {
    BOUGHT.replace("昨日", "昨日(2026年11月29日)"): [
        note("昨日、富士通のパソコンを30,000円で買った。", "富士通", "パソコン")
    ],
    "富士通のパソコン、違う、二万五千円だった": [note("富士通のパソコンを25,000円で買った。", "富士通", "パソコン")],
    "富士通のパソコンは二万五千円だったんだよね": [note("富士通のパソコンを25,000円で買った。", "パソコン", "富士通")],
    "猫のコムギが家に来た": [note("猫のコムギが家に来た。", "コムギ")],
    "辛いものが好き": [note("辛いものが好き。", memory_type="preference")],
    "辛いものは好きじゃない": [note("辛いものは好きじゃない。", memory_type="preference")],
    "コムギは三歳": [note("コムギは5歳。", "コムギ", "ミケ", memory_type="fact")],
    "I bought a used Fujitsu desktop for thirty thousand yen": [
        note("The user bought a used Fujitsu desktop for 30,000 yen.", "Fujitsu")
    ],
    "No, actually the Fujitsu desktop was 25,000 yen": [
        note("The used Fujitsu desktop was 25,000 yen.", "Fujitsu", memory_type="fact")
    ],
}


def summaries(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
    found = []
    for place, text in enumerate(said, start=1):
        found += [{**one, "about": [place]} for one in NOTES.get(text, [])]
    return found


def summary_of(found: Sequence[Any], status: str = "active") -> list[str]:
    return [one.summary for one in found if one.status == status]


def files_with(folder: Path, *secrets: str) -> list[str]:
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [name for name, content in contents.items() if any(secret.encode() in content for secret in secrets)]


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
            robot = (await source_turns_of(db, segment.turn_ids[0]))[1]
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


async def test_forgetting_leaves_nothing_to_find(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk("富士通のパソコン、違う、二万五千円だった")
        await home.talk("猫のコムギが家に来た")
        newest = next(one for one in await home.memories() if "25,000" in one.summary)
        told: list[object] = []

        async def copies(reached: object) -> None:
            told.append(reached)

        home.keeper._on_forgotten = (copies,)
        session_id = await home.open_session()
        request = await home.say(session_id, "そのパソコンのことは忘れて")
        forgotten = await home.keeper.forget([newest.memory_id], also_turn_ids=[request])
        await home.worker.idle()
        assert forgotten.still_found == ()
        assert len(forgotten.reached.memory_ids) == 2, "the older price too"
        assert told == [forgotten.reached]
        assert summary_of(await home.memories()) == ["猫のコムギが家に来た。"]
        everyone = MemoryFilter(PERSONA, None, statuses=("active", "superseded", "forgotten"))
        async with home.databases.world(write=False) as db:
            for words in ("富士通", "パソコン", "25,000円", "三万円", "忘れて"):
                assert await word_index.search_memories(db, words, everyone, limit=9) == []
                assert await word_index.search_source_turns(db, words, SourceFilter(PERSONA, None), limit=9) == []
            assert await jobs.counts(db) == {}
        assert len(await home.index.ids()) == 1
        assert await home.found("富士通のパソコン") == ["猫のコムギが家に来た。"]
        # Nothing is made of the blanked words again.
        requests = len(home.summarizer.requests)
        await home.end(session_id)
        assert len(home.summarizer.requests) == requests
        assert files_with(tmp_path, "富士通", "25,000", "二万五千") == [], "while the server runs"
    assert files_with(tmp_path, "富士通", "25,000", "二万五千") == [], "after it stopped"


async def test_a_turn_alone_can_be_forgotten_as_the_request_itself_when_it_has_ended(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        calls = [{"name": "forget_memory", "arguments": {"query": "富士通のパソコン"}}]
        turn_id = await home.say(session_id, "富士通のパソコンのことは忘れて", "忘れたよ", tool_calls=calls)
        forgotten = await home.keeper.forget([], also_turn_ids=[turn_id])
        await home.worker.idle()
        assert forgotten.still_found == ()
        assert files_with(tmp_path, "富士通") == []


async def test_forgetting_what_is_not_there_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        with pytest.raises(NotFoundError):
            await home.keeper.forget(["mem_" + "0" * 26])


async def test_what_comes_back_is_forgotten_again(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
    backup = tmp_path / "backup"
    shutil.copytree(tmp_path / "worlds", backup)
    async with house(tmp_path, summaries) as home:
        await home.keeper.forget([memory.memory_id])
        await home.worker.idle()
    shutil.rmtree(tmp_path / "worlds")
    shutil.copytree(backup, tmp_path / "worlds")
    async with house(tmp_path, summaries) as home:
        assert len(await home.index.ids()) == 1, "the copy brought it back"
        reached = await home.keeper.reapply()
        await home.worker.idle()
        assert reached.memory_ids == (memory.memory_id,)
        assert await home.memories() == []
        assert await home.index.ids() == set()
        assert await home.found("コムギ") == []
        assert (await home.keeper.reapply()).memory_ids == ()


async def test_a_kill_in_the_middle_of_forgetting_is_made_good_at_start(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        async with home.databases.world(write=False) as db:
            reached = await forgetting.reach(db, [memory.memory_id], also_source=True)
        async with home.databases.server() as server_db:
            await tombstones.add(server_db, reached, now=home.at)
    async with house(tmp_path, summaries) as home:
        assert len(await home.memories()) == 1
        await home.keeper.reapply()
        await home.worker.idle()
        assert await home.memories() == []
        assert await home.index.ids() == set()
        assert files_with(tmp_path, "コムギ") == []


async def test_a_copy_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()

        async def fails(reached: object) -> None:
            raise StorageError("no disk")

        home.keeper._on_forgotten = (fails,)
        assert (await home.keeper.forget([memory.memory_id])).still_found == ("copy: storage_failed",)
        assert await home.memories() == []


async def test_words_forgotten_while_a_memory_is_made_of_them_make_none(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        turn_id = await home.say(session_id, "猫のコムギが家に来た")

        original = home.keeper._neighbours.judge

        async def judge(proposals: Any) -> Any:
            judged = await original(proposals)
            async with home.databases.world() as db:
                reached = await forgetting.reach(db, [], also_source=True, also_turn_ids=[turn_id])
                await forgetting.forget(db, reached, now=home.at)
            return judged

        home.keeper._neighbours.judge = judge  # type: ignore[method-assign]
        await home.end(session_id)
        assert await home.memories() == []
        async with home.databases.world(write=False) as db:
            assert [one.result for one in await segments.segments_of(db, session_id)] == ["forgotten"]


async def test_an_edit_is_followed_by_the_index(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        before = await home.index.vectors([memory.memory_id])
        await home.keeper.edit(memory.memory_id, MemoryChanges(summary="犬のダイズが家に来た。", entities=("ダイズ",)))
        home.worker.wake()
        await home.worker.idle()
        after = await home.index.vectors([memory.memory_id])
        assert float(before[memory.memory_id] @ after[memory.memory_id]) < 0.9
        assert await home.found("ダイズ") == ["犬のダイズが家に来た。"]
        await home.keeper.forget([memory.memory_id])
        with pytest.raises(StorageError):
            await home.keeper.edit(memory.memory_id, MemoryChanges(summary="x"))


async def test_a_deleted_index_is_rebuilt_with_the_same_results(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT, "猫のコムギが家に来た", "辛いものが好き")
        await home.talk("富士通のパソコン、違う、二万五千円だった")
        queries = ("パソコン", "猫", "辛いもの", "コムギと富士通")
        before = [await home.recall.search(home.asked(query)) for query in queries]
        ids = await home.index.ids()
    shutil.rmtree(tmp_path / "worlds" / "home" / "index")
    async with house(tmp_path, summaries) as home:
        assert await home.index.count() == 0
        progress: list[tuple[int, int]] = []
        assert await home.indexer.rebuild(lambda done, total: progress.append((done, total))) == len(ids) == 4
        assert progress == [(4, 4)]
        assert await home.index.ids() == ids
        after = [await home.recall.search(home.asked(query)) for query in queries]
        for one, other in zip(before, after, strict=True):
            assert [c.memory.memory_id for c in one.candidates] == [c.memory.memory_id for c in other.candidates]
            scores = [c.retrieval_score for c in one.candidates]
            assert [c.retrieval_score for c in other.candidates] == pytest.approx(scores, abs=1e-5)
        async with home.databases.world(write=False) as db:
            assert "index" not in await jobs.counts(db), "what was rebuilt waits for nothing"
        assert {one.index_state for one in await home.memories()} == {"indexed"}


async def test_after_a_kill_index_and_database_are_brought_together(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT, "猫のコムギが家に来た")
        first, second = await home.memories()
        vector = (await home.index.vectors([first.memory_id]))[first.memory_id]
        await home.index.delete([first.memory_id])
        ghost = replace(second, memory_id="mem_" + "9" * 26)
        await home.index.upsert([index_point(ghost, vector)])
        assert await home.indexer.reconcile() == (1, 1)
        home.worker.wake()
        await home.worker.idle()
        assert await home.index.ids() == {first.memory_id, second.memory_id}
        assert await home.indexer.reconcile() == (0, 0)


async def test_without_an_index_memories_are_made_and_found_by_words(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.keeper.index = home.indexer.index = home.recall.index = None
        await home.talk("猫のコムギが家に来た")
        await home.talk("辛いものが好き")
        assert await home.found("コムギ") == ["猫のコムギが家に来た。"]
        assert {one.index_state for one in await home.memories()} == {"pending"}
        assert all("index_closed" in (one.error or "") for one in await home.memories())
        home.keeper.index = home.indexer.index = home.recall.index = home.index
        home.at += dt.timedelta(minutes=5)
        home.worker.wake()
        await home.worker.idle()
        assert {one.index_state for one in await home.memories()} == {"indexed"}


async def test_a_vector_is_not_taken_for_indexed_when_the_memory_changed_meanwhile(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        await home.worker.close()
        async with home.databases.world() as db:
            await memories.queue_index(db, [memory.memory_id], now=home.at)
            job = await jobs.lease(db, owner="test", now=home.at, lease_seconds=60)
        assert job is not None
        original = home.index.upsert

        async def upsert(points: Any) -> None:
            await original(points)
            await home.keeper.forget([memory.memory_id])

        home.index.upsert = upsert  # type: ignore[method-assign]
        await Indexer(home.databases, home.index, home.embedding, clock=home.clock).index_memory(job)
        assert await home.index.ids() == set()
