"""A small real OpenAI-shaped chat endpoint on loopback that does what a test tells it, good or bad.

    with running_chat_server() as chat:
        chat.play(fail(429, retry_after="2"), say("こんにちは"))   # one behaviour a request; the last one repeats
        ... point a client at chat.url (".../v1") ...
        chat.completions[0].json["messages"]                       # what was asked, headers in lower case
        await chat.until_idle()                                    # raises unless every connection is gone

How it runs is told in `http_server.py`. `GET /v1/models` lists `chat.models`. `chat.refused_fields` are answered 400 in
a completion's body. Everything else is a behaviour, made by one of these (`chat_replies.py`, importable from here):

    good      say, deltas, think_then_say, call_tools, call_tools_in_pieces, whole (one JSON body, no stream)
    slow      say(first_byte_seconds=, drip_seconds=), hold (until `chat.release()`), never (answers)
    refusing  fail(status, ...), html, raw_answer
    broken    cut (the connection ends in the middle), say(finish=None, done=False) (the body ends properly, the answer
              not), reset (TCP reset), garbage, error_in_stream, empty, raw

It knows nothing about the code under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fakes.chat_replies import (
    MODEL,
    call_tools,
    call_tools_in_pieces,
    chunk,
    cut,
    deltas,
    empty,
    error_in_stream,
    fail,
    garbage,
    hold,
    html,
    never,
    raw,
    raw_answer,
    reset,
    say,
    think_then_say,
    whole,
)
from tests.fakes.http_server import Behaviour, Connection, HttpServer, Recorded, running

__all__ = [
    "MODEL",
    "ChatServer",
    "Connection",
    "Recorded",
    "call_tools",
    "call_tools_in_pieces",
    "chunk",
    "cut",
    "deltas",
    "empty",
    "error_in_stream",
    "fail",
    "garbage",
    "hold",
    "html",
    "never",
    "raw",
    "raw_answer",
    "reset",
    "running_chat_server",
    "say",
    "think_then_say",
    "whole",
]


@dataclass
class ChatServer(HttpServer):
    """The endpoint's script and what it saw."""

    models: list[str] = field(default_factory=lambda: [MODEL])
    answer_models: Behaviour | None = None
    """What to do instead of listing `models`."""
    refused_fields: set[str] = field(default_factory=set)

    def matters(self, request: Recorded) -> bool:
        return request.path.endswith("/chat/completions") and not self.refused_fields & set(request.json)

    @property
    def completions(self) -> list[Recorded]:
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    async def usual(self, connection: Connection) -> None:
        request = connection.request
        if request.path.endswith("/models") and self.answer_models is not None:
            await self.answer_models(connection)
        elif request.path.endswith("/models"):
            listed = [{"id": model, "object": "model"} for model in self.models]
            await connection.answer(200, json.dumps({"object": "list", "data": listed}).encode())
        elif refused := sorted(self.refused_fields & set(request.json)):
            await fail(400, f"Unrecognized request argument supplied: {refused[0]}")(connection)
        else:
            await say("はい。")(connection)


@contextmanager
def running_chat_server() -> Iterator[ChatServer]:
    """A server on a free port of loopback, in a thread of its own, until the block ends."""
    with running(ChatServer()) as chat:
        yield chat
