"""What a request to forget names, and what a memory is about: its things, owners, and what tells it from others.

Pure, by the look of the words, Japanese and English. `meant.py` compares with it. Knows no memory and no similarity.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator

from server.memory.content import without_denied
from server.memory.english_words import HEADS, NO_THING
from server.memory.forget_words import without_kept
from server.memory.nouns import is_said_of, nouns
from server.memory.numbers import quantities
from server.memory.question_words import ASKING, forms
from server.memory.request_words import (
    LIGHT_ENGLISH,
    LIGHT_JAPANESE,
    LIGHT_KANA,
    NAMED_LIGHT,
    NO_OWNER,
    OF_REQUESTS,
    PETS,
    POINTING,
)
from server.storage.words import fold, hiragana, plain, straight

_ANY_DAY = dt.date(2000, 1, 3)
_KANJI, _KATAKANA = "一-龯々ヶ", "ァ-ヺー"
_RUN = re.compile(
    # 引っ越し, 買い物, 飲み会: kana within a word, and not a particle between two.
    rf"(?P<mixed>[{_KANJI}]+(?:[いきしちみりぎじびえけせねべめれげ]っ?|っ)[{_KANJI}]+)"
    rf"|(?P<run>[{_KANJI}]{{2,}}|[{_KATAKANA}]{{2,}})|(?P<other>[a-z0-9](?:[a-z0-9'.-]*[a-z0-9])?)"
)
_JAPANESE_REQUEST = re.compile(
    r"(?:(?:忘|わす|ワス)れ|覚え(?:て|な|と)|(?:消|削除|抹消|消去)(?:し|せ|す|$)|(?:な|無)かったことに|なしにして|記憶から)[^、。]*"
)
_LIGHT_PHRASE = re.compile(
    r"(?:もう|全部|ぜんぶ|すべて|全て|みんな|さっき|今|いま|先|この前|この間|こないだ|いつか|前に?言った|言ってた|話した|教えた)+"
    r"|(?:その|この|あの|それ|これ|あれ|そっち|こっち|お願い|ねえ|ごめん|やっぱり?|ちょっと|ちょい)|(?:の|に関する|についての?)?"
    rf"(?<![{_KANJI}])(?:話|こと|事|件|やつ|もの|記憶|記録|情報|データ|メモ|内容|履歴|思い出)(?=$|[はをもについ、。])"
)
_PIECES = re.compile(r"[のはをがもと、。,.!?!?\s]|って|から|けど|ので|だよ|だね")
_EVERYTHING = re.compile(
    r"全部|ぜんぶ|すべて|全て|何もかも|一切|みんな|\beverything\b|\ball (?:of|about|the|my|that)\b|\bevery\b"
)
_KIN = (
    "お?(?:父|母|兄|姉)さん|お(?:とう|かあ|にい|ねえ|じい|ばあ|爺|婆|じ|ば)(?:さん|ちゃん)|父親?|母親?|兄貴?|姉|弟|妹|夫|妻|嫁|旦那|主人|娘|息子|祖父|祖母"
    "|孫|両親|叔父|叔母|伯父|伯母|従兄弟|友達|友人|同僚|上司|部下|先輩|後輩|隣|近所|彼氏|彼女|大家"
)
_JAPANESE_OWNER = re.compile(
    rf"(?P<who>{_KIN}|[{_KANJI}{_KATAKANA}]{{1,8}}(?=さん|ちゃん|くん|君|様|先生|部長|課長|先輩))"
    r"(?:さん|ちゃん|くん|君|様|先生|部長|課長|先輩)?(?=の|が|は|も|って)"
)
_KIN_ENGLISH = "|".join(sorted({*HEADS, "neighbour", "neighbor", "mate", "kid", "son", "parents", "coworker"}))
_ENGLISH_OWNER = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir|[Tt]he|[Aa])\s+(?P<kin>(?:{_KIN_ENGLISH}))s?(?:'s?\b|(?=\s+[a-z]))"
    r"|\b(?P<name>[A-Z][\w-]+)'s(?=\s+\w)"
)
_SELF_JAPANESE = re.compile(r"(?:私|僕|俺|わたし|ぼく|おれ|自分|うち|我が家|あたし)の?$")
_ADJECTIVE = re.compile(rf"(?:[{_KANJI}][ぁ-ん]{{0,2}}い|[{_KANJI}]な|前の|次の|昔の)$")
_NOT_DESCRIBING = (LIGHT_JAPANESE | LIGHT_KANA | {"そ", "こ", "あ", "ど", "例", "この前", "我が家"}) - {"前", "次"}
_NO_WORDS = ASKING | {"i'm", "i've", "i'd"}
_STOPS = ASKING | NO_THING | frozenset(("my", "our", "your", "and", "is", "was"))


def _key(word: str) -> str:
    """As words are compared: English without its ending, kana of one kind."""
    if word.isascii():
        word = re.sub(r"'s?$", "", word)
        stem = next(iter(forms(word)[1:]), word)
        # The second form is the stem where there is an ending, else made up.
        return stem if word.startswith(stem) or word.endswith("ies") else word
    return hiragana(word)


def things(text: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Words that tell what `text` is about, in order, as keys to compare; no words of every talk.

    `names`: names and things known to be in it.
    """
    found = [*_words(text), *(part for name in names for part in _words(name))]
    telling = [word for word in found if word not in LIGHT_JAPANESE | LIGHT_ENGLISH and not _COUNTED.fullmatch(word)]
    return tuple(dict.fromkeys(map(_key, telling)))


