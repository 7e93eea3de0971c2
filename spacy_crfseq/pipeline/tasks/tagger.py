"""One value of a token attribute per token, for `crf_tagger`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ...errors import ConfigError, DataError, suggest
from ..confidence import store_token_scores
from ..evidence import Partial, Tags
from ..structs import write_tokens
from .base import Annotation, Prediction, keep_string, vocabs_of

ATTRIBUTES = ("tag", "pos", "morph")
_POS_NAMES: dict[int, str] = {int(number): name for name, number in POS_IDS.items()}


class TokenTags(Annotation):
    """Tags are the values of ``token.tag``, ``token.pos`` or ``token.morph``."""

    scheme = None

    def __init__(self, attr: str, overwrite: bool) -> None:
        if attr not in ATTRIBUTES:
            raise ConfigError(f"crf_tagger: attr {attr!r} is not supported. {suggest(str(attr), ATTRIBUTES)}")
        self.attr, self.column, self.overwrite, self.score_name = attr, attr, overwrite, f"{attr}_acc"
        self.writes = frozenset({attr.upper()})
        self.reads = () if overwrite else (attr.upper(),)
        self._id = IDS[attr.upper()]

    def settings(self) -> dict[str, Any]:
        return {"attr": self.attr, "overwrite": self.overwrite}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        values = reference.to_array([self._id]).tolist() if same_words else example.get_aligned(self.attr.upper())
        text_of = (_POS_NAMES if self.attr == "pos" else reference.vocab.strings).__getitem__
        texts = {value: _known(text_of(value)) if value else None for value in set(values)}
        return [texts[value] for value in values]

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([self._id]).tobytes()

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(labels))

    def is_tag(self, label: str) -> bool:
        return True

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        return sorted(tags)

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        return tuple(tags)

    def tags_of_span(self, length: int, label: str) -> list[str]:
        return [label] * length

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        self._values(vocab, tags)

    def _values(self, vocab: Vocab, tags: Sequence[str]) -> NDArray[np.uint64]:
        if self.attr == "pos":
            unknown = [tag for tag in tags if tag not in POS_IDS]
            if unknown:
                raise DataError(f"crf_tagger: {unknown[0]!r} is not a universal part of speech: use attr = 'tag'.")
            return np.array([POS_IDS[tag] for tag in tags], np.uint64)
        add = vocab.morphology.add if self.attr == "morph" else partial(keep_string, vocab)
        return np.array([add(tag) for tag in tags], np.uint64)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        if not docs:
            return
        each = [self._values(vocab, tags) for vocab in vocabs_of(docs)]
        values = each[0][prediction.labels]
        scores = prediction.scores
        if not self.overwrite:
            old = prediction.state[:, 0]
            kept = (old != 0) & (old != values)
            values = np.where(kept, old, values)
            scores = None if scores is None else np.where(kept, np.nan, scores)
        write_tokens(docs, [self.attr.upper()], values[:, None])
        if scores is not None:
            for doc, (begin, end) in zip(docs, pairwise(prediction.doc_offsets.tolist()), strict=True):
                store_token_scores(doc, prediction.name, scores[begin:end])

    def tag_of(self, token: Token) -> str:
        return str(getattr(token, "morph" if self.attr == "morph" else f"{self.attr}_"))


def _known(tag: str) -> str | Partial:
    """Return what a gold tag says: "!NN" is any tag but NN, as for spaCy's tagger."""
    return Partial(barred=(tag[1:],)) if tag[:1] == "!" and len(tag) > 1 else tag
