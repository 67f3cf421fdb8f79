"""The lines of an exported memory: JSON Lines, version 1, written and read back checked.

The first line says what it is, then come channels, then memories with the exact words they were made of, and a last
line that says how many there were, so that a cut file is noticed. Knows no database and no transport.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from server.errors import RequestError
from server.storage.memory_ids import MEMORY_ID
from server.storage.memory_import_records import ImportedChannel, ImportedMemory, ImportedTurn, ImportedWords
from server.storage.recall_tables import Confidence, MemoryType
from server.storage.session_tables import ChannelKind, InputKind, SourceRole, Visibility
from server.storage.types import FIRST_DAY, LAST_DAY, clean_text, is_possible_day

FORMAT, VERSION = "stackchan-memory", 1
LINE_BYTES_LIMIT = 1024 * 1024
LINES_LIMIT = 200_000
FILE_BYTES_LIMIT = 512 * 1024 * 1024
_BIGGEST_NUMBER = 2**53
_NO_PLACE = frozenset({"localtime", "posixrules"})
"""Files beside the time zones that mean another zone on each machine."""

LineT = TypeVar("LineT", bound=BaseModel)


def _utc(moment: dt.datetime) -> dt.datetime:
    if not is_possible_day(moment.date()):
        raise ValueError(f"a time that is not from {FIRST_DAY} to {LAST_DAY}")
    return moment.astimezone(dt.UTC)


def _zone(name: str) -> str:
    if name.rpartition("/")[2] in _NO_PLACE or name.partition("/")[0] in ("posix", "right"):
        raise ValueError("this is no time zone of a place")
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("no time zone of this name is known here") from None
    return name


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


Text = Annotated[str, AfterValidator(clean_text)]
Short = Annotated[str, Field(max_length=200), AfterValidator(clean_text)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x20\x7f]+$"), AfterValidator(clean_text)]
Moment = Annotated[AwareDatetime, AfterValidator(_utc)]
Zone = Annotated[str, Field(max_length=64), AfterValidator(_zone)]
MemoryId = Annotated[str, Field(pattern=f"^{MEMORY_ID}$")]
Number = Annotated[int, Field(ge=1, le=_BIGGEST_NUMBER)]
Milliseconds = Annotated[int, Field(ge=0, le=_BIGGEST_NUMBER)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Header(_Line):
    format: Literal["stackchan-memory"] = "stackchan-memory"
    version: int
    exported_at: Moment
    server: Short = ""


class Channel(_Line):
    channel_id: Name
    kind: ChannelKind
    private: bool
    parent_channel_id: Name | None = None
    created_at: Moment


class Words(_Line):
    """One side's exact words; `text` null when they were forgotten."""

    source_turn_id: Number
    role: SourceRole
    speaker_id: Name | None
    text: Text | None
    language: Short
    visibility: Visibility
    said_at: Moment
    zone: Zone
    audio_duration_ms: Milliseconds | None = None
    interrupted: bool = False


class TurnLine(_Line):
    """An exchange with the words of it that the memory was made of. `recalled`: memories that were told in it."""

    turn_id: Number
    session_id: Name
    channel_id: Name
    persona_id: Name
    outcome: Literal["ok", "no_speech", "failed", "interrupted"]
    input_kind: InputKind
    emotion: Short | None = None
    action: Short | None = None
    started_at: Moment
    ended_at: Moment
    recalled: list[MemoryId] = Field(default=[], max_length=1000)
    said: list[Words] = Field(min_length=1, max_length=2)

    @model_validator(mode="after")
    def _each_side_once(self) -> TurnLine:
        if len({words.role for words in self.said}) != len(self.said):
            raise ValueError("a side has spoken twice in one exchange")
        return self


class MemoryLine(_Line):
    memory_id: MemoryId
    topic: Text
    summary: Annotated[Text, AfterValidator(_said)]
    entities: list[Short] = Field(max_length=1000)
    memory_type: MemoryType
    occurred_at: Moment
    zone: Zone
    status: Literal["active", "superseded"]
    superseded_by: MemoryId | None
    language: Short
    speakers: list[Name] = Field(max_length=1000)
    confidence: Confidence
    importance: Annotated[int, Field(ge=1, le=5, strict=True)]
    persona_id: Name
    channel_id: Name
    visibility: Visibility
    created_at: Moment
    updated_at: Moment
    turns: list[TurnLine] = Field(max_length=10_000)

    @model_validator(mode="after")
    def _replaced_by_another(self) -> MemoryLine:
        if (self.status == "superseded") != (self.superseded_by is not None) or self.superseded_by == self.memory_id:
            raise ValueError("status and superseded_by do not agree")
        return self


