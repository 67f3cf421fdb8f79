"""The model's part of a turn: from the user's words to an answer, its pieces handed on while it is written.

Builds the request, reads the stream, and is the one place that decides whether a model that failed is asked again.
Knows the LLM Protocol and the tool loop; not which model it is, nor what becomes of the pieces.

One time-out covers all thinking of a turn: calls, tools, a second try and the wait before it. When an engine gives a
silent model up is the engine's matter; one that never does (the embedded model) costs the time-out once, and is not
tried again. An error that comes earlier leaves time for that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from server.context.prompts import answer_schema, day_text, prompt_messages, stable_prefix
from server.context.reply_form import numerals_in
from server.context.session_turns import PROMPT_MARGIN_TOKENS, Exchange, choose_exchanges, prompt_tokens
from server.engines.base import LlmDelta, LlmDone, LlmEngine, LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.errors import LlmError
from server.log_context import error_fields
from server.memory.asking import Asker
from server.memory.telling import tells
from server.memory.wishes import wants_to_know
from server.persona import Persona
from server.pipeline.answer import Answer
from server.pipeline.answering import AnswerOut
from server.pipeline.bounded import engine_work
from server.pipeline.device_link import DeviceLink
from server.pipeline.filler import Filler
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, OpenTurn
from server.pipeline.ruled import Ruled, ruled
from server.pipeline.speaking import Pieces
from server.pipeline.speculation import HeldCompletion
from server.pipeline.tool_loop import Tool, ToolLoop, ToolRun
from server.pipeline.tool_results import LOOK_UPS, texts_in
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)
_LOOKED_AT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class RetryRecipe:
    """When a model that failed is asked once more."""

    longest_wait_seconds: float = 2.0
    """An endpoint that wants more is answered with an apology at once: nobody waits longer in a conversation."""
    usual_wait_seconds: float = 0.25
    """When the endpoint names no time."""
    least_rest_seconds: float = 1.0
    """What must be left of the time-out after the wait."""
    second_temperature: float = 0.7
    """For an answer without words: the same dice would fall the same way."""


RECIPE = RetryRecipe()


class Thinker:
    """Thinks for every turn of a server; `Thought` is one turn's."""

    def __init__(self, llm: LlmEngine, persona: Persona, settings: TurnSettings, tools: tuple[Tool, ...]) -> None:
        self.llm = llm
        self.persona = persona
        self.settings = settings
        self.tools = tools
        self._prefix_tokens: int | None = None

    async def history(self, turn: OpenTurn, heard: Heard) -> tuple[Exchange, ...]:
        """The earlier turns that the model sees, oldest first."""
        return await choose_exchanges(
            turn.history,
            self.llm.count_tokens,
            budget_tokens=min(self.settings.context_tokens, await self._room_for_history(heard.text)),
            max_turns=self.settings.context_turns,
        )

    def request(
        self,
        turn: OpenTurn,
        heard: Heard,
        history: Sequence[Exchange],
        runs: Sequence[ToolRun] = (),
        on_request: Sequence[ToolSpec] = (),
    ) -> LlmRequest:
        """What the model is asked: who it is, the conversation so far and the new words.

        `runs`: this turn's calls. `on_request`: tools that only this turn has.
        """
        persona, settings = self.persona, self.settings
        numerals = self._numerals(turn, heard, history, runs)
        may_say = self.ruled(turn, heard, runs)
        return LlmRequest(
            messages=prompt_messages(
                persona,
                self.llm.capabilities,
                self._tool_specs(),
                history,
                heard.text,
                language=heard.language,
                said_at=turn.started_at,
                on_request=on_request,
            ),
            answer_schema=answer_schema(persona, heard.language, numerals, may_say.replies if may_say else ()),
            max_tokens=settings.max_answer_tokens,
            temperature=settings.temperature,
            seed=settings.seed,
            answered=len(history),
        )

    async def first_request(self, turn: OpenTurn, heard: Heard) -> LlmRequest | None:
        """What a turn with these words will ask first; None: nothing, or that is not known before the turn is there."""
        if (may_say := self.ruled(turn, heard, ())) and may_say.answer(self.persona):
            return None
        history = await self.history(turn, heard)
        loop = self.tool_loop(turn, heard, TurnTrace(time.perf_counter))
        tools = await loop.first_offer()
        if tools is None:
            return None
        return replace(self.request(turn, heard, history, on_request=loop.on_request), tools=tools)

    def asker(self, turn: OpenTurn, heard: Heard) -> Asker:
        """Who asks the tools in this turn."""
        return Asker(
            persona=self.persona.persona_id,
            speaker=turn.speaker_id,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            asked_at=turn.started_at,
            zone=ZoneInfo(self.persona.zone),
            words=heard.text,
            language=heard.language,
            device_id=turn.device_id,
        )

    def tool_loop(self, turn: OpenTurn, heard: Heard, trace: TurnTrace, held: HeldCompletion | None = None) -> ToolLoop:
        """The loop through which the model calls tools in this turn. `held`: its first call, begun early."""
        return ToolLoop(
            self.usable_tools(),
            self.settings.tool_rounds,
            trace,
            self.asker(turn, heard),
            search_seconds=self.settings.search_seconds,
            earlier=[exchange.user_text for exchange in turn.history.exchanges],
            small=self.llm.capabilities.wants_examples,
            foreseen=None if held is None else held.request.tools,
        )

    def usable_tools(self) -> tuple[Tool, ...]:
        """As many tools as the model can be offered."""
        return self.tools[: self.llm.capabilities.max_tools]

    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.usable_tools() if not tool.spec.on_request)

    def ruled(self, turn: OpenTurn, heard: Heard, runs: Sequence[ToolRun]) -> Ruled | None:
        """What a small model may say after these calls; None: anything."""
        if not self.llm.capabilities.wants_examples:
            return None
        now = turn.started_at.astimezone(ZoneInfo(self.persona.zone))
        return ruled(heard.text, heard.language, runs, now)

    def _numerals(
        self, turn: OpenTurn, heard: Heard, history: Sequence[Exchange], runs: Sequence[ToolRun]
    ) -> tuple[str, ...] | None:
        """After looking something up a small model says no number but those that the user said, or that were found, and
        the time: it may have looked up what the clock tells. Not those of the robot's own earlier words. When it is
        told something, which it likes to say again with another number, only those in it. None: any.
        """
        if not self.llm.capabilities.wants_examples:
            return None
        if not any(run.name in LOOK_UPS for run in runs):
            return numerals_in([heard.text]) if self._is_told(turn, heard) else None
        found = (text for run in reversed(runs) for text in texts_in(run.result))
        said = (exchange.user_text for exchange in reversed(history))
        now = day_text(self.persona, turn.started_at, heard.language, with_time=True)
        return numerals_in([heard.text, now, *found, *said])

    def _is_told(self, turn: OpenTurn, heard: Heard) -> bool:
        said_on = turn.started_at.astimezone(ZoneInfo(self.persona.zone)).date()
        words = heard.text[:_LOOKED_AT_CHARACTERS]
        return tells(words, said_on, heard.language) and not wants_to_know(words)

    async def _room_for_history(self, words: str) -> int:
        """Tokens of the window that earlier turns may take, beside the stable prefix, `words` and the answer."""
        if self._prefix_tokens is None:
            prefix = stable_prefix(self.persona, self.llm.capabilities, self._tool_specs())
            self._prefix_tokens = await prompt_tokens(prefix, self.llm.count_tokens)
        taken = self._prefix_tokens + await self.llm.count_tokens(words) + self.settings.max_answer_tokens
        return max(0, self.llm.capabilities.context_tokens - taken - PROMPT_MARGIN_TOKENS)


