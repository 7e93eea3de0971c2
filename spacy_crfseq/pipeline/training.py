"""The training of a component: by spaCy's steps (`initialize`, `update`, `finish_update`) or all at once (`fit`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from .. import threads
from ..errors import DataError, NoExamplesError
from ..features.attributes import TOKEN_COLUMNS
from ..features.encoder import BLOCK_TOKENS, Encoded, Encoder
from ..features.index import HashIndex
from ..features.noted import hash_of
from ..features.protocol import LabelAttributes
from ..model import LinearChainCRF
from ..optimizers.seeds import seeded
from ..potentials.protocol import Potential
from ..potentials.small import Given
from ..potentials.sums import Sum
from ..training.checkpoint import Checkpoint
from ..training.compatibility import is_unlabelled
from ..training.dataset import Dataset
from ..training.fit import FitResult, fit
from ..training.objective import Objective
from ..training.terms import Term
from ..types import MISSING, Bools, Floats, Ints, Loss, Offsets, Optimizer, StepReport, TextLoss
from .build import build_model, carry_over
from .doc_model import DocModel
from .encode import EncodedCorpus, Reading, encode_examples, type_for
from .evaluator import Evaluator
from .evidence import read_evidence, weight_of
from .examples import Corpus
from .labels import PartialTable, gold_tags, known_tags
from .prediction import DocColumns, allowed_labels
from .session import Session
from .settings import TermSettings
from .stages import Noted, jackknife
from .takeover import aligned, begin_with, check_source, label_factors, summary
from .terms import TermData, Texts, annotated, check_complete, check_found, find_texts, frozen_annotators, no_texts

N_SAMPLE = 10
"""Documents from which the sizes of neural networks are inferred."""


class Training:
    """Trains a model; its `Session` holds the state between two calls of `update`.

    seed (int | None): ``training.seed`` of the config that the component was initialized with, None if unknown.
    postponed (bool): Whether `initialize` leaves the first stage without training.
    keeps (bool): Whether `initialize` keeps the encoded corpus for `begin_anew`.
    annotators (list[Any]): Earlier components, whose predictions the texts of terms get before they are read.
    source (DocModel | None): A trained model, whose labels, features and weights `initialize` takes over.
    watch (Callable | None): Passes on the texts of a term by its name, to show progress.
    report (Callable): Called with lines of progress of a first stage.
    checkpoint (Checkpoint | None): Where `fit` saves the state of its run, and what it continues from.
    terms (list[TermData]): Terms in addition to the training corpus, until a run ends.
    """

    def __init__(self, model: DocModel) -> None:
        self.model = model
        self.seed: int | None = None
        self.postponed = False
        self.keeps = False
        self.annotators: list[Any] = []
        self.source: DocModel | None = None
        self.watch: Callable[[str, Iterator[Example]], Iterator[Example]] | None = None
        self.report = partial(util.logger.info, "[%s] %s", model.name)
        self.checkpoint: Checkpoint | None = None
        self.terms: list[TermData] = []
        self._encoder: Encoder | None = None  # of the terms; pruning replaces it
        self.texts: dict[str, Callable[[], Iterator[Example]]] = {}
        self._bound: dict[int, tuple[Loss, Sequence[str], Loss]] = {}
        self._kept: Collected | None = None
        # after an initialization without data: the examples seen since, and the number of those in the model
        self._met: dict[int, Example] | None = None
        self._n_built = 0

    def optimizer(self, seed: int | None = None) -> Optimizer:
        """Return the optimizer of the config; without a seed of its own, it uses `seed`, else ``self.seed``, else 0.

        RAISES ConfigError: If the seed is out of range.
        """
        return seeded(self.model.method.optimizer, self.seed if seed is None else seed)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Texts] | None = None,
    ) -> None:
        """Do what `CRFComponent.initialize` says."""
        model, annotation = self.model, self.model.annotation
        settings = {} if nlp is None else nlp.config.interpolate().get("training") or {}
        self.seed = settings.get("seed")
        model.method.check_transitions(model.name)
        if self.source is not None:
            check_source(self.source, model)
        self.use_texts(nlp, terms)
        examples, made_up = _look_ahead(get_examples())
        sample = list(islice(stream := iter(examples), N_SAMPLE)) if model.networks else []
        examples = chain(sample, stream) if sample else examples
        self._learn_first(None if made_up else get_examples, labels)
        collected = self.collect(examples)
        found = collected.found
        without_data = made_up and not found.tags
        if without_data:
            labels = labels or model.labels.tags
            if model.has_weights and model.crf.theta.any():
                util.logger.warning("[%s] initialized again without examples: its weights are gone.", model.name)
        if not found.tags and not (without_data and (labels or annotation.scheme)):
            what = ", ".join(f"{key} = {value!r}" for key, value in annotation.settings().items())
            raise DataError(
                f"Component {model.name!r}: the training data hold no gold annotation for it ({what}). "
                "Check the columns of the corpus reader, or that the documents were annotated; in Python, call "
                "nlp.initialize(lambda: examples), or add_label before nlp.initialize()."
            )
        self._report_absent_columns(found.absent)
        self._warn_of_score_weights(nlp)
        if all(map(is_unlabelled, [model.method.loss, *(term.loss for term in self.settings.values())])):
            util.logger.warning("[%s] No loss of the objective learns from gold labels; was a term meant?", model.name)
        in_terms = [tag for term in collected.terms.values() for tag in term.tags]
        tags = annotation.all_tags(labels) if labels else annotation.found_tags(sorted({*found.tags, *in_terms}))
        if self.source is not None:
            tags = list(dict.fromkeys([*self.source.labels.tags, *tags]))
        self._kept = collected._replace(tags=tags, streamed=settings.get("max_epochs") == -1)
        self.begin_anew()
        for network in model.networks.values():
            network.initialize([example.predicted for example in sample], len(tags))
        model.cfg["temperature"] = 1.0  # whatever was fitted belonged to other weights
        self._met, self._n_built = ({} if without_data else None), 0
        if without_data:
            model.session.release()

    def begin_anew(self, sequences: Offsets | None = None) -> None:
        """Set all weights to zero, as `initialize` did on the same corpus, with the current settings.

        Only settings that affect neither features nor labels may have changed since.
        sequences (Offsets | None): Those of the corpus to learn from, as if the others had never been read, except
            with `min_count`, which counts their tokens; None for all.
        """
        collected = self._kept
        assert collected is not None
        if self.keeps or collected.terms.keys() != self.settings.keys():  # `fit` may add the texts of a term
            shared = collected.strings, self.model.partials.candidates
            collected = deepcopy(collected, {id(one): one for one in shared})  # training changes the rest
        else:
            self._kept = None
        if sequences is not None:
            collected = collected._replace(found=collected.found.take(sequences))
        self.model.set_tags(collected.tags)
        self.start(collected)

    @property
    def settings(self) -> dict[str, TermSettings]:
        """The settings of all terms, by their names."""
        return self.model.method.each_term(self.model.name)

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
        (folds,) = (one.folds for one in model.method.attributes.values() if isinstance(one, LabelAttributes))
        if get_examples is not None and not self.postponed:
            training, texts = Training(first), Noted(get_examples())
            training.keeps, training.seed = True, self.seed
            training.source = None if self.source is None else self.source.first
            try:
                training.initialize(lambda: texts, labels, None)
            except DataError:  # it is raised again where the corpus is encoded for the second stage
                return
            found = jackknife(training, texts, folds, self.seed or 0, self.report)
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
        encoded = model.encoder.adopted(kept.found.take(sequences).data.encoded, kept.encoder)
        n_threads = model.method.n_threads or threads.available()
        return model.crf.posterior(encoded, model.labels.constraints, rules=model.rules).decode(
            model.method.decoder, n_threads
        )

    def collect(self, examples: Iterable[Example]) -> Collected:
        """Return examples and terms as numbers, and the encoder with their features."""
        encoder, strings = self.model.new_encoder(), self.model.strings
        if self.source is not None and strings is not None:
            begin_with(encoder, self.source, strings)
        if self.model.method.tag_dictionary_size:
            encoder.words = HashIndex()
        self.model.partials = PartialTable(self.model.annotation)
        found = self.encode(examples, encoder)  # before the terms, so that its features come first
        terms = {name: self._encode_term(name, encoder) for name in self.texts}
        return Collected(encoder, found, terms, strings)

    def start(self, collected: Collected) -> LinearChainCRF:
        """Begin with a model of zero weights for the features found and the tags that were set, and return it."""
        model, (encoder, found) = self.model, collected[:2]
        model.strings = collected.strings
        terms = [self.numbered(name, collected.terms[name]) for name in self.settings if name in collected.terms]
        old = None if self.source is None else aligned(self.source, model)
        crf, data, self.terms = build_model(
            model.method, encoder, found, self.relabelled(found), model.labels.tags, model.labels.constraints, terms,
            old,
        )  # fmt: skip
        session = Session(
            self.optimizer(), data, terms=self._weighted(), n_examples=found.n_docs, streamed=collected.streamed
        )
        model.start(crf, encoder, session)
        self._encoder = encoder
        return crf

    def use_texts(self, nlp: Language | None, terms: Mapping[str, Texts] | None = None) -> None:
        """Take the texts of terms from `terms`, or from the corpora of a config.  RAISES ConfigError: If unknown."""
        self.texts = find_texts(self.model.name, self.settings, terms or {}, nlp)
        if nlp is not None and self.settings and not self.annotators:
            self.annotators = frozen_annotators(nlp, self.model.name)

    def _encode_term(self, name: str, encoder: Encoder) -> EncodedCorpus:
        settings, examples = self.settings[name], self.texts[name]()
        for pipe in self.annotators:
            examples = annotated(pipe, examples)
        examples = examples if self.watch is None else self.watch(name, examples)
        try:
            found = self.encode(examples, encoder, settings.loss, not is_unlabelled(settings.loss))
        except NoExamplesError:
            raise no_texts(self.model.name, name, settings) from None
        check_found(self.model.name, name, settings, found)
        return found

    def numbered(self, name: str, found: EncodedCorpus) -> TermData:
        """Return a term with the labels of its texts as numbers of the model's tags."""
        settings = self.settings[name]
        return TermData(name, settings, found, self.relabelled(found, settings.loss))

    def _weighted(self) -> list[Term]:
        """Return the terms of the objective."""
        return [one.term() for one in self.terms if one.settings.weight]

    def _add_texts(self, given: Mapping[str, Texts]) -> None:
        """Use other texts for some terms; those that `initialize` had none of get weights for their features."""
        if not given:
            return
        settings, session = self.settings, self.model.session
        self.texts.update(find_texts(self.model.name, settings, given, None))
        self.terms = [term for term in self.terms if term.name not in given]
        if self._kept is not None and session.initial is not None:
            self.model.strings = self._kept.strings
            new = {name: self._encode_term(name, self._kept.encoder) for name in given}
            self._kept = self._kept._replace(terms={**self._kept.terms, **new})
            self.begin_anew()

    def _complete_terms(self) -> list[Term]:
        """Return the terms of the objective, after reading missing texts.  RAISES DataError: If a term has none."""
        encoder = self.model.encoder
        there = {term.name: term for term in self.terms if self._encoder is encoder}
        check_complete(self.model.name, self.settings, {*there, *self.texts})
        self._encoder = encoder
        self.terms = [
            there[name] if name in there else self.numbered(name, self._encode_term(name, encoder))
            for name in self.settings
        ]
        return self._weighted()

    def _meet(self, examples: Sequence[Example], keys: Sequence[int], met: dict[int, Example]) -> None:
        """Add features and labels of new examples, after an initialization without any.

        The model is rebuilt, and keeps the weights learnt so far, when there are a quarter more examples or when a
        batch holds nothing new.  So a corpus is read a few times in all.
        """
        model = self.model
        new = {key: example for key, example in zip(keys, examples, strict=True) if key not in met}
        if model.annotation.scheme is not None:
            self._add_labels(list(new.values()))
        met.update(new)
        if self._n_built < len(met) and (not new or len(met) > 1.25 * self._n_built):
            old, self._n_built = model.crf, len(met)
            self._learn_first(met.values)
            carry_over(old, self.start(self.collect(met.values())))

    def _add_labels(self, examples: Sequence[Example]) -> None:
        model = self.model
        tags = [tag for example in examples for tag in known_tags(gold_tags(model.annotation, example, model.name))]
        labels = model.annotation.public_labels([tag for tag in dict.fromkeys(tags) if tag is not None])
        new = [tag for tag in model.annotation.all_tags(labels) if tag not in model.labels.tags]
        if new:
            model.add_tags(new)

    @property
    def data(self) -> Dataset:
        """The training set as `initialize` has encoded it.  RAISES DataError: If training has released it."""
        data = self.model.session.initial
        if data is None:
            raise DataError(f"Component {self.model.name!r}: nothing is encoded; call initialize just before.")
        return data

    def encode(
        self, examples: Iterable[Example], encoder: Encoder, loss: Loss | None = None, labelled: bool = True
    ) -> EncodedCorpus:
        """Return examples as numbers; loss and labelled as in `Reading`."""
        model = self.model
        encoder.pinned = True  # the parts of a text share their bags
        reading = Reading(
            model.annotation, model.read, model.partials, model.name, model.read_by_functions,
            loss or model.method.loss, labelled, self._is_lexical(loss or model.method.loss) and labelled,
        )  # fmt: skip
        try:
            return encode_examples(examples, encoder, reading)
        except DataError as error:
            kind = NoExamplesError if isinstance(error, NoExamplesError) else DataError
            raise kind(f"Component {model.name!r}: {error}") from None

    def _is_lexical(self, loss: Loss) -> bool:
        model = self.model
        by_docs = model.first or model.features.set_names or model.method.potentials or isinstance(loss, TextLoss)
        return not by_docs and model.place.vocab is model.vocab

    def relabelled(self, found: EncodedCorpus, loss: Loss | None = None) -> Dataset:
        """Return compiled texts with their labels as numbers of the model's tags."""
        numbers = np.append(self.model.labels.numbers(list(found.tags), self.model.partials), np.int32(MISSING))
        gold = found.data.gold.astype(np.promote_types(found.data.gold.dtype, type_for(numbers)))
        for first in range(0, len(gold), BLOCK_TOKENS):
            part = gold[first : first + BLOCK_TOKENS]
            part[:] = np.where(part < MISSING, part, numbers[np.maximum(part, MISSING)])
        return self.model.checked(found.data._replace(gold=gold), loss)

    def _report_absent_columns(self, names: Sequence[str]) -> None:
        if names:
            util.logger.info(
                "[%s] No training example has %s set on input: features of it work only where components named in "
                "annotating_components set it, or the corpus reader gives it.",
                self.model.name,
                ", ".join(names),
            )

    def _warn_of_missing_columns(self) -> None:
        for term in self.terms:
            if term.found.unset:
                util.logger.warning(
                    "[%s] The texts of the term %s have no %s, which features read. Give texts that have it, or list "
                    "the component that sets it in annotating_components: 'crfseq fit' applies it when it is trained, "
                    "'spacy train' only if it is frozen.",
                    self.model.name,
                    term.name,
                    ", ".join(term.found.unset),
                )

    def _warn_of_score_weights(self, nlp: Language | None) -> None:
        key = self.model.annotation.score_name
        if nlp is None or key in ("tag_acc", "spans_chunks_f", "ents_f"):  # spaCy knows them from the factories
            return
        if not (nlp.config.get("training") or {}).get("score_weights", {}).get(key):
            util.logger.warning(
                "[%s] [training.score_weights] gives no weight to %s, the score of this component: "
                "set it, or the best model cannot be selected.",
                self.model.name,
                key,
            )

    # spaCy's steps

    def update(self, examples: Sequence[Example], losses: dict[str, float], drop: float = 0.0) -> None:
        """Add a batch; if there are neural networks, learn from it at once, with this dropout of theirs."""
        model = self.model
        model.trained()
        if model.networks and not any(len(example.predicted) for example in examples):
            return
        with model.lock:
            keys = [self.content_key(example) for example in examples]
            if self._met is not None:
                self._meet(examples, keys, self._met)
            if model.method.terms and not model.session.terms:
                model.session.add_terms(self._complete_terms())
            if model.session.initial is not None:
                self._warn_of_missing_columns()
            if model.networks:
                self._begin_without_networks()
            docs = [example.predicted for example in examples]  # a network that fails must leave no examples behind
            found = {number: one.begin_update(docs, drop) for number, one in model.networks.items()}
            model.session.add(examples, keys, model.compile, losses)
            if found:
                self._update_networks(found)

    def _begin_without_networks(self) -> None:
        """Train all other parameters first, for as many epochs as neural networks ask for."""
        model, n_epochs = self.model, max(one.sparse_epochs for one in self.model.networks.values())
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
        others = (found.get(number, one) for number, one in enumerate(crf.small))
        return self.objective(data, (), Sum((crf.linear, *others)))

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

    def finish_update(self) -> None:
        """Run the optimizer of the config on the examples added."""
        model = self.model
        crf, _ = model.trained()
        with model.lock:
            model.session.work(self.objective, crf.theta, model.name, model.method.inner_iterations)

    def figures(self, *, restart: bool = False) -> StepReport | None:
        """Return `Session.figures` of the training that `update` drives."""
        return self.model.session.figures(restart)

    # All at once

    def objective(
        self, data: Dataset, terms: Sequence[Term] | None = None, potential: Potential | None = None
    ) -> Objective:
        """Return the objective of the current run on data, and on terms or all of their texts.

        potential (Potential | None): In place of the model's.
        """
        model, session = self.model, self.model.session
        crf, _ = model.trained()
        terms = session.terms if terms is None else terms
        sample = session.sample if potential is None else None
        first = Term(data, model.method.loss, name="the training corpus", sample=sample)
        return Objective(
            potential or crf.potential,
            [term._replace(loss=self.bound(term.loss)) for term in (first, *terms)],
            model.method.regularizer,
            n_total=session.n_total + sum(term.data.n_sequences for term in session.terms),
            n_threads=model.method.n_threads,
            dictionary=crf.dictionary,
            templates=None if crf.templates is None else crf.templates[0],
        )

    def taken_over(self) -> str:
        """Return how much of the present model comes from `source`, empty without one."""
        return "" if self.source is None else summary(self.source, self.model)

    def bound(self, loss: Loss) -> Loss:
        """Return a loss for the model's tags."""
        if not isinstance(loss, TextLoss):
            return loss
        tags = self.model.labels.tags
        known = self._bound.get(id(loss))
        if known is None or known[0] is not loss or known[1] != tags:
            self._bound[id(loss)] = known = loss, tags, loss.bind(tags, self.model.annotation.scheme)
        return known[2]

    def fit(
        self,
        examples: Iterable[Example] | None,
        dev: Iterable[Example] | None,
        terms: Mapping[str, Texts] | None,
        seed: int | None,
        **settings: Any,
    ) -> FitResult:
        """Do what `CRFComponent.fit` says; the settings are those of `training.fit.fit`."""
        model, optimizer = self.model, self.optimizer(seed)
        with self.training_on(examples, dev, terms) as (objective, evaluate):
            theta, n_sequences = model.crf.theta, model.n_sequences
            result = None
            if self.checkpoint is not None:
                result, begun = self.checkpoint.begin(
                    model.name, self._facts(objective), theta, partial(optimizer.start, theta), objective.blocks
                )
                settings |= {"saver": self.checkpoint, "begun": begun}
            if result is not None:
                pass  # it was trained before the checkpoint
            elif self.source is None:
                result = fit(objective, optimizer, theta, evaluate=evaluate, **settings)
            else:
                factors = label_factors(self.source, model)
                scale = model.crf.by_label(factors)
                change = objective.around(theta, factors, scale)
                score = None if evaluate is None else lambda change: evaluate(theta + scale * change)
                result = fit(change, optimizer, np.zeros_like(theta), evaluate=score, **settings)
                result = result._replace(best=theta + scale * result.best, last=theta + scale * result.last)
            if self.checkpoint is not None:
                self.checkpoint.end(model.name, result)
            model.set_parameters(result.best)
            if evaluate is not None:
                result = result._replace(scores=(evaluate.scores(result.best), evaluate.scores(result.last)))
        if self.source is not None and self.source.n_sequences > n_sequences:  # or the corpus has the old texts, too
            model.session.n_total += self.source.n_sequences
        return result

    def _facts(self, objective: Objective) -> dict[str, str]:
        """Return what must be the same where a run continues from a checkpoint."""
        crf, gold, keys = self.model.crf, blake2b(digest_size=16), blake2b(digest_size=16)
        for term in objective.terms:
            if term.data is not None:  # it is on the workers of a cluster
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
            self._add_texts(terms or {})
            data = model.session.initial if examples is None else None
            if data is None:
                if examples is None:
                    raise DataError(f"Component {model.name!r}: give examples to fit, or call initialize just before.")
                if self._met is not None:
                    self._n_built, examples = 0, list(examples)
                    self._meet(examples, [self.content_key(example) for example in examples], {})
                    self._met = None
                if model.first is not None and not model.held_out:
                    given = list(examples) if isinstance(examples, Iterator) else examples
                    examples = given
                    self._learn_first(lambda: given, model.labels.tags, keep=model.first.has_weights)
                data = self.relabelled(self.encode(examples, model.encoder))
            model.encoder.pinned = True
            others = self._complete_terms()
            self._warn_of_missing_columns()
            model.session = Session(self.optimizer(), data, terms=others, seen_all=model.session.seen_all)
            evaluate = self.evaluator(list(dev)) if dev is not None else None
        try:
            yield self.objective(data), evaluate
        finally:
            self._release()

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
            self.model.encoder.pinned, self.terms = False, []

    def _encode_allowed(self, docs: list[Doc]) -> tuple[Encoded, DocColumns, Bools | None]:
        encoded, columns = self.model.encode(docs)
        return encoded, columns, allowed_labels(self.model.labels, docs, columns)[0]

    def evaluator(self, dev: list[Example]) -> Evaluator:
        """Return a function from parameters [D] to the F1 of spans on `dev`, or the accuracy of known tags."""
        return Evaluator(self.model, dev, *self._encode_allowed([example.predicted for example in dev]))


class Collected(NamedTuple):
    """Encoded texts from which a run begins, the tags of the model, and the strings of its features."""

    encoder: Encoder
    found: EncodedCorpus
    terms: dict[str, EncodedCorpus]
    strings: dict[int, str] | None
    tags: Sequence[str] = ()
    streamed: bool = False


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
