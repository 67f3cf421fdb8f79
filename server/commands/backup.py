"""`stackchan backup` and `stackchan restore`: everything that is remembered, into one file and back.

A running server sends the copy itself; without one the data folder is held and copied here. Putting back is for a
folder that no server uses. What is in a backup is the matter of `storage/backup.py` and `storage/restoring.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server import __version__
from server.commands.asking import agreed
from server.commands.client import ServerClient, find_target
from server.commands.failures import ExitCode, UsageFailure
from server.commands.memory_local import require_memory
from server.commands.memory_remote import RemoteMemory
from server.commands.saved_files import require_free, save
from server.commands.terminal import Terminal, own_command
from server.commands.work_progress import MEGABYTES, work_progress
from server.config import Settings, load_settings
from server.errors import StorageError
from server.persona import own_persona
from server.run_file import hold_data_dir, read_run_file

if TYPE_CHECKING:
    from server.storage.backup import Manifest
    from server.storage.restoring import Restored


def save_backup(target: Path, data_dir: Path | None, terminal: Terminal, *, force: bool, as_json: bool) -> ExitCode:
    """One file with everything; whole or not at all. Raises `UsageFailure` when it is there, `StackChanError`."""
    require_free(target, force=force)
    settings = load_settings(data_dir=data_dir)
    with (
        work_progress(terminal, "Backing up / バックアップ中", MEGABYTES) as advance,
        _archive(settings, terminal) as pieces,
    ):
        size = save(target, pieces, force=force, on_bytes=lambda done: advance(done, None))
    if as_json:
        terminal.say_json({"file": str(target), "bytes": size})
        return ExitCode.OK
    terminal.say(f"Everything is in {target} ({size / 1e6:,.1f} MB). / バックアップしました。", style="green")
    terminal.note("It holds what was said, in plain text: keep it where only you can read it.")
    terminal.note("会話の内容がそのまま入っています。人に見られない場所に置いてください。")
    terminal.note(f"To put it back: {own_command()} restore {target}", style="dim")
    return ExitCode.OK


def restore_backup(source: Path, data_dir: Path | None, terminal: Terminal, *, yes: bool, as_json: bool) -> ExitCode:
    """Put a backup in place of what is there, which is moved aside; `FAILED` when the answer is no.

    Nobody is asked about a file that cannot be restored. Raises `StorageError`, `UsageFailure`.
    """
    if not source.is_file():
        raise UsageFailure(f"There is no file {source}.")
    settings = load_settings(data_dir=data_dir)
    _refuse_running(settings)
    with hold_data_dir(settings.data_dir), ExitStack() as waiting:
        waiting.enter_context(terminal.waiting("Checking the backup…"))

        def asked(backup: Manifest) -> bool:
            waiting.close()
            made_at = _local(backup.made_at)
            terminal.note(f"It is whole: made {made_at} by version {backup.server}. / {made_at} のバックアップです。")
            terminal.note(f"This puts {source} in place of the memory in {settings.data_dir};")
            terminal.note("what is there now is moved aside. / 今の記憶は別の場所に移し、バックアップから戻します。")
            return agreed(terminal, "Restore it? / 戻しますか", yes=yes)

        restored = asyncio.run(_restore(source, settings, asked))
    if restored is None:
        terminal.note("Nothing was changed. / 何も変えていません。")
        return ExitCode.FAILED
    if as_json:
        terminal.say_json(_as_json(restored))
    else:
        _show(restored, terminal)
    return ExitCode.OK


@contextmanager
def _archive(settings: Settings, terminal: Terminal) -> Iterator[Iterator[bytes]]:
    if read_run_file(settings.data_dir) is not None:
        client = ServerClient(find_target(settings.data_dir), on_wait=lambda reason: terminal.note(reason, style="dim"))
        with RemoteMemory(client) as memory, memory.backup() as pieces:
            yield pieces
        return
    from server.storage.backup import clear_leftovers, make_archive

    require_memory(settings)
    with hold_data_dir(settings.data_dir), asyncio.Runner() as runner:
        clear_leftovers(settings.data_dir)
        persona = own_persona(settings.data_dir, settings.persona_path)
        held = AsyncExitStack()
        copying = make_archive(
            settings.data_dir, persona_path=persona, server_version=__version__, now=datetime.now(UTC)
        )
        try:
            with terminal.waiting("Copying…"):
                archive = runner.run(held.enter_async_context(copying))
            coming = archive.pieces()

            async def next_piece() -> bytes | None:
                return await anext(coming, None)

            yield iter(lambda: runner.run(next_piece()), None)
        finally:
            runner.run(held.aclose())


async def _restore(source: Path, settings: Settings, asked: Callable[[Manifest], bool]) -> Restored | None:
    from server.storage.restoring import restore

    return await restore(source, settings.data_dir, now=datetime.now(UTC), agreed=asked)


def _refuse_running(settings: Settings) -> None:
    run = read_run_file(settings.data_dir)
    if run is not None:
        raise StorageError(
            f"A server runs on {settings.data_dir} (process {run.pid} at {run.url}).",
            code="data_in_use",
            hint=f"Stop it first: kill {run.pid}",
        )


def _as_json(restored: Restored) -> dict[str, Any]:
    return {
        "made_at": restored.made_at.isoformat(),
        "server": restored.server,
        "worlds": list(restored.worlds),
        "moved_to": None if restored.moved_to is None else str(restored.moved_to),
        "forgotten_memories": restored.forgotten_memories,
        "blanked_source_turns": restored.blanked_source_turns,
    }


def _local(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _show(restored: Restored, terminal: Terminal) -> None:
    terminal.say(
        f"Restored as of {_local(restored.made_at)}: {', '.join(restored.worlds)}. / 戻しました。", style="green"
    )
    if restored.moved_to is not None:
        terminal.say(f"What was there is in {restored.moved_to}; remove it when you do not miss anything.")
    if restored.forgotten_memories or restored.blanked_source_turns:
        terminal.say(
            f"Forgotten stays forgotten: {restored.forgotten_memories} memories and {restored.blanked_source_turns} "
            "utterances (yours and the robot's) did not come back. / 忘れたものは戻っていません。"
        )
    terminal.note(f"The index is made anew when the server starts, or now: {own_command()} memory rebuild", style="dim")
