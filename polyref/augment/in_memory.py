"""``augment``: references in memory in, reference set with paraphrases out, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from polyref.augment.filters import FilterChain, filter_chain, fitting_chain
from polyref.augment.inputs import Given, translatable
from polyref.augment.language import check_sources, language_of
from polyref.augment.lists import as_lists, open_lists
from polyref.augment.pipeline import OVERGENERATE, Augmentation, Tally, filtered_sentences
from polyref.augment.selection import Dropped, Select, selection
from polyref.augment.sources import Generated, Several, Source
from polyref.errors import DataError, UsageError
from polyref.paraphrase.decoding import Decoding
from polyref.paraphrase.loading import load_paraphraser
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.references import ReferenceSet, Segment, as_reference_set


def augment(
    references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]],
    paraphraser: Paraphraser | str | Path | Sequence[Paraphraser | str | Path] | None = None,
    k: int = 10,
    *,
    candidates: str
    | Path
    | ReferenceSet
    | Sequence[Sequence[str | None]]
    | Sequence[str | Path | ReferenceSet | Sequence[Sequence[str | None]]] = (),
    filters: FilterChain | str = "default",
    select: Select | str = "rank",
    decoding: Decoding | None = None,
    sentences: str = "long",
    lang: str | None = None,
    source_lang: str | None = None,
    progress: bool = False,
    tally: Tally | None = None,
    dropped: list[Dropped] | None = None,
    force: bool = False,
) -> ReferenceSet:
    """Add up to ``k`` paraphrases to every segment.

    Args:
        references: A set (what it holds already is kept, new references follow); or a list with the one reference of
            every segment; or a list with the list of every segment's references.
        paraphraser: As :func:`polyref.load_paraphraser` gives it, or what that function takes: a name or a path. Or
            several, which take turns. None is the shipped model, or nothing where there are ``candidates``.
        k: Paraphrases a segment, at least 1; ``OVERGENERATE`` times as many candidates are made.
        candidates: Lists that were made elsewhere: a file in any form that holds paraphrases, a set, or the list of
            every segment's candidates, best first; or several of these, which take turns with one another and with the
            paraphrasers (plain text files are one list, one candidate a file). They are matched to the references by
            id, or by place where they have no ids of their own.
        filters: A chain, or the name of one (:func:`polyref.augment.filters.filter_chain`); ``default`` is what
            each paraphraser and list needs.
        select: Which k of what passes the filter, or the name of a way (:func:`polyref.augment.selection.selection`).
        decoding: How to search; None is the paraphraser's default.
        sentences: Which texts are paraphrased sentence by sentence: "long" (where the paraphraser writes single
            sentences), "all" or "whole" (none). See :class:`polyref.paraphrase.sentences.SentenceBySentence`.
        lang: Language of the references: chooses the checks of a chain that is given by name, and what a model that is
            given by name writes. None: what the set's header records, what the generators write, or what the texts are
            clearly in.
        source_lang: Where no segment has a human reference: language of their sources, which are translated into
            ``lang``. The translations become references of the kind ``translation``.
        progress: Show a bar on stderr.
        tally: Counts what happened to the candidates, if given.
        dropped: The candidates that the filter refused are added here with their reasons, if given.
        force: Take references in a language that the model does not write.

    Returns:
        A ragged set: a segment has fewer than ``k`` new references where fewer survived, none where it is empty.

    Raises:
        UsageError: ``references`` is one string, ``k`` is below 1, ``paraphraser`` is an empty list, or there is no
            such filter or way to select; or ``candidates`` is no list, or a segment's are no list of texts.
        ModelError: ``paraphraser`` names no model.
        DataError: ``candidates`` are broken, or do not fit to the references. The human references are clearly in
            another language than the one that is to be written, or nobody names their language and they are too few or
            too mixed to tell.
    """
    before = as_reference_set(references)
    if source_lang is not None:
        _check_untranslated(before, lang)
    given = as_lists(candidates)
    if paraphraser is None:
        paraphraser = () if given else "shipped"
    several = [paraphraser] if isinstance(paraphraser, (Paraphraser, str, Path)) else list(paraphraser)
    if not several and not given:
        raise UsageError("`paraphraser` is an empty list, expected at least one")
    if lang is None:
        lang, _ = language_of(before, several, meta=before.meta)
    if isinstance(filters, str):
        filter_chain(filters, lang, models=False, source_lang=source_lang)  # refused before anything is loaded
    chosen = selection(select) if isinstance(select, str) else select
    if k < 1:
        raise UsageError(f"`k` is {k}, expected 1 or more paraphrases a segment")
    held = Given(before)
    asked = before.segments if source_lang is None else tuple(translatable(before))
    with ExitStack() as stack:
        # Before any model: it takes less time to find out that they do not fit.
        texts = held if source_lang is None else Given(ReferenceSet(asked))
        lists = open_lists(given, texts, stack)
        sources: list[Source] = []
        for one in several:
            loaded = one
            if not isinstance(loaded, Paraphraser):
                loaded = load_paraphraser(loaded, lang=lang, source_lang=source_lang)
            if not force and source_lang is not None:
                check_sources((segment.source or "" for segment in before), source_lang)
            elif not force:
                loaded.check_texts((ref.text for segment in before for ref in segment.originals), lang)
            own = filters
            if isinstance(own, str):
                own = filter_chain(own, lang, loaded.need, models=False, source_lang=source_lang)
            written = filtered_sentences(loaded, own, source_lang or lang, sentences, copies=source_lang is None)
            sources.append(Generated(written, OVERGENERATE * k, decoding))
        sources += lists
        source = sources[0] if len(sources) == 1 else Several(sources)
        chain = fitting_chain(filters, lang, source.needs, source_lang) if isinstance(filters, str) else filters
        source.prepare(asked)
        work = Augmentation(source, k, chain, lang, select=chosen, source_lang=source_lang)
        segments: list[Segment] = []
        for shard in work.shards(asked, total=len(before), progress=progress):
            segments += shard.segments
            if tally is not None:
                tally.add(shard.tally)
            if dropped is not None:
                dropped += shard.dropped
    return ReferenceSet(tuple(segments), work.meta(before.meta, held.files))


def _check_untranslated(references: ReferenceSet, lang: str | None) -> None:
    """Refuse a set of which no translations can be made."""
    if lang is None:
        raise UsageError("`source_lang` is given, but no language to translate into", remedy="`lang`")
    for segment in references:
        if segment.originals:
            raise UsageError(
                f"`source_lang` is given, but segment {segment.id} has a human reference, which is paraphrased",
                remedy="leave it out; or take the human references out of the set",
            )
        if segment.source is None:
            raise DataError(f"segment {segment.id} has no source, which is to be translated")
