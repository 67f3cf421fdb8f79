"""Any server with OpenAI's `/v1/audio/speech` as the voice: sound is given on while it still arrives.

It says whatever language its model does. A feeling changes nothing: the interface has no field for one. Several
sentences may be asked for at once; such servers and their clouds look after their queues themselves.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.http_endpoint import HttpEndpoint
from server.engines.http_service import Call, HttpService
from server.engines.tts.http_speech import spoken
from server.engines.tts.scripts import checked_length, has_speech, sayable
from server.errors import TtsError
from server.events import AudioChunk

log = logging.getLogger(__name__)

DEFAULT_MODEL = "tts-1"
"""What most servers take for their only model."""


class OpenAiSpeechTts:
    """Implements `TtsEngine`. `format`: what is asked for; `raw_sample_rate_hz`: of `pcm`, which does not tell."""

    name = "openai-speech"
    capabilities = TtsCapabilities(languages=("ja", "en"), streams=True)

    def __init__(
        self,
        endpoint: HttpEndpoint,
        *,
        voice: str | None = None,
        format: Literal["wav", "pcm"] = "wav",
        raw_sample_rate_hz: int = 24_000,
        timeout_seconds: float = 20.0,
        connect_timeout_seconds: float = 5.0,
    ) -> None:
        self._service = HttpService(
            endpoint, TtsError, timeout_seconds=timeout_seconds, connect_timeout_seconds=connect_timeout_seconds
        )
        self._fields: dict[str, Any] = {"model": endpoint.model or DEFAULT_MODEL, "response_format": format}
        self._fields |= {"voice": voice} if voice else {}
        self._raw_rate_hz = raw_sample_rate_hz if format == "pcm" else None

    async def start(self) -> None:
        """Make the client. A server that is away is noticed when it is asked."""
        await self._service.start()
        log.info("voice: %s at %s", self._fields["model"], self._service.endpoint.base_url)

    async def close(self) -> None:
        await self._service.close()

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """The sound as it comes, int16 mono at the server's rate. Raises `TtsError`."""
        text = sayable(checked_length(request.text))
        if not has_speech(text):
            return
        call = Call("/audio/speech", json=self._fields | {"input": text}, private=(text,))
        async with aclosing(spoken(self._service, call, raw_rate_hz=self._raw_rate_hz)) as chunks:
            async for chunk in chunks:
                yield chunk
