"""What Whisper is told to expect, and when a word that it was told to expect is believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from server.engines.asr.faster_whisper import (
    FasterWhisperAsr,
    WhisperRecipe,
    _Hearing,
    fits_better,
    hint_of,
    holds,
    letters_replaced,
    places_of,
)

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


# --- which of the two decodings is taken ---------------------------------------------------------------------------


def decode(tokens: Sequence[int]) -> str:
    return "".join(map(chr, tokens))


def tokens_of(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


class _Letters:
    """A tokenizer of which every letter is a token."""

    decode = staticmethod(decode)


class TwoHearings(FasterWhisperAsr):
    """A model that hears one text without hot words and another with them; all its plain tokens are equally sure."""

    def __init__(self, plain: _Hearing, helped: _Hearing, sureness: float) -> None:
        super().__init__(Path("absent"))
        self.hearings = {False: plain, True: helped}
        self.sureness = sureness
        self.hints: list[str] = []
        self.asked = 0

    def _decode(self, encoded: Any, language: str, probability: float, hint: str, most_tokens: int) -> _Hearing:
        self.hints.append(hint)
        return self.hearings[bool(hint)]

    def _tokenizer(self, language: str) -> Any:
        return _Letters

    def _token_probabilities(self, encoded: Any, hearing: _Hearing) -> Sequence[float]:
        self.asked += 1
        return [self.sureness] * len(hearing.tokens)

    def understand(self, *expected: str) -> str:
        return self._understand(None, "ja", 1.0, expected, 99).text


def two(plain: str, helped: str, gain: float = 0.2, sureness: float = 0.3) -> TwoHearings:
    return TwoHearings(
        _Hearing(plain, "ja", 1.0, 0.0, -0.4, tokens_of(plain)),
        _Hearing(helped, "ja", 1.0, 0.0, -0.4 + gain, tokens_of(helped)),
        sureness,
    )


def test_without_hot_words_the_sound_is_decoded_once() -> None:
    model = two("夢が変わる", "ユメが変わる")
    assert model.understand() == "夢が変わる"
    assert model.hints == [""]


@pytest.mark.parametrize("gain", [-0.1, 0.0, 0.9])
def test_a_hint_that_only_changed_other_words_is_not_followed(gain: float) -> None:
    model = two("夢が変わる", "ユメが変わる", gain)
    assert model.understand("ユメカワ堂") == "夢が変わる"
    assert model.hints == ["", "ユメカワ堂。"]
    assert model.asked == 0


def test_a_name_takes_the_place_of_unsure_words() -> None:
    assert two("豆乗が増えている", "マメゾウが増えている").understand("マメゾウ") == "マメゾウが増えている"
    assert two("Almir is closed", "Owlmere is closed").understand("Owlmere") == "Owlmere is closed"


def test_a_name_does_not_take_the_place_of_sure_words() -> None:
    model = two("The maple caught fire", "The Maplecott fire", sureness=0.63)
    assert model.understand("Maplecott") == "The maple caught fire"
    assert two("豆を蔵に入れた", "マメゾウに入れた", sureness=0.6).understand("マメゾウ") == "豆を蔵に入れた"


def test_a_name_that_fits_no_better_is_not_asked_about() -> None:
    model = two("The maple caught fire", "The Maplecott fire", gain=0.04)
    assert model.understand("Maplecott") == "The maple caught fire"
    assert model.asked == 0


def test_a_name_that_both_hear_is_not_asked_about() -> None:
    model = two("マメゾウがほえた", "マメゾウが吠えた", sureness=1.0)
    assert model.understand("マメゾウ") == "マメゾウが吠えた"
    assert model.asked == 0


def test_one_unsure_token_is_enough_for_a_name() -> None:
    model = two("猫のすけ", "ネコノスケ", sureness=0.9)
    model._token_probabilities = lambda encoded, hearing: [0.9, 0.59, 0.9, 0.9]  # type: ignore[method-assign]
    assert model.understand("ネコノスケ") == "ネコノスケ"


@pytest.mark.parametrize(
    ("name", "helped", "plain", "words"),
    [
        ("マメゾウ", "あのマメゾウが増えた。", "あの豆乗が植えた", "豆乗"),
        ("Zub", "call Zub today", "call Rik today", "Rik"),
        ("朝霧さん", "朝霧さんにお礼をいた", "朝ギリさんにお礼を行った", "ギリ"),
        ("ユキ", "ユキが来た", "来た", ""),
        ("𠮷野家", "𠮷野家へ", "よしのやへ", "よしのや"),
        ("ユキ", "何も", "何か", ""),
        ("ユキ", "", "", ""),
    ],
)
def test_only_the_words_in_place_of_the_name_are_judged(name: str, helped: str, plain: str, words: str) -> None:
    found = "".join(plain[place] for place in places_of([name], tokens_of(helped), tokens_of(plain), decode))
    assert found == words


@pytest.mark.parametrize(
    ("name", "helped", "plain", "ratio"),
    [
        ("月影橋", "月影橋で待って", "突きかげばしで待って", 2.0),
        ("桜坂", "桜坂へ", "さくら坂へ", 2.0),
        ("鐘鳴坂", "鐘鳴坂を行こう。", "金がなったら坂を行こう", 7 / 3),
        ("マメゾウ", "マメゾウが来た", "豆乗が来た", 0.5),
        ("ユキ", "ユキが来た", "ユキが来た", 1.0),
        ("ユキ", "あのユキが", "あのが", 0.0),
        ("Zub", "call Zub today", "call Rik today", 1.0),
    ],
)
def test_the_letters_that_a_name_replaces_are_counted(name: str, helped: str, plain: str, ratio: float) -> None:
    assert letters_replaced(name, helped, plain) == pytest.approx(ratio)


def test_a_name_that_swallows_words_is_not_believed() -> None:
    model = two("金がなったら坂を行こう", "鐘鳴坂を行こう", gain=0.9)
    assert model.understand("鐘鳴坂") == "金がなったら坂を行こう"
    assert two("突きかげばしで待って", "月影橋で待って").understand("月影橋") == "月影橋で待って"
