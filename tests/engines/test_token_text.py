"""Tokens to text, with characters that come in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.engines.llm.token_text import TokenText

pytestmark = pytest.mark.unit


def as_bytes(tokens):
    """Every token is a byte."""
    return bytes(tokens).decode("utf-8", "replace")


def pieces(tokens, decode=as_bytes):
    text = TokenText(decode)
    return [*(text.feed(token) for token in tokens), text.finish()]


@pytest.mark.parametrize("words", ["hello", "うん、元気だよ。", "😀👨‍👩‍👧 e\u0301 ｶﾞ", "", "a😀"])
def test_bytes_of_words_become_the_words(words):
    out = pieces(words.encode())
    assert "".join(out) == words
    assert not any("\ufffd" in piece for piece in out)
    assert out[-1] == ""


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=30))
def test_any_words_come_out_whole(words):
    out = pieces(words.encode())
    assert "".join(out) == words
    assert not any("\ufffd" in piece for piece in out)


def test_a_character_that_was_cut_is_left_out():
    assert "".join(pieces("はい😀".encode()[:-1])) == "はい"
    assert "".join(pieces("はい".encode()[:-2])) == "は"


def test_what_never_becomes_a_character_holds_nothing_back():
    out = pieces([0x80] * 20 + list(b"ok"))
    assert "".join(out).strip("\ufffd") == "ok"
    assert any(out[:10])


def test_a_real_replacement_character_is_passed_on_with_what_follows():
    assert "".join(pieces("\ufffdはい".encode())).endswith("はい")


def test_a_decoder_that_writes_by_what_stands_before_is_given_it():
    """As a tokenizer does that puts a space before each word but the first."""

    def words(tokens):
        return " ".join(("I", "am", "here")[token] for token in tokens)

    assert pieces([0, 1, 2], words) == ["I", " am", " here", ""]
