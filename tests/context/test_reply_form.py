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
        ("2026-04-05", {"2026", "04", "4", "05", "5"}),
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
