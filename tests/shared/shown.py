"""What a page shows is what was printed."""

from __future__ import annotations

import re
from itertools import zip_longest

#: Versions of polyref and of what it stands on say nothing about what a page claims.
VERSION = re.compile(r"(?<=polyref:)[\w.]+|(?<=sacrebleu:)[\w.]+|(?<=version:)[\w.]+|(?<=sentencex=)[\w.]+")
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.])")


def assert_shown(shown: str, printed: str) -> None:
    """Equal, but for versions and for three units in a number's last digit, which differ between processors."""
    for expected, line in zip_longest(*(VERSION.sub("V", text).splitlines() for text in (shown, printed))):
        assert expected is not None, f"printed, but not shown: {line}"
        assert line is not None, f"shown, but not printed: {expected}"
        assert NUMBER.sub("#", expected) == NUMBER.sub("#", line)
        for number, other in zip(NUMBER.findall(expected), NUMBER.findall(line), strict=True):
            unit = 10.0 ** -len(number.partition(".")[2])
            assert abs(float(number) - float(other)) <= 3.5 * unit, f"{expected}\n{line}"


def assert_part(shown: str, printed: str) -> None:
    """The lines shown stand together among those printed."""
    lines, first = printed.splitlines(), VERSION.sub("V", shown.splitlines()[0])
    starts = [n for n, line in enumerate(lines) if NUMBER.sub("#", VERSION.sub("V", line)) == NUMBER.sub("#", first)]
    assert starts, f"not printed: {first}\n{printed}"
    assert_shown(shown, "\n".join(lines[starts[0] : starts[0] + len(shown.splitlines())]))
