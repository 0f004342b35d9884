from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.eval.data.task_files import YEARS, read_rows, write_rows
from polyref.eval.submission import TestSet, domains_to_score, reference_name, segment_rows, system_rows, validate

TESTSET = TestSet("de-en", "set", ("d1", "d1", "d2"), ("news", "news", "talk"))
SCORES = {"Alpha": np.array([1.0, 2.0, 0.5]), "Beta.1": np.array([0.25, 0.1, -3.0])}


def _written(tmp_path: Path, year: int, level: str) -> Path:
    path = tmp_path / f"m.{level}.{year}"
    reference = reference_name(year, "refA", "set")
    if level == "seg":
        write_rows(path, year, level, segment_rows(year, "m", TESTSET, reference, SCORES))
    else:
        domains = {d: {s: float(v.mean()) for s, v in SCORES.items()} for d in domains_to_score(year, TESTSET)}
        write_rows(path, year, level, system_rows(year, "m", TESTSET, reference, domains))
    return path


EXACT = {
    (2020, "sys"): "m de-en set set Alpha 1.1666666666666667",
    (2020, "seg"): "m de-en set set Alpha d2 1 0.5",
    (2021, "sys"): "m de-en set ref-A Alpha 1.1666666666666667",
    (2021, "seg"): "m de-en set ref-A Alpha 3 0.5",
    (2022, "sys"): "m de-en set talk ref-A Alpha 1.1666666666666667",
    (2022, "seg"): "m de-en set talk d2 ref-A Alpha 3 0.5",
    (2023, "sys"): "m de-en set talk refA Alpha 1.1666666666666667",
    (2023, "seg"): "m de-en set talk d2 refA Alpha 3 0.5",
    (2024, "sys"): "m de-en set all refA Alpha 1.1666666666666667",
    (2024, "seg"): "m de-en set news d1 refA Alpha 2 2.0",
    (2025, "sys"): "all all de en set Alpha all m 1.1666666666666667",
    (2025, "seg"): "d2 3 de en set Alpha talk m 0.5",
}


@pytest.mark.parametrize(("year", "level"), EXACT)
def test_lines_of_every_year(tmp_path: Path, year: int, level: str) -> None:
    path = _written(tmp_path, year, level)
    lines = path.read_text().splitlines()
    assert "\t".join(EXACT[year, level].split()) in lines
    if year == 2025:
        header = "doc_id segment_id source_lang target_lang set_id system_id domain_name method overall"
        assert lines.pop(0).split("\t") == header.split()
    assert len(lines) == (6 if level == "seg" else 2 * len(domains_to_score(year, TESTSET)))


@pytest.mark.parametrize("year", YEARS)
def test_what_is_written_is_valid(tmp_path: Path, year: int) -> None:
    for level in ("sys", "seg"):
        checked = validate(_written(tmp_path, year, level), year, level, [TESTSET])
        assert checked.pairs == {"de-en": ("Alpha", "Beta.1")}
        assert checked.segments == ({"de-en": 3} if level == "seg" else {})
        rows = list(read_rows(_written(tmp_path, year, level), year, level))
        copy = tmp_path / "copy"
        write_rows(copy, year, level, rows)
        assert copy.read_bytes() == _written(tmp_path, year, level).read_bytes()


def _lines(tmp_path: Path, year: int, level: str) -> tuple[Path, list[str]]:
    path = _written(tmp_path, year, level)
    return path, path.read_text().splitlines(keepends=True)


def test_missing_segments(tmp_path: Path) -> None:
    for year in YEARS:
        path, lines = _lines(tmp_path, year, "seg")
        path.write_text("".join(lines[:-1]))
        with pytest.raises(DataError, match=r"Beta\.1 ends after 2 segments, expected 3"):
            validate(path, year, "seg")
        first = 2 if year == 2025 else 1
        path.write_text("".join(lines[: first - 1] + lines[first:]))
        with pytest.raises(DataError, match=rf":{first}: field 'segment(_id)?' is '2', expected 1"):
            validate(path, year, "seg")


