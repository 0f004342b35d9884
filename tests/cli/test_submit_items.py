"""The metrics task of 2026: one file of all pairs in, one file with a number for every output out."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wmt_items import Row, rows_of, write_items

import polyref as library
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.submit import Submission, submit
from polyref.eval.submit_items import Metrics, check_items
from polyref.formats.base import Lines
from polyref.formats.metrics_task import read_items
from polyref.references import Reference, ReferenceSet, Segment
from polyref.textfiles import iter_lines

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
GERMAN, CHINESE, NONE = "deu_Latn-eng_Latn", "eng_Latn-zho_Hans", "eng_Latn-bel_Cyrl"
SOURCES = ["Der Hund schläft.", "Sie öffnet das Fenster.", "Wir kauften 3 Äpfel.", "Es regnet.", "Morgen wird es kalt."]
HUMAN = [
    "The dog is asleep.",
    "She opens the window. ",
    "We bought 3 apples.",
    "It rains.",
    "It will be cold tomorrow.",
]
SYSTEMS = {
    "GPT 5.2": [
        "The dog sleeps.",
        "She is opening the window.",
        "We bought three apples. ",
        "",
        "Tomorrow it gets cold.",
    ],
    "B": ["A dog is asleep.", "She opens the window.", "We bought 3 pears.", "It is raining.", "It will be cold."],
}
ZH = ["狗睡着了。", "她打开窗户。", "我们买了三个苹果。", "下雨了。", "明天会冷。"]
OTHERS = {"B": ["狗在睡觉。", "她开了窗。", "我们买了3个苹果。", "天在下雨。", "明天冷。"], "C": ZH}


def german() -> list[Row]:
    return rows_of(GERMAN, SOURCES, SYSTEMS, HUMAN)


@pytest.fixture
def every(tmp_path: Path) -> Path:
    challenge = rows_of(
        "de-en", SOURCES[:2], {"good": HUMAN[:2], "bad": SYSTEMS["B"][:2]}, HUMAN[:2], "human", "challenge"
    )
    return write_items(
        tmp_path / "mteval.jsonl", [*german(), *rows_of(CHINESE, HUMAN, OTHERS, ZH, "pseudo"), *challenge]
    )


def _predicted(path: Path) -> dict[str, dict[str, float]]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as stream:
        return {row["item_id"]: row["task2_pred"] for row in map(json.loads, stream)}


def _scores(
    rows: list[Row], references: Any, metric: str, k: int = 0, target: str | None = None
) -> dict[tuple[str, str], float]:
    """What `score` says of every item and system."""
    systems = {name: [row["hyps"][name] for row in rows] for name in sorted(rows[0]["hyps"])}
    found = library.score(systems, references, metric, k, target_lang=target).results[0].scores
    return {
        (row["item_id"], name): float(found.segment[s, n])
        for n, row in enumerate(rows)
        for s, name in enumerate(found.systems)
    }


@pytest.mark.parametrize("metric", ["chrf++", "bleu", "ter"])
def test_scores_are_those_of_score(every: Path, tmp_path: Path, polyref: Callable[..., Any], metric: str) -> None:
    out = tmp_path / "pred.jsonl.gz"
    run = polyref("submit", every, "--year", "2026", "-m", metric, "--name", "mine", "-o", out)
    assert run.code == 0, run.err
    found = _predicted(out)
    items = [json.loads(line) for line in every.read_text().splitlines()]
    assert [(name, [*scores]) for name, scores in found.items()] == [(one["item_id"], [*one["hyps"]]) for one in items]
    sign = -1 if metric == "ter" else 1
    for pair, target in ((GERMAN, None), (CHINESE, "zh" if metric == "bleu" else None), ("de-en", None)):
        own = [one for one in items if "_###_".join(pair.split("-")) in one["item_id"]]
        for (item, system), value in _scores(own, [one["ref"]["text"] for one in own], metric, target=target).items():
            assert found[item][system] == sign * value
    facts = json.loads((tmp_path / "mine.provenance.json").read_text())
    assert facts["pairs"][GERMAN]["references"] == {"postedit": 5} and facts["pairs"][CHINESE]["references"] == {
        "pseudo": 5
    }
    assert facts["pairs"]["de-en"]["items"] == 2 and (facts["year"], facts["metric"]) == (2026, "mine")
    assert {len(one["signatures"]) for one in facts["pairs"].values()} == {1}
    assert "|refs:1|" in facts["pairs"][GERMAN]["signatures"][0]


def test_a_model_that_does_not_know_a_language_is_told_of(
    every: Path, tmp_path: Path, polyref: Callable[..., Any]
) -> None:
    run = polyref("submit", every, "--year", "2026", "-m", "bertscore", "--name", "x", "-o", tmp_path / "out")
    assert run.code == 0, run.err
    told = [line for line in run.err.splitlines() if "the model of" in line]
    assert told == [f"polyref: warning: {CHINESE}: the model of BERTScore is for English, not Chinese"]


def test_pairs_that_are_asked_for(every: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    run = polyref("submit", every, "--year", "2026", "-l", "en-zh", "-m", "chrf", "--name", "x", "-o", tmp_path / "zh")
    assert run.code == 0 and f"{tmp_path / 'zh'}: {CHINESE}, 2 systems, 5 segments" in run.err
    assert len(_predicted(tmp_path / "zh")) == 5
    # The challenge set spells its pair otherwise.
    made = submit(every, "de-en", tmp_path / "de", Submission(2026, "x", metric="chrf", exclude=("B",)))
    assert made[tmp_path / "de"].segments == {GERMAN: 5, "de-en": 2} and made[tmp_path / "de"].rows == 9
    run = polyref("submit", every, "--year", "2026", "-l", "en-cs", "--name", "x", "-o", tmp_path / "cs")
    assert (run.code, "no item of en-cs, there are: " in run.err) == (1, True)
    two = write_items(tmp_path / "two.jsonl", [*rows_of("eng_Latn-srp_Cyrl", SOURCES, SYSTEMS, HUMAN),
                                               *rows_of("eng_Latn-srp_Latn", SOURCES, SYSTEMS, HUMAN)])  # fmt: skip
    run = polyref("submit", two, "--year", "2026", "-l", "en-sr", "--name", "x", "-o", tmp_path / "sr")
    assert (run.code, "en-sr may be any of eng_Latn-srp_" in run.err) == (2, True)


def _augmented(every: Path, tmp_path: Path, polyref: Callable[..., Any]) -> Path:
    """Sets of two pairs, made from the test file; names of files are as people type the pair, and as the file does."""
    (tmp_path / "refs").mkdir()
    for pair, name in (("de-en", "de-en"), ("en-zh", CHINESE)):
        items = [one for one in map(json.loads, every.read_text().splitlines()) if fits(pair, one["item_id"])]
        lists = [
            {
                "id": one["item_id"],
                "reference": one["ref"]["text"],
                "paraphrases": [one["ref"]["text"].strip(" .。") + " indeed", one["src"]],
            }
            for one in items
        ]
        (tmp_path / "lists.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lists))
        made = tmp_path / "refs" / f"{name}.jsonl"
        run = polyref(
            "augment",
            every,
            "-l",
            pair,
            "--candidates",
            tmp_path / "lists.jsonl",
            "--filter",
            "none",
            "-k",
            "2",
            "-o",
            made,
        )
        assert run.code == 0, run.err
    return tmp_path / "refs"


def fits(pair: str, name: str) -> bool:
    codes = {"de-en": ("deu_Latn_###_eng_Latn", "_###_de_###_en_"), "en-zh": ("zho_Hans", "zho_Hans")}[pair]
    return any(code in name for code in codes)


def test_added_references(every: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    every.write_text(every.read_text().replace('"pseudo"', '"human"'))
    refs = _augmented(every, tmp_path, polyref)
    german = ReferenceSet.load(refs / "de-en.jsonl")
    items = [one for one in map(json.loads, every.read_text().splitlines()) if fits("de-en", one["item_id"])]
    # Kinds are kept, and ids are those of the items.
    assert [(one.id, one.refs[0].kind) for one in german] == [(one["item_id"], one["ref"]["type"]) for one in items]
    chinese = ReferenceSet.load(refs / f"{CHINESE}.jsonl")
    assert {tuple(ref.kind for ref in one.refs) for one in chinese} == {("human", "paraphrase", "paraphrase")}
    base = ("submit", every, "--year", "2026", "-m", "chrf", "--name", "par", "-o", tmp_path / "out.jsonl")
    for k in (1, 2):
        run = polyref(*base, "--refs", f"{refs}/{{pair}}.jsonl", "-k", str(k))
        assert run.code == 0, run.err
        found = _predicted(tmp_path / "out.jsonl")
        for own, texts in (
            (items, german),
            (
                [one for one in map(json.loads, every.read_text().splitlines()) if fits("en-zh", one["item_id"])],
                chinese,
            ),
        ):
            official = [one for one in own if one["item_id"].startswith("official")]
            there = {one.id: [ref.text for ref in one.refs][: 1 + k] for one in texts}
            for (item, system), value in _scores(official, [there[one["item_id"]] for one in official], "chrf").items():
                assert found[item][system] == value
        facts = json.loads((tmp_path / "par.provenance.json").read_text())["pairs"]
        assert facts[CHINESE]["added"] == {"paraphrase": 5 * k} and (facts[GERMAN]["k"], facts[GERMAN]["asked"]) == (
            k,
            k,
        )
        assert f"|k:{k}|" in facts[CHINESE]["signatures"][0] and "gen:" in facts[CHINESE]["signatures"][0]
    # A pair without a file is scored without, and said.
    (refs / f"{CHINESE}.jsonl").unlink()
    run = polyref(*base, "--refs", f"{refs}/{{pair}}.jsonl")
    assert run.code == 0 and f"warning: no added references for {CHINESE}: no file {refs}/{{pair}}.jsonl" in run.err
    run = polyref(*base, "--refs", f"{refs}/{{pair}}.jsonl", "-k", "7")
    assert f"warning: {GERMAN}: some segments have only 2 extra references: -k 7 uses what there is" in run.err


def test_added_references_that_are_of_something_else(every: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    base = (
        "submit",
        every,
        "--year",
        "2026",
        "-m",
        "chrf",
        "--name",
        "par",
        "-l",
        "en-zh",
        "-o",
        tmp_path / "out.jsonl",
    )
    items = [one for one in map(json.loads, every.read_text().splitlines()) if "zho_Hans" in one["item_id"]]

    def refused(segments: list[Segment], message: str, code: int = 1) -> None:
        ReferenceSet(tuple(segments)).save(tmp_path / "refs.jsonl")
        run = polyref(*base, "--refs", tmp_path / "refs.jsonl")
        assert (run.code, message in run.err, (tmp_path / "out.jsonl").exists()) == (code, True, False), run.err

    made = [Segment(one["item_id"], (Reference(one["ref"]["text"]), Reference("x", "paraphrase"))) for one in items]
    refused([*reversed(made)], "is no item of the pair, or in another order")
    refused([Segment("1", made[0].refs)], "segment '1' is no item of the pair")
    refused(
        [Segment(made[0].id, (Reference("other"), *made[0].refs[1:]))],
        f"its reference is 'other', the item's '{items[0]['ref']['text']}'",
    )
    run = polyref(*base, "--refs", tmp_path / "none.jsonl")
    assert (run.code, "none.jsonl: no such file" in run.err) == (1, True)
    run = polyref(*base[:8], "-o", tmp_path / "out.jsonl", "--refs", tmp_path / "refs.jsonl")
    assert (run.code, "one --refs for several language pairs" in run.err) == (2, True)
    run = polyref(*base, "-k", "2")
    assert (run.code, "k = 2 without added references" in run.err) == (2, True)


def test_pairs_without_a_reference(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    blank = [{**row, "ref": {"text": None, "type": None}} for row in rows_of(NONE, SOURCES, SYSTEMS, None)]
    path = write_items(tmp_path / "some.jsonl", [*german(), *blank])
    base = ("submit", path, "--year", "2026", "--name", "x", "-o", tmp_path / "out.jsonl")
    run = polyref(*base, "-m", "chrf")
    assert run.code == 2 and f"there is no reference, which chrF reads, in {NONE} (5 of 5 items)" in run.err
    assert "--without-reference prism-src" in run.err
    run = polyref(*base, "-m", "chrf", "--without-reference", "bleu")
    assert (run.code, "--without-reference is bleu, which reads references" in run.err) == (2, True)
    assert polyref(*base, "-m", "chrf", "-l", "de-en").code == 0
    other = "--without-reference"
    for more, useless in (
        (["-m", "chrf", "-l", "de-en", other, "prism-src"], other),
        (["-m", "prism-src", "-k", "1"], "-k"),
        (["-m", "prism-src", "--refs", "x"], "--refs"),
        (["-m", "prism-src", other, "laser-lm-src"], other),
    ):
        run = polyref(*base, *more)
        assert (run.code, f"{useless} has no use: " in run.err) == (2, True), run.err
    # Added references alone do.
    rows = [json.loads(line) for line in path.read_text().splitlines() if "bel_Cyrl" in line]
    made = ReferenceSet(
        tuple(Segment(row["item_id"], (Reference(row["src"], "translation", generator="g"),)) for row in rows)
    )
    run = polyref(*base, "-m", "chrf", "--refs", f"{tmp_path}/{{pair}}.refs")
    assert run.code == 1
    ReferenceSet(made.segments[1:]).save(tmp_path / "en-be.refs")
    run = polyref(*base, "-m", "chrf", "--refs", f"{tmp_path}/{{pair}}.refs")
    assert run.code == 1 and f"en-be.refs: nothing is added to '{made[0].id}'" in run.err
    made.save(tmp_path / "en-be.refs")
    run = polyref(*base, "-m", "chrf", "--refs", f"{tmp_path}/{{pair}}.refs")
    assert run.code == 0, run.err
    for (item, system), value in _scores(rows, [row["src"] for row in rows], "chrf").items():
        assert _predicted(tmp_path / "out.jsonl")[item][system] == value


@pytest.mark.slow
def test_a_metric_for_items_without_a_reference(
    tmp_path: Path, polyref: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tiny_seq2seq import write_m2m

    model = str(write_m2m(tmp_path_factory.mktemp("models") / "m2m"))
    rows = rows_of("deu_Latn-fra_Latn", SOURCES, SYSTEMS, None)
    path = write_items(tmp_path / "some.jsonl", [*german(), *rows])
    run = polyref("submit", path, "--year", "2026", "--name", "x", "-o", tmp_path / "out.jsonl", "-m", "chrf",
                  "--without-reference", "prism-src", "--prism-model", model)  # fmt: skip
    assert run.code == 0, run.err
    found = _predicted(tmp_path / "out.jsonl")
    facts = json.loads((tmp_path / "x.provenance.json").read_text())["pairs"]
    (signature,) = facts["deu_Latn-fra_Latn"]["signatures"]
    assert signature.startswith("Prism-src|") and "|lang:fr|" in signature and "|from:deu_Latn|" in signature
    assert facts[GERMAN]["signatures"][0].startswith("chrF|")
    sources = tmp_path / "src"
    sources.write_text("".join(row["src"] + "\n" for row in rows))
    for name in SYSTEMS:
        (tmp_path / "sys").write_text("".join(row["hyps"][name] + "\n" for row in rows))
        options = ("-m", "prism-src", "--prism-model", model, "--source-lang", "de", "--target-lang", "fr")
        run = polyref("score", sources, "-i", tmp_path / "sys", "--source", sources, *options, "--sentence", "--json")
        scored = run.json()["rows"]
        assert [found[row["item_id"]][name] for row in rows] == pytest.approx(
            [one["score"] for one in scored], abs=1e-6
        )


SPOILT: list[tuple[Callable[[Row], object], str]] = [
    (lambda row: row.pop("item_id"), 'no "item_id"'),
    (lambda row: row.update(item_id="x"), "\"item_id\" is 'x', expected SET_###_SOURCE_###_TARGET"),
    (lambda row: row.update(item_id="official_###_../x_###_en_###_d_###_0"), "with two languages"),
    (lambda row: row.pop("src"), 'no "src"'),
    (lambda row: row.update(src=3), '"src" is 3, expected a string'),
    (lambda row: row.update(ref="x"), '"ref" is "x", expected an object'),
    (lambda row: row["ref"].pop("type"), 'ref: no "type"'),
    (lambda row: row["ref"].update(type="chosen"), "ref: \"type\" is 'chosen', expected human, postedit, pseudo"),
    (lambda row: row["ref"].pop("text"), '"ref" has no text, and that of line 1, of the same pair'),
    (lambda row: row["ref"].update(text=["x"]), 'ref: "text" is a list, expected a string'),
    (lambda row: row.pop("hyps"), 'no "hyps"'),
    (lambda row: row.update(hyps=[]), '"hyps" is a list, expected an object'),
    (lambda row: row.update(hyps={}), '"hyps" is empty'),
    (lambda row: row["hyps"].pop("B"), "\"hyps\" lacks 'B', which the items of deu_Latn-eng_Latn before it have"),
    (lambda row: row["hyps"].update(D="x"), "\"hyps\" has 'D', which the items of deu_Latn-eng_Latn before it lack"),
    (lambda row: row["hyps"].update({"a\tb": "x"}), "\"hyps\" has the name 'a\\tb'"),
    (lambda row: row["hyps"].update(B=None), 'hyps: "B" is null'),
    (lambda row: row["hyps"].update(B=float("nan")), "not valid JSON: NaN is not a JSON number"),
    (lambda row: row["hyps"].update(B=1.5), 'hyps: "B" is 1.5, expected a string'),
    (lambda row: row.update(item_id=german()[0]["item_id"]), '"item_id" is that of line 1'),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), SPOILT, ids=range(len(SPOILT)))
def test_spoilt_items(
    tmp_path: Path, polyref: Callable[..., Any], spoil: Callable[[Row], object], message: str
) -> None:
    rows = german()
    spoil(rows[2])
    path = write_items(tmp_path / "spoilt.jsonl", rows, seed=None)
    run = polyref("submit", path, "--year", "2026", "-m", "chrf", "--name", "x", "-o", tmp_path / "out.jsonl")
    assert (run.code, f"{path}:3: " in run.err and message in run.err) == (1, True), run.err
    assert run.err.count("polyref: error:") == 1 and "Traceback" not in run.err
    assert [one.name for one in tmp_path.iterdir()] == ["spoilt.jsonl"]


def test_a_line_without_an_end(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    path = write_items(tmp_path / "long.jsonl", german(), seed=None)
    with path.open("a") as stream:
        stream.write('{"item_id": "' + "x" * (100 << 20))
    run = polyref("submit", path, "--year", "2026", "--name", "x", "-o", tmp_path / "out.jsonl")
    assert (run.code, f"{path}:6: longer than 16777216 bytes" in run.err) == (1, True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--testset", "t"], "--testset has no use with --year 2026"),
        (["--ref", "refA"], "--ref has no use with --year 2026"),
        (["--reference", "refA"], "--reference has no use with --year 2026"),
        (["--collection", "x"], "--collection or --test-suites has no use"),
        (["--exclude", "Z"], "no system 'Z' to leave out of"),
        (["-m", "prism-src", "--without-reference", "prism-src"], "name 1 metrics, expected one each"),
        (["--name", "a b"], "the metric's name 'a b' holds a slash or white space"),
    ],
)
def test_what_has_no_use(
    every: Path, tmp_path: Path, polyref: Callable[..., Any], more: list[str], message: str
) -> None:
    run = polyref("submit", every, "--year", "2026", "-m", "chrf", "--name", "x", "-o", tmp_path / "out", *more)
    assert (run.code, message in run.err, (tmp_path / "out").exists()) == (2, True, False), run.err


def test_what_is_no_test_file(every: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "text").write_text("one\n")
    base = ("--year", "2026", "-m", "chrf", "--name", "x", "-o", tmp_path / "out")
    run = polyref("submit", tmp_path / "text", *base)
    assert (run.code, "text:1: not valid JSON" in run.err, "expected one JSON object a line" in run.err) == (
        1,
        True,
        True,
    )
    for path in (MINIMAL, tmp_path / "missing"):
        run = polyref("submit", path, *base)
        assert (run.code, "is no file, expected the test file of the task" in run.err) == (2, True)
    run = polyref("submit", every, *base[:-1], every)
    assert (run.code, "is the output as well" in run.err) == (2, True)
    run = polyref("submit", MINIMAL, "-l", "de-en", "--year", "2025", "--name", "x", "-o", tmp_path / "out")
    assert (run.code, "no --testset: what does the task call the test set?" in run.err) == (2, True)
    run = polyref("submit", MINIMAL, "-l", "de-en", "--year", "2025", "--testset", "t", "--name", "x",
                  "--without-reference", "prism-src", "-o", tmp_path / "out")  # fmt: skip
    assert (run.code, "--without-reference is for --year 2026" in run.err) == (2, True)


def test_a_submission_is_checked(every: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.jsonl"
    submit(every, (), made, Submission(2026, "x", metric="chrf"))
    lines = made.read_text().splitlines()
    first = json.loads(lines[0])
    name = next(iter(first["task2_pred"]))

    def fault(rows: list[str]) -> str:
        made.write_text("".join(f"{row}\n" for row in rows))
        with pytest.raises(library.errors.DataError) as found:
            check_items(made, read_items(Lines(str(every), iter_lines(every))))
        return str(found.value)

    assert "ends after 11 items" in fault(lines[:-1])
    assert ":13: there are 12 items, and more lines" in fault([*lines, lines[0]])
    assert ':1: "item_id" is ' in fault([lines[1], lines[0], *lines[2:]])
    for value, message in (
        (None, f'task2_pred: no "{name}"'),
        ("1", "expected a finite number"),
        (True, "expected a finite number"),
    ):
        spoilt = {**first, "task2_pred": {**first["task2_pred"], name: value}}
        assert message in fault([json.dumps(spoilt), *lines[1:]])
    assert "task2_pred: the names are x, expected " in fault(
        [json.dumps({**first, "task2_pred": {"x": 1}}), *lines[1:]]
    )
    assert "NaN is not a JSON number" in fault(
        [lines[0].replace(f'"{name}": ', f'"{name}": NaN, "y": ', 1), *lines[1:]]
    )


def test_the_file_is_a_set(every: Path, polyref: Callable[..., Any]) -> None:
    # Of a set, a pseudo-reference is no original: k counts it.
    base = ("score", every, "-i", every, "-l", "en-zh", "-m", "chrf", "--json")
    found = polyref(*base, "-k", "0")
    assert (found.code, "there is no human reference" in found.err) == (2, True)
    assert [row["score"] for row in polyref(*base, "-k", "1").json()["rows"] if row["system"] == "C"] == [100]
    path = write_items(every.with_name("one.jsonl"), german())
    rows = polyref("score", path, "-i", path, "-m", "chrf", "--json").json()["rows"]
    assert sorted(row["system"] for row in rows) == ["B", "GPT 5.2"]
    found = polyref("score", every, "-i", every, "-m", "chrf")
    assert (found.code, "several language pairs: " in found.err) == (2, True)
    assert polyref("inspect", path).out.startswith("one.jsonl: 5 segments: 5 postedit references")
    (first, *_) = ReferenceSet.load(path)
    assert (
        first.lang,
        first.source in SOURCES,
        first.doc in {"news_###_doc.0", "news_###_doc.1", "news_###_doc.2"},
    ) == ("eng_Latn", True, True)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for size in (2_000, 40_000):
        rows = rows_of(
            GERMAN,
            SOURCES * (size // 5),
            {name: texts * (size // 5) for name, texts in SYSTEMS.items()},
            HUMAN * (size // 5),
        )
        path = write_items(
            tmp_path / f"{size}.jsonl", [{**row, "item_id": f"{row['item_id']}{n}"} for n, row in enumerate(rows)]
        )
        program = (
            "import sys; from polyref.cli.main import main\ntry: main(sys.argv[1:])\n"
            "finally: open('peak', 'w').write(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
        )
        command = ["submit", path, "--year", "2026", "-m", "chrf", "--name", "x", "-o", tmp_path / "out.jsonl.gz", "-q"]
        done = subprocess.run([sys.executable, "-c", program, *command], cwd=tmp_path, check=False)
        assert done.returncode == 0
        peaks.append(int((tmp_path / "peak").read_text()) >> 10)
    assert peaks[1] < peaks[0] + 20 and peaks[1] < 200, f"{peaks} MB"


@pytest.mark.parametrize(
    ("name", "pair"), [("wmt22.mqm", "zh-en"), ("wmt22.mqm", "en-de"), ("wmt23.mqm", "he-en"), ("wmt21.news", "zh-en")]
)
def test_real_sets(data_dir: Path, tmp_path: Path, name: str, pair: str) -> None:
    evalset = EvalSet(data_dir / name, pair)
    systems = dict(zip(evalset.output_files, evalset.outputs(evalset.output_files), strict=True))
    rows = rows_of(pair, evalset.source, systems, evalset.reference("refA"))
    rows = [{**row, "item_id": f"{row['item_id']}.{n}"} for n, row in enumerate(rows)]
    path = write_items(tmp_path / "mteval.jsonl", rows)
    submit(path, (), tmp_path / "out.jsonl.gz", Submission(2026, "x", metric="chrf++"))
    found = _predicted(tmp_path / "out.jsonl.gz")
    for (item, system), value in _scores(rows, list(evalset.reference("refA")), "chrf++").items():
        assert found[item][system] == value


def test_a_judge_is_told_the_languages_of_every_pair() -> None:
    judge = "model=tiny, base_url=http://localhost:9/v1"
    metrics = Metrics(Submission(2026, name="J", metric=f"gemba_da({judge})"), {})
    found = [(one.source_lang, one.lang) for one in (metrics.of(pair, True) for pair in (GERMAN, CHINESE))]
    assert found == [("deu_Latn", "eng_Latn"), ("eng_Latn", "zho_Hans")]
    named = Metrics(Submission(2026, name="J", metric=f"gemba_da({judge}, lang=fr)"), {}).of(GERMAN, True)
    assert (named.source_lang, named.lang) == ("deu_Latn", "fr")
