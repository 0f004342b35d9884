"""Generation settings that a model was saved with, for beam search as Transformers does it.

Settings that :class:`SearchOptions` has as well fill what is left open there. Others become Transformers' own logits
processors, in the order in which ``generate`` applies them. How many hypotheses there are is the user's affair:
``num_beams``, ``num_return_sequences`` and groups are not taken over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from polyref.errors import ModelError, PolyrefError, UsageError
from polyref.paraphrase.search.options import SearchOptions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from polyref.paraphrase.search.state import Beams

#: What changes next-token scores, with the value that changes nothing.
_PROCESSED: Final[Mapping[str, Any]] = {
    "sequence_bias": None,
    "encoder_repetition_penalty": 1.0,
    "repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "remove_invalid_values": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "renormalize_logits": False,
}
#: What would change the lists and has no counterpart here, with the value that changes nothing.
_REFUSED: Final[Mapping[str, Any]] = {
    "do_sample": False,
    "guidance_scale": 1.0,
    "watermarking_config": None,
    "penalty_alpha": 0.0,
    "dola_layers": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "max_time": None,
    "prompt_lookup_num_tokens": None,
    "token_healing": False,
}
#: Longest value that is written out in a signature.
_SHOWN: Final = 24


@dataclass(frozen=True)
class SavedGeneration:
    """What a model's folder says of generation, with nothing in it that has no value.

    Attributes:
        values: Transformers' names and values.
        ends: Tokens that end a sentence, the network's own first.
        tagged: Whether a first token is forced in any case: a saved one then has no place.
    """

    values: Mapping[str, Any]
    ends: tuple[int, ...]
    tagged: bool = False

    def fill(self, options: SearchOptions) -> SearchOptions:
        """The options, with saved values where they are at their default and not among ``options.fixed``."""
        for name, neutral in _REFUSED.items():
            if _changes(value := self.values.get(name), neutral):
                raise UsageError(
                    f"`semantics` is hf, but the model's generation settings have {name} {value!r}, which the search "
                    "does not have",
                    remedy="take it out of generation_config.json, or name another `semantics`",
                )
        changes = {name: value for name, value in self._options().items() if _is_open(options, name)}
        if "min_len" in changes and not options.max_len_a:
            changes["min_len"] = min(changes["min_len"], changes.get("max_len_b", options.max_len_b))
        try:
            filled = replace(options, **changes).validate()
            self._processors([self.ends[0]], filled.max_len_b, "cpu")
        except (PolyrefError, ValueError, TypeError) as error:
            raise ModelError(f"the model's generation settings cannot be used: {error}") from None
        return filled

    def _options(self) -> dict[str, Any]:
        """Saved values by the names of ``SearchOptions``. Transformers counts the start token and the last token."""
        saved, found = self.values, {}
        for name, ours in (("length_penalty", "lenpen"), ("early_stopping", "early_stopping")):
            if name in saved:
                found[ours] = saved[name]
        if "max_new_tokens" in saved:
            found["max_len_b"] = max(saved["max_new_tokens"] - 1, 0)
        elif "max_length" in saved:
            found["max_len_b"] = max(saved["max_length"] - 2, 0)
        least = max(saved.get("min_length", 0) - 1, saved.get("min_new_tokens", 0))
        if least > 0:
            found["min_len"] = least
        if saved.get("no_repeat_ngram_size"):
            found["no_repeat_ngram"] = saved["no_repeat_ngram_size"]
        return found

    def describe(self) -> str:
        """For signatures, what the processors are told: ``+generation(repetition_penalty=1.2)``, or nothing."""
        told = [f"{name}={_short(value)}" for name, value in self._processed().items()]
        told += [f"eos_token_id={_short(list(self.ends))}"] * (len(self.ends) > 1)
        return f"+generation({','.join(told)})" if told else ""

    def _processed(self) -> dict[str, Any]:
        found = {name: self.values.get(name) for name in _PROCESSED}
        if self.tagged:
            del found["forced_bos_token_id"]
        return {name: value for name, value in found.items() if _changes(value, _PROCESSED[name])}

    def process(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], device: torch.device
    ) -> SavedProcess | None:
        """What the search applies to its scores; None where nothing is to be applied.

        Args:
            sources: Token ids of every sentence.
            limits: Greatest length of each, the end of sentence not counted.
            device: Where the scores are.
        """
        if not self._processed():
            return None
        pairs = zip(sources, limits, strict=True)
        return SavedProcess([self._processors(source, most, device) for source, most in pairs])

    def _processors(self, source: Sequence[int], most: int, device: torch.device | str) -> Any:
        """Transformers' processors for one sentence, in the order of ``GenerationMixin._get_logits_processor``."""
        import torch
        import transformers as hf

        told = self._processed()
        ends = torch.tensor(self.ends, device=device)
        read = torch.tensor([source], device=device)
        forced = self.tagged or "forced_bos_token_id" in told
        makers = {
            "sequence_bias": hf.SequenceBiasLogitsProcessor,
            "encoder_repetition_penalty": lambda value: hf.EncoderRepetitionPenaltyLogitsProcessor(value, read),
            "repetition_penalty": hf.RepetitionPenaltyLogitsProcessor,
            "encoder_no_repeat_ngram_size": lambda value: hf.EncoderNoRepeatNGramLogitsProcessor(value, read),
            "bad_words_ids": lambda value: hf.NoBadWordsLogitsProcessor(value, ends),
            "forced_bos_token_id": hf.ForcedBOSTokenLogitsProcessor,
            "forced_eos_token_id": lambda value: hf.ForcedEOSTokenLogitsProcessor(most + 2, value, device),
            "remove_invalid_values": lambda _: hf.InfNanRemoveLogitsProcessor(),
            "exponential_decay_length_penalty": lambda value: hf.ExponentialDecayLengthPenalty(value, ends, 1),
            "suppress_tokens": lambda value: hf.SuppressTokensLogitsProcessor(value, device),
            "begin_suppress_tokens": lambda value: hf.SuppressTokensAtBeginLogitsProcessor(value, 1 + forced, device),
            "renormalize_logits": lambda _: hf.LogitNormalization(),
        }
        return hf.LogitsProcessorList([makers[name](value) for name, value in told.items()])


class SavedProcess:
    """Processors that every sentence has for itself, so that no sentence depends on its batch.

    Args:
        processors: Transformers' list for each sentence.
    """

    def __init__(self, processors: Sequence[Any]) -> None:
        self._processors = processors

    def __call__(self, beams: Beams, rows: slice, scores: Tensor) -> Tensor:
        """The scores ``[S, b, V]`` of some rows, processed."""
        first = beams.tokens.shape[1] == 1
        tokens = beams.tokens.expand(-1, scores.shape[1], -1) if first else beams.tokens[:, rows]
        processed = scores.clone()
        for place, sentence in enumerate(beams.sentences.tolist()):
            processed[place] = self._processors[sentence](tokens[place], processed[place])
        return processed


def _is_open(options: SearchOptions, name: str) -> bool:
    """Whether an option is left to the model, the length as a whole."""
    together = next((pair for pair in (("min_len", "min_len_a"), ("max_len_b", "max_len_a")) if name in pair), (name,))
    plain = {field.name: field.default for field in fields(options)}
    return all(getattr(options, one) == plain[one] and one not in options.fixed for one in together)


def _changes(value: Any, neutral: Any) -> bool:
    return value is not None and value != neutral and value not in ([], {})


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, separators=(",", ":"))
    return text if len(text) <= _SHOWN else f"sha:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
