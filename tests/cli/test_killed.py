"""Commands that are killed at any of their dealings with the disk leave old or new results, and are taken up again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kills import run_program
from wmt_items import rows_of, write_items

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
pytestmark = pytest.mark.slow

#: What every program starts with. One thread: a process that is forked must have no other.
START = """
import os
os.environ.update(OMP_NUM_THREADS="1", POLYREF_CACHE=os.path.abspath("cache"), HF_HUB_OFFLINE="1")
import io, json, shutil, sys
from pathlib import Path
from kills import survives
from polyref.cli.main import main
out = Path("out")
def polyref(*arguments):
    said, sys.stderr = sys.stderr, io.StringIO()
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        assert not stop.code, sys.stderr.getvalue()
    finally:
        sys.stderr = said
def older(*names):
    return lambda: [(out / name).write_text("old") for name in names]
"""


def _kills(program: str, folder: Path) -> int:
    return int(run_program(START + program, folder))


def test_augment(tmp_path: Path) -> None:
    """A generator, and a list by line: what is taken up goes on at its line."""
    texts = [f"The cat number {n} sat there ." for n in range(70)]
    (tmp_path / "refs").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "list").write_text("".join(f"One says that {text}\n" for text in texts))
    kills = _kills(
        """
import polyref.paraphrase.loading as sources
from rule_paraphraser import RuleParaphraser
sources.load_paraphraser = lambda *args, **options: RuleParaphraser()
work = lambda: polyref("augment", "refs", "-k", 3, "-o", out / "x.jsonl", "--dropped", out / "no.jsonl", "--quiet",
                       "--lang", "en", "--model", "rules", "--candidates", "list")
print(survives(work, older("x.jsonl", "no.jsonl"), out, [{"x.jsonl"}, {"no.jsonl"}]))
""",
        tmp_path,
    )
    assert kills > 20


@pytest.mark.parametrize("target", ["x.jsonl", "x.{}.txt"])
def test_convert(tmp_path: Path, target: str) -> None:
    """One file, and files that belong together."""
    (tmp_path / "refs").write_text('{"id": "1", "reference": "a", "paraphrases": ["b"]}\n')
    kills = _kills(
        f"""
from polyref.publishing import finish_pending
work = lambda: polyref("convert", "refs", "refs", out / {target!r})
out.mkdir()
work()
files = [path.name for path in out.iterdir()]
last = lambda: finish_pending(out)
print(survives(work, older(*files), out, [{{*files}}], last))
""",
        tmp_path,
    )
    assert kills >= 6


def test_score(tmp_path: Path) -> None:
    for name in ("refs", "sys"):
        (tmp_path / name).write_text("The cat sat there .\n")
    kills = _kills(
        """
work = lambda: polyref("score", "refs", "-i", "sys", "-m", "bleu", "-k", 0, "--json", "-o", out / "scores")
print(survives(work, older("scores"), out, [{"scores"}]))
""",
        tmp_path,
    )
    assert kills >= 3


def test_evaluate(tmp_path: Path) -> None:
    shutil.copytree(MINIMAL, tmp_path / "set")
    kills = _kills(
        """
sys.modules["matplotlib"] = None  # a report without plots is made much faster
def evaluate(*k):
    polyref("evaluate", "set", "-l", "de-en", "--ref", "refA", "--refs", "set/paraphrases/de-en.refA.jsonl",
            "--gold", "mqm", "-m", "bleu", "-n", 5, "-k", *k, "-o", out / "report", "--json")
sys.stdout, shown = io.StringIO(), sys.stdout
out.mkdir()
evaluate(0)
shutil.copytree(out / "report", "older")
kills = survives(lambda: evaluate(0, 1), lambda: shutil.copytree("older", out / "report"), out, [{"report"}])
print(kills, file=shown)
""",
        tmp_path,
    )
    assert kills > 20


def test_submit(tmp_path: Path) -> None:
    shutil.copytree(MINIMAL, tmp_path / "set")
    kills = _kills(
        """
def submit(k):
    polyref("submit", "set", "-l", "de-en", "--ref", "refA", "--refs", "set/paraphrases/{pair}.refA.jsonl",
            "-m", "bleu", "--name", "B", "--testset", "t", "--year", 2025, "-k", k, "-o", out)
out.mkdir()
submit(0)
shutil.copytree(out, "older")
from polyref.publishing import finish_pending
# What a killed process announced is finished by whoever comes next.
last = lambda: finish_pending(out)
files = {path.name for path in out.iterdir()}
assert len(files) == 3
older = lambda: shutil.copytree("older", out, dirs_exist_ok=True)
print(survives(lambda: submit(1), older, out, [files], last))
""",
        tmp_path,
    )
    assert kills > 20


def test_submit_items(tmp_path: Path) -> None:
    texts = [f"The cat number {n} sat there ." for n in range(50)]
    write_items(tmp_path / "items.jsonl", rows_of("eng_Latn-deu_Latn", texts, {"A": texts, "B": texts[::-1]}, texts))
    kills = _kills(
        """
def work():
    polyref("submit", "items.jsonl", "-m", "chrf", "--name", "M", "--year", 2026, "-o", out / "pred.jsonl.gz")
from polyref.publishing import finish_pending
older = lambda: [(out / name).write_text("old") for name in units[0]]
units, last = [{"pred.jsonl.gz", "M.provenance.json"}], lambda: finish_pending(out)
print(survives(work, older, out, units, last))
""",
        tmp_path,
    )
    assert kills > 20
