"""Long texts in windows: where they are cut, what the model reads of them, and what becomes of the scores."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders

import polyref
from polyref import ReferenceSet, get_metric
from polyref.errors import PolyrefWarning, UsageError
from polyref.metrics import Statistics
from polyref.metrics.embedding.bertscore import BERTScore
from polyref.metrics.likelihood.bartscore import BARTScore
from polyref.metrics.likelihood.peer import Peer
from polyref.metrics.likelihood.prism import PrismRef
from polyref.metrics.windows import Point, Sides, Windows, cuts

WORDS = ("the", "small", "river", "runs", "behind", "old", "mill", "grey", "heron", "nobody", "has", "seen")


def words(side: int, texts: Sequence[str], most: int = 11) -> list[tuple[int, bool]]:
    """What a model of words reads, with one special piece."""
    sizes = [len(text.split()) + 1 for text in texts]
    return [(min(size, most), size > most) for size in sizes]


def paragraph(rng: random.Random, most: int = 14) -> str:
    """Sentences of 1 to ``most`` words, or none, with odd space between them."""
    sentences = [" ".join(rng.choices(WORDS, k=rng.randint(1, most))).capitalize() for _ in range(rng.randint(0, 9))]
    return "".join(sentence + rng.choice((".", "!", "?")) + rng.choice((" ", "  ", "\n")) for sentence in sentences)


@pytest.mark.parametrize("room", [None, 18])
def test_windows_hold_every_sentence_once_in_order_and_are_read_whole(room: int | None) -> None:
    rng = random.Random(1)
    windows = Windows(words, ("en", "en", "en"), room)
    items: list[Sides] = [tuple(paragraph(rng) if rng.random() > 0.1 else None for _ in range(3)) for _ in range(200)]
    several = 0
    for item, found in zip(items, windows.of(items), strict=True):
        if len(found) == 1:
            assert found == [item]  # to the last space
        several += len(found) > 1
        for text, parts in zip(item, zip(*found, strict=True), strict=True):
            assert (text is None) == (parts[0] is None)
            assert " ".join(part or "" for part in parts).split() == (text or "").split()
        for window in found:
            counts = [len(text.split()) for text in window if text]
            fits = sum(counts) <= room if room is not None and max(counts, default=0) < 11 else room is None
            fits = fits and max(counts, default=0) <= 10
            least = all(sum(map((text or "").count, ".!?")) <= 1 for text in window)
            assert fits or least
    assert several > 100
    assert windows.several == {
        text for item, found in zip(items, windows.of(items), strict=True) if len(found) > 1 for text in item if text
    }


def test_what_the_model_reads_decides_not_the_sum_over_sentences() -> None:
    """A tokeniser that needs more pieces for sentences together than one by one."""

    def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
        sizes = [len(text.split()) * (1 + text.count(".")) for text in texts]
        return [(min(size, 24), size > 24) for size in sizes]

    text = "One two three. Four five six. Seven eight nine. Ten eleven twelve."
    (found,) = Windows(read, ("en", "en")).of([(text, text)])
    assert found == [(half, half) for half in (text[:29], text[30:])]


def test_sentences_of_other_scripts_are_found() -> None:
    text = "今天天气很好。我们去公园吧！你去吗？他说好的。"

    def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
        return [(min(len(text), 14), len(text) > 14) for text in texts]

    for language in ("zh", None):
        (found,) = Windows(read, (language,)).of([(text,)])
        assert found == [(text[:14],), (text[14:],)]


def _cost(lengths: Sequence[Sequence[int]], way: Sequence[Point]) -> float:
    """As :func:`cuts` says it: Gale and Church's deviations, 2 a window, and squares of shares."""
    totals = [sum(one) for one in lengths]
    cost = 0.0
    for start, end in pairwise(way):
        held = [sum(one[i:j]) / total for one, total, i, j in zip(lengths, totals, start, end)]
        mean = sum(held) / len(held)
        # Of two texts: (l1 - l2)^2 / 6.8 / their mean, both as long as the two are on average.
        cost += 2 * sum((part - mean) ** 2 for part in held) / mean * (sum(totals) / len(totals)) / 6.8
        cost += 2 + mean**2
    return cost


