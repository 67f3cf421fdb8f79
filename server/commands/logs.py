"""How the lines of the log look: for people, or one JSON object a line; and what none of them may hold.

Unless `log_private_text` allows it, no line holds words of people or models: an error is named by its kind and code,
for its message may quote what was said. Control characters never reach the output, so a line cannot be forged.
Which lines there are is the matter of whoever writes them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter
from rich.logging import RichHandler

from server.commands.terminal import Terminal, escaped, printable
from server.config import Settings
from server.errors import StackChanError
from server.log_context import current_turn

_log = logging.getLogger(__name__)

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_PRIVATE_FIELDS = ("detail", "private")
# uvicorn's own second form of its messages, with colours.
_NO_FIELDS = (*_PRIVATE_FIELDS, "color_message")


def set_up_logging(settings: Settings, terminal: Terminal) -> Terminal:
    """The server's own log on the error stream; of its libraries only warnings.

    Returns the terminal to use from here on: with `log_format = json` its notes are log lines, too.
    """
    handler: logging.Handler
    if settings.log_format == "json":
        handler = logging.StreamHandler(terminal.err.file)
        handler.setFormatter(JsonLines(private_text=settings.log_private_text))
        terminal = LoggedTerminal(terminal.out, terminal.err)
    else:
        handler = _SafeHandler(console=terminal.err, show_path=False, rich_tracebacks=False, omit_repeated_times=False)
        handler.setFormatter(TextLines(private_text=settings.log_private_text))
    # A library's level can be lowered by a variable of its own, and what it then tells may be a whole prompt.
    handler.addFilter(lambda record: _is_ours(record) or record.levelno >= logging.WARNING)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("server").setLevel(settings.log_level.upper())
    # Python itself would write these with the error's message.
    threading.excepthook = _thread_failed
    sys.unraisablehook = _failed_unseen
    # A failed start is shown once, with its hint, when the command ends.
    logging.getLogger("server.app").addFilter(lambda record: "could not start: " not in record.getMessage())
    # What a stop cuts off is no defect, and has been announced.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not _is_cancellation(record))
    return terminal


class TextLines(logging.Formatter):
    """A message with its turn before it; a traceback below it, indented so that it cannot look like a line."""

    def __init__(self, *, private_text: bool) -> None:
        super().__init__()
        self._private_text = private_text

    def format(self, record: logging.LogRecord) -> str:
        turn = current_turn()
        words = [f"turn {turn.turn_id}:" if turn else "", escaped(_message(record, self._private_text))]
        if self._private_text:
            words += [f"{name}={escaped(str(value))!r}" for name, value in _private_fields(record)]
        lines = [" ".join(word for word in words if word)]
        if record.exc_info:
            told = traceback_lines(record.exc_info, private_text=self._private_text)
            lines += [f"  {escaped(line)}" for line in told]
        return "\n".join(lines)


class JsonLines(JsonFormatter):
    """One object a line: `time`, `level`, `logger`, `message`, `turn_id` and `device_id` within a turn, `exception`,
    and what else the line has to tell. Only ASCII, the rest escaped."""

    def __init__(self, *, private_text: bool) -> None:
        super().__init__(
            ["time", "levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger", "exc_info": "exception"},
            reserved_attrs=[*RESERVED_ATTRS, *_NO_FIELDS],
        )
        self._private_text = private_text

    def format(self, record: logging.LogRecord) -> str:
        record.time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return super().format(record)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        turn = current_turn()
        record.message = _message(record, self._private_text)
        super().add_fields(log_data, record, message_dict)
        if turn is not None:
            log_data.setdefault("turn_id", turn.turn_id)
            log_data.setdefault("device_id", turn.device_id)
        if self._private_text:
            log_data.update(_private_fields(record))

    def formatException(self, ei: ExcInfo) -> str:
        return "\n".join(traceback_lines(ei, private_text=self._private_text))


class LoggedTerminal(Terminal):
    """A terminal whose error stream belongs to the log."""

    @property
    def can_draw(self) -> bool:
        return False

    def note(self, message: str, style: str = "") -> None:
        _log.info("%s", printable(message).strip())


def traceback_lines(exc_info: ExcInfo, *, private_text: bool) -> list[str]:
    """A traceback, line by line, its causes first. Without `private_text` errors are named without their messages."""
    _, error, trace = exc_info
    if error is None:
        return []
    if private_text:
        whole = "".join(traceback.format_exception(type(error), error, trace))
        return whole.rstrip("\n").split("\n")
    return list(_told(error, trace, set()))


def _told(error: BaseException, trace: TracebackType | None, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _told(before, before.__traceback__, seen)
        yield "then:"
    for frame in traceback.extract_tb(trace):
        yield f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}"
    yield _kind(error)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            if id(inner) not in seen:
                yield from (f"| {line}" for line in _told(inner, inner.__traceback__, seen))


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, StackChanError):
        return f"{name} [{error.code}]"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} [{errno.errorcode.get(error.errno, error.errno)}]"
    return name


def _message(record: logging.LogRecord, private_text: bool) -> str:
    message = record.getMessage()
    # asyncio describes the task that failed, and with it the error and its message.
    return message if private_text or record.name != "asyncio" else message.partition("\n")[0]


def _private_fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    detail: object = getattr(record, "detail", None)
    if detail:
        yield "detail", detail
    words: object = getattr(record, "private", None)
    if isinstance(words, dict):
        yield from words.items()


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None:
        _log.error("a thread failed", exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback))


def _failed_unseen(failure: sys.UnraisableHookArgs) -> None:
    error = failure.exc_value
    if error is not None:
        _log.error("an error could not be passed on", exc_info=(type(error), error, failure.exc_traceback))


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == "server" or record.name.startswith("server.")


class _SafeHandler(RichHandler):
    """A log line that cannot be written (a full disk, no file left to open) must not end the server."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except (OSError, ImportError):
            self.handleError(record)


def _is_cancellation(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    raised = kind is not None and issubclass(kind, asyncio.CancelledError)
    return raised or record.getMessage().rstrip().endswith("CancelledError")
