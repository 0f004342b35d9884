"""Approximate modes of a whole network: named, repeatable, near to float32."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.errors import UsageError
from polyref.models.checkpoints.seq2seq import Seq2Seq, load_fairseq
from polyref.models.networks.matmul import Precision, computing_in
from polyref.models.scorers import LeanScorer
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.search import SearchOptions, search

TEXT = ["The committee said that it would look at the 12 plans again, because it was not happy with them."]


@pytest.mark.parametrize(("precision", "mean", "tops"), [("bfloat16", 0.02, 0.8), ("int8", 0.04, 0.7)])
def test_lists_of_the_golden_model(
    golden: Path, models: dict[str, Seq2Seq], precision: Precision, mean: float, tops: float
) -> None:
    with gzip.open(golden / "pre" / "dbs12.json.gz", "rt") as stream:
        sources = [entry["src"] for entry in json.load(stream)["sentences"]]
    exact = models["pre"]
    with computing_in(precision):
        near = load_fairseq(exact.path)
    options = SearchOptions(beam=12, groups=3, strength=0.5, max_len_a=1.3, max_len_b=10)
    prefixes = [[4]] * len(sources)
    wanted = search(exact.network, sources, options, prefixes)
    found = search(near.network, sources, options, prefixes)
    again = search(near.network, sources[:2], options, prefixes[:2])
    assert [[c.tokens for c in one] for one in again] == [[c.tokens for c in one] for one in found[:2]]
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(wanted, found))
    assert tops * len(sources) <= same
    # The same hypotheses scored by both: the log-probability of a token is off by this much on average.
    targets = [one[0].tokens for one in wanted]
    stretch = (list(map(tuple, sources)), list(map(tuple, targets)), None)
    about = {"name": "m", "digest": "", "dtype": "float32"}
    a, b = (LeanScorer(one.network, one.codec, None, **about).compute(stretch) for one in (exact, near))
    differences = [abs(x - y) for xs, ys in zip(a, b) for x, y in zip(xs, ys)]
    assert 0 < sum(differences) / len(differences) < mean


@pytest.mark.slow
def test_the_shipped_model_names_its_mode() -> None:
    exact = load_paraphraser("shipped", dtype="float32", cache=False)
    near = load_paraphraser("shipped", dtype="int8", cache=False)
    assert (
        load_paraphraser("shipped").signature == load_paraphraser("shipped", device="cpu:0").signature == near.signature
    )
    assert near.signature == exact.signature.replace("|rules", "|dtype:int8|rules")
    first, second = (next(iter(near.paraphrase(TEXT, 4))).hypotheses for _ in range(2))
    assert first == second != ()
    best = next(iter(exact.paraphrase(TEXT, 4))).hypotheses[0]
    assert abs(first[0].score - best.score) < 0.1


#: Lists of the shipped model in int8 as an older processor would make them: no kernels for bytes, shorter vectors.
OLDER = """
import json, sys
from polyref.models.networks import matmul
matmul._has_vnni = lambda: False
from test_dtype import int8_lists
print(json.dumps(int8_lists(json.loads(sys.argv[1]))))
"""


def int8_lists(texts: list[str]) -> list[list[str]]:
    """What the shipped model offers, and all that it finds."""
    model = load_paraphraser("shipped", dtype="int8", threads=1, cache=False)
    ways = (None, SearchOptions(beam=20, groups=4, max_len_a=1.25, max_len_b=5))
    return [one.paraphrases for way in ways for one in model.paraphrase(texts, 20, decoding=way)]


@pytest.mark.slow
def test_int8_lists_do_not_depend_on_the_processor() -> None:
    texts = [
        "The rapid test was able to find more cases than the slow one, especially in the second week.",
        "They are all young specialists in different subjects, and good at teaching by telling stories.",
        "In the long term, the illness contributes to changes of the brain, which need special programmes.",
        "When I went out into the city, the mobile network worked again.",
        "The measures will be valid until they are cancelled, the spokesman of the city council said on Monday.",
        "It is also forbidden to smoke and to use fireworks in these areas, which are dry after a long summer.",
        "Of the 1,400 people surveyed before the election, those opposed grew by 8 per cent since 2008.",
        "She left early because the meeting had been moved to Friday, and nobody had told her.",
        "Although the museum was closed for repairs, hundreds of visitors waited in front of it in the rain.",
        "The company says it will hire about 200 people for its new plant, most of them from the region.",
        "After three years of talks, both countries agreed to open the bridge to lorries again in the spring.",
        "He was already known to experts as an influential guitarist of the past decades with a gentle sound.",
        "If the river rises by another half a metre, the villages on its eastern bank will have to be left.",
        "The judge asked why the report had not been shown to the defence before the trial began.",
        "Vegetables, brown rice and fish are good for staying in shape, a doctor writes in the magazine.",
        "Scientists found that the birds remember the places where they have hidden food for several months.",
    ]
    older = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    command = [sys.executable, "-c", OLDER, json.dumps(texts)]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, **older, "PYTHONPATH": path}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    here = int8_lists(texts)
    assert json.loads(done.stdout) == here
    assert any(here[: len(texts)]) and all(len(found) == 20 for found in here[len(texts) :])


def test_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="`dtype` is 'float16', expected one of float32, bfloat16, int8 on cpu"):
        load_paraphraser("shipped", dtype="float16")
    with pytest.raises(UsageError, match="`dtype` is 'int8', but the generator fairseq takes no such option"):
        load_paraphraser("x", dtype="int8", backend="fairseq")


@pytest.mark.slow
def test_the_command_line_takes_mode_and_memory(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("She said that it is a big mistake.\n" * 3 + TEXT[0] + "\n", "utf-8")
    lists = []
    for memory in ("1", "64"):
        # Without the cache, from which the second would be the first.
        options = ("--dtype", "int8", "--memory", memory, "--no-cache", "--json")
        found = polyref("paraphrase", tmp_path / "in.txt", "-k", "2", *options)
        assert found.code == 0 and "|dtype:int8|" in found.json()["signature"]
        lists.append([[p["text"] for p in row["paraphrases"]] for row in found.json()["rows"]])
    assert lists[0] == lists[1] and len(lists[0]) == 4 and all(lists[0])
    refused = polyref("augment", tmp_path / "in.txt", "--dtype", "float16")
    assert refused.code == 2 and "--dtype is 'float16'" in refused.err
