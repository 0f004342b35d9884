"""``polyref.evaluate``: the whole experiment in one call."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyref.cache import default_cache
from polyref.errors import DataError, UsageError
from polyref.eval.api import evaluate
from polyref.eval.evaluation import Evaluation
from polyref.eval.evaluation_table import EvaluationTable, average_over_pairs, fisher_average
from polyref.metrics import base
from polyref.metrics.api import short_of
from polyref.metrics.ngram.chrf import CHRF
from polyref.metrics.registry import get_metric
from polyref.references import ReferenceSet


@pytest.fixture
def choices(minimal: Path) -> dict[str, Any]:
    return {
        "data": minimal,
        "pairs": "de-en",
        "gold": "mqm",
        "ref": "refA",
        "references": {"hand": f"{minimal}/paraphrases/{{pair}}.refA.jsonl"},
        "metrics": ["bleu", "chrf"],
        "ks": [0, 1, 2],
        "originals": ["kept", "replaced"],
        "resamples": 30,
    }


def _one(table: EvaluationTable, **wanted: object) -> dict[str, Any]:
    (found,) = [row for row in table.rows if all(row[k] == v for k, v in wanted.items())]
    return found


def test_segments_that_have_too_few_are_told_of() -> None:
    assert short_of(2, 2) == []
    assert short_of(2, 1) == ["some segments have only 1 extra reference: `ks` 2 uses what there is"]
    assert short_of(2, 0) == ["some segments have no extra reference: `ks` 2 uses what there is"]


@pytest.mark.slow
def test_one_tidy_table(choices: dict[str, Any]) -> None:
    table = evaluate(**choices)
    # Five statistics, two metrics, k = 0 1 2, originals kept or replaced.
    assert len(table.rows) == 5 * 2 * 3 * 2
    columns = list(table.rows[0])
    assert {"pair", "generator", "originals", "level", "metric", "k", "statistic", "value", "gain", "p"} <= {*columns}
    assert all(list(row) == columns for row in table.rows)
    json.dumps(table.rows, allow_nan=False)
    assert table.notes == ["made by people, left out: refB",
                           "some segments have only 1 extra reference: `ks` 2 uses what there is"]  # fmt: skip
    assert repr(table) == "EvaluationTable(60 rows: minimal de-en hand; minimal de-en hand replaced)"


@pytest.mark.slow
def test_the_command_prints_what_the_call_returns(choices: dict[str, Any], polyref: Any) -> None:
    table = evaluate(**choices)
    run = ("evaluate", choices["data"], "-l", "de-en", "--gold", "mqm", "--ref", "refA", "-n", "30",
           "-k", "0", "1", "2", "--originals", "kept", "replaced",
           "--refs", f"hand={choices['references']['hand']}")  # fmt: skip
    assert polyref(*run).out == f"{table}\n"
    assert polyref(*run, "--json").json() == {
        "signature": table.signature,
        "rows": table.rows,
        "circular": table.circular,
    }


@pytest.mark.slow
def test_what_is_in_memory_is_as_good_as_a_file(choices: dict[str, Any]) -> None:
    file = choices["references"]["hand"].replace("{pair}", "de-en")
    expected = evaluate(**{**choices, "references": file})
    refset = ReferenceSet.load(file)
    assert evaluate(**{**choices, "references": refset}).rows == expected.rows
    plain = [[ref.text for ref in segment.extras] for segment in refset]
    assert evaluate(**{**choices, "references": plain}).rows == expected.rows
    metrics = {"bleu": get_metric("bleu"), "chrf": get_metric("chrf")}
    assert evaluate(**{**choices, "references": refset, "metrics": metrics}).rows == expected.rows
    with pytest.raises(DataError, match="has 4 segments, but"):
        evaluate(**{**choices, "references": ReferenceSet(refset.segments[:4])})


def test_metrics_with_options_have_the_names_of_a_mapping(choices: dict[str, Any]) -> None:
    uses = {"plain": get_metric("bleu"), "soft": get_metric("bleu", combine="expected")}
    table = evaluate(**{**choices, "metrics": uses, "originals": "kept"})
    assert {row["metric"] for row in table.rows} == {"plain", "soft"}
    found = {row["signature"].split("|combine:")[1].split("|")[0] for row in table.rows if row["k"] == 2}
    assert found == {"max", "expected"}


@pytest.mark.slow
def test_replacing_the_originals(choices: dict[str, Any], minimal: Path) -> None:
    table = evaluate(**choices)
    kept, replaced = (_one(table, originals=o, metric="bleu", level="sys", k=1) for o in ("kept", "replaced"))
    assert kept["value"] != replaced["value"]
    # Both are measured from the plain metric.
    bases = [_one(table, originals=o, metric="bleu", level="sys", k=0) for o in ("kept", "replaced")]
    assert bases[0]["value"] == bases[1]["value"]
    assert replaced["gain"] == pytest.approx(replaced["value"] - bases[0]["value"])
    # With the originals gone, the first paraphrases are the references: the same as a set that has only those.
    lines = (minimal / "paraphrases/de-en.refA.jsonl").read_text().splitlines()
    first = [json.loads(line)["paraphrases"][0] for line in lines]
    (minimal / "references/de-en.refP.txt").write_text("".join(f"{text}\n" for text in first))
    alone = evaluate(**{**choices, "ref": "refP", "references": ["x"] * len(lines), "originals": "kept", "ks": 0})
    assert replaced["value"] == pytest.approx(_one(alone, metric="bleu", level="sys")["value"], abs=1e-12)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """A cache of the test's own: how many entries it has."""
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "kept"))
    default_cache.cache_clear()
    yield lambda: default_cache().summary()["entries"]
    default_cache.cache_clear()


