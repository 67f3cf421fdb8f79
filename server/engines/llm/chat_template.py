"""Prompts as tokens, written by a model's own chat template.

Messages and tools take the same forms as an endpoint's; what stands in them and looks like a mark of the template is
text. Takes any tokenizer of transformers; knows neither the model nor what a prompt says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from server.engines.base import LlmMessage, ToolSpec
from server.engines.llm.beginnings import common_length
from server.engines.llm.openai_request import endpoint_messages, native_tool
from server.errors import LlmError

# Two turns that differ from their first character: what their prompts share comes before anybody's words.
_PROBES = ("0", "1")


class ChatTemplate:
    """`native_tools`: the template tells of the tools; else the prompt does, and calls are text."""

    def __init__(self, tokenizer: Any, *, native_tools: bool) -> None:
        self._tokenizer = tokenizer
        self._native_tools = native_tools

    def prompt(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """The tokens of a whole prompt, up to where the model answers. Raises `LlmError`."""
        written = endpoint_messages(messages, native_tools=self._native_tools)
        for message in written:
            for call in message.get("tool_calls", ()):
                # Some templates write arguments one by one, and all of them write an object as JSON.
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        try:
            tokens: list[int] = self._tokenizer.apply_chat_template(
                written,
                tools=[native_tool(tool) for tool in tools] if tools and self._native_tools else None,
                add_generation_prompt=True,
                # Known to the templates of models that think; the others pass over it.
                enable_thinking=False,
                # What somebody said or wrote down must not end their message and begin another.
                sanitize_control_tokens=True,
                return_dict=False,
            )
        except Exception as error:  # a template is a program of the model's makers
            raise LlmError(
                f"The model's chat template cannot write this prompt: {error}",
                hint="Choose an Instruct model of Qwen in llm.model.",
            ) from error
        return tokens

    def beginning(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """The tokens that every prompt begins with which goes on from these messages with somebody's words."""
        first, second = (self.prompt([*messages, LlmMessage("user", probe)], tools) for probe in _PROBES)
        return first[: common_length(first, second)]
