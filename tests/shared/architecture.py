"""What can be read off the source about who imports whom and how large things are.

Every function takes the folder that holds the sources and gives lines for people, one a fault, sorted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Modules of one folder, without its ``__init__``.
MOST_MODULES = 20
#: Lines of one module.
MOST_LINES = 600


@dataclass(frozen=True)
class Layers:
    """The parts of a package, lower ones first: nothing imports from a later entry."""

    order: Sequence[frozenset[str]]
    #: Part -> lower parts that it does without all the same.
    apart: Mapping[str, frozenset[str]]

    def number(self, part: str) -> int | None:
        return next((number for number, parts in enumerate(self.order) if part in parts), None)


@cache
def tree(path: Path) -> ast.Module:
    """A module, parsed once for all rules."""
    return ast.parse(path.read_text("utf-8"))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything imported, wherever in the file: in functions and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import on line {node.lineno}"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def part_of(path: Path, package: Path) -> str:
    """The layer's folder or module that a file of the package belongs to."""
    return path.relative_to(package).with_suffix("").parts[0]


def upward_imports(path: Path, package: Path, layers: Layers) -> list[str]:
    """Imports from a layer above the file's own, from one it is kept apart from, and from none at all."""
    own = part_of(path, package)
    faults = []
    for line, name in imports(tree(path)):
        parts = name.split(".")
        if parts[0] != package.name or name == f"{package.name}.__version__":
            continue
        above = layers.number(parts[1]) if len(parts) > 1 else None
        if above is None:
            faults.append(f"{line}: {name} is in no layer (import from the module that defines it)")
        elif above > (layers.number(own) or 0):
            faults.append(f"{line}: {own} imports {name}, which is above it")
        elif parts[1] in layers.apart.get(own, ()):
            faults.append(f"{line}: {own} imports {name}, which it is kept apart from")
    return faults


def _modules(root: Path, package: bool) -> dict[str, Path]:
    """Dotted name -> file; of scripts, which find each other beside themselves or from the root, without the root."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent if package else root).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def _graph(root: Path, package: bool) -> dict[str, set[str]]:
    """Module -> the modules under ``root`` that it imports."""
    modules = _modules(root, package)
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        if package and module == root.name:
            graph[module] = set()  # the public names: resolved lazily, from any layer
            continue
        names = [name for _, name in imports(tree(path))]
        if not package:
            names += [f"{module.rpartition('.')[0]}.{name}" for name in names]
        # ``from a.b import c`` is the module a.b.c, if there is one, else what a.b defines.
        known = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = (known & modules.keys()) - {module}
    return graph


def circles(root: Path, *, package: bool = True) -> list[str]:
    """Modules that import each other, directly or through others (strongly connected components)."""
    graph = _graph(root, package)
    reached = {module: _reached(graph, module) for module in graph}
    found = {tuple(sorted({module, *_mutual(reached, module)})) for module in graph if module in reached[module]}
    return [" <-> ".join(circle) for circle in sorted(found)]


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(graph[module])
    return seen


def _mutual(reached: Mapping[str, set[str]], module: str) -> set[str]:
    return {other for other in reached[module] if module in reached[other]}


def opened_to_understand(root: Path, module: str) -> tuple[int, int]:
    """Modules, and their lines, that a module imports, directly or through others, with itself."""
    modules = _modules(root, package=True)
    read = {module, *_reached(_graph(root, package=True), module)} - {root.name}
    return len(read), sum(len(modules[name].read_text("utf-8").splitlines()) for name in read)


def crowded_folders(root: Path) -> list[str]:
    """Folders with more modules than one remembers."""
    counts: dict[Path, int] = {}
    for path in root.rglob("*.py"):
        counts[path.parent] = counts.get(path.parent, 0) + (path.name != "__init__.py")
    return sorted(
        f"{folder.relative_to(root.parent)} has {count} modules, expected at most {MOST_MODULES}"
        for folder, count in counts.items()
        if count > MOST_MODULES
    )


def long_modules(root: Path, pattern: str = "**/*.py", most: int = MOST_LINES) -> list[str]:
    """Modules of more lines than they should have."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in root.glob(pattern)}
    return sorted(
        f"{path.relative_to(root.parent)} has {length} lines, expected at most {most}"
        for path, length in lengths.items()
        if length > most
    )


def speaks(path: Path) -> list[str]:
    """Where a module prints, exits or reads the command line."""
    faults = []
    for node in ast.walk(tree(path)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"print", "exit", "input"}
        ):
            faults.append(f"{node.lineno}: {node.func.id}()")
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.argv", "sys.exit", "os._exit"}:
            faults.append(f"{node.lineno}: {ast.unparse(node)}")
    return faults


def unpickles(tree: ast.AST) -> list[str]:
    """Where code could be run by reading a file."""
    faults = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = ast.unparse(node.func)
        safe = any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords)
        if called.split(".")[0] in {"pickle", "dill", "shelve", "marshal"} or (called == "torch.load" and not safe):
            faults.append(f"{node.lineno}: {called}()")
    return faults


def opens_folders(tree: ast.AST) -> list[str]:
    """Where Transformers opens a folder, and so could run its code."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"from_pretrained", "from_config", "pipeline"}
    ]


def parses(tree: ast.AST) -> list[str]:
    """Where JSON or TOML is parsed."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"json.loads", "json.load", "json.JSONDecoder"}:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: {one.name}" for one in node.names if one.name in {"tomllib", "tomli"}]
    return found
