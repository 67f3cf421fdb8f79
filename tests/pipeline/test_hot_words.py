"""Words that the ears are told to expect: given to the engine and to the guards, and never at the turn's cost."""

from __future__ import annotations

import asyncio

import pytest

from server.engines.base import AsrCapabilities
from server.errors import StorageError
from server.pipeline.expected_words import HOT_WORDS_SECONDS
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeAsr, FakeLlm
from tests.pipeline.turns import TURN, play_turn

pytestmark = pytest.mark.unit

WORDS = ("スタックチャン", "Karigurashi", "秋葉原")


def expecting(given, asked=None):
    async def hot_words(turn):
        if asked is not None:
            asked.append(turn)
        if isinstance(given, Exception):
            raise given
        if isinstance(given, asyncio.Event):
            await given.wait()
        return given

    return {"hot_words": hot_words}


def test_the_ears_are_told_the_words_to_expect():
    asr, asked = FakeAsr(text="秋葉原に行こう"), []
    played = play_turn(asr=asr, controller=expecting(WORDS, asked))
    assert asr.expected == [WORDS]
    assert asked == [TURN]
    assert (played.result.outcome, played.result.transcript) == ("ok", "秋葉原に行こう")


@pytest.mark.parametrize("echo", ["スタックチャン", "秋葉原、スタックチャン。", "karigurashi 秋葉原", "KARIGURASHI!"])
def test_an_echo_of_nothing_but_these_words_was_not_said(echo):
    llm = FakeLlm()
    played = play_turn(asr=FakeAsr(text=echo), llm=llm, controller=expecting(WORDS))
    assert (played.result.outcome, played.result.transcript) == ("no_speech", "")
    assert played.trace["asr_dropped"] == "hot_words"
    assert played.journal.heard_words == [], "no source turn"
    assert llm.requests == []


def test_without_them_the_same_words_are_an_utterance():
    asr = FakeAsr(text="スタックチャン")
    played = play_turn(asr=asr)
    assert (played.result.outcome, asr.expected) == ("ok", [()])


@pytest.mark.parametrize(
    "given", [StorageError("disk"), KeyError("秘密"), None, 3, [3, None, "", " "], TimeoutError()], ids=repr
)
def test_words_that_cannot_be_found_are_none(given):
    asr = FakeAsr()
    played = play_turn(asr=asr, controller=expecting(given))
    assert (played.result.outcome, asr.expected) == ("ok", [()])


def test_words_that_come_late_are_not_waited_for():
    asr = FakeAsr()
    played = play_turn(asr=asr, controller=expecting(asyncio.Event()))
    assert (played.result.outcome, asr.expected) == ("ok", [()])
    assert played.seconds == pytest.approx(HOT_WORDS_SECONDS) == 0.05


def test_typed_words_and_ears_that_take_none_need_none():
    class Plain(FakeAsr):
        capabilities = AsrCapabilities(hot_words=False)

    asked = []
    played = play_turn(asr=Plain(text="スタックチャン"), controller=expecting(WORDS, asked))
    play_turn(TurnRequest("desk", text="スタックチャン"), controller=expecting(WORDS, asked))
    assert (played.result.outcome, asked) == ("ok", [])
