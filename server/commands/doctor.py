"""`stackchan doctor`: what is missing, how fast this machine is, and what to do next.

Runs every check on its own, so that one that breaks hides no other, then draws the findings and the next steps.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from server import __version__
from server.commands import doctor_checks as checks
from server.commands import doctor_servers as servers
from server.commands.doctor_checks import Finding
from server.commands.failures import ExitCode
from server.commands.speed import Speed, better_model, judge_speed
from server.commands.terminal import Terminal, own_command, printable, speaks_unicode
from server.config import Settings, load_settings
from server.errors import StackChanError

if TYPE_CHECKING:
    from server.commands.bench import Measure

_log = logging.getLogger(__name__)

_MARKS = {
    "ok": ("✓", "ok", "green"),
    "info": ("·", "-", "dim"),
    "warn": ("!", "!", "yellow"),
    "fail": ("✗", "x", "red"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor knows. `todo`: what to do, in order."""

    findings: tuple[Finding, ...]
    speed: Speed | None
    todo: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return all(finding.state != "fail" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "version": __version__,
            "checks": [asdict(finding) for finding in self.findings],
            "speed": asdict(self.speed) if self.speed else None,
            "next": list(self.todo),
        }


def doctor(
    terminal: Terminal,
    *,
    as_json: bool = False,
    bench: bool = False,
    profile: str | None = None,
    data_dir: Path | None = None,
) -> ExitCode:
    """Check everything and say it. `FAILED` when something must be put right before the robot can talk."""
    settings, problem = _settings(profile, data_dir)
    with terminal.waiting("Looking around…"):
        findings = run_checks(settings, problem)
    speed = _speed(settings, findings, bench=bench, terminal=terminal)
    if speed.finding is not None:
        findings.append(speed.finding)
    diagnosis = Diagnosis(tuple(findings), speed.speed, tuple(next_steps(findings, speed.speed)))
    if as_json:
        terminal.say_json(diagnosis.as_dict())
    else:
        _draw(diagnosis, terminal)
    return ExitCode.OK if diagnosis.ok else ExitCode.FAILED


def run_checks(settings: Settings, problem: StackChanError | None) -> list[Finding]:
    """Every check in the order a person would put things right. Never raises."""
    steps: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", checks.check_python),
        ("Machine", checks.check_machine),
        ("Disk", lambda: checks.check_disk(settings)),
        ("Data folder", lambda: checks.check_data_dir(settings)),
        ("Settings", lambda: checks.check_settings(settings, problem)),
        ("Persona", lambda: checks.check_persona(settings)),
        ("Clock", lambda: checks.check_clock(settings)),
        ("Memory", lambda: checks.check_memory(settings)),
        ("Engines", lambda: checks.check_packages(settings)),
        ("Models", lambda: checks.check_models(settings)),
        *_asked_servers(settings),
        ("Model hub", checks.check_hub),
        ("Sound", checks.check_sound),
        ("Server", lambda: checks.check_server(settings)),
    ]
    return [_guarded(name, check) for name, check in steps]


def next_steps(findings: Sequence[Finding], speed: Speed | None) -> list[str]:
    """What to do, in order: first what must be, then what would help; at the end how to begin."""
    by_state = [finding for state in ("fail", "warn") for finding in findings if finding.state == state]
    steps = [finding.todo or f"See what is said above under {finding.check}." for finding in by_state]
    if not any(finding.state == "fail" for finding in findings):
        server = next((finding for finding in findings if finding.check == "Server"), None)
        running = server is not None and server.state in ("ok", "warn")
        if not running:
            steps.append(f"{own_command()} serve")
        steps.append(f'{own_command()} talk "こんにちは"')
        hub = next((finding for finding in findings if finding.check == "Model hub"), None)
        endpoint = any(finding.check == "Language model" for finding in findings)
        if hub is not None and hub.state == "ok" and not endpoint:
            model = better_model(speed)
            steps.append(f'For better answers, {model.title}: in stackchan.toml, below [llm]: model = "{model.name}"')
            steps.append(f"and fetch it: {own_command()} models pull")
    return list(dict.fromkeys(steps))


def _asked_servers(settings: Settings) -> list[tuple[str, Callable[[], Finding]]]:
    """The checks of those engines that are other servers."""
    from server.engines.registry import engine_names
    from server.engines.tts.endpoints import VOICE_SERVERS

    names = engine_names(settings)
    asked: list[tuple[str, Callable[[], Finding]]] = []
    if names["asr"] == "openai-asr":
        asked.append(("Hearing", lambda: servers.check_hearing_server(settings)))
    if names["llm"] == "openai":
        asked.append(("Language model", lambda: checks.check_endpoint(settings)))
    if names["tts"] in VOICE_SERVERS:
        asked.append(("Voice", lambda: servers.check_voice_server(settings)))
    return asked


