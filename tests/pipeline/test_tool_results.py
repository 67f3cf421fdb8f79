"""What a turn's tools did, read from their results."""

from __future__ import annotations

import pytest

from server.engines.base import LlmDone, LlmToolCall, ToolSpec
from server.errors import StorageError
from server.pipeline.request import TurnRequest
from server.pipeline.tool_results import MemoryUse, is_error, memory_use
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.turns import play_turn

pytestmark = pytest.mark.unit

FOUND = {
    "candidates": [{"memory_id": "mem_2", "topic": "富士通のPC", "source_turn_ids": [7]}, {"memory_id": "mem_1"}],
    "ambiguous": True,
}
SOURCE = {"turns": [{"source_turn_id": 7, "text": "富士通のPCを買った"}], "source_checked": True}


@pytest.mark.parametrize(
    ("result", "wrong"),
    [({"error": "no"}, True), ({"error": None}, True), ({}, False), (FOUND, False), ("error", False), (None, False)],
)
def test_a_result_that_has_an_error_is_one(result, wrong):
    assert is_error(result) is wrong


def test_the_memories_that_were_shown_are_named_once_in_their_order():
    runs = [
        ("search_memory", FOUND),
        ("search_memory", {"candidates": [{"memory_id": "mem_1"}, {"memory_id": "mem_3"}]}),
    ]
    assert memory_use(runs) == MemoryUse(True, ("mem_2", "mem_1", "mem_3"), False)


@pytest.mark.parametrize(
    "result",
    [None, [], {"candidates": None}, {"candidates": "mem_1"}, {"candidates": [None, {}, {"memory_id": 3}, "mem_1"]}],
)
def test_a_result_of_another_form_names_none(result):
    assert memory_use([("search_memory", result)]) == MemoryUse(True, (), False)


def test_ids_count_only_in_what_a_search_found():
    assert memory_use([("another_tool", FOUND), ("search_memory", {"error": "x", **FOUND})]).memory_ids == ()
    assert memory_use([]) == MemoryUse(False, (), False)


def test_memories_among_which_the_user_is_to_choose_were_shown_too():
    which = {"forgotten": 0, "which": FOUND["candidates"]}
    assert memory_use([("forget_memory", which)]) == MemoryUse(False, ("mem_2", "mem_1"), False)


@pytest.mark.parametrize(
    ("result", "checked"),
    [
        (SOURCE, True),
        ({"turns": [], "source_checked": False}, False),
        ({"turns": [], "source_checked": "yes"}, False),
        ({"error": "no such memory", "source_checked": True}, False),
    ],
)
def test_a_source_is_checked_when_it_could_be_read(result, checked):
    assert memory_use([("read_memory_source", result)]) == MemoryUse(False, (), checked)


class Fixed:
    """A tool with one result."""

    def __init__(self, name, result):
        self.spec = ToolSpec(name, "Does it.", {"type": "object", "properties": {}})
        self._result = result

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def play(source):
    calls = [
        [LlmToolCall("search_memory", {"query": "PC"}), LlmDone("tool_calls")],
        [LlmToolCall("read_memory_source", {"memory_id": "mem_2"}), LlmDone("tool_calls")],
    ]
    return play_turn(
        TurnRequest("desk", text="前に買ったPC、なんだっけ？"),
        llm=FakeLlm(scripts=[*calls, answer()]),
        tools=[Fixed("search_memory", FOUND), Fixed("read_memory_source", source)],
    )


def test_answer_and_trace_tell_what_memory_did():
    played = play(SOURCE)
    assert played.result.memory == {"searched": True, "memory_ids": ["mem_2", "mem_1"], "source_checked": True}
    assert played.trace["memory_ids"] == ["mem_2", "mem_1"]
    assert not play(StorageError("disk")).result.memory["source_checked"]


def test_a_turn_without_tools_used_no_memory():
    played = play_turn(TurnRequest("desk", text="左を見て"))
    assert played.result.memory == {"searched": False, "memory_ids": [], "source_checked": False}
    assert played.trace["memory_ids"] == []
