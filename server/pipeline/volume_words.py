"""Whether somebody asks for a louder or quieter robot, or for its microphone off or on, by the form of their words.

A small model is offered a tool only then: 音を小さくして is a request, 音が小さくなった is none, nor is what is said of
the television. Pure; changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from server.pipeline.second_thoughts import before_stopped, before_taken_back, second_thoughts
from server.pipeline.spoken_forms import (
    EN_ASK,
    EN_NOT_ASKED,
    EN_NUMBER,
    EN_QUESTION,
    JA_NUMBER,
    JA_TE,
    folded,
    number_of,
)

_A_LITTLE, _USUAL, _MUCH = 10, 20, 30
AUDIBLE_PERCENT = 50
"""After silence; how loud it was before is not known."""


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """Just one of the two, in percent of the loudest."""

    percent: int | None = None
    change: int | None = None


_JA_SOUND = r"(?:音量|ボリューム|音声?|声|しゃべり声|話し声)"
_JA_OF = r"[をがはも]?[、\s]?"
_JA_HOW = r"(?:もう)?(?:少し|すこし|ちょっと|もっと|ずっと|かなり|すごく)?(?:だけ)?"
_JA_PLEASE = rf"(?:し{JA_TE}|(?:話し|はなし|しゃべっ|喋っ|言っ){JA_TE}|できる|お願い|おねがい|頼む|ね?[。!]?$)"
_JA_START = r"(?:^|(?<=[、。!\s]))"
_JA_QUIET, _JA_LOUD = r"(?:小さ|ちいさ|ちっちゃ|ちっさ|低)", r"(?:大き|おおき|でか|高)"
_JA_DOWN, _JA_UP = r"(?:下げ|さげ|落とし|絞っ|しぼっ)", r"(?:上げ|あげ)"
_NAMED = {
    **dict.fromkeys(
        ("最大", "最大限", "マックス", "いっぱい", "max", "maximum", "the max", "the maximum", "full", "a hundred"), 100
    ),
    **dict.fromkeys(("半分", "half"), 50),
    **dict.fromkeys(
        ("最小", "最小限", "ミニマム", "ゼロ", "零", "min", "minimum", "a minimum", "the minimum", "zero"), 0
    ),
}
_NAME = "|".join(sorted(_NAMED, key=len, reverse=True))
_JA_LEVEL = re.compile(
    rf"{_JA_SOUND}{_JA_OF}(?:(?P<number>{JA_NUMBER})\s?(?:%|パーセント)?|(?P<named>{_NAME}))"
    rf"(?:(?P<to>に|まで|で|くらいに|ぐらいに)|だけ)?\s?(?:(?:し|セットし|設定し){JA_TE}"
    rf"|(?P<down>{_JA_DOWN}){JA_TE}|(?P<up>{_JA_UP}){JA_TE}|セット|設定|お願い|おねがい|[。!]?$)"
    rf"|(?P<first>{_NAME})の?(?:音量|ボリューム)(?:に(?:し{JA_TE}|[。!]?$)|で(?:お願い|[。!]?$)|[。!]?$)"
)
_JA_SILENT = re.compile(
    rf"{_JA_SOUND}{_JA_OF}(?:(?:消し|なしにし|切っ|(?:オフ|ミュート)に?し){JA_TE}|オフ[。!]?$)"
    rf"|{_JA_START}(?:消音|無音|ミュート|サイレント)(?:モード)?に?(?:し{JA_TE}|お願い|おねがい|[。!]?$)"
)
_JA_AUDIBLE = re.compile(
    rf"{_JA_START}(?:ミュート|消音)(?:モード)?{_JA_OF}(?:(?:解除し|外し|やめ){JA_TE}|解除[。!]?$)"
    rf"|{_JA_SOUND}{_JA_OF}(?:元に|もとに)?(?:(?:戻し|オンにし){JA_TE}|オン[。!]?$)"
)
_JA_OTHERS = re.compile(
    r"(?:テレビ|音楽|ラジオ|スマホ|携帯|動画|ゲーム|曲|車|パソコン|イヤホン|彼女?|母|父|隣)の?"
    r"(?:音|ボリューム|声)"
)


def _japanese(size: str, turn: str, named: str) -> re.Pattern[str]:
    return re.compile(
        rf"{_JA_SOUND}{_JA_OF}{_JA_HOW}(?:{size}く{_JA_PLEASE}|{turn}{JA_TE}|{named}(?:し{JA_TE}|[。!]?$))"
        rf"|{size}(?:[いな]|めの)(?:声|音)で(?:{_JA_PLEASE}|話|しゃべ|喋|言って)"
        rf"|^(?:もう少し|もうちょっと|もっと|ちょっと){size}く{_JA_PLEASE}"
    )


_JA_QUIETER = (
    _japanese(_JA_QUIET, _JA_DOWN, "ダウン"),
    re.compile(
        rf"{_JA_START}(?:もっと|もう少し|もうちょっと|ちょっと|少し)?静かに(?:(?:し|話し|しゃべっ|喋っ){JA_TE}|お願い|おねがい|頼む)"
        rf"|(?:もっと|もう少し|もうちょっと|ちょっと|少し)静かに{_JA_PLEASE}"
        rf"|{_JA_SOUND}{_JA_OF}{_JA_HOW}(?:静かに|控えめに){_JA_PLEASE}"
    ),
)
_JA_LOUDER = (_japanese(_JA_LOUD, _JA_UP, "アップ"),)

_EN_SOUND = r"(?:(?:the |your )?(?:volume|sound|voice|speaker|audio))"
_EN_HOW = r"(?:(?:just |even )?(?:a (?:little bit|little|bit|lot)|much|way|slightly|some) )?"
_EN_AFTER = (
    r"(?: (?:just |only |by |all the |for )?(?:a (?:little bit|little|bit|lot|second|minute)|slightly|some|more|way"
    r"|again|now|please|for me))"
)
_EN_END = rf"{_EN_AFTER}{{0,3}}(?:,? please)?(?=[.!?,;]|$)"
_EN_TO = re.compile(
    r"(?:all the way )?(?P<how> to| at| by| in|)(?: about| around| a level of)?"
    rf" (?:(?P<named>{_NAME})|(?P<number>{EN_NUMBER}))(?P<percent> ?%| percent)?(?! ?(?:times|years|people))"
    rf"{_EN_END}"
)
"""How far: after "turn the volume", "turn it down". An article is no number."""
_EN_TO_WHAT = re.compile(r" (?:to|at|by)\b")
_EN_TURN = re.compile(
    rf"{EN_ASK}(?:turn|bring|take|put|set|change|make|crank|keep) (?:{_EN_SOUND}|(?P<it>it))"
    rf"(?: (?:\w+ |(?P<whole>all the way ))?(?P<way>up|down))?\b"
    rf"|{EN_ASK}(?:turn|bring|crank) (?P<way_first>up|down) {_EN_SOUND}\b"
    rf"|{EN_ASK}(?P<lower>lower|reduce|decrease) {_EN_SOUND}\b"
    rf"|{EN_ASK}(?P<raise>raise|increase|boost) {_EN_SOUND}\b"
    r"|(?:^|[.,!?] )(?P<bare>volume)(?: (?P<bare_way>up|down))?\b"
)
_EN_NAMED_FIRST = re.compile(rf"{EN_ASK}(?P<named>{_NAME}) volume{_EN_END}")
_EN_QUIETER = re.compile(
    rf"{EN_ASK}(?:be|speak|talk|get) {_EN_HOW}(?:quieter|softer|more (?:quietly|softly))\b"
    rf"|{EN_ASK}(?:a (?:little|bit) )?(?:quieter|softer){_EN_END}"
    rf"|{EN_ASK}(?:be|keep) (?:\w+ )?quiet{_EN_END}|^(?:quiet|hush){_EN_END}"
)
_EN_LOUDER = re.compile(
    rf"{EN_ASK}(?:be|speak|talk|get) {_EN_HOW}(?:louder|more loudly)\b|{EN_ASK}speak up\b"
    rf"|{EN_ASK}(?:a (?:little|bit) )?louder{_EN_END}"
)
_EN_SILENT = re.compile(
    rf"{EN_ASK}(?:mute(?: yourself| {_EN_SOUND})?|be silent|go silent"
    rf"|turn {_EN_SOUND} off|turn off {_EN_SOUND}){_EN_END}"
)
_EN_AUDIBLE = re.compile(
    rf"{EN_ASK}(?:unmute(?: yourself| {_EN_SOUND})?"
    rf"|turn {_EN_SOUND} (?:back )?on|turn (?:back )?on {_EN_SOUND}){_EN_END}"
)
_EN_OTHERS = re.compile(
    r"[^.,!?;]*?\b(?:tv|television|radio|music|phone|song|video|game|car|stereo|headphones|his|her|their)\b"
)

_JA_MICROPHONE = r"(?:マイク|マイクロ(?:フォン|ホン))(?:の(?:スイッチ|電源|音))?[をは]?[、\s]?(?:もう一度|また|一旦)?"
_EN_MICROPHONE = r"(?:(?:the |your )?mic(?:rophone)?)"
_MUTE = re.compile(
    rf"{_JA_MICROPHONE}(?:(?:切っ|消し|止め|(?:オフ|ミュート)に?し){JA_TE}|(?:オフ|ミュート)(?:に|お願い|おねがい)?[。!]?$)"
    rf"|{_JA_START}聞くのを?(?:やめ|止め){JA_TE}"
    rf"|{EN_ASK}(?:mute {_EN_MICROPHONE}"
    rf"|(?:turn|switch) (?:off {_EN_MICROPHONE}|{_EN_MICROPHONE} off)|{_EN_MICROPHONE} off"
    rf"|stop listening(?: to (?:me|us))?){_EN_END}"
)
_UNMUTE = re.compile(
    rf"{_JA_MICROPHONE}(?:(?:入れ|つけ|オンにし|ミュートを?解除し|戻し){JA_TE}|オン(?:に|お願い|おねがい)?[。!]?$)"
    rf"|マイクのミュート{_JA_OF}(?:(?:解除し|外し|やめ){JA_TE}|解除[。!]?$)"
    rf"|{EN_ASK}(?:unmute {_EN_MICROPHONE}"
    rf"|(?:turn|switch) (?:back )?(?:on {_EN_MICROPHONE}|{_EN_MICROPHONE} (?:back )?on)"
    rf"|{_EN_MICROPHONE} on){_EN_END}"
)


def volume_request(words: str) -> VolumeRequest | None:
    """How loud the robot shall be, in Japanese or English; None: nothing is asked, or it is taken back."""
    said = folded(words)
    if before_taken_back(said) or before_stopped(said):
        return None
    for before, after in second_thoughts(said):
        if _volume(before):
            ways = (f"音量を{after.lstrip(' 、')}", f"turn the volume {after.lstrip(' ,')}", after)
            if corrected := next(filter(None, map(_volume, ways)), None):
                return corrected
    return _volume(said)


def mute_request(words: str) -> bool | None:
    """True: the microphone shall be off; False: on again; None: nothing is asked, or it is taken back."""
    said = folded(words)
    if EN_NOT_ASKED.search(said) or before_taken_back(said) or before_stopped(said):
        return None
    said = EN_QUESTION.sub(",", said)
    return True if _MUTE.search(said) else False if _UNMUTE.search(said) else None


def _volume(said: str) -> VolumeRequest | None:
    if _JA_OTHERS.search(said) or EN_NOT_ASKED.search(said):
        return None
    said = EN_QUESTION.sub(",", said)
    if match := _JA_LEVEL.search(said):
        return _level_ja(match)
    if match := _EN_TURN.search(said):
        return None if _EN_OTHERS.match(said, match.end()) else _turned(match, said)
    if match := _EN_NAMED_FIRST.search(said):
        return VolumeRequest(percent=_NAMED[match["named"]])
    if _JA_SILENT.search(said) or _of_robot(_EN_SILENT, said):
        return VolumeRequest(percent=0)
    if _JA_AUDIBLE.search(said) or _of_robot(_EN_AUDIBLE, said):
        return VolumeRequest(percent=AUDIBLE_PERCENT)
    if any(form.search(said) for form in _JA_QUIETER) or _of_robot(_EN_QUIETER, said):
        return VolumeRequest(change=-_step(said))
    if any(form.search(said) for form in _JA_LOUDER) or _of_robot(_EN_LOUDER, said):
        return VolumeRequest(change=_step(said))
    return None


def _of_robot(form: re.Pattern[str], said: str) -> bool:
    match = form.search(said)
    return match is not None and not _EN_OTHERS.match(said, match.start())


def _turned(match: re.Match[str], said: str) -> VolumeRequest | None:
    """What is said after "turn the volume", or "turn it down"."""
    way = match["way"] or match["way_first"] or match["bare_way"]
    sign = -1 if way == "down" or match["lower"] else 1 if way or match["raise"] else 0
    if far := _EN_TO.match(said, match.end()):
        if match["it"] and not way and not far["percent"]:
            return None  # of a timer, it may be
        if far["named"]:
            return VolumeRequest(percent=_NAMED[far["named"]])
        if far["number"] in ("a", "an") or not (far["how"] or far["percent"] or far["number"][0].isdigit()):
            return None
        value, to = round(number_of(far["number"])), far["how"] in (" to", " at")
        return VolumeRequest(change=sign * value) if sign and not to and value <= 100 else _percent(value)
    if sign and (match["whole"] or said.startswith(" all the way", match.end())):
        return VolumeRequest(percent=100 if sign > 0 else 0)
    if not sign or _EN_TO_WHAT.match(said, match.end()):
        return None
    if (match["it"] or match["bare"]) and not re.compile(_EN_END).match(said, match.end()):
        return None
    return VolumeRequest(change=sign * _step(said))


def _level_ja(match: re.Match[str]) -> VolumeRequest | None:
    if name := match["named"] or match["first"]:
        return VolumeRequest(percent=_NAMED[name])
    value = round(number_of(match["number"]))
    sign = -1 if match["down"] else 1 if match["up"] else 0
    return VolumeRequest(change=sign * value) if sign and not match["to"] and value <= 100 else _percent(value)


def _percent(value: int) -> VolumeRequest | None:
    return VolumeRequest(percent=value) if 0 <= value <= 100 else None


def _step(said: str) -> int:
    if re.search(r"少し|すこし|ちょっと|\b(?:little|bit|slightly)\b", said):
        return _A_LITTLE
    return _MUCH if re.search(r"ずっと|かなり|すごく|\b(?:lot|much|way)\b", said) else _USUAL
