"""Translators' files: XLIFF 1.x and 2.x, and TMX, a unit of texts in two or more languages for every segment.

Specifications: OASIS, XLIFF 1.2 (2008) and 2.1 (2018); LISA, TMX 1.4b (2005). Of the texts of a unit, one language is
the references and another the source. Inline markup is left out: what stands for the codes of the original document
with all that is in it, what marks a stretch of text without the text. A code that is a line break becomes a space, and
so does a line end with the spaces around it.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.formats.base import Format, Lines, Opened, Outputs, Start, shortened
from polyref.formats.xml import XmlReader, is_markup
from polyref.languages import distance, split_pair
from polyref.references import Place, Reference, Segment

_XML_LANG: Final = "http://www.w3.org/XML/1998/namespace lang"
#: Elements that hold segments or parts of them, and those with the text of a segment.
_HOLDERS: Final = {
    "xliff": frozenset(
        ["xliff", "file", "body", "group", "trans-unit", "bin-unit", "unit", "segment", "alt-trans", "matches", "match"]
    ),
    "tmx": frozenset({"tmx", "header", "body", "tu", "tuv"}),
}
_TEXTS: Final = {"xliff": frozenset({"source", "target", "seg-source"}), "tmx": frozenset({"seg"})}
#: Within text: what marks a stretch of it, and what stands for codes.
_MARKS: Final = frozenset({"g", "mrk", "pc", "hi"})
_CODES: Final = frozenset(["x", "bx", "ex", "bpt", "ept", "ph", "it", "ut", "sc", "ec", "sm", "em", "cp"])
#: Elements of translations that a file proposes for a unit, from memories and machines.
PROPOSALS: Final = ("alt-trans", "match")


class _Text(NamedTuple):
    """A text of a unit; None where it is not translated."""

    lang: str  # empty where the file does not say it
    text: str | None
    source: bool


@dataclass(slots=True)
class _Unit:
    """A segment: its texts in all languages."""

    name: str
    line: int
    texts: list[_Text] = field(default_factory=list)
    proposals: list[_Text] = field(default_factory=list)
    document: str | None = None


class _Reader(XmlReader):
    """Reads the units of a file; what is done waits in ``done``. ``wanted`` is the root: ``xliff`` or ``tmx``."""

    def __init__(self, file: str, wanted: str) -> None:
        super().__init__(file, f"expected {wanted.upper()}, which begins with <{wanted}>", separator=" ", doctype=True)
        self.wanted = wanted
        self._texts = _TEXTS[wanted]
        self._known = _HOLDERS[wanted] | self._texts | _MARKS
        self.done: list[_Unit] = []
        self._space = ""  # the namespace of the root
        self._skipped = 0  # elements within one that is not read, with it
        self._open: list[str] = []
        self._languages = ("", "")  # of sources and of targets
        self._default = ""  # that of the sources of TMX
        self._document: str | None = None
        self._unit: _Unit | None = None
        self._lang = ""  # of the text that is read
        self._pieces: list[str] | None = None  # of it; None outside of texts
        self._marked: dict[str, list[str]] = {}  # the segments that are marked in it, by id
        # Of a unit of XLIFF: id of a segment, empty for the whole -> what is there -> language and text.
        self._sides: dict[str, dict[str, tuple[str, str]]] = {}
        self._segment = ""

    def units(self, lines: Iterator[str]) -> Iterator[_Unit]:
        """The units, as they are read."""
        none = True
        for _ in self.feed(f"{line}\n" for line in lines):
            none = none and not self.done
            yield from self.done
            self.done.clear()
        if none:
            raise DataError("no segments", file=self.file)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, own = name.rpartition(" ")
        if not self._open:
            self._space = space
            if own != self.wanted:
                raise self.fault(f"is markup (<{shortened(own)[1:-1]}>)", self.expected)
        # What tools add lies in namespaces of their own, as do the proposals of XLIFF 2.
        ours = space == self._space or own in {"matches", "match"}
        if self._skipped or not ours or own not in self._known:
            self._skip(own, attributes, ours=ours)
            return
        self._open.append(own)
        if self._pieces is not None:
            self._mark(own, attributes)
        elif own in self._texts:
            self._begin(own, attributes)
        elif own in _MARKS:
            raise self.fault(f"<{own}> outside of a text")
        else:
            self._hold(own, attributes)

    def _skip(self, name: str, attributes: Mapping[str, str], *, ours: bool) -> None:
        if self._pieces is not None and not self._skipped:
            if ours and name not in _CODES:
                raise self.fault(
                    f"<{shortened(name)[1:-1]}> within a text, where {self.wanted.upper()} has no such element"
                )
            kinds = (attributes.get("ctype"), attributes.get("type"), attributes.get("subType"))
            self._add(" " if not {"lb", "xlf:lb"}.isdisjoint(kinds) else "")
        self._skipped += 1

    def _hold(self, name: str, attributes: Mapping[str, str]) -> None:
        """What holds texts begins."""
        if name == "xliff":
            if (version := attributes.get("version", ""))[:2] not in {"1.", "2."}:
                raise self.fault(f"the version of XLIFF is {shortened(version)}, expected 1.x or 2.x")
            self._languages = attributes.get("srcLang", ""), attributes.get("trgLang", "")
        elif name == "file":
            own = attributes.get("source-language", ""), attributes.get("target-language", "")
            self._languages = own if any(own) else self._languages
            if not self._languages[0]:
                raise self.fault("a file that does not say the language of its sources")
            self._document = attributes.get("original") or attributes.get("id")
        elif name in {"trans-unit", "unit"}:
            if not attributes.get("id"):
                raise self.fault(f"<{name}> without an id")
            self._unit = _Unit(attributes["id"], self.line, document=self._document)
            self._sides, self._segment = {}, ""
        elif name == "segment":
            self._segment = attributes.get("id") or str(len(self._sides) + 1)
            if self._segment in self._sides:
                raise self.fault(f"the segment {shortened(self._segment)} of a unit occurs twice")
        elif name == "header":
            self._default = attributes.get("srclang", "")
        elif name == "tu":
            self._unit = _Unit(attributes.get("tuid", ""), self.line)
            self._languages = attributes.get("srclang", self._default), ""
        elif name == "tuv":
            self._lang = attributes.get(_XML_LANG) or attributes.get("lang") or ""
            if not self._lang:
                raise self.fault("<tuv> without xml:lang")

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        """A text begins."""
        if self._unit is None or (name == "seg" and self._open[-2] != "tuv"):
            raise self.fault(f"<{name}> outside of a unit")
        if name != "seg":
            self._lang = attributes.get(_XML_LANG) or self._languages[name == "target"]
        self._pieces, self._marked = [], {}

    def _mark(self, name: str, attributes: Mapping[str, str]) -> None:
        if name not in _MARKS:
            raise self.fault(f"<{name}> within a text, which does not end")
        if attributes.get("mtype") == "seg":
            if (found := attributes.get("mid") or str(len(self._marked) + 1)) in self._marked:
                raise self.fault(f"the segment {shortened(found)} of a unit is marked twice")
            self._marked[found] = []
            self._open[-1] = "mrk of segment"

    def _text(self, data: str) -> None:
        if self._pieces is not None and not self._skipped:
            self._add(data)

    def _add(self, data: str) -> None:
        if self._pieces is not None:
            self._pieces.append(data)
        if self._marked and "mrk of segment" in self._open:
            next(reversed(self._marked.values())).append(data)

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        own = self._open.pop()
        unit = self._unit
        if own in self._texts and unit is not None:
            self._close_text(own, unit)
        elif own in {"trans-unit", "unit"} and unit is not None:
            self._close_unit(unit)
        elif own == "tu" and unit is not None:
            self.done.append(unit)
        elif own == "file":
            self._document = None
        if own in {"trans-unit", "unit", "tu"}:
            self._unit = None

    def _close_text(self, name: str, unit: _Unit) -> None:
        text = _plain(self._pieces or ())
        marked = {key: (self._lang, _plain(pieces)) for key, pieces in self._marked.items()}
        self._pieces, self._marked = None, {}
        if name == "seg":
            unit.texts.append(_Text(self._lang, text or None, distance(self._languages[0], self._lang) is not None))
        elif not {*PROPOSALS}.isdisjoint(self._open):
            unit.proposals += [_Text(self._lang, text, source=False)] if name == "target" and text else []
        else:
            for key, own in (*marked.items(), (self._segment, (self._lang, text))):
                if name in self._sides.setdefault(key, {}):
                    raise self.fault(f"a second <{name}> of a unit", "further translations are <alt-trans>")
                self._sides[key][name] = own

    def _close_unit(self, unit: _Unit) -> None:
        """The segments of a unit of XLIFF: those of 2.x, those that are marked in the target, or else the whole."""
        whole = self._sides.pop("", {})
        parts = {key: part for key, part in self._sides.items() if "target" in part or "target" not in whole}
        for key, part in (parts or {"": whole}).items():
            alone = len(parts) < 2
            source = part.get("source") or part.get("seg-source") or (whole.get("source") if alone else None)
            lang, text = part.get("target", (self._languages[1], ""))
            first = _Text(*source, True) if source else _Text(self._languages[0], None, source=True)
            # Tools write an empty target where nothing is translated yet.
            texts = [first, _Text(lang, text if text or first.text == "" else None, source=False)]
            name = unit.name if alone else f"{unit.name}/{key}"
            self.done.append(_Unit(name, unit.line, texts, unit.proposals if alone else [], unit.document))


def _plain(pieces: Sequence[str]) -> str:
    """A text in one line: white space with a line end in it belongs to the markup."""
    first, *lines = "".join(pieces).split("\n")
    if not lines:
        return first
    *between, last = lines
    return " ".join(filter(None, (first.rstrip(" \t"), *(line.strip(" \t") for line in between), last.lstrip(" \t"))))


class _Found(NamedTuple):
    """What the references of a unit are."""

    lang: str
    texts: list[str]
    source: str | None
    src_lang: str


class _Sides:
    """Which language is the references, as the user says it or as there is but one beside the source."""

    def __init__(self, file: Lines) -> None:
        pair = file.reading.pair
        codes = split_pair(pair) if pair else ("", "")
        if codes is None:
            raise UsageError(f"`pair` is {pair!r}, expected SRC-TGT such as zh-en")
        self.file = file.name
        self.source, self.target = codes[0], file.reading.lang or codes[1]
        self.there: dict[str, None] = {}
        self.taken: dict[str, None] = {}

    def see(self, unit: _Unit) -> None:
        """Note the languages that a unit has."""
        self.there.update({text.lang or "one that is not named": None for text in unit.texts})

    def of(self, unit: _Unit) -> _Found | None:
        """The references of a unit; None of one without that language. ``taken`` says what fits the user's words."""
        self.see(unit)
        own = _nearest(unit.texts, self.target) if self.target else [text for text in unit.texts if not text.source]
        if len({text.lang for text in own}) == 1:  # XLIFF may go from a language into the same
            own = [text for text in own if not text.source] or own
        others = [text for text in unit.texts if text not in own]
        sources = _nearest(others, self.source) if self.source else [text for text in others if text.source]
        if not own or (self.source and not sources):
            return None
        # What is called as the user says it is meant, whatever else would fit.
        self.taken.update({text.lang: None for text in own if text.lang.lower() not in {"", self.target.lower()}})
        texts = [text.text for text in own if text.text is not None]
        source = next(iter(sources), _Text("", None, source=True))
        return _Found(own[0].lang, texts, source.text, source.lang)

    def ambiguous(self) -> UsageError:
        """Several languages fit."""
        there = ", ".join(sorted(self.there))
        fault = f"`lang` {self.target} may be any of" if self.target else "which language are the references? There are"
        found = ", ".join(sorted(self.taken)) if self.target else there
        return UsageError(f"{fault} {found}", file=self.file, remedy=f"name one: `lang` {next(iter(self.taken))}")

    def absent(self) -> DataError:
        """None has a text."""
        asked = f"in {self.asked}" if self.asked else "beside the sources"
        there = sorted(self.there)
        return DataError(
            f"no text {asked}, there are: {', '.join(there)}", file=self.file, remedy=f"name one: `lang` {there[0]}"
        )

    @property
    def asked(self) -> str:
        """The language, or pair, that the user says."""
        return f"{self.source}-{self.target}" if self.source else self.target


