"""A whole server is killed at random moments, over and over, while it talks, takes conversations in and indexes them.

The server is a process of its own with real storage and a real index folder. By turns its language model is one that
writes one memory for each fact that it is told, and a small one, of which the server makes memories by quoting: each
picks up what the other left. Every turn is a fact of its own, said over HTTP and acknowledged by its answer. After the
last kill the server may finish, and everything is compared: words, memories, vectors, jobs.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2

from server.engines.base import Engines, LlmCapabilities, LlmDelta, LlmDone, LlmRequest, LlmText
from server.memory.index.factory import IndexKind, open_index
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, fake_engines
from tests.memory.making import DIMENSIONS, WordVectors, last_transcript, note
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.server import ForkedServer, SoakServer

ENGINES = ("tests.soaks.kills:remembering_engines", "tests.soaks.kills:quoting_engines")
"""Of one life after the other."""
KINDS: tuple[IndexKind, ...] = ("local", "edge")
_TURNS_A_SESSION = 3
"""As many facts as one segment may give."""
_KILLED_AT_START = 0.3
"""The share of kills that come before the server is ready: while it picks up what the last one left."""
_LONGEST_SECONDS = 2.0
_FINISH_SECONDS = 300.0
_LAST_WORDS = "おはよう"
_FACT = re.compile(r"箱\d+番")


class RememberingLlm(FakeLlm):
    """Answers the same to everything; of a transcript it makes a memory for each fact."""

    capabilities = LlmCapabilities(
        native_tools=True, max_tools=8, streams=True, context_tokens=100_000, wants_examples=False
    )

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        self.requests.append(request)
        written: dict[str, Any] = {"emotion": "happy", "action": "nod", "reply": "うん、わかったよ。"}
        if "memories" in json.dumps(request.answer_schema or {}):
            said = re.findall(r"^\d+ (?:人|User): (.*)$", last_transcript(request), re.MULTILINE)
            written = {
                "memories": [
                    note(f"{text}。", fact[0], about=[place], memory_type="fact")
                    for place, text in enumerate(said, start=1)
                    if (fact := _FACT.search(text))
                ]
            }
        text = json.dumps(written, ensure_ascii=False)
        for start in range(0, len(text), 40):
            yield LlmText(text[start : start + 40])
            await asyncio.sleep(0)
        yield LlmDone("stop")


class QuotedLlm(RememberingLlm):
    """A small model: nothing is to be made of its summaries."""

    capabilities = replace(RememberingLlm.capabilities, wants_examples=True)

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        if "memories" in json.dumps(request.answer_schema or {}):
            raise RuntimeError("a small model was asked for a summary")
        async for delta in super().generate(request):
            yield delta


def remembering_engines() -> Engines:
    return _engines(RememberingLlm)


def quoting_engines() -> Engines:
    return _engines(QuotedLlm)


def _engines(model: type[RememberingLlm]) -> Engines:
    return fake_engines(
        asr=FakeAsr(heard=deque(maxlen=1)),  # type: ignore[arg-type]
        llm=model(requests=deque(maxlen=1), warmed=deque(maxlen=1)),  # type: ignore[arg-type]
        tts=FakeTts(spoken=deque(maxlen=1)),  # type: ignore[arg-type]
        embedding=WordVectors(),
    )


@dataclass(slots=True)
class KillReport:
    """What was found after the last kill, when the server had finished."""

    kind: IndexKind
    kills: int = 0
    before_ready: int = 0
    """Kills while the server started."""
    said: int = 0
    """Turns that were sent; the last of each life is mostly cut off."""
    acknowledged: int = 0
    remembered: int = 0
    """Facts that are in a memory. A quoted memory may hold several."""
    memories: int = 0
    quoted: int = 0
    """Memories in the user's own words."""
    vectors: int = 0
    lost_turns: list[str] = field(default_factory=list)
    """Acknowledged, and not stored as they were said."""
    unremembered: list[str] = field(default_factory=list)
    """Acknowledged, and in no memory."""
    doubled: list[str] = field(default_factory=list)
    """Facts in more than one memory."""
    without_vector: int = 0
    without_memory: int = 0
    """Vectors that no memory has."""
    pending: int = 0
    parked: int = 0
    problem: str | None = None
    """What the status says of the index."""
    moved_aside: int = 0
    """Index folders that were taken for damaged: a kill is no damage."""
    seconds: float = 0.0


