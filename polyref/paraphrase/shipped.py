"""The generator ``shipped``: small models with a copying network, such as the one in the package, and their rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from polyref.errors import ModelError, UsageError
from polyref.languages import base
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.checkpoints.text import SentencePieceCodec
from polyref.models.device import torch_device, use_threads
from polyref.models.forced import ForcedScorer
from polyref.models.networks.attention import padded
from polyref.models.networks.batched import BatchedDecoder
from polyref.models.opening import find
from polyref.paraphrase.copy_penalty import CopyPenaltyRules
from polyref.paraphrase.decoding import (
    LARGEST,
    LARGEST_BEAM,
    Decoding,
    DiverseBeam,
    check_number,
    check_numbers,
    in_full,
)
from polyref.paraphrase.loading import DTYPE_SHIPPED, LoadingOptions, check_dtype, told_dtype
from polyref.paraphrase.search import SearchOptions, StepHook
from polyref.paraphrase.search.state import far, forbid
from polyref.paraphrase.search_paraphraser import DIGITS, BothRules, Lists, Rules, SearchParaphraser, batch_limits
from polyref.progress import Part, listening

if TYPE_CHECKING:
    import sentencepiece

    from polyref.models.networks.matmul import Precision


class ShippedRules:
    """The rules of models of the shipped kind: source digits are kept, phrases are not repeated more than there."""

    name = "digits,noaddedrepeat4"

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, eos: int, device: str = "cpu") -> None:
        self.eos = eos
        self.device = device
        self.digits = Digits(spm, device)
        self.free = self.digits.tokens.tolist()

    def hooks(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> Sequence[StepHook]:
        """The rules for one batch of sources."""
        repeats = NoAddedRepeats(sources, self.free, device=self.device)
        return [repeats, SourceDigits(self.digits, sources, self.eos)]


class NoAddedRepeats:
    """No n-gram of pieces more often than the source has it, or than once (n = 4 by default).

    Shorter n-grams occur within words, and forbidding them breaks the copying of names. N-grams with a free token are
    not counted: a digit is a piece, so "3,000 cars and 5,000 vehicles" could not become "3,000 cars and 5,000 cars".
    """

    forbids_only = True

    def __init__(
        self, sources: Sequence[Sequence[int]], free: Iterable[int] = (), n: int = 4, device: str = "cpu"
    ) -> None:
        self.n = n
        self.free = torch.tensor(sorted(free), dtype=torch.long, device=device)
        if far(self.free.device):  # [S, L]; -1 is no token
            self.sources = torch.nn.functional.pad(padded(sources, -1), (0, n), value=-1).to(device)
        self.counts = [Counter(zip(*(source[at:] for at in range(n)), strict=False)) for source in sources]

    def __call__(self, sentences: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        """Forbid every token that would complete an n-gram the hypothesis already has often enough."""
        n = self.n
        if prefixes.shape[2] < n:
            return
        windows = prefixes.unfold(2, n, 1)  # [S, W, t - n + 1, n]
        last = prefixes[:, :, None, prefixes.shape[2] - n + 1 :]
        same = (windows[..., : n - 1] == last).all(-1) & ~torch.isin(windows, self.free).any(-1)
        if far(same.device):
            self._by_places(self.sources[sentences], windows, last, same, scores)
            return
        rows, columns, places = same.nonzero(as_tuple=True)
        found = torch.stack([sentences[rows], rows, columns], 1).tolist()
        had = Counter((*at, *ngram) for at, ngram in zip(found, windows[rows, columns, places].tolist(), strict=True))
        for (sentence, row, column, *ngram), times in had.items():
            if times >= max(1, self.counts[sentence][tuple(ngram)]):
                scores[row, column, ngram[-1]] = -math.inf

    def _by_places(self, sources: Tensor, windows: Tensor, last: Tensor, same: Tensor, scores: Tensor) -> None:
        """The same without asking the device: every place is compared with every other, and with the source's."""
        tokens, given = windows[..., -1], sources.unfold(1, self.n, 1)[:, None]  # [S, W, P]; [S, 1, L - n + 1, n]
        times = (same[..., None, :] & (tokens[..., None, :] == tokens[..., None])).sum(-1)
        begun = (given[..., : self.n - 1] == last).all(-1)
        allowed = (begun[..., None, :] & (given[..., None, :, -1] == tokens[..., None])).sum(-1)
        forbid(scores, tokens, same & (times >= allowed.clamp_min(1)))


