"""Where a turn's words go: the one place that maps turns to storage.

Every method returns only when its words are on the disk. Decides which session a turn belongs to by the rules of
`storage.sessions`; knows no engines and no wire format.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from server.config_sections import SessionSettings
from server.context.session_turns import STEP_TURNS, Exchange, SessionTurns
from server.errors import AuthError, StackChanError, StorageError
from server.events import TurnStatus
from server.persona import Persona
from server.pipeline.request import Heard, OpenTurn, TurnError, TurnRequest, TurnResult
from server.storage import channels, devices, exchanges, forgetting, sessions, turns
from server.storage.database import Databases, Db
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS, IdAllocator
from server.storage.records import Device, Session, Turn
from server.storage.turns import RobotWords

_SEEN_TO = timedelta(minutes=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as it was stored; `result` of an unfinished turn holds what is known so far."""

    result: TurnResult
    device_id: str
    ended_at: datetime | None
    trace: Mapping[str, Any] = field(default_factory=dict)
    request_digest: str | None = None
    speaks: bool = False
    """It has not ended, and its voice can be heard already."""


class KeyTakenError(Exception):
    """The turn of this idempotency key exists already; it was stored since the caller looked."""


class TurnJournal:
    """Opens, writes and reads the turns of one world."""

    def __init__(self, databases: Databases, settings: SessionSettings, persona: Persona) -> None:
        self._databases = databases
        self._settings = settings
        self._persona = persona
        self._unclosed: dict[int, tuple[StackChanError, Mapping[str, Any]]] = {}
        self._turn_ids = IdAllocator(databases.server, TURN_IDS)
        self._source_turn_ids = IdAllocator(databases.server, SOURCE_TURN_IDS)

    async def next_turn_id(self) -> int:
        """A number that no turn has had."""
        return await self._turn_ids.next_id()

    async def close(self) -> None:
        """At the end, once nothing takes a number any more: those that were set aside are the next start's."""
        for ids in (self._turn_ids, self._source_turn_ids):
            try:
                await ids.give_back()
            except StorageError as error:  # they are skipped, as after a kill
                _log.warning("numbers that were not used could not be given back: %s", error.code)

    async def begin(self, turn_id: int, request: TurnRequest, now: datetime, *, status: TurnStatus) -> OpenTurn:
        """Store a new `queued` or `running` turn, with its device, channel and session; make what is new.

        Words that are known already are stored with it, in one commit: nobody waits for a disk twice.
        Raises `AuthError` (`device_revoked`) for a device that was shut out, `KeyTakenError`.
        """
        await self._close_unclosed(now)
        device = await self._device(request.device_id, now)
        if device.revoked_at is not None:
            raise AuthError(f"Device {request.device_id} has been revoked.", code="device_revoked")
        channel_id = _channel_of(request.device_id)
        heard = request.known_words
        source_turn_id = None if heard is None else await self._source_turn_ids.next_id()
        async with self._databases.world() as db:
            key = request.idempotency_key
            # Inside the writing transaction, where nobody can store it between the look and the write.
            if key is not None and await turns.find_turn_by_key(db, channel_id, key) is not None:
                raise KeyTakenError
            session = await self._session(db, request, now)
            await turns.create_turn(
                db,
                turn_id=turn_id,
                session_id=session.session_id,
                channel_id=channel_id,
                device_id=request.device_id,
                input_kind="audio" if request.text is None else "text",
                persona_id=self._persona.persona_id,
                started_at=now,
                status=status,
                transcript=request.text,
                idempotency_key=key,
                request_digest=request.request_digest,
            )
            history = await self._history(db, session.session_id)
            turn = _open_turn(turn_id, request, session, device, now, history)
            if heard is not None and source_turn_id is not None:
                await self._add_words(db, turn, heard, source_turn_id)
        return replace(turn, heard=heard)

    async def expect(self, request: TurnRequest, now: datetime) -> OpenTurn:
        """The conversation that a turn of this device would belong to now, opened when it is new; no turn is stored.

        The number of the turn is 0. Raises `AuthError` (`device_revoked`).
        """
        device = await self._device(request.device_id, now)
        if device.revoked_at is not None:
            raise AuthError(f"Device {request.device_id} has been revoked.", code="device_revoked")
        async with self._databases.world() as db:
            session = await self._session(db, request, now)
            history = await self._history(db, session.session_id)
        return _open_turn(0, request, session, device, now, history)

    async def look_again(self, expected: OpenTurn, now: datetime) -> OpenTurn:
        """What `expect` gave, with what was said since; writes nothing."""
        async with self._databases.world(write=False) as db:
            history = await self._history(db, expected.session_id)
        return replace(expected, started_at=now, history=history)

    async def _session(self, db: Db, request: TurnRequest, now: datetime) -> Session:
        channel_id = _channel_of(request.device_id)
        await channels.ensure_channel(db, channel_id, kind="stackchan", now=now)
        return await sessions.open_session(
            db,
            channel_id=channel_id,
            device_id=request.device_id,
            now=now,
            idle_close=timedelta(minutes=self._settings.idle_close_minutes),
            label=request.session_label,
        )

    async def _history(self, db: Db, session_id: str) -> SessionTurns:
        # One step more than the window holds, so that its start can be found.
        most = self._settings.context_turns + STEP_TURNS
        recent, total = await exchanges.newest_exchanges(db, session_id, most)
        return SessionTurns(
            tuple(
                Exchange(
                    user_text=exchange.user_text,
                    robot_text=exchange.robot_text,
                    language=exchange.language,
                    said_at=exchange.said_at,
                    emotion=exchange.emotion or "neutral",
                    action=exchange.action or "none",
                    interrupted=exchange.interrupted,
                )
                for exchange in recent
            ),
            earlier=total - len(recent),
        )

    async def _device(self, device_id: str, now: datetime) -> Device:
        """The device, made when new. When it was seen last is kept to the minute: a turn need not wait for a disk."""
        async with self._databases.server(write=False) as db:
            known = await devices.get_device(db, device_id)
        if known is not None and abs(now - known.last_seen_at) < _SEEN_TO:
            return known
        async with self._databases.server() as db:
            return await devices.ensure_device(db, device_id, now=now)

    async def started(self, turn: OpenTurn) -> None:
        """A queued turn runs from now on."""
        async with self._databases.world() as db:
            await turns.start_turn(db, turn.turn_id)

    async def heard(self, turn: OpenTurn, heard: Heard, now: datetime) -> None:
        """Store the user's words; from here on they are never lost."""
        source_turn_id = await self._source_turn_ids.next_id()
        async with self._databases.world() as db:
            await self._add_words(db, turn, heard, source_turn_id)

    async def _add_words(self, db: Db, turn: OpenTurn, heard: Heard, source_turn_id: int) -> None:
        await turns.add_user_turn(
            db,
            turn.turn_id,
            source_turn_id,
            text=heard.text,
            language=heard.language,
            speaker_id=turn.speaker_id,
            said_at=turn.started_at,
            zone=self._persona.zone,
            audio_duration_ms=heard.audio_duration_ms,
        )

    async def ended(self, turn: OpenTurn, result: TurnResult, trace: Mapping[str, Any], now: datetime) -> None:
        """Store the robot's words, the outcome and the trace, together."""
        words = None
        if result.reply:
            words = RobotWords(
                source_turn_id=await self._source_turn_ids.next_id(),
                text=result.reply,
                language=result.language or self._persona.languages[0],
                said_at=now,
                zone=self._persona.zone,
                audio_duration_ms=result.speech_duration_ms,
                interrupted=result.outcome == "interrupted",
                tool_calls=list(result.tool_calls) or None,
            )
        error = result.error
        async with self._databases.world() as db:
            await turns.finish_turn(
                db,
                turn.turn_id,
                outcome=result.outcome or "failed",
                ended_at=now,
                robot=words,
                emotion=result.emotion,
                action=result.action,
                speech_duration_ms=result.speech_duration_ms,
                latency=dict(result.latency_ms),
                memory=dict(result.memory),
                trace=dict(trace),
                error_code=error.code if error else None,
                error_message=error.message if error else None,
            )
            if words is not None and words.tool_calls:
                # Somebody may have had it forgotten on another device meanwhile.
                await forgetting.forget_shown(db, turn.turn_id, now=now)
            await sessions.touch_session(db, turn.session_id, now=now)

    async def abandon(
        self, turn: OpenTurn, error: StackChanError, now: datetime, trace: Mapping[str, Any] | None = None
    ) -> None:
        """Close a turn that cannot be taken to its end; when that cannot be stored, the next turn tries again.

        `trace`: its times until then. Raises `StorageError`.
        """
        self._unclosed[turn.turn_id] = error, trace or {}
        await self._close_unclosed(now)

    async def _close_unclosed(self, now: datetime) -> None:
        for turn_id, (error, trace) in list(self._unclosed.items()):
            async with self._databases.world() as db:
                stored = await turns.get_turn(db, turn_id)
                if stored is not None and stored.ended_at is None:
                    await turns.fail_turn(
                        db,
                        turn_id,
                        error_code=error.code,
                        error_message=error.message,
                        ended_at=now,
                        trace={**trace, "error": {"code": error.code, "retryable": error.retryable}},
                    )
            self._unclosed.pop(turn_id, None)

    async def read(self, turn_id: int) -> StoredTurn | None:
        """A turn as it is stored now; None when there is none."""
        async with self._databases.world(write=False) as db:
            turn = await turns.get_turn(db, turn_id)
            if turn is None:
                return None
            trace = await turns.get_trace(db, turn_id)
        return _stored(turn, trace or {})

    async def find(self, device_id: str, idempotency_key: str) -> StoredTurn | None:
        """The turn a device began under this key, however long ago; None when there is none."""
        async with self._databases.world(write=False) as db:
            turn = await turns.find_turn_by_key(db, _channel_of(device_id), idempotency_key)
            if turn is None:
                return None
            trace = await turns.get_trace(db, turn.turn_id)
        return _stored(turn, trace or {})

    async def find_session(self, session_id: str) -> Session | None:
        """A conversation by its id."""
        async with self._databases.world(write=False) as db:
            return await sessions.get_session(db, session_id)

    async def end_session(self, session_id: str, now: datetime) -> datetime:
        """End a conversation; returns when it ended, also when it had before. Raises `NotFoundError`."""
        async with self._databases.world() as db:
            await sessions.close_session(db, session_id, now=now)
            await db.flush()
            ended = await sessions.get_session(db, session_id)
        return now if ended is None or ended.closed_at is None else ended.closed_at

    async def close_running_turns(self, now: datetime) -> list[int]:
        """At start: close turns that the last process left running, and quiet conversations; the turns' ids."""
        async with self._databases.world() as db:
            closed = await turns.close_running_turns(db, now=now)
            await sessions.close_idle_sessions(
                db, now=now, idle_close=timedelta(minutes=self._settings.idle_close_minutes)
            )
        return closed


