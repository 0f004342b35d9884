"""JSON lines of the general task: test sets and outputs of 2025 and 2026, and human evaluation of 2024 and 2025.

A document of a test set is a line; its paragraphs, set apart by blank lines, are the segments, and agree in number
between source, references and outputs.

Human evaluation, 2025 (``wmt25-genmt-humeval.jsonl``): a segment a line, with ``doc_id``
(PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT), ``src_text``, ``tgt_text`` {name: text} and ``scores``: {name: [{"score": 90,
...}, ...]}, or as the first releases have them {name: {"human1": 90, ..., "human2": ...}}. 2024
(``wmt24_esa.jsonl``): a judgement a line, with ``langs``, ``line_id``, ``src``, ``tgt``, ``system`` and
``esa_score``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Outputs, Start, objects_in, one_file, without_blank_end
from polyref.formats.columns import NO_DOCUMENT, DocumentWriting, SetInColumns, counted
from polyref.formats.documents import HUMAN_NAME, Made, check_name, chosen, of_pair, present, segment_of_set
from polyref.json_files import Record, described
from polyref.languages import split_pair
from polyref.references import Segment

#: What sets the parts of a document's id apart, and which of them say the language pair.
_SEPARATORS: Final = ("_###_", "_#_")
_BREAK: Final = "\n\n"
_SEPARATOR: Final = "_#_"
_ROUND: Final = re.compile(r"human\d*")
#: Keys by which the lines of 2024 are known.
_JUDGEMENT: Final = frozenset({"langs", "line_id", "system", "tgt"})
#: Keys of a document that mean something here.
KNOWN: Final = frozenset({"doc_id", "src_text", "refs", "tgt_lang"})


def is_document(values: Mapping[str, object]) -> bool:
    """Whether an object is a document of a test set, or of a system."""
    name = values.get("doc_id")
    if not isinstance(name, str):
        return False
    if "src_text" in values and isinstance(values.get("refs"), dict):
        return True
    in_parts = any(separator in name for separator in _SEPARATORS)
    return "hypothesis" in values and (in_parts or bool({"paragraphs_match", "metadata"} & values.keys()))


def _is_general(name: str, start: Start) -> bool:
    return is_document(objects_in(name, start) or {})


def _of_pair(file: Lines, made: Callable[[Record], Made]) -> tuple[str | None, list[Made]]:
    """What is made of the documents of the pair that is asked for, each of which is there once."""
    seen: dict[str, int] = {}

    def once(record: Record) -> Made:
        name = f"{record.text('src_lang')} {record.text('tgt_lang')} {record.values['doc_id']}"
        if name in seen:
            record.fail(f"the document {record.values['doc_id']!r} was already on line {seen[name]}")
        seen[name] = record.line
        return made(record)

    records = (Record.parse(line, file.name, number) for number, line in without_blank_end(file))
    return of_pair(file, ((_pair_general(record), record) for record in records), once)


def _pair_general(record: Record) -> str | None:
    name = record.text("doc_id")
    if not name:
        record.fail('no key "doc_id"', "expected a document of the general task a line")
    source, target = record.text("src_lang"), record.text("tgt_lang")
    return f"{source}-{target}" if source and target else _parts_general(name)[0]


def _parts_general(name: str) -> tuple[str | None, str | None, str]:
    """Language pair, domain and document that an id says; the first two may be missing."""
    for separator in _SEPARATORS:
        parts = name.split(separator)
        if separator == _SEPARATORS[0] and len(parts) > 3:
            return f"{parts[2]}-{parts[3]}", parts[1], separator.join(parts[4:]) or name
        if separator == _SEPARATORS[1] and len(parts) > 2 and "-" in parts[0]:
            return parts[0], parts[1], separator.join(parts[2:])
        if len(parts) > 1:
            return parts[0] if "-" in parts[0] else None, None, name
    return None, None, name


@dataclass(frozen=True)
class Text:
    """A document of a test set: its line, and its paragraphs in the source and in the references by name."""

    record: Record
    sources: list[str]
    references: dict[str, list[str]]

    @property
    def name(self) -> str:
        """Its id."""
        return self.record.needed("doc_id", self.record.text)

    @property
    def place(self) -> tuple[str, str]:
        """Domain and document, as its id says them."""
        _, domain, document = _parts_general(self.name)
        return self.record.text("domain") or domain or "all", document


def read_texts(file: Lines) -> tuple[str | None, list[Text]]:
    """The pair that is asked for, as a test set names it, and its documents."""
    return _of_pair(file, lambda record: _text_general(record, file.reading.fields))


def read_hypotheses(file: Lines) -> list[tuple[str, list[str]]]:
    """Id and paragraphs of a system's documents of the pair that is asked for."""

    def of(record: Record) -> tuple[str, list[str]]:
        text = record.text("hypothesis")
        if text is None:
            record.fail('no key "hypothesis"', "expected a system's document a line")
        return record.needed("doc_id", record.text), text.split(_BREAK)

    return _of_pair(file, of)[1]


