"""From text to token ids and back: fairseq dictionaries over SentencePiece, and Hugging Face tokenisers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from polyref.errors import DataError, ModelError, UsageError
from polyref.languages import is_language, resolve
from polyref.textfiles import iter_lines

if TYPE_CHECKING:
    import sentencepiece


def squeezed(text: str) -> str:
    """A text with one space for every white space, and none at its ends."""
    return " ".join(text.split())


class SentencePieceCodec:
    """A SentencePiece vocabulary as a :class:`Codec`; white space is squeezed, control tokens never appear."""

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, eos: int) -> None:
        self.spm = spm
        self.eos = eos

    def encode(self, text: str) -> list[int]:
        """Pieces and the end of sentence."""
        ids: list[int] = self.spm.encode(squeezed(text))
        return [*ids, self.eos]

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text, unknown ones spelled out."""
        return [str(piece) for piece in self.spm.encode_as_pieces(squeezed(text))]

    def symbols(self) -> list[str]:
        """Pieces by id."""
        return [str(self.spm.id_to_piece(token)) for token in range(self.spm.get_piece_size())]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text; unknown pieces are left out rather than shown as a placeholder."""
        kept = [t for t in tokens if t != self.eos and not self.spm.is_unknown(t) and not self.spm.is_control(t)]
        return squeezed(self.spm.decode(kept))


#: Tokens that every fairseq dictionary starts with, before the lines of its file.
FAIRSEQ_SPECIALS: Final = ("<s>", "<pad>", "</s>", "<unk>")
_TAG = re.compile(r"<([a-z]{2,3}(?:[_-][A-Za-z]+)?)>")


def language_of(token: str) -> str | None:
    """The language that a token such as ``<en>`` is the tag of; None for others, ``<url>`` and ``<num>`` among them."""
    found = _TAG.fullmatch(token)
    return found[1] if found and is_language(found[1]) else None


class TextCodec(Protocol):
    """Text to source ids, target ids and language tags of one model, and target ids back to text.

    Attributes:
        languages: Codes the model accepts, sorted; empty if it has none.
    """

    languages: tuple[str, ...]

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        """Source token ids, with the end of sentence."""

    def beginning(self, text: str, longest: int, lang: str | None = None) -> list[int]:
        """The first ``longest`` source token ids of a text that has more, ended as the whole is."""

    def encode_target(self, text: str, lang: str | None = None) -> list[int]:
        """Target token ids, with the end of sentence, without any language tag."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens; special tokens and language tags are left out."""

    def prefix(self, lang: str | None) -> list[int]:
        """Forced first target tokens for ``lang`` (empty where the model has no tags)."""

    def token(self, token: str) -> int | None:
        """Id of a target token, None if there is no such token."""

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text, without tags and the end of sentence; unknown ones are spelled out."""

    def symbols(self) -> list[str]:
        """Target tokens by id."""


class LanguageCodec:
    """A codec of the languages that a model of several reads and writes.

    Args:
        codec: Of the model.
        lang: The language that it writes; None where the model knows of none.
        reads: The language that it reads, where that is another one.
    """

    def __init__(self, codec: TextCodec, lang: str | None, reads: str | None = None) -> None:
        self.codec = codec
        #: Whether sources say which language they are in.
        self.marks_source = bool(lang) and getattr(codec, "marks_source", False)
        # MADLAD's sources say what is to be written, those of others what is read.
        self.lang = lang if getattr(codec, "source_tags", None) else reads or lang

    def encode(self, text: str) -> list[int]:
        """Source token ids."""
        return self.codec.encode(text, self.lang)

    def beginning(self, text: str, longest: int) -> list[int]:
        """The first source token ids of a text that has more than ``longest``, ended as the whole is."""
        return self.codec.beginning(text, longest, self.lang)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens."""
        return self.codec.decode(tokens)


def first_tokens(codec: TextCodec, lang: str | None, prefix: str | None) -> list[int]:
    """First target tokens: the token ``prefix``, the tag of the language, or none where the model has no tags."""
    if prefix is None:
        return codec.prefix(lang) if codec.languages else []
    known = codec.token(prefix)
    if known is None:
        raise UsageError(f"`prefix` is {prefix!r}, expected a token of the model's vocabulary")
    return [known]


