"""The C library against NumPy and sacreBLEU: the same whole numbers, whatever the text.

POLYREF_FUZZ=100000 makes as many strings as that for every metric; by default there are a few thousand.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.lib_ter import translation_edit_rate
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from polyref.errors import ModelError
from polyref.metrics import get_metric
from polyref.metrics.ngram import counts as ngram
from polyref.metrics.ngram import native
from polyref.metrics.ngram.ter import edit_matrix
from polyref.references import ReferenceSet

ROOT = Path(__file__).resolve().parents[2]
STRINGS = int(os.environ.get("POLYREF_FUZZ", "3000"))
built = pytest.mark.skipif(not native.LIBRARY.is_file(), reason="the C library is not built: python hatch_build.py")

# White space of every kind, marks beside digits, letters that change length in lower case, marks that combine, unpaired
# surrogates and pairs of them, planes above the first, entities.
PIECES = [
    *"      ..,,--&;/\\'\"()[]{}<>|~`^_!@#$%*+=:?0123456789aAbBxy",
    *"\t\r\n\x0b\x1c\x1f\x85\xa0\u1680\u2000\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff\u00ad\0",
    *"éÉßİıſςΣñç中文，。日本語한국어अनुवादعربيע\u0301\u0308\u200d٣²Ⅷ",
    *"\U0001f600\U0001f468\U00010400\U00010428\ud800\udfff\ud83d\ude00\U0010ffff\uffff",
    *["<skipped>", "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "-\n", "the ", "the the ", "<ski", "pped>", "3-4 "],
]


def odd_text(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices(PIECES, k=rng.randrange(longest)))


def odd_rows(rng: random.Random, segments: int, references: int, outputs: int, longest: int) -> list[list[str]]:
    """References, then outputs; half of the outputs are made of pieces of a reference."""
    rows = []
    for _ in range(segments):
        texts = [odd_text(rng, longest) for _ in range(references)]
        for _ in range(outputs):
            base = rng.choice(texts) if references and rng.random() < 0.5 else odd_text(rng, longest)
            cut = rng.randrange(len(base) + 1)
            texts.append(base[cut:] + odd_text(rng, 5) + base[:cut])
        rows.append(texts)
    return rows


def batches(rng: random.Random, strings: int, longest: int = 25) -> Iterator[tuple[list[list[str]], int]]:
    """Rows of texts with their number of references, until there were so many texts."""
    while strings > 0:
        segments, references, outputs = rng.randrange(1, 20), rng.randrange(1, 9), rng.randrange(1, 6)
        yield odd_rows(rng, segments, references, outputs, longest), references
        strings -= segments * (references + outputs)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``both(call)``: what a call gives by C and by NumPy."""

    def compare(call: Any) -> tuple[Any, Any]:
        monkeypatch.setenv(native.ENVIRONMENT, "1")
        by_c = call()
        monkeypatch.setenv(native.ENVIRONMENT, "0")
        return by_c, call()

    return compare


def source_hash() -> str:
    """SHA-256 of the C sources that the library was built from."""
    read = native._library().polyref_source
    read.restype = ctypes.c_char_p
    value: bytes = read()
    return value.decode()


def block_words(block: ngram.Block, texts: Sequence[str]) -> list[list[int]]:
    assert block.lengths.size == len(texts)
    return [part.tolist() for part in np.split(block.symbols, np.cumsum(block.lengths)[:-1])]


def order_of_first(numbers: np.ndarray) -> list[int]:
    known: dict[int, int] = {}
    return [known.setdefault(number, len(known)) for number in numbers.tolist()]


@pytest.mark.slow
@built
def test_the_library_is_of_these_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "1")
    assert source_hash() == build_script().source_hash(ROOT), "build it again: python hatch_build.py"


@built
def test_white_space_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "1")
    every = [chr(code) for code in range(0x110000)]
    codes, sizes = native.encode(every)
    _, lengths, alphabet = native.characters(codes, sizes)
    assert lengths.tolist() == [int(not character.isspace()) for character in every]
    assert alphabet == 0x110000


