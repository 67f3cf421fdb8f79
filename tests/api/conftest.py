"""A server on a thread, and a house whose memory is asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.memory_over_http import CAT, CORRECTED, Live, live
from tests.devices.conftest import serve as serve
from tests.memory.said_and_noted import BOUGHT


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Live]:
    """A house with a corrected price, and a cat that only one person knows of."""
    async with live(tmp_path) as made:
        await made.home.talk(BOUGHT)
        await made.home.talk(CORRECTED)
        session_id = await made.home.open_session(channel_id="web:1", private=True)
        await made.home.say(session_id, CAT, channel_id="web:1", speaker_id="mika")
        await made.home.end(session_id)
        await made.home.talk("こんにちは")
        yield made
