"""Agreement with human judgements, against the number of references."""

from __future__ import annotations
