"""Submissions of 2026: scores of single items, made in stretches."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.errors import DataError, UsageError
from polyref.eval.data.task_files import check_name
from polyref.eval.submission import Checked, Submission
from polyref.formats import Reading, open_references
from polyref.formats.base import Lines, shortened
from polyref.formats.documents import HUMAN_NAME
from polyref.formats.metrics_task import Item, check_systems, fits, read_items
from polyref.json_files import Record
from polyref.languages import base, target_language
from polyref.metrics.api import short_of
from polyref.metrics.base import Metric
from polyref.metrics.copies import (
    SAMPLE,
    CopyCount,
    OriginalCount,
    plain_copies,
    plain_originals,
    warnings_of_copies,
    warnings_of_originals,
)
from polyref.metrics.registry import make_metrics
from polyref.metrics.statistics import Statistics, check_finite
from polyref.models.language_recognition import language_name
from polyref.progress import listening, work
from polyref.publishing import check_writable, publish_together, write_atomically
from polyref.references import Reference, ReferenceSet, Segment
from polyref.textfiles import display_name, iter_lines

#: What the items of the test set itself begin with: all of a pair have the same systems, and a reference or none.
OFFICIAL: Final = "official"
PREDICTIONS: Final = "task2_pred"
#: Items that are scored together.
_STRETCH: Final = 1024
#: More extra references than any item has.
_ALL: Final = 1 << 30
#: Fewest segments of a pair that are kept for BLEU.
_FEWEST_KEPT: Final = 50


@dataclass
class Pair:
    """What is known of the items of one pair.

    ``kinds`` counts items by the kind of their reference, or ``none``; ``official`` is the first of the test set.
    """

    items: int = 0
    systems: dict[str, None] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    official: Item | None = None


class Metrics:
    """The metric of a submission for every pair, and the one for items without a reference."""

    def __init__(self, what: Submission, options: Mapping[str, Any]) -> None:
        self._specifications = [what.metric, *([what.without_reference] if what.without_reference else [])]
        self._options = options
        self._made: dict[str, list[Metric]] = {}
        made = list(make_metrics(self._specifications, options).values())
        if len(made) != len(self._specifications):
            raise UsageError(f"`metric` and `without_reference` name {len(made)} metrics, expected one each")
        self.first, self.second = made[0], made[1] if len(made) > 1 else None
        if self.second is not None and self.second.needs_references:
            found = f"`without_reference` is {self.second.name}, which reads references"
            raise UsageError(found, remedy="for example prism-src")
        given = {"without_reference": self.second, "references": what.references, "k": what.k}
        useless = [name for name, value in given.items() if value is not None]
        if useless and not self.first.needs_references:
            found = f"`{useless[0]}` has no use: {self.first.label} reads the source alone"
            raise UsageError(found, remedy="leave it out")

    @property
    def any_item(self) -> bool:
        """Whether items without a reference have a score, too."""
        return self.second is not None or not self.first.needs_references

    def check_references(self, pairs: Mapping[str, Pair], file: str) -> None:
        """Refuse pairs, to which none are added, that have items without a reference where nothing scores these."""
        numbers = {name: (pair.kinds["none"], pair.items) for name, pair in pairs.items()}
        bare = [f"{name} ({none:,} of {items:,} items)" for name, (none, items) in numbers.items() if none]
        if self.second is not None and not bare:
            found = "`without_reference` has no use: every item has a reference"
            raise UsageError(found, file=file, remedy="leave it out")
        if bare and not self.any_item:
            raise UsageError(
                f"there is no reference, which {self.first.label} reads, in {', '.join(bare)}",
                file=file,
                remedy="name a metric for those items: `without_reference` prism-src; or choose other `pairs`",
            )

    def of(self, pair: str, references: bool) -> Metric:
        """The metric that scores items of a pair, with or without references."""
        if pair not in self._made:
            self._made[pair] = [*make_metrics(self._specifications, self._options, pair).values()]
        return self._made[pair][0 if references else -1]


class Added:
    """Added references, read along with the items: their files have the items of a pair in the same order."""

    def __init__(
        self,
        what: Submission,
        asked: Sequence[str],
        pairs: Mapping[str, Pair],
        stack: ExitStack,
        say: Callable[[str, str], object],
    ) -> None:
        given = what.references
        #: Pair -> name of its file.
        self.files: dict[str, str] = {}
        self._meta: dict[str, Mapping[str, Any]] = {}
        self._segments: dict[str, Iterator[Segment]] = {}
        self._next: dict[str, Segment | None] = {}
        if given is None:
            if what.k:
                raise UsageError(f"k = {what.k} without added references", remedy="give them with `references`")
            return
        if not isinstance(given, (str, Path, ReferenceSet)):
            raise UsageError("`references` is a list, expected files or a set whose ids are those of the items")
        one = isinstance(given, ReferenceSet) or "{pair}" not in str(given)
        if one and not all(fits(pair, other) for pair in pairs for other in pairs):
            found = f"one `references` for several language pairs: {', '.join(pairs)}"
            raise UsageError(found, remedy="write {pair} where the names differ, or choose one of `pairs`")
        for pair in pairs:
            if isinstance(given, ReferenceSet):
                self._open(pair, "references", given.meta, iter(given.segments))
                continue
            spelt = [*(each for each in asked if fits(each, pair)), pair, "-".join(map(base, pair.split("-", 1)))]
            names = [str(given).replace("{pair}", each) for each in spelt]
            name = next((each for each in names if Path(each).exists()), None)
            if name is None and (one or len(pairs) == 1):
                raise DataError("no such file", file=names[0], remedy="check the path")
            if name is not None and name not in self._segments:
                opened = open_references([name], stack, Reading(what.form, what.fields, pair))
                self._open(pair, name, opened.meta, opened.segments)
            elif name is not None:
                self.files[pair] = name
        if not self.files:
            raise DataError("no such file, nor one of another pair", file=names[0], remedy="check `references`")
        if bare := [pair for pair in pairs if pair not in self.files]:
            say("warning", f"no added references for {', '.join(bare)}: no file {given}")

    def meta_of(self, pair: str) -> Mapping[str, Any]:
        """What the file of a pair says of itself."""
        return self._meta.get(self.files.get(pair, ""), {})

    def _open(self, pair: str, name: str, meta: Mapping[str, Any], segments: Iterator[Segment]) -> None:
        self.files[pair] = name
        if name not in self._segments:
            self._segments[name], self._meta[name] = segments, meta
            self._next[name] = next(segments, None)

    def segment(self, item: Item) -> Segment:
        """An item with its references: its own, and those that are added to it."""
        # K counts what is added: a pseudo-reference of the item's own is one of its originals here.
        given = item.reference
        kind = "human" if given is None or given.kind == "human" else "postedit"
        own = () if given is None else (Reference(given.text.rstrip(), kind),)
        segment = Segment(item.name, own, item.source, item.document)
        name = self.files.get(item.pair)
        found = None if name is None else self._next[name]
        if name is None or found is None or found.id != item.name:
            return segment
        self._next[name] = next(self._segments[name], None)
        text = None if given is None else given.text.strip()
        for ref in found.originals:
            if ref.text.strip() != text:
                there = "none" if given is None else shortened(given.text)
                said = f"segment {item.name}: its reference is {shortened(ref.text)}, the item's {there}"
                raise DataError(said, file=name, remedy="give references that were made from this test file")
        added = [ref for ref in found.extras if ref.kind != "pseudo" or ref.text.strip() != text]
        extras = (replace(ref, text=ref.text.rstrip(), of=0 if own and ref.of is not None else None) for ref in added)
        return replace(segment, refs=(*own, *extras))

    def finish(self) -> None:
        """Refuse a file with segments that are no items, or that has them in another order."""
        for name, found in self._next.items():
            if found is not None:
                said = f"segment {shortened(found.id)} is no item of the pair, or in another order"
                raise DataError(said, file=name, remedy="write it with `polyref augment` from this test file")


class Scoring:
    """Scores stretches of items, and remembers what has to be said of them."""

    def __init__(self, metrics: Metrics, added: Added, k: int | None, pairs: Mapping[str, Pair]) -> None:
        self._metrics, self._added, self._asked, self._pairs = metrics, added, k, pairs
        self._k = _ALL if k is None else k
        kept = max(SAMPLE // len(pairs), _FEWEST_KEPT)
        self._copies = {pair: CopyCount([self._k], kept) for pair in pairs}
        self._originals = {pair: OriginalCount(kept=kept) for pair in pairs}
        #: Of every pair: numbers of added references, and kinds of all that are used.
        self._extras: dict[str, Counter[int]] = defaultdict(Counter)
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        #: Pair and metric -> the metric, some statistics, and fewest and most originals and added references.
        self._seen: dict[tuple[str, str], tuple[Metric, Statistics, npt.NDArray[np.int64]]] = {}

    def lines(self, stretch: Sequence[Item]) -> Iterator[str]:
        """Lines of the submission."""
        scores: list[dict[str, float]] = [{} for _ in stretch]
        segments = [self._added.segment(item) for item in stretch]
        groups: dict[tuple[str, bool, tuple[str, ...]], list[int]] = defaultdict(list)
        for place, (item, segment) in enumerate(zip(stretch, segments, strict=True)):
            systems = tuple(sorted(item.outputs))
            groups[item.pair, bool(segment.refs), systems].append(place)
        for (pair, references, systems), places in groups.items():
            first = stretch[places[0]]
            if not references and not self._metrics.any_item:
                raise DataError(
                    f"nothing is added to {shortened(first.name)}, which has no reference",
                    file=self._added.files.get(pair, ""),
                    remedy="name a metric for such items: `without_reference` prism-src",
                )
            metric = self._metrics.of(pair, references)
            inside = ReferenceSet(tuple(segments[place] for place in places), self._added.meta_of(pair))
            outputs = {name: [stretch[place].outputs[name].rstrip() for place in places] for name in systems}
            if first.set_name == OFFICIAL:
                self._copies[pair].add(inside, outputs)
                # A reference that stands among the outputs was made by people, and is not suspect.
                machines = {name: texts for name, texts in outputs.items() if not HUMAN_NAME.fullmatch(name)}
                self._originals[pair].add(inside, machines)
            self._extras[pair].update(len(segment.extras) for segment in inside)
            self._used[pair].update(ref.kind for segment in inside for ref in segment.extras[: self._k])
            found = metric.statistics(outputs, inside, ks=[self._k])
            self._keep(pair, metric, found)
            values = metric.aggregate(found, k=self._k).segment * (1 if metric.higher_is_better else -1)
            check_finite(metric.label, values, systems, found.segments)
            for name, row in zip(systems, values.tolist(), strict=True):
                for place, value in zip(places, row, strict=True):
                    scores[place][name] = value
        for item, own in zip(stretch, scores, strict=True):
            row = {"item_id": item.name, PREDICTIONS: {name: own[name] for name in item.outputs}}
            yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    def _keep(self, pair: str, metric: Metric, found: Statistics) -> None:
        """What the signature of all stretches needs."""
        counts = np.array([[found.originals.min(), found.extras.min()], [found.originals.max(), found.extras.max()]])
        _, first, before = self._seen.get((pair, metric.name), (metric, found, counts))
        both = np.stack([np.minimum(before[0], counts[0]), np.maximum(before[1], counts[1])])
        if len(first.segments) != 2:
            first = replace(first, segments=("1", "2"), values=first.values[:, :, [0, 0]])
        self._seen[pair, metric.name] = metric, first, both

    def _signatures(self, pair: str) -> Iterator[str]:
        for (one, _), (metric, found, counts) in self._seen.items():
            if one == pair:
                stats = replace(found, originals=counts[:, 0], extras=counts[:, 1])
                scores = metric.aggregate(stats, k=int(counts[1, 1]) if self._asked is None else self._asked)
                # How many texts were cut is known of one stretch alone.
                yield re.sub(r"\|cut:\d+", "", scores.segment_signature)

    def provenance(self, say: Callable[[str, str], object]) -> dict[str, Any]:
        """What is written of every pair; ``say`` is told what the user has to know."""
        made = {}
        for pair, known in self._pairs.items():
            extras = self._extras[pair]
            k = max(extras) if self._asked is None else min(self._asked, max(extras))
            copies = [replace(one, k=k) for one in self._copies[pair].found()] if k else []
            near = self._originals[pair].found()
            target, first = target_language(pair), self._metrics.of(pair, True)
            if first.needs_references and first.languages and target not in map(base, first.languages):
                names = ", ".join(map(language_name, first.languages))
                say("warning", f"{pair}: the model of {first.label} is for {names}, not {language_name(target)}")
            shorts = short_of(self._asked or 0, min(extras))
            for warning in (*shorts, *warnings_of_originals(near), *warnings_of_copies(copies)):
                say("warning", f"{pair}: {warning}")
            made[pair] = {
                "items": known.items,
                "references": dict(sorted(known.kinds.items())),
                "k": k,
                "asked": self._asked,
                "available": [min(extras), max(extras)],
                "added": dict(sorted(self._used[pair].items())),
                "added by": {key: value for key, value in self._added.meta_of(pair).items() if key != "references"},
                **({"circular": plain_copies(copies)} if copies else {}),
                **({"originals": plain_originals(near)} if near else {}),
                "signatures": [*self._signatures(pair)],
            }
        return made


def submit_items(
    data: str | Path,
    asked: Sequence[str],
    output: Path,
    what: Submission,
    options: Mapping[str, Any],
    say: Callable[[str, str], object],
) -> dict[Path, Checked]:
    """Write a file of predictions, and ``NAME.provenance.json`` beside it, for the pairs ``asked`` or for all."""
    check_name(what.name)
    check_writable(output)
    if not Path(data).is_file() or Path(data).resolve() == output.resolve():
        wrong = "the output as well" if Path(data).is_file() else "no file"
        expected = "expected the test file of the task, JSON lines, which is read several times"
        raise UsageError(f"{data} is {wrong}, {expected}")
    excluded = frozenset(what.exclude)
    pairs = _survey(data, asked, excluded)
    metrics = Metrics(what, options)
    with ExitStack() as stack:
        added = Added(what, asked, pairs, stack, say)
        bare = {name: pair for name, pair in pairs.items() if name not in added.files}
        metrics.check_references(bare, display_name(data))
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
        DataError: Something else stands there; line and key are named.
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
    if excluded.isdisjoint(item.outputs):
        return item
    return replace(item, outputs={name: text for name, text in item.outputs.items() if name not in excluded})


def _chosen(data: str | Path, pairs: Mapping[str, Pair], excluded: frozenset[str]) -> Iterator[Item]:
    return (_without(item, excluded) for item in _items(data) if item.pair in pairs)


def _survey(data: str | Path, asked: Sequence[str], excluded: frozenset[str]) -> dict[str, Pair]:
    """The pairs that are asked for, by name; refuses what cannot be scored, before anything is."""
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
        found = f'"ref" has {told} of line {first.line}, of the same pair'
        raise DataError(found, file=name, line=item.line, remedy="a pair has references, or has none")


def _check_ids(name: str, ids: npt.NDArray[np.int64]) -> None:
    """Refuse two items of one id; every line is an item."""
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(same):
        second, first = min((int(order[at + 1]) + 1, int(order[at]) + 1) for at in same)
        raise DataError(f'"item_id" is that of line {first}', file=name, line=second, remedy="one line an item")
