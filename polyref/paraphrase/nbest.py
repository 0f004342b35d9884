"""What paraphrasers give: n-best lists."""

from __future__ import annotations

from dataclasses import dataclass

from polyref.tables import html_table


@dataclass(frozen=True)
class Hypothesis:
    """One paraphrase.

    Attributes:
        text: Detokenised text.
        score: Length-normalised log-probability under the model, in nats, <= 0, without diversity penalties; of other
            semantics than the paper's, what their list is ranked by. None where the generator has no probabilities.
        tokens: Token ids, with the end of sentence; empty where the generator has no tokens.
        group: Group of the diverse beam that found it.
    """

    text: str
    score: float | None = None
    tokens: tuple[int, ...] = ()
    group: int = 0


@dataclass(frozen=True, repr=False)
class NBest:
    """The paraphrases of one text, best first.

    Attributes:
        text: The text as it was given.
        hypotheses: Distinct texts; fewer than asked for where there are fewer, none for an empty text.
        truncated: Whether the text was longer than the model can read and was cut for generation.
        composed: Whether the paraphrases were put together from those of the sentences.
        failure: Why there are none, where something failed; None where nothing did.
    """

    text: str
    hypotheses: tuple[Hypothesis, ...]
    truncated: bool = False
    composed: bool = False
    failure: str | None = None

    @property
    def paraphrases(self) -> list[str]:
        """The texts of the hypotheses, best first."""
        return [hypothesis.text for hypothesis in self.hypotheses]

    def __repr__(self) -> str:
        cut = ", truncated" if self.truncated else ""
        return f"NBest({self.text!r}: {self.paraphrases!r}{cut})"

    def _repr_html_(self) -> str:
        rows = [(_score(hypothesis.score), hypothesis.text) for hypothesis in self.hypotheses]
        return html_table(("score", self.text), rows)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"