def test_statistics_in_the_cache_give_the_same_numbers_without_counting(
    choices: dict[str, Any], kept: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    choices |= {"metrics": ["bleu(combine=mean)", "chrf", "ter"]}
    plain = evaluate(**choices, options={"cache": False}).rows
    assert kept() == 0
    # With k = 1 there, the others alone are counted.
    evaluate(**{**choices, "ks": 1})
    assert kept() == 3 * 3  # k = 0 and 1, and 1 without the human references
    assert evaluate(**choices).rows == plain
    assert kept() == 3 * 5

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("text was read again")

    monkeypatch.setattr(base.Metric, "statistics", forbidden)
    assert evaluate(**choices).rows == plain
    with pytest.raises(AssertionError, match="read again"):
        evaluate(**choices, options={"cache": False})


def test_changed_texts_and_options_are_counted_again(
    choices: dict[str, Any], kept: Callable[[], int], minimal: Path
) -> None:
    choices |= {"metrics": "chrf", "originals": "kept"}
    before = evaluate(**choices).rows
    assert kept() == 3
    assert evaluate(**choices, options={"chrf_beta": 1}).rows != before
    assert kept() == 6
    path = minimal / "system-outputs/de-en/Alpha.txt"
    path.write_text(path.read_text().replace("dog", "cat"))
    assert evaluate(**choices).rows != before
    assert kept() == 9


def test_statistics_of_foreign_code_are_not_kept(choices: dict[str, Any], kept: Callable[[], int]) -> None:
    class Own(CHRF):
        """Code that can change without a new version of polyref."""

    own = {"own": Own()}
    assert evaluate(**{**choices, "metrics": own}).rows == evaluate(**{**choices, "metrics": {"own": CHRF()}}).rows
    assert kept() == 5


@pytest.fixture
def measured(choices: dict[str, Any]) -> Evaluation:
    return evaluate(**{**choices, "originals": "kept"}).evaluations[0]


def _pair(one: Evaluation, pair: str, n: int, values: tuple[float, float]) -> Evaluation:
    """The evaluation with two rows, Pearson's r of ``n`` systems for k = 0 and 1."""
    row = next(row for row in one.rows if row.level == "sys" and row.statistic == "pearson")
    return replace(
        one, pair=pair, rows=[replace(row, value=r, gain=r - values[0], n=n, k=k) for k, r in enumerate(values)]
    )


def test_average_over_language_pairs(measured: Evaluation) -> None:
    pairs = [_pair(measured, "de-en", 12, (0.5, 0.9)), _pair(measured, "fr-en", 6, (0.4, 0.5))]
    zero, one = average_over_pairs(pairs)
    assert zero["value"] == pytest.approx(fisher_average([0.5, 0.4], [12, 6]))
    assert one["value"] == pytest.approx(0.845880, abs=1e-6)
    assert one["gain"] == pytest.approx(one["value"] - zero["value"])
    assert (zero["gain"], one["pairs"], one["n"]) == (0, 2, 18)
    # Three systems have no variance of z: such pairs are left out.
    assert average_over_pairs([measured]) == []
    assert not math.isnan(one["value"])


def test_undefined_correlations_are_in_no_average(measured: Evaluation) -> None:
    pairs = [
        _pair(measured, "de-en", 12, (0.5, 0.9)),
        _pair(measured, "fr-en", 6, (0.4, math.nan)),
        _pair(measured, "fi-en", 8, (math.nan, 0.6)),
    ]
    zero, one = average_over_pairs(pairs)
    assert (zero["pairs"], zero["n"], one["pairs"], one["n"]) == (2, 18, 2, 20)
    assert one["value"] == pytest.approx(fisher_average([0.9, 0.6], [12, 8]))
    # The gain is over the one pair where both are defined.
    assert one["gain"] == pytest.approx(0.9 - 0.5)
    assert average_over_pairs([_pair(measured, "de-en", 12, (math.nan, math.nan))]) == []
    # Two sets of one name are two.
    (zero, one) = average_over_pairs([pairs[0], pairs[0]])
    assert (zero["pairs"], one["pairs"], one["n"]) == (2, 2, 24)


@pytest.mark.slow
def test_report_and_data_frame(choices: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = evaluate(**choices)
    page = table.report(tmp_path / "report")
    assert page.read_text().startswith("<!doctype html>")
    settings = json.loads((tmp_path / "report/report.json").read_text())["settings"]
    assert (settings["ks"], settings["gold"], settings["data"]) == ([0, 1, 2], "mqm", str(choices["data"]))
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(table.rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"originals": "gone"}, "`originals` is 'gone', expected kept or replaced"),
        ({"ks": -1}, "`ks` is -1, expected 0 or more"),
        ({"confidence": 1}, "`confidence` is 1.0, expected between 0 and 1"),
        ({"correction": "guess"}, "`correction` is 'guess', expected one of holm, bonferroni, bh"),
        ({"metrics": ["bleu", "yisi"]}, "no stored scores of 'yisi'"),
        ({"references": None}, "k = 2 without added references (give them with `references`)"),
        ({"ref": ()}, "several references: refA, refB (choose with `ref`)"),
        ({"gold": ("mqm", "wmt-z")}, "one set has one `gold`, not 2"),
        ({"references": None, "ks": 0, "form": "tsv"}, "`form` has no use without a file of `references`"),
        ({"references": None, "ks": 0, "fields": {"a": "id"}}, "`fields` has no use without a file of `references`"),
        ({"resamples": 0, "over": "both"}, "`over` has no use with `resamples` 0"),
        ({"resamples": 0, "confidence": 0.5}, "`confidence` has no use with `resamples` 0"),
        ({"resamples": 0, "seed": 5}, "`seed` has no use with `resamples` 0"),
        ({"repeated_pairs": "merge"}, "`repeated_pairs` has no use: no judgement is of relative rankings"),
        ({"scores": "nowhere"}, "`scores` has no use: no metric here is a score file"),
        (
            {"references": None, "originals": "kept", "metrics": "length"},
            "`ks` has no use: every metric here is a score file",
        ),
        ({"mqm": "x"}, "`gold`, `mqm`, `da`, `darr` and `judgements` are alternatives"),
        ({"metrics": [get_metric("bleu"), get_metric("bleu", lowercase=True)]}, "two metrics called 'bleu'"),
    ],
)
def test_faults(choices: dict[str, Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(**{**choices, **given})
    assert message in str(caught.value)


def test_nothing_to_replace_the_originals(choices: dict[str, Any], minimal: Path) -> None:
    path = minimal / "paraphrases/de-en.refA.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(lines[0]), "paraphrases": []}), *lines[1:]]) + "\n")
    with pytest.raises(DataError, match="segment 1 has no added reference to replace"):
        evaluate(**choices)


@pytest.fixture
def two_pairs(minimal: Path) -> Path:
    """The set with a second pair, French to English, that is its copy."""
    for path in list(minimal.rglob("*de-en*")):
        copy = path.with_name(path.name.replace("de-en", "fr-en"))
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
    return minimal


def test_averages_are_rows_like_the_others(two_pairs: Path, choices: dict[str, Any]) -> None:
    asked = {**choices, "data": two_pairs, "pairs": ["de-en", "fr-en"], "originals": "kept", "include_human": True}
    for more in ({}, {"placebo": 1}):
        table = evaluate(**{**asked, **more})
        rows = table.rows
        average = [row for row in rows if row["pair"] == "average"]
        shared = [key for key in rows[0] if all(key in row for row in rows)]
        assert all(list(row) == shared for row in average) and {"verdict", "redrawn", "references"} <= {*shared}
        assert {row.get("control") for row in average} == {"real" if more else None}
        assert {row["verdict"] for row in average} == {None} and len(average) == 6
    # What is gained does not depend on whether k = 0 is asked for as well.
    alone = [row for row in evaluate(**{**asked, "ks": [2]}).rows if row["pair"] == "average"]
    expected = [row["gain"] for row in average if row["k"] == 2]
    assert [row["gain"] for row in alone] == pytest.approx(expected) and None not in expected
    over = evaluate(**{**asked, "ks": [2], "baseline": "bleu"}).rows
    assert all(row["gain"] is not None for row in over if row["pair"] == "average")


def test_perm_both_leaves_out_a_pair_that_has_too_little(two_pairs: Path, choices: dict[str, Any]) -> None:
    asked = {**choices, "data": two_pairs, "pairs": ["de-en", "fr-en"], "originals": "kept", "perm_both": 9}
    scores = two_pairs / "human-scores" / "fr-en.mqm.seg.score"
    lines = [line.split("\t") for line in scores.read_text("utf-8").splitlines()]
    # Each segment is judged for one system alone.
    systems = list(dict.fromkeys(system for system, _ in lines))
    kept = (score if n % 5 == systems.index(system) else "None" for n, (system, score) in enumerate(lines))
    scores.write_text("".join(f"{system}\t{score}\n" for (system, _), score in zip(lines, kept, strict=True)))
    said: list[tuple[str, str]] = []
    table = evaluate(**asked, say=lambda kind, message: said.append((kind, message)))
    tested = {row["pair"] for row in table.rows if row["p_perm_both"] is not None}
    fault = "`perm_both` needs 2 segments with all 3 systems judged, and the judgement 'mqm' has 0"
    note = f"fr-en is without PERM-BOTH: {fault}"
    assert tested == {"de-en"} and ("note", note) in said and note in table.notes
    with pytest.raises(UsageError, match=fault):
        evaluate(**{**asked, "pairs": "fr-en"})


@pytest.fixture
def bare(minimal: Path, tmp_path: Path) -> Path:
    """The set without references."""
    folder = Path(shutil.copytree(minimal, tmp_path / "bare"))
    shutil.rmtree(folder / "references")
    return folder


def _translations(minimal: Path) -> ReferenceSet:
    """Its references and their paraphrases, as translations of its sources."""
    given = ReferenceSet.load(minimal / "paraphrases/de-en.refA.jsonl")
    sources = (minimal / "sources/de-en.txt").read_text("utf-8").splitlines()
    return ReferenceSet(
        tuple(
            replace(one, source=source, refs=tuple(replace(ref, kind="translation", of=None) for ref in one.refs))
            for one, source in zip(given, sources, strict=True)
        )
    )


#: What tells a run over references from one over translations of the same texts.
APART = {"set", "k", "generator", "signature", "without_added"}


def test_translations_of_the_source_alone(choices: dict[str, Any], minimal: Path, bare: Path, tmp_path: Path) -> None:
    more = {"originals": "kept", "pairwise": True, "perm_both": 20}
    translated = _translations(minimal)
    said: list[str] = []
    asked = {**choices, **more, "data": bare, "ref": (), "references": translated, "ks": (1, 2, 3)}
    found = evaluate(**asked, say=lambda kind, text: said.append(text))
    expected = evaluate(**choices | more).rows
    rows = found.rows
    assert {row["k"] for row in rows} == {1, 2, 3} and len(rows) == len(expected)
    for one, other in zip(rows, expected, strict=True):
        assert one["k"] == other["k"] + 1
        wanted = {key: value for key, value in other.items() if key not in APART}
        if not other["k"]:  # where gains start, nothing is gained
            assert (one["gain"], one["gain_ci"], one["verdict"]) == (None, None, None)
            wanted |= dict.fromkeys(("gain", "gain_ci", "p", "p_williams", "p_perm_both"))
        assert {key: one[key] for key in wanted} == wanted
    # Every value of k that there is, and never 0.
    assert {row["k"] for row in evaluate(**asked | {"ks": ()}).rows} == {1, 3}
    assert {row["gain"] for row in evaluate(**asked | {"ks": 2, "pairwise": False}).rows} == {None}
    none = "no human reference: all are added ones, and k counts them from the first"
    assert none in said and none in found.notes and f"bare de-en: {none}" in found.text()
    assert "gains over the same metric with k = 1;" in found.text()
    assert found.signature.split("|ref:")[1].startswith("none|")
    page = found.report(tmp_path / "report").read_text()
    assert none in page and "over the same metric with k = 1" in page and "without added references" not in page
    # A set with a reference has k = 0, and nothing of this is said.
    assert none not in evaluate(**choices).text()


def test_a_set_without_references_takes_those_of_a_file(choices: dict[str, Any], minimal: Path, bare: Path) -> None:
    asked = {**choices, "data": bare, "ref": ()}
    for one, other in zip(evaluate(**asked).rows, evaluate(**choices).rows, strict=True):
        assert {k: v for k, v in one.items() if k != "set"} == {k: v for k, v in other.items() if k != "set"}
    human = minimal / "references/de-en.refA.txt"
    rows = evaluate(**asked | {"references": human, "ks": (), "originals": "kept"}).rows
    assert {(row["k"], row["references"]) for row in rows} == {(0, 1.0)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ks": (0, 1)}, "`ks` 0 is the human references alone, and there is no human reference"),
        ({"placebo": 1}, "`placebo` has no use: there is no human reference"),
        ({"originals": "replaced"}, "`originals` has no use: there is no human reference"),
        ({"ref": "refA"}, "references: no references for de-en"),
        ({"references": None}, "no references for de-en, which chrf reads (give translations of its sources"),
        ({"references": None, "metrics": "chrg"}, "no stored scores of 'chrg'"),
    ],
)
def test_faults_without_human_reference(
    choices: dict[str, Any], minimal: Path, bare: Path, given: dict[str, Any], message: str
) -> None:
    asked = {**choices, "data": bare, "ref": (), "references": _translations(minimal), "ks": (), "metrics": "chrf",
             "originals": "kept"}  # fmt: skip
    with pytest.raises((UsageError, DataError)) as caught:
        evaluate(**asked | given)
    assert message in str(caught.value)


def test_translations_of_other_sources(choices: dict[str, Any], minimal: Path, bare: Path, tmp_path: Path) -> None:
    asked = {**choices, "data": bare, "ref": (), "ks": (), "originals": "kept"}
    translated = _translations(minimal)
    for changed, message in (
        (lambda one: replace(one, source="Etwas anderes."), "segment 2: its source is 'Etwas anderes.', that of the"),
        (lambda one: replace(one, refs=()), "segment 2 has no reference with k = 1"),
    ):
        segments = [changed(one) if number == 1 else one for number, one in enumerate(translated)]
        ReferenceSet(tuple(segments)).save(tmp_path / "t.jsonl")
        with pytest.raises(DataError, match=message):
            evaluate(**asked | {"references": tmp_path / "t.jsonl"})
    with pytest.raises(DataError, match=r"has 4 segments, but .*system-outputs.* has 5"):
        evaluate(**asked | {"references": ReferenceSet(translated.segments[:4])})


def test_pairs_with_and_without_references(two_pairs: Path, choices: dict[str, Any], tmp_path: Path) -> None:
    _translations(two_pairs).save(tmp_path / "fr-en.jsonl")
    shutil.copy(two_pairs / "paraphrases/de-en.refA.jsonl", tmp_path / "de-en.jsonl")
    for file in (two_pairs / "references").glob("fr-en.*"):
        file.unlink()
    asked = {**choices, "data": two_pairs, "pairs": ["de-en", "fr-en"], "originals": "kept", "metrics": "chrf"}
    found = evaluate(**asked | {"references": f"{tmp_path}/{{pair}}.jsonl", "ks": (0, 1, 3)})
    assert {(row["pair"], row["k"]) for row in found.rows if row["pair"] != "average"} == {
        ("de-en", 0), ("de-en", 1), ("de-en", 3), ("fr-en", 1), ("fr-en", 3),
    }  # fmt: skip
    assert "with k = 0 or 1;" in found.text() and found.without_human[0].startswith("minimal fr-en: no human reference")
    assert len(found.without_human) == 1


def test_score_files_beside_translations(choices: dict[str, Any], minimal: Path, bare: Path) -> None:
    asked = {**choices, "data": bare, "references": _translations(minimal), "ks": (), "originals": "kept"}
    found = evaluate(**asked | {"metrics": ["chrf", "Adequacy-2", "length"]}).rows
    alone = evaluate(bare, "de-en", gold="mqm", metrics=["Adequacy-2", "length"], ref="refA", resamples=30).rows
    assert [row["value"] for row in found if row["k"] is None] == [row["value"] for row in alone]
    assert {row["k"] for row in found if row["metric"] == "chrf"} == {1, 3}


@pytest.mark.slow
def test_a_metric_of_the_source_alone_needs_no_reference(
    choices: dict[str, Any], bare: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tiny_seq2seq import write_m2m

    model = write_m2m(tmp_path_factory.mktemp("models") / "m2m")
    asked = {
        **choices,
        "references": None,
        "ks": (),
        "originals": "kept",
        "metrics": "prism-src",
        "options": {"prism_model": str(model), "source_lang": "de", "target_lang": "en"},
    }
    found, expected = evaluate(**asked | {"data": bare, "ref": ()}), evaluate(**asked).rows
    assert [(row["k"], row["value"]) for row in found.rows] == [(0, row["value"]) for row in expected]
    assert found.without_human == []