@built
@pytest.mark.parametrize("rule", native.RULES)
def test_words_are_the_same(rule: str, both: Any) -> None:
    rng = random.Random(rule)
    for rows, _ in batches(rng, STRINGS):
        fast, slow = both(lambda rows=rows: ngram.BlockReader(rows).words(rule))
        # In a segment, equal words have equal numbers; which numbers is of no account.
        ends = np.cumsum(fast.lengths.sum(axis=1))[:-1]
        for left, right in zip(np.split(fast.symbols, ends), np.split(slow.symbols, ends), strict=True):
            assert order_of_first(left) == order_of_first(right)
        assert fast.lengths.tolist() == slow.lengths.tolist()
        assert (fast.segments, fast.ranks) == (slow.segments, slow.ranks)
        assert all(block.symbols.max(initial=-1) < block.alphabet for block in (fast, slow) if block.symbols.size)


@built
@pytest.mark.parametrize("rule", ["13a", "chrf"])
def test_words_are_sacrebleus(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "1")
    rng = random.Random(31)
    tokenizer, peer, chrf = Tokenizer13a.__call__.__wrapped__, Tokenizer13a(), CHRF()
    texts = [odd_text(rng, 20) for _ in range(STRINGS)]
    # Runs of marks beside digits, where the expressions of 13a get into each other's way.
    texts += ["".join(rng.choices(" ..,,--55a\n'", k=rng.randrange(9))) for _ in range(STRINGS)]
    found = block_words(ngram.BlockReader([texts]).words(rule), texts)
    number: dict[str, int] = {}
    for text, numbers in zip(texts, found, strict=True):
        wanted = tokenizer(peer, text.rstrip()).split() if rule == "13a" else chrf._remove_punctuation(text)
        assert numbers == [number.setdefault(word, len(number)) for word in wanted], repr(text)


@built
@pytest.mark.parametrize("whitespace", [False, True])
def test_characters_are_the_same(whitespace: bool, both: Any) -> None:
    for rows, _ in batches(random.Random(32), STRINGS):
        fast, slow = both(lambda rows=rows: ngram.BlockReader(rows).characters(whitespace=whitespace))
        # NumPy numbers the characters that occur; C takes code points.
        assert np.unique(fast.symbols, return_inverse=True)[1].tolist() == slow.symbols.tolist()
        assert fast.lengths.tolist() == slow.lengths.tolist()


@built
@pytest.mark.parametrize("counted", [ngram.joint_matches, ngram.single_matches])
def test_matches_are_the_same(counted: Any, both: Any) -> None:
    for rows, references in batches(random.Random(33), STRINGS):
        for block in (ngram.BlockReader(rows).words("13a"), ngram.BlockReader(rows).characters(whitespace=False)):
            fast, slow = both(lambda block=block, r=references: list(counted(block, r, 6)))
            assert len(fast) == len(slow) == 6
            for left, right in zip(fast, slow, strict=True):
                assert np.array_equal(left, right)


