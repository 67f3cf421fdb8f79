"""Lets a script be typed as it is: where the Python that was found lacks the packages, that of `.venv` takes over."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def use_own_python() -> None:
    """Go on, or start the same command again with the checkout's own Python; says so when there is none."""
    if importlib.util.find_spec("rich") is not None:
        return
    own = ROOT / ".venv" / "bin" / "python"
    if not own.exists() or Path(sys.prefix) == ROOT / ".venv":
        raise SystemExit("The packages are not installed; run scripts/test once, it makes .venv with all of them.")
    os.execv(own, [str(own), *sys.argv])
