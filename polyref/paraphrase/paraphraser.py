"""The face of every generator, and the n-best lists it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import overload

from polyref.cache import Cache
from polyref.errors import DataError, UsageError
from polyref.languages import matching, resolve
from polyref.models.language_recognition import language_name, other_language
from polyref.paraphrase.decoding import Decoding, DiverseBeam, check_k
from polyref.values import html_table


@dataclass(frozen=True)
class Hypothesis:
    """One paraphrase.

    Attributes:
        text: Detokenised text.
        score: Length-normalised log-probability under the model, in nats, <= 0, without diversity penalties; of other
            semantics than the paper's, what their list is ranked by. None where the generator has no probabilities.
        tokens: Token ids, with the end of sentence; empty where the generator has no tokens.
        group: Group of the diverse beam that found it.
    """

    text: str
    score: float | None = None
    tokens: tuple[int, ...] = ()
    group: int = 0


@dataclass(frozen=True, repr=False)
class NBest:
    """The paraphrases of one text, best first.

    Attributes:
        text: The text as it was given.
        hypotheses: Distinct texts; fewer than asked for where there are fewer, none for an empty text.
        truncated: Whether the text was longer than the model can read and was cut for generation.
        composed: Whether the paraphrases were put together from those of the sentences.
        failure: Why there are none, where something failed; None where nothing did.
    """

    text: str
    hypotheses: tuple[Hypothesis, ...]
    truncated: bool = False
    composed: bool = False
    failure: str | None = None

    @property
    def paraphrases(self) -> list[str]:
        """The texts of the hypotheses, best first."""
        return [hypothesis.text for hypothesis in self.hypotheses]

    def __repr__(self) -> str:
        cut = ", truncated" if self.truncated else ""
        return f"NBest({self.text!r}: {self.paraphrases!r}{cut})"

    def _repr_html_(self) -> str:
        rows = [("" if one.score is None else f"{one.score:.2f}", one.text) for one in self.hypotheses]
        return html_table(("score", self.text), rows)


class Paraphraser(ABC):
    """Anything that makes n-best paraphrases: a subclass names itself and writes :meth:`generate`.

    Attributes:
        name: Short name for ``Reference.generator``.
        signature: Name and content hash, for signatures and caches; what changes the paraphrases changes it.
        languages: Codes of the languages it writes; empty when unknown.
        lang: The one of them that it was loaded to write; None where it has one or none, or was given a prefix.
        procedure: How a generator without a search makes its candidates, in a word or two without ``|``; it stands in
            signatures where a search describes its beam.
        single_sentences: Whether it writes single sentences well and longer texts badly.
        keeps_markup: Whether it leaves tags, placeholders and JSON as they are, where it is asked to.
        need: Which filter its paraphrases need: ``small-model``, or ``good-writer`` of what seldom writes nonsense.
        ahead: How many calls of :meth:`paraphrase` may be begun before the first list is read; more than 0 where a call
            starts work that goes on elsewhere.
        reload: Loads one like it in another process, which may be on another machine. It can be pickled. None where
            there can be only one.
    """

    name: str
    signature: str
    languages: tuple[str, ...] = ()
    lang: str | None = None
    procedure: str = "none"
    single_sentences: bool = False
    keeps_markup: bool = False
    need: str = "small-model"
    reload: Callable[[], Paraphraser] | None = None

    @property
    def ahead(self) -> int:
        return 0

    @abstractmethod
    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """Yield the n-best list of every text, in order; :meth:`paraphrase` has checked the arguments.

        Args:
            texts: Any iterable; consumed as needed.
            k: Most paraphrases a text, >= 1.
            decoding: How to search. Of a generator without a search it says nothing.
            progress: Show a bar on stderr, where the work takes long enough for one.
        """

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a string is a sequence, but is meant as one text
        self,
        texts: str,
        k: int = ...,
        *,
        lang: str | None = ...,
        decoding: Decoding | None = ...,
        progress: bool = ...,
    ) -> NBest: ...

    @overload
    def __call__(
        self,
        texts: Sequence[str],
        k: int = ...,
        *,
        lang: str | None = ...,
        decoding: Decoding | None = ...,
        progress: bool = ...,
    ) -> list[NBest]: ...

    def __call__(
        self,
        texts: str | Sequence[str],
        k: int = 10,
        *,
        lang: str | None = None,
        decoding: Decoding | None = None,
        progress: bool = False,
    ) -> NBest | list[NBest]:
        """Up to ``k`` paraphrases of one text, or of every text of a list.

        Args:
            texts: One text, or a list of them.
            k: Most paraphrases a text, >= 1.
            lang: Language to write, under any of its codes; it is only checked.
            decoding: How to search (None: the generator's default).
            progress: Show a bar on stderr.

        Raises:
            UsageError: Settings out of range, or too large for the machine's memory, or a language that the model does
                not write.
        """
        several = [texts] if isinstance(texts, str) else texts
        found = list(self.paraphrase(several, k, lang=lang, decoding=decoding, progress=progress))
        return found[0] if isinstance(texts, str) else found

    def paraphrase(
        self,
        texts: Iterable[str],
        k: int,
        *,
        lang: str | None = None,
        decoding: Decoding | None = None,
        progress: bool = False,
    ) -> Iterator[NBest]:
        """Yield up to ``k`` distinct paraphrases of every text, in order, reading ahead by a bounded window.

        Args:
            texts: Any iterable of strings; a generator is consumed as needed.
            k: Most paraphrases a text, >= 1.
            lang: Language to write, under any of its codes (None: the model's own). It is only checked: which language
                a model of several writes is settled when it is loaded, and part of its signature.
            decoding: How to search (None: ``DiverseBeam()``). ``SearchOptions`` are taken as they are: lengths,
                semantics, sampling. Generators without a search refuse both.
            progress: Show a bar on stderr.

        Raises:
            UsageError: One string instead of several, settings out of range or a language that the model does not
                write (before any work), or settings too large for the machine's memory.
        """
        if isinstance(texts, (str, bytes)):
            raise UsageError(
                "`texts` is one string, expected a list of them", remedy="for one text, call the paraphraser itself"
            )
        if isinstance(texts, Sequence):
            for number, text in enumerate(texts):
                if not isinstance(text, str):
                    raise UsageError(f"`texts`[{number}] is {text!r}, expected a string")
        self.check_language(lang)
        # Whoever can describe the decoding has checked it.
        self.describe_decoding(decoding, k)
        return self.generate(texts, k, decoding=decoding, progress=progress)

    def check_language(self, lang: str | None) -> None:
        """Refuse a language that is not written here; models that name no languages are taken to write any.

        Raises:
            UsageError: Naming the languages it has, or the one it was loaded for.
        """
        if lang is None or not self.languages:
            return
        wanted = resolve(lang, self.languages)
        if self.lang is not None and wanted != resolve(self.lang, self.languages):
            raise UsageError(
                f"the language is {lang!r}, but {self.name} was loaded to write {self.lang!r}",
                remedy=f"load_paraphraser(..., lang={lang!r})",
            )

    def check_texts(self, texts: Iterable[str], lang: str | None = None, file: str | Path | None = None) -> None:
        """Refuse texts that are clearly in another language than the one that is written here.

        Args:
            texts: All texts of one piece of work: single ones are too short to tell.
            lang: Their language, where the generator does not say what it writes.
            file: Where they come from, for the message.

        Raises:
            DataError: Naming the language that was found, and the remedy.
        """
        if self.languages and self.lang is None:
            written: Sequence[str] = self.languages
        else:
            written = [code for code in (self.lang or lang,) if code]
        if (found := other_language(texts, written)) is None:
            return
        if not self.languages or matching(found.code, self.languages):
            remedy = f"`lang` {found.code}, or `force` to go on"
        else:
            remedy = f"name a `model` that writes {found.name}, or `force` this one"
        names = ", ".join(dict.fromkeys(map(language_name, written)))
        raise DataError(f"the text is {found.name}, but {self.name} is to write {names}", file=file, remedy=remedy)

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        """How ``k`` paraphrases are made, for signatures: ``procedure``, or what a subclass with a search says.

        Raises:
            UsageError: ``k`` is below 1, or a decoding is asked for that the generator does not have.
        """
        check_k(k)
        if decoding not in (None, DiverseBeam()):
            raise UsageError(
                f"`{_first_option(decoding)}` is an option of a search, but {self.name} does not search: it has "
                f"{self.procedure}",
                remedy="leave it out",
            )
        return self.procedure

    def describe(self, decoding: Decoding | None, k: int) -> str:
        """Model and settled decoding in one string, for signatures."""
        return f"{self.signature}|{self.describe_decoding(decoding, k)}"

    def prepare(self, texts: Iterable[str], k: int) -> None:  # noqa: B027 (most know themselves)
        """Make ``signature`` complete before a run of these texts that needs it at its beginning.

        Whoever must ask somebody for that asks for ``k`` paraphrases of the first text, and keeps them for the run.
        """

    def use_cache(self, cache: Cache, loaded_with: str = "") -> None:  # noqa: B027 (not all can)
        """Keep n-best lists in a cache, and read them from there. Nothing here: generators with a search do it.

        ``loaded_with`` says what decides the lists and the signature does not say in full.
        """

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Give back what it holds beside memory: processes, files. Nothing here."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.signature!r})"

    def _repr_html_(self) -> str:
        facts = {
            "name": self.name,
            "languages": ", ".join(self.languages) or "not stated",
            "decoding": self.describe_decoding(None, 10),
            "signature": self.signature,
        }
        return html_table((type(self).__name__, ""), list(facts.items()))


def _first_option(decoding: Decoding) -> str:
    """The first option of a decoding that was named, or is not at its default."""
    plain = asdict(type(decoding)())
    given = asdict(decoding)
    named = [*given.get("fixed", ()), *(name for name in given if given[name] != plain[name]), "decoding"]
    return str(named[0])
