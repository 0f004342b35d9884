"""The added references that ``polyref score`` makes: by ``polyref augment`` itself, into the folder of the cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from polyref import __version__
from polyref.cache import sets_folder
from polyref.cli.options import was_given
from polyref.cli.printing import quietness, say
from polyref.errors import DataError, UsageError
from polyref.formats import Reading, takes_pair
from polyref.metrics.api import check_language
from polyref.metrics.base import Metric
from polyref.metrics.registry import metric_options, read_specifications, split
from polyref.options import fields_of, option
from polyref.publishing import is_stream
from polyref.references import ReferenceSet
from polyref.store import file_sha256
from polyref.tables import shown
from polyref.textfiles import display_name

#: What makes references, and what is of use beside it alone.
MAKERS: Final = ("model", "candidates")


def _presets() -> list[str]:
    from polyref.augment.filters import PRESETS

    return list(PRESETS)


@dataclass(frozen=True, kw_only=True)
class MakingOptions:
    """What added references are made with."""

    model: tuple[str, ...] = option(
        (),
        metavar="NAME|DIR",
        help="Make them with this generator, as `polyref augment` does (its help lists them), and keep them in "
        "~/.cache/polyref, or $POLYREF_CACHE: nothing is made, asked or paid for twice. Several are merged.",
    )
    candidates: tuple[str, ...] = option((), metavar="FILE", help="Take them from lists made elsewhere.")
    base_url: str | None = option(
        None, metavar="URL", needs=("model",), help="Server of --model openai:NAME, such as http://localhost:8000/v1."
    )
    plain_http: bool = option(False, needs=("base_url",), help="Send the key to it over http too.")
    retry_failed: bool = option(False, needs=("model",), help="Ask again what that server did not answer.")
    preset: str | None = option(
        None,
        flag="--filter",
        metavar="NAME|FILE",
        needs=MAKERS,
        names=_presets,
        help="What may become a reference, a TOML file or one of:",
        otherwise="augment's",
    )
    language: str | None = option(
        None,
        flag="--lang",
        metavar="CODE",
        help="Language of the references; of XLIFF and TMX, which of theirs are the references.",
        otherwise="told by them",
    )


#: Options of ``score`` that say how its references are read: what it scores with needs none of them.
_OF_REFERENCES: Final = ("form", "test_set")


@dataclass(frozen=True)
class Making:
    """What ``polyref augment`` is asked to make.

    Attributes:
        references: Files of references.
        reading: What these files do not say themselves.
        options: Values of the options of making.
        flag: The one because of which it is made.
        k: Paraphrases a segment; None: as many as ``augment`` makes.
        device: Where the generators compute; None where they do not, or nobody asked.
        force: Take references in a language that a generator does not write.
        computing: Whether the metrics compute on a device as well.
    """

    references: Sequence[str]
    reading: Reading
    options: MakingOptions
    flag: str
    k: int | None
    device: str | None
    force: bool
    computing: bool

    def add_to(self, references: ReferenceSet, metrics: Iterable[Metric]) -> ReferenceSet:
        """The references with added ones, made now or kept from before.

        Refused before anything is made: references that have added ones, and a language that one of ``metrics`` does
        not know.
        """
        from polyref.augment.inputs import Inputs
        from polyref.paraphrase.loading import find_generator
        from polyref.paraphrase.rewriting.options import GENERATORS as REWRITING

        for metric in metrics:
            check_language(metric, references)
        if any(segment.extras for segment in references):
            raise UsageError(
                f"{self.flag} has no use: {self.references[0]} has added references already",
                remedy="leave it out; polyref augment adds more of them",
            )
        with Inputs(self.references, self.reading) as inputs:
            files = inputs.files
        folder = sets_folder() / _digest(files)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            remedy = "POLYREF_CACHE=FOLDER names another place; or make a set with polyref augment"
            raise DataError(f"no set can be kept here: {error.strerror}", file=folder, remedy=remedy) from None
        models = self.options.model
        rewriting = [name for name in models if (found := find_generator(name)) and found[0].name in REWRITING]
        # Answers hold whatever is made of them: other filters, another k and other commands find them here.
        answers = ["--answers", str(folder / f"{_digest(rewriting)}.answers")] if len(rewriting) == 1 else []
        with _alone(folder):
            path = folder / f"{_digest([files, self._identity()])}.polyref.jsonl"
            if path.is_file() and not self.options.retry_failed:
                say(f"polyref: these references were made before: {shown(str(path))}")
            else:
                _augment([*self._words(), *answers, *["-q"] * quietness(), "-o", str(path)])
            made = ReferenceSet.load(path)
        self._say_commands(answers)
        return made

    def _words(self) -> list[str]:
        """The arguments of ``augment``, but where the set goes."""
        found = [*self.references, *(word for name in self.options.model for word in ("--model", name))]
        found += [word for name in self.options.candidates for word in ("--candidates", name)]
        found += [] if self.k is None else ["-k", str(self.k)]
        of_references = {key: role for key, role in self.reading.fields.items() if role != "output"}
        given = {
            "--base-url": self.options.base_url,
            "--lang": self.options.language,
            "--filter": self.options.preset,
            "--device": self.device,
            "--format": self.reading.form,
            "-l": self.reading.pair,
        }
        found += [word for flag, value in given.items() if value is not None for word in (flag, value)]
        found += [word for key, role in of_references.items() for word in ("--fields", f"{key}={role}")]
        asking = {"--plain-http": self.options.plain_http, "--retry-failed": self.options.retry_failed}
        flags = {**asking, "--force": self.force}
        return [*found, *(flag for flag, is_given in flags.items() if is_given)]

    def _identity(self) -> list[Any]:
        """What the set depends on beside the references: equal values give equal sets."""
        read = [*self.options.candidates, *([] if self.options.preset in _presets() else [self.options.preset])]
        lists = [[Path(name).name, file_sha256(name)] for name in read if name and Path(name).is_file()]
        words = [
            word for word in self._words()[len(self.references) :] if word not in ("--plain-http", "--retry-failed")
        ]
        return [__version__, words, lists, [_state_of(name) for name in self.options.model]]

    def _say_commands(self, answers: Sequence[str]) -> None:
        """The two commands that do the same and keep the set, for a shell."""
        name = re.split(r"[.:]", Path(self.references[0]).name.removeprefix("sacrebleu:"))[0] or "refs"
        names = (f"{name}{part}.polyref.jsonl" for part in ("", *(f"-{number}" for number in range(2, 1000))))
        made = next(path for path in names if not Path(path).exists())
        say("polyref: the same in two commands, which keep the set where you want it:")
        say(f"  polyref augment {shlex.join([*self._words(), *answers, '-o', made])}")
        say(f"  polyref score {shlex.join([made, *self._rest()])}")

    def _rest(self) -> Iterator[str]:
        """The options of the command that runs, without those of making and of reading references."""
        context = click.get_current_context()
        left_out = {*fields_of(MakingOptions), *_OF_REFERENCES, *(() if self.computing else ("device",))}
        outputs = Reading(context.params["input_form"])
        left_out |= set() if takes_pair(context.params["inputs"], outputs) else {"pair"}
        for parameter in context.command.params:
            name = parameter.name or ""
            if not isinstance(parameter, click.Option) or name in left_out or not was_given(name):
                continue
            value = context.params.get(name, context.meta.get(f"polyref.{name}"))
            if name == "fields":
                value = [one for one in value or () if one.endswith("=output")]
            if isinstance(value, bool):
                yield parameter.opts[0] if value else parameter.secondary_opts[0]
            elif isinstance(value, (list, tuple)):
                yield from (parameter.opts[0], *map(str, value)) if value else ()
            elif value is not None:
                yield from (parameter.opts[0], str(value))


def making_from(
    references: Sequence[str],
    reading: Reading,
    making: MakingOptions,
    ks: Sequence[int],
    metrics: Sequence[str],
    of_metrics: dict[str, Any],
    *,
    force: bool,
) -> Making:
    """What the options ask to be made; ``device`` is taken out of ``of_metrics`` where it is the generators' alone."""
    from polyref.paraphrase.loading import named_generator

    flag = next(f"--{name}" for name in MAKERS if getattr(making, name))
    if ks and not max(ks):
        raise UsageError(f"{flag} has no use with -k 0", remedy="leave one of them out")
    if of_metrics.get("cache") is False:
        raise UsageError(
            f"{flag} keeps what it makes beside the cache, which --no-cache turns off",
            remedy="make a set with polyref augment --no-cache -o SET, and score with SET",
        )
    for path in (*references, *making.candidates):
        if is_stream(path):
            raise UsageError(f"{display_name(path)} can be read once, but {flag} reads it twice", remedy="name a file")
    device, models = of_metrics.get("device"), making.model
    computing = device is not None and _metrics_compute(metrics)
    if not computing:
        of_metrics["device"] = None
    elif not any("device" in named_generator(name)[0].taken() for name in models):
        device = None
    if not takes_pair(references, replace(reading, fields={})):
        reading = replace(reading, pair=None)
    return Making(references, reading, making, flag, max(ks, default=None), device, force and bool(models), computing)


