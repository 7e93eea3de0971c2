"""The labels of a model: its tags, which may follow which, which may be those of a token, and which gold Docs have.

The evidence of `CRFComponent.clamp` on a gold Doc, and the spans of its ``incorrect_spans_key``, result in a `Partial`
for a token, unless only one tag remains.  `PartialTable` numbers these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count, pairwise
from typing import TypeAlias

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import ConfigError, DataError, suggest
from ..inference.spread import Spread
from ..schemes import OUTSIDE, inside_of, occurrence_rules
from ..threads import cached_property
from ..training.dataset import CandidateTable
from ..types import MISSING, Bools, Candidates, Constraints, IncorrectSpan, Ints, OccurrenceRules, Offsets, Shares
from .alignment import Unaligned
from .evidence import ENTITIES, DocEvidence, GivenSpan, Partial, Tags, about, crosses_sentences, read_evidence
from .soft_labels import SoftLabels, read_soft_labels
from .tasks import Annotation
from .white_space import Gaps, before, in_words, wordwise


class LabelSet:
    """The tags of a model, in the order of its numbers, under the rules of a task; immutable.

    component (str): The name of the component, for messages.
    """

    def __init__(self, annotation: Annotation, component: str, tags: Iterable[str] = ()) -> None:
        self.annotation, self.component, self.tags = annotation, component, tuple(tags)

    @cached_property
    def constraints(self) -> Constraints:
        """Which of the L tags may follow each other."""
        return self.annotation.constraints(self.tags)

    def check_tags(self) -> None:
        """RAISES DataError: If tags are not those of the task's scheme."""
        self.annotation.constraints(self.tags)

    @property
    def plain(self) -> bool:
        """Whether each token has a label of its own, so that there are no spans."""
        return self.annotation.scheme is None

    @cached_property
    def token_tags(self) -> tuple[str, ...]:
        """The tags of all tokens: those of the model, and I- of types without it, for white space in their spans."""
        scheme = self.annotation.scheme
        inside = dict.fromkeys(inside_of(tag, scheme) for tag in self.tags) if scheme is not None else {}
        return (*self.tags, *(tag for tag in inside if tag not in (*self.tags, OUTSIDE)))

    @cached_property
    def between(self) -> Ints:
        """The label [L] of white space, given that of the word after it, or before it if labels are plain.

        It is inside of a span that continues, and outside of all others.  Plain labels are repeated.
        """
        if (scheme := self.annotation.scheme) is None:
            return np.arange(len(self.tags), dtype=np.int32)
        numbers = {tag: number for number, tag in enumerate(self.token_tags)}
        return np.array([numbers.get(inside_of(tag, scheme), self.nothing) for tag in self.tags], np.int32)

    @property
    def nothing(self) -> int:
        """The label of a token without words around it."""
        return self.tags.index(OUTSIDE) if OUTSIDE in self.tags and not self.plain else 0

    def spread(self, gaps: Gaps, offsets: Offsets) -> Spread:
        """Return how answers about words spread over all tokens; offsets: [N + 1] words of the sequences."""
        source, bounds = gaps.sources(offsets, plain=self.plain)
        return Spread(gaps.places, source, self.between, self.nothing, len(self.token_tags), self.plain, bounds)

    def rules(self, once: Sequence[str], order: Sequence[str]) -> OccurrenceRules | None:
        """Return the rules of these settings, see `schemes.occurrence_rules`; None if they are empty.

        RAISES ConfigError: If a setting names a label that is not there, or a label twice.
        """
        if not once and not order:
            return None
        try:
            return _rules(self.tags, self.annotation.scheme or "plain", tuple(once), tuple(order))
        except ConfigError as error:
            raise ConfigError(f"Component {self.component!r}: {error}") from None

    def numbers(self, tags: Tags, partials: PartialTable) -> Ints:
        """Return gold labels [T] for gold tags.  RAISES DataError: If the component does not have a tag."""
        numbers: dict[str | None, int] = {None: MISSING, **dict(zip(self.tags, count()))}
        try:
            gold = [partials.number(tag) if isinstance(tag, Partial) else numbers[tag] for tag in tags]
            return np.array(gold, np.int32)
        except KeyError as error:
            label = (*self.annotation.public_labels([error.args[0]]), error.args[0])[0]
            raise DataError(
                f"Component {self.component!r}: the label {error.args[0]!r} is in the data but not among the "
                f"component's labels ({', '.join(self.tags[:20])}). Use add_label({label!r}), or add it to the labels "
                "given to initialize."
            ) from None

    def restricted(self, docs: Sequence[Doc], word_offsets: Offsets, evidence: Mapping[int, DocEvidence]) -> Bools:
        """Return which tags the words of Docs may have [W, L].

        word_offsets (Offsets): [docs + 1] starts of the Docs' words.
        evidence (Mapping[int, DocEvidence]): About the tokens of Docs, by number.  Labels that are given for
            white space restrict the next word, unless each token has a label of its own.
        RAISES DataError: If the evidence is impossible or contradicts itself.
        """
        allowed = np.ones((int(word_offsets[-1]), len(self.tags)), np.bool_)
        for number, of_doc in evidence.items():
            self._restrict(allowed[slice(*word_offsets[number : number + 2])], of_doc, docs[number])
        return allowed

    def _restrict(self, allowed: Bools, evidence: DocEvidence, doc: Doc) -> None:
        """Remove the labels that the evidence rules out from allowed [words, L]; errors as in `restricted`."""
        words, taken = before(doc), set[int]()
        for span in dict.fromkeys(evidence.spans):  # a ruler and a user may give the same span
            where = f"{about(doc)}: the given span {span.start}-{span.end} {' or '.join(map(repr, span.labels))}"
            if not taken.isdisjoint(range(span.start, span.end)):
                raise DataError(f"{where} overlaps another.")
            taken.update(range(span.start, span.end))
            self._clamp(allowed, span, doc, words, where)
        for token, labels in evidence.allowed.items():
            if not 0 <= token < len(doc):
                raise DataError(f"{about(doc)}: labels are given for token {token}, but it has {len(doc)} tokens.")
            word, is_word = int(words[token]), words[token] < words[token + 1]
            tags = self.tags if is_word else self.token_tags
            possible = np.isin(np.arange(len(tags)), numbers_of(labels, self.annotation, tags))
            if self.plain and not is_word:
                continue
            if not is_word:
                follows = word < len(allowed) and not crosses_sentences(doc, token, _token_of(words, word) + 1)
                possible = possible[self.between] if follows else possible[[self.nothing]]
            if is_word or follows:
                possible = allowed[word] = allowed[word] & possible
            if not possible.any():
                raise DataError(
                    f"{about(doc)}: no label is left for token {token}, {doc[token].text!r}: the knowledge about it "
                    "(notes by clamp, spans and labels given with the question, entities that the Doc already has) "
                    "contradicts itself."
                )

    def _clamp(self, allowed: Bools, span: GivenSpan, doc: Doc, words: Offsets, where: str) -> None:
        start, end, labels = span
        if not 0 <= start < end <= len(doc):
            raise DataError(f"{where} is not inside the {len(doc)} tokens.")
        if crosses_sentences(doc, start, end):
            raise DataError(f"{where} reaches over the end of a sentence, which no labelling can.")
        first, after = int(words[start]), int(words[end])
        if first == after:
            raise DataError(f"{where} has no word, only white space.")
        allowed[first:after] = False
        for label in labels:
            wanted = self.annotation.tags_of_span(after - first, label)
            if unknown := [tag for tag in wanted if tag not in self.tags]:
                raise DataError(f"{where}: the model has no tag {unknown[0]!r}. {suggest(unknown[0], self.tags)}")
            numbers = [self.tags.index(tag) for tag in wanted]
            allowed[np.arange(first, after), numbers] = True
            if after < len(allowed):  # a sentence begins with none of these anyway
                allowed[after] &= ~self.constraints.inside[numbers[-1]]


