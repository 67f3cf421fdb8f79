"""Which memories a request to forget means: for certain, perhaps, or not.

What is gone is gone, and what is left by mistake is told as forgotten. So there are three answers: what is certain,
what may be meant too (then nothing is forgotten before the user has said which), and what only has the same word and is
told as still remembered. Compared are words, whose it is, what came up in the last turns, and how near a search found
it. Pure; finds, asks and forgets nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from zoneinfo import ZoneInfo

from server.memory.dates import DateRange, named_days
from server.memory.meant_words import (
    all_words,
    described,
    lacks_what_is_asked,
    mentions,
    of_ones_own,
    owners,
    points,
    things,
    wanted_phrase,
    wants_everything,
)
from server.memory.numbers import quantities
from server.memory.telling import asks, sentences
from server.storage.memory_records import Memory


@dataclass(frozen=True, slots=True)
class Thing:
    """A memory, or an exchange that is in no memory yet, which may be meant."""

    text: str
    words: frozenset[str]
    things: frozenset[str]
    owners: frozenset[str]
    memory: Memory | None = None
    turn_id: int = 0
    """Of an exchange that is no memory yet."""
    near: bool = False
    """As far as a search by meaning tells, it may be about what was asked for."""
    of_others: bool = False
    """It was told by somebody else than who asks."""

    @property
    def key(self) -> str:
        return self.memory.memory_id if self.memory is not None else f"turn {self.turn_id}"


def memory_thing(memory: Memory, *, near: bool = False, of_others: bool = False) -> Thing:
    text = "\n".join([memory.summary, memory.topic, *memory.entities])
    return replace(_thing(text, memory.entities), memory=memory, near=near, of_others=of_others)


def turn_thing(turn_id: int, said: str) -> Thing:
    """What a user said in an exchange."""
    return replace(_thing(said, ()), turn_id=turn_id)


def _thing(text: str, names: Sequence[str]) -> Thing:
    return Thing(text, all_words(text), frozenset(things(text, names)), owners(text))


@dataclass(frozen=True, slots=True)
class RecentTurn:
    """One of the last turns of the conversation in progress. `shown`: in the order the model was shown them."""

    user: str
    robot: str
    shown: tuple[Memory, ...] = ()
    read: frozenset[str] = frozenset()
    """Memories whose exact words were read."""
    told: tuple[Thing, ...] = ()
    """What the user told in it: the exchange, or the memories that were made of it."""
    asked: bool = False
    """The user asked something, and told nothing."""
    corrects: bool = False
    """What was said corrects something and names nothing: it goes with what it corrects."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for. `wanted`: words of `wanted_words`, in order."""

    text: str
    wanted: tuple[str, ...]
    owners: frozenset[str] = frozenset()
    everything: bool = False
    points: bool = False
    own: bool = False
    days: tuple[DateRange, ...] = ()
    """Days on which it was said, or which it is about."""


def request_of(text: str, wanted: Sequence[str], on: dt.date | None = None) -> Request:
    """`on`: the day on which it is asked."""
    days = named_days(text, on) if on is not None else ()
    return Request(
        text, tuple(wanted), owners(text), wants_everything(text), points(text), of_ones_own(text), tuple(days)
    )


@dataclass(frozen=True, slots=True)
class Meant:
    """`certain`: to be forgotten, the best first. `perhaps`: to be asked about. `left`: only has the same word."""

    certain: tuple[Thing, ...] = ()
    perhaps: tuple[Thing, ...] = ()
    left: tuple[Thing, ...] = field(default=())


_MOST_AT_ONCE = 3
"""More than these go together only when all is asked for; else the user is asked first."""


class _Relation(IntEnum):
    NONE = 0
    LEFT = 1
    PERHAPS = 2
    SAME = 3


def meant(request: Request, pool: Sequence[Thing], recent: Sequence[RecentTurn] = ()) -> Meant:
    """What of `pool`, best first, is meant. `recent`: the last turns, newest last."""
    request = replace(request, wanted=_split(request.wanted, pool))
    known = {one.key: one for one in pool}
    anchors = [
        replace(known.get(one.key, one), near=one.near) if one.near else known.get(one.key, one)
        for one in came_up(request, recent)
    ]
    if not request.wanted:
        return _pointed_at(request, anchors, pool, recent)
    if any(covered(request, one) or one.near for one in anchors):
        return _with_companions(request, anchors, pool, anchored=True)
    by_word = [one for one in pool if covered(request, one)]
    if anchors:
        # Talked of in one breath with it, but neither its words nor its meaning say that it is the same.
        return Meant(perhaps=tuple({one.key: one for one in (*by_word, *anchors)}.values()))
    if not by_word:
        return Meant(perhaps=tuple(one for one in pool if one.near))
    # Stable: the search's order stays among equals.
    by_word.sort(key=lambda one: (_is_other(request, one), _is_anothers(request, one, ()), -len(covered(request, one))))
    return _with_companions(request, by_word[:1], pool, anchored=False)


