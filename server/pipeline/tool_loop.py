"""One loop for tools: ask the model, run what it calls, give it the result, until it answers.

Engines hide whether a call came natively or through a decision grammar. Results go back as tool messages marked as
data. Knows no tool by name; bounded in rounds, calls and time: in the last round no tool is offered, so the model has
to answer. A tool that fails is never the end of a turn: its result says so, and the model answers without it. Which
calls a turn allows is the matter of `tool_rules.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from server.context.prompts import json_text, tool_result_message
from server.context.quoting import without_marks
from server.engines.base import LlmMessage, LlmToolCall, ToolSpec
from server.errors import EngineError, StackChanError, StorageError
from server.log_context import error_fields
from server.memory.asking import Asker
from server.pipeline.bounded import bounded
from server.pipeline.short_ids import ShortIds
from server.pipeline.tool_results import FORGET, LOOK_UPS, MEMORY_TOOLS, READ_SOURCE, SEARCH, is_error
from server.pipeline.tool_rules import ToolRules
from server.pipeline.trace import TurnTrace
from server.storage.types import clean_json, clean_text

_log = logging.getLogger(__name__)

TOOL_TIMEOUT_SECONDS = 5.0
"""One call of a tool. Part of the model's own time-out; a search takes tens of milliseconds."""
_OFFER_SECONDS = 0.25
_CALLS_A_ROUND = 8
_RESULT_CHARACTERS = 16_000
_ARGUMENT_CHARACTERS = 4_000
_DEEPEST = 32
_NAME_CHARACTERS = 64
_NO_NAME = re.compile(r"[^\w.-]")
_ID_CHARACTERS = 256
UNREACHABLE = "this cannot be reached right now; answer without it and say so"


