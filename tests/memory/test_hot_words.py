"""Names the ear should expect come from the memories nearest to what is talked about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from server.engines.base import LlmRequest
from server.errors import StorageError
from server.memory.hot_words import HotWords, is_hot_word
from tests.memory.making import House, house, note

pytestmark = pytest.mark.integration
SAID = {
    "猫のコムギが家に来た": ("コムギ", "猫"),
    "犬のダイズと海に行った": ("ダイズ", "犬"),
    "富士通のパソコンを買った": ("富士通", "30000"),
}


def summaries(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
    return [
        note(f"{text}。", *SAID.get(text, ("ヒミツ",)), about=[place], topic=text)
        for place, text in enumerate(said, start=1)
    ]


async def talked(home: House) -> HotWords:
    for text in SAID:
        await home.talk(text)
    return HotWords(lambda: home.databases.world(write=False), home.recall)


async def test_the_nearest_come_first_and_each_once(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        hot_words = await talked(home)
        near = await hot_words.near(["海に行きたい", "犬も一緒に"], home.asked("-"))
        assert near[0] == "ダイズ"
        assert set(near) == {"コムギ", "ダイズ", "富士通"}, "numbers and single characters help no ear"
        assert len(await hot_words.near(["犬"], home.asked("-"), limit=1)) == 1


async def test_before_anything_is_said_the_newest_memories_tell(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        assert (await (await talked(home)).near([], home.asked("-")))[0] == "富士通"


async def test_a_stranger_hears_nothing_private(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("鍵は秘密の場所にある", channel_id="web:1", private=True, speaker_id="tsumugu")
        hot_words = HotWords(lambda: home.databases.world(write=False), home.recall)
        assert await hot_words.near(["鍵"], home.asked("-")) == ()
        assert await hot_words.near(["鍵"], home.asked("-", speaker="tokiwa")) == ()
        # The summarizer's word was not said, so it is no name of this memory either.
        assert await hot_words.near(["鍵"], home.asked("-", speaker="tsumugu")) == ()


async def test_a_memory_that_cannot_be_reached_gives_none(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:

        @asynccontextmanager
        async def broken() -> AsyncIterator[Any]:
            raise StorageError("no disk")
            yield

        assert await HotWords(broken, home.recall).near(["猫"], home.asked("-")) == ()


@pytest.mark.parametrize(
    ("name", "helps"),
    [
        ("コムギ", True),
        ("RTX 3050", True),
        ("猫", False),
        ("30000", False),
        ("", False),
        ("あ" * 25, False),
        ("😀😀", False),
    ],
)
def test_which_names_help(name: str, helps: bool) -> None:
    assert is_hot_word(name) == helps
