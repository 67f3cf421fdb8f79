"""The audit draws from the owner's own log, and from nothing that was forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.errors import RequestError
from server.memory.audit import audit
from tests.memory.making import house
from tests.memory.said_and_noted import BOUGHT, summaries

pytestmark = pytest.mark.integration

LIKES = "辛いものが好き"


async def test_what_was_kept_stands_beside_what_was_left_out(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        assert await audit(home.databases) == {
            "kept": [],
            "filler": [],
            "segments": {},
            "memories_by_type": {},
            "filler_share": None,
        }
        await home.talk(BOUGHT)
        await home.talk((LIKES, "そうなんだ"))
        await home.talk("こんにちは")
        found = await audit(home.databases, sample=5)
        kept = {
            segment["said"][0]["text"]: [one["memory_type"] for one in segment["memories"]] for segment in found["kept"]
        }
        assert kept == {BOUGHT: ["episode"], LIKES: ["preference"]}
        assert [[said["text"] for said in segment["said"]] for segment in found["filler"]] == [["こんにちは", "うん。"]]
        assert [segment["memories"] for segment in found["filler"]] == [[]]
        assert found["segments"] == {"memories": 2, "filler": 1}
        assert found["memories_by_type"] == {"episode": 1, "preference": 1}
        assert found["filler_share"] == pytest.approx(1 / 3)
        bought = next(one for one in await home.memories() if one.memory_type == "episode")
        await home.keeper.forget([bought.memory_id])
        found = await audit(home.databases, sample=5)
        assert [segment["said"][0]["text"] for segment in found["kept"]] == [LIKES]
        assert found["memories_by_type"] == {"preference": 1}
        assert len((await audit(home.databases, sample=1))["kept"]) == 1
        for sample in (0, 201, -1):
            with pytest.raises(RequestError):
                await audit(home.databases, sample=sample)
