"""``polyref evaluate``: do more references agree better with people?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from polyref import __version__
from polyref.cli.metric_options import make_metric, metric_options
from polyref.cli.multi import MultiCommand
from polyref.cli.output import json_object, table
from polyref.errors import UsageError

if TYPE_CHECKING:
    from polyref.eval.agreement import Bootstrap, Row
    from polyref.eval.archive import MetricsTaskArchive
    from polyref.eval.evalset import EvalSet
    from polyref.eval.judgements import Gold
    from polyref.eval.series import Series
    from polyref.references import ReferenceSet

    EvaluationSet = EvalSet | MetricsTaskArchive

#: Prefix that asks for a score file of the set where polyref could compute the metric as well.
STORED = "stored:"
#: The tokenisers sacreBLEU takes for these target languages.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


@click.command(cls=MultiCommand)
@click.argument("set_dir", type=click.Path())
@click.option("-l", "--language-pair", "pair", required=True, metavar="PAIR", help="Language pair, such as zh-en.")
@click.option("--ref", "refs", multiple=True, metavar="NAME", help="Human references; needed where there are several.")
@click.option("--refs", "extra", metavar="FILE", help="Augmented set, normal or simple form, made from --ref.")
@click.option("--gold", metavar="NAME", help="darr, or a judgement in human-scores (mqm, wmt-z ...).")
@click.option("--sys-gold", metavar="NAME", help="System-level judgement; default: that of --gold.")
@click.option("-m", "--metric", "metrics", multiple=True, default=("bleu", "chrf"), show_default=True, metavar="METRIC",
              help="A metric that polyref computes, or of which the set has a score file (stored:NAME).")  # fmt: skip
@click.option("-k", "ks", multiple=True, type=click.IntRange(min=0), metavar="K",
              help="Numbers of extra references; default: 0, and with --refs also as many as there are.")  # fmt: skip
@click.option("--include-human", is_flag=True, help="Treat translations made by people as systems.")
@click.option("--scores", metavar="FOLDER", help="Folder of score files in the set. [default: metric-scores, scores]")
@click.option("--baseline", metavar="METRIC", help="Measure gains from this metric instead of each one's k = 0.")
@click.option("--exclude", "excluded", multiple=True, metavar="SYSTEM", help="Leave systems out.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Keep the N systems that people like best.")
@click.option("--exclude-outliers", is_flag=True, help="Leave out systems far from the median of human scores.")
@click.option("-n", "--resamples", type=click.IntRange(min=0), default=1000, show_default=True,
              help="Bootstrap resamples over segments; 0: no intervals.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, help="Confidence level of the intervals.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the bootstrap.")
@metric_options
@click.option("-w", "--width", type=click.IntRange(min=0), default=4, show_default=True, help="Digits for people.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    set_dir: str,
    pair: str,
    refs: tuple[str, ...],
    extra: str | None,
    gold: str | None,
    sys_gold: str | None,
    metrics: tuple[str, ...],
    ks: tuple[int, ...],
    include_human: bool,
    baseline: str | None,
    excluded: tuple[str, ...],
    top: int | None,
    exclude_outliers: bool,
    scores: str | None,
    resamples: int,
    confidence: float,
    seed: int,
    width: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure agreement with human judgements against the number of references.

    SET_DIR is a directory in the mt-metrics-eval layout. For every metric and k: Pearson's r of the systems' scores,
    and Kendall's tau of the segments' (relative rankings: ties discordant, and without ties; otherwise tau-b over all
    judged outputs), each with the gain over k = 0 and bootstrap intervals over segments. Translations made by people
    are left out.

    \b
    polyref evaluate wmt21.news -l zh-en --ref refA --gold mqm -m bleu chrf
    polyref evaluate wmt22 -l zh-en --ref refA --refs paraphrases.jsonl --gold wmt-z -m bleu -k 0 1 5 10
    """  # noqa: D301
    from polyref.eval.agreement import Bootstrap, agreement
    from polyref.eval.archive import MetricsTaskArchive, is_archive
    from polyref.eval.evalset import EvalSet
    from polyref.eval.outliers import outliers
    from polyref.eval.slices import top_systems

    evalset: EvaluationSet = MetricsTaskArchive(set_dir, pair) if is_archive(set_dir) else EvalSet(set_dir, pair)
    judgement = evalset.gold(_gold_name(evalset, gold), system_gold=sys_gold, include_human=include_human)
    left_out = list(excluded)
    if exclude_outliers:
        left_out += outliers(judgement.system)
        click.echo(f"polyref: note: outliers, left out: {', '.join(outliers(judgement.system)) or 'none'}", err=True)
    judgement = judgement.without(left_out)
    if top is not None:
        if top > len(judgement.system):
            raise UsageError(f"--top {top}, but {len(judgement.system)} systems have a human score")
        best = top_systems(judgement.system, top)
        left_out += [system for system in judgement.system if system not in best]
        judgement = judgement.without([system for system in judgement.system if system not in best])
    for note in _notes(evalset, judgement, include_human):
        click.echo(f"polyref: note: {note}", err=True)
    inputs = _inputs(evalset, judgement, metrics, refs, extra, ks, scores, options)
    bootstrap = Bootstrap(resamples, confidence, seed)
    rows = agreement(
        inputs.series,
        judgement,
        known=inputs.known,
        systems=inputs.systems,
        bootstrap=bootstrap,
        baseline=baseline,
    )
    partial = {row.segments for row in rows if row.level == "sys" and row.segments != evalset.segments} - {None}
    for count in partial:
        click.echo(f"polyref: note: systems are scored on the {count} segments whose outputs are all known", err=True)
    rows = [row for row in rows if row.k is None or row.k in inputs.ks]
    signatures = {(s.metric, k): s.signature(k) for s in inputs.series for k in s.ks if k is None or k in inputs.ks}
    signature = _signature(evalset, judgement, include_human, bootstrap, inputs, left_out)
    if as_json:
        click.echo(json_object(signature, [_json_row(pair, row, signatures[row.metric, row.k]) for row in rows]))
    else:
        click.echo("\n".join([_table(rows, width), "", signature, *signatures.values()]))


