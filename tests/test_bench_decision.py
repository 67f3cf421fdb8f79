"""scripts/bench_decision: it asks as the server asks, counts what the model does, and hides the held-out half."""

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
from server.errors import LlmError
from server.memory.tools import FORGET_MEMORY_SHORT, SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from server.start_live import turn_settings
from tests.fakes.engines import ANSWER, FakeLlm

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_decision"
SECRET = "glockenspiel"


class Searcher(FakeLlm):
    """Searches when the words end with a question mark, answers when not; breaks when they hold `broken`."""

    async def generate(self, request: LlmRequest) -> Any:
        self.requests.append(request)
        words = [message.content for message in request.messages if message.role == "user"][-1]
        if "broken" in words:
            raise LlmError("no", code="llm_unreachable", retryable=True)
        if words.endswith(("?", "？")) and request.tools:
            yield LlmToolCall(SEARCH_MEMORY.name, {"query": "cat"})
        else:
            yield LlmText(ANSWER)
        yield LlmDone("stop")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_decision_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_decision_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.fixture
def parts(script: ModuleType) -> ModuleType:
    return sys.modules["_decisions"]


def item(id: str, text: str, search: bool, half: str = "dev", language: str = "en") -> dict[str, Any]:
    return {"id": id, "half": half, "kind": "k", "language": language, "text": text, "search": search}


ITEMS = [
    item("a", "What is my cat called?", True),
    item("b", "Remember my cat.", True),
    item("c", "broken?", True),
    item("d", "How are you?", False),
    item("e", "Nod!", False),
    item("f", f"My {SECRET}?", True, "held_out"),
    item("g", "猫の名前は？", True, "train", "ja"),
]


def run(script: ModuleType, tmp_path: Path, llm: FakeLlm, *arguments: str, items: Any = ITEMS) -> list[Any]:
    settings = load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)}, llm__seed=11, llm__max_answer_tokens=77)
    script.read_items = lambda: items  # type: ignore[attr-defined]
    persona = load_persona(default_persona_path())
    options = script.read_options([*arguments])
    decisions, _ = asyncio.run(script.measure(options, settings, persona, llm, Console(quiet=True)))
    return list(decisions)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 35, 0.0, 9.9), (1, 35, 0.5, 14.5), (35, 35, 90.1, 100.0), (17, 34, 34.1, 65.9)],
)
def test_a_share_has_its_wilson_interval(parts: ModuleType, hits: int, count: int, low: float, high: float) -> None:
    found = parts.share(hits, count)
    assert found == {"hits": hits, "of": count, "percent": [round(100 * hits / count, 1), low, high]}


def test_nothing_counted_is_no_share(parts: ModuleType) -> None:
    assert parts.share(0, 0) == {"hits": 0, "of": 0, "percent": [None, 0.0, 100.0]}


def test_an_error_in_the_middle_is_a_row_and_the_run_goes_on(script: ModuleType, tmp_path: Path) -> None:
    llm = Searcher()
    decisions = run(script, tmp_path, llm)
    assert [(d.id, d.searched, d.right, d.error) for d in decisions] == [
        ("a", True, True, ""),
        ("b", False, False, ""),
        ("c", None, False, "llm_unreachable"),
        ("d", True, False, ""),
        ("e", False, True, ""),
    ]
    assert decisions[0].query == "cat"
    assert (llm.started, llm.closed) == (1, 1)
    figures = script.summarise(decisions)["dev"]["as_written"]["en"]
    assert (figures["false_triggers"]["hits"], figures["false_triggers"]["of"]) == (1, 2)
    assert (figures["misses"]["hits"], figures["misses"]["of"]) == (1, 2), "the one that failed is no miss"
    assert (figures["accuracy"]["hits"], figures["accuracy"]["of"]) == (2, 4)
    assert figures["errors"] == 1


def test_the_model_is_asked_as_the_configured_server_asks_it(
    script: ModuleType, parts: ModuleType, tmp_path: Path
) -> None:
    llm = Searcher()
    run(script, tmp_path, llm, "--language", "en")
    asked = llm.requests[0]
    settings = turn_settings(load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)}))
    assert (asked.max_tokens, asked.seed, asked.temperature) == (77, 11, settings.temperature)
    assert [tool.name for tool in asked.tools] == [SEARCH_MEMORY.name], "there is nothing to read or to forget yet"
    assert asked.tools[0].parameters == SEARCH_MEMORY.parameters, "the short one, for a small model"
    assert tuple(llm.warmed) == asked.messages[: len(llm.warmed)], "what was warmed is how the prompt begins"
    assert len(llm.warmed) > 1


