"""A set is made of what the hashes in its header name: inputs that change under way are found out."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment.filters.load import filter_chain
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import Augmentation
from polyref.augment.sources import SHARD_SEGMENTS, Generated
from polyref.augment.writer import augment_file, journal_path
from polyref.errors import DataError

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    [_lines("dog"), _lines(count=SEGMENTS - 1), _lines() + "one more .\n", _lines()[:-40] + "\0", ""],
    ids=["other", "shorter", "longer", "broken", "empty"],
)
def test_an_input_that_changes_gives_no_set(tmp_path: Path, after: str) -> None:
    path, out = tmp_path / "refs", tmp_path / "out.jsonl"
    path.write_text(_lines())
    with pytest.raises(DataError, match="changed while it was read") as raised:
        _augment(path, out, lambda: path.write_text(after))
    assert raised.value.file == str(path)
    assert not out.exists()
    # What the journal keeps is of the file as it was at first: with that file the run is taken up.
    path.write_text(_lines())
    undisturbed = tmp_path / "undisturbed.jsonl"
    _augment(path, undisturbed, lambda: None)
    assert journal_path(out).exists()
    _augment(path, out, lambda: None)
    assert out.read_bytes() == undisturbed.read_bytes()


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