def _nearest(texts: Sequence[_Text], asked: str) -> list[_Text]:
    """The texts in the language that is nearest to a code; a target that does not say its own may be in any."""
    ranked: dict[int, list[_Text]] = {}
    for text in texts:
        far = distance(asked, text.lang) if text.lang else None if text.source else 3
        if far is not None:
            ranked.setdefault(-1 if text.lang.lower() == asked.lower() else far, []).append(text)
    return ranked[min(ranked)] if ranked else []


def _units(file: Lines, form: str) -> Iterator[tuple[_Unit, _Found]]:
    """Units and their references. Nothing is given before one has a text: it might be the wrong language."""
    units, sides = _Reader(file.name, form).units(file.lines), _Sides(file)
    waiting: list[tuple[_Unit, _Found]] = []
    begun, left_out = False, 0
    for unit in units:
        found = sides.of(unit)
        if len(sides.taken) > 1:
            for other in units:
                sides.see(other)
            raise sides.ambiguous()
        if found is None:
            left_out += 1
            continue
        waiting.append((unit, found))
        if begun := begun or bool(found.texts):
            yield from waiting
            waiting.clear()
    if not begun:
        raise sides.absent()
    if left_out:
        said = f"{left_out} unit{'s' * (left_out > 1)} without a text in {sides.asked or 'a second language'}, left out"
        warnings.warn(f"{file.name}: {said}", PolyrefWarning, stacklevel=2)


