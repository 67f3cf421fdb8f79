"""The words of a question as the word index should look for them: without words that only ask, in every English form.

The index holds words as they were said. A question's "did" and "about" would score everywhere, and its "realize" would
miss "realized"; both cost recall (LoCoMo, 1,000 tokens: 4.5 and 1-3 points). Pure; knows no index and no ranking.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata

from server.memory.nouns import nouns
from server.memory.request_words import LIGHT_ENGLISH, LIGHT_JAPANESE

_ASKING = (
    "a an the is are was were be been being am do does did done have has had i you he she it we they me him her us them"
    " my your his its our their this that these those what when where who whom whose which why how of to in on at for"
    " from by with about as and or not no if then so than too very can could will would shall should may might must"
    " just there here s t ll re ve d m don didn isn wasn"
)
ASKING = frozenset(_ASKING.split())
"""English words that carry a sentence and tell nothing; with what NFKC and the index leave of 's and 'll."""

_PLAIN_WORD = re.compile(r"(?<![A-Za-z0-9])[a-z]{3,}(?![A-Za-z0-9])")
"""Names and types (Caroline, RTX) have no forms."""
_ENGLISH_WORD = re.compile(r"(?<![A-Za-z0-9'’])[A-Za-z]+(?:['’][a-z]+)?(?![A-Za-z0-9])")
_TALK = (
    "much many tell told know knew remember forget like think want need get got give say said talk talked thing things"
    " please good well yes okay hello thanks again really"
)
_OF_TALK = frozenset(_TALK.split())
"""What every conversation is full of; in a search they rank low by themselves."""
_JAPANESE_WORD = re.compile("[\u30a1-\u30fa\u30fc]{2,}|[\u3005\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_TELLING_LIMIT = 32
_POINTS_BACK = re.compile(
    r"それ|そこ|その(?!うち)|そっち|そいつ|あれ(?![、。!?])|あの(?=[一-龯ァ-ヺ])|あそこ|あいつ|こいつ|彼(?!岸)"
    r"|\b(?:it|its|he|she|they|him|hers?|his|them|theirs?|this one|that one)\b|\b(?:that|there|those)\W*$",
    re.IGNORECASE,
)
_ASKED_OF_ANYTHING = (
    "colour color colours colors size age height weight job called sort kind type happened happen live lives end start"
    " began begin cheap expensive far long heavy tall 何色 何歳 何時 何日 何曜日 何円 何個 何人 何匹 何番 何年 何月"
    " 何回 何階 何処 色 年齢 仕事 大きさ 住所 曜日 理由 種類"
)
_OF_ANYTHING = frozenset(_ASKED_OF_ANYTHING.split())
_ANY_DAY = dt.date(2000, 1, 3)
_ENDINGS = (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))
_SHORTEST_STEM = 3
_FORMS_LIMIT = 6
"""The most content words that are written in all forms: an index takes 64 words a question."""


def search_text(question: str) -> str:
    """What to search for instead of `question`; unchanged when nothing but asking words would go.

    Japanese stays as it is: the index itself leaves out what only carries the sentence.
    """
    text = unicodedata.normalize("NFKC", question)
    telling = " ".join(_ENGLISH_WORD.sub(_without_asking, text).split())
    if not any(character.isalnum() for character in telling):
        return question
    words = list(dict.fromkeys(_PLAIN_WORD.findall(telling)))[:_FORMS_LIMIT]
    added = [form for word in words for form in forms(word) if form != word]
    return " ".join([telling, *added])


def telling_words(text: str) -> tuple[str, ...]:
    """What is talked about, as far as one sees it without a model: kanji, katakana and Latin words in all their forms.

    Single characters, hiragana and asking words tell nothing. At most 32, in order.
    """
    text = unicodedata.normalize("NFKC", text)
    found = _JAPANESE_WORD.findall(text)
    latin = [word.lower() for word in _ENGLISH_WORD.findall(text) if len(word) >= _SHORTEST_STEM]
    found += [form for word in latin if word not in ASKING | _OF_TALK for form in forms(word)]
    return tuple(dict.fromkeys(found))[:_TELLING_LIMIT]


def needs_what_was_said(question: str) -> bool:
    """Whether a question says only with what was said before it what it is about: 名前は？, where does he live?

    It points back, with nothing named before in itself, or names nothing but what is asked of it.
    """
    text = unicodedata.normalize("NFKC", question).replace("’", "'")
    if match := _POINTS_BACK.search(text):
        return not nouns(text[: match.start()], _ANY_DAY)
    words = {word.lower() for word in _ENGLISH_WORD.findall(text) if len(word) >= _SHORTEST_STEM} - ASKING - _OF_TALK
    named = words | {word.casefold() for word in (*_JAPANESE_WORD.findall(text), *nouns(text, _ANY_DAY))}
    return not named - LIGHT_JAPANESE - LIGHT_ENGLISH - _OF_ANYTHING


def forms(word: str) -> list[str]:
    """An English word and the forms it may be said in, some of which do not exist: realize, realized, realizing."""
    word = word.lower()
    if not (word.isascii() and word.isalpha() and len(word) >= _SHORTEST_STEM):
        return [word]
    stem = _stem(word)
    found = [word, stem, *(stem + ending for ending in ("e", "s", "es", "ed", "ing", "er"))]
    if stem.endswith("y"):
        found += [stem[:-1] + "ies", stem[:-1] + "ied"]
    elif stem[-1] not in "aeiouswxy":
        found += [stem + stem[-1] + "ed", stem + stem[-1] + "ing"]
    return list(dict.fromkeys(found))


def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending) + instead
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "aeious":
        word = word[:-1]
    return word[:-1] if len(word) > _SHORTEST_STEM and word.endswith("e") else word


def _without_asking(match: re.Match[str]) -> str:
    head, _, rest = match[0].replace("’", "'").partition("'")
    if head.lower() in ASKING:
        return " "
    return f"{head} " if rest else head
