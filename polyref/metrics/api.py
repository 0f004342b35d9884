"""Score systems with any number of references, from texts to a table; also every system against the others."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np

from polyref.comparison import Repeats, dice, ngrams
from polyref.errors import DataError, UsageError
from polyref.metrics.base import Metric
from polyref.metrics.combination import Blend, ExpectedCredit, Mean
from polyref.metrics.copies import CopyCount
from polyref.metrics.registry import named_metrics, needs_added, plain_name
from polyref.metrics.signature import InputsDigest, feed
from polyref.metrics.significance import SEED, check_test
from polyref.metrics.table import MetricScores, ScoreTable, measured
from polyref.models.language_recognition import Language, language_name, other_language
from polyref.references import Reference, ReferenceSet, as_reference_set
from polyref.values import as_texts, text, whole, wholes

#: Said wherever scores are of added references alone.
NO_HUMAN: Final = "no human reference: all are added ones, and k counts them from the first"


class NoAddedReferencesError(UsageError):
    """Added references are asked for, but the references have none."""


def score(
    systems: Mapping[str, Sequence[str]] | Sequence[str],
    references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]],
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric] = "bleu",
    ks: int | Sequence[int] | None = None,
    *,
    sources: Sequence[str] | None = None,
    test: str | None = None,
    trials: int | None = None,
    seed: int = SEED,
    allow_missing: bool = False,
    target_lang: str | None = None,
    force: bool = False,
    peers: str | None = None,
) -> ScoreTable:
    """Score systems with any number of references. With ``ks=0`` the scores are sacreBLEU's.

    White space at the end of texts is cut, as sacreBLEU's command does.

    Args:
        systems: Name to outputs, one a segment; or the outputs of one system, which is called ``system``.
        references: A set; or one reference a segment; or the list of every segment's references.
        metrics: Metrics by name or specification, ``chrf(combine=expected)``, or as objects, or both in a list; or a
            mapping from the names that rows shall have.
        ks: Numbers of extra references, each >= 0; None is 0 and as many as there are.
        sources: One a segment, for metrics that read them.
        test: ``confidence`` (95 % bootstrap intervals, Koehn 2004), or a test of every system against the first one:
            ``paired_ar`` (approximate randomisation, Riezler and Maxwell 2005: the one to prefer),
            ``paired_bs_shift`` (a paired bootstrap that holds its level) or ``paired_bs`` (sacreBLEU's, which calls
            equal systems different twice as often as it says: to compare with published p-values).
        trials: How often a test resamples; None is sacreBLEU's 1,000 for the bootstrap, and 10,000.
        seed: Of the test; equal seeds give equal results.
        allow_missing: Leave out segments that have no reference, instead of refusing them.
        target_lang: Language of the outputs, for metrics given by name: it chooses BLEU's tokeniser as sacreBLEU does
            (``zh``, ``ja-mecab``, ``ko-mecab``, otherwise ``13a``), and models of several languages read it.
        force: Score references in a language that a metric's model does not know.
        peers: ``leave-one-out``: every system is scored with the human references and the outputs of the other systems,
            without copies and near copies of its own (:mod:`polyref.metrics.api`). It measures agreement with
            the other systems and ranks none. For 3 systems or more, without ``ks`` and ``test``, with metrics that
            combine references by mean, expected or blend.

    Returns:
        A table: ``print`` shows it, ``.rows`` are plain values, ``.segment`` is the same of single segments, and
        ``.origins()`` says which reference each of these came from. With ``peers``, it has scores of single segments
        alone.

    Raises:
        DataError: Lengths differ, a segment has no reference or source that a metric needs, or the references are
            clearly in a language that a metric's model does not know.
        UsageError: A value is out of range, a name is unknown, something is given that has no use, or added references
            are asked for where there are none.
    """
    outputs = {name: _stripped(texts, f"`systems`[{name!r}]") for name, texts in _named(systems).items()}
    refset = without_trailing_space(as_reference_set(references))
    chosen = named_metrics(metrics, None if target_lang is None else text("target_lang", target_lang))
    trials, seed = None if trials is None else whole("trials", trials, 1), whole("seed", seed)
    if test is not None:
        check_test(text("test", test), systems=len(outputs))
    elif trials is not None or seed != SEED:
        raise UsageError(f"`{'seed' if trials is None else 'trials'}` has no use without `test`", remedy="add `test`")
    if sources is not None:
        check_sources(chosen)
        refset = _with_sources(refset, _stripped(sources, "`sources`"))
    if not len(refset):
        raise DataError("no segment: nothing to score")
    if peers is not None:
        check_leave_one_out(peers, outputs, refset, chosen, ks, test)
    asked = wholes("ks", ks)
    human = any(segment.originals for segment in refset)
    wanted = wanted_ks(asked, max(len(segment.extras) for segment in refset), chosen, human=human)
    for metric in () if force else chosen.values():
        check_language(metric, refset)
    facts = Facts(chosen, wanted)
    facts.add(outputs, refset)
    taken = () if isinstance(references, ReferenceSet) else (*_either_way(refset),)
    if peers is not None:
        own = leave_one_out(outputs, refset)
        of_segments = [
            segment_scores(name, metric, outputs, own, allow_missing=allow_missing) for name, metric in chosen.items()
        ]
        shared = facts.digest.signature(tuple(chosen), [len(outputs) - 1], own[next(iter(own))].meta)
        notes = [CONSENSUS, *taken, *facts.notes(), *notes_of_counts((), 0, of_segments)]
        return ScoreTable(tuple(of_segments), shared, tuple(notes), by_segment=True)
    results = []
    for name, metric in chosen.items():
        stats = metric.statistics(outputs, refset, ks=wanted, allow_missing=allow_missing)
        results += [measured(name, metric, stats, k, test, trials, seed) for k in wanted]
    table = facts.table(results, asked, wanted, refset.meta)
    return replace(table, references=refset, notes=(*taken, *table.notes))


class _Doubts:
    """What to tell a user where BLEU's tokenisers do not fit the texts, which may come in parts."""

    def __init__(self, tokenizers: Collection[str]) -> None:
        self._by_spaces = sorted(_BY_SPACES.intersection(tokenizers))
        self._tokenizes = bool(set(tokenizers) - {"none"})
        self._ends: Counter[str] = Counter()
        self._letters = self._runs = self._others = 0

    def add(self, systems: Mapping[str, Sequence[str]], references: Iterable[Iterable[str]]) -> None:
        """Look at texts; ``references`` are those of every segment."""
        for one in chain.from_iterable(references) if self._by_spaces else ():
            found = _UNSPACED.findall(one)
            own = sum(map(len, found))
            self._letters, self._runs = self._letters + own, self._runs + len(found)
            self._others += len(one) - one.count(" ") - own
        if self._tokenizes:
            for name, texts in systems.items():
                self._ends[name] += sum(text.endswith(" .") for text in texts)

    def found(self) -> Iterator[str]:
        """What there is to tell."""
        # Mostly of a script that has no spaces between words, and not cut into words.
        if self._by_spaces and self._letters > self._others and self._letters > _LONGEST_WORDS * self._runs:
            yield (
                f"the references are written without spaces, so that the tokeniser {' and '.join(self._by_spaces)} of "
                "BLEU takes whole sentences for words: name their language (`target_lang`: zh, ja, ko) or a tokeniser "
                "that fits (`tokenize`: char, flores200)"
            )
        if found := [f"{count} in {name}" for name, count in self._ends.items() if count >= _TOKENISED]:
            told = "look tokenised, but BLEU tokenises by itself: detokenise them"
            yield f"outputs that end in ' .' {told} (lines: {', '.join(found)})"


