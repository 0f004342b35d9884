"""Whatever a file holds, its reader ends in time with polyref's error, which names the file."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from esim_fixtures import write_model
from tiny_encoders import bert

from polyref.augment.filters.file import read_filter
from polyref.errors import DataError, ModelError, PolyrefError
from polyref.formats import read_outputs
from polyref.metrics.embedding.baseline import read_baseline
from polyref.metrics.embedding.encoders.load import load_encoder
from polyref.metrics.esim.files import CONFIG, load_network, read_card
from polyref.metrics.esim.judgements import read_training
from polyref.metrics.statistics import Statistics
from polyref.models.checkpoints.fairseq import read_fairseq_checkpoint
from polyref.models.checkpoints.files import read_config
from polyref.models.checkpoints.load import load_checkpoint
from polyref.models.checkpoints.pointer import is_pointer_folder, load_pointer
from polyref.models.checkpoints.vocabulary import FairseqDictionary
from polyref.models.checkpoints.weights import read_weights
from polyref.models.find import SHIPPED
from polyref.references import ReferenceSet
from polyref.store import Journal, _checksum
from polyref.textfiles import read_lines

DEEP = "[" * 100_000 + "]" * 100_000
NESTED = "[" * 400 + "]" * 400
ODD = ["5", "[]", "null", '"x"', DEEP, '{"model_type": ' + DEEP + "}", "{", "\udcff", "9" * 5000, "1e999", "NaN", ""]


def _write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def _refused(reader: Callable[[Path], object], path: Path, said: str = "") -> PolyrefError:
    with pytest.raises(PolyrefError, match=said or None) as raised:
        reader(path)
    assert str(path) in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    "line",
    [
        '{"refs": [{"text": "a", "weight": ' + "9" * 400 + "}]}",
        '{"refs": [{"text": "a", "logprob": -' + "9" * 400 + "}]}",
        '{"refs": [{"text": "a", "rank": ' + "9" * 4301 + "}]}",
        '{"refs": [{"text": "a"}], "more": 1e999}',
        '{"refs": [{"text": "a", "more": {"x": [-1e999]}}]}',
        '{"refs": [{"text": "a"}], "more": ' + DEEP + "}",
        '{"refs": [{"text": "a"}], "more": ' + NESTED + "}",
        '{"reference": "a", "paraphrases": ["b"], "x": 1e999}',
    ],
)
def test_lines_of_sets(tmp_path: Path, line: str) -> None:
    path = _write(tmp_path / "set.jsonl", '{"refs": [{"text": "good"}], "id": "first"}\n' + line + "\n")
    if line.startswith('{"reference"'):
        _write(path, line + "\n")
    assert _refused(ReferenceSet.load, path).line == (1 if line.startswith('{"reference"') else 2)


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e999"])
def test_numbers_of_judgements(tmp_path: Path, number: str) -> None:
    path = _write(tmp_path / "x.jsonl", f'{{"ref": "a", "sys": "b", "score": {number}}}\n')
    assert _refused(lambda path: read_training([path]), path).line == 1


@pytest.mark.parametrize(
    "text",
    [f"[length]\nlow = {'9' * 400}\n", f"[length]\nlow = {'9' * 5000}\n", "a = " + "[" * 5000 + "]" * 5000 + "\n"],
    ids=["400 digits", "5000 digits", "deep"],
)
def test_filters(tmp_path: Path, text: str) -> None:
    _refused(read_filter, _write(tmp_path / "f.toml", text))


def test_baselines(tmp_path: Path) -> None:
    _refused(lambda path: read_baseline(path, 0), _write(tmp_path / "b.tsv", "LAYER,P,R,F\n0," + "1" * 200_000 + "\n"))


@pytest.mark.parametrize(
    "header", ['{"journal": 1}', '{"journal": 1, "settings": 5}', "[]", "{", '{"journal": 1, "settings": ' + DEEP + "}"]
)
def test_journals(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.partial"
    lines = [header.encode(), b'{"a": 1}']
    path.write_bytes(b"".join(_checksum(line) + b" " + line + b"\n" for line in lines))
    _refused(lambda path: Journal.open(path, {"k": 1}), path, "in the way")


@pytest.mark.parametrize("config", ODD)
def test_configurations(tmp_path: Path, config: str) -> None:
    _write(tmp_path / "config.json", config)
    _refused(read_config, tmp_path)
    assert is_pointer_folder(tmp_path) is False
    for name in ("model.safetensors", "spm.model"):
        shutil.copy(SHIPPED / "en" / name, tmp_path / name)
    for reader in (load_pointer, read_card, lambda path: load_encoder(str(path))):
        _refused(reader, tmp_path)


@pytest.mark.parametrize("kind", [["bart"], {"a": 1}, 5, True])
def test_model_types(tmp_path: Path, kind: object) -> None:
    _write(tmp_path / "config.json", json.dumps({"model_type": kind}))
    _refused(load_checkpoint, tmp_path, "model_type")


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 0}, {"d_model": -4}, {"d_model": 10**9}, {"vocab_size": 10**12}, {"heads": 0}, {"heads": 7},
        {"encoder_layers": 10**7}, {"ffn": "x"}, {"max_source": 0}, {"max_source": 10**12}, {"max_target": -1},
        {"d_model": 10**400}, {"heads": 2.5}, {"decoder_layers": 0},
    ],
)  # fmt: skip
def test_sizes_of_shipped_models(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = Path(shutil.copytree(SHIPPED / "en", tmp_path / "m"))
    config = json.loads((folder / "config.json").read_text())
    config["network"].update(changes)
    (folder / "config.json").write_text(json.dumps(config))
    _refused(load_pointer, folder)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["missing", "shape", "scalar"])
def test_scales_of_shipped_models(tmp_path: Path, odd: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(SHIPPED / "en", tmp_path / "m"))
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(".scale"))
    found = tensors.pop(name)
    if odd != "missing":
        tensors[name] = found[:3].clone() if odd == "shape" else torch.tensor(1.0)
    save_file(tensors, folder / "model.safetensors")
    _refused(load_pointer, folder)


@pytest.mark.parametrize("changes", [{"hidden": 10**9}, {"width": 10**9}, {"layers": [10**30]}, {"hidden": 10**400}])
def test_sizes_of_esim_models(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_model(tmp_path / "esim", tmp_path / "bert")
    card = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**card, **changes}))
    _refused(lambda path: load_network(read_card(path)), folder)


def _encode(folder: Path) -> object:
    load_encoder.cache_clear()
    found = load_encoder(str(folder))
    (tokens,) = found.tokens(["a cat"])
    assert found.longest > 0
    return found.states(tokens.ids[None], [1])


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 0}, {"num_attention_heads": "x"}, {"num_hidden_layers": -1}, {"hidden_size": 0},
        {"max_position_embeddings": "x"}, {"max_position_embeddings": [1]}, {"hidden_act": "nothing"},
        {"vocab_size": -5}, {"num_hidden_layers": True},
    ],
)  # fmt: skip
def test_sizes_of_encoders(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = bert(tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    _refused(_encode, folder)


class Run:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


def test_pickles_in_place_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = bert(tmp_path / "bert")
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Run()))
    _refused(_encode, folder)
    torch.save({"x": Run()}, folder / "pytorch_model.bin")
    _refused(_encode, folder)
    _refused(read_weights, folder)
    torch.save([torch.zeros(1)], folder / "pytorch_model.bin")
    _refused(read_weights, folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("index", [DEEP, '{"weight_map": {"a": 5}}', '{"weight_map": {"a": [1]}}', "\udcff", "[]"])
def test_indices_of_weights(tmp_path: Path, index: str) -> None:
    _write(tmp_path / "model.safetensors.index.json", index)
    _refused(read_weights, tmp_path)


def test_a_tokeniser_that_knows_no_unknown_word(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    words = (folder / "vocab.txt").read_text().splitlines()
    from tokenizers import Tokenizer, models

    made = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words) if word != "[UNK]"}))
    made.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    _write(folder / "tokenizer_config.json", '{"tokenizer_class": "PreTrainedTokenizerFast"}')
    _refused(_encode, folder)


# -- bombs ---------------------------------------------------------------------------------------------------------


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(20):
            stream.write(b"a" * (1 << 20))
    error = _refused(read_lines, path, "longer than 16777216 bytes")
    assert error.line == 1
    assert "POLYREF_MAX_LINE" in str(error)
    monkeypatch.setenv("POLYREF_MAX_LINE", str(32 << 20))
    assert len(read_lines(path)[0]) == 20 << 20
    monkeypatch.setenv("POLYREF_MAX_LINE", "3")
    assert read_lines(_write(tmp_path / "x", "abc\nabc\r\nabc")) == ["abc", "abc", "abc"]
    assert _refused(read_lines, _write(tmp_path / "x", "abc\nabcd\n")).line == 2
    for odd in ("x", "0", "-1"):
        monkeypatch.setenv("POLYREF_MAX_LINE", odd)
        with pytest.raises(DataError, match="POLYREF_MAX_LINE is"):
            read_lines(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sgm", '<refset><doc docid="d"><seg id="1" ' + "9" * 300_000),
        ("a.json", '[{"ref": "' + '\\"' * 300_000 + "\n"),
        ("a.json", "[" * 300_000),
        ("a.txt", "['" + "\\'" * 300_000),
        ("a.txt", "[" + "-" * 300_000 + "1]\n"),
    ],
)
def test_texts_that_are_looked_at_once(tmp_path: Path, name: str, text: str) -> None:
    """Each of them would take minutes where a pattern begins anew at every character."""
    path = _write(tmp_path / name, text)
    start = time.process_time()
    if name == "a.txt":
        assert len(ReferenceSet.load(path)) == 1
    else:
        _refused(ReferenceSet.load, path)
    assert time.process_time() - start < 20


def test_archives_larger_than_they_are(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": {"x": torch.zeros(1 << 20)}, "args": None}, path)
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    path.write_bytes(packed.getvalue())
    _refused(read_fairseq_checkpoint, path, "unpack")
    shutil.copy(path, tmp_path / "pytorch_model.bin")
    _refused(read_weights, tmp_path, "unpack")


# -- the command line ------------------------------------------------------------------------------------------------


def _polyref(*arguments: str | bytes, shell: str = "") -> subprocess.CompletedProcess[bytes]:
    command: list[str | bytes] = [sys.executable, "-m", "polyref", *arguments]
    if shell:
        command = ["sh", "-c", f'"$@" {shell}', "sh", *command]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.mark.slow
def test_standard_input_that_is_closed(tmp_path: Path) -> None:
    _write(tmp_path / "sys", "a\n")
    for arguments in (("score", "-", "-i", str(tmp_path / "sys")), ("augment", "-")):
        done = _polyref(*arguments, shell="<&-")
        assert done.returncode == 1
        assert done.stderr.decode() == "polyref: error: <stdin>: cannot be read: it is closed\n"


@pytest.mark.slow
def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    refs = _write(tmp_path / "refs", "a b c d\n")
    name = os.path.join(os.fsencode(tmp_path), b"sys\xff")  # noqa: PTH118 - of bytes
    shutil.copy(refs, name)
    for more in ((), ("--json",), ("-o", str(tmp_path / "out"))):
        done = _polyref("score", str(refs), "-i", name, "-m", "bleu", "-k", "0", *more)
        assert done.returncode == 0, done.stderr
    assert "sys\\xff" in (tmp_path / "out").read_text("utf-8")


# -- a small fuzzer --------------------------------------------------------------------------------------------------

SET = (
    '{"polyref": 1, "meta": {"generator": "x", "k": 3}}\n'
    '{"id": "1", "source": "s", "refs": [{"text": "a \\u00e4"}, {"text": "b", "kind": "paraphrase", "of": 0, '
    '"rank": 1, "weight": 0.5, "logprob": -1.25e0, "generator": "g", "x": [1, {"y": null}]}], "z": true}\n'
)
JUDGED = '{"ref": "a", "sys": "b", "score": 1.5, "annotator": "x"}\n{"ref": "a", "sys": "c", "score": 0}\n'
FILTER = 'base = "default"\necho = false\nnames = true\n[length]\nlow = 0.75\nhigh = 1.4\n[omission]\nallowed = 0.5\n'
CARD = {
    "polyref_esim": 1, "name": "x", "encoder": {"load": "a", "name": "b", "sha256": "c"}, "layers": [1, 2],
    "width": 4, "hidden": 4, "longest": 9, "lowercase": False, "data": [{"name": "d"}],
}  # fmt: skip
#: Put in the place of a part of a file.
PARTS = (
    b"", b"0", b"-1", b"1e999", b"9" * 400, b"9" * 4301, b"[" * 3000, b'{"a":' * 3000, b"null", b"true", b'"', b"{",
    b"}", b"[", b"]", b",", b":", b"\n", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"NaN",
    b"-Infinity", b"=", b"[x]", b"\t", b"1970-01-01", "\u2028".encode(), b"<s>", b"LAYER",
)  # fmt: skip


def _journal(path: Path) -> None:
    with Journal.open(path, {"a": 1}) as journal:
        list(journal)


def _references_and_outputs(path: Path) -> None:
    """Both, whatever the first one finds."""
    try:
        ReferenceSet.load(path)
    finally:
        read_outputs(path)


XML = """<?xml version="1.0"?>
<dataset id="x"><collection id="g"><doc id="d" origlang="a"><src lang="a"><p><seg id="1">b</seg></p></src>
<ref translator="A"><p><seg id="1">c &amp; d</seg></p></ref><hyp system="s"><seg id="1">e</seg></hyp></doc>
</collection></dataset>
"""
#: Name of the file -> (a valid one, what reads it).
READERS: Mapping[str, tuple[bytes, Callable[[Path], object]]] = {
    "set.jsonl": (SET.encode(), ReferenceSet.load),
    "simple.jsonl": (b'{"id": "1", "reference": "a", "paraphrases": ["b", "c"]}\n', ReferenceSet.load),
    "plain": (b"one\ntwo\n", ReferenceSet.load),
    "set.jsonl.gz": (gzip.compress(SET.encode(), mtime=0), ReferenceSet.load),
    "table.tsv": (b"id\treference\tparaphrase1\n1\ta\tb\n2\tc\t\n", ReferenceSet.load),
    "table.csv": (b'id,ref,mt\n1,"a, ""b""",c\n2,d,e\n', _references_and_outputs),
    "comet.json": (b'[{"src": "a", "mt": "b", "ref": "c"},\n {"mt": "d", "ref": "e"}\n]\n', _references_and_outputs),
    "keys.jsonl": (b'{"src": "a", "hypothesis": "b", "refs": ["c", "d"]}\n{"hypothesis": "", "refs": []}\n',
                   _references_and_outputs),
    "lists.txt": (b"['a', \"b\"]\n['c']\n", ReferenceSet.load),
    "nbest.jsonl": (b'{"id": 1, "text": "a", "paraphrases": [{"text": "b", "score": -0.5}]}\n', ReferenceSet.load),
    "general.jsonl": (b'{"doc_id": "d", "src_lang": "a", "tgt_lang": "b", "src_text": "x\\n\\ny", "refs": '
                      b'{"A": {"ref": "z\\n\\nw"}}}\n', ReferenceSet.load),
    "outputs.jsonl": (b'{"doc_id": "d", "hypothesis": "x\\n\\ny", "metadata": {}}\n', read_outputs),
    "set.xml": (XML.encode(), _references_and_outputs),
    "set.sgm": (b'<refset setid="x" trglang="en">\n<doc docid="d" sysid="ref">\n<seg id="1"> a &amp; b </seg>\n'
                b"<seg id='2'>c</seg>\n</doc>\n</refset>\n", _references_and_outputs),
    "judged.jsonl": (JUDGED.encode(), lambda path: read_training([path])),
    "filter.toml": (FILTER.encode(), read_filter),
    "baseline.tsv": (b"LAYER,P,R,F\n0,0.1,0.2,0.3\n1,0.2,0.3,0.4\n", lambda path: read_baseline(path, 1)),
    "dict.txt": (b"<en> 1\nthe 4\ncat 3\n", FairseqDictionary),
    "x.partial": (_checksum(b'{"journal": 1, "settings": {"a": 1}}') + b' {"journal": 1, "settings": {"a": 1}}\n'
                  + _checksum(b'{"r": 1}') + b' {"r": 1}\n', _journal),
    "config.json": (b'{"model_type": "bart", "d_model": 4, "x": [1]}', lambda path: read_config(path.parent)),
    "card/config.json": (json.dumps(CARD).encode(), lambda path: read_card(path.parent)),
    "x.npz": (b"", Statistics.load),
}  # fmt: skip


def _mutated(content: bytes, drawn: random.Random) -> bytes:
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
    return bytes(made)


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize("most", [400, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutated_files(tmp_path: Path, most: int) -> None:
    drawn = random.Random(7)
    end = time.monotonic() + 60
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "model.safetensors").write_bytes(b"")
    for count in range(most):
        name, (content, reader) = drawn.choice(list(READERS.items()))
        path = tmp_path / name
        made = _mutated(content, drawn)
        path.write_bytes(made)
        try:
            reader(path)
        except PolyrefError as error:
            assert error.file is not None or name == "judged.jsonl"
        except Exception as error:
            raise AssertionError(f"case {count}, {name}: {made[:500]!r}") from error
        if time.monotonic() > end:
            assert count > 400
            break


def test_a_missing_model_type_is_told(tmp_path: Path) -> None:
    _write(tmp_path / "config.json", "{}")
    with pytest.raises(ModelError):
        load_checkpoint(tmp_path)
