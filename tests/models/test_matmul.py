"""Products: float32 equals PyTorch's, approximate modes are close, and no row depends on its neighbours."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from polyref.models.networks import matmul as products
from polyref.models.networks.matmul import Precision, Product, activate, computing_in


@pytest.fixture(scope="module")
def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    x, weight, bias = (torch.randn(*size, generator=generator) for size in ((9, 64), (80, 64), (80,)))
    x[3] *= 40  # rows of different size
    return x, weight, bias


@pytest.mark.parametrize("activation", ["linear", "relu", "gelu", "gelu_tanh", "swish", "tanh"])
def test_float32_is_the_plain_product(operands: tuple[torch.Tensor, ...], activation: str) -> None:
    x, weight, bias = operands
    expected = activate(functional.linear(x, weight, bias), activation)
    product = Product(weight, bias, activation)
    assert torch.allclose(product(x), expected, atol=1e-4, rtol=1e-5)
    assert torch.allclose(product(x.view(3, 3, 64), torch.ones(3, 3, 80)).view(9, 80), expected + 1, atol=1e-4)


@pytest.mark.parametrize(("precision", "error"), [("bfloat16", 0.01), ("int8", 0.02)])
@pytest.mark.parametrize("packed", [True, False])
def test_approximate_modes_are_close_and_rows_are_independent(
    operands: tuple[torch.Tensor, ...],
    precision: Precision,
    error: float,
    packed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not packed:
        monkeypatch.setenv("POLYREF_PRODUCTS", "default")
    x, weight, bias = operands
    product = Product(weight, bias, "relu", precision)
    exact = functional.linear(x, weight, bias).relu_()
    found = product(x)
    assert found.dtype == torch.float32
    assert ((found - exact).norm(dim=1) <= error * exact.norm(dim=1)).all()
    assert not torch.equal(found, exact)
    assert torch.equal(product(x), found)
    assert torch.equal(product(x[3:5]), found[3:5])


@pytest.mark.parametrize("packed", [True, False])
def test_every_row_of_int8_weights_has_a_step_of_its_own(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of small weights beside those of large ones: each output is as near as its own row allows."""
    if not packed:
        monkeypatch.setenv("POLYREF_PRODUCTS", "default")
    generator = torch.Generator().manual_seed(3)
    x, weight = torch.randn(9, 64, generator=generator), torch.randn(80, 64, generator=generator)
    weight *= torch.logspace(-4, 2, 80)[:, None]
    exact = functional.linear(x, weight)
    errors = (Product(weight, None, precision="int8")(x) - exact).norm(dim=0) / exact.norm(dim=0)
    assert errors.max() <= 0.03


def test_integers_are_the_same_with_and_without_their_kernels(operands: tuple[torch.Tensor, ...]) -> None:
    x, weight, bias = operands
    fast, plain = Product(weight, bias, precision="int8"), Product(weight, bias, precision="int8")
    if not fast._packed:
        pytest.skip("this processor or this PyTorch has no kernel for bytes")
    plain._packed = False
    plain._weight = (weight / plain._scales[:, None]).round().clamp(-127, 127)
    assert torch.equal(fast(x), plain(x))


def test_networks_built_inside_compute_that_way(operands: tuple[torch.Tensor, ...]) -> None:
    x, weight, bias = operands
    with computing_in("int8"):
        inside = Product(weight, bias)
    assert torch.equal(inside(x), Product(weight, bias, precision="int8")(x))
    assert torch.equal(Product(weight, bias)(x), Product(weight, bias, precision="float32")(x))
    assert products._COMPUTING.get() == "float32"
