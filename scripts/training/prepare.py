"""``prepare``: read the recipe's files, check them for leaks, make vocabulary and pairs, write them as token ids.

In the run's folder: ``recipe.toml`` as it was, ``spm.model``, ``valid.json`` (held-out pairs), ``facts.json`` (counts
and hashes), ``leaks.json`` (what the leak check found), ``lexicon.json`` (if ``teach`` is to draw samples: what judges
them), and a folder for each source. A source that is there already, made from the same file with the same rules and
vocabulary, is left as it is: sources can be added to a run.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import sentencepiece
from tqdm import tqdm

from training.batches import save_pairs, save_ragged
from training.leaks import EvaluationText, Report, evaluation_texts
from training.package import BOS, CLOSENESS, EOS, MASK, PAD, UNK, Equivalence
from training.pairs import Cluster, Faults, Pair, clean_texts, pairs_of, read_clusters, split, training_pairs
from training.recipe import PairRules, Recipe, Source
from training.rules import Judge

CHUNK = 20_000
#: Pairs that are put before a model at once.
ASKED = 1000


def prepare(recipe: Recipe, recipe_file: Path, data: Path, evaluation: Path, run: Path) -> None:
    """Fill the folder ``run``; with ``leaks.action = "fail"``, a leak ends the program before anything is written."""
    run.mkdir(parents=True, exist_ok=True)
    sources = {name: source for name, source in recipe.sources.items() if source.teaching is None}
    files = {source.file: source.kind for source in sources.values()}
    kept_out = evaluation_text(recipe, evaluation)
    valid_file = recipe.sources[recipe.validation.source].file
    train, valid = split(read_clusters(data / valid_file), recipe.validation.clusters)
    kept_out.hold_out(text for cluster in valid for text in cluster.texts)
    report = Report()
    valid = list(clean_clusters(valid_file + " (validation)", valid, kept_out, recipe, report, held_out=True))
    clusters: dict[str, list[Cluster]] = {}
    sentences: dict[str, list[str]] = {}
    for file, kind in files.items():
        if kind == "clusters":
            rows = train if file == valid_file else read_clusters(data / file)
            clusters[file] = list(clean_clusters(file, rows, kept_out, recipe, report))
        else:
            sentences[file] = list(_clean_sentences(file, _read_sentences(data / file), kept_out, recipe, report))
    found = {"evaluation": kept_out.counts, "found": report.counts, "examples": report.examples}
    (run / "leaks.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(json.dumps(report.counts, indent=1))
    if report.leaks and recipe.leaks.action == "fail":
        sys.exit(f"{report.leaks} clusters and sentences repeat evaluation text: see {run}/leaks.json")
    if not (run / "spm.model").exists():
        _make_vocabulary(clusters, sentences, recipe, run)
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    assert spm.id_to_piece(CLOSENESS) == "<p0>" and spm.id_to_piece(MASK) == "<mask>"
    hashes = {file: hashlib.sha256((data / file).read_bytes()).hexdigest() for file in files}
    facts: dict[str, Any] = {
        "files": hashes,
        "vocabulary": hashlib.sha256((run / "spm.model").read_bytes()).hexdigest(),
        "leaks": {"action": recipe.leaks.action, **{file: dict(count) for file, count in report.counts.items()}},
        **_write_validation(valid, recipe, run),
        "seed": recipe.seed,
        "sources": {},
    }
    judged = {file: hashes[file] for file in clusters}
    judge = cache(partial(Judge, [cluster for rows in clusters.values() for cluster in rows], recipe.seed))
    if any(source.teaching and source.teaching.samples for source in recipe.sources.values()):
        judge().lexicon.save(run / "lexicon.json")
    for name, source in sources.items():
        made_from = {
            "source": {key: value for key, value in asdict(source).items() if key != "teaching"},
            "sha256": hashes[source.file],
            "vocabulary": facts["vocabulary"],
            "leaks": asdict(recipe.leaks),
            "validation": asdict(recipe.validation),
            "seed": recipe.seed,
            **({} if source.rules.least is None else {"judged": judged}),
            **({} if source.rules.forced is None else {"model": scorer(source.rules.forced.model).signature}),
        }
        made_from = json.loads(json.dumps(made_from))  # as it is read again
        text: Sequence[Any] = clusters[source.file] if source.kind == "clusters" else sentences[source.file]
        facts["sources"][name] = _write_source(run / "sources" / name, source, text, made_from, spm, judge)
    (run / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    if recipe_file.resolve() != (run / "recipe.toml").resolve():
        shutil.copy(recipe_file, run / "recipe.toml")
    print(json.dumps(facts, indent=1))


# -- reading and checking -----------------------------------------------------------------------------------------


def evaluation_text(recipe: Recipe, folder: Path) -> EvaluationText:
    kept_out = EvaluationText()
    for name in tqdm(recipe.leaks.evaluation, desc="evaluation sets"):
        kept_out.add_set(name, evaluation_texts(folder / name))
        if not kept_out.counts[name]:
            sys.exit(f"no English text of the evaluation set {name} in {folder}")
    return kept_out


def clean_clusters(
    file: str,
    clusters: Sequence[Cluster],
    kept_out: EvaluationText,
    recipe: Recipe,
    report: Report,
    *,
    held_out: bool = False,
) -> Iterator[Cluster]:
    for cluster in tqdm(clusters, desc=file, mininterval=2):
        reason = kept_out.leak(cluster.texts, recipe.leaks.cluster_share)
        if held_out and reason == "held-out":
            reason = None
        report.add(file, reason, cluster.texts)
        if reason is None:
            yield cluster


def _clean_sentences(
    file: str, sentences: Sequence[str], kept_out: EvaluationText, recipe: Recipe, report: Report
) -> Iterator[str]:
    for sentence in tqdm(sentences, desc=file, mininterval=2):
        reason = kept_out.leak((sentence,), recipe.leaks.sentence_share)
        report.add(file, reason, (sentence,))
        if reason is None:
            yield sentence


def _read_sentences(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return list(dict.fromkeys(line.rstrip("\n").split("\t", 1)[1] for line in stream))


# -- writing --------------------------------------------------------------------------------------------------------


def _make_vocabulary(
    clusters: dict[str, list[Cluster]], sentences: dict[str, list[str]], recipe: Recipe, run: Path
) -> None:
    """Pieces from a sample of the text: half of it from the clusters, half from the single sentences."""
    rng = random.Random(recipe.seed)
    texts = [text.text for rows in clusters.values() for cluster in rows for text in clean_texts(cluster)]
    single = [sentence for rows in sentences.values() for sentence in rows]
    size = recipe.vocabulary.sentences // (2 if single else 1)
    sample = rng.sample(texts, min(size, len(texts))) + rng.sample(single, min(size, len(single)))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sample),
        model_prefix=str(run / "spm"),
        vocab_size=recipe.vocabulary.pieces,
        model_type="unigram",
        byte_fallback=True,
        split_digits=True,
        character_coverage=0.9998,
        normalization_rule_name="identity",
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        control_symbols=["<p0>", "<p1>", "<p2>", "<p3>", "<mask>"],
        num_threads=2,
        minloglevel=2,
    )


def _write_validation(valid: Sequence[Cluster], recipe: Recipe, run: Path) -> dict[str, int]:
    rules = PairRules(most=recipe.validation.pairs)
    held = [
        pair for cluster in valid for pair in pairs_of(cluster, rules, random.Random(f"{recipe.seed}/{cluster.id}"))
    ]
    rows = [[pair.source, pair.target, pair.closeness] for pair in held]
    (run / "valid.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    references = [cluster.texts[0] for cluster in valid]
    (run / "references.json").write_text(json.dumps(references, ensure_ascii=False), "utf-8")
    return {
        "held_out_clusters": len(valid),
        "held_out_pairs": len(held),
        "held_out_words": sum(len(pair.target.split()) for pair in held),
    }


def _write_source(
    folder: Path,
    source: Source,
    text: Sequence[Any],
    made_from: dict[str, Any],
    spm: sentencepiece.SentencePieceProcessor,
    judge: Callable[[], Judge],
) -> dict[str, Any]:
    """Write one source as token ids; returns its facts. ``judge`` learns from all clusters: it takes a minute."""
    done = folder / "facts.json"
    if done.exists() and (facts := json.loads(done.read_text("utf-8")))["made_from"] == made_from:
        return dict(facts["facts"])
    folder.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    if source.kind == "sentences":
        save_ragged(folder / "target.npz", _encoded(text, spm))
        facts = {"sentences": len(text)}
    else:
        faults: Counter[str] = Counter()
        made = judged_pairs(tqdm(text, desc=folder.name, mininterval=2), source.rules, judge, made_from["seed"], faults)
        pairs = [found for found in made if found]
        flat = [(number, pair) for number, found in enumerate(pairs) for pair in found]
        levels = save_pairs(
            folder,
            _encoded([pair.source for _, pair in flat], spm),
            _encoded([pair.target for _, pair in flat], spm),
            [pair.closeness for _, pair in flat],
            [number for number, _ in flat],
        )
        facts = {
            "clusters": len(text),
            "clusters_with_pairs": len(pairs),
            "pairs": len(flat),
            "closeness": levels,
            "left_out": dict(faults.most_common()),
        }
    done.write_text(json.dumps({"made_from": made_from, "facts": facts}, indent=1), "utf-8")
    return facts


def judged_pairs(
    clusters: Iterable[Cluster],
    rules: PairRules,
    judge: Callable[[], Judge],
    seed: int,
    faults: Counter[str],
) -> list[list[Pair]]:
    """The pairs of each cluster; those that the rules are not sure of are put before a model, if they say so."""
    least, forced = rules.least, rules.forced
    if least is None:
        return list(training_pairs(clusters, rules, seed, faults))
    doubtful: set[tuple[str, str]] = set()

    def faults_of(cluster: Cluster) -> Faults:
        fault = judge().faults_of(cluster, least)
        if forced is None:
            return fault
        doubt = judge().faults_of(cluster, forced.sure)

        def judged(source: str, target: str) -> str | None:
            reason = fault(source, target)
            if reason is None and doubt(source, target) is not None:
                doubtful.add((source, target))
            return reason

        return judged

    made = list(training_pairs(clusters, rules, seed, faults, faults_of))
    if forced is None:
        return made
    asked = sorted(doubtful)
    unlikely: set[tuple[str, str]] = set()
    for at in tqdm(range(0, len(asked), ASKED), desc=f"asking {forced.model}", mininterval=2):
        part = asked[at : at + ASKED]
        scores = scorer(forced.model).score(part)
        unlikely.update(pair for pair, score in zip(part, scores, strict=True) if score < forced.least)
    faults["unlikely"] += len(unlikely)
    return [[pair for pair in found if (pair.source, pair.target) not in unlikely] for found in made]


@cache
def scorer(model: str) -> Equivalence:
    return Equivalence(model, lang="en")


def _encoded(texts: Sequence[str], spm: sentencepiece.SentencePieceProcessor) -> Iterator[list[int]]:
    for at in range(0, len(texts), CHUNK):
        yield from spm.encode(list(texts[at : at + CHUNK]))
