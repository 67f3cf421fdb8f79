"""Which memories a request to forget means: for certain, perhaps, or not.

What is gone is gone, and what is left by mistake is told as forgotten. So there are three answers: what is certain,
what may be meant too (then nothing is forgotten before the user has said which), and what only has the same word and is
told as still remembered. Compared are words, whose it is, what came up in the last turns, and how near a search found
it. Pure; finds, asks and forgets nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from zoneinfo import ZoneInfo

from server.memory.dates import DateRange, named_days
from server.memory.forget_words import without_kept
from server.memory.meant_words import (
    all_words,
    described,
    head_word,
    is_a_word,
    lacks_what_is_asked,
    mentions,
    of_ones_own,
    owners,
    people,
    points,
    tells_the_value,
    things,
    wants_everything,
)
from server.memory.numbers import quantities
from server.memory.questions import asks, sentences
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
    unsure: bool = False
    """It came up, and may not be what was spoken of."""

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
    turn_id: int = 0


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
    heads: tuple[str, ...] = ()
    """Of `wanted`, what is to be forgotten; what lacks it is never certain."""
    people: frozenset[str] = frozenset()
    """Of `wanted`, whose it is. By itself that says nothing: much is told of one's son."""

    @property
    def things(self) -> tuple[str, ...]:
        """The wanted words that can tell what is meant."""
        return tuple(word for word in self.wanted if word not in self.people or word in self.heads)


