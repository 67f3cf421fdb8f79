"""The fake chat endpoint keeps its own promises: what it plays, what it records, what it lets go of."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tests.fakes.chat_server import call_tools_in_pieces, cut, fail, hold, never, reset, running_chat_server, say

pytestmark = pytest.mark.integration

BODY = {"model": "m", "messages": [{"role": "user", "content": "やあ😀"}], "stream": True}


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


async def ask(chat, **changes):
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
        return await client.post(f"{chat.url}/chat/completions", json=BODY | changes)


def events(answer):
    return [line.removeprefix("data: ") for line in answer.text.split("\n") if line]


async def test_it_streams_what_it_says_and_records_what_it_was_asked(chat):
    chat.play(say("こんにちは、世界", step=3))
    answer = await ask(chat)
    *chunks, done = events(answer)
    pieces = [choice["delta"].get("content") for chunk in map(json.loads, chunks) for choice in chunk["choices"]]
    assert [piece for piece in pieces if piece] == ["こんに", "ちは、", "世界"]
    assert done == "[DONE]"
    assert chat.completions[0].json["messages"][0]["content"] == "やあ😀"
    await chat.until_idle()


async def test_each_request_gets_the_next_behaviour_and_the_last_repeats(chat):
    chat.play(fail(429, retry_after="7"), say("はい"))
    answers = [await ask(chat) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 200, 200]
    assert answers[0].headers["retry-after"] == "7"


async def test_interleaved_fragments_name_a_call_only_once(chat):
    chat.play(call_tools_in_pieces(("a", {"x": 1}), ("b", {"y": "長い引数"})))
    calls = [
        call
        for event in events(await ask(chat))[:-1]
        for choice in json.loads(event)["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]
    assert [call["function"].get("name") for call in calls if "id" in call] == ["a", "b"]
    for index, arguments in ((0, '{"x": 1}'), (1, '{"y": "長い引数"}')):
        assert "".join(call["function"]["arguments"] for call in calls if call["index"] == index) == arguments


@pytest.mark.parametrize("behaviour", [cut("途中まで"), reset("途中まで"), reset()])
async def test_a_broken_stream_is_a_transport_error(chat, behaviour):
    chat.play(behaviour)
    with pytest.raises(httpx2.TransportError):
        await ask(chat)
    await chat.until_idle()


async def test_a_wrong_key_is_refused_and_repeated(chat):
    chat.key = "right"
    answer = await ask(chat)
    assert answer.status_code == 401
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer wrong"}, trust_env=False) as client:
        assert "wrong" in (await client.get(f"{chat.url}/models")).text


async def test_a_refused_field_is_named(chat):
    chat.refused_fields = {"stream"}
    answer = await ask(chat)
    assert (answer.status_code, "stream" in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize("behaviour", [hold("はい"), never()])
async def test_a_client_that_leaves_ends_what_waits(chat, behaviour):
    chat.play(behaviour)
    asking = asyncio.create_task(ask(chat))
    await chat.until_asked()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await chat.until_idle()


async def test_released_streams_go_on_to_their_end(chat):
    chat.play(hold("はい"))
    asking = asyncio.create_task(ask(chat))
    await chat.until_asked()
    chat.release()
    assert events(await asking)[-1] == "[DONE]"
