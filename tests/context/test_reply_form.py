"""The form of a reply: its language, its sentences, and no number that nobody has said."""

from __future__ import annotations

import re

import pytest

from server.context.reply_form import numerals_in, reply_pattern

pytestmark = pytest.mark.unit


def may_say(language, reply, numerals=None, sentences=1):
    return re.match(reply_pattern(language, sentences, numerals), reply) is not None


@pytest.mark.parametrize(
    ("text", "numerals"),
    [
        ("青い自転車を四万八千円で買ったよ。", {"四万八千", "48000", "48,000"}),
        ("３万円だった", {"3万", "30000", "30,000"}),
        ("It was 1,250 dollars.", {"1,250", "1250"}),
        ("two thousand yen", {"2000", "2,000"}),
        ("2026-04-05", {"4月5日", "四月五日", "2026年4月5日", "April 5", "April 5, 2026", "the 5th"}),
        ("2026年4月5日", {"4月5日", "2026年4月5日", "April 5, 2026"}),
        ("It is on April 22, 2026.", {"April 22, 2026", "April 22nd", "4月22日"}),
        ("2026-11-30T17:30:00+09:00", {"17:30", "5:30", "17時30分", "5時半"}),
        ("17時30分から", {"17", "30"}),
        ("3.5キロ走った", {"3.5"}),
        ("room 007", {"007", "7"}),
    ],
)
def test_a_number_may_be_said_as_it_was_written_and_in_digits(text, numerals):
    assert numerals <= set(numerals_in([text]))


@pytest.mark.parametrize("text", ["", "空がきれいだね", "The sky is blue.", "一緒に行こう"[2:]])
def test_what_counts_nothing_has_no_numerals(text):
    assert numerals_in([text]) == ()


def test_numerals_come_once_the_first_first_and_not_without_end():
    assert numerals_in(["7 and 8", "8 and 9"]) == ("7", "8", "9")
    many = numerals_in(f"{one}" for one in range(1000))
    assert len(many) == 100
    assert many[0] == "0"


@pytest.mark.parametrize(
    ("language", "reply"),
    [
        ("ja", "ごめんね、それは覚えていないよ。"),
        ("ja", "一緒に探そうね。"),
        ("ja", "うん、一番大切なことだね。"),
        ("en", "Sorry, I do not remember that."),
        ("de", "Das weiß ich nicht."),
    ],
)
def test_without_any_numeral_one_can_still_speak(language, reply):
    assert may_say(language, reply, ())
    assert may_say(language, reply)


@pytest.mark.parametrize(
    ("language", "reply"),
    [
        ("ja", "三万円だよ。"),
        ("ja", "3万円だったよ。"),
        ("ja", "３月だよ。"),
        ("ja", "それは十二月五日だよ。"),
        ("ja", "五時だよ。"),
        ("en", "It was 300 dollars."),
        ("en", "3 dollars it was."),
        ("en", "It is on December 5."),
        ("de", "Es waren 300 Euro."),
    ],
)
def test_a_number_that_nobody_said_cannot_be_written(language, reply):
    assert may_say(language, reply), "else it proves nothing"
    assert not may_say(language, reply, ())


@pytest.mark.parametrize(
    ("language", "said", "right", "wrong"),
    [
        ("ja", "青い自転車を四万八千円で買ったよ", "四万八千円だよ。", "四万円だよ。"),
        ("ja", "青い自転車を四万八千円で買ったよ", "自転車は48000円だったよ。", "自転車は4800円だったよ。"),
        ("ja", "2026-12-05", "12月5日だよ。", "1月2日だよ。"),
        ("en", "No, it was 250 dollars.", "It was 250 dollars.", "It was 25 dollars."),
        ("en", "No, it was 250 dollars.", "250 dollars, I think.", "2500 dollars, I think."),
        ("en", "No, it was 250 dollars.", "It cost 250.", "It cost 2502."),
        ("de", "Es waren 300 Euro", "Es waren 300 Euro.", "Es waren 30 Euro."),
    ],
)
def test_a_number_that_was_said_may_be_written_whole_only(language, said, right, wrong):
    numerals = numerals_in([said])
    assert may_say(language, right, numerals)
    assert not may_say(language, wrong, numerals)
    assert may_say(language, wrong)