class Facts:
    """What a table of scores says of outputs and references, which may come in stretches; copies are of ``ks``."""

    def __init__(self, metrics: Mapping[str, Metric], ks: Sequence[int]) -> None:
        self._metrics, used = tuple(metrics), metrics.values()
        self._empty: Counter[str] = Counter()
        self._fewest: int | None = None
        self._human = False
        self._doubts = _Doubts({metric.tokenize for metric in used if hasattr(metric, "tokenize")})
        self._copies = CopyCount(ks) if any(ks) else None
        self.digest = InputsDigest({one.weighed_by for one in used}, any(one.needs_sources for one in used))

    def add(self, systems: Mapping[str, Sequence[str]], references: ReferenceSet) -> None:
        """Look at texts."""
        texts = [[ref.text for ref in segment.refs] for segment in references]
        # Counter.update adds up, and keeps the order of the systems.
        self._empty.update({name: outputs.count("") for name, outputs in systems.items()})
        self._empty.update({"the references": sum(own.count("") for own in texts)})
        fewest = min((len(segment.extras) for segment in references), default=None)
        self._fewest = fewest if self._fewest is None or fewest is None else min(fewest, self._fewest)
        self._human |= any(segment.originals for segment in references)
        self._doubts.add(systems, texts)
        self.digest.add(references)
        if self._copies is not None:
            self._copies.add(references, systems)

    def notes(self) -> list[str]:
        """What to tell of the texts."""
        found = [f"{count} in {name}" for name, count in self._empty.items() if count]
        empty = [f"empty lines are scored as they are: {', '.join(found)}"] if found else []
        return [*empty, *self._doubts.found()]

    def table(
        self, results: Sequence[MetricScores], asked: Sequence[int], wanted: Sequence[int], meta: Mapping[str, Any]
    ) -> ScoreTable:
        """The table.

        Args:
            results: Scores of every metric and k.
            asked: The numbers of extra references that the user named, if any.
            wanted: Those that were scored with.
            meta: Of the reference set.
        """
        notes = [*self.notes(), *notes_of_counts(asked, self._fewest or 0, results, human=self._human)]
        # Where nobody said how many, it is all there are.
        found = [] if self._copies is None else self._copies.found()
        counted = (one if asked else replace(one, k=min(one.k, wanted[-1])) for one in found)
        copies = tuple(one for one in counted if one.k in wanted and one.k)
        return ScoreTable(
            tuple(results), self.digest.signature(self._metrics, wanted, meta), tuple(notes), copies=copies
        )