class Digits:
    """Which pieces of a vocabulary are digits; vocabularies that split digits have one piece a digit."""

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, device: str = "cpu") -> None:
        found = {}
        for token in range(spm.get_piece_size()):
            piece = spm.id_to_piece(token).removeprefix("▁")
            if len(piece) == 1 and piece in "0123456789":
                found[token] = int(piece)
        self.tokens = torch.tensor(list(found), dtype=torch.long, device=device)
        self.values = torch.tensor(list(found.values()), dtype=torch.long, device=device)
        self.of = torch.full((spm.get_piece_size(),), 10, dtype=torch.long, device=device)
        self.of[self.tokens] = self.values

    def count(self, tokens: Tensor) -> Tensor:
        """How often each digit occurs along the last dimension: ``[..., t] -> [..., 10]``."""
        digits = self.of[tokens]
        return torch.stack([(digits == value).sum(-1) for value in range(10)], -1)


class SourceDigits:
    """Every digit of the source exactly as often as the source has it: none invented, none lost."""

    forbids_only = True

    def __init__(self, digits: Digits, sources: Sequence[Sequence[int]], eos: int) -> None:
        self.digits = digits
        self.eos = eos
        device = digits.of.device
        self.wanted = torch.stack([digits.count(torch.tensor(source, device=device)) for source in sources])

    def __call__(self, sentences: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        """Forbid digits that are used up, and the end while digits are missing."""
        left = self.wanted[sentences][:, None] - self.digits.count(prefixes)  # [S, W, 10]
        used_up = left[..., self.digits.values] <= 0
        scores[:, :, self.digits.tokens] = scores[:, :, self.digits.tokens].masked_fill(used_up, -math.inf)
        scores[..., self.eos].masked_fill_((left > 0).any(-1), -math.inf)


def equivalences(
    scorer: ForcedScorer, pairs: Sequence[tuple[str, str]], read: str | None = None, written: str | None = None
) -> list[float]:
    """How far two texts follow from each other, by forced scores in both directions: one number a pair.

    The mean log-probability (nats) of a token of each text given the other, less that given itself, summed. A text
    given itself says how surprising its words are anyway, so a rare name costs nothing. At 0, each text follows from
    the other as well as from itself. ``read`` and ``written`` are the languages of models that mark them.
    """
    jobs = [
        (scorer.source(given, read), scorer.target(wanted, written))
        for one, other in pairs
        for given, wanted in ((one, other), (other, other), (other, one), (one, one))
    ]
    scorer.known.clear()  # of a stream of texts, it would grow for ever
    means = [float(row.mean()) if len(row) else 0.0 for row in scorer.score(jobs, written)]
    values = np.array(means).reshape(-1, 4) @ (1, -1, 1, -1)
    return [float(value) for value in values]


@dataclass(frozen=True)
class JudgedSearch:
    """The search of a model that judges its candidates: ``search`` in its ``config.json``.

    Attributes:
        closeness: Of the search (0 free .. 3 near copies); forced scores have the model's own.
        beam: Hypotheses of a text, however few are asked for.
        equivalence: Candidates below this are not offered (nats, see :func:`equivalences`).

    Raises:
        UsageError: One is no number, or out of range.
    """

    closeness: int
    beam: int
    equivalence: float

    def __post_init__(self) -> None:
        check_number("closeness", self.closeness, 0, 3, whole=True)
        check_number("beam", self.beam, 1, LARGEST_BEAM, whole=True)
        check_number("equivalence", self.equivalence, -LARGEST, LARGEST)


class JudgingParaphraser(SearchParaphraser):
    """Offers the candidates that follow from their text, and it from them, by the model's own forced scores.

    The best come first, copies are left out. A search with options of its own is not judged: its list is as it is.

    Args:
        folder: Of the model.
        search: Its beam, and the least equivalence.
        about: As for :class:`SearchParaphraser`.
    """

    def __init__(self, *model: Any, folder: Path, search: JudgedSearch, **about: Any) -> None:
        super().__init__(*model, **about)
        self._folder, self._judged = folder, search
        self.signature += f"|equivalence>={in_full(search.equivalence)}"

    @cached_property
    def _scorer(self) -> ForcedScorer:
        from polyref.models.scorers import load_scorer

        return load_scorer(self._folder, device=str(self.model.device))

    def settle(self, decoding: Decoding | None, k: int) -> Decoding:
        """The settings used: the beam is the model's own unless one is named."""
        if isinstance(decoding, SearchOptions):
            return super().settle(decoding, k)
        asked = decoding or DiverseBeam()
        if asked.beam is None:  # the next multiple of the groups
            check_numbers(asked)
            groups = asked.groups or 1
            asked = replace(asked, beam=-(-self._judged.beam // groups) * groups)
        return super().settle(asked, k)

    def _searched(
        self, texts: Sequence[str], sources: list[list[int]], k: int, decoding: Decoding, part: Part
    ) -> Lists:
        if isinstance(decoding, SearchOptions):
            return super()._searched(texts, sources, k, decoding, part)
        lists = super()._searched(texts, sources, decoding.beam or k, decoding, part)
        # The model reads a text without odd spaces, which candidates cannot have.
        read = [self.codec.decode(source) for source in sources]
        lists = [
            tuple(one for one in found if one.text not in own)
            for own, found in zip(zip(texts, read, strict=True), lists, strict=True)
        ]
        with listening(None):  # of one piece of work, the search is heard
            pairs = [(text, one.text) for text, found in zip(texts, lists, strict=True) for one in found]
            values = iter(equivalences(self._scorer, pairs))
        judged = [sorted((-round(next(values), DIGITS), n) for n in range(len(found))) for found in lists]
        return [
            tuple(found[n] for value, n in order if -value >= self._judged.equivalence)[:k]
            for found, order in zip(lists, judged, strict=True)
        ]


def _judged_search(told: Any, folder: Path) -> JudgedSearch | None:
    if told is None:
        return None
    try:
        return JudgedSearch(**told)
    except (TypeError, UsageError):
        expected = 'null, or {"closeness": 0 to 3, "beam": 1 or more, "equivalence": a number}'
        raise ModelError(f"search is {told!r}, expected {expected}", file=folder / "config.json") from None


def load(argument: str | None, options: LoadingOptions) -> SearchParaphraser:
    """A model of the package (``shipped``, ``shipped/LANGUAGE``), or of a folder of that kind."""
    use_threads(options.threads)
    device, lang = options.device, options.lang
    kind = torch_device(device).type
    dtype = options.dtype or (DTYPE_SHIPPED if kind == "cpu" else "float32")
    check_dtype(dtype, kind)
    if dtype != "float32" and kind != "cpu":
        raise UsageError(f"`dtype` is {dtype!r}, but models of the shipped kind compute in float32 on {device}")
    found = find(argument or "shipped", "generator")
    if found.kind != "shipped":
        raise ModelError("no model of the shipped kind", file=found.folder, remedy="leave `shipped:` out")
    model = load_pointer(found.folder)
    model.network.precision = cast("Precision", dtype)
    if kind != "cpu":
        model.network.decodes = BatchedDecoder
    if lang is not None and base(lang) != model.language:
        raise UsageError(f"{model.name} writes {model.language}, not {lang!r}", remedy="choose another `model`")
    codec = SentencePieceCodec(model.spm, model.network.eos)
    rules: Rules = ShippedRules(model.spm, model.network.eos, device)
    if options.prism_a:
        rules = BothRules(rules, CopyPenaltyRules(codec, options.prism_a, options.prism_b))
    judged = _judged_search(model.search, found.folder)
    closeness = model.network.closeness if judged is None else judged.closeness
    about: dict[str, Any] = {
        "name": model.name,
        "digest": model.digest + told_dtype(dtype),
        "max_source": model.network.config.max_source,
        "languages": [model.language],
        "rules": rules,
        "defaults": DiverseBeam(strength=model.strength, closeness=closeness),
        # Longer candidates of this model repeat themselves and fall to the filter; the search ends sooner without them.
        "room": (1.25, 5),
        "min_score": model.min_score,
        **batch_limits(options.memory, device),
    }
    network = model.network.place(device)
    if judged is None:
        return SearchParaphraser(network, codec, **about)
    return JudgingParaphraser(network, codec, folder=found.folder, search=judged, **about)
