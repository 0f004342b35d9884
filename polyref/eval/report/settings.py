"""How a report came about."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from polyref import __version__
from polyref.eval.report import plots
from polyref.eval.statistics.base import Bootstrap

_PACKAGES: Final = ("numpy", "scipy", "sacrebleu")


@dataclass(frozen=True)
class Settings:
    """Every choice behind a report.

    Attributes:
        options: Name -> value of every option, defaults included; plain JSON values.
        bootstrap: How intervals were made.
        correction: How p-values were corrected for their number, or None.
        baseline: Metric that gains are measured from, or None: each metric's own k = 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    correction: str | None = None
    baseline: str | None = None

    def described(self) -> dict[str, Any]:
        """The options, then the versions of what computed the numbers; nothing depends on time or place."""
        versions = {"polyref": __version__, "python": platform.python_version()}
        packages = [*_PACKAGES, "matplotlib"] if plots.available() else _PACKAGES
        versions.update({name: version(name) for name in packages})
        return {**self.options, **{f"version of {name}": value for name, value in versions.items()}}
