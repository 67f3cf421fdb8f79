"""Which endpoint the settings mean, what cannot work, and the body that each preset sends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from server.config import Settings, describe_settings, load_settings
from server.engines.base import LlmMessage, LlmRequest, LlmToolCall, ToolSpec
from server.engines.llm.openai_request import completion_body, endpoint_messages, estimated_tokens
from server.engines.llm.presets import PRESETS, Endpoint, resolve_endpoint
from server.engines.registry import engine_names, find_engine
from server.errors import ConfigError
from server.persona import find_persona, load_persona

pytestmark = pytest.mark.unit

SEARCH = ToolSpec(
    "search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
)
ANSWER = {
    "type": "object",
    "properties": {
        "emotion": {"type": "string", "enum": ["happy"]},
        "reply": {"type": "string", "pattern": "^.{0,9}$", "maxLength": 9},
    },
    "required": ["emotion", "reply"],
    "additionalProperties": False,
}
KEY = "sk-very-secret"


def settings(**llm) -> Settings:
    return load_settings({}, llm=llm)


def endpoint(**llm) -> Endpoint:
    return resolve_endpoint(settings(**llm).llm)


def request(**changes) -> LlmRequest:
    messages = (LlmMessage("system", "You are a robot."), LlmMessage("user", "元気？"))
    return LlmRequest(messages=messages, **({"answer_schema": ANSWER} | changes))


# --- choosing ---


def test_a_preset_or_a_url_chooses_the_engine():
    assert engine_names(settings())["llm"] == "xllama"
    assert engine_names(settings(preset="ollama"))["llm"] == "openai"
    assert engine_names(settings(base_url="http://127.0.0.1:1/v1"))["llm"] == "openai"
    assert engine_names(settings(engine="xllama", preset="ollama"))["llm"] == "xllama"
    assert engine_names(load_settings({}, profile="qwen"))["llm"] == "openai"


def test_an_endpoint_may_be_silent_for_half_of_the_time_to_think_and_longer_while_it_loads():
    chosen = settings(preset="ollama", timeout_seconds=40, connect_timeout_seconds=3)
    made = find_engine(chosen, "llm").build(chosen, load_persona(find_persona(Path("/nowhere"), None)))
    assert (made._timeout.read, made._timeout.connect) == (20, 3)
    assert made._warming_timeout.read == 40


def test_the_engine_is_built_without_contacting_anybody():
    chosen = settings(preset="vllm", context_tokens=4096, tools="written")
    engine = find_engine(chosen, "llm").build(chosen, load_persona(find_persona(Path("/nowhere"), None)))
    assert (engine.name, engine.capabilities.native_tools, engine.capabilities.wants_examples) == (
        "openai",
        False,
        False,
    )
    assert (engine.capabilities.context_tokens, engine.capabilities.streams) == (4096, True)
    assert engine.capabilities.max_tools == 128


@pytest.mark.parametrize(
    ("llm", "name", "hint"),
    [
        ({"engine": "openai"}, "STACKCHAN_LLM__PRESET", "STACKCHAN_LLM__BASE_URL"),
        ({"preset": "modelscope"}, "STACKCHAN_LLM__API_KEY", "$MODELSCOPE_API_KEY"),
        ({"preset": "dashscope"}, "STACKCHAN_LLM__API_KEY", "$DASHSCOPE_API_KEY"),
        ({"preset": "ollama", "api_key": "sk-キー"}, "STACKCHAN_LLM__API_KEY", "Copy it again"),
        ({"preset": "ollama", "api_key": f"{KEY}\n"}, "a line break", "one line"),
        ({"preset": "ollama", "api_key": "two words"}, "a space", "Copy it again"),
        ({"base_url": "http://:80/v1"}, "STACKCHAN_LLM__BASE_URL", "http://127.0.0.1"),
        ({"base_url": "http://host:port/v1"}, "STACKCHAN_LLM__BASE_URL", "http://127.0.0.1"),
        ({"base_url": "http://[::1/v1"}, "STACKCHAN_LLM__BASE_URL", "http://127.0.0.1"),
    ],
)
def test_what_cannot_work_names_the_setting_and_what_to_do(llm, name, hint):
    with pytest.raises(ConfigError) as caught:
        endpoint(**llm)
    assert caught.value.code == "config_invalid"
    assert name in caught.value.message
    assert hint in (caught.value.hint or "")
    assert KEY not in str(caught.value)


def test_an_address_of_ones_own_may_add_the_key_itself():
    found = endpoint(preset="dashscope", base_url="http://gateway.home:9000/v1")
    assert (found.authorization, found.thinking_off) == (None, PRESETS["dashscope"].thinking_off)


def test_a_key_becomes_a_header_and_is_shown_nowhere():
    found = endpoint(preset="modelscope", api_key=KEY)
    assert found.headers() == {"Authorization": f"Bearer {KEY}"}
    assert KEY not in repr(found)
    assert KEY not in str(found)
    assert found.hide(f"key {KEY}.") == "key ***."
    assert endpoint(preset="ollama").headers() == {}


def test_a_user_in_the_url_is_sent_but_not_shown():
    found = endpoint(base_url="https://me:pass%40word@llm.home:8443/v1/?token=abc#x")
    assert found.base_url == "https://llm.home:8443/v1"
    assert found.headers() == {"Authorization": "Basic bWU6cGFzc0B3b3Jk"}
    for text in ("pass@word", "pass%40word", "bWU6cGFzc0B3b3Jk", "token"):
        assert text not in repr(found)
    assert found.hide("pass@word or pass%40word") == "*** or ***"


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:1/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://192.168.0.9/v1", False),
        ("https://localhost.example/v1", False),
    ],
)
def test_which_endpoint_is_on_this_machine(url, loopback):
    found = endpoint(base_url=url)
    assert (found.loopback, found.local, found.base_url) == (loopback, loopback, url)


def test_every_preset_is_complete():
    assert set(PRESETS) == {"modelscope", "dashscope", "ollama", "vllm", "llama-server", "lmstudio"}
    for name, preset in PRESETS.items():
        assert preset.base_url.endswith("/v1"), name
        assert preset.local == (preset.key_variable is None) == (preset.model is None), name
        assert endpoint(preset=name, api_key=KEY).loopback == preset.local, name


# --- bodies ---

BASE = {
    "messages": [{"role": "system", "content": "You are a robot."}, {"role": "user", "content": "元気？"}],
    "max_tokens": 200,
    "temperature": 0.0,
    "seed": 7,
    "stream": True,
    "stream_options": {"include_usage": True},
}
TEMPLATE = {"chat_template_kwargs": {"enable_thinking": False}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "search_memory", "description": "Search.", "parameters": SEARCH.parameters},
    }
]
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "schema": {
            "type": "object",
            "properties": {"emotion": {"type": "string", "enum": ["happy"]}, "reply": {"type": "string"}},
            "required": ["emotion", "reply"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize(
    ("preset", "model", "thinking", "form"),
    [
        ("modelscope", "Qwen/Qwen3-8B", {"enable_thinking": False}, None),
        ("modelscope", "Qwen/Qwen3-30B-A3B-Instruct-2507", {}, None),
        ("dashscope", "qwen-flash", {"enable_thinking": False}, {"type": "json_object"}),
        ("ollama", "qwen3:4b", {"reasoning_effort": "none"}, SCHEMA),
        ("vllm", "Qwen/Qwen3-8B", TEMPLATE, SCHEMA),
        ("vllm", "Qwen/Qwen3-4B-Instruct-2507", {}, SCHEMA),
        ("llama-server", "qwen3", TEMPLATE, SCHEMA),
        ("lmstudio", "qwen3", TEMPLATE, SCHEMA),
    ],
)
def test_the_body_of_each_preset(preset, model, thinking, form):
    found = endpoint(preset=preset, api_key=KEY)
    with_tools = completion_body(request(tools=(SEARCH,)), found, model)
    assert with_tools == BASE | {"model": model, "tools": TOOLS} | thinking
    expected = BASE | {"model": model} | thinking | ({"response_format": form} if form else {})
    assert completion_body(request(), found, model) == expected
    json.dumps(with_tools)


def test_without_a_preset_nothing_special_is_sent():
    found = endpoint(base_url="http://127.0.0.1:1/v1")
    assert completion_body(request(), found, "m") == BASE | {"model": "m"}


def test_free_text_asks_for_no_form():
    assert "response_format" not in completion_body(request(answer_schema=None), endpoint(preset="vllm"), "m")


def test_written_tools_are_one_schema_and_no_tools():
    body = completion_body(request(tools=(SEARCH,)), endpoint(preset="ollama", tools="written"), "m")
    assert "tools" not in body
    call, answer = body["response_format"]["json_schema"]["schema"]["oneOf"]
    assert call["properties"] == {"tool": {"const": "search_memory"}, "args": SEARCH.parameters}
    assert answer == SCHEMA["json_schema"]["schema"]


def test_a_property_named_like_a_keyword_is_kept():
    schema = {"type": "object", "properties": {"pattern": {"type": "string", "pattern": "x"}}}
    body = completion_body(request(answer_schema=schema), endpoint(preset="vllm"), "m")
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"pattern": {"type": "string"}}


# --- messages ---

CALL = LlmToolCall("search_memory", {"query": "猫"}, "call_9")
CONVERSATION = (
    LlmMessage("system", "You are a robot."),
    LlmMessage("system", "It is Monday."),
    LlmMessage("user", "やあ"),
    LlmMessage("assistant", '{"reply":"やあ"}'),
    LlmMessage("system", "It is Tuesday."),
    LlmMessage("user", "うちの猫は？"),
    LlmMessage("assistant", "", tool_calls=(CALL,)),
    LlmMessage("tool", "[data]\n{}", call_id="call_9"),
)


def test_system_text_stands_only_at_the_beginning():
    messages = endpoint_messages(CONVERSATION, native_tools=True)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "tool"]
    assert messages[0]["content"] == "You are a robot."
    assert messages[1]["content"] == "[It is Monday.]\nやあ"
    assert messages[3]["content"] == "[It is Tuesday.]\nうちの猫は？"


def test_native_calls_and_results_are_paired():
    *_, call, result = endpoint_messages(CONVERSATION, native_tools=True)
    function = {"name": "search_memory", "arguments": '{"query": "猫"}'}
    assert call["tool_calls"] == [{"id": "call_9", "type": "function", "function": function}]
    assert (call["content"], result["tool_call_id"]) == ("", "call_9")


def test_calls_without_id_are_paired_too():
    call = LlmToolCall("search_memory", {})
    messages = endpoint_messages(
        [
            LlmMessage("user", "a"),
            *(LlmMessage("assistant", "", tool_calls=(call,)), LlmMessage("tool", "1")),
            *(LlmMessage("assistant", "", tool_calls=(call,)), LlmMessage("tool", "2")),
        ],
        native_tools=True,
    )
    calls = [message["tool_calls"][0]["id"] for message in messages if "tool_calls" in message]
    assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(set(calls)) == 2


def test_written_calls_and_results_are_said():
    *_, call, result = endpoint_messages(CONVERSATION, native_tools=False)
    assert call == {"role": "assistant", "content": '{"tool":"search_memory","args":{"query":"猫"}}'}
    assert result == {"role": "user", "content": "[data]\n{}"}


def test_system_text_at_the_end_is_not_lost():
    messages = endpoint_messages([LlmMessage("user", "a"), LlmMessage("system", "Monday.")], native_tools=True)
    assert messages == [{"role": "user", "content": "a"}, {"role": "user", "content": "[Monday.]"}]


def test_what_no_tokenizer_can_write_is_not_sent():
    assert endpoint_messages([LlmMessage("user", "a\ud800\ufffdb")], native_tools=True)[0]["content"] == "ab"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("Hello, world.", 6),
        ("今日はいい天気", 7),
        ("2026", 4),
        ("a  b\n", 4),
        ("😀", 4),
        ("Привет", 6),
        ("ไทย", 9),
        ("𠮷", 4),
    ],
)
def test_tokens_are_estimated_on_the_high_side(text, tokens):
    assert estimated_tokens(text) == tokens


def test_a_long_text_is_estimated_at_once():
    assert estimated_tokens("あ" * 100_000) == 100_000


# --- the page ---

PAGE = (Path(__file__).parents[2] / "docs" / "endpoints.md").read_text(encoding="utf-8")


def test_the_page_tells_each_presets_address_model_and_key():
    for name, preset in PRESETS.items():
        assert f"`{preset.base_url}`" in PAGE.replace("`,", "`"), name
        assert f"PRESET={name}" in PAGE, name
        assert preset.model is None or f"`{preset.model}`" in PAGE, name
        assert preset.key_variable is None or f'API_KEY="${preset.key_variable}"' in PAGE, name


def test_the_page_tells_how_each_preset_turns_thinking_off():
    for name, preset in PRESETS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line)
        ((field, value),) = preset.thinking_off.items()
        written = json.dumps(dict(value) if field == "chat_template_kwargs" else value)
        assert f"`{field}: {written}`" in row, name


def test_the_page_names_only_settings_and_codes_that_exist():
    assert set(re.findall(r"STACKCHAN_[A-Z_]+", PAGE)) <= {row.env for row in describe_settings()}
    codes = set(re.findall(r"^\| `([a-z_]+)`", PAGE, re.MULTILINE)) - set(PRESETS)
    sources = "".join(path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "server").rglob("*.py"))
    assert {code for code in codes if f'"{code}"' not in sources} == set()
    assert {"llm_unreachable", "llm_cut", "llm_overloaded"} <= codes
