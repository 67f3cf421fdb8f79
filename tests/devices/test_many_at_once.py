"""The bounded part of `scripts/soak concurrency`: forty devices at the same moment, on a server of their own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.soaks.concurrency import Report, soak

pytestmark = pytest.mark.integration


def test_forty_devices_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    promises = soak(40, 1, tmp_path)
    broken = [asdict(promise) for promise in promises if not promise.kept]
    assert broken == [], json.dumps(broken, ensure_ascii=False, indent=1)
    figures = promises[0].figures
    assert figures["refusals_429"] >= 20, "ten places for forty devices"
    assert figures["served_at_once"] + figures["served_when_they_came_back"] == 40


def test_the_report_notices_what_is_lost_doubled_and_unasked() -> None:
    report = Report(4, served={"a": 1, "b": 2}, served_later={"c": 3}, stored={"a": [1], "b": [2, 5], "d": [4]})
    assert (report.lost, report.doubled, report.unasked) == (["c"], ["b"], ["d"])
