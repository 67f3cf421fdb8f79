"""A private memory belongs to who said it and to who was there all the while; not to who came later."""

from __future__ import annotations

from pathlib import Path

import pytest

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