def test_other_documents_and_domains(tmp_path: Path) -> None:
    other = TestSet("de-en", "set", ("d1", "d1", "d3"), ("news", "news", "talk"))
    path = _written(tmp_path, 2023, "seg")
    with pytest.raises(DataError, match=":3: field 'document' is 'd2', expected 'd3'"):
        validate(path, 2023, "seg", [other])
    other = TestSet("de-en", "set", ("d1", "d1", "d2"), ("news", "news", "web"))
    with pytest.raises(DataError, match=":3: field 'domain' is 'talk', expected 'web'"):
        validate(path, 2023, "seg", [other])
    with pytest.raises(DataError, match=":3: field 'domain' is 'talk', expected one of news, web, all"):
        validate(_written(tmp_path, 2023, "sys"), 2023, "sys", [other])
    with pytest.raises(DataError, match=":4: field 'domain_name' is 'talk', expected 'web'"):
        validate(_written(tmp_path, 2025, "seg"), 2025, "seg", [other])
    longer = TestSet("de-en", "set", ("d1", "d1", "d2", "d2"), ("news", "news", "talk", "talk"))
    with pytest.raises(DataError, match="Alpha ends after 3 segments, expected 4"):
        validate(path, 2023, "seg", [longer])
    elsewhere = TestSet("fr-en", "set", ("d",), ("news",))
    for level in ("sys", "seg"):
        with pytest.raises(DataError, match=r"field 'testset'.* of de-en is not a test set it should hold"):
            validate(_written(tmp_path, 2023, level), 2023, level, [elsewhere])


def test_two_metrics_in_one_file(tmp_path: Path) -> None:
    path, lines = _lines(tmp_path, 2021, "sys")
    path.write_text(lines[0] + lines[1].replace("m\t", "n\t", 1))
    with pytest.raises(DataError, match=":2: field 'metric' is 'n', but the file began with 'm'"):
        validate(path, 2021, "sys")


def test_a_reference_against_itself(tmp_path: Path) -> None:
    path, lines = _lines(tmp_path, 2022, "sys")
    path.write_text(lines[0].replace("Alpha", "refA"))
    with pytest.raises(DataError, match=":1: field 'system' 'refA' is scored against itself"):
        validate(path, 2022, "sys")


def test_with_and_without_reference(tmp_path: Path) -> None:
    path, lines = _lines(tmp_path, 2022, "sys")
    path.write_text(lines[0] + lines[1].replace("ref-A", "src"))
    with pytest.raises(DataError, match=":2: field 'reference' is 'src': de-en has scores with and without"):
        validate(path, 2022, "sys")


def test_names_and_domains_by_year() -> None:
    assert [reference_name(year, "refA", "t") for year in YEARS] == ["t", "ref-A", "ref-A", "refA", "refA", "refA"]
    assert [reference_name(year, "src", "t") for year in YEARS] == ["t", "src", "src", "src", "src", "src"]
    assert domains_to_score(2021, TESTSET) == domains_to_score(2025, TESTSET) == ("all",)
    assert domains_to_score(2023, TESTSET) == ("news", "talk", "all")
    assert domains_to_score(2023, TestSet("a-b", "t", ("-",), ("all",))) == ("all",)
    assert TESTSET.rank_in_document() == [1, 2, 1]
    assert TESTSET.over("news").tolist() == [True, True, False]
    with pytest.raises(UsageError, match="expected sys or seg"):
        validate("nothing", 2023, "doc")
    with pytest.raises(DataError, match="Alpha has 2 scores, but the test set has 3 segments"):
        list(segment_rows(2023, "m", TESTSET, "refA", {"Alpha": np.zeros(2)}))


@pytest.mark.data
@pytest.mark.parametrize("name", ["parbleu", "parchrf++", "chrF", "TER"])
def test_official_files_are_valid(data_dir: Path, name: str) -> None:
    for level in ("sys", "seg"):
        checked = validate(data_dir / f"wmt20-metrics/scores/{name}.{level}.score.gz", 2020, level)
        assert {"de-en", "en-zh", "iu-en", "ja-en"} <= set(checked.pairs)
