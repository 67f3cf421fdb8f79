"""What the results of a turn's tools mean to those who look on: the trace, the answer, the figures and the log.

The one place that knows how a failed tool is told, and where a result names memories. Runs no tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

SEARCH = "search_memory"
READ_SOURCE = "read_memory_source"
FORGET = "forget_memory"
DEEDS = frozenset({"set_timer", "list_timers", "cancel_timer", "set_volume", "mute_microphone"})
"""Tools of timers and of the robot's body: what a small model says of them is made of their results."""
LOOK_UPS = frozenset({SEARCH, READ_SOURCE})
MEMORY_TOOLS = frozenset({SEARCH, READ_SOURCE, FORGET})
"""Tools that only look something up: nothing is half done when one is given up."""


def is_error(result: object) -> bool:
    """Whether a tool's result says that the tool could not do its work."""
    return isinstance(result, Mapping) and "error" in result


_IDS = frozenset({"memory_id", "memory_ids", "source_turn_id", "source_turn_ids", "by"})


def texts_in(result: object) -> Iterator[str]:
    """All that a result tells, words and days: its texts but ids, of which digits are no numbers."""
    if isinstance(result, str):
        yield result
    elif isinstance(result, Mapping):
        for key, inner in result.items():
            if key not in _IDS:
                yield from texts_in(inner)
    elif isinstance(result, list | tuple):
        for inner in result:
            yield from texts_in(inner)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What long-term memory did in a turn. `memory_ids`: of the memories the model was shown, each once, in order."""

    searched: bool
    memory_ids: tuple[str, ...]
    source_checked: bool
    """The words that a memory came from were read."""


_LISTS = ("candidates", "which")


def memory_use(runs: Iterable[tuple[str, object]]) -> MemoryUse:
    """`runs`: name and result of each call, in order. A result of another form than expected counts as nothing."""
    searched = source_checked = False
    memory_ids: dict[str, None] = {}
    for name, result in runs:
        searched = searched or name == SEARCH
        if is_error(result) or not isinstance(result, Mapping):
            continue
        source_checked = source_checked or (name == READ_SOURCE and result.get("source_checked") is True)
        for key in _LISTS if name in (SEARCH, FORGET) else ():
            memories = result.get(key)
            for memory in memories if isinstance(memories, list | tuple) else ():
                memory_id = memory.get("memory_id") if isinstance(memory, Mapping) else None
                if isinstance(memory_id, str) and memory_id:
                    memory_ids[memory_id] = None
    return MemoryUse(searched, tuple(memory_ids), source_checked)
