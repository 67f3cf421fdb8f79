"""What else was told in words that are forgotten stays, as a memory of its own; what was forgotten is found nowhere."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from server.memory.asking import Asker
from server.memory.ingest import proposals_of
from server.storage import memory_browse
from server.storage.memory_records import OpenExchange
from tests.memory.home import Home, capabilities
from tests.memory.said_and_noted import files_with

pytestmark = pytest.mark.integration


async def forget(home: Home, words: str, query: str) -> dict[str, Any]:
    """A turn in which a small model calls the tool."""
    asker = await home.say(words, "うん。")
    tool = home.__dict__.setdefault("tools", home.memory.tools_for(capabilities(small=True)))[2]
    result = dict(await tool.run({"query": query}, asker))
    await home.memory.turn_ended(asker, forgot=result["forgotten"] > 0)
    return result


async def end(home: Home, asker: Asker) -> None:
    home.at += dt.timedelta(minutes=11)
    await home.memory.session_ended(asker.session_id)
    await home.memory.worker.idle()


def quoting(folder: Path) -> Home:
    """A home with a small model, whose memories are the user's own words."""
    home = Home(folder)
    home.summarizer.capabilities = capabilities(small=True)
    return home


@pytest.mark.parametrize(
    ("told", "words", "query", "gone", "kept"),
    [
        (
            "My address is 12 Old Lane",
            "Forget my old address, I now live in Exampletown",
            "old address",
            "Old Lane",
            "I now live in Exampletown.",
        ),
        (
            "住所は旧町一丁目だよ",
            "今はエグザンプル町に住んでるから、前の住所は忘れて",
            "住所",
            "旧町",
            "今はエグザンプル町に住んでる。",
        ),
    ],
)
async def test_what_is_told_in_one_breath_with_the_request_is_kept(
    tmp_path: Path, told: str, words: str, query: str, gone: str, kept: str
) -> None:
    home = quoting(tmp_path)
    async with home.open():
        await end(home, await home.say(told))
        assert [gone in one for one in await home.stored()] == [True]
        assert (await forget(home, words, query))["forgotten"] == 1
        await home.memory.worker.idle()
        assert await home.stored() == [kept]
        assert files_with(tmp_path, gone) == []
    async with home.open():
        await home.memory.worker.idle()
        assert await home.stored() == [kept], "nor does a new start lose it"


