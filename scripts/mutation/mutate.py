"""Small faults, one at a time, in a module's functions and constants: does one of its tests fail?

    python scripts/mutation/mutate.py [--results mutants.jsonl] [--survivors] [MODULE ...]

Not part of CI: it takes hours. `modules.toml` names the modules, and the fast tests of each. These are collected once,
and every mutant is tried in a fork, in which the code of its function is exchanged; so no file is touched. Programs of
Python that a test starts find the mutant where they import the module. Coverage says which tests run a line: a mutant
meets those, and those that start programs, the quickest first. What was tried is in the results, and is not tried again
while its line says the same; `--survivors` tries those again that survived. `equivalent.toml` says which mutants change
nothing that matters, and why. At the end comes the score of every module, as `docs/benchmarks/mutants.csv` has it
(`--list`).

Mutants of what publishes files can replace devices, where root runs them; root keeps /dev as it is by

    unshare -m sh -c "mount --rbind /dev /dev && mount -o remount,ro,bind /dev && python scripts/mutation/mutate.py"
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest
import tomllib
from coverage import Coverage

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parent.parent
#: Most seconds of tests that a mutant of a function meets, and one of a constant, which may be for any test.
_MOST: Final = 30.0
_MOST_OF_CONSTANTS: Final = 10.0
_SWAPPED: Final[dict[type, type]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr},
}
_OTHERS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
#: What a program runs before all else: the module is that in the mutant's file.
_IN_PROGRAMS: Final = """
import importlib.util
import sys

class Mutant:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, {file!r}) if name == {name!r} else None

sys.meta_path.insert(0, Mutant)
"""
#: What only speaks: its words are no matter of this.
_SPEAKS: Final = ("Error", "Warning", "warn", "fail", "fault", "tell")


def changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Statement, function and new text of every mutant; the tree holds the mutant while it is asked for."""
    yield from _within(tree, "", None)


def _within(node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[tuple[ast.stmt, str, str]]:
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"} or _only_speaks(node, field):
            continue
        several = isinstance(value, list)
        for place, child in enumerate(value if several else [value]):
            if isinstance(child, ast.AST):
                inside = f"{function}.{child.name}".lstrip(".") if _names(child) else function
                own = child if isinstance(child, ast.stmt) else statement
                for new in _instead(child, node, field):
                    _put(node, field, place if several else None, new)
                    if own is not None:
                        shown = new if isinstance(child, ast.stmt) and new is not None else own
                        yield own, inside, _first_line(shown)
                    _put(node, field, place if several else None, child, back=new is None)
                yield from _within(child, inside, own)


def _names(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.ClassDef))


def _only_speaks(node: ast.AST, field: str) -> bool:
    """Messages, docstrings, and what types alone read."""
    if isinstance(node, ast.Call) and field in {"args", "keywords"}:
        called = ast.unparse(node.func)
        return called.endswith(_SPEAKS) or called.split(".")[-1] in {"cast", "TypeVar", "warn"}
    return isinstance(node, (ast.Import, ast.ImportFrom)) or (isinstance(node, ast.Expr) and _is_text(node.value))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _put(node: ast.AST, field: str, place: int | None, new: ast.AST | None, *, back: bool = False) -> None:
    """Put a node into a field; None takes it out of its list, and ``back`` puts it there again."""
    if place is None:
        setattr(node, field, new)
        return
    within = getattr(node, field)
    within[place : place + (not back)] = [] if new is None else [new]


