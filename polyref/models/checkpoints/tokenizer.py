"""Tokenisers of Hugging Face directories, held to what polyref needs of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from polyref.errors import ModelError, UsageError
from polyref.languages import is_language, resolve
from polyref.models.checkpoints.automodel import from_folder
from polyref.models.checkpoints.vocabulary import TextCodec

if TYPE_CHECKING:
    # Metrics that import this module say what options they have without loading torch.
    from polyref.models.networks.transformer import Transformer

#: What no vocabulary has: a character that some normalisers remove, one that none does, and too long a word.
_UNKNOWN: Final = "\U0010fffd \U00012000 " + 200 * "\U00012000"
#: A language tag of the MADLAD kind.
_SOURCE_TAG: Final = re.compile(r"<2([a-z]{2,3}(?:_[A-Za-z]+)?)>")
#: More tokens than any text has. Without a limit, tokenisers warn of long texts.
_ANY: Final = 1 << 30


class HuggingFaceCodec:
    """A Hugging Face tokeniser: source and target texts, and the language codes of multilingual models.

    Args:
        tokenizer: The tokeniser.
        source_tags: Whether tokens such as ``<2de>`` (T5 of the MADLAD kind) are language tags. They go before the
            source, and name the language that is to be written.

    Attributes:
        source_tags: Language code to such a token; empty where there are none.
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
        """Source token ids with the end of sentence.

        Multilingual models mark the source with ``lang``: the language it is in, or with ``source_tags`` the one to
        write.
        """
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
        """Target token ids with the end of sentence, without the tag of ``lang``."""
        if self._codes and lang is not None:
            code = resolve(lang, self.languages)
            if self.marks_source:
                self._tokenizer.tgt_lang = code
        encoded = self._tokenizer(text_target=text, truncation=True, max_length=_ANY)["input_ids"]
        tags = set(self._codes.values())
        return [int(token) for token in encoded if token not in tags]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens, without special tokens and tags."""
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
        """Id of a target token, None if there is no such token."""
        known = self._vocabulary().get(token)
        return None if known is None else int(known)

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text, without tags and the end of sentence; unknown ones are spelled out."""
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


def load_codec(directory: str | Path, network: Transformer) -> TextCodec:
    """The tokeniser of a Hugging Face directory."""
    tokenizer = load_tokenizer(directory)
    if tokenizer.unk_token_id is not None:
        network.unk = int(tokenizer.unk_token_id)
    return HuggingFaceCodec(tokenizer)


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
