"""What is cleaned on its way into a database, and what is left alone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from server.errors import StorageError
from server.storage.types import UtcDateTime, clean_json, clean_text, is_visible

pytestmark = pytest.mark.unit

FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("富士通のPC", "富士通のPC"),
        (FAMILY, FAMILY),
        ("か\N{COMBINING KATAKANA-HIRAGANA VOICED SOUND MARK}", "か\N{COMBINING KATAKANA-HIRAGANA VOICED SOUND MARK}"),
        ("a\nb\tc\r\n", "a\nb\tc\r\n"),
        ("", ""),
        ("a\0b", "ab"),
        ("\ud83d\ude00", "😀"),
        ("x\ud83dy", "x\N{REPLACEMENT CHARACTER}y"),
        ("\ude00", "\N{REPLACEMENT CHARACTER}"),
        ("\ude00\ud83d", "\N{REPLACEMENT CHARACTER}" * 2),
        ("😀\ud800" + "あ" * 3, "😀\N{REPLACEMENT CHARACTER}あああ"),
    ],
)
def test_clean_text(given_text: str, stored: str) -> None:
    assert clean_text(given_text) == stored


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_cleaned_text_can_be_written_and_is_clean(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    assert clean_text(cleaned) == cleaned


def test_clean_json_reaches_every_text() -> None:
    assert clean_json({"a\0": ["\ud800", {"b": ("x\0", 1, None, True)}]}) == {
        "a": ["\ufffd", {"b": ["x", 1, None, True]}]
    }


def test_naive_time_is_refused() -> None:
    with pytest.raises(StorageError, match="without a time zone"):
        UtcDateTime().process_bind_param(dt.datetime(2026, 1, 1), sqlite.dialect())


def test_time_is_kept_as_the_same_instant_in_utc() -> None:
    tokyo = dt.datetime(2026, 1, 1, 8, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    bound = UtcDateTime().process_bind_param(tokyo, sqlite.dialect())
    assert bound == dt.datetime(2025, 12, 31, 23, 30, tzinfo=dt.UTC)
    read = UtcDateTime().process_result_value(bound.replace(tzinfo=None), sqlite.dialect())
    assert read == tokyo
    assert read is not None
    assert read.tzinfo is dt.UTC


@pytest.mark.parametrize("text", ["猫", "a", "7", "!", FAMILY, "❤\ufe0f", "+", "\u200dが", "か\u3099", "𠮷", "ｶ"])
def test_what_can_be_seen_is_visible(text: str) -> None:
    assert is_visible(text)


@pytest.mark.parametrize(
    "text", ["", " ", "\u3000", "\u200d", "\u200b\ufeff", "\u3099", "\ufe0f", "\0", "\u3164", "\u2800"]
)
def test_joiners_spaces_and_fillers_alone_are_not_visible(text: str) -> None:
    assert not is_visible(text)