def _metrics_compute(metrics: Sequence[str]) -> bool:
    """Whether one of the metrics takes a device."""
    names = [one.name for one in read_specifications(part for text in metrics for part in split(text))]
    return any(option.parameter == "device" for name in names for option in metric_options(name).values())


def _augment(arguments: Sequence[str]) -> None:
    """Run ``polyref augment`` as if it had been typed; what it refuses is said in its own words."""
    from polyref.cli.augment import command

    context = click.get_current_context()
    running = context.obj if isinstance(context.obj, list) else []
    running.append(command)
    with command.make_context("augment", list(arguments), parent=context.parent) as made:
        command.invoke(made)
    running.remove(command)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other program makes a set of these references."""
    with (folder / "lock").open("ab") as lock:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("polyref: another program adds to these references: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _state_of(model: str) -> list[Any]:
    """What tells that a generator is another one, without loading it: its package's version, its files' times."""
    from polyref.paraphrase.loading import find_generator

    found = find_generator(model)
    about = found[0].summary if found else None  # of a plug-in, with its package and version
    argument = (found[1] if found else model) or ""
    paths = [Path(name) for name in dict.fromkeys((model, argument, *re.split("[,@]", argument))) if name]
    files = [file for path in paths for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
    states = [[str(file.resolve()), (state := file.stat()).st_size, state.st_mtime_ns] for file in files]
    return [about, states]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, sort_keys=True).encode()).hexdigest()[:16]
