"""Write tiny random COMET checkpoints and unbabel-comet's own scores of them: tests/data/learned/comet.

    scripts/learned/make_comet.py tests/data/learned/comet            # makes the environment, and runs itself in it
    scripts/learned/make_comet.py OUT --release 1.0 --python python3.8  # what COMET 1.0 gives for the same checkpoints
    scripts/learned/make_comet.py OUT --seed 7 --scale 2              # other weights, other sizes

Nothing is downloaded but the packages. All texts come from the templates below.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

#: What each original needs: of 2.2, the wheel itself comes without its pins, which no current pip can meet.
PACKAGES = {
    "2.2": (
        "torch==2.13.0 numpy<2 transformers==4.40.2 sentencepiece==0.2.3 entmax==1.3 pytorch-lightning==2.6.6 "
        "jsonargparse==3.13.1 sacrebleu==2.6.0 scipy<1.16 pandas<3 protobuf==4.25.9 setuptools<80",
        "torchmetrics==0.10.3 unbabel-comet==2.2.7",
    ),
    "1.0": (
        "torch==1.10.0 numpy==1.21.6 transformers==4.10.3 sentencepiece==0.1.96 pytorch-lightning==1.3.5 pandas==1.1.5 "
        "torchmetrics==0.6.0 jsonargparse==3.13.1 sacrebleu==2.0.0 scipy==1.7.3 PyYAML==5.4.1 protobuf==3.19.6",
        "unbabel-comet==1.0.1",
    ),
}
LAYERS = {"words": 110, "width": 16, "layers": 2, "heads": 2, "inner": 24, "positions": 66}
#: Encoders: COMET's name of it, and its sizes. ``published``: tokenizer.json as the hub has it.
ENCODERS: dict[str, dict[str, Any]] = {
    "xlmr": {"kind": "XLM-RoBERTa", "published": True},
    "xlmr-converted": {"kind": "XLM-RoBERTa", "layers": 3, "width": 12, "words": 100},
    "xlmr-xl": {"kind": "XLM-RoBERTa-XL", "published": True},
    "bert": {"kind": "BERT", "words": 150},
    "minilm": {"kind": "MiniLM", "published": True},
}
MIX: dict[str, Any] = {"layer_transformation": "softmax", "layer_norm": False}
SPARSE: dict[str, Any] = {"layer_transformation": "sparsemax", "layer_norm": True}
#: Checkpoints: class, encoder, options; ``drop`` leaves out keys as old files do, ``yaml`` says another thing there.
CHECKPOINTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "reg-softmax-avg": ("RegressionMetric", "xlmr", {**MIX, "hidden_sizes": [20, 10]}),
    "reg-sparsemax-norm-max": ("RegressionMetric", "xlmr-converted", {**SPARSE, "pool": "max", "hidden_sizes": [12]}),
    "reg-cls-sigmoid": (
        "RegressionMetric",
        "xlmr",
        {"pool": "cls", "layer_norm": True, "hidden_sizes": [9, 7, 5], "final_activation": "Sigmoid", "dropout": 0.0},
    ),
    "reg-layer-default": ("RegressionMetric", "xlmr-converted", {"layer": 1, "pool": "default", "hidden_sizes": [8]}),
    "reg-embeddings-softplus": (
        "RegressionMetric",
        "xlmr",
        {"layer": 0, "activations": "softplus", "hidden_sizes": [8]},
    ),
    "reg-bert": ("RegressionMetric", "bert", {**MIX, "hidden_sizes": [12]}),
    "reg-minilm": ("RegressionMetric", "minilm", {**SPARSE, "hidden_sizes": [12]}),
    "reg-old": ("RegressionMetric", "xlmr", {"hidden_sizes": [14, 6], "drop": True}),
    "qe-old": ("ReferencelessRegression", "xlmr", {"hidden_sizes": [14, 6], "drop": True}),
    "qe-sparsemax": ("ReferencelessRegression", "xlmr-converted", {**SPARSE, "pool": "max", "hidden_sizes": [10]}),
    "unified": (
        "UnifiedMetric",
        "xlmr",
        {**SPARSE, "word_layer": 1, "hidden_sizes": [12, 6], "word_level_training": True},
    ),
    "unified-bert": ("UnifiedMetric", "bert", {**MIX, "word_layer": 1, "hidden_sizes": [12]}),
    "unified-ref": (
        "UnifiedMetric",
        "xlmr-converted",
        {"sent_layer": 2, "word_layer": 1, "input_segments": ["mt", "ref"], "hidden_sizes": [10]},
    ),
    "kiwi-patched": (
        "UnifiedMetric",
        "xlmr",
        {**SPARSE, "word_layer": 1, "input_segments": ["mt", "src"], "hidden_sizes": [12], "yaml": "sparsemax_patch"},
    ),
    "xcomet": ("XCOMETMetric", "xlmr", {**SPARSE, "word_layer": 2, "hidden_sizes": [12, 6]}),
    "xcomet-xl": ("XCOMETMetric", "xlmr-xl", {**MIX, "word_layer": 1, "hidden_sizes": [12], "yaml": "sparsemax_patch"}),
}
CLASSES = {
    "RegressionMetric": "regression_metric",
    "ReferencelessRegression": "referenceless_regression_metric",
    "UnifiedMetric": "unified_metric",
    "XCOMETMetric": "xcomet_metric",
}


def inputs(seed: int) -> list[dict[str, Any]]:
    """Rows of source, output and references."""
    rng = random.Random(seed)
    who = ["gardener", "sailor", "aunt", "painter", "clerk"]
    what = ["lamp", "boat", "ticket", "wall", "drum"]
    wer, was = ["Gärtner", "Seemann", "Maler"], ["Boot", "Dach", "Brot"]

    def en() -> str:
        form = rng.choice(["The {} sold the {} twice.", "A {} and a {} met at {}.", "Has the {} seen my {}?"])
        return form.format(rng.choice(who), rng.choice(what), rng.choice(["9:30", "dawn"]))

    def de() -> str:
        return rng.choice(["Der {} verkaufte das {}.", "Hat der {} mein {} gesehen?"]).format(
            rng.choice(wer), rng.choice(was)
        )

    def noisy(text: str) -> str:
        words = text.split()
        at = rng.randrange(len(words))
        return " ".join([*words[:at], *rng.choice([[], [words[at][::-1]], [words[at]] * 2]), *words[at + 1 :]])

    rows = []
    for number in range(12):
        references = [en() for _ in range(1 + number % 4)]
        rows.append((de(), noisy(references[0]), *references))
    rows += [
        (" ".join(de() for _ in range(n)), noisy(long := " ".join(en() for _ in range(n))), long) for n in (3, 20, 40)
    ]
    rows += [(de(), " ".join(en() for _ in range(30)), en(), " ".join(en() for _ in range(25)))]
    word = rng.choice(who)
    rows += [
        ("", en(), en()),
        (de(), "", en(), ""),
        ("", "", ""),
        (" ", "  ", "\t"),
        (word, word, word, word.upper()),
        ((word + " ") * 30, (word + " ") * 20, word, (word + " ") * 25),
        ("日本のランプ。 " + de(), "Лампа моряка, " + en(), "مصباح " + en(), "灯 " + de()),
        ("  two  spaces   here ", "tab\tand\nline", "no-break\u00a0space \u3000", "end "),
        ("a </s> inside", "<s> first <pad> and <pad>", "<mask> the <unk>", "[CLS] [SEP] [PAD] [MASK]"),
        ("café ﬁne Ｆｕｌｌ", "café fine Full", "café\u200bzero\u00adsoft", "😀🎉 ⵣ ዓ 1,250.5"),
        ("A" * 90, "!" * 70, "ha" * 50),
    ]
    return [{"src": source, "mt": output, "refs": list(refs)} for source, output, *refs in rows]


def write_encoders(out: Path, texts: list[str], scale: int) -> dict[str, dict[str, int]]:
    """Configurations and tokenisers."""
    import sentencepiece
    import transformers
    from tokenizers import BertWordPieceTokenizer

    (learned := out / "words.txt").write_text("\n".join(texts), "utf-8")
    sizes = {}
    for name, given in ENCODERS.items():
        size = sizes[name] = {**LAYERS, **{key: value for key, value in given.items() if isinstance(value, int)}}
        size["width"], size["inner"] = size["width"] * scale, size["inner"] * scale
        folder = out / "encoders" / name
        folder.mkdir(parents=True)
        if given["kind"] == "BERT":
            words = BertWordPieceTokenizer(lowercase=True)
            words.train([str(learned)], vocab_size=size["words"], min_frequency=1, show_progress=False)
            words.save_model(str(folder))
            made = transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=True)
        else:
            sentencepiece.SentencePieceTrainer.train(
                input=str(learned),
                model_prefix=str(out / "spm"),
                vocab_size=size["words"],
                minloglevel=2,
                num_threads=1,
            )
            made = transformers.XLMRobertaTokenizerFast(vocab_file=str(out / "spm.model"))
        made.save_pretrained(folder)
        kind = {"XLM-RoBERTa": "XLMRoberta", "XLM-RoBERTa-XL": "XLMRobertaXL"}.get(given["kind"], "Bert")
        getattr(transformers, f"{kind}Config")(
            vocab_size=len(made),
            hidden_size=size["width"],
            num_hidden_layers=size["layers"],
            num_attention_heads=size["heads"],
            intermediate_size=size["inner"],
            max_position_embeddings=size["positions"],
            type_vocab_size=2 if kind == "Bert" else 1,
            **({} if kind == "Bert" else {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}),
        ).save_pretrained(folder)
        path = folder / "tokenizer.json"
        read = json.loads(path.read_text("utf-8"))
        if given.get("published"):
            read["normalizer"] = read["normalizer"]["normalizers"][0]
            space = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
            read["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
        path.write_text(json.dumps(read, ensure_ascii=False), "utf-8")
        for file in folder.iterdir():
            if file.name not in ("config.json", "tokenizer.json"):
                file.unlink()
    return sizes


def fill(model: Any, seed: int) -> None:
    """Random weights, large enough for scores to differ."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("gamma") or ("norm" in name.lower() and name.endswith("weight")):
            noise = 1 + 0.25 * noise
        elif weight.dim() == 2 and "embeddings" not in name:
            noise = 1.3 * noise / math.sqrt(weight.shape[1])
        else:
            noise = (0.8 if "scalar" in name else 0.6 if "embeddings" in name else 0.1) * noise
        weight.data.copy_(noise)
    if hasattr(model, "hidden2tag"):  # errors are rarer than correct tokens
        model.hidden2tag.bias.data[0] += 1.0


