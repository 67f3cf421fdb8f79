"""What a small model may say after it was asked and something was found: what the memory says, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from server.context.memory_replies import replies_from_memory

pytestmark = pytest.mark.unit


def found(summary: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"memory_id": "m1", "summary": summary, "occurred_at": "2026-11-20", **more}]}


@pytest.mark.parametrize(
    ("question", "summary", "reply"),
    [
        ("自転車はいくらだった？", "自転車は四万八千円だった。", "「自転車は四万八千円だった」って聞いたよ。"),
        ("ぼくの嫌いな食べ物は？", "パクチーが大嫌いなんだ。", "「パクチーが大嫌いなんだ」って聞いたよ。"),
        ("モカは何歳？", "うちの犬はモカだよ。", "そこまでは聞いていないよ。「うちの犬はモカだよ」とは聞いたよ。"),
        ("パソコンはいつ買った？", "パソコンを買ったよ。", "「パソコンを買ったよ」って11月20日に聞いたよ。"),
        ("会議は何時？", "会議は午後だよ。", "「会議は午後だよ」って聞いたよ。"),
        ("自転車はいくらだった？", "The bike was 48 dollars.", "「The bike was 48 dollars」って聞いたよ。"),
    ],
)
def test_a_japanese_question_gets_the_words_of_the_memory(question: str, summary: str, reply: str) -> None:
    assert replies_from_memory(found(summary), question, "ja") == (reply,)


@pytest.mark.parametrize(
    ("question", "summary", "reply"),
    [
        ("What's my cat's name?", "My cat's name is Pepper.", "You told me that your cat's name is Pepper."),
        ("What can't I eat?", "I'm allergic to peanuts.", "You told me that you're allergic to peanuts."),
        (
            "What did we do?",
            "We were at our hut and I was tired.",
            "You told me that you were at your hut and you were tired.",
        ),
        (
            "Where is Anna?",
            "Anna lives in Leeds. She likes me.",
            "You told me that Anna lives in Leeds. She likes you.",
        ),
        ("How old is Pepper?", "My cat is Pepper.", "You did not tell me that, only that your cat is Pepper."),
        ("When did I buy it?", "I bought a bike.", "On November 20 you told me that you bought a bike."),
        ("How much was it?", "The kayak: 640 dollars.", "You told me this: “The kayak: 640 dollars”."),
        ("What did I say?", "I like your face.", "You told me this: “I like your face”."),
        ("How much was the bike?", "自転車は三万円。", "You told me this: “自転車は三万円”."),
    ],
)
def test_an_english_question_gets_them_as_they_are_told_to_who_said_them(
    question: str, summary: str, reply: str
) -> None:
    assert replies_from_memory(found(summary), question, "en") == (reply,)


@pytest.mark.parametrize(
    "summary",
    [
        *(
            "I-Ling is my sister.",
            "The password is Me-and-I-4821.",
            "My phone is an i-phone-I.",
            "My team is ME United.",
        ),
        *("My favourite song is Let it be me.", 'She said "I hate my job".', "My book is called Me before us."),
        *("My Chemical Romance is on Friday.", "I live in the US.", "My site is me.example and I like it: yes."),
        *("Us is a film I love.", "I read about World War I.", "I like ‘My way’."),
    ],
)
def test_a_name_or_a_title_is_never_changed(summary: str) -> None:
    (reply,) = replies_from_memory(found(summary), "What was it?", "en")
    assert reply == f"You told me this: “{summary.rstrip('.')}”."


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("I was born in May. My cat is old.", "that you were born in May. Your cat is old."),
        ("My mail is me@me.org.", "that your mail is me@me.org."),
        ("Bus 12 takes me to work.", "that Bus 12 takes you to work."),
        ("Our house is blue and we love it.", "that your house is blue and you love it."),
        ("We've moved.", "that you've moved."),
    ],
)
def test_whole_words_of_who_speaks_are_turned(summary: str, told: str) -> None:
    assert replies_from_memory(found(summary), "What was it?", "en") == (f"You told me {told}",)


@pytest.mark.parametrize(
    ("question", "summaries", "told"),
    [
        ("私の体重は？", ("去年の体重は60キロだった。", "体重は70キロだよ。"), "体重は70キロだよ"),
        ("私の体重は？", ("体重は60キロにしたい。", "体重は70キロだよ。"), "体重は70キロだよ"),
        ("私の体重は？", ("体重は70キロだよ。", "去年の体重は60キロだった。"), "体重は70キロだよ"),
        ("去年の体重は？", ("去年の体重は60キロだった。", "体重は70キロだよ。"), "去年の体重は60キロだった"),
        ("私の体重は？", ("去年の体重は60キロだった。", "犬は七歳だよ。"), "去年の体重は60キロだった"),
        (
            "What's my rent?",
            ("My rent was 500 dollars in 2010.", "My rent is 800 dollars."),
            "that your rent is 800 dollars.",
        ),
    ],
)
def test_what_is_so_is_told_before_what_was_or_is_wished(question: str, summaries: tuple[str, ...], told: str) -> None:
    result = {"candidates": [*found(summaries[0])["candidates"], *found(summaries[1])["candidates"]]}
    (reply,) = replies_from_memory(result, question, "en" if question.isascii() else "ja")
    assert told in reply


def test_what_only_may_be_meant_is_asked_about() -> None:
    unsure = found("傘は黄色だよ。", unsure=True)
    assert replies_from_memory(unsure, "かさの色は？", "ja") == ("「傘は黄色だよ」のことかな。",)
    assert replies_from_memory(unsure, "What colour?", "en") == ("Do you mean this: “傘は黄色だよ”?",)
    two = [
        {"memory_id": "m1", "summary": "赤い自転車を買った。"},
        {"memory_id": "m2", "summary": "青い自転車も買った。"},
    ]
    which = {"candidates": two, "ambiguous": True}
    assert replies_from_memory(which, "自転車は？", "ja") == (
        "「赤い自転車を買った」と「青い自転車も買った」、どっちのことかな。",
    )
    assert replies_from_memory(which, "The bike?", "en") == (
        "Which one do you mean: “赤い自転車を買った” or “青い自転車も買った”?",
    )


def test_words_of_a_minute_ago_answer_where_no_memory_does() -> None:
    said = {"candidates": [], "said": [{"source_turn_id": 3, "said_at": "2026-11-30", "text": "鍵は棚の上だよ"}]}
    assert replies_from_memory(said, "鍵はどこ？", "ja") == ("「鍵は棚の上だよ」って聞いたよ。",)


@pytest.mark.parametrize(
    ("question", "language", "replies"),
    [
        ("うちの犬の名前、覚えてる？", "ja", ("ごめんね、それは覚えていないよ。",)),
        ("What is my brother's job?", "en", ("Sorry, I do not remember that.",)),
        ("Which food do I hate?", "en", ("Sorry, I do not remember that.",)),
        ("一年は何か月？", "ja", ()),
        ("Who invented the telephone?", "en", ()),
    ],
)
def test_where_nothing_was_found_nothing_is_made_up_of_the_life_of_who_asks(
    question: str, language: str, replies: tuple[str, ...]
) -> None:
    assert replies_from_memory({"candidates": [], "note": "nothing found"}, question, language) == replies


@pytest.mark.parametrize(
    "odd",
    [
        *({}, {"candidates": [], "note": "nothing found"}, {"error": "no"}, {"candidates": "x"}),
        *({"candidates": [3, None]}, {"candidates": [{"summary": 3}]}, {"candidates": [{"summary": " 。"}]}),
        {"candidates": [{"summary": "a"}], "error": "x"},
    ],
)
def test_a_result_that_tells_nothing_leaves_the_reply_free(odd: dict[str, Any]) -> None:
    assert replies_from_memory(odd, "鍵は？", "ja") == ()
    assert replies_from_memory(odd, "The key?", "en") == ()


def test_a_long_memory_is_told_in_short_and_on_one_line() -> None:
    (japanese,) = replies_from_memory(found("あ\n\nい" * 100, occurred_at="soon"), "いつ？", "ja")
    (english,) = replies_from_memory(found("I was " + "very " * 99, occurred_at=3), "when?", "en")
    assert len(japanese) < 100
    assert len(english) < 220
    assert "\n" not in japanese + english
