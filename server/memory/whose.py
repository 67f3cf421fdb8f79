"""Whose a statement is, by its words: the speaker's own, or another's or a thing's; and whether a question is of it.

Pure. Errs to one side: what may be the speaker's own is; a question that may be about something else is. Knows no
memory and no voice.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from server.memory.content import content_words
from server.memory.nouns import nouns
from server.memory.thing_names import names_of
from server.storage.words import fold, plain, straight

_ANY_DAY = dt.date(2000, 1, 3)
_LIKES = re.compile(r"好き|嫌い|きらい|苦手|食べられ|飲めな|ほしい|欲しい")
_FIRST = re.compile(
    r"私|わたし|あたし|僕|ぼく|俺|おれ|(?<![一-龯])自分|\b(?:i|i'm|i've|i'll|i'd|my|mine|me|myself)\b", re.IGNORECASE
)
_KIN = (
    r"(?<![一-龯])(?:お(?:父|母|兄|姉|じい|ばあ)(?:さん|ちゃん)?|父|母|兄|姉|弟|妹|息子|娘|夫|妻|旦那|主人|嫁|祖父|祖母"
    r"|叔父|叔母|伯父|伯母|甥|姪|孫|いとこ|彼女|彼|パパ|ママ|友達|友人)(?![一-龯])"
)
_NAMED = r"[一-龯々ァ-ヺー]{1,6}(?:さん|くん|ちゃん|先生|君|様)"
_ENGLISH_KIN = (
    r"\b(?:mother|father|mom|mum|dad|sister|brother|son|daughter|wife|husband|uncle|aunt|cousin|nephew|niece|grandma"
    r"|grandpa|grandmother|grandfather|girlfriend|boyfriend|friend|boss|neighbou?r|teacher)(?=s?\b)"
)
_PERSON = re.compile(f"{_KIN}|{_NAMED}|{_ENGLISH_KIN}", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z][a-z]+(?='s\b)|(?<=[a-z,] )[A-Z][a-z]+")
_POSSESSOR = re.compile(r"\b[A-Z][a-z]+(?='s\b)(?!'s (?:a|an|the|not|now|in|on|at|\w+ing|\w+ed)\b)")
_OWNER = re.compile(rf"(?P<who>{_KIN}|{_NAMED})(?:の(?P<what>[一-龯々ァ-ヺーA-Za-z0-9]+)|[はが])")
_SUBJECT = re.compile(
    r"(?P<what>[一-龯々ァ-ヺーA-Za-z0-9]{1,20})(?:は|が(?!好き|大好き|嫌い|苦手|食べ|飲め|できる|ほしい|欲しい))"
)
_ASKED = re.compile(r"(?<=[一-龯々ァ-ヺー])(?=いくら|いつ|いくつ|どこ|何[一-龯])")
"""マウスいくら: where は was left out."""
_SHORT_TOPIC = re.compile(r"(?:^|(?<=[、。のなたいの\s]))(?P<what>(?:[一-龯]+[きしちりみびにい])?[一-龯])(?=は|って)")
"""塾, 飲み会: one kanji, or one behind a verb, which is a thing only where something is asked of it."""
_THAT = re.compile(
    r"\b(?:that|this|those|these)\s+(?P<what>[a-z]{3,})(?=\s+(?:i|we|he|she|they|again)\b|[?.,]|$)", re.IGNORECASE
)
_NO_THING = frozenset("前今次後時日何誰私僕俺君彼人物方名夜朝昼晩年月週")
_HEADS = 2
"""Kanji; a longer word at the end of another is what that is."""
_NO_HEAD = frozenset(
    ["appointment", "price", "time", "date", "day", "name", "number", "colour", "color", "place", "cost", "size", "age"]
)
_HAS = re.compile(r"(?P<owner>[^\s、。,のはがをに]+)(?:の(?=[一-龯々ァ-ヺーa-z])|'s\s+(?=[a-z]))")
_OF = re.compile(r"\bof (?:the |my |our |a |an )?(?P<owner>[a-z][\w-]*)")
_PERSONAL = re.compile(
    r"身長|体重|血液型|誕生日|年齢|[歳才]|番号|住所|給料|趣味|好み|アレルギー|血圧|視力|体温|熱|靴|名前|苗字|名字|持病|薬|今日|昨日|明日"
    r"|\b(?:height|weight|age|birthday|blood type|allerg\w*|passport|phone number|salary|hobby|shoe size)\b",
    re.IGNORECASE,
)


def is_own(text: str) -> bool:
    """Whether a statement may be about nobody but whoever says it: in the first person, or of no subject."""
    words = plain(text)
    if _FIRST.search(words):
        return True
    if persons(text):
        return False
    subjects = [match["what"] for match in _SUBJECT.finditer(words)]
    if subjects:
        return all(_PERSONAL.search(one) for one in subjects)
    if re.search(r"[ぁ-んァ-ヶ一-龯]", words):
        return True
    return bool(_PERSONAL.search(words)) or not content_words(text, _ANY_DAY)


def in_first_person(text: str) -> bool:
    """Whether somebody speaks of himself."""
    return bool(_FIRST.search(plain(text)))


def is_of_self(text: str) -> bool:
    """Whether a statement is about whoever says it, as by its words: 私の, 体重, 好き; not merely of no subject."""
    words = fold(text)
    return in_first_person(text) or (is_own(text) and bool(_PERSONAL.search(words) or _LIKES.search(words)))


def of_another(mine: Sequence[str], theirs: Sequence[str], *texts: str) -> bool:
    """Whether two known people said it, and one of these statements may be about nobody but its speaker."""
    return apart(mine, theirs) and any(map(is_own, texts))


def apart(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether two statements are of known people, and nobody said both. Where nobody is known, all are one."""
    return bool(mine and theirs) and not {*mine} & {*theirs}


