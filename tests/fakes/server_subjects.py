"""The engines that are servers, each joined to its fake, with what tests of bad moments ask of all of them."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from server.config import Settings, load_settings
from server.engines import registry
from server.engines.base import LlmMessage, LlmRequest, LlmText, SpeechRequest
from server.engines.llm.openai_chat import OpenAiChatLlm
from server.engines.llm.presets import resolve_endpoint
from server.errors import EngineError
from server.persona import default_persona_path, load_persona
from tests.fakes.chat_engine import settled
from tests.fakes.chat_server import ChatServer, whole
from tests.fakes.engine_servers import (
    HEARD,
    RATE_HZ,
    TONE,
    WAV,
    HearingServer,
    IrodoriServer,
    SpeechServer,
    VoicevoxServer,
    heard,
    wav,
)
from tests.fakes.http_replies import (
    raw_answer,
)
from tests.fakes.http_server import Behaviour, HttpServer

KEY = "sk-very-secret-0123456789"
WORDS = "妻への贈り物はないしょだよ"
TIMEOUT_SECONDS = 10.0
"""Long enough for a busy machine; a moment that ends in a time-out has `SHORT_SECONDS`."""
SHORT_SECONDS = 1.0
PERSONA = load_persona(default_persona_path())
JSON_TYPE = {"Content-Type": "application/json"}
HTML_TYPE = {"Content-Type": "text/html; charset=utf-8"}


@dataclass(frozen=True)
class Subject:
    """One engine with its server. `retries`: it asks again by itself; else the turn does."""

    name: str
    section: str
    server: Callable[[], HttpServer]
    settings: dict[str, Any]
    good: Behaviour
    body: bytes
    type: dict[str, str]
    retries: bool = True
    collects: bool = True
    """Nothing of an answer is given on before its end, so that half of one can be asked for again."""

    def __str__(self) -> str:
        return self.name


COMPLETION = (
    '{"choices":[{"index":0,"message":{"role":"assistant","content":"うん。"},"finish_reason":"stop"}]}'.encode()
)
HEARING = f'{{"text":"{HEARD}","language":"japanese"}}'.encode()
PCM = TONE.tobytes()
SUBJECTS = [
    Subject("openai", "llm", ChatServer, {}, whole("うん。"), COMPLETION, JSON_TYPE, retries=False),
    Subject("irodori", "tts", IrodoriServer, {}, wav(), WAV, {"Content-Type": "audio/wav"}),
    Subject("voicevox", "tts", VoicevoxServer, {}, wav(), WAV, {"Content-Type": "audio/wav"}),
    Subject("openai-speech", "tts", SpeechServer, {}, wav(), WAV, {"Content-Type": "audio/x-wav"}, collects=False),
    Subject(
        "openai-speech",
        "tts",
        SpeechServer,
        {"format": "pcm", "pcm_sample_rate_hz": RATE_HZ},
        raw_answer(200, PCM, {"Content-Type": "audio/pcm"}),
        PCM,
        {"Content-Type": "audio/pcm"},
        collects=False,
    ),
    Subject("openai-asr", "asr", HearingServer, {"model": "qwen"}, heard(), HEARING, JSON_TYPE),
]


def settings_for(subject: Subject, url: str, timeout_seconds: float) -> Settings:
    section: dict[str, Any] = {"base_url": url, "api_key": KEY, "engine": subject.name, **subject.settings}
    section |= {"timeout_seconds": timeout_seconds}
    section |= {"english_engine": "same"} if subject.section == "tts" else {}
    section |= {"model": "qwen-fake"} if subject.section == "llm" else {}
    return load_settings({}, **{subject.section: section})


def build(subject: Subject, url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> Any:
    settings = settings_for(subject, url, timeout_seconds)
    if subject.section == "llm":
        return OpenAiChatLlm(resolve_endpoint(settings.llm), context_tokens=8192, timeout_seconds=timeout_seconds)
    engine = registry.find_engine(settings, subject.section).build(settings, PERSONA)
    # The languages' parts are tested elsewhere; here it is the server that matters.
    return engine._engines["ja"] if hasattr(engine, "_engines") else engine


async def ask(subject: Subject, engine: Any) -> Any:
    """The whole result: words, or samples."""
    if subject.section == "llm":
        request = LlmRequest((LlmMessage("user", WORDS),))
        return "".join([delta.text async for delta in engine.generate(request) if isinstance(delta, LlmText)])
    if subject.section == "asr":
        return (await engine.transcribe(np.full(8000, 0.1, np.float32), languages=("ja", "en"), hot_words=[WORDS])).text
    chunks = [chunk async for chunk in engine.synthesize(SpeechRequest(WORDS, "ja", "happy"))]
    assert all(chunk.sample_rate_hz == RATE_HZ for chunk in chunks)
    return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.int16)


def is_good(subject: Subject, result: Any) -> bool:
    if subject.section == "llm":
        return bool(result == "うん。")
    return bool(result == HEARD) if subject.section == "asr" else np.array_equal(result, TONE)


@asynccontextmanager
async def watched(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, timeout_seconds: float = TIMEOUT_SECONDS
) -> AsyncIterator[Any]:
    """A started engine; at the end nothing is left and no secret told."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "openai"):
        engine = build(subject, server.url, timeout_seconds)
        await engine.start()
        tasks = asyncio.all_tasks()
        try:
            yield engine
            await settled(tasks)
        finally:
            await engine.close()
            await server.until_idle()
        assert KEY not in repr(engine) + str(vars(engine)) + caplog.text
        ours = "".join(record.getMessage() for record in caplog.records if record.name.startswith("server"))
        assert WORDS not in ours


async def outcome(work: Awaitable[Any]) -> tuple[Any, str]:
    """The result, or the error's code without its section; long before a time-out that the turn would set."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    failure: EngineError | None = None
    result: Any = None
    try:
        result = await work
    except EngineError as error:
        failure = error
    assert loop.time() - begun < TIMEOUT_SECONDS
    if failure is None:
        return result, "good"
    shown = "".join(traceback.format_exception(failure)) + repr(failure) + str(failure) + str(failure.hint)
    assert KEY not in shown
    assert WORDS not in shown
    assert failure.__cause__ is None
    assert failure.__context__ is None
    assert failure.next_step
    return None, failure.code.partition("_")[2]
