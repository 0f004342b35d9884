"""The generators there are: those of polyref, and those that other packages add by an entry point.

A package adds one by an entry point of the group ``polyref.generators``, in its ``pyproject.toml``::

    [project.entry-points."polyref.generators"]
    synonyms = "my_package:load"

``load(argument, **options)`` returns a :class:`~polyref.paraphrase.Paraphraser`. ``--model synonyms`` calls it with
None for its argument, ``--model synonyms:FILE`` with ``"FILE"``. The options are those of
:func:`~polyref.paraphrase.load_paraphraser`: the function names the ones it takes, and all others are refused where
somebody sets them. Where nobody does, and it has a default of its own, that holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from polyref.errors import ModelError, UsageError
from polyref.paraphrase.loading_options import PRISM_B
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.plugins import Plugins, owner

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    _built_in(
        "shipped", "backends.shipped", "a model of the package (shipped/en), or a folder of that kind", alone=True
    ),
    _built_in("checkpoint", "backends.checkpoint", "a fairseq or Hugging Face encoder-decoder: a folder or a hub name"),
    _built_in(
        "fairseq", "backends.fairseq", "a fairseq checkpoint, run by fairseq 0.12.2 itself, where it is installed"
    ),
    _built_in(
        "roundtrip",
        "backends.roundtrip",
        "translation models, there and back: roundtrip:DIR,DIR, or roundtrip:NLLB_DIR@de",
    ),
    _built_in("ctranslate2", "backends.ctranslate2", "a model converted for CTranslate2: ctranslate2:DIR[,TOKENISER]"),
    _built_in("causal", "backends.causal", "a decoder-only language model that continues a prompt: causal:DIR[,FILE]"),
    _built_in("openai", "rewriting.server", "a language model behind a server: openai:NAME"),
    _built_in(
        "lexical",
        "lexical.generator",
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
