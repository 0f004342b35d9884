"""What a reference set holds: counts, diversity, scores, refusals and examples, for a terminal and as a page."""

from __future__ import annotations
