"""A language model as a judge over reference sets: a score from 0 to 100, as GEMBA asks for one.

``gemba_da`` asks for the score alone (Kocmi and Federmann 2023), ``gemba_esa`` for the mistakes and then for the score,
as people are asked in ESA (Kocmi et al. 2024). All references of a segment stand in one prompt, as alternatives. The
prompts in the folder ``prompts`` are polyref's own; a file of that form may hold any other.

An answer without a score is asked for once more. If that holds none either, the output has no score: it is left out of
its system's mean, and a warning counts such outputs. Answers are kept on the disk, and none is asked for twice.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from polyref.cache import sets_folder
from polyref.chat.answers import Answer, Answers, identity
from polyref.chat.asking import Asker, ChatModel, Nobody, Patience, StoppedError, UsageNote, plain
from polyref.chat.requests import Request, parse_body
from polyref.chat.server import Server
from polyref.engine import MODELS
from polyref.errors import DataError, ModelError, PolyrefWarning, UsageError
from polyref.metrics.base import Metric, Texts
from polyref.metrics.pairs import SOURCE_LANG, TARGET_LANG, mean_of
from polyref.metrics.statistics import Floats, Statistics
from polyref.models.language_recognition import language_name
from polyref.options import option
from polyref.progress import work
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

PROMPTS: Final = Path(__file__).parent / "prompts"
#: Places for texts in a prompt, by their names there; some as in GEMBA's published prompts.
_TEXTS: Final = {
    **{name: name for name in ("source", "references", "output", "answer")},
    **{"source_seg": "source", "reference_seg": "references", "target_seg": "output", "error_spans": "answer"},
}
#: Places for words: the number of a reference, and languages.
_WORDS: Final = ("number", "source_language", "target_language", "source_lang", "target_lang")
_PLACE: Final = re.compile(r"\{(\w+)\}")
#: What a server is asked if it does not take the first prompt, to see whether it takes any.
_SIMPLE: Final = "Answer with the number 50 alone."
_AGAIN: Final = "This answer cannot be used: {}. Answer once more, in exactly the form that was asked for."
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d{1,2})?(?!\d)")
_OF_HUNDRED: Final = re.compile(r"(?<=\d)\s*(?:/|out of|of)\s*100(?!\d)", re.IGNORECASE)
#: Key of the statistics' ``meta`` for who answered.
_WHO: Final = "judge"
#: Open files of answers: metrics of one run share them.
_OPEN: Final[WeakValueDictionary[tuple[Path, str | None, bool], Answers]] = WeakValueDictionary()
#: A source, references and an output.
Judged = tuple[str, tuple[str, ...], str]


def score_in(answer: str) -> float | None:
    """The score in an answer: its only number, or the only one after the last "score", if it is from 0 to 100."""
    for part in (answer, answer.lower().rpartition("score")[2]):
        found = {float(one.replace(",", ".")) for one in _NUMBER.findall(_OF_HUNDRED.sub("", part))}
        if len(found) == 1 and 0 <= (score := found.pop()) <= 100:
            return score
    return None


def filled(question: str, texts: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> str:
    """A prompt. A line with the place of a text is repeated for every line of that text, so that none leaves its line.

    The line with ``{references}`` is repeated for each of them too, and left out where there is none.
    """
    lines = []
    for line in question.split("\n"):
        name = next((_TEXTS[name] for name in _PLACE.findall(line) if name in _TEXTS), None)
        for number, text in enumerate([""] if name is None else texts[name], 1):
            for part in text.splitlines() or [""]:
                put = {**words, **dict.fromkeys(_TEXTS, part), "number": str(number)}
                lines.append(_PLACE.sub(lambda place, put=put: put[place[1]], line))  # type: ignore[misc]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class GembaDA(Metric):
    """A judge that is asked for a score. Higher is better."""

    family: ClassVar[str] = "gemba"
    digits: ClassVar[int] = 1
    may_miss: ClassVar[bool] = True

    model: str = option("", help="The judge, by the name that its server gives it.", metavar="NAME")
    base_url: str | None = option(
        None, help="Its server, such as http://localhost:8000/v1; the key is that of OPENAI_API_KEY.", metavar="URL"
    )
    plain_http: bool = option(False, help="Send the key over http too, where others on the way can read it.")
    template: str | None = option(
        None,
        help="Prompt with {source}, {references}, {output}, {source_language} and {target_language}, or the names of "
        "GEMBA's published ones; a line === begins a second question, with {answer}.",
        metavar="FILE",
        otherwise="polyref's own",
    )
    lang: str | None = option(
        None, help=TARGET_LANG, flag="--target-lang", metavar="LANG", common=True, otherwise="not said"
    )
    source_lang: str | None = option(
        None,
        help=SOURCE_LANG,
        flag="--source-lang",
        metavar="LANG",
        heading=MODELS,
        otherwise="not said",
    )
    answers: str | None = option(
        None, help="Where answers are kept: none is asked for twice.", metavar="FILE", otherwise="beside the cache"
    )
    retry_failed: bool = option(False, help="Ask again what the server did not answer.")
    max_tokens: int = option(1024, help="Most tokens of an answer.", least=1)
    body: str = option("{}", help='More parts of requests, such as {"top_p": 0.9}; null takes one out.', metavar="JSON")
    concurrency: int = option(8, help="Requests at a time.", least=1)
    retries: int = option(6, help="Further tries of a request.", least=0)
    timeout: float = option(120.0, help="Seconds for a whole answer.", least=0.001)
    price_in: float = option(0.0, help="Of a million tokens read; a note says the cost.", least=0)
    price_out: float = option(0.0, help="Of a million tokens written.", least=0)

    name = "gemba_da"
    label = "GEMBA-DA"
    #: The score, and 1 for an output that has one.
    columns = ("score", "segments")

    def __post_init__(self) -> None:
        super().__post_init__()
        server = "base_url=http://localhost:8000/v1"
        if not self.model:
            remedy = f"{self.name}(model=NAME, {server})"
            raise UsageError(f"{self.name} needs a model, by the name that a server gives it", remedy=remedy)
        if self.base_url is None and (self.answers is None or not Path(self.answers).is_file()):
            raise UsageError(f"{self.name} asks no server that nobody names", remedy=f"name it: {server}")
        _ = self._questions, self._body  # refused before anything is read or asked

    def between(self, source: str, target: str) -> GembaDA:
        return replace(self, lang=self.lang or target, source_lang=self.source_lang or source)

    @property
    def needs_sources(self) -> bool:  # type: ignore[override]
        """Whether the prompt has a place for them."""
        return any(_TEXTS.get(name) == "source" for one in self._questions for name in _PLACE.findall(one))

    @cached_property
    def _body(self) -> dict[str, Any]:
        return parse_body(self.body)

    @cached_property
    def _questions(self) -> list[str]:
        """What is asked, one after the other."""
        path = self.template or PROMPTS / f"{self.name.removesuffix('-src')}.txt"
        lines = read_lines(path)
        if self.template is None and not self.needs_references:
            lines = [line for line in lines if "reference" not in line]
        named = set()
        for number, line in enumerate(lines, 1):
            names = _PLACE.findall(line)
            texts = [name for name in names if name in _TEXTS]
            unknown = [name for name in names if name not in _TEXTS and name not in _WORDS]
            if unknown or len(texts) > 1:
                found = " and ".join(f"{{{name}}}" for name in unknown[:1] or texts)
                known = ", ".join(f"{{{name}}}" for name in (*_TEXTS, *_WORDS))
                raise DataError(f"{found} in a line, expected of {known} one text at most", file=path, line=number)
            named |= {_TEXTS[name] for name in texts}
        for name, wanted in (("output", True), ("references", self.needs_references)):
            if (name in named) != wanted:
                reason = f"{'no ' if wanted else ''}{{{name}}} in the prompt, which {self.name} "
                raise DataError(reason + ("shows" if wanted else "does not read"), file=path)
        return re.split(r"(?m)^={3,}\n", "\n".join(lines))

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics: the prompt by its content, and not where the answers come from."""
        digest = hashlib.sha256("\n===\n".join(self._questions).encode()).hexdigest()[:12]
        body = hashlib.sha256(json.dumps(self._body, sort_keys=True).encode()).hexdigest()[:12] if self._body else None
        known = {"judge": self.model, "prompt": digest, "max_tokens": self.max_tokens, "body": body}
        known |= {"temperature": self._body.get("temperature", 0), "from": self.source_lang, "lang": self.lang}
        return {name: plain(str(value)) for name, value in known.items() if value is not None}

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return [f"{name}:{value}" for name, value in self.options.items()]

    def _described_model(self, stats: Statistics, k: int) -> list[str]:
        missing = int(self._missing(stats, k).sum())
        return [*map(plain, stats.meta.get(_WHO, ())), *([f"unanswered:{missing}"] if missing else [])]

    def _missing(self, stats: Statistics, k: int) -> npt.NDArray[np.bool_]:
        """Outputs that were asked about and have no score, shape (S, N)."""
        asked = stats.counts(k) > 0 if self.needs_references else np.ones(len(stats.segments), dtype=np.bool_)
        return np.asarray(asked & (stats.at(k)[..., 1] == 0))

    def details(self, stats: Statistics, *, k: int) -> list[dict[str, Any]]:
        """``unanswered``: how many outputs of every system have no score."""
        return [{"unanswered": int(one.sum())} for one in self._missing(stats, k)]

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return mean_of(values[..., 0], values[..., 1])

    @cached_property
    def _asker(self) -> Asker:
        if self.answers is None:
            name = hashlib.sha256(repr((self.base_url, self.model)).encode()).hexdigest()[:16]
            path = sets_folder() / f"gemba-{name}.answers"
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise DataError(f"cannot be made: {error.strerror}", file=path.parent, remedy="`answers`") from None
        else:
            path = Path(self.answers).absolute()
        key = path, self.base_url, self.retry_failed
        if (answers := _OPEN.get(key)) is None:
            answers = _OPEN[key] = Answers(*key[:2], retry_failed=self.retry_failed)
        chat: ChatModel = Nobody(self.model)
        if self.base_url is not None:
            chat = Server(self.model, self.base_url, self.timeout, plain_http=self.plain_http)
        return Asker(chat, answers, retries=self.retries, seed=0, body=self._body)

    @cached_property
    def _heard(self) -> tuple[set[Answer], Counter[str]]:
        """Who answered, and why outputs have no score, while statistics are made."""
        return set(), Counter()

    def statistics(
        self,
        systems: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        *,
        ks: Sequence[int] | None = None,
        allow_missing: bool = False,
    ) -> Statistics:
        """Ask for every score. A note says what was asked and what it cost, a warning which outputs have no score.

        Raises:
            ModelError: The server cannot be asked, or no output of a system has a score.
        """
        who, faults = self._heard
        for one in self._heard:
            one.clear()
        stats = super().statistics(systems, references, ks=ks, allow_missing=allow_missing)
        price = (self.price_in, self.price_out)
        for number, line in enumerate(self._asker.report(price if any(price) else None)):
            warnings.warn(f"{self.model}: {line}", PolyrefWarning if number else UsageNote, stacklevel=2)
        reasons = "; ".join(reason for reason, _ in faults.most_common(3))
        missing = sum(self._missing(stats, k).sum(axis=1) for k in stats.ks)
        there = stats.values[..., 1].sum(axis=(0, 2))
        for name, without, scored in zip(systems, missing, there, strict=True):
            if without and not scored:
                raise ModelError(f"{self.model} gave no score to any output of {name} ({reasons})")
        if sum(missing):
            named = ", ".join(f"{count} of {name}" for name, count in zip(systems, missing, strict=True) if count)
            said = f"no score in {sum(missing)} of {sum(missing) + there.sum():.0f} judgements ({reasons})"
            warnings.warn(f"{self.name}: {said}; left out of means are {named}", PolyrefWarning, stacklevel=2)
        return replace(stats, meta={**stats.meta, _WHO: identity(self.model, who)})

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        places: dict[tuple[int, int, int], Judged] = {}
        for n, (source, references) in enumerate(zip(texts.sources, texts.references, strict=True)):
            for k, cut in enumerate(texts.cuts[:, n]):
                if cut or not self.needs_references:
                    shown = tuple(references[:cut]) if self.needs_references else ()
                    places |= {(k, s, n): (source or "", shown, own[n]) for s, own in enumerate(texts.systems)}
        scores = self._scores(list(dict.fromkeys(places.values())))
        values = np.zeros((len(texts.cuts), len(texts.systems), len(texts.sources), 2))
        for place, judged in places.items():
            if (score := scores[judged]) is not None:
                values[place] = score, 1
        return values

    def _scores(self, judged: Sequence[Judged]) -> dict[Judged, float | None]:
        """The scores of distinct outputs. Several requests run at a time; what ends one ends all."""
        asker, (who, faults) = self._asker, self._heard
        patience = asker.patience()
        if judged and self.base_url is not None:
            # Alone: what it finds out about the server holds for the others.
            first, simple = (self._request(one) for one in (self._question(judged[0], 0, ""), _SIMPLE))
            asker.begin(first, simple, patience)

        def score(one: Judged) -> tuple[float | None, str | None, list[Answer]]:
            try:
                return self._judged(one, patience)
            except Exception as error:
                patience.stop(error)
                raise

        scores: dict[Judged, float | None] = {}
        with ThreadPoolExecutor(self.concurrency, "polyref-judging") as pool:
            try:
                futures = [pool.submit(score, one) for one in judged]
                with work("judging", "outputs", len(judged)) as advance:
                    for one, future in zip(judged, futures, strict=True):
                        scores[one], fault, heard = future.result()
                        who.update(heard)
                        faults.update([fault] if fault else [])
                        advance(1)
            except (StoppedError, CancelledError):
                raise patience.reason or UsageError(f"{self.name} was stopped", remedy="no answer is lost") from None
            finally:
                patience.stop()
                pool.shutdown(cancel_futures=True)
        if asker.unanswered:
            reason = f"{len(asker.unanswered)} requests have no answer here, and no server is named"
            raise ModelError(reason, file=asker.answers.path, remedy=f"{self.name}(base_url=...)")
        return scores

    def _question(self, judged: Judged, number: int, answer: str) -> str:
        source, references, output = judged
        texts = {"source": [source], "references": references, "output": [output], "answer": [answer]}
        words = {
            f"{side}_{word}": f"the {side} language" if code is None else language_name(code)
            for side, code in (("source", self.source_lang), ("target", self.lang))
            for word in ("language", "lang")
        }
        return filled(self._questions[number], texts, words)

    def _request(self, *said: str) -> Request:
        """A question; and, where there are more, an answer to it and what is said to that."""
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
        fixed = {"model": self.model, "messages": messages, "temperature": 0, "seed": 0, "max_tokens": self.max_tokens}
        return Request(0, {name: part for name, part in (fixed | self._body).items() if part is not None})

    def _judged(self, judged: Judged, patience: Patience) -> tuple[float | None, str | None, list[Answer]]:
        """What one thread does: a score, or why there is none; and who answered."""
        said, last = "", len(self._questions) - 1
        heard: list[Answer] = []
        for number in range(last + 1):
            question = self._question(judged, number, said)
            if not (request := self._request(question)).sendable:
                return None, "half of a surrogate pair cannot be sent", heard
            answer = self._asker.ask(request, patience)
            if (fault := _fault(answer, number == last)) is not None and answer.failure is None:
                self._asker.answers.count(repairs=1)
                used = answer.said or answer.refusal or "(nothing)"
                answer = self._asker.ask(self._request(question, used, _AGAIN.format(fault)), patience)
                fault = _fault(answer, number == last)
            heard.append(Answer(model=answer.model, fingerprint=answer.fingerprint, without=answer.without))
            if fault is not None:
                return None, fault, heard
            said = answer.said
        return score_in(said), None, heard


def _fault(answer: Answer, last: bool) -> str | None:
    """Why an answer cannot be used; the ``last`` one has to hold the score."""
    if answer.failure is not None:
        return f"{answer.failure}: {answer.content}" if answer.content else answer.failure
    if answer.refusal is not None or answer.finish in ("content_filter", "length"):
        return "cut short" if answer.finish == "length" else "refused"
    if not answer.said:
        return "empty"
    return "no single number from 0 to 100" if last and score_in(answer.said) is None else None


@dataclass(frozen=True, kw_only=True)
class GembaESA(GembaDA):
    """A judge that is asked for mistakes first, then for a score in view of them."""

    name = "gemba_esa"
    label = "GEMBA-ESA"


@dataclass(frozen=True, kw_only=True)
class GembaDASource(GembaDA):
    """The same without references."""

    needs_references: ClassVar[bool] = False
    name = "gemba_da-src"
    label = "GEMBA-DA-src"


@dataclass(frozen=True, kw_only=True)
class GembaESASource(GembaESA):
    """The same without references."""

    needs_references: ClassVar[bool] = False
    name = "gemba_esa-src"
    label = "GEMBA-ESA-src"
