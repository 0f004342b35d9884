"""A set is made of what the hashes in its header name: inputs are read once, and checked as they are."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

import polyref.formats as polyref_formats
from polyref.augment.candidates import SHARD_SEGMENTS, Generated
from polyref.augment.filters import filter_chain
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import Augmentation
from polyref.augment.writer import augment_file
from polyref.errors import DataError
from polyref.json_files import Record
from polyref.references import Reference, ReferenceSet, Segment

#: Enough that most of the file is not yet in a buffer when the first shard is done.
SEGMENTS = 10 * SHARD_SEGMENTS


def _lines(word: str = "cat", count: int = SEGMENTS) -> str:
    return "".join(f"The {word} number {n} sat there .\n" for n in range(count))


def _augment(path: Path, out: Path, edit: Callable[[], object]) -> None:
    class Editing(RuleParaphraser):
        def _note(self, text: str) -> None:
            super()._note(text)
            if self.seen == SHARD_SEGMENTS:
                edit()

    with Inputs([path]) as inputs:
        augment_file(inputs, out, Augmentation(Generated(Editing(), 4), 2, filter_chain("default", "en")))


@pytest.mark.parametrize(
    "after",
    [_lines("dog"), _lines(count=SEGMENTS - 1), _lines() + "one more .\n", _lines()[:-40] + "\0", ""],
    ids=["other", "shorter", "longer", "broken", "empty"],
)
def test_an_input_that_changes_later_changes_nothing(tmp_path: Path, after: str) -> None:
    path, out = tmp_path / "refs", tmp_path / "out.jsonl"
    path.write_text(_lines())
    undisturbed = tmp_path / "undisturbed.jsonl"
    _augment(path, undisturbed, lambda: None)
    _augment(path, out, lambda: path.write_text(after))
    assert path.read_text() == after
    assert out.read_bytes() == undisturbed.read_bytes()


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    refs = (
        Reference("A \u2028 text\t.", extra={"a": [1, None, {"b": 0.1}]}),
        Reference("B", "paraphrase", of=0, rank=3, weight=0.1, logprob=-1e-9, generator="g"),
    )
    segments = (Segment("7", refs, "Quelle", "doc", "de", {"x": True}), Segment("é", ()))
    ReferenceSet(segments, {"lang": "en"}).save(path)
    with Inputs([path], whole=True) as inputs:
        assert tuple(inputs.segments()) == segments == tuple(inputs.segments())
        assert inputs[1] == segments[1]
        assert [inputs.place_of(name) for name in ("7", "é", "1", "")] == [0, 1, None, None]
        assert (inputs.meta, inputs.named, inputs.numbered) == ({"lang": "en"}, True, False)


def test_ids_that_count_are_found(tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("a\nb\n")
    with Inputs([tmp_path / "refs"]) as inputs:
        found = [inputs.place_of(name) for name in ("1", "2", "0", "3", "02", "-1", "x", "", "9" * 5000)]
    assert found == [0, 1, *[None] * 7]


@pytest.mark.parametrize("step", [1, -1], ids=["by-line", "by-id"])
def test_every_line_is_read_once(
    tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    numbers = range(1, 2 * SHARD_SEGMENTS)[::step]
    ids = {} if step == 1 else {n: {"id": n} for n in numbers}
    rows = [{**ids.get(n, {}), "reference": f"Text number {n} is here ."} for n in numbers]
    lists = [{**ids.get(n, {}), "paraphrases": [f"Here is text number {n} ."]} for n in sorted(numbers)]
    for name, values in (("refs", rows), ("list", lists)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    (tmp_path / "plain").write_text("".join(f"Of text {n} here .\n" for n in numbers))
    read: Counter[str] = Counter()
    lines, parse = polyref_formats.iter_lines, Record.parse

    def counted_lines(path: Path, *args: Any) -> Iterator[str]:
        for line in lines(path, *args):
            read[f"{Path(path).name} line"] += 1
            yield line

    def counted_parse(text: str, file: str, line: int) -> Record:
        read[f"{Path(file).name} record"] += 1
        return parse(text, file, line)

    monkeypatch.setattr(polyref_formats, "iter_lines", counted_lines)
    monkeypatch.setattr(Record, "parse", counted_parse)
    out = tmp_path / "out.jsonl"
    made = polyref("augment", tmp_path / "refs.jsonl", "--candidates", tmp_path / "list.jsonl", tmp_path / "plain",
                   "-o", out, "--lang", "en", "--filter", "none")  # fmt: skip
    assert made.code == 0, made.err
    names = ["refs.jsonl line", "refs.jsonl record", "list.jsonl line", "list.jsonl record", "plain line"]
    assert read == dict.fromkeys(names, len(numbers))
    assert all(len(json.loads(row)["refs"]) == 3 for row in out.read_text().splitlines()[1:])


def test_an_input_that_grows_while_it_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "refs.gz"
    path.write_bytes(gzip.compress(_lines().encode()))
    import polyref.augment.inputs as module

    read = module.open_references

    def opened(*args: object) -> object:
        path.write_bytes(gzip.compress(_lines("dog").encode()))
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "open_references", opened)
    with pytest.raises(DataError, match="changed while it was read"):
        Inputs([path])
