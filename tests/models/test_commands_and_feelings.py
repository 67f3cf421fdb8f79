"""The real small model with the real prompt: the utterances that were fixed before the prompt was tuned."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from server.context.prompts import answer_schema, json_text, prompt_messages, tool_result_message
from server.engines.base import LlmMessage, LlmRequest
from server.memory.asked import OF_THE_CLOCK_LOG_ODDS, UNMENTIONED_LOG_ODDS
from server.memory.tools import SEARCH_MEMORY
from server.persona import default_persona_path, load_persona
from tests.language_model import SAID_AT, TOOLS, language_model, written

pytestmark = pytest.mark.models

DATA = Path(__file__).parent.parent / "data" / "commands_and_feelings.json"


@pytest.fixture(scope="module")
def persona():
    return load_persona(default_persona_path())


@pytest.fixture(scope="module")
def answers(persona):
    """The utterances of the file, each answered once: id -> answer."""
    return asyncio.run(ask_all(persona))


async def ask_all(persona):
    async with language_model(persona) as llm:
        answers = {item["id"]: await ask(llm, persona, item["text"]) for item in items()}
        return {**answers, "weekday": await ask(llm, persona, "今日は何曜日？", OF_THE_CLOCK_LOG_ODDS)}


def items(*kinds: str):
    """Those called `extra` are left to `scripts/bench_commands`."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    return [item for kind in kinds or ("utterances", "still") for item in data[kind]]


async def ask(llm, persona, text, leaning=UNMENTIONED_LOG_ODDS):
    language = "en" if text.isascii() else "ja"
    request = LlmRequest(
        messages=prompt_messages(persona, llm.capabilities, TOOLS, (), text, language=language, said_at=SAID_AT),
        answer_schema=answer_schema(persona, language),
        # As in a turn in which no memory mentions what is spoken of; other tools wait for something found or asked.
        tools=(replace(SEARCH_MEMORY, prior=leaning),),
    )
    answer, call = await written(llm, request)
    if call is not None:  # as in a turn that finds nothing: the second time the model has to answer
        messages = (
            *request.messages,
            LlmMessage("assistant", "", tool_calls=(call,)),
            tool_result_message(call, json_text({"candidates": [], "note": "nothing found"})),
        )
        answer, _ = await written(llm, replace(request, messages=messages, tools=()))
    return json.loads(answer)


def is_right(item, answer):
    return all(answer[field] in values for field, values in item["expect"].items())


def test_at_least_15_of_20_are_right(answers):
    wrong = {
        item["text"]: answers[item["id"]] for item in items("utterances") if not is_right(item, answers[item["id"]])
    }
    assert len(items("utterances")) == 20
    assert len(wrong) <= 5, wrong


def test_greetings_and_questions_move_nothing(answers):
    moved = {item["text"]: answers[item["id"]]["action"] for item in items("still")}
    assert set(moved.values()) == {"none"}, moved


def test_left_and_sad_are_right(answers):
    assert answers["c01"]["action"] == "look_left"
    assert answers["f01"]["emotion"] == "sad"


def test_replies_are_one_sentence_in_the_users_language(answers, persona):
    for item in items():
        language = "en" if item["text"].isascii() else "ja"
        pattern = answer_schema(persona, language)["properties"]["reply"]["pattern"]
        assert re.match(pattern, answers[item["id"]]["reply"]), (item["text"], answers[item["id"]])


def test_the_day_of_the_week_is_told(answers):
    assert "月曜" in answers["weekday"]["reply"]
