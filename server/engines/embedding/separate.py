"""Any embedding engine in a process of its own: what it needs of memory and processor is beside the server, not in it.

The server asks over a pipe, in JSON and plain numbers; no port is opened. When the process ends what waited is told so,
and it is started again, later each time it fails. It ends with the server, also when that is killed. Knows no engine:
how one is made there is a function's name and its arguments.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from server import errors
from server.engines.base import Calibrated, EmbeddingEngine
from server.engines.embedding.frames import Frame, packed, read_frame
from server.errors import EmbeddingError, StackChanError
from server.events import Samples

Kind = Literal["queries", "documents"]

_TEXTS_AT_ONCE = 16
"""Of a long list, so many are one request: more could not be taken back."""
_REQUESTS: Mapping[Kind, int] = {"queries": 32, "documents": 2}
"""Under way at once; more wait here. Questions have a line of their own."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_END_SECONDS = 5.0
_TAIL_BYTES = 2_000
_ERRORS = ("ConfigError", "EmbeddingError", "EngineError", "ModelError")
_log = logging.getLogger(__name__)


class SeparateEmbedding:
    """Implements `EmbeddingEngine`. `engine`: one that is made in the same way here, not started: it says what the
    vectors are. `make`: `module:function`, called with `arguments` in the process; they must be JSON.
    """

    def __init__(self, engine: EmbeddingEngine, make: str, arguments: Mapping[str, Any]) -> None:
        self.name = engine.name
        self.fingerprint = engine.fingerprint
        if isinstance(engine, Calibrated):
            self.calibration = engine.calibration
        self._first = packed({"make": make, "arguments": dict(arguments)})
        self._child: _Child | None = None
        self._closed = True
        self._trouble: StackChanError | None = None
        self._life: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._lines = {kind: asyncio.Semaphore(count) for kind, count in _REQUESTS.items()}

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        return self._child.process.pid if self._child is not None else None

    async def start(self) -> None:
        """Start the process and wait until its engine has started. Raises what that raises."""
        child = await self._started()
        self._closed, self._trouble = False, None
        self._use(child)
        self._life = asyncio.create_task(self._keep_alive(child), name="embedding-process")

    async def close(self) -> None:
        """End the process. Safe to call twice and before `start()`."""
        self._closed = True
        self._changed.set()
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        """See `EmbeddingEngine`; waits while the process is being started again."""
        return await self._embed("queries", texts)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        """See `EmbeddingEngine`; waits while the process is being started again."""
        return await self._embed("documents", texts)

    async def _embed(self, kind: Kind, texts: Sequence[str]) -> Samples:
        parts = [np.zeros((0, self.fingerprint.dimensions), np.float32)]
        for start in range(0, max(1, len(texts)), _TEXTS_AT_ONCE):
            some = list(texts[start : start + _TEXTS_AT_ONCE])
            async with self._lines[kind]:
                child = await self._running()
                vectors = await child.ask(kind, some)
            if vectors is None or vectors.shape != (len(some), self.fingerprint.dimensions):
                raise EmbeddingError(f"The engine {self.name} gave other vectors than it said.")
            parts.append(vectors)
        return np.concatenate(parts)

    async def _running(self) -> _Child:
        while self._child is None:
            if self._closed:
                hint = "Start it before use; after close it stays closed."
                raise EmbeddingError(f"The engine {self.name} is not running.", code="engine_unavailable", hint=hint)
            if self._trouble is not None:
                raise self._trouble
            await self._changed.wait()
        return self._child

    async def _started(self) -> _Child:
        child = _Child(await _open_process(), self.name)
        try:
            await child.start(self._first)
        except BaseException:
            await child.end()
            raise
        return child

    def _use(self, child: _Child | None) -> None:
        self._child = child
        self._changed.set()
        if child is None:
            self._changed.clear()

    async def _keep_alive(self, child: _Child) -> None:
        """Serve, and start again: at once, then after longer and longer pauses while that fails."""
        while True:
            ended = await child.serve()
            self._use(None)
            _log.error("the embedding process ended (%s) and is started again", ended.code)
            await child.end()
            pause_seconds = _FIRST_PAUSE_SECONDS
            while self._child is None:
                try:
                    child = await self._started()
                except (StackChanError, OSError) as error:
                    known = error if isinstance(error, StackChanError) else EmbeddingError(str(error))
                    _log.error("the embedding process does not start: %s", known.code)
                    self._trouble = known
                    self._changed.set()
                    self._changed.clear()
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                else:
                    self._trouble = None
                    self._use(child)
                    _log.info("the embedding process runs again")


