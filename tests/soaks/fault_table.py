"""The failure table of a turn as data: what is done to it, and what has to come of it.

Knows neither server nor client; `faults.py` plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.pipeline.apology import Fault as Sorry
from tests.fakes.chat_server import (
    call_tools,
    call_tools_in_pieces,
    cut,
    empty,
    error_in_stream,
    fail,
    garbage,
    html,
    never,
    reset,
    say,
    think_then_say,
    whole,
)
from tests.soaks import fault_engines as engines

if TYPE_CHECKING:
    from tests.fakes.chat_replies import Behaviour

REPLY = "うん、散歩に行こうよ。"
GOOD = f'{{"emotion":"happy","action":"nod","reply":"{REPLY}"}}'
CALL = ("search_memory", {"query": "散歩"})
WRITTEN_CALL = '{"tool":"search_memory","args":{"query":"散歩"}}'


@dataclass(frozen=True, slots=True)
class FaultCase:
    """`replies`: the endpoint's, one a call, the last repeats. `loudness`: of the recording, in tenths; None: typed."""

    name: str
    replies: tuple[Behaviour, ...] = (say(GOOD),)
    loudness: int | None = None
    outcome: str = "ok"
    reply: str | None = REPLY
    """None: whatever it is, there is one."""
    error: str | None = None
    sorry: Sorry | None = None
    """The apology that is to be heard, as a clip."""
    sound: bool = True
    retries: int = 0
    tools: int = 0
    """Calls of tools."""
    emotion: str = "happy"
    vanishes: bool = False
    """The client goes away as soon as it has asked."""

    @property
    def calls(self) -> int:
        """Calls of the model: one, one more a try and one more a round of tools, for words that were heard."""
        unheard = self.outcome == "no_speech" or self.sorry == "not_heard"
        return 0 if unheard else 1 + self.retries + self.tools


def speaking(words: str) -> tuple[Behaviour, ...]:
    return (say(f'{{"emotion":"happy","action":"nod","reply":"{words}"}}'),)


def sorry(name: str, *replies: Behaviour, error: str, kind: Sorry, retries: int = 0, tools: int = 0) -> FaultCase:
    return FaultCase(
        name,
        replies,
        outcome="failed",
        reply=None,
        error=error,
        sorry=kind,
        retries=retries,
        tools=tools,
        emotion="doubt",
    )


def unheard(name: str, loudness: int, error: str) -> FaultCase:
    return FaultCase(
        name, loudness=loudness, outcome="failed", reply=None, error=error, sorry="not_heard", emotion="doubt"
    )


def unsaid(name: str, loudness: int) -> FaultCase:
    return FaultCase(name, loudness=loudness, outcome="no_speech", reply="", sound=False, emotion="neutral")


def mute(name: str, word: str, error: str) -> FaultCase:
    words = f"{word}、だよ。"
    return FaultCase(name, speaking(words), reply=words, error=error, sound=False)


CASES: Sequence[FaultCase] = (
    FaultCase("nothing fails"),
    FaultCase("nothing fails, spoken", loudness=engines.HEARS),
    # the endpoint, once
    FaultCase("429 with a short wait", (fail(429, retry_after="0"), say(GOOD)), retries=1),
    FaultCase("503 once", (fail(503), say(GOOD)), retries=1),
    FaultCase("gateway's page once", (html(502), say(GOOD)), retries=1),
    FaultCase("reset before a byte", (reset(), say(GOOD)), retries=1),
    FaultCase("cut before words", (cut('{"emo'), say(GOOD)), retries=1),
    FaultCase("cut after the action", (cut('{"emotion":"sad","action":"nod",'), say(GOOD)), retries=1),
    FaultCase("cut in the first clause", (cut('{"emotion":"sad","action":"nod","reply":"う'), say(GOOD)), retries=1),
    FaultCase("empty once", (empty(), say(GOOD)), retries=1),
    FaultCase("never a byte, once", (never(), say(GOOD)), retries=1),
    FaultCase("slow to the first byte", (say(GOOD, first_byte_seconds=0.4),)),
    # the endpoint, for good
    sorry("429 with a long wait", fail(429, retry_after="30"), error="llm_rate_limited", kind="busy"),
    sorry("503 always", fail(503), error="llm_overloaded", kind="busy", retries=1),
    sorry("wrong key", fail(401), error="llm_unauthorized", kind="out_of_order"),
    sorry("cut after the action always", cut(GOOD[:34]), error="llm_cut", kind="not_thought", retries=1),
    sorry("cut in the first clause always", cut(GOOD[:44]), error="llm_cut", kind="not_thought", retries=1),
    sorry("never a byte", never(), error="llm_timeout", kind="not_thought", retries=1),
    sorry("empty always", empty(), error="llm_no_reply", kind="not_thought", retries=1),
    sorry(
        "too long",
        fail(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
        error="llm_context_overflow",
        kind="too_long",
    ),
    # answers that are no answer, or not the one asked for
    FaultCase("cut in the words", (cut(GOOD[:-4]),), reply="うん、散歩に行こう"),
    FaultCase("error in the words", (error_in_stream(GOOD[:-4]),), reply="うん、散歩に行こう"),
    FaultCase("garbage once", (garbage(), say(GOOD)), retries=1),
    FaultCase("thinking text", (think_then_say("行きたいらしい。", GOOD),)),
    FaultCase("thinking text, unopened", (think_then_say("行きたいらしい。", GOOD, how="unopened"),)),
    FaultCase("a code fence", (say(f"```json\n{GOOD}\n```"),)),
    FaultCase("plain prose", (say(REPLY),), emotion="neutral"),
    FaultCase("not streamed", (whole(GOOD),)),
    FaultCase("invalid JSON", (say("{'emotion': happy, 'reply': '" + REPLY + "'}"),), emotion="neutral"),
    FaultCase("no words once", (say('{"emotion":"happy","action":"nod"}'), say(GOOD)), retries=1),
    # tools
    FaultCase("a tool call", (call_tools(CALL), say(GOOD)), tools=1),
    FaultCase("a tool call in fragments", (call_tools_in_pieces(CALL), say(GOOD)), tools=1),
    FaultCase("a tool call as content", (say(WRITTEN_CALL), say(GOOD)), tools=1),
    sorry("tool calls for ever", say(WRITTEN_CALL), error="llm_no_reply", kind="not_thought", retries=1, tools=4),
    FaultCase("arguments that are no JSON", (call_tools(("search_memory", "{oops")), say(GOOD)), retries=1),
    # ears
    unheard("ears that raise", engines.RAISES, "asr_failed"),
    unheard("ears with a defect", engines.DEFECT, "asr_failed"),
    unheard("ears that hang", engines.HANGS, "asr_timeout"),
    unheard("ears that give garbage", engines.GIVES_NOTHING, "asr_failed"),
    unheard("no attention", engines.DEAF_VAD, "vad_failed"),
    unsaid("ears that loop", engines.LOOPS),
    unsaid("silence", 0),
    # the voice
    mute("a voice that raises", engines.HOARSE, "tts_failed"),
    mute("a voice with a defect", engines.DEFECTIVE, "tts_failed"),
    mute("a voice that hangs", engines.STUCK, "tts_timeout"),
    mute("a voice that gives garbage", engines.NOISE, "tts_failed"),
    mute("a voice that does not stop", engines.RUNAWAY, "tts_failed"),
    # the client
    FaultCase("a client that goes away", (say(GOOD, first_byte_seconds=0.2),), vanishes=True),
    FaultCase("a client that goes away, spoken", loudness=engines.HEARS, vanishes=True),
)
