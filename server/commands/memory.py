"""`stackchan memory`: the owner's view of long-term memory, with a running server or without one.

Asks, shows and writes files. Where the memory is and how it is reached is in `memory_remote.py` and
`memory_local.py`, how it looks in `memory_view.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from server.commands.asking import agreed
from server.commands.client import ServerClient, find_target
from server.commands.failures import ExitCode, UsageFailure
from server.commands.memory_remote import RemoteMemory, Wanted
from server.commands.memory_view import (
    show_audit,
    show_found,
    show_headline,
    show_memory,
    show_sources,
    show_status,
    show_still_found,
)
from server.commands.saved_files import require_free, save
from server.commands.terminal import Terminal, own_command
from server.commands.work_progress import MEGABYTES, MEMORIES, work_progress
from server.config import load_settings
from server.errors import StackChanError
from server.run_file import read_run_file
from server.storage.memory_ids import MEMORY_ID

if TYPE_CHECKING:
    from server.commands.memory_local import LocalMemory

Meaning = Literal["needed", "wanted", "unused"]
"""The embedding model, where no server runs: loaded or an error, loaded if it is here, or not loaded."""
_MEMORY_ID = re.compile(MEMORY_ID)
_LAST_LINE_BYTES = 1000
_SAID_SHOWN = 20
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What every command takes."""

    data_dir: Path | None = None
    as_json: bool = False


@contextmanager
def open_memory(
    options: MemoryOptions, terminal: Terminal, *, meaning: Meaning = "unused", makes: bool = False
) -> Iterator[RemoteMemory | LocalMemory]:
    """The memory of the running server, or else of the data folder, which is held meanwhile.

    `makes`: a folder without a memory gets one. Raises `StackChanError` when neither can be had.
    """
    settings = load_settings(data_dir=options.data_dir)
    if read_run_file(settings.data_dir) is not None:
        client = ServerClient(find_target(settings.data_dir), on_wait=lambda reason: terminal.note(reason, style="dim"))
        with RemoteMemory(client) as remote:
            yield remote
        return
    from server.commands.memory_local import LocalMemory

    with LocalMemory(settings, terminal, meaning=meaning, makes=makes) as local:
        yield local