def request_of(text: str, wanted: Sequence[str], on: dt.date | None = None) -> Request:
    """`on`: the day on which it is asked."""
    text = without_kept(text)
    days = named_days(text, on) if on is not None else ()
    head = head_word(text)
    return Request(
        text,
        tuple(wanted),
        owners(text),
        wants_everything(text),
        points(text),
        of_ones_own(text),
        tuple(days),
        (head,) if head is not None and head in wanted else tuple(wanted[-1:]),
        people(text, wanted),
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
    request = _split(request, pool)
    known = {one.key: one for one in pool}
    anchors = [
        replace(known.get(one.key, one), near=one.near or known.get(one.key, one).near, unsure=one.unsure)
        for one in came_up(request, recent)
    ]
    if not request.wanted:
        return _pointed_at(request, anchors, pool, recent)
    if any(_has_heads(request, one) or one.near for one in anchors):
        return _with_companions(request, anchors, pool, anchored=True)
    # Only whose it is says nothing: what has no other word is meant only when it is near.
    by_word = [one for one in pool if covered(request, one) & set(request.things)]
    if anchors:
        # Talked of in one breath with it, but neither its words nor its meaning say that it is the same.
        return Meant(perhaps=tuple({one.key: one for one in (*by_word, *anchors)}.values()))
    if not by_word:
        return Meant(perhaps=tuple(one for one in pool if one.near))
    # Stable: the search's order stays among equals.
    by_word.sort(
        key=lambda one: (
            _is_other(request, one),
            _is_anothers(request, one, ()),
            not _has_heads(request, one),
            -len(covered(request, one)),
        )
    )
    return _with_companions(request, by_word[:1], pool, anchored=False)


def _pointed_at(request: Request, anchors: list[Thing], pool: Sequence[Thing], recent: Sequence[RecentTurn]) -> Meant:
    """What is meant by words that name nothing."""
    if request.days and not request.points:
        return Meant(perhaps=tuple(one for one in pool if _on_its_days(request, one)))
    if not request.everything:
        if any(one.unsure for one in anchors):
            return Meant(perhaps=tuple(anchors))
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
        elif covering := [one for one in (*found, *told) if _has_heads(request, one)]:
            found = covering
        elif not any(mentions(one, said, words) for one in request.heads):
            found = []
        elif turn.asked and any(mentions(one, turn.user, all_words(turn.user)) for one in request.heads):
            # The answer was made from it: what was asked about is what it is about, by whatever word.
            found = [replace(one, near=True) for one in found if _answers(one, turn.robot)]
        if request.wanted and sum(one.unsure for one in found) > 1:
            found = told
        if found:
            return [*found, *since]
    return []


def _used(turn: RecentTurn, said: str) -> list[Thing]:
    """The memory that the robot's answer was made from; several, or one that is `unsure`, when that is not certain.

    By what the user asked and what was shown. What the robot said may be made up: of it count numbers, and whether a
    memory is unlike it. What it asks back is no answer.
    """
    asked = frozenset(things(turn.user))
    answer = "".join(one for one in sentences(turn.robot) if not asks(one))
    numbers, told = quantities(answer), frozenset(things(answer))
    scored: list[tuple[int, int, Thing]] = []
    for memory, one in ((memory, memory_thing(memory)) for memory in turn.shown):
        mine = one.owners <= asked | owners(turn.user)
        by_user = mine * len(one.things & asked) + 4 * (memory.memory_id in turn.read)
        by_answer = 2 * len(quantities(memory.summary) & numbers)
        if by_user or by_answer or one.things & told:
            scored.append((0 if _is_asking(one) else by_user, by_answer, one))
    if not scored:
        return []
    best = max(score[:2] for score in scored)
    found = [one for by_user, by_answer, one in scored if (by_user, by_answer) == best]
    unsure = len(found) > 1 or not any(best) or (best[0] == 0 and bool(asked) and best[1] == 0)
    return [replace(one, unsure=unsure) for one in found]


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
    if anchored:
        lacking = bool(request.wanted) and not any(one.near for one in best) and _lacks(request, best[0])
        whose = best[0].owners if request.owners else frozenset()
        doubtful = lacking or bool(whose and whose.isdisjoint(request.owners))
    else:
        doubtful = _is_doubtful(request, best[0])
    # So much is not lost on one word.
    many = sum(one.memory is not None for one in certain) > _MOST_AT_ONCE
    doubtful = doubtful or (many and not request.everything)
    perhaps = [*(certain if doubtful else ()), *sorted_out[_Relation.PERHAPS]]
    return Meant(tuple(() if doubtful else certain), tuple(perhaps), tuple(sorted_out[_Relation.LEFT]))


def _is_doubtful(request: Request, best: Thing) -> bool:
    """Whether the best lacks what is asked for, or is or may be somebody else's."""
    return _is_anothers(request, best, ()) or _is_other(request, best) or _lacks(request, best)


def _lacks(request: Request, one: Thing) -> bool:
    """Whether it lacks what is to be forgotten, half of what tells it, or whose it is."""
    has, telling = covered(request, one), set(request.things)
    few = len(telling) > 1 and 2 * len(has & telling) <= len(telling)
    return few or not _has_heads(request, one) or not request.people <= has


def _has_heads(request: Request, one: Thing) -> bool:
    return bool(request.heads) and set(request.heads) <= covered(request, one)


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
        head = request.heads[-1]
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
    if request.wanted and ((shared and not covered_by_best) or tells_the_value(request.text, one.text)):
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
    asked, mine = (described(text, request.heads[-1])[0] for text in (request.text, one.text))
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


def _split(request: Request, pool: Sequence[Thing]) -> Request:
    """With compounds that nothing has as a whole in the parts that something has, and what is left: 沖縄旅行."""
    found: list[str] = []
    heads: list[str] = []
    for word in request.wanted:
        parts = [word]
        if not word.isascii() and not any(mentions(word, one.text, one.words) for one in pool):
            known = sorted({one for it in pool for one in it.words if len(one) > 1 and one in word}, key=word.find)
            rest = re.split("|".join(map(re.escape, sorted(known, key=len, reverse=True))), word) if known else []
            parts = sorted([*known, *(part for part in rest if is_a_word(part))], key=word.find) or [word]
        found += parts
        heads += parts if word in request.heads else []
    return replace(request, wanted=tuple(dict.fromkeys(found)), heads=tuple(dict.fromkeys(heads)))
