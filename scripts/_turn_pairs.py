"""Turns in pairs: the same utterance through the server's overlapping turn, and through the same engines in a row.

`Pairs` measures; it knows the pipeline and engines' Protocols, no table and no command line. Both ways get the same
recording, ask the model the same request with the same prompt cache and the same tools, and use the same calls of the
same engines. In a row means: find speech, hear, take the whole answer, speak the whole answer, then play.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from server.context.prompts import stable_prefix
from server.engines.base import (
    Engines,
    LlmDelta,
    LlmDone,
    LlmMessage,
    LlmRequest,
    LlmText,
    LlmToolCall,
    SpeechRequest,
    ToolSpec,
)
from server.errors import StackChanError
from server.events import ASR_SAMPLE_RATE_HZ, Samples, SpeechProduced, TurnEvent
from server.persona import Persona
from server.pipeline.answer import AnswerReader
from server.pipeline.hearing import hear
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, OpenTurn, TurnRequest, TurnResult
from server.pipeline.speakable import speakable
from server.pipeline.speaking import synthesized
from server.pipeline.thinking import Thinker
from server.pipeline.tool_loop import Tool
from server.pipeline.trace import TurnTrace
from server.pipeline.turn import TurnController

Mode = Literal["streaming", "serial"]
SAID_AT = datetime(2026, 11, 30, 6, 20, tzinfo=UTC)
_SENTENCE_END = re.compile(r"[。！？!?…]+|\.(?=\s|$)")
_SILENCE_SECONDS = 0.4
_PEAK = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """One utterance, answered once. Seconds since the whole recording was there; `spans`: how long each stage took.

    Tokens of all the model's calls together; `searched`: it called a tool.
    """

    mode: Mode
    heard: str
    reply: str
    sentences: int
    first_audio_seconds: float
    spans: Mapping[str, float]
    marks: Mapping[str, float]
    prompt_tokens: int
    cached_tokens: int
    searched: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """An utterance in both modes. `first`: the mode that was measured first."""

    language: str
    text: str
    first: Mode
    streaming: Run
    serial: Run
    same_request: bool

    @property
    def ratio(self) -> float:
        """How many times sooner the streaming turn sounds."""
        return self.serial.first_audio_seconds / self.streaming.first_audio_seconds

    @property
    def two_sentences(self) -> bool:
        return self.streaming.sentences == self.serial.sentences == 2

    @property
    def comparable(self) -> bool:
        """Both ways did the same work: the model called a tool in each of them, or in none."""
        return self.streaming.searched == self.serial.searched


class AskedLlm:
    """An engine as it is, which remembers what happened since `forget`.

    `exactly_two`: the reply must have two sentences.
    """

    def __init__(self, llm: Any, *, exactly_two: bool) -> None:
        self._llm = llm
        self._exactly_two = exactly_two
        self.name = llm.name
        self.capabilities = llm.capabilities
        self.forget()

    def forget(self) -> None:
        """Begin to count again."""
        self.asked: list[LlmRequest] = []
        self.done: list[LlmDone] = []
        self.searched = False

    async def start(self) -> None:
        await self._llm.start()

    async def close(self) -> None:
        await self._llm.close()

    async def count_tokens(self, text: str) -> int:
        tokens: int = await self._llm.count_tokens(text)
        return tokens

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        await self._llm.warm_prefix(messages, tools)

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        await self._llm.read_ahead(messages, tools)

    async def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        if self._exactly_two:
            request = replace(request, answer_schema=with_two_sentences(request.answer_schema))
        self.asked.append(request)
        async with aclosing(self._llm.generate(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, LlmDone):
                    self.done.append(delta)
                elif isinstance(delta, LlmToolCall):
                    self.searched = True
                yield delta


def with_two_sentences(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The answer's schema with a reply of exactly two sentences where it allows one or two."""
    if schema is None:
        return None
    reply = schema["properties"]["reply"]
    pattern = reply.get("pattern", "").replace("{0,1}$", "{1}$")
    return {**schema, "properties": {**schema["properties"], "reply": {**reply, "pattern": pattern}}}


class _NoJournal:
    """Both ways are measured without storage."""

    async def heard(self, turn: OpenTurn, heard: Heard, now: datetime) -> None:
        pass

    async def ended(self, turn: OpenTurn, result: TurnResult, trace: Mapping[str, Any], now: datetime) -> None:
        pass


