"""Models that answer requests in words: who is asked, how patiently, and where answers are kept (imports no torch)."""

from __future__ import annotations
