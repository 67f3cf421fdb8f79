"""Memories in the user's own words, made by rules: for language models too small to be trusted with a summary.

What tells something is quoted word for word, with days written out, so that no number and no name can be wrong; what
is asked, ordered, played or merely exclaimed is left out. Pure: knows no model and no storage.

Measured with `scripts/bench_ingest`. Held out (105 exchanges): 53 of 53 facts kept, 29 of 29 numbers and days exact, 24
of 25 memories right, filler 98 % / 98 %, no call of a model. Of other Japanese conversations (tests/data/recall_ja, 513
exchanges, another author) 194 of 203 exchanges that tell something are kept, 224 of 310 others left out. Summaries of
Qwen2.5-Coder-0.5B on two conversations of the development half: 1 of 14 facts, 5 of 6 memories with something nobody
said, 4 seconds an exchange.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse

from server.memory.bare_answers import asks_another, is_answer, statement_of
from server.memory.carrying_out import carried_out
from server.memory.check import is_correction, is_filler, without_greeting
from server.memory.content import content_words, has_value, is_bare_value, is_supposed, is_unasserted_value
from server.memory.dates import named_days
from server.memory.matters import is_another, matters
from server.memory.nouns import nouns
from server.memory.prompts import Draft, SpokenExchange
from server.memory.questions import asks, only_asks, sentences, without_its_question
from server.memory.restating import PutRight, puts_right, restated, swapped, without_opening
from server.memory.said_days import lasting
from server.memory.telling import DECISION, PREFERENCE, orders, tells, was_order, without_request, written_in
from server.memory.whose import in_first_person, is_own, of_another
from server.storage.recall_tables import MemoryType
from server.storage.words import plain

_CHARACTERS = {"ja": 90, "en": 200}
"""So much of one topic is one memory: what is corrected later takes little else with it."""
_TOPIC_NOUNS = 3
_MOST_ENTITIES = 6
_EVENT = re.compile(
    r"(?:った|いた|した|れた|きた|(?<![うくすつぬむぶぐる])んだ|えた|べた|めた|ねた|せた|ちゃった|じゃった)(?:よ|の|んだ|んだよ|ね|から|わ|けど|ばかり)*[。!]?$"
    r"|\b(?:bought|went|got|met|sold|saw|picked|found|started|finished|ran|won|lost|visited|moved|made|broke|gave|took)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is told in one exchange, with the answer or correction that belongs to it."""

    about: tuple[int, ...]
    quote: str
    language: str
    value_only: bool = False
    begins: bool = False
    """Another matter than what was told before it in the same breath."""


def quoted(exchanges: Sequence[SpokenExchange], language: str) -> tuple[Draft, ...]:
    """The memories of a segment in the user's words, in order; none when nothing in it tells anything.

    A correction is carried out in what it corrects, an answer is told with what was asked; where neither can be, they
    stand as they were said, and no question stands first. What is to be forgotten is not told, and several matters told
    in one breath are a memory each. `language`: ISO 639-1; in others than Japanese and English
    all but questions and a few words is quoted.
    """
    exchanges = [replace(one, user=without_greeting(without_request(one.user))) for one in exchanges]
    pieces: list[_Piece] = []
    for place in range(len(exchanges)):
        _add(pieces, exchanges, place, language)
    drafts: list[Draft] = []
    for matter in _by_matter(pieces, exchanges):
        subject = _subject(matter, exchanges)
        drafts += (_draft(part, exchanges, subject) for part in _parts(matter, exchanges))
    return tuple(drafts)


