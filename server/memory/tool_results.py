"""What memory tools give back, as JSON-able data of a size a model can take.

Every entry carries its `memory_id` or `source_turn_id`: by it a forgetting finds the exchanges that repeated a memory.
Pure; knows no tool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from server.memory.check import is_correction, is_filler
from server.memory.dates import named_days
from server.memory.numbers import quantities
from server.memory.recall_records import Candidate, SearchResult
from server.memory.telling import orders, tells
from server.memory.wishes import wants_to_know
from server.storage.records import SourceTurn

_SHORTEST_TEXT = 24
_TEXT_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How much a result may hold. `brief`: only what an answer is made from, and ids, of which the model reads short
    ones of memories and none of turns (`short_ids.py`)."""

    candidates: int = 5
    tokens: int = 1_200
    brief: bool = False


DEFAULT_LIMITS = ToolLimits()
SMALL_MODEL_LIMITS = ToolLimits(candidates=3, tokens=160, brief=True)
"""For models that read slowly: their prefill is the cost."""


def search_result(result: SearchResult, limits: ToolLimits) -> dict[str, Any]:
    """`{"candidates": [...], "ambiguous": bool, "searched": {...}}`, best first; `said`: words not yet in a memory.

    Brief: `ambiguous` only when it is so, `searched` only when something was `loosened`. `note`: nothing was found.
    """
    # A small model answers from any of them; of several it needs only those that the user must choose from.
    shown = result.candidates if result.ambiguous or not limits.brief else result.candidates[:1]
    candidates = bounded([candidate(one, limits) for one in shown], limits)
    told: dict[str, Any] = {"candidates": candidates}
    ambiguous = result.ambiguous and len(candidates) > 1
    if ambiguous or not limits.brief:
        told["ambiguous"] = ambiguous
    words = _telling(_told(result.said)) if limits.brief else result.said
    if words and len(candidates) < limits.candidates:
        left = limits.tokens - sum(estimated_tokens(one) for one in candidates)
        said = [turn(one, limits) for one in words[: limits.candidates - len(candidates)]]
        if left >= _SHORTEST_TEXT and (kept := bounded(said, replace(limits, tokens=left))):
            told["said"] = kept
    if not candidates and "said" not in told:
        told["note"] = "nothing found"
    if not limits.brief:
        searched = {
            "loosened": list(result.searched.loosened),
            "words_only": result.searched.words_only,
            "days": list(result.searched.days),
        }
        told["searched"] = {key: value for key, value in searched.items() if value}
    elif result.searched.loosened:
        told["searched"] = {"loosened": list(result.searched.loosened)}
    return told


def candidate(found: Candidate, limits: ToolLimits) -> dict[str, Any]:
    """One memory as the model sees it, its date local."""
    memory = found.memory
    local = memory.occurred_at.astimezone(ZoneInfo(memory.zone))
    told: dict[str, Any] = {"memory_id": memory.memory_id}
    if limits.brief:
        told |= {"summary": found.answer or memory.summary, "occurred_at": local.date().isoformat()}
    else:
        score = found.retrieval_score
        told |= {
            "topic": memory.topic,
            "summary": memory.summary,
            "entities": list(memory.entities),
            "memory_type": memory.memory_type,
            "occurred_at": local.isoformat(timespec="seconds"),
            "retrieval_score": None if score is None else round(score, 3),
            "source_turn_ids": list(memory.source_turn_ids),
        }
    if memory.status == "superseded":
        told["status"] = "superseded"
    if memory.confidence == "inferred":
        told["confidence"] = "inferred"
    return told | ({"unsure": True} if found.unsure else {})


