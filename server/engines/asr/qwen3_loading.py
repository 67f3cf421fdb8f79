"""Loads a Qwen3-ASR through transformers' own classes and makes it `Ears`: where it runs, and with which numbers.

`auto` takes CUDA, else Apple's MPS, else the processor. On the processor the matrices are int8 where that is fast
(`torch_int8.py`): reading the weights is most of the time of a token, and bfloat16 was four times slower than float32
there. On a graphics processor float32 and bfloat16 are timed on the two products that hearing consists of, one position
and a hundred through a layer, and the faster one is taken. Files come from a folder; nothing here asks the network.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, Literal

from server.engines.asr.dense import float_dense, int8_dense
from server.engines.asr.qwen3_decoder import Decoder
from server.engines.asr.qwen3_ears import Ears
from server.engines.asr.qwen3_encoder import AudioEncoder
from server.engines.asr.qwen3_features import LogMel
from server.engines.asr.qwen3_prompt import PromptWriter
from server.engines.torch_int8 import is_fast, quantize_linears
from server.errors import AsrError, ModelError

_log = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda", "mps"]
Numbers = Literal["auto", "float32", "bfloat16", "int8"]
_MODEL_TYPE = "qwen3_asr"
_TIMED_ROUNDS = 20


def check_folder(folder: Path) -> None:
    """Raises `ModelError` when what lies there is no Qwen3-ASR for transformers; imports nothing."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"The model in {folder} has no readable config.json.", hint="Give its whole folder."
        ) from error
    if not isinstance(config, dict) or config.get("model_type") != _MODEL_TYPE or "audio_config" not in config:
        raise ModelError(
            f"The model in {folder} is no Qwen3-ASR that transformers can load.",
            code="model_unknown",
            hint="Take one whose name ends in -hf, such as Qwen/Qwen3-ASR-0.6B-hf.",
        )


def load(folder: Path, *, device: Device, numbers: Numbers, threads: int | None) -> Ears:
    """Read the model, on the thread that will use it. Raises `AsrError`, `ModelError`, and what torch raises."""
    check_folder(folder)
    import torch
    from transformers import AutoModelForMultimodalLM, AutoProcessor

    if threads is not None:
        torch.set_num_threads(threads)
    place = _device(torch, device)
    kind = _numbers(torch, place, numbers)
    started = time.perf_counter()
    processors: Any = AutoProcessor
    processor = processors.from_pretrained(folder, local_files_only=True)
    # The checkpoint's own numbers first: int8 is made of them layer by layer, so that they never lie here as float32.
    dtype = "auto" if kind == "int8" else getattr(torch, kind)
    model = AutoModelForMultimodalLM.from_pretrained(folder, local_files_only=True, dtype=dtype).eval().to(place)
    ears = _ears(torch, model, processor, kind)
    _log.info("%s on %s with %s, loaded in %.1f s", folder.name, place, kind, time.perf_counter() - started)
    return ears


def _ears(torch: Any, model: Any, processor: Any, kind: str) -> Ears:
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = model.config.eos_token_id if ends is None else ends
    between = torch.float32 if kind == "int8" else getattr(torch, kind)
    with torch.inference_mode():
        if kind == "int8":
            quantize_linears(model.model.audio_tower)
            quantize_linears(model.model.multi_modal_projector)
        model.model.audio_tower.to(between)
        model.model.multi_modal_projector.to(between)
        decoder = Decoder(model, int8_dense if kind == "int8" else float_dense, between)
        encoder = AudioEncoder(model, LogMel(processor.feature_extractor))
    return Ears(encoder, decoder, PromptWriter(processor), frozenset([ends] if isinstance(ends, int) else ends))


def _device(torch: Any, device: Device) -> str:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[device]:
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise AsrError(
            f"There is no {device} on this machine, or this torch does not know it.",
            code="engine_unavailable",
            hint=f"Set asr.device to auto, or one of: {found}.",
        )
    return device


def _numbers(torch: Any, device: str, numbers: Numbers) -> str:
    if numbers == "int8" and device != "cpu":
        raise AsrError(
            f"int8 is for the processor; this runs on {device}.",
            code="engine_unavailable",
            hint="Set asr.dtype to auto, or asr.device to cpu.",
        )
    if numbers != "auto":
        return numbers
    if device == "cpu":
        return "int8" if is_fast() else "float32"
    seconds = {name: _seconds(torch, device, getattr(torch, name)) for name in ("float32", "bfloat16")}
    return min(seconds, key=seconds.__getitem__)


def _seconds(torch: Any, device: str, dtype: Any) -> float:
    """How long one position and a hundred take through a matrix of a layer's size."""
    wait = torch.cuda.synchronize if device == "cuda" else torch.mps.synchronize
    matrix = torch.ones((3072, 1024), device=device, dtype=dtype)
    inputs = [torch.ones((positions, 1024), device=device, dtype=dtype) for positions in (1, 100)]
    for rounds in (2, _TIMED_ROUNDS):  # the first ones choose kernels
        started = time.perf_counter()
        for _ in range(rounds):
            for one in inputs:
                torch.nn.functional.linear(one, matrix)
        wait()
    return time.perf_counter() - started
