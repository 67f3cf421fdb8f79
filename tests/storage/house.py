"""Shorthand for a house with one channel: enough rows to hang turns on."""

from __future__ import annotations

import datetime as dt
from typing import Any

from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.records import Turn
from server.storage.sessions import open_session
from server.storage.turns import RobotWords, create_turn

NOW = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
TEN_MINUTES = dt.timedelta(minutes=10)
CHANNEL = "stackchan:desk"


async def make_session(databases: Databases, *, channel_id: str = CHANNEL, private: bool = False) -> str:
    async with databases.world() as db:
        await ensure_channel(db, channel_id, kind="stackchan", now=NOW, private=private)
        opened = await open_session(db, channel_id=channel_id, device_id="desk", now=NOW, idle_close=TEN_MINUTES)
    return opened.session_id


async def make_turn(
    databases: Databases, turn_id: int, session_id: str, *, channel_id: str = CHANNEL, **changes: Any
) -> Turn:
    async with databases.world() as db:
        return await create_turn(
            db,
            turn_id=turn_id,
            session_id=session_id,
            channel_id=channel_id,
            device_id="desk",
            input_kind="audio",
            persona_id="tester",
            started_at=NOW,
            **changes,
        )


def user_words(text: str = "左を見て", **changes: Any) -> dict[str, Any]:
    return {
        "text": text,
        "language": "ja",
        "speaker_id": None,
        "said_at": NOW,
        "zone": "Asia/Tokyo",
        "audio_duration_ms": 900,
    } | changes


def robot_words(source_turn_id: int, text: str = "見たよ。", **changes: Any) -> RobotWords:
    values: dict[str, Any] = {"language": "ja", "said_at": NOW, "zone": "Asia/Tokyo"} | changes
    return RobotWords(source_turn_id, text, **values)
