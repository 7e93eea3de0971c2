"""Costs of whole labellings: what is wrong with the predicted labels of a text, by what is known of it.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions": wrong labels
of partially annotated sentences, the main verb of a question, tags of names (section 3.3), and the errors of a
recognizer that reads the tags (table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ...errors import ConfigError, suggest
from ...prf import f1_of
from ...schemes import OUTSIDE, decode_lenient

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

TAGS = {"tag": "tags", "pos": "pos"}
"""For each attribute of tokens that a tagger writes, the argument of a Doc that sets it."""


class Evidence(NamedTuple):
    """The information of a corpus about a text of T tokens, for costs.

    gold (Sequence[str | None]): [T] gold labels, in the component's own tags ("B-PER"); None if unknown.
    reference (Doc): The gold Doc, for further annotation such as dependencies; its tokens are `words`.
    """

    words: Sequence[str]
    gold: Sequence[str | None]
    reference: Doc


CostFunction: TypeAlias = Callable[[Sequence[str]], float]
"""A function that returns the cost of labels [T] of a text, 0 or more.

Only differences between labellings matter, so a score up to s, such as the negative cost of Hall et al. (2011), section
3.4, is the cost ``s - score``.
"""


class Cost(Protocol):
    """A cost of predicted labels given the evidence of a corpus; it need not be a sum over tokens or spans."""

    def check(self, labels: Sequence[str], scheme: str) -> None:
        """Raise ConfigError if the cost does not fit a component with these labels, tags of a scheme or "plain"."""

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        """Return the cost of labels of a text; None if the evidence cannot distinguish good labels from bad ones.

        If all gold labels are known, they cost 0, unless the component that judges them makes an error.
        """


def _check_labels(cost: str, wanted: Iterable[str], labels: Sequence[str]) -> None:
    """Raise ConfigError unless the component has all labels that a cost requires."""
    for label in wanted:
        if label not in labels:
            raise ConfigError(f"{cost}: labels: {label!r} is no label of the component. {suggest(label, labels)}")


def _check_tagger(cost: str, scheme: str) -> None:
    if scheme != "plain":
        raise ConfigError(f"{cost} applies to taggers only. Use F1 or Hamming for spans.")


@dataclass(frozen=True)
class Hamming:
    """Number of wrong labels on a subset of the tokens (registered as ``spacy_crfseq.Hamming.v1``).

    labels (list[str]): Count only tokens with these gold labels, as the component names them ("B-PER"); empty for all.
    words (list[str]): Count only these words, ignoring case; empty for all.
    RAISES ConfigError: If the component has no such label.
    """

    labels: list[str] | None = None
    words: list[str] | None = None

    def check(self, labels: Sequence[str], scheme: str) -> None:
        _check_labels("Hamming", self.labels or (), labels)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        words = {word.lower() for word in self.words or ()}
        counted = [
            (t, gold)
            for t, (word, gold) in enumerate(zip(evidence.words, evidence.gold, strict=True))
            if gold is not None and (not self.labels or gold in self.labels) and (not words or word.lower() in words)
        ]
        if not counted:
            return None
        return lambda tags: float(sum(tags[t] != gold for t, gold in counted))


@dataclass(frozen=True)
class F1:
    """``1 - F1`` of predicted spans against gold ones (registered as ``spacy_crfseq.F1.v1``).

    It is not a sum over tokens.  A span is correct if its type and both ends are.  Tokens with an unknown gold label
    count as outside all spans, in both gold and prediction.  Without gold spans, predicting none costs 0 and predicting
    any costs 1.
    RAISES ConfigError: If the component does not predict spans.
    """

    def check(self, labels: Sequence[str], scheme: str) -> None:
        if scheme == "plain":
            raise ConfigError("F1: a tagger predicts no spans. Use Hamming, or train a chunker or entity recognizer.")

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        unknown = {t for t, gold in enumerate(evidence.gold) if gold is None}
        if len(unknown) == len(evidence.gold):
            return None
        wanted = set(decode_lenient([gold or OUTSIDE for gold in evidence.gold]))

        def cost(tags: Sequence[str]) -> float:
            annotated = [OUTSIDE if t in unknown else tag for t, tag in enumerate(tags)]
            return 1 - f1_of(set(decode_lenient(annotated)), wanted)

        return cost


@dataclass(frozen=True)
class RequiredLabel:
    """1 unless the given token has one of the labels (registered as ``spacy_crfseq.RequiredLabel.v1``).

    Nothing else is known of the text: the main verb of a question is a verb.

    labels (list[str]): The labels it may have, as the component names them.
    dep (str): The token is the first with this dependency in the gold Doc, ignoring case; for a main verb, the root.
        If its gold label is known and not among `labels`, for example if the root is a noun, the text is ignored.
    RAISES ConfigError: If there are no labels, or the component lacks one, or there is no dependency.
    """

    labels: list[str]
    dep: str = "root"

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError(
                'RequiredLabel: labels is empty; list the labels that the token may have, such as ["VB", "VBZ"].'
            )
        if not self.dep:
            raise ConfigError('RequiredLabel: dep is empty; set the dependency of the token, such as dep = "root".')

    def check(self, labels: Sequence[str], scheme: str) -> None:
        _check_labels("RequiredLabel", self.labels, labels)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        wanted, labels = self.dep.lower(), frozenset(self.labels)
        place = next((t for t, token in enumerate(evidence.reference) if token.dep_.lower() == wanted), None)
        if place is None or evidence.gold[place] not in {None, *labels}:
            return None
        return lambda tags: float(tags[place] not in labels)


@dataclass(frozen=True)
class EntityAgreement:
    """Errors of a recognizer that reads the tags (registered as ``spacy_crfseq.EntityAgreement.v1``).

    The cost is the number of tokens with a wrong entity tag; entity starts and insides are different tags.  Gold tags
    also have a cost if the recognizer makes errors with them.  The recognizer runs for every judged labelling, which
    takes up to a millisecond each time.  It sees words and tags.

    recognizer (str | Language): Folder or package of a trained pipeline, or the pipeline itself.
    component (str): Its component that reads the tags and writes doc.ents.
    attr (str): Attribute of a token that the tags are, "tag" or "pos".
    f1 (bool): Add ``1 - F1`` of the entities.
    RAISES ConfigError: If there is no such component or attribute, or the trained component is not a tagger.
    """

    recognizer: Any
    component: str = "crf_ner"
    attr: str = "tag"
    f1: bool = False

    def check(self, labels: Sequence[str], scheme: str) -> None:
        _check_tagger("EntityAgreement", scheme)
        _check_recognizer("EntityAgreement", self.recognizer, self.component, self.attr)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        annotated = [t for t, token in enumerate(evidence.reference) if token.ent_iob]
        if not annotated:
            return None
        gold, wanted = _entity_tags(evidence.reference), _known_spans(evidence.reference, annotated)

        def cost(tags: Sequence[str]) -> float:
            doc = _recognized(self.recognizer, self.component, self.attr, evidence, tags)
            predicted = _entity_tags(doc)
            errors = float(sum(predicted[t] != gold[t] for t in annotated))
            return errors + (1 - f1_of(_known_spans(doc, annotated), wanted)) if self.f1 else errors

        return cost


@dataclass(frozen=True)
class EntityTags:
    """Number of tokens in entities with none of the tags (registered as ``spacy_crfseq.EntityTags.v1``).

    Entities are those of the gold Doc; their tags are not known.  Tokens whose gold tag is known and not among `labels`
    are left out, such as "of" in "Bank of England".

    labels (list[str]): The tags that tokens of entities may have, such as ["NNP", "NNPS"].
    recognizer (str | Language | None): Add ``1 - F1`` of the entities that a recognizer finds with the tags; see
        `EntityAgreement`.  None for the number alone, which takes much less time.
    component, attr (str): As of `EntityAgreement`.
    RAISES ConfigError: If there are no labels, or the component lacks one or is not a tagger.
    """

    labels: list[str]
    recognizer: Any = None
    component: str = "crf_ner"
    attr: str = "tag"

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError('EntityTags: labels is empty; list the tags of tokens in entities, such as ["NNP"].')

    def check(self, labels: Sequence[str], scheme: str) -> None:
        _check_tagger("EntityTags", scheme)
        _check_labels("EntityTags", self.labels, labels)
        if self.recognizer is not None:
            _check_recognizer("EntityTags", self.recognizer, self.component, self.attr)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        wanted, allowed, reference = frozenset(self.labels), {None, *self.labels}, evidence.reference
        counted = [t for t, token in enumerate(reference) if token.ent_type and evidence.gold[t] in allowed]
        annotated = [t for t, token in enumerate(reference) if token.ent_iob]
        if not counted and not (self.recognizer and annotated):
            return None
        spans = _known_spans(reference, annotated)

        def cost(tags: Sequence[str]) -> float:
            wrong = float(sum(tags[t] not in wanted for t in counted))
            if self.recognizer is None:
                return wrong
            doc = _recognized(self.recognizer, self.component, self.attr, evidence, tags)
            return wrong + 1 - f1_of(_known_spans(doc, annotated), spans)

        return cost


@lru_cache(maxsize=2)
def _loaded(model: str | Path) -> Language:
    from ...pipeline.select import load_pipeline

    return load_pipeline(model)


def _pipeline(recognizer: str | Path | Language) -> Language:
    """Return the pipeline of a recognizer.  RAISES CrfError: If it cannot be loaded."""
    return _loaded(recognizer) if isinstance(recognizer, str | Path) else recognizer


def _check_recognizer(cost: str, recognizer: Any, component: str, attr: str) -> None:
    """Raise ConfigError unless a pipeline has the component, and tokens the attribute."""
    if attr not in TAGS:
        raise ConfigError(f"{cost}: attr = {attr!r} is not supported. {suggest(attr, TAGS)}")
    names = _pipeline(recognizer).component_names
    if component not in names:
        hint = suggest(component, names)
        raise ConfigError(f"{cost}: the recognizer's pipeline has no component {component!r}. {hint}")


def _recognized(recognizer: Any, component: str, attr: str, evidence: Evidence, tags: Sequence[str]) -> Doc:
    """Return a text with the entities that a recognizer finds where its tokens have these tags."""
    from spacy.tokens import Doc

    nlp = _pipeline(recognizer)
    spaces = [bool(token.whitespace_) for token in evidence.reference]
    given: Any = {TAGS[attr]: list(tags)}
    doc: Doc = nlp.get_pipe(component)(Doc(nlp.vocab, words=list(evidence.words), spaces=spaces, **given))
    return doc


def _entity_tags(doc: Doc) -> list[tuple[bool, str]]:
    """Return whether an entity begins at each token, and its type."""
    return [(token.ent_iob_ == "B" and bool(token.ent_type), token.ent_type_) for token in doc]


def _known_spans(doc: Doc, annotated: Sequence[int]) -> set[tuple[int, int, str]]:
    """Return start, end and type of the entities of a Doc that have only annotated tokens."""
    tokens = frozenset(annotated)
    spans = ((entity.start, entity.end, entity.label_) for entity in doc.ents)
    return {span for span in spans if tokens.issuperset(range(*span[:2]))}
