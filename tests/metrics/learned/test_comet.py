"""COMET against unbabel-comet's own scores of tiny random checkpoints, over reference sets, and from bad files."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from thorough import THOROUGH

from polyref.cache import default_cache
from polyref.errors import ModelError, PolyrefWarning, UsageError
from polyref.metrics.learned import comet
from polyref.metrics.learned.comet import COMET, Compared, errors_cost
from polyref.metrics.registry import get_metric
from polyref.models.checkpoints.comet import Input
from polyref.models.networks.comet import load_comet, sparsemax
from polyref.references import ReferenceSet, Segment

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "data" / "learned" / "comet"
SCORES = json.loads((GOLDEN / "scores.json").read_text("utf-8"))
#: Texts are longer than these models read.
pytestmark = pytest.mark.filterwarnings("ignore:.* longer than .* reads:polyref.errors.PolyrefWarning")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints, and the encoders' folders around them."""
    folder = tmp_path_factory.mktemp("comet")
    shutil.copytree(GOLDEN, folder, dirs_exist_ok=True)
    for path in folder.glob("encoders/*/tokenizer.json.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    return folder


def compared(rows: list[dict[str, Any]], mode: str, refs: str = "refs", output: str = "mt") -> list[Compared]:
    """The pairs in the order of the scores."""
    return [
        (row[output], row["src"] if "src" in mode else None, ref)
        for row in rows
        for ref in (row[refs] if "ref" in mode else [None])
    ]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, modes in SCORES["scores"].items() for mode in modes])
def test_scores_are_those_of_unbabel_comet(name: str, mode: str, models: Path) -> None:
    metric = COMET(model=str(models / "checkpoints" / name), reads=mode, cache=False)
    found = metric._scored(compared(rows_of(GOLDEN / "inputs.jsonl"), mode))[:, 0]
    assert np.abs(found - SCORES["scores"][name][mode]).max() < 1e-5


def test_the_goldens_are_of_the_script() -> None:
    script = (ROOT / "scripts" / "learned" / "make_comet.py").read_bytes()
    assert SCORES["script"] == hashlib.sha256(script).hexdigest(), "run it again"
    assert SCORES["versions"]["unbabel-comet"] == "2.2.7"


