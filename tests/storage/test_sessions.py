"""Which conversation words belong to: by time, by label, by request."""

from __future__ import annotations

import datetime as dt

import pytest

from server.errors import NotFoundError, StorageError
from server.storage import jobs
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.records import Session
from server.storage.sessions import (
    close_idle_sessions,
    close_session,
    get_session,
    open_session,
    touch_session,
)
from tests.storage.house import CHANNEL, NOW, TEN_MINUTES

pytestmark = pytest.mark.integration


def after(minutes: float) -> dt.datetime:
    return NOW + dt.timedelta(minutes=minutes)


async def speak(databases: Databases, minutes: float, label: str | None = None, channel: str = CHANNEL) -> Session:
    async with databases.world() as db:
        await ensure_channel(db, channel, kind="stackchan", now=NOW)
        return await open_session(
            db, channel_id=channel, device_id="desk", label=label, now=after(minutes), idle_close=TEN_MINUTES
        )


async def stored(databases: Databases, session: Session) -> Session:
    async with databases.world(write=False) as db:
        found = await get_session(db, session.session_id)
    assert found is not None
    return found


async def test_words_within_ten_minutes_go_on(databases: Databases) -> None:
    first = await speak(databases, 0)
    second = await speak(databases, 9.9)
    third = await speak(databases, 19.7)
    assert first.session_id == second.session_id == third.session_id
    assert third.last_active_at == after(19.7)


async def test_ten_idle_minutes_end_it_when_they_ended(databases: Databases) -> None:
    first = await speak(databases, 0)
    second = await speak(databases, 45)
    assert first.session_id != second.session_id
    old = await stored(databases, first)
    assert (old.closed_at, old.close_reason) == (after(10), "idle")


async def test_other_label_ends_it_at_once(databases: Databases) -> None:
    first = await speak(databases, 0, "朝の会話")
    assert (await speak(databases, 1, "朝の会話")).session_id == first.session_id
    second = await speak(databases, 2, "b")
    assert second.session_id != first.session_id
    old = await stored(databases, first)
    assert (old.closed_at, old.close_reason) == (after(2), "replaced")


async def test_no_label_is_the_open_one(databases: Databases) -> None:
    first = await speak(databases, 0, "a")
    assert (await speak(databases, 1)).session_id == first.session_id


async def test_first_label_ends_an_unlabelled_one(databases: Databases) -> None:
    first = await speak(databases, 0)
    assert (await speak(databases, 1, "a")).session_id != first.session_id


async def test_session_id_sent_back_as_label_goes_on(databases: Databases) -> None:
    first = await speak(databases, 0)
    assert (await speak(databases, 1, first.session_id)).session_id == first.session_id


async def test_closed_label_opens_a_new_one(databases: Databases) -> None:
    first = await speak(databases, 0, "a")
    async with databases.world() as db:
        assert await close_session(db, first.session_id, now=after(1))
        assert not await close_session(db, first.session_id, now=after(2))
    old = await stored(databases, first)
    assert (old.closed_at, old.close_reason) == (after(1), "requested")
    assert (await speak(databases, 2, "a")).session_id != first.session_id


async def test_channels_do_not_share_conversations(databases: Databases) -> None:
    first = await speak(databases, 0, "a")
    second = await speak(databases, 0, "b", channel="stackchan:kitchen")
    assert (await stored(databases, first)).closed_at is None
    assert first.session_id != second.session_id


async def test_touch_starts_the_idle_time_again_and_never_turns_back(databases: Databases) -> None:
    first = await speak(databases, 0)
    async with databases.world() as db:
        await touch_session(db, first.session_id, now=after(8))
        await touch_session(db, first.session_id, now=after(3))
    assert (await stored(databases, first)).last_active_at == after(8)


async def test_idle_sessions_are_closed_together(databases: Databases) -> None:
    old = await speak(databases, 0)
    fresh = await speak(databases, 5, channel="stackchan:kitchen")
    async with databases.world() as db:
        assert await close_idle_sessions(db, now=after(12), idle_close=TEN_MINUTES) == [old.session_id]
    assert (await stored(databases, fresh)).closed_at is None


async def test_two_open_sessions_of_a_channel_cannot_exist(databases: Databases) -> None:
    from server.storage.session_tables import SessionRow

    await speak(databases, 0)
    with pytest.raises(StorageError, match="UNIQUE"):
        async with databases.world() as db:
            db.add(SessionRow(session_id="x", channel_id=CHANNEL, opened_at=NOW, last_active_at=NOW))


async def test_session_that_is_not_there(databases: Databases) -> None:
    with pytest.raises(NotFoundError):
        async with databases.world() as db:
            await touch_session(db, "x", now=NOW)


async def test_every_end_leaves_the_work_to_take_in_what_was_said(databases: Databases) -> None:
    requested = await speak(databases, 0, channel="stackchan:kitchen")
    replaced = await speak(databases, 0, "a")
    idle = await speak(databases, 1, "b")
    async with databases.world() as db:
        assert await close_session(db, requested.session_id, now=after(1))
        waiting = {one.session_id: await jobs.find(db, "ingest", one.session_id) for one in (requested, replaced, idle)}
    assert waiting[idle.session_id] is None, "it goes on"
    assert waiting[requested.session_id] is not None
    assert waiting[replaced.session_id] is not None
    async with databases.world() as db:
        # A turn has left its job, to be done when the session is idle; now it is over.
        await jobs.enqueue(db, "ingest", idle.session_id, now=after(1), not_before=after(90))
        assert await close_idle_sessions(db, now=after(30), idle_close=TEN_MINUTES) == [idle.session_id]
        job = await jobs.find(db, "ingest", idle.session_id)
    assert job is not None
    assert job.not_before == after(30)


async def test_a_clock_that_was_ahead_does_not_keep_the_conversation_open_for_ever(databases: Databases) -> None:
    ahead = await speak(databases, 60 * 24 * 3650)
    back = await speak(databases, 1)
    later = await speak(databases, 30)
    assert back.session_id == ahead.session_id
    assert later.session_id != ahead.session_id
