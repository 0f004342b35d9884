"""From references to augmented reference sets."""

from __future__ import annotations
