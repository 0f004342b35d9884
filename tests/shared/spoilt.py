"""Files of which a part is spoilt at random."""

from __future__ import annotations

import gzip
import io
import random
import zipfile

#: Put in the place of a part of a file.
PARTS = (
    b"", b"0", b"-1", b"1e999", b"9" * 400, b"9" * 4301, b"[" * 3000, b'{"a":' * 3000, b"null", b"true", b'"', b"{",
    b"}", b"[", b"]", b",", b":", b"\n", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"NaN",
    b"-Infinity", b"=", b"[x]", b"\t", b"1970-01-01", "\u2028".encode(), b"<s>", b"LAYER", b"None", b"nan", b" ", b"::",
    b"1_0", "\u0663".encode(), b"\r", b"<seg>", b"&x;", b"<!DOCTYPE x>", b"-0", b"1e-320", b"\x1f\x8b", b"PK\x03\x04",
    b"Alpha", b"refA", b"de-en", b"#dup", b"False", b"tutorial", b"\\\\", b"\x80\x02",
    b"__RESET__", b"attention_check_", b"item_id", b"src_text", b"tgt", b"score", b"#1-10", b".hyp.",
)  # fmt: skip


def mutated(content: bytes, drawn: random.Random) -> bytes:
    """The file with one to three parts of it spoilt."""
    made = bytearray(content)
    for _ in range(drawn.randint(1, 3)):
        start = drawn.randint(0, len(made))
        end = min(len(made), start + drawn.choice((0, 0, 1, 1, 3, 20, len(made))))
        kind = drawn.random()
        if kind < 0.6:
            made[start:end] = drawn.choice(PARTS)
        elif kind < 0.8 and start < len(made):
            made[start] = drawn.randrange(256)
        elif kind < 0.9:
            made[start:start] = made[start:end]
        else:
            del made[start:]
    return _packed(content, bytes(made), drawn)


def _packed(content: bytes, made: bytes, drawn: random.Random) -> bytes:
    """Of a packed file, as often what is in it is spoilt, and packed again."""
    if drawn.random() < 0.5:
        return made
    if content.startswith(b"\x1f\x8b"):
        return gzip.compress(_spoilt(gzip.decompress(content), drawn), 1, mtime=0)
    if not content.startswith(b"PK\x03\x04"):
        return made
    again = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(again, "w") as new:
        chosen = drawn.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, _spoilt(old.read(name), drawn) if name == chosen else old.read(name))
    return again.getvalue()


def _spoilt(content: bytes, drawn: random.Random) -> bytes:
    start = drawn.randint(0, len(content))
    return content[:start] + drawn.choice(PARTS) + content[start + drawn.choice((0, 1, 4)) :]
