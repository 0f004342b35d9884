"""Score the test file of the metrics task of 2026: every output of every item, in bounded memory.

A submission has the items in their order, a line each: ``{"item_id": ..., "task2_pred": {NAME: NUMBER}}``.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.errors import DataError, UsageError
from polyref.eval.data.task_files import check_name
from polyref.eval.item_scoring import OFFICIAL, PREDICTIONS, Added, Metrics, Pair, Scoring
from polyref.eval.submission import Checked, Submission
from polyref.formats.base import Lines, shortened
from polyref.formats.wmt.items import Item, check_systems, fits, read_items
from polyref.json_files import Record
from polyref.progress import listening, work
from polyref.publishing import publish_together
from polyref.textfiles import check_writable, display_name, iter_lines, write_atomically

#: Items that are scored together.
_STRETCH: Final = 1024


def submit_items(
    data: str | Path,
    asked: Sequence[str],
    output: Path,
    what: Submission,
    options: Mapping[str, Any],
    say: Callable[[str, str], object],
) -> dict[Path, Checked]:
    """Write a file of predictions, and ``NAME.provenance.json`` beside it.

    See :func:`polyref.eval.submit.submit`; ``asked`` are the pairs, none for all.
    """
    check_name(what.name)
    check_writable(output)
    if not Path(data).is_file() or Path(data).resolve() == output.resolve():
        raise UsageError(f"{data} is {'the output as well' if Path(data).is_file() else 'no file'}, expected the test "
                         "file of the task, JSON lines, which is read several times")  # fmt: skip
    excluded = frozenset(what.exclude)
    pairs = _survey(data, asked, excluded)
    metrics = Metrics(what, options)
    with ExitStack() as stack:
        added = Added(what, asked, pairs, stack, say)
        metrics.check_references(
            {name: pair for name, pair in pairs.items() if name not in added.files}, display_name(data)
        )
        scoring = Scoring(metrics, added, what.k, pairs)
        made = Path(stack.enter_context(TemporaryDirectory(prefix="polyref-"))) / output.name
        total = sum(pair.items for pair in pairs.values())
        with write_atomically(made) as stream, work("scoring", "items", total) as advance:
            items = _chosen(data, pairs, excluded)
            while stretch := list(islice(items, _STRETCH)):
                with listening(None):
                    stream.writelines(scoring.lines(stretch))
                advance(len(stretch))
        added.finish()
        try:
            rows = check_items(made, _chosen(data, pairs, excluded))
        except DataError as error:
            raise DataError(error.message, file=output, line=error.line, remedy=error.remedy) from None
        facts = {"metric": what.name, "year": what.year, "polyref": __version__, "pairs": scoring.provenance(say)}
        text = json.dumps(facts, ensure_ascii=False, indent=2) + "\n"
        publish_together({output: made, output.with_name(f"{what.name}.provenance.json"): text.encode()})
    systems = {name: tuple(pair.systems) for name, pair in pairs.items()}
    return {output: Checked(rows, systems, {name: pair.items for name, pair in pairs.items()})}


def check_items(path: str | Path, items: Iterable[Item]) -> int:
    """Read a submission back and refuse what is not a finite number for every output of these items, in their order.

    Returns:
        Number of scores.

    Raises:
        DataError: See above; line and key are named.
    """
    rows = line = 0
    expected = iter(items)
    for line, text in enumerate(iter_lines(path), 1):
        record = Record.parse(text, str(path), line)
        item = next(expected, None)
        if item is None:
            record.fail(f"there are {line - 1} items, and more lines")
        if (name := record.text("item_id")) != item.name:
            record.fail(f'"item_id" is {shortened(str(name))}, expected {shortened(item.name)}')
        scores = record.needed(PREDICTIONS, record.child)
        if scores.values.keys() != item.outputs.keys():
            scores.fail(f"the names are {', '.join(scores.values)}, expected {', '.join(item.outputs)}")
        for system in item.outputs:
            scores.needed(system, scores.number)
        rows += len(scores.values)
    if (item := next(expected, None)) is not None:
        raise DataError(f"ends after {line} items, before {shortened(item.name)}", file=path)
    return rows


def _items(data: str | Path) -> Iterator[Item]:
    return read_items(Lines(display_name(data), iter_lines(data)))


def _without(item: Item, excluded: frozenset[str]) -> Item:
    return (
        item
        if excluded.isdisjoint(item.outputs)
        else replace(item, outputs={name: text for name, text in item.outputs.items() if name not in excluded})
    )


def _chosen(data: str | Path, pairs: Mapping[str, Pair], excluded: frozenset[str]) -> Iterator[Item]:
    return (_without(item, excluded) for item in _items(data) if item.pair in pairs)


def _survey(data: str | Path, asked: Sequence[str], excluded: frozenset[str]) -> dict[str, Pair]:
    """Read the file once, and refuse what cannot be scored, before anything is.

    Returns:
        The pairs that are asked for, by name.
    """
    name = display_name(data)
    pairs: dict[str, Pair] = {}
    # Eight bytes of every id: the ids of a large file are much of its size.
    ids = array("q")
    there: set[str] = set()
    for whole in _items(data):
        item = _without(whole, excluded)
        there.update(whole.outputs)
        ids.append(hash(item.name))
        pair = pairs.setdefault(item.pair, Pair())
        if not item.outputs:
            raise DataError("all of its systems are left out (`exclude`)", file=name, line=item.line)
        if item.set_name == OFFICIAL:
            pair.official = pair.official or item
            _check_like(item, pair.official, name)
        pair.items += 1
        pair.systems.update(dict.fromkeys(item.outputs))
        pair.kinds["none" if item.reference is None else item.reference.kind] += 1
    _check_ids(name, np.asarray(ids))
    if unknown := sorted(excluded - there):
        raise UsageError(f"no system {unknown[0]!r} to leave out of {name}, there are: {', '.join(sorted(there))}")
    for each in asked:
        same = [one for one in pairs if fits(each, one)]
        if not same:
            raise DataError(f"no item of {each}, there are: {', '.join(pairs)}", file=name)
        if not all(fits(one, other) for one in same for other in same):
            raise UsageError(f"{each} may be any of {', '.join(same)}", file=name, remedy="name one of them")
    return {one: pair for one, pair in pairs.items() if not asked or any(fits(each, one) for each in asked)}


def _check_like(item: Item, first: Item, name: str) -> None:
    """Refuse an item of the test set that has other systems than the first of its pair, or a reference unlike it."""
    check_systems(item, first.outputs, name, "`exclude` leaves a system out of all items")
    if (item.reference is None) != (first.reference is None):
        told = "no text, and that" if item.reference is None else "a text, and none"
        raise DataError(f'"ref" has {told} of line {first.line}, of the same pair', file=name, line=item.line,
                        remedy="a pair has references, or has none")  # fmt: skip


def _check_ids(name: str, ids: npt.NDArray[np.int64]) -> None:
    """Refuse two items of one id; every line is an item."""
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(same):
        second, first = min((int(order[at + 1]) + 1, int(order[at]) + 1) for at in same)
        raise DataError(f'"item_id" is that of line {first}', file=name, line=second, remedy="one line an item")
