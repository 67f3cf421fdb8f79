"""What becomes of a new memory beside those there are: it replaces some, is one of them said again, or is new.

Contradiction is judged first, then repetition. Pure: candidates and their similarities come in; knows no database.

Similarity alone says little: between any two Japanese sentences that share a name E5 gives 0.90 to 0.99. So without
words of correction a difference contradicts only where the names and all other words are the same. Being too careful
costs little, since of two memories that stay the newer is found first; one that is replaced wrongly is lost to a
question. On 61 pairs (tests/data/contradictions.json), all at cosine 0.99: of 21 that contradict 19 found, of 40 others
none. The author of the pairs is that of the rules: real talk holds more changes that no rule sees (red that was blue).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from server.memory.check import Difference, Stated, adds_to, contradicts, differing_units, stated
from server.memory.content import content_words, home_of, is_aimed_at, past_times, resident
from server.memory.restating import PutRight, restated
from server.memory.whose import apart, asks_about, is_of_self, of_another, same_people
from server.storage.memory_records import Memory, NewMemory
from server.storage.words import entity_key


@dataclass(frozen=True, slots=True)
class KeepRecipe:
    """When two memories are about one matter. Cosines of their vectors, whose range differs from model to model."""

    name: str
    duplicate: float
    """So alike, with the same names, and no word, number or day more: said again."""
    same_matter: float
    """So alike that another number, day or a negation contradicts, if names and other words are the same too."""
    corrected: float
    """Enough when the words themselves say that they correct."""
    candidates: int = 8


NARROW_COSINES = KeepRecipe("narrow-cosines-1", duplicate=0.94, same_matter=0.88, corrected=0.82)
"""For models whose cosines all lie near each other, as those of E5: they keep out only what is of another kind, the
words decide. Chosen: ten Japanese pairs that share a name lay at 0.90 to 0.99, whether they contradict or not."""
WIDE_COSINES = KeepRecipe("wide-cosines-1", duplicate=0.92, same_matter=0.7, corrected=0.5)
"""For models that spread, as Qwen3-Embedding. `duplicate` is given, the others are chosen, not yet measured."""


def recipe_for(model: str) -> KeepRecipe:
    """The recipe of an embedding model, by the name in its fingerprint."""
    return NARROW_COSINES if "e5" in model.casefold() else WIDE_COSINES


@dataclass(frozen=True, slots=True)
class Proposal:
    """A memory that may be kept."""

    memory: NewMemory
    corrects: bool = False
    """Its source words say that something was wrong."""
    recalled: tuple[str, ...] = ()
    """Memories that were recalled in its exchanges: what a correction is most likely about."""
    told: tuple[str, ...] = ()
    """Memories told right before its words, which give a number or a day and nothing else: from the one of them that
    differs in it, it was said to correct it, whatever the words."""
    put_right: PutRight | None = None
    """Its words, where they give a value or a name and nothing else: a memory that has another is told anew with it."""
    asked: str = ""
    """What the user had asked when memories were recalled: one that is not about that is not put right."""


@dataclass(frozen=True, slots=True)
class Decision:
    supersedes: tuple[str, ...] = ()
    """Older statements that it contradicts."""
    superseded_by: str | None = None
    """A statement said after it, that it contradicts: it came late and is history."""
    repeats: str | None = None
    """The memory that says the same already."""


def decide(proposal: Proposal, candidates: Sequence[tuple[Memory, float]], recipe: KeepRecipe) -> Decision:
    """What to do with a proposal. `candidates`: active memories with their cosine to it, in any order."""
    new = proposal.memory
    nearest = sorted(candidates, key=lambda pair: (-pair[1], pair[0].memory_id))
    comparable = [
        pair for pair in nearest if not of_another(new.speakers, pair[0].speakers, new.summary, pair[0].summary)
    ]
    mine = stated_by(new)
    contradicted = _contradicted(proposal, mine, comparable, recipe)
    if later := [one for one in contradicted if _last_turn(one) > _last_turn(new)]:
        return Decision(superseded_by=later[0].memory_id)
    if contradicted:
        return Decision(supersedes=tuple(one.memory_id for one in contradicted))
    for memory, cosine in nearest:
        if cosine >= recipe.duplicate and not of_another_person(new, memory) and says_no_more(new, memory):
            return Decision(repeats=memory.memory_id)
    return Decision()


def of_another_person(new: NewMemory, memory: Memory | NewMemory) -> bool:
    """Whether each is said by another known person, of himself: what both say the same way is not the same."""
    return apart(new.speakers, memory.speakers) and (is_of_self(new.summary) or is_of_self(memory.summary))


def says_no_more(new: NewMemory, than: Memory | NewMemory) -> bool:
    """Whether every name, number, day and word of `new` is in the other: only then may it be lost in it."""
    if not same_names(new, than) or adds_to(stated_by(new), stated_by(than)):
        return False
    return _words_of(new) <= _words_of(than)


def same_names(one: Memory | NewMemory, other: Memory | NewMemory) -> bool:
    """Whether one names nothing that the other does not, or the other way round."""
    mine, theirs = names(one), names(other)
    return mine == theirs or (bool(mine and theirs) and (mine <= theirs or theirs <= mine))


def names(memory: Memory | NewMemory) -> set[str]:
    return {entity_key(name) for name in memory.entities}


def _contradicted(
    proposal: Proposal, mine: Stated, nearest: Sequence[tuple[Memory, float]], recipe: KeepRecipe
) -> list[Memory]:
    if is_aimed_at(_said(proposal)):
        return []
    if answered := _answered(proposal, mine, nearest):
        return [answered]
    new = proposal.memory
    found: list[Memory] = []
    corrected: list[tuple[bool, float, Memory]] = []
    for memory, cosine in nearest:
        recalled = memory.memory_id in proposal.recalled
        if not (_same_thing(new, memory) or recalled):
            continue
        theirs = stated_by(memory)
        differing = contradicts(mine, theirs)
        if not _about_it(proposal, memory):
            continue
        now = not is_aimed_at(memory.summary) and _past(memory) <= _past(new)
        exclusive = now and differing and _cannot_both_hold(new, memory, differing)
        if cosine >= recipe.same_matter and (exclusive or _moved(new, memory)):
            found.append(memory)
        if differing:
            alike = cosine >= recipe.corrected or (recalled and bool(differing & {"number", "date"}))
        else:
            # Red that was blue: no rule sees it, so all else must be the same. Much is said with 本当は. A bare value
            # corrects only what has such a value.
            alike = proposal.put_right is None and cosine >= recipe.same_matter and same_names(new, memory)
        if differing and _loses_more(mine, theirs, whole=proposal.put_right is not None):
            alike = alike and _restated(proposal, memory)
        said_again = cosine >= recipe.duplicate and not adds_to(mine, theirs)
        if proposal.corrects and alike and not said_again:
            corrected.append((bool(differing), cosine, memory))
    if not found and (replaced := _put_right(proposal, nearest, recipe)):
        found.append(replaced)
    if corrected and not found:
        # A correction means one thing: what it differs from, and then what it is nearest to.
        found.append(max(corrected, key=lambda one: (one[0], one[1], one[2].memory_id))[2])
    return found


def _answered(proposal: Proposal, mine: Stated, nearest: Sequence[tuple[Memory, float]]) -> Memory | None:
    """The memory that was told before and has another value: the one that was told first."""
    compared = {memory.memory_id: memory for memory, _ in nearest}
    for memory_id in proposal.told:
        if memory_id not in compared or not _about_it(proposal, memory := compared[memory_id]):
            continue
        theirs = stated_by(memory)
        if not contradicts(mine, theirs) & {"number", "date"}:
            continue
        if _restated(proposal, memory) or not (_says_nothing_else(proposal) or _loses_more(mine, theirs, whole=True)):
            return memory
    return None


def _about_it(proposal: Proposal, memory: Memory) -> bool:
    """Whether a memory is about what was asked when it came up, and about no other people or time than the new one."""
    text = f"{memory.topic} {memory.summary}"
    if not past_times(_said(proposal), day_of(proposal.memory)) <= _past(memory):
        return False
    if proposal.asked and memory.memory_id in (*proposal.recalled, *proposal.told):
        return asks_about(proposal.asked, text) and same_people(proposal.memory.summary, text)
    return same_people(proposal.memory.summary, text)


def _said(proposal: Proposal) -> str:
    """What is said now, without the question that it is told with."""
    return proposal.memory.summary if proposal.put_right is None else proposal.put_right.words


def _past(memory: Memory | NewMemory) -> frozenset[str]:
    return past_times(memory.summary, day_of(memory))


def _restated(proposal: Proposal, memory: Memory) -> bool:
    return proposal.put_right is not None and restated(memory.summary, day_of(memory), proposal.put_right) is not None


def _says_nothing_else(proposal: Proposal) -> bool:
    """Whether a value is all it says: in the place of a statement it would say nothing."""
    return proposal.put_right is not None and not _words_of(proposal.memory)


def _loses_more(mine: Stated, theirs: Stated, *, whole: bool) -> bool:
    """Whether more values would be lost with the older statement than the newer one puts in their place."""
    if whole:
        lost = len(theirs.numbers - mine.numbers) + len(theirs.days - mine.days)
        return lost > len(mine.numbers - theirs.numbers) + len(mine.days - theirs.days)
    units = differing_units(mine, theirs)
    return any(_many(theirs, unit) > _many(mine, unit) for unit in units)


def _many(what: Stated, unit: str) -> int:
    return sum(one.unit == unit for one in what.numbers)


def _put_right(proposal: Proposal, nearest: Sequence[tuple[Memory, float]], recipe: KeepRecipe) -> Memory | None:
    """The memory in which a name or a value can be put in the place of another: one that was told, or the nearest."""
    said = proposal.put_right
    if said is None:
        return None
    fitting = {
        one.memory_id: (one, near)
        for one, near in nearest
        if _about_it(proposal, one) and restated(one.summary, day_of(one), said)
    }
    spoken_of = (*proposal.told, *(proposal.recalled if proposal.corrects else ()))
    for memory_id in spoken_of:
        if memory_id in fitting:
            return fitting[memory_id][0]
    if proposal.corrects:
        for memory, cosine in fitting.values():
            if cosine >= recipe.corrected and names(proposal.memory) & names(memory):
                return memory
    return None


def _cannot_both_hold(new: NewMemory, memory: Memory, differing: frozenset[Difference]) -> bool:
    """Whether nothing but what differs does: one difference, the same names, and the same words around it."""
    if len(differing) != 1 or names(new) != names(memory):
        return False
    mine, theirs = stated_by(new), stated_by(memory)
    units = differing_units(mine, theirs)
    words = _words_of(new)
    if len(units) > 1 or not words or words != _words_of(memory):
        return False
    if "number" in differing and units & _MONEY and _ANOTHER_ACT.search(new.summary):
        return False
    if new.memory_type == memory.memory_type == "episode":
        # Two visits on two days, two runs of five and three kilometres: two events. A thing is paid for once.
        days_apart = bool(mine.days and theirs.days and mine.days != theirs.days)
        return "number" in differing and units <= _MONEY and not days_apart
    return "number" in differing or "episode" not in (new.memory_type, memory.memory_type)


def _moved(new: NewMemory, memory: Memory) -> bool:
    """Whether both say where one and the same lives, and it is not the same place."""
    here, there = home_of(new.summary), home_of(memory.summary)
    if here is None or there is None or here in there or there in here:
        return False
    who = resident(new.summary, day_of(new))
    known = bool(who) or bool(new.speakers)
    same = set(new.speakers) == set(memory.speakers) or bool(who)
    places = {entity_key(here), entity_key(there)}
    return known and same and who == resident(memory.summary, day_of(memory)) and names(new) ^ names(memory) <= places


_MONEY = frozenset(("円", "ドル", "ユーロ"))
_ANOTHER_ACT = re.compile(
    r"[一-龯](?<!買)(?:った|んだ|いた|いだ|した|べた|れた|けた|めた|えた|きた)(?!ら)|\b(?:paid|pay|spent)\b",
    re.IGNORECASE,
)
"""What costs something each time: lunch, a ride."""


def _words_of(memory: Memory | NewMemory) -> frozenset[str]:
    return content_words(memory.summary, day_of(memory))


def _same_thing(one: Memory | NewMemory, other: Memory | NewMemory) -> bool:
    mine, theirs = names(one), names(other)
    return bool(mine & theirs) or not (mine or theirs)


def stated_by(memory: Memory | NewMemory) -> Stated:
    """What a memory commits itself to."""
    return stated(memory.summary, day_of(memory))


def day_of(memory: Memory | NewMemory) -> dt.date:
    """The local day that the days in its words are counted from."""
    return memory.occurred_at.astimezone(ZoneInfo(memory.zone)).date()


def _last_turn(memory: Memory | NewMemory) -> int:
    return max(memory.source_turn_ids, default=0)
