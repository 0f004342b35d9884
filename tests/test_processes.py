"""Work in several processes: order, faults, and what is left when a program is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def test_a_process_that_is_killed_is_an_error_and_the_next_work_starts_another() -> None:
    with Processes(partial(build, 0), 1) as processes:
        with pytest.raises(PolyrefError, match="ended from outside"):
            list(processes.map([99]))
        assert list(processes.map([5])) == [5]


def test_at_least_one_process() -> None:
    assert available() >= 1
    with pytest.raises(UsageError, match="`jobs` is 0"):
        Processes(partial(build, 0), 0)


SCRIPT = """
import os, sys, time
from functools import partial
from polyref.processes import Processes

def work(number):
    print(os.getpid(), flush=True)
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
