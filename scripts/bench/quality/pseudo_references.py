"""What post-edited and pseudo-references do to n-gram metrics: OUT/pseudo-references.csv.

    python scripts/bench/quality/pseudo_references.py --data DIR [--test]

Post-edits: a system's outputs, in which each difference to refA (words, ``difflib``) is taken over with a chance of one
in three, are the only reference; refA and ten LLM paraphrases of it are added. The system is evaluated with the others
(``with NAME``) and left out. Pseudo-references: the outputs of two systems stand in for translations that somebody made
where there is no reference; both are left out. ``refA`` is the same evaluation with the human reference. Development
set: WMT22 en-de; with ``--test`` the pseudo-references on WMT22 zh-en.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tasks import COLUMNS, DE, KEY, ZH, Run, note_look, rows_of

import polyref
from polyref.errors import PolyrefError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.references import ReferenceSet

sys.path.append(str(Path(__file__).parent.parent))
from looks import clean_commit, commit, from_commit
from raw_tables import update

#: A good system and a middling one.
POST_EDITED: Final = ("Online-B", "Online-Y")
STAND_INS: Final = (("Online-B", "Online-W"), ("Online-A", "Online-Y"))
SHARE, SEED, RESAMPLES, PLACEBOS = 1 / 3, 1, 200, 5
METRICS: Final = ("bleu", "chrf++")
#: Names of the references that a set does not have.
ONLY: Final = "pseudo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table and the ledger")
    parser.add_argument("--test", action="store_true", help="look at the test set, with pseudo-references")
    args = parser.parse_args()
    try:
        here = clean_commit() if args.test else commit()
        if args.test:
            found = list(stand_ins(args.data, "zh-en"))
            added = {"outputs of two systems instead of refA": ""}
            run = Run("", "wmt22.mqm", "zh-en", "refA", added, (0, 1), metrics=METRICS)
            note_look(args.out / "ledger.csv", run, here, "")
        else:
            found = [*post_edits(args.data, "en-de"), *stand_ins(args.data, "en-de")]
        update(args.out / "pseudo-references.csv", COLUMNS, KEY, (from_commit(row, here) for row in found))
    except PolyrefError as error:
        sys.exit(f"error: {error}")


def post_edits(data: Path, pair: str) -> Iterator[dict[str, Any]]:
    """A system's outputs, edited by the rule, as the only reference."""
    evalset = EvalSet(data / "wmt22.mqm", pair)
    human = evalset.reference("refA")
    for system in POST_EDITED:
        rng = random.Random(SEED)
        (outputs,) = evalset.outputs([system])
        texts = [edited(a, b, rng) for a, b in zip(outputs, human, strict=True)]
        for name, exclude in ((f"with {system}", ()), (f"without {system}", (system,))):
            yield from _compared(data, pair, f"post-edits of {system}", name, texts, exclude)


def stand_ins(data: Path, pair: str) -> Iterator[dict[str, Any]]:
    """The outputs of two systems as the only references."""
    evalset = EvalSet(data / "wmt22.mqm", pair)
    for names in STAND_INS:
        first, second = evalset.outputs(names)
        title = f"outputs of {' and '.join(names)}"
        yield from _compared(data, pair, title, "without them", first, names, second)


def _compared(
    data: Path,
    pair: str,
    title: str,
    who: str,
    texts: Sequence[str],
    exclude: Sequence[str],
    second: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Agreement with these texts as the only reference, with what is added to them, and with refA."""
    lists = ReferenceSet.load(data / (DE if pair == "en-de" else ZH)["llm"])
    added: dict[str, tuple[Any, int]] = {"refA": ("ref:refA", 1)}
    if second is None:
        added["llm"] = ([[ref.text for ref in segment.extras] for segment in lists], 10)
    else:
        added["second system"] = ([[text] for text in second], 1)
    common = {"gold": "mqm", "metrics": METRICS, "statistics": ("acc23", "pairwise-accuracy"), "seed": SEED}
    common |= {"exclude": exclude, "resamples": RESAMPLES}
    with TemporaryDirectory() as folder:
        made = _with_reference(data / "wmt22.mqm", pair, texts, Path(folder))
        run = f"{pair}, {title}, {who}"
        table = polyref.evaluate(made, pair, ref="refA", ks=(0,), **common)
        yield from _rows(table, run, "refA alone")
        for name, (references, k) in added.items():
            table = polyref.evaluate(
                made, pair, ref=ONLY, references={name: references}, ks=(0, k), placebo=PLACEBOS, **common
            )
            yield from _rows(table, run, f"it and {name}")
        print(run, file=sys.stderr, flush=True)


def _rows(table: polyref.EvaluationTable, run: str, references: str) -> Iterator[dict[str, Any]]:
    """The rows, and which place the systems of a post-edit have."""
    rows = [{"control": "real", "claim": None, **row, "generator": references} for row in table.rows]
    yield from rows_of(rows, {"run": run, "gold": "mqm"})
    found = table.evaluations[0]
    system = next((name for name in POST_EDITED if name in found.gold.system and f"of {name}" in run), None)
    if system is None:
        return
    names = list(found.gold.system)
    places = {("people", 0): _place(system, found.gold.system)}
    for one in found.series:
        for k in found.ks:
            scores = one.system(names, k, None)
            assert scores is not None
            places[one.metric, k] = _place(system, dict(zip(names, scores, strict=True)))
    for (metric, k), place in places.items():
        head = {"run": run, "gold": "mqm", "references": references, "metric": metric, "k": k, "level": "sys"}
        yield {**dict.fromkeys(COLUMNS, ""), **head, "statistic": f"place of {system}", "value": place}


def _place(system: str, scores: Mapping[str, float]) -> int:
    return 1 + sum(score > scores[system] for score in scores.values())


def edited(output: str, reference: str, rng: random.Random, share: float = SHARE) -> str:
    """The output, with some of its differences to the reference taken over."""
    ours, theirs = output.split(), reference.split()
    words: list[str] = []
    for kind, i, j, first, last in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        words += theirs[first:last] if kind != "equal" and rng.random() < share else ours[i:j]
    return " ".join(words)


def _with_reference(folder: Path, pair: str, texts: Sequence[str], where: Path) -> Path:
    """The same set with one more reference."""
    made = where / folder.name
    (made / "references").mkdir(parents=True)
    for one in (*folder.iterdir(), *(folder / "references").iterdir()):
        place = made / one.relative_to(folder)
        if not place.exists():
            place.symlink_to(one.resolve())
    (made / "references" / f"{pair}.{ONLY}.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return made


if __name__ == "__main__":
    main()
