"""What a model on this machine reads of the next prompt while somebody speaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from server.persona import default_persona_path, load_persona
from server.pipeline.time_tools import GetTime
from tests.fakes.engines import FakeLlm
from tests.pipeline.live_house import House, converse
from tests.pipeline.turns import NOW

pytestmark = pytest.mark.unit


def test_when_somebody_begins_to_speak_the_prompt_is_read_up_to_their_words() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.2)
        assert len(house.engines.llm.ahead) == 1  # type: ignore[attr-defined]
        assert house.engines.llm.requests == []  # type: ignore[attr-defined]
        await house.speak(1.0)
        await house.quiet(2.0)

    llm = FakeLlm()
    converse(script, llm=llm)
    (ahead,), (request,) = llm.ahead, llm.requests
    assert request.messages[:-1] == ahead
    assert request.messages[-1].content == "こんにちは"


@pytest.mark.parametrize(("native", "told"), [(True, ("get_time",)), (False, ())])
def test_a_model_that_is_told_of_tools_before_the_conversation_reads_them_ahead(
    native: bool, told: tuple[str, ...]
) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(2.0)

    llm = FakeLlm()
    llm.capabilities = replace(llm.capabilities, wants_examples=False, native_tools=native, on_this_machine=True)
    persona = load_persona(default_persona_path())
    converse(script, llm=llm, tools=[GetTime(persona, lambda: NOW)])
    (ahead,), (request,) = llm.ahead, llm.requests
    assert (request.messages[:-1], llm.ahead_tools) == (ahead, told)
    assert [tool.name for tool in request.tools] == ["get_time"]


def test_a_busy_model_reads_nothing_ahead_and_one_that_fails_costs_nothing() -> None:
    class Failing(FakeLlm):
        async def read_ahead(self, messages: Any, tools: Any = ()) -> None:
            raise ValueError("a defect")

    async def busy(house: House) -> None:
        house.idle = False
        await say_one_thing(house)

    async def say_one_thing(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(2.0)

    llm = FakeLlm()
    assert [result.outcome for result in converse(busy, llm=llm).results] == ["ok"]
    assert llm.ahead == []
    assert [result.outcome for result in converse(say_one_thing, llm=Failing()).results] == ["ok"]
