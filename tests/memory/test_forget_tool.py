"""The tool that forgets: only on the user's own request, and only what is meant for certain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from server.errors import RequestError
from server.memory.asking import Asker
from server.memory.forget_words import asks_to_forget
from server.memory.tools import ForgetMemory
from tests.memory.test_memory_tools import ASKER, Search, memory, result

pytestmark = pytest.mark.unit

FORGETTING = replace(ASKER, words="そのパソコンのことは忘れて")


class Forget:
    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def __call__(self, memory_ids: tuple[str, ...], asker: Asker) -> Mapping[str, Any]:
        self.asked.append(memory_ids)
        return {"forgotten": len(memory_ids), "still_found": 0}


async def test_what_is_certain_is_forgotten_and_no_word_of_it_comes_back() -> None:
    forget = Forget()
    tool = ForgetMemory(Search(result(memory(1), memory(2))), forget)
    told = await tool.run({"query": "富士通のPC"}, FORGETTING)
    assert forget.asked == [(memory(1).memory_id,)]
    assert "富士通" not in json.dumps(told, ensure_ascii=False)
    assert await tool.run({"memory_ids": [memory(2).memory_id, memory(2).memory_id]}, FORGETTING) == {
        "forgotten": 1,
        "still_found": 0,
    }


async def test_what_is_ambiguous_is_asked_about_and_not_forgotten() -> None:
    forget = Forget()
    told = await ForgetMemory(Search(result(memory(1), memory(2), ambiguous=True)), forget).run(
        {"query": "PC"}, FORGETTING
    )
    assert [one["memory_id"] for one in told["which"]] == [memory(1).memory_id, memory(2).memory_id]
    assert forget.asked == []
    assert (await ForgetMemory(Search(result()), forget).run({"query": "PC"}, FORGETTING))["note"] == "nothing found"
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


async def test_who_was_asked_which_one_need_not_say_forget_again() -> None:
    forget = Forget()
    tool = ForgetMemory(Search(result(memory(1), memory(2), ambiguous=True)), forget)
    await tool.run({"query": "PC"}, FORGETTING)
    chosen = {"memory_ids": [memory(2).memory_id]}
    answer = replace(ASKER, turn_id=FORGETTING.turn_id + 1, words="新しい方")
    for stranger in (replace(answer, session_id="other"), replace(answer, turn_id=FORGETTING.turn_id)):
        with pytest.raises(RequestError):
            await tool.run(chosen, stranger)
    with pytest.raises(RequestError):
        await tool.run({"memory_ids": [memory(2).memory_id, memory(3).memory_id]}, answer)
    assert (await tool.run(chosen, answer))["forgotten"] == 1
    assert forget.asked == [(memory(2).memory_id,)]


async def test_who_was_asked_which_one_may_name_it_and_nothing_but_what_was_offered_is_forgotten() -> None:
    forget = Forget()
    search = Search(result(memory(1), memory(2), ambiguous=True))
    tool = ForgetMemory(search, forget)
    await tool.run({"query": "富士通のパソコン"}, FORGETTING)
    answer = replace(ASKER, turn_id=FORGETTING.turn_id + 1, words="富士通の新しい方")
    assert await tool.offer(answer) == 0.0
    search.found = result(memory(3), memory(2), ambiguous=True)
    assert (await tool.run({"query": "富士通の新しい方"}, answer))["forgotten"] == 1
    assert forget.asked == [(memory(2).memory_id,)]
    search.found = result(memory(3))
    assert await tool.run({"query": "富士通"}, answer) == {"forgotten": 0, "note": "nothing found"}


async def test_what_shares_no_word_with_the_request_is_asked_about_first() -> None:
    forget = Forget()
    told = await ForgetMemory(Search(result(memory(1, "富士通の話"))), forget).run(
        {"query": "tooltool"}, replace(FORGETTING, words="もう忘れて")
    )
    assert (told["forgotten"], [one["memory_id"] for one in told["which"]]) == (0, [memory(1).memory_id])
    assert forget.asked == []


REQUESTS = [
    "そのことは忘れて",
    "ﾜｽﾚﾃ わすれてよ",
    "記録を消してほしい",
    "Please FORGET that.",
    "Delete it",
    "don't remember it",
    "そのパソコンのことは忘れて",
    "さっきの電話番号、消しておいて",
    "引っ越しの話は忘れてください",
    "Forget about my old car.",
    "Please delete what I told you about work.",
    "忘れてくれる？",
    "さっきの話、わすれてください。",
    "富士通のパソコンの話、忘れて",
    "忘れろ",
    "忘れてしまって",
    "忘れといて",
    "忘れておいて",
    "覚えなくていいよ",
    "覚えておかなくていい",
    "ワスレテ",
    "忘れてしまってほしい",
    "もう忘れて！",
    "傘をなくした話はもう忘れて",
    "Please forget what I said about my knee.",
    "Can you forget that?",
    "今の話はなかったことにして",
    "その情報は削除して",
    "Erase that, please",
    "stop remembering my address",
    "忘れてね",
    "忘れちゃっていいよ",
    "I want you to forget it.",
    "富士通のパソコンのことは忘れて",
    "そのことは消して",
    "忘れてもらえる？",
    "forget it",
    "忘れてください、お願い",
    "その番号を忘れてほしいんだけど",
    "もう忘れて",
]
OTHER_WORDS = [
    "薬を飲むのを忘れずに",
    "傘を忘れずに持っていくよ",
    "最近物忘れがひどいんだ",
    "度忘れしちゃって",
    "電気を消して",
    "テレビを消して",
    "テレビ消すね",
    "火を消すのを手伝って",
    "忘れかけてた",
    "忘れがちなんだ",
    "お忘れなく",
    "置き忘れが多い",
    "キャンセルして",
    "予約を取り消して",
    "写真を削除するアプリを買った",
    "It is unforgettable",
    "remove the pot from the stove",
    "how do I get rid of mold",
    "wipe the table",
    "delete key is broken",
    "忘れられない",
    "忘れてはいけない",
    "忘れてないよね",
    "忘れてなかった",
    "忘れてほしくない",
    "忘れてた",
    "忘れそうになった",
    "忘れちゃだめだよ",
    "忘れちゃいけない",
    "忘れてもらっては困る",
    "忘れるとこだった",
    "忘れるな",
    "忘れるなよ",
    "忘れることがある",
    "忘れるよ",
    "忘れたら教えて",
    "消防車",
    "消しカス",
    "もう忘れたよ",
    "I'll forget",
    "you forgot",
    "forget me not",
    "don't you forget",
    "Do not forget my birthday!",
    "宿題を家に忘れちゃった",
    "パソコンはいくらだった？",
    "What did I buy?",
    "",
    "はい",
    "パソコンを消して",
    "宿題を忘れて怒られた",
    "傘を忘れて、困った",
    "パソコンのことは忘れてはいけないよ",
    "I don't remember",
    "I forget things",
    "Never forget that",
    "忘れないでね",
    "Don't forget to call",
    "財布を置き忘れて",
    "忘れ物をした",
    "I can't remember it",
    "Did you forget?",
    "消しゴムを貸して",
    "明かりを消してください",
    "ごめん、忘れてて",
    "すっかり忘れてしまった",
    "忘れてしまいそう",
]


@pytest.mark.parametrize("words", REQUESTS)
def test_requests_to_forget_are_known(words: str) -> None:
    assert asks_to_forget(words)


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_what_speaks_of_forgetting_or_erases_other_things_is_no_request(words: str) -> None:
    assert not asks_to_forget(words)
