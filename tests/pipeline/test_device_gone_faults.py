"""A device that vanishes, an observer that breaks, a disk that is full: what becomes of the turn."""

from __future__ import annotations

import asyncio

import pytest

from server.errors import LlmError, StorageError
from server.events import ActionChosen, FaceChosen, SpeechProduced, TranscriptReady, TurnEnded
from server.pipeline.device_link import EMIT_TIMEOUT_SECONDS
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, FakeTts
from tests.pipeline.turns import FakeJournal, play_turn, take_turn
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="散歩に行こう")
REPLY = "今日はいい天気だから、散歩に行こうよ。"
MOMENTS = [TranscriptReady, FaceChosen, ActionChosen, SpeechProduced, TurnEnded]


def vanishing(kind, how):
    """A device that takes events until the first of `kind`."""

    async def emit(event):
        if isinstance(event, kind):
            if isinstance(how, BaseException):
                raise how
            await how.wait()

    return emit


@pytest.mark.parametrize("kind", MOMENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("error", [ConnectionResetError(), RuntimeError("closed"), asyncio.CancelledError()], ids=repr)
def test_the_turn_completes_and_is_stored_when_the_device_is_gone(kind, error):
    played = play_turn(WORDS, emit=vanishing(kind, error))
    assert (played.result.outcome, played.result.reply, played.result.error) == ("ok", REPLY, None)
    assert played.journal.heard_words[0].text == "散歩に行こう"
    assert played.journal.results == [played.result]
    assert isinstance(played.events[-1], kind), "after the event that could not be delivered nothing is sent"
    if kind is not TurnEnded:
        assert played.trace["device_gone"] is True
        assert played.result.speech_duration_ms is None, "nobody is there to hear it"


@pytest.mark.parametrize("kind", MOMENTS, ids=lambda kind: kind.__name__)
def test_a_device_that_hangs_delays_its_turn_once(kind):
    played = play_turn(WORDS, emit=vanishing(kind, asyncio.Event()))
    assert (played.result.outcome, played.result.reply) == ("ok", REPLY)
    assert played.seconds == EMIT_TIMEOUT_SECONDS
    assert played.journal.results == [played.result]


def test_nothing_is_synthesised_for_nobody():
    tts = FakeTts()
    play_turn(WORDS, emit=vanishing(TranscriptReady, ConnectionResetError()), tts=tts)
    assert tts.spoken == []


def test_an_apology_to_nobody_is_none():
    llm = FakeLlm(scripts=[[LlmError("x")]])
    played = play_turn(WORDS, emit=vanishing(TranscriptReady, ConnectionResetError()), llm=llm)
    assert (played.result.outcome, played.trace["apology"]) == ("failed", "none")
    assert played.journal.results == [played.result]


def test_a_device_that_listens_has_no_mark_of_absence():
    assert "device_gone" not in play_turn(WORDS).trace


def test_an_observer_that_raises_undoes_nothing():
    seen = []

    def broken(request, result, trace):
        raise ValueError("no")

    def good(request, result, trace):
        seen.append((request, result.outcome, trace["llm"]["calls"]))

    played = play_turn(WORDS, controller={"observers": (broken, good)})
    assert seen == [(WORDS, "ok", 1)]
    assert isinstance(played.events[-1], TurnEnded)


# Storage


@pytest.mark.parametrize("error", [StorageError("full", code="storage_full"), OSError(28, "full"), ValueError("x")])
def test_words_that_cannot_be_stored_are_not_answered_and_the_next_turn_works(error):
    async def scenario():
        llm, tts, journal = FakeLlm(), FakeTts(), FakeJournal(error=error)
        with pytest.raises(StorageError) as caught:
            await take_turn(WORDS, llm=llm, tts=tts, journal=journal)
        assert llm.requests == []
        assert tts.spoken == []
        assert not {"TranscriptReady", "SpeechProduced", "ended"} & set(journal.log)
        journal.error = None
        played = await take_turn(WORDS, llm=llm, tts=tts, journal=journal)
        return caught.value.code, played.result.outcome

    code, outcome = in_virtual_time(scenario())
    assert (code, outcome) == ("storage_full" if isinstance(error, StorageError) else "storage_failed", "ok")


def test_an_answer_that_cannot_be_stored_is_an_error_of_storage():
    class Full(FakeJournal):
        async def ended(self, turn, result, trace, now):
            raise StorageError("full", code="storage_full")

    journal = Full()
    with pytest.raises(StorageError):
        play_turn(WORDS, journal=journal)
    assert journal.heard_words
    assert "TurnEnded" not in journal.log
