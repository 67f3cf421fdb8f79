"""What asks and what tells, where the words for asking stand in both."""

from __future__ import annotations

import pytest

from server.memory.questions import asks

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "sentence",
    [
        "いつかパリに行きたいんだ",
        "どこか遠くへ行きたいんだ",
        "何か食べたいんだ",
        "誰かが来たんだ",
        "なにか飲み物を買った",
        "いつかまた会いたい",
        "どれかひとつ選んだんだ",
    ],
)
def test_some_day_or_somebody_is_no_question(sentence: str) -> None:
    assert not asks(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "誕生日はいつかな",
        "いつか教えて",
        "誕生日はいつ",
        "鍵って、どこ。",
        "これは誰",
        "いつか、どこかで会った？",
        "何か食べた？",
        "誰が来たか覚えてる？",
        "それ、いくら",
    ],
)
def test_the_same_words_may_ask(sentence: str) -> None:
    assert asks(sentence)
