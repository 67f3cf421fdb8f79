"""Whether a summary says only what was said: every number, date and name in it against its source turns.

Also what two memories differ in, whether words correct something or open a topic, and what is filler. Pure: no model
is asked, and nothing is repaired here.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from server.memory.content import denies_for_another, is_bare_value, without_denied
from server.memory.dates import named_days
from server.memory.numbers import Quantity, as_written, quantities
from server.memory.restating import takes_back
from server.storage.words import entity_key, fold, plain

Difference = Literal["number", "date", "negation"]
Days = tuple[dt.date, dt.date]


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the source, and the local day they were said on: what 昨日 is counted from."""

    text: str
    on: dt.date


@dataclass(frozen=True, slots=True)
class Problems:
    """What a summary holds and its sources do not; false when there is nothing."""

    numbers: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.dates or self.entities)

    def words(self) -> tuple[str, ...]:
        """All of it, as the summary wrote it."""
        return (*self.numbers, *self.dates, *self.entities)


@dataclass(frozen=True, slots=True)
class Stated:
    """What a memory commits itself to."""

    numbers: frozenset[Quantity]
    days: frozenset[Days]
    negated: bool


def check(topic: str, summary: str, entities: Iterable[str], sources: Sequence[Said]) -> Problems:
    """What in a memory its sources do not say.

    A number may be written otherwise (三万円, 30,000円). A date may be relative in the source, be named more widely in
    the summary (11月 for 11月3日), or be the day of the conversation itself.
    """
    written = f"{topic}\n{summary}"
    spoken_of = [days for said in sources for days in named_days(said.text, said.on)]
    said_days = {(days.first, days.last) for days in spoken_of}
    said_days |= {(days.middle, days.middle) for days in spoken_of if days.about}
    slashed = {(int(month), int(day)) for said in sources for month, day in _SLASHED.findall(fold(said.text))}
    today = {said.on for said in sources}
    counted_from = max(today, default=dt.date.min)
    readings: dict[str, list[Days]] = {}
    for days in named_days(written, counted_from):
        readings.setdefault(days.said, []).append((days.first, days.last))
    dates = [
        words
        for words, among in readings.items()
        if not any(_is_said(one, said_days, today) or (one[0].month, one[0].day) in slashed for one in among)
    ]
    said_values = {one.value for said in sources for one in quantities(said.text)}
    spoken = [entity_key(said.text) for said in sources]
    return Problems(
        tuple(
            sorted({as_written(one) for one in quantities(_without(written, readings)) if one.value not in said_values})
        ),
        tuple(dates),
        tuple(name for name in entities if not any(entity_key(name) in words for words in spoken)),
    )


def stated(text: str, on: dt.date) -> Stated:
    """The numbers, days and negation of a memory whose words were written on the local day `on`."""
    text = without_denied(text)
    days = named_days(text, on)
    numbers = quantities(_without(text, {one.said for one in days}))
    return Stated(numbers, frozenset((one.first, one.last) for one in days), is_negated(text))


def contradicts(new: Stated, old: Stated) -> frozenset[Difference]:
    """In what two statements on one matter cannot both hold: other numbers of one unit, other days, a negation."""
    found: set[Difference] = set()
    units = {one.unit for one in new.numbers} & {one.unit for one in old.numbers}
    # 二万五千 corrects 三万円: one of them does not say what it counts.
    bare = (
        not units
        and len(new.numbers) == len(old.numbers) == 1
        and "" in {one.unit for one in new.numbers | old.numbers}
    )
    if differing_units(new, old) or (bare and _values(new) != _values(old)):
        found.add("number")
    if new.days and old.days and not any(_overlap(one, other) for one in new.days for other in old.days):
        found.add("date")
    if new.negated != old.negated:
        found.add("negation")
    return frozenset(found)


def differing_units(new: Stated, old: Stated) -> frozenset[str]:
    """The units, of those that both count in, in which no number is the same."""
    units = {one.unit for one in new.numbers} & {one.unit for one in old.numbers}
    return frozenset(unit for unit in units if not _of(new, unit) & _of(old, unit))


def adds_to(new: Stated, old: Stated) -> frozenset[Difference]:
    """What the new statement says and the old one does not: with anything of it, the two are never merged."""
    found: set[Difference] = set(contradicts(new, old))
    if not _values(new) <= _values(old):
        found.add("number")
    if not new.days <= old.days:
        found.add("date")
    return frozenset(found)


