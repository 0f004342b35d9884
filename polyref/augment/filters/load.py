"""A filter by its name, or from its file; and what ``default`` is for the generators of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from polyref.augment.filters.chain import FilterChain
from polyref.augment.filters.presets import PRESETS, preset_checks
from polyref.errors import UsageError


def filter_chain(
    name: str = "default",
    lang: str = "en",
    need: str = "small-model",
    *,
    models: bool = True,
    source_lang: str | None = None,
) -> FilterChain:
    """The chain with a name, or that of a TOML file (:mod:`polyref.augment.filters.file`).

    ``none`` drops copies and duplicates alone. ``good-writer`` also drops what is certainly no rewrite: refusals and
    explanations, several answers in one, another script or language, absurd lengths, other markup.
    ``small-model`` also drops changed numbers and links, broken sentences, loops and outliers of length; for English,
    candidates with other amounts, dates, names or persons, without the negation or with a new one, with an opening,
    wording or word that is no English, that say a content word again or leave out too many. ``strict`` is tighter on
    length, negation and content words. ``default`` is what a generator needs.

    Translations are compared with their source: numbers, names, markup, language and length.

    Args:
        name: One of ``PRESETS``, or the path of a file.
        lang: Language code of the references; only its first part counts (``en-GB`` is English).
        need: What ``default`` stands for, one of :data:`polyref.augment.filters.presets.NEEDS`.
        models: Load the models that a file names; where not, its filters with models are left out.
        source_lang: Language code of the sources, where candidates are translations of these.

    Raises:
        UsageError: There is no such preset and no such file, or a file is given for translations.
        DataError: The file is not understood.
    """
    name = need if name == "default" else name
    if name in PRESETS:
        rules = preset_checks(name, lang, source_lang).values()
        stated = "+".join(rule.name for rule in rules if rule.stated)
        label = name if source_lang is None else f"{name}(of translations)"
        return FilterChain(f"{label}:{stated}" if stated else label, tuple(rules))
    if not (name.endswith(".toml") or Path(name).is_file()):
        raise UsageError(f"there is no filter {name!r}, expected one of {', '.join(PRESETS)}, or a TOML file")
    if source_lang is not None:
        remedy = f"name one of {', '.join(PRESETS)}"
        raise UsageError(f"the filter {name} compares with references, but translations have none", remedy=remedy)
    from polyref.augment.filters.file import read_filter

    return read_filter(name, lang, need, models=models)


def fitting_chain(name: str, lang: str, needs: Mapping[str, str], source_lang: str | None = None) -> FilterChain:
    """The chain with a name, for candidates of certain needs: ``default`` is for each what it needs, and says why.

    Args:
        name: As for :func:`filter_chain`.
        lang: As there.
        needs: As :attr:`polyref.augment.sources.Source.needs`.
        source_lang: As there.
    """
    chains = {
        need: filter_chain(name, lang, need, models=number == 0, source_lang=source_lang)
        for number, need in enumerate(sorted(needs))
    }
    if name == "default":
        for need, chain in chains.items():
            chains[need] = replace(chain, name=chain.name.replace(need, f"{need}(for {needs[need]})", 1))
    first = next(iter(chains.values()))
    if len({tuple(check.name for check in chain.checks) for chain in chains.values()}) == 1:
        return first
    return replace(first, name=" + ".join(chain.name for chain in chains.values()), by_need=chains)


def filters_in(name: str, needs: Mapping[str, str]) -> dict[str, str]:
    """Which filters hold in a run, each with why: what asks for it, or ``--filter``."""
    return dict(sorted(needs.items())) if name == "default" else {name: "--filter"}
