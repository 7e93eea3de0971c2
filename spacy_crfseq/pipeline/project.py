"""A pipeline to train and the corpora of its config: set up, encoded, trained one component after another, saved.

Config and output are those of ``spacy train``.  Later components see the predictions of those in
``[training.annotating_components]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from spacy import util
from tqdm import tqdm

from ..corpora.layouts import corpus_block
from ..corpora.outputs import check_output_folder
from ..errors import ConfigError, DataError
from ..files import replace_folder
from ..prf import SEQUENCES, finite
from .examples import Corpus
from .overrides import check_overrides
from .spacy_train import scores_alone

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example
    from thinc.api import Config

    from ..training.checkpoint import Checkpoint
    from ..training.fit import FitResult, Progress, Scores
    from ..types import Offsets
    from .component import CRFComponent

BEST, LAST, LOG, CHECKPOINT = "model-best", "model-last", "log.jsonl", "checkpoint"
Say: TypeAlias = Callable[[str, str], None]
"""Shows a line of progress; its kind comes first: "text", "info" or "warn"."""


def log(kind: str, line: str) -> None:
    """Write a line of progress to spaCy's log."""
    (util.logger.warning if kind == "warn" else util.logger.info)(line)


class Setup(NamedTuple):
    """A pipeline and its corpora, which `encode` is the first to read.

    resumed: Components that were trained before.
    distributed: Whether the workers of a cluster read the training corpus.
    """

    nlp: Language
    training: dict[str, Any]
    to_train: dict[str, CRFComponent]
    resumed: set[str]
    train: Corpus
    read_dev: Callable[[], Iterable[Example]]
    say: Say = log
    distributed: bool = False

    def save(self, folder: Path) -> None:
        """Save the pipeline with its model card, replacing the folder."""
        from spacy.training.loop import create_before_to_disk_callback

        from .spacy_train import fill_card

        nlp = create_before_to_disk_callback(self.training["before_to_disk"])(self.nlp)
        with ExitStack() as stack:
            for pipe in self.to_train.values():
                stack.enter_context(pipe.packed_once())  # for its size, then for its file
            replace_folder(folder, fill_card(nlp).to_disk)

    def refuse_trained(self, what: str) -> None:
        """RAISES ConfigError: If a component to train comes from a trained pipeline, with which `what` cannot work."""
        if self.resumed:
            names = ", ".join(map(repr, sorted(self.resumed)))
            raise ConfigError(f"{what} trains from scratch, but {names} comes from a trained pipeline (source).")


def check_config_file(path: Path) -> None:
    """RAISES ConfigError: If there is no such file, it is empty or not in UTF-8."""
    path = Path(path)
    if str(path) == "-":
        return
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give a config file.")
    if not path.is_file():
        raise ConfigError(f"{path}: no such config file (in {Path.cwd()}).")
    try:
        text = path.read_text(encoding="utf8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} of this config is not utf8. Save it as UTF-8.") from error
    if not text.strip():
        advice = f"To write a config, run: python -m spacy crfseq init-config {path} --force"
        raise ConfigError(f"{path} is empty. {advice}")


def load_config(config_path: Path, overrides: dict[str, Any], sections: Collection[str] = ()) -> Config:
    """Return a config without interpolating its variables.

    A block that an override gives another function loses the settings of the former one, which are not its own.
    sections (Collection[str]): Sections that the caller reads, beside those of spaCy.
    RAISES ConfigError: As `check_config_file`, and if nothing reads an override.
    """
    check_config_file(config_path)
    config = util.load_config(config_path, interpolate=False)
    if overrides:
        check_overrides(config, overrides, sections)
    for key, function in overrides.items():
        *parts, name = key.split(".")
        if name.startswith("@"):
            block: Any = reduce(lambda outer, part: outer.get(part, {}), parts, config)
            if block.get(name, function) != function:
                block.clear()
                block[name] = function
    text = config.to_str(interpolate=False)
    replaced: Config = util.load_config_from_str(text, overrides=overrides, interpolate=False)
    return replaced