def _instead(node: ast.AST, parent: ast.AST, field: str) -> Iterator[ast.AST | None]:
    """What may stand in the place of a node: None for nothing, in a list."""
    if isinstance(node, ast.Compare):
        for place, sign in enumerate(node.ops):
            if type(sign) in _SWAPPED:
                ops = [*node.ops[:place], _SWAPPED[type(sign)](), *node.ops[place + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(_SWAPPED[type(node.op)](), node.values)
        for place in range(len(node.values)):
            left = node.values[:place] + node.values[place + 1 :]
            yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
        yield ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _SWAPPED:
        yield ast.AugAssign(node.target, _SWAPPED[type(node.op)](), node.value)
        yield ast.Pass()
    elif isinstance(node, ast.Constant) and not isinstance(parent, (ast.JoinedStr, ast.Expr)):
        yield from _other_value(node.value)
    elif isinstance(node, (ast.IfExp, ast.If, ast.While)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        denied = ast.UnaryOp(ast.Not(), node.test)
        if isinstance(node, ast.IfExp):
            yield ast.IfExp(denied, node.body, node.orelse)
        else:
            yield type(node)(test=denied, body=node.body, orelse=node.orelse)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass()
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Pass()
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHERS:
        yield ast.Call(ast.Name(_OTHERS[node.func.id], ast.Load()), node.args, node.keywords)
    elif isinstance(node, ast.keyword) and field == "keywords" and isinstance(parent, ast.Call):
        yield None
    if isinstance(node, ast.comprehension):
        for place in range(len(node.ifs)):
            yield ast.comprehension(node.target, node.iter, node.ifs[:place] + node.ifs[place + 1 :], node.is_async)
    if field == "elts" and isinstance(parent.ctx if hasattr(parent, "ctx") else ast.Load(), ast.Load):
        yield None
    if isinstance(parent, ast.JoinedStr) and isinstance(node, ast.FormattedValue):
        yield None
    if isinstance(node, ast.Dict) and len(node.keys) > 0:
        for place in range(len(node.keys)):
            yield ast.Dict(node.keys[:place] + node.keys[place + 1 :], node.values[:place] + node.values[place + 1 :])


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _other_value(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value + 1)
    elif isinstance(value, (str, bytes)):
        yield ast.Constant(value + ("~" if isinstance(value, str) else b"~"))


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]


def mutants(tree: ast.Module, functions: list[str]) -> Iterator[tuple[str, ast.stmt, str]]:
    """Name, statement and function of every mutant, in these functions alone if any are named."""
    before = {id(node): _first_line(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    classes = {id(one) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.body}
    seen: Counter[str] = Counter()
    for statement, function, after in changes(tree):
        outside = id(statement) in classes or (not function and not isinstance(statement, (ast.Assign, ast.AnnAssign)))
        if outside or (functions and not any(f"{function}.".startswith(f"{one}.") for one in functions)):
            continue
        name = f"{function}: {before[id(statement)]}  ->  {after}"
        seen[name] += 1
        yield name + (f"  #{seen[name]}" if seen[name] > 1 else ""), statement, function


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


class Trial:
    """A module and its tests; a plugin of pytest, which takes the place of running them.

    Attributes:
        known: Module and mutant -> what came of it.
    """

    def __init__(
        self, module: dict[str, Any], known: dict[tuple[str, str], str], given: argparse.Namespace, equivalent: Any
    ) -> None:
        self.path, self.tests, self.functions = module["path"], module["tests"], module.get("functions", [])
        self.slow = module.get("slow", False)
        self.file = REPOSITORY / self.path
        self.known, self.given = known, given
        self.equivalent: dict[str, str] = equivalent.get(self.path, {})

    def names(self) -> list[str]:
        """All mutants."""
        return [name for name, _, _ in mutants(ast.parse(self.file.read_text("utf-8")), self.functions)]

    def is_open(self, name: str) -> bool:
        """Whether a mutant is to be tried."""
        found = self.known.get((self.path, name))
        return found is None or (self.given.survivors and found == "survived" and name not in self.equivalent)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants with the tests that were collected."""
        module = importlib.import_module(self.path.removesuffix(".py").replace("/", "."))
        live = defaultdict(list)
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename == str(self.file):
                live[one.__code__.co_qualname].append(one)
        covering, seconds, starting = self._covered(session)
        tree = ast.parse(self.file.read_text("utf-8"))
        for name, statement, function in mutants(tree, self.functions):
            if not self.is_open(name):
                continue
            try:
                whole = compile(ast.fix_missing_locations(tree), str(self.file), "exec")
            except SyntaxError:
                self._note(name, "impossible", 0)
                continue
            lines = range(statement.lineno, statement.end_lineno + 1) if function else [0]
            numbers = {number for line in lines for number in covering.get(line, ())} | starting
            if not function:
                numbers = set(range(len(session.items)))
            chosen, total = {}, 0.0
            for number in sorted(numbers, key=seconds.__getitem__):
                if total < (_MOST if function else _MOST_OF_CONSTANTS):
                    chosen[session.items[number]] = 10 + int(5 * seconds[number])
                    total += seconds[number]

            def change(whole: CodeType = whole, statement: ast.stmt = statement, function: str = function) -> None:
                space = dict(vars(module))
                if not function:
                    exec(compile(ast.Module([statement], []), str(self.file), "exec"), space)
                    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                    before = vars(module)[target.id]
                    for one in [*sys.modules.values()]:  # and where it was imported
                        if vars(one).get(target.id) is before:
                            setattr(one, target.id, space[target.id])
                for code in _codes(whole) if function else ():
                    for own in live.get(code.co_qualname, ()):
                        own.__code__ = code
                if isinstance(statement, ast.FunctionDef):  # the values of its parameters are no part of the code
                    bare = ast.Module([ast.FunctionDef(**{**vars(statement), "decorator_list": []})], [])
                    exec(compile(bare, str(self.file), "exec", annotations.compiler_flag), space)
                    for own in live.get(function, ()):
                        own.__defaults__ = space[statement.name].__defaults__
                        own.__kwdefaults__ = space[statement.name].__kwdefaults__
                if starting:
                    self._change_programs(module.__name__, ast.unparse(tree))

            result = self._tried(session, chosen, change) if chosen else "survived"
            self._note(name, result, len(chosen))
            if result != "killed":
                print(f"{self.path}:{statement.lineno}: {result} by {len(chosen)} tests: {name}", flush=True)
        return True

    def _change_programs(self, name: str, text: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="program-"))
        (folder / "mutant.py").write_text(text, "utf-8")
        program = _IN_PROGRAMS.format(name=name, file=str(folder / "mutant.py"))
        (folder / "sitecustomize.py").write_text(program, "utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

    def _note(self, name: str, result: str, tests: int) -> None:
        entry = {"module": self.path, "mutant": name, "result": result, "tests": tests}
        with self.given.results.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def _covered(self, session: pytest.Session) -> tuple[dict[int, set[int]], list[float], set[int]]:
        """Line -> the tests that run it, by their numbers; the seconds of each; and those that start programs."""
        kept = Path(tempfile.gettempdir()) / "coverage"

        def measure() -> None:
            seconds, starting, number = [], set(), 0

            def hook(event: str, args: object) -> None:
                if event in {"subprocess.Popen", "os.fork"}:  # what runs there is not measured
                    starting.add(number)

            sys.addaudithook(hook)
            found = Coverage(str(kept), include=[str(self.file)], config_file=False)
            found.start()
            for number, item in enumerate(session.items):
                found.switch_context(str(number))
                began = time.monotonic()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                seconds.append(time.monotonic() - began)
                if session.testsfailed:
                    raise SystemExit(f"{item.nodeid} fails without any mutant")
            found.stop()
            found.save()
            kept.with_suffix(".seconds").write_text(json.dumps([seconds, sorted(starting)]))

        if self._tried(session, {}, measure) != "survived":
            raise SystemExit(f"{self.path}: a test fails without any mutant")
        data = Coverage(str(kept)).get_data()
        data.read()
        lines = data.contexts_by_lineno(str(self.file))
        covering = {line: {int(number) for number in numbers if number} for line, numbers in lines.items()}
        seconds, starting = json.loads(kept.with_suffix(".seconds").read_text())
        return covering, seconds, set(starting)

    def _tried(self, session: pytest.Session, items: dict[pytest.Item, int], change: Any) -> str:
        """What comes of the change in a fork: `killed` by a test, `timeout`, `survived` or `impossible`.

        Each of the tests has so many seconds.
        """
        child = os.fork()
        if child == 0:
            os.setsid()
            status = 2
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            try:
                change()
                status = 1
                for item, seconds in items.items():
                    signal.alarm(seconds)  # ends the process
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    if session.testsfailed:
                        break
                status = int(session.testsfailed > 0)
            finally:
                os._exit(status)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # programs that it started
        if not Path(os.devnull).is_char_device():  # root's mutants can do that
            again = f"make it again (mknod -m 666 {os.devnull} c 1 3), and keep it as the docstring says"
            sys.exit(f"a mutant replaced {os.devnull}: {again}")
        for left in Path(tempfile.gettempdir()).glob("p*-*"):  # of pytest and of programs
            shutil.rmtree(left, ignore_errors=True)
        return {0: "survived", 2: "impossible", -signal.SIGALRM: "timeout"}.get(ended, "killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="paths; all by default")
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    parser.add_argument("--list", action="store_true", help="print the scores, and try nothing")
    given = parser.parse_args()
    listed = tomllib.loads((HERE / "modules.toml").read_text("utf-8"))["module"]
    known: dict[tuple[str, str], str] = {}
    for line in given.results.read_text("utf-8").splitlines() if given.results.exists() else ():
        entry = json.loads(line)
        known[entry["module"], entry["mutant"]] = entry["result"]
    os.chdir(REPOSITORY)
    print("module,mutants,noticed,equivalent,not_tried")
    given.results = given.results.absolute()
    equivalent = tomllib.loads((HERE / "equivalent.toml").read_text("utf-8"))
    for module in listed:
        trial = Trial(module, known, given, equivalent)
        if given.modules and trial.path not in given.modules:
            continue
        if not given.list and any(map(trial.is_open, trial.names())):
            _in_a_process(trial)
        for line in given.results.read_text("utf-8").splitlines() if given.results.exists() else ():
            entry = json.loads(line)
            known[entry["module"], entry["mutant"]] = entry["result"]
        found = Counter(known.get((trial.path, name), "not tried") for name in trial.names())
        same = sum(known.get((trial.path, name)) == "survived" for name in trial.equivalent)
        mutants_of_it, noticed = found.total() - found["impossible"], found["killed"] + found["timeout"]
        print(trial.path, mutants_of_it, noticed, same, found["not tried"], sep=",", flush=True)


def _in_a_process(trial: Trial) -> None:
    """Each module begins with nothing loaded but what its tests load."""
    child = os.fork()
    if child == 0:
        folder = tempfile.mkdtemp(prefix="mutation-")
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        try:
            options = ["-q", "-s", "--tb=no", "-p", "no:cacheprovider", *([] if trial.slow else ["-m", "not slow"])]
            pytest.main([*options, *trial.tests], [trial])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
