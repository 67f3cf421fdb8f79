"""Labelled requests to forget, carried out by the tool as a model calls it: real SQLite, index folder and embedding."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.engines.base import EmbeddingEngine
from server.memory.asked import AskedMemory
from server.memory.asking import Asker
from server.memory.index.base import MemoryIndex
from server.memory.index.factory import open_index
from server.memory.indexer import index_point, memory_text
from server.memory.keeper import Keeper
from server.memory.nearness import stated
from server.memory.nouns import nouns
from server.memory.recall import Recall
from server.storage import memories, memory_browse, segments
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.ids import IdAllocator
from server.storage.memory_records import NewMemory
from server.storage.sessions import close_session, open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn
from tests.memory.making import MONDAY, PERSONA, TOKYO

DATA = Path(__file__).resolve().parents[1] / "data" / "forgetting"
CHANNEL = "stackchan:desk"


def scenarios(half: str) -> list[dict[str, Any]]:
    """`half`: development or held_out."""
    read: list[dict[str, Any]] = json.loads((DATA / f"{half}.json").read_text(encoding="utf-8"))
    return read


@dataclass
class Outcome:
    """What went wrong in one scenario, by the names of what it happened to."""

    unmentioned: list[str] = field(default_factory=list)
    """Meant, not forgotten, and neither asked about nor told as still remembered."""
    wrongly_forgotten: list[str] = field(default_factory=list)
    wrongly_kept: list[str] = field(default_factory=list)
    """Meant and certain by its label, but only asked about or told as still remembered."""
    wrong_answers: list[str] = field(default_factory=list)
    asked_needlessly: bool = False


class World:
    """A house with the memories of one scenario and its conversation in progress."""

    def __init__(
        self, databases: Databases, asked: AskedMemory, index: MemoryIndex, embedding: EmbeddingEngine
    ) -> None:
        self.databases = databases
        self.asked = asked
        self.at = MONDAY
        self.ids: dict[str, str] = {}
        self.turn_ids: list[int] = []
        self.session_id = ""
        self.speaker: str | None = None
        self._index = index
        self._embedding = embedding
        self._tools = {small: asked.tools(small=small)[2] for small in (True, False)}
        self._turns = IdAllocator(databases.server, "turn")
        self._sources = IdAllocator(databases.server, "source_turn")

    async def fill(self, scenario: Mapping[str, Any]) -> None:
        """Its memories, each made of an exchange of a talk that is over, and its last turns."""
        talk, session_id, language = None, "", scenario["language"]
        self.speaker = scenario.get("speaker")
        for one in scenario["memories"]:
            if one["talk"] != talk:
                talk, session_id = one["talk"], await self._session()
            turn_id, source = await self._say(session_id, one["says"], "うん。", language)
            self.ids[one["key"]] = await self._remember(session_id, turn_id, source, one, language)
        self.session_id = await self._session()
        for turn in scenario["turns"]:
            turn_id, _ = await self._say(self.session_id, turn["user"], turn["robot"], language, shown=turn["shown"])
            self.turn_ids.append(turn_id)
        self.at += dt.timedelta(seconds=20)

    async def ask(self, words: str, arguments: Mapping[str, Any], *, small: bool) -> Mapping[str, Any]:
        """One more turn, in which the model makes this call; the question is stored, as a turn does it."""
        turn_id = await self._turns.next_id()
        asker = Asker(PERSONA, self.speaker, self.session_id, turn_id, self.at, TOKYO, words)
        return dict(await self._tools[small].run(arguments, asker))

    async def gone(self) -> set[str]:
        """Names of memories, and places of turns, whose words are not there any more."""
        async with self.databases.world(write=False) as db:
            found = await memories.get_many(db, list(self.ids.values()))
            blank = [
                f"turn {place}"
                for place, turn_id in enumerate(self.turn_ids)
                if not any(one.text for one in await memory_browse.words_of_turns(db, [turn_id]))
            ]
        forgotten = {one.memory_id for one in found if one.status == "forgotten"}
        return {key for key, memory_id in self.ids.items() if memory_id in forgotten} | set(blank)

    async def _session(self) -> str:
        self.at += dt.timedelta(hours=3)
        async with self.databases.world() as db:
            await ensure_channel(db, CHANNEL, kind="stackchan", now=self.at)
            opened = await open_session(
                db, channel_id=CHANNEL, device_id="desk", now=self.at, idle_close=dt.timedelta(minutes=10)
            )
        return opened.session_id

    async def _say(
        self, session_id: str, words: str, answer: str, language: str, *, shown: Sequence[str] = ()
    ) -> tuple[int, int]:
        self.at += dt.timedelta(seconds=20)
        turn_id = await self._turns.next_id()
        source, robot = await self._sources.next_id(), await self._sources.next_id()
        spoken: dict[str, Any] = {"language": language, "said_at": self.at, "zone": "Asia/Tokyo"}
        async with self.databases.world() as db:
            await create_turn(
                db,
                turn_id=turn_id,
                session_id=session_id,
                channel_id=CHANNEL,
                device_id="desk",
                input_kind="audio",
                persona_id=PERSONA,
                started_at=self.at,
            )
            await add_user_turn(db, turn_id, source, text=words, speaker_id=None, **spoken)
            candidates = [{"memory_id": self.ids[key], "summary": ""} for key in shown]
            calls = [{"name": "search_memory", "arguments": {"query": words}, "result": {"candidates": candidates}}]
            robots = RobotWords(robot, answer, tool_calls=calls if shown else None, **spoken)
            await finish_turn(db, turn_id, outcome="ok", ended_at=self.at, robot=robots)
        return turn_id, source

    async def _remember(self, session_id: str, turn_id: int, source: int, one: Mapping[str, Any], language: str) -> str:
        says = one["says"]
        names = tuple(one.get("names") or nouns(says, self.at.astimezone(TOKYO).date()))
        memory_id = memories.new_memory_id()
        new = NewMemory(
            memory_id=memory_id,
            topic=("、" if language == "ja" else ", ").join(names[:3]) or says[:20],
            summary=says,
            entities=names,
            memory_type="episode",
            occurred_at=self.at - dt.timedelta(days=one.get("days_ago", 0)),
            zone="Asia/Tokyo",
            language=language,
            speakers=(one["speaker"],) if "speaker" in one else (),
            confidence="said",
            importance=3,
            persona_id=PERSONA,
            channel_id=CHANNEL,
            visibility="house",
            source_turn_ids=(source,),
        )
        async with self.databases.world() as db:
            await close_session(db, session_id, now=self.at)
            await segments.close_segment(db, session_id, [turn_id], "memories", now=self.at)
            await memories.add(db, new, now=self.at)
            memory = await memories.get(db, memory_id)
            assert memory is not None
            vector = (await self._embedding.embed_documents([memory_text(memory)]))[0]
            await self._index.upsert([index_point(memory, vector)])
            await memories.mark_indexed(db, memory_id, memory.revision)
        return memory_id


@asynccontextmanager
async def world(folder: Path, embedding: EmbeddingEngine, scenario: Mapping[str, Any]) -> AsyncIterator[World]:
    """The house of a scenario, in `folder`."""
    model = embedding.fingerprint
    async with await Databases.open(folder, "home") as databases:
        index = open_index("local", folder / "worlds" / "home" / "index", model.dimensions, model)
        await index.open()
        recall = Recall(lambda: databases.world(write=False), index, embedding, vectors_seconds=30.0)
        keeper = Keeper(databases, index, embedding, clock=lambda: MONDAY)
        asked = AskedMemory(databases, recall, keeper, near=stated(embedding))
        made = World(databases, asked, index, embedding)
        try:
            await made.fill(scenario)
            yield made
        finally:
            await index.close()


async def judged(folder: Path, embedding: EmbeddingEngine, scenario: Mapping[str, Any], query: str) -> Outcome:
    """Carry the request of a scenario out, and each answer in a house of its own."""
    found = Outcome()
    meant = {*scenario["gone"], *(f"turn {place}" for place in scenario["gone_turns"])}
    async with world(folder / "request", embedding, scenario) as house:
        result = await house.ask(scenario["request"], {"query": query}, small=True)
        gone = await house.gone()
        names = {memory_id: key for key, memory_id in house.ids.items()}
        asked = [names.get(one.get("memory_id"), f"turn {one.get('turn_id')}") for one in result.get("which", ())]
        left = [names.get(one.get("memory_id"), "?") for one in result.get("still_remembered", ())]
        found.unmentioned = sorted(meant - gone - set(asked) - set(left))
        if len(found.unmentioned) == result.get("more"):
            found.unmentioned = []
        found.wrongly_forgotten = sorted((set() if scenario["asks"] else gone) & set(scenario["stay"]))
        if scenario["asks"]:
            found.wrongly_forgotten += sorted(gone & set(names.values()))
            found.unmentioned += [] if asked else ["did not ask"]
        else:
            found.asked_needlessly = bool(asked)
            found.wrongly_kept = sorted(meant - gone)
        if gone and result["forgotten"] == 0:
            found.wrong_answers.append("says that nothing was forgotten")
    for place, answer in enumerate(scenario["answers"] if query == scenario["query"] else ()):
        for by_ids in (False, True) if place == 0 else (False,):
            if wrong := await _answered(
                folder / f"{place} {by_ids}", embedding, scenario, query, answer, by_ids=by_ids
            ):
                found.wrong_answers.append(f"{answer['words']}{' by ids' if by_ids else ''}: {wrong}")
    return found


async def _answered(
    folder: Path,
    embedding: EmbeddingEngine,
    scenario: Mapping[str, Any],
    query: str,
    answer: Mapping[str, Any],
    *,
    by_ids: bool,
) -> str:
    async with world(folder, embedding, scenario) as house:
        result = await house.ask(scenario["request"], {"query": query}, small=not by_ids)
        names = {memory_id: key for key, memory_id in house.ids.items()}
        offered = [names[one["memory_id"]] for one in result.get("which", ())]
        places = {f"#{place}": key for place, key in enumerate(offered, start=1)}
        wanted = {places.get(key, key) for key in answer["gone"]}
        if by_ids and not wanted:
            return ""
        arguments = {"memory_ids": [house.ids[key] for key in sorted(wanted)]} if by_ids else {"query": answer["query"]}
        told = await house.ask(answer["words"], arguments, small=not by_ids)
        gone = {key for key in await house.gone() if not key.startswith("turn")}
    if gone != wanted:
        return f"gone are {sorted(gone)}, not {sorted(wanted)}"
    return "" if (told["forgotten"] > 0) == bool(wanted) else f"it was told {told['forgotten']}"
