"""Models of the hub by id: found here or not, whole or not, without the network; and what is said then."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from server.config import Settings
from server.engines.hub_models import hub_folder, is_hub_id, missing_files, pull_hub_model
from server.engines.registry import hub_models
from server.errors import ModelError

pytestmark = pytest.mark.unit

MODEL = "Qwen/Qwen3-ASR-0.6B-hf"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return Settings(data_dir=tmp_path / "data", model_dir=tmp_path / "models")


def write_model(folder: Path, *, shards: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    names = [f"model-{n}.safetensors" for n in range(shards)] or ["model.safetensors"]
    for name in names:
        (folder / name).write_bytes(b"weights")
    if shards:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {f"w{n}": n for n in names}}))
    return folder


def cached(settings: Settings, **made: Any) -> Path:
    repo = settings.model_dir.parent / "hub" / "models--Qwen--Qwen3-ASR-0.6B-hf"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    return write_model(repo / "snapshots" / COMMIT, **made)


def test_a_model_is_found_in_the_hubs_cache(settings: Settings) -> None:
    folder = cached(settings)
    assert hub_folder(settings, MODEL) == folder


def test_what_was_put_into_the_model_folder_by_hand_comes_first(settings: Settings) -> None:
    cached(settings)
    own = write_model(settings.model_dir / MODEL, shards=2)
    assert hub_folder(settings, MODEL) == own


@pytest.mark.parametrize("form", ["{}", "{}/"])
def test_a_folder_given_by_path_is_taken_as_it_is(form: str, settings: Settings, tmp_path: Path) -> None:
    own = write_model(tmp_path / "私のモデル")
    assert hub_folder(settings, form.format(own)) == own


def test_a_model_that_is_not_here_says_how_to_get_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=MODEL) as caught:
        hub_folder(settings, MODEL)
    assert caught.value.code == "model_missing"
    assert "stackchan models pull" in str(caught.value)
    assert str(settings.model_dir / MODEL) in str(caught.value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        hub_folder(settings, MODEL)


@pytest.mark.parametrize("lost", ["config.json", "model-1.safetensors", "model.safetensors.index.json"])
def test_half_a_model_is_told_by_what_it_lacks(lost: str, settings: Settings) -> None:
    folder = cached(settings, shards=2)
    if lost == "model.safetensors.index.json":
        (folder / lost).write_text("[]")
    else:
        (folder / lost).unlink()
    with pytest.raises(ModelError, match=lost) as caught:
        hub_folder(settings, MODEL)
    assert (caught.value.code, missing_files(folder)) == ("model_missing", [lost])


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("whisper-base", "model_unknown"),
        ("", "model_unknown"),
        ("/nowhere/at/all", "model_missing"),
        ("a/b/c", "model_missing"),
        ("../weights", "model_missing"),
        ("Qwen\\model", "model_missing"),
        ("Qwen/日本語", "model_missing"),
    ],
)
def test_what_can_be_no_model_is_refused_with_a_next_step(model: str, code: str, settings: Settings) -> None:
    assert not is_hub_id(model)
    with pytest.raises(ModelError) as caught:
        hub_folder(settings, model)
    assert caught.value.code == code
    assert caught.value.hint


def test_other_files_than_a_whole_model_can_be_wanted(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    with pytest.raises(ModelError, match=r"\*Q4_K_M.gguf"):
        hub_folder(settings, str(folder), patterns=("*Q4_K_M.gguf",))
    (folder / "qwen-Q4_K_M.gguf").write_bytes(b"GGUF")
    assert hub_folder(settings, str(folder), patterns=("*Q4_K_M.gguf",)) == folder


def test_the_hub_models_of_the_chosen_engines_are_known(tmp_path: Path) -> None:
    chosen = Settings(asr={"engine": "qwen3-asr"})  # type: ignore[arg-type]
    assert hub_models(chosen) == [MODEL]
    other = Settings(asr={"engine": "qwen3-asr", "model": "Qwen/Qwen3-ASR-1.7B-hf"})  # type: ignore[arg-type]
    assert hub_models(other) == ["Qwen/Qwen3-ASR-1.7B-hf"]
    own = Settings(asr={"engine": "qwen3-asr", "model": str(tmp_path)})  # type: ignore[arg-type]
    assert hub_models(own) == []
    assert hub_models(Settings()) == []


# --- bringing one here ---


def test_nothing_is_fetched_where_the_hub_is_switched_off(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.snapshot_download", pytest.fail)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE") as caught:
        pull_hub_model(MODEL)
    assert caught.value.code == "model_download_failed"


def test_only_what_is_needed_is_fetched_and_no_token_is_sent(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(model: str, **options: Any) -> str:
        asked.update(options, model=model)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert pull_hub_model(MODEL) == tmp_path
    assert (asked["model"], asked["token"]) == (MODEL, False)
    assert "*.safetensors" in asked["allow_patterns"]
    assert not [pattern for pattern in asked["allow_patterns"] if "bin" in pattern or "gguf" in pattern]


def failures() -> list[tuple[Exception, str]]:
    import httpx2
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    gone = httpx2.Response(404, request=httpx2.Request("GET", "https://hub.invalid"))
    return [
        (RepositoryNotFoundError("no such repository", response=gone), "model_unknown"),
        (LocalEntryNotFoundError("cannot reach it\nand more"), "model_download_failed"),
        (httpx2.ConnectTimeout("slow"), "model_download_failed"),
        (OSError(errno.ENOSPC, "full"), "model_disk_full"),
        (PermissionError(errno.EACCES, "no"), "model_download_failed"),
    ]


@pytest.mark.parametrize(("error", "code"), failures(), ids=lambda value: type(value).__name__)
def test_why_it_did_not_come_is_told_with_a_next_step(
    error: Exception, code: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*arguments: Any, **options: Any) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(ModelError) as caught:
        pull_hub_model(MODEL)
    assert caught.value.code == code
    assert caught.value.next_step
    assert "\n" not in caught.value.message