@built
@pytest.mark.parametrize(("pairs", "vocabulary", "longest"), [(6, 2, 8), (8, 6, 15), (6, 20, 25), (3, 300, 40)])
def test_edits_are_the_same_and_sacrebleus(pairs: int, vocabulary: int, longest: int, both: Any) -> None:
    rng = random.Random(vocabulary)
    words = [str(number) for number in range(vocabulary)]

    def moved(text: list[str]) -> list[str]:
        for _ in range(rng.randrange(4)):
            start, end, target = sorted(rng.randrange(len(text) + 1) for _ in range(3))
            text = [*text[:start], *text[end:target], *text[start:end], *text[target:]]
        return [rng.choice(words) if rng.random() < 0.15 else word for word in text]

    for _ in range(pairs * max(1, STRINGS // 3000)):
        references = [rng.choices(words, k=rng.randrange(longest)) for _ in range(3)]
        outputs = [moved(rng.choice(references)) for _ in range(3)]
        outputs.append(rng.choices(words, k=rng.randrange(longest)))
        block = ngram.BlockReader([[" ".join(text) for text in (*references, *outputs)]]).words("space")
        fast, slow = both(lambda block=block: edit_matrix(block, 3))
        assert np.array_equal(fast, slow)
        wanted = [[translation_edit_rate(output, reference)[0] for reference in references] for output in outputs]
        assert fast[0].tolist() == wanted


@pytest.mark.slow
@built
@pytest.mark.parametrize(
    ("output", "reference"),
    [
        # 64 words and more, far from the diagonal, more shifts to try than Tercom allows, nothing at all.
        ([str(n) for n in [*range(3, 68), *range(3)]], [str(n) for n in range(68)]),
        ([str(n) for n in range(0, 80, 2)], [str(n) for n in range(80)]),
        ([str(n) for n in range(40)], [str(n) for n in range(25, 65)]),
        (["b", *["a"] * 62, "c"], ["c", *["a"] * 63]),
        (["b", *["a"] * 63], ["a"] * 65),
        (list("ab" * 40), list("c" * 3)),
        (list("c" * 2), list("abc" * 40)),
        (list("ab" * 15), list("ba" * 15 + "c")),
        ([], ["a"] * 70),
        (["a"], []),
        ([], []),
    ],
)
def test_edits_of_special_pairs(output: list[str], reference: list[str], both: Any) -> None:
    block = ngram.BlockReader([[" ".join(reference), " ".join(output)]]).words("space")
    fast, slow = both(lambda: edit_matrix(block, 1))
    assert fast.tolist() == slow.tolist() == [[[translation_edit_rate(output, reference)[0]]]]


@pytest.mark.slow
@built
@pytest.mark.parametrize(
    ("name", "options", "peer"),
    [
        ("bleu", {}, BLEU(force=True)),
        ("bleu", {"lowercase": True, "tokenize": "none"}, BLEU(force=True, lowercase=True, tokenize="none")),
        ("bleu", {"tokenize": "intl"}, BLEU(force=True, tokenize="intl")),
        ("bleu", {"tokenize": "zh"}, BLEU(force=True, tokenize="zh")),
        ("bleu", {"tokenize": "char"}, BLEU(force=True, tokenize="char")),
        ("chrf++", {}, CHRF(word_order=2)),
        ("chrf", {"whitespace": True, "lowercase": True}, CHRF(whitespace=True, lowercase=True)),
        ("ter", {}, TER()),
        ("ter", {"normalized": True, "asian_support": True}, TER(normalized=True, asian_support=True)),
    ],
)
def test_statistics_are_the_same_and_sacrebleus(name: str, options: dict[str, Any], peer: Any, both: Any) -> None:
    rng = random.Random(36)
    metric = get_metric(name, **options)
    # sacreBLEU's TER is slow on long texts: `test_edits_are_the_same_and_sacrebleus` has some of those.
    longest = 16 if name == "ter" else 25
    for rows, references in batches(rng, STRINGS // 2, longest):
        refset = ReferenceSet.from_texts([row[:1] for row in rows], paraphrases=[row[1:references] for row in rows])
        systems = {str(s): [row[s] for row in rows] for s in range(references, len(rows[0]))}
        fast, slow = both(lambda systems=systems, refset=refset: metric.statistics(systems, refset))
        assert np.array_equal(fast.values, slow.values)
        for k in {0, fast.ks[-1]}:
            ranks = [list(rank) for rank in zip(*(row[: k + 1] for row in rows), strict=True)]
            for s, outputs in enumerate(systems.values()):
                assert np.array_equal(fast.at(k)[s], peer._extract_corpus_statistics(outputs, ranks))


@built
@pytest.mark.parametrize("name", ["bleu", "chrf", "chrf++", "ter"])
@pytest.mark.parametrize("combine", ["max", "mean", "expected"])
def test_scores_and_signatures_do_not_name_the_path(
    name: str, combine: str, systems: Any, refset: ReferenceSet, both: Any
) -> None:
    if (name, combine) == ("ter", "expected"):
        pytest.skip("TER has no expected credit")
    metric = get_metric(name, combine=combine)
    for k in (0, 2):
        fast, slow = both(lambda k=k: metric.aggregate(metric.statistics(systems, refset), k=k))
        assert fast.system.tolist() == slow.system.tolist()
        assert fast.segment.tolist() == slow.segment.tolist()
        assert (fast.signature, fast.segment_signature) == (slow.signature, slow.segment_signature)


@pytest.mark.slow
@built
def test_long_texts(both: Any) -> None:
    rng = random.Random(37)
    han = [chr(code) for code in range(0x4E00, 0x9000)]
    outputs = ["".join(rng.choices(han, k=3000)), " ".join(rng.choices(han, k=3000)), "x" * 200_000, "a b " * 3000, ""]
    references = [[text[500:] + text[:100], text[::2], ""] for text in outputs]
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    for name in ("bleu", "chrf++"):
        fast, slow = both(lambda name=name: get_metric(name).statistics({"a": outputs}, refset))
        assert np.array_equal(fast.values, slow.values)


def test_which_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "0")
    assert not native.available()
    with pytest.raises(RuntimeError, match="not in use"):
        native.characters(*native.encode(["a"]))
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "_native.so")
    native._load.cache_clear()
    try:
        monkeypatch.delenv(native.ENVIRONMENT)
        assert not native.available()
        monkeypatch.setenv(native.ENVIRONMENT, "1")
        with pytest.raises(ModelError, match="the C library is not there or not of this version"):
            native.available()
        # A file that is no library, as after a copy to another platform, is left alone.
        (tmp_path / "_native.so").write_bytes(b"not a library")
        native._load.cache_clear()
        monkeypatch.delenv(native.ENVIRONMENT)
        assert not native.available()
    finally:
        native._load.cache_clear()


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("POLYREF_NO_NATIVE", "1", "POLYREF_NO_NATIVE is set"),
        ("CC", "/nowhere/cc", "/nowhere/cc cannot be run"),
        ("CC", "false", "false failed"),
        ("PATH", "/nowhere", "no C compiler"),
    ],
)
def test_without_a_compiler_the_wheel_is_pure(
    variable: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv(variable, value)
    _, data = run_hook()
    assert data == {"force_include": {}, "pure_python": True}
    assert reason in "".join(capsys.readouterr())


@pytest.mark.slow
@built
def test_with_a_compiler_the_wheel_holds_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYREF_NO_NATIVE", raising=False)
    hook, data = run_hook()
    ((path, home),) = data["force_include"].items()
    assert home == "polyref/metrics/ngram/_native.so"
    assert data["pure_python"] is False
    assert data["tag"].startswith("py3-none-") and not data["tag"].endswith("any")
    monkeypatch.setattr(native, "LIBRARY", Path(path))
    native._load.cache_clear()
    try:
        monkeypatch.setenv(native.ENVIRONMENT, "1")
        assert source_hash() == build_script().source_hash(ROOT)
    finally:
        native._load.cache_clear()
        hook.finalize("standard", data, "")
    assert not Path(path).exists()


def build_script() -> Any:
    if not (ROOT / "hatch_build.py").is_file():
        pytest.skip("not a source tree")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def run_hook() -> tuple[Any, dict[str, Any]]:
    """The build hook after it ran for a wheel, and what it told the builder."""
    from hatchling.bridge.app import Application

    data: dict[str, Any] = {"force_include": {}, "pure_python": True}
    hook = build_script().NativeBuildHook(str(ROOT), {}, None, None, "", "wheel", Application())
    hook.initialize("standard", data)
    return hook, data
