"""A correction in a whole sentence, carried out in what it corrects: "The bike was blue" in "I bought a red bike".

Only where it speaks of nothing that the statement does not name, and gives one colour, number or day for one that is
there. Else nothing is made, and both stand. Pure; what a bare value does is `restating.py`'s matter.
"""

from __future__ import annotations

import re
from dataclasses import replace

from server.memory.content import WEEKDAY, content_words
from server.memory.dates import named_days
from server.memory.numbers import written
from server.memory.restating import PutRight, Restated, restated, without_opening

_ADJECTIVES = frozenset(("赤", "青", "白", "黒", "黄色", "茶色"))
"""Colours that take い: 青い, but 緑の."""
_COLOUR = re.compile(
    r"(?<![一-龯])(?:黄色|茶色|灰色|水色|金色|銀色|[赤青白黒緑紫紺](?:色)?)(?![一-龯])|ピンク|オレンジ色|グレー|ベージュ"
    r"|\b(?:red|blue|green|yellow|black|white|grey|gray|brown|purple|pink|orange|beige|silver|golden|navy)\b",
    re.IGNORECASE,
)


def carried_out(statement: str, said: PutRight, *, adjacent: bool) -> Restated | None:
    """`statement`, its days written out, as the correction `said` has it. `adjacent`: nothing was told in between."""
    words = without_opening(said.words)
    colours = {match[0] for match in _COLOUR.finditer(words)}
    days = {one.said for one in named_days(words, said.on)} | {match[0] for match in WEEKDAY.finditer(words)}
    days = {one for one in days if not any(one != other and one in other for other in days)}
    numbers = {
        words[one.start : one.end] for one in written(words) if not any(one.start in at for at in _at(words, days))
    }
    values = colours | days | numbers
    if len(values) != 1:
        return None
    (value,) = values
    about = content_words(words.replace(value, " "), said.on)
    theirs = statement.casefold()
    if not (all(word in theirs for word in about) and (about or adjacent)):
        return None
    if not colours:
        return restated(statement, said.on, replace(said, words=value))
    found = {match[0] for match in _COLOUR.finditer(statement)}
    if len(found) != 1 or found & colours:
        return None
    (wrong,) = found
    right = value.removesuffix("色") if value[:-1] in _ADJECTIVES else value
    if f"{wrong}い" in statement and right not in _ADJECTIVES:
        wrong, right = f"{wrong}い", f"{right}の"
    return Restated(statement.replace(wrong, right), wrong, right)


def _at(words: str, parts: set[str]) -> list[range]:
    return [range(*match.span()) for part in parts for match in re.finditer(re.escape(part), words)]
