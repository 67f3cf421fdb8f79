"""What is said after memory was searched, where the model is too small to say it truly.

A small model that was shown the right memory often says another thing: a price it makes up, a name from an example, the
question again. So its reply to a question is what the memory itself says, in words around it that are true whatever was
asked: that it was told. A face and a movement are put to it by `pipeline/ruled.py`. Pure; knows results as data, no
tool and no model.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.memory.content import content_words, is_aimed_at, past_times
from server.memory.dates import named_days
from server.memory.numbers import quantities
from server.memory.said_days import MONTHS_EN
from server.memory.telling import written_in
from server.memory.wishes import is_of_their_life

_ANY_DAY = dt.date(2000, 1, 3)
_QUOTED_JA, _QUOTED_EN = 80, 180
"""Characters."""
_ASKS_NUMBER = re.compile(
    r"いくら|何(?:歳|才|円|個|人|番|回|本|枚|キロ|度|階)|いくつ|番号|値段"
    r"|\bhow (?:much|many|old|tall)\b|\b(?:price|phone number)\b",
    re.IGNORECASE,
)
_ASKS_DAY = re.compile(r"いつ(?!も)|何(?:時|月|日|曜|年)|\bwhen\b|\bwhat (?:time|day|date|month|year)\b", re.IGNORECASE)
_TELLS_TIME = re.compile(
    r"[朝昼夜晩時曜]|午前|午後|\b(?:morning|noon|evening|night|o'clock|past|[ap]m)\b", re.IGNORECASE
)
_TO_THE_ROBOT = re.compile(r"\b(?:you|your|yours|you're|you've|yourself)\b", re.IGNORECASE)
_MINE = re.compile(
    r"(?<![\w'.@/#&-])(?:I (?:am|was)|(?:we|I)(?:'(?:m|re|ve|ll|d))?|my|mine|myself|me|us|our|ours|ourselves)"
    r"(?![\w'@/#&-]|\.\w)"
)
_BEGINS = re.compile(r"(?<![^.!?;] )\b(?:We|My|Our|Mine|Ours)\b(?=(?:'(?:re|ve|ll|d))?(?![\w'-]) [a-z\d])")
"""With a capital, at the beginning of a sentence, before what is no other part of a name (My Chemical Romance)."""
_NOT_TURNED = re.compile(
    r"[\"“”‘«»「」*]|(?:^|\s)'|-I\b|\bI-|\b(?:Me|US|WE|MY|ME|OUR|Us|Myself)\b"
    r"|\b[A-Z][\w']* (?:[a-z]+ )?(?:me|us|mine)\b(?= [A-Z])|\b(?:We|My|Our|Mine|Ours) [A-Z]"
    r"|\b(?:called|named|titled|(?:song|book|film|movie|show|band|album) (?:is|was))\b[^.]*\b(?:I|me|my|we|us|our)\b"
    r"|\b(?:I|[Ll]et|[Cc]all|[Tt]ell) (?:it )?be me\b|\b[Ll]et\b"
    r"|\b(?:World War|Type|Part|Class|Grade|Chapter|Volume|Book) I\b"
)
"""What may be a name, a title or somebody else's words is not turned: it is quoted as it stands."""
_YOURS = {
    **{"i am": "you are", "i was": "you were", "i'm": "you're", "i've": "you've", "i'll": "you'll", "i'd": "you'd"},
    **{"we're": "you're", "we've": "you've", "we'll": "you'll", "we'd": "you'd", "i": "you", "we": "you"},
    **{"my": "your", "mine": "yours", "myself": "yourself", "me": "you", "us": "you", "our": "your", "ours": "yours"},
    "ourselves": "yourselves",
}
_SMALL = "a an the this that these those there here it he she they his her its their you your you're you've you'll"
_SMALL_AT_A_START = frozenset(_SMALL.split())


def replies_from_memory(result: Mapping[str, Any], question: str, language: str) -> tuple[str, ...]:
    """The replies that are true of a result of `search_memory`, in `language` (ISO 639-1; Japanese, else English).

    Empty: nothing was found, which the model may know by itself, unless it is asked about the life of who asks; or the
    search says something that is not known here.
    """
    if "error" in result:
        return ()
    told = [one for key in ("candidates", "said") for one in _entries(result.get(key)) if _text(one)]
    japanese = language == "ja"
    if not told:
        if result.get("note") is None or not is_of_their_life(question):
            return ()
        return ("ごめんね、それは覚えていないよ。",) if japanese else ("Sorry, I do not remember that.",)
    if result.get("ambiguous") is True and len(told) > 1:
        first, second = (_quoted(_text(one), japanese) for one in told[:2])
        if japanese:
            return (f"{first}と{second}、どっちのことかな。",)
        return (f"Which one do you mean: {first} or {second}?",)
    one = _that_stands(told, question)
    if one.get("unsure") is True:
        quoted = _quoted(_text(one), japanese)
        return (f"{quoted}のことかな。",) if japanese else (f"Do you mean this: {quoted}?",)
    return (_told_ja if japanese else _told_en)(_text(one), _day(one), question)


