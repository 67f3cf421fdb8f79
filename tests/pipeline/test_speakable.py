"""Speakable text as a whole: any text gives some, in time that grows with its length, and cut pieces say the same."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.pipeline.sentences import SentenceCutter
from server.pipeline.speakable import speakable

pytestmark = pytest.mark.unit

NEVER_SAID = "*`|^_<>[]{}()\\【】（）"


def cut(text: str, step: int = 1) -> list[str]:
    cutter = SentenceCutter()
    pieces = []
    for start in range(0, len(text), step):
        pieces += cutter.feed(text[start : start + step])
    return pieces + cutter.finish()


def sounds(text: str) -> str:
    return "".join(filter(str.isalnum, text))


JAPANESE = (
    "今日はいい天気", "うん", "本当にそうだね", "「すごい。いいね」と言った", "漢字（かんじ）を読む",
    "11月30日(月)に行く",
    "10:30に会う", "3〜5個ある", "1,234円だよ", "3.14くらい", "2-1で勝った", "電話は0120-444-444", "二、三日待つ",
    "$5と10kmと25℃", "[ここ、だよ。](https://a.b/c?d=e,f.)を見る", "https://example.com/x?y=1 を開く",
    "**とても、大事**だ",
    "~~消し、た~~よ", "`a, b`を打つ", "うれしいな(^_^)", "いいね(笑)", "楽しい😊", "家族👨‍👩‍👧と", "USBとPC",
    "StackChanだよ",
    "5人（男3人、女2人）", "v1.2が出た", "3+4=7だ", "えーと",
)  # fmt: skip
JAPANESE_ENDS = (
    "、",
    "。",
    "！",
    "？",
    "…",
    "。。。",
    "！？",
    "ｗｗｗ。",
    "。\n",
    "。\n- ",
    "、**",
    "。\n# ",
    "。\n1. ",
    "\n> ",
)
ENGLISH = (
    "Sure I can do that", "Dr. Smith came by", "I like cats, e.g. lions", "it was on Nov 30, 2026",
    "at 10:30 in the morning",
    "it costs $5.50 now", "about 1,234 people came", "see [the page, please](https://a.b/c?d=e,f.)",
    "go to www.example.com/x now",
    "mail me@example.org today", "**very, very** nice", "we met at 3 p.m. today", "the U.S. team won", "it is ~5 km",
    "so (yes, really) good", "a “quoted, yes” word", "it was fun :)", "great 😊 thanks", "x &amp; y are here",
    "he is no. 3",
    "J. Lee is here", "version v1.2 is out", "we use C++ a lot",
)  # fmt: skip
ENGLISH_ENDS = (", ", ". ", "! ", "? ", "... ", "; ", ": ", ".\n", ".\n- ", ", *", ".\n## ", ".\n1. ", "?! ")


@given(st.lists(st.tuples(st.sampled_from(JAPANESE), st.sampled_from(JAPANESE_ENDS)), min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_pieces_of_a_japanese_reply_say_what_the_whole_would(parts: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, parts))
    spoken = [speakable(piece, "ja") for piece in cut(text)]
    assert sounds("".join(spoken)) == sounds(speakable(text, "ja"))
    assert not set(NEVER_SAID) & set("".join(spoken))


@given(st.lists(st.tuples(st.sampled_from(ENGLISH), st.sampled_from(ENGLISH_ENDS)), min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_pieces_of_an_english_reply_say_what_the_whole_would(parts: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, parts))
    spoken = [speakable(piece, "en") for piece in cut(text)]
    assert sounds(" ".join(spoken)) == sounds(speakable(text, "en"))
    assert not set(NEVER_SAID) & set("".join(spoken))


@given(st.text(max_size=200), st.sampled_from(["ja", "en", "fr"]))
@settings(deadline=None)
def test_any_text_gives_text_without_what_no_voice_can_say(text: str, language: str) -> None:
    spoken = speakable(text, language)
    spoken.encode()
    assert spoken == spoken.strip()
    assert not set(NEVER_SAID) & set(spoken)
    assert not spoken or sounds(spoken)
    assert all(
        unicodedata.category(character) not in ("Cc", "Cf", "Cs", "So", "Sk")
        for character in spoken
        if character not in "\n°"
    )


@given(
    st.text(alphabet="あ漢aB1３0、。,.:-/〜~=+×$%°()（）「」[]*_`#@&>|!？… \n😊ｗ", max_size=80),
    st.sampled_from(["ja", "en"]),
)
@settings(max_examples=300, deadline=None)
def test_what_is_speakable_once_is_bounded_and_keeps_its_letters(text: str, language: str) -> None:
    spoken = speakable(text, language)
    assert len(spoken) <= 20 * len(text)
    assert spoken.count("漢") == text.count("漢")


HOSTILE = {
    "nested brackets": "(" * 10_000 + "あ" + ")" * 10_000,
    "open links": "[" * 10_000,
    "half links": "[a](" * 5_000,
    "emphasis": "*a_" * 10_000,
    "stars": "* " * 10_000 + "a",
    "tags": "<a " * 10_000,
    "comments": "<!--" * 5_000,
    "fences": "```" * 10_000,
    "addresses": "http://" * 5_000,
    "hosts": "a." * 10_000,
    "mail": "a@" * 10_000,
    "tables": "|-" * 10_000,
    "rules": "- - " * 5_000 + "x",
    "spaces": " " * 30_000 + "a",
    "lines": "\n" * 30_000 + "a",
    "entities": "&nbsp;" * 5_000 + "a",
    "commas": "," * 30_000 + "a",
    "faces": "(^" * 10_000,
    "ruby": "漢（か" * 5_000,
    "digits": "1" * 30_000,
    "dashes": "1-" * 10_000,
    "slashes": "1/" * 10_000,
    "times": "1:" * 10_000,
    "signs": "a≧" * 10_000,
    "emoji": "😊 " * 10_000 + "a",
    "marks": "z" + "\u0300" * 30_000,
    "laughs": "あ" + "w" * 30_000 + "a",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("language", ["ja", "en"])
def test_hostile_text_is_survived(text: str, language: str) -> None:
    """A rule that is not linear would make one of these take minutes."""
    spoken = speakable(text, language)
    assert not set("()[]<>*`|") & set(spoken)


def test_a_reply_becomes_what_is_said() -> None:
    reply = "**11/30(月)**の10:30に、[ここ](https://a.b/c)で会おう😊 りんごを3〜5個、$5くらいで買ってね(笑)"
    assert speakable(reply, "ja") == (
        "11月30日、月曜日の10時30分に、ここで会おう、りんごを3から5個、5ドルくらいで買ってね"
    )
