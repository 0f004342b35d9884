"""Messages of the library in the words of a command."""

from __future__ import annotations

import click
import pytest

from polyref.cli.commands import in_flags
from polyref.cli.evaluate import command as evaluate
from polyref.cli.score import command as score
from polyref.cli.submit import command as submit


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        (score, "`combine` is 'x' (see `alpha`)", "--combine is 'x' (see --alpha)"),
        (score, "`systems`, `ks`, `sources` and `references`", "-i, -k, --source and REFS..."),
        (score, "`metrics` bleu with `effective_order`", "-m bleu with --effective-order"),
        (evaluate, "`references`, `ref`, `gold`, `pairs`, `exclude`", "--refs, --ref, --gold, -l, --exclude"),
        (evaluate, "`statistics` in `data`", "--statistic in SET_DIR..."),
        (evaluate, "`mqm_weights` without `mqm`", "--mqm-weight without --mqm"),
        (submit, "`ks` 10, `reference`, `metrics`", "-k 10, --reference, -m"),
        # What the command has no option for, and other code, stays as it is.
        (score, "`beam` of `polyref augment` in `X`", "`beam` of `polyref augment` in `X`"),
        (None, "`combine`", "`combine`"),
    ],
)
def test_parameters_become_flags(command: click.Command | None, message: str, shown: str) -> None:
    assert in_flags(message, command) == shown
