"""What is read of an upload, and how long it may take: a body that hardly comes is refused before the minute ends."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.requests import Request

from server.devices.headers import Preferences, TurnHeaders
from server.devices.uploads import Decoder, Upload, UploadLimits
from server.errors import RequestError
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

LIMITS = UploadLimits(upload_bytes=10_000_000, upload_seconds=60, text_characters=100)


def upload(pieces, content_type=b"application/octet-stream"):
    """`pieces`: (seconds to wait, bytes), in order; then nothing more comes if the last is None."""
    left = list(pieces)

    async def receive():
        seconds, body = left.pop(0) if left else (1e6, b"")
        await asyncio.sleep(seconds)
        return {"type": "http.request", "body": body or b"", "more_body": body is not None}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", content_type)]}
    return Upload(Request(scope, receive), LIMITS, TurnHeaders("desk", None, None, Preferences()))


def outcome(pieces):
    """Seconds it took, and how many bytes came or the code of the refusal."""

    async def scenario():
        loop = asyncio.get_running_loop()
        try:
            found = len(await upload(pieces).read())
        except RequestError as error:
            found = error.code if error.retryable and "1024 bytes every 5 seconds" in error.hint else error
        return loop.time(), found

    return in_virtual_time(scenario())


END = (0.0, None)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(0.0, b"R")], (10, "body_timeout")),
        ([], (10, "body_timeout")),
        ([(1.0, b"R")] * 100, (10, "body_timeout")),
        ([(1.0, b"x" * 100)] * 100, (10, "body_timeout")),
        ([(0.0, b"x" * 100_000)], (10, "body_timeout")),
        ([(6.0, b"x" * 100_000)], (11, "body_timeout")),
        ([(0.5, b"x" * 2000)] * 200, (60, "body_timeout")),
        ([(9.0, b"R"), END], (9, 1)),
        ([(1.0, b"x" * 300)] * 40 + [END], (40, 12_000)),
        ([(4.9, b"x" * 1024)] * 12 + [END], (58.8, 12_288)),
        ([(0.0, b"x" * 100_000), END], (0, 100_000)),
    ],
    ids=[
        "one byte", "nothing", "a byte a second", "100 bytes a second", "a beginning", "a late beginning",
        "more than a minute", "late but whole", "slow but steady", "just fast enough", "at once",
    ],
)  # fmt: skip
def test_a_body_has_to_get_on(pieces, expected):
    seconds, found = outcome(pieces)
    assert (round(seconds, 3), found) == expected


def read_text(body):
    async def scenario():
        decoder = Decoder(LIMITS)
        try:
            return await upload([], b"application/json").turn_request(body, decoder)
        finally:
            decoder.close()

    return asyncio.run(scenario())


@pytest.mark.parametrize("length", [81, 1000, 100_000])
def test_a_long_key_is_not_repeated(length):
    with pytest.raises(RequestError) as caught:
        read_text(json.dumps({"text": "x", "k" * length: 1}).encode())
    assert caught.value.code == "body_invalid"
    assert caught.value.message.startswith("k" * 80 + "…: ")
    assert len(caught.value.message) < 150


def test_a_short_key_is_named():
    with pytest.raises(RequestError, match=r"^volume: Extra inputs"):
        read_text(b'{"text": "x", "volume": 1}')


@pytest.mark.parametrize(
    "text",
    [" ", "\n\t", "\u200b\u200d", "\u3164", "\u115f\u1160", "\u2800\u2800", "\uffa0", "\u034f", "\ufe0f", "\u3000"],
    ids=lambda text: text.encode("unicode_escape").decode(),
)
def test_a_text_that_shows_nothing_is_empty(text):
    with pytest.raises(RequestError) as caught:
        read_text(json.dumps({"text": text}).encode())
    assert caught.value.code == "text_empty"
    assert read_text(json.dumps({"text": f"{text}。"}).encode()).text == f"{text}。"
