from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import wmt_json

from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.task_files import file_name, read_rows
from polyref.eval.submission import validate

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))


@pytest.fixture
def arguments(minimal: Path, tmp_path: Path) -> tuple[str, ...]:
    (minimal / "darr/de-en.tsv").unlink()
    extra = f"{minimal}/paraphrases/{{pair}}.refA.jsonl"
    return ("submit", str(minimal), "-l", "de-en", "--ref", "refA", "--refs", extra, "-m", "bleu", "--name", "parBLEU",
            "--testset", "generaltest", "-o", str(tmp_path / "out"))  # fmt: skip


@pytest.mark.parametrize("year", range(2020, 2026))
def test_files(
    polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path, minimal: Path, year: int
) -> None:
    run = polyref(*arguments, "--year", str(year), "-k", "1")
    assert run.code == 0, run.err
    assert run.out == ""
    out = tmp_path / "out"
    names = {file_name(year, level, "parBLEU") for level in ("sys", "seg")}
    assert {path.name for path in out.iterdir()} == {*names, "parBLEU.provenance.json"}
    for level in ("sys", "seg"):
        path = out / file_name(year, level, "parBLEU")
        assert validate(path, year, level).pairs == {"de-en": ("Alpha", "Beta.1", "Gamma-2", "refB")}
        if year < 2023:
            assert gzip.decompress(path.read_bytes())
    rows = list(read_rows(out / file_name(year, "sys", "parBLEU"), year, "sys"))
    system = "system_id" if year == 2025 else "system"
    (score,) = [r.score for r in rows if r.fields[system] == "Alpha" and r.fields.get("domain", "all") == "all"]
    evalset = EvalSet(minimal, "de-en")
    lines = (minimal / "paraphrases/de-en.refA.jsonl").read_text().splitlines()
    added = [json.loads(line)["paraphrases"][0] for line in lines]
    expected = sacrebleu.BLEU().corpus_score(evalset.outputs(["Alpha"])[0], [list(evalset.reference("refA")), added])
    assert score == pytest.approx(expected.score, abs=1e-9)


