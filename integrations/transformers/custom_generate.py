"""Group beam search for ``model.generate`` of Transformers 5, through a model's own forward.

:func:`diverse_beam_search` gives Transformers 4.31 - 4.56's results back in Transformers 5, without remote code::

    from custom_generate import diverse_beam_search  # with this folder on sys.path

    model.generate(**inputs, custom_generate=diverse_beam_search, num_beams=12, num_beam_groups=3,
                   diversity_penalty=0.5, num_return_sequences=12)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from polyref.errors import ModelError, UsageError
from polyref.models.networks.hugging_face import HuggingFaceModel, token_ids
from polyref.models.step import Parts
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.engine import run
from polyref.paraphrase.search.huggingface import HfBeamRule, HfGroupRule, Process
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.state import Beams, Step


class _Processors:
    """Logits processors on the rows of one group, laid out as Transformers has them.

    Some hold something for every sentence (its source, its padding) and tell sentences by their place among the rows:
    finished ones are therefore shown too, as padding.

    Args:
        processors: Transformers' list.
        prompt: ``[S, T]`` decoder prompts of all sentences.
        pad: The padding token.
    """

    def __init__(self, processors: Any, prompt: Tensor, pad: int) -> None:
        self._processors = [_without_padding(processor, pad) for processor in processors]
        self._prompt = prompt
        self._pad = pad

    def __call__(self, beams: Beams, rows: slice, scores: Tensor) -> Tensor:
        from transformers import LogitsProcessorList, PrefixConstrainedLogitsProcessor

        _, width, size = scores.shape
        count, live = len(self._prompt), beams.sentences
        tokens = beams.tokens[:, :1] if beams.tokens.shape[1] == 1 else beams.tokens[:, rows]
        before = self._prompt[:, None, :-1].expand(-1, width, -1)
        chosen = before.new_full((count, width, tokens.shape[2]), self._pad)
        chosen[live] = tokens.expand(-1, width, -1)
        ids = torch.cat((before, chosen), dim=2).flatten(0, 1)
        # A copy: processors may write into what they get.
        processed = scores.new_zeros(count, width, size)
        processed[live] = scores
        processed = processed.flatten(0, 1)
        for processor in self._processors:
            if isinstance(processor, PrefixConstrainedLogitsProcessor):
                processed = _allowed(processor._prefix_allowed_tokens_fn, ids, processed, live.tolist(), width)
            else:
                processed = LogitsProcessorList([processor])(ids, processed)
        found: Tensor = processed.view(count, width, size)
        return found[live]


def _without_padding(processor: Any, pad: int) -> Any:
    """The same, except that the padding of a batch is no token of the shorter sources."""
    from transformers import EncoderRepetitionPenaltyLogitsProcessor

    if not isinstance(processor, EncoderRepetitionPenaltyLogitsProcessor):
        return processor
    ids = processor.encoder_input_ids
    first = ids.gather(1, (ids != pad).int().argmax(dim=1, keepdim=True))
    return EncoderRepetitionPenaltyLogitsProcessor(1 / processor.penalty, torch.where(ids == pad, first, ids))


def _allowed(allow: Any, ids: Tensor, scores: Tensor, live: Sequence[int], width: int) -> Tensor:
    """``prefix_allowed_tokens_fn`` as in 4.56: Transformers 5 takes every beam for a sentence of its own."""
    mask = torch.full_like(scores, float("-inf"))
    for sentence in live:
        for row in range(sentence * width, (sentence + 1) * width):
            allowed = allow(sentence, ids[row])
            if not len(allowed):
                raise UsageError(
                    f"prefix_allowed_tokens_fn allows no token to sentence {sentence}, expected one at least"
                )
            mask[row, allowed] = 0.0
    return scores + mask


@torch.inference_mode()
def diverse_beam_search(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    beams: int | None = None,
    nbest: int | None = None,
    **model_kwargs: Any,
) -> Any:
    """Group beam search of Transformers 4.31 - 4.56 as a decoding loop for ``generate(custom_generate=...)``.

    Reads ``num_beams``, ``num_beam_groups``, ``diversity_penalty``, ``num_return_sequences``, ``length_penalty``,
    ``early_stopping``, ``max_length`` and everything that Transformers turns into logits processors from the
    generation configuration. With one group it is Transformers' beam search. Of the stopping criteria only the greatest
    length counts. Processors see the rows of one group at a time, those of a sentence together, as in 4.56; differently
    from there, ``encoder_repetition_penalty`` holds for every row and its own source (4.56 applies it to the first row
    of a group only, in a batch of another sentence's).

    With ``return_dict_in_generate``, ``output_scores`` gives the processed scores of every step, and ``beam_indices``
    the row that each token came from, so that ``compute_transition_scores`` works. A sentence that is done has scores
    of -inf. Several ends of sentence are known. Nothing is drawn.

    Args:
        model: The encoder-decoder model, given by ``generate``.
        input_ids: Decoder prompts, given by ``generate`` (every one repeated for its beams).
        logits_processor: Given by ``generate``.
        stopping_criteria: Given by ``generate``.
        generation_config: Given by ``generate``.
        beams: The beam size, instead of ``num_beams``: with ``num_beams`` left at 1 the encoder's states are not
            repeated for every beam.
        nbest: Sequences to return, instead of ``num_return_sequences`` (which ``generate`` refuses without
            ``num_beams``).
        **model_kwargs: Given by ``generate``: encoder outputs and their mask.

    Returns:
        What ``generate`` returned: sequences, or with ``return_dict_in_generate`` an output object with
        ``sequences_scores``.

    Raises:
        UsageError: The beam is no multiple of the groups, more sequences are wanted than there are beams, or sampling
            is asked for.
        ModelError: The model is no encoder-decoder.
    """
    if generation_config.do_sample:
        raise UsageError("`do_sample` is true, but this search draws nothing", remedy="leave it out")
    network = HuggingFaceModel(model)
    if "encoder_outputs" not in model_kwargs:
        raise ModelError("no encoder outputs: the search is for encoder-decoder models")
    ends = token_ids(generation_config.eos_token_id)
    network.eos = ends[0]
    pad = generation_config.pad_token_id
    network.pad = network.eos if pad is None else token_ids(pad)[0]
    returned = generation_config.num_return_sequences or 1
    repeated = max(generation_config.num_beams or 1, returned)
    wanted = nbest or returned
    prompt = input_ids[::repeated]
    beam = beams or generation_config.num_beams or 1
    if wanted > beam:
        raise UsageError(f"the number of sequences to return is {wanted}, expected at most the beam, {beam}")
    lenpen = generation_config.length_penalty
    most = int(generation_config.max_length) - prompt.shape[1] - 1
    options = SearchOptions(
        semantics="hf",
        beam=beam,
        groups=getattr(generation_config, "num_beam_groups", None) or 1,
        strength=float(getattr(generation_config, "diversity_penalty", None) or 0.0),
        nbest=wanted,
        lenpen=1.0 if lenpen is None else float(lenpen),
        min_len=0,
        max_len_b=max(most, 0),
        early_stopping=generation_config.early_stopping or False,
    ).validate()
    mask = model_kwargs.get("attention_mask")
    state = network.begin(model_kwargs["encoder_outputs"], mask, repeated)
    if prompt.shape[1] > 1:
        network.feed(state, prompt[:, :-1])
    live = Beams.begin(len(prompt), network.start, prompt.device)
    live.tokens[:, 0, 0] = prompt[:, -1]
    limits = [options.max_len_b] * len(prompt)
    process: Process | None = _Processors(logits_processor, prompt, network.pad) if logits_processor else None
    steps = None
    if generation_config.output_scores and generation_config.return_dict_in_generate:
        process = steps = _Recorder(process, len(prompt), options)
    rule = (HfGroupRule if options.groups > 1 else HfBeamRule)(network, options, limits, process, fixed=True, ends=ends)

    def prepare(t: int, beams_: Beams, out: Tensor | Parts) -> Step:
        assert isinstance(out, Tensor)
        scores = torch.log_softmax(out, dim=-1).flatten(0, 1)
        last = torch.full((len(beams_.sentences),), t >= options.max_len_b, device=scores.device)
        return Step(t, scores, scores, torch.zeros_like(last), last, beams_.layout.rows)

    found = run(network, state, live, prepare, rule)
    return _output(found, prompt, network.pad, generation_config, steps)


class _Recorder:
    """Keeps the scores of every step, and which hypothesis stood in which row.

    Args:
        process: What is done to the scores; None for nothing.
        sentences: S.
        options: Of the search.
    """

    def __init__(self, process: Process | None, sentences: int, options: SearchOptions) -> None:
        self._process = process
        self._sentences = sentences
        self._beam, self._width = options.beam, options.beam // options.groups
        self.scores: list[Tensor] = []
        self._prefixes: list[list[dict[tuple[int, ...], int]]] = []

    def __call__(self, beams: Beams, rows: slice, scores: Tensor) -> Tensor:
        processed = scores if self._process is None else self._process(beams, rows, scores)
        if rows.start == 0:
            nothing = float("-inf")
            self.scores.append(processed.new_full((self._sentences, self._beam, processed.shape[2]), nothing))
            self._prefixes.append([{} for _ in range(self._sentences * self._beam // self._width)])
        self.scores[-1][beams.sentences, rows] = processed
        first = beams.tokens.shape[1] == 1
        for sentence, tokens in zip(beams.sentences.tolist(), beams.tokens[:, :1] if first else beams.tokens[:, rows]):
            group = self._prefixes[-1][(sentence * self._beam + rows.start) // self._width]
            for row, prefix in enumerate(tokens[:, 1:].tolist()):
                group.setdefault(tuple(prefix), sentence * self._beam + rows.start + row)
        return processed

    def rows_of(self, sentence: int, found: Candidate) -> list[int]:
        """Row of the batch that each token of a hypothesis came from."""
        group = sentence * self._beam // self._width + found.group
        return [self._prefixes[t][group][found.tokens[:t]] for t in range(len(found.tokens))]


def _output(
    found: list[list[Candidate]], prompt: Tensor, pad: int, generation_config: Any, steps: _Recorder | None
) -> Any:
    from transformers.generation.utils import GenerateBeamEncoderDecoderOutput

    rows = [(sentence, candidate) for sentence, candidates in enumerate(found) for candidate in candidates]
    longest = max((len(candidate.tokens) for _, candidate in rows), default=0)
    sequences = torch.full((len(rows), prompt.shape[1] + longest), pad, dtype=torch.int64)
    for row, (sentence, candidate) in enumerate(rows):
        sequences[row, : prompt.shape[1]] = prompt[sentence].cpu()
        sequences[row, prompt.shape[1] : prompt.shape[1] + len(candidate.tokens)] = torch.tensor(candidate.tokens)
    sequences = sequences.to(prompt.device)
    if not generation_config.return_dict_in_generate:
        return sequences
    scores = torch.tensor([candidate.score for _, candidate in rows], device=prompt.device)
    output = GenerateBeamEncoderDecoderOutput(sequences=sequences, sequences_scores=scores)
    if steps is not None:
        origins = torch.full((len(rows), longest), -1, dtype=torch.int32)
        for row, (sentence, candidate) in enumerate(rows):
            origins[row, : len(candidate.tokens)] = torch.tensor(steps.rows_of(sentence, candidate))
        output.beam_indices = origins.to(prompt.device)
        output.scores = tuple(step.flatten(0, 1) for step in steps.scores)
    return output
