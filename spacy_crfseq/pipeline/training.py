"""The training of a component: texts are encoded, encoded texts become a model of zero weights, and `fit` finds these.

Each step returns a value: `collect` a `TrainingSet`, `build_model` a model with its texts, `training.fit.fit` weights.
Folds, sweeps and first stages begin anew with some sequences of the same set, ``--from`` with the weights of another
model, and the steps of ``spacy train`` (`steps`) with the model of zero weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example

from ..errors import DataError
from ..features.attributes import TOKEN_COLUMNS
from ..features.documents import APART
from ..features.index import HashIndex
from ..features.noted import hash_of
from ..features.protocol import LabelAttributes
from ..features.template_file import TemplateFile
from ..inference.posterior import Posterior
from ..model import LinearChainCRF
from ..optimizers.online import seeded
from ..potentials.protocol import Potential
from ..training.checkpoint import Checkpoint
from ..training.compatibility import is_unlabelled
from ..training.dataset import folds
from ..training.fit import FitResult
from ..training.fit import fit as minimise
from ..training.objective import Objective, Term
from ..types import MISSING, Decoder, Ints, LearnedDecoder, Loss, Offsets, Optimizer, TextLoss
from .build import Evaluator, begin_with, build_model, carry_over, check_source, label_factors
from .cfg import UNCALIBRATED
from .doc_model import DocModel
from .encode import TRAIN, Met, Plan, Texts, TrainingSet, find_texts, settings_of
from .evidence import read_evidence, weight_of
from .examples import Corpus
from .labels import PartialTable, gold_tags, known_tags
from .prediction import doc_key
from .white_space import words_of, wordwise

N_SAMPLE = 10
"""Documents from which the sizes of neural networks are inferred."""


class Training:
    """Trains the model of a component.

    plan (Plan): How, beside the model's method.

    data (TrainingSet | None): The texts that `initialize` has encoded, until a run ends.
    run (Any): What `steps` keeps between two calls; None to begin a run.
    """

    def __init__(self, model: DocModel, **settings: Any) -> None:
        self.model, plan = model, Plan(partial(util.logger.info, "[%s] %s", model.name))
        self.plan = plan._replace(**settings)
        self.data: TrainingSet | None = None
        self.run: Any = None

    def set(self, **settings: Any) -> None:
        """Change some fields of the plan."""
        self.plan = self.plan._replace(**settings)

    def present(self) -> TrainingSet:
        """Return the texts in the numbers of the model as it is now, perhaps none."""
        _, encoder = self.model.trained()
        data = self.data or TrainingSet(encoder, PartialTable(self.model.annotation))
        self.data = data._replace(encoder=encoder, strings=None)
        return self.data

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
        """Do what `CRFComponent.initialize` says."""
        model, settings = self.model, {} if nlp is None else nlp.config.interpolate().get("training") or {}
        self.plan = self.plan._replace(seed=settings.get("seed"), streamed=settings.get("max_epochs") == -1)
        if isinstance(model.method.features, TemplateFile):
            model.method.features.check_transitions(model.name, model.method.transitions)
        if self.plan.source is not None:
            check_source(self.plan.source, model)
        if isinstance(decoder := model.method.decoder, LearnedDecoder):
            before = None if self.plan.source is None else self.plan.source.method.decoder
            decoder.from_state(before.to_state() if isinstance(before, type(decoder)) else None)
        self.use_texts(nlp, terms)
        plan, examples, sample = self.plan, get_examples(), list[Example]()
        if model.networks or not isinstance(examples, Corpus):
            sample = list(islice(stream := iter(examples), N_SAMPLE if model.networks else 2))
            examples = chain(sample, stream)
        made_up = False  # by spaCy, for ``nlp.initialize()`` without any
        if len(sample) == 1 and isinstance(sample[0], Example):
            made_up = [token.orth_ for token in sample[0].reference] == ["x", "y", "z"]
        if plan.remote is not None:
            tags_of = plan.remote.encode(model, plan, nlp, examples)
            model.set_tags(self._choose_tags(tags_of, labels))
            _warn(model, (), nlp)
            plan.remote.start(model)
        else:
            data = collect(model, plan, examples, self._learn_first(None if made_up else get_examples, labels))
            made_up = made_up and not data.corpus.tags
            data = self._tagged(data, labels, nlp, made_up=made_up)
            self.begin(data)
            for network in model.networks.values():
                network.initialize([example.predicted for example in sample], len(data.tags))
        model.cfg.update(UNCALIBRATED)  # whatever was fitted belonged to other weights
        if made_up:
            self.data = self.present()._replace(corpora={}, met=Met({}))

    def _tagged(
        self, data: TrainingSet, labels: Sequence[str] | None, nlp: Language | None = None, made_up: bool = False
    ) -> TrainingSet:
        """Return a training set with the tags of the model to be; arguments and errors as of `_choose_tags`."""
        tags_of = {name: corpus.tags for name, corpus in data.corpora.items()}
        data = data._replace(tags=self._choose_tags(tags_of, labels, made_up))
        _warn(self.model, data.corpus.absent, nlp)
        return data

    def _choose_tags(
        self, tags_of: Mapping[str, Sequence[str]], labels: Sequence[str] | None, made_up: bool = False
    ) -> list[str]:
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

    def use_texts(self, nlp: Language | None, given: Mapping[str, Texts] | None = None) -> None:
        """Take the texts of terms from `given`, or from the corpora of a config.  RAISES ConfigError: If unknown.

        Components before this one annotate them if they annotate in training, and are trained already.
        """
        name, texts = self.model.name, find_texts(self.model, given or {}, nlp)
        self.plan = self.plan._replace(texts=texts)
        if nlp is not None and self.model.method.terms and not self.plan.annotators:
            names, training = nlp.component_names, nlp.config.interpolate().get("training") or {}
            before = names[: names.index(name)] if name in names else []
            chosen = set(training.get("annotating_components", ())).intersection(training.get("frozen_components", ()))
            self.set(annotators=[nlp.get_pipe(each) for each in before if each in chosen])

    def begin(self, whole: TrainingSet | None = None, sequences: Offsets | None = None) -> TrainingSet:
        """Begin with a model of zero weights, or those of the source, for a training set; return it in its numbers.

        whole (TrainingSet | None): None for the one that was kept, from which only settings have changed that affect
            neither features nor labels.
        sequences (Offsets | None): Those of its corpus to learn from, as if the others had never been read, except
            with `min_count`, which counts their tokens; None for all.
        RAISES DataError: If none was kept.
        """
        model, plan, whole, kept = self.model, self.plan, whole or self.present().whole, None
        if whole is None:
            raise DataError(f"Component {model.name!r}: nothing is encoded; call initialize just before.")
        data = whole
        if plan.keeps or whole.corpora.keys() != settings_of(model).keys():  # `fit` may add the texts of a term
            data, kept = whole.copy(), whole
        model.set_tags(whole.tags)
        crf, data = build_model(model, data if sequences is None else data.take(sequences), plan.source)
        model.start(crf, data.encoder, data.corpus.data.n_sequences, strings=data.strings)
        self.data, self.run = data._replace(whole=kept), None
        return self.data

    def _learn_first(
        self,
        get_examples: Callable[[], Iterable[Example]] | None,
        labels: Sequence[str] | None = None,
        *,
        keep: bool = False,
    ) -> dict[int, Ints]:
        """Train the first stage, if attributes read its labels; return those of the training corpus for the second one.

        A model labels its own training texts too well to show a second stage what to expect of new ones.  So the corpus
        is labelled in parts, each by a first stage that was trained on the others: the jackknife of Cohen & Carvalho
        (2005), "Stacked sequential learning", section 2.

        get_examples (Callable | None): Returns the training corpus; None if there is none yet.
        keep (bool): Keep the first stage, which is trained, and only label the corpus.
        """
        model, plan, held_out = self.model, self.plan, dict[int, Ints]()
        if model.first is None:
            return held_out
        first = model.new_first()
        if get_examples is not None and not plan.postponed:
            source, keys, sizes = None if plan.source is None else plan.source.first, list[int](), list[int]()
            if source is not None:
                check_source(source, first)
            training = Training(first, report=plan.report, seed=plan.seed, keeps=True, source=source)
            try:
                whole = training._tagged(collect(first, training.plan, _noted(get_examples(), keys, sizes)), labels)
            except DataError:  # it is raised again where the corpus is encoded for the second stage
                return held_out
            (k,) = (plugin.folds for plugin in model.method.attributes.values() if isinstance(plugin, LabelAttributes))
            decoder = model.method.decoder
            if isinstance(decoder, LearnedDecoder) and decoder.learned and (keep or source is not None):
                decoder = decoder.base  # it keeps what it has learned, from more texts than these
            held_out = _jackknife(training, whole, keys, sizes, k, plan.seed or 0, decoder)
            if keep:  # the labels that the first stage has, too, have other numbers there
                tags = model.first.labels.tags
                numbers = [tags.index(tag) if tag in tags else MISSING for tag in first.labels.tags]
                renamed = np.array([*numbers, MISSING], np.int32)
                return {key: renamed[numbers_of] for key, numbers_of in held_out.items()}
            plan.report("First stage: training on the whole corpus")
            training.learn(whole)
        if not keep:
            model.first = first
        return held_out

    # Examples and terms that come later

    def meet(self, new: Mapping[int, Example], *, due: bool) -> None:
        """Add features and labels of new examples, after an initialization without any.

        The model is rebuilt, and keeps the weights learnt so far, when there are a quarter more examples or it is due.
        So a corpus is read a few times in all.
        new (Mapping): By their `content_key`.
        """
        model, met = self.model, self.present().met or Met({})
        if model.annotation.scheme is not None:
            gold = (gold_tags(model.annotation, example, model.name) for example in new.values())
            tags = dict.fromkeys(tag for of_example in gold for tag in known_tags(of_example) if tag is not None)
            types = model.annotation.public_labels(list(tags))
            if added := [tag for tag in model.annotation.tags_of_types(types) if tag not in model.labels.tags]:
                self.add_tags(added)
        examples, n_built = {**met.examples, **new}, met.n_built
        if len(examples) > (1 if due else 1.25) * n_built:
            old, n_built = model.crf, len(examples)
            data = collect(model, self.plan, examples.values(), self._learn_first(examples.values))
            self.begin(data._replace(tags=model.labels.tags))
            carry_over(old, model.crf)
        self.data = self.present()._replace(met=Met(examples, n_built))

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags; a trained model gets weights of zero for them, and a run of steps begins again."""
        self.model.add_tags(tags)
        if self.data is not None:
            self.data.partials.resolve(self.model.labels.tags)
        if self.run is not None:
            self.run.restart()

    def complete_terms(self) -> TrainingSet:
        """Read the texts of terms that are missing, and return all texts.  RAISES DataError: If a term has none."""
        model, plan, data, settings = self.model, self.plan, self.present(), settings_of(self.model)
        missing = settings.keys() - {TRAIN, *data.corpora}
        for name in missing - plan.texts.keys():
            example: Any = f'terms={{"{name}": docs}}'
            raise DataError(
                f"Component {model.name!r}: the term {name!r} has no texts. Name their corpus under [components."
                f"{model.name}.terms.{name}], which 'crfseq fit' reads for any component and 'spacy train' for those "
                f"it initializes; in Python, call fit({example}). To train without terms, set pipe.method = "
                "pipe.method._replace(terms={})."
            )
        new = {name: data.encode_term(model, plan, name) for name in settings if name in missing}
        self.data = data = data.having(new).numbered(model)
        return data

    # All at once

    def fit(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        terms: Mapping[str, Texts] | None = None,
        seed: int | None = None,
        checkpoint: Checkpoint | None = None,
        **settings: Any,
    ) -> FitResult:
        """Do what `CRFComponent.fit` says; the settings are those of `training.fit.fit`.

        checkpoint (Checkpoint | None): Where the state of the run is saved, and what it continues from.
        """
        model, source, remote, optimizer = self.model, self.plan.source, self.plan.remote, self.optimizer(seed)
        with self.training_on(examples, dev, terms) as (objective, evaluate):
            (crf, _), n_sequences, result = model.trained(), model.n_sequences, None
            if checkpoint is not None:
                facts = {**_facts(crf, objective), **({} if remote is None else remote.facts())}
                begin = partial(optimizer.start, crf.theta)
                result, begun = checkpoint.begin(model.name, facts, crf.theta, begin, objective.blocks)
                settings |= {"saver": checkpoint, "begun": begun}
            if result is None and source is not None:  # find the change of its weights
                theta, factors = crf.theta, label_factors(source, model)
                scale = crf.by_label(factors)
                score = None if evaluate is None else lambda change: evaluate(theta + scale * change)
                change = objective.around(theta, factors, scale)
                result = minimise(change, optimizer, np.zeros_like(theta), evaluate=score, **settings)
                result = result._replace(best=theta + scale * result.best, last=theta + scale * result.last)
            elif result is None:
                result = minimise(objective, optimizer, crf.theta, evaluate=evaluate, **settings)
            if checkpoint is not None:
                checkpoint.end(model.name, result)
            model.set_parameters(result.best)
            if evaluate is not None:
                result = result._replace(scores=(evaluate.scores(result.best), evaluate.scores(result.last)))
        if source is not None and source.n_sequences > n_sequences:  # or the corpus has the old texts, too
            model.n_sequences += source.n_sequences
        if remote is not None:
            remote.finish(model)
        return result

    def learn(self, whole: TrainingSet, sequences: Offsets | None = None) -> None:
        """Begin with a training set or some of its sequences, and train to the end.  RAISES KeyboardInterrupt."""
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
            model.sync()
            objective = self._begin_on(examples, terms or {}) if remote is None else remote.objective(model, self.plan)
            model.trained()[1].pinned = True
            evaluate = Evaluator(model, list(dev)) if dev is not None else None
        try:
            yield objective, evaluate
        finally:
            self.release()

    def _begin_on(self, examples: Iterable[Example] | None, terms: Mapping[str, Texts]) -> Objective:
        """Begin a run on examples, or on those of `initialize`, and return its objective."""
        model, data = self.model, self.present()
        if terms:  # those that `initialize` had none of get weights for their features
            self.plan = self.plan._replace(texts={**self.plan.texts, **find_texts(model, terms, None)})
            self.data = data = data.without(terms)
            if data.whole is not None and TRAIN in data.corpora:
                new = {name: data.whole.encode_term(model, self.plan, name) for name in terms}
                data = self.begin(data.whole.having(new))
        if examples is not None:
            data = self._encode_again(examples)
        if TRAIN not in data.corpora:
            raise DataError(f"Component {model.name!r}: give examples to fit, or call initialize just before.")
        if model.method.terms:
            data = self.complete_terms()
            warn_of_missing_columns(model, data)
        model.n_sequences, self.run = data.corpora[TRAIN].data.n_sequences, None
        self.plan = self.plan._replace(streamed=False)
        return objective_of(model, terms_of(model, data))

    def _encode_again(self, examples: Iterable[Example]) -> TrainingSet:
        """Take examples in the numbers of the present model's features and tags in the place of the training corpus."""
        model, data = self.model, self.present()
        if data.met is not None:
            examples, self.data = list(examples), data._replace(met=Met({}))
            self.meet({content_key(model, example): example for example in examples}, due=True)
            self.data = data = self.present()._replace(met=None)
        if model.first is not None and not data.held_out:
            given = examples = list(examples) if isinstance(examples, Iterator) else examples
            held_out = self._learn_first(lambda: given, model.labels.tags, keep=model.first.has_weights)
            data = data._replace(held_out=held_out)
        self.data = data = data.having({TRAIN: data.encode(model, examples)}).numbered(model)
        return data

    def release(self) -> None:
        """Drop encoded texts, and a run of steps."""
        with self.model.lock:
            self.data, self.run = self.present()._replace(corpora={}), None
            self.data.encoder.pinned = False