def _pointed_at(request: Request, anchors: list[Thing], pool: Sequence[Thing], recent: Sequence[RecentTurn]) -> Meant:
    """What is meant by words that name nothing."""
    if request.days and not request.points:
        return Meant(perhaps=tuple(one for one in pool if _on_its_days(request, one)))
    if not request.everything:
        return _with_companions(request, anchors, pool, anchored=True) if anchors else Meant()
    if not request.points:
        return Meant()
    of_all = {one.key: one for place in range(len(recent)) for one in came_up(request, recent[: len(recent) - place])}
    return Meant(tuple(anchors), tuple(one for key, one in of_all.items() if key not in {it.key for it in anchors}))


def came_up(request: Request, recent: Sequence[RecentTurn]) -> list[Thing]:
    """What the newest turn that has to do with the request was about, with what has corrected it since."""
    since: list[Thing] = []
    for turn in reversed(recent):
        said = f"{turn.user}\n{turn.robot}"
        found = _used(turn, said)
        told = [one for one in turn.told if not turn.corrects]
        if turn.corrects:
            since += turn.told
        words = all_words(said)
        if not request.wanted:
            # Who tells something points at that, whatever the robot thought of.
            found = told or found
        elif covering := [one for one in (*found, *told) if covered(request, one)]:
            found = covering
        elif not any(mentions(one, said, words) for one in request.wanted):
            found = []
        elif turn.asked and any(mentions(one, turn.user, all_words(turn.user)) for one in request.wanted):
            # The answer was made from it: what was asked about is what it is about, by whatever word.
            found = [replace(one, near=True) for one in found if _answers(one, turn.robot)]
        if found:
            return [*found, *since]
    return []


def _used(turn: RecentTurn, said: str) -> list[Thing]:
    """The memory that the robot's answer was made from."""
    words, numbers = frozenset(things(said)), quantities(turn.robot)
    best: tuple[int, Thing] | None = None
    for memory in turn.shown:
        one = memory_thing(memory)
        score = 2 * len(one.things & frozenset(things(turn.robot))) + len(one.things & words)
        score += 3 * len(quantities(memory.summary) & numbers) + 4 * (memory.memory_id in turn.read)
        if score and (best is None or score > best[0]):
            best = score, one
    return [best[1]] if best else []


def _answers(one: Thing, robot: str) -> bool:
    """Whether a robot's words tell what the memory tells."""
    memory = one.memory.summary if one.memory is not None else one.text
    return bool(quantities(memory) & quantities(robot)) or bool(one.things & frozenset(things(robot)))


def _with_companions(request: Request, best: list[Thing], pool: Sequence[Thing], *, anchored: bool) -> Meant:
    sorted_out: dict[_Relation, list[Thing]] = {relation: [] for relation in _Relation}
    keys = {one.key for one in best}
    for one in pool:
        if one.key not in keys:
            sorted_out[_relation(request, best, one, anchored=anchored)].append(one)
    certain = [*best, *sorted_out[_Relation.SAME]]
    doubtful = not anchored and _is_doubtful(request, best[0])
    # So much is not lost on one word.
    many = sum(one.memory is not None for one in certain) > _MOST_AT_ONCE
    doubtful = doubtful or (many and not request.everything)
    perhaps = [*(certain if doubtful else ()), *sorted_out[_Relation.PERHAPS]]
    return Meant(tuple(() if doubtful else certain), tuple(perhaps), tuple(sorted_out[_Relation.LEFT]))


def _is_doubtful(request: Request, best: Thing) -> bool:
    """Whether the best lacks what is asked for, most of its words, or is somebody else's."""
    return (
        _is_anothers(request, best, ())
        or _is_other(request, best)
        or (len(request.wanted) > 1 and 2 * len(covered(request, best)) < len(request.wanted))
    )


