"""MetricX against its own classes on tiny random checkpoints of the published layout (tests/data/learned/README.md)."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from thorough import THOROUGH

from polyref import Reference, ReferenceSet, Segment, score
from polyref.cache import Cache
from polyref.errors import DataError, ModelError, PolyrefWarning, UsageError
from polyref.metrics import registry
from polyref.metrics.base import Metric
from polyref.metrics.learned import metricx
from polyref.models.networks.metricx import MetricXModel

HERE = Path(__file__).parents[2] / "data" / "learned"
#: Absolute; of scores of 0 to 25. What bfloat16 rounds depends on torch's version.
CLOSE = {"float32": 1e-4, "bfloat16": 0.5}
NAMES = ["metricx-23-tiny", "metricx-23-qe-tiny", "metricx-24-hybrid-tiny", "metricx-24-hybrid-tiny-bfloat16"]


def _unpacked(data: Path, name: str, folder: Path) -> Path:
    """A checkpoint as it is published, with its tokeniser: 250,112 words make it large."""
    folder = folder / name
    folder.mkdir()
    for file in [*(data / "metricx" / name).iterdir(), *next((data / "metricx").glob("tokenizer-*")).iterdir()]:
        if file.suffix == ".gz":
            with gzip.open(file) as packed, (folder / file.stem).open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        elif not (folder / file.name).exists():
            shutil.copyfile(file, folder / file.name)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def unpacked(name: str) -> Path:
        return made.setdefault(name, _unpacked(HERE, name, tmp_path_factory.mktemp("metricx")))

    return unpacked


def _rows(data: Path) -> dict[str, dict[str, Any]]:
    lines = (data / "inputs.jsonl").read_text("utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def _metric(mode: str, model: Path, **options: Any) -> Metric:
    return registry.get_metric("metricx-src" if mode == "qe" else "metricx", model=str(model), cache=False, **options)


def _check(data: Path, name: str, model: Path, longest: int) -> None:
    """Ids of all texts, and errors of those up to so many tokens."""
    golden = json.loads((data / "metricx-goldens" / f"{name}.json").read_text("utf-8"))
    texts, dtype = _rows(data), golden["dtype"]
    for mode, found in golden["modes"].items():
        metric: Any = _metric(mode, model, dtype=dtype)
        triples = [
            (one["hyp"], "" if row["ref"] is None else one["refs"][row["ref"]], one["src"])
            for row in found["rows"]
            for one in [texts[row["id"]]]
        ]
        inputs = [metric._input(*triple) for triple in triples]
        ids = metric.network.tokens(inputs, golden["max_input_length"])
        for (own, cut), row in zip(ids, found["rows"], strict=True):
            assert (len(own), cut) == (row["n_tokens"], row["truncated"])
            expected = row["input_ids"]
            ends = expected if isinstance(expected, dict) else {"first": expected, "last": expected[-16:]}
            assert list(own[: len(ends["first"])]) == ends["first"] and list(own[-16:]) == ends["last"]
        short = [n for n, row in enumerate(found["rows"]) if row["n_tokens"] <= longest]
        errors = metric.network.compute([ids[n][0] for n in short])
        expected = [found["rows"][n]["score"] for n in short]
        np.testing.assert_allclose(errors, expected, rtol=0, atol=CLOSE[dtype])
        assert min(expected) == 0 and len(short) > 20


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_metricx(checkpoint: Callable[[str], Path], name: str) -> None:
    _check(HERE, name, checkpoint(name), longest=60)


def test_scores_are_those_of_metricx_on_all_texts(data_dir: Path, tmp_path: Path) -> None:
    data = data_dir / "learned-golden"
    for name in sorted(path.stem for path in (data / "metricx-goldens").glob("*.json")):
        _check(data, name, _unpacked(data, name, tmp_path), longest=2000 if THOROUGH else 300)


def _set(rows: list[dict[str, Any]]) -> ReferenceSet:
    """The first reference is human, the others are added."""
    segments = [
        Segment(
            id=row["id"],
            source=row["src"],
            refs=tuple(Reference(text, "human" if n == 0 else "paraphrase") for n, text in enumerate(row["refs"])),
        )
        for row in rows
    ]
    return ReferenceSet(tuple(segments))


@pytest.fixture
def some() -> list[dict[str, Any]]:
    return [row for row in _rows(HERE).values() if len(row["refs"]) > 1 and len(row["hyp"]) < 100][:6]


def test_every_pair_is_computed_once_for_all_ks(
    checkpoint: Callable[[str], Path], some: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, ...]] = []
    compute = MetricXModel.compute

    def counted(self: MetricXModel, texts: Any) -> list[float]:
        read.extend(texts)
        return compute(self, texts)

    monkeypatch.setattr(MetricXModel, "compute", counted)
    model, refset = checkpoint("metricx-24-hybrid-tiny"), _set(some)
    outputs = {"A": [row["hyp"] for row in some], "B": [row["refs"][0] for row in some]}
    table = score(outputs, refset, {"m": _metric("ref", model), "best": _metric("ref", model, combine="max")})
    assert len(read) == 2 * len(set(read)), "the second metric keeps nothing, the first reads nothing twice"
    cells = [
        (texts[n], ref, row["src"]) for texts in outputs.values() for n, row in enumerate(some) for ref in row["refs"]
    ]
    assert len(set(read)) == len(set(cells))
    one: Any = _metric("ref", model)
    ids = one.network.tokens([one._input(*cell) for cell in cells], 1536)
    each = {cell[:2]: compute(one.network, [own])[0] for cell, (own, _) in zip(cells, ids, strict=True)}
    by = {(r["system"], r["metric"], r["k"]): r["score"] for r in table.rows}
    for name, texts in outputs.items():
        own = [[each[texts[n], ref] for ref in row["refs"]] for n, row in enumerate(some)]
        most = max(len(row["refs"]) for row in some) - 1
        assert by[name, "m", most] == pytest.approx(np.mean([np.mean(row) for row in own]), abs=1e-9)
        assert by[name, "best", most] == pytest.approx(np.mean([min(row) for row in own]), abs=1e-9)
        assert by[name, "best", 0] == by[name, "m", 0] == pytest.approx(np.mean([row[0] for row in own]), abs=1e-9)
    assert "MetricX ↓" in str(table) and "parMetricX" in str(table)
    signatures = {row["metric"]: row["signature"] for row in table.rows}
    assert "combine:mean" in signatures["m"] and "combine:min" in signatures["best"]
    assert "|release:24|longest:1536|" in signatures["m"]


def test_a_text_has_the_same_bytes_in_any_company_and_from_the_cache(
    checkpoint: Callable[[str], Path], some: list[dict[str, Any]]
) -> None:
    model = checkpoint("metricx-23-tiny")
    metric: Any = registry.get_metric("metricx", model=str(model))
    pairs = [(ref, row["hyp"]) for row in some for ref in row["refs"]]
    first = metric._pairs(pairs)
    fresh: Any = registry.get_metric("metricx", model=str(model))
    fresh.network.compute = None  # not asked
    assert fresh._pairs(pairs[::-1])[::-1].tobytes() == first.tobytes()
    alone: Any = _metric("ref", model)
    assert np.concatenate([alone._pairs([pair]) for pair in pairs]).tobytes() == first.tobytes()


def test_errors_that_are_no_numbers_are_refused(checkpoint: Callable[[str], Path]) -> None:
    metric: Any = _metric("ref", checkpoint("metricx-23-tiny"))
    metric.network.compute = lambda piece: np.full(len(piece), np.nan, np.float32)
    with pytest.raises(ModelError, match="gives errors that are no numbers"):
        metric._pairs([("Ann paid.", "Ann paid.")])


def test_what_is_kept_is_of_one_model_in_one_arithmetic(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[bytes]] = []
    monkeypatch.setattr(Cache, "get", lambda self, keys: asked.append(keys) or {})

    def keys(name: str = "metricx-23-tiny", threads: int = 2, processes: bool = False, **options: Any) -> list[bytes]:
        torch.set_num_threads(threads)
        metric: Any = registry.get_metric("metricx", model=str(checkpoint(name)), **options)
        metric.network.compute = lambda texts: [0.0 for _ in texts]
        if processes:  # each of them has one thread; here this one does their work
            here = SimpleNamespace(elsewhere=False)
            pool = SimpleNamespace(pays=lambda size: True, map=partial(map, metric.network.compute), engine=here)
            vars(metric).update(_others=pool)
        metric._computed([(5, 1), (6, 1)])
        return asked[-1]

    before = torch.get_num_threads()
    try:
        changes: list[Any] = [{}, {"name": "metricx-24-hybrid-tiny"}, {"dtype": "bfloat16"}, {"threads": 1}]
        found = [keys(**change) for change in changes]
        assert len({key for two in found for key in two}) == 8
        assert (keys(), keys(processes=True)) == (found[0], found[3])
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_processes_give_the_same(
    checkpoint: Callable[[str], Path], some: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metricx, "_WORTH", 1)
    monkeypatch.setattr(metricx, "_PIECE", 100)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pairs = [(ref, row["hyp"]) for row in some for ref in row["refs"]]
        one, two = (_metric("ref", checkpoint("metricx-23-tiny"), jobs=jobs) for jobs in (1, 2))
        assert two._pairs(pairs).tobytes() == one._pairs(pairs).tobytes()  # type: ignore[attr-defined]
        two._others.close()  # type: ignore[attr-defined]
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("name", "mode"), [("metricx-24-hybrid-tiny", "ref"), ("metricx-23-qe-tiny", "qe")])
def test_long_texts_are_scored_in_windows(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    monkeypatch.setattr(metricx, "_LONGEST", {"23": 90, "24": 120})
    plain: Any = _metric(mode, checkpoint(name))
    windows: Any = _metric(mode, checkpoint(name), windows=True)
    long = [" ".join(f"{text} {n}." for n in range(20)) for text in ("A boat", "The boat", "Das Boot")]
    refs = [Segment(str(n), (Reference(ref),), source=src) for n, (ref, src) in enumerate([long[1:], ["a", "b"]])]
    (parts,) = windows._divided([(long[0], None if mode == "qe" else long[1], long[2])])
    stats = windows.statistics({"S": [long[0], "c"]}, ReferenceSet(tuple(refs)))
    found = windows.aggregate(stats, k=0)
    assert len(parts) > 1
    tokens = [sum(len(ids) for ids, _ in plain._tokens([text for text in part if text])) for part in parts]
    errors = plain._errors(parts)[:, 0]  # without a warning: all of them is read
    assert found.segment[0, 0] == pytest.approx(np.average(errors, weights=tokens), abs=1e-6)
    assert f"|windows:{3 if mode == 'ref' else 2}|" in found.signature
    with pytest.warns(PolyrefWarning, match="1 text is longer than .* reads: .* `windows` scores all of it"):
        alone = plain.aggregate(plain.statistics({"S": [long[0], "c"]}, ReferenceSet(tuple(refs))), k=0)
    assert alone.segment[0, 1] == found.segment[0, 1] and alone.segment[0, 0] != found.segment[0, 0]


def test_what_is_no_metricx_is_refused(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="metricx needs a model"):
        registry.get_metric("metricx")
    with pytest.raises(UsageError, match="does not say which MetricX it is"):
        registry.get_metric("metricx", model="somebody/else")
    good = checkpoint("metricx-23-qe-tiny")
    weights = load_file(good / "model.safetensors")
    folder = tmp_path / "metricx-23"
    shutil.copytree(good, folder, ignore=shutil.ignore_patterns("*.safetensors"))

    def refused(change: dict[str, torch.Tensor | None], message: str) -> None:
        changed = {name: change.get(name, value) for name, value in weights.items()}
        save_file({name: value for name, value in changed.items() if value is not None}, folder / "model.safetensors")
        with pytest.raises(ModelError, match=message):
            score(["a"], ["b"], _metric("qe", folder), sources=["c"])

    norm = "encoder.final_layer_norm.weight"
    refused({norm: None}, f"lacks the weight '{norm}'")
    refused({"lm_head.weight": None}, "lacks the weight 'lm_head.weight'")
    refused({norm: weights[norm] * float("nan")}, f"weight '{norm}' holds nan")
    refused({norm: weights[norm][:-1].clone()}, rf"weight '{norm}' has shape \(15,\), expected \(16,\)")
    (folder / "spiece.model").unlink()
    with pytest.raises(ModelError, match=r"no tokeniser, expected tokenizer.json or spiece.model"):
        _metric("qe", folder).options  # noqa: B018


def test_what_the_release_reads_has_to_be_there(checkpoint: Callable[[str], Path]) -> None:
    for name, mode, refs in (("metricx-24-hybrid-tiny", "ref", ["b"]), ("metricx-23-qe-tiny", "qe", ["b"])):
        with pytest.raises(DataError, match="has no source, which MetricX"):
            score(["a"], refs, _metric(mode, checkpoint(name)))
    table = score(["a"], ["b"], _metric("qe", checkpoint("metricx-23-qe-tiny")), sources=["c"])
    assert table.rows[0]["signature"].startswith("MetricX-src|model:metricx-23-qe-tiny|")
    assert "refs:" not in table.rows[0]["signature"] and "combine" not in table.rows[0]["signature"]
