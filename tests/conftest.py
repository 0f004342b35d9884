"""Shared fixtures: the WMT evaluation data (optional) and an in-process command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from polyref.cache import default_cache

# How long an example takes depends on what else the machine does.
settings.register_profile("polyref", deadline=None)
settings.load_profile("polyref")

REPOSITORY = Path(__file__).resolve().parent.parent
#: Helper modules of several folders of tests: pytest's import mode leaves the folder of a test off the path.
sys.path.insert(0, str(Path(__file__).parent / "shared"))
#: Scripts and what integrates into other packages: they are not installed.
sys.path += [str(REPOSITORY / "scripts"), str(REPOSITORY / "integrations" / "transformers")]


def _data_dir() -> Path:
    named = os.environ.get("POLYREF_DATA")
    return Path(named) if named else REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The WMT evaluation data; tests that need it skip where it is absent."""
    path = _data_dir()
    if not (path / "expected.tsv").is_file():
        pytest.skip(f"no WMT evaluation data in {path}: set POLYREF_DATA")
    return path


@pytest.fixture(scope="session", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Folders of caches. What is made for several tests neither reads nor fills the user's cache."""
    # Not one `mktemp` a test: each reads the names of all folders that were made before.
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYREF_CACHE", str(folder))
        yield (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _cache_of_the_test(_caches: Iterator[Path]) -> Iterator[None]:
    """Each test begins with an empty cache: none finds what another one left."""
    place = next(_caches)
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYREF_CACHE", str(place))
        default_cache.cache_clear()
        yield
    default_cache.cache_clear()


@pytest.fixture
def quiet_transformers() -> Iterator[None]:
    """Transformers neither logs nor shows bars."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(before)
    logging.enable_progress_bar()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What reads the evaluation data is marked so, and is slow."""
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
            item.add_marker("slow")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Ids of tests that a person can read and that are the same in every run, as workers demand.

    Objects are named by their kind: an address or the bytes of a file say nothing.
    """
    return None if isinstance(val, str) and len(val) <= 60 else _named(val)


def _named(val: object) -> str:
    if isinstance(val, Path):
        return val.name
    if isinstance(val, Mapping):
        return _cut(",".join(f"{key}={_named(value)}" for key, value in val.items())) or "defaults"
    if isinstance(val, (list, tuple)):
        return _cut(",".join(map(_named, val))) or "none"
    if isinstance(val, (str, int, float, type(None))):
        return _cut(str(val))
    return str(getattr(val, "__name__", type(val).__name__))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def polyref(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process, as a user would: arguments in, exit code and output out."""
    from polyref.cli.main import main

    def run(*args: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return run
