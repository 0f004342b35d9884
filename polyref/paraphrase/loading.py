"""``load_paraphraser``: from a name or a path to a generator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polyref.errors import ModelError, UsageError
from polyref.paraphrase.paraphraser import DiverseBeam, Paraphraser, SearchParaphraser
from polyref.paraphrase.search import StepHook

if TYPE_CHECKING:
    import sentencepiece

SHIPPED = Path(__file__).parent / "shipped"


def shipped_languages() -> list[str]:
    """Languages with a model in the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "model.safetensors").is_file())


def load_paraphraser(
    name_or_path: str | Path = "shipped", *, device: str = "cpu", threads: int | None = None
) -> Paraphraser:
    """Load a generator.

    Args:
        name_or_path: ``shipped`` (the English model in the package; ``shipped/en`` says so), or a model folder.
        device: A torch device. float32 everywhere.
        threads: Threads of torch (None: leave as they are).

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device is unknown or absent.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    folder = _folder(str(name_or_path))
    from polyref.paraphrase.pointer_files import is_pointer_folder, load_pointer

    if is_pointer_folder(folder):
        model = load_pointer(folder)
        return SearchParaphraser(
            model.network.place(device),
            SentencePieceCodec(model.spm, model.network.eos),
            name=model.name,
            digest=model.digest,
            max_source=model.network.config.max_source,
            languages=[model.language],
            rules=ShippedRules(model.spm, model.network.eos),
            defaults=DiverseBeam(strength=model.strength, closeness=model.network.closeness),
            min_score=model.min_score,
        )
    raise ModelError(
        "is no model folder that polyref knows",
        file=folder,
        remedy="expected config.json, model.safetensors and spm.model as `shipped` has them",
    )


def _folder(name: str) -> Path:
    if match := re.fullmatch(r"shipped(?:/(\w+))?", name):
        language = match[1] or "en"
        if language not in shipped_languages():
            known = ", ".join(f"shipped/{code}" for code in shipped_languages())
            raise ModelError(f"no model {name!r} in the package, expected one of {known}")
        return SHIPPED / language
    folder = Path(name)
    if not folder.is_dir():
        raise ModelError("no such model folder", file=name, remedy="give a folder, or `shipped`")
    return folder


class ShippedRules:
    """The rules of models of the shipped kind: source digits are kept, phrases are not repeated."""

    name = "digits,norepeat4"

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, eos: int) -> None:
        from polyref.paraphrase.hooks import Digits

        self.eos = eos
        self.digits = Digits(spm)

    def hooks(self, sources: Sequence[Sequence[int]]) -> Sequence[StepHook]:
        """The rules for one batch of sources."""
        from polyref.paraphrase.hooks import NoRepeatedPhrases, SourceDigits

        return [NoRepeatedPhrases(4), SourceDigits(self.digits, sources, self.eos)]


class SentencePieceCodec:
    """A SentencePiece vocabulary as a :class:`Codec`; white space is squeezed, control tokens never appear."""

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, eos: int) -> None:
        self.spm = spm
        self.eos = eos

    def encode(self, text: str) -> list[int]:
        """Pieces and the end of sentence."""
        ids: list[int] = self.spm.encode(" ".join(text.split()))
        return [*ids, self.eos]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text; unknown pieces are left out rather than shown as a placeholder."""
        kept = [t for t in tokens if t != self.eos and not self.spm.is_unknown(t) and not self.spm.is_control(t)]
        text: str = self.spm.decode(kept)
        return " ".join(text.split())
