"""Evaluation sets cut to their judged segments, and what metrics score on them, for evidence.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from sets import Generator, Loaded, Set

from polyref.cache import Cache
from polyref.errors import UsageError
from polyref.eval.data.reference_sets import placebo, reference_set
from polyref.eval.data.score_files import Gold, RankingPairs
from polyref.eval.series import Series, series_of
from polyref.eval.statistics.base import Bootstrap, Measure, People, Statistic
from polyref.eval.statistics.named import statistics_called
from polyref.eval.statistics.significance import williams_test
from polyref.metrics.base import Metric
from polyref.metrics.pairs import PairMetric
from polyref.references import Reference, ReferenceSet, Segment

Floats = npt.NDArray[np.float64]

#: Development sets, on which settings are chosen; each look at a test set (``frozen``) is in the ledger.
SETS: Final = {
    one.name: one
    for one in (
        Set("wmt22-zh", "wmt22.mqm", "zh-en", "refA", "mqm", other="refB"),
        Set("news", "wmt21.news", "zh-en", "refA", "mqm", other="refB"),
        Set("bio-de", "bio21.mqm", "de-en", "refA", "mqm"),
        Set("bio-es", "bio21.mqm", "es-en", "refA", "mqm"),
        Set("bio-ru", "bio21.mqm", "ru-en", "refA", "mqm"),
        Set("lt", "wmt19", "lt-en", "ref", "darr"),
        Set("gu", "wmt19", "gu-en", "ref", "darr"),
        Set("wmt22-de", "wmt22.mqm", "en-de", "refA", "mqm", other="refB"),
    )
}
#: Averages over sets.
AVERAGES: Final = {"development": ("news", "bio-de", "bio-es", "bio-ru"), "wmt19": ("lt", "gu")}
#: Set -> lists of added references in the data folder.
LISTS: Final = {
    "wmt22-zh": "wmt22/paraphrases/zh-en.refA.jsonl",
    "wmt22-de": "wmt22/paraphrases/en-de.refA.jsonl",
}
#: Within segments first, then systems, then what moves with the difficulty of segments.
WITHIN, ACCURACY, POOLED = "kendall-tau-b-items", "acc23", "kendall-tau-b"
OF_SCORES: Final = (
    ("seg", WITHIN),
    ("seg", "kendall-without-ties"),
    ("seg", ACCURACY),
    ("sys", "pearson"),
    ("seg", POOLED),
)
OF_RANKINGS: Final = (("seg", "kendall-darr-without-ties"), ("seg", "kendall-darr"), ("sys", "pearson"))

#: (level, statistic) -> its value on the test set, then one a redrawn one.
Samples = dict[tuple[str, str], Floats]


@dataclass(frozen=True)
class Material:
    """The judged segments of a set, or some of them.

    Attributes:
        name: Of the set.
        outputs: System -> outputs.
        references: The human reference.
        gold: The judgements of these segments; scores of systems are of the whole set.
        known: Which outputs are known, shape (systems, segments).
        loaded: The set that it is cut from; it may have more segments.
    """

    name: str
    outputs: dict[str, list[str]]
    references: ReferenceSet
    gold: Gold
    known: npt.NDArray[np.bool_]
    loaded: Loaded

    @classmethod
    def of(cls, which: Set, data: Path, limit: int | None = None) -> Material:
        """A set, or ``limit`` of its judged segments, spread evenly."""
        loaded = Loaded(which, data, limit)
        gold, chosen = loaded.gold, loaded.chosen
        systems = list(dict.fromkeys([*gold.system, *gold.segment, *(gold.pairs.systems if gold.pairs else ())]))
        texts = loaded.evalset.outputs(systems)
        outputs = {name: [lines[n] for n in chosen] for name, lines in zip(systems, texts, strict=True)}
        known = loaded.evalset.known(texts)[:, chosen]
        return cls(which.name, outputs, loaded.part(), _cut(gold, chosen, len(loaded.references)), known, loaded)

    def spread(self, count: int) -> Material:
        """Some of the segments, spread evenly; all where there are no more."""
        if count >= len(self.references):
            return self
        rows = np.linspace(0, len(self.references) - 1, count).round().astype(int)
        return replace(
            self,
            outputs={name: [lines[n] for n in rows] for name, lines in self.outputs.items()},
            references=ReferenceSet(tuple(self.references[int(n)] for n in rows), self.references.meta),
            gold=_cut(self.gold, rows, len(self.references)),
            known=self.known[:, rows],
        )

    def with_systems(self, systems: Sequence[str]) -> Material:
        """The same with some of the systems."""
        rows = [list(self.outputs).index(name) for name in systems]
        left_out = [name for name in self.gold.systems if name not in systems]
        outputs = {name: self.outputs[name] for name in systems}
        return replace(self, outputs=outputs, gold=self.gold.without(left_out), known=self.known[rows])

    def added(self, generator: str, data: Path, work: Path, k: int) -> ReferenceSet:
        """The segments with added references: ``human``, ``llm``, or of a :class:`sets.Generator`, such as ``shipped``.

        Raises:
            UsageError: The set has none of this kind.
        """
        if generator == "llm" and self.name in LISTS:
            which, evalset = self.loaded.set, self.loaded.evalset
            made = reference_set(evalset, [which.reference], data / LISTS[self.name])
        elif generator == "llm":
            raise UsageError(f"no references of {generator} for {self.name}")
        else:
            made = self._made(generator, work, k)
        by_id = {segment.id: segment for segment in made}
        return ReferenceSet(tuple(by_id[segment.id] for segment in self.references), made.meta)

    def _made(self, generator: str, work: Path, k: int) -> ReferenceSet:
        # Filtering takes long: what it left is kept.
        found = Generator.parse(generator)
        name = f"{self.name}-{len(self.loaded.chosen)}-{found.name}-{k}-{found.signature(self.loaded, k)}.jsonl"
        path = work / "references" / name
        if not path.is_file():
            made = found.augment(self.loaded, k, work)
            if made is None:
                raise UsageError(f"no references of {generator} for {self.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            made.references.save(path)
        return ReferenceSet.load(path)

    def with_texts(self, lists: Sequence[Sequence[str]], name: str) -> ReferenceSet:
        """The segments with these added references."""
        return ReferenceSet(
            tuple(
                Segment(
                    segment.id,
                    (*segment.originals, *(Reference(t, kind="pseudo", of=0, rank=r) for r, t in enumerate(texts))),
                )
                for segment, texts in zip(self.references, lists, strict=True)
            ),
            {**self.references.meta, "generator": name},
        )


def _cut(gold: Gold, chosen: npt.NDArray[np.intp], total: int) -> Gold:
    """The judgements of the chosen segments, numbered anew."""
    number = np.full(total, -1, dtype=np.intp)
    number[chosen] = np.arange(len(chosen))
    pairs = gold.pairs
    if pairs is not None:
        keep = number[pairs.segment] >= 0
        pairs = RankingPairs(number[pairs.segment[keep]], pairs.better[keep], pairs.worse[keep], pairs.systems)
    return replace(gold, segment={name: scores[chosen] for name, scores in gold.segment.items()}, pairs=pairs)


class Judges:
    """The statistics of a set, prepared once for any number of metrics.

    Human scores of systems are held fixed when segments are redrawn.
    """

    def __init__(self, material: Material, bootstrap: Bootstrap, *, pooled: bool = True) -> None:
        gold, systems = material.gold, list(material.outputs)
        self._prepared: list[tuple[tuple[str, str], Statistic, Measure, list[str], People]] = []
        shown = OF_RANKINGS if gold.pairs is not None else OF_SCORES
        for level, name in shown:
            if name == POOLED and not pooled:
                continue
            statistic = next(one for one in statistics_called(name) if one.level == level)
            if statistic.needs == "systems":
                names = list(gold.system)
                rows = [systems.index(one) for one in names]
                people = People(np.array([gold.system[one] for one in names]), material.known[rows].all(0), bootstrap)
            elif statistic.needs == "rankings" and gold.pairs is not None:
                names = list(gold.pairs.systems)
                judged = np.isin(np.arange(len(material.references)), gold.pairs.segment)
                people = People(np.zeros(0), judged, bootstrap, gold.pairs)
            else:
                names = list(gold.segment)
                human = np.stack([gold.segment[one] for one in names])
                people = People(human, ~np.isnan(human).all(0), bootstrap)
            self._prepared.append(((level, name), statistic, statistic.against(people), names, people))

    def samples(self, series: Series, k: int, *, pooled: bool = True) -> Samples:
        """Every statistic of a metric; the pooled one takes longest."""
        return {
            key: measure(self._scores(series, k, *rest))
            for key, _, measure, *rest in self._prepared
            if pooled or key[1] != POOLED
        }

    def p_value(self, first: Series, k: int, second: Series, other: int) -> float | None:
        """Of Williams' test that the first metric agrees better with people about systems than the second."""
        for (level, _), _, _, names, people in self._prepared:
            if level == "sys":
                scores = [self._scores(one, n, names, people)[0] for one, n in ((first, k), (second, other))]
                return williams_test(*scores, people.scores)
        return None

    def counted(self, key: tuple[str, str]) -> int:
        """What a statistic is over: systems, judged outputs, or pairs of them."""
        people = next(people for known, *_, people in self._prepared if known == key)
        return len(people.pairs) if people.pairs is not None else int((~np.isnan(people.scores)).sum())

    @staticmethod
    def _scores(series: Series, k: int, names: list[str], people: People) -> Floats:
        if people.scores.ndim != 1 or people.pairs is not None:
            found = series.segment(names, k)
        else:
            universe = people.universe
            found = series.system(names, k, None if universe is None or universe.all() else universe)
            assert found is not None
            found = found[None]
            if people.draws is not None:
                found = np.concatenate([found, series.drawn_system(names, k, people.draws)])
        assert found is not None
        return found


