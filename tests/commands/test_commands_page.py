"""`docs/commands.md` names every command there is, and none that is not; so does `--help`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from server import cli as command_line
from tests.commands.conftest import Cli

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "commands.md").read_text(encoding="utf-8")


def commands(group: click.Command, before: str = "stackchan") -> Iterator[tuple[str, click.Command]]:
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


KNOWN = dict(commands(typer.main.get_command(command_line.app)))


def test_the_page_and_the_command_line_agree() -> None:
    assert set(re.findall(r"`(stackchan [a-z ]+?)`", PAGE)) == set(KNOWN)


def test_every_line_of_the_page_can_be_typed() -> None:
    lines = [line for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(line, comments=True)
        name = next(known for known in KNOWN if " ".join(words).startswith(known))
        # Raises for a wrong option or a missing argument.
        KNOWN[name].make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_command_has_help_in_both_spellings(cli: Cli, name: str) -> None:
    arguments = name.split()[1:]
    short, long = cli(*arguments, "-h"), cli(*arguments, "--help")
    assert (short.code, long.code) == (0, 0)
    assert short.out == long.out
    assert f"Usage: {name}" in short.out


def test_options_named_on_the_page_exist() -> None:
    known = {option for command in KNOWN.values() for one in command.params for option in one.opts}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE)) <= known