def our_minilm(out: Path) -> None:
    """COMET's MiniLM asks for a tokeniser of the hub: give it the one beside the encoder."""
    import comet.encoders.minilm as minilm

    class Beside(minilm.XLMRobertaTokenizerFast):  # type: ignore[misc]
        @classmethod
        def from_pretrained(cls, name: str, **options: Any) -> Any:
            options.pop("use_fast", None)
            folder = str(out / "encoders" / "minilm") if name == "xlm-roberta-base" else name
            return minilm.XLMRobertaTokenizerFast.__mro__[1].from_pretrained(folder, **options)

    minilm.XLMRobertaTokenizerFast = Beside


def write_checkpoint(out: Path, name: str, seed: int) -> None:
    """One checkpoint in the published layout."""
    import comet.models
    import pytorch_lightning
    import torch
    import yaml

    kind, encoder, given = CHECKPOINTS[name]
    options = {key: value for key, value in given.items() if key not in ("drop", "yaml")}
    encoder_model = ENCODERS[encoder]["kind"]
    usual: dict[str, Any] = {
        "pretrained_model": f"encoders/{encoder}",
        "load_pretrained_weights": False,
        "local_files_only": True,
    }
    model = getattr(comet.models, kind)(
        encoder_model=encoder_model, train_data=[], validation_data=[], **usual, **options
    )
    fill(model, seed)
    folder = out / "checkpoints" / name
    (folder / "checkpoints").mkdir(parents=True)
    path = folder / "checkpoints" / "model.ckpt"
    settings = {key: value for key, value in model.hparams.items() if key not in ("local_files_only",)}
    settings["class_identifier"] = CLASSES[kind]
    if given.get("drop"):
        settings = {key: value for key, value in settings.items() if key not in ("layer_norm", "layer_transformation")}
    weights = dict(model.state_dict())
    if given.get("drop"):  # what old releases stored as well
        weights["encoder.model.embeddings.position_ids"] = torch.arange(LAYERS["positions"])[None]
        weights["encoder.model.pooler.dense.bias"] = torch.zeros(3)
    stored = {"epoch": 0, "pytorch-lightning_version": pytorch_lightning.__version__, "hparams_name": "kwargs"}
    torch.save({**stored, "state_dict": weights, "hyper_parameters": settings}, path)
    said = {**settings, **({"layer_transformation": given["yaml"]} if "yaml" in given else {})}
    (folder / "hparams.yaml").write_text(yaml.safe_dump(said), "utf-8")


