"""Faults at random: of the disk, signals, links, sources, sets of an older version, packages of other people.

Each case is drawn from a seed and its number, which stand in the message of a case that fails. 2,000 by default in all;
POLYREF_FUZZ=100000 looks longer, and POLYREF_SEED at other cases.
"""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from spoilt import mutated

import polyref
from polyref import publishing
from polyref.augment import augment
from polyref.augment.filters import FILTERS
from polyref.augment.inputs import open_inputs
from polyref.cli.main import main
from polyref.errors import PolyrefError, PolyrefWarning
from polyref.eval.judgements.base import JUDGEMENTS
from polyref.eval.statistics.named import STATISTICS
from polyref.formats import FORMATS
from polyref.formats.base import Reading
from polyref.metrics.registry import REGISTRY, all_options
from polyref.paraphrase.loading import GENERATORS
from polyref.plugins import Plugins
from polyref.publishing import publish_together, published_file, published_folder
from polyref.references import ReferenceSet
from polyref.store import Journal

#: What is interrupted leaves files open: they are closed as at the end of a process.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
MOST = int(os.environ.get("POLYREF_FUZZ", "2000"))
SEED = int(os.environ.get("POLYREF_SEED", "41"))
REFS = "The cat sat there .\nNobody paid 3 euros .\n"
OLDER = sorted((Path(__file__).parent / "data" / "sets-0.1.0").glob("*.jsonl"))


def fuzz(share: float, case: Callable[[random.Random], object]) -> None:
    """Run a share of all cases, each with numbers of its own."""
    print(f"seed {SEED}")
    number = -1
    try:
        for number in range(int(MOST * share)):
            case(random.Random(f"{SEED} {number}"))
    except Exception as error:
        raise AssertionError(f"case {number} of seed {SEED}") from error


@pytest.fixture
def place(tmp_path: Path) -> Callable[[], Path]:
    """An empty folder, again and again."""

    def fresh() -> Path:
        found = tmp_path / "place"
        shutil.rmtree(found, ignore_errors=True)
        found.mkdir()
        return found

    return fresh


def contents(folder: Path) -> dict[str, bytes]:
    """What anybody can see: the bytes of every file that is not hidden."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = ((path.relative_to(folder), path) for path in files)
    return {str(name): path.read_bytes() for name, path in named if not any(p.startswith(".") for p in name.parts)}


def command(*arguments: object) -> tuple[int, str]:
    """A command's exit code, and what it says on stderr."""
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0), said.getvalue()


# --- the disk ---


def put_file(folder: Path, text: bytes) -> None:
    with published_file(folder / "file") as stream:
        stream.write(text)


def put_folder(folder: Path, text: bytes) -> None:
    with published_folder(folder / "report") as fresh:
        for name in "ab":
            (fresh / name).write_bytes(text)


def put_into_the_current_folder(folder: Path, text: bytes) -> None:
    (folder / "here").mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder / "here")
    try:
        with published_folder(".") as fresh:
            for name in "ab":
                (fresh / name).write_bytes(text)
    finally:
        os.chdir(before)


def put_together(folder: Path, text: bytes) -> None:
    publish_together({folder / name: text for name in ("seg", "sys", "card")})


def put_set(folder: Path, text: bytes) -> None:
    ReferenceSet.from_texts([[text.decode()]]).save(folder / "set.jsonl")


def put_table(folder: Path, text: bytes) -> None:
    ReferenceSet.from_texts([[text.decode(), "b"]]).export(folder / "plain.{}.txt")


PUT = (put_file, put_folder, put_into_the_current_folder, put_together, put_set, put_table)
ERRORS = (errno.EIO, errno.ENOSPC, errno.EXDEV, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EBUSY)


def either(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, bytes]) -> None:
    assert found in (before, after), f"{sorted(found)} is neither old nor new"


def finished(folder: Path) -> None:
    """What whoever comes next does first."""
    publishing.finish_pending(folder)
    publishing._give_back(folder / "report")


def unlocked(folder: Path) -> None:
    """Close the files in a folder, as the end of a process does."""
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if handle.readlink().is_relative_to(folder):
                os.close(int(handle.name))


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


