"""``polyref augment``: references in, reference set with paraphrases out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from polyref.augment.filters import PRESETS, FilterChain, filter_chain
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import OVERGENERATE, Augmentation, Tally
from polyref.augment.writer import augment_file, check_output, journal_path
from polyref.cli.output import json_object, table
from polyref.errors import UsageError
from polyref.paraphrase import DiverseBeam, load_paraphraser


@click.command(context_settings={"show_default": True})
@click.argument("references", nargs=-1, required=True, metavar="REFS...")
@click.option("-k", type=click.IntRange(min=1), default=10, help="Paraphrases a segment.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where the reference set goes; - is stdout.")
@click.option("--model", default="shipped", metavar="NAME|DIR", help="The paraphraser.")
@click.option("--beam", type=int, help="Beam, over all groups.  [default: from the groups]")
@click.option("--groups", type=int, help="Groups of the diverse beam search.  [default: from k]")
@click.option("--strength", type=float, default=DiverseBeam.strength, help="Diversity strength.")
@click.option("--closeness", type=int, help="0 (free) to 3 (near copies).  [default: the model's]")
@click.option("--seed", type=int, help="Recorded in the header; beam search draws no random numbers.")
@click.option("--filter", "preset", type=click.Choice(PRESETS), default="default", help="What may become a reference.")
@click.option("--lang", default="en", metavar="CODE", help="Language of the references.")
@click.option("--device", default="cpu", help="Device of the model.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the model.  [default: all cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout (needs -o).")
def command(
    references: tuple[str, ...],
    k: int,
    output: str,
    model: str,
    beam: int | None,
    groups: int | None,
    strength: float,
    closeness: int | None,
    seed: int | None,
    preset: str,
    lang: str,
    device: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Add paraphrases to a set of references.

    REFS is one or more plain text files with one segment a line (several are several human references), - for
    stdin, or a reference set as this command writes it. The result is JSONL, one segment a line.

    A run with -o that was interrupted is taken up where it stopped by the same command: until it is done, finished
    work lies in FILE.partial.
    """
    if as_json and output == "-":
        raise UsageError("--json prints the summary on stdout, where the reference set goes", remedy="name a file: -o")
    _refuse_overwriting(references, output)
    decoding = DiverseBeam(beam=beam, groups=groups, strength=strength, closeness=closeness)
    decoding.resolve(OVERGENERATE * k)  # complains before any work
    chain = filter_chain(preset, lang)
    check_output(output)
    with Inputs(references) as inputs:
        work = Augmentation(load_paraphraser(model, device=device, threads=threads), k, chain, decoding, lang, seed)
        tally = _run(inputs, output, work)
    _report(tally, chain, k)
    if as_json:
        click.echo(json_object(work.meta(inputs.meta, inputs.files), [summary(tally, chain)]))


def _refuse_overwriting(references: tuple[str, ...], output: str) -> None:
    target = Path(output)
    for path in references:
        if output != "-" and path != "-" and target.exists() and Path(path).exists() and target.samefile(path):
            raise UsageError(f"{output} is also an input", remedy="choose another output")


def _run(inputs: Inputs, output: str, work: Augmentation) -> Tally:
    with tqdm(total=inputs.length, desc="augmenting", unit="seg") as bar:

        def resumed(segments: int) -> None:
            tqdm.write(f"polyref: {segments} segments are finished in {journal_path(output)}: going on", sys.stderr)
            bar.update(segments)

        return augment_file(inputs, output, work, resumed=resumed, advance=bar.update)


def summary(tally: Tally, chain: FilterChain) -> dict[str, Any]:
    """The counts of a run, as one flat row."""
    return {
        "segments": tally.segments,
        "references": tally.references,
        "candidates": tally.candidates,
        "kept": tally.kept,
        "dropped": {reason: tally.dropped[reason] for reason in chain.reasons},
        "short": tally.short,
        "empty": tally.empty,
        "truncated": tally.truncated,
    }


def _report(tally: Tally, chain: FilterChain, k: int) -> None:
    """For people, on stderr."""
    total = max(tally.candidates, 1)
    rows = [("kept", tally.kept), *((f"dropped: {reason}", tally.dropped[reason]) for reason in chain.reasons)]
    lines = [[name, str(count), f"{100 * count / total:.1f}"] for name, count in rows]
    click.echo(table(["candidates", "count", "%"], lines), err=True)
    if tally.empty:
        click.echo(f"polyref: warning: {tally.empty} empty references: kept, without paraphrases", err=True)
    if tally.truncated:
        click.echo(
            f"polyref: warning: {tally.truncated} references are longer than the model reads: kept whole, "
            "paraphrased from their beginning only",
            err=True,
        )
    if tally.short:
        click.echo(f"polyref: {tally.short} of {tally.segments} segments got fewer than {k} paraphrases", err=True)
