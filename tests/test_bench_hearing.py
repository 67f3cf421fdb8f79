"""scripts/bench_hearing: its frozen sentences, and how what was heard of them is scored."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from server.memory.hot_words import MOST_HOT_WORDS
from server.persona import default_persona_path, load_persona
from tests.fakes.engines import FakeAsr, FakeVad
from tests.memory.making import WordVectors

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "bench_hearing"
DATA = ROOT / "tests" / "data" / "hearing_names.json"
FROZEN_SHA256 = "4d5349a68eddae99fa7903738d8c9e596670f07c26438b9635e4bc7d7f4ddac6"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_hearing_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_hearing_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.fixture
def parts(script: ModuleType) -> ModuleType:
    return sys.modules["_hearing"]


@pytest.fixture
def score(script: ModuleType) -> ModuleType:
    return sys.modules["_hearing_score"]


# --- the sentences ------------------------------------------------------------------------------------------------


def test_the_sentences_are_as_they_were_frozen() -> None:
    # Its text: a checkout may write line ends of its own.
    found = hashlib.sha256(DATA.read_text(encoding="utf-8").encode()).hexdigest()
    assert found == FROZEN_SHA256, "it judges the ear: write a new file beside it instead of changing it"


def test_there_are_enough_of_each_kind() -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    assert Counter(one["language"] for one in data["sentences"]) == {"ja": 32, "en": 16}
    assert {one["kind"] for one in data["sentences"]} == {"pet", "person", "place", "device", "shop"}
    assert Counter(one["language"] for one in data["without_names"]) == {"ja": 12, "en": 8}
    names = [one["name"] for one in data["sentences"]]
    others = {name for one in data["distractors"] for name in one["entities"]}
    assert len(set(names)) == 48
    assert len(others) == 200
    assert not others & set(names)


def test_a_name_is_in_its_sentence_and_its_memory_alone(parts: ModuleType) -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    names = {one["name"] for one in data["sentences"]}
    names |= {name for one in data["distractors"] for name in one["entities"]}
    for one in data["sentences"]:
        assert [name for name in names if parts.has_name(one["text"], name)] == [one["name"]]
        assert not parts.has_name(one["before"], one["name"])
        assert one["memory"]["entities"] == [one["name"]]
        assert one["name"] in one["memory"]["summary"]
        assert (one["reading"] is None) == (one["language"] == "en")
        assert one["reading"] is None or re.fullmatch("[ァ-ヴー]+", one["reading"])
    befores = {one["before"] for one in data["sentences"]}
    for one in data["without_names"]:
        assert not [name for name in names if parts.has_name(one["text"], name)]
        assert one["before"] in befores, "names are expected when nobody says one"


# --- scoring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "there"),
    [
        ("ねむりまるにご飯を", "ネムリマル", True),
        ("ﾈﾑﾘﾏﾙ に", "ネムリマル", True),
        ("眠り丸にご飯を", "ネムリマル", False),
        ("Did quillow, eat?", "Quillow", True),
        ("Did quillows eat?", "Quillow", False),
        ("Mr. Thessaly Wren's cat", "Thessaly Wren", False),
        ("ask Thessaly Wren", "Thessaly Wren", True),
        ("", "Quillow", False),
        ("𠮷野家さんの店", "𠮷野家", True),
    ],
)
def test_a_name_is_right_when_it_is_written_so(parts: ModuleType, text: str, name: str, there: bool) -> None:
    assert parts.has_name(text, name) is there


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ("ユラリと写真を撮った", (0, 7)),
        ("百合里と写真を撮った。", (0, 7)),
        ("ゆらりんと写真を撮った", (0, 7)),
        ("百合里と写真を取った", (1, 7)),
        ("百合里の写真を撮った", (1, 7)),
        ("ユラリと写真を撮ったよ", (1, 7)),
        ("", (7, 7)),
    ],
)
def test_errors_are_counted_outside_the_name(parts: ModuleType, heard: str, expected: tuple[int, int]) -> None:
    said = parts.Said("x", "ja", "ユラリと写真を撮った", "", "ユラリ", "ユラリ")
    assert parts.other_errors(said, heard) == expected


def test_english_is_counted_in_words(parts: ModuleType) -> None:
    said = parts.Said("x", "en", "Let's call Odrelle after lunch.", "", "Odrelle")
    assert parts.other_errors(said, "lets call Oh drell after lunch") == (0, 4)
    assert parts.other_errors(said, "Let's tall Odrelle after the lunch") == (2, 4)
    nameless = parts.Said("x", "en", "What time is it?", "")
    assert parts.other_errors(nameless, "What time is?") == (1, 4)


def test_a_name_that_nobody_said_is_an_addition(parts: ModuleType) -> None:
    words = ["Odrelle", "ユラリ", "水茎さん"]
    assert parts.names_added("ゆらりと揺れる", "船が揺れる", words) == ["ユラリ"]
    assert parts.names_added("ゆらりと揺れる", "ゆらりと揺れる", words) == []
    assert parts.names_added("Odrelle", "", words) == ["Odrelle"]


def heard(
    parts: ModuleType, score: ModuleType, number: int, plain: str, helped: str, *, name: str | None = "ユラリ"
) -> Any:
    said = parts.Said(f"s{number}", "ja", f"{name or '船'}と遊ぶ", "", name, name)
    return score.Heard(
        said, "bundled", ("ユラリ", "水茎さん"), parts.HeardWords(plain, "ja"), parts.HeardWords(helped, "ja")
    )


def test_the_summary_counts_gains_losses_and_additions(parts: ModuleType, score: ModuleType) -> None:
    some = [
        heard(parts, score, 1, "百合と遊ぶ", "ユラリと遊ぶ"),
        heard(parts, score, 2, "百合と遊ぶ", "水茎さんと遊ぶ"),
        heard(parts, score, 3, "ユラリと遊ぶ", "ユラリと選ぶ"),
        heard(parts, score, 4, "ユラリと遊ぶ", ""),
        heard(parts, score, 5, "船と遊ぶ", "ユラリと遊ぶ", name=None),
    ]
    silent = parts.HeardWords("", "", "no speech")
    sounds = [
        score.Sound("hum", False, ("ユラリ",), silent, silent),
        score.Sound("hum", True, ("ユラリ",), silent, parts.HeardWords("ユラリですね", "ja")),
        score.Sound("hum", True, ("ユラリ",), silent, parts.HeardWords("", "", "hot_words")),
    ]
    summary = score.summarise(some, sounds)
    names = summary["names"]["all"]
    assert (names["n"], names["wrong_without"]["hits"], names["wrong_with"]["hits"]) == (4, 2, 2)
    assert (names["fixed"], names["broken"], names["nothing_with"]) == (1, 1, 1)
    assert (names["other_names_without"], names["other_names_with"]) == (0, 1)
    assert names["offered"]["hits"] == 4
    assert names["gain_points"][0] == 0
    low, high = names["gain_points"][1:]
    assert low < 0 < high
    assert names["rest_without"] == 0
    assert names["rest_with"] == pytest.approx(100 * 4 / 12)
    assert summary["names"]["ja, bundled"]["n"] == summary["names"]["ja"]["n"] == 4
    additions = summary["additions"]
    assert additions["sentences without a name"]["names"] == ["ユラリ"]
    assert additions["noises"] == {"n": 1, "heard": 0, "heard_without": 0, "added": 0, "names": [], "dropped": 0}
    fooled = additions["noises taken for speech"]
    assert (fooled["n"], fooled["heard"], fooled["added"], fooled["dropped"]) == (2, 1, 1, 1)


def test_nothing_measured_is_no_error(score: ModuleType, script: ModuleType) -> None:
    out = io.StringIO()
    script.print_summary(Console(width=200, file=out), score.summarise([], []))
    assert "none may be" in out.getvalue()


# --- how it is heard ----------------------------------------------------------------------------------------------


def test_hot_words_come_from_a_memory_that_holds_all_of_them(parts: ModuleType, tmp_path: Path) -> None:
    every = parts.read_set(DATA)

    async def look_up() -> tuple[str, ...]:
        async with parts.remembered(every.memories[:40], tmp_path, WordVectors()) as memory:
            found: tuple[str, ...] = await parts.words_near(memory, "扇風機の風が強すぎる")
            return found

    words = asyncio.run(look_up())
    assert words[0] == "クルリポ"
    assert len(words) == MOST_HOT_WORDS


def test_what_a_guard_drops_is_told(parts: ModuleType) -> None:
    persona = load_persona(default_persona_path())
    speech = np.full(16_000, 0.5, np.float32)

    def hear(asr: FakeAsr, hot_words: tuple[str, ...]) -> Any:
        return asyncio.run(parts.Ears(FakeVad(), asr, persona).hear(speech, hot_words))

    assert hear(FakeAsr(text="ユラリ"), ("ユラリ",)).dropped == "hot_words"
    found = hear(FakeAsr(text="ユラリと遊ぶ"), ("ユラリ",))
    assert (found.text, found.dropped) == ("ユラリと遊ぶ", None)


def test_noises_have_no_words_and_are_the_same_each_time(parts: ModuleType) -> None:
    speech = [np.sin(np.arange(8_000, dtype=np.float32) / ten) for ten in (10, 20)]
    one, again = parts.noises(2.0, speech), parts.noises(2.0, speech)
    assert {"silence", "pink", "hum", "babble"} <= set(one)
    for name, samples in one.items():
        assert (samples.shape, samples.dtype) == ((32_000,), np.float32), name
        assert np.array_equal(samples, again[name])
        assert float(np.abs(samples).max()) <= 1.0
        assert (float(np.abs(samples).max()) == 0) == (name == "silence")


@pytest.mark.parametrize("arguments", [["--language", "fr"], ["--limit", "0"]])
def test_wrong_options_are_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        script.read_options(arguments)
