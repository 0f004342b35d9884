"""Whatever a file holds, its reader ends in time with polyref's error, which names the file."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from esim.judgements import read_training
from esim_fixtures import write_model
from tiny_encoders import bert

from polyref.augment.filters import read_filter
from polyref.augment.pipeline import Tally
from polyref.chat.answers import Answers
from polyref.errors import DataError, ModelError, PolyrefError
from polyref.eval.data.releases import open_release
from polyref.formats import read_outputs
from polyref.metrics.embedding.bertscore import read_baseline
from polyref.metrics.esim.card import CONFIG, read_card
from polyref.metrics.esim.network import load_network
from polyref.metrics.statistics import Statistics
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.checkpoints.seq2seq import load_checkpoint, read_fairseq_checkpoint
from polyref.models.encoders import load_encoder
from polyref.models.opening import SHIPPED, check_archive, find, read_config, read_weights
from polyref.publishing import publish_together
from polyref.references import ReferenceSet
from polyref.store import Journal, _checksum, pack
from polyref.textfiles import most_lines, read_lines

MINIMAL = Path(__file__).resolve().parent / "eval" / "minimal"
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
    [
        f"[length]\nlow = {'9' * 400}\n",
        f"[length]\nlow = {'9' * 5000}\n",
        "a = " + "[" * 5000 + "]" * 5000 + "\n",
        "[embedding]\npower = inf\n",
        "[fluency]\nmin = -inf\n",
        "[embedding]\nmin = nan\n",
    ],
    ids=["400 digits", "5000 digits", "deep", "inf", "-inf", "nan"],
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


TALLY: dict[str, Any] = Tally(segments=1).record()
LINE = '{"id": "1", "refs": [{"text": "a", "kind": "human"}]}\n'


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (5, " is 5, expected an object"),
        ({"lines": [LINE]}, ".tally is missing, expected an object"),
        ({"lines": LINE, "tally": TALLY}, ".lines is .*, expected a list"),
        ({"lines": [5], "tally": TALLY}, r".lines\[0\] is 5, expected text"),
        ({"lines": [LINE], "tally": [1]}, r".tally is \[1\], expected an object"),
        ({"lines": [LINE], "tally": {**TALLY, "kept": "1"}}, '.tally.kept is "1", expected a whole number'),
        ({"lines": [LINE], "tally": {**TALLY, "kept": True}}, ".tally.kept is true, expected a whole number"),
        ({"lines": [LINE], "tally": {**TALLY, "short": -1}}, ".tally.short is -1, expected a whole number"),
        ({"lines": [LINE], "tally": {**TALLY, "failed": 5}}, ".tally.failed is 5, expected an object"),
        ({"lines": [LINE], "tally": {**TALLY, "dropped": {"a": []}}}, r".tally.dropped.a is \[\], expected a whole"),
        ({"lines": [LINE], "tally": {**TALLY, "dropped": [["a", 1]]}}, ".tally.dropped is .*, expected an object"),
    ],
    ids=["number", "no-tally", "text", "line", "list", "word", "truth", "negative", "failed", "reason", "reasons"],
)
def test_records_of_augmentations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polyref: Callable[..., Any], record: Any, fault: str
) -> None:
    refs, lists, out = (tmp_path / name for name in ("refs", "lists.jsonl", "out"))
    refs.write_text("a\n")
    lists.write_text('{"reference": "a", "paraphrases": ["b"]}\n')
    command = ["augment", refs, "--candidates", lists, "-k", "1", "--lang", "en", "-o", out]
    with monkeypatch.context() as stopped:
        stopped.setattr("polyref.augment.writer.write_atomically", None)  # all is finished, and the result not written
        with pytest.raises(TypeError):
            polyref(*command)
    journal = tmp_path / "out.partial"
    header, _ = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(header + pack(record))
    done = polyref(*command)
    assert done.code == 1
    expected = rf"out\.partial:2: the record{fault}.* \(delete the unfinished work, and start afresh\)\n"
    assert re.search(expected, done.err), done.err


ANSWER: dict[str, Any] = {"content": "x", "prompt_tokens": 1}


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ([], r"the record is \[\], expected an object"),
        ({"answer": ANSWER}, "the record.key is missing, expected text"),
        ({"key": 5, "answer": ANSWER}, "the record.key is 5, expected text"),
        ({"key": "k", "answer": "x"}, 'the record.answer is "x", expected an object'),
        ({"key": "k", "answer": {**ANSWER, "model": {}}}, r"the record.answer.model is {}, expected text"),
        ({"key": "k", "answer": {"content": ["x"]}}, r'the record.answer.content is \["x"\], expected text'),
        ({"key": "k", "answer": {"prompt_tokens": "5"}}, 'the record.answer.prompt_tokens is "5", expected a whole n'),
        ({"key": "k", "server": 5, "answer": ANSWER}, "the record.server is 5, expected text"),
    ],
    ids=["list", "no-key", "key", "text", "model", "content", "tokens", "server"],
)
def test_records_of_answers(tmp_path: Path, record: Any, fault: str) -> None:
    path = tmp_path / "answers"
    Answers(path).close()
    with Journal.open(path, {"answers of language models": 1}) as journal:
        journal.append({"key": "k", "answer": {**ANSWER, "model": None}})
        journal.append(record)
    with pytest.raises(DataError, match=rf"answers:3: {fault}.* \(move the file away, or delete this line and all"):
        Answers(path)


@pytest.mark.slow
@pytest.mark.parametrize("config", ODD)
def test_configurations(tmp_path: Path, config: str) -> None:
    _write(tmp_path / "config.json", config)
    _refused(read_config, tmp_path)
    _refused(lambda path: find(path, "generator"), tmp_path)
    for name in ("model.safetensors", "spm.model"):
        shutil.copy(SHIPPED / "en" / name, tmp_path / name)
    for reader in (load_pointer, read_card, lambda path: load_encoder(str(path))):
        _refused(reader, tmp_path)


@pytest.mark.parametrize("kind", [["bart"], {"a": 1}, 5, True])
def test_model_types(tmp_path: Path, kind: object) -> None:
    _write(tmp_path / "config.json", json.dumps({"model_type": kind}))
    _refused(load_checkpoint, tmp_path, "model_type")


@pytest.mark.slow
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


@pytest.mark.parametrize("cleaned", [False, True], ids=["as it is", "cleaned"])
def test_a_tokeniser_that_knows_no_unknown_word(tmp_path: Path, cleaned: bool) -> None:
    folder = bert(tmp_path / "bert")
    words = (folder / "vocab.txt").read_text().splitlines()
    from tokenizers import Tokenizer, models, normalizers

    made = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words) if word != "[UNK]"}))
    if cleaned:  # of characters that are no letters
        made.normalizer = normalizers.BertNormalizer()
    made.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    _write(folder / "tokenizer_config.json", '{"tokenizer_class": "PreTrainedTokenizerFast"}')
    _refused(_encode, folder, "its tokeniser fails at unknown characters")


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


def _statistics(path: Path) -> Path:
    from polyref.metrics import get_metric

    metric = get_metric("chrf")
    metric.statistics({"x": ["a"]}, ReferenceSet.from_texts([["a"]]), ks=[0]).save(path)
    return path


def test_statistics_larger_than_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _statistics(tmp_path / "x.npz")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("more.npy", "w") as part:
        for _ in range(32):
            part.write(bytes(1 << 20))
    assert path.stat().st_size < 100_000
    Statistics.load(path)
    monkeypatch.setenv("POLYREF_MAX_UNPACKED", str(32 << 20))
    error = _refused(Statistics.load, path, "unpacks to more than 33554432 bytes")
    assert "POLYREF_MAX_UNPACKED=BYTES" in str(error)
    for odd in ("x", "0"):
        monkeypatch.setenv("POLYREF_MAX_UNPACKED", odd)
        with pytest.raises(DataError, match="POLYREF_MAX_UNPACKED is"):
            Statistics.load(path)


def test_many_short_lines_that_were_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 20)))
    monkeypatch.setenv("POLYREF_MAX_UNPACKED", "1000")
    assert _refused(read_lines, path, "unpacks to more than 1000 bytes").line == 1001
    assert len(read_lines(_write(tmp_path / "plain", "\n" * 2000))) == 2000


def test_the_number_of_lines_of_what_was_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "x.gz", tmp_path / "x.xz"]
    assert most_lines() == 10_000_000
    for path, packed in zip(paths, (gzip.compress, lzma.compress), strict=True):
        path.write_bytes(packed(b"\n" * 1001))
        monkeypatch.setenv("POLYREF_MAX_LINES", "1000")
        for reader in (read_lines, ReferenceSet.load, read_outputs):
            error = _refused(reader, path, "holds more than 1000 lines")
            assert error.line == 1001 and "POLYREF_MAX_LINES=NUMBER" in str(error)
        monkeypatch.setenv("POLYREF_MAX_LINES", "1001")
        assert len(read_lines(path)) == 1001
    # The bound is of packed files alone: others are as large as they are.
    assert len(read_lines(_write(tmp_path / "plain", "\n" * 2000))) == 2000
    for odd in ("x", "0"):
        monkeypatch.setenv("POLYREF_MAX_LINES", odd)
        with pytest.raises(DataError, match=r"POLYREF_MAX_LINES is .*, expected a number of lines from 1"):
            read_lines(paths[0])


def test_the_number_of_elements_of_what_was_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.de-en.xml.gz"
    path.write_bytes(gzip.compress(b"<dataset>" + b"<p/>" * 2000 + b"</dataset>"))
    monkeypatch.setenv("POLYREF_MAX_LINES", "1000")
    _refused(lambda path: open_release(path, "de-en"), path, "holds more than 1000 elements")
    _refused(ReferenceSet.load, path, "holds more than 1000 elements")


@pytest.mark.parametrize("release", [False, True], ids=["set", "release"])
@pytest.mark.parametrize(
    ("start", "end"),
    [("<!--", "-->"), ("<p ", ">"), ('<p a="', '"/>'), ("<![CDATA[", "]]>"), ("<?x ", "?>"), ("<p>", "</p>"),
     ("<!--", "")],
    ids=["comment", "tag", "attribute", "cdata", "instruction", "text", "endless"],
)  # fmt: skip
def test_xml_takes_time_by_its_size(tmp_path: Path, start: str, end: str, release: bool) -> None:
    """Parsed line by line, each of them would take minutes, in blocks of one size the longer ones."""
    # Not whole megabytes, so that the last part is a part of a block.
    inside = "\n" * 50_345_678 if release else "\n" * 1_234_567
    path = _write(tmp_path / "set.de-en.xml", f"<dataset>{start}{inside}{end}</dataset>")
    began = time.process_time()
    if release:
        _refused(lambda path: open_release(path, "de-en"), path)
    else:
        _refused(ReferenceSet.load, path)
    assert time.process_time() - began < 30


def test_a_release_that_was_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.de-en.xml.gz"
    path.write_bytes(gzip.compress(b"<dataset>" + b"\n" * (1 << 20) + b"</dataset>"))
    _refused(lambda path: open_release(path, "de-en"), path, "no documents")
    monkeypatch.setenv("POLYREF_MAX_UNPACKED", "1000")
    _refused(lambda path: open_release(path, "de-en"), path, "unpacks to more than 1000 bytes")


def test_a_packed_checkpoint_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, packed = tmp_path / "checkpoint.pt", io.BytesIO()
    torch.save({"x": torch.zeros(1 << 10)}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    path.write_bytes(packed.getvalue())
    _refused(check_archive, path, "POLYREF_MAX_UNPACKED=BYTES")
    monkeypatch.setenv("POLYREF_MAX_UNPACKED", "100000")
    check_archive(path)


def test_records_of_unfinished_renames(tmp_path: Path) -> None:
    """A record in a folder that others can write to renames nothing but what was made for its target."""
    for number, odd in enumerate(
        (*ODD, '{"mine": "yours"}', '{"a": 5}', '{".b.1.tmp": null}', '{"' + "x" * 300 + '": "x"}')
    ):
        _write(tmp_path / f".{number:016x}.pending", odd)
    (tmp_path / "mine").write_text("mine")
    publish_together({tmp_path / "one": b"1", tmp_path / "two": b"2"})
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "two").read_bytes() == b"2"


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


def test_a_missing_model_type_is_told(tmp_path: Path) -> None:
    _write(tmp_path / "config.json", "{}")
    with pytest.raises(ModelError):
        load_checkpoint(tmp_path)


@pytest.mark.slow
def test_names_that_are_too_long(tmp_path: Path) -> None:
    texts, long = str(_write(tmp_path / "refs", "a\n")), str(tmp_path / ("a" * 300))
    evaluate = ("-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu")
    for arguments in (
        ("evaluate", long, *evaluate),
        ("evaluate", str(MINIMAL), *evaluate, "-o", long),
        ("evaluate", str(MINIMAL), *evaluate, "--refs", long),
        ("score", texts, "-i", long, "-m", "bleu"),
        ("augment", long, "-o", str(tmp_path / "out")),
        ("paraphrase", texts, "--model", long, "--lang", "en"),
    ):
        done = _polyref(*arguments)
        said = done.stderr.decode()
        assert done.returncode == 1 and said.startswith("polyref: error: ") and long in said, said
        assert "File name too long" in said and said.count("\n") == 1


@pytest.mark.slow
def test_sets_with_file_names_that_are_no_text(tmp_path: Path) -> None:
    home = Path(os.fsdecode(os.fsencode(tmp_path) + b"/set\xff"))
    shutil.copytree(MINIMAL, home)
    odd = os.fsdecode(b"Al\xfepha")
    (home / "system-outputs/de-en/Alpha.txt").rename(home / f"system-outputs/de-en/{odd}.txt")
    for path in (*home.glob("human-scores/*"), *home.glob("metric-scores/*/*"), *home.glob("darr/*")):
        path.write_text(path.read_text().replace("Alpha", r"Al\xfepha"))
    added = os.fsencode(home / "paraphrases/de-en.refA.jsonl")
    base = (os.fsencode(home), "-l", "de-en", "--ref", "refA", "--refs", added)
    for more in (("-v",), ("--json",), ("-v", "-o", os.fsencode(home) + b".report")):
        done = _polyref("evaluate", *base, "--gold", "mqm", "-m", "bleu", "-n", "10", *more)
        assert done.returncode == 0, done.stderr
        assert "set:set\\xff|" in done.stdout.decode("utf-8").replace("\\\\", "\\")
    report = json.loads((home.with_name(home.name + ".report") / "report.json").read_text("utf-8"))
    assert "Al\\\\xfepha" in json.dumps(report)
    (home / "darr/de-en.tsv").unlink()
    task = ("--year", "2024", "--name", "x", "--testset", "t", "-o", os.fsencode(home) + b".out")
    assert _polyref("submit", *base, *task).returncode == 0
    scores = home.with_name(home.name + ".out") / "x.sys.score"
    assert "\tAl\\xfepha\t" in scores.read_text("utf-8")
    # Names on the command line that are no text cannot be written into the files of the task.
    for name, value in (("--name", b"\xff"), ("--testset", b"\xff"), ("--reference", b"\xff")):
        done = _polyref("submit", *base, *task, name, value)
        assert done.returncode in (1, 2) and done.stderr.startswith(b"polyref: error: "), done.stderr
