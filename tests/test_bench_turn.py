"""scripts/bench_turn: with engines of known delays it finds exactly those, and says so for people and machines."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from server.config import load_settings
from server.engines.base import Engines, LlmDone, LlmText, LlmToolCall
from server.errors import AsrError
from server.memory.tools import SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from server.start_live import turn_settings
from tests.fakes.engines import FakeAsr, fake_engines
from tests.soaks.stubs import FIRST_CLAUSE, REPLY, DelayedLlm, Delays, delayed_engines
from tests.virtual_time import in_virtual_time

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_turn"
DELAYS = Delays(0.9, 0.7, 1.1, 0.02, 0.01)
SAID = [("ja", "今日はどんな一日だったか教えて。"), ("en", "Tell me about your favourite place.")] * 3


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("bench_turn_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_turn_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    return load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)})


def measured(
    script: ModuleType, settings: Any, engines: Engines, said: Any = SAID, *, with_memory: bool = False
) -> tuple[Any, list[str]]:
    """The pairs of these utterances in virtual time."""
    persona = replace(load_persona(default_persona_path()), answer_length="two_sentences")

    async def run() -> Any:
        clock, console = asyncio.get_running_loop().time, Console(quiet=True)
        asked_as = turn_settings(settings)
        return await script.measure(engines, persona, asked_as, said, True, console, clock, with_memory=with_memory)

    return in_virtual_time(run())


@pytest.mark.unit
def test_each_way_takes_exactly_what_its_engines_take(script: ModuleType, settings: Any) -> None:
    engines = delayed_engines(DELAYS)
    pairs, failed = measured(script, settings, engines)
    assert failed == []
    assert [pair.text for pair in pairs] == [text for _, text in SAID]
    assert [pair.first for pair in pairs if pair.language == "ja"] == ["streaming", "serial", "streaming"]
    assert [pair.first for pair in pairs if pair.language == "en"] == ["serial", "streaming", "serial"]
    assert DELAYS.first_audio_seconds == pytest.approx(0.9 + 0.7 + 0.02 + 0.01 * len(FIRST_CLAUSE))
    assert DELAYS.serial_seconds == pytest.approx(0.9 + 0.7 + 1.1 + 0.02 + 0.01 * len(REPLY))
    for pair in pairs:
        assert pair.streaming.first_audio_seconds == pytest.approx(DELAYS.first_audio_seconds, abs=1e-6)
        assert pair.serial.first_audio_seconds == pytest.approx(DELAYS.serial_seconds, abs=1e-6)
        assert pair.serial.spans == pytest.approx(
            {"vad": 0, "asr": 0.9, "llm": 1.8, "tts": 0.02 + 0.01 * len(REPLY)}, abs=1e-3
        )
        assert pair.streaming.spans["asr"] == pytest.approx(0.9, abs=1e-3)
        assert pair.streaming.marks["first_clause"] == pytest.approx(1.6, abs=1e-3)
        assert pair.streaming.reply == pair.serial.reply == REPLY
        assert pair.same_request
        assert pair.two_sentences
    assert [engine.started for engine in engines.all()] == [1, 1, 1, 1, 0]
    assert [engine.closed for engine in engines.all()] == [1, 1, 1, 1, 0]


@pytest.mark.unit
@pytest.mark.parametrize("with_memory", [False, True])
def test_both_ways_make_the_same_calls_of_the_same_engines(
    script: ModuleType, settings: Any, with_memory: bool
) -> None:
    """One hearing and one request each; the words that are spoken are the same, in one piece or in several."""
    engines: Any = delayed_engines(DELAYS)
    requests: list[Any] = []
    spoken: list[str] = []
    engines.llm.requests = requests
    remember = engines.tts.synthesize

    def synthesize(request: Any) -> Any:
        spoken.append(request.text)
        return remember(request)

    engines.tts.synthesize = synthesize
    measured(script, settings, engines, SAID[:1], with_memory=with_memory)
    assert len(requests) == 4, "the unmeasured utterance, and the measured one; each in both ways"
    assert requests[2] == requests[3]
    assert requests[2].answer_schema["properties"]["reply"]["pattern"].endswith("{1}$")
    offered = [tool.name for tool in requests[2].tools]
    assert offered == ([SEARCH_MEMORY.name] if with_memory else []), "as the server asks"
    assert any(SEARCH_MEMORY.name in message.content for message in requests[2].messages)
    assert requests[2].seed == turn_settings(settings).seed
    unmeasured, question = spoken.index(SAID[0][1]), [n for n, text in enumerate(spoken) if text == SAID[0][1]]
    assert unmeasured == 0
    pieces = spoken[question[1] + 1 :]
    assert pieces[0] == FIRST_CLAUSE
    assert pieces[-1] == REPLY
    assert "".join(pieces[:-1]) == REPLY


class Searching(DelayedLlm):
    """Searches when it is first asked; `only`: in these turns, counted from 1, two of them before the measured ones."""

    only: frozenset[int] | None = None
    turns = 0

    async def generate(self, request: Any) -> Any:
        first = request.messages[-1].role == "user"
        self.turns += first
        if first and request.tools and (self.only is None or self.turns in self.only):
            self.requests.append(request)
            await asyncio.sleep(0.5)
            yield LlmToolCall(SEARCH_MEMORY.name, {"query": "夏"})
            yield LlmDone("stop", prompt_tokens=100, cached_tokens=90, completion_tokens=9)
            return
        async for delta in super().generate(request):
            yield delta


def searching_engines(only: frozenset[int] | None = None) -> Engines:
    llm = Searching()
    llm.delays, llm.only = DELAYS, only
    return replace(delayed_engines(DELAYS), llm=llm)


@pytest.mark.unit
def test_a_search_costs_both_ways_the_same(script: ModuleType, settings: Any) -> None:
    pairs, failed = measured(script, settings, searching_engines(), SAID[:2], with_memory=True)
    assert failed == []
    for pair in pairs:
        assert pair.streaming.searched
        assert pair.serial.searched
        assert pair.same_request, "the result of the search included"
        assert pair.streaming.first_audio_seconds == pytest.approx(DELAYS.first_audio_seconds + 0.5, abs=1e-6)
        assert pair.serial.first_audio_seconds == pytest.approx(DELAYS.serial_seconds + 0.5, abs=1e-6)
        assert pair.streaming.spans["llm"] == pytest.approx(pair.serial.spans["llm"], abs=1e-3)
        assert "tool" in pair.streaming.spans
        assert "tool" in pair.serial.spans
        assert (pair.serial.prompt_tokens, pair.serial.cached_tokens) == (200, 180)
    report = script.figures(pairs, failed)
    assert report["searched"] == {"both": 2, "one": 0, "none": 0}
    assert report["summary"]["searched"] == report["summary"]["two_sentences"]


@pytest.mark.unit
def test_a_search_in_one_way_only_is_counted_and_not_compared(
    script: ModuleType, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, failed = measured(script, settings, searching_engines(frozenset({3})), SAID[:3], with_memory=True)
    assert [pair.comparable for pair in pairs] == [False, True, True]
    assert {pairs[0].streaming.searched, pairs[0].serial.searched} == {True, False}
    report = script.figures(pairs, failed, with_memory=True)
    assert report["searched"] == {"both": 0, "one": 1, "none": 2}
    assert report["summary"]["searched"] == {"pairs": 0}
    assert [report["summary"][name]["pairs"] for name in ("two_sentences", "all")] == [2, 2]
    assert len(report["pairs"]) == 3
    script.show_pairs(json.loads(json.dumps(report)), Console(width=200))
    shown = capsys.readouterr().out
    assert "The model searched in both ways 0, in one 1" in shown
    assert "a search is offered and finds nothing" in shown


@pytest.mark.unit
def test_a_turn_without_an_answer_is_told_and_left_out(script: ModuleType, settings: Any) -> None:
    class Moody(FakeAsr):
        calls = 0

        async def transcribe(self, samples: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls == 4:
                raise AsrError("not today")
            return await super().transcribe(samples, **more)

    pairs, failed = measured(script, settings, fake_engines(asr=Moody()))
    assert len(pairs) == 5
    assert failed == [f"{SAID[0][1]} (serial): failed asr_failed"] or failed == [
        f"{SAID[0][1]} (streaming): failed asr_failed"
    ]


@pytest.mark.unit
def test_the_report_counts_and_compares(script: ModuleType, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    report = script.figures(*measured(script, settings, delayed_engines(DELAYS)))
    two = report["summary"]["two_sentences"]
    ratio = DELAYS.serial_seconds / DELAYS.first_audio_seconds
    assert two["median_ratio"] == pytest.approx(ratio, abs=1e-3)
    assert two["ratio_interval_95"] == pytest.approx([ratio, ratio], abs=1e-3)
    assert (two["pairs"], two["two_sentences"], two["same_request"], two["same_reply"]) == (6, 6, 6, 6)
    assert two["first_audio_ms"]["streaming"] == round(1000 * DELAYS.first_audio_seconds)
    assert two["stage_ms"]["serial"]["llm"] == 1_800
    assert report["summary"]["ja"]["pairs"] + report["summary"]["en"]["pairs"] == 6
    script.show_pairs(json.loads(json.dumps(report)), Console(width=200))
    shown = capsys.readouterr().out
    assert f"{ratio:.2f} times sooner" in shown
    assert "6 of 6 replies had two sentences" in shown
    assert "Memory: empty" in shown
    assert "Goal, 1.5 times sooner for two sentences: reached" in shown


@pytest.mark.unit
def test_no_pair_at_all_is_no_crash(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    report = script.figures([], ["x (serial): no sound"])
    assert report["summary"]["two_sentences"] == {"pairs": 0}
    script.show_pairs(report, Console(width=200))
    assert "0 of 0 replies" in capsys.readouterr().out


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("うん", 1),
        ("うん。", 1),
        ("いいね！散歩に行こう。", 2),
        ("え…本当？！すごい。", 3),
        ("「いいよ。」", 1),
        ("Pi is 3.14. Nice!", 2),
        ("Well, yes", 1),
        ("One. Two", 2),
    ],
)
def test_sentences_are_counted(script: ModuleType, text: str, count: int) -> None:
    assert sys.modules["_turn_pairs"].count_sentences(text) == count


@pytest.mark.unit
def test_the_interval_holds_the_median(script: ModuleType) -> None:
    pairs = sys.modules["_turn_pairs"]
    median, low, high = pairs.median_with_interval([1.2, 1.4, 1.5, 1.6, 1.7, 1.9, 2.4])
    assert median == 1.6
    assert 1.2 <= low < 1.6 < high <= 2.4
    assert pairs.median_with_interval([2.0]) == (2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="no values"):
        pairs.median_with_interval([])


@pytest.mark.unit
def test_real_engines_are_passed_through_unchanged(script: ModuleType) -> None:
    """What the model writes reaches the turn; only the number of sentences in the schema changes."""
    asked = sys.modules["_turn_pairs"].AskedLlm
    persona = replace(load_persona(default_persona_path()), answer_length="two_sentences")
    from server.context.prompts import answer_schema
    from server.engines.base import LlmMessage, LlmRequest

    request = LlmRequest((LlmMessage("user", "hi"),), answer_schema(persona, "ja"))

    async def run(exactly_two: bool) -> tuple[Any, list[Any]]:
        llm = asked(fake_engines().llm, exactly_two=exactly_two)
        return llm, [delta async for delta in llm.generate(request)]

    free, deltas = in_virtual_time(run(False))
    held, same = in_virtual_time(run(True))
    assert deltas == same
    assert isinstance(deltas[-1], LlmDone)
    assert all(isinstance(delta, LlmText) for delta in deltas[:-1])
    assert free.asked == [request]
    pattern = request.answer_schema["properties"]["reply"]["pattern"]  # type: ignore[index]
    assert "{0,1}$" in pattern
    assert held.asked[0].answer_schema["properties"]["reply"]["pattern"] == pattern.replace("{0,1}$", "{1}$")


@pytest.mark.integration
def test_the_servers_own_time_is_measured_over_http(script: ModuleType, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "figures" / "stub.json"
    monkeypatch.setattr(script, "ROBOTS", (1, 2))
    assert script.main(["--stub", "--turns", "3", "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert {"cores", "python", "stackchan-server", "uvicorn"} <= set(report["machine"])
    assert [report["robots"][robots]["turns"] for robots in ("1", "2")] == [3, 6]
    for found in report["robots"].values():
        inside, outside = found["server_ms"], found["with_http_ms"]
        assert 0 <= inside["p50"] <= inside["p95"] <= inside["p99"]
        assert inside["p50"] < outside["p50"]
        assert len(found["median_where_ms"]) == 6
        assert min(found["median_where_ms"].values()) >= -0.2, "engines take at least their time; marks are rounded"


@pytest.mark.unit
def test_the_parts_of_the_servers_time_add_up(script: ModuleType) -> None:
    spans = [("vad", 3.0, 4.5), ("asr", 5.0, 56.0), ("llm", 60.0, 250.0), ("tts", 143.0, 174.0), ("tts", 250.0, 290.0)]
    trace = {
        "spans": [{"name": name, "start_ms": start, "end_ms": end} for name, start, end in spans],
        "marks": {"first_clause": 142.0, "first_audio": 173.5},
    }
    parts = script.own_time(trace, Delays())
    assert list(parts.values()) == pytest.approx([3.0, 2.0, 1.0, 4.0, 2.0, 1.5])
    assert sum(parts.values()) == pytest.approx(173.5 - 1000 * Delays().first_audio_seconds)


@pytest.mark.unit
@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--turns", "-1"], ["--language", "fr"], ["--stub=x"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
