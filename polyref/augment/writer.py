"""Augment files into a file: streaming, and resumable after any interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from itertools import islice
from os.path import realpath
from pathlib import Path
from typing import Any

from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import RECORD, Augmentation, Shard, Tally
from polyref.engine import Engine
from polyref.errors import DataError, UsageError
from polyref.formats import header_line, segment_line
from polyref.publishing import check_writable, is_stream, write_atomically
from polyref.store import Journal, UnfinishedError
from polyref.textfiles import is_remote, without_scheme


def journal_path(output: str | Path) -> str | Path:
    """Where unfinished work for ``output`` lies: a file, or a folder of another file system."""
    return f"{output}.partial" if is_remote(output) else Path(f"{without_scheme(output)}.partial")


def check_output(output: str | Path, dropped: str | Path | None = None) -> None:
    """Refuse outputs that cannot be written, before any work is done."""
    output = without_scheme(output)
    places = [Path(realpath(path)) for path in (output, journal_path(output))]
    if dropped is not None and Path(realpath(dropped)) in places:
        raise UsageError(f"`dropped` is {dropped}, where the reference set goes", remedy="choose another file")
    check_writable(output)
    if not is_stream(output):
        check_writable(journal_path(output))
    if dropped is not None:
        check_writable(dropped)


def augment_file(
    inputs: Inputs,
    output: str | Path,
    work: Augmentation,
    dropped: str | Path | None = None,
    *,
    progress: bool = False,
    engine: Engine | None = None,
    resumed: Callable[[int], object] = lambda segments: None,
) -> Tally:
    """Write the augmented references of ``inputs`` to ``output`` in the normal form.

    While the work goes on, finished shards lie in ``OUTPUT.partial``. A run that was killed is taken up there by the
    same call, and gives the same bytes as one that was not. Standard output (``-``), pipes and devices are written as
    it goes; such a run cannot be resumed.

    Args:
        inputs: The references.
        output: The file; it appears when everything is done, and the journal disappears. Both may be on another file
            system, by URL.
        work: What to do.
        dropped: A file for the candidates that the filter refused, one JSON object a line.
        progress: Show a bar on stderr.
        engine: Where shards are augmented; None: here. It changes no byte, so a run that was killed may be taken up by
            another engine.
        resumed: Told how many segments were found finished, before the work goes on.

    Raises:
        DataError: An output cannot be written, or there is unfinished work with other settings.
    """
    check_output(output, dropped)
    output = without_scheme(output)
    work.source.prepare(inputs.segments())
    meta = work.meta(inputs.meta, inputs.files)
    streaming = is_stream(output)

    def records(done: int = 0) -> Iterable[dict[str, Any]]:
        rest = islice(inputs.segments(), done, None)
        shards = work.shards(rest, total=inputs.length, done=done, progress=progress, engine=engine)
        return (_record(shard, dropped=dropped is not None) for shard in shards)

    def written(found: Iterable[Mapping[str, Any]], where: str | Path) -> Tally:
        tally = Tally()
        refusals = nullcontext() if dropped is None else write_atomically(dropped)
        with refusals as refused, write_atomically(output) as stream:
            stream.write(header_line(meta))
            for record in found:
                stream.writelines(record["lines"])
                if streaming:
                    stream.flush()
                if refused is not None:
                    refused.writelines(record["dropped"])
                tally.add(Tally.of_record(record["tally"]))
            if tally.segments != inputs.length:
                raise DataError(f"holds {tally.segments} segments, expected {inputs.length}", file=where)
        return tally

    if streaming:
        return written(records(), output)
    # `meta` names the inputs by hash, the model by hash and every option: all that the result depends on.
    settings = {**meta, "segments_a_record": work.source.shard, **work.arithmetic}
    if dropped is not None:
        settings["dropped"] = True
    said = {"form": inputs.reading.form, "fields": dict(inputs.reading.fields), "pair": inputs.reading.pair}
    if any(said.values()):
        settings["reading"] = said
    with _journal(journal_path(output), settings) as journal:
        done = min(journal.length * work.source.shard, inputs.length)
        if done:
            resumed(done)
        for record in records(done):
            journal.append(record)
        shape = {"lines": [str], "tally": RECORD} | ({} if dropped is None else {"dropped": [str]})
        kept = journal.records(shape, "delete the unfinished work, and start afresh")
        tally = written(kept, journal.path)
        journal.remove()
    return tally


def _journal(path: str | Path, settings: Mapping[str, Any]) -> Journal:
    try:
        return Journal.open(path, settings)
    except UnfinishedError as error:
        before = error.settings.get("filters")
        if (before if isinstance(before, str) else str((before or [""])[-1])).startswith("default:"):
            raise DataError(
                f"holds work that was begun when `default` was the same filter for all generators; now it is "
                f"{settings['filters']} here",
                file=path,
                remedy="delete it and begin again: lists in the cache and answers that were kept count still; "
                "`filter` small-model is what `default` was",
            ) from None
        raise


def _record(shard: Shard, *, dropped: bool) -> dict[str, Any]:
    record = {"tally": shard.tally.record(), "lines": [segment_line(segment) for segment in shard.segments]}
    lines = (json.dumps(vars(one), ensure_ascii=False) + "\n" for one in shard.dropped)
    return record | ({"dropped": list(lines)} if dropped else {})
