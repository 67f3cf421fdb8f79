"""`HEAD` on the owner's memory: the answer of `GET` without its body, and without the work of making a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.storage.backup import make_archive
from tests.api.memory_over_http import EVERY, live
from tests.devices.conftest import code
from tests.memory.said_and_noted import BOUGHT

pytestmark = pytest.mark.integration


async def test_head_works_wherever_get_does(tmp_path: Path) -> None:
    async with live(tmp_path) as made:
        await made.home.talk(BOUGHT)
        (memory,) = await made.home.memories()
        for path in (path for method, path in EVERY if method == "GET"):
            path = path.replace("mem_1", memory.memory_id)
            got, head = await made.client.get(path), await made.client.head(path)
            assert (head.status_code, head.headers["content-type"]) == (200, got.headers["content-type"]), path
            refused = await made.client.head(path, headers={"Authorization": "Bearer other"})
            assert refused.status_code == 401, path
        assert (await made.client.head("/v1/memories/mem_x")).status_code == 404
        assert (await made.client.head("/v1/memories", params={"limit": 0})).status_code == 422
        refused = await made.client.put("/v1/memory/export")
        assert code(refused) == (405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD"
        assert not any("head" in methods for methods in made.app.openapi()["paths"].values()), "the page shows GET"


async def test_head_makes_neither_an_export_nor_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def export(*arguments: Any, **options: Any) -> Any:
        begun.append("export")
        raise AssertionError

    def archive(*arguments: Any, **options: Any) -> Any:
        begun.append("backup")
        return make_archive(*arguments, **options)

    monkeypatch.setattr("server.api.memory.export_lines", export)
    monkeypatch.setattr("tests.api.memory_over_http.make_archive", archive)
    async with live(tmp_path) as made:
        for path, name in (("/v1/memory/export", "stackchan-memory-"), ("/v1/backup", "stackchan-")):
            head = await made.client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-disposition"].startswith(f'attachment; filename="{name}')
            assert head.headers.get("content-length") is None, "it is not known, and not 0"
        assert begun == []
        assert (await made.client.get("/v1/backup")).status_code == 200
        assert begun == ["backup"]
