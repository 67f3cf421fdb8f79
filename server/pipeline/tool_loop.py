"""One loop for tools: ask the model, run what it calls, give it the result, until it answers.

Engines hide whether a call came natively or through a decision grammar. Results go back as user-role messages marked
as data. Knows no tool by name; bounded in rounds: in the last one no tool is offered, so the model has to answer.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from server.context.prompts import json_text, tool_result_message
from server.engines.base import LlmDone, LlmEngine, LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.errors import StackChanError

_log = logging.getLogger(__name__)


class Tool(Protocol):
    """Something the model may call during a turn."""

    spec: ToolSpec

    async def run(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result as JSON-able data. Raises `StackChanError` for arguments the model can repair."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A finished call, as it is stored with the robot's source turn."""

    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]


LoopDelta = LlmText | ToolRun | LlmDone


class ToolLoop:
    """Drives one answer of one model."""

    def __init__(self, llm: LlmEngine, tools: Sequence[Tool], max_rounds: int) -> None:
        self._llm = llm
        self._tools = {tool.spec.name: tool for tool in tools[: llm.capabilities.max_tools]}
        self._max_rounds = max_rounds

    async def run(self, request: LlmRequest) -> AsyncGenerator[LoopDelta, None]:
        """Stream the answer's text. One `LlmDone` follows for every model call, so that calls and tokens are counted.

        Raises `LlmError`.
        """
        messages = request.messages
        for round_number in range(self._max_rounds + 1):
            last = round_number == self._max_rounds
            offered = () if last else tuple(tool.spec for tool in self._tools.values())
            calls: list[LlmToolCall] = []
            deltas = self._llm.generate(replace(request, messages=messages, tools=offered))
            async with aclosing(deltas) as stream:
                async for delta in stream:
                    if isinstance(delta, LlmToolCall):
                        calls.append(delta)
                    else:
                        yield delta
            if not calls:
                return
            for call in calls:
                run = await self._run_tool(call)
                yield run
                messages = (
                    *messages,
                    LlmMessage("assistant", "", tool_calls=(call,)),
                    tool_result_message(call, json_text(dict(run.result))),
                )

    async def _run_tool(self, call: LlmToolCall) -> ToolRun:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools)
            return ToolRun(call.name, call.arguments, {"error": f"no such tool; there are: {known}"})
        try:
            return ToolRun(call.name, call.arguments, await tool.run(call.arguments))
        except StackChanError as error:
            _log.info("tool %s refused its arguments: %s", call.name, error.code)
            return ToolRun(call.name, call.arguments, {"error": error.message})
