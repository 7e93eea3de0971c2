"""The spaCy component: one class for tagging, chunking and entity recognition.

It turns Docs into encoded texts, asks the model for labels, and lets an annotation adapter write them; `session` holds
what training needs between two calls of `update`.  (No deferred annotations here: spaCy checks the settings of
`initialize` against its annotations.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span, Token
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab

from .. import threads
from ..errors import ConfigError, DataError
from ..features.attributes import TOKEN_COLUMNS
from ..features.encoder import Encoded, Encoder, attribute_names
from ..features.index import HashIndex
from ..features.noted import hash_of
from ..features.plan import column_names, lexical_names
from ..features.sets import columns_read
from ..files import replacing
from ..inference.posterior import make_posterior
from ..model import LinearChainCRF
from ..potentials.linear import Linear
from ..potentials.tag_dictionary import without_dictionary
from ..training.compatibility import check_candidates, check_global
from ..training.dataset import Dataset
from ..training.fit import FitResult, Progress, fit
from ..training.objective import Objective
from ..training.terms import Term
from ..types import MISSING, Bools, Constraints, Floats, Ints, StepReport
from . import given, storage
from .annotations import Annotation, Prediction, Tags
from .answers import Alternative, Answers
from .attributes import register_extension
from .collect import Collected, collect, gold_tags
from .confidence import register
from .development import make_evaluator
from .explanation import Explainer, Explanation
from .extract import DocColumns, lexeme_reader, read_docs
from .given import Given
from .method import Method
from .naming import AttributeReader, text_of
from .partial import Partial, PartialTable, contents, known_tags
from .session import Session
from .thinc_model import make_model, show_parameters
from .untrained import make_untrained

PORTION_TOKENS = 1 << 15
"""Tokens that `pipe` works on at a time: few changes between the tables of the tokenizer and those of the model, and
Docs that are still in the cache when they are read."""

ZONE_BYTES = 8_000_000
"""What each cache of a component may take inside of ``nlp.memory_zone()``, where users count on little memory."""


class ModelSize(NamedTuple):
    """How large a model is.

    weights (int): D, zeros included.
    attributes (int): Of both blocks.
    n_bytes (int): Of its file.
    """

    weights: int
    attributes: int
    n_bytes: int


class Pruned(NamedTuple):
    """What `CRFComponent.prune` did."""

    before: ModelSize
    after: ModelSize


class CRFComponent(TrainablePipe):
    """A linear-chain CRF in a spaCy pipeline, made by ``nlp.add_pipe("crf_ner")`` and its siblings.

    vocab (Vocab): The pipeline's vocab.
    name (str): The component's name.
    annotation (Annotation): Reads gold labels, writes predictions.
    method (Method): Features, loss, regularizer, optimizer, decoder and so on.
    threshold (float): Spans less probable than this are left out.
    scores (bool): Store the probability of every predicted span or tag.
    scorer (Callable): Called by ``nlp.evaluate``.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str,
        annotation: Annotation,
        method: Method,
        *,
        threshold: float = 0.0,
        scores: bool = False,
        scorer: Callable[..., Any] | None = None,
    ) -> None:
        method.check(name)
        if not 0 <= threshold <= 1:
            raise ConfigError(f"[components.{name}]: threshold is a probability, 0 to 1, but {threshold} was given.")
        if threshold:
            check_global(name, method.loss, f"threshold = {threshold}")
        if scores:
            check_global(name, method.loss, "scores = true")
        self._lock = RLock()
        self.vocab, self.name, self.scorer = vocab, name, scorer
        self.annotation, self.method = annotation, method
        self.cfg: dict[str, Any] = {
            **annotation.settings(), "threshold": threshold, "scores": scores, "temperature": 1.0,
        }  # fmt: skip
        self.model = make_model(self._emissions)
        self.attribute_names: list[str] = []
        self._tags: list[str] = []
        self._added: list[str] = []
        self._word_vocab = vocab
        self._crf: LinearChainCRF | None = None
        self._encoder: Encoder | None = None
        self._constraints: Constraints | None = None
        self._session = Session(method.optimizer)
        self._partial = PartialTable(annotation)
        self._strings: dict[int, str] | None = None
        register(self)
        register_extension()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        state = self.to_bytes(exclude=["vocab"])
        return _unpickle, (self.vocab, self.name, self.annotation, self.method, self.cfg, self.scorer, state)

    # Labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels a user sees: tags of a tagger, span types of a chunker or entity recognizer."""
        return self.annotation.public_labels(self._tags)

    @property
    def label_data(self) -> list[str]:
        """What ``spacy init labels`` writes and `initialize` takes: all tags."""
        return list(self._tags)

    @property
    def tags(self) -> tuple[str, ...]:
        """The L labels of the model, in the order of its numbers."""
        return tuple(self._tags)

    @property
    def reads(self) -> frozenset[str]:
        """Token columns that features look at and earlier components or a corpus reader must set, such as "TAG"."""
        return frozenset(column_names(*self.method.features.plans())) | self._read_by_functions

    @property
    def _read_by_functions(self) -> frozenset[str]:
        functions = self.method.features.token_functions.values()
        return frozenset(column for function in functions for column in columns_read(function))

    def add_label(self, label: str) -> int:
        """Add a label; a trained model is widened, its weights for the new label zero.

        RETURNS (int): 1, or 0 where the label is there already, with all its tags.
        RAISES ConfigError: If the label is not a non-empty string.
        """
        if not isinstance(label, str) or not label:
            raise ConfigError(f"{self.name}: a label must be a non-empty string, but {label!r} was given.")
        new = [tag for tag in self.annotation.all_tags([label]) if tag not in self._tags]
        if not new:
            return 0
        self._sync()
        self._set_tags([*self._tags, *new])
        self._partial.resolve(self._tags)
        self._added.append(label)
        if self._crf is not None:
            self._use(self._crf.with_labels(self._tags, self.method.transitions))
            self._session.restart()
        return 1

    def _set_tags(self, tags: Sequence[str]) -> None:
        self.annotation.prepare(self.vocab, tags)
        self._constraints = self.annotation.constraints(tags)
        self._tags = list(tags)

    # Prediction

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of Docs, at most `batch_size` at a time and no more than stay in the processor's cache."""
        handle_error = self.get_error_handler()
        for docs in _portions(stream, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
                yield from docs
            except Exception as error:
                handle_error(self.name, self, docs, error)

    def predict(self, docs: Iterable[Doc]) -> Prediction:
        """Return the labels of all tokens of `docs`; threads share the decoding of many.

        RAISES ConfigError: If the component has neither been trained nor loaded.
        """
        answers, columns = self._ask(list(docs), preset=True)
        threshold, stored = self.cfg["threshold"], self.cfg["scores"]
        if self.annotation.scheme is None:
            threshold = 0.0
        scores = keep = None
        if threshold or stored:  # they may have come with the weights
            check_global(self.name, self.method.loss, f"threshold = {threshold}" if threshold else "scores = true")
            scores = answers.all_probabilities
            keep = scores >= threshold if threshold else None
        return Prediction(
            answers.all_labels,
            answers.offsets,
            columns.doc_offsets,
            columns.state,
            keep,
            scores if stored else None,
            self.name,
        )

    def set_annotations(self, docs: Iterable[Doc], scores: Prediction) -> None:
        """Write predictions to `docs`."""
        docs = list(docs)
        preset = self.annotation.preset(docs, scores.state, scores.doc_offsets, self._tags)
        self.annotation.write(docs, scores, self._tags)
        for number, doc in enumerate(docs):
            if number in preset or given.KEY in doc.user_data:
                given.note(doc, self.name, preset.get(number, given.NOTHING), "preset")

    # Questions

    def ask(
        self,
        docs: Iterable[Doc],
        *,
        spans: Iterable[Span] = (),
        allowed: Mapping[int, Iterable[str]] | None = None,
        preset: bool = False,
        temperature: float | None = None,
    ) -> Answers:
        """Return what the model knows about Docs: labels, spans, probabilities, alternatives.

        spans (Iterable[Span]): Spans of these Docs that are taken to be there: what follows?
        allowed (Mapping[int, Iterable[str]] | None): Labels that single tokens of each Doc may have.
        preset (bool): Take the entities and blocked tokens on the Docs as decided, as a prediction does; for Docs that
            this component has not annotated yet.  It notes by itself what it found on those that it has.
        temperature (float | None): Divides the scores; None for the one that was fitted.
        What `restrict` has noted holds as well.
        RAISES ConfigError: If the component has neither been trained nor loaded.
        RAISES ConfigError: If the temperature is no number from 1e-6 to 1e6.
        RAISES DataError: If `docs` are no Docs, or what is given cannot be.
        """
        docs, spans = list(docs), list(spans)
        if any(not isinstance(doc, Doc) for doc in docs):
            raise DataError(
                f"{self.name}: ask takes a list of Docs, such as ask([doc]); marginals and nbest take one Doc. Make "
                "Docs of texts by nlp(text)."
            )
        if any(all(span.doc is not doc for doc in docs) for span in spans):
            raise DataError(f"{self.name}: a span that was given is in none of the Docs that are asked about.")
        extra = {
            number: given.make_given([span for span in spans if span.doc is doc], allowed)
            for number, doc in enumerate(docs)
            if spans or allowed
        }
        return self._ask(docs, extra, preset=preset, temperature=temperature)[0]

    def _ask(
        self,
        docs: list[Doc],
        extra: Mapping[int, Given] | None = None,
        *,
        preset: bool = False,
        temperature: float | None = None,
    ) -> tuple[Answers, DocColumns]:
        _, encoder = self._trained()
        columns = self._columns_of(docs, encoder.columns)
        with self._lock:  # words and sums met for the first time are added to shared tables
            self._sync()
            crf, encoder = self._trained()
            self._use_words_of(docs)
            vocab: Any = self._word_vocab
            if vocab.in_memory_zone:
                encoder.trim(ZONE_BYTES, crf.cached_bytes)
            source, tags, constraints = crf.source(encoder.encode(columns.text)), self._tags, self._constraints
        assert constraints is not None
        allowed = self.allowed(docs, columns, extra, preset=preset)
        degrees = self.cfg["temperature"] if temperature is None else temperature
        source = without_dictionary(source, allowed, constraints)
        posterior = make_posterior(source, constraints, allowed, degrees)
        n_threads = self.method.n_threads or threads.available()
        return (
            Answers(
                posterior,
                columns.doc_offsets,
                tags,
                self.annotation.scheme,
                self.method.decoder,
                n_threads,
                self._check_probabilities,
            ),
            columns,
        )

    def _check_probabilities(self) -> None:
        """RAISES ConfigError: If the loss trains a model that is normalised at each token."""
        check_global(self.name, self.method.loss, "this question")

    def allowed(
        self, docs: Sequence[Doc], columns: DocColumns, extra: Mapping[int, Given] | None = None, *, preset: bool
    ) -> Bools | None:
        """Return which tags the tokens of some Docs may have [T, L], None where all may have all.

        columns (DocColumns): What has been read from the Docs.
        extra (Mapping[int, Given] | None): What is known about single Docs, by their numbers, besides what is noted.
        preset (bool): Whether entities and blocked tokens on the Docs are decided.
        """
        tags, annotation, constraints = self._tags, self.annotation, self._constraints
        assert constraints is not None
        allowed = annotation.allowed(columns.state, tags)
        known = annotation.preset(docs, columns.state, columns.doc_offsets, tags) if preset else {}
        for number, doc in enumerate(docs):
            if extra and number in extra:
                known[number] = known.get(number, given.NOTHING).and_(extra[number])
            if given.KEY in doc.user_data:
                noted = given.given_of(doc, self.name, ("user",) if preset else ("user", "preset"))
                known[number] = known.get(number, given.NOTHING).and_(noted)
        if not known:
            return allowed
        if allowed is None:
            allowed = np.ones((int(columns.doc_offsets[-1]), len(tags)), np.bool_)
        for number, what in known.items():
            rows = allowed[slice(*columns.doc_offsets[number : number + 2])]
            given.restrict(rows, what, docs[number], annotation, tags, constraints)
        return allowed

    def restrict(
        self,
        doc: Doc,
        *,
        spans: Iterable[Span] = (),
        allowed: Mapping[int, Iterable[str]] | None = None,
    ) -> None:
        """Note on a Doc what is known about it, for predictions and questions to honour; it replaces an earlier note.

        Without spans and labels the note is taken back.

        spans (Iterable[Span]): Spans that are there, with these boundaries; of a tagger, tokens with their tags.
        allowed (Mapping[int, Iterable[str]] | None): Labels that single tokens may have: tags such as "B-PER" or "O",
            or types such as "PER", which stand for all their tags.
        The note is kept in ``doc.user_data``.  On a gold Doc it says what training knows of tokens whose annotation is
        missing.
        """
        given.note(doc, self.name, given.make_given(spans, allowed))

    def marginals(self, doc: Doc) -> Floats:
        """Return P(tag of token t | text) as [tokens, L], tags in the order of `tags`; see `ask` for more."""
        return self.ask([doc]).marginals()[0]

    def nbest(self, doc: Doc, k: int) -> list[Alternative]:
        """Return the k most probable labellings of a Doc, or as many as there are, best first; see `ask` for more."""
        answers = self.ask([doc])
        return [answers.alternative(doc, labelling) for labelling in answers.nbest(k)[0]]

    def explain(
        self, doc: Doc, *, tokens: Iterable[int] | None = None, against: str | None = None, preset: bool = False
    ) -> Explanation:
        """Return which weights make the labels of a Doc, compared with the second most probable ones.

        tokens (Iterable[int] | None): Those to be explained; None for all.
        against (str | None): The label to compare with instead: why not this one?
        preset (bool): As `ask` has it.
        For many Docs, call `explain` of one `explainer`.
        """
        wanted = None if tokens is None else list(tokens)
        return self.explainer().explain(doc, tokens=wanted, against=against, preset=preset)

    def explainer(self) -> Explainer:
        """Return what explains predictions of the weights of now, for any number of Docs."""
        return Explainer(self.name, self.ask, self.annotation, self.crf, self.attribute_reader())

    def attribute_reader(self) -> AttributeReader:
        """Return what tells the attributes of texts by name."""
        strings: dict[int, str] = {}
        encoder = self._make_encoder(self.crf.keys, strings)
        return AttributeReader(encoder, strings, self.method.features.token_functions, lambda: self._word_vocab)

    def span_probability(self, span: Span) -> float:
        """Return the probability that a span is there, with its boundaries and label; 0 across sentences."""
        if given.crosses_sentences(span.doc, span.start, span.end):
            return 0.0
        tags = self.annotation.tags_of_span(span.end - span.start, span.label_)
        return self.ask([span.doc]).probability(span.start, tags)

    def token_probability(self, token: Token) -> float:
        """Return the probability of the tag that a token has."""
        return self.ask([token.doc]).probability(token.i, [self.annotation.tag_of(token)])

    def _emissions(self, docs: list[Doc]) -> list[Floats]:
        with self._lock:
            encoded, columns = self._encode(docs)
            source, dtype = self.crf.source(encoded), self.crf.theta.dtype
            parts = [source.forward(part)[0].emissions for part in source.parts()]
        whole = np.concatenate([np.zeros((0, len(self._tags)), dtype), *parts])
        return np.split(whole, columns.doc_offsets[1:-1])

    def _encode(self, docs: Iterable[Doc]) -> tuple[Encoded, DocColumns]:
        self._sync()
        _, encoder = self._trained()
        columns = self._read(list(docs), encoder.columns)
        return encoder.encode(columns.text), columns

    def _trained(self) -> tuple[LinearChainCRF, Encoder]:
        if self._crf is None or self._encoder is None:
            raise ConfigError(
                f"Component {self.name!r} has no model yet. Train it (nlp.initialize, then its fit(); or "
                "'python -m spacy crfseq fit'), or load a trained pipeline with spacy.load."
            )
        return self._crf, self._encoder

    @property
    def crf(self) -> LinearChainCRF:
        """The model with its current parameters."""
        self._sync()
        return self._trained()[0]

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Collect labels and attributes from the training data and set all weights to zero.

        Labels that `add_label` has added stay.
        labels (Sequence[str] | None): Labels to use instead of those found: tags, or span types, which stand for all
            their tags.  ``spacy init labels`` writes such lists.
        RAISES DataError: If there are no examples, no gold annotation for this component, or labels not in `labels`.
        """
        self.method.check_transitions(self.name)
        self._strings = {} if self.method.keep_names else None
        strings = self._strings
        encoder = self._make_encoder(strings=strings)
        if self.method.keep_names:
            encoder.keep_names()
        if self.method.tag_dictionary_size:
            encoder.words = HashIndex()
        encoder.pinned = True
        self._partial = PartialTable(self.annotation)
        found = self._collect(get_examples(), encoder)
        if not found.tags:
            raise DataError(
                f"Component {self.name!r}: the training data hold no gold annotation for it ({self._what()}). "
                "Check the columns of the corpus reader, or that the documents were annotated; in Python, call "
                "nlp.initialize(lambda: examples)."
            )
        self._tell_of_absent_columns(found.absent)
        annotation = self.annotation
        self._set_tags(annotation.all_tags(labels) if labels else annotation.found_tags(sorted(found.tags)))
        self._warn_of_score_weights(nlp)
        data = self._relabelled(found)
        assert self._constraints is not None
        crf, data = make_untrained(self.method, encoder, found, data, self._tags, self._constraints)
        self._encoder = encoder
        self._use(crf)
        self.attribute_names = self._names(encoder, strings)
        self._strings = None
        streamed = nlp is not None and (nlp.config.get("training") or {}).get("max_epochs") == -1
        self._session = Session(self.method.optimizer, data, n_examples=found.n_docs, streamed=streamed)
        self.cfg["temperature"] = 1.0  # whatever was fitted belonged to other weights
        added, self._added = self._added, []
        for label in added:
            self.add_label(label)

    def _what(self) -> str:
        return ", ".join(f"{key} = {value!r}" for key, value in self.annotation.settings().items())

    def _warn_of_score_weights(self, nlp: Language | None) -> None:
        """Tell a user whose training would pick its best model by a score that is always 0."""
        key = self.score_name
        if nlp is None or key in ("tag_acc", "spans_chunks_f", "ents_f"):  # spaCy knows them from the factories
            return
        if not (nlp.config.get("training") or {}).get("score_weights", {}).get(key):
            util.logger.warning(
                "[%s] [training.score_weights] gives no weight to %s, the score of this component: "
                "set it, or the best model cannot be told from the others.",
                self.name,
                key,
            )

    def _encoder_of(self, crf: LinearChainCRF) -> Encoder:
        encoder = self._make_encoder(crf.keys)
        encoder.words = None if crf.dictionary is None else crf.dictionary.word_index()
        return encoder

    def _make_encoder(
        self, keys: tuple[NDArray[np.uint64], NDArray[np.uint64]] | None = None, strings: dict[int, str] | None = None
    ) -> Encoder:
        state, pair = self.method.features.plans()
        names = lexical_names(state, pair)
        functions = self.method.features.functions
        return Encoder(state, pair, lexeme_reader(lambda: self._word_vocab, names, functions, strings), keys)

    def _read(self, docs: list[Doc], columns: Sequence[str]) -> DocColumns:
        self._use_words_of(docs)
        return self._columns_of(docs, columns)

    def _columns_of(self, docs: list[Doc], columns: Sequence[str]) -> DocColumns:
        functions = self.method.features.token_functions
        return read_docs(docs, columns, self.annotation.reads, functions, self._strings)

    def _use_words_of(self, docs: Sequence[Doc]) -> None:
        """Look new words up in the vocab of `docs`, which need not be the component's."""
        if docs:
            self._word_vocab = docs[0].vocab

    def _names(self, encoder: Encoder, strings: dict[int, str] | None) -> list[str]:
        if strings is None:
            return []
        known = strings

        def name(value: int) -> str:
            return text_of(value, known, self._word_vocab)

        return attribute_names(encoder.state, name) + attribute_names(encoder.pair, name)

    def _collect(self, examples: Iterable[Example], encoder: Encoder) -> Collected:
        try:
            reads = self._read_by_functions
            return collect(examples, self.annotation, encoder, self._read, self._partial, self.name, reads)
        except DataError as error:
            raise DataError(f"Component {self.name!r}: {error}") from None

    def _tell_of_absent_columns(self, names: Sequence[str]) -> None:
        if names:
            util.logger.info(
                "[%s] No training example has %s set on input: features of it work only where components named in "
                "annotating_components set it, or the corpus reader gives it.",
                self.name,
                ", ".join(names),
            )

    def _relabelled(self, found: Collected) -> Dataset:
        """Return the data, its labels changed to the numbers of the component's labels."""
        numbers, gold = np.append(self._label_ids(list(found.tags)), np.int32(MISSING)), found.data.gold
        gold[:] = np.where(gold < MISSING, gold, numbers[np.maximum(gold, MISSING)])
        return self._checked(found.data)

    def _checked(self, data: Dataset) -> Dataset:
        """Return the data, their candidate sets up to date.

        RAISES ConfigError: If there are some, and the component cannot learn from them.
        """
        if data.has_candidates:
            check_candidates(self.name, self.method.loss, self.method.optimizer)
            self._partial.resolve(self._tags)
        return data

    def _label_ids(self, tags: Tags) -> Ints:
        """RAISES DataError: If a tag is none of the component's labels."""
        numbers: dict[str | None, int] = {tag: number for number, tag in enumerate(self._tags)}
        numbers[None] = MISSING
        number = self._partial.number
        try:
            return np.array([number(tag) if isinstance(tag, Partial) else numbers[tag] for tag in tags], np.int32)
        except KeyError as error:
            label = (*self.annotation.public_labels([error.args[0]]), error.args[0])[0]
            raise DataError(
                f"Component {self.name!r}: the label {error.args[0]!r} is in the data but not among the component's "
                f"labels ({', '.join(self._tags[:20])}). Use add_label({label!r}), or add it to the labels given to "
                "initialize."
            ) from None

    def _key(self, example: Example) -> int:
        """Return a hash of what training takes from an example: words, sentences, token columns and gold labels."""
        _, encoder = self._trained()
        has_functions = bool(self.method.features.token_functions)  # they may look at anything, at this most likely
        read = TOKEN_COLUMNS if has_functions else encoder.columns
        inputs = example.predicted.to_array(["ORTH", "SENT_START", *read]).tobytes()
        attributes = hash_of(example.predicted) if has_functions else 0
        words = example.reference.to_array(["ORTH"]).tobytes()
        reference = example.reference
        return hash(
            (inputs, attributes, words, self.annotation.gold_content(reference), contents(reference, self.name))
        )

    def compile(self, examples: Sequence[Example]) -> list[Dataset]:
        """Return each example as a data set, features and gold labels as numbers."""
        _, encoder = self._trained()
        encoder.pinned = True
        columns = self._read([example.predicted for example in examples], encoder.columns)
        encoded = encoder.encode(columns.text)
        gold = self._label_ids([tag for example in examples for tag in gold_tags(self.annotation, example, self.name)])
        bounds = np.searchsorted(encoded.offsets, columns.doc_offsets)
        whole = self._checked(Dataset(encoded, gold, np.ones(len(encoded.offsets) - 1), self._partial.candidates))
        return [whole.slice(int(first), int(last)) for first, last in pairwise(bounds)]

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Any = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Take a batch of examples in; the optimizer works on it in `finish_update`, called here if `sgd` is given.

        losses (dict): Receives the mean loss per token under the component's name.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "CRFComponent.update")
        self._trained()
        with self._lock:
            self._session.add(examples, [self._key(example) for example in examples], self.compile, losses)
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Any) -> None:
        """Let the optimizer of the config work on the pending examples; spaCy's own optimizer `sgd` is not used."""
        crf, _ = self._trained()
        with self._lock:
            self._session.work(self._objective, crf.theta, self.name, self.method.inner_iterations)

    def figures(self, *, restart: bool = False) -> StepReport | None:
        """Return how the training goes that `update` drives, None before the optimizer's first iteration.

        Objective and loss are those of the whole training set, of an online optimizer estimated from what it has met.
        restart (bool): Let that estimate begin anew with what it meets next.
        """
        return self._session.figures(restart)

    @property
    def n_active(self) -> int:
        """Weights other than zero."""
        return int(np.count_nonzero(self.crf.theta))

    @property
    def score_name(self) -> str:
        """The score of `nlp.evaluate` that tells how good the component is, such as "ents_f"."""
        return self.annotation.score_name

    def _objective(self, data: Dataset) -> Objective:
        crf, _ = self._trained()
        session = self._session
        return Objective(
            Linear(crf.layout),
            [Term(data, self.method.loss, sample=session.sample)],
            self.method.regularizer,
            n_total=session.n_total,
            n_threads=self.method.n_threads,
            dictionary=crf.dictionary,
        )

    def fit(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        *,
        evaluate_every: int = 1,
        patience: int | None = None,
        callback: Callable[[Progress], None] | None = None,
    ) -> FitResult:
        """Train on all examples at once, without spaCy's steps, and leave the best parameters in the model.

        examples (Iterable[Example] | None): Training data; those given to `initialize` if None.
        dev (Iterable[Example] | None): Scored by accuracy (tagger) or span F1, see `FitResult`.
        patience (int | None): Scores without a gain before stopping; 0 never, None 5 for an online optimizer.
        RAISES DataError: If there is nothing to train on.
        """
        with self.training_on(examples, dev) as (objective, evaluate):
            result = fit(
                objective,
                self.method.optimizer,
                self.crf.theta,
                evaluate=evaluate,
                evaluate_every=evaluate_every,
                patience=patience,
                callback=callback,
            )
            self.set_parameters(result.best)
        return result

    @contextmanager
    def training_on(
        self, examples: Iterable[Example] | None = None, dev: Iterable[Example] | None = None
    ) -> Iterator[tuple[Objective, Callable[[Floats], float] | None]]:
        """Yield the objective over training data, and the score on `dev` as a function of parameters, to train with.

        Whoever trains calls `set_parameters` in the end.  Parameters as `fit` has them.
        """
        _, encoder = self._trained()
        with self._lock:
            self._sync()
            data = self._session.initial if examples is None else None
            if data is None:
                if examples is None:
                    raise DataError(f"Component {self.name!r}: give examples to fit, or call initialize just before.")
                data = self._relabelled(self._collect(examples, encoder))
            encoder.pinned = True
            self._session = Session(self.method.optimizer, data)
            evaluate = self.evaluator(list(dev)) if dev is not None else None
        try:
            yield self._objective(data), evaluate
        finally:
            with self._lock:
                self._session.release()
                encoder.pinned = False

    def set_parameters(self, theta: Floats) -> None:
        """Predict with these parameters [D] from now on; a fitted temperature belonged to others and is forgotten."""
        crf, _ = self._trained()
        self.cfg["temperature"] = 1.0
        crf.set_theta(theta)
        show_parameters(self.model, crf)

    @contextmanager
    def encoding(self) -> Iterator[Callable[[list[Doc]], tuple[Encoded, DocColumns, Bools | None]]]:
        """Yield a function that turns Docs into numbers, all of which stay valid together until the end.

        It returns the labels that tokens may have [T, L], too, or None where all may have all, as a prediction finds.
        For training that goes on from the model as it is; whoever trains calls `set_parameters` within.
        """
        _, encoder = self._trained()
        with self._lock:
            self._sync()
            self._session.release()
            encoder.pinned = True
        try:
            yield self._encode_allowed
        finally:
            with self._lock:
                encoder.pinned = False

    def _encode_allowed(self, docs: list[Doc]) -> tuple[Encoded, DocColumns, Bools | None]:
        encoded, columns = self._encode(docs)
        return encoded, columns, self.allowed(docs, columns, preset=True)

    def evaluator(self, dev: list[Example]) -> Callable[[Floats], float]:
        """Return a function that scores parameters on `dev`."""
        crf, encoder = self._trained()
        columns = self._read([example.predicted for example in dev], encoder.columns)
        tags = known_tags([tag for example in dev for tag in gold_tags(self.annotation, example, self.name)])
        allowed = self.allowed([example.predicted for example in dev], columns, preset=True)
        scheme, decoder, constraints = self.annotation.scheme, self.method.decoder, self._constraints
        assert constraints is not None
        return make_evaluator(crf, encoder.encode(columns.text), tags, scheme, decoder, constraints, allowed)

    def prune(self, threshold: float = 0.0) -> Pruned:
        """Drop weights of an absolute value up to `threshold`, and attributes that are left without any.

        With 0 only weights of zero go, and predictions stay the same.  Training that goes on, as by `fit`, works on
        the weights that are left.
        RAISES ConfigError: If the threshold is negative or no weight of an attribute exceeds it.
        """
        with self._lock:
            crf, before = self.crf, self.size
            compact = crf.compact(threshold)
            largest = float(max(np.abs(part).max(initial=0) for part in crf.views[:2]))
            if threshold < 0 or (largest and not compact.layout.state.size + compact.layout.pair.size):
                raise ConfigError(
                    f"Component {self.name!r}: nothing is left with a threshold of {threshold}: it must be at least 0 "
                    f"and lower than the largest weight, {largest:.4g}."
                )
            if self.attribute_names:
                kept = np.concatenate([np.isin(*keys) for keys in zip(crf.keys, compact.keys, strict=True)])
                self.attribute_names = [name for name, stays in zip(self.attribute_names, kept, strict=True) if stays]
            self._encoder = self._encoder_of(compact)
            self._use(compact)
            self._session = Session(self.method.optimizer, n_total=self.n_sequences)
            return Pruned(before, self.size)

    @property
    def n_sequences(self) -> int:
        """Sequences of the training set, as far as it is known; 0 before training."""
        return self._session.n_total

    @property
    def size(self) -> ModelSize:
        """How large the model is."""
        layout = self.crf.layout
        return ModelSize(layout.size, layout.state.n_rows + layout.pair.n_rows, len(self._model_bytes()))

    def _use(self, crf: LinearChainCRF) -> None:
        if self._crf is not None and any(x.shape != y.shape for x, y in zip(crf.views, self._crf.views, strict=True)):
            self.model = make_model(self._emissions)  # thinc lets no model with parameters change its size
        self._crf = crf
        show_parameters(self.model, crf)

    def _sync(self) -> None:
        """Bring the parameters up to date with a training run that has gone on."""
        if self._crf is not None and self._session.stale:
            theta = np.empty_like(self._crf.theta)
            self._session.export(theta)
            self.set_parameters(theta)

    @contextmanager
    def use_params(self, params: dict[Any, Any]) -> Iterator[None]:
        """Do nothing: averaging is the business of the optimizer named in the config."""
        yield

    # Serialisation

    def _model_bytes(self) -> bytes:
        return storage.pack(self.crf, self.method.features, self.attribute_names, self.n_sequences)

    def _write_model(self, file: Path) -> None:
        with replacing(file) as temporary:
            temporary.write_bytes(self._model_bytes())

    def _load_model(self, data: bytes, source: str) -> None:
        stored = storage.unpack(data, self.method.features, self.name, source)
        self._set_tags(stored.crf.labels)
        self._encoder = self._encoder_of(stored.crf)
        self._use(stored.crf)
        self.attribute_names = stored.names
        self._session = Session(self.method.optimizer, n_total=stored.n_sequences)
        self._partial = PartialTable(self.annotation)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the component's settings, labels and weights as bytes."""
        serialize: dict[str, Callable[[], Any]] = {"cfg": lambda: srsly.json_dumps(self._stored_cfg())}
        serialize["vocab"] = lambda: self.vocab.to_bytes(exclude=exclude)
        if self._crf is not None:
            serialize["model"] = self._model_bytes
        data: bytes = util.to_bytes(serialize, exclude)
        return data

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "CRFComponent":
        """Load what `to_bytes` returned.

        RAISES ModelFileError: If the data are damaged or foreign.
        """
        load = {
            "cfg": lambda data: self._load_cfg(srsly.json_loads(data)),
            "vocab": lambda data: self.vocab.from_bytes(data, exclude=exclude),
            "model": lambda data: self._load_model(data, f"component {self.name!r}"),
        }
        util.from_bytes(bytes_data, load, exclude)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component to a folder; the weights go to a temporary name first and are then moved."""
        serialize: dict[str, Callable[[Path], Any]] = {
            "cfg": lambda file: srsly.write_json(file, self._stored_cfg()),
            "vocab": lambda folder: self.vocab.to_disk(folder, exclude=exclude),
        }
        if self._crf is not None:
            serialize["model"] = self._write_model
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "CRFComponent":
        """Load what `to_disk` wrote.

        RAISES ModelFileError: If the file is damaged or foreign.
        """
        load: dict[str, Callable[[Path], Any]] = {
            "cfg": lambda file: self._load_cfg(storage.read_settings(file)),
            "vocab": lambda folder: self.vocab.from_disk(folder, exclude=exclude),
            "model": lambda file: self._load_model(file.read_bytes(), str(file)) if file.exists() else None,
        }
        util.from_disk(path, load, exclude)
        return self

    def _stored_cfg(self) -> dict[str, Any]:
        return {**self.cfg, "tags": self._tags}

    def _load_cfg(self, stored: dict[str, Any]) -> None:
        self.cfg["temperature"] = 1.0  # of models from before there was any
        self.cfg.update((key, value) for key, value in stored.items() if key in self.cfg)
        tags = stored.get("tags", [])
        self._set_tags([str(tag) for tag in tags])


def _portions(stream: Iterable[Doc], size: int) -> Iterator[list[Doc]]:
    """Cut a stream into lists of `size` Docs, or fewer where they have `PORTION_TOKENS` tokens."""
    docs: list[Doc] = []
    n_tokens = 0
    for doc in stream:
        docs.append(doc)
        n_tokens += len(doc)
        if len(docs) >= size or n_tokens >= PORTION_TOKENS:
            yield docs
            docs, n_tokens = [], 0
    if docs:
        yield docs


def _unpickle(
    vocab: Vocab,
    name: str,
    annotation: Annotation,
    method: Method,
    cfg: dict[str, Any],
    scorer: Callable[..., Any] | None,
    state: bytes,
) -> "CRFComponent":
    component = CRFComponent(
        vocab, name, annotation, method, threshold=cfg["threshold"], scores=cfg["scores"], scorer=scorer
    )
    return component.from_bytes(state, exclude=["vocab"])
