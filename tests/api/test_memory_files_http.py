"""The owner takes memory out and in over HTTP, makes the index anew, and looks at what was kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.errors import (
    IndexUnavailable,
    LlmError,
)
from server.memory.indexer import Progress
from tests.api.memory_over_http import CAT, Live, live
from tests.devices.conftest import code, eventually

pytestmark = pytest.mark.integration


async def test_an_export_goes_into_another_house(at: Live, tmp_path: Path) -> None:
    response = await at.client.get("/v1/memory/export")
    assert response.headers["content-type"].startswith("application/x-ndjson")
    async with live(tmp_path / "other") as other:
        done = await other.client.post("/v1/memory/import", content=response.content)
        assert (done.status_code, done.json()["imported"]) == (200, 3)
        await other.home.worker.idle()
        assert await other.listed(query="コムギ") == (await at.listed(query="コムギ"))
        again = await other.client.post("/v1/memory/import", content=response.content)
        assert again.json()["already_there"] == 3
        broken = await other.client.post("/v1/memory/import", content=response.content[:-100])
        assert code(broken)[0] == 422
        assert "Line " in broken.json()["error"]["message"]


async def test_one_rebuild_at_a_time_and_its_progress_can_be_read(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    failing: list[Exception] = []

    async def rebuild(progress: Progress) -> int:
        progress(0, 2)
        await go_on.wait()
        if failing:
            raise failing[0]
        progress(2, 2)
        return 2

    async with live(tmp_path, rebuild=rebuild) as made:
        assert await made.get("/v1/memory/rebuild") == {"state": "idle", "done": 0, "total": 0, "error": None}
        assert (await made.client.post("/v1/memory/rebuild")).status_code == 202
        await eventually(lambda: made.owner.rebuilding.state()["total"] == 2)
        busy = await made.client.post("/v1/memory/rebuild")
        assert code(busy) == (409, "rebuild_running")
        go_on.set()
        await made.owner.rebuilding.wait()
        assert await made.get("/v1/memory/rebuild") == {"state": "done", "done": 2, "total": 2, "error": None}
        for error, told in ((LlmError("x", code="embedding_failed"), "embedding_failed"), (KeyError("x"), "internal")):
            failing[:] = [error]
            assert (await made.client.post("/v1/memory/rebuild")).status_code == 202
            await made.owner.rebuilding.wait()
            state = await made.get("/v1/memory/rebuild")
            assert (state["state"], state["error"]["code"]) == ("failed", told)
        go_on.clear()
        await made.client.post("/v1/memory/rebuild")
        await asyncio.sleep(0)
    assert made.owner.rebuilding.state()["state"] == "failed", "broken off by the end"


async def test_a_rebuild_during_turns_finds_the_same(at: Live) -> None:
    before = await at.get("/v1/memories", query="富士通のパソコン")
    with at.home.gate.turn():
        await at.client.post("/v1/memory/rebuild")
        session_id = await at.home.open_session()
        await at.home.say(session_id, "こんばんは")
        await at.owner.rebuilding.wait()
    assert (await at.get("/v1/memory/rebuild"))["done"] == 3
    after = await at.get("/v1/memories", query="富士通のパソコン")
    assert [one["memory_id"] for one in after["memories"]] == [one["memory_id"] for one in before["memories"]]


async def test_an_audit_shows_what_was_kept_beside_what_was_not(at: Live) -> None:
    audited = await at.get("/v1/memory/audit", sample=10)
    assert [said["text"] for segment in audited["filler"] for said in segment["said"]] == ["こんにちは", "うん。"]
    kept = {segment["said"][0]["text"]: [one["summary"] for one in segment["memories"]] for segment in audited["kept"]}
    assert kept[CAT] == ["猫のコムギが家に来た。"]
    assert audited["segments"] == {"memories": 3, "filler": 1}
    assert audited["memories_by_type"] == {"episode": 3}
    assert audited["filler_share"] == 0.25
    assert len((await at.get("/v1/memory/audit", sample=1))["kept"]) == 1


async def test_a_backup_that_nobody_reads_leaves_nothing_behind(at: Live, tmp_path: Path) -> None:
    async with at.client.stream("GET", "/v1/backup") as response:
        assert response.status_code == 200
        assert int(response.headers["content-length"]) > 100_000
    await eventually(lambda: not list(tmp_path.glob("backup.partial*")))


async def test_an_index_that_fails_is_told_and_words_still_find(at: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise IndexUnavailable("The index server does not answer.", hint="Start it.")

    monkeypatch.setattr(at.home.index, "count", fail)
    monkeypatch.setattr(at.home.index, "search", fail)
    status = await at.get("/v1/memory/status")
    assert (status["index"]["points"], status["index"]["problem"]["code"]) == (None, "index_unavailable")
    found = await at.get("/v1/memories", query="富士通")
    assert found["searched"]["words_only"] == "index_unavailable"
    assert [one["retrieval_score"] for one in found["memories"]] == [None]
