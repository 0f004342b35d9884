"""Makes ``rule_paraphraser`` importable: pytest's import mode leaves the folder of a test off the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
