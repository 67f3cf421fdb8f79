"""A private memory belongs to who said it and to who was there all the while; not to who came later."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from server.memory.ingest import present
from server.storage.memory_records import OpenExchange
from server.storage.records import SourceTurn
from tests.memory.making import House, house
from tests.memory.said_and_noted import summaries

pytestmark = pytest.mark.integration

SECRET = "富士通のパソコンは二万五千円だったんだよね"


async def said_in_turns(home: House, *speakers: str, private: bool) -> list[tuple[str, ...]]:
    """Whose the memory of a secret is that the one in the middle tells, between greetings of the others."""
    room = {"channel_id": "web:1"}
    session = await home.open_session(**room, private=private)
    teller = speakers.index("mika")
    for place, speaker in enumerate(speakers):
        await home.say(session, SECRET if place == teller else "そうなんだ", speaker_id=speaker, **room)
    await home.end(session)
    return [one.speakers for one in await home.memories()]


@pytest.mark.parametrize(
    ("speakers", "private", "whose"),
    [
        (("ren", "mika", "ren"), True, ("mika", "ren")),
        (("ren", "hiro", "mika", "hiro", "ren"), True, ("mika", "ren", "hiro")),
        (("mika", "ren", "ren"), True, ("mika",)),
        (("ren", "ren", "mika"), True, ("mika",)),
        (("ren", "mika", "ren"), False, ("mika",)),
    ],
)
async def test_a_private_memory_is_also_theirs_who_heard_it(
    tmp_path: Path, speakers: tuple[str, ...], private: bool, whose: tuple[str, ...]
) -> None:
    async with house(tmp_path, summaries) as home:
        assert await said_in_turns(home, *speakers, private=private) == [whose]
        finders = [name for name in ("mika", "ren", "hiro", None) if await home.found("パソコン", speaker=name)]
    assert finders == (
        ["mika", "ren", "hiro", None] if not private else [n for n in ("mika", "ren", "hiro") if n in whose]
    )


def turn(turn_id: int, speaker: str | None, room: str = "web:1") -> SourceTurn:
    at = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    return SourceTurn(
        turn_id, turn_id, "s", room, "user", speaker, "hi", "en", "private", at, "Asia/Tokyo", None, False, None
    )


def test_it_does_not_matter_when_what_was_said_around_it_was_taken_in() -> None:
    told = turn(3, "mika")
    part = [OpenExchange(3, "ok", "p", told, None)]
    around = [turn(1, "ren"), turn(2, "hiro"), told, turn(4, "ren")]
    assert present(around, part) == ("ren",)
    assert present([*around, turn(5, "hiro", "web:2")], part) == ("ren",), "in another room"
    assert present(around[2:], part) == ()
