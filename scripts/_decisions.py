"""Utterances decided by a model as the server would ask it, and the figures that follow.

`Decider` asks; it knows the engines' Protocols and the server's own thinking, no table and no command line. One
utterance that fails is a row with its error and is counted apart: it is neither right nor wrong.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from _bench import wilson_interval

from server.context.prompts import stable_prefix
from server.engines.base import LlmEngine, LlmMessage, LlmText, LlmToolCall, ToolSpec
from server.errors import LlmError
from server.memory.tools import SEARCH_MEMORY
from server.persona import Persona
from server.pipeline.answer import AnswerReader
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, OpenTurn
from server.pipeline.thinking import Thinker
from server.pipeline.tool_loop import Tool
from server.pipeline.trace import TurnTrace

LANGUAGES = ("ja", "en")
AS_WRITTEN, WITHOUT_MARKS = "as_written", "without_marks"
FINAL_MARKS = "？?。.!！"
# A fixed clock: the decision must not depend on the day of the measurement.
SAID_AT = datetime(2026, 11, 30, 15, 20, tzinfo=ZoneInfo("Asia/Tokyo"))
_SAMPLE_SEED = 7


@dataclass(frozen=True, slots=True)
class Decision:
    """One utterance, decided. `search`: what is right; `searched`: what the model did, None when it failed."""

    id: str
    half: str
    kind: str
    language: str
    text: str
    marks: str
    """`as_written`, or `without_marks`: asked without its final punctuation."""
    search: bool
    searched: bool | None
    milliseconds: float
    query: str = ""
    reply: str = ""
    error: str = ""

    @property
    def right(self) -> bool:
        return self.search == self.searched


def chosen_items(
    items: Sequence[Mapping[str, Any]], half: str, language: str | None, limit: int | None
) -> list[Mapping[str, Any]]:
    """Those of a half (`all`: each) and language, in their order.

    `limit`: a sample of so many of each half, language and label, the same one every time.
    """
    here = [i for i in items if half in ("all", i["half"]) and language in (None, i["language"])]
    if limit is None:
        return here
    cells: dict[tuple[str, str, bool], list[str]] = {}
    for item in here:
        cells.setdefault((item["half"], item["language"], item["search"]), []).append(item["id"])
    chance = random.Random(_SAMPLE_SEED)
    taken = {one for ids in cells.values() for one in chance.sample(ids, min(limit, len(ids)))}
    return [item for item in here if item["id"] in taken]


def without_marks(text: str) -> str:
    """`text` as speech recognition may write it: without final punctuation. Never empty."""
    return text.rstrip(FINAL_MARKS + " ") or text


class Decider:
    """Asks a started engine what the server with these settings would ask it. `full`: whole turns, with a reply."""

    def __init__(
        self,
        llm: LlmEngine,
        persona: Persona,
        settings: TurnSettings,
        tools: tuple[Tool, ...],
        *,
        full: bool = False,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._llm = llm
        self._persona = persona
        self._thinker = Thinker(llm, persona, settings, tools)
        self._full = full
        self._monotonic = monotonic

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._thinker.usable_tools())

    async def warm(self) -> float:
        """Bring the prompt's stable prefix into the model's cache; the seconds it took."""
        started = self._monotonic()
        await self._llm.warm_prefix(stable_prefix(self._persona, self._llm.capabilities, self._specs))
        return self._monotonic() - started

    async def decide(self, item: Mapping[str, Any], marks: str = AS_WRITTEN) -> Decision:
        """One utterance; a model that fails gives a decision with its error's code."""
        text: str = item["text"] if marks == AS_WRITTEN else without_marks(item["text"])
        heard = Heard(text, item["language"])
        searched: bool | None = None
        query = reply = error = ""
        started = self._monotonic()
        try:
            searched, query, reply = await (self._whole_turn(heard) if self._full else self._first_move(heard))
        except LlmError as failure:
            error = failure.code
        milliseconds = round((self._monotonic() - started) * 1000, 1)
        fields = {key: item[key] for key in ("id", "half", "kind", "language", "search")}
        return Decision(
            **fields,
            text=text,
            marks=marks,
            searched=searched,
            milliseconds=milliseconds,
            query=query,
            reply=reply,
            error=error,
        )

    async def _first_move(self, heard: Heard) -> tuple[bool, str, str]:
        """Whether the model searches, and its query. The stream is closed as soon as an answer begins."""
        request = self._thinker.request(_turn(), heard, ())
        moved: LlmToolCall | LlmText | None = None

        async def ask(said: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> Sequence[LlmToolCall]:
            nonlocal moved
            async with aclosing(self._llm.generate(replace(request, tools=tuple(tools)))) as deltas:
                async for delta in deltas:
                    if isinstance(delta, LlmToolCall) or (isinstance(delta, LlmText) and delta.text.strip()):
                        moved = delta
                        return ()  # what was called is not run
            return ()

        # The loop knows which tools are offered to these words.
        await self._thinker.tool_loop(_turn(), heard, TurnTrace(self._monotonic)).run(ask)
        if moved is None:
            raise LlmError("The model wrote nothing.", code="llm_no_reply", retryable=True)
        if isinstance(moved, LlmToolCall) and moved.name == SEARCH_MEMORY.name:
            return True, str(moved.arguments.get("query", "")), ""
        return False, "", ""

    async def _whole_turn(self, heard: Heard) -> tuple[bool, str, str]:
        """Whether the turn searched, its first query, and its reply."""
        loop = self._thinker.tool_loop(_turn(), heard, TurnTrace(self._monotonic))
        reader = self._reader()

        async def ask(said: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> Sequence[LlmToolCall]:
            nonlocal reader
            # What was written beside a call is no answer.
            reader, calls = self._reader(), []
            request = self._thinker.request(_turn(), heard, (), loop.runs)
            asked = replace(request, messages=(*request.messages, *said), tools=tuple(tools))
            async with aclosing(self._llm.generate(asked)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, LlmToolCall):
                        calls.append(delta)
                    elif isinstance(delta, LlmText):
                        reader.feed(delta.text)
            return calls

        await loop.run(ask)
        answer, _ = reader.finish()
        queries = [str(run.arguments.get("query", "")) for run in loop.runs if run.name == SEARCH_MEMORY.name]
        return bool(queries), queries[0] if queries else "", answer.reply

    def _reader(self) -> AnswerReader:
        persona, tools = self._persona, [spec.name for spec in self._specs]
        return AnswerReader([one.id for one in persona.emotions], [one.id for one in persona.actions], tools)


def _turn() -> OpenTurn:
    return OpenTurn(1, "01J00000000000000000000000", "stackchan:bench", "bench", None, SAID_AT)


def share(hits: int, count: int) -> dict[str, Any]:
    """Hits of a count, with the percentage and its 95 % interval; no percentage where nothing was counted."""
    low, high = wilson_interval(hits, count)
    percent = round(100 * hits / count, 1) if count else None
    return {"hits": hits, "of": count, "percent": [percent, round(100 * low, 1), round(100 * high, 1)]}


def summarise(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Half, then marks, then language: shares with their 95 % intervals, in percent, milliseconds, and errors."""
    summary: dict[str, Any] = {}
    for half in dict.fromkeys(d.half for d in decisions):
        for marks in dict.fromkeys(d.marks for d in decisions):
            for language in LANGUAGES:
                here = [d for d in decisions if (d.half, d.marks, d.language) == (half, marks, language)]
                if here:
                    summary.setdefault(half, {}).setdefault(marks, {})[language] = _figures(here)
    return summary


def _figures(decisions: Sequence[Decision]) -> dict[str, Any]:
    decided = [d for d in decisions if d.searched is not None]
    needless = [d for d in decided if not d.search]
    needed = [d for d in decided if d.search]

    def median_ms(searched: bool) -> float | None:
        times = [d.milliseconds for d in decided if d.searched is searched]
        return round(statistics.median(times), 1) if times else None

    return {
        "false_triggers": share(sum(not d.right for d in needless), len(needless)),
        "misses": share(sum(not d.right for d in needed), len(needed)),
        "accuracy": share(sum(d.right for d in decided), len(decided)),
        "errors": len(decisions) - len(decided),
        "median_ms_answer": median_ms(False),
        "median_ms_call": median_ms(True),
    }
