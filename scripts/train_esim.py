"""Train, measure and export the ESIM model that comes with polyref, on one core in a quarter of an hour.

    python scripts/train_esim.py --data DIR --run RUN [--out FOLDER]

One command: what was made in RUN is used again (delete RUN to start afresh), a training that was killed goes on where
it was, and FOLDER (default: the package's own) is written last. To be run again whenever the shipped paraphraser's
weights change: its encoder is the frozen part of the model.

Training data, as relative rankings (see ``scripts/esim/judgements.py``):

* ``mqm``: expert MQM of WMT21, TED talks and news zh-en. Two outputs of a segment whose scores differ by 1 (a minor
  error) or more are a pair; its weight grows up to a difference of 5 (a major error). References: refB (TED; refA is
  poor) and refA (news; refB is a post-edit). Held out: two TED talks, and the last fifth of the judged news segments.
* ``consensus``: what no person judged, to learn similarity across wordings and domains. Outputs for one source segment
  (WMT21 and WMT23 into English, the paraphraser's training text) are ranked by their mean similarity (chrF++ and
  BERTScore) with all human references and other outputs of the segment; ESIM sees one reference. Held out: the sets'
  last 25 segments.

The epoch is chosen by Kendall's tau on both kinds of held-out rankings together.
WMT19 is evaluation only, and so is WMT22 (whose crowd-sourced DA has a reliability of .12 to .28 besides). No text of
these sets goes into the package.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from esim.run import EsimRun, train_esim
from esim.state import TrainingOptions
from sacrebleu.metrics import CHRF
from tqdm import tqdm

from polyref.eval.data.evaluation_set import EvalSet
from polyref.metrics.base import Metric
from polyref.metrics.esim.card import SHIPPED
from polyref.metrics.registry import get_metric
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import load_encoder
from polyref.publishing import write_atomically
from polyref.references import ReferenceSet

Row = dict[str, Any]
OPTIONS = TrainingOptions(hidden=128, dropout=0.2, rate=1e-3, batch=16, epochs=3, patience=2, seed=1)
MINOR = 1.0
TALKS_HELD_OUT = frozenset({"talk.5", "talk.7"})
#: Consensus rankings: clusters (training, held out), outputs of each, least difference (standard deviations) of a pair.
CLUSTERS, HELD_OUT_CLUSTERS, OUTPUTS, MARGIN = 1200, 100, 8, 0.5
#: Most weight of an MQM ranking; one of consensus has weight 1. MQM says little of what is common to texts.
MQM_WEIGHT = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with wmt21.*, wmt19 and paraphrase-train")
    parser.add_argument("--run", type=Path, required=True, help="working folder, kept out of git")
    parser.add_argument("--out", type=Path, default=SHIPPED / "esim-en", help="model folder to write")
    parser.add_argument("--epochs", type=int, default=OPTIONS.epochs)
    parser.add_argument("--clusters", type=int, default=CLUSTERS, help="of consensus rankings; 0: judgements alone")
    parser.add_argument("--no-export", action="store_true", help="stop after the training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    options.run.mkdir(parents=True, exist_ok=True)
    files, valid = make_data(options.data, options.run, options.clusters)
    model = options.run / "esim-en"
    if not (model / "MODEL_CARD.md").is_file():
        run = EsimRun(
            files=files,
            valid=valid,
            name="esim-en",
            names=NAMES[: len(files)],
            options=TrainingOptions(**{**vars(OPTIONS), "epochs": options.epochs}),
        )
        train_esim(run, model, say=lambda line: print(line, file=sys.stderr), progress=True)
        print(f"data and training: {time.process_time() - began:.0f} CPU seconds", file=sys.stderr)
    if not options.no_export:
        export(model, options.out, measure(model, options.data, valid[0]))


NAMES = ["wmt21-mqm-ted+news-zh-en", "wmt21+23-consensus-en"]


# -- data --------------------------------------------------------------------------------------------------------


def make_data(data: Path, run: Path, clusters: int) -> tuple[list[Path], list[Path]]:
    """Write training and validation rankings, unless they are there; those of MQM come first."""
    learnt, held = ([run / f"{kind}.{part}.jsonl" for kind in ("mqm", "consensus")] for part in ("train", "valid"))
    if not held[0].is_file():
        rankings = mqm_rankings(data)
        _write(learnt[0], rankings[0])
        _write(held[0], rankings[1])
    if not clusters:
        return learnt[:1], held[:1]
    if not held[1].is_file():
        path = data / "paraphrase-train" / "wmt.en.jsonl.gz"
        _write(learnt[1], consensus_rankings(_clusters(path), clusters))
        _write(held[1], consensus_rankings(_clusters(path, held=True), HELD_OUT_CLUSTERS))
    return learnt, held


def _write(path: Path, rows: Sequence[Row]) -> None:
    with write_atomically(path) as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def mqm_rankings(data: Path) -> tuple[list[Row], list[Row]]:
    """Rankings to learn from, and those of the documents held out."""
    learnt: list[Row] = []
    held: list[Row] = []
    for folder, reference in (("wmt21.tedtalks", "refB"), ("wmt21.news", "refA")):
        test_set = EvalSet(data / folder, "zh-en")
        scores = test_set.gold("mqm", include_human=True).segment
        outputs = dict(zip(scores, test_set.outputs(scores), strict=True))
        references = test_set.reference(reference)
        judged = np.flatnonzero(~np.isnan(np.stack(list(scores.values()))).any(axis=0)).tolist()
        documents = test_set.documents
        assert documents is not None
        for place, n in enumerate(judged):
            ref = references[n]
            if not ref:
                continue
            by_text: dict[str, list[float]] = defaultdict(list)
            for system, texts in outputs.items():
                if texts[n] and texts[n] != ref:
                    by_text[texts[n]].append(float(scores[system][n]))
            means = {text: float(np.mean(values)) for text, values in by_text.items()}
            last = place >= len(judged) * 4 // 5
            apart = documents[n][1] in TALKS_HELD_OUT if folder == "wmt21.tedtalks" else last
            (held if apart else learnt).extend(_pairs(ref, means, MINOR, scale=5 * MINOR))
    return learnt, held


def _pairs(ref: str, scores: dict[str, float], least: float, scale: float | None) -> Iterator[Row]:
    texts = list(scores)
    for place, one in enumerate(texts):
        for other in texts[place + 1 :]:
            difference = scores[one] - scores[other]
            if abs(difference) >= least:
                better, worse = (one, other) if difference > 0 else (other, one)
                weight = 1.0 if scale is None else MQM_WEIGHT * min(1.0, abs(difference) / scale)
                yield {"ref": ref, "better": better, "worse": worse, "weight": round(weight, 3)}


def consensus_rankings(found: Iterator[Row], count: int) -> list[Row]:
    """Rankings of outputs by their mean similarity with the other texts of their cluster.

    Mean chrF++ and mean BERTScore (F, last layer), each standardised within the cluster, count the same.
    """
    chrf = CHRF(word_order=2)
    encoder = load_encoder("shipped")
    embeddings = Embeddings(encoder, (encoder.layers,), memory=0)
    drawn = np.random.default_rng(OPTIONS.seed)
    clusters = list(found)
    chosen = [clusters[i] for i in drawn.permutation(len(clusters))[:count]]
    rows: list[Row] = []
    for cluster in tqdm(chosen, desc="consensus", unit="cluster"):
        references, outputs = cluster["texts"][: cluster["nref"]], cluster["texts"][cluster["nref"] :]
        outputs = [outputs[i] for i in sorted(drawn.permutation(len(outputs))[:OUTPUTS])]
        texts = [*references, *outputs]
        tokens = embeddings.tokens(texts)
        sides = []
        for vectors, token in zip(embeddings.encode(texts, tokens), tokens, strict=True):
            side = vectors[0, ~token.special]
            sides.append(side / np.linalg.norm(side, axis=1, keepdims=True))
        similar = np.zeros((2, len(outputs)))
        for row, place in enumerate(range(len(references), len(texts))):
            others = [j for j in range(len(texts)) if j != place]
            similar[0, row] = np.mean([chrf.sentence_score(texts[place], [texts[j]]).score for j in others])
            similar[1, row] = np.mean([_bertscore(sides[place], sides[j]) for j in others])
        standard = (similar - similar.mean(1, keepdims=True)) / (similar.std(1, keepdims=True) + 1e-9)
        means = dict(zip(outputs, standard.mean(0).tolist(), strict=True))
        rows += _pairs(references[0], means, MARGIN, scale=None)
    return rows


def _bertscore(one: np.ndarray, other: np.ndarray) -> float:
    cosines = one @ other.T
    p, r = float(cosines.max(1).mean()), float(cosines.max(0).mean())
    return 2 * p * r / (p + r)


def _clusters(path: Path, *, held: bool = False) -> Iterator[Row]:
    """Clusters with a human reference and outputs to rank: those of every set's last 25 segments, or the others."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    last: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["nref"]:
            last[row["set"]] = max(last[row["set"]], row["id"])
    for row in rows:
        if row["nref"] and len(row["texts"]) - row["nref"] >= 4 and (row["id"] > last[row["set"]] - 25) is held:
            yield row


