"""Evaluation sets of any kind, opened for several language pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from polyref.errors import DataError, UsageError
from polyref.eval.data.archive import MetricsTaskArchive, is_archive
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.releases import is_xml, open_release
from polyref.tables import name_as_text

EvaluationSet: TypeAlias = EvalSet | MetricsTaskArchive


def open_sets(
    folders: Sequence[str | Path],
    pairs: Sequence[str],
    collection: str | None = None,
    test_suites: bool = False,
    systems: str | Path | None = None,
) -> list[EvaluationSet]:
    """Every requested pair of every set that has it.

    Args:
        folders: Folders, or files of XML or JSON lines.
        pairs: Language pairs.
        collection: Of the XML releases among them.
        test_suites: Of the XML releases among them.
        systems: Folder of outputs on the test sets in JSON among them.
    """
    for what, values in (("data", folders), ("pairs", pairs)):
        if not values:
            raise UsageError(f"`{what}` is empty, expected at least one")
    of_xml = [folder for folder in folders if any(is_xml(folder, pair) for pair in pairs)]
    if (collection is not None or test_suites) and not of_xml:
        raise UsageError("`collection` and `test_suites` are for XML releases", remedy=f"{folders[0]} is none")
    opened = [
        (folder, pair, _opened(folder, pair, collection, test_suites, systems))
        for folder in dict.fromkeys(folders)
        for pair in dict.fromkeys(pairs)
    ]
    found = [(folder, pair, one) for folder, pair, one in opened if not isinstance(one, DataError)]
    have_pair, have_set = {pair for _, pair, _ in found}, {folder for folder, _, _ in found}
    for folder, pair, one in opened:
        if isinstance(one, DataError) and (pair not in have_pair or folder not in have_set):
            raise one
    # One pair may be asked for under two names.
    return list({(folder, one.pair): one for folder, _, one in found}.values())


def _opened(
    folder: str | Path, pair: str, collection: str | None, test_suites: bool, systems: str | Path | None
) -> EvaluationSet | DataError:
    try:
        if is_archive(folder):
            return MetricsTaskArchive(folder, pair)
        xml = is_xml(folder, pair)
        asked = collection if xml else None
        return open_release(folder, pair, collection=asked, test_suites=test_suites and xml, systems=systems)
    except DataError as error:
        return error


def set_name(evalset: EvaluationSet) -> str:
    """What a set is called: its folder, or its file."""
    return name_as_text(evalset.name)


def filled(pattern: str, evalset: EvaluationSet) -> str:
    """A file name with the set and the language pair put in for ``{set}`` and ``{pair}``."""
    return pattern.replace("{pair}", evalset.pair).replace("{set}", evalset.name)


def check_patterns(files: Sequence[str], sets: Sequence[EvaluationSet], parameter: str) -> None:
    """Refuse one file for several sets or pairs; ``parameter`` is where it was given."""
    for file in files:
        pairs, folders = {one.pair for one in sets}, {(one.directory, one.name) for one in sets}
        if (len(pairs) > 1 and "{pair}" not in file) or (len(folders) > 1 and "{set}" not in file):
            raise UsageError(
                f"one {parameter} file for several sets or language pairs: {file}",
                remedy="write {set} and {pair} where the names differ",
            )
