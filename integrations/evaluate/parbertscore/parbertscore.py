"""parBERTScore for Hugging Face evaluate."""

from __future__ import annotations

import evaluate

from polyref.metrics.hugging_face import EvaluateModule

_DESCRIPTION = """\
BERTScore with any number of references: human ones and paraphrases.
The default encoder is the small English one in the package, which needs no download.
"""

_CITATION = r"""\
@inproceedings{zhang-etal-2020-bertscore,
    title = "{BERTS}core: Evaluating Text Generation with {BERT}",
    author = "Zhang, Tianyi and Kishore, Varsha and Wu, Felix and Weinberger, Kilian Q. and Artzi, Yoav",
    booktitle = "Proceedings of ICLR",
    year = "2020",
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
    **options: The fields of polyref's BERTScore, such as `model='roberta-large'` (a hub name or a folder),
        `layer=17`, `idf='human'`, or `combine='mean'`.
Returns:
    score: The score of all predictions, up to 1, higher is better.
    segments: The scores of the predictions, if they are asked for.
    name: What the score is called: par... where added references took part.
    k: The largest number of added references of a prediction.
    references: Fewest and most references of a prediction.
    signature: What determines the score.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class ParBERTScore(EvaluateModule, evaluate.Metric):
    """See above."""

    metric = "bertscore"
    texts = (_DESCRIPTION, _CITATION, _KWARGS_DESCRIPTION)
