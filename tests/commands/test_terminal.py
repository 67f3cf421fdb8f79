"""What is written to a terminal, and what to a pipe."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from server.commands.failures import PortError
from server.commands.terminal import (
    Terminal,
    escaped,
    escaped_json,
    is_unprintable,
    own_command,
    printable,
    printable_line,
    show_error,
    speaks_unicode,
)

pytestmark = pytest.mark.unit


def console(*, terminal: bool = False, encoding: str = "utf-8", **environment: str) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    return Console(file=file, width=40, force_terminal=terminal, _environ={"TERM": "xterm-256color", **environment})


def written(screen: Console) -> str:
    assert isinstance(screen.file, io.TextIOWrapper)
    buffer = screen.file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(screen.file.encoding)


def test_an_error_says_what_and_what_to_do() -> None:
    screen = console()
    show_error(
        Terminal(screen, screen), PortError("Port 8000 [in] use by a very long name of a program", hint="Choose")
    )
    assert written(screen) == "✗ Port 8000 [in] use by a very long name of a program  [port_in_use]\n→ Choose\n"


def test_an_error_is_red_on_a_terminal_and_plain_with_no_color() -> None:
    coloured, plain = console(terminal=True), console(terminal=True, NO_COLOR="1")
    for screen in (coloured, plain):
        show_error(Terminal(screen, screen), PortError("x"))
    assert "\x1b[1;31m" in written(coloured)
    assert "31m" not in written(plain)


def test_a_terminal_without_unicode_gets_ascii_marks() -> None:
    screen = console(encoding="ascii")
    show_error(Terminal(screen, screen), PortError("x", hint="y"))
    assert written(screen) == "x x  [port_in_use]\n-> y\n"
    assert not speaks_unicode(screen)
    assert speaks_unicode(console())


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("こんにちは\nrobot", "こんにちは\nrobot"),
        ("\x1b[31mred\x1b[0m", " [31mred [0m"),
        ("a\x07b\x9bc\rd", "a b c d"),
        ("👩‍👩‍👧 e\u0301", "👩‍👩‍👧 e\u0301"),
        ("\ud800", " "),
        ("exe.\u202egpj\u202c\u2066\u200b\u2028\U000e0041x", "exe. gpj     x"),
    ],
)
def test_control_characters_are_taken_out(text: str, safe: str) -> None:
    assert printable(text) == safe


def test_words_beside_others_stay_on_one_line() -> None:
    assert printable_line("a\n\n✗ b\x1b[2J  c") == "a ✗ b [2J c"


def test_what_is_escaped_loses_nothing() -> None:
    text = "家族👩‍👩‍👧 \r\n\x1b\x9b\u202e\u2028\U000e0041\ud800"
    assert escaped(text) == "家族👩‍👩‍👧 " + r"\r\n\x1b\x9b\u202e\u2028\U000e0041\ud800"
    as_json = escaped_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(as_json) == {"text": text}
    assert "家族👩‍👩‍👧" in as_json
    assert not any(is_unprintable(character) for character in as_json)


def test_lines_are_never_wrapped_or_read_as_markup() -> None:
    screen = console()
    Terminal(screen, screen).say("[red]" + "x" * 100 + "[/red]")
    assert written(screen) == "[red]" + "x" * 100 + "[/red]\n"


def test_a_pipe_sees_no_spinner() -> None:
    screen = console()
    with Terminal(screen, screen).waiting("thinking"):
        pass
    assert written(screen) == ""


def test_the_command_is_named_as_it_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "checkout" / ".venv" / "bin" / "stackchan"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path / "checkout")

    assert own_command(str(program)) == ".venv/bin/stackchan"
    assert own_command("/somewhere/cli.py") == "stackchan"
    assert own_command(str(tmp_path / "stackchan")) == "stackchan"
    monkeypatch.chdir("/")
    assert own_command(".venv/bin/stackchan") == "stackchan"
    monkeypatch.chdir(tmp_path / "checkout" / ".venv" / "bin")
    assert own_command("../bin/stackchan").endswith("bin/stackchan")
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command(str(program)) == "stackchan"
