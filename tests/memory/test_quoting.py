"""Memories in the user's own words: what tells something is quoted, with its days written out; the rest is left out."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.nouns import nouns
from server.memory.prompts import SpokenExchange
from server.memory.questions import asks, sentences
from server.memory.quoting import quoted
from server.memory.telling import tells

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


def said(*words: str) -> list[SpokenExchange]:
    return [SpokenExchange(text, "うん。", MONDAY) for text in words]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("昨日、父が退院した", "ja"),
        ("レバーは苦手", "ja"),
        ("引っ越すことにした", "ja"),
        ("薬は一日に三回飲む", "ja"),
        ("違う、そうじゃない", "ja"),
        ("暗証番号は二四六八だから覚えておいて", "ja"),
        ("庭のトマトが赤くなったよ。食べる？", "ja"),
        ("猫を飼うことになったけど、名前はどうしよう？", "ja"),
        ("My uncle moved to Oslo.", "en"),
        ("I can't stand celery.", "en"),
        ("Our flight leaves at 6:45.", "en"),
        ("Remember that the shed is open.", "en"),
        ("J'ai acheté une voiture rouge", "fr"),
    ],
)
def test_what_tells_something_is_kept(text: str, language: str) -> None:
    assert tells(text, MONDAY, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *(("おはよう", "ja"), ("うん、そう", "ja"), ("", "ja"), ("😀", "ja"), ("\ud800", "ja"), ("。。。", "ja")),
        ("明日は雨かな", "ja"),
        ("鍵はどこに置いたっけ", "ja"),
        ("九たす四は？", "ja"),
        ("左を向いて", "ja"),
        ("歌を歌ってよ", "ja"),
        ("電気消しといて", "ja"),
        ("今日は暑いねえ", "ja"),
        ("キリン", "ja"),
        ("感動したなあ", "ja"),
        ("Is it Friday already?", "en"),
        ("what time is the bus", "en"),
        ("Turn around, please.", "en"),
        ("Oh well.", "en"),
        ("What a day!", "en"),
        ("A zebra?", "en"),
        ("Ça va ?", "fr"),
    ],
)
def test_what_is_asked_ordered_played_or_exclaimed_is_not(text: str, language: str) -> None:
    assert not tells(text, MONDAY, language)


def test_the_words_are_the_users_with_days_written_out() -> None:
    (draft,) = quoted(said("おはよう", "昨日、祖父の時計を\n八千円で直した", "そうなんだ"), "ja")
    assert draft.summary == "2026年11月29日、祖父の時計を 八千円で直した。"
    assert (draft.about, draft.memory_type) == ((1,), "episode")
    assert draft.entities == ("祖父", "時計")
    (english,) = quoted(said("I sold the canoe yesterday", "Nice weather?"), "en")
    assert english.summary == "I sold the canoe on November 29, 2026."
    assert (english.about, english.topic) == ((0,), "canoe")


def test_nothing_told_is_nothing() -> None:
    assert quoted(said("やあ", "右を向いて", "今何時？"), "ja") == ()
    assert quoted([], "ja") == ()


def test_one_topic_is_cut_where_it_grows_long_and_keeps_its_subject() -> None:
    long = [f"メダカの水槽の話のその{number}は、ポンプの音がうるさくて夜に起きてしまうこと" for number in "甲乙丙"]
    drafts = quoted(said(*long), "ja")
    assert [draft.about for draft in drafts] == [(0, 1), (2,)]
    assert {draft.topic.partition("、")[0] for draft in drafts} == {"メダカ"}


def test_a_correction_stays_with_what_it_corrects() -> None:
    long = "叔母のピアノの発表会は市民ホールの小さいほうの部屋で、開演は午後二時から。" * 3
    (draft,) = quoted(said(long, "違う、三時だった"), "ja")
    assert draft.about == (0, 1)
    # Even a question, which tells nothing by itself.
    (corrected,) = quoted(said("自転車はいくらだったっけ", "違う、四万円"), "ja")
    assert corrected.summary == "自転車は四万円。"


def test_a_bare_number_is_kept_as_the_answer_it_is() -> None:
    (draft,) = quoted(said("車検はいくらかかったの", "9万4000円"), "ja")
    assert draft.about == (0, 1)
    assert quoted(said("おはよう", "9万円"), "ja") == ()


@pytest.mark.parametrize(
    ("words", "language"),
    [
        (("前に買ったやつ、いくらだっけ", "違う、二万五千円"), "ja"),
        (("いくら？", "三万円"), "ja"),
        (("自転車って、いつのだっけ", "違う、あれは青い自転車の話だよ"), "ja"),
        (("トマト食べる？まだ庭に沢山あるんだ",), "ja"),
        (("How much was it?", "No, 25,000 yen"), "en"),
        (("You know what? I sold the canoe.",), "en"),
    ],
)
def test_no_memory_begins_with_a_question(words: tuple[str, ...], language: str) -> None:
    (draft,) = quoted(said(*words), language)
    assert not asks(next(sentences(draft.summary)))
    assert draft.about == tuple(range(len(words)))


@pytest.mark.parametrize(
    ("words", "language"),
    [
        (("パソコンはいくらだったっけ", "覚えてる？", "デスクトップの値段を教えて"), "ja"),
        (("Do you remember how much it was?", "How much was the desktop", "Tell me the price"), "en"),
    ],
)
def test_questions_alone_are_no_memory(words: tuple[str, ...], language: str) -> None:
    assert quoted(said(*words), language) == ()


@pytest.mark.parametrize(
    ("words", "language", "expected"),
    [
        (
            ("富士通のパソコンを三万円で買った", "違う、二万五千円だった"),
            "ja",
            "富士通のパソコンを二万五千円で買った。",
        ),
        (("猫のタマが来た", "もう三歳だよ", "タマじゃなくてミケだよ"), "ja", "猫のミケが来た。もう三歳だよ。"),
        (("I bought a kayak for 640 dollars.", "No, 460"), "en", "I bought a kayak for 460 dollars."),
        (("My cat Lena is old.", "it's Luna, not Lena"), "en", "My cat Luna is old."),
    ],
)
def test_a_correction_is_carried_out_in_what_was_just_told(
    words: tuple[str, ...], language: str, expected: str
) -> None:
    (draft,) = quoted(said(*words), language)
    assert (draft.summary, draft.about, draft.value_only) == (expected, tuple(range(len(words))), False)


def test_an_answer_to_what_the_robot_asked_has_the_robots_subject() -> None:
    asked = [SpokenExchange("そろそろだなあ", "車検はいくらかかりましたか。", MONDAY), *said("九万円")]
    (draft,) = quoted(asked, "ja")
    assert (draft.summary, draft.about, draft.value_only) == ("車検は九万円。", (0, 1), True)
    # What came out of memory is not quoted.
    recalled = [SpokenExchange("そろそろだなあ", None, MONDAY), *said("九万円だったよ")]
    assert [one.summary for one in quoted(recalled, "ja")] == ["九万円だったよ。"]


def test_what_only_denies_says_nothing_and_what_follows_it_answers_the_question() -> None:
    (draft,) = quoted(said("パソコンはいくらだったっけ", "違うよ", "二万五千円だよ"), "ja")
    assert (draft.summary, draft.about) == ("パソコンは二万五千円だよ。", (0, 1, 2))
    assert quoted(said("違う、そうじゃない", "That's wrong."), "ja") == ()


def test_two_languages_are_two_memories_and_words_do_not_run_together() -> None:
    drafts = quoted(said("I sold the canoe.", "私は寿司が好き", "My cat Luna is five."), "ja")
    assert [one.summary for one in drafts] == ["I sold the canoe.", "私は寿司が好き。", "My cat Luna is five."]
    (mixed,) = quoted(
        said("推しはLuna", "Lunaは三枚目のアルバムが好き", "iPadで聴いてる曲はBlue", "Lunaの曲が好き"), "ja"
    )
    assert mixed.summary == "推しはLuna。 Lunaは三枚目のアルバムが好き。 iPadで聴いてる曲はBlue。 Lunaの曲が好き。"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("コーヒーより紅茶が好き", "ja", "preference"),
        ("毎朝走ることにした", "ja", "decision"),
        ("先週、歯医者に行った", "ja", "episode"),
        ("姉は看護師だよ", "ja", "fact"),
        ("I prefer tea.", "en", "preference"),
        ("We decided to repaint the fence.", "en", "decision"),
        ("I met an old friend in Kobe.", "en", "episode"),
        ("My desk is by the window.", "en", "fact"),
    ],
)
def test_a_memory_has_its_type(text: str, language: str, expected: str) -> None:
    (draft,) = quoted(said(text), language)
    assert draft.memory_type == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("昨日、富士通のパソコンを三万円で買った", ("富士通", "パソコン")),
        ("三ツ池の近くの喫茶「みなと」", ("三ツ池", "喫茶", "みなと")),
        ("猫のコムギと犬", ("猫", "コムギ")),
        ("おばあちゃん、はるかちゃん、高橋さん", ("おばあちゃん", "はるか", "高橋")),
        ("輪っかちゃんとあった、鴨川のおじさん", ("鴨川", "おじさん")),
        ("話変わるけどさ", ()),
        ("植え替えた", ()),
        ("ｺｰﾋｰ豆", ("コーヒー豆",)),
        ("今日は自分の時間", ()),
        ("My sister Odile is in Bergen with Dr. Amsel", ("sister", "Odile", "Bergen", "Dr. Amsel")),
        ("I bought a used kayak in May.", ("used kayak",)),
        ("The sky is so pretty today", ("sky",)),
        ("", ()),
    ],
)
def test_names_and_things_are_found(text: str, expected: tuple[str, ...]) -> None:
    assert nouns(text, MONDAY) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("明日歯医者に行く", "違う、あさってだよ"), ["2026年12月2日に歯医者に行く。"]),
        (("明日歯医者に行く", "あ、違う、しあさってだよ"), ["2026年12月3日に歯医者に行く。"]),
        (("猫の名前はあんこだよ", "違う、あんこじゃなくてあずきだよ"), ["猫の名前はあずきだよ。"]),
        # The time of day is kept.
        (
            ("明日歯医者に行く", "いや、明後日の三時だよ"),
            ["2026年12月1日に歯医者に行く。いや、2026年12月2日の三時だよ。"],
        ),
        (("母が花子に本をあげた", "母じゃなくて花子だよ"), ["母が花子に本をあげた。母じゃなくて花子だよ。"]),
        (("家賃は月八万円だよ", "違うよ、九万円じゃないよ"), ["家賃は月八万円だよ。"]),
        (("家賃は月八万円だよ", "もし六万円だったらよかったのに"), ["家賃は月八万円だよ。"]),
    ],
)
def test_a_correction_is_carried_out_where_it_is_sure_and_else_stands_as_said(
    words: tuple[str, ...], expected: list[str]
) -> None:
    assert [one.summary for one in quoted(said(*words), "ja")] == expected


@pytest.mark.parametrize(
    ("told", "next_told", "language"),
    [
        ("I started a new job at a bakery in Leeds.", "I'm allergic to peanuts.", "en"),
        ("My mother lives in York.", "I hate mushrooms.", "en"),
        ("My car is a red Mini from 2015.", "I play the cello.", "en"),
        ("来週の金曜日に歯医者に行くよ", "カレーは辛口が好きなんだ", "ja"),
        ("コーヒーは飲めないんだ", "妻の名前は由美だよ", "ja"),
        ("趣味は釣りだよ", "誕生日は五月三日だよ", "ja"),
        ("自転車を四万円で買ったよ", "うちの猫はミケっていうんだ", "ja"),
        ("明日は面接なんだ", "新しい靴を買ったよ", "ja"),
    ],
)
def test_what_is_told_next_of_another_matter_is_a_memory_of_its_own(told: str, next_told: str, language: str) -> None:
    drafts = quoted(said(told, next_told), language)
    assert [draft.about for draft in drafts] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("told", "next_told", "language"),
    [
        ("I bought a kayak.", "I paid 640 dollars.", "en"),
        ("I went to Paris last week.", "We stayed in a small hotel.", "en"),
        ("犬を飼い始めたよ", "名前はモカにしたんだ", "ja"),
        ("京都に行ってきたよ", "宿は駅の近くにしたんだ", "ja"),
        ("姉が結婚するんだ", "誕生日は五月三日だよ", "ja"),
    ],
)
def test_what_may_go_on_with_it_stays_with_it(told: str, next_told: str, language: str) -> None:
    drafts = quoted(said(told, next_told), language)
    assert [draft.about for draft in drafts] == [(0, 1)]


@pytest.mark.parametrize(
    ("asked", "corrected", "language", "told"),
    [
        ("面接は何時だっけ", "違う、午後5時半だよ", "ja", "面接は午後5時半だよ。"),
        ("面接は何時だっけ", "違う、夜の7時だよ", "ja", "面接は夜の7時だよ。"),
        ("弟の携帯の番号は？", "違う、090-1234-5678だよ", "ja", "弟の携帯の番号は090-1234-5678だよ。"),
        ("プリンターのIPは？", "違う、192.168.0.9だよ", "ja", "プリンターのIPは192.168.0.9だよ。"),
        ("What's my brother's number?", "No, it's 555-9876", "en", "My brother's number: 555-9876."),
    ],
)
def test_a_time_of_day_or_a_telephone_number_put_right_is_a_whole_statement(
    asked: str, corrected: str, language: str, told: str
) -> None:
    exchanges = [SpokenExchange(asked, "それは別のものだよ。", MONDAY), SpokenExchange(corrected, "うん。", MONDAY)]
    assert [draft.summary for draft in quoted(exchanges, language)] == [told]