def _token_of(words: Offsets, word: int) -> int:
    """Return the token of a word, given the number of words before each token and before the end."""
    return int(np.searchsorted(words, word, side="right")) - 1


_rules = lru_cache(maxsize=16)(occurrence_rules)


def numbers_of(labels: Iterable[str], annotation: Annotation, tags: Sequence[str]) -> list[int]:
    """Return the numbers of the tags that labels (tags or types) stand for.  RAISES DataError: If there are none."""
    numbers: list[int] = []
    for label in labels:
        meant = [i for i, tag in enumerate(tags) if label == tag or (label,) == annotation.public_labels([tag])]
        if not meant:
            raise DataError(f"The model has no label {label!r}. {suggest(label, annotation.public_labels(tags))}")
        numbers += meant
    return numbers


Entries: TypeAlias = list[tuple[int, int, float]]
"""The label before, `MISSING` if nothing is said of it, the label, and the probability of the two."""


def _extended(shares: Shares, n_sets: int, more: Sequence[Entries]) -> Shares:
    """Return the probabilities of candidate sets with those of more sets, given the number of sets before."""
    if not len(shares.ptr) and not any(more):
        return shares
    ptr = shares.ptr if len(shares.ptr) else np.zeros(n_sets + 1, np.int64)
    added = np.array([entry for entries in more for entry in entries], np.float64).reshape(-1, 3)
    return Shares(
        np.append(ptr, ptr[-1] + np.cumsum([len(entries) for entries in more], dtype=np.int64)),
        np.append(shares.before, added[:, 0].astype(np.int32)),
        np.append(shares.labels, added[:, 1].astype(np.int32)),
        np.append(shares.values, added[:, 2]),
    )


