"""Compute a baseline file, which rescales BERTScore: what it gives unrelated texts, for one encoder and language.

python scripts/bertscore_baseline.py --model minilm --texts news.en -o minilm.en.tsv
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import numpy as np

from polyref.cli.options import threads_option
from polyref.cli.printing import bars
from polyref.errors import DataError, PolyrefError
from polyref.metrics.embedding.bertscore import HEADER, Side, match
from polyref.metrics.statistics import Floats
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import Encoder, load_encoder
from polyref.progress import listening
from polyref.publishing import check_writable, write_atomically
from polyref.tables import shown
from polyref.textfiles import read_lines

#: Pairs that are scored together.
_PAIRS: Final = 256


@click.command("bertscore_baseline.py")
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
    python scripts/bertscore_baseline.py --model minilm --texts news.en -o minilm.en.tsv
    polyref score refs.en -i sys.en -m bertscore --bertscore-model minilm --bertscore-rescale minilm.en.tsv
    """
    try:
        check_writable(output)
        lines = [line for line in read_lines(texts) if len(line.split()) <= words]
        if not lines:
            raise click.UsageError(f"no text has {words} words or fewer: raise --words")
        encoder = load_encoder(model, device)
        with listening(bars):
            values = compute_baseline(encoder, lines, pairs=pairs, seed=seed)
        write_baseline(output, values)
        used = min(pairs, len(dict.fromkeys(text for text in map(str.strip, lines) if text)) // 2)
        made_by = shown(f"{encoder.name} ({encoder.digest[:12]})")
        click.echo(f"{used} pairs, {made_by}, layers 0 to {encoder.layers}, seed {seed}", err=True)
    except PolyrefError as error:
        click.echo(f"error: {shown(str(error))}", err=True)
        sys.exit(error.exit_code)


def write_baseline(path: str | Path, values: Floats) -> None:
    """Write a baseline file; ``values`` are of shape (layers + 1, 3)."""
    with write_atomically(path) as stream:
        stream.write(",".join(HEADER) + "\n")
        stream.writelines(f"{layer},{','.join(f'{value:.8f}' for value in row)}\n" for layer, row in enumerate(values))


def compute_baseline(encoder: Encoder, texts: Sequence[str], *, pairs: int, seed: int) -> Floats:
    """Mean BERTScore of random pairs, for every layer, as bert_score's ``get_rescale_baseline.py`` has it.

    Args:
        encoder: The encoder.
        texts: Texts of one language, the more the better; bert_score takes sentences of fewer than 32 words from the
            web or the news, a million of them. Empty and repeated ones are left out.
        pairs: How many pairs at most; no text is in two of them.
        seed: Of the draw.

    Returns:
        Shape (layers + 1, 3): precision, recall and F.

    Raises:
        DataError: There are fewer than two different texts.
    """
    distinct = [text for text in dict.fromkeys(text.strip() for text in texts) if text]
    if len(distinct) < 2:
        raise DataError(f"{len(distinct)} different texts, expected two or more")
    count = min(pairs, len(distinct) // 2)
    drawn = np.random.default_rng(seed).permutation(len(distinct))[: 2 * count]
    # Pairs of similar size together, which batches well; the mean does not mind the order.
    couples = sorted(
        ((distinct[a], distinct[b]) for a, b in drawn.reshape(2, count).T), key=lambda pair: len(pair[0] + pair[1])
    )
    layers = range(encoder.layers + 1)
    embeddings = Embeddings(encoder, layers, memory=0)
    sums = np.zeros((len(layers), 3))
    for start in range(0, count, _PAIRS):
        block = couples[start : start + _PAIRS]
        flat = [text for pair in block for text in pair]
        tokens = embeddings.tokens(flat)
        vectors = embeddings.encode(flat, tokens)
        for layer in layers:
            sides = [Side.of(array[layer], entry, None) for array, entry in zip(vectors, tokens, strict=True)]
            for output, reference in zip(sides[::2], sides[1::2], strict=True):
                sums[layer] += match([output], [reference])[0, 0, 0]
    return sums / count


if __name__ == "__main__":
    command()
