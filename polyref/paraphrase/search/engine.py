"""The step-wise loop shared by all semantics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.step import Parts, RowModel, StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.fairseq import FairseqRule
from polyref.paraphrase.search.huggingface import HfBeamRule, HfGroupRule, SavedGeneration
from polyref.paraphrase.search.paper import PaperRule
from polyref.paraphrase.search.protocol import Candidate, StepHook
from polyref.paraphrase.search.sampling import SamplingRule
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Constraints, Layout, Step, far


class Rule(Protocol):
    """One semantics: what to keep of a step's scores, and what to return in the end."""

    def advance(self, step: Step, beams: Beams) -> Choice:
        """Take finished hypotheses out and choose the rows that go on."""

    def results(self) -> list[list[Candidate]]:
        """The n-best list of every sentence."""


@torch.inference_mode()
def search(
    model: StepModel,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None = None,
    hooks: Sequence[StepHook] = (),
    saved: SavedGeneration | None = None,
    passed: Callable[[int], object] = lambda tokens: None,
) -> list[list[Candidate]]:
    """N-best hypotheses of every sentence, all sentences as one batch.

    A sentence leaves the batch when it is done, and its results do not depend on the others (apart from rounding in
    the network's matrix products). Splitting a long list into batches is the caller's affair.

    Args:
        model: The network.
        sources: Token ids of every sentence, each with its end of sentence (so never empty).
        options: What to search for.
        prefixes: First target tokens of every sentence (a language tag), possibly empty; None for none at all.
        hooks: Changes of the scores before selection, in order.
        saved: Generation settings of the model, for beam search in ``hf`` semantics; they have filled the options.
        passed: Told how far it has come, in source tokens: most paraphrases are about as long as their source.

    Returns:
        For every sentence its candidates, best first; possibly fewer than asked for.
    """
    options.validate()
    if prefixes is not None and len(prefixes) != len(sources):
        raise UsageError(f"{len(sources)} sources but {len(prefixes)} prefixes")
    for index, source in enumerate(sources):
        if not len(source):
            raise UsageError(f"source {index} has no tokens, expected the end of sentence at least")
    if not sources:
        return []
    if options.semantics != "hf" or options.sampling:
        saved = None
    constraints = Constraints(model, options, sources, prefixes, hooks, None if saved is None else saved.ends)
    rule: Rule
    if options.sampling:
        rule = SamplingRule(model, options, constraints, sources)
    elif options.semantics == "fairseq":
        rule = FairseqRule(model, options, constraints)
    elif options.semantics == "hf":
        process = None if saved is None else saved.process(sources, constraints.limits, model.device)
        made = HfGroupRule if options.groups > 1 else HfBeamRule
        rule = made(model, options, constraints.limits, process, ends=constraints.ends)
    else:
        rule = PaperRule(model, options, constraints)
    beams = Beams.begin(len(sources), model.start, model.device)

    def prepare(t: int, beams: Beams, out: Tensor | Parts) -> Step:
        passed(sum(t < len(source) for source in sources))
        return constraints.apply(t, beams, out)

    return run(model, model.encode(sources), beams, prepare, rule)


def run(
    model: StepModel, state: Any, beams: Beams, prepare: Callable[[int, Beams, Tensor | Parts], Step], rule: Rule
) -> list[list[Candidate]]:
    """The loop: one network step, scores made ready, one choice, until all sentences are done.

    A ``RowModel`` is asked for distinct prefixes only; any other model computes every slot of the beam.
    """
    by_row = model if isinstance(model, RowModel) else None
    t = 0
    while True:
        out: Tensor | Parts
        if by_row is None:
            out = model.step(state, beams.tokens[:, :, -1])
        else:
            out = by_row.step_rows(state, beams.last_tokens())
        step = prepare(t, beams, out)
        choice = rule.advance(step, beams)
        beams.extend(step, choice)
        kept = [position for position, done in enumerate(choice.done) if not done]
        if not kept:
            return rule.results()
        positions = beams.keep(kept)
        parents, rows = choice.parents, beams.layout.rows
        if len(kept) < len(choice.done):
            parents, rows = parents[positions], rows[positions]
        if by_row is None or far(model.device):  # how many prefixes are distinct would be worth a wait
            beams.layout = Layout.dense(len(parents), parents.shape[1], parents.device)
            model.reorder(state, positions, parents)
        else:
            beams.layout, continued = Layout.shared(
                rows.gather(1, parents), beams.tokens[:, :, -1], beams.cum > NEVER, model.vocab_size
            )
            by_row.select_rows(state, positions, continued, beams.layout.owners)
        t += 1
