"""The project's papers agree with the project: dependencies, pins, changelog, scripts, and what tests declare."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import house_rules

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = house_rules.declared_dependencies(ROOT / "pyproject.toml")
# `browser` says what a test needs besides; the other marks say what kind it is.
MARKS = {marker.partition(":")[0] for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]} - {"browser"}
SCRIPTS = sorted(path for folder in ("scripts", ".ci") for path in (ROOT / folder).iterdir() if path.is_file())
# What begins with _ is read by the others, not typed.
COMMANDS = [path for path in SCRIPTS if not path.name.startswith("_")]
TEST_MODULES = sorted((ROOT / "tests").rglob("test_*.py"))
# Folders that exist on one machine only: homes, and the roots of build machines and containers.
PRIVATE_PATH = re.compile(r"(?<![\w.~-])/(?:home|Users|root|work|workspace|mnt|media)/[\w.-]+")


def load_tidiness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidiness", ROOT / "scripts/_tidiness.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tidiness = load_tidiness()


def documented_dependencies() -> dict[str, list[str]]:
    """The package names in the tables of docs/dependencies.md, by the heading they stand under."""
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    bodies = dict(zip(sections[::2], sections[1::2], strict=True))
    return {group: re.findall(r"^\| `([\w.-]+)` \|", bodies[group], re.MULTILINE) for group in DECLARED}


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", line
            found[canonicalize_name(requirement.name)] = Version(specifier.version)
    return found


# Dependencies


@pytest.mark.parametrize("group", DECLARED)
def test_every_dependency_is_explained_and_nothing_else(group: str) -> None:
    declared = sorted(canonicalize_name(Requirement(line).name) for line in DECLARED[group])
    assert sorted(canonicalize_name(name) for name in documented_dependencies()[group]) == declared


@pytest.mark.parametrize("group", DECLARED)
def test_every_dependency_has_a_reason_a_licence_and_a_size(group: str) -> None:
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    for name in documented_dependencies()[group]:
        for row in re.findall(rf"^\| `{re.escape(name)}` \|(.+)\|$", text, re.MULTILINE):
            reason, licence, size = (cell.strip() for cell in row.split("|"))
            assert len(reason.split()) >= 3, name
            assert licence, name
            assert re.fullmatch(r"\d[\d,]*\.?\d*(, \d[\d,]*\.?\d*)?", size), (name, size)


@pytest.mark.parametrize("line", sorted({line for lines in DECLARED.values() for line in lines}))
def test_every_dependency_is_pinned_to_a_version_it_allows(line: str) -> None:
    requirement = Requirement(line)
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_fit_every_machine() -> None:
    """A local version (torch 2.13.0+cpu) is found on one machine only; a private path even less."""
    assert pins()["torch"] == Version("2.13.0")
    assert [name for name, version in pins().items() if version.local] == []
    assert "stackchan-server" not in pins()


def test_installed_packages_are_pinned() -> None:
    """Everything the installed extras bring is in constraints.txt, so that two machines get the same."""
    waiting = [Requirement(line) for lines in DECLARED.values() for line in lines]
    seen: set[tuple[str, frozenset[str]]] = set()
    unpinned = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        if name not in pins():
            unpinned.add(name)
        for text in needed:
            inner = Requirement(text)
            extras = {"", *requirement.extras}
            if not inner.marker or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(inner)
    assert unpinned == set()


@pytest.mark.parametrize(("folder", "groups"), [("server", set(DECLARED) - {"dev"}), ("tests", set(DECLARED))])
def test_everything_imported_is_declared(folder: str, groups: set[str]) -> None:
    """A package that is imported is a dependency, or the first thing one of them brings (SQLAlchemy under SQLModel)."""
    distributions = packages_distributions()
    allowed = {canonicalize_name(Requirement(line).name) for group in groups for line in DECLARED[group]}
    for name in list(allowed):
        with contextlib.suppress(PackageNotFoundError):
            allowed |= {canonicalize_name(Requirement(line).name) for line in requires(name) or ()}
    own = {"server", "tests", "scripts", *(path.stem for path in (ROOT / "scripts").glob("_*.py"))}
    undeclared = {
        package: file
        for package, file in house_rules.imported_packages(ROOT / folder).items()
        if package not in own
        and not allowed.intersection(canonicalize_name(name) for name in distributions.get(package, ()))
    }
    assert undeclared == {}


# Papers


def test_changelog_tells_of_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert PYPROJECT["project"]["version"] in versions
    assert len(versions) == len(set(versions))


def private_paths(root: Path) -> Iterator[str]:
    for path in tidiness.tracked_files(root):
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if match := PRIVATE_PATH.search(line):
                yield f"{path.relative_to(root)}:{number}: {match[0]}"


def test_no_file_names_a_path_of_one_machine() -> None:
    assert list(private_paths(ROOT)) == []


def test_a_path_of_one_machine_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "see /ho" + "me/someone/x and ~/.cache, /usr/lib, https://x.org/home/y\n", encoding="utf-8"
    )
    (tmp_path / "b.py").write_text("ROOT = '/wo" + "rk/checkout'\n", encoding="utf-8")
    assert [line.split(": ")[0] for line in private_paths(tmp_path)] == ["a.md:1", "b.py:1"]


# Scripts


@pytest.mark.parametrize("script", COMMANDS, ids=lambda path: path.name)
def test_every_script_is_executable_and_says_what_it_does(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    assert os.access(script, os.X_OK)
    assert re.fullmatch(r"#!/usr/bin/env (bash|python3)", lines[0])
    assert re.match(r'(# |""")\w.{20,}', lines[1])