def _open_turn(
    turn_id: int, request: TurnRequest, session: Session, device: Device, now: datetime, history: SessionTurns
) -> OpenTurn:
    return OpenTurn(
        turn_id=turn_id,
        session_id=session.session_id,
        channel_id=_channel_of(request.device_id),
        device_id=request.device_id,
        speaker_id=request.speaker_id or device.owner_speaker_id,
        started_at=now,
        history=history,
    )


def _channel_of(device_id: str) -> str:
    return f"stackchan:{device_id}"


def _stored(turn: Turn, trace: Mapping[str, Any]) -> StoredTurn:
    return StoredTurn(_result(turn, trace), turn.device_id or "", turn.ended_at, trace, turn.request_digest)


def _result(turn: Turn, trace: Mapping[str, Any]) -> TurnResult:
    error = None
    if turn.error_code is not None:
        # A turn that the end of the process cut has no trace, and nothing speaks against trying again.
        retryable = trace.get("error", {}).get("retryable", turn.error_code == turns.SERVER_STOPPED)
        error = TurnError(turn.error_code, turn.error_message or "", retryable)
    return TurnResult(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        status=turn.status,
        outcome=turn.outcome,
        transcript=turn.transcript or "",
        language=turn.language or "",
        reply=turn.reply or "",
        emotion=turn.emotion or "neutral",
        action=turn.action or "none",
        speech_duration_ms=turn.speech_duration_ms,
        memory=turn.memory or {},
        latency_ms=turn.latency or {},
        error=error,
    )
