"""scripts/bench_commands: it asks as the server asks, and calls an answer right by its face, movement and words."""

from __future__ import annotations

import asyncio
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from server.config import load_settings
from server.engines.base import LlmDone, LlmText, LlmToolCall
from server.memory.tools import FORGET_MEMORY_SHORT, SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from server.pipeline.thinking import Thinker
from server.start_live import turn_settings
from tests.fakes.engines import FakeLlm

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_commands"
NODS = '{"emotion": "happy", "action": "nod", "reply": "うん、いいよ。"}'


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_commands_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_commands_script", loader))  # type: ignore[arg-type]
    # A dataclass looks up the module that it stands in.
    monkeypatch.setitem(sys.modules, "bench_commands_script", module)
    loader.exec_module(module)
    return module


def answered(script: ModuleType, tmp_path: Path, llm: FakeLlm, **item: Any) -> Any:
    settings = turn_settings(load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)}, llm__max_answer_tokens=77))
    tools = script.offered_tools(llm.capabilities, remembers=True)
    thinker = Thinker(llm, load_persona(default_persona_path()), settings, tools)
    words = {"id": "a", "text": "うなずいて", "expect": {"action": ["nod"]}} | item
    return asyncio.run(script.answer(thinker, "dev", "commands", words))


@pytest.mark.parametrize(
    ("item", "right"),
    [
        ({}, True),
        ({"expect": {"action": ["nod", "shake"], "emotion": ["happy"]}}, True),
        ({"expect": {"action": ["shake"]}}, False),
        ({"reply_has": ["いいよ", "はい"]}, True),
        ({"reply_has": ["はい"]}, False),
    ],
)
def test_an_answer_is_judged(script: ModuleType, tmp_path: Path, item: dict[str, Any], right: bool) -> None:
    llm = FakeLlm(scripts=[[LlmText(NODS), LlmDone("stop", prompt_tokens=9, cached_tokens=5, completion_tokens=3)]])
    found = answered(script, tmp_path, llm, **item)
    assert (found.right, found.action, found.reply) == (right, "nod", "うん、いいよ。")
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (9, 5, 3)
    assert 0 <= found.emotion_seconds <= found.reply_seconds <= found.total_seconds


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("左を見て", [SEARCH_MEMORY.name]),
        ("Forget what I told you.", [SEARCH_MEMORY.name, FORGET_MEMORY_SHORT.name]),
    ],
)
def test_the_model_is_asked_as_the_server_asks(
    script: ModuleType, tmp_path: Path, words: str, offered: list[str]
) -> None:
    llm = FakeLlm()
    answered(script, tmp_path, llm, text=words)
    (request,) = llm.requests
    assert request.max_tokens == 77
    assert [tool.name for tool in request.tools] == offered


def test_a_search_is_a_wrong_answer(script: ModuleType, tmp_path: Path) -> None:
    call = LlmToolCall(SEARCH_MEMORY.name, {"query": "うなずく"})
    llm = FakeLlm(scripts=[[call, LlmDone("stop")]])
    found = answered(script, tmp_path, llm)
    assert (found.right, found.reply) == (False, "")
    assert len(llm.requests) == 1
