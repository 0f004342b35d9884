"""Metrics for Hugging Face evaluate: what the modules in ``integrations/evaluate`` have in common.

Evaluate copies the one file of a module, so that the rest has to come from an installed package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from polyref.metrics.api import score
from polyref.metrics.registry import get_metric
from polyref.references import ReferenceSet


class EvaluateModule:
    """A metric as a module for evaluate: derive it from this class and then ``evaluate.Metric``.

    Attributes:
        metric: Name of the metric.
        texts: Description, citation and description of the arguments, as evaluate shows them.
    """

    metric: ClassVar[str]
    texts: ClassVar[tuple[str, str, str]]

    def _info(self) -> Any:
        import datasets
        import evaluate

        text = datasets.Value("string")
        description, citation, arguments = self.texts
        return evaluate.MetricInfo(
            description=description,
            citation=citation,
            inputs_description=arguments,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[str] | Sequence[Sequence[str]],
        paraphrases: Sequence[Sequence[str]] | None = None,
        k: int | None = None,
        segments: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """The arguments are those that the modules describe."""
        human = [[texts] if isinstance(texts, str) else texts for texts in references]
        added = ReferenceSet.from_texts(human, paraphrases=paraphrases)
        found = score(predictions, added, get_metric(self.metric, **options), k)
        # Without k there are two results: no added reference, and all of them.
        row = found.rows[-1]
        result = {"score": row["score"], **{name: row[name] for name in row if name not in ("system", "metric")}}
        if segments:
            result["segments"] = [one["score"] for one in found.segment.rows[-len(predictions) :]]
        return result
