"""A voice that fails: reply, face and movement are sent all the same, without sound, and nobody waits longer for it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from server.engines.base import LlmText
from server.errors import AsrError, TtsError
from server.events import ActionChosen, AudioChunk, FaceChosen, SpeechProduced
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, FakeTts, answer
from tests.pipeline.turns import kinds, play_turn, take_turn
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="散歩に行こう")
REPLY = "今日はいい天気だから、散歩に行こうよ。"


def sound(seconds=0.1, rate_hz=48_000, dtype=np.int16):
    return AudioChunk(np.full(round(seconds * rate_hz), 1000, dtype), rate_hz)


def assert_silent(played, code="tts_failed"):
    result = played.result
    assert (result.status, result.outcome, result.error.code) == ("done", "ok", code)
    assert (result.reply, result.emotion, result.action) == (REPLY, "happy", "nod")
    assert result.speech_duration_ms is None
    assert kinds(played.events, FaceChosen, ActionChosen) == [FaceChosen(384, "happy"), ActionChosen(384, "nod")]
    assert played.journal.results == [result]
    assert played.trace["error"]["code"] == code
    assert "apology" not in played.trace
    assert played.states[-1] == "idle"


@pytest.mark.parametrize("error", [TtsError("hoarse"), RuntimeError("x"), AsrError("x"), asyncio.CancelledError()])
def test_a_voice_that_raises_leaves_the_written_answer(error):
    tts = FakeTts(error=error)
    played = play_turn(WORDS, tts=tts)
    assert_silent(played)
    assert len(tts.spoken) == 1, "after a failure the rest is not tried"
    assert kinds(played.events, SpeechProduced) == []
    assert played.states == ["thinking", "idle"] or played.states == ["listening", "thinking", "idle"]


def test_a_voice_without_a_sound_for_words_has_failed():
    for chunks in ([], [sound(0)], [sound(0)] * 50):
        tts = FakeTts(chunks=chunks)
        played = play_turn(WORDS, tts=tts)
        assert_silent(played)
        assert len(tts.spoken) == 1
        assert kinds(played.events, SpeechProduced) == []


@pytest.mark.parametrize("reply", ["Привет", "！", "あ"])
def test_a_voice_may_be_silent_where_not_every_voice_has_words(reply):
    text = f'{{"emotion":"happy","action":"nod","reply":"{reply}"}}'
    played = play_turn(WORDS, tts=FakeTts(chunks=[]), llm=FakeLlm(scripts=[answer(text)]))
    assert (played.result.reply, played.result.error, played.result.speech_duration_ms) == (reply, None, None)


@pytest.mark.parametrize("chunk", [sound(0), sound(0.0001)], ids=["empty", "tiny"])
def test_a_voice_that_gives_next_to_nothing_for_ever_is_stopped(chunk):
    class Endless(FakeTts):
        given = 0

        async def synthesize(self, request):
            while True:
                self.given += 1
                yield chunk

    tts = Endless()
    assert_silent(play_turn(WORDS, tts=tts))
    assert tts.given <= 6001


def test_a_voice_that_hangs_costs_its_time_out_once():
    tts = FakeTts(wait=asyncio.Event())
    long_reply = '{"emotion":"happy","action":"nod","reply":"' + "今日はいい天気だね。" * 20 + '"}'
    played = play_turn(WORDS, tts=tts, llm=FakeLlm(scripts=[answer(long_reply)]))
    assert (played.result.speech_duration_ms, played.result.error.code) == (None, "tts_timeout")
    assert (played.seconds, len(tts.spoken)) == (5, 1)
    assert played.result.reply == "今日はいい天気だね。" * 20


def test_a_voice_that_clings_to_life_holds_the_turn_no_longer_than_a_moment():
    class Clinging(FakeTts):
        async def synthesize(self, request):
            release = asyncio.get_running_loop().call_later(60, gate.set)
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue
            release.cancel()
            yield sound()

    gate = asyncio.Event()

    async def scenario():
        played = await take_turn(WORDS, tts=Clinging())
        gate.set()
        await asyncio.sleep(0.1)  # it wakes up, and what it gives is no longer wanted
        return played, len(kinds(played.events, SpeechProduced))

    played, sounds = in_virtual_time(scenario())
    assert_silent(played, "tts_timeout")
    assert played.seconds <= 6.1
    assert sounds == 0


@pytest.mark.parametrize(
    "chunks",
    [
        [None],
        ["sound"],
        [b"\0\0"],
        [AudioChunk([1, 2, 3], 48_000)],
        [AudioChunk(None, 48_000)],
        [sound(dtype=np.float32)],
        [AudioChunk(np.full(480, np.nan, np.float32), 48_000)],
        [sound(dtype=np.float64)],
        [sound(dtype=np.int32)],
        [AudioChunk(np.zeros((480, 2), np.int16), 48_000)],
        [AudioChunk(np.zeros(480, np.int16), 0)],
        [AudioChunk(np.zeros(480, np.int16), -24_000)],
        [AudioChunk(np.zeros(480, np.int16), 24_000.5)],
        [AudioChunk(np.zeros(480, np.int16), None)],
        [AudioChunk(np.zeros(480, np.int16), 10**9)],
        [sound(600)],
        [sound(1.0)] * 100,
        [sound(0.1), None],
    ],
    ids=range(18),
)
def test_what_is_no_sound_leaves_the_written_answer(chunks):
    played = play_turn(WORDS, tts=FakeTts(chunks=chunks))
    assert_silent(played)
    assert played.samples <= 24_000 * 60, "a voice that runs away is stopped"


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 22_050, 24_000, 44_100, 48_000, np.int64(24_000)])
def test_every_usual_rate_is_spoken_at_the_speech_rate(rate_hz):
    played = play_turn(WORDS, tts=FakeTts(chunks=[sound(0.5, rate_hz)]))
    assert played.result.speech_duration_ms == 1000
    assert {e.chunk.sample_rate_hz for e in kinds(played.events, SpeechProduced)} == {24_000}


def test_empty_chunks_beside_sound_are_no_error():
    empty = AudioChunk(np.zeros(0, np.int16), 48_000)
    played = play_turn(WORDS, tts=FakeTts(chunks=[empty, sound(0.2), empty]))
    assert (played.result.error, played.result.speech_duration_ms) == (None, 400)


def test_a_synthesizer_that_is_no_stream_leaves_the_written_answer():
    class Broken(FakeTts):
        def synthesize(self, request):
            return None

    assert_silent(play_turn(WORDS, tts=Broken()))


def test_half_of_an_answer_in_sound_is_no_sound():
    """The second piece fails: a device shows the text rather than stop in its middle."""

    class Breaking(FakeTts):
        async def synthesize(self, request):
            if self.spoken:
                raise TtsError("out of breath")
            self.spoken.append(request)
            yield sound()

    played = play_turn(WORDS, tts=Breaking())
    assert_silent(played)
    assert played.spoken == ["今日はいい天気だから、"]


def test_a_model_is_not_timed_out_by_a_slow_voice():
    class Slow(FakeTts):
        async def synthesize(self, request):
            await asyncio.sleep(4)
            yield sound(0.1)

    text = '{"emotion":"happy","action":"nod","reply":"' + "今日はとてもいい天気だね。" * 30 + '"}'
    played = play_turn(WORDS, tts=Slow(), llm=FakeLlm(scripts=[answer(text)]))
    assert (played.result.outcome, played.result.error) == ("ok", None)
    assert played.result.speech_duration_ms == 3000
    assert played.seconds == 120


def test_cancelling_while_it_speaks_leaves_no_task():
    async def scenario():
        turn = asyncio.create_task(take_turn(WORDS, tts=FakeTts(wait=asyncio.Event())))
        await asyncio.sleep(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return asyncio.get_running_loop().time()

    assert in_virtual_time(scenario()) == 1


@pytest.mark.parametrize("stage", ["asr", "llm", "tts"])
def test_cancelling_in_the_middle_of_a_stage_leaves_no_task(stage):
    from tests.fakes.engines import FakeAsr

    engines = {
        "asr": {"asr": FakeAsr(wait=asyncio.Event())},
        "llm": {"llm": FakeLlm(scripts=[[LlmText("{"), asyncio.Event()]])},
        "tts": {"tts": FakeTts(wait=asyncio.Event())},
    }[stage]

    async def scenario():
        turn = asyncio.create_task(take_turn(**engines))
        await asyncio.sleep(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    in_virtual_time(scenario())
