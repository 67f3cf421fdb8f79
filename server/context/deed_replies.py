"""What is said after a timer was set, told or ended, or the robot's sound or microphone turned, where the model is too
small to say it truly.

A small model says another length than it set, and "done" of what was refused. So its reply says what the result says,
with no number but those in it; a face and a movement are put to it by `pipeline/ruled.py`. Pure; knows results as
data, no tool and no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

ASK_HOW_LONG = "ask the user how long, or at what time"
ONE_ONLY = "ask for one timer only"
TOO_FAR = "ask for a day and a time within the next 7 days"
TAKEN_BACK = "the user took it back; nothing was done"
NO_SUCH = "what the user named does not run; nothing was cancelled"
CANNOT_RING = "this device cannot ring; the user can ask at the robot, or on the page of the server"
"""Notes of a timer that was not set or ended, as any model is told them."""
_NAMED = 3
_NOT_SET = {
    ASK_HOW_LONG: (
        "どのくらいの長さか、何時か教えて。",
        "For how long, or for what time?",
    ),
    ONE_ONLY: ("タイマーは一つずつお願いね。", "Please ask for one timer at a time."),
    TOO_FAR: ("7日以内の日と時間を教えて。", "Please tell me a day and a time within the next 7 days."),
    TAKEN_BACK: ("わかった、やめておくね。", "All right, I leave it."),
    CANNOT_RING: (
        "ここでは鳴らせないよ。ロボットかページで頼んでね。",
        "I cannot ring here. Please ask me at the robot, or on the page.",
    ),
}
_FAILED = "ごめんね、それはできなかったよ。", "Sorry, I could not do that."


def replies_to_deed(result: Mapping[str, Any], words: str, language: str) -> tuple[str, ...]:
    """The replies that are true of a result of the tools of timers, loudness and the microphone, to these `words`.

    In `language` (ISO 639-1; Japanese, else English). Empty: the result says something that is not known here.
    """
    japanese = language == "ja"
    reply = (_said_ja if japanese else _said_en)(result, words)
    return (reply,) if reply else ()


def _said_ja(result: Mapping[str, Any], words: str) -> str:
    if "error" in result:
        return _FAILED[0]
    match result:
        case {"timer_set": True}:
            return _set_ja(result)
        case {"timer_set": False, "note": str(note)}:
            return _NOT_SET[note][0] if note in _NOT_SET else ""
        case {"timers": list(timers)}:
            return _left_ja(timers)
        case {"cancelled": [], "note": str(note)} if note == TAKEN_BACK:
            return _NOT_SET[note][0]
        case {"which": list(which), "note": str(note)} if which and note == NO_SUCH:
            return f"そのタイマーはないよ。今あるのは{_listed(which, 'と')}だよ。"
        case {"which": list(which)} if which:
            return f"どのタイマーのこと？{_listed(which, 'と')}があるよ。"
        case {"cancelled": list(gone)}:
            return f"{_listed(gone, 'と')}のタイマーを止めたよ。" if gone else "今、動いているタイマーはないよ。"
        case {"volume_percent": int(percent)}:
            return f"音の大きさを{percent}パーセントにしたよ。"
        case {"volume_set": bool(done)}:
            return "音の大きさを変えたよ。" if done else "ここでは音の大きさを変えられないよ。"
        case {"microphone": "off"}:
            return "マイクを切ったよ。"
        case {"microphone": "on"}:
            return "マイクを入れたよ。"
        case {"microphone_set": False}:
            return "ここではマイクを変えられないよ。"
    return ""


def _set_ja(result: Mapping[str, Any]) -> str:
    label = result.get("label")
    if at := result.get("at"):
        if label:
            return f"{at}に「{label}」って知らせるね。"
        return f"{at}に起こすね。" if result.get("wakes") else f"{at}に知らせるね。"
    length = result.get("length")
    return f"{length}たったら「{label}」って知らせるね。" if label else f"{length}のタイマーをかけたよ。"


def _left_ja(timers: Sequence[Mapping[str, Any]]) -> str:
    if not timers:
        return "今、動いているタイマーはないよ。"
    first = timers[0]
    if len(timers) == 1 and "length" in first and not first.get("label"):
        return f"あと{first['left']}だよ。"
    told = "、".join(f"{_name_ja(one)}はあと{one['left']}" for one in timers[:_NAMED])
    more = f"ほかに{len(timers) - _NAMED}個あるよ。" if len(timers) > _NAMED else ""
    return f"{told}だよ。{more}"


def _name_ja(timer: Mapping[str, Any]) -> str:
    if label := timer.get("label"):
        return f"「{label}」"
    return f"{timer['at']}の" if "at" in timer else f"{timer['length']}のタイマー"


def _said_en(result: Mapping[str, Any], words: str) -> str:
    if "error" in result:
        return _FAILED[1]
    match result:
        case {"timer_set": True}:
            return _set_en(result, words)
        case {"timer_set": False, "note": str(note)}:
            return _NOT_SET[note][1] if note in _NOT_SET else ""
        case {"timers": list(timers)}:
            return _left_en(timers)
        case {"cancelled": [], "note": str(note)} if note == TAKEN_BACK:
            return _NOT_SET[note][1]
        case {"which": list(which), "note": str(note)} if which and note == NO_SUCH:
            return f"There is no such timer. Running: {_listed(which, ' and ')}."
        case {"which": list(which)} if which:
            return f"Which timer do you mean: {_listed(which, ' or ')}?"
        case {"cancelled": list(gone)}:
            return f"I stopped the timer for {_listed(gone, ' and ')}." if gone else "No timer is running."
        case {"volume_percent": int(percent)}:
            return f"The volume is at {percent} percent now."
        case {"volume_set": bool(done)}:
            return "I changed the volume." if done else "I cannot change the volume here."
        case {"microphone": "off"}:
            return "My microphone is off now."
        case {"microphone": "on"}:
            return "My microphone is on now."
        case {"microphone_set": False}:
            return "I cannot change the microphone here."
    return ""


def _set_en(result: Mapping[str, Any], words: str) -> str:
    label = str(result.get("label") or "")
    at = result.get("at")
    when = f"at {at}" if at else f"in {result.get('length')}"
    if label and f"to {label}" in " ".join(words.lower().replace("’", "'").split()):
        return f"I will remind you {when} to {_of_you(label)}."
    if at:
        if result.get("wakes"):
            return f"I will wake you {when}."
        return f"I will call you {when}{f' for {_of_you(label)}' if label else ''}."
    return f"I set a timer for {result.get('length')}{f', for {_of_you(label)}' if label else ''}."


def _left_en(timers: Sequence[Mapping[str, Any]]) -> str:
    if not timers:
        return "No timer is running."
    first = timers[0]
    if len(timers) == 1:
        named = (
            f" for {_of_you(first['label'])}"
            if first.get("label")
            else f" until {first['at']}"
            if "at" in first
            else ""
        )
        return f"You have {first['left']} left{named}."
    told = ", and ".join(f"{one['left']} for {_name_en(one)}" for one in timers[:_NAMED])
    more = f" There are {len(timers) - _NAMED} more." if len(timers) > _NAMED else ""
    return f"You have {told}.{more}"


def _name_en(timer: Mapping[str, Any]) -> str:
    return _of_you(timer["label"]) if timer.get("label") else f"the timer of {timer.get('length') or timer.get('at')}"


def _listed(names: Sequence[object], between: str) -> str:
    """All of them: a choice, or a deed, is told whole."""
    return between.join(str(name) for name in names)


def _of_you(label: str) -> str:
    """What a timer is for, as it is said to who set it; quoted where more than "my mom" would have to be turned."""
    if re.search(r"\b(?:i|me|myself|mine|we|us|you|your|yourself)\b|\bi'", label):
        return f"“{label}”"
    return re.sub(r"\b(?:my|our)\b", "your", label)
