"""The two streams of a command: answers go to `out`, everything about the work (steps, errors) to `err`.

Colour, spinners and bars appear only on a terminal and follow NO_COLOR; in a pipe lines are plain and never wrapped.
Knows no command.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.errors import StackChanError

_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
PIPE_WIDTH = 200
"""Columns assumed where there is no terminal; rich would take 80 and break tables."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command writes."""

    out: Console
    err: Console

    @property
    def can_draw(self) -> bool:
        """Moving things (bars, spinners) make sense on the error stream."""
        return self.err.is_terminal and not self.err.is_dumb_terminal

    def say(self, message: str, style: str = "") -> None:
        """One line of answer; never wrapped or read as markup."""
        self.out.print(Text(printable(message), style=style), soft_wrap=True)

    def note(self, message: str, style: str = "") -> None:
        """One line about the work."""
        self.err.print(Text(printable(message), style=style), soft_wrap=True)

    def say_json(self, value: object) -> None:
        """An answer for machines, on one line."""
        text = escaped_json(json.dumps(value, ensure_ascii=not speaks_unicode(self.out)))
        self.out.print(text, soft_wrap=True, markup=False, highlight=False)

    @contextlib.contextmanager
    def waiting(self, message: str) -> Iterator[None]:
        """A spinner while something takes long; nothing in a pipe."""
        if not self.can_draw:
            yield
            return
        with self.err.status(Text(message)):
            yield


def open_terminal() -> Terminal:
    """The terminal of this process. A character its encoding lacks becomes `?` rather than a crash.

    A stream that the caller closed (`>&-`) takes what is written and keeps nothing.
    """
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return Terminal(out=_console(sys.stdout), err=_console(sys.stderr))


def give_up_output() -> None:
    """Drop what standard output still holds, so that the end of the process does not try to write it again."""
    sys.stdout = _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")  # lives as long as the process


def show_error(terminal: Terminal, error: StackChanError) -> None:
    """Say in red what went wrong, with its code, and below it what to do."""
    cross, arrow = ("✗", "→") if speaks_unicode(terminal.err) else ("x", "->")
    text = Text.assemble(
        (f"{cross} ", "bold red"), (printable(error.message), "red"), (f"  [{printable_line(error.code)}]", "dim")
    )
    terminal.err.print(text, soft_wrap=True)
    if error.next_step:
        terminal.err.print(Text(f"{arrow} {printable(error.next_step)}"), soft_wrap=True)


def speaks_unicode(console: Console) -> bool:
    """Whether box lines, bars and faces can be written here."""
    return console.encoding.lower().replace("_", "-").startswith("utf")


def own_command(program: str | None = None) -> str:
    """How this command can be typed again: `stackchan` where the shell finds it, else with its folder.

    `program`: as it was started; None: from this process.
    """
    started = Path(sys.argv[0] if program is None else program)
    if started.name != "stackchan" or not started.is_file():
        return "stackchan"
    on_path = shutil.which("stackchan")
    if on_path is not None and os.path.samefile(on_path, started):
        return "stackchan"
    absolute = started.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def printable(text: str) -> str:
    """`text` without what steers a terminal: words of a model or another machine must not move the cursor, hide
    letters or turn the order of writing. Line ends stay."""
    return "".join(" " if character != "\n" and is_unprintable(character) else character for character in text)


def printable_line(text: str) -> str:
    """`printable` on one line, for what stands beside something else."""
    return " ".join(printable(text).split())


def escaped(text: str) -> str:
    """`text` on one line, with what steers a terminal written as in a string of Python: nothing is lost."""
    return "".join(_escape(character) if is_unprintable(character) else character for character in text)


def escaped_json(text: str) -> str:
    """JSON `text` that means the same and steers no terminal. Such characters stand only inside its strings."""
    return "".join(character if not is_unprintable(character) else json.dumps(character)[1:-1] for character in text)


def is_unprintable(character: str) -> bool:
    """Control characters, invisible format characters (but for those that join emoji and letters), lone surrogates,
    and the separators of lines and paragraphs."""
    return unicodedata.category(character) in _STEERING and character not in _JOINERS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _console(stream: TextIO) -> Console:
    is_terminal = stream.isatty()
    return Console(file=stream, highlight=False, emoji=False, markup=False, width=None if is_terminal else PIPE_WIDTH)
