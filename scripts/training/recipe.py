"""The recipe of a training run: a TOML file that names vocabulary, network, text, pair rules and stages.

See ``recipe.toml`` beside this file. Every table is read into a frozen dataclass; an unknown key is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


@dataclass(frozen=True)
class Vocabulary:
    """SentencePiece: number of pieces, and how many sentences of the text it is made from."""

    pieces: int = 12_000
    sentences: int = 400_000


@dataclass(frozen=True)
class Network:
    """Sizes of the network; ``pointer = false`` trains one that cannot copy, for comparison (it is not exported)."""

    width: int = 384
    encoder_layers: int = 5
    decoder_layers: int = 2
    pointer: bool = True


@dataclass(frozen=True)
class Training:
    """Optimiser (``muon``, ``adam``), padded target tokens a batch, learning rate, warm-up steps, dropout, average."""

    optimiser: str = "muon"
    batch: int = 5000
    rate: float = 1e-3
    warmup: int = 1000
    dropout: float = 0.1
    average: float = 0.9995


@dataclass(frozen=True)
class Leaks:
    """What text is kept for evaluation, and what happens when training text repeats it: ``fail`` or ``drop``."""

    evaluation: tuple[str, ...] = ()
    action: str = "fail"
    cluster_share: float = 0.35
    sentence_share: float = 0.30


@dataclass(frozen=True)
class Validation:
    """Held out: the last ``clusters`` ids with a human text of each set of ``source``; ``pairs`` of each at most."""

    source: str
    clusters: int = 25
    pairs: int = 4


@dataclass(frozen=True)
class Forced:
    """What a model must think of the pairs that the rules are not sure of.

    Attributes:
        least: The lowest mean log-probability of a token (nats) of each text given the other, less that given itself,
            summed.
        sure: Pairs that the rules give this score or more are kept as they are.
        model: A model for ``load_paraphraser``: ``shipped``, or a folder that ``export`` wrote.
    """

    least: float = -1.6
    sure: float = -4.0
    model: str = "shipped"


@dataclass(frozen=True)
class PairRules:
    """Which pairs of a cluster are made.

    Attributes:
        most: Pairs of a cluster at most, and of a cluster without a human text.
        most_template: Clusters that differ in names and numbers alone: so many of them.
        near_copies: Share of the pairs at closeness 3 (word F1 of .88 or more) that is kept.
        human: How much sooner pairs with human texts are taken; negative: later.
        min_consensus: Targets are left out whose mean word F1 with the other texts is in this lower part of theirs.
        openings: Whether a target may open with a connective that its source gives no reason for.
        least: The lowest score of a pair by :mod:`training.rules` (0: everything that differs is known); without it,
            pairs are not scored.
        forced: What a model must think of pairs with low scores; about .07 CPU seconds each.
    """

    most: int = 24
    most_without_human: int = 6
    most_template: int = 3
    near_copies: float = 1.0
    human: float = 1.0
    min_consensus: float = 0.25
    openings: bool = True
    least: float | None = None
    forced: Forced | None = None


@dataclass(frozen=True)
class Teaching:
    """How ``teach`` makes a source. The teacher's equivalence of two texts says which pairs are best.

    Attributes:
        of: The sources that it is made of, and how many pairs at most are taken of each (of the sentences, if samples
            are drawn, different ones).
        share: Of the pairs of each closeness, so many are kept: the best.
        samples: The closeness that each sample of a sentence is asked for; none: the pairs are those of the sources.
        temperature: Of the samples, after tokens beyond ``top_p`` have been left out.
        top_p: The most probable tokens that hold this probability are drawn from.
        least: The lowest score of a sample by :mod:`training.rules`.
        score: What a point of this score counts (nats) when the best sample of each closeness is chosen.
    """

    of: Mapping[str, int]
    share: float = 0.5
    samples: tuple[int, ...] = ()
    temperature: float = 0.8
    top_p: float = 0.95
    least: float = -6.0
    score: float = 0.02


@dataclass(frozen=True)
class Source:
    """One file of text: ``clusters`` (JSON lines) that become pairs, or ``sentences`` (TSV) to denoise.

    Or no file: pairs that a teacher makes of other sources (``taught``).
    """

    kind: str
    origin: str
    licence: str
    file: str = ""
    per_cluster: int = 8
    rules: PairRules = field(default_factory=PairRules)
    teaching: Teaching | None = None


@dataclass(frozen=True)
class Stage:
    """So many target tokens, from sources in proportion to their weights.

    ``rate`` multiplies the learning rate; with ``decay`` it falls linearly to zero over the stage. ``truncate`` is the
    share of a batch's pairs that is left out of the loss: those the network finds least likely (loss truncation, Kang
    and Hashimoto 2020, arXiv:2004.14589), among them most targets that do not say what their source says.
    """

    name: str
    tokens: int
    mix: Mapping[str, float]
    rate: float = 1.0
    decay: bool = False
    truncate: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """A whole recipe."""

    seed: int
    vocabulary: Vocabulary
    network: Network
    training: Training
    leaks: Leaks
    validation: Validation
    sources: Mapping[str, Source]
    stages: tuple[Stage, ...]

    @property
    def tokens(self) -> int:
        """Target tokens of all stages."""
        return sum(stage.tokens for stage in self.stages)

    def stage_at(self, tokens: int) -> tuple[int, float]:
        """The stage after so many target tokens, and the share of it that is done."""
        for index, stage in enumerate(self.stages):
            if tokens < stage.tokens:
                return index, tokens / stage.tokens
            tokens -= stage.tokens
        return len(self.stages) - 1, 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary, for checkpoints and the model card."""
        return asdict(self)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; a mistake in it ends the program with a message.

    What its tables do not say is as in the recipe beside it that it names as ``base``.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        if "base" in table:
            table = {**tomllib.loads((path.parent / table.pop("base")).read_text("utf-8")), **table}
        return recipe_of(table)
    except (OSError, ValueError, TypeError, KeyError) as error:
        sys.exit(f"{path}: {error}")


