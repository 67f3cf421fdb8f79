"""What is done while it is not certain yet that somebody has stopped speaking: hear the words, begin the answer.

Begun when a silence is noticed, kept when the silence becomes the end of the utterance, dropped when speech resumes.
Nothing of it can be seen: no word is stored, no tool runs. Knows the stages it uses; not sound, devices or time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from server.errors import StackChanError
from server.pipeline.request import Heard
from server.pipeline.speech_ahead import HeldAnswer

_log = logging.getLogger(__name__)

BeginAnswer = Callable[[asyncio.Future[Heard | None]], Awaitable[HeldAnswer | None]]
"""Begins the answer of a turn with these words, as soon as they are known; None: better not to begin."""


class Ahead:
    """One silence's. Must end in `keep` or `drop`."""

    def __init__(self, hearing: Awaitable[Heard | None], begin: BeginAnswer | None) -> None:
        self.heard = asyncio.ensure_future(hearing)
        """The words; None: nobody said any. Raises `AsrError`."""
        self._held: HeldAnswer | None = None
        self._begin: asyncio.Task[None] | None = None
        if begin is not None:
            self._begin = asyncio.create_task(self._begin_answer(begin), name="answer-ahead")

    @property
    def began_answer(self) -> bool:
        """Whether the model was called, and nobody has taken over what it writes."""
        return self._held is not None

    def keep(self) -> HeldAnswer | None:
        """It was the end: the turn waits for `heard`. An answer that was begun goes with it, to be taken or dropped."""
        if self._begin is not None and not self._begin.done():
            self._begin.cancel()
        held, self._held = self._held, None
        return held

    async def drop(self) -> None:
        """It was not: stop all of it, and return when the engines have let go. Safe to call twice."""
        tasks = [task for task in (self.heard, self._begin) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        held, self._held = self._held, None
        if held is not None:
            await held.drop()

    async def _begin_answer(self, begin: BeginAnswer) -> None:
        try:
            self._held = await begin(self.heard)
        except StackChanError:
            pass  # the turn meets it, and says so
        except Exception as error:  # an extra must not cost the turn
            _log.error("an answer could not be begun early", exc_info=error)