def test_the_cheapest_cuts_are_found() -> None:
    rng = random.Random(2)
    for _ in range(40):
        lengths = [[rng.randint(5, 80) for _ in range(rng.randint(1, 5))] for _ in range(2)]
        room = rng.randint(80, 200)

        def fits(start: Point, end: Point, lengths: list[list[int]] = lengths, room: int = room) -> bool:
            return all(sum(one[i:j]) <= room or j - i < 2 for one, i, j in zip(lengths, start, end))

        way = cuts(lengths, fits)
        assert way[0] == (0, 0) and way[-1] == (len(lengths[0]), len(lengths[1]))
        # All ways through points next to a sentence's end.
        shares = [[sum(one[:n]) / sum(one) for n in range(len(one) + 1)] for one in lengths]
        nearest = {
            tuple(min(range(len(one)), key=lambda n: (abs(one[n] - share), n)) for one in shares)
            for share in sorted({share for one in shares for share in one})
        }
        inner = sorted(nearest - {way[0], way[-1]})
        least = {*pairwise([way[0], *inner, way[-1]])}
        chosen = [[way[0], *some, way[-1]] for n in range(len(inner) + 1) for some in combinations(inner, n)]
        ways = [one for one in chosen if all(fits(*two) or two in least for two in pairwise(one))]
        assert _cost(lengths, way) == pytest.approx(min(_cost(lengths, one) for one in ways))


def test_cuts_are_where_both_texts_end_a_sentence() -> None:
    """Eight sentences against four, of which each says two: the nearest end to the half is another in each text."""
    lengths = [[30, 40, 20, 50, 45, 15, 60, 40], [72, 68, 61, 101]]
    way = cuts(lengths, lambda start, end: sum(lengths[0][start[0] : end[0]]) <= 170)
    assert way == [(0, 0), (4, 2), (8, 4)]


# --- metrics ---


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoders.bert(tmp_path_factory.mktemp("windows") / "bert"))


LONG = "the small river runs behind the old mill . a grey heron stands in the shallow water and waits . " * 3
SHORT = "nobody has seen the ferry since early this morning"


def made(kind: Any, seq2seq: dict[str, Path], **options: Any) -> Any:
    return kind(model=str(seq2seq["bart"]), cache=False, **options)


def test_a_likelihood_is_the_mean_over_the_tokens_of_all_windows(seq2seq: dict[str, Path]) -> None:
    metric = made(PrismRef, seq2seq, windows=True)
    reference = LONG.replace("grey", "small")
    scores = metric._pairs([(reference, LONG), (SHORT, SHORT)])
    (windows,) = metric._divided([(reference, LONG)])
    assert len(windows) > 1
    scorer = metric.scorer
    for column, order in enumerate((1, -1)):
        jobs = [(scorer.source(a), scorer.target(b)) for a, b in (window[::order] for window in windows)]
        rows = [scorer.score([job])[0] for job in jobs]
        assert scores[0, column] == pytest.approx(np.concatenate(rows).mean(), abs=1e-5)
    assert scores[:, 2] == pytest.approx(scores[:, :2].mean(axis=1))
    plain = made(PrismRef, seq2seq)
    assert scores[1] == pytest.approx(plain._pairs([(SHORT, SHORT)])[0], abs=1e-5)


@pytest.mark.parametrize("name", ["prism", "bartscore", "bertscore", "bertscore-idf"])
def test_the_same_sentence_many_times_scores_as_once(name: str, seq2seq: dict[str, Path], bert: str) -> None:
    """Where a window is one of them: then all windows are equal."""
    if name.startswith("bertscore"):
        idf = "human" if name.endswith("idf") else "none"
        metric: Any = BERTScore(model=bert, layer=2, cache=False, windows=True, idf=idf)
        sentence = "the old bridge was closed by the cat and never the cat was old . "
        other = "the cat never closed the old bridge and the old cat was closed . "
    else:
        metric = made(PrismRef if name == "prism" else BARTScore, seq2seq, windows=True)
        sentence = "the small river runs behind the old mill and a grey heron stands in the shallow water and waits . "
        other = "a grey heron waits in the shallow water and the small river runs behind the old mill near bread . "
    times = 5
    once = metric._pairs([(other.strip(), sentence.strip())])
    many = metric._pairs([((other * times).strip(), (sentence * times).strip())])
    assert len(metric._windows.several) == 2
    if name == "bertscore-idf":
        assert np.isfinite(many).all()
    else:
        assert many == pytest.approx(once, abs=1e-5)


