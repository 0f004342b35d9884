"""Where ``polyref augment`` takes candidates from, by its options: generators, lists or peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import click

from polyref.augment.filters import PRESETS, names_models
from polyref.augment.inputs import Inputs, Untranslated
from polyref.augment.language import language_of
from polyref.augment.lists import open_lists, open_peers
from polyref.augment.pipeline import OVERGENERATE
from polyref.augment.sources import Generated, Several, Source
from polyref.cli.commands import was_given
from polyref.cli.options.generation import loading_from
from polyref.cli.options.rewriting import rewritings_from
from polyref.cli.options.search import decoding_from
from polyref.cli.printing import tell
from polyref.errors import UsageError
from polyref.languages import split_pair
from polyref.models.device import use_threads
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.references import ReferenceSet

_DEFAULT_K: Final = 10


@dataclass(frozen=True)
class Origin:
    """Where candidates come from, as the options say it.

    Attributes:
        candidates: Files of lists.
        peers: Files of systems' outputs.
    """

    candidates: tuple[str, ...]
    peers: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """What is read."""
        return (*self.candidates, *self.peers)

    @property
    def without_generator(self) -> str | None:
        """The option because of which no generator is loaded that is not named; None where there is none."""
        named = [f"--{name}" for name in ("peers", "candidates") if getattr(self, name)]
        if len(named) > 1:
            raise UsageError(f"{named[0]} and {named[1]} exclude each other", remedy="leave one of them out")
        if "leave-one-out" in self.peers:
            raise UsageError(
                "--peers leave-one-out would give every system references of its own, which no set can hold; and it "
                "measures consensus among the systems compared, and does not rank them",
                remedy="name systems that are not compared; polyref score --sentence --peers leave-one-out is for "
                "segments alone",
            )
        return named[0] if named else None

    def wanted(self, k: int | None) -> int:
        """Paraphrases a segment, where -k is not given as well."""
        if k is not None and k < 1:
            raise UsageError(f"-k is {k}, expected 1 or more paraphrases a segment")
        return (len(self.peers) or _DEFAULT_K) if k is None else k


#: Loads a paraphraser by name, with options of loading.
Load = Callable[..., Paraphraser]


def generators_from(
    origin: Origin,
    k: int,
    loading: Mapping[str, Any],
    search: Mapping[str, Any],
    rewriting: Mapping[str, Any],
    output: str,
) -> list[Callable[[Load], Source]]:
    """The generators that the options ask for, checked before anything is loaded.

    Args:
        origin: Where candidates come from: with files, no generator is loaded that is not named.
        k: Paraphrases a segment.
        loading: Values of the options of loading.
        search: Values of the options of the search.
        rewriting: Values of the options of language models.
        output: Where the set goes: the answers of language models go beside it.

    Returns:
        One function a generator, which loads it.
    """
    without = origin.without_generator
    if without and not (origin.candidates and was_given("model")):
        context = click.get_current_context()
        for option in context.command.params:
            names = {*loading, *search, *rewriting, "sentences"}
            # A filter may have networks: that is known when it is read.
            if option.name in names - {"threads"} and was_given(option.name or ""):
                flag = max(option.opts, key=len)
                raise UsageError(f"{flag} has no use: {without} loads no generator", remedy="leave it out")
        return []
    options = loading_from(dict(loading), search["semantics"])
    made = []
    models = loading["model"]
    asked = OVERGENERATE * k
    for name, how in zip(models, rewritings_from(models, rewriting, output), strict=True):
        own = dict(search)
        rewritten = how(own)
        _, decoding = decoding_from(asked, own, loading["backend"])
        made.append(_generator(name, {**options, "rewriting": rewritten}, asked, decoding))
    return made


def _generator(name: str, options: Mapping[str, Any], asked: int, decoding: Any) -> Callable[[Load], Source]:
    return lambda load: Generated(load(name, **options), asked, decoding)


def source_from(
    origin: Origin,
    references: Inputs,
    generators: Sequence[Callable[[Load], Source]],
    load: Load,
    stack: ExitStack,
    pair: str | None = None,
) -> Source:
    """Where candidates come from: the generators, then the files, which ``stack`` closes; ``pair`` is theirs, too."""
    if origin.peers:
        return open_peers(origin.peers, references, stack)
    # Before any model: it takes less time to find out that they do not fit.
    lists = open_lists(origin.candidates, references, stack, pair)
    sources = [*(generator(load) for generator in generators), *lists]
    return sources[0] if len(sources) == 1 else Several(sources)


def use_filter_threads(threads: int | None, preset: str, origin: Origin, generators: Sequence[Any]) -> tuple[str, ...]:
    """Let the networks of a filter compute with so many threads; refuse them where nothing has a network.

    Returns:
        The options of loading that the filter has a use for.
    """
    if threads is None:
        return ()
    if preset not in PRESETS and names_models(preset):
        use_threads(threads)
        return ("threads",)
    if not generators:
        without = f"{origin.without_generator} loads no generator, and the filter has no network"
        raise UsageError(f"`threads` has no use: {without}", remedy="leave it out")
    return ()


def told_language(
    lang: str | None, references: Inputs | ReferenceSet, generators: Sequence[str], pair: str | None, file: str
) -> tuple[str, Callable[[], None]]:
    """The language of references, and what says to the user how it was told, where no option names it."""
    if lang is not None:
        return lang, lambda: None
    segments = references.segments() if isinstance(references, Inputs) else references
    code, told = language_of(segments, generators, pair=pair, meta=references.meta, file=file)
    if told is None:
        return code, lambda: None
    note = f"{file}: taken for {told.name}; --lang {code} says so, or names another language"
    return code, lambda: tell("note", note)


def languages_from(
    lang: str | None, inputs: Inputs, generators: Sequence[str], pair: str | None
) -> tuple[str, str | None, Callable[[], None]]:
    """As :func:`told_language`; in the middle, where sources are translated, the language of these."""
    source_lang = None
    if isinstance(inputs, Untranslated):
        if (languages := split_pair(pair or "")) is None:
            raise UsageError(
                f"{inputs.names[0]} has no human reference, and no languages to translate sources between are named",
                remedy="-l SOURCE-TARGET, such as -l en-de",
            )
        source_lang = languages[0]
    language, note = told_language(lang, inputs, generators, pair, inputs.names[0])
    return language, source_lang, note
