"""A turn that was shown a memory ends after another device has had it forgotten: nothing of it is left by that turn."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from server.config_sections import SessionSettings
from server.persona import default_persona_path, load_persona
from server.pipeline.journal import TurnJournal
from server.pipeline.request import Heard, OpenTurn, TurnRequest, TurnResult
from server.storage import forgetting, memory_browse, turns
from tests.memory.home import Home
from tests.memory.test_forgetting_what_was_shown import called, left, memory_id

pytestmark = pytest.mark.integration

SENTENCE = "富士通のパソコンは三万円だったよ。"


def journal_of(home: Home) -> TurnJournal:
    return TurnJournal(home.databases, SessionSettings(), load_persona(default_persona_path()))


async def begun(home: Home, journal: TurnJournal, words: str) -> OpenTurn:
    """A turn of another device that runs and has been heard."""
    turn = await journal.begin(
        await journal.next_turn_id(), TurnRequest("kitchen", text=words), home.at, status="running"
    )
    await journal.heard(turn, Heard(words, "ja"), home.at)
    return turn


def said(turn: OpenTurn, result: Mapping[str, object]) -> TurnResult:
    return TurnResult(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        status="done",
        outcome="ok",
        transcript="いくらだったっけ",
        language="ja",
        reply=SENTENCE,
        memory={"found": SENTENCE},
        tool_calls=tuple(called("search_memory", result)),
    )


async def test_a_turn_with_its_search_in_hand_leaves_nothing_when_it_ends_after_the_forgetting(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        journal = journal_of(home)
        turn = await begun(home, journal, "いくらだったっけ")
        found = await home.search(small=True)
        assert "三万円" in json.dumps(found, ensure_ascii=False)
        await memory.keeper.forget([await memory_id(home)])
        await journal.ended(turn, said(turn, found), {"tools": [found]}, home.at)
        assert await left(home, "三万円") == []
        async with home.databases.world(write=False) as db:
            assert await turns.get_trace(db, turn.turn_id) is None
            user, robot = await memory_browse.words_of_turns(db, [turn.turn_id])
        assert (user.text, robot.text, robot.tool_calls) == ("いくらだったっけ", "", None)
    async with home.open():
        assert await left(home, "三万円") == []


async def test_what_was_only_said_in_it_and_is_no_memory_counts_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        told = await home.say("富士通のパソコンを三万円で買ったよ")
        async with home.databases.world(write=False) as db:
            source, _ = await memory_browse.words_of_turns(db, [told.turn_id])
        journal = journal_of(home)
        turn = await begun(home, journal, "いくらだったっけ")
        await memory.forget_this_turn(told.turn_id)
        shown = {"said": [{"source_turn_id": source.source_turn_id, "text": source.text}]}
        await journal.ended(turn, said(turn, shown), {}, home.at)
        assert await left(home, "三万円") == []


async def test_a_turn_that_ends_between_the_look_and_the_forgetting_is_blanked_by_the_forgetting(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    async with home.open():
        await home.remember_the_pc()
        journal = journal_of(home)
        turn = await begun(home, journal, "いくらだったっけ")
        found = await home.search(small=True)
        async with home.databases.world(write=False) as db:
            reached = await forgetting.reach(db, [await memory_id(home)], also_source=True)
        assert turn.turn_id not in reached.turn_ids
        await journal.ended(turn, said(turn, found), {"tools": [found]}, home.at)
        async with home.databases.world() as db:
            await forgetting.forget(db, reached, now=home.at)
        assert await left(home, "三万円") == []


async def test_a_turn_that_was_shown_nothing_forgotten_keeps_its_words(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open():
        await home.remember_the_pc()
        journal = journal_of(home)
        turn = await begun(home, journal, "いくらだったっけ")
        found = await home.search(small=True)
        await journal.ended(turn, said(turn, found), {"tools": ["search_memory"]}, home.at + dt.timedelta(seconds=3))
        async with home.databases.world(write=False) as db:
            _, robot = await memory_browse.words_of_turns(db, [turn.turn_id])
            assert await turns.get_trace(db, turn.turn_id) == {"tools": ["search_memory"]}
        assert robot.text == SENTENCE
        assert robot.tool_calls is not None