def set_up(
    config_path: Path,
    output: Path | None,
    overrides: dict[str, Any],
    pipelines: Sequence[str],
    force: bool,
    say: Say = log,
    files: Sequence[str] = (LOG,),
) -> Setup:
    """Create the pipeline and the corpora of a config file.

    pipelines, files (Sequence[str]): Names of what will be written in `output`; see `check_output_folder`.
    """
    config = load_config(config_path, overrides)
    if output is not None:
        components = config.interpolate().get("components", {}).values()
        sources = [str(block["source"]) for block in components if "source" in block]
        check_output_folder(output, *sources, pipelines=pipelines, files=files, force=force)
    return set_up_from(config, say)


def set_up_from(config: Config, say: Say = log) -> Setup:
    """Create the pipeline and the corpora of a config, as ``spacy train`` does.

    RAISES CrfError: If a component to train is not a CRF, if there is none, or if the training corpus is empty.
    """
    from spacy.schemas import ConfigSchemaTraining
    from thinc.api import fix_random_seed

    from ..optimizers.online import check_seed

    seed = config.interpolate().get("training", {}).get("seed", 0)
    if isinstance(seed, int):  # spaCy's schema refuses other things
        check_seed("[training] seed", seed)
        fix_random_seed(seed)
    nlp = util.load_model_from_config(config, auto_fill=True)
    filled = nlp.config.interpolate()
    training = util.registry.resolve(filled["training"], schema=ConfigSchemaTraining)
    to_train = _to_train(nlp, training["frozen_components"])
    for pipe in to_train.values():
        pipe.training.set(watch=count_texts)
    resumed = set(util.get_sourced_components(config)).intersection(to_train)
    read_train, read_dev, portions = _corpora(nlp, filled, training)
    last = max(nlp.pipe_names.index(name) for name in to_train)
    annotates = not set(training["annotating_components"]).isdisjoint(nlp.pipe_names[:last])  # for one trained later
    times = 2 if corpus_block(filled, "train_corpus").get("twice") else 1

    def report(docs: int, tokens: int) -> None:
        twice = ", each twice" if times > 1 else ""
        say("info", f"Encoded {docs // times:,} documents, {tokens // times:,} tokens{twice}")

    return Setup(nlp, training, to_train, resumed, Corpus(read_train, annotates, report, portions), read_dev, say)


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


def one_to_train(setup: Setup, wanted: str | None) -> str:
    """Return the name of the component to train, `wanted` or the only one.  RAISES ConfigError: If there is none."""
    names = list(setup.to_train)
    if wanted in names or (wanted is None and len(names) == 1):
        return wanted or names[0]
    said = f"{wanted!r} is no" if wanted else "There is more than one"
    raise ConfigError(f"{said} CRF component to train. Choose one: --component {' or '.join(names)}.")


def _corpora(
    nlp: Language, config: Any, training: dict[str, Any]
) -> tuple[Callable[[], Iterable[Example]], Callable[[], Iterable[Example]], Callable[..., Any] | None]:
    """Return functions that read the training and the dev examples, and the former in portions, if its reader can.

    There are no dev examples if the config has no dev path.
    """
    names = [training["train_corpus"], training["dev_corpus"]]
    if not _has_path(config, names[1]):  # readers cannot be created without one
        *blocks, last = names.pop().split(".")
        reduce(getitem, blocks, config).pop(last)
    corpora = util.resolve_dot_names(config, names)
    read = getattr(corpora[0], "stream", corpora[0])  # calling the package's readers would keep the examples in memory
    if next(iter(read(nlp)), None) is None:
        raise DataError(f"[{names[0]}] holds no documents. Check its path, --paths.train.")
    portions = partial(corpora[0].portions, nlp) if hasattr(corpora[0], "portions") else None
    return lambda: read(nlp), lambda: corpora[1](nlp) if len(corpora) > 1 else [], portions


