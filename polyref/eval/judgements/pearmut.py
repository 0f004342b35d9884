"""Logs of Pearmut, the tool of WMT's human evaluation since 2025: contrastive ESA and its kin.

A campaign's log (``data/outputs/CAMPAIGN.jsonl``) has a screen a line; WMT26's ``annotations.json`` has the same
objects by direction, ``{"eng_Latn---deu_Latn": [...]}``. A screen shows items with the outputs of several systems::

    {"user_id", "item_i", "item": [{"item_id", "src", "tgt": {NAME: text}}],
     "annotation": [{NAME: {"score", "error_spans"}}]}

The score of an output is the mean over all screens that show it, as in WMT26's own scripts
(wmt-conference/wmt26-general-mt, ``humeval``). Error spans are counted, not scored.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from polyref.eval.data.score_files import mean_score, numbered_lines, shortened
from polyref.eval.judgements.base import (
    LARGEST_SCORE,
    GoldReader,
    Judgements,
    Matcher,
    NothingHereError,
    Place,
    those_that_judge,
)
from polyref.eval.judgements.direct_assessment import Judgement, averaged
from polyref.json_files import Record, described, parse_json, try_json
from polyref.languages import find_pair

#: Between the parts of WMT's ids: set, domain, codes, document, number.
_SEPARATOR: Final = re.compile(r"_#(?:##)?_")
#: Marks of paragraphs, which test sets keep in some places and not in others.
_MARKS: Final = re.compile(r"</?p>|<br ?/?>")


class Items:
    """The items of one file, and which segments of the set they may be: by document and number, else by source.

    An item may be a part of a segment: WMT26 shows paragraphs and strings of a document (``06b-segment_source.py``).
    """

    def __init__(self, place: Place) -> None:
        self._has_texts = place.source is not None
        self._texts: dict[str, list[int]] = {}
        self._documents: dict[str, Sequence[int] | None] = {}
        for name, positions in place.index.items():
            # The end of a name stands for it where it is that of no other.
            end = _SEPARATOR.split(name)[-1]
            self._documents[end] = None if end in self._documents else positions
        self._sources = [_plain_source(text) for text in place.source or ()]
        self._known: dict[str, tuple[str, Sequence[int]]] = {}
        for segment, source in enumerate(self._sources):
            self._texts.setdefault(source, []).append(segment)
        #: Items that are parts of a segment.
        self.parts = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def found(self) -> bool:
        """Whether an item may be a segment of the set."""
        return any(options for _, options in self._known.values())

    @property
    def example(self) -> str:
        """The source of the first item."""
        return next(text for text, _ in self._known.values())

    def add(self, name: str, item: Record) -> None:
        """Take an item with ``src``, or ``src_text`` where that is a picture or a film."""
        text = item.text("src_text") or item.needed("src", item.text)
        before = self._known.get(name)
        if before is not None and before[0] == text:
            return
        options = self._options(name, text)
        if before is None:
            self._known[name] = text, options
        elif len(options) == len(before[1]) == 1 and options[0] != before[1][0]:
            item.fail(
                f"the item {shortened(name)} has the source of segment {options[0] + 1}, and before that of segment "
                f"{before[1][0] + 1}"
            )

    def places(self, names: Sequence[str]) -> list[int | None]:
        """The segments of the items of one screen, which follow each other in the set; None for what is in it nowhere.

        An item whose source several segments have is the one nearest to where its neighbours on the screen say.
        """
        options = [self._known[name][1] for name in names]
        sure = {number: own[0] for number, own in enumerate(options) if len(own) == 1}
        unclear = [number for number, own in enumerate(options) if len(own) > 1]
        while sure and unclear:
            near, number = min(((at, one) for one in unclear for at in sure), key=lambda pair: abs(pair[0] - pair[1]))
            unclear.remove(number)
            expected = sure[near] + number - near
            free = sorted((abs(one - expected), one) for one in options[number] if one not in sure.values())
            if free and (len(free) == 1 or free[0][0] < free[1][0]):
                sure[number] = free[0][1]
        return [sure.get(number) for number in range(len(names))]

    def _options(self, name: str, text: str) -> Sequence[int]:
        *_, document, number = ("", "", *_SEPARATOR.split(name))
        positions = self._documents.get(document)
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1
        named = [positions[at]] if positions is not None and 0 <= at < len(positions) else []
        if not self._has_texts:
            return named
        plain = _plain_source(text)
        if options := self._texts.get(plain, []):
            return [one for one in named if one in options] or options
        inside = [one for one in positions or () if plain and plain in self._sources[one]]
        self.parts += bool(inside)
        return inside


def _plain_source(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split())


#: WMT26's rule leaves out annotators of that many screens or more whose mean compatibility is below the second number;
#: systems count that have more scores than the third.
FEWEST_SCREENS: Final = 3
LEAST_COMPATIBLE: Final = 0.75
FEWEST_SCORES: Final = 10
_RESET: Final = "__RESET__"
#: Begins the names of items without one, which their source stands for; no name of an item has it.
_UNNAMED: Final = "\0"
#: What the numbers of screens that are no part of the campaign begin with.
_APART: Final = ("welcome_", "random_", "goodbye_")
_EXPECTED: Final = (
    'expected a log of Pearmut: a JSON object a line with "user_id", "item" and "annotation", or {direction: [objects]}'
)
_KEYS: Final = frozenset({"user_id", "item_i", "item", "annotation"})
#: The first line of a JSON value that goes on in the next ones.
_OPEN: Final = re.compile(r'\{\s*("[^"]*"\s*:\s*\[?\s*)?')


@dataclass
class _Screen:
    """What one annotator did on one screen: of every item its id and the scores of the systems."""

    user: str
    line: int | None
    items: list[tuple[str, dict[str, float]]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    spans: int = 0


def read_pearmut(paths: str | Path | Sequence[str | Path], place: Place, *, reliable: bool = False) -> Judgements:
    """Read logs; several are read as one.

    Left out and counted are what was done before a reset, screens and items that are no part of the campaign (welcome,
    checks of attention, tutorials), and what is no score of an output that the item shows.

    Items are found by their document and number where these have the item's source, else by the source. ``reliable``
    leaves out annotators by WMT26's rule: :func:`unreliable`.

    The judgement is ``esa``, or ``da`` where nobody marked an error.
    """
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    notes: list[str] = []
    judgements: list[Judgement] = []
    found, absent = those_that_judge([Matcher(path, place) for path in paths], _kept)
    everyone = [screen for _, (_, screens) in found for screen in screens]
    out = unreliable([(one.user, one.items) for one in everyone]) if reliable else {}
    for matcher, (items, screens) in found:
        judgements += _judged(matcher, items, [one for one in screens if one.user not in out])
        notes += matcher.notes()
    users = {one.user for one in everyone}
    if reliable:
        named = ", ".join(f"{name!r} ({value:.2f})" for name, value in sorted(out.items())[:10])
        notes.append(
            f"annotators whose compatibility is below {LEAST_COMPATIBLE}, left out: {len(out)} of {len(users)}"
            + (f": {named}" if out else "")
            + (", ..." if len(out) > 10 else "")
        )
    spans = sum(one.spans for one in everyone if one.user not in out)
    notes.append(
        f"Pearmut: {len(judgements)} judgements by {len(users) - len(out)} annotators; {spans} error spans, not scored"
    )
    return Judgements(
        "esa" if spans else "da", averaged(judgements, place.segments, mean_score), notes=(*notes, *absent)
    )


def unreliable(screens: Sequence[tuple[str, Sequence[tuple[str, dict[str, float]]]]]) -> dict[str, float]:
    """Annotators whose scores do not fit everybody's, by the rule of WMT26 (``02a-filter_data.py``).

    The compatibility of two scores d apart of one item is ``2 ** -((d - m)^2 / (2 v + 1e-6))``, m the difference of the
    two systems' means over all annotators and v the sum of their variances (n - 1). Systems with ten scores or fewer
    do not count.

    ``screens`` are annotators, each with ids and scores (system -> score) of items. The result is annotator -> mean
    compatibility, below :data:`LEAST_COMPATIBLE`, of those with three screens or more.
    """
    scores: dict[str, list[float]] = {}
    for _, items in screens:
        for _, given in items:
            for system, score in given.items():
                scores.setdefault(system, []).append(score)
    scale = {
        system: (statistics.fmean(own), statistics.variance(own))
        for system, own in scores.items()
        if len(own) > FEWEST_SCORES
    }
    fits: dict[str, list[float]] = {}
    for user, items in screens:
        for _, given in items:
            for (one, first), (other, second) in itertools.combinations(given.items(), 2):
                if one in scale and other in scale:
                    mean, variance = scale[one][0] - scale[other][0], scale[one][1] + scale[other][1]
                    fits.setdefault(user, []).append(2 ** -((first - second - mean) ** 2 / (2 * variance + 1e-6)))
    count = Counter(user for user, _ in screens)
    return {
        user: mean
        for user, values in fits.items()
        if count[user] >= FEWEST_SCREENS and (mean := statistics.fmean(values)) < LEAST_COMPATIBLE
    }


def _judged(matcher: Matcher, items: Items, screens: Sequence[_Screen]) -> Iterator[Judgement]:
    """The scores, with what they are of."""
    for screen in screens:
        _pass_over(screen, matcher)
        places = items.places([item for item, _ in screen.items])
        for (_, given), segment in zip(screen.items, places, strict=True):
            if segment is None and given:
                matcher.pass_over("scores of items whose source is that of no segment, or of several", len(given))
                continue
            for name, score in given.items():
                system = matcher.system(name)
                assert segment is not None
                yield Judgement(screen.user, system, segment, score)


def _pass_over(screen: _Screen, matcher: Matcher) -> None:
    for why, count in screen.left_out.items():
        if count:
            matcher.pass_over(why, count)


def _kept(matcher: Matcher) -> tuple[Items, list[_Screen]]:
    """The screens of a file that count, those after an annotator's last reset, and their items."""
    items = Items(matcher.place)
    by_user: dict[str, list[_Screen]] = {}
    for record in _records(matcher):
        user = record.needed("user_id", record.text)
        if record.values.get("annotation") == _RESET:
            if gone := by_user.pop(user, None):
                matcher.pass_over("screens before a reset", len(gone))
        elif "annotation" in record.values and record.values["annotation"] is None:
            matcher.pass_over("screens without annotation")
        elif str(record.values.get("item_i")).startswith(_APART):
            matcher.pass_over("screens of welcome, goodbye and random checks")
        else:
            by_user.setdefault(user, []).append(_screen(record, user, items))
    screens = [screen for own in by_user.values() for screen in own]
    if any(not name.startswith(_UNNAMED) for screen in screens for name, _ in screen.items):
        # Where items have names, one without is a check of attention (02a-filter_data.py).
        for screen in screens:
            named = [(name, given) for name, given in screen.items if not name.startswith(_UNNAMED)]
            screen.left_out["items without item_id"] += len(screen.items) - len(named)
            screen.items = named
    for screen in screens:
        if not screen.items:
            # It is none for the rule of three screens too.
            _pass_over(screen, matcher)
    screens = [screen for screen in screens if screen.items]
    if items.parts:
        matcher.remark("items that are parts of a segment, whose score is their mean", items.parts)
    if not any(given for screen in screens for _, given in screen.items):
        raise matcher.fault("has no score of an output", None)
    if not items.found:
        raise matcher.fault(
            f"judges no segment of the set: none of {len(items)} items has the source of one",
            None,
            f"the source of the first is {shortened(items.example)}",
        )
    return items, screens


