"""Work in several processes: order, faults, and what is left when a program is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from polyref.errors import DataError, PolyrefError, UsageError
from polyref.processes import Processes, available

pytestmark = pytest.mark.slow  # a process takes a moment to start


def build(added: int) -> Callable[[int], int]:
    def work(number: int) -> int:
        if number == 13:
            raise DataError("thirteen", file="numbers.txt", line=13, remedy="leave it out")
        if number == 99:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05 * (number % 3))
        return number + added

    return work


def test_results_come_in_the_order_of_the_work() -> None:
    drawn: list[int] = []

    def numbers() -> Iterator[int]:
        for number in (n for n in range(40) if n != 13):
            drawn.append(number)
            yield number

    with Processes(partial(build, 100), 2) as processes:
        results = processes.map(numbers())
        assert next(results) == 100
        assert len(drawn) < 8, "work is read ahead by a few pieces"
        assert list(results) == [n + 100 for n in range(1, 40) if n != 13]


def test_an_error_comes_back_as_it_was() -> None:
    with Processes(partial(build, 0), 2) as processes, pytest.raises(DataError) as caught:
        list(processes.map([1, 13, 2]))
    assert str(caught.value) == "numbers.txt:13: thirteen (leave it out)"
    assert (caught.value.file, caught.value.line) == ("numbers.txt", 13)
    assert "in work" in str(caught.value.__cause__), "where it was raised"


def test_a_process_that_is_killed_is_an_error_and_the_next_work_starts_another() -> None:
    with Processes(partial(build, 0), 1) as processes:
        with pytest.raises(PolyrefError, match="ended from outside"):
            list(processes.map([99]))
        assert list(processes.map([5])) == [5]


class Builder:
    """Says in which process it built the function, and who called it; with another thread if one is asked for."""

    def __init__(self, threads: int = 0) -> None:
        self.threads = threads

    def __call__(self) -> Callable[[float], tuple[int, int]]:
        for _ in range(self.threads):
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        builder = os.getpid()

        def work(seconds: float) -> tuple[int, int]:
            time.sleep(seconds)
            return builder, os.getpid()

        return work


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_the_function_is_built_once_and_shared() -> None:
    with Processes(Builder(), 2) as processes:
        found = list(processes.map([0.2] * 6))
    builders, workers = {builder for builder, _ in found}, {worker for _, worker in found}
    assert len(builders) == 1 and len(workers) == 2 and not builders & workers
    assert os.getpid() not in builders | workers


def scoring() -> Callable[[str], tuple[int, float]]:
    import torch

    from polyref.models.scorers import load_scorer

    torch.set_num_threads(1)
    scorer, builder = load_scorer(), os.getpid()

    def work(text: str) -> tuple[int, float]:
        return builder, float(scorer.score([(scorer.source(text), scorer.target(text))])[0].sum())

    return work


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_a_model_is_loaded_once_and_shared() -> None:
    texts = [f"There are {number} of them." for number in range(8)]
    with Processes(scoring, 1) as one, Processes(scoring, 2) as two:
        (_, alone), (builders, together) = (zip(*processes.map(texts), strict=True) for processes in (one, two))
    assert len(set(builders)) == 1, "loading starts no thread"
    assert together == alone


def test_a_function_with_threads_is_built_by_every_process() -> None:
    with Processes(Builder(threads=1), 2) as processes:
        found = list(processes.map([0.5] * 6))
    assert all(builder == worker for builder, worker in found) and len(set(found)) == 2


def broken() -> Callable[[int], int]:
    raise DataError("no model", file="model.pt")


def test_what_cannot_be_built_is_told() -> None:
    with Processes(broken, 2) as processes:
        for _ in range(2):
            with pytest.raises(DataError, match=r"model\.pt: no model") as caught:
                list(processes.map([1, 2, 3]))
            assert "in broken" in str(caught.value.__cause__)


class OddError(Exception):
    """Cannot be unpickled: it is made from two values and keeps one."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what} {code}")


class ClosedError(Exception):
    """Cannot be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("stays here")


class NumberedError(DataError):
    """A plug-in's error, made from facts of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}", remedy="take another")


