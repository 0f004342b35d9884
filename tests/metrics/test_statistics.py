"""Statistics on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.metrics import Statistics, get_metric
from polyref.references import ReferenceSet


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bleu", "chrf++"])
def test_round_trip(name: str, tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, ReferenceSet(refset.segments, {"generator": "größer", "seed": 1}))
    path = tmp_path / "stats.npz"
    stats.save(path)
    first = path.read_bytes()
    loaded = Statistics.load(path)
    for k in (0, 3):
        kept, fresh = metric.aggregate(loaded, k=k), metric.aggregate(stats, k=k)
        assert kept.signature == fresh.signature
        assert kept.systems == fresh.systems
        assert kept.segment.tolist() == fresh.segment.tolist()
        assert kept.system.tolist() == fresh.system.tolist()
    loaded.save(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "stats.npz"
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="is not a statistics file"):
        Statistics.load(path)


def _rewrite(path: Path, header: Any, **arrays: Any) -> None:
    with np.load(path) as old:
        kept = {key: old[key] for key in old.files}
    packed = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **{**kept, "header": packed, **arrays})


def test_broken_files(tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    path = tmp_path / "stats.npz"
    with pytest.raises(DataError, match="no such file"):
        Statistics.load(path)
    for content in (b"", b"text", b"PK\x03\x04 cut off"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not a statistics file"):
            Statistics.load(path)
    stats = get_metric("bleu").statistics(systems, refset)
    stats.save(path)
    with np.load(path) as arrays:
        header = json.loads(arrays["header"].tobytes())
    _rewrite(path, header, values=stats.values[:, :, :3])
    with pytest.raises(DataError, match=r"values have shape \(5, 3, 3, 10\), expected \(5, 3, 8, 10\)"):
        Statistics.load(path)
    _rewrite(path, {**header, "polyref_statistics": 9})
    with pytest.raises(DataError, match="format version 9, expected 1"):
        Statistics.load(path)
    _rewrite(path, ["a list"])
    with pytest.raises(DataError, match="the header is not an object"):
        Statistics.load(path)


def test_unwritable(tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    stats = get_metric("bleu").statistics(systems, refset)
    with pytest.raises(DataError, match="no directory"):
        stats.save(tmp_path / "none" / "stats.npz")


@pytest.mark.slow
def test_every_damaged_byte_is_one_error(tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    path = tmp_path / "stats.npz"
    get_metric("bleu").statistics(systems, refset).save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            try:
                Statistics.load(path)
            except DataError:
                refused += 1
    assert refused > len(whole) // 7


@pytest.mark.parametrize(
    ("key", "value"),
    [("options", None), ("meta", []), ("systems", "AB"), ("ks", [1, 0]), ("ks", [-1, 0]), ("ks", []), ("metric", 3)],
)
def test_headers_of_another_kind(key: str, value: Any, tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    path = tmp_path / "stats.npz"
    get_metric("bleu").statistics(systems, refset, ks=[0, 1]).save(path)
    with np.load(path) as arrays:
        header = json.loads(arrays["header"].tobytes())
    _rewrite(path, {**header, key: value})
    with pytest.raises(DataError, match="is not a statistics file"):
        Statistics.load(path)


def test_values_that_are_no_counts(tmp_path: Path, systems: Any, refset: ReferenceSet) -> None:
    path = tmp_path / "stats.npz"
    stats = get_metric("ter").statistics(systems, refset, ks=[0])
    stats.save(path)
    with np.load(path) as arrays:
        header = json.loads(arrays["header"].tobytes())
    for wrong in (
        {"values": np.full(stats.values.shape, np.nan)},
        {"values": stats.values.astype(complex)},
        {"extras": stats.extras - 100},
        {"originals": stats.originals.astype(str)},
    ):
        stats.save(path)
        _rewrite(path, header, **wrong)
        with pytest.raises(DataError, match="is not a statistics file"):
            Statistics.load(path)


def test_columns_of_another_metric_are_refused(systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric("bleu")
    stats = replace(metric.statistics(systems, refset, ks=[0]), columns=("a",))
    with pytest.raises(ValueError, match="columns"):
        metric.aggregate(stats, k=0)


def test_no_segment_chosen(systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric("bleu")
    scores = metric.aggregate(metric.statistics(systems, refset, ks=[0]), k=0, over=[])
    assert scores.segment.shape[1] == 0


def test_outputs_that_are_no_text(systems: Any, refset: ReferenceSet) -> None:
    name, outputs = next(iter(systems.items()))
    with pytest.raises(DataError, match=f"{name} has None for segment"):
        get_metric("bleu").statistics({name: [None, *outputs[1:]]}, refset)


def test_a_string_is_no_list_of_texts() -> None:
    metric = get_metric("bleu")
    references = ReferenceSet.from_texts([["a"], ["b"], ["c"]])
    with pytest.raises(UsageError, match="`systems` is of type str"):
        metric.statistics("abc", references)  # type: ignore[arg-type]
    for odd in ("abc", ["a", "b", "c"], [["a"], ["b"], ["c"]]):
        with pytest.raises(UsageError, match="`references` is of type"):
            metric.statistics({"x": ["a", "b", "c"]}, odd)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said", [5, None, [1], {"a": 1}, "sources:0|k:9"], ids=["number", "null", "list", "object", "text"]
)
def test_what_others_wrote_in_a_header_is_no_part_of_a_signature(said: Any, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric("chrf")
    odd = replace(refset, meta={**refset.meta, "sources_read": said, "sequence_model": said})
    expected = metric.aggregate(metric.statistics(systems, refset), k=1)
    assert metric.aggregate(metric.statistics(systems, odd), k=1).signature == expected.signature
