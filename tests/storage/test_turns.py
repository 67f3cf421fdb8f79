"""A turn's life in the database, both sides' words, and what cannot be done to it."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from server.errors import NotFoundError, StorageError
from server.storage.database import Databases
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS, IdAllocator
from server.storage.memory_browse import words_of_turns
from server.storage.turns import (
    add_user_turn,
    close_running_turns,
    create_turn,
    fail_turn,
    find_turn_by_key,
    finish_turn,
    get_trace,
    get_turn,
    recent_source_turns,
    start_turn,
)
from tests.storage.house import CHANNEL, NOW, make_session, make_turn, robot_words, user_words

pytestmark = pytest.mark.integration

LATER = NOW + dt.timedelta(seconds=3)
ODD_TEXTS = [
    "👨‍👩‍👧‍👦 と 🇯🇵",
    "e\u0301\u202e逆",
    "𠮷野家",
    "長" * 10_000,
    "'; DROP TABLE turns; --",
    "  前後  ",
    "\u2028",
]


async def test_whole_turn(databases: Databases) -> None:
    session_id = await make_session(databases)
    turn = await make_turn(databases, 7, session_id)
    assert (turn.status, turn.outcome, turn.started_at) == ("running", None, NOW)

    async with databases.world() as db:
        said = await add_user_turn(db, 7, 21, **user_words(speaker_id="owner"))
    assert (said.role, said.text, said.visibility, said.zone) == ("user", "左を見て", "house", "Asia/Tokyo")
    async with databases.world(write=False) as db:
        turn = await get_turn(db, 7)
    assert turn is not None
    assert (turn.status, turn.transcript, turn.language, turn.audio_duration_ms) == ("running", "左を見て", "ja", 900)

    calls = [{"name": "search_memory", "args": {"query": "富士通"}}]
    async with databases.world() as db:
        await finish_turn(
            db,
            7,
            outcome="ok",
            ended_at=LATER,
            robot=robot_words(22, tool_calls=calls, audio_duration_ms=800),
            emotion="happy",
            action="look_left",
            speech_duration_ms=800,
            latency={"asr_ms": 310.5},
            memory={"searched": True, "memory_ids": ["mem_1"]},
            trace={"stages": [{"name": "聞き取り", "ms": 310}]},
        )
    async with databases.world(write=False) as db:
        turn = await get_turn(db, 7)
        trace = await get_trace(db, 7)
        both = await words_of_turns(db, [7])
    assert turn is not None
    assert (turn.status, turn.outcome, turn.ended_at) == ("done", "ok", LATER)
    assert (turn.reply, turn.emotion, turn.action) == ("見たよ。", "happy", "look_left")
    assert turn.latency == {"asr_ms": 310.5}
    assert turn.memory == {"searched": True, "memory_ids": ["mem_1"]}
    assert trace == {"stages": [{"name": "聞き取り", "ms": 310}]}
    assert [(item.source_turn_id, item.role, item.speaker_id) for item in both] == [
        (21, "user", "owner"),
        (22, "robot", None),
    ]
    assert both[1].tool_calls == calls
    assert (both[1].audio_duration_ms, both[1].interrupted) == (800, False)


async def test_silence_is_a_turn_without_words(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        turn = await finish_turn(db, 1, outcome="no_speech", ended_at=LATER)
        assert (turn.status, turn.outcome, turn.reply) == ("done", "no_speech", None)
        assert await words_of_turns(db, [1]) == []
        assert await get_trace(db, 1) is None


async def test_interrupted_turn_keeps_what_was_played(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
        turn = await finish_turn(
            db,
            1,
            outcome="interrupted",
            ended_at=LATER,
            robot=robot_words(2, "えっと、", interrupted=True),
            reply="えっと、左だね。",
        )
        both = await words_of_turns(db, [1])
    assert (turn.status, turn.reply) == ("done", "えっと、左だね。")
    assert (both[1].text, both[1].interrupted) == ("えっと、", True)


async def test_failed_turn_keeps_the_users_words(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
    async with databases.world() as db:
        turn = await fail_turn(db, 1, error_code="llm_timeout", error_message="It took too long.", ended_at=LATER)
        both = await words_of_turns(db, [1])
    assert (turn.status, turn.outcome, turn.error_code) == ("failed", "failed", "llm_timeout")
    assert [item.text for item in both] == ["左を見て"]


async def test_robots_words_and_the_end_are_stored_together_or_not_at_all(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    await make_turn(databases, 2, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
    with pytest.raises(StorageError, match="source_turn"):
        async with databases.world() as db:
            await finish_turn(db, 2, outcome="ok", ended_at=LATER, robot=robot_words(1), trace={"a": 1})
    async with databases.world(write=False) as db:
        turn = await get_turn(db, 2)
        assert turn is not None
        assert (turn.status, turn.reply) == ("running", None)
        assert await get_trace(db, 2) is None


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_text_comes_back_exactly(databases: Databases, text: str) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words(text))
        await finish_turn(db, 1, outcome="ok", ended_at=LATER, robot=robot_words(2, text), trace={text: [text]})
    async with databases.world(write=False) as db:
        turn = await get_turn(db, 1)
        assert turn is not None
        assert (turn.transcript, turn.reply) == (text, text)
        assert [item.text for item in await words_of_turns(db, [1])] == [text, text]
        assert await get_trace(db, 1) == {text: [text]}


async def test_text_that_no_database_can_keep_is_cleaned(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        said = await add_user_turn(db, 1, 1, **user_words("a\0b\ud83d\ude00\ud800"))
        turn = await finish_turn(
            db, 1, outcome="ok", ended_at=LATER, robot=robot_words(2, "\udfff"), trace=["\0\ud800"]
        )
    assert (said.text, turn.reply) == ("ab😀\ufffd", "\ufffd")
    async with databases.world(write=False) as db:
        assert [item.text for item in await words_of_turns(db, [1])] == ["ab😀\ufffd", "\ufffd"]
        assert await get_trace(db, 1) == ["\ufffd"]


async def test_private_channel_makes_both_sides_private(databases: Databases) -> None:
    session_id = await make_session(databases, channel_id="web:phone", private=True)
    await make_turn(databases, 1, session_id, channel_id="web:phone")
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
        await finish_turn(db, 1, outcome="ok", ended_at=LATER, robot=robot_words(2))
        assert [item.visibility for item in await words_of_turns(db, [1])] == ["private", "private"]


async def test_recent_source_turns_are_of_the_session_and_newest_last(databases: Databases) -> None:
    home = await make_session(databases)
    other = await make_session(databases, channel_id="stackchan:kitchen")
    for turn_id in range(1, 6):
        elsewhere = turn_id == 3
        channel = "stackchan:kitchen" if elsewhere else CHANNEL
        await make_turn(databases, turn_id, other if elsewhere else home, channel_id=channel)
        async with databases.world() as db:
            await add_user_turn(db, turn_id, turn_id * 2, **user_words(f"user {turn_id}"))
            await finish_turn(
                db, turn_id, outcome="ok", ended_at=LATER, robot=robot_words(turn_id * 2 + 1, f"robot {turn_id}")
            )
    async with databases.world(write=False) as db:
        last = await recent_source_turns(db, home, 3)
        every = await recent_source_turns(db, home, 100)
    assert [item.text for item in last] == ["robot 4", "user 5", "robot 5"]
    assert len(every) == 8


async def test_ended_turn_cannot_be_changed(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        await finish_turn(db, 1, outcome="no_speech", ended_at=LATER)
    for act in (
        lambda db: finish_turn(db, 1, outcome="ok", ended_at=LATER),
        lambda db: add_user_turn(db, 1, 1, **user_words()),
        lambda db: start_turn(db, 1),
    ):
        with pytest.raises(StorageError, match="ended already"):
            async with databases.world() as db:
                await act(db)


async def test_turn_that_is_not_there(databases: Databases) -> None:
    async with databases.world(write=False) as db:
        assert await get_turn(db, 1) is None
        assert await get_trace(db, 1) is None
        with pytest.raises(NotFoundError):
            await add_user_turn(db, 1, 1, **user_words())


async def test_users_words_are_stored_once(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
    with pytest.raises(StorageError, match="UNIQUE"):
        async with databases.world() as db:
            await add_user_turn(db, 1, 2, **user_words("また"))


async def test_typed_words_of_a_turn_in_line_are_kept_before_it_runs(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id, status="queued", transcript="左を見て")
    async with databases.world() as db:
        await start_turn(db, 1)
        await add_user_turn(db, 1, 11, **user_words("左を見て"))
    async with databases.world(write=False) as db:
        turn = await get_turn(db, 1)
    assert turn is not None
    assert (turn.status, turn.transcript) == ("running", "左を見て")


async def test_idempotency_key_finds_its_turn_and_is_taken_once(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id, idempotency_key="k")
    async with databases.world(write=False) as db:
        found = await find_turn_by_key(db, CHANNEL, "k")
        assert found is not None
        assert found.turn_id == 1
        assert await find_turn_by_key(db, CHANNEL, "other") is None
    with pytest.raises(StorageError, match="UNIQUE"):
        await make_turn(databases, 2, session_id, idempotency_key="k")
    await make_turn(databases, 3, session_id)
    await make_turn(databases, 4, session_id)


@pytest.mark.parametrize("changes", [{"status": "sleeping"}, {"status": "done"}])
async def test_impossible_status_is_refused(databases: Databases, changes: dict[str, str]) -> None:
    session_id = await make_session(databases)
    with pytest.raises(StorageError, match="CHECK"):
        await make_turn(databases, 1, session_id, **changes)


async def test_turn_needs_its_session(databases: Databases) -> None:
    await make_session(databases)
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        await make_turn(databases, 1, "nowhere")


async def test_naive_time_is_refused(databases: Databases) -> None:
    session_id = await make_session(databases)
    with pytest.raises(StorageError, match="without a time zone"):
        async with databases.world() as db:
            await create_turn(
                db,
                turn_id=1,
                session_id=session_id,
                channel_id=CHANNEL,
                device_id=None,
                input_kind="text",
                persona_id="p",
                started_at=dt.datetime(2026, 1, 1),
            )


async def test_start_closes_what_was_left_open(databases: Databases) -> None:
    session_id = await make_session(databases)
    await make_turn(databases, 1, session_id)
    await make_turn(databases, 2, session_id, status="queued")
    await make_turn(databases, 3, session_id, status="queued")
    async with databases.world() as db:
        await add_user_turn(db, 1, 1, **user_words())
        await start_turn(db, 3)
        await finish_turn(db, 3, outcome="ok", ended_at=NOW)
    async with databases.world() as db:
        assert await close_running_turns(db, now=LATER) == [1, 2]
    async with databases.world() as db:
        assert await close_running_turns(db, now=LATER) == []
        closed, done = await get_turn(db, 1), await get_turn(db, 3)
        assert closed is not None
        assert done is not None
        assert (closed.status, closed.outcome, closed.error_code) == ("failed", "failed", "server_stopped")
        assert (closed.ended_at, closed.transcript) == (LATER, "左を見て")
        assert done.status == "done"


async def test_twenty_turns_at_once(databases: Databases) -> None:
    turn_ids = IdAllocator(databases.server, TURN_IDS)
    source_turn_ids = IdAllocator(databases.server, SOURCE_TURN_IDS)

    async def one(number: int) -> int:
        channel = f"stackchan:robot{number}"
        session_id = await make_session(databases, channel_id=channel)
        turn_id = await turn_ids.next_id()
        await make_turn(databases, turn_id, session_id, channel_id=channel)
        async with databases.world() as db:
            await add_user_turn(db, turn_id, await source_turn_ids.next_id(), **user_words(f"発話{number}"))
        async with databases.world(write=False) as db:
            assert [item.text for item in await recent_source_turns(db, session_id, 5)] == [f"発話{number}"]
        robot = robot_words(await source_turn_ids.next_id(), f"返事{number}")
        async with databases.world() as db:
            await finish_turn(db, turn_id, outcome="ok", ended_at=LATER, robot=robot, trace={"n": number})
        return turn_id

    made = await asyncio.gather(*(one(number) for number in range(20)))
    assert sorted(made) == list(range(1, 21))
    async with databases.world(write=False) as db:
        for number, turn_id in enumerate(made):
            turn = await get_turn(db, turn_id)
            assert turn is not None
            assert (turn.transcript, turn.reply, turn.status) == (f"発話{number}", f"返事{number}", "done")
            assert await get_trace(db, turn_id) == {"n": number}
