"""What a start does, in order: data, memory, models, prompt, turns; and how each is taken down again.

The second half of the composition root: `app.py` says what the server answers to, this what is behind it. Whoever is
opened here registers its end at once, so a start that fails half-way closes what there is. Holds no logic of the rooms.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from server.api.metrics import Metrics
from server.config import Settings
from server.context.prompts import stable_prefix
from server.devices.access import Access
from server.devices.endpoint import TurnService
from server.devices.live_endpoint import LiveService
from server.devices.uploads import Decoder, UploadLimits
from server.engines.base import Engines, LlmEngine, LlmMessage, ToolSpec
from server.errors import StackChanError
from server.memory.asking import Asker
from server.memory.reranking import Reranking
from server.memory.service import LongTermMemory
from server.memory.tools import has_forgotten
from server.persona import Persona
from server.pipeline.clips import VoiceClips
from server.pipeline.device_tools import device_tools, stable_device_specs
from server.pipeline.journal import TurnJournal
from server.pipeline.request import OpenTurn, TurnResult
from server.pipeline.runner import TurnRunner
from server.pipeline.time_tools import stable_specs, time_tools
from server.pipeline.timers import Timers
from server.pipeline.tool_results import FORGET
from server.pipeline.turn import TurnController
from server.pipeline.turn_log import log_turn
from server.run_file import RunFile, hold_data_dir, remove_run_file, write_run_file
from server.start_live import live_service, turn_settings
from server.storage.backup import clear_leftovers
from server.storage.database import WORLDS, Databases
from server.storage.failed_audio import FailedAudioStore
from server.storage.memory_records import Forgetting
from server.storage.speech import SpeechStore

_log = logging.getLogger(__name__)

_PURGE_SECONDS = 300.0
_GRACE_SECONDS = 5.0
# Whoever presses Ctrl-C is waiting: only what is nearly done may end.
_HURRY_SECONDS = 0.5
# A slower voice prepares its apologies beside the first turns.
_APOLOGIES_SECONDS = 3.0


class Readiness:
    """How far the start has come. `listeners` hear `(step, seconds)`: None when it begins, then how long it took."""

    def __init__(self) -> None:
        self.state: Literal["starting", "ready", "failed"] = "starting"
        self.error: StackChanError | None = None
        self.listeners: list[Callable[[str, float | None], None]] = []
        self._settled = asyncio.Event()

    async def wait(self) -> None:
        """Return when the server is ready or has failed to start."""
        await self._settled.wait()

    def settle(self, error: StackChanError | None) -> None:
        self.error = error
        self.state = "failed" if error else "ready"
        self._settled.set()

    def tell(self, step: str, seconds: float | None) -> None:
        for listener in self.listeners:
            listener(step, seconds)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the start of a server needs. `url`: where it will answer, for `run.json`; None: not written.
    `certificate`: the file of the one it shows; None: it speaks plain HTTP.
    """

    settings: Settings
    persona: Persona
    engines: Engines
    access: Access
    url: str | None
    certificate: Path | None
    clock: Callable[[], datetime]
    readiness: Readiness
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class Started:
    """A server that can take turns. `memory` None: it is turned off."""

    service: TurnService
    live: LiveService
    memory: LongTermMemory | None
    begin_stop: Callable[[bool], None]
    """Tell it at the stop signal, while requests can still be answered: a turn that is cut off gets its 503. True:
    somebody waits for the end, so that turns get half a second and not five.
    """


