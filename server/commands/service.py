"""`stackchan service`: the server as a systemd unit of this user, started at login or boot; no root is needed.

Writes one file and calls `systemctl --user`. What is written is shown first, and a person is asked. What must be done
with more rights (`loginctl enable-linger`) is told, not done. Knows systemd by its commands only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from server.commands.asking import agreed
from server.commands.failures import ExitCode
from server.commands.terminal import Terminal, own_command
from server.config import ENV_PREFIX, load_settings
from server.errors import StackChanError

UNIT = "stackchan.service"
_SECONDS = 30.0
_LINGER = "loginctl enable-linger"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How the server is to be started."""

    lan: bool = False
    tls: bool = False
    port: int | None = None
    data_dir: Path | None = None


def unit_text(options: ServiceOptions, program: Sequence[str], data_dir: Path) -> str:
    """The unit: `program serve …`, started again when it fails. Nothing of the environment goes in.

    Raises `StackChanError` for a path that no unit can hold.
    """
    words = [*program, "serve", "--data-dir", str(data_dir)]
    words += ["--lan"] if options.lan else []
    words += ["--tls"] if options.tls else []
    words += ["--port", str(options.port)] if options.port is not None else []
    if any(unicodedata.category(character) in ("Cc", "Cs") for word in words for character in word):
        # After the end of a line systemd would read the rest as a setting of its own.
        raise _failed(f"{data_dir.as_posix()!r}: a unit takes no path with a control character or a broken one.")
    return "\n".join(
        [
            "[Unit]",
            "Description=StackChan voice server",
            "StartLimitIntervalSec=300",
            "StartLimitBurst=5",
            "",
            "[Service]",
            f"ExecStart={' '.join(_quoted(word) for word in words)}",
            "Restart=on-failure",
            "RestartSec=5",
            "TimeoutStopSec=20",
            "Environment=PYTHONUNBUFFERED=1",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
    )


def install(options: ServiceOptions, terminal: Terminal, *, yes: bool) -> ExitCode:
    """Write the unit, enable and start it. Raises `StackChanError` when this machine has no systemd for users."""
    settings = load_settings(data_dir=options.data_dir, port=options.port, tls=options.tls or None)
    systemctl = _systemctl()
    path = unit_path()
    text = unit_text(options, _program(), settings.data_dir)
    terminal.note(f"{path}:", style="bold")
    terminal.note("")
    for line in text.splitlines():
        terminal.note(f"    {line}")
    terminal.note("")
    given = sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and name != "STACKCHAN_DATA_DIR")
    if given:
        terminal.note(
            f"Not in it: {', '.join(given)}. A service does not see this terminal's environment:"
            f" put settings into {settings.toml_path}.",
            style="yellow",
        )
    terminal.note(f"Then: systemctl --user enable --now {UNIT}")
    if not agreed(terminal, "Write and start it? / 書き込んで起動しますか", yes=yes):
        return ExitCode.FAILED
    before = path.read_text(encoding="utf-8") if path.exists() else None
    _write(path, text)
    try:
        _run(systemctl, "daemon-reload")
        _run(systemctl, "enable", UNIT)
    except StackChanError:
        # What does not start by itself is not installed.
        _write(path, before)
        _call(systemctl, "daemon-reload")
        raise
    _run(systemctl, "restart", UNIT)
    terminal.say(f"Installed and started: {UNIT}. / サービスとして起動しました。", style="bold green")
    terminal.say(f"  Its output / ログ      journalctl --user -u {UNIT} -f")
    terminal.say(f"  Stop it / 停止         systemctl --user stop {UNIT}")
    terminal.say(f"  At boot, without login / ログインなしで起動時から: sudo {_LINGER} $USER")
    terminal.say(f"  The token is shown only in a terminal: {own_command()} token reset makes one for the page.")
    return ExitCode.OK


def uninstall(terminal: Terminal, *, yes: bool) -> ExitCode:
    """Stop it and take the unit away; data stays."""
    systemctl = _systemctl()
    path = unit_path()
    if not path.exists():
        terminal.say(f"There is no {path}: nothing to remove. / サービスは登録されていません。")
        return ExitCode.OK
    terminal.note(f"Stops the server and removes {path}. Settings and memory stay.")
    if not agreed(terminal, "Remove it? / 削除しますか", yes=yes):
        return ExitCode.FAILED
    _run(systemctl, "disable", "--now", UNIT)
    _write(path, None)
    _run(systemctl, "daemon-reload")
    terminal.say("Removed. / 削除しました。")
    return ExitCode.OK


def status(terminal: Terminal) -> ExitCode:
    """Whether it is installed, starts by itself, and runs. Exit code 1 when it does not run."""
    systemctl = _systemctl()
    path = unit_path()
    if not path.exists():
        terminal.say(f"Not installed. Do it with: {own_command()} service install / 登録されていません。")
        return ExitCode.FAILED
    active = _ask(systemctl, "is-active", UNIT)
    terminal.say(f"  Unit / ユニット        {path}")
    terminal.say(f"  Starts by itself       {_ask(systemctl, 'is-enabled', UNIT)}")
    terminal.say(f"  Runs / 動作            {active}")
    if active != "active":
        terminal.say(f"  Why / 理由             journalctl --user -u {UNIT} -n 50")
    return ExitCode.OK if active == "active" else ExitCode.FAILED


def unit_path() -> Path:
    """Where systemd looks for the units of this user."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "systemd" / "user" / UNIT


def _write(path: Path, text: str | None) -> None:
    """The whole file or nothing of it; None: there is none."""
    try:
        if text is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise _failed(
            f"{path} cannot be {'removed' if text is None else 'written'}: {error.strerror or error}."
        ) from None


def _program() -> list[str]:
    """This program, so that it is found without a shell."""
    beside = Path(sys.executable).with_name("stackchan")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "server.cli"]


def _quoted(word: str) -> str:
    """As systemd reads it: `%` and `$` are its own, and so are quotes and backslashes."""
    word = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return f'"{word}"' if any(character.isspace() or character in "\"'\\;" for character in word) else word


def _systemctl() -> str:
    found = shutil.which("systemctl")
    if found is None:
        raise StackChanError(
            "This machine has no systemd.",
            code="no_systemd",
            hint=f"Let what starts programs here (launchd, OpenRC, cron @reboot) run: {own_command()} serve",
        )
    return found


def _run(systemctl: str, *words: str) -> None:
    done = _call(systemctl, *words)
    if done.returncode != 0:
        reason = " ".join((done.stderr or done.stdout).split()) or f"it ended with {done.returncode}"
        hint = "Is this a login of its own? Over su or in a container there may be none: systemctl --user status"
        raise StackChanError(f"systemctl --user {' '.join(words)}: {reason}", code="service_failed", hint=hint)


def _ask(systemctl: str, *words: str) -> str:
    """One word of an answer; these commands end with an error when it is no."""
    return " ".join(_call(systemctl, *words).stdout.split()) or "unknown"


def _call(systemctl: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [systemctl, "--user", *words], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(f"systemctl --user {' '.join(words)} gave no answer ({type(error).__name__}).") from None


def _failed(what: str) -> StackChanError:
    return StackChanError(what, code="service_failed")
