"""One process has an index, a killed one and many callers at once lose nothing; a graph is built beside the rest."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from server.errors import IndexLocked, MemoryIndexError
from server.memory.index.edge import edge_index
from server.memory.index.folder import MARK
from tests.memory.index.indexes import FOLDER_KINDS, KINDS, MODEL, make_index, make_points, memory_id, opened

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]

ROOT = Path(__file__).resolve().parents[3]

# One process at a time

HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.memory.index.indexes import make_index, make_points

async def main():
    index = make_index(sys.argv[1], Path(sys.argv[2]))
    await index.open()
    number = 0
    print("open", flush=True)
    while True:
        await index.upsert(make_points(4000)[number : number + 3])
        number += 3
        print(number, flush=True)
        if number == int(sys.argv[3]):
            await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_holder(kind: str, folder: Path, stop_at: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, kind, str(folder), str(stop_at), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).strip() == b"open"
    return process


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_a_second_process_is_told_who_has_it(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    async with asyncio.timeout(60):
        process = await start_holder(kind, folder, 3)
        try:
            for _ in range(2):  # asking does not spoil the answer
                with pytest.raises(IndexLocked) as raised:
                    await make_index(kind, folder).open()
                assert raised.value.code == "index_locked"
                assert raised.value.pid == process.pid
                assert f"process {process.pid}" in raised.value.message
            assert process.stdout is not None
            assert (await process.stdout.readline()).strip() == b"3"
        finally:
            process.kill()
            await process.wait()
    # Its pid is still written there, and means nothing now.
    assert (tmp_path / "index.pid").read_text().strip() == str(process.pid)
    async with opened(kind, folder) as index:
        assert await index.count() == 3
        with pytest.raises(IndexLocked) as raised:
            await make_index(kind, folder).open()
        assert raised.value.pid == os.getpid()
    async with opened(kind, folder) as index:
        assert await index.count() == 3


@pytest.mark.parametrize("kind", FOLDER_KINDS)
@pytest.mark.parametrize("writes", [1, 9, 40])
async def test_killed_while_writing_keeps_what_it_acknowledged(kind: str, writes: int, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    async with asyncio.timeout(60):
        process = await start_holder(kind, folder, -1)
        assert process.stdout is not None
        for _ in range(writes):
            await process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = (await process.stdout.read()).decode().split("\n")[:-1]
        await process.wait()
    acknowledged = max([3 * writes, *map(int, rest)])
    index = make_index(kind, folder)
    report = await index.open()
    assert (report.rebuild_needed, report.ended_cleanly) == (False, False)
    ids = await index.ids()
    assert {memory_id(n) for n in range(acknowledged)} <= ids
    assert report.points == len(ids) == await index.count() <= acknowledged + 3
    points = make_points(4000)
    for number in (0, acknowledged - 1):
        assert (await index.search(points[number].vector, limit=1))[0].memory_id == memory_id(number)
    await index.close()


# A graph for many points


async def test_graph_is_built_beside_a_live_index_and_loses_nothing(tmp_path: Path) -> None:
    points = make_points(3_000)
    index = edge_index(tmp_path / "index", MODEL, exact_points=500)
    await index.open()
    assert not await index.optimize(), "nothing to do yet"
    await index.upsert(points[:2_000])
    building = asyncio.create_task(index.optimize())
    written = 2_000
    while not building.done() and written < 2_300:
        await index.upsert(points[written : written + 10])
        await index.delete([memory_id(written - 2_000)])
        assert (await index.search(points[written].vector, limit=1))[0].memory_id == memory_id(written)
        written += 10
        await asyncio.sleep(0.05)
    assert await building
    assert written > 2_000, "it was written to meanwhile"
    expected = {memory_id(n) for n in range(written)} - {memory_id(n) for n in range(0, written - 2_000, 10)}
    assert await index.ids() == expected
    assert not await index.optimize(), "it is built"
    found = 0
    for number in range(400, 600):
        found += (await index.search(points[number].vector, limit=1))[0].memory_id == memory_id(number)
    assert found >= 190, "a graph may miss some"
    await index.close()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == ["data", MARK]
    reopened = edge_index(tmp_path / "index", MODEL, exact_points=500)
    report = await reopened.open()
    assert (report.points, report.rebuild_needed) == (len(expected), False)
    await reopened.close()


async def test_a_build_given_up_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    index = edge_index(tmp_path / "index", MODEL, exact_points=100)
    await index.open()
    await index.upsert(make_points(400))
    building = asyncio.create_task(index.optimize())
    await asyncio.sleep(0.2)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert await index.count() == 400
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == ["data", MARK]
    assert await index.optimize()
    await index.close()


async def test_emptied_or_closed_while_a_graph_is_built(tmp_path: Path) -> None:
    index = edge_index(tmp_path / "index", MODEL, exact_points=100)
    await index.open()
    await index.upsert(make_points(400))
    building = asyncio.create_task(index.optimize())
    await asyncio.sleep(0.2)
    await index.drop()
    await index.upsert(make_points(150))
    assert not await building, "the graph of what is gone is thrown away"
    assert await index.count() == 150
    building = asyncio.create_task(index.optimize())
    await asyncio.sleep(0.2)
    await index.close()
    with pytest.raises(MemoryIndexError) as raised:
        await building
    assert raised.value.code == "index_closed"
    async with opened("edge", tmp_path / "index") as again:
        assert await again.count() == 150


# Many at once


@pytest.mark.parametrize("kind", KINDS)
async def test_twenty_at_once_lose_no_point(kind: str, tmp_path: Path) -> None:
    from qdrant_client import AsyncQdrantClient

    client = AsyncQdrantClient(":memory:") if kind == "server" else None
    points = make_points(400)
    async with opened(kind, tmp_path / "index", MODEL, client) as index:

        async def write(worker: int) -> None:
            mine = points[worker::10]
            for start in range(0, len(mine), 5):
                await index.upsert(mine[start : start + 5])
            await index.delete([mine[0].memory_id])

        async def ask(worker: int) -> None:
            for number in range(20):
                hits = await index.search(points[number * worker].vector, limit=10)
                assert len(hits) <= 10
                await index.count()

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for worker in range(10):
                group.create_task(write(worker))
                group.create_task(ask(worker + 1))
        assert await index.ids() == {memory_id(n) for n in range(10, 400)}
        assert await index.count() == 390
    if client:
        await client.close()


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_closing_in_the_middle_of_work_ends_in_an_error_of_ours(kind: str, tmp_path: Path) -> None:
    index = make_index(kind, tmp_path / "index")
    await index.open()
    calls = [asyncio.ensure_future(index.upsert(make_points(400))) for _ in range(3)]
    await asyncio.sleep(0)
    await index.close()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(result is None or isinstance(result, MemoryIndexError) for result in results)
    async with opened(kind, tmp_path / "index") as again:
        assert await again.count() <= 400
