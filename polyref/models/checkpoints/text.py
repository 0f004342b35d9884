"""From text to token ids and back: SentencePiece, fairseq, Hugging Face; random segmentations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from polyref.errors import DataError, ModelError, UsageError
from polyref.languages import is_language, resolve
from polyref.models.opening import from_folder
from polyref.textfiles import iter_lines

if TYPE_CHECKING:
    import sentencepiece


def squeezed(text: str) -> str:
    """A text with one space for every white space, and none at its ends."""
    return " ".join(text.split())


class SentencePieceCodec:
    """A SentencePiece vocabulary, the same on both sides, without language tags.

    White space is squeezed, and control tokens never appear.
    """

    def __init__(self, spm: sentencepiece.SentencePieceProcessor, eos: int, languages: tuple[str, ...] = ()) -> None:
        self.spm = spm
        self.eos = eos
        self.languages = languages

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        ids: list[int] = self.spm.encode(squeezed(text))
        return [*ids, self.eos]

    encode_target = encode

    def prefix(self, lang: str | None) -> list[int]:
        return []

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        return [str(piece) for piece in self.spm.encode_as_pieces(squeezed(text))]

    def symbols(self) -> list[str]:
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

    ``languages``: codes the model accepts, sorted; empty if it has none.
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
    """A codec of what a model of several languages reads (None: what it writes) and writes."""

    def __init__(self, codec: TextCodec, lang: str | None, reads: str | None = None) -> None:
        self.codec = codec
        #: Whether sources say which language they are in.
        self.marks_source = bool(lang) and getattr(codec, "marks_source", False)
        # MADLAD's sources say what is to be written, those of others what is read.
        self.lang = lang if getattr(codec, "source_tags", None) else reads or lang

    def encode(self, text: str) -> list[int]:
        return self.codec.encode(text, self.lang)

    def beginning(self, text: str, longest: int) -> list[int]:
        return self.codec.beginning(text, longest, self.lang)

    def decode(self, tokens: Sequence[int]) -> str:
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
    """A ``dict.*.txt``: the four special tokens, then one ``token count`` a line."""

    pad, eos, unk = 1, 2, 3

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

    ``languages`` are accepted; by default those with a tag in the target dictionary.
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
        return self._ids(text, self.source)

    def beginning(self, text: str, longest: int, lang: str | None = None) -> list[int]:
        tokens = self.encode(text, lang)
        return [*tokens[: longest - 1], tokens[-1]]

    def encode_target(self, text: str, lang: str | None = None) -> list[int]:
        return self._ids(text, self.target)

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        return [str(piece) for piece in self._pieces.EncodeAsPieces(text)]

    def symbols(self) -> list[str]:
        return list(self.target.symbols)

    def _ids(self, text: str, dictionary: FairseqDictionary) -> list[int]:
        return [*(dictionary.index.get(p, dictionary.unk) for p in self._pieces.EncodeAsPieces(text)), dictionary.eos]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens; tags and special tokens are left out, ``<unk>`` is written out."""
        pieces = [self.target.symbols[token] for token in tokens if token not in self._hidden]
        return "".join(pieces).replace("▁", " ").strip()

    def token(self, token: str) -> int | None:
        return self.target.index.get(token)

    def prefix(self, lang: str | None) -> list[int]:
        if not self.languages:
            if lang is None:
                return []
            raise UsageError(f"language {lang!r} was named, but the model has no language tags")
        return [self._tags[resolve(lang, self.languages)]]


#: What no vocabulary has: a character that some normalisers remove, one that none does, and too long a word.
_UNKNOWN: Final = "\U0010fffd \U00012000 " + 200 * "\U00012000"
#: A language tag of the MADLAD kind.
_SOURCE_TAG: Final = re.compile(r"<2([a-z]{2,3}(?:_[A-Za-z]+)?)>")
#: More tokens than any text has. Without a limit, tokenisers warn of long texts.
_ANY: Final = 1 << 30


