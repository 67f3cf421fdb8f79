"""How one line of the log is written, and that no line of the sources can hold words of anybody."""

from __future__ import annotations

import ast
import contextvars
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from server.commands.logs import JsonLines, LoggedTerminal, TextLines, set_up_logging
from server.commands.terminal import Terminal
from server.config import load_settings
from server.errors import LlmError
from server.log_context import bind_turn, current_turn, error_fields, private

pytestmark = pytest.mark.unit

WORDS = "ひみつ"
HOSTILE = "fine\r\n2026-01-01 ERROR forged\x1b[2J\x9b31m\u202egpj\u2028x\x00\ud800"
SERVER = Path(__file__).resolve().parent.parent.parent / "server"


def record(message: str = "%s", *args: Any, name: str = "server.pipeline", **extra: Any) -> logging.LogRecord:
    exc_info = extra.pop("exc_info", None)
    made = logging.LogRecord(name, logging.ERROR, __file__, 1, message, args, exc_info)
    made.__dict__.update(extra)
    return made


def in_a_turn(formatter: logging.Formatter, line: logging.LogRecord) -> str:
    def format_it() -> str:
        bind_turn(384, "desk")
        return formatter.format(line)

    return contextvars.copy_context().run(format_it)


def defect() -> Any:
    """`sys.exc_info()` of an error that quotes words, at every place where an error can."""
    try:
        try:
            raise LlmError(f"bad prompt: {WORDS}", hint=WORDS, code="llm_refused")
        except LlmError as error:
            noted = RuntimeError(WORDS)
            noted.add_note(WORDS)
            raise ExceptionGroup(WORDS, [noted, OSError(28, WORDS)]) from error
    except ExceptionGroup:
        return sys.exc_info()


