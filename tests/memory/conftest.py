"""What several tests of long-term memory read, made once for each module."""

from __future__ import annotations

import asyncio

import pytest

from tests.memory.exporting import talked_and_exported


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An exported memory."""
    return asyncio.run(talked_and_exported(tmp_path_factory.mktemp("one")))
