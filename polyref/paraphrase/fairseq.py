"""Real fairseq behind the :class:`~polyref.paraphrase.Paraphraser` interface, where it is installed.

``load_paraphraser(path, backend="fairseq")`` builds fairseq's own model and searches with fairseq's own generator. The
checkpoint is read by polyref (weights and plain settings only), so nothing in it is run. What it is for: to see with
one's own eyes that polyref gives the same lists; it is slower in every respect.

Supported: fairseq 0.12.2, which installs on Python 3.10 (and, without polyref, 3.9) with pip < 24.1.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from polyref.cache import Cache
from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints.seq2seq import FairseqParts, read_fairseq
from polyref.models.checkpoints.text import LanguageCodec, first_tokens
from polyref.models.device import torch_device, use_threads
from polyref.models.opening import check_numbers
from polyref.paraphrase.decoding import Decoding
from polyref.paraphrase.loading import LoadingOptions
from polyref.paraphrase.search import Candidate, SearchOptions
from polyref.paraphrase.search_paraphraser import SearchParaphraser

SUPPORTED: Final = ("0.12.0", "0.12.1", "0.12.2")


def fairseq_version() -> str:
    """The installed fairseq's version."""
    with _quiet():
        try:
            import fairseq
            from fairseq.search import DiverseBeamSearch
        except ImportError as error:
            raise ModelError(
                f"fairseq cannot be imported: {error}",
                remedy="pip install fairseq==0.12.2 with Python 3.10 and pip < 24.1, or leave `backend` out",
            ) from None
        except (ValueError, AttributeError, TypeError) as error:  # its dataclasses on Python 3.11 and later
            raise ModelError(
                f"fairseq is installed but does not start: {error}", remedy="it needs Python 3.10 or earlier"
            ) from None
    version = str(fairseq.__version__)
    later = "diversity_discount" in inspect.signature(DiverseBeamSearch.__init__).parameters
    if version not in SUPPORTED or later:
        found = "a development version" if later else version
        raise ModelError(
            f"fairseq is {found}, expected 0.12.2",
            remedy="later versions search in another way, and their diverse search is defective",
        )
    return version


@contextmanager
def _quiet() -> Iterator[None]:
    """Importing fairseq warns a lot and installs a log handler."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        root.handlers[:] = handlers
        root.setLevel(level)


def build_model(parts: FairseqParts, folder: Path) -> tuple[Any, Any]:
    """The model as fairseq builds it, for evaluation, with the checkpoint's weights; and its target dictionary."""
    fairseq_version()
    with _quiet():
        from fairseq.data import Dictionary
        from fairseq.models import build_model as build

        dictionaries = []
        for ours in (parts.codec.source, parts.codec.target):
            theirs = Dictionary()
            for symbol in ours.symbols[len(theirs) :]:
                theirs.add_symbol(symbol, overwrite=True)
            dictionaries.append(theirs)
        task = argparse.Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
        try:
            model = build(argparse.Namespace(**parts.settings), task)
            model.load_state_dict(dict(parts.state), strict=True)
        except Exception as error:  # whatever fairseq makes of settings it does not know
            reason = str(error).strip().split("\n")[0]
            raise ModelError(f"fairseq cannot build this model: {reason}", file=folder / "checkpoint.pt") from None
        model.eval()
        model.make_generation_fast_(need_attn=False)
    return model, dictionaries[1]


@dataclass
class _Limits:
    """What a ``SearchParaphraser`` asks of a network."""

    eos: int
    max_target: int