async def start(parts: Parts, stack: AsyncExitStack) -> Started:
    """Bring everything up; `stack` takes it down. Raises what cannot be survived, as a `StackChanError` or a group."""
    settings, persona, engines, clock = parts.settings, parts.persona, parts.engines, parts.clock
    stack.enter_context(hold_data_dir(settings.data_dir))
    await asyncio.to_thread(clear_leftovers, settings.data_dir)
    if parts.url is not None:
        boot_id = secrets.token_hex(8)
        shown = str(parts.certificate) if parts.certificate is not None else ""
        run = RunFile(os.getpid(), parts.url, parts.access.boot_token, boot_id, shown)
        write_run_file(settings.data_dir, run)
        stack.callback(remove_run_file, settings.data_dir, boot_id)
    databases = await Databases.open(settings.data_dir, settings.world)
    stack.push_async_callback(databases.close)
    journal = TurnJournal(databases, settings.session, persona)
    stack.push_async_callback(journal.close)
    closed = await journal.close_running_turns(clock())
    if closed:
        _log.warning("%d turns were cut by the last stop; their words are kept, they are closed as failed", len(closed))
    speech = SpeechStore(settings.data_dir / "speech", settings.speech.keep_minutes * 60)
    failed_audio = FailedAudioStore(settings.data_dir / "failed-audio")
    stack.enter_context(_background(_purge_for_ever(speech, failed_audio)))
    memory = _memory(parts, databases, (speech, failed_audio)) if settings.memory.enabled else None
    if memory is not None:
        stack.push_async_callback(memory.close)

    async with asyncio.TaskGroup() as starts:
        for kind, engine in engines.by_kind().items():
            stack.push_async_callback(engine.close)
            starts.create_task(_step(parts.readiness, f"{kind} {engine.name}", engine.start()))
        if memory is not None:
            # Needs no model yet, and is done before anything is searched.
            starts.create_task(_step(parts.readiness, f"memory {settings.memory.index_kind}", memory.open()))
    clips = await _warm(parts, stack, _prefix(parts, memory))
    if memory is not None:
        stack.push_async_callback(memory.stop)  # while the models are still there
        await memory.start()

    timers = Timers(databases, lambda device_id: live.devices.announcing_of(device_id), clock=clock)
    controller = TurnController(
        engines,
        persona,
        journal,
        turn_settings(settings),
        clock=clock,
        tools=(
            *(memory.tools_for(engines.llm.capabilities) if memory is not None else ()),
            *time_tools(timers, persona, engines.llm.capabilities, clock),
            *device_tools(lambda device_id: live.devices.connected_device(device_id), engines.llm.capabilities),
        ),
        observers=(parts.metrics.observe_turn, log_turn),
        clips=clips,
        keep_recording=failed_audio.keep if settings.asr.keep_failed_audio else None,
        hot_words=_hot_words(memory) if memory is not None else None,
        gate=memory.gate if memory is not None else None,
        after_turn=_after_turn(memory, persona) if memory is not None else None,
    )
    grace_seconds = _GRACE_SECONDS

    async def close_turns() -> None:
        await runner.close(grace_seconds)
        await controller.close(grace_seconds)

    def begin_stop(hurry: bool) -> None:
        nonlocal grace_seconds
        grace_seconds = min(_HURRY_SECONDS if hurry else _GRACE_SECONDS, _GRACE_SECONDS)
        runner.begin_close(grace_seconds)

    runner = TurnRunner(
        controller,
        journal,
        speech,
        running_turns=settings.limits.running_turns,
        queued_turns=settings.limits.queued_turns,
        clock=clock,
    )
    stack.push_async_callback(close_turns)
    limits = UploadLimits(settings.limits.upload_bytes, settings.limits.upload_seconds, settings.limits.text_characters)
    decoder = Decoder(limits)
    stack.callback(decoder.close)
    service = TurnService(
        authorizer=await parts.access.open(databases, clock),
        runner=runner,
        journal=journal,
        speech=speech,
        limits=limits,
        decoder=decoder,
        speech_sample_rate_hz=settings.tts.speech_sample_rate_hz,
    )
    words = _hot_words(memory) if memory is not None else None
    live = live_service(
        settings,
        persona,
        engines,
        service,
        controller,
        clock=clock,
        hot_words=words,
        on_early_call=parts.metrics.observe_early_call,
        on_ignored=parts.metrics.observe_ignored,
    )
    stack.push_async_callback(live.devices.close)  # first of all: who is connected is told
    live.devices.on_connected = timers.device_came
    stack.push_async_callback(timers.close)
    await timers.start()
    return Started(service, live, memory, begin_stop)


# --- memory ---


