"""Whether somebody asks for a timer, by the form of their words: to set one, to hear which run, to end one.

A small model is offered a tool only then, so a request must be one: three minutes in 3分タイマー, and not in 3分遅れた.
Pure; sets nothing.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

TimerRequest = Literal["set", "list", "cancel"]

_JA_DIGITS = {digit: value for value, digit in enumerate("〇一二三四五六七八九")}
_EN_NUMBERS = {
    **{
        word: value
        for value, word in enumerate(
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
        )
    },
    **{word: 11 + value for value, word in enumerate(["eleven", "twelve", "thirteen", "fourteen", "fifteen"])},
    **{word: 16 + value for value, word in enumerate(["sixteen", "seventeen", "eighteen", "nineteen"])},
    **{
        word: 20 + 10 * value
        for value, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
    },
    **{"a": 1, "an": 1, "half": 0.5, "a couple of": 2},
}
_UNIT_SECONDS = {
    "時間": 3600,
    "分": 60,
    "秒": 1,
    "hour": 3600,
    "hr": 3600,
    "minute": 60,
    "min": 60,
    "second": 1,
    "sec": 1,
}

_JA_NUMBER = r"(?:\d+(?:\.\d+)?|[〇一二三四五六七八九十百]+)"
_JA_DURATION = re.compile(rf"({_JA_NUMBER})\s*(時間|分|秒)(?:間)?(半)?(?!前|遅|早|間隔|足らず|目)")
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_EN_WORD = rf"(?:(?:{_TENS})[- ](?:{_ONES})|{'|'.join(sorted(_EN_NUMBERS, key=len, reverse=True))})"
_EN_NUMBER = rf"(?:\d+(?:\.\d+)?|{_EN_WORD})"
_EN_UNIT = "hours?|hrs?|minutes?|mins?|seconds?|secs?"
_EN_DURATION = re.compile(
    rf"\b({_EN_NUMBER})[ -]?(?:an? )?({_EN_UNIT})\b(?: and (a half|a quarter)(?! (?:hour|minute)))?"
    r"(?! (?:ago|before|late|early))"
)

# タイマー as something one has done to it, not as what somebody else has, or once had.
_JA_TIMER = r"(?:タイマー|アラーム)"
_JA_SET = re.compile(
    rf"{_JA_TIMER}(?:を|も)?(?:もう一つ|一つ)?(?:{_JA_NUMBER}(?:時間|分|秒)(?:間)?半?(?:で|に|の)?)?\s*"
    r"(?:セット|設定|かけ|掛け|スタート|開始|始め|はじめ|つけ|入れ|お願い|おねがい|頼|よろしく|ください|下さい|ちょうだい|して)"
    rf"|(?:時間|分|秒|間|半)(?:の)?{_JA_TIMER}(?:を)?[。!！]?$"
    r"|(?:時間|分|秒|半)(?:間)?(?:だけ)?(?:計って|測って|はかって|カウントして|数えて)"
)
_JA_LATER = re.compile(
    r"(?:時間|分|秒|半)(?:間)?(?:後|したら|たったら|経ったら|過ぎたら)(?:に|で|、|くらいに|ぐらいに|ごろに)?"
    r".*(?:教えて|おしえて|知らせて|しらせて|起こして|おこして|呼んで|声をかけて|声かけて|鳴らして|思い出させて"
    r"|リマインド(?:して)?|言って|って通知)"
)
_JA_DONE = re.compile(
    r"(?:て|で|(?<![分秒間半])し)(?:くれた|もらった|いた|た|ました|ちゃった|しまった|ある)|(?<![分秒間半])(?:した|かけた)(?:よ|の|っけ|けど|から|ら|とき|時)|忘れ|しないで|なくて|ないで"
)
_JA_CANCEL = re.compile(
    rf"{_JA_TIMER}(?:は|を|も)?(?:全部|ぜんぶ|すべて|もう)?(?:の)?"
    r"(?:止めて|とめて|停止|ストップ|消して|けして|解除|キャンセル|取り消|取消|やめて|やめ|いらない|要らない|なしで|切って|オフ)"
)
_JA_LIST = re.compile(
    rf"{_JA_TIMER}.*(?:あと(?:何|どれ|どの|いくつ)|残り|のこり|いくつ|何個|何時に|いつ鳴|ある[?？]|ありますか|動いてる|セットしてある|一覧|確認|教えて)"
    rf"|(?:あと|残り)(?:何分|何秒|何時間|どれ(?:くらい|ぐらい)).*{_JA_TIMER}"
)

_EN_TIMER = r"(?:timers?|alarms?)"
_EN_ASK = (
    r"(?:^|[.!?;:,]\s*|\b(?:please|now|then|and|so|ok|okay|hey|stackchan|can you|could you|would you|will you"
    r"|let's|you to|i need|i want|i'd like)\s+)"
)
_EN_SET = re.compile(
    rf"{_EN_ASK}(?:set|start|make|create|give me|put on|run|begin|add)\b(?! (?:off|up the)\b)[^.!?]*\b{_EN_TIMER}\b"
    rf"|{_EN_ASK}(?:an?|another) (?:[\w-]+ ){{0,4}}{_EN_TIMER}\b"
    rf"|(?:^|[,.] )(?:{_EN_NUMBER})[ -](?:{_EN_UNIT})(?: [\w-]+)? {_EN_TIMER}\b|^timer (?:for|of) "
    rf"|{_EN_ASK}(?:time|count(?: down)?)(?: me)?(?: for)? {_EN_NUMBER}[ -]?(?:{_EN_UNIT})\b"
)
_EN_REMIND = re.compile(
    rf"{_EN_ASK}(?:remind|tell|wake|call|alert|ping|notify|let|give) (?:me|us)\b.*"
    rf"\b(?:in|after) (?:about )?{_EN_NUMBER}"
    rf"|\b(?:in|after) (?:about )?{_EN_NUMBER}[ -]?(?:an? )?(?:{_EN_UNIT})(?: and a half)?,? (?:please )?"
    r"(?:remind|tell|wake|call|alert|ping|notify|let) (?:me|us)\b"
)
_EN_CANCEL = re.compile(
    rf"{_EN_ASK}(?:cancel|stop|end|delete|remove|turn off|clear|kill|silence|switch off)\b[^.!?]*\b{_EN_TIMER}\b"
    rf"|{_EN_ASK}turn (?:the |that |my |all )?(?:[\w-]+ )?{_EN_TIMER} off"
)
_EN_LIST = re.compile(
    rf"\b(?:how (?:much|many|long)|what|which|show|list|tell me|when|is there|are there|do i have)\b"
    rf"[^.!?]*\b{_EN_TIMER}\b(?![^.!?]*\b(?:buy|cost|mean|work|invented|made of)\b)"
)
_EN_ABOUT_TIMERS = re.compile(
    rf"\b(?:{_EN_TIMER} (?:i have|do i have|are|is (?:left|running|set|on|there|going)|have|left"
    rf"|running|will|going|goes|set)|(?:left|remaining|remains)\b.*\b(?:on|of|in)\b.*\b{_EN_TIMER}|(?:my|any|the|all)\b[^.!?]*\b{_EN_TIMER}"
    rf"|{_EN_TIMER} do i have)\b"
)
_EN_PAST = re.compile(
    r"\b(?:i|he|she|they|we|my \w+) (?:already )?"
    r"(?:set|made|started|forgot|cancelled|canceled|stopped|had|bought|broke)\b"
    r"|\bdon't\b|\bdo not\b|\bnever\b"
)


def timer_request(words: str) -> TimerRequest | None:
    """What is asked about timers, in Japanese or English; None: nothing."""
    said = _folded(words)
    if _JA_CANCEL.search(said) and not _JA_DONE.search(said):
        return "cancel"
    if _EN_CANCEL.search(said) and not _EN_PAST.search(said):
        return "cancel"
    if _JA_LIST.search(said) and not _JA_LATER.search(said):
        return "list"
    if (_JA_SET.search(said) or (_JA_LATER.search(said) and durations(words))) and not _JA_DONE.search(said):
        return "set"
    if (_EN_SET.search(said) or (_EN_REMIND.search(said) and durations(words))) and not _EN_PAST.search(said):
        return "set"
    if _EN_LIST.search(said) and _EN_ABOUT_TIMERS.search(said) and not _EN_PAST.search(said):
        return "list"
    return None


def durations(words: str) -> tuple[int, ...]:
    """The lengths of time that are named, in seconds, in their order; 1時間30分 and "1 hour 30 minutes" are one."""
    said = _folded(words)
    found: list[tuple[int, int, float, int]] = []
    for pattern in (_JA_DURATION, _EN_DURATION):
        for match in pattern.finditer(said):
            unit = _UNIT_SECONDS[match[2].rstrip("s")]
            more = {"半": 0.5, "a half": 0.5, "a quarter": 0.25}.get(match[3] or "", 0.0)
            found.append((match.start(), match.end(), (_number(match[1]) + more) * unit, unit))
    lengths: list[float] = []
    last_end, last_unit = -1, 0
    for start, end, seconds, unit in sorted(found):
        between = said[last_end:start] if last_end >= 0 else ""
        if lengths and unit < last_unit and between.strip(" 、,") in ("", "and", "と"):
            lengths[-1] += seconds
        else:
            lengths.append(seconds)
        last_end, last_unit = end, unit
    return tuple(round(seconds) for seconds in lengths if seconds >= 1)


_JA_LABEL = re.compile(rf"(?:^|[、。\s])([^、。\s\d]{{1,12}}?)(?:の|用の|用に){_JA_TIMER}")
_JA_TO_SAY = re.compile(
    r"(?:時間|分|秒|半)(?:間)?(?:後|したら|たったら|経ったら|過ぎたら)(?:に|で|、)?(.{1,40}?)(?:って|と|を|のを|ように)?"
    r"(?:教えて|知らせて|思い出させて|リマインド|言って)"
)
_EN_LABEL = re.compile(
    rf"\b(?:timer|alarm)\b.*?\bfor (?:the |my |some )?((?!{_EN_NUMBER}\b)[a-z][a-z' -]{{1,39}}?)"
    r"(?: for\b| please\b|[.,!?]|$)"
)
_EN_KIND = re.compile(rf"\b([a-z]+) {_EN_TIMER}\b")
_EN_TO_SAY = re.compile(
    rf"\bremind me (?:in {_EN_NUMBER}[ -]?(?:an? )?(?:{_EN_UNIT}) )?to ([a-z][a-z' -]{{1,59}}?)"
    rf"(?: (?:in|after) {_EN_NUMBER}.*|[.,!?]|$)"
)
_NO_KIND = frozenset(
    [
        "a",
        "an",
        "the",
        "another",
        "one",
        "my",
        "new",
        "minute",
        "minutes",
        "second",
        "seconds",
        "hour",
        "hours",
        "set",
        "start",
        "timer",
        "alarm",
        "kitchen",
        "any",
        "this",
        "that",
    ]
)


def timer_label(words: str) -> str:
    """What a timer is for, in the user's own words; empty when they do not say."""
    said = _folded(words)
    for pattern in (_JA_LABEL, _JA_TO_SAY, _EN_TO_SAY, _EN_LABEL):
        if match := pattern.search(said):
            label = re.sub(rf"^{_JA_NUMBER}(?:時間|分|秒)(?:間|後)?(?:に|の)?", "", match[1]).strip(" 、。,.")
            if label.strip("にで") and not _JA_DURATION.fullmatch(label):
                return label
    kind = _EN_KIND.search(said)
    return kind[1] if kind and kind[1] not in _NO_KIND and kind[1] not in _EN_NUMBERS else ""


def _folded(words: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", words[:500]).casefold().replace("’", "'").split())


def _number(text: str) -> float:
    if text[0].isdigit():
        return float(text)
    if text in _EN_NUMBERS:
        return float(_EN_NUMBERS[text])
    if text[0].isascii():
        return float(sum(_EN_NUMBERS[part] for part in re.split(r"[- ]", text)))
    total = 0
    digit = 0
    for character in text:
        if character == "百":
            total, digit = total + (digit or 1) * 100, 0
        elif character == "十":
            total, digit = total + (digit or 1) * 10, 0
        else:
            digit = digit * 10 + _JA_DIGITS[character]
    return float(total + digit)
