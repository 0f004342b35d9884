"""``polyref train``: what can be trained or computed once and used again."""

from __future__ import annotations

from typing import Final

import click

from polyref.cli.parsing.lazy import LazyGroup

# Command -> its module, one line of help.
TRAININGS: Final[dict[str, tuple[str, str]]] = {
    "baseline": ("polyref.cli.training.baseline", "Compute a baseline file, which rescales BERTScore."),
    "esim": ("polyref.cli.training.esim", "ESIM, from judgements or relative rankings."),
}


@click.group(cls=LazyGroup, commands_in=TRAININGS, short_help="Train a metric, or compute what one needs.")
def command() -> None:
    """Train a metric's model, or compute what a metric needs, from your own texts and judgements."""