def test_domains_are_scored_apart(polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert polyref(*arguments, "--year", "2023", "-k", "0").code == 0
    rows = list(read_rows(tmp_path / "out/parBLEU.sys.score", 2023, "sys"))
    evalset = EvalSet(MINIMAL, "de-en")
    texts, references = evalset.outputs(["Beta.1"])[0], list(evalset.reference("refA"))
    (news,) = [r.score for r in rows if (r.fields["system"], r.fields["domain"]) == ("Beta.1", "news")]
    assert news == pytest.approx(sacrebleu.BLEU().corpus_score(texts[:3], [references[:3]]).score, abs=1e-9)


def test_the_tokeniser_follows_the_language_of_a_target_with_a_region(
    polyref: Callable[..., Any], minimal: Path, tmp_path: Path
) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    for path in sorted(minimal.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", "en-zh_CN")))
    run = polyref("submit", minimal, "--year", "2025", "-l", "en-zh_CN", "--ref", "refA", "-m", "bleu", "--name", "B",
                  "--testset", "official", "-o", tmp_path / "out")  # fmt: skip
    assert run.code == 0, run.err
    facts = json.loads((tmp_path / "out/B.provenance.json").read_text())
    assert "|tok:zh|" in facts["pairs"]["en-zh_CN"]["signature"]


def test_a_metric_with_options_of_its_own(
    polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    signatures = []
    for number, options in enumerate((("chrf(combine=expected, alpha=0.5)",), ("chrf", "--combine", "expected"))):
        out = ("-o", str(tmp_path / f"out{number}"))
        extra = ("--alpha", "0.5") if number else ()
        run = polyref(*arguments, "--year", "2024", "-m", *options, *extra, *out)
        assert run.code == 0, run.err
        facts = json.loads((tmp_path / f"out{number}/parBLEU.provenance.json").read_text())
        signatures.append(facts["pairs"]["de-en"]["signature"])
    assert signatures[0] == signatures[1] and "|combine:expected|alpha:0.5|" in signatures[0]
    refused = polyref(*arguments, "--year", "2024", "-m", "chrf,bleu", "-o", str(tmp_path / "out2"))
    assert refused.code == 2 and "names 2 metrics, expected one" in refused.err


def test_provenance_is_stated(polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert polyref(*arguments, "--year", "2024").code == 0
    facts = json.loads((tmp_path / "out/parBLEU.provenance.json").read_text())
    pair = facts["pairs"]["de-en"]
    assert (pair["references"], pair["k"], pair["used"]) == (["refA"], 2, {"human": 5, "paraphrase": 8})
    assert (pair["asked"], pair["available"]) == (2, [1, 2])
    assert pair["signature"].startswith("parBLEU|")


def test_fewer_references_than_asked_for(
    polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    run = polyref(*arguments, "--year", "2024", "-k", "10")
    assert run.code == 0
    assert "warning: de-en: some segments have only 1 extra reference: -k 10 uses what there is" in run.err
    pair = json.loads((tmp_path / "out/parBLEU.provenance.json").read_text())["pairs"]["de-en"]
    assert (pair["k"], pair["asked"], pair["available"]) == (2, 10, [1, 2])
    assert "|k:10|available:1..2|" in pair["signature"]
    assert "warning" not in polyref(*arguments, "--year", "2024", "-k", "1").err


@pytest.mark.parametrize(
    ("extra", "code", "message"),
    [
        (["--year", "2019"], 2, "2019 is not in the range"),
        (["--year", "2023", "--ref", "refB"], 2, "say what the task calls them: --reference"),
        (["--year", "2023", "-m", "yisi"], 2, "unknown metric 'yisi'"),
        (["--year", "2023", "--name", "a b"], 2, "the metric's name 'a b'"),
        (
            ["--year", "2024", "--name", ".."],
            2,
            "the metric's name '..' holds a slash or white space, begins with a dot",
        ),
        (["--year", "2023", "-l", "fr-en"], 1, "nothing for the pair 'fr-en'"),
        (["--year", "2023", "--testset", "a\tb"], 1, "field 'testset' is 'a\\tb': it cannot be written"),
    ],
)
def test_bad_usage(
    polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path, extra: list[str], code: int, message: str
) -> None:
    run = polyref(*arguments, *extra)
    assert (run.code, run.out) == (code, "")
    assert message in run.err
    assert not list((tmp_path / "out").glob("*"))


def test_unknown_outputs_cannot_be_submitted(
    polyref: Callable[..., Any], arguments: tuple[str, ...], minimal: Path
) -> None:
    shutil.copy(MINIMAL / "darr/de-en.tsv", minimal / "darr/de-en.tsv")
    (minimal / "system-outputs/de-en/Alpha.txt").write_text("\nb\nc\nd\ne\n")
    run = polyref(*arguments, "--year", "2023")
    assert (run.code, "are unknown" in run.err) == (1, True)


def test_references_without_paraphrases(polyref: Callable[..., Any], minimal: Path, tmp_path: Path) -> None:
    base = ("submit", minimal, "-l", "de-en", "--year", "2022", "--name", "x", "--testset", "t", "-o", tmp_path / "o")
    (minimal / "darr/de-en.tsv").unlink()
    assert polyref(*base, "--ref", "refA", "-m", "chrf").code == 0
    run = polyref(*base, "--ref", "refA", "-k", "3")
    assert (run.code, "without added references" in run.err) == (2, True)
    run = polyref(*base, "--ref", "refA", "refB", "--reference", "ref-AB")
    assert run.code == 0
    (tmp_path / "file").write_text("")
    run = polyref(*base[:-1], tmp_path / "file", "--ref", "refA")
    assert (run.code, "is a file, expected a directory" in run.err) == (1, True)


def test_other_metrics_scores_are_not_written_over(
    polyref: Callable[..., Any], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    base = (*arguments, "--year", "2025", "-k", "1")
    assert polyref(*base).code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    run = polyref(*base, "-m", "chrf", "--name", "parCHRF")
    assert run.code == 2
    assert "systems.tsv holds the scores of 'parBLEU', not of 'parCHRF' (write to another directory" in run.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    # The same one again is no fault, whatever it computes now; neither are several metrics where files are named so.
    assert polyref(*base, "-k", "0").code == 0
    assert (tmp_path / "out/systems.tsv").read_bytes() != before["systems.tsv"]
    for name in ("a", "b"):
        assert polyref(*arguments, "--year", "2024", "--name", name).code == 0
    (tmp_path / "out/segments.tsv").write_text("mine\n")
    run = polyref(*base)
    assert (run.code, "segments.tsv:1: 1 columns, expected 9" in run.err) == (1, True)
    assert (tmp_path / "out/segments.tsv").read_text() == "mine\n"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tiny_seq2seq import write_m2m

    return str(write_m2m(tmp_path_factory.mktemp("models") / "m2m"))


@pytest.mark.slow
def test_a_metric_of_the_source_alone(
    polyref: Callable[..., Any], minimal: Path, tmp_path: Path, translator: str
) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    # A reference that is listed as a system is one like any other: nothing is scored against it.
    shutil.copy(minimal / "references/de-en.refA.txt", minimal / "system-outputs/de-en/refA.txt")
    model = ["-m", "prism-src", "--prism-model", translator, "--source-lang", "de"]
    base = ["submit", minimal, "-l", "de-en", *model, "--name", "x", "--testset", "set"]
    for year, label in ((2020, "set"), (2021, "src"), (2024, "src")):
        run = polyref(*base, "--year", str(year), "-o", tmp_path / str(year))
        assert run.code == 0, run.err
        for level in ("sys", "seg"):
            rows = list(read_rows(tmp_path / str(year) / file_name(year, level, "x"), year, level))
            assert {row.fields["reference"] for row in rows} == {label}
            assert {row.fields["system"] for row in rows} == {"Alpha", "Beta.1", "Gamma-2", "refA", "refB"}
    facts = json.loads((tmp_path / "2024/x.provenance.json").read_text())["pairs"]["de-en"]
    assert (facts["references"], facts["k"], facts["used"]) == ([], 0, {})
    # The same scores as `polyref score` gives for the files.
    (system,) = polyref("score", minimal / "references/de-en.refB.txt", *model, "--source",
                        minimal / "sources/de-en.txt", "-i", minimal / "system-outputs/de-en/Alpha.txt",
                        "--json").json()["rows"]  # fmt: skip
    rows = list(read_rows(tmp_path / "2024/x.sys.score", 2024, "sys"))
    (score,) = [r.score for r in rows if (r.fields["system"], r.fields["domain"]) == ("Alpha", "all")]
    assert score == pytest.approx(system["score"], abs=1e-6)
    for option in (["--ref", "refA"], ["--reference", "refA"], ["-k", "1"], ["--refs", "{pair}.jsonl"]):
        run = polyref(*base, "--year", "2024", "-o", tmp_path / "o", *option)
        assert (run.code, f"{option[0]} has no use: Prism-src reads the source alone" in run.err) == (2, True)
    # References are not needed at all, sources are.
    shutil.rmtree(minimal / "references")
    assert polyref(*base, "--year", "2024", "-o", tmp_path / "o").code == 0
    (minimal / "sources/de-en.txt").unlink()
    run = polyref(*base, "--year", "2024", "-o", tmp_path / "p")
    assert (run.code, "no sources for de-en" in run.err, "sources/de-en.txt" in run.err) == (1, True, True)


def test_translations_where_there_is_no_reference(polyref: Callable[..., Any], minimal: Path, tmp_path: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    texts = EvalSet(minimal, "de-en").reference("refA")
    wmt_json.translations(tmp_path / "de-en.jsonl", [text or "" for text in texts])
    shutil.rmtree(minimal / "references")
    asked = ("submit", minimal, "-l", "de-en", "-m", "chrf", "--name", "x", "--year", "2025", "--testset", "t")
    run = polyref(*asked, "-o", tmp_path / "none")
    assert (run.code, "references: no references for de-en" in run.err) == (1, True)
    assert polyref(*asked, "-o", tmp_path / "out", "--refs", f"{tmp_path}/{{pair}}.jsonl").code == 0
    facts = json.loads((tmp_path / "out/x.provenance.json").read_text())["pairs"]["de-en"]
    assert (facts["references"], facts["k"], facts["used"]) == ([], 1, {"translation": 5})
    rows = read_rows(tmp_path / "out" / file_name(2025, "sys", "x"), 2025, "sys")
    (score,) = [r.score for r in rows if r.fields["system_id"] == "Beta.1" and r.fields.get("domain", "all") == "all"]
    outputs = EvalSet(MINIMAL, "de-en").outputs(["Beta.1"])[0]
    assert score == pytest.approx(sacrebleu.CHRF().corpus_score(outputs, [texts]).score, abs=1e-9)
