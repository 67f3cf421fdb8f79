"""What else was told in words that are about to be forgotten: it is kept as memories of its own before they go.

Forgetting blanks whole exchanges. "Forget my old address, I now live in York" tells something, and so may the exchange
that told of a dentist and a bicycle in one breath before a memory was made of it. The user's own words are quoted, also
where a large model makes summaries otherwise: nobody waits for one here. Pure; knows no storage.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from server.memory.contradiction import Proposal, names
from server.memory.english_words import VERBS
from server.memory.forget_words import parted
from server.memory.ingest import proposals_of
from server.memory.matters import matters
from server.memory.meant_words import all_words, asks_for_a_value, mentions, things, wanted_words
from server.memory.numbers import quantities
from server.memory.request_words import NAMED_LIGHT, NAMED_LIGHT_ENGLISH
from server.memory.telling import without_request
from server.storage.memory_records import OpenExchange
from server.storage.records import SourceTurn
from server.storage.words import entity_key, plain


def told_with_request(persona_id: str, user: SourceTurn) -> list[Proposal]:
    """What is told in one breath with the request to forget that these words are; nothing when they only ask."""
    told = parted(user.text)[1]
    return _proposals(persona_id, user, told) if told else []


def told_besides(persona_id: str, user: SourceTurn, request: str) -> list[Proposal]:
    """The matters of an exchange of which no memory is made yet that `request`, to forget it, does not name.

    Nothing when the request names none of them: then all of it is meant; and nothing that shares a word or a number
    with those it names.
    """
    told = matters(without_request(user.text), _day(user))
    going = [one for one in told if _is_named(one, request)]
    left = [one for one in told if one not in going and not any(_shares(one, (), other) for other in going)]
    return [proposal for one in left for proposal in _proposals(persona_id, user, one)] if going else []


def nothing_of(proposals: Sequence[Proposal], going: Sequence[str], request: str) -> bool:
    """Whether what is to be kept has no name, thing or number of what is `going`, but words of the request itself.

    That a request's own words are in it was allowed where it tells what is so now of what is forgotten as it was.
    """
    allowed = frozenset(things(request))
    return not any(_shares(one.memory.summary, names(one.memory), text, allowed) for one in proposals for text in going)


def _is_named(matter: str, request: str) -> bool:
    words = all_words(matter)
    light = all_words(parted(request)[0]) & words & _NAMING
    value = asks_for_a_value(request) and bool(quantities(matter) or re.search(r"\d", plain(matter)))
    return value or bool(light) or any(mentions(word, matter, words) for word in wanted_words(request))


def _shares(told: str, named: set[str] | tuple[()], going: str, allowed: frozenset[str] = frozenset()) -> bool:
    """Whether `told` has something of `going`; parts of Japanese words count."""
    if quantities(told) & quantities(going) or set(_DIGITS.findall(plain(told))) & set(_DIGITS.findall(plain(going))):
        return True
    mine, theirs = ({*things(one)} - allowed - VERBS for one in (told, going))
    key = entity_key(going)
    return bool(
        mine & theirs
        or any(not one.isascii() and one in other for one in mine for other in theirs)
        or any(not one.isascii() and one in other for one in theirs for other in mine)
        or any(name in key for name in named if not set(things(name)) <= allowed and len(name) > 1)
    )


def _proposals(persona_id: str, user: SourceTurn, words: str) -> list[Proposal]:
    return proposals_of(OpenExchange(user.turn_id, "ok", persona_id, user, None), words)


def _day(user: SourceTurn) -> dt.date:
    return user.said_at.astimezone(ZoneInfo(user.zone)).date()


_NAMING = frozenset(word for name in NAMED_LIGHT | NAMED_LIGHT_ENGLISH for word in all_words(name))
_DIGITS = re.compile(r"\d{3,}")
