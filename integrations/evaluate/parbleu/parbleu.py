"""parBLEU for Hugging Face evaluate."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

import polyref

_DESCRIPTION = """\
BLEU with any number of references: human ones and paraphrases (Bawden et al. 2020).
Without paraphrases it is sacreBLEU's score, to the last digit.
"""

_CITATION = r"""\
@inproceedings{papineni-etal-2002-bleu,
    title = "{B}leu: a Method for Automatic Evaluation of Machine Translation",
    author = "Papineni, Kishore and Roukos, Salim and Ward, Todd and Zhu, Wei-Jing",
    booktitle = "Proceedings of ACL",
    year = "2002",
}
@inproceedings{bawden-etal-2020-parbleu,
    title = "{P}ar{BLEU}: Augmenting Metrics with Automatic Paraphrases for the {WMT}'20 Metrics Shared Task",
    author = {Bawden, Rachel and Zhang, Biao and T{\"a}ttar, Andre and Post, Matt},
    booktitle = "Proceedings of WMT",
    year = "2020",
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: Texts to score.
    references: The reference of every prediction, or the list of its references. Lists need not be of one length.
    paraphrases: The list of the added references of every prediction, such as `polyref augment` makes.
    k: Use the first k added references of every prediction. None uses all.
    segments: Also return the score of every prediction.
    **options: The fields of polyref's BLEU, such as `tokenize='zh'`, `lowercase=True`, or `combine='mean'`.
Returns:
    score: The score of all predictions, 0 to 100, higher is better.
    segments: The scores of the predictions, if they are asked for.
    name: What the score is called: par... where added references took part.
    k: The largest number of added references of a prediction.
    references: Fewest and most references of a prediction.
    signature: What determines the score.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class ParBLEU(evaluate.Metric):
    """See above."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(
        self,
        predictions: list[str],
        references: list[str] | list[list[str]],
        paraphrases: list[list[str]] | None = None,
        k: int | None = None,
        segments: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        human = [[texts] if isinstance(texts, str) else texts for texts in references]
        found = polyref.score(
            predictions,
            polyref.ReferenceSet.from_texts(human, paraphrases=paraphrases),
            polyref.get_metric("bleu", **options),
            k,
        )
        # Without k there are two results: no added reference, and all of them.
        row = found.rows[-1]
        result = {"score": row["score"], **{name: row[name] for name in row if name not in ("system", "metric")}}
        if segments:
            result["segments"] = [one["score"] for one in found.segment.rows[-len(predictions) :]]
        return result
