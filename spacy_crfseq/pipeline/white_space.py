"""White space is no position of a chain: Docs without its tokens for those who read, and answers for all tokens.

A line break inside a name changes nothing then: features, attributes of documents, neighbours and transitions are those
of the words alone.  `read_docs` leaves white space out of columns, `Gaps` out of Docs, `gold_tags` out of gold labels;
`ask` spreads the answers over all tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..features.noted import KEY as NOTED
from ..types import Bools, Hashes, Offsets
from .evidence import KEY, SCORES_KEY, DocEvidence, GivenSpan
from .structs import read_tokens

_COLUMNS = (
    "TAG", "POS", "MORPH", "LEMMA", "NORM", "DEP", "HEAD", "SENT_START", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID",
)  # fmt: skip


def is_space(docs: Sequence[Doc]) -> Bools:
    """Return which tokens [T] of Docs are white space, as spaCy's ``is_space`` says."""
    spaces: Bools = read_tokens(docs, ("IS_SPACE",))[:, 0] != 0
    return spaces


def words_of(docs: Sequence[Doc]) -> Sequence[Doc]:
    """Return Docs without white space: themselves if they have none."""
    spaces = is_space(docs)
    return Gaps(docs, spaces) if spaces.any() else docs


def wordwise(example: Example) -> Example:
    """Return an example whose Docs have no white space: itself if they have none; notes on them are left out."""
    docs = example.predicted, example.reference
    words = words_of(docs)
    return example if words is docs else Example(words[0], words[1])


def before(doc: Doc) -> Offsets:
    """Return the number of words before each token of a Doc, and before its end [tokens + 1]."""
    words: Offsets = np.append(0, np.cumsum(~is_space([doc])))
    return words


def in_words(evidence: DocEvidence, doc: Doc) -> DocEvidence:
    """Return the notes on a Doc as notes on its words; those on tokens outside of the Doc stay.

    Spans lose white space at their ends, and are left out if they have no word, as are notes on white space.
    """
    words, n = before(doc), len(doc)
    spans, allowed = list[GivenSpan](), dict[int, list[str]]()
    for start, end, labels in evidence.spans:
        inside = 0 <= start < end <= n
        span = GivenSpan(int(words[start]), int(words[end]), labels) if inside else GivenSpan(start, end, labels)
        spans += [span] if not inside or span.start < span.end else []
    for token, names in evidence.allowed.items():
        if not 0 <= token < n:
            allowed[token] = names
        elif words[token] < words[token + 1]:
            allowed[int(words[token])] = names
    return DocEvidence(spans, allowed)


class Gaps(Sequence[Doc]):
    """Docs without their white space, made when they are asked for, and where their W words are among all T tokens.

    spaces (Bools): [T] which tokens are white space.
    places (Offsets): [W] tokens of the words.
    doc_offsets, word_offsets (Offsets): [docs + 1] starts of the Docs' tokens, and of their words.
    """

    def __init__(self, docs: Sequence[Doc], spaces: Bools) -> None:
        self._given, self._made = docs, dict[int, Doc]()
        self.spaces, self.places = spaces, np.flatnonzero(~spaces)
        self.doc_offsets = np.cumsum([0, *map(len, docs)])
        self.word_offsets = np.searchsorted(self.places, self.doc_offsets)

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if number not in self._made:
            begin, end = self.doc_offsets[number : number + 2].tolist()
            doc, spaces = self._given[number], self.spaces[begin:end]
            self._made[number] = _without_space(doc, spaces) if spaces.any() else doc
        return self._made[number]

    def __iter__(self) -> Iterator[Doc]:
        return (self[number] for number in range(len(self)))

    def columns(self, table: Hashes, names: Sequence[str]) -> Hashes:
        """Return the rows [W] of a table of token attributes [T]; see `_carried`."""
        return _carried(table, names, self.spaces, self.doc_offsets)

    def sources(self, offsets: Offsets, *, plain: bool) -> tuple[Offsets, Offsets]:
        """Return the word that each token's label follows from [T], -1 for none, and the tokens of sequences [N + 1].

        offsets (Offsets): [N + 1] words of the sequences.
        plain (bool): Take the word before white space, or else the one after it, instead of the next of the sequence.
        """
        tokens, n_words = np.arange(len(self.spaces)), len(self.places)
        behind = np.searchsorted(self.places, tokens)  # the word that a token is, or the next one
        if plain:
            doc = np.searchsorted(self.doc_offsets, tokens, side="right") - 1
            first, last = self.word_offsets[doc], self.word_offsets[doc + 1]
            source = np.where(self.spaces & (behind > first), behind - 1, behind)
            source[last == first] = -1
        else:
            opens = np.zeros(n_words + 1, np.bool_)
            opens[offsets] = True  # no span reaches into a sequence
            source = np.where(self.spaces & opens[behind], -1, behind)
        # white space before a sequence belongs to the one before, but not across Docs
        homes = np.searchsorted(self.word_offsets, offsets[:-1], side="right") - 1
        opening = self.word_offsets[homes] == offsets[:-1]
        starts = np.where(opening, self.doc_offsets[homes], self.places[offsets[:-1]])
        starts[:1] = 0
        bounds = np.append(starts if len(starts) or not len(tokens) else 0, len(tokens)).astype(np.int64)
        return source, bounds


