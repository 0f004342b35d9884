"""JSON and TOML of others: every reader names file and line, what was found and what was expected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from esim.judgements import read_training

from polyref.augment.filters import read_filter
from polyref.errors import DataError, ModelError, PolyrefError
from polyref.eval.data.evaluation_set import read_texts
from polyref.eval.inspection.measures import read_dropped
from polyref.json_files import Record, parse_json, read_json, read_toml, try_json
from polyref.metrics.esim.card import SHIPPED, read_card
from polyref.models.encoders import PointerEncoder
from polyref.models.opening import find, read_config, read_weights
from polyref.paraphrase.ctranslate2 import read_vocabulary
from polyref.paraphrase.rewriting.requests import load_prompt
from polyref.references import ReferenceSet

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "reference set": ("a.jsonl", ReferenceSet.load),
    "refused candidates": ("a.jsonl", read_dropped),
    "texts of a set": ("a.jsonl", lambda path: read_texts(path, "text")),
    "judgements for training": ("a.jsonl", lambda path: read_training([path])),
    "settings of a model": ("config.json", lambda path: read_config(path.parent)),
    "settings of ESIM": ("config.json", lambda path: read_card(path.parent)),
    "settings of an encoder": ("config.json", lambda path: PointerEncoder(find(path.parent, "encoder"))),
    "list of weights": ("model.safetensors.index.json", lambda path: read_weights(path.parent)),
    "vocabulary": ("shared_vocabulary.json", lambda path: read_vocabulary(path.parent)),
}
TOML: dict[str, Callable[[Path], object]] = {"filter": read_filter, "prompt": lambda path: load_prompt(str(path))}


def _fault(read: Callable[[Path], object], path: Path) -> PolyrefError:
    with pytest.raises(PolyrefError) as caught:
        read(path)
    assert caught.value.file == str(path)
    return caught.value


@pytest.mark.parametrize("name", READERS)
def test_every_reader_of_json_names_the_line_and_the_fault(name: str, tmp_path: Path) -> None:
    file, read = READERS[name]
    path = tmp_path / file
    path.write_text('{"id" 3}\n')
    fault = _fault(read, path)
    assert (fault.line, fault.message) == (1, "not valid JSON: Expecting ':' delimiter at column 7")
    path.write_text('{"id": ' + "[" * 200 + "]" * 200 + "}\n")
    assert _fault(read, path).message == "not valid JSON: nested more than 100 deep"
    path.write_text('{"id": "\\ud800"}\n')
    assert "half a surrogate pair" in _fault(read, path).message
    path.write_text('"word"\n')
    assert str(_fault(read, path)).startswith(f"{path}:1: " if path.suffix == ".jsonl" else f"{path}: ")
    assert 'found "word", expected ' in str(_fault(read, path))


@pytest.mark.parametrize("name", TOML)
def test_every_reader_of_toml_names_the_line_and_the_fault(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('a = "b"\n\nc = \n')
    fault = _fault(TOML[name], path)
    assert (fault.line, fault.message) == (3, "not valid TOML: Invalid value")
    path.write_text("a = " + "[" * 5000 + "]" * 5000)
    assert _fault(TOML[name], path).message == "not valid TOML: nested too deeply"
    path.write_text("a = " + "9" * 5000)
    assert _fault(TOML[name], path).message.startswith("not valid TOML: ")
    path.write_text('a = "b')
    assert _fault(TOML[name], path).message.startswith("not valid TOML: ")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("width", "384", '"width" is "384", expected a whole number from 1'),
        ("hidden", 0, '"hidden" is 0, expected a whole number from 1'),
        ("longest", True, '"longest" is true, expected a whole number from 1'),
        ("lowercase", "no", '"lowercase" is "no", expected true or false'),
        ("layers", [1, None], 'no "layers[1]"'),
        ("layers", [1, 2.5], '"layers[1]" is 2.5, expected a whole number from 0'),
        ("encoder", [], '"encoder" is a list, expected an object'),
        ("encoder", {"load": "minilm"}, 'encoder: no "name"'),
        ("data", [{"name": {}}], 'data[0]: "name" is an object, expected a string'),
        ("name", None, 'no "name"'),
        ("polyref_esim", 9, "model format 9, expected 1"),
    ],
)
def test_settings_of_odd_types_are_named(key: str, value: Any, said: str, tmp_path: Path) -> None:
    (whole,) = SHIPPED.glob("*/config.json")
    shutil.copytree(whole.parent, tmp_path / "esim")
    card = tmp_path / "esim" / "config.json"
    card.write_text(json.dumps({**json.loads(card.read_text("utf-8")), key: value}))
    with pytest.raises(ModelError) as caught:
        read_card(card.parent)
    assert (caught.value.file, caught.value.message) == (str(card), said)


def test_settings_may_hold_infinity(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}')
    assert read_config(tmp_path) == {"time_step_limit": [0.0, float("inf")]}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none: no such file \(look\)"):
        read_json(tmp_path / "none", remedy="look")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_json(tmp_path, error=DataError)
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ModelError, match="latin: not valid JSON: no UTF-8"):
        Record.read(tmp_path / "latin")
    (tmp_path / "lines").write_text('{\n"a": 1,\n"b": ]}')
    with pytest.raises(ModelError, match="lines:3: not valid JSON: Expecting value at column 6"):
        Record.read(tmp_path / "lines")


def test_values_of_a_kind() -> None:
    assert try_json('{"a": NaN}', dict) is not None
    assert (try_json("[1]"), try_json("[1]", list), try_json("{"), try_json(b"\xff")) == (None, [1], None, None)
    assert try_json("[" * 100_000) is None
    assert parse_json(" 3", "f", 1, kind=object) == 3
    assert read_toml("a = 1", "f") == {"a": 1}
    with pytest.raises(DataError, match="f:1: not valid JSON: NaN is not a JSON number"):
        parse_json('{"a": NaN}', "f", 1)


def test_fields_of_a_record() -> None:
    record = Record({"bad": {"a": -1}, "yes": True, "list": ["x"]}, "f", 7)
    assert (record.flag("yes"), record.flag("none"), record.each("list", Record.text)) == (True, None, ["x"])
    inside = record.needed("bad", record.child)
    with pytest.raises(DataError, match='f:7: bad: "a" is -1, expected a whole number from 0'):
        inside.whole("a")
    with pytest.raises(DataError, match='f:7: no "none"'):
        record.each("none", Record.text)
