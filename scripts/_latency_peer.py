"""The peer of `bench_latency`: pipecat with the same stand-in engines, one pipeline for each connection.

    PYTHON _latency_peer.py default|tuned PORT

`default`: its own turn taking as it comes. `tuned`: the ends of turns by the shortest silences that it lets be set, and
the voice begins at a clause. Runs in an environment of its own, not this project's; knows nothing of our server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uvicorn
from _latency_times import (
    CHARACTER_SECONDS,
    HEAR_SECONDS,
    HEARD,
    SPEAK_SECONDS,
    SPEECH_RATE_HZ,
    TOKENS,
    token_seconds,
)
from fastapi import FastAPI, WebSocket
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.processors.frame_processor import FrameDirection
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.services.llm_service import LLMService
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.utils.time import time_now_iso8601
from pipecat.workers.runner import WorkerRunner

TUNED_STOP_SECONDS = 0.2


class RawPcm(FrameSerializer):
    async def serialize(self, frame: Frame) -> str | bytes | None:
        return frame.audio if isinstance(frame, OutputAudioRawFrame) else None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        if isinstance(data, str):
            return None
        return InputAudioRawFrame(audio=data, sample_rate=16_000, num_channels=1)


class FixedStt(SegmentedSTTService):
    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        await asyncio.sleep(HEAR_SECONDS)
        yield TranscriptionFrame(HEARD, "robot", time_now_iso8601(), finalized=True)


class FixedLlm(LLMService):
    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        await self.push_frame(LLMFullResponseStartFrame())
        began = asyncio.get_running_loop().time()
        for number, token in enumerate(TOKENS):
            await asyncio.sleep(max(0.0, began + token_seconds(number) - asyncio.get_running_loop().time()))
            await self.push_frame(LLMTextFrame(token))
        await self.push_frame(LLMFullResponseEndFrame())


class FixedTts(TTSService):
    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        await asyncio.sleep(SPEAK_SECONDS)
        samples = round(CHARACTER_SECONDS * SPEECH_RATE_HZ) * len(text)
        yield TTSAudioRawFrame(b"\x00\x10" * samples, SPEECH_RATE_HZ, 1, context_id=context_id)


def user_params(manner: str) -> LLMUserAggregatorParams:
    if manner == "default":
        return LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer())
    stop: Any = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.0)
    return LLMUserAggregatorParams(
        vad_analyzer=SileroVADAnalyzer(params=VADParams(stop_secs=TUNED_STOP_SECONDS)),
        user_turn_strategies=UserTurnStrategies(stop=[stop]),
    )


def make_app(manner: str) -> FastAPI:
    app = FastAPI()

    @app.websocket("/")
    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        params = FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True, serializer=RawPcm())
        transport = FastAPIWebsocketTransport(websocket=websocket, params=params)
        user, assistant = LLMContextAggregatorPair(LLMContext(), user_params=user_params(manner))
        tts = FixedTts(push_start_frame=True, push_stop_frames=True, stop_frame_timeout_s=0.3)
        stages = [transport.input(), FixedStt(ttfs_p99_latency=HEAR_SECONDS), user, FixedLlm(), tts]
        worker = PipelineWorker(
            Pipeline([*stages, transport.output(), assistant]),
            params=PipelineParams(audio_in_sample_rate=16_000, audio_out_sample_rate=SPEECH_RATE_HZ),
            enable_rtvi=False,
        )

        @transport.event_handler("on_client_disconnected")
        async def gone(transport: Any, client: Any) -> None:
            await worker.cancel()

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        await runner.run()

    return app


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="CRITICAL")
    uvicorn.run(make_app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
