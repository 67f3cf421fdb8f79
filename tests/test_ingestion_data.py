"""The labelled conversations that judge what is kept: complete, consistent, and none close to what the prompt shows.

`dev.json` chooses, `held_out.json` only scores: it was frozen before any tuning.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from server.memory.check import is_filler
from server.memory.dates import named_days
from server.memory.numbers import values
from server.memory.prompts import SpokenExchange, summary_request
from server.storage.recall_tables import MemoryType
from server.storage.words import entity_key

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data" / "ingestion"
FROZEN_SHA256 = {
    "dev": "67b5b0eead909bad26c19a54b1118bcdebe4a79b112e7ec4617cd7f8a21ed7cd",
    "held_out": "9b7a7e91a91df746ce049072b18946217216d3257b406230f66efad9e56dd183",
}
TOO_CLOSE = 0.65


def read(half: str) -> list[dict[str, Any]]:
    return json.loads((DATA / f"{half}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


HALVES = {half: read(half) for half in FROZEN_SHA256}
CONVERSATIONS = [one for half in HALVES.values() for one in half]
FACTS = [
    pytest.param(one, fact, id=f"{one['id']}-{place}")
    for one in CONVERSATIONS
    for place, fact in enumerate(one["facts"])
]
each = pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one["id"])


def plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LN")


def alike(one: str, other: str) -> float:
    return SequenceMatcher(None, plain(one), plain(other), autojunk=False).ratio()


def users(half: str) -> list[str]:
    """What the users say, without what any conversation may hold: greetings, and answers like うん."""
    said = [said["user"] for one in HALVES[half] for said in one["exchanges"]]
    return [text for text in said if not is_filler([text])]


def shown_texts() -> list[str]:
    """What the summarizer's examples show as said and write as memories."""
    nothing = [SpokenExchange("x", None, dt.date(2026, 11, 30))]
    texts: list[str] = []
    for language in ("ja", "en"):
        for message in summary_request(nothing, language).messages[1:-1]:
            if message.role == "user":
                texts += [line.partition(": ")[2] for line in message.content.splitlines()]
            else:
                texts += [one.get("summary", "") for one in json.loads(message.content)["memories"]]
    return [text for text in texts if text]


@pytest.mark.parametrize("half", HALVES)
def test_the_conversations_are_as_they_were_frozen(half: str) -> None:
    text = (DATA / f"{half}.json").read_text(encoding="utf-8")
    found = hashlib.sha256(text.encode()).hexdigest()
    assert found == FROZEN_SHA256[half], "it judges the prompt: write a new file beside it instead of changing it"


def test_each_half_has_both_languages() -> None:
    counted = Counter((half, one["language"]) for half, some in HALVES.items() for one in some)
    assert counted == {("dev", "ja"): 4, ("dev", "en"): 2, ("held_out", "ja"): 4, ("held_out", "en"): 2}
    assert len({one["id"] for one in CONVERSATIONS}) == len(CONVERSATIONS)


@each
def test_a_conversation_has_its_fields(conversation: dict[str, Any]) -> None:
    assert set(conversation) == {"id", "language", "said_at", "exchanges", "facts"}
    assert dt.datetime.fromisoformat(conversation["said_at"]).tzinfo is not None
    assert 10 <= len(conversation["exchanges"]) <= 30
    for said in conversation["exchanges"]:
        assert {"user", "robot", "filler"} <= set(said) <= {"user", "robot", "filler", "speaker", "begins"}
        assert said["user"].isascii() == (conversation["language"] == "en")
    assert "begins" in conversation["exchanges"][0]
    assert sum("begins" in said for said in conversation["exchanges"]) >= 4, "topics change"
    assert 0.3 <= sum(said["filler"] for said in conversation["exchanges"]) / len(conversation["exchanges"]) <= 0.65


@each
def test_what_is_to_be_kept_comes_from_no_filler_and_filler_holds_nothing(conversation: dict[str, Any]) -> None:
    told = {fact["exchange"] for fact in conversation["facts"]}
    kept = {place for place, said in enumerate(conversation["exchanges"], start=1) if not said["filler"]}
    assert told <= kept
    assert kept - told <= {place for place in kept if any(abs(place - other) <= 1 for other in told)}


@pytest.mark.parametrize(("conversation", "fact"), FACTS)
def test_a_fact_can_be_read_off_what_was_said(conversation: dict[str, Any], fact: dict[str, Any]) -> None:
    assert set(fact) == {"memory_type", "exchange", "optional", "keys", "numbers", "days", "corrected"}
    assert fact["memory_type"] in get_args(MemoryType)
    assert fact["keys"]
    said = conversation["exchanges"][fact["exchange"] - 1]["user"]
    on = dt.datetime.fromisoformat(conversation["said_at"]).date()
    before = " ".join(one["user"] for one in conversation["exchanges"][: fact["exchange"]])
    assert any(entity_key(key) in entity_key(said) for key in [key for group in fact["keys"] for key in group]) or (
        fact["numbers"] or fact["days"]
    )
    for group in fact["keys"]:
        # What it is about may have been named a little earlier, or be put in other words by whoever writes it down.
        assert any(entity_key(key) in entity_key(before) for key in group), group
    for number in fact["numbers"]:
        assert values(number), number
        assert values(number) <= values(said), number
    if fact["days"]:
        first, last = (dt.date.fromisoformat(day) for day in fact["days"])
        # A day without its year is read as the one before; which one is meant, the label says.
        read_off = [[(day.month, day.day) for day in (one.first, one.last)] for one in named_days(said, on)]
        assert [(day.month, day.day) for day in (first, last)] in read_off
    if fact["corrected"]:
        assert values(fact["corrected"]) <= values(before)


def test_there_is_enough_of_every_kind() -> None:
    for half in HALVES.values():
        facts = [fact for one in half for fact in one["facts"] if not fact["optional"]]
        assert len(facts) >= 45
        kinds = Counter(fact["memory_type"] for fact in facts)
        assert min(kinds[kind] for kind in get_args(MemoryType)) >= 4, kinds
        assert sum(bool(fact["numbers"]) for fact in facts) >= 15
        assert sum(bool(fact["days"]) for fact in facts) >= 5
        assert sum(bool(fact["corrected"]) for fact in facts) >= 1
        people = [{said["speaker"] for said in one["exchanges"] if "speaker" in said} for one in half]
        assert sum(len(some) == 2 for some in people) >= 2


def test_the_halves_are_not_close_to_each_other() -> None:
    pairs = product(users("dev"), users("held_out"))
    assert [(a, b) for a, b in pairs if alike(a, b) >= TOO_CLOSE] == []


def test_nothing_is_close_to_what_the_prompt_shows() -> None:
    shown = shown_texts()
    assert len(shown) >= 10
    every = [*users("dev"), *users("held_out")]
    assert [(a, b) for a, b in product(every, shown) if alike(a, b) >= TOO_CLOSE] == []


def test_the_measure_finds_a_near_duplicate() -> None:
    assert (
        alike("水は週に二回しかあげてない", "水を週に二回あげてる") >= TOO_CLOSE > alike("車検の見積もり", "犬の手術")
    )
