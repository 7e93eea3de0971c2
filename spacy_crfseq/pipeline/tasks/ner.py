"""Named entities in ``doc.ents``, for `crf_ner`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...errors import DataError
from ...types import Bools, Hashes, Offsets
from ..evidence import DocEvidence, Partial, SpanLike, Tags, about, crosses_sentences
from ..structs import write_tokens
from .base import Prediction
from .spans import Spans, type_hashes


class Entities(Spans):
    """Entities as in spaCy: earlier entities and blocked tokens are kept, and none begins or ends on whitespace."""

    writes = frozenset({"ENT_IOB", "ENT_TYPE"})
    reads = ("IS_SPACE", "ENT_IOB")
    column, score_name = "ent", "ents_f"
    _warned = False

    def check_gold(self, reference: Doc) -> None:
        """Read tags I- that continue no entity as conlleval does; warn of the first."""
        stray = begin_stray_entities(reference)
        if stray and not self._warned:
            self._warned = True
            warnings.warn(f"{describe_stray(reference, stray[0])} All such tags are read so.", stacklevel=2)

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        self.check_gold(example.reference)
        if not same_words:
            return self._from_biluo(self._aligned(example))
        reference = example.reference
        strings = reference.vocab.strings
        pairs = reference.to_array([ENT_IOB, ENT_TYPE]).tolist()
        behind = [*(iob for iob, _ in pairs[1:]), 2][: len(pairs)]
        torn = self.scheme == "BILUO" and any(
            iob == 0 and after == 1 for (iob, _), after in zip(pairs, behind, strict=True)
        )
        biluo: Tags = []
        for (iob, label), after in zip(pairs, behind, strict=True):
            if iob == 0:
                biluo.append(None)
            elif iob == 2 or not label:
                biluo.append("O")
            elif torn and after == 0:  # it borders on a missing token: it may go on there
                biluo.append(Partial(tuple(f"{prefix}-{strings[label]}" for prefix in ("BU" if iob == 3 else "IL"))))
            else:
                prefix = ("B" if after == 1 else "U") if iob == 3 else ("I" if after == 1 else "L")
                biluo.append(f"{prefix}-{strings[label]}")
        return self._from_biluo(biluo)

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        negative = [label for label in self.public_labels(tags) if label.startswith("!")]
        if negative:
            raise DataError(
                f"The entity label {negative[0]!r} begins with '!'. To say that a span is no {negative[0][1:]}, put it "
                "into a group of doc.spans, and name the group in the setting incorrect_spans_key."
            )
        super().prepare(vocab, tags)

    def _aligned(self, example: Example) -> Tags:
        try:
            return list(example.get_aligned_ner())
        except ValueError as error:
            text = example.reference.text.strip()[:60]
            raise DataError(f"The entities of the gold document {text!r} cannot be read: {error}") from None

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([ENT_IOB, ENT_TYPE]).tobytes(), super().gold_content(reference)

    def _from_biluo(self, tags: Tags) -> Tags:
        """Return the tags in the scheme; tags without a type, such as "U-", mean that nothing is known."""
        known: Tags = [None if isinstance(tag, str) and tag.endswith("-") else tag for tag in tags]
        if self.scheme == "BILUO":
            return known
        table = {"L": "I", "U": "B"}
        return [table.get(tag[0], tag[0]) + tag[1:] if isinstance(tag, str) else tag for tag in known]

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        spaces = state[:, 0] != 0
        if not spaces.any():
            return None
        allowed = np.ones((len(spaces), len(tags)), np.bool_)
        allowed[spaces] = [tag == "O" or (self.scheme == "BILUO" and tag[0] == "I") for tag in tags]
        return allowed

    def preset(
        self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]
    ) -> dict[int, DocEvidence]:
        begins = np.flatnonzero(state[:, 1] == 3)
        if not len(begins):  # the common case
            return {}
        numbers = np.unique(np.searchsorted(doc_offsets, begins, side="right") - 1).tolist()
        return {number: self._preset(docs[number], tags) for number in numbers}

    def _preset(self, doc: Doc, tags: Sequence[str]) -> DocEvidence:
        outside, found = _blocked(doc), []
        for entity in doc.ents:
            known = set(self.tags_of_span(len(entity), entity.label_)) <= set(tags)
            if known and not crosses_sentences(doc, entity.start, entity.end):
                found.append(SpanLike(entity.start, entity.end, entity.label_))
            else:  # predicted spans must not overlap with it
                outside += range(entity.start, entity.end)
        return DocEvidence(found, {token: ["O"] for token in outside})

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        spans, types, scores = self.found(prediction, tags)
        table: Any = np.zeros((len(prediction.labels), 2), np.uint64)
        table[:, 0] = 2
        sizes = spans.end - spans.start
        inside = np.repeat(spans.start - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        if len(inside):
            table[inside, 0] = 1
            table[spans.start, 0] = 3
            table[inside, 1] = np.repeat(type_hashes(types, docs)[spans.type], sizes)
        bounds, preset = prediction.doc_offsets, prediction.preset
        for number in preset:
            self._add_entities(docs[number], table[bounds[number] : bounds[number + 1]])
        free = np.isin(np.arange(len(docs)), list(preset), invert=True)
        others = [docs[number] for number in np.flatnonzero(free).tolist()] if preset else docs
        write_tokens(others, ["ENT_IOB", "ENT_TYPE"], table[np.repeat(free, np.diff(bounds))] if preset else table)
        if scores is not None:
            self.store(prediction, docs, tags, prediction.name)

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        return doc.ents

    def _add_entities(self, doc: Doc, table: NDArray[np.uint64]) -> None:
        """Add predicted entities to those that are set; the constraints keep them apart."""
        taken = doc.to_array([ENT_TYPE]) != 0
        new = []
        for start in np.flatnonzero(table[:, 0] == 3).tolist():
            end = start + 1
            while end < len(doc) and table[end, 0] == 1:
                end += 1
            if not taken[start:end].any():
                new.append(Span(doc, start, end, int(table[start, 1])))
        blocked = [Span(doc, i, i + 1) for i in _blocked(doc)]
        doc.set_ents([*doc.ents, *new], blocked=blocked, default="outside")


def _blocked(doc: Doc) -> list[int]:
    table = doc.to_array([ENT_IOB, ENT_TYPE])
    return np.flatnonzero((table[:, 0] == 3) & (table[:, 1] == 0)).tolist()


def begin_stray_entities(doc: Doc) -> list[int]:
    """Let tags I- that continue no entity begin one, as conlleval does; return their tokens.

    spaCy makes Docs of such tags and then cannot read their entities (its error E093).  A tag after a missing tag may
    continue an entity that is not annotated, and is kept.
    """
    attributes: Any = [ENT_IOB, ENT_TYPE]
    table: Any = doc.to_array(attributes)
    iob, types = table[:, 0], table[:, 1]
    inside = np.flatnonzero((iob == 1) & (types != 0))
    if not len(inside):
        return []
    # in front of the first token is one outside
    before, same = np.append(2, iob)[inside], np.append(0, types)[inside] == types[inside]
    stray = inside[(before != 0) & ~(((before == 1) | (before == 3)) & same)]
    if len(stray):
        table[stray, 0] = 3
        doc.from_array(attributes, table)
    return [int(token) for token in stray]


def describe_stray(doc: Doc, token: int) -> str:
    """Say in a sentence how one of the tokens that `begin_stray_entities` returns was read."""
    tag = f"I-{doc[token].ent_type_}"
    return (
        f"{about(doc, 'The gold document')}, token {token} ({doc[token].text!r}): {tag} continues no entity; it is "
        "read as the beginning of one, as conlleval does."
    )
