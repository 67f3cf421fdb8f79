"""How memories look: what is missing is left out, colours end where they should, times are those of the place."""

from __future__ import annotations

import io
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from server.commands import doctor_checks, memory_view
from server.commands.terminal import Terminal
from server.config import Settings
from server.memory.index.base import OpenReport
from server.memory.index_access import IndexAccess
from tests.commands.memory_server import PC_ID, STATUS, memory, said

pytestmark = pytest.mark.unit


def terminal(*, drawn: bool = False) -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=drawn, width=60 if drawn else 200, markup=False, highlight=False, emoji=False
    )
    return Terminal(out=console, err=console), stream


@pytest.mark.parametrize("value", [{}, {"memories": None}, {"memories": [None, 3, "x", {}]}, {"next": 7}])
def test_senseless_answers_are_shown_as_far_as_they_go(value: Any) -> None:
    where, stream = terminal()
    for show in (memory_view.show_found, memory_view.show_memory, memory_view.show_status, memory_view.show_audit):
        show(value, where)
    assert "None" not in stream.getvalue().replace("none", "")


def test_a_figure_that_is_none_does_not_break_the_table() -> None:
    where, stream = terminal()
    odd = {"turns": "many", "pending": True, "parked": "x", "memories": {"active": -1}, "index": [], "searches": 1e9}
    memory_view.show_status({**STATUS, **odd}, where)
    assert "Turns / 会話" in stream.getvalue()


def test_a_long_summary_is_indented_on_a_terminal_and_whole_in_a_pipe() -> None:
    summary = "富士通のパソコンを買った。" * 10
    where, stream = terminal(drawn=True)
    memory_view.show_headline(memory(PC_ID, summary), where, number=1)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 5
    assert all(line.startswith("     ") for line in lines[1:])
    where, stream = terminal()
    memory_view.show_headline(memory(PC_ID, summary), where, number=1)
    assert f"     {summary}" in stream.getvalue().splitlines()


def test_the_date_is_coloured_and_the_topic_is_not_dim() -> None:
    where, stream = terminal(drawn=True)
    memory_view.show_headline(memory(PC_ID, "x"), where, number=1)
    assert "\x1b[1m買い物\x1b[0m" in stream.getvalue()
    memory_view.show_sources([said(1, "user", "お茶")], where)
    assert "お茶\n" in stream.getvalue()


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("2026-11-29T00:30:00+09:00", "2026-11-29 00:30"),
        ("2026-11-28T15:30:00Z", "2026-11-28 15:30"),
        ("yesterday\x1b[2J", "yesterday [2J"),
        (None, ""),
        (12, "12"),
    ],
)
def test_a_time_is_shown_as_it_was_there(told: Any, shown: str) -> None:
    assert memory_view.when({"at": told}, "at", "%Y-%m-%d %H:%M") == shown


@pytest.mark.parametrize(
    ("found", "told", "untold"),
    [
        (["copy: storage_failed"], ("copy: storage_failed", "Run the same command again", "もう一度"), "log"),
        (["source turn 3"], ("source turn 3", "「忘れて」"), "again"),
        (["mem_" + "0" * 26], ("mem_" + "0" * 26, "もう一度"), "別の記憶"),
    ],
)
def test_what_still_tells_a_forgotten_memory_is_told_with_what_to_do(
    found: list[str], told: tuple[str, ...], untold: str
) -> None:
    where, stream = terminal()
    memory_view.show_still_found(found, [], where)
    assert all(one in stream.getvalue() for one in told)
    assert untold not in stream.getvalue()


def test_searches_say_what_they_count() -> None:
    where, stream = terminal()
    memory_view.show_status(STATUS, where)
    assert "without forgotten turns / 忘れた会話は除く" in stream.getvalue()


class AgreeingIndexer:
    async def agrees_with(self, points: int) -> bool:
        return True


def stored(data_dir: Path, count: int) -> Settings:
    folder = data_dir / "worlds" / "home"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "session.sqlite")) as db, db:
        db.execute("CREATE TABLE recall_items (status TEXT)")
        db.executemany("INSERT INTO recall_items VALUES (?)", [("active",)] * count)
    return Settings(data_dir=data_dir)


@pytest.mark.parametrize(("count", "recommended"), [(5_000, False), (5_001, True)])
async def test_the_status_the_log_and_the_doctor_recommend_another_index_from_one_number_and_for_one_reason(
    count: int, recommended: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where, stream = terminal()
    active = {"active": count - 3, "superseded": 3, "forgotten": 9}
    memory_view.show_status({**STATUS, "memories": active, "index": {"kind": "local", "points": count}}, where)

    async def open_index() -> OpenReport:
        return OpenReport(points=count)

    index: Any = SimpleNamespace(backend="local", open=open_index)
    indexer: Any = AgreeingIndexer()
    with caplog.at_level(logging.WARNING):
        assert await IndexAccess(lambda: index, indexer, lambda _: None, tmp_path / "index").open()
    finding = doctor_checks.check_memory(stored(tmp_path, count))
    told = [stream.getvalue(), caplog.text, f"{finding.detail} {finding.todo}"]
    assert ["memory.index_kind" in text for text in told] == [recommended] * 3
    assert [" all vectors into memory" in text for text in told] == [recommended] * 3
    shown_to_people = [told[0], told[2]]
    assert ["全部のベクトルをメモリーに読み込みます" in text for text in shown_to_people] == [recommended] * 2
    assert not any("slow" in text for text in told)
