"""Cutting a reply: the voice starts early, and nothing is lost, split badly or spoken alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.pipeline.sentences import SentenceCutter, spoken_weight

pytestmark = pytest.mark.unit


def cut(text: str, step: int = 1) -> list[str]:
    cutter = SentenceCutter()
    pieces = []
    for start in range(0, len(text), step):
        pieces += cutter.feed(text[start : start + step])
    return pieces + cutter.finish()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("今日はいい天気だから、散歩に行こうよ。", ["今日はいい天気だから、", "散歩に行こうよ。"]),
        ("うん、そうだね。", ["うん、そうだね。"]),
        ("はい。", ["はい。"]),
        ("うん。わかったよ。じゃあ行こう。", ["うん。わかったよ。", "じゃあ行こう。"]),
        ("それは素敵だね！「すごい！」と思った。次は何？", ["それは素敵だね！", "「すごい！」と思った。", "次は何？"]),
        ("本当にそうなの！？びっくりしたよ。", ["本当にそうなの！？", "びっくりしたよ。"]),
        ("円周率は3.14だよ。千円は1,000円。", ["円周率は3.14だよ。", "千円は1,000円。"]),
        ("Well, that sounds great, I think. Let us go!", ["Well, that sounds great,", "I think. Let us go!"]),
        ("It costs 3.50 dollars. See example.com for more.", ["It costs 3.50 dollars.", "See example.com for more."]),
        ("I am fine! How are you?", ["I am fine! How are you?"]),
        ("句読点のない短い文", ["句読点のない短い文"]),
        ("", []),
        ("   ", []),
        ("。。。", ["。。。"]),
    ],
)
def test_pieces(text, pieces):
    assert cut(text) == pieces
    assert cut(text, 4) == pieces


def test_later_commas_do_not_cut_a_sentence():
    text = "まず最初に言うと、りんごと、みかんと、ぶどうが好き。"
    assert cut(text) == ["まず最初に言うと、", "りんごと、みかんと、ぶどうが好き。"]


def test_the_first_piece_is_ready_as_soon_as_the_next_character_shows_it_has_ended():
    cutter = SentenceCutter()
    assert cutter.feed("今日はいい天気だから、") == []
    assert cutter.feed("散") == ["今日はいい天気だから、"]


def test_text_without_marks_is_cut_at_the_ceiling():
    pieces = cut("あ" * 200)
    assert [len(piece) for piece in pieces] == [80, 80, 40]
    english = cut("word " * 100)
    assert all(spoken_weight(piece) <= 80 for piece in english)
    assert all(piece.split() == ["word"] * len(piece.split()) for piece in english)


@given(st.text(alphabet="あア漢、。！?,. a1「」\n", max_size=120), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_no_character_is_lost_and_chunking_does_not_matter(text, step):
    assert "".join("".join(cut(text)).split()) == "".join(text.split())
    assert cut(text, step) == cut(text)