_NEGATION = re.compile(
    r"(?<![少危切汚])(?<!かもしれ)(?<!もった)(?<!まちがい)(?<!違い)"
    r"(?:ない|なかった|なくな|なくて|ません)|じゃな|ではな|やめ[たてるよ]|嫌い|きらい|苦手"
    r"|\b(?:not|never|no longer|don't|doesn't|didn't|isn't|aren't|wasn't|weren't|won't|can't|cannot|hates?|dislikes?"
    r"|stopped|quit|cancell?ed)\b",
    re.IGNORECASE,
)
_ONLY_LOOKS_NEGATED = re.compile(
    # Must: なければならない, ないといけない, なくちゃ.
    r"(?:なければ|なきゃ|なけりゃ|なくては|なくちゃ|ないと(?=(?:なら|いけ|だめ|駄目)|[。、!]?$)|ねば)、?"
    r"(?:(?:なら|いけ|だめ|駄目)(?:ない|ません|なかった|ぬ|なくな\w)?)?"
    r"|(?:とんでも|し(?:ょう|よう|かた|ょーが)(?:が|も)?|仕方(?:が|も)?|仕様が)(?:ない|なかった|なく(?:て|な)|ありません)"
    r"|(?:悪く|わるく|まちがい|間違い|違い|もったい)(?:は)?(?:ない|なかった|なく(?:て|な)|ありません)"
    r"|かも(?:しれ|知れ)(?:ない|ません)|(?:じゃ|では)ない(?:か(?!ら|っ)|ですか(?!ら)|でしょうか|\?)|だけ(?:じゃ|では)なく(?:て)?"
    r"|\bcan(?:'t|not) wait\b|\bnot only\b|\bnot just\b|\bnot bad\b|\bcan(?:'t|not) help\b|\bwhy not\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"(?:^|[。、!?\s])(?:いや|いえ|ううん)?[、,\s]*(?:(?:違う|ちがう|違った)(?![一-龯ァ-ヶ])|違います|ちがいます|間違えた|間違い(?!な[いく]))"
    r"|(?:じゃ|では)なくて|間違って[いた]|(?:の|は|が)間違い(?:[だでっ。、!]|$)|言い間違|訂正|本当は|ほんとは|正しくは"
    r"|^(?:いや|いえ|ううん|いいえ)?[、,\s]*(?:そう|それ)(?:じゃ|では)な(?:い(?:よ|って|んだ|です)?[、,。!]\s*\S|くて)"
    r"|(?:^|[.!?]\s*)no\s*[,.]\s*(?:actually|wrong|that(?:'s| is| was)\b"
    r"|(?:it|he|she|they)(?:'s|'re| is| was| are| were)\s+(?!fine|ok|okay|all right|alright|good|great|nothing))"
    r"|(?:^|[.!?]\s*)actually,?\s+(?:it|that|he|she|they|the|there|my|we)\b"
    r"|\bi meant\b|\bthat(?:'s| is| was) (?:wrong|not right)\b|\bcorrection\b"
    r"|\bi was wrong\b|^not (?!only|just|bad|at all|really|yet|much|sure)\w+",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"^(?:あ[っあ]?[、,\s]*)?(?:いや|いえ|いいえ|ううん|ごめん|すまん|すみません|すいません|しまった)"
    r"|^(?:oh,?\s+)?(?:no|nope|wait|sorry|oops|my mistake|my bad)\b",
    re.IGNORECASE,
)
"""Corrects when a number or a day follows, and nothing else: いや、二万五千円だよ."""


def is_negated(text: str) -> bool:
    """Whether something is denied, disliked or given up in `text`."""
    return bool(_NEGATION.search(_ONLY_LOOKS_NEGATED.sub(" ", plain(text))))


def is_correction(text: str) -> bool:
    """Whether somebody says that what was believed is wrong: 違う、二万五千円; no, actually; it's not 300, it's 250."""
    words = plain(text).strip()
    if _CORRECTION.search(words) or denies_for_another(words) or takes_back(text):
        return True
    return bool(_TAKES_BACK.search(words)) and is_bare_value(words)


_FILLER = (
    "おはよう おはようございます こんにちは こんばんは おやすみ おやすみなさい ただいま おかえり いってきます"
    " いってらっしゃい ありがとう ありがとうございます どうも どういたしまして ごめん ごめんなさい ごめんね すみません"
    " うん ううん はい いいえ ええ そう そうだね そうだよ そうなんだ そっか そうか なるほど へえ ふーん ほんと 本当"
    " まじ すごい いいね いいよ わかった 了解 オッケー おっけー ok じゃあね またね バイバイ さようなら もしもし ねえ"
    " あのね えーと えっと あはは ははは ふふ 元気 やあ よろしく お願い お願いします もういい もういいよ それで うーん"
    " hi hello hey goodmorning goodafternoon goodevening goodnight bye goodbye seeyou seeyoulater thanks thankyou"
    " thankyouverymuch yes yeah yep no nope okay alright isee really wow cool nice great howareyou imfine"
    " howareyoutoday howsitgoing whatsup howdoyoudo welcome 調子はどう 元気だった 元気ですか お元気ですか"
    " また明日 また明日ね また今度 また今度ね またあとで またあとでね じゃあまた ねえねえ seeyoutomorrow seeyousoon"
    " yourewelcome sorry hmm uh um well right sure gotit thatsnice thatsgreat haha good morning afternoon evening night"
    " thank you very much see later"
)
_NEW_TOPIC = re.compile(
    r"^(?:(?:あ|あっ|ああ|ねえ|えっと)[、,\s]*)?(?:そうそう|そういえば|そう言えば|ところで|それはそうと|話は?変わ|別の話"
    r"|そうだ[、,!\s]|思い出した|話を?変え)"
    r"|^(?:(?:oh|ah|so|hey|well|and|ok|okay),?\s+)?(?:by the way|anyways?\b|guess what|speaking of|that reminds me"
    r"|before i forget|on another note|changing the subject|something else\b|on a different note|one more thing)",
    re.IGNORECASE,
)


