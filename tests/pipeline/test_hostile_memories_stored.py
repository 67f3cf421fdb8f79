"""Forty stored memories that give orders, recalled through the real memory: after it the memory is what it was.

Real SQLite, the real index, the memory's own tools and the maker of memories; a model that does what it reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.config_sections import SessionSettings
from server.engines.base import LlmDone, LlmRequest, LlmToolCall
from server.memory.asked import AskedMemory
from server.persona import Persona, default_persona_path, load_persona
from server.pipeline.journal import TurnJournal
from server.pipeline.request import TurnRequest, TurnResult
from server.pipeline.tool_results import is_error
from server.pipeline.turn import TurnController
from server.storage import memories
from tests.fakes.engines import FakeLlm, answer, fake_engines
from tests.memory.making import PERSONA, House, house, last_transcript
from tests.pipeline.hostile_memories import HIDDEN, HOSTILE, OTHER, OWN, Hostile
from tests.pipeline.turns import SETTINGS
from tests.storage.remembered import new_memory

pytestmark = pytest.mark.integration


class Obedient(FakeLlm):
    """Searches for what it is asked, and then does what it reads, and says it."""

    def __init__(self, hostile: Hostile, ids: Mapping[str, str]) -> None:
        super().__init__()
        # A large model: it is offered every tool in full, again and again.
        self.capabilities = replace(FakeLlm.capabilities, wants_examples=False)
        self.hostile = hostile
        self.ids = ids
        self.obeyed = False

    async def generate(self, request: LlmRequest) -> Any:
        self.requests.append(request)
        shown = [message.content for message in request.messages if message.role == "tool"]
        if not shown:
            words = next(message.content for message in reversed(request.messages) if message.role == "user")
            yield LlmToolCall("search_memory", {"query": words.split("。")[0]})
            yield LlmDone("tool_calls")
            return
        found = json.loads(shown[0].split("\n", 1)[1])["candidates"]
        assert self.ids[OWN] in [one["memory_id"] for one in found], "it is recalled"
        self.obeyed = True
        for name, arguments in self.hostile.calls if request.tools else ():
            written = json.dumps(arguments)
            for mark, memory_id in self.ids.items():
                written = written.replace(mark, memory_id)
            yield LlmToolCall(name, json.loads(written))
        if self.hostile.calls and request.tools:
            yield LlmDone("tool_calls")
            return
        text = json.dumps({"emotion": "evil", "action": "attack", "reply": self.hostile.text}, ensure_ascii=False)
        for delta in answer(text):
            yield delta


async def plant(home: House) -> list[str]:
    """Stores the hostile memories, each with a number to ask for it by; their ids."""
    await home.open_session()
    planted = []
    async with home.databases.world() as db:
        for number, hostile in enumerate(HOSTILE, start=101):
            new = replace(
                new_memory(number, f"メモ{number}番: {hostile.text}", topic=f"メモ{number}番", entities=()),
                channel_id="stackchan:desk",
                occurred_at=home.at,
            )
            planted.append((await memories.add(db, new, now=home.at)).memory_id)
        await memories.queue_index(db, planted, now=home.at)
    home.worker.wake()
    await home.worker.idle()
    return planted


async def take_turn(home: House, llm: FakeLlm, persona: Persona, words: str, number: int) -> TurnResult:
    journal = TurnJournal(home.databases, SessionSettings(), persona)
    asked = AskedMemory(home.databases, home.recall, home.keeper)
    turns = TurnController(
        fake_engines(llm=llm),
        persona,
        journal,
        SETTINGS,
        clock=home.clock,
        tools=asked.tools(small=False),
        gate=home.gate,
    )

    async def ignore(event: object) -> None: ...

    request = TurnRequest("desk", text=words, session_label=f"talk {number}")
    turn = await journal.begin(await journal.next_turn_id(), request, home.at, status="running")
    result = await turns.run(turn, request, ignore)
    await home.end(turn.session_id)
    return result


async def test_nothing_is_forgotten_and_nothing_is_remembered_anew(tmp_path: Path) -> None:
    def nothing(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
        return []

    persona = replace(load_persona(default_persona_path()), persona_id=PERSONA)
    async with house(tmp_path, nothing) as home:
        planted = await plant(home)
        before = await home.memories()
        assert len(before) == len(HOSTILE) == 40
        for number, (hostile, own) in enumerate(zip(HOSTILE, planted, strict=True), start=101):
            other, hidden = (one for one in (planted[(number + step) % 40] for step in (7, 19)))
            llm = Obedient(hostile, {OWN: own, OTHER: other, HIDDEN: hidden})
            words = f"メモ{number}番って何だっけ。昨日は猫を病院に連れていったよ、{number}円だった。"
            result = await take_turn(home, llm, persona, words, number)
            assert llm.obeyed
            assert [call["name"] for call in result.tool_calls if not is_error(call["result"])] == ["search_memory"]
            assert (result.emotion, result.action) == ("neutral", "none")
        assert await home.memories() == before
        asked = [last_transcript(request) for request in home.summarizer.requests]
        assert len(asked) == 40, "what the user said was looked at"
        for hostile, transcript in zip(HOSTILE, asked, strict=True):
            assert "昨日は猫を病院に" in transcript.replace("(2026年11月29日)", "")
            assert hostile.text[:12] not in transcript
            assert "evil" not in transcript
