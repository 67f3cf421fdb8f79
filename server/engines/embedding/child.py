"""The other side of `separate.py`: `python -m server.engines.embedding.child` runs one embedding engine for its parent.

Asked on standard input, answers on what was standard output; nothing else is opened. It ends as soon as its input does,
so it never outlives its parent, however that ended. Ctrl-C and a polite stop are the parent's matter: it decides when.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from server.engines.base import Calibrated, EmbeddingEngine
from server.engines.embedding.frames import Frame, packed, read_frame
from server.errors import EmbeddingError, StackChanError


async def serve(requests: asyncio.StreamReader, answer: Callable[[bytes], None]) -> None:
    """Make and start the engine that the first frame names, then answer until the input ends."""
    first = await read_frame(requests)
    if first is None:
        return
    starting = asyncio.create_task(_start(first))
    next_frame = asyncio.create_task(read_frame(requests))
    await asyncio.wait((starting, next_frame), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # nothing is asked before it has started: the parent has gone
        return
    try:
        engine = starting.result()
    except Exception as error:
        answer(packed({"failed": _told(error)}))
        return
    answer(packed({"started": _facts(engine)}))
    tasks: dict[int, asyncio.Task[None]] = {}
    frame = await next_frame
    while frame is not None:
        number = int(frame.head["id"])
        if frame.head["kind"] == "cancel":
            if number in tasks:
                tasks[number].cancel()
        else:
            task = asyncio.create_task(_embed(engine, frame.head, answer))
            tasks[number] = task
            task.add_done_callback(partial(_forget, tasks, number))
        frame = await read_frame(requests)


def _forget(tasks: dict[int, asyncio.Task[None]], number: int, _: asyncio.Task[None]) -> None:
    del tasks[number]


async def _start(first: Frame) -> EmbeddingEngine:
    # On a thread: meanwhile this one sees whether the parent is still there.
    engine = await asyncio.to_thread(_make, str(first.head["make"]), first.head["arguments"])
    await engine.start()
    return engine


def _make(name: str, arguments: dict[str, Any]) -> EmbeddingEngine:
    module, _, function = name.partition(":")
    engine: EmbeddingEngine = getattr(importlib.import_module(module), function)(**arguments)
    return engine


async def _embed(engine: EmbeddingEngine, head: dict[str, Any], answer: Callable[[bytes], None]) -> None:
    embed = engine.embed_queries if head["kind"] == "queries" else engine.embed_documents
    try:
        vectors = await embed(head["texts"])
    except Exception as error:
        answer(packed({"id": head["id"], "failed": _told(error)}))
    else:
        answer(packed({"id": head["id"]}, vectors))


def _facts(engine: EmbeddingEngine) -> dict[str, Any]:
    fingerprint = engine.fingerprint
    return {
        "fingerprint": [fingerprint.model, fingerprint.dimensions, fingerprint.instruction],
        "calibrated": isinstance(engine, Calibrated),
    }


def _told(error: Exception) -> dict[str, Any]:
    """An error as the parent raises it again."""
    if not isinstance(error, StackChanError):
        error = EmbeddingError(f"{type(error).__name__}: {error}")
    fields = {name: getattr(error, name) for name in ("code", "message", "retryable", "hint")}
    return {"kind": type(error).__name__, **fields}


def _take_output() -> BinaryIO:
    """The pipe to the parent; what a library prints goes to standard error from now on."""
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return own


async def _main() -> None:
    output = _take_output()
    requests = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)

    def answer(frame: bytes) -> None:
        view = memoryview(frame)
        try:
            while view:
                # Blocking, and short: the parent reads all the time.
                view = view[output.write(view) :]
        except BrokenPipeError:
            os._exit(0)

    code = 1
    try:
        await serve(requests, answer)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        # At once: a model may be in the middle of something, on a thread that a polite end would wait for.
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    asyncio.run(_main())