def test_prompts_have_room_in_every_window(seq2seq: dict[str, Path]) -> None:
    prompts = ("near the bridge", "when the wind turns")
    for side in ("source", "target"):
        metric = made(BARTScore, seq2seq, windows=True, prompts=prompts, prompt_side=side)
        stats = metric.statistics({"A": [LONG]}, ReferenceSet.from_texts([[LONG]]))
        assert "|max:40/40|cut:0|windows:1|" in metric.aggregate(stats, k=0).signature
        alone = [made(BARTScore, seq2seq, windows=True, prompts=(one,), prompt_side=side) for one in prompts]
        for one in alone:  # with the room of the longer prompt
            one.__dict__["_windows"] = metric._windows
        expected = np.mean([one._pairs([(LONG, LONG)]) for one in alone], axis=0)
        assert metric._pairs([(LONG, LONG)]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"tokens": "min"}, {"dropout": 0.1, "samples": 2, "over": "std"}])
def test_peer_evaluation_sums_up_the_tokens_of_all_windows(seq2seq: dict[str, Path], options: dict[str, Any]) -> None:
    metric = made(Peer, seq2seq, windows=True, **options)
    (windows,) = metric._divided([(LONG, LONG)])
    samples = metric._samples(windows)
    joined = [np.concatenate([sampled[n] for sampled in samples]) for n in range(len(samples[0]))]
    assert metric._pair_scores([(LONG, LONG)]) == pytest.approx(metric._summed([joined]), abs=1e-5)


def test_bertscore_matches_tokens_within_their_windows(bert: str) -> None:
    metric = BERTScore(model=bert, layer=2, cache=False, windows=True)
    output, reference = "the cat was old . " * 9, "the old bridge was closed . never the cat . " * 4
    pairs = [(reference.strip(), output.strip()), ("the cat", "the old cat")]
    scores = metric._pairs(pairs)
    (windows,) = metric._divided([pairs[0][::-1]])
    parts = BERTScore(model=bert, layer=2, cache=False)._pairs([(r, o) for o, r in windows])
    sizes = [[len(metric.encoder.tokens([text])[0]) - 2 for text in window] for window in windows]
    p, r = (np.average(parts[:, side], weights=[size[side] for size in sizes]) for side in (0, 1))
    assert scores[0] == pytest.approx([p, r, 2 * p * r / (p + r)], abs=1e-6)


