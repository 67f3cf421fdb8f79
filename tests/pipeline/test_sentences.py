"""Cutting a reply: the voice starts early, and nothing is lost, split badly or spoken alone."""

from __future__ import annotations

import time

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
        ("うん、そうだね。", ["うん、", "そうだね。"]),
        ("あ、そうだね。", ["あ、そうだね。"]),
        ("うん、左を見るね。", ["うん、", "左を見るね。"]),
        ("Sure, I can do that.", ["Sure,", "I can do that."]),
        ("Oh, I can do that.", ["Oh, I can do that."]),
        ("はい。", ["はい。"]),
        ("うん。わかったよ。じゃあ行こう。", ["うん。", "わかったよ。", "じゃあ行こう。"]),
        ("そうだね。うん。わかったよ。", ["そうだね。", "うん。わかったよ。"]),
        ("それは素敵だね！「すごい！」と思った。次は何？", ["それは素敵だね！", "「すごい！」と思った。", "次は何？"]),
        ("本当にそうなの！？びっくりしたよ。", ["本当にそうなの！？", "びっくりしたよ。"]),
        ("円周率は3.14だよ。千円は1,000円。", ["円周率は3.14だよ。", "千円は1,000円。"]),
        ("Well, that sounds great, I think. Let us go!", ["Well,", "that sounds great,", "I think. Let us go!"]),
        ("It costs 3.50 dollars. See example.com for more.", ["It costs 3.50 dollars.", "See example.com for more."]),
        ("I am fine! How are you?", ["I am fine!", "How are you?"]),
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


@pytest.mark.parametrize(
    "unit",
    [
        "「",
        "（",
        "([",
        "```",
        "http://a.",
        "。",
        "No.  ",
        "&",
        "[a](b(",
        "「。",
        "w",
        "<a ",
        "Dr. ",
        "\n",
        "`",
        "ああ、",
    ],
)
def test_any_text_in_single_characters_takes_time_in_proportion(unit):
    text = ("ああ、いいよ" + unit * 4000)[:4000]
    began = time.perf_counter()
    pieces = cut(text)
    assert time.perf_counter() - began < 4, "a scan from the start for every character took a minute"
    assert "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.parametrize("whole", ["&amp;", "&#12354;", "www.example.com", "http://a.jp/x?y=1", "HTTPS://A.JP", "```x"])
@pytest.mark.parametrize(
    "before", ["うん、", "はい。", "ああ、いいよ。", "Sure, ", "It is fine. ", "あ" * 79, "word " * 40]
)
def test_a_beginning_of_what_is_one_is_never_a_piece(whole, before):
    text = f"{before}{whole} だよ。"
    for step in (1, 2, 3, 5, 100):
        pieces = cut(text, step)
        assert pieces == cut(text), "how it arrives makes no difference"
        assert any(whole in piece for piece in pieces)


def test_text_without_marks_is_cut_at_the_ceiling():
    pieces = cut("あ" * 200)
    assert [len(piece) for piece in pieces] == [80, 80, 40]
    english = cut("word " * 100)
    assert all(spoken_weight(piece) <= 80 for piece in english)
    assert all(piece.split() == ["word"] * len(piece.split()) for piece in english)


