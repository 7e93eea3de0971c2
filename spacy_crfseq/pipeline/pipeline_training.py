"""The training of a pipeline: its components one after another, on the corpora of its config, as ``spacy train`` does.

The config and the output are those of ``spacy train``.  Later components see the predictions of those in
``[training.annotating_components]``.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from spacy import util
from tqdm import tqdm

from ..corpora.layouts import corpus_block, reader_layout
from ..corpora.leaks import MOST, leak, sentence_keys
from ..corpora.outputs import check_output_folder
from ..errors import ConfigError, DataError, count_of
from ..files import replace_folder
from ..prf import SEQUENCES, finite
from ..types import BY_OPTIMIZER, Schedule
from .configs import load_config, naming_block, pipelines_in
from .corpus import Corpus
from .scorers import lacking_scores, scores_alone
from .spacy_train import Calibrate
from .terms import begin_texts, reader_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example
    from thinc.api import Config

    from ..training.checkpoint import Checkpoint
    from ..training.fit import DevScores, FitResult, Progress
    from ..types import Floats
    from .component import CRFComponent

BEST, LAST, REFIT, LOG, CHECKPOINT = "model-best", "model-last", "model-refit", "log.jsonl", "checkpoint"
Say: TypeAlias = Callable[[str, str], None]
"""Shows a line of progress; its kind comes first: "text", "info" or "warn"."""


def log(kind: str, line: str) -> None:
    """Write a line of progress to spaCy's log."""
    (util.logger.warning if kind == "warn" else util.logger.info)(line)


_Readers: TypeAlias = tuple[Callable[[], Iterable[Any]], Callable[..., Any] | None, "array[int] | None"]
"""A function that reads the examples of a corpus, one that reads it in portions, and the keys of sentences, if its
reader can and notes any.
"""


