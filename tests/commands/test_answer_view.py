"""The answer as it is drawn."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from server.commands.answer_view import answer_view, draw_waterfall, face, waterfall

pytestmark = pytest.mark.unit

LATENCY = {"vad": 100, "asr": 400, "llm": 500, "tts": 100, "first_clause": 800, "first_audio": 900, "total": 1000}


def drawn(renderable: Any, columns: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, color_system=None)
    console.print(renderable)
    output = console.file
    assert isinstance(output, io.StringIO)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def bar_of(lines: list[str], label: str) -> tuple[int, int]:
    """First and last column of a row's bar, from the start of the bars."""
    row = next(line for line in lines if line.startswith(label))
    start = next(line for line in lines if line.startswith("total")).index("-")
    bar = row[start:]
    return bar.index("#"), bar.rindex("#")


def test_stages_stand_one_after_another_on_one_time_line() -> None:
    chart = waterfall({"latency_ms": LATENCY})
    assert chart is not None
    assert [bar.pieces for bar in chart.bars] == [((0, 100),), ((100, 500),), ((500, 1000),), ((800, 900),)]
    lines = drawn(draw_waterfall(chart, columns=100, unicode=False))
    columns = 60
    assert bar_of(lines, "vad") == (0, columns // 10 - 1)
    assert bar_of(lines, "asr") == (columns // 10, columns // 2 - 1)
    assert bar_of(lines, "llm") == (columns // 2, columns - 1)
    assert bar_of(lines, "tts") == (48, 53)


def test_what_was_taken_in_stands_first_and_unknown_stages_are_left_out() -> None:
    chart = waterfall({"latency_ms": LATENCY | {"receive": 30}})
    assert chart is not None
    assert [bar.pieces[0] for bar in chart.bars[:2]] == [(0, 30), (30, 130)]
    assert chart.bars[0].label == "receive (take in)"
    spans = [{"name": name, "start_ms": 0, "end_ms": 20} for name in ("receive", "made up")]
    chart = waterfall({"latency_ms": {}}, {"spans": spans})
    assert chart is not None
    assert [bar.label for bar in chart.bars] == ["receive (take in)"]


def test_the_trace_gives_the_exact_places() -> None:
    trace = {
        "spans": [
            {"name": "asr", "start_ms": 10, "end_ms": 410},
            {"name": "tts", "start_ms": 700, "end_ms": 750},
            {"name": "tts", "start_ms": 900, "end_ms": 1000},
            {"name": "llm", "start_ms": 400, "end_ms": None},
            "nonsense",
        ]
    }
    chart = waterfall({"latency_ms": LATENCY}, trace)
    assert chart is not None
    assert {bar.label[:3]: bar.pieces for bar in chart.bars} == {
        "asr": ((10, 410),),
        "tts": ((700, 750), (900, 1000)),
    }
    tts = next(bar for bar in chart.bars if bar.label.startswith("tts"))
    assert tts.took_ms == 100


@pytest.mark.parametrize(
    "latency", [None, {}, {"total": 0}, {"vad": "soon"}, {"vad": -5}, [], {"asr": float("nan")}, {"llm": True}]
)
def test_times_that_make_no_sense_draw_nothing(latency: Any) -> None:
    assert waterfall({"latency_ms": latency}) is None


@pytest.mark.parametrize("columns", [10, 40, 80, 300])
def test_it_fits_every_width(columns: int) -> None:
    chart = waterfall({"latency_ms": LATENCY})
    assert chart is not None
    lines = drawn(draw_waterfall(chart, columns=columns), columns=max(columns, 42))
    assert all(len(line) <= max(columns, 42) for line in lines)
    assert len(lines) == 7


def test_faces() -> None:
    assert face("happy") == "😊"
    assert face("happy", unicode=False) == "(^_^)"
    assert face("bored") == "🤖"
    assert face("bored", unicode=False).isascii()


@pytest.mark.parametrize("emotion", ["neutral", "happy", "sad", "angry", "doubt", "sleepy", "surprised"])
def test_every_default_emotion_has_a_face_of_its_own(emotion: str) -> None:
    assert face(emotion) != face("bored")


def test_a_terminal_without_unicode_gets_ascii_around_the_words() -> None:
    answer = {"transcript": "hi", "reply": "hello", "emotion": "sad", "action": "nod", "latency_ms": LATENCY}
    assert all(line.isascii() for line in drawn(answer_view(answer, None, columns=80, unicode=False)))


def test_an_answer_with_missing_fields_is_still_drawn() -> None:
    lines = drawn(answer_view({"turn_id": 1}, None, columns=80, unicode=True))
    assert any("neutral" in line for line in lines)


def test_no_action_is_not_mentioned() -> None:
    text = "\n".join(drawn(answer_view({"action": "none", "reply": "x"}, None, columns=80, unicode=True)))
    assert "none" not in text
