"""The words of signatures. What scores' own signatures say is tested beside the metrics."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from polyref import __version__
from polyref.metrics.signature import (
    InputsDigest,
    described_sources,
    digest,
    exact,
    flat,
    inputs_signature,
    provenance,
    read_sources,
    shortened,
)
from polyref.references import Reference, ReferenceSet, Segment


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (BLEU(), "BLEU"),
        (CHRF(word_order=2), "chrF2++"),
        (TER(normalized=True, asian_support=True, no_punct=True), "TER"),
        (TER(case_sensitive=True), "parTER"),
    ],
)
def test_short_names_are_those_of_sacrebleu(metric: Any, name: str) -> None:
    metric.corpus_score(["It is late."], [["It was late."]])
    full, short = (f"{name}|{metric.get_signature().format(short)}" for short in (False, True))
    assert shortened(full) == short != full


def test_short_signatures_keep_what_sacrebleu_has_no_name_for() -> None:
    assert shortened("parBLEU|nrefs:1|tok:13a|model:a:b|plain") == "parBLEU|#:1|tok:13a|model:a:b|plain"


def test_a_digest_is_the_start_of_sha256() -> None:
    assert digest("BLEU|nrefs:1") == hashlib.sha256(b"BLEU|nrefs:1").hexdigest()[:10]


def test_numbers_have_the_digits_that_tell_them_apart() -> None:
    assert [exact(value) for value in (0.5, 2, 1e-7, 1 / 3, 0.1 + 0.2)] == [
        *("0.5", "2", "1e-07", "0.3333333333333333", "0.30000000000000004"),
    ]


def test_what_a_run_read_is_said_in_one_order() -> None:
    late = Reference("It is late."), Reference("Es ist spät.", kind="postedit")
    parts = [ReferenceSet((Segment("a", late),)), ReferenceSet((Segment("b", late[:1]), Segment("c", late[:1])))]
    read = InputsDigest()
    for part in parts:
        read.add(part)
    # The bytes of each text after their number; "ä" has two.
    hashed = (
        b"1:a5:human11:It is late.8:postedit13:Es ist sp\xc3\xa4t.;1:b5:human11:It is late.;1:c5:human11:It is late.;"
    )
    texts = hashlib.sha256(hashed).hexdigest()[:16]
    versions = f"sacrebleu:{version('sacrebleu')}|polyref:{__version__}"
    said = f"metrics:bleu,ter|k:0,2|segments:3|refs:1..2|sha256:{texts}|seed:5|{versions}"
    assert read.signature(["bleu", "ter"], [0, 2], {"seed": 5}) == said
    texts = hashlib.sha256().hexdigest()[:16]
    nothing = f"metrics:bleu|k:0|segments:0|refs:0|sha256:{texts}|{versions}"
    assert inputs_signature(ReferenceSet(()), ["bleu"], [0]) == nothing


def test_how_references_were_made_is_said_in_one_order() -> None:
    made = {
        "seed": 0,
        "select": (None, "mbr"),
        "filters": {"a": True, "b": None, "c": [1, None, False]},
        "peers": "one\ntwo | three",
        "decoding": {"beam": 5},
        "generator": "model",
        "lang": "en",
    }
    assert provenance(made) == [
        "gen:model",
        "dec:beam=5",
        "peers:one two / three",
        "filters:a=yes,c=1+-+no",
        "select:rank+mbr",
        "seed:0",
    ]
    assert provenance({"generator": None, "filters": {}, "peers": []}) == []
    assert flat((True, False)) == "yes+no"


def test_sources_that_were_read_are_told_apart_from_others() -> None:
    def told(*sources: str | None, ids: str = "12") -> list[str]:
        made = ReferenceSet.from_texts([["It is late."]] * len(sources), paraphrases=[[]] * len(sources))
        named = zip(made.segments, sources, ids, strict=True)
        references = ReferenceSet(tuple(replace(one, source=source, id=id) for one, source, id in named), {"seed": 5})
        meta = read_sources(references)
        assert set(meta) == {"seed", "sources_read"} and described_sources(references.meta) == []
        return described_sources(meta)

    # From `printf "[('1', 'Es ist spät.'), ('2', None)]" | sha256sum`.
    assert told("Es ist spät.", None) == ["sources:7c9aa9e23ee0"]
    assert told("a", "b") != told("b", "a")
    assert told("a", "b") != told("a", "b", ids="13")
    assert told("half \ud800", "b") != told("a", "b")


def test_sources_count_in_the_inputs_of_a_run_where_a_metric_reads_them() -> None:
    references = ReferenceSet.from_texts([["It is late."]], paraphrases=[[]])
    other = ReferenceSet((replace(references.segments[0], source="Es ist spät."),))
    assert inputs_signature(references, ["bleu"], [0]) == inputs_signature(other, ["bleu"], [0])
