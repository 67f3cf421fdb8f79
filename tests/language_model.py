"""The real small language model as the tests of several folders use it: where it is, and started as the server does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from server.config_sections import LlmSettings
from server.context.prompts import stable_prefix
from server.engines.base import LlmEngine, LlmRequest, LlmText, LlmToolCall
from server.engines.llm.xllama import TOOL_BIASES, XllamaLlm
from server.memory.tools import FORGET_MEMORY_SHORT, READ_MEMORY_SOURCE_SHORT, SEARCH_MEMORY
from server.persona import Persona

MODEL_ID = "qwen2.5-coder-0.5b-instruct-q4_k_m"
TOOLS = (SEARCH_MEMORY, READ_MEMORY_SOURCE_SHORT, FORGET_MEMORY_SHORT)
"""Those that the server tells this model of: with the same ones, all find one prompt prefix on the disk."""
SAID_AT = datetime(2026, 11, 30, 15, 20, tzinfo=ZoneInfo("Asia/Tokyo"))
THREADS = 1 if "PYTEST_XDIST_WORKER" in os.environ else None
"""Its threads wait for each other by spinning: beside another process of tests, two do less than one."""


def model_path() -> Path:
    """Its file. Fails the test without it."""
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan")
    path = folder / MODEL_ID / "model.gguf"
    assert path.is_file(), f"No model at {path}. Run `stackchan models pull`."
    return path


@asynccontextmanager
async def language_model(persona: Persona) -> AsyncIterator[XllamaLlm]:
    """Started, with its prompt read."""
    llm = XllamaLlm(
        model_path(),
        context_tokens=LlmSettings().context_tokens,
        threads=THREADS,
        conversations=2,  # as a server has it: the file of the prompt that was read is the same
        prefix_dir=model_path().parents[1] / "prompt-cache",
        tool_bias=TOOL_BIASES[MODEL_ID],
    )
    await llm.start()
    try:
        await llm.warm_prefix(stable_prefix(persona, llm.capabilities, TOOLS))
        yield llm
    finally:
        await llm.close()


async def written(llm: LlmEngine, request: LlmRequest) -> tuple[str, LlmToolCall | None]:
    """What it wrote, and its tool call if it made one."""
    text, call = "", None
    async with aclosing(llm.generate(request)) as deltas:  # type: ignore[type-var]
        async for delta in deltas:
            if isinstance(delta, LlmText):
                text += delta.text
            elif isinstance(delta, LlmToolCall):
                call = delta
    return text, call
