"""Products with int8 weights are nearly those of float32, row by row, whatever the rows are."""

from __future__ import annotations

import pytest

from server.engines import torch_int8

pytestmark = pytest.mark.models


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("with_bias", [True, False])
def test_products_are_nearly_those_of_float32(monkeypatch: pytest.MonkeyPatch, fast: bool, with_bias: bool) -> None:
    import torch

    if not fast:
        monkeypatch.setattr(torch_int8, "is_fast", lambda: False)
    made = torch.Generator().manual_seed(7)
    layer = torch.nn.Sequential(torch.nn.Linear(96, 48, bias=with_bias))
    x = torch.randn(2, 5, 96, generator=made)
    with torch.inference_mode():
        exact = layer(x)
        torch_int8.quantize_linears(layer)
        assert sum(one.numel() for one in layer.parameters()) == 0
        near = layer(x)
        assert (near.shape, near.dtype) == (exact.shape, exact.dtype)
        assert float((near - exact).norm() / exact.norm()) < 0.02
        assert layer(x.bfloat16()).dtype == torch.bfloat16


def test_a_huge_row_takes_nothing_from_the_others_and_zero_stays_zero() -> None:
    import torch

    weight = torch.randn(32, 64, generator=torch.Generator().manual_seed(7))
    product = torch_int8.int8_product(weight)
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(8))
    x[1] *= 10_000
    x[2] = 0
    with torch.inference_mode():
        together = product(x)
        for row in range(3):
            torch.testing.assert_close(together[row : row + 1], product(x[row : row + 1]), rtol=1e-5, atol=1e-5)
        assert float(together[2].abs().max()) == 0
        assert float((together[0] - weight @ x[0]).norm() / (weight @ x[0]).norm()) < 0.02


@pytest.mark.parametrize("levels", [127, 63])
def test_the_largest_numbers_there_can_be_are_not_cut_off(levels: int) -> None:
    import torch

    weight = torch.ones(16, 1024)
    weight[::2, ::3] = -1
    x = torch.ones(3, 1024)
    x[1, ::5] = -1
    with torch.inference_mode():
        torch.testing.assert_close(torch_int8.int8_product(weight)(x), x @ weight.T, rtol=1e-3, atol=0.1)
        random = torch.randn(3, 1024, generator=torch.Generator().manual_seed(7))
        near = torch_int8._product(weight, None, levels)(random) - random @ weight.T
        assert float(near.norm() / (random @ weight.T).norm()) < 0.03
