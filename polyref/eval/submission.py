"""Submissions to the WMT metrics task: from scores to the exact lines of a year, and back through a validator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.eval.data.task_files import TaskRow, read_rows
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
        seen: dict[str, int] = defaultdict(int)
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
            yield TaskRow(_common(year, metric, testset, reference, system, domain, ALL, ALL), score)


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
            row = _common(year, metric, testset, reference, system, domain, document, str(number))
            yield TaskRow(row, float(value))


def _common(
    year: int, metric: str, testset: TestSet, reference: str, system: str, domain: str, document: str, segment: str
) -> dict[str, str]:
    if year == 2025:
        source, _, target = testset.pair.partition("-")
        return {
            "doc_id": document,
            "segment_id": segment,
            "source_lang": source,
            "target_lang": target,
            "set_id": testset.name,
            "system_id": system,
            "domain_name": domain,
            "method": metric,
        }
    return {
        "metric": metric,
        "pair": testset.pair,
        "testset": testset.name,
        "domain": domain,
        "document": document,
        "reference": reference,
        "system": system,
        "segment": segment,
    }


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
        DataError: Anything :func:`~polyref.eval.data.task_files.read_rows`
            refuses; more than one metric; a reference scored
            against itself; source-only and reference-based scores of one pair; a system that lacks segments or has
            them in another order; documents or domains other than the test set's. File, line and field are named.
    """
    if level not in {"sys", "seg"}:
        raise UsageError(f"level {level!r}, expected sys or seg")
    name = "method" if year == 2025 else "metric"
    known = {(t.pair, t.name): t for t in testsets}
    rows = 0
    metric: str | None = None
    kinds: dict[str, bool] = {}
    systems: dict[str, dict[str, None]] = defaultdict(dict)
    blocks: dict[tuple[str, ...], list[TaskRow]] = defaultdict(list)
    for row in read_rows(path, year, level):
        rows += 1
        if metric is None:
            metric = row.fields[name]
        elif row.fields[name] != metric:
            raise _fault(path, row, name, f"is {row.fields[name]!r}, but the file began with {metric!r}")
        pair = _pair(row)
        testset = row.fields["set_id" if year == 2025 else "testset"]
        system = row.fields["system_id" if year == 2025 else "system"]
        reference = row.fields.get("reference", "")
        _check_reference(path, row, pair, system, reference, kinds, year)
        systems[pair][system] = None
        if level == "seg":
            blocks[pair, testset, reference, system].append(row)
        elif known:
            _check_system(path, row, year, known, pair, testset)
    segments: dict[str, int] = {}
    for (pair, testset, _, _), block in blocks.items():
        _check_block(path, block, year, known.get((pair, testset)), known, segments, pair)
    return Checked(rows, {pair: tuple(names) for pair, names in systems.items()}, segments)


def _pair(row: TaskRow) -> str:
    if "pair" in row.fields:
        return row.fields["pair"]
    return f"{row.fields['source_lang']}-{row.fields['target_lang']}"


def _check_reference(
    path: str | Path, row: TaskRow, pair: str, system: str, reference: str, kinds: dict[str, bool], year: int
) -> None:
    if not reference:
        return
    if system.replace("-", "") == reference.replace("-", ""):
        raise _fault(path, row, "system", f"{system!r} is scored against itself")
    # In 2020 one file held the scores against every reference set.
    if year > 2020 and kinds.setdefault(pair, reference == NO_REFERENCE) != (reference == NO_REFERENCE):
        raise _fault(path, row, "reference", f"is {reference!r}: {pair} has scores with and without a reference")


def _check_system(
    path: str | Path, row: TaskRow, year: int, known: Mapping[tuple[str, str], TestSet], pair: str, testset: str
) -> None:
    found = known.get((pair, testset))
    if found is None:
        raise _fault(path, row, "testset", f"{testset!r} of {pair} is not a test set it should hold")
    domain = row.fields.get("domain", ALL)
    if domain not in domains_to_score(year, found):
        wanted = ", ".join(domains_to_score(year, found))
        raise _fault(path, row, "domain", f"is {domain!r}, expected one of {wanted}")


def _check_block(
    path: str | Path,
    block: Sequence[TaskRow],
    year: int,
    testset: TestSet | None,
    known: Mapping[tuple[str, str], TestSet],
    segments: dict[str, int],
    pair: str,
) -> None:
    """The lines of one system: complete, in order, and equal to the metadata."""
    if known and testset is None:
        raise _fault(path, block[0], "testset", f"of {pair} is not a test set it should hold")
    key = "segment_id" if year == 2025 else "segment"
    expected = len(testset.documents) if testset else segments.setdefault(pair, len(block))
    segments[pair] = expected
    ranks: dict[str, int] = defaultdict(int)
    for index, row in enumerate(block):
        document = row.fields.get("doc_id", row.fields.get("document", UNKNOWN))
        ranks[document] += 1
        number = ranks[document] if year == 2020 else index + 1
        if row.fields[key] != str(number):
            raise _fault(path, row, key, f"is {row.fields[key]!r}, expected {number}")
        if testset is not None and index < expected:
            for field, wanted in (
                ("document", testset.documents[index]),
                ("doc_id", testset.documents[index]),
                ("domain", testset.domains[index]),
                ("domain_name", testset.domains[index]),
            ):
                if row.fields.get(field, wanted) != wanted:
                    raise _fault(path, row, field, f"is {row.fields[field]!r}, expected {wanted!r}")
    if len(block) != expected:
        system = block[0].fields.get("system", block[0].fields.get("system_id"))
        raise _fault(path, block[-1], key, f"{system} ends after {len(block)} segments, expected {expected}")


def _fault(path: str | Path, row: TaskRow, field: str, found: str) -> DataError:
    return DataError(f"field {field!r} {found}", file=path, line=row.line)
