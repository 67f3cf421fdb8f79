"""The controller of a turn, with scripted engines: order, overlap, and what every failure becomes."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.errors import AsrError, LlmError, RequestError, StorageError, TtsError
from server.events import (
    ActionChosen,
    FaceChosen,
    SentenceStarted,
    SpeechProduced,
    StateChanged,
    TranscriptReady,
    TurnEnded,
)
from server.persona import default_persona_path, load_persona
from server.pipeline.request import TurnRequest
from server.pipeline.turn import TurnController
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer, fake_engines, loud, silence
from tests.pipeline.turns import NOW, SETTINGS, TURN, FakeJournal, kinds, take_turn

pytestmark = pytest.mark.unit


@pytest.fixture
def persona():
    return load_persona(default_persona_path())


async def run(persona, request=None, **given):
    played = await take_turn(request, persona=persona, **given)
    return played.result, played.events, played.journal


async def test_a_spoken_turn_gives_words_face_voice_and_movement(persona):
    result, events, journal = await run(persona)
    assert (result.status, result.outcome, result.transcript, result.language) == ("done", "ok", "こんにちは", "ja")
    assert (result.reply, result.emotion, result.action) == ("今日はいい天気だから、散歩に行こうよ。", "happy", "nod")
    assert [event.state for event in kinds(events, StateChanged)] == ["listening", "thinking", "speaking", "idle"]
    assert kinds(events, TranscriptReady) == [TranscriptReady(384, "こんにちは", "ja")]
    assert [e.text for e in kinds(events, SentenceStarted)] == ["今日はいい天気だから、", "散歩に行こうよ。"]
    assert events[-1] == TurnEnded(384, "ok")
    assert result.speech_duration_ms == 19 * 10, "19 characters at 10 ms each; pauses are the engine's"
    samples = sum(len(e.chunk.samples) for e in kinds(events, SpeechProduced))
    assert samples == 24 * result.speech_duration_ms
    assert {e.chunk.sample_rate_hz for e in kinds(events, SpeechProduced)} == {24_000}
    assert len(journal.results) == 1


async def test_words_are_stored_before_anything_is_answered(persona):
    _, _, journal = await run(persona)
    assert journal.log.index("heard") < journal.log.index("TranscriptReady")
    assert journal.log.index("heard") < journal.log.index("SpeechProduced")
    assert journal.log[-2:] == ["StateChanged", "TurnEnded"]
    assert journal.log.index("ended") < journal.log.index("TurnEnded")


async def test_the_face_moves_before_the_voice(persona):
    _, events, _ = await run(persona)
    order = [type(event).__name__ for event in events]
    assert order.index("FaceChosen") < order.index("ActionChosen") < order.index("SpeechProduced")


async def test_the_voice_starts_while_the_model_still_writes(persona):
    """The second half of the answer is only written after the first clause has been heard."""
    gate = asyncio.Event()
    text = '{"emotion":"happy","action":"nod","reply":"今日はいい天気だから、散'
    rest = '歩に行こうよ。"}'
    llm = FakeLlm(scripts=[[LlmText(text), gate, LlmText(rest), LlmDone("stop")]])

    async def open_gate(event):
        if isinstance(event, SpeechProduced):
            gate.set()

    result, events, _ = await asyncio.wait_for(run(persona, llm=llm, emit=open_gate), 5)
    assert result.reply == "今日はいい天気だから、散歩に行こうよ。"
    assert [e.text for e in kinds(events, SentenceStarted)] == ["今日はいい天気だから、", "散歩に行こうよ。"]


async def test_silence_asks_no_model_and_stores_no_words(persona):
    llm, asr = FakeLlm(), FakeAsr()
    result, events, journal = await run(persona, TurnRequest("desk", samples=silence(2.0)), llm=llm, asr=asr)
    assert (result.status, result.outcome, result.speech_duration_ms) == ("done", "no_speech", None)
    assert llm.requests == []
    assert asr.heard == []
    assert journal.heard_words == []
    assert [event.state for event in kinds(events, StateChanged)] == ["listening", "idle"]


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), loud(0.05)])
async def test_no_sound_and_a_click_are_no_speech(persona, samples):
    llm = FakeLlm()
    result, _, _ = await run(persona, TurnRequest("desk", samples=samples), llm=llm)
    assert result.outcome == "no_speech"
    assert llm.requests == []


async def test_an_empty_transcript_asks_no_model(persona):
    llm = FakeLlm()
    result, _, journal = await run(persona, asr=FakeAsr(text=""), llm=llm)
    assert result.outcome == "no_speech"
    assert llm.requests == []
    assert journal.heard_words == []


async def test_silent_ends_are_cut_before_hearing(persona):
    asr = FakeAsr()
    samples = np.concatenate([silence(3), loud(1), silence(3)])
    _, _, journal = await run(persona, TurnRequest("desk", samples=samples), asr=asr)
    seconds = len(asr.heard[0]) / 16_000
    assert 1.3 <= seconds <= 1.8
    assert journal.heard_words[0].audio_duration_ms == round(seconds * 1000)


@pytest.mark.parametrize(
    ("text", "language"), [("左を見て", "ja"), ("Look left", "en"), ("OKです", "ja"), ("123", "en")]
)
async def test_typed_text_needs_no_hearing(persona, text, language):
    asr = FakeAsr()
    result, _, journal = await run(persona, TurnRequest("desk", text=f"  {text} "), asr=asr)
    assert (result.transcript, result.language) == (text, language)
    assert asr.heard == []
    assert journal.heard_words[0].audio_duration_ms is None


async def test_the_model_gets_one_call_with_schema_and_stable_prefix(persona):
    llm = FakeLlm()
    await run(persona, TurnRequest("desk", text="一つ目"), llm=llm)
    await run(persona, TurnRequest("desk", text="二つ目"), llm=llm)
    first, second = llm.requests
    assert first.messages[0] == second.messages[0]
    assert "二つ目" in second.messages[-1].content
    assert list(first.answer_schema["properties"]) == ["emotion", "action", "reply"]


async def test_hearing_fails_with_an_apology_and_no_lost_turn(persona):
    tts = FakeTts()
    result, events, journal = await run(persona, asr=FakeAsr(error=AsrError("broken")), tts=tts)
    assert (result.status, result.outcome) == ("failed", "failed")
    assert (result.error.code, result.emotion) == ("asr_failed", "doubt")
    assert result.reply
    assert [r.text for r in tts.spoken] == [result.reply]
    assert result.speech_duration_ms > 0
    assert journal.results == [result]
    assert kinds(events, StateChanged)[-1].state == "idle"


async def test_hearing_too_long_is_a_time_out(persona):
    from dataclasses import replace

    settings = replace(SETTINGS, asr_timeout_seconds=0.01)
    result, _, _ = await run(persona, asr=FakeAsr(wait=asyncio.Event()), settings=settings)
    assert (result.outcome, result.error.code, result.error.retryable) == ("failed", "asr_timeout", True)


async def test_a_failing_model_keeps_the_users_words(persona):
    llm = FakeLlm(scripts=[[LlmError("down")]])
    result, _, journal = await run(persona, llm=llm)
    assert (result.outcome, result.error.code, result.transcript) == ("failed", "llm_failed", "こんにちは")
    assert journal.heard_words[0].text == "こんにちは"
    assert result.reply
    assert result.speech_duration_ms > 0


async def test_a_model_that_hangs_is_cancelled(persona):
    from dataclasses import replace

    llm = FakeLlm(scripts=[[asyncio.Event()]])
    result, _, _ = await run(persona, llm=llm, settings=replace(SETTINGS, llm_timeout_seconds=0.01))
    assert (result.outcome, result.error.code) == ("failed", "llm_timeout")
    assert llm.cancelled == 1


async def test_words_already_spoken_stand_when_the_model_breaks_off(persona):
    llm = FakeLlm(
        scripts=[[LlmText('{"emotion":"sad","action":"none","reply":"それは残念だったね、'), LlmError("cut")]]
    )
    result, _, journal = await run(persona, llm=llm)
    assert (result.outcome, result.reply, result.emotion) == ("ok", "それは残念だったね、", "sad")
    assert journal.traces[0]["llm_error"] == "llm_failed"


@pytest.mark.parametrize("text", ["", "{}", '{"emotion":"happy"}'])
async def test_an_answer_without_words_is_an_apology(persona, text):
    result, _, _ = await run(persona, llm=FakeLlm(scripts=[[LlmText(text), LlmDone("stop")]]))
    assert (result.outcome, result.error.code) == ("failed", "llm_no_reply")
    assert result.reply


async def test_plain_text_is_spoken_neutrally_and_counted(persona):
    result, _, journal = await run(persona, llm=FakeLlm(scripts=[answer("うん、いいよ。")]))
    assert (result.reply, result.emotion, result.action) == ("うん、いいよ。", "neutral", "none")
    assert journal.traces[0]["answer_was_json"] is False


async def test_a_voice_that_fails_leaves_the_written_answer(persona):
    tts = FakeTts(error=TtsError("no voice"))
    result, events, _ = await run(persona, tts=tts)
    assert (result.status, result.outcome, result.reply) == ("done", "ok", "今日はいい天気だから、散歩に行こうよ。")
    assert (result.speech_duration_ms, result.error.code) == (None, "tts_failed")
    assert len(tts.spoken) == 1, "after a failure the rest is not tried"
    assert [event.state for event in kinds(events, StateChanged)] == ["listening", "thinking", "idle"]


async def test_a_defect_in_an_engine_still_ends_the_turn(persona):
    result, _, journal = await run(persona, asr=FakeAsr(error=ZeroDivisionError("oops")))
    assert (result.status, result.error.code) == ("failed", "asr_failed")
    assert "oops" not in result.error.message
    assert len(journal.results) == 1


async def test_words_that_cannot_be_stored_are_not_answered(persona):
    llm = FakeLlm()
    with pytest.raises(StorageError):
        await run(persona, llm=llm, journal=FakeJournal(error=StorageError("full", code="storage_full")))
    assert llm.requests == []


async def test_cancelling_a_turn_cancels_model_and_voice(persona):
    gate = asyncio.Event()
    llm = FakeLlm(scripts=[[LlmText('{"emotion":"sad","action":"none","reply":"それは残念だったね、え'), gate]])
    speaking = asyncio.Event()

    async def notice(event):
        if isinstance(event, SpeechProduced):
            speaking.set()

    task = asyncio.create_task(run(persona, llm=llm, emit=notice))
    await asyncio.wait_for(speaking.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.cancelled == 1
    assert not [t for t in asyncio.all_tasks() if t.get_name() == "voice-384"]


async def test_the_trace_names_the_stages_and_counts_the_model(persona):
    result, _, journal = await run(persona)
    trace = journal.traces[0]
    assert [span["name"] for span in trace["spans"]][:3] == ["vad", "asr", "llm"]
    early = {"early_used": 0, "early_wasted": 0}
    assert trace["llm"] == {"calls": 1, **early, "prompt_tokens": 100, "cached_tokens": 90, "completion_tokens": 20}
    marks = trace["marks"]
    assert marks["first_token"] <= marks["emotion"] <= marks["first_clause"] <= marks["first_audio"]
    assert set(result.latency_ms) >= {"vad", "asr", "llm", "tts", "first_token", "first_audio", "total"}
    assert "こんにちは" not in repr(trace)


class Weather:
    """A tool for the test."""

    spec = ToolSpec(
        "get_weather", "Tells the weather.", {"type": "object", "properties": {"place": {"type": "string"}}}
    )

    def __init__(self):
        self.asked = []

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        self.asked.append(arguments)
        if "place" not in arguments:
            raise RequestError("place is missing")
        return {"weather": "雨"}


async def test_a_tool_is_run_and_its_result_goes_back_as_data(persona):
    tool = Weather()
    call = [LlmToolCall("get_weather", {"place": "京都"}), LlmDone("tool_calls")]
    llm = FakeLlm(scripts=[call, answer()])
    result, _, journal = await run(persona, llm=llm, tools=[tool])
    assert tool.asked == [{"place": "京都"}]
    assert journal.traces[0]["llm"]["calls"] == 2
    assert result.tool_calls == ({"name": "get_weather", "arguments": {"place": "京都"}, "result": {"weather": "雨"}},)
    back = llm.requests[1].messages[-1]
    assert back.role == "tool"
    assert "雨" in back.content
    assert llm.requests[1].messages[: len(llm.requests[0].messages)] == llm.requests[0].messages


async def test_bad_arguments_and_unknown_tools_come_back_as_errors(persona):
    tool = Weather()
    first = [LlmToolCall("get_weather", {}), LlmDone("tool_calls")]
    second = [LlmToolCall("fly", {}), LlmDone("tool_calls")]
    llm = FakeLlm(scripts=[first, second, answer()])
    result, _, _ = await run(persona, llm=llm, tools=[tool])
    assert result.tool_calls[0]["result"] == {"error": "place is missing"}
    assert "get_weather" in result.tool_calls[1]["result"]["error"]
    assert result.outcome == "ok"


async def test_rounds_are_bounded_and_the_last_one_offers_no_tool(persona):
    llm = FakeLlm(scripts=[[LlmToolCall("get_weather", {"place": "x"}), LlmDone("tool_calls")]] * 4 + [answer()])
    result, _, _ = await run(persona, llm=llm, tools=[Weather()])
    assert len(llm.requests) == 5
    assert [bool(request.tools) for request in llm.requests] == [True] * 4 + [False]
    assert result.outcome == "ok"


async def test_the_action_reaches_the_body(persona):
    _, events, _ = await run(persona)
    assert kinds(events, ActionChosen) == [ActionChosen(384, "nod")]
    assert kinds(events, FaceChosen) == [FaceChosen(384, "happy")]


@pytest.mark.parametrize(("window", "kept"), [(100_000, 3), (0, 0)])
async def test_earlier_turns_give_way_so_that_prompt_and_answer_fit_the_window(persona, window, kept):
    from dataclasses import replace

    from server.context.prompts import stable_prefix
    from server.context.session_turns import Exchange, SessionTurns, prompt_tokens

    llm = FakeLlm()
    words = "あ" * 1000
    prefix = await prompt_tokens(stable_prefix(persona, llm.capabilities), llm.count_tokens)
    needed = prefix + len(words) + SETTINGS.max_answer_tokens + 64
    llm.capabilities = replace(llm.capabilities, context_tokens=window or needed + 100)
    history = SessionTurns(tuple(Exchange(f"前の話{n}", "うん。", "ja", NOW) for n in range(3)))
    if not window:
        history = SessionTurns(tuple(Exchange(f"前の話{n}" * 20, "うん。", "ja", NOW) for n in range(3)))
    turn = replace(TURN, history=history)
    controller = TurnController(fake_engines(llm=llm), persona, FakeJournal(), SETTINGS, clock=lambda: NOW)

    async def ignore(event):
        pass

    await controller.run(turn, TurnRequest("desk", text=words), ignore)
    prompt = "\n".join(message.content for message in llm.requests[0].messages)
    assert sum(f"前の話{n}" in prompt for n in range(3)) == kept
    assert words in prompt
    assert len(prompt) + SETTINGS.max_answer_tokens <= llm.capabilities.context_tokens
