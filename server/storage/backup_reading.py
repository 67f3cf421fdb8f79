"""Reads a backup's tar: every file of it checked, and only names that a backup has are ever made.

Knows nothing of what is in the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ValidationError

from server.errors import StorageError
from server.storage.backup import BLOCK_BYTES, MANIFEST, PERSONA, VERSION, FileEntry, Manifest, disk_errors
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS

_NAME = re.compile(rf"(?:{SERVER_DATABASE}|{PERSONA}|{WORLDS}/[A-Za-z0-9._-]{{1,64}}/{SESSION_DATABASE})\Z")
_MANIFEST_BYTES_LIMIT = 1024 * 1024
_PIECE_BYTES = 1024 * 1024


def unpack(file: Path, stage: Path) -> Manifest:
    """Every file of the tar into the folder `stage`. Blocks.

    Raises `StorageError`: `backup_foreign`, `backup_damaged`, `storage_newer`, `storage_full`, `storage_failed`.
    """
    with disk_errors(file), file.open("rb") as tar:
        try:
            first = _next_member(tar)
        except StorageError:  # not even its beginning is one
            raise _foreign(file) from None
        if first is None or first.name != MANIFEST or first.size > _MANIFEST_BYTES_LIMIT:
            raise _foreign(file)
        manifest = _manifest(_content(tar, first.size), file)
        wanted = {entry.name: entry for entry in manifest.files}
        _check_names(manifest.files)
        needed = sum(entry.size for entry in manifest.files)
        if 2 * needed > shutil.disk_usage(stage).free:
            raise StorageError(
                f"The backup needs {2 * needed} bytes, more than are free.",
                code="storage_full",
                hint="Free some space, or restore into a folder on another disk with STACKCHAN_DATA_DIR.",
            )
        while (member := _next_member(tar)) is not None:
            entry = wanted.pop(member.name, None)
            if entry is None or entry.size != member.size:
                raise damaged_backup(f"{member.name[:100]!r} is not as its manifest says")
            target = stage / entry.name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy_out(tar, entry, target)
    if wanted:
        raise damaged_backup(f"{', '.join(sorted(wanted))[:200]} is missing")
    return manifest


def _next_member(tar: BinaryIO) -> tarfile.TarInfo | None:
    """The next header; None at the end. Plain files only: no links, no folders, no extensions, whatever they name."""
    block = tar.read(BLOCK_BYTES)
    if block.count(0) == BLOCK_BYTES:
        return None
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeError):
        raise damaged_backup("it ends too early, or is no plain tar") from None
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
        raise damaged_backup(f"{info.name[:100]!r} is no plain file")
    return info


def _content(tar: BinaryIO, size: int) -> bytes:
    content = tar.read(size)
    tar.read(-size % BLOCK_BYTES)
    return content


def _copy_out(tar: BinaryIO, entry: FileEntry, target: Path) -> None:
    digest, left = hashlib.sha256(), entry.size
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while left:
            piece = tar.read(min(left, _PIECE_BYTES))
            if not piece:
                raise damaged_backup(f"it ends within {entry.name}")
            digest.update(piece)
            out.write(piece)
            left -= len(piece)
    tar.read(-entry.size % BLOCK_BYTES)
    if digest.hexdigest() != entry.sha256:
        raise damaged_backup(f"{entry.name} was changed: its SHA-256 is not the manifest's")


def _manifest(content: bytes, file: Path) -> Manifest:
    class Claim(BaseModel):
        format: str
        version: int

    try:
        claim = Claim.model_validate_json(content)
    except ValidationError:
        raise _foreign(file) from None
    if claim.format != "stackchan-backup":
        raise _foreign(file)
    if claim.version > VERSION:
        raise StorageError(
            f"The backup has version {claim.version}, this server reads up to {VERSION}.",
            code="storage_newer",
            hint="Restore it with the version of the server that made it, or a newer one.",
        )
    try:
        return Manifest.model_validate_json(content)
    except ValidationError:
        raise damaged_backup("its manifest cannot be read") from None


def _check_names(files: Sequence[FileEntry]) -> None:
    names = [entry.name for entry in files]
    odd = [name for name in names if not _NAME.match(name) or "/." in name]
    if odd or len(set(names)) != len(names):
        raise damaged_backup(f"its manifest names {odd[0][:100]!r}" if odd else "its manifest names a file twice")
    if SERVER_DATABASE not in names or not any(name.startswith(f"{WORLDS}/") for name in names):
        raise damaged_backup("a database is missing in it")


def _foreign(file: Path) -> StorageError:
    return StorageError(
        f"{file.name} is no backup of this server.", code="backup_foreign", hint="Give what `stackchan backup` wrote."
    )


def damaged_backup(what: str) -> StorageError:
    """The error for a backup that cannot be trusted."""
    return StorageError(
        f"The backup is damaged: {what}.", code="backup_damaged", hint="Nothing was changed. Use another backup."
    )
