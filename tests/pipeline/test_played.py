"""How much of a reply was heard before it was interrupted."""

from __future__ import annotations

import pytest

from server.pipeline.played import SpokenWords

pytestmark = pytest.mark.unit

RATE_HZ = 24_000


def spoken(*sentences: tuple[str, float], before_ms: float = 0) -> SpokenWords:
    words = SpokenWords(RATE_HZ)
    words.samples(round(before_ms * RATE_HZ / 1000))
    for text, milliseconds in sentences:
        words.sentence(text)
        # In two pieces, as a voice gives them.
        half = round(milliseconds * RATE_HZ / 2000)
        words.samples(half)
        words.samples(round(milliseconds * RATE_HZ / 1000) - half)
    return words


@pytest.mark.parametrize(
    ("played_ms", "heard"),
    [
        (-5, ""),
        (0, ""),
        (500, "中古"),
        (1000, "中古で三万"),
        (2000, "中古で三万円だったよ。"),
        (2500, "中古で三万円だったよ。いい買い"),
        (3000, "中古で三万円だったよ。いい買い物だね。"),
        (9000, "中古で三万円だったよ。いい買い物だね。"),
    ],
)
def test_japanese_is_cut_between_characters(played_ms: float, heard: str) -> None:
    words = spoken(("中古で三万円だったよ。", 1900), ("いい買い物だね。", 1100))
    assert words.duration_ms == 3000
    assert words.until(played_ms) == heard


@pytest.mark.parametrize(
    ("played_ms", "heard"),
    [
        (60, ""),
        (100, "It"),
        (400, "It was"),
        (1000, "It was thirty thousand yen."),
        (1500, "It was thirty thousand yen. A good"),
        (2000, "It was thirty thousand yen. A good bargain!"),
    ],
)
def test_no_english_word_is_cut(played_ms: float, heard: str) -> None:
    assert spoken(("It was thirty thousand yen.", 1000), ("A good bargain!", 1000)).until(played_ms) == heard


def test_a_filler_before_the_reply_says_none_of_it() -> None:
    words = spoken(("はい、そうだよ。", 1000), before_ms=800)
    assert words.duration_ms == 1800
    assert words.until(800) == ""
    assert words.until(1300) == "はい、そ"


def test_a_device_that_counts_whole_frames_has_heard_the_end() -> None:
    assert spoken(("そうだよ。", 1010)).until(1000) == "そうだよ。"


def test_a_sentence_without_sound_was_not_heard() -> None:
    words = SpokenWords(RATE_HZ)
    words.sentence("そうだよ。")
    assert words.duration_ms == 0
    assert words.until(1000) == ""
