"""Train ESIM, from judgements or relative rankings.

python scripts/esim/train.py judgements.jsonl -o my-esim/
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from polyref.cli.commands import in_flags
from polyref.cli.options import HeadedCommand
from polyref.errors import PolyrefError, UsageError
from polyref.tables import shown


@click.command("train.py", cls=HeadedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILES...", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Model folder.")
@click.option(
    "--valid",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Validation data, of the same kind. [default: some references of FILES are held out]",
)
@click.option("--hold-out", default=0.1, show_default=True, metavar="SHARE", help="Share of references held out.")
@click.option(
    "--encoder",
    default="shipped",
    show_default=True,
    metavar="NAME|DIR",
    help="The frozen encoder: shipped, minilm, a folder or a hub name.",
)
@click.option("--layers", metavar="L,L,...", help="Its layers to mix, such as 2,4,6. [default: all]")
@click.option("--lowercase", is_flag=True, help="Lowercase the texts first.")
@click.option("--hidden", default=300, show_default=True, metavar="H", help="Size of the LSTMs' states.")
@click.option("--dropout", default=0.5, show_default=True, metavar="P")
@click.option("--rate", default=4e-4, show_default=True, metavar="LR", help="Learning rate at the start.")
@click.option("--batch", default=32, show_default=True, metavar="N", help="Pairs of texts in a batch.")
@click.option("--epochs", default=75, show_default=True, metavar="N", help="Most passes over the data.")
@click.option(
    "--patience", default=4, show_default=True, metavar="N", help="Epochs without improvement before it stops."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Of weights, dropout and order.")
@click.option("--device", default="cpu", show_default=True, help="Where the encoder runs.")
@click.option(
    "--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads; their number is part of the result."
)
@click.option("--name", metavar="NAME", help="Name of the model in signatures. [default: that of DIR]")
@click.option("--quiet", is_flag=True, help="No progress bars; figures and warnings stay.")
def command(
    files: tuple[Path, ...],
    output: Path,
    valid: tuple[Path, ...],
    hold_out: float,
    encoder: str,
    layers: str | None,
    lowercase: bool,
    hidden: int,
    dropout: float,
    rate: float,
    batch: int,
    epochs: int,
    patience: int,
    seed: int,
    device: str,
    threads: int | None,
    name: str | None,
    quiet: bool,
) -> None:
    """Train ESIM and write a model that `polyref score -m esim --esim-model DIR` reads.

    FILES are JSON lines of one kind: judgements {"ref", "sys", "score"}, with "annotator" where it is known, or
    relative rankings {"ref", "better", "worse"}. Whole references are held out for validation. The epoch with the best
    Pearson's r (judgements) or Kendall's tau (rankings) is kept.

    A run that was interrupted is taken up where it stopped by the same command: until it is done, its state lies in
    DIR.partial. The same data and options give the same bytes.
    """
    sys.path.append(str(Path(__file__).parents[1]))
    from esim.run import EsimRun, train_esim
    from esim.state import TrainingOptions

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    try:
        run = EsimRun(
            files=files,
            valid=valid,
            hold_out=hold_out,
            encoder=encoder,
            layers=_layers(layers),
            lowercase=lowercase,
            device=device,
            name=name,
            options=TrainingOptions(hidden, dropout, rate, batch, epochs, patience, seed=seed),
        )
        train_esim(run, output, say=lambda line: click.echo(shown(line), err=True), progress=not quiet)
        click.echo(shown(str(output)))
    except PolyrefError as error:
        click.echo(f"error: {shown(in_flags(str(error), click.get_current_context().command))}", err=True)
        sys.exit(error.exit_code)


def _layers(given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        return tuple(int(layer) for layer in given.split(","))
    except ValueError:
        raise UsageError(f"--layers {given!r}, expected numbers with commas between them, such as 2,4,6") from None


if __name__ == "__main__":
    command()