class HuggingFaceCodec:
    """A Hugging Face tokeniser: source and target texts, and the language codes of multilingual models.

    Attributes:
        source_tags: Language code to a token such as ``<2de>`` (T5 of the MADLAD kind), which goes before the source
            and names the language that is to be written; empty unless asked for.
        marks_source: Whether sources say which language they are in.
        tag_starts: Whether the language's tag is the decoder's first input instead of its first output.
    """

    def __init__(self, tokenizer: Any, *, source_tags: bool = False) -> None:
        self._tokenizer = tokenizer
        self._codes = language_codes(tokenizer)
        self.source_tags: dict[str, str] = {}
        if source_tags and not self._codes:
            found = (_SOURCE_TAG.fullmatch(token) for token in tokenizer.get_vocab())
            self.source_tags = {tag[1]: tag[0] for tag in found if tag and is_language(tag[1])}
        self.marks_source = hasattr(tokenizer, "src_lang")
        # The first mBART starts its decoder with the tag; its successors force it as the first token.
        self.tag_starts = type(tokenizer).__name__ == "MBartTokenizer"
        self.languages = tuple(sorted(self._codes or self.source_tags))

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        """Source token ids with the end of sentence; ``lang`` is the text's, or with ``source_tags`` that to write."""
        return self._source(text, lang, _ANY)

    def beginning(self, text: str, longest: int, lang: str | None = None) -> list[int]:
        """The first ``longest`` source token ids, the special ones included, as the tokeniser itself cuts a text."""
        return self._source(text, lang, longest)

    def _source(self, text: str, lang: str | None, longest: int) -> list[int]:
        if self.source_tags and lang is not None:
            text = f"{self.source_tags[resolve(lang, self.languages)]} {text}"
        if self._codes and lang is not None:
            code = resolve(lang, self.languages)
            if self.marks_source:
                self._tokenizer.src_lang = code
        return [int(token) for token in self._tokenizer(text, truncation=True, max_length=longest)["input_ids"]]

    def encode_target(self, text: str, lang: str | None = None) -> list[int]:
        if self._codes and lang is not None:
            code = resolve(lang, self.languages)
            if self.marks_source:
                self._tokenizer.tgt_lang = code
        encoded = self._tokenizer(text_target=text, truncation=True, max_length=_ANY)["input_ids"]
        tags = set(self._codes.values())
        return [int(token) for token in encoded if token not in tags]

    def decode(self, tokens: Sequence[int]) -> str:
        tags = set(self._codes.values())
        kept = [int(token) for token in tokens if token not in tags]
        return str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip()

    def prefix(self, lang: str | None) -> list[int]:
        """The tag of ``lang``, forced as the first target token; none where the source has it."""
        if self.source_tags:
            resolve(lang, self.languages)
            return []
        if not self._codes:
            if lang is None:
                return []
            raise UsageError(f"language {lang!r} was named, but the model has no language codes")
        return [self._codes[resolve(lang, self.languages)]]

    def token(self, token: str) -> int | None:
        known = self._vocabulary().get(token)
        return None if known is None else int(known)

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        return [str(piece) for piece in self._tokenizer.tokenize(text)]

    def symbols(self) -> list[str]:
        """Target tokens by id; numbers that no token has are empty."""
        vocabulary = self._vocabulary()
        found = [""] * (max(vocabulary.values()) + 1)
        for token, number in vocabulary.items():
            found[number] = token
        return found

    def _vocabulary(self) -> dict[str, int]:
        separate = getattr(self._tokenizer, "separate_vocabs", False)
        return dict(self._tokenizer.target_encoder if separate else self._tokenizer.get_vocab())


def language_codes(tokenizer: Any) -> dict[str, int]:
    """Language codes of a tokeniser (M2M100, mBART, NLLB, converted fairseq) and their token ids; empty for others."""
    tags = tokenizer.init_kwargs.get("language_tags")
    if isinstance(tags, dict):  # written by scripts/convert_model.py
        return {str(code): int(token) for code, token in tags.items()}
    to_token = getattr(tokenizer, "lang_code_to_token", None)
    if to_token:  # M2M100: "en" stands for "__en__"
        return {code: int(tokenizer.convert_tokens_to_ids(token)) for code, token in to_token.items()}
    to_id = getattr(tokenizer, "lang_code_to_id", None)
    if to_id:
        return {code: int(number) for code, number in to_id.items()}
    if not hasattr(tokenizer, "src_lang"):
        return {}
    extra = [str(token) for token in getattr(tokenizer, "extra_special_tokens", None) or []]
    return {token: int(tokenizer.convert_tokens_to_ids(token)) for token in extra if "_" in token and token[0] != "<"}


