"""parCHRF for Hugging Face evaluate."""

from __future__ import annotations

import evaluate

from polyref.metrics.hugging_face import EvaluateModule

_DESCRIPTION = """\
chrF and chrF++ with any number of references: human ones and paraphrases.
Without paraphrases it is sacreBLEU's score, to the last digit.
"""

_CITATION = r"""\
@inproceedings{popovic-2015-chrf,
    title = "chr{F}: character n-gram {F}-score for automatic {MT} evaluation",
    author = "Popovi{\'c}, Maja",
    booktitle = "Proceedings of WMT",
    year = "2015",
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
    **options: The fields of polyref's chrF, such as `word_order=2` (chrF++), `beta=3`, or `combine='mean'`.
Returns:
    score: The score of all predictions, 0 to 100, higher is better.
    segments: The scores of the predictions, if they are asked for.
    name: What the score is called: par... where added references took part.
    k: The largest number of added references of a prediction.
    references: Fewest and most references of a prediction.
    signature: What determines the score.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class ParCHRF(EvaluateModule, evaluate.Metric):
    """See above."""

    metric = "chrf"
    texts = (_DESCRIPTION, _CITATION, _KWARGS_DESCRIPTION)