class End(_Line):
    memories: Annotated[int, Field(ge=0)]


class Line(_Line):
    """A line after the first: one of these."""

    channel: Channel | None = None
    memory: MemoryLine | None = None
    end: End | None = None

    @model_validator(mode="after")
    def _one(self) -> Line:
        if sum(one is not None for one in (self.channel, self.memory, self.end)) != 1:
            raise ValueError("it is neither a channel nor a memory nor the end")
        return self


Read = tuple[int, int, ImportedChannel | ImportedMemory]
"""Number of a line, the byte it begins with, and what is in it."""


def written(line: BaseModel) -> bytes:
    """A line as it stands in the file."""
    return line.model_dump_json(exclude_unset=isinstance(line, Line)).encode() + b"\n"


def read_lines(file: BinaryIO) -> Iterator[Read]:
    """The channels and memories of a file, one by one. Raises `RequestError` that names the line.

    Codes: `import_format`, `import_version`, `import_line_invalid`, `import_line_too_long`, `import_too_large`,
    `import_truncated`.
    """
    first = _next_line(file, 1)
    _check_header(first.removeprefix(b"\xef\xbb\xbf"))
    number, memories, ended = 1, 0, False
    while True:
        start = file.tell()
        if not (raw := _next_line(file, number + 1)):
            break
        number += 1
        if number > LINES_LIMIT:
            raise refused(number, "there are more lines than can be taken in", "import_too_large")
        if not raw.strip():
            continue
        if ended:
            raise refused(number, "it stands after the end", "import_line_invalid")
        line = _checked(Line, raw, number)
        if line.end is not None:
            if line.end.memories != memories:
                raise refused(number, f"it counts {line.end.memories} memories, {memories} came", "import_truncated")
            ended = True
        elif line.memory is not None:
            memories += 1
            yield number, start, _memory(line.memory)
        elif line.channel is not None:
            yield number, start, ImportedChannel(**line.channel.model_dump())
    if not ended:
        raise refused(number, "the file ends here, before its last line", "import_truncated")


def read_memory(file: BinaryIO, number: int, start: int) -> ImportedMemory:
    """The memory of a line that was read before. Raises `RequestError` when it is not that any more."""
    file.seek(start)
    line = _checked(Line, _next_line(file, number), number)
    if line.memory is None:
        raise refused(number, "it is no memory", "import_line_invalid")
    return _memory(line.memory)


def refused(number: int, what: str, code: str) -> RequestError:
    """The error for a line."""
    return RequestError(
        f"Line {number}: {what}.", code=code, hint="Nothing was imported. Export again, or correct that line."
    )


def _next_line(file: BinaryIO, number: int) -> bytes:
    raw = file.readline(LINE_BYTES_LIMIT + 1)
    if len(raw) > LINE_BYTES_LIMIT:
        raise refused(number, f"it is longer than {LINE_BYTES_LIMIT} bytes", "import_line_too_long")
    return raw


def _check_header(raw: bytes) -> None:
    class Claim(BaseModel):
        format: str
        version: int

    try:
        claim = Claim.model_validate_json(raw)
    except ValidationError:
        claim = None
    if claim is None or claim.format != FORMAT:
        raise RequestError(
            f'Line 1: this is no exported memory; it must begin with {{"format":"{FORMAT}","version":{VERSION}.',
            code="import_format",
            hint="Send what GET /v1/memory/export or `stackchan memory export` gave.",
        )
    if claim.version != VERSION:
        raise RequestError(
            f"Line 1: the file has version {claim.version}, this server reads version {VERSION}.",
            code="import_version",
            hint="Import it with the version of the server that wrote it, or a newer one.",
        )
    _checked(Header, raw, 1)


def _checked(kind: type[LineT], raw: bytes, number: int) -> LineT:
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        # Neither the input nor the context: a line holds what somebody said.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        raise refused(number, f"{where}: {first['msg']}" if where else first["msg"], "import_line_invalid") from None


def _memory(line: MemoryLine) -> ImportedMemory:
    values: dict[str, Any] = {name: getattr(line, name) for name in MemoryLine.model_fields}
    values |= {"entities": tuple(line.entities), "speakers": tuple(line.speakers)}
    return ImportedMemory(**values | {"turns": tuple(_turn(turn) for turn in line.turns)})


def _turn(line: TurnLine) -> ImportedTurn:
    values: dict[str, Any] = {name: getattr(line, name) for name in TurnLine.model_fields}
    said = tuple(
        ImportedWords(**{name: getattr(words, name) for name in Words.model_fields} | {"text": words.text or ""})
        for words in line.said
    )
    return ImportedTurn(**values | {"recalled": tuple(line.recalled), "said": said})
