"""What the English voice reads well by itself, so that nobody has to write it out, and what it does not."""

from __future__ import annotations

import re

import pytest

from server.pipeline.speakable import speakable

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def phonemes():
    from hibari.g2p import G2P

    read = G2P()
    # Stress and marks differ between a number and its words; the sounds must not.
    return lambda text: re.sub(r"[^\w]|[ˈˌ]", "", read(text).replace("T", "t").replace("d", "t"))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("It costs $5.", "It costs five dollars."),
        ("at 10:30", "at ten thirty"),
        ("50%", "fifty percent"),
        ("3.14", "three point one four"),
        ("the 3rd", "the third"),
        ("in 1999", "in nineteen ninety nine"),
        ("10 km", "ten kilometers"),
        ("3-5 days", "three to five days"),
        ("Dr. Smith", "doctor Smith"),
        ("Henry VIII", "Henry the eighth"),
        ("2026-11-30", "November thirtieth, twenty twenty six"),
        ("v1.2", "version one point two"),
        ("100m", "one hundred meters"),
        ("25°C", "twenty five degrees Celsius"),
        ("30 m²", "thirty square meters"),
        ("6'2\"", "six foot two"),
        ("24/7", "twenty four seven"),
        ("~5 people", "about five people"),
        ("x ≥ 5", "x at least five"),
        ("cats, e.g. lions", "cats, for example lions"),
        ("example.com", "example dot com"),
    ],
)
def test_it_is_heard_like_its_words(phonemes, written: str, words: str) -> None:
    assert phonemes(speakable(written, "en")) == phonemes(words)
