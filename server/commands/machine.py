"""Facts about this machine, from the standard library alone: processors, memory, disk, packages, the arithmetic speed.

Measures and reports; judges nothing (that is `doctor_checks.py`).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MATRIX_SIZE = 64
"""Small enough that every BLAS multiplies it on one core: with more, a neighbour on one of them stalls all."""
_BANDWIDTH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ArithmeticSpeed:
    """What models are made of: `gflops` bounds hearing and reading a prompt, `gigabytes_per_second` writing tokens."""

    gflops: float
    gigabytes_per_second: float


def processor_count() -> int:
    """Processors this process may use: affinity and container quota count, hyper-threads are not told apart."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    quota = _container_quota()
    return max(1, min(count, round(quota))) if quota else count


def processor_name() -> str:
    """The processor as its maker calls it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def memory_bytes() -> tuple[int, int] | None:
    """(all, free for a new program) of this machine or container; None where the system does not tell."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    free = _available_memory() or total
    limit = _read_number(_CGROUP / "memory.max")
    if limit is not None and limit < total:
        used = _read_number(_CGROUP / "memory.current") or 0
        return limit, min(free, max(0, limit - used))
    return total, free


def busy_load() -> float | None:
    """The load of the last minute when other programs leave less than a core free; None when they do not."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
    return load if load > max(1.0, processor_count() - 1) else None


def measure_arithmetic(seconds: float = 0.4) -> ArithmeticSpeed:
    """A bounded measure with numpy: the best of what fits into `seconds` for each figure.

    `gflops` is one core's figure times the cores.
    """
    import numpy as np

    left = np.full((_MATRIX_SIZE, _MATRIX_SIZE), 1.5, dtype=np.float32)
    product = np.empty_like(left)
    matrix_seconds = _best_seconds(lambda: np.matmul(left, left, out=product), seconds)
    source = np.ones(_BANDWIDTH_BYTES // 4, dtype=np.float32)
    sum_seconds = _best_seconds(lambda: source.sum(), seconds)
    return ArithmeticSpeed(
        gflops=2 * _MATRIX_SIZE**3 / matrix_seconds / 1e9 * processor_count(),
        gigabytes_per_second=_BANDWIDTH_BYTES / sum_seconds / 1e9,
    )


def _best_seconds(work: Callable[[], object], limit_seconds: float) -> float:
    work()
    best, end = float("inf"), time.perf_counter() + limit_seconds
    while (began := time.perf_counter()) < end:
        work()
        best = min(best, time.perf_counter() - began)
    return best


def _available_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _container_quota() -> float | None:
    """Processors' worth of time a container may use; None: no limit."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
