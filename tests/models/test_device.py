"""Devices by name, and several of them: each process has its own. ``cpu:0,1`` stands for ``cuda:0,1`` here."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from polyref.cache import Cache
from polyref.engine import Engine
from polyref.errors import UsageError
from polyref.models import device
from polyref.models.device import arithmetic, devices, own_device, torch_device
from polyref.models.networks.matmul import library_choice
from polyref.paraphrase import SearchOptions, load_paraphraser
from polyref.processes import Processes

TEXTS = [f"The {name} opens at {n} and has room for {n} people." for n, name in enumerate(("mill", "garden", "bridge"))]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("cpu", ["cpu"]),
        ("cuda:1", ["cuda:1"]),
        ("cuda:0,1", ["cuda:0", "cuda:1"]),
        ("cuda:0,2,cuda:5", ["cuda:0", "cuda:2", "cuda:5"]),
        ("cpu,cuda:0,1", ["cpu", "cuda:0", "cuda:1"]),
    ],
)
def test_a_list_of_devices(names: str, found: list[str]) -> None:
    assert devices(names) == found


@pytest.mark.parametrize("names", ["", "0", "0,1", "cuda,", "cuda:0,,1"])
def test_no_device(names: str) -> None:
    with pytest.raises(UsageError, match="expected names such as cpu, cuda or cuda:0,1"):
        devices(names)


def test_a_device_that_is_not_there() -> None:
    for names in ("cpu:0,quantum", "quantum"):
        with pytest.raises(UsageError, match="device 'quantum' cannot be used"):
            torch_device(own_device(names))


def test_every_device_has_a_process() -> None:
    assert Engine.on("cpu:0,1").jobs == 2
    assert Engine.on("cuda:0,1", jobs=1).jobs == 2 and Engine.on("cuda:0,1", jobs=4).jobs == 4
    assert Engine.on("cuda:1").jobs == 1
    with pytest.raises(UsageError, match="`jobs` is 0"):
        Engine.on("cuda:0,1", jobs=0)
    with pytest.raises(UsageError, match="Ray gives every worker its own"):
        Engine.on("cuda:0,1", "ray")


def test_what_moves_the_last_digits_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = (str(torch.__version__), version("transformers"))
    own = (torch.backends.cpu.get_cpu_capability(), library_choice().library)
    assert arithmetic() == arithmetic("cpu:0,1") == (*versions, *own, str(torch.get_num_threads()))
    assert arithmetic("cpu", 77) == (*versions, *own, "77")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: f"the card {name}")
    assert arithmetic("cuda:1") == (*versions, "the card cuda:1") and arithmetic("mps") == (*versions, "mps")


def build(threads: bool) -> Callable[[float], str]:
    if threads:  # as a GPU does: no process can be forked from this one
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def work(seconds: float) -> str:
        time.sleep(seconds)
        return own_device("cpu:0,1")

    return work


@pytest.mark.slow
@pytest.mark.parametrize("threads", [False, True])
def test_processes_share_devices_out(threads: bool) -> None:
    with Processes(partial(build, threads), 2) as processes:
        assert set(processes.map([0.5] * 6)) == {"cpu:0", "cpu:1"}


@pytest.mark.slow
def test_the_same_lists(tmp_path: Path) -> None:
    one = load_paraphraser("shipped", cache=False)
    two = load_paraphraser("shipped", device="cpu:0,1", cache=False)
    assert type(two).__name__ == "InProcesses"
    texts = [*TEXTS, "Many people think that the new law is a big mistake."]
    for decoding in (None, SearchOptions(beam=6, groups=2)):
        expected = list(one.paraphrase(texts, 5, decoding=decoding))
        assert list(two.paraphrase(texts, 5, decoding=decoding)) == expected
        assert expected[-1].hypotheses
    two.close()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["prism", "bertscore"])
def test_the_same_scores(
    metric: str, tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyref.models.forced.WORTH", 1)
    monkeypatch.setattr("polyref.models.embeddings.WORTH", 1)
    refs = tmp_path / "refs"
    refs.write_text("".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "sys").write_text("".join(f"{text}\n" for text in (*TEXTS[1:], TEXTS[0])))
    asked = ("score", refs, "-i", tmp_path / "sys", "-m", metric, "--sentence", "--no-cache", "-q")
    done = [polyref(*asked, "--device", names) for names in ("cpu", "cpu:0,1")]
    assert done[0].code == 0 and done[0].out == done[1].out


_ASKED = """
import sys
from polyref.cache import Cache
from polyref.models import device
from polyref.models.device import arithmetic, usual_arithmetic
found = usual_arithmetic("cpu", Cache(sys.argv[1]))
loaded = "torch" in sys.modules
assert found == arithmetic("cpu") == usual_arithmetic("cpu", Cache(sys.argv[1]))
print(loaded)
"""


@pytest.mark.slow
def test_the_arithmetic_of_a_machine_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded() -> str:
        done = subprocess.run([sys.executable, "-c", _ASKED, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [loaded(), loaded()] == ["True", "False"]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert loaded() == "True"


def test_torch_is_asked_where_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(device, "arithmetic", lambda name: asked.append(name) or ("x", name))
    for _ in range(2):
        assert device.usual_arithmetic("cpu", Cache(tmp_path)) == ("x", "cpu")
    assert asked == ["cpu"] * 2
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    for _ in range(2):  # only torch knows other devices
        device.usual_arithmetic("cpu:0,1", Cache(tmp_path))
    assert asked == ["cpu"] * 2 + ["cpu:0,1"] * 2
    with pytest.raises(UsageError, match="device 'nowhere' cannot be used"):
        device.usual_arithmetic("nowhere", Cache(tmp_path))


def _cpuinfo(text: str) -> Callable[[str], Any]:
    """What stands in that file, which may hold any bytes."""
    return lambda path: SimpleNamespace(
        read_text=lambda *how: {("/proc/cpuinfo", "utf-8", "replace"): text}[(path, *how)]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setenv("OMP_NUM_THREADS", "7"),
        lambda patch: patch.setenv("MKL_DYNAMIC", "0"),
        lambda patch: patch.setenv("POLYREF_PRODUCTS", "default"),
        lambda patch: patch.setattr(device.platform, "platform", lambda: "another"),
        lambda patch: patch.setattr(device.os, "sched_getaffinity", lambda process: {process: [1] * 99}[0]),
        lambda patch: patch.setattr(device, "version", lambda name: "0" if name == "torch" else version(name)),
        lambda patch: patch.setattr(device, "version", lambda name: "0" if name == "transformers" else version(name)),
        lambda patch: patch.setattr(device, "Path", _cpuinfo("model name: another")),
    ],
    ids=["threads", "settings", "products", "system", "cores", "torch", "transformers", "processor"],
)
def test_another_machine_is_asked_once(change: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> None:
    asked: list[str] = []
    monkeypatch.setattr(device, "arithmetic", lambda name: asked.append(name) or ("x", "y", str(len(asked))))
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    first, cache = ("x", "y", "1"), Cache(tmp_path)
    assert [device.usual_arithmetic("cpu", cache) for _ in range(2)] == [first, first]
    change(monkeypatch)
    assert [device.usual_arithmetic("cpu", cache) for _ in range(2)] == [("x", "y", "2")] * 2


def test_clock_rates_and_other_variables_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(device, "arithmetic", lambda name: asked.append(name) or ("x",))
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("KMP_AFFINITY", "none")
    for rate in ("1", "2"):
        monkeypatch.setenv("WHATEVER", rate)
        monkeypatch.setattr(device, "Path", _cpuinfo(f"model name: one\ncpu MHz: {rate}"))
        device.usual_arithmetic("cpu", Cache(tmp_path))
        monkeypatch.delenv("OMP_NUM_THREADS")  # nor does the order of those that count
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
    device.usual_arithmetic("cpu", Cache(tmp_path))
    assert asked == ["cpu"]


def test_a_machine_that_says_nothing_of_its_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(device, "arithmetic", lambda name: asked.append(name) or ("x",))
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(device, "Path", lambda _: tmp_path / "missing")
    monkeypatch.delattr(device.os, "sched_getaffinity")
    for count in (2, 2, 4):
        monkeypatch.setattr(device.os, "cpu_count", lambda count=count: count)
        device.usual_arithmetic("cpu", Cache(tmp_path))
    monkeypatch.setattr(device.platform, "processor", lambda: "another")
    device.usual_arithmetic("cpu", Cache(tmp_path))
    assert asked == ["cpu"] * 3
