"""Hearing that fails: the robot says it did not catch that, and nothing is stored as said."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from server.engines.base import Transcription
from server.errors import AsrError, ModelError, StorageError, VadError
from server.events import FaceChosen, TranscriptReady
from server.pipeline.apology import APOLOGIES
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeAsr, FakeLlm, FakeVad, loud, silence
from tests.pipeline.turns import SETTINGS, kinds, play_turn

pytestmark = pytest.mark.unit

NOT_HEARD = APOLOGIES["not_heard"]["ja"]


class OddVad(FakeVad):
    def __init__(self, given):
        super().__init__()
        self.given = given

    async def probabilities(self, samples):
        if isinstance(self.given, Exception):
            raise self.given
        if self.given is asyncio.Event:
            await asyncio.Event().wait()
        return self.given


def assert_not_heard(played, llm, code):
    result = played.result
    assert (result.status, result.outcome, result.error.code) == ("failed", "failed", code)
    assert (result.reply, result.emotion, result.action, result.transcript) == (NOT_HEARD, "doubt", "none", "")
    assert result.speech_duration_ms
    assert played.spoken == [NOT_HEARD]
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "doubt")]
    assert kinds(played.events, TranscriptReady) == []
    assert played.states == ["listening", "error", "speaking", "idle"]
    assert played.journal.heard_words == [], "nothing was said that could be kept"
    assert played.journal.results == [result]
    assert llm.requests == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AsrError("broken"), "asr_failed"),
        (AsrError("gone", code="engine_unavailable"), "engine_unavailable"),
        (RuntimeError("CUDA error: こんにちは"), "asr_failed"),
        (MemoryError(), "asr_failed"),
        (StorageError("no business here"), "asr_failed"),
        (ModelError("no model"), "asr_failed"),
        (TimeoutError(), "asr_timeout"),
        (asyncio.CancelledError(), "asr_failed"),
    ],
)
def test_whatever_the_engine_raises_is_not_heard(error, code, caplog):
    llm = FakeLlm()
    played = play_turn(asr=FakeAsr(error=error), llm=llm)
    assert_not_heard(played, llm, code)
    assert "こんにちは" not in played.result.error.message
    assert all("こんにちは" not in record.getMessage() for record in caplog.records)


def test_an_engine_that_hangs_is_waited_for_its_time_only():
    llm = FakeLlm()
    played = play_turn(asr=FakeAsr(wait=asyncio.Event()), llm=llm)
    assert_not_heard(played, llm, "asr_timeout")
    assert played.seconds == 5


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "こんにちは",
        {"text": "hi"},
        3,
        Transcription(None, "ja"),
        Transcription(["hi"], "ja"),
        Transcription(b"hi", "ja"),
    ],
    ids=repr,
)
def test_what_is_no_transcription_is_not_heard(garbage):
    llm = FakeLlm()
    assert_not_heard(play_turn(asr=FakeAsr(result=garbage), llm=llm), llm, "asr_failed")


@pytest.mark.parametrize("given", [VadError("broken"), ValueError("x"), None, [math.nan] * 40, ["loud"] * 40, [None]])
def test_voice_activity_that_fails_is_not_heard(given):
    llm = FakeLlm()
    assert_not_heard(play_turn(vad=OddVad(given), llm=llm), llm, "vad_failed")


def test_voice_activity_that_hangs_is_waited_for_its_time_only():
    llm = FakeLlm()
    played = play_turn(vad=OddVad(asyncio.Event), llm=llm)
    assert_not_heard(played, llm, "vad_timeout")
    assert played.seconds == 5


# Garbage that still holds words


def test_lone_surrogates_become_storable_text():
    played = play_turn(asr=FakeAsr(text="左を\ud83d見て\0"))
    assert played.result.transcript == "左を\ufffd見て"
    played.result.transcript.encode()


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("左を見て", "xx", "ja"),
        ("Look left", "xx", "en"),
        ("Look left", None, "en"),
        ("左を見て", "", "ja"),
        ("Look left", ["en"], "en"),
        ("Schau nach links", "de", "en"),
        ("Look left", "en", "en"),
    ],
)
def test_a_language_that_the_persona_does_not_speak_is_guessed_from_the_letters(text, language, expected):
    played = play_turn(asr=FakeAsr(result=Transcription(text, language)))
    assert (played.result.language, played.result.outcome) == (expected, "ok")


@pytest.mark.parametrize("number", [None, math.nan, math.inf, "0.9"])
def test_numbers_that_are_none_count_as_unknown(number):
    heard = Transcription("ご視聴ありがとうございました", "ja", 1.0, number, number)
    played = play_turn(TurnRequest("desk", samples=loud(3.0)), asr=FakeAsr(result=heard))
    assert played.result.outcome == "ok"


# The guards at work


@pytest.mark.parametrize(
    ("heard", "reason"),
    [
        (Transcription("", "ja"), "empty"),
        (Transcription("（音楽）", "ja"), "empty"),
        (Transcription("ん" * 200, "ja"), "repetition"),
        (Transcription("x" * 1_000_000, "en"), "too_fast"),
        (Transcription("ご視聴ありがとうございました", "ja", 1.0, 0.8, -0.9), "stock_phrase"),
        (Transcription("Thanks for watching!", "en", 1.0, 0.8, -0.9), "stock_phrase"),
    ],
)
def test_invented_words_are_no_speech_and_ask_no_model(heard, reason):
    llm = FakeLlm()
    played = play_turn(TurnRequest("desk", samples=loud(2.0)), asr=FakeAsr(result=heard), llm=llm)
    assert (played.result.status, played.result.outcome, played.result.error) == ("done", "no_speech", None)
    assert played.trace["asr_dropped"] == reason
    assert (played.result.transcript, played.result.reply, played.journal.heard_words) == ("", "", [])
    assert llm.requests == []
    assert played.states == ["listening", "idle"]


def test_typed_words_are_never_doubted():
    played = play_turn(TurnRequest("desk", text="ご視聴ありがとうございました" * 5))
    assert played.result.outcome == "ok"
    assert "asr_dropped" not in played.trace


# The recording


def keeper(kept):
    async def keep(turn_id, samples):
        kept.append((turn_id, len(samples)))

    return {"keep_recording": keep}


@pytest.mark.parametrize("error", [AsrError("x"), ValueError("x")])
def test_a_recording_that_was_not_understood_is_kept_whole_where_asked_for(error):
    kept = []
    request = TurnRequest("desk", samples=np.concatenate([silence(1), loud(1)]))
    play_turn(request, asr=FakeAsr(error=error), controller=keeper(kept))
    assert kept == [(384, 32_000)]


def test_a_recording_that_cannot_be_kept_costs_nothing_else():
    async def keep(turn_id, samples):
        raise MemoryError

    played = play_turn(asr=FakeAsr(error=AsrError("x")), controller={"keep_recording": keep})
    assert (played.result.error.code, played.spoken) == ("asr_failed", [NOT_HEARD])
    assert played.journal.results == [played.result]


def test_nothing_is_kept_of_a_turn_that_was_heard_or_silent():
    kept = []
    play_turn(controller=keeper(kept))
    play_turn(TurnRequest("desk", samples=silence(1)), controller=keeper(kept))
    play_turn(asr=FakeAsr(text=""), controller=keeper(kept))
    play_turn(TurnRequest("desk", text="hi"), llm=FakeLlm(scripts=[[ValueError()]]), controller=keeper(kept))
    assert kept == []


def test_the_trace_says_which_part_of_the_recording_was_heard():
    samples = np.concatenate([silence(1.024), loud(1.024), silence(2.048)])
    played = play_turn(TurnRequest("desk", samples=samples))
    margins = SETTINGS.segmenter
    start_ms, end_ms = played.trace["speech_start_ms"], played.trace["speech_end_ms"]
    assert start_ms == round(1024 - 1000 * margins.pre_roll_seconds)
    assert end_ms == round(2048 + 1000 * margins.hangover_seconds)
    assert end_ms - start_ms == played.journal.heard_words[0].audio_duration_ms
    assert "speech_end_ms" not in play_turn(TurnRequest("desk", samples=silence(1.0))).trace
