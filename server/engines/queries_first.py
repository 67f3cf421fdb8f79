"""A live question before everything that is only kept: one model, one thread, two kinds of work.

Texts that are kept come in batches that take seconds; somebody waits for the question. So what waits is looked at
between two batches, and inside a batch wherever the model lets the thread breathe (`pause`): between two layers the
question is computed, and the batch goes on. Questions that wait at the same moment go together. Knows no model.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from server.engines.worker import ModelThread
from server.errors import EngineError, StackChanError
from server.events import Samples

Text = TypeVar("Text")


@dataclass(eq=False, slots=True)
class _Question(Generic[Text]):
    texts: Sequence[Text]
    vectors: Future[Samples] = field(default_factory=Future)


class QueriesFirst(Generic[Text]):
    """`embed`: called on `thread` only, with the texts of one or more questions; one row for each. `error`: what its
    failures become."""

    def __init__(
        self,
        thread: ModelThread,
        embed: Callable[[Sequence[Text]], Samples],
        error: type[EngineError],
        *,
        most_texts: int,
    ) -> None:
        self._thread = thread
        self._error = error
        self._embed = embed
        self._most_texts = most_texts
        self._lock = threading.Lock()
        self._waiting: list[_Question[Text]] = []
        self._answering = False

    async def ask(self, texts: Sequence[Text]) -> Samples:
        """One row for each text, as soon as the thread can. A caller that is cancelled takes back what has not begun.

        Raises the engine's error.
        """
        question = _Question(texts)
        with self._lock:
            self._waiting.append(question)
        answered = asyncio.wrap_future(question.vectors)
        # Whoever comes first answers: the thread's next turn, or a pause of what it does now.
        turn = asyncio.ensure_future(self._thread.call(self._answer_all))
        try:
            await asyncio.wait((answered, turn), return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                await turn  # raises when the engine is closed
            return await answered
        finally:
            answered.cancel()
            turn.cancel()
            await asyncio.gather(answered, turn, return_exceptions=True)

    def pause(self) -> None:
        """On the thread, in the middle of other work: answer what waits."""
        if self._waiting and not self._answering:
            self._answer_all()

    def _answer_all(self) -> None:
        while batch := self._next_batch():
            self._answering = True
            try:
                vectors = self._embed([text for question in batch for text in question.texts])
            except Exception as error:  # each of those who asked is told; the batch that paused goes on
                known = isinstance(error, StackChanError)
                failure = error if known else self._error(f"A question failed: {type(error).__name__}: {error}")
                for question in batch:
                    question.vectors.set_exception(failure)
            else:
                ends = np.cumsum([len(question.texts) for question in batch])[:-1]
                for question, rows in zip(batch, np.split(vectors, ends), strict=True):
                    question.vectors.set_result(rows)
            finally:
                self._answering = False

    def _next_batch(self) -> list[_Question[Text]]:
        """Questions that wait, the oldest first, as many as go together."""
        with self._lock:
            batch: list[_Question[Text]] = []
            count = 0
            while self._waiting and (not batch or count + len(self._waiting[0].texts) <= self._most_texts):
                question = self._waiting.pop(0)
                if question.vectors.set_running_or_notify_cancel():
                    batch.append(question)
                    count += len(question.texts)
            return batch
