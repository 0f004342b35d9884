"""A small fuzzer: whatever is in a file, each reader takes it or ends with polyref's error, which names a file."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import wmt_json
from esim.judgements import read_training
from fuzzed_sets import JUDGEMENTS, archive_files, text_release_files, xml_release
from spoilt import mutated
from thorough import THOROUGH
from wmt_items import rows_of, write_items

from polyref.augment.filters import read_filter
from polyref.cache import Cache
from polyref.chat.answers import Answers
from polyref.errors import PolyrefError, UsageError
from polyref.eval.api import evaluate
from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.releases import open_release
from polyref.eval.data.score_files import read_segment_scores, read_system_scores
from polyref.eval.data.task_files import FIELDS
from polyref.eval.judged import gold_from_file
from polyref.eval.submission import TestSet, validate
from polyref.eval.submit import Submission, submit
from polyref.eval.submit_items import check_items
from polyref.formats import read_outputs
from polyref.formats.base import Lines
from polyref.formats.metrics_task import read_items
from polyref.metrics import get_metric
from polyref.metrics.embedding.bertscore import read_baseline
from polyref.metrics.esim.card import read_card
from polyref.metrics.statistics import Statistics
from polyref.models.checkpoints.comet import _read_yaml
from polyref.models.checkpoints.seq2seq import read_fairseq_checkpoint
from polyref.models.checkpoints.text import FairseqDictionary
from polyref.models.opening import read_config, read_weights
from polyref.publishing import publish_together
from polyref.references import Reference, ReferenceSet, Segment
from polyref.store import Journal, _checksum
from polyref.textfiles import iter_lines

MINIMAL = Path(__file__).resolve().parent / "eval" / "minimal"
PAIR = "de-en"

#: Spoilt files in the slow tests, in all. With POLYREF_FUZZ they look longer.
MOST = int(os.environ.get("POLYREF_FUZZ", "100000" if THOROUGH else "16000"))
SEEDS = (9, 10, 11, 12)

SET = (
    '{"polyref": 1, "meta": {"generator": "x", "k": 3}}\n'
    '{"id": "1", "source": "s", "refs": [{"text": "a \\u00e4"}, {"text": "b", "kind": "paraphrase", "of": 0, '
    '"rank": 1, "weight": 0.5, "logprob": -1.25e0, "generator": "g", "x": [1, {"y": null}]}], "z": true}\n'
)
JUDGED = (
    '{"ref": "a", "sys": "b", "score": 1.5, "annotator": "x"}\n{"ref": "a", "sys": "c", "score": 0, "annotator": "x"}\n'
)
FILTER = 'base = "default"\necho = false\nnames = true\n[length]\nlow = 0.75\nhigh = 1.4\n[omission]\nallowed = 0.5\n'
CARD = {
    "polyref_esim": 1, "name": "x", "encoder": {"load": "a", "name": "b", "sha256": "c"}, "layers": [1, 2],
    "width": 4, "hidden": 4, "longest": 9, "lowercase": False, "data": [{"name": "d"}],
}  # fmt: skip
TESTSET = TestSet(PAIR, "set", ("d1", "d1"), ("news", "news"))


ITEMS = rows_of("eng_Latn-deu_Latn", ["a b", "c"], {"A": ["x y", "z"], "B 2": ["x", ""]}, ["x y", "z w"])
XML = """<?xml version="1.0"?>
<dataset id="x"><collection id="g"><doc id="d" origlang="a"><src lang="a"><p><seg id="1">b</seg></p></src>
<ref translator="A"><p><seg id="1">c &amp; d</seg></p></ref><hyp system="s"><seg id="1">e</seg></hyp></doc>
</collection></dataset>
"""


def _references_and_outputs(path: Path) -> None:
    """Both, whatever the first one finds."""
    try:
        ReferenceSet.load(path)
    finally:
        read_outputs(path)


def _submitted(path: Path) -> None:
    submit(path, (), path.with_name("out26.jsonl"), Submission(2026, "m", metric="chrf"))


def _journal(path: Path) -> None:
    with Journal.open(path, {"a": 1}) as journal:
        list(journal)


def _answers(path: Path) -> None:
    """As if whoever spoilt the records had made their checksums."""
    lines = [line[17:] for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(_checksum(line) + b" " + line + b"\n" for line in lines))
    Answers(path).close()


def _cache(path: Path) -> None:
    cache = Cache(path.parent)
    cache.get([b"a", b"b"])
    cache.put({b"c": b"d"})
    cache.close()


def _published(path: Path) -> None:
    publish_together({path.parent / "one": b"1", path.parent / "two": b"2"})
    assert (path.parent / "one").read_bytes() == b"1"


def read_whole(evalset: EvalSet) -> None:
    """Everything that a set has."""
    evalset.known(evalset.outputs(evalset.output_files))
    reference_set(evalset, list(evalset.reference_files))
    assert evalset.documents is None or len(evalset.documents) == evalset.segments
    assert all(note.encode("utf-8") for note in evalset.notes)
    for name in evalset.golds():
        for pairs in ("count", "merge", "drop"):
            evalset.gold(name, include_human=True, pairs=pairs)
    for metric, references in evalset.stored_names().items():
        for reference in references:
            evalset.stored(metric, reference.split("."))


def _evaluated_and_loaded(path: Path) -> None:
    """As a set and as references, whatever the first one finds."""
    try:
        read_whole(open_release(path, PAIR))
    finally:
        ReferenceSet.load(path, pair=PAIR)


def read_archive(folder: Path) -> None:
    """Everything that an archive of the metrics task has."""
    archive = MetricsTaskArchive(folder, PAIR)
    for name in archive.golds():
        archive.gold(name, include_human=True)
    for name in archive.stored_names():
        archive.stored(name)


def _statistics(path: Path) -> bytes:
    metric = get_metric("chrf")
    metric.statistics({"x": ["a", "b"]}, ReferenceSet.from_texts([["a"], ["c"]]), ks=[0]).save(path)
    return path.read_bytes()


def _checkpoint(*, zipped: bool = True) -> bytes:
    stored = io.BytesIO()
    held = {"model": {"x": torch.zeros(2)}, "args": None, "cfg": {"model": {"arch": "t", "n": [1]}}}
    torch.save(held, stored, _use_new_zipfile_serialization=zipped)
    return stored.getvalue()


def _sqlite(path: Path) -> bytes:
    cache = Cache(path)
    cache.put({b"a": b"b"})
    cache.close()
    return (path / "cache.sqlite").read_bytes()


Case = tuple[Path, bytes, Callable[[Path], object]]


def corpus(home: Path) -> list[Case]:
    """Every kind of file: where it is, a valid one, and what reads it."""
    from safetensors.torch import save

    cases: list[Case] = []

    def add(name: str, content: bytes | str, reader: Callable[[Path], object]) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(content)
        cases.append((path, content, reader))

    def add_folder(name: str, files: dict[str, bytes], reader: Callable[[Path], object]) -> None:
        """A folder of which one file at a time is spoilt, and the whole is read."""
        for file, content in files.items():
            add(f"{name}/{file}", content, lambda path: reader(home / name))

    add("set.jsonl", SET, ReferenceSet.load)
    add("simple.jsonl", '{"id": "1", "reference": "a", "paraphrases": ["b", "c"]}\n', ReferenceSet.load)
    add("plain", "one\ntwo\n", ReferenceSet.load)
    add("set.jsonl.gz", gzip.compress(SET.encode(), mtime=0), ReferenceSet.load)
    add("table.tsv", b"id\treference\tparaphrase1\n1\ta\tb\n2\tc\t\n", ReferenceSet.load)
    add("table.csv", b'id,ref,mt\n1,"a, ""b""",c\n2,d,e\n', _references_and_outputs)
    add("comet.json", b'[{"src": "a", "mt": "b", "ref": "c"},\n {"mt": "d", "ref": "e"}\n]\n', _references_and_outputs)
    add("keys.jsonl", b'{"src": "a", "hypothesis": "b", "refs": ["c", "d"]}\n{"hypothesis": "", "refs": []}\n',
                   _references_and_outputs)  # fmt: skip
    add("lists.txt", b"['a', \"b\"]\n['c']\n", ReferenceSet.load)
    add("nbest.jsonl", b'{"id": 1, "text": "a", "paraphrases": [{"text": "b", "score": -0.5}]}\n', ReferenceSet.load)
    add("general.jsonl", b'{"doc_id": "d", "src_lang": "a", "tgt_lang": "b", "src_text": "x\\n\\ny", "refs": '
                      b'{"A": {"ref": "z\\n\\nw"}}}\n', ReferenceSet.load)  # fmt: skip
    add("outputs.jsonl", b'{"doc_id": "d", "hypothesis": "x\\n\\ny", "metadata": {}}\n', read_outputs)
    write_items(items := home / "items.jsonl", ITEMS)
    add("items.jsonl", items.read_bytes(), _references_and_outputs)
    add("submitted.jsonl", items.read_bytes(), _submitted)
    add("packed.jsonl.gz", gzip.compress(items.read_bytes(), mtime=0), _submitted)
    submit(items, (), home / "pred.jsonl", Submission(2026, "m", metric="chrf"))
    add("pred.jsonl", (home / "pred.jsonl").read_bytes(),
        lambda path: check_items(path, read_items(Lines("items.jsonl", iter_lines(items)))))  # fmt: skip
    added = [Segment(row["item_id"], (Reference(row["ref"]["text"]), Reference("x", "paraphrase"))) for row in ITEMS]
    ReferenceSet(tuple(added)).save(home / "added26.jsonl")
    what = Submission(2026, "m", metric="chrf", references=home / "added26.jsonl")
    ordered = write_items(home / "ordered.jsonl", ITEMS, seed=None)
    add("added26.jsonl", (home / "added26.jsonl").read_bytes(),
        lambda path: submit(ordered, (), home / "out26.jsonl", what))  # fmt: skip
    add("set.xml", XML.encode(), _references_and_outputs)
    add("set.sgm", b'<refset setid="x" trglang="en">\n<doc docid="d" sysid="ref">\n<seg id="1"> a &amp; b </seg>\n'
                b"<seg id='2'>c</seg>\n</doc>\n</refset>\n", ReferenceSet.load)  # fmt: skip
    add("outputs.sgm", b'<tstset setid="x" trglang="en" sysid="s">\n<doc docid="d">\n<seg id="1"> a &amp; b </seg>\n'
                       b"<seg id='2'>c</seg>\n</doc>\n</tstset>\n", read_outputs)  # fmt: skip
    add("set.xlf", b'<?xml version="1.0"?>\n<xliff version="1.2"><file source-language="de" target-language="en">'
                   b'<body>\n<trans-unit id="1"><source>a<x id="1"/></source><target>b &amp; <g id="2">c</g></target>\n'
                   b"</trans-unit></body></file></xliff>\n", _references_and_outputs)  # fmt: skip
    add("set2.xlf", b'<xliff version="2.0" srcLang="de" trgLang="en"><file id="f">\n<unit id="u"><segment id="s">'
                b'<source>a</source><target>b <pc id="1">c</pc></target></segment></unit></file></xliff>\n',
        _references_and_outputs)  # fmt: skip
    add("set.tmx", b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="de"/><body>\n<tu tuid="1">'
                b'<tuv xml:lang="de"><seg>a</seg></tuv><tuv xml:lang="en-US"><seg>b<ph>x</ph></seg></tuv></tu>\n'
                b"</body></tmx>\n",
        _references_and_outputs)  # fmt: skip
    add("comet/hparams.yaml", "class_identifier: regression_metric\nhidden_sizes: [3, 2]\n", _read_yaml)
    add("judged.jsonl", JUDGED, lambda path: read_training([path]))
    add("ranked.jsonl", '{"ref": "a", "better": "b", "worse": "c", "weight": 2}\n', lambda path: read_training([path]))
    add("filter.toml", FILTER, read_filter)
    add("baseline.tsv", "LAYER,P,R,F\n0,0.1,0.2,0.3\n1,0.2,0.3,0.4\n", lambda path: read_baseline(path, 1))
    add("dict.txt", "<en> 1\nthe 4\ncat 3\n", FairseqDictionary)
    lines = (b'{"journal": 1, "settings": {"a": 1}}', b'{"r": 1}')
    add("x.partial", b"".join(_checksum(line) + b" " + line + b"\n" for line in lines), _journal)
    answer = b'{"key": "k", "server": "s", "answer": {"content": "x", "model": "m", "prompt_tokens": 5}}'
    lines = (b'{"journal": 1, "settings": {"answers of language models": 1}}', answer)
    add("answers", b"".join(_checksum(line) + b" " + line + b"\n" for line in lines), _answers)
    add("model/config.json", '{"model_type": "bart", "d_model": 4, "x": [1]}', lambda path: read_config(path.parent))
    add("card/model.safetensors", b"", lambda path: None)
    add("card/config.json", json.dumps(CARD), lambda path: read_card(path.parent))
    add("kept/x.npz", _statistics(home / "x.npz"), Statistics.load)
    tensors = {"a.b": torch.zeros(2, 3), "c": torch.ones(1, dtype=torch.float16)}
    add("safe/model.safetensors", save(tensors), lambda path: read_weights(path.parent))
    add("index/model.safetensors.index.json", '{"weight_map": {"a": "x.safetensors"}}',
        lambda path: read_weights(path.parent))  # fmt: skip
    add("index/x.safetensors", save(tensors), lambda path: read_weights(path.parent))
    add("bin/pytorch_model.bin", _checkpoint(), lambda path: read_weights(path.parent))
    add("fairseq/checkpoint.pt", _checkpoint(), read_fairseq_checkpoint)
    add("old/pytorch_model.bin", _checkpoint(zipped=False), lambda path: read_weights(path.parent))
    add("cache/cache.sqlite", _sqlite(home / "cache"), _cache)
    add("out/.0123456789abcdef.pending", '{".one.01234567.tmp": "one", ".two.01234567.tmp": "two"}', _published)

    scores = MINIMAL / "human-scores"
    for missing in (True, False):
        add(f"a{missing}.sys.score", (scores / "de-en.mqm.sys.score").read_bytes(),
            lambda path, missing=missing: read_system_scores(path, allow_missing=missing))  # type: ignore[misc]  # fmt: skip
        add(f"a{missing}.seg.score", (scores / "de-en.mqm.seg.score").read_bytes().replace(b"None", b"0"),
            lambda path, missing=missing: read_segment_scores(path, None, allow_missing=missing))  # type: ignore[misc]  # fmt: skip
    for (year, level), names in FIELDS.items():
        known = {"pair": PAIR, "testset": "set", "set_id": "set", "reference": "refA", "document": "d1", "doc_id": "d1",
                 "domain": "news", "domain_name": "news", "source_lang": "de", "target_lang": "en", "metric": "m",
                 "method": "m", "score": "1.5", "overall": "1e0"}  # fmt: skip
        rows = [
            "\t".join({**known, "segment": str(n), "segment_id": str(n), "system": s, "system_id": s}[x] for x in names)
            for s in ("a", "b")
            for n in ((1, 2) if level == "seg" else (1,))
        ]
        rows = ["\t".join(names), *rows] if year == 2025 else rows

        def read(path: Path, year: int = year, level: str = level) -> None:
            validate(path, year, level, [TESTSET])

        add(f"{year}.{level}", "\n".join(rows) + "\n", read)

    files = {str(path.relative_to(MINIMAL)): path.read_bytes() for path in MINIMAL.rglob("*.*") if path.is_file()}
    del files["paraphrases/de-en.refA.jsonl"]
    files["system-outputs/de-en/Delta.jsonl"] = b"".join(
        json.dumps({"hypothesis": f"\u00e4 {n}"}).encode() + b"\n" for n in range(5)
    )
    add_folder("set", files, lambda folder: read_whole(EvalSet(folder, PAIR)))
    whole = EvalSet(MINIMAL, PAIR)
    add("added.jsonl", (MINIMAL / "paraphrases/de-en.refA.jsonl").read_bytes(),
        lambda path: reference_set(whole, ["refA"], path))  # fmt: skip
    add("xml/set.de-en.xml", xml_release(MINIMAL), lambda path: read_whole(open_release(path, PAIR)))
    add("packed/set.de-en.all.xml.gz", gzip.compress(xml_release(MINIMAL).encode(), mtime=0),
        lambda path: read_whole(open_release(path.parent, PAIR, test_suites=True)))  # fmt: skip
    add_folder("text", text_release_files(MINIMAL), lambda folder: read_whole(open_release(folder, PAIR)))
    add_folder("archive", archive_files(), read_archive)
    for name, rows in (("humeval.jsonl", wmt_json.human_evaluation()), ("esa.jsonl", wmt_json.judgements()),
                       ("first.jsonl.gz", wmt_json.human_evaluation(rounds=True))):  # fmt: skip
        path = wmt_json.write(home / "json" / name, rows)
        add(f"json/{name}", path.read_bytes(), _evaluated_and_loaded)
    task = wmt_json.general_task(home / "task")
    general = {str(path.relative_to(task.parent)): path.read_bytes() for path in task.parent.rglob("*.jsonl")}
    add_folder("task", general, lambda folder: read_whole(open_release(folder / task.name, PAIR)))
    shutil.copytree(MINIMAL, home / "judged")
    for name, (kind, text) in JUDGEMENTS.items():
        read = partial(gold_from_file, EvalSet(home / "judged", PAIR), kind)
        add(f"judgements/{name}", text, read)
    return cases


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    return corpus(tmp_path)


