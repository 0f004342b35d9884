"""One string that says how a score came about, so that equal strings mean comparable numbers.

Form: ``name|key:value|...``: the metric's own part first (for BLEU, chrF and TER it holds sacreBLEU's signature
unchanged), then how many references were asked for and used, then how the extra ones were made, then versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from polyref import __version__
from polyref.references import ReferenceSet

#: Keys of a reference set's ``meta`` that change its text, and what they are called in a signature.
_PROVENANCE: Final = {
    "generator": "gen",
    "decoding": "dec",
    "peers": "peers",
    "filters": "filters",
    "select": "select",
    "seed": "seed",
}


#: Key of the ``meta`` of statistics: which sources were read.
_SOURCES: Final = "sources_read"

# sacreBLEU's short names.
_SHORT: Final = {
    "nrefs": "#",
    "case": "c",
    "eff": "e",
    "smooth": "s",
    "space": "s",
    "norm": "nr",
    "punct": "pn",
    "asian": "as",
    "version": "v",
}


def digest(signature: str) -> str:
    """Ten hexadecimal digits that stand for a signature: ``polyref info`` shows it in full."""
    return hashlib.sha256(signature.encode()).hexdigest()[:10]


def shortened(signature: str) -> str:
    """A signature with the keys that sacreBLEU's ``--short`` gives: ``nrefs:1|case:mixed`` is ``#:1|c:mixed``."""
    name, *rest = signature.split("|")
    # BLEU keeps "tok".
    keys = {**_SHORT, "tok": "t"} if name in ("TER", "parTER") else _SHORT
    parts = [part.partition(":") for part in rest]
    return "|".join([name, *(keys.get(key, key) + colon + value for key, colon, value in parts)])


def exact(value: float) -> str:
    """A number as ``:g`` writes it, with all its digits where those are not enough."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def read_sources(references: ReferenceSet) -> dict[str, Any]:
    """The ``meta`` of a set, with what :func:`described_sources` says: twelve digits of the sources' SHA-256."""
    texts = repr([(segment.id, segment.source) for segment in references])
    found = hashlib.sha256(texts.encode(errors="surrogatepass")).hexdigest()
    return {**references.meta, _SOURCES: f"sources:{found[:12]}"}


def described_sources(meta: Mapping[str, Any]) -> list[str]:
    """The part of a signature that says which sources a metric that reads them has read. Others leave the key alone."""
    return [flat(meta[_SOURCES])] if _SOURCES in meta else []


def feed(digest: hashlib._Hash, texts: Iterable[str]) -> None:
    """Hash texts so that it matters where each of them ends."""
    for text in texts:
        encoded = text.encode()
        digest.update(b"%d:" % len(encoded) + encoded)


class InputsDigest:
    """What all scores of one run share: references, which may come in parts, metrics, k, versions.

    ``weights`` are what the metrics weigh references by: ``given`` and ``logprob`` are read from the set. ``sources``
    says whether a metric reads the sources.
    """

    def __init__(self, weights: Collection[str] = (), sources: bool = False) -> None:
        self._weights, self._sources = weights, sources
        self._digest = hashlib.sha256()
        self._segments = 0
        self._counts: set[int] = set()

    def add(self, references: ReferenceSet) -> None:
        """Read ids, kinds and texts, and the weights that count."""
        for segment in references:
            parts = [segment.id, *([repr(segment.source)] if self._sources else [])]
            for ref in segment.refs:
                parts += [ref.kind, ref.text]
                parts += [f"{ref.weight}"] if "given" in self._weights else []
                parts += [f"{ref.logprob}"] if "logprob" in self._weights else []
            feed(self._digest, parts)
            self._digest.update(b";")
            self._counts.add(len(segment.refs))
        self._segments += len(references)

    def signature(self, metrics: Sequence[str], ks: Sequence[int], meta: Mapping[str, Any]) -> str:
        """One string, with the ``meta`` of the reference set."""
        described = [
            f"metrics:{','.join(metrics)}",
            f"k:{','.join(map(str, ks))}",
            f"segments:{self._segments}",
            f"refs:{span((min(self._counts, default=0), max(self._counts, default=0)))}",
            f"sha256:{self._digest.hexdigest()[:16]}",
            *provenance(meta),
            f"sacrebleu:{version('sacrebleu')}",
            f"polyref:{__version__}",
        ]
        return "|".join(described)


def inputs_signature(
    references: ReferenceSet,
    metrics: Sequence[str],
    ks: Sequence[int],
    weights: Collection[str] = (),
    sources: bool = False,
) -> str:
    """That of a whole set."""
    digest = InputsDigest(weights, sources)
    digest.add(references)
    return digest.signature(metrics, ks, references.meta)


def provenance(meta: Mapping[str, Any]) -> list[str]:
    """How the extra references were made, from the ``meta`` of their set."""
    if isinstance(meta.get("select"), (list, tuple)):
        # Generators of one set, of which some took the usual way.
        meta = {**meta, "select": ["rank" if name is None else name for name in meta["select"]]}
    return [f"{short}:{flat(meta[key])}" for key, short in _PROVENANCE.items() if meta.get(key) not in (None, {}, [])]


def span(numbers: tuple[int, int]) -> str:
    """``3`` or ``1..11``."""
    low, high = numbers
    return str(low) if low == high else f"{low}..{high}"


def flat(value: Any) -> str:
    """A meta value on one line, without the characters that separate parts."""
    if isinstance(value, Mapping):
        text = ",".join(f"{key}={flat(item)}" for key, item in value.items() if item is not None)
    elif isinstance(value, (list, tuple)):
        text = "+".join("-" if item is None else flat(item) for item in value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = str(value)
    return " ".join(text.replace("|", "/").split())
