"""What is said after something was to be forgotten, where the model is too small to say it truly.

Forgetting cannot be taken back, and whether it was done is not a matter of style: a small model says "forgotten" also
of what was not found, and does not ask which of two is meant. So its reply is one of these sentences, which say what
the tool's result says; a face and a movement are put to it by `pipeline/ruled.py`. Pure; knows results as data, no
tool and no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from server.memory.forget_tool import ASK_WHAT, TAKEN_BACK

_QUOTED_CHARACTERS = 40
_QUOTED = 3


def replies_to_forgetting(result: Mapping[str, Any], language: str) -> tuple[str, ...]:
    """The replies that are true of a result of `forget_memory`, in `language` (ISO 639-1; Japanese, else English).

    Empty: the tool failed, or says something that is not known here.
    """
    forgotten = result.get("forgotten")
    if not isinstance(forgotten, int) or "error" in result:
        return ()
    japanese = language == "ja"
    which = _quoted(result.get("which"), japanese)
    left = _quoted(result.get("still_remembered"), japanese)
    if which:
        return (f"どれのこと？{which}があるよ。",) if japanese else (f"Which one do you mean? There is {which}.",)
    if forgotten:
        if left:
            return (f"それは忘れたよ。{left}は覚えているよ。",) if japanese else (f"I forgot it. I still know {left}.",)
        return (
            ("わかった、忘れたよ。", "うん、忘れたよ。")
            if japanese
            else ("Okay, I have forgotten it.", "It is forgotten.")
        )
    if result.get("note") == TAKEN_BACK:
        return ("わかった、そのままにしておくね。",) if japanese else ("All right, I will keep it.",)
    if result.get("note") == ASK_WHAT:
        return ("なにを忘れればいい？",) if japanese else ("What shall I forget?",)
    return ("それは覚えていないよ。",) if japanese else ("I do not remember anything like that.",)


def _quoted(entries: object, japanese: bool) -> str:
    """The first few entries, in short and in quotes."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return ""
    texts = [_text(entry) for entry in entries[:_QUOTED]]
    opening, closing, between = ("「", "」", "と") if japanese else ("“", "”", " and ")
    return between.join(f"{opening}{text}{closing}" for text in texts if text)


def _text(entry: object) -> str:
    if isinstance(entry, Mapping):
        entry = entry.get("summary") or entry.get("text") or ""
    if not isinstance(entry, str):
        return ""
    text = " ".join(entry.split()).strip("。.!?！？ ")
    return text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 1].rstrip("、, ") + "…"
