"""Generators of other packages: the one of the tutorial, built and used as it stands there, and broken ones."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_package import blocks, build

from polyref import load_paraphraser
from polyref.augment import augment
from polyref.errors import ModelError, UsageError
from polyref.paraphrase import DiverseBeam
from polyref.paraphrase.loading import BUILT_IN, GENERATORS, OPTIONS, Generator, generators

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
GUIDE = (DOCS / "how-to" / "add-a-generator.md").read_text("utf-8")
REFS = "Prices rose quickly.\n\nThey buy a big house.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(GUIDE, tmp_path_factory.mktemp("polyref-synonyms"))


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)


@pytest.mark.slow
def test_the_tutorial_works_as_it_stands(site: Path, tmp_path: Path) -> None:
    (tmp_path / "refs.txt").write_text(REFS, "utf-8")
    (line,) = [line for line in blocks(GUIDE, "sh")[1].splitlines() if line.startswith("polyref augment")]
    arguments = line.split()[1:]
    told = ["--lang", "en"]  # two sentences do not say their language
    program = f"from polyref.cli.main import main; main({arguments + told!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    header, first, empty, last = map(json.loads, (tmp_path / arguments[-1]).read_text("utf-8").splitlines())
    meta = header["meta"]
    assert meta["generator"].startswith("synonyms|sha:") and meta["decoding"] == "synonyms(4)"
    assert "dbs" not in json.dumps(header)
    made = [ref for ref in first["refs"] if ref["kind"] == "paraphrase"]
    assert [ref["text"] for ref in made] == ["Prices rose fast.", "Prices rose rapidly."]
    assert all(ref["generator"] == "synonyms" and "logprob" not in ref for ref in made)
    assert len(empty["refs"]) == 1
    assert [ref["text"] for ref in last["refs"][1:]] == ["They buy a large house.", "They purchase a big house."]


def test_the_python_example_prints_what_the_page_says(installed: None) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(blocks(GUIDE, "python")[1], {})
    assert printed.getvalue() == blocks(GUIDE, "text")[1]


@pytest.mark.slow
def test_help_and_info_list_it(installed: None, polyref: Callable[..., Any]) -> None:
    line = blocks(GUIDE, "text")[0].split()
    for command in ("augment", "paraphrase"):
        result = polyref(command, "--help")
        assert " ".join(line) in " ".join(result.out.split())
        assert all(generator.summary in " ".join(result.out.split()) for generator in BUILT_IN)
    assert "synonyms" in polyref("info").out
    assert "synonyms" in {one["name"] for one in polyref("info", "--json").json()["rows"][0]["generators"]}


def test_info_describes_it(installed: None, polyref: Callable[..., Any]) -> None:
    result = polyref("info", "synonyms")
    assert result.code == 0, result.err
    lines = dict(line.split(maxsplit=1) for line in result.out.splitlines() if not line.startswith(" "))
    assert lines["name"] == "synonyms" and lines["languages"] == "en" and lines["decoding"] == "synonyms(4)"
    printed = polyref("info", "synonyms", "--json").json()
    assert printed["signature"] == lines["signature"] == load_paraphraser("synonyms").signature
    assert printed["rows"][0]["kind"] == "synonyms"


def test_an_argument_is_passed_on(installed: None, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "table.tsv").write_text("Prices\tCosts\n", "utf-8")
    (tmp_path / "in.txt").write_text("Prices rose.\n", "utf-8")
    result = polyref("paraphrase", tmp_path / "in.txt", "--lang", "en", "--model", f"synonyms:{tmp_path / 'table.tsv'}")
    assert result.code == 0, result.err
    (row,) = map(json.loads, result.out.splitlines())
    assert row["paraphrases"] == [{"text": "Costs rose.", "score": None}]
    here = load_paraphraser(f"synonyms:{tmp_path / 'table.tsv'}")
    assert here.signature != load_paraphraser("synonyms").signature


def test_what_nobody_sets_is_left_to_its_own_default(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import polyref_synonyms

    given: list[Any] = []
    plain = polyref_synonyms.load

    def load(argument: str | None, *, dtype: str = "float16", threads: int | None, device: str = "cuda") -> Any:
        given.append((dtype, threads, device))
        return plain(argument)

    monkeypatch.setattr(polyref_synonyms, "load", load)
    load_paraphraser("synonyms")
    load_paraphraser("synonyms", dtype="float32", threads=2)
    assert given == [("float16", None, "cpu"), ("float32", 2, "cpu")]


def test_options_it_does_not_have_are_refused(installed: None) -> None:
    with pytest.raises(UsageError, match="`dtype` is 'int8', but the generator synonyms takes no such option"):
        load_paraphraser("synonyms", dtype="int8")
    with pytest.raises(UsageError, match="language 'de' is unknown"):
        load_paraphraser("synonyms", lang="de")
    paraphraser = load_paraphraser("synonyms", lang="en")
    with pytest.raises(UsageError, match=r"synonyms does not search: it has synonyms\(4\)"):
        paraphraser("Prices rose.", decoding=DiverseBeam(beam=8))
    assert paraphraser("Prices rose.", k=1, decoding=DiverseBeam()).paraphrases == ["Prices increased."]


def test_all_ways_to_select_do_without_probabilities(installed: None) -> None:
    texts = ["Prices rose quickly."]
    for select in ("rank", "mmr"):
        made = augment(texts, "synonyms", 3, select=select, lang="en")
        assert len(made[0].extras) == 3 and {ref.logprob for ref in made[0].extras} == {None}


def test_every_generator_of_polyref_is_in_the_documents() -> None:
    assert [generator.name for generator in generators()[: len(BUILT_IN)]] == [one.name for one in BUILT_IN]
    for generator in BUILT_IN:
        assert f"`{generator.name}`" in GUIDE.split("## The file")[0]


@pytest.mark.parametrize("generator", BUILT_IN, ids=lambda one: one.name)
def test_polyrefs_own_are_where_the_table_says_and_read_what_it_says(generator: Generator) -> None:
    load = GENERATORS.load(generator.name)
    assert len(inspect.signature(load).parameters) == 2
    source = inspect.getsource(sys.modules[load.__module__])
    read = {name for name in re.findall(r"\b(?:options|loading)\.(\w+)", source) if name in OPTIONS}
    if generator.name == "roundtrip":  # its two models are loaded as any other
        read |= {"device", "dtype", "threads", "memory"}
    assert read == generator.takes


def _plug_in(folder: Path, package: str, code: str, target: str = "load") -> None:
    (folder / f"{package}.py").write_text(code, "utf-8")
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text(f"[polyref.generators]\nodd = {package}:{target}\n", "utf-8")


def test_what_a_plug_in_gives_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    _plug_in(tmp_path, "odd_generator", "def load(argument):\n    return argument")
    assert "odd" in [generator.name for generator in generators()]
    with pytest.raises(ModelError, match="the generator odd gave 'x', expected a Paraphraser"):
        load_paraphraser("odd:x")


def test_a_name_that_is_nothing_lists_the_generators(installed: None) -> None:
    with pytest.raises(ModelError, match=r"no such model folder .*generators by name: shipped, .*, synonyms"):
        load_paraphraser("synonym:table.tsv")
