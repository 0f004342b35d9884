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

    from polyref.paraphrase.vocabulary import TextCodec

SHIPPED = Path(__file__).parent / "shipped"
#: Some checkpoints have no limit of their own.
LONGEST_SOURCE = 1024


def shipped_languages() -> list[str]:
    """Languages with a model in the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "model.safetensors").is_file())


def load_paraphraser(
    name_or_path: str | Path = "shipped",
    *,
    device: str = "cpu",
    threads: int | None = None,
    lang: str | None = None,
    prefix: str | None = None,
) -> Paraphraser:
    """Load a generator.

    Args:
        name_or_path: ``shipped`` (the English model in the package; ``shipped/en`` says so), a folder with a model of
            that kind, a fairseq folder (``checkpoint.pt``, ``dict.*.txt``, ``spm.model``; Prism's is one), a Hugging
            Face folder, or a name on the Hugging Face hub (``owner/model``: the only case that uses the network).
        device: A torch device. float32 everywhere.
        threads: Threads of torch (None: leave as they are).
        lang: Language to write, for models of several languages; models of one language check it.
        prefix: First target token of every sentence, such as a tag ``<en>``, instead of that of ``lang``.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device is unknown or absent, ``threads`` is below 1, or the model does not write ``lang``.
    """
    import torch

    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads is {threads}, expected 1 or more")
        torch.set_num_threads(threads)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    name = str(name_or_path)
    folder, shipped_kind = find_model(name)
    if shipped_kind:
        if prefix is not None:
            raise UsageError(f"--prefix is {prefix!r}, but models of the shipped kind take none")
        return _load_pointer(folder, device, lang)
    return _load_checkpoint(name, device, lang, prefix)


def find_model(name: str) -> tuple[Path, bool]:
    """The folder a name stands for, and whether it holds a model of the shipped kind; hub names stay as they are.

    Raises:
        ModelError: It is neither a folder, nor a model of the package, nor like a hub name.
    """
    from polyref.paraphrase.pointer_files import is_pointer_folder

    folder = shipped_folder(name)
    if folder is not None:
        return folder, True
    if is_pointer_folder(Path(name)):
        return Path(name), True
    if not Path(name).is_dir() and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(
            "no such model folder", file=name, remedy="give a folder, `shipped`, or a hub name owner/model"
        )
    return Path(name), False


def shipped_folder(name: str) -> Path | None:
    """The folder of a model of the package, from `shipped` or `shipped/LANGUAGE`; None for any other name.

    Raises:
        ModelError: The package has no model of that language.
    """
    match = re.fullmatch(r"shipped(?:/(\w+))?", name)
    if not match:
        return None
    language = match[1] or "en"
    if language not in shipped_languages():
        known = ", ".join(f"shipped/{code}" for code in shipped_languages())
        raise ModelError(f"no model {name!r} in the package, expected one of {known}")
    return SHIPPED / language


def _load_pointer(folder: Path, device: str, lang: str | None) -> Paraphraser:
    from polyref.paraphrase.pointer_files import load_pointer

    model = load_pointer(folder)
    if lang not in (None, model.language):
        raise UsageError(f"{model.name} writes {model.language}, not {lang!r}", remedy="choose another --model")
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


def _load_checkpoint(name: str, device: str, lang: str | None, prefix: str | None) -> Paraphraser:
    from polyref.paraphrase.checkpoints import is_fairseq_directory, load_checkpoint, locate
    from polyref.paraphrase.hf_checkpoints import FAMILIES, read_config

    folder = locate(name)
    if not is_fairseq_directory(folder) and read_config(folder).get("model_type") not in FAMILIES:
        return _load_transformers(folder, name, device, prefix)
    model = load_checkpoint(folder, device=device)
    return SearchParaphraser(
        model.network,
        LanguageCodec(model.codec, lang if model.codec.languages else None),
        name=model.name if Path(name).is_dir() else name,
        digest=model.fingerprint[:12],
        max_source=min(model.network.max_source, LONGEST_SOURCE),
        languages=model.codec.languages,
        prefix=_prefix(model.codec, lang, prefix),
    )


def _load_transformers(folder: Path, name: str, device: str, prefix: str | None) -> Paraphraser:
    """Any other encoder-decoder (T5 and so on), through its own forward."""
    from polyref.paraphrase.hf import HuggingFaceModel
    from polyref.paraphrase.hf_checkpoints import HuggingFaceCodec, fingerprint, load_tokenizer, load_transformers

    codec = HuggingFaceCodec(load_tokenizer(folder), LONGEST_SOURCE)
    model = load_transformers(folder)
    return SearchParaphraser(
        HuggingFaceModel(model.to(device).eval()),
        LanguageCodec(codec, None),
        name=folder.resolve().name if Path(name).is_dir() else name,
        digest=fingerprint(folder)[:12],
        max_source=LONGEST_SOURCE,
        prefix=_prefix(codec, None, prefix),
    )


def _prefix(codec: TextCodec, lang: str | None, token: str | None) -> list[int]:
    """First target tokens: the named token, the tag of the language, or none where the model has no tags."""
    if token is None:
        return codec.prefix(lang) if codec.languages else []
    known = codec.token(token)
    if known is None:
        raise UsageError(f"--prefix is {token!r}, expected a token of the model's vocabulary")
    return [known]


class LanguageCodec:
    """A codec of one language of a model of several."""

    def __init__(self, codec: TextCodec, lang: str | None) -> None:
        self.codec = codec
        self.lang = lang

    def encode(self, text: str) -> list[int]:
        """Source token ids."""
        return self.codec.encode(text, self.lang)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens."""
        return self.codec.decode(tokens)


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
