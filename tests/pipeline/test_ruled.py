"""Answers that are known without the model: a small one is not asked for them, a capable one is."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest

from server.engines.base import LlmDone, LlmToolCall
from server.errors import StorageError
from server.persona import default_persona_path, load_persona
from server.pipeline.request import TurnRequest
from server.pipeline.ruled import ruled
from server.pipeline.tool_loop import UNREACHABLE, ToolRun
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.test_tool_faults import Odd
from tests.pipeline.turns import play_turn

pytestmark = pytest.mark.unit

PERSONA = load_persona(default_persona_path())

NOON = dt.datetime(2026, 7, 24, 12, 5, tzinfo=dt.UTC)
FOUND = {"candidates": [{"memory_id": "mem_778", "summary": "自転車は青い。", "occurred_at": "2026-04-05"}]}
LATE = {"error": UNREACHABLE}
NOTHING = {"candidates": [], "note": "nothing found"}


def run(name, result):
    return ToolRun(name, {}, result)


MUTED = {"microphone": "off"}
SET = {"timer_set": True, "length": "3分"}
SAD, CALM, GLAD = ("sad", "none"), ("neutral", "none"), ("happy", "nod")


@pytest.mark.parametrize(
    ("words", "language", "runs", "reply", "movement"),
    [
        ("今何時？", "ja", [], "今は12時5分だよ。", ("happy", "none")),
        ("What time is it?", "en", [], "It is 12:05 in the afternoon.", ("happy", "none")),
        ("音を小さく", "ja", [run("set_volume", {"volume_percent": 60})], "音の大きさを60パーセントにしたよ。", GLAD),
        ("mute", "en", [run("mute_microphone", MUTED)], "My microphone is off now.", GLAD),
        ("音を小さく", "ja", [run("set_volume", {"volume_set": False})], "ここでは音の大きさを変えられないよ。", CALM),
        ("3分計って", "ja", [run("set_timer", SET)], "3分のタイマーをかけたよ。", GLAD),
        ("cancel it", "en", [run("cancel_timer", {"cancelled": []})], "No timer is running.", CALM),
        ("cancel it", "en", [run("cancel_timer", {"error": "broken"})], "Sorry, I could not do that.", CALM),
        ("自転車は何色だっけ？", "ja", [run("search_memory", FOUND)], "「自転車は青い」って聞いたよ。", GLAD),
        ("ぼくの自転車は何色？", "ja", [run("search_memory", NOTHING)], "ごめんね、それは覚えていないよ。", SAD),
        ("ぼくの自転車はいくら？", "ja", [run("search_memory", NOTHING)], "ごめんね、それは覚えていないよ。", SAD),
        ("歯医者はいつだっけ？", "ja", [run("search_memory", LATE)], "ごめんね、今は思い出せないよ。", SAD),
        ("When is my dentist?", "en", [run("search_memory", LATE)], "Sorry, I cannot remember right now.", SAD),
        ("自転車のことは忘れて", "ja", [run("forget_memory", {"forgotten": 0})], "それは覚えていないよ。", CALM),
    ],
)
def test_what_is_true_is_said_with_a_face_and_a_movement(words, language, runs, reply, movement):
    may_say = ruled(words, language, runs, NOON)
    assert may_say is not None
    written = may_say.answer(PERSONA)
    assert written is not None
    assert json.loads(written) == {"emotion": movement[0], "action": movement[1], "reply": reply}


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("おはよう", []),
        ("自転車を売ったよ。", [run("search_memory", FOUND)]),
        ("自転車を売ったよ。", [run("search_memory", LATE)]),
        ("自転車は何色だっけ？", [run("search_memory", {"error": "a query is missing"})]),
    ],
)
def test_of_the_rest_nothing_is_ruled(words, runs):
    assert ruled(words, "ja", runs, NOON) is None


def test_a_number_may_be_read_in_the_source_first():
    asked = "自転車はいくらだった？"
    found = [run("search_memory", FOUND)]
    before = ruled(asked, "ja", found, NOON)
    after = ruled(asked, "ja", [*found, run("read_memory_source", {"source_checked": True, "turns": []})], NOON)
    assert before is not None
    assert after is not None
    assert before.replies == after.replies
    assert before.answer(PERSONA) is None
    assert after.answer(PERSONA) is not None


def test_of_two_true_replies_the_model_chooses():
    may_say = ruled("自転車のことは忘れて", "ja", [run("forget_memory", {"forgotten": 1})], NOON)
    assert may_say is not None
    assert len(may_say.replies) == 2
    assert may_say.answer(PERSONA) is None


def test_a_persona_without_that_face_or_movement_is_calm():
    persona = replace(PERSONA, emotions=PERSONA.emotions[:1], actions=PERSONA.actions[:1])
    may_say = ruled("今何時？", "ja", [], NOON)
    assert may_say is not None
    assert json.loads(may_say.answer(persona) or "{}")["emotion"] == "neutral"


@pytest.mark.parametrize(
    ("words", "result", "small", "calls"),
    [
        ("自転車は何色だっけ？", FOUND, True, 1),
        ("自転車は何色だっけ？", FOUND, False, 2),
        ("自転車は何色だっけ？", StorageError("disk"), True, 1),
        ("自転車を売ったよ。", FOUND, True, 2),
    ],
)
def test_a_small_model_is_not_asked_for_what_is_known(words, result, small, calls):
    call = [LlmToolCall("search_memory", {"query": "bike"}, "call-1"), LlmDone("tool_calls")]
    llm = FakeLlm(scripts=[call, answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    played = play_turn(TurnRequest("desk", text=words), llm=llm, tools=[Odd(result)])
    assert len(llm.requests) == calls
    assert played.result.outcome == "ok"
    assert played.result.reply


@pytest.mark.parametrize(("small", "calls"), [(True, 0), (False, 1)])
def test_the_clock_is_asked_no_model(small, calls):
    llm = FakeLlm(scripts=[answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    played = play_turn(TurnRequest("desk", text="今何時？"), llm=llm)
    assert len(llm.requests) == calls
    assert ("時" in played.result.reply) is small
