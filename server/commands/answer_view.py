"""How an answer looks on a terminal: transcript, face, movement, and a waterfall of its stage times.

Pure drawing: takes the JSON of a turn (and its trace, when there is one). Tolerates missing fields, and trusts no
field: words, ids and numbers may be anything. What is told below the waterfall is in `turn_notes.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from server.commands.terminal import printable
from server.commands.turn_notes import MAX_NUMBER, dropped_reason, notes, number, one_line, place, summary
from server.next_steps import next_step
from server.pipeline.trace_facts import read_trace

_FACES = {
    "neutral": ("🙂", "(._.)"),
    "happy": ("😊", "(^_^)"),
    "sad": ("😢", "(;_;)"),
    "angry": ("😠", "(>_<)"),
    "doubt": ("🤔", "(o_?)"),
    "sleepy": ("😪", "(-_-)"),
    "surprised": ("😲", "(o_o)"),
}
_UNKNOWN_FACE = ("🤖", "(o_o)")
_STAGES = (
    ("silence", "wait", "white"),
    ("receive", "take in", "white"),
    ("queued", "wait", "white"),
    ("vad", "find speech", "cyan"),
    ("asr", "hear", "blue"),
    ("llm", "think", "magenta"),
    ("tool", "look up", "yellow"),
    ("tts", "speak", "green"),
)
_MOMENTS = (
    ("endpoint", "speech is over"),
    ("words_stored", "words stored"),
    ("first_token", "first token"),
    ("filler", "filler"),
    ("first_clause", "first clause"),
    ("first_audio", "first audio"),
)
_MIN_BAR_COLUMNS = 10
_MAX_BAR_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class StageBar:
    """One row: when a stage worked, in ms since the turn was received; `took_ms` is shown beside it."""

    label: str
    style: str
    pieces: tuple[tuple[float, float], ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    bars: tuple[StageBar, ...]
    moments: tuple[tuple[str, float], ...]
    total_ms: float


def answer_lines(
    answer: Mapping[str, Any], trace: Mapping[str, Any] | None = None, *, unicode: bool = True
) -> RenderableType:
    """Transcript, reply, emotion, action, and what went wrong."""
    outcome = answer.get("outcome")
    rows: list[tuple[str, Text]] = []
    if outcome == "no_speech":
        reason = dropped_reason(trace)
        heard = f"(no speech was heard: {reason})" if reason else "(no speech was heard)"
        rows.append(("You", Text(heard, style="yellow")))
    else:
        rows.append(("You", _words(answer.get("transcript"))))
        rows.append(("Robot", _words(answer.get("reply"), style="bold")))
        emotion, action = one_line(answer.get("emotion")) or "neutral", one_line(answer.get("action")) or "none"
        body = Text(f"{face(emotion, unicode=unicode)} {emotion}")
        if action != "none":
            body.append(f"  ·  {action}" if unicode else f"  -  {action}", style="cyan")
        rows.append(("Body", body))
    if outcome == "interrupted":
        rows.append(("", Text("(interrupted)", style="yellow")))
    error = answer.get("error")
    if isinstance(error, Mapping):
        code = one_line(error.get("code"))
        rows.append(("Error", Text(f"{one_line(error.get('message'))} [{code}]", style="red")))
        if step := next_step(code) or ("Try again. / もう一度どうぞ。" if error.get("retryable") else None):
            rows.append(("", Text(f"{'→' if unicode else '->'} {step}")))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return table


def face(emotion: str, *, unicode: bool = True) -> str:
    """A small face for an emotion ID; a robot for one that is not in the default set."""
    pair = _FACES.get(emotion, _UNKNOWN_FACE)
    return pair[0] if unicode else pair[1]


def waterfall(answer: Mapping[str, Any], trace: Mapping[str, Any] | None = None) -> Waterfall | None:
    """The stages on one time line: exact from the trace, else put one after another from the durations.

    None when the answer tells no times.
    """
    latency, spans = _numbers(answer.get("latency_ms")), _spans(trace)
    if not latency and not spans:
        return None
    marks = latency | _numbers((trace or {}).get("marks"))
    moments = tuple((label, marks[name]) for name, label in _MOMENTS if name in marks)
    pieces = spans or _guess_spans(latency)
    bars = []
    for name, label, style in _STAGES:
        if name in pieces:
            took = latency.get(name, min(MAX_NUMBER, sum(end - start for start, end in pieces[name])))
            bars.append(StageBar(f"{name} ({label})", style, tuple(pieces[name]), took))
    ends = [end for stage in pieces.values() for _, end in stage] + [moment for _, moment in moments]
    total_ms = max([latency.get("total", 0.0), *ends])
    return Waterfall(tuple(bars), moments, total_ms) if total_ms > 0 else None


def draw_waterfall(chart: Waterfall, *, columns: int, unicode: bool = True) -> RenderableType:
    """The chart as rows of bars, `columns` wide in all."""
    bar_columns = max(_MIN_BAR_COLUMNS, min(_MAX_BAR_COLUMNS, columns - 32))
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for bar in chart.bars:
        cells = _bar_cells(bar.pieces, chart.total_ms, bar_columns, full="█" if unicode else "#")
        table.add_row(bar.label, Text(cells, style=bar.style), f"{bar.took_ms:,.0f} ms")
    for label, moment_ms in chart.moments:
        position = min(bar_columns - 1, int(moment_ms / chart.total_ms * bar_columns))
        mark = " " * position + ("▲" if unicode else "^")
        table.add_row(label, Text(mark, style="yellow"), f"{moment_ms:,.0f} ms")
    table.add_row("total", Text(("─" if unicode else "-") * bar_columns, style="dim"), f"{chart.total_ms:,.0f} ms")
    return table


def answer_view(
    answer: Mapping[str, Any], trace: Mapping[str, Any] | None, *, columns: int, unicode: bool
) -> RenderableType:
    """Everything a person wants to see of one turn."""
    parts: list[RenderableType] = [answer_lines(answer, trace, unicode=unicode)]
    chart = waterfall(answer, trace)
    if chart is not None:
        parts += [Text(), draw_waterfall(chart, columns=columns, unicode=unicode)]
    below = [line for line in (summary(answer, trace), *notes(answer, trace), place(answer)) if line]
    # The width of a terminal decides where a line breaks; below the bars it may.
    parts += [Text(line if unicode else _plain(line), style="dim") for line in below]
    return Group(*parts)


def _words(value: object, style: str = "") -> Text:
    return Text(printable(value) if isinstance(value, str) else "", style=style)


def _plain(line: str) -> str:
    return line.replace(" · ", " - ").replace("…", "...")


def _numbers(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {}
    found = {str(name): number(item) for name, item in value.items()}
    return {name: item for name, item in found.items() if item is not None}


def _spans(trace: Mapping[str, Any] | None) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for name, start, end in read_trace(trace or {}).spans:
        if start <= end <= MAX_NUMBER:
            found.setdefault(name, []).append((start, end))
    return found


def _guess_spans(latency: Mapping[str, float]) -> dict[str, list[tuple[float, float]]]:
    pieces: dict[str, list[tuple[float, float]]] = {}
    start = 0.0
    for name in ("silence", "receive", "vad", "asr", "llm"):
        if name in latency:
            pieces[name] = [(start, start + latency[name])]
            start += latency[name]
    if "tts" in latency:
        # Speaking overlaps thinking: it begins with the first clause.
        begin = latency.get("first_clause", start)
        pieces["tts"] = [(begin, begin + latency["tts"])]
    return pieces


def _bar_cells(pieces: Sequence[tuple[float, float]], total_ms: float, columns: int, *, full: str) -> str:
    cells = [" "] * columns
    for start, end in pieces:
        first = min(columns - 1, max(0, int(start / total_ms * columns)))
        last = min(columns, max(first + 1, math.ceil(end / total_ms * columns)))
        cells[first:last] = full * (last - first)
    return "".join(cells)
