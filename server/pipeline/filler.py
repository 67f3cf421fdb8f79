"""What a person sees and hears while the robot looks something up for long: a doubtful face, and "let me think".

Comes at most once in a turn, only when a tool was called and the words of the answer are late, and never once those
are there. It is sound and a face, no words of the robot: nothing of it is in the reply or stored. Knows neither tools
nor engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from server.events import FaceChosen, Pcm16
from server.pipeline.device_link import DeviceLink
from server.pipeline.speaking import Voice
from server.pipeline.trace import TurnTrace

FILLERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ja": ("えっと、ちょっと待ってね。", "うーん、思い出してみるね。", "ちょっと考えさせてね。"),
        "en": ("Let me think.", "Hmm, one moment.", "Let me try to remember."),
    }
)
"""Language (ISO 639-1) -> sentences that fit before any answer."""
THAT_WAS_LONG: Mapping[str, str] = MappingProxyType(
    {"ja": "長いお話だったね。", "en": "That was a long one."},
)
"""Before the answer to what was ended because it was too long: whoever goes on talking hears why nobody listens."""


class Filler:
    """One turn's. `seconds`: from the start of thinking; None: never. `face` None: the persona has none for it."""

    def __init__(
        self,
        voice: Voice,
        device: DeviceLink,
        trace: TurnTrace,
        *,
        turn_id: int,
        seconds: float | None,
        face: str | None,
        clip: Pcm16 | None,
    ) -> None:
        self._voice = voice
        self._device = device
        self._trace = trace
        self._turn_id = turn_id
        self._seconds = seconds
        self._face = face
        self._clip = clip
        self._looks_up = asyncio.Event()
        self._showing = asyncio.Lock()
        self._face_is_there = False
        self._words_are_there = False

    async def wait(self) -> None:
        """Show and say it when it is due; ends then. Cancel it with the turn."""
        if self._seconds is None or (self._face is None and self._clip is None):
            return
        await asyncio.sleep(self._seconds)
        await self._looks_up.wait()
        async with self._showing:
            face = None if self._face_is_there else self._face
            if self._words_are_there or self._device.gone or (face is None and self._clip is None):
                return
            self._trace.facts["filler"] = "face" if self._clip is None else "clip"
            self._trace.mark("filler")
            with self._trace.span("filler"):
                if face is not None:
                    await self._device.emit(FaceChosen(self._turn_id, face))
                if self._clip is not None:
                    await self._voice.fill(self._clip)

    def looks_up(self) -> None:
        """A tool was called: a late answer has a reason."""
        self._looks_up.set()

    async def face_comes(self) -> None:
        """The answer's face is known. Returns when it would not be overtaken by the filler's."""
        self._face_is_there = True
        await self._over()

    async def words_come(self) -> None:
        """The first clause is ready. Returns when no filler will sound any more."""
        self._words_are_there = True
        await self._over()

    async def _over(self) -> None:
        async with self._showing:
            pass
