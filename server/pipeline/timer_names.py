"""Which of the timers that run somebody names: by what it is for, its length or time, its place, or all of them.

A name or a length that none has names none, even where only one runs: what was not meant is not ended. Pure; ends
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import Any

from server.pipeline.clock_words import clock_times, is_only_a_time
from server.pipeline.length_words import durations, without_lengths
from server.pipeline.second_thoughts import second_thoughts
from server.pipeline.spoken_forms import folded
from server.pipeline.timer_words import EN_CANCEL, EN_TIMER, JA_TIMER
from server.storage.records import Timer

Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class Named:
    """`meant`: those that are named, if it is clear. `is_named`: something is named. `no_such`: something that none of
    them is.
    """

    meant: tuple[Timer, ...] = ()
    is_named: bool = False
    no_such: bool = False
    every: bool = False


_ALL = re.compile(
    r"全部|ぜんぶ|すべて|全て|みんな"
    rf"|(?<!that's )(?<!after )(?<!at )\b(?:all|every|each)(?: one)?(?! right\b)"
    rf"(?: of)?(?: [\w-]+){{0,4}}? (?:{EN_TIMER}|them|those|these)\b"
    rf"|\b(?:{EN_TIMER}|them) all\b|\b{EN_CANCEL} (?:all|everything)\b(?! right)"
)
_BOTH = re.compile(r"両方|どっちも|どちらも|[二2]つとも|\bboth\b")
_JA_BUT = re.compile(r"([^、。]{0,20}?)(?:以外|を?除いて|[はをだけ]{1,2}残し)")
_JA_NOT = re.compile(r"[^、。]{0,20}?(?:じゃなくて?|ではなくて?)")
_EN_BUT = re.compile(
    r"\b(?:except|excluding|other than|apart from|besides"
    r"|(?<=all )but|(?<=\wthing )but|(?<=timers )but|(?<=alarms )but)"
    r"(?: for)? ([^.,!?]*)"
)
_EN_NOT = re.compile(r"\b(?:but )?not (?:the|my|that) ([^.,!?]*?)(?= but |[.,!?]|$)")

_BY_DUE = attrgetter("due_at", "timer_id")
_BY_AGE = attrgetter("timer_id")
_BY_LENGTH = attrgetter("duration_seconds", "timer_id")
_ONE = rf"(?= (?:one|of|{EN_TIMER})\b)"
_PLACES: tuple[tuple[str, int, tuple[attrgetter[Any], ...]], ...] = (
    # Where two orders may be meant, a place that they do not agree on is asked.
    (rf"最初の|[1一](?:つ|番|個)目|\b(?:first|1st){_ONE}", 0, (_BY_DUE, _BY_AGE)),
    (rf"[2二](?:つ|番|個)目|\b(?:second|2nd){_ONE}", 1, (_BY_DUE, _BY_AGE)),
    (rf"[3三](?:つ|番|個)目|\b(?:third|3rd){_ONE}", 2, (_BY_DUE, _BY_AGE)),
    (rf"最後の|\blast{_ONE}", -1, (_BY_DUE, _BY_AGE)),
    (rf"次の|次に鳴る|\bnext{_ONE}", 0, (_BY_DUE,)),
    (r"(?:短|早|小さ)い|\b(?:short|small)(?:er|est)?\b|\bsoonest\b", 0, (_BY_DUE, _BY_LENGTH)),
    (r"(?:長|遅|大き)い|\b(?:long|bigg?|large)(?:er|est)?\b", -1, (_BY_DUE, _BY_LENGTH)),
    (
        r"新しい|(?:今|さっき)(?:かけた|セットした)|\b(?:new|lat)est\b"
        r"|\bmost recent\b|\bjust (?:set|started|made)\b",
        -1,
        (_BY_AGE,),
    ),
    (r"古い|\bold(?:er|est)\b", 0, (_BY_AGE,)),
)

_LETTER = r"a-z0-9ァ-ヺー々〇一-鿿"
_JA_NAME = re.compile(rf"([^、。\s!?]{{1,30}}?){JA_TIMER}")
_JA_NO_NAME = (
    r"(?:えっと|ええと|じゃあ?|それじゃ|さっき|さきほど|先ほど|先程|いま|今|この|その|あの|例の|僕|ぼく|私|わたし|俺|おれ|自分"
    r"|動いてる|動いている"
    r"|鳴ってる|鳴っている|かけた|セットした|つけた|頼んだ|もう|ねえ|ちょっと|すぐ|早く|とりあえず|やっぱり?|いや|それ|これ|だけ|キッチン|前の?"
    r"|ください|お願い|ごめん|分後|スタックチャン|残り|全部|両方|[1-9一二三四五][つ番個]目|[短長早遅古]い|小さい|大きい"
    r"|新しい|方|ほう|やつ|次|最初|最後)"
)
_JA_BEFORE_NAME = re.compile(rf"^(?:{_JA_NO_NAME}の?)+")
_JA_PARTICLES = "のとやはをもがにで用"

_EN_NAME = re.compile(
    rf"^.*\b{EN_CANCEL}\b([^.!?]{{0,80}}?)\b{EN_TIMER}\b(?: (?:for|called|named|about|of|to) ([^.,!?]*))?"
    rf"|^.*\bturn\b([^.!?]{{0,80}}?)\b{EN_TIMER} off\b"
)
_EN_NO_NAME = re.compile(
    r"a|an|the|my|our|your|this|that|these|those|it|its|one|ones|i|you|we|me|us|please|just|now|right|off|of|"
    r"for|with|and|or|all|both|every|each|whole|other|another|only|same|set|started|made|running|ringing|"
    r"beeping|going|active|current|existing|remaining|left|kitchen|new|old|older|oldest|newest|latest|recent|"
    r"most|last|first|second|third|next|previous|short|shorter|shortest|small|smaller|smallest|long|longer|"
    r"longest|big|bigger|biggest|damn|stupid|silly|annoying|timer|timers|alarm|alarms|clock|minute|minutes|hour|"
    r"hours|seconds|two|three|four|them|there|up|on|in|at|to|by|ok|okay"
)


def named_timers(words: str, timers: tuple[Timer, ...], now: datetime) -> Named:
    """Which of `timers` the words name; in `now`'s zone."""
    said = folded(words)
    for _, after in second_thoughts(said):
        if (named := _named(after, timers, now)).is_named:
            return named
    return _named(said, timers, now)


