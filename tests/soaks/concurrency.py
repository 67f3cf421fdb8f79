"""Many devices speaking at the same moment: each is served once or told when to come back; none is lost, none doubled.

`speak_at_once` works against any server; `soak` starts one of its own. A third of the devices waits for the answer, a
third asks to come back for it, and a third sends its request twice at once under one `Idempotency-Key`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from server.engines.base import Engines, LlmDelta, LlmRequest
from tests.fakes.engines import FakeLlm
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.server import ForkedServer, plain_engines

_THINKING_SECONDS = 0.05
_TURNS_BEFORE = 10
"""By these the server knows how long a turn takes; one that has just started guesses, and has others wait for long."""
_WARM_COUNT = 16
"""More devices than there are places."""
_ROUNDS = 30
_PATIENCE_SECONDS = 120.0
_LOOK_BEYOND = 100
"""Numbers looked at above the highest turn that was answered: a doubled turn would have one of them."""


def thinking_engines() -> Engines:
    """Fakes whose model takes a moment, so that turns really wait for each other."""

    class Thinking(FakeLlm):
        async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
            await asyncio.sleep(_THINKING_SECONDS)
            async for delta in super().generate(request):
                yield delta

    plain = plain_engines()
    llm = Thinking(requests=plain.llm.requests, warmed=plain.llm.warmed)  # type: ignore[attr-defined]
    return Engines(plain.vad, plain.asr, llm, plain.tts, plain.embedding)


@dataclass(slots=True)
class Report:
    """What `count` devices got. `stored`: the turns found afterwards with each device's words."""

    count: int
    served: dict[str, int] = field(default_factory=dict)
    """Device to turn, of those served on their first request."""
    served_later: dict[str, int] = field(default_factory=dict)
    """Those who were sent away, and came back when they were told to."""
    retry_after: list[str | None] = field(default_factory=list)
    """Of every 429."""
    broken: list[str] = field(default_factory=list)
    """Answers that nobody should get."""
    stored: dict[str, list[int]] = field(default_factory=dict)
    first_round_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def lost(self) -> list[str]:
        """Devices whose turn was answered but is not the one stored."""
        answered = self.served | self.served_later
        return [device for device, turn_id in answered.items() if turn_id not in self.stored.get(device, [])]

    @property
    def doubled(self) -> list[str]:
        return [device for device, turns in self.stored.items() if len(turns) > 1]

    @property
    def unasked(self) -> list[str]:
        """Devices that have a turn though they were never served."""
        return [device for device in self.stored if device not in self.served | self.served_later]

    def as_dict(self) -> dict[str, Any]:
        waits = sorted(int(wait) for wait in self.retry_after if wait is not None and wait.isdecimal())
        return {
            "requests": self.count,
            "served_at_once": len(self.served),
            "served_when_they_came_back": len(self.served_later),
            "refusals_429": len(self.retry_after),
            "retry_after_seconds": f"{waits[0]} to {waits[-1]}" if waits else "none",
            "stored_turns": sum(map(len, self.stored.values())),
            "first_round_seconds": round(self.first_round_seconds, 2),
            "seconds": round(self.seconds, 2),
        }


def speak_at_once(count: int, url: str, token: str, *, on_progress: Progress = no_progress) -> Report:
    """Let `count` devices speak at the same moment; who is sent away comes back after the time it was told."""
    return asyncio.run(_Crowd(count, url, token, on_progress).run())


