"""Every engine that is a server against every bad moment a server has: the right result, or one code in bounded time.

After each, nothing is left: no connection, no task; and the key is in no log, error or `repr`.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from server.errors import EngineError
from tests.fakes.engine_servers import WAV
from tests.fakes.http_replies import (
    broken_off,
    endless,
    fail,
    html,
    hung_up,
    in_pieces,
    late,
    never,
    raw_answer,
    then_close,
    until_the_end,
)
from tests.fakes.http_server import Behaviour, HttpServer, running
from tests.fakes.server_subjects import (
    HTML_TYPE,
    JSON_TYPE,
    KEY,
    SHORT_SECONDS,
    SUBJECTS,
    TIMEOUT_SECONDS,
    Subject,
    ask,
    build,
    is_good,
    outcome,
    watched,
)

pytestmark = pytest.mark.integration


@pytest.fixture(params=SUBJECTS, ids=lambda subject: f"{subject}-{subject.settings.get('format', '')}".rstrip("-"))
def subject(request: pytest.FixtureRequest) -> Subject:
    value: Subject = request.param
    return value


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[int, HttpServer]]:
    """One for each subject, as they are needed."""
    with ExitStack() as stack:
        yield _Started(stack)


class _Started(dict[int, HttpServer]):
    def __init__(self, stack: ExitStack) -> None:
        super().__init__()
        self._stack = stack

    def __missing__(self, number: int) -> HttpServer:
        self[number] = self._stack.enter_context(running(SUBJECTS[number].server()))
        return self[number]


@pytest.fixture
def server(subject: Subject, servers: dict[int, HttpServer]) -> HttpServer:
    started = servers[SUBJECTS.index(subject)]
    started.requests.clear()
    started.key, started.all_connections = None, 0
    return started


# --- what every one of them answers the same ---

REFUSALS: list[tuple[str, Behaviour | None, str]] = [
    ("401", fail(401, f"Incorrect API key provided: {KEY}"), "unauthorized"),
    ("403", fail(403, "no"), "unauthorized"),
    ("400-openai", fail(400, "bad"), "refused"),
    ("400-detail", raw_answer(400, b'{"detail":"bad"}'), "refused"),
    ("422-list", raw_answer(422, b'{"detail":[{"loc":["body","x"],"msg":"missing","input":"s"}]}'), "refused"),
    ("400-text-error", raw_answer(400, b'{"error":"bad"}'), "refused"),
    ("400-message", raw_answer(400, b'{"code":"BadRequest","message":"bad"}'), "refused"),
    ("400-plain", raw_answer(400, b"bad", {"Content-Type": "text/plain"}), "refused"),
    ("400-list", raw_answer(400, b'[{"error":{"message":"bad"}}]'), "refused"),
    ("400-nothing", raw_answer(400, b""), "refused"),
    ("400-no-json", raw_answer(400, b"\xff\xfe{", JSON_TYPE), "refused"),
    ("404", raw_answer(404, b"<html>not here</html>", HTML_TYPE), "refused"),
    ("307", raw_answer(307, b"", {"Location": "http://127.0.0.1:1/"}), "refused"),
    ("500", fail(500, f"it died with {KEY}"), "failed"),
    ("500-page", html(500), "failed"),
    ("html-200", html(200), "refused"),
    ("html-as-good", None, "refused"),
    ("429-long", fail(429, retry_after="100"), "rate_limited"),
    ("429-spent", fail(429, "insufficient_quota"), "rate_limited"),
    ("503-long", fail(503, retry_after="100"), "overloaded"),
    ("json-200", raw_answer(200, b'{"error":{"message":"died","type":"server_error"}}'), "failed"),
    ("json-200-busy", raw_answer(200, b'{"error":{"message":"x","code":503}}'), "overloaded"),
]


@pytest.mark.parametrize(("behaviour", "code"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
async def test_a_refusal_has_one_code_and_is_not_asked_for_twice(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, behaviour: Behaviour | None, code: str
) -> None:
    if behaviour is None:
        page = b"<!DOCTYPE html><html>Welcome</html>"
        if subject.settings.get("format") == "pcm":
            pytest.skip("raw samples look like anything")
        behaviour = raw_answer(200, page, subject.type)
        code = "failed" if subject.section == "llm" else code
    server.play(behaviour)
    timeout_seconds = SHORT_SECONDS if code == "overloaded" else TIMEOUT_SECONDS
    async with watched(subject, server, caplog, timeout_seconds) as engine:
        assert (await outcome(ask(subject, engine)))[1] == code
        if not (subject.retries and code == "overloaded"):
            assert len(server.asked) == 1


BUSY: list[tuple[str, Behaviour, str]] = [
    ("429", fail(429), "rate_limited"),
    ("429-wait", fail(429, retry_after="0.05"), "rate_limited"),
    ("503", fail(503), "overloaded"),
    ("503-wait", fail(503, "Synthesis queue is full.", retry_after="0.05"), "overloaded"),
    ("502-page", html(502), "overloaded"),
    ("529", fail(529), "overloaded"),
]


@pytest.mark.parametrize(("behaviour", "code"), [row[1:] for row in BUSY], ids=[row[0] for row in BUSY])
async def test_a_busy_server_is_asked_again_while_there_is_time(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, behaviour: Behaviour, code: str
) -> None:
    server.play(behaviour, subject.good)
    async with watched(subject, server, caplog) as engine:
        result, found = await outcome(ask(subject, engine))
        assert found == ("good" if subject.retries else code)
        assert not subject.retries or is_good(subject, result)


@pytest.mark.parametrize("behaviour", [fail(429), fail(503)], ids=["429", "503"])
async def test_a_server_that_stays_busy_is_left_in_time(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, behaviour: Behaviour
) -> None:
    server.play(behaviour)
    async with watched(subject, server, caplog, SHORT_SECONDS) as engine:
        assert (await outcome(ask(subject, engine)))[1] in ("rate_limited", "overloaded")
        # At 0.1, 0.3 and 0.7 seconds, as far as there is time.
        assert len(server.asked) in range(1, 5 if subject.retries else 2)


# --- connections ---


@pytest.mark.parametrize("promised", [None, 10**6], ids=["chunks", "length"])
async def test_an_answer_that_breaks_off_is_asked_for_again_if_nobody_has_heard_of_it(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, promised: int | None
) -> None:
    half = broken_off(subject.body[: len(subject.body) // 2], subject.type, promised_bytes=promised)
    server.play(half, subject.good)
    async with watched(subject, server, caplog) as engine:
        result, found = await outcome(ask(subject, engine))
        assert found == ("good" if subject.retries and subject.collects else "cut")
        assert found == "cut" or is_good(subject, result)
    server.play(half)
    async with watched(subject, server, caplog) as engine:
        assert (await outcome(ask(subject, engine)))[1] == "cut"


async def test_a_connection_that_is_reset_before_an_answer_is_made_anew_once(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.play(hung_up(), subject.good)
    async with watched(subject, server, caplog) as engine:
        result, found = await outcome(ask(subject, engine))
        assert found == ("good" if subject.retries else "cut")
        assert not subject.retries or is_good(subject, result)
        server.play(hung_up())
        assert (await outcome(ask(subject, engine)))[1] == "cut"


async def test_a_kept_connection_that_has_died_is_noticed(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.play(then_close(subject.good))
    async with watched(subject, server, caplog) as engine:
        for _ in range(3):
            result, found = await outcome(ask(subject, engine))
            assert (found, is_good(subject, result)) == ("good", True)
            await server.until_idle()


async def test_a_connection_is_used_again(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.play(subject.good)
    async with watched(subject, server, caplog) as engine:
        for _ in range(3):
            assert is_good(subject, await ask(subject, engine))
    assert server.all_connections == 1


async def test_nobody_there_is_told_with_what_to_do(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as held:  # bound and not listening: refuses
        held.bind(("127.0.0.1", 0))
        nobody = HttpServer(url=f"http://127.0.0.1:{held.getsockname()[1]}/v1")
        async with watched(subject, nobody, caplog) as engine:
            assert (await outcome(ask(subject, engine)))[1] == "unreachable"


# --- slow, odd and endless answers ---


async def test_a_slow_first_byte_is_waited_for_and_none_at_all_is_a_time_out(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.play(late(0.05, subject.good), never())
    async with watched(subject, server, caplog) as engine:
        assert is_good(subject, await ask(subject, engine))
    async with watched(subject, server, caplog, SHORT_SECONDS) as engine:
        assert (await outcome(ask(subject, engine)))[1] == "timeout"


async def test_the_form_of_an_answer_does_not_matter(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    packed = gzip.compress(subject.body)
    forms = [
        in_pieces(subject.body, subject.type, step=997),
        in_pieces(subject.body, subject.type, step=max(1, len(subject.body) // 150) | 1),
        until_the_end(subject.body, subject.type),
        raw_answer(200, packed, {**subject.type, "Content-Encoding": "gzip", "Content-Length": str(len(packed))}),
    ]
    server.play(*forms)
    async with watched(subject, server, caplog) as engine:
        for _ in forms:
            result, found = await outcome(ask(subject, engine))
            assert (found, is_good(subject, result)) == ("good", True)


async def test_a_wrong_content_type_hides_no_good_answer(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    if subject.section == "llm" or subject.settings.get("format") == "pcm":
        pytest.skip("nothing else tells a page from an answer")
    server.play(*(raw_answer(200, subject.body, {"Content-Type": kind}) for kind in ("text/html", "", "image/png")))
    async with watched(subject, server, caplog) as engine:
        for _ in range(3):
            assert is_good(subject, await ask(subject, engine))


@pytest.mark.parametrize(
    "body", [b"\x00\x01garbage" * 500, b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + b"\xff" * 200, b"[1, 2]", b'{"a"'], ids=str
)
async def test_garbage_is_no_answer(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    if subject.settings.get("format") == "pcm" and not body.startswith(b"RIFF"):
        pytest.skip("raw samples look like anything")
    server.play(raw_answer(200, body, subject.type))
    async with watched(subject, server, caplog) as engine:
        assert (await outcome(ask(subject, engine)))[1] in ("failed", "cut", "no_reply")


async def test_an_answer_without_end_is_left(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    head = WAV[:40] + b"\xff\xff\xff\xff" if subject.section == "tts" and subject.body is WAV else b"{"
    server.play(endless(b"\x01\x00" * 131_072, subject.type, begin=head))
    async with watched(subject, server, caplog) as engine:
        assert (await outcome(ask(subject, engine)))[1] in ("failed", "timeout")


async def test_an_empty_answer_is_no_words_and_no_sound(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.play(raw_answer(200, b"", subject.type))
    async with watched(subject, server, caplog) as engine:
        result, found = await outcome(ask(subject, engine))
        assert (found == "good" and len(result) == 0) if subject.section == "tts" else found in ("failed", "cut")


# --- life ---


@pytest.mark.parametrize("behaviour", ["never", "begun"])
async def test_a_request_that_is_cancelled_closes_its_connection_at_once(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, behaviour: str
) -> None:
    begun = in_pieces(subject.body, subject.type, step=len(subject.body) // 50 + 1, pause_seconds=0.05)
    server.play(never() if behaviour == "never" else begun)
    async with watched(subject, server, caplog) as engine:
        asking = asyncio.create_task(ask(subject, engine))
        await server.until_asked()
        await asyncio.sleep(0.02)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()
        await server.until_idle()
        server.play(subject.good)
        assert is_good(subject, await ask(subject, engine)), "the next one is not held up"


async def test_it_cannot_be_asked_before_start_nor_after_close(subject: Subject, server: HttpServer) -> None:
    engine = build(subject, server.url)
    await engine.close()
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            await ask(subject, engine)
        assert caught.value.code == "engine_unavailable"
        await engine.start()
        await engine.close()
        await engine.close()


async def test_a_hundred_faults_leave_nothing_open(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [fail(400), html(), fail(500), raw_answer(200, b"<html>", HTML_TYPE), hung_up(), hung_up()]
    async with watched(subject, server, caplog) as engine:
        for number in range(100):
            server.play(faults[number % len(faults)])
            if number % len(faults) == 1 and subject.retries:
                continue  # a busy server is waited for
            await outcome(ask(subject, engine))
        assert server.open_connections <= 1
        server.play(subject.good)
        assert is_good(subject, await ask(subject, engine))


async def test_no_proxy_and_no_redirect_is_followed(
    subject: Subject, server: HttpServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.key = KEY
    server.play(subject.good)
    async with watched(subject, server, caplog) as engine:
        assert is_good(subject, await ask(subject, engine))
