"""The spaCy component: one class for tagging, chunking and entity recognition, in terms of spaCy's protocol.

No deferred annotations here: spaCy checks the settings of `initialize` against its annotations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab

from ..errors import ConfigError, DataError
from ..model import LinearChainCRF
from ..training.compatibility import check_global, check_occurrences
from ..training.fit import FitResult, Progress
from ..types import Floats, Schedule
from . import clusters, evidence, model_file
from .cfg import ComponentSettings, write_configs
from .doc_model import DocModel
from .doc_posterior import Alternative, DocPosterior, ask, facts_of, html_table, line_of
from .model_file import ModelSize
from .overrides import check_command_line
from .prediction import portions
from .settings import Method
from .start_from import check_source
from .structs import read_tokens
from .tasks import Annotation, Prediction
from .training import Training


class Pruned(NamedTuple):
    """The sizes of a model before and after `CRFComponent.prune`."""

    before: ModelSize
    after: ModelSize


class CRFComponent(TrainablePipe):
    """A linear-chain CRF in a spaCy pipeline, made by ``nlp.add_pipe("crf_ner")`` and its siblings.

    annotation (Annotation): Reads gold labels, writes predictions.
    method (Method): Features, loss, regularizer, optimizer, decoder and so on.
    threshold (float): Less probable spans are left out.
    scores (bool): Store the probability of every predicted span or tag.
    scorer (Callable): Called by ``nlp.evaluate``.
    """

    doc_model: DocModel

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
        self.vocab, self.name, self.scorer = vocab, name, scorer
        self.annotation = annotation
        of_spans = {} if annotation.scheme is None else {"threshold": threshold}
        self.cfg = ComponentSettings(self, annotation.settings(), {**of_spans, "scores": scores})
        self.doc_model = DocModel(vocab, name, annotation, method, self.cfg, partial(setattr, self, "model"))
        self._check_probabilities()
        self.training = Training(self.doc_model)
        self._added: list[str] = []
        self._packed: bytes | None = None
        evidence.register(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        settings = {key: self.cfg[key] for key in ("threshold", "scores") if key in self.cfg} | {"scorer": self.scorer}
        method = self.method._replace(decoder=copy(self.method.decoder))  # which may learn
        make = partial(CRFComponent, self.vocab, self.name, self.annotation, method, **settings)
        return _unpickle, (make, self.to_bytes(exclude=["vocab"]))

    def __repr__(self) -> str:
        return line_of(self)

    def _repr_html_(self) -> str:
        return html_table(f"CRFComponent {self.name!r}", facts_of(self))

    def _check_probabilities(self) -> None:
        for setting in ("threshold", "scores"):
            if self.cfg.get(setting):
                check_global(self.name, self.method.loss, f"{setting} = {self.cfg[setting]}".lower())

    @property
    def method(self) -> Method:
        """How the component models and learns; it may be replaced before a new training run.

        The config gets the numbers, texts and lists that differ.  It keeps the blocks of plug-ins: one that was made in
        Python has none.
        """
        return self.doc_model.method

    @method.setter
    def method(self, method: Method) -> None:
        method.check(self.name)
        before = self.method
        self.doc_model.use_method(method)
        if changes := method.plain_changes(before):
            write_configs(self, changes)

    # Labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that users see: the tags of a tagger, the span types of a chunker or entity recognizer."""
        return self.annotation.public_labels(self.tags)

    @property
    def label_data(self) -> list[str]:
        """All tags, as ``spacy init labels`` writes and `initialize` takes them."""
        return list(self.tags)

    @property
    def tags(self) -> tuple[str, ...]:
        """The L labels of the model, in the order of its numbers."""
        return self.doc_model.labels.tags

    @property
    def reads(self) -> frozenset[str]:
        """Token columns that features read, such as "TAG"; earlier components or a corpus reader must set them."""
        return self.doc_model.read_by_functions.union(self.doc_model.columns)

    @property
    def crf(self) -> LinearChainCRF:
        """The model with its current parameters."""
        return self.doc_model.crf

    def add_label(self, label: str) -> int:
        """Add a label; a trained model gets weights of zero for it.

        RETURNS (int): 1, or 0 if the label is there already, with all its tags.
        RAISES ConfigError: If the label is not a non-empty string.
        """
        if not isinstance(label, str) or not label:
            raise ConfigError(f"{self.name}: a label must be a non-empty string, but {label!r} was given.")
        new = [tag for tag in self.annotation.tags_of_types([label]) if tag not in self.tags]
        if not new:
            return 0
        self.training.add_tags(new)
        self._added.append(label)
        return 1

    # Prediction

    def works_on(self, vocab: Vocab) -> bool:
        """Whether the component has this vocab, or read Docs of it last, as one from another pipeline does."""
        return vocab in (self.vocab, self.doc_model.vocab_in_use.vocab)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Annotate a stream of Docs, at most `batch_size` at a time and no more than fit in the processor's cache."""
        handle_error = self.get_error_handler()
        for docs in portions(stream, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
                yield from docs
            except Exception as error:
                handle_error(self.name, self, docs, error)

    def predict(self, docs: Iterable[Doc]) -> Prediction:
        """Return the labels of all tokens.  RAISES ConfigError: If the component is neither trained nor loaded."""
        trained, docs = self.doc_model.current(), list(docs)
        answers, threshold = ask(trained, docs, preset=True), self.cfg.get("threshold", 0.0)
        if threshold and trained.cover:
            raise ConfigError(
                f"{self.name}: threshold = {threshold} drops spans that the thresholds for recall put there. Set it to "
                "0, or calibrate without --recall."
            )
        labels, scores, keep = answers.all_labels, None, None
        if threshold or self.cfg["scores"]:
            self._check_probabilities()
            scores = answers.all_probabilities
            keep = scores >= threshold if threshold else None
        columns, state, spaces = answers.columns, answers.columns.state, None
        if columns.gaps is not None:
            state, spaces = read_tokens(docs, self.annotation.reads), columns.gaps.spaces
            if scores is not None and self.annotation.scheme is None:
                scores = columns.of_tokens(scores)
        return Prediction(
            self.name,
            labels=labels,
            offsets=answers.offsets,
            doc_offsets=answers.doc_offsets,
            state=state,
            spaces=spaces,
            preset=answers.decided,
            keep=keep,
            scores=scores if self.cfg["scores"] else None,
        )

    def set_annotations(self, docs: Iterable[Doc], scores: Prediction) -> None:
        """Write predictions to `docs`.  RAISES DataError: If one has another number of tokens than when it was read."""
        docs = list(docs)
        if list(map(len, docs)) != np.diff(scores.doc_offsets).tolist():
            raise DataError(f"{self.name}: a Doc was retokenized during its prediction; another thread must not do so.")
        self.annotation.write(docs, scores, self.doc_model.labels.token_tags)
        me = ref(self)
        for number, doc in enumerate(docs):
            earlier = evidence.ANNOTATED.setdefault(doc, (me,))
            if me not in earlier:
                evidence.ANNOTATED[doc] = (*earlier, me)
            if number in scores.preset or evidence.KEY in doc.user_data:
                preset = scores.preset.get(number, evidence.NO_EVIDENCE)
                evidence.write_evidence(doc, self.name, preset, "preset")

    # Questions about Docs

    def posterior(
        self,
        docs: Iterable[Doc],
        *,
        spans: Iterable[Span] = (),
        allowed: Mapping[int, Iterable[str]] | None = None,
        preset: bool = False,
        temperature: float | None = None,
        once: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
    ) -> DocPosterior:
        """Return the posterior distribution of the labels of Docs: labels, spans, probabilities, alternatives.

        spans (Iterable[Span]): Spans of these Docs that are assumed to be there; one of those with the same bounds.
        allowed (Mapping[int, Iterable[str]] | None): Labels that single tokens of each Doc may have.
        preset (bool): Treat the entities and blocked tokens on the Docs as decided, as a prediction does.  Use it for
            Docs that this component has not annotated yet; for others, it remembers what was decided before.
        temperature (float | None): Divides the scores, from 1e-6 to 1e6; None for the one that was fitted, with
                what was fitted to types of spans.
        once, order (Sequence[str] | None): In place of the settings of these names, see `settings.Method`: labels that
            occur at most once in a sequence, and labels that occur only in this order.
        Notes by `clamp` are respected, too.
        RAISES ConfigError: If the component has neither been trained nor loaded, the temperature is out of range, or
            `once` or `order` name labels that are not there.
        RAISES DataError: If `docs` are not Docs, or spans and labels contradict each other.
        """
        given = evidence.of_docs(docs := list(docs), spans, allowed, self.name)
        trained, method = self.doc_model.current(), self.method
        if once is not None or order is not None:
            once, order = list(method.once if once is None else once), list(method.order if order is None else order)
            if once or order:
                check_occurrences(self.name, method.decoder, method.tag_dictionary_size)
            trained = trained._replace(method=method._replace(once=once, order=order))
        if temperature is not None:
            trained = trained._replace(temperature=temperature, calibration={})
        return ask(trained, docs, given, preset=preset)

    def clamp(
        self, doc: Doc, *, spans: Iterable[Span] = (), allowed: Mapping[int, Iterable[str]] | None = None
    ) -> None:
        """Note on a Doc what is known about it; predictions and queries respect it.  It replaces an earlier note.

        spans (Iterable[Span]): Spans that are there, with these boundaries; for a tagger, tokens with their tags.  Of
            those with the same start and end, one is right.
        allowed (Mapping[int, Iterable[str]] | None): Labels that single tokens may have: tags such as "B-PER" or "O",
            or types such as "PER", which stand for all their tags.
        Without either, the note is removed.  It is kept in ``doc.user_data``.  On a gold Doc, training uses it for
        tokens whose annotation is missing.
        """
        evidence.write_evidence(doc, self.name, evidence.make_evidence(spans, allowed))

    def marginals(self, doc: Doc) -> Floats:
        """Return P(tag of token t | text) as [tokens, L], tags in the order of `tags`.

        If a Doc has white space, more columns may follow: tags I- of types without them, which only white space has.
        """
        return self.posterior([doc]).marginals()[0]

    def nbest(self, doc: Doc, k: int) -> list[Alternative]:
        """Return the k most probable labellings of a Doc, or as many as there are, best first."""
        answers = self.posterior([doc])
        return [answers.alternative(doc, labelling) for labelling in answers.nbest(k)[0]]

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        terms: Mapping[str, Any] | None = None,
    ) -> None:
        """Collect labels and features from the training data and set all weights to zero.

        Labels added by `add_label` are kept.  After ``nlp.initialize()`` without training data, the component has the
        labels that it had, and `update` collects features as examples come; an entity recognizer or chunker collects
        labels, too.  That reads the first examples a few times, so give them to ``nlp.initialize`` where you can.
        labels (Sequence[str] | None): Labels to use instead of those found: tags, or span types, which mean all their
            tags.  ``spacy init labels`` writes such lists.
        terms (Mapping[str, Iterable[Doc | Example] | Callable] | None): Texts of terms of the config, or functions that
            return them; they replace its corpora.
        RAISES ConfigError: If a term or its corpus is not in the config.
        RAISES DataError: If there are no examples, no gold annotation for this component, or labels not in `labels`.
        """
        self._initialize(self.training, get_examples, labels, nlp, terms)

    def _initialize(
        self,
        training: Training,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Any] | None,
    ) -> None:
        check_command_line()
        training.initialize(get_examples, labels, nlp, terms)
        added, self._added = self._added, []
        for label in added:
            self.add_label(label)
        self.doc_model.check_rules()

    def start_from(self, trained: "CRFComponent | None") -> None:
        """Let `initialize` take over labels, features and weights of a trained component, from which `fit` continues.

        All that it has learned is kept, also where the new data lack it; what is new begins with weights of zero.  The
        penalty of `fit` is then on changes of the weights, and stronger the more texts these come from.  That of
        `update` is on the weights, as always, so that it forgets with few new texts.
        trained (CRFComponent | None): A component of the same task and scheme, which must not change; None for none.
        RAISES ConfigError: If training cannot continue from it.
        """
        if trained is not None:
            check_source(trained.doc_model, self.doc_model)
        self.training.set(source=None if trained is None else trained.doc_model)

    def update(
        self, examples: Iterable[Example], *, drop: float = 0.0, sgd: Any = None, losses: dict[str, float] | None = None
    ) -> dict[str, float]:
        """Add a batch and write its mean loss per token to `losses`; if `sgd` is given, call `finish_update`, too."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples := list(examples), "CRFComponent.update")
        self.training.update(examples, losses, drop)
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Any) -> None:
        """Run the optimizer of the config on the pending examples; or, with neural networks, `sgd` on these.

        Where there are networks, `update` has run the optimizer of the config, which needs their scores.
        """
        if self.doc_model.networks:
            self.model.finish_update(sgd)
        else:
            self.training.finish_update()

    def fit(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        *,
        terms: Mapping[str, Any] | None = None,
        evaluate_every: int = 1,
        patience: int | None = None,
        callback: Callable[[Progress], None] | None = None,
        seed: int | None = None,
    ) -> FitResult:
        """Train on all examples at once, without spaCy's steps, and keep the best parameters.

        examples (Iterable[Example] | None): Training data; those given to `initialize` if None.
        dev (Iterable[Example] | None): Scored by accuracy (tagger) or span F1, see `FitResult`.
        terms (Mapping[str, Iterable[Doc | Example] | Callable] | None): Texts of terms of the config, as in
            `initialize`; features that occur only there have weights if `initialize` knew no texts of the term.
        patience (int | None): Scores without a gain before stopping; 0 never, None 5 for an online optimizer.
        seed (int | None): Of the optimizer, if its own settings have none; None for ``training.seed`` of the config
            that `initialize` got by ``nlp``, or 0.
        RAISES ConfigError: If the seed is out of range.
        RAISES DataError: If there is nothing to train on.
        """
        self.doc_model.refuse_networks("fit", "Use 'python -m spacy train', or nlp.update.")
        schedule = Schedule(evaluate_every, patience)
        return self.training.fit(examples, dev, terms, seed=seed, schedule=schedule, callback=callback)

    def fit_on(
        self,
        client: Any,
        nlp: Language,
        dev: Iterable[Example] | None = None,
        *,
        evaluate_every: int = 1,
        patience: int | None = None,
        callback: Callable[[Progress], None] | None = None,
        seed: int | None = None,
    ) -> FitResult:
        """Initialize and train on the workers of a Dask cluster, each of which reads and keeps a part of the corpora.

        Batch optimizers find the optimum of one process, online ones a mixture.  Other arguments and errors as of
        `fit`.

        client (Client | str): Of Dask's `distributed`, or the address of a cluster.
        nlp (Language): The pipeline, whose config names the corpora.
        RAISES ConfigError: If something cannot be trained there.
        RAISES ClusterError: If the scheduler is lost, or workers die again and again.
        """
        self.doc_model.refuse_networks("fit_on", "Use 'python -m spacy train', or nlp.update.")
        with clusters.connected(client) as cluster:
            training = Training(self.doc_model, remote=cluster.training({}, None, lambda n, of: None))
            self._initialize(training, lambda: (), None, nlp, None)
            schedule = Schedule(evaluate_every, patience)
            result = training.fit(None, dev, seed=seed, schedule=schedule, callback=callback)
        self.training.release()
        return result

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return the scores of predicted against gold annotation, as the scorer of the config computes them."""
        for example in (examples := list(examples)):
            self.annotation.check_gold(example.reference)
        return super().score(examples, **kwargs)  # type: ignore[no-any-return]

    def set_parameters(self, theta: Floats) -> None:
        """Predict with these parameters [D] from now on; a calibration fitted to earlier ones is reset."""
        self.doc_model.set_parameters(theta)

    def prune(self, threshold: float = 0.0, bits: int | None = None) -> Pruned:
        """Drop weights of an absolute value up to `threshold`, and features without any other weight.

        With 0, predictions stay the same.  Further training, as by `fit`, works on the remaining weights.

        bits (int | None): First round all weights to multiples of 1 / 2**bits, which take less space in a file.
        RAISES ConfigError: If the threshold is negative, `bits` is not from 0 to 30, or no weight of a feature exceeds
            the threshold.
        """
        before = self.size
        self.doc_model.prune(threshold, bits)
        self.training.release()
        return Pruned(before, self.size)

    # Storage

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return vocab, labels, weights and the settings fitted to these as bytes; other settings are in the config."""
        return model_file.to_bytes(self.doc_model, self._pack(), exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "CRFComponent":
        """Load the bytes that `to_bytes` returned.  RAISES ModelFileError: If the data are damaged or foreign."""
        model_file.from_bytes(self.doc_model, bytes_data, exclude)
        self._loaded()
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component to a folder; the model goes to a temporary name first and is then moved."""
        model_file.to_disk(self.doc_model, self._pack(), path, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "CRFComponent":
        """Load the folder that `to_disk` wrote; errors as in `from_bytes`."""
        model_file.from_disk(self.doc_model, path, exclude)
        self._loaded()
        return self

    @property
    def size(self) -> ModelSize:
        """The size of the model: weights, features, and bytes of its file."""
        return model_file.size_of(self.doc_model, self._pack())

    @contextmanager
    def packed_once(self) -> Iterator[None]:
        """Pack the model once for its size and its files inside of a context, in which it must not change."""
        self._packed = self._pack()
        try:
            yield
        finally:
            self._packed = None

    def _pack(self) -> bytes | None:
        return model_file.pack(self.doc_model) if self._packed is None else self._packed

    def _loaded(self) -> None:
        """Check the loaded settings, and begin without a training run."""
        self.doc_model.check_rules()
        self.training = Training(self.doc_model)


def _unpickle(make: Callable[[], CRFComponent], state: bytes) -> CRFComponent:
    return make().from_bytes(state, exclude=["vocab"])
