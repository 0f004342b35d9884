"""Generators by name, of polyref and of other packages: how they are loaded, and for which language."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from polyref.cache import default_cache
from polyref.errors import DataError, ModelError, UsageError
from polyref.models.device import devices, own_device, spare_memory
from polyref.models.language_recognition import Language, known_languages, recognised
from polyref.models.opening import find
from polyref.options import Option, fields_of
from polyref.paraphrase.decoding import check_choice, check_numbers, setting
from polyref.paraphrase.in_processes import InProcesses
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.options import GENERATORS as REWRITING
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.plugins import Plugins, owner
from polyref.processes import available
from polyref.references import Segment

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from polyref.engine import Engine
    from polyref.paraphrase.decoding import Decoding

BACKENDS: Final = ("polyref", "fairseq", "ctranslate2")
#: What networks compute in on the CPU, and elsewhere; all but float32 are approximate.
DTYPES_CPU: Final = ("float32", "bfloat16", "int8")
DTYPES_ELSEWHERE: Final = ("float32", "bfloat16", "float16")
#: What models of the shipped kind compute in on the CPU unless told otherwise: their lists do not depend on the
#: processor's instructions then, and take about half of float32's memory and at most about its time.
DTYPE_SHIPPED: Final = "int8"
#: The growth of the lexical copy penalty that Thompson & Post (2020b) use (their beta).
PRISM_B: Final = 4.0


@dataclass(frozen=True)
class LoadingOptions:
    """How ``load_paraphraser`` loads a generator, checked before any model is."""

    device: str = setting(
        "cpu", help="Torch device; cuda:0,1 is several, with a process each.", metavar="NAME", otherwise="cpu"
    )
    dtype: str | None = setting(
        None,
        help="What the network computes in; all but float32 are approximate.",
        choices=tuple(dict.fromkeys((*DTYPES_CPU, *DTYPES_ELSEWHERE))),
        otherwise="int8 for models of the shipped kind on the CPU, else float32",
    )
    threads: int | None = setting(None, help="CPU threads.", least=1, metavar="N", otherwise="torch's")
    memory: int | None = setting(
        None, help="Of a batch, about.", least=1, metavar="MB", otherwise="1024; on a GPU half of what is free"
    )
    lang: str | None = setting(None, help="Language to write.", metavar="CODE")
    source_lang: str | None = setting(None, help="Language to translate from.", metavar="CODE")
    prefix: str | None = setting(
        None, help="First token of every paraphrase, instead of the language's tag: <en>.", metavar="TOKEN"
    )
    prism_a: float = setting(0.0, help="Lexical copy penalty A * n ** B (Thompson & Post 2020b).", least=0, metavar="A")
    # 4 ** 20 times the largest a, added up over a sentence, is still a finite float32.
    prism_b: float = setting(PRISM_B, help="See --prism-a.", least=-20, most=20, metavar="B", otherwise=f"{PRISM_B:g}")
    rewriting: RewritingOptions | None = None
    backend: str = setting(
        "polyref",
        help="`fairseq` runs a fairseq checkpoint by fairseq 0.12.2 itself, `ctranslate2` a folder converted for "
        "CTranslate2, where they are installed.",
        choices=BACKENDS,
        otherwise="polyref",
    )
    jobs: int = setting(1, help="Processes; they change no result.", least=1, metavar="N")

    def __post_init__(self) -> None:
        check_numbers(self)
        check_choice("backend", self.backend, BACKENDS)
        if self.source_lang is not None and self.lang is None:
            raise UsageError("`source_lang` is given, but no language to translate into", remedy="`lang`")


def options_of(kind: Any) -> dict[str, Option]:
    """The options that the fields of a dataclass of this part are, by name: for the command line."""
    facts = {one.name: one.metadata.get("option", {}) for one in fields(kind)}
    return {name: replace(one, **facts[name]) for name, one in fields_of(kind).items()}


#: The options that a generator may take, with what stands for "nobody asked".
OPTIONS: Final[Mapping[str, Any]] = {
    one.name: one.default for one in fields(LoadingOptions) if one.name not in ("backend", "jobs")
}
_NETWORK: Final = frozenset({"device", "dtype", "threads", "memory", "lang"})
_ASKED: Final = frozenset({"lang", "source_lang", "rewriting"})
_COPYING: Final = frozenset({"prism_a", "prism_b"})


def check_penalty(a: float, b: float) -> None:
    """Refuse settings of the lexical copy penalty that are out of range."""
    LoadingOptions(prism_a=a, prism_b=b)


def told_dtype(dtype: str) -> str:
    """For signatures: what a network computes in, where it is not float32."""
    return "" if dtype == "float32" else f"|dtype:{dtype}"


def check_dtype(dtype: str, device: str) -> None:
    """Refuse a number type that polyref does not compute in on that device."""
    known = DTYPES_CPU if device == "cpu" else DTYPES_ELSEWHERE
    if dtype not in known:
        raise UsageError(f"`dtype` is {dtype!r}, expected one of {', '.join(known)} on {device}")


@dataclass(frozen=True)
class Generator:
    """A kind of paraphraser."""

    name: str  # what stands before the colon in NAME:ARGUMENT
    summary: str  # what it is, in one line
    #: The options that it has a use for; None of another package's, whose function says it by its parameters.
    takes: frozenset[str] | None = None
    alone: bool = False  # whether the name may stand without an argument

    def taken(self) -> frozenset[str]:
        """Those of ``OPTIONS`` that it has a use for."""
        if self.takes is not None:
            return self.takes
        parameters = inspect.signature(GENERATORS.load(self.name)).parameters
        anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        return frozenset(OPTIONS if anything else OPTIONS.keys() & parameters.keys())

    def load(self, argument: str | None, options: LoadingOptions) -> Paraphraser:
        """Load it with what stands after the colon (None where there is no colon)."""
        function, taken = GENERATORS.load(self.name), self.taken()
        if options.source_lang is not None and "source_lang" not in taken:
            raise UsageError(
                f"the generator {self.name} writes paraphrases, and translates nothing",
                remedy="openai:NAME, chat:DIR, causal:DIR, or the folder of a translation model",
            )
        for name in OPTIONS.keys() - taken - {"lang"}:
            if (value := getattr(options, name)) != OPTIONS[name]:
                raise UsageError(f"`{name}` is {value!r}, but the generator {self.name} takes no such option")
        made = (
            function(argument, options) if self.takes is not None else _plugged_in(function, argument, options, taken)
        )
        if not isinstance(made, Paraphraser):
            raise ModelError(f"the generator {self.name} gave {made!r}, expected a Paraphraser")
        # The language is checked here for those who do not ask for it.
        if "lang" not in taken:
            made.check_language(options.lang)
        return made


def _plugged_in(function: Any, argument: str | None, options: LoadingOptions, taken: frozenset[str]) -> Any:
    """What another package's function gives: what nobody asked for is left to defaults of its own."""
    parameters = inspect.signature(function).parameters
    given = {name: getattr(options, name) for name in taken}
    has_own = {name for name in parameters if parameters[name].default is not inspect.Parameter.empty}
    return function(
        argument, **{name: value for name, value in given.items() if value is not None or name not in has_own}
    )


