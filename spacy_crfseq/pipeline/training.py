"""The training of a component: texts are encoded, encoded texts become a model of zero weights, and `fit` finds these.

Each step returns a value: `Training.collect` a `TrainingSet`, `build_model` a model with its data, `training.fit.fit`
weights.  Folds, sweeps and first stages begin anew with some sequences of the same set, `--from` with the weights of
another model, and the steps of ``spacy train`` (`steps`) with the model of zero weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, pairwise
from typing import Any, Protocol

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import DataError
from ..features.attributes import TOKEN_COLUMNS
from ..features.documents import APART
from ..features.encoder import Encoded
from ..features.index import HashIndex
from ..features.noted import hash_of
from ..features.protocol import LabelAttributes
from ..model import LinearChainCRF
from ..optimizers.online import seeded
from ..potentials.protocol import Potential
from ..training.dataset import Dataset, folds
from ..training.fit import Checkpoint, FitResult, fit
from ..training.objective import Objective, Term
from ..types import MISSING, Bools, Floats, Ints, Loss, Offsets, Optimizer, TextLoss
from .build import Evaluator, aligned, begin_with, build_model, carry_over, check_source, label_factors
from .doc_model import UNCALIBRATED, DocModel
from .encode import TRAIN, CorpusEncoder, TermData, Texts, TrainingSet, find_texts
from .evidence import read_evidence, weight_of
from .examples import Corpus
from .labels import PartialTable, gold_tags, known_tags
from .prediction import DocColumns, allowed_labels, doc_key

N_SAMPLE = 10
"""Documents from which the sizes of neural networks are inferred."""


class Remote(Protocol):
    """Texts that lie on other machines, see `clusters`."""

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


class Training(CorpusEncoder):
    """Trains a model.

    remote (Remote | None): Other machines that have the texts.
    corpus (TermData | None): The training corpus that `initialize` has encoded, until a run ends.
    terms (list[TermData]): Terms in addition to it.
    kept (TrainingSet | None): All texts, to begin anew with.
    met (dict | None): The examples that `update` has met after an initialization without any, by their keys.
    run (Any): What `steps` keeps between two calls; None to begin a run.
    """

    def __init__(self, model: DocModel, remote: Remote | None = None) -> None:
        super().__init__(model)
        self.remote = remote
        self.corpus: TermData | None = None
        self.terms: list[TermData] = []
        self.kept: TrainingSet | None = None
        self.met: dict[int, Example] | None = None
        self._n_built = 0  # how many of those the model has
        self.run: Any = None

    def optimizer(self, seed: int | None = None) -> Optimizer:
        """Return the optimizer of the config; without a seed of its own, it uses `seed`, else that of the plan, else 0.

        RAISES ConfigError: If the seed is out of range, or it does not work on a cluster.
        """
        optimizer = seeded(self.model.method.optimizer, self.plan.seed if seed is None else seed)
        return optimizer if self.remote is None else self.remote.optimizer(optimizer, self.model.name)

    @property
    def data(self) -> Dataset:
        """The training set as `initialize` has encoded it.  RAISES DataError: If training has released it."""
        if self.corpus is None:
            raise DataError(f"Component {self.model.name!r}: nothing is encoded; call initialize just before.")
        return self.corpus.data

    def forget(self) -> None:
        """Drop encoded texts, and a run of steps."""
        self.corpus, self.terms, self.run = None, [], None

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
        self.set(seed=settings.get("seed"), streamed=settings.get("max_epochs") == -1)
        model.method.check_transitions(model.name)
        if self.plan.source is not None:
            check_source(self.plan.source, model)
        self.use_texts(nlp, terms)
        examples, made_up = get_examples(), False
        if not isinstance(examples, Corpus):
            first = list(islice(stream := iter(examples), 2))
            # by spaCy, for ``nlp.initialize()`` without any
            made_up = len(first) == 1 and isinstance(first[0], Example)
            made_up = made_up and [token.orth_ for token in first[0].reference] == ["x", "y", "z"]
            examples = chain(first, stream)
        sample = list(islice(stream := iter(examples), N_SAMPLE)) if model.networks else []
        examples = chain(sample, stream) if sample else examples
        if self.remote is not None:
            model.set_tags(self._choose_tags(self.remote.encode(self, nlp, examples), labels, False))
            self.warn((), nlp)
            self.remote.start(self)
        else:
            self._learn_first(None if made_up else get_examples, labels)
            data = self.collect(examples)
            tags_of = {name: corpus.tags for name, corpus in data.corpora.items()}
            made_up = made_up and not tags_of[TRAIN]
            tags = self._choose_tags(tags_of, labels, made_up)
            self.warn(data.corpora[TRAIN].absent, nlp)
            self.kept = data._replace(tags=tags)
            self.begin_anew()
            for network in model.networks.values():
                network.initialize([example.predicted for example in sample], len(tags))
        model.cfg.update(UNCALIBRATED)  # whatever was fitted belonged to other weights
        self.met, self._n_built = {} if made_up else None, 0
        if made_up:
            self.forget()

    def _choose_tags(self, tags_of: Mapping[str, list[str]], labels: Sequence[str] | None, made_up: bool) -> list[str]:
        """Return the tags of the model to be, given those of each corpus, which spaCy may have made up.

        RAISES DataError: If there are none.
        """
        model, annotation, source = self.model, self.model.annotation, self.plan.source
        if made_up:
            labels = labels or model.labels.tags
            if model.has_weights and model.crf.theta.any():
                util.logger.warning("[%s] initialized again without examples: its weights are gone.", model.name)
        if not tags_of[TRAIN] and not (made_up and (labels or annotation.scheme)):
            what = ", ".join(f"{key} = {value!r}" for key, value in annotation.settings().items())
            raise DataError(
                f"Component {model.name!r}: the training data hold no gold annotation for it ({what}). "
                "Check the columns of the corpus reader, or that the documents were annotated; in Python, call "
                "nlp.initialize(lambda: examples), or add_label before nlp.initialize()."
            )
        tags = annotation.all_tags(labels) if labels else annotation.found_tags(sorted(set().union(*tags_of.values())))
        return tags if source is None else list(dict.fromkeys([*source.labels.tags, *tags]))

    def begin_anew(self, sequences: Offsets | None = None) -> None:
        """Set all weights to zero, as `initialize` did on the same corpus, with the current settings.

        Only settings that affect neither features nor labels may have changed since.
        sequences (Offsets | None): Those of the corpus to learn from, as if the others had never been read, except
            with `min_count`, which counts their tokens; None for all.
        """
        data = self.kept
        assert data is not None
        if self.plan.keeps or data.corpora.keys() != {TRAIN, *self.settings}:  # `fit` may add the texts of a term
            shared = data.strings, self.partials.candidates
            data = deepcopy(data, {id(value): value for value in shared})  # training changes the rest
        else:
            self.kept = None
        self.model.set_tags(data.tags)
        self.start(data if sequences is None else data.take(sequences))

    def start(self, data: TrainingSet) -> None:
        """Begin with a model of zero weights, or those of the source, for these texts and the tags that were set."""
        model, source = self.model, self.plan.source
        each = {name: data.corpora[name] for name in (TRAIN, *self.settings) if name in data.corpora}
        crf, (self.corpus, *self.terms) = build_model(
            model.method, data.encoder, [self.numbered(name, corpus) for name, corpus in each.items()],
            model.labels.tags, model.labels.constraints, None if source is None else aligned(source, model),
        )  # fmt: skip
        model.start(crf, data.encoder, self.corpus.data.n_sequences, strings=data.strings)
        self.run = None

    def collect(self, examples: Iterable[Example]) -> TrainingSet:
        """Return examples and terms as numbers, and the encoder with their features."""
        encoder, strings = self.model.new_encoder()
        if self.plan.source is not None:
            begin_with(encoder, self.plan.source, strings)
        if self.model.method.tag_dictionary_size:
            encoder.words = HashIndex()
        self.partials = PartialTable(self.model.annotation)
        corpus = self.encode(examples, encoder, strings)  # before the terms, so that its features come first
        terms = {name: self.encode_term(name, encoder, strings) for name in self.plan.texts}
        return TrainingSet(encoder, {TRAIN: corpus, **terms}, strings)

    # Texts of terms

    def complete_terms(self) -> None:
        """Read the texts of terms that are missing.  RAISES DataError: If a term has none."""
        model, settings = self.model, self.settings
        there = {term.name: term for term in self.terms}
        for name in settings.keys() - {*there, *self.plan.texts}:
            example: Any = f'terms={{"{name}": docs}}'
            raise DataError(
                f"Component {model.name!r}: the term {name!r} has no texts. Name their corpus under [components."
                f"{model.name}.terms.{name}], which 'crfseq fit' reads for any component and 'spacy train' for those "
                f"it initializes; in Python, call fit({example}). To train without terms, set pipe.method = "
                "pipe.method._replace(terms={})."
            )
        self.terms = [
            there[name] if name in there else self.numbered(name, self.encode_term(name, model.encoder))
            for name in settings
        ]

    def warn_of_missing_columns(self) -> None:
        """Warn of terms whose texts lack columns that features read."""
        for term in self.terms:
            if term.found.unset:
                util.logger.warning(
                    "[%s] The texts of the term %s have no %s, which features read. Give texts that have it, or list "
                    "the component that sets it in annotating_components: 'crfseq fit' applies it when it is trained, "
                    "'spacy train' only if it is frozen.",
                    self.model.name, term.name, ", ".join(term.found.unset),
                )  # fmt: skip

    # The first stage

    def _learn_first(
        self,
        get_examples: Callable[[], Iterable[Example]] | None,
        labels: Sequence[str] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Train the first stage, if attributes read its labels, and label the training corpus for the second one.

        A model labels its own training texts too well to show a second stage what to expect of new ones.  So the corpus
        is labelled in parts, each by a first stage that was trained on the others: the jackknife of Cohen & Carvalho
        (2005), "Stacked sequential learning", section 2.

        get_examples (Callable | None): Returns the training corpus; None if there is none yet.
        keep (bool): Keep the first stage, which is trained, and only label the corpus.
        """
        model, source = self.model, self.plan.source
        if model.first is None:
            return
        first, self.held_out = model.new_first(), {}
        (k,) = (plugin.folds for plugin in model.method.attributes.values() if isinstance(plugin, LabelAttributes))
        if get_examples is not None and not self.plan.postponed:
            training, keys, sizes = Training(first), list[int](), list[int]()
            training.set(keeps=True, seed=self.plan.seed, source=None if source is None else source.first)
            try:
                training.initialize(lambda: _noted(get_examples(), keys, sizes), labels, None)
            except DataError:  # it is raised again where the corpus is encoded for the second stage
                return
            held_out = training.jackknife(keys, sizes, k, self.plan.seed or 0, self.report)
            if keep:  # the labels that the first stage has, too, have other numbers there
                tags = model.first.labels.tags
                numbers = [tags.index(tag) if tag in tags else MISSING for tag in first.labels.tags]
                renamed = np.array([*numbers, MISSING], np.int32)
                self.held_out = {key: renamed[old] for key, old in held_out.items()}
            else:
                self.held_out = held_out
                self.report("First stage: training on the whole corpus")
                training.train_on(None)
        model.first = model.first if keep else first

    def jackknife(
        self, keys: Sequence[int], sizes: Sequence[int], k: int, seed: int, report: Callable[[str], None]
    ) -> dict[int, Ints]:
        """Return the labels of the Docs of the corpus that is kept, by their keys, from models that have not seen them.

        A document is split if it is the only one.  Labels are `MISSING` if there is but one sentence.
        keys, sizes (Sequence[int]): Of the Docs; sizes in tokens.
        k (int): Parts of the corpus, or as many as there are different documents.
        report (Callable): Called with a line of progress before each part.
        """
        ends, offsets, units = np.cumsum([0, *sizes]), self.data.encoded.offsets, list(keys)
        bounds = np.searchsorted(offsets, ends)
        if len(set(units)) < 2:  # one document, perhaps in copies
            units = [i for begin, end in pairwise(bounds.tolist()) for i in range(end - begin)]
            bounds = np.arange(len(offsets))
        labels = np.full(ends[-1], MISSING, np.int32)
        parts = folds(units, min(k, len(set(units))), seed) if len(set(units)) > 1 else []
        for number, held in enumerate(parts, 1):
            report(f"First stage: part {number} of {len(parts)} is labelled by a model of the others")
            sequences = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in held])
            tokens = np.concatenate([np.arange(offsets[bounds[i]], offsets[bounds[i + 1]]) for i in held])
            self.train_on(np.setdiff1d(np.arange(len(offsets) - 1), sequences))
            labels[tokens] = self.labels_of(sequences)
        return {key: labels[begin:end] for key, (begin, end) in zip(keys, pairwise(ends.tolist()), strict=True)}

    def train_on(self, sequences: Offsets | None) -> None:
        """Begin anew on some sequences, and train until the optimizer has converged.  RAISES KeyboardInterrupt."""
        self.begin_anew(sequences)
        if self.fit(None, None, None, None).reason == "interrupted":
            raise KeyboardInterrupt

    def labels_of(self, sequences: Offsets) -> Ints:
        """Return the labels [T] that the present model gives to sequences of the corpus that is kept."""
        model, kept = self.model, self.kept
        assert kept is not None
        encoded = model.encoder.adopted(kept.corpora[TRAIN].take(sequences).data.encoded, kept.encoder)
        posterior = model.crf.posterior(encoded, model.labels.constraints, rules=model.rules)
        return posterior.decode(model.method.decoder, model.method.n_threads)

    # Examples that come without an initialization

    def meet(self, examples: Sequence[Example], keys: Sequence[int]) -> None:
        """Add features and labels of new examples, after an initialization without any.

        The model is rebuilt, and keeps the weights learnt so far, when there are a quarter more examples or when a
        batch holds nothing new.  So a corpus is read a few times in all.
        keys (Sequence[int]): Their `content_key`.
        """
        model, met = self.model, self.met
        assert met is not None
        new = {key: example for key, example in zip(keys, examples, strict=True) if key not in met}
        if model.annotation.scheme is not None:
            gold = [
                tag
                for new_example in new.values()
                for tag in known_tags(gold_tags(model.annotation, new_example, model.name))
            ]
            labels = model.annotation.public_labels([tag for tag in dict.fromkeys(gold) if tag is not None])
            if added := [tag for tag in model.annotation.all_tags(labels) if tag not in model.labels.tags]:
                self.add_tags(added)
        met.update(new)
        if self._n_built < len(met) and (not new or len(met) > 1.25 * self._n_built):
            old, self._n_built = model.crf, len(met)
            self._learn_first(met.values)
            self.start(self.collect(met.values()))
            carry_over(old, model.crf)

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags; a trained model gets weights of zero for them, and a run of steps begins again."""
        self.model.add_tags(tags)
        self.partials.resolve(self.model.labels.tags)
        self.run = None if self.run is None else self.run.restarted()

    def content_key(self, example: Example) -> int:
        """Return a hash of what training reads of an example: text, token columns, gold labels and weight."""
        model, reference = self.model, example.reference
        has_functions = bool(model.features.set_names)  # they may read anything, most likely these columns
        read = TOKEN_COLUMNS if has_functions else model.encoder.columns
        evidence = read_evidence(reference, model.name, ("user",))
        return hash((
            example.predicted.to_array(["ORTH", "SENT_START", *read]).tobytes(),
            (hash_of(example.predicted), APART in example.predicted.user_data) if has_functions else 0,
            reference.to_array(["ORTH"]).tobytes(),
            model.annotation.gold_content(reference),
            repr((evidence.spans, sorted(evidence.allowed.items()))),
            weight_of(reference),
        ))  # fmt: skip

    # All at once

    def objective(
        self, first: Term, terms: Sequence[Term] | None = None, potential: Potential | None = None
    ) -> Objective:
        """Return the objective of the current run.

        first (Term): The training corpus, or a part of it.
        terms (Sequence[Term] | None): Those that are added; None for all, with all of their texts.
        potential (Potential | None): In place of the model's.
        """
        model, weighted = self.model, [term.term() for term in self.terms if term.settings.weight]
        crf, _ = model.trained()
        each = (first, *(weighted if terms is None else terms))
        return Objective(
            potential or crf.potential,
            [term._replace(loss=self.bound(term.loss)) for term in each],
            model.method.regularizer,
            n_total=model.n_sequences + sum(term.data.n_sequences for term in weighted),
            n_threads=model.method.n_threads,
            dictionary=crf.dictionary,
            templates=None if crf.templates is None else crf.templates[0],
        )

    def bound(self, loss: Loss) -> Loss:
        """Return a loss for the model's tags."""
        return loss.bind(self.model.labels.tags, self.model.annotation.scheme) if isinstance(loss, TextLoss) else loss

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
        model, source, optimizer = self.model, self.plan.source, self.optimizer(seed)
        with self.training_on(examples, dev, terms) as (objective, evaluate):
            (crf, _), n_sequences, result = model.trained(), model.n_sequences, None
            if checkpoint is not None:
                facts = {**_facts(crf, objective), **({} if self.remote is None else self.remote.facts())}
                begin = partial(optimizer.start, crf.theta)
                result, begun = checkpoint.begin(model.name, facts, crf.theta, begin, objective.blocks)
                settings |= {"saver": checkpoint, "begun": begun}
            if result is None and source is not None:  # find the change of its weights
                theta, factors = crf.theta, label_factors(source, model)
                scale = crf.by_label(factors)
                score = None if evaluate is None else partial(_score_of_change, evaluate, theta, scale)
                change = objective.around(theta, factors, scale)
                result = fit(change, optimizer, np.zeros_like(theta), evaluate=score, **settings)
                result = result._replace(best=theta + scale * result.best, last=theta + scale * result.last)
            elif result is None:
                result = fit(objective, optimizer, crf.theta, evaluate=evaluate, **settings)
            if checkpoint is not None:
                checkpoint.end(model.name, result)
            model.set_parameters(result.best)
            if evaluate is not None:
                result = result._replace(scores=(evaluate.scores(result.best), evaluate.scores(result.last)))
        if source is not None and source.n_sequences > n_sequences:  # or the corpus has the old texts, too
            model.n_sequences += source.n_sequences
        if self.remote is not None:
            self.remote.finish(model)
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
            objective = self._begin(examples, terms or {}) if self.remote is None else self.remote.objective(self)
            model.trained()[1].pinned = True
            evaluate = self.evaluator(list(dev)) if dev is not None else None
        try:
            yield objective, evaluate
        finally:
            self.release()

    def _begin(self, examples: Iterable[Example] | None, terms: Mapping[str, Texts]) -> Objective:
        """Begin a run on examples, or on those of `initialize`, and return its objective."""
        model = self.model
        if terms:  # those that `initialize` had none of get weights for their features
            texts = find_texts(model.name, self.settings, terms, None)
            self.set(texts={**self.plan.texts, **texts})
            self.terms = [term for term in self.terms if term.name not in terms]
            if self.kept is not None and self.corpus is not None:
                encoder, corpora, strings = self.kept[:3]
                new = {name: self.encode_term(name, encoder, strings) for name in terms}
                self.kept = self.kept._replace(corpora={**corpora, **new})
                self.begin_anew()
        if examples is not None:
            data = self._encode_again(examples)
        elif self.corpus is not None:
            data = self.corpus.data
        else:
            raise DataError(f"Component {model.name!r}: give examples to fit, or call initialize just before.")
        if model.method.terms:
            self.complete_terms()
            self.warn_of_missing_columns()
        model.n_sequences, self.run = data.n_sequences, None
        self.plan = self.plan._replace(streamed=False)
        return self.objective(Term(data, model.method.loss, name=TRAIN))

    def _encode_again(self, examples: Iterable[Example]) -> Dataset:
        """Return examples with the numbers of the present model's features and tags."""
        model = self.model
        if self.met is not None:
            examples, self.met, self._n_built = list(examples), {}, 0
            self.meet(examples, [self.content_key(example) for example in examples])
            self.met = None
        if model.first is not None and not self.held_out:
            given = list(examples) if isinstance(examples, Iterator) else examples
            examples = given
            self._learn_first(lambda: given, model.labels.tags, keep=model.first.has_weights)
        return self.numbered(TRAIN, self.encode(examples, model.encoder)).data

    def release(self) -> None:
        """Free all data, after the last step of a run."""
        with self.model.lock:
            self.forget()
            self.model.trained()[1].pinned = False

    def encode_allowed(self, docs: list[Doc]) -> tuple[Encoded, DocColumns, Bools | None]:
        """Return Docs as numbers, the columns read, and the labels that tokens may have [T, L], None if all may."""
        encoded, columns = self.model.encode(docs)
        return encoded, columns, allowed_labels(self.model.labels, docs, columns)[0]

    def evaluator(self, dev: list[Example]) -> Evaluator:
        """Return a function from parameters [D] to the F1 of spans on `dev`, or the accuracy of known tags."""
        return Evaluator(self.model, dev, *self.encode_allowed([example.predicted for example in dev]))


def _score_of_change(evaluate: Evaluator, theta: Floats, scale: Floats, change: Floats) -> float:
    return evaluate(theta + scale * change)


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


def _noted(examples: Iterable[Example], keys: list[int], sizes: list[int]) -> Iterator[Example]:
    """Yield examples with whole Docs for a first stage, and note the keys and sizes of their predicted Docs."""
    for example in examples:
        # what is no example is refused where it is encoded; an empty Doc is no document to learn from
        if isinstance(example, Example) and len(example.predicted):
            keys.append(doc_key(example.predicted))
            sizes.append(len(example.predicted))
            if APART in example.predicted.user_data:  # the second stage alone learns from sentences
                whole = example.predicted.copy()
                del whole.user_data[APART]
                example = Example(whole, example.reference)
        yield example
