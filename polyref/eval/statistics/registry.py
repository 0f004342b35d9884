"""Statistics by name; listing them imports none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from polyref.errors import UsageError
from polyref.plugins import Plugins

if TYPE_CHECKING:
    from polyref.eval.judgements.gold import Gold
    from polyref.eval.statistics.base import Needs, Statistic

_NAMED: Final = "polyref.eval.statistics.named"


def _several(found: Any) -> tuple[Statistic, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _are_statistics(name: str, found: Any) -> bool:
    from polyref.eval.statistics.base import Statistic

    several = _several(found)
    return bool(several) and all(isinstance(one, Statistic) and one.name == name for one in several)


#: Every statistic. One that is always computed at one level may have another level at which it can be asked for.
STATISTICS: Final = Plugins(
    "statistic",
    "polyref.statistics",
    {
        "spearman": f"{_NAMED}:SPEARMAN",
        "kendall-tau-b": f"{_NAMED}:KENDALL_TAU_B",
        "kendall-tau-c": f"{_NAMED}:KENDALL_TAU_C",
        "pairwise-accuracy": f"{_NAMED}:PAIRWISE_ACCURACY",
        "soft-pairwise-accuracy": f"{_NAMED}:SOFT_PAIRWISE_ACCURACY",
        "kendall-without-ties": f"{_NAMED}:KENDALL_WITHOUT_TIES",
        "acc23": f"{_NAMED}:ACC23",
        "pearson": f"{_NAMED}:PEARSON",
        "kendall-tau-b-items": f"{_NAMED}:KENDALL_TAU_B_ITEMS",
        "pearson-items": f"{_NAMED}:PEARSON_ITEMS",
        "kendall-darr": f"{_NAMED}:KENDALL_DARR",
        "kendall-darr-without-ties": f"{_NAMED}:KENDALL_DARR_WITHOUT_TIES",
        "tie-rate": f"{_NAMED}:TIE_RATE",
    },
    "a Statistic of that name, or several",
    _are_statistics,
)
#: Those of polyref that are always computed, where the judgement has what they need, in the order of the rows.
USUAL: Final = (
    "kendall-without-ties",
    "acc23",
    "kendall-darr-without-ties",
    "kendall-darr",
    "tie-rate",
    "pearson",
    "kendall-tau-b",
)
_NEEDED: Final[dict[Needs, str]] = {
    "systems": "scores of systems",
    "segments": "scores of segments",
    "rankings": "relative rankings",
}


def statistics_called(name: str) -> tuple[Statistic, ...]:
    """The statistics of one name: one, or one for each level."""
    return _several(STATISTICS.load(name))


def chosen_statistics(asked: Sequence[str], gold: Gold, *, within_segments: bool = False) -> list[Statistic]:
    """What to compute: the usual statistics, and those asked for, in the order of the rows.

    Args:
        asked: Names of statistics beside the usual ones; each at every level that has it.
        gold: The judgements.
        within_segments: Take only those that compare outputs of one segment.
    """
    there: dict[Needs, bool] = {
        "systems": bool(gold.system),
        "segments": bool(gold.segment),
        "rankings": gold.pairs is not None,
    }
    further = [(name, statistics_called(name)) for name in dict.fromkeys(asked)]
    for name, several in further:
        if not any(there[one.needs] for one in several):
            raise UsageError(
                f"{name} needs {_NEEDED[several[0].needs]}, which the judgement {gold.name!r} does not have",
                remedy="choose another `gold`",
            )
        if within_segments and not any(map(_within_segments, several)):
            raise UsageError(f"{name} does not compare outputs within segments, as `peers` has to")
    usual = [one for name in USUAL for one in statistics_called(name) if one.usual]
    everything = [*usual, *(one for _, several in further for one in several if not one.usual)]
    if gold.pairs is not None:
        # The rankings speak for the segments.
        everything = [one for one in everything if one.level == "sys" or one.needs == "rankings"]
    fitting = (one for one in everything if not within_segments or _within_segments(one))
    return sorted((one for one in fitting if there[one.needs]), key=block)


def _within_segments(statistic: Statistic) -> bool:
    return statistic.level == "seg" and not statistic.pooled


def block(statistic: Statistic) -> tuple[int, bool, bool]:
    """Statistics of one block are together in the rows of a metric.

    First those within segments, which say what a metric is for: to tell outputs of one text apart. Then those of
    systems. Last those over outputs of all segments at once, which move with the difficulty of segments as well.
    """
    of_systems = statistic.level == "sys"
    place = 1 if of_systems else 2 if statistic.pooled else 0
    return (place, of_systems and statistic.needs != "systems", not of_systems and not statistic.usual)
