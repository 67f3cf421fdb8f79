"""A file that is not right is refused whole, with the line that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.errors import RequestError
from server.memory.importing import Imports
from server.storage.database import Databases
from server.storage.ids import IdAllocator
from tests.memory.exporting import as_file, lines_of, memory_in, pieces
from tests.memory.making import MONDAY

pytestmark = pytest.mark.integration


def broken(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[bytes], bytes]:
    def made(file: bytes) -> bytes:
        lines = lines_of(file)
        change(lines)
        return as_file(*lines)

    return made


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
    tmp_path: Path, file: bytes, make: Callable[[bytes], bytes], code: str, told: str
) -> None:
    nobody: Any = None
    async with await Databases.open(tmp_path, "home") as databases:
        with pytest.raises(RequestError) as caught:
            await Imports(databases, nobody, clock=lambda: MONDAY).take_in(pieces(make(file), 100_000))
        assert await IdAllocator(databases.server, "turn").next_id() == 1, "no number was taken"
        assert list((databases.world_folder / "imports").iterdir()) == []
    assert caught.value.code == code
    assert told in caught.value.message
    assert len(caught.value.message) < 400
    assert "富士通のパソコンを" not in caught.value.message, "what was said is in no message"
