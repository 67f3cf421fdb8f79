"""Whether somebody asks for a timer, by the form of their words: to set one, to hear which run, to end one.

A small model is offered a tool only then, so a request must be one: three minutes in 3分タイマー, and not in 3分遅れた.
Pure; sets nothing.
"""

from __future__ import annotations

import re
from typing import Literal

from server.pipeline.clock_words import JA_TIME, asks_to_be_told_at_a_time, is_only_a_time
from server.pipeline.spoken_forms import EN_ASK, EN_NOT_ASKED, EN_NUMBER, JA_NUMBER, NUMBER_WORDS, folded, number_of

TimerRequest = Literal["set", "list", "cancel"]

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

# 30分 is a length, and in 7時30分 it is none.
_JA_DURATION = re.compile(
    rf"(?<![\d.〇一二三四五六七八九十百時])({JA_NUMBER})\s*(時間|分|秒)(?:間)?(半)?(?!前|遅|早|間隔|足らず|目)"
)
_EN_UNIT = "hours?|hrs?|minutes?|mins?|seconds?|secs?"
_EN_DURATION = re.compile(
    rf"\b({EN_NUMBER})[ -]?(?:an? )?({_EN_UNIT})\b(?: and (a half|a quarter)(?! (?:hour|minute)))?"
    r"(?! (?:ago|before|late|early))"
)

# タイマー as something one has done to it, not as what somebody else has, or once had.
_JA_TIMER = r"(?:タイマー|アラーム|目覚まし(?:時計)?)"
_JA_SET = re.compile(
    rf"{_JA_TIMER}(?:を|も|は)?(?:もう一つ|一つ)?(?:(?:{JA_NUMBER}(?:時間|分|秒)(?:間)?半?|[^、。]{{0,6}}{JA_TIME})(?:で|に|の)?)?\s*"
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
_EN_SET = re.compile(
    rf"{EN_ASK}(?:set|start|make|create|give me|put on|run|begin|add)\b(?! (?:off|up the)\b)[^.!?]*\b{_EN_TIMER}\b"
    rf"|{EN_ASK}(?:an?|another) (?:[\w-]+ ){{0,4}}{_EN_TIMER}\b"
    rf"|(?:^|[,.] )(?:{EN_NUMBER})[ -](?:{_EN_UNIT})(?: [\w-]+)? {_EN_TIMER}\b|^timer (?:for|of) "
    rf"|{EN_ASK}(?:time|count(?: down)?)(?: me)?(?: for)? {EN_NUMBER}[ -]?(?:{_EN_UNIT})\b"
)
_EN_REMIND = re.compile(
    rf"{EN_ASK}(?:remind|tell|wake|call|alert|ping|notify|let|give) (?:me|us)\b.*"
    rf"\b(?:in|after) (?:about )?{EN_NUMBER}"
    rf"|\b(?:in|after) (?:about )?{EN_NUMBER}[ -]?(?:an? )?(?:{_EN_UNIT})(?: and a half)?,? (?:please )?"
    r"(?:remind|tell|wake|call|alert|ping|notify|let) (?:me|us)\b"
)
_EN_CANCEL = re.compile(
    rf"{EN_ASK}(?:cancel|stop|end|delete|remove|turn off|clear|kill|silence|switch off)\b[^.!?]*\b{_EN_TIMER}\b"
    rf"|{EN_ASK}turn (?:the |that |my |all )?(?:[\w-]+ )?{_EN_TIMER} off"
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


def timer_request(words: str) -> TimerRequest | None:
    """What is asked about timers, in Japanese or English; None: nothing."""
    said = folded(words)
    if _JA_CANCEL.search(said) and not _JA_DONE.search(said):
        return "cancel"
    if _EN_CANCEL.search(said) and not EN_NOT_ASKED.search(said):
        return "cancel"
    if _JA_LIST.search(said) and not _JA_LATER.search(said):
        return "list"
    if (_JA_SET.search(said) or (_JA_LATER.search(said) and durations(words))) and not _JA_DONE.search(said):
        return "set"
    if (_EN_SET.search(said) or (_EN_REMIND.search(said) and durations(words))) and not EN_NOT_ASKED.search(said):
        return "set"
    if asks_to_be_told_at_a_time(words) and not _JA_DONE.search(said) and not EN_NOT_ASKED.search(said):
        return "set"
    if _EN_LIST.search(said) and _EN_ABOUT_TIMERS.search(said) and not EN_NOT_ASKED.search(said):
        return "list"
    return None


def durations(words: str) -> tuple[int, ...]:
    """The lengths of time that are named, in seconds, in their order; 1時間30分 and "1 hour 30 minutes" are one."""
    said = folded(words)
    found: list[tuple[int, int, float, int]] = []
    for pattern in (_JA_DURATION, _EN_DURATION):
        for match in pattern.finditer(said):
            unit = _UNIT_SECONDS[match[2].rstrip("s")]
            more = {"半": 0.5, "a half": 0.5, "a quarter": 0.25}.get(match[3] or "", 0.0)
            found.append((match.start(), match.end(), (number_of(match[1]) + more) * unit, unit))
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
_JA_TO_SAY_AT = re.compile(
    rf"{JA_TIME}(?:ごろ|頃|ちょうど)?に(?:なったら)?、?(.{{1,40}}?)(?:って|と|を|のを|ように)"
    r"(?:教えて|知らせて|思い出させて|リマインド|言って)"
)
_EN_WHEN = r"(?:(?:at|by|on|tomorrow|today|tonight|this|the day|in the)\b)"
_EN_LABEL = re.compile(
    rf"\b(?:timer|alarm)\b.*?\bfor (?:the |my |some )?((?!{EN_NUMBER}\b)[a-z][a-z' -]{{1,39}}?)"
    rf"(?: for\b| please\b| {_EN_WHEN}.*|[.,!?]|$)"
)
_EN_KIND = re.compile(rf"\b([a-z]+) {_EN_TIMER}\b")
_EN_TO_SAY = re.compile(
    rf"\bremind me (?:in {EN_NUMBER}[ -]?(?:an? )?(?:{_EN_UNIT}) |{_EN_WHEN}[\w:.' ]{{1,30}}? )?to"
    rf" ([a-z][a-z' -]{{1,59}}?)(?: (?:in|after) {EN_NUMBER}.*| {_EN_WHEN}.*|[.,!?]|$)"
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
        "am",
        "pm",
        "m",
        "clock",
    ]
)


def timer_label(words: str) -> str:
    """What a timer is for, in the user's own words; empty when they do not say."""
    said = folded(words)
    for pattern in (_JA_LABEL, _JA_TO_SAY, _JA_TO_SAY_AT, _EN_TO_SAY, _EN_LABEL):
        if match := pattern.search(said):
            label = re.sub(rf"^{JA_NUMBER}(?:時間|分|秒)(?:間|後)?(?:に|の)?", "", match[1]).strip(" 、。,.")
            if label.strip("にで") and not _JA_DURATION.fullmatch(label) and not is_only_a_time(label):
                return label
    kind = _EN_KIND.search(said)
    if kind is None or kind[1] in _NO_KIND or kind[1] in NUMBER_WORDS or is_only_a_time(kind[1]):
        return ""
    return kind[1]
