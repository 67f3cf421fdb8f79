"""What a small model searches with: the user's words, and its own beside them only where those name nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

import pytest

from server.memory.asked import AskedMemory
from server.memory.asking import Asker
from server.memory.question_words import needs_what_was_said
from server.memory.recall_records import Searched, SearchQuery, SearchResult
from server.memory.tools import SearchArguments

pytestmark = pytest.mark.unit
NAMES_NOTHING = (
    *("名前は？", "何歳？", "それは何色？", "その値段は？", "あれはどこ？", "彼の仕事は？", "いつだっけ", "いくら？"),
    *(
        "What colour is it?",
        "Where does he live?",
        "What’s her name?",
        "How much was it?",
        "How old?",
        "Where is that?",
    ),
)
NAMES_SOMETHING = (
    *("鍵はどこ？", "猫の名前は？", "パソコンはいくらだった？", "あれ、鍵はどこ？", "猫はその時何歳だった？"),
    *("Where is the key?", "What colour is my cat?", "How much was the desktop?", "What did my sister say of her job?"),
)


class Searching:
    """Finds nothing, and keeps what was searched for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, query: SearchQuery) -> SearchResult:
        self.asked.append(query.text)
        return SearchResult((), (), False, Searched(0))


async def searched(words: str, query: str, *, small: bool = True) -> str:
    recall = Searching()
    memory = AskedMemory(cast(Any, None), cast(Any, recall), cast(Any, None))
    asker = Asker("p", None, "s", 1, dt.datetime(2026, 12, 1, tzinfo=dt.UTC), dt.UTC, words)
    search = memory.search_for_answer if small else memory.search
    await search(SearchArguments(query=query), asker)
    return recall.asked[0]


@pytest.mark.parametrize("words", NAMES_SOMETHING)
async def test_words_that_name_something_are_searched_for_as_they_are(words: str) -> None:
    assert not needs_what_was_said(words)
    assert await searched(words, "富士通 desktop") == words


@pytest.mark.parametrize("words", NAMES_NOTHING)
async def test_the_models_words_help_where_the_users_name_nothing(words: str) -> None:
    assert await searched(words, "弟 brother") == f"{words} 弟 brother"


async def test_a_large_model_searches_with_its_own() -> None:
    assert await searched("鍵はどこ？", "鍵 箱", small=False) == "鍵 箱"