def _add(pieces: list[_Piece], exchanges: Sequence[SpokenExchange], place: int, language: str) -> None:
    """What an exchange adds to the pieces: one more, more to an earlier one, or nothing."""
    one = exchanges[place]
    language = _language(one.user, language)
    if one.ordered and was_order(one.user):
        return
    if is_filler([one.user]) or _only_denies(one) or is_unasserted_value(one.user):
        return
    corrects = is_correction(one.user) and not is_supposed(one.user)
    telling = tells(one.user, one.on, language)
    bare = is_bare_value(one.user) or (corrects and puts_right(one.user))
    if bare or (not telling and is_answer(one.user, one.on)):
        if not (only_asks(one.user) or orders(one.user)):
            _add_value(pieces, exchanges, place, language, corrects=corrects)
        return
    if not telling:
        return
    told = () if corrects else matters(one.user, one.on)
    if len(told) > 1:
        for number, words in enumerate(told):
            quote = _lasting(replace(one, user=words), language)
            pieces.append(_Piece((place,), quote, language, begins=number > 0))
        return
    piece = _Piece((place,), _lasting(one, language), language)
    if corrects and _carried_out(pieces, exchanges, place, language):
        return
    if corrects and place and not is_filler([exchanges[place - 1].user]) and not _apart(exchanges, place, one.user):
        _add_to_what_was_before(pieces, exchanges, piece)
    else:
        pieces.append(piece)


def _add_value(
    pieces: list[_Piece], exchanges: Sequence[SpokenExchange], place: int, language: str, *, corrects: bool
) -> None:
    """A bare value: put right in what was told before, told with what was asked, or as it stands."""
    one = exchanges[place]
    before = _before(exchanges, place)
    if before is not None and _of_another(exchanges, before, place, language):
        return
    told = "" if before is None else exchanges[before].robot or ""
    said = PutRight(one.user, one.on, language, told=told)
    if corrects and _put_right(pieces, said, exchanges, place, before):
        return
    denied = (
        [] if before is None else [between for between in range(before + 1, place) if _only_denies(exchanges[between])]
    )
    alone = _Piece((*denied, place), _lasting(one, language), language, value_only=True)
    if before is None:
        if corrects or tells(one.user, one.on, language):
            pieces.append(alone)
        return
    other = exchanges[before]
    continues = bool(pieces) and pieces[-1].about[-1] == before
    asked = [other.user] if only_asks(other.user) or orders(other.user) else []
    asked += _asked_by(other.robot)
    for question in asked if not continues else ():
        if statement := statement_of(question, one.user, language):
            quote = lasting(statement, one.on, language)
            pieces.append(replace(alone, about=(before, *alone.about), quote=quote))
            return
    if asked and not continues and all(asks_another(question, one.user) for question in asked):
        # The time of day is no price; alone it says nothing.
        if corrects:
            pieces.append(alone)
        return
    answers = continues or (bool(asked) and (only_asks(other.user) or not orders(other.user)))
    if denied or (other.robot is None and (continues or not (answers or corrects))):
        # What it answers came out of memory: it is about that, not about what was told before.
        pieces.append(alone)
    elif corrects or answers:
        _add_to_what_was_before(pieces, exchanges, replace(alone, value_only=not continues))


def _put_right(
    pieces: list[_Piece], said: PutRight, exchanges: Sequence[SpokenExchange], place: int, before: int | None
) -> bool:
    """Whether what was told earlier in the segment has the value that is taken back; then it has the right one now."""
    named = swapped(said.words) is not None
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        if not named and piece.about[-1] != before:
            return False
        if _apart(exchanges, place, piece.quote, said_by=piece.about):
            continue
        if piece.language == said.language and (made := restated(piece.quote, said.on, said)):
            pieces[number] = replace(piece, about=(*piece.about, place), quote=made.text)
            return True
    return False


def _carried_out(pieces: list[_Piece], exchanges: Sequence[SpokenExchange], place: int, language: str) -> bool:
    """Whether what was told earlier in the segment now has the value that a whole sentence puts right."""
    said = PutRight(exchanges[place].user, exchanges[place].on, language)
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        if piece.language != language or _apart(exchanges, place, piece.quote, said_by=piece.about):
            continue
        if made := carried_out(piece.quote, said, adjacent=piece.about[-1] == place - 1):
            pieces[number] = replace(piece, about=(*piece.about, place), quote=made.text)
            return True
    return False


