"""``polyref demo``: the main job on the example texts in the package, by the commands a user would type."""

from __future__ import annotations

import hashlib
import json
import os
import re
import webbrowser
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import click

from polyref.cli import augment, score
from polyref.cli.printing import silence, tell
from polyref.errors import DataError, UsageError
from polyref.eval.inspection.inspection import inspect
from polyref.json_files import try_json
from polyref.paraphrase.loading import DEFAULT_MODELS
from polyref.publishing import check_writable, write_atomically
from polyref.references import ReferenceSet
from polyref.tables import text_table
from polyref.textfiles import read_lines

EXAMPLES = ("refs.en", "sysA.en", "sysB.en", "README.md")
#: What the demo makes of them.
MADE, DROPPED, SCORES, PAGE = "refs.polyref.jsonl", "dropped.jsonl", "scores.json", "refs.html"
#: The first paraphrases are the best.
K = 3
KS = (0, K)
METRICS = ("bleu", "chrf++")
RIGHT, WRONG = "sysA.en", "sysB.en"


def demo_folder(output: str) -> Path:
    """Make the folder and put the example texts there; refuse one where a file of their names is not the demo's."""
    folder = Path(output)
    packaged = {name: (files("polyref") / "examples" / name).read_bytes() for name in EXAMPLES}
    there = [name for name in EXAMPLES if os.path.lexists(folder / name)]
    theirs = [name for name in there if _read(folder / name) != packaged[name]]
    made = _made_here(_read(folder / MADE), packaged["refs.en"])
    ours = {MADE: made, DROPPED: made, PAGE: made, SCORES: _scored_here(_read(folder / SCORES))}
    for name, is_ours in ours.items():
        if os.path.lexists(folder / name) and not (len(there) == len(EXAMPLES) and is_ours):
            theirs.append(name)
    if theirs:
        raise UsageError(f"{folder / theirs[0]} is there and not of this demo", remedy="choose another folder: -o")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror}", file=output, remedy="choose another folder: -o") from None
    check_writable(folder / MADE)
    for name, content in packaged.items():
        if name not in there:
            with write_atomically(folder / name) as target:
                target.write(content.decode("utf-8"))
    return folder


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _made_here(content: bytes | None, references: bytes) -> bool:
    """Whether a reference set says that it was made of the example references, with as many paraphrases."""
    try:
        meta = (try_json((content or b"").partition(b"\n")[0]) or {})["meta"]
        digest = hashlib.sha256(references).hexdigest()
        return bool(meta["inputs"] == [{"name": "refs.en", "sha256": digest}] and meta["k"] == K)
    except (ValueError, KeyError, TypeError):
        return False


