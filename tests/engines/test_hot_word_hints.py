"""What Whisper is told to expect, and when a word that it was told to expect is believed."""

from __future__ import annotations

import pytest

from server.engines.asr.faster_whisper import WhisperRecipe, _Hearing, fits_better, hint_of, holds

pytestmark = pytest.mark.unit


def heard(text: str, log_probability: float) -> _Hearing:
    return _Hearing(text, "ja", 1.0, 0.0, log_probability)


def test_the_hint_is_a_sentence_with_the_likeliest_word_last() -> None:
    words = ("コムギ", "Zorbix", "水茎さん")
    assert hint_of(words, "ja") == "水茎さん、Zorbix、コムギ。"
    assert hint_of(words, "en") == "水茎さん, Zorbix, コムギ."
    assert hint_of((), "ja") == ""


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        ("ネムリマルに ごはん", "ネムリマル", True),
        ("ﾈﾑﾘﾏﾙに", "ネムリマル", True),
        ("ネムリ マルに", "ネムリマル", True),
        ("ask ZORBIX's friend", "Zorbix", True),
        ("眠り丸に", "ネムリマル", False),
        ("", "ネムリマル", False),
        ("何か。", "。", False),
        ("𠮷野家さんの", "𠮷野家", True),
    ],
)
def test_a_word_is_found_however_it_is_spaced(text: str, word: str, there: bool) -> None:
    assert holds(text, word) is there


def test_a_name_that_makes_the_sound_likelier_is_believed() -> None:
    assert fits_better(heard("ユキグニのドアが", -0.15), heard("雪ぐにのドアが", -0.39), ("ユキグニ",), WhisperRecipe())


def test_a_name_that_fits_no_better_was_only_expected() -> None:
    plain = heard("寄り道しないで", -0.155)
    assert not fits_better(heard("ヨリミチしないで", -0.159), plain, ("ヨリミチ",), WhisperRecipe())
    assert not fits_better(heard("ヨリミチしないで", -0.155 + 0.04), plain, ("ヨリミチ",), WhisperRecipe())


def test_a_name_that_is_heard_without_help_needs_no_proof() -> None:
    assert fits_better(heard("ユキグニだ。", -0.5), heard("ユキグニ だ", -0.2), ("ユキグニ",), WhisperRecipe())


def test_of_two_names_both_have_to_be_heard_without_help() -> None:
    expected = ("ユキグニ", "ヨリミチ")
    plain = heard("ユキグニに寄り道", -0.2)
    assert not fits_better(heard("ユキグニにヨリミチ", -0.2), plain, expected, WhisperRecipe())


def test_nothing_heard_without_help_is_better_than_an_unsure_name() -> None:
    assert not fits_better(heard("ユキグニ", -0.3), heard("", 0.0), ("ユキグニ",), WhisperRecipe())
