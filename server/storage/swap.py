"""Puts prepared files in the place of others: all of them or none, whatever kills the process in between.

The plan is written down first. What a killed process left half done is finished by `finish_swap`, before anything in
the data folder is opened. Knows paths only, not what is in them.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from server.errors import StorageError

PLAN = "restore-plan.json"
_log = logging.getLogger(__name__)


class Step(BaseModel):
    """A rename, relative to the data folder. `aside`: of what is there, if it is; else of what takes its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    target: str
    aside: bool


class Plan(BaseModel):
    """What to rename, in this order, and the folder that is of no use then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    steps: list[Step]


def swap(data_dir: Path, stage: Path, aside: Path, places: Sequence[Path]) -> None:
    """Move what is at `places` in `data_dir` to `aside`, which is not there yet, and what is in `stage` there.

    The three folders are on one disk, `stage` and `aside` in `data_dir`. Raises `OSError` and puts everything back; a
    process that is killed has done it all once `finish_swap` has run.
    """
    steps: list[Step] = []
    for place in places:
        if os.path.lexists(data_dir / place):
            steps.append(_step(data_dir, data_dir / place, aside / place, aside=True))
        steps.append(_step(data_dir, stage / place, data_dir / place, aside=False))
    _flush(stage)
    plan = data_dir / PLAN
    written = stage / PLAN
    written.write_text(Plan(stage=stage.name, steps=steps).model_dump_json(indent=1), encoding="utf-8")
    _sync(written)
    done: list[Step] = []
    try:
        written.rename(plan)
        _sync(data_dir)
        for step in steps:
            _move(data_dir, step)
            done.append(step)
        _flush_folders(data_dir, steps)
    except OSError:
        for step in reversed(done):
            (data_dir / step.target).rename(data_dir / step.source)
        plan.unlink(missing_ok=True)
        _sync(data_dir)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    plan.unlink()


def finish_swap(data_dir: Path) -> None:
    """Finish what a killed `swap` began; nothing when there is nothing. The caller holds the data folder. Blocks.

    Raises `StorageError`, or `OSError`: rather no start than one without what was said.
    """
    path = data_dir / PLAN
    if not os.path.lexists(path):
        return
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except ValidationError:
        raise StorageError(
            f"{path} cannot be read: a restore was cut off here.",
            hint=f"Look into {data_dir} for folders named replaced-… and backup.partial-…, then remove the file.",
        ) from None
    if not (data_dir / plan.stage).is_dir():
        # It goes after the plan does: all is done, or all was put back.
        path.unlink()
        return
    for step in plan.steps:
        # The name aside is new, and what is prepared is nowhere else: so it can be seen which are done.
        if os.path.lexists(data_dir / step.target) if step.aside else not os.path.lexists(data_dir / step.source):
            continue
        _move(data_dir, step)
    _flush_folders(data_dir, plan.steps)
    path.unlink()
    shutil.rmtree(data_dir / plan.stage, ignore_errors=True)
    aside = next((step.target.partition("/")[0] for step in plan.steps if step.aside), None)
    _log.warning(
        "a restore that was cut off is finished; what was there before is in %s / 中断した復元を終えました",
        data_dir / aside if aside else "no place: there was nothing",
    )


def _step(data_dir: Path, source: Path, target: Path, *, aside: bool) -> Step:
    return Step(
        source=source.relative_to(data_dir).as_posix(), target=target.relative_to(data_dir).as_posix(), aside=aside
    )


def _move(data_dir: Path, step: Step) -> None:
    target = data_dir / step.target
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data_dir / step.source).rename(target)


def _flush(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        _sync(path)


def _flush_folders(data_dir: Path, steps: Iterable[Step]) -> None:
    places = [data_dir / place for step in steps for place in (step.source, step.target)]
    for folder in sorted({path.parent for path in places} | {data_dir}):
        if folder.is_dir():
            _sync(folder)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
