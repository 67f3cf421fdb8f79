"""What tells something, what asks, and what asks to be remembered: with and without question marks."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.questions import asks, only_asks, sentences, without_its_question
from server.memory.telling import orders, tells, written_in

pytestmark = pytest.mark.unit
TODAY = dt.date(2026, 12, 1)
QUESTIONS = (
    *("パソコンはいくらだったっけ", "うちのパソコンの値段、覚えてる？", "パソコンはいくらだったっけ、覚えてる"),
    *("この前のデスクトップの値段覚えてますか", "パソコンの値段って知ってる", "鍵はどこだっけ、ねえ"),
    *("デスクトップの値段を教えて", "誕生日を覚えてくれた？", "猫の名前、忘れてないよね？"),
    *("How much was the desktop again", "Do you remember how much it was?", "do you still remember my birthday"),
    *(
        "マウスいくらだった",
        "昨日何食べた",
        "鍵どこに置いた",
        "誰と会った",
        "それ何の話だ",
        "歯医者いつ行く",
        "so how much was the mouse",
    ),
    *("Can you remember my birthday?", "What did I pay for the desktop?", "Is it Friday already?"),
)


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_tells_nothing(text: str) -> None:
    assert not tells(text, TODAY, "en" if text.isascii() else "ja")
    assert only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        *("鍵は箱の中だよ、覚えておいて", "覚えておいてくれる？暗証番号は二四六八", "覚えててね、鍵は箱の中"),
        *("暗証番号は二四六八、忘れないで", "会議は三時、メモしておいて"),
        *("Remember that the shed is open.", "Can you remember that my flight leaves at six?"),
        *("Please remember my birthday is in May", "Don't forget, the shed is open"),
    ],
)
def test_what_is_to_be_remembered_is_kept_though_it_asks(text: str) -> None:
    assert tells(text, TODAY, "en" if text.isascii() else "ja")
    assert not only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        *("あいつ俺の靴下ばっかり狙うんだ", "あいつ俺の靴下ばっかり狙うんだよな"),
        *("こいつがうちの犬なんだ", "そいつは寝てばかりい"),
        *("みんなに会ったんだ", "そんなに広くない", "ぶどうを買ったんだ", "どうぶつ園に行くんだ", "よだれがすごい"),
        *("The whole family came.", "My candle is lit.", "Whatever he eats, he stays thin.", "Island life suits me."),
    ],
)
def test_a_word_of_asking_within_another_word_asks_nothing(text: str) -> None:
    assert not asks(text)
    assert not only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        *("私は何でも食べられる", "僕は誰とでも話せる", "京都は何度も行った", "何も買わなかった", "何より家族が大事だ"),
        *(
            "鍵をどこに置いたか忘れた",
            "いくらだったと聞いた",
            "いつも駅前で買う",
            "いつか京都に行く",
            "どうも父が来たようだ",
        ),
        *("昨日いくらを食べた", "幾何を習った", "どこへでも歩いて行く", "父はどうしても肉を食べる"),
    ],
)
def test_a_word_of_asking_that_asks_nothing_tells(text: str) -> None:
    assert not asks(text)


@pytest.mark.parametrize(
    "text", ["私は何でも食べられる", "僕は泳げない", "わたしは左利き", "ぼくは朝が弱い", "I can eat anything"]
)
def test_what_somebody_can_do_is_told(text: str) -> None:
    assert tells(text, TODAY, "en" if text.isascii() else "ja")


@pytest.mark.parametrize("text", ["いつ帰るの", "どいつがやったのか", "なにを食べたの", "どうするの", "だれが来たの"])
def test_the_same_words_alone_ask(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["覚えてないよ", "I don't remember", "We remember well"])
def test_that_one_remembers_is_no_request(text: str) -> None:
    assert not tells(text, TODAY, "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("猫を飼うことになったけど、名前はどうしよう？", "猫を飼うことになった。"),
        ("明日は雨なので、傘を持っていくかな", "明日は雨だ。"),
        ("明日は早いから、何時に起きればいいかな", "明日は早い。"),
        ("高いけど、買ったよ。", "高いけど、買ったよ。"),
        ("猫の名前は何にしよう？", "猫の名前は何にしよう？"),
    ],
)
def test_what_is_told_before_it_is_asked_stands_without_the_question(text: str, expected: str) -> None:
    assert without_its_question(text) == expected


def test_sentences_keep_their_marks_and_titles_end_none() -> None:
    assert list(sentences("Mr. Bell came at 3.5. Nice! 行く？うん")) == [
        "Mr. Bell came at 3.5.",
        "Nice!",
        "行く？",
        "うん",
    ]
    assert list(sentences(" \n ")) == []


def test_orders_are_known() -> None:
    assert orders("左を向いて")
    assert orders("Turn left.")
    assert not orders("左に曲がった")


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("寿司", "ja"),
        ("iPhoneを買った", "ja"),
        ("I am here", "latin"),
        ("J'ai faim", "latin"),
        ("OK", None),
        ("25,000", None),
    ],
)
def test_the_script_is_told_where_the_letters_tell(text: str, script: str | None) -> None:
    assert written_in(text) == script


@pytest.mark.parametrize(
    "text",
    [
        *("I'd like you to know that I'm allergic to nuts", "I need you to know my wife is pregnant"),
        *("I have to take insulin. Do you know what it is?", "I have to use a wheelchair. Is there a ramp?"),
        *("Tell me a joke, I'm allergic to nuts", "Play some music, my wife is pregnant"),
        *("I'm allergic to nuts, what can I eat?", "My knee hurts, so should I see a doctor?"),
        *("離婚したいんだけど", "仕事を辞めたいんだけど", "来年留学したいんだけど"),
        *("Will lives in Leeds", "May is my sister", "What I like is tea", "What we need is a bigger flat."),
        *("When I was five I broke my leg", "When my mother died I moved to York"),
        *("母は入院するだろう", "田中さんは転職するだろう"),
    ],
)
def test_what_begins_or_ends_as_a_wish_an_order_or_a_question_is_told(text: str) -> None:
    assert tells(text, dt.date(2026, 11, 30), "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    "text",
    [
        *("I want to call Sarah, what's her number?", "I have to call Sarah. What's her number?"),
        *("Tell me a joke, I'm bored", "Sing a song, please", "I wonder, what time is it?"),
        *("音楽が聴きたいんだけど", "明日は雨だろう", "母は何歳だろう", "いつだろう"),
        *("Will it rain", "When will it rain", "What I like", "Where I put my keys", "Will mom come", "May I go"),
    ],
)
def test_what_is_one_is_not(text: str) -> None:
    assert not tells(text, dt.date(2026, 11, 30), "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Imagine I live on Mars and my brother is a king",
            "Let's pretend my sister is 90",
            "If I were rich, I'd move",
        ),
        *("In the film my brother is a king", "I bought a yacht for 9000 dollars, just kidding"),
        *("嘘だけど、弟は王様だよ", "ドラマの話だけど、弟は王様だよ", "もし私が社長なら給料を上げるし、弟は部長だよ"),
        *("自転車を百万円で買ったよ、なんてね", "自転車を百万円で買ったよ。なんてね。", "弟は王様だよ。冗談だよ。"),
    ],
)
def test_a_story_a_game_or_a_joke_is_not_told(text: str) -> None:
    assert not tells(text, dt.date(2026, 11, 30), "en" if text.isascii() else "ja")


@pytest.mark.parametrize(
    "text",
    [
        *("ドラマを見るのが好きだよ", "映画の約束が金曜にあるよ", "弟は冗談が好きだよ", "嘘が嫌いなんだ"),
        *("I like crime shows.", "My brother plays in a film.", "I hate jokes about cats."),
    ],
)
def test_what_only_speaks_of_stories_is(text: str) -> None:
    assert tells(text, dt.date(2026, 11, 30), "en" if text.isascii() else "ja")
