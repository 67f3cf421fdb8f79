"""A whole server over HTTP that remembers: said in one conversation, found in the next, forgotten when asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from server.engines.base import LlmCapabilities, LlmDelta, LlmDone, LlmRequest, LlmText, LlmToolCall
from server.memory.tools import TOOL_NAMES
from server.storage import memory_lookup
from tests.devices.conftest import LiveServer, code
from tests.devices.conftest import serve as serve
from tests.fakes.engines import FakeAsr, FakeLlm, loud
from tests.memory.making import WordVectors, note

pytestmark = pytest.mark.integration

PC = "富士通のパソコンを三万円で買った。"
BOUGHT = "富士通のパソコンを三万円で買ったよ"
LARGE = LlmCapabilities(native_tools=True, max_tools=8, streams=True, context_tokens=100_000, wants_examples=False)


class Model(FakeLlm):
    """Answers by rules: `calls`: what it calls for words of a user; of a transcript it makes one memory."""

    def __init__(self, capabilities: LlmCapabilities = LARGE) -> None:
        super().__init__()
        self.capabilities = capabilities
        self.calls: dict[str, LlmToolCall] = {}
        self.offered: list[tuple[str, ...]] = []

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        self.requests.append(request)
        last = request.messages[-1]
        if "memories" in json.dumps(request.answer_schema or {}):
            yield LlmText(json.dumps({"memories": [note(PC, "富士通", "パソコン")]}, ensure_ascii=False))
            yield LlmDone("stop")
            return
        self.offered.append(tuple(tool.name for tool in request.tools if tool.name in TOOL_NAMES))
        call = self.calls.get(last.content) if last.role == "user" else None
        if call is not None:
            yield call
            yield LlmDone("tool_calls")
            return
        reply = "うん、わかったよ。"
        if last.role == "tool":
            known = PC in last.content or '"forgotten":1' in last.content
            reply = "富士通のパソコンのことだね。" if known else "覚えていないよ。"
        yield LlmText(json.dumps({"emotion": "happy", "action": "nod", "reply": reply}, ensure_ascii=False))
        yield LlmDone("stop")

    @property
    def results(self) -> list[str]:
        return [one.messages[-1].content for one in self.requests if one.messages[-1].role == "tool"]


async def say(live: LiveServer, text: str, session: str) -> dict[str, Any]:
    response = await live.client.post("/v1/turns", json={"text": text}, headers={"Session-Id": session})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer["outcome"] == "ok", answer
    return answer


async def remember_the_pc(live: LiveServer) -> None:
    """Said in a session that ends when the next one begins."""
    await say(live, BOUGHT, "first")
    await say(live, "おはよう", "second")
    await live.app.state.memory.worker.idle()


async def test_what_was_said_in_one_conversation_is_found_in_the_next(serve: Callable[..., Any]) -> None:
    model = Model()
    model.calls["あのパソコン、いくらだった？"] = LlmToolCall("search_memory", {"query": "パソコン いくら"}, "1")
    async with serve(llm=model, embedding=WordVectors()) as live:
        await remember_the_pc(live)
        answer = await say(live, "あのパソコン、いくらだった？", "third")
        (result,) = model.results
        assert PC in result
        assert answer["memory"]["searched"] is True
        (memory_id,) = answer["memory"]["memory_ids"]
        assert memory_id in result
        search, read, _ = TOOL_NAMES
        assert model.offered[0] == (), "the first words ever: there is nothing to find"
        assert model.offered[-2:] == [(search, read)] * 2, "a capable model is told of the source from the beginning"
        status = (await live.client.get("/v1/memory/status")).json()
        assert (status["memories"]["active"], status["searches"], status["index"]["problem"]) == (1, 1, None)
        metrics = (await live.client.get("/metrics")).text
        for line in (
            'stackchan_memory_searches_total{outcome="found"} 1.0',
            'stackchan_memories{status="active"} 1.0',
            "stackchan_memory_index_problem 0.0",
        ):
            assert line in metrics
    async with serve(llm=model, embedding=WordVectors()) as live:
        again = await say(live, "あのパソコン、いくらだった？", "fourth")
        assert again["memory"]["memory_ids"] == [memory_id], "after a restart"


async def test_forgetting_in_a_turn_leaves_neither_the_memory_nor_the_request(serve: Callable[..., Any]) -> None:
    model = Model()
    asked = "富士通のパソコンのことは忘れて"
    model.calls[asked] = LlmToolCall("forget_memory", {"query": "富士通のパソコン"}, "1")
    model.calls["あのパソコン、いくらだった？"] = LlmToolCall("search_memory", {"query": "パソコン いくら"}, "2")
    async with serve(llm=model, embedding=WordVectors()) as live:
        await remember_the_pc(live)
        answer = await say(live, asked, "third")
        assert answer["reply"] == "富士通のパソコンのことだね。", "the device has its answer"
        assert '"forgotten":1' in model.results[0]
        memory = live.app.state.memory
        stored: dict[str, Any] = {}
        for _ in range(500):
            stored = (await live.client.get(f"/v1/turns/{answer['turn_id']}")).json()
            if not stored["reply"]:
                break
            await asyncio.sleep(0.01)
        assert (stored["transcript"], stored["reply"]) == ("", "")
        await memory.worker.idle()
        later = await say(live, "あのパソコン、いくらだった？", "fourth")
        assert later["memory"]["memory_ids"] == []
        assert "nothing found" in model.results[-1]
        assert (await live.client.get("/v1/memories", params={"query": "富士通"})).json()["memories"] == []
        data: Path = live.app.state.service.speech._folder.parent
    world = data / "worlds" / "home" / "session.sqlite"
    assert "富士通".encode() not in world.read_bytes()


async def test_a_small_model_is_offered_the_search_and_its_prompt_is_read_with_it(serve: Callable[..., Any]) -> None:
    model = Model(FakeLlm.capabilities)
    model.calls["あのパソコン、いくらだった？"] = LlmToolCall("search_memory", {"query": "パソコン いくら"})
    async with serve(llm=model, embedding=WordVectors()) as live:
        await remember_the_pc(live)
        answer = await say(live, "あのパソコン、いくらだった？", "third")
        assert "search_memory" in model.offered[-2]
        assert any('"tool":"search_memory"' in message.content for message in model.warmed)
        assert len(answer["memory"]["memory_ids"]) == 1
        assert "retrieval_score" not in model.results[0], "little for a model that reads slowly"


async def test_names_from_memory_are_listened_for(serve: Callable[..., Any]) -> None:
    asr = FakeAsr()
    async with serve(llm=Model(), asr=asr, embedding=WordVectors()) as live:
        await remember_the_pc(live)
        await say(live, "パソコンの話をしよう", "third")
        body = (loud(0.5) * 32767).astype("<i2").tobytes()
        for _ in range(500):
            if live.app.state.memory.hot_words_for("a new one", None):
                break
            await asyncio.sleep(0.01)
        sound = {"Content-Type": "audio/pcm;rate=16000", "Session-Id": "third"}
        assert (await live.client.post("/v1/turns", content=body, headers=sound)).status_code == 200
        assert asr.expected[-1] == ("富士通", "パソコン")


async def test_with_memory_off_nothing_is_made_and_no_tool_is_offered(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    model = Model()
    async with serve(llm=model, embedding=WordVectors(), env={"STACKCHAN_MEMORY__ENABLED": "false"}) as live:
        await say(live, BOUGHT, "first")
        await say(live, "おはよう", "second")
        assert live.app.state.memory is None
        assert set(model.offered) == {()}
        assert len(model.requests) == 2
        assert code(await live.client.get("/v1/memory/status")) == (404, "memory_off")
        assert "stackchan_memory_index_problem 0.0" in (await live.client.get("/metrics")).text
    assert not (tmp_path / "data" / "worlds" / "home" / "index").exists()
    async with serve(llm=model, embedding=WordVectors()) as live:
        await live.app.state.memory.worker.idle()
        async with live.app.state.service.journal._databases.world(write=False) as db:
            assert [one.summary for one in await memory_lookup.page(db)] == [PC], "and nothing was lost by it"


async def test_an_index_that_cannot_be_used_keeps_nobody_from_talking(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    foreign = tmp_path / "data" / "worlds" / "home" / "index"
    foreign.mkdir(parents=True)
    (foreign / "photo.jpg").write_bytes(b"mine")
    async with serve(llm=Model(), embedding=WordVectors()) as live:
        await remember_the_pc(live)
        assert live.app.state.memory.index_problem.code == "index_foreign"
        assert "stackchan_memory_index_problem 1.0" in (await live.client.get("/metrics")).text
        status = (await live.client.get("/v1/memory/status")).json()
        assert (status["memories"]["active"], status["index"]["problem"]["code"]) == (1, "index_foreign")
    assert (foreign / "photo.jpg").read_bytes() == b"mine"
