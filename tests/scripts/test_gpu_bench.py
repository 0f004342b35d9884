"""The command for a machine with a card, on the emulated one."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import pytest
import torch
from emulated import NAME, emulated

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"
pytestmark = pytest.mark.usefixtures("quiet_transformers")


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for folder in (BENCH, BENCH / "speed", BENCH / "gpu"):
        monkeypatch.syspath_prepend(folder)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> str | int | None:
    """The command's exit code, or what it ends with."""
    monkeypatch.setattr(sys, "argv", ["gpu", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(BENCH / "gpu"), run_name="__main__")
    return stop.value.code


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def small(monkeypatch: pytest.MonkeyPatch, table: Path, only: str) -> list[dict[str, str]]:
    with emulated():
        options = ("--device", NAME, "--small", "--repeat", "1", "--only", only, "--csv", table)
        assert run(monkeypatch, *options) == 0
    return rows(table)


def test_rows_of_a_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits, found = small(monkeypatch, tmp_path / "gpu.csv", "search, small, polyref")[1:3]
    assert (limits["work"], limits["dtype"], found["dtype"]) == ("the card's limits", "float16", "float32")
    assert (found["work"], found["program"], found["items"]) == ("search, small", "polyref", "1")
    assert float(found["a_second"]) == pytest.approx(1 / float(found["seconds"]), rel=0.01)
    assert float(found["tflops"]) > 0 and float(found["gb_a_second"]) > 0
    assert all(found[column] for column in ("versions", "card", "commit")) and "polyref" in found["versions"]


@pytest.mark.slow
def test_every_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = small(monkeypatch, tmp_path / "gpu.csv", "")
    assert [(row["work"], row["program"].split(",")[0], row["dtype"]) for row in found[2:]] == [
        ("shipped model", "polyref", "float32"),
        ("search, small", "transformers", "float32"),
        *(("search, small", who, of) for of in ("float32", "float16") for who in ("polyref", "transformers")),
        ("forced scores, shipped model", "polyref", "float32"),
        *(("forced scores, small", who, of) for of in ("float32", "float16") for who in ("polyref", "transformers")),
        ("BERTScore, a large encoder", "polyref", "float32"),
        ("BERTScore, a large encoder", "transformers", "float32"),
    ]
    said = {row["work"]: row["agrees"] for row in found if row["agrees"]}
    assert said["shipped model"].startswith("1 of 1 lists are the CPU's; scores within ")
    apart = {work: float(text.partition("within ")[2].split()[0]) for work, text in said.items()}
    assert len(apart) == 3 and max(apart.values()) < 2e-5


def test_what_fails_is_told_and_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pieces

    def full(*given: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(pieces, "scored", full)
    table = tmp_path / "gpu.csv"
    options = ("--device", "cpu", "--small", "--repeat", "1", "--only", "forced scores, small", "--csv", table)
    assert run(monkeypatch, *options) == 1
    assert "failed: forced scores, small, polyref, float32: OutOfMemoryError: no room\n" in capsys.readouterr().err
    assert [row["program"] for row in rows(table)][1:] == ["transformers"]


def test_without_a_card_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = run(monkeypatch, "--csv", tmp_path / "gpu.csv")
    assert str(said).startswith("no card: torch") and "--device cpu --small" in str(said)
    assert list(tmp_path.iterdir()) == []


def test_arithmetic_and_traffic_are_counted() -> None:
    from counted import Counted

    one, other = torch.ones(3, 4), torch.ones(4, 5)
    table, places = torch.ones(100, 7), torch.tensor([1, 2])
    with torch.inference_mode(), Counted() as product:
        (one @ other).t()
    assert (product.flops, product.bytes) == (2 * 3 * 4 * 5, 4 * (12 + 20 + 15))
    with Counted() as gathered:
        table.index_select(0, places)
    assert (gathered.flops, gathered.bytes) == (0, 2 * 4 * 14 + 8 * 2)
    with Counted() as scattered:
        table.index_fill_(0, places, 0.0)
    assert scattered.bytes == 2 * 8 * 2
