"""Generators by name, of polyref and of other packages, and how they are loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from polyref.cache import default_cache
from polyref.errors import ModelError, UsageError
from polyref.models.device import devices, own_device
from polyref.models.opening import find_model
from polyref.paraphrase.decoding import LARGEST, check_real
from polyref.paraphrase.in_processes import InProcesses
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.options import GENERATORS as REWRITING
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.plugins import Plugins, owner

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


BACKENDS: Final = ("polyref", "fairseq", "ctranslate2")
#: What networks compute in on the CPU, and elsewhere; all but float32 are approximate.
DTYPES_CPU: Final = ("float32", "bfloat16", "int8")
DTYPES_ELSEWHERE: Final = ("float32", "bfloat16", "float16")
#: What models of the shipped kind compute in on the CPU unless told otherwise: their lists do not depend on the
#: processor's instructions then, and take about half of float32's memory and at most about its time.
DTYPE_SHIPPED: Final = "int8"
#: The growth of the lexical copy penalty that Thompson & Post (2020b) use (their beta).
PRISM_B: Final = 4.0
#: Greatest size of it: 4 ** 20 times the largest a, added up over a sentence, is still a finite float32.
LARGEST_B: Final = 20.0


def check_penalty(a: float, b: float) -> None:
    """Refuse settings of the lexical copy penalty that are out of range."""
    check_real("prism_a", a, 0.0, LARGEST)
    check_real("prism_b", b, -LARGEST_B, LARGEST_B)


def check_dtype(dtype: str, device: str) -> None:
    """Refuse a number type that polyref does not compute in on that device."""
    known = DTYPES_CPU if device == "cpu" else DTYPES_ELSEWHERE
    if dtype not in known:
        raise UsageError(f"`dtype` is {dtype!r}, expected one of {', '.join(known)} on {device}")


#: Options of loading, with what stands for "nobody asked".
OPTIONS: Final[Mapping[str, Any]] = {
    "device": "cpu",
    "threads": None,
    "lang": None,
    "source_lang": None,
    "prefix": None,
    "prism_a": 0.0,
    "prism_b": PRISM_B,
    "dtype": None,
    "memory": None,
    "rewriting": None,
}


@dataclass(frozen=True)
class Generator:
    """A kind of paraphraser.

    Attributes:
        name: What stands before the colon in ``NAME:ARGUMENT``.
        summary: What it is, in one line.
        factory: The function that loads it, or raises what is wrong with it.
        alone: Whether the name may stand without an argument.
    """

    name: str
    summary: str
    factory: Callable[[], Any]
    alone: bool = True

    def load(self, argument: str | None, options: Mapping[str, Any]) -> Paraphraser:
        """Load it.

        Args:
            argument: What stands after the colon; None where there is no colon.
            options: All of ``OPTIONS``.
        """
        factory, taken = self.factory(), self.taken()
        parameters = inspect.signature(factory).parameters.values()
        its_own = {parameter.name for parameter in parameters if parameter.default is not parameter.empty}
        # The language is checked here for those who do not ask for it.
        if options.get("source_lang") is not None and "source_lang" not in taken:
            raise UsageError(
                f"the generator {self.name} writes paraphrases, and translates nothing",
                remedy="openai:NAME, chat:DIR, causal:DIR, or the folder of a translation model",
            )
        for name in options.keys() - taken - {"lang"}:
            if options[name] != OPTIONS[name]:
                raise UsageError(f"`{name}` is {options[name]!r}, but the generator {self.name} takes no such option")
        left_open = {name for name in its_own & options.keys() if options[name] is None}
        given = {name: value for name, value in options.items() if name in taken - left_open}
        made = factory(argument, **given)
        if not isinstance(made, Paraphraser):
            raise ModelError(f"the generator {self.name} gave {made!r}, expected a Paraphraser")
        if "lang" not in taken:
            made.check_language(options["lang"])
        return made

    def taken(self) -> frozenset[str]:
        """Those of ``OPTIONS`` that it has a use for."""
        parameters = inspect.signature(self.factory()).parameters.values()
        anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        return frozenset(OPTIONS if anything else OPTIONS.keys() & {parameter.name for parameter in parameters})


def _built_in(name: str, module: str, summary: str, *, alone: bool = False) -> Generator:
    return Generator(name, summary, lambda: import_module(f"polyref.paraphrase.{module}").load, alone)


BUILT_IN: Final = (
    _built_in("shipped", "shipped", "a model of the package (shipped/en), or a folder of that kind", alone=True),
    _built_in("checkpoint", "checkpoint", "a fairseq or Hugging Face encoder-decoder: a folder or a hub name"),
    _built_in("fairseq", "fairseq", "a fairseq checkpoint, run by fairseq 0.12.2 itself, where it is installed"),
    _built_in(
        "roundtrip",
        "roundtrip",
        "translation models, there and back: roundtrip:DIR,DIR, or roundtrip:NLLB_DIR@de",
    ),
    _built_in("ctranslate2", "ctranslate2", "a model converted for CTranslate2: ctranslate2:DIR[,TOKENISER]"),
    _built_in("causal", "causal", "a decoder-only language model that continues a prompt: causal:DIR[,FILE]"),
    _built_in("openai", "rewriting.server", "a language model behind a server: openai:NAME"),
    _built_in(
        "lexical",
        "lexical",
        "one word or phrase exchanged by a table: that of the package (English), or lexical:FILE",
        alone=True,
    ),
    _built_in("chat", "rewriting.local", "a chat model of this machine, run by Transformers: chat:DIR"),
)


GENERATORS: Final = Plugins(
    "generator",
    "polyref.generators",
    {one.name: one for one in BUILT_IN},
    "a function that loads a Paraphraser",
    lambda name, found: callable(found),
)


def generators() -> list[Generator]:
    """All generators: polyref's, then the plug-ins by name. No plug-in is imported for it."""
    return [*BUILT_IN, *map(_plug_in, GENERATORS.added())]


