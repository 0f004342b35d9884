"""Test sets as WMT and its tools write them."""

from __future__ import annotations
