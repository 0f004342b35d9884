"""Long texts are paraphrased sentence by sentence, and every sentence goes through the filter as well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from polyref.augment.filters.chain import FilterChain
from polyref.paraphrase.nbest import Hypothesis, NBest
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.sentences import SentenceBySentence, by_sentences


def filtered_sentences(
    paraphraser: Paraphraser, filters: FilterChain, lang: str, mode: str, *, copies: bool = True
) -> Paraphraser:
    """A paraphraser whose paragraphs hold only sentences that pass the checks of a filter, and keep their markup.

    Args:
        paraphraser: Writes the sentences.
        filters: Its checks; measures with a model are for whole texts.
        lang: Language of the texts.
        mode: See :func:`polyref.paraphrase.sentences.by_sentences`.
        copies: Whether a sentence without a paraphrase may be copied.
    """
    made = by_sentences(paraphraser, lang, mode)
    if made is paraphraser and not paraphraser.keeps_markup:
        made = SentenceBySentence(paraphraser, lang, "whole")
    if isinstance(made, SentenceBySentence):
        made.keep, made.copies = lambda nbest: _passing(nbest, filters, copies), copies
        if paraphraser.reload is not None:
            made.reload = partial(_reloaded, paraphraser.reload, filters, lang, mode, copies)
    return made


def _reloaded(
    reload: Callable[[], Paraphraser], filters: FilterChain, lang: str, mode: str, copies: bool
) -> Paraphraser:
    return filtered_sentences(reload(), filters, lang, mode, copies=copies)


def _passing(nbest: NBest, filters: FilterChain, copies: bool) -> list[Hypothesis]:
    offers = filters.start([nbest.text] if copies else [])
    return [one for one in nbest.hypotheses if offers.offer(nbest.text, one.text) is None]
