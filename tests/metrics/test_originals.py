"""Original references that may have been made from a system's outputs: what is counted, and who says so."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wmt_items import rows_of, write_items

from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.metrics.copies import MOST, OriginalCount, near_originals, warnings_of_originals
from polyref.references import ReferenceSet

TEXT = "the old mill by a river was closed for one long winter and nobody saw it open again until spring came"
WORDS = TEXT.split()
SIZE = 100


def _sentences(seed: int, words: int = 12) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(SIZE)]


SYSTEMS = {f"sys{number}": _sentences(number) for number in range(1, 5)}


def _edited(share: float, seed: int = 9) -> list[str]:
    """A reference of which a share is sys2's output, half of it word for word, half with a word exchanged."""
    own = _sentences(seed)
    for place in range(round(share * SIZE)):
        text = SYSTEMS["sys2"][place].split()
        own[place] = " ".join(text if place % 2 else [*text[:5], "xyz", *text[6:]]).capitalize() + "!"
    return own


def test_a_post_edited_reference_has_a_suspect() -> None:
    references = ReferenceSet.from_texts(
        list(zip(_sentences(8), _edited(0.6), strict=True)), meta={"references": ["A", "B"]}
    )
    found = near_originals(references, SYSTEMS)
    assert [one.system for one in found if one.suspect] == ["sys2"] and len(found) == 8
    first = found[4]
    assert (first.reference, first.system, first.segments, first.exact, first.near) == ("B", "sys2", SIZE, 30, 30)
    assert first.share == 0.6 and first.p < 1e-16 and first.bleu is not None and first.bleu_of_others is not None
    assert first.bleu > first.bleu_of_others + 30
    (warning,) = warnings_of_originals(found)
    assert warning.startswith(
        "B may have been made from outputs of a system: sys2 is nearest to B: of 100 outputs, exact"
    )
    assert (
        "exact copies 30, near copies 30 (60 %; people's references reach 16 %, p < 1e-16; BLEU against it " in warning
    )


@pytest.mark.parametrize(("share", "suspect"), [(0.0, False), (0.16, False), (0.2, False), (0.4, True)])
def test_people_may_write_what_systems_do(share: float, suspect: bool) -> None:
    found = near_originals(ReferenceSet.from_texts([[text] for text in _edited(share)]), SYSTEMS)
    assert [one.system for one in found if one.suspect] == ["sys2"] * suspect
    # A share above the most of people's is a matter of chance in a small set.
    assert bool(warnings_of_originals(found)) == suspect
    assert {one.reference for one in found} == {"the reference"} and found[0].share >= share


def test_kin_is_named_and_short_outputs_do_not_count() -> None:
    kin = {**SYSTEMS, "kin": [*SYSTEMS["sys2"][:50], *SYSTEMS["sys1"][50:]]}
    (warning,) = warnings_of_originals(near_originals(ReferenceSet.from_texts([[t] for t in _edited(0.8)]), kin))
    assert "; also near are kin 50 %. Scores with it favour" in warning
    short = _sentences(3, words=5)
    assert near_originals(ReferenceSet.from_texts([[text] for text in short]), {"one": short}) == []


