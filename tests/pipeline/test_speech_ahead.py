"""The first clause of an answer that is only held, made into sound before anybody may hear it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from server.engines.base import LlmText, LlmToolCall, SpeechRequest
from server.errors import TtsError
from server.events import Pcm16
from server.pipeline.answer import AnswerReader
from server.pipeline.speech_ahead import SpeechAhead

pytestmark = pytest.mark.unit

SOUND = np.ones(240, np.int16)
JAPANESE = '{"emotion":"happy","action":"nod","reply":"今日はとてもよい天気、外へ出て庭を見ようか。"}'
ENGLISH = '{"emotion":"sad","action":"none","reply":"It will rain all day today, so take an umbrella with you."}'
FIRST = {
    JAPANESE: SpeechRequest("今日はとてもよい天気、", "ja", "happy"),
    ENGLISH: SpeechRequest("It will rain all day today,", "en", "sad"),
}


@dataclass
class Mouth:
    """Speaks `pieces`; `never` goes on for ever after them."""

    pieces: list[Any] = field(default_factory=lambda: [SOUND, SOUND])
    never: bool = False
    asked: list[SpeechRequest] = field(default_factory=list)
    cancelled: int = 0

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[Pcm16, None]:
        self.asked.append(request)
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
            if self.never:
                await asyncio.Event().wait()
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled += 1
            raise


def reader() -> AnswerReader:
    return AnswerReader({"neutral", "happy", "sad"}, {"none", "nod"}, ["search_memory"])


async def written(text: str, mouth: Mouth, language: str = "ja", step: int = 4) -> SpeechAhead:
    ahead = SpeechAhead(reader(), language, mouth.speak)
    for start in range(0, len(text), step):
        ahead.notice(LlmText(text[start : start + step]))
    await asyncio.sleep(0.01)
    return ahead


async def heard(ahead: SpeechAhead, request: SpeechRequest) -> list[Pcm16] | None:
    sound = await ahead.sound_of(request)
    return None if sound is None else [piece async for piece in sound]


@pytest.mark.parametrize(("text", "language"), [(JAPANESE, "ja"), (ENGLISH, "en")])
@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_the_first_clause_is_sound_already_and_nothing_after_it(text: str, language: str, step: int) -> None:
    mouth = Mouth()
    ahead = await written(text, mouth, language, step)
    assert mouth.asked == [FIRST[text]]
    assert ahead.fate == "wasted"
    sound = await heard(ahead, FIRST[text])
    assert sound is not None
    assert len(sound) == 2
    assert ahead.fate == "used"
    assert await ahead.sound_of(FIRST[text]) is None
    assert mouth.asked == [FIRST[text]]


async def test_sound_that_is_still_being_made_is_waited_for() -> None:
    mouth = Mouth(never=True)
    ahead = await written(JAPANESE, mouth)
    sound = await ahead.sound_of(FIRST[JAPANESE])
    assert sound is not None
    assert [len(await anext(sound)), len(await anext(sound))] == [240, 240]
    await sound.aclose()
    assert mouth.cancelled == 1


@pytest.mark.parametrize(
    "other", [SpeechRequest("外へ", "ja", "happy"), SpeechRequest("今日はとてもよい天気、", "ja", "sad")]
)
async def test_for_other_words_or_another_feeling_it_is_thrown_away(other: SpeechRequest) -> None:
    mouth = Mouth(never=True)
    ahead = await written(JAPANESE, mouth)
    assert await ahead.sound_of(other) is None
    assert (mouth.cancelled, ahead.fate) == (1, "wasted")


async def test_what_is_dropped_stops_the_voice_and_speaks_no_more() -> None:
    mouth = Mouth(never=True)
    ahead = await written(JAPANESE, mouth)
    await ahead.drop()
    await ahead.drop()
    assert mouth.cancelled == 1
    early = SpeechAhead(reader(), "ja", mouth.speak)
    await early.drop()
    early.notice(LlmText(JAPANESE))
    assert (early.fate, len(mouth.asked)) == (None, 1)


@pytest.mark.parametrize("text", ['{"tool":"search_memory","args":{"query":"富士山、海。"}}', '{"emotion":"happy"', ""])
async def test_without_words_to_say_nothing_is_spoken(text: str) -> None:
    mouth = Mouth()
    ahead = await written(text, mouth)
    ahead.notice(LlmToolCall("search_memory", {"query": "海"}))
    assert (mouth.asked, ahead.fate) == ([], None)


async def test_a_voice_that_failed_early_is_asked_again_by_the_turn() -> None:
    ahead = await written(JAPANESE, Mouth([TtsError("no")]))
    assert await ahead.sound_of(FIRST[JAPANESE]) is None
    assert ahead.fate == "wasted"


async def test_a_defect_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: SpeechRequest) -> AsyncGenerator[Pcm16, None]:
        raise ValueError("a defect")

    ahead = SpeechAhead(reader(), "ja", broken)
    ahead.notice(LlmText(JAPANESE))
    ahead.notice(LlmText("more"))
    assert [record.message for record in caplog.records] == ["an answer could not be spoken early"]
    assert await ahead.sound_of(FIRST[JAPANESE]) is None
