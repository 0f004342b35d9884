"""What other packages add: one policy for metrics, statistics, generators, formats, judgements and filters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref import ReferenceSet, get_metric, load_paraphraser
from polyref.augment.filters import FILTERS
from polyref.cli.main import COMMANDS
from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.eval.judgements.base import JUDGEMENTS, gold_reader
from polyref.eval.statistics.named import STATISTICS, statistics_called
from polyref.formats import FORMATS, by_name
from polyref.metrics.registry import REGISTRY, all_options, metric_names
from polyref.paraphrase.loading import GENERATORS, generators
from polyref.plugins import Plugins

EXAMPLES = Path(polyref.__file__).parent / "examples"


@dataclass
class Kind:
    """A kind of plug-in: its table, a name of polyref's, and how a name is used."""

    plugins: Plugins
    own: str
    use: Callable[[str], Any]


KINDS = {
    "metrics": Kind(REGISTRY, "chrf", get_metric),
    "statistics": Kind(STATISTICS, "pearson", statistics_called),
    "generators": Kind(GENERATORS, "lexical", load_paraphraser),
    "formats": Kind(FORMATS, "xml", by_name),
    "judgements": Kind(JUDGEMENTS, "mqm", gold_reader),
    "filters": Kind(FILTERS, "links", FILTERS.load),
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package as a wheel would: its module, and a dist-info folder."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def add(package: str, group: str, entries: str, code: str = "") -> None:
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
        (site / f"{package}.py").write_text(code)
        monkeypatch.delitem(sys.modules, package, raising=False)

    return add


@pytest.mark.parametrize("name", KINDS)
def test_a_name_of_two_packages_is_an_error_where_it_is_used(name: str, install: Callable[..., None]) -> None:
    kind = KINDS[name]
    install("first_odd", kind.plugins.group, "twice = first_odd:x")
    install("second_odd", kind.plugins.group, f"twice = second_odd:x\n{kind.own} = second_odd:x")
    both = rf"several packages have a {kind.plugins.what} 'twice': (first|second)_odd 1.0, (first|second)_odd 1.0"
    taken = f"several packages have a {kind.plugins.what} '{kind.own}': polyref itself, second_odd 1.0"
    with pytest.raises(UsageError, match=both):
        kind.use("twice")
    with pytest.raises(UsageError, match=rf"{taken} \(uninstall second_odd 1.0\)"):
        kind.use(kind.own)
    with pytest.warns(PolyrefWarning) as caught:
        names = kind.plugins.names()
    assert (kind.own in names, "twice" in names) == (True, False)
    assert len(caught) == 2 and sum(taken in str(one.message) for one in caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind.plugins.names() == names, "named once"
        for own in kind.plugins.own:
            if own != kind.own and kind.plugins is not GENERATORS:
                kind.plugins.load(own)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("", "cannot be imported: AttributeError: .* has no attribute 'X'"),
        ("X = 3", "is 3, expected "),
    ],
    ids=["no-import", "exit", "nothing", "other"],
)
def test_what_cannot_be_used_is_in_nobodys_way(name: str, code: str, why: str, install: Callable[..., None]) -> None:
    kind, package = KINDS[name], f"odd_{name}"
    install(package, kind.plugins.group, f"odd = {package}:X", code)
    said = rf"the {kind.plugins.what} 'odd' of {package} 1.0 \({package}:X\) {why}.* \(mend or uninstall {package} 1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind.plugins.names()[-1] == "odd", "a list imports nothing"
        kind.use(kind.own)
    with pytest.raises(UsageError, match=said):
        kind.use("odd")
    with pytest.warns(PolyrefWarning, match=said) as caught:
        assert kind.plugins.loaded() == {}
    assert len(caught) == 1


MUTE = "\n    def __{}__(self):\n        raise ValueError('mute')\n"


