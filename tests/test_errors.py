"""Every error has a code that machines can rely on."""

from __future__ import annotations

import inspect

import pytest

from server import errors
from server.errors import IndexLocked, LlmError, OverloadError, StackChanError

pytestmark = pytest.mark.unit

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, StackChanError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_identifier_for_its_code(kind):
    assert kind("No.").code == kind.default_code
    assert kind.default_code.isidentifier()


@pytest.mark.parametrize("code", ["llm_cut", "a", "x9_y"])
def test_a_code_that_is_given_is_kept(code):
    assert LlmError("No.", code=code).code == code


@pytest.mark.parametrize(
    "code",
    ["", " ", "Llm_cut", "llm cut", "llm-cut", "llm_cut\n", "_x", "9", "猫", "妻の名前", "x" * 65, 500, ["a"], None],
)
def test_a_code_that_is_no_identifier_is_the_usual_one_of_its_kind(code):
    assert LlmError("No.", code=code).code == "llm_failed"


def test_kinds_keep_what_they_carry():
    assert IndexLocked("No.", pid=3).pid == 3
    assert OverloadError("No.", retry_after_seconds=4).retry_after_seconds == 4
    assert LlmError("No.", hint="Wait.").__str__() == "No. Wait."