class _Child:
    """One process, from its start to its end."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._name = name
        self._input, self._output = process.stdin, process.stdout
        self._waiting: dict[int, asyncio.Future[Samples | None]] = {}
        self._asked = 0
        self._tail = b""
        self._listening = asyncio.create_task(self._listen(process.stderr))
        self._over: EmbeddingError | None = None

    async def start(self, first: bytes) -> None:
        with suppress(ConnectionError):  # it ended at once: that is told below
            self._input.write(first)
            await self._input.drain()
        frame = await self._next()
        if frame is None:
            raise await self._ended()
        if "failed" in frame.head:
            raise _raised(frame.head["failed"])

    async def serve(self) -> EmbeddingError:
        """Hand out answers until the process ends; why nothing can be asked any more."""
        while (frame := await self._next()) is not None:
            future = self._waiting.pop(int(frame.head["id"]), None)
            if future is None or future.done():
                continue
            if "failed" in frame.head:
                future.set_exception(_raised(frame.head["failed"]))
            else:
                future.set_result(frame.vectors)
        self._over = await self._ended()
        self._give_up(self._over)
        return self._over

    async def ask(self, kind: Kind, texts: list[str]) -> Samples | None:
        if self._over is not None:
            raise self._over
        self._asked += 1
        number = self._asked
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._input.write(packed({"id": number, "kind": kind, "texts": texts}))
            with suppress(ConnectionError):  # `serve` tells why
                await self._input.drain()
            vectors: Samples | None = await future
            return vectors
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None and not self._input.is_closing():
                self._input.write(packed({"id": number, "kind": "cancel"}))
            raise

    async def end(self) -> None:
        """Close its input, which ends it; kill it if it does not. What waits is told that it was closed."""
        self._input.close()
        await self._wait_or_kill()
        self._give_up(EmbeddingError(f"The engine {self._name} was closed.", code="engine_unavailable"))
        await self._listening

    async def _wait_or_kill(self) -> None:
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._output.read()  # a full pipe would keep it from ending
                await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def _next(self) -> Frame | None:
        try:
            return await read_frame(self._output)
        except ValueError as error:
            _log.error("the embedding process wrote what is no answer: %s", type(error).__name__)
            with suppress(ProcessLookupError):
                self.process.kill()
            return None

    async def _ended(self) -> EmbeddingError:
        await self._wait_or_kill()
        code = self.process.returncode or 0
        await self._listening
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        said = self._tail.decode("utf-8", "replace").strip().splitlines()
        _log.debug("the embedding process said at last: %s", said)
        last = f": {said[-1]}" if said and code > 0 else ""
        return EmbeddingError(f"The embedding process ended ({how}){last}.", retryable=True)

    def _give_up(self, error: EmbeddingError) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        """Keep the last of what it says, so that it can go on saying it."""
        while piece := await stream.read(4096):
            self._tail = (self._tail + piece)[-_TAIL_BYTES:]


async def _open_process() -> asyncio.subprocess.Process:
    # The same modules as here, and none of the folder that the server happens to be started in.
    paths = os.pathsep.join(path for path in sys.path if path)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "server.engines.embedding.child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )


def _raised(told: Mapping[str, Any]) -> StackChanError:
    """The error that the process met, as one of ours."""
    kind = told["kind"] if told["kind"] in _ERRORS else "EmbeddingError"
    made: StackChanError = getattr(errors, kind)(
        told["message"], code=told["code"], retryable=told["retryable"], hint=told["hint"]
    )
    return made
