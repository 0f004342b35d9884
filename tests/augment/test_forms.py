"""The same references in another form give the same set, byte for byte but for the names and hashes of the inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment.candidates import SHARD_SEGMENTS, Generated
from polyref.augment.filters import filter_chain
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import Augmentation
from polyref.augment.writer import augment_file
from polyref.errors import DataError, PolyrefWarning
from polyref.formats import Reading
from polyref.references import ReferenceSet

LINES = ["The cat sat there & looked at Bob <twice> .", "", "Ann has paid the bill ."]


def body(path: Path) -> tuple[dict[str, Any], list[str]]:
    header, *lines = path.read_text("utf-8").splitlines()
    values = json.loads(header)
    del values["meta"]["inputs"]
    return values, lines


def files(folder: Path) -> dict[str, Path]:
    """The references in every form that holds them."""
    plain = folder / "refs.en"
    plain.write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    found = {"plain": plain}
    for form, suffix in {"tsv": "tsv", "csv": "csv", "json": "jsonl", "nbest": "nbest.jsonl", "xml": "xml",
                         "sgml": "sgm", "lists": "txt", "simple": "simple.jsonl"}.items():  # fmt: skip
        found[form] = folder / f"refs.{suffix}"
        ReferenceSet.load(plain).export(found[form], form)
    # What a form holds besides references does not come into the set.
    document = (
        '<doc id="d1" domain="news"><src lang="zh"><seg id="1">a</seg><seg id="2">b</seg><seg id="3">c</seg></src>'
    )
    text = found["xml"].read_text("utf-8").replace('<doc id="-">', document).replace("<ref>", '<ref translator="A">')
    assert text.count("<src") == 1 and 'translator="A"' in text
    found["xml"].write_text(text, "utf-8")
    lists = [json.loads(line) for line in found["nbest"].read_text("utf-8").splitlines()]
    lists[0]["paraphrases"] = [{"text": "The cat was sitting there .", "score": -0.5}]
    found["nbest"].write_text("".join(json.dumps(one) + "\n" for one in lists), "utf-8")
    return found


@pytest.mark.filterwarnings("ignore:.*n-best lists are left out:polyref.errors.PolyrefWarning")
def test_every_form_gives_the_same_set(tmp_path: Path, augment_with_rules: Callable[[Path, Path], None]) -> None:
    there = files(tmp_path)
    made = {}
    for form, path in there.items():
        augment_with_rules(path, tmp_path / f"out.{form}")
        made[form] = body(tmp_path / f"out.{form}")
    assert len(made["plain"][1]) == 3 and '"kind": "paraphrase"' in made["plain"][1][0]
    for form, found in made.items():
        assert found == made["plain"], form


@pytest.fixture
def augment_with_rules() -> Callable[[Path, Path], None]:
    def run(path: Path, out: Path) -> None:
        with Inputs([path]) as inputs:
            augment_file(
                inputs, out, Augmentation(Generated(RuleParaphraser(), 2 * 2), 2, filter_chain("default", "en"))
            )

    return run


def test_lists_that_are_left_out_are_counted(tmp_path: Path, augment_with_rules: Callable[[Path, Path], None]) -> None:
    with pytest.warns(PolyrefWarning, match=r"refs\.nbest\.jsonl: its 1 n-best lists are left out"):
        augment_with_rules(files(tmp_path)["nbest"], tmp_path / "out")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*n-best lists are left out:polyref.errors.PolyrefWarning")
def test_the_command_with_the_shipped_model(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    there = files(tmp_path)
    made = {}
    searched = ("--model", "shipped", "--beam", 8, "--max-len-a", 1.25, "--max-len-b", 5)  # not judged
    for form in ("plain", "xml", "sgml", "tsv", "nbest"):
        result = polyref("augment", there[form], *searched, "-k", 3, "-o", tmp_path / f"out.{form}", "--quiet")
        assert result.code == 0, result.err
        made[form] = body(tmp_path / f"out.{form}")
    assert '"kind": "paraphrase"' in made["plain"][1][2]
    for form, found in made.items():
        assert found == made["plain"], form


def test_other_columns_do_not_mix_with_unfinished_work(tmp_path: Path) -> None:
    class Failing(RuleParaphraser):
        def _note(self, text: str) -> None:
            super()._note(text)
            if self.seen > SHARD_SEGMENTS:
                raise KeyboardInterrupt

    def run(paraphraser: RuleParaphraser, column: str) -> None:
        with Inputs([table], Reading(fields={column: "reference"})) as inputs:
            work = Augmentation(Generated(paraphraser, 2 * 1), 1, filter_chain("default", "en"))
            augment_file(inputs, tmp_path / "out.jsonl", work)

    table = tmp_path / "refs.tsv"
    table.write_text("".join(f"Ann paid {n} .\tBob left {n} .\n" for n in range(2 * SHARD_SEGMENTS)))
    with pytest.raises(KeyboardInterrupt):
        run(Failing(), "1")
    with pytest.raises(DataError, match="other settings"):
        run(RuleParaphraser(), "2")
    run(RuleParaphraser(), "1")
    assert {one.refs[0].text[:3] for one in ReferenceSet.load(tmp_path / "out.jsonl")} == {"Ann"}