class Thought:
    """One turn's thinking."""

    def __init__(
        self,
        thinker: Thinker,
        turn: OpenTurn,
        heard: Heard,
        device: DeviceLink,
        trace: TurnTrace,
        pieces: Pieces,
        filler: Filler,
        held: HeldCompletion | None = None,
    ) -> None:
        self._thinker = thinker
        self._held = held
        self._turn = turn
        self._heard = heard
        self._trace = trace
        self._filler = filler
        self._loop = thinker.tool_loop(turn, heard, trace, held)
        self._out = AnswerOut(
            thinker.persona, [tool.spec.name for tool in thinker.tools], turn.turn_id, device, trace, pieces, filler
        )
        self._history: tuple[Exchange, ...] = ()
        self._deadline = 0.0
        self._halved = False
        self._tried_again = False
        self._rolled_again = False

    @property
    def tool_runs(self) -> Sequence[ToolRun]:
        """The tools it called so far, in order."""
        return tuple(self._loop.runs)

    @property
    def movement(self) -> Answer:
        """Face and movement as far as they are known, without words."""
        return self._out.movement

    async def answer(self) -> Answer:
        """Think, and put each piece of the reply into the queue as soon as it is complete.

        Raises `LlmError` when there are no words to say. Words that are with the voice when the model breaks off
        stand; the beginning of a first clause is no answer, and is forgotten.
        """
        failure: LlmError | None = None
        timeout_seconds = self._thinker.settings.llm_timeout_seconds
        self._deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            await engine_work(self._converse(), timeout_seconds, LlmError)
        except LlmError as error:
            failure = error
            if not await self._out.break_off():
                raise
        answer = await self._out.finish()
        if not answer.reply:
            raise failure or _no_reply()
        self._trace.facts["answer_was_json"] = answer.was_json
        self._trace.facts["unknown_ids"] = list(answer.unknown_ids)
        if failure is not None:
            self._trace.facts["llm_error"] = failure.code
            _log.error("the model broke off: %s", failure.code, extra=error_fields(failure))
        return answer

    async def _converse(self) -> None:
        self._history = await self._thinker.history(self._turn, self._heard)
        await self._loop.run(self._ask)

    async def _ask(self, said: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> Sequence[LlmToolCall]:
        """One call of the model, asked again where that may help, and none where the answer is known without it.

        What tools have said stays said.
        """
        if await self._answer_by_rule():
            return ()
        while True:
            try:
                with self._trace.span("llm"):
                    return await self._call(said, tools)
            except LlmError as error:
                failure = error
            await self._recover(failure)
            self._trace.facts["llm_retries"] = self._trace.facts.get("llm_retries", 0) + 1

    async def _answer_by_rule(self) -> bool:
        may_say = self._thinker.ruled(self._turn, self._heard, self._loop.runs)
        written = may_say.answer(self._thinker.persona) if may_say else None
        if written is None or self._out.shown:
            return False
        held, self._held = self._held, None
        if held is not None:
            await held.drop()
        self._trace.facts["answer_by_rule"] = True
        await self._out.feed(written)
        await self._out.finish()
        return True

    async def _call(self, said: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> Sequence[LlmToolCall]:
        loop = self._loop
        request = self._thinker.request(self._turn, self._heard, self._history, loop.runs, loop.on_request)
        request = replace(request, messages=(*request.messages, *said), tools=tuple(tools))
        if self._rolled_again:
            warmer = max(request.temperature, RECIPE.second_temperature)
            request = replace(request, temperature=warmer, seed=request.seed + 1)
        calls: list[LlmToolCall] = []
        # Here, for a call that fails or is cut off counts too; its tokens are known only when it ends well.
        self._trace.llm_calls += 1
        async with aclosing(await self._deltas(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, LlmToolCall):
                    calls.append(delta)
                else:
                    await self._read(delta)
                if self._out.full:
                    break
        # Words that are out stand, whatever the model calls after them; a call where none was offered is no answer.
        if calls and tools and not self._out.shown:
            self._out.begin_again()
            self._filler.looks_up()
            return calls
        answer = await self._out.finish()
        if not answer.reply:
            raise _no_reply()
        return ()

    async def _deltas(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        """The completion of `request`: the one that was begun early if it is of exactly this, else a new one."""
        held, self._held = self._held, None
        if held is not None:
            if held.request == request:
                self._trace.facts["speculation"] = "used"
                return held.take()
            self._trace.facts["speculation"] = "wasted"
            await held.drop()
        return self._thinker.llm.generate(request)

    async def _read(self, delta: LlmDelta) -> None:
        if isinstance(delta, LlmText) and isinstance(delta.text, str):
            self._trace.mark("first_token")
            await self._out.feed(delta.text)
        elif isinstance(delta, LlmDone):
            self._trace.prompt_tokens += _tokens(delta.prompt_tokens)
            self._trace.cached_tokens += _tokens(delta.cached_tokens)
            self._trace.completion_tokens += _tokens(delta.completion_tokens)
        else:
            raise LlmError("The model's engine gave something that is no part of an answer.")

    async def _recover(self, error: LlmError) -> None:
        """Return when the model should be asked again, having waited and made room; raise `error` when not.

        1. Nothing that is with the voice is said twice. A face or a movement that was shown may come again: that does
           no harm, and an answer without words shows them too.
        2. A prompt that is too long: with the newer half of the history, then with none.
        3. Else once, if the error may pass and there is time.
        """
        wordless = error.code == "llm_no_reply"
        if self._out.spoken or self._out.whole:
            raise error
        if error.code == "llm_context_overflow":
            if not self._history:
                raise error
            self._history = () if self._halved else self._history[(len(self._history) + 1) // 2 :]
            self._halved = True
        else:
            now = asyncio.get_running_loop().time()
            asked = error.retry_after_seconds
            wait_seconds = 0.0 if wordless else RECIPE.usual_wait_seconds if asked is None else max(0.0, asked)
            in_time = now + wait_seconds + RECIPE.least_rest_seconds <= self._deadline
            if not error.retryable or self._tried_again or wait_seconds > RECIPE.longest_wait_seconds or not in_time:
                raise error
            self._tried_again = True
            self._rolled_again = wordless
            await asyncio.sleep(wait_seconds)
        _log.warning("the model is asked again: %s", error.code, extra=error_fields(error))
        self._out.begin_again()


def _tokens(value: object) -> int:
    """What an endpoint counted, which may be anything."""
    return min(max(value, 0), 2**31) if isinstance(value, int) else 0


def _no_reply() -> LlmError:
    return LlmError("The model gave no reply.", code="llm_no_reply", retryable=True)
