"""How an answer looks on a terminal: transcript, face, movement, and a waterfall of its stage times.

Pure drawing: takes the JSON of a turn (and its trace, when there is one). Tolerates missing fields.
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
    ("vad", "find speech", "cyan"),
    ("asr", "hear", "blue"),
    ("llm", "think", "magenta"),
    ("tts", "speak", "green"),
)
_MOMENTS = (("first_token", "first token"), ("first_clause", "first clause"), ("first_audio", "first audio"))
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


def answer_lines(answer: Mapping[str, Any], *, unicode: bool = True) -> RenderableType:
    """Transcript, reply, emotion, action, and what went wrong."""
    outcome = answer.get("outcome")
    rows: list[tuple[str, Text]] = []
    if outcome == "no_speech":
        rows.append(("You", Text("(no speech was heard)", style="yellow")))
    else:
        rows.append(("You", _words(answer.get("transcript"))))
        rows.append(("Robot", _words(answer.get("reply"), style="bold")))
        emotion, action = str(answer.get("emotion", "neutral")), str(answer.get("action", "none"))
        body = Text(f"{face(emotion, unicode=unicode)} {printable(emotion)}")
        if action != "none":
            body.append(f"  ·  {printable(action)}" if unicode else f"  -  {printable(action)}", style="cyan")
        rows.append(("Body", body))
    if outcome == "interrupted":
        rows.append(("", Text("(interrupted)", style="yellow")))
    error = answer.get("error")
    if isinstance(error, Mapping):
        again = " Try again." if error.get("retryable") else ""
        rows.append(
            ("Error", Text(f"{printable(str(error.get('message', '')))} [{error.get('code', '')}]{again}", style="red"))
        )
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
    latency = {name: value for name, value in _numbers(answer.get("latency_ms")).items() if value >= 0}
    spans = _spans(trace)
    if not latency and not spans:
        return None
    moments = tuple((label, latency[name]) for name, label in _MOMENTS if name in latency)
    pieces = spans or _guess_spans(latency)
    bars = []
    for name, label, style in _STAGES:
        if name in pieces:
            took = latency.get(name, sum(end - start for start, end in pieces[name]))
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
    parts: list[RenderableType] = [answer_lines(answer, unicode=unicode)]
    chart = waterfall(answer, trace)
    if chart is not None:
        parts += [Text(), draw_waterfall(chart, columns=columns, unicode=unicode)]
    return Group(*parts)


def _words(value: object, style: str = "") -> Text:
    return Text(printable(str(value or "")), style=style)


def _numbers(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): float(item) for name, item in value.items() if _is_number(item)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _spans(trace: Mapping[str, Any] | None) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    spans = trace.get("spans") if trace else None
    for span in spans if isinstance(spans, Sequence) else ():
        if not isinstance(span, Mapping):
            continue
        name, start, end = span.get("name"), span.get("start_ms"), span.get("end_ms")
        if isinstance(name, str) and _is_number(start) and _is_number(end):
            found.setdefault(name, []).append((float(start or 0), float(end or 0)))
    return found


def _guess_spans(latency: Mapping[str, float]) -> dict[str, list[tuple[float, float]]]:
    pieces: dict[str, list[tuple[float, float]]] = {}
    start = 0.0
    for name in ("vad", "asr", "llm"):
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
