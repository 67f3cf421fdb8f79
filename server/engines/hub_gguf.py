"""Language models in GGUF form from the model hub: which files a name means, where they lie, how they come here.

`owner/name`, `owner/name:Q4_K_M` (a quantisation) or `owner/name/file.gguf`. They lie in `<model_dir>/owner/name`, and
are fetched as the catalogue's models are: resumed, proven by the SHA-256 that the hub tells, with room looked for
before. A model in several parts comes whole. Looking never touches the network. Knows no model library.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from server.engines import downloads
from server.engines.catalogue import Catalogue, HubFile, ModelEntry, ModelFile
from server.engines.hub import Hub, HubMiss, ListedFile, NoSuchRepository, is_offline
from server.errors import ModelError

_NAME = r"[A-Za-z0-9][\w.-]{0,95}"
_MODEL = re.compile(rf"(?P<repo>{_NAME}/{_NAME})(?::(?P<quant>[\w.-]{{1,32}})|/(?P<file>[\w./-]{{1,255}}\.gguf))?")
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
# What stands in a file's name for its quantisation, with the mark of those that keep some layers finer.
_QUANT = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:(?:I?Q|TQ|MXFP)\d(?:_[A-Z0-9]{1,3})*|BF16|FP?16|FP?32))(?![A-Za-z0-9])", re.IGNORECASE
)
_USUAL_QUANTS = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0")
"""In the order in which they are taken where none is named: small enough, and nearly as good as the whole model."""
_NO_MODEL = ("mmproj", "imatrix")
"""Files in the same form that are something else."""


@dataclass(frozen=True, slots=True)
class HubGguf:
    """A model as its owner names it. Neither `quant` nor `file`: a usual quantisation."""

    repo: str
    quant: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.repo}/{self.file}" if self.file else f"{self.repo}:{self.quant}" if self.quant else self.repo

    def choose(self, paths: Iterable[str]) -> list[str]:
        """The files among these that make this model, in order: more than one where it comes in parts; none."""
        whole: dict[str, list[str]] = {}
        for path in sorted(paths):
            name = PurePosixPath(path).name.lower()
            if name.endswith(".gguf") and not any(word in name for word in _NO_MODEL):
                whole.setdefault(_PART.sub(".gguf", path), []).append(path)
        if self.file is not None:
            wanted = [_PART.sub(".gguf", self.file)]
        else:
            quants = [self.quant] if self.quant else _USUAL_QUANTS
            wanted = next((found for quant in quants if (found := _with_quant(whole, quant))), [])
            if not wanted and self.quant is None and len(whole) == 1:
                wanted = list(whole)
        return whole.get(wanted[0], []) if wanted else []


def hub_gguf(model: str) -> HubGguf | None:
    """The hub's model that this names; None for a path, or what can be no name of one."""
    named = _MODEL.fullmatch(model)
    if named is None or model.startswith(("./", "../", "~")) or Path(model).expanduser().exists():
        return None
    return HubGguf(named["repo"], named["quant"], named["file"])


def find_gguf(model_dir: Path, model: HubGguf) -> Path:
    """The file to load, the first of its parts, on this machine. Raises `ModelError` `model_missing`."""
    folder = model_dir / model.repo
    here = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.gguf")} if folder.is_dir() else {}
    named = HubGguf(model.repo, model.quant, _local_name(model.file)) if model.file else model
    chosen = model.choose(here) or named.choose(here)
    cached = _cached(model) if not chosen else None
    if cached is not None:
        return cached
    pull = f"Run: stackchan models pull {model}"
    if is_offline():
        pull += " (with HF_HUB_OFFLINE unset)"
    if not chosen:
        raise ModelError(f"The model {model} is not on this machine.", hint=f"{pull}; or put its file into {folder}.")
    if missing := _missing_parts(chosen):
        raise ModelError(f"The model {model} in {folder} lacks {', '.join(missing[:4])}.", hint=f"{pull}.")
    return here[chosen[0]]