def measured(
    material: Material,
    references: ReferenceSet,
    metrics: Mapping[str, Metric],
    ks: Sequence[int],
    placebos: int,
    seed: int,
    keep: Path | None,
) -> tuple[list[Series], list[list[Series]]]:
    """The metrics with the references, and with each placebo of them."""
    cache = None if keep is None else Cache(keep)
    # Those that keep scores of pairs come last.
    ordered = dict(sorted(metrics.items(), key=lambda item: isinstance(item[1], PairMetric)))

    def both(refs: ReferenceSet) -> list[Series]:
        return series_of(ordered, material.outputs, refs, ks, cache=cache)

    return both(references), [both(placebo(references, seed + number)) for number in range(placebos)]


@dataclass(frozen=True)
class Fixed:
    """Scores of segments as a series with one number of references; a system's score is the mean of its segments'.

    Attributes:
        scores: Shape (systems, segments).
        systems: Its rows.
        metric: Its name.
    """

    scores: Floats
    systems: Sequence[str]
    metric: str = ""
    ks: tuple[int | None, ...] = (0,)
    resamples: bool = True

    def segment(self, systems: Sequence[str], k: int | None) -> Floats:
        """See :class:`Series`."""
        return self.scores[[list(self.systems).index(name) for name in systems]]

    def system(self, systems: Sequence[str], k: int | None, over: npt.NDArray[np.bool_] | None) -> Floats:
        """See :class:`Series`."""
        scores = self.segment(systems, k)
        means: Floats = (scores if over is None else scores[:, over]).mean(axis=1)
        return means

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: Floats) -> Floats:
        """See :class:`Series`."""
        means: Floats = draws @ self.segment(systems, k).T / draws.sum(axis=1, keepdims=True)
        return means