def _memory(parts: Parts, databases: Databases, recordings: Sequence[SpeechStore | FailedAudioStore]) -> LongTermMemory:
    settings, llm = parts.settings, parts.engines.llm

    async def forget_recordings(reached: Forgetting) -> None:
        for store in recordings:
            await store.remove(reached.turn_ids)

    async def read_prompt_again() -> None:
        await _read_prompt(llm, _prefix(parts, memory))

    rerank, wanted = parts.engines.rerank, settings.rerank
    memory = LongTermMemory(
        databases,
        llm,
        parts.engines.embedding,
        settings.memory,
        settings.session,
        world_folder=settings.data_dir / WORLDS / settings.world,
        persona_id=parts.persona.persona_id,
        zone=ZoneInfo(parts.persona.zone),
        clock=parts.clock,
        # The cache of a model on this machine may hold one prompt, which is now the summarizer's.
        after_asking=read_prompt_again if llm.capabilities.one_at_a_time else None,
        on_forgotten=(forget_recordings,),
        on_search=parts.metrics.observe_search,
        reranking=Reranking(rerank, most=wanted.candidates, seconds=wanted.timeout_seconds) if rerank else None,
    )
    return memory


async def _read_prompt(llm: LlmEngine, prefix: _Prefix) -> None:
    try:
        await llm.warm_prefix(*prefix)
    except StackChanError as error:  # the next turn reads it
        _log.warning("the prompt could not be read again: %s", error.code)


def _hot_words(memory: LongTermMemory) -> Callable[[OpenTurn], Awaitable[Sequence[str]]]:
    async def hot_words(turn: OpenTurn) -> Sequence[str]:
        return memory.hot_words_for(turn.session_id, turn.speaker_id)

    return hot_words


def _after_turn(memory: LongTermMemory, persona: Persona) -> Callable[[OpenTurn, TurnResult], Awaitable[None]]:
    zone = ZoneInfo(persona.zone)

    async def after_turn(turn: OpenTurn, result: TurnResult) -> None:
        asker = Asker(
            persona=persona.persona_id,
            speaker=turn.speaker_id,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            asked_at=turn.started_at,
            zone=zone,
            words=result.transcript,
        )
        await memory.turn_ended(asker, forgot=any(has_forgotten(call) for call in result.tool_calls))

    return after_turn


# --- models ---


_Prefix = tuple[Sequence[LlmMessage], Sequence[ToolSpec]]
"""What nearly every prompt begins with, and the tools that nearly every turn is offered first."""
_ASKED_FOR = (FORGET,)
"""Tools that only a few turns are offered, by their words."""


def _prefix(parts: Parts, memory: LongTermMemory | None) -> _Prefix:
    capabilities = parts.engines.llm.capabilities
    tools = memory.tools_for(capabilities) if memory is not None else ()
    specs = (*(tool.spec for tool in tools), *stable_specs(capabilities), *stable_device_specs(capabilities))
    first = tuple(spec for spec in specs if not spec.on_request and spec.name not in _ASKED_FOR)
    return stable_prefix(parts.persona, capabilities, specs), first


async def _warm(parts: Parts, stack: AsyncExitStack, prefix: _Prefix) -> VoiceClips:
    """Read the prompt and prepare what the voice may have to say at once."""
    settings, engines, readiness = parts.settings, parts.engines, parts.readiness
    started = time.perf_counter()
    readiness.tell("apologies", None)
    clips = VoiceClips()
    making = clips.make_for(
        parts.persona, engines.tts, settings.tts.speech_sample_rate_hz, timeout_seconds=settings.tts.timeout_seconds
    )
    stack.enter_context(_background(making))
    readiness.tell("prompt", None)
    await engines.llm.warm_prefix(*prefix)
    readiness.tell("prompt", time.perf_counter() - started)
    # A slower voice goes on beside the first turns, and an ordinary machine has one: that is no warning.
    if await clips.wait(_APOLOGIES_SECONDS):
        readiness.tell("apologies", time.perf_counter() - started)
    return clips


async def _step(readiness: Readiness, step: str, work: Coroutine[Any, Any, None]) -> None:
    started = time.perf_counter()
    readiness.tell(step, None)
    await work
    readiness.tell(step, time.perf_counter() - started)


async def _purge_for_ever(*stores: SpeechStore | FailedAudioStore) -> None:
    while True:
        for store in stores:
            try:
                await store.purge()
            except OSError as error:
                _log.warning("old recordings could not be removed: %s", error)
        await asyncio.sleep(_PURGE_SECONDS)


@contextmanager
def _background(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