def load_tokenizer(directory: str | Path, **options: Any) -> Any:
    """The tokeniser of a Hugging Face directory, from its files alone; with options of its class."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")  # for a method nobody calls
            found = from_folder("AutoTokenizer", directory, **options)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(
            f"no tokeniser that can be loaded: {reason}", file=directory, remedy=_tokenizer_remedy(Path(directory))
        ) from None
    _check_tokenizer(found, directory)
    return found


def _check_tokenizer(tokenizer: Any, directory: str | Path) -> None:
    """Refuse a tokeniser without words: what Transformers makes of a folder that holds the network alone."""
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ModelError(
            f"no vocabulary: its tokeniser knows {len(tokenizer.get_vocab())} special tokens and no others",
            file=directory,
            remedy="save the tokeniser into the same folder: tokenizer.save_pretrained",
        )
    try:
        tokenizer(_UNKNOWN)
    except Exception as error:  # tokenizers knows this type alone
        raise ModelError(
            f"its tokeniser fails at unknown characters: {error}",
            file=directory,
            remedy="give it an unknown token that its vocabulary holds",
        ) from None


def _tokenizer_remedy(directory: Path) -> str | None:
    """Transformers asks for another package when it is the reader of SentencePiece files that is missing."""
    from transformers.utils import is_protobuf_available

    slow = any((directory / name).is_file() for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"))
    if slow and not (directory / "tokenizer.json").is_file() and not is_protobuf_available():
        return "Transformers needs protobuf to read this model's SentencePiece file: pip install protobuf"
    return None


#: What an unknown piece costs beyond the least likely known one, as in SentencePiece's own lattice.
_UNKNOWN_PIECE = 10.0


class Segmenter:
    """The segmentations of one model.

    Args:
        pieces: SentencePiece processor of a unigram model.
        to_ids: Pieces to token ids, for ``source`` and ``target``.
        prepare: What the model's codec does to a text first.
    """

    def __init__(
        self,
        pieces: Any,
        to_ids: Callable[[str, Sequence[str]], list[int]],
        prepare: Callable[[str], str] = str,
    ) -> None:
        self._pieces = pieces
        self._to_ids = to_ids
        self._prepare = prepare
        self._least: float | None = None

    def sample(
        self,
        side: str,
        text: str,
        whole: Sequence[int],
        *,
        count: int,
        alpha: float,
        nbest: int,
        rng: np.random.Generator,
    ) -> list[list[int]]:
        """``count`` segmentations of a text as token ids, drawn with replacement from its ``nbest`` best.

        ``whole`` are its usual token ids, whose special tokens are kept around the pieces. Of ``alpha``, 0 draws the
        best ones alike, and larger values prefer likely ones.
        """
        try:
            found = self._pieces.NBestEncodeAsPieces(self._prepare(text), nbest)
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            raise UsageError(
                f"segmentations cannot be sampled, expected a SentencePiece unigram model: {reason}"
            ) from None
        # Different pieces can be the same ids (unknown ones): still different draws.
        rows = [self._to_ids(side, pieces) for pieces in found]
        around = _around(whole, rows[0] if rows else [])
        if around is None:
            raise UsageError(
                f"segmentations of {text!r} cannot be sampled: the tokeniser changes it before it cuts it into pieces",
                remedy="does it hold a special token, such as </s>? Remove it, or do not sample segmentations",
            )
        before, after = around
        if not rows or not rows[0]:
            return [list(whole)] * count
        scores = alpha * np.array([self._score(pieces) for pieces in found])
        shares = np.exp(scores - scores.max())
        drawn = rng.choice(len(rows), size=count, p=shares / shares.sum())
        return [[*before, *rows[index], *after] for index in drawn]

    def _score(self, pieces: Sequence[str]) -> float:
        ids = [self._pieces.PieceToId(piece) for piece in pieces]
        return sum(self._unknown() if self._pieces.IsUnknown(i) else self._pieces.GetScore(i) for i in ids)

    def _unknown(self) -> float:
        if self._least is None:
            scores = [self._pieces.GetScore(i) for i in range(self._pieces.GetPieceSize())]
            self._least = min(scores) - _UNKNOWN_PIECE
        return self._least


def _around(whole: Sequence[int], part: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """What stands before and after the pieces among a text's token ids: special tokens. None: they are not there."""
    for at in range(len(whole) - len(part) + 1):
        if list(whole[at : at + len(part)]) == list(part):
            return list(whole[:at]), list(whole[at + len(part) :])
    return None
