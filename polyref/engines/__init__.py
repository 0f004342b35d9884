"""Where work is done: processes of this machine, or the workers of a Ray cluster."""

from __future__ import annotations
