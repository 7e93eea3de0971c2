"""The texts of a training as frozen values: `CollectedTexts`, while features are collected, and a `TrainingSet`.

A model is made of collected texts, or of some of their sequences; then these are a training set in its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

from spacy.training import Example

from ..errors import DataError, NoExamplesError
from ..features.encoder import Encoder
from ..features.index import HashIndex
from ..training.compatibility import needs_labels, part_name
from ..training.dataset import Dataset
from ..types import Ints, Offsets
from .corpus_encoder import EncodedCorpus, encode_corpus
from .doc_model import DocModel
from .encode import ExampleEncoder
from .labels import PartialTable
from .plan import TrainingPlan
from .start_from import begin_with
from .terms import annotated


class CollectedTexts(NamedTuple):
    """Texts whose features are collected.

    corpus (EncodedCorpus): The training corpus.
    terms (Mapping): The texts of terms, by their names.
    tags (Sequence[str]): Those of the model to be.
    """

    texts: ExampleEncoder
    corpus: EncodedCorpus
    terms: Mapping[str, EncodedCorpus] = {}
    tags: Sequence[str] = ()

    @property
    def encoder(self) -> Encoder:
        """The encoder that collects the features."""
        return self.texts.encoder

    @property
    def corpora(self) -> list[EncodedCorpus]:
        """The training corpus, and those of the terms."""
        return [self.corpus, *self.terms.values()]

    def take(self, sequences: Offsets) -> CollectedTexts:
        """Return the texts with some sequences of the training corpus."""
        return self._replace(corpus=self.corpus.take(sequences))

    def copy(self) -> CollectedTexts:
        """Return texts for a model, which changes the encoder and its ids."""
        partials = self.texts.partials
        encoder, corpus, terms = deepcopy((self.encoder, self.corpus, self.terms), {id(partials): partials})
        return self._replace(texts=self.texts._replace(encoder=encoder), corpus=corpus, terms=terms)

    def numbered(self, model: DocModel) -> CollectedTexts:
        """Return the texts with the numbers of the model's tags, and the terms of its method in their order.

        RAISES DataError: If the model does not have a tag.
        RAISES ConfigError: If the loss of a corpus cannot learn from its labels.
        """
        partials, terms = self.texts.partials, model.method.each_term(model.name)
        return self._replace(
            corpus=self.corpus.numbered(model, model.method.loss, partials),
            terms={
                name: self.terms[name].numbered(model, term.loss, partials)
                for name, term in terms.items()
                if name in self.terms
            },
        )


class TrainingSet(NamedTuple):
    """Texts to learn from in the numbers of a model.

    texts (ExampleEncoder): Encodes further examples.
    corpus (Dataset | None): The training corpus; None if it comes in batches, and after a training.
    n_docs (int): The number of its documents.
    terms (Mapping): The texts of terms, by their names.
    unset (Mapping): Columns that features read, but that the texts of a term lack, by its name.
    whole (CollectedTexts | None): The texts that it was made of, to begin anew with.
    """

    texts: ExampleEncoder
    corpus: Dataset | None = None
    n_docs: int = 0
    terms: Mapping[str, Dataset] = {}
    unset: Mapping[str, Sequence[str]] = {}
    whole: CollectedTexts | None = None

    def with_corpus(self, corpus: EncodedCorpus) -> TrainingSet:
        """Return the set with another training corpus."""
        return self._replace(corpus=corpus.data, n_docs=corpus.n_docs)

    def with_terms(self, new: Mapping[str, EncodedCorpus]) -> TrainingSet:
        """Return the set with the texts of further terms."""
        terms = {**self.terms, **{name: corpus.data for name, corpus in new.items()}}
        return self._replace(terms=terms, unset={**self.unset, **{name: corpus.unset for name, corpus in new.items()}})


def collect(
    model: DocModel,
    plan: TrainingPlan,
    examples: Iterable[Example],
    first: DocModel | None = None,
    held_out: Mapping[int, Ints] | None = None,
) -> CollectedTexts:
    """Return examples and the texts of terms as numbers, and the encoder with their features.

    first, held_out: See `ExampleEncoder`.
    """
    encoder, strings = model.new_encoder()
    if plan.source is not None:
        begin_with(encoder, plan.source, strings)
    if model.method.tag_dictionary_size:
        encoder.words = HashIndex()
    texts = ExampleEncoder(encoder, PartialTable(model.annotation), strings, first, held_out or {})
    corpus = encode_corpus(model, texts, examples)  # so that its features come first
    return CollectedTexts(texts, corpus, {name: encode_term(model, plan, texts, name) for name in plan.texts})


def encode_term(model: DocModel, plan: TrainingPlan, texts: ExampleEncoder, name: str) -> EncodedCorpus:
    """Return the texts of a term as numbers.  RAISES DataError: If they hold nothing that its loss learns from."""
    settings, examples = model.method.each_term(model.name)[name], plan.texts[name]()
    for pipe in plan.annotators:
        examples = annotated(pipe, examples)
    examples = examples if plan.watch is None else plan.watch(name, examples)
    where = f"Component {model.name!r}: the"
    try:
        encoded = encode_corpus(model, texts, examples, settings)
    except NoExamplesError:
        encoded = None
    if encoded is None or not encoded.data.encoded.n_tokens:
        source = f"[{settings.corpus}] and its path" if settings.corpus else "the texts given for it"
        raise DataError(f"{where} term {name!r} has no text. Check {source}.")
    if needs_labels(settings.loss) and not encoded.tags:
        raise DataError(
            f"{where} loss {part_name(settings.loss)} of the term {name!r} needs gold labels, but its texts have "
            "none for this component. Use a loss for texts without labels, for example spacy_crfseq.Entropy.v1, or "
            "a reader of an annotated corpus."
        )
    return encoded
