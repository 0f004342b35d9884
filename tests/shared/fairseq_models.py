"""Models of fairseq's, for the tests of search, scoring and checkpoints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
from tiny_models import TEXT

from polyref.models.checkpoints.seq2seq import Seq2Seq, load_fairseq


@pytest.fixture(scope="session")
def spm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=out, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    return out.getvalue()


@pytest.fixture(scope="session")
def golden(data_dir: Path) -> Path:
    path = data_dir / "fairseq-golden"
    if not path.is_dir():
        pytest.skip(f"no decoding lists in {path}")
    return path


@pytest.fixture(scope="session")
def models(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seq2Seq]:
    loaded = {}
    for name in ("post", "pre"):
        directory = tmp_path_factory.mktemp(name)
        (directory / "checkpoint.pt").symlink_to(golden / name / "checkpoint.pt")
        for file in ("dict.src.txt", "dict.tgt.txt", "spm.model"):
            (directory / file).symlink_to(golden / file)
        loaded[name] = load_fairseq(directory)
    return loaded
