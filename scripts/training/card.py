"""The model card: every number in it comes from the run's facts, its log and the measurements of ``export``."""

from __future__ import annotations

from typing import Any

INTRODUCTION = """
An encoder-decoder with a pointer head that rewrites one English sentence. It is made for one job: adding references
to test sets for machine translation, offline and on a CPU. It is small; check what it adds (`polyref augment` filters
by default) before you draw conclusions from it.
""".strip()

LIMITS = """
English only. It knows no context beyond the sentence. It prefers small edits (synonyms, word order, tense) to
restructuring, can make a name or a rare word wrong, and can drop or add a detail that no rule notices.
""".strip()


def card(
    figures: dict[str, Any], curve: list[dict[str, Any]], examples: list[tuple[str, list[str]]], gains: str | None
) -> str:
    """The whole card, in Markdown."""
    sections = [
        f"# {figures['name']}: the English paraphraser that comes with polyref\n\n{INTRODUCTION}",
        _summary(figures),
        _training_text(figures),
        _leaks(figures),
        _stages(figures),
        _losses(figures, curve),
        _generation(figures["generation"]),
        f"## What its references are worth\n\n{gains or 'Not measured yet: scripts/bench/quality/evidence.py does.'}",
        "## Sentences drawn at random\n\nAll that it offers and the default filter keeps, good and bad.\n\n"
        + _listed(examples),
        f"## Known limits\n\n{LIMITS}",
    ]
    return "\n\n".join(sections) + "\n"


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _summary(f: dict[str, Any]) -> str:
    net, train = f["network"], f["training"]
    size = f"{net['encoder_layers']}+{net['decoder_layers']} layers, d = {net['d_model']}, {net['vocab_size']:,} pieces"
    versions = ", ".join(f"{name} {version}" for name, version in f["versions"].items())
    return _table(["", ""], [
        ["parameters", f"{f['parameters']:,} ({size})"],
        ["size", f"{f['bytes'] / 1e6:.1f} MB (matrices in int8, one scale a row; computed in int8 on the CPU)"],
        ["SHA-256 of the weights", f"`{f['sha256']}`"],
        ["SHA-256 of the vocabulary", f"`{f['data']['vocabulary']}`"],
        ["longest input", f"{net['max_source']} pieces; longer sentences are cut for generation, and counted"],
        ["training", f"from random weights, {train['step']:,} steps, {train['tokens']:,} target tokens, "
         f"{_time(train['seconds'])} on {' and '.join(train.get('devices', ['a CPU']))}"],
        ["versions", versions],
    ])  # fmt: skip


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def _training_text(f: dict[str, Any]) -> str:
    data, recipe, used = f["data"], f["training"]["recipe"], f["training"]["tokens_of"]
    rows, origins, hashes = [], [], []
    for name, source in recipe["sources"].items():
        if name not in used:
            continue
        facts = data["sources"][name]
        clusters = f"{facts['clusters']:,}" if "clusters" in facts else ""
        text = f"{facts['pairs']:,} pairs" if "pairs" in facts else f"{facts['sentences']:,} sentences"
        rows.append([name, clusters, text, f"{used[name] / 1e6:.1f} M"])
        origins.append(f"- {name}: {source['origin']}. Licence: {source['licence']}.")
        if source["file"]:
            hashes.append([f"`{source['file']}`", f"`{data['files'][source['file']]}`"])
    hashes = [list(row) for row in dict.fromkeys(map(tuple, hashes))]
    return "\n\n".join([
        "## Data and provenance",
        "Clusters hold what machine translation systems, and sometimes people, wrote for the same source sentence; "
        "pairs are made from them.\nSingle sentences are for denoising. None of the text is part of this package. "
        "Text of WMT and the outputs of commercial systems\nare for research: use the model for research, and cite "
        "the WMT findings.",
        _table(["source", "clusters", "text", "target tokens seen"], rows),
        "\n".join(origins),
        _table(["file", "SHA-256"], hashes),
        f"Made by `scripts/train_paraphraser.py` (`prepare`, `teach`, `train`, `export`) with "
        f"`scripts/training/recipe.toml`, seed {data['seed']}.",
    ])  # fmt: skip


