"""A paraphraser in several processes, each with a copy of the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import islice
from typing import cast

from polyref.cache import Cache
from polyref.paraphrase.decoding import WINDOW, Decoding
from polyref.paraphrase.paraphraser import NBest, Paraphraser
from polyref.processes import Processes
from polyref.progress import listening, retold, work

#: A piece of work: texts, most paraphrases of each, and how to search.
Piece = tuple[list[str], int, Decoding | None]


class InProcesses(Paraphraser):
    """The paraphrases of another paraphraser, made in several processes.

    Lists and scores are those of a single process, to the last digit.
    """

    def __init__(self, load: Callable[[], Paraphraser], jobs: int) -> None:
        inner = load()
        self.inner, self.jobs = inner, jobs
        self.name, self.signature = inner.name, inner.signature
        self.languages, self.lang = inner.languages, inner.lang
        self.single_sentences, self.need = inner.single_sentences, inner.need
        self._processes: Processes[Piece, list[NBest]] = Processes(_Worker(load), jobs)

    @property
    def ahead(self) -> int:
        return 2 * self.jobs

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        return self.inner.describe_decoding(decoding, k)

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """The first texts are on their way when this returns."""
        # A piece of work is a window of the search, so that the batches, and with them the last digits of scores, are
        # those of a single process. What stands around a text is for other generators.
        feed = map(str, texts)
        waiting: deque[Future[list[NBest]]] = deque()
        hearing = ExitStack()
        total = len(texts) if isinstance(texts, list) else 0
        advance = hearing.enter_context(work("paraphrasing", "sentences", total, progress=progress))

        def fill() -> None:
            while len(waiting) < self.ahead and (piece := list(islice(feed, WINDOW))):
                waiting.append(self._processes.submit((piece, k, decoding), advance))

        def results() -> Iterator[NBest]:
            with hearing:
                while waiting:
                    found = self._processes.result(waiting.popleft())
                    fill()
                    yield from found

        fill()
        return results()

    def use_cache(self, cache: Cache, loaded_with: str = "") -> None:
        """Each process keeps its lists in the cache by itself."""
        cache.try_out()

    def close(self) -> None:
        """End the processes."""
        self._processes.close()


class _Worker:
    """Builds what a process does."""

    def __init__(self, load: Callable[[], Paraphraser]) -> None:
        self.load = load

    def __call__(self) -> Callable[[Piece], list[NBest]]:
        paraphraser = self.load()

        def paraphrased(piece: Piece) -> list[NBest]:
            texts, k, decoding = piece
            with listening(retold):
                return list(paraphraser.paraphrase(texts, k, decoding=decoding, progress=True))

        return cast("Callable[[Piece], list[NBest]]", paraphrased)
