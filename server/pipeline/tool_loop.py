"""One loop for tools: ask the model, run what it calls, give it the result, until it answers.

Engines hide whether a call came natively or through a decision grammar. Results go back as tool messages marked as
data. Knows no tool by name; bounded in rounds, calls and time: in the last round no tool is offered, so the model has
to answer. A tool that fails is never the end of a turn: its result says so, and the model answers without it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from server.context.prompts import json_text, tool_result_message
from server.engines.base import LlmMessage, LlmToolCall, ToolSpec
from server.errors import EngineError, StackChanError, StorageError
from server.log_context import error_fields
from server.pipeline.bounded import bounded
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)

TOOL_TIMEOUT_SECONDS = 5.0
"""One call of a tool. Part of the model's own time-out; a search takes tens of milliseconds."""
_CALLS_A_ROUND = 8
_RESULT_CHARACTERS = 16_000
UNREACHABLE = "this cannot be reached right now; answer without it and say so"


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


Ask = Callable[[Sequence[LlmMessage], Sequence[ToolSpec]], Awaitable[Sequence[LlmToolCall]]]
"""Asks the model, after these calls and results, offering these tools: what it calls, nothing when it has answered."""


class ToolLoop:
    """Drives one answer. `runs`: the calls so far, in order."""

    def __init__(self, tools: Sequence[Tool], max_rounds: int, trace: TurnTrace) -> None:
        self.runs: list[ToolRun] = []
        self._tools = {tool.spec.name: tool for tool in tools}
        self._max_rounds = max_rounds
        self._trace = trace

    async def run(self, ask: Ask) -> None:
        """Ask until the model has answered. Raises what `ask` raises."""
        said: tuple[LlmMessage, ...] = ()
        for round_number in range(self._max_rounds + 1):
            last = round_number == self._max_rounds
            calls = await ask(said, () if last else tuple(tool.spec for tool in self._tools.values()))
            if not calls:
                return
            for call in calls[:_CALLS_A_ROUND]:
                run = await self._run_tool(call)
                self.runs.append(run)
                if "error" in run.result:
                    self._trace.facts["tool_errors"] = self._trace.facts.get("tool_errors", 0) + 1
                said = (
                    *said,
                    LlmMessage("assistant", "", tool_calls=(call,)),
                    tool_result_message(call, json_text(dict(run.result))),
                )

    async def _run_tool(self, call: LlmToolCall) -> ToolRun:
        tool = self._tools.get(call.name)
        if not isinstance(call.arguments, Mapping):
            return ToolRun(call.name, {}, {"error": "the arguments must be an object"})
        if tool is None:
            known = ", ".join(self._tools)
            return ToolRun(call.name, call.arguments, {"error": f"no such tool; there are: {known}"})
        with self._trace.span("tool"):
            try:
                return ToolRun(call.name, call.arguments, await bounded(_checked_run(tool, call), TOOL_TIMEOUT_SECONDS))
            except (EngineError, StorageError) as error:  # what the tool needs has failed
                _log.error("tool %s failed: %s", call.name, error.code, extra=error_fields(error))
            except StackChanError as error:  # the model can do better
                _log.info("tool %s refused its arguments: %s", call.name, error.code)
                return ToolRun(call.name, call.arguments, {"error": error.message})
            except TimeoutError:
                _log.error("tool %s took longer than %g s", call.name, TOOL_TIMEOUT_SECONDS)
            except Exception as error:
                _log.error("tool %s: a defect", call.name, exc_info=error)
        return ToolRun(call.name, call.arguments, {"error": UNREACHABLE})


async def _checked_run(tool: Tool, call: LlmToolCall) -> Mapping[str, Any]:
    """The result as JSON-able data of a size that a prompt can take; anything else is the tool's defect."""
    result = dict(await tool.run(call.arguments))
    size = len(json_text(result))
    if size > _RESULT_CHARACTERS:
        raise ValueError(f"the result has {size} characters")
    return result
