"""What is told below an answer, and that a hostile server steers no terminal through any field."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from server.commands.answer_view import answer_view, waterfall
from server.commands.terminal import is_unprintable
from server.commands.turn_notes import MAX_WORDS_CHARACTERS, dropped_reason, notes, number, one_line, summary
from tests.commands.conftest import Cli
from tests.commands.turn_server import ANSWER, Reply, TurnServer, refusal

pytestmark = pytest.mark.integration

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202egpj.exe\u2066\u200b\u2028\x00\x7f\r\x08b"
TRACE: Mapping[str, Any] = {
    "spans": [
        {"name": "queued", "start_ms": 0, "end_ms": 100},
        {"name": "asr", "start_ms": 100, "end_ms": 500},
        {"name": "llm", "start_ms": 500, "end_ms": 900},
        {"name": "tool", "start_ms": 600, "end_ms": 700},
        {"name": "tts", "start_ms": 800, "end_ms": 1000},
    ],
    "marks": {"words_stored": 510, "first_token": 550, "first_clause": 790, "first_audio": 850, "done": 1000},
    "llm": {"calls": 2, "prompt_tokens": 3570, "cached_tokens": 3561, "completion_tokens": 31},
    "llm_retries": 1,
    "tool_errors": 1,
}


def drawn(answer: Any, trace: Any, *, columns: int = 100, unicode: bool = True) -> str:
    console = Console(file=io.StringIO(), width=columns, color_system=None)
    console.print(answer_view(answer, trace, columns=columns, unicode=unicode))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def steering(text: str) -> set[str]:
    return {character for character in text if character != "\n" and is_unprintable(character)}


def test_the_waterfall_shows_waiting_tools_and_every_moment() -> None:
    chart = waterfall({"latency_ms": {"total": 1000}}, TRACE)
    assert chart is not None
    assert [(bar.label, bar.pieces) for bar in chart.bars] == [
        ("queued (wait)", ((0, 100),)),
        ("asr (hear)", ((100, 500),)),
        ("llm (think)", ((500, 900),)),
        ("tool (look up)", ((600, 700),)),
        ("tts (speak)", ((800, 1000),)),
    ]
    assert chart.moments == (("words stored", 510), ("first token", 550), ("first clause", 790), ("first audio", 850))


def test_one_line_sums_the_turn_up() -> None:
    answer = {"memory": {"searched": True}}
    assert summary(answer, TRACE) == (
        "2 LLM calls · 3,570 prompt tokens (3,561 from the cache) · 31 written · 1 retry · searched memory · "
        "1 tool call failed"
    )
    once = {"llm": {"calls": 1, "prompt_tokens": 12, "cached_tokens": 0, "completion_tokens": 3}}
    assert summary({}, once) == "1 LLM call · 12 prompt tokens · 3 written"
    assert summary({}, {}) == summary({}, None) == ""


def test_what_was_odd_is_told() -> None:
    trace = {
        "answer_was_json": False,
        "unknown_ids": ["emotion:ecstatic", "action:fly"],
        "llm_error": "llm_cut",
        "apology": "clip",
    }
    assert notes({}, trace) == [
        "the model did not keep to the form asked for: its text was spoken as it is",
        "not in the persona, so replaced: emotion:ecstatic, action:fly",
        "the answer was cut off [llm_cut]",
        "the apology was a prepared recording",
    ]
    assert notes({}, {"answer_was_json": True, "unknown_ids": []}) == []


@pytest.mark.parametrize("reason", ["empty", "repetition", "hot_words", "too_fast", "stock_phrase"])
def test_why_nothing_was_taken_for_words_is_said(reason: str) -> None:
    told = dropped_reason({"asr_dropped": reason})
    assert "_" not in told
    assert len(told) > 20
    assert f"(no speech was heard: {told})" in drawn({"outcome": "no_speech"}, {"asr_dropped": reason}, columns=160)


def test_silence_has_no_reason() -> None:
    assert "(no speech was heard)" in drawn({"outcome": "no_speech"}, {})


def test_without_unicode_all_of_it_is_ascii() -> None:
    trace = {**TRACE, "unknown_ids": ["emotion:" + "x" * 500]}
    assert drawn({"memory": {"searched": True}}, trace, unicode=False).isascii()


@pytest.mark.parametrize("value", [True, "5", None, -1, 1e10, 10**400, float("nan"), float("inf"), [1]])
def test_numbers_that_no_turn_can_have_are_none(value: Any) -> None:
    assert number(value) is None


def test_words_beside_other_words_are_one_line_and_not_endless() -> None:
    assert one_line("a\nb\t c\x1bd") == "a b c d"
    assert len(one_line("x" * 10_000)) == MAX_WORDS_CHARACTERS + 1
    assert one_line(5) == ""


def test_spans_that_make_no_sense_are_left_out() -> None:
    spans = [
        {"name": "llm", "start_ms": 1e300, "end_ms": 1e-300},
        {"name": "llm", "start_ms": 50, "end_ms": 20},
        {"name": "asr", "start_ms": 0, "end_ms": 5e-324},
        {"name": "tts", "start_ms": 10**400, "end_ms": 10**401},
    ]
    assert "asr" in drawn({}, {"spans": spans})
    assert "llm" not in drawn({}, {"spans": spans})
    assert drawn({}, {"spans": [{"name": "tts", "start_ms": 0, "end_ms": 1}] * 200_000, "marks": 5, "llm": "x"})


def hostile_versions(value: Any) -> Iterator[Any]:
    """`value` with one of its fields replaced, each field in turn, by text, numbers and shapes it cannot have."""
    yield from (HOSTILE, 10**400, None, [HOSTILE], {HOSTILE: HOSTILE})
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from ({**value, name: bad} for bad in hostile_versions(inner))
    if isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], bad, *value[place + 1 :]] for bad in hostile_versions(inner))


def test_no_field_of_an_answer_or_a_trace_steers_the_terminal() -> None:
    full = {**ANSWER, "error": {"code": "tts_failed", "message": "m", "retryable": True}}
    odd = {**TRACE, "asr_dropped": "empty", "apology": "clip", "llm_error": "llm_cut", "unknown_ids": ["emotion:x"]}
    drawings = [drawn(answer, odd) for answer in hostile_versions(full) if isinstance(answer, Mapping)]
    drawings += [drawn(full, trace) for trace in hostile_versions(odd) if trace is None or isinstance(trace, Mapping)]
    drawings.append(drawn({"outcome": "no_speech"}, {"asr_dropped": HOSTILE}))
    assert len(drawings) > 200
    assert set().union(*map(steering, drawings)) == set()


def test_a_hostile_answer_is_shown_without_its_tricks(cli: Cli, data_dir: Path) -> None:
    words = dict.fromkeys(("session_id", "status", "transcript", "reply", "emotion", "action", "language"), HOSTILE)
    answer = {**ANSWER, **words, "error": {"code": HOSTILE, "message": f"{HOSTILE}\nYou  forged", "retryable": 1}}
    for url in ("/v1/turns/384/audio", f"/{HOSTILE}", f"//{HOSTILE}", HOSTILE):
        with TurnServer(Reply(200, {**answer, "audio": {"url": url}})) as server:
            server.trace = {**TRACE, "unknown_ids": [HOSTILE], "llm_error": HOSTILE, "apology": HOSTILE}
            server.announce(data_dir)
            done = cli("talk", "hi")
            as_json = cli("talk", "hi", "--json")
        for text in (done.out, done.err, as_json.out, as_json.err):
            assert steering(text) == set()
            assert not any(line.startswith("You  forged") for line in text.splitlines())
        assert json.loads(as_json.out)["reply"] == HOSTILE
        assert "Traceback" not in done.err


@pytest.mark.parametrize("turn_id", ["../../etc/passwd", f"1\r\nX: {HOSTILE}", -1, 0, 2**63, True, None, 1.5, [], {}])
def test_an_answer_with_an_impossible_number_is_none_of_ours(cli: Cli, data_dir: Path, turn_id: Any) -> None:
    with TurnServer(Reply(200, {**ANSWER, "turn_id": turn_id})) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")
    assert done.code == 4
    assert "not as a StackChan server does" in done.err


def test_a_hostile_refusal_is_shown_on_lines_of_its_own(cli: Cli, data_dir: Path) -> None:
    reply = refusal(409, HOSTILE, f"{HOSTILE}\n✗ forged", hint=f"{HOSTILE}\n→ forged")
    with TurnServer(reply) as server:
        server.announce(data_dir)
        done, as_json = cli("talk", "hi"), cli("talk", "hi", "--json")
    for text in (done.out, done.err, as_json.out, as_json.err):
        assert steering(text) == set()
    assert len(done.err.splitlines()) == 2
    assert json.loads(as_json.out) == reply.body


def test_a_hostile_reason_for_a_failed_start_is_harmless_too(cli: Cli, data_dir: Path) -> None:
    starting = refusal(503, "starting", "loading", Retry_After="0")
    ready = {"status": "failed", "error": {"code": HOSTILE, "message": HOSTILE}}
    with TurnServer(starting, ready=ready) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")
    assert done.code == 1
    assert steering(done.out + done.err) == set()


@pytest.mark.parametrize(
    "body", [b'{"turn_id":' * 50_000, b"[" * 200_000, b"\xff\xfe{}", b'{"turn_id": 1' + b"0" * 9000]
)
def test_json_that_cannot_be_read_is_no_crash(cli: Cli, data_dir: Path, body: bytes) -> None:
    with TurnServer(Reply(200, body)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")
    assert done.code == 4
    assert "Traceback" not in done.err


def test_an_answer_that_cannot_be_unpacked_is_no_crash(cli: Cli, data_dir: Path) -> None:
    with TurnServer(Reply(200, b"not gzip", {"Content-Encoding": "gzip"})) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")
    assert done.code == 1
    assert "connection_lost" in done.err
    assert "Traceback" not in done.err
