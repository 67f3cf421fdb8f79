"""What the headers of a turn may say, without a server."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from server.devices.auth import Caller
from server.devices.headers import Preferences, preferences_of, turn_headers
from server.errors import RequestError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Preferences()),
        (["respond-async"], Preferences(True)),
        (["Respond-Async"], Preferences(True)),
        (["respond-async, wait=10"], Preferences(True, 10)),
        (["respond-async", "wait=10"], Preferences(True, 10)),
        (["respond-async;foo=bar , wait = 10"], Preferences(True, 10)),
        (['wait="7"'], Preferences(False, 7)),
        (["wait=0"], Preferences(False, 0)),
        (["wait=31"], Preferences(False, 30)),
        (["wait=999999999"], Preferences(False, 30)),
        (["wait=5, wait=9"], Preferences(False, 5)),
        (["wait=" + "9" * 5000], Preferences()),
        (["wait=-1"], Preferences()),
        (["wait=1.5"], Preferences()),
        (["wait=٣"], Preferences()),
        (["wait"], Preferences()),
        (["return=minimal, handling=strict"], Preferences()),
        (["", ",,;=,"], Preferences()),
        (['x="a, respond-async"'], Preferences()),
        (['x="a, wait=3", respond-async'], Preferences(True)),
        (['x="a\\", wait=3", respond-async'], Preferences(True)),
        (['respond-async; x="a, b; wait=3", wait=4'], Preferences(True, 4)),
        (['x="a;b", wait=4'], Preferences(False, 4)),
        (['x="never closed, respond-async'], Preferences()),
        (['x="never closed', "respond-async"], Preferences(True)),
        (['respond-async=""'], Preferences(True)),
        (['wait="\\7"'], Preferences(False, 7)),
        (['"' * 7001], Preferences()),
        (['x="' + "\\" * 7000], Preferences()),
    ],
)
def test_a_preference_is_read_or_passed_over(values, expected):
    assert preferences_of(values) == expected


@pytest.mark.parametrize(
    ("preferences", "text"),
    [
        (Preferences(), ""),
        (Preferences(True), "respond-async"),
        (Preferences(True, 10), "respond-async, wait=10"),
        (Preferences(False, 30), "wait=30"),
    ],
)
def test_what_was_applied_is_named(preferences, text):
    assert preferences.applied() == text


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é", "a\x7f", "\t"])
def test_a_bad_key_is_named(key):
    headers = Headers(raw=[(b"device-id", b"desk"), (b"idempotency-key", key.encode("latin-1"))])
    with pytest.raises(RequestError) as caught:
        turn_headers(headers, Caller(None))
    assert caught.value.code == "idempotency_key_invalid"


@pytest.mark.parametrize("key", ["k", "x" * 255, '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "!~"])
def test_a_key_is_any_visible_ascii(key):
    headers = Headers(raw=[(b"device-id", b"desk"), (b"idempotency-key", key.encode())])
    assert turn_headers(headers, Caller(None)).idempotency_key == key


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"device-id", "device_id_invalid"),
        (b"session-id", "session_id_invalid"),
        (b"idempotency-key", "idempotency_key_invalid"),
    ],
)
def test_a_header_sent_twice_is_refused_even_when_both_are_the_same(name, code):
    raw = [(b"device-id", b"desk"), (name, b"one"), (name, b"one")]
    raw = raw[1:] if name == b"device-id" else raw
    with pytest.raises(RequestError) as caught:
        turn_headers(Headers(raw=raw), Caller(None))
    assert caught.value.code == code
