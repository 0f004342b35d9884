"""Training ESIM, whose scoring is in polyref itself."""

from __future__ import annotations