@pytest.mark.parametrize(
    ("told", "words", "gone", "kept"),
    [
        (
            "My dentist is on Friday and I bought a red bike",
            "Forget about the bike",
            "bike",
            "My dentist is on Friday.",
        ),
        ("明日歯医者があって、赤い自転車を買ったよ", "歯医者のことは忘れて", "歯医者", "赤い自転車を買ったよ。"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
async def test_of_two_things_told_in_one_breath_the_other_stays(
    tmp_path: Path, told: str, words: str, gone: str, kept: str, at_once: bool
) -> None:
    """`at_once`: before a memory was made of them."""
    home = quoting(tmp_path)
    async with home.open():
        asker = await home.say(told)
        if not at_once:
            await end(home, asker)
            assert len(await home.stored()) == 2
        assert (await forget(home, words, gone))["forgotten"] == 1
        await end(home, asker)
        assert await home.stored() == [kept]
        # The sentence that both were in goes from the log.
        assert files_with(tmp_path, gone) == []


@pytest.mark.parametrize("words", ["それは忘れて", "今の話は忘れて"])
async def test_who_points_at_a_breath_means_all_of_it(tmp_path: Path, words: str) -> None:
    home = quoting(tmp_path)
    async with home.open():
        asker = await home.say("明日歯医者があって、赤い自転車を買ったよ")
        await forget(home, words, words)
        await end(home, asker)
        assert await home.stored() == []


async def test_what_was_told_with_a_request_that_was_asked_about_is_kept_when_it_is_answered(tmp_path: Path) -> None:
    home = quoting(tmp_path)
    async with home.open():
        await end(home, await home.say("会社のパソコンが壊れて修理に出したんだ"))
        await end(home, await home.say("富士通のパソコンを三万円で買ったよ"))
        asker = await home.say("今はエグザンプル町に住んでるから、パソコンのことは忘れて", "どっち？")
        tool = home.__dict__.setdefault("tools", home.memory.tools_for(capabilities(small=True)))[2]
        assert len((await tool.run({"query": "パソコン"}, asker))["which"]) == 2
        assert (await forget(home, "両方", "両方"))["forgotten"] == 2
        await end(home, asker)
        assert await home.stored() == ["今はエグザンプル町に住んでる。"]


@pytest.mark.parametrize("known", [False, True])
async def test_it_outlives_the_blanking_of_its_request_also_after_a_crash_and_where_it_was_known(
    tmp_path: Path, known: bool
) -> None:
    home = quoting(tmp_path)
    kept = "今はエグザンプル町に住んでる。"
    async with home.open() as memory:
        if known:
            await end(home, await home.say("今はエグザンプル町に住んでる"))
        await end(home, await home.say("富士通のパソコンを三万円で買ったよ"))
        asker = await home.say("今はエグザンプル町に住んでるから、富士通のパソコンのことは忘れて")
        tool = memory.tools_for(capabilities(small=True))[2]
        assert (await tool.run({"query": "富士通のパソコン"}, asker))["forgotten"] == 1
        assert await home.stored() == [kept]
    async with home.open() as memory:
        # As a start does for a turn that was cut off.
        await memory.forget_this_turn(asker.turn_id)
        await memory.worker.idle()
        assert await home.stored() == [kept]


@pytest.mark.parametrize(
    ("told", "words", "query", "gone"),
    [
        ("My PIN is 4821", "My PIN is 4821, forget my PIN", "PIN", "4821"),
        ("暗証番号は4821だよ", "暗証番号は4821だけど、暗証番号は忘れて", "暗証番号", "4821"),
        ("My girlfriend is called Anna", "Forget about my girlfriend. Anna moved to York.", "girlfriend", "Anna"),
        ("僕の彼女は花子だよ", "彼女のことは忘れて。花子は新しい町に引っ越したんだ。", "彼女", "花子"),
        ("My address is 12 Old Lane", "Forget my old address, my new number in Old Lane is 14", "address", "Old Lane"),
        ("My bank is Acme and my number is 4821", "Forget my bank number", "bank number", "4821"),
        ("銀行はみどり銀行で、番号は4821だよ", "銀行の番号は忘れて", "銀行の番号", "4821"),
    ],
)
async def test_the_forgotten_thing_is_not_kept_from_the_request_or_beside_it(
    tmp_path: Path, told: str, words: str, query: str, gone: str
) -> None:
    """Before a memory was made of it: only words go, and no memory tells what its names are."""
    home = quoting(tmp_path)
    async with home.open():
        asker = await home.say(told)
        assert (await forget(home, words, query))["forgotten"] == 1
        await end(home, asker)
        assert [one for one in await home.stored() if gone in one] == []
        assert files_with(tmp_path, gone) == []


@pytest.mark.parametrize(
    ("words", "query"),
    [("My PIN is 4821, forget my PIN", "PIN"), ("暗証番号は4821だよ。暗証番号は忘れて", "暗証番号")],
)
async def test_what_is_told_only_to_be_forgotten_is_never_remembered(tmp_path: Path, words: str, query: str) -> None:
    home = quoting(tmp_path)
    async with home.open():
        assert (await forget(home, words, query))["forgotten"] == 0
        await end(home, await home.say("うん"))
        assert await home.stored() == []


async def test_a_memory_kept_of_words_that_went_is_seen_to_be_left(tmp_path: Path) -> None:
    """Whatever let it through."""
    home = quoting(tmp_path)
    async with home.open() as memory:
        asker = await home.say("My PIN is 4821")
        async with home.databases.world(write=False) as db:
            (user, *_) = await memory_browse.words_of_turns(db, [asker.turn_id])
        exchange = OpenExchange(asker.turn_id, "ok", asker.persona, user, None)
        await memory.keeper.keep_besides(proposals_of(exchange, user.text))
        (kept,) = await home.stored()
        assert kept == "My PIN is 4821."
        assert len((await memory.keeper.forget([], also_turn_ids=[asker.turn_id])).still_found) == 1


async def test_what_names_the_forgotten_thing_again_is_not_kept(tmp_path: Path) -> None:
    home = quoting(tmp_path)
    async with home.open():
        await end(home, await home.say("富士通のパソコンを三万円で買ったよ"))
        await forget(home, "富士通のパソコンのことは忘れて。私は富士通が嫌いになった。", "富士通のパソコン")
        await home.memory.worker.idle()
        assert await home.stored() == []