class _Crowd:
    """The devices of one run; their words carry a mark of this run, so that only its turns are counted."""

    def __init__(self, count: int, url: str, token: str, on_progress: Progress) -> None:
        self._mark = secrets.token_hex(4)
        self._report = Report(count)
        self._on_progress = on_progress
        self._done = 0
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(_PATIENCE_SECONDS),
            # A connection that lay idle may be closed by the server in the moment it is used again.
            limits=httpx2.Limits(max_connections=2 * count + 8, keepalive_expiry=1.0),
        )

    async def run(self) -> Report:
        report = self._report
        async with self._client:
            before = 0
            for _ in range(_TURNS_BEFORE):
                probe = await self._client.post("/v1/turns", json={"text": "probe"}, headers={"Device-Id": "probe"})
                before = probe.raise_for_status().json()["turn_id"]
            began = time.perf_counter()
            firsts = await asyncio.gather(*(self._speak(number) for number in range(report.count)))
            report.first_round_seconds = time.perf_counter() - began
            away = [number for number, wait in enumerate(firsts) if wait is not None]
            await asyncio.gather(*(self._come_back(number, firsts[number] or 1) for number in away))
            report.seconds = time.perf_counter() - began
            await self._look(before)
        return report

    async def _come_back(self, number: int, wait: float) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(wait)
            again = await self._speak(number, later=True)
            if again is None:
                return
            wait = again
        self._report.broken.append(f"device {number} was sent away {_ROUNDS} times")

    async def _speak(self, number: int, *, later: bool = False) -> float | None:
        """One device's request; None when it was answered, else the seconds after which it may come back."""
        device, kind = f"device-{number}", number % 3
        headers = {"Device-Id": device}
        if kind == 1:
            headers["Prefer"] = "respond-async"
        if kind == 2:
            headers["Idempotency-Key"] = f"{self._mark}-{number}"
        copies = 2 if kind == 2 else 1
        try:
            answers = await asyncio.gather(*(self._post(number, headers) for _ in range(copies)))
            waits = [await self._judge(device, answer, later=later) for answer in answers]
        except httpx2.TransportError as error:
            self._report.broken.append(f"{device}: no answer: {error!r}")
            return None
        if None in waits:
            self._done += 1
            self._on_progress(self._done, self._report.count)
            return None
        return max(wait for wait in waits if wait is not None)

    async def _post(self, number: int, headers: Mapping[str, str]) -> httpx2.Response:
        words = {"text": f"{self._mark} {number}番目"}
        for _ in range(1000):
            answer = await self._client.post("/v1/turns", json=words, headers=headers)
            if answer.status_code != 409 or answer.json()["error"]["code"] != "idempotency_in_progress":
                break
            await asyncio.sleep(0.02)
        return answer

    async def _judge(self, device: str, answer: httpx2.Response, *, later: bool) -> float | None:
        report = self._report
        if answer.status_code == 429:
            wait = answer.headers.get("Retry-After")
            report.retry_after.append(wait)
            return float(wait) if wait is not None and wait.isdecimal() else 1.0
        turn = answer.json()
        while answer.status_code in (200, 202) and turn["status"] in ("queued", "running"):
            answer = await self._client.get(f"/v1/turns/{turn['turn_id']}", headers={"Prefer": "wait=30"})
            turn = answer.json()
        if answer.status_code == 200 and turn["outcome"] == "ok":
            served = report.served_later if later else report.served
            if served.setdefault(device, turn["turn_id"]) != turn["turn_id"]:
                report.broken.append(f"{device}: two turns for one key, {served[device]} and {turn['turn_id']}")
        else:
            report.broken.append(f"{device}: {answer.status_code} {answer.text[:200]}")
        return None

    async def _look(self, before: int) -> None:
        """Find every turn of this run in the store."""
        report = self._report
        highest = max([before, *report.served.values(), *report.served_later.values()])
        for turn_id in range(before + 1, highest + _LOOK_BEYOND):
            answer = await self._client.get(f"/v1/turns/{turn_id}")
            mark, _, words = answer.json().get("transcript", "").partition(" ")
            if mark == self._mark:
                report.stored.setdefault(f"device-{words.removesuffix('番目')}", []).append(turn_id)


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` devices at once against a server of its own, after a few: more must not leave more behind."""
    with ForkedServer(folder / "server", engines="tests.soaks.concurrency:thinking_engines") as server:
        speak_at_once(min(count, _WARM_COUNT), server.url, server.token)
        warm = server.settled()
        report = speak_at_once(count, server.url, server.token, on_progress=on_progress)
        end = server.settled(at_most=warm)
        tracebacks = server.log.count("Traceback") + server.log.count("defect while")
    answered = report.served | report.served_later
    bad_waits = [wait for wait in report.retry_after if wait is None or not wait.isdecimal() or int(wait) < 1]
    differing = {"lost": report.lost[:5], "doubled": report.doubled[:5], "unasked": report.unasked[:5]}
    return [
        Promise(
            "answered",
            "Every request is served, or answered 429 with a Retry-After.",
            not report.broken and not bad_waits,
            {**report.as_dict(), "broken": report.broken[:5], "bad_retry_after": len(bad_waits)},
        ),
        Promise(
            "once",
            "Every turn that was answered is stored exactly once, and no other: none lost, none twice.",
            not any(differing.values()) and len(answered) == sum(map(len, report.stored.values())),
            {"answered": len(answered), "stored": sum(map(len, report.stored.values())), **differing},
        ),
        Promise(
            "come_back",
            "Who was sent away and came back when it was told to was served in the end.",
            len(answered) == count,
            {"devices": count, "served": len(answered)},
        ),
        Promise("no_defect_logged", "The log tells of no defect.", tracebacks == 0, {"defects": tracebacks}),
        Promise(
            "no_growth",
            "No more tasks or open files than after the first few devices.",
            end.tasks <= warm.tasks and end.files <= warm.files,
            {"after_the_first": warm.as_dict(), "at_the_end": end.as_dict()},
        ),
    ]
