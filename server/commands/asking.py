"""Asking the person at the terminal before something that cannot be undone."""

from __future__ import annotations

import sys

from rich.text import Text

from server.commands.failures import UsageFailure
from server.commands.terminal import Terminal, printable

_YES = ("y", "yes", "はい", "ｙ")


def agreed(terminal: Terminal, question: str, *, yes: bool) -> bool:
    """Whether to go on. `yes`: it was said on the command line. Raises `UsageFailure` where nobody can be asked."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageFailure("Nobody can be asked here.", code="not_confirmed", hint="Say so with --yes.")
    terminal.err.print(Text(f"{printable(question)} [y/N] "), end="", soft_wrap=True)
    return sys.stdin.readline().strip().casefold() in _YES