def _named(said: str, timers: tuple[Timer, ...], now: datetime) -> Named:
    but = [match for form in (_JA_BUT, _EN_BUT) for match in form.finditer(said)]
    without = reduce(lambda text, form: form.sub(" ", text), (_JA_BUT, _EN_BUT, _JA_NOT, _EN_NOT), said)
    kinds, rest = _kinds(without, timers, now)
    every = bool(_ALL.search(rest)) or (bool(_BOTH.search(rest)) and len(timers) == 2)
    if but:
        left_out, _ = _kinds(" ".join(match[1] for match in but), timers, now)
        spared = frozenset[int]().union(*(ids for kind in left_out for ids in kind))
        is_clear = bool(spared) and (every or bool(_JA_BUT.search(said))) and not kinds
        meant = tuple(timer for timer in timers if timer.timer_id not in spared)
        return Named(meant if is_clear else (), is_named=True, every=is_clear)
    if not kinds:
        return Named(timers if every else (), is_named=every, every=every)
    if not all(ids for kind in kinds for ids in kind):
        return Named(is_named=True, no_such=True)
    ids = reduce(frozenset.intersection, (frozenset[int]().union(*kind) for kind in kinds))
    meant = tuple(timer for timer in timers if timer.timer_id in ids)
    is_clear = every or len(meant) <= max(map(len, kinds))
    return Named(meant if is_clear else (), is_named=True, no_such=not meant, every=every)


def _kinds(said: str, timers: tuple[Timer, ...], now: datetime) -> tuple[list[list[Ids]], str]:
    """Of each kind of name, and of each name of it, which timers have it; and the words without what they are for."""
    labels: list[Ids] = []
    for label in sorted({folded(timer.label) for timer in timers if timer.label}, key=len, reverse=True):
        rest = _as_a_word(label).sub(" ", said)
        if rest != said:
            said = rest
            labels.append(frozenset(timer.timer_id for timer in timers if folded(timer.label) == label))
    if not labels and (name := _other_name(said)):
        labels.append(frozenset(timer.timer_id for timer in timers if _as_a_word(name).search(folded(timer.label))))
    # Of an hour that the clock shows twice, times of two zones are never equal.
    of_length = [
        frozenset(timer.timer_id for timer in timers if not timer.zone and timer.duration_seconds == seconds)
        for seconds in dict.fromkeys(durations(said))
    ]
    # The alarm of seven is the morning's, too.
    of_time = [
        frozenset(timer.timer_id for timer in timers if timer.zone and timer.due_at.timestamp() in either)
        for either in dict.fromkeys(zip(_moments(said, now), _moments(f"{said}. wake me", now), strict=False))
    ]
    of_place = [_at_place(timers, at, keys) for form, at, keys in _PLACES if re.search(form, without_lengths(said))]
    return [kind for kind in (labels, of_length + of_time, of_place) if kind], said


def _moments(said: str, now: datetime) -> list[float | None]:
    return [None if one is None else one.timestamp() for one in clock_times(said, now)]


def _at_place(timers: tuple[Timer, ...], at: int, keys: tuple[attrgetter[Any], ...]) -> Ids:
    if not -len(timers) <= at < len(timers):
        return frozenset()
    return frozenset(sorted(timers, key=key)[at].timer_id for key in keys)


def _as_a_word(name: str) -> re.Pattern[str]:
    """The name, but not within a longer one: パン is none of パンケーキ, tea none of steak."""
    singular = name.removesuffix("s") if name.isascii() and len(name) > 3 else name
    more = "(?:'?s)?" if name.isascii() else ""
    return re.compile(rf"(?<![{_LETTER}]){re.escape(singular)}{more}(?={JA_TIMER}|[^{_LETTER}]|$)")


def _other_name(said: str) -> str:
    """What a timer is called here that is none of the labels."""
    said = without_lengths(said)
    if match := _JA_NAME.search(said):
        name = _JA_BEFORE_NAME.sub("", match[1]).strip(_JA_PARTICLES)
        return "" if is_only_a_time(name) else name
    if match := _EN_NAME.search(said):
        parts = (" ".join(_named_words(part)) for part in match.groups() if part)
        return next((part for part in parts if part and not is_only_a_time(part)), "")
    return ""


def _named_words(part: str) -> list[str]:
    return [word for word in re.findall(r"[\w'-]+", part) if not _EN_NO_NAME.fullmatch(word)]
