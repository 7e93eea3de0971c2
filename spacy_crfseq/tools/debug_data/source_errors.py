"""Likely annotation errors of a file .spacy, found by comparing its entities with the spans of sources in doc.spans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...corpora.paths import corpus_files
from ...pipeline.source_votes import SourcedTexts, sourced_texts
from ...pipeline.texts import load_docs
from ...schemes import TagSpan, decode_lenient
from ...types import MISSING, Ints
from .._pages.label_errors import LabelError, Stretch, stretches
from .label_errors import Suspects, suspect_of

if TYPE_CHECKING:
    from ...chain import Chain

SPEAK = 2
"""Sources that must say something of each token of a stretch."""


def find_source_suspects(path: Path, number: int) -> Suspects | None:
    """Return the places where a label model of the sources contradicts the entities; None if there are no sources.

    The label model does not learn from the entities.  Places of which fewer than two sources speak do not count.

    path (Path): A file .spacy with spans of sources, as `aggregate` writes them.
    number (int): Number of places to return.
    RAISES CrfError: If the file cannot be read.
    """
    started, vocab, docs, places = perf_counter(), Vocab(), list[Doc](), list[str]()
    for file in corpus_files(path):
        of_file = list(load_docs(file, vocab))
        docs += of_file
        places += [f"{file}, doc {number}" for number in range(1, len(of_file) + 1)]
    texts = sourced_texts(docs)
    if texts is None:
        return None
    errors = [error for error in _contradictions(texts, docs) if error.log_odds > 0]
    errors.sort(key=lambda error: -error.log_odds)
    worst = [suspect_of(error, docs[error.text], places[error.text]) for error in errors[:number]]
    return Suspects({"ent": worst}, {"ent": len(errors)}, 0, perf_counter() - started)


def _contradictions(texts: SourcedTexts, docs: list[Doc]) -> Iterator[LabelError]:
    """Yield all stretches where the entities are not the best labelling by the sources."""
    votes = texts.votes
    copies = votes.originals() != np.arange(len(votes.names))
    several = np.diff(votes.without(copies[votes.sources]).ptr) >= SPEAK
    for first, chain in texts.chains(texts.learn()):
        best, gold, places = chain.viterbi().astype(np.int32), list[Ints](), list[tuple[int, Stretch]]()
        for text, (begin, end) in enumerate(pairwise(chain.offsets.tolist()), start=first):
            doc, where = docs[text], texts.votes.offsets[text]
            spans = [TagSpan(span.start, span.end, span.label_) for span in doc.ents]
            gold.append(texts.tag_numbers(spans, len(doc)))
            annotated = [token.ent_iob != 0 and tag != MISSING for token, tag in zip(doc, gold[-1], strict=True)]
            judged = np.array(annotated, np.bool_) & several[where : where + len(doc)]
            predicted = decode_lenient([texts.tags[tag] for tag in best[begin:end]])
            places += [(text - first, stretch) for stretch in stretches(spans, predicted, judged.tolist())]
        sides = [_probabilities(chain, labels, places) for labels in (np.concatenate([*gold, best[:0]]), best)]
        for (text, stretch), p_gold, p_predicted in zip(places, *sides, strict=True):
            yield LabelError(first + text, stretch, p_gold, p_predicted)


def _probabilities(chain: Chain, labels: Ints, places: list[tuple[int, Stretch]]) -> list[float]:
    """Return the probability that the tokens of each stretch have these labels, of all tokens [T]."""
    result, rounds = [0.0] * len(places), dict[int, list[int]]()
    before = dict[int, int]()
    for place, (text, _) in enumerate(places):  # those of one text, one after another
        rounds.setdefault(before.setdefault(text, 0), []).append(place)
        before[text] += 1
    for chosen in rounds.values():
        only = np.full_like(labels, MISSING)
        for place in chosen:
            text, stretch = places[place]
            tokens = slice(chain.offsets[text] + stretch.start, chain.offsets[text] + stretch.end)
            only[tokens] = labels[tokens]
        values = np.exp(chain.log_prob(only))
        for place in chosen:
            result[place] = float(values[places[place][0]])
    return result
