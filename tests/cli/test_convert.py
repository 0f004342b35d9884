"""``polyref convert refs``, and ``inspect``, on sets that memory should not hold."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import DataError
from polyref.formats.own import Spool
from polyref.formats.writing import WRITTEN, save
from polyref.references import Place, Reference, ReferenceSet, Segment

#: Of texts, 24 MB; read as a whole, they take more than that.
SEGMENTS, LENGTH = 1000, 4000
#: What a command takes by itself, with room for half of the texts.
MOST = {"convert": 40, "inspect": 75}
#: Runs a command, and says the most memory that it had, in MB. What a process has from ``getrusage`` begins with the
#: memory of the process that started it.
PROGRAM = """
import sys
from polyref.cli.main import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "refs.jsonl"
    with path.open("w") as stream:
        for number in range(SEGMENTS):
            texts = [f"{number} {rank} {'word ' * (LENGTH // 5)}." for rank in range(6)]
            made = [{"text": text, "kind": "paraphrase", "of": 0, "logprob": -0.5} for text in texts[1:]]
            stream.write(json.dumps({"id": f"s{number}", "refs": [{"text": texts[0]}, *made]}) + "\n")
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "refs", "{set}", "{out}/a.jsonl"),
        ("convert", "refs", "{set}", "{out}/a.tsv"),
        ("convert", "refs", "{set}", "{out}/{{}}.txt"),
        ("inspect", "{set}", "--sample", "5", "-n", "0", "-o", "{out}/a.html"),
    ],
    ids=lambda arguments: "-".join(arguments[0:3:2]) + arguments[-1][-6:],
)
def test_a_large_set_takes_little_memory(arguments: tuple[str, ...], large: Path, tmp_path: Path) -> None:
    words = [word.format(set=large, out=tmp_path) for word in arguments]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) / 1024 < MOST[arguments[0]]
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["out.jsonl", "out.tsv", "out.xml", "out.{}.txt", "out/"])
def test_a_fault_at_the_end_leaves_nothing(
    polyref: Callable[..., Any], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = tmp_path / "refs.jsonl"
    lines = [json.dumps({"id": str(n), "refs": [{"text": "It rained."}]}) for n in range(300)]
    path.write_text("\n".join([*lines, '{"id": "300", "refs": [{}]}']) + "\n")
    result = polyref("convert", "refs", path, f"{tmp_path}/{target}")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f'polyref: error: {path}:301: refs[0]: no key "text"')
    assert sorted(file.name for file in tmp_path.iterdir()) == ["refs.jsonl", "temporary"]
    assert not any((tmp_path / "temporary").iterdir())


def test_a_temporary_file_that_cannot_be_written_is_one_error(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("It rained.\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    result = polyref("convert", "refs", tmp_path / "a.en", tmp_path / "a.jsonl")
    assert result.code == 1 and "no temporary file can be written" in result.err and "TMPDIR" in result.err
    assert not (tmp_path / "a.jsonl").exists()
    monkeypatch.undo()
    (tmp_path / "a.en").write_text("It rained.\n" * 900)
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, size[1]))  # a full disk
        result = polyref("convert", "refs", tmp_path / "a.en", tmp_path / "a.jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    assert result.err.startswith("polyref: error: no temporary file can be written: File too large (make room")
    assert result.code == 1 and not (tmp_path / "a.jsonl").exists()


def test_plain_text_of_no_reference_is_refused(tmp_path: Path) -> None:
    for target in ("a.{}.txt", "a.txt", "a/"):
        with pytest.raises(DataError, match="no segment has a reference"):
            ReferenceSet.from_texts([[], []]).export(f"{tmp_path}/{target}", "plain")
    assert not any(tmp_path.iterdir())


texts = st.text(st.characters(exclude_categories=[]), max_size=8)  # halves of surrogate pairs, too
numbers = st.none() | st.integers(0, 9)
references = st.builds(
    Reference,
    texts,
    st.sampled_from(["human", "paraphrase"]),
    numbers,
    numbers,
    st.none() | st.floats(0, 9),
    st.none() | st.floats(-9, 0),
    st.none() | texts,
    st.dictionaries(texts, st.none() | texts | st.lists(st.integers()), max_size=2),
)
segments = st.builds(
    Segment,
    texts | texts.map(Place),
    st.lists(references, max_size=3).map(tuple),
    *[st.none() | texts] * 3,
    st.dictionaries(texts, st.booleans(), max_size=2),
)


@given(st.lists(segments, max_size=4))
def test_a_spool_gives_back_what_it_was_given(given: list[Segment]) -> None:
    with ExitStack() as stack:
        spool = Spool(stack, iter(given))
        assert list(spool) == given == [spool[place] for place in range(len(spool))]
        assert [type(one.id) for one in spool] == [type(one.id) for one in given]


@pytest.mark.parametrize("form", WRITTEN)
def test_a_spool_is_written_as_a_tuple_is(form: str, tmp_path: Path) -> None:
    made = [Reference(f"Late {rank}.", "paraphrase", 0, rank, None, -0.5, "maker") for rank in range(2)]
    named = (Reference("A.", extra={"name": "ref2"}), Reference("B.", extra={"name": "refB"}))
    given = (
        Segment("1", (Reference("It is late."), *made), "spät", "d1", "en", {"domain": "news", "src_lang": "de"}),
        Segment("b", (*named, made[0]), "x", "d1", None, {"odd": 1}),
        Segment("3", (Reference("\tC.\n"),), "", "d2", "de"),
    )
    with ExitStack() as stack:
        spool = Spool(stack, given)
        told = []
        for name, held in (("tuple", given), ("spool", spool)):
            (tmp_path / name).mkdir()
            target = tmp_path / name / ("{}.txt" if form == "plain" else "set")
            told.append(save(held, {"k": 2}, target, form, "de-en" if form == "mt-metrics-eval" else None))
    assert told[0] == told[1]
    found = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("tuple", "spool")
    ]
    assert found[0] == found[1] and found[0]
