"""Engines that take exactly as long as they are told, so that everything beyond that is the server's own time.

`STUB_DELAYS` (JSON, the fields of `Delays`) chooses the times for a server in a process of its own. Knows no server.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass

from server.engines.base import Engines, LlmDelta, LlmDone, LlmRequest, LlmText, SpeechRequest, Transcription
from server.events import AudioChunk, Samples
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, fake_engines

ENGINES = "tests.soaks.stubs:delayed_engines"
FIRST_CLAUSE = "今日はいい天気だね、"
REPLY = FIRST_CLAUSE + "外に出よう。庭の花も咲いているよ。"
_WRITTEN_FIRST = f'{{"emotion":"happy","action":"nod","reply":"{FIRST_CLAUSE}外'
_WRITTEN_THEN = f'{REPLY[len(FIRST_CLAUSE) + 1 :]}"}}'


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds. A clause costs `speak_seconds` and `speak_character_seconds` for each of its characters."""

    hear_seconds: float = 0.05
    first_clause_seconds: float = 0.08
    """From the request to the first clause of the answer, and to the rest from there."""
    rest_seconds: float = 0.1
    speak_seconds: float = 0.03
    speak_character_seconds: float = 0.0

    @property
    def first_audio_seconds(self) -> float:
        """What a turn cannot be faster than: hearing, the first clause, its synthesis."""
        spoken = self.speak_seconds + self.speak_character_seconds * len(FIRST_CLAUSE)
        return self.hear_seconds + self.first_clause_seconds + spoken

    @property
    def serial_seconds(self) -> float:
        """The same when each stage waits for the whole of the one before."""
        spoken = self.speak_seconds + self.speak_character_seconds * len(REPLY)
        return self.hear_seconds + self.first_clause_seconds + self.rest_seconds + spoken

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class DelayedAsr(FakeAsr):
    """Hears the same words after a while."""

    delays = Delays()

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        await asyncio.sleep(self.delays.hear_seconds)
        return await super().transcribe(samples, languages=languages, hot_words=hot_words)


class DelayedLlm(FakeLlm):
    """Writes its answer in two pieces: all that the first clause needs, then the rest."""

    delays = Delays()

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        self.requests.append(request)
        await asyncio.sleep(self.delays.first_clause_seconds)
        yield LlmText(_WRITTEN_FIRST)
        await asyncio.sleep(self.delays.rest_seconds)
        yield LlmText(_WRITTEN_THEN)
        yield LlmDone("stop", prompt_tokens=100, cached_tokens=90, completion_tokens=20)


class DelayedTts(FakeTts):
    """Speaks each clause after a while."""

    delays = Delays()

    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        await asyncio.sleep(self.delays.speak_seconds + self.delays.speak_character_seconds * len(request.text))
        async for chunk in super().synthesize(request):
            yield chunk


def delayed_engines(delays: Delays | None = None) -> Engines:
    """Stand-ins for a whole server; None: the delays of the environment."""
    delays = delays or Delays(**json.loads(os.environ.get("STUB_DELAYS", "{}")))
    asr = DelayedAsr(heard=deque(maxlen=1))  # type: ignore[arg-type]
    llm = DelayedLlm(requests=deque(maxlen=1), warmed=deque(maxlen=1))  # type: ignore[arg-type]
    tts = DelayedTts(spoken=deque(maxlen=1))  # type: ignore[arg-type]
    for engine in (asr, llm, tts):
        engine.delays = delays  # type: ignore[attr-defined]
    return fake_engines(asr=asr, llm=llm, tts=tts)