BUILT_IN: Final = (
    Generator(
        "shipped", "a model of the package (shipped/en), or a folder of that kind", _NETWORK | _COPYING, alone=True
    ),
    Generator(
        "checkpoint",
        "a fairseq or Hugging Face encoder-decoder: a folder or a hub name",
        _NETWORK | _COPYING | {"source_lang", "prefix"},
    ),
    Generator(
        "fairseq",
        "a fairseq checkpoint, run by fairseq 0.12.2 itself, where it is installed",
        _NETWORK - {"dtype"} | {"prefix"},
    ),
    Generator("roundtrip", "translation models, there and back: roundtrip:DIR,DIR, or roundtrip:NLLB_DIR@de", _NETWORK),
    Generator(
        "ctranslate2",
        "a model converted for CTranslate2: ctranslate2:DIR[,TOKENISER]",
        _NETWORK - {"memory"} | {"prefix"},
    ),
    Generator(
        "causal",
        "a decoder-only language model that continues a prompt: causal:DIR[,FILE]",
        _NETWORK | {"source_lang"},
    ),
    Generator("openai", "a language model behind a server: openai:NAME", _ASKED),
    Generator(
        "lexical",
        "one word or phrase exchanged by a table: that of the package (English), or lexical:FILE",
        frozenset({"lang"}),
        alone=True,
    ),
    Generator(
        "chat",
        "a chat model of this machine, run by Transformers: chat:DIR",
        _NETWORK - {"memory"} | _ASKED,
    ),
)
_HOMES: Final = {"openai": "rewriting.server", "chat": "rewriting.local"}
GENERATORS: Final = Plugins(
    "generator",
    "polyref.generators",
    {one.name: f"polyref.paraphrase.{_HOMES.get(one.name, one.name)}:load" for one in BUILT_IN},
    "a function that loads a Paraphraser",
    lambda name, found: callable(found),
)