def _segments(file: Lines, form: str) -> Iterator[Segment]:
    whole, role = file.reading.whole, _role_of_proposals(file.reading.fields, file.name)
    used: set[str] = set()
    numbers: Counter[str] = Counter()
    left_out = 0
    for place, (unit, found) in enumerate(_units(file, form), 1):
        name: str = Place(place) if not unit.name else unit.name
        while name in used:  # memories that were put together, and files of one XLIFF, may use an id again
            numbers[unit.name] += 1
            name = f"{unit.name}:{numbers[unit.name] + 1}"
        used.add(name)
        refs = [Reference(text) for text in found.texts]
        more = [one.text or "" for one in unit.proposals if distance(found.lang, one.lang) is not None]
        if role == "reference":
            refs += map(Reference, more)
        elif role == "paraphrase":
            of = 0 if len(refs) == 1 else None
            refs += [Reference(text, "paraphrase", of=of, rank=rank) for rank, text in enumerate(more)]
        else:
            left_out += len(unit.proposals)
        extra = {"src_lang": found.src_lang} if found.src_lang and whole else {}
        about = (found.source, unit.document, found.lang or None) if whole else (None, None, None)
        yield Segment(name, tuple(refs), *about, extra)
    if left_out:
        several = "proposed translation is" if left_out == 1 else "proposed translations are"
        said = f"{left_out} {several} left out: `fields` {PROPOSALS[0]}=reference takes such"
        warnings.warn(f"{file.name}: {said}", PolyrefWarning, stacklevel=2)


