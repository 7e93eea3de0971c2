"""Examples: the corpus of `fit`, and the input of a Doc with gold annotation."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..files import collecting

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from .gold_docs import Portion


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
        portions: Callable[..., Iterator[Portion | list[Example]]] | None = None,
    ) -> None:
        self.keeps, self.portions = keep, None if keep else portions
        self._read, self._report = read, report
        self._kept: list[Example] | None = None
        self._n_tokens: int | None = None

    def __iter__(self) -> Iterator[Example]:
        if not self.keeps:
            return self._counted()
        if self._kept is None:
            with collecting():
                gc.disable()  # the garbage collector would repeatedly visit all Docs during reading
                self._kept = list(self._counted())
        return iter(self._kept)

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


def bare(doc: Doc, columns: Sequence[str] = ()) -> Doc:
    """Return the tokens and sentences of a Doc, its noted attributes, and the columns asked for, such as "tag"."""
    from spacy.tokens import Doc

    from ..features.noted import KEY

    starts: Any = [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    result = Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)
    if columns:
        names: Any = [column.upper() for column in columns]
        values: Any = doc.to_array(names).reshape(len(doc), len(names))
        result.from_array(names, values)
    if KEY in doc.user_data:
        result.user_data[KEY] = doc.user_data[KEY]
    return result
