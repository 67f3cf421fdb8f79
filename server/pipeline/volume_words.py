"""Whether somebody asks for a louder or quieter robot, or for its microphone off or on, by the form of their words.

A small model is offered a tool only then: 音を小さくして is a request, 音が小さくなった is none, nor is what is said of
the television. Pure; changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from server.pipeline.spoken_forms import EN_ASK, EN_NOT_ASKED, EN_NUMBER, JA_NUMBER, folded, number_of

_A_LITTLE, _USUAL, _MUCH = 10, 20, 30


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """Just one of the two, in percent of the loudest."""

    percent: int | None = None
    change: int | None = None


_JA_SOUND = r"(?:音量|ボリューム|音声?|声|しゃべり声|話し声)"
_JA_HOW = r"(?:もう)?(?:少し|すこし|ちょっと|もっと|ずっと|かなり|すごく)?(?:だけ)?"
_JA_PLEASE = r"(?:して|できる|お願い|おねがい|話して|はなして|しゃべって|喋って|頼む|[。!]?$)"
_JA_TURN = r"(?:てください|て下さい|てくれ(?:る|ない)|てもらえる|てね|てよ|て[。!、]?$|てほしい)"
_JA_QUIETER = re.compile(
    rf"{_JA_SOUND}(?:を|が|は|も)?{_JA_HOW}(?:小さく|ちいさく|低く){_JA_PLEASE}"
    rf"|{_JA_SOUND}(?:を|は|も)?{_JA_HOW}(?:下げ|さげ|落とし|絞っ){_JA_TURN}"
    rf"|(?:小さな|小さい|ちいさい|ちいさな)(?:声|音)で(?:話|しゃべ|喋|言って|お願い|おねがい|頼む|ね?[。!]?$)|(?:もっと|もう少し|もうちょっと|ちょっと|少し)静かに{_JA_PLEASE}"
    r"|静かに(?:話して|しゃべって|喋って)|(?:音量|ボリューム)(?:を)?ダウン"
    rf"|^(?:もう少し|もうちょっと|もっと|ちょっと)(?:小さく|ちいさく){_JA_PLEASE}"
)
_JA_LOUDER = re.compile(
    rf"{_JA_SOUND}(?:を|が|は|も)?{_JA_HOW}(?:大きく|おおきく){_JA_PLEASE}"
    rf"|{_JA_SOUND}(?:を|は|も)?{_JA_HOW}(?:上げ|あげ){_JA_TURN}"
    r"|(?:大きな|大きい|おおきな|おおきい)(?:声|音)で(?:話|しゃべ|喋|言って|お願い|おねがい|頼む|ね?[。!]?$)"
    rf"|^(?:もう少し|もうちょっと|もっと|ちょっと)(?:大きく|おおきく){_JA_PLEASE}|(?:音量|ボリューム)(?:を)?アップ"
)
_JA_LEVEL = re.compile(
    rf"{_JA_SOUND}(?:を|は)?(?:({JA_NUMBER})(?:%|パーセント)?|(半分)|(最大|マックス|いっぱい)|(ゼロ|零))(?:に|まで)?"
    r"(?:して|下げて|上げて|セット|設定|お願い|おねがい)"
)
_JA_SILENT = re.compile(rf"{_JA_SOUND}(?:を|は)?(?:消して|なしにして|切って|ミュートにして|ミュートして)")
_JA_NOT_ASKED = re.compile(r"て(?:くれた|もらった|いた|た|ました|しまった|ある)|ないで|なくていい|忘れ")
_JA_OTHERS = re.compile(
    r"(?:テレビ|音楽|ラジオ|スマホ|携帯|動画|ゲーム|曲|車|パソコン|イヤホン|彼女?|母|父|隣)の?"
    r"(?:音|ボリューム|声)"
)

_EN_SOUND = r"(?:(?:the |your )?(?:volume|sound|voice))"
_EN_HOW = r"(?:(?:just )?a (?:little|bit|little bit) |a lot |much |way |slightly )?"
_EN_END = r"(?: a (?:little|bit|little bit|lot))?(?:,? please)?[.!?]*$"
_EN_QUIETER = re.compile(
    rf"{EN_ASK}(?:be|speak|talk|get) {_EN_HOW}(?:quieter|softer|more (?:quietly|softly))\b"
    rf"|{EN_ASK}(?:a (?:little|bit) )?(?:quieter|softer){_EN_END}"
    rf"|{EN_ASK}(?:turn|bring|take) {_EN_SOUND} (?:\w+ )?down\b|{EN_ASK}turn down {_EN_SOUND}"
    rf"|{EN_ASK}(?:lower|reduce|decrease) {_EN_SOUND}|^volume down\b|{EN_ASK}(?:turn it|keep it) down{_EN_END}"
)
_EN_LOUDER = re.compile(
    rf"{EN_ASK}(?:be|speak|talk|get) {_EN_HOW}(?:louder|more loudly)\b|{EN_ASK}speak up\b"
    rf"|{EN_ASK}(?:a (?:little|bit) )?louder{_EN_END}"
    rf"|{EN_ASK}(?:turn|bring) {_EN_SOUND} (?:\w+ )?up\b|{EN_ASK}turn up {_EN_SOUND}"
    rf"|{EN_ASK}(?:raise|increase) {_EN_SOUND}|^volume up\b|{EN_ASK}turn it up{_EN_END}"
)
_EN_LEVEL = re.compile(
    rf"(?:{EN_ASK}(?:set|turn|put|change|make|bring) {_EN_SOUND}(?: up| down)?|^volume) ?(?:to|at)? "
    rf"(?:({EN_NUMBER})(?: ?%| percent)?|(max(?:imum)?|full)|(minimum|zero))\b(?! ?(?:times|years|people))"
)
_EN_SILENT = re.compile(
    rf"{EN_ASK}(?:mute (?:yourself|{_EN_SOUND})|turn {_EN_SOUND} off|turn off {_EN_SOUND})(?=$|[.,!?]| please)"
)
_EN_OTHERS = re.compile(r"\b(?:tv|television|radio|music|phone|song|video|game|car|stereo|headphones|his|her|their)\b")

_JA_MICROPHONE = r"(?:マイク|マイクロ(?:フォン|ホン))(?:を|は)?(?:もう一度|また)?"
_MUTE = re.compile(
    rf"{_JA_MICROPHONE}(?:オフ|ミュート|切|消|止)(?:に)?(?:して|って|めて)"
    rf"|{EN_ASK}(?:mute (?:the |your )?mic(?:rophone)?|(?:turn|switch) (?:off (?:the |your )?mic(?:rophone)?"
    r"|(?:the |your )?mic(?:rophone)? off)|stop listening)\b"
)
_UNMUTE = re.compile(
    rf"{_JA_MICROPHONE}(?:オン|入|つけ)(?:に)?(?:して|れて|て)|マイク(?:の)?ミュート(?:を)?(?:解除|外|やめ)"
    rf"|{EN_ASK}(?:unmute(?: (?:the |your )?mic(?:rophone)?| yourself)?"
    r"|(?:turn|switch) (?:on (?:the |your )?mic(?:rophone)?|(?:the |your )?mic(?:rophone)? on))\b"
)


def volume_request(words: str) -> VolumeRequest | None:
    """How loud the robot shall be, in Japanese or English; None: nothing is asked."""
    said = folded(words)
    if _JA_NOT_ASKED.search(said) or _JA_OTHERS.search(said) or EN_NOT_ASKED.search(said) or _EN_OTHERS.search(said):
        return None
    if match := _JA_LEVEL.search(said):
        return _level(match[1], half=match[2], most=match[3])
    if match := _EN_LEVEL.search(said):
        return _level(match[1], half=None, most=match[2])
    if _JA_SILENT.search(said) or _EN_SILENT.search(said):
        return VolumeRequest(percent=0)
    if _JA_QUIETER.search(said) or _EN_QUIETER.search(said):
        return VolumeRequest(change=-_step(said))
    if _JA_LOUDER.search(said) or _EN_LOUDER.search(said):
        return VolumeRequest(change=_step(said))
    return None


def mute_request(words: str) -> bool | None:
    """True: the microphone shall be off; False: on again; None: nothing is asked."""
    said = folded(words)
    if _JA_NOT_ASKED.search(said) or EN_NOT_ASKED.search(said):
        return None
    return True if _MUTE.search(said) else False if _UNMUTE.search(said) else None


def _level(number: str | None, *, half: str | None, most: str | None) -> VolumeRequest | None:
    if number is None:
        return VolumeRequest(percent=50 if half else 100 if most else 0)
    value = number_of(number)
    percent = 50 if number == "half" else round(value)
    return VolumeRequest(percent=percent) if 0 <= percent <= 100 else None


def _step(said: str) -> int:
    if re.search(r"少し|すこし|ちょっと|\b(?:little|bit|slightly)\b", said):
        return _A_LITTLE
    return _MUCH if re.search(r"ずっと|かなり|すごく|\b(?:lot|much|way)\b", said) else _USUAL