def _scored_here(content: bytes | None) -> bool:
    """Whether scores are of the example systems, with the demo's metrics and numbers of references."""
    try:
        rows = (try_json(content or b"") or {})["rows"]
        found = {(row["system"], row["metric"], row["k"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        return False
    return found == {(system, metric, k) for system in (RIGHT, WRONG) for metric in METRICS for k in KS}


def screen(
    references: ReferenceSet,
    outputs: Sequence[Sequence[str]],
    rows: Sequence[Mapping[str, Any]],
    dropped: Sequence[str],
) -> str:
    """References with a paraphrase, the scores, what changed and why, what to try next.

    Args:
        references: With the paraphrases.
        outputs: Lines of the right system, then of the wrong one.
        rows: The scores.
        dropped: The reasons for which candidates were dropped, one a candidate.
    """
    added = sum(len(segment.extras) for segment in references)
    reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(dropped).most_common(4))
    told = f" ({len(dropped)} more were dropped: {reasons}{' ...' * (len(set(dropped)) > 4)})" if dropped else ""
    written = [*islice((row for row in zip(references, *outputs, strict=True) if row[0].extras), 3)]
    some = ("None", "One", "Two", "Three")[len(written)]
    made = f"{added} paraphrase{'s' * (added != 1)}"
    parts = [f"{len(references)} references and {made}{told}. {some} of the references:"]
    for segment, right, wrong in written:
        words = _words(right)
        # The one that the output has most words in common with, and so most to thank for.
        nearest = max((ref.text for ref in segment.extras), key=lambda one: (_words(one) & words).total())
        parts += [f"reference   {segment.originals[0].text}", f"paraphrase  {nearest}"]
        parts += [f"sysA right  {right}", f"sysB wrong  {wrong}\n"]
    columns = dict.fromkeys((row["name"], row["k"]) for row in rows)
    cells = {(row["system"], row["name"], row["k"]): f"{row['score']:.1f}" for row in rows}
    header = ["system", *(name if k == 0 else f"{name} k={k}" for name, k in columns)]
    named = ((RIGHT, "right, in other words"), (WRONG, "wrong, in the reference's words"))
    table = [[f"{system} ({what})", *(cells[(system, *column)] for column in columns)] for system, what in named]
    bleu = {(row["system"], row["k"]): float(row["score"]) for row in rows if row["metric"] == "bleu"}
    before, after = (bleu[WRONG, k] - bleu[RIGHT, k] for k in (0, K))
    gain, other = (bleu[system, K] - bleu[system, 0] for system in (RIGHT, WRONG))
    lead = f"still leads, by {after:.1f}" if after > 0 else "no longer leads"
    parts += [
        f"{text_table(header, table)}\n",
        f"With one reference, the wrong system leads by {before:.1f} BLEU: it repeats the reference.\n"
        f"The paraphrases add {gain:.1f} to the right system and {other:.1f} to the wrong one. It {lead}.",
        "All texts were written before the model read them: an illustration, no evidence that it helps elsewhere.\n",
        "Try next: texts of your own; a better writer (--model openai:NAME, README); --open for a page.",
        "  polyref augment YOUR-REFERENCES -k 10 -o refs.polyref.jsonl",
        "  polyref score refs.polyref.jsonl -i YOUR-OUTPUTS -m bleu chrf++",
    ]
    return "\n".join(parts)


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


@click.command("demo")
@click.option(
    "-o",
    "--output",
    default="polyref-demo",
    show_default=True,
    metavar="DIR",
    help="Where the files go; made if need be.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    default=DEFAULT_MODELS,
    show_default=True,
    metavar="NAME|DIR",
    help="What writes the paraphrases.",
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads. [default: torch's]")
@click.option("--open", "show", is_flag=True, help="Show a page about the references and paraphrases in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as one JSON object on stdout.")
@click.pass_context
def command(
    ctx: click.Context, output: str, models: tuple[str, ...], threads: int | None, show: bool, as_json: bool
) -> None:
    """Run the main job on the example texts that come with polyref.

    Copies 12 references and the outputs of two imaginary systems to DIR, adds up to three paraphrases to each reference
    with the small model and the table of the package, scores both systems without and with them, and shows what changed
    and why.
    """
    folder = demo_folder(output)
    refs, made, scores = folder / "refs.en", folder / MADE, folder / SCORES
    systems = (str(folder / RIGHT), str(folder / WRONG))
    silence(1)  # only the commands and the screen at the end
    asked = [] if models == DEFAULT_MODELS else [word for model in models for word in ("--model", model)]
    asked += [] if threads is None else ["--threads", str(threads)]
    _announce("augment", refs, "-k", K, *asked, "-o", made, "--dropped", folder / DROPPED)
    ctx.invoke(
        augment.command,
        references=(str(refs),),
        k=K,
        output=str(made),
        dropped=str(folder / DROPPED),
        model=models,
        threads=threads,
    )
    silence(2)  # the screen says how many paraphrases there are
    _announce("score", made, "-i", *systems, "-m", *METRICS, "-k", *KS, "--json", "-o", scores)
    ctx.invoke(
        score.command, references=(str(made),), inputs=systems, metrics=METRICS, ks=KS, as_json=True, output=str(scores)
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
    click.echo(screen(ReferenceSet.load(made), outputs, rows, dropped))


def _announce(*words: object) -> None:
    click.echo(f"$ polyref {' '.join(map(str, words))}", err=True)
