"""Keys and values of the tokens that a transformers model has read, in room that grows, can be cropped and copied.

transformers' own dynamic cache makes all of its tensors anew for each token; here a token is written where there is
room for it. Models with layers of another kind (linear attention, sliding windows) get transformers' own cache: what
they remember cannot be cropped, only continued. Runs on the model's thread; libraries are imported when it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

_ROOM_TOKENS = 256


class CacheState:
    """What one model has read: `tokens`, and their keys and values in `cache`, which the model takes and writes to."""

    def __init__(self, config: Any, kept: Any = None, tokens: Sequence[int] = ()) -> None:
        self._config = config
        self.croppable = all(kind == "full_attention" for kind in _layer_kinds(config))
        self.cache = _new_cache(config, croppable=self.croppable) if kept is None else kept
        self.tokens = list(tokens)

    @property
    def size_bytes(self) -> int:
        """Memory of its tensors, with the room that is not used yet."""
        tensors: list[Any] = []
        for layer in self.cache.layers:
            if self.croppable:
                tensors += layer.room
            else:
                held = vars(layer).values()
                tensors += [one for value in held for one in (value.values() if isinstance(value, dict) else [value])]
        return sum(int(one.nbytes) for one in tensors if hasattr(one, "nbytes"))

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens; copies nothing."""
        for layer in self.cache.layers:
            layer.crop(length - len(self.tokens))
        del self.tokens[length:]

    def copy(self, length: int) -> Self:
        """Another state that has read the first `length` tokens; all of them where it cannot be cropped."""
        if not self.croppable:
            return type(self)(self._config, copy.deepcopy(self.cache), self.tokens)
        fresh = _new_cache(self._config, croppable=True)
        for layer, own in zip(fresh.layers, self.cache.layers, strict=True):
            layer.copy_from(own, length)
        return type(self)(self._config, fresh, self.tokens[:length])


def _layer_kinds(config: Any) -> list[str]:
    from transformers.cache_utils import get_layer_types_and_kwargs

    kinds: list[str] = get_layer_types_and_kwargs(config.get_text_config(decoder=True))[0]
    return kinds


def _new_cache(config: Any, *, croppable: bool) -> Any:
    from transformers.cache_utils import Cache, DynamicCache

    if not croppable:
        return DynamicCache(config=config)
    return Cache(layers=[_growing_layer()() for _ in _layer_kinds(config)])


@cache
def _growing_layer() -> Any:
    """The class of a layer's keys and values; made when it is needed, for its base is transformers'."""
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[misc,no-untyped-call,unused-ignore]
        """Writes into room for more tokens than there are; shape (1, heads, room, width)."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
            self.room: tuple[Any, ...] = ()
            self._length = 0

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            self.dtype, self.device = key_states.dtype, key_states.device
            self.room = tuple(_room_for(states, 0) for states in (key_states, value_states))
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            end = self._length + key_states.shape[-2]
            if end > self.room[0].shape[-2]:
                self.room = tuple(_grown(held, self._length, end) for held in self.room)
            for held, states in zip(self.room, (key_states, value_states), strict=True):
                held[:, :, self._length : end] = states
            self._length = end
            return self.room[0][:, :, :end], self.room[1][:, :, :end]

        def get_seq_length(self) -> int:
            return self._length

        def crop(self, tokens_to_remove: int) -> None:
            self._length -= abs(tokens_to_remove)

        def copy_from(self, other: GrowingLayer, length: int) -> None:
            """Become a copy of another layer's first `length` tokens."""
            self.dtype, self.device = other.dtype, other.device
            self.room = tuple(_grown(held, length, length) for held in other.room)
            self._length, self.is_initialized = length, other.is_initialized

    return GrowingLayer


def _room_for(states: Any, length: int) -> Any:
    room = (length // _ROOM_TOKENS + 1) * _ROOM_TOKENS
    return states.new_empty((states.shape[0], states.shape[1], room, states.shape[3]))


def _grown(held: Any, used: int, needed: int) -> Any:
    """The first `used` tokens of `held`, in room for `needed` ones and a quarter more."""
    fresh = _room_for(held, needed + needed // 4)
    fresh[:, :, :used] = held[:, :, :used]
    return fresh
