"""The engine over a tiny checkpoint, watched, and with what tests ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from server.engines.base import LlmDone, LlmMessage, LlmRequest, LlmText, ToolSpec
from server.engines.llm.transformers_chat import TransformersLlm
from server.engines.llm.transformers_model import LocalModel
from server.errors import LlmError

SYSTEM = LlmMessage("system", "あなたはスタックチャン。You are a small robot. " * 6)
SEARCH = ToolSpec(
    "search_memory",
    "Search what was said. 覚えていることを探す。",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
SCHEMA = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
ANSWER = '{"emotion":"happy","action":"nod","reply":"タマだよ😀。"}'
CALL = '<tool_call>\n{"name": "search_memory", "arguments": {"query": "猫の名前"}}\n</tool_call>'


class WatchedModel(LocalModel):
    """Remembers what was read and chosen. `scripts`: texts to write, one a request, in place of its own."""

    def __init__(self, options: Any) -> None:
        self.forwards: list[int] = []
        self.chosen: list[int] = []
        self.scripts: list[str] = []
        self.split_tags = False
        self.before_forward = lambda number: None
        super().__init__(options)

    def _forward(self, state, tokens):
        self.before_forward(len(self.forwards))
        self.forwards.append(len(tokens))
        return super()._forward(state, tokens)

    def _chooser(self, request):
        choose = super()._chooser(request)
        script = iter(self._spelled(self.scripts.pop(0))) if self.scripts else None

        def watched(logits):
            token = choose(logits) if script is None else next(script)
            self.chosen.append(token)
            return token

        return watched

    def _spelled(self, text):
        if self.split_tags:
            return [*self.tokenizer._encode_without_added_tokens(text), self.tokenizer.eos_token_id]
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]


@asynccontextmanager
async def engine(folder, **options: Any) -> AsyncIterator[tuple[TransformersLlm, WatchedModel]]:
    made: list[WatchedModel] = []

    def make(given):
        made.append(WatchedModel(given))
        return made[0]

    llm = TransformersLlm(
        folder, **{"context_tokens": 4096, "device": "cpu", "dtype": "float32", "make": make} | options
    )
    await llm.start()
    try:
        yield llm, made[0]
    finally:
        await llm.close()


async def ask(llm, request):
    async with aclosing(llm.generate(request)) as deltas:
        return [delta async for delta in deltas]


def request(*words: str, **changes: Any) -> LlmRequest:
    """A conversation: the user's words and the robot's in turn."""
    roles = ("user", "assistant")
    messages = (SYSTEM, *(LlmMessage(roles[place % 2], text) for place, text in enumerate(words)))
    return LlmRequest(messages, **{"max_tokens": 24} | changes)


def text_of(out) -> str:
    return "".join(delta.text for delta in out if isinstance(delta, LlmText))


async def chosen_by_fresh(folder, asked, **options) -> list[int]:
    """What an engine writes that has read nothing before."""
    async with engine(folder, **options) as (llm, model):
        await quietly(llm, asked)
        return model.chosen


async def quietly(llm, asked) -> LlmDone | None:
    """Ask a model whose random words may be no answer."""
    try:
        out = await ask(llm, asked)
    except LlmError as error:
        if error.code != "llm_no_reply":
            raise
        return None
    return out[-1]
