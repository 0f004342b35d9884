"""``polyref convert model``: a fairseq checkpoint written for Transformers."""

from __future__ import annotations

from pathlib import Path

import click

from polyref.cli.options.threads import threads_option
from polyref.cli.printing import json_object
from polyref.tables import shown


@click.command("model")
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Load what was written with Transformers and compare its scores with the original's.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object {signature, rows} on stdout.")
@threads_option
def command(source: Path, target: Path, check: bool, as_json: bool) -> None:
    """Write a fairseq checkpoint as a Hugging Face directory.

    SRC holds checkpoint.pt, dict.src.txt, dict.tgt.txt and spm.model (Prism's m39v1 is one). OUT is made; Transformers
    loads it with AutoModelForSeq2SeqLM and AutoTokenizer, and gives the same scores. Checkpoints that no class of
    Transformers computes exactly are refused.
    """
    from polyref.models.checkpoints.convert import convert_to_huggingface

    done = convert_to_huggingface(source, target, check=check)
    if as_json:
        row = {
            "source": str(done.source),
            "target": str(done.target),
            "architecture": done.architecture,
            "tensors": done.tensors,
            "difference": done.difference,
        }
        click.echo(json_object(None, [row]))
        return
    checked = "not checked" if done.difference is None else f"log-probabilities within {done.difference:.1e} nats"
    click.echo(shown(f"{done.target}: {done.architecture}, {done.tensors} tensors, {checked}"))
