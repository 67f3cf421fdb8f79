"""scripts/bench_ingest: the server's own ingestion over labelled conversations, judged by rules that can be checked."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from server.engines.base import LlmRequest
from tests.memory.making import Summarizer, WordVectors, note

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_ingest"
HELD_OUT_WORD = "glockenspiel"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_ingest_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_ingest_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.fixture
def parts(script: ModuleType) -> ModuleType:
    return sys.modules["_ingestion"]


def said(user: str, *, filler: bool = False, **more: str) -> dict[str, Any]:
    return {"user": user, "robot": "Fine.", "filler": filler} | more


def fact(exchange: int, *keys: str, **changes: Any) -> dict[str, Any]:
    fields = {"memory_type": "fact", "exchange": exchange, "optional": False, "keys": [[key] for key in keys]}
    return fields | {"numbers": [], "days": None, "corrected": None} | changes


TALK = {
    "id": "en-x-1",
    "language": "en",
    "said_at": "2026-11-30T19:00:00+09:00",
    "exchanges": [
        said("Hello", filler=True, begins="hello"),
        said("Yesterday my brother bought a drum for 90 dollars.", begins="drum"),
        said("Yes", filler=True),
        said("By the way, my aunt Signe keeps bees in her orchard.", begins="bees", speaker="ada"),
        said("By the way, are bees loud?", filler=True, begins="noise"),
    ],
    "facts": [
        fact(2, "drum", numbers=["90 dollars"], days=["2026-11-29", "2026-11-29"]),
        fact(4, "Signe", "bees"),
        fact(4, "orchard", optional=True),
    ],
}


@pytest.fixture
def talk(parts: ModuleType, tmp_path: Path) -> Any:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([TALK]), encoding="utf-8")
    (read,) = parts.read_conversations(path)
    return read


def measured(script: ModuleType, talk: Any, summaries: Any, by: str) -> tuple[Any, Summarizer]:
    llm = Summarizer(summaries)
    console = Console(quiet=True)
    (judged,) = asyncio.run(script.measure([talk], llm, WordVectors(), console, summaries=by))
    return judged, llm


def test_the_models_notes_are_taken_in_and_judged(script: ModuleType, talk: Any) -> None:
    def notes(lines: list[str], request: LlmRequest) -> list[dict[str, Any]]:
        found = []
        for place, line in enumerate(lines, start=1):
            if "drum" in line:
                found.append(note("The brother bought a drum for 19 dollars yesterday.", "drum", about=[place]))
            if "Signe" in line:
                found.append(note("Aunt Signe keeps bees.", "Signe", about=[place]))
            if "loud" in line:
                found.append(note("It is loud.", about=[place]))
        return found

    judged, llm = measured(script, talk, notes, "model")
    assert judged.facts == (False, True, False), "19 is not 90, and the orchard may be left out"
    assert judged.touched == (True, True, False)
    assert [one.confidence for one in judged.taken.kept] == ["inferred", "said", "said"]
    assert judged.right == (False, True, False)
    assert judged.excluded == {0, 2}
    assert judged.taken.llm_calls == len(llm.requests) >= 3
    figures = script.summarise([judged])["en"]
    assert (figures["facts_recall"]["hits"], figures["facts_recall"]["of"]) == (1, 2)
    assert (figures["facts_precision"]["hits"], figures["facts_precision"]["of"]) == (1, 3)
    assert (figures["exact"]["hits"], figures["exact"]["of"]) == (0, 1)
    assert (figures["filler_precision"]["hits"], figures["filler_precision"]["of"]) == (2, 2)
    assert (figures["filler_recall"]["hits"], figures["filler_recall"]["of"]) == (2, 3)
    assert (figures["inferred"]["hits"], figures["failed_jobs"]) == (1, 0)
    assert figures["recall_by_type"] == {"fact": figures["facts_recall"]}


def test_the_users_own_words_ask_no_model_and_are_exact(script: ModuleType, talk: Any) -> None:
    judged, llm = measured(script, talk, lambda lines, request: [], "quotes")
    assert llm.requests == []
    assert judged.facts == (True, True, True)
    assert judged.right == (True, True)
    assert judged.excluded == {0, 2, 4}
    assert judged.taken.begins == (0, 1, 3, 4)
    assert script.summarise([judged])["en"]["boundary_f1"]["found"] == 100.0


def test_a_model_that_fails_is_counted_not_hidden(script: ModuleType, talk: Any) -> None:
    def broken(lines: list[str], request: LlmRequest) -> list[dict[str, Any]]:
        return [{"topic": "no summary"}]

    judged, _ = measured(script, talk, broken, "model")
    figures = script.summarise([judged])["en"]
    assert (figures["failed_jobs"], figures["facts_recall"]["hits"]) == (1, 0)


def kept(parts: ModuleType, summary: str, *sources: int) -> Any:
    return parts.Kept("fact", "topic", summary, (), "said", frozenset(sources))


@pytest.mark.parametrize(
    ("summary", "source", "expected"),
    [
        ("A drum for ninety dollars on November 29, 2026.", 1, True),
        ("A drum for 90 dollars on November 29.", 1, True),
        ("A drum for 90 dollars on November 28, 2026.", 1, False),
        ("A drum for 90 dollars on November 29, 2025.", 1, False),
        ("A drum for 90 dollars yesterday.", 1, False),  # another day when it is read
        ("A drum on November 29, 2026.", 1, False),
        ("A harp for 90 dollars on November 29, 2026.", 1, False),
        ("A drum for 90 dollars on November 29, 2026.", 3, False),
    ],
)
def test_a_fact_needs_its_words_number_day_and_turn(
    parts: ModuleType, talk: Any, summary: str, source: int, expected: bool
) -> None:
    judged = parts.judge(parts.TakenIn(talk, (0,), (kept(parts, summary, source),)))
    assert judged.facts[0] is expected
    assert judged.right == (expected,)


def test_what_was_taken_back_must_not_stand_alone(parts: ModuleType, talk: Any) -> None:
    corrected = parts.Fact("fact", 1, False, (("drum",),), ("90",), None, "80")
    talk = parts.Conversation("x", "en", talk.said_at, talk.exchanges, (corrected,))
    for summary, stale in (("A drum for 80.", 1), ("A drum for 90, not 80.", 0), ("A drum for 90.", 0)):
        assert parts.judge(parts.TakenIn(talk, (0,), (kept(parts, summary, 1),))).stale == stale


def test_boundaries_of_several_conversations_do_not_meet(parts: ModuleType, talk: Any) -> None:
    found = parts.boundaries([parts.TakenIn(talk, (0, 1, 3, 4), ()), parts.TakenIn(talk, (0,), ())])
    assert found["found"] == pytest.approx(66.7)
    assert set(found) == {"found", "windows_of_4", "windows_of_6"}


def test_boundaries_alone_need_no_language_model(script: ModuleType, talk: Any) -> None:
    found = asyncio.run(script.measure_boundaries([talk], WordVectors(), Console(quiet=True)))
    assert found["en"]["found"] == 100.0


def test_what_is_held_out_is_not_shown(script: ModuleType, parts: ModuleType, talk: Any) -> None:
    judged = parts.judge(parts.TakenIn(talk, (0,), (kept(parts, HELD_OUT_WORD, 1),)))
    hidden = json.dumps(script.report_of([judged], {}, show=False))
    assert HELD_OUT_WORD not in hidden
    assert "Signe" not in hidden
    shown = script.report_of([judged], {}, show=True)["conversations"][0]
    assert shown["memories"][0]["summary"] == HELD_OUT_WORD
    assert (shown["missed"], shown["filler_kept"]) == ([2, 4], [])


def test_the_summary_names_the_figures_of_each_language(script: ModuleType, parts: ModuleType, talk: Any) -> None:
    judged = [parts.judge(parts.TakenIn(talk, (0,), ()))]
    out = io.StringIO()
    script.print_summary(Console(width=200, file=out), script.summarise(judged))
    text = out.getvalue()
    assert "en: 1 conversations, 5 exchanges" in text
    assert "facts: recall" in text
    assert "0/2 = 0.0 %" in text


@pytest.mark.parametrize("arguments", [["--half", "all"], ["--limit", "0"], ["--summaries", "x"]])
def test_wrong_options_are_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        script.read_options(arguments)
