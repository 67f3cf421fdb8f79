"""What is spoken, in which language: text alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.engines.tts.latin import CUSTOMARY, kana_of
from server.engines.tts.scripts import (
    MAX_PIECE_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    has_speech,
    pieces_to_speak,
    sayable,
    sentence_language,
    sentences,
    split_runs,
)
from server.errors import TtsError

pytestmark = pytest.mark.unit

READINGS = {
    "StackChan": "スタックチャン",
    "Wi-Fi": "ワイファイ",
    "C": "シー",
    "C++": "シープラプラ",
    "M5Stack": "エムファイブスタック",
}


def runs(text: str, language: str = "ja") -> list[tuple[str, str]]:
    return [(run.language, run.text) for run in split_runs(sayable(text), language, READINGS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("こんにちは、StackChanだよ！", [("ja", "こんにちは、スタックチャンだよ!")]),
        ("stackchanとＷｉ－Ｆｉ", [("ja", "スタックチャンとワイファイ")]),
        ("c++とc言語", [("ja", "シープラプラとシー言語")]),
        ("M5Stackの上", [("ja", "エムファイブスタックの上")]),
        ("PCとUSBとAIとx軸", [("ja", "ピーシーとユーエスビーとエーアイとエックス軸")]),
        ("helloと言った", [("en", "hello"), ("ja", "と言った")]),
        ("「Thank you very much.」って言われた。", [("en", "Thank you very much"), ("ja", "って言われた。")]),
        ("the USB cableを持ってきて", [("en", "the USB cable"), ("ja", "を持ってきて")]),
        ("10 kmを走った、25℃の日に", [("ja", "10 kmを走った、25℃の日に")]),
        ("iPhone 15 Proと3月", [("en", "iPhone 15 Pro"), ("ja", "と3月")]),
        ("Bluetooth 5.0に対応", [("en", "Bluetooth"), ("ja", "5.0に対応")]),
        ("NASAとHTTP", [("en", "NASA"), ("ja", "とエイチティーティーピー")]),
        ("100", [("ja", "100")]),
        ("It is fine。", [("en", "It is fine.")]),
    ],
)
def test_japanese_sentence_is_cut_by_script(text: str, expected: list[tuple[str, str]]) -> None:
    assert runs(text) == expected


KANA = {
    "Python": "パイソン", "Happy": "ハッピー", "birthday": "バースデー", "NASA": "ナサ", "IKEA": "イケア",
    "Chat": "チャット",
    "Amazon": "アマゾン", "Netflix": "ネットフリックス", "YouTube": "ユーチューブ", "iPhone": "アイフォン",
    "Pro": "プロ",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ぼくはPythonが好き", [("ja", "ぼくはパイソンが好き")]),
        ("Happy birthdayの歌", [("ja", "ハッピーバースデーの歌")]),
        ("StackChanとWi-Fiで", [("ja", "スタックチャンとワイファイで")]),
        ("USBとHTTPとHDMI", [("ja", "ユーエスビーとエイチティーティーピーとエイチディーエムアイ")]),
        ("NASAとIKEA", [("ja", "ナサとイケア")]),
        ("ChatGPTと10 kmとx軸", [("ja", "チャットジーピーティーと10 kmとエックス軸")]),
        ("iOSだよ", [("ja", "アイオーエスだよ")]),
        ("AmazonとNetflixとYouTube", [("ja", "アマゾンとネットフリックスとユーチューブ")]),
        ("iPhone 15 Proと3月", [("ja", "アイフォン 15 プロと3月")]),
        ("the USB cableを持って", [("en", "the USB cable"), ("ja", "を持って")]),
        ("彼はI love youと言った", [("ja", "彼は"), ("en", "I love you"), ("ja", "と言った")]),
        ("「Thank you very much.」って言われた。", [("en", "Thank you very much"), ("ja", "って言われた。")]),
        ("xyzzyと唱える", [("en", "xyzzy"), ("ja", "と唱える")]),
        (
            "I like 東京 and 大阪 very much.",
            [("en", "I like"), ("ja", "東京"), ("en", "and"), ("ja", "大阪"), ("en", "very much.")],
        ),
    ],
)
def test_latin_words_of_a_japanese_sentence_are_said_in_kana_phrases_in_english(
    text: str, expected: list[tuple[str, str]]
) -> None:
    language = "en" if text.startswith("I like") else "ja"
    said = split_runs(sayable(text), language, READINGS, lambda word: KANA.get(word, ""))
    assert [(run.language, run.text) for run in said] == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Hello", "ハロー"),
        ("COFFEE", "コーヒー"),
        ("Wi-Fi", "ワイファイ"),
        ("I’m", "アイム"),
        ("Pokémon", "ポケモン"),
        ("café", "カフェ"),
        ("", ""),
        ("'", ""),
        ("h" * 21, ""),
    ],
)
def test_customary_readings_come_before_the_model(word: str, expected: str) -> None:
    assert kana_of(word) == expected


def test_customary_readings_are_kana_of_plain_words() -> None:
    for word, reading in CUSTOMARY.items():
        assert re.fullmatch("[a-z]+", word)
        assert all("ァ" <= character <= "ー" for character in reading)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My name is StackChan.", [("en", "My name is StackChan.")]),
        ("I live in 東京, and I like it.", [("en", "I live in"), ("ja", "東京,"), ("en", "and I like it.")]),
        ("The party is on 3月15日 at 7 pm.", [("en", "The party is on"), ("ja", "3月15日"), ("en", "at 7 pm.")]),
        ("10 km, 3 apples", [("en", "10 km, 3 apples")]),
        ("42", [("en", "42")]),
    ],
)
def test_english_sentence_keeps_its_numbers_and_lends_its_names(text: str, expected: list[tuple[str, str]]) -> None:
    assert runs(text, "en") == expected


@pytest.mark.parametrize(
    ("text", "expected", "language"),
    [
        ("StackChanだよ", "ja", "ja"),
        ("My friend's name is 田中さん, and he lives in 大阪.", "ja", "en"),
        ("こんにちは means hello.", "en", "en"),
        ("今日は good だね", "en", "ja"),
        ("？！", "en", "en"),
        ("123", "fr", "ja"),
        ("AmazonとNetflixとYouTube", "ja", "ja"),
    ],
)
def test_whose_sentence_it_is(text: str, expected: str, language: str) -> None:
    assert sentence_language(text, expected) == language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("すごい😊✨ね👨‍👩‍👧", "すごい ね"),
        ("か\u3099っこう", "がっこう"),
        ("ﾊﾝｶｸ", "ハンカク"),
        ("e\u0301te\u0301", "été"),
        ("a\ud83db\udc00", "a b"),
        ("あ\0い\x1b[31mう", "あ い [31mう"),
        ("\u202eabc\u200b\ufeff", "abc"),
        ("مرحبا שלום Привет 안녕", ""),
        ("٣個", "3個"),
        ("25°C", "25℃"),
        ("3*4=12", "3*4=12"),
        ("h" * 100, "h" * 40),
        ("1" * 16, " ".join("1" * 16)),
        ("z\u0300\u0301\u0302\u0303", "z"),
    ],
)
def test_what_no_voice_can_say_is_left_out(text: str, expected: str) -> None:
    assert sayable(text) == expected


@pytest.mark.parametrize("text", ["", "   ", "😊", "。、…！？", "「」", "مرحبا", "\ud83d", "\0", "ーー" * 0, "☆★♪"])
def test_nothing_speakable_gives_no_piece_and_no_run(text: str) -> None:
    assert pieces_to_speak(text) == []
    assert split_runs(sayable(text), "ja", READINGS) == []


def test_sentences_are_cut_at_their_ends_then_at_clauses() -> None:
    assert sentences("はい。そうだね！ It is 3.5 m. Good.", 80) == [
        "はい。",
        "そうだね!".replace("!", "！"),
        "It is 3.5 m.",
        "Good.",
    ]
    assert sentences("あ" * 30 + "、" + "い" * 30, 40) == ["あ" * 30 + "、", "い" * 30]
    assert sentences("う" * 100, 40) == ["う" * 40, "う" * 40, "う" * 20]
    assert sentences("「そうか。」と言った", 80) == ["「そうか。」", "と言った"]


def test_a_text_too_long_is_refused() -> None:
    assert "".join(pieces_to_speak("あ" * MAX_TEXT_CHARACTERS)) == "あ" * MAX_TEXT_CHARACTERS
    with pytest.raises(TtsError, match="too long to speak"):
        pieces_to_speak("あ" * (MAX_TEXT_CHARACTERS + 1))


def test_odd_readings_do_no_harm() -> None:
    assert split_runs("abcと", "ja", {"": "から", " ": "くうはく"})[0].text == "abc"


@given(st.text(max_size=200), st.sampled_from(["ja", "en"]))
def test_any_text_is_cut_into_bounded_speakable_pieces(text: str, language: str) -> None:
    for piece in pieces_to_speak(text):
        assert 0 < len(piece) <= MAX_PIECE_CHARACTERS
        piece.encode()
        cut = split_runs(piece, language, READINGS)
        assert cut
        for run in cut:
            assert has_speech(run.text)
            assert run.language in ("ja", "en")


@given(st.text(alphabet="aB9あア漢、。. -!", max_size=60), st.sampled_from(["ja", "en"]))
def test_no_letter_is_lost_or_said_twice(text: str, language: str) -> None:
    """Without readings and abbreviations every letter and digit is spoken once, in order."""
    said = "".join(run.text for run in split_runs(text, language, {}))
    spelled = {"a": "エー", "B": "ビー"}
    kept = [character for character in text if has_speech(character)]
    remaining = said
    for character in kept:
        options = (character, spelled.get(character, character))
        found = min((remaining.find(option), option) for option in options if option in remaining)
        remaining = remaining[found[0] + len(found[1]) :]
    assert not has_speech(remaining)
