"""How exact searches are: polyref's n-best lists beside those of fairseq 0.12.2 and Transformers 4.31 - 4.56, run now.

    python scripts/bench/exactness/search_lists.py FOLDER TEXTS --lang en --fairseq PYTHON --transformers4 PYTHON

FOLDER is a fairseq checkpoint (M2M100's architecture for Transformers), TEXTS has one sentence a line. Settings are
unusual on purpose: penalties, lengths, prefixes, beams of 1 to 200. A list is equal when its ranked tokens are, except
where two scores differ by less than 1e-5, and its scores are within 1e-5 a list entry (a token, where they are sums).
Writes a Markdown table, says what differs in lists that are not equal, and with ``--csv`` writes a raw table,
docs/benchmarks/search-lists.csv.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from raw_tables import update

COLUMNS = ("against", "searched", "settings", "lists", "equal", "largest_difference")
TOLERANCE = 1e-5
#: How polyref searches the texts.
SEARCHED = (("alone", ()), ("in one batch", ("--batched",)))
LENGTHS = {"max_len_a": 1.3, "max_len_b": 10}
FAIRSEQ = [
    {"beam": 1},
    {"beam": 200},
    {"beam": 7, "lenpen": 0.0},
    {"beam": 12, "lenpen": 2.5},
    {"beam": 6, "lenpen": -1.0},
    {"beam": 8, "unkpen": -4.0},
    {"beam": 10, "temperature": 0.3},
    {"beam": 10, "temperature": 2.5},
    {"beam": 9, "min_len": 15},
    {"beam": 12, "groups": 12, "strength": 0.5},
    {"beam": 16, "groups": 2, "strength": 5.0},
    {"beam": 20, "groups": 4, "strength": 0.05},
    {"beam": 15, "groups": 5, "strength": 0.7, "max_len_a": 0.5, "max_len_b": 3},
    {"beam": 40, "groups": 8, "strength": 0.9, "lenpen": 0.3, "unkpen": 1.0},
    {"beam": 24, "groups": 6, "strength": 1.5, "temperature": 0.7, "min_len": 8},
    {"beam": 30, "groups": 3, "strength": 0.4, "normalize": False},
    {"beam": 18, "groups": 9, "strength": 0.0},
    {"beam": 100, "groups": 20, "strength": 2.0},
]
HF = [
    {"beam": 12, "groups": 12, "strength": 0.5},
    {"beam": 16, "groups": 2, "strength": 5.0},
    {"beam": 20, "groups": 4, "strength": 0.05},
    {"beam": 15, "groups": 5, "strength": 0.7, "lenpen": 0.0},
    {"beam": 24, "groups": 6, "strength": 1.5, "lenpen": 2.0, "min_len": 8},
    {"beam": 30, "groups": 3, "strength": 0.4, "no_repeat_ngram": 3},
    {"beam": 18, "groups": 9, "strength": 1.0, "early_stopping": True},
    {"beam": 18, "groups": 9, "strength": 1.0, "early_stopping": "never"},
    {"beam": 100, "groups": 10, "strength": 1.0},
    {"beam": 6, "groups": 3, "strength": 0.6, "max_len_a": 0.0, "max_len_b": 5},
]


def run_polyref(args, settings, semantics):
    """The lists of polyref's own search, alone and in one batch."""
    from polyref.models.checkpoints.seq2seq import load_fairseq
    from polyref.paraphrase.search import SearchOptions, search

    model = load_fairseq(args.folder)
    sources = [model.codec.encode(text) for text in args.texts]
    prefixes = [model.codec.prefix(args.lang)] * len(sources)
    results = []
    for setting in settings:
        options = SearchOptions(semantics=semantics, **{**LENGTHS, **setting})
        if args.batched:
            found = search(model.network, sources, options, prefixes)
        else:
            found = [search(model.network, [s], options, [p])[0] for s, p in zip(sources, prefixes)]
        results.append([[(list(c.tokens), c.score) for c in one] for one in found])
    return results


def run_fairseq(args, settings):
    """The lists of fairseq itself, through the backend of that name."""
    from polyref.paraphrase import SearchOptions, load_paraphraser

    paraphraser = load_paraphraser(args.folder, lang=args.lang, backend="fairseq")
    results = []
    for setting in settings:
        options = SearchOptions(semantics="fairseq", **{**LENGTHS, **setting})
        found = paraphraser.paraphrase(args.texts, options.beam, decoding=options)
        results.append([[(list(h.tokens), h.score) for h in one.hypotheses] for one in found])
    return results


def run_transformers(args, settings):
    """The lists of Transformers' group beam search, one sentence at a time, on the converted checkpoint."""
    import torch
    import transformers
    from safetensors.torch import load_file

    transformers.utils.logging.set_verbosity_error()
    stored = json.loads((args.folder / "config.json").read_text("utf-8"))
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**stored)).eval()
    model.load_state_dict(load_file(args.folder / "model.safetensors"), strict=False)
    model.tie_weights()
    sources = json.loads(args.sources.read_text("utf-8"))
    results = []
    for setting in settings:
        setting = {**LENGTHS, **setting}
        lists = []
        for source in sources["ids"]:
            most = int(setting["max_len_a"] * len(source) + setting["max_len_b"])
            with torch.inference_mode():
                out = model.generate(
                    torch.tensor([source]),
                    num_beams=setting["beam"],
                    num_beam_groups=setting["groups"],
                    diversity_penalty=setting["strength"],
                    num_return_sequences=setting["beam"],
                    max_length=most + 2,
                    min_length=setting.get("min_len", 1) + 1,
                    length_penalty=setting.get("lenpen", 1.0),
                    no_repeat_ngram_size=setting.get("no_repeat_ngram", 0),
                    early_stopping=setting.get("early_stopping", False),
                    forced_bos_token_id=sources["tag"],
                    return_dict_in_generate=True,
                    output_scores=True,
                )
            rows = [row[1:] for row in out.sequences.tolist()]
            for row in rows:
                while row and row[-1] == 1:
                    row.pop()
            lists.append(list(zip(rows, out.sequences_scores.tolist())))
        results.append(lists)
    return results


