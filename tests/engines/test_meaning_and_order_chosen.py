"""Which embedding and which reranker the settings choose, where they run, and what is said when they cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.config import Settings
from server.engines.base import Engines
from server.engines.embedding.qwen3_embedding import TASK, Qwen3Embedding
from server.engines.embedding.separate import SeparateEmbedding
from server.engines.registry import embedding_here, engine_names, find_engine, hub_models
from server.engines.rerank.qwen3_reranker import Qwen3Reranker
from server.errors import ConfigError, ModelError
from server.persona import load_persona
from tests.fakes.engines import fake_engines

pytestmark = pytest.mark.unit

PERSONA = load_persona(Path(__file__).resolve().parent.parent.parent / "persona.yaml")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder as far as it is looked at before the start."""
    folder = tmp_path / "Qwen3-Embedding-0.6B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3", "hidden_size": 1024}))
    (folder / "model.safetensors").touch()
    return folder


def settings(tmp_path: Path, **sections: Any) -> Settings:
    return Settings(model_dir=tmp_path / "models", **sections)


@pytest.mark.parametrize("process", ["inline", "separate"])
def test_the_embedding_knows_its_vectors_before_it_is_loaded(tmp_path: Path, model: Path, process: str) -> None:
    wanted = {"engine": "qwen3-embedding", "model": str(model), "dimensions": 256, "process": process}
    chosen = settings(tmp_path, embedding=wanted)
    engine = find_engine(chosen, "embedding").build(chosen, PERSONA)
    assert isinstance(engine, SeparateEmbedding if process == "separate" else Qwen3Embedding)
    assert engine.name == "qwen3-embedding"
    found = engine.fingerprint
    assert (found.model, found.dimensions, found.instruction) == ("Qwen3-Embedding-0.6B", 256, TASK)
    assert hub_models(chosen) == []


def test_what_the_other_process_makes_is_what_is_made_here(tmp_path: Path, model: Path) -> None:
    wanted = {"engine": "qwen3-embedding", "model": str(model), "dimensions": 64, "process": "separate"}
    there = embedding_here("qwen3-embedding", str(tmp_path), json.loads(json.dumps(wanted)))
    assert isinstance(there, Qwen3Embedding)
    assert there.fingerprint.dimensions == 64


def test_the_models_of_the_hub_are_named_and_what_is_missing_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    chosen = settings(tmp_path, embedding={"engine": "qwen3-embedding"}, rerank={"engine": "qwen3-reranker"})
    assert hub_models(chosen) == ["Qwen/Qwen3-Embedding-0.6B", "Qwen/Qwen3-Reranker-0.6B"]
    for kind, name in (("embedding", "Qwen/Qwen3-Embedding-0.6B"), ("rerank", "Qwen/Qwen3-Reranker-0.6B")):
        with pytest.raises(ModelError, match="models pull") as caught:
            find_engine(chosen, kind).build(chosen, PERSONA)
        assert name in caught.value.message


def test_more_dimensions_than_the_model_has_are_refused(tmp_path: Path, model: Path) -> None:
    wanted = {"engine": "qwen3-embedding", "model": str(model), "dimensions": 2048}
    chosen = settings(tmp_path, embedding=wanted)
    with pytest.raises(ConfigError, match=r"1024, not 2048.*Set it to 1024 or less"):
        find_engine(chosen, "embedding").build(chosen, PERSONA)


def test_there_is_no_reranker_unless_one_is_wanted(tmp_path: Path, model: Path) -> None:
    assert "rerank" not in engine_names(settings(tmp_path))
    assert "rerank" not in engine_names(settings(tmp_path, profile="qwen"))
    chosen = settings(tmp_path, rerank={"engine": "qwen3-reranker", "model": str(model)})
    assert engine_names(chosen)["rerank"] == "qwen3-reranker"
    assert isinstance(find_engine(chosen, "rerank").build(chosen, PERSONA), Qwen3Reranker)


def test_a_reranker_lives_with_the_other_engines() -> None:
    without: Engines = fake_engines()
    assert list(without.by_kind()) == ["vad", "asr", "llm", "tts", "embedding"]
    judge = fake_engines().tts
    assert list(fake_engines(rerank=judge).by_kind()) == ["vad", "asr", "llm", "tts", "embedding", "rerank"]
    assert fake_engines(rerank=judge).all()[-1] is judge
