"""Matrix products of a decoder: several layers with the same input are one; in their own numbers, or with int8 weights.

Knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from server.engines.torch_int8 import int8_product

Dense = Callable[[Any], Any]
"""x (n, in) to (n, out)."""


def float_dense(linears: Sequence[Any]) -> Dense:
    """In the numbers of the weights."""
    import torch

    weight, bias = _joined(linears)
    return lambda x: torch.nn.functional.linear(x, weight, bias)


def int8_dense(linears: Sequence[Any]) -> Dense:
    """On the processor, float32 in and out."""
    return int8_product(*_joined(linears))


def _joined(linears: Sequence[Any]) -> tuple[Any, Any]:
    import torch

    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    if len(linears) == 1:
        return weights[0], biases[0] if biases else None
    return torch.cat(weights), torch.cat(biases) if biases else None
