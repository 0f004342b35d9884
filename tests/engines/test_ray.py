"""A Ray cluster of two workers on this machine: the same bytes as local processes, whoever is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from polyref.engine import Engine
from polyref.errors import DataError, PolyrefError
from polyref.store import Journal

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::ray[.]")]

PLACES = ("Harbour", "Station", "Market", "Mill", "Garden", "Bridge", "Castle")
#: Six shards of 64 segments at most.
LINES = [f"The {PLACES[n % 7].lower()} opens at {n % 9 + 2} and has room for {n + 20} people.\n" for n in range(330)]
#: What Ray calls the process of an actor of a pipeline.
ACTOR = b"ray::MapWorker"


#: What a node of the cluster has.
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes with one CPU each. It is shut down at the end, whatever happens."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # No folder can be here: workers have no cache, and compute all that they are asked for.
        patch.setenv("POLYREF_CACHE", "/dev/null/cache")
        made = Cluster(initialize_head=True, head_node_args=NODE)
        made.add_node(**NODE)
        try:
            yield made.address
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("references") / "refs.en"
    path.write_text("".join(LINES), "utf-8")
    return path


@pytest.fixture(scope="module")
def expected(references: Path) -> bytes:
    """The set that one process makes."""
    from polyref.cli.augment import command

    made = references.with_name("local.jsonl")
    with pytest.raises(SystemExit) as stop:
        command([*augmenting(references, made), "--jobs", "1"])
    assert not stop.value.code
    return made.read_bytes()


def augmenting(references: Path, output: Path) -> list[str]:
    search = ("--model", "shipped", "--beam", "4", "--groups", "2")  # half of the default, which takes twice as long
    return [str(references), "-k", "1", *search, "-o", str(output), "--no-cache"]


def actors() -> list[int]:
    """The processes of actors, the one that started first in front."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if (folder / "cmdline").read_bytes().startswith(ACTOR):
                found.append(int(folder.name))
    return sorted(found)


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 240
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def records(journal: Path) -> int:
    """Finished shards."""
    return max(journal.read_bytes().count(b"\n") - 1, 0) if journal.exists() else 0


def test_results_come_in_order_and_errors_as_they_were(address: str) -> None:
    def build() -> Callable[[int], tuple[int, int]]:
        import os
        import time

        from polyref.errors import DataError

        def work(number: int) -> tuple[int, int]:
            if number == 13:
                raise DataError("thirteen", file="numbers.txt", line=13, remedy="leave it out")
            time.sleep(0.2 * (number % 3 == 0))
            return number * number, os.getpid()

        return work

    workers = Engine("ray", jobs=2, address=address).workers(build)
    results = list(workers.map(iter(range(12))))
    assert [square for square, _ in results] == [n * n for n in range(12)]
    assert len({process for _, process in results}) == 2, "both nodes work, and each builds its function once"
    assert os.getpid() not in {process for _, process in results}
    with pytest.raises(DataError) as caught:
        list(workers.map([1, 13, 2]))
    assert str(caught.value) == "numbers.txt:13: thirteen (leave it out)"
    assert list(workers.map([])) == []


def test_augmenting_with_a_worker_killed(
    address: str,
    references: Path,
    expected: bytes,
    tmp_path: Path,
    polyref: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cluster goes on with what a process here began."""
    output = tmp_path / "ray.jsonl"
    journal = Path(f"{output}.partial")
    append = Journal.append

    def only(self: Journal, record: Any) -> None:
        append(self, record)
        raise DataError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", only)
        assert "no more" in polyref("augment", *augmenting(references, output), "--jobs", "1").err
    assert records(journal) == 1
    wait_for(lambda: not actors())  # those of other runs
    finished = threading.Event()
    killed_at: list[int] = []

    def kill() -> None:
        wait_for(lambda: (records(journal) > 1 and len(actors()) == 2) or finished.is_set())
        if not finished.is_set():
            os.kill(actors()[0], signal.SIGKILL)
            killed_at.append(records(journal))

    killer = threading.Thread(target=kill)
    killer.start()
    made = polyref("augment", *augmenting(references, output), "--engine", "ray", "--address", address, "--jobs", "2")
    finished.set()
    killer.join()
    assert made.code == 0 and "64 segments are finished" in made.err, made.err
    assert killed_at and 1 < killed_at[0] < 6, "killed in the middle of the work"
    assert output.read_bytes() == expected
    assert made.out == "", "what Ray says of workers is not part of the output"
    assert "raylet" not in made.err and "logging.cc" not in made.err, made.err
    assert not journal.exists()


@pytest.mark.parametrize("metric", ["prism", "bertscore"])
def test_scores(
    metric: str, address: str, tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyref.models.forced._STRETCH", 100)  # many pieces of work
    for name, lines in (("refs", LINES[:40]), ("more", LINES[7:47]), ("a", LINES[3:43]), ("b", LINES[:40][::-1])):
        (tmp_path / name).write_text("".join(lines), "utf-8")
    files = [tmp_path / name for name in ("refs", "more")]
    asked = ("score", *files, "-i", tmp_path / "a", tmp_path / "b", "-m", metric, "--no-cache", "--json", "-q")
    local = polyref(*asked, "--jobs", "1", "--threads", "1")
    there = polyref(*asked, "--engine", "ray", "--address", address, "--jobs", "2")
    assert (local.code, there.code) == (0, 0), there.err
    assert there.out == local.out


def test_a_cluster_that_is_not_there() -> None:
    ray.shutdown()
    with pytest.raises(PolyrefError, match=r"no Ray cluster can be reached .*127\.0\.0\.1:9.*`address`"):
        list(Engine("ray", address="127.0.0.1:9").workers(lambda: str).map([1]))
