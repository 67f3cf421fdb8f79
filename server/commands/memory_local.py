"""Long-term memory where no server runs: the data folder is held, and its parts are put together in this process.

The same answers as from a server, from the same functions (`memory/owner.py`); no worker runs, so what is queued waits
for the next start. Knows no HTTP and draws nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from zoneinfo import ZoneInfo

from server import __version__
from server.commands.memory_remote import Answer, Progress, Wanted
from server.commands.terminal import Terminal, own_command
from server.config import Settings
from server.engines.base import EmbeddingEngine, EmbeddingFingerprint
from server.errors import EmbeddingError, EngineError, ModelError, StackChanError
from server.events import Samples
from server.persona import Persona, find_persona, load_persona
from server.run_file import hold_data_dir

if TYPE_CHECKING:
    from server.memory.index.base import MemoryIndex
    from server.memory.owner import MemoryOwner
    from server.memory.owner import Wanted as Asked
    from server.storage.memory_records import Forgetting

Meaning = Literal["needed", "wanted", "unused"]
"""The embedding model: loaded or an error, loaded if it is here, or not loaded."""
Result = TypeVar("Result")


class LocalMemory:
    """The memory of the settings' world, open from `__enter__` on. `makes`: a folder without one gets one."""

    def __init__(self, settings: Settings, terminal: Terminal, *, meaning: Meaning, makes: bool) -> None:
        self._settings = settings
        self._terminal = terminal
        self._meaning = meaning
        self._makes = makes
        self._held = ExitStack()
        self._opened = AsyncExitStack()
        self._parts: _Parts

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if not self._makes:
                require_memory(self._settings)
            stack.enter_context(_told(self._terminal))
            stack.enter_context(hold_data_dir(self._settings.data_dir))
            self._runner = stack.enter_context(asyncio.Runner())
            stack.callback(lambda: self._runner.run(self._opened.aclose()))
            with self._terminal.waiting("Opening the memory…"):
                self._parts = self._runner.run(_open(self._settings, self._terminal, self._meaning, self._opened))
            self._held = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def status(self) -> Answer:
        return self._run(self._parts.owner.status())

    def find(self, wanted: Wanted) -> Answer:
        from server.memory.owner import Wanted as Asked

        return self._run(self._parts.owner.find(_asked(Asked, wanted)))

    def read(self, memory_id: str) -> Answer:
        return self._run(self._parts.owner.show(memory_id))

    def edit(self, memory_id: str, changes: Mapping[str, Any]) -> Answer:
        from server.storage.memory_records import MemoryChanges

        values = dict(changes)
        if "entities" in values:
            values["entities"] = tuple(values["entities"])
        if "occurred_at" in values:
            values["occurred_at"] = datetime.fromisoformat(values["occurred_at"])
        return self._run(self._parts.owner.edit(memory_id, MemoryChanges(**values)))

    def would_forget(self, memory_id: str, *, also_source: bool) -> Answer:
        return self._run(self._parts.owner.would_forget(memory_id, also_source=also_source))

    def forget(self, memory_id: str, *, also_source: bool) -> Answer:
        """As the server does; the file is scrubbed at once, since no worker follows."""

        async def forget() -> Answer:
            answer = await self._parts.owner.forget(memory_id, also_source=also_source)
            await self._parts.owner.databases.scrub_world()
            return answer

        return self._run(forget())

    @contextmanager
    def export(self) -> Iterator[Iterator[bytes]]:
        from server.memory.transfer import export_lines

        lines = export_lines(self._parts.owner.databases, now=_now(), server_version=__version__)
        yield self._pieces(lines)

    def import_lines(self, lines: bytes) -> Answer:
        async def pieces() -> AsyncIterator[bytes]:
            yield lines

        return self._run(self._parts.owner.imports.take_in(pieces()))

    def rebuild(self, progress: Progress) -> Answer:
        count = self._run(self._parts.rebuild(progress))
        return {"state": "done", "done": count, "total": count, "error": None}

    def retry(self) -> Answer:
        return self._run(self._parts.owner.retry())

    def audit(self, sample: int) -> Answer:
        from server.memory.audit import audit

        return self._run(audit(self._parts.owner.databases, sample=sample))

    def _pieces(self, pieces: AsyncIterator[bytes]) -> Iterator[bytes]:
        async def following() -> bytes | None:
            return await anext(pieces, None)

        while (piece := self._run(following())) is not None:
            yield piece

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)


def require_memory(settings: Settings) -> None:
    """Nothing is made where only something is to be looked at. Raises `StackChanError` (`memory_missing`)."""
    from server.storage.database import SESSION_DATABASE, WORLDS

    folder = settings.data_dir / WORLDS / settings.world
    if not (folder / SESSION_DATABASE).is_file():
        raise StackChanError(
            f"There is no memory in {folder} yet. / まだ記憶がありません。",
            code="memory_missing",
            hint=f"Talk to the robot first ({own_command()} serve), or name another folder with --data-dir. "
            "/ 先にロボットと話すか、--data-dir で別のフォルダーを指定してください。",
        )


