"""What was said after "which one?" and chooses nothing: to keep, to talk of something else, to ask."""

from __future__ import annotations

import pytest

from server.memory.choosing import agrees, chosen, refuses
from server.memory.meant import memory_thing
from tests.memory.test_memory_tools import memory

pytestmark = pytest.mark.unit

JAPANESE = [
    memory_thing(memory(place, said, topic="", entities=()))
    for place, said in enumerate(["青い自転車を二万円で買った。", "赤い自転車を三万円で買った。"], 1)
]
ENGLISH = [
    memory_thing(memory(place, said, topic="", entities=()))
    for place, said in enumerate(["I bought a blue bike for 200 dollars.", "I bought a red bike for 300 dollars."], 1)
]


@pytest.mark.parametrize(
    "answer",
    [
        "両方覚えておいて",
        "全部残しておいて",
        "どっちも消さないで",
        "赤いのは消さないで",
        "赤いのはまだ乗ってるから",
        "赤い自転車は大事だから",
        "みんな元気にしてるかな",
        "全部食べちゃった",
        "赤い車が最後に来たよ",
        "最後に教えてほしいんだけど、今日の天気は",
        "最初はグー",
        "両方とも好きなんだよね",
        "二番目の兄が来るよ",
        "古い友達に会ったよ",
        "上のほうが騒がしいね",
        "赤いほうが好き",
        "全部？",
        "二つ目かな",
        "そのまま両方置いておいて",
        "自転車で出かけてくるね",
        "三万円もしたんだよ",
    ],
)
def test_japanese_words_that_choose_nothing(answer: str) -> None:
    assert not chosen(answer, JAPANESE), answer


@pytest.mark.parametrize(
    "answer",
    [
        "Don't delete all of them",
        "Do not erase the red one",
        "I still need the red one",
        "I need both of them",
        "Remember both",
        "Keep them all",
        "That's all, thanks",
        "It's all good",
        "All right",
        "All I want is a nap",
        "what a beautiful old song",
        "The last train left",
        "First of all, what's the weather?",
        "I rode the red bike today",
        "The red one is my favorite",
        "Both?",
        "I love everything about it",
        "My new boss is nice",
        "the last one was funny",
    ],
)
def test_english_words_that_choose_nothing(answer: str) -> None:
    assert not chosen(answer, ENGLISH), answer


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("赤いの", [1]),
        ("赤い自転車", [1]),
        ("赤いほうをお願い", [1]),
        ("赤いのは忘れて", [1]),
        ("えっと、青いやつだよ", [0]),
        ("二万円のほう", [0]),
        ("三万円で買ったほう", [1]),
        ("三万円じゃないほう", [0]),
        ("二万円のじゃないほう", [1]),
        ("うん、全部消して", [0, 1]),
        ("両方忘れていいよ", [0, 1]),
        ("二つ目でお願いします", [1]),
        ("最後のを忘れて", [1]),
        ("三番目", None),
    ],
)
def test_japanese_choices(answer: str, places: list[int] | None) -> None:
    assert chosen(answer, JAPANESE) == (None if places is None else tuple(JAPANESE[place] for place in places))


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("The red one, please.", [1]),
        ("Forget the blue bike", [0]),
        ("the one for 300 dollars", [1]),
        ("Um, the first one", [0]),
        ("Both, thanks", [0, 1]),
        ("Please delete all of them.", [0, 1]),
        ("It's the red one", [1]),
        ("not the red one", [0]),
    ],
)
def test_english_choices(answer: str, places: list[int]) -> None:
    assert chosen(answer, ENGLISH) == tuple(ENGLISH[place] for place in places)


def test_what_a_model_makes_of_it_counts_only_where_the_words_agree_and_keep_nothing() -> None:
    assert agrees("うん、そうだね")
    assert agrees("Yes, please")
    assert not agrees("うん、寒いね")
    assert refuses("赤いのはまだいるから")
    assert refuses("I still need it")
    assert not refuses("黒いほう")
