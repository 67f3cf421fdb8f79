"""Any Qwen as transformers loads it, inside this process: on a graphics processor, or on the processor.

Calls tools natively through the model's own chat template, streams, cancels within one token or one piece of a prompt,
and keeps what it has read of earlier prompts. One answer at a time. The model itself is `transformers_model.py`; its
text is read as an endpoint's answer is. Knows not what a prompt says, which tools exist, or what an answer means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from server.engines.base import LlmCapabilities, LlmDelta, LlmMessage, LlmRequest, ToolSpec
from server.engines.llm.decision import whole_characters
from server.engines.llm.openai_stream import ChatReader
from server.engines.llm.transformers_model import Device, Dtype, LocalModel, LocalModelOptions
from server.engines.worker import ModelThread
from server.errors import LlmError

log = logging.getLogger(__name__)

DEFAULT_MODEL = "Qwen/Qwen3-4B-Instruct-2507"
_MAX_TOOLS = 32


class TransformersLlm:
    """`folder`: of a whole model. `context_tokens`: the window; smaller where the model has a smaller one.

    `threads`: None for torch's own choice. `native_tools`: by the chat template, else described in the prompt.
    `make`: what makes the model on its thread.
    """

    name = "transformers"

    def __init__(
        self,
        folder: Path,
        *,
        context_tokens: int = 8192,
        device: Device = "auto",
        dtype: Dtype = "auto",
        threads: int | None = None,
        native_tools: bool = True,
        make: Callable[[LocalModelOptions], LocalModel] = LocalModel,
    ) -> None:
        self.capabilities = LlmCapabilities(
            native_tools=native_tools,
            max_tools=_MAX_TOOLS,
            streams=True,
            context_tokens=context_tokens,
            wants_examples=False,
            on_this_machine=True,
        )
        self._options = LocalModelOptions(folder, context_tokens, device, dtype, threads, native_tools)
        self._make = make
        self._thread = ModelThread(self.name, LlmError, extra="qwen")
        # Tokens are counted beside an answer that is being written.
        self._counting = ModelThread(f"{self.name}-count", LlmError)
        self._model: LocalModel | None = None

    async def start(self) -> None:
        """Load the model. Raises `ModelError` for a folder that holds none, `LlmError` when it cannot run here."""
        self._model = await self._thread.start(partial(self._make, self._options))
        await self._counting.start(lambda: None)
        self.capabilities = replace(self.capabilities, context_tokens=self._model.context_tokens)
        log.info("language model: %s in %s on %s", self._options.folder.name, self._model.dtype, self._model.device)

    async def close(self) -> None:
        """Stop what runs, then free the model. Safe to call twice and before `start()`."""
        await self._counting.close()
        await self._thread.close()
        self._model = None

    async def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        """Stream one completion. Closing the iterator early cancels the work within a token or a piece of the prompt.

        Raises `LlmError`, after all text that was written: `llm_context_overflow` when prompt and answer do not fit.
        """
        reader = ChatReader(request.tools)
        failure: LlmError | None = None
        async with aclosing(self._thread.stream(partial(self._running().write, request))) as chunks:
            try:
                async for chunk in chunks:
                    for delta in reader.feed(chunk):
                        yield delta
                    if request.answer_schema is not None and reader.whole:
                        break  # what a model writes after its answer is nobody's
            except LlmError as error:
                failure = error
        for delta in reader.finish() if failure is None else reader.cut():
            yield delta
        if failure is not None:
            raise failure
        yield reader.done()

    async def count_tokens(self, text: str) -> int:
        """Tokens in `text`, exact, without the chat template's marks around a message. Raises `LlmError`."""
        return await self._counting.call(_count, self._running().tokenizer, whole_characters(text))

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read a stable prompt prefix; it stays read until the engine is closed. Raises `LlmError`."""
        await self._read(messages, tools, stable=True)

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read the beginning of the next prompt. Raises `LlmError`."""
        await self._read(messages, tools, stable=False)

    async def _read(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec], *, stable: bool) -> None:
        model = self._running()

        def read(tell: Callable[[Any], None], stop: threading.Event) -> None:
            model.read(model.beginning(messages, tools), stop, stable=stable)

        async with aclosing(self._thread.stream(read)) as nothing:
            async for _ in nothing:
                pass

    def _running(self) -> LocalModel:
        if self._model is None:
            raise LlmError("The language model is not running.", code="engine_unavailable", hint="Start it before use.")
        return self._model


def _count(tokenizer: Any, text: str) -> int:
    # The library's own tokenizer, whose state no other thread changes.
    return len(tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)