def pull_gguf(
    model_dir: Path,
    model: HubGguf,
    progress: downloads.ProgressListener | None = None,
    *,
    options: downloads.PullOptions | None = None,
) -> Path:
    """Bring a model's files here, whole and proven, and return the one to load; what is here is not fetched again.

    Raises `ModelError`: `model_unknown` when the hub has no such model or quantisation, and what `downloads.pull` does.
    """
    settings = options or downloads.PullOptions()
    hub = Hub(settings.hub_timeout_seconds)
    try:
        listed = {file.path: file for file in hub.large_files(model.repo)}
    except NoSuchRepository as miss:
        raise ModelError(
            f"{model} cannot be fetched: {miss}.",
            code="model_unknown",
            hint="Check the spelling of owner/name; a model that needs a login is fetched by hand.",
        ) from miss
    except HubMiss as miss:
        raise ModelError(
            f"{model} cannot be fetched: {miss}.",
            code="model_download_failed",
            retryable=True,
            hint="Check the network (HF_ENDPOINT names another hub), or set the path of a GGUF file in llm.model.",
        ) from miss
    chosen = model.choose(listed)
    if not chosen:
        raise ModelError(f"{model.repo} has no such file for {model}.", code="model_unknown", hint=_offers(listed))
    entry = _entry(model, [listed[path] for path in chosen])
    downloads.pull([entry.id], model_dir, progress, sources=("hub",), options=settings, catalogue=Catalogue((entry,)))
    return model_dir / model.repo / _local_name(chosen[0])


def parts_of(path: Path) -> list[Path]:
    """The files of a model whose first, or only, part this is."""
    part = _PART.search(path.name)
    if part is None:
        return [path]
    return sorted(path.parent.glob(f"{glob.escape(path.name[: part.start()])}-*-of-{part[2]}.gguf"))


def _entry(model: HubGguf, files: Sequence[ListedFile]) -> ModelEntry:
    """The model as one of a catalogue's."""
    return ModelEntry(
        id=model.repo,
        kind="llm",
        title=str(model),
        licence="its owner's",
        files=tuple(
            ModelFile(_local_name(file.path), file.size_bytes, file.sha256, HubFile(model.repo, file.path))
            for file in files
        ),
    )


def _local_name(path: str) -> str:
    """What a file of the hub is called here, where all lie in one folder: so that its quantisation can be told."""
    name = PurePosixPath(path).name
    return name if _quants(name) or not _quants(path) else path.replace("/", "-")


def _with_quant(paths: Iterable[str], quant: str) -> list[str]:
    """Those whose name tells this quantisation; the plainest name first."""
    wanted = quant.lower()
    return sorted((path for path in paths if wanted in _quants(path)), key=len)


def _quants(path: str) -> list[str]:
    found = [quant.lower() for quant in _QUANT.findall(path.removesuffix(".gguf"))]
    return [*found, *(quant.removeprefix("ud-") for quant in found if quant.startswith("ud-"))]


def _missing_parts(paths: Sequence[str]) -> list[str]:
    """Which parts of a model are not among these."""
    part = _PART.search(paths[0])
    if part is None:
        return []
    begin, count = paths[0][: part.start()], part[2]
    every = [f"{begin}-{number:05}-of-{count}.gguf" for number in range(1, int(count) + 1)]
    return [path for path in every if path not in paths]


def _offers(listed: Iterable[str]) -> str:
    """What the repository has instead."""
    files = [path for path in listed if path.endswith(".gguf")]
    quants = sorted({quant.upper() for path in files for quant in _quants(path)})
    if quants:
        return f"It has: {', '.join(quants)}."
    if files:
        return f"It has: {', '.join(sorted(files)[:8])}."
    return "It has no GGUF file at all; repositories that do are mostly called …-GGUF."


def _cached(model: HubGguf) -> Path | None:
    """The model in the hub's own cache, which other programs share."""
    # Imported here: it takes a while, and only such a model needs it.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model.repo, allow_patterns=["*.gguf"], local_files_only=True, token=False))
    except LocalEntryNotFoundError:
        return None
    here = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.gguf")}
    chosen = model.choose(here)
    return here[chosen[0]] if chosen and not _missing_parts(chosen) else None
