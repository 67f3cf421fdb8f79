"""What the owner reads once the server is ready."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from server.commands.serve import Tokens, show_banner
from server.commands.terminal import Terminal
from server.config import load_settings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("drawn", [True, False])
def test_a_link_that_ends_with_the_server_says_so(tmp_path: Path, drawn: bool) -> None:
    out = io.StringIO()
    terminal = Terminal(Console(file=out, width=200), Console(file=io.StringIO(), force_terminal=drawn, width=200))
    settings = load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)})
    show_banner(settings, Tokens(new=None, boot="boot-token"), 8123, 1.0, terminal)
    told = out.getvalue()
    assert ("http://127.0.0.1:8123/#token=boot-token" in told) is drawn
    for words in ("works until the server stops", "サーバーを終えるまで有効"):
        assert (words in told) is drawn