def test_a_set_in_stretches_is_counted_alike() -> None:
    references = ReferenceSet.from_texts([[text] for text in _edited(0.7)])
    counting = OriginalCount()
    for start in range(0, SIZE, 7):
        part = {name: texts[start : start + 7] for name, texts in SYSTEMS.items()}
        counting.add(references.segments[start : start + 7], part)
    assert counting.found() == near_originals(references, SYSTEMS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An evaluation set whose refA is made from sys2's outputs, and whose refB is not."""
    texts = {"sources/de-en.txt": _sentences(0), "references/de-en.refA.txt": _edited(0.6),
             "references/de-en.refB.txt": _sentences(8)}  # fmt: skip
    texts |= {f"system-outputs/de-en/{name}.txt": outputs for name, outputs in SYSTEMS.items()}
    draw = random.Random(1)
    texts["human-scores/de-en.mqm.seg.score"] = [f"{name}\t{-draw.random()}" for name in SYSTEMS for _ in range(SIZE)]
    for name, lines in texts.items():
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "set"


TOLD = "{} may have been made from outputs of a system: sys2 is nearest to {}: of 100 outputs, exact copies 30"


def test_evaluate_says_so(folder: Path, polyref: Callable[..., Any]) -> None:
    base = ("evaluate", folder, "-l", "de-en", "--gold", "mqm", "-m", "chrf", "-n", "0")
    run = polyref(*base, "--ref", "refA")
    assert run.code == 0 and f"warning: {TOLD.format('refA', 'refA')}" in run.err
    assert "may have been made" not in polyref(*base, "--ref", "refB").err
    # Of two references, the one is named.
    assert f"warning: {TOLD.format('refA', 'refA')}" in polyref(*base, "--ref", "refA", "refB").err


def test_submissions_say_so(folder: Path, polyref: Callable[..., Any], tmp_path: Path) -> None:
    base = (
        "submit",
        folder,
        "-l",
        "de-en",
        "--ref",
        "refA",
        "-m",
        "chrf",
        "--name",
        "x",
        "--testset",
        "t",
    )
    run = polyref(*base, "--year", "2024", "-o", tmp_path / "out")
    assert run.code == 0 and f"warning: de-en: {TOLD.format('refA', 'refA')}" in run.err
    near = json.loads((tmp_path / "out/x.provenance.json").read_text())["pairs"]["de-en"]["originals"]
    assert (near[0]["system"], near[0]["exact"], near[0]["suspect"], len(near)) == ("sys2", 30, True, 4)
    # The reference itself stands among the outputs, as people's do in real files: it is no suspect.
    outputs = {**SYSTEMS, "refA": _edited(0.6)}
    items = write_items(
        tmp_path / "items", rows_of("deu_Latn-eng_Latn", _sentences(0), outputs, _edited(0.6), "pseudo")
    )
    run = polyref("submit", items, "--year", "2026", "-m", "chrf", "--name", "x", "-o", tmp_path / "pred.jsonl")
    told = TOLD.format("the reference", "the reference")
    assert run.code == 0 and f"warning: deu_Latn-eng_Latn: {told}" in run.err
    pair = json.loads((tmp_path / "x.provenance.json").read_text())["pairs"]["deu_Latn-eng_Latn"]
    assert [one["system"] for one in pair["originals"] if one["suspect"]] == ["sys2"]


def test_inspect_says_so(folder: Path, polyref: Callable[..., Any]) -> None:
    systems = ["-i", *(folder / "system-outputs/de-en" / f"{name}.txt" for name in SYSTEMS)]
    run = polyref("inspect", folder / "references/de-en.refA.txt", *systems)
    said = " ".join(run.out.split())
    assert "sys2.txt is nearest to the reference: of 100 outputs, exact copies 30, near copies 30 (60 %;" in said
    assert "the reference may have been made from its outputs" in said
    clean = polyref("inspect", folder / "references/de-en.refB.txt", *systems)
    assert "is nearest to the reference: of 100" in " ".join(clean.out.split()) and "made from" not in clean.out
    rows = polyref("inspect", folder / "references/de-en.refA.txt", *systems, "--json").json()["rows"]
    assert [one["system"] for one in rows[0]["originals"] if one["suspect"]] == ["sys2.txt"]


def test_real_references(data_dir: Path) -> None:
    """The two references that are known to be near to systems are told, and the others are not."""

    def counted(name: str, pair: str, reference: str) -> list[Any]:
        evalset = EvalSet(data_dir / name, pair)
        systems = [one for one in evalset.output_files if not one.startswith("ref")]
        outputs = dict(zip(systems, evalset.outputs(systems), strict=True))
        return near_originals(reference_set(evalset, [reference]), outputs)

    found = counted("wmt23.mqm", "he-en", "refA")
    assert (found[0].system, found[0].exact, found[0].near, found[0].segments) == ("ONLINE-B", 638, 505, 1732)
    found = counted("wmt21.news", "zh-en", "refB")
    assert [(one.system, one.exact + one.near, one.segments) for one in found if one.suspect] == [("MiSS", 374, 1919)]
    for name, pair, reference in (
        ("wmt23.mqm", "he-en", "refB"),
        ("wmt21.news", "zh-en", "refA"),
        ("wmt22.mqm", "zh-en", "refA"),
    ):
        found = counted(name, pair, reference)
        assert not any(one.suspect for one in found) and found[0].share < MOST