def opens_topic(text: str) -> bool:
    """Whether somebody says that they now talk about something else: そういえば, by the way."""
    return bool(_NEW_TOPIC.search(fold(text).strip()))


_NOT_WORDS = re.compile(r"[\W_ーっッ〜]+")
_STRETCHED = re.compile(r"(.)\1{2,}")


def is_filler(texts: Sequence[str]) -> bool:
    """Whether the user's words in a segment are nothing but greetings, answers like うん, and repetitions of those.

    True only where no model need be asked; everything doubtful is the summarizer's to decide.
    """
    return all(_is_filler(text) for text in texts)


def _is_filler(text: str) -> bool:
    parts = [_bare(part) for part in re.split(r"[。、,.!?\s]+", fold(text))]
    whole = _bare(fold(text))
    if not whole or whole in _BARE_FILLER or all(part in _BARE_FILLER for part in parts if part):
        return True
    clauses = [clause for clause in re.split(r"[。、,.!?]+", fold(text)) if _bare(clause)]
    return all(
        _bare(clause) in _BARE_FILLER or _GREETING_BY_NAME.fullmatch(clause.strip()) for clause in clauses
    ) or bool(_GREETING_BY_NAME.fullmatch(fold(text).strip()))


_GREETINGS_JA = (
    "おはよう(?:ございます)?|こんにち[はわ]|こんばん[はわ]|おやすみ(?:なさい)?|ただいま|おかえり|いってきます|行ってきます|またね|じゃあね"
    "|バイバイ|さようなら|ありがとう(?:ございます)?|どうも|もしもし|やあ|ねえ|ねぇ|ハロー"
)
_GREETINGS_EN = (
    "hi|hello|hey|hi there|hello there|hey there|good (?:morning|afternoon|evening|night)|bye|goodbye|bye bye|thanks"
    "|thank you|see you|welcome back"
)
_CALLED_JA = r"スタックチャン|スタックちゃん|ロボット(?:さん|くん|ちゃん)?|みんな|皆(?:さん)?"
_CALLED_EN = r"stack[\s-]?chan|robot|everyone|everybody|all"
"""The robot, or everybody. Any other word may be what is told, or the answer to what the robot asked: Hi, twelve."""
_BETWEEN = r"[ーっッ〜~]*[、,.!\s]*"
_GREETING_BY_NAME = re.compile(
    rf"(?:(?:{_CALLED_JA}|stack[\s-]?chan){_BETWEEN})?(?:{_GREETINGS_JA}){_BETWEEN}(?:{_CALLED_JA}|stack[\s-]?chan)?[。.!?ー〜~\s]*"
    rf"|(?:(?:stack[\s-]?chan|robot)[,.!\s]+)?(?:{_GREETINGS_EN})(?:[,.!\s]+(?:{_CALLED_EN}))?[.!?\s]*"
)
"""おはよう、スタックチャン; good morning, StackChan. Folded."""
_GREETING_FIRST = re.compile(
    rf"^(?:(?:{_GREETINGS_JA})[ーっッ〜~]*[、,。.!！\s]+|(?:ありがとう|おはよう|おやすみ|ただいま)(?=[ァ-ヺ])|(?:{_GREETINGS_EN})\b(?:\s+(?:stack[\s-]?chan|robot)\b)?[,.!]+\s*"
    r"|(?:hi|hello|hey|thanks)\s+)(?=\S)",
    re.IGNORECASE,
)


def without_greeting(text: str) -> str:
    """What is said after a greeting: Hi, twelve is twelve. A greeting alone stays."""
    return _GREETING_FIRST.sub("", text.strip(), count=1)


def _bare(text: str) -> str:
    return _NOT_WORDS.sub("", _STRETCHED.sub(r"\1", text))


_BARE_FILLER = frozenset(_bare(fold(word)) for word in _FILLER.split())


_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?![\d/])")
"""11/3, which names no day for certain, but may be what a summary writes out."""


def _is_said(days: Days, said: Iterable[Days], today: Iterable[dt.date]) -> bool:
    first, last = days
    if first == last and first in today:
        return True
    # A week or a month may be written as the day it begins on and the day it ends on.
    return any((first <= other[0] and other[1] <= last) or first == other[0] or last == other[1] for other in said)


def _overlap(one: Days, other: Days) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _of(what: Stated, unit: str) -> set[Decimal]:
    return {one.value for one in what.numbers if one.unit == unit}


def _values(what: Stated) -> set[Decimal]:
    return {one.value for one in what.numbers}


def _without(text: str, words: Iterable[str]) -> str:
    folded = fold(text)
    for said in sorted(words, key=len, reverse=True):
        folded = folded.replace(fold(said), " ")
    return folded