JAPANESE = ("三万円で買った", "2026-11-30", "2匹", "5人")
ENGLISH = ("I paid 640 dollars", "2026-11-30", "2 cats")


@pytest.mark.parametrize(
    "reply",
    [
        *(
            "それは2.5キロだよ。",
            "それは2,5だよ。",
            "体重は30・5キロだよ。",
            "2-5だよ。",
            "2／5だよ。",
            "2〜5だよ。",
            "2 5だよ。",
        ),
        *("会議は11:30だよ。", "11時30分だよ。", "11人だよ。", "2026人だよ。", "それは30だよ。"),
        *(
            "それは①番だよ。",
            "それは½だよ。",
            "それは³だよ。",
            "それはⅢだよ。",
            "それは٣だよ。",
            "それは㊂だよ。",
            "壱円だよ。",
            "弐だよ。",
        ),
        *("30000.5円だよ。", "三万五だよ。"),
    ],
)
def test_in_japanese_no_other_number_is_made_of_pieces(reply):
    assert may_say("ja", reply), "else it proves nothing"
    assert not may_say("ja", reply, numerals_in(JAPANESE))


@pytest.mark.parametrize(
    "reply",
    [
        *("It was 640/2.", "It was 2-640.", "It was 2 640 dollars.", "It was 2,640 dollars.", "It was $2026."),
        *("The meeting is at 11:30.", "We have 11 cats.", "We have 30 cats.", "It was 2026 dollars."),
    ],
)
def test_in_english_no_other_number_is_made_of_pieces(reply):
    assert may_say("en", reply), "else it proves nothing"
    assert not may_say("en", reply, numerals_in(ENGLISH))


@pytest.mark.parametrize(
    ("language", "reply"),
    [("en", "It was 640.2 dollars."), ("en", "It was 640. 2 dollars."), ("de", "Es waren 640.2 Euro.")],
)
def test_no_sentence_ends_within_a_number(language, reply):
    assert not may_say(language, reply, numerals_in(ENGLISH), sentences=2)


@pytest.mark.parametrize(
    ("language", "reply"),
    [
        *(("ja", "三万円だよ。"), ("ja", "11月30日だよ。"), ("ja", "2026年11月30日だよ。"), ("ja", "30日だよ。")),
        *(
            ("ja", "十一月三十日だよ。"),
            ("ja", "犬が2匹、人が5人だよ。"),
            ("ja", "2026年だよ。"),
            ("ja", "30,000円だよ。"),
        ),
        *(
            ("en", "It was 640 dollars."),
            ("en", "It was on November 30, 2026."),
            ("en", "It is on November 30th, I think."),
        ),
        *(("en", "2 cats, and 640 dollars."), ("en", "The 2-year plan cost 640."), ("en", "It was in 2026.")),
    ],
)
def test_numbers_and_days_that_were_said_may_be(language, reply):
    assert may_say(language, reply, numerals_in(JAPANESE if language == "ja" else ENGLISH))


@pytest.mark.parametrize("mark", [".", "+", "(", "\\"])
def test_numerals_are_no_regular_expression(mark):
    assert not may_say("en", "It was 3x5 dollars.", (f"3{mark}5",))


@pytest.mark.parametrize("language", ["ja", "en", "de"])
@pytest.mark.parametrize("numerals", [None, (), ("5",)])
def test_no_more_sentences_than_the_persona_has(language, numerals):
    sentence = {"ja": "うれしいよ。", "en": "Great.", "de": "Gut."}[language]
    assert may_say(language, sentence * 2, numerals, 2)
    assert not may_say(language, sentence * 3, numerals, 2)
    assert not may_say(language, sentence * 2, numerals, 1)
