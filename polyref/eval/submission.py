"""Submissions to the WMT metrics task: from scores to the exact lines of a year, and back through a validator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.eval.data.task_files import LEVELS, TaskRow, read_rows
from polyref.references import ReferenceSet
from polyref.values import texts, whole

FloatArray = npt.NDArray[np.float64]

#: The year whose submission is a file of items.
ITEMS_YEAR: Final = 2026
#: What stands in the reference column of a metric that reads the source alone.
NO_REFERENCE: Final = "src"
#: What stands in the domain column of scores over all domains, and in the columns that a system's line does not need.
ALL: Final = "all"
#: Where a document or domain is not known.
UNKNOWN: Final = "-"
#: What 2025 calls the columns of the other years; it writes the languages of a pair apart, and names no reference.
_IN_2025: Final = {
    "metric": "method",
    "testset": "set_id",
    "domain": "domain_name",
    "document": "doc_id",
    "system": "system_id",
    "segment": "segment_id",
}


@dataclass(frozen=True)
class Submission:
    """What to submit, of every language pair.

    Attributes:
        year: Whose format to write, 2020 to 2026.
        name: What the submission calls the metric.
        testset: What the task calls the test set; files of 2026 do not say it.
        metric: A metric that polyref computes, by name or specification.
        ref: Names of human references; needed where there are several.
        references: Added references: an augmented set or its file, in whose name ``{set}`` and ``{pair}`` are put in;
            or a list with one added text a segment, or with a list of them. None adds nothing.
        k: Extra references; None is all there are.
        reference: What the task calls the reference; None: by the year, from ``ref``.
        form: Form of the file of the augmented set; None tells it by content.
        fields: Key or column of that file -> what it is.
        exclude: Systems to leave out of every pair.
        without_reference: In 2026, a metric that reads the source alone, for items without any reference.
    """

    year: int
    name: str
    testset: str = ""
    metric: str = "bleu"
    ref: tuple[str, ...] = ()
    references: str | Path | ReferenceSet | Sequence[str] | Sequence[Sequence[str]] | None = None
    k: int | None = None
    reference: str | None = None
    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    without_reference: str | None = None

    def __post_init__(self) -> None:
        for name, check in (("ref", texts), ("exclude", texts), ("year", whole)):
            object.__setattr__(self, name, check(name, getattr(self, name)))
        object.__setattr__(self, "k", None if self.k is None else whole("k", self.k))


@dataclass(frozen=True)
class TestSet:
    """What the task calls the segments of one language pair.

    Attributes:
        pair: ``SRC-TGT``; 2025 writes the codes with regions, such as ``en-cs_CZ``.
        name: The test set, such as ``generaltest2023``; ``official`` or ``challenge_NAME`` in 2025.
        documents: Document of every segment, blocks in order; ``-`` where unknown.
        domains: Domain of every segment.
    """

    #: Not a test case, whatever its name suggests to pytest.
    __test__ = False

    pair: str
    name: str
    documents: tuple[str, ...]
    domains: tuple[str, ...]

    def over(self, domain: str) -> npt.NDArray[np.bool_]:
        """Which segments belong to a domain, or all of them."""
        return np.array([domain in (ALL, own) for own in self.domains])

    def rank_in_document(self) -> list[int]:
        """Number of every segment within its document, from 1."""
        seen: Counter[str] = Counter()
        ranks = []
        for document in self.documents:
            seen[document] += 1
            ranks.append(seen[document])
        return ranks


def domains_to_score(year: int, testset: TestSet) -> tuple[str, ...]:
    """Domains that a year's system-level file has a line for; before 2022 there is one for the whole set."""
    if year < 2022 or year >= 2025:
        return (ALL,)
    return (*sorted(set(testset.domains) - {ALL, UNKNOWN}), ALL)


