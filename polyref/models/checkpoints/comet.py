"""COMET's checkpoints (Rei et al. 2020, arXiv:2009.09025, and later), as unbabel-comet 2.2 reads them.

A checkpoint is ``checkpoints/model.ckpt`` beside ``hparams.yaml``, which says what kind it is; all else is said in the
file itself. Weights are read as weights and settings as plain data. The encoder is Transformers' own: its configuration
and tokeniser are in another folder, which the settings name.

* Regression models encode source, output and reference each by itself; a head compares the vectors.
* UniTE (Wan et al. 2022, arXiv:2204.13346) and XCOMET (Guerreiro et al. 2024, arXiv:2310.10482) encode the output with
  the source, the reference, or both behind it, and score the first token's state. XCOMET also labels the output's
  tokens.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError, PolyrefError
from polyref.json_files import Record, described
from polyref.models.checkpoints.learned import split_as_before, taken
from polyref.models.checkpoints.text import load_tokenizer
from polyref.models.opening import (
    HUB_NAME,
    check_archive,
    check_attention,
    downloaded,
    faults_of,
    from_folder,
    hash_files,
    quiet,
    read_config,
)
from polyref.values import as_texts

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Texts that are tokenised in one go.
_AT_ONCE: Final = 1024

Row = npt.NDArray[np.float32]


class Input(NamedTuple):
    """What an encoder reads: token ids; of texts that are encoded together, how many of them are the output's.

    ``output`` counts them without padding tokens that it spells out, ``labelled`` with these, as COMET does.
    """

    ids: tuple[int, ...]
    output: int = 0
    labelled: int = 0


REGRESSION, REFERENCELESS, UNIFIED, XCOMET = KINDS = (
    "regression_metric",
    "referenceless_regression_metric",
    "unified_metric",
    "xcomet_metric",
)
#: What the settings are where a file does not say, as in COMET's classes.
_COMMON: Final[Mapping[str, Any]] = {
    "encoder_model": "XLM-RoBERTa",
    "pretrained_model": "xlm-roberta-large",
    "pool": "avg",
    "layer": "mix",
    "sent_layer": "mix",
    "layer_transformation": "softmax",
    "layer_norm": True,
    "hidden_sizes": [3072, 1024],
    "activations": "Tanh",
}
_USUAL: Final[Mapping[str, Mapping[str, Any]]] = {
    REGRESSION: {},
    REFERENCELESS: {"hidden_sizes": [2048, 1024]},
    UNIFIED: {
        "pretrained_model": "microsoft/infoxlm-large",
        "layer_transformation": "sparsemax",
        "input_segments": ["mt", "src", "ref"],
    },
    XCOMET: {
        "encoder_model": "XLM-RoBERTa-XL",
        "pretrained_model": "facebook/xlm-roberta-xl",
        "layer_transformation": "sparsemax",
        "layer_norm": False,
        "hidden_sizes": [2560, 1280],
        "word_layer": 36,
        "error_labels": ["minor", "major", "critical"],
    },
}
_POOLS: Final = ("avg", "max", "cls", "default")
#: How layers are weighed. The hub's files of CometKiwi and XCOMET say that they mean softmax by their "sparsemax".
_TRANSFORMATIONS: Final = ("softmax", "sparsemax", "sparsemax_patch")
#: COMET looks for ``name.title()`` in torch.nn.
_ACTIVATIONS: Final = (
    *("Tanh", "Sigmoid", "Softplus", "Softsign", "Hardtanh", "Hardsigmoid", "Hardswish", "Mish", "Tanhshrink"),
    *("Hardshrink", "Softshrink"),
)


class _Family(NamedTuple):
    """An encoder that COMET names: Transformers' family and class, separators between two texts, types of tokens."""

    family: str
    network: str
    separators: int = 2
    types: bool = False
    padding: str = "<pad>"


