"""Whether tests take all the time there is: POLYREF_THOROUGH=1, before a release.

Without it the slowest tests take a part of their texts, systems or trials; each says which.
"""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = bool(os.environ.get("POLYREF_THOROUGH"))
