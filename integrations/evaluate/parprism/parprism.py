"""parPrism for Hugging Face evaluate."""

from __future__ import annotations

import evaluate

from polyref.metrics.hugging_face import EvaluateModule

_DESCRIPTION = """\
Prism with any number of references: how likely an output is as a paraphrase of a reference, and the reverse.
The default model is the small English paraphraser in the package, which needs no download.
"""

_CITATION = r"""\
@inproceedings{thompson-post-2020-automatic,
    title = "Automatic Machine Translation Evaluation in Many Languages via Zero-Shot Paraphrasing",
    author = "Thompson, Brian and Post, Matt",
    booktitle = "Proceedings of EMNLP",
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
    **options: The fields of polyref's Prism, such as `model='FOLDER'` (Prism's own model, a fairseq folder),
        or `combine='mean'`.
Returns:
    score: The score of all predictions, log-probability a token, in nats: at most 0, higher is better.
    segments: The scores of the predictions, if they are asked for.
    name: What the score is called: par... where added references took part.
    k: The largest number of added references of a prediction.
    references: Fewest and most references of a prediction.
    signature: What determines the score.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class ParPrism(EvaluateModule, evaluate.Metric):
    """See above."""

    metric = "prism"
    texts = (_DESCRIPTION, _CITATION, _KWARGS_DESCRIPTION)
