"""Real fairseq behind the same interface, and polyref beside it on settings that no recorded list has.

Needs an interpreter with fairseq 0.12.2 (Python 3.10; ``pip install -e '.[fairseq]'`` with pip < 24.1).
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import TEXT, settings, state, symbols, write

from polyref.cache import Cache
from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints.seq2seq import Seq2Seq
from polyref.paraphrase import DiverseBeam, SearchOptions, load_paraphraser
from polyref.paraphrase.fairseq import FairseqParaphraser, _Limits
from polyref.paraphrase.search_paraphraser import SearchParaphraser

MISSING = importlib.util.find_spec("fairseq") is None
needs_fairseq = pytest.mark.skipif(MISSING, reason="fairseq is not installed (it needs Python 3.10)")
TEXTS = [*TEXT, "", "the 鷺 waits", "the"]
POST = {"encoder_normalize_before": False, "decoder_normalize_before": False}
#: Settings that no recorded list has.
UNUSUAL: dict[str, dict[str, Any]] = {
    "lengths": {"beam": 6, "groups": 3, "lenpen": -0.5, "min_len": 4, "max_len_a": 0.5, "max_len_b": 6},
    "rewarded unknowns": {"beam": 8, "groups": 2, "unkpen": -3.0, "temperature": 0.4, "max_len_b": 9},
    "every hypothesis a group": {"beam": 7, "groups": 7, "strength": 3.0, "max_len_b": 8},
    "no strength": {"beam": 8, "groups": 4, "strength": 0.0, "max_len_b": 8},
    "sums": {"beam": 10, "groups": 5, "strength": 0.2, "normalize": False, "max_len_b": 12},
    "beam of one": {"beam": 1, "max_len_b": 10},
    "beam as large as the vocabulary": {"beam": 62, "max_len_b": 3},
    "blocked": {"beam": 5, "no_repeat_ngram": 2, "max_len_b": 10},
    "end at once": {"beam": 4, "groups": 2, "min_len": 0, "max_len_b": 0},
}


def checkpoint(folder: Path, spm: bytes, **changes: Any) -> Path:
    options = settings(encoder_embed_dim=16, encoder_ffn_embed_dim=24, encoder_layers=2, decoder_layers=2, **changes)
    weights = state(len(symbols(spm)) + 4, norms=options.encoder_normalize_before)
    return write(folder, spm, {"args": options}, weights)


def same(ours: Any, theirs: Any, normalize: bool = True) -> None:
    for mine, real in zip(ours, theirs, strict=True):
        assert mine.text == real.text
        assert len(mine.hypotheses) == len(real.hypotheses)
        for rank, (a, b) in enumerate(zip(mine.hypotheses, real.hypotheses)):
            tolerance = 1e-5 * (1 if normalize else len(a.tokens))
            assert a.score == pytest.approx(b.score, abs=tolerance, rel=1e-6)
            near = [h.tokens for h in real.hypotheses if abs(h.score - b.score) < 1e-5]
            assert a.tokens == b.tokens or a.tokens in near, f"{mine.text}, rank {rank}"


@needs_fairseq
@pytest.mark.parametrize("changes", [{}, POST], ids=["pre", "post"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_polyref_gives_fairseqs_lists(tmp_path: Path, spm: bytes, name: str, changes: dict[str, Any]) -> None:
    folder = checkpoint(tmp_path / "m", spm, **changes)
    options = SearchOptions(semantics="fairseq", **UNUSUAL[name])
    lists = []
    for backend in ("polyref", "fairseq"):
        paraphraser = load_paraphraser(folder, lang="en", backend=backend)
        lists.append(list(paraphraser.paraphrase(TEXTS, options.beam, decoding=options)))
    same(*lists, normalize=options.normalize)
    assert len(lists[1][0].hypotheses) >= 1 and not lists[1][5].hypotheses


@needs_fairseq
@pytest.mark.parametrize("prefix", [[1], [4, 1], [1, 4], [1, 1, 5]])
def test_padding_in_a_prefix_leaves_the_place_free(tmp_path: Path, spm: bytes, prefix: list[int]) -> None:
    folder = checkpoint(tmp_path / "m", spm)
    options = SearchOptions(semantics="fairseq", beam=6, groups=3, min_len=3, max_len_b=8)
    lists = []
    for backend in ("polyref", "fairseq"):
        paraphraser: Any = load_paraphraser(folder, lang="en", backend=backend)
        paraphraser.prefix = prefix
        lists.append(list(paraphraser.paraphrase(TEXTS, 6, decoding=options)))
    same(*lists)
    assert len(lists[0][0].hypotheses) == 6


@needs_fairseq
@pytest.mark.data
@pytest.mark.parametrize(
    ("model", "name", "options"),
    [
        ("pre", "dbs12", {"beam": 12, "groups": 3, "strength": 0.5}),
        ("post", "dbs12", {"beam": 12, "groups": 3, "strength": 0.5}),
        ("pre", "beam5", {"beam": 5}),
    ],
)
def test_it_gives_the_lists_that_were_recorded(
    golden: Path, models: dict[str, Seq2Seq], model: str, name: str, options: dict[str, Any]
) -> None:
    with gzip.open(golden / model / f"{name}.json.gz", "rt", encoding="utf-8") as stream:
        recorded = json.load(stream)["sentences"]
    paraphraser = load_paraphraser(models[model].path, lang="en", backend="fairseq")
    decoding = SearchOptions(semantics="fairseq", max_len_a=1.3, max_len_b=10, **options)
    texts = (golden / "sents.txt").read_text("utf-8").splitlines()
    for sentence, found in zip(recorded, paraphraser.paraphrase(texts, 12, decoding=decoding), strict=True):
        assert [h.tokens for h in found.hypotheses] == [tuple(entry["tokens"]) for entry in sentence["nbest"]]
        scores = [entry["score"] for entry in sentence["nbest"]]
        assert [h.score for h in found.hypotheses] == pytest.approx(scores, abs=1e-5)


@needs_fairseq
def test_sampling_is_seeded_a_sentence(tmp_path: Path, spm: bytes) -> None:
    paraphraser = load_paraphraser(checkpoint(tmp_path / "m", spm), lang="en", backend="fairseq")
    options = SearchOptions(semantics="fairseq", beam=4, sampling=True, sampling_topk=8, max_len_b=9, seed=3)
    before = torch.random.get_rng_state()
    together = list(paraphraser.paraphrase(TEXTS, 4, decoding=options))
    alone = [next(iter(paraphraser.paraphrase([text], 4, decoding=options))) for text in reversed(TEXTS)]
    assert [nbest.hypotheses for nbest in together] == [nbest.hypotheses for nbest in reversed(alone)]
    assert torch.equal(torch.random.get_rng_state(), before)


@needs_fairseq
def test_the_default_decoding_searches_with_fairseqs_semantics(tmp_path: Path, spm: bytes) -> None:
    folder = checkpoint(tmp_path / "m", spm)
    paraphraser = load_paraphraser(folder, prefix="<de>", backend="fairseq")
    assert paraphraser.describe(DiverseBeam(), 4) == (
        f"{load_paraphraser(folder, prefix='<de>').signature}|backend:fairseq-0.12.2|dbs(beam=4,groups=2,strength=0.5)"
    )
    assert load_paraphraser(f"fairseq:{folder}", prefix="<de>").signature == paraphraser.signature
    for found in paraphraser.paraphrase(TEXT, 3):
        texts = [hypothesis.text for hypothesis in found.hypotheses]
        assert 1 <= len(set(texts)) == len(texts) <= 3
        assert all(hypothesis.tokens[0] == 5 for hypothesis in found.hypotheses)


@needs_fairseq
def test_what_fairseq_cannot_do_is_refused(tmp_path: Path, spm: bytes) -> None:
    paraphraser = load_paraphraser(checkpoint(tmp_path / "m", spm), lang="en", backend="fairseq")
    for options, message in (
        (SearchOptions(beam=4), "`backend` fairseq searches as fairseq does"),
        (SearchOptions(beam=4, semantics="hf"), "`backend` fairseq searches as fairseq does"),
        (
            SearchOptions(beam=4, semantics="fairseq", sampling=True, sampling_epsilon=0.1),
            "`sampling_epsilon` is no option of `backend` fairseq",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            paraphraser.paraphrase(TEXT, 4, decoding=options)
    short = SearchOptions(beam=4, semantics="fairseq", min_len=5, max_len_a=0.1, max_len_b=0)
    with pytest.raises(UsageError, match=r"the least length is 5, expected at most the greatest, [0-3] tokens"):
        list(paraphraser.paraphrase(TEXT, 4, decoding=short))
    folder = checkpoint(tmp_path / "unknown", spm, arch="nothing_of_that_name")
    with pytest.raises(ModelError, match="fairseq cannot build this model"):
        load_paraphraser(folder, lang="en", backend="fairseq")


def test_only_fairseq_checkpoints_and_no_copy_penalty(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fairseq runs fairseq checkpoints and nothing else"):
        load_paraphraser(tmp_path, backend="fairseq")
    with pytest.raises(UsageError, match=r"`prism_a` is 0\.1, but the generator fairseq takes no such option"):
        load_paraphraser(tmp_path, backend="fairseq", prism_a=0.1)
    for name in ("lexical", "shipped", "roundtrip:a,b"):
        with pytest.raises(UsageError, match=f"`backend` is fairseq, which runs a folder, but {name} is none"):
            load_paraphraser(name, backend="fairseq")
    with pytest.raises(UsageError, match="`backend` is 'marian', expected one of polyref, fairseq"):
        load_paraphraser(tmp_path, backend="marian")


def test_its_lists_need_no_cache(tmp_path: Path) -> None:
    """Without fairseq: all that a paraphraser has beside the model that fairseq builds."""
    made: Any = FairseqParaphraser.__new__(FairseqParaphraser)
    codec: Any = None
    SearchParaphraser.__init__(made, _Limits(2, 10), codec, name="m", digest="0", max_source=9)  # type: ignore[arg-type]
    made.use_cache(Cache(tmp_path))
    assert made._kept_lists(2, made.settle(DiverseBeam(), 2)) is None


@pytest.mark.skipif(not MISSING, reason="fairseq is installed")
def test_without_fairseq_it_says_what_to_do(tmp_path: Path, spm: bytes) -> None:
    with pytest.raises(ModelError, match=r"fairseq cannot be imported.*pip install fairseq==0\.12\.2.*Python 3\.10"):
        load_paraphraser(checkpoint(tmp_path / "m", spm), lang="en", backend="fairseq")


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of their shape: what counts is that nothing is run with them."""
    from types import ModuleType

    from polyref.paraphrase.fairseq import fairseq_version

    class Plain:
        def __init__(self, dictionary: Any, num_groups: int, diversity_strength: float) -> None: ...

    class Cumulative:
        def __init__(self, dictionary: Any, num_groups: int, diversity_strength: float, diversity_discount: float): ...

    for version, strategy, message in (
        ("0.10.2", Plain, "fairseq is 0.10.2, expected 0.12.2"),
        ("0.12.2", Cumulative, "fairseq is a development version, expected 0.12.2"),
    ):
        fairseq, search = ModuleType("fairseq"), ModuleType("fairseq.search")
        fairseq.__version__ = version  # type: ignore[attr-defined]
        search.DiverseBeamSearch = strategy  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "fairseq", fairseq)
        monkeypatch.setitem(sys.modules, "fairseq.search", search)
        with pytest.raises(ModelError, match=message):
            fairseq_version()
