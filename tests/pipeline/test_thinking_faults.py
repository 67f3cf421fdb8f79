"""A model that fails: asked again once where that may help, within one time-out; else a spoken apology."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from server.context.session_turns import Exchange, SessionTurns
from server.engines.base import LlmDone, LlmText
from server.engines.registry import ENDPOINT_SILENCE_SHARE
from server.errors import LlmError, StorageError
from server.events import FaceChosen
from server.pipeline.apology import APOLOGIES
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.turns import NOW, SETTINGS, TURN, kinds, play_turn, shown

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="左を見て")
REPLY = "今日はいい天気だから、散歩に行こうよ。"


def passing(code="llm_unreachable", **more):
    return LlmError("it may pass", code=code, retryable=True, **more)


def assert_apology(played, fault, code, language="ja"):
    result = played.result
    assert (result.status, result.outcome, result.error.code) == ("failed", "failed", code)
    assert (result.reply, result.emotion) == (APOLOGIES[fault][language], "doubt")
    assert played.spoken == [APOLOGIES[fault][language]]
    assert result.speech_duration_ms
    assert [words.text for words in played.journal.heard_words] == [result.transcript], "the user's words are stored"
    assert played.journal.log.index("heard") < played.journal.log.index("SpeechProduced")
    assert kinds(played.events, FaceChosen)[-1] == FaceChosen(384, "doubt")
    assert played.states[-2:] == ["speaking", "idle"]
    assert played.trace["error"] == {"code": code, "retryable": result.error.retryable}


# The second try


def test_an_error_that_may_pass_is_tried_once_more():
    llm = FakeLlm(scripts=[[passing()], answer()])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply, played.result.error) == ("ok", REPLY, None)
    assert len(llm.requests) == 2
    assert llm.requests[0] == llm.requests[1]
    assert played.trace["llm_retries"] == 1
    assert "apology" not in played.trace
    assert [span["name"] for span in played.trace["spans"] if span["name"] == "llm"] == ["llm", "llm"]


def test_there_is_one_second_try_and_no_third():
    llm = FakeLlm(scripts=[[passing()]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "not_thought", "llm_unreachable")
    assert len(llm.requests) == 2
    assert played.trace["llm_retries"] == 1


@pytest.mark.parametrize("code", ["llm_unauthorized", "llm_refused", "llm_failed"])
def test_an_error_that_stays_is_not_tried_again(code):
    llm = FakeLlm(scripts=[[LlmError("no", code=code)]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "out_of_order", code)
    assert len(llm.requests) == 1
    assert "llm_retries" not in played.trace


@pytest.mark.parametrize("wanted", [0.0, 1.5, 2.0])
def test_a_short_wait_that_the_endpoint_asks_for_is_kept(wanted):
    llm = FakeLlm(scripts=[[passing("llm_rate_limited", retry_after_seconds=wanted)], answer()])
    played = play_turn(WORDS, llm=llm)
    assert played.result.outcome == "ok"
    assert played.seconds == wanted


@pytest.mark.parametrize("wanted", [2.1, 30, 86_400, float("inf")])
def test_a_long_wait_is_an_apology_at_once(wanted):
    llm = FakeLlm(scripts=[[passing("llm_rate_limited", retry_after_seconds=wanted)], answer()])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "busy", "llm_rate_limited")
    assert (len(llm.requests), played.seconds) == (1, 0)


def test_a_wait_that_leaves_no_time_to_think_is_not_begun():
    llm = FakeLlm(scripts=[[3.5, passing("llm_overloaded", retry_after_seconds=1.0)], answer()])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "busy", "llm_overloaded")
    assert played.seconds == 3.5


def test_both_tries_share_one_time_out():
    llm = FakeLlm(scripts=[[3, passing()], [asyncio.Event()]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "not_thought", "llm_timeout")
    assert (played.seconds, len(llm.requests), llm.cancelled) == (5, 2, 1)


@pytest.mark.parametrize("budget_seconds", [3.0, 5.0, 60.0])
def test_an_endpoint_that_was_silent_for_its_share_is_asked_again_in_time(budget_seconds):
    silent = [budget_seconds * ENDPOINT_SILENCE_SHARE, passing("llm_timeout")]
    settings = replace(SETTINGS, llm_timeout_seconds=budget_seconds)
    llm = FakeLlm(scripts=[silent, [0.9, *answer()]])
    played = play_turn(WORDS, llm=llm, settings=settings)
    assert (played.result.outcome, played.result.reply) == ("ok", REPLY)
    assert played.seconds == pytest.approx(budget_seconds / 2 + 0.25 + 0.9)
    assert (played.trace["llm_retries"], played.trace["llm"]["calls"]) == (1, 2)

    lost = play_turn(WORDS, llm=FakeLlm(scripts=[silent]), settings=settings)
    assert_apology(lost, "not_thought", "llm_timeout")
    assert lost.seconds == budget_seconds
    assert lost.trace["llm"]["calls"] == 2


def test_a_model_that_reads_long_in_silence_is_not_cut():
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[4.9, *answer()]]))
    assert (played.result.outcome, played.seconds) == ("ok", pytest.approx(4.9))
    assert "llm_retries" not in played.trace


def test_a_model_silent_to_its_time_out_costs_it_once():
    llm = FakeLlm(scripts=[[asyncio.Event()]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "not_thought", "llm_timeout")
    assert (played.seconds, len(llm.requests), llm.cancelled) == (5, 1, 1)


# What is out stays out


FIRST_CLAUSE_CUT = [
    '{"emotion":"sad","action":"',
    '{"emotion":"sad","action":"shake","rep',
    '{"emotion":"sad","action":"shake","reply":"う',
    '{"emotion":"sad","action":"shake","reply":"うん',
    '{"emotion":"sad","action":"shake","reply":"Oh',
]


@pytest.mark.parametrize("text", FIRST_CLAUSE_CUT)
@pytest.mark.parametrize("code", ["llm_cut", "llm_overloaded"])
def test_before_a_piece_was_spoken_it_is_tried_again_and_the_face_may_move_again(text, code):
    llm = FakeLlm(scripts=[[LlmText(text), passing(code)], answer()])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply, played.result.error) == ("ok", REPLY, None)
    assert (played.result.emotion, played.result.action) == ("happy", "nod")
    assert "".join(played.spoken) == REPLY
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "sad"), FaceChosen(384, "happy")]
    assert (len(llm.requests), played.trace["llm_retries"], played.trace["llm"]["calls"]) == (2, 1, 2)
    assert "llm_error" not in played.trace


@pytest.mark.parametrize("text", FIRST_CLAUSE_CUT)
def test_a_first_clause_that_is_cut_again_is_an_apology_and_no_fragment_is_spoken(text):
    llm = FakeLlm(scripts=[[LlmText(text), passing("llm_cut")]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "not_thought", "llm_cut")
    assert len(llm.requests) == 2


def test_a_fragment_before_an_error_that_stays_is_an_apology_at_once():
    llm = FakeLlm(scripts=[[LlmText(FIRST_CLAUSE_CUT[2]), LlmError("no", code="llm_failed")], answer()])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "out_of_order", "llm_failed")
    assert len(llm.requests) == 1


def test_a_fragment_before_a_time_out_is_an_apology():
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[LlmText(FIRST_CLAUSE_CUT[2]), asyncio.Event()]]))
    assert_apology(played, "not_thought", "llm_timeout")


def test_a_whole_first_clause_that_waits_for_what_follows_is_tried_again_and_stands_when_that_fails_too():
    text = LlmText('{"emotion":"sad","action":"none","reply":"うん、')
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[text, passing("llm_cut")], answer()]))
    assert "".join(played.spoken) == REPLY
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[text, passing("llm_cut")]]))
    assert (played.result.outcome, played.result.reply, played.spoken) == ("ok", "うん、", ["うん、"])
    assert (played.trace["llm_error"], played.trace["llm"]["calls"]) == ("llm_cut", 2)


@pytest.mark.parametrize("words", ["うん", "Yes"])
def test_a_whole_answer_stands_whatever_the_connection_does_after_it(words):
    text = f'{{"emotion":"sad","action":"nod","reply":"{words}"}}'
    llm = FakeLlm(scripts=[[LlmText(text), passing("llm_cut")], answer()])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply, played.spoken) == ("ok", words, [words])
    assert (played.trace["llm_error"], len(llm.requests)) == ("llm_cut", 1)


def test_text_of_which_nothing_is_out_is_forgotten_and_tried_again():
    llm = FakeLlm(scripts=[[LlmText('{"emotion":"sa'), passing("llm_cut")], answer()])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply, played.result.emotion) == ("ok", REPLY, "happy")
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "happy")]


def test_words_that_were_spoken_stand_and_are_never_said_twice():
    begun = LlmText('{"emotion":"sad","action":"none","reply":"それは残念だったね、でも')
    llm = FakeLlm(scripts=[[begun, passing("llm_cut")], answer()])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply) == ("ok", "それは残念だったね、でも")
    assert played.spoken == ["それは残念だったね、", "でも"]
    assert played.trace["llm_error"] == "llm_cut"
    assert len(llm.requests) == 1


def test_a_model_that_hangs_in_its_answer_leaves_what_it_said():
    llm = FakeLlm(
        scripts=[[LlmText('{"emotion":"sad","action":"none","reply":"それは残念だったね、'), asyncio.Event()]]
    )
    played = play_turn(WORDS, llm=llm)
    assert (played.result.outcome, played.result.reply) == ("ok", "それは残念だったね、")
    assert (played.trace["llm_error"], played.seconds) == ("llm_timeout", 5)


# Defects


@pytest.mark.parametrize(
    "error", [ValueError("左を見て"), ZeroDivisionError(), StorageError("x"), RuntimeError("boom")]
)
def test_whatever_the_engine_raises_is_an_apology(error):
    llm = FakeLlm(scripts=[[error]])
    played = play_turn(WORDS, llm=llm)
    assert_apology(played, "out_of_order", "llm_failed")
    assert "左を見て" not in played.result.error.message


@pytest.mark.parametrize("garbage", [None, "text", LlmText(None), LlmText(b"x"), {"text": "x"}, object()], ids=shown)
def test_what_is_no_part_of_an_answer_is_an_apology(garbage):
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[garbage]]))
    assert_apology(played, "out_of_order", "llm_failed")


def test_an_engine_that_streams_nothing_at_all_is_an_apology():
    class Broken(FakeLlm):
        def generate(self, request):
            return None

    assert_apology(play_turn(WORDS, llm=Broken()), "out_of_order", "llm_failed")


def test_a_tokenizer_that_fails_is_an_apology():
    class Broken(FakeLlm):
        async def count_tokens(self, text):
            raise LlmError("no tokenizer")

    assert_apology(play_turn(WORDS, llm=Broken()), "out_of_order", "llm_failed")


def test_a_stream_that_does_not_close_holds_nothing_up():
    class Clinging(FakeLlm):
        async def generate(self, request):
            try:
                yield LlmText("{")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.5)

    played = play_turn(WORDS, llm=Clinging())
    assert played.result.error.code == "llm_timeout"
    assert played.seconds <= 6


# A prompt that is too long


def too_long():
    return LlmError("the prompt has 9000 tokens", code="llm_context_overflow")


def exchanges(count):
    return SessionTurns(tuple(Exchange(f"前の話{n}", "うん。", "ja", NOW) for n in range(count)))


def history_in(request):
    text = "\n".join(message.content for message in request.messages)
    return [n for n in range(12) if f"前の話{n}" in text]


def test_a_prompt_that_is_too_long_loses_the_older_half_of_the_history_then_all_of_it():
    llm = FakeLlm(scripts=[[too_long()], [too_long()], answer()])
    settings = replace(SETTINGS, context_tokens=10_000)
    played = play_turn(WORDS, turn=replace(TURN, history=exchanges(5)), llm=llm, settings=settings)
    assert [history_in(request) for request in llm.requests] == [[0, 1, 2, 3, 4], [3, 4], []]
    assert all("左を見て" in request.messages[-1].content for request in llm.requests)
    assert (played.result.outcome, played.trace["llm_retries"]) == ("ok", 2)


@pytest.mark.parametrize(("count", "calls"), [(0, 1), (1, 2), (4, 3)])
def test_words_that_are_too_long_by_themselves_are_told_so(count, calls):
    llm = FakeLlm(scripts=[[too_long()]])
    played = play_turn(WORDS, turn=replace(TURN, history=exchanges(count)), llm=llm)
    assert_apology(played, "too_long", "llm_context_overflow")
    assert len(llm.requests) == calls


def test_an_english_speaker_gets_english_apologies():
    played = play_turn(TurnRequest("desk", text="Look left"), llm=FakeLlm(scripts=[[passing()]]))
    assert_apology(played, "not_thought", "llm_unreachable", "en")


@pytest.mark.parametrize(
    ("scripts", "calls", "tokens"),
    [
        ([[passing()]], 2, 0),
        ([[LlmError("no")]], 1, 0),
        ([[asyncio.Event()]], 1, 0),
        ([[passing()], answer()], 2, 20),
        ([[LlmText('{"emotion":"sad","action":"none","reply":"それは残念だったね、でも'), passing("llm_cut")]], 1, 0),
        ([[LlmText('{"emotion":"sad","action":"none","reply":"' + "ながい。" * 700), LlmDone("stop")]], 1, 0),
        ([[LlmText('{"emotion":"sad","action":"none","reply":"そうだね、で'), LlmDone("length", 50, 10, 8)]], 1, 8),
    ],
    ids=["failed twice", "failed", "hung", "failed once", "cut", "full", "length"],
)
def test_calls_that_end_badly_are_counted(scripts, calls, tokens):
    played = play_turn(WORDS, llm=FakeLlm(scripts=scripts))
    assert (played.trace["llm"]["calls"], played.trace["llm"]["completion_tokens"]) == (calls, tokens)


def test_the_trace_counts_every_call_and_ends_with_done():
    first = [LlmText(""), LlmDone("stop", 50, 10, 1)]
    played = play_turn(WORDS, llm=FakeLlm(scripts=[first, answer()]))
    early = {"early_used": 0, "early_wasted": 0}
    tokens = {"prompt_tokens": 150, "cached_tokens": 100, "completion_tokens": 21}
    assert played.trace["llm"] == {"calls": 2, **early, **tokens}
    marks = played.trace["marks"]
    assert list(marks)[-1] == "done"
    assert marks["done"] == max(marks.values())


# Plain words, which are read only at their end


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("今日はいい天気だね。散歩に行こ", "今日はいい天気だね。"),
        ("今日は晴れ。でも、明日は", "今日は晴れ。"),
        ("「うん」って言ったよ！　それから", "「うん」って言ったよ！"),
        ("Sure, let us go. The park is", "Sure, let us go."),
        ("<think>どうしよう。</think>うん、いいよ。あと", "うん、いいよ。"),
    ],
)
def test_whole_sentences_of_plain_words_stand_when_the_model_hangs(text, said):
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[LlmText(text), asyncio.Event()]]))
    assert (played.result.outcome, played.result.reply, played.result.error) == ("ok", said, None)
    assert "".join(played.spoken).replace(" ", "") == said.replace(" ", "")
    assert (played.trace["llm_error"], played.trace["answer_was_json"]) == ("llm_timeout", False)
    assert kinds(played.events, FaceChosen) == [FaceChosen(384, "neutral")]


@pytest.mark.parametrize(
    "text", ["今日はいい天気だから、散歩に行こ", "Sure, let us", "<think>いい天気だね。", '{"tool":"x"}。', "うん"]
)
def test_plain_words_without_a_whole_sentence_are_a_fragment(text):
    played = play_turn(WORDS, llm=FakeLlm(scripts=[[LlmText(text), asyncio.Event()]]))
    assert_apology(played, "not_thought", "llm_timeout")


def test_plain_words_that_are_cut_are_asked_for_again_while_there_is_time():
    llm = FakeLlm(scripts=[[LlmText("いい天気だね。散"), passing("llm_cut")], answer()])
    assert play_turn(WORDS, llm=llm).result.reply == REPLY
    llm = FakeLlm(scripts=[[LlmText("いい天気だね。散"), passing("llm_cut")]])
    played = play_turn(WORDS, llm=llm)
    assert (played.result.reply, played.spoken) == ("いい天気だね。", ["いい天気だね。"])