def modes_of(name: str) -> list[str]:
    """What a checkpoint reads beside the output."""
    kind, _, given = CHECKPOINTS[name]
    if kind in ("RegressionMetric", "ReferencelessRegression"):
        return ["src+ref"] if kind == "RegressionMetric" else ["src"]
    return {("mt", "src"): ["src"], ("mt", "ref"): ["ref"]}.get(
        tuple(given.get("input_segments", ())), ["src+ref", "src", "ref"]
    )


def samples(rows: list[dict[str, Any]], mode: str) -> list[dict[str, str]]:
    """What COMET is given, a row for every reference."""
    return [
        {"mt": row["mt"], **({"src": row["src"]} if "src" in mode else {}), **({"ref": ref} if ref is not None else {})}
        for row in rows
        for ref in (row["refs"] if "ref" in mode else [None])
    ]


def write(out: Path, seed: int, scale: int) -> None:
    """All of it, with COMET 2.2."""
    import logging
    import os
    import warnings

    import comet
    import torch
    import transformers

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    out.mkdir(parents=True)
    os.chdir(out)
    rows = inputs(seed)
    Path("inputs.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    texts = [row["src"] for row in inputs(seed + 1)] + [
        ref for n in range(40) for row in inputs(seed + n) for ref in row["refs"]
    ]
    write_encoders(out, [text.replace("\n", " ") for text in texts if text.strip()], scale)
    our_minilm(out)
    for number, name in enumerate(CHECKPOINTS):
        write_checkpoint(out, name, seed + 31 * number)
    versions = {
        "unbabel-comet": comet.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    found: dict[str, Any] = {
        "script": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "versions": versions,
        "seed": seed,
        "scores": {},
    }
    for name in CHECKPOINTS:
        model = comet.load_from_checkpoint(f"checkpoints/{name}/checkpoints/model.ckpt", local_files_only=True).eval()
        found["scores"][name] = {}
        for mode in modes_of(name):
            given = samples(rows, mode)
            scored = model.predict(given, batch_size=1, gpus=0, progress_bar=False, num_workers=0)["scores"]
            found["scores"][name][mode] = [round(float(score), 7) for score in scored]
        print(name, {mode: (min(s), max(s)) for mode, s in found["scores"][name].items()}, flush=True)
    Path("scores.json").write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")
    for path in Path("encoders").glob("*/tokenizer.json"):
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()
    for path in [Path("words.txt"), *Path().glob("spm.*")]:
        path.unlink()


def write_old(out: Path) -> None:
    """The scores of COMET 1.0 for the regression checkpoints in ``out``, one text a batch, into ``scores-1.0.json``."""
    import os

    import transformers
    import yaml
    from comet.models import str2model

    os.chdir(out)
    # The encoder is made of its configuration: the weights are the checkpoint's.
    transformers.XLMRobertaModel.from_pretrained = classmethod(
        lambda kind, name, **_: kind(transformers.XLMRobertaConfig.from_pretrained(name))
    )
    rows = [json.loads(line) for line in Path("inputs.jsonl").read_text("utf-8").splitlines()]
    found = {}
    for name in ("reg-old", "qe-old"):
        folder = Path("checkpoints") / name
        settings = yaml.safe_load((folder / "hparams.yaml").read_text("utf-8"))
        kind = str2model[settings["class_identifier"]]
        model = kind.load_from_checkpoint(str(folder / "checkpoints" / "model.ckpt"), strict=False, **settings).eval()
        given = samples(rows, modes_of(name)[0])
        found[name] = [model(**model.prepare_sample([one], inference=True))["score"].item() for one in given]
    Path("scores-1.0.json").write_text(json.dumps(found) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--release", choices=tuple(PACKAGES), default="2.2")
    parser.add_argument("--environment", type=Path, help="where the packages are, or are installed (default: OUT.venv)")
    parser.add_argument("--python", default=sys.executable, help="that of the environment: 3.10 or 3.11; 1.0 needs 3.8")
    parser.add_argument("--seed", type=int, default=411)
    parser.add_argument("--scale", type=int, default=1, help="widths are so many times as large")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    out = args.out.resolve()
    if args.inside:
        write(out, args.seed, args.scale) if args.release == "2.2" else write_old(out)
        return
    environment = (args.environment or out.with_suffix(f".venv-{args.release}")).resolve()
    if not environment.is_dir():
        subprocess.run([args.python, "-m", "venv", environment], check=True)
        pinned, alone = PACKAGES[args.release]
        subprocess.run([environment / "bin" / "pip", "install", *pinned.split()], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "--no-deps", *alone.split()], check=True)
    subprocess.run([environment / "bin" / "python", Path(__file__).resolve(), *sys.argv[1:], "--inside"], check=True)


if __name__ == "__main__":
    main()