class Tool(Protocol):
    """Something the model may call during a turn."""

    spec: ToolSpec

    async def offer(self, asker: Asker) -> float | None:
        """None: a call in this turn would be of no use, and the tool is not offered. Asked once a turn.

        Else what is added to `spec.prior`: how much likelier than else a call is, as far as is known without a model.
        """

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
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
    """Drives one answer. `runs`: the calls so far, in order.

    `search_seconds`: for all that is looked up, together. `earlier`: what the user said in the turns before. `small`:
    the model reads and writes slowly and likes to do a thing twice; it gets short ids, and each tool of memory once.
    `foreseen`: what was offered in a first call that was begun early, a moment ago and for the same words. It comes
    first without asking again, and stands where a tool comes too late after a call. None: there was none.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        max_rounds: int,
        trace: TurnTrace,
        asker: Asker,
        *,
        search_seconds: float = TOOL_TIMEOUT_SECONDS,
        earlier: Sequence[str] = (),
        small: bool = False,
        foreseen: Sequence[ToolSpec] | None = None,
    ) -> None:
        self.runs: list[ToolRun] = []
        self.on_request: tuple[ToolSpec, ...] = ()
        """Tools that the words of this turn ask for; known when tools were offered."""
        self._small = small
        self._ids = ShortIds()
        self._tools = {tool.spec.name: tool for tool in tools}
        self._max_rounds = max_rounds
        self._trace = trace
        self._asker = asker
        self._search_seconds_left = search_seconds
        self._rules = ToolRules(asker.words, earlier)
        self._foreseen = None if foreseen is None else {spec.name: spec for spec in foreseen}
        self._all_told = True

    async def run(self, ask: Ask) -> None:
        """Ask until the model has answered. Raises what `ask` raises."""
        said: tuple[LlmMessage, ...] = ()
        tools = None if self._foreseen is not None else await self._specs()
        for round_number in range(self._max_rounds + 1):
            last = round_number == self._max_rounds
            if last:
                offered: tuple[ToolSpec, ...] = ()
            elif tools is None:
                offered = self._foreseen_offer()
            else:
                offered = self._offered(tools)
            calls = await ask(said, offered)
            if not calls:
                return
            done: list[ToolRun] = []
            for call in calls[:_CALLS_A_ROUND]:
                call, refusal = _sound(call)
                meant = replace(call, arguments=self._ids.lengthened(call.arguments)) if self._small else call
                run = await self._run_tool(meant) if refusal is None else ToolRun(call.name, {}, {"error": refusal})
                self.runs.append(run)
                done.append(run)
                if is_error(run.result):
                    self._trace.facts["tool_errors"] = self._trace.facts.get("tool_errors", 0) + 1
                result = dict(run.result)
                said = (
                    *said,
                    LlmMessage("assistant", "", tool_calls=(call,)),
                    tool_result_message(call, json_text(self._ids.shortened(result) if self._small else result)),
                )
            for run in done:
                self._rules.read(run.name, run.result)
            if tools is None:
                tools = await self._specs()

    async def first_offer(self) -> tuple[ToolSpec, ...] | None:
        """The tools that `run` will offer first; None: of one it could not be told, and `run` may offer others."""
        tools = await self._specs()
        if not self._all_told:
            return None
        return self._offered(tools) if self._max_rounds else ()

    def _foreseen_offer(self) -> tuple[ToolSpec, ...]:
        assert self._foreseen is not None
        specs = tuple(self._foreseen.values())
        self.on_request = tuple(spec for spec in specs if spec.on_request)
        return specs

    async def _specs(self) -> list[ToolSpec]:
        # At once: somebody waits for the answer, and most of them ask a database.
        told = await asyncio.gather(*(self._spec(tool) for tool in self._tools.values()))
        specs = [spec for spec in told if spec is not None]
        self.on_request = tuple(spec for spec in specs if spec.on_request)
        return specs

    async def _spec(self, tool: Tool) -> ToolSpec | None:
        """The tool as it is offered in this turn, if it is. One that cannot tell is: its own failure says more."""
        prior: float | None = 0.0
        try:
            prior = await bounded(tool.offer(self._asker), _OFFER_SECONDS)
        except TimeoutError:
            self._all_told = False
            _log.warning("whether %s is of use came too late", tool.spec.name)
            if self._foreseen is not None and tool.spec.name != READ_SOURCE:  # offered first to a capable model only
                return self._foreseen.get(tool.spec.name)
        except Exception as error:
            self._all_told = False
            _log.error("whether %s is of use could not be told", tool.spec.name, exc_info=error)
        return None if prior is None else replace(tool.spec, prior=tool.spec.prior + prior)

    def _offered(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """What may be called now. A source is read when something was found; a capable model is told of that tool from
        the beginning, for tools stand before the conversation, which it would have to read again."""
        called = {run.name for run in self.runs if _is_done(run.result)} & MEMORY_TOOLS if self._small else set()
        if FORGET in called:
            return ()  # what is left is to say so, or to ask which is meant; a small model would tell it once more
        if self.on_request:
            return () if self.runs else self.on_request
        reads = bool(self._rules.found_ids) or (not self._small and any(spec.name == SEARCH for spec in tools))
        offered: list[ToolSpec] = []
        for spec in tools:
            if spec.name in called or (spec.name == READ_SOURCE and not reads):
                continue
            if self._small and spec.name == READ_SOURCE:
                spec = _with_ids(spec, [self._ids.short(one) for one in self._rules.found_ids])
            offered.append(spec)
        return tuple(offered)

    async def _run_tool(self, call: LlmToolCall) -> ToolRun:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools)
            return ToolRun(call.name, call.arguments, {"error": f"no such tool; there are: {known}"})
        if (refusal := self._rules.refusal(call.name, call.arguments)) is not None:
            self._trace.facts["tool_refusals"] = self._trace.facts.get("tool_refusals", 0) + 1
            _log.warning("a call of %s was refused: %s", call.name, refusal)
            return ToolRun(call.name, call.arguments, {"error": refusal})
        with self._trace.span("tool"), self._limited(call.name) as seconds:
            try:
                if seconds <= 0:
                    raise TimeoutError
                result = await bounded(_checked_run(tool, call, self._asker), seconds)
                return ToolRun(call.name, call.arguments, result)
            except (EngineError, StorageError) as error:  # what the tool needs has failed
                _log.error("tool %s failed: %s", call.name, error.code, extra=error_fields(error))
            except StackChanError as error:  # the model can do better
                _log.info("tool %s refused its arguments: %s", call.name, error.code)
                return ToolRun(call.name, call.arguments, {"error": clean_text(str(error.message))})
            except TimeoutError:
                _log.error("tool %s took longer than the %g s that were left for it", call.name, seconds)
            except Exception as error:
                _log.error("tool %s: a defect", call.name, exc_info=error)
        return ToolRun(call.name, call.arguments, {"error": UNREACHABLE})

    @contextmanager
    def _limited(self, name: str) -> Iterator[float]:
        """How long a call may take. What looks something up draws on the time of all that do."""
        if name not in LOOK_UPS:
            yield TOOL_TIMEOUT_SECONDS
            return
        now = asyncio.get_running_loop().time
        began = now()
        try:
            yield min(TOOL_TIMEOUT_SECONDS, max(0.0, self._search_seconds_left))
        finally:
            self._search_seconds_left -= now() - began


async def _checked_run(tool: Tool, call: LlmToolCall, asker: Asker) -> Mapping[str, Any]:
    """The result as JSON-able data of a size that a prompt can take; anything else is the tool's defect."""
    result = _plain(dict(await tool.run(call.arguments, asker)), _RESULT_CHARACTERS)
    if result is None:
        raise ValueError(f"the result is no JSON, or has more than {_RESULT_CHARACTERS} characters")
    return result


