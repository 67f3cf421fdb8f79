"""The controller of one turn: hear, think, speak, store.

Stages only transform; this class owns their order, their overlap, time-outs and what a failure becomes. It knows no
wire format and no table: events go to `emit`, words go to the journal.

Two promises. The user's words are stored before any reply is made. A model that fails becomes an apology and a stored
error, never silence and never a lost word.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from server.audio.resample import resample
from server.audio.segmenter import SegmenterSettings
from server.context.prompts import answer_schema, stable_prefix, system_message, turn_messages
from server.context.session_turns import PROMPT_MARGIN_TOKENS, choose_exchanges, prompt_tokens
from server.engines.base import Engines, LlmDone, LlmRequest, LlmText, SpeechRequest
from server.errors import AsrError, LlmError, StackChanError, StorageError, TtsError
from server.events import (
    ActionChosen,
    AudioChunk,
    FaceChosen,
    SentenceStarted,
    SpeechProduced,
    StateChanged,
    TranscriptReady,
    TurnEnded,
    TurnEvent,
    TurnState,
)
from server.persona import Persona
from server.pipeline.answer import ActionRead, Answer, AnswerPart, AnswerReader, EmotionRead, ReplyRead
from server.pipeline.apology import apology
from server.pipeline.listening import find_utterance
from server.pipeline.request import Heard, OpenTurn, TurnError, TurnObserver, TurnRequest, TurnResult
from server.pipeline.sentences import SentenceCutter
from server.pipeline.speakable import speakable
from server.pipeline.state import StateMachine
from server.pipeline.tool_loop import Tool, ToolLoop, ToolRun
from server.pipeline.trace import TurnTrace
from server.storage.types import clean_text

_log = logging.getLogger(__name__)

Emit = Callable[[TurnEvent], Awaitable[None]]

# Pieces that wait for the voice; synthesis is much faster than generation, so this never fills in practice.
_PIECES_AHEAD = 8


class Journal(Protocol):
    """Where a turn's words go. Every method returns only when they are on the disk."""

    async def heard(self, turn: OpenTurn, heard: Heard, now: datetime) -> None:
        """Store the user's words; from here on they are never lost."""

    async def ended(self, turn: OpenTurn, result: TurnResult, trace: Mapping[str, Any], now: datetime) -> None:
        """Store the robot's words, the outcome and the trace, together."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The knobs of a turn. Time-outs in seconds, rates in Hz."""

    segmenter: SegmenterSettings
    asr_timeout_seconds: float
    llm_timeout_seconds: float
    tts_timeout_seconds: float
    max_answer_tokens: int
    temperature: float
    seed: int
    tool_rounds: int
    speech_sample_rate_hz: int
    context_tokens: int
    context_turns: int