def _text_general(record: Record, wanted: Mapping[str, str]) -> Text:
    source = record.text("src_text")
    refs = record.values.get("refs")
    if source is None or not isinstance(refs, dict):
        record.fail('no keys "src_text" and "refs"', "a system's file has no references")
    if missing := [name for name in wanted if refs and name not in refs]:
        record.fail(f"no reference {missing[0]!r} as `fields` says, there are: {', '.join(refs)}")
    sources = source.split(_BREAK)
    found: dict[str, list[str]] = {}
    for name, value in refs.items():
        text = (
            Record(value, record.file, record.line, f"refs[{name!r}]: ").text("ref")
            if isinstance(value, dict)
            else value
        )
        if text is None or (wanted and name not in wanted):
            continue
        if not isinstance(text, str):
            record.fail(f"refs[{name!r}] is neither a text nor an object with one")
        found[name] = text.split(_BREAK)
        if len(found[name]) != len(sources):
            record.fail(
                f"reference {name!r} has {len(found[name])} paragraphs, the source {len(sources)}",
                "paragraphs are set apart by blank lines",
            )
    return Text(record, sources, found)


def _general_segments(file: Lines) -> Iterator[Segment]:
    position = 0
    for text in read_texts(file)[1]:
        lang = text.record.text("tgt_lang")
        more: dict[str, Any] = {key: value for key, value in text.record.values.items() if key not in KNOWN}
        for place, source in enumerate(text.sources):
            position += 1
            named = [(name, parts[place]) for name, parts in text.references.items()]
            about = more if place == 0 else {}
            yield segment_of_set(position, named, source, text.name, lang, about, whole=file.reading.whole)


def _outputs_general(file: Lines) -> Outputs:
    found = read_hypotheses(file)
    return Outputs({"": [text for _, parts in found for text in parts]}, [name for name, parts in found for _ in parts])


def _general_lines(made: SetInColumns) -> Iterator[str]:
    """Documents of the general task: a reference that lacks a paragraph of a document is left out of it."""
    source, target = made.languages
    for name, pairs in made.documents():
        sources = [segment.source for segment, _ in pairs]
        texts = [text for text in sources if text is not None]
        if len(texts) < len(sources):
            raise DataError(
                f"segment {pairs[sources.index(None)][0].id} has no source",
                remedy="documents of the general task hold their sources",
            )
        values: dict[str, Any] = {"doc_id": name, "src_lang": source, "tgt_lang": target}
        values |= {key: value for key, value in pairs[0][0].extra.items() if _is_held(key, value)}
        values["src_text"] = _paragraphs(texts)
        values["refs"] = {
            column: {"ref": _paragraphs([row[column].text for _, row in pairs])}
            for column in made.columns
            if all(column in row for _, row in pairs)
        }
        yield json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=False) + "\n"


def _paragraphs(texts: list[str]) -> str:
    return _BREAK.join(map(_paragraph, texts))


def _paragraph(text: str) -> str:
    return re.sub(r"\n(?=\n)", " ", text.strip("\n"))


def _is_held(key: str, value: object) -> bool:
    """Whether a document says a key of its segments as it is."""
    return key not in KNOWN and (key != "src_lang" or isinstance(value, str))


def lost_in_documents(made: SetInColumns) -> list[str]:
    """What documents leave out: references whose document lacks others of their column, and keys of segments."""
    left_out = keys = 0
    for _, pairs in made.documents():
        rows, first = [row for _, row in pairs], pairs[0][0].extra
        left_out += sum(
            column in row for column in made.columns if any(column not in row for row in rows) for row in rows
        )
        extras = [segment.extra for segment, _ in pairs]
        keys += sum(any(not _is_held(key, one[key]) or first.get(key) != one[key] for key in one) for one in extras)
    texts = (text for one in made.segments for text in (one.source or "", *(ref.text for ref in one.refs)))
    found = (
        counted("blank lines, which become spaces", sum(_paragraph(text) != text for text in texts), "text"),
        counted("references that not every paragraph of a document has", left_out, "reference"),
        counted("other keys", keys, "segment"),
    )
    return [phrase for phrase in found if phrase]


