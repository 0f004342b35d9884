"""The generator ``ctranslate2``: models converted for CTranslate2, and the tokenisers they come with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from polyref.errors import ModelError, UsageError
from polyref.json_files import read_json
from polyref.languages import resolve
from polyref.models.checkpoints.text import HuggingFaceCodec, language_of, load_sentencepiece, load_tokenizer
from polyref.models.device import torch_device
from polyref.models.opening import LONGEST_SOURCE, hash_files
from polyref.paraphrase.decoding import WINDOW, Decoding, DiverseBeam, check_k
from polyref.paraphrase.loading import LoadingOptions, told_dtype
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.search import SearchOptions
from polyref.paraphrase.search_paraphraser import DIGITS, ROOM, read_as, written
from polyref.progress import work

_SENTENCEPIECE: Final = ("source.spm", "spm.model", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")


class Tokens(Protocol):
    """Texts as the tokens of a converted model, and back."""

    languages: tuple[str, ...]  # codes of the languages it writes; empty if it has no tags

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        """The tokens of a text, and whether it was cut to ``longest`` of them."""

    def text(self, tokens: Sequence[str]) -> str:
        """The text of target tokens."""

    def tag(self, lang: str) -> str:
        """The token of a language."""


class HuggingFaceTokens:
    """The tokeniser of a Hugging Face folder; CTranslate2 itself adds the ``added`` tokens at the ends of a source."""

    def __init__(self, tokenizer: Any, lang: str | None, added: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._codec = HuggingFaceCodec(tokenizer)
        self.languages = self._codec.languages
        self._lang = lang if self.languages else None
        self._added = added

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        ids = self._codec.encode(text, self._lang)
        cut = len(ids) > longest
        if cut:
            ids = self._codec.beginning(text, longest, self._lang)
        tokens = [str(token) for token in self._tokenizer.convert_ids_to_tokens(ids)]
        first, last = int(tokens[0] in self._added), len(tokens) - (tokens[-1] in self._added)
        return tokens[first:last], cut

    def text(self, tokens: Sequence[str]) -> str:
        ids = [self._codec.token(token) for token in tokens]
        return self._codec.decode([number for number in ids if number is not None])

    def tag(self, lang: str) -> str:
        (number,) = self._codec.prefix(lang)
        return str(self._tokenizer.convert_ids_to_tokens(number))


class SentencePieceTokens:
    """SentencePiece files."""

    def __init__(self, source: Any, target: Any, vocabulary: Iterable[str], end: str | None) -> None:
        self._source, self._target, self._end = source, target, end
        self._tags = {code: token for token in vocabulary if (code := language_of(token))}
        # Control tokens look like tags, but name no language.
        for name in ("unk", "pad", "eos", "bos", "sep", "cls"):
            self._tags.pop(name, None)
        self.languages = tuple(sorted(self._tags))

    def source(self, text: str, longest: int) -> tuple[list[str], bool]:
        pieces = [str(piece) for piece in self._source.encode_as_pieces(" ".join(text.split()))]
        cut = len(pieces) >= longest
        return [*pieces[: longest - 1], *([] if self._end is None else [self._end])], cut

    def text(self, tokens: Sequence[str]) -> str:
        """What is no piece, such as a tag, is left out."""
        unknown = self._target.unk_id()
        known = [token for token in tokens if self._target.piece_to_id(token) != unknown]
        return str(self._target.decode_pieces(known)).strip()

    def tag(self, lang: str) -> str:
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


_DTYPES: Final = {"float32": "float32", "int8": "int8_float32", "bfloat16": "bfloat16", "float16": "float16"}
_POSITIONS: Final = re.compile(r"No position encodings are defined for positions >= (\d+)")
#: Options of the search that CTranslate2 has as well.
_KNOWN: Final = frozenset({"beam", "nbest", "lenpen", "min_len", "max_len_a", "max_len_b", "no_repeat_ngram", "fixed"})


class CTranslate2Paraphraser(Paraphraser):
    """Paraphrases by CTranslate2's beam search."""

    single_sentences = True

    def __init__(
        self,
        translator: Any,
        tokens: Tokens,
        vocabulary: Sequence[str],
        end: str,
        *,
        name: str,
        digest: str,
        lang: str | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._translator = translator
        self._tokens = tokens
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self._end = end
        self._prefix = list(prefix)
        self._longest = LONGEST_SOURCE
        self.name = name
        self.signature = f"{name}|sha:{digest}{written(lang, tokens.languages, prefix)}"
        self.languages = tokens.languages
        self.lang = lang

    def settle(self, decoding: Decoding | None, k: int) -> SearchOptions:
        """The settings used for ``k`` paraphrases."""
        check_k(k)
        if isinstance(decoding, SearchOptions):
            plain = SearchOptions()
            for option, value in vars(decoding.validate()).items():
                if option not in _KNOWN and value != getattr(plain, option):
                    raise UsageError(
                        f"`{option}` is {value!r}, but CTranslate2's beam search does not have it",
                        remedy="leave it out, or run the model that was converted by polyref itself",
                    )
            return replace(decoding, fixed=())
        asked = decoding or DiverseBeam()
        for option, allowed in (("groups", (None, 1)), ("strength", (None,)), ("closeness", (None,))):
            if (value := getattr(asked, option)) not in allowed:
                raise UsageError(
                    f"`{option}` is {value}, but CTranslate2 has plain beam search alone",
                    remedy="leave it out, or run the model that was converted by polyref itself",
                )
        beam = max(k, 4) if asked.beam is None else asked.beam
        # The end may come first, at its own probability: texts of nothing are left out afterwards.
        return SearchOptions(beam=beam, min_len=0, max_len_a=ROOM[0], max_len_b=ROOM[1]).validate()

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        """``ctranslate2(beam=10,lenpen=1.0,...)``."""
        options = self.settle(decoding, k)
        names = ("beam", "lenpen", "min_len", "max_len_a", "max_len_b", "no_repeat_ngram")
        return f"ctranslate2({','.join(f'{name}={getattr(options, name)}' for name in names)})"

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """With ``SearchOptions`` the list is CTranslate2's as it is."""
        options, whole = self.settle(decoding, k), isinstance(decoding, SearchOptions)
        total = len(texts) if isinstance(texts, Sequence) else 0
        feed = iter(texts)
        with work("paraphrasing", "sentences", total, progress=progress) as advance:
            while window := list(islice(feed, WINDOW)):
                counts, found = Counter(window), {}
                for text, nbest in zip(counts, self._window(list(counts), k, options, whole), strict=True):
                    found[text] = nbest
                    advance(counts[text])
                yield from (found[text] for text in window)

    def _window(self, texts: Sequence[str], k: int, options: SearchOptions, whole: bool) -> Iterator[NBest]:
        """The lists of some texts, one batch each."""
        for text in texts:
            if not text.strip():
                yield NBest(text, ())
                continue
            result, cut = self._translate(text, options)
            found: dict[str, Hypothesis] = {}
            listed: list[Hypothesis] = []
            for pieces, score in zip(result.hypotheses, result.scores, strict=True):
                ids = tuple(self._ids[piece] for piece in (*pieces, self._end))
                listed.append(Hypothesis(self._tokens.text(pieces), round(float(score), DIGITS), ids))
                if listed[-1].text:
                    found.setdefault(listed[-1].text, listed[-1])
            yield NBest(text, tuple(listed if whole else found.values())[:k], cut)

    def _translate(self, text: str, options: SearchOptions) -> tuple[Any, bool]:
        """What CTranslate2 found for a text, and whether the text was cut to what the model reads."""
        while True:
            source, cut = self._tokens.source(text, self._longest)
            most = int(options.max_len_a * len(source) + options.max_len_b)
            try:
                (result,) = self._translator.translate_batch(
                    [source],
                    target_prefix=[self._prefix] if self._prefix else None,
                    beam_size=options.beam,
                    num_hypotheses=min(options.wanted, options.beam),
                    length_penalty=options.lenpen,
                    no_repeat_ngram_size=options.no_repeat_ngram,
                    min_decoding_length=min(options.min_len, most),
                    max_decoding_length=max(1, min(most, self._longest)),
                    max_input_length=0,
                    return_scores=True,
                )
            except RuntimeError as error:
                # A converted folder does not say how many positions its model has, but CTranslate2 does.
                if (told := _POSITIONS.search(str(error))) is None or int(told[1]) >= self._longest:
                    raise UsageError(f"CTranslate2 failed: {error}") from None
                self._longest = int(told[1])
            else:
                return result, cut


def load(argument: str | None, options: LoadingOptions) -> CTranslate2Paraphraser:
    """A model that was converted for CTranslate2.

    The argument is ``FOLDER`` or ``FOLDER,TOKENISER``: a folder with ``model.bin``, and where its tokeniser is (the
    same folder by default): a Hugging Face folder, or a SentencePiece file.
    """
    try:
        import ctranslate2
    except ImportError:
        raise ModelError("CTranslate2 is not installed", remedy="pip install ctranslate2") from None
    device, dtype, lang, prefix = options.device, options.dtype or "float32", options.lang, options.prefix
    name, _, at = (argument or "").partition(",")
    folder = Path(name)
    if not name or not (folder / "model.bin").is_file():
        raise ModelError(
            "no model.bin", file=name or None, remedy="ctranslate2:DIR, a folder that its converters wrote"
        )
    torch_device(device)
    kind, _, index = device.partition(":")
    supported = ctranslate2.get_supported_compute_types(kind)
    if _DTYPES.get(dtype) not in supported:
        known = ", ".join(ours for ours, theirs in _DTYPES.items() if theirs in supported)
        raise UsageError(f"`dtype` is {dtype!r}, expected one of {known} for CTranslate2 on {device}")
    config = read_json(folder / "config.json")
    vocabulary = read_vocabulary(folder)
    tokeniser = Path(at) if at else folder
    tokens = load_tokens(tokeniser, config, vocabulary, lang)
    try:
        translator = ctranslate2.Translator(
            str(folder),
            device=kind,
            device_index=int(index or 0),
            compute_type=_DTYPES[dtype],
            intra_threads=options.threads or torch.get_num_threads(),
        )
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"CTranslate2 cannot load it: {error}", file=folder) from None
    first = [prefix] if prefix is not None else []
    if prefix is None and tokens.languages:
        first = [tokens.tag(resolve(lang, tokens.languages))]
    if unknown := [token for token in first if token not in vocabulary]:
        raise UsageError(f"`prefix` is {unknown[0]!r}, expected a token of the model's vocabulary")
    digest = hash_files(_files(folder, tokeniser))[:12]
    digest += f"|backend:ctranslate2-{ctranslate2.__version__}" + told_dtype(dtype)
    digest += read_as(lang, tokens.languages, prefix)
    return CTranslate2Paraphraser(
        translator,
        tokens,
        vocabulary,
        str(config.get("eos_token", "</s>")),
        name=folder.resolve().name,
        digest=digest,
        lang=lang if prefix is None else None,
        prefix=first,
    )


def _files(folder: Path, tokeniser: Path) -> list[Path]:
    """What the lists depend on."""
    patterns = ("*.json", "*.txt", "*.model", "*.spm")
    found = [
        file for place in {folder, tokeniser} if place.is_dir() for pattern in patterns for file in place.glob(pattern)
    ]
    single = [tokeniser] if tokeniser.is_file() else []
    return sorted([*found, *single, folder / "model.bin"], key=lambda file: (file.name, str(file.parent != folder)))
