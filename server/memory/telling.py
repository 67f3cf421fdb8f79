"""Whether an utterance tells something that may matter later, rather than asks, orders, plays or exclaims.

Pure, by the look of the words, Japanese and English; of other languages only the length tells. What asks is told in
`questions.py`. Knows no conversation: what an answer answers is `bare_answers.py`'s matter.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal

from server.memory.check import is_correction, is_filler, without_greeting
from server.memory.dates import named_days
from server.memory.english_words import VERBS
from server.memory.forget_words import asks_to_forget, parted
from server.memory.nouns import is_said_of, nouns
from server.memory.numbers import quantities
from server.memory.orders import is_order
from server.memory.plain_facts import is_plain_fact
from server.memory.questions import asks, asks_to_remember, sentences, told_like_a_question
from server.memory.supposed_words import FICTION
from server.memory.wishes import only_leads_up
from server.storage.words import plain

_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ÿ]{2,}|\bI\b")
_COMMAND = re.compile(
    r"(?:(?:向い|うなずい|頷い|笑っ|歌っ|止め|とめ|下げ|上げ|つけ|消し|教え|言っ|聞かせ|踊っ|鳴らし|数え|起き|黙っ|見|話し"
    r"|待っ|来|手伝っ|お願いし)(?:て|で)(?:よ|ね|くれ|ください|ちょうだい|ほしい|くれない)?|しよう(?:か|よ|ぜ)?|やろう(?:よ|か)?"
    r"|してね|しなさい|やめて|といて|おねがい|お願い|てもいい|ていい|るなよ)[。!！]?$"
    r"|^(?:(?:please|now|okay|ok|and|hey|hi|stack[\s-]?chan|robot),?\s+)*(?:tell|turn|look|nod|sing|stop|show|play|let's|please|go|come|dance|wait|repeat"
    r"|give me|set|read|say|shake|move|smile|laugh|listen|try|don't tell|be quiet|hurry|keep)\b",
    re.IGNORECASE,
)
_EXCLAMATION = re.compile(
    r"(?:なあ|なぁ|なー|わあ|だねえ|だねぇ)[。!！]*$|^(?:what an?|how)\s+\w+[.!]*$", re.IGNORECASE
)
_LONG_ENOUGH = 16
"""Characters of Japanese: a longer te-form tells a story rather than gives an order."""
_STATEMENT = 8
"""Characters of Japanese: a number in fewer is an answer or a sum."""

PREFERENCE = re.compile(
    r"好き|大好き|嫌い|きらい|苦手|目がない|お気に入り|にかぎる|だめなん|ダメなん|だめなの|に限る|のほうがいい|派なん"
    r"|\b(?:love|loves|hate|hates|can't stand|favou?rite|prefer|prefers|dislikes?|likes?|don't like|doesn't like"
    r"|enjoys?|can't bear|fond of|not a fan)\b",
    re.IGNORECASE,
)
DECISION = re.compile(
    r"ことに(?:した|する|決め|なった|してる|しよう)|と?決め(?:た|て)|決まった|決まり|にしよう|つもり|やめ(?:た|る)ことに|予定にし"
    r"|するって決|に頼むこと"
    r"|\b(?:decided|settled on|we'll|i'll|going to|plan to|planning to|agreed|chose|made up my mind)\b",
    re.IGNORECASE,
)
_ABLE = re.compile(
    r"^(?:私|わたし|あたし|僕|ぼく|俺|おれ|うち)(?:は|も|って).*"
    r"(?:食べら?れ|られ(?=る|ない|ま)|でき|[飲読]め|泳げ|話せ|[乗作走踊]れ|[弾書歩聞]け|[歌使]え|打て|利き|[弱強]い)"
    r"(?:る|ない|ます|ません)?(?:んだ|の|です|だ)?[よね]*[。]?$"
)
"""What somebody can or cannot do: no name is in 私は何でも食べられる."""
_IS_ONE = re.compile(
    r"(?:[左右両]利き|(?:[一-龯]{1,4}|[ァ-ヺー]{2,})(?:師|病|症|員|派|持ち|アレルギー)|アレルギー|ベジタリアン|[ビヴ]ィ?ーガン|菜食主義|下戸"
    r"|妊娠中|独身|既婚|近視|遠視|色弱|喘息|ぜんそく)(?:者|なん|なの|で)?(?:だ|です|なん|なの)*(?:よ|ね)*[。!]*$"
)
"""What somebody is, without who: 左利きなんだ."""
_STATES = re.compile(
    r"(?:た|だ|です|ます|なの|んだ)(?:よ|ね|けど|から)*[。!]*$|から、|ので、|けど、|\b(?:i|i'm|i've|i'll|we|we're|my|our)\b|\b(?:is|was|has)\b"
)
_FOR_AN_ORDER = re.compile(r"(.{4,}?)(?:から|ので|(?<=だ)し|けど)、")
_BESIDE_AN_ORDER = re.compile(
    r"^[^,]+,\s+(?:(?:because|since|but|as)\s+)?(?P<told>(?:I|I['’]m|I['’]ve|my|we|we['’]re|our)\b.+)$", re.IGNORECASE
)
"""Tell me a joke, I'm allergic to nuts. After "and", it is what is to be told or done."""
_TELLING_ENGLISH = re.compile(
    r"\b(?:i|i'm|i've|i'll|i'd|my|we|we're|we've|our|he|he's|she|she's|his|her|they|their|there's|the|a)\b",
    re.IGNORECASE,
)
_SAYS_NOTHING = (
    "i i'm i've i'll i'd my me mine we we're we've us our you your he he's she she's his her him they they're their"
    " them it it's its that that's this these those there there's here the a an is are was were be been am do does"
    " did don't doesn't didn't have has had not no yes and or but so then than as at in on to of for with from by"
    " about just too also really very much more most quite pretty well okay oh ah hmm hi hello hey phew guess think"
    " know mean sure maybe idea say looks look looking forward good great nice bad hard harder thing things lot bit"
    " way day what how all some any yet still though anyway again now later see get got let's can can't will would"
    " could should if when because like home back tired wait talk"
)
_EMPTY_ENGLISH = frozenset(_SAYS_NOTHING.split())


