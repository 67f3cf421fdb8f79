"""`stackchan models`: what model files there are, pull them, prove them.

Draws what `server.engines.downloads` does and finds. Knows no sources, hashes or formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from server.commands.failures import ExitCode, UsageFailure
from server.commands.progress import download_progress
from server.commands.terminal import Terminal, own_command
from server.config import Settings, load_settings

if TYPE_CHECKING:
    from server.engines.catalogue import Catalogue
    from server.engines.downloads import FileState

_STATE_STYLES = {
    "ok": "green",
    "unverified": "yellow",
    "missing": "red",
    "wrong": "bold red",
    "installed": "green",
    "not installed": "red",
}
_COLUMNS_BY_WIDTH = ((150, 7), (120, 6), (0, 5))
"""How many columns of the list fit: (terminal width from, columns), widest first."""
_WORST_FIRST = ("wrong", "missing", "unverified", "ok")


def list_models(data_dir: Path | None, terminal: Terminal) -> ExitCode:
    """A table of every model: what it is for, its size, whether it is here, whether this profile needs it."""
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue
    from server.engines.model_files import human_size

    settings = load_settings(data_dir=data_dir)
    catalogue = load_catalogue()
    needed = needed_model_ids(settings, catalogue)
    columns: tuple[str, ...] = ("Model", "Kind", "Size", "State", "Needed", "What it is", "Licence")
    columns = columns[: next(count for width, count in _COLUMNS_BY_WIDTH if terminal.out.width >= width)]
    table = _table(columns)
    for entry in catalogue:
        state = model_state(downloads.status(settings.model_dir, [entry.id]))
        size, mark = human_size(entry.size_bytes), "yes" if entry.id in needed else ""
        row = (entry.id, entry.kind, size, _state(state), mark, entry.title, entry.licence)
        table.add_row(*row[: len(columns)])
    for bundled in catalogue.bundled:
        state = "installed" if bundled.installed_version() else "not installed"
        mark = "yes" if settings.profile in bundled.profiles else ""
        row = (bundled.id, bundled.kind, "in a package", _state(state), mark, bundled.title, bundled.licence)
        table.add_row(*row[: len(columns)])
    terminal.out.print(table)
    terminal.say(f"Folder: {settings.model_dir}   Profile: {settings.profile}")
    missing = [model for model in needed if model_state(downloads.status(settings.model_dir, [model])) != "ok"]
    if missing:
        terminal.say(f"Next: {own_command()} models pull", style="yellow")
    return ExitCode.OK


def pull_models(ids: Sequence[str], pull_all: bool, data_dir: Path | None, terminal: Terminal) -> ExitCode:
    """Bring models here; without ids those that the profile needs. Raises `ModelError`."""
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue

    if ids and pull_all:
        raise UsageFailure("Give ids, or --all, not both.")
    settings = load_settings(data_dir=data_dir)
    catalogue = load_catalogue()
    wanted = list(ids) or ([entry.id for entry in catalogue] if pull_all else needed_model_ids(settings, catalogue))
    if not wanted:
        terminal.say(f"Profile {settings.profile} needs no model files.")
        return ExitCode.OK
    with download_progress(terminal) as progress:
        states = downloads.pull(wanted, settings.model_dir, progress)
    terminal.say(f"{len(wanted)} {_plural(len(wanted))} ready in {settings.model_dir}", style="green")
    return ExitCode.OK if all(state.state == "ok" for state in states) else ExitCode.FAILED


def verify_models(ids: Sequence[str], data_dir: Path | None, terminal: Terminal) -> ExitCode:
    """Hash models again; without ids those that the profile needs. `FAILED` when one is missing or wrong."""
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue
    from server.engines.model_files import human_size

    settings = load_settings(data_dir=data_dir)
    wanted = list(ids) or needed_model_ids(settings, load_catalogue())
    with download_progress(terminal) as progress:
        states = downloads.verify(settings.model_dir, wanted, progress)
    table = _table(("Model", "File", "Size", "State"))
    for state in states:
        table.add_row(state.model_id, state.name, human_size(state.size_bytes), _state(state.state))
    terminal.out.print(table)
    bad = sorted({state.model_id for state in states if state.state != "ok"})
    if not bad:
        return ExitCode.OK
    terminal.say(f"Next: {own_command()} models pull {' '.join(bad)}", style="yellow")
    return ExitCode.FAILED


def show_model_path(data_dir: Path | None, terminal: Terminal) -> ExitCode:
    """The model folder, alone on a line, for scripts."""
    terminal.say(str(load_settings(data_dir=data_dir).model_dir))
    return ExitCode.OK


def needed_model_ids(settings: Settings, catalogue: Catalogue) -> list[str]:
    """The catalogue's models that these settings use: the profile's, with those chosen by `asr.model`, `llm.model`.

    With an endpoint as the language model none is needed for thinking.
    """
    from server.engines.registry import engine_names

    thinks_here = engine_names(settings)["llm"] != "openai"
    chosen = {"asr": settings.asr.model, "llm": settings.llm.model}
    known = {entry.id: entry for entry in catalogue}
    needed = []
    for entry in catalogue.for_profile(settings.profile):
        if entry.kind == "llm" and not thinks_here:
            continue
        model = chosen.get(entry.kind) or entry.id
        # A path in place of an id is the owner's own file: nothing to pull.
        if model in known and model not in needed:
            needed.append(model)
    return needed


def model_state(states: Sequence[FileState]) -> str:
    """A model is as good as its worst file."""
    found = {state.state for state in states}
    return next(state for state in _WORST_FIRST if state in found)


def _state(state: str) -> Text:
    return Text(state, style=_STATE_STYLES[state])


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(
            heading, justify="right" if heading == "Size" else "left", no_wrap=heading in ("Model", "Size")
        )
    return table


def _plural(count: int) -> str:
    return "model is" if count == 1 else "models are"
