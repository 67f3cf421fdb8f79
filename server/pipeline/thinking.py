"""The model's part of a turn: from the user's words to an answer, its pieces handed on while it is written.

Builds the request, reads the stream, moves face and body. Knows the LLM Protocol and the tool loop; not which model it
is, nor what becomes of the pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from server.context.prompts import answer_schema, prompt_messages, stable_prefix
from server.context.session_turns import PROMPT_MARGIN_TOKENS, choose_exchanges, prompt_tokens
from server.engines.base import LlmDone, LlmEngine, LlmRequest, LlmText, ToolSpec
from server.errors import LlmError
from server.events import ActionChosen, FaceChosen
from server.persona import Persona
from server.pipeline.answer import ActionRead, Answer, AnswerPart, AnswerReader, EmotionRead, ReplyRead
from server.pipeline.device_link import DeviceLink
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, OpenTurn
from server.pipeline.sentences import SentenceCutter
from server.pipeline.speaking import Pieces
from server.pipeline.tool_loop import Tool, ToolLoop, ToolRun
from server.pipeline.trace import TurnTrace


class Thinker:
    """Thinks for every turn of a server; `Thought` is one turn's."""

    def __init__(self, llm: LlmEngine, persona: Persona, settings: TurnSettings, tools: tuple[Tool, ...]) -> None:
        self.llm = llm
        self.persona = persona
        self.settings = settings
        self.tools = tools
        self._prefix_tokens: int | None = None

    async def request(self, turn: OpenTurn, heard: Heard) -> LlmRequest:
        """What the model is asked: who it is, the conversation so far and the new words."""
        persona, settings = self.persona, self.settings
        history = await choose_exchanges(
            turn.history,
            self.llm.count_tokens,
            budget_tokens=min(settings.context_tokens, await self._room_for_history(heard.text)),
            max_turns=settings.context_turns,
        )
        return LlmRequest(
            messages=prompt_messages(
                persona,
                self.llm.capabilities,
                self._tool_specs(),
                history,
                heard.text,
                language=heard.language,
                said_at=turn.started_at,
            ),
            answer_schema=answer_schema(persona, heard.language),
            max_tokens=settings.max_answer_tokens,
            temperature=settings.temperature,
            seed=settings.seed,
        )

    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools[: self.llm.capabilities.max_tools])

    async def _room_for_history(self, words: str) -> int:
        """Tokens of the window that earlier turns may take, beside the stable prefix, `words` and the answer."""
        if self._prefix_tokens is None:
            prefix = stable_prefix(self.persona, self.llm.capabilities, self._tool_specs())
            self._prefix_tokens = await prompt_tokens(prefix, self.llm.count_tokens)
        taken = self._prefix_tokens + await self.llm.count_tokens(words) + self.settings.max_answer_tokens
        return max(0, self.llm.capabilities.context_tokens - taken - PROMPT_MARGIN_TOKENS)


class Thought:
    """One turn's thinking. `tool_runs`: the tools it called, in order."""

    def __init__(self, thinker: Thinker, turn: OpenTurn, heard: Heard, device: DeviceLink, trace: TurnTrace) -> None:
        self.tool_runs: list[ToolRun] = []
        self._thinker = thinker
        self._turn = turn
        self._heard = heard
        self._device = device
        self._trace = trace
        self._reader = AnswerReader(
            frozenset(entry.id for entry in thinker.persona.emotions),
            frozenset(entry.id for entry in thinker.persona.actions),
        )
        self._cutter = SentenceCutter()
        self._emotion = "neutral"

    async def answer(self, pieces: Pieces) -> Answer:
        """Think, and put each piece of the reply into `pieces` as soon as it is complete. Raises `LlmError`."""
        request = await self._thinker.request(self._turn, self._heard)
        with self._trace.span("llm"):
            error = await self._read_model(request, pieces)
        answer, parts = self._reader.finish()
        await self._take(parts, pieces)
        for piece in self._cutter.finish():
            self._trace.mark("first_clause")
            await pieces.put((piece, self._emotion))
        self._trace.facts["answer_was_json"] = answer.was_json
        self._trace.facts["unknown_ids"] = list(answer.unknown_ids)
        if not answer.reply:
            raise error or LlmError("The model gave no reply.", code="llm_no_reply", retryable=True)
        if error is not None:  # words were already spoken: they stand, the error is kept
            self._trace.facts["llm_error"] = error.code
        return answer

    async def _read_model(self, request: LlmRequest, pieces: Pieces) -> LlmError | None:
        """Feed the reader until the model is done; the error that cut it short, if one did."""
        thinker = self._thinker
        loop = ToolLoop(thinker.llm, thinker.tools, thinker.settings.tool_rounds)
        try:
            async with asyncio.timeout(thinker.settings.llm_timeout_seconds), aclosing(loop.run(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, LlmText):
                        self._trace.mark("first_token")
                        await self._take(self._reader.feed(delta.text), pieces)
                    elif isinstance(delta, ToolRun):
                        self.tool_runs.append(delta)
                    else:
                        self._count(delta)
        except TimeoutError:
            return LlmError("Thinking took too long.", code="llm_timeout", retryable=True)
        except LlmError as error:
            return error
        return None

    async def _take(self, parts: Sequence[AnswerPart], pieces: Pieces) -> None:
        for part in parts:
            if isinstance(part, EmotionRead):
                self._emotion = part.emotion
                self._trace.mark("emotion")
                await self._device.emit(FaceChosen(self._turn.turn_id, part.emotion))
            elif isinstance(part, ActionRead):
                await self._device.emit(ActionChosen(self._turn.turn_id, part.action))
            else:
                assert isinstance(part, ReplyRead)
                for piece in self._cutter.feed(part.text):
                    self._trace.mark("first_clause")
                    await pieces.put((piece, self._emotion))

    def _count(self, done: LlmDone) -> None:
        self._trace.llm_calls += 1
        self._trace.prompt_tokens += done.prompt_tokens
        self._trace.cached_tokens += done.cached_tokens
        self._trace.completion_tokens += done.completion_tokens
