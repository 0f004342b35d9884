"""Texts as the tokens of a model that was converted for CTranslate2, by the tokeniser that it was trained with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from polyref.errors import ModelError
from polyref.json_files import read_json
from polyref.languages import resolve
from polyref.models.checkpoints.text import HuggingFaceCodec, language_of, load_sentencepiece, load_tokenizer

_SENTENCEPIECE: Final = ("source.spm", "spm.model", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")


class Tokens(Protocol):
    """Texts as the tokens of a converted model, and back.

    Attributes:
        languages: Codes of the languages it writes; empty if it has no tags.
    """

    languages: tuple[str, ...]

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        """The tokens of a text, and whether it was cut to ``longest`` of them."""

    def text(self, tokens: Sequence[str]) -> str:
        """The text of target tokens."""

    def tag(self, lang: str) -> str:
        """The token of a language."""


class HuggingFaceTokens:
    """The tokeniser of a Hugging Face folder.

    Args:
        tokenizer: The tokeniser.
        lang: Language to write, which some mark in the source.
        added: Tokens at the ends of a source that CTranslate2 adds itself.
    """

    def __init__(self, tokenizer: Any, lang: str | None, added: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._codec = HuggingFaceCodec(tokenizer)
        self.languages = self._codec.languages
        self._lang = lang if self.languages else None
        self._added = added

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        """See :class:`Tokens`."""
        ids = self._codec.encode(text, self._lang)
        cut = len(ids) > longest
        if cut:
            ids = self._codec.beginning(text, longest, self._lang)
        tokens = [str(token) for token in self._tokenizer.convert_ids_to_tokens(ids)]
        first, last = int(tokens[0] in self._added), len(tokens) - (tokens[-1] in self._added)
        return tokens[first:last], cut

    def text(self, tokens: Sequence[str]) -> str:
        """See :class:`Tokens`."""
        ids = [self._codec.token(token) for token in tokens]
        return self._codec.decode([number for number in ids if number is not None])

    def tag(self, lang: str) -> str:
        """See :class:`Tokens`."""
        (number,) = self._codec.prefix(lang)
        return str(self._tokenizer.convert_ids_to_tokens(number))


class SentencePieceTokens:
    """SentencePiece files.

    Args:
        source: Of the source.
        target: Of the target.
        vocabulary: Target tokens, among them tags such as ``<en>``.
        end: What ends a source; None where CTranslate2 adds it.
    """

    def __init__(self, source: Any, target: Any, vocabulary: Iterable[str], end: str | None) -> None:
        self._source, self._target, self._end = source, target, end
        self._tags = {code: token for token in vocabulary if (code := language_of(token))}
        # Control tokens look like tags, but name no language.
        for name in ("unk", "pad", "eos", "bos", "sep", "cls"):
            self._tags.pop(name, None)
        self.languages = tuple(sorted(self._tags))

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        """See :class:`Tokens`."""
        pieces = [str(piece) for piece in self._source.encode_as_pieces(" ".join(text.split()))]
        cut = len(pieces) >= longest
        return [*pieces[: longest - 1], *([] if self._end is None else [self._end])], cut

    def text(self, tokens: Sequence[str]) -> str:
        """See :class:`Tokens`. What is no piece, such as a tag, is left out."""
        unknown = self._target.unk_id()
        known = [token for token in tokens if self._target.piece_to_id(token) != unknown]
        return str(self._target.decode_pieces(known)).strip()

    def tag(self, lang: str) -> str:
        """See :class:`Tokens`."""
        return self._tags[resolve(lang, self.languages)]


def load_tokens(place: Path, config: dict[str, Any], vocabulary: Sequence[str], lang: str | None) -> Tokens:
    """The tokeniser of a folder or file."""
    end, begin = str(config.get("eos_token", "</s>")), str(config.get("bos_token", "<s>"))
    if place.is_dir() and (place / "tokenizer_config.json").is_file():
        added = [
            token for token, is_added in ((end, "add_source_eos"), (begin, "add_source_bos")) if config.get(is_added)
        ]
        return HuggingFaceTokens(load_tokenizer(place), lang, added)
    files = [place / name for name in _SENTENCEPIECE] if place.is_dir() else [place]
    source = next((file for file in files if file.is_file()), None)
    if source is None:
        raise ModelError(
            "no tokeniser: neither tokenizer_config.json nor a SentencePiece file",
            file=place,
            remedy="copy the tokeniser's files there, or name where they are: ctranslate2:DIR,TOKENISER",
        )
    target = source.with_name("target.spm") if source.name == "source.spm" else source
    pieces = load_sentencepiece(source)
    of_target = load_sentencepiece(target) if target.is_file() else pieces
    return SentencePieceTokens(pieces, of_target, vocabulary, None if config.get("add_source_eos") else end)


def read_vocabulary(folder: Path) -> list[str]:
    """Target tokens by id."""
    for name in ("shared_vocabulary", "target_vocabulary"):
        if (file := folder / f"{name}.json").is_file():
            return [str(token) for token in read_json(file, list)]
        if (file := folder / f"{name}.txt").is_file():  # of earlier versions
            return file.read_text("utf-8").removesuffix("\n").split("\n")
    raise ModelError("no vocabulary: neither shared_vocabulary.json nor target_vocabulary.json", file=folder)
