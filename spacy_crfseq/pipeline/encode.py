"""From texts to numbers: the training corpus and the texts of terms as ids of features, gold labels and weights.

No document is kept, so that a training set needs memory for its ids only, some twenty bytes per token.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial, reduce
from itertools import chain, pairwise, repeat
from operator import getitem
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import minibatch

from ..errors import ConfigError, DataError, NoExamplesError, suggest
from ..features.encoder import BLOCK_TOKENS, Columns, Encoded, Encoder, Ids, take_sequences
from ..features.index import Growable, Packed
from ..training.compatibility import check_candidates, is_unlabelled, needs_labels, part_name
from ..training.dataset import Dataset
from ..training.objective import Objective
from ..types import MISSING, Ints, Loss, NetworkPotential, Offsets, Optimizer, TextLoss
from .alignment import Unaligned
from .doc_model import DocModel
from .evidence import Partial, weight_of
from .examples import Corpus, LabelledText, bare
from .labels import PartialTable, gold_tags, same_words
from .prediction import DocColumns, check_rows
from .settings import TermSettings
from .white_space import is_space, wordwise

CHUNK_DOCS = 200
"""Documents compiled at a time."""
TRAIN = "the training corpus"
"""In place of the name of a term."""
ANNOTATED = 128
"""Texts that an earlier component annotates at a time."""

Texts = Iterable[Doc] | Iterable[Example] | Callable[[], Iterable[Doc] | Iterable[Example]]
"""The texts of a term, or a function that returns them."""
ReadTexts = Callable[[], Iterator[Example]]
"""A function that reads the texts of a term."""


class EncodedCorpus(NamedTuple):
    """A compiled corpus of `n_docs` documents.

    settings (TermSettings): Of its term of the objective.
    data (Dataset): Ids and gold labels; the labels are numbers of `tags`.
    known (Encoded): As `data.encoded`, with the columns that earlier components will set in training.
    tags (Sequence[str]): The gold tags found, in the order of first appearance, then those that are only possible; or
        those of the model that has these numbers.
    absent (list[str]): Columns set on gold Docs but on no predicted Doc; `known` takes them from the gold Docs.
    unset (list[str]): Columns that features read, but that are on no predicted Doc.
    """

    settings: TermSettings
    data: Dataset
    known: Encoded
    tags: Sequence[str]
    absent: list[str]
    unset: list[str]
    n_docs: int

    def take(self, sequences: Offsets) -> EncodedCorpus:
        """Return some sequences, in the given order."""
        data = self.data.take(sequences)
        same = self.known is self.data.encoded
        return self._replace(data=data, known=data.encoded if same else take_sequences(self.known, sequences)[0])


class Met(NamedTuple):
    """The examples that `update` has met after an initialization without any, by their keys.

    n_built (int): How many of them the model has.
    """

    examples: dict[int, Example]
    n_built: int = 0


class TrainingSet(NamedTuple):
    """Texts to learn from, as numbers: those of an encoder that collects features, or those of a model.

    partials (PartialTable): Partial knowledge about gold tokens.
    strings (dict | None): The strings that features are made of, while they are collected.
    held_out (Mapping): Labels of training Docs, by their keys, from first stages that have not seen them.
    corpora (Mapping): The training corpus, `TRAIN`, and the texts of terms by their names.
    tags (Sequence[str]): Those of the model to be.
    whole (TrainingSet | None): Of a set in the numbers of a model, the set that it was made of, to begin anew with.
    met (Met | None): Only after an initialization without examples.
    """

    encoder: Encoder
    partials: PartialTable
    strings: dict[int, str] | None = None
    held_out: Mapping[int, Ints] = {}
    corpora: Mapping[str, EncodedCorpus] = {}
    tags: Sequence[str] = ()
    whole: TrainingSet | None = None
    met: Met | None = None

    @property
    def corpus(self) -> EncodedCorpus:
        """The training corpus."""
        return self.corpora[TRAIN]

    def having(self, corpora: Mapping[str, EncodedCorpus]) -> TrainingSet:
        """Return the set with further corpora."""
        return self._replace(corpora={**self.corpora, **corpora})

    def without(self, names: Container[str]) -> TrainingSet:
        """Return the set without some corpora."""
        return self._replace(corpora={name: corpus for name, corpus in self.corpora.items() if name not in names})

    def take(self, sequences: Offsets) -> TrainingSet:
        """Return the set with some sequences of the training corpus."""
        return self.having({TRAIN: self.corpus.take(sequences)})

    def copy(self) -> TrainingSet:
        """Return a set for a model, which changes the encoder and its ids."""
        shared = self.partials.candidates
        encoder, corpora = deepcopy((self.encoder, self.corpora), {id(shared): shared})
        return self._replace(encoder=encoder, corpora=corpora)

    def encode(self, model: DocModel, examples: Iterable[Example], term: TermSettings | None = None) -> EncodedCorpus:
        """Return further examples as numbers, those of a term if its settings are given.

        An encoder that is not frozen collects their features, those of gold columns included.
        RAISES NoExamplesError: If there are no examples.
        RAISES DataError: On annotation that cannot be read; both name the component.
        """
        encoder = self.encoder
        settings = term or TermSettings(model.method.loss)
        loss, labelled = settings.loss, term is None or not is_unlabelled(term.loss)
        by_docs = model.first or model.features.set_names or model.method.potentials or isinstance(loss, TextLoss)
        lexical = labelled and not by_docs and model.place.vocab is model.vocab
        encoder.pinned = True  # the parts of a text share their bags
        corpus = _Corpus(model, self, settings, labelled)
        portions = examples.portions if lexical and isinstance(examples, Corpus) else None
        try:
            if portions is None:
                parts = minibatch(examples, CHUNK_DOCS)
            else:
                parts = portions(CHUNK_DOCS, encoder.columns, model.annotation)
            for part in parts:
                corpus.add(part)
            encoded = corpus.encoded()
        except DataError as error:
            kind = NoExamplesError if isinstance(error, NoExamplesError) else DataError
            raise kind(f"Component {model.name!r}: {error}") from None
        if portions is not None and isinstance(examples, Corpus):  # else it has counted the examples that it has read
            examples.count(encoded.n_docs, corpus.n_tokens)
        return encoded

    def encode_term(self, model: DocModel, plan: Plan, name: str) -> EncodedCorpus:
        """Return the texts of a term as numbers.  RAISES DataError: If they hold nothing that its loss learns from."""
        settings, examples = settings_of(model)[name], plan.texts[name]()
        for pipe in plan.annotators:
            examples = annotated(pipe, examples)
        examples = examples if plan.watch is None else plan.watch(name, examples)
        where = f"Component {model.name!r}: the"
        try:
            encoded = self.encode(model, examples, settings)
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

    def read(self, model: DocModel, docs: list[Doc], columns: Sequence[str], networks: bool = False) -> DocColumns:
        """Return the columns of training Docs, with labels that are held out.

        networks (bool): Read the scores of networks, too, which training steps compute.
        """
        reader = model.reader(self.strings)._replace(held_out=self.held_out)
        if not networks and model.networks:
            each = reader.potentials.items()
            potentials = {
                name: None if isinstance(potential, NetworkPotential) else potential for name, potential in each
            }
            reader = reader._replace(potentials=potentials)
        model.place.use(docs)
        return reader.read(docs, columns)

    def compile(self, model: DocModel, examples: Sequence[Example], networks: bool = False) -> list[Dataset]:
        """Return each example as a data set, given a set in the numbers of the model; `networks` as in `read`."""
        loss, docs = model.method.loss, [example.predicted for example in examples]
        self.encoder.pinned = True
        columns = self.read(model, docs, self.encoder.columns, networks)
        encoded = self.encoder.encode(columns.text)
        spaces = has_space(columns, examples)
        of_examples = (gold_tags(model.annotation, example, model.name, spaces=spaces) for example in examples)
        tags = [*columns.only_words(chain.from_iterable(of_examples))]
        gold, weights = model.labels.numbers(tags, self.partials), sequence_weights(examples, columns)
        inputs = read_inputs(loss, columns.words(docs), model.name) if isinstance(loss, TextLoss) else None
        whole = Dataset(encoded, gold, weights, self.partials.candidates, inputs=inputs)
        if whole.has_candidates:
            self._resolve(model, loss)
        bounds = np.searchsorted(encoded.offsets, columns.doc_offsets)
        return [whole.slice(int(first), int(last)) for first, last in pairwise(bounds)]

    def numbered(self, model: DocModel) -> TrainingSet:
        """Return the set with labels as numbers of the model's tags; the training corpus and the terms in order.

        RAISES DataError: If the model does not have a tag.
        RAISES ConfigError: If the loss of a corpus cannot learn from its labels.
        """
        corpora, tags = {}, model.labels.tags
        for name, term in settings_of(model).items():
            corpus = self.corpora.get(name)
            if corpus is not None and corpus.tags is not tags:
                numbers = np.append(model.labels.numbers(list(corpus.tags), self.partials), np.int32(MISSING))
                gold = corpus.data.gold.astype(np.promote_types(corpus.data.gold.dtype, type_for(numbers)))
                for first in range(0, len(gold), BLOCK_TOKENS):
                    part = gold[first : first + BLOCK_TOKENS]
                    part[:] = np.where(part < MISSING, part, numbers[np.maximum(part, MISSING)])
                corpus = corpus._replace(settings=term, data=corpus.data._replace(gold=gold), tags=tags)
                if corpus.data.has_candidates:
                    self._resolve(model, term.loss)
            if corpus is not None:
                corpora[name] = corpus
        return self._replace(corpora=corpora)

    def _resolve(self, model: DocModel, loss: Loss) -> None:
        """Bring candidate sets up to date.  RAISES ConfigError: If the loss cannot learn from them."""
        check_candidates(model.name, loss, model.method.optimizer)
        self.partials.resolve(model.labels.tags)


class _Texts:
    """Encoded texts of one encoder, packed and joined as they come, so that no array is in memory twice."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._packed: list[Packed] = []
        self._blocks: tuple[Ids, ...] = ()
        self._words = Growable(np.int32)
        self._inputs: list[tuple[NDArray[Any], ...]] = []
        self._offsets = Growable(np.int64)
        self._offsets.resize(1)

    def append(self, part: Encoded) -> None:
        """Append a text."""
        self._blocks = unigrams, bigrams = part[:2]
        self._packed = self._packed or [Packed(unigrams.columns.shape[1]), Packed(bigrams.columns.shape[1])]
        for packed, ids in zip(self._packed, self._blocks, strict=True):
            packed.append(ids.columns[:])
        if part.words is not None:
            self._words.append(part.words)
        self._inputs.append(part.inputs)
        self._offsets.append(self._offsets.array[-1] + part.offsets[1:])

    def copy(self) -> _Texts:
        return deepcopy(self, {id(self._encoder): self._encoder})

    def joined(self) -> Encoded:
        self._words.trim()
        self._offsets.trim()
        offsets, blocks = self._offsets.array, list[Ids]()
        for ids, packed in zip(self._blocks, self._packed, strict=True):
            packed.bytes.trim()
            blocks.append(ids._replace(columns=packed, offsets=offsets))
        inputs = tuple(map(np.concatenate, zip(*self._inputs, strict=True)))
        words = None if self._encoder.words is None else self._words.array
        return Encoded(blocks[0], blocks[1], offsets, words, inputs)


