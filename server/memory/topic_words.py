"""Where another topic begins, by the words: somebody says so, another language, an order or question about something
else, something new told after a while of chatter.

Pure. A boundary depends only on what was said before it, so more talk changes none. Each utterance is compared with
the names of its segment so far; a sentence that points back (it, それ, だから) or carries a topic of its own on (宿は)
goes on. Chosen on the development half of tests/data/ingestion, where the likeness of E5's vectors only added mistakes
(F1 91.7 without, 75-81 with). Held out 75.0; by likeness alone it was 43.6, windows of six 40.0.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from server.memory.check import is_correction, is_filler, opens_topic
from server.memory.nouns import nouns
from server.memory.questions import only_asks
from server.memory.restating import puts_right
from server.memory.telling import orders, tells, written_in
from server.storage.words import entity_key, fold

_ANY_DAY = dt.date(2000, 1, 3)
_JOINS = re.compile(
    r"^(?:だから|それで|で、|でも|けど|しかも|あと|ちなみに|(?:and|but|so|because)\b)|\b(?:though|either|as well)\b",
    re.IGNORECASE,
)
"""Said on to what was said before, a while of chatter or not."""
_GOES_ON = re.compile(
    r"^the\b|そこ|その|それ|向こう|あっち|あれ|って|[^は]は"
    r"|\b(?:it|its|it's|he|he's|she|she's|they|they're|them|him|her|his|their|that|that's|there|this|these|those)\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"^(?:うちの|(?:私|わたし|僕|ぼく|俺|おれ|あたし)の|(?:友達|友だち|隣|近所|会社|職場|学校)の)\S"
    r"|^(?:父|母|兄|姉|弟|妹|息子|娘|夫|妻|祖父|祖母|お[ぁ-ん父母兄姉]{1,2}(?:さん|ちゃん))(?:が|は|の)"
)
"""Begins with somebody or something of the speaker's, whatever は says."""
_ENGLISH_NEW = re.compile(r"\b(?:[Mm]y|[Oo]ur|[Aa]n?)\s+[a-z]|(?<!^)(?<![.!?] )\b[A-Z][a-z]+")
_SUM = re.compile(r"\d|足す|引く|かける|割る|たす|ひく")


def topics_begin(said: Sequence[str], language: str = "") -> set[int]:
    """The utterances, from 0, that begin another topic. `language`: ISO 639-1 of what has no Japanese letters."""
    begins: set[int] = set()
    talk = _Talk()
    for place, text in enumerate(said):
        if is_filler([text]):
            continue
        if place and talk.turns_to(text, language):
            begins.add(place)
            talk = _Talk(script=talk.script)
        talk.add(text, language)
    return begins


class _Talk:
    """A segment as far as it has come."""

    def __init__(self, script: str | None = None) -> None:
        self.script = script
        self._names: set[str] = set()
        self._told = False
        self._chatted_since = False
        self._announced = False

    def add(self, text: str, language: str) -> None:
        self.script = written_in(text) or self.script
        self._names |= _names(text)
        telling = tells(text, _ANY_DAY, _language(text, language))
        self._announced = not self._told and not telling and opens_topic(text)
        self._chatted_since = self._told and not telling and not points_back(text)
        self._told = self._told or telling

    def turns_to(self, text: str, language: str) -> bool:
        """Whether `text` leaves the topic."""
        if opens_topic(text) or (self.script and written_in(text) not in (None, self.script)):
            return True
        if puts_right(text) or is_correction(text):
            return False
        new = _names(text)
        elsewhere = bool(new) and not any(one in known or known in one for one in new for known in self._names)
        if tells(text, _ANY_DAY, _language(text, language)):
            if not self._told:
                return not self._announced
            return elsewhere and not joins(text) and (self._chatted_since or _is_another_matter(text))
        if not self._told:
            return False
        return orders(text) or (only_asks(text) and (elsewhere or bool(_SUM.search(fold(text)))))


def joins(text: str) -> bool:
    """Whether a sentence says that it is said on to what was said before: だから, so."""
    return _JOINS.search(text) is not None


def points_back(text: str) -> bool:
    """Whether it speaks of what was said before: it, それ, 宿は."""
    return _GOES_ON.search(text) is not None


def begins_with_ones_own(text: str) -> bool:
    """Whether it begins with somebody or something of the speaker's: 姉が, うちの猫."""
    return _OWN.search(text) is not None


def _is_another_matter(text: str) -> bool:
    """Whether a sentence that names something new tells of it rather than more of what was told right before."""
    if begins_with_ones_own(text):
        return True
    return not points_back(text) and (written_in(text) == "ja" or bool(_ENGLISH_NEW.search(text)))


def _names(text: str) -> set[str]:
    return {entity_key(name) for name in nouns(text, _ANY_DAY)}


def _language(text: str, otherwise: str) -> str:
    if written_in(text) == "ja":
        return "ja"
    return "en" if otherwise in ("", "ja") else otherwise
