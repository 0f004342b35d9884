"""Files of one kind written as another: one module for each command of ``polyref convert``."""

from __future__ import annotations