class PartialTable(CandidateTable):
    """Numbers partial knowledge about gold tokens, and keeps the candidate sets behind the numbers."""

    def __init__(self, annotation: Annotation) -> None:
        super().__init__()
        self._annotation = annotation
        self._numbers: dict[Partial, int] = {}
        self._tags: tuple[str, ...] = ()

    def number(self, partial: Partial) -> int:
        """Return the gold label for partial knowledge, below `MISSING`."""
        return MISSING - 1 - self._numbers.setdefault(partial, len(self._numbers))

    def new_tags(self, present: Sequence[str]) -> list[str]:
        """Return tags that only partially known tokens may have, and all tags of types without any."""
        if not self._numbers:
            return []
        labels = dict.fromkeys(label for partial in self._numbers for label in partial.labels or ())
        tags = dict.fromkeys(label for label in labels if self._annotation.is_tag(label))
        types = set(self._annotation.public_labels([*present, *tags]))
        new = [label for label in labels if label not in {*types, *tags}]
        tags.update(dict.fromkeys(self._annotation.tags_of_types(new) if new else ()))
        return [tag for tag in tags if tag not in present]

    def resolve(self, tags: Sequence[str]) -> None:
        """Update the candidate sets for a model's tags.  RAISES DataError: If a token has no label left."""
        if tuple(tags) != self._tags:
            self._tags, self.now = tuple(tags), Candidates(np.zeros((0, len(tags)), np.bool_))
        sets, incorrect, shares = self.now
        rows, spans, entries = [sets], list(incorrect), list[Entries]()
        for partial, number in list(self._numbers.items())[len(sets) :]:
            try:
                allowed, wrong = self._resolved(partial, number)
                entries.append(self._entries(partial))
            except DataError as error:
                self._numbers = dict(list(self._numbers.items())[: len(sets)])  # forget it, and all that came with it
                raise DataError(f"{partial.where}: {error}") from None
            rows.append(allowed[None])
            spans += wrong
        self.now = Candidates(np.concatenate(rows), tuple(spans), _extended(shares, len(sets), entries))

    def _entries(self, partial: Partial) -> Entries:
        """Return the numbers of the tags before and of the tags of a token, and their probabilities."""
        numbers = {tag: number for number, tag in enumerate(self._tags)}
        for *pair, _ in partial.shares:
            numbers_of(filter(None, pair), self._annotation, self._tags)
        numbers[""] = MISSING
        return [(numbers[earlier], numbers[tag], share) for earlier, tag, share in partial.shares]

    def _resolved(self, partial: Partial, number: int) -> tuple[Bools, list[IncorrectSpan]]:
        tags, spans = self._tags, []
        allowed = np.full(len(tags), partial.labels is None)
        allowed[numbers_of(partial.labels or (), self._annotation, tags)] = True
        allowed &= ~np.isin(tags, partial.barred)
        for label, length in partial.wrong:
            numbers_of([label], self._annotation, tags)
            pattern = self._pattern(label, length)
            if len(pattern) == 1:
                allowed &= ~pattern[0]
            elif pattern.any(1).all():
                spans.append(IncorrectSpan(number, length, pattern))
        if not allowed.any():
            raise DataError("the knowledge about the token leaves no label for it.")
        return allowed, spans

    def _pattern(self, label: str, length: int) -> Bools:
        """Return [length or length + 1, L] the tags of a span, and those after it if some would continue it."""
        after = tags_after(self._annotation, label, length)
        rows = [[tag == wanted for tag in self._tags] for wanted in self._annotation.tags_of_span(length, label)]
        return np.array([*rows, *([[tag not in after for tag in self._tags]] if after else [])], np.bool_)


def tags_after(annotation: Annotation, label: str, length: int) -> list[str]:
    """Return the tags that, right after a span, would continue it."""
    tags = annotation.tags_of_types([label])
    last = tags.index(annotation.tags_of_span(length, label)[-1])
    inside = annotation.constraints(tags).inside[last]
    return [tag for tag, goes_on in zip(tags, inside, strict=True) if goes_on]


