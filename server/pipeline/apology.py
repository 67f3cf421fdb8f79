"""What the robot says when a part of it fails. Plain sentences in each language; knows no engines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from server.errors import AsrError, StackChanError

_NOT_HEARD: Mapping[str, str] = MappingProxyType(
    {"ja": "ごめん、よく聞き取れなかった。", "en": "Sorry, I didn't catch that."}
)
_NOT_THOUGHT: Mapping[str, str] = MappingProxyType(
    {
        "ja": "ごめん、うまく考えられなかった。もう一回言ってみて。",
        "en": "Sorry, I couldn't think just now. Please try again.",
    }
)


def apology(error: StackChanError, language: str) -> str:
    """The sentence for a failure, in `language` (ISO 639-1); English where there is none."""
    texts = _NOT_HEARD if isinstance(error, AsrError) else _NOT_THOUGHT
    return texts.get(language, texts["en"])
