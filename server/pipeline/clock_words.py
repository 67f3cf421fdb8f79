"""Times of the clock that somebody names, in Japanese and English (明日の朝7時半, "at 7:30 tomorrow"), and whether they
want to be told then. Pure; knows no timer.

Of two times that may be meant it is the next one; who is to be woken sleeps until the morning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from server.pipeline.length_words import lengths
from server.pipeline.spoken_forms import EN_ASK, folded, number_of

_Part = Literal["am", "noon", "pm", "night", "late"]

_JA_DAYS: dict[str, tuple[int, _Part | None]] = {
    **dict.fromkeys(("今日", "きょう", "本日"), (0, None)),
    **{"今朝": (0, "am"), "今夜": (0, "night"), "今晩": (0, "night")},
    **{"明日": (1, None), "あした": (1, None), "明朝": (1, "am"), "明晩": (1, "night")},
    **{"明後日": (2, None), "あさって": (2, None)},
}
_EN_DAYS: dict[str, tuple[int, _Part | None]] = {
    **{"the day after tomorrow": (2, None), "tomorrow": (1, None), "today": (0, None), "tonight": (0, "night")},
    **{"this morning": (0, "am"), "this afternoon": (0, "pm"), "this evening": (0, "pm")},
}
_EN_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_JA_PARTS: dict[str, _Part] = {
    **dict.fromkeys(("午前", "早朝", "朝"), "am"),
    **{
        "午後": "pm",
        "夕方": "pm",
        "お昼": "noon",
        "昼": "noon",
        "深夜": "late",
        "夜中": "late",
        "夜": "night",
        "晩": "night",
    },
}
_EN_PARTS: dict[str, _Part] = {
    **{"in the morning": "am", "in the afternoon": "pm", "in the evening": "pm", "at night": "night"},
}
_DAY = re.compile(
    "|".join(_JA_DAYS) + r"|([月火水木金土日])曜|\b(?:" + "|".join(_EN_DAYS) + rf"|({'|'.join(_EN_WEEKDAYS)}))\b"
)
_OTHER_DAY = re.compile(
    r"来週|来月|来年|\d月\d|[\d十]日(?!間)|[一二三四五六七]日後|\bnext (?:week|month|year)\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:in|after) \w+ (?:days|weeks)\b"
)
_PART = re.compile("|".join(_EN_PARTS))

_JA_NUMBER = r"(?:\d{1,2}|[〇一二三四五六七八九十]{1,3})"
_JA_TIME = re.compile(
    rf"(?:({'|'.join(_JA_PARTS)})(?:の|に|、)?\s?)?(?:(?<![\d:.])"
    rf"({_JA_NUMBER})(?:時(?![間代期々計点的停])(?:({_JA_NUMBER})分|(半))?|:([0-5]\d)(?!\d))|(正午))"
)
JA_TIME = rf"{_JA_NUMBER}(?:時(?![間代期々計点的停])(?:{_JA_NUMBER}分|半)?|:[0-5]\d)"
"""A time of the clock within a longer form."""

_HOURS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_MINUTES = (
    r"(?:twenty|thirty|forty|fifty)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?"
    r"|oh[- ]five|ten|fifteen"
)
_EN_TIME = re.compile(
    r"(?P<at>\b(?:at|for|by|to) (?:about |around )?)?(?P<past>\b(?:half past|(?:a )?quarter past|(?:a )?quarter to) )?"
    rf"(?<![\d:.])\b(?P<hour>\d{{1,2}}|{_HOURS})\b(?:[:.](?P<minute>[0-5]\d)\b| (?P<words>{_MINUTES})\b)?"
    r"(?P<clock> ?o'clock)?(?P<half> ?[ap]\.?m\b\.?)?"
    r"(?![:.]\d| ?%|[ -](?:an? )?(?:hours?|hrs?|minutes?|mins?|seconds?|secs?|percent)\b)"
    r"|\b(?P<name>noon|midnight)\b"
)
_EN_GOES_ON = re.compile(
    r" ?(?:$|[.,!?]|(?:tomorrow|today|tonight|this|the day|in|on|at night|every|next|of|for|to|and|so|sharp|please"
    rf"|thanks|okay|{'|'.join(_EN_WEEKDAYS)})\b)"
)

_WAKING = re.compile(r"起こし|おこし|目覚|\bwake\b|\bget (?:me|us) up\b")
_JA_THEN = re.compile(
    r"(?:ちょうど|ぴったり|ごろ|頃|くらい|ぐらい)?(?:に(?:なったら|なれば)?|で)?、?\s?"
    r"(?:.{0,30}?(?:起こして|おこして|呼んで|鳴らして|(?<!か)(?<!かを)(?:思い出させて|リマインド))"
    r"|(?:.{1,30}?(?:って|と|ように))?(?:教えて|おしえて|知らせて|しらせて|言って|声をかけて|声かけて)"
    r"|.{0,12}?(?:タイマー|アラーム|目覚まし)(?:を)?\s?(?:[。!]|$|お願い|おねがい|セット|設定|かけ|掛け|つけ|入れ|ください|して))"
)
_EN_THEN = re.compile(
    rf"{EN_ASK}(?:wake (?:me|us)|get (?:me|us) up|(?:ring|notify|alert|ping) (?:me|us)"
    r"|remind (?:me|us)(?! (?:what|who|how|why|where|when|if|of)\b)"
    r"|(?:tell|call|let) (?:me|us)(?: know)? (?:when it(?:'s| is)|at))\b"
    r"|^(?:tomorrow |today |tonight )?(?:at|by) .{1,30} (?:please )?(?:wake|remind) (?:me|us)\b"
)
_PAST = re.compile(
    r"昨日|昨夜|昨晩|おととい|一昨日|先週|さっき|\byesterday\b|\blast (?:night|week|time|year)\b|\bearlier\b"
)


_OF_TIMES = re.compile(
    rf"\b(?:{_HOURS}|{_MINUTES}|at|on|by|in|the|past|half|quarter|to|a|noon|midnight|morning|afternoon|evening|night)\b"
    r"|[の、。,.:\d\s]|" + "|".join(_JA_PARTS)
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A time as it was said; `end`: where its words end."""

    start: int
    end: int
    hour: int
    minute: int
    part: _Part | None


