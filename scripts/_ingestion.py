"""Labelled conversations taken in by the server's own ingestion, and the figures that follow.

`take_in` stores a conversation in a world of its own and lets the memory worker do its jobs; `judge` compares what is
there then with the labels, and is pure. Knows no table and no command line.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _bench import wilson_interval
from _topic_cuts import boundary_score, fixed_windows

from server.engines.base import EmbeddingEngine, LlmDelta, LlmEngine, LlmMessage, LlmRequest, ToolSpec
from server.memory.dates import named_days
from server.memory.index.factory import open_index
from server.memory.indexer import Indexer
from server.memory.ingest import Ingestor
from server.memory.keeper import Keeper
from server.memory.numbers import values
from server.memory.worker import MemoryWorker, TurnGate
from server.storage import memory_lookup, segments
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.memory_records import Memory
from server.storage.sessions import close_session, open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn
from server.storage.words import entity_key

LANGUAGES = ("ja", "en")
WINDOWS = (4, 6)
CHANNEL, ZONE, PERSONA = "stackchan:bench", "Asia/Tokyo", "bench"
SECONDS_BETWEEN = 20
_LATER = (dt.timedelta(days=3 * 366 + 40), dt.timedelta(days=4 * 366 + 85))
"""A memory is read when 昨日 means another day."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is to be kept. `exchange`: where it was said, from 0. Fields as in tests/data/ingestion/README.md."""

    memory_type: str
    exchange: int
    optional: bool
    keys: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]
    days: tuple[dt.date, dt.date] | None
    corrected: str | None

    @property
    def exact(self) -> bool:
        """Whether it has a number or a day, which must be kept exactly."""
        return bool(self.numbers or self.days)


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    language: str
    said_at: dt.datetime
    exchanges: tuple[Mapping[str, Any], ...]
    facts: tuple[Fact, ...]

    @property
    def boundaries(self) -> set[int]:
        return {place for place, said in enumerate(self.exchanges) if place and "begins" in said}

    @property
    def filler(self) -> set[int]:
        return {place for place, said in enumerate(self.exchanges) if said["filler"]}


