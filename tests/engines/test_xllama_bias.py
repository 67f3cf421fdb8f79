"""The bias between calling a tool and answering: on one token, where the first key is chosen, and nowhere else."""

from __future__ import annotations

import json
import math
import sys
import threading
from contextlib import aclosing, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType, SimpleNamespace

import pytest

from server.engines.base import LlmMessage, LlmRequest, LlmToolCall, ToolSpec
from server.engines.llm.xllama import XllamaLlm
from server.errors import LlmError

pytestmark = pytest.mark.integration

ANSWER = {"type": "object", "properties": {"reply": {"type": "string"}}}
SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
WORDS = (LlmMessage("user", "ぼくの名前は？"),)


class Tokenizer(HTTPServer):
    """The library's own listener, as far as it tokenizes. `tokens`: text -> tokens."""

    def __init__(self, tokens):
        super().__init__(("127.0.0.1", 0), TokenizeHandler)
        self.tokens = tokens


class TokenizeHandler(BaseHTTPRequestHandler):
    server: Tokenizer

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"tokens": self.server.tokens[asked["content"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


async def bodies(monkeypatch, tmp_path, tokens, bias, *requests, key="emotion"):
    """What an engine with this bias and tokenizer asks of the library, whose model writes this first key."""
    seen = []

    class CommonParams(SimpleNamespace):
        def __init__(self):
            super().__init__(
                model=SimpleNamespace(path=""),
                cpuparams=SimpleNamespace(),
                cpuparams_batch=SimpleNamespace(),
                flash_attn_type=-1,
            )

    class Server:
        listening_address = ""

        def __init__(self, params):
            pass

        def handle_chat_completions(self, body, callback):
            seen.append(body)
            callback({"choices": [{"delta": {"content": f'{{"{key}'}}]})
            callback({"choices": [{"delta": {"content": '":"'}}]})

    with Tokenizer(tokens) as listener:
        Server.listening_address = f"http://127.0.0.1:{listener.server_port}"
        library = ModuleType("xllamacpp")
        library.CommonParams, library.Server = CommonParams, Server
        library.json_schema_to_grammar = lambda schema: f"%llguidance {{}}\nstart: %json {schema}"
        monkeypatch.setitem(sys.modules, "xllamacpp", library)
        (tmp_path / "model.gguf").write_bytes(b"GGUF")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        llm = XllamaLlm(tmp_path / "model.gguf", tool_bias=bias)
        try:
            await llm.start()
            for request in requests:
                async with aclosing(llm.generate(request)) as deltas:
                    with suppress(LlmError):  # a call that is not whole
                        assert [delta async for delta in deltas]
        finally:
            await llm.close()
            listener.shutdown()
            thread.join()
    return seen


WITH_TOOLS = LlmRequest(WORDS, ANSWER, (SEARCH,))
WITHOUT = LlmRequest(WORDS, ANSWER)


async def test_the_bias_is_on_the_token_that_begins_a_call(monkeypatch, tmp_path):
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    choice, answer, without = await bodies(monkeypatch, tmp_path, tokens, 8.25, WITH_TOOLS, WITHOUT)
    assert choice["logit_bias"] == [[14172, 8.25]]
    assert choice["max_tokens"] <= 4
    assert "search_memory" in choice["grammar"]
    assert "reply" in choice["grammar"]
    assert "logit_bias" not in without
    assert answer["messages"] == choice["messages"]


async def test_a_small_bias_needs_no_choice_of_its_own(monkeypatch, tmp_path):
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    (body,) = await bodies(monkeypatch, tmp_path, tokens, 5.25, WITH_TOOLS)
    assert body["logit_bias"] == [[14172, 5.25]]
    assert body["max_tokens"] == WITH_TOOLS.max_tokens


@pytest.mark.parametrize(("key", "possible"), [("emotion", ["reply"]), ("tool", ["search_memory"])])
@pytest.mark.parametrize("bias", [7.25, 15.25])
async def test_what_was_chosen_is_written_without_a_bias(monkeypatch, tmp_path, key, possible, bias):
    """It holds for a whole completion: a large one makes a query of nothing but "tool"."""
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    choice, written = await bodies(monkeypatch, tmp_path, tokens, bias, WITH_TOOLS, key=key)
    assert choice["logit_bias"] == [[14172, bias]]
    assert "logit_bias" not in written
    assert [name for name in ("reply", "search_memory") if name in written["grammar"]] == possible
    assert written["max_tokens"] == WITH_TOOLS.max_tokens


@pytest.mark.parametrize("tokens", [{'{"': [11], '{"tool': [12]}, {'{"': [11], '{"tool': [11, 7, 8]}])
async def test_a_tokenizer_that_writes_the_key_otherwise_gets_no_bias(monkeypatch, tmp_path, caplog, tokens):
    (body,) = await bodies(monkeypatch, tmp_path, tokens, 1.25, WITH_TOOLS)
    assert "logit_bias" not in body
    assert "the tool bias is not used" in caplog.text


async def test_without_a_bias_nothing_is_asked_of_the_tokenizer(monkeypatch, tmp_path):
    (body,) = await bodies(monkeypatch, tmp_path, {}, 0.0, WITH_TOOLS)
    assert "logit_bias" not in body


async def test_a_tools_prior_is_added_and_what_a_tool_gave_is_judged_without_the_bias(monkeypatch, tmp_path):
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    likely = replace(SEARCH, prior=2.5)
    call = LlmToolCall("search_memory", {"query": "猫"})
    after = (*WORDS, LlmMessage("assistant", "", tool_calls=(call,)), LlmMessage("tool", "{}"))
    requests = [
        LlmRequest(WORDS, ANSWER, (SEARCH, likely)),
        LlmRequest(after, ANSWER, (likely,)),
        LlmRequest(after, ANSWER, (SEARCH,)),
    ]
    asked = await bodies(monkeypatch, tmp_path, tokens, 1.25, *requests)
    assert [body.get("logit_bias") for body in asked] == [[[14172, 3.75]], [[14172, 2.5]], None]


async def test_a_tool_that_must_be_called_leaves_no_answer_and_no_bias(monkeypatch, tmp_path):
    forget = ToolSpec("forget_memory", "Forget.", SEARCH.parameters, prior=math.inf)
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    (body,) = await bodies(monkeypatch, tmp_path, tokens, 1.25, LlmRequest(WORDS, ANSWER, (SEARCH, forget)))
    assert "logit_bias" not in body, "it would also stand in the arguments"
    assert "forget_memory" in body["grammar"]
    assert "search_memory" in body["grammar"]
    assert "reply" not in body["grammar"]


async def test_what_a_tool_gave_may_be_said_again_and_nothing_else(monkeypatch, tmp_path):
    call = LlmToolCall("search_memory", {"query": "price"})
    after = (*WORDS, LlmMessage("assistant", "", tool_calls=(call,)), LlmMessage("tool", "It was 250 dollars."))
    asked, answers = await bodies(monkeypatch, tmp_path, {}, 0.0, WITHOUT, LlmRequest(after, ANSWER))
    assert asked["dry_multiplier"] > 0
    assert not any(name.startswith("dry_") for name in answers), "of a price it would leave a digit"


async def test_after_earlier_answers_the_bias_grows_and_then_stays(monkeypatch, tmp_path):
    tokens = {'{"': [11], '{"tool': [11, 14172]}
    requests = [replace(WITH_TOOLS, answered=answered) for answered in (0, 1, 2, 12)]
    asked = await bodies(monkeypatch, tmp_path, tokens, 1.25, *requests)
    first, second, third, late = (body["logit_bias"][0][1] for body in asked if "logit_bias" in body)
    assert first == 1.25 < second < third == late


async def test_earlier_answers_are_nothing_to_a_model_whose_bias_is_not_known(monkeypatch, tmp_path):
    (body,) = await bodies(monkeypatch, tmp_path, {}, 0.0, replace(WITH_TOOLS, answered=4))
    assert "logit_bias" not in body