class FairseqDictionary:
    """A ``dict.*.txt``: the four special tokens, then one ``token count`` a line.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.symbols = list(FAIRSEQ_SPECIALS)
        self.index = {symbol: number for number, symbol in enumerate(self.symbols)}
        for number, line in enumerate(iter_lines(path), 1):
            body = line.removesuffix(" #fairseq:overwrite")
            symbol, separator, count = body.rpartition(" ")
            if not separator or not count.lstrip("-").isdigit():
                raise DataError(f"found {line!r}, expected a token, a space and its count", file=path, line=number)
            # A file may redefine a token on purpose, marked as such; the last definition counts.
            if symbol in self.index and body == line:
                raise DataError(f"token {symbol!r} is there twice", file=path, line=number)
            self.index[symbol] = len(self.symbols)
            self.symbols.append(symbol)

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def pad(self) -> int:
        """The padding token."""
        return 1

    @property
    def eos(self) -> int:
        """The end of sentence."""
        return 2

    @property
    def unk(self) -> int:
        """The unknown token."""
        return 3

    def tags(self) -> dict[str, int]:
        """Language tags: tokens like ``<en>``, by language code."""
        found = ((language_of(symbol), number) for symbol, number in self.index.items())
        return {code: number for code, number in found if code and number >= len(FAIRSEQ_SPECIALS)}


def load_sentencepiece(path: Path) -> Any:
    """A SentencePiece processor."""
    import sentencepiece

    if not path.is_file():
        raise ModelError("no such file", file=path, remedy="a fairseq directory holds its SentencePiece model here")
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(path.read_bytes())
    except RuntimeError as error:
        raise ModelError(f"no SentencePiece model: {error}", file=path) from None
    return processor


class FairseqCodec:
    """SentencePiece pieces looked up in fairseq dictionaries; unknown pieces become ``<unk>``.

    Args:
        pieces: SentencePiece processor.
        source: Source dictionary.
        target: Target dictionary.
        languages: Codes to accept; by default those with a tag in the target dictionary.
    """

    def __init__(
        self,
        pieces: Any,
        source: FairseqDictionary,
        target: FairseqDictionary,
        languages: Sequence[str] | None = None,
    ) -> None:
        self._pieces = pieces
        self.source = source
        self.target = target
        self._tags = target.tags()
        self.languages = tuple(sorted(self._tags if languages is None else set(languages) & set(self._tags)))
        self._hidden = set(range(3)) | set(self._tags.values())

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        """Source token ids, with the end of sentence; the source carries no tag."""
        return self._ids(text, self.source)

    def beginning(self, text: str, longest: int, lang: str | None = None) -> list[int]:
        """The first ``longest`` source token ids, with the end of sentence."""
        tokens = self.encode(text, lang)
        return [*tokens[: longest - 1], tokens[-1]]

    def encode_target(self, text: str, lang: str | None = None) -> list[int]:
        """Target token ids, with the end of sentence, without the tag."""
        return self._ids(text, self.target)

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text; unknown ones are spelled out."""
        return [str(piece) for piece in self._pieces.EncodeAsPieces(text)]

    def symbols(self) -> list[str]:
        """The target dictionary by id."""
        return list(self.target.symbols)

    def _ids(self, text: str, dictionary: FairseqDictionary) -> list[int]:
        return [*(dictionary.index.get(p, dictionary.unk) for p in self._pieces.EncodeAsPieces(text)), dictionary.eos]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens; tags and special tokens are left out, ``<unk>`` is written out."""
        pieces = [self.target.symbols[token] for token in tokens if token not in self._hidden]
        return "".join(pieces).replace("▁", " ").strip()

    def token(self, token: str) -> int | None:
        """Id of a token of the target dictionary, None if there is no such token."""
        return self.target.index.get(token)

    def prefix(self, lang: str | None) -> list[int]:
        """The tag of ``lang``."""
        if not self.languages:
            if lang is None:
                return []
            raise UsageError(f"language {lang!r} was named, but the model has no language tags")
        return [self._tags[resolve(lang, self.languages)]]