@dataclass(frozen=True, slots=True)
class Kept:
    """An active memory, with the exchanges (from 0) that it has as sources."""

    memory_type: str
    topic: str
    summary: str
    entities: tuple[str, ...]
    confidence: str
    sources: frozenset[int]

    @property
    def text(self) -> str:
        return f"{self.topic}\n{self.summary}\n{' '.join(self.entities)}"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a conversation. `begins`: exchanges that begin a segment, from 0."""

    conversation: Conversation
    begins: tuple[int, ...]
    kept: tuple[Kept, ...]
    superseded: int = 0
    failed_jobs: int = 0
    llm_calls: int = 0
    llm_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """`facts`: for each, whether a memory from the right turn holds it."""

    taken: TakenIn
    facts: tuple[bool, ...]
    touched: tuple[bool, ...]
    """For each fact, whether a memory from the right turn holds its words, its numbers right or not."""
    right: tuple[bool, ...]
    """For each memory, whether it holds a fact."""
    stale: int
    """Memories that state what was taken back, without what is right."""
    excluded: frozenset[int] = field(default_factory=frozenset)
    """Exchanges that no memory has as its source."""


def read_conversations(path: Path, language: str | None = None, limit: int | None = None) -> list[Conversation]:
    """The labelled conversations of a file; `limit`: at most so many a language."""
    found = [_conversation(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    chosen: list[Conversation] = []
    for of in LANGUAGES:
        if language in (None, of):
            chosen += [one for one in found if one.language == of][:limit]
    return chosen


def _conversation(read: Mapping[str, Any]) -> Conversation:
    def fact(one: Mapping[str, Any]) -> Fact:
        days = one["days"] and tuple(dt.date.fromisoformat(day) for day in one["days"])
        keys = tuple(tuple(group) for group in one["keys"])
        where = one["exchange"] - 1
        return Fact(one["memory_type"], where, one["optional"], keys, tuple(one["numbers"]), days, one["corrected"])

    at = dt.datetime.fromisoformat(read["said_at"])
    return Conversation(read["id"], read["language"], at, tuple(read["exchanges"]), tuple(map(fact, read["facts"])))


class CountingLlm:
    """A started engine, with its calls and their seconds counted."""

    name = "counting"

    def __init__(self, engine: LlmEngine, monotonic: Callable[[], float] = time.perf_counter) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self.capabilities = engine.capabilities
        self.calls = 0
        self.seconds = 0.0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        self.calls += 1
        started = self._monotonic()
        try:
            async with aclosing(self._engine.generate(request)) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            self.seconds += self._monotonic() - started

    async def count_tokens(self, text: str) -> int:
        return await self._engine.count_tokens(text)

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None: ...
    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None: ...


async def take_in(
    conversation: Conversation,
    folder: Path,
    llm: LlmEngine,
    embedding: EmbeddingEngine,
    *,
    quotes: bool | None = None,
) -> TakenIn:
    """The conversation in a new world in `folder`, its session over and all its jobs done once.

    `quotes`: as `Ingestor` has it.
    """
    counting = CountingLlm(llm)
    over_at = conversation.said_at + dt.timedelta(hours=1)

    def clock() -> dt.datetime:
        return over_at.astimezone(dt.UTC)

    async with await Databases.open(folder, "bench") as databases:
        session_id = await _say(databases, conversation)
        index = open_index("local", folder / "index", embedding.fingerprint.dimensions, embedding.fingerprint)
        await index.open()
        keeper = Keeper(databases, index, embedding, clock=clock)
        indexer = Indexer(databases, index, embedding, clock=clock)
        ingestor = Ingestor(databases, counting, embedding, keeper, clock=clock, quotes=quotes)
        work = {
            "ingest": ingestor.ingest,
            "index": indexer.index_memory,
            "unindex": indexer.unindex_memory,
            "scrub": keeper.scrub,
        }
        worker = MemoryWorker(databases, work, TurnGate(), clock=clock)  # type: ignore[arg-type]
        started = time.perf_counter()
        await worker.start()
        try:
            await worker.session_ended(session_id)
            await worker.idle()
            seconds = time.perf_counter() - started
            statistics = await worker.statistics()
        finally:
            await worker.close()
            await index.close()
        async with databases.world(write=False) as db:
            cut = await segments.segments_of(db, session_id)
            every = await memory_lookup.page(db, limit=1000)
    active = [one for one in every if one.status == "active"]
    return TakenIn(
        conversation,
        tuple(one.turn_ids[0] - 1 for one in cut),
        tuple(map(_kept, active)),
        superseded=len(every) - len(active),
        failed_jobs=sum(statistics.failed.values()),
        llm_calls=counting.calls,
        llm_seconds=counting.seconds,
        seconds=seconds,
    )


def _kept(memory: Memory) -> Kept:
    # Source turns are numbered as they were said: the user's of exchange n is 2n + 1, the robot's 2n + 2.
    sources = frozenset((one - 1) // 2 for one in memory.source_turn_ids)
    return Kept(memory.memory_type, memory.topic, memory.summary, memory.entities, memory.confidence, sources)


async def _say(databases: Databases, conversation: Conversation) -> str:
    async with databases.world() as db:
        at = conversation.said_at.astimezone(dt.UTC)
        await ensure_channel(db, CHANNEL, kind="stackchan", now=at, private=False)
        idle = dt.timedelta(minutes=10)
        opened = await open_session(db, channel_id=CHANNEL, device_id="bench", now=at, idle_close=idle)
        for place, said in enumerate(conversation.exchanges):
            at = conversation.said_at.astimezone(dt.UTC) + dt.timedelta(seconds=SECONDS_BETWEEN * place)
            spoken: dict[str, Any] = {"language": conversation.language, "said_at": at, "zone": ZONE}
            await create_turn(
                db,
                turn_id=place + 1,
                session_id=opened.session_id,
                channel_id=CHANNEL,
                device_id="bench",
                input_kind="audio",
                persona_id=PERSONA,
                started_at=at,
            )
            speaker = said.get("speaker")
            await add_user_turn(db, place + 1, 2 * place + 1, text=said["user"], speaker_id=speaker, **spoken)
            words = RobotWords(2 * place + 2, said["robot"], **spoken)
            await finish_turn(db, place + 1, outcome="ok", ended_at=at, robot=words)
        await close_session(db, opened.session_id, now=at)
    return opened.session_id


def judge(taken: TakenIn) -> Judged:
    """What of the labels is in what was kept."""
    talk = taken.conversation
    said_on = talk.said_at.date()
    facts, touched = [], []
    holds: set[int] = set()
    stale: set[int] = set()
    for fact in talk.facts:
        near = [place for place, one in enumerate(taken.kept) if fact.exchange in one.sources and _named(fact, one)]
        exactly = [place for place in near if _exact(fact, taken.kept[place], said_on)]
        holds.update(exactly)
        facts.append(bool(exactly))
        touched.append(bool(near))
        if fact.corrected:
            wrong, right = values(fact.corrected), {one for number in fact.numbers for one in values(number)}
            stale.update(
                place
                for place, one in enumerate(taken.kept)
                if wrong <= values(one.text) and not right <= values(one.text)
            )
    kept_from = {place for one in taken.kept for place in one.sources}
    return Judged(
        taken,
        tuple(facts),
        tuple(touched),
        tuple(place in holds for place in range(len(taken.kept))),
        len(stale),
        frozenset(range(len(talk.exchanges))) - kept_from,
    )


def _named(fact: Fact, kept: Kept) -> bool:
    text = entity_key(kept.text)
    return all(any(entity_key(key) in text for key in group) for group in fact.keys)


def _exact(fact: Fact, kept: Kept, said_on: dt.date) -> bool:
    if not all(values(number) <= values(kept.text) for number in fact.numbers):
        return False
    if fact.days is None:
        return True
    readings = [named_days(kept.text, said_on + later) for later in _LATER]
    if any((one.first, one.last) == fact.days for one in readings[0]):
        return True
    # 12月3日, whose year is another matter; not 来月, which is another month then.
    yearless = [
        {_month_days(one.first, one.last) for one in some if not any(sign in one.said for sign in ("年", "20"))}
        for some in readings
    ]
    return _month_days(*fact.days) in set.intersection(*yearless)


def _month_days(*days: dt.date) -> tuple[tuple[int, int], ...]:
    return tuple((day.month, day.day) for day in days)


def share(hits: int, count: int) -> dict[str, Any]:
    """Hits of a count, with the percentage and its 95 % interval; no percentage where nothing was counted."""
    low, high = wilson_interval(hits, count)
    percent = round(100 * hits / count, 1) if count else None
    return {"hits": hits, "of": count, "percent": percent, "interval": [round(100 * low, 1), round(100 * high, 1)]}


def summarise(judged: Sequence[Judged]) -> dict[str, Any]:
    """The figures of each language, and of all where there are several."""
    languages = [of for of in LANGUAGES if any(one.taken.conversation.language == of for one in judged)]
    groups = {of: [one for one in judged if one.taken.conversation.language == of] for of in languages}
    if len(languages) > 1:
        groups["all"] = list(judged)
    return {name: _figures(some) for name, some in groups.items()}


def _figures(judged: Sequence[Judged]) -> dict[str, Any]:
    taken = [one.taken for one in judged]
    kept = [kept for one in taken for kept in one.kept]
    wanted = [
        (held, touched, fact)
        for one in judged
        for held, touched, fact in zip(one.facts, one.touched, one.taken.conversation.facts, strict=True)
        if not fact.optional
    ]
    exact = [(held, touched) for held, touched, fact in wanted if fact.exact]
    excluded = sum(len(one.excluded) for one in judged)
    filler = sum(len(one.taken.conversation.filler) for one in judged)
    excluded_filler = sum(len(one.excluded & one.taken.conversation.filler) for one in judged)
    exchanges = sum(len(one.conversation.exchanges) for one in taken)
    return {
        "conversations": len(taken),
        "exchanges": exchanges,
        "boundary_f1": boundaries(taken),
        "filler_precision": share(excluded_filler, excluded),
        "filler_recall": share(excluded_filler, filler),
        "facts_precision": share(sum(sum(one.right) for one in judged), len(kept)),
        "facts_recall": share(sum(held for held, _, _ in wanted), len(wanted)),
        "exact": share(sum(held for held, _ in exact), sum(touched for _, touched in exact)),
        "inferred": share(sum(one.confidence == "inferred" for one in kept), len(kept)),
        "recall_by_type": {
            kind: share(
                sum(held for held, _, fact in wanted if fact.memory_type == kind),
                sum(fact.memory_type == kind for _, _, fact in wanted),
            )
            for kind in dict.fromkeys(fact.memory_type for _, _, fact in wanted)
        },
        "stale": sum(one.stale for one in judged),
        "superseded": sum(one.superseded for one in taken),
        "failed_jobs": sum(one.failed_jobs for one in taken),
        "llm_calls_per_exchange": round(sum(one.llm_calls for one in taken) / exchanges, 2),
        "llm_seconds_per_exchange": round(sum(one.llm_seconds for one in taken) / exchanges, 2),
        "seconds_per_exchange": round(sum(one.seconds for one in taken) / exchanges, 2),
    }


def boundaries(taken: Sequence[TakenIn]) -> dict[str, Any]:
    """F1 of all boundaries together, in percent, found and with windows of a fixed size."""
    ways: dict[str, Callable[[TakenIn], Iterable[int]]] = {"found": lambda one: one.begins}
    for size in WINDOWS:
        ways[f"windows_of_{size}"] = lambda one, size=size: [  # type: ignore[misc]
            part.start for part in fixed_windows(len(one.conversation.exchanges), size)
        ]
    right = _together(one.conversation.boundaries for one in taken)
    return {
        name: round(100 * boundary_score(_together(map(begins, taken)), right).f1, 1) for name, begins in ways.items()
    }


def _together(conversations: Iterable[Iterable[int]]) -> set[int]:
    """Boundaries of several conversations as if they were one."""
    return {1000 * number + one for number, some in enumerate(conversations) for one in some if one}
