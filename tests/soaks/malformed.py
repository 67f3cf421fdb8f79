"""Thousands of malformed requests at a running server: nothing breaks, nothing hangs, nothing grows.

`send_malformed` works against any server; `soak` starts one of its own and counts what it holds. Every request that
got what it should not is kept as the bytes that were sent, so that `nc` or a test can send it again.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count as count_up
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.soaks.malformed_api import ApiCase, api_cases
from tests.soaks.malformed_audio import audio_requests
from tests.soaks.malformed_text import head_requests, json_requests
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.server import Figures, ForkedServer, SoakServer
from tests.soaks.wire import Malformed, WireAnswer, send

SHARES = ("audio", "api", "audio", "json", "audio", "head", "api", "json", "audio", "head")
"""The kinds in turn: four of ten are recordings."""
DECLARED_SERVER_ERRORS = (503, 507)
"""Starting or stopping, and a full disk: told in the API's document."""
RSS_GROWTH_MIB = 64.0
"""Allocators keep what the largest requests needed: 10,000 took 20 to 33 MiB, and 10,500 refused recordings
stopped at 10. A leak of 10 kB a request would be 90."""
PEAK_MIB = 200.0
"""Above the memory after warm-up: four 4 MiB uploads of the most compact sound being decoded at once."""
_SENDERS = 4
_DEVICES = 200


@dataclass(frozen=True, slots=True)
class Defect:
    """A request with an answer it should not get. `kept`: the file with its bytes."""

    what: str
    kind: str
    name: str
    detail: str
    kept: Path


@dataclass(slots=True)
class Report:
    """What was sent and what came back."""

    sent: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    by_status: Counter[str] = field(default_factory=Counter)
    defects: list[Defect] = field(default_factory=list)

    def of(self, what: str) -> list[Defect]:
        return [defect for defect in self.defects if defect.what == what]

    def as_dict(self) -> dict[str, Any]:
        return {"sent": self.sent, "by_kind": dict(self.by_kind), "by_status": dict(sorted(self.by_status.items()))}


def send_malformed(
    url: str, token: str, count: int, seed: int, *, folder: Path, on_progress: Progress = no_progress
) -> Report:
    """Send `count` malformed requests, the same ones for the same seed. Reproducing inputs go to `folder`."""
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    document: dict[str, Any] = httpx2.get(f"{url}/openapi.json", timeout=30).raise_for_status().json()
    report, lock = Report(), threading.Lock()

    def deliver(case: ApiCase) -> None:
        request = case.request
        try:
            answers, problem = send(address, request), None
        except TimeoutError:
            answers, problem = [], ("no_answer", "neither answered nor closed")
        except ConnectionRefusedError:
            answers, problem = [], ("no_answer", "nobody listens any more")
        except ValueError as error:
            answers, problem = [], ("bad_form", str(error))
        with lock:
            report.sent += 1
            report.by_kind[request.kind] += 1
            report.by_status.update([str(answer.status) for answer in answers] or ["none"])
            found = [problem] if problem else [judged for answer in answers for judged in judge(case, answer)]
            for what, detail in found:
                report.defects.append(_keep(folder, len(report.defects), what, request, detail))
            on_progress(report.sent, count)

    cases = islice(all_cases(document, seed, url, token), count)
    with ThreadPoolExecutor(_SENDERS) as senders:
        # In bundles: requests are made here, one after the other, and not all of them lie in memory.
        while bundle := list(islice(cases, 8 * _SENDERS)):
            list(senders.map(deliver, bundle))
    return report


def all_cases(document: dict[str, Any], seed: int, url: str, token: str) -> Iterator[ApiCase]:
    """Malformed requests of every kind in turn, without end."""
    auth = [("Authorization", f"Bearer {token}")]
    numbers = count_up()

    def device() -> str:
        return f"soak-{next(numbers) % _DEVICES}"

    any_status: frozenset[int] = frozenset()
    plain = {
        "audio": audio_requests(random.Random(seed), auth, device),
        "json": json_requests(random.Random(seed + 1), auth, device),
        "head": head_requests(random.Random(seed + 2), auth, device),
    }
    of_api = api_cases(document, seed, url, auth, device)
    while True:
        for kind in SHARES:
            yield next(of_api) if kind == "api" else ApiCase(next(plain[kind]), any_status)


def judge(case: ApiCase, answer: WireAnswer) -> Iterator[tuple[str, str]]:
    """What is wrong with an answer: (kind of defect, detail)."""
    shown = answer.body[:300].decode("utf-8", "replace")
    if answer.status >= 500 and answer.status not in DECLARED_SERVER_ERRORS:
        yield "server_error", f"{answer.status}: {shown}"
    if answer.status >= 400 and not _has_the_one_form(answer) and not case.request.wire.startswith(b"HEAD "):
        yield "bad_form", f"{answer.status}: {shown}"
    if case.declared and answer.status not in case.declared:
        yield "undeclared", f"{answer.status} is not in the API's document: {shown}"


