"""Reference sets written in the forms that others read, and what those cannot hold."""

from __future__ import annotations