def reference_name(year: int, name: str, testset: str) -> str:
    """How a year writes a reference: ``refA`` became ``ref-A`` in 2021 and 2022, and the test set's name in 2020.

    The text releases of 2021 and 2022 call it ``A``. No reference is :data:`NO_REFERENCE`, but in 2020, whose archive
    has the test set's name for such metrics too.
    """
    if year == 2020:
        return testset
    if len(name) == 1 and name.isupper():
        name = f"ref{name}"
    if name == NO_REFERENCE or year >= 2023:
        return name
    return f"ref-{name[3:]}" if name.startswith("ref") and len(name) > 3 and name[3] != "-" else name


def system_rows(
    year: int, metric: str, testset: TestSet, reference: str, scores: Mapping[str, Mapping[str, float]]
) -> Iterator[TaskRow]:
    """Lines of a system-level file: ``scores[domain][system]``, with the domains of ``domains_to_score``."""
    for domain, systems in scores.items():
        for system, score in systems.items():
            found = {"system": system, "domain": domain, "document": ALL, "segment": ALL}
            yield _row(year, metric, testset, reference, found, score)


def segment_rows(
    year: int, metric: str, testset: TestSet, reference: str, scores: Mapping[str, FloatArray]
) -> Iterator[TaskRow]:
    """Lines of a segment-level file, one system after the other.

    Raises:
        DataError: A system's scores are not one a segment.
    """
    ranks = testset.rank_in_document()
    for system, values in scores.items():
        if len(values) != len(testset.documents):
            raise DataError(
                f"{system} has {len(values)} scores, but the test set has {len(testset.documents)} segments"
            )
        for index, value in enumerate(values):
            number = ranks[index] if year == 2020 else index + 1
            document, domain = testset.documents[index], testset.domains[index]
            found = {"system": system, "domain": domain, "document": document, "segment": str(number)}
            yield _row(year, metric, testset, reference, found, float(value))


def _row(year: int, metric: str, testset: TestSet, reference: str, found: Mapping[str, str], score: float) -> TaskRow:
    fields = {"metric": metric, "pair": testset.pair, "testset": testset.name, "reference": reference, **found}
    if year == 2025:
        fields = {_IN_2025.get(name, name): value for name, value in fields.items()}
        fields["source_lang"], _, fields["target_lang"] = testset.pair.partition("-")
    return TaskRow(fields, score)


@dataclass(frozen=True)
class Checked:
    """What a valid submission file holds.

    Attributes:
        rows: Number of scores.
        pairs: Language pair -> its systems.
        segments: Language pair -> number of segments; empty for a system-level file.
    """

    rows: int
    pairs: dict[str, tuple[str, ...]]
    segments: dict[str, int]


def validate(path: str | Path, year: int, level: str, testsets: Sequence[TestSet] = ()) -> Checked:
    """Read a submission back and refuse what the organisers' scripts would choke on, or worse, accept.

    Args:
        path: The file.
        year: Its format.
        level: ``sys`` or ``seg``.
        testsets: What to compare documents, domains and numbers of segments with.

    Raises:
        DataError: The file is broken or empty; more than one metric; a reference scored against itself; source-only
            and reference-based scores of one pair; a system that lacks segments or has them in another order;
            documents or domains other than the test set's. File, line and field are named.
    """
    if level not in LEVELS:
        raise UsageError(f"level {level!r}, expected sys or seg")
    check = _Check(path, year, testsets)
    blocks: dict[_Place, list[TaskRow]] = defaultdict(list)
    for row in read_rows(path, year, level):
        place = check.row(row)
        if level == "seg":
            blocks[place].append(row)
        else:
            check.domain(row, place)
    for place, block in blocks.items():
        check.block(block, place)
    rows = {pair: tuple(systems) for pair, systems in check.systems.items()}
    return Checked(check.rows, rows, check.segments)


class _Place(NamedTuple):
    """What the lines of one system share, whatever a year calls its columns."""

    pair: str
    testset: str
    reference: str
    system: str