class _Corpus:
    """A corpus that grows by chunks of examples.

    n_tokens: So far, with white space.
    """

    def __init__(self, model: DocModel, data: TrainingSet, settings: TermSettings, labelled: bool) -> None:
        self._model, self._set, self._encoder = model, data, data.encoder
        self._settings, self._labelled = settings, labelled
        self._numbers: dict[str | None, int] = {None: MISSING}
        self._unaligned = Unaligned()
        self._known, self._gold, self._weights = _Texts(data.encoder), list[Ints](), [np.ones(0)]
        self._seen: _Texts | None = None  # None as long as no column is missing: it equals `known` then
        self._absent: dict[str, None] = {}
        self._present: set[str] = set()
        self._inputs: list[NDArray[Any]] = []
        self._n_docs = self.n_tokens = 0

    def add(self, chunk: list[Example] | LabelledText) -> None:
        """Compile some examples, or some sentences of a file."""
        encoder, model = self._encoder, self._model
        if isinstance(chunk, LabelledText):
            self._present.update(encoder.columns)
            self._append(chunk.text, chunk.text, self._numbered(chunk.tags), chunk.weights)
            self._n_docs += len(chunk.text.offsets) - 1
            self.n_tokens += len(chunk.tags)
            return
        validate_examples(chunk, "CRFComponent.initialize")
        docs = [example.predicted for example in chunk]
        columns = self._set.read(model, docs, encoder.columns)
        text, missing = (columns.text, []) if encoder.frozen else self._with_gold(columns, chunk)
        self._absent.update(dict.fromkeys(missing))
        self._present.update([name for i, name in enumerate(encoder.columns) if columns.text.context[:, i].any()])
        if missing and self._seen is None:
            self._seen = self._known.copy()
        labels = np.full(len(columns.text.orths), MISSING, np.int32)
        if self._labelled:
            # one Doc after another: lists that stay would let the garbage collector visit all Docs
            spaces, unaligned = repeat(has_space(columns, chunk)), repeat(self._unaligned)
            tags = map(gold_tags, repeat(model.annotation), chunk, repeat(model.name), unaligned, spaces)
            labels = self._numbered(columns.only_words(chain.from_iterable(tags)))
        self._append(text, columns.text if missing else text, labels, sequence_weights(chunk, columns))
        if isinstance(loss := self._settings.loss, TextLoss):
            self._inputs.append(read_inputs(loss, columns.words(docs), model.name))
        self._n_docs += len(chunk)
        self.n_tokens += sum(map(len, docs))

    def _append(self, text: Columns, seen: Columns, labels: Ints, weights: NDArray[np.float64]) -> None:
        encoded = self._encoder.encode(text)
        self._known.append(encoded)
        if self._seen is not None:
            # encoding the text as it is adds no feature: all its features occur with the column, too
            self._seen.append(encoded if seen is text else self._encoder.encode(seen))
        self._gold.append(labels.astype(type_for(labels)))
        self._weights.append(weights)

    def _with_gold(self, columns: DocColumns, chunk: list[Example]) -> tuple[Columns, list[str]]:
        """Return the text with columns of the gold Docs where no predicted one has them, and their names.

        So their features are known when ``annotating_components`` set them.  They are no input of the training, and
        what the task writes never is.
        """
        names, text = self._encoder.columns, columns.text
        answers, functions = self._model.annotation.writes, self._model.read_by_functions
        absent = [i for i, name in enumerate(names) if name not in answers and not text.context[:, i].any()]
        missing = [names[i] for i in absent]
        if absent or functions:
            chunk = [*map(wordwise, chunk)]
        if absent:
            text = text._replace(context=text.context.copy())
            for example, (begin, end) in zip(chunk, pairwise(columns.doc_offsets.tolist()), strict=True):
                if same_words(example):
                    values = example.reference.to_array([*missing])
                    text.context[begin:end, absent] = values.reshape(end - begin, len(absent))
        if not functions:
            return text, missing
        read = sorted(functions - answers - {"NORM", "SPACY"})
        unset = [name for name in read if not any(example.predicted.has_annotation(name) for example in chunk)]
        if unset and all(map(same_words, chunk)):
            gold_sets = self._set.read(self._model, [example.reference for example in chunk], names).text.sets
            text, missing = text._replace(sets=gold_sets), [*missing, *unset]
        self._present.update(functions - {*unset, *names})
        return text, missing

    def _numbered(self, tags: Iterable[str | Partial | None]) -> Ints:
        table, numbers = self._set.partials, self._numbers
        each = [
            table.number(tag) if isinstance(tag, Partial) else numbers.setdefault(tag, len(numbers) - 1) for tag in tags
        ]
        return np.array(each, np.int32)

    def encoded(self) -> EncodedCorpus:
        """Return all examples.  RAISES NoExamplesError: If there are none."""
        if not self._n_docs:
            raise NoExamplesError("There are no training examples. Check [corpora.train] and [paths].")
        table, joined = self._set.partials, self._known.joined()
        encoded = joined if self._seen is None else self._seen.joined()
        read_by_loss = np.concatenate(self._inputs) if self._inputs else None
        gold, weights = np.concatenate(self._gold), np.concatenate(self._weights)
        data = Dataset(encoded, gold, weights, table.candidates, inputs=read_by_loss)
        never = [name for name in self._absent if name not in self._present]
        tags: list[Any] = list(self._numbers)[1:]  # without None
        unset = [name for name in self._encoder.columns if name not in {*self._present, "NORM", "SPACY"}]
        tags += table.new_tags(tags)
        if lost := self._unaligned.message(self._model.annotation.public_labels(tags)):
            warnings.warn(f"Component {self._model.name!r}: {lost}", stacklevel=2)
        return EncodedCorpus(self._settings, data, joined, tags, never, unset, self._n_docs)


