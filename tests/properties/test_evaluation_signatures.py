"""Rows of an evaluation that differ never share their signatures: over random settings of every option."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any, Final

import pytest
from fuzzed_sets import JUDGEMENTS
from hypothesis import assume, event, given
from hypothesis import strategies as st
from random_settings import Told, some, tried, values

from polyref.errors import PolyrefError
from polyref.eval.api import evaluate
from polyref.eval.options import EvaluateOptions, Measured
from polyref.eval.statistics.named import STATISTICS
from polyref.options import declared

MINIMAL: Final = Path(__file__).resolve().parent.parent / "eval" / "minimal"
DECLARED: Final = {**declared(Measured), **declared(EvaluateOptions)}
#: Options of other kinds of data than this set, and what changes no row.
ELSEWHERE: Final = {"pairs", "collection", "test_suites", "systems", "say", "form", "fields", "reliable"}
#: What says where a row belongs; the rest is what was measured.
PLACE: Final = ("set", "pair", "gold", "level", "metric", "k", "statistic", "control", "generator", "originals")


def by_hand(folder: Path) -> dict[str, st.SearchStrategy[Any]]:
    """Values of options that take texts, of which no declaration knows which make sense here."""
    added = folder / "minimal/paraphrases/de-en.refA.jsonl"
    other = folder / "other.jsonl"
    other.write_text(added.read_text("utf-8").replace("dog", "cat"), "utf-8")
    files = {}
    for name, (kind, text) in JUDGEMENTS.items():
        (folder / name).write_text(text, "utf-8")
        files.setdefault(kind, []).append(folder / name)
    scores = shutil.copytree(folder / "minimal/metric-scores", folder / "minimal/more-scores")
    stored = scores / "de-en/Adequacy-2-refA.sys.score"
    stored.write_text(stored.read_text().replace("0.", "0.0", 1))
    sets = st.sampled_from([added, other, "ref:refB"])
    return {
        "ref": st.sampled_from(["refA", "refB"]),
        "references": st.lists(sets, max_size=1).map(tuple) | st.dictionaries(st.sampled_from("ab"), sets, min_size=1),
        "gold": st.sampled_from(["mqm", "wmt-z", "darr"]),
        "sys_gold": st.sampled_from(["mqm", "wmt-z"]),
        "mqm": st.sampled_from(files["mqm"]),
        "da": st.lists(st.sampled_from(files["da"]), min_size=1, max_size=2, unique=True),
        "darr": st.sampled_from(files["darr"]),
        "judgements": st.sampled_from([{kind: some[0]} for kind, some in files.items()]),
        "metrics": st.lists(st.sampled_from(["bleu", "chrf", "chrf(beta=3)", "chrf(beta=1, combine=mean)", "Adequacy-2",
                                             "length"]), min_size=1, max_size=2, unique=True),
        "exclude": st.sampled_from(["Alpha", "Beta.1", "refB"]),
        "scores": st.sampled_from(["metric-scores", "more-scores"]),
        "mqm_weights": st.sampled_from([("Major=3",), ("major=4", "minor=2"), ("Minor=2",)]),
        "statistics": st.lists(st.sampled_from(STATISTICS.names()), max_size=2, unique=True),
        "baseline": st.sampled_from(["bleu", "chrf"]),
        "peers": st.just("leave-one-out"),
        "options": st.sampled_from([{"chrf_beta": 1}, {"bleu_max_ngram_order": 2}, {"combine": "mean"},
                                    {"combine": "expected", "alpha": 0.5},
                                    {"combine": "expected", "alpha": 0.50000001}]),
    }  # fmt: skip


@pytest.mark.slow
def test_rows_that_differ_are_signed_differently(tmp_path: Path) -> None:
    shutil.copytree(MINIMAL, tmp_path / "minimal")
    hand = by_hand(tmp_path)
    known = {
        name: hand[name] if name in hand else values(one) for name, one in DECLARED.items() if name not in ELSEWHERE
    }
    known["resamples"] = st.sampled_from([0, 20, 21])
    known["perm_both"] = st.sampled_from([20, 21])
    rows_of = Told()
    usual = {
        "ref": "refA",
        "gold": "mqm",
        "resamples": 20,
        "references": tmp_path / "minimal/paraphrases/de-en.refA.jsonl",
    }

    @tried()
    @given(some(known))
    def check(given: dict[str, Any]) -> None:
        own = {**usual, **given}
        if {"mqm", "da", "darr", "judgements"} & given.keys() and "gold" not in given:
            del own["gold"]
        if own.get("peers"):
            own |= {"references": None, "options": {"combine": "mean"}}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = evaluate(tmp_path / "minimal", "de-en", **own)
        except (PolyrefError, ValueError) as error:
            event(f"{type(error).__name__}: {str(error)[:60]}")
            assume(False)
        for one in table.evaluations:
            for row in one.row_values():
                place = tuple(row.pop(key, None) for key in PLACE)
                signature = row.pop("signature")
                rows_of.add((one.signature, signature, place), json.dumps(row, sort_keys=True, default=str), given)

    check()
    assert len(rows_of) > 500
