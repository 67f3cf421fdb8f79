"""scripts/bench_endpoint and bench_vad: what they count, on speech whose windows are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
WINDOW_SECONDS = 0.032


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader(f"{name}_script", str(SCRIPTS / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, loader.name, module)  # dataclasses look for their module there
    loader.exec_module(module)
    return module


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("bench_endpoint", monkeypatch)


@pytest.fixture
def perfect(script: ModuleType) -> Callable[..., list]:
    """What a perfect ear would say of the sentences; `deaf_seconds`: it misses so much at each beginning."""

    def hear(deaf_seconds: float = 0.0) -> list:
        heard = []
        for pause_ms, sentence in script.sentences(24):
            times = (np.arange(len(sentence.samples) // 512) + 0.5) * WINDOW_SECONDS
            first = sentence.words[0].start_seconds
            spoken = [
                any(word.start_seconds <= time < word.end_seconds for word in sentence.words)
                and time >= first + deaf_seconds
                for time in times
            ]
            heard.append(script.Said(pause_ms, sentence, [float(one) for one in spoken]))
        return heard

    return hear


@pytest.mark.unit
def test_sentences_are_the_same_every_time_with_each_pause_and_in_both_languages(script: ModuleType) -> None:
    once, again = script.sentences(24), script.sentences(24)
    assert [pause for pause, _ in once] == list(script.PAUSES_MS) * 4
    for (_, one), (_, other) in zip(once, again, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
    texts = [sentence.text for _, sentence in once]
    assert any(text.isascii() for text in texts)
    assert not all(text.isascii() for text in texts)


@pytest.mark.unit
def test_a_perfect_ear_cuts_where_the_pause_is_longer_than_the_silence(
    script: ModuleType, perfect: Callable[..., list]
) -> None:
    for end_ms in (200, 500, 1000):
        row = script.judge_ends(perfect(), WINDOW_SECONDS, end_ms)
        cut = row["cut_at_pause_percent"]
        assert all(share == 100.0 for pause, share in cut.items() if pause > end_ms + 64), cut
        assert all(share == 0.0 for pause, share in cut.items() if pause < end_ms - 64), cut
        assert (row["words_lost_at_start"], row["words_lost_at_end"], row["never_ended"]) == (0, 0, 0)
        assert end_ms - 32 <= row["delay_ms"]["p50"] <= end_ms + 64
        assert row["words"] == sum(len(said.sentence.words) for said in perfect())


@pytest.mark.unit
def test_what_an_ear_misses_is_counted_as_lost(script: ModuleType, perfect: Callable[..., list]) -> None:
    row = script.judge_ends(perfect(deaf_seconds=0.8), WINDOW_SECONDS, 500)
    assert row["words_lost_at_start"] >= 24, "the pre-roll gives back 0.3 s of the 0.8"
    silent = [script.Said(said.pause_ms, said.sentence, [0.0] * len(said.probabilities)) for said in perfect()]
    row = script.judge_ends(silent, WINDOW_SECONDS, 500)
    assert (row["never_ended"], row["words_lost_at_end"], row["delay_ms"]) == (24, row["words"], None)


@pytest.mark.unit
def test_hearing_started_for_nothing_is_counted(script: ModuleType, perfect: Callable[..., list]) -> None:
    quick = script.judge_notices(perfect(), WINDOW_SECONDS, 60)
    slow = script.judge_notices(perfect(), WINDOW_SECONDS, 500)
    assert quick["dropped_a_sentence"] > 0.5
    assert slow["dropped_a_sentence"] == 0.0, "then every notice is an end"
    assert 20 <= quick["delay_ms"]["p50"] <= 96
    assert quick["before_the_last_sound_was_over"] == 0


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [("bench_endpoint", ["--sentences", "6"], "ends"), ("bench_vad", ["--streams", "2", "--seconds", "1"], "rows")],
)
def test_the_real_model_is_measured(
    name: str, arguments: list[str], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = load(name, monkeypatch)
    assert script.main([*arguments, "--json", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report[key]
    assert report["machine"]["onnxruntime"]
    if name == "bench_vad":
        (row,) = report["rows"]
        assert {row["streams"], row["at_once"]["together_ms"] > 0, row["as_they_come"]["ratio"] > 0} == {2, True}


@pytest.mark.models
async def test_both_ways_hear_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("bench_vad", monkeypatch)
    settings = script.load_settings()
    persona = script.load_persona(script.find_persona(settings.data_dir, settings.persona_path))
    vad = script.build_engines(settings, persona).vad
    await vad.start()
    sound = script.sounds(2, 2.0)[1]
    alone, shared = script.one_by_one(vad.load_model(), 512), vad.open_stream().push
    for start in range(0, len(sound), 960):
        frame = sound[start : start + 960]
        told = [probability for window in await alone(frame) for probability in window]
        assert told == pytest.approx(await shared(frame), abs=1e-4)
    await vad.close()