def wanted_ks(asked: Sequence[int], most: int, metrics: Iterable[str] = (), *, human: bool = True) -> tuple[int, ...]:
    """The numbers of extra references to score with.

    Args:
        asked: What the user asks for; nothing is 0 and all there are, or these alone where no reference is human.
        most: Extra references that a segment has at most.
        metrics: What rows call the metrics; some (``parbleu``) need added references.
        human: Whether there are human references.
    """
    alone = most > 0 and not human
    if alone and 0 in asked:
        remedy = "ask for 1 or more: k counts the references there are from the first"
        raise UsageError("`ks` 0 is the human references alone, and there is no human reference", remedy=remedy)
    wanted = tuple(dict.fromkeys(asked or ((most,) if alone else (0, most))))
    if (named := needs_added(metrics)) and not max(wanted):
        plain = plain_name(named[0].partition("(")[0])
        needs = f"{named[0]} is {plain} with added references"
        if most:
            raise UsageError(f"{needs}, but `ks` is 0", remedy=f"ask for more; or ask for {plain}")
        raise NoAddedReferencesError(
            f"{needs}, but the references have none",
            remedy=f"add paraphrases with polyref augment REFS -k 10 -o SET, and score with SET; or ask for {plain}",
        )
    if max(wanted) and not most:
        raise NoAddedReferencesError(
            f"`ks` asks for {max(wanted)} added references, but the references have none",
            remedy="add paraphrases with polyref augment, and score with what it writes; or ask for 0",
        )
    return wanted


def short_of(k: int, fewest: int) -> list[str]:
    """What to tell a user who asked for ``k`` extra references where a segment has as few as ``fewest``."""
    have = f"only {fewest} extra reference{'s' * (fewest > 1)}" if fewest else "no extra reference"
    return [f"some segments have {have}: `ks` {k} uses what there is"] if k > fewest else []


def notes_of_counts(
    asked: Sequence[int], fewest: int, results: Sequence[MetricScores], *, human: bool = True
) -> Iterator[str]:
    """What to tell where segments have as few as ``fewest`` of those that were asked for, or none that is human."""
    if not human and results[0].scores.k:
        yield NO_HUMAN
    yield from short_of(max(asked, default=0), fewest)
    for k, missing in dict.fromkeys((result.scores.k, result.scores.missing) for result in results):
        if missing:
            total = len(results[0].scores.segments)
            yield f"{missing} of {total} segments have no reference with `ks` {k} and are left out"


