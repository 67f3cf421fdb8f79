"""How turns and live conversations are put together from the settings; a part of the composition root.

Opens and closes nothing: `start.py` does. Holds no logic of the rooms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from server.audio.endpointing import EndpointSettings
from server.audio.segmenter import SegmenterSettings
from server.config import Settings
from server.devices.endpoint import TurnService
from server.devices.live_endpoint import LiveService, OnIgnored
from server.devices.schemas import turn_answer
from server.devices.session import LiveDevice, LiveDevices, Robot
from server.devices.voice import VoiceSettings
from server.devices.wire import AudioFormat, DeviceHello
from server.engines.base import Engines
from server.persona import Persona
from server.pipeline.announcing import Announcer
from server.pipeline.conversation import Conversation, ConversationOut, ConversationSettings
from server.pipeline.foresight import Foresight
from server.pipeline.live_listener import LiveListener
from server.pipeline.parts import HotWords
from server.pipeline.request import TurnRequest, TurnResult
from server.pipeline.speech_ahead import OnEarlyCall
from server.pipeline.turn import TurnController, TurnSettings


def live_service(
    settings: Settings,
    persona: Persona,
    engines: Engines,
    service: TurnService,
    controller: TurnController,
    *,
    clock: Callable[[], datetime],
    hot_words: HotWords | None,
    on_early_call: OnEarlyCall,
    on_ignored: OnIgnored,
) -> LiveService:
    """What devices need that are connected all the time."""
    runner, knobs = service.runner, settings.live
    alone = engines.llm.capabilities.one_at_a_time
    foresight = Foresight(
        engines,
        persona,
        service.journal,
        controller.settings,
        controller.thinker,
        clock=clock,
        hot_words=hot_words,
        # A model on this machine does one thing at a time; one behind an endpoint does not mind a guess.
        idle=lambda: not alone or runner.running + runner.queued == 0,
        answer_early=knobs.answer_early,
        on_early_call=on_early_call,
    )
    endpoint = endpoint_settings(settings)
    rate_hz, seconds = settings.tts.speech_sample_rate_hz, settings.tts.timeout_seconds
    announcer = Announcer(engines.tts, service.journal.next_turn_id, rate_hz, seconds)

    def converse(device: TurnRequest, out: ConversationOut, echo_cancel: bool) -> Conversation:
        listener = LiveListener(engines.vad, foresight, endpoint, runner.new_trace)
        return Conversation(
            device,
            out,
            runner,
            listener,
            foresight,
            ConversationSettings(knobs.guard_ms / 1000, knobs.interrupting_speech_ms / 1000),
            announcer,
            echo_cancel=echo_cancel,
            monotonic=time.perf_counter,
        )

    def answer_of(result: TurnResult) -> dict[str, Any]:
        return turn_answer(result, controller.settings.speech_sample_rate_hz).model_dump(mode="json")

    def make_device(hello: DeviceHello, audio: AudioFormat) -> LiveDevice:
        robot = Robot(persona.name, persona.languages[0])
        voice = VoiceSettings(knobs.lead_frames, knobs.resume_seconds)
        return LiveDevice(hello, audio, robot, converse, answer_of, voice, time.perf_counter)

    return LiveService(service.authorizer, LiveDevices(knobs.most_devices), make_device, on_ignored)


def endpoint_settings(settings: Settings) -> EndpointSettings:
    """When live speech begins and ends."""
    segmenter = turn_settings(settings).segmenter
    rest_seconds = segmenter.pre_roll_seconds + segmenter.end_silence_seconds
    return EndpointSettings(
        segmenter,
        min(settings.live.notice_silence_ms / 1000, segmenter.end_silence_seconds),
        max(settings.live.longest_utterance_seconds, rest_seconds + 1),
    )


def turn_settings(settings: Settings) -> TurnSettings:
    """What a turn needs to know of the settings."""
    return TurnSettings(
        segmenter=SegmenterSettings(
            start_probability=settings.vad.threshold,
            # Silero's own margin: speech that has begun is given up later than it was found.
            stay_probability=max(0.01, settings.vad.threshold - 0.15),
            start_windows=settings.listening.start_speech_windows,
            end_silence_seconds=settings.listening.end_silence_ms / 1000,
            pre_roll_seconds=settings.listening.pre_roll_ms / 1000,
        ),
        asr_timeout_seconds=settings.asr.timeout_seconds,
        llm_timeout_seconds=settings.llm.timeout_seconds,
        tts_timeout_seconds=settings.tts.timeout_seconds,
        max_answer_tokens=settings.llm.max_answer_tokens,
        temperature=settings.llm.temperature,
        seed=settings.llm.seed,
        tool_rounds=settings.llm.tool_rounds,
        speech_sample_rate_hz=settings.tts.speech_sample_rate_hz,
        context_tokens=settings.session.context_tokens,
        context_turns=settings.session.context_turns,
        search_seconds=settings.memory.search_timeout_seconds,
    )
