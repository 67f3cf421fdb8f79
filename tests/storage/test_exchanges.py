"""Whole exchanges as a prompt and a count take them."""

from __future__ import annotations

from typing import Any

import pytest

from server.storage import forgetting
from server.storage.database import Databases
from server.storage.exchanges import newest_exchanges, turns_that_forgot
from server.storage.turns import add_user_turn, close_running_turns, fail_turn, finish_turn
from tests.storage.house import NOW, make_session, make_turn, robot_words, user_words

pytestmark = pytest.mark.integration


async def exchange(
    databases: Databases, turn_id: int, session_id: str, *, calls: Any = None, memory: Any = None
) -> None:
    await make_turn(databases, turn_id, session_id)
    async with databases.world() as db:
        await add_user_turn(db, turn_id, 2 * turn_id, **user_words(f"質問{turn_id}"))
        words = robot_words(2 * turn_id + 1, f"答え{turn_id}", tool_calls=calls)
        await finish_turn(db, turn_id, outcome="ok", ended_at=NOW, robot=words, memory=memory)


async def test_forgotten_and_failed_exchanges_are_not_shown_again(databases: Databases) -> None:
    session_id = await make_session(databases)
    for turn_id in (1, 2, 3):
        await exchange(databases, turn_id, session_id)
    await make_turn(databases, 4, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 4, 8, **user_words("聞こえた？"))
        await fail_turn(db, 4, error_code="llm_failed", error_message="", ended_at=NOW, robot=robot_words(9, "ごめん"))
        reached = await forgetting.reach(db, [], also_source=True, also_turn_ids=[2])
        await forgetting.forget(db, reached, now=NOW)
    async with databases.world(write=False) as db:
        recent, total = await newest_exchanges(db, session_id, 10)
        last, of_all = await newest_exchanges(db, session_id, 1)
    assert [(one.user_text, one.robot_text) for one in recent] == [("質問1", "答え1"), ("質問3", "答え3")]
    assert total == of_all == 2
    assert [one.user_text for one in last] == ["質問3"]


async def test_a_question_that_was_interrupted_before_its_answer_was_heard_stands(databases: Databases) -> None:
    session_id = await make_session(databases)
    await exchange(databases, 1, session_id)
    for turn_id, outcome in ((2, "interrupted"), (3, "no_speech"), (4, "interrupted")):
        await make_turn(databases, turn_id, session_id)
        async with databases.world() as db:
            if turn_id != 4:  # interrupted before it was heard
                await add_user_turn(db, turn_id, 2 * turn_id, **user_words("明日の天気は？"))
            await finish_turn(db, turn_id, outcome=outcome, ended_at=NOW, robot=None)
    await make_turn(databases, 5, session_id)  # runs
    async with databases.world() as db:
        await add_user_turn(db, 5, 10, **user_words("違う、明後日の"))
    async with databases.world(write=False) as db:
        recent, total = await newest_exchanges(db, session_id, 10)
    told = [(one.user_text, one.robot_text, one.interrupted) for one in recent]
    assert told == [("質問1", "答え1", False), ("明日の天気は？", "", True)]
    assert total == 2
    async with databases.world() as db:
        reached = await forgetting.reach(db, [], also_source=True, also_turn_ids=[2])
        await forgetting.forget(db, reached, now=NOW)
        assert [one.user_text for one in (await newest_exchanges(db, session_id, 10))[0]] == ["質問1"]


async def test_what_was_said_before_the_server_was_killed_stands(databases: Databases) -> None:
    session_id = await make_session(databases)
    await exchange(databases, 1, session_id)
    for turn_id in (2, 3):
        await make_turn(databases, turn_id, session_id)
    async with databases.world() as db:
        await add_user_turn(db, 2, 4, **user_words("私の名前は花子だよ"))  # of 3 nothing was heard yet
        assert await close_running_turns(db, now=NOW) == [2, 3]
    async with databases.world(write=False) as db:
        recent, total = await newest_exchanges(db, session_id, 10)
    assert [(one.user_text, one.robot_text) for one in recent] == [("質問1", "答え1"), ("私の名前は花子だよ", "")]
    assert total == 2


async def test_turns_that_forgot_are_found_until_they_are_blank(databases: Databases) -> None:
    session_id = await make_session(databases)
    made = {
        1: [{"name": "forget_memory", "arguments": {"query": "PC"}, "result": {"forgotten": 1}}],
        2: [{"name": "forget_memory", "arguments": {}, "result": {"forgotten": 0, "note": "nothing found"}}],
        3: [{"name": "forget_memory", "arguments": {}, "result": {"error": "no"}}],
        4: [{"name": "search_memory", "arguments": {"query": "forget_memory"}, "result": {"forgotten": 1}}],
        5: None,
        6: ["forget_memory", {"name": "forget_memory", "result": {"forgotten": True and "many"}}],
    }
    for turn_id, calls in made.items():
        await exchange(databases, turn_id, session_id, calls=calls)
    async with databases.world() as db:
        assert await turns_that_forgot(db, "forget_memory") == [1]
        reached = await forgetting.reach(db, [], also_source=True, also_turn_ids=[1])
        await forgetting.forget(db, reached, now=NOW)
        assert await turns_that_forgot(db, "forget_memory") == []