def generators() -> list[Generator]:
    """All generators: polyref's, then the plug-ins by name. No plug-in is imported for it."""
    return [*BUILT_IN, *map(_added, GENERATORS.added())]


def _added(entry: EntryPoint) -> Generator:
    if entry.dist is None:
        return Generator(entry.name, entry.value)
    about = entry.dist.metadata
    summary = about["Summary"] if "Summary" in about else entry.value  # noqa: SIM401 (it has no get)
    return Generator(entry.name, f"{summary} ({owner(entry)})")


def find_generator(text: str) -> tuple[Generator, str | None] | None:
    """The generator that ``NAME`` or ``NAME:ARGUMENT`` names, and the argument; None where it names none."""
    name, colon, argument = text.partition(":")
    if name not in GENERATORS or not (colon or name not in GENERATORS.own or _own(name).alone):
        return None
    entry = GENERATORS.entry(name)
    return (_own(name) if entry is None else _added(entry)), argument if colon else None


def _own(name: str) -> Generator:
    (found,) = (one for one in BUILT_IN if one.name == name)
    return found


def named_generator(name: str, backend: str = "polyref") -> tuple[Generator, str | None]:
    """The generator for whatever :func:`load_paraphraser` takes, and its argument."""
    found = find_generator(name)
    if backend != "polyref":
        if found:
            said = f"`backend` is {backend}, which runs a folder, but {name} is none"
            raise UsageError(said, remedy="name a `model`")
        return _own(backend), name
    if found:
        return found
    try:
        kind = find(name, "generator").kind
    except ModelError as error:
        if error.remedy is None:
            raise
        known = ", ".join(generator.name for generator in generators())
        raise ModelError(
            error.message, file=error.file, remedy=f"{error.remedy}; generators by name: {known}"
        ) from None
    return _own("shipped" if kind == "shipped" else "checkpoint"), name


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
            (docs/how-to/add-a-generator.md); a folder of such a name is ``./NAME``.
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
            not depend on it, and ``lexical`` has no use for it.
        cache: Keep n-best lists of searches in ``~/.cache/polyref`` (:mod:`polyref.cache`), and read them from there.
            It changes no list.
        rewriting: How a language model is asked (``openai:NAME``, ``chat:DIR``), and by which server: without one named
            here, the network is not used.

    Raises:
        ModelError: There is no such model, or it is broken; or fairseq is missing.
        UsageError: The device is unknown or absent, ``threads``, ``memory`` or ``jobs`` is below 1, the model does not
            write ``lang``, or an option does not fit the model or is none of the generator's.
    """
    options = LoadingOptions(
        device, dtype, threads, memory, lang, source_lang, prefix, prism_a, prism_b, rewriting, backend, jobs
    )
    return _load(name_or_path, options, cache)


def _load(name_or_path: str | Path, options: LoadingOptions, cache: bool) -> Paraphraser:
    generator, argument = named_generator(str(name_or_path), options.backend)
    # A table is done before another process has begun.
    jobs = 1 if generator.name == "lexical" else max(options.jobs, len(devices(options.device)))
    if generator.name in REWRITING and jobs > 1:
        raise UsageError(f"`jobs` is {jobs}, but {generator.name} runs in one process", remedy="`concurrency`")
    threads = options.threads or (1 if jobs > 1 and "threads" in generator.taken() else None)
    # A process of several loads for itself, on the device that is its own.
    reload = partial(_reloaded, name_or_path, replace(options, threads=threads, jobs=1), cache, jobs)
    if jobs > 1:
        made: Paraphraser = InProcesses(reload, jobs)
    else:
        made = generator.load(argument, replace(options, device=own_device(options.device), threads=threads))
    if cache:
        made.use_cache(default_cache(), repr((options.prism_a, options.prism_b)))
    if generator.name not in REWRITING:
        made.reload = reload
    return made


def _reloaded(name_or_path: str | Path, options: LoadingOptions, cache: bool, jobs: int) -> Paraphraser:
    device, memory = own_device(options.device), options.memory
    if memory is None and jobs > (places := len(devices(options.device))):
        spare = spare_memory(device, -(-jobs // places))
        memory = None if spare is None else max(spare >> 20, 1)
    return _load(name_or_path, replace(options, device=device, memory=memory), cache)


#: Paraphrases of a segment where nobody names a number.
DEFAULT_K: Final = 10
#: Texts that make another process worth its start: it loads torch and the model before it begins.
FEWEST: Final = 64


class Loading(TypedDict, total=False):
    """With which options generators are loaded: see :func:`polyref.load_paraphraser`.

    ``jobs`` may be None: one process a core, where there are texts for it.
    """

    device: str
    dtype: str | None
    threads: int | None
    jobs: int | None
    memory: int | None
    cache: bool
    prefix: str | None
    prism_a: float
    prism_b: float
    backend: str


#: What writes paraphrases where nobody names anything; they take turns.
DEFAULT_MODELS: Final = ("lexical", "shipped")


@dataclass(frozen=True)
class Wanted:
    """A generator that is to write paraphrases.

    Attributes:
        model: A paraphraser, or what ``load_paraphraser`` takes.
        decoding: How it searches; None is its default.
        rewriting: How it is asked, if it is a language model.
    """

    model: Paraphraser | str | Path
    decoding: Decoding | None = None
    rewriting: RewritingOptions | None = None

    @property
    def searches(self) -> bool:
        """Whether options of a search are for it, as far as is known before it is loaded."""
        if isinstance(self.model, Paraphraser):
            return type(self.model).describe_decoding is not Paraphraser.describe_decoding
        found = find_generator(str(self.model))
        return found is None or found[0].name not in ("lexical", *REWRITING)

    def load(self, options: Mapping[str, Any], lang: str | None, source_lang: str | None = None) -> Paraphraser:
        """The paraphraser, which is loaded unless it is given."""
        if isinstance(self.model, Paraphraser):
            return self.model
        return load_paraphraser(self.model, lang=lang, source_lang=source_lang, **options)

    def options(
        self,
        loading: Loading,
        generators: Sequence[Wanted],
        texts: int,
        engine: Engine | None = None,
        also: Collection[str] = (),
    ) -> dict[str, Any]:
        """Those options of loading that it has a use for, and those that none of the generators has, to be refused.

        ``also`` are options that something else has a use for.
        """
        given: dict[str, Any] = {**loading}
        own = self._taken(given)
        used = own.union(also, *(one._taken(given) for one in generators))
        idle = {name for name, plain in OPTIONS.items() if given.get(name) in (None, plain) or name in used}
        given["rewriting"] = self.rewriting
        if "jobs" in given:
            given |= processes_for(loading, texts, self.rewriting, engine)
        return {name: value for name, value in given.items() if name in own or name not in idle}

    def _taken(self, loading: Mapping[str, Any]) -> frozenset[str]:
        if isinstance(self.model, Paraphraser):
            return frozenset()
        try:
            return named_generator(str(self.model), loading.get("backend", "polyref"))[0].taken()
        except ModelError:  # which is said when it is loaded
            return frozenset(OPTIONS)


def is_language_model(model: Paraphraser | str | Path) -> bool:
    """Whether a name is that of a language model, which is asked by :class:`RewritingOptions`."""
    found = None if isinstance(model, Paraphraser) else find_generator(str(model))
    return found is not None and found[0].name in REWRITING


def processes_for(
    loading: Loading, texts: int, rewriting: RewritingOptions | None = None, engine: Engine | None = None
) -> dict[str, int | None]:
    """``jobs`` and ``threads`` of ``load_paraphraser``: as asked, or one process a core where nothing else is said.

    Who asks for a number of processes gets one thread in each, so that the number does not matter to the last digit.
    """
    jobs, threads = loading["jobs"], loading.get("threads")
    if rewriting is not None:
        if jobs not in (None, 1):
            raise UsageError(f"`jobs` is {jobs}, but language models are asked by one process", remedy="`concurrency`")
        if engine is not None:
            remedy = "run the model behind a server on the cluster: `base_url`, `concurrency`"
            raise UsageError("`engine` is for networks, but language models are asked by one process", remedy=remedy)
        return {"jobs": 1, "threads": threads}
    if engine is not None:
        return {"jobs": 1, "threads": threads or 1}
    if jobs is not None:
        return {"jobs": jobs, "threads": threads or 1}
    if threads is not None or loading.get("device", "cpu") != "cpu" or loading.get("backend") == "fairseq":
        return {"jobs": 1, "threads": threads}
    most = texts // FEWEST
    jobs = min(available(), most) if most > 1 else 1
    return {"jobs": jobs, "threads": None if jobs == 1 else 1}


#: Generators of polyref that write English alone, where no model of one's own is named.
_ENGLISH: Final = ("shipped", "lexical")
#: Segments that are read to tell a language.
_ENOUGH: Final = 1000


def language_of(
    segments: Iterable[Segment],
    generators: Sequence[Paraphraser | str | Path] = (),
    *,
    pair: str | None = None,
    meta: Mapping[str, Any] | None = None,
    file: str | None = None,
) -> tuple[str, Language | None]:
    """The code of the language of references, where no option names it; and the language, where the texts told it.

    The ``generators`` are not loaded for it: where all of them write one language, it is that, and whether the texts
    are in it is another question. Where the texts do not tell, the name of their ``file`` may: ``refs.de``.
    """
    recorded = (meta or {}).get("lang")
    recorded = recorded[-1] if isinstance(recorded, list) and recorded else recorded
    if pair and "-" in pair:
        return pair.split("-")[1], None
    if isinstance(recorded, str) and recorded:
        return recorded, None
    written = {_only_language(one) for one in generators}
    if len(written) == 1 and (only := written.pop()):
        return only, None
    first = list(islice((segment for segment in segments if segment.originals), _ENOUGH))
    named = {segment.lang for segment in first}
    if len(named) == 1 and (only := named.pop()):
        return only, None
    told = recognised(ref.text for segment in first for ref in segment.originals)
    name = (file or "").removesuffix(".gz").removesuffix(".xz")
    told = told or known_languages().get(Path(name).suffix[1:].lower())
    if told is None:
        raise DataError(
            "the language of these texts cannot be told: they are few, or mixed",
            file=file,
            remedy="name it with `lang`, such as en, de or zh",
        )
    return told.code, told


def _only_language(generator: Paraphraser | str | Path) -> str | None:
    if isinstance(generator, Paraphraser):
        return generator.lang or (generator.languages[0] if len(generator.languages) == 1 else None)
    if generator == "shipped/en":
        return "en"
    found = find_generator(str(generator))
    return "en" if found and found[0].name in _ENGLISH and found[1] is None else None
