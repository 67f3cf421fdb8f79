"""A GGUF language model inside this process, through xllamacpp (llama.cpp's server without its program).

Streams, cancels, keeps the prompt prefix in its cache (on disk too, when given a folder), and turns tools and answer
into one decision grammar. It does not know what a prompt says, which tools exist, or what an answer means.

Facts of the library that shape this file: a request blocks a thread until it ends; returning True from its callback
cancels, and while the prompt is read there are callbacks only with `return_progress`, one a batch; an exception in a
callback is lost; errors arrive as a chunk `{"error": {...}}`; an HTTP listener is always opened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from server.engines.base import LlmCapabilities, LlmDelta, LlmDone, LlmMessage, LlmRequest, ToolSpec
from server.engines.llm.decision import (
    TOOL_KEY,
    DecisionReader,
    answers_a_tool,
    begins_a_call,
    bias_of_calls,
    decision_schema,
    settled,
    whole_characters,
    written_messages,
)
from server.engines.llm.openai_request import endpoint_messages
from server.engines.llm.prefix_files import keep_newest, prefix_name
from server.engines.llm.prompt_slots import PromptSlots
from server.engines.llm.xllama_request import Ended, Event, compact_grammar, complete, end_of
from server.engines.llm.xllama_server import FLASH_ATTENTION_OFF, XllamaServer
from server.engines.worker import ModelThread
from server.errors import LlmError, ModelError

log = logging.getLogger(__name__)

# A small model that is asked for an answer likes to say the question again. The DRY sampler makes each further token
# of a sequence that stands in the last tokens already less likely; quotes and colons end a sequence, so the form of
# the answer and its IDs are not touched. Not after a tool's result, which is there to be said again: of 250 it left 25.
_NO_ECHO = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 400}
TOOL_BIASES: Mapping[str, float] = {"qwen2.5-coder-0.5b-instruct-q4_k_m": 5.25}
"""By model ID: the `tool_bias` with the fewest wrong decisions on training and development utterances, under the
shipped prompt, most of whose examples answer. Measure again (`scripts/bench_decision`) when they change."""
_AFTER_ANSWERS = (3.25, 6.0)
"""Added to `tool_bias` after one earlier answer in the conversation, and after more: a small model goes on as it did.
Of 30 questions after four exchanges none was searched for without it, 26 were with it; of 30 others 3."""
_MAX_TOOLS, _MAX_TOOLS_LARGE = 8, 16
_MOST_BIAS = 7.0
"""Up to here it may stay through a completion: words begin with a space, and the bare token is not among them. A larger
one writes it all the same, whole queries of it (at 12)."""
_KEY_TOKENS = 4
"""Enough for the first key of a call."""


_Written = Callable[[Sequence[LlmMessage]], Sequence[Mapping[str, Any]]]


class XllamaLlm:
    """`model_path`: a GGUF file. `context_tokens`: of a prompt and its answer. `threads`: None for the processors.

    `conversations`: whose prompts stay read while they take turns, one answer at a time; each takes memory for
    `context_tokens` (96 MiB for 8,192 of the embedded model), and so do all other prompts together. `prefix_dir`: where
    prompt prefixes survive a restart, and come from into each conversation's; without, one conversation stays read.
    `tool_bias`: added to the log-odds of calling a tool rather than answering, where the model chooses between them.
    `small`: it is shown examples, offered few tools, and kept from saying the question again. `system_anywhere`: its
    chat template takes a system message that is not the first; newer ones refuse it.
    """

    name = "xllama"

    def __init__(
        self,
        model_path: Path,
        *,
        context_tokens: int = 4096,
        threads: int | None = None,
        conversations: int = 1,
        prefix_dir: Path | None = None,
        tool_bias: float = 0.0,
        small: bool = True,
        system_anywhere: bool = True,
    ) -> None:
        tools = _MAX_TOOLS if small else _MAX_TOOLS_LARGE
        self.capabilities = LlmCapabilities(False, tools, True, context_tokens, small, on_this_machine=True)
        self._model_path = model_path
        self._slots = PromptSlots(conversations)
        self._prefix_dir = prefix_dir
        self._tool_bias = tool_bias
        self._written: _Written = (
            written_messages if system_anywhere else partial(endpoint_messages, native_tools=False)
        )
        self._tool_token: int | None = None
        self._thread = ModelThread(self.name, LlmError)
        self._server = XllamaServer(
            model_path,
            context_tokens=context_tokens,
            slots=self._slots.count,
            threads=threads or os.cpu_count() or 1,
            prefix_dir=prefix_dir,
        )
        self._generators: ThreadPoolExecutor | None = None
        self._stops: set[threading.Event] = set()

    async def start(self) -> None:
        """Load the model. Raises `ModelError` when its file is missing, `LlmError` when it cannot run here."""
        if not self._model_path.is_file():
            raise ModelError(
                f"The language model is not at {self._model_path}.",
                code="model_missing",
                hint="Run `stackchan models pull`.",
            )
        await self._thread.start(self._server.load)
        if self._tool_bias:
            self._tool_token = await self._thread.call(self._server.first_token_of, TOOL_KEY)
        self._generators = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{self.name}-generate")

    async def close(self) -> None:
        """Cancel what runs, then free the model. Safe to call twice and before `start()`."""
        for stop in self._stops:
            stop.set()
        generators, self._generators = self._generators, None
        if generators is not None:
            await asyncio.to_thread(generators.shutdown, wait=True, cancel_futures=True)
        if self._thread.running:
            await self._thread.call(self._server.unload)
        await self._thread.close()

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        """Stream one completion. Closing the iterator early cancels the work.

        Raises `LlmError`: `llm_context_overflow` when prompt and answer do not fit, else `llm_failed`.
        """
        bias = self._bias(request)
        if bias > _MOST_BIAS:
            request, bias = settled(request, calls=await self._calls(request, bias)), 0.0
        reader = DecisionReader([tool.name for tool in request.tools])
        finish_reason: Literal["stop", "length"] = "stop"
        usage: Mapping[str, Any] = {}
        stream = self._chunks(self._completion_body(request, bias))
        try:
            async for chunk in stream:
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices", ()):
                    if choice.get("finish_reason") == "length":
                        finish_reason = "length"
                    text = whole_characters(choice.get("delta", {}).get("content") or "")
                    for delta in reader.feed(text):
                        yield delta
            for delta in reader.finish():
                yield delta
        finally:
            await stream.aclose()
        yield LlmDone(
            finish_reason="tool_calls" if reader.called else finish_reason,
            prompt_tokens=usage.get("prompt_tokens", 0),
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
            completion_tokens=usage.get("completion_tokens", 0),
        )

    async def count_tokens(self, text: str) -> int:
        """Tokens in `text`, exact, without the chat template's marks around a message. Raises `LlmError`."""
        answer = await self._thread.call(self._server.post, "/tokenize", {"content": whole_characters(text)})
        return len(answer["tokens"])

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read a stable prompt prefix into the prompt cache, or load it from `prefix_dir`. Raises `LlmError`."""
        prefix = self._written(messages)
        if self._prefix_dir is None:
            self._slots.begin(prefix, ready=1)
            await self.read_ahead(messages)
            return
        # Flash attention changes how values are stored, and a file of a slot among more fits only there.
        facts = (self.capabilities.context_tokens, self._slots.count, FLASH_ATTENTION_OFF)
        path = self._prefix_dir / f"{prefix_name(self._model_path, facts, prefix)}.kv"
        if path.exists() and await self._prefix_file("restore", path.name):
            self._slots.begin(prefix, ready=await self._spread(path.name))
            # All cached, but the weights are still on the disk: the first turn must not wait for them.
            await self.read_ahead(messages)
            return
        self._slots.begin(prefix, ready=1)
        await self.read_ahead(messages)
        # Several servers share the folder: each writes a file of its own and renames it when it is whole.
        part = path.with_suffix(f".{os.getpid()}.part")
        if await self._prefix_file("save", part.name):
            part.replace(path)  # a file that was cut while being written is never loaded
            self._slots.begin(prefix, ready=await self._spread(path.name))
            await self._thread.call(keep_newest, self._prefix_dir)

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read the beginning of a prompt into the cache; tools are none of it. Raises `LlmError`."""
        # The user's turn comes next: its opening marks belong to it.
        body = self._chat_body(self._written([*messages, LlmMessage("user", "")]), max_tokens=1)
        async for _ in self._chunks(body):
            pass

    async def _spread(self, name: str) -> int:
        """Load the prefix that the first slot has into those of the other conversations; how many have it now."""
        for slot in self._slots.for_talk[1:]:
            if not await self._prefix_file("restore", name, slot):
                return slot
        return len(self._slots.for_talk)

    async def _prefix_file(self, action: Literal["save", "restore"], name: str, slot: int = 0) -> bool:
        """Save or load a slot's cache. A file that cannot be used costs time, nothing else."""
        try:
            await self._thread.call(self._server.post, f"/slots/{slot}?action={action}", {"filename": name})
        except LlmError as error:
            log.warning("cannot %s the prompt prefix %s: %s", action, name, error.message)
            return False
        return True

    # --- requests ---

    def _completion_body(self, request: LlmRequest, bias: float) -> dict[str, Any]:
        body = self._chat_body(self._written(request.messages), max_tokens=request.max_tokens)
        no_echo = _NO_ECHO if self.capabilities.wants_examples and not answers_a_tool(request) else {}
        body |= {"temperature": request.temperature, "seed": request.seed, **no_echo}
        schema = decision_schema(request.answer_schema, request.tools)
        if schema is not None:
            body["grammar"] = compact_grammar(schema)
        return body | ({"logit_bias": [[self._tool_token, bias]]} if bias else {})

    def _chat_body(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int) -> dict[str, Any]:
        return {
            "messages": messages,
            "id_slot": self._slots.choose(messages),
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "cache_prompt": True,
            # For the templates of models that think; the others pass over it.
            "chat_template_kwargs": {"enable_thinking": False},
        }

    def _bias(self, request: LlmRequest) -> float:
        if self._tool_token is None:
            return 0.0
        return bias_of_calls(request, self._tool_bias, _AFTER_ANSWERS if self._tool_bias else ())

    async def _calls(self, request: LlmRequest, bias: float) -> bool:
        """Whether the model begins a call. A completion of its own: in one with the call, the bias writes its words."""
        body = self._completion_body(request, bias) | {"max_tokens": _KEY_TOKENS}
        text = ""
        async with aclosing(self._chunks(body)) as chunks:
            async for chunk in chunks:
                text += "".join(choice.get("delta", {}).get("content") or "" for choice in chunk.get("choices", ()))
        return begins_a_call(text)

    async def _chunks(self, body: dict[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        """The chunks of one request; closing the iterator stops it at its next token or prompt batch."""
        if self._generators is None:
            raise LlmError("The language model is not running.", code="engine_unavailable", hint="Start it before use.")
        loop = asyncio.get_running_loop()
        # Not bounded by itself, but by the request: at most one event a token and a prompt batch.
        events: asyncio.Queue[Event] = asyncio.Queue()
        stop = threading.Event()

        def post(event: Event) -> None:
            try:
                loop.call_soon_threadsafe(events.put_nowait, event)
            except RuntimeError:  # the loop is closed: nobody reads any more
                stop.set()

        # The server is not kept in this frame: closing must free it even while somebody still holds this iterator.
        work = self._generators.submit(complete, self._server.library, body, post, stop)
        work.add_done_callback(lambda done: post(end_of(done)))
        self._stops.add(stop)
        try:
            while not isinstance(event := await events.get(), Ended):
                if isinstance(event, LlmError):
                    raise event
                yield event
            if stop.is_set():
                raise LlmError("The language model was closed during an answer.", code="engine_unavailable")
        finally:
            stop.set()
            work.cancel()
            self._stops.discard(stop)