def _relation(request: Request, best: Sequence[Thing], one: Thing, *, anchored: bool) -> _Relation:
    has = covered(request, one)
    covered_by_best = set().union(*(covered(request, other) for other in best))
    whole = bool(has) and has >= covered_by_best
    shared = one.things & frozenset().union(*(other.things for other in best))
    if one.text == best[0].text:
        return _Relation.SAME
    if _is_anothers(request, one, best):
        if not has:
            return _Relation.NONE
        mine = anchored or request.own or request.owners or (one.of_others and not best[0].of_others)
        return _Relation.PERHAPS if whole and not mine else _Relation.LEFT
    if _is_other(request, one):
        return _Relation.LEFT if has else _Relation.NONE
    if len(covered_by_best) > 2 and 2 * len(has) < len(covered_by_best) and not shared - covered_by_best:
        return _Relation.NONE
    if request.everything and whole:
        return _Relation.SAME
    if has:
        head = request.wanted[-1]
        apart = _apart(request, best, one, head)
        if apart is None and whole:
            alike = bool(covered_by_best) or len(shared) > 0 or _is_asking(one)
            return _Relation.SAME if alike else _Relation.PERHAPS
        if whole:
            return _Relation.PERHAPS if apart is False or not anchored else _Relation.LEFT
        if head in has:
            return _Relation.LEFT if apart is not None else _Relation.PERHAPS
        return _Relation.NONE if request.owners else _Relation.PERHAPS
    if len(shared) > 1 and request.wanted:
        return _Relation.SAME if anchored and len(shared) > 2 else _Relation.PERHAPS
    if shared and request.wanted and not covered_by_best:
        return _Relation.PERHAPS
    if one.near and request.wanted:
        # By another word. What only asks about a thing is not the thing.
        return _Relation.PERHAPS if all(_is_asking(other) for other in best) else _Relation.LEFT
    return _Relation.NONE


def _is_asking(one: Thing) -> bool:
    return any(asks(sentence) for line in one.text.splitlines() for sentence in sentences(line))


def _apart(request: Request, best: Sequence[Thing], one: Thing, head: str) -> bool | None:
    """Whether two things of one kind are two: True when both are described, and otherwise. None: nothing tells."""
    mine, own = described(one.text, head)
    if own and request.owners:
        return True
    asked = frozenset(request.wanted) - {head}
    theirs = frozenset[str]().union(*(described(other.text, head)[0] for other in best))
    known = asked | theirs | frozenset[str]().union(*(other.words for other in best))
    if not mine or mine & known:
        return None
    return bool(theirs or asked)


def _is_anothers(request: Request, one: Thing, best: Sequence[Thing]) -> bool:
    """Whether it is of somebody who is not meant."""
    if one.of_others and not any(other.of_others for other in best):
        return True
    known = request.owners | frozenset(request.wanted) | frozenset().union(*(other.owners for other in best))
    return any(who not in known for who in one.owners)


def _is_other(request: Request, one: Thing) -> bool:
    """Whether it is of another day than is asked for, another side of the thing than its price or number, or another
    thing of its kind: an old car, not the new one.
    """
    if not request.wanted:
        return False
    if (request.days and not _on_its_days(request, one)) or lacks_what_is_asked(request.text, one.text):
        return True
    asked, mine = (described(text, request.wanted[-1])[0] for text in (request.text, one.text))
    return bool(asked and mine) and not asked & (mine | one.words)


def _on_its_days(request: Request, one: Thing) -> bool:
    if one.memory is None:
        return True
    day = one.memory.occurred_at.astimezone(ZoneInfo(one.memory.zone)).date()
    about = [(days.first, days.last) for days in named_days(one.text, day)]
    return any(
        days.days_away(day) == 0
        or any(days.days_away(first) == 0 or days.days_away(last) == 0 for first, last in about)
        for days in request.days
    )


def covered(request: Request, one: Thing) -> frozenset[str]:
    """The wanted words that it has."""
    return frozenset(word for word in request.wanted if mentions(word, one.text, one.words))


def _split(wanted: Sequence[str], pool: Sequence[Thing]) -> tuple[str, ...]:
    """Compounds that nothing has as a whole, in the parts that something has: 沖縄旅行."""
    found: list[str] = []
    for word in wanted:
        if word.isascii() or any(mentions(word, one.text, one.words) for one in pool):
            found.append(word)
            continue
        parts = {part for one in pool for part in one.words if len(part) > 1 and part in word}
        found += sorted(parts, key=word.find) or [word]
    return tuple(dict.fromkeys(found))


def to_search(query: str, words: str) -> tuple[str, ...]:
    """What to search for: the model's words, and what the user's name, each as bare as it goes."""
    said, asked = wanted_phrase(words), wanted_phrase(query) or query
    return (asked,) if not said or said == asked else (asked, said)
