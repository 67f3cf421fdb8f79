"""The servers of `bench_live`: as it is shipped, or with the parts swapped that make it begin early.

Run by `tests.soaks.server`, which asks `engines` before anything is put together. The ways to answer are no settings of
the server, for no owner has a use for the slower ones. Knows no robot and no figure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Literal

from _latency_stub import stub_engines
from _latency_times import SPEAK_SECONDS

import server.pipeline.answering as answering
import server.start_live as start_live
from server.config import load_settings
from server.engines.base import Engines, SpeechRequest
from server.engines.registry import build_engines
from server.events import AudioChunk, Samples, Utterance
from server.persona import find_persona, load_persona
from server.pipeline.live_listener import ListenMode, LiveListener, Said
from server.pipeline.request import OpenTurn
from server.pipeline.sentences import SentenceCutter
from tests.fakes.engines import FakeTts

Mode = Literal["speculative", "streaming", "serial"]
MODES: tuple[Mode, ...] = ("speculative", "streaming", "serial")
ENGINES = "_live_modes:engines"
MODE, STUB = "BENCH_LIVE_MODE", "BENCH_LIVE_STUB"


class PatientListener(LiveListener):
    """Begins nothing before an utterance is surely over: then its words are heard, in its turn."""

    async def hear(self, samples: Samples, mode: ListenMode, expected: OpenTurn | None) -> list[Said]:
        said = await super().hear(samples, mode, None)
        return [self._heard_now(one, expected) for one in said] if mode != "manual" and expected is not None else said

    def _heard_now(self, said: Said, expected: OpenTurn) -> Said:
        # As the shipped one hears it, without looking for speech in it once more.
        utterance = Utterance(said.samples)
        return replace(said, ahead=self._foresight.ahead(expected, utterance, said.trace, answer=False))


class WholeReply(SentenceCutter):
    """Gives one piece: all of the reply, when there is no more of it."""

    def __init__(self) -> None:
        super().__init__()
        self._reply = ""

    def feed(self, text: str) -> list[str]:
        self._reply += text
        return []

    def finish(self) -> list[str]:
        reply, self._reply = self._reply.strip(), ""
        return [reply] if reply else []


class HastyTts(FakeTts):
    """Takes as long as that of `bench_latency`, but its answers are short to listen to."""

    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        await asyncio.sleep(SPEAK_SECONDS)
        async for chunk in super().synthesize(request):
            yield chunk


def swap_parts(mode: Mode) -> None:
    """Make the server that is put together next, in this process, answer in this way."""
    if mode != "speculative":
        start_live.LiveListener = PatientListener  # type: ignore[misc]
    if mode == "serial":
        answering.SentenceCutter = WholeReply  # type: ignore[misc]


def engines() -> Engines:
    """Of the server in this process, whose parts are swapped as the environment says."""
    mode = os.environ[MODE]
    if mode not in MODES:
        raise SystemExit(f"{MODE} must be one of {', '.join(MODES)}, not {mode}.")
    swap_parts(mode)
    if os.environ.get(STUB):
        return replace(stub_engines(), tts=HastyTts())
    settings = load_settings()
    return build_engines(settings, load_persona(find_persona(settings.data_dir, settings.persona_path)))