def gold_evidence(annotation: Annotation, doc: Doc, component: str) -> DocEvidence:
    """Return the notes on a gold Doc for a component: those of a user, and of the reader of the corpus.

    RAISES DataError: If they were noted before the tokens changed.
    """
    evidence = read_evidence(doc, component, ("user",))
    return evidence.and_(read_evidence(doc, ENTITIES, ("user",))) if annotation.column == "ent" else evidence


def gold_tags(
    annotation: Annotation, example: Example, component: str, unaligned: Unaligned | None = None, spaces: bool = True
) -> Tags:
    """Return the gold tag of each predicted token: None if missing, a `Partial` if known in part.

    White space in a span is inside of it; other white space is outside, or has no tag if tags are plain.
    A known tag is kept if it is one of the labels that its token may have; probabilities of labels replace it.  Notes
    on tokens of another tokenization, under the name of the component, count where one gold token corresponds to one
    predicted token.
    unaligned (Unaligned | None): Receives the gold annotation that no predicted tokens can hold.
    spaces (bool): Whether there may be white space; whoever has looked need not look again for each example.
    RAISES DataError: If the knowledge about a token contradicts itself.
    """
    annotation.check_gold(example.reference)
    evidence = gold_evidence(annotation, example.reference, component)
    soft = read_soft_labels(example.reference, component)
    words = wordwise(example) if spaces else example
    if words is not example:
        places = before(example.reference)
        soft = {int(places[token]): pairs for token, pairs in soft.items() if places[token] < places[token + 1]}
        tags = _tags_of_words(annotation, words, in_words(evidence, example.reference), soft, unaligned)
        return _with_space(tags, example.predicted, annotation)
    return _tags_of_words(annotation, example, evidence, soft, unaligned)


def _with_space(tags: Tags, doc: Doc, annotation: Annotation) -> Tags:
    """Return the gold tags of all tokens of a Doc for those of its words."""
    out: Tags = []
    for word, after in pairwise(before(doc).tolist()):
        near = tags[word] if word < len(tags) else next(reversed(tags), None)
        if after > word:
            out.append(near)
        elif annotation.scheme is None or not isinstance(near, str):
            out.append(None)
        else:
            out.append(inside_of(near, annotation.scheme) if word < len(tags) else OUTSIDE)
    return out


def _tags_of_words(
    annotation: Annotation, example: Example, evidence: DocEvidence, soft: SoftLabels, unaligned: Unaligned | None
) -> Tags:
    tags = annotation.gold_tags(example, same := same_words(example))
    if unaligned is not None and not same:
        unaligned.add(annotation, example, tags)
    wrong = annotation.incorrect_spans(example, same)
    if not (evidence.spans or evidence.allowed or soft or wrong):
        return tags
    gold = _KnownTags(list(tags), annotation, example)
    numbers = None
    if not same:  # the predicted token of each gold token, for pairs that correspond to each other alone
        to_gold, to_predicted = example.alignment.x2y, example.alignment.y2x
        pairs = ((i, to_gold[i]) for i in range(len(example.predicted)))
        numbers = {int(gold[0]): i for i, gold in pairs if len(gold) == 1 and len(to_predicted[int(gold[0])]) == 1}
    gold.take_soft_labels(soft, numbers)
    gold.take_evidence(evidence, numbers)
    if soft and wrong:
        raise DataError(
            f"{about(example.reference, 'The gold document')} has labels with probabilities, and spans that are "
            "incorrect. Leave out one of the two."
        )
    for start, end, label in wrong:
        gold.take_wrong(start, end, label)
    return gold.tags


def known_tags(tags: Tags) -> list[str | None]:
    """Replace partially known tags by None."""
    return [None if isinstance(tag, Partial) else tag for tag in tags]


def same_words(example: Example) -> bool:
    """Whether predicted and gold Doc have the same tokens, so that no alignment is needed."""
    predicted, reference = example.predicted, example.reference
    return len(predicted) == len(reference) and bool(
        (predicted.to_array(["ORTH"]) == reference.to_array(["ORTH"])).all()
    )