def all_words(text: str) -> frozenset[str]:
    """Every word, the light ones too, as keys."""
    return frozenset(map(_key, _words(text)))


def _words(text: str) -> list[str]:
    found: list[str] = []
    for match in _RUN.finditer(plain(text)):
        word = match[0]
        if match.lastgroup != "other" or re.sub(r"'s?$", "", word) not in _NO_WORDS:
            found.append(word)
    # Single kanji are words only where they stand as nouns do.
    found += [fold(word) for word in nouns(text, _ANY_DAY) if not fold(word).isascii()]
    return found


def wanted_words(request: str) -> tuple[str, ...]:
    """What a request to forget names, in order, as keys; nothing when it only points (それ忘れて, forget that)."""
    return tuple(dict.fromkeys(map(_key, _wanted(request))))


def wanted_phrase(request: str) -> str:
    """The same as it was said, to search for."""
    japanese = _is_japanese(plain(request))
    return ("、" if japanese else " ").join(dict.fromkeys(_wanted(request)))


def _wanted(request: str) -> list[str]:
    text = _asked(request)
    if _is_japanese(text):
        return _wanted_japanese(text)
    found = [word for word in _words(text) if word not in OF_REQUESTS]
    head = _head_english(text)
    heavy = [word for word in found if word not in LIGHT_ENGLISH or word == head]
    return heavy or [word for word in found if word not in POINTING]


def _asked(request: str) -> str:
    return _DENIED_AFTER.sub("", plain(without_denied(without_kept(request))))


def head_word(request: str) -> str | None:
    """What of all that a request names is to be forgotten, as a key: 「AのB」's B, "X's Y"'s Y, else the last."""
    wanted = wanted_words(request)
    text = _asked(request)
    head = None if _is_japanese(text) else _head_english(text)
    return _key(head) if head is not None and _key(head) in wanted else next(reversed(wanted), None)


def people(request: str, wanted: Iterable[str]) -> frozenset[str]:
    """Those of the wanted words that say whose it is, or who."""
    named = owners(without_kept(request))
    return frozenset(
        word
        for word in wanted
        if word in _TITLES
        or re.fullmatch(_KIN, word)
        or re.fullmatch(rf"(?:{_KIN_ENGLISH})s?", word)
        or any(word == who or (not who.isascii() and word.startswith(who)) for who in named)
    )


