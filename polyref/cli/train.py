"""``polyref train``: what can be trained or computed once and used again."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

# Command -> (module, name in it, one line of help). Imported on use, as in `polyref.cli.main`.
TRAININGS: Final[dict[str, tuple[str, str, str]]] = {
    "baseline": ("polyref.cli.train_baseline", "command", "Compute a baseline file, which rescales BERTScore."),
    "esim": ("polyref.cli.train_esim", "command", "ESIM, from judgements or relative rankings."),
}


class _Trainings(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TRAININGS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in TRAININGS:
            return None
        module, attribute, _ = TRAININGS[cmd_name]
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in TRAININGS.items()])


@click.group(cls=_Trainings, short_help="Train a metric, or compute what one needs.")
def command() -> None:
    """Train a metric's model, or compute what a metric needs, from your own texts and judgements."""
