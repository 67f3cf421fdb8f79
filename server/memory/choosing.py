"""Which of the memories that were offered an answer means: 両方, 二つ目, デスクトップのほう; the old one.

What is chosen is forgotten, so the whole utterance must be a choice: every word of it either chooses, is in what was
offered, or is politeness around it. 全部食べちゃった or "It's all good" have a word of a choice and are none. Pure, by
the look of the words, Japanese and English. On the side of no: what is not certain is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from server.memory.meant import Thing, covered, request_of
from server.memory.meant_words import all_words, wanted_words
from server.memory.request_words import CHOOSING, DESCRIBING, JOINING
from server.storage.words import hiragana, plain

_NONE = re.compile(
    r"やっぱり?(?:いい|やめ|なし)|やめ(?:て|とく|よう)|忘れないで|(?:消|忘)さ?れ?なくて(?:も)?いい|そのまま|キャンセル"
    r"|(?:どれ|どっち|どちら)(?:でも|も|で)(?:ない|違う|ちがう)|^(?:ううん|いいえ|いや|違う)[、。!]*$"
    r"|(?:両方|全部|どれも|どっちも|どちらも|みんな|すべて|全て)(?:とも)?(?:を|は)?"
    r"(?:覚え(?:て|と)|残(?:して|しと)|とって|取って|とっと|取っと|消さないで|いる|要る|必要|大事|大切)"
    r"|\b(?:never ?mind|none|neither|cancel|(?:keep|remember) (?:it|them|both|all)|don't forget|do not forget"
    r"|leave (?:it|them)|(?:don't|do not) (?:delete|erase|remove) (?:it|them|anything|any|either|both)|both stay)\b"
    r"|^(?:no|nope)[.,! ]*(?:thanks?)?[.! ]*$|\bnot (?:any|either)\b"
)
_KEEPS = re.compile(
    r"以外|だけ(?:は)?(?:残|覚え|とって)|は(?:残|覚えて|とって)|覚え(?:て|と)[いおけてくる]|残し(?:て|と)|(?:と|取)って(?:お|い)|消さ(?:な|ず)|忘れ(?:な|ず|ちゃ(?:だめ|ダメ|いけ))"
    r"|消しちゃ(?:だめ|ダメ|いけ)|まだ|必要|大事|大切|使って"
    r"|\bexcept\b|\bbut\b|\bkeep\b|\bstill\b|\bneed\b|\bremember\b|\b(?:don't|do not|never|won't|can't|cannot)\b"
)
_QUESTION = re.compile(r"[?]\s*$|(?:かな|っけ|かしら|ですか|ますか|だろう|でしょう)[。!]*$")
_TAKEN_FIRST = (
    r"(?:(?:ええ?っ?と|えと|うーん|うん|はい|ええ|あ+|じゃあ?|それじゃあ?|では|ごめん|もう|やっぱり?|それそれ|そう"
    r"|um+|uh|well|oh|ok(?:ay)?|yes|yeah|yep|sure|please|just|then|i mean[t]?|it's(?= the\b)|sorry)[、。,.! ]+"
    r"|(?:please |just |you can )*(?:forget|delete|erase|remove) (?:about )?)*"
)
_REQUEST = (
    r"(?:[をは]|のことは?|の話は?|のことも)?(?:もう)?(?:(?:忘|わす)れ|(?:消|削除|消去)し)(?:て(?:おいて|しまって)?|といて|ちゃって)"
    r"(?:も?(?:いい|大丈夫|構わない|かまわない)|くれ(?:る|ない)?|ください|下さい|ほしい|欲しい|もらって(?:いい|大丈夫)?)?"
)
_TAKEN_LAST = (
    rf"(?:{_REQUEST}|[、 ]?(?:で|を)?(?:お願い|おねがい|頼む|頼みます)(?:します)?|でいい|で大丈夫|だ|です|で|だけ"
    r"|(?:だけ)?ください|[, ]+(?:please|thanks|thank you|then)|(?<=[a-z0-9])(?: can go))?(?:です)?[よねな]*[。、.! ]*"
)
_ANSWER = re.compile(rf"{_TAKEN_FIRST}(?P<core>.+?){_TAKEN_LAST}$")
_ALL = re.compile(
    r"(?:両方|りょうほう|(?:どっち|どちら|どれ|二つ|ふたつ|2つ|三つ|みっつ|3つ)(?:と)?も|全部|ぜんぶ|すべて|全て|みんな)(?:とも)?"
    r"(?:[、 ]*(?:全部|両方))?"
    r"|(?:both|all|everything|each(?: one| of them)|every one"
    r"|(?:both|all)(?: (?:two|three|four|five))?(?: of (?:them|these|those))?"
    r"|all (?:two|three|four|five)|them (?:all|both)|either of them)"
)
_PLACES: tuple[tuple[str, int], ...] = (
    (
        r"(?:一|1|ひと)つ(?:目|め)|(?:一|1)(?:番目|番(?=の|$)|個目|件目)|最初|はじめ|先|上"
        r"|first|(?:number|no\.?) ?(?:one|1)",
        0,
    ),
    (r"(?:二|2|ふた)つ(?:目|め)|(?:二|2)(?:番目?|個目|件目)|下|second|(?:number|no\.?) ?(?:two|2)", 1),
    (r"(?:三|3|みっ)つ(?:目|め)|(?:三|3)(?:番目?|個目|件目)|third|(?:number|no\.?) ?(?:three|3)", 2),
    (r"最後|last", -1),
)
_PLACE = "|".join(pattern for pattern, _ in _PLACES)
_WHICH_ONE = r"(?:の)?(?:ほう|方|やつ|ヤツ|もの|件|話)?(?:の)?"
_BY_PLACE = re.compile(
    rf"(?:the |my |that )?(?:{_PLACE})(?: ones?)?{_WHICH_ONE}"
    rf"(?:(?:と|、| and (?:the )?|, (?:the )?)(?:{_PLACE})(?: ones?)?{_WHICH_ONE})*"
)
_BY_AGE = re.compile(
    rf"(?:(?:一番|いちばん)?(?P<new>新しい|最近)|(?:一番|いちばん)?(?P<old>古い|昔)){_WHICH_ONE}"
    r"|(?:the |my )?(?:(?P<newer>new(?:er|est)?|late(?:r|st)|(?:more|most) recent)"
    r"|(?P<older>old(?:er|est)?|earl(?:y|ier|iest)))"
    r"(?: ones?)?"
)
_YES = re.compile(
    r"^(?:はい|うん|ええ|そう(?:だよ|です)?(?:ね)?|それ(?:で|だよ)?|お願い(?:します)?"
    r"|yes|yeah|yep|sure|that one|ok(?:ay)?)(?:[、。,.! ]*(?:please|お願い(?:します)?|そうだ(?:よ|ね)|それ))?[。.! ]*$"
)
_NOT_THIS = re.compile(
    r"(?P<what>[^、。,.]+?)(?:の)?(?:ほう|方)?(?:じゃ|では)(?:ない|なくて)(?:ほう|方|やつ|もう一つ|もう一方)"
    r"|not (?P<english>[^,.]+)"
)
_KANA_AROUND = re.compile(r"(?:ほう|方|やつ|ヤツ|もの|って|の|と|や|も|、|ん|さん|ちゃん|くん|一番|いちばん|\s)+")
_ANY_DESCRIPTION = re.compile(r"[ぁ-ん]{2,5}い(?=[^ぁ-ん]|やつ|ほう|の)|新しい|古い|最近|昔")
_RELATIVE = re.compile(r"[でがをに]")
_RUN = re.compile(
    r"[一-龯々ヶ]+[ぁ-ん]{0,3}[いたる](?=[^ぁ-ん]|の|やつ|ほう)|[一-龯々ヶ〇]+|[ァ-ヺー]+|[a-z0-9][a-z0-9'.-]*|[ぁ-んー]{2,}"
)


def chosen(answer: str, offered: Sequence[Thing], shown: int | None = None) -> tuple[Thing, ...] | None:
    """Those of `offered`, in the order they were told, that an answer means; none of them when it takes the request
    back; None when it does not say. `shown`: how many of them were told, when it was not all.
    """
    text = plain(answer).strip()
    if not text or not offered:
        return None
    if _NONE.search(text):
        return ()
    if refuses(answer):
        return None
    if len(offered) == 1 and _YES.match(text):
        return tuple(offered)
    match = _ANSWER.match(text)
    core = match["core"].strip(" 、。,.!") if match else ""
    if not core:
        return None
    if denied := _NOT_THIS.fullmatch(core):
        what = denied["what"] or denied["english"]
        others = named(what, offered) if _is_choice(what, offered) else ()
        rest = tuple(one for one in offered if one not in others)
        return rest if others and len(rest) == 1 else None
    if _ALL.fullmatch(core):
        return tuple(offered)
    if _BY_PLACE.fullmatch(core):
        return _by_place(core, offered[:shown]) or _by_words(core, offered)
    if _is_choice(core, offered):
        return _by_words(core, offered) or _by_age(core, offered)
    return None


def refuses(answer: str) -> bool:
    """Whether an answer wants something kept, or asks: whatever a model made of it, nothing is chosen by it."""
    text = plain(answer).strip()
    return bool(_NONE.search(text) or _KEEPS.search(text) or _QUESTION.search(text))


def agrees(answer: str) -> bool:
    """Whether it only says yes: to what, the model knows that asked."""
    return _YES.match(plain(answer).strip()) is not None


def named(answer: str, offered: Sequence[Thing]) -> tuple[Thing, ...]:
    """Those that have the answer's words, where not all have them."""
    return _having(wanted_words(answer), offered)


