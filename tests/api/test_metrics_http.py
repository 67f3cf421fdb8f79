"""`/metrics` asked over a socket, after turns and requests whose figures are known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from server.engines.base import LlmDone, LlmText, LlmToolCall
from server.errors import LlmError, TtsError
from server.storage import devices, tokens
from tests.devices.conftest import code, first_turn
from tests.fakes.engines import FakeLlm, FakeTts, answer, loud, silence

pytestmark = pytest.mark.integration

SECRET = "ひみつの合言葉"


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


async def scrape(live: Any, **headers: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    response = await live.client.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    return samples_of(response.text)


def sample(found: Mapping[Any, float], name: str, **labels: str) -> float:
    return found[(f"stackchan_{name}", tuple(sorted(labels.items())))]


async def test_a_scrape_tells_the_turns_that_were(serve: Any) -> None:
    call: list[Any] = [LlmToolCall("search_memory", {"query": SECRET}), LlmDone("tool_calls", 100, 90, 20)]
    plain: list[Any] = [LlmText(SECRET), LlmDone("stop", 100, 90, 20)]
    llm = FakeLlm([answer(), call, answer(), [LlmError(SECRET, code="llm_rate_limited")], plain])
    async with serve(llm=llm) as live:
        for session in ("one", "two"):  # in the second there is something to search for
            said = await live.client.post("/v1/turns", json={"text": SECRET}, headers={"Session-Id": session})
            assert said.json()["outcome"] == "ok"
        assert (await live.client.post("/v1/turns", json={"text": SECRET})).status_code == 200
        sound = {"Content-Type": "audio/pcm;rate=16000"}
        for samples in (loud(0.5), silence(0.5)):
            body = (samples * 32767).astype("<i2").tobytes()
            assert (await live.client.post("/v1/turns", content=body, headers=sound)).status_code == 200
        found = await scrape(live)
        text = (await live.client.get("/metrics")).text

    turns = sum(number for (name, _), number in found.items() if name == "stackchan_turns_total")
    assert turns == 5
    assert sample(found, "turns_total", outcome="no_speech", input="audio") == 1
    assert sample(found, "turns_total", outcome="ok", input="audio") == 1
    assert sample(found, "llm_calls_total") >= 4
    assert sample(found, "llm_tokens_total", kind="prompt") == 100 * (sample(found, "llm_calls_total") - 1), (
        "one failed"
    )
    assert sample(found, "tool_calls_total", tool="search_memory", result="ok") == 1
    assert sample(found, "turn_seconds_count") == 5
    assert sample(found, "stage_seconds_count", stage="asr") == 1
    assert sample(found, "time_to_first_audio_seconds_count") == 4
    assert sample(found, "ready") == 1
    assert sample(found, "turns_running") == 0
    assert sample(found, "turns_queued") == 0
    assert sample(found, "http_answers_total", route="/v1/turns", method="POST", status="200") == 5
    assert any(name == "process_open_fds" for name, _ in found)
    assert [labels for name, labels in found if name == "stackchan_build_info"]
    for word in (SECRET, "desk", "owner-token", str(live.app.state.boot_token), "data"):
        assert word not in text.replace("generation", "")


async def test_a_failed_turn_is_counted_with_its_code(serve: Any) -> None:
    async with serve(llm=FakeLlm([[LlmError(SECRET, code="llm_unauthorized")]]), tts=FakeTts(TtsError("x"))) as live:
        failed = await live.client.post("/v1/turns", json={"text": "hi"})
        found = await scrape(live)

    assert failed.json()["outcome"] == "failed"
    assert sample(found, "turns_total", outcome="failed", input="text") == 1
    assert sample(found, "turn_errors_total", code="llm_unauthorized") == 1
    assert sample(found, "speech_seconds_count") == 0


async def test_a_turn_in_progress_is_seen(serve: Any) -> None:
    go_on = asyncio.Event()
    async with serve(llm=FakeLlm([[go_on, *answer()]])) as live:
        turn = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}))
        await first_turn(live)
        running = sample(await scrape(live), "turns_running")
        go_on.set()
        await turn
        assert (running, sample(await scrape(live), "turns_running")) == (1, 0)


async def test_answers_are_counted_by_the_route_and_never_by_the_path(serve: Any) -> None:
    async with serve() as live:
        for path in ("/v1/turns/1", "/v1/turns/2", "/v1/turns/2/trace", f"/{SECRET}", "/", "/a/b/c", "/healthz"):
            await live.client.get(path)
        await live.client.request("BREW", "/healthz")
        await live.client.put("/v1/turns")
        found = await scrape(live)

    labels = {labels for name, labels in found if name == "stackchan_http_answers_total"}
    counted = {tuple(dict(each).values()): found[("stackchan_http_answers_total", each)] for each in labels}
    assert counted == {
        ("GET", "/v1/turns/{turn_id}", "404"): 2,
        ("GET", "/v1/turns/{turn_id}/trace", "404"): 1,
        ("GET", "page", "404"): 2,
        ("GET", "page", "200"): 1,
        ("GET", "/healthz", "200"): 1,
        ("other", "page", "405"): 1,
        ("PUT", "page", "405"): 1,
    }


async def test_a_defect_counts_as_500(serve: Any) -> None:
    async with serve() as live:

        def broken() -> None:
            raise RuntimeError(SECRET)

        live.app.state.turn_service = broken
        assert (await live.client.get("/v1/turns/1")).status_code == 500
        found = await scrape(live)
    assert sample(found, "http_answers_total", route="/v1/turns/{turn_id}", method="GET", status="500") == 1


async def test_the_form_follows_what_the_reader_accepts(serve: Any) -> None:
    async with serve() as live:
        plain = await live.client.get("/metrics", headers={"Accept": "*/*"})
        open_metrics = await live.client.get(
            "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        )
        assert (await live.client.head("/metrics")).headers["content-type"] == plain.headers["content-type"]
        odd = await live.client.get("/metrics", headers={"Accept": ";;,=\x7f,application/nonsense"})

    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert open_metrics.text.endswith("# EOF\n")
    assert "stackchan_turns" in {family.name for family in parse_openmetrics(open_metrics.text)}
    assert odd.headers["content-type"] == plain.headers["content-type"]
    assert plain.headers["cache-control"] == "no-store"


async def test_only_the_owner_reads_it(serve: Any) -> None:
    async with serve() as live:
        boot = {"Authorization": f"Bearer {live.app.state.boot_token}"}
        assert (await live.client.get("/metrics", headers=boot)).status_code == 200
        wrong = await live.client.get("/metrics", headers={"Authorization": "Bearer not-this-one"})
        assert code(wrong) == (401, "token_invalid")
        async with httpx2.AsyncClient(base_url=live.url) as stranger:
            assert code(await stranger.get("/metrics")) == (401, "token_missing")
        async with live.app.state.service.journal._databases.server() as db:
            await devices.ensure_device(db, "desk", now=datetime.now(UTC))
            token = await tokens.create_token(db, kind="device", device_id="desk", now=datetime.now(UTC))
        refused = await live.client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert code(refused) == (403, "device_forbidden")


async def test_the_process_is_seen_before_a_turn_can_be_taken(serve: Any) -> None:
    go_on = asyncio.Event()

    class SlowLlm(FakeLlm):
        async def start(self) -> None:
            await go_on.wait()

    async with serve(llm=SlowLlm(), wait=False) as live:
        found = await scrape(live)
        go_on.set()
        await asyncio.wait_for(live.app.state.readiness.wait(), 60)
        later = await scrape(live)
    assert (sample(found, "ready"), sample(later, "ready")) == (0, 1)
    assert any(name == "process_resident_memory_bytes" for name, _ in found)


async def test_a_token_that_cannot_be_checked_yet_is_told_to_wait(serve: Any) -> None:
    go_on = asyncio.Event()

    class SlowLlm(FakeLlm):
        async def start(self) -> None:
            await go_on.wait()

    async with serve(llm=SlowLlm(), wait=False, env={"STACKCHAN_TOKEN": ""}) as live:
        early = await live.client.get("/metrics")
        boot = {"Authorization": f"Bearer {live.app.state.boot_token}"}
        assert (await live.client.get("/metrics", headers=boot)).status_code == 200
        go_on.set()
        await asyncio.wait_for(live.app.state.readiness.wait(), 60)
        token = live.app.state.new_owner_token
        owner = await live.client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert code(early) == (503, "starting")
    assert owner.status_code == 200
