"""``plan``: how references are augmented, by options, for the command line and Python alike; ``augment`` does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyref.augment.candidates import Dropped, Generated, Select, Several, Source, selection
from polyref.augment.filters import PRESETS, FilterChain, filter_chain, fitting_chain, names_models
from polyref.augment.inputs import Given, Rows, check_sources, in_context, translatable
from polyref.augment.lists import as_lists, open_lists, open_peers
from polyref.augment.pipeline import OVERGENERATE, Augmentation, Tally, filtered_sentences
from polyref.errors import DataError, UsageError
from polyref.languages import split_pair
from polyref.models.device import use_threads
from polyref.paraphrase.decoding import Decoding
from polyref.paraphrase.loading import DEFAULT_K, DEFAULT_MODELS, Loading, Wanted, is_language_model, language_of
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.references import ReferenceSet, Segment, as_reference_set

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from polyref.engine import Engine
    from polyref.models.language_recognition import Language


@dataclass(frozen=True)
class AugmentOptions:
    """What an augmentation depends on beside the references and the generators.

    Attributes:
        k: Paraphrases a segment; None is all peers, or 10.
        filters: A chain, or the name of one.
        select: Which k of what passes, or the name of a way to choose.
        sentences: Which texts are paraphrased sentence by sentence.
        lang: Language of the references; None: told by them.
        source_lang: Language of the sources, where these are translated.
        pair: Language pair of files with several.
        candidates: Lists that were made elsewhere.
        peers: Files with the outputs of systems.
        seed: For the record.
        force: Take text in a language that the model does not write.
        loading: With which options generators are loaded.
        engine: Where shards are augmented; None: here.
    """

    k: int | None = None
    filters: FilterChain | str = "default"
    select: Select | str = "rank"
    sentences: str = "long"
    lang: str | None = None
    source_lang: str | None = None
    pair: str | None = None
    candidates: Sequence[str | Path | ReferenceSet] = ()
    peers: Sequence[str | Path] = ()
    seed: int | None = None
    force: bool = False
    loading: Loading = field(default_factory=Loading)
    engine: Engine | None = None

    def __post_init__(self) -> None:
        if self.peers and self.candidates:
            raise UsageError("`peers` and `candidates` exclude each other", remedy="leave one of them out")
        if "leave-one-out" in self.peers:
            raise UsageError(
                "`peers` leave-one-out would give every system references of its own, which no set can hold; and it "
                "measures consensus among the systems compared, and does not rank them",
                remedy="name systems that are not compared; polyref score --sentence --peers leave-one-out is for "
                "segments alone",
            )
        if self.k is not None and self.k < 1:
            raise UsageError(f"`k` is {self.k}, expected 1 or more paraphrases a segment")
        if isinstance(self.select, str):
            object.__setattr__(self, "select", selection(self.select))

    @property
    def without_generator(self) -> str | None:
        """The option because of which no generator is loaded that is not named; None where there is none."""
        return "`peers`" if self.peers else "`candidates`" if self.candidates else None

    @property
    def wanted(self) -> int:
        """Paraphrases a segment."""
        return (len(self.peers) or DEFAULT_K) if self.k is None else self.k

    @property
    def asked(self) -> int:
        """Candidates a reference."""
        return OVERGENERATE * self.wanted


def plan(
    references: Rows,
    generators: Sequence[Wanted],
    options: AugmentOptions,
    stack: ExitStack,
    told: Callable[[Language], object] = lambda language: None,
) -> Augmentation:
    """How references are augmented. What can be refused is refused before a model is loaded.

    Args:
        references: All of them.
        generators: What writes candidates, in the order in which they take turns.
        options: Everything else.
        stack: Closes what is opened and loaded.
        told: Called with the language of the references, where nothing names it.
    """
    lang, source_lang, language = options.lang, options.source_lang, None
    if references.untranslated and source_lang is None:
        if (languages := split_pair(options.pair or "")) is None:
            raise UsageError(
                f"{references.file} has no human reference, and no languages to translate sources between are named",
                remedy="-l SOURCE-TARGET, such as -l en-de",
            )
        source_lang = languages[0]
    if lang is None:
        models = [one.model for one in generators]
        facts: dict[str, Any] = {"pair": options.pair, "meta": references.meta, "file": references.file}
        lang, language = language_of(references.segments(), models, **facts)
    filters = options.filters
    if isinstance(filters, str):
        filter_chain(filters, lang, models=False, source_lang=source_lang)
    also = _threads_of_filter(options, generators)
    # Before any model: it takes less time to find out that they do not fit.
    lists = [open_peers(options.peers, references, stack)] if options.peers else []
    if options.candidates:
        lists += open_lists(options.candidates, references, stack, options.pair)
    sources: list[Source] = []
    for one in generators:
        own_options = one.options(options.loading, generators, len(references), options.engine, also)
        loaded = one.load(own_options, lang, source_lang)
        if loaded is not one.model:
            stack.callback(loaded.close)
        if not options.force:
            texts = (ref.text for segment in references.segments() for ref in segment.originals)
            if source_lang is None:
                loaded.check_texts(texts, lang, references.file)
            else:
                check_sources(texts, source_lang, references.file)
        own = filters
        if isinstance(own, str):
            own = filter_chain(own, lang, loaded.need, models=False, source_lang=source_lang)
        written = filtered_sentences(loaded, own, source_lang or lang, options.sentences, copies=source_lang is None)
        idle = not one.searches and any(other.searches for other in generators)
        sources.append(Generated(written, options.asked, None if idle else one.decoding))
    sources += lists
    source = sources[0] if len(sources) == 1 else Several(sources)
    chain = fitting_chain(filters, lang, source.needs, source_lang) if isinstance(filters, str) else filters
    if language is not None:
        told(language)
    # What moves sums in their last digits, as given: on one machine the defaults stay the same.
    given = {name: options.loading.get(name) for name in ("memory", "threads", "device")}
    arithmetic = {name: value for name, value in given.items() if value not in (None, "cpu")}
    chosen: Any = options.select
    return Augmentation(source, options.wanted, chain, lang, options.seed, chosen, arithmetic, source_lang)


def _threads_of_filter(options: AugmentOptions, generators: Sequence[Wanted]) -> tuple[str, ...]:
    """Let the networks of a filter compute with so many threads; the options of loading that it has a use for."""
    threads, filters = options.loading.get("threads"), options.filters
    if threads is None:
        return ()
    if isinstance(filters, str) and filters not in PRESETS and names_models(filters):
        use_threads(threads)
        return ("threads",)
    if not generators:
        without = f"{options.without_generator} loads no generator, and the filter has no network"
        raise UsageError(f"`threads` has no use: {without}", remedy="leave it out")
    return ()


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
    rewriting: RewritingOptions | None = None,
    sentences: str = "long",
    lang: str | None = None,
    source_lang: str | None = None,
    progress: bool = False,
    tally: Tally | None = None,
    dropped: list[Dropped] | None = None,
    force: bool = False,
    **loading: Unpack[Loading],
) -> ReferenceSet:
    """Add up to ``k`` paraphrases to every segment.

    Args:
        references: A set (what it holds already is kept, new references follow); or a list with the one reference of
            every segment; or a list with the list of every segment's references.
        paraphraser: As :func:`polyref.load_paraphraser` gives it, or what that function takes: a name or a path. Or
            several, which take turns. None is ``lexical`` and ``shipped``, or nothing where there are ``candidates``.
        k: Paraphrases a segment, at least 1; ``OVERGENERATE`` times as many candidates are made.
        candidates: Lists that were made elsewhere: a file in any form that holds paraphrases, a set, or the list of
            every segment's candidates, best first; or several of these, which take turns with one another and with the
            paraphrasers (plain text files are one list, one candidate a file). They are matched to the references by
            id, or by place where they have no ids of their own.
        filters: A chain, or the name of one (:func:`polyref.augment.filters.filter_chain`); ``default`` is what
            each paraphraser and list needs.
        select: Which k of what passes the filter, or the name of a way (:func:`polyref.augment.candidates.selection`).
        decoding: How to search; None is the paraphraser's default.
        rewriting: How language models that are given by name are asked. They are shown the sources that the references
            have, and as many neighbours as ``context`` says.
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
        loading: Options of :func:`polyref.load_paraphraser` for models that are given by name: ``device``, ``dtype``,
            ``threads``, ``jobs``, ``memory``, ``cache``, ``prefix``, ``prism_a``, ``prism_b``, ``backend``. What some
            models have no use for is kept from these.

    Returns:
        A ragged set: a segment has fewer than ``k`` new references where fewer survived, none where it is empty.

    Raises:
        UsageError: ``references`` is one string, ``k`` is below 1, ``paraphraser`` is an empty list, or there is no
            such filter or way to select; or ``candidates`` is no list, or a segment's are no list of texts; or an
            option has no use for the models.
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
        paraphraser = () if given else DEFAULT_MODELS
    models = [paraphraser] if isinstance(paraphraser, (Paraphraser, str, Path)) else list(paraphraser)
    if not models and not given:
        raise UsageError("`paraphraser` is an empty list, expected at least one")
    if loading and all(isinstance(one, Paraphraser) for one in models):
        raise UsageError(f"`{next(iter(loading))}` is given, but no model is loaded by name", remedy="leave it out")
    if rewriting is not None and not any(map(is_language_model, models)):
        raise UsageError("`rewriting` is given, but no language model by name", remedy="openai:NAME, or chat:DIR")
    wanted = [Wanted(one, decoding, rewriting if is_language_model(one) else None) for one in models]
    options = AugmentOptions(
        k, filters, select, sentences, lang, source_lang, candidates=given, force=force, loading=loading
    )
    held = Given(before)
    asked, shown = before.segments, held
    if source_lang is not None:
        asked = tuple(translatable(before, rewriting.context if rewriting else 0))
        shown = Given(ReferenceSet(asked, before.meta))
    elif rewriting is not None:
        asked = tuple(in_context(before, rewriting.context))
    segments: list[Segment] = []
    with ExitStack() as stack:
        work = plan(shown, wanted, options, stack)
        work.source.prepare(asked)
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
