"""Several matters told in one breath, cut apart: "My dentist is on Friday and I bought a red bike" are two.

So that each is a memory of its own, and one can be corrected or forgotten without the other. Pure, by the look of the
words, Japanese and English: two clauses are two matters when they share no word that counts, nothing in the second
points back, and they are of two kinds (an appointment and a purchase), of two people, or are joined as a list. What
may be one story (I went there and I met her) stays together. On the side of one: what is cut wrongly loses what it
was said with. Chosen on sentences written for it; the conversations of tests/data/ingestion hold no such utterance.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import replace

from server.memory.check import opens_topic
from server.memory.content import WEEKDAY, content_words
from server.memory.dates import named_days
from server.memory.english_words import VERBS
from server.memory.nouns import nouns
from server.memory.prompts import Draft
from server.memory.questions import asks, sentences
from server.memory.supposed_words import GOVERNS
from server.memory.telling import PREFERENCE, tells
from server.memory.topic_words import begins_with_ones_own, joins, points_back
from server.memory.whose import persons
from server.storage.words import entity_key, plain, straight

_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_JAPANESE_JOINT = re.compile(
    # What ends, and is listed with what follows; or て, which may also tell what led to what.
    r"(?<=[うくぐすつぬぶむるたいだ])(?:し|けど|けれど|が)、|(?<=[てで])、|(?<=あり)、"
    r"|(?<=[うくぐすつぬぶむるたいだよね])、(?=(?:あと|それと|それから)[、ぁ-んァ-ヺ一-龯])"
)
_LISTED = re.compile(
    r"^(?:あと(?![でにか\d一二三四五六七八九十])|それと|それから)(?:は)?、?(?=\S)"
    r"|^(?:oh,? and|also|and also|plus)\b,?\s*",
    re.IGNORECASE,
)
_TOO = re.compile(r"^[^、。]{0,12}?[一-龯ァ-ヺーa-z]も|\b(?:too|as well|either)\b", re.IGNORECASE)
_ENGLISH_JOINT = re.compile(
    r"(?:,?\s+(?:and|but)\s+|;\s+)(?=(?:also\s+)?(?:(?:I|we)(?:['’]\w+)?|my|our|the user(?:'s)?"
    r"|[A-Z][a-z]+(?:'s)?)\s+\S)",
)
_USER = re.compile(r"\bthe user('s)?(?=\s)|^ユーザー(の|は)", re.IGNORECASE)
"""How a summary calls who speaks."""
_DEFINITE = re.compile(r"^the\b", re.IGNORECASE)
_PAST_ENGLISH = re.compile(
    r"\b(?:(?!need|feed|seed|speed|shed|hundred|indeed|tired)[a-z]{2,}ed|was|were|did|had|bought|went|got|met|sold|saw|found|began|ran|won|lost|made|broke|gave|took|came|left"
    r"|ate|said|told|paid|spent|wrote|caught|put|cut|hurt|fell|flew|drove|built|taught|brought|thought|slept)\b",
    re.IGNORECASE,
)
_PAST_JAPANESE = re.compile(
    r"(?:[たっ]た|[いきしちりみびにぎえけせてねべめれ]た|んだ)(?:よ|の|んだ|ん|です|ね|わ|から|けど)*[。!]*$"
)
_IS_SO_JAPANESE = re.compile(r"[なの]んだ(?:よ|ね)*[。!]*$|[るいうくぐすつぬぶむ]んだ(?:よ|ね)*[。!]*$")
_APPOINTMENT = re.compile(
    r"歯医者|歯科|病院|医者|美容[院室]|床屋|面接|面談|会議|打ち合わせ|健診|検診|健康診断|試験|テスト|予約|締め?切り?|約束|出張"
    r"|車検|説明会|手術|(?:の|な)予定|発表会|飲み会|同窓会|コンサート|ライブ"
)
_BREATH = 300
"""Characters; what is longer is a story, or was pasted, and would take a time that grows with its square."""
_COPULA = re.compile(r"(?:(?<=[一-龯ァ-ヺー])|(?<=好き)|(?<=嫌い))で$")
_UNFINISHED = re.compile(r"(?:[てで]|があり)$")
_THERE_IS = re.compile(r"(?P<of>[がも])(?:あって|あり)$")
_LASTS = (
    (re.compile(r"(?<=[てで])いて$"), "いる"),
    (re.compile(r"(?<=[てで])て$"), "る"),
    (re.compile(r"(?<=[がも])いて$"), "いる"),
    (re.compile(r"くて$"), "い"),
)
"""What lasts is so now, whatever is told next."""
_NOMINAL = re.compile(r"(?:[一-龯ァ-ヺー]|好き|きらい|だ|です)(?:だ|です|なんだ|なの)?(?:よ|ね|わ)*[。!]*$")
"""What it says of something is a noun, or as good as one."""
_LIKED_TOPIC = re.compile(r"^(?![そこあ]れ|[そこあ]こ|[そこあ]の)[^、。はが]{1,12}は")
_OF_ONESELF = re.compile(
    r"^(?:誕生日|趣味|血液型|身長|体重|仕事|職業|好物|住所|出身|実家|特技|持病|靴のサイズ|電話番号)は"
)
_FIRST_PERSON = re.compile(r"^(?:私|わたし|あたし|僕|ぼく|俺|おれ)(?:は|も|が)")


def matters(text: str, on: dt.date) -> tuple[str, ...]:
    """The words of `text`, said on the local day `on`, cut where another matter begins; all of it where none does."""
    found: list[str] = []
    for sentence in sentences(text) if len(text) <= _BREATH else ():
        for place, clause in enumerate(_clauses(sentence)):
            ended = _finished(_unjoined(found[-1]), on) if found else None
            begins = ended is not None and not asks(clause) and _is_another(found[-1], clause, on, within=place > 0)
            if begins and ended is not None:
                found[-1] = ended
                found.append(_begun(clause))
            elif found:
                found[-1] += clause if place else _between(found[-1]) + clause
            else:
                found.append(clause)
    return tuple(found) if len(found) > 1 else (text,)


def is_another(before: str, said: str, on: dt.date) -> bool:
    """Whether what is said in another breath, after `before`, tells of another matter; no when in doubt."""
    return _is_another(before, said, on, within=False) or _is_of_oneself(before, said, on)


def one_matter_each(draft: Draft, on: dt.date) -> Iterator[Draft]:
    """A summary about several matters as one of each: names stay where they are told."""
    parts = matters(draft.summary, on)
    if len(parts) == 1:
        yield draft
        return
    for part in parts:
        ended = part if part[-1:] in "。.!?！？" else part + ("。" if _JAPANESE.search(part) else ".")
        names = tuple(name for name in draft.entities if entity_key(name) in entity_key(part))
        joint = "、" if _JAPANESE.search(part) else ", "
        topic = joint.join((names or nouns(part, on))[:3]) or part[:20]
        yield replace(draft, summary=ended, topic=topic, entities=names)


def _finished(text: str, on: dt.date) -> str | None:
    """A clause as a sentence of its own; None where only what it was joined to tells whether it was or will be."""
    if not _UNFINISHED.search(text):
        return text
    if there_is := _THERE_IS.search(text):
        ahead = any(one.last >= on for one in named_days(text, on))
        return text[: there_is.start()] + (f"{there_is['of']}ある" if ahead else "")
    for pattern, ending in _LASTS:
        if pattern.search(text):
            return pattern.sub(ending, text)
    return _COPULA.sub("だ", text) if _COPULA.search(text) else None


def _between(text: str) -> str:
    return "" if _JAPANESE.search(text[-2:]) else " "


def _clauses(sentence: str) -> Iterator[str]:
    """The clauses of a sentence with what joins them at their ends, that may be matters of their own."""
    if GOVERNS.search(straight(sentence)):
        yield sentence
        return
    joint = _JAPANESE_JOINT if _JAPANESE.search(sentence) else _ENGLISH_JOINT
    start = 0
    for match in joint.finditer(sentence):
        yield sentence[start : match.end()]
        start = match.end()
    yield sentence[start:]


def _begun(clause: str) -> str:
    clause = _LISTED.sub("", clause)
    return clause[:1].upper() + clause[1:] if clause[:1].isascii() else clause


def _is_another(before: str, clause: str, on: dt.date, *, within: bool) -> bool:
    """Whether a clause tells of another matter than what was told before it. `within`: in the same sentence."""
    language = "ja" if _JAPANESE.search(clause) else "en"
    if language != ("ja" if _JAPANESE.search(before) else "en"):
        return False
    mine, theirs = _as_speaker(clause), _as_speaker(_unjoined(before))
    listed = _LISTED.search(mine) is not None
    bare = _LISTED.sub("", mine)
    if not (tells(bare, on, language) and tells(theirs, on, language)):
        return False
    here, there = content_words(bare, on), content_words(theirs, on)
    if not (here and there) or _share(here, there) or (joins(bare) and not listed):
        return False
    of_two = bool(persons(bare)) and bool(persons(theirs)) and not persons(bare) & persons(theirs)
    if opens_topic(mine):
        return True
    if language == "ja":
        return _another_in_japanese(theirs, bare, on, within=within, listed=listed, of_two=of_two)
    return _another_in_english(theirs, bare, of_two=of_two)


def _another_in_japanese(before: str, clause: str, on: dt.date, *, within: bool, listed: bool, of_two: bool) -> bool:
    past, was_past = _is_past(clause), _is_past(before)
    leads_on = within and re.search(r"[てで]$", before) is not None
    if leads_on and _COPULA.search(before) and not _NOMINAL.search(clause):
        # 姉は東京で、弟は大阪に住んでる: without what follows it says something else.
        return False
    if of_two or (_FIRST_PERSON.search(before) and persons(clause)):
        # 姉が来て、弟が喜んだ is one story.
        return not (past and (leads_on or was_past))
    if past == was_past and _TOO.search(clause):
        return False
    if points_back(clause) and not (_FIRST_PERSON.search(clause) or begins_with_ones_own(clause)):
        return False
    if listed:
        return True
    if _FIRST_PERSON.search(clause) and PREFERENCE.search(plain(clause)):
        return not _FIRST_PERSON.search(before) or not PREFERENCE.search(plain(before))
    if begins_with_ones_own(clause) and not leads_on:
        return not (past and was_past)
    if not leads_on and was_past == past:
        return False
    if leads_on:
        return (_is_appointment(before, on) and past) or (_is_appointment(clause, on) and not past)
    return _is_appointment(before if past else clause, on)


def _is_of_oneself(before: str, said: str, on: dt.date) -> bool:
    """カレーは辛口が好きだ, 趣味は釣りだ: は names what is liked, or what the speaker has, and nothing told before."""
    liked = _LIKED_TOPIC.search(said) is not None and PREFERENCE.search(plain(said)) is not None
    if not liked and (_OF_ONESELF.search(said) is None or persons(before)):
        return False
    return not _share(content_words(said, on), content_words(before, on))


def _another_in_english(before: str, clause: str, *, of_two: bool) -> bool:
    if points_back(clause) or _DEFINITE.search(before) or _TOO.search(clause):
        return False
    past, was_past = (_PAST_ENGLISH.search(one) is not None for one in (clause, before))
    if past and was_past:
        return False
    # "I was tired and lost": what has no subject of its own, or no verb, is no statement.
    return of_two or past != was_past or all(_has_verb(one) for one in (clause, before))


def _has_verb(text: str) -> bool:
    words = re.findall(r"[a-z']+", plain(text))
    return any(word in VERBS or word in ("i'm", "i've", "i'll", "we're", "am", "are") for word in words) or (
        bool(words) and words[0] in ("i", "we")
    )


def _is_past(text: str) -> bool:
    bare = text.rstrip("、 ")
    return bool(_PAST_JAPANESE.search(bare)) and not _IS_SO_JAPANESE.search(bare)


def _is_appointment(text: str, on: dt.date) -> bool:
    """Whether something is fixed for a day that is not over."""
    days = named_days(text, on)
    fixed = bool(WEEKDAY.search(text)) or any(one.last >= on for one in days)
    return fixed and _APPOINTMENT.search(text) is not None


def _unjoined(text: str) -> str:
    return re.sub(
        r"(?:(?<=[うくぐすつぬぶむるたいだ])(?:し|けど|けれど|が))?[、,;\s]*$",
        "",
        re.sub(r",?\s+(?:and|but)\s*$", "", text),
    )


def _as_speaker(text: str) -> str:
    """A summary's words as the speaker's own."""
    return _USER.sub(lambda match: "my" if match[1] else "" if match[2] else "I", straight(text)).strip()


def _share(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return any(
        one in other or other in one for one in mine for other in theirs if min(len(one), len(other)) > 1
    ) or bool(mine & theirs)