@pytest.mark.filterwarnings("ignore:.* longer than")
def test_short_texts_beside_long_ones_keep_their_last_digit(bert: str) -> None:
    long, rows = "the cat was old . " * 9, ["the old bridge", "the cat was closed", "never the cat", "the cat the cat"]
    systems = {"A": ["the cat", *rows[:2], long], "B": [long, *rows[1:3], "the cat"], "C": ["the old cat", *rows[:3]]}
    references = ReferenceSet.from_texts([[one] for one in rows], paraphrases=[[one, long] for one in rows[::-1]])
    plain, windows = (
        BERTScore(model=bert, layer=2, cache=False, windows=on).statistics(systems, references, ks=[0, 1]).values
        for on in (False, True)
    )
    short = np.array([[long != text for text in texts] for texts in systems.values()])
    assert np.array_equal(plain[:, short], windows[:, short])
    assert not np.isclose(plain[:, ~short, 2], windows[:, ~short, 2], atol=1e-9).any()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    long = "the old mill was closed . " * 12
    for name, texts in {"ref": [long, "the cat"], "sys": [long.replace("old", "cat"), "cat"]}.items():
        Path(name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return ["score", "ref", "-i", "sys"]


@pytest.mark.filterwarnings("always::polyref.errors.PolyrefWarning")
def test_the_command_says_what_is_cut_and_scores_all_with_windows(
    files: list[str], polyref: Callable[..., Any], seq2seq: dict[str, Path], bert: str
) -> None:
    models = ["--prism-model", seq2seq["bart"], "--bertscore-model", bert, "--bertscore-layer", "2", "--no-cache"]
    command = [*files, "-m", "prism", "bertscore", *models, "--json", "--sentence"]
    done = polyref(*command)
    assert done.code == 0
    for model, longest in (("bart", 40), ("bert", 24)):
        said = f"warning: 2 texts are longer than {model} reads: {longest} tokens of it are scored, from its beginning"
        assert f"{said}; --windows scores all of it\n" in done.err
    windows = polyref(*command, "--windows")
    assert windows.code == 0 and not windows.err
    cut, whole = ({(row["metric"], row["segment"]): row for row in each.json()["rows"]} for each in (done, windows))
    for metric in ("prism", "bertscore"):
        assert cut[metric, "1"]["score"] != whole[metric, "1"]["score"]
        assert cut[metric, "2"]["score"] == pytest.approx(whole[metric, "2"]["score"], abs=1e-6)
        assert "|windows:2|" in whole[metric, "1"]["signature"] and "windows" not in cut[metric, "1"]["signature"]
    written = polyref(*files, "-m", f"prism(windows=yes, model={seq2seq['bart']})", "--json", "--sentence")
    assert [row["score"] for row in written.json()["rows"]] == [
        row["score"] for row in windows.json()["rows"] if row["metric"] == "prism"
    ]
    refused = polyref(*files, "-m", "chrf", "--windows")
    assert refused.code == 2
    assert "error: --windows is given, but none of chrf takes it (it is for bertscore)" in refused.err
    refused = polyref(*files, "-m", "prism(windows=maybe)")
    assert refused.code == 2 and "prism: --windows is 'maybe', expected true or false" in refused.err
    assert "--windows" in polyref("score", "--help").out


def test_a_sentence_that_is_longer_is_cut_and_counted(seq2seq: dict[str, Path]) -> None:
    metric = made(PrismRef, seq2seq, windows=True)
    endless = "the small river runs behind the old mill and " * 6
    with pytest.warns(PolyrefWarning, match="1 text is longer than bart reads: 40 tokens of it are scored, from its b"):
        stats = metric.statistics({"A": [f"{SHORT} . {endless}"]}, ReferenceSet.from_texts([[SHORT]]))
    assert "|cut:2|windows:2|" in metric.aggregate(stats, k=0).signature


def test_all_ks_are_scored_in_one_pass_and_kept_in_files(seq2seq: dict[str, Path], tmp_path: Path) -> None:
    references = ReferenceSet.from_texts([[LONG], [SHORT]], paraphrases=[[SHORT, LONG + SHORT], []])
    systems = {"A": [LONG.replace("grey", "old"), SHORT], "B": ["", LONG]}
    metric = made(PrismRef, seq2seq, windows=True)
    stats = metric.statistics(systems, references)
    for k in (0, 1, 2):
        alone = made(PrismRef, seq2seq, windows=True)
        expected = alone.aggregate(alone.statistics(systems, references, ks=[k]), k=k)
        assert metric.aggregate(stats, k=k).segment == pytest.approx(expected.segment, abs=1e-5)
    stats.save(tmp_path / "kept.npz")
    kept = Statistics.load(tmp_path / "kept.npz")
    assert metric.aggregate(kept, k=2).signature == metric.aggregate(stats, k=2).signature
    with pytest.raises(ValueError, match="windows"):
        made(PrismRef, seq2seq).aggregate(kept, k=0)


def test_python_takes_windows_too(bert: str) -> None:
    long = "the cat was old . " * 9
    asked = f"bertscore(model={bert}, layer=2, windows=yes, cache=no)"
    table = polyref.score([long], [[long]], [asked, BERTScore(model=bert, layer=2, cache=False, windows=True)])
    assert [row["score"] for row in table.rows] == [pytest.approx(1, abs=1e-6)] * 2
    assert table.rows[0]["signature"] == table.rows[1]["signature"]
    with pytest.raises(UsageError, match="`windows` is 2, expected true or false"):
        get_metric("bertscore", windows=2)


def test_an_evaluation_takes_windows(polyref: Callable[..., Any], bert: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(Path(__file__).parents[1] / "eval" / "minimal", tmp_path / "minimal"))
    for file in [*folder.glob("references/*.txt"), *folder.glob("system-outputs/*/*.txt")]:
        lines = file.read_text("utf-8").splitlines()
        file.write_text("".join(f"{line} {line} the cat was old . the cat was old .\n" for line in lines), "utf-8")
    model = ["--bertscore-model", bert, "--bertscore-layer", "2", "--no-cache"]
    done = polyref("evaluate", folder, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bertscore", *model,
                   "--windows", "-n", "0", "--json")  # fmt: skip
    assert done.code == 0, done.err
    found = {part for row in done.json()["rows"] for part in row["signature"].split("|") if part.startswith("windows:")}
    assert len(found) == 1 and found != {"windows:0"}
