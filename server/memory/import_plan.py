"""What a whole import file holds, checked before anything is touched, and in which order it is written.

Knows lines and numbers; no database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from server.memory.transfer_lines import read_lines, refused
from server.storage.memory_import_records import ImportedChannel, ImportedMemory


@dataclass(frozen=True, slots=True)
class Place:
    """Where a memory stands in the file. `exchanges`: how many it brings."""

    number: int
    start: int
    exchanges: int


@dataclass
class ImportPlan:
    """What the whole file holds, by its own numbers."""

    channels: list[ImportedChannel] = field(default_factory=list)
    memories: dict[str, Place] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    """{older: newer}"""
    turns: dict[int, str] = field(default_factory=dict)
    sources: dict[int, tuple[int, str]] = field(default_factory=dict)

    def in_order(self) -> list[Place]:
        """Newer versions before older ones, which name them; else as in the file."""
        depths: dict[str, int] = {}
        for start in self.memories:
            chain = [start]
            while chain[-1] not in depths and (newer := self.versions.get(chain[-1])) in self.memories:
                chain.append(newer)
            deepest = depths.setdefault(chain[-1], 0)
            for above, memory_id in enumerate(reversed(chain[:-1]), start=1):
                depths[memory_id] = deepest + above
        return [self.memories[one] for one in sorted(self.memories, key=lambda one: depths[one])]

    def add(self, number: int, start: int, memory: ImportedMemory) -> None:
        """Raises `RequestError` for what cannot stand beside an earlier line."""
        if memory.memory_id in self.memories:
            first = self.memories[memory.memory_id].number
            raise refused(number, f"{memory.memory_id} stands in line {first} already", "import_duplicate")
        self.memories[memory.memory_id] = Place(number, start, len(memory.turns))
        if memory.superseded_by is not None:
            self.versions[memory.memory_id] = memory.superseded_by
        for turn in memory.turns:
            if self.turns.setdefault(turn.turn_id, turn.session_id) != turn.session_id:
                raise refused(number, f"turn {turn.turn_id} is of another session before", "import_line_invalid")
            for said in turn.said:
                whose = (turn.turn_id, said.role)
                if self.sources.setdefault(said.source_turn_id, whose) != whose:
                    what = f"source turn {said.source_turn_id} is of another turn before"
                    raise refused(number, what, "import_line_invalid")

    def check(self) -> None:
        """Raises `RequestError` when memories have replaced each other in a circle."""
        ends: set[str] = set()
        for start in self.versions:
            walked: dict[str, None] = {}
            here: str | None = start
            while here is not None and here not in ends:
                if here in walked:
                    raise refused(self.memories[here].number, f"{here} has replaced itself", "import_line_invalid")
                walked[here] = None
                here = self.versions.get(here)
            ends |= walked.keys()


def read_plan(file: BinaryIO) -> ImportPlan:
    """Read and check all of a file. Blocks. Raises `RequestError` that names the line."""
    file.seek(0)
    plan = ImportPlan()
    for number, start, read in read_lines(file):
        if isinstance(read, ImportedMemory):
            plan.add(number, start, read)
        else:
            plan.channels.append(read)
    plan.check()
    return plan