def _add_to_what_was_before(pieces: list[_Piece], exchanges: Sequence[SpokenExchange], piece: _Piece) -> None:
    """An answer or a correction says little without what was said before it; a question goes behind it."""
    place = piece.about[-1]
    if pieces and pieces[-1].about[-1] == place - 1:
        last = pieces[-1]
        if last.language == piece.language:
            quote = _joined([last.quote, piece.quote], piece.language)
            pieces[-1] = replace(last, about=(*last.about, place), quote=quote)
            return
        pieces.append(piece)
        return
    before = exchanges[place - 1]
    quotes = [_lasting(before, piece.language), piece.quote]
    if only_asks(before.user):
        quotes.reverse()
    pieces.append(replace(piece, about=(place - 1, place), quote=_joined(quotes, piece.language)))


def _apart(exchanges: Sequence[SpokenExchange], place: int, *texts: str, said_by: Sequence[int] | None = None) -> bool:
    """Whether somebody else said what was before, and it or one of these texts may be about nobody but its speaker."""
    before = (place - 1,) if said_by is None else said_by
    others = [name for at in before if (name := exchanges[at].speaker) is not None]
    mine = [name for name in (exchanges[place].speaker,) if name is not None]
    return of_another(mine, others, *texts, *([exchanges[place - 1].user] if said_by is None else []))


def _of_another(exchanges: Sequence[SpokenExchange], before: int, place: int, language: str) -> bool:
    """Whether a value is said to what another person said or asked of himself: it is no answer to that."""
    one, other = exchanges[place], exchanges[before]
    if one.speaker is None or other.speaker in (None, one.speaker):
        return False
    if only_asks(other.user):
        statement = statement_of(other.user, one.user, language)
        return in_first_person(other.user) or statement is None or is_own(statement)
    return is_own(other.user)


def _before(exchanges: Sequence[SpokenExchange], place: int) -> int | None:
    """The exchange that a value is said to: the one before, or a question with no more than うん or 違うよ between."""
    if place and not is_filler([exchanges[place - 1].user]) and not _only_denies(exchanges[place - 1]):
        return place - 1
    if place > 1 and only_asks(exchanges[place - 2].user):
        return place - 2
    return None


def _asked_by(robot: str | None) -> Iterator[str]:
    """What the robot asked last, unless it spoke of what it had looked up."""
    found = [sentence for sentence in sentences(robot or "") if asks(sentence)]
    yield from found[-1:]


def _only_denies(one: SpokenExchange) -> bool:
    """違うよ; that's wrong: no word of what is right."""
    rest = without_opening(one.user)
    if is_correction(one.user) and is_unasserted_value(one.user):
        return True
    return is_correction(one.user) and not has_value(rest) and not content_words(rest, one.on)


def _by_matter(pieces: Sequence[_Piece], exchanges: Sequence[SpokenExchange]) -> list[list[_Piece]]:
    """Pieces of one matter together: what is told after two were told in one breath goes on with the one it names."""
    found: list[list[_Piece]] = []
    for piece in pieces:
        if not found or piece.begins:
            found.append([])
        named = {plain(name) for name in _names(piece, exchanges)}
        same = (
            []
            if piece.begins
            else [
                matter for matter in found if named & {plain(name) for one in matter for name in _names(one, exchanges)}
            ]
        )
        (same or found)[-1].append(piece)
    return found


