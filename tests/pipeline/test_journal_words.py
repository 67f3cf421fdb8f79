"""When the user's words are stored: with the turn, where they are known when it begins; else when they are heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.config_sections import SessionSettings
from server.errors import AsrError
from server.persona import default_persona_path, load_persona
from server.pipeline.journal import TurnJournal
from server.pipeline.request import Heard, OpenTurn, TurnRequest
from server.storage.database import Databases
from server.storage.turns import recent_source_turns

pytestmark = pytest.mark.integration

NOON = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
SOUND = np.zeros(16_000, np.float32)


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[Databases]:
    async with await Databases.open(tmp_path, "home") as opened:
        yield opened


async def begun(databases: Databases, early: asyncio.Future[Heard | None] | None) -> tuple[OpenTurn, list[str]]:
    """A turn that begins now, and the words that are on the disk then."""
    journal = TurnJournal(databases, SessionSettings(), load_persona(default_persona_path()))
    request = TurnRequest("desk", samples=SOUND, heard_early=early)
    turn = await journal.begin(await journal.next_turn_id(), request, NOON, status="running")
    async with databases.world(write=False) as db:
        said = await recent_source_turns(db, turn.session_id, 10)
    return turn, [one.text for one in said]


def early(outcome: Any) -> asyncio.Future[Heard | None]:
    future: asyncio.Future[Heard | None] = asyncio.get_running_loop().create_future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # whoever hears meets it
    elif outcome == "cancelled":
        future.cancel()
    elif outcome != "later":
        future.set_result(outcome)
    return future


@pytest.mark.parametrize("text", ["金曜日に歯医者。", "The dentist is on Friday.", "𠮷野家へ🍚"])
async def test_words_that_are_known_are_stored_with_the_turn_and_once(databases: Databases, text: str) -> None:
    heard = Heard(text, "ja", 900)
    turn, stored = await begun(databases, early(heard))
    assert (turn.heard, stored) == (heard, [text])
    journal = TurnJournal(databases, SessionSettings(), load_persona(default_persona_path()))
    kept = await journal.read(turn.turn_id)
    assert kept is not None
    assert (kept.result.transcript, kept.result.language) == (text, "ja")


@pytest.mark.parametrize("outcome", [None, "later", "cancelled", AsrError("deaf")])
async def test_a_turn_begins_without_words_that_are_not_there(databases: Databases, outcome: Any) -> None:
    turn, stored = await begun(databases, early(outcome))
    assert (turn.heard, stored) == (None, [])


async def test_an_uploaded_turn_begins_without_its_words(databases: Databases) -> None:
    turn, stored = await begun(databases, None)
    assert (turn.heard, stored) == (None, [])