def test_all_of_another_set(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other sizes and seeds, by the original with the versions it was published for; COMET 1.0 at one text a batch."""
    root = data_dir / "learned-golden"
    monkeypatch.chdir(root)
    rows = rows_of(root / "inputs.jsonl")
    tags = {row["id"]: row["tag"] for row in rows}
    if not THOROUGH:  # the last text of each kind
        last = {row["tag"]: row["id"] for row in rows}
        rows = [row for row in rows if last[row["tag"]] == row["id"]]
    tried = {row["id"] for row in rows}
    tested = 0
    for path in sorted(root.glob("comet-2.2.7/*.json")):
        for mode, golden in json.loads(path.read_text("utf-8"))["modes"].items():
            metric = COMET(model=f"checkpoints/{path.stem}", reads=mode, cache=False)
            found = metric._scored(compared(rows, mode, output="hyp"))[:, 0]
            expected = [row["score"] for row in golden["rows"] if row["id"] in tried]
            assert np.abs(found - expected).max() < 1e-5, path.stem
            tested += 1
    assert tested == 26 and len(tried) > 25
    for name, mode in (("reg-old-keys", "src+ref"), ("qe-old", "src")):
        old = json.loads((root / "comet-1.0.1" / f"{name}.json").read_text("utf-8"))["rows"]
        old = [row for row in old if row["id"] in tried]
        metric = COMET(model=f"checkpoints/{name}", cache=False)
        away = np.abs(metric._scored(compared(rows, mode, output="hyp"))[:, 0] - [row["score"] for row in old])
        # 1.0 reads two tokens more of what is too long.
        cut = np.array([tags[row["id"]] in ("very_long", "long_src_short_hyp", "short_src_long_hyp") for row in old])
        assert away[~cut].max() < 1e-5 and away.max() < 1e-2


def with_sources(references: ReferenceSet, sources: Sequence[str | None]) -> ReferenceSet:
    pairs = zip(references, sources, strict=True)
    return ReferenceSet(tuple(replace(segment, source=text) for segment, text in pairs))


def reference_set(k: int = 10, segments: int = 3) -> ReferenceSet:
    references = ReferenceSet.from_texts(
        [[f"The sailor sold boat {n}."] for n in range(segments)],
        paraphrases=[[f"Sailor {n} sold {m} boats." for m in range(k)] for n in range(segments)],
    )
    return with_sources(references, [f"Der Seemann verkaufte Boot {n}." for n in range(segments)])


def outputs(segments: int = 3, systems: int = 2) -> dict[str, list[str]]:
    return {f"S{s}": [f"A sailor sells boat {n} to {s}." for n in range(segments)] for s in range(systems)}


def test_every_text_is_encoded_once_whatever_the_number_of_ks(models: Path) -> None:
    folder = str(models / "checkpoints" / "reg-softmax-avg")
    every, last = (COMET(model=folder, cache=False) for _ in range(2))
    stats = every.statistics(outputs(), reference_set(), ks=range(11))
    alone = last.statistics(outputs(), reference_set(), ks=[10])
    # 3 sources, 2 x 3 outputs, 3 x 11 references; the small vocabulary reads some of them as the same.
    refs = reference_set()
    texts = [ref.text for segment in refs for ref in segment.refs] + [segment.source or "" for segment in refs]
    texts += [text for system in outputs().values() for text in system]
    read = {ids for ids, _ in every.checkpoint.tokens(texts)}
    assert len(texts) == 42 and len(read) > 30
    assert every.passes.encoded == last.passes.encoded == len(read)
    assert np.array_equal(stats.at(10), alone.at(10))
    every.statistics(outputs(systems=3), reference_set(), ks=[10])
    more = {ids for ids, _ in every.checkpoint.tokens(outputs(systems=3)["S2"])} - read
    assert more and every.passes.encoded == len(read) + len(more), "another system costs its own outputs"


@pytest.mark.parametrize(("combine", "made"), [("mean", np.mean), ("max", np.max)])
def test_references_count_by_the_mean_of_their_scores(combine: str, made: Any, models: Path) -> None:
    metric = get_metric("comet", model=str(models / "checkpoints" / "unified"), cache=False, combine=combine)
    refs, system = reference_set(3), outputs()["S0"]
    found = metric.aggregate(metric.statistics({"S0": system}, refs), k=3).segment[0]
    for n, segment in enumerate(refs):
        alone = [with_sources(ReferenceSet.from_texts([[ref.text]]), [segment.source]) for ref in segment.refs]
        single = [metric.corpus(metric.statistics({"S0": [system[n]]}, one), k=0)[0] for one in alone]
        assert found[n] == pytest.approx(made(single), abs=1e-6)
    assert get_metric("comet", model="any").combination.name == "mean"


def test_a_model_that_nobody_names_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **how: asked.append((name, how)) or 1 / 0)
    for metric, name in (("comet", "Unbabel/wmt22-comet-da"), ("comet-src", "Unbabel/wmt22-cometkiwi-da")):
        with pytest.raises(ModelError, match=rf"{name} is not on this machine, .*: --comet-model {name}"):
            get_metric(metric, cache=False).checkpoint  # noqa: B018
        with pytest.raises(ModelError, match="the Hugging Face hub did not give it"):
            get_metric(metric, model=name, cache=False).checkpoint  # noqa: B018
    assert [how["local_files_only"] for _, how in asked] == [True, False] * 2


def test_passes_of_pairs_are_shared(models: Path) -> None:
    metric = COMET(model=str(models / "checkpoints" / "xcomet"), cache=False)
    metric.statistics(outputs(systems=1), reference_set(2), ks=[0, 1, 2])
    # Of each of 3 outputs: with the source, and twice with each of 3 references.
    assert metric.passes.encoded == 3 * (1 + 2 * 3)


@pytest.mark.parametrize("name", ["comet", "comet-src"])
@pytest.mark.parametrize("refs", [0, 1, 3])
def test_reference_free_models_read_no_reference(name: str, refs: int, models: Path) -> None:
    metric = get_metric(name, model=str(models / "checkpoints" / "qe-old"), cache=False)
    sources = ["Der Maler.", "Das Boot."]
    segments = tuple(Segment(str(n), (), source=text) for n, text in enumerate(sources))
    bare = metric.statistics({"A": ["The painter.", "A boat."]}, ReferenceSet(segments))
    score = metric.aggregate(bare, k=0).system[0]
    assert metric.needs_sources and not metric.needs_references
    full = with_sources(ReferenceSet.from_texts([["x"] * (refs + 1)] * 2, paraphrases=[["y"] * refs] * 2), sources)
    for k in range(refs + 1):
        stats = metric.statistics({"A": ["The painter.", "A boat."]}, full)
        assert metric.aggregate(stats, k=k).system[0] == score


def test_what_is_computed_is_kept(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    default_cache.cache_clear()
    for name, encoded in (("reg-old", 3 + 6 + 6), ("xcomet-xl", 6 * (1 + 2 * 2))):
        first, second = (COMET(model=str(models / "checkpoints" / name)) for _ in range(2))
        both = first.statistics(outputs(), reference_set(1))
        # Of all together the statistics themselves are kept; of one system what was encoded.
        alone = second.statistics({"S1": outputs()["S1"]}, reference_set(1))
        assert (first.passes.encoded, second.passes.encoded) == (encoded, 0)
        assert np.array_equal(both.values[:, 1:], alone.values)
    default_cache().close()
    default_cache.cache_clear()


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_what_is_kept_is_of_one_model_in_one_arithmetic(models: Path) -> None:
    def keys(name: str = "reg-old", by_others: bool = False, **options: Any) -> list[bytes]:
        passes = COMET(model=str(models / "checkpoints" / name), **options).passes
        return list(passes._keys([Input((1, 2)), Input((1, 3))], by_others).values())

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = [keys(), keys("reg-softmax-avg"), keys(dtype="bfloat16"), keys(by_others=True)]
        assert keys() == found[0]
        torch.set_num_threads(1)
        assert keys() == found[3], "other processes have one thread each"
    finally:
        torch.set_num_threads(threads)
    assert len({key for two in found for key in two}) == 8


@pytest.mark.parametrize("name", ["reg-sparsemax-norm-max", "xcomet-xl", "unified-bert"])
def test_scores_do_not_depend_on_the_texts_beside(name: str, models: Path, one_thread: None) -> None:
    metric = COMET(model=str(models / "checkpoints" / name), cache=False)
    given = compared(rows_of(GOLDEN / "inputs.jsonl"), "src+ref")
    together = metric._scored(given)[:, 0]
    alone = [COMET(model=metric.model, cache=False)._scored([one])[0, 0] for one in given]
    assert np.array_equal(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reg-bert", "xcomet"])
def test_processes_give_the_same_scores(
    name: str, models: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comet, "WORTH", 10)
    folder = str(models / "checkpoints" / name)
    one, two = (
        COMET(model=folder, cache=False, jobs=jobs).statistics(outputs(), reference_set()).values for jobs in (1, 2)
    )
    assert np.array_equal(one, two)


def test_signatures_name_the_model_and_what_it_reads(models: Path) -> None:
    metric = COMET(model=str(models / "checkpoints" / "unified"), cache=False, reads="ref")
    stats = metric.statistics({"A": ["A boat."]}, ReferenceSet.from_texts([["The boat."]]))
    signature = metric.aggregate(stats, k=0).signature
    assert signature.startswith("COMET|combine:mean|weights:uniform|model:unified|sha256:")
    assert "|kind:unified|reads:ref|longest:62|dtype:float32|" in signature


def test_cut_texts_are_told_of(models: Path) -> None:
    metric = COMET(model=str(models / "checkpoints" / "reg-old"), cache=False)
    references = with_sources(ReferenceSet.from_texts([["b"]]), ["a"])
    with pytest.warns(PolyrefWarning, match="1 text is longer than reg-old reads: 62 tokens of it are scored"):
        metric.statistics({"S": ["word " * 100]}, references)


@pytest.mark.parametrize("name", ["reg-softmax-avg", "unified", "xcomet"])
def test_long_texts_are_scored_in_windows(name: str, models: Path) -> None:
    folder = str(models / "checkpoints" / name)
    windows, plain = (COMET(model=folder, cache=False, windows=on) for on in (True, False))
    output, source, reference = (
        " ".join(f"{text} {n}." for n in range(12))
        for text in ("A sailor sells boat", "Der Seemann verkaufte Boot", "The sailor sold boat")
    )
    references = with_sources(ReferenceSet.from_texts([[reference], ["The boat."]]), [source, "Das Boot."])
    stats = windows.statistics({"S": [output, "A boat."]}, references)
    (parts,) = windows._divided([(output, source, reference)])
    assert len(parts) > 2
    tokens = [sum(len(ids) - 2 for ids, _ in plain.checkpoint.tokens(part)) for part in parts]
    longest = plain._room or plain.checkpoint.longest - 2
    assert max(tokens) <= longest * (1 if plain._room else 3)
    found = windows.aggregate(stats, k=0)
    assert found.segment[0, 0] == pytest.approx(np.average(plain._scored(parts)[:, 0], weights=tokens), abs=1e-6)
    assert found.segment[0, 1] == plain._scored([("A boat.", "Das Boot.", "The boat.")])[0, 0]
    assert found.signature.startswith("COMET|windows:3|")
    assert windows.options == {**plain.options, "windows": True}


@pytest.mark.filterwarnings("error")
def test_texts_that_are_too_long_together_are_told_of(models: Path) -> None:
    """UniTE and XCOMET read output, source and reference as one."""
    metric = COMET(model=str(models / "checkpoints" / "unified"), cache=False)
    words = " ".join(["boat"] * 25)
    references = with_sources(ReferenceSet.from_texts([[words], [words]]), [words, "boat"])
    with pytest.warns(PolyrefWarning, match="1 text is longer than unified reads: .* `windows` scores all of it"):
        metric.statistics({"S": [words, "boat"]}, references)


# --- the arithmetic ---


def test_sparsemax() -> None:
    assert sparsemax(torch.tensor([0.1, 0.1])).tolist() == pytest.approx([0.5, 0.5])
    assert sparsemax(torch.tensor([0.5, 0.1, -2.0])).tolist() == pytest.approx([0.7, 0.3, 0.0])
    assert sparsemax(torch.tensor([3.0, 0.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("labels", "cost"),
    [
        ("0000", 0),
        ("0120", 1),  # a run is as grave as its first token
        ("0210310", 5 + 10),
        ("0123", 0),  # a run that reaches the end does not count
        ("1033", 1),
        ("", 0),
        ("3030303030", 25),
    ],
)
def test_what_errors_cost(labels: str, cost: int) -> None:
    assert errors_cost(np.eye(4)[[int(label) for label in labels]]) == cost


# --- files ---


@pytest.fixture
def copy(models: Path, tmp_path: Path) -> Path:
    """A checkpoint that can be altered, beside the encoders."""
    (tmp_path / "encoders").symlink_to(models / "encoders")
    shutil.copytree(models / "checkpoints" / "reg-softmax-avg", tmp_path / "model")
    return tmp_path / "model"


def altered(copy: Path, change: Any) -> Path:
    path = copy / "checkpoints" / "model.ckpt"
    stored = torch.load(path, weights_only=True)
    change(stored)
    torch.save(stored, path)
    return copy


def score(folder: Path, **options: Any) -> float:
    metric = COMET(model=str(folder), cache=False, **options)
    return float(metric._scored([("A boat.", "Ein Boot.", "The boat.")])[0, 0])


def test_files_folders_and_safetensors(copy: Path, tmp_path: Path, models: Path) -> None:
    expected = score(copy)
    assert score(copy / "checkpoints" / "model.ckpt") == expected
    stored = torch.load(copy / "checkpoints" / "model.ckpt", weights_only=True)
    other = tmp_path / "other"
    other.mkdir()
    save_file(stored["state_dict"], other / "model.safetensors")
    shutil.copy(copy / "hparams.yaml", other)
    assert score(other) == expected
    assert COMET(model=str(copy / "checkpoints" / "model.ckpt")).checkpoint.name == "model"
    far = tmp_path / "far" / "away"
    shutil.copytree(copy, far)
    (tmp_path / "encoders").unlink()
    load_comet.cache_clear()
    with pytest.raises(ModelError, match=r"its encoder is 'encoders/xlmr', which is no folder here"):
        score(far)
    assert score(far, encoder=str(models / "encoders" / "xlmr")) == expected


class Run:
    def __reduce__(self) -> Any:
        return Path.write_text, (Path("ran"), "code")


def _set(key: str, value: Any) -> Any:
    return lambda stored: stored["hyper_parameters"].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.__setitem__("callbacks", Run()), "holds more than weights and settings, nothing was run"),
        (lambda s: s["state_dict"].pop("estimator.ff.3.weight"), "lacks the weight 'estimator.ff.3.weight'"),
        (lambda s: s["state_dict"].pop("layerwise_attention.gamma"), "lacks the weight 'layerwise_attention.gamma'"),
        (
            lambda s: s["state_dict"].__setitem__("estimator.ff.0.bias", torch.zeros(3)),
            r"'estimator.ff.0.bias' has shape \(3,\), expected \(20,\)",
        ),
        (lambda s: s["state_dict"]["estimator.ff.0.bias"].fill_(float("nan")), "'estimator.ff.0.bias' holds nan"),
        (
            lambda s: s["state_dict"]["encoder.model.embeddings.LayerNorm.bias"].fill_(float("inf")),
            "LayerNorm.bias' holds inf",
        ),
        (_set("encoder_model", "RemBERT"), "\"encoder_model\" is 'RemBERT', expected one of XLM-RoBERTa"),
        (_set("encoder_model", "BERT"), "model_type is 'xlm-roberta', but the checkpoint's BERT is bert"),
        (_set("pool", "attention"), "\"pool\" is 'attention', expected one of avg, max, cls, default"),
        (_set("activations", "ReLU"), "\"activations\" is 'ReLU', expected one of Tanh"),
        (_set("layer_transformation", "entmax"), "\"layer_transformation\" is 'entmax', expected one of softmax"),
        (_set("layer", 9), '"layer" is 9, but the encoder has layers 0 to 2'),
        (_set("layer", "last"), '"layer" is "last", expected a whole number'),
        (_set("hidden_sizes", [20]), r"'estimator.ff.3.weight' has shape \(10, 20\), expected \(1, 20\)"),
        (_set("pretrained_model", "encoders/xlmr-converted"), "has 2 layers, but its encoder's configuration 3"),
        (lambda s: s.__setitem__("state_dict", [1]), "no Lightning checkpoint"),
    ],
)
def test_bad_checkpoints(change: Any, message: str, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy.parent)
    with pytest.raises(ModelError, match=message):
        score(altered(copy, change))
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class_identifier: ranking_metric", "its class is 'ranking_metric', expected one of regression_metric"),
        ("a: !!python/object/apply:os.system ['true']", "hparams.yaml:1: not valid YAML: could not determine"),
        ("[1, 2]", "hparams.yaml: found a list, expected names and values"),
        ("a: [", "not valid YAML"),
    ],
)
def test_bad_settings(text: str, message: str, copy: Path) -> None:
    (copy / "hparams.yaml").write_text(text, "utf-8")
    with pytest.raises(ModelError, match=message):
        score(copy)


def test_bad_places(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        score(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"no COMET model: none of checkpoints/model.ckpt"):
        score(tmp_path)
    (copy / "checkpoints" / "model.ckpt").write_bytes(b"no weights")
    with pytest.raises(ModelError, match=r"model.ckpt: "):
        score(copy)


def test_what_a_model_cannot_read(models: Path) -> None:
    for name, reads in (("reg-old", "ref"), ("qe-old", "src+ref"), ("unified-ref", "src")):
        with pytest.raises(UsageError, match=f"`reads` is {reads.replace('+', '.')}, but {name} reads"):
            COMET(model=str(models / "checkpoints" / name), reads=reads).options  # noqa: B018
    with pytest.raises(UsageError, match="`reads` is ref, expected src"):
        get_metric("comet-src", model=str(models / "checkpoints" / "unified"), reads="ref").options  # noqa: B018
