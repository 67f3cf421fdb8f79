"""Memories and exact words as JSON values, the same wherever the owner reads them. Knows no HTTP."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

from server.storage.memory_records import Memory
from server.storage.records import SourceTurn

Answer = dict[str, Any]


def memory_json(memory: Memory) -> Answer:
    """All fields of a memory as JSON values; times in RFC 3339, when it happened in its own zone."""
    return {
        "memory_id": memory.memory_id,
        "topic": memory.topic,
        "summary": memory.summary,
        "entities": list(memory.entities),
        "memory_type": memory.memory_type,
        "occurred_at": local_time(memory.occurred_at, memory.zone),
        "zone": memory.zone,
        "status": memory.status,
        "superseded_by": memory.superseded_by,
        "language": memory.language,
        "speakers": list(memory.speakers),
        "confidence": memory.confidence,
        "importance": memory.importance,
        "persona_id": memory.persona_id,
        "channel_id": memory.channel_id,
        "visibility": memory.visibility,
        "index_state": memory.index_state,
        "attempts": memory.attempts,
        "error": memory.error,
        "created_at": memory.created_at.isoformat(),
        "updated_at": memory.updated_at.isoformat(),
        "source_turn_ids": list(memory.source_turn_ids),
    }


def said_json(turn: SourceTurn) -> Answer:
    """One side's exact words; `text` null when they were forgotten."""
    return {
        "source_turn_id": turn.source_turn_id,
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "channel_id": turn.channel_id,
        "role": turn.role,
        "speaker_id": turn.speaker_id,
        "text": turn.text or None,
        "language": turn.language,
        "said_at": local_time(turn.said_at, turn.zone),
    }


def local_time(moment: dt.datetime, zone: str) -> str:
    try:
        return moment.astimezone(ZoneInfo(zone)).isoformat()
    except OverflowError:  # kept before days were limited
        return moment.isoformat()