def _is_done(result: Mapping[str, Any]) -> bool:
    """Whether calling again with other arguments would give no more."""
    return not is_error(result) or result.get("error") == UNREACHABLE


def _with_ids(spec: ToolSpec, ids: Sequence[str]) -> ToolSpec:
    """A tool whose `memory_id` can only be one of these."""
    properties = {**spec.parameters["properties"], "memory_id": {"type": "string", "enum": list(ids)}}
    return replace(spec, parameters={**spec.parameters, "properties": properties})


def _sound(call: LlmToolCall) -> tuple[LlmToolCall, str | None]:
    """A call as it can be stored and shown to the model again, and what is wrong with its arguments."""
    name = _NO_NAME.sub("_", clean_text(call.name)[:_NAME_CHARACTERS]) if isinstance(call.name, str) else ""
    call_id = clean_text(call.call_id)[:_ID_CHARACTERS] if isinstance(call.call_id, str) else ""
    call = replace(call, name=name or "unnamed", call_id=call_id)
    if not isinstance(call.arguments, Mapping):
        return replace(call, arguments={}), "the arguments must be an object"
    plain = _plain(call.arguments, _ARGUMENT_CHARACTERS)
    if plain is None:
        return replace(call, arguments={}), f"the arguments must be JSON of at most {_ARGUMENT_CHARACTERS} characters"
    # The model sees its call again, and what it wrote may come from a memory.
    harmless: dict[str, Any] = json.loads(without_marks(json.dumps(plain, ensure_ascii=False)))
    return replace(call, arguments=harmless), None


def _plain(value: Mapping[str, Any], characters: int) -> dict[str, Any] | None:
    """A JSON object of texts, numbers, lists and objects only; None when it is none, too large or too deep."""
    try:
        written = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
        if len(written) > characters:
            return None
        plain: dict[str, Any] = json.loads(written)
    except (TypeError, ValueError, RecursionError):
        return None
    return clean_json(plain) if _depth(plain) <= _DEEPEST else None


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict | list):
                inner += item.values() if isinstance(item, dict) else item
        level = inner
    return depth
