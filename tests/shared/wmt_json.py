"""The small set tests/eval/minimal in the JSON that WMT uses since 2024, for tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from polyref.references import Reference, ReferenceSet, Segment

MINIMAL: Final = Path(__file__).resolve().parent.parent / "eval" / "minimal"
PLACES: Final = (("news", "home", 0), ("news", "home", 1), ("news", "market", 0), ("talk", "weather", 0),
                 ("talk", "weather", 1))  # fmt: skip
#: How WMT26 names the pair of the small set.
PAIR: Final = "deu_Latn-eng_Latn"


def _lines(name: str) -> list[str]:
    return (MINIMAL / name).read_text("utf-8").splitlines()


SOURCE: Final = _lines("sources/de-en.txt")
TEXTS: Final = {"refA": _lines("references/de-en.refA.txt")} | {
    path.stem: path.read_text("utf-8").splitlines() for path in sorted((MINIMAL / "system-outputs/de-en").glob("*.txt"))
}


def gold() -> dict[str, list[float | None]]:
    """System -> its scores."""
    found: dict[str, list[float | None]] = {}
    for line in _lines("human-scores/de-en.mqm.seg.score"):
        name, score = line.split()
        found.setdefault(name, []).append(None if score == "None" else float(score))
    return found


def write(path: Path, rows: Iterable[Any]) -> Path:
    """JSON lines, packed where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def translations(path: Path, *texts: Iterable[str]) -> Path:
    """References that were made of the small set's sources, so many each, in the normal form."""
    rows = zip(SOURCE, *texts, strict=True)
    refs = [(source, [Reference(text, "translation", rank=n) for n, text in enumerate(row)]) for source, *row in rows]
    ReferenceSet(tuple(Segment(str(n), tuple(own), source) for n, (source, own) in enumerate(refs, 1))).save(path)
    return path


def human_evaluation(pair: str = "de-en_GB", *, rounds: bool = False) -> list[dict[str, Any]]:
    """The human evaluation of 2025, a segment a line.

    Args:
        pair: Language pair.
        rounds: As the first releases have scores, {"human1": ...}.
    """
    rows = []
    for n, (domain, document, place) in enumerate(PLACES):
        scores: dict[str, Any] = {}
        for name, column in gold().items():
            if (score := column[n]) is None:
                continue
            if not rounds:
                scores[name] = [{"score": score + 3, "annotator": "a", "errors": [{"start_i": 0}], "times": [1.5]},
                                {"score": score - 3, "annotator": "b"}]  # fmt: skip
            elif n % 2:
                scores[name] = {"human1": score + 3, "annotator1": "a", "errors1": [], "human2": score - 3}
            else:
                scores[name] = {"human1": score, "annotator1": "a"}
        texts = {name: column[n] for name, column in TEXTS.items()}
        name = f"{pair}_#_{domain}_#_{document}_#_{place}"
        rows.append({"doc_id": name, "src_text": SOURCE[n], "tgt_text": texts, "scores": scores})
    return rows


def judgements() -> list[dict[str, Any]]:
    """The human evaluation of 2024, a judgement a line; the reference was judged as well."""
    return [
        {"langs": "de-en", "line_id": n, "src": SOURCE[n], "tgt": TEXTS[name][n], "system": name, "annotator": "a",
         "doc_id": PLACES[n][1], "domain": PLACES[n][0], "esa_score": score + 50, "esa_spans": [], "speech_info": None}
        for name, column in {**gold(), "refA": [49.5] * 5}.items() for n, score in reversed(list(enumerate(column)))
        if score is not None
    ]  # fmt: skip


def test_set() -> list[dict[str, Any]]:
    """The test set of the general task, a document a line."""
    return [
        {"doc_id": name, "domain": name.split("_###_")[1], "src_lang": "deu_Latn", "tgt_lang": "eng_Latn",
         "video": None, "src_text": _text(SOURCE, at), "refs": {"refA": {"ref": _text(TEXTS["refA"], at)}}}
        for name, at in _documents().items()
    ]  # fmt: skip


def _text(column: list[str], at: list[int]) -> str:
    return "\n\n".join(column[n] for n in at)


def outputs(system: str) -> list[dict[str, Any]]:
    """A system's outputs on the test set, in another order."""
    return [
        {"doc_id": name, "hypothesis": _text(TEXTS[system], at), "metadata": {}}
        for name, at in reversed(_documents().items())
    ]


def general_task(folder: Path, *, systems: str = "systems") -> Path:
    """The test set, beside it a folder of outputs, and judgements as in mt-metrics-eval."""
    for system in TEXTS:
        if system != "refA":
            write(folder / systems / f"{system}.jsonl", outputs(system))
    (folder / "human-scores").mkdir(exist_ok=True)
    for level in ("seg", "sys"):
        text = (MINIMAL / f"human-scores/de-en.mqm.{level}.score").read_text("utf-8")
        (folder / f"human-scores/{PAIR}.mqm.{level}.score").write_text(text, "utf-8")
    return write(folder / "wmt26-genmt.jsonl", test_set())


def _documents() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, (domain, document, _) in enumerate(PLACES):
        found.setdefault(f"WMT26_###_{domain}_###_deu_Latn_###_eng_Latn_###_{document}", []).append(n)
    return found
