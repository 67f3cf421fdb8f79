"""scripts/start and what it sets up, tried on a copy of the scripts with a project that has no dependencies.

The copy lies in a folder with spaces, a dollar and Japanese characters, is called from elsewhere without a terminal, in
the C locale, with a shell full of settings that must not matter. A real venv is made and a real pip runs, without
network.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[..., subprocess.CompletedProcess[str]]

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "stackchan-server"
version = "0.1.0"
"""

# Builds its wheel by hand, so that no build tool has to be fetched.
BACKEND = """
import pathlib, time, zipfile

INFO = "stackchan_server-0.1.0.dist-info"
EXTRAS = ["Provides-Extra: embedded", "Provides-Extra: qwen"]
METADATA = ["Metadata-Version: 2.1", "Name: stackchan-server", "Version: 0.1.0", *EXTRAS]

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    if pathlib.Path("slow").exists():
        pathlib.Path("building").touch()
        time.sleep(60)
    if pathlib.Path("broken").exists():
        raise RuntimeError("this project cannot be built")
    name = "stackchan_server-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.write("stand_in.py")
        wheel.writestr(f"{INFO}/METADATA", chr(10).join(METADATA))
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{INFO}/entry_points.txt", "[console_scripts]\\nstackchan = stand_in:main\\n")
        wheel.writestr(f"{INFO}/RECORD", "")
    return name
"""

