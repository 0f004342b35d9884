"""Metrics whose score comes out of a network that was trained on judgements, or out of a model that judges."""

from __future__ import annotations
