"""What waits for the disk, and when: contents of synced files, and renames between them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

import pytest

from polyref import publishing

FOLDER = "the folder"
RENAMED = "renamed"


def dealings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled from now on: what a file held when ``os.fsync`` was called for it, or FOLDER; and RENAMED."""
    seen: list[str] = []

    def fsync(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        seen.append(FOLDER if folder else os.pread(handle, 1 << 20, 0).decode())

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def rename(*places: Any) -> Any:
            seen.append(RENAMED)
            return call(*places)

        return rename

    def swapped(*places: Any, real: Callable[..., bool] = publishing._swapped) -> bool:
        found = real(*places)
        seen.extend([RENAMED] * found)
        return found

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", noted(os.rename))
    monkeypatch.setattr(os, "replace", noted(os.replace))
    monkeypatch.setattr(publishing, "_swapped", swapped)
    return seen