def _head_english(text: str) -> str | None:
    """The thing of somebody or of something, light words too: my son's name, the color of the car."""
    if found := list(_OF_SOMEBODY.finditer(text)):
        phrase = found[-1]["what"].split()
    elif match := _OF_SOMETHING.search(text):
        phrase = [match["what"]]
    else:
        return None
    telling = [word for word in phrase if word not in OF_REQUESTS and word not in POINTING]
    # Those are compared by `lacks_what_is_asked`.
    return telling[-1] if telling and not (_PRICE.search(telling[-1]) or _NUMBER.search(telling[-1])) else None


def _is_japanese(text: str) -> bool:
    return re.search(rf"[ぁ-ん{_KANJI}{_KATAKANA}]", text) is not None


def lacks_what_is_asked(request: str, text: str) -> bool:
    """Whether only one value of something is asked for, its price or number, and `text` tells none."""
    asked = plain(request)
    told = quantities(text)
    if _PRICE.search(asked):
        return not (_PRICE.search(plain(text)) or any(one.unit in _MONEY for one in told))
    return bool(_NUMBER.search(asked)) and not (_NUMBER.search(plain(text)) or re.search(r"\d", plain(text)))


def asks_for_a_value(request: str) -> bool:
    """Whether a price or a number is asked for."""
    asked = plain(request)
    return bool(_PRICE.search(asked) or _NUMBER.search(asked))


def tells_the_value(request: str, text: str) -> bool:
    """Whether `text` tells a number or price by the word that was asked for, and of what is not said."""
    word = _PRICE.search(plain(request)) or _NUMBER.search(plain(request))
    if word is None or lacks_what_is_asked(request, text):
        return False
    key = _key(word[0])
    return key in map(_key, re.findall(rf"[{_KANJI}]+|[a-z]+", plain(text))) and not described(text, key)[0]


_PRICE = re.compile(r"値段|価格|金額|いくら|代金|料金|\b(?:price|cost|costs|paid)\b")
_NUMBER = re.compile(r"番号|暗証|パスワード|\b(?:number|code|pin|password)\b")
_MONEY = frozenset(("円", "ドル", "ユーロ", "ポンド"))
_EXCEPT = re.compile(
    r"以外|を?除いて|を?のぞいて|だけは?(?:忘れないで|覚えて|残し)"
    r"|\bexcept\b|\bbut not\b|\bother than\b|\bapart from\b"
)
_DENIED_AFTER = re.compile(
    r"[、,]?[^、。,.]*(?:じゃ|では)なくて?[。]?$|,? (?:and |but )?not (?:the |my |about )*[\w' -]+[.!]?$"
)
_ENDS_PHRASE = (
    "about|at|in|on|with|when|that|which|who|and|or|but|from|for|to|of|is|was|has|had|please|now|ever|again|anymore"
)
_OF_SOMEBODY = re.compile(rf"\b\w+(?:'s|s')(?P<what>(?: (?!(?:{_ENDS_PHRASE})\b)[\w-]+)+)")
_OF_SOMETHING = re.compile(r"\b(?P<what>[a-z][\w-]*) of (?:the|my|our|his|her|their|[a-z]+'s)\b")
_TITLES = frozenset(("先生", "部長", "課長", "先輩", "社長", "店長"))
_OWNED = re.compile(rf"(?:[{_KANJI}{_KATAKANA}a-z0-9]|さん|ちゃん|くん|さま|たち)の(?P<what>[^、。]+)$")
_MIXED_NOUN = re.compile(rf"[{_KANJI}]{{1,3}}[ぁ-んー]{{2,}}[{_KANJI}]{{0,2}}(?<![ただるいてうくねよ])")
_KANJI_WORD = re.compile(rf"[{_KANJI}]").fullmatch
_OF_NOTHING = frozenset("話事件方者々")
_NAMES_NOTHING = _OF_NOTHING | frozenset("人物前後今次上下中私僕俺時所")
_ENDINGS = _NAMES_NOTHING | frozenset("君様氏達社家的用目代型版風号業員園院学校部課会店屋先性費券駅市町村県区")
_AFTER_A_NOUN = r"(?=[がをはにのでもとへやかだねよ、。,.!?\s]|って|だけ|から|まで|さん|$)"
_COUNTED = re.compile(r"[\d.,〇一二三四五六七八九十百千万億]+[円人日月年時分個匹頭羽台冊本回歳才杯枚度目階番間週つ]*")
_OWN = re.compile(r"(?:私|僕|俺|わたし|ぼく|おれ|自分|うち|あたし)(?:たち|ら)?の|\b(?:my|our)\b")
_POINTS = re.compile(
    r"それ|その|そん|これ|この|あれ|あの|今の|いまの|さっき|先ほど|今言った"
    r"|\b(?:that|this|it|those|these|them)\b|\bwhat (?:i|we) (?:just )?(?:said|told|talked)"
)