def _is_choice(core: str, offered: Sequence[Thing]) -> bool:
    """Whether each of its words is in what was offered, or tells nothing by itself."""
    if core.isascii():
        known = frozenset[str]().union(*(one.words for one in offered))
        words = re.findall(r"[a-z0-9][a-z0-9'.-]*", core)
        return all(word in JOINING or all_words(word) & known or word in DESCRIBING for word in words)
    folded = [hiragana(plain(one.text)) for one in offered]
    is_relative = re.search(r"(?:ほう|方|やつ)$", core) is not None
    at = 0
    while at < len(core):
        place = _known_at(core, at, folded)
        for pattern in (_ANY_DESCRIPTION, _KANA_AROUND, *((_RELATIVE,) if is_relative else ())):
            if not place and (found := pattern.match(core, at)):
                place = found.end()
        if not place:
            return False
        at = place
    return True


def _known_at(core: str, at: int, folded: Sequence[str]) -> int:
    """Where the word that begins at `at` ends; 0 when no offered thing has it."""
    found = _RUN.match(core, at)
    if found is None:
        return 0
    # An ear writes みけ, the memory ミケ.
    word = hiragana(found[0])
    for end in range(len(word), 1 if "ぁ" <= word[0] <= "ん" else 0, -1):
        part = word[:end]
        whole = rf"(?<![一-龯々ヶ]){re.escape(part)}" if not "ぁ" <= part[0] <= "ん" else re.escape(part)
        if end < len(word) and not "ぁ" <= word[end] <= "ん":
            continue
        if any(re.search(whole, one) for one in folded):
            return at + end
    return 0