@dataclass
class Pairs:
    """Measures pairs with started engines; `engines.llm` is an `AskedLlm`. `monotonic` returns seconds."""

    engines: Engines
    persona: Persona
    settings: TurnSettings
    tools: tuple[Tool, ...] = ()
    monotonic: Callable[[], float] = time.perf_counter
    failed: list[str] = field(default_factory=list)
    """Utterances that got no spoken answer in one of the modes, with the reason."""

    async def say(self, text: str, language: str) -> Samples:
        """The utterance as a recording: spoken by the robot's own voice at an even level, silence around it."""
        request = SpeechRequest(speakable(text, language), language)
        pieces = [piece async for piece in synthesized(self.engines.tts, request, ASR_SAMPLE_RATE_HZ)]
        silence = np.zeros(round(_SILENCE_SECONDS * ASR_SAMPLE_RATE_HZ), np.float32)
        speech = np.concatenate(pieces).astype(np.float32)
        speech *= np.float32(_PEAK) / max(np.float32(1), np.abs(speech).max())
        return np.concatenate([silence, speech, silence])

    async def measure(self, number: int, text: str, language: str) -> Pair | None:
        """One utterance in both modes; None when a turn had no answer. `number`, from 0, decides which comes first."""
        samples = await self.say(text, language)
        # Not simply every other one: where two languages take turns, each must begin with both modes equally often.
        streams_first = (number + number // 2) % 2 == 0
        order: tuple[Mode, Mode] = ("streaming", "serial") if streams_first else ("serial", "streaming")
        runs, requests = {}, []
        for mode in order:
            # The same prompt cache for both: what the other one has just read is not there any more.
            await self.warm()
            self._llm.forget()
            run = await (self.stream(samples) if mode == "streaming" else self.in_a_row(samples))
            if isinstance(run, str):
                self.failed.append(f"{text} ({mode}): {run}")
                return None
            runs[mode] = run
            requests.append(self._llm.asked)
        return Pair(language, text, order[0], runs["streaming"], runs["serial"], requests[0] == requests[1])

    async def warm(self) -> None:
        """Bring the prompt's stable prefix into the model's cache, as a server does at its start."""
        llm = self.engines.llm
        await llm.warm_prefix(stable_prefix(self.persona, llm.capabilities, tuple(tool.spec for tool in self.tools)))

    async def stream(self, samples: Samples) -> Run | str:
        """The server's own turn, without HTTP and storage; the reason when it gave no sound."""
        traces: list[Mapping[str, Any]] = []
        sounded: list[float] = []

        async def emit(event: TurnEvent) -> None:
            if isinstance(event, SpeechProduced) and not sounded:
                sounded.append(self.monotonic() - began)

        controller = TurnController(
            self.engines,
            self.persona,
            _NoJournal(),
            self.settings,
            clock=lambda: SAID_AT,
            tools=self.tools,
            observers=[lambda request, result, trace: traces.append(trace)],
            monotonic=self.monotonic,
        )
        began = self.monotonic()
        result = await controller.run(_turn(), TurnRequest("bench", samples=samples), emit)
        if result.outcome != "ok" or result.error is not None or not sounded:
            return f"{result.outcome} {result.error.code if result.error else ''}".strip()
        trace = traces[0]
        spans = _stage_seconds(trace["spans"])
        marks = {name: ms / 1000 for name, ms in trace["marks"].items()}
        return self._run("streaming", result.transcript, result.reply, sounded[0], spans, marks)

    async def in_a_row(self, samples: Samples) -> Run | str:
        """The same engines one after the other, each of them finished before the next begins."""
        try:
            return await self._in_a_row(samples)
        except StackChanError as error:
            return f"failed {error.code}"

    async def _in_a_row(self, samples: Samples) -> Run | str:
        trace = TurnTrace(self.monotonic)
        began = self.monotonic()
        heard = await hear(TurnRequest("bench", samples=samples), self.engines, self.persona, self.settings, trace)
        if heard is None:
            return "no_speech"
        thinker = Thinker(self.engines.llm, self.persona, self.settings, self.tools)
        loop = thinker.tool_loop(_turn(), heard, trace)
        written: list[str] = []

        async def ask(said: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> Sequence[LlmToolCall]:
            written.clear()
            request = thinker.request(_turn(), heard, (), loop.runs)
            asked = replace(request, messages=(*request.messages, *said), tools=tuple(tools))
            with trace.span("llm"):
                deltas = [delta async for delta in self.engines.llm.generate(asked)]
            written.extend(delta.text for delta in deltas if isinstance(delta, LlmText))
            return [delta for delta in deltas if isinstance(delta, LlmToolCall)] if tools else []

        await loop.run(ask)
        names = [tool.spec.name for tool in self.tools]
        reader = AnswerReader([e.id for e in self.persona.emotions], [a.id for a in self.persona.actions], names)
        reader.feed("".join(written))
        answer, _ = reader.finish()
        with trace.span("tts"):
            spoken = SpeechRequest(speakable(answer.reply, heard.language), heard.language, answer.emotion)
            rate_hz = self.settings.speech_sample_rate_hz
            sound = [piece async for piece in synthesized(self.engines.tts, spoken, rate_hz)]
        first_audio = self.monotonic() - began
        if not sound:
            return "no sound"
        spans = _stage_seconds(trace.as_dict()["spans"])
        return self._run("serial", heard.text, answer.reply, first_audio, spans, {})

    @property
    def _llm(self) -> AskedLlm:
        llm: Any = self.engines.llm
        assert isinstance(llm, AskedLlm)
        return llm

    def _run(
        self,
        mode: Mode,
        heard: str,
        reply: str,
        first_audio: float,
        spans: Mapping[str, float],
        marks: Mapping[str, float],
    ) -> Run:
        llm = self._llm
        return Run(
            mode,
            heard,
            reply,
            count_sentences(reply),
            first_audio,
            spans,
            marks,
            sum(done.prompt_tokens for done in llm.done),
            sum(done.cached_tokens for done in llm.done),
            llm.searched,
        )


def _stage_seconds(spans: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How long each stage took in all: a model that searches is asked more than once."""
    seconds: dict[str, float] = {}
    for span in spans:
        seconds[span["name"]] = seconds.get(span["name"], 0.0) + (span["end_ms"] - span["start_ms"]) / 1000
    return seconds


def _turn() -> OpenTurn:
    return OpenTurn(1, "01J00000000000000000000000", "stackchan:bench", "bench", None, SAID_AT)


def count_sentences(text: str) -> int:
    """Sentences in Japanese or English text; one that lacks its end counts."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    rest = text[ends[-1] if ends else 0 :]
    return len(ends) + bool(rest.strip(" \n」』）)\"'”’"))


def median_with_interval(
    values: Sequence[float], *, resamples: int = 4_000, seed: int = 7
) -> tuple[float, float, float]:
    """The median and its 95 % bootstrap interval (percentiles). Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no values")
    chance = random.Random(seed)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(resamples))
    return statistics.median(values), medians[round(0.025 * resamples)], medians[round(0.975 * resamples) - 1]


def summarise(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Counts, medians and the ratio's interval of some pairs; only a count when there are none."""
    if not pairs:
        return {"pairs": 0}
    ratio, low, high = median_with_interval([pair.ratio for pair in pairs])
    stages = ("vad", "asr", "llm", "tool", "tts")

    def stage_ms(runs: Sequence[Run]) -> dict[str, int]:
        return {name: round(1000 * statistics.median(run.spans.get(name, 0.0) for run in runs)) for name in stages}

    streaming, serial = [pair.streaming for pair in pairs], [pair.serial for pair in pairs]
    return {
        "pairs": len(pairs),
        "median_ratio": round(ratio, 3),
        "ratio_interval_95": [round(low, 3), round(high, 3)],
        "smallest_ratio": round(min(pair.ratio for pair in pairs), 3),
        "first_audio_ms": {
            "streaming": round(1000 * statistics.median(run.first_audio_seconds for run in streaming)),
            "serial": round(1000 * statistics.median(run.first_audio_seconds for run in serial)),
        },
        "stage_ms": {"streaming": stage_ms(streaming), "serial": stage_ms(serial)},
        "same_request": sum(pair.same_request for pair in pairs),
        "same_reply": sum(pair.streaming.reply == pair.serial.reply for pair in pairs),
        "same_cached_tokens": sum(pair.streaming.cached_tokens == pair.serial.cached_tokens for pair in pairs),
        "two_sentences": sum(pair.two_sentences for pair in pairs),
    }
