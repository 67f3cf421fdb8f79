"""A Qwen through transformers, a tiny random one: what it reads, keeps, and lets go when nobody wants it any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.engines.base import LlmMessage, LlmRequest, LlmText
from tests.fakes import tiny_qwen
from tests.fakes.qwen_chat import ANSWER, SEARCH, SYSTEM, ask, chosen_by_fresh, engine, quietly, request

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def folder(tmp_path_factory, hub_off):
    return tiny_qwen.save(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def reference(folder):
    """Tokenizer and model as transformers gives them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()


@pytest.mark.parametrize("words", ["こんにちは、猫の名前は？", "Hello there, who are you?"])
async def test_it_writes_what_generate_writes(folder, reference, words):
    import torch

    tokenizer, model = reference
    async with engine(folder) as (llm, watched):
        await quietly(llm, request(words, max_tokens=40))
    messages = [{"role": "system", "content": SYSTEM.content}, {"role": "user", "content": words}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=False, return_tensors="pt", return_dict=False
    )
    with torch.inference_mode():
        whole = model.generate(prompt, max_new_tokens=40, do_sample=False)
    assert watched.chosen == whole[0, prompt.shape[1] :].tolist()
    assert len(set(watched.chosen)) > 3


async def test_a_conversation_is_read_once_and_answered_as_if_it_were_read_anew(folder):
    words = [
        "こんにちは",
        "やあ、元気だよ。",
        "猫の名前は？",
        "タマだよ。",
        "Thanks, good night",
        "おやすみ。",
        "また明日ね",
    ]
    async with engine(folder) as (llm, model):
        for count in (1, 3, 5, 7):
            model.chosen.clear()
            model.forwards.clear()
            asked = request(*words[:count])
            done = await quietly(llm, asked)
            assert model.chosen == await chosen_by_fresh(folder, asked), count
            if count > 1:
                assert sum(model.forwards) < 140, model.forwards  # the system message alone has more
                assert done is None or done.cached_tokens > 250


async def test_the_prefix_that_was_warmed_is_not_read_again_whatever_came_between(folder):
    asked = request("左を見て", tools=(SEARCH,))
    async with engine(folder) as (llm, model):
        await llm.warm_prefix((SYSTEM,), (SEARCH,))
        warmed = sum(model.forwards)
        assert warmed > 400
        other = LlmRequest((LlmMessage("system", "Summarize. まとめて。" * 40), LlmMessage("user", "…")), max_tokens=4)
        await quietly(llm, other)
        model.forwards.clear()
        model.chosen.clear()
        model.scripts = [ANSWER]
        done = (await ask(llm, asked))[-1]
        assert done.cached_tokens == warmed
        assert done.prompt_tokens == warmed + sum(model.forwards[: -done.completion_tokens + 1])


async def test_what_is_read_ahead_is_not_read_again(folder):
    asked = request("今日は", "はい。", "今から出かけるよ")
    async with engine(folder) as (llm, model):
        await llm.read_ahead(asked.messages[:-1])
        ahead = sum(model.forwards)
        done = await quietly(llm, asked)
        assert model.chosen == await chosen_by_fresh(folder, asked)
        assert done is None or done.cached_tokens == ahead


async def test_two_conversations_do_not_take_each_other_anything(folder):
    async with engine(folder) as (llm, model):
        one = ["one " * 200, "はい。"]
        other = ["二つ目" * 120, "うん。"]
        for _ in range(2):
            for talk in (one, other):
                model.chosen.clear()
                model.forwards.clear()
                talk += ["それから？", "ええと。"]
                asked = request(*talk[:-1])
                await quietly(llm, asked)
                assert model.chosen == await chosen_by_fresh(folder, asked)
        assert sum(model.forwards) < 150


async def test_closing_the_answer_stops_it_within_a_token(folder):
    go_on = threading.Event()
    async with engine(folder) as (llm, model):
        model.scripts = ["はい、元気です。そして、まだまだ話します。"]
        reached = threading.Event()

        def wait_at(number):
            if len(model.chosen) == 30:
                reached.set()
                assert go_on.wait(10)

        model.before_forward = wait_at
        deltas = llm.generate(request("話して", max_tokens=60))
        first = await anext(deltas)
        assert first == LlmText("はい、元気です。")
        assert await asyncio.to_thread(reached.wait, 10)
        await deltas.aclose()
        model.before_forward = lambda number: None
        written = len(model.chosen)
        go_on.set()
        asked = request("もう一度話して")
        await llm.count_tokens("…")
        model_chosen_before = len(model.chosen)
        await quietly(llm, asked)
        # One more token may have been chosen before it looked.
        assert model_chosen_before - written <= 1
        assert model.chosen[-24:] == await chosen_by_fresh(folder, asked)


async def test_closing_while_the_prompt_is_read_stops_it_within_a_piece(folder):
    asked = request("長い話" * 100)
    go_on, reached = threading.Event(), threading.Event()
    async with engine(folder) as (llm, model):

        def wait_at(number):
            if number == 3:
                reached.set()
                assert go_on.wait(10)

        model.before_forward = wait_at
        deltas = llm.generate(asked)
        waiting = asyncio.create_task(anext(deltas))
        assert await asyncio.to_thread(reached.wait, 10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await deltas.aclose()
        go_on.set()
        done = await quietly(llm, asked)
        assert model.forwards[:4] == [64] * 4
        assert model.chosen == await chosen_by_fresh(folder, asked)
        assert done is None or done.cached_tokens == 4 * 64
