"""An inspection for a terminal: one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from polyref.eval.inspection.counts import Histogram
from polyref.eval.inspection.differences import Piece
from polyref.eval.inspection.measures import Measures
from polyref.eval.inspection.tables import (
    MISSING,
    Table,
    copies_lines,
    diversity_table,
    number,
    repeats_line,
    sample_note,
    spread_table,
    summary,
    whole,
)
from polyref.tables import shown, text_table

#: Marks a piece of a text by whether it is ``gone`` or ``new``.
Mark = Callable[[str, str], str]

_WIDTH: Final = 100
_INDENT: Final = 10
_NAMED: Final = ("generator", "decoding")
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_EXAMPLES: Final = 2
_MOST_ADDED: Final = 3


def brackets(change: str, text: str) -> str:
    """What is gone as ``[-text-]`` and what is new as ``{+text+}``, as wdiff writes it."""
    return f"[-{text}-]" if change == "gone" else f"{{+{text}+}}"


def terminal_view(measures: Measures, mark: Mark = brackets) -> str:
    """The set in the order of what people ask first; what it does not know is left out.

    Args:
        measures: What is known.
        mark: Shows the words that an added reference leaves out (``gone``) and brings (``new``).
    """
    blocks = [f"{shown(measures.name)}: {summary(measures)}"]
    blocks += [_table(table) for table in (spread_table(measures), diversity_table(measures)) if table.rows]
    facts = [(name, value) for name, value in _facts(measures) if value]
    blocks.append("\n".join(_fact(name, value) for name, value in facts))
    blocks += _examples(measures, mark)
    return "\n\n".join(filter(None, blocks))


def _facts(measures: Measures) -> Iterator[tuple[str, str]]:
    counts = measures.counts
    for run in measures.runs:
        # The checks of a preset follow its name.
        rest = ", ".join(f"{key} {str(run[key]).partition(':')[0]}" for key in run if key not in _NAMED)
        yield "made by", " ".join(filter(None, [str(run.get("generator", "")), str(run.get("decoding", "")), rest]))
    yield "repeats", repeats_line(measures)
    yield from (("outputs", line) for line in copies_lines(measures))
    yield (
        "length",
        ", ".join(f"{number(value, 0)} characters {name}" for name, value in counts.lengths.items()),
    )
    for name, values, unit in (("score", counts.logprob, "nats"), ("weight", counts.weight, "")):
        yield name, _histogram(values, unit) if values else ""
    if measures.refusals:
        every = sum(one.count for one in measures.refusals)
        reasons = ", ".join(f"{one.reason} {whole(one.count)}" for one in measures.refusals)
        yield "refused", f"{whole(every)} candidate{'s' * (every > 1)}: {reasons}"
    yield "note", sample_note(measures)


def _histogram(values: Histogram, unit: str) -> str:
    most = max(values.counts)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] if count else " " for count in values.counts)
    return " ".join(filter(None, [f"{values.low:g} {bars} {values.high:g}", f"mean {number(values.mean, 2)}", unit]))


def _examples(measures: Measures, mark: Mark) -> Iterator[str]:
    for one in measures.examples[:_MOST_EXAMPLES]:
        lines = [f"segment {shown(one.segment.id)}"]
        lines += [f"  {shown(ref.text)}" for ref in one.segment.originals[:_MOST_ADDED]]
        lines += [f"  + {_marked(added.pieces, mark)}" for added in one.added[:_MOST_ADDED]]
        if len(one.added) > _MOST_ADDED:
            lines.append(f"  and {len(one.added) - _MOST_ADDED} more")
        yield "\n".join(lines)


def _marked(pieces: Sequence[Piece], mark: Mark) -> str:
    marked = (
        (shown(one.text) if one.change == "same" else mark(one.change, shown(one.text)), shown(one.space))
        for one in pieces
    )
    return "".join(text + space for text, space in marked)


def _table(table: Table) -> str:
    return text_table(table.header, [[cell.replace(MISSING, "-") for cell in row] for row in table.rows])


def _fact(name: str, value: str) -> str:
    lines = textwrap.wrap(shown(value), _WIDTH - _INDENT, break_on_hyphens=False, break_long_words=False)
    return f"{name:<{_INDENT}}" + f"\n{' ' * _INDENT}".join(lines)
