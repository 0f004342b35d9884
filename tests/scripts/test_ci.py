"""What CI says of skipped tests: a list says which may be, and anything else fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SKIPS = REPOSITORY / ".ci" / "skips"
EXPECTED = "SKIPPED [1] tests/models/test_forced.py:80: no CUDA device\n"


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        ("= 9 passed in 1 s =\n", 0, "nothing was skipped"),
        (EXPECTED, 0, "skipped   1 tests/models/test_forced.py: no CUDA device"),
        (EXPECTED * 2, 1, "2 skipped, at most 1 expected: tests/models/test_forced.py: no CUDA device"),
        (EXPECTED.replace("[1]", "[9]"), 1, "9 skipped, at most 1 expected"),
        ("SKIPPED [3] tests/metrics/test_native.py:117: no C\n", 1, "3 skipped, at most 0 expected"),
        ("SKIPPED [1] tests/engines/test_ray.py: Ray is not installed\n", 1, "1 skipped, at most 0 expected"),
    ],
)
def test_skipped_tests(log: str, code: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    done = subprocess.run([sys.executable, str(SKIPS), str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "") and said in done.stdout


def test_what_may_be_skipped_is_there() -> None:
    for line in (SKIPS.parent / "skipped.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            most, file, reason = line.split("\t")
            files = [REPOSITORY / file] if file != "*" else list((REPOSITORY / "tests").rglob("*.py"))
            assert int(most) > 0 and any(reason in path.read_text("utf-8") for path in files), line
