"""Evaluation sets and generators for evidence.py: candidates are made once and kept by the generator's signature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from looks import TEST_SETS

import polyref
from polyref.augment import augment, filter_chain
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.score_files import Gold
from polyref.paraphrase import Decoding, DiverseBeam, Hypothesis, NBest, Paraphraser, load_paraphraser
from polyref.references import Reference, ReferenceSet, Segment

#: Candidates are flushed to disk after this many texts.
SHARD = 32
#: What the tables' references of a generator were computed in, where that is not its default.
MEASURED_IN = {"shipped": "float32"}


@dataclass(frozen=True)
class Set:
    """One language pair with human judgements."""

    name: str
    folder: str
    pair: str
    reference: str
    gold: str
    other: str | None = None  # another human reference

    @property
    def frozen(self) -> bool:
        """Whether it is a test set."""
        return (self.folder, self.pair) in TEST_SETS


class Loaded:
    """The texts and judgements of a set, cut to ``limit`` judged segments spread evenly."""

    def __init__(self, which: Set, data: Path, limit: int | None) -> None:
        self.set = which
        self.evalset = EvalSet(data / which.folder, which.pair)
        self.target = which.pair.rpartition("-")[2]
        gold = self.evalset.gold(which.gold)
        references = self.evalset.references([which.reference])
        self.references = ReferenceSet.from_texts(references, meta={"references": [which.reference]})
        judged = self._judged(gold, len(references))
        chosen = np.flatnonzero(judged)
        if limit is not None and limit < len(chosen):
            chosen = chosen[np.linspace(0, len(chosen) - 1, limit).round().astype(int)]
        mask = np.zeros(len(references), dtype=np.bool_)
        mask[chosen] = True
        self.chosen = chosen
        self.gold: Gold = gold.within(mask)
        self.systems = list(gold.pairs.systems if gold.pairs is not None else gold.segment)
        self.outputs = self.evalset.outputs(self.systems)

    @staticmethod
    def _judged(gold: Gold, total: int) -> npt.NDArray[np.bool_]:
        if gold.pairs is not None:
            return np.isin(np.arange(total), gold.pairs.segment)
        if not gold.segment:
            raise UsageError(f"{gold.name} has no judgements of segments")
        judged: npt.NDArray[np.bool_] = ~np.isnan(np.stack(list(gold.segment.values()))).all(axis=0)
        return judged

    def part(self) -> ReferenceSet:
        """The chosen segments."""
        return ReferenceSet(tuple(self.references[n] for n in self.chosen), self.references.meta)


@dataclass
class Augmented:
    """A set with added references, of the chosen segments alone."""

    references: ReferenceSet
    described: str = ""


@dataclass(frozen=True)
class Generator:
    """``NAME=SPEC[;option=value...]``.

    SPEC is ``human`` (the set's other human reference), ``list:PATTERN`` (files of lists in the simple or the normal
    form; ``{folder}``, ``{pair}`` and ``{ref}`` are filled in), or anything that ``polyref augment --model`` takes;
    several of them, which take turns, with ``+`` between them.
    Options: filter, select, beam, groups, strength, closeness, dtype.
    """

    name: str
    spec: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Generator:
        name, found, rest = text.partition("=")
        if not found:
            name, rest = text, text
        spec, *settings = rest.split(";")
        options = dict(setting.split("=", 1) for setting in settings)
        known = {"filter", "select", "beam", "groups", "strength", "closeness", "dtype"}
        if unknown := set(options) - known:
            raise UsageError(f"{text}: unknown option {sorted(unknown)[0]!r}, expected some of {', '.join(known)}")
        return cls(name, spec, options)

    @property
    def listed(self) -> bool:
        """Whether its references are somebody's texts, and no model writes them."""
        return self.spec == "human" or self.spec.startswith("list:")

    @property
    def models(self) -> str:
        """Signatures of its models; empty where it has none."""
        return "" if self.listed else "+".join(one.signature for one in self._generators())

    def signature(self, loaded: Loaded, k: int) -> str:
        """A hash of what decides its references of a set: texts, models, options, filters and code."""
        path = self._listed_in(loaded)
        others = loaded.evalset.references([loaded.set.other]) if self.spec == "human" and loaded.set.other else []
        decided = [
            self.models or self.spec,
            sorted(item for item in self.options.items() if item[0] != "dtype"),
            filter_chain(self.filters, loaded.target).name,
            k,
            [[segment.id, *(ref.text for ref in segment.refs)] for segment in loaded.part()],
            hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None,
            others,
            _code(),
        ]
        return hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:16]

    @property
    def filters(self) -> str:
        """The name of its filters; somebody's texts are left as they are."""
        return self.options.get("filter", "none" if self.listed else "default")

    def augment(self, loaded: Loaded, k: int, work: Path) -> Augmented | None:
        """The set with up to k added references a segment; None where this generator has nothing for the set."""
        if self.spec == "human":
            other = loaded.set.other
            if other is None:
                return None
            texts = loaded.evalset.references([other])
            lists = [[text for text in texts[n] if text is not None] for n in loaded.chosen]
            return self._from_lists(loaded, lists, k)
        if self.spec.startswith("list:"):
            path = self._listed_in(loaded)
            return self._from_lists(loaded, _read_lists(path, loaded), k) if path and path.is_file() else None
        return self._generate(loaded, k, work)

    def _listed_in(self, loaded: Loaded) -> Path | None:
        if not self.spec.startswith("list:"):
            return None
        one = loaded.set
        return Path(self.spec[5:].format(folder=one.folder, pair=one.pair, ref=one.reference))

    def _generators(self) -> list[Paraphraser]:
        return [_load(one, self.options.get("dtype", MEASURED_IN.get(one))) for one in self.spec.split("+")]

    def _from_lists(self, loaded: Loaded, lists: Sequence[Sequence[str]], k: int) -> Augmented:
        chain = filter_chain(self.filters, loaded.target)
        segments = []
        for segment, texts in zip(loaded.part(), lists, strict=True):
            selection = chain.start([ref.text for ref in segment.originals])
            kept = [(rank, text) for rank, text in enumerate(texts) if not selection.offer(segment.refs[0].text, text)]
            added = [Reference(text, kind="pseudo", of=0, rank=rank) for rank, text in kept[:k]]
            segments.append(Segment(segment.id, (*segment.refs, *added)))
        meta = {"generator": self.name, "filters": chain.name}
        return Augmented(ReferenceSet(tuple(segments), meta), described=f"{self.spec}|{chain.name}")

    def _generate(self, loaded: Loaded, k: int, work: Path) -> Augmented:
        paraphrasers = [Kept(one, work / "candidates") for one in self._generators()]
        settings = {key: self.options[key] for key in ("beam", "groups", "closeness") if key in self.options}
        decoding = DiverseBeam(
            **{key: int(value) for key, value in settings.items()},
            strength=float(self.options["strength"]) if "strength" in self.options else None,
        )
        extra: dict[str, Any] = {}
        if "select" in self.options:
            extra["select"] = self.options["select"]
        refset = augment(
            loaded.part(),
            paraphrasers,
            k,
            filters=self.filters,
            decoding=decoding,
            lang=loaded.target,
            **extra,
        )
        described = "|".join(str(refset.meta.get(key)) for key in ("generator", "decoding", "filters", "select"))
        return Augmented(refset, described)


