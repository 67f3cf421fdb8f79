"""A look into the owner's own log: what was kept and what was taken for filler, side by side with the exact words.

Drawn at random, so that the owner can count for themselves whether filler is left out and events and preferences are
kept. Judges nothing; knows no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from server.errors import RequestError
from server.memory.as_json import Answer, said_json
from server.storage import memories, memory_browse, memory_lookup
from server.storage.database import Databases, Db
from server.storage.memory_records import Segment

SAMPLE_LIMIT = 200


async def audit(databases: Databases, *, sample: int = 20) -> Answer:
    """`sample` segments of each kind at most, and the counts of all. Raises `RequestError`.

    `{"kept": [{"segment_id", "said": [...], "memories": [...]}], "filler": [...], "segments": {result: n},
    "memories_by_type": {type: n}, "filler_share": 0-1 or null}`
    """
    if not 1 <= sample <= SAMPLE_LIMIT:
        raise RequestError(f"Sample must be 1 to {SAMPLE_LIMIT}.", code="arguments_invalid")
    async with databases.world(write=False) as db:
        kept = await _shown(db, await memory_browse.sample_segments(db, "memories", sample))
        filler = await _shown(db, await memory_browse.sample_segments(db, "filler", sample))
        segments = (await memory_lookup.counts(db)).segments
        types = await memory_browse.memory_types(db)
    judged = segments.get("memories", 0) + segments.get("filler", 0)
    return {
        "kept": kept,
        "filler": filler,
        "segments": dict(segments),
        "memories_by_type": types,
        "filler_share": segments.get("filler", 0) / judged if judged else None,
    }


async def _shown(db: Db, segments: Sequence[Segment]) -> list[Answer]:
    """The segments, latest first, with what was said in each and what was made of it."""
    said = await memory_browse.words_of_turns(db, [turn_id for segment in segments for turn_id in segment.turn_ids])
    made = await memory_lookup.of_source_turns(db, [turn.source_turn_id for turn in said])
    ids = dict.fromkeys(memory_id for found in made.values() for memory_id in found)
    known = {memory.memory_id: memory for memory in await memories.get_many(db, list(ids))}
    shown: list[Answer] = []
    for segment in sorted(segments, key=lambda one: one.closed_at, reverse=True):
        words = [turn for turn in said if turn.turn_id in segment.turn_ids]
        of_it = dict.fromkeys(one for turn in words for one in made.get(turn.source_turn_id, ()))
        fields = ("memory_id", "topic", "summary", "memory_type", "confidence", "status")
        noted: list[dict[str, Any]] = [{name: getattr(known[one], name) for name in fields} for one in of_it]
        shown.append(
            {
                "segment_id": segment.segment_id,
                "session_id": segment.session_id,
                "closed_at": segment.closed_at.isoformat(),
                "said": [said_json(turn) for turn in words],
                "memories": noted,
            }
        )
    return shown
