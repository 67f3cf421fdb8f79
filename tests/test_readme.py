"""Every command in the README files exists: scripts, and `stackchan` with its subcommands and options."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.ja.md")
STACKCHAN = Path(sys.executable).parent / "stackchan"


def commands_in(text: str) -> list[list[str]]:
    """The commands in fenced `bash` blocks as words, without comments, prompts and leading `NAME=value`."""
    found = []
    for block in re.findall(r"^```(?:bash|sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\||;|(?<!\|)\|(?!\|)", line.strip().removeprefix("$ ")):
                words = shlex.split(part, comments=True)
                while words and re.match(r"\w+=", words[0]):
                    words.pop(0)
                if words:
                    found.append(words)
    return found


def readme_commands() -> list[tuple[str, str]]:
    return [
        (name, shlex.join(words))
        for name in READMES
        if (ROOT / name).exists()
        for words in commands_in((ROOT / name).read_text(encoding="utf-8"))
    ]


@cache
def help_of(*subcommand: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    return subprocess.run(
        [STACKCHAN, *subcommand, "--help"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", READMES)
def test_a_readme_shows_the_two_commands(name: str) -> None:
    first_words = [shlex.split(command)[0] for readme, command in readme_commands() if readme == name]
    assert "scripts/start" in first_words
    assert "scripts/test" in first_words


@pytest.mark.parametrize(("readme", "command"), readme_commands())
def test_a_readme_command_exists(readme: str, command: str) -> None:
    words = shlex.split(command)
    program = words[0].removeprefix("./")
    if program.startswith("scripts/"):
        assert os.access(ROOT / program, os.X_OK), f"{readme}: {command}"
    elif Path(program).name == "stackchan":
        check_stackchan(words[1:])


def check_stackchan(words: list[str]) -> None:
    """The subcommand exists (by its own help), and so does every option given to it."""
    subcommand: list[str] = []
    for word in words:
        listed = help_of(*subcommand).stdout
        if word.startswith("-") or not re.search(rf"^\W*{re.escape(word)}\s", listed, re.MULTILINE):
            break
        subcommand.append(word)
    assert subcommand or not words or words[0].startswith("-"), f"stackchan has no command {words[0]}"
    described = help_of(*subcommand)
    assert described.returncode == 0, described.stderr
    for word in words:
        if word.startswith("-"):
            option = re.escape(word.partition("=")[0])
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", described.stdout), f"{subcommand} has no option {option}"


def test_commands_are_read_out_of_the_blocks() -> None:
    text = (
        "```bash\n$ git clone url && cd there\nPYTHON=python3.12 scripts/start --lan  # to the network\n\n"
        "stackchan talk \\\n  'a b.wav'\n```\n`scripts/none`\n```toml\nport = 1\n```\n"
    )
    assert commands_in(text) == [
        ["git", "clone", "url"],
        ["cd", "there"],
        ["scripts/start", "--lan"],
        ["stackchan", "talk", "a b.wav"],
    ]


@pytest.mark.parametrize("words", [["sing"], ["serve", "--loudly"], ["models", "--no-such-option"]])
def test_a_command_that_does_not_exist_is_noticed(words: list[str]) -> None:
    with pytest.raises(AssertionError, match="has no"):
        check_stackchan(words)