_FAMILIES: Final[Mapping[str, _Family]] = {
    "XLM-RoBERTa": _Family("xlm-roberta", "XLMRobertaModel"),
    "XLM-RoBERTa-XL": _Family("xlm-roberta-xl", "XLMRobertaXLModel"),
    "RoBERTa": _Family("roberta", "RobertaModel"),
    "BERT": _Family("bert", "BertModel", 1, types=True, padding="[PAD]"),
    "MiniLM": _Family("bert", "BertModel"),
}
#: Whose tokeniser MiniLM has.
_MINILM: Final = "xlm-roberta-base"
_TOKENIZERS: Final = ("tokenizer.json", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")
_FETCHED: Final = ("config.json", "tokenizer_config.json", "special_tokens_map.json", "merges.txt", *_TOKENIZERS)
#: Where the weights are in a folder.
_WEIGHTS: Final = tuple(place + f"model.{kind}" for place in ("checkpoints/", "") for kind in ("ckpt", "safetensors"))
_HPARAMS: Final = "hparams.yaml"


@dataclass(frozen=True)
class Settings:
    """What a checkpoint says of itself.

    Attributes:
        kind: One of ``KINDS``.
        encoder: One of COMET's names of encoders.
        pretrained: Whose configuration and tokeniser it has: a folder or a name of the hub.
        layer: The layer that is read, 0 is the embeddings; None: a mix of all.
        sparse: Whether layers are weighed by sparsemax (Martins & Astudillo 2016), not softmax.
        norm: Whether layers are normalised before they are mixed.
        pool: How a text's tokens become one vector; of regression.
        hidden: Sizes of the head's layers but the last.
        activation: Between them.
        final: After the last.
        reads: Of ``src`` and ``ref``, what it can read.
        words: The layer whose tokens are labelled; None where none is.
        labels: Of tokens, after the one for correct ones.
    """

    kind: str
    encoder: str
    pretrained: str
    layer: int | None
    sparse: bool
    norm: bool
    pool: str
    hidden: tuple[int, ...]
    activation: str
    final: str | None
    reads: tuple[str, ...]
    words: int | None
    labels: tuple[str, ...]

    @property
    def joint(self) -> bool:
        """Whether texts are encoded together."""
        return self.kind in (UNIFIED, XCOMET)


def _settings(kind: str, patched: bool, given: Record) -> Settings:
    record = Record({**_COMMON, **_USUAL[kind], **given.values}, given.file, error=ModelError)

    def one_of(key: str, known: Sequence[str]) -> str:
        value = record.needed(key, record.text)
        if value not in known:
            record.fail(f'"{key}" is {value!r}, expected one of {", ".join(known)}')
        return value

    def activation(key: str) -> str | None:
        value = record.text(key)
        if value is not None and value.title() not in _ACTIVATIONS:
            record.fail(f'"{key}" is {value!r}, expected one of {", ".join(_ACTIVATIONS)}')
        return None if value is None else value.title()

    joint = kind in (UNIFIED, XCOMET)
    layer = "sent_layer" if joint else "layer"
    mixed = record.values[layer] == "mix"
    segments = ["mt", "src", "ref"] if kind == XCOMET else record.values.get("input_segments")
    reads = {REGRESSION: ("src", "ref"), REFERENCELESS: ("src",)}.get(kind) or tuple(
        name for name in ("src", "ref") if isinstance(segments, list) and name in segments
    )
    if not reads:
        record.fail(f'"input_segments" is {segments!r}, expected mt with src, ref or both')
    labels = tuple(record.each("error_labels", Record.text)) if kind == XCOMET else ()
    if kind == XCOMET and labels != tuple(_USUAL[XCOMET]["error_labels"]):
        record.fail(f'"error_labels" are {", ".join(labels)}, expected {", ".join(_USUAL[XCOMET]["error_labels"])}')
    return Settings(
        kind=kind,
        encoder=one_of("encoder_model", tuple(_FAMILIES)),
        pretrained=record.needed("pretrained_model", record.text),
        layer=None if mixed else record.needed(layer, record.whole),
        sparse=one_of("layer_transformation", _TRANSFORMATIONS) == "sparsemax" and not patched,
        norm=record.needed("layer_norm", record.flag),
        pool="cls" if joint else one_of("pool", _POOLS),
        hidden=tuple(record.each("hidden_sizes", lambda inside, key: inside.whole(key, least=1))),
        activation=activation("activations") or record.fail('no "activations"'),
        final=activation("final_activation"),
        reads=reads,
        words=record.needed("word_layer", record.whole) if kind == XCOMET else None,
        labels=labels,
    )


class Checkpoint:
    """A checkpoint, with the configuration and the tokeniser of its encoder. Whatever it holds was looked at.

    Attributes:
        name: For signatures.
        settings: What it says of itself.
        longest: Most tokens of a text, special ones included.
        digest: SHA-256 over the files that decide a score, 64 hex digits.
    """

    def __init__(self, name: str, encoder: str | None = None, *, fetch: bool = True) -> None:
        """As :func:`polyref.models.networks.comet.load_comet`."""
        self.name, self._file, fetched = _found(name, fetch)
        hparams = _hparams(self._file)
        said = {} if hparams is None else _read_yaml(hparams)
        with faults_of(self._file):
            self._weights, stored = _stored(self._file)
            own = {str(key): value for key, value in stored.items()} or said
            kind = said.get("class_identifier", own.get("class_identifier"))
            if kind not in KINDS:
                found = f"its class is {kind!r}" if kind else f"nothing says its class, there is no {_HPARAMS}"
                raise ModelError(f"{found}, expected one of {', '.join(KINDS)}", file=hparams or self._file)
            patched = said.get("layer_transformation") == "sparsemax_patch"
            self.settings = settings = _settings(kind, patched, Record(own, self._file))
        self._family = _FAMILIES[settings.encoder]
        folder = _folder(
            encoder or settings.pretrained, self._file, "encoder", (fetched and fetch) or encoder is not None
        )
        words = _with_tokenizer(folder, self._file, fetched and fetch)
        self._folder = folder
        with faults_of(folder):
            self._config = self._configured()
            self._tokenizer = _tokenizer(words)
            padding = self._tokenizer.token_to_id(self._family.padding)
            if padding is None:
                raise ModelError(f"its tokeniser has no {self._family.padding}, as {settings.encoder} has", file=words)
            self._padding: int = padding
        with faults_of(self._file):
            self._check_weights()
        # Positions that COMET leaves out are two of every encoder's, and two more of texts.
        self.most = int(self._config.max_position_embeddings) - 2
        self.longest = self.most - 2
        used = [folder / "config.json", *(words / one for one in _TOKENIZERS), *([hparams] if hparams else [])]
        self._used = [self._file, *(one for one in used if one.is_file())]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over weights, settings, and the encoder's configuration and tokeniser, 64 hex digits."""
        return hash_files(self._used)

    def facts(self) -> dict[str, Any]:
        """What it says of itself, as plain JSON values; ``used`` are the files it was read from."""
        settings = self.settings
        about = {"kind": settings.kind, "reads": settings.reads, "joint": settings.joint, "longest": self.longest}
        return {**about, "name": self.name, "digest": self.digest, "used": [str(one.absolute()) for one in self._used]}

    def _configured(self) -> Any:
        """The encoder's configuration, which must be of the family and size that the checkpoint says."""
        check_attention(read_config(self._folder), self._folder)
        try:
            config = from_folder("AutoConfig", self._folder)
        except Exception as error:  # settings can be anything
            raise ModelError(f"no configuration: {_first_line(error)}") from None
        settings, family = self.settings, self._family.family
        if config.model_type != family:
            raise ModelError(
                f"model_type is {config.model_type!r}, but the checkpoint's {settings.encoder} is {family}"
            )
        numbers = [name.split(".")[4] for name in self._weights if name.startswith("encoder.model.encoder.layer.")]
        layers = 1 + max((int(number) for number in numbers if number.isdigit()), default=-1)
        if config.num_hidden_layers != layers:
            raise ModelError(
                f"{self._file} has {layers} layers, but its encoder's configuration {config.num_hidden_layers}",
                file=self._folder / "config.json",
                remedy="is it the configuration of another size?",
            )
        for what, layer in (("layer", settings.layer), ("word_layer", settings.words)):
            if layer is not None and layer > layers:
                raise ModelError(f'"{what}" is {layer}, but the encoder has layers 0 to {layers}', file=self._file)
        if settings.pool == "default" and family == "bert" and self._family.types:
            raise ModelError('"pool" is default, which is nothing for BERT here', file=self._file)
        return config

    @cached_property
    def _bare(self) -> nn.Module:
        """The encoder without weights, which takes no memory yet."""
        import torch
        import transformers

        try:
            with quiet(), torch.device("meta"):
                model = getattr(transformers, self._family.network)(self._config, add_pooling_layer=False)
        except Exception as error:  # settings that make no network can fail anywhere
            raise ModelError(f"no encoder: {_first_line(error)}", file=self._folder / "config.json") from None
        return cast("nn.Module", model.eval().requires_grad_(False))

    def _check_weights(self) -> None:
        """Refuse a file that lacks a weight, or has one of another size."""
        settings, width = self.settings, self.width
        parts = {REGRESSION: 6, REFERENCELESS: 4}.get(settings.kind, 1)
        sizes = (parts * width, *settings.hidden, 1)
        expected = {f"encoder.model.{name}": tuple(value.shape) for name, value in self._bare.state_dict().items()}
        if settings.layer is None:
            mixed = ["gamma", *(f"scalar_parameters.{n}" for n in range(self._config.num_hidden_layers + 1))]
            expected |= {f"layerwise_attention.{name}": (1,) for name in mixed}
        for n, (before, after) in enumerate(pairwise(sizes)):
            expected |= {f"estimator.ff.{3 * n}.weight": (after, before), f"estimator.ff.{3 * n}.bias": (after,)}
        if settings.words is not None:
            labels = len(settings.labels) + 1
            expected |= {"hidden2tag.weight": (labels, width), "hidden2tag.bias": (labels,)}
        self._weights = taken(expected, self._weights)

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self._config.hidden_size)

    def tokens(self, texts: Sequence[str]) -> list[tuple[tuple[int, ...], bool]]:
        """Ids of texts' tokens with the special ones, and whether a text was too long and its end cut."""
        found = []
        texts = as_texts(texts, "`texts`")
        for start in range(0, len(texts), _AT_ONCE):
            for encoding in self._tokenizer.encode_batch(list(texts[start : start + _AT_ONCE])):
                ids = encoding.ids
                cut = len(ids) > self.longest
                found.append(((*ids[: self.longest - 1], ids[-1]) if cut else tuple(ids), cut))
        return found

    def joined(self, texts: Sequence[tuple[int, ...]]) -> Input:
        """An output and what it is compared with as one sequence, in the way of ``concat_sequences``.

        What does not fit is cut off at the end, with the last separator.
        """
        output, *others = ([token for token in ids if token != self._padding] for ids in texts)
        end = output[-1]
        ids = output[:-1]
        for other in others:
            ids = [*ids, *[end] * self._family.separators, *other[1:-1]]
        inside = len(output) - 2 + sum(len(other) - 2 for other in others)
        ids.append(end)
        # Its limit is one of tokens without special ones: a little more than that may pass.
        if inside > self.room(len(texts)):
            ids = ids[: self.most]
        return Input(tuple(ids), len(output), len(texts[0]))

    def room(self, texts: int) -> int:
        """Most tokens of so many texts that are joined, special ones left out."""
        return self.most - (1 + texts * self._family.separators)