class TurnController:
    """Runs turns, one call of `run` each; holds no state between them."""

    def __init__(
        self,
        engines: Engines,
        persona: Persona,
        journal: Journal,
        settings: TurnSettings,
        *,
        clock: Callable[[], datetime],
        tools: Sequence[Tool] = (),
        observers: Sequence[TurnObserver] = (),
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.engines = engines
        self.persona = persona
        self.journal = journal
        self.settings = settings
        self.clock = clock
        self.tools = tuple(tools)
        self.observers = tuple(observers)
        self.monotonic = monotonic
        self._prefix_tokens: int | None = None

    async def room_for_history(self, words: str) -> int:
        """Tokens of the window that earlier turns may take, beside the stable prefix, `words` and the answer."""
        llm = self.engines.llm
        if self._prefix_tokens is None:
            self._prefix_tokens = await prompt_tokens(stable_prefix(self.persona), llm.count_tokens)
        taken = self._prefix_tokens + await llm.count_tokens(words) + self.settings.max_answer_tokens
        return max(0, llm.capabilities.context_tokens - taken - PROMPT_MARGIN_TOKENS)

    async def run(self, turn: OpenTurn, request: TurnRequest, emit: Emit) -> TurnResult:
        """Take one open turn to its end and return what the device gets.

        Engine failures end in the result; only `StorageError` (the words could not be kept) and cancellation leave
        here as exceptions.
        """
        run = _Run(self, turn, request, emit)
        try:
            result = await run.stages()
        except (StorageError, asyncio.CancelledError):
            raise
        except StackChanError as error:
            result = await run.apologize(error)
        except Exception as error:  # a defect: the turn still ends, is stored, and says so
            _log.exception("turn %d failed on a defect", turn.turn_id)
            result = await run.apologize(StackChanError(f"{type(error).__name__} in the turn.", code="internal"))
        result = replace(result, latency_ms=run.trace.latency_ms())
        trace = run.trace.as_dict()
        await self.journal.ended(turn, result, trace, self.clock())
        for observe in self.observers:
            observe(request, result, trace)
        await run.move("idle")
        await emit(TurnEnded(turn.turn_id, result.outcome or "failed"))
        return result


class _Run:
    """The state of one turn while it runs."""

    def __init__(self, controller: TurnController, turn: OpenTurn, request: TurnRequest, emit: Emit) -> None:
        self._c = controller
        self._turn = turn
        self._request = request
        self._emit = emit
        self.trace = TurnTrace(controller.monotonic)
        self._state = StateMachine()
        self._heard = Heard("", controller.persona.languages[0])
        self._tool_runs: list[ToolRun] = []
        self._speech_samples = 0
        self._speech_error: StackChanError | None = None

    async def move(self, state: TurnState) -> None:
        if self._state.move(state):
            await self._emit(StateChanged(self._turn.turn_id, state))

    async def stages(self) -> TurnResult:
        await self.move("listening")
        heard = await self._hear()
        if heard is None:
            return self._result(outcome="no_speech")
        self._heard = heard
        await self._c.journal.heard(self._turn, heard, self._c.clock())
        self.trace.mark("words_stored")
        await self._emit(TranscriptReady(self._turn.turn_id, heard.text, heard.language))
        await self.move("thinking")
        answer = await self._answer()
        return self._result(outcome="ok", answer=answer)

    async def apologize(self, error: StackChanError) -> TurnResult:
        """Say that something failed, in the persona's language; the error goes with the result."""
        _log.error("turn %d: %s: %s", self._turn.turn_id, error.code, error.message)
        text = apology(error, self._heard.language)
        answer = Answer(reply=text, emotion="doubt" if "doubt" in _ids(self._c.persona.emotions) else "neutral")
        await self.move("error")
        await self._emit(FaceChosen(self._turn.turn_id, answer.emotion))
        await self._say(text, answer.emotion)
        return self._result(outcome="failed", answer=answer, error=error)

    async def _hear(self) -> Heard | None:
        """The user's words, or None when there are none to answer."""
        languages = self._c.persona.languages
        if self._request.text is not None:
            text = clean_text(self._request.text).strip()
            return Heard(text, _written_language(text, languages)) if text else None
        assert self._request.samples is not None
        with self.trace.span("vad"):
            utterance = await find_utterance(self._c.engines.vad, self._request.samples, self._c.settings.segmenter)
        if utterance is None:
            return None
        with self.trace.span("asr"):
            try:
                async with asyncio.timeout(self._c.settings.asr_timeout_seconds):
                    transcription = await self._c.engines.asr.transcribe(utterance.samples, languages=languages)
            except TimeoutError:
                raise AsrError("Hearing took too long.", code="asr_timeout", retryable=True) from None
        text = clean_text(transcription.text).strip()
        if not text:
            return None
        return Heard(text, transcription.language, round(utterance.duration_seconds * 1000))

    async def _answer(self) -> Answer:
        """Think and speak at once: the voice reads each piece while the model writes the next."""
        pieces: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue(_PIECES_AHEAD)
        voice = asyncio.create_task(self._speak(pieces), name=f"voice-{self._turn.turn_id}")
        try:
            answer = await self._think(pieces)
            await pieces.put(None)
            await voice
        finally:
            if not voice.done():
                voice.cancel()
                await asyncio.gather(voice, return_exceptions=True)
        return answer

    async def _think(self, pieces: asyncio.Queue[tuple[str, str] | None]) -> Answer:
        persona, settings, language = self._c.persona, self._c.settings, self._heard.language
        tools = tuple(tool.spec for tool in self._c.tools)
        history = await choose_exchanges(
            self._turn.history,
            self._c.engines.llm.count_tokens,
            budget_tokens=min(settings.context_tokens, await self._c.room_for_history(self._heard.text)),
            max_turns=settings.context_turns,
        )
        request = LlmRequest(
            messages=(
                system_message(persona, tools),
                *turn_messages(persona, history, self._heard.text, language=language, said_at=self._turn.started_at),
            ),
            answer_schema=answer_schema(persona, language),
            max_tokens=settings.max_answer_tokens,
            temperature=settings.temperature,
            seed=settings.seed,
        )
        reader = AnswerReader(_ids(persona.emotions), _ids(persona.actions))
        cutter = SentenceCutter()
        emotion = "neutral"

        async def take(parts: Sequence[AnswerPart]) -> None:
            nonlocal emotion
            for part in parts:
                if isinstance(part, EmotionRead):
                    emotion = part.emotion
                    self.trace.mark("emotion")
                    await self._emit(FaceChosen(self._turn.turn_id, part.emotion))
                elif isinstance(part, ActionRead):
                    await self._emit(ActionChosen(self._turn.turn_id, part.action))
                else:
                    assert isinstance(part, ReplyRead)
                    for piece in cutter.feed(part.text):
                        self.trace.mark("first_clause")
                        await pieces.put((piece, emotion))

        with self.trace.span("llm"):
            error = await self._read_model(request, reader, take)
        answer, parts = reader.finish()
        await take(parts)
        for piece in cutter.finish():
            self.trace.mark("first_clause")
            await pieces.put((piece, emotion))
        self.trace.facts["answer_was_json"] = answer.was_json
        self.trace.facts["unknown_ids"] = list(answer.unknown_ids)
        if not answer.reply:
            raise error or LlmError("The model gave no reply.", code="llm_no_reply", retryable=True)
        if error is not None:  # words were already spoken: they stand, the error is kept
            self.trace.facts["llm_error"] = error.code
        return answer

    async def _read_model(
        self, request: LlmRequest, reader: AnswerReader, take: Callable[[Sequence[AnswerPart]], Awaitable[None]]
    ) -> LlmError | None:
        """Feed the reader until the model is done; the error that cut it short, if one did."""
        loop = ToolLoop(self._c.engines.llm, self._c.tools, self._c.settings.tool_rounds)
        try:
            async with asyncio.timeout(self._c.settings.llm_timeout_seconds), aclosing(loop.run(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, LlmText):
                        self.trace.mark("first_token")
                        await take(reader.feed(delta.text))
                    elif isinstance(delta, ToolRun):
                        self._tool_runs.append(delta)
                    else:
                        self._count(delta)
        except TimeoutError:
            return LlmError("Thinking took too long.", code="llm_timeout", retryable=True)
        except LlmError as error:
            return error
        return None

    def _count(self, done: LlmDone) -> None:
        self.trace.llm_calls += 1
        self.trace.prompt_tokens += done.prompt_tokens
        self.trace.cached_tokens += done.cached_tokens
        self.trace.completion_tokens += done.completion_tokens

    async def _speak(self, pieces: asyncio.Queue[tuple[str, str] | None]) -> None:
        """Speak pieces until the end mark; after a failure take the rest silently, so that the model is not blocked."""
        while (item := await pieces.get()) is not None:
            await self._say(*item)

    async def _say(self, text: str, emotion: str) -> None:
        if self._speech_error is not None:
            return
        rate_hz = self._c.settings.speech_sample_rate_hz
        spoken = speakable(text, self._heard.language)
        if not spoken:
            return
        request = SpeechRequest(text=spoken, language=self._heard.language, emotion=emotion)
        try:
            with self.trace.span("tts"):
                async with (
                    asyncio.timeout(self._c.settings.tts_timeout_seconds),
                    aclosing(self._c.engines.tts.synthesize(request)) as chunks,
                ):
                    started = False
                    async for chunk in chunks:
                        if not started:
                            started = True
                            await self._begin_sentence(text)
                        await self._send(AudioChunk(resample(chunk.samples, chunk.sample_rate_hz, rate_hz), rate_hz))
        except TimeoutError:
            self._speech_error = TtsError("Speaking took too long.", code="tts_timeout", retryable=True)
        except TtsError as error:
            self._speech_error = error
        if self._speech_error is not None:
            _log.error("turn %d: %s: %s", self._turn.turn_id, self._speech_error.code, self._speech_error.message)

    async def _begin_sentence(self, text: str) -> None:
        self.trace.mark("first_audio")
        await self.move("speaking")
        await self._emit(SentenceStarted(self._turn.turn_id, text))

    async def _send(self, chunk: AudioChunk) -> None:
        if len(chunk.samples) == 0:
            return
        self._speech_samples += len(chunk.samples)
        await self._emit(SpeechProduced(self._turn.turn_id, chunk))

    def _result(self, *, outcome: str, answer: Answer | None = None, error: StackChanError | None = None) -> TurnResult:
        error = error or self._speech_error
        if error is not None:
            self.trace.facts["error"] = {"code": error.code, "retryable": error.retryable}
        failed = outcome == "failed"
        answer = answer or Answer(reply="")
        # A voice that failed part-way is no audio: a device shows the text rather than stop in mid-sentence.
        spoken = self._speech_samples > 0 and self._speech_error is None
        return TurnResult(
            turn_id=self._turn.turn_id,
            session_id=self._turn.session_id,
            status="failed" if failed else "done",
            outcome=outcome,  # type: ignore[arg-type]
            transcript=self._heard.text,
            language=self._heard.language if self._heard.text else "",
            reply=answer.reply,
            emotion=answer.emotion,
            action=answer.action,
            speech_duration_ms=(
                round(self._speech_samples * 1000 / self._c.settings.speech_sample_rate_hz) if spoken else None
            ),
            memory={
                "searched": any(run.name == "search_memory" for run in self._tool_runs),
                "memory_ids": [],
                "source_checked": False,
            },
            error=TurnError(error.code, error.message, error.retryable) if error else None,
            tool_calls=tuple(
                {"name": r.name, "arguments": dict(r.arguments), "result": dict(r.result)} for r in self._tool_runs
            ),
        )


def _ids(entries: Sequence[Any]) -> frozenset[str]:
    return frozenset(entry.id for entry in entries)


def _written_language(text: str, languages: Sequence[str]) -> str:
    """The language of typed text: Japanese when it has kana or kanji, else English."""
    japanese = any("\u3040" <= c <= "\u30ff" or "\u4e00" <= c <= "\u9fff" for c in text)
    guess = "ja" if japanese else "en"
    return guess if guess in languages else languages[0]
