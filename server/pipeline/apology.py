"""What the robot says when a part of it fails. Plain sentences in each language; knows no engines and no sound."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from server.errors import AsrError, StackChanError, VadError
from server.persona import Persona

Fault = Literal["not_heard", "not_thought", "out_of_order", "too_long", "busy"]

APOLOGIES: Mapping[Fault, Mapping[str, str]] = MappingProxyType(
    {
        "not_heard": MappingProxyType({"ja": "ごめん、よく聞き取れなかった。", "en": "Sorry, I didn't catch that."}),
        "not_thought": MappingProxyType(
            {
                "ja": "ごめん、うまく考えられなかった。もう一回言ってみて。",
                "en": "Sorry, I couldn't think just now. Please try again.",
            }
        ),
        "busy": MappingProxyType(
            {
                "ja": "ごめん、今は頭がいっぱい。少し待ってから聞いてね。",
                "en": "Sorry, my head is full right now. Please ask again in a moment.",
            }
        ),
        "too_long": MappingProxyType(
            {
                "ja": "ごめん、話が長すぎて読みきれなかった。短くしてみて。",
                "en": "Sorry, that was too long for me. Please make it shorter.",
            }
        ),
        "out_of_order": MappingProxyType(
            {"ja": "ごめん、今は考えることができないみたい。", "en": "Sorry, I can't think at the moment."}
        ),
    }
)
"""Fault -> language (ISO 639-1) -> sentence; the likeliest faults first."""

_FAULTS_OF_CODES: Mapping[str, Fault] = MappingProxyType(
    {
        "llm_context_overflow": "too_long",
        "llm_rate_limited": "busy",
        "llm_overloaded": "busy",
    }
)


def fault_of(error: StackChanError) -> Fault:
    """Which sentence an error calls for: asking again is offered only where it may help."""
    if isinstance(error, AsrError | VadError):
        return "not_heard"
    return _FAULTS_OF_CODES.get(error.code, "not_thought" if error.retryable else "out_of_order")


def apology(fault: Fault, language: str) -> str:
    """The sentence for a fault, in `language` (ISO 639-1); English where there is none."""
    texts = APOLOGIES[fault]
    return texts.get(language, texts["en"])


def apology_emotion(persona: Persona) -> str:
    """The face and the voice of an apology; neutral for a persona that knows no doubt."""
    return "doubt" if any(entry.id == "doubt" for entry in persona.emotions) else "neutral"
