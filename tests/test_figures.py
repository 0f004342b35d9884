"""Figures of the pages are those of the tables in docs/benchmarks, rounded to the digits shown.

A figure is declared by the row it stands in: a file, filters by column, and the column. A cell of a page's table
holds as many numbers as are declared for it, no more, and is bold where the verdict is ``better``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from polyref import load_paraphraser

REPOSITORY = Path(__file__).resolve().parent.parent
BENCHMARKS = "docs/benchmarks.md"
WMT20 = "docs/how-to/reproduce-wmt20.md"
DECODING = "docs/explanation/decoding.md"
NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d*)(?:\.\d+|(?<=\d))(?:e-\d+)?"


class Figure(NamedTuple):
    value: Decimal
    bold: bool = False


@cache
def raw(file: str) -> list[dict[str, str]]:
    with (REPOSITORY / "docs" / "benchmarks" / f"{file}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def figure(file: str, column: str, scale: Decimal | int | str = 1, **filters: object) -> Figure:
    wanted = {name: str(value) for name, value in filters.items()}
    found = [row for row in raw(file) if wanted.items() <= row.items()]
    assert len(found) == 1, f"{file}.csv: {len(found)} rows have {wanted}"
    return Figure(Decimal(found[0][column]) * Decimal(scale), found[0].get("verdict") == "better")


@cache
def page(name: str) -> str:
    return (REPOSITORY / name).read_text("utf-8")


@cache
def table_text(name: str, heading: str, number: int = 0) -> str:
    _, text = re.split(rf"^#+ {re.escape(heading)}\n", page(name), maxsplit=1, flags=re.M)
    return re.findall(r"^\|.*?(?=\n\n|\Z)", text, re.M | re.S)[number]


def table(name: str, heading: str, number: int = 0) -> list[list[str]]:
    """A table below a heading, counted from 0: its head, and its rows."""
    lines = table_text(name, heading, number).splitlines()
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def shows(shown: str, figure: Figure) -> bool:
    """A table's value that lies half-way, being rounded itself, may go either way."""
    number = Decimal(shown.replace(",", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(number - figure.value) <= Decimal(1).scaleb(exponent) / 2


def numbers(cell: str) -> list[tuple[str, bool]]:
    return [(number, bool(bold)) for bold, number in re.findall(rf"(\*\*)?(?<![\w.])({NUMBER})", cell) if number]


def check(where: str, cell: str, figures: Sequence[Figure]) -> None:
    found = numbers(cell)
    assert len(found) == len(figures), f"{where}: {cell}"
    for (shown, bold), expected in zip(found, figures, strict=True):
        assert shows(shown, expected), f"{where}: {cell} for {expected.value}"
        assert bold == expected.bold, f"{where}: {cell}, better: {expected.bold}"


def check_table(rows: list[list[str]], head: Sequence[str], expected: Mapping[str, Iterable[Sequence[Figure]]]) -> None:
    """Rows are known by their first cells; an empty one is that of the row above."""
    width = len(rows[0]) - len(head)
    assert rows[0][width:] == list(head)
    names = []
    above = [""] * width
    for row in rows[1:]:
        above = [cell or old for cell, old in zip(row[:width], above, strict=True)]
        names.append(", ".join(above))
        for column, cell, figures in zip(head, row[width:], expected[names[-1]], strict=True):
            check(f"{names[-1]}, {column}", cell, figures)
    assert names == list(expected)


def plain(found: Figure) -> Figure:
    return Figure(found.value)


TAU, R = "kendall-without-ties", "pearson"
LLM_ZH = {"run": "wmt22-zh", "gold": "mqm", "references": "llm"}
LLM_DE = {"run": "wmt22-de", "gold": "mqm", "references": "llm"}


def test_added_references_on_six_golds() -> None:
    def claims(run: str, gold: str, references: str, k: int) -> list[list[Figure]]:
        of = {"run": run, "gold": gold, "references": references, "k": k}
        return [
            [figure("tasks", "claim", **of, metric=metric, statistic=statistic)]
            for statistic in (TAU, R)
            for metric in ("bleu", "chrf++")
        ]

    check_table(
        table(BENCHMARKS, "Added references on six golds"),
        ["tau within segments: BLEU", "chrF++", "r of systems: BLEU", "chrF++"],
        {
            "WMT22 zh-en, ten by the LLM": claims("wmt22-zh", "mqm", "llm", 10),
            "WMT22 zh-en, one by the LLM": claims("wmt22-zh", "mqm", "llm", 1),
            "WMT22 zh-en, one by a person": claims("wmt22-zh", "mqm", "person", 1),
            "WMT22 en-de (development), ten by the LLM": claims("wmt22-de", "mqm", "llm", 10),
            "WMT22 en-de (development), one by the LLM": claims("wmt22-de", "mqm", "llm", 1),
            "WMT22 en-de (development), one by a person": claims("wmt22-de", "mqm", "person", 1),
            "WMT23 he-en, one by a person": claims("wmt23-he", "mqm", "person", 1),
            "SummEval, relevance, ten by people": claims("summeval", "relevance", "people", 10),
            "SummEval, relevance, ten by the LLM": claims("summeval", "relevance", "llm", 10),
            "SummEval, coherence, ten by people": claims("summeval", "coherence", "people", 10),
            "SummEval, coherence, ten by the LLM": claims("summeval", "coherence", "llm", 10),
            "DailyDialog, three by people": claims("dailydialog", "rating", "people", 3),
        },
    )


KS = (0, 1, 2, 3, 5, 7, 10)


def test_how_many_and_at_what_cost() -> None:
    def curve(metric: str, statistic: str) -> list[list[Figure]]:
        return [[figure("tasks", "value", **LLM_ZH, metric=metric, statistic=statistic, k=k)] for k in KS]

    accuracy = {"statistic": "pairwise-accuracy", "metric": "bleu"}
    cost = {"run": "wmt22-zh", "references": "llm", "statistic": "tokens"}
    check_table(
        table(BENCHMARKS, "How many, and at what cost"),
        ["k = 0", *map(str, KS[1:])],
        {
            "tau, BLEU": curve("bleu", TAU),
            "tau, chrF++": curve("chrf++", TAU),
            "r, BLEU": curve("bleu", R),
            "r, chrF++": curve("chrf++", R),
            "pairs of 91, BLEU": [[figure("tasks", "value", 91, **LLM_ZH, **accuracy, k=k)] for k in KS],
            "tokens of the lists, thousands": [
                [Figure(Decimal(0))],
                *([figure("tasks", "value", "0.001", **cost, k=k)] for k in KS[1:]),
            ],
        },
    )


def test_post_edits_as_the_only_reference() -> None:
    def values(run: str, references: str, k: int) -> list[Figure]:
        of = {"run": f"en-de, post-edits of {run}", "references": references, "k": k, "statistic": R}
        return [figure("pseudo-references", "value", **of, metric=metric) for metric in ("bleu", "chrf++")]

    def row(run: str) -> list[list[Figure]]:
        return [values(run, "it and refA", 0), values(run, "it and refA", 1), values(run, "it and llm", 10)]

    rows = table(BENCHMARKS, "Post-edits and outputs as the only reference")
    expected: dict[str, list[list[Figure]]] = {"refA": [values("Online-B, with Online-B", "refA alone", 0), [], []]}
    for system, name in (("Online-B", "a good system"), ("Online-Y", "a poor one")):
        expected[f"post-edits of {system}, {name}"] = row(f"{system}, with {system}")
        expected[f"the same, {system} left out"] = row(f"{system}, without {system}")
    for cells in rows[1:]:
        cells[0], _, alone = cells[0].partition(" (")
        if alone:
            system = cells[0].split()[2]
            check(cells[0], alone, values(f"{system}, without {system}", "refA alone", 0))
    check_table(rows, ["alone", "and refA", "and ten by the LLM"], expected)


def test_learned_metrics_with_one_reference() -> None:
    def row(run: str, **of: object) -> list[list[Figure]]:
        return [
            [plain(figure("tasks", "value", run=run, gold="mqm", statistic=one, **of))] for one in (TAU, "acc23", R)
        ]

    two = {"run": "wmt23-he", "references": "person", "k": 1}
    check_table(
        table(BENCHMARKS, "Learned metrics with one reference"),
        ["tau within segments", "acc23", "r of systems"],
        {
            "BLEU, refA": row("wmt23-he", k=0, metric="bleu"),
            "BLEU, refA and refB, `max`": row(**two, metric="bleu"),
            "chrF++, refA": row("wmt23-he", k=0, metric="chrf++"),
            "chrF++, refA and refB, `blend`": row(**two, metric="chrf++(combine=blend)"),
            "BLEURT-20, refA": row("wmt23-he, stored", metric="stored:BLEURT-20"),
            "MetricX-23, refA": row("wmt23-he, stored", metric="stored:MetricX-23"),
            "COMET, refA": row("wmt23-he, stored", metric="stored:COMET"),
            "XCOMET-Ensemble, refA": row("wmt23-he, stored", metric="stored:XCOMET-Ensemble"),
        },
    )


def test_which_metric_agrees_best() -> None:
    metrics = ("prism", "bartscore-recall", "bertscore", "chrf++", "ter", "bleu", "esim")

    def row(name: str, statistic: str) -> list[list[Figure]]:
        there = {line["metric"] for line in raw("metrics") if line["set"] == name}
        return [
            [figure("metrics", "value", set=name, metric=metric, statistic=statistic)] if metric in there else []
            for metric in metrics
        ]

    check_table(
        table(BENCHMARKS, "Which metric agrees best?"),
        ["Prism", "BARTScore, recall", "BERTScore", "chrF++", "TER", "BLEU", "ESIM"],
        {
            "development: WMT21, four sets, within segments, tau-b": row("development", "kendall-tau-b-items"),
            "WMT22 zh-en, 200 segments, within segments, tau-b": row("wmt22-zh", "kendall-tau-b-items"),
            "WMT19, mean of the two, rankings, tau without ties": row("wmt19", "kendall-darr-without-ties"),
            "development, systems, Pearson": row("development", R),
            "WMT22 zh-en, 200 segments, systems, Pearson": row("wmt22-zh", R),
        },
    )


def test_prism_and_its_ensembles() -> None:
    def value(name: str, members: str, statistic: str) -> Decimal:
        return figure("ensembles", "value", set=name, members=members, k=0, statistic=statistic, row="real").value

    together = {row["members"] for row in raw("ensembles") if " + " in row["members"]}
    for name in ("development", "wmt22-zh", "wmt19"):
        within = "kendall-darr-without-ties" if name == "wmt19" else "kendall-tau-b-items"
        assert max(value(name, members, within) for members in together) < value(name, "prism", within)
        either = sorted(value(name, metric, R) for metric in ("chrf++", "prism"))
        both = value(name, "chrf++ + prism", R)
        assert both > either[1] if name == "wmt19" else either[0] < both < either[1]


def gain_and_difference(references: str, name: str, metric: str, statistic: str) -> list[Figure]:
    of = {"references": references, "set": name, "metric": metric, "use": "max", "k": 10, "statistic": statistic}
    return [figure("evidence", "gain", **of, row="real"), figure("evidence", "value", **of, row="difference")]


def found_right(**filters: str) -> list[Figure]:
    """How many references a reader found right, of how many."""
    labels = [row["label"] for row in raw("readings") if filters.items() <= row.items()]
    assert set(labels) == {"ok", "minor", "wrong"}
    return [Figure(Decimal(len(labels) - labels.count("wrong"))), Figure(Decimal(len(labels)))]


def test_the_shipped_paraphraser() -> None:
    def row(metric: str, development: str, wmt19: str) -> list[list[Figure]]:
        return [
            gain_and_difference("default", "development", metric, development),
            gain_and_difference("default", "wmt19", metric, wmt19),
        ]

    segments = ("kendall-tau-b-items", "kendall-darr-without-ties")
    check_table(
        table(BENCHMARKS, "The shipped paraphraser"),
        ["development", "WMT19"],
        {
            "within segments, BLEU": row("bleu", *segments),
            "within segments, chrF++": row("chrf++", *segments),
            "systems, Pearson, BLEU": row("bleu", R, R),
            "systems, Pearson, chrF++": row("chrf++", R, R),
        },
    )


def readings() -> dict[str, list[list[Figure]]]:
    """Of WMT19 lt-en, by the stricter reading; the default of ``augment`` is the package's table and model."""
    shipped = json.loads((REPOSITORY / "polyref/models/shipped/en/figures.json").read_text("utf-8"))
    default = f"{load_paraphraser('lexical').signature} + polyref-en|sha:{shipped['digest']}"
    for sample in ("first", "any"):
        stricter, other = (found_right(models=default, sample=sample, reading=f"lt-en {n}")[0].value for n in (1, 2))
        assert stricter <= other
    return {
        "default of `augment`": [
            found_right(models=default, sample=sample, reading="lt-en 1") for sample in ("first", "any")
        ],
        "the model of 0.1.0": [[], found_right(references="shipped 0.1.0", sample="any", reading="lt-en 1")],
    }


def test_the_readings_of_the_card() -> None:
    check_table(
        table("polyref/models/shipped/en/MODEL_CARD.md", "What its references are worth"),
        ["first ones right", "right of all"],
        readings(),
    )


def test_wrong_references_turn_no_gain_into_a_significant_loss() -> None:
    named = ("set", "references", "metric", "use", "k", "statistic")
    alike = {tuple(row[name] for name in named): row for row in raw("noise") if row["wrong"] == "0"}
    for row in raw("noise"):
        if Decimal(alike[tuple(row[name] for name in named)]["gain"]) > 0:
            assert Decimal(row["high"] or 0) >= 0, row


def test_how_many_of_the_added_references_are_right() -> None:
    judged = {"models": "polyref-en|sha:a4194dad76c8|closeness=3|equivalence>=0", "sample": "any"}
    lexical = load_paraphraser("lexical").signature
    check_table(
        table(BENCHMARKS, "Are the added references correct?"),
        ["first ones right", "right of all"],
        {
            **{f"{name}, WMT19 lt-en": row for name, row in readings().items()},
            "the new model's that it offers, WMT21 news": [[], found_right(**judged)],
            "`lexical`, WMT21 news": [found_right(models=lexical, sample=sample) for sample in ("first", "any")],
        },
    )


def test_how_much_they_say_that_systems_say() -> None:
    def row(references: str, k: int) -> list[list[Figure]]:
        of = {"set": "wmt22-zh", "references": references, "k": k}
        return [
            [figure("coverage", column, 100, **of, n=n) for column in ("covered", "covered_by_placebo")] for n in (1, 2)
        ]

    check_table(
        table(BENCHMARKS, "How much do they say that systems say?"),
        ["outputs' new words that they cover", "new pairs of words"],
        {
            "ten LLM paraphrases, WMT22 zh-en": row("llm", 10),
            "one of them, WMT22 zh-en": row("llm", 1),
            "another person's, WMT22 zh-en": row("human", 1),
            "default of `augment`, WMT22 zh-en": row("default", 10),
        },
    )


PAIRS = ("Online-A/Online-B", "JDExploreAcademy/LanguageX")


def test_which_test_holds_its_level() -> None:
    def row(metric: str) -> list[list[Figure]]:
        return [
            [
                figure("false-positives", "rejected", 100, kind="corpus", metric=metric, systems=pair, test=test)
                for pair in PAIRS
            ]
            for test in ("paired-bs", "paired-bs-shift", "paired-ar")
        ]

    check_table(
        table(BENCHMARKS, "Which test holds its level?"),
        ["sacreBLEU's bootstrap", "`--paired-bs-shift`", "`--paired-ar`"],
        {"BLEU": row("bleu"), "chrF++": row("chrf++"), "TER": row("ter")},
    )


def test_metrics_against_sacrebleu() -> None:
    columns = ("polyref_cpu_seconds", "sacrebleu_cpu_seconds", "ratio")
    tasks = {
        **{
            f"{metric}, {number} references": f"{metric}, {number} references, corpus and sentences"
            for metric in ("BLEU", "chrF++")
            for number in (11, 101)
        },
        "BLEU, paired bootstrap, text read": "BLEU, paired bootstrap, 1875 segments, text read",
        "chrF++, paired bootstrap, text read": "chrF++, paired bootstrap, 1875 segments, text read",
        "TER, 11 references": "TER, 11 references, 330 pairs",
        "TER, 101 references": "TER, 101 references, 3030 pairs",
    }
    check_table(
        table(BENCHMARKS, "Metrics"),
        ["polyref, C", "sacreBLEU", "ratio", "ratio, NumPy"],
        {
            name: [
                *([figure("speed-metrics", column, path="C", task=task)] for column in columns),
                [figure("speed-metrics", "ratio", path="NumPy", task=task)],
            ]
            for name, task in tasks.items()
        },
    )


def test_search() -> None:
    programs = {
        "polyref, diverse beam search": "polyref",
        "polyref, int8": "polyref-int8",
        "fairseq 0.12.2, diverse beam search": "fairseq",
        "Transformers 4.56.2, diverse beam search": "transformers4",
        "CTranslate2 4.8.5, beam search": "ctranslate2-beam",
        "CTranslate2, beam search, int8": "ctranslate2-int8-beam",
        "the matrix products alone": "products",
    }
    there = {(row["shape"], row["program"]) for row in raw("speed-search") if row["threads"] == "1"}
    check_table(
        table(BENCHMARKS, "Search"),
        ["base", "shipped model's shape", "Prism"],
        {
            name: [
                [figure("speed-search", "cpu_seconds_a_sentence", shape=shape, threads=1, program=program)]
                if (shape, program) in there
                else []
                for shape in ("base", "shipped", "prism")
            ]
            for name, program in programs.items()
        },
    )


def test_memory_against_the_number_of_references() -> None:
    columns = ("references", "peak_mb", "cpu_seconds")
    commands = {
        "augment, no filter": ("augment", "none", 1000000),
        "score, bleu chrf++, `max`": ("score", "", 1000000),
        "convert": ("convert", "", 300000),
        "inspect": ("inspect", "", 300000),
    }
    check_table(
        table(BENCHMARKS, "Memory against the number of references"),
        ["references", "peak memory", "CPU seconds"],
        {
            name: [
                [figure("speed-memory", column, command=command, filter=filter, references=many)] for column in columns
            ]
            for name, (command, filter, many) in commands.items()
        },
    )


def test_all_cores() -> None:
    columns = ("workers", "references", "references_per_second", "gain", "start_up_seconds", "peak_mb", "load_average")
    works = {
        "augment, shipped model": "augment",
        "parPrism, shipped model": "prism",
        "parBERTScore, shipped": "bertscore",
        "the same, by threads": "bertscore-threads",
    }
    rows = table(BENCHMARKS, "All cores")
    for row in rows[1:]:
        row[0] = f"{row[0]} {row[1]}"
    check_table(
        rows,
        ["processes", "references", "references a second", "gain", "start-up", "memory", "load before"],
        {
            f"{name} {workers}": [[figure("speed-jobs", column, work=work, workers=workers)] for column in columns]
            for name, work in works.items()
            for workers in (1, 2)
        },
    )


def test_the_table_of_wmt20() -> None:
    def row(pair: str) -> list[list[Figure]]:
        of = {"pair": pair, "statistic": "pearson"}
        scores = [("BLEU", ["value"]), *((name, ["value", "gain", "p_williams"]) for name in ("parbleu", "parchrf++"))]
        return [[plain(figure("wmt20", column, **of, metric=name))] for name, columns in scores for column in columns]

    check_table(
        table(WMT20, "System level"),
        ["BLEU", "parBLEU", "gain", "p", "parCHRF++", "gain", "p"],
        {pair: row(pair) for pair in ("de-en", "en-zh", "iu-en", "ja-en")},
    )
    below = {(row["pair"], row["metric"]) for row in raw("wmt20") if float(row["p_adjusted"] or 1) < 0.05}
    assert below == {("de-en", "parchrf++")}


def test_the_table_of_searched_lists() -> None:
    names = {"fairseq": "fairseq 0.12.2", "transformers": "Transformers 4.56.2"}
    check_table(
        table(DECODING, "How exact", number=1),
        ["settings", "lists", "equal"],
        {
            f"{names[row['against'].partition(' ')[0]]}, {row['searched']}": [
                [Figure(Decimal(row[column]))] for column in ("settings", "lists", "equal")
            ]
            for row in raw("search-lists")
        },
    )


def test_the_table_of_the_readme() -> None:
    def row(metric: str, statistic: str) -> list[list[Figure]]:
        of = {**LLM_ZH, "metric": metric, "statistic": statistic}
        ten = {**of, "k": 10}
        p = max(figure("tasks", column, **ten).value for column in ("p", "p_beyond"))
        assert figure("tasks", "claim", **ten).bold  # all that is claimed has the verdict
        return [
            [figure("tasks", "value", **of, k=0)],
            [plain(figure("tasks", "value", **ten))],
            [plain(figure("tasks", "claim", **ten))],
            [Figure(p)],
        ]

    check_table(
        table("README.md", "Does it help?"),
        ["one reference", "with the ten", "what may be claimed", "p"],
        {
            "BLEU, systems": row("bleu", R),
            "chrF++, systems": row("chrf++", R),
            "BLEU, outputs of a segment": row("bleu", TAU),
            "chrF++, outputs of a segment": row("chrf++", TAU),
        },
    )


def test_pages_round_alike() -> None:
    readme = table("README.md", "Does it help?")[1:]
    rows = {row[0]: row for row in table(BENCHMARKS, "How many, and at what cost")[1:]}
    for line, name in zip(readme, ("r, BLEU", "r, chrF++", "tau, BLEU", "tau, chrF++"), strict=True):
        assert [line[1], line[2]] == [rows[name][1], rows[name][-1].strip("*")], name


ADVICE = "docs/explanation/how-many-references.md"
SMALLER = {"statistic": "kendall-tau-b-items", "set": "wmt22-zh", "references": "llm", "metric": "bleu", "use": "max"}


def task(column: str, of: Mapping[str, str], metric: str, statistic: str, k: int, scale: Decimal | int = 1) -> Figure:
    return plain(figure("tasks", column, scale, **of, metric=metric, statistic=statistic, k=k))


def claim(of: Mapping[str, str], metric: str, statistic: str, k: int) -> Figure:
    return figure("tasks", "claim", **of, metric=metric, statistic=statistic, k=k)


def share(metric: str, statistic: str) -> Figure:
    five, ten = (task("gain", LLM_ZH, metric, statistic, k).value for k in (5, 10))
    return Figure(100 * five / ten)


def over_chrf(name: str, statistic: str) -> list[Figure]:
    """How far Prism is above chrF++, and the interval."""
    columns = ("over_chrf", "over_low", "over_high")
    return [figure("metrics", column, set=name, metric="prism", statistic=statistic) for column in columns]


def most(column: str, scale: int, rows: Iterable[Mapping[str, str]]) -> Figure:
    return Figure(max(Decimal(row[column]) for row in rows) * scale)


def levels(verdict: str, statistics: Sequence[str] = ()) -> list[dict[str, str]]:
    return [
        row
        for row in raw("interval_levels")
        if row["verdict"] == verdict
        and row["null"] != "drawn alike"
        and (row["statistic"] in statistics or not statistics)
    ]


def rejections(test: str) -> list[dict[str, str]]:
    return [
        row for row in raw("false-positives") if row["test"].startswith(test) and "systems exchanged" in row["test"]
    ]


def outputs_alone(run: str, references: str) -> list[Figure]:
    of = {"run": f"{run}, without them", "references": references, "k": 0, "statistic": R}
    return [figure("pseudo-references", "value", **of, metric=metric) for metric in ("bleu", "chrf++")]


def acc23_of_outputs(references: str) -> dict[tuple[str, str], Decimal]:
    rows = [row for row in raw("pseudo-references") if "outputs of" in row["run"] and row["statistic"] == "acc23"]
    rows = [row for row in rows if row["k"] == "0" and row["references"] == references]
    return {(row["run"], row["metric"]): Decimal(row["value"]) for row in rows}


def longer(column: str, data: str, gold: str, windows: str, metric: str = "prism", statistic: str = TAU) -> Figure:
    of = {"set": data, "gold": gold, "metric": metric, "statistic": statistic}
    return figure("long-texts", column, **of, windows=windows)


def one_of_two(run: str, references: str, *metrics: str) -> list[Figure]:
    return [claim({"run": run, "gold": "mqm", "references": references}, m, TAU, 1) for m in metrics]


def sentences() -> Iterable[tuple[str, str, list[Figure]]]:
    """Each with ``#`` for its figures."""
    both = ("bleu", "chrf++")
    means = [claim(of, metric, R, 10) for of in (LLM_ZH, LLM_DE) for metric in both]
    yield (
        BENCHMARKS,
        "r rises by # (BLEU) and # (chrF++) on WMT22 zh-en, by # and # on en-de",
        [*map(plain, means)],
    )
    yield ADVICE, "r: WMT22 zh-en BLEU #, chrF++ #; en-de #, #", means
    expected = "chrf++(combine=expected)"
    inside = [claim(LLM_ZH, "bleu", TAU, 10), claim(LLM_ZH, expected, TAU, 10)]
    inside += [claim(LLM_DE, "bleu", TAU, 10), claim(LLM_DE, expected, TAU, 10)]
    yield ADVICE, "tau: WMT22 zh-en BLEU #, chrF++ #; en-de #, #", inside
    person = [one_of_two(run, "person", expected)[0] for run in ("wmt22-zh", "wmt22-de", "wmt23-he")]
    yield ADVICE, "tau, chrF++ `expected`: WMT22 zh-en #, en-de #; WMT23 he-en #", person
    people = [{"run": run, "gold": "mqm", "references": "person"} for run in ("wmt22-zh", "wmt22-de", "wmt23-he")]
    yield ADVICE, "r, chrF++ `max`: #, # and #, none", [claim(of, "chrf++", R, 1) for of in people]
    wmt19 = over_chrf("wmt19", "kendall-darr-without-ties")
    yield ADVICE, "on WMT19 by # [#, #]", wmt19
    above = [*over_chrf("development", "kendall-tau-b-items"), *over_chrf("wmt22-zh", "kendall-tau-b-items"), *wmt19]
    yield BENCHMARKS, "Prism is above chrF++ by # [#, #], # [#, #] and # [#, #] on the three", [*map(plain, above)]
    length = [task(column, LLM_DE, "length-only", R, 1) for column in ("gain", "p")]
    yield (
        ADVICE,
        "gains # on WMT22 en-de for systems (Pearson, p = #), more than BLEU (#)",
        [*length, task("gain", LLM_DE, "bleu", R, 1)],
    )
    noise = [figure("noise", "gain", **SMALLER, k=10, wrong=wrong) for wrong in ("0.5", "0")]
    yield ADVICE, "BLEU with `max` still gains # of # within segments", noise
    of = {**LLM_ZH, "statistic": "pairwise-accuracy", "metric": "bleu"}
    pairs = [figure("tasks", "value", 91, **of, k=k) for k in (10, 0)]
    chance = figure("tasks", "p", **of, k=10)
    yield (
        "README.md",
        "BLEU orders # instead of # of 91 pairs of systems right, which may be chance (p = #)",
        [*pairs, chance],
    )
    yield (
        BENCHMARKS,
        "with every use, by # to #.",
        [pick(claim(LLM_ZH, f"{m}{use}", TAU, 10).value for m in both for use in USES) for pick in (low, high)],
    )
    yield BENCHMARKS, "chrF++ only with `expected` (#)", [plain(inside[3])]
    yield (
        BENCHMARKS,
        "bring # and # % of BLEU's gains (r, tau), # and # % of chrF++'s",
        [share(metric, statistic) for metric in both for statistic in (R, TAU)],
    )
    yield (
        BENCHMARKS,
        "BLEU seems to gain # within segments",
        [task("gain", {"run": "dailydialog", "gold": "rating"}, "bleu", TAU, 3)],
    )
    left = {**LLM_ZH, "run": "wmt22-zh without outliers"}
    yield (
        BENCHMARKS,
        "BLEU's r is only # with refA, and # with ten; `unclear`. chrF++ goes from # to #, `better`",
        [task("value", left, metric, R, k) for metric in both for k in (0, 10)],
    )
    yield (
        BENCHMARKS,
        "With one, tau rises by # (p = #)",
        [task(column, LLM_ZH, "length-only", TAU, 1) for column in ("gain", "p")],
    )
    bert = {"run": "wmt22-zh, bertscore", "gold": "mqm"}
    largest, blend = (f"bertscore(combine={use}, model=minilm)" for use in ("max", "blend"))
    yield (
        BENCHMARKS,
        "r # to #, #, `better`; within segments `blend` #, `better`, and `max` #, `unclear`",
        [
            *(task("value", bert, largest, R, k) for k in (0, 10)),
            task("claim", bert, largest, R, 10),
            task("claim", bert, blend, TAU, 10),
            task("claim", bert, largest, TAU, 10),
        ],
    )
    a, b = "outputs of Online-A and Online-Y", "outputs of Online-B and Online-W"
    yield (
        BENCHMARKS,
        "Online-A's bring r to # and # on en-de",
        outputs_alone(f"en-de, {a}", "it and refA"),
    )
    yield (
        BENCHMARKS,
        "Online-B's to # and # (refA: #, #)",
        [figure for references in ("it and refA", "refA alone") for figure in outputs_alone(f"en-de, {b}", references)],
    )
    over = {"set": "wmt22-de", "references": "llm", "k": 10, "statistic": R, "row": "over-max"}
    yield (
        BENCHMARKS,
        "(BLEU by # and #, chrF++ by # and #;",
        [
            figure("evidence", "value", -1, **over, metric=metric, use=use)
            for metric in both
            for use in ("expected", "blend")
        ],
    )
    wide = {"references": "default", "use": "max", "k": 10, "metric": "chrf++", "statistic": R, "row": "difference"}
    yield (
        BENCHMARKS,
        "beyond the placebo by # ([#, #]) and # ([#, #]); with",
        [
            figure("evidence", column, **wide, set=name)
            for name in ("development", "wmt19")
            for column in ("value", "low", "high")
        ],
    )
    yield (
        BENCHMARKS,
        "with chrF++: # / # on the development sets; tau",
        gain_and_difference("lexical", "development", "chrf++", R),
    )
    first = {"reading": "1", "sample": "first"}
    yield (
        "docs/explanation/training.md",
        "a new run had # of # first references right, the model of 0.1.0 #",
        [
            *found_right(models="polyref-en|sha:bbe366571da9|closeness=2", **first),
            found_right(references="shipped 0.1.0", **first)[0],
        ],
    )
    weights = "polyref-en|sha:a4194dad76c8|closeness="
    yield (
        "docs/explanation/training.md",
        "The same weights had # of # first references right at closeness 1, # of # at 2; of those at 3",
        [one for closeness in (1, 2) for one in found_right(models=f"{weights}{closeness}", sample="first")],
    )
    yield (
        "docs/explanation/training.md",
        "(at least 0), # of #.",
        found_right(models=f"{weights}3|equivalence>=0"),
    )
    lt = [row for row in raw("generator-quality") if row["set"] == "lt" and float(row["human_score"]) >= 0.2]
    gains = [
        Decimal(row["gain"])
        for row in lt
        if (row["metric"], row["use"], row["statistic"]) == ("bleu", "max", "kendall-darr-without-ties")
    ]
    assert len(gains) == 5
    yield BENCHMARKS, "any of the five systems with z of .20 or more brings BLEU # to #", [low(gains), high(gains)]
    one = {"work": "augment", "workers": 1}
    speed = figure("speed-jobs", "references_per_second", **one)
    yield (
        "docs/how-to/run-on-a-cluster.md",
        "one process augments # references a second and takes # MB",
        [speed, figure("speed-jobs", "peak_mb", **one)],
    )
    hours = 1_000_000 / speed.value / 3600
    yield (
        "docs/how-to/run-on-a-cluster.md",
        "a million references take # core-hours, some # minutes on 128 cores",
        [Figure(hours), Figure(hours * 60 / 128)],
    )
    crowd = {"pool": "all", "metric": "bleu", "use": "max"}
    rise = [figure("people", "value", **crowd, references=n, statistic="kendall-tau-b-items").value for n in (1, 7)]
    yield BENCHMARKS, "from 1 to 7 references BLEU rises by # within segments", [Figure(rise[1] - rise[0])]
    yield (
        BENCHMARKS,
        "(BLEU # to # from one to 48)",
        [figure("people", "value", **crowd, references=n, statistic=R) for n in (1, 48)],
    )
    tests = {
        "paired-ar": "approximate randomisation (Riezler and Maxwell 2005)",
        "paired-bs-shift": "also gives intervals",
        "paired-bs": "to compare with published p-values",
    }
    for test, described in tests.items():
        equal = [Decimal(row["rejected"]) * 100 for row in raw("false-positives") if row["test"] == test]
        yield "docs/reference/metrics.md", f"{described} | # to # % |", [low(equal), high(equal)]
    yield BENCHMARKS, "calls equal systems different in # to # % of the trials", [low(equal), high(equal)]
    read = [row for row in raw("equivalence") if row["sample"] == "second"]
    kept = [Decimal(row["equivalence"]) >= Decimal("-0.45") for row in read]
    right = [row["label"] != "wrong" for row in read]
    yield (
        "docs/reference/filters.md",
        "# of # candidates of the model of 0.1.0 that are kept were read as right or nearly so, and # of # that are",
        [
            Figure(Decimal(count))
            for side in (True, False)
            for count in (sum(r for r, k in zip(right, kept) if k == side), kept.count(side))
        ],
    )
    tried = [row for row in raw("mutants") if row["not_tried"] == "0"]
    mutants, noticed, same = (sum(Decimal(row[name]) for row in tried) for name in ("mutants", "noticed", "equivalent"))
    yield "CONTRIBUTING.md", "of # mutants # are noticed, and # change", [*map(Figure, (mutants, noticed, same))]
    for row in tried:
        which = row["module"].removeprefix("polyref/").removesuffix(".py")
        matter = Decimal(row["mutants"]) - Decimal(row["equivalent"])
        yield "CONTRIBUTING.md", f"`{which}` # of #", [Figure(Decimal(row["noticed"])), Figure(matter)]
    steps = ("pairwise-accuracy", "acc23")
    yield (
        BENCHMARKS,
        "`worse` in at most # %, the jackknife in at most # %",
        [most("wrong", 100, levels(verdict)) for verdict in ("PERM-SYSTEMS", "jackknife")],
    )
    yield BENCHMARKS, "(accuracies: at most # %)", [most("wrong", 100, levels("jackknife", steps))]
    yield (
        BENCHMARKS,
        "Williams' test rejects in up to # %, and PERM-BOTH in up to # %",
        [most("rejected", 100, rejections(test)) for test in ("Williams", "PERM-BOTH")],
    )
    t_tests = [{"kind": "outputs", "systems": pair} for pair in PAIRS]
    yield (
        BENCHMARKS,
        "the paired t-test rejects in # and # %; the rank-sum test, which WMT uses, in # and # %",
        [
            figure("false-positives", "rejected", 100, **of, test=test)
            for test in ("paired t-test", "rank-sum test")
            for of in t_tests
        ],
    )
    lengths = [row for row in raw("length_only") if row["metric"] != "chrf"]
    yield (
        BENCHMARKS,
        "get `better` in # of # verdicts",
        [Figure(Decimal(sum(int(row[column]) for row in lengths))) for column in ("better", "verdicts")],
    )
    looks = [(row["date"], row["commit"].endswith("+")) for row in raw("ledger")]
    first = sorted({day for day, _ in looks})[:2]
    yield (
        BENCHMARKS,
        "has # looks in its first two days, # of them from checkouts with changes (`+`), and # since, # so",
        [
            Figure(Decimal(sum((day in first) == early and (dirty or not only) for day, dirty in looks)))
            for early in (True, False)
            for only in (False, True)
        ],
    )
    news, summaries = ("wmt21.news, 6 segments each", "mqm"), ("summeval", "relevance")
    yield (
        BENCHMARKS,
        "the shipped model cuts # texts, and Prism's tau goes from # to #",
        [longer("cut", *news, "no"), *(longer("value", *news, windows) for windows in ("no", "yes"))],
    )
    yield (
        BENCHMARKS,
        "it cuts #, Prism's tau for relevance goes from # to #, and BERTScore's r falls from # to #",
        [
            longer("cut", *summaries, "no"),
            *(longer("value", *summaries, windows) for windows in ("no", "yes")),
            *(longer("value", *summaries, windows, "bertscore", R) for windows in ("no", "yes")),
        ],
    )
    shipped = [row for row in raw("bertscore-layers") if (row["encoder"], row["set"]) == ("shipped", "development")]
    assert shipped and all(Decimal(row["over_low"]) <= 0 for row in shipped), "no layer is better than the default"
    layer = {"encoder": "minilm", "set": "development", "layer": 6, "measure": "precision"}
    yield (
        BENCHMARKS,
        "precision of layer 6 is better within segments (# [#, #])",
        [
            figure("bertscore-layers", column, **layer, statistic="kendall-tau-b-items")
            for column in ("over_default", "over_low", "over_high")
        ],
    )
    few = [row for row in raw("tasks") if (row["run"], row["references"]) == ("summeval", "llm") and row["k"] != "0"]
    few = [row for row in few if row["metric"] in both and row["statistic"] == TAU]
    better = [row for row in few if row["verdict"] == "better"]
    assert all(shows(".02", Figure(Decimal(row["claim"]))) for row in better)
    cells = [Figure(Decimal(len(rows))) for rows in (better, few)]
    yield BENCHMARKS, "(`better` in # of # cells, with claims of .02)", cells
    alone = {**acc23_of_outputs("refA alone")}
    apart = [abs(value - alone[name]) for name, value in acc23_of_outputs("it and refA").items()]
    first = [outputs_alone(f"en-de, {a}", references)[0] for references in ("refA alone", "it and refA")]
    yield BENCHMARKS, "with outputs it stays within # of refA's, while r falls from # to #", [high(apart), *first]
    chances = [1 - figure("evidence", "p", **over, metric=metric, use=use).value for metric in both for use in USED[1:]]
    yield BENCHMARKS, "p # to #). At k = 1", [low(chances), high(chances)]
    poor = [row for row in raw("generator-quality") if row["set"] == "lt" and float(row["human_score"]) < 0.2]
    assert not [row for row in poor if row["statistic"] == "kendall-darr-without-ties" and float(row["gain_low"]) > 0]
    yield BENCHMARKS, "from z = # downwards nothing gains", [most("human_score", 1, poor)]
    single = [row for row in raw("people") if row["pool"] in ("R1", "R2", "R3", "R4") and row["references"] == "1"]
    single = [row for row in single if (row["metric"], row["use"]) == ("bleu", "max")]
    wide = [row for row in single if row["statistic"] == "kendall-tau-b-items"]
    half = sum((Decimal(row["high"]) - Decimal(row["low"])) / 2 for row in wide) / len(wide)
    yield BENCHMARKS, "The interval of a single reference is about ±#", [Figure(Decimal(half))]
    default = [row for row in raw("references") if row["references"] == "default"]
    changed, names, odd = (most(column, 100, default) for column in ("numbers_changed", "names_changed", "ill_formed"))
    assert (len(default), changed.value) == (7, 0) and most("negation_changed", 100, default).value <= names.value
    found = "on seven sets no number is changed, negation and names in at most # %, and # % are ill-formed"
    yield BENCHMARKS, found, [names, odd]
    usable = [Decimal(row["usable"]) for row in default]
    yield BENCHMARKS, "A segment gets # to # of at most ten", [low(usable), high(usable)]
    exact, whole = (figure("speed-augment", "peak_rss_mb", options=f"--dtype {dtype}") for dtype in ("float32", "int8"))
    lean = figure("speed-search", "against_polyref", 100, shape="shipped", threads=1, program="polyref-int8")
    yield BENCHMARKS, "Its search takes # % of the CPU time", [lean]
    yield BENCHMARKS, "and the command # % of the memory", [Figure(100 * whole.value / exact.value)]
    yield BENCHMARKS, "peak memory # MB in float32, # MB in int8, the default", [exact, whole]
    corrected = figure("wmt20", "p_adjusted", pair="de-en", metric="parchrf++", statistic="pearson")
    yield WMT20, "only parCHRF++ in de-en stays below 0.05 (#)", [plain(corrected)]
    columns = ("polyref_cpu_seconds", "bert_score_cpu_seconds", "ratio")
    yield (
        BENCHMARKS,
        "# s for # s with 11 references (#x), # s for # s with 50 (#x); one more system later # and # s",
        [
            *(figure("speed-bertscore", column, references=n) for n in (11, 50) for column in columns),
            *(figure("speed-bertscore", "one_more_system_later", references=n) for n in (11, 50)),
        ],
    )
    metrics = ("bleu", "chrf++", "ter", "bertscore", "esim", "prism")
    yield (
        BENCHMARKS,
        "BLEU #, chrF++ #, TER #, BERTScore #, ESIM #, Prism #.",
        [figure("cost", "seconds_a_pair", metric=metric) for metric in metrics],
    )
    ratios = [Decimal(row["ratio"]) for row in raw("speed-likelihood") if "shape" in row["model"]]
    yield (
        BENCHMARKS,
        "# times as fast with the shipped model, # to # times with the shapes",
        [
            figure("speed-likelihood", "ratio", model="shipped paraphraser"),
            low(ratios),
            high(ratios),
        ],
    )
    worst = most("largest_difference_of_a_segment", 1, raw("speed-likelihood"))
    yield BENCHMARKS, "Scores differ by # at most. [speed-likelihood.csv]", [worst]
    worst = most("largest_difference", 1, raw("speed-bertscore"))
    yield BENCHMARKS, "Scores differ by # at most. [speed-bertscore.csv]", [worst]
    base = {"shape": "base", "threads": 1}
    yield (
        BENCHMARKS,
        "polyref is # times as fast as fairseq, # times as fast as Transformers 4 and # times",
        [
            figure("speed-search", "against_polyref", **base, program=program)
            for program in ("fairseq", "transformers4", "ctranslate2-beam")
        ],
    )
    whole, products, int8 = (
        figure("speed-search", "cpu_seconds_a_sentence", **base, program=program).value
        for program in ("polyref", "products", "polyref-int8")
    )
    yield (
        BENCHMARKS,
        "int8 is # times as fast as float32, and would be # times with products four times as fast",
        [Figure(whole / int8), Figure(whole / (whole - products * 3 / 4))],
    )


USES = ("", "(combine=expected)", "(combine=blend)")
USED = ("max", "expected", "blend")


def low(values: Iterable[Decimal]) -> Figure:
    return Figure(min(values))


def high(values: Iterable[Decimal]) -> Figure:
    return Figure(max(values))


def pattern(sentence: str) -> str:
    return re.escape(sentence).replace(r"\#", rf"(\*\*)?({NUMBER})(?:\*\*)?").replace(r"\ ", r"\s+")


DECLARED = list(sentences())


@pytest.mark.parametrize(("name", "sentence", "figures"), DECLARED)
def test_figures_in_sentences(name: str, sentence: str, figures: list[Figure]) -> None:
    (found,) = re.finditer(pattern(sentence), page(name))
    groups = found.groups()
    for bold, shown, expected in zip(groups[::2], groups[1::2], figures, strict=True):
        assert shows(shown, expected), f"{shown} for {expected.value}: {found[0]}"
        assert bool(bold) == expected.bold, found[0]


def test_levels_of_intervals_on_the_page_of_statistics() -> None:
    rows = table("docs/reference/statistics.md", "The bootstrap", 1)
    names = {"intervals over ": "", "the ": "", " over systems (2,000 trials)": "", " (2,000 trials)": ""}
    expected = {}
    for name, *_ in rows[1:]:
        verdict = name
        for shown, called in names.items():
            verdict = verdict.replace(shown, called)
        cells = []
        for statistic in (R, TAU):
            of = {"scores": "made up, own bias 0.3", "verdict": verdict, "statistic": statistic}
            found = [row for row in raw("interval_levels") if of.items() <= row.items()]
            by_systems = {row["systems"]: Figure(Decimal(row["wrong"])) for row in found}
            cells.append([by_systems[number] for number in ("6", "12", "18") if by_systems])
        expected[name] = cells
    for name, *cells in rows[1:]:
        for cell, figures in zip(cells, expected[name], strict=True):
            check(name, cell, figures)
    assert len(rows) == 7


def test_verdicts_about_lengths_on_the_page_of_statistics() -> None:
    rows = [row for row in raw("length_only") if row["metric"].startswith("length")]
    counts = {name: sum(int(row[name]) for row in rows) for name in ("verdicts", "better", "worse")}
    said = "Of {verdicts:,} verdicts about metrics that see only lengths, {better} are `better` and {worse} `worse`."
    assert said.format(**counts) in page("docs/reference/statistics.md")


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md")),
]
#: Tables with figures: each has a test above.
TABLES = {"README.md": 1, BENCHMARKS: 13, WMT20: 1, DECODING: 0}
FIGURE = r"(?<![\w.:-])[+-]?\d*\.\d+(?![\w.])|(?<![\w.])\d[\d,]*(?= ?(?:%|[KMG]B\b|x\b))|\b\d+ of \d+\b"
PROGRAMS = "Python|torch|[Tt]ransformers|fairseq|CTranslate2|sacreBLEU|bert_score|Ray"
VERSION = rf"\b(?:{PROGRAMS}) \d[\d.]*(?:(?:,| and| -) \d\.\d+)*"
#: What is set or defined and not measured.
SETTINGS = (
    *("95 % intervals", "in 5 % of the trials", "less than 1 %", "a blend (.5;", "or 2 %. No segment", "L is 0.5"),
    *(
        "2.5 × 1.483 median",
        "2.5 x 1.483 median",
        "at temperature 0.7",
        "while 4.56 applies",
        "results of 4.56:",
        "files of 34 MB",
        "word F1 of 0.88",
    ),
    "(the tables write 0.12 for every value of\n0.05 or more)",
)


@pytest.mark.parametrize("name", [name for name in PAGES if "/reference/" not in name])
def test_no_figure_is_without_a_table(name: str) -> None:
    """Code and its output, which other tests run, are left out; so is what is tested above."""
    text = page(name)
    for _, sentence, _ in (one for one in DECLARED if one[0] == name):
        text = re.sub(pattern(sentence), "", text)
    text = re.sub(r"^ *```.*?^ *```$|^    \S.*?$|`[^`\n]*`|\]\([^)]*\)", "", text, flags=re.S | re.M)
    for setting in SETTINGS:
        text = text.replace(setting, "")
    text = re.sub(VERSION, "", text)
    tables = [one for one in re.findall(r"(?:^\|.*\n)+", text, re.M) if re.search(FIGURE, one)]
    assert len(tables) == TABLES.get(name, 0), tables
    assert [found[0] for found in re.finditer(FIGURE, re.sub(r"^\|.*$", "", text, flags=re.M))] == []
