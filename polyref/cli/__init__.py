"""The command line: one file a command; the only place that prints, exits or reads ``sys.argv``."""

from __future__ import annotations
