"""What metrics with a network keep of whole runs: the same once more, without torch; anything else, anew."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import warnings
import zlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_encoders import bert
from tiny_seq2seq import write_m2m

from polyref import __version__
from polyref.cache import Cache, default_cache
from polyref.errors import PolyrefWarning
from polyref.metrics import get_metric, pairs
from polyref.metrics.base import Metric
from polyref.metrics.pairs import Kept
from polyref.models import device
from polyref.models.encoders import load_encoder
from polyref.models.networks.comet import load_comet
from polyref.references import Reference, ReferenceSet, Segment

DATA = Path(__file__).parents[1] / "data" / "learned"
SYSTEMS = {
    "A": ["the cat sat on the mat .", "nobody know s why !", "it was a very small step " * 30],
    "B": ["a cat sat", "", "it was a big change ."],
}
REFERENCES = ReferenceSet(
    (
        Segment("1", (Reference("the cat sat ."), Reference("a dog sat .", "paraphrase", 0, 0, logprob=-1.0)), "die"),
        Segment("2", (Reference("nobody know s ."),), "der"),
        Segment("3", (Reference("a small step ."), Reference("it is small", "paraphrase", 0, 0, weight=0.5)), "das"),
    )
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny models by what they are for."""
    root = tmp_path_factory.mktemp("models")
    shutil.copytree(DATA / "comet", root / "comet")
    for path in root.glob("comet/encoders/*/tokenizer.json.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    metricx = root / "metricx-24"
    shutil.copytree(DATA / "metricx" / "metricx-24-hybrid-tiny", metricx)
    for file in next((DATA / "metricx").glob("tokenizer-*")).iterdir():
        if not (metricx / file.name).exists():
            shutil.copyfile(file, metricx / file.name)
    for path in metricx.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    comets = {name: root / "comet" / "checkpoints" / name for name in ("reg-softmax-avg", "qe-bert", "xcomet")}
    return {**comets, "metricx": metricx, "bert": bert(root / "bert"), "m2m": write_m2m(root / "m2m")}


def _specifications(models: dict[str, Path]) -> list[str]:
    return [
        f"prism(model={models['m2m']}, lang=de)",
        "bartscore(model=shipped, combine=max)",
        f"peer(model={models['m2m']}, source_lang=de, lang=fr)",
        "bertscore(idf=all)",
        f"bertscore(model={models['bert']}, layer=2, windows=yes)",
        "laser-lm",
        "esim",
        f"comet(model={models['reg-softmax-avg']})",
        f"comet(model={models['xcomet']}, windows=yes)",
        f"metricx(model={models['metricx']})",
    ]


#: Runs the command line without what would load a network.
_BARE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise AssertionError(name)

sys.meta_path.insert(0, Refused())
from polyref.cli.main import main
main()
"""


@pytest.mark.slow
def test_the_same_run_once_more_needs_no_torch(models: dict[str, Path], tmp_path: Path) -> None:
    files = {"ref": [one.refs[0].text for one in REFERENCES], "src": ["die", "der", "das"], **SYSTEMS}
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    command = ["score", "ref", "-i", "A", "B", "--source", "src", "-v", "-m", *_specifications(models)]
    ways = ["-m", "polyref"], ["-c", _BARE], ["-c", _BARE]
    first, again, other = (
        subprocess.run([sys.executable, *way, *command, *more], cwd=tmp_path, capture_output=True, check=False)
        for way, more in zip(ways, ([], [], ["--sentence"]), strict=True)
    )
    assert first.returncode == 0, first.stderr.decode()
    assert b"longer than" in first.stderr and b"windows:" in first.stdout
    assert again.returncode == 0, again.stderr.decode()
    Path("/tmp/e2").write_bytes(again.stderr)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, first.stderr)
    assert other.returncode == 0 and other.stdout.count(b"\n") > first.stdout.count(b"\n")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metrics that computed something."""
    names: list[str] = []
    real = Kept._counted

    def counted(metric: Kept, *texts: Any) -> Any:
        names.append(metric.name)
        return real(metric, *texts)

    monkeypatch.setattr(Kept, "_counted", counted)
    return names


def _made(specification: str, **options: Any) -> Metric:
    return get_metric(specification, **options)


def _equal(a: Any, b: Any) -> bool:
    return a.meta == b.meta and np.array_equal(a.values, b.values) and np.array_equal(a.chosen, b.chosen)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_what_is_kept_is_what_was_computed(models: dict[str, Path], computed: list[str]) -> None:
    for specification in _specifications(models):
        first = _made(specification).statistics(SYSTEMS, REFERENCES)
        metric = _made(specification)
        again = metric.statistics(SYSTEMS, REFERENCES)
        assert len(computed) == 1, specification
        assert _equal(first, again)
        assert metric.aggregate(again, k=1).signature == metric.aggregate(first, k=1).signature
        assert _equal(first, _made(specification, cache=False).statistics(SYSTEMS, REFERENCES))
        computed.clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_the_same_run_opens_nothing(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def said(specification: str) -> tuple[str, tuple[str, ...]]:
        metric = _made(specification)
        return metric.aggregate(metric.statistics(SYSTEMS, REFERENCES), k=1).signature, metric.languages

    asked = [*_specifications(models), f"laser-lm(model={models['bert']}, layer=2, lm={models['m2m']})"]
    first = {specification: said(specification) for specification in asked}
    for opens in (
        "metrics.likelihood._loaded",
        "metrics.embedding.laser_lm.load_language_model",
        "metrics.esim.network.load_network",
        "models.encoders.load_tokenizer",
        "models.networks.comet.load_comet",
        "models.networks.metricx.load_tokenizer",
    ):
        monkeypatch.setattr(f"polyref.{opens}", lambda *_, opens=opens, **__: pytest.fail(opens))
    load_encoder.cache_clear()
    assert {specification: said(specification) for specification in asked} == first


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize("place", range(10))
def test_without_the_cache_nothing_is_kept(
    place: int, models: dict[str, Path], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("get", "put"):
        monkeypatch.setattr(Cache, name, lambda *_, name=name: pytest.fail(name))
    for _ in range(2):
        assert len(specifications := _specifications(models)) == 10
        assert _made(specifications[place], cache=False).statistics(SYSTEMS, REFERENCES).values.size
    assert len(computed) == 2


def _with(place: int, **changes: Any) -> ReferenceSet:
    """The references with one changed: the last of a segment, or, by its source, the segment."""
    segments = list(REFERENCES)
    one = segments[place]
    if "source" in changes:
        segments[place] = replace(one, **changes)
    else:
        segments[place] = replace(one, refs=(*one.refs[:-1], replace(one.refs[-1], **changes)))
    return ReferenceSet(tuple(segments))


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({}, False),
        ({"systems": {"C": SYSTEMS["A"], "D": SYSTEMS["B"]}}, False),  # names score nothing
        ({"systems": {"A": SYSTEMS["A"]}}, True),
        ({"systems": {"B": SYSTEMS["B"], "A": SYSTEMS["A"]}}, True),
        ({"systems": {**SYSTEMS, "B": ["a cat sat", "", "it was a big change . "]}}, True),
        ({"references": _with(0, text="a dog sat")}, True),
        ({"references": _with(2, weight=0.25)}, True),
        ({"references": _with(0, logprob=-2.0)}, True),
        ({"references": _with(0, kind="human")}, True),
        ({"references": _with(1, source="den")}, False),  # nothing reads it
        ({"ks": [1]}, True),
        ({"combine": "max"}, True),
        ({"direction": "recall"}, True),
        ({"jobs": 2}, True),
        ({"lang": "fr"}, True),
        ({"windows": True}, True),
    ],
)
def test_other_texts_and_options_are_computed(
    change: dict[str, Any], anew: bool, models: dict[str, Path], computed: list[str]
) -> None:
    def run(systems: Any = SYSTEMS, references: ReferenceSet = REFERENCES, ks: Any = None, **options: Any) -> None:
        options = {"model": str(models["m2m"]), "lang": "de", **options}
        _made("bartscore", **options).statistics(systems, references, ks=ks)

    run()
    run(**change)
    assert len(computed) == 1 + anew


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_who_made_a_reference_counts_where_all_are_used(models: dict[str, Path], computed: list[str]) -> None:
    for references in (REFERENCES, _with(0, kind="human")):
        metric = _made("bartscore", model=str(models["m2m"]), combine="blend")
        metric.statistics(SYSTEMS, references, ks=[1])
    assert len(computed) == 2


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_sources_count_where_they_are_read(models: dict[str, Path], computed: list[str]) -> None:
    for references in (REFERENCES, _with(1, source="den")):
        _made(f"comet(model={models['reg-softmax-avg']})").statistics(SYSTEMS, references)
    assert len(computed) == 2


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize("name", ["m2m", "bert", "reg-softmax-avg", "metricx"])
def test_another_content_under_the_same_name_is_another_model(
    name: str, models: dict[str, Path], tmp_path: Path, computed: list[str]
) -> None:
    of = {"m2m": "prism(lang=de)", "bert": "bertscore(layer=2)", "metricx": "metricx(release=24)"}.get(name, "comet")
    shutil.copytree(models[name], folder := tmp_path / "checkpoints" / name)
    if of == "comet":
        shutil.copytree(models[name].parents[1] / "encoders", tmp_path / "encoders")
    # What no score hangs on, in a file that is read.
    file = {"comet": folder / "hparams.yaml"}.get(of, folder / "config.json")
    signatures = []
    for end in ("", "\n", ""):
        before = file.read_text("utf-8")
        file.write_text(before + end, "utf-8")
        load_encoder.cache_clear()
        load_comet.cache_clear()
        metric = _made(of, model=str(folder))
        signatures.append(metric.aggregate(metric.statistics(SYSTEMS, REFERENCES), k=0).signature)
        file.write_text(before, "utf-8")
    assert len(computed) == 2 and signatures[0] == signatures[2] != signatures[1]


def test_what_is_said_of_texts_is_said_again(models: dict[str, Path], computed: list[str]) -> None:
    said = []
    for specification in ("prism", f"bertscore(model={models['bert']}, layer=2)", "esim"):
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                _made(specification).statistics(SYSTEMS, REFERENCES)
            said.append([str(one.message) for one in caught if one.category is PolyrefWarning])
    assert len(computed) == 3
    assert said[0] == said[1] and said[2] == said[3] and said[4] == said[5]
    assert "1 text is longer than polyref-en reads" in said[0][0] and "longer than bert reads: 24 tokens" in said[2][0]
    assert any("1 pair has an empty side" in one for one in said[4])


def _said(metric: Metric, *outputs: str) -> list[str]:
    """The warnings of outputs, each with the reference "the cat"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.statistics({"A": outputs}, ReferenceSet.from_texts([["the cat"]] * len(outputs)))
    return [str(one.message) for one in caught if one.category is PolyrefWarning]


def test_what_is_said_of_texts_that_are_cut(models: dict[str, Path], tmp_path: Path) -> None:
    one, two = "the old bridge " * 30, "a small step " * 30
    short = "longer than bert reads: 24 tokens of it are scored, from its beginning"
    metric = _made(f"bertscore(model={models['bert']}, layer=2)")
    assert _said(metric, one, two, one) == [f"2 texts are {short}; `windows` scores all of it"]
    assert _said(metric, one, "the cat") == []  # told of
    assert _said(metric, one, "the new bridge " * 30) == [f"1 text is {short}; `windows` scores all of it"]
    assert _said(_made(f"bertscore(model={models['bert']}, layer=2, windows=yes)"), one) == [f"1 text is {short}"]
    both = _made(f"laser-lm(model={models['bert']}, layer=2, lm={models['m2m']})")
    other = "1 text is longer than m2m(unconditional) reads: 40 tokens of it are scored, from its beginning"
    assert _said(both, one) == [f"1 text is {short}", other]
    odd = shutil.copytree(models["bert"], tmp_path / "a|b|c")
    assert _said(_made("bertscore", model=str(odd), layer=2, windows=True), one)[0].split(" reads")[0].endswith("a|b|c")


def test_sides_of_one_model_are_told_of_together(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Kept._counted

    def counted(metric: Kept, *texts: Any) -> Any:
        metric._note_cut("m", 5, ["x"], "source")
        metric._note_cut("m", 7, ["x", "y"], "target")
        return real(metric, *texts)

    monkeypatch.setattr(Kept, "_counted", counted)
    assert _said(_made("bertscore"), "a cat") == [
        "2 texts are longer than m reads: 5/7 tokens of it are scored, from its beginning; `windows` scores all of it"
    ]


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize("windows", [False, True])
def test_texts_of_an_earlier_call_are_not_counted(windows: bool, models: dict[str, Path]) -> None:
    metric = _made("prism", model=str(models["m2m"]), lang="de", windows=windows)
    signatures = [
        metric.aggregate(metric.statistics({"A": [text]}, ReferenceSet.from_texts([[text]])), k=0).signature
        for text in ("The old bridge is closed. " * 20, "a cat")
    ]
    assert ("|windows:1|" if windows else "|cut:2|") in signatures[0]
    assert ("|windows:0|" if windows else "|cut:0|") in signatures[1]


def test_numbers_that_are_not_finite_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = _made("prism")
    monkeypatch.setattr(type(metric), "_means", lambda _, pairs: np.full(len(pairs), np.nan))
    for _ in range(2):
        with pytest.raises(Exception, match="expected a finite number"):
            metric.statistics({"A": ["a cat"]}, ReferenceSet.from_texts([["the cat"]]))
    monkeypatch.undo()
    default_cache.cache_clear()
    assert np.isfinite(metric.statistics({"A": ["a cat"]}, ReferenceSet.from_texts([["the cat"]])).values).all()


def test_nothing_that_is_kept_is_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(packed := io.BytesIO(), values=np.array([{}], dtype=object))
    get = Cache.get
    monkeypatch.setattr(Kept, "_run_key", lambda *_: b"run")
    monkeypatch.setattr(
        Cache,
        "get",
        lambda self, keys: {b"run": zlib.compress(packed.getvalue())} if b"run" in keys else get(self, keys),
    )
    with pytest.raises(ValueError, match="allow_pickle"):
        _made("bertscore").statistics({"A": ["a cat"]}, ReferenceSet.from_texts([["the cat"]]))


def test_what_a_plug_in_computes_is_not_kept(computed: list[str]) -> None:
    own = type("Own", (type(_made("prism")),), {"__module__": "elsewhere"})
    for _ in range(2):
        own().statistics({"A": ["a cat"]}, ReferenceSet.from_texts([["the cat"]]))
    assert len(computed) == 2


def test_facts_are_asked_for_once_a_model_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask() -> dict[str, Any]:
        asked.append(1)
        return {"number": len(asked)}

    metric: Any = _made("prism")
    assert [metric._remembered(("m", 1), ask)["number"] for _ in range(2)] == [1, 1]
    assert metric._remembered(("m", 2), ask) == {"number": 2}
    kept = []
    assert metric._remembered(("m", 2), ask, lambda found: kept.append(found) or False) == {"number": 3}
    assert metric._remembered(("m", 2), ask, lambda found: kept.append(found) or True) == {"number": 3}
    assert kept == [{"number": 2}, {"number": 3}]
    torch, transformers, *rest = device.arithmetic()
    for arithmetic, anew in (
        ((torch, transformers, "others"), 0),
        ((torch, "0", *rest), 1),
        (("0", transformers, *rest), 1),
    ):
        monkeypatch.setattr(pairs, "usual_arithmetic", lambda *_, found=arithmetic: found)
        before = len(asked)
        metric._remembered(("m", 1), ask)
        assert len(asked) == before + anew
    monkeypatch.setattr(pairs, "_versions", lambda: ("other",))
    metric._remembered(("m", 1), ask)
    assert len(asked) == 6


def test_other_versions_and_arithmetic_are_other_runs(computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> int:
        _made("bertscore").statistics({"A": ["a cat"]}, ReferenceSet.from_texts([["the cat"]]))
        return len(computed)

    assert [run(), run()] == [1, 1]
    threads = device.arithmetic()
    monkeypatch.setattr(pairs, "usual_arithmetic", lambda *_: (*threads[:-1], "99"))
    assert [run(), run()] == [2, 2]
    monkeypatch.setattr(pairs, "_versions", lambda: ("other",))
    assert [run(), run()] == [3, 3]


def test_versions_are_those_of_libraries_and_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs._versions.cache_clear()
    own, _, *libraries = pairs._versions()
    assert own == __version__
    assert libraries == [version(name) for name in ("numpy", "sentencepiece", "tokenizers", "sentencex")]
    hashed: list[Path] = []
    monkeypatch.setattr(pairs, "hash_files", lambda files: hashed.extend(files) or "other")
    pairs._versions.cache_clear()
    assert pairs._versions() == (own, "other", *libraries)
    pairs._versions.cache_clear()
    assert {Path(pairs.__file__), Path(device.__file__)} <= set(hashed) and hashed == sorted(hashed)
    assert all(path.is_relative_to(Path(pairs.__file__).parents[1]) for path in hashed)


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_one_model_serves_two_metrics(models: dict[str, Path], computed: list[str]) -> None:
    for name in ("metricx", "metricx-src", "metricx"):
        _made(f"{name}(model={models['metricx']})").statistics(SYSTEMS, REFERENCES)
    assert computed == ["metricx", "metricx-src"]


def test_half_a_character_counts_as_any_text() -> None:
    metric: Any = _made("prism")
    metric._note("odd", ["\udcff", "a", "\udcff", "\udcfe"])
    assert len(metric._noted["odd"]) == 3
