"""The owner looks at memory over HTTP, searches, edits and forgets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from server.memory.recall import CANDIDATES_LIMIT
from server.storage import jobs, memory_browse
from server.storage.restoring import restore
from tests.api.memory_over_http import CAT, CORRECTED, EVERY, Live, live
from tests.devices.conftest import code
from tests.memory.making import MONDAY, WordVectors
from tests.memory.said_and_noted import BOUGHT, files_with

pytestmark = pytest.mark.integration


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
    ({"limit": CANDIDATES_LIMIT + 1}, "body_invalid"),
    ({"query": "猫", "limit": CANDIDATES_LIMIT + 1}, "body_invalid"),
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
        for params in ({}, {"query": "猫"}):
            assert (await made.client.get("/v1/memories", params={"limit": CANDIDATES_LIMIT} | params)).is_success


async def test_a_forgotten_memory_is_nowhere_any_more(at: Live, tmp_path: Path) -> None:
    before = (await at.client.get("/v1/backup")).content
    exported = (await at.client.get("/v1/memory/export")).content
    new, old = await at.id_of("25,000"), await at.id_of("30,000")
    would = await at.get(f"/v1/memories/{new}/forgetting")
    assert [one["memory_id"] for one in would["memories"]] == [new, old]
    assert (would["blanked_turns"], would["said"][0]["text"]) == (2, BOUGHT)
    assert (await at.get(f"/v1/memories/{new}/forgetting", also_source="false"))["said"] == []
    assert code(await at.client.get("/v1/memories/mem_x/forgetting")) == (404, "memory_not_found")
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