@cache
def _code() -> str:
    """A hash of the package: filters and decoding change with it, and their names may stay."""
    found = hashlib.sha256()
    home = Path(polyref.__file__).parent
    for path in sorted(home.rglob("*")):
        if path.suffix in {".py", ".txt", ".json", ".toml"} and path.is_file():
            found.update(f"{path.relative_to(home)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


@cache
def _load(spec: str, dtype: str | None) -> Paraphraser:
    threads = None if spec.startswith("lexical") else 1  # it has none
    return load_paraphraser(spec, threads=threads, lang="en", dtype=dtype)


def _read_lists(path: Path, loaded: Loaded) -> list[list[str]]:
    """Candidates of the chosen segments; the file has one line a segment of the whole set, checked by its reference."""
    from polyref.references import ReferenceSet

    found = ReferenceSet.load(path)
    if len(found) != len(loaded.references):
        raise DataError(f"has {len(found)} segments, the set {len(loaded.references)}", file=path)
    lists = []
    for n in loaded.chosen:
        known = {ref.text.strip() for ref in loaded.references[n].refs}
        if found[n].originals and found[n].originals[0].text.strip() not in known:
            raise DataError(f"segment {n + 1}: its reference is not {loaded.set.reference}'s", file=path)
        lists.append([ref.text for ref in found[n].extras])
    return lists


class Kept(Paraphraser):
    """A paraphraser whose n-best lists are kept in a file, one a signature of model and decoding.

    An n-best list depends on its text alone, so any mixture of texts can be served from one file.
    """

    def __init__(self, inner: Paraphraser, folder: Path) -> None:
        self.inner = inner
        self.name, self.signature, self.languages = inner.name, inner.signature, inner.languages
        self.folder = folder

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        return self.inner.describe_decoding(decoding, k)

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        wanted = list(texts)
        described = f"{self.describe(decoding, k)}|k:{k}"
        path = self.folder / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.jsonl"
        known = _read_kept(path, described)
        missing = sorted(dict.fromkeys(text for text in wanted if text not in known), key=len)
        if missing:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                if stream.tell() == 0:
                    stream.write(json.dumps({"generator": described}) + "\n")
                for at in range(0, len(missing), SHARD):
                    part = missing[at : at + SHARD]
                    for nbest in self.inner.paraphrase(part, k, decoding=decoding):
                        known[nbest.text] = nbest
                        stream.write(json.dumps(_row(nbest), ensure_ascii=False) + "\n")
                    stream.flush()
        for text in wanted:
            yield known[text]


def _row(nbest: NBest) -> dict[str, Any]:
    hypotheses = [[h.text, h.score, h.group, list(h.tokens)] for h in nbest.hypotheses]
    return {"text": nbest.text, "truncated": nbest.truncated, "hypotheses": hypotheses}


def _read_kept(path: Path, described: str) -> dict[str, NBest]:
    if not path.is_file():
        return {}
    lines = path.read_text("utf-8").split("\n")
    if lines and lines[-1]:
        # A killed run left half a line.
        lines[-1] = ""
        path.write_text("\n".join(lines), "utf-8", newline="\n")
    rows = [json.loads(line) for line in lines if line]
    if rows and rows[0] != {"generator": described}:
        raise DataError(f"holds candidates of {rows[0]}, expected {described}", file=path)
    known = {}
    for row in rows[1:]:
        found = tuple(Hypothesis(text, score, tuple(ids), group) for text, score, group, ids in row["hypotheses"])
        known[row["text"]] = NBest(row["text"], found, row["truncated"])
    return known
