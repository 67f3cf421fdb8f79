"""What becomes of a new memory beside older ones: contradiction first, then repetition."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from server.memory.contradiction import (
    NARROW_COSINES,
    WIDE_COSINES,
    Decision,
    KeepRecipe,
    Proposal,
    decide,
    recipe_for,
    same_names,
)
from server.storage.memory_records import Memory, NewMemory

pytestmark = pytest.mark.unit
RECIPE = KeepRecipe("test", duplicate=0.9, same_matter=0.7, corrected=0.5)
NAMES_OF_FIELDS = [one.name for one in dataclasses.fields(NewMemory)]
NOON = dt.datetime(2026, 11, 30, 3, tzinfo=dt.UTC)


def new(summary: str, *entities: str, turn: int = 100, **changes: Any) -> NewMemory:
    fields: dict[str, Any] = {
        "memory_id": "mem_" + "Z" * 26,
        "topic": "話",
        "summary": summary,
        "entities": entities,
        "memory_type": "fact",
        "occurred_at": NOON,
        "zone": "Asia/Tokyo",
        "language": "ja",
        "speakers": (),
        "confidence": "said",
        "importance": 3,
        "persona_id": "tester",
        "channel_id": "stackchan:desk",
        "visibility": "house",
        "source_turn_ids": (turn,),
    }
    return NewMemory(**fields | changes)


def old(number: int, summary: str, *entities: str, **changes: Any) -> Memory:
    written = new(summary, *entities, turn=number, **changes)
    return Memory(
        **{name: getattr(written, name) for name in NAMES_OF_FIELDS if name != "memory_id"},
        memory_id=name_of(number),
        status="active",
        superseded_by=None,
        index_state="indexed",
        revision=1,
        attempts=0,
        error=None,
        created_at=NOON,
        updated_at=NOON,
    )


def name_of(number: int) -> str:
    return f"mem_{number:026d}"


PRICE = old(1, "PCは30,000円。", "PC")


@pytest.mark.parametrize(
    ("summary", "entities", "cosine", "expected"),
    [
        ("PCは25,000円。", ("PC",), 0.8, Decision(supersedes=(name_of(1),))),
        ("PCは25,000円。", ("ＰＣ",), 0.8, Decision(supersedes=(name_of(1),))),
        ("PCは三万円。", ("PC",), 0.95, Decision(repeats=name_of(1))),
        ("PCは三万円。", ("PC", "富士通"), 0.95, Decision(repeats=name_of(1))),
        ("PCは三万円。", ("PC",), 0.8, Decision()),
        ("PCは三万円で2台。", ("PC",), 0.95, Decision()),
        ("PCは30,000円ではない。", ("PC",), 0.95, Decision(supersedes=(name_of(1),))),
        ("PCは25,000円。", ("PC",), 0.6, Decision()),
        ("机は25,000円。", ("机",), 0.95, Decision()),
        ("PCは16GB。", ("PC",), 0.95, Decision()),
    ],
)
def test_a_number_or_a_negation_contradicts_and_sameness_repeats(
    summary: str, entities: tuple[str, ...], cosine: float, expected: Decision
) -> None:
    assert decide(Proposal(new(summary, *entities)), [(PRICE, cosine)], RECIPE) == expected


def test_two_visits_on_two_days_are_two_events() -> None:
    first = old(1, "2026年11月3日に京都へ行った。", "京都", memory_type="episode")
    second = new("2026年11月20日に京都へ行った。", "京都", memory_type="episode")
    assert decide(Proposal(second), [(first, 0.95)], RECIPE) == Decision()
    assert decide(Proposal(second, corrects=True), [(first, 0.95)], RECIPE) == Decision(supersedes=(name_of(1),))


def test_a_plan_on_another_day_replaces_the_plan() -> None:
    first = old(1, "引っ越しは2026年12月3日。", "引っ越し", memory_type="decision")
    moved = new("引っ越しは2026年12月10日。", "引っ越し", memory_type="decision")
    assert decide(Proposal(moved), [(first, 0.9)], RECIPE) == Decision(supersedes=(name_of(1),))


def test_a_correction_means_the_one_thing_that_it_differs_from() -> None:
    candidates = [(old(1, "PCを買った。", "PC"), 0.88), (old(2, "PCは30,000円。", "PC"), 0.6)]
    said = Proposal(new("PCは25,000円。", "PC"), corrects=True)
    assert decide(said, candidates, RECIPE) == Decision(supersedes=(name_of(2),))
    assert decide(Proposal(said.memory), candidates, RECIPE) == Decision()


def test_a_correction_that_no_rule_sees_replaces_only_what_is_the_same_in_all_else() -> None:
    car = old(1, "車は赤。", "車")
    blue = Proposal(new("車は青。", "車"), corrects=True)
    assert decide(blue, [(car, 0.8)], RECIPE) == Decision(supersedes=(name_of(1),))
    assert decide(blue, [(car, 0.6)], RECIPE) == Decision()
    assert (
        decide(Proposal(new("車でコムギと出かけた。", "コムギ", "車"), corrects=True), [(PRICE, 0.99)], RECIPE)
        == Decision()
    )
    other = old(2, "車はコムギの寝床。", "車", "コムギ", "寝床")
    assert decide(Proposal(new("車とトムは青。", "車", "トム"), corrects=True), [(other, 0.8)], RECIPE) == Decision()


def test_what_was_recalled_is_what_a_correction_is_about() -> None:
    said = new("25,000円だった。")
    assert decide(Proposal(said, True, (name_of(1),)), [(PRICE, 0.1)], RECIPE) == Decision(supersedes=(name_of(1),))
    assert decide(Proposal(said, True), [(PRICE, 0.1)], RECIPE) == Decision()
    assert decide(Proposal(said, False, (name_of(1),)), [(PRICE, 0.1)], RECIPE) == Decision()


def test_a_correction_that_says_the_same_again_is_a_repetition() -> None:
    said = Proposal(new("PCは三万円。", "PC"), corrects=True)
    assert decide(said, [(PRICE, 0.95)], RECIPE) == Decision(repeats=name_of(1))


def test_what_comes_late_is_history() -> None:
    late = Proposal(new("PCは25,000円。", "PC", turn=0))
    assert decide(late, [(PRICE, 0.8)], RECIPE) == Decision(superseded_by=name_of(1))


def test_every_old_price_is_replaced() -> None:
    candidates = [(PRICE, 0.8), (old(2, "PCの値段は三万円。", "PC"), 0.9)]
    decision = decide(Proposal(new("PCは25,000円。", "PC")), candidates, RECIPE)
    assert decision.supersedes == (name_of(2), name_of(1))


def test_nothing_near_is_new() -> None:
    assert decide(Proposal(new("猫が来た。", "猫")), [], RECIPE) == Decision()


def test_names_are_the_same_when_one_names_nothing_more() -> None:
    one = new("x", "PC", "富士通")
    assert same_names(one, new("x", "ｐｃ"))
    assert same_names(new("x"), new("x"))
    assert not same_names(one, new("x"))
    assert not same_names(one, new("x", "PC", "机"))


def test_each_kind_of_model_has_its_recipe() -> None:
    assert recipe_for("multilingual-e5-small-q4") is NARROW_COSINES
    assert recipe_for("Qwen/Qwen3-Embedding-0.6B") is WIDE_COSINES
    assert WIDE_COSINES.duplicate == 0.92


@pytest.mark.parametrize(
    ("said", "before", "expected"),
    [
        ("コムギは六歳だよ。", "コムギは五歳だよ。", True),
        ("コムギは六歳だよ。予防接種は三回。", "コムギは五歳だよ。", False),
        ("コムギは掃除機がこわくない。", "コムギは廊下で寝る。", False),
        ("コムギは鳴かない。", "コムギは鳴く。", True),
        ("コムギは鳴かなければならない。", "コムギは鳴く。", False),
        # Two things differ: this is another one.
        ("コムギの箱は三個で二キロ。", "コムギの箱は四個で五キロ。", False),
    ],
)
def test_a_difference_contradicts_only_where_all_other_words_are_the_same(
    said: str, before: str, expected: bool
) -> None:
    compared = [(old(1, before, "コムギ"), 0.99)]
    assert bool(decide(Proposal(new(said, "コムギ")), compared, RECIPE).supersedes) is expected
    assert not decide(Proposal(new(said, "コムギ", "トム")), compared, RECIPE).supersedes


def test_two_events_that_count_differently_are_two_and_a_price_is_one() -> None:
    for before, said, expected in (
        ("公園で3キロ走った。", "公園で5キロ走った。", False),
        ("自転車を三万円で買った。", "自転車は二万円だった。", True),
        ("2026年10月3日、米を4,000円で買った。", "2026年11月3日、米を4,300円で買った。", False),
    ):
        first, second = old(1, before, memory_type="episode"), new(said, memory_type="episode")
        assert bool(decide(Proposal(second), [(first, 0.99)], RECIPE).supersedes) is expected


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("二万五千円だよ。", Decision(supersedes=(name_of(1),))),
        ("二万五千。", Decision(supersedes=(name_of(1),))),
        ("三万円だよ。", Decision()),
        ("16GB。", Decision()),
    ],
)
def test_a_value_right_after_a_memory_was_told_corrects_the_memory_that_differs(
    summary: str, expected: Decision
) -> None:
    told = (name_of(2), name_of(1), name_of(3))
    candidates = [
        (old(2, "猫が来た。", "猫"), 0.3),
        (old(3, "PCのマウスは2,000円。", "PC"), 0.3),
        (PRICE, 0.2),
    ]
    assert decide(Proposal(new(summary), told=told), candidates[::2], RECIPE) == expected
    # Of several that differ, the first that was told.
    if expected.supersedes:
        assert decide(Proposal(new(summary), told=told), candidates, RECIPE) == expected
    assert decide(Proposal(new(summary)), candidates, RECIPE) == Decision()


def test_not_this_but_that_states_only_that() -> None:
    said = Proposal(new("三万円じゃなくて二万五千円。"), True, (name_of(1),))
    assert decide(said, [(PRICE, 0.6)], RECIPE) == Decision(supersedes=(name_of(1),))


@pytest.mark.parametrize(
    ("said", "before", "entities", "expected"),
    [
        ("田中さんは東京に引っ越した。", "田中さんは大阪に住んでいる。", (("田中", "東京"), ("田中", "大阪")), True),
        ("Tom moved to York.", "Tom lives in Leeds.", (("Tom",), ("Tom",)), True),
        ("田中さんは大阪市に住んでいる。", "田中さんは大阪に住んでいる。", (("田中",), ("田中",)), False),
        ("姉は東京に住んでいる。", "田中さんは大阪に住んでいる。", (("東京",), ("東京",)), False),
        # Whose home it is, nobody says.
        ("東京に住んでるよ。", "大阪に住んでるよ。", ((), ()), False),
    ],
)
def test_one_lives_in_one_place(
    said: str, before: str, entities: tuple[tuple[str, ...], tuple[str, ...]], expected: bool
) -> None:
    compared = [(old(1, before, *entities[1]), 0.93)]
    assert decide(Proposal(new(said, *entities[0])), compared, NARROW_COSINES).supersedes == (
        (name_of(1),) if expected else ()
    )


@pytest.mark.parametrize("said", ["コムギは雷がこわい。", "コムギは青いボールが好き。", "コムギを病院に連れていった。"])
def test_what_says_more_is_never_lost_in_what_is_alike(said: str) -> None:
    compared = [(old(1, "コムギは散歩が好き。", "コムギ"), 0.98)]
    assert decide(Proposal(new(said, "コムギ")), compared, NARROW_COSINES) == Decision()
    again = Proposal(new("コムギは散歩が好きだよ。", "コムギ"))
    assert decide(again, compared, NARROW_COSINES) == Decision(repeats=name_of(1))
