"""What else was told in words that are about to be forgotten: it is kept as memories of its own before they go.

Forgetting blanks whole exchanges. "Forget my old address, I now live in York" tells something, and so may the exchange
that told of a dentist and a bicycle in one breath before a memory was made of it. The user's own words are quoted, also
where a large model makes summaries otherwise: nobody waits for one here. Pure; knows no storage.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from server.memory.contradiction import Proposal
from server.memory.forget_words import parted
from server.memory.ingest import proposals_of
from server.memory.matters import matters
from server.memory.meant_words import all_words, mentions, wanted_words
from server.memory.telling import without_request
from server.storage.memory_records import OpenExchange
from server.storage.records import SourceTurn


def told_with_request(persona_id: str, user: SourceTurn) -> list[Proposal]:
    """What is told in one breath with the request to forget that these words are; nothing when they only ask."""
    told = parted(user.text)[1]
    return _proposals(persona_id, user, told) if told else []


def told_besides(persona_id: str, user: SourceTurn, request: str) -> list[Proposal]:
    """The matters of an exchange of which no memory is made yet that `request`, to forget it, does not name.

    Nothing when the request names none of them: then all of it is meant.
    """
    wanted = wanted_words(request)
    told = matters(without_request(user.text), _day(user))
    named = [any(mentions(word, one, all_words(one)) for word in wanted) for one in told]
    if not any(named):
        return []
    left = [one for one, is_named in zip(told, named, strict=True) if not is_named]
    return [proposal for one in left for proposal in _proposals(persona_id, user, one)]


def _proposals(persona_id: str, user: SourceTurn, words: str) -> list[Proposal]:
    return proposals_of(OpenExchange(user.turn_id, "ok", persona_id, user, None), words)


def _day(user: SourceTurn) -> dt.date:
    return user.said_at.astimezone(ZoneInfo(user.zone)).date()