def _found(name: str, fetch: bool) -> tuple[str, Path, bool]:
    """A model's name, the file of its weights, and whether it is the hub's."""
    path = Path(name).absolute()
    if path.is_file():
        named = path.parent
        return (named.parent.name if named.name == "checkpoints" else named.name), path, False
    fetched = _is_hub_name(name)
    if not path.is_dir() and not fetched:
        remedy = "give a folder with checkpoints/model.ckpt, that file, or a hub name owner/model"
        raise ModelError("no such model", file=name, remedy=remedy)
    try:
        folder = downloaded(name, (*_WEIGHTS, _HPARAMS), fetch=fetch) if fetched else path
    except ModelError:
        if fetch:
            raise
        raise ModelError(
            f"{name} is not on this machine, and nothing is fetched unasked",
            remedy=f"name it to fetch it from the Hugging Face hub, or name a folder: --comet-model {name}",
        ) from None
    for one in _WEIGHTS:
        if (folder / one).is_file():
            return name if fetched else folder.resolve().name, folder / one, fetched
    raise ModelError(f"no COMET model: none of {', '.join(_WEIGHTS)}", file=name)


def whereabouts(name: str, encoder: str | None, *, fetch: bool) -> tuple[str, ...]:
    """What leads to a checkpoint's files, beside what is in them."""
    label, file, _ = _found(name, fetch)
    return label, str(file), str(_hparams(file)), str(encoder), str(Path.cwd())


