"""An exported memory, and what the tests of export and import do with one."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from server.memory.importing import Imports
from server.memory.transfer import export_lines
from server.storage import memory_browse
from tests.memory.making import House, house
from tests.memory.said_and_noted import BOUGHT, summaries

CORRECTED = "富士通のパソコン、違う、二万五千円だった"
CAT = "猫のコムギが家に来た"


async def talked_and_exported(folder: Path) -> bytes:
    """The file of a house that was told of a computer, its right price, a cat, and nothing."""
    async with house(folder, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk(CORRECTED)
        await home.talk((CAT, "かわいいね。"), speaker_id="mika", private=True, channel_id="stackchan:kitchen")
        await home.talk("こんにちは")
        return await exported(home)


async def exported(home: House) -> bytes:
    return b"".join([piece async for piece in export_lines(home.databases, now=home.at, server_version="1.0")])


async def pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def imports_of(home: House) -> Imports:
    return Imports(home.databases, home.keeper, clock=home.clock)


async def imported(home: House, content: bytes) -> dict[str, Any]:
    result = await imports_of(home).take_in(pieces(content))
    await home.worker.idle()
    return result


def lines_of(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def as_file(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def memory_in(lines: list[dict[str, Any]], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = [line["memory"] for line in lines if "memory" in line][place]
    return found


def many(file: bytes, count: int, *, versions: bool = False) -> bytes:
    """A file of `count` memories, each with an exchange of its own; `versions`: each has replaced the one before."""
    lines = lines_of(file)
    model = next(line["memory"] for line in lines if "memory" in line)
    ids = [f"mem_{number:026d}" for number in range(count)]
    made = []
    for number, memory_id in enumerate(ids):
        memory = copy.deepcopy(model) | {"memory_id": memory_id, "summary": f"{number}号のパソコンを買った。"}
        newer = ids[number + 1] if versions and number + 1 < count else None
        memory |= {"superseded_by": newer, "status": "superseded" if newer else "active"}
        (turn,) = memory["turns"]
        turn |= {"turn_id": number + 1, "session_id": f"session-{number}", "recalled": []}
        for place, said in enumerate(turn["said"], start=1):
            said |= {"source_turn_id": 2 * number + place, "text": f"{number}号のパソコン、{said['role']}"}
        made.append({"memory": memory})
    heads = [line for line in lines if "memory" not in line and "end" not in line]
    return as_file(*heads, *made, {"end": {"memories": count}})


async def said_here(home: House) -> list[tuple[str, str]]:
    """All words that are kept, with who said them."""
    async with home.databases.world(write=False) as db:
        said = await memory_browse.exact_words(db, range(1, 500))
    return [(turn.role, turn.text) for turn in said]
