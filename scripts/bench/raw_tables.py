"""Raw tables of docs/benchmarks: CSV files that the scripts beside this module write.

It needs nothing but Python, because some scripts run parts of themselves in interpreters without polyref.
"""

from __future__ import annotations

import csv
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

#: Columns of every table of times. Rows from before there were such columns have nothing there.
MACHINE: Final = ("versions", "processor")
#: Units of processors that times depend on.
_UNITS: Final = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_tile")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    unfinished.replace(path)


def update(path: Path, columns: Sequence[str], key: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the rows of a table that were measured again, and append the new ones; ``key`` tells them apart."""
    table = {tuple(row[column] for column in key): row for row in read(path)}
    table |= {tuple(str(row[column]) for column in key): row for row in rows}
    write(path, columns, table.values())


def measured_with(*packages: str) -> dict[str, str]:
    """The columns ``MACHINE``: the packages' versions and Python's, and the processor with its number of cores."""
    named = [*(f"{package} {version(package)}" for package in packages), f"Python {platform.python_version()}"]
    return dict(zip(MACHINE, (", ".join(named), processor()), strict=True))


def processor() -> str:
    """Its name, family and model, its units, and the number of cores."""
    info, cores = Path("/proc/cpuinfo"), f"{os.cpu_count()} cores"
    if not info.is_file():
        return f"{platform.machine()}, {cores}"
    found = dict(re.findall(r"^(model name|cpu family|model|flags)\s*: (.*)$", info.read_text("utf-8"), re.MULTILINE))
    units = ", ".join(name for name in _UNITS if name in found["flags"].split())
    return f"{found['model name']} (family {found['cpu family']}, model {found['model']}; {units}), {cores}"
