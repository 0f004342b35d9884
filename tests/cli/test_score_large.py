"""Sets that ``polyref score`` reads in stretches: every byte of the output, and every error, as of small sets."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from polyref.cli import scored_files
from polyref.cli.main import main

TEXT = "the old mill by a river was closed for one long winter and nobody saw it open again"
WORDS = TEXT.split()
SETTINGS = (
    ("-m", "bleu", "chrf++", "ter", "--json"),
    ("-m", "bleu", "chrf", "-k", "0", "1", "3", "--sentence", "--json"),
    ("-m", "bleu", "-k", "0", "2", "--confidence", "--json"),
    ("-m", "chrf++", "bleu", "-k", "1", "--paired-ar", "--paired-ar-n", "200", "--json"),
    ("-m", "bleu", "-k", "1", "-v"),
    ("-m", "bleu", "--tokenize", "none", "-lc", "-k", "3", "--score-only", "-w", "6"),
    *(
        ("-m", "bleu", "chrf++", *("ter",) * with_ter, *combined, "-k", "0", "1", "12", "--sentence", "--json")
        for with_ter, combined in (
            (True, ("--combine", "mean", "--weights", "given")),
            (True, ("--combine", "blend", "--weights", "logprob", "--gamma", "0.3")),
            (False, ("--combine", "expected", "--alpha", "0.7", "--weights", "logprob")),
            (False, ("--combine", "expected", "--power", "0.5", "--weights", "given")),
            (False, ("--combine", "expected", "--power", "0.7")),
        )
    ),
    ("-m", "bleu(combine=blend)", "chrf(combine=mean)", "-k", "9", "--confidence", "--json"),
    ("-m", "chrf(combine=expected)", "ter(combine=mean)", "-k", "7", "--paired-bs", "--json"),
)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every set is large, and has several stretches."""
    monkeypatch.setattr(scored_files, "LARGE", 0)
    monkeypatch.setattr(scored_files, "SEGMENTS", 7)
    return monkeypatch


@pytest.fixture
def files(tmp_path: Path) -> Path:
    draw = random.Random(5)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(0, 12))) + draw.choice([" .", ".", " ", "\u3000"])

    rows = [{"polyref": 1, "generator": "g", "k": 14}]
    for number in range(60):
        # Stretches differ in the largest number of references.
        added = [
            {"text": text(), "kind": "paraphrase", "of": 0, "weight": draw.random(), "logprob": -draw.random()}
            for _ in range(draw.randint(1, 3 + number // 5))
        ]
        rows.append({"id": str(number), "refs": [{"text": text()}, *added]})
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{text()}\n" for _ in range(60)), "utf-8")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["score", *arguments])
    found = capsys.readouterr()
    return int(ended.value.code or 0), found.out, found.err


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(settings))
def test_the_same_bytes(
    files: Path, large: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: tuple[str, ...]
) -> None:
    arguments = [str(files / "set.jsonl"), "-i", str(files / "a"), str(files / "b"), *settings]
    streamed = []
    own = scored_files.score_streamed
    large.setattr(scored_files, "score_streamed", lambda *args, **options: streamed.append(1) or own(*args, **options))
    found = said(capsys, *arguments)
    assert streamed and found[0] == 0
    large.setattr(scored_files, "LARGE", 1 << 40)
    assert said(capsys, *arguments) == found and len(streamed) == 1


def test_the_same_notes_and_errors(files: Path, large: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (files / "a").read_text("utf-8").splitlines(keepends=True)
    (files / "copy").write_text("".join(lines), "utf-8")
    (files / "short").write_text("".join(lines[:33]), "utf-8")
    (files / "long").write_text("".join([*lines, *lines]), "utf-8")
    rows = [json.dumps({"id": str(n), "refs": [{"text": "x", "kind": "human"}] if n % 9 else []}) for n in range(60)]
    (files / "holes.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    (files / "broken.jsonl").write_text("\n".join([*rows[1:30], "{"]) + "\n", "utf-8")
    a, b, several = (str(files / name) for name in ("a", "b", "set.jsonl"))
    commands = [
        [a, "-i", str(files / "copy"), b],
        [b, a, "-i", str(files / "copy")],
        [a, "-i", str(files / "short")],
        [a, "-i", b, str(files / "long")],
        [str(files / "short"), "-i", a],
        [a, b, "-i", a, "-k", "2"],
        [several, "-i", a, "-k", "9"],
        [several, "-i", a, "-k", "-1"],
        [str(files / "holes.jsonl"), "-i", a],
        [str(files / "holes.jsonl"), "-i", a, "--allow-missing"],
        [str(files / "broken.jsonl"), "-i", a],
        [a, "-i", b, "--paired-ar"],
        [a, "-i", b, b],
        [a, "-i", several],
    ]
    found = [said(capsys, *command) for command in commands]
    large.setattr(scored_files, "LARGE", 1 << 40)
    for command, (code, out, err) in zip(commands, found, strict=True):
        assert said(capsys, *command) == (code, out, err), command
    assert "equals the reference line for line" in found[0][2] and {code for code, _, _ in found} >= {0, 1, 2}