def equal(ours, theirs, setting):
    """Whether two lists are, and the greatest difference of scores at equal tokens."""
    if len(ours) != len(theirs):
        return False, 0.0
    worst, good = 0.0, True
    for (tokens, score), (other, theirs_score) in zip(ours, theirs):
        unit = len(tokens) if setting.get("normalize") is False or setting.get("lenpen", 1.0) <= 0 else 1
        if setting.get("lenpen", 1.0) < 0:
            unit *= len(tokens) ** -setting["lenpen"]
        worst = max(worst, abs(score - theirs_score) / unit)
        if tokens != other:
            near = [t for t, s in theirs if abs(s - theirs_score) < TOLERANCE * unit]
            good = good and tokens in near
    return good and worst < TOLERANCE, worst


def describe_difference(ours, theirs):
    """What differs in a list that is not equal."""
    mine, real = {tuple(t): s for t, s in ours}, {tuple(t): s for t, s in theirs}
    new, lost = set(mine) - set(real), set(real) - set(mine)
    if not new and not lost:
        return "the same hypotheses in another order"
    gap = min((abs(mine[a] - real[b]) for a in new for b in lost), default=float("nan"))
    return f"{len(lost)} of {len(theirs)} hypotheses, their scores {gap:.1e} apart"


def work(args):
    semantics = {"polyref-fairseq": (FAIRSEQ, "fairseq"), "polyref-hf": (HF, "hf")}
    if args.worker in semantics:
        settings, name = semantics[args.worker]
        result = run_polyref(args, settings, name)
    else:
        result = run_fairseq(args, FAIRSEQ) if args.worker == "fairseq" else run_transformers(args, HF)
    program = "fairseq" if args.worker == "fairseq" else "transformers"
    told = f"{program} {version(program)}" if args.worker in ("fairseq", "transformers4") else None
    args.out.write_text(json.dumps([told, result]), "utf-8")


def launch(python, folder, worker, args, scratch, *more):
    out = scratch / f"{worker}{len(list(scratch.iterdir()))}.json"
    command = [python, str(Path(__file__).resolve()), str(folder), str(args.text_file), "--lang", args.lang]
    done = subprocess.run([*command, "--worker", worker, "--out", str(out), *more], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{worker} failed:\n{done.stderr}")
    return json.loads(out.read_text("utf-8"))


def compare(program, searched, settings, ours, theirs):
    """The row of the tables, and what differs."""
    total = right = 0
    worst, notes = 0.0, []
    for setting, mine, real in zip(settings, ours, theirs, strict=True):
        for number, (a, b) in enumerate(zip(mine, real, strict=True), 1):
            good, difference = equal(a, b, setting)
            total, right = total + 1, right + good
            if good:
                worst = max(worst, difference)
            else:
                notes.append(f"sentence {number} of {setting}: {describe_difference(a, b)}")
    cells = (program, searched, len(settings), total, right, f"{worst:.1e}")
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return dict(zip(COLUMNS, cells, strict=True)), notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("text_file", type=Path, metavar="texts")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--fairseq", metavar="PYTHON", help="interpreter that has fairseq 0.12.2")
    parser.add_argument("--transformers4", metavar="PYTHON", help="interpreter that has transformers 4.31 - 4.56")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sources", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batched", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.texts = args.text_file.read_text("utf-8").splitlines()
    if args.worker:
        work(args)
        return
    found = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        if args.fairseq:
            program, theirs = launch(args.fairseq, args.folder, "fairseq", args, scratch)
            for searched, more in SEARCHED:
                _, ours = launch(sys.executable, args.folder, "polyref-fairseq", args, scratch, *more)
                found.append(compare(program, searched, FAIRSEQ, ours, theirs))
        if args.transformers4:
            sys.path.append(str(Path(__file__).parents[2]))
            from convert_model import convert_to_huggingface

            from polyref.models.checkpoints.seq2seq import load_fairseq

            convert_to_huggingface(args.folder, scratch / "hf")
            codec = load_fairseq(args.folder).codec
            sources = {"ids": [codec.encode(text) for text in args.texts], "tag": codec.prefix(args.lang)[0]}
            (scratch / "sources.json").write_text(json.dumps(sources), "utf-8")
            more = ("--sources", str(scratch / "sources.json"))
            program, theirs = launch(args.transformers4, scratch / "hf", "transformers4", args, scratch, *more)
            for searched, more in SEARCHED:
                _, ours = launch(sys.executable, args.folder, "polyref-hf", args, scratch, *more)
                found.append(compare(program, searched, HF, ours, theirs))
    for note in [note for _, notes in found for note in notes]:
        print(f"\n{note}")
    if args.csv:
        update(args.csv, COLUMNS, COLUMNS[:2], [row for row, _ in found])


if __name__ == "__main__":
    main()
