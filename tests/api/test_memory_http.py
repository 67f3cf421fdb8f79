"""The owner's memory over HTTP: real SQLite, the real local index, vectors made of words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from server.api.memory import memory_router
from server.api.problems import install_problem_handlers
from server.errors import (
    AuthError,
    IndexUnavailable,
    LlmError,
)
from server.memory.indexer import Progress
from server.memory.owner import MemoryOwner
from server.storage import jobs, memory_browse
from server.storage.backup import make_archive
from server.storage.restoring import restore
from tests.devices.conftest import code, eventually
from tests.memory.making import MONDAY, PERSONA, TOKYO, House, WordVectors, house
from tests.memory.said_and_noted import BOUGHT, files_with, summaries

pytestmark = pytest.mark.integration

CAT, CORRECTED = "猫のコムギが家に来た", "富士通のパソコン、違う、二万五千円だった"
EVERY = (
    ("GET", "/v1/memory/status"),
    ("GET", "/v1/memories"),
    ("GET", "/v1/memories/mem_1"),
    ("PATCH", "/v1/memories/mem_1"),
    ("DELETE", "/v1/memories/mem_1"),
    ("GET", "/v1/memory/export"),
    ("POST", "/v1/memory/import"),
    ("POST", "/v1/memory/rebuild"),
    ("GET", "/v1/memory/rebuild"),
    ("POST", "/v1/memory/retry"),
    ("GET", "/v1/memory/audit"),
    ("GET", "/v1/backup"),
)


@dataclass
class Live:
    home: House
    client: httpx2.AsyncClient
    owner: MemoryOwner
    app: FastAPI

    async def get(self, path: str, **params: Any) -> Any:
        response = await self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    async def listed(self, **params: Any) -> list[str]:
        return [one["summary"] for one in (await self.get("/v1/memories", **params))["memories"]]

    async def id_of(self, words: str) -> str:
        return next(one.memory_id for one in await self.home.memories() if words in one.summary)


@asynccontextmanager
async def live(folder: Path, **owner_options: Any) -> AsyncIterator[Live]:
    async with house(folder, summaries) as home:
        owner = MemoryOwner(
            home.databases,
            home.keeper,
            home.indexer,
            home.recall,
            WordVectors.fingerprint,
            persona_id=PERSONA,
            clock=home.clock,
            zone=TOKYO,
            index_folder=folder / "worlds" / "home" / "index",
            wake=home.worker.wake,
            **owner_options,
        )

        async def owner_only(authorization: str | None) -> None:
            if authorization != "Bearer owner":
                raise AuthError("no")

        app = FastAPI()
        install_problem_handlers(app)
        app.include_router(
            memory_router(
                lambda: owner, owner_only, backup=lambda: make_archive(folder, now=home.clock()), version="1.0"
            )
        )
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"Authorization": "Bearer owner"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://house", headers=headers) as client:
            try:
                yield Live(home, client, owner, app)
            finally:
                await owner.close()


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Live]:
    """A house with a corrected price, and a cat that only one person knows of."""
    async with live(tmp_path) as made:
        await made.home.talk(BOUGHT)
        await made.home.talk(CORRECTED)
        session_id = await made.home.open_session(channel_id="web:1", private=True)
        await made.home.say(session_id, CAT, channel_id="web:1", speaker_id="mika")
        await made.home.end(session_id)
        await made.home.talk("こんにちは")
        yield made


async def test_every_endpoint_asks_for_the_owner_s_token(tmp_path: Path) -> None:
    async with live(tmp_path) as made:
        for method, path in EVERY:
            response = await made.client.request(method, path, headers={"Authorization": "Bearer other"}, content="{")
            assert code(response) == (401, "token_invalid"), path
        described = {
            (method.upper(), path) for path, at_path in made.app.openapi()["paths"].items() for method in at_path
        }
        assert described == {(method, path.replace("mem_1", "{memory_id}")) for method, path in EVERY}


async def test_status_counts_what_is_there(at: Live) -> None:
    async with at.home.databases.world() as db:
        await jobs.enqueue(db, "ingest", "session-x", now=at.home.at)
        for _ in range(5):
            at.home.at = at.home.at.replace(hour=(at.home.at.hour + 1) % 24)
            job = await jobs.lease(db, owner="b", now=at.home.at, lease_seconds=60, kinds=("ingest",))
            assert job is not None
            await jobs.fail(db, job, "LlmError: llm_failed", now=at.home.at)
    status = await at.get("/v1/memory/status")
    assert (status["turns"], status["source_turns"]) == (4, 8)
    assert status["memories"] == {"active": 2, "superseded": 1, "forgotten": 0}
    assert (status["filler_excluded"], status["pending"], status["parked_count"]) == (1, 0, 1)
    (parked,) = status["parked"]
    assert (parked["kind"], parked["subject"], parked["code"]) == ("ingest", "session-x", "llm_failed")
    assert status["index"]["points"] == 3
    assert status["index"]["problem"] is None
    assert status["index"]["folder_bytes"] > 0
    assert status["embedding_model"] == "words"
    queued = await at.client.post("/v1/memory/retry")
    assert (queued.status_code, queued.json()) == (200, {"queued": 1})


async def test_a_list_is_the_newest_first_in_pages_and_narrowed(at: Live) -> None:
    first = await at.get("/v1/memories", status="all", limit=2)
    second = await at.get("/v1/memories", status="all", limit=2, after=first["next"])
    found = [one["memory_id"] for page in (first, second) for one in page["memories"]]
    assert sorted(found) == sorted(one.memory_id for one in await at.home.memories())
    times = [one["occurred_at"] for page in (first, second) for one in page["memories"]]
    assert times == sorted(times, reverse=True)
    assert second["next"] is None
    assert await at.listed(status="superseded") == ["2026年11月29日、富士通のパソコンを30,000円で買った。"]
    assert await at.listed(entity="ｺﾑｷﾞ") == ["猫のコムギが家に来た。"]
    assert await at.listed(speaker="mika") == ["猫のコムギが家に来た。"]
    assert await at.listed(speaker="tsumugu") == []
    assert await at.listed(date_to="2026-11-29", status="all") == [
        "2026年11月29日、富士通のパソコンを30,000円で買った。"
    ]
    assert await at.listed(date_from="2026-12-01") == []
    assert await at.listed(type="preference") == []
    assert await at.listed(status="forgotten") == []


async def test_the_owner_s_search_finds_what_is_private_too(at: Live) -> None:
    found = await at.get("/v1/memories", query="猫のコムギ")
    best = found["memories"][0]
    assert best["summary"] == "猫のコムギが家に来た。"
    assert best["visibility"] == "private"
    assert 0.5 < best["retrieval_score"] <= 1.0001
    assert await at.listed(query="富士通のパソコン", status="superseded") == [
        "2026年11月29日、富士通のパソコンを30,000円で買った。"
    ]
    assert await at.listed(query="富士通のパソコン", speaker="mika") == ["猫のコムギが家に来た。"]
    session_id = await at.home.open_session()
    await at.home.say(session_id, "自転車の鍵は青い箱")
    waiting = (await at.get("/v1/memories", query="自転車の鍵"))["not_yet_taken_in"]
    assert [said["text"] for said in waiting] == ["自転車の鍵は青い箱"]


async def test_one_memory_has_its_exact_words_and_its_versions(at: Live) -> None:
    new, old = await at.id_of("25,000"), await at.id_of("30,000")
    shown = await at.get(f"/v1/memories/{new}")
    assert shown["sources"][0]["text"] == CORRECTED
    assert [one["memory_id"] for one in shown["older"]] == [old]
    assert shown["newer"] == []
    assert shown["occurred_at"].endswith("+09:00")
    assert [one["memory_id"] for one in (await at.get(f"/v1/memories/{old}"))["newer"]] == [new]
    assert code(await at.client.get("/v1/memories/mem_x")) == (404, "memory_not_found")


async def test_an_edit_changes_what_is_given_and_is_found_by_it(at: Live) -> None:
    memory_id = await at.id_of("25,000")
    changed = {"summary": "富士通のデスクトップを24,000円で買った。", "entities": ["デスクトップ"], "importance": 5}
    response = await at.client.patch(f"/v1/memories/{memory_id}", json=changed)
    assert response.status_code == 200
    assert {name: response.json()[name] for name in changed} == changed
    await at.home.worker.idle()
    assert (await at.listed(query="デスクトップ"))[0] == changed["summary"]
    assert await at.listed(entity="パソコン") == []
    (vector,) = (await at.home.index.vectors([memory_id])).values()
    expected = (await WordVectors().embed_documents([f"富士通\n{changed['summary']}"]))[0]
    assert float(vector @ expected) == pytest.approx(1.0, abs=1e-5)


SENSELESS_EDITS = (
    (b"", "body_invalid"),
    (b"{}", "arguments_invalid"),
    (b"[]", "body_invalid"),
    (b'{"summary": ""}', "body_invalid"),
    (b'{"summary": " \\u0000 "}', "arguments_invalid"),
    (b'{"topic": "\\ud800"}', "body_invalid"),
    (b'{"importance": 6}', "body_invalid"),
    (b'{"importance": "high"}', "body_invalid"),
    (b'{"importance": true}', "body_invalid"),
    (b'{"memory_type": "mood"}', "body_invalid"),
    (b'{"occurred_at": "2026-11-30T12:00:00"}', "body_invalid"),
    (b'{"status": "active"}', "body_invalid"),
    (b'{"summary": "\xff"}', "body_invalid"),
    (json.dumps({"summary": "a" * 70_000}).encode(), "body_too_large"),
    (json.dumps({"entities": ["a"] * 51}).encode(), "body_invalid"),
)


async def test_a_senseless_edit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with live(tmp_path) as made:
        await made.home.talk(CAT)
        (before,) = await made.home.memories()
        for body, expected in SENSELESS_EDITS:
            response = await made.client.patch(f"/v1/memories/{before.memory_id}", content=body)
            assert code(response) == (413 if expected == "body_too_large" else 422, expected), body[:80]
        assert await made.home.memories() == [before]


SENSELESS_CONDITIONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"limit": 0}, "body_invalid"),
    ({"limit": 201}, "body_invalid"),
    ({"query": "猫", "limit": 51}, "arguments_invalid"),
    ({"query": " "}, "arguments_invalid"),
    ({"query": "猫", "after": "mem_1"}, "arguments_invalid"),
    ({"after": "mem_1"}, "after_unknown"),
    ({"date_from": "2026-12-02", "date_to": "2026-12-01"}, "arguments_invalid"),
    ({"date_to": "9999-12-31"}, "arguments_invalid"),
    ({"date_from": "0001-01-01", "query": "x"}, "arguments_invalid"),
    ({"date_from": "tomorrow"}, "body_invalid"),
    ({"status": "gone"}, "body_invalid"),
    ({"entity": " "}, "arguments_invalid"),
)


async def test_senseless_conditions_are_refused(tmp_path: Path) -> None:
    async with live(tmp_path) as made:
        for params, expected in SENSELESS_CONDITIONS:
            assert code(await made.client.get("/v1/memories", params=params)) == (422, expected), params


async def test_a_forgotten_memory_is_nowhere_any_more(at: Live, tmp_path: Path) -> None:
    before = (await at.client.get("/v1/backup")).content
    exported = (await at.client.get("/v1/memory/export")).content
    new, old = await at.id_of("25,000"), await at.id_of("30,000")
    response = await at.client.delete(f"/v1/memories/{new}")
    assert response.status_code == 200
    assert response.json() == {"forgotten": [new, old], "blanked_turns": 2, "still_found": []}
    await at.home.worker.idle()
    again = await at.client.delete(f"/v1/memories/{new}")
    assert (again.status_code, again.json()["still_found"]) == (200, [])
    assert code(await at.client.get(f"/v1/memories/{new}")) == (410, "memory_forgotten")
    assert code(await at.client.patch(f"/v1/memories/{new}", json={"topic": "x"})) == (410, "memory_forgotten")
    assert code(await at.client.delete("/v1/memories/mem_x")) == (404, "memory_not_found")
    assert await at.listed(query="富士通のパソコン") == ["猫のコムギが家に来た。"]
    assert "富士通" not in (await at.client.get("/v1/memory/export")).text
    assert "富士通" not in (await at.client.get("/v1/memory/audit")).text
    assert "富士通" not in json.dumps(await at.get("/v1/memories", status="all"), ensure_ascii=False)
    await at.home.worker.idle()
    secrets = ("富士通", "25,000", "二万五千")
    assert files_with(tmp_path, *secrets) == []
    # Neither an older export nor an older backup brings it back.
    done = (await at.client.post("/v1/memory/import", content=exported)).json()
    assert (done["imported"], done["forgotten"], done["already_there"]) == (0, 2, 1)
    await at.home.worker.idle()
    assert files_with(tmp_path, *secrets) == []
    file = tmp_path / "backup.tar"
    await asyncio.to_thread(file.write_bytes, before)
    assert files_with(tmp_path, *secrets) == ["backup.tar"], "it was made before"
    await asyncio.to_thread(file.rename, tmp_path.parent / f"{tmp_path.name}.tar")
    await at.home.worker.close()
    await at.home.databases.close()
    restored = await restore(tmp_path.parent / f"{tmp_path.name}.tar", tmp_path, now=MONDAY)
    assert restored.forgotten_memories == 2
    assert files_with(tmp_path, *secrets) == []


async def test_words_can_stay_in_the_log_when_only_the_memory_goes(at: Live) -> None:
    memory_id = await at.id_of("コムギ")
    response = await at.client.delete(f"/v1/memories/{memory_id}", params={"also_source": False})
    assert response.json() == {"forgotten": [memory_id], "blanked_turns": 0, "still_found": []}
    async with at.home.databases.world(write=False) as db:
        assert CAT in {said.text for said in await memory_browse.exact_words(db, range(1, 20))}
    assert (await at.get("/v1/memories", query="コムギ"))["not_yet_taken_in"] == []


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
