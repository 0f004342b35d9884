"""Every format by name, and how the format of a file is told by what is in it.

Other packages add formats by entry points of the group ``polyref.formats``, which name a
:class:`~polyref.formats.base.Format`; they are asked about what is none of polyref's own forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from polyref.errors import DataError, UsageError
from polyref.formats import general_task, json_lists, metrics_task, own, table, test_sets, xml
from polyref.formats.base import Format, first_object, unpacked
from polyref.formats.columns import role_of
from polyref.formats.json_lists import as_list, is_texts
from polyref.json_files import try_json
from polyref.plugins import Plugins, tried

#: Most lines that are looked at.
LOOKED_AT: Final = 100

_FORMATS: Final[tuple[Format, ...]] = (
    own.PLAIN,
    own.NORMAL,
    own.SIMPLE,
    own.NBEST,
    json_lists.KEYED,
    json_lists.LISTS,
    table.TSV,
    table.CSV,
    table.ALL_REFERENCES,
    xml.XML,
    xml.SGML,
    general_task.GENERAL,
    general_task.EVALUATION,
    metrics_task.FORMAT,
    test_sets.FOLDER,
)
#: Forms of WMT that are known by the keys of their first object, before keys of any names are: the first that fits.
_BY_KEYS: Final[tuple[tuple[Callable[[dict[str, Any]], bool], Format], ...]] = (
    (general_task.is_general, general_task.GENERAL),
    (general_task.is_evaluation, general_task.EVALUATION),
    (metrics_task.is_item, metrics_task.FORMAT),
)
#: Those by name, and the formats of other packages.
FORMATS: Final = Plugins(
    "file format",
    "polyref.formats",
    {form.name: form for form in _FORMATS},
    "a Format of that name",
    lambda name, found: isinstance(found, Format) and found.name == name,
)
#: Names of the forms that are JSON.
JSON: Final = frozenset(
    one.name
    for one in (
        own.NORMAL,
        own.SIMPLE,
        own.NBEST,
        json_lists.KEYED,
        json_lists.LISTS,
        general_task.GENERAL,
        general_task.EVALUATION,
        metrics_task.FORMAT,
    )
)
_MARKUP: Final = re.compile(
    r"\s*<(\?xml|!doctype|html|tmx|xliff|tei|mteval|srcset|refset|tstset|dataset|collection|doc|seg)\b", re.I
)
_SGML: Final = re.compile(r"<(srcset|refset|tstset)\b", re.I)
_XML: Final = re.compile(r"<(dataset|collection)\b", re.I)
_ROOT: Final = re.compile(r"<([A-Za-z][\w:.-]*)")
#: What says that something is text whatever it looks like.
_AS_TEXT: Final = "`form` plain reads every line as text"


def by_name(name: str) -> Format:
    """The format of a name, polyref's own or another package's."""
    if name not in FORMATS:
        raise UsageError(f"`form` is {name!r}, expected one of {', '.join(FORMATS.names())}")
    form: Format = FORMATS.load(name)
    return form


def detect(name: str, sample: Sequence[str]) -> Format:
    """The format of a file.

    Args:
        name: Of the file.
        sample: Its first lines, one at least.
    """
    if (found := _own(name, sample)) is not None:
        return found
    return _added(name, sample[0]) or _json(name, sample) or _markup(name, sample) or _table(name, sample) or own.PLAIN


def _added(name: str, first_line: str) -> Format | None:
    """The format of another package that a file is in."""
    for added, form in FORMATS.loaded().items():
        if tried(form.matches, name, first_line, where=f"the file format {added} on {name}"):
            return cast("Format", form)
    return None


def is_text(name: str, sample: Sequence[str]) -> bool:
    """Whether a file is neither JSON nor markup, from its name and first lines."""
    return not (_own(name, sample) or _json(name, sample) or _markup(name, sample))


def _own(name: str, sample: Sequence[str]) -> Format | None:
    """Polyref's own JSON lines, broken ones too: their readers say what is wrong."""
    if own.is_nbest(_object(sample[0]) or {}):
        return own.NBEST
    values = first_object(name, sample[0])
    if values is None or sample[0].lstrip().startswith("[") or (values and _of_others(values)):
        return None
    return own.SIMPLE if own.SIMPLE.matches(name, sample[0]) else own.NORMAL


def _of_others(values: dict[str, Any]) -> bool:
    """Whether an object is of a form that is not polyref's, though a key may be called alike."""
    refs = values.get("refs")
    if _by_keys(values) is not None:
        return True
    if "polyref" in values or (isinstance(refs, list) and (not refs or any(isinstance(item, dict) for item in refs))):
        return False
    if isinstance(values.get("reference"), str):
        return False
    others = [key for key in values if key not in {"id", "refs", "reference", "paraphrases"}]
    if isinstance(values.get("paraphrases"), list):
        return any(role_of(key) == "reference" or key == "text" for key in others)
    return bool(others) or isinstance(refs, list)


def _by_keys(values: dict[str, Any]) -> Format | None:
    return next((form for fits, form in _BY_KEYS if fits(values)), None)


def _object(line: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = try_json(line) if line.lstrip().startswith("{") else None
    return found


def _json(name: str, sample: Sequence[str]) -> Format | None:
    written = [line for line in sample if line.strip()]
    if not written:
        return None
    named = unpacked(name).endswith((".json", ".jsonl"))
    objects = [_object(line) for line in written]
    if (first := objects[0]) is not None and (named or (first and None not in objects)):
        return _by_keys(first) or json_lists.KEYED
    if not written[0].lstrip().startswith("["):
        return None
    values = [as_list(line) for line in written]
    if all(map(is_texts, values)) and (len(written) > 1 or not unpacked(name).endswith(".json")) and any(values):
        return json_lists.LISTS
    return _list(written, named=named)


def _list(written: Sequence[str], *, named: bool) -> Format | None:
    """The format of a file that is one JSON list, by its first element."""
    start = "".join(written)[1:].lstrip() if written[0].strip() == "[" else written[0].lstrip()[1:].lstrip()
    if re.match(r'\{\s*"', start):
        return json_lists.KEYED
    if start.startswith(("[", '"')) and (named or len(written) == 1 or written[0].strip() == "["):
        value = None if len(written) > 1 else as_list(written[0])
        return json_lists.LISTS if named or value is not None or written[0].strip() == "[" else None
    return None


def _markup(name: str, sample: Sequence[str]) -> Format | None:
    first = next((line for line in sample if line.strip()), "")
    if not _MARKUP.match(first):
        return None
    start = "\n".join(sample)
    if _SGML.search(start):
        return xml.SGML
    if _XML.search(start):
        return xml.XML
    root = _ROOT.search(start)
    raise DataError(
        f"is markup ({'<' + root[1] + '>' if root else 'XML'}), and neither WMT's XML nor its SGML",
        file=name,
        line=1,
        remedy=f"extract the texts, one a line; {_AS_TEXT}",
    )


def _table(name: str, sample: Sequence[str]) -> Format | None:
    if unpacked(name).endswith((".tsv", ".csv")):
        return table.TSV if unpacked(name).endswith(".tsv") else table.CSV
    written = [line for line in sample if line.strip()]
    return table.TSV if written and all("\t" in line for line in written) else None