def test_who_asks_to_forget_is_offered_it_and_a_call_of_it_is_no_search(script: ModuleType, tmp_path: Path) -> None:
    class Forgetter(FakeLlm):
        async def generate(self, request: LlmRequest) -> Any:
            self.requests.append(request)
            yield LlmToolCall(FORGET_MEMORY_SHORT.name, {"query": "cat"})
            yield LlmDone("stop")

    llm = Forgetter()
    (decision,) = run(script, tmp_path, llm, items=[item("a", "Forget my cat's name.", False)])
    assert [tool.name for tool in llm.requests[0].tools] == [SEARCH_MEMORY.name, FORGET_MEMORY_SHORT.name]
    assert (decision.searched, decision.right) == (False, True)


def test_all_halves_are_told_apart(script: ModuleType, tmp_path: Path) -> None:
    summary = script.summarise(run(script, tmp_path, Searcher(), "--half", "all"))
    assert {half: list(found["as_written"]) for half, found in summary.items()} == {
        "dev": ["en"],
        "held_out": ["en"],
        "train": ["ja"],
    }
    assert summary["train"]["as_written"]["ja"]["misses"]["of"] == 1


def test_the_second_pass_is_without_final_marks(script: ModuleType, parts: ModuleType, tmp_path: Path) -> None:
    decisions = run(script, tmp_path, Searcher(), "--half", "train", "--strip-marks")
    assert [(d.marks, d.text, d.searched) for d in decisions] == [
        ("as_written", "猫の名前は？", True),
        ("without_marks", "猫の名前は", False),
    ]
    assert set(script.summarise(decisions)["train"]) == {"as_written", "without_marks"}
    assert [parts.without_marks(text) for text in ("え？！", "Mr. Fox came. ", "。", "うん")] == [
        "え",
        "Mr. Fox came",
        "。",
        "うん",
    ]


def test_the_held_out_half_shows_only_counts(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKCHAN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(script, "read_items", lambda: ITEMS)
    engine = type("Engine", (), {"build": staticmethod(lambda settings, persona: Searcher())})
    monkeypatch.setattr(script, "find_engine", lambda settings, kind: engine)
    path = tmp_path / "figures" / "decision.json"
    assert script.main(["--half", "all", "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert SECRET not in capsys.readouterr().out + path.read_text(encoding="utf-8")
    assert set(report) == {"machine", "summary", "utterances"}
    assert {"cores", "python", "engine", "model", "prefix_seconds"} <= set(report["machine"])
    assert [one["id"] for one in report["utterances"]] == ["a", "b", "c", "d", "e", "g"]
    assert report["utterances"][2]["error"] == "llm_unreachable"
    assert report["summary"]["held_out"]["as_written"]["en"]["accuracy"]["of"] == 1
    assert script.main(["--half", "all", "--full", "--show-held-out", "--json", str(path)]) == 0
    shown = json.loads(path.read_text(encoding="utf-8"))["utterances"]
    assert SECRET in capsys.readouterr().out
    assert [one["reply"] != "" for one in shown] == [True, True, False, True, True, True, True]


def test_a_limit_takes_the_same_balanced_sample_every_time(script: ModuleType, parts: ModuleType) -> None:
    every = script.read_items()
    sample = parts.chosen_items(every, "all", None, 5)
    cells: dict[Any, int] = {}
    for one in sample:
        cell = one["half"], one["language"], one["search"]
        cells[cell] = cells.get(cell, 0) + 1
    assert cells == {
        (half, la, s): 5 for half in ("dev", "held_out", "train") for la in ("ja", "en") for s in (True, False)
    }
    assert parts.chosen_items(every, "all", None, 5) == sample
    assert [one for one in every if one in sample] == sample, "in the file's order"
    first = [one["id"] for one in every if (one["half"], one["language"], one["search"]) == ("dev", "ja", True)][:5]
    assert [
        one["id"] for one in sample if (one["half"], one["language"], one["search"]) == ("dev", "ja", True)
    ] != first


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--half", "both"], ["--language", "fr"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