def _role_of_proposals(fields: Mapping[str, str], file: str) -> str | None:
    for key, role in fields.items():
        if key not in PROPOSALS or role not in {"reference", "paraphrase"}:
            expected = f"`fields` takes {PROPOSALS[0]}=reference or =paraphrase; `lang` says which language"
            raise UsageError(f"no {key}={role} in translators' files", file=file, remedy=expected)
    return next(iter(fields.values()), None)


def _open(files: Sequence[Lines], form: str) -> Opened:
    (file,) = files
    return Opened(form, {}, _segments(file, form))


def _outputs(file: Lines, form: str) -> Outputs:
    found = []
    for unit, own in _units(file, form):
        if len(own.texts) != 1:
            fault = f"unit {unit.name!r} has {len(own.texts) or 'no'} translation{'s' * (len(own.texts) > 1)}"
            raise DataError(f"{fault}, expected the output of the system", file=file.name, line=unit.line)
        found += own.texts
    return Outputs({"": found})


def _matches(name: str, start: Start, root: str) -> bool:
    return is_markup(start) and re.search(rf"<(?:[\w.-]+:)?{root}[\s>]", "\n".join(start.lines)) is not None


def _form(name: str) -> Format:
    matches, opened, outputs = partial(_matches, root=name), partial(_open, form=name), partial(_outputs, form=name)
    return Format(name, matches, opened, outputs, pairs=True, langs=True, begins="<")


XLIFF: Final = _form("xliff")
TMX: Final = _form("tmx")