def asks_to_be_told_at_a_time(words: str) -> bool:
    """Whether somebody wants to be woken, reminded or told of something when the clock says a time they name."""
    said = folded(words)
    if _PAST.search(said):
        return False
    mentions = time_mentions(said)
    return any(_JA_THEN.match(said, mention.end) for mention in mentions) or bool(mentions and _EN_THEN.search(said))


def clock_times(words: str, now: datetime) -> tuple[datetime | None, ...]:
    """The times that are named, in their order, in the zone of `now`; None: a time that is past or on a day that is not
    understood.
    """
    said = folded(words)
    waking = wakes(words)
    return tuple(_resolved(mention, said, now, waking) for mention in time_mentions(said))


def first_moment(local: datetime, now: datetime) -> datetime | None:
    """The first moment after `now` at which the clock of `local`'s zone shows `local`; None: there is none.

    An hour that the clock shows twice has two such moments; in one that it leaves out it is as long after midnight.
    """
    first, second = local.replace(fold=0), local.replace(fold=1)
    left_out = (first.utcoffset() or timedelta(0)) < (second.utcoffset() or timedelta(0))
    # Within one zone times are compared as the clock shows them, whichever of the two hours it is.
    moments = [one.astimezone(UTC) for one in ((first,) if left_out else (first, second))]
    found = min((one for one in moments if one > now.astimezone(UTC)), default=None)
    return None if found is None else found.astimezone(local.tzinfo)


def wakes(words: str) -> bool:
    """Whether somebody is to be woken."""
    return _WAKING.search(folded(words)) is not None


def is_only_a_time(words: str) -> bool:
    """Whether nothing else is named than a day or a time of the clock."""
    return not _OF_TIMES.sub("", _JA_TIME.sub("", _DAY.sub("", folded(words)))).strip()


