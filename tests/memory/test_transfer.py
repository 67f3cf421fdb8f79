"""Export and import: the same memories in another house, and nothing that was forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.memory.transfer import export_lines
from server.storage import memory_browse
from tests.memory.exporting import (
    CAT,
    CORRECTED,
    as_file,
    exported,
    imported,
    lines_of,
    memory_in,
    said_here,
)
from tests.memory.making import house
from tests.memory.said_and_noted import BOUGHT, files_with, summaries

pytestmark = pytest.mark.integration


async def test_an_empty_house_gets_the_same_memories_and_finds_the_same(tmp_path: Path) -> None:
    questions = ["富士通のパソコンはいくら", "猫", "25,000円", "何を買った"]
    async with house(tmp_path / "one", summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CORRECTED)
        await home.talk(CAT, speaker_id="mika", private=True, channel_id="stackchan:kitchen")
        file = await exported(home)
        before = await home.memories()
        found = [await home.recall.search(home.asked(text, speaker="mika", history=True)) for text in questions]
    async with house(tmp_path / "two", summaries) as home:
        done = await imported(home, file)
        assert (done["imported"], done["already_there"], done["forgotten"], done["turns"]) == (3, 0, 0, 3)
        after = await home.memories()
        changing = ("index_state", "revision", "source_turn_ids", "attempts")
        for one, other in zip(before, after, strict=True):
            for name in one.__dataclass_fields__:
                if name not in changing:
                    assert getattr(one, name) == getattr(other, name), name
            assert len(one.source_turn_ids) == len(other.source_turn_ids)
            assert other.index_state == "indexed"
        again = [await home.recall.search(home.asked(text, speaker="mika", history=True)) for text in questions]
        for old, new in zip(found, again, strict=True):
            assert [one.memory.memory_id for one in old.candidates] == [one.memory.memory_id for one in new.candidates]
            assert [one.retrieval_score for one in new.candidates] == pytest.approx(
                [one.retrieval_score for one in old.candidates], abs=1e-5
            )
        assert await home.found("猫") == ["富士通のパソコンを25,000円で買った。"], "not to a stranger"
        assert len(home.summarizer.requests) == 0
        # Nothing is made of the same words a second time, also after a restart.
        await home.worker.close()
        await home.worker.start()
        await home.worker.idle()
        assert len(home.summarizer.requests) == 0
        assert await home.memories() == after


async def test_an_export_says_what_it_is_and_ends_with_how_many(file: bytes) -> None:
    first, *rest = lines_of(file)
    assert (first["format"], first["version"], first["server"]) == ("stackchan-memory", 1, "1.0")
    assert rest[-1] == {"end": {"memories": 3}}
    (cat,) = (line["memory"] for line in rest if "コムギ" in str(line))
    assert [said["text"] for said in cat["turns"][0]["said"]] == [CAT, "かわいいね。"]
    assert "こんにちは" not in file.decode()


async def test_importing_twice_brings_nothing_twice(tmp_path: Path, file: bytes) -> None:
    async with house(tmp_path / "two", summaries) as home:
        await imported(home, file)
        memories, said = await home.memories(), await said_here(home)
        done = await imported(home, file)
        assert (done["imported"], done["already_there"], done["turns"]) == (0, 3, 0)
        assert sorted(done["already_there_ids"]) == [one.memory_id for one in memories]
        assert (await home.memories(), await said_here(home)) == (memories, said)


async def test_numbers_that_are_taken_are_given_anew(tmp_path: Path, file: bytes) -> None:
    async with house(tmp_path / "two", summaries) as home:
        await home.talk("辛いものが好き")
        own = await said_here(home)
        await imported(home, file)
        assert (await said_here(home))[:2] == own
        assert len(await said_here(home)) == 2 + 6
        # The numbers that follow are new as well.
        turn_id = await home.say(await home.open_session(), "こんばんは")
        async with home.databases.world(write=False) as db:
            assert [one.text for one in await memory_browse.words_of_turns(db, [turn_id])] == ["こんばんは", "うん。"]


async def test_a_number_beyond_all_others_does_not_use_up_the_counter(tmp_path: Path, file: bytes) -> None:
    lines = lines_of(file)
    for line in lines:
        for turn in line.get("memory", {}).get("turns", []):
            turn["turn_id"] += 2**52
            for said in turn["said"]:
                said["source_turn_id"] += 2**52
    async with house(tmp_path / "two", summaries) as home:
        assert (await imported(home, as_file(*lines)))["imported"] == 3
        assert await home.turn_ids.next_id() < 1000
        assert len(await said_here(home)) == 6


async def test_what_was_forgotten_is_not_brought_back(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CORRECTED)
        await home.talk(CAT)
        file = await exported(home)
        newest = next(one for one in await home.memories() if "25,000" in one.summary)
        await home.keeper.forget([newest.memory_id])
        await home.worker.idle()
        after = await exported(home)
        assert "富士通" not in after.decode()
        assert lines_of(after)[-1] == {"end": {"memories": 1}}
        done = await imported(home, file)
        assert (done["imported"], done["already_there"], done["forgotten"]) == (0, 1, 2)
        assert await home.found("富士通のパソコン") == ["猫のコムギが家に来た。"]
        assert files_with(tmp_path, "富士通", "25,000", "二万五千") == []


async def test_a_world_begun_anew_does_not_get_back_what_was_forgotten(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CAT)
        file = await exported(home)
        bought = next(one for one in await home.memories() if "富士通" in one.summary)
        await home.keeper.forget([bought.memory_id])
        await home.worker.idle()
    (tmp_path / "worlds").rename(tmp_path / "lost")
    async with house(tmp_path, summaries) as home:
        done = await imported(home, file)
        assert (done["imported"], done["forgotten"]) == (1, 1)
        assert files_with(tmp_path / "worlds", "富士通") == []
        assert await home.found("コムギ") == ["猫のコムギが家に来た。"]


async def test_words_that_a_forgotten_memory_shares_with_another_stay_blank(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.talk(BOUGHT, CAT)
        bought, cat = await home.memories()
        lines = lines_of(await exported(home))
        # Both were made of the same exchange.
        made_of = [line["memory"] for line in lines if "memory" in line]
        made_of[1]["turns"] = made_of[0]["turns"]
        await home.keeper.forget([bought.memory_id, cat.memory_id])
        await home.worker.idle()
        made_of[1]["memory_id"] = "mem_" + "Z" * 26
        done = await imported(home, as_file(*lines))
        assert (done["imported"], done["forgotten"]) == (1, 1)
        assert session_id
        assert files_with(tmp_path, "富士通") == []
        (kept,) = await home.memories()
        async with home.databases.world(write=False) as db:
            assert {one.text for one in await memory_browse.exact_words(db, kept.source_turn_ids)} == {""}
        blanked = lines_of(await exported(home))
        assert [said["text"] for said in blanked[-2]["memory"]["turns"][0]["said"]] == [None, None]


async def test_another_house_s_words_with_a_forgotten_number_are_not_taken_for_ours(
    tmp_path: Path, file: bytes
) -> None:
    async with house(tmp_path / "two", summaries) as home:
        for text in ("辛いものが好き", "コムギは三歳"):
            await home.talk(text)
        await home.keeper.forget([one.memory_id for one in await home.memories()])
        await home.worker.idle()
        assert (await imported(home, file))["imported"] == 3
        texts = [text for _, text in await said_here(home)]
        assert CAT in texts
        assert BOUGHT in texts
        await home.keeper.reapply()
        assert [text for _, text in await said_here(home)] == texts


async def test_an_exchange_that_told_a_memory_is_blanked_with_it_after_an_import(tmp_path: Path) -> None:
    async with house(tmp_path / "one", summaries) as home:
        await home.talk(BOUGHT)
        (bought,) = await home.memories()
        calls = [{"name": "search_memory", "result": {"candidates": [{"memory_id": bought.memory_id}]}}]
        session_id = await home.open_session()
        await home.say(session_id, CAT, "富士通だよ", tool_calls=calls)
        await home.end(session_id)
        file = await exported(home)
        assert "富士通だよ" not in file.decode(), "told words are no source"
    async with house(tmp_path / "two", summaries) as home:
        await imported(home, file)
        await home.keeper.forget([bought.memory_id])
        await home.worker.idle()
        assert files_with(tmp_path / "two", "富士通") == []
        assert {text for _, text in await said_here(home)} == {"", CAT}, "what was told beside it is another matter"


async def test_a_memory_forgotten_during_an_export_is_not_in_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.memory.transfer._PAGE", 1)
    async with house(tmp_path / "one", summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CORRECTED)
        await home.talk(CAT)
        old, new, _ = await home.memories()
        content = b""
        async for piece in export_lines(home.databases, now=home.at):
            content += piece
            if old.memory_id.encode() in piece:
                await home.keeper.forget([new.memory_id])
                await home.worker.idle()
        assert "25,000円で" not in content.decode()
        assert lines_of(content)[-1] == {"end": {"memories": 2}}
    async with house(tmp_path / "two", summaries) as home:
        done = await imported(home, content)
        # Its newer version is gone, which only forgetting does.
        assert (done["imported"], done["forgotten"]) == (1, 1)
        assert files_with(tmp_path / "two", "富士通") == []


async def test_two_imports_at_once_bring_nothing_twice(tmp_path: Path, file: bytes) -> None:
    async with house(tmp_path / "two", summaries) as home:
        both = await asyncio.gather(imported(home, file), imported(home, file))
        assert sorted(done["imported"] for done in both) == [0, 3]
        assert len(await home.memories()) == 3
        assert len(await said_here(home)) == 6


async def test_odd_text_comes_through(tmp_path: Path) -> None:
    odd = '“絵文字👩‍👩‍👧‍👦” \u200b\u202eﾊﾝｶｸ ｶﾞ \U000e0001 Ω≈ç\\n"quoted" {"tool": "x"}'
    async with house(
        tmp_path / "one",
        lambda said, request: [
            {"about": [1], "memory_type": "fact", "topic": "x", "summary": odd, "entities": [odd], "importance": 2}
        ],
    ) as home:
        await home.talk(odd)
        (before,) = await home.memories()
        file = await exported(home)
    async with house(tmp_path / "two", summaries) as home:
        await imported(home, b"\xef\xbb\xbf" + file.replace(b"\n", b"\r\n") + b"\r\n")
        (after,) = await home.memories()
        assert (after.summary, after.entities) == (before.summary, before.entities)
        assert ("user", odd) in await said_here(home)


async def test_nul_is_taken_out(tmp_path: Path, file: bytes) -> None:
    lines = lines_of(file)
    memory_in(lines).update(topic="買\0い物", entities=["富\0士通", "富士通"])
    async with house(tmp_path / "two", summaries) as home:
        await imported(home, as_file(*lines))
        assert {("買い物", ("富士通",))} <= {(one.topic, one.entities) for one in await home.memories()}
