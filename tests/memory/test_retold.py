"""Whether words tell again what a memory holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.memory.retold import retells
from server.storage.memory_records import Memory
from tests.memory.test_memory_tools import memory

pytestmark = pytest.mark.unit


def of(summary: str, *entities: str, topic: str = "") -> Memory:
    return replace(memory(1, summary), topic=topic, entities=entities)


PC = of("昨日(2026年11月29日)、富士通のパソコンを30,000円で買った。", "富士通", "パソコン")
CAT = of("コムギは三歳で、体重は4キロ。", "コムギ")
PHONE = of("田中さんの電話番号は090-0000-1234だ。", "田中", "電話番号")
ANNA = of("Anna's phone number is 555-0101.", "Anna", "phone number")
DESKTOP = of("The user bought a used Fujitsu desktop for 30,000 yen.", "Fujitsu")


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (PC, "富士通のは三万円だよ"),
        (PC, "そのパソコン、3万だったね"),
        (PC, "ｆｕｊｉ…じゃなくて富士通、３００００円"),
        (CAT, "コムギちゃんは三歳、4キロだよ"),
        (DESKTOP, "The FUJITSU one was thirty thousand yen."),
        (PHONE, "田中さんなら０９０-００００-１２３４だね"),
        (ANNA, "Anna: 555-0101"),
        (of("鍵は10番の棚", topic="鍵"), "鍵なら10番だよ"),
        (of("猫のコムギが家に来た。", "コムギ"), "そうだ、猫のコムギが、家に来たんだね"),
    ],
)
def test_a_name_with_a_number_tells_it_again_and_so_does_its_sentence(one: Memory, text: str) -> None:
    assert retells(one, text)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (PC, "富士通はいいメーカーだね"),
        (PC, "三万円は高いね"),
        (PC, "富士通のは二万五千円だよ"),
        (PC, "富士通の30,000人の社員"),
        (PC, "富士通は2026年11月29日に発表した"),
        (CAT, "コムギに三歳のお祝いをした"),
        (DESKTOP, "Fujitsuki has 30,000 yen"),
        (PHONE, "佐藤さんの電話番号は090-0000-5678だ。"),
        (ANNA, "Ben's phone number is 555-0102."),
        (of("2026-11-29に富士通と話した。", "富士通"), "富士通は2026-11-29に発表した"),
        (of("コムギ", "コムギ"), "コムギ"),
        (of("猫が家に来た。", "猫"), "猫が庭に来た"),
        (of("30000円。"), "30000円だった"),
        (PC, ""),
    ],
)
def test_less_is_no_retelling(one: Memory, text: str) -> None:
    assert not retells(one, text)