def time_mentions(said: str) -> list[Mention]:
    """The times within folded words, in their order."""
    found = [mention for match in _EN_TIME.finditer(said) if (mention := _english(match, said)) is not None]
    for match in _JA_TIME.finditer(said):
        if all(match.end() <= other.start or match.start() >= other.end for other in found):
            hour = 12 if match[6] else int(number_of(match[2]))
            minute = 30 if match[4] else int(number_of(match[3] or match[5] or "0"))
            part: _Part | None = "noon" if match[6] else _JA_PARTS.get(match[1] or "")
            found.append(Mention(match.start(), match.end(), hour, minute, part))
    taken = lengths(said)
    times = (one for one in found if one.hour <= 24 and one.minute < 60)
    # The two of "two and a half minutes" is no hour.
    free = (one for one in times if all(one.end <= length.start or one.start >= length.end for length in taken))
    return sorted(free, key=lambda one: one.start)


def _english(match: re.Match[str], said: str) -> Mention | None:
    if name := match["name"]:
        return Mention(match.start(), match.end(), 12, 0, "noon" if name == "noon" else "night")
    is_clock = match["past"] or match["minute"] or match["clock"] or match["half"]
    if not is_clock and not (match["at"] and _EN_GOES_ON.match(said, match.end())):
        return None
    hour, past = int(number_of(match["hour"])), match["past"] or ""
    minute = 30 if "half" in past else 15 if "quarter past" in past else 45 if past else _minute(match)
    if "quarter to" in past:
        hour = hour - 1 or 12
    part: _Part | None = None
    if match["half"]:
        part = "am" if "a" in match["half"] else "pm"
    return Mention(match.start(), match.end(), hour, minute, part)


def _minute(match: re.Match[str]) -> int:
    words = match["words"]
    if words is None:
        return int(match["minute"] or 0)
    return 5 if words.startswith("oh") else int(number_of(words))


def _resolved(mention: Mention, said: str, now: datetime, waking: bool) -> datetime | None:
    if _OTHER_DAY.search(said):
        return None
    days = {match[0]: match for match in _DAY.finditer(said)}
    if len(days) > 1:
        return None
    part, day = mention.part, None
    for word, match in days.items():
        if weekday := match[1] or match[2]:
            wanted = "月火水木金土日".index(weekday) if match[1] else _EN_WEEKDAYS.index(weekday)
            day = (wanted - now.weekday()) % 7 or 7
        else:
            day, of_day = _JA_DAYS.get(word) or _EN_DAYS[word]
            part = part or of_day
    if part is None and (match_of_part := _PART.search(said)):
        part = _EN_PARTS[match_of_part[0]]
    hours = _hours(mention.hour, part)
    if len(hours) > 1 and day and day > 0:
        # Of another day: the hours of daylight; who wants to be woken means the morning.
        hours = hours[1:] if mention.hour == 12 or (mention.hour < 6 and not waking) else hours[:1]
    if len(hours) > 1 and day is None and waking and 4 <= mention.hour <= 11:
        hours = hours[:1]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if day is not None:
        first = midnight + timedelta(days=day)
        times = [first.replace(minute=mention.minute) + timedelta(hours=hour) for hour in hours]
    else:
        today = [midnight.replace(minute=mention.minute) + timedelta(hours=hour % 24) for hour in hours]
        times = [*today, *(time + timedelta(days=1) for time in today)]
    moments = [moment for time in times if (moment := first_moment(time, now)) is not None]
    return min(moments, key=datetime.timestamp, default=None)


def _hours(hour: int, part: _Part | None) -> list[int]:
    """Hours since the midnight in which a day begins that an hour may be; 24 and more are of the night after it."""
    if hour > 12 or hour == 0:
        return [hour]
    if part == "am":
        return [hour % 12]
    if part == "pm":
        return [hour % 12 + 12]
    if part == "noon":
        return [hour if hour >= 10 else hour + 12]
    if part in ("night", "late"):
        return [24 + hour % 12 if hour == 12 or hour < 5 else hour + 12 if part == "night" or hour > 8 else 24 + hour]
    return [hour % 12, hour % 12 + 12]
