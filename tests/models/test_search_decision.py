"""The real small model decides when to search, and says so when nothing is found. Only development utterances."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from server.config_sections import LlmSettings
from server.context.prompts import answer_schema, json_text, prompt_messages, stable_prefix, tool_result_message
from server.engines.base import LlmMessage, LlmRequest, LlmText, LlmToolCall
from server.engines.llm.xllama import TOOL_BIASES, XllamaLlm
from server.memory.tools import SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from server.pipeline.tool_loop import UNREACHABLE

pytestmark = pytest.mark.models

DATA = Path(__file__).parent.parent / "data" / "search_decision.json"
SAID_AT = datetime(2026, 11, 30, 15, 20, tzinfo=ZoneInfo("Asia/Tokyo"))
TOOLS = (SEARCH_MEMORY,)
# Every sixth of a language and label, so that kinds are mixed.
STEP = 6
AT_LEAST_RIGHT = 15
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
        for language, search in cells
        for item in [i for i in development if (i["language"], i["search"]) == (language, search)][::STEP][:6]
    ][:24]


@pytest.fixture(scope="module")
def persona():
    return load_persona(default_persona_path())


@pytest.fixture(scope="module")
def results(persona):
    return asyncio.run(ask_all(persona))


async def ask_all(persona):
    """`(decisions, replies)`: item id -> whether it searched; (language, what the search gave) -> the answer."""
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan")
    path = folder / "qwen2.5-coder-0.5b-instruct-q4_k_m" / "model.gguf"
    assert path.is_file(), f"No model at {path}. Run `stackchan models pull`."
    window = LlmSettings().context_tokens
    bias = TOOL_BIASES[path.parent.name]
    llm = XllamaLlm(path, context_tokens=window, prefix_dir=folder / "prompt-cache", tool_bias=bias)
    await llm.start()
    try:
        await llm.warm_prefix(stable_prefix(persona, llm.capabilities, TOOLS))
        decisions = {item["id"]: await searches(llm, persona, item) for item in chosen()}
        replies = {}
        for language, words in ASKED.items():
            for given in ({"memories": [], "note": "nothing found"}, {"error": UNREACHABLE}):
                replies[language, next(iter(given))] = await reply_after(llm, persona, language, words, given)
        return decisions, replies
    finally:
        await llm.close()


def request(llm, persona, language, words):
    messages = prompt_messages(persona, llm.capabilities, TOOLS, (), words, language=language, said_at=SAID_AT)
    return LlmRequest(messages, answer_schema(persona, language), TOOLS)


async def searches(llm, persona, item):
    async with aclosing(llm.generate(request(llm, persona, item["language"], item["text"]))) as deltas:
        async for delta in deltas:
            return isinstance(delta, LlmToolCall)


async def reply_after(llm, persona, language, words, given):
    call = LlmToolCall("search_memory", {"query": words})
    asked = request(llm, persona, language, words)
    said = (LlmMessage("assistant", "", (call,)), tool_result_message(call, json_text(given)))
    # The last round: no tool is offered.
    async with aclosing(llm.generate(replace(asked, messages=(*asked.messages, *said), tools=()))) as deltas:
        return json.loads("".join([delta.text async for delta in deltas if isinstance(delta, LlmText)]))


def test_the_decision_is_right_more_often_than_its_floor(results):
    decisions, _ = results
    wrong = [item["text"] for item in chosen() if decisions[item["id"]] != item["search"]]
    assert len(chosen()) >= 20
    assert len(chosen()) - len(wrong) >= AT_LEAST_RIGHT, wrong


@pytest.mark.parametrize("given", ["memories", "error"])
@pytest.mark.parametrize("language", ["ja", "en"])
def test_a_search_without_a_result_is_not_made_up_for(results, persona, language, given):
    _, replies = results
    reply = replies[language, given]["reply"]
    assert re.search(DOES_NOT_KNOW[language], reply), reply
    assert re.match(answer_schema(persona, language)["properties"]["reply"]["pattern"], reply)