class FairseqParaphraser(SearchParaphraser):
    """Paraphrases by fairseq's own search; only ``fairseq`` semantics exist here."""

    def __init__(self, folder: Path, options: LoadingOptions) -> None:
        parts = read_fairseq(folder)
        check_numbers(parts.weights.items(), folder / "checkpoint.pt")
        model, self._dictionary = build_model(parts, folder)
        self._device = torch.device(options.device)
        self._fairseq = model.to(self._device)
        limits: Any = _Limits(parts.config.eos, parts.config.max_target)
        super().__init__(
            limits,
            LanguageCodec(parts.codec, None),
            name=parts.name,
            digest=parts.fingerprint[:12],
            max_source=parts.config.max_source,
            languages=parts.codec.languages,
            lang=options.lang if options.prefix is None else None,
            prefix=first_tokens(parts.codec, options.lang, options.prefix),
        )
        self.signature += f"|backend:fairseq-{fairseq_version()}"
        if options.memory is not None:
            self.memory = options.memory << 20

    def use_cache(self, cache: Cache, loaded_with: str = "") -> None:
        """Nothing: its lists are there to be compared with, and are made anew each time."""

    def settle(self, decoding: Decoding | None, k: int) -> Decoding:
        """What fairseq's own search cannot do is refused."""
        settled = super().settle(decoding, k)
        if isinstance(settled, SearchOptions):
            if settled.semantics != "fairseq":
                raise UsageError(
                    f"`semantics` is {settled.semantics}, but `backend` fairseq searches as fairseq does",
                    remedy="name `semantics` fairseq",
                )
            if settled.sampling_epsilon:
                raise UsageError("`sampling_epsilon` is no option of `backend` fairseq")
        return settled

    def _search(self, sources: list[list[int]], decoding: Decoding, texts: Sequence[str]) -> list[list[Candidate]]:
        options = replace(self._options(decoding), semantics="fairseq")
        # Sources of one length need no padding, so that no sentence's limits depend on its neighbours; draws come from
        # one generator, so that sampled sentences go one by one.
        batches: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, source in enumerate(sources):
            length = 0 if options.padded_max_len else len(source)
            batches[length, number if options.sampling else 0].append(number)
        found: list[list[Candidate]] = [[] for _ in sources]
        for numbers in batches.values():
            for number, candidates in zip(numbers, self._batch([sources[n] for n in numbers], options), strict=True):
                found[number] = candidates
        return found

    @torch.inference_mode()
    def _batch(self, sources: list[list[int]], options: SearchOptions) -> list[list[Candidate]]:
        longest = max(map(len, sources))
        tokens = torch.full((len(sources), longest), self._dictionary.pad(), dtype=torch.int64)
        for row, source in enumerate(sources):
            tokens[row, longest - len(source) :] = torch.tensor(source)  # fairseq pads sources on the left
        lengths = torch.tensor([len(source) for source in sources])
        net_input = {"src_tokens": tokens.to(self._device), "src_lengths": lengths.to(self._device)}
        prefix = torch.tensor([self.prefix] * len(sources)).to(self._device) if self.prefix else None
        generator = self._generator(options, longest)
        with torch.random.fork_rng(enabled=options.sampling), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fairseq's use of old functions
            if options.sampling:
                torch.manual_seed(_seed(options.seed, sources[0]))
            lists = generator.generate([self._fairseq], {"net_input": net_input}, prefix_tokens=prefix)
        return [[_candidate(found) for found in sentence[: options.wanted]] for sentence in lists]

    def _generator(self, options: SearchOptions, longest: int) -> Any:
        from fairseq.search import BeamSearch, DiverseBeamSearch, Sampling
        from fairseq.sequence_generator import SequenceGenerator

        least = options.min_len + int(options.min_len_a * longest)
        most = min(int(options.max_len_a * longest + options.max_len_b), self.model.max_target - 1)
        if least > most:
            raise UsageError(f"the least length is {least}, expected at most the greatest, {most} tokens")
        if options.sampling:
            strategy = Sampling(self._dictionary, options.sampling_topk or -1, options.sampling_topp or -1.0)
        elif options.groups > 1:
            strategy = DiverseBeamSearch(self._dictionary, options.groups, options.strength)
        else:
            strategy = BeamSearch(self._dictionary)
        return SequenceGenerator(
            [self._fairseq],
            self._dictionary,
            beam_size=options.beam,
            max_len_a=options.max_len_a,
            max_len_b=options.max_len_b,
            min_len=least,
            normalize_scores=options.normalize,
            len_penalty=options.lenpen,
            unk_penalty=options.unkpen,
            temperature=options.temperature,
            no_repeat_ngram_size=options.no_repeat_ngram,
            search_strategy=strategy,
        )


def _candidate(found: dict[str, Tensor]) -> Candidate:
    """A hypothesis; fairseq keeps no log-probabilities apart from the penalties, and no group."""
    scores = tuple(found["positional_scores"].tolist())
    return Candidate(
        tokens=tuple(found["tokens"].tolist()),
        score=float(found["score"]),
        logprob=float("nan"),
        token_logprobs=(float("nan"),) * len(scores),
        token_scores=scores,
        group=0,
        finished=True,
    )


def _seed(seed: int, source: Sequence[int]) -> int:
    """One number for the seed and the sentence, the same on every machine."""
    mixed = seed & 0xFFFFFFFF
    for token in source:
        mixed = (mixed * 1_000_003 + token + 1) & 0xFFFFFFFFFFFF
    return mixed


def load(argument: str | None, options: LoadingOptions) -> FairseqParaphraser:
    """A fairseq folder, run by fairseq itself."""
    use_threads(options.threads)
    torch_device(options.device)
    folder = Path(argument or "")
    if not (folder / "checkpoint.pt").is_file():
        raise ModelError("no checkpoint.pt", file=folder, remedy="fairseq runs fairseq checkpoints and nothing else")
    return FairseqParaphraser(folder, options)