def _screen(record: Record, user: str, items: Items) -> _Screen:
    shown = record.needed("item", record.items)
    annotation = record.needed("annotation", record.items)
    if len(shown) != len(annotation):
        record.fail(f'"annotation" has {len(annotation)} parts, expected one for each of {len(shown)} items')
    screen = _Screen(user, record.line or None)
    for number, (one, marks) in enumerate(zip(shown, annotation, strict=True)):
        inside = Record(
            {"item": one, "annotation": marks}, record.file, record.line, f"{record.where}item {number + 1}: "
        )
        item = inside.needed("item", inside.child)
        name = item.text("item_id")
        if name is None:
            name = _UNNAMED + item.needed("src", item.text)
        if name.startswith("attention_check_"):
            screen.left_out["items that check attention"] += 1
        elif "_#_tutorial_#_" in name:
            screen.left_out["items of tutorials"] += 1
        elif (given := inside.child("annotation")) is None:
            screen.left_out["items without annotation"] += 1
        else:
            if any(name == before for before, _ in screen.items):
                item.fail(f"a second item {shortened(name)} on one screen")
            items.add(name, item)
            screen.items.append((name, _scores(given, item, screen)))
    return screen


def _scores(given: Record, item: Record, screen: _Screen) -> dict[str, float]:
    """System -> score, of the systems that the item shows."""
    outputs = item.needed("tgt", item.child)
    for name in outputs.values:
        outputs.text(name)
        if not name.isprintable():
            outputs.fail(f"the name {name!r}, expected one without tabs and line ends")
    scores: dict[str, float] = {}
    for name in given.values:
        if name not in outputs.values:
            screen.left_out["scores of systems that the item does not show"] += 1
            continue
        marks = given.child(name)
        score = marks.values.get("score") if marks else None
        if isinstance(score, bool) or not isinstance(score, (int, float)):
            screen.left_out["scores that are no number"] += 1
            continue
        assert marks is not None
        if not abs(score) <= LARGEST_SCORE:
            marks.fail(f'"score" is {described(score)}, expected a finite number of at most {LARGEST_SCORE:g}')
        scores[name] = float(score)
        screen.spans += len(marks.items("error_spans") or ())
    return scores


