"""What a sentence is about once its numbers, days and negation are taken out: the words that must be the same in two
statements before a difference between them is a contradiction.

Pure, by the look of the words. Errs to one side: a word too many only keeps two memories that one would have replaced.
Knows no memory and no similarity.
"""

from __future__ import annotations

import datetime as dt
import re

from server.memory.dates import named_days
from server.memory.numbers import quantities, without_quantities
from server.memory.questions import asks, sentences
from server.memory.supposed_words import AIMED_AT, DENIES, LOOKS_FOR_ASSENT, NOT_THAT, PAST, SUPPOSED
from server.storage.words import fold, straight

_NEGATED_FORM = re.compile(
    r"(?:じゃ|では|では?あり)?(?:なかった|ない|なくなった|なくなって)|(?:では|じゃ)?(?:あり)?ません(?:でした)?"
    r"|\b(?:not|never|no longer|doesn't|don't|didn't|isn't|aren't|wasn't|weren't|won't|can't|cannot)\b"
)
_LIKING = re.compile(r"大?好き|大?嫌い|きらい|苦手|\b(?:likes?|loves?|hates?|dislikes?)\b")
"""Which of the two it is, is what the negation says."""
_DENIED = re.compile(
    r"[^。、,.!?\s]{1,60}?(?:じゃなく(?:て|って)?+|ではなく(?:て)?+)[、,\s]*+(?=[^。、,.!?\s])"
    r"|\b(?:it's |it is |it was |that's )?(?:not|wasn't|isn't) [$¥€]?[\w][\w,]*(?: [a-z]+)?"
    r"(?:\s*[,;.](?!\d)\s*(?:but\s+)?|\s+but\s+)(?=(?:it's |it is |it was |that's )?\S)",
    re.IGNORECASE,
)
_JAPANESE_WORD = re.compile(r"(?P<kanji>[一-龯々]+)(?P<after>[ぁ-ん]*)|(?P<katakana>[ァ-ヺー]+)|(?P<kana>[ぁ-ん]+)")
_ENDING = re.compile(
    r"(?:だった|でした|である|なんだ|んだ|です|ます|ました|だよ|だね|だ|よ|ね|な|わ|さ|けど|から|って|っけ|の|は|が|を|に|で|と"
    r"|も|へ|や|か|った|ている|ていた|てる|てた|いる|いた|んで|して|した|する|し|た|て|ん|る|い|う|く|っ)$"
)
_BEGINNING = re.compile(r"^(?:ちゃん|くん|さん|は|が|を|に|で|と|も|の|へ|や|か|だった|だ|です)")
_LIGHT_KANA = frozenset(
    [
        "まだ",
        "もう",
        "また",
        "とても",
        "すごく",
        "ちょっと",
        "やっぱり",
        "やはり",
        "ほんとに",
        "もっと",
        "いま",
        "きょう",
        "それ",
        "これ",
        "あれ",
        "そう",
        "ちなみに",
        "いや",
        "いえ",
        "ううん",
        "いいえ",
        "ごめん",
        "ごめんね",
        "すまん",
        "すみません",
        "あ",
        "えっと",
        "ええと",
        "もの",
        "こと",
        "やつ",
        "ただ",
        "ちょうど",
        "だいたい",
        "たぶん",
        "さっき",
        "なった",
        "なって",
        "うん",
        "ああ",
        "あっ",
        "しまった",
        "すいません",
    ]
)
_CODE = re.compile(r"\b\d+(?:[-.]\d+){2,}\b|\b\d{2,4}-\d{3,4}\b", re.ASCII)
"""A telephone number or address: one value, whatever numbers are in it."""
_PART_OF_DAY = re.compile(r"(?:午前|午後|朝|昼|夕方|夜)の?(?=[\d一二三四五六七八九十])")
_LIGHT_KANJI = frozenset(
    [
        "買",
        "値段",
        "価格",
        "本当",
        "実",
        "確",
        "結局",
        "全部",
        "今",
        "現在",
        "前",
        "時",
        "言",
        "思",
        "間違",
        "違",
        "訂正",
        "正",
    ]
)
"""What adds nothing to a number (買った, 値段は), and words of correction."""
_LIGHT_ENGLISH = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "am",
        "i",
        "i'm",
        "i've",
        "my",
        "me",
        "we",
        "our",
        "user",
        "s",
        "it",
        "it's",
        "that's",
        "that",
        "this",
        "there",
        "there's",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "to",
        "of",
        "in",
        "on",
        "at",
        "for",
        "with",
        "and",
        "or",
        "but",
        "so",
        "just",
        "now",
        "still",
        "only",
        "about",
        "around",
        "actually",
        "really",
        "no",
        "nope",
        "wait",
        "sorry",
        "oops",
        "correction",
        "mean",
        "meant",
        "bought",
        "buy",
        "paid",
        "pay",
        "cost",
        "costs",
        "price",
        "costed",
        "spent",
        "wrong",
        "well",
        "oh",
        "hmm",
        "um",
        "uh",
        "ah",
        "yes",
        "okay",
        "ok",
        "got",
    ]
)
_MORE = re.compile(
    r"あと|もう|さらに|ずつ|追加|足して|合計|全部|合わせ|残り|割引|引き|安い|高い|以上|以下|くらい|ぐらい|約"
    r"|\b(?:more|less|another|plus|each|extra|total|together|also|off|over|under|about|around|almost|minutes?|hours?)\b"
)
_HOME = re.compile(
    r"(?P<there>[一-龯々ァ-ヺー]{2,})(?:に|へ)(?:引っ越して)?(?:住(?:ん|み|む|ま)|引っ越し(?:た(?!い)|て|ました))"
    r"|\b(?:[Ll]ives?|[Ll]iving|[Mm]oved) (?:now )?(?:in|to) (?P<place>[A-Z][\w'-]*(?: [A-Z][\w'-]*)*)"
)
_NOT_NOW = re.compile(
    r"住んでいた|住んでた|住んでいました|住みた|住むつもり|住む予定|\bused to\b|\blived\b|\bwould\b|\bif\b"
)
WEEKDAY = re.compile(
    r"(?<![一-龯々])[月火水木金土日]曜日?(?![一-龯々])|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", re.IGNORECASE
)
"""One by itself is no day yet: which week it is in, nobody said."""
_MOVING = frozenset(("住", "引", "越", "live", "living", "moved", "now"))
_ANY_DAY = dt.date(2000, 1, 3)
_A_MONTH = 27
"""Days after its first."""


