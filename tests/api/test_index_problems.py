"""What an index that cannot be used is over HTTP."""

from __future__ import annotations

import pytest

from server.api.problems import status_of
from server.errors import IndexLocked, IndexMismatch, IndexUnavailable, MemoryIndexError, StackChanError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (IndexLocked("x", pid=1), 503),
        (IndexMismatch("x"), 503),
        (IndexUnavailable("x"), 503),
        (MemoryIndexError("x", code="index_busy"), 503),
        (MemoryIndexError("x", code="index_closed"), 503),
        (MemoryIndexError("x"), 500),
    ],
)
def test_the_statuses_of_an_index_that_cannot_be_used(error: StackChanError, status: int) -> None:
    assert status_of(error) == status
