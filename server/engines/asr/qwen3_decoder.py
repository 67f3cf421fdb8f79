"""The language model of Qwen3-ASR as plain arithmetic: rows of several utterances through its layers at once.

Every row brings its own cache and as many positions as it likes, packed one after another: a whole prompt, a guess of
many tokens and single tokens go through the same matrices in one step, so that nothing is padded and rows come and go
between steps. Only attention is done row by row, on a cache that is laid out once and written in place. The weights are
taken out of the transformers model, whose `generate` writes the same tokens in float32 (a test holds them together).
Knows no tokens' meaning, no sound and no threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from server.engines.asr.dense import Dense
from server.engines.asr.qwen3_encoder import Interrupted, Stop, never
from server.errors import AsrError

_FIRST_POSITIONS = 256
"""Room of a new row: 10 s with their words. What is not written yet takes no memory on most systems."""
MakeDense = Callable[[Sequence[Any]], Dense]
"""One matrix product out of linear layers that have the same input."""


class RowCache:
    """Keys and values of one row, shape (layers, heads, positions, head_dim) each; `length` positions are written."""

    def __init__(self, layers: int, heads: int, head_dim: int, like: Any, room: int = _FIRST_POSITIONS) -> None:
        self._shape = layers, heads, head_dim
        self._like = like
        self.length = 0
        self.keys, self.values = self._empty(room), self._empty(room)

    def reserve(self, positions: int) -> None:
        """Make room for so many more; what is written stays."""
        wanted = self.length + positions
        if wanted <= self.keys.shape[2]:
            return
        room = max(wanted, 2 * int(self.keys.shape[2]))
        for name in ("keys", "values"):
            grown = self._empty(room)
            grown[:, :, : self.length] = getattr(self, name)[:, :, : self.length]
            setattr(self, name, grown)

    def crop(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        self.length = min(self.length, length)

    def copy_of_first(self, length: int, room: int = 0) -> RowCache:
        """A cache of its own with the first `length` positions, and with room for `room` in all."""
        layers, heads, head_dim = self._shape
        copy = RowCache(layers, heads, head_dim, self._like, max(length, room))
        copy.keys[:, :, :length] = self.keys[:, :, :length]
        copy.values[:, :, :length] = self.values[:, :, :length]
        copy.length = length
        return copy

    def _empty(self, positions: int) -> Any:
        layers, heads, head_dim = self._shape
        return self._like.new_zeros((layers, heads, positions, head_dim))


@dataclass(slots=True)
class Part:
    """What one row wants of a step: `embeddings` (n, hidden) after its cache, and logits of the last `keep`."""

    cache: RowCache
    embeddings: Any
    keep: int


@dataclass(slots=True)
class _Layer:
    qkv: Dense
    out: Dense
    gate_up: Dense
    down: Dense
    input_norm: Any
    query_norm: Any
    key_norm: Any
    middle_norm: Any


class Decoder:
    """Made of a `Qwen3ASRForConditionalGeneration`, whose language model it takes apart: use that one no more.

    `dtype`: of the numbers between the matrices; `make_dense` knows what the matrices are made of.
    """

    def __init__(self, model: Any, make_dense: MakeDense, dtype: Any) -> None:
        language_model = model.model.language_model
        config = language_model.config
        if any(kind != "full_attention" for kind in config.layer_types):
            raise AsrError("This Qwen3-ASR attends to a part of its input only; that is not known here.")
        self._heads = int(config.num_attention_heads)
        self._key_heads = int(config.num_key_value_heads)
        self._head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        self._epsilon = float(config.rms_norm_eps)
        self._rotary = language_model.rotary_emb
        self._embedding = language_model.embed_tokens.weight.detach()
        if self._embedding.dtype != dtype:
            # The checkpoint's own numbers are a part of its file in memory, which would stay there as a whole.
            self._embedding = self._embedding.clone()
        self._activation = language_model.layers[0].mlp.act_fn
        self._last_norm = language_model.norm.weight.detach().to(dtype)
        self._vocabulary = make_dense([model.lm_head])
        self._layers: list[_Layer] = []
        while len(language_model.layers):
            self._layers.append(_taken_apart(language_model.layers[0], make_dense, dtype))
            del language_model.layers[0]  # never two copies of all the weights

    first_room = _FIRST_POSITIONS

    @property
    def dtype(self) -> Any:
        return self._last_norm.dtype

    def new_cache(self) -> RowCache:
        return RowCache(len(self._layers), self._key_heads, self._head_dim, self._last_norm)

    def embed(self, tokens: Sequence[int]) -> Any:
        """Tokens as (n, hidden)."""
        import torch

        ids = torch.tensor(list(tokens), dtype=torch.long, device=self._embedding.device)
        return torch.nn.functional.embedding(ids, self._embedding).to(self.dtype)

    def step(self, parts: Sequence[Part], stop: Stop = never) -> list[Any]:
        """Read what every row brings into its cache; of each its logits, shape (keep, vocabulary), float32.

        Raises `Interrupted`; the caches are as before then.
        """
        import torch

        lengths = [len(part.embeddings) for part in parts]
        for part, length in zip(parts, lengths, strict=True):
            part.cache.reserve(length)
        hidden: Any = torch.cat([part.embeddings for part in parts])
        places = torch.cat([torch.arange(n) + part.cache.length for part, n in zip(parts, lengths, strict=True)])
        cos, sin = (one[0].unsqueeze(1) for one in self._rotary(hidden[None], places[None].to(hidden.device)))
        masks = [self._mask(part.cache.length, n, hidden) for part, n in zip(parts, lengths, strict=True)]
        for number, layer in enumerate(self._layers):
            if stop():
                raise Interrupted
            attended = self._attend(number, layer, hidden, parts, lengths, masks, cos, sin)
            hidden = hidden + layer.out(attended)
            gate, up = layer.gate_up(self._norm(hidden, layer.middle_norm)).chunk(2, dim=-1)
            hidden = hidden + layer.down(self._activation(gate) * up)
        for part, length in zip(parts, lengths, strict=True):
            part.cache.length += length
        kept = [row[len(row) - part.keep :] for row, part in zip(hidden.split(lengths), parts, strict=True)]
        if not any(part.keep for part in parts):
            return [one.new_zeros((0, 0)) for one in kept]
        logits = self._vocabulary(self._norm(torch.cat(kept), self._last_norm)).float()
        return list(logits.split([part.keep for part in parts]))

    def _attend(
        self,
        number: int,
        layer: _Layer,
        hidden: Any,
        parts: Sequence[Part],
        lengths: Sequence[int],
        masks: Sequence[Any],
        cos: Any,
        sin: Any,
    ) -> Any:
        """One layer's attention, shape (n, heads * head_dim): each row on what is in its cache, and writes there."""
        import torch

        size, groups = self._head_dim, self._heads // self._key_heads
        mixed = layer.qkv(self._norm(hidden, layer.input_norm))
        mixed = mixed.view(len(hidden), self._heads + 2 * self._key_heads, size)
        queries, keys, values = mixed.split([self._heads, self._key_heads, self._key_heads], dim=1)
        queries = _rotated(self._norm(queries, layer.query_norm), cos, sin)
        keys = _rotated(self._norm(keys, layer.key_norm), cos, sin)
        found = []
        start = 0
        for part, length, mask in zip(parts, lengths, masks, strict=True):
            row, cache, end = slice(start, start + length), part.cache, part.cache.length + length
            cache.keys[number, :, part.cache.length : end] = keys[row].transpose(0, 1)
            cache.values[number, :, part.cache.length : end] = values[row].transpose(0, 1)
            # The query heads that share a key head stand one after another: no key is copied for them.
            asked = queries[row].view(length, self._key_heads, groups, size).permute(1, 2, 0, 3)
            attended = torch.nn.functional.scaled_dot_product_attention(
                asked.reshape(1, self._key_heads, groups * length, size),
                cache.keys[None, number, :, :end],
                cache.values[None, number, :, :end],
                attn_mask=mask,
            )
            attended = attended.view(self._key_heads, groups, length, size).permute(2, 0, 1, 3)
            found.append(attended.reshape(length, self._heads * size))
            start += length
        return found[0] if len(found) == 1 else torch.cat(found)

    def _mask(self, before: int, length: int, like: Any) -> Any:
        """Which positions each query may see, shape (groups * length, before + length); None: all."""
        import torch

        if length == 1:
            return None
        own = torch.arange(length, device=like.device)
        seen = torch.arange(before + length, device=like.device)[None] <= (own + before)[:, None]
        return seen.repeat(self._heads // self._key_heads, 1)

    def _norm(self, hidden: Any, weight: Any) -> Any:
        """Root mean square; in float32, whatever the numbers are."""
        import torch

        exact = hidden.float()
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self._epsilon)
        return weight * exact.to(hidden.dtype)


def _taken_apart(layer: Any, make_dense: MakeDense, dtype: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        qkv=make_dense([attention.q_proj, attention.k_proj, attention.v_proj]),
        out=make_dense([attention.o_proj]),
        gate_up=make_dense([mlp.gate_proj, mlp.up_proj]),
        down=make_dense([mlp.down_proj]),
        input_norm=layer.input_layernorm.weight.detach().to(dtype),
        query_norm=attention.q_norm.weight.detach().to(dtype),
        key_norm=attention.k_norm.weight.detach().to(dtype),
        middle_norm=layer.post_attention_layernorm.weight.detach().to(dtype),
    )


def _rotated(vectors: Any, cos: Any, sin: Any) -> Any:
    """Rotary positions; vectors (n, heads, head_dim), cos and sin (n, 1, head_dim)."""
    import torch

    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-second, first), dim=-1) * sin
