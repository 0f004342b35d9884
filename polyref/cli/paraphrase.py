"""``polyref paraphrase``: sentences in, n-best paraphrases out."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from typing import Any

import click

from polyref.cli.files import reading_options, refuse_overwriting
from polyref.cli.generating import (
    GeneratingCommand,
    answers_of,
    generation_options,
    generators_from,
    loading_from,
    note_language,
    summary,
)
from polyref.cli.options import argument_or_option, quiet_option, was_given
from polyref.cli.printing import bars, json_object, tell
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.paraphrase import DiverseBeam, SearchOptions
from polyref.paraphrase.loading import DEFAULT_K, language_of
from polyref.paraphrase.sentences import by_sentences
from polyref.progress import listening
from polyref.publishing import check_writable, write_atomically
from polyref.references import ReferenceSet
from polyref.textfiles import display_name


@click.command("paraphrase", cls=GeneratingCommand)
@click.argument("file", default="-", metavar="[FILE|-]", shell_complete=argument_or_option)
@click.option("-k", "k", type=int, metavar="K", help="Most paraphrases a sentence. [default: 10]")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: stdout]")
@reading_options(sets=False)
@generation_options(sets=False)
@click.option("--lang", metavar="CODE", help="Language of the texts. [default: told by them]")
@click.option("--force", is_flag=True, help="Take text in a language that the model does not write.")
@click.option("--tokens", is_flag=True, help="Add the token ids of every paraphrase.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object {signature, rows}.")
@quiet_option
def command(
    file: str,
    reading: Reading,
    k: int | None,
    output: str,
    loading: dict[str, Any],
    search: dict[str, Any],
    sentences: str,
    rewriting: dict[str, Any],
    lang: str | None,
    tokens: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write n-best paraphrases of sentences, one a line, as JSON lines.

    FILE is plain text, or references in any other form that `polyref augment` reads; of a segment with several, the
    first one is paraphrased.

    Every line is {"id", "text", "paraphrases": [{"text", "score"}]}, best first; scores are length-normalised
    log-probabilities in nats. The shipped model ranks by how surely a paraphrase says the same, and not by scores. An
    empty line keeps its place and gets no paraphrases.

    With any option of the search itself (--semantics to --sampling-epsilon) the list is the engine's own: nothing is
    merged or judged, and scores are what the list is ranked by.
    """
    # Everything that can be refused is refused before the model loads.
    options = loading_from(loading, search["semantics"])
    k, (wanted,) = generators_from(k, DEFAULT_K, loading, search, rewriting, output)
    decoding = wanted.decoding
    if wanted.rewriting is None and search["seed"] is not None and not getattr(decoding, "sampling", False):
        raise UsageError("--seed has no use without --sampling: a search draws nothing", remedy="add --sampling")
    if was_given("sentences") and isinstance(decoding, SearchOptions):
        raise UsageError(
            "--sentences has no use with options of the search itself: its list is taken whole",
            remedy="leave --sentences out, or the options from --semantics to --sampling-epsilon",
        )
    journals = answers_of([wanted])
    refuse_overwriting([file, rewriting["prompt"]], output, journals=journals, models=[loading["model"]])
    check_writable(output)
    name = display_name(file)
    given = ReferenceSet.load(file, form=reading.form, fields=reading.fields, pair=reading.pair, lang=reading.lang)
    language = None
    if lang is None:
        lang, language = language_of(given, [loading["model"]], pair=reading.pair, meta=given.meta, file=name)
    lines = [segment.refs[0].text if segment.refs else "" for segment in given]
    loaded = wanted.load(wanted.options(options, [wanted], len(lines)), lang)
    if not force:
        loaded.check_texts(lines, lang, name)
    if language is not None:
        note_language(name, language)
    # With options of its own, the list of the search is wanted as it is.
    paraphraser = by_sentences(loaded, lang, sentences if isinstance(decoding, DiverseBeam) else "whole")
    paraphraser.prepare(lines, k)
    signature = f"{paraphraser.describe(decoding, k)}|k:{k}"
    rows: list[dict[str, Any]] = []
    empty, truncated, failed = 0, 0, Counter[str]()
    with closing(loaded), listening(bars), write_atomically(output) as out:
        results = paraphraser.paraphrase(lines, k, decoding=decoding, progress=True)
        for number, (segment, nbest) in enumerate(zip(given, results, strict=True), 1):
            empty, truncated = empty + (not nbest.text.strip()), truncated + nbest.truncated
            failed.update((why := {"failed": nbest.failure} if nbest.failure else {}).values())
            found = []
            for hypothesis in nbest.hypotheses:
                item: dict[str, Any] = {"text": hypothesis.text, "score": hypothesis.score}
                item |= {"group": hypothesis.group} if search["nbest_per_group"] else {}
                item |= {"tokens": list(hypothesis.tokens)} if tokens else {}
                found.append(item)
            own = segment.id
            row = {"id": number if own == str(number) else own, "text": nbest.text, "paraphrases": found, **why}
            if as_json:
                rows.append(row)
            else:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        if as_json:
            out.write(json_object(signature, rows) + "\n")
    if several := sum(len(segment.originals) > 1 for segment in given):
        tell("warning", f"{name}: {several} of {len(given)} segments have several references: the first was taken")
    if empty:
        tell("warning", f"{name}: {empty} empty line{'s have' if empty > 1 else ' has'} no paraphrases")
    if truncated:
        text = "1 line is" if truncated == 1 else f"{truncated} lines are"
        tell("warning", f"{name}: {text} longer than the model reads; it saw the beginning")
    for reason, count in sorted(failed.items()):
        tell("warning", f"{name}: {count} line{'s' * (count > 1)} failed and got no paraphrases: {reason}")
    if wanted.rewriting is not None:
        summary(paraphraser, rewriting)