def still_there(facts: Mapping[str, Any]) -> bool:
    """Whether the files of a checkpoint are what they were when it said this of itself."""
    files = [Path(one) for one in facts["used"]]
    return all(one.is_file() for one in files) and hash_files(files) == facts["digest"]


def _hparams(file: Path) -> Path | None:
    """Where the settings beside a file of weights are."""
    return next((path for folder in file.parents[1::-1] if (path := folder / _HPARAMS).is_file()), None)


def _stored(file: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """The weights of a file, and the settings in it."""
    remedy = (
        "where unbabel-comet is installed, save its state_dict and hyper_parameters alone: "
        "docs/reference/neural-metrics says how"
    )
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file), {}
        import torch

        check_archive(file)
        stored = torch.load(file, map_location="cpu", weights_only=True)
    except PolyrefError:
        raise
    except pickle.UnpicklingError:
        raise ModelError("the file holds more than weights and settings, nothing was run", remedy=remedy) from None
    except Exception as error:  # a broken file can fail anywhere in the readers
        raise ModelError(f"no weights that can be read: {_first_line(error)}", remedy="is it complete?") from None
    if not isinstance(stored, Mapping):
        raise ModelError("the file holds no weights by name")
    weights, settings = stored.get("state_dict", stored), stored.get("hyper_parameters", {})
    if not isinstance(weights, Mapping) or not isinstance(settings, Mapping):
        raise ModelError("no Lightning checkpoint: state_dict or hyper_parameters is no mapping")
    return {str(name): value for name, value in weights.items() if isinstance(value, torch.Tensor)}, settings


