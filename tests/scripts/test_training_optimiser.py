"""Muon: what is orthogonal, and which weights it moves how far."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

Training = Callable[[str], ModuleType]


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 16, 64)])
def test_rows_become_orthonormal(training: Training, shape: tuple[int, int, int]) -> None:
    torch.manual_seed(1)
    given = torch.randn(shape)
    made = training("optimiser").orthogonal(given).float()
    assert torch.linalg.svdvals(made) == pytest.approx(torch.ones(shape[:2]), abs=0.3)
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    nearest = left @ right
    assert torch.nn.functional.cosine_similarity(made.flatten(1), nearest.flatten(1)).min() > 0.98


def test_every_projection_moves_by_its_own_orthogonal_matrix(training: Training) -> None:
    """Against a plain loop over the parts; what is no matrix of a layer moves as with Adam."""
    optimiser, recipe = training("optimiser"), training("recipe")
    torch.manual_seed(1)
    sizes = recipe.Network(width=64, encoder_layers=1, decoder_layers=1)
    model = training("loop").new_network(sizes, 90)
    muon, adam = optimiser.Muon(model, 0.9), optimiser.Adam(model, 0.9)
    before = [weight.clone() for weight in muon.master]
    gradients = [torch.randn_like(p) for p in model.parameters()]
    norm = sum(float(g.double().square().sum()) for g in gradients) ** 0.5
    for one in (adam, muon):
        for p, gradient in zip(model.parameters(), gradients, strict=True):
            p.grad = gradient.clone()
        one.step(1, 1e-3)
    names = [name for name, _ in model.named_parameters()]
    kinds = {"qkv", "q", "kv", "out", "fc1", "fc2", "pointer_query", "pointer_key"}
    assert {names[i].split(".")[-2] for i in muon.matrices} == kinds
    for i, name in enumerate(names):
        moved = muon.master[i] - before[i]
        if i not in muon.matrices:
            assert torch.equal(muon.master[i], adam.master[i]), name
            continue
        momentum = gradients[i] / norm * (0.05 * 0.95 + 0.05)  # Nesterov's, at the first step
        wide = "fc" in name
        tall = momentum.T if "fc1" in name else momentum
        parts = [tall] if wide else [part for row in tall.split(64) for part in row.split(64, 1)]
        steps = [optimiser.orthogonal(part[None])[0].float() * (1e-3 * 0.2 * part.shape[1] ** 0.5) for part in parts]
        if wide:
            expected = steps[0].T if "fc1" in name else steps[0]
        else:
            expected = torch.cat(steps, 1 if name.startswith("pointer_key") else 0)
        assert float(moved.norm()) == pytest.approx(float(expected.norm()), rel=0.01), name
        assert torch.nn.functional.cosine_similarity(-moved.flatten(), expected.flatten(), 0) > 0.995, name


def test_the_least_likely_pairs_of_each_closeness_do_not_count(training: Training) -> None:
    loop = training("loop")
    means, closeness = torch.tensor([-1.0, -5.0, -2.0, -9.0, -0.5, -0.7]), [0, 0, 0, 3, 3, 3]
    assert loop.likely(means, closeness, 0.4).tolist() == [True, False, True, False, True, True]
    assert loop.likely(means, closeness, 0.3).all()