class _Inputs(NamedTuple):
    """The metrics' scores; the references, known texts and systems behind computed ones; the values of k to print."""

    series: list[Series]
    references: ReferenceSet | None
    known: Any
    systems: list[str]
    ks: set[int]


def _signature(
    evalset: EvaluationSet,
    gold: Gold,
    include_human: bool,
    bootstrap: Bootstrap,
    inputs: _Inputs,
    left_out: Sequence[str],
) -> str:
    """What all rows share: judgements, systems, resampling, references; the metrics' own signatures are in the rows."""
    from polyref.metrics.signature import inputs_signature

    parts = [f"set:{evalset.directory.resolve().name}", f"pair:{evalset.pair}", f"gold:{gold.name}"]
    if gold.system_name is not None and gold.system_name != gold.name:
        parts.append(f"sysgold:{gold.system_name}")
    parts.append(f"human:{'in' if include_human else 'out'}")
    if left_out:
        parts.append(f"without:{','.join(left_out)}")
    if bootstrap.resamples:
        parts.append(f"bootstrap:segments*{bootstrap.resamples}|ci:{bootstrap.confidence:g}|seed:{bootstrap.seed}")
    if inputs.references is None:
        return "|".join([*parts, f"polyref:{__version__}"])
    computed = [one.metric for one in inputs.series if one.resamples]
    parts.append(f"ref:{'+'.join(inputs.references.meta['references'])}")
    return "|".join([*parts, inputs_signature(inputs.references, computed, sorted(inputs.ks))])


def _gold_name(evalset: EvaluationSet, asked: str | None) -> str:
    available = evalset.golds()
    if asked is not None:
        return asked
    if "darr" in available or len(available) == 1:
        return available[0]
    raise UsageError(
        f"{evalset.pair} has several judgements: {', '.join(available)}"
        if available
        else f"{evalset.pair} has no human judgements in {evalset.directory}",
        remedy="choose with --gold" if available else "see docs/evaluation.md",
    )


