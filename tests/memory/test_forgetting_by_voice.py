"""Forgetting by voice in a house that makes memories: what was shown, what was only just said, what was corrected."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from server.memory.asking import Asker
from tests.memory.home import PC, Home, capabilities
from tests.memory.making import note

pytestmark = pytest.mark.integration

SISTER = "姉のパソコンは白い。"


async def ask(
    home: Home, words: str, query: str, *, small: bool = True, idle: bool = False
) -> tuple[dict[str, Any], Asker]:
    """A turn of the open conversation in which the model calls the tool; the turn has ended.

    `idle`: the worker has done by then what there was to do.
    """
    asker = await home.say(words, "うん。")
    if idle:
        await home.memory.worker.idle()
    # A server has one set of tools for all turns.
    tool = home.__dict__.setdefault("tools", home.memory.tools_for(capabilities(small=small)))[2]
    result = dict(await tool.run({"query": query}, asker))
    await home.memory.turn_ended(asker, forgot=result["forgotten"] > 0)
    return result, asker


async def end(home: Home, asker: Asker) -> None:
    home.at += dt.timedelta(minutes=11)
    await home.memory.session_ended(asker.session_id)
    await home.memory.worker.idle()


async def test_what_was_only_just_said_is_forgotten_and_no_memory_is_made_of_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await memory.turn_ended(await home.say("富士通のパソコンを三万円で買ったよ"))
        result, asker = await ask(home, "今の話は忘れて", "今の話")
        assert result["forgotten"] == 1
        await end(home, asker)
        assert await home.stored() == []
        assert "said" not in await home.search("富士通、三万円")


async def test_a_memory_that_is_made_of_it_while_it_is_being_forgotten_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await memory.worker.close()
        forget = memory.keeper.forget

        async def made_first(*args: Any, **kwargs: Any) -> Any:
            await memory.worker.start()
            await memory.worker.idle()
            assert await home.stored() == [PC]
            monkeypatch.undo()
            return await forget(*args, **kwargs)

        monkeypatch.setattr(memory.keeper, "forget", made_first)
        await memory.turn_ended(await home.say("富士通のパソコンを三万円で買ったよ"))
        result, asker = await ask(home, "今の話は忘れて", "今の話")
        assert result["forgotten"] == 1
        assert await home.stored() == []
        await end(home, asker)
        assert await home.stored() == []


async def test_what_was_said_in_another_talk_and_is_no_memory_yet_is_forgotten(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        first = await home.say("富士通のパソコンを三万円で買ったよ")
        tool = memory.tools_for(capabilities(small=True))[2]
        assert (await tool.run({"query": "パソコン"}, home.asker("パソコンのことは忘れて")))["forgotten"] == 1
        await end(home, first)
        assert await home.stored() == []


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("small", [True, False])
async def test_that_is_what_the_answer_came_from_with_its_correction(tmp_path: Path, small: bool, made: bool) -> None:
    """`made`: the correction is a memory already, another version of that one; else it was only said."""
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        found = await home.search(small=small)
        calls = [{"name": "search_memory", "arguments": {"query": "値段"}, "result": found}]
        await memory.turn_ended(await home.say("いくらだったっけ", "三万円だよ。", tool_calls=calls))
        home.summarizer.summaries = lambda said, request: [note(one, "富士通") for one in said if "五千円" in one]
        if not made:
            await memory.worker.close()
        await memory.turn_ended(await home.say("違う、二万五千円だよ", "二万五千円だね。"))
        result, asker = await ask(home, "それは忘れて", "それ", small=small, idle=made)
        assert result["forgotten"] == (1 if made else 2)
        assert await home.stored() == []
        if not made:
            await memory.worker.start()
        await end(home, asker)
        assert await home.stored() == []


async def test_both_is_an_answer_and_the_question_is_still_in_the_log_when_it_comes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.summarizer.summaries = lambda said, request: [
        note(
            PC if "富士通" in one else SISTER, *(("富士通",) if "富士通" in one else ("姉",)), "パソコン", about=[place]
        )
        for place, one in enumerate(said, start=1)
    ]
    async with home.open() as memory:
        first = await home.say("富士通のパソコンを三万円で買ったよ")
        await home.say("姉のパソコンは白いよ")
        await memory.turn_ended(first)
        await end(home, first)
        assert sorted(await home.stored()) == sorted([PC, SISTER])
        result, _ = await ask(home, "パソコンのことは忘れて", "パソコン")
        assert (result["forgotten"], len(result["which"])) == (0, 2)
        assert len(await home.stored()) == 2
        result, _ = await ask(home, "両方", "両方")
        assert result["forgotten"] == 2
        assert await home.stored() == []


async def test_what_stays_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.summarizer.summaries = lambda said, request: [
        note(
            PC if "富士通" in one else SISTER, *(("富士通",) if "富士通" in one else ("姉",)), "パソコン", about=[place]
        )
        for place, one in enumerate(said, start=1)
    ]
    async with home.open() as memory:
        first = await home.say("富士通のパソコンを三万円で買ったよ")
        await home.say("姉のパソコンは白いよ")
        await memory.turn_ended(first)
        await end(home, first)
        result, _ = await ask(home, "僕のパソコンのことは忘れて", "パソコン")
        assert [one["summary"] for one in result["still_remembered"]] == [SISTER]
        assert await home.stored() == [SISTER]
