"""What is wanted of the robot, to be told or to be done, is told apart from what is told of a life."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.telling import tells
from server.memory.wishes import is_of_their_life, wants_to_know

pytestmark = pytest.mark.unit
TODAY = dt.date(2026, 12, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("田中さんの番号を教えて", "鍵はどこだっけ", "猫の名前が思い出せない", "えっと、傘は何色だった？"),
        *("田中さんに電話したいんだけど、番号わかる？",),
        *(
            "Tell me Sarah's number",
            "Can you tell me where the key is",
            "Remind me where I parked",
            "I forgot what it was",
        ),
        *("I want to call Sarah. What's her number?", "I can't remember how much it cost."),
    ],
)
def test_what_is_to_be_told(text: str) -> None:
    assert wants_to_know(text)


@pytest.mark.parametrize(
    "text",
    [
        *("傘を忘れちゃった", "猫を飼い始めたよ", "左を見て", "ただいま"),
        *(
            "Tell me a story",
            "Remind me to buy milk",
            "I forgot my umbrella at work.",
            "Good morning",
            "My cat is Luna.",
        ),
    ],
)
def test_what_is_not(text: str) -> None:
    assert not wants_to_know(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "田中さんに電話したいんだけど、番号わかる？",
            "サラに電話したいんだけど",
            "音楽が聴きたいな",
            "何か教えてほしいんだ",
        ),
        *("I want to call Sarah. What's her number?", "What's Sarah's number? I'd like to call her."),
        *("I want to hear a song.", "I'd like you to sing for my sister.", "I want to know the price of my bike."),
        *(
            "おはよう、スタックチャン",
            "Good morning, StackChan",
            "Remind me where my passport is",
            "鍵の番号が思い出せない",
        ),
    ],
)
def test_a_wish_that_leads_up_to_a_request_tells_nothing(text: str) -> None:
    assert not tells(text, TODAY, "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    "text",
    [
        *("来年はパリに行きたいんだ", "サラに電話したいな", "犬を飼いたいんだけど、アパートだからだめなんだ"),
        *("昨日は冷たいビールを三本飲んだんだ", "明日の三時に歯医者に行きたいんだけど、雨かな？"),
        *("I want to visit Paris someday.", "My name is Bob. I want to call Sarah. What's her number?"),
        *("I want to see the dentist on Friday. Is it open?", "I'd like to learn the piano."),
    ],
)
def test_a_wish_of_a_life_is_told(text: str) -> None:
    assert tells(text, TODAY, "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    "text",
    [
        *("How do I boil an egg?", "How long do I boil an egg?", "Do I need an umbrella today?", "Why do we yawn?"),
        *(
            "What do I do if a fuse blows?",
            "Where do I buy stamps?",
            "How can I sleep better?",
            "Should I wear a coat?",
        ),
        *("ボクシングって何？", "シャドーボクシングは何？", "私立の学校って何？", "なぜ木は倒れるの？"),
    ],
)
def test_a_question_about_the_world_is_not_about_who_asks_it(text: str) -> None:
    assert wants_to_know(text)
    assert not is_of_their_life(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Where am I flying to on Friday?", "What did I buy?", "Do I have a cat?", "When must I see the dentist?"),
        *(
            "How did I get home?",
            "How do I get to my sister’s?",
            "When do I need to leave?",
            "What do I do for a living?",
        ),
        *("How many cats do I have?", "Do we have milk?", "What can’t I eat?", "Where do I live?"),
        *("ボクの猫は何歳？", "僕は何を買った？", "うちの鍵はどこ？", "おれの傘は何色？", "私の弟は誰？"),
    ],
)
def test_a_question_about_a_life_is(text: str) -> None:
    assert is_of_their_life(text)
