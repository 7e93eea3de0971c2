"""The training of a component: examples are encoded, encoded texts become a model of zero weights, which learns.

Between a file and the loss there are these values, none of which changes::

    file -> Sentence             words and columns of a file, as `corpora` reads them
         -> Example              a predicted and a gold Doc (`doc_builder.DocBuilder`); a `Corpus` yields them anew
         -> DocColumns           what features read from the predicted Docs (`prediction.DocReader`)
         -> Encoded              ids of features (`features.encoder`)
         -> EncodedCorpus        ids, gold labels and weights (`encode_corpus`)
         -> TrainingSet          the training corpus and the texts of terms: first of collected features (`collect`),
                                 then in the numbers of a model of zero weights (`build_model`)
         -> Term, Objective      their data sets, their losses and a penalty (`objective_of`)
         -> Batch                labels and weights of some sequences, which a loss gets with their scores

Sentences without a Doc of their own (`LabelledText`) skip `Example`.  `training.fit.fit` finds the weights.  Folds,
sweeps and first stages begin again with some sequences of the same `TrainingSet`, ``--from`` with the weights of
another model, and the steps of ``spacy train`` (`steps`) with the model of zero weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example

from ..corpora.tags import alike_message
from ..errors import DataError
from ..features.encoder import FrozenEncoder
from ..features.protocol import LabelAttributes
from ..features.template_file import TemplateFile
from ..optimizers.online import seeded
from ..schemes import TagTable
from ..training.checkpoint import Checkpoint, facts_of
from ..training.compatibility import is_local
from ..training.dataset import Dataset
from ..training.fit import FitResult, Progress, RunState
from ..training.fit import fit as minimise
from ..training.objective import Objective
from ..types import (
    BY_OPTIMIZER,
    MISSING,
    CorrectingDecoder,
    Ints,
    LearnedDecoder,
    Offsets,
    Optimizer,
    Schedule,
    StepReport,
)
from .build import build_model
from .calibration import CalibrationFit, fit_to_parts
from .cfg import UNCALIBRATED
from .corpus import Corpus
from .corpus_encoder import EncodedCorpus, encode_corpus
from .doc_model import DocModel
from .encode import ExampleEncoder, content_key
from .evaluator import Evaluator
from .first_stage import NotedDocs, jackknife, judged_parts, teach
from .labels import PartialTable, gold_tags, known_tags
from .objectives import corpus_term, further_terms, objective_of
from .plan import TrainingPlan
from .start_from import carry_over, check_source, label_factors
from .steps import Run
from .terms import Texts, find_texts
from .training_set import TrainingSet, check_weights, collect, encode_term
from .training_warnings import warn_of_misfits, warn_of_missing_columns, warn_of_no_outside
from .white_space import is_space

N_SAMPLE = 10
"""Documents from which the sizes of neural networks are inferred."""
SMALL = 100_000
"""Words up to which five more models are trained for a calibration."""
CORRECTED = "no dev corpus: probabilities are as models of parts of the training corpus have corrected them"
DOUBTFUL = (
    "some labels of the training corpus are in doubt: the others have judged these models, right or wrong. Run 'crfseq "
    "calibrate' on texts that a person has labelled"
)
NORMALISED = "probabilities are not calibrated: the model is normalised at each token"
NO_DEV = (
    "no dev corpus: probabilities are not calibrated. Give --paths.dev, or run 'crfseq calibrate' on annotated "
    "texts that are not in the training corpus"
)


@contextmanager
def _restored_on_failure(model: DocModel) -> Iterator[None]:
    """Put back what attributes and the decoder of a trained model have learned if an initialization of it fails."""
    seen = {name: set(words) for name, words in model.seen.items()}
    decoder = model.method.decoder
    state = decoder.to_state() if isinstance(decoder, LearnedDecoder) else None
    try:
        yield
    except BaseException:
        model.forget()
        model.see(seen)
        if isinstance(decoder, LearnedDecoder):
            decoder.from_state(state)
        raise


class Training:
    """Trains the model of a component: at once, or in the steps of spaCy.

    plan (TrainingPlan): How, in addition to the model's method.
    example_encoder (ExampleEncoder | None): Of the features of the model; `present` returns it for the model as it is.
    corpus (EncodedCorpus | None): The training corpus that `initialize` has encoded, until a run ends; None if it comes
        in batches.
    terms (Mapping): The texts of terms, by their names, until then.
    whole (TrainingSet | None): The texts with all collected features, to begin again with, if the plan keeps them.
    run (Run | None): The steps of spaCy since the training began.
    apart (CalibrationFit | None): The calibration that `initialize` has fitted to parts of the training corpus.
    """

    def __init__(self, model: DocModel, **settings: Any) -> None:
        self.model, plan = model, TrainingPlan(partial(util.logger.info, "[%s] %s", model.name))
        self.plan = plan._replace(**settings)
        self.corpus: EncodedCorpus | None = None
        self.terms: Mapping[str, EncodedCorpus] = {}
        self.whole: TrainingSet | None = None
        self.example_encoder: ExampleEncoder | None = None
        self.run: Run | None = None
        self.apart: CalibrationFit | None = None
        # the examples that `update` has met after an initialization without any, and how many of them the model has
        self._met: dict[int, Example] | None = None
        self._n_built = 0

    def set(self, **settings: Any) -> None:
        """Change some fields of the plan."""
        self.plan = self.plan._replace(**settings)

    def present(self) -> ExampleEncoder:
        """Return the encoder of examples, in the numbers of the model as it is now."""
        model, own = self.model, self.example_encoder
        if own is None:
            own = ExampleEncoder(model.joining_encoder(), PartialTable(model.annotation))
        elif not model.encoder.has_features_of(own.encoder):
            own = own._replace(encoder=model.joining_encoder())
        self.example_encoder = own
        return own

    def compile(self, examples: Sequence[Example], networks: bool = False) -> list[Dataset]:
        """Return each example as a data set in the numbers of the model; errors as of `ExampleEncoder.compile`."""
        return self.present().compile(self.model, examples, networks)

    def optimizer(self, seed: int | None = None) -> Optimizer:
        """Return the optimizer of the config; without a seed of its own, it uses `seed`, else that of the plan, else 0.

        RAISES ConfigError: If the seed is out of range, or it does not work on a cluster.
        """
        optimizer, remote = self.model.method.optimizer, self.plan.remote
        optimizer = seeded(optimizer, self.plan.seed if seed is None else seed)
        return optimizer if remote is None else remote.optimizer(optimizer, self.model.name)

    # From examples to a model of zero weights

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Texts] | None = None,
    ) -> None:
        """Collect labels and features, and begin with weights of zero; see `CRFComponent.initialize`."""
        with _restored_on_failure(self.model):
            self._initialize(get_examples, labels, nlp, terms)

    def _initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Texts] | None,
    ) -> None:
        model, settings = self.model, {} if nlp is None else nlp.config.interpolate().get("training") or {}
        self.plan = self.plan._replace(seed=settings.get("seed"), streamed=settings.get("max_epochs") == -1)
        if isinstance(model.method.features, TemplateFile):
            model.method.features.check_transitions(model.name, model.method.transitions)
        model.forget()
        self.apart = None
        if self.plan.source is not None:
            check_source(self.plan.source, model)
            model.see(self.plan.source.seen)
        if isinstance(decoder := model.method.decoder, LearnedDecoder):
            before = None if self.plan.source is None else self.plan.source.method.decoder
            decoder.from_state(before.to_state() if type(before) is type(decoder) else None)
        self.use_texts(nlp, terms)
        plan, examples, sample = self.plan, get_examples(), list[Example]()
        if model.networks or not isinstance(examples, Corpus):
            sample = list(islice(stream := iter(examples), N_SAMPLE if model.networks else 2))
            examples = chain(sample, stream)
        made_up = False  # by spaCy, for ``nlp.initialize()`` without any
        if len(sample) == 1 and isinstance(sample[0], Example):
            made_up = [token.orth_ for token in sample[0].reference] == ["x", "y", "z"]
        if plan.remote is not None:
            tags = plan.remote.encode(model, nlp, examples, plan.annotators, plan.report)
            model.set_tags(self._choose_tags(tags.corpus, tags.terms.values(), labels))
            warn_of_misfits(model, (), nlp)
            plan.remote.start(model)
        else:
            first, held_out = self._learn_first(None if made_up else get_examples, labels)
            texts = collect(model, plan, examples, first, held_out)
            check_weights(model.name, texts)
            made_up = made_up and not texts.corpus.tags
            texts = self._tagged(texts, labels, nlp, made_up=made_up)
            self._teach(texts)
            fitted = self._fitted_apart(texts)
            self.begin(texts)
            self.apart = fitted
            for network in model.networks.values():
                network.initialize([example.predicted for example in sample], len(texts.tags))
        model.cfg.update(UNCALIBRATED)  # whatever was fitted belonged to other weights
        if made_up:
            self.release()
            self._met, self._n_built = {}, 0

    def _tagged(
        self, texts: TrainingSet, labels: Sequence[str] | None, nlp: Language | None = None, made_up: bool = False
    ) -> TrainingSet:
        """Return texts with the tags of the model to be; arguments and errors as of `_choose_tags`."""
        tags_of_terms = [corpus.tags for corpus in texts.terms.values()]
        texts = texts._replace(tags=self._choose_tags(texts.corpus.tags, tags_of_terms, labels, made_up))
        warn_of_misfits(self.model, texts.corpus.absent, nlp)
        if said := alike_message(self.model.annotation.public_labels(texts.tags)):
            util.logger.warning("[%s] %s", self.model.name, said[0].upper() + said[1:])
        if self.plan.source is None:
            warn_of_no_outside(self.model, [texts.corpus.tags, *tags_of_terms], texts.corpus.data)
        return texts

    def _choose_tags(
        self,
        tags: Sequence[str],
        tags_of_terms: Iterable[Sequence[str]],
        labels: Sequence[str] | None,
        made_up: bool = False,
    ) -> list[str]:
        """Return the tags of the model to be, given those of the training corpus and of the texts of each term.

        made_up (bool): Whether spaCy has made the training corpus up.
        RAISES DataError: If there are none.
        """
        model, annotation, source = self.model, self.model.annotation, self.plan.source
        if made_up:
            labels = labels or model.labels.tags
            if model.has_weights and model.crf.theta.any():
                util.logger.warning("[%s] initialized again without examples: its weights are gone.", model.name)
        if not tags and not (made_up and (labels or annotation.scheme)):
            task = ", ".join(f"{key} = {value!r}" for key, value in annotation.settings().items())
            raise DataError(
                f"Component {model.name!r}: the training data hold no gold annotation for it ({task}). "
                "Check the columns of the corpus reader, or that the documents were annotated; in Python, call "
                "nlp.initialize(lambda: examples), or add_label before nlp.initialize()."
            )
        if labels:
            chosen = annotation.all_tags(labels)
        else:
            chosen = annotation.found_tags(sorted(set(tags).union(*tags_of_terms)))
        return chosen if source is None else list(dict.fromkeys([*source.labels.tags, *chosen]))

    def use_texts(self, nlp: Language | None, given: Mapping[str, Texts] | None = None) -> None:
        """Take the texts of terms from `given`, or from the corpora of a config.  RAISES ConfigError: If unknown.

        Components before this one annotate them if they annotate in training, and are trained already.
        """
        name = self.model.name
        self.plan = self.plan._replace(term_readers=find_texts(self.model, {**self.plan.begun, **(given or {})}, nlp))
        if nlp is not None and self.model.method.terms and not self.plan.annotators:
            names, settings = nlp.component_names, nlp.config.interpolate().get("training") or {}
            before = names[: names.index(name)] if name in names else []
            chosen = set(settings.get("annotating_components", ())).intersection(settings.get("frozen_components", ()))
            self.set(annotators=[nlp.get_pipe(other) for other in before if other in chosen])

    def begin(self, whole: TrainingSet | None = None, sequences: Offsets | None = None) -> None:
        """Begin with a model of zero weights, or those of the source, for collected texts.

        whole (TrainingSet | None): None for the one that was kept, from which only settings have changed that affect
            neither features nor labels.
        sequences (Offsets | None): Those of its corpus to learn from, as if the others had never been read, except
            with `min_count`, which counts their tokens; None for all.
        RAISES DataError: If none was kept.
        """
        model, plan, whole = self.model, self.plan, whole or self.whole
        if whole is None:
            raise DataError(f"Component {model.name!r}: nothing is encoded; call initialize just before.")
        keeps = plan.keeps or whole.terms.keys() != model.method.terms.keys()  # `fit` may add the texts of a term
        model.set_tags(whole.tags)
        model.see(whole.seen)
        texts = whole if sequences is None else whole.take(sequences)
        crf, data, origins = build_model(model, texts, plan.source)
        encoder, n_sequences = data.example_encoder.encoder, data.corpus.data.n_sequences
        assert isinstance(encoder, FrozenEncoder)
        model.start(
            crf, encoder.with_lexicon(model.lexicon()), n_sequences, names=origins, first=whole.example_encoder.first
        )
        self.example_encoder, self.corpus, self.terms = data.example_encoder, data.corpus, data.terms
        self.whole, self.run, self._met = whole if keeps else None, None, None

    def _learn_first(
        self, get_examples: Callable[[], Iterable[Example]] | None, labels: Sequence[str] | None = None
    ) -> tuple[DocModel | None, Mapping[int, Ints]]:
        """Return a new first stage, trained on a corpus, and its labels of the corpus for the second stage.

        The first stage is None if the model has none, or is to keep its own because the corpus has no gold labels.
        get_examples (Callable | None): Returns the training corpus; None if there is none yet.
        labels (Sequence[str] | None): As given to `initialize`.
        """
        if self.model.first is None:
            return None, {}
        training, docs = self._first_training(), NotedDocs()
        if get_examples is None or self.plan.postponed:
            return training.model, {}
        texts = collect(training.model, training.plan, docs.read(get_examples()))
        if not texts.corpus.tags:
            return None, {}
        texts = training._tagged(texts, labels)
        held_out = self._hold_out(training, texts, docs, learned=training.plan.source is not None)
        self.plan.report("First stage: training on the whole corpus")
        training.learn(texts)
        return training.model, held_out

    def _label_again(self, get_examples: Callable[[], Iterable[Example]]) -> Mapping[int, Ints]:
        """Return labels of a corpus for the second stage, in the numbers of the first stage that the model keeps."""
        kept = self.model.first
        if kept is None or not kept.has_weights:
            return {}
        training, docs = self._first_training(), NotedDocs()
        texts = collect(training.model, training.plan, docs.read(get_examples()))
        if not texts.corpus.tags:
            return {}
        texts = training._tagged(texts, self.model.labels.tags)
        held_out = self._hold_out(training, texts, docs, learned=True)
        tags = kept.labels.tags
        numbers = [tags.index(tag) if tag in tags else MISSING for tag in training.model.labels.tags]
        in_kept = np.array([*numbers, MISSING], np.int32)
        return {key: in_kept[labels] for key, labels in held_out.items()}

    def _first_training(self) -> Training:
        """Return the training of a new first stage.  RAISES ConfigError: If that of the source does not suit."""
        first, plan = self.model.new_first(), self.plan
        source = None if plan.source is None else plan.source.first
        if source is not None:
            check_source(source, first)
        return Training(first, report=plan.report, seed=plan.seed, keeps=True, source=source)

    def _hold_out(self, training: Training, texts: TrainingSet, docs: NotedDocs, *, learned: bool) -> dict[int, Ints]:
        """Return labels of a corpus from first stages that have not seen them; the decoder may learn from them, too.

        learned (bool): Whether the decoder keeps what it has learned, from more texts than these.
        """
        method, plan = self.model.method, self.plan
        (k,) = (plugin.folds for plugin in method.attributes.values() if isinstance(plugin, LabelAttributes))
        decoder = method.decoder
        if isinstance(decoder, LearnedDecoder) and decoder.learned and learned:
            decoder = decoder.base
        first, learn, seed = training.model, partial(training.learn, texts), plan.seed or 0
        return jackknife(first, texts, docs, learn, k=k, seed=seed, decoder=decoder, report=plan.report)

    def _teach(self, texts: TrainingSet) -> None:
        """Let a decoder learn to correct where no first stage is trained, unless it keeps what it has learned."""
        model, plan, decoder = self.model, self.plan, self.model.method.decoder
        if not isinstance(decoder, CorrectingDecoder) or model.first is not None or model.networks or plan.postponed:
            return
        if not plan.teaches or (decoder.learned and plan.source is not None):
            return
        training = Training(model.new_rehearsal(), report=plan.report, seed=plan.seed, source=plan.source)
        corpus = texts._replace(terms={})
        teach(decoder, training.model, corpus, partial(training.learn, corpus), plan.report)

    def _fitted_apart(self, texts: TrainingSet) -> CalibrationFit | None:
        """Return a calibration fitted to parts of the training corpus by models of the others, without a dev corpus.

        None where nothing is to be fitted, or that would take long; a decoder has corrected probabilities already.
        """
        model, plan = self.model, self.plan
        method, size = model.method, texts.corpus.data.encoded.n_tokens
        corrected = isinstance(method.decoder, CorrectingDecoder) and method.decoder.learned
        if not plan.calibrates or plan.has_dev or plan.postponed or corrected or is_local(method.loss):
            return None
        if size <= SMALL and not (texts.terms or model.first or model.networks or plan.source):
            training = Training(model.new_rehearsal(), report=plan.report, seed=plan.seed)
            corpus, scheme = texts._replace(terms={}), model.annotation.scheme
            parts = judged_parts(training.model, corpus, partial(training.learn, corpus), plan.report)
            table = None if scheme is None else TagTable(texts.tags, scheme)
            if parts:
                if isinstance(decoder := method.decoder, LearnedDecoder):
                    decoder.learn([decoder.observe(part.words, part.gold) for part in parts])
                fitted = fit_to_parts(parts, method.decoder, table)
                return fitted._replace(corpus="training corpus, by models of its parts")
        return None

    def _without_dev(self, doubtful: bool) -> str:
        """Return the line about the calibration without a dev corpus; `doubtful` tells that labels are in doubt."""
        decoder, fitted = self.model.method.decoder, NO_DEV
        if is_local(self.model.method.loss):
            return NORMALISED
        if self.apart is not None:
            fitted = str(self.apart)
        elif isinstance(decoder, CorrectingDecoder) and decoder.learned:
            fitted = CORRECTED
        return f"{fitted}; {DOUBTFUL}" if doubtful and fitted != NO_DEV else fitted

    # Examples and terms that come later

    def _meet(self, new: Mapping[int, Example], *, due: bool) -> None:
        """Add features and labels of new examples, after an initialization without any.

        The model is rebuilt, and keeps the weights learnt so far, when there are a quarter more examples or it is due.
        So a corpus is read a few times in all.
        new (Mapping): By their `content_key`.
        """
        model = self.model
        if model.annotation.scheme is not None:
            gold = (gold_tags(model.annotation, example, model.name) for example in new.values())
            tags = dict.fromkeys(tag for of_example in gold for tag in known_tags(of_example) if tag is not None)
            types = model.annotation.public_labels(list(tags))
            if added := [tag for tag in model.annotation.tags_of_types(types) if tag not in model.labels.tags]:
                self.add_tags(added)
        examples = {**(self._met or {}), **new}
        if len(examples) > (1 if due else 1.25) * self._n_built:
            old, self._n_built = model.crf, len(examples)
            texts = collect(model, self.plan, examples.values(), *self._learn_first(examples.values))
            texts = texts._replace(tags=model.labels.tags)
            self._teach(texts)
            self.begin(texts)
            carry_over(old, model.crf)
        self._met = examples

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags; a trained model gets weights of zero for them, and a run of steps begins again."""
        self.model.add_tags(tags)
        if self.example_encoder is not None:
            self.example_encoder.partials.resolve(self.model.labels.tags)
        if self.run is not None:
            self.run.restart()

    def complete_terms(self) -> None:
        """Read the texts of terms that are missing.  RAISES DataError: If a term has none."""
        model, plan, own = self.model, self.plan, self.present()
        settings = model.method.each_term(model.name)
        missing = [name for name in settings if name not in self.terms]
        for name in missing:
            if name not in plan.term_readers:
                example: Any = f'terms={{"{name}": docs}}'
                raise DataError(
                    f"Component {model.name!r}: the term {name!r} has no texts. Name their corpus under [components."
                    f"{model.name}.terms.{name}], which 'crfseq fit' reads for any component and 'spacy train' for "
                    f"those it initializes; in Python, call fit({example}). To train without terms, set pipe.method = "
                    "pipe.method._replace(terms={})."
                )
        new = {name: encode_term(model, plan, own, name) for name in missing}
        new = {name: corpus.numbered(model, settings[name].loss, own.partials) for name, corpus in new.items()}
        self.terms = {**self.terms, **{name: corpus.as_predicted() for name, corpus in new.items()}}

    # All at once

    def fit(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        terms: Mapping[str, Texts] | None = None,
        *,
        seed: int | None = None,
        schedule: Schedule = BY_OPTIMIZER,
        callback: Callable[[Progress], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> FitResult:
        """Train on all examples at once, see `CRFComponent.fit` and `training.fit.fit`.

        checkpoint (Checkpoint | None): Where the state of the run is saved, and what it continues from.
        """
        model, remote, optimizer = self.model, self.plan.remote, self.optimizer(seed)
        if isinstance(decoder := model.method.decoder, LearnedDecoder):
            decoder.adapt(None)  # it was by other weights
        with self.training_on(examples, dev, terms) as (objective, evaluate):
            corpus = self.corpus
            n_sequences = model.n_sequences if corpus is None else corpus.data.n_sequences  # other machines may have it
            result = begun = None
            if checkpoint is not None:
                result, begun = self._resumed(checkpoint, objective, optimizer)
            if result is None:
                run = partial(minimise, schedule=schedule, callback=callback, saver=checkpoint, begun=begun)
                if self.plan.source is None:
                    theta = model.trained()[0].theta
                    result = run(objective, optimizer, theta, evaluate=evaluate)
                else:
                    result = self._fit_change(objective, optimizer, n_sequences, evaluate, run)
            if checkpoint is not None:
                checkpoint.end(model.name, result)
            model.set_parameters(result.best, n_sequences + self._n_old(n_sequences))
            try:
                if evaluate is not None:
                    result = self._judged(result, evaluate)
                elif self.plan.calibrates and not self.plan.has_dev:
                    self.plan.report(self._without_dev(corpus is not None and corpus.data.has_candidates))
                    if self.apart is not None:
                        fitted = self.apart.settings
                        model.cfg.update(fitted)
                        result = result._replace(fitted_to_best=fitted, fitted_to_last=fitted)
            except KeyboardInterrupt:  # the model is trained, but for what follows its weights
                result = result._replace(reason="interrupted")
        if remote is not None:
            remote.finish(model)
        return result

    def _judged(self, result: FitResult, evaluate: Evaluator) -> FitResult:
        """Return a result with its scores on the dev corpus and what was fitted there.  RAISES KeyboardInterrupt."""
        if self.plan.calibrates:
            evaluate.adapt(evaluate.posterior(result.best))
        scores = evaluate.scores(result.best), evaluate.scores(result.last)
        result = result._replace(scores_of_best=scores[0], scores_of_last=scores[1])
        return self._calibrated(result, evaluate) if self.plan.calibrates else result

    def _calibrated(self, result: FitResult, evaluate: Evaluator) -> FitResult:
        """Return a result with what was fitted to its parameters on the dev corpus, and use that of the best ones."""
        best, fitted = evaluate.calibration(evaluate.posterior(result.best)), dict[str, Any]()
        if best is None:
            self.plan.report(NORMALISED)
            return result
        self.plan.report(str(best))
        self.model.cfg.update(best.settings)
        if not np.array_equal(result.best, result.last):
            last = evaluate.calibration(evaluate.posterior(result.last))
            fitted = {} if last is None else last.settings
        return result._replace(fitted_to_best=best.settings, fitted_to_last=fitted or best.settings)

    def _resumed(
        self, checkpoint: Checkpoint, objective: Objective, optimizer: Optimizer
    ) -> tuple[FitResult | None, RunState | None]:
        """Return the result or the run that a checkpoint has of the component, and report it.

        Errors as of `Checkpoint.begin`.
        """
        crf, remote = self.model.trained()[0], self.plan.remote
        facts = {**facts_of(crf, objective), **({} if remote is None else remote.facts())}
        start = partial(optimizer.start, crf.theta)
        result, begun = checkpoint.begin(self.model.name, facts, crf.theta, start, objective.blocks)
        if result is not None:
            self.plan.report(f"its {len(result.history):,} iterations are in the checkpoint {checkpoint.path}")
        elif begun is not None:
            self.plan.report(f"goes on after iteration {len(begun.history):,} of the checkpoint {checkpoint.path}")
        return result, begun

    def _fit_change(
        self,
        objective: Objective,
        optimizer: Optimizer,
        n_sequences: int,
        evaluate: Evaluator | None,
        run: Callable[..., FitResult],
    ) -> FitResult:
        """Find the change of the weights of the source, of which the penalty is then; see `Shifted`.

        n_sequences (int): Those of the training corpus.
        run (Callable): `training.fit.fit` with its other arguments.
        """
        source, (crf, _) = self.plan.source, self.model.trained()
        assert source is not None
        theta, factors = crf.theta, label_factors(source, self.model, n_sequences)
        scale = crf.by_label(factors)
        score = None if evaluate is None else lambda change: evaluate(theta + scale * change)
        changed = objective.around(theta, factors, scale)
        result = run(changed, optimizer, np.zeros_like(theta), evaluate=score)
        return result._replace(best=theta + scale * result.best, last=theta + scale * result.last)

    def _n_old(self, n_sequences: int) -> int:
        """Return the number of sequences behind the source's weights that a training corpus of this size lacks.

        A corpus that is at least as large as that of the source is taken to have the same sequences and more.
        """
        source = self.plan.source
        return 0 if source is None or source.n_sequences <= n_sequences else source.n_sequences

    def learn(self, whole: TrainingSet, sequences: Offsets | None = None) -> None:
        """Begin with collected texts or some of their sequences, and train to the end.  RAISES KeyboardInterrupt."""
        self.begin(whole, sequences)
        if self.fit().reason == "interrupted":
            raise KeyboardInterrupt

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
        model, remote = self.model, self.plan.remote
        model.refuse_networks("this", "Use 'python -m spacy train', or nlp.update.")
        with model.lock:
            self._end_steps()
            if remote is None:
                objective = self._begin_on(examples, terms or {})
            else:
                objective = remote.objective(model, self.plan.report)
            evaluate = Evaluator(model, dev) if dev is not None else None
        try:
            yield objective, evaluate
        finally:
            self.release()

    def _begin_on(self, examples: Iterable[Example] | None, terms: Mapping[str, Texts]) -> Objective:
        """Begin a run on examples, or on those of `initialize`, and return its objective."""
        model = self.model
        if terms:  # those that `initialize` had none of get weights for their features
            readers = {**self.plan.term_readers, **find_texts(model, terms, None)}
            self.plan = self.plan._replace(term_readers=readers)
            self.terms = {name: of_term for name, of_term in self.terms.items() if name not in terms}
            if (whole := self.whole) is not None and self.corpus is not None:
                new = {name: encode_term(model, self.plan, whole.example_encoder, name) for name in terms}
                self.begin(whole.with_terms(new))
        if examples is not None:
            self._encode_again(examples)
        if self.corpus is None:
            raise DataError(f"Component {model.name!r}: give examples to fit, or call initialize just before.")
        if model.method.terms:
            self.complete_terms()
            warn_of_missing_columns(model, self.terms)
        self.plan = self.plan._replace(streamed=False)
        return objective_of(model, [corpus_term(model, self.corpus.data), *further_terms(model, self.terms)])

    def _encode_again(self, examples: Iterable[Example]) -> None:
        """Take examples in the numbers of the present model's features and tags in the place of the training corpus."""
        model = self.model
        if self._met is not None:
            examples, self._met, self._n_built = list(examples), None, 0
            self._meet({content_key(model, example): example for example in examples}, due=True)
            self._met = None
        own = self.present()
        if model.first is not None and not own.held_out:
            given = examples = list(examples) if isinstance(examples, Iterator) else examples
            own = own._replace(held_out=self._label_again(lambda: given))
        corpus = encode_corpus(model, own, examples).numbered(model, model.method.loss, own.partials)
        self.example_encoder, self.corpus = own, corpus.as_predicted()

    def release(self) -> None:
        """Drop encoded texts, and a run of steps."""
        with self.model.lock:
            self._end_steps()
            own = self.present()
            if isinstance(own.encoder, FrozenEncoder):
                self.example_encoder = own._replace(encoder=own.encoder.with_room())
            self.corpus, self.terms = None, {}

    # In the steps of spaCy

    def update(self, examples: Sequence[Example], losses: dict[str, float], drop: float = 0.0) -> None:
        """Add a batch; if there are neural networks, learn from it at once, with this dropout of theirs.

        losses (dict): Gets the mean loss per token after the next step.
        """
        model = self.model
        model.trained()
        if model.networks and is_space([example.predicted for example in examples]).all():
            return  # a network reads white space, too, but nothing is learned of it
        with model.lock:
            batch = [(content_key(model, example), example) for example in examples]
            if self._met is not None:
                new = {key: example for key, example in batch if key not in self._met}
                self._meet(new, due=not new)
            self._begin_steps().update(batch, losses, drop)

    def _begin_steps(self) -> Run:
        """Return the run of steps, which begins with the first batch."""
        model, own = self.model, self.present()
        if model.method.terms and not self.terms:
            self.complete_terms()
        corpus, terms = self.corpus, self.terms
        if self.run is None:
            self.run = Run(model, own, corpus, terms, self.optimizer(), streamed=self.plan.streamed)
            model.follow(self.run)
        if corpus is not None:
            warn_of_missing_columns(model, terms)
            if model.networks:
                self.run.begin_without_networks(corpus.data)
            self.corpus = None
        return self.run

    def _end_steps(self) -> None:
        """Let the model keep the weights that the steps have found so far."""
        self.model.follow(None)
        self.run = None

    def finish_update(self) -> None:
        """Run the optimizer of the config on the examples added."""
        self.model.trained()
        with self.model.lock:
            if self.run is not None:
                self.run.work()

    def figures(self, *, restart: bool = False) -> StepReport | None:
        """Return the last report of the optimizer in the steps of spaCy, None before its first iteration.

        restart (bool): See `Run.figures`.
        """
        return None if self.run is None else self.run.figures(restart=restart)
