"""The leak check: what counts as evaluation text, and what repeats it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Training = Callable[[str], ModuleType]


def test_all_english_of_a_set(training: Training, tmp_path: Path) -> None:
    """References, outputs and paraphrases of pairs into English, sources of pairs out of English; nothing else."""
    files = {
        "sources/en-de.txt": "source out of English\n",
        "sources/de-en.txt": "Quelle\n",
        "references/de-en.refA.txt": "reference\nanother\n",
        "references/en-de.refA.txt": "Referenz\n",
        "system-outputs/de-en/One.x.txt": "output\n",
        "system-outputs/en-de/One.txt": "Ausgabe\n",
        "paraphrases/de-en.refA.jsonl": json.dumps({"id": 1, "reference": "given", "paraphrases": ["a", "b"]}) + "\n",
        "paraphrases/en-de.refA.jsonl": json.dumps({"id": 1, "reference": "X", "paraphrases": ["Y"]}) + "\n",
        "documents/de-en.docs": "news\tdoc\n",
        "people.jsonl": '{"polyref": 1, "meta": {}}\n' + json.dumps({"id": "1", "refs": [{"text": "of a set"}]}) + "\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    found = set(training("leaks").evaluation_texts(tmp_path)) - {""}
    assert found == {"source out of English", "reference", "another", "output", "given", "a", "b", "of a set"}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["THE “MAYOR” opened the bridge"], "sentence"),
        (["Nothing to see in this place.", "The mayor opened the bridge!"], "sentence"),
        (["Yes of course."], None),  # four words and fewer are anybody's
        (["Then the old mayor of the small town opened it at last."], "5-grams"),
        (["Then the old mayor of the city opened it at last, to the joy of all who stood there."], None),
        (["This one was held out for validation."], "held-out"),
    ],
)
def test_what_leaks(training: Training, texts: list[str], reason: str | None) -> None:
    text = training("leaks").EvaluationText()
    text.add_set(
        "made", ["The mayor opened the bridge.", "Yes, of course!", "The old mayor of the small town opened it."]
    )
    text.hold_out(["This one was held out for validation."])
    assert text.counts == {"made": 3}
    assert text.leak(texts, 0.35) == reason


def test_the_report_counts_leaks(training: Training) -> None:
    report = training("leaks").Report()
    for reason in (None, "sentence", "5-grams", "held-out", "sentence"):
        report.add("file", reason, ["short", "a longer text"])
    assert report.leaks == 3
    assert report.counts["file"] == {"clean": 1, "sentence": 2, "5-grams": 1, "held-out": 1}
    assert report.examples["file: sentence"] == ["a longer text"] * 2


@pytest.mark.data
def test_every_evaluation_set_of_the_recipe_has_english(training: Training, data_dir: Path) -> None:
    recipe = training("recipe").read_recipe(Path(training("recipe").__file__).with_name("recipe.toml"))
    with_text = {path.parent.name for path in data_dir.glob("*/references")}
    assert with_text <= set(recipe.leaks.evaluation)
    for name in recipe.leaks.evaluation:
        assert any(training("leaks").evaluation_texts(data_dir / name)), name