def _has_path(config: dict[str, Any], name: str) -> bool:
    """Whether a block such as corpora.dev names a file; a reader without a setting `path` is assumed to have one."""
    block: Any = config
    for key in name.split("."):
        block = block.get(key, {}) if isinstance(block, dict) else {}
    return block.get("path", "?") not in (None, "") if isinstance(block, dict) else True


def encode(setup: Setup, postpone: bool = True) -> None:
    """Read the training corpus and initialize the components to train.

    postpone (bool): Leave first stages to `each_component` where it initializes the component again, after annotating
        components.
    """
    setup.say("text", "Reading and encoding the training corpus")
    names = setup.nlp.pipe_names
    for name, pipe in setup.to_train.items():
        annotated = not set(setup.training["annotating_components"]).isdisjoint(names[: names.index(name)])
        postponed = postpone and annotated and name not in setup.resumed
        pipe.training.set(report=lambda line, name=name: setup.say("text", f"{name}: {line}"), postponed=postponed)
    with setup.nlp.select_pipes(disable=[*setup.training["frozen_components"], *setup.resumed]):
        setup.nlp.initialize(lambda: setup.train)


class Turn(NamedTuple):
    """A component that is ready to be trained.

    examples (Corpus | None): What it learns from; None if it holds that encoded.
    dev (Corpus | None): Scored during training; None if there is no dev corpus.
    """

    name: str
    pipe: CRFComponent
    examples: Corpus | None
    dev: Corpus | None


def each_component(setup: Setup) -> Iterator[Turn]:
    """Yield the components in the order of the pipeline; train each before asking for the next one.

    Features that earlier components have changed are encoded again; Ctrl-C is raised.
    """
    dev, left, annotated = Corpus(setup.read_dev, setup.train.keeps or setup.distributed), list(setup.to_train), False
    scored = bool(dev.head(1))
    for component in setup.to_train.values():
        component.training.set(annotators=())
    for name, pipe in setup.nlp.pipeline:
        if name in setup.to_train:
            component = setup.to_train[name]
            _prepare(setup, name, component, annotated)
            # a resumed component has not been encoded
            yield Turn(name, component, setup.train if name in setup.resumed else None, dev if scored else None)
            left.remove(name)
        if name in setup.training["annotating_components"] and left:
            for corpus in [dev] if setup.distributed else [setup.train, dev]:  # workers annotate their parts
                corpus.annotate(pipe)
            annotated = True
            for other in left:
                training = setup.to_train[other].training
                training.set(annotators=[*training.plan.annotators, pipe])


def _prepare(setup: Setup, name: str, pipe: CRFComponent, annotated: bool) -> None:
    """Initialize a component again if its features have changed, and show its size."""
    from ..training.compatibility import part_name
    from .start_from import summary

    if (annotated or pipe.training.plan.postponed) and name not in setup.resumed:
        pipe.training.set(postponed=False)
        block = setup.nlp.config.interpolate()["initialize"]["components"].get(name, {})  # such as given labels
        pipe.initialize(lambda: setup.train, nlp=setup.nlp, **util.registry.resolve(block))
    if name in setup.resumed:
        pipe.training.use_texts(setup.nlp)
    docs = [example.predicted for example in setup.train.head(100)]
    for annotator in pipe.training.plan.annotators if setup.distributed else ():
        docs = list(annotator.pipe(docs))
    warn_of_empty_columns(setup.say, name, pipe.reads, docs, "training document", "training")
    _warn_of_sentences(setup, name, pipe)
    setup.say("info", f"Training {name}: {len(pipe.tags)} labels, {pipe.crf.theta.size:,} parameters")
    if pipe.training.plan.source is not None:
        setup.say("info", f"From the trained {name}: {summary(pipe.training.plan.source, pipe.doc_model)}")
    for term, settings in pipe.method.each_term(name).items():
        if data := pipe.training.present().terms.get(term):
            size = f"{data.n_sequences:,} sequences, {data.encoded.n_tokens:,} tokens"
            setup.say("info", f"Term {term}: {size}, {settings.weight:g} * {part_name(settings.loss)}")