class TrainingReporter(Protocol):
    """Shows and logs training."""

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with a component, trained on this many tokens and shown every so many iterations."""

    def __call__(self, progress: Progress) -> None:
        """Take in an iteration."""


class Turn(NamedTuple):
    """A component that is ready to be trained.

    examples (Corpus | None): What it learns from; None if it holds that encoded.
    dev (Iterable[Example] | None): Scored during training; None if there is no dev corpus.
    seed (int | None): ``training.seed`` of the config.
    """

    name: str
    pipe: CRFComponent
    examples: Corpus | None
    dev: Iterable[Example] | None
    seed: int | None

    def fit(
        self,
        schedule: Schedule = BY_OPTIMIZER,
        callback: Callable[[Progress], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> FitResult:
        """Train the component at once; after Ctrl-C, the result says so."""
        training, seed = self.pipe.training, self.seed
        return training.fit(
            self.examples, self.dev, seed=seed, checkpoint=checkpoint, schedule=schedule, callback=callback
        )


class TrainingResults(NamedTuple):
    """The results of the components that were trained, by their names, and whether Ctrl-C has ended the training."""

    results: dict[str, FitResult]
    interrupted: bool


class Outcome(NamedTuple):
    """The models that were saved, their scores, and why their training ended.

    refit (Path | None): The model that was then trained on the dev corpus, too; the scores are not of it.
    kept (str): What is saved of a training that Ctrl-C has ended.
    """

    best: Path | None
    last: Path | None
    scores: dict[str, Any]
    reasons: dict[str, str]
    untrained: list[str]
    interrupted: bool
    refit: Path | None = None
    kept: str = "the best parameters so far are saved"


class PipelineTraining(NamedTuple):
    """The training of a pipeline: `encode` reads the corpus, `train` finds the weights, `save_models` writes them.

    Whoever trains in another way asks for the `turns` of the components.

    settings (dict): The section [training] of the config, resolved.
    to_train (dict): The components to train, by their names.
    resumed (set): Those of them that were trained before.
    corpus (Corpus): The training corpus, which `encode` is the first to read.
    dev (Corpus): The dev corpus, perhaps without texts.
    distributed (bool): Whether the workers of a cluster read the training corpus.
    """

    nlp: Language
    settings: dict[str, Any]
    to_train: dict[str, CRFComponent]
    resumed: set[str]
    corpus: Corpus
    dev: Corpus
    say: Say = log
    distributed: bool = False

    def calibrating(self) -> PipelineTraining:
        """Return the training that fits the calibration of its config itself, instead of the callback `Calibrate`.

        It does so on the arrays of the dev corpus that scores are counted on.
        """
        callback = self.settings["before_to_disk"]
        if not isinstance(callback, Calibrate):
            return self
        for pipe in self.to_train.values():
            pipe.training.set(calibrates=True)
        return self._replace(settings={**self.settings, "before_to_disk": callback.then})

    def has_dev(self) -> bool:
        """Whether the dev corpus has texts; it is read now, so that its errors come early.

        RAISES FormatError: On a line that cannot be read.
        """
        from .evaluator import labelled_texts

        texts = [labelled_texts(pipe.doc_model, self.dev) for pipe in self.to_train.values()]
        return None not in texts or bool(self.dev.head(1))

    def warn_of_leak(self) -> bool:
        """Warn of dev sentences that are in the training corpus, and return whether most are.

        Then nothing is calibrated on them. The dev files are read once more, without making Docs, and so are those of a
        training corpus whose reader notes no sentences, such as spaCy's. Workers of a cluster may read other files, so
        nothing is compared then.
        """
        if self.distributed:
            return False
        noted = self.corpus.keys
        learned_from = sentence_keys(self._sentences("train_corpus")) if noted is None else np.array(noted)
        copies = leak(learned_from, sentence_keys(self._sentences("dev_corpus")))
        if not copies.matters:
            return False
        most = copies.share > MOST
        self.say("warn", f"{copies}{' Probabilities are not calibrated on them.' if most else ''}")
        for pipe in self.to_train.values() if most else ():
            pipe.training.set(calibrates=False)
        return most

    def _sentences(self, corpus: str) -> Iterator[Sequence[str]]:
        """Yield the words of the sentences in the files of train_corpus or dev_corpus, before any are joined.

        There are none where a reader is limited, is of a user, or reads attribute files, which may have no words.
        """
        from .corpus_reader import CorpusReader

        block = corpus_block(self.nlp.config.interpolate(), corpus)
        if not block.get("path") or block.get("limit") or reader_layout(block) is None:
            return
        reader = util.registry.resolve({"corpus": block})["corpus"]
        if isinstance(reader, CorpusReader):
            yield from (sentence.words for sentence in reader.sentences(self.nlp))
            return
        for doc in (example.reference for example in reader(self.nlp)):  # of spaCy's own reader
            starts = [token.i for token in doc if token.i == 0 or token.is_sent_start]
            for start, end in zip(starts, [*starts[1:], len(doc)], strict=True):
                yield [token.text for token in doc[start:end]]

    def without_dev(self) -> None:
        """Let components that calibrate do so by parts of the training corpus, if that is small."""
        for pipe in self.to_train.values():
            pipe.training.set(has_dev=False)

    def refuse_trained(self, what: str) -> None:
        """RAISES ConfigError: If a component to train comes from a trained pipeline, with which `what` cannot work."""
        if self.resumed:
            names = ", ".join(map(repr, sorted(self.resumed)))
            raise ConfigError(f"{what} trains from scratch, but {names} comes from a trained pipeline (source).")

    def one_to_train(self, wanted: str | None) -> str:
        """Return the name of the component to train, `wanted` or the only one.  RAISES ConfigError: If none is."""
        names = list(self.to_train)
        if wanted in names or (wanted is None and len(names) == 1):
            return wanted or names[0]
        said = f"{wanted!r} is no" if wanted else "There is more than one"
        raise ConfigError(f"{said} CRF component to train. Choose one: --component {' or '.join(names)}.")

    def encode(self, postpone: bool = True) -> None:
        """Read the training corpus and initialize the components to train.

        postpone (bool): Leave first stages to `turns` where it initializes the component again, after annotating
            components.
        """
        self.say("text", "Reading and encoding the training corpus")
        names = self.nlp.pipe_names
        for name, pipe in self.to_train.items():
            annotated = not set(self.settings["annotating_components"]).isdisjoint(names[: names.index(name)])
            postponed = postpone and annotated and name not in self.resumed
            pipe.training.set(report=lambda line, name=name: self.say("text", f"{name}: {line}"), postponed=postponed)
        with self.nlp.select_pipes(disable=[*self.settings["frozen_components"], *self.resumed]):
            self.nlp.initialize(lambda: self.corpus)

    def turns(self) -> Iterator[Turn]:
        """Yield the components in the order of the pipeline; train each before asking for the next one.

        Features that earlier components have changed are encoded again; Ctrl-C is raised.
        """
        # annotations of components are of these turns alone
        dev, left, annotated = self.dev.kept(True) if self.dev.keeps else self.dev, list(self.to_train), False
        scored = self.has_dev()
        for component in self.to_train.values():
            component.training.set(annotators=())
        for name, pipe in self.nlp.pipeline:
            if name in self.to_train:
                component = self.to_train[name]
                self._prepare(name, component, annotated)
                # a resumed component has not been encoded
                examples = self.corpus if name in self.resumed else None
                yield Turn(name, component, examples, dev if scored else None, self.settings["seed"])
                left.remove(name)
            if name in self.settings["annotating_components"] and left:
                for corpus in [dev] if self.distributed else [self.corpus, dev]:  # workers annotate their parts
                    corpus.annotate(pipe)
                annotated = True
                for other in left:
                    training = self.to_train[other].training
                    training.set(annotators=[*training.plan.annotators, pipe])

    def _prepare(self, name: str, pipe: CRFComponent, annotated: bool) -> None:
        """Initialize a component again if its features have changed, and show its size."""
        from ..training.compatibility import part_name
        from .start_from import summary

        if (annotated or pipe.training.plan.postponed) and name not in self.resumed:
            pipe.training.set(postponed=False)
            block = self.nlp.config.interpolate()["initialize"]["components"].get(name, {})  # such as given labels
            pipe.initialize(lambda: self.corpus, nlp=self.nlp, **util.registry.resolve(block))
        if name in self.resumed:
            pipe.training.use_texts(self.nlp)
        docs = [example.predicted for example in self.corpus.head(100)]
        for annotator in pipe.training.plan.annotators if self.distributed else ():
            docs = list(annotator.pipe(docs))
        warn_of_empty_columns(self.say, name, pipe.reads, docs, "training document", "training")
        _warn_of_sentences(self, name, pipe)
        self.say(
            "info",
            f"Training {name}: {count_of(len(pipe.tags), 'label')}, {count_of(pipe.crf.theta.size, 'parameter')}",
        )
        if pipe.training.plan.source is not None:
            self.say("info", f"From the trained {name}: {summary(pipe.training.plan.source, pipe.doc_model)}")
        for term, settings in pipe.method.each_term(name).items():
            if texts := pipe.training.terms.get(term):
                size = (
                    f"{count_of(texts.data.n_sequences, 'sequence')}, {count_of(texts.data.encoded.n_tokens, 'token')}"
                )
                self.say("info", f"Term {term}: {size}, {settings.weight:g} * {part_name(settings.loss)}")

    def train(
        self,
        reporter: TrainingReporter | None = None,
        schedule: Schedule = BY_OPTIMIZER,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResults:
        """Train all components, or until Ctrl-C."""
        results: dict[str, FitResult] = {}
        try:
            for turn in self.turns():
                if reporter is not None:
                    shown, _ = schedule.filled(turn.pipe.method.optimizer)
                    reporter.start(turn.name, self.corpus.n_tokens, shown, turn.dev is not None)
                result = turn.fit(schedule, reporter, checkpoint)
                if result.history:
                    results[turn.name] = result
                    if reporter is not None:
                        self.say("text", f"{turn.name}: {count_of(len(result.history), 'iteration')}; {result.reason}")
                if result.reason == "interrupted":
                    return TrainingResults(results, True)
        except KeyboardInterrupt:
            return TrainingResults(results, True)
        return TrainingResults(results, False)

    def score(
        self, losses: dict[str, float], dev_scores: Mapping[str, DevScores] | None = None, *, scoring: bool = True
    ) -> dict[str, Any]:
        """Evaluate the pipeline and store the scores in its meta as ``spacy train`` does, with the loss per token.

        dev_scores (Mapping[str, DevScores] | None): Those of components; they are used for a pipeline of one, if all
            scores with a weight are among them.
        scoring (bool): Whether to evaluate at all; without, a pipeline of several components has no scores.
        """
        nlp = self.nlp
        scores = scores_alone(nlp, dev_scores or {})
        if scoring and (scores is None or self._lacking(scores)):
            dev = list(self.dev)
            scores = nlp.evaluate(dev) if dev else {}
        scores = scores or {}
        weighted = self.settings["score_weights"]
        kept = {name: value for name, value in scores.items() if name in weighted or name.endswith(SEQUENCES)}
        nlp.meta["performance"] = {**kept, **{f"{name}_loss": finite(loss) for name, loss in losses.items()}}
        return scores

    def _lacking(self, scores: Mapping[str, Any]) -> list[str]:
        """Return the names of scores that have a weight in the config, but are not there."""
        return [name for name, weight in self.settings["score_weights"].items() if weight and name not in scores]

    def save_models(self, trained: TrainingResults, output: Path) -> Outcome:
        """Save the last and the best parameters as two pipelines, with scores in their meta.json.

        Ctrl-C ends the scoring, not the saving, and both for the second time.
        """
        try:
            return self._saved(trained, output)
        except KeyboardInterrupt:
            return self._saved(trained._replace(interrupted=True), output, scoring=False)

    def _saved(self, trained: TrainingResults, output: Path, *, scoring: bool = True) -> Outcome:
        results, interrupted = trained
        reasons = {name: result.reason for name, result in results.items()}
        untrained = [name for name in self.to_train if name not in results and name not in self.resumed]
        if not results:
            return Outcome(None, None, {}, reasons, untrained, interrupted)
        last = {name: (result.last, result.fitted_to_last) for name, result in results.items()}
        best = {name: (result.best, result.fitted_to_best) for name, result in results.items()}
        ends = {name: result.history[-1] for name, result in results.items()}
        bests = {name: result.best_iteration for name, result in results.items()}
        dev_scores = {name: result.scores_of_last for name, result in results.items()}
        scores = self._use(last, ends, dev_scores, scoring=scoring)
        self.save(output / LAST)
        if not all(np.array_equal(best[name][0], last[name][0]) for name in results):
            dev_scores = {name: result.scores_of_best for name, result in results.items()}
            scores = self._use(best, bests, dev_scores, scoring=scoring)
        self.save(output / BEST)
        return Outcome(output / BEST, output / LAST, scores, reasons, untrained, interrupted)

    def _use(
        self,
        weights: Mapping[str, tuple[Floats, dict[str, Any]]],
        iterations: Mapping[str, Progress],
        dev_scores: Mapping[str, DevScores],
        *,
        scoring: bool,
    ) -> dict[str, Any]:
        """Give components their weights after some iteration, and return the scores of the pipeline; see `score`.

        weights: By component, with the settings that were fitted to them.
        """
        for name, (theta, fitted) in weights.items():
            self.to_train[name].set_parameters(theta)
            self.to_train[name].cfg.update(fitted)
        n_tokens = max(1, self.corpus.n_tokens)
        losses = {name: progress.report.loss / n_tokens for name, progress in iterations.items()}
        return self.score(losses, dev_scores, scoring=scoring)

    def save(self, folder: Path) -> None:
        """Save the pipeline with its model card, replacing the folder."""
        from spacy.training.loop import create_before_to_disk_callback

        from .model_card import fill_card

        nlp = create_before_to_disk_callback(self.settings["before_to_disk"])(self.nlp)
        with ExitStack() as stack:
            for pipe in self.to_train.values():
                stack.enter_context(pipe.packed_once())  # for its size, then for its file
            replace_folder(folder, fill_card(nlp).to_disk)


def set_up(
    config_path: Path,
    output: Path | None,
    overrides: dict[str, Any],
    pipelines: Sequence[str],
    force: bool,
    say: Say = log,
    files: Sequence[str] = (LOG,),
) -> PipelineTraining:
    """Return the training of a config file.

    pipelines, files (Sequence[str]): Names of what will be written in `output`; see `check_output_folder`.
    """
    config = load_config(config_path, overrides)
    if output is not None:
        check_output_folder(output, *pipelines_in(config.interpolate()), pipelines=pipelines, files=files, force=force)
    return set_up_from(config, say)


def set_up_from(config: Config, say: Say = log) -> PipelineTraining:
    """Return the training of a config: the pipeline and its corpora are made as ``spacy train`` does.

    RAISES CrfError: If a component to train is not a CRF, if there is none, if the training corpus is empty, or if a
        term cannot read a text, as that of a teacher.
    """
    from spacy.schemas import ConfigSchemaTraining
    from thinc.api import ConfigValidationError, fix_random_seed

    from ..optimizers.online import check_seed

    seed = config.interpolate().get("training", {}).get("seed", 0)
    if isinstance(seed, int):  # spaCy's schema refuses other things
        check_seed("[training] seed", seed)
        fix_random_seed(seed)
    with naming_block(config):
        nlp = util.load_model_from_config(config, auto_fill=True)
    filled = nlp.config.interpolate()
    try:
        settings = util.registry.resolve(filled["training"], schema=ConfigSchemaTraining)
    except ConfigValidationError as error:
        raise ConfigValidationError.from_error(error, parent="training") from None
    to_train = _to_train(nlp, settings["frozen_components"])
    for pipe in to_train.values():
        pipe.training.set(watch=count_texts)
    resumed = set(util.get_sourced_components(config)).intersection(to_train)
    with naming_block(config):
        (read, portions, keys), (read_dev, dev_portions, _) = _corpora(nlp, filled, settings)
        _check_score_weights(nlp, config, settings, next(iter(read())), say)
        for pipe in to_train.values():
            pipe.training.set(begun=begin_texts(pipe.doc_model, nlp))
    last = max(nlp.pipe_names.index(name) for name in to_train)
    annotates = not set(settings["annotating_components"]).isdisjoint(nlp.pipe_names[:last])  # for one trained later
    block = corpus_block(filled, "train_corpus")
    times, joined = 2 if block.get("twice") else 1, block.get("joined")

    def report(docs: int, tokens: int) -> None:
        twice = ", each twice" if times > 1 else ""
        of_several = f"; some are of several sentences, since joined = {joined:g}" if joined else ""
        size = f"{count_of(docs // times, 'document')}, {count_of(tokens // times, 'token')}"
        say("info", f"Encoded {size}{twice}{of_several}")

    corpus, dev = Corpus(read, annotates, report, portions, keys), Corpus(read_dev, annotates, None, dev_portions)
    return PipelineTraining(nlp, settings, to_train, resumed, corpus, dev, say)


def count_texts(name: str, examples: Iterator[Example]) -> Iterator[Example]:
    """Yield the texts of a term, counted on a terminal."""
    return iter(tqdm(examples, f"Texts of {name}", disable=None, leave=False, file=sys.stderr, delay=1, unit=" texts"))


def _to_train(nlp: Language, frozen: list[str]) -> dict[str, CRFComponent]:
    from .component import CRFComponent

    pipes = {name: pipe for name, pipe in nlp.pipeline if name not in frozen}
    trainable = {name: pipe for name, pipe in pipes.items() if getattr(pipe, "is_trainable", False)}
    others = [name for name, pipe in trainable.items() if not isinstance(pipe, CRFComponent)]
    if others:
        raise ConfigError(
            f"crfseq fit trains CRF components only, but {', '.join(map(repr, others))} would have to be trained, too. "
            "Use 'python -m spacy train' for pipelines with other trainable components, or list them in [training] "
            "frozen_components if they are trained already."
        )
    if not trainable:
        raise ConfigError(
            f"There is no CRF component to train in the pipeline {list(nlp.pipe_names)}. Add one, such as crf_ner, to "
            "[nlp] pipeline, or take it out of [training] frozen_components."
        )
    for pipe in trainable.values():
        pipe.doc_model.refuse_networks("crfseq fit", "Use 'python -m spacy train'.")  # type: ignore[attr-defined]
    return trainable  # type: ignore[return-value]


def _corpora(nlp: Language, config: Any, settings: dict[str, Any]) -> tuple[_Readers, _Readers]:
    """Return functions that read the training and the dev corpus.

    There are no dev examples if the config has no dev path: their reader could not be created.
    RAISES CrfError: If the first training document cannot be read.
    """
    name, dev = settings["train_corpus"], settings["dev_corpus"]
    reader = reader_of("[training] train_corpus", name, nlp)
    read = partial(getattr(reader, "stream", reader), nlp)  # calling the package's readers would keep the examples
    if next(iter(read()), None) is None:
        raise DataError(f"[{name}] holds no documents. Check its path, --paths.train.")
    keys = reader.note_keys() if hasattr(reader, "note_keys") else None
    if not _has_path(config, dev):
        return (read, _portions(reader, nlp), keys), (list[Any], None, None)
    dev_reader = reader_of("[training] dev_corpus", dev, nlp)
    return (read, _portions(reader, nlp), keys), (partial(dev_reader, nlp), _portions(dev_reader, nlp), None)


def _check_score_weights(nlp: Language, config: Config, settings: dict[str, Any], example: Example, say: Say) -> None:
    """Name weights of scores that the pipeline lacks, given a text of the training corpus.

    They count 0 if they may be those of components that are left out of ``[nlp] pipeline``, or are those of the usual
    attribute of a component, which configs have, such as that of tags where it predicts ``pos``.
    RAISES ConfigError: If they are neither.
    """
    lacking = lacking_scores(nlp, settings["score_weights"], example)
    by_factory = [nlp.get_pipe_meta(name).default_score_weights for name in nlp.pipe_names]
    usual = {name for weights in by_factory for name, weight in (weights or {}).items() if weight}
    left_out = not config.get("components", {}).keys() <= set(nlp.component_names)
    for name, advice in lacking.items():
        if not left_out and name not in usual:
            raise ConfigError(f"[training.score_weights] {name}: the pipeline has no such score. {advice}")
    if lacking:
        say("warn", f"[training.score_weights] {', '.join(lacking)}: the pipeline has no such scores.")


def _portions(reader: Any, nlp: Language) -> Callable[..., Any] | None:
    return partial(reader.portions, nlp) if hasattr(reader, "portions") else None


def _has_path(config: dict[str, Any], name: str) -> bool:
    """Whether a block such as corpora.dev names a file; a reader without a setting `path` is assumed to have one."""
    block: Any = config
    for key in name.split("."):
        block = block.get(key, {}) if isinstance(block, dict) else {}
    return block.get("path", "?") not in (None, "") if isinstance(block, dict) else True


def _warn_of_sentences(training: PipelineTraining, name: str, pipe: CRFComponent) -> None:
    from ..features.documents import DocumentWords
    from ..features.protocol import LabelAttributes
    from .texts import unit_of

    plugins = pipe.method.attributes.values()
    if unit_of(training.nlp) == "sentence" and any(
        isinstance(plugin, DocumentWords | LabelAttributes) for plugin in plugins
    ):
        training.say(
            "warn",
            f'{name} has attributes of whole documents, but learns from single sentences: set unit = "document" in '
            'both corpus readers, or unit = "passage" if the files mark no documents',
        )


def warn_of_empty_columns(
    say: Say, name: str, reads: Set[str], docs: Sequence[Doc], documents: str, section: str
) -> None:
    """Warn of columns that a component reads and no Doc has; `section` of the config lists annotating components."""
    for column in sorted(reads - {"NORM", "SPACY"}):
        if not any(doc.has_annotation(column) for doc in docs):
            say(
                "warn",
                f"{name} reads {column}, which no {documents} has: list the component that sets it in [{section}] "
                "annotating_components, or the column under `given` of the corpus reader",
            )
