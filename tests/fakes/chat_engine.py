"""The endpoint engine joined to the fake endpoint, with what tests ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server.config import load_settings
from server.engines.base import LlmDelta, LlmMessage, LlmRequest, LlmText, ToolSpec
from server.engines.llm.openai_chat import OpenAiChatLlm
from server.engines.llm.presets import resolve_endpoint
from server.errors import LlmError
from tests.fakes.chat_server import ChatServer

KEY = "sk-very-secret-0123456789"
ANSWER = '{"emotion":"happy","action":"nod","reply":"うん、元気だよ😀。"}'
SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
SCHEMA = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
WORDS = "妻への贈り物はないしょ"
REQUEST = LlmRequest((LlmMessage("system", "You are a robot."), LlmMessage("user", WORDS)), answer_schema=SCHEMA)
WITH_TOOL = LlmRequest(REQUEST.messages, answer_schema=SCHEMA, tools=(SEARCH,))


@asynccontextmanager
async def engine(
    chat: ChatServer, timeout_seconds: float = 5.0, warming_timeout_seconds: float = 5.0, **llm: Any
) -> AsyncIterator[OpenAiChatLlm]:
    """A started engine for `chat`; at the end no task and no connection is left."""
    llm = {"base_url": chat.url, "api_key": KEY, "model": "qwen-fake"} | llm
    settings = load_settings({}, llm=llm)
    made = OpenAiChatLlm(
        resolve_endpoint(settings.llm),
        context_tokens=8192,
        timeout_seconds=timeout_seconds,
        connect_timeout_seconds=1,
        warming_timeout_seconds=warming_timeout_seconds,
    )
    await made.start()
    tasks = asyncio.all_tasks()
    try:
        yield made
        await settled(tasks)
    finally:
        await made.close()
        await chat.until_idle()


async def settled(tasks: set[asyncio.Task[Any]]) -> None:
    """Return when only `tasks` are left: the event loop finalises abandoned generators in its next rounds."""
    for _ in range(50):
        if asyncio.all_tasks() <= tasks:
            return
        await asyncio.sleep(0)
    raise AssertionError(asyncio.all_tasks() - tasks)


async def ask(made: OpenAiChatLlm, request: LlmRequest = REQUEST) -> list[LlmDelta]:
    return [delta async for delta in made.generate(request)]


async def failure(made: OpenAiChatLlm, request: LlmRequest = REQUEST) -> tuple[str, LlmError]:
    """The text that came, and the error after it."""
    said: list[LlmDelta] = []

    async def read() -> None:
        async for delta in made.generate(request):
            said.append(delta)

    with pytest.raises(LlmError) as caught:
        await read()
    assert all(isinstance(delta, LlmText) for delta in said)
    return text_of(said), caught.value


def text_of(out: Iterable[LlmDelta]) -> str:
    return "".join(delta.text for delta in out if isinstance(delta, LlmText))
