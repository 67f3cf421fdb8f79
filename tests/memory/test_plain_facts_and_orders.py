"""Short facts of a life are told; orders to the robot and its devices are not, whatever numbers are in them."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.prompts import SpokenExchange
from server.memory.quoting import quoted
from server.memory.telling import orders, tells

pytestmark = pytest.mark.unit
TODAY = dt.date(2026, 12, 1)


def language(text: str) -> str:
    return "en" if text.replace("’", "'").isascii() else "ja"


@pytest.mark.parametrize(
    "text",
    [
        *("I like sushi.", "I don't like coriander.", "I love jazz.", "I hate mushrooms.", "We enjoy hiking."),
        *("I'm vegetarian.", "I’m diabetic.", "I'm a nurse.", "I am left-handed.", "She's an architect."),
        *("I'm from Leeds.",),
        *("I have asthma.", "I've got a cat.", "We have twins.", "I'm pregnant.", "I'm retired."),
        *("I'm allergic to nuts.",),
        *("We moved.", "I got married.", "I quit.", "I smoke.", "I don't drink.", "Call me Bob."),
        *("左利きなんだ", "看護師なんだ", "糖尿病なんだ", "ベジタリアンです", "卵アレルギーなの"),
    ],
)  # fmt: skip
def test_a_plain_fact_is_told_also_in_answer_to_the_robot(text: str) -> None:
    assert tells(text, TODAY, language(text))
    asked = "Tell me about you?" if language(text) == "en" else "どんな人なの？"
    said = [SpokenExchange("Good morning", asked, TODAY), SpokenExchange(text, "OK.", TODAY)]
    (draft,) = quoted(said, language(text))
    assert draft.about == (1,)


@pytest.mark.parametrize(
    "text",
    [
        *("I'm tired.", "I'm fine", "I'm hungry", "I'm bored.", "I'm so excited", "I'm not sure.", "I’m sorry."),
        *("I'm going.", "I'm in bed.", "I have a question.", "I have no idea.", "I like it.", "I'd like that."),
        *("疲れたなあ", "元気だよ", "眠いな"),
    ],
)
def test_what_passes_is_not(text: str) -> None:
    assert not tells(text, TODAY, language(text))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "五分のタイマーをかけて。",
            "アラームを七時にセットして。",
            "田中さんに電話をかけて。",
            "音楽をかけてくれる。",
        ),
        *("タイマーを三分かけておいて", "七時に起こしてください", "電気を消してもらえる", "窓を開けてほしいな"),
        *("買い物リストに牛乳を追加して", "音量を五に下げて", "エアコンを二十五度にして"),
        *("Open the window.", "Switch off the lamp.", "Add milk to the shopping list.", "Book a table for two."),
        *("Please call Sarah.", "Hey StackChan, set a timer for five minutes.", "Wake me at seven.", "Text Anna."),
        *("Close the curtains, please.", "Cancel the alarm.", "Put bread on my shopping list."),
    ],
)
def test_an_order_is_not(text: str) -> None:
    assert not tells(text, TODAY, language(text))
    assert orders(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Remember that the alarm is set to seven.", "Make a note that the shed is open."),
        *("I opened the window at three.",),
        *("Book club is on Friday at seven.", "Open days are on Friday.", "Put my keys in the red box on Friday."),
        *("鍵は箱の中、覚えておいてください", "アラームは七時、覚えておいて", "母が毎日弁当を作ってくれる"),
        *("父が駅まで送ってくれる", "昨日窓を三枚割られた", "友達が電話をくれた", "新しいテレビを買って、居間に置いた"),
        *("明日は大阪に出張だから、六時に起こして",),
    ],
)  # fmt: skip
def test_what_is_to_be_remembered_or_tells_of_a_device_is(text: str) -> None:
    assert tells(text, TODAY, language(text))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        *(("七時にアラーム", False), ("三分で頼む", False), ("An alarm at seven, then", False)),
        *(("明日は七時に歯医者なんだ", True), ("I see the dentist at seven", True), ("七時だよ、覚えておいて", True)),
        *(("鍵の番号は二四六八だよ。七時に鳴らして", True),),
    ],
)
def test_what_made_the_robot_use_a_device_was_an_order(text: str, kept: bool) -> None:
    said = [SpokenExchange(text, None, TODAY, ordered=True)]
    assert bool(quoted(said, language(text))) is kept


@pytest.mark.parametrize("text", ["Hey Anna", "Hello Kitty", "こんばんは、お父さん", "ねえ、カレー", "Hi, twelve"])
def test_whoever_is_greeted_is_no_memory(text: str) -> None:
    assert not tells(text, TODAY, language(text))
    assert quoted([SpokenExchange(text, "OK.", TODAY)], language(text)) == ()


@pytest.mark.parametrize(
    ("asked", "text", "summary"),
    [
        ("When is the party?", "Thanks, Friday", "The party: Friday."),
        ("How old is your son?", "Hi, twelve", "twelve"),
        ("会議は何時？", "ありがとう、七時", "会議は七時。"),
    ],
)
def test_an_answer_after_a_greeting_is_kept(asked: str, text: str, summary: str) -> None:
    said = [SpokenExchange("Let me think" if language(text) == "en" else "うーんとね", asked, TODAY)]
    (draft,) = quoted([*said, SpokenExchange(text, "OK.", TODAY)], language(text))
    assert summary in draft.summary
    assert "Thanks" not in draft.summary
