"""Which language model the settings mean for this process, and how it is made."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from server.config import Settings
from server.engines.hub_gguf import hub_gguf
from server.engines.llm.transformers_chat import TransformersLlm
from server.engines.llm.xllama import TOOL_BIASES, XllamaLlm
from server.engines.local_llms import (
    DEFAULT_GGUF,
    DEFAULT_TRANSFORMERS,
    LARGE_BYTES,
    gguf_file,
    gguf_of_hub,
    transformers,
    xllama,
)
from server.errors import ConfigError, ModelError
from server.persona import default_persona_path, load_persona

pytestmark = pytest.mark.unit

PERSONA = load_persona(default_persona_path())


def settings(tmp_path: Path, **llm: Any) -> Settings:
    return Settings(model_dir=tmp_path / "models", llm=llm)


def sized(path: Path, size_bytes: int) -> Path:
    """A file of that size that takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


def made(wanted: Settings) -> XllamaLlm:
    engine = xllama(wanted, PERSONA)
    assert isinstance(engine, XllamaLlm)
    return engine


@pytest.mark.parametrize(
    ("size_bytes", "size", "examples"),
    [
        (LARGE_BYTES - 1, "auto", True),
        (LARGE_BYTES, "auto", False),
        (LARGE_BYTES, "small", True),
        (1, "large", False),
    ],
)
def test_a_large_model_is_told_and_a_small_one_is_shown(
    tmp_path: Path, size_bytes: int, size: str, examples: bool
) -> None:
    path = sized(tmp_path / "own.gguf", size_bytes)
    capabilities = made(settings(tmp_path, model=str(path), size=size)).capabilities
    assert (capabilities.wants_examples, capabilities.native_tools) == (examples, False)
    assert capabilities.max_tools == (8 if examples else 16)
    assert capabilities.one_at_a_time


def test_the_size_of_a_model_in_parts_is_that_of_all_parts(tmp_path: Path) -> None:
    parts = [sized(tmp_path / f"own-0000{number}-of-00002.gguf", LARGE_BYTES // 2 + 1) for number in (1, 2)]
    sized(tmp_path / "another-00001-of-00002.gguf", 1)
    assert not made(settings(tmp_path, model=str(parts[0]))).capabilities.wants_examples


def test_a_model_of_the_hub_lies_in_its_own_folder(tmp_path: Path) -> None:
    wanted = settings(tmp_path, model="Qwen/Qwen3-4B-GGUF:Q4_K_M")
    named = gguf_of_hub(wanted)
    assert named is not None
    assert (named.repo, named.quant) == ("Qwen/Qwen3-4B-GGUF", "Q4_K_M")
    path = sized(tmp_path / "models" / "Qwen" / "Qwen3-4B-GGUF" / "Qwen3-4B-Q4_K_M.gguf", 10)
    assert gguf_file(wanted) == path
    assert gguf_of_hub(settings(tmp_path)) is None
    assert gguf_of_hub(settings(tmp_path, model=str(path))) is None


@pytest.mark.parametrize(
    ("model", "code", "told"),
    [
        ("/nowhere/own.gguf", "model_missing", "no model file /nowhere/own.gguf.*owner/name:Q4_K_M"),
        ("own.gguf", "model_missing", "no model file own.gguf"),
        (DEFAULT_GGUF, "model_missing", "stackchan models pull"),
        ("qwen2.5-coder-0.6b", "model_unknown", "Did you mean"),
    ],
)
def test_a_model_that_is_not_here_says_what_to_do(tmp_path: Path, model: str, code: str, told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        xllama(settings(tmp_path, model=model), PERSONA)
    assert caught.value.code == code


def test_a_model_for_something_else_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.engines.downloads.require", lambda folder, model: tmp_path)
    with pytest.raises(ConfigError, match="not a language model in GGUF form"):
        gguf_file(settings(tmp_path, model="silero-vad"))


def test_only_the_model_that_was_measured_has_a_bias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.engines.downloads.require", lambda folder, model: tmp_path)
    path = sized(tmp_path / "model.gguf", 10)
    assert made(settings(tmp_path))._tool_bias == TOOL_BIASES[DEFAULT_GGUF] != 0
    assert made(settings(tmp_path, model=str(path)))._tool_bias == 0


def test_a_folder_is_made_into_an_engine_of_transformers(tmp_path: Path) -> None:
    folder = tmp_path / "qwen"
    for name in ("config.json", "model.safetensors"):
        sized(folder / name, 2)
    engine = transformers(settings(tmp_path, model=str(folder), context_tokens=4096, tools="written"), PERSONA)
    assert isinstance(engine, TransformersLlm)
    capabilities = engine.capabilities
    assert (capabilities.context_tokens, capabilities.native_tools, capabilities.wants_examples) == (4096, False, False)
    assert capabilities.one_at_a_time
    with pytest.raises(ModelError, match="Qwen3-4B-Instruct-2507"):
        transformers(settings(tmp_path), PERSONA)


def test_the_settings_on_the_page_are_ones(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "local-models.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    named = []
    for block in blocks:
        # What is only shown as another way stands behind a mark.
        for text in (block, re.sub(r"(?m)^model.*\n# (model = \"[^\"]*\").*", r"\1", block)):
            named.append(Settings(model_dir=tmp_path, **tomllib.loads(text)).llm)
    models = {(llm.engine, str(hub_gguf(llm.model or "") or llm.model)) for llm in named}
    assert (None, "Qwen/Qwen3-4B-GGUF:Q4_K_M") in models
    assert (None, "Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf") in models
    assert ("transformers", DEFAULT_TRANSFORMERS) in models
