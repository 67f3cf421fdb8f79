"""Who may ask for a turn, and what bad input is told."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tests.devices.conftest import TOKEN, code

pytestmark = pytest.mark.integration

WAV = {"Content-Type": "audio/wav"}


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, (401, "token_missing")),
        ("", (401, "token_missing")),
        ("Bearer", (401, "token_missing")),
        ("Bearer wrong", (401, "token_invalid")),
        (f"Basic {TOKEN}", (401, "token_invalid")),
        (f"Bearer {TOKEN}x", (401, "token_invalid")),
        ("Bearer トークン".encode(), (401, "token_invalid")),
    ],
)
async def test_without_the_right_token_nothing_is_answered(serve, authorization, expected):
    async with serve() as live, httpx2.AsyncClient(base_url=live.url) as stranger:
        headers = {"Device-Id": "desk"} | ({"Authorization": authorization} if authorization is not None else {})
        for request in (
            stranger.build_request("POST", "/v1/turns", json={"text": "hi"}, headers=headers),
            stranger.build_request("GET", "/v1/turns/1", headers=headers),
            stranger.build_request("GET", "/v1/turns/1/audio", headers=headers),
            stranger.build_request("GET", "/v1/turns/1/trace", headers=headers),
        ):
            response = await stranger.send(request)
            assert code(response) == expected
            assert response.headers["www-authenticate"] == "Bearer"
    assert live.engines.llm.requests == []


@pytest.mark.parametrize("device", ["", "a b", "x" * 65, "ロボット".encode(), "../etc"])
async def test_a_bad_device_id_is_named(serve, device):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers={"Device-Id": device})
    assert code(response) == (400, "device_id_invalid")


async def test_a_missing_device_id_is_named(serve):
    async with serve() as live, httpx2.AsyncClient(base_url=live.url) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = await client.post("/v1/turns", json={"text": "hi"}, headers=headers)
    assert code(response) == (400, "device_id_missing")


@pytest.mark.parametrize("label", ["", "a b", "x" * 129])
async def test_a_bad_session_label_is_named(serve, label):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers={"Session-Id": label})
    assert code(response) == (400, "session_id_invalid")


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"not audio at all", "audio/wav", (422, "audio_invalid")),
        (b"RIFF", "audio/wav", (422, "audio_invalid")),
        (b"", "audio/wav", (422, "audio_empty")),
        (b"", "audio/pcm;rate=16000", (422, "audio_empty")),
        (b"\x00" * 320, "audio/pcm;rate=banana", (415, "audio_unsupported")),
        (b"\x00" * 320, "video/mp4", (415, "body_unsupported")),
        (b"<html></html>", "text/html", (415, "body_unsupported")),
        (b"{", "application/json", (422, "body_invalid")),
        (b"[]", "application/json", (422, "body_invalid")),
        (b'{"text": 5}', "application/json", (422, "body_invalid")),
        (b'{"text": "hi", "extra": 1}', "application/json", (422, "body_invalid")),
        (b'{"text": "  "}', "application/json", (422, "text_empty")),
        (json.dumps({"text": "あ" * 1001}).encode(), "application/json", (413, "text_too_long")),
        (b"\x00\x01" * 16_000 * 61, "audio/pcm;rate=16000", (413, "audio_too_long")),
        (b"\x00" * (4 * 1024**2 + 1), "audio/pcm;rate=48000", (413, "audio_too_large")),
    ],
)
async def test_bad_input_gets_a_code_and_no_turn(serve, body, content_type, expected):
    async with serve() as live:
        response = await live.client.post("/v1/turns", content=body, headers={"Content-Type": content_type})
        good = await live.client.post("/v1/turns", json={"text": "hi"})
    assert code(response) == expected
    assert good.status_code == 200
    assert len(live.engines.llm.requests) == 1


async def test_a_body_without_length_is_cut_at_the_limit(serve):
    async def endless():
        for _ in range(200):
            yield b"\x00" * 65_536

    async with serve() as live:
        response = await live.client.post("/v1/turns", content=endless(), headers={"Content-Type": "audio/wav"})
    assert code(response) == (413, "audio_too_large")


@pytest.mark.parametrize("turn_id", ["999", "0", "-1", str(2**63), str(10**40)])
async def test_an_unknown_turn_is_404(serve, turn_id):
    async with serve() as live:
        for tail in ("", "/audio", "/trace"):
            response = await live.client.get(f"/v1/turns/{turn_id}{tail}")
            assert code(response) == (404, "turn_not_found")


async def test_a_turn_number_that_is_no_number(serve):
    async with serve() as live:
        assert code(await live.client.get("/v1/turns/abc")) == (422, "body_invalid")


@pytest.mark.parametrize(
    "text", ["😀👨‍👩‍👧", "\u202eabc", "a\x00b", "é" * 500, "', DROP TABLE turns; --", "\u3000あ\u3000"]
)
async def test_odd_text_is_kept_as_it_was(serve, text):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": text})
        again = await live.client.get(f"/v1/turns/{response.json()['turn_id']}")
    assert response.status_code == 200
    assert again.json()["transcript"] == response.json()["transcript"]
    assert response.json()["transcript"].replace("\x00", "") == text.strip().replace("\x00", "")


async def test_a_lone_surrogate_is_no_crash(serve):
    async with serve() as live:
        body = b'{"text": "a\\ud800b"}'
        response = await live.client.post("/v1/turns", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 422)
    assert "internal" not in response.text


@pytest.mark.parametrize("text", ["\u200b\u200d\ufeff", "\x00", "\u3000 \t", "\u202e"])
async def test_text_without_anything_to_hear_is_empty(serve, text):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": text})
    assert code(response) == (422, "text_empty")
    assert live.engines.llm.requests == []


async def test_a_body_that_breaks_off_is_no_defect(serve, caplog):
    async with serve() as live:
        host, port = live.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nDevice-Id: desk\r\n"
        writer.write(f"{head}Content-Type: audio/wav\r\nContent-Length: 1000\r\n\r\nRIFF".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        good = await live.client.post("/v1/turns", json={"text": "hi"})
    assert good.status_code == 200
    assert not [record for record in caplog.records if record.exc_info]
