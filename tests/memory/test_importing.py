"""An import lets turns in between, and a kill, a full disk or a forgetting in the middle leaves it whole."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.errors import StorageError
from server.memory import importing
from server.memory.importing import Imports
from server.storage.memory_import import MemoryImport
from tests.memory.exporting import (
    CAT,
    as_file,
    imported,
    imports_of,
    lines_of,
    many,
    memory_in,
    pieces,
    said_here,
)
from tests.memory.making import House, house
from tests.memory.said_and_noted import files_with, summaries

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
COUNT = 12


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_PAGE_MEMORIES", 2)


def after_page(monkeypatch: pytest.MonkeyPatch, number: int, happens: Any) -> None:
    """Await `happens()` when so many pages are written, before the next."""
    wrote = MemoryImport.write
    count = 0

    async def write(self: MemoryImport, db: Any, page: Any, forgotten: Any) -> None:
        nonlocal count
        await wrote(self, db, page, forgotten)
        count += 1

    reading = importing._read

    def read(*wanted: Any) -> Any:
        if count == number:
            asyncio.run_coroutine_threadsafe(happens(), loop).result(30)
        return reading(*wanted)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(MemoryImport, "write", write)
    monkeypatch.setattr(importing, "_read", read)


def left_over(home: House) -> list[str]:
    folder = home.databases.world_folder / "imports"
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


@pytest.mark.usefixtures("small_pages")
async def test_turns_are_written_between_the_pages_of_an_import(tmp_path: Path, file: bytes) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        ended = False
        seen: list[int] = []

        async def talk() -> None:
            while not ended:
                before = len(await home.memories())
                await home.say(session_id, "こんにちは")
                seen.append(len(await home.memories()) - before)
                await asyncio.sleep(0)

        talking = asyncio.create_task(talk())
        await imports_of(home).take_in(pieces(many(file, COUNT)))
        ended = True
        await talking
        # Two transactions of a turn, each behind one page at most, and one that ends while it is looked.
        assert max(seen) <= 3 * 2
        assert len(seen) > 2
        assert len(await home.memories()) == COUNT


@pytest.mark.usefixtures("small_pages")
async def test_what_is_forgotten_while_an_import_runs_does_not_come_back_with_its_next_pages(
    tmp_path: Path, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path, summaries) as home:

        async def forget() -> None:
            (newest,) = [one for one in await home.memories() if one.status == "active"]
            await home.keeper.forget([newest.memory_id])

        after_page(monkeypatch, 2, forget)
        done = await imported(home, many(file, COUNT, versions=True))
        assert (done["imported"], done["forgotten"]) == (4, COUNT - 4)
        assert await home.memories() == []
        assert {text for _, text in await said_here(home)} == {""}
        assert files_with(tmp_path, "号のパソコン") == []


@pytest.mark.usefixtures("small_pages")
async def test_words_forgotten_while_an_import_runs_stay_blank_for_memories_that_share_them(
    tmp_path: Path, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_of(many(file, 4))
    memory_in(lines, 3)["turns"] = memory_in(lines, 0)["turns"]
    told = memory_in(lines, 2)
    told["turns"][0]["recalled"] = [memory_in(lines, 0)["memory_id"]]
    async with house(tmp_path, summaries) as home:

        async def forget() -> None:
            await home.keeper.forget([memory_in(lines, 0)["memory_id"]])

        after_page(monkeypatch, 1, forget)
        await imported(home, as_file(*lines))
        assert [one.memory_id for one in await home.memories()] == [memory_in(lines, n)["memory_id"] for n in (1, 2, 3)]
        assert sorted({text for _, text in await said_here(home) if text}) == [
            "1号のパソコン、robot",
            "1号のパソコン、user",
        ]


@pytest.mark.usefixtures("small_pages")
async def test_versions_come_in_whatever_their_order_in_the_file(tmp_path: Path, file: bytes) -> None:
    for place, content in enumerate((many(file, 5, versions=True), None)):
        if content is None:
            lines = lines_of(many(file, 5, versions=True))
            content = as_file(*lines[:-6], *reversed(lines[-6:-1]), lines[-1])
        async with house(tmp_path / str(place), summaries) as home:
            assert (await imported(home, content))["imported"] == 5
            memories = await home.memories()
            assert [one.superseded_by for one in memories] == [*(one.memory_id for one in memories[1:]), None]


@pytest.mark.usefixtures("small_pages")
async def test_a_disk_that_fills_up_in_the_middle_is_told_and_the_rest_comes_in_later(
    tmp_path: Path, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full() -> None:
        raise StorageError("The disk is full.", code="storage_full", retryable=True)

    async with house(tmp_path, summaries) as home:
        with monkeypatch.context() as patch:
            after_page(patch, 2, full)
            with pytest.raises(StorageError) as caught:
                await imported(home, many(file, COUNT))
            assert (caught.value.code, caught.value.retryable) == ("storage_full", True)
            assert "part of it is in" in caught.value.message
            assert "by itself" in str(caught.value.hint)
        assert len(await home.memories()) == 4
        imports = imports_of(home)
        assert await imports.go_on() == COUNT - 4
        await home.worker.idle()
        assert [one.index_state for one in await home.memories()] == ["indexed"] * COUNT
        assert len(await said_here(home)) == 2 * COUNT
        assert left_over(home) == []
        assert await imports.go_on() == 0


async def test_an_import_that_runs_is_not_begun_again(tmp_path: Path, file: bytes) -> None:
    async with house(tmp_path, summaries) as home:
        imports = imports_of(home)
        done, went_on = await asyncio.gather(imports.take_in(pieces(many(file, COUNT))), imports.go_on())
        assert (done["imported"], went_on) == (COUNT, 0)


async def test_a_disk_that_is_full_while_the_file_comes_is_told_as_that(
    tmp_path: Path, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, piece: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    async with house(tmp_path, summaries) as home:
        monkeypatch.setattr(importing, "_created", lambda target: Full())
        with pytest.raises(StorageError) as caught:
            await imported(home, file)
        assert (caught.value.code, caught.value.retryable) == ("storage_full", True)
        assert "nothing was imported" in str(caught.value.hint)
        assert left_over(home) == []


async def test_a_file_that_stops_coming_leaves_nothing(tmp_path: Path, file: bytes) -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield file[:1000]
        raise asyncio.CancelledError

    async with house(tmp_path, summaries) as home:
        with pytest.raises(asyncio.CancelledError):
            await imports_of(home).take_in(cut())
        assert left_over(home) == []
        assert CAT not in str(await said_here(home))


# Kills itself before the nth of the steps of which an import consists: commits, renames and removals.
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from server.memory import importing
from tests.memory.exporting import imports_of, pieces
from tests.memory.making import house
from tests.memory.said_and_noted import summaries

importing._PAGE_MEMORIES = 2
folder, moment = Path(sys.argv[1]), int(sys.argv[2])
steps = 0

def step(name):
    global steps
    steps += 1
    print(steps, name, flush=True)
    if steps == moment:
        os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name):
    does = getattr(owner, name)

    def told(*given, **options):
        step(name)
        return does(*given, **options)

    setattr(owner, name, told)

async def main():
    async with house(folder, summaries) as home:
        await home.worker.close()
        for owner, name in (
            (importing, "_created"), (importing, "read_plan"), (importing, "_accept"), (Path, "rename"),
            (importing, "_read"), (Path, "unlink"), (importing.shutil, "rmtree"),
        ):
            before(owner, name)
        writes = importing.MemoryImport.write

        async def written(*given):
            await writes(*given)
            step("commit")

        importing.MemoryImport.write = written
        await imports_of(home).take_in(pieces((folder / "file").read_bytes()))
        step("end")

asyncio.run(main())
"""
STEPS = ["_created", "read_plan", "_accept", "rename", *["_read", "commit"] * 3, "unlink", "rmtree", "end"]


@pytest.mark.parametrize("moment", [2, 4, 5, 6, 10, 11, 12])
async def test_a_kill_leaves_nothing_of_an_import_or_all_of_it(tmp_path: Path, file: bytes, moment: int) -> None:
    (tmp_path / "file").write_bytes(many(file, 6))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(tmp_path), str(moment), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    async with asyncio.timeout(60):
        printed = (await process.communicate())[0].decode().split()
    assert process.returncode == -signal.SIGKILL
    assert printed[1::2] == STEPS[:moment], "the steps of an import"
    accepted = moment > STEPS.index("rename") + 1
    async with house(tmp_path, summaries) as home:
        imports = Imports(home.databases, home.keeper, clock=home.clock)
        await imports.go_on()
        await home.worker.idle()
        whole = 6 if accepted else 0
        memories = await home.memories()
        assert [one.index_state for one in memories] == ["indexed"] * whole
        assert len(await said_here(home)) == 2 * whole
        assert len(await home.found("パソコン", limit=10)) == whole
        assert left_over(home) == []
        # And nothing twice when it is sent once more.
        assert (await imported(home, many(file, 6)))["imported"] == 6 - whole
        assert len(await said_here(home)) == 12
