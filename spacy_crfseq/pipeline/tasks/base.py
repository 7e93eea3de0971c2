"""What a task adds to the component: where its labels come from in a gold Doc, and where predictions go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ...schemes import transition_table
from ...types import Bools, Constraints, Floats, Hashes, Ints, Offsets
from ..evidence import DocEvidence, SpanLike, Tags


class Prediction(NamedTuple):
    """Predicted labels [T] of Docs, in N sequences, with `offsets` [N + 1] and `doc_offsets` [docs + 1].

    state (Hashes): [T, S] the columns of `Annotation.reads`, as they were before the prediction.
    preset (Mapping[int, DocEvidence]): Decisions of earlier components about Docs, by number.
    keep (Bools | None): [spans] which spans are probable enough; None for all.
    scores (Floats | None): [spans] probabilities to store, of tokens for a tagger; None to store none.
    name (str): The component; scores are stored under its name if a task has no other place for them.
    """

    labels: Ints
    offsets: Offsets
    doc_offsets: Offsets
    state: Hashes
    preset: Mapping[int, DocEvidence] = MappingProxyType({})
    keep: Bools | None = None
    scores: Floats | None = None
    name: str = ""


class Annotation(ABC):
    """A task.

    scheme (str | None): How tags make up spans; None if each token has its own label.
    column (str): The column of corpus files that has the answers.
    score_name (str): The score of `nlp.evaluate` that counts, such as "ents_f".
    writes (frozenset[str]): Token attributes that hold the answers.
    reads (tuple[str, ...]): Token attributes that `allowed` and `write` need; read with the text, once.
    """

    scheme: str | None
    column: str
    score_name: str
    writes: frozenset[str] = frozenset()
    reads: tuple[str, ...] = ()

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return settings that scorers and configs know, to be kept in ``pipe.cfg``."""

    def check_gold(self, reference: Doc) -> None:
        """Prepare the gold annotation of a Doc for scorers."""
        return

    @abstractmethod
    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        """Return the gold tag of each predicted token: None if missing, a `Partial` if known in part."""

    @abstractmethod
    def gold_content(self, reference: Doc) -> object:
        """Return something hashable that is equal for Docs with equal gold annotation."""

    @abstractmethod
    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        """Write predictions to `docs`."""

    @abstractmethod
    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return the tags of a user's labels: types or tags."""

    @abstractmethod
    def is_tag(self, label: str) -> bool:
        """Whether a label is a tag, not a type with several tags."""

    @abstractmethod
    def found_tags(self, tags: Iterable[str]) -> list[str]:
        """Return the tags of a model for the tags found in gold data."""

    @abstractmethod
    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return the labels that users see."""

    @abstractmethod
    def tags_of_span(self, length: int, label: str) -> list[str]:
        """Return the tags of a span's tokens."""

    @abstractmethod
    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        """Add the labels to the vocab."""

    def constraints(self, tags: Sequence[str]) -> Constraints:
        """Return which tags may follow each other."""
        return transition_table(tags, self.scheme or "plain")

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        """Return spans of predicted tokens that the gold Doc says are not there."""
        return []

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        """Return [T, L] which tags tokens may have given their `reads` [T, S], None if all may have all."""
        return None

    def preset(
        self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]
    ) -> dict[int, DocEvidence]:
        """Return the decisions of earlier components about Docs, by number."""
        return {}

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        """Return the spans of a Doc that this task is about."""
        return []

    def tag_of(self, token: Token) -> str:
        """Return the tag of a token, for tasks whose `scheme` is None."""
        return ""


def vocabs_of(docs: Iterable[Doc]) -> list[Vocab]:
    """Return the vocabs of Docs, each once; those of one batch may differ."""
    return list(dict.fromkeys(doc.vocab for doc in docs))


def keep_string(vocab: Vocab, text: str) -> int:
    """Add a text to the vocab so that it survives memory zones, and return its key."""
    add: Any = vocab.strings.add  # spaCy's stub does not know of zones
    return int(add(text, allow_transient=False))
