"""Matrix products of a model: in the numbers of the checkpoint, or with int8 weights on the processor.

int8: every row of a matrix and every row that goes through it has a scale of its own, so that no row depends on the
others beside it. Of what torch 2.13 has on a processor with AMX, oneDNN's product was the fastest on many rows (eight
times float32) and 2.5 times float32 on one; the older dynamic quantisation scales all rows alike and goes away, and
`_weight_int8pack_mm` is slower than float32 where its input is. Knows no model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

_log = logging.getLogger(__name__)

Dense = Callable[[Any], Any]
"""x (n, in) to (n, out)."""

_LEVELS = 127
_FEWER_LEVELS = 63
"""Where the processor adds pairs of products in 16 bits, which more would not fit."""


def float_dense(linears: Sequence[Any]) -> Dense:
    """One product in place of several with the same input, in the numbers of their weights."""
    import torch

    weight, bias = _joined(linears)
    return lambda x: torch.nn.functional.linear(x, weight, bias)


def int8_dense(levels: int) -> Callable[[Sequence[Any]], Dense]:
    """Makes products as `float_dense`, of int8 weights and float32 input; `levels` as `int8_levels` found."""
    import torch

    def make(linears: Sequence[Any]) -> Dense:
        weight, bias = _joined(linears)
        weight = weight.float()
        scales = (weight.abs().amax(1) / _LEVELS).clamp(min=1e-12)
        packed = torch.ops.onednn.qlinear_prepack((weight / scales[:, None]).round().to(torch.int8), None)
        zero_points = torch.zeros(len(scales), dtype=torch.int32)
        exact = None if bias is None else bias.float()

        def product(x: Any) -> Any:
            rows = x.reshape(-1, x.shape[-1])
            sizes = torch.linalg.vector_norm(rows, float("inf"), -1, keepdim=True).clamp_(min=1e-12) / levels
            levelled = (rows / sizes).round_().to(torch.int8)
            found = torch.ops.onednn.qlinear_pointwise(
                levelled, 1.0, 0, packed, scales, zero_points, None, 1.0, 0, torch.float32, "none", [], ""
            )
            found = found * sizes if exact is None else torch.addcmul(exact, found, sizes)
            return found.reshape(*x.shape[:-1], -1)

        return product

    return make


def int8_levels() -> int | None:
    """How many levels an int8 product may use of its input here; None: there is no such product that is right.

    Asks the product itself, with the largest numbers there can be: what it is made of differs with the processor.
    """
    import torch

    for levels in (_LEVELS, _FEWER_LEVELS):
        linear = torch.nn.Linear(256, 8, bias=False)
        with torch.no_grad():
            linear.weight.fill_(1.0)
            linear.weight[::2, ::3] = -1.0
            x = torch.ones((3, 256))
            x[1, ::5] = -1.0
            try:
                found = int8_dense(levels)([linear])(x)
            except (RuntimeError, AttributeError, NotImplementedError) as error:
                _log.warning("no int8 products here: %s", str(error).splitlines()[0])
                return None
            if torch.allclose(found, linear(x), rtol=1e-3, atol=0.5):
                return levels
    _log.warning("int8 products are wrong here")
    return None


def make_small(module: Any, make: Callable[[Sequence[Any]], Dense]) -> None:
    """Have every linear layer inside a module be a product that `make` made, and let go of its own weights."""
    import torch

    for linear in [one for one in module.modules() if isinstance(one, torch.nn.Linear)]:
        linear.forward = make([linear])
        linear.weight, linear.bias = None, None


def _joined(linears: Sequence[Any]) -> tuple[Any, Any]:
    import torch

    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    if len(linears) == 1:
        return weights[0], biases[0] if biases else None
    return torch.cat(weights), torch.cat(biases) if biases else None