def check_language(metric: Metric, references: ReferenceSet) -> None:
    """Refuse human references that are clearly in a language that the metric's model does not know."""
    for said, found in foreign([metric], references):
        remedy = f"`target_lang` {found.code} where the model knows {found.name}, else another model or a metric "
        raise DataError(said, remedy=f"{remedy}without one, such as chrf; or `force`")


def foreign(metrics: Iterable[Metric], references: ReferenceSet) -> Iterator[tuple[str, Language]]:
    """What to say where human references are clearly in a language that a metric's model does not know; and which."""
    for metric in metrics:
        texts = (ref.text for segment in references for ref in segment.originals)
        known = metric.languages if metric.needs_references else ()
        if known and (found := other_language(texts, known)) is not None:
            names = ", ".join(map(language_name, known))
            yield f"the references are {found.name}, but the model of {metric.label} is for {names}", found


def warnings_of(metrics: Iterable[Metric], references: ReferenceSet, asked: int) -> list[str]:
    """What to tell of references of which ``asked`` added ones a segment are to be scored."""
    said = [one for one, _ in foreign(metrics, references)]
    return said + short_of(asked, min(len(segment.extras) for segment in references))


def check_sources(metrics: Mapping[str, Metric]) -> None:
    """Refuse sources that no metric reads."""
    if not any(metric.needs_sources for metric in metrics.values()):
        raise UsageError(f"`sources` is given, but none of `metrics` {' '.join(metrics)} reads it")


def _named(systems: Mapping[str, Sequence[str]] | Sequence[str]) -> Mapping[str, Sequence[str]]:
    return systems if isinstance(systems, Mapping) else {"system": as_texts(systems, "`systems`")}


def _stripped(texts: Sequence[str], name: str) -> list[str]:
    return [text.rstrip() for text in as_texts(texts, name)]


def without_trailing_space(references: ReferenceSet) -> ReferenceSet:
    """The same objects where there is nothing to cut: a large set would be there twice."""
    if not any(ref.text != ref.text.rstrip() for segment in references for ref in segment.refs):
        return references
    segments = (
        replace(segment, refs=tuple(replace(ref, text=ref.text.rstrip()) for ref in segment.refs))
        for segment in references
    )
    return ReferenceSet(tuple(segments), references.meta)


def _either_way(references: ReferenceSet) -> Iterator[str]:
    """What to tell where lists of references could as well be streams: as many texts in each as there are lists."""
    many = len(references)
    if many > 1 and all(len(segment.refs) == many for segment in references):
        yield (
            f"`references` has {many} lists of {many} texts; each was taken for the references of a segment; if each "
            "is a stream, as sacreBLEU has them, give list(zip(*refs))"
        )


def _with_sources(references: ReferenceSet, sources: Sequence[str]) -> ReferenceSet:
    if len(sources) != len(references):
        raise DataError(f"`sources` has {len(sources)} segments, but the references have {len(references)}")
    pairs = zip(references, sources, strict=True)
    return ReferenceSet(tuple(replace(segment, source=text) for segment, text in pairs), references.meta)


# Tokenisers that find words by the spaces between them.
_BY_SPACES: Final = frozenset({"13a", "intl", "none"})
# Scripts written without spaces: Thai, Lao, Tibetan, Burmese, Khmer, Japanese syllables, Chinese characters.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# Words of these scripts are short: where their letters stand in longer runs on average, no spaces set words apart.
_LONGEST_WORDS: Final = 4
# From so many lines that end in " ." on, sacreBLEU takes a text for tokenised.
_TOKENISED: Final = 100
LEAVE_ONE_OUT: Final = "leave-one-out"
#: Two outputs are near copies from this word F1 on: the Dice coefficient of their words, which may stand in any order.
NEAR_COPY: Final = 0.88
#: What a reader has to know of every such score.
CONSENSUS: Final = (
    f"`peers` {LEAVE_ONE_OUT} measures how far outputs agree with those of the other systems (consensus): it ranks no "
    "systems"
)
_COMBINATIONS: Final = (Mean, ExpectedCredit, Blend)