def _notes(evalset: EvaluationSet, gold: Gold, include_human: bool) -> list[str]:
    notes = []
    if gold.unjudged:
        notes.append(f"not judged ({gold.name}), left out: {', '.join(gold.unjudged)}")
    human = [name for name in evalset.output_files if evalset.is_human(name)]
    if human and not include_human:
        notes.append(f"made by people, left out: {', '.join(human)}")
    return notes


def _inputs(
    evalset: EvaluationSet,
    gold: Gold,
    metrics: Sequence[str],
    refs: Sequence[str],
    extra: str | None,
    ks: Sequence[int],
    folder: str | None,
    options: dict[str, Any],
) -> _Inputs:
    from polyref.eval.evalset import EvalSet
    from polyref.eval.refsets import reference_set
    from polyref.eval.series import ComputedSeries, StoredSeries
    from polyref.metrics.registry import METRICS

    def computed(name: str) -> bool:
        return isinstance(evalset, EvalSet) and evalset.has_texts and name.lower() in METRICS

    systems = list(dict.fromkeys([*gold.system, *gold.segment, *(gold.pairs.systems if gold.pairs else ())]))
    made = {
        name: make_metric(name, metrics, options, tokenize=_TOKENIZERS.get(evalset.pair.rpartition("-")[2]))
        for name in metrics
        if computed(name)
    }
    if not made and (extra is not None or any(value is not None for value in options.values())):
        raise UsageError("--refs and options of metrics have no use: every metric here is a score file")
    references, known, wanted = None, None, set(ks) or {0}
    series: dict[str, Series] = {}
    if made and isinstance(evalset, EvalSet):
        references = reference_set(evalset, evalset.choose_references(refs), extra)
        counts = [len(segment.extras) for segment in references]
        wanted = set(ks) or {0, max(counts)}
        if extra is None and wanted != {0}:
            raise UsageError(f"k = {max(wanted)} without added references", remedy="give them with --refs")
        if ks and max(ks) > min(counts):
            click.echo(f"polyref: warning: some segments have only {min(counts)} extra references: "
                       f"-k {max(ks)} uses what there is", err=True)  # fmt: skip
        texts = evalset.outputs(systems)
        known = evalset.known(texts)
        outputs = dict(zip(systems, texts, strict=True))
        for name, metric in made.items():
            series[name] = ComputedSeries(metric, outputs, references, sorted(wanted), name=name.lower())
    for name in metrics:
        if name not in made:
            stored = evalset.stored(name.removeprefix(STORED), refs, **({"folder": folder} if folder else {}))
            series[name] = StoredSeries(name, stored, evalset.directory)
    return _Inputs([series[name] for name in dict.fromkeys(metrics)], references, known, systems, wanted)


def _json_row(pair: str, row: Row, signature: str) -> dict[str, Any]:
    return {
        "pair": pair,
        "gold": row.gold,
        "level": row.level,
        "metric": row.metric,
        "k": row.k,
        "statistic": row.statistic,
        "value": _number(row.value),
        "gain": _number(row.gain),
        "ci": list(row.ci) if row.ci else None,
        "gain_ci": list(row.gain_ci) if row.gain_ci else None,
        "n": row.n,
        "segments": row.segments,
        "p": _number(row.p),
        "signature": signature,
    }


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _table(rows: Sequence[Row], width: int) -> str:
    def number(value: float | None, sign: str = "") -> str:
        return "-" if value is None or math.isnan(value) else f"{value:{sign}.{width}f}"

    def interval(pair: tuple[float, float] | None, sign: str = "") -> str:
        return "-" if pair is None else f"[{number(pair[0], sign)}, {number(pair[1], sign)}]"

    header = ["gold", "level", "metric", "k", "statistic", "value", "interval", "gain", "interval of gain", "p", "n"]
    body = [
        [
            row.gold,
            row.level,
            row.metric,
            "-" if row.k is None else str(row.k),
            row.statistic,
            number(row.value),
            interval(row.ci),
            "-" if row.k == 0 and row.gain == 0 else number(row.gain, "+"),
            "-" if row.k == 0 and row.gain == 0 else interval(row.gain_ci, "+"),
            "-" if row.k == 0 and row.gain == 0 else number(row.p),
            str(row.n),
        ]
        for row in rows
    ]
    return table(header, body)