@dataclass
class JudgedSegment:
    """One segment."""

    line: int  # where it is, or begins
    place: str  # what it is called, for messages
    domain: str  # "all" where the file does not say
    document: str
    source: str
    texts: dict[str, str] = field(default_factory=dict)  # of references and systems; in 2024 of those judged alone
    scores: dict[str, list[float]] = field(default_factory=dict)  # of every annotator, by name


def is_evaluation(values: Mapping[str, object]) -> bool:
    """Whether an object is a line of such a file."""
    return values.keys() >= _JUDGEMENT or ("tgt_text" in values and not values.keys().isdisjoint({"doc_id", "scores"}))


def _is_evaluation(name: str, start: Start) -> bool:
    return is_evaluation(objects_in(name, start) or {})


def read_items(file: Lines) -> tuple[str, list[JudgedSegment]]:
    """The pair that is asked for, as the file names it, and its segments."""
    records = _records(file)
    first = next(records, None)
    if first is None:
        raise DataError("no segments", file=file.name)
    judgements = first.values.keys() >= _JUDGEMENT
    named = ((_pair_evaluation(record, judgements=judgements), record) for record in chain([first], records))
    pair, items = of_pair(file, named, _judgement if judgements else _segment_evaluation)
    return pair or "", _merged(items, file.name) if judgements else _alike(items, file.name)


def outputs_in(items: Sequence[JudgedSegment]) -> dict[str, list[str | None]]:
    """System -> its outputs, None where the file has none; references that are not called so are among them."""
    names = dict.fromkeys(name for item in items for name in item.texts)
    return {name: [item.texts.get(name) for item in items] for name in names}


def _records(file: Lines) -> Iterator[Record]:
    # NaN is read, so that what reads the value can say under which key it stands.
    return (Record.parse(line, file.name, number, finite=False) for number, line in without_blank_end(file))


def _pair_evaluation(record: Record, *, judgements: bool) -> str:
    if judgements:
        return record.needed("langs", record.text)
    parts = record.needed("doc_id", record.text).split(_SEPARATOR)
    if len(parts) < 4 or not all(parts):
        record.fail(f'"doc_id" is {described(record.values["doc_id"])}, expected PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT')
    return parts[0]


def _segment_evaluation(record: Record) -> JudgedSegment:
    """A line of 2025."""
    name = record.needed("doc_id", record.text)
    _, domain, *document, _ = name.split(_SEPARATOR)
    source, texts = record.needed("src_text", record.text), record.needed("tgt_text", record.child)
    found = {}
    for own in texts.values:
        check_name(own, texts)
        text = texts.text(own)
        if text is None and not HUMAN_NAME.fullmatch(own):
            texts.fail(f'"{own}" is null, expected the output of a system')
        if text is not None:
            found[own] = text
    scores = record.needed("scores", record.child)
    judged = {own: _scores(own, scores, found) for own in scores.values}
    return JudgedSegment(record.line, name, domain, _SEPARATOR.join(document), source, found, judged)


def _scores(name: str, scores: Record, texts: Mapping[str, str]) -> list[float]:
    """The scores of one output by all who judged it."""
    value = scores.values[name]
    if name not in texts:
        scores.fail(f'"{name}" is judged, but "tgt_text" has no such text')
    if isinstance(value, dict):
        rounds = Record(value, scores.file, scores.line, f"{scores.where}{name}: ")
        keys = [key for key in value if _ROUND.fullmatch(key)]
        if value and not keys:
            rounds.fail('no "human1"', "expected the scores of annotators: human1, human2")
        found = [rounds.number(key) for key in keys]
    else:
        found = []
        for place, item in enumerate(scores.items(name) or ()):
            where = f"{scores.where}{name}[{place}]: "
            if not isinstance(item, dict):
                scores.fail(f'"{name}[{place}]" is {described(item)}, expected an object with a "score"')
            one = Record(item, scores.file, scores.line, where)
            # Files of the control have the key `human`.
            key = "score" if "score" in item or "human" not in item else "human"
            if key not in item:
                one.fail('no "score"')
            found.append(one.number(key))
    return [score for score in found if score is not None]