@dataclass(frozen=True, slots=True)
class _Parts:
    owner: MemoryOwner
    rebuild: Callable[[Progress], Coroutine[Any, Any, int]]


async def _open(settings: Settings, terminal: Terminal, meaning: Meaning, stack: AsyncExitStack) -> _Parts:
    from server.memory.index_access import IndexAccess
    from server.memory.indexer import Indexer
    from server.memory.keeper import Keeper
    from server.memory.owner import MemoryOwner
    from server.memory.recall import Recall
    from server.storage.database import Databases

    persona = load_persona(find_persona(settings.data_dir, settings.persona_path))
    databases = await Databases.open(settings.data_dir, settings.world)
    stack.push_async_callback(databases.close)
    embedding = await _embedding(settings, persona, terminal, meaning, stack)
    missing = embedding.error if isinstance(embedding, NoEmbedding) else None

    async def forget_old_indexes(_: Forgetting) -> None:
        await access.forget_old()

    copies = (_remove_recordings(settings), forget_old_indexes)
    keeper = Keeper(databases, None, embedding, clock=_now, on_forgotten=copies)
    indexer = Indexer(databases, None, embedding, clock=_now)
    recall = Recall(partial(databases.world, write=False), None, embedding)

    def use(index: MemoryIndex | None) -> None:
        keeper.index = indexer.index = index
        recall.index = index if meaning == "wanted" else None

    folder = _index_folder(settings)
    access = IndexAccess(lambda: _closed_index(settings, embedding.fingerprint), indexer, use, folder)
    stack.push_async_callback(access.close)
    # A rebuild opens it by itself, whatever is in it.
    if missing is None and meaning != "needed":
        await access.open()
    await keeper.reapply()
    owner = MemoryOwner(
        databases,
        keeper,
        indexer,
        recall,
        embedding.fingerprint,
        persona_id=persona.persona_id,
        clock=_now,
        zone=ZoneInfo(persona.zone),
        index_kind=settings.memory.index_kind,
        index_folder=None if settings.memory.index_kind == "server" else folder,
        index_problem=lambda: missing or access.problem,
    )
    stack.push_async_callback(owner.close)
    await owner.imports.go_on()
    return _Parts(owner, access.rebuild)


def _index_folder(settings: Settings) -> Path:
    from server.storage.database import WORLDS

    return settings.data_dir / WORLDS / settings.world / "index"


def _closed_index(settings: Settings, fingerprint: EmbeddingFingerprint) -> MemoryIndex:
    from server.memory.index.factory import open_index

    memory = settings.memory
    key = memory.index_api_key.get_secret_value() if memory.index_api_key else None
    folder = _index_folder(settings)
    return open_index(memory.index_kind, folder, fingerprint.dimensions, fingerprint, memory.index_url, key)


async def _embedding(
    settings: Settings, persona: Persona, terminal: Terminal, meaning: Meaning, stack: AsyncExitStack
) -> EmbeddingEngine:
    from server.engines.registry import find_engine

    try:
        engine: EmbeddingEngine = find_engine(settings, "embedding").build(settings, persona)
        if meaning != "unused":
            stack.push_async_callback(engine.close)
            await engine.start()
    except (EngineError, ModelError) as error:
        if meaning == "needed":
            raise
        if meaning == "wanted":
            terminal.note(f"{error.message} Words alone are searched. / 言葉だけで検索します。", style="yellow")
        return NoEmbedding(error)
    return engine


def _remove_recordings(settings: Settings) -> Callable[[Forgetting], Coroutine[Any, Any, None]]:
    from server.storage.failed_audio import FailedAudioStore
    from server.storage.speech import SpeechStore

    speech = SpeechStore(settings.data_dir / "speech", settings.speech.keep_minutes * 60)
    failed_audio = FailedAudioStore(settings.data_dir / "failed-audio")

    async def remove(reached: Forgetting) -> None:
        await speech.remove(reached.turn_ids)
        await failed_audio.remove(reached.turn_ids)

    return remove


class NoEmbedding:
    """Stands where there is no embedding model: whatever needs one fails with the reason."""

    name = "none"
    fingerprint = EmbeddingFingerprint(model="none", dimensions=0)

    def __init__(self, error: EngineError | ModelError) -> None:
        self.error = error

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        raise EmbeddingError(self.error.message, code=self.error.code, hint=self.error.hint)

    embed_documents = embed_queries


def _asked(asked: type[Asked], wanted: Wanted) -> Asked:
    """What the server makes of a request's query."""
    values: dict[str, Any] = {"memory_type" if name == "type" else name: value for name, value in wanted.items()}
    for name in ("date_from", "date_to"):
        if name in values:
            values[name] = date.fromisoformat(values[name])
    return asked(**values)


@contextmanager
def _told(terminal: Terminal) -> Iterator[None]:
    """What the parts warn of, as a note of this command."""
    handler = _Notes(terminal)
    logger = logging.getLogger("server")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Notes(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        self._terminal.note(record.getMessage(), style="yellow")


def _now() -> datetime:
    return datetime.now(UTC)