def check_leave_one_out(
    peers: str,
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    metrics: Mapping[str, Metric],
    ks: int | Sequence[int] | None,
    test: str | None,
) -> None:
    """Refuse what leave-one-out cannot do."""
    if peers != LEAVE_ONE_OUT:
        raise UsageError(
            f"`peers` is {peers!r}, expected {LEAVE_ONE_OUT}",
            remedy="polyref augment adds the outputs of systems that are not compared",
        )
    what = f"`peers` {LEAVE_ONE_OUT}"
    if len(systems) < 3:
        raise UsageError(f"{what} needs 3 systems or more, but there are {len(systems)}")
    if test is not None:
        raise UsageError(f"{what} gives scores of segments alone: there is nothing for `{test}` to test")
    if ks is not None:
        raise UsageError(f"{what} takes all other systems as references: `ks` is of no use")
    if any(segment.extras for segment in references):
        raise UsageError(f"{what} adds references to those of people, but `references` has added ones already")
    for name, metric in metrics.items():
        how = metric.combination
        if type(how) not in _COMBINATIONS:
            known = ", ".join(one.name for one in _COMBINATIONS if one in metric.combinations)
            raise UsageError(
                f"{what} is for references that combine by mean, expected or blend, but {name} "
                + (f"combines them by {how.name}" if how else "does not combine any"),
                remedy=f"set `combine` to one of {known}" if known else "leave it out",
            )
    for name, texts in systems.items():
        if len(texts) != len(references):
            raise DataError(f"{name} has {len(texts)} segments, but the references have {len(references)}")


def leave_one_out(systems: Mapping[str, Sequence[str]], references: ReferenceSet) -> dict[str, ReferenceSet]:
    """The references of every system: those of each segment, and the outputs of the other systems.

    What repeats the output that is scored, another reference or nothing is left out, in the sense of the filters
    ``copy``, ``duplicate`` and ``empty``; so are near copies of that output (:data:`NEAR_COPY`).
    """
    words = {name: [ngrams(text, 1) for text in texts] for name, texts in systems.items()}
    meta = {**references.meta, **_provenance(systems)}

    def with_peers(system: str) -> ReferenceSet:
        segments = []
        for place, segment in enumerate(references):
            repeats = Repeats([*(ref.text for ref in segment.refs), systems[system][place]])
            refs = list(segment.refs)
            for other, texts in systems.items():
                text = texts[place]
                near = other == system or dice(words[system][place], words[other][place]) >= NEAR_COPY
                if not near and repeats.reason(text) is None:
                    repeats.take(text)
                    refs.append(Reference(text, "pseudo", generator=other))
            segments.append(replace(segment, refs=tuple(refs)))
        return ReferenceSet(tuple(segments), meta)

    return {system: with_peers(system) for system in systems}


def _provenance(systems: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What the header of such a set says."""
    digest = hashlib.sha256()
    for name, texts in systems.items():
        feed(digest, [name, *texts])
    return {
        "generator": f"{len(systems)} systems|sha:{digest.hexdigest()[:12]}",
        "peers": LEAVE_ONE_OUT,
        "filters": f"near-copy:{NEAR_COPY:g}",
    }


def segment_scores(
    name: str,
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Mapping[str, ReferenceSet],
    *,
    allow_missing: bool = False,
) -> MetricScores:
    """Scores of single segments, each system with its own references of :func:`leave_one_out`; its own score is NaN."""
    names = tuple(systems)
    first = references[names[0]]
    # One after the other as one system: what is loaded is loaded once, and all have one signature.
    joined = ReferenceSet(tuple(chain.from_iterable(references[one] for one in names)), first.meta)
    k = len(names) - 1
    outputs = {"": [*chain.from_iterable(systems.values())]}
    stats = metric.statistics(outputs, joined, ks=[k], allow_missing=allow_missing)
    found = measured(name, metric, stats, k, None, None, 0)
    shape = len(names), len(first)
    unscored, alone = ((counts == 0).reshape(shape).any(axis=0).sum() for counts in (stats.counts(k), stats.extras))
    scores = replace(
        found.scores,
        systems=names,
        segments=tuple(segment.id for segment in first),
        system=np.full(len(names), np.nan),
        segment=found.scores.segment.reshape(shape),
        signature=found.scores.segment_signature,
        missing=int(unscored),
    )
    return replace(
        found,
        scores=scores,
        signature=scores.signature,
        details=[{} for _ in names],
        coverage=(found.coverage[0], int(alone)),
    )
