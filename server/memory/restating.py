"""A statement with one value put right: 三万円で買ったよ and 違う、二万五千円だよ make 二万五千円で買ったよ.

So a bare correction becomes a whole statement in which every word was said: the old one's words, and the new value
exactly as it was said. Where it is not certain which words go, nothing is made. Pure; knows no memory.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from dataclasses import dataclass

from server.memory.content import WEEKDAY, content_words, is_bare_value, is_supposed, without_denied
from server.memory.dates import DateRange, named_days
from server.memory.numbers import Written, written
from server.memory.said_days import lasting
from server.storage.words import entity_key, straight

_OPENERS = (
    r"(?:あ[っあー]*(?=[、。,.!\s])|えっと|ええと|いや|いえ|いいえ|ううん|ごめん(?:なさい|ね)?|すまん|すみません|すいません|しまった"
    r"|違う(?:よ|って|んだ)?|ちがう(?:よ|って|んだ)?|違います|ちがいます|間違えた|訂正|本当は|ほんとは|正しくは|実は"
    r"|(?:そう|それ)(?:じゃ|では)(?:ない(?:よ|って|んだ|です)?|なくて)"
    r"|(?:oh|no|nope|wait|sorry|oops|correction|actually|i meant|that's wrong|that's not right|my mistake|my bad)\b)"
)
_OPENING = re.compile(rf"^(?:{_OPENERS}[、。,.!\s]*)+", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?:(?:っていう)?(?:名前)?(?:なんだ|だった|でした|です|だ)?(?:よ|ね|って|から|の)*)[。!\s]*$|[.!\s]+$"
)
_ONE_WORD = r"[^\s、。,.!?「」]{1,20}"
_NAMED = (
    r"(?:it's|it is|it was|that's|(?:(?:her|his|its|their|the|my|our)\s+)?name(?:'s| is| was)"
    r"|(?:s?he|they)(?:'s| is|'re| are)(?: called| named)?)\s+"
)
_WORD = r"(?!(?:a|an|the|my|our|his|her|their|only|just|yet|sure|bad|really|much)\b)[$¥€]?\w(?:[\w'-]|[,.](?=\d))*"
_WORDS = rf"{_WORD}(?:\s+[\w'-]+){{0,2}}?"
_SWAPS = (
    re.compile(rf"(?P<wrong>{_ONE_WORD}?)(?:じゃ|では)なく(?:て|って)?[、,\s]*(?P<right>{_ONE_WORD})[。!]*$"),
    re.compile(
        rf"(?P<right>{_ONE_WORD})[、,\s]+(?P<wrong>{_ONE_WORD}?)(?:じゃ|では)(?:なくて(?:ね)?|ない(?:よ|です)?)[。!]*$"
    ),
    re.compile(rf"{_NAMED}(?P<right>{_WORDS})\s*,?\s+not\s+(?P<wrong>{_WORDS})[.!]*$", re.IGNORECASE),
    re.compile(rf"(?P<right>{_WORD})\s*,?\s+not\s+(?P<wrong>{_WORD})[.!]*$", re.IGNORECASE),
    re.compile(
        rf"(?:{_NAMED})?not\s+(?P<wrong>{_WORDS})\s*(?:[,;.](?!\d)\s*(?:but\s+)?|\s+but\s+)(?:{_NAMED})?(?P<right>{_WORDS})[.!]*$",
        re.IGNORECASE,
    ),
)
_A_NAME = re.compile(r"[A-Z\d]")
"""Or a number. "It's cold, not hot" takes nothing back."""
_SAYS_MORE = re.compile(r"[はがをもに](?=.)")
_ROUGHLY_BEFORE = re.compile(r"(?:約|だいたい|およそ|\b(?:about|around|almost|nearly|roughly)\s+)$", re.IGNORECASE)
_ROUGHLY_AFTER = re.compile(r"(?:くらい|ぐらい|ほど|ちょっと|弱|強)")
_PART_OF_DAY = re.compile(r"(?:午前|午後|朝の?|昼の?|夕方の?|夜の?)$")
_GOES_ON = re.compile(r"前|過ぎ|すぎ")
_SIGN = re.compile(
    r"(?:[-−‐–—+±]|(?<=[\d一二三四五六七八九十百千万])[・.:/〜~]|マイナス|プラス|零下|氷点下|\b(?:minus|negative|below)\s*)\s?[$¥€]?$",
    re.IGNORECASE,
)
"""Before a number it belongs to it, and what is read is only the rest of it."""
_RANGE = re.compile(r"\s?(?:[-−‐–—〜~・:/]|から|\.(?=\d))\s?[\d〇零一二三四五六七八九十百千万]")
_COUNTED = re.compile(r"\s?(?P<word>[A-Za-z]+|[一-龯ァ-ヺー]+)")
_COUNTS_NOTHING = frozenset(
    [
        "a",
        "an",
        "the",
        "for",
        "in",
        "on",
        "at",
        "by",
        "to",
        "and",
        "or",
        "but",
        "of",
        "with",
        "from",
        "now",
        "then",
        "not",
        "per",
        "each",
        "i",
        "we",
        "you",
        "he",
        "she",
        "it",
        "they",
        "that",
        "this",
        "is",
        "was",
        "actually",
        "sorry",
        "please",
        "thanks",
        "ok",
        "okay",
        "only",
        "just",
        "instead",
        "really",
        "today",
    ]
)
_AGREES = re.compile(r"(?:[ね]|よ[うな])[。!]*$|^(?:じゃあ|じゃ、|では|つまり|so\b|then\b|ok(?:ay)?\b)", re.IGNORECASE)
"""Of a value alone: somebody concludes or looks for assent, and puts nothing right unless he says so."""
_CLOCK = frozenset(("時", "am", "pm", "o'clock"))
_PREPOSITION = re.compile(r"^(?:on|in|at)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PutRight:
    """Words that give a value or a name in the place of another, and nothing else; the local day, and ISO 639-1."""

    words: str
    on: dt.date
    language: str
    asked: str = ""
    """What was asked before: with several values in a statement, its words tell which one is meant."""
    told: str = ""
    """What the robot said then: the value that is wrong, if it is one of them."""


@dataclass(frozen=True, slots=True)
class Restated:
    """The statement as it is now. `wrong`, `right`: the words that went and those that came."""

    text: str
    wrong: str
    right: str
    days: bool = False
    """What was put right is a day."""


def swapped(words: str) -> tuple[str, str] | None:
    """The wrong and the right words of somebody who names both and says nothing else: タマじゃなくてミケだよ."""
    plain = _opened(words)
    for pattern in _SWAPS:
        if (match := pattern.fullmatch(plain)) is None:
            continue
        wrong, right = match["wrong"].strip(), _CLOSING.sub("", match["right"].strip())
        if wrong and right and entity_key(wrong) != entity_key(right) and not _says_more(wrong, right):
            return wrong, right
    return None


def takes_back(words: str) -> bool:
    """Whether somebody names what is wrong and what is right, so that it can be nothing but a correction."""
    swap = swapped(words)
    if swap is None:
        return False
    opened = _opened(words) != _normal(words)
    return opened or all(bool(_A_NAME.search(one)) for one in swap)


def puts_right(words: str) -> bool:
    """Whether words give a value, a day or a name in the place of another, and nothing else; asserted, not supposed."""
    if swapped(words) is not None:
        return not is_supposed(words)
    return is_bare_value(words) and (not _AGREES.search(words.strip()) or _opened(words) != _normal(words))


def restated(statement: str, stated_on: dt.date, said: PutRight) -> Restated | None:
    """`statement`, whose days are counted from `stated_on`, with the one value in it that `said` puts right.

    None when there is no such value, more than one, or when it is there already. Comes back as NFKC.
    """
    statement = unicodedata.normalize("NFKC", statement)
    swap = swapped(said.words)
    if is_supposed(said.words):
        return None
    if swap is not None and not written(swap[0]):
        made = _with_words(statement, *swap)
        return made if made is not None or not WEEKDAY.fullmatch(swap[0]) else _with_weekday(statement, stated_on, said)
    plain = without_denied(said.words) if swap is None else swap[1]
    if not is_bare_value(plain):
        return None
    if days := named_days(plain, said.on):
        return _with_days(statement, stated_on, said, days)
    if WEEKDAY.search(plain):
        return _with_weekday(statement, stated_on, said)
    denied = swap[0] if swap else _denied(said.words)
    # 私は三万円じゃなくて: no value alone is denied there.
    return None if _SAYS_MORE.search(denied) else _with_number(statement, stated_on, plain, denied, said)


def with_words(text: str, made: Restated) -> str:
    """`text`, a topic or a name of the statement, with the words that were put right."""
    return re.sub(_alone(made.wrong), lambda _: made.right, text, flags=re.IGNORECASE)


def _with_words(statement: str, wrong: str, right: str) -> Restated | None:
    places = [match.span() for match in re.finditer(_alone(wrong), statement, re.IGNORECASE)]
    # Part of a longer name (Ann Arbor, 東京駅), or one that is there already: which words go is not certain.
    longer = not wrong.isascii() and len(re.findall(re.escape(wrong), statement, re.IGNORECASE)) != len(places)
    in_a_name = wrong.isascii() and any(re.match(r"\s[A-Z]", statement[end:]) for _, end in places)
    there = re.search(_alone(right), statement, re.IGNORECASE)
    if not places or longer or in_a_name or there:
        return None
    return Restated(re.sub(_alone(wrong), lambda _: right, statement, flags=re.IGNORECASE), wrong, right)


def _with_number(statement: str, stated_on: dt.date, said: str, wrong: str, whole: PutRight) -> Restated | None:
    plain = straight(said)
    new = written(plain)
    in_days = [span for days in named_days(statement, stated_on) for span in _places(statement, days.said)]
    old = [one for one in written(statement) if not any(start <= one.start < end for start, end in in_days)]
    if len(new) != 1:
        return None
    unit = new[0].quantity.unit
    fitting = [one for one in old if one.quantity.unit == unit]
    if not fitting and len(old) == 1 and "" in (unit, old[0].quantity.unit):
        fitting = old
    if taken_back := {one.quantity.value for one in written(wrong)}:
        fitting = [one for one in fitting or old if one.quantity.value in taken_back]
    if len(fitting) > 1:
        fitting = _meant(fitting, statement, whole)
    if len(fitting) != 1 or fitting[0].quantity.value == new[0].quantity.value:
        return None
    place = fitting[0]
    if (place.quantity.value < 0) != (new[0].quantity.value < 0):
        # Of five below, 三度 may be three below.
        return None
    if not _stands_alone(place, old, statement, new[0], named=bool(taken_back)):
        return None
    if (
        _SIGN.search(plain[: new[0].start])
        or _RANGE.match(plain, new[0].end)
        or not _same_count(plain, new[0], statement, place)
    ):
        return None
    if unit:
        start, end, right = place.start, place.end, plain[new[0].start : new[0].end]
    else:
        start, end, right = place.number_start, place.number_end, plain[new[0].number_start : new[0].number_end]
    if before := _ROUGHLY_BEFORE.search(statement[:start]):
        start = before.start()
    if after := _ROUGHLY_AFTER.match(statement, end):
        end = after.end()
    return Restated(statement[:start] + right + statement[end:], statement[start:end], right)


def _meant(fitting: list[Written], statement: str, said: PutRight) -> list[Written]:
    """Of several values the one that is meant: what the robot just said, of what was asked. Both, where both tell."""
    spoken = {one.quantity.value for one in written(said.told)}
    by_value = [one for one in fitting if one.quantity.value in spoken]
    about = content_words(said.asked, said.on)
    parts = [match.span() for match in re.finditer(r"[^、。,.;]+(?:[.,](?=\d)[^、。,.;]+)*", statement)]
    near = [
        sum(word in statement[start:end].casefold() for word in about)
        for one in fitting
        for start, end in parts
        if start <= one.start < end
    ]
    by_subject = [one for one, shared in zip(fitting, near, strict=False) if shared and shared == max(near)]
    if len(by_value) == 1 and (not by_subject or by_value[0] in by_subject):
        return by_value
    return by_subject if not by_value and len(by_subject) == 1 else []


def _same_count(said: str, new: Written, statement: str, old: Written) -> bool:
    """Whether both count the same: 8 km is no number of miles, and 三錠 none of 回."""
    mine, theirs = _counted(said, new), _counted(statement, old)
    if new.quantity.unit or mine:
        # A unit that is known stands in the place of the other; of one that is not, the word must be there already.
        return not theirs if new.quantity.unit and not old.quantity.unit else mine == theirs or not mine
    return True


def _counted(text: str, one: Written) -> str:
    """The word right behind a number without a unit that is known; empty where that counts nothing."""
    match = _COUNTED.match(text, one.end) if not one.quantity.unit else None
    word = match["word"].casefold() if match else ""
    return "" if word in _COUNTS_NOTHING else word


def _stands_alone(place: Written, every: list[Written], statement: str, new: Written, *, named: bool) -> bool:
    """Whether a number is a value by itself: not the hour of 三時前, nor of 午後三時 when only 四時 was said."""
    if any(other.start == place.end or other.end == place.start for other in every):
        return False
    if _SIGN.search(statement[: place.start]) or _RANGE.match(statement, place.end):
        return False
    if _GOES_ON.match(statement, place.end) or statement[place.end : place.end + 2].strip(":")[:1].isdigit():
        return False
    clock = place.quantity.unit in _CLOCK
    if named or not clock:
        return True
    if place.quantity.unit in ("am", "pm"):
        return new.quantity.unit == place.quantity.unit
    return place.quantity.unit == "時" and not _PART_OF_DAY.search(statement[: place.start])


def _with_days(statement: str, stated_on: dt.date, said: PutRight, days: tuple[DateRange, ...]) -> Restated | None:
    right = {one.said for one in days}
    rest = said.words if (swap := swapped(said.words)) is None else swap[1]
    for one in right:
        rest = without_denied(rest).replace(one, "、")
    if written(rest):
        return None  # A time of day, too.
    found = named_days(statement, stated_on)
    wrong = {one.said for one in found}
    if len(right) != 1 or len(wrong) != 1:
        return None
    new, old = right.pop(), wrong.pop()
    places = _places(statement, old)
    if len(places) != 1 or {(one.first, one.last) for one in found} & {(one.first, one.last) for one in days}:
        return None
    return _put(statement, places[0], new, said, weekday=None, old=found)


def _with_weekday(statement: str, stated_on: dt.date, said: PutRight) -> Restated | None:
    named = WEEKDAY.findall(without_denied(said.words if (swap := swapped(said.words)) is None else swap[1]))
    found = named_days(statement, stated_on)
    places = [place for one in {one.said for one in found} for place in _places(statement, one)]
    places = places or [match.span() for match in WEEKDAY.finditer(statement)]
    if len(named) != 1 or len(places) != 1 or named[0] in statement[places[0][0] : places[0][1]]:
        return None
    return _put(statement, places[0], named[0], said, weekday=named[0], old=found)


def _put(
    statement: str,
    place: tuple[int, int],
    new: str,
    said: PutRight,
    *,
    weekday: str | None,
    old: tuple[DateRange, ...],
) -> Restated:
    """With the new day; written out where that is sure. A weekday alone never is: nobody said of which week."""
    start, end = place
    wrong = statement[start:end]
    if preposition := _PREPOSITION.match(wrong):
        start += preposition.end()
    elif said.language != "ja":
        before = re.search(r"\b(?:on|in|at)\s+$", statement[:start], re.IGNORECASE)
        preposition = before
    new = _PREPOSITION.sub("", new)
    alone = said.language != "ja" and preposition is None and weekday is not None
    text = statement[:start] + ("on " if alone else "") + new + statement[end:]
    if weekday is None:
        if said.language != "ja" and preposition is not None:
            # Tomorrow, not on tomorrow; what needs one gets it when it is written out.
            bare = re.sub(r"\b(?:on|in|at)\s+$", "", statement[:start], flags=re.IGNORECASE) + new + statement[end:]
            made = lasting(bare, said.on, said.language)
            text = made if made != bare else text
        else:
            text = lasting(text, said.on, said.language)
    return Restated(text, wrong, new, days=True)


def _opened(words: str) -> str:
    return _OPENING.sub("", _normal(words))


def _normal(words: str) -> str:
    return straight(words).strip()


def without_opening(words: str) -> str:
    """`words` (NFKC) without what only says that something was wrong: 違う、二万五千円だよ is 二万五千円だよ."""
    return _opened(without_denied(_opened(words)))


def _says_more(wrong: str, right: str) -> bool:
    return any(not one.isascii() and _SAYS_MORE.search(one) for one in (wrong, right))


def _denied(words: str) -> str:
    """The part of `words` that is taken back."""
    plain = straight(words)
    kept = without_denied(plain)
    return plain[: len(plain) - len(kept)] if plain.endswith(kept) else ""


def _alone(word: str) -> str:
    """A pattern for `word` that is no part of a longer one, as 東京 is of 東京都."""
    edges = {"kanji": "一-龯々", "katakana": "ァ-ヺー", "latin": "A-Za-z0-9"}
    first = next((of for of in edges.values() if re.match(f"[{of}]", word)), "")
    last = next((of for of in edges.values() if re.match(f"[{of}]", word[-1])), "")
    before, after = f"(?<![{first}])" if first else "", f"(?![{last}])" if last else ""
    return before + re.escape(word) + after


def _places(text: str, words: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(re.escape(words), text)]