def turn(said: SourceTurn, limits: ToolLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """One side's exact words with who and when."""
    local = said.said_at.astimezone(ZoneInfo(said.zone))
    by = "robot" if said.role == "robot" else (said.speaker_id or "user")
    said_at = local.date().isoformat() if limits.brief else local.isoformat(timespec="minutes")
    told: dict[str, Any] = {"source_turn_id": said.source_turn_id, "said_at": said_at, "by": by, "text": said.text}
    return told | ({"interrupted": True} if said.interrupted else {})


def source_result(found: Sequence[SourceTurn], limits: ToolLimits) -> dict[str, Any]:
    """`{"turns": [...], "source_checked": bool}`, with how many were left out for want of room.

    Brief: the user's words, if there are any, and of those what was not taken back by later ones.
    """
    shown = (_holding(_told(found)) or found) if limits.brief else found
    told = bounded([turn(one, limits) for one in shown], limits)
    result: dict[str, Any] = {"turns": told, "source_checked": bool(told)}
    return result | ({"left_out": len(shown) - len(told)} if len(told) < len(shown) else {})


def _told(words: Sequence[SourceTurn]) -> list[SourceTurn]:
    """What the user said. A small robot's own words only repeat it, and what it made up it would take for an answer."""
    return [one for one in words if one.role != "robot"]


def _telling(words: Sequence[SourceTurn]) -> list[SourceTurn]:
    """Without what was only asked, ordered or greeted: it would be taken for an answer too."""
    return [one for one in words if not (is_filler([one.text]) or orders(one.text) or _only_asks(one))]


def _only_asks(one: SourceTurn) -> bool:
    said_on = one.said_at.astimezone(ZoneInfo(one.zone)).date()
    return wants_to_know(one.text) and not tells(one.text, said_on, one.language)


def _holding(words: Sequence[SourceTurn]) -> list[SourceTurn]:
    """Without numbers and days that were said before a correction gave others: the first is what is taken from a list.

    `words`: in their order. What else was said of the matter is in the memory itself.
    """
    corrections = [at for at, one in enumerate(words) if is_correction(one.text) and _is_exact(one)]
    last = corrections[-1] if corrections else 0
    return [one for at, one in enumerate(words) if at >= last or not _is_exact(one)]


def _is_exact(one: SourceTurn) -> bool:
    return bool(quantities(one.text) or named_days(one.text, one.said_at.astimezone(ZoneInfo(one.zone)).date()))


def bounded(entries: Sequence[Mapping[str, Any]], limits: ToolLimits) -> list[dict[str, Any]]:
    """The first entries that fit into the limits; the first in any case, its longest text cut, with … at its end."""
    kept: list[dict[str, Any]] = []
    left = limits.tokens
    for entry in entries[: limits.candidates]:
        fitting = {key: _cut(value, _TEXT_CHARACTERS) for key, value in entry.items()}
        if _tokens_read(fitting, limits) > left:
            if kept:
                break
            fitting = _shortened(fitting, left, limits)
        kept.append(fitting)
        left -= _tokens_read(fitting, limits)
    return kept


def estimated_tokens(value: Any) -> int:
    """About how many tokens a value is in a prompt: one for a Japanese character or a digit, a third for a letter."""
    text = str(value)
    wide = sum(1 for character in text if not character.isascii() or character.isdigit())
    return wide + math.ceil((len(text) - wide) / 3)


def _tokens_read(entry: Mapping[str, Any], limits: ToolLimits) -> int:
    read = {key: value for key, value in entry.items() if key != "source_turn_id"} if limits.brief else dict(entry)
    return estimated_tokens(read)


def _shortened(entry: dict[str, Any], tokens: int, limits: ToolLimits) -> dict[str, Any]:
    # A number's or date's field is whole or wrong: only the running text is cut.
    name = next((name for name in ("summary", "text") if name in entry), None)
    if name is None:
        return entry
    text = str(entry[name])
    while _tokens_read(entry, limits) > tokens and len(text) > _SHORTEST_TEXT:
        text = text[: max(_SHORTEST_TEXT, len(text) * 3 // 4)]
        entry = entry | {name: f"{text}…"}
    return entry


def _cut(value: Any, characters: int) -> Any:
    return f"{value[:characters]}…" if isinstance(value, str) and len(value) > characters else value
