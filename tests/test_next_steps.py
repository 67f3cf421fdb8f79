"""Whoever meets an error is told what to do next, in English and Japanese: every code there is has its own step."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from server import errors
from server.api.problems import _STATUS_BY_CODE, problem
from server.devices.wire import DeviceError
from server.errors import AuthError, StackChanError
from server.next_steps import NEXT_STEPS, next_step

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "server").rglob("*.py"))
CODE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+|internal|gone|usage|refused|starting|stopping|overloaded")
JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")


def constants(node: ast.expr | None) -> Iterator[str]:
    for part in ast.walk(node) if node is not None else ():
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


@cache
def codes_in_sources() -> set[str]:
    """What the server's own lines give as a code: `code="…"`, `default_code = "…"`, `DeviceError("…", …)`."""
    found: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg in ("code", "error_code"):
                        found |= {one for one in constants(keyword.value) if CODE.fullmatch(one)}
                if isinstance(node.func, ast.Name) and node.func.id == "DeviceError" and node.args:
                    found |= {one for one in constants(node.args[0]) if CODE.fullmatch(one)}
            elif isinstance(node, ast.Assign) and [getattr(one, "id", "") for one in node.targets] == ["default_code"]:
                found |= set(constants(node.value))
    return found


def codes_in_documents() -> set[str]:
    """What the tables of codes name, and the list of each kind of error."""
    found = set(_STATUS_BY_CODE)
    for page, row in (
        ("docs/http-api.md", re.compile(r"^\| \d{3} \| ([^|]+) \|", re.MULTILINE)),
        ("firmware/PROTOCOL.md", re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|(?: 1\d{3})? ", re.MULTILINE)),
    ):
        told = (ROOT / page).read_text(encoding="utf-8")
        rows = row.findall(told.partition("\n## What goes wrong")[2].partition("\n## ")[0] or told)
        found |= {code for cell in rows for code in re.findall(r"`([a-z_]+)`", cell)}
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        told = re.search(r"Codes\b(.*)", inspect.getdoc(kind) or "", re.DOTALL)
        found |= set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", told[1] if told else ""))
    return found - {"retry_after_seconds"}


def codes() -> list[str]:
    # A stage that takes too long: made of its kind (`pipeline/bounded.py`).
    late = {f"{kind}_timeout" for kind in ("vad", "asr", "llm", "tts")}
    return sorted(codes_in_sources() | codes_in_documents() | late)


@pytest.mark.parametrize("code", codes())
def test_every_code_says_what_to_do_next_in_both_languages(code: str) -> None:
    english, japanese = NEXT_STEPS[code]
    assert not JAPANESE.search(english)
    assert re.match(r"[A-Z`]", english)
    assert english.endswith(".")
    assert JAPANESE.search(japanese)
    assert japanese.endswith("。") or japanese.endswith("）。")
    assert len(next_step(code) or "") <= 190, "it stands in an `error` of the native protocol, beside the message"


def test_the_tables_are_found() -> None:
    assert len(codes_in_sources()) > 90
    assert {"token_invalid", "import_duplicate", "index_busy", "too_many_bad_messages"} <= codes_in_documents()


def test_no_step_is_for_a_code_that_is_nobodys() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCES if path.name != "next_steps.py")
    assert [code for code in NEXT_STEPS if code not in codes() and f'"{code}"' not in sources] == []


def test_a_hint_of_its_own_comes_first() -> None:
    assert AuthError("No.", hint="Ask Anna.").next_step == "Ask Anna."
    assert str(AuthError("No.", hint="Ask Anna.")) == "No. Ask Anna."


def test_a_wrong_token_is_told_how_to_get_a_right_one_everywhere() -> None:
    error = AuthError("This token is not known here.")
    assert error.hint is None
    for told in (str(error), problem(error).body.decode(), DeviceError.of(error).message):
        assert "stackchan token reset" in told
        assert "作り直せます" in told


def test_a_code_from_elsewhere_has_no_step() -> None:
    error = StackChanError("Odd.", code="made_up_elsewhere")
    assert (error.next_step, str(error)) == (None, "Odd.")
