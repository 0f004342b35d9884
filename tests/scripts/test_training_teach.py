"""What a teacher makes: its samples, and the sources that are written. The teacher is the shipped network."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.networks.batched import BatchedDecoder
from polyref.models.networks.pointer import CLOSENESS, EOS, PAD, UNK, PointerDecoder
from polyref.models.opening import SHIPPED

Training = Callable[[str], ModuleType]
#: Sources, then a target that says the same, then one that does not.
TEXTS = [
    ("The government said on Tuesday that it would build 200 new houses near the river by the end of next year.",
     "On Tuesday, the government said that by the end of next year it would build 200 new houses near the river.",
     "A large dog has eaten my new shoes, and I do not know where I should buy another pair."),
    ("The police were able to arrest the man shortly after he had left the shop with the stolen money.",
     "The police managed to arrest the man soon after he left the shop with the stolen money.",
     "She wrote four books about birds, and the last one became very successful in many countries."),
    ("However, many people believe that the company should have informed its customers much earlier.",
     "Many people think, however, that the company should have informed its customers much earlier.",
     "The museum is closed on Mondays, but tickets for the other days can be bought at the station."),
    ("The two teams will meet again in March, when the season is almost over.",
     "The two teams meet again in March, when the season is nearly over.",
     "Heavy rain has damaged the bridge, so that trains need an hour more."),
]  # fmt: skip
TAUGHT = """
[network]
width = 64
encoder_layers = 1
decoder_layers = 1
[training]
batch = 100
[validation]
source = "pairs"
[sources.pairs]
file = "none"
kind = "clusters"
origin = ""
licence = ""
[sources.true]
kind = "taught"
origin = ""
licence = ""
teaching = { of = { pairs = 100 }, share = 0.5 }
[sources.taught]
kind = "taught"
origin = ""
licence = ""
teaching = { of = { pairs = 100 }, share = 1.0, samples = [1, 1, 1, 1, 2, 2, 2, 2], least = -60.0 }
[[stages]]
name = "taught"
tokens = 100
mix = { true = 0.5, taught = 0.5 }
"""


@pytest.fixture
def network(training: Training) -> Any:
    """A random network of 30 pieces, sure enough of itself to end."""
    torch.manual_seed(3)
    made = training("loop").new_network(training("recipe").Network(64, 1, 1), 30)
    with torch.no_grad():
        made.embedding.weight.mul_(4)
    return made.requires_grad_(False)


@pytest.mark.parametrize(
    ("temperature", "top_p", "decoder"),
    [(1e-6, 1.0, PointerDecoder), (9.0, 1e-9, PointerDecoder), (1e-6, 1.0, BatchedDecoder)],
)
def test_cold_samples_are_what_forced_scoring_finds_most_probable(
    training: Training, network: Any, temperature: float, top_p: float, decoder: type[PointerDecoder]
) -> None:
    """At every step, of all tokens that can be written; the copies count. A GPU has the decoder of its own."""
    network.decodes = decoder
    sources = [tuple(np.random.default_rng(seed).integers(9, 30, 4 + seed % 7).tolist()) for seed in range(200)]
    levels = [number % 4 for number in range(200)]
    drawn = training("teach").sample(network, sources, levels, temperature, top_p, torch.Generator().manual_seed(1))
    ended = [number for number, sample in enumerate(drawn) if sample is not None]
    assert len(ended) >= 5
    assert len({len(drawn[number]) for number in ended}) > 1
    words = [token for token in range(30) if token not in (*network.never_written, UNK)]
    vocabulary = training("optimiser").VocabularyLogProb.apply
    for number in ended:
        written = [CLOSENESS + levels[number], *drawn[number], EOS]
        for at in range(1, len(written)):
            given = torch.tensor([written[:at]] * len(words))
            wanted = torch.tensor([[*written[1:at], token] for token in words])
            source = torch.tensor([[*sources[number], EOS]] * len(words))
            scores = network(source, given, wanted, vocabulary).view(len(words), -1)[:, -1]
            assert scores[words.index(written[at])] == pytest.approx(float(scores.max()), abs=1e-5)


def test_warm_samples_differ_and_are_a_function_of_the_seed(training: Training, network: Any) -> None:
    def drawn(seed: int) -> list[tuple[int, ...] | None]:
        generator = torch.Generator().manual_seed(seed)
        found: list[tuple[int, ...] | None]
        found = training("teach").sample(network, [(9, 10, 11)] * 50, [1] * 50, 1.0, 0.95, generator)
        return found

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) > 10
    for one in drawn(1):
        assert one is None or not set(one) & {*network.never_written, UNK, EOS, PAD}


@pytest.fixture
def folders(training: Training, tmp_path: Path) -> tuple[Path, Path]:
    """A prepared run, and the folder of a teacher."""
    shipped = load_pointer(SHIPPED / "en")
    run, teacher = tmp_path / "run", tmp_path / "teacher"
    pairs = [(source, target) for source, *targets in TEXTS for target in targets]
    (run / "sources" / "pairs").mkdir(parents=True)
    teacher.mkdir()
    sides = ([shipped.spm.encode(pair[side]) for pair in pairs] for side in (0, 1))
    training("batches").save_pairs(run / "sources" / "pairs", *sides, [1] * len(pairs), [n // 2 for n in range(8)])
    for folder in (run, teacher):
        (folder / "spm.model").write_bytes((SHIPPED / "en" / "spm.model").read_bytes())
    (run / "recipe.toml").write_text(TAUGHT, "utf-8")
    (run / "valid.json").write_text('[["The dog barked.", "A dog barked.", 2]]', "utf-8")
    training("rules").Lexicon({}, frozenset()).save(run / "lexicon.json")
    sizes = shipped.network.config
    network = {"width": sizes.d_model, "encoder_layers": sizes.encoder_layers, "decoder_layers": sizes.decoder_layers}
    recipe = training("recipe").read_recipe(run / "recipe.toml").to_dict()
    weights = [weight.clone() for weight in shipped.network.parameters()]
    saved = {"settings": {"recipe": {**recipe, "network": {**network, "pointer": True}}},
             "optimiser": {"mean": weights}, "progress": {"tokens": 5}}  # fmt: skip
    torch.save(saved, teacher / "checkpoint.pt")
    return run, teacher


def taught(training: Training, run: Path, teacher: Path, processes: int = 1) -> dict[str, bytes]:
    """Make the sources; what is in their files."""
    recipe = training("recipe").read_recipe(run / "recipe.toml")
    options = Namespace(run=run, teacher=teacher, device="cpu", processes=processes, recipe="recipe")
    training("teach").teach(recipe, options)
    files = [path for name in ("true", "taught") for path in (run / "sources" / name).glob("*.n*")]
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_teacher_keeps_the_best_pairs_and_samples(training: Training, folders: tuple[Path, Path]) -> None:
    run, _ = folders
    first = taught(training, *folders)
    assert len(first) == 8
    assert taught(training, *folders, processes=2) == first
    spm = load_pointer(SHIPPED / "en").spm
    kept = training("batches").SourceBatches(run / "sources" / "true", 100, 1, 9)
    pairs = [(spm.decode(kept.source[row]), spm.decode(kept.target[row])) for row in range(4)]
    assert set(pairs) == {(source, same) for source, same, _ in TEXTS}, "the half that says the same"
    assert kept.closeness.tolist() == [1] * 4 and sorted(kept.cluster.tolist()) == [0, 1, 2, 3]
    kept = training("batches").SourceBatches(run / "sources" / "taught", 100, 1, 9)
    sources = [spm.decode(kept.source[row]) for row in range(len(kept.source))]
    assert set(sources) <= {source for source, *_ in TEXTS}
    assert len(set(zip(sources, kept.closeness.tolist(), strict=True))) == len(sources) > 0
    for row, source in enumerate(sources):
        assert training("pairs").likeness(source, spm.decode(kept.target[row])) == kept.closeness[row] < 3
    # What is written can be trained on.
    mixture = training("batches").Mixture(run, {"true": 4, "taught": 4}, 100, 1)
    drawn = [mixture.next(step, {"true": 0.5, "taught": 0.5}) for step in range(9)]
    assert {name for name, *_ in drawn} == {"true", "taught"}
    for _, tokens, make in drawn:
        assert tokens == sum(len(target) + 1 for target in make()[1])


def test_what_a_teacher_needs(training: Training, folders: tuple[Path, Path]) -> None:
    run, teacher = folders
    with (teacher / "spm.model").open("ab") as stream:
        stream.write(b"\0")
    for missing, message in (
        (None, "train the teacher in a copy of the prepared folder"),
        (teacher / "checkpoint.pt", "`train` makes it"),
        (teacher / "spm.model", "`prepare` makes it"),
        (run / "lexicon.json", "`prepare` makes it"),
    ):
        if missing:
            missing.unlink()
        with pytest.raises(SystemExit, match=message):
            taught(training, run, teacher)
    assert not (run / "sources" / "true").exists()
