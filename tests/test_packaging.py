"""What is built is what is in the folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import polyref

ROOT = Path(__file__).resolve().parent.parent
#: What a release is checked with.
HASHED = "constraints.hashed.txt"


def _sources() -> set[str]:
    """Every file of the package, modules and data, without what is compiled."""
    found = (path for path in (ROOT / "polyref").rglob("*") if path.is_file() and path.suffix != ".so")
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not a source tree")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_what_a_release_is_checked_with_has_hashes() -> None:
    """Of the versions of ``constraints.txt``, with all that they need, and nothing is installed without."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", _text(HASHED), re.MULTILINE)
    lines = [line for line in _text(HASHED).splitlines() if line and line.lstrip()[0] not in "#-"]
    assert len(lines) == len(pinned) > 50
    versions = {name.replace("_", "-"): version for name, version, _ in pinned}
    known = re.findall(r"^(\S+)==([^\s;]+)(?:; python_version >= '3\.11')?$", _text("constraints.txt"), re.MULTILINE)
    there = {name.replace("_", "-"): version for name, version in known}
    assert {name: versions[name] for name in there.keys() & versions} == {
        name: version for name, version in there.items() if name in versions
    }
    assert versions.keys() >= {"transformers", "openai", "pytest", "hatchling", "build", "twine"}
    script = _text("scripts/release-check")
    installs = [line for line in script.splitlines() if "pip install" in line]
    assert len(installs) == 3 and "--require-hashes" in installs[0]
    assert all("--no-deps" in line for line in installs[1:])  # torch, and polyref itself
    assert f"/{HASHED}" in _text("pyproject.toml")


def _text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    metadata = f"polyref-{polyref.__version__}.dist-info/"
    # The C library is there if a compiler was; tests/metrics/test_native.py looks closer.
    assert {name for name in names if not name.startswith(metadata)} - {
        "polyref/metrics/ngram/_native.so"
    } == _sources()
    assert wheel.name.endswith("-py3-none-any.whl") == ("polyref/metrics/ngram/_native.so" not in names)
    assert len(names) == len(set(names))
    assert "polyref/py.typed" in names
    assert {f"{metadata}METADATA", f"{metadata}entry_points.txt", f"{metadata}licenses/LICENSE"} <= set(names)


@pytest.mark.slow
def test_the_sdist_holds_the_package_and_its_tests(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert _sources() <= names
    assert {
        "pyproject.toml",
        "hatch_build.py",
        "native/polyref.h",
        "README.md",
        "LICENSE",
        "constraints.txt",
        "integrations/evaluate/parbleu/parbleu.py",
        "tests/test_packaging.py",
    } <= names
    assert not [name for name in names if name.endswith((".pyc", ".partial")) or name.startswith((".git/", "runs/"))]


@pytest.mark.slow
def test_the_wheel_works_by_itself(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import polyref; assert polyref.__file__.startswith(sys.path[0]), polyref.__file__\n"
        "from polyref.metrics.ngram import native; assert native.available() == native.LIBRARY.is_file()\n"
        "from polyref.cli.main import main; main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"polyref, version {polyref.__version__}\n", done.stderr


def test_what_is_announced_can_be_imported() -> None:
    for name in polyref.__all__:
        assert getattr(polyref, name) is not None
    with pytest.raises(AttributeError, match="module 'polyref' has no attribute 'nonsense'"):
        polyref.nonsense  # noqa: B018


def test_no_message_installs_polyref_from_an_index() -> None:
    """It is on none yet: what is missing is named by its own package."""
    for path in (ROOT / "polyref").rglob("*.*"):
        if path.suffix in {".py", ".j2", ".md"}:
            assert "polyref[" not in path.read_text("utf-8"), path
