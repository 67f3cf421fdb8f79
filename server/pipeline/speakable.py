"""Written text to speakable text: what a person would say when reading the reply aloud.

Marks and links go (`speakable_marks`), then each clause gets its numbers and signs in words of its own language
(`speakable_ja`, `speakable_en`), last brackets become pauses. A reply cut by `sentences` says the same, piece by piece,
as the reply as a whole. Pure text. Knows no engine; which voice speaks which script is the engine's matter.
"""

from __future__ import annotations

import re

from server.pipeline import speakable_en, speakable_ja
from server.pipeline.speakable_marks import JAPANESE, PAUSE, single_spaced, without_marks

_ENGLISH_PHRASE_WORDS = 3
"""So many Latin words without a Japanese one are an English clause, also in a Japanese reply."""

_IS_JAPANESE = re.compile(f"[{JAPANESE}]")
_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:['’-][A-Za-z\u00c0-\u024f]+)*")
_SURE = re.compile(r"[A-Za-z0-9ぁ-んァ-ヶ一-鿿]")
_CLAUSES = re.compile(
    r"(?<=[、。！？…\n])|(?<=[,;:] )|(?<=[,;:.])(?=[^\x00-\x7f])"
    r"|(?<=[.!?] )(?<!Dr\. )(?<!Mr\. )(?<!Ms\. )(?<!Mrs\. )(?<!No\. )(?<!no\. )(?<!Vol\. )(?<!vol\. )(?<![pP]\. )"
)

_BRACKETS = re.compile(r"[()\[\]{}【】〈〉《》〔〕〖〗｛｝]+")
_CLOSERS = ")]}】〉》〕 \n"
_DASHES = re.compile(r"[—―─–]+|-{2,}|(?<=\s)-(?=\s)|(?<=\s)[–−](?=\s)")
_NEVER_SAID = re.compile(
    r"[*|~〜<>^_\\`\u2190-\u22ff\u2500-\u25ff§¶†‡⇒※]+|(?<![A-Za-z0-9])[=/#]+|[=/#]+(?![A-Za-z0-9])"
)
_LONG_VOWEL = re.compile(r"(?<![ぁ-んァ-ヶー一-鿿])ー+|ー{3,}")
_DOTS = re.compile(r"。{2,}|・{2,}|\.{3,}|…{2,}|(?:\. ){2,}\.")
_EXCLAIMED = re.compile(r"[！？]+")
_PAUSE_RUN = re.compile(r"[、，,](?: ?[、，,])+")
_PAUSES_JA = re.compile(r" ?[、，] ?|(?<![0-9]),(?: |$)|(?<=[^\x00-\x7f]),|,(?=[^\x00-\x7f])")
_BEFORE_END_JA = re.compile(r"、+(?=[。！？…」』\n])|(?<=[。！？…\n「『])[ \t]*、+|\A[\s、]+")
_COLON_JA = re.compile(r"(?<![0-9])\s?[:;]\s?(?=\S)|[:;](?=\s|$)")
_SLASH = re.compile(r"\s?/\s?")
_PAUSES_EN = re.compile(r" ?[、，] ?| ?,(?: |$)")
_BEFORE_END_EN = re.compile(r",\s*(?=[.!?;:…])|(?<=[.!?\n]) *, *|\A[\s,]+")
_SPACE_JA = re.compile(rf"(?<=[{JAPANESE}、。！？…]) +(?=[{JAPANESE}、。！？…])")


def speakable(text: str, language: str) -> str:
    """`text` as it should be spoken, in a sentence of `language` (ISO 639-1); empty when nothing can be said."""
    text = without_marks(text, language)
    if not any(map(str.isalnum, text)):
        return ""
    return "".join(_spoken_clauses(text, language)).strip()


def surely_has_words(spoken: str) -> bool:
    """Whether any voice has to make a sound of this: two letters or digits of Japanese or English, or more."""
    return len(_SURE.findall(spoken)) >= 2


def _spoken_clauses(text: str, language: str) -> list[str]:
    clauses = [clause for clause in _CLAUSES.split(text) if clause]
    spoken: list[str] = []
    start = 0
    while start < len(clauses):
        # Neighbours of one language are tidied together, so that pauses meet.
        own = _language_of(clauses[start], language)
        end = start + 1
        while end < len(clauses) and _language_of(clauses[end], language) == own:
            end += 1
        words = speakable_ja.in_words if own == "ja" else speakable_en.in_words
        # A Japanese sign is judged by the words of its clause, an English short form by what follows.
        stretch = clauses[start:end] if own == "ja" else ["".join(clauses[start:end])]
        spoken.append(_tidied("".join(map(words, stretch)), own))
        start = end
    return spoken


def _language_of(clause: str, language: str) -> str:
    if language == "ja":
        english = _IS_JAPANESE.search(clause) is None and len(_WORD.findall(clause)) >= _ENGLISH_PHRASE_WORDS
        return "en" if english else "ja"
    japanese = 2 * len(_IS_JAPANESE.findall(clause))
    return "ja" if japanese and japanese >= sum(map(len, _WORD.findall(clause))) else "en"


def _tidied(text: str, language: str) -> str:
    text = _DASHES.sub(PAUSE, _BRACKETS.sub(PAUSE, single_spaced(text).rstrip(_CLOSERS)))
    text = _LONG_VOWEL.sub(lambda match: "ーー" if text[: match.start()][-1:].isalpha() else "", text)
    text = _EXCLAIMED.sub(lambda match: "？" if "？" in match.group() else "！", text)
    if language == "ja":
        text = _COLON_JA.sub(PAUSE, _SLASH.sub(PAUSE, text))
        text = single_spaced(_NEVER_SAID.sub(" ", _DOTS.sub("…", text)))
        text = _SPACE_JA.sub("", text)
        text = _BEFORE_END_JA.sub("", _PAUSES_JA.sub(PAUSE, _PAUSE_RUN.sub(PAUSE, text)))
    else:
        text = _DOTS.sub("...", text).replace("！", "!").replace("？", "?").replace("。", ". ")
        text = single_spaced(_NEVER_SAID.sub(" ", text))
        text = _BEFORE_END_EN.sub("", _PAUSES_EN.sub(", ", _PAUSE_RUN.sub(PAUSE, text)))
    return single_spaced(text)
