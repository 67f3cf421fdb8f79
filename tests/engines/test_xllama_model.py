"""The engine with the real library and the real small model."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing

import pytest

from server.engines.base import LlmDone, LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.xllama import XllamaLlm
from server.errors import LlmError
from tests.language_model import THREADS, model_path

pytestmark = pytest.mark.models

SYSTEM = LlmMessage("system", "君は小さなロボット。短く答える。")
ANSWER = {
    "type": "object",
    "properties": {"emotion": {"enum": ["happy", "sad"]}, "reply": {"type": "string", "maxLength": 20}},
    "required": ["emotion", "reply"],
    "additionalProperties": False,
}
SEARCH = ToolSpec(
    "search_memory",
    "Find what was said before.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "maxLength": 30}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def llm():
    engine = XllamaLlm(model_path(), context_tokens=2048, threads=THREADS)
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


def ask(text, **changes):
    return LlmRequest((SYSTEM, LlmMessage("user", text)), **{"max_tokens": 40, **changes})


async def collect(llm, request):
    async with aclosing(llm.generate(request)) as deltas:
        return [delta async for delta in deltas]


def text_of(deltas):
    return "".join(delta.text for delta in deltas if isinstance(delta, LlmText))


async def test_an_answer_streams_as_compact_json_and_is_repeatable(llm):
    first = await collect(llm, ask("こんにちは、元気？", answer_schema=ANSWER))
    assert len([delta for delta in first if isinstance(delta, LlmText)]) > 5
    answer = json.loads(text_of(first))
    assert list(answer) == ["emotion", "reply"]
    assert text_of(first) == json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    second = await collect(llm, ask("こんにちは、元気？", answer_schema=ANSWER))
    third = await collect(llm, ask("こんにちは、元気？", answer_schema=ANSWER))
    assert text_of(second) == text_of(third)
    assert isinstance(third[-1], LlmDone)
    assert third[-1].cached_tokens >= third[-1].prompt_tokens - 1
    assert third[-1].completion_tokens > 5


async def test_the_decision_grammar_reaches_the_tool(llm):
    words = 'Call search_memory to find my dog. Write {"tool":"search_memory","args":{"query":"my dog"}}'
    deltas = await collect(llm, ask(words, answer_schema=ANSWER, tools=(SEARCH,)))
    assert isinstance(deltas[0], LlmToolCall)
    assert deltas[0].name == "search_memory"
    assert "dog" in deltas[0].arguments["query"]
    assert deltas[-1].finish_reason == "tool_calls"


async def test_emoji_are_never_cut(llm):
    text = text_of(await collect(llm, ask("Repeat: 😀👩‍👩‍👧🇯🇵𠮟る", max_tokens=12)))
    assert text
    assert "\ufffd" not in text
    text.encode()


async def test_a_cancelled_answer_leaves_the_engine_usable(llm):
    await llm.warm_prefix((SYSTEM,))
    deltas = llm.generate(ask("長い昔話をして", max_tokens=400))
    await anext(deltas)
    started = time.perf_counter()
    await deltas.aclose()
    assert time.perf_counter() - started < 0.2
    assert text_of(await collect(llm, ask("やあ", max_tokens=3)))


async def test_a_cancelled_long_prompt_ends_before_it_is_read(llm):
    """In the same run: all of the prompt takes much longer than what is left of it after cancelling."""
    long = LlmMessage("user", "犬と猫が公園で遊んだ。" * 50)
    started = time.perf_counter()
    await collect(llm, LlmRequest((long,), max_tokens=1))
    whole = time.perf_counter() - started
    other = LlmMessage("user", "鳥と魚が海辺で歌った。" * 50)
    reading = asyncio.create_task(collect(llm, LlmRequest((other,), max_tokens=1)))
    await asyncio.sleep(whole / 10)
    started = time.perf_counter()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await collect(llm, ask("やあ", max_tokens=1))
    assert time.perf_counter() - started < whole / 2


async def test_a_prompt_beyond_the_window_is_refused(llm):
    with pytest.raises(LlmError) as caught:
        await collect(llm, ask("犬と猫。" * 2000))
    assert caught.value.code == "llm_context_overflow"
    assert text_of(await collect(llm, ask("やあ", max_tokens=3)))


async def test_tokens_are_counted_exactly(llm):
    assert await llm.count_tokens("") == 0
    assert await llm.count_tokens("hello world") == 2
    assert 0 < await llm.count_tokens("こんにちは、\ud83d元気？😀") < 20


async def test_a_read_prefix_is_cached_and_survives_a_restart(tmp_path):
    prefix = (LlmMessage("system", "君は小さなロボット。" * 20),)
    request = LlmRequest((*prefix, LlmMessage("user", "やあ")), max_tokens=1)
    for _ in range(2):
        engine = XllamaLlm(model_path(), context_tokens=2048, threads=THREADS, prefix_dir=tmp_path / "prefix")
        await engine.start()
        await engine.warm_prefix(prefix)
        done = (await collect(engine, request))[-1]
        await engine.close()
        assert done.prompt_tokens - done.cached_tokens < 12
    assert len(list((tmp_path / "prefix").iterdir())) == 1


async def test_conversations_that_take_turns_and_other_prompts_lose_nothing_that_was_read(tmp_path):
    prefix = (LlmMessage("system", "君は小さなロボット。" * 20),)
    folder = tmp_path / "prefix"
    engine = XllamaLlm(model_path(), context_tokens=1024, threads=THREADS, prefix_dir=folder, conversations=2)
    await engine.start()
    await engine.warm_prefix(prefix)
    # How they begin, then what is added to each in turn.
    told = (
        "昨日は公園で長い散歩をして、とても楽しかったんだ。",
        "I have read a long book about the sea and its many birds.",
    )
    not_read = []
    for more in ((), (LlmMessage("assistant", "いいね。"), LlmMessage("user", "そう"))):
        for words in told:
            request = LlmRequest((*prefix, LlmMessage("user", words), *more), max_tokens=1)
            done = (await collect(engine, request))[-1]
            not_read.append(done.prompt_tokens - done.cached_tokens)
            await collect(
                engine, LlmRequest((LlmMessage("system", "Summarise."), LlmMessage("user", words)), max_tokens=1)
            )
    await engine.close()
    # The prefix is read in both; then only what was added.
    assert all(10 < tokens < 60 for tokens in not_read[:2])
    assert all(tokens < 25 for tokens in not_read[2:]), not_read


async def test_a_damaged_prefix_file_is_read_anew(tmp_path):
    prefix = (LlmMessage("system", "君は小さなロボット。" * 20),)
    for damage in (False, True):
        if damage:
            (file,) = (tmp_path / "prefix").iterdir()
            file.write_bytes(b"damaged" * 10)
        engine = XllamaLlm(model_path(), context_tokens=2048, threads=THREADS, prefix_dir=tmp_path / "prefix")
        await engine.start()
        await engine.warm_prefix(prefix)
        done = (await collect(engine, LlmRequest((*prefix, LlmMessage("user", "やあ")), max_tokens=1)))[-1]
        await engine.close()
        assert done.cached_tokens > 50


async def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF nonsense" * 100)
    with pytest.raises(LlmError) as caught:
        await XllamaLlm(tmp_path / "model.gguf").start()
    assert caught.value.code == "engine_unavailable"
