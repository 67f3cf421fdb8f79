"""The thread on which one model library runs.

Gives every local engine the same life: closed, started once, one blocking call at a time off the event loop, closed
again with what has not begun cancelled. A call may tell what it makes while it makes it. It turns whatever a library
raises into the engine's own error, once, here. It does not know any library.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from server.errors import EngineError, StackChanError

Result = TypeVar("Result")
Item = TypeVar("Item")
Arguments = ParamSpec("Arguments")


class _Ended:
    """What was called has returned; the last thing in a stream."""


class ModelThread:
    """One thread for one engine. `name`: the engine's, for messages; `error`: what its failures become; `extra`: the
    part of the server that brings its library."""

    def __init__(self, name: str, error: type[EngineError], extra: str = "embedded") -> None:
        self._name = name
        self._error = error
        self._extra = extra
        self._executor: ThreadPoolExecutor | None = None
        self._stops: set[threading.Event] = set()

    @property
    def running(self) -> bool:
        return self._executor is not None

    async def start(self, load: Callable[[], Result]) -> Result:
        """Begin with `load()` on the thread: imports, reads and warms the model. Ends again when that fails."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        try:
            return await self.call(load)
        except BaseException:
            await self.close()
            raise

    async def call(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run a blocking function on the thread. A caller that is cancelled takes back what has not begun.

        Raises the engine's error: `engine_unavailable` when it is closed or its library is missing.
        """
        if self._executor is None:
            raise self._unavailable("is not running", hint="Start it before use; after close it stays closed.")
        work = self._executor.submit(function, *args, **kwargs)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            # 1. the caller was cancelled: its cancellation goes on; 2. close() cancelled the work: an error.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unavailable("was closed before it could do this", hint="Ask again once it runs.") from None
        except StackChanError:
            raise
        except ImportError as error:
            raise self._unavailable(
                f"needs a library that is not installed: {error}",
                hint=f"Run: pip install 'stackchan-server[{self._extra}]'.",
            ) from error
        except Exception as error:
            raise self._error(f"The engine {self._name} failed: {type(error).__name__}: {error}") from error

    async def stream(
        self, function: Callable[[Callable[[Item], None], threading.Event], None]
    ) -> AsyncGenerator[Item, None]:
        """What a blocking function on the thread tells, as it tells it. Closing the iterator does not wait for its end.

        It is given where to tell, and an event: when that is set nobody wants more, and it has to return soon. Raises
        as `call` does, after all that was told, and `engine_unavailable` when the engine is closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        # Not bounded by itself: by how much the function has to tell.
        told: asyncio.Queue[Item | _Ended] = asyncio.Queue()
        stop = threading.Event()

        def tell(item: Item) -> None:
            try:
                loop.call_soon_threadsafe(told.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody reads any more
                stop.set()

        work = asyncio.ensure_future(self.call(function, tell, stop))

        def end(done: asyncio.Future[None]) -> None:
            if not done.cancelled():
                done.exception()  # whoever has closed the iterator does not want to know
            told.put_nowait(_Ended())

        work.add_done_callback(end)
        self._stops.add(stop)
        try:
            while not isinstance(item := await told.get(), _Ended):
                yield item
            await work
            if stop.is_set():
                raise self._unavailable("was closed during its work", hint="Ask again once it runs.")
        finally:
            stop.set()
            work.cancel()
            self._stops.discard(stop)

    async def close(self) -> None:
        """Cancel what has not begun, stop what tells its work, wait for the rest. Safe to call twice."""
        for stop in self._stops:
            stop.set()
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)

    def _unavailable(self, what: str, *, hint: str) -> EngineError:
        return self._error(f"The engine {self._name} {what}.", code="engine_unavailable", hint=hint)
