"""The engine around the library, with a library that plays scripts."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import aclosing
from types import ModuleType, SimpleNamespace

import pytest

from server.engines.base import LlmDone, LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.xllama import XllamaLlm
from server.errors import LlmError, ModelError

pytestmark = pytest.mark.unit

HELLO = LlmRequest((LlmMessage("user", "やあ"),))
ANSWER = {"type": "object", "properties": {"reply": {"type": "string"}}}
SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})


def text_chunk(text):
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}]}


def end_chunks(reason="stop", prompt=12, cached=8, completion=3):
    usage = {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": completion,
    }
    return [{"choices": [{"delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]


class FakeLibrary(ModuleType):
    """Stands in for xllamacpp. `script`: chunks, events to wait for, and errors to raise, for each request."""

    __version__ = "1.0"

    def __init__(self):
        super().__init__("xllamacpp")
        self.script = [text_chunk("うん"), *end_chunks()]
        self.bodies = []
        self.params = None
        self.cancelled = threading.Event()
        self.freed = False
        self.load_error = None
        library = self

        class CommonParams(SimpleNamespace):
            def __init__(self):
                super().__init__(
                    model=SimpleNamespace(path=""),
                    cpuparams=SimpleNamespace(),
                    cpuparams_batch=SimpleNamespace(),
                    flash_attn_type=-1,
                )

        class Server:
            listening_address = "http://127.0.0.1:9"

            def __init__(self, params):
                if library.load_error:
                    raise library.load_error
                library.params = params

            def __del__(self):
                library.freed = True

            def handle_chat_completions(self, body, callback):
                library.bodies.append(body)
                for step in library.script:
                    if isinstance(step, threading.Event):
                        # Like the library: it goes on with callbacks and learns from one that nobody wants more.
                        while not step.is_set():
                            if callback({"choices": [], "prompt_progress": {}}):
                                library.cancelled.set()
                                return
                            step.wait(0.001)
                    elif isinstance(step, Exception):
                        raise step
                    elif callback(step):
                        library.cancelled.set()
                        return

        self.CommonParams = CommonParams
        self.Server = Server

    @staticmethod
    def json_schema_to_grammar(schema):
        return f"%llguidance {{}}\nstart: %json {schema}"


@pytest.fixture
def library(monkeypatch):
    fake = FakeLibrary()
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    return fake


@pytest.fixture
async def llm(library, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    engine = XllamaLlm(tmp_path / "model.gguf", context_tokens=2048, threads=2, conversations=1)
    await engine.start()
    yield engine
    await engine.close()


async def collect(llm, request=HELLO):
    async with aclosing(llm.generate(request)) as deltas:
        return [delta async for delta in deltas]


def test_construction_imports_nothing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    engine = XllamaLlm(tmp_path / "none.gguf")
    assert (engine.capabilities.native_tools, engine.capabilities.streams) == (False, True)


async def test_a_missing_file_says_what_to_do(library, tmp_path):
    with pytest.raises(ModelError, match=r"models pull") as caught:
        await XllamaLlm(tmp_path / "none.gguf").start()
    assert caught.value.code == "model_missing"


async def test_a_missing_library_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(LlmError, match="embedded") as caught:
        await XllamaLlm(tmp_path / "model.gguf").start()
    assert caught.value.code == "engine_unavailable"


async def test_a_broken_file_says_what_to_do(library, tmp_path):
    library.load_error = RuntimeError("Failed to init server")
    (tmp_path / "model.gguf").write_bytes(b"nonsense")
    engine = XllamaLlm(tmp_path / "model.gguf")
    with pytest.raises(LlmError, match="models verify") as caught:
        await engine.start()
    assert caught.value.code == "engine_unavailable"
    await engine.close()


async def test_the_listener_is_closed_to_others_and_the_window_is_for_each_slot(llm, library):
    params = library.params
    assert params.hostnames == ["127.0.0.1"]
    assert params.port == 0
    assert len(params.api_keys[0]) >= 32
    assert params.ui is False
    assert params.n_ctx == 2 * 2048
    assert params.n_parallel == 2
    assert params.cache_ram_mib == 0
    assert params.cpuparams.n_threads == params.cpuparams_batch.n_threads == 2
    assert params.verbosity < 0


async def test_text_streams_and_ends_with_the_figures(llm, library):
    library.script = [text_chunk(None), text_chunk("う"), text_chunk("ん😀"), *end_chunks()]
    assert await collect(llm) == [LlmText("う"), LlmText("ん😀"), LlmDone("stop", 12, 8, 3)]
    body = library.bodies[0]
    assert body["stream"] is body["return_progress"] is True
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 200)
    assert "grammar" not in body


async def test_an_answer_cut_by_its_length_says_so(llm, library):
    library.script = [text_chunk("う"), *end_chunks("length")]
    assert (await collect(llm))[-1].finish_reason == "length"


async def test_halves_of_characters_never_leave(llm, library):
    library.script = [text_chunk("あ\ufffd"), text_chunk("\ud83d"), text_chunk("い"), *end_chunks()]
    assert await collect(llm, LlmRequest((LlmMessage("user", "\udc00か"),))) == [
        LlmText("あ"),
        LlmText("い"),
        LlmDone("stop", 12, 8, 3),
    ]
    assert library.bodies[0]["messages"] == [{"role": "user", "content": "か"}]


async def test_the_grammar_is_compact_and_keeps_the_order(llm, library):
    schema = {"type": "object", "properties": {"emotion": {"enum": ["a"]}, "action": {}, "reply": {}}}
    await collect(llm, LlmRequest(HELLO.messages, schema))
    sent = json.loads(library.bodies[0]["grammar"].partition("%json ")[2])
    assert sent["x-guidance"]["whitespace_flexible"] is False
    assert list(sent["properties"]) == ["emotion", "action", "reply"]
    assert "x-guidance" not in schema


async def test_a_grammar_without_llguidance_loses_its_white_space(llm, library, monkeypatch):
    gbnf = 'root ::= "{" space "}"\nspace ::= | " " | "\\n"{1,2} [ \\t]{0,20}'
    monkeypatch.setattr(library, "json_schema_to_grammar", lambda schema: gbnf)
    await collect(llm, LlmRequest(HELLO.messages, ANSWER))
    assert library.bodies[0]["grammar"] == 'root ::= "{" space "}"\nspace ::= ""'


async def test_a_tool_call_is_one_delta(llm, library):
    written = '{"tool":"search_memory","args":{"query":"富士通"}}'
    library.script = [*(text_chunk(c) for c in written), *end_chunks()]
    assert await collect(llm, LlmRequest(HELLO.messages, ANSWER, (SEARCH,))) == [
        LlmToolCall("search_memory", {"query": "富士通"}),
        LlmDone("tool_calls", 12, 8, 3),
    ]
    assert "oneOf" in library.bodies[0]["grammar"]


async def test_a_prompt_that_is_too_long_has_its_own_code(llm, library):
    error = {"type": "exceed_context_size_error", "message": "…", "n_prompt_tokens": 25029, "n_ctx": 2048}
    library.script = [{"error": error}]
    with pytest.raises(LlmError, match=r"25029 tokens.*2048") as caught:
        await collect(llm)
    assert caught.value.code == "llm_context_overflow"


@pytest.mark.parametrize("step", [{"error": {"message": "no such grammar"}}, {"error": "no such grammar"}])
async def test_what_the_library_reports_is_an_error(llm, library, step):
    library.script = [text_chunk("う"), step]
    with pytest.raises(LlmError, match="no such grammar") as caught:
        await collect(llm)
    assert caught.value.code == "llm_failed"


async def test_what_the_library_raises_is_an_error_and_the_next_answer_works(llm, library):
    library.script = [ValueError("bad body")]
    with pytest.raises(LlmError, match="ValueError: bad body"):
        await collect(llm)
    library.script = [text_chunk("うん"), *end_chunks()]
    assert (await collect(llm))[0] == LlmText("うん")


async def test_closing_the_stream_cancels_the_work(llm, library):
    never = threading.Event()
    library.script = [text_chunk("う"), never]
    deltas = llm.generate(HELLO)
    assert await anext(deltas) == LlmText("う")
    await deltas.aclose()
    assert await asyncio.to_thread(library.cancelled.wait, 5)


async def test_a_cancelled_caller_cancels_the_work_before_the_first_word(llm, library):
    library.script = [threading.Event()]
    task = asyncio.create_task(collect(llm))
    while not library.bodies:  # noqa: ASYNC110 - the library's thread has no event of ours to wait for
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(library.cancelled.wait, 5)


async def test_closing_the_engine_ends_an_answer_with_an_error(llm, library):
    library.script = [text_chunk("う"), threading.Event()]
    deltas = llm.generate(HELLO)
    await anext(deltas)
    await llm.close()
    with pytest.raises(LlmError) as caught:
        await anext(deltas)
    assert caught.value.code == "engine_unavailable"
    assert library.freed
    await llm.close()


async def test_a_closed_engine_refuses(library, tmp_path):
    engine = XllamaLlm(tmp_path / "model.gguf")
    await engine.close()
    for work in (collect(engine), engine.count_tokens("か"), engine.warm_prefix([LlmMessage("system", "か")])):
        with pytest.raises(LlmError) as caught:
            await work
        assert caught.value.code == "engine_unavailable"


async def test_warming_reads_the_prefix_up_to_the_users_words(llm, library):
    await llm.warm_prefix([LlmMessage("system", "君はロボット。")])
    assert library.bodies[0]["messages"] == [
        {"role": "system", "content": "君はロボット。"},
        {"role": "user", "content": ""},
    ]
    assert library.bodies[0]["max_tokens"] == 1


async def test_every_prompt_names_its_slot(llm, library):
    prefix = (LlmMessage("system", "君はロボット。"),)
    await llm.warm_prefix(prefix)
    await collect(llm, LlmRequest((*prefix, LlmMessage("user", "やあ"))))
    await collect(llm, LlmRequest((LlmMessage("system", "Summarise."), LlmMessage("user", "hello"))))
    await llm.read_ahead((*prefix, LlmMessage("user", "やあ")))
    assert [body["id_slot"] for body in library.bodies] == [0, 0, 1, 0]


async def test_answers_come_one_at_a_time(llm, library):
    running: list[int] = []
    most = 0

    def handle(self, body, callback):
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        for chunk in (text_chunk(body["messages"][0]["content"]), *end_chunks()):
            callback(chunk)
        running.pop()

    library.Server.handle_chat_completions = handle
    requests = [LlmRequest((LlmMessage("user", word),)) for word in ("一", "二", "三")]
    answers = await asyncio.gather(*(collect(llm, request) for request in requests))
    assert [answer[0] for answer in answers] == [LlmText("一"), LlmText("二"), LlmText("三")]
    assert most == 1


async def test_a_large_model_is_asked_as_its_template_may_demand(library, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    engine = XllamaLlm(tmp_path / "model.gguf", small=False, system_anywhere=False)
    await engine.start()
    told = (LlmMessage("system", "君はロボット。"), LlmMessage("system", "It is 9:00."), LlmMessage("user", "やあ"))
    library.script = end_chunks()
    await collect(engine, LlmRequest(told, ANSWER, tools=(SEARCH,)))
    await engine.read_ahead(told[:2], (SEARCH,))
    await engine.close()
    asked, ahead = library.bodies
    assert asked["messages"] == [
        {"role": "system", "content": "君はロボット。"},
        {"role": "user", "content": "[It is 9:00.]\nやあ"},
    ]
    assert ahead["messages"][1] == {"role": "user", "content": "[It is 9:00.]\n"}
    assert asked["chat_template_kwargs"] == {"enable_thinking": False}
    assert "search_memory" in asked["grammar"]
    assert not any(name.startswith("dry_") for name in asked)