def excepts(request: str) -> bool:
    """Whether it tells what is not to be forgotten."""
    return _EXCEPT.search(plain(request)) is not None


def of_ones_own(request: str) -> bool:
    """Whether who asks says that it is their own: 僕の, my."""
    return _OWN.search(plain(request)) is not None


def points(request: str) -> bool:
    """Whether it points at what was said or shown."""
    return _POINTS.search(plain(request)) is not None


def _wanted_japanese(text: str) -> list[str]:
    # What stands after the request verb is no name of a thing: 忘れてほしいんだけど.
    sentences = [_JAPANESE_REQUEST.sub("", part) for part in re.split(r"[。.!?!?]", text)]
    text = "、".join(_LIGHT_PHRASE.sub("、", part) for part in sentences)
    found: list[tuple[int, str]] = []
    for word in _words(text):
        if word not in OF_REQUESTS:
            found.append((text.find(word), word))
    at = 0
    for piece in _PIECES.split(text):
        piece = re.sub(r"(?:さん|ちゃん|くん|さま)$", "", piece.strip())
        if re.fullmatch(r"[ぁ-んー]{2,}", piece) and piece not in LIGHT_KANA:
            found.append((text.find(piece, at), piece))
    owned: set[str] = set()
    for start, head in _owned_japanese(text):
        inside = [word for place, word in found if start <= place and re.search(r"[^ぁ-んー]", word) and word in head]
        if not inside:
            found = [(place, word) for place, word in found if not (start <= place < start + len(head))]
            found.append((start, head))
        # Those are compared by `lacks_what_is_asked`.
        owned |= {word for word in inside or [head] if not (_PRICE.search(word) or _NUMBER.search(word))}
    ordered = [word for _, word in sorted(found)]
    heavy = [word for word in ordered if word not in LIGHT_JAPANESE | LIGHT_KANA or word in owned]
    return heavy or [word for word in ordered if word in NAMED_LIGHT]


def _owned_japanese(text: str) -> Iterator[tuple[int, str]]:
    """What of somebody or of something is named, and nouns of kanji with kana, with where they begin: 水ぼうそう."""
    for phrase in re.finditer(r"[^、。]+", text):
        match = _OWNED.search(phrase[0])
        start = phrase.start() + (match.start("what") if match else 0)
        what = match["what"] if match else phrase[0]
        while nested := re.search(rf"(?<=[{_KANJI}{_KATAKANA}a-z0-9])の(?=.)", what):
            start, what = start + nested.end(), what[nested.end() :]
        bare = re.sub(r"(?:って|について|に関して|[はをもがとねに])+$", "", what)
        bare = next((part for part in re.split(r"[をにがで]", bare)[:1] if len(part) > 1 or _KANJI_WORD(part)), bare)
        if _KANJI_WORD(bare):
            # One kanji is a word where it stands alone: パソコンの箱.
            if bare not in (_OF_NOTHING if match else _NAMES_NOTHING):
                yield start, bare
        elif (match is not None or _MIXED_NOUN.fullmatch(bare)) and len(bare) > 1 and bare not in LIGHT_KANA:
            yield start, bare


def wants_everything(request: str) -> bool:
    """Whether all that there is of it is meant."""
    return _EVERYTHING.search(plain(request)) is not None


