"""`stackchan service` with a systemctl of the tests: what is written, what is asked, what is called."""

from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import pytest

from server.commands.service import ServiceOptions, install, unit_text
from server.commands.terminal import open_terminal
from tests.commands.conftest import Cli

pytestmark = pytest.mark.integration

UNIT = "stackchan.service"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Path:
    """A home with a systemctl that writes down how it is called; `answers/<verb>`: what it prints, `fails/<verb>`."""
    for name in [name for name in os.environ if name.startswith("STACKCHAN_") and name != "STACKCHAN_DATA_DIR"]:
        monkeypatch.delenv(name)
    for folder in ("bin", "answers", "fails"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
[ -f {tmp_path}/answers/$2 ] && cat {tmp_path}/answers/$2
[ -f {tmp_path}/fails/$2 ] && cat {tmp_path}/fails/$2 >&2 && exit 1
exit 0
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def unit(home: Path) -> Path:
    return home / "config" / "systemd" / "user" / UNIT


def calls(home: Path) -> list[str]:
    file = home / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_it_writes_what_it_shows_and_starts_it(cli: Cli, home: Path, data_dir: Path) -> None:
    done = cli("service", "install", "--lan", "--tls", "--port", "8123", "--yes")
    assert done.code == 0, done.err
    text = unit(home).read_text()
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    words = shlex.split(command.removeprefix("ExecStart="))
    assert words[words.index("serve") :] == ["serve", "--data-dir", str(data_dir), "--lan", "--tls", "--port", "8123"]
    assert Path(words[0]).is_absolute()
    assert "Restart=on-failure" in text
    assert "WantedBy=default.target" in text
    shown = "".join(done.err.split())
    assert all("".join(line.split()) in shown for line in text.splitlines())
    assert calls(home) == ["--user daemon-reload", f"--user enable {UNIT}", f"--user restart {UNIT}"]
    assert "loginctl enable-linger" in done.out


def test_without_a_person_and_without_yes_nothing_happens(cli: Cli, home: Path) -> None:
    done = cli("service", "install")
    assert (done.code, unit(home).exists(), calls(home)) == (2, False, [])
    assert "--yes" in done.err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("はい\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Typed(answer))
    assert install(ServiceOptions(), open_terminal(), yes=False) == code
    assert unit(home).exists() is (code == 0)


def test_settings_of_the_terminal_are_named_and_not_copied(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKCHAN_TOKEN", "a-secret-token")
    done = cli("service", "install", "--yes")
    assert "STACKCHAN_TOKEN" in done.err
    assert "stackchan.toml" in done.err
    assert "a-secret-token" not in unit(home).read_text() + done.err + done.out


def test_again_it_takes_the_place_of_what_was_there(cli: Cli, home: Path) -> None:
    cli("service", "install", "--lan", "--yes")
    cli("service", "install", "--yes")
    assert "--lan" not in unit(home).read_text()
    assert [path.name for path in unit(home).parent.iterdir()] == [UNIT]


@pytest.mark.parametrize("verb", ["daemon-reload", "enable", "restart"])
def test_what_systemd_says_is_passed_on(cli: Cli, home: Path, verb: str) -> None:
    (home / "fails" / verb).write_text("Failed to connect to bus:\nNo medium found")
    done = cli("service", "install", "--yes")
    assert done.code == 1
    assert "Failed to connect to bus: No medium found" in " ".join(done.err.split())
    assert [call.split()[1] for call in calls(home) if "reload" not in call or verb == "daemon-reload"][-1] == verb
    # What could not be enabled is not installed; what does not start has a log that says why.
    assert unit(home).exists() is (verb == "restart")
    assert cli("service", "status").code == 1


def test_what_was_installed_stays_when_a_new_one_cannot_be_enabled(cli: Cli, home: Path) -> None:
    assert cli("service", "install", "--lan", "--yes").code == 0
    (home / "fails" / "enable").write_text("no")
    assert cli("service", "install", "--yes").code == 1
    assert "--lan" in unit(home).read_text()
    assert calls(home)[-1] == "--user daemon-reload"


@pytest.mark.parametrize("name", ["x\nExecStartPre=evil", "x\r", "x\x85", "\x1b[2J", "x\udcff"])
def test_a_folder_that_would_be_more_than_a_folder_is_refused(cli: Cli, home: Path, name: str) -> None:
    done = cli("service", "install", "--data-dir", str(home / name), "--yes")
    assert done.code == 1
    assert "control character" in " ".join(done.err.split())
    assert (unit(home).exists(), calls(home)) == (False, [])


def test_uninstall_takes_the_unit_and_leaves_the_data(cli: Cli, home: Path, data_dir: Path) -> None:
    data_dir.mkdir()
    cli("service", "install", "--yes")
    assert cli("service", "uninstall").code == 2
    assert unit(home).exists()
    assert cli("service", "uninstall", "--yes").code == 0
    assert not unit(home).exists()
    assert data_dir.exists()
    assert calls(home)[-2:] == [f"--user disable --now {UNIT}", "--user daemon-reload"]
    again = cli("service", "uninstall", "--yes")
    assert again.code == 0
    assert len(calls(home)) == 5


@pytest.mark.parametrize(("active", "code"), [("active", 0), ("failed", 1), ("inactive", 1)])
def test_status_tells_whether_it_runs(cli: Cli, home: Path, active: str, code: int) -> None:
    assert cli("service", "status").code == 1
    cli("service", "install", "--yes")
    (home / "answers" / "is-active").write_text(f"{active}\n")
    (home / "answers" / "is-enabled").write_text("enabled\n")
    done = cli("service", "status")
    assert done.code == code
    assert active in done.out
    assert "enabled" in done.out
    assert ("journalctl" in done.out) is (code == 1)


@pytest.mark.parametrize("words", [("install", "--yes"), ("uninstall", "--yes"), ("status",)])
def test_without_systemd_it_says_what_to_do(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(home / "answers"))
    done = cli("service", *words)
    assert done.code == 1
    assert "no systemd" in done.err
    assert "serve" in done.err
    assert not unit(home).exists()


def test_a_folder_of_any_name_is_quoted_as_systemd_reads_it() -> None:
    text = unit_text(ServiceOptions(), [sys.executable], Path('/srv/スタック チャン/100% "$HOME"\\x'))
    assert '"/srv/スタック チャン/100%% \\"$$HOME\\"\\\\x"' in text


def test_settings_that_are_wrong_are_told_before_anything_is_written(cli: Cli, home: Path, data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "stackchan.toml").write_text("prot = 1\n")
    done = cli("service", "install", "--yes")
    assert done.code != 0
    assert "prot" in done.err
    assert not unit(home).exists()