def show_memory_status(options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """Figures, and what needs a hand."""
    with open_memory(options, terminal) as memory:
        answer = memory.status()
    return _tell(answer, options, terminal, show_status)


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for; an empty `query` lists the newest."""

    query: str = ""
    limit: int = 10
    after: str | None = None
    status: str | None = None
    memory_type: str | None = None
    entity: str | None = None
    date_from: str | None = None
    date_to: str | None = None
    speaker: str | None = None

    def wanted(self) -> Wanted:
        """As the server takes it. Raises `UsageFailure`."""
        for option, day in (("--from", self.date_from), ("--to", self.date_to)):
            if day is not None and not _DAY.fullmatch(day):
                raise UsageFailure(f"{option} {day}: not a day.", hint="Write it like 2026-11-30.")
        query = self.query.strip()
        if query and self.after:
            raise UsageFailure("--after is for a list, not for a search.", hint="Raise --limit instead.")
        named = {
            "limit": self.limit,
            "query": query or None,
            "after": self.after,
            "status": self.status,
            "type": self.memory_type,
            "entity": self.entity,
            "date_from": self.date_from,
            "date_to": self.date_to,
            "speaker": self.speaker,
        }
        return {name: value for name, value in named.items() if value is not None}


def search_memories(search: Search, options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """What is remembered for a question, best first; without one, the newest."""
    wanted = search.wanted()
    with open_memory(options, terminal, meaning="wanted" if "query" in wanted else "unused") as memory:
        answer = memory.find(wanted)
    return _tell(answer, options, terminal, show_found)


def read_memory(memory_id: str, options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """One memory with the exact words it comes from."""
    _check_id(memory_id)
    with open_memory(options, terminal) as memory:
        answer = memory.read(memory_id)
    return _tell(answer, options, terminal, show_memory)


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit replaces; None leaves as it is. `occurred_at`: as typed, in the memory's own zone."""

    topic: str | None = None
    summary: str | None = None
    entities: Sequence[str] | None = None
    memory_type: str | None = None
    importance: int | None = None
    occurred_at: str | None = None


def edit_memory(memory_id: str, edit: Edit, options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """Change what a memory says; its vector follows."""
    _check_id(memory_id)
    changes: dict[str, Any] = {
        "topic": edit.topic,
        "summary": edit.summary,
        "entities": None if edit.entities is None else list(edit.entities),
        "memory_type": edit.memory_type,
        "importance": edit.importance,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes and edit.occurred_at is None:
        raise UsageFailure("Nothing is to be changed.", hint="Give --summary, --topic or another of the options.")
    day = None if edit.occurred_at is None else _moment(edit.occurred_at)
    with open_memory(options, terminal) as memory:
        if day is not None:
            changes["occurred_at"] = _in_zone_of(memory.read(memory_id), day).isoformat()
        answer = memory.edit(memory_id, changes)
        served = isinstance(memory, RemoteMemory)
    code = _tell(answer, options, terminal, show_headline)
    if answer.get("index_state") == "pending":
        _say_when_meaning_finds(terminal, served=served)
    return code


def forget_memory(
    memory_id: str, options: MemoryOptions, terminal: Terminal, *, yes: bool, keep_words: bool
) -> ExitCode:
    """Forget for good, after showing what; `FAILED` when the answer is no, or when something still finds it."""
    _check_id(memory_id)
    with open_memory(options, terminal) as memory:
        if not (yes and options.as_json):
            would = memory.would_forget(memory_id, also_source=not keep_words)
            _show_what_goes(would, terminal, keep_words=keep_words)
        if not agreed(terminal, "Forget this for good? / 忘れますか", yes=yes):
            terminal.note("Nothing was forgotten. / 何も忘れていません。")
            return ExitCode.FAILED
        answer = memory.forget(memory_id, also_source=not keep_words)
        still_found = [str(one) for one in answer.get("still_found") or ()]
        others = _others(memory, set(still_found) - set(answer.get("forgotten") or ()))
    if options.as_json:
        terminal.say_json(answer)
    else:
        memories, turns = _how_much(answer.get("forgotten"), answer)
        terminal.say(f"{memories} forgotten, the words of {turns} blanked. / 忘れました。")
        if not still_found:
            told = "Nothing finds it any more: looked by id, by names, numbers and words, and for vectors of those ids."
            terminal.say(told, style="green")
            terminal.say("もう見つかりません（ID、名前・数字・言葉、そのIDのベクトルを調べました）。", style="green")
    if still_found:
        show_still_found(still_found, others, terminal)
        return ExitCode.FAILED
    return ExitCode.OK


def _others(memory: RemoteMemory | LocalMemory, found: Collection[str]) -> list[Mapping[str, Any]]:
    """The other memories among what still tells it."""
    others: list[Mapping[str, Any]] = []
    for memory_id in sorted(one for one in found if _MEMORY_ID.fullmatch(one)):
        with suppress(StackChanError):  # forgotten meanwhile, or not to be read: its id is told all the same
            others.append(memory.read(memory_id))
    return others


def export_memories(target: Path, options: MemoryOptions, terminal: Terminal, *, force: bool) -> ExitCode:
    """All memories with their source turns into a file of JSON Lines."""
    require_free(target, force=force)
    tail = b""

    def watched(pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal tail
        for piece in pieces:
            tail = (tail + piece)[-_LAST_LINE_BYTES:]
            yield piece
        _exported(tail)

    with (
        open_memory(options, terminal) as memory,
        work_progress(terminal, "Exporting", MEGABYTES) as advance,
        memory.export() as pieces,
    ):
        size = save(target, watched(pieces), force=force, on_bytes=lambda done: advance(done, None))
    count = _exported(tail)
    answer = {"file": str(target), "bytes": size, "memories": count}
    told = f"{count:,} memories exported to {target}. / 書き出しました。"
    return _tell(answer, options, terminal, lambda _, where: where.say(told, style="green"))


def import_memories(source: Path, options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """Take an exported file in: all of it or nothing, nothing twice, what was forgotten never."""
    try:
        lines = source.read_bytes()
    except OSError as error:
        raise UsageFailure(f"{source}: cannot be read ({error.strerror}).") from error
    with open_memory(options, terminal, makes=True) as memory, terminal.waiting("Importing…"):
        answer = memory.import_lines(lines)
        served = isinstance(memory, RemoteMemory)
    told = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in answer.items() if isinstance(value, int))
    told = f"Imported from {source}: {told or 'nothing new'}. / 読み込みました。"
    code = _tell(answer, options, terminal, lambda _, where: where.say(told, style="green"))
    if answer.get("imported"):
        _say_when_meaning_finds(terminal, served=served)
    return code


def rebuild_index(options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """Make every vector anew from SQL, as after another embedding model was chosen."""
    with (
        open_memory(options, terminal, meaning="needed") as memory,
        work_progress(terminal, "Rebuilding / 索引を作り直しています", MEMORIES) as advance,
    ):
        answer = memory.rebuild(lambda done, total: advance(done, total))
    count = answer.get("done") or 0
    told = f"The index is rebuilt: {count:,} memories. / 索引を作り直しました。"
    return _tell(answer, options, terminal, lambda _, where: where.say(told, style="green"))


def retry_parked(options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """Queue again what was given up."""
    with open_memory(options, terminal) as memory:
        answer = memory.retry()
        served = isinstance(memory, RemoteMemory)
    queued = answer.get("queued") or 0
    told = (
        f"{queued:,} queued again; the server does them. / もう一度試します。"
        if served
        else f"{queued:,} queued again; done when the server runs next. / 次の起動のとき試します。"
    )
    return _tell(answer, options, terminal, lambda _, where: where.say(told))


def audit_memories(sample: int, options: MemoryOptions, terminal: Terminal) -> ExitCode:
    """A sample of the owner's own log: what was kept, and what was left out, side by side."""
    with open_memory(options, terminal) as memory:
        answer = memory.audit(sample)
    return _tell(answer, options, terminal, show_audit)


def _show_what_goes(would: Mapping[str, Any], terminal: Terminal, *, keep_words: bool) -> None:
    going, said = would.get("memories") or (), would.get("said") or ()
    memories, turns = _how_much(going, would)
    terminal.note(f"This will be forgotten / 忘れる内容: {memories}", style="bold")
    on_err = Terminal(out=terminal.err, err=terminal.err)
    for memory in going:
        show_headline(memory, on_err)
    if keep_words:
        terminal.note("The words in the log stay, but nothing finds them. / 発言の記録は残ります。")
        return
    terminal.note(f"With the words of {turns} / 元の発言も消えます:", style="bold")
    show_sources(said[:_SAID_SHOWN], on_err)
    if len(said) > _SAID_SHOWN:
        terminal.note(f"  and {len(said) - _SAID_SHOWN} more that were said / ほか{len(said) - _SAID_SHOWN}件の発言")


def _how_much(memories: Sequence[Any] | None, answer: Mapping[str, Any]) -> tuple[str, str]:
    """How many memories and turns, in words; the same before and after."""
    count, turns = len(memories or ()), answer.get("blanked_turns") or 0
    return f"{count} {'memory' if count == 1 else 'memories'}", f"{turns} {'turn' if turns == 1 else 'turns'}"


def _say_when_meaning_finds(terminal: Terminal, *, served: bool) -> None:
    """A vector is missing still; words find it at once."""
    if served:
        terminal.note(
            "Words find it now; the server makes its vectors, and then meaning does. / 意味でもまもなく探せます。"
        )
        return
    terminal.note(
        "Words find it now. By meaning it is found once its vectors are made: by the next `stackchan serve`, or now by "
        f"{own_command()} memory rebuild"
    )
    terminal.note(
        "言葉ではもう探せます。意味で探せるのは、次にサーバーを起動したあとか、"
        f"{own_command()} memory rebuild のあとです。"
    )


def _exported(tail: bytes) -> int:
    """How many memories the last line counts. Raises `StackChanError` where the file was cut before it."""
    with suppress(ValueError, KeyError, TypeError):
        return int(json.loads(tail.splitlines()[-1] if tail else b"")["end"]["memories"])
    raise StackChanError("The export was cut off; no file was written.", code="export_truncated", hint="Try again.")


def _tell(
    answer: Mapping[str, Any],
    options: MemoryOptions,
    terminal: Terminal,
    show: Callable[[Mapping[str, Any], Terminal], None],
) -> ExitCode:
    """The answer as it came, for machines, or as `show` draws it."""
    if options.as_json:
        terminal.say_json(answer)
    else:
        show(answer, terminal)
    return ExitCode.OK


def _check_id(memory_id: str) -> None:
    if not _MEMORY_ID.fullmatch(memory_id):
        raise UsageFailure(
            f"{memory_id} is not the id of a memory.", hint=f"{own_command()} memory search shows the ids: mem_…"
        )


def _moment(typed: str) -> dt.datetime:
    typed = typed.strip()
    try:
        if _DAY.fullmatch(typed):
            # As of what is remembered of a day without an hour.
            return dt.datetime.combine(dt.date.fromisoformat(typed), dt.time(12))
        return dt.datetime.fromisoformat(typed)
    except ValueError:
        raise UsageFailure(
            f"--occurred-at {typed}: not a day or moment.", hint="Write it like 2026-11-30 or 2026-11-30T18:30."
        ) from None


def _in_zone_of(memory: Mapping[str, Any], typed: dt.datetime) -> dt.datetime:
    """A day or hour without a zone is meant where the memory happened."""
    if typed.tzinfo is not None:
        return typed
    return typed.replace(tzinfo=ZoneInfo(str(memory.get("zone") or "UTC")))