def tells(text: str, on: dt.date, language: str) -> bool:
    """Whether an utterance tells something that may matter later. `language`: ISO 639-1."""
    if is_filler([text]):
        return False
    left = list(sentences(without_greeting(without_request(text))))
    if any(asks_to_remember(sentence) for sentence in left):
        return True
    if len(left) > 1 and FICTION.search(left[-1]) and len(left[-1]) <= _STATEMENT * 3:
        # 百万円だったよ。なんてね。
        return False
    return any(
        _sentence_tells(one, on, language)
        for place, one in enumerate(left)
        if exact(one, on) or not only_leads_up(one, " ".join([*left[:place], *left[place + 1 :]]))
    )


def without_request(text: str) -> str:
    """What is told in `text`, without what is to be forgotten."""
    return parted(text)[1] if asks_to_forget(text) else text


def orders(text: str) -> bool:
    """Whether the robot is told to do something, to forget too, or a game is begun."""
    if _COMMAND.search(_plain(text)) or (is_order(_plain(text)) and not asks_to_remember(text)):
        return True
    return bool(text.strip()) and all(map(asks_to_forget, sentences(text))) and not parted(text)[1]


def was_order(text: str) -> bool:
    """Whether words for which a device or timer was used were no more than the order: 七時にアラーム.

    A model that used it for no reason takes no statement with it.
    """
    words = _plain(text)
    one = len(list(sentences(text))) == 1
    return one and not asks_to_remember(text) and not _STATES.search(words)


def exact(text: str, on: dt.date) -> bool:
    """Whether it names a number, or another day than the one it is said on."""
    return bool(quantities(text)) or any((one.first, one.last) != (on, on) for one in named_days(text, on))


def written_in(text: str) -> Literal["ja", "latin"] | None:
    """The script an utterance is in; None where it is a word or two that fit anywhere."""
    if _JAPANESE.search(text):
        return "ja"
    return "latin" if len(_LATIN_WORD.findall(text)) >= 2 else None


def _sentence_tells(text: str, on: dt.date, language: str) -> bool:
    plain = _plain(text)
    if asks(text) or FICTION.search(plain):
        return False
    if language == "en" and (_COMMAND.search(plain) or is_order(plain)) and (beside := _BESIDE_AN_ORDER.search(text)):
        return _sentence_tells(beside["told"], on, language)
    is_exact = exact(plain, on)
    if is_correction(plain):
        return True
    if is_order(plain):
        # What is said for it may tell: 明日は出張だから、六時に起こして.
        said_for_it = _FOR_AN_ORDER.match(text.strip())
        return said_for_it is not None and _sentence_tells(said_for_it[1], on, language)
    if language == "en":
        if _COMMAND.search(plain):
            return False
        if is_plain_fact(plain):
            return True
        content = [word for word in re.findall(r"[a-z0-9][a-z0-9'-]*", plain) if word not in _EMPTY_ENGLISH]
        # Anna is 12; school starts at eight.
        told = _TELLING_ENGLISH.search(plain) or is_said_of(text.strip())
        if told_like_a_question(text):
            return bool(content)
        dated = is_exact and any(word in VERBS for word in plain.split()[1:3])
        return bool(told or dated) and (len(content) >= 2 or (is_exact and bool(content)))
    if language != "ja":
        return len(plain.split()) >= 4 or len(plain) >= _LONG_ENOUGH
    if _COMMAND.search(plain) and (len(plain) < _LONG_ENOUGH and not is_exact):
        return False
    if PREFERENCE.search(plain) or DECISION.search(plain) or _ABLE.search(plain) or _IS_ONE.search(plain):
        return True
    found = nouns(plain, on)
    # A word alone is an answer or a move in a game.
    bare = len(found) == 1 and len(plain) <= len(found[0]) + 2
    if _EXCLAMATION.search(plain) and not is_exact:
        return False
    return (bool(found) and not bare) or (is_exact and len(plain) >= _STATEMENT)


def _plain(text: str) -> str:
    return plain(text).strip()