def asks_for_a_number_or_day(question: str) -> bool:
    """Whether the answer hangs on one."""
    return bool(_ASKS_NUMBER.search(question) or _ASKS_DAY.search(question))


def _that_stands(told: Sequence[Mapping[str, Any]], question: str) -> Mapping[str, Any]:
    """The first, unless that only tells what was so once or is wished for, and another tells of the same what is so."""
    first, words = told[0], _words(_text(told[0]))
    if _stands(first) or not _stands({**first, "summary": question}):
        return first
    same = (one for one in told[1:] if _stands(one) and words & _words(_text(one)) and not one.get("unsure"))
    return next(same, first)


def _stands(entry: Mapping[str, Any]) -> bool:
    text = _text(entry)
    return not is_aimed_at(text) and not past_times(text, _day(entry) or _ANY_DAY)


def _words(text: str) -> frozenset[str]:
    return content_words(text, _ANY_DAY)


def _told_ja(text: str, day: dt.date | None, question: str) -> tuple[str, ...]:
    quoted = _quoted(text, True)
    if _lacks_number(text, question):
        return (f"そこまでは聞いていないよ。{quoted}とは聞いたよ。",)
    if day is not None and _lacks_day(text, question, day):
        return (f"{quoted}って{day.month}月{day.day}日に聞いたよ。",)
    return (f"{quoted}って聞いたよ。",)


def _told_en(text: str, day: dt.date | None, question: str) -> tuple[str, ...]:
    said = _said_of_you(text)
    if _lacks_number(text, question):
        return (f"You did not tell me that, only {said}",)
    if day is not None and _lacks_day(text, question, day):
        return (f"On {MONTHS_EN[day.month - 1]} {day.day} you told me {said}",)
    return (f"You told me {said}",)


def _lacks_number(text: str, question: str) -> bool:
    return bool(_ASKS_NUMBER.search(question)) and not quantities(text) and not re.search(r"\d", text)


def _lacks_day(text: str, question: str, day: dt.date) -> bool:
    asks = bool(_ASKS_DAY.search(question)) and not _ASKS_NUMBER.search(question)
    return asks and not (named_days(text, day) or quantities(text) or _TELLS_TIME.search(text))


def _said_of_you(text: str) -> str:
    """English words of the user as they are told to the user; those that cannot be are quoted."""
    short = _short(text, _QUOTED_EN)
    if written_in(text) != "latin" or ":" in text or "?" in text or _TO_THE_ROBOT.search(text):
        return f"this: “{short}”."
    plain = _BEGINS.sub(lambda found: found[0].lower(), short.replace("’", "'"))
    if _NOT_TURNED.search(plain):
        return f"this: “{short}”."
    turned = _MINE.sub(lambda found: _YOURS.get(found[0].lower(), found[0]), plain)
    turned = re.sub(r"([.!] )([a-z])", lambda found: found[1] + found[2].upper(), turned)
    head, *rest = turned.split(" ", 1)
    first = head.lower() if head.lower() in _SMALL_AT_A_START else head
    return " ".join(["that", first, *rest]) + "."


def _quoted(text: str, japanese: bool) -> str:
    return f"「{_short(text, _QUOTED_JA)}」" if japanese else f"“{_short(text, _QUOTED_EN)}”"


def _short(text: str, characters: int) -> str:
    text = " ".join(text.split()).strip("。.!?！？ ")
    return text if len(text) <= characters else text[: characters - 1].rstrip("、, ") + "…"


def _entries(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("summary") or entry.get("text")
    return text if isinstance(text, str) and _short(text, _QUOTED_EN) else ""


def _day(entry: Mapping[str, Any]) -> dt.date | None:
    written = entry.get("occurred_at") or entry.get("said_at")
    try:
        return dt.date.fromisoformat(written[:10]) if isinstance(written, str) else None
    except ValueError:
        return None
