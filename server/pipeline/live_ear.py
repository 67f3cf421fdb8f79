"""Hearing an utterance while it is spoken, where the engine can: one stream of it for one utterance.

Opened when somebody begins to speak, closed when the words of the utterance are known or nobody wants them. Knows the
`StreamingAsr` Protocol; no engine, no device and no turn but what a turn would expect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from server.engines.base import AsrStream, StreamingAsr
from server.errors import AsrError
from server.events import ASR_SAMPLE_RATE_HZ, Samples
from server.persona import Persona
from server.pipeline.hearing import words_of
from server.pipeline.request import OpenTurn

_log = logging.getLogger(__name__)

OnWords = Callable[[str], None]
"""Told the words so far of what is being said; they may still change."""


@dataclass(slots=True, eq=False)
class LiveEar:
    """One utterance's. `expected`: the conversation that its turn would belong to; `hot_words`: what it expects."""

    expected: OpenTurn
    stream: AsrStream
    hot_words: tuple[str, ...]
    persona: Persona
    _seconds: float = 0.0
    _telling: asyncio.Task[None] | None = field(default=None, repr=False)

    def push(self, samples: Samples) -> None:
        """Take the next samples of the utterance, from its beginning on."""
        self._seconds += len(samples) / ASR_SAMPLE_RATE_HZ
        self.stream.push(samples)

    def tell(self, on_words: OnWords) -> None:
        """Tell the words so far until the utterance is over. Once."""
        self._telling = asyncio.create_task(self._tell(on_words), name="partial-words")

    def be_silent(self) -> None:
        """Tell no more words: the utterance is over. Safe to call twice."""
        if self._telling is not None:
            self._telling.cancel()

    def close(self) -> None:
        """Nobody wants words of it any more. Safe to call twice."""
        self.be_silent()
        self.stream.close()

    async def _tell(self, on_words: OnWords) -> None:
        told = ""
        try:
            async for transcription in self.stream.partials():
                text, reason = words_of(transcription, self._seconds, self.persona, self.hot_words)
                if reason is None and text != told:
                    told = text
                    on_words(text)
        except Exception as error:  # an extra must not cost the turn
            _log.error("the words so far could not be told", exc_info=error)


def open_ear(asr: StreamingAsr, expected: OpenTurn, persona: Persona, hot_words: Sequence[str]) -> LiveEar | None:
    """An ear for the utterance that begins; None where it will be heard in one piece when it is over."""
    try:
        stream = asr.open_stream(languages=persona.languages, hot_words=hot_words)
    except AsrError as error:
        _log.warning("an utterance is not heard while it is spoken: %s", error.code)
        return None
    except Exception as error:  # an extra must not cost the turn
        _log.error("an utterance cannot be heard while it is spoken", exc_info=error)
        return None
    return LiveEar(expected, stream, tuple(hot_words), persona)