def _carried(table: Hashes, names: Sequence[str], spaces: Bools, doc_offsets: Offsets) -> Hashes:
    """Return the rows of a table of token attributes [T, names] that are of words.

    A sentence that begins with white space begins with the next word of the Doc.  So does an entity, and one that
    white space ends does not go on.  Words with white space between them are apart.
    """
    words, places = table[~spaces], np.flatnonzero(~spaces)
    behind = np.searchsorted(places, np.flatnonzero(spaces))
    homes = np.searchsorted(doc_offsets, np.flatnonzero(spaces), side="right")
    same = np.append(places, len(spaces))[behind] < doc_offsets[homes]
    gaps, nexts, firsts = table[spaces][same], behind[same], np.searchsorted(places, doc_offsets[homes[same] - 1])
    for i, name in enumerate(names):
        if name == "SENT_START":
            words[nexts[gaps[:, i] == 1], i] = 1
        elif name == "ENT_IOB":
            ends = nexts[gaps[:, i] >= 2]
            words[ends[words[ends, i] == 1], i] = 3
        elif name == "SPACY":
            words[nexts[firsts < nexts] - 1, i] = 1
    return words


def _without_space(doc: Doc, spaces: Bools) -> Doc:
    """Return a copy of a Doc without some tokens, which are white space."""
    names: Any = ["ORTH", "SPACY", *_COLUMNS]
    table: Any = doc.to_array(names)
    table[:, names.index("HEAD")] = _heads(table[:, names.index("HEAD")].view(np.int64), spaces).view(np.uint64)
    words = _carried(table, names, spaces, np.array([0, len(doc)]))
    result = Doc(doc.vocab, words=words[:, 0].tolist(), spaces=words[:, 1].astype(bool).tolist())
    starts: Any = ["SENT_START"]
    left: Any = [name for name in _COLUMNS if name not in (*starts, *(() if doc.has_annotation("DEP") else ("HEAD",)))]
    for some in (left, starts):
        values: Any = np.ascontiguousarray(words[:, [names.index(name) for name in some]])
        result.from_array(some, values)
    result.has_unknown_spaces = doc.has_unknown_spaces
    result.cats, result.tensor = doc.cats, doc.tensor[~spaces] if len(doc.tensor) == len(doc) else doc.tensor
    result.user_data = _user_data(doc, result, spaces)
    number = np.append(0, np.cumsum(~spaces)).tolist()
    for key, group in doc.spans.items():
        try:
            moved = [(number[span.start], number[span.end], span) for span in group]
        except IndexError:  # there are fewer tokens now
            continue
        result.spans[key] = [
            Span(result, start, end, span.label, kb_id=span.kb_id, span_id=span.id)
            for start, end, span in moved
            if start < end
        ]
    return result


def _heads(relative: NDArray[np.int64], spaces: Bools) -> NDArray[np.int64]:
    """Return the heads of tokens, counted from each among the words; a word whose heads are white space is a root."""
    tokens, number = np.arange(len(spaces)), np.cumsum(~spaces)
    heads = tokens + relative
    for _ in range(int(spaces.sum())):
        heads = np.where(spaces[heads], heads[heads], heads)
    heads = np.where(spaces[heads], tokens, heads)
    out: NDArray[np.int64] = number[heads] - number
    return out


def _user_data(doc: Doc, words: Doc, spaces: Bools) -> dict[Any, Any]:
    """Return the user data of a Doc for a copy of its words; extension attributes are found by characters."""
    data: dict[Any, Any] = {key: value for key, value in doc.user_data.items() if key not in (KEY, SCORES_KEY)}
    if data and NOTED in data and len(data[NOTED] or ()) == len(doc):
        data[NOTED] = [names for names, space in zip(data[NOTED], spaces.tolist(), strict=True) if not space]
    own = [key for key in data if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[2] is not None]
    if own:
        pairs = list(zip([token for token in doc if not token.is_space], words, strict=True))
        starts = {old.idx: new.idx for old, new in pairs}
        ends: dict[Any, Any] = {None: None, **{old.idx + len(old): new.idx + len(new) for old, new in pairs}}
        moved = {key: data.pop(key) for key in own}
        for (mark, name, start, end), value in moved.items():
            if start in starts and end in ends:
                data[mark, name, starts[start], ends[end]] = value
    return data
