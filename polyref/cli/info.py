"""``polyref info``: what a model is."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import click

from polyref.cli.printing import HASH, json_object, recalled
from polyref.errors import ModelError
from polyref.tables import shown


@click.command("info")
@click.argument("model", required=False, metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object {signature, rows} on stdout.")
def command(model: str | None, as_json: bool) -> None:
    """Describe a model: family, size, languages, vocabulary, precision, hash, default decoding.

    Also says which generators are installed, which library multiplies matrices on this host's CPU, and why.

    MODEL is what --model takes elsewhere: `shipped`, a model folder (polyref, fairseq, Hugging Face), a hub name, or a
    generator by its name. It can also be the hash of a signature, as `polyref score` and `polyref evaluate` print it:
    then the signature is printed in full.
    """
    model = model or "shipped"
    if (signature := recalled(model)) is not None:
        rows = [{"hash": model, "signature": line} for line in signature.splitlines()]
        click.echo(json_object(signature.splitlines()[0], rows) if as_json else signature)
        return
    if HASH.fullmatch(model) and not Path(model).exists():
        remedy = "score or evaluate again, on this machine"
        raise ModelError("no signature with this hash is kept here", file=model, remedy=remedy)
    from polyref.models.networks.matmul import library_choice
    from polyref.paraphrase.info import properties
    from polyref.paraphrase.loading import generators

    row = properties(model)
    products = library_choice()
    known = generators()
    if as_json:
        row["products"] = {"library": products.library, "reason": products.reason}
        row["generators"] = [{"name": one.name, "summary": one.summary} for one in known]
        click.echo(json_object(row["signature"], [row]))
        return
    lines = _model_lines(row) if "family" in row else [(name, row[name]) for name in ("name", "kind")]
    lines += [
        ("languages", ", ".join(row["languages"]) or "not stated"),
        ("decoding", row["decoding"]),
        ("signature", row["signature"]),
        ("products", f"{products.library} on the CPU ({products.reason})"),
        ("generators", ", ".join(one.name for one in known)),
    ]
    wrapper = textwrap.TextWrapper(100, subsequent_indent=" " * 12, break_on_hyphens=False)
    for name, value in lines:
        wrapper.initial_indent = f"{name:<12}"
        click.echo(wrapper.fill(shown(value)))


def _model_lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """What only models have."""
    source, target = row["source_vocabulary"], row["target_vocabulary"]
    vocabulary = f"{source} tokens" if source == target else f"{source} source, {target} target tokens"
    return [
        ("name", row["name"]),
        ("family", f"{row['kind']}, {row['family']}"),
        ("path", row["path"]),
        ("size", f"{row['parameters'] / 1e6:.1f}M parameters, {row['bytes'] / 1e6:.1f} MB in {row['stored']}"),
        ("layers", f"{row['layers'][0]} + {row['layers'][1]}, width {row['dim']}"),
        ("vocabulary", vocabulary),
        ("longest", f"{row['max_source'] or 'any'} source tokens, {row['max_target'] or 'any'} target tokens"),
        ("hash", row["hash"]),
        ("precision", row["precision"]),
    ]