def _read_yaml(path: Path) -> dict[str, Any]:
    """The values of a YAML file of a model, plain ones alone: a tag that would make an object is refused."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        reason = getattr(fault, "problem", None) or str(fault).split("\n")[0]
        raise ModelError(f"not valid YAML: {reason}", file=path, line=None if mark is None else mark.line + 1) from None
    except (OSError, ValueError, RecursionError) as fault:
        raise ModelError(f"not valid YAML: {fault}", file=path) from None
    if not isinstance(value, dict):
        raise ModelError(f"found {described(value)}, expected names and values", file=path)
    return {str(name): one for name, one in value.items()}


def _is_hub_name(name: str) -> bool:
    return HUB_NAME.fullmatch(name) is not None and not Path(name).exists()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _folder(name: str, file: Path, what: str, fetch: bool) -> Path:
    """The folder of an encoder's configuration, or of a tokeniser."""
    for place in (Path(), *file.parents):
        if (place / name).is_dir():
            return place / name
    with nullcontext() if fetch else suppress(ModelError):
        if _is_hub_name(name):
            return downloaded(name, _FETCHED, fetch=fetch)
    raise ModelError(
        f"its {what} is {name!r}, which is no folder here",
        file=file,
        remedy="give a folder with the encoder's config.json and tokeniser, or a hub name to fetch them: `encoder`",
    )


def _with_tokenizer(folder: Path, file: Path, fetch: bool) -> Path:
    """The folder of an encoder's tokeniser: its own, the one that a file TOKENIZER_IS names, or MiniLM's."""
    if any((folder / one).is_file() for one in _TOKENIZERS):
        return folder
    named = folder / "TOKENIZER_IS"
    return _folder(named.read_text("utf-8").strip() if named.is_file() else _MINILM, file, "tokeniser", fetch)


def _tokenizer(folder: Path) -> Any:
    """A tokeniser as Transformers 4 reads it.

    Transformers 5 puts together a new one from its words, which treats white space otherwise.
    """
    from tokenizers import Tokenizer

    if (path := folder / "tokenizer.json").is_file():
        try:
            found = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers knows this type alone
            raise ModelError(f"no tokeniser: {error}", file=path) from None
        found.no_truncation()
        found.no_padding()
        return found
    found = load_tokenizer(folder).backend_tokenizer
    return split_as_before(found) if (folder / "sentencepiece.bpe.model").is_file() else found