def is_a_word(part: str) -> bool:
    """Whether a part of a compound can be what is meant: 旅行 of 沖縄旅行, 箱 of パソコン箱, not 君."""
    return len(part) > 1 or (_KANJI_WORD(part) is not None and part not in _ENDINGS)


def mentions(word: str, text: str, words: Collection[str]) -> bool:
    """Whether `text`, of which `words` are `all_words`, has a wanted word. Parts of other words do not count."""
    if word in words:
        return True
    if word.isascii():
        return False
    bare = re.sub(r"(?<=[一-龯々])[ぁ-ん]+$", "", word)
    folded = plain(text)
    if _KANJI_WORD(word):
        return re.search(rf"(?:(?<![{_KANJI}])|(?<=[日朝晩夜今年])){bare}{_AFTER_A_NOUN}", folded) is not None
    if len(bare) < 2:
        return len(word) > 2 and word in hiragana(folded)
    if re.search(rf"[{_KANJI}]", bare):
        return bare in hiragana(folded)
    runs = [hiragana(run) for run in re.findall(rf"[{_KATAKANA}]+", folded)]
    return any(run == bare or (len(bare) > 3 and bare in run) for run in runs) or (
        re.search(
            rf"(?:(?<![ぁ-ん])|(?<=[でにをはがのとも])){re.escape(bare)}(?=[はがをのもとにでへ、。]|さん|ちゃん|くん|って|$)",
            folded,
        )
        is not None
    )


def owners(text: str) -> frozenset[str]:
    """Other people than who speaks, of whose things or doings `text` tells."""
    written = straight(text)
    found = {_kin(match["who"]) for match in _JAPANESE_OWNER.finditer(written)}
    for match in _ENGLISH_OWNER.finditer(written):
        who = (match["kin"] or match["name"]).casefold()
        if who not in NO_OWNER and (match["kin"] is None or who not in PETS):
            found.add(_key(who))
    if written[:1].isascii() and is_said_of(written):
        found.add(_key(written.split()[0].casefold()))
    return frozenset(found)


def _kin(who: str) -> str:
    bare = re.sub(r"^お(?=[父母兄姉爺婆])|さん$|ちゃん$", "", who)
    kana = {"おとう": "父", "おかあ": "母", "おにい": "兄", "おねえ": "姉"}
    return hiragana(kana.get(bare, bare))


def described(text: str, word: str) -> tuple[frozenset[str], bool]:
    """What stands right before `word` and tells it from others of its kind, and whether it is said to be one's own.

    富士通のパソコン, my old car.
    """
    folded = plain(text)
    if word.isascii():
        return _described_english(folded, word)
    at = hiragana(folded).find(word)
    if at < 0:
        return frozenset(), False
    before = re.split(r"[\s、。,.!?!?をはがにでへ]", folded[:at])[-1]
    own = _SELF_JAPANESE.search(before) is not None
    found: set[str] = set()
    if before.endswith("の"):
        found |= {_key(part) for part in before.split("の") if part and part not in _NOT_DESCRIBING}
    elif adjective := _ADJECTIVE.search(before):
        found.add(adjective[0])
    elif run := re.search(rf"(?:[{_KANJI}]+|[{_KATAKANA}]+)$", before):
        found |= {_key(run[0])} - _NOT_DESCRIBING
    return frozenset(found), own


def _described_english(text: str, word: str) -> tuple[frozenset[str], bool]:
    spoken = re.findall(r"[a-z0-9][a-z0-9'-]*", text)
    for place, one in enumerate(spoken):
        if _key(one) != word:
            continue
        found: set[str] = set()
        for before in reversed(spoken[max(0, place - 3) : place]):
            if before in ("my", "our"):
                return frozenset(found), True
            if before in _STOPS:
                break
            found.add(_key(before))
        return frozenset(found), False
    return frozenset(), False


def to_search(query: str, words: str) -> tuple[str, ...]:
    """What to search for: the model's words, and what the user's name, each as bare as it goes."""
    said, asked = wanted_phrase(words), wanted_phrase(query) or query
    return (asked,) if not said or said == asked else (asked, said)
