"""A whole server that remembers, on the same data each time, and what goes wrong beneath it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.memory.whole_server import FACTS, NotingLlm, Vectors, best, get, index_folder, problem, say

KINDS = ("local", "edge")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(serve: Callable[..., Any]) -> Callable[..., Any]:
    """`start(kind, embedding)`: a server that remembers, on the same data each time."""

    def opened(kind: str = "local", embedding: Vectors | None = None) -> Any:
        env = {"STACKCHAN_MEMORY__INDEX_KIND": kind}
        return serve(llm=NotingLlm(), embedding=embedding or Vectors(), env=env)

    return opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return index_folder(tmp_path / "data")


def fail_writes(patch: pytest.MonkeyPatch, kind: str, code: int, message: str) -> None:
    """Every write of a point fails: on a full disk for `edge`, with that SQLite code for `local`."""

    def fail(*arguments: object) -> None:
        if kind == "edge":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        error = sqlite3.OperationalError(message)
        error.sqlite_errorcode = code
        raise error

    patch.setattr(
        "server.memory.index.edge.EdgeStore.write"
        if kind == "edge"
        else "qdrant_client.local.persistence.CollectionPersistence.persist",
        fail,
    )


async def only_words(live: Any, code: str, *, hint: str) -> dict[str, Any]:
    """Words find and turns go on, and the status says why and what to do."""
    await say(live, "おはよう")
    assert await best(live) == list(FACTS)
    searched = (await get(live, "/v1/memories", query="富士通のパソコン"))["searched"]
    assert searched["words_only"] == "index_unavailable"
    told = await problem(live)
    assert told is not None
    assert told["code"] == code
    assert hint in told["hint"]
    return told
