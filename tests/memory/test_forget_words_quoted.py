"""What is only told of a request, and requests that go on to something else; none of them is something told."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.forget_words import asks_to_forget, parted, turns_to_something_else
from server.memory.telling import tells

pytestmark = pytest.mark.unit

QUOTED = [
    "My wife said: forget about the laptop",
    "My wife always says forget the laptop",
    "He told me: forget the laptop, buy a phone",
    "My boss said, just forget the report.",
    "The teacher wrote: please delete that",
    "Mom told us to forget the party.",
    "They say, forget the past.",
    "My motto: forget the past",
    "妻が言ってた、パソコンのことは忘れて",
    "先生に言われたよ、「試験のことは忘れて」",
    "友達が言うには、彼女のことは忘れて",
]
ASKED = [
    "I said forget the laptop",
    "I told you: forget the laptop",
    "Stackchan: forget the laptop",
    "Forget what my wife said about the laptop.",
    "Forget what I told you yesterday.",
    "My wife sold it, so please forget the laptop.",
    "さっき言ったパソコンのことは忘れて",
    "妻が言ったことは忘れて",
    "僕が前に言った、パソコンのことは忘れて",
]
TURNING = [
    "Forget the laptop, how much was the phone?",
    "Forget the party. What time is it?",
    "Forget the laptop, let's talk about school",
    "Let's forget the party and talk about school",
    "パソコンのことは忘れて。スマホはいくらだっけ？",
    "試験の話は忘れて。何して遊ぼうかな",
]
PLAIN = [
    "Forget the laptop, okay?",
    "Can you forget the laptop?",
    "Forget the laptop, please.",
    "パソコンのことは忘れてくれる？",
    "パソコンのことは忘れて、お願い",
    "パソコンは売ったから、忘れて",
]


@pytest.mark.parametrize(
    ("words", "request_alone", "told"),
    [
        (
            "Forget my old address, I now live in Exampletown",
            "Forget my old address,",
            "I now live in Exampletown",
        ),
        ("I moved to York, so please forget my old address.", "so please forget my old address.", "I moved to York"),
        ("Forget about the bike. I sold the car.", "Forget about the bike.", "I sold the car."),
        ("Forget my old PIN, my new PIN is 9999", "Forget my old PIN,", "my new PIN is 9999"),
        ("前の住所は忘れて、新しい住所はエグザンプル町だよ", "前の住所は忘れて、", "新しい住所はエグザンプル町だよ"),
        ("忘れて。明日は歯医者だよ。", "忘れて。", "明日は歯医者だよ。"),
        ("前の住所は忘れて、今はエグザンプル町に住んでるよ", "前の住所は忘れて、", "今はエグザンプル町に住んでるよ"),
        ("今はエグザンプル町に住んでるから、前の住所は忘れて", "前の住所は忘れて", "今はエグザンプル町に住んでる"),
        ("自転車のことは忘れて。車を売ったよ。", "自転車のことは忘れて。", "車を売ったよ。"),
    ],
)
def test_what_is_told_in_one_breath_with_a_request_is_told_apart(words: str, request_alone: str, told: str) -> None:
    assert parted(words) == (request_alone, told)
    assert tells(words, dt.date(2026, 11, 30), "en" if words.isascii() else "ja")


@pytest.mark.parametrize(
    "words",
    [
        *QUOTED,
        *ASKED,
        *PLAIN,
        # Which one, what is pointed at, how it is asked, and what is no sentence.
        *(
            "Forget the laptop, the Fujitsu one",
            "Forget the laptop, I never liked it",
            "Forget the address, my old address",
        ),
        *("I told you about the laptop, forget it", "Forget about the laptop and my phone number"),
        *("パソコンのことは忘れて、富士通のやつだよ", "忘れて、パソコンのこと", "昨日話した、パソコンのことは忘れて"),
        *("パソコンを三万円で買ったけど、それは忘れて", "パソコンは売ったから、もう忘れて", "車を売ったよ。"),
    ],
)
def test_what_belongs_to_the_request_is_not_told(words: str) -> None:
    assert parted(words) == (words, "")


@pytest.mark.parametrize(
    ("words", "request_alone"),
    [
        # The thing itself, as it is told or in other words; it may be known by nothing else.
        ("My PIN is 4821, forget my PIN", "forget my PIN"),
        ("My PIN is 4821. Forget my PIN.", "Forget my PIN."),
        ("暗証番号は4821だけど、暗証番号は忘れて", "暗証番号は忘れて"),
        ("暗証番号は4821だよ。暗証番号のことは忘れて", "暗証番号のことは忘れて"),
        ("4821は銀行の番号だから、暗証番号は忘れて", "暗証番号は忘れて"),
        ("僕は糖尿病だけど、病気のことは忘れて", "病気のことは忘れて"),
        ("I have diabetes. Forget my illness.", "Forget my illness."),
        ("I live at 12 Old Lane, so forget my address", "so forget my address"),
        ("旧町から新町に引っ越したから、旧町は忘れて", "旧町は忘れて"),
        ("旧町の住所は忘れて、もう引っ越したから", "旧町の住所は忘れて、"),
        # Whom or what it was about.
        ("Forget about my girlfriend, Anna left me", "Forget about my girlfriend,"),
        ("花子と別れたから、彼女のことは忘れて", "彼女のことは忘れて"),
        # Why.
        ("Forget that I have HIV, I don't want my wife to know", "Forget that I have HIV,"),
        ("Forget that I have HIV. I don't want my wife to know.", "Forget that I have HIV."),
        ("妻にばれたら困るから、借りたことは忘れて", "借りたことは忘れて"),
        ("自転車のことは忘れて、しばらく乗らないから", "自転車のことは忘れて、"),
    ],
)
def test_what_is_the_thing_itself_or_why_it_is_forgotten_is_not_told(words: str, request_alone: str) -> None:
    assert parted(words) == (request_alone, "")
    assert not tells(words, dt.date(2026, 11, 30), "en" if words.isascii() else "ja")


@pytest.mark.parametrize("words", QUOTED)
def test_what_somebody_else_has_said_is_no_request(words: str) -> None:
    assert not asks_to_forget(words)


@pytest.mark.parametrize("words", [*ASKED, *PLAIN])
def test_requests_beside_words_of_saying_are_requests(words: str) -> None:
    assert asks_to_forget(words)
    assert not turns_to_something_else(words)


@pytest.mark.parametrize("words", TURNING)
def test_a_request_that_goes_on_to_something_else_is_not_certain(words: str) -> None:
    assert asks_to_forget(words)
    assert turns_to_something_else(words)


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("自転車のことは忘れて", "ja"),
        ("自転車のことは忘れてください。", "ja"),
        ("三万円の富士通のパソコンのことはもう忘れていいよ", "ja"),
        ("Forget about my bike.", "en"),
        ("Please forget that I bought a bike for 200 dollars.", "en"),
        ("Remember Luna and forget the laptop", "en"),
        ("ミケのことは覚えておいて、パソコンのことは忘れて", "ja"),
    ],
)
def test_a_request_to_forget_is_never_told(words: str, language: str) -> None:
    assert not tells(words, dt.date(2026, 11, 30), language)


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("自転車のことは忘れて。車を売ったよ。", "ja"),
        ("Forget about the bike. I sold the car.", "en"),
        ("明日の歯医者を忘れないでね", "ja"),
        ("Don't forget my appointment on Friday", "en"),
    ],
)
def test_what_is_told_beside_it_is_told(words: str, language: str) -> None:
    assert tells(words, dt.date(2026, 11, 30), language)