# From examples to a training set


def collect(
    model: DocModel, plan: Plan, examples: Iterable[Example], held_out: Mapping[int, Ints] | None = None
) -> TrainingSet:
    """Return examples and terms as numbers, and the encoder with their features."""
    encoder, strings = model.new_encoder()
    if plan.source is not None:
        begin_with(encoder, plan.source, strings)
    if model.method.tag_dictionary_size:
        encoder.words = HashIndex()
    data = TrainingSet(encoder, PartialTable(model.annotation), strings, held_out or {})
    data = data.having({TRAIN: data.encode(model, examples)})  # so that its features come first
    return data.having({name: data.encode_term(model, plan, name) for name in plan.texts})


def _warn(model: DocModel, absent: Sequence[str], nlp: Language | None) -> None:
    """Warn of columns, scores and losses that do not fit the training."""
    name, key = model.name, model.annotation.score_name
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
    if all(map(is_unlabelled, [term.loss for term in settings_of(model).values()])):
        util.logger.warning("[%s] No loss of the objective learns from gold labels; was a term meant?", name)


# The first stage


def _jackknife(
    training: Training, whole: TrainingSet, keys: Sequence[int], sizes: Sequence[int], k: int, seed: int,
    decoder: Decoder,
) -> dict[int, Ints]:  # fmt: skip
    """Return the labels of the Docs of a training corpus, by their keys, from models that have not seen them.

    A document is split if it is the only one.  Labels are `MISSING` if there is but one sentence.
    keys, sizes (Sequence[int]): Of the Docs; sizes in tokens.
    k (int): Parts of the corpus, or as many as there are different documents.
    decoder (Decoder): That of the second stage, which may learn from these models, too.
    """
    ends, offsets, units = np.cumsum([0, *sizes]), whole.corpus.data.encoded.offsets, list(keys)
    bounds = np.searchsorted(offsets, ends)
    if len(set(units)) < 2:  # one document, perhaps in copies
        units = [i for begin, end in pairwise(bounds.tolist()) for i in range(end - begin)]
        bounds = np.arange(len(offsets))
    labels, observed = np.full(ends[-1], MISSING, np.int32), list[Any]()
    parts = folds(units, min(k, len(set(units))), seed) if len(set(units)) > 1 else []
    for number, held in enumerate(parts, 1):
        training.plan.report(f"First stage: part {number} of {len(parts)} is labelled by a model of the others")
        sequences = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in held])
        tokens = np.concatenate([np.arange(offsets[bounds[i]], offsets[bounds[i + 1]]) for i in held])
        training.learn(whole, np.setdiff1d(np.arange(len(offsets) - 1), sequences))
        posterior = posterior_of(training.model, part := whole.take(sequences).numbered(training.model))
        labels[tokens] = posterior.decode(training.model.method.decoder, training.model.method.n_threads)
        if isinstance(decoder, LearnedDecoder):
            weights = np.repeat(part.corpus.data.weights, np.diff(part.corpus.data.encoded.offsets))
            observed.append(decoder.observe(posterior, np.where(weights > 0, part.corpus.data.gold, MISSING)))
    if isinstance(decoder, LearnedDecoder):
        decoder.learn(observed)
    return {key: labels[begin:end] for key, (begin, end) in zip(keys, pairwise(ends.tolist()), strict=True)}


