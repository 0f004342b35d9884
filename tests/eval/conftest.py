from __future__ import annotations

import shutil
from pathlib import Path

import pytest

MINIMAL = Path(__file__).resolve().parent / "minimal"


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    """A private copy of the small evaluation set: de-en, five segments, three systems and a scored reference."""
    return Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))
