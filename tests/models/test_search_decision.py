"""The real small model decides when to search, and says so when nothing is found. Only development utterances.

A few of them, as fixed; `scripts/bench_decision` asks all, by the figures of which the bias is tuned.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from server.context.prompts import answer_schema, json_text, prompt_messages, tool_result_message
from server.engines.base import LlmMessage, LlmRequest, LlmToolCall
from server.memory.tools import SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from server.pipeline.tool_loop import UNREACHABLE
from tests.language_model import SAID_AT, TOOLS, language_model, written

pytestmark = pytest.mark.models

DATA = Path(__file__).parent.parent / "data" / "search_decision.json"
# Every sixth of a language and label, so that kinds are mixed; four of each.
STEP = 6
OF_EACH = 4
AT_LEAST_RIGHT = 10
ASKED = {"ja": "うちの車検っていつ切れるの", "en": "What did we talk about on Sunday?"}
DOES_NOT_KNOW = {
    "ja": r"覚えていない|覚えてない|分からない|わからない|知らない|知りません|思い出せない",
    "en": r"(do not|don't|cannot|can't) (remember|know|recall)",
}


def chosen():
    development = [i for i in json.loads(DATA.read_text(encoding="utf-8")) if i["half"] == "dev"]
    cells = [(language, search) for language in ("ja", "en") for search in (True, False)]
    return [
        item
        for cell in cells
        for item in [i for i in development if (i["language"], i["search"]) == cell][::STEP][:OF_EACH]
    ]


@pytest.fixture(scope="module")
def persona():
    return load_persona(default_persona_path())


@pytest.fixture(scope="module")
def results(persona):
    return asyncio.run(ask_all(persona))


async def ask_all(persona):
    """`(decisions, replies)`: item id -> whether it searched; (language, what the search gave) -> the answer."""
    async with language_model(persona) as llm:
        decisions = {item["id"]: await searches(llm, persona, item) for item in chosen()}
        replies = {}
        for language, words in ASKED.items():
            for given in ({"memories": [], "note": "nothing found"}, {"error": UNREACHABLE}):
                replies[language, next(iter(given))] = await reply_after(llm, persona, language, words, given)
        return decisions, replies


def request(llm, persona, language, words):
    messages = prompt_messages(persona, llm.capabilities, TOOLS, (), words, language=language, said_at=SAID_AT)
    return LlmRequest(messages, answer_schema(persona, language), (SEARCH_MEMORY,))


async def searches(llm, persona, item):
    async with aclosing(llm.generate(request(llm, persona, item["language"], item["text"]))) as deltas:
        async for delta in deltas:
            return isinstance(delta, LlmToolCall)


async def reply_after(llm, persona, language, words, given):
    call = LlmToolCall("search_memory", {"query": words})
    asked = request(llm, persona, language, words)
    said = (LlmMessage("assistant", "", (call,)), tool_result_message(call, json_text(given)))
    # The last round: no tool is offered.
    answer, _ = await written(llm, replace(asked, messages=(*asked.messages, *said), tools=()))
    return json.loads(answer)


def test_the_decision_is_right_more_often_than_its_floor(results):
    decisions, _ = results
    wrong = [item["text"] for item in chosen() if decisions[item["id"]] != item["search"]]
    assert len(chosen()) == 16
    assert len(chosen()) - len(wrong) >= AT_LEAST_RIGHT, wrong


@pytest.mark.parametrize("given", ["memories", "error"])
@pytest.mark.parametrize("language", ["ja", "en"])
def test_a_search_without_a_result_is_not_made_up_for(results, persona, language, given):
    _, replies = results
    reply = replies[language, given]["reply"]
    assert re.search(DOES_NOT_KNOW[language], reply), reply
    assert re.match(answer_schema(persona, language)["properties"]["reply"]["pattern"], reply)
