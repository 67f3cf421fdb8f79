"""Several matters told in one breath are a memory each, and one story stays one."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.matters import matters, one_matter_each
from server.memory.prompts import Draft, SpokenExchange
from server.memory.quoting import quoted

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("金曜に歯医者があって、赤い自転車を買ったよ", ["金曜に歯医者", "赤い自転車を買ったよ"]),
        ("金曜に歯医者があるし、赤い自転車も買ったよ", ["金曜に歯医者がある", "赤い自転車も買ったよ"]),
        ("金曜に歯医者があるんだ、あと赤い自転車を買ったよ", ["金曜に歯医者があるんだ", "赤い自転車を買ったよ"]),
        ("歯医者は金曜だよ。赤い自転車を買ったよ。", ["歯医者は金曜だよ。", "赤い自転車を買ったよ。"]),
        ("明日歯医者があって、赤い自転車を買ったよ", ["明日歯医者がある", "赤い自転車を買ったよ"]),
        ("妻は月曜に歯医者があって、弟は看護師だよ", ["妻は月曜に歯医者", "弟は看護師だよ"]),
        ("姉は三十歳で、弟は二十五歳だよ", ["姉は三十歳だ", "弟は二十五歳だよ"]),
        ("弟は看護師で、私は辛いものが苦手", ["弟は看護師だ", "私は辛いものが苦手"]),
        ("猫の名前はミケで、来週出張なんだ", ["猫の名前はミケだ", "来週出張なんだ"]),
        ("私は納豆が嫌いで、妹は寿司が好き", ["私は納豆が嫌いだ", "妹は寿司が好き"]),
        (
            "My dentist is on Friday and I bought a red bike",
            ["My dentist is on Friday", "I bought a red bike"],
        ),
        ("I bought a red bike, and my dentist is on Friday.", ["I bought a red bike", "My dentist is on Friday."]),
        (
            "My sister lives in Leeds, and my brother works in York",
            ["My sister lives in Leeds", "My brother works in York"],
        ),
        ("My dentist is on Friday. I bought a red bike.", ["My dentist is on Friday.", "I bought a red bike."]),
        ("My cat is called Luna; I’m allergic to nuts", ["My cat is called Luna", "I’m allergic to nuts"]),
    ],
)
def test_what_has_nothing_to_do_with_each_other_is_apart(text: str, expected: list[str]) -> None:
    assert list(matters(text, MONDAY)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "富士通のパソコンを三万円で買って、マウスは二千円だった",
            "高さが百八十センチで、五千五百円だったから買っちゃった",
        ),
        *(
            "誕生日は十一月二十四日で、みんなで赤飯を食べた",
            "面接官は二人で、時間は午後三時から",
            "姉が来て、弟が喜んだ",
        ),
        *("昨日歯医者があって、虫歯を抜いたよ", "歯が痛くて、歯医者に行った", "安いし、近いし、あの店が好き"),
        *(
            "昨日京都に行った。寺がきれいだった。",
            "日曜に運動会があって、息子が一位になったよ",
            "りんごを買った。あと、みかんも買った",
        ),
        *(
            "姉は東京で、弟は大阪に住んでる",
            "私は駅で、妻を待った",
            "猫を飼い始めて、名前はミケにした",
            "会議は金曜だよ。それで資料を作ったよ。",
            "母が転んだ。父が病院に連れていった。",
        ),
        *("猫を飼うことになったけど、名前はどうしよう？", "金曜に歯医者があって、歯医者の後に自転車を買ったよ"),
        *("I went to Kobe and I met an old friend", "We moved to Leeds and I love it", "I sold the car and the bike"),
        *(
            "The wedding will be in Lisbon, and I'm giving a speech.",
            "The roofer wants 2,300 dollars, and he can start soon.",
        ),
        *(
            "My son broke his arm and my wife took him to hospital",
            "He has two cats, Salt and Pepper.",
            "I am so tired and I know it",
        ),
        *("", "😀", "\ud800、\ud800", "金曜に歯医者があって、I bought a red bike", "うん、そう"),
    ],
)
def test_one_story_is_one(text: str) -> None:
    assert matters(text, MONDAY) == (text,)


@pytest.mark.parametrize(
    "text",
    [
        *('She said "I hate you and I want a divorce"', "She said “I hate you and I want a divorce”"),
        "If I win the lottery, I'll buy a house and my brother gets a car",
        *("It's not true that I like beer and my wife likes wine", "I heard that Tom is 30 and Anna is pregnant"),
        *("Imagine I live on Mars and my brother is a king", "I doubt that Tom is 30 and Anna is pregnant"),
        *("Tom thinks I am fat and my sister is ill", "Neither I like beer nor wine and my wife hates tea"),
        *("嘘だけど、私は王様だし、弟は部長だよ", "ドラマの話だけど、兄は医者で、弟は王様だよ"),
        *(
            "もし私が社長なら給料を上げるし、弟は部長だよ",
            "彼が「金曜に歯医者があって、赤い自転車を買ったよ」と言ってた",
        ),
        *("姉は三十歳で、弟は二十五歳だって聞いたよ", "姉は三十歳で、弟は二十五歳だと思う"),
        # Only what follows tells whether it was or will be.
        "赤い自転車を買って、明日歯医者があるよ",
    ],
)
def test_nothing_is_cut_off_what_governs_it(text: str) -> None:
    assert matters(text, MONDAY) == (text,)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            ("明日歯医者があって、赤い自転車を買ったよ",),
            [("歯医者", "2026年12月1日に歯医者がある。"), ("自転車", "赤い自転車を買ったよ。")],
        ),
        (
            ("My dentist is on Friday and I bought a red bike",),
            [("dentist", "My dentist is on Friday."), ("red bike", "I bought a red bike.")],
        ),
        # What is told next goes on with the matter that it names, else with the last.
        (
            (
                "My dentist is on Friday and I bought a red bike",
                "The dentist is near the station",
                "The bike has a basket",
            ),
            [
                ("dentist, station", "My dentist is on Friday. The dentist is near the station."),
                ("red bike, bike, basket", "I bought a red bike. The bike has a basket."),
            ],
        ),
        # A correction is carried out in the one that it corrects.
        (
            ("My dentist is on Friday and I bought a red bike", "No, on Thursday"),
            [("dentist", "My dentist is on Thursday."), ("red bike", "I bought a red bike.")],
        ),
        (
            ("金曜に歯医者があって、赤い自転車を買ったよ", "違う、木曜だよ"),
            [("歯医者", "木曜に歯医者。"), ("自転車", "赤い自転車を買ったよ。")],
        ),
    ],
)
def test_each_is_a_memory_with_a_topic_of_its_own(said: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    language = "en" if said[0].isascii() else "ja"
    drafts = quoted([SpokenExchange(one, "うん。", MONDAY) for one in said], language)
    assert [(one.topic, one.summary) for one in drafts] == expected
    assert all(0 in one.about for one in drafts)


@pytest.mark.parametrize(
    ("summary", "entities", "expected"),
    [
        (
            "ユーザーは金曜に歯医者があり、赤い自転車を買った。",
            ("歯医者", "自転車"),
            [("歯医者", "ユーザーは金曜に歯医者。"), ("自転車", "赤い自転車を買った。")],
        ),
        (
            "The user's dentist is on Friday and the user bought a red bike.",
            ("dentist", "bike"),
            [("dentist", "The user's dentist is on Friday."), ("bike", "The user bought a red bike.")],
        ),
        ("The user bought a bike.", ("bike",), [("errands", "The user bought a bike.")]),
    ],
)
def test_a_summary_of_two_matters_is_two(
    summary: str, entities: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    draft = Draft((0,), "episode", "errands", summary, entities, 3)
    found = list(one_matter_each(draft, MONDAY))
    assert [(one.topic, one.summary) for one in found] == expected
    assert [one.entities for one in found] == [(topic,) for topic, _ in expected] or len(found) == 1
