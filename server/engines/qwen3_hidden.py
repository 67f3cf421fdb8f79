"""A Qwen3 decoder without its end: token ids in, the hidden state of the last token out.

Both the embedding and the reranker are such a decoder with another last step, so how it is loaded, padded and cached
lives here once: left padding, a beginning that many texts share read only once, weights in the form this processor
multiplies fastest. Everything runs on the thread of whoever owns it. Knows no prompt, and no meaning of the states.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from server.engines.torch_int8 import is_fast, quantize_linears
from server.errors import ConfigError, ModelError

Dtype = Literal["auto", "int8", "bfloat16", "float32"]
END = "<|endoftext|>"
_CHARACTERS_A_TOKEN = 16
"""More than any writing needs: what is longer is cut before it is split into tokens."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What texts share, already read: its length in tokens, and each layer's keys and values, shape (1, …)."""

    length: int
    layers: tuple[tuple[Any, Any], ...]


class Qwen3Hidden:
    """`folder`: a whole model. `threads`: of the calling thread's work in torch; None: torch's own choice.

    `head_of`: tokens whose weights of the last step are wanted. `on_pause` is called between two layers. Raises
    `ModelError` when the folder holds another model, `ConfigError` for what a device cannot do.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str,
        dtype: Dtype,
        threads: int | None = None,
        head_of: Sequence[str] = (),
        on_pause: Callable[[], None] | None = None,
    ) -> None:
        import torch
        from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        if device != "cpu" and dtype == "int8":
            raise ConfigError("int8 is for the processor.", hint="Set device to cpu, or dtype to auto.")
        device = chosen_device(device)
        self._torch = torch
        if threads is not None:
            torch.set_num_threads(threads)
        library_log: Any = logging
        library_log.disable_progress_bar()
        loader = AutoModelForCausalLM if head_of else AutoModel
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            whole = loader.from_pretrained(folder, dtype="auto", local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder} cannot be loaded: {error}", hint="Fetch the model again.") from error
        if whole.config.model_type != "qwen3":
            raise ModelError(f"{folder} holds a model of the kind {whole.config.model_type}, not qwen3.")
        self.dtype = best_dtype(device) if dtype == "auto" else dtype
        self.device = device
        self._compute = torch.bfloat16 if self.dtype == "bfloat16" else torch.float32
        self._model = (whole.model if head_of else whole).eval()
        self._to_fastest_form()
        self.head: Any = None
        """Of the tokens of `head_of`: their weights in the last step, float32, shape (len(head_of), hidden)."""
        if head_of:
            rows = [self._token_id(name) for name in head_of]
            self.head = whole.lm_head.weight.detach()[rows].float().to(device)
        for layer in self._model.layers:
            if on_pause is not None:
                layer.register_forward_pre_hook(lambda *_: on_pause())
        self.end_id = self._token_id(END)

    def _token_id(self, name: str) -> int:
        """Raises `ModelError` for what is not one token."""
        known = self.tokenizer.get_vocab()
        if name not in known:
            raise ModelError(f"The tokenizer does not know {name}.", hint="Is it the right model? Fetch it again.")
        return int(known[name])

    def _to_fastest_form(self) -> None:
        """The table of words stays as it was stored: it is looked up, not multiplied, and half of the memory."""
        torch, model = self._torch, self._model
        with torch.inference_mode():
            for part in (*model.layers, model.norm):
                if self.dtype == "int8":
                    quantize_linears(part)
                part.to(self._compute)
            if self._compute != torch.bfloat16:
                # A copy: the stored one would keep the whole file in memory, of which nothing else is used any more.
                model.embed_tokens.weight.data = model.embed_tokens.weight.data.clone()
            model.to(self.device)
        _give_back_memory()

    def tokens(self, text: str, most: int) -> list[int]:
        """The ids of words, at most `most`: what looks like a control token in them is only words."""
        text = plain(text[: most * _CHARACTERS_A_TOKEN])
        ids = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return list(ids[:most])

    def control(self, text: str) -> list[int]:
        """The ids of a prompt's own text, with its control tokens."""
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=False)["input_ids"])

    def read(self, ids: Sequence[int], after: Beginning | None = None) -> Beginning:
        """Read what many texts begin with, once."""
        from transformers import DynamicCache

        cache = self._cache(after, 1) or DynamicCache()
        self._run([list(ids)], after, cache)
        length = len(ids) + (after.length if after is not None else 0)
        return Beginning(length, tuple((layer[0], layer[1]) for layer in cache))

    def last(self, texts: Sequence[Sequence[int]], after: Beginning | None = None) -> Any:
        """The state of each text's last token, float32, shape (len(texts), hidden); no text may be empty."""
        return self._run(texts, after, self._cache(after, len(texts)))[:, -1].float()

    def _run(self, texts: Sequence[Sequence[int]], after: Beginning | None, cache: Any) -> Any:
        torch = self._torch
        width = max(map(len, texts))
        begun = after.length if after is not None else 0
        ids = torch.tensor([[self.end_id] * (width - len(text)) + list(text) for text in texts])
        given: dict[str, Any] = {}
        if any(len(text) < width for text in texts) or begun:
            pads = torch.tensor([width - len(text) for text in texts])[:, None]
            places = torch.arange(width)[None]
            mask = torch.cat([torch.ones(len(texts), begun, dtype=torch.long), (places >= pads).long()], dim=1)
            # Counted without the padding, which stands between what was read before and the text.
            given["position_ids"] = ((places - pads).clamp(min=0) + begun).to(self.device)
            given["attention_mask"] = mask.to(self.device)
        with torch.inference_mode():
            words = self._model.embed_tokens(ids.to(self.device)).to(self._compute)
            out = self._model(inputs_embeds=words, cache=cache, use_cache=cache is not None, **given)
            return out.last_hidden_state

    def _cache(self, after: Beginning | None, count: int) -> Any:
        """A copy that grows, for so many texts; None when nothing was read."""
        from transformers import DynamicCache

        if after is None:
            return None
        one = [(key.expand(count, -1, -1, -1), value.expand(count, -1, -1, -1)) for key, value in after.layers]
        return DynamicCache(one)


def plain(text: str) -> str:
    """`text` without lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def _give_back_memory() -> None:
    """Of what loading needed for a moment glibc keeps hundreds of megabytes, if it is not told."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def chosen_device(wanted: str) -> str:
    """`wanted`, or for `auto` a graphics processor where torch has one. Raises `ConfigError` for one it has not."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, is_there in there.items() if is_there)
    if not there[wanted]:
        raise ConfigError(f"There is no {wanted} here that torch can use.", hint="Set device to auto or cpu.")
    return wanted


def best_dtype(device: str) -> Dtype:
    """The fastest form of the weights (`scripts/bench_embedding`): int8 where the processor multiplies that fast."""
    if device != "cpu":
        return "bfloat16"
    return "int8" if is_fast() else "float32"
