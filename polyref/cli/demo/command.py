"""``polyref demo``: the main job on the example texts in the package, by the commands a user would type."""

from __future__ import annotations

import json
import webbrowser

import click

from polyref.cli import augment, score
from polyref.cli.demo.folder import DROPPED, KS, MADE, METRICS, PAGE, SCORES, K, demo_folder
from polyref.cli.demo.screen import screen
from polyref.cli.options.quiet import silence
from polyref.cli.printing import tell
from polyref.eval.inspection.inspection import inspect
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines


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
@click.option("--open", "show", is_flag=True, help="Show a page about the references and paraphrases in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as one JSON object on stdout.")
@click.pass_context
def command(ctx: click.Context, output: str, model: str, threads: int | None, show: bool, as_json: bool) -> None:
    """Run the main job on the example texts that come with polyref.

    Copies 12 references and the outputs of two imaginary systems to DIR, adds up to three paraphrases to each reference
    with the shipped model, scores both systems without and with them, and shows what changed and why.
    """
    folder = demo_folder(output)
    refs, made, scores = folder / "refs.en", folder / MADE, folder / SCORES
    systems = (str(folder / "sysA.en"), str(folder / "sysB.en"))
    silence(1)  # only the commands and the screen at the end
    _announce("augment", refs, "-k", K, "-o", made, "--dropped", folder / DROPPED)
    ctx.invoke(
        augment.command,
        references=(str(refs),),
        k=K,
        output=str(made),
        dropped=str(folder / DROPPED),
        model=(model,),
        threads=threads,
    )
    silence(2)  # the screen says how many paraphrases there are
    _announce("score", made, "-i", *systems, "-m", *METRICS, "-k", *KS, "--json", "-o", scores)
    ctx.invoke(
        score.command,
        references=(str(made),),
        inputs=systems,
        metrics=METRICS,
        ks=KS,
        as_json=True,
        output=str(scores),
    )
    silence(0)
    if show:
        page = folder / PAGE
        inspect(ReferenceSet.load(made), name=MADE, dropped=folder / DROPPED).save(page)
        if not webbrowser.open(page.resolve().as_uri()):
            tell("note", f"no browser can be opened here: the page is {page}")
    if as_json:
        click.echo(scores.read_text("utf-8"), nl=False)
        return
    dropped = [json.loads(line)["reason"] for line in read_lines(folder / DROPPED, allow_empty_file=True)]
    outputs = [read_lines(path) for path in systems]
    rows = json.loads(scores.read_text("utf-8"))["rows"]
    click.echo(screen(ReferenceSet.load(made), outputs, rows, dropped, folder))


def _announce(*words: object) -> None:
    click.echo(f"$ polyref {' '.join(map(str, words))}", err=True)