def _warn_of_sentences(setup: Setup, name: str, pipe: CRFComponent) -> None:
    from ..features.documents import DocumentWords
    from ..features.protocol import LabelAttributes
    from .texts import unit_of

    plugins = pipe.method.attributes.values()
    if unit_of(setup.nlp) == "sentence" and any(
        isinstance(plugin, DocumentWords | LabelAttributes) for plugin in plugins
    ):
        setup.say(
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


def scores_every(pipe: CRFComponent, every: int | None) -> int:
    """Return the number of iterations between dev scores."""
    return every or (1 if pipe.method.optimizer.online else 10)


class Reporter(Protocol):
    """Shows and logs training."""

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with a component, trained on so many tokens and shown every so many iterations."""

    def __call__(self, progress: Progress) -> None:
        """Take in an iteration."""


class Trained(NamedTuple):
    """The results of the components that were trained, by their names, and whether Ctrl-C has ended the training."""

    results: dict[str, FitResult]
    interrupted: bool


def train(
    setup: Setup,
    reporter: Reporter | None = None,
    every: int | None = None,
    patience: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train all components, or until Ctrl-C.

    every, patience (int | None): Arguments of their `fit`; None for the default.
    """
    results: dict[str, FitResult] = {}
    try:
        for name, pipe, examples, dev in each_component(setup):
            shown = scores_every(pipe, every)
            if reporter is not None:
                reporter.start(name, setup.train.n_tokens, shown, dev is not None)
            result = pipe.training.fit(
                examples, dev, None, setup.training["seed"], checkpoint,
                evaluate_every=shown, patience=patience, callback=reporter,
            )  # fmt: skip
            if result.history:
                results[name] = result
                if reporter is not None:
                    setup.say("text", f"{name}: {len(result.history)} iterations; {result.reason}")
            if result.reason == "interrupted":
                return Trained(results, True)
    except KeyboardInterrupt:
        return Trained(results, True)
    return Trained(results, False)


class Fold(NamedTuple):
    """A held-out fold, and the pipeline trained on the others; the next fold trains the same pipeline again.

    held_out, numbers: Fresh examples of its documents, and their numbers in the corpus.
    scores: The pipeline's scores on them, if requested.
    """

    setup: Setup
    held_out: list[Example]
    numbers: Offsets
    n_documents: int
    scores: dict[str, Any]
    seconds: float


def each_fold(
    setup: Setup, k: int, every: int | None = None, patience: int | None = None, *, scored: bool = True
) -> Generator[Fold, None, None]:
    """Train the pipeline on all folds but one, in turn; use it before asking for the next fold.

    Ctrl-C ends the iteration.  The corpus is kept in memory, and is encoded only once if the encoding of a document
    does not depend on the others.
    RAISES CrfError: If k folds are impossible, or a component has been trained before.
    """
    from ..training.dataset import folds

    setup.refuse_trained("--cross-validate")
    examples = list(setup.train)
    parts = folds([example.reference.text for example in examples], k, setup.training["seed"] or 0)
    pipes, one_sequence_each = setup.to_train.values(), False
    if can_share(setup):
        for pipe in pipes:
            pipe.training.set(keeps=True)
        encode(setup._replace(train=Corpus(lambda: examples, False)))
        offsets = np.cumsum([0, *(len(example.predicted) for example in examples)])
        corpora = [pipe.training.present().corpus for pipe in pipes]
        one_sequence_each = all(data and np.array_equal(data.encoded.offsets, offsets) for data in corpora)
    for held in parts:
        started = perf_counter()
        kept = np.setdiff1d(np.arange(len(examples)), held)
        fold = setup._replace(train=Corpus(partial(fresh, examples, kept), setup.train.keeps))
        if one_sequence_each:
            for pipe in pipes:
                pipe.training.begin(sequences=kept)
        else:
            encode(fold)
        if train(fold, None, every, patience).interrupted:
            return
        scores = setup.nlp.evaluate(fresh(examples, held)) if scored else {}
        yield Fold(fold, fresh(examples, held), held, len(examples), scores, perf_counter() - started)


def can_share(setup: Setup) -> bool:
    """Whether the encoding of a document does not depend on the other documents of the corpus."""
    methods = [pipe.method for pipe in setup.to_train.values()]
    counted = any(m.min_count > 1 or m.max_features or m.tag_dictionary_size for m in methods)
    staged = any(method.first_stage() for method in methods)  # its labels depend on the others
    return not (setup.train.keeps or counted or staged)


def fresh(examples: Sequence[Example], numbers: Iterable[int]) -> list[Example]:
    """Return copies of examples whose predicted Docs can be annotated."""
    from spacy.training import Example

    return [Example(examples[i].predicted.copy(), examples[i].reference) for i in numbers]


class Outcome(NamedTuple):
    """What was trained and saved."""

    best: Path | None
    last: Path | None
    scores: dict[str, Any]
    reasons: dict[str, str]
    untrained: list[str]
    interrupted: bool


def save(setup: Setup, trained: Trained, output: Path) -> Outcome:
    """Save the last and the best parameters as two pipelines, with scores in their meta.json.

    Ctrl-C ends the scoring, not the saving; after training that was interrupted, or for the second time, it ends both.
    """
    try:
        return _saved(setup, trained, output)
    except KeyboardInterrupt:
        if trained.interrupted:
            raise
        return _saved(setup, trained._replace(interrupted=True), output, scoring=False)


def _saved(setup: Setup, trained: Trained, output: Path, *, scoring: bool = True) -> Outcome:
    results, interrupted = trained
    reasons = {name: result.reason for name, result in results.items()}
    untrained = [name for name in setup.to_train if name not in results and name not in setup.resumed]
    if not results:
        return Outcome(None, None, {}, reasons, untrained, interrupted)
    scores: dict[str, Any] = {}
    scored: list[Any] = []
    for folder, kind in ((LAST, "last"), (BEST, "best")):
        parameters = [getattr(result, kind) for result in results.values()]
        if not scored or not all(map(np.array_equal, parameters, scored)):
            for name, theta in zip(results, parameters, strict=True):
                setup.to_train[name].set_parameters(theta)
            tokens = max(1, setup.train.n_tokens)
            shown = {name: result.history[-1] for name, result in results.items()}
            if kind == "best":
                shown |= {name: step for name, result in results.items() for step in result.history if step.best}
            losses = {name: step.report.loss / tokens for name, step in shown.items()}
            known = {name: result.scores[kind == "last"] for name, result in results.items()}
            scores, scored = score(setup, losses, known, scoring=scoring), parameters
        setup.save(output / folder)
    return Outcome(output / BEST, output / LAST, scores, reasons, untrained, interrupted)


def score(
    setup: Setup, losses: dict[str, float], known: Mapping[str, Scores] | None = None, *, scoring: bool = True
) -> dict[str, Any]:
    """Evaluate the pipeline and store the scores in its meta as ``spacy train`` does, with the loss per token.

    known (Mapping[str, Scores] | None): Scores of components; they are used for a pipeline of one.
    scoring (bool): Whether to evaluate at all; without, a pipeline of several components has no scores.
    """
    nlp = setup.nlp
    scores = scores_alone(nlp, known or {})
    if scores is None:
        dev = list(setup.read_dev()) if scoring else []
        scores = nlp.evaluate(dev) if dev else {}
    weighted = setup.training["score_weights"]
    kept = {name: value for name, value in scores.items() if name in weighted or name.endswith(SEQUENCES)}
    nlp.meta["performance"] = {**kept, **{f"{name}_loss": finite(loss) for name, loss in losses.items()}}
    return scores
