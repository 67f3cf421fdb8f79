"""Any server with OpenAI's `/v1/audio/transcriptions` as the hearing: clouds, whisper servers, vLLM with Qwen3-ASR.

One utterance is one WAV file. Words to expect go along as the prompt; an answer that is only these is found where
every engine's is (`pipeline/hearing_guards`). The longer form of the answer is asked for, which tells how sure the
model is, until the server turns out not to have it. It does not know what becomes of the words.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from server.audio.codec import encode_wav
from server.audio.levels import to_pcm16
from server.config_sections import AsrSettings
from server.engines.asr.faster_whisper import hint_of
from server.engines.asr.transcripts import UNKNOWN_LANGUAGE, language_code, read_marks
from server.engines.base import AsrCapabilities, Transcription
from server.engines.http_client import names_in
from server.engines.http_endpoint import HttpEndpoint, Service, resolve_access
from server.engines.http_errors import web_page
from server.engines.http_service import Call, FieldRefused, HttpService
from server.errors import AsrError, ConfigError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

log = logging.getLogger(__name__)

USUAL_MODEL = "whisper-1"
"""What servers that list no model take for theirs."""
MOST_HOT_WORDS = 12
"""Longer lists set less right (see `WhisperRecipe.max_hot_words`), and may be repeated instead of what was said."""
HEARING = Service("asr", "The hearing", "most end in /v1")
_HEARS = ("asr", "whisper", "transcri", "voxtral", "parakeet", "sensevoice")
_BODY_BYTES = 1024**2
_LONG = "verbose_json"


@dataclass(frozen=True, slots=True)
class HearingEndpoint(HttpEndpoint):
    """A server with `/v1/audio/transcriptions`."""

    service: ClassVar[Service] = HEARING


def resolve_hearing_server(settings: AsrSettings) -> HearingEndpoint:
    """The server that these settings name. Raises `ConfigError` when they name none, or what cannot be sent."""
    if settings.base_url is None:
        raise ConfigError(
            f"{HEARING.setting('base_url')}: the engine openai-asr needs to know which server to ask.",
            hint="Write it like http://127.0.0.1:8001/v1.",
        )
    access = resolve_access("asr", settings.base_url, settings.api_key)
    return HearingEndpoint(
        base_url=access.base_url,
        model=settings.model,
        authorization=access.authorization,
        secrets=access.secrets,
        name="openai-asr",
        to_start="Check that the hearing server runs. / 音声認識サーバーが動いているか確かめてください。",
    )


def choose_hearing_model(offered: Sequence[str]) -> str:
    """The model to ask for where none is named: the first that hears by its name, else the first there is."""
    hearing = [name for name in offered if any(mark in name.casefold() for mark in _HEARS)]
    return next(iter(hearing or offered), USUAL_MODEL)


class OpenAiTranscriptionAsr:
    """Implements `AsrEngine`."""

    name = "openai-asr"
    capabilities = AsrCapabilities(hot_words=True)

    def __init__(
        self, endpoint: HttpEndpoint, *, timeout_seconds: float = 30.0, connect_timeout_seconds: float = 5.0
    ) -> None:
        self._service = HttpService(
            endpoint, AsrError, timeout_seconds=timeout_seconds, connect_timeout_seconds=connect_timeout_seconds
        )
        self._model = endpoint.model
        self._long_answers = True

    async def start(self) -> None:
        """Make the client, and choose a model where none is named. A server that is away is only a warning."""
        await self._service.start()
        if self._model is None:
            try:
                await self._model_name()
            except AsrError as error:
                log.warning("the hearing is not there yet: %s", error)
        if self._model is not None:
            log.info("hearing: %s at %s", self._model, self._service.endpoint.base_url)

    async def close(self) -> None:
        await self._service.close()

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        """Hear one utterance: float32 mono at 16 kHz, shape (n,). Empty text when nothing was said.

        `languages`: one is forced; of several the model chooses, and may find another. Raises `AsrError`.
        """
        if not languages:
            raise AsrError("No language was given to listen for.", hint="Name at least one, for example ja.")
        wav = await asyncio.to_thread(_wav, samples)
        form = {"model": await self._model_name()}
        if len(languages) == 1:
            form["language"] = languages[0]
        if prompt := _prompt(hot_words, languages[0]):
            form["prompt"] = prompt
        while True:
            refused = ""
            form["response_format"] = _LONG if self._long_answers else "json"
            dispensable = ("response_format", _LONG) if self._long_answers else ()
            call = Call(
                "/audio/transcriptions", form=form, files={"file": ("speech.wav", wav, "audio/wav")}, private=(prompt,)
            )
            try:
                kind, body = await self._service.whole(call, _BODY_BYTES, dispensable=dispensable)
                return self._read(kind, body, languages)
            except FieldRefused as error:
                refused = error.field
            self._long_answers = False
            log.info("the hearing at %s takes no %s: short answers", self._service.endpoint.base_url, refused)

    def _read(self, kind: str, body: bytes, languages: Sequence[str]) -> Transcription:
        text = body.decode("utf-8", "replace")
        value: Any = None
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
        if isinstance(value, Mapping) and isinstance(value.get("text"), str):
            return _transcription(value, languages)
        endpoint = self._service.endpoint
        if isinstance(value, Mapping) and any(key in value for key in ("error", "message", "detail")):
            raise self._service.told(value)
        if kind == "text/html" or text.lstrip().startswith("<"):
            raise web_page(AsrError, endpoint, "a hearing server")
        if value is None and kind.startswith("text/") and text.strip():  # a server that knows only this form
            return _transcription({"text": text}, languages)
        raise AsrError(f"{endpoint.where} sends something that is no transcription.")

    async def _model_name(self) -> str:
        """The model to ask for: the one named, else one that the server lists. Raises `AsrError`."""
        if self._model is None:
            listed: Any = None
            try:
                listed = await self._service.document("/models")
            except AsrError as error:
                if error.code != "asr_refused":
                    raise
            names = names_in(listed.get("data")) if isinstance(listed, Mapping) else None
            self._model = choose_hearing_model(names or ())
        return self._model


def _wav(samples: Samples) -> bytes:
    return encode_wav(to_pcm16(np.nan_to_num(samples), 1.0), ASR_SAMPLE_RATE_HZ)


def _prompt(hot_words: Sequence[str], language: str) -> str:
    """The words to expect, without halves of characters."""
    cleaned = [word.encode(errors="ignore").decode().strip() for word in hot_words]
    return hint_of([word for word in cleaned if word][:MOST_HOT_WORDS], language)


def _transcription(value: Mapping[str, Any], languages: Sequence[str]) -> Transcription:
    marked, text = read_marks(value["text"])
    told = value.get("language")
    found = marked or language_code(told if isinstance(told, str) else "")
    if found is None:
        found = languages[0] if len(languages) == 1 else UNKNOWN_LANGUAGE
    segments = value.get("segments")
    parts = [part for part in segments if isinstance(part, Mapping)] if isinstance(segments, list) else []
    return Transcription(
        text=text,
        language=found,
        no_speech_probability=_mean(parts, "no_speech_prob"),
        average_log_probability=_mean(parts, "avg_logprob"),
    )


def _mean(parts: Sequence[Mapping[str, Any]], key: str) -> float:
    """Of all segments, each weighted by its text; 0 where they do not tell."""
    known = [
        (float(part[key]), max(1, len(str(part.get("text", "")))))
        for part in parts
        if isinstance(part.get(key), int | float) and not isinstance(part[key], bool) and np.isfinite(part[key])
    ]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else 0.0