def type_for(labels: Ints) -> np.dtype[Any]:
    """Return the smallest type of signed numbers that holds the labels."""
    return np.min_scalar_type(min(labels.min(initial=0), -1 - labels.max(initial=0)))


def has_space(columns: DocColumns, examples: Sequence[Example]) -> bool:
    """Whether predicted or gold Docs have white space, given the columns of the predicted ones."""
    return columns.gaps is not None or bool(is_space([example.reference for example in examples]).any())


def read_inputs(loss: TextLoss, docs: Sequence[Doc], component: str) -> NDArray[Any]:
    """Return what a loss reads from Docs [T, ...].  RAISES ConfigError: If it does not have a row for each token."""
    inputs = loss.read([*docs])
    check_rows(inputs, sum(map(len, docs)), f"{component}: the loss {part_name(loss)}")
    return inputs


def sequence_weights(examples: Sequence[Example], columns: DocColumns) -> NDArray[np.float64]:
    """Return the weight of each sequence of the predicted Docs, which is that of its gold Doc."""
    weights = np.array([weight_of(example.reference) for example in examples], np.float64)
    return np.repeat(weights, np.diff(np.searchsorted(columns.text.offsets, columns.doc_offsets)))


# Terms


class Plan(NamedTuple):
    """How a component is trained, beside its method.

    report (Callable): Called with lines of progress.
    seed (int | None): ``training.seed`` of the config that the component was initialized with, None if unknown.
    streamed (bool): Whether spaCy's training reads more than what `initialize` has read.
    source (DocModel | None): A trained model, whose labels, features and weights `initialize` takes over.
    texts (Mapping): Functions that read the texts of terms.
    annotators (Sequence[Any]): Earlier components, whose predictions the texts of terms get before they are read.
    postponed (bool): Leave the first stage without training.
    keeps (bool): Keep the encoded texts, to begin anew with.
    watch (Callable | None): Passes on the texts of a term by its name, to show progress.
    remote (Remote | None): Other machines that have the texts.
    """

    report: Callable[[str], None] = util.logger.info
    seed: int | None = None
    streamed: bool = False
    source: DocModel | None = None
    texts: Mapping[str, ReadTexts] = {}
    annotators: Sequence[Any] = ()
    postponed: bool = False
    keeps: bool = False
    watch: Callable[[str, Iterator[Example]], Iterator[Example]] | None = None
    remote: Remote | None = None


