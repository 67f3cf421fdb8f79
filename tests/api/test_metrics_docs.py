"""docs/observability.md lists every metric as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.api.metrics import (
    APOLOGIES,
    DROP_REASONS,
    FATES,
    FILLERS,
    MEMORY_STATUSES,
    OUTCOMES,
    SEARCH_OUTCOMES,
    SEGMENT_RESULTS,
    STAGES,
    Metrics,
)
from server.pipeline.request import TurnError, TurnRequest, TurnResult

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "observability.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(stackchan_\w+)` \| (\w+) \|([^|]*)\| ([^|]+) \|$", re.MULTILINE)


def rows_of_the_registry() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    metrics = Metrics("1.2.3", tools=["search_memory"])
    failed = TurnResult(1, "s", "failed", "failed", error=TurnError("llm_failed", "", False))
    metrics.observe_turn(TurnRequest("desk", text="hi"), failed, {})
    metrics.count_answer("/healthz", "GET", 200)
    endings = {"counter": "_total", "info": "_info"}
    for family in metrics.registry.collect():
        if family.name.startswith("stackchan_"):
            labels = tuple(name for name in family.samples[0].labels if name != "le")
            kind = "gauge" if family.type == "info" else family.type
            yield family.name + endings.get(family.type, ""), kind, labels, family.documentation


def test_the_table_is_the_registry() -> None:
    table = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), told) for name, kind, labels, told in ROW.findall(PAGE)
    ]
    assert len(table) > 15
    assert sorted(table) == sorted(rows_of_the_registry())


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("`outcome`", OUTCOMES),
        ("`stage`", STAGES),
        ("`reason`", DROP_REASONS),
        ("`how`", APOLOGIES),
        ("`how` of fillers", FILLERS),
        ("`fate`", FATES),
        ("`outcome` of searches", SEARCH_OUTCOMES),
        ("`status` of memories", MEMORY_STATUSES),
        ("`result` of segments", SEGMENT_RESULTS),
    ],
)
def test_the_values_of_a_label_are_those_that_are_counted(label: str, values: tuple[str, ...]) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label} |"))
    # What stands in brackets explains a value.
    assert tuple(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row)))[1:] == values
