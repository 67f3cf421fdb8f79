"""What hearing servers write around the words: the language's name, and Qwen3-ASR's own marks. Pure."""

from __future__ import annotations

import re
import unicodedata

UNKNOWN_LANGUAGE = "und"
"""ISO 639-2: the engine cannot tell."""

_MARKS = re.compile(r"\s*language\s+(?P<name>[^<\n]{0,40}?)\s*<asr_text>(?P<text>.*)", re.DOTALL | re.IGNORECASE)
_END = re.compile(r"</?asr_text>|<\|[a-z_]{1,20}\|>")
_CODES = {
    "arabic": "ar",
    "cantonese": "yue",
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}


def read_marks(raw: str) -> tuple[str | None, str]:
    """Language (ISO 639-1, None when it is not told) and words of `language Japanese<asr_text>…`, or of plain text.

    `language None` is how the model says that nobody spoke: no words then.
    """
    found = _MARKS.fullmatch(raw)
    name, text = (found["name"], found["text"]) if found is not None else ("", raw)
    text = _END.sub("", text).strip()
    if found is not None and name.casefold() in ("none", ""):
        return None, ""
    return language_code(name), text


def language_code(name: str) -> str | None:
    """The code for a language's English name or its own code (`ja`, `ja-JP`); None for what is neither."""
    folded = unicodedata.normalize("NFKC", name).strip().casefold()
    if folded in _CODES:
        return _CODES[folded]
    code = re.split(r"[-_]", folded)[0]
    return code if re.fullmatch(r"[a-z]{2,3}", code) else None