class Remote(Protocol):
    """Texts that lie on other machines, see `clusters`."""

    def encode(
        self, model: DocModel, plan: Plan, nlp: Language | None, examples: Iterable[Example]
    ) -> dict[str, list[str]]:
        """Encode the corpora of a config there; return the gold tags of each.

        RAISES ConfigError: If the component cannot be trained there.
        """

    def start(self, model: DocModel) -> None:
        """Begin with a model of zero weights for the tags that were set."""

    def objective(self, model: DocModel, plan: Plan) -> Objective:
        """Return the objective over all texts."""

    def optimizer(self, optimizer: Optimizer, component: str) -> Optimizer:
        """Return an optimizer for this objective."""

    def facts(self) -> dict[str, str]:
        """Return what must be the same where a run continues."""

    def finish(self, model: DocModel) -> None:
        """Give the names of features to a trained model, and release the texts."""


def settings_of(model: DocModel) -> dict[str, TermSettings]:
    """Return the settings of the training corpus and of each term."""
    return {TRAIN: TermSettings(model.method.loss), **model.method.each_term(model.name)}


def find_texts(model: DocModel, given: Mapping[str, Texts], nlp: Language | None) -> dict[str, ReadTexts]:
    """Return a function for each term that reads its texts: those given, else those of its corpus in the config.

    Terms without either are left out.
    RAISES ConfigError: If there is no such term or corpus.
    """
    component, settings, readers = model.name, model.method.each_term(model.name), dict[str, ReadTexts]()
    for name in given:
        if name not in settings:
            raise ConfigError(
                f"Component {component!r} has no term {name!r}. {suggest(name, settings)} Terms are blocks such as "
                f"[components.{component}.terms.{name}] with a loss."
            )
    for name, term in settings.items():
        texts = given.get(name)
        if texts is None and term.corpus is not None and nlp is not None:
            reader = reader_of(f"[components.{component}.terms.{name}]", term.corpus, nlp)
            texts = partial(getattr(reader, "stream", reader), nlp)
        if texts is not None:
            readers[name] = partial(_examples, component, name, texts, is_unlabelled(term.loss))
    return readers


