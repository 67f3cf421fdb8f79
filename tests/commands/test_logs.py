"""The log of a real `stackchan serve`: every turn told, nobody's words in it, nothing that forges a line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.commands.serve_process import READY, ServeProcess
from tests.fakes.engines import loud

pytestmark = pytest.mark.integration

WORDS = "金庫の番号はよんろくごーいち"
REPLY = "それは二人だけの秘密だね"
TOKEN = "the-owners-own-token"
SAYINGS = ("hello", "model fails", "model breaks", "voice fails", "voice breaks", "unknown tool", "no json")


def serve(folder: Path, **settings: str) -> ServeProcess:
    env = {"SERVE_FAKE": "quotes", "QUOTED_WORDS": WORDS, "QUOTED_REPLY": REPLY, "STACKCHAN_TOKEN": TOKEN}
    return ServeProcess(folder, env=env | {f"STACKCHAN_{name.upper()}": value for name, value in settings.items()})


def talk(server: ServeProcess) -> list[dict[str, Any]]:
    """Turns that go well and badly, and requests that are no turns; all of them with the same words."""
    found = re.search(r"http://127\.0\.0\.1:\d+", server.wait_for("Page"))
    assert found
    server.wait_for("Ctrl-C")
    headers = {"Authorization": f"Bearer {TOKEN}", "Device-Id": "desk"}
    answers = []
    with httpx2.Client(base_url=found[0], headers=headers, trust_env=False, timeout=60) as client:
        for saying in SAYINGS:
            answers.append(client.post("/v1/turns", json={"text": f"{WORDS} {saying}"}).json())
        for seconds in (0.4, 1.2, 3.0):
            body = (loud(seconds) * 32767).astype("<i2").tobytes()
            sound = {"Content-Type": "audio/pcm;rate=16000"}
            answers.append(client.post("/v1/turns", content=body, headers=sound).json())
        client.post("/v1/turns", content=f'{{"text": "{WORDS}'.encode(), headers={"Content-Type": "application/json"})
        client.post("/v1/turns", json={"text": "hi", "speaker": WORDS * 20})
        client.post("/v1/turns", json={WORDS: "hi"})
        client.get(f"/v1/turns/{WORDS}")
        client.get("/v1/turns/1/audio", params={"format": WORDS})
        client.get("/metrics", headers={b"Authorization": f"Bearer {WORDS}".encode()})
    assert server.stop() == 0
    return answers


def held_back(words: str) -> re.Pattern[str]:
    """Any four characters of it in a row: a line that is cut or wrapped gives it away as well."""
    pieces = {words[start : start + 4] for start in range(len(words) - 3)}
    return re.compile("|".join(map(re.escape, pieces)))


def objects(server: ServeProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines if line.startswith("{")]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_words_no_reply_and_no_token_are_logged_even_when_everything_fails(tmp_path: Path, log_format: str) -> None:
    with serve(tmp_path, log_level="debug", log_format=log_format) as server:
        server.wait_for(READY)
        boot_token = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["token"]
        answers = talk(server)

    outcomes = [answer["outcome"] for answer in answers]
    assert {"ok", "failed"} <= set(outcomes)
    assert all(WORDS in answer["transcript"] for answer in answers[: len(SAYINGS)])
    shown = server.output + "".join(json.dumps(each, ensure_ascii=False) for each in objects(server))
    for words in (WORDS, REPLY):
        assert not held_back(words).search(shown)
    for token in (TOKEN, boot_token):
        assert token not in shown
    for code in ("llm_refused", "asr_failed", "tts_failed", "RuntimeError"):
        assert code in shown
    assert "\x1b" not in shown


def test_json_lines_carry_the_turn_the_device_and_the_code(tmp_path: Path) -> None:
    with serve(tmp_path, log_format="json") as server:
        server.wait_for(READY)
        answers = talk(server)

    lines = objects(server)
    ended = [line for line in lines if line.get("event") == "turn_ended"]
    assert [line["turn_id"] for line in ended] == [answer["turn_id"] for answer in answers]
    assert {line["device_id"] for line in ended} == {"desk"}
    assert [line["outcome"] for line in ended] == [answer["outcome"] for answer in answers]
    assert {line["input"] for line in ended[: len(SAYINGS)]} == {"text"}
    assert ended[-1]["input"] == "audio"
    assert ended[-1]["stages_ms"].keys() >= {"vad", "asr", "llm", "tts"}
    assert ended[0]["llm_calls"] == 1
    assert (ended[0]["prompt_tokens"], ended[0]["cached_tokens"], ended[0]["completion_tokens"]) == (100, 90, 20)
    assert ended[0]["first_audio_ms"] <= ended[0]["duration_ms"]

    refused = next(line for line in lines if line.get("code") == "llm_refused" and line["level"] == "ERROR")
    assert refused["turn_id"] == answers[1]["turn_id"]
    assert refused["error"].startswith("LlmError from")
    broken = next(line for line in lines if "exception" in line)
    assert broken["turn_id"] == answers[2]["turn_id"]
    assert "quoting_engines.py" in broken["exception"]
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])
    messages = [line["message"] for line in lines]
    assert any(message.startswith("hearing (fake)") for message in messages)
    assert messages[-1].startswith("Stopped.")


def test_in_json_a_failed_start_is_a_line_as_well(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "fails", "STACKCHAN_LOG_FORMAT": "json"}) as server:
        assert server.ends() == 1
    (critical,) = [line for line in objects(server) if line["level"] == "CRITICAL"]
    assert "The voice is hoarse." in critical["message"]
    assert server.output.count("The voice is hoarse.") == 1


def test_a_turn_is_one_line_of_text(tmp_path: Path) -> None:
    with serve(tmp_path) as server:
        server.wait_for(READY)
        answers = talk(server)
    told = [line for line in server.lines if "the turn ended" in line]
    assert len(told) == len(answers)
    for line, answer in zip(told, answers, strict=True):
        assert f"turn {answer['turn_id']}: the turn ended: {answer['outcome']} in " in line


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_words_are_logged_only_when_asked_for_and_the_start_says_so(tmp_path: Path, log_format: str) -> None:
    with serve(tmp_path, log_private_text="true", log_format=log_format) as server:
        server.wait_for(READY)
        server.wait_for("会話の内容がログに残ります")
        talk(server)
    if log_format == "json":
        ended = [line for line in objects(server) if line.get("event") == "turn_ended"]
        assert ended[0]["transcript"] == f"{WORDS} hello"
        assert REPLY in ended[0]["reply"]
        assert any(WORDS in line.get("detail", "") for line in objects(server))
    else:
        assert f"transcript='{WORDS} hello'" in server.output
        assert REPLY in server.output
