"""Every failure of an endpoint has one code, says whether a retry may help, and repeats no secret."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime

import httpx2
import pytest

from server.config import load_settings
from server.engines.llm.openai_errors import (
    model_missing,
    names_missing_model,
    refused_field,
    retry_after_seconds,
    status_error,
    stream_error,
    transport_error,
)
from server.engines.llm.presets import resolve_endpoint

pytestmark = pytest.mark.unit

KEY = "sk-very-secret"
ENDPOINT = resolve_endpoint(
    load_settings({}, llm={"preset": "ollama", "base_url": "http://u:pw-secret@box:1/v1", "api_key": KEY}).llm
)


def body(message="no", **fields):
    return json.dumps({"error": {"message": message, **fields}}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("status", "text", "code", "retryable"),
    [
        (400, body("bad"), "llm_refused", False),
        (400, body("This model's maximum context length is 8192 tokens."), "llm_context_overflow", False),
        (400, body("too big", type="exceed_context_size_error"), "llm_context_overflow", False),
        (400, body("Range of input length should be [1, 30720]"), "llm_context_overflow", False),
        (400, body("the request exceeds the available context size"), "llm_context_overflow", False),
        (413, "", "llm_context_overflow", False),
        (422, "[]", "llm_refused", False),
        (401, body("Incorrect API key"), "llm_unauthorized", False),
        (403, body(), "llm_unauthorized", False),
        (404, body("model 'x' not found"), "llm_refused", False),
        (408, "", "llm_timeout", True),
        (409, "", "llm_failed", True),
        (418, "", "llm_refused", False),
        (429, body("slow down"), "llm_rate_limited", True),
        (429, body("quota", code="insufficient_quota"), "llm_rate_limited", False),
        (500, body(), "llm_failed", True),
        (500, body("context size exceeded", code=500), "llm_context_overflow", False),
        (502, "<html>", "llm_overloaded", True),
        (503, body("Loading model"), "llm_overloaded", True),
        (504, "", "llm_overloaded", True),
        (529, body("Overloaded"), "llm_overloaded", True),
        (302, "", "llm_refused", False),
    ],
)
def test_a_status_has_one_code(status, text, code, retryable):
    error = status_error(status, {}, text, ENDPOINT)
    assert (error.code, error.retryable) == (code, retryable)
    assert "box:1/v1" in error.message


@pytest.mark.parametrize("status", [429, 500, 503])
def test_how_long_to_wait_is_told(status):
    assert status_error(status, httpx2.Headers({"Retry-After": "7"}), "", ENDPOINT).retry_after_seconds == 7
    assert status_error(status, {}, "", ENDPOINT).retry_after_seconds is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        (" 12 ", 12.0),
        ("-4", 0.0),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("Mon, 30 Nov 2026 12:00:30 -0000", 30.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1e400", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", None),
        ("Mon, 01 Jan 999999999999999 00:00:00 GMT", None),
        ("Mon, 99 Foo 2024 99:99:99 +9999", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        (",", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert retry_after_seconds({"retry-after": value}, datetime(2026, 11, 30, 12, tzinfo=UTC)) == seconds


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "retryable", "hint"),
    [
        (httpx2.ConnectError("All connection attempts failed"), "llm_unreachable", True, "ollama serve"),
        (httpx2.ConnectError("[Errno -2] Name or service not known"), "llm_unreachable", True, "name"),
        (httpx2.ConnectError("[Errno 8] nodename nor servname provided"), "llm_unreachable", True, "name"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] no"), "llm_unreachable", False, "certificate"),
        (caused(httpx2.ConnectError(""), ssl.SSLError("wrong version")), "llm_unreachable", False, "http or https"),
        (httpx2.ConnectTimeout(""), "llm_unreachable", True, "ollama serve"),
        (httpx2.ReadTimeout(""), "llm_timeout", True, None),
        (httpx2.WriteTimeout(""), "llm_timeout", True, None),
        (httpx2.ReadError(""), "llm_cut", True, None),
        (httpx2.RemoteProtocolError("peer closed connection"), "llm_cut", True, None),
        (httpx2.ProxyError("407"), "llm_unreachable", True, "NO_PROXY"),
        (caused(Exception("Connection error."), httpx2.ReadError("")), "llm_cut", True, None),
        (ValueError("odd"), "llm_failed", False, None),
    ],
)
def test_a_transport_error_has_one_code(error, code, retryable, hint):
    found = transport_error(error, ENDPOINT)
    assert (found.code, found.retryable) == (code, retryable)
    assert (hint in (found.hint or "")) if hint else found.hint is None


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"message": "died", "code": 500}, "llm_failed", True),
        ({"message": "died", "type": "server_error"}, "llm_failed", True),
        ({"message": "slow", "code": "429"}, "llm_rate_limited", True),
        ({"message": "Rate limit reached", "type": "rate_limit_error"}, "llm_rate_limited", True),
        ({"message": "busy", "type": "overloaded_error"}, "llm_overloaded", True),
        ({"message": "key", "code": 401}, "llm_unauthorized", False),
        ({"message": "no", "code": 400, "type": "exceed_context_size_error"}, "llm_context_overflow", False),
        ("died", "llm_failed", True),
        (None, "llm_failed", True),
        ({"code": True}, "llm_failed", True),
    ],
)
def test_an_error_in_the_stream_has_one_code(error, code, retryable):
    found = stream_error(error, ENDPOINT)
    assert (found.code, found.retryable) == (code, retryable)


def test_a_providers_words_are_shown_without_secrets_and_without_what_was_said():
    said = "妻には\nないしょ"
    text = body(
        f"Incorrect key {KEY} and pw-secret; input was {json.dumps(said)} or {said!r} [type=x, input_value='{said}'"
    )
    error = status_error(401, {}, text, ENDPOINT, private=[said])
    assert "It says: Incorrect key *** and ***" in error.message
    for hidden in (KEY, "pw-secret", "ないしょ", json.dumps("ないしょ")[1:-1]):
        assert hidden not in str(error)
    assert "u:" not in str(error)


def test_a_providers_page_is_not_shown():
    assert "html" not in str(status_error(500, {}, "<html><body>oops</body></html>", ENDPOINT))


def test_a_validators_echo_of_the_request_is_not_shown():
    detail = "[{'type': 'missing', 'loc': ('body', 'model'), 'input': {'messages': 'ひみつ'}}]"
    assert "ひみつ" not in str(status_error(400, {}, body(detail), ENDPOINT))


def test_a_long_message_is_cut():
    assert len(status_error(500, {}, body("x" * 5000), ENDPOINT).message) < 300


@pytest.mark.parametrize("text", ["", "null", "[]", "[[]]", '{"error":3}', '{"detail":"no"}', '"x"', "{", "\x00"])
def test_any_body_is_survived(text):
    assert status_error(400, {}, text, ENDPOINT).code == "llm_refused"


@pytest.mark.parametrize(
    ("status", "text", "hint"),
    [
        (404, '{"detail":"Not Found"}', "/v1"),
        (405, "", "/v1"),
        (
            400,
            body('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
            "written",
        ),
        (400, body("library/gemma does not support tools"), "written"),
        (401, body(), "STACKCHAN_LLM__API_KEY"),
        (400, body("maximum context length"), "llm.context_tokens"),
    ],
)
def test_what_to_do_next(status, text, hint):
    assert hint in (status_error(status, {}, text, ENDPOINT).hint or "")


@pytest.mark.parametrize(
    ("status", "text", "missing"),
    [
        (404, body("The model `x` does not exist", code="model_not_found"), True),
        (404, body('model "x" not found, try pulling it first'), True),
        (400, body("Invalid model id"), True),
        (404, '{"detail":"Not Found"}', False),
        (500, body("model not found"), False),
    ],
)
def test_a_missing_model_is_recognised(status, text, missing):
    assert names_missing_model(status, text) is missing


def test_a_missing_model_names_those_there_are():
    error = model_missing(status_error(404, {}, body(), ENDPOINT), "x", [f"m{number}" for number in range(20)])
    assert "m0, m1" in (error.hint or "")
    assert "and 12 more" in (error.hint or "")
    assert "STACKCHAN_LLM__MODEL" in (model_missing(error, "x", []).hint or "")


FIELDS = ["stream_options", "seed", "temperature", "enable_thinking", "max_tokens"]


@pytest.mark.parametrize(
    ("status", "text", "field"),
    [
        (400, body("Unrecognized request argument supplied: stream_options"), "stream_options"),
        (400, body("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."), "max_tokens"),
        (400, body("Unsupported value: 'temperature' does not support 0.0 with this model."), "temperature"),
        (400, body("Unknown parameter: 'seed'."), "seed"),
        (400, body("create() got an unexpected keyword argument 'seed'"), "seed"),
        (400, body("Additional properties are not allowed ('seed' was unexpected)"), "seed"),
        (400, body("parameter.enable_thinking must be set to false for this call"), "enable_thinking"),
        (400, body("The model does not support the parameter `seed`"), "seed"),
        (400, body("stream_options is not supported"), "stream_options"),
        (400, "unknown field: seed", "seed"),
        (422, body("seed: extra fields not permitted"), "seed"),
        (422, json.dumps({"detail": [{"loc": ["body", "seed"], "msg": "no", "input": "x"}]}), "seed"),
        (400, body("bad", param="seed"), "seed"),
        (400, body("bad", param="body.seed"), "seed"),
        (400, body("maximum context length; reduce seed"), None),
        (400, body("seeds are not supported"), None),
        (400, body("content filter: 'what is the temperature and the seed today'"), None),
        (400, body("max_tokens is too large: 900. This model supports at most 512."), None),
        (400, body("max_tokens must be at least 16"), None),
        (400, body("Unsupported parameter: 'max_completion_tokens'"), None),
        (400, body("bad", param={"seed": 1}), None),
        (400, "[" * 100_000, None),
        (500, body("unknown parameter: seed"), None),
    ],
)
def test_a_refused_field_is_recognised(status, text, field):
    assert refused_field(status, text, FIELDS) == field


@pytest.mark.parametrize("said", ["unknown parameter: seed", "the temperature is not supported"])
def test_no_field_is_refused_by_words_that_were_said(said):
    for message in (f"blocked: {said}", f"blocked: {json.dumps(said)}", f"blocked: {said!r}"):
        assert refused_field(400, body(message), FIELDS, private=[said]) is None


def test_what_was_said_is_no_reason_of_the_endpoints():
    said = "how long is your context length?"
    error = status_error(400, {}, body(f"blocked: {said}"), ENDPOINT, private=[said])
    assert (error.code, said in str(error)) == ("llm_refused", False)


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"error":' * 5000,
        '{"error":{"message":' + "[" * 900 + "]" * 900 + "}}",
        '{"error":{"code":' + "9" * 4000 + ',"message":{"a":1},"type":[1],"param":true}}',
        '{"error":{"code":' + "9" * 9000 + "}}",
        '{"detail":[1,{"loc":[[1]],"msg":{}},{"loc":[]}]}',
        "[" * 500 + "]" * 500,
        "\ud800\udfff",
    ],
)
def test_any_odd_body_keeps_the_code_of_its_status(status, text):
    known = {400: "llm_refused", 401: "llm_unauthorized", 404: "llm_refused", 422: "llm_refused"}
    known |= {429: "llm_rate_limited", 500: "llm_failed", 503: "llm_overloaded"}
    assert status_error(status, {}, text, ENDPOINT).code == known[status]
    assert names_missing_model(status, text) is False


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("error", [nested(900), {"message": nested(900)}, {"code": nested(900)}, {"code": 10**5000}])
def test_an_odd_error_in_the_stream_is_a_failure(error):
    assert stream_error(error, ENDPOINT).code == "llm_failed"
