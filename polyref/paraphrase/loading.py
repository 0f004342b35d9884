"""``load_paraphraser``: from a name or a path to a generator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from polyref.cache import default_cache
from polyref.errors import ModelError, UsageError
from polyref.models.device import devices, own_device
from polyref.models.opening import find_model
from polyref.paraphrase.generators import Generator, built_in, find_generator, generators
from polyref.paraphrase.in_processes import InProcesses
from polyref.paraphrase.loading_options import BACKENDS, PRISM_B, check_penalty
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.options import GENERATORS as REWRITING
from polyref.paraphrase.rewriting.options import RewritingOptions


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
            (:mod:`polyref.paraphrase.generators`); a folder of such a name is ``./NAME``.
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
