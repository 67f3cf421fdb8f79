"""A question and the bare value that answers it, as one statement: いくらだったっけ, 二万五千円 say nothing apart.

Subject and answer are words that were said; only は or a colon is put between them. Where the question does not say
plainly what it asks about, or the answer is not of the kind it asks for, nothing is made. Pure.
"""

from __future__ import annotations

import datetime as dt
import re

from server.memory.content import WEEKDAY, is_bare_value
from server.memory.dates import named_days
from server.memory.nouns import nouns
from server.memory.numbers import quantities
from server.memory.restating import without_opening
from server.memory.telling import exact
from server.storage.words import straight

_ANY_DAY = dt.date(2000, 1, 3)
_SHORT = 16
"""Characters of an answer that is a number or a day and nothing else."""
_THING = (
    r"(?:[一-龯々ヶァ-ヺーA-Za-z0-9・]+|お[ぁ-ん父母兄姉]{1,2}(?:さん|ちゃん)|「[^「」]{1,30}」)(?:さん|ちゃん|くん)?"
)
_JAPANESE_SUBJECT = re.compile(
    rf"(?P<subject>{_THING}(?:の{_THING}){{0,3}})(?:って(?:いうのは)?|は|が|、|を|も|(?=いつ|いくら|いくつ|何)|$)"
)
_POINTING = re.compile(
    r"^(?:(?:ねえ|あの|えっと|ところで|そういえば|そうそう|じゃあ|で)[、\s]*)*"
    r"(?:この前の?|こないだの?|前の|例の|この|その|あの|あれ|うちの|私の|わたしの|僕の|ぼくの|俺の|おれの|今度の)?"
)
_ASKED = re.compile(
    r"(?P<money>いくら|値段|価格|料金|how much|price|cost)"
    r"|(?P<clock>何時|what time)"
    r"|(?P<day>いつ|何日|何曜|日にち|日付|when|what (?:day|date)|which day)"
    r"|(?P<count>何[一-龯]|いくつ|どれくらい|どのくらい|番号|コード|アドレス|(?<![a-z])ip(?![a-z])"
    r"|how (?:many|long|old|far|big|tall|heavy)|number|\bcode\b|\bpin\b)",
    re.IGNORECASE,
)
_NO_SUBJECT = re.compile(
    r"^(?:何|いつ|いくら|いくつ|誰|だれ|どこ|どれ|今|今日|明日|昨日|これ|それ|あれ|値段|価格)[一-龯]?$"
)
_MONEY = frozenset(("円", "ドル", "ユーロ", ""))
_CLOCK = frozenset(("時", "am", "pm", "o'clock", ""))
_ENGLISH_DETERMINER = re.compile(r"\b(my|our|his|her|their|the|your)\s+$", re.IGNORECASE)
_BETWEEN = re.compile(r"(?:'s|s'|of|for|to|at|in|the|my|our|his|her|their|\s)*", re.IGNORECASE)
_VALUE_BEGINS = re.compile(
    r"^(?:(?:it|that|they|the price|the answer)(?:'s|'re| is| was| are| were| costs?)|for|i think|i paid|about)\s+",
    re.IGNORECASE,
)


def is_answer(text: str, on: dt.date) -> bool:
    """Whether `text` is a number, a day or a weekday and little else, so that it says nothing by itself."""
    plain = straight(text).strip()
    return is_bare_value(plain) or (len(plain) < _SHORT and exact(plain, on))


def statement_of(question: str, answer: str, language: str) -> str | None:
    """`question`'s subject and the value of `answer` as one statement. `language`: ja or en, else None comes back."""
    if not _fits(question, answer):
        return None
    value = without_opening(answer).rstrip("。.!！ ")
    if language == "ja":
        value = re.sub(r"の間違い.*$", "", value)
        subject = _japanese_subject(question)
        return f"{subject}は{value}。" if subject and value else None
    if language == "en":
        subject = _english_subject(question)
        value = _VALUE_BEGINS.sub("", value)
        return f"{subject[0].upper()}{subject[1:]}: {value}." if subject and value else None
    return None


def asks_another(question: str, answer: str) -> bool:
    """Whether a question plainly asks for another kind of value than `answer` gives: いくら, and 七時だよ."""
    return _ASKED.search(question) is not None and not _fits(question, answer)


def _fits(question: str, answer: str) -> bool:
    """Whether it is asked for such a value: an amount for いくら, a day for いつ."""
    asked = _ASKED.search(question)
    plain = without_opening(answer)
    units = {one.unit for one in quantities(plain)}
    is_day = bool(named_days(plain, _ANY_DAY) or WEEKDAY.search(plain))
    if asked is None:
        return False
    if re.search(r"\d\s?:\s?\d\d", plain):
        return bool(asked["clock"] or asked["day"])
    if re.match(r"\s*今", plain) and asked["money"]:
        return False
    if asked["money"]:
        return not is_day and bool(units) and units <= _MONEY
    if asked["clock"]:
        return not is_day and bool(units) and units <= _CLOCK | {"分"}
    if asked["day"]:
        return is_day or bool(units & (_CLOCK - {""}))
    return bool(units) and not is_day


def _japanese_subject(question: str) -> str:
    plain = straight(question).strip()
    begins = _POINTING.match(plain)
    match = _JAPANESE_SUBJECT.match(plain, begins.end() if begins else 0)
    if match is None or _NO_SUBJECT.match(match["subject"]) or not nouns(f"{match['subject']}は", _ANY_DAY):
        return ""
    return match["subject"]


def _english_subject(question: str) -> str:
    plain = straight(question)
    found = [(plain.find(name), name) for name in nouns(plain, _ANY_DAY)]
    if not found or any(place < 0 for place, _ in found):
        return ""
    found.sort()
    start, end = found[0][0], found[0][0] + len(found[0][1])
    for place, name in found[1:]:
        if place >= end and not _BETWEEN.fullmatch(plain[end:place]):
            return ""
        end = max(end, place + len(name))
    if determined := _ENGLISH_DETERMINER.search(plain[:start]):
        start = determined.start()
    subject = plain[start:end]
    return "" if subject.lower().startswith("your ") else subject