def asks_about(question: str, statement: str) -> bool:
    """Whether what `question` names is what `statement` is about; also when it names nothing.

    A thing has many names (パソコン, デスクトップ): those in `thing_names.py` are one. Where it names what a thing is
    of, that must be told of too: the cat's weight is not the dog's.
    """
    told = fold(statement)
    if any(one not in told for one in persons(question)):
        return False
    asked = [fold(one) for one in things_asked(question)]
    if asked and not any(_shared(one, told) for one in asked):
        return False
    if any(not _shared(one, told) for one in _owners(question, asked)):
        return False
    if (asked or in_first_person(question)) and not persons(question):
        for owned in _OWNER.finditer(told):
            # 誕生日 is not 姉の誕生日.
            if owned["who"] not in fold(question) and (not owned["what"] or _shared(owned["what"], fold(question))):
                return False
    return True


def _owners(question: str, asked: Sequence[str]) -> list[str]:
    """The things of which another thing is asked for: 猫 of 猫の体重, cat of the cat's weight."""
    words = fold(question)
    found = {match["owner"] for pattern in (_HAS, _OF) for match in pattern.finditer(words)}
    named = {word for one in asked for word in re.split(r"[\s']", one)}
    return [one for one in named if any(owner == one or owner.endswith(f"の{one}") for owner in found)]


def things_asked(question: str) -> tuple[str, ...]:
    """What a question names, as it stands there."""
    found = [one for one in nouns(_ASKED.sub("は", question), _ANY_DAY) if not one.startswith("何")]
    short = [match["what"] for match in _SHORT_TOPIC.finditer(_ASKED.sub("は", question))]
    short += [
        match["what"] for match in _THAT.finditer(question) if match["what"] not in ("one", "thing", "time", "day")
    ]
    return tuple(found + [one for one in short if one not in found and one not in _NO_THING])


def same_people(one: str, other: str) -> bool:
    """Whether no statement names people of whom the other names none while it names its own."""
    mine, theirs = persons(one, _POSSESSOR), persons(other, _POSSESSOR)
    return not mine or not theirs or bool(mine & theirs)


def persons(text: str, names: re.Pattern[str] = _NAME) -> set[str]:
    """Other people than the speaker who are named, folded."""
    written = straight(text)
    found = {fold(match[0]) for match in _PERSON.finditer(fold(written))}
    return found | {fold(match[0]) for match in names.finditer(written)}


def _shared(name: str, text: str) -> bool:
    """Whether a thing, by its name, the head of that, or another word for it, is in a text (both folded)."""
    words = [one for one in re.split(r"[\s・の]+", name.removesuffix("'s")) if one] or [name]
    while len(words) > 1 and words[-1] in _NO_HEAD:
        words.pop()
    return any(_stands_in(word, text) for thing in (name, words[-1]) for word in names_of(thing))


def _stands_in(word: str, text: str) -> bool:
    """Whether it is there as a word, or as the head of a longer one: 自転車 is in 電動自転車, 車 in neither."""
    if word.isascii():
        return re.search(rf"(?<![\w-]){re.escape(word)}(?:s|es|'s)?(?![\w-])", text) is not None
    script = "ァ-ヺー" if re.search(r"[ァ-ヺー]$", word) else "一-龯々"
    if script == "ァ-ヺー":
        before = f"(?<![{script}])"
    elif len(word) > _HEADS:
        before = ""
    else:
        # 会 is none of 飲み会, but 車 is 赤い車.
        before = "(?<![一-龯々ァ-ヺー])(?<![一-龯々][きしちにひみりえけげせてねべめれ])"
    return re.search(f"{before}{re.escape(word)}(?![{script}])", text) is not None