class _Speaker:
    """Says one fact after another to whichever server lives, until it dies."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = iter(range(1, 10**9))
        self.said = 0
        self.acknowledged: dict[str, int] = {}
        """{fact: turn id}"""

    def speak(self, url: str, token: str) -> None:
        with _client(url, token) as client:
            while True:
                number = next(self._numbers)
                fact = f"箱{number}番"
                self.said = number
                session = f"session-{number // _TURNS_A_SESSION}"
                try:
                    answer = client.post("/v1/turns", json={"text": words(fact)}, headers={"Session-Id": session})
                    turn = answer.json()
                except (httpx2.TransportError, ValueError):
                    return
                # A server that is killed does not refuse: whatever else it says is told.
                if answer.status_code != 200 or turn["outcome"] != "ok":
                    raise RuntimeError(f"{fact}: {answer.status_code} {answer.text[:300]}")
                self.acknowledged[fact] = turn["turn_id"]


def words(fact: str) -> str:
    return f"{fact}を棚に置いたよ"


def survive_kills(
    folder: Path, kind: IndexKind, kills: int, seed: int = 1, on_kill: Progress = no_progress
) -> KillReport:
    """Kill a server so often, then let the last one finish. `folder` is empty."""
    report = KillReport(kind)
    began = time.perf_counter()
    chance = random.Random(seed)
    speaker = _Speaker()
    env = {"STACKCHAN_MEMORY__INDEX_KIND": kind}
    ready_seconds = 1.0
    while report.kills < kills:
        server = ForkedServer(folder, engines=ENGINES[report.kills % 2], env=env)
        started = time.perf_counter()
        try:
            # The first start has nothing to pick up.
            if report.kills and chance.random() < _KILLED_AT_START:
                time.sleep(chance.uniform(0.3, 1.0) * ready_seconds)
                report.before_ready += 1
            else:
                server.__enter__()
                ready_seconds = time.perf_counter() - started
                failed: list[BaseException] = []

                def speak(server: SoakServer = server, failed: list[BaseException] = failed) -> None:
                    try:
                        speaker.speak(server.url, server.token)
                    except BaseException as error:  # told to the caller below
                        failed.append(error)

                thread = threading.Thread(target=speak)
                thread.start()
                if report.kills % 4 < 2:
                    # On a busy machine the time alone may end before anything was acknowledged.
                    known, end = len(speaker.acknowledged), time.monotonic() + 60
                    while len(speaker.acknowledged) == known and thread.is_alive() and time.monotonic() < end:
                        time.sleep(0.01)
                time.sleep(chance.uniform(0.0, _LONGEST_SECONDS))
                server.process.kill()
                thread.join(60)
                if failed:
                    raise failed[0]
        finally:
            server.process.kill()
            server.process.wait(10)
        report.kills += 1
        on_kill(report.kills, kills)
    last = ForkedServer(folder, engines=ENGINES[report.kills % 2], env=env)
    with last as server, _client(server.url, server.token) as client:
        found = _finish(client, speaker, report)
    _compare(folder / "data" / "worlds" / "home", found, report)
    report.seconds = round(time.perf_counter() - began, 1)
    return report


def _finish(client: httpx2.Client, speaker: _Speaker, report: KillReport) -> dict[str, str]:
    """Wait for the work that waited; {memory id: summary}."""
    # Ends the session that was open, and waits to be over itself.
    client.post("/v1/turns", json={"text": _LAST_WORDS}, headers={"Session-Id": "the-last-one"}).raise_for_status()
    end = time.monotonic() + _FINISH_SECONDS
    while True:
        status = client.get("/v1/memory/status").raise_for_status().json()
        report.pending, report.parked = status["pending"] - 1, status["parked_count"]
        if not report.pending or time.monotonic() > end:
            break
        time.sleep(0.1)
    report.problem = status["index"]["problem"] and status["index"]["problem"]["code"]
    report.said, report.acknowledged = speaker.said, len(speaker.acknowledged)
    found: dict[str, str] = {}
    after: str | None = None
    while True:
        asked = {"limit": 50, "status": "all"} | ({"after": after} if after else {})
        page = client.get("/v1/memories", params=asked).raise_for_status().json()
        found |= {one["memory_id"]: one["summary"] for one in page["memories"]}
        # The model that writes summaries names each by its fact.
        report.quoted += sum(not _FACT.fullmatch(one["topic"]) for one in page["memories"])
        if (after := page["next"]) is None:
            break
    facts = Counter(fact for summary in found.values() for fact in set(_FACT.findall(summary)))
    report.memories, report.remembered = len(found), len(facts)
    report.doubled = [fact for fact, count in facts.items() if count > 1]
    report.unremembered = [fact for fact in speaker.acknowledged if fact not in facts]
    for fact, turn_id in speaker.acknowledged.items():
        stored = client.get(f"/v1/turns/{turn_id}")
        if stored.status_code != 200 or stored.json()["transcript"] != words(fact):
            report.lost_turns.append(fact)
    return found


def _compare(world: Path, found: dict[str, str], report: KillReport) -> None:
    async def indexed() -> set[str]:
        index = open_index(report.kind, world / "index", DIMENSIONS, WordVectors.fingerprint)
        await index.open()
        try:
            return await index.ids()
        finally:
            await index.close()

    vectors = asyncio.run(indexed())
    report.vectors = len(vectors)
    report.without_vector = len(found.keys() - vectors)
    report.without_memory = len(vectors - found.keys())
    report.moved_aside = len(list(world.glob("index.damaged-*")))


def _client(url: str, token: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token}", "Device-Id": "desk"}
    return httpx2.Client(base_url=url, headers=headers, timeout=60)


def promises(reports: list[KillReport]) -> list[Promise]:
    lost = {one.kind: one.lost_turns for one in reports}
    unremembered = {one.kind: one.unremembered for one in reports}
    doubled = {one.kind: one.doubled for one in reports}
    vectors = {one.kind: (one.vectors, one.without_vector, one.without_memory, one.moved_aside) for one in reports}
    work = {one.kind: (one.pending, one.parked, one.problem) for one in reports}
    runs = {one.kind: {k: v for k, v in asdict(one).items() if isinstance(v, int | float)} for one in reports}
    return [
        Promise("no_turn_lost", "No acknowledged turn is lost.", not any(lost.values()), {**runs, "lost": lost}),
        Promise(
            "all_remembered",
            "Every acknowledged fact is in a memory.",
            all(not one.unremembered and one.acknowledged <= one.remembered <= one.said for one in reports),
            {"missing": unremembered},
        ),
        Promise("nothing_twice", "No memory is there twice.", not any(doubled.values()), {"twice": doubled}),
        Promise(
            "index_agrees",
            "Every memory has its vector, no vector is without its memory, and no kill is taken for damage.",
            all(not (one.without_vector or one.without_memory or one.moved_aside) for one in reports),
            {"vectors, missing, too many, moved aside": vectors},
        ),
        Promise(
            "work_resumes",
            "What waited is done, nothing is given up.",
            all(not (one.pending or one.parked or one.problem) for one in reports),
            {"pending, parked, problem of the index": work},
        ),
    ]


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """Kill `count` servers, half of them with each kind of index on this machine."""
    reports: list[KillReport] = []
    for kind, kills in zip(KINDS, (count - count // 2, count // 2), strict=True):
        done = sum(one.kills for one in reports)
        if kills:
            told = lambda now, total, done=done: on_progress(done + now, count)  # noqa: E731
            reports.append(survive_kills(folder / kind, kind, kills, seed + done, told))
    return promises(reports)
