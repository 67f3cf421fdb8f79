"""An embedding engine in a process of its own: the same vectors, and every way in which either side can end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from server.config import Settings
from server.config_sections import EmbeddingSettings
from server.engines.base import Calibrated
from server.engines.embedding.separate import SeparateEmbedding
from server.engines.registry import find_engine
from server.errors import EmbeddingError, ModelError
from server.persona import load_persona
from tests.fakes.embedding_process import CalibratedEmbedding, SmallEmbedding, make

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent.parent
MAKE = "tests.fakes.embedding_process:make"


def separate(kind: str = "small") -> SeparateEmbedding:
    return SeparateEmbedding(SmallEmbedding(), MAKE, {"kind": kind})


@asynccontextmanager
async def running(kind: str = "small") -> AsyncIterator[SeparateEmbedding]:
    engine = separate(kind)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


async def test_it_gives_what_the_engine_gives_there() -> None:
    async with running() as engine:
        texts = ["", "猫", "\ud83d lone", "a" * 100_000, *map(str, range(40))]
        asked, kept = await engine.embed_queries(texts), await engine.embed_documents(texts)
        assert asked[:, 0].tolist() == kept[:, 0].tolist() == [len(text) for text in texts]
        assert (set(asked[:, 1]), set(kept[:, 1])) == ({1.0}, {2.0})
        assert set(asked[:, 3]) == {float(engine.pid or 0)} != {float(os.getpid())}
        assert (await engine.embed_queries([])).shape == (0, 4)
        assert (engine.name, engine.fingerprint) == ("small", SmallEmbedding.fingerprint)


def test_it_is_calibrated_if_the_engine_is() -> None:
    assert not isinstance(separate(), Calibrated)
    known = SeparateEmbedding(CalibratedEmbedding(), MAKE, {"kind": "calibrated"})
    assert isinstance(known, Calibrated)
    assert known.calibration == CalibratedEmbedding.calibration


async def test_its_errors_are_raised_here_and_it_lives_on() -> None:
    async with running() as engine:
        with pytest.raises(EmbeddingError, match="it failed") as caught:
            await engine.embed_queries(["fail"])
        assert (caught.value.code, caught.value.hint) == ("embedding_failed", "Do something.")
        with pytest.raises(EmbeddingError, match="ZeroDivisionError: broken"):
            await engine.embed_documents(["break"])
        with pytest.raises(EmbeddingError, match="other vectors"):
            await engine.embed_documents(["short"])
        assert (await engine.embed_queries(["noise"]))[0, 0] == 5
        assert (await engine.embed_queries(["猫"]))[0, 0] == 1


async def test_a_start_that_fails_there_fails_here() -> None:
    engine = separate("unstartable")
    with pytest.raises(ModelError, match="There is no model") as caught:
        await engine.start()
    assert (caught.value.code, caught.value.hint) == ("model_unknown", "Fetch it.")
    with pytest.raises(EmbeddingError, match="not running"):
        await engine.embed_queries(["a"])
    with pytest.raises(EmbeddingError, match=r"ended \(code 1\): the library is broken"):
        await separate("exit").start()
    await engine.close()


async def test_when_it_is_killed_those_who_wait_are_told_and_it_is_started_again() -> None:
    async with running() as engine:
        first = engine.pid
        waiting = asyncio.create_task(engine.embed_documents(["hang"]))
        await engine.embed_queries(["a"])
        with pytest.raises(EmbeddingError, match="SIGKILL") as caught:
            await engine.embed_queries(["die"])
        assert caught.value.retryable
        with pytest.raises(EmbeddingError, match="SIGKILL"):
            await waiting
        # Who asks now waits for the new one.
        assert (await engine.embed_queries(["猫"]))[0, 0] == 1
        assert engine.pid not in (None, first)


async def test_questions_pass_what_is_kept() -> None:
    async with running() as engine:
        kept = [asyncio.create_task(engine.embed_documents(["until asked"] * 40)) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in kept)
        await engine.embed_queries(["now"])
        assert [len(await one) for one in kept] == [40] * 3


async def test_who_gives_up_takes_the_question_back() -> None:
    async with running() as engine:
        asked = asyncio.create_task(engine.embed_queries(["hang"]))
        await engine.embed_queries(["a"])
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        taken_back = [(await engine.embed_queries(["a"]))[0, 2] for _ in range(3)]
        assert taken_back[-1] == 1


async def test_closing_ends_it_and_tells_who_waits() -> None:
    engine = separate()
    await engine.start()
    pid = engine.pid or 0
    waiting = asyncio.create_task(engine.embed_documents(["hang"]))
    await engine.embed_queries(["a"])
    await engine.close()
    assert not alive(pid)
    with pytest.raises(EmbeddingError, match="was closed"):
        await waiting
    with pytest.raises(EmbeddingError, match="not running"):
        await engine.embed_queries(["a"])
    await engine.close()
    await engine.start()
    assert (await engine.embed_queries(["again"]))[0, 0] == 5
    await engine.close()


async def test_ctrl_c_and_a_polite_stop_are_the_servers_matter() -> None:
    async with running() as engine:
        for ending in (signal.SIGINT, signal.SIGTERM):
            os.kill(engine.pid or 0, ending)
        assert (await engine.embed_queries(["猫"]))[0, 0] == 1


@pytest.mark.parametrize("kind", ["small", "slow"])
def test_it_does_not_outlive_a_server_that_is_killed(kind: str) -> None:
    script = f"""
import asyncio, os, signal
from server.engines.embedding import separate
from tests.fakes.embedding_process import SmallEmbedding
opened = separate._open_process
async def open_process():
    process = await opened()
    print(process.pid, flush=True)
    return process
separate._open_process = open_process
async def main():
    engine = separate.SeparateEmbedding(SmallEmbedding(), {MAKE!r}, {{"kind": {kind!r}}})
    starting = asyncio.create_task(engine.start())
    if {kind == "small"}:
        await starting
        print("started", flush=True)
        await engine.embed_documents(["hang"])
    await asyncio.sleep(600)
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        if kind == "small":
            assert server.stdout.readline() == "started\n"
        assert alive(pid)
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
    assert gone_within(pid, 5)


async def test_the_real_engine_gives_the_same_in_both_places() -> None:
    texts = ["富士通のパソコンを三万円で買った。", "When is the dentist?", "", "\ud83d"]
    found = []
    for place in ("inline", "separate"):
        settings = Settings(embedding=EmbeddingSettings(process=place, threads=1))
        engine = find_engine(settings, "embedding").build(settings, load_persona(ROOT / "persona.yaml"))
        assert isinstance(engine, SeparateEmbedding) == (place == "separate")
        await engine.start()
        found.append((await engine.embed_queries(texts), await engine.embed_documents(texts)))
        await engine.close()
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_made_there_is_a_name_and_plain_arguments() -> None:
    assert make("calibrated").fingerprint.dimensions == 4
    with pytest.raises(TypeError):
        SeparateEmbedding(SmallEmbedding(), MAKE, {"kind": object()})
