"""What added references are like: the detectors on known texts, and tables over a small synthetic evaluation set."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MINIMAL = REPOSITORY / "tests" / "eval" / "minimal"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "scripts" / "bench")
    monkeypatch.syspath_prepend(REPOSITORY / "scripts" / "bench" / "quality")


@pytest.mark.parametrize(
    ("reference", "text", "alarms"),
    [
        ("The cat sat.", "The cat, sat!", {"copy"}),
        ("Ann paid 1,200 euros.", "Ann handed over 1200 euros.", set()),
        ("Ann paid seventeen euros.", "Ann spent 17 euros.", set()),
        ("Ann paid 17 euros.", "Ann spent 18 euros.", {"numbers"}),
        ("It rose by 3 %.", "It went up by 3 percent.", set()),
        ("He can hardly walk.", "He can walk well.", {"negation"}),
        ("He did not come.", "He didn't turn up.", set()),
        ("He met Ann in Rome.", "He met Ann in Paris.", {"names"}),
        ("He left the house.", "He left the the house.", {"repeats"}),
        ("The old man left.", "The old man, the old man left.", {"repeats"}),
        ("She left early.", "She departed early", {"form"}),
        ("She left early.", "She did n't stay.", {"form", "negation"}),
        ("The committee will meet on the second Monday.", "It will meet.", {"names", "short"}),
    ],
)
def test_detectors(reference: str, text: str, alarms: set[str]) -> None:
    from faults import faults

    found = faults(text, [reference], reference)
    assert {name for name, present in found.items() if present} == alarms


def test_self_bleu_and_shares() -> None:
    from faults import measure, self_bleu

    assert self_bleu(["one"]) is None
    assert self_bleu(["the same old words"] * 3) == pytest.approx(100)
    figures = measure([(["The cat sat."], [("The cat sat!", "The cat sat."), ("A cat sat.", "The cat sat.")])])
    assert figures["usable"] == 2 and figures["copy"] == 0.5 and figures["five"] == 0
    assert figures["word_f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert measure([(["The cat sat."], [])])["usable"] == 0


def test_what_outputs_and_added_references_share() -> None:
    from parts.coverage import shares

    from polyref.references import Reference, ReferenceSet, Segment

    def pseudo(text: str) -> Reference:
        return Reference(text, kind="pseudo", of=0)

    refs = ReferenceSet(
        (
            Segment("1", (Reference("A dog ran."), pseudo("A hound ran."), pseudo("The hound left."))),
            Segment("2", (Reference("Yes."),)),
        )
    )
    outputs = [["The dog ran.", "No."], ["A Hound ran.", "Yes."]]
    # New words of the added ones: hound; hound, the, left. Of the outputs: the, no; hound.
    assert shares(outputs, refs, 1, 1) == (1 / 2, 1 / 2, 1 / 3)
    assert shares(outputs, refs, 2, 1) == (3 / 2, 2 / 6, 2 / 3)
    # "a hound", "hound ran", "the hound", "hound left", "left ."; "the dog", "no ."; "a hound", "hound ran".
    assert shares(outputs, refs, 2, 2) == (5 / 2, 2 / 10, 2 / 4)
    assert all(map(math.isnan, shares([["A dog ran.", "Yes."]], refs, 0, 1)[1:]))


@pytest.mark.slow
def test_tables_of_generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evidence
    from raw_tables import read
    from sets import Set

    data, out, work = tmp_path / "data", tmp_path / "out", tmp_path / "work"
    for name in ("news", "lt"):
        shutil.copytree(MINIMAL, data / name)
        (data / name / "references" / "de-en.refC.txt").write_text("".join(f"Line {n}.\n" for n in range(5)))
        monkeypatch.setitem(evidence.SETS, name, Set(name, name, "de-en", "refA", "mqm", other="refC"))
    monkeypatch.setattr("sets.TEST_SETS", {("lt", "de-en")})
    monkeypatch.setattr("looks.commit", lambda: "abc1234")
    lists = f"lists=list:{data}/{{folder}}/paraphrases/{{pair}}.{{ref}}.jsonl"
    asked = [
        *("evidence.py", "--data", data, "--work", work, "--out", out, "--images", out, "--resamples", "20", "-k", "0"),
        *("2", "--parts", "references", "gains", "coverage", "--references", "human", lists, "--metrics", "bleu"),
        *("--uses", "max", "--sheet", "3"),
    ]

    def run(*more: str) -> None:
        monkeypatch.setattr(sys, "argv", [*map(str, asked), *more])
        evidence.main()

    run("--sets", "news")
    (row,) = read(out / "references.csv")
    assert (row["set"], row["references"], row["k"]) == ("news", "lists", "2")
    assert 0 < float(row["usable"]) <= 2 and 0 <= float(row["names_changed"]) <= 1
    sheet = (work / "sheet-news-lists.tsv").read_text().splitlines()
    assert len(sheet) == 3 and all(line.count("\t") == 4 for line in sheet)
    coverage = read(out / "coverage.csv")
    assert [(row["references"], row["k"], row["n"]) for row in coverage] == [
        *(("human", "1", n) for n in "12"),
        *(("lists", "2", n) for n in "12"),
    ]
    assert all(0 <= float(row["covered"]) <= 1 for row in coverage)
    gains = read(out / "evidence.csv")
    assert {row["references"] for row in gains} == {"human", "lists"}
    assert {row["row"] for row in gains if row["k"] != "0"} == {"real", "placebo", "difference"}
    assert (out / "gains.svg").stat().st_size > 1000
    assert not (out / "ledger.csv").exists()
    # Again from what is kept: the same numbers. A look at a test set is noted.
    run("--sets", "news")
    assert read(out / "evidence.csv") == gains
    run("--sets", "lt", "--test")
    looks = [(look["part"], look["references"], look["commit"]) for look in read(out / "ledger.csv")]
    assert looks == [("gains", "human lists", "abc1234")]
    # A look is refused where nobody could measure the same again.
    monkeypatch.setattr("looks.commit", lambda: "abc1234+")
    before = {path: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(SystemExit, match="commit first"):
        run("--sets", "lt", "--test")
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_references_are_made_again_where_what_decides_them_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import material
    import sets

    shutil.copytree(MINIMAL, tmp_path / "minimal")
    path, asked = tmp_path / "minimal" / "paraphrases" / "de-en.refA.jsonl", "lists=list:{folder}/{pair}.{ref}.jsonl"
    asked = f"lists=list:{tmp_path}/{{folder}}/paraphrases/{{pair}}.{{ref}}.jsonl"
    made: list[str] = []
    original = sets.Generator.augment
    monkeypatch.setattr(sets.Generator, "augment", lambda *args: made.append("") or original(*args))

    def added(generator: str = asked) -> list[list[str]]:
        one = material.Material.of(sets.Set("small", "minimal", "de-en", "refA", "mqm"), tmp_path)
        return one.added(generator, tmp_path, tmp_path / "work", 2).texts()

    first = added()
    assert added() == first and len(made) == 1
    added(f"{asked};filter=strict")
    assert len(made) == 2
    path.write_text(path.read_text().replace(first[0][1], "Quite another text."))
    assert added()[0][1] == "Quite another text." and len(made) == 3
    # The filters' own code: neither its version nor the filters' names say that it changed.
    monkeypatch.setattr("sets._code", lambda: "changed")
    added()
    assert len(made) == 4
    monkeypatch.setattr("sets.MEASURED_IN", {})
    tables = tmp_path / "table.tsv"
    for shares in ("0.5", "0.4"):
        tables.write_text(f"the\tthis\t{shares}\n", "utf-8")
        sets._load.cache_clear()
        added(f"words=lexical:{tables};filter=none")
    assert len(made) == 6


def test_candidates_are_made_once(tmp_path: Path) -> None:
    from rule_paraphraser import RuleParaphraser
    from sets import Kept

    inner = RuleParaphraser()
    first = list(Kept(inner, tmp_path).paraphrase(["Ann paid.", "Bob left."], 4))
    again = list(Kept(inner, tmp_path).paraphrase(["Bob left.", "Ann paid.", "Cy sang."], 4))
    assert inner.calls == [["Ann paid.", "Bob left."], ["Cy sang."]]
    assert again[:2] == first[::-1]
    # Half a line of a killed run is dropped.
    (path,) = tmp_path.iterdir()
    with path.open("a") as stream:
        stream.write('{"text": "Di')
    assert list(Kept(inner, tmp_path).paraphrase(["Cy sang."], 4)) == again[2:]
    assert len(inner.calls) == 2


def test_several_generators_take_turns(tmp_path: Path) -> None:
    from sets import Generator, Loaded, Set

    loaded = Loaded(Set("minimal", MINIMAL.name, "de-en", "refA", "mqm"), MINIMAL.parent, None)
    tables = []
    for name, line in (("a", "the\tthis"), ("b", "the\tthat")):
        tables.append(tmp_path / f"{name}.tsv")
        tables[-1].write_text(f"{line}\t0.5\n", "utf-8")
    both = Generator.parse(f"both=lexical:{tables[0]}+lexical:{tables[1]};filter=none")
    augmented = both.augment(loaded, 4, tmp_path / "work")
    assert both.name == "both" and augmented is not None
    assert both.models.count("lexical|sha:") == 2
    for segment in augmented.references:
        texts = [ref.text for ref in segment.extras]
        if len(texts) > 1:
            assert "this" in texts[0].lower() and "that" in texts[1].lower()
    assert max(len(segment.extras) for segment in augmented.references) > 1
