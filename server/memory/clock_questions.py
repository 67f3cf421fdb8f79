"""What somebody asks of the clock: the time, the day of the week, the date, the month or the year.

Such a question is answered by a clock and by no memory. So it is recognised by its whole form: 今日は何曜日？ is one;
歯医者は何時？ and "what time do you get up?" are none. Pure, Japanese and English; knows no clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from server.memory.questions import sentences
from server.storage.words import plain

Asked = Literal["time", "weekday", "date", "month", "year"]


@dataclass(frozen=True, slots=True)
class ClockQuestion:
    """`days`: from today on to the day that is meant; 0 of the time."""

    asked: Asked
    days: int = 0


_MOST_CHARACTERS = 80
_JA_DAYS = {
    **dict.fromkeys(("今日", "きょう", "本日", "今", "いま", "現在"), 0),
    **dict.fromkeys(("明日", "あした", "あす"), 1),
    **dict.fromkeys(("昨日", "きのう"), -1),
    **dict.fromkeys(("明後日", "あさって"), 2),
    **dict.fromkeys(("一昨日", "おととい"), -2),
}
_EN_DAYS = {"today": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2, "the day before yesterday": -2}

_JA_BEFORE = (
    r"(?:(?:ねえ|ねぇ|ねー|あの|あのさ|えっと|えーと|じゃあ|じゃ|では|で|ところで|ちなみに|すみません|ごめん|おはよう|こんにちは|こんばんは"
    r"|スタックチャン|スタックちゃん)(?:、|,|。|!|\s)*)*"
)
_JA_DAY = r"(?P<day>" + "|".join(sorted(_JA_DAYS, key=len, reverse=True)) + r")"
_JA_IS = r"(?:は|って|が|の)?(?:、|\s)*"
_JA_PLEASE = r"(?:を?(?:教えて|おしえて|言って)(?:ください|下さい|くれる|くれない|もらえる|ほしい|ね|よ)*)"
_JA_KNOW = r"(?:わかる|分かる|わかります|分かります|知ってる|知っています|知ってます)"
_JA_ENDS = (
    rf"(?:頃|ごろ|くらい|ぐらい)?(?:(?:なん|なの|だった|でした|になった|になります|になる|だ|です|でしょう|だろう)?"
    rf"(?:か|かな|の|っけ|かしら|かね)?(?:{_JA_PLEASE}|{_JA_KNOW})?か?)"
)
_JA_NOUN_ENDS = rf"(?:は|って|を|が)?(?:{_JA_PLEASE}|{_JA_KNOW}|いつ|何|なに|なんですか|何ですか)?か?"
_JA_WEEKDAY = r"(?:何曜日?|なんようび|なに曜日|何ようび)"
_JA_DATE = r"(?:何月の?)?(?:何日|なんにち)(?:の?、?(?:で|、)?何曜日?)?"
_JA: tuple[tuple[Asked, str], ...] = (
    ("time", rf"(?:今|いま|現在)(?:の(?:時間|時刻))?{_JA_IS}(?:何時(?:何分)?|なんじ){_JA_ENDS}"),
    ("time", r"(?:何時(?:何分)?|なんじ)(?:ですか|かな|なの|(?:だ|です|か)?か?(?:わかる|分かる|教えて))?"),
    ("time", rf"(?:今|いま|現在)の?(?:時間|時刻){_JA_NOUN_ENDS}"),
    ("time", rf"(?:時間|時刻){_JA_PLEASE}"),
    ("weekday", rf"{_JA_DAY}{_JA_IS}{_JA_WEEKDAY}{_JA_ENDS}"),
    ("weekday", rf"{_JA_DAY}の曜日{_JA_NOUN_ENDS}"),
    ("date", rf"{_JA_DAY}{_JA_IS}{_JA_DATE}{_JA_ENDS}"),
    ("date", rf"{_JA_DAY}の(?:日付|日にち){_JA_NOUN_ENDS}"),
    ("date", rf"{_JA_DAY}の(?:日付|日にち){_JA_IS}{_JA_DATE}{_JA_ENDS}"),
    ("month", rf"(?:今|いま|今月){_JA_IS}何月{_JA_ENDS}"),
    ("year", rf"(?:今|いま|今年){_JA_IS}(?:西暦)?(?:何年){_JA_ENDS}"),
)
_EN_BEFORE = (
    r"(?:(?:hey|hi|hello|good (?:morning|afternoon|evening)|ok|okay|so|and|but|please|stackchan|excuse me|sorry|um|uh"
    r"|oh|well|then|by the way|do you know|(?:can|could|would|will) you (?:please )?(?:tell|give) me|tell me|give me"
    r"|i(?:'d| would) like to know|say),? )*"
)
_EN_AFTER = r"(?:,? (?:now|right now|please|currently|at the moment|exactly|again|here|stackchan))*"
_EN_DAY = r"(?P<day>" + "|".join(sorted(_EN_DAYS, key=len, reverse=True)) + r")"
_EN_IS = r"(?:'s| is| was| will be| will)"
_EN_IT = rf"(?:(?:{_EN_IS} it| it{_EN_IS})(?: be)?(?: on)?(?: {_EN_DAY})?)"
_EN_OF_A_DAY = rf"{_EN_IS}(?: be)? {_EN_DAY.replace('day>', 'of>')}(?: be)?"
_EN: tuple[tuple[Asked, str], ...] = (
    ("time", r"what time (?:is it|it is)|what(?:'s| is) the (?:current |exact )?time|how late is it"),
    ("time", r"(?:do you have|have you got) the time|what the time is|(?<= )the time"),
    ("weekday", rf"(?:what|which) (?:day of the week|weekday)(?:{_EN_IT}|{_EN_OF_A_DAY})"),
    ("date", rf"(?:what|which) (?:day|date)(?:{_EN_IT}|{_EN_OF_A_DAY})"),
    ("date", rf"what{_EN_IS} the (?:date|day)(?: be)?(?: (?:for |on |of )?{_EN_DAY})?"),
    ("date", rf"(?:what{_EN_IS} )?{_EN_DAY}'s date(?: is)?"),
    ("month", r"(?:what|which) month (?:is it|it is|is this)"),
    ("year", r"(?:what|which) year (?:is it|it is|is this)"),
)
_FORMS: tuple[tuple[Asked, re.Pattern[str]], ...] = (
    *((asked, re.compile(rf"{_JA_BEFORE}(?:{form})")) for asked, form in _JA),
    *((asked, re.compile(rf"{_EN_BEFORE}(?:{form}){_EN_AFTER}")) for asked, form in _EN),
)
_MARKS = " \t。、.,?!？！…~〜ー"


def clock_question(words: str) -> ClockQuestion | None:
    """What the last sentence of `words` asks of the clock; None: nothing, or that is not certain."""
    asked = list(sentences(words))
    said = " ".join(plain(asked[-1]).split()).strip(_MARKS) if asked else ""
    if not said or len(said) > _MOST_CHARACTERS:
        return None
    for kind, form in _FORMS:
        if match := form.fullmatch(said):
            named = next((value for value in match.groupdict().values() if value), "")
            days = _JA_DAYS.get(named, _EN_DAYS.get(named, 0))
            return ClockQuestion(kind, 0 if kind in ("time", "month", "year") else days)
    return None
