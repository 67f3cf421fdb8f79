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
from server.errors import ModelError

if TYPE_CHECKING:
    from server.engines.catalogue import Catalogue
    from server.engines.downloads import FileState
    from server.engines.hub_gguf import HubGguf

_STATE_STYLES = {
    "ok": "green",
    "here": "green",
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
    hub = hub_model_states(settings)
    for model, state in hub.items():
        table.add_row(*(model, "", "on the hub", _state(state), "yes", "", "")[: len(columns)])
    terminal.out.print(table)
    terminal.say(f"Folder: {settings.model_dir}   Profile: {settings.profile}")
    missing = [model for model in needed if model_state(downloads.status(settings.model_dir, [model])) != "ok"]
    if missing or "missing" in hub.values():
        terminal.say(f"Next: {own_command()} models pull", style="yellow")
    return ExitCode.OK


def pull_models(ids: Sequence[str], pull_all: bool, data_dir: Path | None, terminal: Terminal) -> ExitCode:
    """Bring models here, by catalogue or hub id; without ids those that the settings need. Raises `ModelError`."""
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue
    from server.engines.hub_gguf import pull_gguf
    from server.engines.hub_models import pull_hub_model

    if ids and pull_all:
        raise UsageFailure("Give ids, or --all, not both.")
    settings = load_settings(data_dir=data_dir)
    catalogue = load_catalogue()
    wanted = list(ids) or ([entry.id for entry in catalogue] if pull_all else needed_model_ids(settings, catalogue))
    from_hub = [model for model in wanted if "/" in model] if ids else [] if pull_all else _needed_hub_models(settings)
    wanted = [model for model in wanted if "/" not in model]
    if not wanted and not from_hub:
        terminal.say(f"Profile {settings.profile} needs no model files.")
        return ExitCode.OK
    states: list[FileState] = []
    if wanted:
        with download_progress(terminal) as progress:
            states = downloads.pull(wanted, settings.model_dir, progress)
        terminal.say(f"{len(wanted)} {_plural(len(wanted))} ready in {settings.model_dir}", style="green")
    for model in from_hub:
        terminal.note(f"Fetching {model} from the model hub…")
        gguf = _gguf(settings, model)
        if gguf is None:
            folder = pull_hub_model(model)
        else:
            with download_progress(terminal) as progress:
                folder = pull_gguf(settings.model_dir, gguf, progress).parent
        terminal.say(f"{model} is ready in {folder}", style="green")
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

    With another engine, or another server, for hearing or thinking none is needed for that.
    """
    from server.engines.registry import engine_names

    names = engine_names(settings)
    elsewhere = {kind for kind, name in (("asr", "faster-whisper"), ("llm", "xllama")) if names[kind] != name}
    chosen = {"asr": settings.asr.model, "llm": settings.llm.model}
    known = {entry.id: entry for entry in catalogue}
    needed = []
    for entry in catalogue.for_profile(settings.profile):
        if entry.kind in elsewhere:
            continue
        model = chosen.get(entry.kind) or entry.id
        # A path in place of an id is the owner's own file: nothing to pull.
        if model in known and model not in needed:
            needed.append(model)
    return needed


def hub_model_states(settings: Settings) -> dict[str, str]:
    """The models of the hub that these settings use: `here` or `missing`. The network is not asked."""
    from server.engines.hub_gguf import find_gguf
    from server.engines.hub_models import hub_folder

    states = {}
    for model in _needed_hub_models(settings):
        gguf = _gguf(settings, model)
        try:
            if gguf is None:
                hub_folder(settings, model)
            else:
                find_gguf(settings.model_dir, gguf)
            states[model] = "here"
        except ModelError:
            states[model] = "missing"
    return states


def _needed_hub_models(settings: Settings) -> list[str]:
    from server.engines.local_llms import gguf_of_hub
    from server.engines.registry import engine_names, hub_models

    gguf = gguf_of_hub(settings) if engine_names(settings)["llm"] == "xllama" else None
    return [*hub_models(settings), *([str(gguf)] if gguf is not None else [])]


def _gguf(settings: Settings, model: str) -> HubGguf | None:
    """What is fetched as a GGUF model: what the settings say is one, and what looks like one."""
    from server.engines.hub_gguf import hub_gguf
    from server.engines.registry import engine_names

    named = hub_gguf(model)
    chosen = engine_names(settings)["llm"] == "xllama" and settings.llm.model == model
    return named if named is not None and (chosen or ":" in model or "gguf" in model.lower()) else None


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