def _leaks(f: dict[str, Any]) -> str:
    leaks, found = f["training"]["recipe"]["leaks"], dict(f["data"]["leaks"])
    found.pop("action")
    kinds = ("clean", "sentence", "5-grams", "held-out")
    rows = [[file, *(f"{count.get(kind, 0):,}" for kind in kinds)] for file, count in found.items()]
    sets = ", ".join(f"{name} ({count:,})" for name, count in f["evaluation_sentences"].items())
    return "\n\n".join([
        "## Evaluation text",
        f"`prepare` compares all training text with the English of the evaluation sets (sources, references, system "
        f"outputs,\nparaphrases; distinct sentences in brackets): {sets}.",
        f"A cluster or sentence leaks when one of its texts equals an evaluation sentence of five words or more "
        f"(case and punctuation\naside), or when more than {leaks['cluster_share']:.0%} (single sentences: "
        f"{leaks['sentence_share']:.0%}) of its word 5-grams occur there. What equals a held-out\nsentence of the "
        f"validation is treated alike. "
        + ("What was found was left out of the training." if leaks["action"] == "drop" else "None may be found."),
        _table(["file", "kept", "sentence", "5-grams", "held-out"], rows),
    ])  # fmt: skip


def _stages(f: dict[str, Any]) -> str:
    train = f["training"]
    recipe = train["recipe"]
    rows = []
    begun = 0
    for stage in recipe["stages"]:
        seen = min(max(train["tokens"] - begun, 0), stage["tokens"])
        if "cooldown" in train and train["cooldown"]["start"] < begun + stage["tokens"]:
            seen = min(max(train["cooldown"]["start"] - begun, 0), stage["tokens"])
        begun += stage["tokens"]
        if seen:
            mix = ", ".join(f"{name} {weight:g}" for name, weight in stage["mix"].items())
            rate = f"{recipe['training']['rate'] * stage['rate']:g}" + (", falling to 0" if stage["decay"] else "")
            if stage.get("truncate"):
                mix += f"; the {stage['truncate']:.0%} least likely pairs of a batch do not count"
            rows.append([stage["name"], f"{seen / 1e6:.1f} of {stage['tokens'] / 1e6:.1f} M", rate, mix])
    cool = ""
    if "cooldown" in train:
        stage = recipe["stages"][train["cooldown"]["stage"]]
        cool = (
            f"\n\nThe last {train['cooldown']['tokens']:,} tokens are a cooldown: text of the stage {stage['name']}, "
            "the learning rate falling to zero."
        )
    changes = "".join(
        f"\n- After step {c['step']:,} ({c['tokens']:,} tokens) the recipe changed: "
        f"{', '.join(c['changed'])}{_before(c)}."
        for c in train["changes"]
    )
    return (
        f"## Stages\n\nOptimiser: {', '.join(f'{name} {value}' for name, value in recipe['training'].items())}.\n\n"
        + _table(["stage", "target tokens", "learning rate", "text, by share of batches"], rows)
        + cool
        + (f"\n{changes}" if changes else "")
    )


def _before(change: dict[str, Any]) -> str:
    """What an optimiser that changed was before."""
    if "before" not in change:
        return ""
    return f" (until then {', '.join(f'{name} {value}' for name, value in change['before'].items())})"


def _losses(f: dict[str, Any], curve: list[dict[str, Any]]) -> str:
    data, valid = f["data"], f["validation"]
    every = max(1, len(curve) // 15)
    shown = [row for n, row in enumerate(curve) if n % every == 0 or n == len(curve) - 1]
    rows = [
        [r["step"], f"{r['tokens']:,}", r["stage"], *(f"{r[key]:.3f}" for key in ("train", "valid", "valid_per_word"))]
        for r in shown
    ]
    head = ["step", "target tokens", "stage", "training loss", "validation loss", "nats a word"]
    held = f["training"]["recipe"]["validation"]["clusters"]
    return "\n\n".join([
        "## Losses",
        f"Validation: {data['held_out_pairs']:,} pairs of {data['held_out_clusters']} held-out clusters (the last "
        f"{held} segments of each WMT set into English), averaged weights.\n"
        f"**{valid['nats_a_token']:.3f} nats a token, {valid['nats_a_word']:.3f} nats a word** (as stored in int8: "
        f"{valid['nats_a_token_int8']:.3f} and {valid['nats_a_word_int8']:.3f}). The training loss depends on the "
        "stage's text.",
        _table(head, rows),
    ])  # fmt: skip


def _generation(gen: dict[str, Any]) -> str:
    shares = [[reason, f"{share:.1%}"] for reason, share in gen["shares"].items()]
    return "\n\n".join([
        "## What it writes",
        f"Up to {gen['candidates']} candidates for each of {gen['segments']} held-out human references, "
        f"{gen['decoding']};\n{gen['candidates_a_segment']} distinct candidates and, after the default filter, "
        f"{gen['usable_a_segment']} of at most {gen['k']} usable paraphrases\na segment; "
        f"{gen['cpu_seconds_a_segment']:.3f} CPU seconds a segment on one thread.",
        _table(["candidates, by first reason of refusal", "share"], shares),
    ])  # fmt: skip


def _listed(examples: list[tuple[str, list[str]]]) -> str:
    return "\n".join(
        f"- {text}\n" + "\n".join(f"  → {one}  " for one in found or ["(none)"]) for text, found in examples
    )