def _settings(profile: str | None, data_dir: Path | None) -> tuple[Settings, StackChanError | None]:
    """The settings, or the defaults for the same folders beside the reason why they are not valid."""
    try:
        return load_settings(profile=profile, data_dir=data_dir), None
    except StackChanError as error:
        folders: dict[str, Any] = {
            name: os.environ.get(f"STACKCHAN_{name.upper()}") or None for name in ("data_dir", "model_dir")
        }
        if data_dir is not None:
            folders["data_dir"] = data_dir
        return Settings(**{name: folder for name, folder in folders.items() if folder is not None}), error


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except StackChanError as error:
        return Finding(name, "fail", error.message, error.next_step)
    except Exception as error:  # a broken check must not hide the others
        _log.debug("the check %s failed", name, exc_info=error)
        return Finding(name, "warn", f"could not be checked: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _SpeedFinding:
    speed: Speed | None
    finding: Finding | None


def _speed(settings: Settings, findings: Sequence[Finding], *, bench: bool, terminal: Terminal) -> _SpeedFinding:
    """Measure what can be measured: the arithmetic always, the models when they are here."""
    from server.commands import machine

    load = machine.busy_load()
    with terminal.waiting("Measuring this machine…"):
        arithmetic = machine.measure_arithmetic()
    needed = ("Persona", "Engines", "Models", "Hearing", "Language model", "Voice")
    usable = all(finding.state != "fail" for finding in findings if finding.check in needed)
    measures: list[Measure] = []
    finding: Finding | None = None
    if usable:
        try:
            measures = _measure(settings, full=bench, terminal=terminal)
        except StackChanError as error:
            finding = Finding("Speed", "fail", f"A model could not be used: {error.message}", error.next_step)
        except Exception as error:  # a model library may fail in any way; the diagnosis must still be shown
            _log.debug("measuring failed", exc_info=error)
            finding = Finding("Speed", "fail", f"A model could not be used: {type(error).__name__}: {error}")
    speed = judge_speed(arithmetic, measures)
    if finding is None:
        todo = None
        if bench and not usable:
            todo = f"Put the above right, then: {own_command()} doctor --bench"
        elif not bench:
            todo = f"{own_command()} doctor --bench   measures it with the real models"
        busy = f" Other programs are busy now (load {load:.1f}): without them it is faster." if load else ""
        finding = Finding("Speed", "info", speed.meaning + busy, todo)
    return _SpeedFinding(speed, finding)


def _measure(settings: Settings, *, full: bool, terminal: Terminal) -> list[Measure]:
    from server.commands.bench import measure_engines
    from server.persona import find_persona, load_persona

    persona = load_persona(find_persona(settings.data_dir, settings.persona_path))

    def on_step(step: str) -> None:
        if full:
            terminal.note(f"Measuring: {step}…", style="dim")

    with terminal.waiting("Trying the models…"):
        return asyncio.run(measure_engines(settings, persona, full=full, on_step=on_step))


def _draw(diagnosis: Diagnosis, terminal: Terminal) -> None:
    unicode = speaks_unicode(terminal.out)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in diagnosis.findings:
        symbol, plain, style = _MARKS[finding.state]
        detail = Text(printable(finding.detail), style=style if finding.state in ("warn", "fail") else "")
        if finding.todo and finding.state == "info":
            detail.append(f"\n{printable(finding.todo)}", style="dim")
        table.add_row(Text(symbol if unicode else plain, style=style), finding.check, detail)
    terminal.out.print(table)
    if diagnosis.speed is not None and diagnosis.speed.measures:
        terminal.say("")
        terminal.out.print(_measure_table(diagnosis.speed.measures))
    terminal.say("")
    if diagnosis.ok:
        terminal.say("Everything that is needed is here. / 準備はできています。", style="bold green")
    else:
        terminal.say("Something must be put right first. / 先に直すところがあります。", style="bold red")
    terminal.say("What to do next / 次にすること:", style="bold")
    for number, step in enumerate(diagnosis.todo, start=1):
        terminal.say(f"  {number}. {step}")


def _measure_table(measures: Sequence[Measure]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 2))
    table.add_column("Stage")
    table.add_column("Work")
    table.add_column("Took", justify="right")
    table.add_column("Loaded in", justify="right")
    for measure in measures:
        loaded = f"{measure.start_seconds:.1f} s" if measure.start_seconds else ""
        table.add_row(measure.stage, measure.amount, f"{measure.seconds * 1000:,.0f} ms", loaded)
    return table
