"""The corpus of a training: examples that each pass reads anew, or that are kept where components annotate them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from spacy.training import Example

from ..files import collecting
from .doc_builder import LabelledText, join

if TYPE_CHECKING:
    from .doc_model import DocModel

PORTION = 200
"""Sentences that are read at a time."""


class Corpus:
    """Examples that can be iterated over any number of times: read anew by `read`, or kept if components annotate them.

    keep (bool): Keep all examples, so that annotation on their docs persists.
    report (Callable | None): Called with the numbers of docs and tokens after the first pass.
    portions (Callable | None): Reads the corpus in parts, without docs where none are needed; see `CorpusReader`.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Example]],
        keep: bool,
        report: Callable[[int, int], None] | None = None,
        portions: Callable[..., Iterator[LabelledText | list[Example]]] | None = None,
    ) -> None:
        self.keeps, self.portions = keep, None if keep else portions
        self._read, self._report = read, report
        self._kept: list[Example] | None = None
        self._labelled: dict[tuple[Any, ...], LabelledText | None] = {}
        self._n_tokens: int | None = None

    def __iter__(self) -> Iterator[Example]:
        if not self.keeps:
            return self._counted()
        if self._kept is None:
            with collecting():
                gc.disable()  # the garbage collector would repeatedly visit all Docs during reading
                self._kept = list(self._counted())
        return iter(self._kept)

    def kept(self, keep: bool) -> Corpus:
        """Return the corpus, whose examples are kept, or read anew each time."""
        return Corpus(self._read, keep, self._report)

    def labelled(self, model: DocModel) -> LabelledText | None:
        """Return all sentences as a model reads them, None where it needs Docs, or if there are none.

        They are read at the first call; a corpus that is learned from would take memory for nothing (`portions`).
        RAISES FormatError: On a line that cannot be read.
        """
        if self.portions is None or model.reads_docs:
            return None
        from ..features.templates import column_names  # here, for commands to be light to import

        columns, annotation = column_names(*model.features.plans()), model.annotation
        key = columns, annotation.column, str(annotation.settings())
        if key not in self._labelled:
            parts = list[LabelledText]()
            for part in self.portions(PORTION, columns, annotation):
                if isinstance(part, list):
                    parts = []
                    break
                parts.append(part)
            self._labelled[key] = join(parts) if parts else None
        return self._labelled[key]

    def annotate(self, pipe: Any) -> None:
        """Let a component annotate the predicted Docs of a corpus that is kept."""
        examples = list(self)
        docs = (example.predicted for example in examples)
        done = pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs)
        self._kept = [Example(doc, example.reference) for doc, example in zip(done, examples, strict=True)]

    def _counted(self) -> Iterator[Example]:
        n_docs = n_tokens = 0
        for example in self._read():
            n_docs += 1
            n_tokens += len(example.predicted)
            yield example
        self.count(n_docs, n_tokens)

    def count(self, n_docs: int, n_tokens: int) -> None:
        """Take in the size of the corpus, after a pass over all of it."""
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
