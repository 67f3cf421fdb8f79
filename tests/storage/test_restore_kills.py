"""A restore killed between any two of its last steps: the next start has the old house or the new one, whole."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from server.storage.swap import PLAN
from tests.storage.backed_up import LATER, OURS, forgotten_in_the_backup, names, remembered_after_a_start, rows_of

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
ASIDE = "replaced-20261130T120000Z"
# Kills itself before the nth step of the swap; the house has a world and a server database, each moved out and in.
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from server.storage import restoring, swap
from tests.storage.house import NOW

moment, steps = int(sys.argv[3]), 0

def before(owner, name):
    does = getattr(owner, name)

    def told(*given, **options):
        global steps
        steps += 1
        print(name, flush=True)
        if steps == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return does(*given, **options)

    setattr(owner, name, told)

for name in ("_flush", "_move", "_flush_folders"):
    before(swap, name)
before(restoring, "_clear_away")
asyncio.run(restoring.restore(Path(sys.argv[1]), Path(sys.argv[2]), now=NOW))
"""
STEPS = ["_flush", *["_move"] * 4, "_flush_folders", "_clear_away"]


@pytest.mark.parametrize("moment", range(1, len(STEPS) + 1))
async def test_the_next_start_has_the_old_house_or_the_new_one_whole_and_says_so(
    tmp_path: Path, moment: int, caplog: pytest.LogCaptureFixture
) -> None:
    ours, file = await forgotten_in_the_backup(tmp_path)
    before = rows_of(ours)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", KILLED, str(file), str(ours), str(moment)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    async with asyncio.timeout(60):
        printed = (await process.communicate())[0].decode().split()
    assert (process.returncode, printed) == (-signal.SIGKILL, STEPS[:moment])
    planned, over = moment > STEPS.index("_move"), moment == len(STEPS)
    assert (PLAN in names(ours)) == (planned and not over)
    with caplog.at_level(logging.WARNING):
        remembered = await remembered_after_a_start(ours)
    lines = [record.getMessage() for record in caplog.records]
    told = [line for line in lines if "a restore that was cut off is finished" in line]
    assert len(told) == (1 if planned and not over else 0)
    assert all(ASIDE in one and "中断した復元を終えました" in one for one in told)
    if not planned:
        assert remembered == [OURS]
        assert (rows_of(ours)["tombstones"], ASIDE in names(ours)) == (before["tombstones"], False)
        return
    assert remembered == [LATER]
    assert rows_of(ours)["tombstones"] == rows_of(tmp_path / "copy")["tombstones"]
    with closing(sqlite3.connect(ours / ASIDE / "worlds" / "home" / "session.sqlite")) as aside:
        assert (OURS,) in aside.execute("SELECT text FROM source_turns").fetchall()
    caplog.clear()
    assert await remembered_after_a_start(ours) == [LATER]
    assert "restore" not in caplog.text, "told once"