class _KnownTags:
    """Collects the knowledge about the predicted tokens of one example in `tags`."""

    def __init__(self, tags: Tags, annotation: Annotation, example: Example) -> None:
        self.tags, self._annotation = tags, annotation
        self._doc, self._size = example.predicted, len(example.reference)
        self._name = about(example.reference, "The gold document")

    def take_evidence(self, notes: DocEvidence, places: dict[int, int] | None) -> None:
        """Add spans that are there and labels that tokens may have."""
        for start, end, labels in notes.spans:
            tokens = self._tokens(range(start, end), places)
            tags = [self._annotation.tags_of_span(end - start, label) for label in labels]
            for token, candidates in zip(tokens, zip(*tags, strict=True), strict=False):
                self._allow(token, [*dict.fromkeys(candidates)])
            if tokens and not self._ends(tokens[-1] + 1):
                after = [tag for label in labels for tag in tags_after(self._annotation, label, end - start)]
                self._bar(tokens[-1] + 1, after)
        for gold, names in notes.allowed.items():
            for token in self._tokens(range(gold, gold + 1), places):
                self._allow(token, names)

    def take_soft_labels(self, soft: SoftLabels, places: dict[int, int] | None) -> None:
        """Replace the labels of tokens by probabilities."""
        for gold, pairs in soft.items():
            for token in self._tokens(range(gold, gold + 1), places):
                follows = gold > 0 and (places is None or places.get(gold - 1) == token - 1)
                shares = tuple((before if follows else "", tag, share) for before, tag, share in pairs)
                labels = tuple(sorted({tag for _, tag, _ in shares}))
                self.tags[token] = (
                    labels[0] if len(labels) == 1 else Partial(labels, (), (), shares, self._where(token))
                )

    def _tokens(self, gold: range, places: dict[int, int] | None) -> list[int]:
        if not 0 <= gold.start < gold.stop <= self._size:
            noted = f"tokens {gold.start}-{gold.stop}"
            raise DataError(f"{self._name} has {self._size} tokens, but there is a note on {noted}.")
        if places is None:
            return list(gold)
        mapped = [places[i] for i in gold if i in places]
        return mapped if len(mapped) == len(gold) else []

    def _ends(self, token: int) -> bool:
        return token >= len(self._doc) or bool(self._doc[token].is_sent_start)

    def _where(self, token: int) -> str:
        return f"{self._name}, token {token} ({self._doc[token].text!r})"

    def _fits(self, tag: str, labels: Sequence[str]) -> bool:
        return tag in labels or not set(self._annotation.public_labels([tag])).isdisjoint(labels)

    def _allow(self, token: int, labels: Sequence[str]) -> None:
        earlier = self._noted(token)
        given = " or ".join(map(repr, labels)) or "none"
        if isinstance(earlier, str):
            if self._fits(earlier, labels):
                return
            raise DataError(f"{self._where(token)} is annotated as {earlier!r}, but its label is noted to be {given}.")
        if earlier is not None and earlier.labels is not None:
            labels = [tag for tag in earlier.labels if self._fits(tag, labels)]
        if not labels:
            raise DataError(f"{self._where(token)}: no label is left for it, which is noted to be {given}.")
        partial = replace(earlier or Partial(), labels=tuple(sorted(set(labels))), where=self._where(token))
        alone = len(set(labels)) == 1 and self._annotation.is_tag(labels[0]) and partial == Partial(partial.labels)
        self.tags[token] = labels[0] if alone else partial

    def _noted(self, token: int) -> str | Partial | None:
        """Return the tag of a token; notes of a user count more than probabilities."""
        tag = self.tags[token]
        return None if isinstance(tag, Partial) and tag.shares else tag

    def _bar(self, token: int, tags: Sequence[str]) -> None:
        earlier = self._noted(token)
        if isinstance(earlier, str):
            if earlier in tags:
                where = self._where(token)
                raise DataError(f"{where} is annotated as {earlier!r}, but a span is noted to end before it.")
        elif tags:
            barred = (*(earlier.barred if earlier else ()), *tags)
            self.tags[token] = replace(earlier or Partial(), barred=barred, where=self._where(token))

    def take_wrong(self, start: int, end: int, label: str) -> None:
        """Add a span that is not there."""
        wanted = self._annotation.tags_of_span(end - start, label)
        after = tags_after(self._annotation, label, end - start)
        earlier = [self.tags[token] for token in range(start, end)]
        follows = None if self._ends(end) else self.tags[end]
        other = any(isinstance(tag, str) and tag != want for tag, want in zip(earlier, wanted, strict=True))
        if other or follows in after:  # the annotation does not have it anyway
            return
        if earlier == wanted and (isinstance(follows, str) or self._ends(end) or not after):
            where = self._where(start)
            raise DataError(f"{where}: a span {label!r} of {end - start} tokens is both gold and incorrect.")
        first = earlier[0]
        partial = Partial((first,)) if isinstance(first, str) else first or Partial()
        wrong = tuple(dict.fromkeys((*partial.wrong, (label, end - start))))
        self.tags[start] = replace(partial, wrong=wrong, where=self._where(start))