@pytest.mark.parametrize("kind", [*KINDS.values()], ids=[*KINDS])
def test_what_cannot_say_what_it_is(kind: Kind, install: Callable[..., None]) -> None:
    code = "class X:\n    @property\n    def __class__(self):\n        raise ValueError('no class')\nX = X()\n"
    install("odd_thing", kind.plugins.group, "odd = odd_thing:X", code)
    with pytest.raises(UsageError, match="'odd' of odd_thing 1"):
        kind.use("odd")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise GeneratorExit('x')", "cannot be imported: GeneratorExit: x"),
        (f"class Mute(Exception):{MUTE.format('str')}raise Mute", "cannot be imported: a Mute"),
        (f"class Mute:{MUTE.format('repr')}X = Mute()", "is a Mute, expected "),
    ],
    ids=["ends", "mute-error", "mute-object"],
)
def test_what_cannot_even_be_told(code: str, why: str, install: Callable[..., None]) -> None:
    install("odd_format", "polyref.formats", "odd = odd_format:X", code)
    with pytest.raises(UsageError, match=why):
        FORMATS.load("odd")


def test_a_broken_format_leaves_text_alone(install: Callable[..., None], tmp_path: Path) -> None:
    install("odd_format", "polyref.formats", "odd = odd_format:X", "import no_such_module")
    (tmp_path / "refs.en").write_text("Ann paid.\n", "utf-8")
    with pytest.warns(PolyrefWarning, match=r"the file format 'odd' of odd_format 1\.0") as caught:
        assert ReferenceSet.load(tmp_path / "refs.en").texts() == [["Ann paid."]]
        assert ReferenceSet.load(tmp_path / "refs.en").texts() == [["Ann paid."]]
    assert len(caught) == 1


def test_a_format_that_fails_on_a_file_is_passed_over(install: Callable[..., None], tmp_path: Path) -> None:
    code = "from polyref.formats import Format\nX = Format('odd', lambda name, line: 1 / 0, print)\n"
    install("odd_format", "polyref.formats", "odd = odd_format:X", code)
    (tmp_path / "refs.en").write_text("Ann paid.\n", "utf-8")
    with pytest.warns(PolyrefWarning, match=r"the file format odd on .*refs\.en: ZeroDivisionError: division by zero"):
        assert ReferenceSet.load(tmp_path / "refs.en").texts() == [["Ann paid."]]


def test_a_format_that_cannot_read_what_it_takes_is_named(install: Callable[..., None], tmp_path: Path) -> None:
    code = "from polyref.formats import Format\nX = Format('odd', lambda name, line: True, lambda *a, **k: 1 / 0)\n"
    install("odd_format", "polyref.formats", "odd = odd_format:X", code)
    (tmp_path / "refs.en").write_text("Ann paid.\n", "utf-8")
    said = r"refs\.en: the file format odd of another package cannot read it: ZeroDivisionError: division by zero"
    with pytest.raises(DataError, match=said):
        ReferenceSet.load(tmp_path / "refs.en")


def test_a_metric_of_a_taken_name_stops_that_metric_alone(install: Callable[..., None]) -> None:
    code = "from polyref.metrics import Metric\nclass X(Metric):\n    __annotations__ = {'a': 'nothing'}\n"
    install("odd_metric", "polyref.metrics", "bleu = odd_metric:X\nÜber = odd_metric:X\nfields = odd_metric:X", code)
    with pytest.warns(PolyrefWarning) as caught:
        known = all_options()
    said = sorted(str(one.message) for one in caught)
    assert [text.split(" (")[0] for text in said] == [
        "odd_metric 1.0 has a metric called 'Über', expected small letters, digits and + . -",
        "several packages have a metric 'bleu': polyref itself, odd_metric 1.0",
        "the options of the metric fields: NameError: name 'nothing' is not defined",
    ]
    assert "tokenize" in known["bleu"] and "fields" not in known
    assert get_metric("chrf").label == "chrF"
    for name in ("bleu", "parbleu", "spbleu"):
        with pytest.raises(UsageError, match="several packages have a metric 'bleu'"):
            get_metric(name)
    assert metric_names()[-1] == "fields"