@pytest.mark.slow
def test_the_files_are_valid_before(cases: list[Case]) -> None:
    for path, _, reader in cases:
        reader(path)


def _spoilt_files(cases: list[Case], most: int, seed: int) -> Iterator[tuple[int, Path, bytes, Callable[..., Any]]]:
    drawn = random.Random(seed)
    for count in range(most):
        # Every kind at least once, then at random.
        path, content, reader = cases[count] if count < len(cases) else drawn.choice(cases)
        made = mutated(content, drawn)
        path.write_bytes(made)
        yield count, path, made, reader
        path.write_bytes(content)


# A reader may warn, of blank lines at the end for one, and read on.
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize(
    ("most", "seed"), [(150, 7), *(pytest.param(MOST // len(SEEDS), seed, marks=pytest.mark.slow) for seed in SEEDS)]
)
def test_mutated_files(cases: list[Case], most: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Waiting for the disk is not what is tried here.
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for count, path, made, reader in _spoilt_files(cases, most, seed):
        try:
            start = time.process_time()
            reader(path)
        except PolyrefError as error:
            # Options in a file that do not fit together are no fault of a line; the message names the file.
            assert error.file is not None or (isinstance(error, UsageError) and str(path) in str(error)), error
            str(error).encode("utf-8")
        except Exception as error:
            raise AssertionError(f"case {count}, {path}: {made[:500]!r}") from error
        assert time.process_time() - start < 20, f"case {count}, {path}: {made[:500]!r}"


#: Put in the place of a value of JSON.
VALUES = (
    None,
    True,
    -1,
    1.5,
    "",
    " ",
    "a\tb",
    "x" * 999,
    "official_###_en_###_de_###_x_###_0",
    [],
    ["a"],
    {},
    {"a": "b"},
)


def _spoilt_rows(drawn: random.Random) -> list[Any]:
    """Items of which one value is another, or is gone; or which are another number."""
    rows: list[Any] = json.loads(json.dumps(ITEMS))
    place = drawn.choice([rows, *rows, *(row[key] for row in rows for key in ("ref", "hyps"))])
    key = drawn.choice(range(len(place)) if isinstance(place, list) else [*place])
    kind = drawn.random()
    if kind < 0.7:
        place[key] = drawn.choice(VALUES)
    elif kind < 0.85:
        del place[key]
    elif isinstance(place, list):
        place.append(place[key])
    else:
        place[str(drawn.choice(VALUES))] = place[key]
    return rows


def test_items_with_other_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    drawn, taken = random.Random(3), 0
    for count in range(200):
        path = write_items(tmp_path / "items.jsonl", _spoilt_rows(drawn))
        (tmp_path / "out26.jsonl").unlink(missing_ok=True)
        try:
            _submitted(path)
            taken += 1
        except PolyrefError as error:
            assert error.file is not None, f"case {count}: {error}"
            assert not (tmp_path / "out26.jsonl").exists()
    assert 20 < taken < 120


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize("most", [MOST // 100])
def test_mutated_sets_are_evaluated_and_submitted(tmp_path: Path, most: int) -> None:
    """What a reader lets through must not break what comes after it."""
    home, added = tmp_path / "set", tmp_path / "added.jsonl"
    shutil.copytree(MINIMAL, home)
    files = [path for path in home.rglob("*.*") if path.is_file() and path.suffix != ".tsv"]
    cases: list[Case] = [(path, path.read_bytes(), Path.read_bytes) for path in files]
    shutil.copy(MINIMAL / "paraphrases/de-en.refA.jsonl", added)
    cases.append((added, added.read_bytes(), Path.read_bytes))
    for count, path, made, _ in _spoilt_files(cases, most, seed=8):
        if count % 2:
            (home / "darr/de-en.tsv").unlink(missing_ok=True)
        else:
            shutil.copy(MINIMAL / "darr/de-en.tsv", home / "darr/de-en.tsv")
        try:
            gold = ("mqm", "wmt-z", "darr", "mqm")[count % 4] if count % 2 == 0 else "mqm"
            table = evaluate(
                home, PAIR, ref="refA", references=added, gold=gold, metrics=("bleu", "chrf"), resamples=20
            )
            table.text(120).encode("utf-8")
            json.dumps(table.rows, allow_nan=False).encode("utf-8")
            submit(home, PAIR, tmp_path / "out", Submission(2024, "m", "t", "chrf", ("refA",), added))
        except PolyrefError as error:
            str(error).encode("utf-8")
        except Exception as error:
            raise AssertionError(f"case {count}, {path}: {made[:500]!r}") from error
