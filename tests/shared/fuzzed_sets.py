"""Small valid files of the kinds that `polyref evaluate` reads, for tests that spoil them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from pearmut_logs import as_lines, pearmut_log

from polyref.eval.data.evaluation_set import EvalSet

#: Lines of the small set tests/eval/minimal, which has five segments in three documents.
DOCUMENTS: Final = (("home", 1), ("home", 2), ("market", 1), ("weather", 1), ("weather", 2))
SYSTEMS: Final = ("Alpha", "Beta.1", "Gamma-2")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def xml_release(minimal: Path) -> str:
    """The small set as one XML file."""
    texts = {"src": _lines(minimal / "sources/de-en.txt")}
    texts |= {f'ref translator="ref{x}"': _lines(minimal / f"references/de-en.ref{x}.txt") for x in "AB"}
    texts |= {f'hyp system="{x}"': _lines(minimal / f"system-outputs/de-en/{x}.txt") for x in SYSTEMS}
    parts = []
    for name in dict(DOCUMENTS):
        own = [(at, n) for at, (document, n) in enumerate(DOCUMENTS) if document == name]
        suite = ' testsuite="x"' if name == "weather" else ""
        blocks = []
        for tag, column in texts.items():
            segments = "".join(f'<seg id="{n}">{escape(column[at])}</seg>' for at, n in own)
            blocks.append(f"<{tag}><p>{segments}</p></{tag.split()[0]}>\n")
        parts.append(f'<doc id="{name}" domain="news"{suite}>{"".join(blocks)}</doc>\n')
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<dataset><collection id="c">{"".join(parts)}</collection></dataset>'
    )


def text_release_files(minimal: Path) -> dict[str, bytes]:
    """The small set as a text release: path -> content."""
    files = {"sources/t.de-en.src.de": minimal / "sources/de-en.txt"}
    files |= {f"references/t.de-en.ref.ref{x}.en": minimal / f"references/de-en.ref{x}.txt" for x in "AB"}
    files |= {f"system-outputs/t.de-en.hyp.{x}.en": minimal / f"system-outputs/de-en/{x}.txt" for x in SYSTEMS}
    files |= {f"human-scores/{path.name}": path for path in (minimal / "human-scores").iterdir()}
    return {name: path.read_bytes() for name, path in files.items()}


def archive_files() -> dict[str, bytes]:
    """An archive of the metrics task with two systems: path -> content."""
    cells = [(system, f"home::{n}", 80.0 - 30 * n - 10 * s) for s, system in enumerate(("A.1", "B_2")) for n in (1, 2)]
    segments = "".join(f"{s} {n} {raw} {raw / 10 - 5} 1 {i}\n" for i, (s, n, raw) in enumerate(cells))
    rows = "".join(f"M\tde-en\tnewstest2020\tnewstest2020\t{s}\thome\t{n[-1]}\t{raw}\n" for s, n, raw in cells)
    systems = "".join(f"M\tde-en\tnewstest2020\tnewstest2020\t{s}\t{v}\n" for s, v in (("A.1", 1.5), ("B_2", 2e-1)))
    return {
        "da/metrics-ad-seg-scores-de-en.csv": f"SYS SEGID RAW.SCR Z.SCR N SID\n{segments}".encode(),
        "da/ad-sys-scores-de-en.csv": b"RAW.SCR Z.SCR N SYS N.ALL\n70 0.2 9 A.1 9\n60 0.1 9 B-2 9\n",
        "scores/M.sys.score.gz": gzip.compress(systems.encode(), mtime=0),
        "scores/M.seg.score.gz": gzip.compress(rows.encode(), mtime=0),
    }


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


_DA = [
    ["ann1", system, str(n), "TGT", "deu", "eng", str(20 * n + 7 * s), document, "False", "10.5", "20.5"]
    for s, system in enumerate(SYSTEMS)
    for document, n in DOCUMENTS
]
_ESA = [
    ["ann1", system, str(line), "TGT", "deu", "eng", str(20 * s + line), document, "False", '[{"start": 1}]', "1", "2"]
    for s, system in enumerate(SYSTEMS)
    for line, (document, _) in enumerate(DOCUMENTS, 1)
]
_SOURCES: Final = (
    (Path(__file__).resolve().parent.parent / "eval/minimal/sources/de-en.txt").read_text("utf-8").splitlines()
)
_DUMP = [
    {"langs": "de-en", "line_id": n, "src": text, "system": system, "annotator": "a", "esa_score": 10 * n + s}
    for s, system in enumerate(SYSTEMS)
    for n, text in enumerate(_SOURCES)
]
_MARK = {"start": 0, "end": 3, "category": "accuracy/omission", "severity": "major", "score": 0}
_MARKS = [
    ("Alpha", 1, "r1", "Accuracy/Mistranslation", "Major"), ("Alpha", 1, "r2", "No-error", "no-error"),
    ("Beta.1", 3, "r1", "Style", "HOTW-test"), ("metricsystem1", 2, "r1", "Fluency/Punctuation", "Minor"),
]  # fmt: skip

_LOG = pearmut_log(EvalSet(Path(__file__).resolve().parent.parent / "eval/minimal", "de-en"), "mqm")[-6:]
#: Name of a file of judgements of the small set -> its kind, and a valid one.
JUDGEMENTS: Final[dict[str, tuple[str, str]]] = {
    "marks.tsv": ("mqm", "system\tseg_id\trater\tsource\tcategory\tseverity\textra\n" + "".join(
        f"{s}\t{n}\t{r}\t{_SOURCES[n - 1]}\t{c}\t{e}\t\n" for s, n, r, c, e in _MARKS)),
    "ratings": ("mqm", "".join(f"{s}\tNone\n" + f'{s}\t{json.dumps({"errors": [_MARK]})}\trater\n' * 4
                               for s in ("Alpha", "Beta.1"))),
    "averages.tsv": ("mqm", "system mqm_avg_score seg_id\nAlpha\t-1.5\t1\nAlpha None 2\nBeta.1 0 2\n"),
    "wide.tsv": ("mqm", "system\tdoc\tglobalSegId\tmqm_score\nAlpha\td\t1\t-1\nBeta.1\td\t2\tNone\n"),
    "da.csv": ("da", _csv(_DA)),
    "esa.csv": ("da", _csv(_ESA)),
    "esa.jsonl": ("da", "".join(json.dumps(row) + "\n" for row in _DUMP)),
    "lines.csv": ("da", _csv([[*row[:1], f"test.de-en.hyp.{row[1]}.en.txt", *row[2:7], *row[9:]] for row in _DA])),
    "raw.csv": ("da", _csv([[*row[:2], "0", *row[3:7], f"{row[7]}#{row[2]}-{row[2]}", *row[8:]] for row in _DA])),
    "list.csv": ("da", "HITId WorkerId Input.src Input.trg Input.item hit sys_id rid type sid score time\n" + "".join(
        f"h w de en ad 1 {s} {n} SYSTEM {n} 0.{n} 9\n" for s in SYSTEMS for n in range(1, 6))),
    "log.jsonl": ("pearmut", as_lines(_LOG)),
    "annotations.json": ("pearmut", json.dumps({"eng_Latn---deu_Latn": [], "deu_Latn---eng_Latn v3": _LOG}, indent=1)),
    "table.csv": ("da", "SYS SEGID RAW.SCR Z.SCR N SID\nAlpha home::2 80 0.5 1 7\nBeta.1 weather::1 20 -0.5 1 3\n"),
    "darr.csv": ("darr", "LP DATA SID BETTER WORSE\nde-en set 1 Beta.1 Gamma-2\nfi-en set 1 X Y\n"
                         "de-en set home::2 Alpha Gamma-2\n"),
}  # fmt: skip
