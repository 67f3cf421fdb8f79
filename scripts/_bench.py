"""What every benchmark says about its machine and its figures."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def machine_facts(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Processor, load, system and versions; `packages`: distributions whose version matters beside our own."""
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass  # not Linux
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("stackchan-server", *packages)},
    }


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share, in [0, 1]; the whole range when nothing was counted."""
    if count == 0:
        return 0.0, 1.0
    z = 1.959964
    share, scale = hits / count, 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write every figure as readable JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
