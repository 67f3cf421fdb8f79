"""Timers without a clock or a database, and the tools over them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from server.memory.asking import Asker
from server.persona import default_persona_path, load_persona
from server.pipeline.time_tools import time_tools
from server.storage.records import Timer
from tests.fakes.engines import FakeLlm

NOW = datetime(2026, 11, 30, 6, 3, tzinfo=UTC)
PERSONA = load_persona(default_persona_path())
SMALL = FakeLlm().capabilities
LARGE = replace(SMALL, wants_examples=False, native_tools=True)


class Kept:
    """Timers without a clock or a database."""

    def __init__(self) -> None:
        self.there: list[Timer] = []

    def can_ring(self, device_id: str) -> bool:
        return device_id in ("desk", "kitchen")

    async def set(
        self, device_id: str, due: int | datetime, label: str, language: str, *, said_at: datetime | None = None
    ) -> Timer:
        due_at = due if isinstance(due, datetime) else (said_at or NOW) + timedelta(seconds=due)
        zone = str(due.tzinfo) if isinstance(due, datetime) else None
        seconds = round((due_at - NOW).total_seconds())
        self.there.append(Timer(len(self.there) + 1, device_id, label, language, seconds, NOW, due_at, zone))
        return self.there[-1]

    def of(self, device_id: str) -> tuple[Timer, ...]:
        return tuple(timer for timer in self.there if timer.device_id == device_id)

    async def cancel(self, device_id: str, timer_ids: tuple[int, ...]) -> tuple[Timer, ...]:
        gone = tuple(timer for timer in self.of(device_id) if timer.timer_id in timer_ids)
        self.there = [timer for timer in self.there if timer not in gone]
        return gone


def tools(kept: Kept, capabilities: Any = LARGE) -> dict[str, Any]:
    made: Any = time_tools(kept, PERSONA, capabilities, lambda: NOW)  # type: ignore[arg-type]
    return {tool.spec.name: tool for tool in made}


def asker(words: str, language: str = "ja", device_id: str = "desk") -> Asker:
    return Asker("p", None, "s", 1, NOW, ZoneInfo("Asia/Tokyo"), words, language, device_id)