FAULTS: dict[str, BaseException] = {
    "odd": OddError("no", 5),
    "closed": ClosedError("no 5"),
    "numbered": NumberedError(5),
    "exit": SystemExit("no 5"),
}


def fail(name: str) -> object:
    raise FAULTS[name]


def failing(name: str | None = None, builder: int | None = None) -> Callable[[str], object]:
    if builder is not None:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    if name and builder != os.getppid():
        fail(name)
    return fail


@pytest.mark.parametrize("where", ["build", "work"])
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("odd", RuntimeError, r"test_processes\.OddError: no 5$"),
        ("closed", RuntimeError, r"test_processes\.ClosedError: no 5$"),
        ("numbered", DataError, r"^number 5 \(take another\)$"),
        ("exit", SystemExit, "^no 5$"),
    ],
    ids=["cannot-be-unpickled", "cannot-be-pickled", "of-a-plug-in", "exit"],
)
def test_every_error_is_told(where: str, name: str, kind: type[BaseException], said: str) -> None:
    with Processes(partial(failing, name if where == "build" else None), 1) as processes:
        for _ in range(2):
            with pytest.raises(kind, match=said) as caught:
                list(processes.map([name]))
            assert "in fail" in str(caught.value.__cause__)


def test_what_is_built_again_and_fails_is_told() -> None:
    """The function is built once, with a thread; the process that builds it again finds no memory, say."""
    build = partial(failing, "odd", os.getpid())
    with Processes(build, 1) as processes, pytest.raises(RuntimeError, match="OddError: no 5"):
        list(processes.map(["odd"]))


class Result:
    """Cannot be unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return fail, ("odd",)


def results() -> Callable[[int], object]:
    return [lambda: 1, Result(), int].__getitem__


def test_results_and_work_that_cannot_be_passed_on_are_told() -> None:
    with Processes(results, 1) as processes:
        with pytest.raises(RuntimeError, match="pickle"):
            list(processes.map([0]))
        with pytest.raises(RuntimeError, match="OddError: no 5"):
            list(processes.map([1]))
        with pytest.raises(RuntimeError, match="OddError: no 5"):
            list(processes.map([Result()]))  # type: ignore[list-item]
        assert list(processes.map([2])) == [int]


def test_at_least_one_process() -> None:
    assert available() >= 1
    with pytest.raises(UsageError, match="`jobs` is 0"):
        Processes(partial(build, 0), 0)


SCRIPT = """
import os, sys, time
from functools import partial
from polyref.processes import Processes

def work(number):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(600)

def build():
    return work

if __name__ == "__main__":
    for _ in Processes(build, 2).map(range(2)):
        pass
"""


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_nothing_is_left_when_the_program_is_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT, "utf-8")
    program = subprocess.Popen([sys.executable, tmp_path / "program.py"], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    workers = [int(program.stdout.readline()) for _ in range(2)]
    program.kill()
    program.wait()
    deadline = time.monotonic() + 60
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "a process outlived the program"
        time.sleep(0.05)
    program.stdout.close()


UNGUARDED = """
from functools import partial
from pathlib import Path
import operator
from polyref.processes import Processes

Path("runs.txt").open("a").write("run\\n")
with Processes(partial(partial, operator.add, 1), 2) as processes:
    print(list(processes.map([1, 2, 3])))
"""
GUARDED = """
from pathlib import Path
from polyref.processes import Processes

Path("runs.txt").open("a").write("run\\n")

def build():
    return double

def double(number):
    return 2 * number

if __name__ == "__main__":
    with Processes(build, 2) as processes:
        print(list(processes.map([1, 2, 3])))
"""


@pytest.mark.parametrize(("script", "printed", "runs"), [(UNGUARDED, "[2, 3, 4]\n", 1), (GUARDED, "[2, 4, 6]\n", 2)])
def test_a_script_is_read_again_only_where_its_own_functions_are_needed(
    script: str, printed: str, runs: int, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)
    assert len((tmp_path / "runs.txt").read_text().split()) == runs