class _Check:
    """What has been read of a file, to refuse what contradicts it."""

    def __init__(self, path: str | Path, year: int, testsets: Sequence[TestSet]) -> None:
        self.path, self.year = path, year
        self.known = {(one.pair, one.name): one for one in testsets}
        self.rows = 0
        self.metric: str | None = None
        #: Pair -> whether its scores are without a reference.
        self.bare: dict[str, bool] = {}
        self.systems: dict[str, dict[str, None]] = defaultdict(dict)
        self.segments: dict[str, int] = {}

    def name(self, field: str) -> str:
        """What the year calls a column."""
        return _IN_2025.get(field, field) if self.year == 2025 else field

    def fault(self, row: TaskRow, field: str, found: str) -> DataError:
        """What is said of a wrong field."""
        return DataError(f"field {field!r} {found}", file=self.path, line=row.line)

    def row(self, row: TaskRow) -> _Place:
        """Refuse a second metric, a reference against itself, and scores with and without a reference."""
        self.rows += 1
        fields = row.fields
        metric = fields[self.name("metric")]
        if self.metric is None:
            self.metric = metric
        if metric != self.metric:
            raise self.fault(row, self.name("metric"), f"is {metric!r}, but the file began with {self.metric!r}")
        pair = f"{fields['source_lang']}-{fields['target_lang']}" if self.year == 2025 else fields["pair"]
        place = _Place(pair, fields[self.name("testset")], fields.get("reference", ""), fields[self.name("system")])
        if place.reference and place.system.replace("-", "") == place.reference.replace("-", ""):
            raise self.fault(row, "system", f"{place.system!r} is scored against itself")
        bare = place.reference == NO_REFERENCE
        # In 2020 one file held the scores against every reference set.
        if place.reference and self.year > 2020 and self.bare.setdefault(pair, bare) != bare:
            said = f"is {place.reference!r}: {pair} has scores with and without a reference"
            raise self.fault(row, "reference", said)
        self.systems[pair][place.system] = None
        return place

    def testset(self, row: TaskRow, place: _Place, named: str) -> TestSet | None:
        """The test set of some lines; None where there is nothing to compare with."""
        found = self.known.get((place.pair, place.testset))
        if self.known and found is None:
            raise self.fault(row, "testset", f"{named}of {place.pair} is not a test set it should hold")
        return found

    def domain(self, row: TaskRow, place: _Place) -> None:
        """Refuse a system-level line of a domain that the test set does not have."""
        found = self.testset(row, place, f"{place.testset!r} ")
        domain = row.fields.get("domain", ALL)
        if found is not None and domain not in (wanted := domains_to_score(self.year, found)):
            raise self.fault(row, "domain", f"is {domain!r}, expected one of {', '.join(wanted)}")

    def block(self, block: Sequence[TaskRow], place: _Place) -> None:
        """The lines of one system: complete, in order, and equal to the metadata."""
        testset = self.testset(block[0], place, "")
        expected = len(testset.documents) if testset else self.segments.get(place.pair, len(block))
        self.segments[place.pair] = expected
        number = self.name("segment")
        ranks: Counter[str] = Counter()
        for index, row in enumerate(block):
            document = row.fields.get(self.name("document"), UNKNOWN)
            ranks[document] += 1
            wanted = str(ranks[document] if self.year == 2020 else index + 1)
            if row.fields[number] != wanted:
                raise self.fault(row, number, f"is {row.fields[number]!r}, expected {wanted}")
            if testset is None or index >= expected:
                continue
            for column, known in (("document", testset.documents[index]), ("domain", testset.domains[index])):
                if (found := row.fields.get(self.name(column), known)) != known:
                    raise self.fault(row, self.name(column), f"is {found!r}, expected {known!r}")
        if len(block) != expected:
            raise self.fault(block[-1], number, f"{place.system} ends after {len(block)} segments, expected {expected}")
