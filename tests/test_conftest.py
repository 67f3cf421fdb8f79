"""The network watch and the order of the kinds, tried on small test files in a pytest of their own."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import WITH_LANGUAGE_MODEL, place_of, pytest_xdist_make_scheduler

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent

# Name of the inner test, whether it should pass when it is unit, and when it is integration or models; its body.
CASES = {
    "an_event_loop": (True, True, "asyncio.run(asyncio.sleep(0))"),
    "loopback": (
        False,
        True,
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "        socket.create_connection(server.getsockname()).close()",
    ),
    "localhost_by_name": (False, True, "assert socket.getaddrinfo('localhost', 80)"),
    "another_machine": (False, False, "socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"),
    "another_machine_ipv6": (False, False, "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 9))"),
    "a_datagram": (False, False, "socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))"),
    "a_name_lookup": (False, False, "socket.getaddrinfo('robot.invalid', 80)"),
    "a_swallowed_attempt": (
        False,
        False,
        "try:\n        socket.create_connection(('192.0.2.1', 9), timeout=1)\n    except Exception:\n        pass",
    ),
    "settings_of_the_caller": (
        True,
        True,
        "assert [name for name in os.environ if name[:10] == 'STACKCHAN_'] == ['STACKCHAN_MODEL_DIR']",
    ),
}
KINDS_BY_FILE = {"a": "models", "b": "integration", "c": "unit"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """(file and test, outcome) in the order they ran: every case as each kind, with this folder's conftest."""
    folder = tmp_path_factory.mktemp("inner")
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    marks = "\n".join(f"    {kind}: x" for kind in KINDS_BY_FILE.values())
    (folder / "pytest.ini").write_text(
        f"[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n{marks}\n", encoding="utf-8"
    )
    for file, kind in KINDS_BY_FILE.items():
        tests = "\n".join(f"def test_{name}():\n    {body}\n" for name, (_, _, body) in CASES.items())
        header = f"import asyncio, os, pytest, socket\npytestmark = pytest.mark.{kind}\n"
        (folder / f"test_{file}.py").write_text(header + tests, encoding="utf-8")
    environment = os.environ | {"STACKCHAN_PORT": "1", "STACKCHAN_MODEL_DIR": "/somewhere", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", str(folder)]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    lines = re.findall(r"^(test_\w\.py::test_\w+) (PASSED|FAILED|ERROR)", result.stdout, re.MULTILINE)
    assert lines, result.stdout + result.stderr
    return lines


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("file", KINDS_BY_FILE)
def test_a_test_reaches_only_what_its_kind_may(report: list[tuple[str, str]], file: str, name: str) -> None:
    as_unit, as_other, _ = CASES[name]
    outcomes = {outcome for test, outcome in report if test == f"test_{file}.py::test_{name}"}
    assert outcomes
    assert (outcomes == {"PASSED"}) is (as_unit if KINDS_BY_FILE[file] == "unit" else as_other)


def test_unit_tests_run_first_and_models_last(report: list[tuple[str, str]]) -> None:
    files = [test.partition("::")[0] for test, _ in report]
    assert list(dict.fromkeys(files)) == ["test_c.py", "test_b.py", "test_a.py"]
    assert files == sorted(files, reverse=True)


def test_two_processes_begin_with_the_models_folder_and_end_with_unit_tests() -> None:
    tests = [("tests/audio/test_a.py::a", "unit"), ("tests/commands/test_b.py::b", "integration")]
    tests += [("tests/engines/test_c.py::c", "models"), ("tests/models/test_d.py::d", "models")]
    order = sorted(tests, key=lambda test: place_of(*test, is_shared=True))
    assert [name[-1] for name, _ in order] == ["d", "c", "b", "a"]
    assert [place_of(*test, is_shared=False) for test in tests] == [0, 1, 2, 2]


def test_one_process_takes_the_whole_models_folder_and_files_are_taken_in_their_order() -> None:
    options = argparse.Namespace(dist="loadfile", loadscopereorder=True, tx=["2*popen"], numprocesses=2)
    config: Any = SimpleNamespace(option=options, getoption=lambda name: getattr(options, name), getvalue=None)
    config.getvalue = config.getoption
    scheduler = pytest_xdist_make_scheduler(config, None)
    names = ["tests/models/test_a.py::a[x::y]", "tests/models/test_b.py::b", f"{WITH_LANGUAGE_MODEL[-1]}::c"]
    assert {scheduler._split_scope(name) for name in names} == {"tests/models/"}
    assert scheduler._split_scope("tests/audio/test_c.py::c") == "tests/audio/test_c.py"
    assert [name for name in WITH_LANGUAGE_MODEL if not (ROOT / name).exists()] == []
    assert options.loadscopereorder is False
    options.dist = "load"
    assert pytest_xdist_make_scheduler(config, None) is None
