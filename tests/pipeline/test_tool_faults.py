"""A tool that fails, memory above all: the answer goes on without it and knows so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from server.context.prompts import json_text
from server.engines.base import LlmDone, LlmToolCall, ToolSpec
from server.errors import EmbeddingError, NotFoundError, RequestError, StorageError
from server.memory.tools import SearchMemory
from server.pipeline.request import TurnRequest
from server.pipeline.tool_loop import TOOL_TIMEOUT_SECONDS, UNREACHABLE
from server.pipeline.tool_results import is_error
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.turns import NOW, SETTINGS, TURN, play_turn, shown

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="前に買ったPC、いくらだっけ？")
CALL = [LlmToolCall("search_memory", {"query": "PC"}, "call-1"), LlmDone("tool_calls")]


class Odd:
    """A tool that does what the test says."""

    spec = ToolSpec("search_memory", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})

    def __init__(self, given):
        self.given = given
        self.asked = []

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        self.asked.append(arguments)
        if isinstance(self.given, BaseException):
            raise self.given
        if isinstance(self.given, asyncio.Event):
            await self.given.wait()
        return self.given


def play(tool, *calls, small=True):
    llm = FakeLlm(scripts=[*(calls or (CALL,)), answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    return play_turn(WORDS, llm=llm, tools=[tool]), llm


def assert_answered(played, errors):
    assert (played.result.outcome, played.result.error) == ("ok", None)
    assert played.result.reply == "今日はいい天気だから、散歩に行こうよ。"
    assert played.journal.heard_words
    assert played.trace.get("tool_errors", 0) == errors


@pytest.mark.parametrize(
    "given",
    [
        StorageError("disk"),
        EmbeddingError("no vectors"),
        KeyError("秘密"),
        TimeoutError(),
        asyncio.CancelledError(),
        None,
        3,
        {"memories": {1, 2}},
        {"memories": object()},
        {"text": "x" * 1_000_000},
    ],
    ids=shown,
)
def test_memory_that_fails_is_told_to_the_model_which_answers_without_it(given):
    played, llm = play(Odd(given), small=False)
    assert_answered(played, errors=1)
    assert played.result.tool_calls[0]["result"] == {"error": UNREACHABLE}
    told = llm.requests[1].messages[-1]
    assert (told.role, told.call_id) == ("tool", "call-1")
    assert "cannot be reached right now" in told.content
    assert "秘密" not in told.content
    assert played.result.memory["searched"] is True


def test_memory_that_hangs_is_waited_for_a_bounded_time():
    played, _ = play(Odd(asyncio.Event()), small=False)
    assert_answered(played, errors=1)
    assert played.seconds == SETTINGS.search_seconds == 2
    assert played.result.tool_calls[0]["result"] == {"error": UNREACHABLE}


class Slow(Odd):
    """Takes seconds."""

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        self.asked.append(arguments)
        await asyncio.sleep(self.given)
        return {"candidates": []}


def test_the_searches_of_a_turn_share_their_time():
    tool = Slow(0.75)
    played, _ = play(tool, CALL, CALL, CALL, CALL, small=False)
    assert_answered(played, errors=2)
    assert [is_error(call["result"]) for call in played.result.tool_calls] == [False, False, True, True]
    assert played.result.tool_calls[3]["result"] == {"error": UNREACHABLE}
    assert (played.seconds, len(tool.asked)) == (2, 3), "the last one is not even begun"


def test_what_only_takes_long_to_think_about_leaves_the_searches_their_time():
    played, _ = play(Slow(0.75), [1.5, *CALL], [1.5, *CALL])
    assert_answered(played, errors=0)


def test_a_tool_that_changes_something_has_a_time_of_its_own():
    class Forget(Slow):
        spec = ToolSpec("forget_memory", "Forgets.", {"type": "object", "properties": {}})

    forget = [LlmToolCall("forget_memory", {"query": "PC"}), LlmDone("tool_calls")]
    request = TurnRequest("desk", text="PCのことは忘れて")
    settings = replace(SETTINGS, llm_timeout_seconds=60)
    for seconds, errors in ((3.0, 0), (TOOL_TIMEOUT_SECONDS + 1, 1)):
        llm = FakeLlm(scripts=[forget, answer()])
        assert_answered(play_turn(request, llm=llm, tools=[Forget(seconds)], settings=settings), errors)


def test_a_tool_is_told_who_asks_and_what_was_said():
    class Told(Odd):
        async def offer(self, asker):
            return 0.0

        async def run(self, arguments, asker):
            self.asked.append(asker)
            return {"candidates": []}

    tool = Told(None)
    play_turn(WORDS, llm=FakeLlm(scripts=[CALL, answer()]), tools=[tool], turn=replace(TURN, speaker_id="aki"))
    [asker] = tool.asked
    assert (asker.persona, asker.speaker, asker.session_id) == ("stackchan", "aki", TURN.session_id)
    assert (asker.turn_id, asker.asked_at, str(asker.zone)) == (384, NOW, "Asia/Tokyo")
    assert asker.words == WORDS.text


@pytest.mark.parametrize("error", [RequestError("query must be a text"), NotFoundError("there is no such memory")])
def test_arguments_that_can_be_repaired_come_back_with_what_is_wrong(error):
    played, llm = play(Odd(error))
    assert_answered(played, errors=1)
    assert error.message in llm.requests[1].messages[-1].content


@pytest.mark.parametrize("arguments", [{}, {"query": 3}, {"query": "  "}, {"other": "x"}])
def test_the_memory_search_itself_says_what_is_wrong_with_its_arguments(arguments):
    async def find(asked, asker):
        raise AssertionError("not reached")

    call = [LlmToolCall("search_memory", arguments), LlmDone("tool_calls")]

    async def something(asker):
        return 0.0

    played, _ = play(SearchMemory(find, something), call)
    assert_answered(played, errors=1)
    assert "query" in played.result.tool_calls[0]["result"]["error"]


@pytest.mark.parametrize("arguments", [None, "PC", ["PC"], 3])
def test_arguments_that_are_no_object_are_refused(arguments):
    tool = Odd({"memories": []})
    played, _ = play(tool, [LlmToolCall("search_memory", arguments), LlmDone("tool_calls")])
    assert_answered(played, errors=1)
    assert tool.asked == []
    assert played.result.tool_calls[0]["arguments"] == {}


def deep(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": float("nan")},
        {"query": float("inf")},
        {"query": b"x"},
        {"query": {1, 2}},
        {"query": object()},
        {1: {2: object()}},
        {(1, 2): 3},
        {"query": 1j},
        {"query": ...},
        {"query": deep(40)},
        {"query": deep(900)},
        {"query": deep(50_000)},
        {"query": 10**5000},
        {"query": "a" * 1_000_000},
    ],
    ids=lambda arguments: type(next(iter(arguments.values()))).__name__,
)
def test_arguments_that_are_no_json_are_refused_and_never_stored(arguments):
    tool = Odd({"memories": []})
    played, llm = play(tool, [LlmToolCall("search_memory", arguments, "call-1"), LlmDone("tool_calls")])
    assert_answered(played, errors=1)
    assert tool.asked == []
    assert played.result.tool_calls[0]["arguments"] == {}
    assert "JSON" in llm.requests[1].messages[-1].content
    assert llm.requests[1].messages[-2].tool_calls[0].arguments == {}


def test_odd_characters_in_arguments_are_made_storable():
    tool = Odd({"memories": ["\ud800"]})
    arguments = {"query": "\ud800x\0", "\udfff": 1, 3: None, "many": "[{" * 100}
    played, _ = play(tool, [LlmToolCall("search_memory", arguments), LlmDone("tool_calls")])
    assert_answered(played, errors=0)
    assert tool.asked == [{"query": "\ufffdx", "\ufffd": 1, "3": None, "many": "[{" * 100}]
    assert played.result.tool_calls[0]["result"] == {"memories": ["\ufffd"]}


@pytest.mark.parametrize("name", [None, ["a"], 5, "n" * 1_000_000, "a\ud800b", ""], ids=lambda name: repr(name)[:9])
@pytest.mark.parametrize("call_id", ["c", None, 5, "i" * 1_000_000])
def test_any_name_and_id_of_a_call_can_be_stored(name, call_id):
    played, llm = play(Odd({}), [LlmToolCall(name, {"query": "x"}, call_id), LlmDone("tool_calls")])
    assert_answered(played, errors=1)
    stored = played.result.tool_calls[0]["name"]
    assert 0 < len(stored) <= 64
    assert stored.encode()
    assert isinstance(llm.requests[1].messages[-1].call_id, str)


def test_a_result_that_is_no_number_is_the_tools_defect():
    played, _ = play(Odd({"score": float("nan")}), small=False)
    assert_answered(played, errors=1)
    assert played.result.tool_calls[0]["result"] == {"error": UNREACHABLE}


def test_token_counts_that_are_none_do_not_reach_the_trace():
    odd = [*answer()[:-1], LlmDone("stop", 10**400, "x", None)]
    played = play_turn(WORDS, llm=FakeLlm(scripts=[odd]))
    assert (played.result.outcome, played.result.error) == ("ok", None)
    assert played.trace["llm"]["prompt_tokens"] == 2**31
    assert played.trace["llm"]["cached_tokens"] == 0


def test_a_name_that_is_no_tool_is_told_which_there_are():
    played, _ = play(Odd({}), [LlmToolCall("fly", {}), LlmDone("tool_calls")])
    assert_answered(played, errors=1)
    assert "search_memory" in played.result.tool_calls[0]["result"]["error"]


def test_a_flood_of_calls_is_bounded():
    tool = Odd({"memories": []})
    flood = [*[LlmToolCall("search_memory", {"query": str(n)}) for n in range(500)], LlmDone("tool_calls")]
    played, _ = play(tool, flood)
    assert_answered(played, errors=0)
    assert len(tool.asked) == 8


def test_every_call_is_a_span_of_the_trace():
    played, _ = play(Odd({"memories": []}))
    names = [span["name"] for span in played.trace["spans"]]
    assert names[:3] == ["llm", "tool", "llm"]
    assert all(span["end_ms"] is not None for span in played.trace["spans"])
    assert "tool_errors" not in played.trace


def test_a_second_try_runs_no_tool_twice():
    from server.errors import LlmError

    tool = Odd({"memories": []})
    cut = [LlmError("cut", code="llm_cut", retryable=True)]
    played, llm = play(tool, CALL, cut)
    assert_answered(played, errors=0)
    assert len(tool.asked) == 1
    assert llm.requests[1].messages == llm.requests[2].messages
    assert len(played.result.tool_calls) == 1


# --- what is offered ---

FOUND = {
    "candidates": [{"memory_id": "mem_01KA0000000000000000000001", "summary": "三万円のPCを買った", "occurred_at": "x"}]
}


def memory_tool(name, result, use=0.0):
    class Memory:
        spec = ToolSpec(name, "…", {"type": "object", "properties": {"memory_id": {"type": "string"}}, "required": []})

        def __init__(self):
            self.asked = []

        async def offer(self, asker):
            if isinstance(use, Exception):
                raise use
            return use

        async def run(self, arguments, asker):
            self.asked.append(dict(arguments))
            return result

    return Memory()


def calls(name, **arguments):
    return [LlmToolCall(name, arguments), LlmDone("tool_calls")]


def offered(llm):
    return [[tool.name for tool in request.tools] for request in llm.requests]


@pytest.mark.parametrize(
    ("use", "names"), [(0.5, ["search_memory"]), (None, []), (StorageError("disk"), ["search_memory"])]
)
def test_a_tool_of_no_use_in_this_turn_is_not_offered_and_one_that_cannot_tell_is(use, names):
    llm = FakeLlm(scripts=[answer()])
    assert_answered(play_turn(WORDS, llm=llm, tools=[memory_tool("search_memory", FOUND, use)]), errors=0)
    assert offered(llm) == [names]
    assert all(tool.prior == (0.5 if use == 0.5 else 0.0) for tool in llm.requests[0].tools)


def test_a_small_model_reads_a_source_by_a_short_id_and_looks_up_once():
    read = memory_tool("read_memory_source", {"turns": [{"text": "三万円だよ"}], "source_checked": True})
    search = memory_tool("search_memory", FOUND)
    llm = FakeLlm(scripts=[CALL, calls("read_memory_source", memory_id="m1")])
    played = play_turn(WORDS, llm=llm, tools=[search, read])
    assert (played.result.outcome, played.result.reply) == ("ok", "「三万円のPCを買った」って聞いたよ。")
    assert offered(llm) == [["search_memory"], ["read_memory_source"]]
    assert llm.requests[1].tools[0].parameters["properties"]["memory_id"] == {"type": "string", "enum": ["m1"]}
    assert '"memory_id":"m1"' in llm.requests[1].messages[-1].content
    real = FOUND["candidates"][0]["memory_id"]
    assert read.asked == [{"memory_id": real}]
    assert played.result.memory == {"searched": True, "memory_ids": [real], "source_checked": True}
    assert [call["arguments"] for call in played.result.tool_calls][1] == {"memory_id": real}


def test_what_is_stored_names_the_turns_whose_words_were_shown_and_a_small_model_does_not_read_it():
    said = {"said_at": "2026-11-30", "by": "user", "text": "三万円だよ"}
    result = {"candidates": [], "said": [{"source_turn_id": 41, **said}]}
    played, llm = play(memory_tool("search_memory", result))
    shown = llm.requests[1].messages[-1].content
    assert json_text({"candidates": [], "said": [said]}) in shown
    assert "41" not in shown
    assert played.result.tool_calls[0]["result"] == result
    _, capable = play(memory_tool("search_memory", result), small=False)
    assert json_text(result) in capable.requests[1].messages[-1].content


def test_a_capable_model_reads_whole_ids_and_may_search_again():
    read = memory_tool("read_memory_source", {"turns": [], "source_checked": False})
    llm = FakeLlm(scripts=[CALL, answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=False)
    assert_answered(play_turn(WORDS, llm=llm, tools=[memory_tool("search_memory", FOUND), read]), errors=0)
    # The same tools in the same order: what stands behind them in the prompt need not be read again.
    assert offered(llm) == [["search_memory", "read_memory_source"]] * 2
    assert FOUND["candidates"][0]["memory_id"] in llm.requests[1].messages[-1].content


def test_a_search_with_wrong_arguments_may_be_made_again_and_one_that_failed_may_not():
    for error, again in ((RequestError("query must be a text"), True), (StorageError("disk"), False)):
        llm = FakeLlm(scripts=[CALL, answer()])
        tool = memory_tool("search_memory", FOUND)

        async def fails(arguments, asker, error=error):
            raise error

        tool.run = fails
        # Told of something rather than asked: what did not come is no answer to give by rule.
        told = TurnRequest("desk", text="PCを買ったんだ。")
        assert_answered(play_turn(told, llm=llm, tools=[tool]), errors=1)
        assert offered(llm) == [["search_memory"], ["search_memory"] if again else []]