def _has_the_one_form(answer: WireAnswer) -> bool:
    """`{"error": {code, message, retryable, hint}}`."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        return False
    return isinstance(body, dict) and set(body.get("error", ())) == {"code", "message", "retryable", "hint"}


def _keep(folder: Path, number: int, what: str, request: Malformed, detail: str) -> Defect:
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{number:04d}-{what}.http"
    kept.write_bytes(request.wire)
    kept.with_suffix(".txt").write_text(f"{request.kind}: {request.name}\n{detail}\n", encoding="utf-8")
    return Defect(what, request.kind, request.name, detail, kept)


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` malformed requests against a server of its own: a warm-up of a quarter (at most 1,000), then the rest."""
    warm_up = min(1_000, max(1, count // 4))
    with ForkedServer(folder / "server") as server:
        crowd(server)
        first = send_malformed(
            server.url, server.token, warm_up, seed, folder=folder / "defects",
            on_progress=lambda done, _: on_progress(done, count),
        )  # fmt: skip
        warm = server.settled(timeout_seconds=1.0)
        rest = send_malformed(
            server.url, server.token, count - warm_up, seed + 1_000_000, folder=folder / "defects-later",
            on_progress=lambda done, _: on_progress(warm_up + done, count),
        )  # fmt: skip
        return promises(first, rest, warm, server)


def crowd(server: SoakServer, clients: int = 16) -> None:
    """Good requests and strangers all at once, so that every pool of threads and connections is as large as it gets."""
    sound = b"\x00\x40" * 16_000

    def visit(number: int) -> None:
        headers = {"Device-Id": f"crowd-{number}", "Content-Type": "audio/pcm;rate=16000"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=60, verify=False) as client:
            for token in ("a stranger's", server.token):
                mine = {"Authorization": f"Bearer {token}"}
                client.post("/v1/turns", content=sound, headers=mine)
                client.get("/v1/turns/1/audio?format=opus", headers=mine)
            client.get("/")

    before = None
    for _ in range(5):
        with ThreadPoolExecutor(clients) as visitors:
            list(visitors.map(visit, range(clients)))
        files = server.settled(timeout_seconds=0).files
        if files == before:
            return
        before = files


def promises(first: Report, rest: Report, warm: Figures, server: SoakServer) -> list[Promise]:
    """The judgement of a whole run, while its server still lives."""
    defects = first.defects + rest.defects

    def none_of(name: str, what: str, text: str) -> Promise:
        found = [defect for defect in defects if defect.what == what]
        shown = [f"{defect.kind} {defect.name}: {defect.detail[:160]} ({defect.kept})" for defect in found[:5]]
        return Promise(name, text, not found, {"count": len(found), "first": shown})

    report = {
        "sent": first.sent + rest.sent,
        "by_kind": dict(first.by_kind + rest.by_kind),
        "by_status": dict(sorted((first.by_status + rest.by_status).items())),
    }
    kept = [
        none_of(
            "no_server_error", "server_error", "No request is answered with a 5xx other than the declared 503 and 507."
        ),
        none_of("answered", "no_answer", "Every request that is due an answer gets one."),
        none_of("one_form", "bad_form", "Every refusal has the one JSON form, with a code."),
        none_of("declared", "undeclared", "Every status is one that the API's document declares for the operation."),
        _good_turns(server),
    ]
    kept[0] = Promise(kept[0].name, kept[0].text, kept[0].kept, {**report, **kept[0].figures})
    if not server.alive:
        return kept
    end = server.settled(at_most=warm)
    tracebacks = server.log.count("Traceback") + server.log.count("defect while")
    both = {"after_warm_up": warm.as_dict(), "at_the_end": end.as_dict()}
    grown = [name for name in ("tasks", "threads", "files") if getattr(end, name) > getattr(warm, name)]
    return [
        *kept,
        Promise("no_defect_logged", "The log tells of no defect.", tracebacks == 0, {"defects": tracebacks}),
        Promise("no_growth", "No more tasks, threads or open files than after the warm-up.", not grown, both),
        Promise(
            "memory",
            f"After the warm-up memory grows by at most {RSS_GROWTH_MIB:g} MiB, and for a moment by {PEAK_MIB:g}.",
            end.rss_mib - warm.rss_mib <= RSS_GROWTH_MIB and end.peak_rss_mib - warm.rss_mib <= PEAK_MIB,
            {
                "growth_mib": round(end.rss_mib - warm.rss_mib, 1),
                "peak_mib": round(end.peak_rss_mib - warm.rss_mib, 1),
                "rss_mib": end.rss_mib,
            },
        ),
    ]


def _good_turns(server: SoakServer) -> Promise:
    """Good turns afterwards: typed, and spoken."""
    text = "The server lives, and a typed and a spoken turn are answered."
    headers = {"Authorization": f"Bearer {server.token}", "Device-Id": "afterwards"}
    try:
        with httpx2.Client(base_url=server.url, headers=headers, timeout=30, verify=False) as client:
            typed = client.post("/v1/turns", json={"text": "左を見て"})
            sound = b"\x00\x40" * 16_000
            spoken = client.post("/v1/turns", content=sound, headers={"Content-Type": "audio/pcm;rate=16000"})
    except httpx2.TransportError as error:
        return Promise("lives", text, False, {"error": repr(error), "log": server.log[-1_000:]})
    outcomes = [f"{answer.status_code} {answer.json().get('outcome')}" for answer in (typed, spoken)]
    return Promise("lives", text, server.alive and outcomes == ["200 ok"] * 2, {"typed_then_spoken": outcomes})
