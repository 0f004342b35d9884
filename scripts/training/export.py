"""``export``: write a trained paraphraser into a model folder, measure it, and write its model card."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from training.batches import validation_rows
from training.card import card
from training.loop import averaged, validate
from training.package import (
    VERSION,
    DiverseBeam,
    FilterChain,
    JudgedSearch,
    NBest,
    SearchParaphraser,
    UsageError,
    filter_chain,
    load_paraphraser,
    load_pointer,
)
from training.pointer_files import save_pointer
from training.recipe import Recipe

K = 10
CANDIDATES = 20
#: Sentences on the card, drawn at random.
EXAMPLES = 10


def quality(paraphraser: SearchParaphraser, references: Sequence[str], chain: FilterChain) -> dict[str, Any]:
    """What the default filter finds among the candidates of ``references``, and the cost.

    Returns:
        Shares (of all candidates) by reason of refusal, mean numbers of candidates and of usable paraphrases a
        segment, and CPU seconds a segment on one thread.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    began = time.process_time()
    found = list(paraphraser.paraphrase(list(references), CANDIDATES, decoding=DiverseBeam(), progress=True))
    seconds = time.process_time() - began
    torch.set_num_threads(threads)
    reasons: Counter[str] = Counter()
    kept = 0
    for nbest in found:
        selection = chain.start([nbest.text])
        taken = 0
        for hypothesis in nbest.hypotheses:
            reason = selection.offer(nbest.text, hypothesis.text)
            reasons[reason or "kept"] += 1
            taken += reason is None
        kept += min(K, taken)
    total = sum(reasons.values())
    return {
        "decoding": paraphraser.describe_decoding(None, CANDIDATES),
        "k": K,
        "candidates": CANDIDATES,
        "segments": len(found),
        "candidates_a_segment": round(total / len(found), 2),
        "usable_a_segment": round(kept / len(found), 2),
        "shares": {reason: round(reasons[reason] / max(total, 1), 4) for reason in ("kept", *chain.reasons)},
        "cpu_seconds_a_segment": round(seconds / len(found), 4),
    }


def export(recipe: Recipe, options: argparse.Namespace) -> None:
    """Write weights, vocabulary, configuration, figures and card."""
    run: Path = options.run
    state: Path = options.state or run
    out: Path = options.out
    search = _search(options.judged)
    if not recipe.network.pointer:
        sys.exit(f"{run} was trained without a pointer, for comparison: only a network with one is exported")
    saved = torch.load(state / "checkpoint.pt", map_location="cpu", weights_only=True)
    settings = saved["settings"]
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    network = averaged(saved, spm.get_piece_size(), max_source=160, max_target=250)
    network.closeness, network.shortlist = options.closeness, options.shortlist
    held = list(validation_rows(run, spm))
    nats, each = validate(network, held)
    save_pointer(
        network,
        run / "spm.model",
        out,
        name=options.name,
        language="en",
        strength=options.strength,
        min_score=options.min_score,
        search=search,
    )
    loaded = load_pointer(out)
    nats_int8, each_int8 = validate(loaded.network, held)
    facts = json.loads((run / "facts.json").read_text("utf-8"))
    for taught in sorted((run / "sources").glob("*/taught.json")):
        facts["sources"][taught.parent.name] = json.loads(taught.read_text("utf-8"))
    leaks = json.loads((run / "leaks.json").read_text("utf-8"))
    paraphraser = load_paraphraser(out)
    assert isinstance(paraphraser, SearchParaphraser)
    references = json.loads((run / "references.json").read_text("utf-8"))
    words = facts["held_out_words"]
    figures = {
        "name": options.name,
        "digest": loaded.digest,
        "parameters": sum(p.numel() for p in network.parameters()),
        "bytes": sum((out / file).stat().st_size for file in ("model.safetensors", "spm.model", "config.json")),
        "sha256": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
        "network": network.config.to_dict(),
        "training": {**settings, **saved["progress"]},
        "data": facts,
        "evaluation_sentences": leaks["evaluation"],
        "validation": {
            "nats_a_token": round(each, 4),
            "nats_a_word": round(nats / words, 4),
            "nats_a_token_int8": round(each_int8, 4),
            "nats_a_word_int8": round(nats_int8 / words, 4),
        },
        "generation": quality(paraphraser, references, filter_chain("default")),
        "versions": {"polyref": VERSION, "torch": torch.__version__, "sentencepiece": sentencepiece.__version__},
    }
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    drawn = random.Random(recipe.seed).sample(options.sentences.read_text("utf-8").splitlines(), EXAMPLES)
    examples = [(nbest.text, _usable(nbest)) for nbest in paraphraser.paraphrase(drawn, K)]
    gains = options.gains.read_text("utf-8").strip() if options.gains else None
    curve = [json.loads(line) for line in (state / "log.jsonl").read_text("utf-8").splitlines()]
    (out / "MODEL_CARD.md").write_text(card(figures, curve, examples, gains), "utf-8")
    print(json.dumps(figures, indent=1))


def _search(judged: Sequence[float] | None) -> JudgedSearch | None:
    """``CLOSENESS BEAM EQUIVALENCE`` of a model that judges its candidates."""
    if judged is None:
        return None
    numbers: list[Any] = [int(one) if one.is_integer() else one for one in judged[:2]]
    try:
        return JudgedSearch(*numbers, judged[2])
    except UsageError as error:
        sys.exit(f"--judged: {error}")


def _usable(nbest: NBest) -> list[str]:
    """What the default filter keeps of a list."""
    selection = filter_chain("default").start([nbest.text])
    return [one.text for one in nbest.hypotheses if selection.offer(nbest.text, one.text) is None]
