"""Whether words tell again what a memory holds. On the side of no: what is found by this is blanked. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from zoneinfo import ZoneInfo

from server.memory.check import stated
from server.memory.content import content_words
from server.memory.numbers import Quantity, quantities
from server.memory.questions import only_asks
from server.storage.memory_records import Memory
from server.storage.words import entity_key, fold

_TELLING_NUMBER = 10
"""A smaller one counts many things: by itself it tells little."""
_SENTENCE_LETTERS = 8
_LINKED = re.compile(r"(?<![\d-])(?!\d{4}-\d\d?-\d\d?(?!\d))\d{2,}(?:[-‐‑–−]\d{2,})+(?![\d-])")
_ASCII_LETTER = "[a-z0-9]"


def retells(memory: Memory, text: str) -> bool:
    """Whether `text` has one of the memory's names with one of its numbers, or its sentence as it stands.

    Of numbers below ten it must have all, with all names. A day is no number here; 090-0000-1234 is one, not three.
    """
    sentence = _letters(memory.summary)
    if len(sentence) >= _SENTENCE_LETTERS and sentence in _letters(text):
        return True
    names = [name for name in memory.entities or (memory.topic,) if name.strip()]
    if _linked(memory.summary) & _linked(text) and any(_names(name, text) for name in names):
        return True
    numbers = _numbers(memory)
    if not numbers or not names:
        return False
    said = quantities(_LINKED.sub("、", fold(text)))
    telling = [one for one in numbers if one.value >= _TELLING_NUMBER]
    if telling:
        return any(_names(name, text) for name in names) and any(_is_among(one, said) for one in telling)
    return all(_names(name, text) for name in names) and all(_is_among(one, said) for one in numbers)


def has_all_of(said: str, told: str) -> bool:
    """Whether `told` has the whole of what was said, letter by letter."""
    letters = _letters(said)
    return len(letters) >= _SENTENCE_LETTERS and letters in _letters(told)


def says_nothing_of(memories: Collection[Memory], said: str) -> bool:
    """Whether words tell something else than these memories: none of their names, numbers or words that count."""
    if only_asks(said):
        # It tells nothing to be kept, and may name the thing by another word.
        return False
    numbers = quantities(said)
    for memory in memories:
        on = memory.occurred_at.astimezone(ZoneInfo(memory.zone)).date()
        told = f"{memory.topic}\n{memory.summary}"
        shared = content_words(said, on) & content_words(f"{told}\n{' '.join(memory.entities)}", on)
        if shared or any(_names(name, said) for name in memory.entities if name.strip()):
            return False
        if numbers & quantities(told) or _linked(told) & _linked(said):
            return False
    return True


def words_of(memory: Memory) -> str:
    """What to look for by words to find where it is told again."""
    return "\n".join([*memory.entities, memory.topic, memory.summary])


def _numbers(memory: Memory) -> frozenset[Quantity]:
    words = _LINKED.sub("、", fold(memory.summary))
    return stated(words, memory.occurred_at.astimezone(ZoneInfo(memory.zone)).date()).numbers


def _linked(text: str) -> frozenset[str]:
    """Numbers of telephones and the like, as digits."""
    return frozenset("".join(filter(str.isdecimal, one)) for one in _LINKED.findall(fold(text)))


def _is_among(number: Quantity, said: frozenset[Quantity]) -> bool:
    return any(
        one.value == number.value and (one.unit == number.unit or not one.unit or not number.unit) for one in said
    )


def _names(name: str, text: str) -> bool:
    if not name.isascii():
        return entity_key(name) in entity_key(text)
    whole = rf"(?<!{_ASCII_LETTER}){re.escape(fold(name).strip())}(?!{_ASCII_LETTER})"
    return re.search(whole, fold(text)) is not None


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, fold(text)))
