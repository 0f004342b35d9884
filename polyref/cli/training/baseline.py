"""``polyref train baseline``: what BERTScore gives unrelated texts, by layer, for one encoder and language."""

from __future__ import annotations

import click

from polyref.cli.options.threads import threads_option
from polyref.cli.printing import bars
from polyref.errors import UsageError
from polyref.progress import listening
from polyref.tables import shown
from polyref.textfiles import check_writable, read_lines


@click.command("baseline", short_help="Compute a baseline file, which rescales BERTScore.")
@click.option(
    "--model", default="shipped", show_default=True, metavar="MODEL", help="shipped, minilm, a folder or a hub name."
)
@click.option("--texts", required=True, metavar="FILE", help="Texts of one language, one a line; - for stdin.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: standard output]")
@click.option("--pairs", default=10000, show_default=True, type=click.IntRange(min=1), help="Most random pairs.")
@click.option("--words", default=31, show_default=True, type=click.IntRange(min=1), help="Most words of a text.")
@click.option("--seed", default=12345, show_default=True, type=click.IntRange(min=0), help="Of the pairs.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="Where to compute.")
@threads_option
def command(model: str, texts: str, output: str, pairs: int, words: int, seed: int, device: str) -> None:
    """Compute a baseline file, which rescales BERTScore.

    Texts are paired at random, as bert_score does it, and the mean precision, recall and F of every layer are written
    in bert_score's format. Any texts of the language will do, if they have nothing to do with each other: news, say.
    Nothing is drawn twice; texts of more than --words words are left out, as are repeated and empty ones.

    \b
    polyref train baseline --model minilm --texts news.en -o minilm.en.tsv
    polyref score refs.en -i sys.en -m bertscore --bertscore-model minilm --bertscore-rescale minilm.en.tsv
    """  # noqa: D301
    check_writable(output)
    lines = [line for line in read_lines(texts) if len(line.split()) <= words]
    if not lines:
        raise UsageError(f"no text has {words} words or fewer", remedy="raise --words")
    from polyref.metrics.embedding.baseline import compute_baseline, write_baseline
    from polyref.metrics.embedding.encoders.load import load_encoder

    encoder = load_encoder(model, device)
    with listening(bars):
        values = compute_baseline(encoder, lines, pairs=pairs, seed=seed)
    write_baseline(output, values)
    used = min(pairs, len(dict.fromkeys(text for text in map(str.strip, lines) if text)) // 2)
    made_by = shown(f"{encoder.name} ({encoder.digest[:12]})")
    click.echo(f"polyref: {used} pairs, {made_by}, layers 0 to {encoder.layers}, seed {seed}", err=True)