def posterior_of(model: DocModel, data: TrainingSet) -> Posterior:
    """Return the distribution of a model's labels for the training corpus of a set that it was made of."""
    encoded = model.encoder.adopted(data.corpus.data.encoded, data.encoder)
    return model.crf.posterior(encoded, model.labels.constraints, rules=model.rules)


def _noted(examples: Iterable[Example], keys: list[int], sizes: list[int]) -> Iterator[Example]:
    """Yield examples with whole Docs for a first stage; note keys and sizes, in words, of their predicted Docs."""
    for example in examples:
        # what is no example is refused where it is encoded; an empty Doc is no document to learn from
        if isinstance(example, Example) and len(words := words_of([example.predicted])[0]):
            keys.append(doc_key(words))
            sizes.append(len(words))
            if APART in example.predicted.user_data:  # the second stage alone learns from sentences
                whole = example.predicted.copy()
                del whole.user_data[APART]
                example = Example(whole, example.reference)
        yield example


# From a training set to weights


def content_key(model: DocModel, example: Example) -> int:
    """Return a hash of what training reads of an example: words, token columns, gold labels and weight."""
    evidence, weight = read_evidence(example.reference, model.name, ("user",)), weight_of(example.reference)
    example = wordwise(example)
    reference = example.reference
    has_functions = bool(model.features.set_names)  # they may read anything, most likely these columns
    read = TOKEN_COLUMNS if has_functions else model.encoder.columns
    return hash((
        example.predicted.to_array(["ORTH", "SENT_START", *read]).tobytes(),
        (hash_of(example.predicted), APART in example.predicted.user_data) if has_functions else 0,
        reference.to_array(["ORTH"]).tobytes(),
        model.annotation.gold_content(reference),
        repr((evidence.spans, sorted(evidence.allowed.items()))),
        weight,
    ))  # fmt: skip