def _plug_in(entry: EntryPoint) -> Generator:
    return Generator(entry.name, _summary(entry), lambda: GENERATORS.load(entry.name))


def _summary(entry: EntryPoint) -> str:
    if entry.dist is None:
        return entry.value
    about = entry.dist.metadata
    summary = about["Summary"] if "Summary" in about else entry.value  # noqa: SIM401 (it has no get)
    return f"{summary} ({owner(entry)})"


def built_in(name: str) -> Generator:
    """The generator of polyref of that name."""
    (found,) = (generator for generator in BUILT_IN if generator.name == name)
    return found


def find_generator(text: str) -> tuple[Generator, str | None] | None:
    """The generator that ``NAME`` or ``NAME:ARGUMENT`` names, and the argument; None where it names none."""
    name, colon, argument = text.partition(":")
    if name not in GENERATORS or not (colon or name not in GENERATORS.own or built_in(name).alone):
        return None
    entry = GENERATORS.entry(name)
    return (built_in(name) if entry is None else _plug_in(entry)), argument if colon else None


def load_paraphraser(
    name_or_path: str | Path = "shipped",
    *,
    device: str = "cpu",
    threads: int | None = None,
    lang: str | None = None,
    source_lang: str | None = None,
    prefix: str | None = None,
    backend: str = "polyref",
    prism_a: float = 0.0,
    prism_b: float = PRISM_B,
    dtype: str | None = None,
    memory: int | None = None,
    jobs: int = 1,
    cache: bool = True,
    rewriting: RewritingOptions | None = None,
) -> Paraphraser:
    """Load a generator.

    Args:
        name_or_path: ``shipped`` (the English model in the package; ``shipped/en`` says so), a folder with a model of
            that kind, a fairseq folder (``checkpoint.pt``, ``dict.*.txt``, ``spm.model``; Prism's is one), a Hugging
            Face folder, or a name on the Hugging Face hub (``owner/model``: the only case that uses the network). Or a
            generator by name, with or without an argument: ``fairseq:FOLDER``, ``NAME``, ``NAME:ARGUMENT``
            (:mod:`polyref.paraphrase.loading`); a folder of such a name is ``./NAME``.
        device: A torch device, or several, such as ``cuda:0,1``: each gets at least one process.
        threads: Threads of torch (None: leave as they are).
        lang: Language to write, for models of several languages; models of one language check it. ``en``, ``eng``,
            ``eng_Latn`` and ``en_XX`` are the same language, whatever the model calls it.
        source_lang: Language of the texts, where they are to be translated into ``lang``: by a translation model, or a
            language model. None: they are paraphrased.
        prefix: First target token of every sentence, such as a tag ``<en>``, instead of that of ``lang``.
        backend: ``polyref``; ``fairseq`` to run a fairseq checkpoint by fairseq 0.12.2 itself; or ``ctranslate2`` to
            run a folder that was converted for CTranslate2.
        prism_a: Size of the lexical copy penalty (Thompson & Post 2020b), in nats; 0 for none.
        prism_b: Its growth with the length of what is copied.
        dtype: What the network computes in: ``float32``, or an approximate mode that the signature names: on the CPU
            ``bfloat16`` or ``int8`` (products only), elsewhere ``bfloat16`` or ``float16``. None: ``int8`` for models
            of the shipped kind on the CPU, ``float32`` for all others.
        memory: About the memory that a batch may take beside the model, in MB (None: 1024, on a GPU half of what is
            free); it changes the last digits of sums at most.
        jobs: Processes, each with a copy of the model and, unless ``threads`` says otherwise, one thread. The lists do
            not depend on it.
        cache: Keep n-best lists of searches in ``~/.cache/polyref`` (:mod:`polyref.cache`), and read them from there.
            It changes no list.
        rewriting: How a language model is asked (``openai:NAME``, ``chat:DIR``), and by which server: without one named
            here, the network is not used.

    Raises:
        ModelError: There is no such model, or it is broken; or fairseq is missing.
        UsageError: The device is unknown or absent, ``threads``, ``memory`` or ``jobs`` is below 1, the model does not
            write ``lang``, or an option does not fit the model or is none of the generator's.
    """
    check_penalty(prism_a, prism_b)
    if backend not in BACKENDS:
        raise UsageError(f"`backend` is {backend!r}, expected one of {', '.join(BACKENDS)}")
    for name, value in (("threads", threads), ("memory", memory), ("jobs", jobs)):
        if value is not None and value < 1:
            raise UsageError(f"`{name}` is {value}, expected 1 or more")
    if source_lang is not None and lang is None:
        raise UsageError("`source_lang` is given, but no language to translate into", remedy="`lang`")
    generator, argument = named_generator(str(name_or_path), backend)
    jobs = max(jobs, len(devices(device)))
    options: dict[str, Any] = {
        "device": own_device(device),
        "threads": threads,
        "lang": lang,
        "source_lang": source_lang,
        "prefix": prefix,
        "prism_a": prism_a,
        "prism_b": prism_b,
        "dtype": dtype,
        "memory": memory,
        "rewriting": rewriting,
    }
    if generator.name in REWRITING and jobs > 1:
        raise UsageError(f"`jobs` is {jobs}, but {generator.name} runs in one process", remedy="`concurrency`")
    options["threads"] = threads or (1 if jobs > 1 and "threads" in generator.taken() else None)
    reload = partial(_load_own, device, name_or_path, backend=backend, cache=cache, **options)
    made = generator.load(argument, options) if jobs == 1 else InProcesses(reload, jobs)
    if cache:
        made.use_cache(default_cache(), repr((prism_a, prism_b)))
    if generator.name not in REWRITING:
        made.reload = reload
    return made


def _load_own(devices: str, name_or_path: str | Path, **options: Any) -> Paraphraser:
    """Load for one process of several, on the device that is its own."""
    return load_paraphraser(name_or_path, **{**options, "device": own_device(devices)})


def named_generator(name: str, backend: str = "polyref") -> tuple[Generator, str | None]:
    """The generator for a name, and its argument; see :func:`load_paraphraser`."""
    if backend != "polyref":
        return built_in(backend), name
    if found := find_generator(name):
        return found
    try:
        _, shipped = find_model(name)
    except ModelError as error:
        if error.remedy is None:
            raise
        known = ", ".join(generator.name for generator in generators())
        raise ModelError(
            error.message, file=error.file, remedy=f"{error.remedy}; generators by name: {known}"
        ) from None
    return built_in("shipped" if shipped else "checkpoint"), name