@pytest.fixture
def log_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test sets up for the whole process is as before when it ends."""
    loggers = [logging.getLogger(name) for name in ("", "server", "openai")]
    levels = [each.level for each in loggers]
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for name in ("server.app", "uvicorn.error"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    yield
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


def test_a_line_says_which_turn_it_is_about() -> None:
    text = in_a_turn(TextLines(private_text=False), record("no voice: %s", "tts_failed"))
    assert text == "turn 384: no voice: tts_failed"
    line = json.loads(in_a_turn(JsonLines(private_text=False), record("no voice: %s", "tts_failed", code="tts_failed")))
    assert list(line)[:4] == ["time", "level", "logger", "message"]
    assert line.items() >= {"turn_id": 384, "device_id": "desk", "code": "tts_failed", "level": "ERROR"}.items()
    assert line["logger"] == "server.pipeline"


def test_a_line_outside_a_turn_names_none() -> None:
    assert current_turn() is None
    assert TextLines(private_text=False).format(record("hello")) == "hello"
    assert json.loads(JsonLines(private_text=False).format(record("hello"))).keys() == {
        "time",
        "level",
        "logger",
        "message",
    }


def test_the_time_is_utc_to_the_millisecond() -> None:
    made = record("hello")
    made.created = 1_700_000_000.1239
    assert json.loads(JsonLines(private_text=False).format(made))["time"] == "2023-11-14T22:13:20.123+00:00"


def test_control_characters_cannot_forge_a_line() -> None:
    text = TextLines(private_text=True).format(record("%s", HOSTILE, detail=HOSTILE, private={"reply": HOSTILE}))
    assert len(text.splitlines()) == 1
    assert r"\r\n2026-01-01 ERROR forged\x1b[2J\x9b31m\u202egpj\u2028x\x00\ud800" in text
    assert all(character.isprintable() for character in text)
    line = JsonLines(private_text=True).format(record("%s", HOSTILE, detail=HOSTILE, private={"reply": HOSTILE}))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == json.loads(line)["reply"] == json.loads(line)["detail"] == HOSTILE


def test_a_traceback_cannot_forge_a_line_either() -> None:
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError:
        exc_info = sys.exc_info()
    text = TextLines(private_text=True).format(record("defect", exc_info=exc_info))
    first, *others = text.split("\n")
    assert first == "defect"
    assert others
    assert all(line.startswith("  ") for line in others)
    assert all(character.isprintable() for line in others for character in line)


@pytest.mark.parametrize("formatter", [TextLines, JsonLines])
def test_a_traceback_says_where_and_what_but_not_the_words(formatter: Any) -> None:
    hidden = formatter(private_text=False).format(record("defect", exc_info=defect()))
    shown = formatter(private_text=True).format(record("defect", exc_info=defect()))
    escaped = json.dumps(WORDS)[1:-1]
    assert WORDS not in hidden
    assert escaped not in hidden
    assert WORDS in shown or escaped in shown
    for told in ("LlmError [llm_refused]", "ExceptionGroup", "RuntimeError", "OSError [ENOSPC]", "test_log_lines.py"):
        assert told in hidden


def test_errors_that_caused_each_other_are_told_once() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    text = TextLines(private_text=False).format(record("x", exc_info=(ValueError, first, None)))
    assert text.count("ValueError") == 2


def test_what_asyncio_tells_of_a_failed_task_ends_before_its_error() -> None:
    line = record(
        f"Task exception was never retrieved\nfuture: <Task exception=RuntimeError('{WORDS}')>", name="asyncio"
    )
    assert TextLines(private_text=False).format(line) == "Task exception was never retrieved"
    assert WORDS in TextLines(private_text=True).format(line)


@pytest.mark.parametrize(("allowed", "shown"), [(False, False), (True, True)])
def test_private_fields_are_written_only_where_allowed(allowed: bool, shown: bool) -> None:
    fields = {**error_fields(LlmError(WORDS, code="llm_cut")), **private(transcript=WORDS)}
    line = json.loads(JsonLines(private_text=allowed).format(record("x", **fields)))
    assert line["code"] == "llm_cut"
    assert (line.get("detail") == WORDS) is shown
    assert (line.get("transcript") == WORDS) is shown
    assert (WORDS in TextLines(private_text=allowed).format(record("x", **fields))) is shown


def test_what_python_tells_of_failed_threads_and_finalizers_goes_to_the_log(
    log_of_its_own: None, tmp_path: Path
) -> None:
    logging.getLogger("openai").setLevel(logging.DEBUG)
    screen = Console(file=io.StringIO(), width=200)
    set_up_logging(load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)}), Terminal(screen, screen))

    class Fails:
        def __init__(self) -> None:
            self.itself = WORDS

        def __del__(self) -> None:
            raise RuntimeError(self.itself)

    def fail() -> None:
        raise RuntimeError(WORDS)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    Fails()
    logging.getLogger("openai").debug("request: %s", WORDS)

    assert isinstance(screen.file, io.StringIO)
    written = screen.file.getvalue()
    assert "a thread failed" in written
    assert "an error could not be passed on" in written
    assert written.count("RuntimeError") >= 2
    assert "request" not in written
    assert WORDS not in written


def test_an_error_is_named_with_what_it_came_from() -> None:
    error = LlmError("x", code="llm_cut")
    error.__cause__ = TimeoutError(WORDS)
    assert error_fields(error) == {"code": "llm_cut", "error": "LlmError from TimeoutError", "detail": "x"}
    assert error_fields(KeyError("k"))["code"] == "internal"


def test_a_terminal_whose_notes_are_logged_draws_nothing(caplog: pytest.LogCaptureFixture) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True)
    terminal = LoggedTerminal(screen, screen)
    with caplog.at_level(logging.INFO, "server"):
        terminal.note("  hearing (fake)  0.1 s", style="dim")
    assert caplog.messages == ["hearing (fake)  0.1 s"]
    assert not terminal.can_draw


# What a call of the log may name although it is an error's text: these speak of files, not of people.
ALLOWED = {
    ("app.py", "cause.message"),
    ("app.py", "error"),
    ("commands/logs.py", "printable(message).strip()"),
    ("commands/serve.py", "error"),
    ("engines/asr/openai_transcription.py", "error"),
    ("engines/downloads.py", "miss"),
    ("engines/fetch.py", "error"),
    ("engines/llm/openai_chat.py", "error"),
    ("engines/llm/prefix_files.py", "error"),
    ("engines/llm/xllama.py", "error.message"),
    ("engines/model_files.py", "error"),
    ("engines/package_wheels.py", "error"),
    ("engines/tts/voicevox.py", "error"),
    ("memory/index_access.py", "error"),
    ("start.py", "error"),
    ("storage/speech.py", "error"),
}
WORDY = {"message", "hint", "text", "reply", "transcript", "content", "query", "arguments", "result", "path", "headers"}


def log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "log" | "logger" | "logging"), attr=level)):
                if level in ("debug", "info", "warning", "error", "exception", "critical", "log"):
                    yield node


def wordy_arguments(source: str) -> list[str]:
    """Arguments of log calls that may hold words: texts of errors and turns, and messages put together beforehand."""
    tree = ast.parse(source)
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    found = []
    for call in log_calls(tree):
        if not isinstance(call.args[0], ast.Constant):
            found.append(ast.unparse(call.args[0]))
        for argument in call.args[1:]:
            names = {node.id for node in ast.walk(argument) if isinstance(node, ast.Name)}
            attributes = {node.attr for node in ast.walk(argument) if isinstance(node, ast.Attribute)}
            bare = isinstance(argument, ast.Name) and (argument.id in caught or argument.id in WORDY)
            if bare or attributes & WORDY or names & WORDY:
                found.append(ast.unparse(argument))
    return found


def test_no_line_of_the_server_is_written_with_words() -> None:
    found = {
        (str(path.relative_to(SERVER)), argument)
        for path in sorted(SERVER.rglob("*.py"))
        for argument in wordy_arguments(path.read_text(encoding="utf-8"))
    }
    assert found - ALLOWED == set()


@pytest.mark.parametrize(
    "call",
    [
        '_log.error("x %s", error)',
        '_log.error("x %s", error.message)',
        '_log.info(f"x {text}")',
        '_log.debug("x" + reply)',
        'log.warning("x %s", result.transcript)',
        'logger.info("x %s", len(request.text))',
    ],
)
def test_a_line_with_words_would_be_found(call: str) -> None:
    assert wordy_arguments(f"try:\n    pass\nexcept ValueError as error:\n    {call}\n")
