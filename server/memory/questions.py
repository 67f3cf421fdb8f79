"""Whether a sentence is a question, with its mark or without: the one rule that tells what is asked from what is told.

Pure, by the look of the words, Japanese and English. Knows no conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from server.storage.words import plain, straight

_TITLE = re.compile(r"\b(Mrs?|Dr)\.")
_NO_STOP = "\ue000"
_TOLD_BEFORE_ASKING = re.compile(r"(けど|から|ので|(?<=だ)し)、(?=.{4,})")
_SENTENCE = re.compile(r"(?:[^。!?！？.]|\.(?=\d))+(?:[。!?！？]+|\.|$)|[.]")

_REMEMBER = re.compile(
    r"覚えて(?!る|い(?:る|ま|た|な)|ま|た|な|くれ(?:た|て))|覚えと[いけ]|忘れないで(?!いる|いた|る|た)|メモして(?!る|い|た)|メモっと"
    r"|\bremember\b|\bdon't forget\b|\bnote that\b",
    re.IGNORECASE,
)
_REMEMBERED = re.compile(
    r"\b(?:(?:do|did|don't|didn't|if|(?:can|could|will|would)(?!\s+you\s+(?:please\s+)?remember\s+(?:that|this|to)\b))"
    r"\s+(?:you|i|we)|i|we|he|she|they|can't|cannot|don't|didn't|not|never)\s+(?:(?:still|even|really|always|not)\s+)*"
    r"remember\b|\bremember\s+(?:how|what|when|where|who|which|why|if)\b",
    re.IGNORECASE,
)
"""Whether one does is told or asked, and nobody is to."""
_ANY = (
    r"(?!か(?!な|しら|教|分か|わか|知|覚|[。?？]?$))"
    r"(?![一-龯]{0,2}(?:に|へ|と|から|まで)?(?:でも|も|より))"
)
"""何か, いつか, 何でも, 誰にも, 何度も, 何より: no question. いつかな and いつか知ってる are."""
_WHICH = (
    rf"(?:何{_ANY}(?!しろ|とか|となく|かと|気[なに])|(?<!ん)なに{_ANY}|なんの|なんで(?!す|し[たょ])|誰{_ANY}|(?<!よ)だれ{_ANY}|どこ{_ANY}"
    rf"|(?<![ぶ])どう(?!し?ても|ぶつ|ぞ|も|せ|やら|に[かも])|どんな|どれ{_ANY}|どっち{_ANY}"
    rf"|(?<![あこそ])いつ{_ANY}|いくつ{_ANY}|いくら(?!でも)|なぜ)"
)
_QUESTION = re.compile(
    r"[?？]\s*$"
    r"|(?:覚えて|(?:、|って|か)知って)い?る[。!]?$|っけ、[^、]{1,8}$"
    r"|(?:かな[あぁー]?|かしら|っけ|だろう[ね]?|でしょうか|ますか|ですか|たか|のか|んだい|教えて)[。!]?$"
    rf"|{_WHICH}[^、]*(?:の|と思う|んだ|か|い|にした|は|がいい)[。]?$"
    # Said without a mark, and not within 何を買ったか忘れた or いくらだったと聞いた. いくら may also be eaten.
    rf"|(?<!幾)(?<!如)(?!いくら[をがは丼]){_WHICH}[^、。か言聞答教]{{0,12}}?"
    r"(?:だ|だった|でした|[一-龯ぁ-ん](?:た|る|う|く|す|む|つ|ぶ|ぐ))[。]?$"
    r"|(?<=[はがって、])(?:いつ|どこ|誰|だれ|何|なに|いくら|いくつ|どれ|どっち)[。]?$"
    r"|^(?:(?:so|and|but|then|well|ok|okay|hey|um),?\s+)*"
    r"(?:what|who|whose|where|when|why|how|which|do|does|did|is|are|am|was|were|can|could|will|would|should|shall|may"
    r"|have you|has)\b(?!\s+(?:a|an)\s+(?:day|week|night))[^,.!]*$",
    re.IGNORECASE,
)


_TELLS = re.compile(
    r"^(?:will|may|mark) (?:is|was|has|had|lives?(?<=s)|works?(?<=s)|likes?(?<=s)|loves?(?<=s)|hates?(?<=s)"
    r"|plays?(?<=s)|wants?(?<=s)|needs?(?<=s)|comes?(?<=s)|goes|went|moved|lived|worked)\b[^?？]*$"
    r"|^what (?:i|we|he|she|they) [^?？]*? (?:is|was|are|were) [^?？]*$"
    r"|^(?:when|where) (?:i|we|he|she|they|my \w+|our \w+)(?:'\w+)? "
    r"\w[^?？]*? (?:i|we|he|she|they|there)(?:'\w+)? [^?？]*$"
    r"|(?:(?:お?(?:母|父|兄|姉|弟|妹)|妻|夫|息子|娘|祖父|祖母|友達|彼女?|私|僕|俺)(?:さん|ちゃん)?|\w(?:さん|くん|ちゃん))[はが]"
    rf"(?:(?!{_WHICH})[^?？])*だろう[。!]*$"
)
"""No question turns these round: Will lives in Leeds; what I like is tea; 母は入院するだろう."""
_ASIDE = re.compile(
    r"^(?=(?:i|i'm|i've|my|we|we're|we've|our)\b)(?!i (?:mean|wonder|guess|forgot|forget|said|asked|think|know)\b)"
    r"(?P<told>[^,?]{6,}),\s+(?:(?:and|so|but)\s+)?(?:what|when|where|who|whose|which|how|why|can|could"
    r"|do|does|is|are|should|will|would)\b[^,]*\?\s*$",
    re.IGNORECASE,
)
"""I'm allergic to nuts, what can I eat?"""


def asks(sentence: str) -> bool:
    """Whether a sentence is a question, or asks to be told, and nothing else."""
    words = plain(sentence).strip()
    if _TOLD_BEFORE_ASKING.search(words) or _ASIDE.search(words) or _TELLS.search(words):
        return False
    return bool(_QUESTION.search(words)) and not asks_to_remember(words)


def told_like_a_question(sentence: str) -> bool:
    """Whether a statement begins as a question does: Will lives in Leeds; what I like is tea."""
    return bool(_TELLS.search(plain(sentence).strip()))


def only_asks(text: str) -> bool:
    """Whether there is nothing but questions in `text`."""
    found = list(sentences(text))
    return bool(found) and all(map(asks, found))


def asks_to_remember(words: str) -> bool:
    """Whether words ask to keep something in mind."""
    return bool(_REMEMBER.search(_REMEMBERED.sub(" ", plain(words))))


def without_its_question(sentence: str) -> str:
    """A sentence that tells and then asks, without what it asks: 猫を飼うけど、名前はどうしよう is 猫を飼う。"""
    if (aside := _ASIDE.search(straight(sentence).strip())) is not None:
        return aside["told"] + "."
    match = _TOLD_BEFORE_ASKING.search(sentence)
    words = plain(sentence).strip()
    if match is None or not _QUESTION.search(words) or asks_to_remember(words):
        return sentence
    told = sentence[: match.start()]
    return (told[:-1] + "だ" if match[1] == "ので" and told.endswith("な") else told) + "。"


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text` with their marks, as they stand; the full stop of a title ends none."""
    for match in _SENTENCE.finditer(_TITLE.sub(lambda title: title[1] + _NO_STOP, text)):
        if match[0].strip():
            yield match[0].strip().replace(_NO_STOP, ".")
