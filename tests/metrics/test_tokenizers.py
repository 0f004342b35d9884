"""Tokenisers with a model: nothing is downloaded unasked, and what sacreBLEU has kept is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers import tokenizer_spm

import polyref
from polyref.errors import ModelError, PolyrefWarning
from polyref.metrics.ngram.bleu import DOWNLOAD

REFERENCES = ["The ferry leaves at 9:15.", "Bring a coat, please.", "No one was hurt in the fire."]
OUTPUTS = ["The ferry departs at 9:15.", "Please bring a coat with you.", "No one was hurt in the fire."]
NAMES = ["spm", "flores101", "flores200", "spBLEU-1K"]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where sacreBLEU keeps models, empty; downloads are not allowed, and none could succeed."""
    monkeypatch.delenv(DOWNLOAD, raising=False)
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path / "sacrebleu"))
    for name, facts in tokenizer_spm.SPM_MODELS.items():
        away = f"file://{tmp_path}/away/{Path(facts['url']).name}"
        monkeypatch.setitem(tokenizer_spm.SPM_MODELS, name, {**facts, "url": away})
    return tmp_path / "sacrebleu" / "models"


@pytest.fixture
def model(tmp_path: Path, kept: Path) -> Path:
    """A SentencePiece model where downloads come from."""
    sentencepiece = pytest.importorskip("sentencepiece")
    home = tmp_path / "away"
    home.mkdir()
    (home / "text").write_text("\n".join([*REFERENCES, *OUTPUTS]) + "\n", "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(home / "text"), model_prefix=str(home / "made"), vocab_size=40, minloglevel=2
    )
    return (home / "made.model").rename(home / Path(tokenizer_spm.SPM_MODELS["flores200"]["url"]).name)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_downloaded_unasked(name: str, kept: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept / Path(tokenizer_spm.SPM_MODELS[name]["url"]).name
    for allowed in (None, "", "0"):
        if allowed is not None:
            monkeypatch.setenv(DOWNLOAD, allowed)
        with pytest.raises(ModelError) as caught:
            polyref.score(OUTPUTS, REFERENCES, f"bleu(tokenize={name})")
        for part in (str(path), f"the tokeniser {name} needs a model", f"{DOWNLOAD}=1", "file://"):
            assert part in str(caught.value)
        assert not kept.exists()


def test_an_allowed_download_is_announced_and_kept(kept: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DOWNLOAD, "1")
    with pytest.warns(
        PolyrefWarning, match="downloading the tokeniser flores200 from file://.* to .*/sacrebleu/models/"
    ):
        first = polyref.score(OUTPUTS, REFERENCES, "bleu(tokenize=flores200)").rows
    assert (kept / model.name).read_bytes() == model.read_bytes()
    # What is kept needs no permission.
    monkeypatch.delenv(DOWNLOAD)
    model.unlink()
    (row,) = polyref.score(OUTPUTS, REFERENCES, "bleu(tokenize=flores200)").rows
    assert [row] == first
    assert row["score"] == BLEU(tokenize="flores200").corpus_score(OUTPUTS, [REFERENCES]).score
    assert "|tok:flores200|" in row["signature"]


def test_a_download_that_fails_is_an_error(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentencepiece")
    monkeypatch.setenv(DOWNLOAD, "1")
    with pytest.warns(PolyrefWarning), pytest.raises(ModelError, match=r"flores200 cannot be loaded: .*No such file"):
        polyref.score(OUTPUTS, REFERENCES, "bleu(tokenize=flores200)")


@pytest.mark.filterwarnings("default::polyref.errors.PolyrefWarning")
def test_the_command_says_what_to_do(
    kept: Path, model: Path, polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, texts in (("refs", REFERENCES), ("out", OUTPUTS)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", "utf-8")
    command = ("score", tmp_path / "refs", "-i", tmp_path / "out", "-tok", "flores200", "-b")
    refused = polyref(*command)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert f"{DOWNLOAD}=1" in refused.err
    monkeypatch.setenv(DOWNLOAD, "1")
    done = polyref(*command)
    assert done.code == 0
    assert done.err.startswith("polyref: warning: downloading the tokeniser flores200 from file://")
