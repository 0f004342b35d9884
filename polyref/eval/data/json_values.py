"""JSON from files of others: whatever is in it, the fault is named with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polyref.errors import DataError


def json_value(text: str, path: str | Path, line: int) -> Any:
    """Read one JSON value."""
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeEncodeError:
        raise DataError("broken JSON: half of a surrogate pair, which is no text", file=path, line=line) from None
    except json.JSONDecodeError as error:
        raise DataError(f"broken JSON: {error.msg}", file=path, line=line) from None
    except RecursionError:
        raise DataError("broken JSON: nested too deep", file=path, line=line) from None
    except ValueError:  # Python reads no whole number of more than 4300 digits.
        raise DataError("broken JSON: a number of too many digits", file=path, line=line) from None


def json_object(text: str, path: str | Path, line: int) -> dict[str, Any]:
    """Read one JSON object."""
    value = json_value(text, path, line)
    if not isinstance(value, dict):
        raise DataError("expected a JSON object", file=path, line=line)
    return value
