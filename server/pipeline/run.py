"""One turn on its way: hear, store, think while speaking; and what a failure becomes.

Stages only transform; this class owns their order and their overlap. It knows no wire format and no table: events go
to the device link, words go to the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from server.engines.base import Engines
from server.errors import AsrError, StackChanError, StorageError, VadError
from server.events import FaceChosen, Pcm16, TranscriptReady, TurnOutcome
from server.log_context import error_fields
from server.persona import Persona
from server.pipeline.answer import Answer
from server.pipeline.apology import apology, apology_emotion, fault_of
from server.pipeline.clips import VoiceClips
from server.pipeline.device_link import DeviceLink
from server.pipeline.expected_words import expected_words
from server.pipeline.filler import Filler
from server.pipeline.hearing import hear
from server.pipeline.live import LiveTurn
from server.pipeline.parts import Emit, HotWords, Journal, KeepRecording, TurnSettings
from server.pipeline.request import Heard, OpenTurn, TurnError, TurnRequest, TurnResult
from server.pipeline.speaking import Voice, new_pieces
from server.pipeline.thinking import Thinker, Thought
from server.pipeline.tool_results import memory_use
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)


class TurnRun:
    """The state of one turn while it runs."""

    def __init__(
        self,
        engines: Engines,
        persona: Persona,
        journal: Journal,
        settings: TurnSettings,
        thinker: Thinker,
        *,
        turn: OpenTurn,
        request: TurnRequest,
        trace: TurnTrace,
        clock: Callable[[], datetime],
        emit: Emit,
        clips: VoiceClips,
        keep_recording: KeepRecording | None,
        hot_words: HotWords | None,
    ) -> None:
        self.device = DeviceLink(turn.turn_id, emit, trace)
        self._engines = engines
        self._persona = persona
        self._journal = journal
        self._settings = settings
        self._thinker = thinker
        self._turn = turn
        self._request = request
        self._trace = trace
        self._clock = clock
        self._clips = clips
        self._keep_recording = keep_recording
        self._hot_words = hot_words
        self._heard = turn.heard or Heard("", persona.languages[0])
        self._held = request.live.held if request.live is not None else None
        speech = None if self._held is None else self._held.speech
        self._voice = Voice(engines.tts, settings, turn.turn_id, self.device, trace, speech)
        self._thought: Thought | None = None
        self._answer: Answer | None = None

    async def stages(self) -> TurnResult:
        """The turn without failures; one that is spoken live may be interrupted."""
        live = self._request.live
        if live is None:
            await self._stages()
        elif not await self._live_stages(live):
            self._trace.facts["interrupted"] = live.reason
            self._trace.mark("interrupted")
            said = self._voice.words.until(await live.playback.final_ms())
            moved = self._thought.movement if self._thought is not None else Answer(reply="")
            return self._result("interrupted", replace(moved, reply=said))
        return self._result("no_speech" if self._answer is None else "ok", self._answer)

    async def _live_stages(self, live: LiveTurn) -> bool:
        """False: the turn was interrupted."""
        try:
            return await live.unless_interrupted(self._stages())
        finally:
            if self._held is not None:
                await self._held.drop()
                self._trace.early_calls_used += self._held.fate == "used"
                self._trace.early_calls_wasted += self._held.fate == "wasted"
                if self._held.speech is not None and (fate := self._held.speech.fate) is not None:
                    self._trace.facts["speech_ahead"] = fate

    async def _stages(self) -> None:
        await self.device.move("listening")
        heard = await self._hear()
        if heard is None:
            return
        self._heard = heard
        if self._turn.heard is None:
            await self._store(heard)
        self._trace.mark("words_stored")
        await self.device.emit(TranscriptReady(self._turn.turn_id, heard.text, heard.language))
        await self.device.move("thinking")
        await self._tell_if_too_long(heard)
        answer = await self._think_and_speak()
        await self._play_out()
        self._answer = answer

    async def _tell_if_too_long(self, heard: Heard) -> None:
        if self._request.live is not None and self._request.live.too_long:
            self._trace.facts["too_long"] = True
            if (clip := self._clips.that_was_long(heard.language)) is not None:
                await self._voice.fill(clip)

    async def _hear(self) -> Heard | None:
        if self._request.heard_early is not None:
            return await self._request.heard_early
        hot_words: tuple[str, ...] = ()
        if self._request.samples is not None:
            hot_words = await expected_words(self._hot_words, self._engines.asr, self._turn)
        return await hear(self._request, self._engines, self._persona, self._settings, self._trace, hot_words)

    async def apologize(self, error: StackChanError) -> TurnResult:
        """Say that something failed, in the persona's language; the error goes with the result."""
        _log.error("the turn failed: %s", error.code, extra=error_fields(error))
        language, fault = self._heard.language, fault_of(error)
        answer = Answer(reply=apology(fault, language), emotion=apology_emotion(self._persona))
        await self.device.move("error")
        await self.device.emit(FaceChosen(self._turn.turn_id, answer.emotion))
        clip, live = self._clips.apology(fault, language), self._request.live
        saying = self._say_apology(answer, language, clip)
        if live is None:
            await saying
        elif not await live.unless_interrupted(saying):
            answer = replace(answer, reply=self._voice.words.until(await live.playback.final_ms()))
        spoken = self._voice.duration_ms is not None
        self._trace.facts["apology"] = "none" if not spoken else "live" if clip is None else "clip"
        if isinstance(error, AsrError | VadError):
            await self._keep()
        return self._result("failed", answer, error)

    async def _say_apology(self, answer: Answer, language: str, clip: Pcm16 | None) -> None:
        if clip is not None:
            await self._voice.replay(answer.reply, clip)
        else:
            await self._voice.say(answer.reply, language, answer.emotion)
        await self._play_out()

    async def _play_out(self) -> None:
        """Of a turn that is spoken live: until the device has played it."""
        if self._request.live is not None:
            self._request.live.models_free()
            await self._request.live.playback.played_out()

    async def _keep(self) -> None:
        """Keep the recording, where that is asked for. After the apology: nobody waits for a disk."""
        if self._keep_recording is None or self._request.samples is None:
            return
        try:
            await self._keep_recording(self._turn.turn_id, self._request.samples)
        except Exception as error:  # an extra must not cost the turn
            _log.error("the recording could not be kept", exc_info=error)

    async def _store(self, heard: Heard) -> None:
        """Store the user's words. Raises `StorageError`, and nothing else: what is not stored is not answered.

        Who is interrupted meanwhile waits for it: what was said stays said.
        """
        storing = asyncio.ensure_future(self._journal.heard(self._turn, heard, self._clock()))
        try:
            await _to_the_end(storing)
        except StorageError:
            raise
        except Exception as error:
            _log.error("storing failed on a defect", exc_info=error)
            raise StorageError(f"{type(error).__name__} while storing what was said.") from error

    async def _think_and_speak(self) -> Answer:
        """Think and speak at once: the voice reads each piece while the model writes the next."""
        pieces, filler, turn_id = new_pieces(), self._filler(), self._turn.turn_id
        held = None if self._held is None else self._held.completion
        thought = Thought(self._thinker, self._turn, self._heard, self.device, self._trace, pieces, filler, held)
        self._thought = thought
        speaking = asyncio.create_task(self._voice.speak(pieces, self._heard.language), name=f"voice-{turn_id}")
        filling = asyncio.create_task(filler.wait(), name=f"filler-{turn_id}")
        try:
            answer = await thought.answer()
            await pieces.put(None)
            await speaking
        finally:
            speaking.cancel()
            filling.cancel()
            _, filled = await asyncio.gather(speaking, filling, return_exceptions=True)
            if isinstance(filled, Exception):  # an extra must not cost the turn
                _log.error("the filler failed", exc_info=filled)
        return answer

    def _filler(self) -> Filler:
        doubts = any(entry.id == "doubt" for entry in self._persona.emotions)
        return Filler(
            self._voice,
            self.device,
            self._trace,
            turn_id=self._turn.turn_id,
            seconds=self._settings.filler_seconds,
            face="doubt" if doubts else None,
            clip=self._clips.filler(self._heard.language, self._turn.turn_id),
        )

    def _result(
        self, outcome: TurnOutcome, answer: Answer | None = None, error: StackChanError | None = None
    ) -> TurnResult:
        error = error or self._voice.error
        if error is not None:
            self._trace.facts["error"] = {"code": error.code, "retryable": error.retryable}
        answer = answer or Answer(reply="")
        tool_runs = self._thought.tool_runs if self._thought is not None else ()
        used = memory_use((run.name, run.result) for run in tool_runs)
        self._trace.facts["memory_ids"] = list(used.memory_ids)
        return TurnResult(
            turn_id=self._turn.turn_id,
            session_id=self._turn.session_id,
            status="failed" if outcome == "failed" else "done",
            outcome=outcome,
            transcript=self._heard.text,
            language=self._heard.language if self._heard.text else "",
            reply=answer.reply,
            emotion=answer.emotion,
            action=answer.action,
            speech_duration_ms=self._voice.duration_ms,
            memory={
                "searched": used.searched,
                "memory_ids": list(used.memory_ids),
                "source_checked": used.source_checked,
            },
            error=TurnError(error.code, error.message, error.retryable) if error else None,
            tool_calls=tuple(
                {"name": run.name, "arguments": dict(run.arguments), "result": dict(run.result)} for run in tool_runs
            ),
        )


async def _to_the_end(work: asyncio.Future[None]) -> None:
    """Wait for `work` even when cancelled; the cancellation goes on afterwards."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await work
        raise
