"""Names as people write them: BLEU and Pearson's r where the command line says ``bleu`` and ``pearson``.

Tables and the report say these; CSV and JSON keep the names of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from polyref.eval.statistics.named import STATISTICS, statistic_at, statistics_called
from polyref.metrics import registry

# Score files that are called as polyref's metrics are with added references.
_STORED: Final = {"parbleu": "parBLEU", "parchrf": "parCHRF", "parchrf++": "parCHRF++", "parter": "parTER"}
#: Statistics of experiments; the others have labels.
_EXPERIMENTS: Final = {
    "pairs-correct": "correct pairs of systems",
    "pairs-incorrect": "incorrect pairs of systems",
    "pairs-not-significant": "pairs of systems not told apart",
}
#: Where more is not more agreement.
_ARROWS: Final = {"pairs-incorrect": "↓", "pairs-not-significant": ""}
_GOLDS: Final = {
    "mqm": "MQM",
    "darr": "DARR",
    "da-sqm": "DA+SQM",
    "esa": "ESA",
    "wmt-z": "DA z-scores",
    "wmt-raw": "raw DA scores",
}
#: The control that sees nothing but lengths.
LENGTH_ROW: Final = "(length alone)"


def metric_names(metrics: Iterable[str]) -> dict[str, str]:
    """Every metric's name as people write it; as it is where two of them would then have one name."""

    def written(name: str) -> str:
        known = name.partition("(")[0] in registry.REGISTRY
        return registry.metric_label(name) if known else _STORED.get(name, name)

    given = set(metrics)
    return {name: name if (label := written(name)) in given else label for name in given}


def statistic_name(statistic: str) -> str:
    """A statistic."""
    if statistic in _EXPERIMENTS:
        return _EXPERIMENTS[statistic]
    return statistics_called(statistic)[0].label if statistic in STATISTICS else statistic


def level_name(statistic: str, level: str) -> str:
    """Where a statistic stands: ``systems``, ``within segments``, or ``all outputs`` of all segments at once."""
    if level == "sys":
        return "systems"
    found = statistic_at(statistic, level)
    return "all outputs" if found is not None and found.pooled else "within segments"


def arrow(statistic: str, level: str) -> str:
    """``↑`` where more is more agreement, ``↓`` where less is, else nothing."""
    if statistic in _EXPERIMENTS:
        return _ARROWS.get(statistic, "↑")
    found = statistic_at(statistic, level)
    return "" if found is None else {True: "↑", False: "↓", None: ""}[found.higher_is_better]


def gold_name(gold: str) -> str:
    """A human judgement."""
    return _GOLDS.get(gold, gold)
