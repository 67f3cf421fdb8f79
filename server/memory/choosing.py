"""Which of the memories that were offered an answer means: 両方, 二つ目, デスクトップのほう; the old one.

Pure, by the look of the words, Japanese and English. On the side of no: what is not certain is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from server.memory.meant import Thing, covered, request_of
from server.memory.meant_words import all_words, wanted_words
from server.memory.request_words import CHOOSING
from server.storage.words import plain

_NONE = re.compile(
    r"やっぱり?(?:いい|やめ|なし)|やめ(?:て|とく|よう)|忘れないで|(?:消|忘)さ?れ?なくて(?:も)?いい|そのまま|キャンセル"
    r"|(?:どれ|どっち|どちら)(?:でも|も|で)(?:ない|違う|ちがう)|^(?:ううん|いいえ|いや|違う)[、。!]*$"
    r"|\b(?:never ?mind|none|neither|cancel|keep (?:it|them|both|all)|don't forget|do not forget|leave (?:it|them))\b"
    r"|^(?:no|nope)[.,! ]*(?:thanks?)?[.! ]*$|\bnot (?:any|either)\b"
)
_ALL = re.compile(
    r"両方|りょうほう|(?:どっち|どちら|どれ|二つ|ふたつ|2つ|三つ|みっつ|3つ)(?:と)?も|全部|ぜんぶ|すべて|全て|みんな"
    r"|\bboth\b|\ball\b|\beverything\b|\beach (?:one|of them)\b|\beither of\b|\bevery one\b"
)
_SPARE = re.compile(r"以外|だけ(?:は)?(?:残|覚え|とって)|は(?:残|覚えて|とって)|\bexcept\b|\bbut not\b|\bkeep the\b")
_PLACES: tuple[tuple[str, int], ...] = (
    (
        r"(?:一|1|ひと)つ(?:目|め)|(?:一|1)(?:番(?:目|の|$)|個目|件目)|最初|はじめの|先のほう|上の"
        r"|\bfirst\b|\b(?:number|no\.?) ?(?:one|1)\b",
        0,
    ),
    (r"(?:二|2|ふた)つ(?:目|め)|(?:二|2)(?:番目?|個目|件目)|下の|\bsecond\b|\b(?:number|no\.?) ?(?:two|2)\b", 1),
    (r"(?:三|3|みっ)つ(?:目|め)|(?:三|3)(?:番目?|個目|件目)|\bthird\b|\b(?:number|no\.?) ?(?:three|3)\b", 2),
    (r"最後|\blast\b", -1),
)
_NEWEST = re.compile(r"新しい|最近の|\bnew(?:er|est)?\b|\blate(?:r|st)\b|\b(?:more|most) recent\b")
_OLDEST = re.compile(r"古い|昔の|\bold(?:er|est)?\b|\bearl(?:y|ier|iest)\b")
_YES = re.compile(
    r"^(?:はい|うん|ええ|そう(?:だよ|です)?|それ(?:で|だよ)?|お願い(?:します)?"
    r"|yes|yeah|yep|sure|that one|ok(?:ay)?)[、。,.! ]*(?:please|お願い(?:します)?)?[。.! ]*$"
)
_NOT_THIS = re.compile(
    r"(?P<what>[^、。,.]+?)(?:の)?(?:ほう|方)?(?:じゃ|では)(?:ない|なくて)(?:ほう|方|もう一つ|もう一方)"
    r"|\bnot (?:the )?(?P<english>[^,.]+)"
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
    if _SPARE.search(text):
        return None
    if match := _NOT_THIS.search(text):
        denied = named(match["what"] or match["english"], offered)
        rest = tuple(one for one in offered if one not in denied)
        return rest if denied and len(rest) == 1 else None
    if by_name := named(answer, offered):
        return by_name
    if _ALL.search(text):
        return tuple(offered)
    places = dict.fromkeys(place for pattern, place in _PLACES if re.search(pattern, text))
    told = offered[:shown]
    if found := [told[place] for place in places if -len(told) <= place < len(told)]:
        return tuple(dict.fromkeys(found))
    if by_light_word := _having(all_words(answer) - CHOOSING, offered):
        return by_light_word
    if by_age := _by_age(text, offered):
        return by_age
    return tuple(offered) if len(offered) == 1 and _YES.match(text) else None


def named(answer: str, offered: Sequence[Thing]) -> tuple[Thing, ...]:
    """Those that have the answer's words, where not all have them."""
    return _having(wanted_words(answer), offered)


def _having(words: Collection[str], offered: Sequence[Thing]) -> tuple[Thing, ...]:
    request = request_of("", tuple(words))
    has = [covered(request, one) for one in offered]
    everywhere = frozenset.intersection(*has) if len(has) > 1 else frozenset()
    telling = [found - everywhere for found in has]
    most = max(map(len, telling))
    return tuple(one for one, found in zip(offered, telling, strict=True) if most and len(found) == most)


def _by_age(text: str, offered: Sequence[Thing]) -> tuple[Thing, ...]:
    dated = [(one.memory.occurred_at, one) for one in offered if one.memory is not None]
    if len(dated) < len(offered):
        return ()
    dated.sort(key=lambda pair: pair[0])
    if _NEWEST.search(text):
        return (dated[-1][1],)
    return (dated[0][1],) if _OLDEST.search(text) else ()
