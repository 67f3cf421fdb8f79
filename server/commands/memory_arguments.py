"""`stackchan memory …`: what can be typed and its help. What it does is in `memory.py`, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from server.commands.terminal import open_terminal

_CONTEXT = {"help_option_names": ["-h", "--help"]}

memory_app = typer.Typer(
    help="What the robot remembers: find it, read it, change it, forget it. / 記憶を見る・直す・忘れる。",
    no_args_is_help=True,
    context_settings=_CONTEXT,
)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Folder of settings and memory. [dim](STACKCHAN_DATA_DIR)[/]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for programs.")]
MemoryId = Annotated[str, typer.Argument(metavar="ID", help="As `memory search` shows it: mem_…")]
MemoryKind = Literal["episode", "preference", "decision", "fact"]


@memory_app.command("status")
def memory_status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """How much is remembered, what waits, what failed, and how the index is. / 記憶の状態。"""
    from server.commands.memory import MemoryOptions, show_memory_status

    raise typer.Exit(show_memory_status(MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("search")
def memory_search(
    query: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY", help="What to look for; nothing: the newest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="At most so many.")] = 10,
    after: Annotated[str | None, typer.Option(metavar="MARK", help="The next page of a list without a query.")] = None,
    status: Annotated[
        Literal["active", "superseded", "forgotten", "all"] | None,
        typer.Option(help="Which versions. [dim](active)[/]"),
    ] = None,
    memory_type: Annotated[MemoryKind | None, typer.Option("--type", help="Only this kind.")] = None,
    entity: Annotated[str | None, typer.Option(metavar="NAME", help="Only with this name in it.")] = None,
    date_from: Annotated[str | None, typer.Option("--from", metavar="DAY", help="From this day: 2026-11-30.")] = None,
    date_to: Annotated[str | None, typer.Option("--to", metavar="DAY", help="Until this day.")] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this person may find.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Find memories by meaning and words, best first. / 記憶を探します。

    Where no server runs it searches the data folder itself, and by words
    alone when the embedding model is not on this machine.

    Examples:

      stackchan memory search "パソコンはいくらだった"
      stackchan memory search --from 2026-11-01 --type preference
    """
    from server.commands.memory import MemoryOptions, Search, search_memories

    search = Search(
        query=" ".join(query or ()),
        limit=limit,
        after=after,
        status=status,
        memory_type=memory_type,
        entity=entity,
        date_from=date_from,
        date_to=date_to,
        speaker=speaker,
    )
    raise typer.Exit(search_memories(search, MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("show")
def memory_show(memory_id: MemoryId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """One memory, the exact words it comes from, and its older and newer versions. / 記憶を一つ見ます。"""
    from server.commands.memory import MemoryOptions, read_memory

    raise typer.Exit(read_memory(memory_id, MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("edit")
def memory_edit(
    memory_id: MemoryId,
    topic: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is about.")] = None,
    summary: Annotated[str | None, typer.Option(metavar="TEXT", help="What is remembered.")] = None,
    entity: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="All names in it, each with one --entity.")
    ] = None,
    no_entities: Annotated[bool, typer.Option("--no-entities", help="No names at all.")] = False,
    memory_type: Annotated[MemoryKind | None, typer.Option("--type", help="Its kind.")] = None,
    importance: Annotated[int | None, typer.Option(min=1, max=5, help="1, a detail, to 5.")] = None,
    occurred_at: Annotated[
        str | None, typer.Option(metavar="WHEN", help="When it happened, there: 2026-11-30 or 2026-11-30T18:30.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Put a memory right by hand; what is not named stays. / 記憶を直します。

    Example:

      stackchan memory edit mem_01J… --summary "富士通のPCを25,000円で買った。"
    """
    from server.commands.failures import UsageFailure
    from server.commands.memory import Edit, MemoryOptions, edit_memory

    if entity and no_entities:
        raise UsageFailure("Give --entity, or --no-entities, not both.")
    entities = () if no_entities else tuple(entity) if entity else None
    edit = Edit(topic, summary, entities, memory_type, importance, occurred_at)
    raise typer.Exit(edit_memory(memory_id, edit, MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("forget")
def memory_forget(
    memory_id: MemoryId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep_words: Annotated[
        bool,
        typer.Option(
            "--keep-words", help="Leave what was said in the log; only what another memory tells, too, finds it."
        ),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Forget for good: the memory, its older versions, and what was said. / 記憶を忘れさせます。

    It shows what goes, and asks. No backup, import or rebuild brings it
    back. Exit code 1 when the answer is no.
    """
    from server.commands.memory import MemoryOptions, forget_memory

    options = MemoryOptions(data_dir, as_json)
    raise typer.Exit(forget_memory(memory_id, options, open_terminal(), yes=yes, keep_words=keep_words))


@memory_app.command("export")
def memory_export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to: JSON Lines.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """All memories with the words they come from, as a file to read or to import elsewhere. / 書き出します。"""
    from server.commands.memory import MemoryOptions, export_memories

    raise typer.Exit(export_memories(file, MemoryOptions(data_dir, as_json), open_terminal(), force=force))


@memory_app.command("import")
def memory_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `memory export` wrote.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Take in an exported file: all or nothing, nothing twice, nothing that was forgotten. / 取り込みます。"""
    from server.commands.memory import MemoryOptions, import_memories

    raise typer.Exit(import_memories(file, MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("rebuild")
def memory_rebuild(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Make the whole index anew, as after another embedding model. / 索引を作り直します。

    Words find everything meanwhile. Broken off, it can be begun again.
    """
    from server.commands.memory import MemoryOptions, rebuild_index

    raise typer.Exit(rebuild_index(MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("retry")
def memory_retry(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Queue again what was given up after five attempts (see `memory status`). / もう一度試します。"""
    from server.commands.memory import MemoryOptions, retry_parked

    raise typer.Exit(retry_parked(MemoryOptions(data_dir, as_json), open_terminal()))


@memory_app.command("audit")
def memory_audit(
    sample: Annotated[int, typer.Option(min=1, max=200, help="How many of each.")] = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """A sample of your own log: what was kept and what was left out, in the exact words. / 記憶の抜き取り検査。

    To see for yourself whether small talk is left out and what matters is
    remembered.
    """
    from server.commands.memory import MemoryOptions, audit_memories

    raise typer.Exit(audit_memories(sample, MemoryOptions(data_dir, as_json), open_terminal()))
