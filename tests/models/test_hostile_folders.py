"""The folder of a model runs none of its code, whatever it says of itself and whatever stands on standard input."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_readers import READERS, encode
from tiny_encoders import bert

from polyref.errors import ModelError, PolyrefError
from polyref.models.encoders import load_encoder

pytestmark = pytest.mark.usefixtures("quiet_transformers")
KINDS = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "GenerationConfig")


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
            encode(folder)
    (folder / "config.json").write_text(json.dumps({**config, key: "eager"}), "utf-8")
    encode(folder)


def test_what_a_folder_is_refused_for_is_said(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    _arm(folder, unknown=True)
    with pytest.raises(ModelError, match=r"no tokeniser that can be loaded: .*custom code"):
        load_encoder(str(folder)).tokens(["a cat"])
