"""The rules of the architecture that can be read off the source: who imports whom, who prints, what start-up loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from architecture import (
    Layers,
    circles,
    crowded_folders,
    imports,
    long_modules,
    opened_to_understand,
    opens_folders,
    parses,
    part_of,
    speaks,
    tree,
    unpickles,
    upward_imports,
)

import polyref
from polyref.cli.main import COMMANDS

PACKAGE = Path(polyref.__file__).parent
SCRIPTS = PACKAGE.parent / "scripts"
LAYERS = Layers(
    (
        # The ground floor: what any part may need.
        frozenset({"chat", "formats", *(path.stem for path in PACKAGE.glob("[a-z]*.py"))}),
        frozenset({"models"}),
        frozenset({"paraphrase"}),
        frozenset({"augment"}),
        frozenset({"metrics"}),
        frozenset({"eval"}),
        frozenset({"cli", "__main__"}),
    ),
    # A metric scores the references it is given, wherever they come from.
    apart={"metrics": frozenset({"paraphrase", "augment"})},
)
MODULES = sorted(PACKAGE.rglob("*.py"))


def _faults(found: Callable[[Path], list[str]]) -> list[str]:
    """What a rule finds in the package, each with its module and line."""
    return [f"{path.relative_to(PACKAGE)}:{fault}" for path in MODULES for fault in found(path)]


def test_nothing_imports_upwards() -> None:
    public = PACKAGE / "__init__.py"  # the public names: resolved lazily, from any layer
    assert _faults(lambda path: [] if path == public else upward_imports(path, PACKAGE, LAYERS)) == []


def test_nothing_imports_in_a_circle() -> None:
    assert circles(PACKAGE) == []
    assert circles(SCRIPTS, package=False) == []


@pytest.mark.parametrize("root", [PACKAGE, SCRIPTS])
def test_folders_and_modules_are_of_a_size_to_read(root: Path) -> None:
    assert crowded_folders(root) == []
    assert long_modules(root) == []


@pytest.mark.parametrize(
    ("module", "modules", "lines"),
    [
        ("references", 8, 2_000),
        ("metrics.ngram.chrf", 13, 3_100),
        ("paraphrase.search.engine", 12, 1_800),
        ("metrics.api", 35, 6_500),
        # These still take too many lines: only ever lower a number.
        ("metrics.likelihood.prism", 34, 9_100),
        ("metrics.embedding.bertscore", 30, 8_000),
        ("augment.in_memory", 48, 13_500),
        ("eval.api", 68, 20_000),
    ],
)
def test_a_reader_opens_few_modules_to_understand_one(module: str, modules: int, lines: int) -> None:
    opened, read = opened_to_understand(PACKAGE, f"polyref.{module}")
    assert opened <= modules
    assert read <= lines


def test_every_part_has_a_layer() -> None:
    found = {part_of(path, PACKAGE) for path in MODULES} - {"__init__", "examples"}
    assert found | {"__main__"} == frozenset.union(*LAYERS.order)


def test_only_the_command_line_prints_exits_or_reads_arguments() -> None:
    def found(path: Path) -> list[str]:
        if part_of(path, PACKAGE) in LAYERS.order[-1]:
            return []
        clicks = [f"{line}: {name}" for line, name in imports(tree(path)) if name.split(".")[0] == "click"]
        return speaks(path) + clicks

    assert _faults(found) == []


def test_nothing_is_unpickled() -> None:
    assert _faults(lambda path: unpickles(tree(path))) == []


def test_what_others_wrote_is_parsed_in_one_place() -> None:
    own = {
        "json_files.py",
        "formats/own.py",  # its own temporary file
        "cli/demo.py",  # what the demo has just written
        "models/encoders.py",  # a table of the package
        "chat/server.py",  # an answer, which is no file
        "paraphrase/search_paraphraser.py",  # the cache
        "store.py",  # settings, as they will be read again
    }
    assert {fault.split(":")[0] for fault in _faults(lambda path: parses(tree(path)))} == own
    assert sorted(parses(ast.parse("json.loads(x)\nimport tomllib\njson.dumps(x)"))) == ["1: json.loads", "2: tomllib"]


def test_transformers_opens_folders_in_one_place() -> None:
    (found,) = _faults(lambda path: opens_folders(tree(path)))
    assert found.startswith("models/opening.py:")
    assert opens_folders(ast.parse("x\nAutoModel.from_pretrained(x)")) == ["2: AutoModel.from_pretrained"]


def _write(root: Path, files: dict[str, str]) -> Path:
    """A folder of small modules."""
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_rule_of_layers_finds_faults(tmp_path: Path) -> None:
    inside = "def f():\n    from polyref.metrics import bleu\n"
    files = {
        "augment/x": inside + "import polyref.cli\nfrom polyref import augment, load\n",
        "augment/y": "import torch\nfrom polyref import __version__\nfrom polyref.paraphrase import DiverseBeam\n",
        "metrics/x": "from polyref.models import a\nfrom polyref.paraphrase.b import c\nimport polyref.augment\n",
    }
    package = _write(tmp_path / "polyref", files)
    assert upward_imports(package / "augment" / "x.py", package, LAYERS) == [
        "3: augment imports polyref.cli, which is above it",
        "4: polyref.load is in no layer (import from the module that defines it)",
        "2: augment imports polyref.metrics.bleu, which is above it",
    ]
    assert upward_imports(package / "augment" / "y.py", package, LAYERS) == []
    assert upward_imports(package / "metrics" / "x.py", package, LAYERS) == [
        "2: metrics imports polyref.paraphrase.b.c, which it is kept apart from",
        "3: metrics imports polyref.augment, which it is kept apart from",
    ]


def test_the_search_for_circles_finds_them(tmp_path: Path) -> None:
    files = {
        "a": "import polyref.b",
        "b": "def f():\n    from polyref.c import name",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from polyref import a",
        "d": "from polyref import a, e",
        "e": "from polyref.f import x",
        "f/x": "",
        "g/__init__": "from polyref.g.x import name",
        "g/x": "from polyref.g import y",
        "g/y": "from polyref.g import something",
    }
    package = _write(tmp_path / "polyref", files)
    assert circles(package) == ["polyref.a <-> polyref.b <-> polyref.c", "polyref.g <-> polyref.g.x <-> polyref.g.y"]
    beside = {"one/a": "from b import f", "one/b": "import a", "two/a": "import b", "two/b": ""}
    beside |= {"run": "from room.a import f", "room/a": "from room.b import g", "room/b": "from room import a"}
    scripts = _write(tmp_path / "scripts", beside)
    assert circles(scripts, package=False) == ["one.a <-> one.b", "room.a <-> room.b"]


def test_what_a_reader_opens_is_counted(tmp_path: Path) -> None:
    files = {"a": "from polyref import __version__\nimport polyref.b\n", "b": "def f():\n    from polyref.c import d"}
    package = _write(tmp_path / "polyref", files | {"c": "d = 1\n", "e": "import polyref.a", "__init__": "x = 1\n"})
    assert opened_to_understand(package, "polyref.a") == (3, 5)
    assert opened_to_understand(package, "polyref.c") == (1, 1)


def test_the_measures_of_size_find_faults(tmp_path: Path) -> None:
    files = {f"a/b{number}": "x = 1\n" for number in range(21)} | {"a/__init__": ""}
    files |= {"c/long": "x = 1\n" * 601, "c/fits": "x = 1\n" * 600}
    package = _write(tmp_path / "polyref", files)
    assert crowded_folders(package) == ["polyref/a has 21 modules, expected at most 20"]
    assert long_modules(package) == ["polyref/c/long.py has 601 lines, expected at most 600"]
    assert long_modules(package / "c", "f*.py", most=599) == ["c/fits.py has 600 lines, expected at most 599"]
    assert long_modules(package, "*.py", most=1) == []
    (package / "a" / "b0.py").unlink()
    assert crowded_folders(package) == []


def test_the_searches_for_speech_and_unpickling_find_them(tmp_path: Path) -> None:
    _write(tmp_path, {"a": "import sys\nprint(1)\nsys.exit(sys.argv)\nsys.stdout.write('')\n"})
    assert sorted(speaks(tmp_path / "a.py")) == ["2: print()", "3: sys.argv", "3: sys.exit"]
    bad = "torch.load(f)\ntorch.load(f, weights_only=False)\npickle.load(f)\ntorch.load(f, weights_only=True)"
    assert unpickles(ast.parse(bad)) == ["1: torch.load()", "2: torch.load()", "3: pickle.load()"]


def _loaded(program: str) -> set[str]:
    """Top-level modules loaded by a program in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint('\\n'.join(sys.modules), file=sys.stderr)"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stderr.split()}


def test_import_is_light() -> None:
    heavy = {"torch", "transformers", "sacrebleu", "scipy", "numpy", "click", "ray", "pandas", "fsspec"}
    assert not _loaded("import polyref; dir(polyref)") & heavy


def test_help_loads_no_model_library() -> None:
    for module, _ in COMMANDS.values():
        path = PACKAGE.parent.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or path.is_dir(), f"there is no command {module}"
    # All in one interpreter: which help loads what is said on its way.
    program = (
        "from polyref.cli.main import main\n"
        f"for command in {['', *COMMANDS]}:\n"
        "    try: main([command, '--help'] if command else ['--help'])\n"
        "    except SystemExit as stop: assert not stop.code\n"
        "    heavy = {'torch', 'transformers', 'ray', 'pandas', 'fsspec'} & set(sys.modules)\n"
        "    assert not heavy, f'polyref {command} --help loads {heavy}'"
    )
    assert not _loaded(program) & {"torch", "transformers", "ray", "pandas", "fsspec"}
