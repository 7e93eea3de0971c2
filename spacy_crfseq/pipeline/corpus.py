"""The corpus of a training: examples that each pass reads anew, or that are kept where components annotate them."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from spacy.training import Example
from spacy.util import minibatch

from ..files import collecting
from .doc_builder import LabelledText, join

if TYPE_CHECKING:
    from .tasks import Annotation

PORTION = 200
"""Texts that are read at a time."""


class Corpus:
    """Examples that can be iterated over any number of times: read anew by `read`, or kept if components annotate them.

    keep (bool): Keep all examples, so that annotation on their docs persists.
    report (Callable | None): Called with the numbers of docs and tokens after the first pass.
    read_portions (Callable | None): Reads the corpus in portions, as `CorpusReader.portions` does.
    keys (array | None): What the keys of the sentences join as they are read, see `CorpusReader.note_keys`.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Example]],
        keep: bool,
        report: Callable[[int, int], None] | None = None,
        read_portions: Callable[..., Iterator[LabelledText | list[Example]]] | None = None,
        keys: array[int] | None = None,
    ) -> None:
        self.keeps, self._read, self._report = keep, read, report
        self._read_portions = None if keep else read_portions
        self._kept: list[Example] | None = None
        self._keys = keys
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

    def __add__(self, other: Corpus) -> Corpus:
        """Return the texts of this corpus and then those of another, read anew; kept and reported as of this one."""
        first, second = self._read_portions, other._read_portions
        read_portions = None if first is None or second is None else _one_after_another(first, second)
        return Corpus(_one_after_another(self._read, other._read), self.keeps, self._report, read_portions)

    def kept(self, keep: bool) -> Corpus:
        """Return the corpus, whose examples are kept, or read anew each time."""
        return Corpus(self._read, keep, self._report)

    def portions(self, columns: Sequence[str], annotation: Annotation) -> Iterator[LabelledText | list[Example]]:
        """Yield some texts at a time, with token columns and the labels of a task; as arrays where no docs are needed.

        RAISES FormatError: On a line that cannot be read.
        """
        if self._read_portions is None:
            yield from in_portions(self)
            return
        n_docs = n_tokens = 0
        for portion in self._read_portions(PORTION, columns, annotation):
            if isinstance(portion, list):
                n_docs += len(portion)
                n_tokens += sum(len(example.predicted) for example in portion)
            else:
                n_docs += len(portion.text.offsets) - 1
                n_tokens += len(portion.tags)
            yield portion
        self.count(n_docs, n_tokens)

    def labelled(self, columns: Sequence[str], annotation: Annotation) -> LabelledText | None:
        """Return all texts at once, None where docs are needed, or if there are none; arguments and errors as above.

        They are read at the first call and kept: a corpus that is learned from is read in portions.
        """
        key = *columns, annotation.column, str(annotation.settings())
        if key not in self._labelled:
            self._labelled[key] = self._joined(columns, annotation)
        return self._labelled[key]

    def _joined(self, columns: Sequence[str], annotation: Annotation) -> LabelledText | None:
        parts = list[LabelledText]()
        for portion in () if self._read_portions is None else self.portions(columns, annotation):
            if isinstance(portion, list):
                return None
            parts.append(portion)
        return join(parts) if parts else None

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
        """Take in the size of the corpus, after a pass over all of it, perhaps on other machines."""
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

    @property
    def keys(self) -> array[int] | None:
        """The keys of all sentences, some perhaps several times; None before a pass over all, or if none are noted."""
        return None if self._n_tokens is None else self._keys

    def head(self, size: int) -> list[Example]:
        """Return the first examples."""
        return list(islice(self, size))


def in_portions(examples: Iterable[Example]) -> Iterator[list[Example]]:
    """Yield some examples at a time."""
    yield from minibatch(examples, PORTION)


def _one_after_another(*reads: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
    """Return a function that reads all of these with the same arguments."""
    return lambda *given: chain.from_iterable(read(*given) for read in reads)
