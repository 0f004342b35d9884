"""The folder of a model runs none of its code, whatever it says of itself and whatever stands on standard input."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_chat import chat_model
from tiny_encoders import bert, gpt
from tiny_seq2seq import write_bart, write_t5

from polyref.augment.filters import adequacy
from polyref.errors import ModelError, PolyrefError
from polyref.metrics.embedding.encoders.load import load_encoder
from polyref.models.checkpoints.huggingface import read_generation
from polyref.models.scoring.language_model import load_language_model
from polyref.models.scoring.load import load_scorer
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.rewriting.local import LocalChat

pytestmark = pytest.mark.usefixtures("quiet_transformers")
KINDS = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "GenerationConfig")


def _encode(folder: Path) -> object:
    return load_encoder(str(folder)).states(np.array([[2, 5, 3]], dtype=np.int32), [1])


def _complete(folder: Path) -> object:
    found = LocalChat(folder, "cpu", "float32")
    return found.answer({"messages": [{"role": "user", "content": "the river"}], "temperature": 0, "max_tokens": 2})


#: What opens a folder, and what writes one that it opens.
READERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "tokens": (lambda folder: load_encoder(str(folder)).tokens(["a cat"]), bert),
    "vectors": (_encode, bert),
    "adequacy": (lambda folder: adequacy.load_encoder(str(folder)), bert),
    "language model": (lambda folder: load_language_model(str(folder)).fluency(["a cat"]), gpt),
    "lean scorer": (lambda folder: load_scorer(folder).name, write_bart),
    "scorer": (lambda folder: load_scorer(folder).name, write_t5),
    "paraphraser": (lambda folder: load_paraphraser(folder)("a cat", 2), write_t5),
    "causal": (lambda folder: load_paraphraser(f"causal:{folder}")("the river", 2), chat_model),
    "chat": (_complete, chat_model),
    "generation": (read_generation, write_t5),
}


def _arm(folder: Path, *, unknown: bool) -> None:
    """Put code into a folder and name it wherever Transformers looks; ``unknown``: under a type of its own."""
    code = f"open({str(folder / 'ran')!r}, 'w').close()\nclass Model: pass\ndef generate(*_, **__): pass\n"
    (folder / "custom_generate").mkdir()
    for name in ("theirs.py", "custom_generate/generate.py"):
        (folder / name).write_text(code, "utf-8")
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        file = folder / name
        settings = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        tokenizers = {"AutoTokenizer": ["theirs.Model", "theirs.Model"]}
        settings["auto_map"] = dict.fromkeys(KINDS, "theirs.Model") | tokenizers
        if unknown:
            settings |= {"model_type": "theirs", "tokenizer_class": "TheirTokenizer", "architectures": ["Theirs"]}
        file.write_text(json.dumps(settings), "utf-8")


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_runs_code_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, unknown: bool
) -> None:
    read, write = READERS[reader]
    folder = tmp_path / "model"
    write(folder)
    _arm(folder, unknown=unknown)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 20))
    try:
        read(folder)
    except PolyrefError as error:
        assert unknown, error
    assert not (folder / "ran").exists()
    assert sys.stdin.read() == "y\n" * 20  # nobody asked


def test_consent_on_standard_input_is_none(tmp_path: Path) -> None:
    bert(tmp_path / "model")
    _arm(tmp_path / "model", unknown=True)
    for name in ("out.txt", "ref.txt"):
        (tmp_path / name).write_text("A cat sat.\n", "utf-8")
    metric = f"bertscore(model={tmp_path / 'model'},layer=1)"
    files = [tmp_path / "ref.txt", "-i", tmp_path / "out.txt"]
    command = [sys.executable, "-m", "polyref", "score", *files, "-m", metric]
    done = subprocess.run(command, input="y\n" * 20, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert f"{tmp_path / 'model'}: no tokeniser that can be loaded" in done.stderr
    assert not (tmp_path / "model" / "ran").exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_attention_of_others_is_not_fetched(tmp_path: Path, key: str) -> None:
    folder = bert(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for named in ({key: "someone/attention"}, {"text_config": {key: "someone/attention"}}):
        (folder / "config.json").write_text(json.dumps({**config, **named}), "utf-8")
        with pytest.raises(ModelError, match=f"{key} is 'someone/attention', expected one of eager, sdpa"):
            _encode(folder)
    (folder / "config.json").write_text(json.dumps({**config, key: "eager"}), "utf-8")
    _encode(folder)


def test_what_a_folder_is_refused_for_is_said(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    _arm(folder, unknown=True)
    with pytest.raises(ModelError, match=r"no tokeniser that can be loaded: .*custom code"):
        load_encoder(str(folder)).tokens(["a cat"])
