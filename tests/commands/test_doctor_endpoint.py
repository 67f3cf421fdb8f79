"""`stackchan doctor` and `stackchan models` when the language model is an endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.commands import doctor_checks as checks
from server.commands.doctor import next_steps, run_checks
from server.commands.doctor_checks import Finding
from server.commands.models import needed_model_ids
from server.config import Settings
from server.engines.catalogue import load_catalogue
from server.errors import ConfigError
from tests.commands.conftest import Cli
from tests.fakes.chat_server import ChatServer, running_chat_server

pytestmark = pytest.mark.integration

KEY = "sk-very-secret"


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with running_chat_server() as server:
        yield server


def check(chat: ChatServer, **llm: Any) -> Finding:
    return checks.check_endpoint(Settings(llm={"base_url": chat.url, "api_key": KEY} | llm))


def test_an_endpoint_that_is_ready_is_named_with_its_model(chat: ChatServer) -> None:
    chat.key = KEY
    finding = check(chat, preset="vllm")
    assert finding.state == "ok"
    assert finding.detail == f"vllm at {chat.url}, model qwen-fake, calls tools natively"
    assert "as text" in check(chat, tools="written", model="qwen-fake").detail


def test_a_refused_key_is_told_and_not_repeated(chat: ChatServer) -> None:
    chat.key = "another"
    finding = check(chat)
    assert finding.state == "fail"
    assert "STACKCHAN_LLM__API_KEY" in (finding.todo or "")
    assert KEY not in repr(finding)


@pytest.mark.parametrize(("preset", "state"), [("vllm", "fail"), ("dashscope", "warn")])
def test_a_model_it_does_not_have_is_told_with_those_it_has(chat: ChatServer, preset: str, state: str) -> None:
    chat.models = ["qwen3:4b", "qwen3:8b"]
    finding = check(chat, preset=preset, model="qwen9")
    assert finding.state == state
    assert "qwen9" in finding.detail
    assert "qwen3:4b, qwen3:8b" in (finding.todo or "")


def test_a_model_without_its_tag_is_the_latest(chat: ChatServer) -> None:
    chat.models = ["qwen3:latest"]
    assert check(chat, preset="ollama", model="qwen3").state == "ok"


def test_an_endpoint_without_models(chat: ChatServer) -> None:
    chat.models = []
    finding = check(chat, preset="lmstudio")
    assert (finding.state, "has no model" in finding.detail) == ("fail", True)


def test_an_endpoint_that_does_not_answer_says_how_to_start_it() -> None:
    finding = checks.check_endpoint(Settings(llm={"preset": "ollama", "base_url": "http://127.0.0.1:1/v1"}))
    assert finding.state == "fail"
    assert "ollama serve" in (finding.todo or "")


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (404, b"{}", "fail"),
        (200, b"<html>", "fail"),
        (200, b'{"data": 3}', "fail"),
        (503, b"{}", "warn"),
        (500, b"", "warn"),
    ],
)
def test_an_address_that_is_no_such_endpoint(status: int, body: bytes, state: str) -> None:
    import httpx2

    transport = httpx2.MockTransport(lambda request: httpx2.Response(status, content=body))
    settings = Settings(llm={"base_url": "http://somewhere.example/"})
    assert checks.check_endpoint(settings, transport=transport).state == state


@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_list_is_not_read_to_its_end(status: int) -> None:
    import httpx2

    sent = []

    def endless() -> Iterator[bytes]:
        while True:
            sent.append(65_536)
            yield b" " * 65_536

    transport = httpx2.MockTransport(lambda request: httpx2.Response(status, content=endless()))
    finding = checks.check_endpoint(Settings(llm={"base_url": "http://somewhere.example/v1"}), transport=transport)
    assert finding.state in ("fail", "warn")
    assert sum(sent) <= 1024**2 + 65_536


def test_a_list_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    def dripping() -> Iterator[bytes]:
        while True:
            yield b" "

    monkeypatch.setattr(checks, "_BODY_SECONDS", 0.01)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=dripping()))
    finding = checks.check_endpoint(Settings(llm={"base_url": "http://somewhere.example/v1"}), transport=transport)
    assert finding.state == "fail"
    assert "too long" in finding.detail


def test_an_endpoint_without_a_list_may_still_work() -> None:
    import httpx2

    transport = httpx2.MockTransport(lambda request: httpx2.Response(404))
    finding = checks.check_endpoint(
        Settings(llm={"base_url": "http://somewhere.example/v1", "model": "m"}), transport=transport
    )
    assert finding.state == "warn"
    assert "doctor --bench" in (finding.todo or "")


def test_an_endpoint_that_cannot_be_named_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="STACKCHAN_LLM__API_KEY"):
        checks.check_endpoint(Settings(llm={"preset": "modelscope"}))


def test_with_an_endpoint_no_language_model_is_pulled(chat: ChatServer) -> None:
    settings = Settings(llm={"preset": "ollama", "model": "qwen2.5-coder-1.5b-instruct-q4_k_m"})
    assert needed_model_ids(settings, load_catalogue()) == ["silero-vad", "whisper-base-ct2"]


def test_the_check_belongs_to_the_doctor(
    chat: ChatServer, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chat.key = "another"
    monkeypatch.setenv("STACKCHAN_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("STACKCHAN_LLM__BASE_URL", chat.url)
    monkeypatch.setenv("STACKCHAN_LLM__API_KEY", KEY)
    done = cli("doctor", "--json")
    found = {finding["check"]: finding for finding in json.loads(done.out)["checks"]}
    assert done.code == 1
    assert found["Language model"]["state"] == "fail"
    assert "qwen2.5" not in found["Models"]["detail"]
    assert KEY not in done.out + done.err


def test_without_an_endpoint_there_is_no_such_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "check_hub", lambda: Finding("Model hub", "info", ""))
    found = run_checks(Settings(data_dir=tmp_path, model_dir=tmp_path), None)
    assert "Language model" not in [finding.check for finding in found]


def test_with_an_endpoint_no_larger_local_model_is_recommended() -> None:
    hub = Finding("Model hub", "ok", "")
    assert any("For better answers" in step for step in next_steps([hub], None))
    assert not any(
        "For better answers" in step for step in next_steps([hub, Finding("Language model", "ok", "")], None)
    )
