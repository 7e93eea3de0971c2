"""The training of a component: by spaCy's steps (`initialize`, `update`, `finish_update`) or all at once (`fit`).

Examples become a value, a `TrainingSet`; it, or some of its sequences, becomes a model of zero weights, or of those of
a trained one; `training.fit` finds the weights.  Folds, sweeps and first stages begin anew with the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from .. import threads
from ..errors import DataError, NoExamplesError
from ..features.attributes import TOKEN_COLUMNS
from ..features.encoder import Encoded, Encoder
from ..features.index import HashIndex
from ..features.noted import hash_of
from ..features.protocol import LabelAttributes
from ..model import LinearChainCRF
from ..optimizers.online import seeded
from ..potentials.protocol import Potential
from ..potentials.sums import Given, Sum
from ..training.checkpoint import Checkpoint
from ..training.compatibility import is_unlabelled
from ..training.dataset import Dataset
from ..training.fit import FitResult, fit
from ..training.objective import Objective
from ..training.terms import Term
from ..types import MISSING, Bools, Floats, Ints, Loss, Offsets, Optimizer, StepReport, TextLoss
from .build import aligned, begin_with, build_model, carry_over, check_source, label_factors, relabelled, summary
from .doc_model import DocModel
from .encode import EncodedCorpus, Reading, encode_examples
from .evaluator import Evaluator
from .evidence import read_evidence, weight_of
from .examples import Corpus
from .labels import PartialTable, gold_tags, known_tags
from .prediction import DocColumns, allowed_labels
from .session import Session
from .settings import TermSettings
from .stages import Noted, jackknife
from .terms import (
    TRAIN,
    TermData,
    Texts,
    annotated,
    check_complete,
    check_found,
    find_texts,
    frozen_annotators,
    no_texts,
)

N_SAMPLE = 10
"""Documents from which the sizes of neural networks are inferred."""


class Options(NamedTuple):
    """How `initialize` works, for those who call it through spaCy.

    postponed (bool): Leave the first stage without training.
    keeps (bool): Keep the encoded texts for `Training.begin_anew`.
    annotators (Sequence[Any]): Earlier components, whose predictions the texts of terms get before they are read.
    watch (Callable | None): Passes on the texts of a term by its name, to show progress.
    report (Callable | None): Called with lines of progress; None for spaCy's log.
    """

    postponed: bool = False
    keeps: bool = False
    annotators: Sequence[Any] = ()
    watch: Callable[[str, Iterator[Example]], Iterator[Example]] | None = None
    report: Callable[[str], None] | None = None


class TrainingSet(NamedTuple):
    """All texts to learn from, as numbers.

    corpora (dict): The training corpus, `TRAIN`, and the texts of terms by their names.
    strings (dict | None): The strings that features are made of.
    tags (Sequence[str]): Those of the model to be.
    streamed (bool): Whether spaCy's training reads more than these.
    """

    encoder: Encoder
    corpora: dict[str, EncodedCorpus]
    strings: dict[int, str] | None
    tags: Sequence[str] = ()
    streamed: bool = False

    def take(self, sequences: Offsets) -> TrainingSet:
        """Return the set with some sequences of the training corpus."""
        return self._replace(corpora={**self.corpora, TRAIN: self.corpora[TRAIN].take(sequences)})


class Remote(Protocol):
    """Texts that lie on other machines, see `pipeline.shards`."""

    def encode(self, training: Training, nlp: Language | None, examples: Iterable[Example]) -> dict[str, list[str]]:
        """Encode the corpora of a config there; return the gold tags of each.

        RAISES ConfigError: If the component cannot be trained there.
        """

    def start(self, training: Training) -> None:
        """Begin with a model of zero weights for the tags that were set."""

    def objective(self, training: Training) -> Objective:
        """Return the objective over all texts."""

    def optimizer(self, optimizer: Optimizer, component: str) -> Optimizer:
        """Return an optimizer for this objective."""

    def facts(self) -> dict[str, str]:
        """Return what must be the same where a run continues."""

    def finish(self, model: DocModel) -> None:
        """Give the names of features to a trained model, and release the texts."""


@dataclass
class Growing:
    """The examples that `update` has met after an initialization without any, and how many of them the model has."""

    met: dict[int, Example] = field(default_factory=dict)
    n_built: int = 0


class Training:
    """Trains a model; its `Session` holds the state between two calls of `update`.

    seed (int | None): ``training.seed`` of the config that the component was initialized with, None if unknown.
    source (DocModel | None): A trained model, whose labels, features and weights `initialize` takes over.
    texts (dict): Functions that read the texts of terms.
    remote (Remote | None): Other machines that have the texts.
    """

    def __init__(self, model: DocModel, remote: Remote | None = None) -> None:
        self.model, self.remote = model, remote
        self.seed: int | None = None
        self.source: DocModel | None = None
        self.options = Options()
        self.texts: dict[str, Callable[[], Iterator[Example]]] = {}
        self._bound: dict[tuple[int, Sequence[str]], tuple[Loss, Loss]] = {}
        self._kept: TrainingSet | None = None
        self._growing: Growing | None = None

    def set(self, **options: Any) -> None:
        """Change some `Options`."""
        self.options = self.options._replace(**options)

    def report(self, line: str) -> None:
        """Show a line of progress."""
        if self.options.report is not None:
            self.options.report(line)
        else:
            util.logger.info("[%s] %s", self.model.name, line)

    def optimizer(self, seed: int | None = None) -> Optimizer:
        """Return the optimizer of the config; without a seed of its own, it uses `seed`, else ``self.seed``, else 0.

        RAISES ConfigError: If the seed is out of range, or it does not work on a cluster.
        """
        optimizer = seeded(self.model.method.optimizer, self.seed if seed is None else seed)
        return optimizer if self.remote is None else self.remote.optimizer(optimizer, self.model.name)

    @property
    def settings(self) -> dict[str, TermSettings]:
        """The settings of all terms, by their names."""
        return self.model.method.each_term(self.model.name)

    @property
    def terms(self) -> Sequence[TermData]:
        """Terms in addition to the training corpus, until a run ends."""
        return self.model.session.terms

    @property
    def data(self) -> Dataset:
        """The training set as `initialize` has encoded it.  RAISES DataError: If training has released it."""
        data = self.model.session.initial
        if data is None:
            raise DataError(f"Component {self.model.name!r}: nothing is encoded; call initialize just before.")
        return data

    # From examples to a model of zero weights

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Texts] | None = None,
    ) -> None:
        """Do what `CRFComponent.initialize` says."""
        model = self.model
        settings = {} if nlp is None else nlp.config.interpolate().get("training") or {}
        self.seed = settings.get("seed")
        model.method.check_transitions(model.name)
        if self.source is not None:
            check_source(self.source, model)
        self.use_texts(nlp, terms)
        examples, made_up = _look_ahead(get_examples())
        sample = list(islice(stream := iter(examples), N_SAMPLE)) if model.networks else []
        examples = chain(sample, stream) if sample else examples
        if self.remote is not None:
            model.set_tags(self._choose_tags(self.remote.encode(self, nlp, examples), labels, False))
            self._warn((), nlp)
            self.remote.start(self)
        else:
            self._learn_first(None if made_up else get_examples, labels)
            data = self.collect(examples)
            found = {name: corpus.tags for name, corpus in data.corpora.items()}
            made_up = made_up and not found[TRAIN]
            tags = self._choose_tags(found, labels, made_up)
            self._warn(data.corpora[TRAIN].absent, nlp)
            self._kept = data._replace(tags=tags, streamed=settings.get("max_epochs") == -1)
            self.begin_anew()
            for network in model.networks.values():
                network.initialize([example.predicted for example in sample], len(tags))
        model.cfg["temperature"] = 1.0  # whatever was fitted belonged to other weights
        self._growing = Growing() if made_up else None
        if made_up:
            model.session.release()

    def _choose_tags(self, found: Mapping[str, list[str]], labels: Sequence[str] | None, made_up: bool) -> list[str]:
        """Return the tags of the model to be, given those of each corpus, which spaCy may have made up.

        RAISES DataError: If there are none.
        """
        model, annotation = self.model, self.model.annotation
        if made_up:
            labels = labels or model.labels.tags
            if model.has_weights and model.crf.theta.any():
                util.logger.warning("[%s] initialized again without examples: its weights are gone.", model.name)
        if not found[TRAIN] and not (made_up and (labels or annotation.scheme)):
            what = ", ".join(f"{key} = {value!r}" for key, value in annotation.settings().items())
            raise DataError(
                f"Component {model.name!r}: the training data hold no gold annotation for it ({what}). "
                "Check the columns of the corpus reader, or that the documents were annotated; in Python, call "
                "nlp.initialize(lambda: examples), or add_label before nlp.initialize()."
            )
        tags = annotation.all_tags(labels) if labels else annotation.found_tags(sorted(set().union(*found.values())))
        return tags if self.source is None else list(dict.fromkeys([*self.source.labels.tags, *tags]))

    def begin_anew(self, sequences: Offsets | None = None) -> None:
        """Set all weights to zero, as `initialize` did on the same corpus, with the current settings.

        Only settings that affect neither features nor labels may have changed since.
        sequences (Offsets | None): Those of the corpus to learn from, as if the others had never been read, except
            with `min_count`, which counts their tokens; None for all.
        """
        data = self._kept
        assert data is not None
        if self.options.keeps or data.corpora.keys() != {TRAIN, *self.settings}:  # `fit` may add the texts of a term
            shared = data.strings, self.model.partials.candidates
            data = deepcopy(data, {id(value): value for value in shared})  # training changes the rest
        else:
            self._kept = None
        self.model.set_tags(data.tags)
        self.start(data if sequences is None else data.take(sequences))

    def start(self, data: TrainingSet) -> None:
        """Begin with a model of zero weights for the features found and the tags that were set."""
        model, old = self.model, None if self.source is None else aligned(self.source, self.model)
        model.strings = data.strings
        names = [name for name in (TRAIN, *self.settings) if name in data.corpora]
        crf, (corpus, *terms) = build_model(
            model.method, data.encoder, [self.numbered(name, data.corpora[name]) for name in names],
            model.labels.tags, model.labels.constraints, old,
        )  # fmt: skip
        n_docs = data.corpora[TRAIN].n_docs
        session = Session(self.optimizer(), corpus.data, terms=terms, n_examples=n_docs, streamed=data.streamed)
        model.start(crf, data.encoder, session)

    def collect(self, examples: Iterable[Example]) -> TrainingSet:
        """Return examples and terms as numbers, and the encoder with their features."""
        encoder, strings = self.model.new_encoder(), self.model.strings
        if self.source is not None and strings is not None:
            begin_with(encoder, self.source, strings)
        if self.model.method.tag_dictionary_size:
            encoder.words = HashIndex()
        self.model.partials = PartialTable(self.model.annotation)
        corpus = self.encode(examples, encoder)  # before the terms, so that its features come first
        terms = {name: self._encode_term(name, encoder) for name in self.texts}
        return TrainingSet(encoder, {TRAIN: corpus, **terms}, strings)

    def encode(
        self, examples: Iterable[Example], encoder: Encoder, loss: Loss | None = None, labelled: bool = True
    ) -> EncodedCorpus:
        """Return examples as numbers; loss and labelled as in `Reading`."""
        model, loss = self.model, loss or self.model.method.loss
        by_docs = model.first or model.features.set_names or model.method.potentials or isinstance(loss, TextLoss)
        lexical = labelled and not by_docs and model.place.vocab is model.vocab
        encoder.pinned = True  # the parts of a text share their bags
        reading = Reading(
            model.annotation, model.read, model.partials, model.name, model.read_by_functions, loss, labelled, lexical
        )
        try:
            return encode_examples(examples, encoder, reading)
        except DataError as error:
            kind = NoExamplesError if isinstance(error, NoExamplesError) else DataError
            raise kind(f"Component {model.name!r}: {error}") from None

    def use_texts(self, nlp: Language | None, terms: Mapping[str, Texts] | None = None) -> None:
        """Take the texts of terms from `terms`, or from the corpora of a config.  RAISES ConfigError: If unknown."""
        self.texts = find_texts(self.model.name, self.settings, terms or {}, nlp)
        if nlp is not None and self.settings and not self.options.annotators:
            self.set(annotators=frozen_annotators(nlp, self.model.name))

    def _encode_term(self, name: str, encoder: Encoder) -> EncodedCorpus:
        settings, examples = self.settings[name], self.texts[name]()
        for pipe in self.options.annotators:
            examples = annotated(pipe, examples)
        examples = examples if self.options.watch is None else self.options.watch(name, examples)
        try:
            found = self.encode(examples, encoder, settings.loss, not is_unlabelled(settings.loss))
        except NoExamplesError:
            raise no_texts(self.model.name, name, settings) from None
        check_found(self.model.name, name, settings, found)
        return found

    def numbered(self, name: str, corpus: EncodedCorpus) -> TermData:
        """Return a corpus with its labels as numbers of the model's tags."""
        settings = self.settings.get(name, TermSettings(self.model.method.loss))
        return TermData(name, settings, corpus, relabelled(self.model, corpus, settings.loss))

    def _complete_terms(self) -> list[TermData]:
        """Return all terms, after reading missing texts.  RAISES DataError: If a term has none."""
        model, there = self.model, {term.name: term for term in self.terms}
        check_complete(model.name, self.settings, {*there, *self.texts})
        return [
            there[name] if name in there else self.numbered(name, self._encode_term(name, model.encoder))
            for name in self.settings
        ]

    def _add_texts(self, given: Mapping[str, Texts]) -> None:
        """Use other texts for some terms; those that `initialize` had none of get weights for their features."""
        if not given:
            return
        session = self.model.session
        self.texts.update(find_texts(self.model.name, self.settings, given, None))
        session.terms = [term for term in session.terms if term.name not in given]
        if self._kept is not None and session.initial is not None:
            self.model.strings = self._kept.strings
            new = {name: self._encode_term(name, self._kept.encoder) for name in given}
            self._kept = self._kept._replace(corpora={**self._kept.corpora, **new})
            self.begin_anew()

    # The first stage

    def _learn_first(
        self,
        get_examples: Callable[[], Iterable[Example]] | None,
        labels: Sequence[str] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Train the first stage, if attributes read its labels, and label the training corpus for the second one.

        get_examples (Callable | None): Returns the training corpus; None if there is none yet.
        keep (bool): Keep the first stage, which is trained, and only label the corpus.
        """
        model = self.model
        if model.first is None:
            return
        first, model.held_out = model.new_first(), {}
        (folds,) = (plugin.folds for plugin in model.method.attributes.values() if isinstance(plugin, LabelAttributes))
        if get_examples is not None and not self.options.postponed:
            training, texts = Training(first), Noted(get_examples())
            training.set(keeps=True)
            training.seed, training.source = self.seed, None if self.source is None else self.source.first
            try:
                training.initialize(lambda: texts, labels, None)
            except DataError:  # it is raised again where the corpus is encoded for the second stage
                return

            def label(held: Offsets, others: Offsets) -> Ints:
                training.train_on(others)
                return training.labels_of(held)

            found = jackknife(training.data.encoded.offsets, texts, label, folds, self.seed or 0, self.report)
            model.held_out = found if not keep else _renamed(found, first.labels.tags, model.first.labels.tags)
            if not keep:
                self.report("First stage: training on the whole corpus")
                training.train_on(None)
        model.first = model.first if keep else first

    def train_on(self, sequences: Offsets | None) -> None:
        """Begin anew on some sequences, and train until the optimizer has converged.  RAISES KeyboardInterrupt."""
        self.begin_anew(sequences)
        if self.fit(None, None, None, None).reason == "interrupted":
            raise KeyboardInterrupt

    def labels_of(self, sequences: Offsets) -> Ints:
        """Return the labels [T] that the present model gives to sequences of the corpus that is kept."""
        model, kept = self.model, self._kept
        assert kept is not None
        encoded = model.encoder.adopted(kept.corpora[TRAIN].take(sequences).data.encoded, kept.encoder)
        n_threads = model.method.n_threads or threads.available()
        posterior = model.crf.posterior(encoded, model.labels.constraints, rules=model.rules)
        return posterior.decode(model.method.decoder, n_threads)

    # What is worth a warning

    def _warn(self, absent: Sequence[str], nlp: Language | None) -> None:
        """Warn of columns, scores and losses that do not fit the training."""
        name, key = self.model.name, self.model.annotation.score_name
        if absent:
            util.logger.info(
                "[%s] No training example has %s set on input: features of it work only where components named in "
                "annotating_components set it, or the corpus reader gives it.",
                name, ", ".join(absent),
            )  # fmt: skip
        known = nlp is None or key in ("tag_acc", "spans_chunks_f", "ents_f")  # spaCy knows them from the factories
        if nlp is not None and not known and not (nlp.config.get("training") or {}).get("score_weights", {}).get(key):
            util.logger.warning(
                "[%s] [training.score_weights] gives no weight to %s, the score of this component: "
                "set it, or the best model cannot be selected.",
                name, key,
            )  # fmt: skip
        if all(map(is_unlabelled, [self.model.method.loss, *(term.loss for term in self.settings.values())])):
            util.logger.warning("[%s] No loss of the objective learns from gold labels; was a term meant?", name)

    def _warn_of_missing_columns(self) -> None:
        for term in self.terms:
            if term.found.unset:
                util.logger.warning(
                    "[%s] The texts of the term %s have no %s, which features read. Give texts that have it, or list "
                    "the component that sets it in annotating_components: 'crfseq fit' applies it when it is trained, "
                    "'spacy train' only if it is frozen.",
                    self.model.name, term.name, ", ".join(term.found.unset),
                )  # fmt: skip

    # spaCy's steps

    def update(self, examples: Sequence[Example], losses: dict[str, float], drop: float = 0.0) -> None:
        """Add a batch; if there are neural networks, learn from it at once, with this dropout of theirs."""
        model = self.model
        model.trained()
        if model.networks and not any(len(example.predicted) for example in examples):
            return
        with model.lock:
            keys = [self.content_key(example) for example in examples]
            if self._growing is not None:
                self._meet(examples, keys, self._growing)
            if model.method.terms and not self.terms:
                model.session.add_terms(self._complete_terms())
            if model.session.initial is not None:
                self._warn_of_missing_columns()
            if model.networks:
                self._begin_without_networks()
            docs = [example.predicted for example in examples]  # a network that fails must leave no examples behind
            found = {number: network.begin_update(docs, drop) for number, network in model.networks.items()}
            model.session.add(examples, keys, model.compile, losses)
            if found:
                self._update_networks(found)

    def finish_update(self) -> None:
        """Run the optimizer of the config on the examples added."""
        model = self.model
        crf, _ = model.trained()
        with model.lock:
            model.session.work(self.objective, crf.theta, model.name, model.method.inner_iterations)

    def figures(self, *, restart: bool = False) -> StepReport | None:
        """Return `Session.figures` of the training that `update` drives."""
        return self.model.session.figures(restart)

    def _meet(self, examples: Sequence[Example], keys: Sequence[int], growing: Growing) -> None:
        """Add features and labels of new examples, after an initialization without any.

        The model is rebuilt, and keeps the weights learnt so far, when there are a quarter more examples or when a
        batch holds nothing new.  So a corpus is read a few times in all.
        """
        model, met = self.model, growing.met
        new = {key: example for key, example in zip(keys, examples, strict=True) if key not in met}
        if model.annotation.scheme is not None:
            gold = [tag for one in new.values() for tag in known_tags(gold_tags(model.annotation, one, model.name))]
            labels = model.annotation.public_labels([tag for tag in dict.fromkeys(gold) if tag is not None])
            if added := [tag for tag in model.annotation.all_tags(labels) if tag not in model.labels.tags]:
                model.add_tags(added)
        met.update(new)
        if growing.n_built < len(met) and (not new or len(met) > 1.25 * growing.n_built):
            old, growing.n_built = model.crf, len(met)
            self._learn_first(met.values)
            self.start(self.collect(met.values()))
            carry_over(old, model.crf)

    def content_key(self, example: Example) -> int:
        """Return a hash of what training reads of an example: text, token columns, gold labels and weight."""
        model, reference = self.model, example.reference
        has_functions = bool(model.features.set_names)  # they may read anything, most likely these columns
        read = TOKEN_COLUMNS if has_functions else model.encoder.columns
        evidence = read_evidence(reference, model.name, ("user",))
        return hash((
            example.predicted.to_array(["ORTH", "SENT_START", *read]).tobytes(),
            hash_of(example.predicted) if has_functions else 0,
            reference.to_array(["ORTH"]).tobytes(),
            model.annotation.gold_content(reference),
            repr((evidence.spans, sorted(evidence.allowed.items()))),
            weight_of(reference),
        ))  # fmt: skip

    def _begin_without_networks(self) -> None:
        """Train all other parameters first, for as many epochs as neural networks ask for."""
        model, n_epochs = self.model, max(network.sparse_epochs for network in self.model.networks.values())
        data = model.session.initial
        if data is not None and n_epochs:
            none = np.zeros((1, len(model.labels.tags)), model.crf.theta.dtype)  # the inputs of all tokens are 0
            objective = self._objective_with(data, {number: Given(none, number) for number in model.networks})
            model.session.begin(objective, model.crf.theta, n_epochs)

    def _update_networks(self, found: Mapping[int, tuple[Floats, Callable[[Floats], None]]]) -> None:
        """Run the optimizer of the config on a batch with these scores of networks, which get their gradient."""
        model = self.model
        given = {number: Given(emissions, number) for number, (emissions, _) in found.items()}

        def objective_on(data: Dataset, terms: Sequence[Term]) -> Objective:
            inputs = list(data.encoded.inputs)
            for number in given:
                inputs[number] = np.arange(data.encoded.n_tokens)
            return self._objective_with(data._replace(encoded=data.encoded._replace(inputs=tuple(inputs))), given)

        model.session.work(objective_on, model.trained()[0].theta, model.name, model.method.inner_iterations)
        for number, (_, backprop) in found.items():
            backprop(given[number].gradient)

    def _objective_with(self, data: Dataset, found: Mapping[int, Given]) -> Objective:
        """Return the objective on data with the scores of networks, by the numbers of their inputs."""
        crf, _ = self.model.trained()
        others = [found.get(number, potential) for number, potential in enumerate(crf.small)]
        return self.objective(data, (), Sum(crf.linear, others))

    # All at once

    def objective(
        self, data: Dataset, terms: Sequence[Term] | None = None, potential: Potential | None = None
    ) -> Objective:
        """Return the objective of the current run on data, and on terms or all of their texts.

        potential (Potential | None): In place of the model's.
        """
        model, session = self.model, self.model.session
        crf, _ = model.trained()
        weighted = session.weighted
        sample = session.sample if potential is None else None
        first = Term(data, model.method.loss, name=TRAIN, sample=sample)
        return Objective(
            potential or crf.potential,
            [term._replace(loss=self.bound(term.loss)) for term in (first, *(weighted if terms is None else terms))],
            model.method.regularizer,
            n_total=session.n_total + sum(term.data.n_sequences for term in weighted),
            n_threads=model.method.n_threads,
            dictionary=crf.dictionary,
            templates=None if crf.templates is None else crf.templates[0],
        )

    def bound(self, loss: Loss) -> Loss:
        """Return a loss for the model's tags."""
        if not isinstance(loss, TextLoss):
            return loss
        tags = self.model.labels.tags
        key = id(loss), tags
        if key not in self._bound:  # the loss is kept, so that no other gets its id
            self._bound[key] = loss, loss.bind(tags, self.model.annotation.scheme)
        return self._bound[key][1]

    def taken_over(self) -> str:
        """Return how much of the present model comes from `source`, empty without one."""
        return "" if self.source is None else summary(self.source, self.model)

    def fit(
        self,
        examples: Iterable[Example] | None,
        dev: Iterable[Example] | None,
        terms: Mapping[str, Texts] | None,
        seed: int | None,
        checkpoint: Checkpoint | None = None,
        **settings: Any,
    ) -> FitResult:
        """Do what `CRFComponent.fit` says; the settings are those of `training.fit.fit`.

        checkpoint (Checkpoint | None): Where the state of the run is saved, and what it continues from.
        """
        model, optimizer = self.model, self.optimizer(seed)
        with self.training_on(examples, dev, terms) as (objective, evaluate):
            n_sequences = model.n_sequences
            result = self._fit(objective, optimizer, evaluate, checkpoint, settings)
            model.set_parameters(result.best)
            if evaluate is not None:
                result = result._replace(scores=(evaluate.scores(result.best), evaluate.scores(result.last)))
        if self.source is not None and self.source.n_sequences > n_sequences:  # or the corpus has the old texts, too
            model.session.n_total += self.source.n_sequences
        if self.remote is not None:
            self.remote.finish(model)
        return result

    def _fit(
        self,
        objective: Objective,
        optimizer: Optimizer,
        evaluate: Evaluator | None,
        checkpoint: Checkpoint | None,
        settings: dict[str, Any],
    ) -> FitResult:
        """Find the weights; those of a trained model change, from what they are."""
        model, theta = self.model, self.model.crf.theta
        if checkpoint is not None:
            facts = {**_facts(model.crf, objective), **({} if self.remote is None else self.remote.facts())}
            start = partial(optimizer.start, theta)
            result, begun = checkpoint.begin(model.name, facts, theta, start, objective.blocks)
            if result is not None:
                return result
            settings |= {"saver": checkpoint, "begun": begun}
        if self.source is None:
            result = fit(objective, optimizer, theta, evaluate=evaluate, **settings)
        else:
            factors = label_factors(self.source, model)
            scale = model.crf.by_label(factors)
            score = None if evaluate is None else lambda change: evaluate(theta + scale * change)
            change = objective.around(theta, factors, scale)
            result = fit(change, optimizer, np.zeros_like(theta), evaluate=score, **settings)
            result = result._replace(best=theta + scale * result.best, last=theta + scale * result.last)
        if checkpoint is not None:
            checkpoint.end(model.name, result)
        return result

    @contextmanager
    def training_on(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        terms: Mapping[str, Texts] | None = None,
    ) -> Iterator[tuple[Objective, Evaluator | None]]:
        """Yield the objective on training data, and the score on `dev` as a function of parameters.

        The caller trains and then calls `set_parameters`.  Arguments as in `CRFComponent.fit`.
        RAISES DataError: If there is nothing to train on.
        """
        model = self.model
        model.refuse_networks("this", "Use 'python -m spacy train', or nlp.update.")
        with model.lock:
            model.sync()
            objective = self._begin(examples, terms) if self.remote is None else self.remote.objective(self)
            model.encoder.pinned = True
            evaluate = self.evaluator(list(dev)) if dev is not None else None
        try:
            yield objective, evaluate
        finally:
            self._release()

    def _begin(self, examples: Iterable[Example] | None, terms: Mapping[str, Texts] | None) -> Objective:
        """Begin a run on examples, or on those of `initialize`, and return its objective."""
        model = self.model
        self._add_texts(terms or {})
        data = model.session.initial if examples is None else self._encode_again(examples)
        if data is None:
            raise DataError(f"Component {model.name!r}: give examples to fit, or call initialize just before.")
        others, seen_all = self._complete_terms(), model.session.seen_all
        model.session = Session(self.optimizer(), data, terms=others, seen_all=seen_all)
        self._warn_of_missing_columns()
        return self.objective(data)

    def _encode_again(self, examples: Iterable[Example]) -> Dataset:
        """Return examples with the numbers of the present model's features and tags."""
        model = self.model
        if self._growing is not None:
            examples = list(examples)
            self._meet(examples, [self.content_key(example) for example in examples], Growing())
            self._growing = None
        if model.first is not None and not model.held_out:
            given = list(examples) if isinstance(examples, Iterator) else examples
            examples = given
            self._learn_first(lambda: given, model.labels.tags, keep=model.first.has_weights)
        return relabelled(model, self.encode(examples, model.encoder))

    @contextmanager
    def encoding(self) -> Iterator[Callable[[list[Doc]], tuple[Encoded, DocColumns, Bools | None]]]:
        """Yield a function that turns Docs into numbers, which stay valid together until the end of the context.

        It also returns the labels that tokens may have in a prediction [T, L], or None if all may have all.  This is
        for further training of the model; the caller trains and calls `set_parameters` within the context.
        """
        model = self.model
        with model.lock:
            model.sync()
            model.session.release()
            model.encoder.pinned = True
        try:
            yield self._encode_allowed
        finally:
            self._release()

    def _release(self) -> None:
        with self.model.lock:
            self.model.session.release()
            self.model.encoder.pinned = False

    def _encode_allowed(self, docs: list[Doc]) -> tuple[Encoded, DocColumns, Bools | None]:
        encoded, columns = self.model.encode(docs)
        return encoded, columns, allowed_labels(self.model.labels, docs, columns)[0]

    def evaluator(self, dev: list[Example]) -> Evaluator:
        """Return a function from parameters [D] to the F1 of spans on `dev`, or the accuracy of known tags."""
        return Evaluator(self.model, dev, *self._encode_allowed([example.predicted for example in dev]))


def _facts(crf: LinearChainCRF, objective: Objective) -> dict[str, str]:
    """Return what must be the same where a run continues from a checkpoint."""
    gold, keys = blake2b(digest_size=16), blake2b(digest_size=16)
    for term in objective.terms:
        gold.update(term.data.gold.data)
    for block in crf.keys:
        keys.update(block.data)
    return {
        "the number of sequences": f"{objective.n_total:,}",
        "labels": ", ".join(crf.labels),
        "the number of parameters": f"{crf.theta.size:,} ({crf.theta.dtype})",
        "the hash of features": keys.hexdigest(),
        "the hash of gold labels": gold.hexdigest(),
    }


def _look_ahead(examples: Iterable[Example]) -> tuple[Iterable[Example], bool]:
    """Return the examples, and whether they are those that spaCy makes up for ``nlp.initialize()`` without any."""
    if isinstance(examples, Corpus):
        return examples, False
    stream = iter(examples)
    first = list(islice(stream, 2))
    made_up = len(first) == 1 and isinstance(first[0], Example)
    if made_up:
        made_up = [token.orth_ for token in first[0].reference] == ["x", "y", "z"]
    return chain(first, stream), made_up


def _renamed(labels: Mapping[int, Ints], tags: Sequence[str], others: Sequence[str]) -> dict[int, Ints]:
    """Return the labels of Docs, numbers of `tags`, as numbers of other tags; those without one are missing."""
    numbers = np.array([others.index(tag) if tag in others else MISSING for tag in tags] + [MISSING], np.int32)
    return {key: numbers[found] for key, found in labels.items()}
