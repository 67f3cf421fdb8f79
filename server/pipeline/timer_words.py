"""Whether somebody asks for a timer, by the form of their words: to set one, to hear which run, to end one.

A small model is offered a tool only then, so a request must be one: three minutes in 3分タイマー, and not in 3分遅れた.
Pure; sets nothing.
"""

from __future__ import annotations

import re
from typing import Literal

from server.pipeline.clock_words import JA_TIME, asks_to_be_told_at_a_time, is_only_a_time, time_mentions
from server.pipeline.length_words import EN_LENGTH, EN_UNIT, durations, lengths, without_lengths
from server.pipeline.second_thoughts import before_stopped, before_taken_back, second_thoughts
from server.pipeline.spoken_forms import (
    EN_ASK,
    EN_NOT_ASKED,
    EN_NUMBER,
    EN_QUESTION,
    JA_NUMBER,
    JA_TE,
    NUMBER_WORDS,
    folded,
)

TimerRequest = Literal["set", "list", "cancel"]

# タイマー as something one has done to it, not as what somebody else has, or once had.
JA_TIMER = r"(?:タイマー|アラーム|目覚まし(?:時計)?)"
_JA_SET = re.compile(
    rf"{JA_TIMER}(?:を|も|は|に)?(?:もう一つ|一つ)?(?:(?:{JA_NUMBER}(?:時間|分|秒)(?:間)?半?|[^、。]{{0,6}}{JA_TIME})(?:で|に|の)?)?\s*"
    r"(?:セット|設定|かけ|掛け|スタート|開始|始め|はじめ|つけ|入れ|お願い|おねがい|頼|よろしく|ください|下さい|ちょうだい|して)"
    rf"|(?:時間|分|秒|間|半)(?:の)?{JA_TIMER}(?:を)?[。!！]?$"
    r"|(?:時間|分|秒|半)(?:間)?(?:だけ)?(?:計って|測って|はかって|カウントして|数えて)"
)
_JA_LATER = re.compile(
    r"(?:時間|分|秒|半)(?:間)?(?:後|あと|ご|したら|たったら|経ったら|過ぎたら)(?:に|で|、|くらいに|ぐらいに|ごろに)?"
    r".*(?:教えて|おしえて|知らせて|しらせて|起こして|おこして|呼んで|声をかけて|声かけて|鳴らして|思い出させて"
    r"|リマインド(?:して)?|言って|って通知)"
)
_JA_DONE = re.compile(
    r"(?:て|で|(?<![分秒間半])し)(?:くれた|もらった|いた|た|ました|ちゃった|しまった|ある)|(?<![分秒間半])(?:した|かけた)(?:よ|の|っけ|けど|から|ら|とき|時)|忘れ|しないで|なくて|ないで"
    r"|(?<=[しけ])て(?:も(?:いい|良い|大丈夫|平気)|いい|いる|る)"
)
_JA_WHICH = r"(?:全部|ぜんぶ|すべて|全て|両方|どっちも|どちらも|[二三四五2-9]つとも|もう|今すぐ)"
_JA_ORDER = r"(?:最初|最後|(?:[\d一二三四五]つ|[\d一二三四五][番個])目|(?:短|長|早|遅|新し|古)い)"
_JA_CANCEL = re.compile(
    rf"(?:{JA_TIMER}|{_JA_ORDER}の?(?:やつ|方|ほう|の)|{_JA_ORDER}の|(?:時間|分|秒|間|半)の(?:やつ|方|ほう)?)[はをも]?[、\s]?{_JA_WHICH}?の?[をは]?"
    rf"(?:(?:止め|とめ|消し|けし|切っ|やめ|解除し|キャンセルし|停止し|ストップし|取り消し|オフにし|なしにし|終わらせ|終わりにし|終了し)(?:{JA_TE}|ちゃって)"
    r"|(?:停止|ストップ|解除|キャンセル|取り?消し?|中止|オフ|終わり|終了|なし)(?:で|を|に)?(?:お願い|おねがい|頼む|ね|よろしく|[。!]|$)"
    r"|止めろ|消せ|やめ(?:[。!]|$)|(?:いらない|要らない)(?!って|と|なら))"
)
_JA_LIST = re.compile(
    rf"{JA_TIMER}.*(?:あと(?:何|どれ|どの|いくつ)|残り|のこり|いくつ|何個|何時に|いつ鳴|ある[?？]|ありますか|動いてる|セットして(?:ある|る|いる)|一覧|確認|教えて)"
    rf"|(?:あと|残り)(?:何分|何秒|何時間|どれ(?:くらい|ぐらい)).*{JA_TIMER}"
)

