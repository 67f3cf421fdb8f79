"""Takes a session in: its exchanges cut into segments, each summarized, checked and handed to the keeper.

The work of an `ingest` job. Each segment is kept in a transaction of its own, so a stop in between loses none and
repeats none. Knows no lease rules, no ranking and no rule about older memories.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from server.engines.base import EmbeddingEngine, LlmEngine, LlmRequest, LlmText
from server.errors import LlmError
from server.memory.check import Problems, Said, check, is_correction, is_filler
from server.memory.content import is_supposed
from server.memory.contradiction import Proposal
from server.memory.dates import named_days
from server.memory.keeper import Keeper
from server.memory.leases import Clock, finish, holding
from server.memory.matters import one_matter_each
from server.memory.prompts import Draft, SpokenExchange, read_summary, repair_request, summary_request
from server.memory.quoting import quoted
from server.memory.restating import PutRight, puts_right
from server.memory.said_days import lasting
from server.memory.segment import SegmentRecipe, closed_segments, recipe_for
from server.memory.topic_words import topics_begin
from server.storage import jobs, memories, segments, sessions
from server.storage.database import Databases
from server.storage.memory_ids import MEMORY_ID
from server.storage.memory_records import Job, NewMemory, OpenExchange
from server.storage.recall_tables import Confidence
from server.storage.records import SourceTurn
from server.storage.words import entity_key

_EXCHANGES_LIMIT = 60
"""Of one session in one go; the rest follows in the next."""
_MEMORY_ID = re.compile(MEMORY_ID)
_MOST_RECALLED = 8
_DEVICE_TOOLS = frozenset(("set_timer", "cancel_timer", "list_timers", "set_volume", "mute_microphone"))
UTTERANCE_CHARACTERS = 2_000
"""So much of an utterance is looked at for memories: some minutes of speech. What is longer was pasted, and takes the
rules a time that grows with its square."""


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """`idle_close`: a session silent for so long is over."""

    idle_close: dt.timedelta = dt.timedelta(minutes=10)
    lease_seconds: float = 120.0
    summary_timeout_seconds: float = 90.0


class Ingestor:
    """`segmenting` None: what suits the embedding model. `quotes`: memories are the user's own words (`quoting.py`),
    not summaries; None: when the language model is a small one (`wants_examples`), whose summaries are mostly wrong.

    `after_asking`: called when a job has used the language model, as to read the conversation's prompt back into a
    cache that holds only one. Not when a turn broke the job off: it reads its own prompt then.
    """

    def __init__(
        self,
        databases: Databases,
        llm: LlmEngine,
        embedding: EmbeddingEngine,
        keeper: Keeper,
        *,
        clock: Clock,
        segmenting: SegmentRecipe | None = None,
        quotes: bool | None = None,
        after_asking: Callable[[], Awaitable[None]] | None = None,
        limits: IngestLimits = IngestLimits(),
    ) -> None:
        self._databases = databases
        self._llm = llm
        self._embedding = embedding
        self._keeper = keeper
        self._clock = clock
        self._segmenting = segmenting or recipe_for(embedding.fingerprint.model)
        self._quotes = llm.capabilities.wants_examples if quotes is None else quotes
        self._limits = limits
        self._after_asking = after_asking

    async def ingest(self, job: Job) -> None:
        """Take in what is over of the session `job.subject`; what is still open waits for its end in the same job.

        Raises `LlmError`, `EmbeddingError`, `StorageError`, `LeaseLost`.
        """
        async with self._databases.world(write=False) as db:
            session = await sessions.get_session(db, job.subject)
            exchanges = await segments.open_exchanges(db, job.subject, limit=_EXCHANGES_LIMIT)
            private = await segments.privately_spoken(db, job.subject) if exchanges else []
        again_at: dt.datetime | None = None
        if session is not None and exchanges:
            over_at = session.last_active_at + self._limits.idle_close
            more = len(exchanges) == _EXCHANGES_LIMIT
            ended = not more and (session.closed_at is not None or over_at <= self._clock())
            taken = 0
            asked = False
            for part in await self._segments(exchanges, ended=ended):
                before = exchanges[taken - 1] if taken else None
                there = present(private, part)
                asked = await self._take_in(job, part, before, there) or asked
                taken += len(part)
            if asked and self._after_asking is not None:
                await self._after_asking()
            if taken < len(exchanges) or more:
                again_at = self._clock() if more and taken else over_at
        async with self._databases.world() as db:
            await finish(db, job)
            if again_at is not None:
                await jobs.enqueue(db, "ingest", job.subject, now=self._clock(), not_before=again_at)

    async def _segments(self, exchanges: Sequence[OpenExchange], *, ended: bool) -> list[Sequence[OpenExchange]]:
        # One character's memories, and what is private, never mix with others.
        breaks = {
            place for place in range(1, len(exchanges)) if _whose(exchanges[place]) != _whose(exchanges[place - 1])
        }
        said = [one.user.text for one in exchanges]
        language = Counter(one.user.language for one in exchanges).most_common(1)[0][0]
        cut = await topics(said, self._embedding, self._segmenting, ended=ended, breaks=breaks, language=language)
        return [exchanges[part.start : part.stop] for part in cut]

    async def _take_in(
        self, job: Job, part: Sequence[OpenExchange], before: OpenExchange | None, there: Sequence[str]
    ) -> bool:
        """Whether the summarizer was asked. `before`: the exchange right before the segment, of the one before it.
        `there`: who heard it.
        """
        proposals: list[Proposal] = []
        if telling := not is_filler([one.user.text for one in part]):
            recalled = _recalled(part)
            answering = [_told_before(one, earlier) for one, earlier in zip(part, (before, *part), strict=False)]
            for draft, problems in await self._drafts(part):
                # Of a memory about several things the value alone does not say which it is about.
                told = next((answering[place] for place in reversed(draft.about) if answering[place]), ())
                made = _proposal(part, draft, problems, tuple(dict.fromkeys((*told, *recalled))), there)
                first = next((place for place in draft.about if answering[place]), draft.about[-1])
                asked = part[first - 1] if first else before
                proposals.append(_answering(replace(made, told=told), asked))
        hold = holding(job, self._clock, self._limits.lease_seconds)
        await self._keeper.keep(job.subject, [one.turn_id for one in part], proposals, hold)
        return telling and not self._quotes

    async def _drafts(self, part: Sequence[OpenExchange]) -> list[tuple[Draft, Problems]]:
        """The memories of a segment with what in them was not said, after one chance to put it right."""
        shown = [_shown(one) for one in part]
        language = Counter(one.user.language for one in part).most_common(1)[0][0]
        if self._quotes:
            # Rules over a long text keep the processor busy for tenths of a second; others talk meanwhile.
            quotes = await asyncio.to_thread(quoted, shown, language)
            return [_checked(draft, shown, language) for draft in quotes]
        request = summary_request(shown, language)
        written = await self._ask(request)
        drafts = _checked_apart(read_summary(written, len(part)), shown, language)
        if wrong := [word for _, problems in drafts for word in problems.words()]:
            again = await self._ask(repair_request(request, written, list(dict.fromkeys(wrong)), language))
            repaired = _checked_apart(_read_or_nothing(again, len(part)), shown, language)
            # Nothing left is no repair: what was noted first is kept as inferred.
            if repaired and sum(len(found.words()) for _, found in repaired) < len(wrong):
                drafts = repaired
        return drafts

    async def _ask(self, request: LlmRequest) -> str:
        text = ""
        try:
            async with (
                asyncio.timeout(self._limits.summary_timeout_seconds),
                aclosing(self._llm.generate(request)) as deltas,
            ):
                async for delta in deltas:
                    if isinstance(delta, LlmText):
                        text += delta.text
        except TimeoutError:
            raise LlmError("The summarizer took too long.", code="llm_timeout", retryable=True) from None
        return text


async def topics(
    said: Sequence[str],
    embedding: EmbeddingEngine,
    recipe: SegmentRecipe,
    *,
    ended: bool,
    breaks: Collection[int] = (),
    language: str = "",
) -> list[range]:
    """`closed_segments` of what the user said, an utterance an exchange. `language`: as `topics_begin` has it.

    Raises `EmbeddingError`.

    The user's words alone: a robot's answers are alike whatever the topic.
    """
    vectors = len(said) if recipe.drop is None else await embedding.embed_documents(said)
    shown = [text[:UTTERANCE_CHARACTERS] for text in said]
    light = {place for place, text in enumerate(shown) if is_filler([text])}
    begun = await asyncio.to_thread(topics_begin, shown, language)
    return closed_segments(vectors, recipe, ended=ended, breaks={*breaks, *begun}, light=light)


def _shown(exchange: OpenExchange) -> SpokenExchange:
    """What the summarizer may see: no words that came from a tool or from memory, and no apology."""
    robot = exchange.robot
    own = robot is not None and not robot.tool_calls and exchange.outcome != "failed"
    said = exchange.user.text[:UTTERANCE_CHARACTERS]
    words = robot.text if robot is not None and own else None
    called = robot.tool_calls if robot is not None and isinstance(robot.tool_calls, list) else ()
    ordered = any(isinstance(call, dict) and call.get("name") in _DEVICE_TOOLS for call in called)
    return SpokenExchange(said, words, _day(exchange), exchange.user.speaker_id, ordered)


def _checked_apart(
    drafts: Sequence[Draft], shown: Sequence[SpokenExchange], language: str
) -> list[tuple[Draft, Problems]]:
    """Summaries as `_checked`, one of each matter."""
    return [
        _checked(one, shown, language) for draft in drafts for one in one_matter_each(draft, shown[draft.about[-1]].on)
    ]


def _checked(draft: Draft, shown: Sequence[SpokenExchange], language: str) -> tuple[Draft, Problems]:
    """The draft with lasting dates and all exchanges that it is about, and what it holds that nobody said."""
    said_on = shown[draft.about[-1]].on
    topic, summary = (lasting(text, said_on, language) for text in (draft.topic, draft.summary))
    draft = replace(draft, topic=topic, summary=summary)
    problems = _problems(draft, shown)
    for place in range(len(shown)):
        if not problems:
            break
        if place not in draft.about:
            # A name said before, and only meant here, makes that exchange a source too.
            wider = replace(draft, about=tuple(sorted((*draft.about, place))))
            found = _problems(wider, shown)
            if len(found.words()) < len(problems.words()):
                draft, problems = wider, found
    return draft, problems


def _problems(draft: Draft, shown: Sequence[SpokenExchange]) -> Problems:
    said = []
    for place in draft.about:
        said.append(Said(shown[place].user, shown[place].on))
        if robot := shown[place].robot:
            said.append(Said(robot, shown[place].on))
    return check(draft.topic, draft.summary, draft.entities, said)


def proposals_of(exchange: OpenExchange, words: str) -> list[Proposal]:
    """What these words of an exchange tell, quoted, without asking any model."""
    user = replace(exchange.user, text=words)
    alone = replace(exchange, user=user)
    shown = [SpokenExchange(words, None, _day(alone), user.speaker_id)]
    drafts = [_checked(draft, shown, user.language) for draft in quoted(shown, user.language)]
    return [_proposal([alone], draft, problems, (), ()) for draft, problems in drafts]


def _proposal(
    part: Sequence[OpenExchange], draft: Draft, problems: Problems, recalled: tuple[str, ...], there: Sequence[str]
) -> Proposal:
    about = [part[place] for place in draft.about]
    last = about[-1].user
    unsaid = {entity_key(name) for name in problems.entities}
    confidence: Confidence = "inferred" if problems else "said"
    sources = [
        said.source_turn_id
        for one, shown in zip(about, map(_shown, about), strict=True)
        for said in (one.user, one.robot if shown.robot else None)
        if said is not None
    ]
    memory = NewMemory(
        memory_id=memories.new_memory_id(),
        topic=draft.topic,
        summary=draft.summary,
        # A name nobody said would be listened for, and would tie this to what it has nothing to do with.
        entities=tuple(name for name in draft.entities if entity_key(name) not in unsaid),
        memory_type=draft.memory_type,
        occurred_at=_occurred_at(draft, about[-1]),
        zone=last.zone,
        language=last.language,
        speakers=tuple(dict.fromkeys((*filter(None, (one.user.speaker_id for one in about)), *there))),
        confidence=confidence,
        importance=draft.importance,
        persona_id=about[-1].persona_id,
        channel_id=last.channel_id,
        visibility=last.visibility,
        source_turn_ids=tuple(sources),
    )
    put_right = PutRight(last.text, _day(about[-1]), last.language) if draft.value_only else None
    corrects = any(is_correction(one.user.text) and not is_supposed(one.user.text) for one in about)
    return Proposal(memory, corrects, recalled, put_right=put_right)


def present(spoken: Sequence[SourceTurn], part: Sequence[OpenExchange]) -> tuple[str, ...]:
    """Whose a private part is beside who said it: of those who spoke before it in that room, who also did after it.

    `spoken`: in private rooms, in the whole session so far, when ever it was taken in. Who came later was not there.
    What belongs to the house belongs to nobody, and there only who said it is noted.
    """
    first, last = part[0], part[-1]
    if first.user.visibility != "private":
        return ()
    room = [one for one in spoken if one.channel_id == first.user.channel_id and one.speaker_id is not None]
    after = {one.speaker_id for one in room if one.turn_id > last.turn_id}
    before = dict.fromkeys(one.speaker_id for one in room if one.turn_id < first.turn_id)
    return tuple(name for name in before if name in after and name is not None)


def _answering(proposal: Proposal, asked: OpenExchange | None) -> Proposal:
    """With what was asked and answered before: which memory is meant, and which of its values."""
    if asked is None:
        return proposal
    said = proposal.put_right
    if said is not None:
        said = replace(said, asked=asked.user.text, told=asked.robot.text if asked.robot else "")
    recalled = bool(_recalled([asked]))
    return replace(proposal, put_right=said, asked=asked.user.text if recalled else "")


def _occurred_at(draft: Draft, last: OpenExchange) -> dt.datetime:
    """When it was said; of an event that names one day in the past, noon of that day."""
    said_on = _day(last)
    days = {(one.first, one.last) for one in named_days(draft.summary, said_on)}
    if draft.memory_type == "episode" and len(days) == 1:
        first, until = days.pop()
        if first == until and first < said_on:
            return dt.datetime.combine(first, dt.time(12), ZoneInfo(last.user.zone))
    return last.user.said_at


def _read_or_nothing(text: str, exchanges: int) -> tuple[Draft, ...]:
    try:
        return read_summary(text, exchanges)
    except LlmError:  # the first answer was readable and stands
        return ()


def _recalled(part: Sequence[OpenExchange]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in part:
        if one.robot is not None and one.robot.tool_calls:
            found |= dict.fromkeys(_MEMORY_ID.findall(json.dumps(one.robot.tool_calls)))
    return tuple(found)[:_MOST_RECALLED]


def _told_before(one: OpenExchange, before: OpenExchange | None) -> tuple[str, ...]:
    """Memories that the robot told right before words that give a value and nothing else."""
    if before is None or _whose(before) != _whose(one) or not puts_right(one.user.text):
        return ()
    return _recalled([before])


def _whose(exchange: OpenExchange) -> tuple[str, str, str | None]:
    private = exchange.user.visibility == "private"
    return exchange.persona_id, exchange.user.visibility, exchange.user.speaker_id if private else None


def _day(exchange: OpenExchange) -> dt.date:
    return exchange.user.said_at.astimezone(ZoneInfo(exchange.user.zone)).date()
