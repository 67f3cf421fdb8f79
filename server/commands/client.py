"""A blocking client of the server's HTTP interface, for the command line.

Finds the server of this machine by its run file, sends turns and the owner's requests, fetches sounds, and turns every
refusal into an error with the server's own words. Does not know terminals, microphones or files.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx2

from server.commands.failures import NoServerError, RefusedError, UsageFailure
from server.commands.trust import trusting
from server.errors import StackChanError
from server.next_steps import next_step
from server.run_file import RunFile, read_run_file

START_WAIT_SECONDS = 300.0
"""How long a server may take to become ready before the command gives up."""
LISTEN_WAIT_SECONDS = 5.0
"""How long a server whose process lives may take until it accepts connections."""
TURN_TIMEOUT_SECONDS = 300.0
"""Longest silence of the server during a turn: longer than all its own timeouts together."""
_MAX_WORDS_CHARACTERS = 1000
_BROKEN_HINT = "The server may have stopped, or refused a recording that is too large. Its own output says more."
_HTTPS_HINT = "Was it started with --tls? Then its address begins with https. / --tls で起動したなら https です。 "
_START_HINT = "Start it with `scripts/start` (or `stackchan serve`) in another terminal, then try again."


@dataclass(frozen=True, slots=True)
class Target:
    """A server to talk to. `is_local_process`: its run file says that its process lives on this machine."""

    url: str
    token: str
    is_local_process: bool = False
    certificate: str = ""
    """File of the one it shows; empty: it is trusted as any other page, or not at all."""


def find_target(data_dir: Path, url: str | None = None, token: str | None = None) -> Target:
    """The server at `url`, or else the one that runs on `data_dir`.

    Raises `NoServerError` when none runs, `UsageFailure` for a bad URL or when a token is needed and unknown.
    """
    run = read_run_file(data_dir)
    if url is None:
        if run is None:
            raise NoServerError(f"No StackChan server is running (data folder: {data_dir}).", hint=_START_HINT)
        return target_of(run, token or run.token)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable:
        raise UsageFailure(f"--url {url}: not an address.", hint="Write it like http://192.168.1.20:8000")
    url = url.rstrip("/")
    if run is not None and token is None and url == run.url.rstrip("/"):
        token = run.token
    if token is None:
        raise UsageFailure(
            "This server needs a token.", hint="Give it with --token, or in the variable STACKCHAN_TOKEN."
        )
    if not token.isascii() or not token.isprintable():
        raise UsageFailure("--token: a token has only ASCII letters, digits and signs.")
    ours = run is not None and url == run.url.rstrip("/")
    return Target(url=url, token=token, certificate=run.certificate if run is not None and ours else "")


def target_of(run: RunFile, token: str) -> Target:
    """The server that runs on this machine."""
    return Target(run.url.rstrip("/"), token, is_local_process=True, certificate=run.certificate)


class ServerClient:
    """What one program asks of one server. `on_wait` hears why the client waits, in words for people."""

    def __init__(
        self,
        target: Target,
        *,
        device_id: str = "cli",
        session: str | None = None,
        on_wait: Callable[[str], None] = lambda reason: None,
        transport: httpx2.BaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"Authorization": f"Bearer {target.token}", "Device-Id": device_id}
        if session is not None:
            headers["Session-Id"] = session
        for name, value in headers.items():
            if not value.isascii() or not value.isprintable():
                raise UsageFailure(f"{name} {value!r}: only ASCII letters, digits and signs can be sent.")
        self._target = target
        self._on_wait = on_wait
        self._monotonic = monotonic
        self._sleep = sleep
        self._http = httpx2.Client(
            base_url=target.url,
            headers=headers,
            timeout=httpx2.Timeout(10.0, read=TURN_TIMEOUT_SECONDS, write=60.0),
            # A proxy set for the web must not stand between this machine and itself.
            trust_env=not _is_loopback(target.url),
            verify=trusting(Path(target.certificate)) if target.certificate else True,
            transport=transport,
        )

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def say_text(self, text: str) -> dict[str, Any]:
        """One turn from typed words: the answer object."""
        body = json.dumps({"text": text}, ensure_ascii=True).encode()
        return self._turn(body, "application/json")

    def say_audio(self, sound: bytes, content_type: str) -> dict[str, Any]:
        """One turn from a recording, sent as it is: the answer object."""
        return self._turn(sound, content_type)

    def end_session(self, session_id: str) -> None:
        """End a conversation; the next words begin another. Raises `RefusedError` and as a turn does."""
        self.call("POST", f"/v1/sessions/{quote(session_id, safe='')}/end")

    def begin_session(self, label: str) -> None:
        """From now on this device's conversation goes by `label`: a new one begins a new conversation."""
        self._http.headers["Session-Id"] = label

    def trace(self, turn_id: int) -> dict[str, Any] | None:
        """The stage times of a turn; None when the server has none to give."""
        try:
            response = self._http.get(f"/v1/turns/{turn_id}/trace", timeout=10.0)
        except httpx2.RequestError:
            return None
        trace = _json(response).get("trace") if response.status_code == 200 else None
        return trace if isinstance(trace, dict) else None

    def sound(self, path: str, *, audio_format: str = "wav") -> bytes:
        """The whole sound of an answer. `path`: the answer's `audio.url`."""
        if not path.startswith("/") or path.startswith("//") or not (path.isascii() and path.isprintable()):
            # The token must not follow an address to another machine.
            raise StackChanError(f"The server named a sound outside itself: {path}", code="answer_invalid")
        with self._transport_errors():
            response = self._http.get(path, params={"format": audio_format})
        if response.status_code != 200:
            raise _refusal(response)
        return response.content

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """One request of the owner: the JSON object that answers it. Raises `RefusedError` and as a turn does."""
        headers = {"Content-Type": content_type} if body is not None else {}
        response = self._send(method, path, params=params, content=body, headers=headers)
        answer = _json(response)
        if not answer:
            raise _not_ours(response)
        return answer

    @contextmanager
    def download(self, path: str) -> Iterator[Iterator[bytes]]:
        """What a GET answers, piece by piece as it comes. Raises as `call`, also while it is read."""
        response = self._send("GET", path, stream=True)
        try:
            yield self._pieces(response)
        finally:
            response.close()

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        with self._transport_errors():
            yield from response.iter_bytes()

    def _turn(self, body: bytes, content_type: str) -> dict[str, Any]:
        return _answer(self._send("POST", "/v1/turns", content=body, headers={"Content-Type": content_type}))

    def _send(self, method: str, path: str, *, stream: bool = False, **request: Any) -> httpx2.Response:
        """The answer, once the server has its models. `stream`: its body is not read yet."""
        began = self._monotonic()
        while True:
            waited = self._monotonic() - began
            try:
                with self._transport_errors():
                    response = self._http.send(self._http.build_request(method, path, **request), stream=stream)
                    if response.status_code in (200, 202):
                        return response
                    response.read()
            except NoServerError:
                if not self._target.is_local_process or waited >= LISTEN_WAIT_SECONDS:
                    raise
                self._wait(0.25, "The server is about to listen…")
                continue
            refusal = _refusal(response)
            if refusal.code == "start_failed":
                self._raise_if_start_failed()  # with this token it may say why
            if refusal.code != "starting":
                raise refusal
            if waited >= START_WAIT_SECONDS:
                raise StackChanError(
                    f"The server is still not ready after {waited:.0f} seconds.",
                    code="starting",
                    hint="Look at what `stackchan serve` prints, or run `stackchan doctor`.",
                )
            self._raise_if_start_failed()
            self._wait(retry_after_seconds(response.headers), f"The server is loading its models ({waited:.0f} s)…")

    def _raise_if_start_failed(self) -> None:
        with self._transport_errors():
            ready = _json(self._http.get("/readyz", timeout=10.0))
        if ready.get("status") == "failed":
            error = ready.get("error")
            error = error if isinstance(error, dict) else {}
            raise StackChanError(
                _one_line(error.get("message", "The server could not start.")),
                code=_one_line(error.get("code", "engine_failed")),
                hint="Stop it, put this right (`stackchan doctor` helps), and start it again.",
            )

    def _wait(self, seconds: float, reason: str) -> None:
        self._on_wait(reason)
        self._sleep(seconds)

    @contextmanager
    def _transport_errors(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise NoServerError(f"No server answers at {self._target.url}.", hint=_START_HINT) from error
        except httpx2.TimeoutException as error:
            raise StackChanError(
                f"The server at {self._target.url} did not answer in time.",
                code="server_timeout",
                hint="Run `stackchan doctor`: it says whether this machine is fast enough.",
            ) from error
        except httpx2.RequestError as error:
            # So it looks to who says http to a door of https.
            is_mute = isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError)
            may_want_tls = is_mute and self._target.url.startswith("http:")
            raise StackChanError(
                f"The connection to {self._target.url} broke: {str(error).rstrip('.')}.",
                code="connection_lost",
                hint=f"{_HTTPS_HINT if may_want_tls else ''}{_BROKEN_HINT}",
            ) from error


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """How long to wait before asking again: what the server says, within 0.2 to 10 seconds; 1 when it says nothing."""
    try:
        seconds = float(headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0
    return min(10.0, max(0.2, seconds)) if math.isfinite(seconds) else 1.0


def _answer(response: httpx2.Response) -> dict[str, Any]:
    answer = _json(response)
    turn_id = answer.get("turn_id")
    # It becomes a part of addresses and of a file's name.
    if not isinstance(turn_id, int) or isinstance(turn_id, bool) or not 0 < turn_id < 2**63:
        raise _not_ours(response)
    return answer


def _refusal(response: httpx2.Response) -> RefusedError:
    error = _json(response).get("error")
    if not isinstance(error, dict) or "code" not in error:
        return _not_ours(response)
    code, hint = _one_line(error["code"]), error.get("hint")
    usual = next_step(code)
    if not hint or hint == usual:
        if response.status_code in (401, 403):
            here = "Give another token with --token, or in the variable STACKCHAN_TOKEN."
            hint = f"{here} {usual}" if usual else here
        elif "Retry-After" in response.headers:
            hint = f"Try again in {retry_after_seconds(response.headers):.0f} s."
    return RefusedError(
        _one_line(error.get("message") or code),
        status=response.status_code,
        code=code,
        hint=_one_line(hint) if hint else None,
        retryable=bool(error.get("retryable")),
        body=_json(response),
    )


def _one_line(words: object) -> str:
    """A server's words within ours: its line ends must not look like the start of something else."""
    return " ".join(str(words)[:_MAX_WORDS_CHARACTERS].split())


def _not_ours(response: httpx2.Response) -> RefusedError:
    if response.status_code == 500:
        return RefusedError(
            "The server broke the request off.",
            status=500,
            code="server_broke_off",
            hint="It was stopped meanwhile, or something went wrong inside it: its own output says what.",
        )
    return RefusedError(
        f"{response.request.url} answered {response.status_code}, but not as a StackChan server does.",
        status=response.status_code,
        code="answer_invalid",
        hint="Is another program listening there? Give the right address with --url.",
    )


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