EN_TIMER = r"(?:timers?|alarms?)"
_EN_SET = re.compile(
    rf"{EN_ASK}(?:set|start|make|create|give me|put on|run|begin|add)\b(?! (?:off|up the)\b)[^.!?]*\b{EN_TIMER}\b"
    rf"|{EN_ASK}(?:an?|another) (?:[\w-]+ ){{0,4}}{EN_TIMER}\b"
    rf"|(?:^|[,.] ){EN_LENGTH}(?: [\w-]+)? {EN_TIMER}\b|^timer (?:for|of) "
    rf"|{EN_ASK}(?:time|count(?: down)?)(?: me)?(?: for)? {EN_LENGTH}\b"
)
_EN_REMIND = re.compile(
    rf"{EN_ASK}(?:remind|tell|wake|call|alert|ping|notify|let|give) (?:me|us)\b.*"
    rf"\b(?:in|after) (?:about )?{EN_NUMBER}"
    rf"|\b(?:in|after) (?:about )?{EN_LENGTH},? (?:please )?"
    r"(?:remind|tell|wake|call|alert|ping|notify|let) (?:me|us)\b"
)
EN_CANCEL = r"(?:cancel|stop|end|delete|remove|turn off|clear|kill|silence|switch off|shut off|dismiss|get rid of)"
_EN_ON = r"(?:(?!\b(?:when|if|until|once|after|before|unless|while|set|start)\b)[^.!?])*?"
_EN_CANCEL = re.compile(
    rf"{EN_ASK}{EN_CANCEL}\b{_EN_ON}\b{EN_TIMER}\b"
    rf"|{EN_ASK}(?:turn|switch|shut) (?:the |that |my |all )?(?:[\w-]+ ){{0,3}}{EN_TIMER} off\b"
    rf"|{EN_ASK}cancel (?:the |that |my )?(?:[\w-]+ ){{1,3}}ones?\b"
    rf"|{EN_ASK}cancel (?:all of them|both(?: of them)?|them all)\b"
    rf"|{EN_ASK}stop (?:the |that |my )?(?:first|second|third|last|shorter|longer|{EN_NUMBER}[ -](?:{EN_UNIT})) one\b"
)
_EN_LIST = re.compile(
    rf"\b(?:how (?:much|many|long)|what|which|show|list|tell me|when (?:is|does|do|will)"
    rf"|is there|are there|do i have)\b"
    rf"[^.!?]*\b{EN_TIMER}\b(?![^.!?]*\b(?:buy|cost|mean|work|invented|made of)\b)"
)
_EN_ABOUT_TIMERS = re.compile(
    rf"\b(?:{EN_TIMER} (?:i have|do i have|are|is (?:left|running|set|on|there|going)|have|left"
    rf"|running|will|going|goes|set)|(?:left|remaining|remains)\b.*\b(?:on|of|in)\b.*\b{EN_TIMER}|(?:my|any|the|all)\b[^.!?]*\b{EN_TIMER}"
    rf"|{EN_TIMER} do i have)\b"
)


def timer_request(words: str) -> TimerRequest | None:
    """What is asked about timers, in Japanese or English, even if it is taken back; None: nothing."""
    said = folded(words)
    back = _taken_back(said)
    if back:
        return back[1]
    return _form(said) or (_form(fixed) if (fixed := corrected(said)) != said else None)


def taken_back(words: str) -> bool:
    """Whether somebody asks for a timer, or to end one, and then not."""
    return _taken_back(folded(words)) is not None


def corrected(words: str) -> str:
    """The words, folded, with the length or time that was said last in the place of one that it corrects."""
    said = folded(words)
    for before, after in second_thoughts(said):
        if not (old := _spans(before)):
            continue
        after = _with_unit(before, after)
        if new := _spans(after):
            start, end = new[0]
            for first, last in reversed(old):
                place = after[start:end] if (first, last) == old[-1] and len(new) == 1 else ""
                before = f"{before[:first]}{place}{before[last:]}"
            rest = f"{after[:start]}{after[end:]}" if len(new) == 1 else after
            between = ", " if before[-1].isascii() else ""
            return re.sub(r"\s*,(?:\s*,)+\s*", ", ", f"{before}{between}{rest.strip(' 、')}")
    return _EN_NOT_THIS.sub("", said)


