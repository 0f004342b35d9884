"""Files on other file systems, by their URL."""

from __future__ import annotations