@pytest.mark.parametrize(
    "whole",
    [
        # numbers, dates, times
        "1,234円", "１，２３４円", "3.14", "３．１４", "10:30", "１０：３０", "1:23:45", "二、三日", "2、3個",
        "2026.11.30",
        "11月30日（月、祝）", "Nov 30, 2026", "Nov. 30th, 2026", "$1,234.56", "192.168.0.1", "v1.2.3", "No. 3",
        "Jan. 5", "p. 12",
        # addresses, links, code
        "https://example.com/a?b=c,d.e", "https://例え.jp/あ", "taro.y@example.co.jp", "www.example.com",
        "[ここ、だよ。次も](https://a.b/c)", "[the page, please. Now](https://a.b/c)", "<a href='x, y'>", "&amp;",
        "```py\nprint(1), 2.\nend. Now, go.\n```",
        # abbreviations
        "Dr. Smith", "Mr. and Mrs. Lee", "e.g. lions", "i.e. this", "etc. are", "vs. us", "J. Lee", "U.S. team",
        "3 p.m. today", "St. Louis",
        # quotations, brackets, dots, emoji
        "「うん、いいよ。行こう！」と", "『本、その一。』", "（はい、そう。）", "(yes, really. Yes)",
        "“hi, you. Bye”", "【注。意】",
        "……", "...", "・・・", "！？！", "👨‍👩‍👧", "👍🏽", "🇯🇵", "1️⃣",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["うん、今日はとても", "Well, it is ", "そうだね。あとは", ""])
def test_what_is_read_as_one_is_never_cut(whole, before):
    for after in ("です。次だよ。", " is it. And then.", "", " "):
        pieces = cut(before + whole + after)
        assert any(whole.strip() in piece for piece in pieces), pieces
        assert cut(before + whole + after, 5) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I like the U.S. It is big.", ["I like the U.S.", "It is big."]),
        ("We met at 3 p.m. Then we left.", ["We met at 3 p.m.", "Then we left."]),
        ("Our cats etc. They are nice.", ["Our cats etc.", "They are nice."]),
        ("I said no. You said yes.", ["I said no.", "You said yes."]),
        ("So it was I. He knew it.", ["So it was I.", "He knew it."]),
        ("買うもの\n- りんご三個\n- みかん五個", ["買うもの", "- りんご三個", "- みかん五個"]),
        ("1. りんごを買う\n2. みかんを買う", ["1. りんごを買う", "2. みかんを買う"]),
        ("「そうだね。」「うん、行こう。」", ["「そうだね。」", "「うん、行こう。」"]),
        ("見て：これだよ。", ["見て：", "これだよ。"]),
        ("楽しいね😊。また、明日ね。", ["楽しいね😊。", "また、明日ね。"]),
    ],
)
def test_an_end_is_still_an_end(text, pieces):
    assert cut(text) == pieces
    assert cut(text, 3) == pieces


def test_after_a_short_opening_the_next_clause_may_end_early_too():
    assert cut("うん、今日は晴れだから、帽子を持って、公園へ行こう。") == [
        "うん、",
        "今日は晴れだから、",
        "帽子を持って、公園へ行こう。",
    ]


@pytest.mark.parametrize("opener", ["「", "（", "[", "“", "【"])
def test_a_bracket_that_is_never_closed_holds_nothing_back_for_long(opener):
    cutter = SentenceCutter()
    pieces = cutter.feed(opener + "今日はいい天気だから、散歩に行こうよ。" * 5)
    assert pieces[0] == opener + "今日はいい天気だから、"
    assert "".join(pieces + cutter.finish()) == opener + "今日はいい天気だから、散歩に行こうよ。" * 5


@pytest.mark.parametrize(
    "text", ["(" * 10_000, "「" * 5_000, "```" + "あ、" * 3_000, "。" * 5_000, "http://" * 2_000, "<a " * 5_000]
)
def test_hostile_text_is_cut_in_bounded_pieces_or_held_as_code(text):
    pieces = cut(text, 500)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    if not text.startswith(("```", "。", "http")):
        assert max(map(len, pieces)) <= 1_000


def test_the_ceiling_cuts_no_emoji_and_no_word():
    family = "👨‍👩‍👧"
    pieces = cut(family * 200)
    assert len(pieces) > 1
    assert all(piece == family * piece.count(family) for piece in pieces)
    assert cut("あ" * 79 + "12345" + "う" * 5) == ["あ" * 79 + "12345", "う" * 5]


@given(st.text(alphabet="あア漢、。！?,. a1「」\n", max_size=120), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_no_character_is_lost_and_chunking_does_not_matter(text, step):
    assert "".join("".join(cut(text)).split()) == "".join(text.split())
    assert cut(text, step) == cut(text)
