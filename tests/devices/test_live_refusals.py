"""Devices that may not come in, break the rules, or come when there is no place: each is told why, then hung up on."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlmodel import select
from websockets.exceptions import ConnectionClosed, InvalidStatus

from server.api.problems import problem
from server.devices.endpoint import not_ready
from server.devices.live_endpoint import live_router
from server.devices.wire import AudioFrame, DeviceError, Ping, Pong, Transcript, TurnAnswer
from server.storage import tokens
from server.storage.server_tables import TokenRow
from tests.devices.conftest import TOKEN, eventually
from tests.devices.live_robots import HELLO, answered, ask, end_of, live_server, raw, robot, serving, tone
from tests.fakes.engines import FakeLlm, silence
from tests.pipeline.turns import NOW

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("header", "hello", "code"),
    [
        ("wrong", None, "token_invalid"),
        (None, "wrong", "token_invalid"),
        ("wrong", TOKEN, "token_invalid"),
        (None, None, "token_missing"),
    ],
)
async def test_a_wrong_token(tmp_path: Path, header: str | None, hello: str | None, code: str) -> None:
    async with live_server(tmp_path) as live, raw(live.url, header) as connection:
        await connection.send(json.dumps({**HELLO, **({"token": hello} if hello else {})}))
        assert await end_of(connection) == (1008, [code])


async def test_a_page_says_its_token_in_hello(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, raw(live.url, None, Origin=live.url) as connection:
        await connection.send(json.dumps({**HELLO, "token": TOKEN}))
        assert json.loads(await connection.recv())["type"] == "hello"


async def test_a_page_from_elsewhere_is_not_even_connected(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live:
        for origin in ("https://example.org", "null", "http://[::1", live.url.replace("http", "https") + "0"):
            with pytest.raises(InvalidStatus) as refused:
                async with raw(live.url, Origin=origin):
                    pass
            response = refused.value.response
            assert response.status_code in (401, 403)
            assert json.loads(response.body or b"")["error"]["code"] == "origin_forbidden"


async def test_a_devices_token_is_good_for_that_device_only(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live:
        await live.client.post("/v1/turns", json={"text": "おはよう"})
        databases = live.app.state.service.journal._databases
        async with databases.server() as db:
            token = await tokens.create_token(db, kind="device", device_id="desk", now=NOW)
        async with robot(live, "desk", token=token) as desk:
            assert desk.hello is not None
        async with raw(live.url, token) as connection:
            await connection.send(json.dumps({**HELLO, "device_id": "shelf"}))
            assert await end_of(connection) == (1008, ["device_forbidden"])


@pytest.mark.parametrize("with_word", ["speech", "ping"])
async def test_a_token_that_is_taken_back_is_void_at_once_for_whoever_is_connected(
    tmp_path: Path, with_word: str
) -> None:
    async with live_server(tmp_path) as live:
        await live.client.post("/v1/turns", json={"text": "おはよう"})
        databases = live.app.state.service.journal._databases
        async with databases.server() as db:
            token = await tokens.create_token(db, kind="device", device_id="desk", now=NOW)
        async with robot(live, "desk", token=token) as desk:
            await desk.listen("auto")
            await desk.be_quiet(0.1)
            async with databases.server() as db:
                row = (await db.exec(select(TokenRow).where(TokenRow.kind == "device"))).one()
                row.revoked_at = NOW
                db.add(row)
            if with_word == "ping":
                await desk.send(Ping())
            else:
                with contextlib.suppress(ConnectionClosed):
                    await desk.say(tone(0.6))
                    await desk.be_quiet(5)
            await eventually(lambda: desk.close_code is not None)
            assert desk.close_code == 1008
            assert [error.code for error in desk.messages(DeviceError)] == ["token_invalid"]
            assert not desk.messages(Transcript)
            assert not desk.messages(TurnAnswer)
        assert (await live.client.get("/v1/turns/2")).status_code == 404


def door(hello_seconds: float = 0.1, silent_seconds: float = 0.1) -> FastAPI:
    """Only the endpoint, of a server that is still starting."""

    def starting() -> Any:
        raise not_ready(None)

    app = FastAPI()
    app.include_router(live_router(starting, problem, hello_seconds=hello_seconds, silent_seconds=silent_seconds))
    return app


async def test_who_says_nothing_is_not_waited_for() -> None:
    async with serving(door()) as url, raw(url) as connection:
        assert await end_of(connection) == (1008, ["hello_expected"])


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ('{"type":"ping"}', "hello_expected"),
        (b"\0" * 640, "hello_expected"),
        ('{"type":"anything"}', "hello_expected"),
        ("{", "json_invalid"),
        (json.dumps({**HELLO, "protocol": 2}), "protocol_unsupported"),
        (json.dumps({**HELLO, "device_id": "a b"}), "device_id_invalid"),
        (json.dumps({**HELLO, "session_id": "あ"}), "session_id_invalid"),
        (json.dumps({**HELLO, "firmware": 1}), "field_invalid"),
        (json.dumps({**HELLO, "audio": None}), "field_missing"),
        (json.dumps({**HELLO, "audio": {"format": "mp3", "sample_rate": 16000, "frame_ms": 20}}), "audio_unsupported"),
    ],
)
async def test_the_first_message_is_hello(frame: str | bytes, code: str) -> None:
    async with serving(door(hello_seconds=5)) as url, raw(url) as connection:
        await connection.send(frame)
        assert await end_of(connection) == (1008, [code])


async def test_a_server_that_is_not_ready_says_when_to_come_back() -> None:
    async with serving(door(hello_seconds=5)) as url, raw(url) as connection:
        await connection.send(json.dumps(HELLO))
        assert await end_of(connection) == (1013, ["starting"])


async def test_a_device_that_is_silent_for_too_long_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with live_server(tmp_path) as live:
        app = FastAPI()
        app.include_router(live_router(lambda: live.app.state.live, problem, silent_seconds=0.2))
        async with serving(app) as url, raw(url) as connection:
            await connection.send(json.dumps(HELLO))
            assert await end_of(connection) == (1001, [])
        assert live.app.state.live.devices.connected == 0
    assert "defect" not in caplog.text


async def test_ten_messages_that_cannot_be_understood_are_the_end(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, raw(live.url) as connection:
        await connection.send(json.dumps(HELLO))
        for frame in ["{", '{"type":"listen"}', "[]", '"', '{"type":7}'] * 2:
            await connection.send(frame)
        code, errors = await end_of(connection)
        assert code == 1008
        assert (len(errors), errors[-1]) == (11, "too_many_bad_messages")
        assert errors[0] == "json_invalid"


async def test_a_hello_that_is_said_again_and_again_is_no_message_and_the_end(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, raw(live.url) as connection:
        for _ in range(11):
            await connection.send(json.dumps(HELLO))
        assert await end_of(connection) == (1008, ["hello_repeated"] * 10 + ["too_many_bad_messages"])


async def test_what_the_server_does_not_know_is_passed_over_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.devices")
    async with live_server(tmp_path) as live:
        async with raw(live.url) as connection:
            await connection.send(json.dumps({**HELLO, "colour": "red"}))
            for message in ({"type": "dance"}, {"type": "sing", "song": "さくら"}, {"type": "ping", "at": 1, "to": 2}):
                await connection.send(json.dumps(message))
            while json.loads(await connection.recv())["type"] != "pong":
                pass
        registry = live.app.state.metrics.registry

        def counted(kind: str) -> float | None:
            found: float | None = registry.get_sample_value("stackchan_device_unknown_total", {"kind": kind})
            return found

        await eventually(lambda: (counted("type"), counted("field")) == (2, 3))
    told = [record.getMessage() for record in caplog.records if "not known here" in record.getMessage()]
    assert told == ["device raw sent 2 messages and 3 fields that are not known here"]


async def test_sound_that_is_none_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    hello = {**HELLO, "audio": {"format": "opus", "sample_rate": 16000, "frame_ms": 20}}
    async with live_server(tmp_path) as live, raw(live.url) as connection:
        await connection.send(json.dumps(hello))
        await connection.send('{"type":"listen","state":"start","mode":"auto"}')
        for _ in range(30):
            await connection.send(b"\xff" * 40)
        await connection.send('{"type":"ping"}')
        got = []
        while not got or got[-1]["type"] != "pong":
            got.append(json.loads(await connection.recv()))
        assert [message["code"] for message in got if message["type"] == "error"] == ["audio_invalid"]


@pytest.mark.parametrize("frame", ["x" * 16_385, b"\0" * 16_386])
async def test_a_frame_that_is_too_large(tmp_path: Path, frame: str | bytes) -> None:
    async with live_server(tmp_path) as live, raw(live.url) as connection:
        await connection.send(json.dumps(HELLO))
        await connection.recv()
        await connection.send(frame)
        assert await end_of(connection) == (1009, ["message_too_large"])


async def test_a_frame_that_is_much_too_large_is_not_read(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, raw(live.url) as connection:
        await connection.send(json.dumps(HELLO))
        await connection.recv()
        await connection.send(b"\0" * 1_000_000)
        assert await end_of(connection) == (1009, [])
        await eventually(lambda: live.app.state.live.devices.connected == 0)


async def test_sound_faster_than_any_microphone(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        frame = (silence(0.12) * 32767).astype("<i2").tobytes()
        with contextlib.suppress(ConnectionClosed):
            for _ in range(200):  # 24 seconds
                await desk.send(AudioFrame(frame))
        with pytest.raises(ConnectionError):
            await desk.wait_for(Pong, 10)
        assert desk.close_code == 1008
        assert [message.code for message in desk.messages(DeviceError)] == ["audio_too_fast"]


async def test_the_same_device_again_replaces_the_first(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as first, robot(live) as second:
        with pytest.raises(ConnectionError):
            await first.wait_for(Pong, 5)
        assert first.close_code == 4000
        await second.listen("auto")
        await ask(second)
        await answered(second)
        assert live.app.state.live.devices.connected == 1


async def test_of_many_connections_of_one_device_at_once_one_remains(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live:
        robots = [robot(live) for _ in range(8)]
        met = await asyncio.gather(*(each.connect() for each in robots), return_exceptions=True)
        assert all(not isinstance(hello, Exception) or isinstance(hello, ConnectionError) for hello in met)
        await eventually(lambda: sum(each.close_code is None for each in robots) == 1)
        assert {each.close_code for each in robots} == {None, 4000}
        (left,) = (each for each in robots if each.close_code is None)
        await left.send(Ping())
        await left.wait_for(Pong, 5)
        for each in robots:
            await each.disconnect()
        await eventually(lambda: not live.app.state.live.devices._devices)
        assert live.app.state.live.devices._doors == {}


async def test_there_are_only_so_many_places(tmp_path: Path) -> None:
    async with live_server(tmp_path, env={"STACKCHAN_LIVE__MOST_DEVICES": "2"}) as live, robot(live, "one"):
        async with robot(live, "two"), raw(live.url) as third:
            await third.send(json.dumps({**HELLO, "device_id": "three"}))
            assert await end_of(third) == (1013, ["overloaded"])
            async with robot(live, "one") as again:  # has its place
                assert again.hello is not None
        await eventually(lambda: live.app.state.live.devices.connected == 0)
        async with robot(live, "three") as three:
            assert three.hello is not None


async def test_at_once_no_more_come_in_than_there_are_places(tmp_path: Path) -> None:
    async with live_server(tmp_path, env={"STACKCHAN_LIVE__MOST_DEVICES": "3"}) as live:
        robots = [robot(live, f"robot-{number}") for number in range(10)]
        met = await asyncio.gather(*(each.connect() for each in robots), return_exceptions=True)
        assert sum(isinstance(hello, ConnectionError) for hello in met) == 7
        assert live.app.state.live.devices.connected == 3
        for each in robots:
            await each.disconnect()


async def test_a_server_that_stops_says_goodbye_and_keeps_the_words(tmp_path: Path) -> None:
    slow = FakeLlm(scripts=[[0.3, *FakeLlm().scripts[0]]])
    async with live_server(tmp_path, llm=slow) as live, robot(live, "idle") as idle, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        live.app.state.begin_stop(False)
        leaving = asyncio.create_task(live.app.state.hang_up())
        for each in (idle, desk):
            with pytest.raises(ConnectionError):
                await each.wait_for(Pong, 5)
            assert each.close_code == 1001
        await leaving
        with pytest.raises(ConnectionError):
            await robot(live, "late").connect()
    async with live_server(tmp_path) as live:
        stored = (await live.client.get("/v1/turns/1")).json()
        assert (stored["status"], stored["transcript"]) == ("done", "こんにちは")


async def test_an_ordinary_request_to_the_endpoint_is_answered(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live:
        response: httpx2.Response = await live.client.get("/v1/device")
        assert response.status_code in (404, 405, 426)