@pytest.mark.parametrize(
    "script",
    # Those that measure tell more: test_bench_scripts.py.
    [path for path in COMMANDS if path.parent.name == "scripts" and not path.name.startswith(("bench_", "soak"))],
    ids=lambda p: p.name,
)
def test_every_command_has_help(script: Path, tmp_path: Path) -> None:
    python = script.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")
    result = subprocess.run(
        [sys.executable, script, "--help"] if python else [script, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout) > 100
    assert list(tmp_path.iterdir()) == []


# Tests


def undeclared_tests(source: str) -> list[str]:
    """Tests of a module with no kind, or more than one: from `pytestmark`, their class, or themselves."""
    body = ast.parse(source).body
    whole = {
        mark
        for node in body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "pytestmark" for target in node.targets)
        for mark in marks_in([node.value])
    }

    def wrong(nodes: list[ast.stmt], outer: set[str]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from wrong(node.body, outer | marks_in(node.decorator_list))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                kinds = outer | marks_in(node.decorator_list)
                if node.name.startswith("test") and len(kinds) != 1:
                    yield node.name

    return list(wrong(body, whole))


def marks_in(nodes: list[ast.expr]) -> set[str]:
    inner = [node for outer in nodes for node in ast.walk(outer)]
    return {node.attr for node in inner if isinstance(node, ast.Attribute)} & MARKS


@pytest.mark.parametrize("module", TEST_MODULES, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_every_test_declares_its_kind(module: Path) -> None:
    assert undeclared_tests(module.read_text(encoding="utf-8")) == []


def test_a_test_without_kind_is_noticed() -> None:
    whole = "pytestmark = [pytest.mark.integration, pytest.mark.browser]\ndef test_a(): ...\n"
    assert undeclared_tests(whole) == []
    assert undeclared_tests("@pytest.mark.unit\ndef test_a(): ...\nasync def test_b(): ...\n") == ["test_b"]
    assert undeclared_tests(whole + "@pytest.mark.unit\ndef test_b(): ...\n") == ["test_b"]
    assert undeclared_tests("@pytest.mark.models\nclass TestA:\n    def test_a(self): ...\n") == []


# Tidiness, the part of scripts/check that is our own


def test_the_checkout_is_tidy() -> None:
    assert list(tidiness.findings(ROOT)) == []


@pytest.mark.parametrize(
    ("name", "content", "finding"),
    [
        ("server/a.py", "x = 1  # TO" + "DO later\n", "server/a.py:1: TO" + "DO left in"),
        (
            "docs/a.md",
            "use https://py" + "pi.org/simple\n",
            "docs/a.md:1: py" + "pi.org: which index to use is the user's setting",
        ),
        ("a.md", "[x](missing.md)\n", "a.md: link to missing.md: no such file"),
        ("a.md", "# One\n[x](#two)\n", "a.md: link to #two: no such heading"),
        ("big.bin", "x" * (1024 * 1024 + 1), "big.bin: 1.0 MiB, at most 1 MiB is tracked"),
    ],
)
def test_untidiness_is_found(name: str, content: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert list(tidiness.findings(tmp_path)) == [finding]


def test_living_links_are_left_alone(tmp_path: Path) -> None:
    page = (
        "# Set-up & use\n## 設定\n## 設定\n[a](#set-up--use) [b](#設定) [c](#設定-1) [d](other.md#part-two)\n"
        "[e](/other.md) [web](https://example.org/none) `[not](a-link)`\n```\n[nor](this)\n```\n[f](%E5%A3%B0.md)\n"
    )
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    (tmp_path / "other.md").write_text("## Part *two*\n", encoding="utf-8")
    (tmp_path / "声.md").write_text("x\n", encoding="utf-8")
    assert list(tidiness.findings(tmp_path)) == []
