"""``polyref cache``: what is kept of networks' work between runs."""

from __future__ import annotations

import shutil

import click

from polyref.cache import Cache, sets_folder
from polyref.cli.printing import json_object


@click.group("cache")
def command() -> None:
    """Show or clear the cache: n-best lists of paraphrasers, token vectors and forced scores of neural metrics.

    It lies in ~/.cache/polyref, or $POLYREF_CACHE. It changes no result: what it lacks is computed again. Commands that
    run at the same time share it.

    Beside it, in the folder sets, lie the reference sets that `polyref score --model` made, and the answers of language
    models that they are made of. No limit removes them, but `clear` does.
    """


@command.command("info")
@click.option("--json", "as_json", is_flag=True, help="One JSON object {signature, rows} on stdout.")
def info(as_json: bool) -> None:
    """Where the cache is, how much it holds, and how much it may hold."""
    cache = Cache()
    known = cache.summary()  # opens it
    row = {"folder": str(cache.folder), **known, "sets": _size_of_sets()}
    if as_json:
        click.echo(json_object("cache", [row]))
        return
    click.echo(f"folder   {row['folder']}\nentries  {row['entries']}")
    click.echo(f"size     {_gigabytes(row['bytes'])} of {_gigabytes(row['limit'])}")
    click.echo(f"sets     {_gigabytes(row['sets'])}")


@command.command("clear")
def clear() -> None:
    """Remove everything from the cache, and the reference sets and answers beside it."""
    cache = Cache()
    freed = cache.summary()["bytes"] + _size_of_sets()
    cache.clear()
    shutil.rmtree(sets_folder(), ignore_errors=True)
    click.echo(f"removed {_gigabytes(freed)}")


@command.command("limit")
@click.argument("gigabytes", type=click.FloatRange(min=0))
def limit(gigabytes: float) -> None:
    """Set how much the cache may hold, for this and all later runs.

    $POLYREF_CACHE_LIMIT goes before it. The least recently used entries are removed first.
    """
    cache = Cache()
    cache.keep(gigabytes)
    click.echo(f"holds {_gigabytes(cache.summary()['bytes'])} of {_gigabytes(round(gigabytes * 1e9))}")


def _size_of_sets() -> int:
    """Bytes of all files beside the cache."""
    return sum(file.stat().st_size for file in sets_folder().rglob("*") if file.is_file())


def _gigabytes(size: object) -> str:
    return f"{int(str(size)) / 1e9:.3f} GB"
