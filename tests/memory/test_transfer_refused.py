"""A file that is not right is refused whole, with the line that is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from server.errors import RequestError
from server.memory.transfer import export_lines, import_lines
from tests.memory.making import MONDAY, House, house
from tests.memory.said_and_noted import BOUGHT, summaries

pytestmark = pytest.mark.integration

CORRECTED = "富士通のパソコン、違う、二万五千円だった"
CAT = "猫のコムギが家に来た"


async def exported(home: House) -> bytes:
    return b"".join([piece async for piece in export_lines(home.databases, now=home.at, server_version="1.0")])


async def pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def lines_of(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def as_file(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    async def talk() -> bytes:
        async with house(tmp_path_factory.mktemp("one"), summaries) as home:
            await home.talk(BOUGHT)
            await home.talk(CORRECTED)
            await home.talk((CAT, "かわいいね。"), speaker_id="mika", private=True, channel_id="stackchan:kitchen")
            await home.talk("こんにちは")
            return await exported(home)

    return asyncio.run(talk())


def broken(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[bytes], bytes]:
    def made(file: bytes) -> bytes:
        lines = lines_of(file)
        change(lines)
        return as_file(*lines)

    return made


def memory_in(lines: list[dict[str, Any]], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = [line["memory"] for line in lines if "memory" in line][place]
    return found


def circle(lines: list[dict[str, Any]]) -> None:
    for place in (0, 1):
        memory_in(lines, place).update(status="superseded", superseded_by=memory_in(lines, 1 - place)["memory_id"])


BREAKS: list[tuple[str, Callable[[bytes], bytes], str, str]] = [
    ("empty", lambda file: b"", "import_format", "Line 1"),
    ("a picture", lambda file: b"\x89PNG\r\n\x1a\n" + bytes(100), "import_format", "Line 1"),
    ("another format", broken(lambda lines: lines[0].update(format="mem0")), "import_format", "Line 1"),
    ("a newer version", broken(lambda lines: lines[0].update(version=2)), "import_version", "version 2"),
    ("cut within a line", lambda file: file[:-200], "import_line_invalid", "Line "),
    ("cut between lines", lambda file: file[: file.rindex(b'{"end"')], "import_truncated", "Line "),
    ("a memory left out", broken(lambda lines: lines.pop(-2)), "import_truncated", "2 came"),
    ("more after the end", lambda file: file + file, "import_line_invalid", "after the end"),
    ("no JSON", lambda file: file.replace(b'{"memory"', b"{memory", 1), "import_line_invalid", "Line 4"),
    ("not UTF-8", lambda file: file.replace("富士通".encode(), b"\xff\xfe", 1), "import_line_invalid", "Line 4"),
    (
        "a lone surrogate",
        broken(lambda lines: memory_in(lines).update(topic="\ud800")),
        "import_line_invalid",
        "Line 4",
    ),
    (
        "a long line",
        broken(lambda lines: memory_in(lines).update(topic="あ" * 10**7)),
        "import_line_too_long",
        "Line 4",
    ),
    ("deep", lambda file: file.replace(b'{"memory"', b"[" * 50_000, 1), "import_line_invalid", "Line 4"),
    ("no summary", broken(lambda lines: memory_in(lines).update(summary=" \0")), "import_line_invalid", "summary"),
    (
        "no memory id",
        broken(lambda lines: memory_in(lines).update(memory_id="../x")),
        "import_line_invalid",
        "memory_id",
    ),
    ("importance 9", broken(lambda lines: memory_in(lines).update(importance=9)), "import_line_invalid", "importance"),
    ("forgotten", broken(lambda lines: memory_in(lines).update(status="forgotten")), "import_line_invalid", "status"),
    ("true", broken(lambda lines: memory_in(lines).update(importance=True)), "import_line_invalid", "importance"),
    *(
        (name, broken(lambda lines, name=name: memory_in(lines).update(zone=name)), "import_line_invalid", "zone")
        for name in ("localtime", "posixrules", "posix/Asia/Tokyo", "right/Asia/Tokyo")
    ),
    ("no zone", broken(lambda lines: memory_in(lines).update(zone="../../etc/passwd")), "import_line_invalid", "zone"),
    (
        "no offset",
        broken(lambda lines: memory_in(lines).update(occurred_at="2026-11-30T12:00:00")),
        "import_line_invalid",
        "occurred_at",
    ),
    (
        "year 1",
        broken(lambda lines: memory_in(lines).update(occurred_at="0001-01-01T00:00:00+09:00")),
        "import_line_invalid",
        "occurred_at",
    ),
    ("a field too much", broken(lambda lines: memory_in(lines).update(mood="x")), "import_line_invalid", "mood"),
    ("twice", broken(lambda lines: lines.insert(-1, lines[-2])), "import_duplicate", "Line "),
    ("a circle", broken(circle), "import_line_invalid", "replaced itself"),
    (
        "a negative number",
        broken(lambda lines: memory_in(lines)["turns"][0].update(turn_id=-1)),
        "import_line_invalid",
        "turn_id",
    ),
    (
        "a huge number",
        broken(lambda lines: memory_in(lines)["turns"][0].update(turn_id=2**63)),
        "import_line_invalid",
        "turn_id",
    ),
    (
        "a turn of two sessions",
        broken(lambda lines: memory_in(lines, 1)["turns"][0].update(turn_id=memory_in(lines)["turns"][0]["turn_id"])),
        "import_line_invalid",
        "another session",
    ),
    (
        "one side twice",
        broken(lambda lines: memory_in(lines)["turns"][0]["said"].append(memory_in(lines)["turns"][0]["said"][0])),
        "import_line_invalid",
        "turns",
    ),
]


@pytest.mark.parametrize(("make", "code", "told"), [each[1:] for each in BREAKS], ids=[each[0] for each in BREAKS])
async def test_a_broken_file_is_refused_with_its_line_before_anything_is_touched(
    file: bytes, make: Callable[[bytes], bytes], code: str, told: str
) -> None:
    nothing: Any = None
    with pytest.raises(RequestError) as caught:
        await import_lines(nothing, nothing, pieces(make(file), 100_000), clock=lambda: MONDAY)
    assert caught.value.code == code
    assert told in caught.value.message
    assert len(caught.value.message) < 400
    assert "富士通のパソコンを" not in caught.value.message, "what was said is in no message"