def reader_of(where: str, corpus: str, nlp: Language) -> Callable[[Language], Iterator[Example]]:
    """Return the reader of a corpus of a pipeline's config.

    where (str): The block that names it.
    RAISES ConfigError: If there is none.
    """
    config = nlp.config.interpolate()
    try:
        block = reduce(getitem, corpus.split("."), config)
    except (KeyError, TypeError):
        known = [f"corpora.{name}" for name in config.get("corpora", {})]
        raise ConfigError(
            f"{where}: corpus = {corpus!r} is not in the config. {suggest(corpus, known)} Add a block [{corpus}] with "
            '@readers = "spacy_crfseq.TextReader.v1" and a path.'
        ) from None
    reader: Callable[[Language], Iterator[Example]] = util.registry.resolve({"corpus": block})["corpus"]
    if not callable(reader):
        raise ConfigError(f"{where}: corpus = {corpus!r} is no reader of a corpus; it has no @readers.")
    return reader


def _examples(component: str, name: str, texts: Texts, unlabelled: bool) -> Iterator[Example]:
    """Yield the texts of a term as examples; of a Doc, the annotation is gold unless the loss is `unlabelled`."""
    for text in texts() if callable(texts) else texts:
        if isinstance(text, Example):
            yield text
        elif isinstance(text, Doc):
            yield Example(text if unlabelled else bare(text), text)
        else:
            raise DataError(
                f"Component {component!r}: the texts of the term {name!r} must be Docs or Examples, but one is a "
                f"{type(text).__name__}. Call nlp.make_doc on each text."
            )


def annotated(pipe: Any, examples: Iterable[Example]) -> Iterator[Example]:
    """Yield examples with the predictions of a component on copies of their predicted Docs."""
    for batch in util.minibatch(examples, ANNOTATED):
        docs: Any = [example.predicted.copy() for example in batch]
        for example, doc in zip(batch, pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs), strict=True):
            yield Example(doc, example.reference)
