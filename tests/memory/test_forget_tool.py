"""The tool that forgets: only on the user's own request, and only what is meant for certain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from server.errors import RequestError
from server.memory.asking import Asker
from server.memory.forget_tool import ForgetMemory, Talk
from server.memory.meant import RecentTurn
from server.memory.tools import FORGET_MEMORY, FORGET_MEMORY_SHORT
from server.storage.memory_records import Memory
from tests.memory.test_memory_tools import ASKER, Search, memory, result

pytestmark = pytest.mark.unit

FORGETTING = replace(ASKER, words="そのパソコンのことは忘れて")


class Forget:
    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def __call__(self, memory_ids: tuple[str, ...], asker: Asker) -> Mapping[str, Any]:
        self.asked.append(memory_ids)
        return {"forgotten": len(memory_ids), "still_found": 0}


PC = memory(1, "富士通のパソコンを三万円で買った。", entities=("富士通", "パソコン"))
OFFICE = memory(2, "会社のパソコンが壊れた。", entities=("会社", "パソコン"))
SLOW = memory(3, "富士通のパソコンは動きが遅い。", entities=("富士通", "パソコン"))
CAT = memory(4, "猫のミケが注射を打った。", entities=("猫", "ミケ"))
SISTER = memory(5, "姉のパソコンはマックだ。", entities=("姉", "パソコン"))


async def test_what_is_certain_is_forgotten_together_and_no_word_of_it_comes_back() -> None:
    forget = Forget()
    tool = ForgetMemory(Search(result(PC, CAT, SLOW)), forget)
    told = await tool.run({"query": "富士通のパソコン"}, FORGETTING)
    assert forget.asked == [(PC.memory_id, SLOW.memory_id)]
    assert "富士通" not in json.dumps(told, ensure_ascii=False)


async def test_named_memories_are_forgotten_and_what_else_is_meant_is_told_as_still_remembered() -> None:
    forget = Forget()
    tool = ForgetMemory(Search(result(PC, SLOW, CAT)), forget)
    told = await tool.run({"memory_ids": [PC.memory_id, PC.memory_id]}, FORGETTING)
    assert forget.asked == [(PC.memory_id,)]
    assert [one["memory_id"] for one in told["still_remembered"]] == [SLOW.memory_id]
    assert (told["forgotten"], told["still_found"]) == (1, 0)


async def test_what_may_be_meant_too_is_asked_about_and_nothing_is_forgotten() -> None:
    forget = Forget()
    told = await ForgetMemory(Search(result(PC, OFFICE, CAT)), forget).run({"query": "パソコン"}, FORGETTING)
    assert [one["memory_id"] for one in told["which"]] == [PC.memory_id, OFFICE.memory_id]
    assert told["forgotten"] == 0
    assert forget.asked == []
    assert (await ForgetMemory(Search(result()), forget).run({"query": "PC"}, FORGETTING))["note"] == "nothing found"
    assert forget.asked == []


async def test_what_is_somebody_elses_stays_and_is_told() -> None:
    forget = Forget()
    mine = replace(FORGETTING, words="僕のパソコンのことは忘れて")
    told = await ForgetMemory(Search(result(SISTER, PC)), forget).run({"query": "パソコン"}, mine)
    assert forget.asked == [(PC.memory_id,)]
    assert [one["summary"] for one in told["still_remembered"]] == [SISTER.summary]


async def test_everything_but_something_is_no_request_for_that_thing() -> None:
    forget = Forget()
    words = replace(FORGETTING, words="パソコンのこと以外は全部忘れて")
    told = await ForgetMemory(Search(result(PC)), forget).run({"query": "パソコン"}, words)
    assert (told["forgotten"], forget.asked) == (0, [])


async def test_all_that_is_remembered_is_not_forgotten_by_a_word() -> None:
    forget = Forget()
    for words in ("全部忘れて", "Forget everything."):
        told = await ForgetMemory(Search(result(PC, CAT)), forget).run(
            {"query": words}, replace(FORGETTING, words=words)
        )
        assert told["forgotten"] == 0
        assert "ask the user" in told["note"]
    assert forget.asked == []


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": ""}, {"query": "x", "memory_ids": ["mem_1"]}, {"memory_ids": "mem_1"}, {"memory_ids": [5]}],
)
async def test_bad_arguments_of_forgetting_forget_nothing(arguments: dict[str, Any]) -> None:
    forget = Forget()
    with pytest.raises(RequestError):
        await ForgetMemory(Search(result(memory(1))), forget).run(arguments, FORGETTING)
    assert forget.asked == []


@pytest.mark.parametrize("arguments", [{"query": "富士通"}, {"memory_ids": ["mem_1"]}])
async def test_who_did_not_ask_for_it_makes_nothing_forgotten(arguments: dict[str, Any]) -> None:
    forget, search = Forget(), Search(result(memory(1)))
    with pytest.raises(RequestError, match="did not ask"):
        await ForgetMemory(search, forget).run(arguments, ASKER)
    assert forget.asked == []
    assert search.asked == []


async def asked_which(forget: Forget, *, small: bool = False) -> ForgetMemory:
    tool = ForgetMemory(Search(result(PC, OFFICE)), forget, spec=FORGET_MEMORY_SHORT if small else FORGET_MEMORY)
    assert "which" in await tool.run({"query": "パソコン"}, FORGETTING)
    return tool


def answering(words: str) -> Asker:
    return replace(ASKER, turn_id=FORGETTING.turn_id + 1, words=words)


async def test_who_was_asked_which_one_need_not_say_forget_again() -> None:
    forget = Forget()
    tool = await asked_which(forget)
    chosen = {"memory_ids": [OFFICE.memory_id]}
    answer = answering("会社の方")
    for stranger in (replace(answer, session_id="other"), replace(answer, turn_id=FORGETTING.turn_id)):
        with pytest.raises(RequestError):
            await tool.run(chosen, stranger)
    with pytest.raises(RequestError):
        await tool.run({"memory_ids": [OFFICE.memory_id, CAT.memory_id]}, answer)
    assert (await tool.run(chosen, answer))["forgotten"] == 1
    assert forget.asked == [(OFFICE.memory_id,)]
    with pytest.raises(RequestError):
        await tool.run({"query": "両方"}, answering("両方"))


@pytest.mark.parametrize(
    ("words", "query", "gone"),
    [
        ("会社のほう", "会社のほう", [OFFICE]),
        ("両方", "パソコン", [PC, OFFICE]),
        ("両方とも忘れて", "両方", [PC, OFFICE]),
        ("二つ目", "二つ目", [OFFICE]),
        ("both of them", "both", [PC, OFFICE]),
        ("The first one.", "first", [PC]),
        ("会社じゃないほう", "会社", [PC]),
        ("富士通のを忘れて", "富士通", [PC]),
        ("うん、そうだね", "会社", [OFFICE]),
    ],
)
async def test_answers_choose_with_the_query_of_a_small_model(words: str, query: str, gone: list[Memory]) -> None:
    forget = Forget()
    tool = await asked_which(forget)
    assert (await tool.run({"query": query}, answering(words)))["forgotten"] == len(gone)
    assert forget.asked == [tuple(one.memory_id for one in gone)]


async def test_a_small_model_is_offered_it_only_for_words_that_choose() -> None:
    tool = await asked_which(Forget(), small=True)
    assert await tool.offer(answering("両方")) == 0.0
    assert await tool.offer(answering("きょうの天気は？")) is None
    assert await tool.offer(answering("やっぱりいいや")) is None
    assert await (await asked_which(Forget())).offer(answering("黒いほう")) == 0.0


async def test_what_is_asked_next_is_a_new_request_and_taking_it_back_forgets_nothing() -> None:
    forget = Forget()
    tool = await asked_which(forget)
    assert (await tool.run({"query": "x"}, answering("やっぱりいいや")))["forgotten"] == 0
    tool = await asked_which(forget)
    tool._search = Search(result(CAT, PC))
    assert (await tool.run({"query": "猫"}, answering("猫のことは全部忘れて")))["forgotten"] == 1
    assert forget.asked == [(CAT.memory_id,)]


async def test_an_answer_that_chooses_nothing_is_asked_again() -> None:
    forget = Forget()
    tool = await asked_which(forget)
    told = await tool.run({"query": "黒いやつ"}, answering("黒いやつ"))
    assert [one["memory_id"] for one in told["which"]] == [PC.memory_id, OFFICE.memory_id]
    assert forget.asked == []


async def test_what_shares_no_word_with_the_request_is_asked_about_first() -> None:
    forget = Forget()
    told = await ForgetMemory(Search(result(memory(1, "富士通の話"))), forget).run(
        {"query": "tooltool"}, replace(FORGETTING, words="もう忘れて")
    )
    assert (told["forgotten"], [one["memory_id"] for one in told["which"]]) == (0, [memory(1).memory_id])
    assert forget.asked == []


@pytest.mark.parametrize("said_between", [0, 1])
@pytest.mark.parametrize("others_turns", [0, 70])
async def test_what_was_asked_is_answered_by_the_very_next_turn_of_that_conversation(
    said_between: int, others_turns: int
) -> None:
    forget, said = Forget(), [RecentTurn("パソコンのことは忘れて", "どっち？", turn_id=FORGETTING.turn_id)]

    async def recent(asker: Asker) -> list[RecentTurn]:
        return said

    talk = Talk(recent, lambda memory_ids, turn_ids, asker: forget(memory_ids, asker))
    tool = ForgetMemory(Search(result(PC, OFFICE)), forget, spec=FORGET_MEMORY_SHORT, talk=talk)
    assert "which" in await tool.run({"query": "パソコン"}, FORGETTING)
    said += [RecentTurn("きょうは寒いね", "うん。", turn_id=FORGETTING.turn_id + 1)] * said_between
    answer = replace(answering("両方"), turn_id=FORGETTING.turn_id + 2 + others_turns)
    assert (await tool.offer(answer) is None) is bool(said_between)
    assert await tool.offer(replace(answer, speaker="somebody else")) is None
    if said_between:
        with pytest.raises(RequestError):
            await tool.run({"query": "両方"}, answer)
    else:
        assert (await tool.run({"query": "両方"}, answer))["forgotten"] == 2


@pytest.mark.parametrize(
    "words", ["両方覚えておいて", "会社のはまだ要る", "どっちだっけ？", "I still need both of them"]
)
@pytest.mark.parametrize("arguments", [{"query": "両方"}, {"memory_ids": [PC.memory_id, OFFICE.memory_id]}])
async def test_whatever_the_model_understood_words_that_keep_forget_nothing(
    words: str, arguments: dict[str, Any]
) -> None:
    forget = Forget()
    tool = await asked_which(forget)
    assert (await tool.run(arguments, answering(words)))["forgotten"] == 0
    assert forget.asked == []


@pytest.mark.parametrize(
    ("request_words", "query", "named", "beside", "answer"),
    [
        (
            "パソコンのことは忘れて",
            "パソコン",
            [
                f"{whose}のパソコンが新宿の修理店で故障した。"
                for whose in ("会社", "学校", "書斎", "居間", "倉庫", "別荘")
            ],
            "新宿の修理店は故障に強い。",
            "全部",
        ),
        (
            "Forget about the computer.",
            "computer",
            [
                f"The {which} computer burnt in the harbour workshop."
                for which in ("red", "blue", "black", "green", "new", "white")
            ],
            "The harbour workshop burnt down.",
            "All of them.",
        ),
    ],
)
async def test_all_of_them_is_not_what_never_had_the_word_and_did_not_fit(
    request_words: str, query: str, named: list[str], beside: str, answer: str
) -> None:
    """It may be meant, for it shares much with what is; but it was not told."""
    forget = Forget()
    memories = [memory(at, text, topic="", entities=()) for at, text in enumerate(named, start=1)]
    other = memory(9, beside, topic="", entities=())
    tool = ForgetMemory(Search(result(*memories, other)), forget)
    told = await tool.run({"query": query}, replace(FORGETTING, words=request_words))
    assert (len(told["which"]), told["more"]) == (5, 2)
    assert (await tool.run({"query": answer}, answering(answer)))["forgotten"] == 6
    assert [set(one) for one in forget.asked] == [{one.memory_id for one in memories}]


async def test_of_many_conversations_the_one_that_was_asked_first_is_asked_again() -> None:
    forget = Forget()
    tool = ForgetMemory(Search(result(PC, OFFICE)), forget)
    for number in range(65):
        await tool.run({"query": "パソコン"}, replace(FORGETTING, session_id=f"session-{number}"))
    known = [await tool.offer(replace(answering("both"), session_id=f"session-{n}")) is not None for n in range(65)]
    assert known == [False, *[True] * 64]
    # Asked once more, it is the newest.
    await tool.run({"query": "パソコン"}, replace(FORGETTING, session_id="session-1"))
    await tool.run({"query": "パソコン"}, replace(FORGETTING, session_id="session-65"))
    assert await tool.offer(replace(answering("both"), session_id="session-1")) is not None
    assert await tool.offer(replace(answering("both"), session_id="session-2")) is None


@pytest.mark.parametrize(
    ("request_words", "query", "summaries", "unnamed", "answer"),
    [
        (
            "パソコンのことは忘れて",
            "パソコン",
            [f"{whose}のパソコンが壊れた。" for whose in ("会社", "学校", "書斎", "居間", "倉庫", "別荘", "工場")],
            "猫のミケが注射を打った。",
            "全部",
        ),
        (
            "Forget about the computer.",
            "computer",
            [f"The {which} computer broke." for which in ("red", "old", "black", "green", "new", "white", "slow")],
            "The cat got her shots.",
            "All of them.",
        ),
    ],
)
async def test_all_of_them_is_also_what_was_named_and_did_not_fit(
    request_words: str, query: str, summaries: list[str], unnamed: str, answer: str
) -> None:
    forget = Forget()
    named = [memory(at, text, topic="", entities=()) for at, text in enumerate(summaries, start=1)]
    other = memory(9, unnamed, topic="", entities=())
    tool = ForgetMemory(Search(result(*named, other)), forget)
    told = await tool.run({"query": query}, replace(FORGETTING, words=request_words))
    assert (len(told["which"]), told["more"], forget.asked) == (5, 2, [])
    assert (await tool.run({"query": answer}, answering(answer)))["forgotten"] == 7
    assert [set(one) for one in forget.asked] == [{one.memory_id for one in named}]