def warn_of_missing_columns(model: DocModel, data: TrainingSet) -> None:
    """Warn of terms whose texts lack columns that features read."""
    for name, corpus in data.corpora.items():
        if name != TRAIN and corpus.unset:
            util.logger.warning(
                "[%s] The texts of the term %s have no %s, which features read. Give texts that have it, or list "
                "the component that sets it in annotating_components: 'crfseq fit' applies it when it is trained, "
                "'spacy train' only if it is frozen.",
                model.name, name, ", ".join(corpus.unset),
            )  # fmt: skip


def bound(model: DocModel, loss: Loss) -> Loss:
    """Return a loss for the model's tags."""
    return loss.bind(model.labels.tags, model.annotation.scheme) if isinstance(loss, TextLoss) else loss


def terms_of(model: DocModel, data: TrainingSet) -> list[Term]:
    """Return the terms of the objective for a set in the numbers of a model."""
    terms = []
    for name, corpus in data.corpora.items():
        (loss, _, weight), is_first = corpus.settings, name == TRAIN
        loss, sample = (model.method.loss, None) if is_first else (loss, corpus.data)
        terms += [Term(corpus.data, bound(model, loss), weight, name, sample)] if weight else []
    return terms


def objective_of(
    model: DocModel, terms: Sequence[Term], n_total: int = 0, potential: Potential | None = None
) -> Objective:
    """Return the objective for terms in the numbers of a model.

    n_total (int): Sequences of the whole training set, if the terms' data are a part of it.
    potential (Potential | None): In place of the model's.
    """
    crf, _ = model.trained()
    return Objective(
        potential or crf.potential,
        terms,
        model.method.regularizer,
        n_total=n_total,
        n_threads=model.method.n_threads,
        dictionary=crf.dictionary,
        templates=None if crf.templates is None else crf.templates[0],
    )


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
