"""A process killed in the middle of writing loses nothing it had acknowledged."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import sys
from pathlib import Path

import pytest

from server.storage.database import Databases
from server.storage.ids import IdAllocator
from server.storage.memory_browse import words_of_turns
from server.storage.turns import close_running_turns, get_turn

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]

# Prints a line after every commit, exactly when a device would be told; runs until killed.
WRITER = """
import asyncio, sys
from pathlib import Path
from server.storage.database import Databases
from server.storage.ids import IdAllocator
from server.storage.turns import add_user_turn, finish_turn
from tests.storage.house import NOW, make_session, make_turn, robot_words, user_words

async def talk(databases, turn_ids, source_ids, robot):
    channel = f"stackchan:{robot}"
    session_id = await make_session(databases, channel_id=channel)
    while True:
        turn_id = await turn_ids.next_id()
        await make_turn(databases, turn_id, session_id, channel_id=channel)
        source_turn_id = await source_ids.next_id()
        async with databases.world() as db:
            await add_user_turn(db, turn_id, source_turn_id, **user_words(f"発話 {turn_id} 👂"))
        print("said", turn_id, source_turn_id, flush=True)
        if turn_id % 3:
            robot_id = await source_ids.next_id()
            async with databases.world() as db:
                await finish_turn(db, turn_id, outcome="ok", ended_at=NOW, robot=robot_words(robot_id), trace={})
            print("done", turn_id, robot_id, flush=True)

async def main():
    databases = await Databases.open(Path(sys.argv[1]), "home")
    ids = [IdAllocator(databases.server, name) for name in ("turn", "source_turn")]
    await asyncio.gather(*(talk(databases, *ids, robot) for robot in range(3)))

asyncio.run(main())
"""

COUNTER = """
import asyncio, sys
from pathlib import Path
from server.storage.database import Databases
from server.storage.ids import IdAllocator

async def main():
    async with await Databases.open(Path(sys.argv[1]), "home") as databases:
        allocator = IdAllocator(databases.server, "turn", block_size=3)
        for _ in range(60):
            print(await allocator.next_id(), flush=True)

asyncio.run(main())
"""


async def run(script: str, data_dir: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(data_dir), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )


async def lines_until(process: asyncio.subprocess.Process, count: int) -> list[str]:
    assert process.stdout is not None
    return [(await process.stdout.readline()).decode().strip() for _ in range(count)]


@pytest.mark.parametrize("lines_before_kill", [1, 7, 40])
async def test_killed_process_loses_no_acknowledged_words(tmp_path: Path, lines_before_kill: int) -> None:
    process = await run(WRITER, tmp_path)
    async with asyncio.timeout(60):
        printed = await lines_until(process, lines_before_kill)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        # A line without its end was cut while it was printed: not acknowledged.
        rest = (await process.stdout.read()).decode().split("\n")[:-1]
        assert await process.wait() == -signal.SIGKILL
    acknowledged = [line.split() for line in (*printed, *rest)]
    said = {int(turn): int(source) for kind, turn, source in acknowledged if kind == "said"}
    done = {int(turn): int(source) for kind, turn, source in acknowledged if kind == "done"}
    assert said

    async with await Databases.open(tmp_path, "home") as databases:
        now = dt.datetime.now(dt.UTC)
        async with databases.world() as db:
            closed = await close_running_turns(db, now=now)
        async with databases.world(write=False) as db:
            for turn_id, source_turn_id in said.items():
                words = {item.role: item for item in await words_of_turns(db, [turn_id])}
                assert words["user"].source_turn_id == source_turn_id
                assert words["user"].text == f"発話 {turn_id} 👂"
                turn = await get_turn(db, turn_id)
                assert turn is not None
                if turn_id in done:
                    assert (turn.status, words["robot"].source_turn_id) == ("done", done[turn_id])
                elif turn_id in closed:
                    assert (turn.status, turn.error_code, turn.ended_at) == ("failed", "server_stopped", now)
                else:
                    # Committed, but killed before it could say so.
                    assert (turn.status, set(words)) == ("done", {"user", "robot"})
        assert any(turn_id % 3 == 0 for turn_id in closed) or lines_before_kill < 20
        used = max(max(said), max(closed, default=0))
        assert await IdAllocator(databases.server, "turn").next_id() > used


async def test_two_processes_take_different_ids(tmp_path: Path) -> None:
    processes = [await run(COUNTER, tmp_path), await run(COUNTER, tmp_path)]
    async with asyncio.timeout(60):
        outputs = [(await process.communicate())[0].decode().split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [len(output) for output in outputs] == [60, 60]
    assert len({*outputs[0], *outputs[1]}) == 120
