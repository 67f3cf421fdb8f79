"""Runs an engine's work for a bounded time, and makes whatever goes wrong in it that stage's own error.

Work that does not even end when it is cancelled is left behind, so that nothing it does can hold a turn. Knows no
stage and no engine.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

from server.errors import EngineError, StackChanError
from server.storage.types import clean_text

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

# How long cancelled work may take to clean up.
_ENDING_SECONDS = 1.0
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MESSAGE_CHARACTERS = 1000


async def bounded(work: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """The result of `work`, which runs in a task of its own. Raises `TimeoutError` after `seconds`.

    A caller that is cancelled cancels the work. Work that cancels itself is a defect: `RuntimeError`; so is work that
    raises what would end the process or its loop (`SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, groups of them).
    """
    task = asyncio.create_task(_contained(work))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not task.done():
        await _end(task)
        raise TimeoutError
    if task.cancelled():
        raise RuntimeError("The work cancelled itself.")
    return task.result()


async def engine_work(work: Coroutine[Any, Any, Result], seconds: float, failure: type[EngineError]) -> Result:
    """The result of an engine's `work`. Raises only `failure`: with code `<kind>_timeout` after `seconds`, the engine's
    own error as it is, anything else (a defect, which is logged) with the kind's usual code.
    """
    try:
        return await bounded(work, seconds)
    except failure as error:
        _make_storable(error)
        raise
    except TimeoutError:
        kind = failure.default_code.removesuffix("_failed")
        raise failure(f"It took longer than {seconds:g} seconds.", code=f"{kind}_timeout", retryable=True) from None
    except StackChanError as error:
        _make_storable(error)
        code = error.code if error.code.startswith("engine_") else None
        raise failure(error.message, code=code, retryable=error.retryable, hint=error.hint) from error
    except Exception as error:
        _log.error("%s: a defect of the engine", failure.default_code, exc_info=error)
        raise failure(f"{type(error).__name__} in the engine.") from error


async def _contained(work: Coroutine[Any, Any, Result]) -> Result:
    own = asyncio.current_task()
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        # Thrown away unfinished with its loop, which is no defect of the work.
        if isinstance(error, GeneratorExit) and _current_task() is not own:
            raise
        # Let through, a task hands these to the loop, and the whole server goes down half-way.
        raise RuntimeError(f"The work raised {type(error).__name__}.") from error


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _make_storable(error: StackChanError) -> None:
    """An engine may put anything into its error; from here on it can be stored, counted and sent."""
    error.message = _storable(error.message)
    error.hint = None if error.hint is None else _storable(error.hint)
    if not isinstance(error.code, str) or _CODE.fullmatch(error.code) is None:
        error.code = error.default_code
    error.retryable = error.retryable is True
    if isinstance(error, EngineError):
        seconds = error.retry_after_seconds
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
        error.retry_after_seconds = seconds if known else None


def _storable(message: object) -> str:
    known = isinstance(message, str | int | float)
    return clean_text(str(message) if known else type(message).__name__)[:_MESSAGE_CHARACTERS]


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    # What it raises in the end is of no use to anybody, and must not be reported as forgotten.
    task.add_done_callback(_take_result)
    await asyncio.wait({task}, timeout=_ENDING_SECONDS)
    if not task.done():
        _log.error("work that was cancelled goes on; it is left behind")


def _take_result(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
