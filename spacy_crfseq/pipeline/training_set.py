"""The texts of a training as a frozen value, for which a model is made.

A model is made of all texts, or of some sequences of the training corpus; see `training` for the whole chain.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from spacy.training import Example

from ..errors import DataError, NoExamplesError
from ..features.encoded import Renumbering
from ..features.encoder import FrozenEncoder, GrowingEncoder
from ..training.compatibility import needs_labels, part_name
from ..types import Ints, Offsets
from .corpus_encoder import EncodedCorpus, encode_corpus
from .doc_model import DocModel
from .encode import ExampleEncoder
from .labels import PartialTable
from .plan import TrainingPlan
from .start_from import known_features
from .terms import annotated, no_text


class TrainingSet(NamedTuple):
    """The texts of a training as numbers: first of the features that are collected, then of a model.

    With all that is collected, another model can be made of them, or of a part.

    example_encoder (ExampleEncoder): Encodes further examples in the same numbers.
    corpus (EncodedCorpus): The training corpus.
    terms (Mapping): The texts of terms, by their names.
    tags (Sequence[str]): Those of the model to be.
    seen (Mapping): The words that attributes keep, see `DocModel.seen`.
    """

    example_encoder: ExampleEncoder
    corpus: EncodedCorpus
    terms: Mapping[str, EncodedCorpus] = {}
    tags: Sequence[str] = ()
    seen: Mapping[str, AbstractSet[int]] = {}

    @property
    def collector(self) -> GrowingEncoder:
        """The encoder that collects the features."""
        assert isinstance(self.example_encoder.encoder, GrowingEncoder)
        return self.example_encoder.encoder

    @property
    def corpora(self) -> list[EncodedCorpus]:
        """The training corpus, and those of the terms."""
        return [self.corpus, *self.terms.values()]

    def take(self, sequences: Offsets) -> TrainingSet:
        """Return the texts with some sequences of the training corpus."""
        return self._replace(corpus=self.corpus.take(sequences))

    def with_terms(self, new: Mapping[str, EncodedCorpus]) -> TrainingSet:
        """Return the texts with those of further terms."""
        return self._replace(terms={**self.terms, **new})

    def numbered(self, model: DocModel) -> TrainingSet:
        """Return the texts with the numbers of the model's tags; errors as of `number_tags`."""
        corpus, terms = number_tags(model, self.corpus, self.terms, self.example_encoder.partials)
        return self._replace(corpus=corpus, terms=terms)

    def renumbered(self, encoder: FrozenEncoder, by: Renumbering) -> TrainingSet:
        """Return the texts with the ids that features have in a model, and its encoder."""
        own = self.example_encoder._replace(encoder=encoder, strings=None, first=None)
        terms = {name: corpus.renumbered(by) for name, corpus in self.terms.items()}
        return self._replace(example_encoder=own, corpus=self.corpus.renumbered(by), terms=terms)

    def as_predicted(self) -> TrainingSet:
        """Return the texts without columns of gold Docs."""
        terms = {name: corpus.as_predicted() for name, corpus in self.terms.items()}
        return self._replace(corpus=self.corpus.as_predicted(), terms=terms)


def number_tags(
    model: DocModel, corpus: EncodedCorpus, terms: Mapping[str, EncodedCorpus], partials: PartialTable
) -> tuple[EncodedCorpus, dict[str, EncodedCorpus]]:
    """Return the training corpus with the numbers of the model's tags, and the terms of its method in their order.

    RAISES DataError: If the model does not have a tag.
    RAISES ConfigError: If the loss of a corpus cannot learn from its labels.
    """
    settings = model.method.each_term(model.name)
    return corpus.numbered(model, model.method.loss, partials), {
        name: terms[name].numbered(model, term.loss, partials) for name, term in settings.items() if name in terms
    }


def collect(
    model: DocModel,
    plan: TrainingPlan,
    examples: Iterable[Example],
    first: DocModel | None = None,
    held_out: Mapping[int, Ints] = {},
) -> TrainingSet:
    """Return examples and the texts of terms as numbers, and the encoder with their features.

    first, held_out: See `ExampleEncoder`.
    """
    first_features, strings = None, dict[int, str]()
    if plan.source is not None:
        first_features, strings = known_features(plan.source, model.features.plans())
    encoder = model.growing_encoder(strings, first_features)
    example_encoder = ExampleEncoder(encoder, PartialTable(model.annotation), strings, first, held_out)
    corpus = encode_corpus(model, example_encoder, examples)  # so that its features come first
    terms = {name: encode_term(model, plan, example_encoder, name) for name in plan.term_readers}
    for name, texts in terms.items():
        if texts.data.has_candidates:  # labels of a teacher, or others in doubt
            check_labels(model, name, texts.tags, corpus.tags)
    seen = {name: frozenset(words) for name, words in model.seen.items()}
    return TrainingSet(example_encoder, corpus, terms, seen=seen)


def check_weights(component: str, texts: TrainingSet) -> None:
    """RAISES DataError: If all texts of a corpus have the weight 0."""
    terms = {f"term {name!r}": corpus for name, corpus in texts.terms.items()}
    for name, corpus in {"training corpus": texts.corpus, **terms}.items():
        if len(corpus.data.weights) and not corpus.data.weights.any():
            raise DataError(
                f"Component {component!r}: all texts of the {name} have the weight 0, so nothing can be learned from "
                "them. Give doc._.crf_weight, the key or column weight, or the setting weight of the reader above 0."
            )


def check_labels(model: DocModel, name: str, tags: Sequence[str], of_corpus: Sequence[str]) -> None:
    """Warn of labels in doubt in the texts of a term that the training corpus lacks: it contradicts them there.

    RAISES DataError: If it has none of them.
    """
    own, of_texts = (set(model.annotation.public_labels(some)) for some in (tags, of_corpus))
    if not of_texts or own <= of_texts or not needs_labels(model.method.each_term(model.name)[name].loss):
        return
    more, there = (", ".join(map(repr, sorted(labels))) for labels in (own - of_texts, of_texts))
    what = f"Component {model.name!r}: the texts of the term {name!r} have the labels {more}, the training corpus only"
    how = 'If a teacher calls them otherwise, give its reader their names: labels = {"NAME": "OTHER NAME"}.'
    if own.isdisjoint(of_texts):
        raise DataError(f"{what} {there}. {how}")
    warnings.warn(f"{what} {there}. {how}", stacklevel=2)


def encode_term(model: DocModel, plan: TrainingPlan, example_encoder: ExampleEncoder, name: str) -> EncodedCorpus:
    """Return the texts of a term as numbers.  RAISES DataError: If they hold nothing that its loss learns from."""
    settings, examples = model.method.each_term(model.name)[name], plan.term_readers[name]()
    for pipe in plan.annotators:
        examples = annotated(pipe, examples)
    examples = examples if plan.watch is None else plan.watch(name, examples)
    try:
        encoded = encode_corpus(model, example_encoder, examples, settings)
    except NoExamplesError:
        encoded = None
    if encoded is None or not encoded.data.encoded.n_tokens:
        raise no_text(model.name, name, settings.corpus)
    if needs_labels(settings.loss) and not encoded.tags:
        raise DataError(
            f"Component {model.name!r}: the loss {part_name(settings.loss)} of the term {name!r} needs gold labels, "
            "but its texts have none for this component. Use a loss for texts without labels, for example "
            "spacy_crfseq.Entropy.v1, or a reader of an annotated corpus."
        )
    return encoded
