"""VOICEVOX and AivisSpeech as the voice: Japanese, with another style of the same speaker for each feeling.

A style is a number that the server knows; people name it `speaker/style`, and the names are looked up there once. How
fast and with what melody it speaks stays as the server has it. One sentence is asked for at a time, what is needed next
first: the model makes one at a time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.http_endpoint import HttpEndpoint
from server.engines.http_service import Call, HttpService
from server.engines.one_at_a_time import OneAtATime
from server.engines.tts.http_speech import SoundReader
from server.engines.tts.scripts import pieces_to_speak
from server.errors import TtsError
from server.events import AudioChunk

log = logging.getLogger(__name__)

_QUERY_BYTES = 1024**2
_SHOWN_VOICES = 8

STYLES_OF_EMOTION: Mapping[str, tuple[str, ...]] = {
    "happy": ("喜び", "楽しい", "うれしい", "わーい", "楽々", "元気"),
    "sad": ("悲しみ", "悲しい", "哀しみ", "びえーん", "せつなめ", "なみだめ"),
    "angry": ("怒り", "おこ", "ツンツン", "ツンギレ"),
    "sleepy": ("ヘロヘロ",),
    "doubt": ("びくびく",),
    "surprised": ("驚き",),
}
"""How speakers call the style that fits; the first that a speaker has. Without one the usual style speaks."""


@dataclass(frozen=True, slots=True)
class Style:
    """One style of one speaker. `id`: what the server calls it."""

    id: int
    speaker: str
    name: str

    @property
    def shown(self) -> str:
        """As it is written in `tts.voice`."""
        return f"{self.speaker}/{self.name}"


class VoicevoxTts:
    """Implements `TtsEngine` for Japanese. `name`: what settings call it.

    `voice`: `speaker`, `speaker/style` or a style's number; None: the server's first. `styles`: feeling -> a style of
    that speaker by name or number, before `STYLES_OF_EMOTION`.
    """

    capabilities = TtsCapabilities(languages=("ja",), streams=True)

    def __init__(
        self,
        name: str,
        endpoint: HttpEndpoint,
        *,
        voice: str | None = None,
        styles: Mapping[str, str] | None = None,
        timeout_seconds: float = 20.0,
        connect_timeout_seconds: float = 5.0,
    ) -> None:
        self.name = name
        self._service = HttpService(
            endpoint, TtsError, timeout_seconds=timeout_seconds, connect_timeout_seconds=connect_timeout_seconds
        )
        self._voice = voice
        self._wanted = dict(styles or {})
        self._turns = OneAtATime()
        self._offered: list[Style] = []

    async def start(self) -> None:
        """Make the client and look up the speakers. A server that is away is only a warning."""
        await self._service.start()
        try:
            usual = usual_style(await self._styles(), self._voice, self._service.endpoint)
        except TtsError as error:
            log.warning("the voice is not there yet: %s", error)
        else:
            log.info("voice: %s, %s at %s", self.name, usual.shown, self._service.endpoint.base_url)

    async def close(self) -> None:
        await self._service.close()

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """The chunks of one sentence after another, int16 mono at the server's rate. Raises `TtsError`."""
        pieces = pieces_to_speak(request.text)
        if not pieces:
            return
        style = await self._style(request.emotion)
        for piece in pieces:
            async with self._turns.turn(request.need):
                chunks = await self._speak(piece, style)
            for chunk in chunks:
                yield chunk

    async def _style(self, emotion: str) -> int:
        offered = await self._styles()
        usual = usual_style(offered, self._voice, self._service.endpoint)
        return style_for(emotion, offered, usual, self._wanted).id

    async def _styles(self) -> list[Style]:
        """What the server offers, asked for until it answers. Raises `TtsError`."""
        if not self._offered:
            self._offered = read_styles(await self._service.document("/speakers"))
        return self._offered

    async def _speak(self, text: str, style_id: int) -> list[AudioChunk]:
        style = {"speaker": str(style_id)}
        call = Call("/audio_query", params={"text": text, **style}, private=(text,))
        _, body = await self._service.whole(call, _QUERY_BYTES)
        query = _query(body)
        if query is None:
            reader = SoundReader(self._service, private=(text,))
            reader.push(body)
            reader.finish()
            raise TtsError(f"{self._service.endpoint.where} sends a reading that cannot be used.")

        async def ask(ends_at: float) -> list[AudioChunk]:
            reader = SoundReader(self._service, private=(text,))
            sounding = Call("/synthesis", params=style, json=query, private=(text,))
            chunks: list[AudioChunk | None] = []
            async with aclosing(self._service.once(sounding, ends_at, reader.head)) as pieces:
                async for piece in pieces:
                    chunks.append(reader.push(piece))
            return [chunk for chunk in (*chunks, reader.finish()) if chunk is not None]

        return await self._service.tried(ask)


def read_styles(speakers: object) -> list[Style]:
    """The styles that can speak in what `/speakers` answers; empty when it is something else."""
    found = []
    for speaker in speakers if isinstance(speakers, list) else ():
        styles = speaker.get("styles") if isinstance(speaker, dict) else None
        for style in styles if isinstance(styles, list) else ():
            if not isinstance(style, dict) or style.get("type", "talk") != "talk":
                continue
            number, of, name = style.get("id"), speaker.get("name"), style.get("name")
            if isinstance(number, int) and isinstance(of, str) and isinstance(name, str):
                found.append(Style(number, of, name))
    return found


def usual_style(offered: Sequence[Style], voice: str | None, endpoint: HttpEndpoint) -> Style:
    """The style that speaks without a feeling. Raises `TtsError` with those there are when it is not among them."""
    wanted = (voice or "").strip()
    for style in offered:
        if not wanted or wanted in (style.speaker, style.shown, str(style.id)):
            return style
    if not offered:
        raise TtsError(
            f"{endpoint.where} does not list its speakers.", code="tts_refused", hint="Is it VOICEVOX or AivisSpeech?"
        )
    names = list(dict.fromkeys(style.speaker for style in offered))
    own = [style.shown for style in offered if style.speaker == wanted.partition("/")[0]]
    shown = ", ".join((own or names)[:_SHOWN_VOICES])
    raise TtsError(
        f"{endpoint.where} has no voice {wanted}.",
        code="tts_refused",
        hint=f"Set tts.voice (STACKCHAN_TTS__VOICE) to one it has / これらから選んでください: {shown}",
    )


def style_for(emotion: str, offered: Sequence[Style], usual: Style, wanted: Mapping[str, str]) -> Style:
    """The style of the same speaker for a feeling: the one that is `wanted`, else one whose name fits, else `usual`."""
    own = [style for style in offered if style.speaker == usual.speaker]
    if emotion in wanted:
        name = wanted[emotion]
        named = next((style for style in own if name == style.name), None)
        named = named or next((style for style in offered if name in (style.shown, str(style.id))), None)
        if named is None:
            log.warning("%s has no style %s for %s: the usual one speaks", usual.speaker, name, emotion)
        return named or usual
    by_name = {style.name: style for style in own}
    return next((by_name[name] for name in STYLES_OF_EMOTION.get(emotion, ()) if name in by_name), usual)


def _query(body: bytes) -> dict[str, Any] | None:
    """A reading with its melody; None when it is something else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "accent_phrases" in value else None