def without_denied(text: str) -> str:
    """As NFKC, without what it denies to say something else: 三万円じゃなくて二万五千円, not 300 but 250."""
    return _DENIED.sub("", straight(text))


def denies_for_another(text: str) -> bool:
    """Whether a value is denied and another put in its place."""
    rest = without_denied(text)
    return rest != straight(text) and has_value(rest) and quantities(rest) != quantities(text)


def has_value(text: str) -> bool:
    """Whether a number or a day is in it."""
    return bool(quantities(text) or named_days(text, _ANY_DAY))


def content_words(text: str, on: dt.date) -> frozenset[str]:
    """Words that say what `text` is about, folded: no numbers with their units, days, negation, likes or particles."""
    text = without_denied(text)
    for said in sorted({one.said for one in named_days(text, on)}, key=len, reverse=True):
        text = text.replace(said, " 、 ")
    text = _LIKING.sub("、", _NEGATED_FORM.sub("、", without_quantities(fold(text))))
    found: set[str] = set()
    for match in _JAPANESE_WORD.finditer(text):
        if katakana := match["katakana"]:
            found.add(katakana)
        elif kanji := match["kanji"]:
            if kanji not in _LIGHT_KANJI:
                found.add(kanji)
            # Up to two are the ending of the word itself.
            if len(rest := _bare_kana(match["after"])) > 2:
                found.add(rest)
        elif len(rest := _bare_kana(match["kana"])) > 1 and rest not in _LIGHT_KANA:
            found.add(rest)
    for word in re.findall(r"[a-z0-9][a-z0-9'+-]*", text):
        if word not in _LIGHT_ENGLISH:
            plain = word.removesuffix("'s")
            found.add(plain[:-1] if len(plain) > 3 and plain.endswith("s") else plain)
    return frozenset(found)