@contextmanager
def failing(drawn: random.Random) -> Iterator[None]:
    """One of the next renames and waits for the disk fails; now and then two folders cannot be swapped by one call."""
    left, code = drawn.randint(1, 10), drawn.choice(ERRORS)

    def dealt(call: Callable[..., Any]) -> Callable[..., Any]:
        def dealing(*given: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(code, os.strerror(code), given[0] if isinstance(given[0], Path) else None)
            return call(*given)

        return dealing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", dealt(os.rename))
        patch.setattr(os, "replace", dealt(os.replace))
        patch.setattr(os, "fsync", dealt(lambda handle: None))
        if drawn.random() < 0.5:
            patch.setattr(publishing, "_swapped", lambda one, other: False)
        yield


@pytest.mark.slow
def test_renames_and_waits_for_the_disk_that_fail(place: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def case(drawn: random.Random) -> None:
        folder, put = place(), drawn.choice(PUT)
        if drawn.random() < 0.7:
            put(folder, b"old")
        before = contents(folder)
        try:
            with failing(drawn):
                put(folder, b"new")
        except (OSError, PolyrefError):
            failed = contents(folder)
        else:
            failed = None
        finished(folder)
        found = contents(folder)
        put(folder, b"new")
        after = contents(folder)
        either(before, after, found)
        assert failed in (None, found), f"{failed} was there before somebody else came"
        assert not hidden(folder)

    fuzz(0.4, case)


def test_a_journal_whose_waits_fail(place: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has said to be safe is there, and it goes on from there."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def case(drawn: random.Random) -> None:
        path, safe = place() / "x.partial", 0
        while safe < 4:
            with suppress(OSError, PolyrefError), failing(drawn), Journal.open(path, {"a": 1}) as journal:
                assert safe <= journal.length <= safe + 1
                assert list(journal) == [*range(journal.length)]
                safe = journal.length
                while safe < 4:
                    journal.append(safe)
                    safe += 1
        with Journal.open(path, {"a": 1}) as journal:
            assert list(journal)[:4] == [0, 1, 2, 3]

    fuzz(0.05, case)


# --- signals ---

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWN = str(Path(polyref.__file__).parent)


@contextmanager
def at_line(number: int, do: Callable[[], object]) -> Iterator[list[int]]:
    """Something happens at a line of the package, counted from here on; the list's number says how many there were."""
    count, before = [0], sys.gettrace()

    def line(frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            count[0] += 1
            if count[0] == number:
                do()
        return line

    def call(frame: Any, _event: str, _argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(OWN) else None

    sys.settrace(call)
    try:
        yield count
    finally:
        sys.settrace(before)


@pytest.fixture
def handlers() -> Iterator[None]:
    """A command handles signals until its process ends: here, until the test does."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="nothing says which files are open")
def test_signals_between_two_lines(place: Callable[[], Path], handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what puts results into their place."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def case(drawn: random.Random) -> None:
        folder, put = place(), drawn.choice(PUT)
        with at_line(0, int) as lines:
            put(folder, b"new")
        after = contents(folder)
        folder = place()
        if drawn.random() < 0.7:
            put(folder, b"old")
        before = contents(folder)
        if drawn.random() < 0.5:
            monkeypatch.setattr(publishing, "_swapped", lambda one, other: False)
        try:
            with at_line(drawn.randint(1, lines[0]), lambda: signal.raise_signal(signal.SIGINT)):
                put(folder, b"new")
        except KeyboardInterrupt:
            unlocked(folder)
        finished(folder)
        either(before, after, contents(folder))
        put(folder, b"new")
        assert contents(folder) == after and not hidden(folder)

    fuzz(0.15, case)


@pytest.mark.slow
def test_signals_while_a_command_runs(
    place: Callable[[], Path], handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    folder = place()
    refs, systems = folder.parent / "refs.en", folder.parent / "sys.en"
    refs.write_text(REFS, "utf-8")
    systems.write_text("The cat sat .\nNo one paid .\n", "utf-8")
    commands = (
        ("convert", "refs", refs, "{}/out.jsonl"),
        ("convert", "refs", refs, systems, "{}/out.{{}}.txt"),
        ("score", refs, "-i", systems, "-m", "bleu", "-k", 0, "--json", "-o", "{}/scores"),
        ("augment", refs, "--candidates", folder.parent / "lists.txt", "-k", 1, "-o", "{}/set.jsonl", "--quiet"),
    )
    (folder.parent / "lists.txt").write_text("The cat was there .\nNobody paid 3 euros then .\n", "utf-8")

    def run(which: int) -> tuple[int, str]:
        return command(*(str(part).format(folder) for part in commands[which]))

    known: dict[int, tuple[int, dict[str, bytes]]] = {}
    for which in range(len(commands)):
        place()
        assert run(which) == (0, run(which)[1])
        place()
        with at_line(0, int) as lines:
            run(which)
        known[which] = lines[0], contents(folder)

    def case(drawn: random.Random) -> None:
        place()
        which, number = drawn.randrange(len(commands)), drawn.choice(SIGNALS)
        lines, after = known[which]
        with at_line(drawn.randint(1, lines), lambda: signal.raise_signal(number)):
            code, said = run(which)
        unlocked(folder)
        assert code in (0, 128 + number, 130), (code, said)
        assert "Traceback" not in said
        if code == 0:
            assert contents(folder) == after
        else:
            publishing.finish_pending(folder)
            found = {name: text for name, text in contents(folder).items() if not name.endswith(".partial")}
            either({}, after, found)
        assert run(which)[0] == 0
        assert contents(folder) == after and not hidden(folder)

    fuzz(0.05, case)


# --- links ---


#: Commands that read {r} and write {w}.
ON_LINKS = (
    ("convert", "refs", "{r}", "{w}"),
    ("convert", "refs", "{r}", "{w}", "--to", "mt-metrics-eval", "-l", "de-en"),
    ("score", "{r}", "-i", "{r}", "-m", "bleu", "--json", "-o", "{w}"),
    ("augment", "{r}", "--candidates", "{r}", "-k", 1, "--filter", "none", "-o", "{w}", "--quiet"),
    ("augment", "{r}", "--candidates", "{r}", "-k", 1, "--filter", "none", "--dropped", "{w}", "--quiet"),
    ("evaluate", "{r}", "-l", "de-en", "--gold", "mqm", "-m", "bleu", "-o", "{w}"),
    ("submit", "{r}", "-l", "de-en", "--ref", "a", "-m", "bleu", "--name", "B", "--year", 2022, "-o", "{w}"),
    ("inspect", "{r}", "-o", "{w}"),
    ("paraphrase", "{r}", "--model", "{w}"),
)


@pytest.mark.slow
def test_links_wherever_files_are_named(place: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def case(drawn: random.Random) -> None:
        folder = place()
        (folder / "refs.txt").write_text(REFS, "utf-8")
        (folder / "other.txt").write_text("Old .\n", "utf-8")
        (folder / "inner").mkdir()
        names = ["refs.txt", "other.txt", "inner"]
        for number in range(drawn.randint(1, 5)):
            name = drawn.choice((f"link{number}.txt", f"link{number}.jsonl", f"inner/link{number}"))
            target = drawn.choice([*names, "nowhere", name, ".", "..", "/dev/null", "inner/nowhere", "link0.txt/x"])
            (folder / name).symlink_to(target if target.startswith("/") else folder / target)
            names.append(name)
        read, target = drawn.choice(names), drawn.choice([*names, "new.jsonl", "inner/new.tsv", "nowhere/new.jsonl"])
        held = (folder / read).read_bytes() if (folder / read).is_file() else None
        links = {name: (folder / name).readlink() for name in names if (folder / name).is_symlink()}
        before = contents(folder)
        named = (str(part).format(r=folder / read, w=folder / target) for part in drawn.choice(ON_LINKS))
        code, said = command(*named)
        assert code in (0, 1, 2) and "Traceback" not in said, said
        assert (code == 0) == ("error:" not in said), said
        if held is not None:
            assert (folder / read).read_bytes() == held, "its input was written over"
        if code:
            assert contents(folder) == before and not hidden(folder), said
        elif "{}" not in target and not (folder / target).is_dir():
            assert {name: (folder / name).readlink() for name in links} == links, "a link became a file"

    fuzz(0.1, case)


# --- sources, and sets of an older version ---

TEXTS = ("", "a", "The cat sat there .", " ", "\u2028", "\ufeffa", "<s>", "1e999", "a\tb", "\u202e", "\x00", "x" * 5000)


def spoilt_lines(drawn: random.Random) -> bytes:
    lines = [drawn.choice(TEXTS) for _ in range(drawn.randint(0, 4))]
    made = drawn.choice(("\n", "\r\n", "\r")).join(lines).encode() + drawn.choice((b"\n", b"", b"\xff", b"\n\n"))
    return drawn.choice((made, made, made[: drawn.randint(0, len(made))], b"\xff\xfe" + made, b"\x1f\x8b" + made))


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_sources_of_any_kind(place: Callable[[], Path]) -> None:
    def case(drawn: random.Random) -> None:
        folder = place()
        names = (("refs.txt", drawn.choice((REFS, REFS.splitlines()[0], "")).encode()), ("source", spoilt_lines(drawn)))
        for name, content in names:
            (folder / name).write_bytes(content)
        source = drawn.choice((folder / "source", folder / "source", folder, folder / "nowhere", folder / "refs.txt"))
        given = [folder / "refs.txt"] if drawn.random() < 0.7 else []
        try:
            with open_inputs(given, Reading(), source=source, context=drawn.choice((None, 0, 2))) as inputs:
                segments = list(inputs.segments())
            assert all((segment.source or "").encode() is not None for segment in segments)
        except PolyrefError as error:
            str(error).encode()
            assert error.file is not None, error

    fuzz(0.1, case)


@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_sets_of_an_older_version(place: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong in one, it is refused, or read, saved as it was and added to."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def case(drawn: random.Random) -> None:
        folder = place()
        path = folder / "set.jsonl"
        path.write_bytes(mutated(drawn.choice(OLDER).read_bytes(), drawn))
        try:
            found = ReferenceSet.load(path)
            found.save(folder / "saved.jsonl")
            again = ReferenceSet.load(folder / "saved.jsonl")
            assert again.texts() == found.texts()
            if drawn.random() < 0.1:
                augment(found, "lexical", 1, filters="none", force=True).save(folder / "added.jsonl")
        except PolyrefError as error:
            str(error).encode()

    fuzz(0.05, case)


# --- packages of other people ---

KINDS: tuple[Plugins, ...] = (REGISTRY, STATISTICS, GENERATORS, FORMATS, JUDGEMENTS, FILTERS)
NAMES = (
    "odd",
    "chrf",
    "pearson",
    "lexical",
    "xml",
    "mqm",
    "links",
    "Ü",
    "a b",
    "a:b",
    "[x]",
    "-",
    "x" * 300,
    "a=b",
    "",
)
CODE = (
    "",
    "import no_such_module",
    "raise KeyError",
    "raise SystemExit(3)",
    "raise GeneratorExit",
    "import asyncio\nraise asyncio.CancelledError('x')",
    "X = 3",
    "X = 1 / 0",
    "def X(",
    "\x00",
    "\udc80",
    "class Kind(type):\n    def __getattribute__(self, name):\n        raise ValueError(name)\n"
    "class X(metaclass=Kind): pass\n",
    "class X:\n    @property\n    def __class__(self):\n        raise ValueError('no class')\nX = X()\n",
    "from polyref.metrics import Metric\nclass X(Metric):\n    __annotations__ = {'a': 'nothing'}\n",
    "from polyref.metrics import Metric as X\n",
    "from polyref.formats import Format\nX = Format('odd', lambda name, line: 1 / 0, print)\n",
    "from polyref.formats import Format\nX = Format('odd', lambda name, line: True, lambda *a, **k: 1 / 0)\n",
    "import sys\nsys.modules[__name__] = None\n",
    "def __getattr__(name):\n    raise RuntimeError(name)\n",
    "class Mute(Exception):\n    def __str__(self):\n        raise ValueError('mute')\nraise Mute\n",
    "class Mute:\n    def __repr__(self):\n        raise ValueError('mute')\nX = Mute()\n",
)
ENTRIES = (
    "{name} = {module}:X",
    "{name} = {module}",
    "{name} = {module}:",
    "{name} =",
    "{name}",
    "= {module}:X",
    "{name} = :X",
)


@pytest.mark.slow
def test_packages_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "refs.en").write_text(REFS, "utf-8")
    count = 0

    def case(drawn: random.Random) -> None:
        nonlocal count
        count += 1
        kind, site, module = drawn.choice(KINDS), tmp_path / f"site{count}", f"odd_package_{count}"
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        about = drawn.choice(("Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n", "Name: {}\n", "", "\ufeff{}"))
        (info / "METADATA").write_text(about.format(module), "utf-8")
        entries = "\n".join(
            drawn.choice(ENTRIES).format(name=drawn.choice(NAMES), module=module) for _ in range(drawn.randint(1, 2))
        )
        (info / "entry_points.txt").write_text(f"[{kind.group}]\n{entries}\n", "utf-8")
        (site / f"{module}.py").write_text(drawn.choice(CODE), "utf-8", "surrogateescape")
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore", PolyrefWarning)
            warnings.simplefilter("ignore", SyntaxWarning)
            patch.syspath_prepend(str(site))
            for use in (kind.names, kind.loaded, all_options, lambda: ReferenceSet.load(tmp_path / "refs.en")):
                with suppress(PolyrefError):
                    use()
            for name in NAMES:
                if kind is not GENERATORS or name not in kind.own:
                    with suppress(PolyrefError):
                        kind.load(name)
        sys.modules.pop(module, None)
        shutil.rmtree(site)

    fuzz(0.1, case)
