"""The apologies: the right sentence for each fault, made once as sound, and said even when there is no voice left."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from server.errors import AsrError, LlmError, StackChanError, TtsError, VadError
from server.events import AudioChunk, SpeechProduced
from server.persona import default_persona_path, load_persona
from server.pipeline.apology import APOLOGIES, apology, fault_of
from server.pipeline.clips import VoiceClips
from server.pipeline.device_link import DeviceLink
from server.pipeline.filler import FILLERS, THAT_WAS_LONG
from server.pipeline.request import TurnRequest
from server.pipeline.speakable import speakable
from server.pipeline.speaking import Voice
from server.pipeline.trace import TurnTrace
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts
from tests.pipeline.turns import SETTINGS, kinds, play_turn
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="散歩に行こう")
PERSONA = load_persona(default_persona_path())


def made(tts=None, persona=PERSONA, timeout_seconds=5.0):
    async def make():
        clips = VoiceClips()
        await clips.make_for(persona, tts or FakeTts(), 24_000, timeout_seconds=timeout_seconds)
        return clips

    return in_virtual_time(make())


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (AsrError("x"), "not_heard"),
        (AsrError("x", code="asr_timeout", retryable=True), "not_heard"),
        (VadError("x"), "not_heard"),
        (LlmError("x", code="llm_timeout", retryable=True), "not_thought"),
        (LlmError("x", code="llm_no_reply", retryable=True), "not_thought"),
        (LlmError("x", code="llm_unreachable", retryable=True), "not_thought"),
        (LlmError("x", code="llm_rate_limited", retryable=True), "busy"),
        (LlmError("x", code="llm_overloaded", retryable=True), "busy"),
        (LlmError("x", code="llm_context_overflow"), "too_long"),
        (LlmError("x", code="llm_unauthorized"), "out_of_order"),
        (StackChanError("x"), "out_of_order"),
    ],
)
def test_each_fault_has_its_sentence(error, fault):
    assert fault_of(error) == fault


def test_asking_again_is_offered_only_where_it_may_help():
    offers = {fault for fault, texts in APOLOGIES.items() if "again" in texts["en"]}
    assert offers == {"not_thought", "busy"}
    assert {fault for fault, texts in APOLOGIES.items() if "もう一回" in texts["ja"]} == {"not_thought"}


def test_every_sentence_exists_in_both_languages_and_none_twice():
    for language in ("ja", "en"):
        sentences = [texts[language] for texts in APOLOGIES.values()]
        assert len(set(sentences)) == len(sentences) == 5
    assert apology("busy", "fr") == APOLOGIES["busy"]["en"]


def test_clips_are_spoken_doubtfully_in_the_personas_languages_at_the_speech_rate():
    tts = FakeTts()
    clips = made(tts)
    assert {request.emotion for request in tts.spoken} == {"doubt"}
    assert [request.language for request in tts.spoken[:10]] == ["ja", "en"] * 5
    assert [request.text for request in tts.spoken[10:]] == [
        speakable(text, language) for language in ("ja", "en") for text in (*FILLERS[language], THAT_WAS_LONG[language])
    ]
    for fault in APOLOGIES:
        for language in ("ja", "en"):
            clip = clips.apology(fault, language)
            assert clip is not None
            assert clip.dtype == np.int16
    assert clips.apology("busy", "fr") is None
    only = made(persona=replace(PERSONA, languages=("en",)))
    assert only.apology("busy", "ja") is None
    assert only.apology("busy", "en") is not None


def test_a_clip_is_as_long_as_its_voice_was():
    clips = made(FakeTts(chunks=[AudioChunk(np.ones(48_000, np.int16), 48_000)] * 2))
    assert len(clips.apology("not_heard", "ja")) == 48_000


@pytest.mark.parametrize(
    "tts",
    [
        FakeTts(error=TtsError("hoarse")),
        FakeTts(error=ValueError("defect")),
        FakeTts(chunks=[]),
        FakeTts(chunks=[None]),
        FakeTts(wait=asyncio.Event()),
    ],
)
def test_a_voice_that_fails_is_told_once_and_ends_the_making(tts, caplog):
    clips = made(tts)
    assert clips.apology("not_heard", "ja") is None
    assert len(tts.spoken) == 1
    assert [record.levelname for record in caplog.records if "not prepared" in record.message] == ["WARNING"]


def test_the_start_waits_only_a_moment_for_a_slow_voice_which_goes_on():
    class Slow(FakeTts):
        async def synthesize(self, request):
            await asyncio.sleep(2)
            yield AudioChunk(np.ones(480, np.int16), 48_000)

    async def scenario():
        loop, clips = asyncio.get_running_loop(), VoiceClips()
        making = asyncio.create_task(clips.make_for(PERSONA, Slow(), 24_000, timeout_seconds=5))
        await clips.wait(3)
        waited = loop.time()
        await making
        await clips.wait(3)
        return waited, loop.time(), clips.apology("out_of_order", "en") is not None

    assert in_virtual_time(scenario()) == (3, 2 * (5 * 2 + 6 + 2), True)


@pytest.mark.parametrize("tts", [FakeTts(), FakeTts(error=TtsError("gone since")), FakeTts(wait=asyncio.Event())])
def test_a_clip_is_said_without_the_voice(tts):
    clips = made()
    played = play_turn(asr=FakeAsr(error=AsrError("x")), tts=tts, controller={"clips": clips})
    expected = clips.apology("not_heard", "ja")
    said = [event.chunk.samples for event in kinds(played.events, SpeechProduced)]
    assert np.array_equal(np.concatenate(said), expected)
    assert played.result.speech_duration_ms == round(len(expected) / 24)
    assert (played.trace["apology"], played.seconds) == ("clip", 0)
    assert tts.spoken == []
    assert played.spoken == [APOLOGIES["not_heard"]["ja"]]
    assert played.result.error.code == "asr_failed"


@pytest.mark.parametrize(("text", "language"), [("散歩に行こう", "ja"), ("Let us go for a walk", "en")])
def test_the_clip_is_in_the_language_of_the_speaker(text, language):
    clips = made()
    llm = FakeLlm(scripts=[[LlmError("x", code="llm_context_overflow")]])
    played = play_turn(TurnRequest("desk", text=text), llm=llm, controller={"clips": clips})
    assert played.samples == len(clips.apology("too_long", language))
    assert played.result.reply == APOLOGIES["too_long"][language]


def test_without_a_clip_the_apology_is_spoken_live():
    tts = FakeTts()
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[LlmError("x")]]), tts=tts)
    assert played.trace["apology"] == "live"
    assert [(request.text, request.emotion) for request in tts.spoken] == [(APOLOGIES["out_of_order"]["ja"], "doubt")]
    assert played.result.speech_duration_ms


def test_without_clip_and_voice_the_apology_is_text():
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[LlmError("x")]]), tts=FakeTts(error=TtsError("hoarse")))
    result = played.result
    assert (result.reply, result.speech_duration_ms) == (APOLOGIES["out_of_order"]["ja"], None)
    assert (result.error.code, played.trace["apology"]) == ("llm_failed", "none"), "the first fault is the one told"


def test_a_persona_that_knows_no_doubt_apologises_neutrally():
    persona = replace(PERSONA, emotions=tuple(e for e in PERSONA.emotions if e.id != "doubt"))
    played = play_turn(WORDS, persona=persona, llm=FakeLlm(scripts=[[LlmError("x")]]))
    assert played.result.emotion == "neutral"


class BreaksOff(FakeTts):
    """Speaks so many milliseconds and fails."""

    def __init__(self, spoken_ms):
        super().__init__()
        self._spoken_ms = spoken_ms

    async def synthesize(self, request):
        if self._spoken_ms:
            yield AudioChunk(np.full(24 * self._spoken_ms, 1000, np.int16), 24_000)
        raise TtsError("mute")


@pytest.mark.parametrize("spoken_ms", [0, 300])
def test_a_clip_is_audio_although_the_voice_has_failed_before_it(spoken_ms):
    clip_ms, events = 700, []

    async def apologise():
        async def emit(event):
            events.append(event)

        trace = TurnTrace(asyncio.get_running_loop().time)
        voice = Voice(BreaksOff(spoken_ms), SETTINGS, 384, DeviceLink(384, emit, trace), trace)
        await voice.say("うん、そうだね。", "ja", "happy")
        failed = voice.duration_ms, voice.error
        await voice.replay("ごめん。", np.full(24 * clip_ms, 1000, np.int16))
        return failed, voice.duration_ms

    (before, error), after = in_virtual_time(apologise())
    assert (before, error.code) == (None, "tts_failed")
    assert after == spoken_ms + clip_ms
    assert after == sum(len(event.chunk.samples) for event in kinds(events, SpeechProduced)) / 24