# -- figures and export --------------------------------------------------------------------------------------------


def kendall(metric: Metric, data: Path) -> tuple[float, int]:
    """Kendall's tau (DARR, ties discordant) of a metric on WMT19 lt-en, and the number of pairs."""
    test_set = EvalSet(data / "wmt19", "lt-en")
    pairs = test_set.gold("darr").pairs
    assert pairs is not None
    cells = pairs.cells(test_set.segments or 0)
    segments = np.flatnonzero(cells.any(axis=0)).tolist()
    outputs = test_set.outputs(pairs.systems)
    references = test_set.reference("ref")
    scores = np.full(cells.shape, np.nan)
    # A system's unknown cells are never scored: each system is a set of its own.
    for s in range(len(pairs.systems)):
        known = [n for n in segments if cells[s, n]]
        if known:
            refset = ReferenceSet.from_texts([[references[n] or ""] for n in known])
            stats = metric.statistics({"system": [outputs[s][n] for n in known]}, refset, ks=[0])
            scores[s, known] = metric.aggregate(stats, k=0).segment[0]
    right = scores[pairs.better, pairs.segment] > scores[pairs.worse, pairs.segment]
    return float(2 * right.mean() - 1), len(pairs)


def held_out_kendall(metric: Metric, valid: Path) -> float:
    """Kendall's tau of a metric on the validation rankings."""
    rows = [json.loads(line) for line in valid.read_text("utf-8").splitlines()]
    cells = list(dict.fromkeys((row["ref"], row[side]) for row in rows for side in ("better", "worse")))
    refset = ReferenceSet.from_texts([[ref] for ref, _ in cells])
    stats = metric.statistics({"system": [output for _, output in cells]}, refset, ks=[0])
    found = dict(zip(cells, metric.aggregate(stats, k=0).segment[0].tolist(), strict=True))
    right = sum(found[row["ref"], row["better"]] > found[row["ref"], row["worse"]] for row in rows)
    return 2 * right / len(rows) - 1


