"""A turn that looks something up for long: a doubtful face and a filler, once, before the answer, never part of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.errors import LlmError
from server.events import FaceChosen, SentenceStarted, SpeechProduced, StateChanged
from server.persona import default_persona_path, load_persona
from server.pipeline.apology import APOLOGIES
from server.pipeline.clips import VoiceClips
from server.pipeline.filler import FILLERS
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, FakeTts, answer
from tests.pipeline.turns import SETTINGS, TURN, kinds, play_turn, take_turn
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="前に買ったPC、いくらだっけ？")
REPLY = "今日はいい天気だから、散歩に行こうよ。"
CALL = [LlmToolCall("search_memory", {"query": "PC"}, "call-1"), LlmDone("tool_calls")]
PERSONA = load_persona(default_persona_path())


class Search:
    """A memory that takes its time."""

    spec = ToolSpec("search_memory", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        await asyncio.sleep(self.seconds)
        return {"candidates": [{"memory_id": "mem_01", "summary": "PCを買った。"}]}


async def made_clips(persona=PERSONA):
    clips = VoiceClips()
    await clips.make_for(persona, FakeTts(), 24_000, timeout_seconds=5)
    return clips


CLIPS = in_virtual_time(made_clips())


def play(*scripts, tool=None, clips=CLIPS, request=WORDS, **more):
    llm = FakeLlm(scripts=list(scripts))
    return play_turn(request, llm=llm, tools=[tool or Search()], controller={"clips": clips}, **more)


def assert_filled(played, language="ja"):
    """The filler came once, before the first word, and is no word of the robot."""
    clip = CLIPS.filler(language, TURN.turn_id)
    chunks = kinds(played.events, SpeechProduced)
    assert np.array_equal(chunks[0].chunk.samples, clip)
    first = next(index for index, event in enumerate(played.events) if isinstance(event, SpeechProduced))
    started = next(index for index, event in enumerate(played.events) if isinstance(event, SentenceStarted))
    assert first < started
    assert not set(played.spoken) & {text for texts in FILLERS.values() for text in texts}
    assert played.trace["filler"] == "clip"
    assert sum(np.array_equal(chunk.chunk.samples, clip) for chunk in chunks) == 1


def assert_none(played):
    assert "filler" not in played.trace
    assert "filler" not in played.trace["marks"]
    assert FaceChosen(384, "doubt") not in played.events
    sounds = [type(event) for event in played.events if isinstance(event, SentenceStarted | SpeechProduced)]
    # A sentence's sound may come in several pieces.
    assert [kind for kind, _ in groupby(sounds)] == [SentenceStarted, SpeechProduced] * 2


def test_a_late_answer_after_a_search_is_announced_once():
    played = play(CALL, [3.0, *answer()])
    assert_filled(played)
    result = played.result
    assert (result.outcome, result.reply, result.emotion) == ("ok", REPLY, "happy")
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "doubt"), FaceChosen(384, "happy")]
    assert played.states == ["listening", "thinking", "speaking", "idle"]
    assert result.speech_duration_ms == round(played.samples / 24)
    marks = played.trace["marks"]
    assert 1200 <= marks["filler"] < 1300
    assert marks["first_audio"] > 3000
    assert [span["name"] for span in played.trace["spans"]].count("filler") == 1
    assert 1200 <= result.latency_ms["filler"] < 1300 < 3000 < result.latency_ms["first_audio"]
    assert not any(text in repr(played.trace) for text in FILLERS["ja"])


def test_it_comes_when_the_search_itself_takes_long():
    assert_filled(play(CALL, answer(), tool=Search(1.5)))


def test_it_comes_with_the_call_when_the_time_is_over_by_then():
    played = play([2.0, *CALL], [0.5, *answer()])
    assert_filled(played)
    assert 2000 <= played.trace["marks"]["filler"] < 2100


@pytest.mark.parametrize("scripts", [([3.0, *answer()],), (CALL, [1.1, *answer()]), ([0.5, *CALL], [0.6, *answer()])])
def test_without_a_search_or_in_time_there_is_none(scripts):
    played = play(*scripts)
    assert_none(played)
    assert played.result.reply == REPLY


def test_when_the_first_clause_is_ready_it_never_comes_however_slow_the_voice_is():
    class Slow(FakeTts):
        async def synthesize(self, request):
            await asyncio.sleep(2)
            async for chunk in super().synthesize(request):
                yield chunk

    played = play(CALL, [1.0, *answer()], tts=Slow())
    assert_none(played)
    assert played.result.reply == REPLY


def test_a_face_of_the_answer_that_is_there_stays():
    written = [LlmText('{"emotion":"sad","action":"none","reply":"'), 2.0, LlmText('うん、いいよ。"}'), LlmDone("stop")]
    played = play(CALL, written)
    assert_filled(played)
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "sad")]


def test_several_searches_are_announced_once():
    assert_filled(play([1.3, *CALL], [1.3, *CALL], [1.3, *answer()]))


def test_it_can_be_switched_off():
    played = play(CALL, [3.0, *answer()], settings=replace(SETTINGS, filler_seconds=None))
    assert_none(played)
    assert_filled(play(CALL, [0.5, *answer()], settings=replace(SETTINGS, filler_seconds=0.4)))


def test_without_a_clip_only_the_face_tells():
    played = play(CALL, [3.0, *answer()], clips=None)
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "doubt"), FaceChosen(384, "happy")]
    assert (played.trace["filler"], played.spoken[0]) == ("face", "今日はいい天気だから、")
    assert kinds(played.events, StateChanged, SpeechProduced)[2].state == "speaking"


def test_a_persona_without_doubt_keeps_its_face():
    plain = replace(PERSONA, emotions=tuple(entry for entry in PERSONA.emotions if entry.id != "doubt"))
    played = play(CALL, [3.0, *answer()], persona=plain)
    assert_filled(played)
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "happy")]
    assert "filler" not in play(CALL, [3.0, *answer()], persona=plain, clips=None).trace


def test_it_speaks_the_language_of_the_user():
    request = TurnRequest("desk", text="How much was the PC I bought?")
    reply = answer('{"emotion":"happy","action":"nod","reply":"A Fujitsu one."}')
    assert_filled(play(CALL, [3.0, *reply], request=request), "en")


def test_the_sentences_change_from_turn_to_turn_and_are_made_in_every_language():
    for language, texts in FILLERS.items():
        made = [CLIPS.filler(language, number) for number in range(len(texts))]
        assert all(clip is not None and len(clip) for clip in made)
        assert len({len(clip) for clip in made}) > 1
        assert CLIPS.filler(language, len(texts)) is made[0]
    assert CLIPS.filler("fr", 1) is None
    assert VoiceClips().filler("ja", 1) is None


def test_an_apology_after_it_is_spoken_and_stored_without_it():
    played = play(CALL, [2.0, LlmError("no")])
    assert_filled(played)
    assert (played.result.outcome, played.result.reply) == ("failed", APOLOGIES["out_of_order"]["ja"])
    assert played.states == ["listening", "thinking", "speaking", "error", "speaking", "idle"]
    assert (played.spoken, played.trace["apology"]) == ([played.result.reply], "clip")
    assert played.result.speech_duration_ms == round(played.samples / 24)


def test_a_cancelled_turn_says_nothing_more():
    events = []

    async def scenario():
        async def emit(event):
            events.append(event)

        task = asyncio.create_task(
            take_turn(
                WORDS,
                llm=FakeLlm(scripts=[CALL, [60.0, *answer()]]),
                tools=[Search()],
                controller={"clips": CLIPS},
                emit=emit,
                settings=replace(SETTINGS, llm_timeout_seconds=90),
            )
        )
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(5.0)

    in_virtual_time(scenario())
    assert kinds(events, SpeechProduced, FaceChosen) == []


def test_a_device_that_takes_long_gets_the_filler_before_the_answer():
    """The answer comes while the filler is still on its way to the device."""

    async def slow(event):
        if isinstance(event, SpeechProduced | FaceChosen):
            await asyncio.sleep(1.0)

    played = play(CALL, [1.5, *answer()], emit=slow)
    assert_filled(played)
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "doubt"), FaceChosen(384, "happy")]


def test_for_a_device_that_is_gone_there_is_none():
    async def gone(event):
        raise ConnectionError

    played = play(CALL, [3.0, *answer()], emit=gone)
    assert "filler" not in played.trace
    assert played.result.reply == REPLY