def recipe_of(table: Mapping[str, Any]) -> Recipe:
    """A recipe from its tables, or from what :meth:`Recipe.to_dict` gave; what is not there has its default."""
    table = dict(table)
    leaks = table.pop("leaks", {})
    recipe = Recipe(
        seed=table.pop("seed", 1),
        vocabulary=_make(Vocabulary, "vocabulary", table.pop("vocabulary", {})),
        network=_make(Network, "network", table.pop("network", {})),
        training=_make(Training, "training", table.pop("training", {})),
        leaks=_make(Leaks, "leaks", {**leaks, "evaluation": tuple(leaks.get("evaluation", ()))}),
        validation=_make(Validation, "validation", table.pop("validation")),
        sources={name: _source(name, row) for name, row in table.pop("sources").items()},
        stages=tuple(_make(Stage, "stages", row) for row in table.pop("stages")),
    )
    if table:
        raise ValueError(f"unknown: {', '.join(table)}")
    _check(recipe)
    return recipe


def _make(kind: type[T], where: str, row: Mapping[str, Any]) -> T:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    if unknown := set(row) - known:
        raise ValueError(f"unknown in [{where}]: {', '.join(sorted(unknown))}")
    return kind(**row)


def _source(name: str, row: Mapping[str, Any]) -> Source:
    teaching = row.get("teaching")
    if teaching is not None:
        teaching = {**teaching, "samples": tuple(teaching.get("samples", ()))}
        teaching = _make(Teaching, f"sources.{name}.teaching", teaching)
    rules = _pair_rules(name, row.get("rules", {}))
    return _make(Source, f"sources.{name}", {**row, "rules": rules, "teaching": teaching})


def _pair_rules(name: str, row: Mapping[str, Any]) -> PairRules:
    row = dict(row)
    if row.pop("strict", False):  # runs that were made before have the key, mostly false
        raise ValueError(f"strict in [sources.{name}.rules]: there are better rules now, least = -8.0 or -4.0")
    if row.get("forced") is not None:
        if row.get("least") is None:
            raise ValueError(f"forced in [sources.{name}.rules] needs least there, such as -8.0")
        row["forced"] = _make(Forced, f"sources.{name}.rules.forced", row["forced"])
    return _make(PairRules, f"sources.{name}.rules", row)


def _check_teaching(name: str, teaching: Teaching, sources: Mapping[str, Source]) -> None:
    kinds = ("clusters", "sentences") if teaching.samples else ("clusters",)
    for of in teaching.of:
        if of not in sources or sources[of].kind not in kinds:
            raise ValueError(f"{name} is made of {of!r}, expected a source of the kind {' or '.join(kinds)}")
    if not (0 < teaching.share <= 1 and 0 < teaching.top_p <= 1 and teaching.temperature > 0):
        raise ValueError(f"teaching of {name}: share and top_p must be above 0, at most 1, temperature above 0")
    if not set(teaching.samples) <= {0, 1, 2, 3}:
        raise ValueError(f"teaching of {name}: samples are {list(teaching.samples)}, expected closeness 0 to 3 of each")


def _check(recipe: Recipe) -> None:
    if recipe.leaks.action not in ("fail", "drop"):
        raise ValueError(f'leaks.action is {recipe.leaks.action!r}, expected "fail" or "drop"')
    if recipe.training.optimiser not in ("muon", "adam"):
        raise ValueError(f'training.optimiser is {recipe.training.optimiser!r}, expected "muon" or "adam"')
    if recipe.validation.source not in recipe.sources:
        raise ValueError(f"validation.source {recipe.validation.source!r} is no source")
    if recipe.sources[recipe.validation.source].kind != "clusters":
        raise ValueError("validation.source must have clusters")
    for name, source in recipe.sources.items():
        if source.kind not in ("clusters", "sentences", "taught"):
            raise ValueError(f'kind of {name} is {source.kind!r}, expected "clusters", "sentences" or "taught"')
        if (source.kind == "taught") != (source.teaching is not None) or bool(source.file) == bool(source.teaching):
            raise ValueError(f'{name} needs either a file or, of the kind "taught", a table teaching')
        if source.teaching:
            _check_teaching(name, source.teaching, recipe.sources)
    if not recipe.stages:
        raise ValueError("no stages")
    for stage in recipe.stages:
        if unknown := set(stage.mix) - set(recipe.sources):
            raise ValueError(f"stage {stage.name} uses unknown sources: {', '.join(sorted(unknown))}")
        if not any(weight > 0 for weight in stage.mix.values()) or stage.tokens <= 0:
            raise ValueError(f"stage {stage.name} has no text")
        if not 0 <= stage.truncate < 1:
            raise ValueError(f"truncate of stage {stage.name} is {stage.truncate}, expected 0 to below 1")