def measure(model: Path, data: Path, valid: Path) -> Row:
    """The figures of the card: ESIM beside what else there is, on validation data and on WMT19."""
    metrics = {
        "ESIM (this model)": get_metric("esim", model=str(model)),
        "BERTScore, same encoder": get_metric("bertscore", model="shipped"),
        "chrF++": get_metric("chrf++"),
        "sentence BLEU": get_metric("bleu"),
    }
    figures: Row = {}
    for name, metric in metrics.items():
        tau, pairs = kendall(metric, data)
        figures[name] = {"valid": round(held_out_kendall(metric, valid), 4), "wmt19 lt-en": round(tau, 4)}
        figures["pairs"] = pairs
        print(name, figures[name], file=sys.stderr)
    return figures


def export(model: Path, out: Path, figures: Row) -> None:
    """Copy the model; its page says where the data are from and what was measured."""
    card = json.loads((model / "config.json").read_text("utf-8"))
    pairs = figures.pop("pairs")
    card["evaluation"] = figures
    rows = "\n".join(f"| {name} | {row['valid']:.3f} | {row['wmt19 lt-en']:.3f} |" for name, row in figures.items())
    page = (model / "MODEL_CARD.md").read_text("utf-8")
    page += f"""
## Agreement with people

Kendall's tau over pairs of outputs of one segment, ties discordant; one reference.

| metric | validation (MQM, held-out documents) | WMT19 lt-en (DARR, {pairs:,} pairs) |
|---|---|---|
{rows}
| ESIM as submitted to WMT19 | | .348 |

WMT19 was looked at once with this model, after all choices. The last line
is the published figure (Ma et al. 2019); that model mixes the twelve layers of BERT base, has h = 300, and was trained
on direct assessments of earlier years.

## Provenance

- `{NAMES[0]}`: expert MQM of WMT21 (google/wmt-mqm-human-evaluation, Apache-2.0) on TED talks and news,
  Chinese to English; two outputs of a segment whose scores differ by a minor error or more.
- `{NAMES[1]}`: outputs for one source segment of WMT21 and WMT23 tasks into English, ranked by their mean
  similarity (chrF++, and BERTScore with the same encoder) with all references and other outputs of that segment. No
  person judged them.

The texts are WMT research data, whose repositories carry no licence file; they are not part of the package. Use the
model for research, and cite the WMT findings. WMT19 and WMT22 were not used for training.

Made by `scripts/train_esim.py`.

## Known limits

English only. Judgements are few and of strong systems: it is worth no more than its figures above. Scores of different
models cannot be compared; an empty text is read as its end mark; there is no knowledge of the source.
"""
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    for name, text in (("config.json", json.dumps(card, indent=1, ensure_ascii=False) + "\n"), ("MODEL_CARD.md", page)):
        with write_atomically(out / name) as stream:
            stream.write(text)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
