"""The examples of `fit`: read again for each use, or kept if components annotate them for later ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.training import Example


class Corpus:
    """Examples that can be iterated over any number of times, read anew by `read` each time or kept.

    keep (bool): Keep all examples, so that annotation on their docs persists.
    report (Callable | None): Called with the numbers of docs and tokens after the first pass.
    """

    def __init__(
        self, read: Callable[[], Iterable[Example]], keep: bool, report: Callable[[int, int], None] | None = None
    ) -> None:
        self.keeps = keep
        self._read, self._report = read, report
        self._kept: list[Example] | None = None
        self._n_tokens: int | None = None

    def __iter__(self) -> Iterator[Example]:
        if not self.keeps:
            return self._counted()
        if self._kept is None:
            was_on = gc.isenabled()
            gc.disable()  # the garbage collector would repeatedly visit all Docs during reading
            try:
                self._kept = list(self._counted())
            finally:
                if was_on:
                    gc.enable()
        return iter(self._kept)

    def _counted(self) -> Iterator[Example]:
        n_docs = n_tokens = 0
        for example in self._read():
            n_docs += 1
            n_tokens += len(example.predicted)
            yield example
        if self._n_tokens is None and self._report is not None:
            self._report(n_docs, n_tokens)
        self._n_tokens = n_tokens

    @property
    def n_tokens(self) -> int:
        """The number of tokens of the whole corpus, which is read to its end if it has not been yet."""
        if self._n_tokens is None:
            for _ in self:
                pass
        return self._n_tokens or 0

    def head(self, size: int) -> list[Example]:
        """Return the first examples."""
        return list(islice(self, size))