_EN_NOT_THIS = re.compile(
    rf",? \b(?:and )?(?:not|instead of|rather than) (?:for |at )?{EN_NUMBER}(?:[ -](?:{EN_UNIT}))?\b"
)
_BARE = re.compile(
    rf"[\s,、]*(?:(?:to|for|that|it|be|make it|actually|no|sorry)\b[\s,]*){{0,3}}"
    rf"(?!an?\b)(?P<number>{EN_NUMBER}|{JA_NUMBER})"
    r"(?=$|[.,!?。、でに\s])(?! ?(?:[ap]\.?m|o'clock))"
)


def _with_unit(before: str, after: str) -> str:
    """ "make it 10" after 5 minutes, or after a time of the clock."""
    bare = _BARE.match(after)
    if bare is None or any(start <= bare.end("number") <= end for start, end in _spans(after)):
        return after
    said = lengths(before)
    number, rest = bare["number"], after[bare.end() :]
    if said:
        return f"{number}{'' if said[-1].unit_word in ('分', '秒', '時間') else ' '}{said[-1].unit_word}{rest}"
    return f"at {number}{rest}"


def _spans(said: str) -> list[tuple[int, int]]:
    """Where lengths and times are."""
    return sorted(
        [(one.start, one.end) for one in lengths(said)] + [(one.start, one.end) for one in time_mentions(said)]
    )


def _taken_back(said: str) -> tuple[str, TimerRequest] | None:
    if (before := before_taken_back(said)) and (form := _form(before)) in ("set", "cancel"):
        return before, form
    # "the 5 minute timer, cancel it" takes nothing back.
    before = before_stopped(said)
    if before and _form(before) == "set" and not _ENDS_WITH_TIMER.search(before):
        return before, "set"
    return None


_ENDS_WITH_TIMER = re.compile(
    rf"^(?!.*\b(?:set|start|make|create|give)\b).*(?:{JA_TIMER}|{EN_TIMER})[はをも]?[\s.,。、!]*$"
)


def _form(said: str) -> TimerRequest | None:
    cut = EN_QUESTION.sub(",", said)
    if _JA_CANCEL.search(said):
        return "cancel"
    if (match := _EN_CANCEL.search(cut)) and not EN_NOT_ASKED.search(cut, 0, match.end()):
        return "cancel"
    if _JA_LIST.search(said) and not _JA_LATER.search(said):
        return "list"
    if (_JA_SET.search(said) or (_JA_LATER.search(said) and durations(said))) and not _JA_DONE.search(said):
        return "set"
    if (_EN_SET.search(said) or (_EN_REMIND.search(said) and durations(said))) and not EN_NOT_ASKED.search(said):
        return "set"
    if asks_to_be_told_at_a_time(said) and not _JA_DONE.search(said) and not EN_NOT_ASKED.search(said):
        return "set"
    if _EN_LIST.search(said) and _EN_ABOUT_TIMERS.search(said) and not EN_NOT_ASKED.search(said):
        return "list"
    return None


_JA_LABEL = re.compile(rf"(?:^|[、。\s])([^、。\s\d]{{1,12}}?)(?:の|用の|用に){JA_TIMER}")
_JA_TO_SAY = re.compile(
    r"(?:時間|分|秒|半)(?:間)?(?:後|あと|ご|したら|たったら|経ったら|過ぎたら)(?:に|で|、)?(.{1,40}?)(?:って|と|を|のを|ように)?"
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
_EN_KIND = re.compile(rf"\b([a-z]+) {EN_TIMER}\b")
_EN_TO_SAY = re.compile(
    rf"\bremind me (?:in {EN_LENGTH},? |{_EN_WHEN}[\w:.' ]{{1,30}}? )?to"
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
            if label.strip("にで") and without_lengths(label).strip() and not is_only_a_time(label):
                return label
    kind = _EN_KIND.search(said)
    if kind is None or kind[1] in _NO_KIND or kind[1] in NUMBER_WORDS or is_only_a_time(kind[1]):
        return ""
    return kind[1]
