"""Which library multiplies: named, or by the rule for the platform."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from polyref.errors import UsageError
from polyref.models.networks.matmul import Product, has_onednn, library_choice, packs

WEIGHT = torch.zeros(2, 2)


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_onednn():
        pytest.skip("this PyTorch cannot pack weights for oneDNN: there is nothing to choose")
    monkeypatch.delenv("POLYREF_PRODUCTS", raising=False)


def test_a_library_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("onednn", "default"):
        monkeypatch.setenv("POLYREF_PRODUCTS", name)
        assert library_choice().library == name
        assert packs(WEIGHT) is Product(WEIGHT, None)._packed is (name == "onednn")
        assert "POLYREF_PRODUCTS" in library_choice().reason
    monkeypatch.setenv("POLYREF_PRODUCTS", "mkl")
    with pytest.raises(UsageError, match="POLYREF_PRODUCTS is 'mkl', expected one of auto, onednn, default"):
        library_choice()


def test_the_rule_looks_at_the_platform_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    for named in (None, "auto", ""):
        if named is not None:
            monkeypatch.setenv("POLYREF_PRODUCTS", named)
        for machine, library in (
            ("x86_64", "onednn"),
            ("AMD64", "onednn"),
            ("aarch64", "default"),
            ("ppc64le", "default"),
        ):
            monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
            choice = library_choice()
            assert (choice.library, choice.reason) == (library, f"the rule for {machine}")
            assert packs(WEIGHT) is (library == "onednn")
    assert not (tmp_path / "cache").exists()  # nothing is measured, nothing is kept


def test_this_pytorch_may_have_no_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREF_PRODUCTS", "onednn")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert library_choice().library == "default"
