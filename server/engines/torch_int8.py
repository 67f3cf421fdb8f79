"""Matrix products with int8 weights on the processor, of whatever torch model has linear layers.

Weights get one scale a row, inputs one scale a row too, made when they come: a token with huge numbers (decoders have
such) takes no precision from the others, and a text gives the same alone and in a batch. oneDNN multiplies; a product
of 1024 x 3072 took, on one thread, for 1 / 13 / 128 rows 0.21 / 0.22 / 0.87 ms with AMX, 0.21 / 0.34 / 4.2 ms with
AVX512-VNNI and 0.21 / 0.53 / 5.1 ms with AVX-VNNI, in float32 0.45 / 2.4 / 7 to 10 ms.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

_log = logging.getLogger(__name__)

_MIDDLE = 128
"""Zero of the unsigned bytes that inputs become: with signed ones oneDNN takes a thousand times as long without AMX."""
_LEVELS = 127
_FEWER_LEVELS = 63
"""Of weights, where the processor adds pairs of products in 16 bits, which more would not fit."""


def is_fast() -> bool:
    """Whether this processor multiplies int8 faster than float32."""
    return platform.machine().lower() in ("x86_64", "amd64") and int8_levels() is not None


@cache
def int8_levels() -> int | None:
    """How many levels weights may have here; None: this torch has no such product for this processor.

    Asks the product itself, with the largest numbers there can be: what it is made of differs with the processor.
    """
    import torch

    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return None
    weight = torch.ones(256, 256)
    weight[::2, ::3] = -1.0
    x = torch.ones(3, 256)
    x[1, ::5] = -1.0
    for levels in (_LEVELS, _FEWER_LEVELS):
        try:
            found = _product(weight, None, levels)(x)
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            _log.warning("no int8 products here: %s", str(error).splitlines()[0])
            return None
        if torch.allclose(found, x @ weight.T, rtol=1e-3, atol=0.5):
            return levels
    _log.warning("int8 products are wrong here")
    return None


def int8_product(weight: Any, bias: Any = None) -> Callable[[Any], Any]:
    """`linear(x, weight, bias)` with int8 weights: `weight` of shape (out, in), `x` float (…, in); the result as `x`.

    Keeps a packed copy of a quarter of the size of float32, and not `weight`. Where there is no such product, the
    weights are as exact as int8 and nothing is faster.
    """
    levels = int8_levels()
    return _product(weight, bias, levels) if levels is not None and is_fast() else _plain_product(weight, bias)


def quantize_linears(model: Any) -> None:
    """Give every linear layer in `model` int8 weights, and let go of the others, one after the other."""
    from torch import nn

    for layer in [one for one in model.modules() if isinstance(one, nn.Linear)]:
        vars(layer)["forward"] = int8_product(layer.weight, layer.bias)
        layer.register_parameter("weight", None)
        layer.register_parameter("bias", None)


def _product(weight: Any, bias: Any, levels: int) -> Callable[[Any], Any]:
    import torch

    with torch.inference_mode():
        small, scales = _small(weight, levels)
        offset = None if bias is None else bias.detach().float()
        packed = torch.ops.onednn.qlinear_prepack(small, None)
        zeros = torch.zeros(len(scales), dtype=torch.int32)
    multiply = torch.ops.onednn.qlinear_pointwise

    def product(x: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1]).float()
        own = _scales(flat, _LEVELS)
        whole = (flat / own).round_().add_(_MIDDLE).to(torch.uint8)
        out = multiply(whole, 1.0, _MIDDLE, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
        out = out * own if offset is None else torch.addcmul(offset, out, own)
        return out.reshape(*x.shape[:-1], -1).to(x.dtype)

    return product


def _plain_product(weight: Any, bias: Any) -> Callable[[Any], Any]:
    small, scales = _small(weight, _LEVELS)
    offset = None if bias is None else bias.detach().float()

    def product(x: Any) -> Any:
        out = (x.float() @ small.float().T) * scales
        return (out if offset is None else out + offset).to(x.dtype)

    return product


def _small(weight: Any, levels: int) -> tuple[Any, Any]:
    """Weights as int8, and the scale of each row, shape (out,)."""
    import torch

    rows = weight.detach().float()
    scales = _scales(rows, levels)
    return (rows / scales).round_().to(torch.int8), scales.squeeze(-1).contiguous()


def _scales(rows: Any, levels: int) -> Any:
    """What the largest number of each row is so many times, shape (n, 1)."""
    return rows.abs().amax(-1, keepdim=True).clamp_(min=1e-12).div_(levels)
