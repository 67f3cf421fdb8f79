"""scripts/bench_decision --memories: it measures what a server does that remembers, its own leaning among it."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from server.config import load_settings
from server.engines.base import LlmDone, LlmRequest, LlmText, LlmToolCall
from server.memory.asked import MENTIONED_LOG_ODDS, UNMENTIONED_LOG_ODDS
from server.memory.tools import SEARCH_MEMORY
from server.memory.transfer import export_lines
from server.persona import default_persona_path, load_persona
from server.storage.database import Databases
from tests.fakes.engines import ANSWER, FakeEmbedding, FakeLlm
from tests.storage.house import NOW
from tests.storage.remembered import exchange, remember

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_decision"
PERSONA = load_persona(default_persona_path())
ASKED = [
    ("a", "ja", "カヌーはいくらだったっけ", True),
    ("b", "en", "How much was the kayak?", True),
    ("c", "ja", "右を見て", False),
    ("d", "en", "Tell me a joke, please.", False),
]
ITEMS = [
    {"id": id, "half": "dev", "kind": "k", "language": language, "text": text, "search": search}
    for id, language, text, search in ASKED
]


class Leaner(FakeLlm):
    """Searches as soon as it is made likelier than the tool itself says; keeps what a search has told it."""

    async def generate(self, request: LlmRequest) -> Any:
        self.requests.append(request)
        told = [message.content for message in request.messages if message.role == "tool"]
        search = [tool for tool in request.tools if tool.name == SEARCH_MEMORY.name]
        if search and not told and search[0].prior > SEARCH_MEMORY.prior:
            words = [message.content for message in request.messages if message.role == "user"][-1]
            yield LlmToolCall(SEARCH_MEMORY.name, {"query": words})
        else:
            yield LlmText(ANSWER)
        yield LlmDone("stop")

    @property
    def leanings(self) -> list[float]:
        first = [request for request in self.requests if all(one.role != "tool" for one in request.messages)]
        return [request.tools[0].prior - SEARCH_MEMORY.prior for request in first]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_decision_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_decision_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    monkeypatch.setattr(module, "read_items", lambda: ITEMS)
    return module


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """What a house remembers of a canoe and a kayak."""

    async def written() -> bytes:
        async with await Databases.open(tmp_path / "house", "home") as databases:
            await exchange(databases, 1, "カヌーを六万円で買った")
            await exchange(databases, 2, "The kayak was 640 dollars")
            own: dict[str, Any] = {"persona_id": PERSONA.persona_id, "entities": ()}
            await remember(databases, 1, "カヌーを六万円で買った。", source_turn_ids=(10,), topic="カヌー", **own)
            await remember(databases, 2, "The kayak was 640 dollars.", source_turn_ids=(20,), topic="kayak", **own)
            return b"".join([piece async for piece in export_lines(databases, now=NOW)])

    file = tmp_path / "memory.jsonl"
    file.write_bytes(asyncio.run(written()))
    return file


def run(script: ModuleType, tmp_path: Path, llm: FakeLlm, *arguments: str) -> list[Any]:
    settings = load_settings({"STACKCHAN_DATA_DIR": str(tmp_path / "data")})
    options = script.read_options([*arguments])
    measured = script.measure(options, settings, PERSONA, llm, Console(quiet=True), FakeEmbedding())
    return list(asyncio.run(measured)[0])


def test_what_memory_mentions_leans_towards_a_search_and_all_else_away(
    script: ModuleType, tmp_path: Path, export: Path
) -> None:
    llm = Leaner()
    decisions = run(script, tmp_path, llm, "--memories", str(export))
    assert llm.leanings == [MENTIONED_LOG_ODDS] * 2 + [UNMENTIONED_LOG_ODDS] * 2
    assert [one.right for one in decisions] == [True] * 4
    assert not (tmp_path / "data").exists(), "nothing of the owner's is touched"


def test_the_bare_model_is_measured_without(script: ModuleType, tmp_path: Path) -> None:
    llm = Leaner()
    decisions = run(script, tmp_path, llm)
    assert llm.leanings == [0.0] * 4
    assert [one.searched for one in decisions] == [False] * 4


def test_a_whole_turn_is_told_what_is_remembered(script: ModuleType, tmp_path: Path, export: Path) -> None:
    llm = Leaner()
    run(script, tmp_path, llm, "--memories", str(export), "--full", "--language", "en", "--limit", "1")
    told = [one.content for request in llm.requests for one in request.messages if one.role == "tool"]
    assert any("640" in content for content in told)


def test_the_report_says_whose_leaning_it_was(
    script: ModuleType, tmp_path: Path, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKCHAN_DATA_DIR", str(tmp_path / "data"))
    parts = {"llm": Leaner, "embedding": FakeEmbedding}
    engine = type("Engine", (), {"__init__": lambda self, kind: setattr(self, "kind", kind)})
    engine.build = lambda self, settings, persona: parts[self.kind]()  # type: ignore[attr-defined]
    monkeypatch.setattr(script, "find_engine", lambda settings, kind: engine(kind))
    path = tmp_path / "decision.json"
    assert script.main(["--memories", str(export), "--json", str(path)]) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["machine"]["leaning"] == "the server's, over memory.jsonl"


@pytest.mark.parametrize("arguments", [["--memories", "no-such.jsonl"], ["--memories", __file__, "--memory", "fails"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
