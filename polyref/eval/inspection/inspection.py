"""``inspect``: what a reference set holds, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from polyref.augment.candidates import Dropped
from polyref.errors import UsageError
from polyref.eval.inspection.counts import count, diversity, runs, sampled
from polyref.eval.inspection.measures import Faults, Measures, read_dropped, refusals
from polyref.eval.inspection.measures import examples as examples_of
from polyref.eval.inspection.views import Mark, brackets, notebook_view, page, summary, terminal_view
from polyref.metrics.copies import count_copies, near_originals
from polyref.publishing import check_writable, write_atomically
from polyref.references import ReferenceSet, as_reference_set
from polyref.textfiles import check_parallel
from polyref.values import whole

#: Segments that diversity is measured on.
SAMPLE: Final = 1000
EXAMPLES: Final = 5


class Inspection(Measures):
    """What :func:`inspect` found: ``print`` shows it, a notebook shows its tables, :meth:`save` writes a page."""

    def text(self, mark: Mark = brackets) -> str:
        """One screen for a terminal.

        Args:
            mark: Shows the words that an added reference leaves out (``gone``) and brings (``new``).
        """
        return terminal_view(self, mark)

    def html(self) -> str:
        """The page, which needs nothing but itself."""
        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the page. Equal sets give equal bytes.

        Raises:
            DataError: ``path`` cannot be written.
        """
        check_writable(path)
        with write_atomically(path) as stream:
            stream.write(self.html())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Inspection({self.name}: {summary(self)})"

    def _repr_html_(self) -> str:
        return notebook_view(self)


def inspect(
    references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]],
    *,
    name: str = "references",
    dropped: str | Path | Sequence[Dropped] | None = None,
    sample: int = SAMPLE,
    examples: int = EXAMPLES,
    seed: int = 1,
    systems: Mapping[str, Sequence[str]] | None = None,
) -> Inspection:
    """Look at a reference set: some of it to read, what is wrong first; how many references, by whom, how different.

    Everything is counted over the whole set, but faults and diversity on at most ``sample`` random segments.

    Args:
        references: A set; or one reference a segment; or the list of every segment's references.
        name: What the set is called in what is shown.
        dropped: What the filter refused: the file that ``polyref augment --dropped`` wrote, or the list that
            :func:`polyref.augment.augment` filled.
        sample: Most segments to look for faults in, and to measure diversity on, at least 1.
        examples: Segments to read, 0 or more: those with faults first.
        seed: Chooses the random segments; equal seeds choose the same.
        systems: Name to outputs, one a segment: copies of them among the added references are counted,
            and among the originals (:mod:`polyref.metrics.copies`).

    Raises:
        UsageError: ``sample`` or ``examples`` is too small, or ``references`` is no list of texts.
        DataError: The file of refused candidates is missing or broken, or a system has another number of segments.
    """
    sample, examples, seed = whole("sample", sample, 1), whole("examples", examples), whole("seed", seed)
    refset = as_reference_set(references)
    if not len(refset):
        raise UsageError("`references` has no segment, expected at least one")
    given = read_dropped(dropped) if isinstance(dropped, (str, Path)) else dropped
    for system, texts in (systems or {}).items():
        check_parallel([(name, len(refset)), (system, len(texts))])
    part = sampled(refset.segments, sample, seed)
    counts, places = count(refset)
    differ, tokenize = diversity(part)
    shown, faults = examples_of(refset, part, places, Faults(part, refset.meta), examples, seed)
    return Inspection(
        name=name,
        segments=len(refset),
        counts=counts,
        runs=runs(refset.meta),
        diversity=differ,
        sampled=len(part),
        refusals=None if given is None else refusals(refset, given, seed),
        examples=shown,
        faults=dict(faults.most_common()),
        tokenize=tokenize,
        seed=seed,
        copies=None if systems is None else count_copies(refset, systems, [max(len(one.extras) for one in refset)]),
        originals=None if systems is None else near_originals(refset, systems),
    )
