"""``polyref demo``: the main job on the example texts in the package, by the commands a user would type."""

from __future__ import annotations

import json
from typing import Any

import click

from polyref.cli import augment, score
from polyref.cli.demo.folder import EXAMPLES, KS, METRICS, K, demo_folder
from polyref.tables import text_table


@click.command("demo")
@click.option(
    "-o",
    "--output",
    default="polyref-demo",
    show_default=True,
    metavar="DIR",
    help="Where the files go; made if need be.",
)
@click.option("--model", default="shipped", show_default=True, metavar="NAME|DIR", help="The paraphraser.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads. [default: torch's]")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as one JSON object on stdout.")
@click.pass_context
def command(ctx: click.Context, output: str, model: str, threads: int | None, as_json: bool) -> None:
    """Run the main job on the example texts that come with polyref.

    Copies 30 references and the outputs of two imaginary systems to DIR, adds ten paraphrases to each reference with
    the shipped model, and scores both systems with 0, 1, 5 and 10 of them.
    """
    folder = demo_folder(output)
    refs, made, scores = folder / "refs.en", folder / "refs.polyref.jsonl", folder / "scores.json"
    systems = (str(folder / "sysA.en"), str(folder / "sysB.en"))
    _announce("augment", refs, "-k", K, "-o", made)
    ctx.invoke(
        augment.command, references=(str(refs),), k=K, output=str(made), model=model, threads=threads, quiet=as_json
    )
    _announce("score", made, "-i", *systems, "-m", *METRICS, "-k", *KS, "--json", "-o", scores)
    ctx.invoke(
        score.command, references=(str(made),), inputs=systems, metrics=METRICS, ks=KS, as_json=True, output=str(scores)
    )
    if as_json:
        click.echo(scores.read_text("utf-8"), nl=False)
    else:
        click.echo(_table(json.loads(scores.read_text("utf-8"))["rows"]))
        click.echo("\nsysA says the same in other words; sysB is closer in wording, and wrong in every line.\n")
    click.echo(f"References with paraphrases: {made}", err=as_json)
    click.echo(f"Scores with their signatures: {scores}", err=as_json)
    click.echo(f"Texts: {', '.join(str(folder / name) for name in EXAMPLES)}", err=as_json)


def _table(rows: list[dict[str, Any]]) -> str:
    """One line a system, one column a metric and k."""
    systems = dict.fromkeys(row["system"] for row in rows)
    columns = dict.fromkeys((row["name"], row["k"]) for row in rows)
    cells = {(row["system"], row["name"], row["k"]): f"{row['score']:.1f}" for row in rows}
    header = ["system", *(name if k == 0 else f"{name} k={k}" for name, k in columns)]
    return text_table(header, [[system, *(cells[(system, *column)] for column in columns)] for system in systems])


def _announce(*words: object) -> None:
    click.echo(f"$ polyref {' '.join(map(str, words))}", err=True)