def _parts(pieces: Sequence[_Piece], exchanges: Sequence[SpokenExchange]) -> Iterator[list[_Piece]]:
    """What is one memory: as much of one matter, person and language as fits.

    A value about another memory is by itself. Forgetting the bakery must not take the peanuts that were told next.
    """
    part: list[_Piece] = []
    said_by: set[str] = set()
    for piece in pieces:
        people = {name for place in piece.about if (name := exchanges[place].speaker)}
        held = sum(len(one.quote) for one in part)
        apart = part and (
            piece.value_only
            or part[-1].value_only
            or part[-1].language != piece.language
            or held + len(piece.quote) > _most(piece.language)
            or is_another(_joined([one.quote for one in part], piece.language), piece.quote, _on(piece, exchanges))
            or (people and said_by and people.isdisjoint(said_by))
        )
        if apart:
            yield part
            part, said_by = [], set()
        part.append(piece)
        said_by |= people
    if part:
        yield part


def _subject(pieces: Sequence[_Piece], exchanges: Sequence[SpokenExchange]) -> tuple[str, ...]:
    """What a segment is about: what is named first in it."""
    found: dict[str, None] = {}
    for piece in pieces:
        found |= dict.fromkeys(_names(piece, exchanges))
        if len(found) >= _TOPIC_NOUNS:
            break
    return tuple(found)[:_TOPIC_NOUNS]


def _names(piece: _Piece, exchanges: Sequence[SpokenExchange]) -> tuple[str, ...]:
    return nouns(piece.quote, _on(piece, exchanges))


def _on(piece: _Piece, exchanges: Sequence[SpokenExchange]) -> dt.date:
    return exchanges[piece.about[-1]].on


def _draft(part: Sequence[_Piece], exchanges: Sequence[SpokenExchange], subject: Sequence[str]) -> Draft:
    language = part[0].language
    summary = _joined([piece.quote for piece in part], language)
    named = [name for piece in part for name in _names(piece, exchanges)]
    about = tuple(sorted({place for piece in part for place in piece.about}))
    memory_type = _type(summary, language)
    topic = (named[:_TOPIC_NOUNS] if part[0].value_only else ()) or subject
    return Draft(
        about=about,
        memory_type=memory_type,
        topic=("、" if language == "ja" else ", ").join(topic) or next(sentences(summary))[:20].rstrip("。."),
        summary=summary,
        entities=tuple(dict.fromkeys(named))[:_MOST_ENTITIES],
        importance=4 if memory_type == "decision" or named_days(summary, exchanges[about[-1]].on) else 3,
        value_only=part[0].value_only,
    )


def _lasting(one: SpokenExchange, language: str) -> str:
    """The user's words, their days written out; what is asked in them behind what is told."""
    words = " ".join(one.user.split())
    found = list(sentences(words))
    if found and asks(found[0]) and not all(map(asks, found)):
        words = _joined([*filterfalse(asks, found), *filter(asks, found)], language)
    elif len(found) == 1:
        words = without_its_question(words)
    return _ended(lasting(words, one.on, language), language)


def _ended(words: str, language: str) -> str:
    return words if words[-1:] in "。.!?！？" else words + ("。" if language == "ja" else ".")


def _joined(quotes: Sequence[str], language: str) -> str:
    """One after the other, each a sentence; with a space wherever Latin letters meet anything."""
    text = ""
    for quote in quotes:
        quote = _ended(quote, language)
        letters = [*filter(str.isalpha, text)][-1:] + [*filter(str.isalpha, quote)][:1]
        apart = text and (language != "ja" or any(map(str.isascii, letters)))
        text += f" {quote}" if apart else quote
    return text


def _language(text: str, of_segment: str) -> str:
    """By the letters where they tell, since one segment may hold several."""
    script = written_in(text)
    if script == "latin":
        return "en" if of_segment == "ja" else of_segment
    return script or of_segment


def _type(text: str, language: str) -> MemoryType:
    words = plain(text)
    if DECISION.search(words):
        return "decision"
    if PREFERENCE.search(words):
        return "preference"
    return "episode" if any(_EVENT.search(one) for one in sentences(words)) else "fact"


def _most(language: str) -> int:
    return _CHARACTERS.get(language, _CHARACTERS["en"])