STAND_IN = """
import os, sys

def main():
    print("stackchan", *sys.argv[1:], "in", os.getcwd(), flush=True)
    return 7 if "--fail" in sys.argv else 0
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy") / "机の $HOME ロボット"
    (folder / "scripts").mkdir(parents=True)
    for name in ("_setup", "start"):
        shutil.copy2(ROOT / "scripts" / name, folder / "scripts" / name)
    for name, text in {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "stand_in.py": STAND_IN}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "constraints.txt").write_text("# none\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A shell with settings of other projects, and an interpreter by its full path."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "LC_ALL": "C",
        "PYTHON": sys.executable,
        "VIRTUAL_ENV": "/nowhere/venv",
        "PYTHONPATH": "/nowhere/lib",
        "PYTHONHOME": "/nowhere",
        "PIP_TARGET": "/nowhere/target",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONSTRAINT": "/nowhere/constraints.txt",
        "PIP_NO_INDEX": "1",
        "CDPATH": "/tmp",
    }


@pytest.fixture(scope="module")
def run(checkout: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run_start(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [checkout / "scripts/start", *arguments],
            cwd=elsewhere,
            env=environment | extra,
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    return run_start


@pytest.fixture
def ready(run: Run, checkout: Path) -> Path:
    """The checkout, set up."""
    result = run()
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout


def installs(result: subprocess.CompletedProcess[str]) -> bool:
    return "Installing the packages" in result.stdout


def test_first_start_sets_up_and_the_second_one_runs_no_pip(run: Run, checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv", ignore_errors=True)
    first = run("--lan", "--port", "1")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Making .venv" in first.stdout
    assert installs(first)
    second = run("--lan", "--port", "1")
    assert second.returncode == 0
    assert not installs(second)
    for result in (first, second):
        lines = [line for line in result.stdout.splitlines() if line.startswith("stackchan ")]
        assert lines[0].startswith("stackchan models pull in ")
        assert lines[1].startswith("stackchan serve --lan --port 1 in ")
        assert "elsewhere" in lines[1]
        assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "settings", "variables"),
    [
        (("--profile=qwen",), "", {}),
        ((), "", {"STACKCHAN_ASR__ENGINE": "qwen3-asr"}),
        ((), "[llm]\n  engine='transformers'\n", {}),
    ],
)
def test_the_packages_of_qwens_own_models_come_where_one_is_chosen(
    run: Run, ready: Path, tmp_path: Path, arguments: tuple[str, ...], settings: str, variables: dict[str, str]
) -> None:
    stamp = ready / ".venv/.setup-stamp"
    stamp.write_text(stamp.read_text(encoding="utf-8").replace(" qwen", ""), encoding="utf-8")
    (tmp_path / "stackchan.toml").write_text(settings, encoding="utf-8")
    done = run(*arguments, STACKCHAN_DATA_DIR=str(tmp_path), **variables)
    assert "[embedded,qwen]" in done.stdout, done.stderr
    # What was installed stays.
    assert "Installing" not in run(STACKCHAN_DATA_DIR=str(tmp_path)).stdout


def test_without_one_of_them_they_do_not(run: Run, ready: Path, tmp_path: Path) -> None:
    settings = '# profile = "qwen"\nprofile = "embedded"\n[llm]\nmodel = "qwen"\n'
    stamp = ready / ".venv/.setup-stamp"
    stamp.write_text(stamp.read_text(encoding="utf-8").replace(" qwen", ""), encoding="utf-8")
    (tmp_path / "stackchan.toml").write_text(settings, encoding="utf-8")
    assert "qwen]" not in run(STACKCHAN_DATA_DIR=str(tmp_path)).stdout


def test_the_servers_exit_status_is_passed_on(run: Run, ready: Path) -> None:
    assert run("--fail").returncode == 7


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_changed_requirements_are_installed(run: Run, ready: Path, name: str) -> None:
    with (ready / name).open("a", encoding="utf-8") as file:
        file.write(f"# changed {time.time_ns()}\n")
    changed = run()
    assert changed.returncode == 0, changed.stderr
    assert installs(changed)
    assert "Making .venv" not in changed.stdout
    assert not installs(run())


def test_a_failed_installation_says_why_and_is_repaired(run: Run, ready: Path) -> None:
    (ready / "constraints.txt").write_text(f"# broken {time.time_ns()}\n", encoding="utf-8")
    (ready / "broken").touch()
    failed = run()
    (ready / "broken").unlink()
    assert failed.returncode == 1
    assert "this project cannot be built" in failed.stderr
    assert "setup.log" in failed.stderr
    assert "stackchan serve" not in failed.stdout
    repaired = run()
    assert repaired.returncode == 0
    assert "cut short" in repaired.stdout
    assert not installs(run())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_installation_is_repaired(
    run: Run, ready: Path, environment: dict[str, str], how: signal.Signals
) -> None:
    (ready / "constraints.txt").write_text(f"# killed {time.time_ns()}\n", encoding="utf-8")
    (ready / "slow").touch()
    process = subprocess.Popen(
        [ready / "scripts/start"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    deadline = time.monotonic() + 60
    while not (ready / "building").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, how)
    assert process.wait(timeout=20) != 0
    (ready / "slow").unlink()
    (ready / "building").unlink()
    repaired = run()
    assert repaired.returncode == 0, repaired.stderr
    assert "cut short" in repaired.stdout
    assert "stackchan serve" in repaired.stdout


def test_a_venv_whose_python_is_gone_is_made_afresh(run: Run, ready: Path) -> None:
    (ready / ".venv/bin/python").unlink()
    (ready / ".venv/bin/python").symlink_to("/nowhere/python3.11")
    result = run()
    assert result.returncode == 0, result.stderr
    assert "no longer works" in result.stdout


def test_a_moved_checkout_is_set_up_again(ready: Path, environment: dict[str, str], tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(ready, moved, symlinks=True)
    result = subprocess.run(
        [moved / "scripts/start"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "was moved or copied" in result.stdout


def test_without_a_fitting_python_the_message_names_the_package(run: Run, tmp_path: Path, checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv", ignore_errors=True)
    for tool in ("bash", "env", "dirname", "cat", "rm", "id", "tr", "flock"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool}"))
    result = run(PATH=str(tmp_path), PYTHON="")
    assert result.returncode == 1
    assert "Python 3.11 or 3.12 was not found" in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr


def test_a_python_without_venv_is_told_apart(run: Run, tmp_path: Path, checkout: Path) -> None:
    """Debian ships ensurepip in a package of its own; a module of that name that cannot be imported looks the same."""
    shutil.rmtree(checkout / ".venv", ignore_errors=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ensurepip.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    bare = tmp_path / "python3.11"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/lib" exec {sys.executable} "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    for tool in ("bash", "env", "dirname", "cat", "rm", "id", "tr", "flock", "sh"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool}"))
    result = run(PATH=str(tmp_path), PYTHON="")
    assert result.returncode == 1
    assert "python3.11 lacks: ensurepip" in result.stderr
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"apt-get install python{version}-venv" in result.stderr


def test_waiting_for_pip_says_the_same_line_again_only_as_a_sign_of_life(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nsleep 2\n", encoding="utf-8")
    slow.chmod(0o755)
    script = f"""
        source {ROOT}/scripts/_setup
        ROOT={tmp_path} VENV={tmp_path} VENV_PYTHON={slow} SETUP_LOG={tmp_path}/log UNFINISHED={tmp_path}/unfinished
        pip_progress() {{ echo "building this project"; }}
        # Five seconds pass in a moment.
        sleep() {{ SECONDS=$((SECONDS + 5)); command sleep 0.1; }}
        run_pip anything
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    told = [int(line.split()[0]) for line in done.stdout.splitlines() if "building this project" in line]
    assert told, done
    assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(told))
    assert told[-1] >= 5