def is_bare_value(text: str) -> bool:
    """Whether somebody tells one number or day and nothing else that counts: いや、二万五千円だよ; no, Friday."""
    plain = without_denied(text).strip()
    if any(map(asks, sentences(plain))) or _MORE.search(fold(plain)) or not is_asserted(plain):
        return False
    return _is_value_alone(plain)


def is_asserted(text: str) -> bool:
    """Whether what `text` gives is said to be so: not supposed, wished, believed, quoted or in jest, and no value of it
    only denied (二万五千円じゃないよ)."""
    return not is_supposed(text) and not _only_denied(without_denied(text).strip())


def is_supposed(text: str) -> bool:
    """Whether what it gives is supposed, wished, believed once, heard from others, or said in jest."""
    return bool(SUPPOSED.search(fold(straight(text)).strip()))


def is_aimed_at(text: str) -> bool:
    """Whether what it gives is not so, or not known to be: supposed, or what somebody wants it to be."""
    words = fold(straight(text)).strip()
    return bool(AIMED_AT.search(words)) or is_supposed(LOOKS_FOR_ASSENT.sub("", words))


def past_times(text: str, on: dt.date) -> frozenset[str]:
    """When it was so, where `text`, said on the day `on`, tells of another time than now: 去年の, used to, in 2010."""
    found = {match[0] for match in PAST.finditer(fold(straight(text)))}
    days = named_days(text, on)
    return frozenset(found | {one.said for one in days if one.last < on and (one.last - one.first).days >= _A_MONTH})


def is_unasserted_value(text: str) -> bool:
    """Whether a number or a day is all there is, and nobody says that it is so: it's not 900; もし九万円だったら."""
    plain = without_denied(text).strip()
    return not is_asserted(plain) and _is_value_alone(DENIES.sub("、", SUPPOSED.sub("、", fold(plain))))


def _only_denied(plain: str) -> bool:
    rest = NOT_THAT.sub("、", fold(plain))
    denied = (rest[: match.start()] if not match[0].isascii() else rest for match in DENIES.finditer(rest))
    return any(has_value(one) or WEEKDAY.search(one) for one in denied)


def _is_value_alone(plain: str) -> bool:
    plain = _PART_OF_DAY.sub("", _CODE.sub("1", plain))
    numbers, days = quantities(plain), {(one.first, one.last) for one in named_days(plain, _ANY_DAY)}
    weekdays = {match[0] for match in WEEKDAY.finditer(plain)}
    named = bool(days) or len(numbers) == 1 or (len(weekdays) == 1 and not numbers)
    return named and not content_words(WEEKDAY.sub("、", plain), _ANY_DAY)


def home_of(text: str) -> str | None:
    """Where somebody lives now, folded, when `text` says so and nothing of it is denied, past or wished."""
    if _NEGATED_FORM.search(fold(text)) or _NOT_NOW.search(fold(text)):
        return None
    found = {fold(match["there"] or match["place"]) for match in _HOME.finditer(straight(text))}
    return found.pop() if len(found) == 1 else None


def resident(text: str, on: dt.date) -> frozenset[str]:
    """The words of a statement about a home but for the place and the moving: who it is."""
    return content_words(text, on) - _MOVING - content_words(home_of(text) or "", on)


def _bare_kana(kana: str) -> str:
    """Hiragana without particles and endings around it."""
    if kana in _LIGHT_KANA:
        return ""
    while shorter := _BEGINNING.match(kana):
        kana = kana[shorter.end() :]
    while kana not in _LIGHT_KANA and (shorter := _ENDING.search(kana)):
        kana = kana[: shorter.start()]
    return "" if kana in _LIGHT_KANA else kana