@pytest.mark.slow
def test_at_the_command_line(install: Callable[..., None], tmp_path: Path) -> None:
    install("odd_metric", "polyref.metrics", "bleu = odd_metric:X")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), str(EXAMPLES.parents[1])))}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "polyref", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    inputs = [str(EXAMPLES / "refs.en"), "-i", str(EXAMPLES / "sysA.en")]
    said = "several packages have a metric 'bleu': polyref itself, odd_metric 1.0 (uninstall odd_metric 1.0)\n"
    fine = run("score", *inputs, "-m", "chrf", "--json")
    assert (fine.returncode, fine.stderr) == (0, f"polyref: warning: {said}")
    assert json.loads(fine.stdout)["rows"]
    assert run("evaluate", "--help").returncode == 0
    refused = run("score", *inputs, "-m", "bleu")
    assert refused.returncode == 2 and refused.stderr.endswith(f"polyref: error: {said}")


def test_a_list_of_entry_points_that_cannot_be_read(install: Callable[..., None], tmp_path: Path) -> None:
    install("odd_list", "polyref.formats", "no equals sign")
    (tmp_path / "refs.en").write_text("Ann paid.\n", "utf-8")
    with pytest.warns(PolyrefWarning, match="plug-ins cannot be looked for"):
        assert ReferenceSet.load(tmp_path / "refs.en").texts() == [["Ann paid."]]


def test_names_that_are_unknown(install: Callable[..., None]) -> None:
    things = Plugins("thing", "polyref.things", {"own": "polyref.plugins:Plugins", "two": 2})
    install("fine_things", "polyref.things", "loads = json:loads\ndumps = json:dumps")
    assert things.names() == ("own", "two", "dumps", "loads")
    assert [things.load(name) for name in things.names()] == [Plugins, 2, json.dumps, json.loads]
    assert "loads" in things and "other" not in things
    with pytest.raises(UsageError, match="unknown thing 'other', expected one of own, two, dumps, loads"):
        things.load("other")


def test_generators_are_listed_with_their_packages(install: Callable[..., None]) -> None:
    install("fine_generator", "polyref.generators", "fine = fine_generator:load")
    assert generators()[-1].summary == "fine_generator:load (fine_generator 1.0)"


#: What the shell sends when somebody presses the tabulator.
COMPLETED = (
    ["score", "refs", "-m", ""],
    ["score", "refs", "-m", "mine", "--"],
    ["evaluate", "set", "--"],
    ["evaluate", "set", "--statistic", ""],
    ["evaluate", "set", "--judgements", ""],
    ["submit", "set", "-m", ""],
    ["augment", "refs", "--model", ""],
    ["augment", "refs", "--filter", ""],
    ["convert", "refs", "a", "b", "--to", ""],
    ["paraphrase", "--model", ""],
    ["inspect", "--"],
)


def test_neither_help_nor_completion_runs_code_of_plug_ins(install: Callable[..., None], tmp_path: Path) -> None:
    """A shell that completes, and somebody who reads, have asked for nothing yet."""
    for group in KINDS:
        code = f"open({str(tmp_path / 'ran')!r}, 'a').close()\nx = 1\n"
        install(f"trace_{group}", f"polyref.{group}", f"mine = trace_{group}:x", code)
    words = [[name, "--help"] for name in COMMANDS]
    program = (
        "import os, sys\nfrom click.testing import CliRunner\nfrom polyref.cli.main import cli\n"
        f"for words in {words!r}:\n    assert CliRunner().invoke(cli, words).exit_code == 0, words\n"
        "from click.shell_completion import BashComplete\n"
        "shell = BashComplete(cli, {}, 'polyref', '')\n"
        f"for words in {COMPLETED!r}:\n    found = shell.get_completions(words[:-1], words[-1])\n"
        "    print(words, [one.value for one in found])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), str(EXAMPLES.parents[1])))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'mine'") >= 4 and "'--chrf-beta'" in done.stdout
    assert not (tmp_path / "ran").exists(), done.stdout