def _alike(items: list[JudgedSegment], file: str) -> list[JudgedSegment]:
    """Refuse segments that are there twice, and systems that some segments lack."""
    seen: dict[str, int] = {}
    systems = [name for name in items[0].texts if not HUMAN_NAME.fullmatch(name)]
    for item in items:
        if item.place in seen:
            raise DataError(
                f'"doc_id" {item.place!r} was already on line {seen[item.place]}', file=file, line=item.line
            )
        seen[item.place] = item.line
        own = dict.fromkeys(name for name in item.texts if not HUMAN_NAME.fullmatch(name))
        if missing := [name for name in systems if name not in own]:
            raise DataError(
                f'"tgt_text" has no output of {missing[0]!r}, which line {items[0].line} has', file=file, line=item.line
            )
        if more := [name for name in own if name not in systems]:
            raise DataError(
                f'"tgt_text" has an output of {more[0]!r}, which line {items[0].line} lacks', file=file, line=item.line
            )
    return items


def _judgement(record: Record) -> JudgedSegment:
    """A line of 2024: one output with one score."""
    number = record.needed("line_id", record.whole)
    name = record.needed("system", record.text)
    check_name(name, record)
    source, text = record.needed("src", record.text), record.needed("tgt", record.text)
    score = record.needed("esa_score", record.number)
    who = json.dumps([record.values.get(key) for key in ("annotator", "esa_spans")])
    domain, document = record.text("domain") or "all", record.text("doc_id") or NO_DOCUMENT
    return JudgedSegment(record.line, f"{number}\t{who}", domain, document, source, {name: text}, {name: [score]})


def _merged(judgements: list[JudgedSegment], file: str) -> list[JudgedSegment]:
    """The segments that judgements are about, in the order of the test set."""
    found: dict[int, JudgedSegment] = {}
    seen: set[tuple[str, str, float]] = set()
    for one in judgements:
        ((name, text),), ((score,),) = one.texts.items(), one.scores.values()
        if (one.place, name, score) in seen:
            continue  # recorded twice, as WMT24's own scripts count it
        seen.add((one.place, name, score))
        number = int(one.place.partition("\t")[0])
        item = found.setdefault(number, JudgedSegment(one.line, str(number), one.domain, one.document, one.source))
        for key, own, other in (("src", item.source, one.source), ("tgt", item.texts.setdefault(name, text), text)):
            if own != other:
                raise DataError(
                    f'"{key}" of {name!r} differs from an earlier line of "line_id" {item.place}',
                    file=file,
                    line=one.line,
                )
        item.scores.setdefault(name, []).append(score)
    return [found[number] for number in sorted(found)]


def _evaluation_segments(file: Lines) -> Iterator[Segment]:
    pair, items = read_items(file)
    names = chosen((name for item in items for name in item.texts if HUMAN_NAME.fullmatch(name)), file)
    lang = (split_pair(pair) or (None, None))[1]
    for position, item in enumerate(items, 1):
        texts = present((name, item.texts[name]) for name in names if name in item.texts)
        more = {} if item.domain == "all" else {"domain": item.domain}
        yield segment_of_set(position, texts, item.source, item.document, lang, more, whole=file.reading.whole)


def _outputs_evaluation(file: Lines) -> Outputs:
    _, items = read_items(file)
    found: dict[str, list[str]] = {}
    for name, texts in outputs_in(items).items():
        if HUMAN_NAME.fullmatch(name):
            continue
        there = [text for text in texts if text is not None]
        if len(there) < len(texts):
            item = items[texts.index(None)]
            raise DataError(f"system {name!r} has no output of segment {item.place}", file=file.name, line=item.line)
        found[name] = there
    if not found:
        raise DataError("holds no system output", file=file.name)
    return Outputs(found, [item.document for item in items])


GENERAL: Final = Format(
    "general",
    _is_general,
    one_file("general", _general_segments),
    _outputs_general,
    json=True,
    pairs=True,
    begins="{",
    writing=DocumentWriting(
        frozenset({"id", "langs", "order", "logprob", "meta"}), _general_lines, more=lost_in_documents
    ),
)
EVALUATION: Final = Format(
    "human-evaluation",
    _is_evaluation,
    one_file("human-evaluation", _evaluation_segments),
    _outputs_evaluation,
    json=True,
    pairs=True,
    begins="{",
)