def _by_place(core: str, told: Sequence[Thing]) -> tuple[Thing, ...]:
    places = dict.fromkeys(place for pattern, place in _PLACES if re.search(pattern, core))
    found = [told[place] for place in places if -len(told) <= place < len(told)]
    return tuple(dict.fromkeys(found)) if len(found) == len(places) else ()


def _by_words(core: str, offered: Sequence[Thing]) -> tuple[Thing, ...] | None:
    found = named(core, offered) or _having(all_words(core) - CHOOSING, offered)
    if found:
        return found
    adjectives = re.findall(r"[一-龯々][ぁ-ん]{0,2}い", core)
    described = [one for one in offered if any(word in plain(one.text) for word in adjectives)]
    return tuple(described) if 0 < len(described) < len(offered) else None


def _having(words: Collection[str], offered: Sequence[Thing]) -> tuple[Thing, ...]:
    request = request_of("", tuple(words))
    has = [covered(request, one) for one in offered]
    everywhere = frozenset.intersection(*has) if len(has) > 1 else frozenset()
    telling = [found - everywhere for found in has]
    most = max(map(len, telling))
    return tuple(one for one, found in zip(offered, telling, strict=True) if most and len(found) == most)


def _by_age(core: str, offered: Sequence[Thing]) -> tuple[Thing, ...] | None:
    match = _BY_AGE.fullmatch(core)
    dated = [(one.memory.occurred_at, one) for one in offered if one.memory is not None]
    if match is None or len(dated) < len(offered):
        return None
    dated.sort(key=lambda pair: pair[0])
    return (dated[-1 if match["new"] or match["newer"] else 0][1],)
