"""What somebody takes back or corrects in the same breath, in Japanese and English: やっぱりやめて, "no, make it 10".
Pure; knows no request: words are folded (`spoken_forms.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_JA_MARK = (
    r"やっぱり?|じゃなくて?|ではなくて?"
    r"|(?:^|(?<=[、。!?\s]))(?:いや|いえ|違う|違った|ちがう|ちがった|間違えた|まちがえた|訂正|待って)"
)
_EN_MARK = (
    r"(?:^|(?<=[.,!?;…-] )|(?<=[.,!?;…]))(?:no|nope|wait|sorry|oops)\b"
    r"|\bno(?= (?:wait|sorry|make|actually|let|i mean|\d))"
    r"|\b(?:actually|i mean|i meant|or rather|make (?:it|that)|change (?:it|that) to|on second thoughts?|scratch that"
    r"|correction|sorry)\b|\bwait(?=,| no)"
)
_MARK = re.compile(f"{_JA_MARK}|{_EN_MARK}")

_MOST_MARKS = 4

_END = r"(?:\W|please|thanks|thank you|sorry|ごめん|ありがとう|です|[ねよわや])*+$"
# With a word of second thoughts before it; by itself; as a sentence of its own.
_JA_LEAVE = (
    r"(?:それ|タイマー|アラーム)?[はをも]?(?:もう)?(?:やめ(?:て(?:おいて|おく)?|る|とく|た|よう)?|止めて|消して|いい|いらない|要らない"
    r"|なし(?:で|にして)?|キャンセル(?:して)?|取り消して?|取消|(?:し|かけ|鳴らさ|起こさ|止め|消さ)ないで)"
)
_JA_LEAVE_ALONE = (
    r"(?:なんでもない|何でもない|気にしないで"
    r"|(?:今|いま)のは?(?:なし|取り消し|キャンセル)(?:で|にして|して)?|そのままで(?:いい)?)"
)
_JA_STOP = r"(?:やめて(?:おいて)?|やめる|やめとく|キャンセル(?:して)?|取り消して|忘れて)"
_EN_LEAVE_ALONE = (
    r"(?:never ?mind|forget (?:about )?(?:it|that)|leave (?:it|them)(?: alone)?|(?:i )?changed my mind|no need)"
)
_EN_STOP = (
    r"(?:(?:cancel|scratch|stop|drop|skip|ignore|undo) (?:it|that|(?:the|that|my) (?:timer|alarm))"
    r"|don't(?: (?:bother|do (?:it|that)))?)"
)
_TAKEN_BACK = re.compile(
    rf"(?:やっぱり?|いや|いえ|ごめん|待って|あっ?)[、\s]*{_JA_LEAVE}{_END}|(?:^|[、。!?\s]){_JA_LEAVE_ALONE}{_END}"
    rf"|\b(?:oh,? |no,? |or )?{_EN_LEAVE_ALONE}{_END}"
)
_STOPPED = re.compile(
    rf"[、。!?\s]{_JA_STOP}{_END}"
    rf"|(?:[.,!?;-]\s*|\b(?:no|wait|actually|oh|sorry|oops|please|just) )(?:no,? )?{_EN_STOP}{_END}"
)


def before_taken_back(said: str) -> str | None:
    """What was said before somebody took it all back; None: they did not."""
    return _before(_TAKEN_BACK, said)


def before_stopped(said: str) -> str | None:
    """What was said before "cancel it", which takes back what was asked for, or is what is asked for."""
    return _before(_STOPPED, said)


def second_thoughts(said: str) -> Iterator[tuple[str, str]]:
    """What was said before and after each word that may begin a correction, the last one first; of the last few."""
    for mark in reversed(list(_MARK.finditer(said))[-_MOST_MARKS:]):
        if before := said[: mark.start()].strip(" 、,"):
            yield before, said[mark.end() :]


def _before(form: re.Pattern[str], said: str) -> str | None:
    match = form.search(said)
    return said[: match.start()].strip(" 、,") or None if match else None