def _records(matcher: Matcher) -> Iterator[Record]:
    """The screens of the file, in the language pair of the set where the file says which they are in."""
    lines = numbered_lines(matcher.path)
    number, first = next(lines, (1, ""))
    value = try_json(first)
    if value is None and _OPEN.fullmatch(first.strip()):
        text = "\n".join([first, *(line for _, line in lines)])
        yield from _of_direction(parse_json(text, matcher.path, expected=_EXPECTED, finite=False), matcher)
        return
    if value and all(isinstance(one, list) for one in value.values()):
        yield from _of_direction(value, matcher)
        if after := next(lines, None):
            raise matcher.fault("more after the one JSON object, expected {direction: [objects]} alone", after[0])
        return
    if not first.lstrip().startswith("{") or (value is not None and not _KEYS & value.keys()):
        keys = "has the keys " + ", ".join(list(value)[:10]) if value else f"is {shortened(first)}"
        raise matcher.fault(f"is no log of Pearmut: the first line {keys}", number, _EXPECTED)
    for at, line in itertools.chain([(number, first)], lines):
        yield Record(parse_json(line, matcher.path, at, expected=_EXPECTED, finite=False), str(matcher.path), at)


def _of_direction(data: dict[str, Any], matcher: Matcher) -> Iterator[Record]:
    """The screens of the language pair of the set, of ``{direction: [objects]}``; a version may follow a direction."""
    pair = matcher.place.pair
    named: dict[str, list[str]] = {}
    for direction, screens in data.items():
        source, _, target = direction.partition(" ")[0].partition("---")
        if not target or not isinstance(screens, list):
            raise matcher.fault(
                f"{shortened(direction)} is {described(screens)}, expected SOURCE---TARGET and a list", None, _EXPECTED
            )
        named.setdefault(f"{source}-{target}", []).append(direction)
    meant = named.get(find_pair(pair, named, matcher.path) or "", [])
    if not meant:
        raise NothingHereError(f"judges nothing of {pair}, only {', '.join(data)}", file=matcher.path)
    if len(meant) > 1:
        raise matcher.fault(f"has {pair} more than once: {', '.join(meant)}", None, "keep one of them in the file")
    for place, screen in enumerate(data[meant[0]]):
        where = f'"{meant[0]}"[{place}]'
        if not isinstance(screen, dict):
            raise matcher.fault(f"{where} is {described(screen)}, expected an object", None, _EXPECTED)
        yield Record(screen, str(matcher.path), where=f"{where}: ")


READER: Final = GoldReader("pearmut", read_pearmut, ("reliable",), several=True)
