"""``crfseq fit``: train the CRFs of a config on the whole corpus at once, without the steps and copies of spaCy's loop.

Config and output are those of ``spacy train``.  Components are trained one after another in pipeline order; later ones
see the predictions of those in ``[training.annotating_components]``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing, nullcontext
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy import util
from tqdm import tqdm

from ..corpora.layouts import corpus_block, reader_layout
from ..corpora.outputs import check_output_folder
from ..corpora.resumable import locked_folder
from ..errors import ClusterError, ConfigError, DataError
from ..files import replace_folder
from ..pipeline.examples import Corpus
from ..pipeline.scorers import SEQUENCES, scores_alone
from ..pipeline.select import start_from
from . import options
from ._dask import Dask, connected
from .app import command
from .console import INTERRUPTED, advise, printer
from .options import OVERRIDES, training
from .progress import Reporter, watch

if TYPE_CHECKING:
    from distributed import Client
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example
    from thinc.api import Config

    from ..pipeline.component import CRFComponent
    from ..training.checkpoint import Checkpoint
    from ..training.fit import FitResult, Scores
    from ..types import Offsets

BEST, LAST, LOG, CHECKPOINT = "model-best", "model-last", "log.jsonl", "checkpoint"
COMPARED, PARAGRAPH = 100 << 20, 60
"""Bytes of files that are compared, at most, and of their paragraphs, at least: short sentences occur twice."""
STOPPING = {f"training.{name}" for name in ("max_epochs", "max_steps", "patience", "eval_frequency")}
_SEE = "Use 'python -m spacy train' for pipelines with other trainable components"


@command("fit", "Train", "train", context_settings=OVERRIDES)
def fit_cli(
    ctx: typer.Context,
    config_path: options.Config,
    output: Annotated[Path | None, options.output("Folder for model-best, model-last and log.jsonl")] = None,
    code: options.Code = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    model: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Trained pipeline to continue from")
    ] = None,
    dask: Dask = None,
    cross_validate: Annotated[int | None, typer.Option(metavar="K", help="Cross-validate on K folds first")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a killed run from its checkpoint")] = False,
    verbose: options.Verbose = False,
) -> None:
    """Train the CRF components of a config.

    It takes the configs and overrides of 'spacy train' and writes the same folders, but works on the whole encoded
    corpus instead of spaCy's batches, which is several times faster. Ctrl-C stops training and saves the best model
    so far. An earlier model in the folder is replaced only with --force, once the new one is complete.

    --cross-validate K trains K models, each on all but a K-th of the training corpus, and prints their scores on the
    rest, with mean and standard deviation. Folds are of whole documents (as the corpus reader makes them), drawn with
    [training] seed; copies of a text share one. The dev corpus, if any, only decides when training stops. The K models
    are not saved; with --output, one trained on the whole corpus is.

    --from MODEL continues from a trained pipeline: each component takes over labels, features and weights of the one of
    the same name, and learns how to change them. The config may name only new texts, or all: what these lack is kept,
    what they have in addition, such as new labels or templates, begins with weights of zero.

    A run of more than half a minute leaves a checkpoint in the output folder, and removes it when it is complete. After
    a power cut or a kill, the same command with --resume reads the corpus again and continues from there; the result is
    that of an uninterrupted run.

    --dask ADDRESS trains on the workers of a Dask cluster. Each reads, encodes and keeps a part of the corpora, so all
    must be able to read the files. Batch optimizers find the same optimum as in one process. Online ones train
    on each part alone, and their parameters are mixed eight times in an epoch. --dask local:2 uses two processes here.

    \b
    Example:
      python -m spacy crfseq fit config.cfg --output training/ \\
          --paths.train train.conll --paths.dev dev.conll
      python -m spacy crfseq fit config.cfg --output training2/ \\
          --from training/model-best --paths.train new.conll
      python -m spacy crfseq fit config.cfg --cross-validate 5 \\
          --paths.train train.conll
    """
    with training(ctx, config_path, code, verbose) as overrides:
        stopping = {"evaluate_every": evaluate_every, "patience": patience}
        if dask is not None and (cross_validate is not None or model is not None):
            raise ConfigError("--dask trains one model from scratch. Leave --cross-validate and --from out, or --dask.")
        if cross_validate is not None:
            if resume:
                raise ConfigError("--resume continues one training. Leave out --resume or --cross-validate.")
            if model is not None:
                raise ConfigError("--cross-validate trains from scratch. Leave --from out, or --cross-validate.")
            setup = set_up(config_path, output, overrides, (BEST, LAST), force)
            found = list(each_fold(setup, cross_validate, evaluate_every, patience))
            _print_folds(found, cross_validate)
            if len(found) < cross_validate:
                raise typer.Exit(INTERRUPTED)
            if output is None:
                return
        if output is None:
            raise ConfigError("Give --output DIR for the models, or --cross-validate K to print scores only.")
        settings: dict[str, Any] = {
            **stopping,
            "overrides": overrides,
            "force": force,
            "start": model,
            "resume": resume,
        }
        with nullcontext() if dask is None else connected(dask) as client:
            outcome = fit(config_path, output, client=client, code=code, **settings)
        print_outcome(outcome)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)


class Outcome(NamedTuple):
    """The outcome of `fit`."""

    best: Path | None
    last: Path | None
    scores: dict[str, Any]
    reasons: dict[str, str]
    untrained: list[str]
    interrupted: bool


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
    distributed: bool = False

    def save(self, folder: Path) -> None:
        """Save the pipeline with its model card, replacing the folder."""
        from spacy.training.loop import create_before_to_disk_callback

        from ..pipeline.model_card import fill_card

        nlp = create_before_to_disk_callback(self.training["before_to_disk"])(self.nlp)
        with ExitStack() as stack:
            for pipe in self.to_train.values():
                stack.enter_context(pipe.doc_model.packed_once())  # for its size, then for its file
            replace_folder(folder, fill_card(nlp).to_disk)


def fit(
    config_path: Path,
    output: Path,
    *,
    overrides: dict[str, Any] | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    force: bool = False,
    start: str | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    client: Client | None = None,
    code: Path | None = None,
) -> Outcome:
    """Train the CRFs of a config and save the pipeline.

    start (str | None): A trained pipeline, from whose components of the same names training continues.
    client (Client | None): Of `distributed`, to train on its workers.
    code (Path | None): A Python file that workers import first.
    force (bool): Replace models that are in the folder; they stay until the new ones are complete.
    resume (bool): Continue from the checkpoint in the folder.
    checkpoint_every (float): Seconds between two checkpoints, at least.
    RAISES CrfError: If the config, the corpus or the combination of components cannot be trained.
    """
    setup = set_up(config_path, output, overrides or {}, (BEST, LAST), force)
    if start is not None:
        check_output_folder(output, start, pipelines=(BEST, LAST), force=force)
        if setup.resumed:
            what = ", ".join(map(repr, sorted(setup.resumed)))
            raise ConfigError(
                f"--from: {what} comes from a trained pipeline already (source). Give its factory instead."
            )
        for name in start_from(setup.to_train, start):
            printer().warn(f"{name} begins with weights of zero: {start} has no such component")
    if overlaps(setup.nlp.config.interpolate()):
        printer().warn("Most sentences of the dev corpus are in the training corpus, too: its scores will be too good.")
    facts = {"--from": start or "none", "--dask": "no" if client is None else "yes"}
    checkpoint = _checkpoint(setup, output / CHECKPOINT, facts, resume, force, checkpoint_every)
    if client is not None:
        setup = distribute(setup, client, code, checkpoint)
    with locked_folder(output):  # before the corpus is read, which takes long
        encode(setup)
        if not resume:
            checkpoint.path.unlink(missing_ok=True)
        with closing(Reporter(output / LOG, checkpoint.n_iterations)) as reporter:
            trainer = Trainer(setup, reporter, evaluate_every, patience, checkpoint)
            try:
                trainer.run()
            except ClusterError as error:
                raise ClusterError(f"{error} Give the command again with --resume to go on from here.") from error
        outcome = save(setup, trainer, output)
        checkpoint.path.unlink(missing_ok=True)
        return outcome


def overlaps(config: Any) -> bool:
    """Whether most of fifty paragraphs of a dev file are in the training file; False for folders and large files."""
    blocks = [corpus_block(config, name) for name in ("train_corpus", "dev_corpus")]
    train, dev = (Path(str(block.get("path"))) for block in blocks)
    if any(block.get("part", "all") != "all" for block in blocks) or not (train.is_file() and dev.is_file()):
        return False
    if max(train.stat().st_size, dev.stat().st_size) > COMPARED:
        return False
    found = [part for part in dev.read_bytes().split(b"\n\n") if len(part) > PARAGRAPH]
    sample, whole = found[:: len(found) // 50 + 1], train.read_bytes()
    return sum(part in whole for part in sample) > 0.5 * len(sample)


def _checkpoint(setup: Setup, path: Path, facts: dict[str, str], resume: bool, force: bool, every: float) -> Checkpoint:
    """Return the checkpoint of this run, that of an earlier one to resume."""
    from ..training.checkpoint import Checkpoint

    if resume:
        checkpoint = Checkpoint.load(path, every)
    elif path.exists() and not force:
        raise ConfigError(f"{path} is of a run that was killed. Continue it with --resume, or start over with --force.")
    else:
        checkpoint = Checkpoint(path, every)
    settings = {name: str(value) for name, value in util.dict_to_dot(setup.nlp.config.interpolate()).items()}
    kept = {name: value for name, value in settings.items() if name not in STOPPING}
    checkpoint.check("the config", {**kept, **facts})
    return checkpoint


def set_up(
    config_path: Path, output: Path | None, overrides: dict[str, Any], pipelines: Sequence[str], force: bool
) -> Setup:
    """Create the pipeline and the corpora of a config file.

    pipelines (Sequence[str]): Names of folders in `output`; none may replace one that the config reads.
    """
    config = load_config(config_path, overrides)
    if output is not None:
        components = config.interpolate().get("components", {}).values()
        sources = [str(block["source"]) for block in components if "source" in block]
        check_output_folder(output, *sources, pipelines=pipelines, force=force)
    return set_up_from(config)


def load_config(config_path: Path, overrides: dict[str, Any]) -> Config:
    """Return a config without interpolating its variables.

    A block that an override gives another function loses the settings of the former one, which are not its own.
    RAISES ConfigError: If there is no such file, or it is empty or not in UTF-8.
    """
    if str(config_path) != "-":
        options.check_config_file(Path(config_path))
    config = util.load_config(config_path, interpolate=False)
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


def set_up_from(config: Config) -> Setup:
    """Create the pipeline and the corpora of a config, as ``spacy train`` does.

    RAISES CrfError: If a component to train is not a CRF, if there is none, or if the training corpus is empty.
    """
    from spacy.schemas import ConfigSchemaTraining
    from thinc.api import fix_random_seed

    from ..optimizers.seeds import check_seed

    seed = config.interpolate().get("training", {}).get("seed", 0)
    if isinstance(seed, int):  # spaCy's schema refuses other things
        check_seed("[training] seed", seed)
        fix_random_seed(seed)
    nlp = util.load_model_from_config(config, auto_fill=True)
    filled = nlp.config.interpolate()
    training = util.registry.resolve(filled["training"], schema=ConfigSchemaTraining)
    to_train = _to_train(nlp, training["frozen_components"])
    for pipe in to_train.values():
        pipe.training.watch = watch
    resumed = set(util.get_sourced_components(config)).intersection(to_train)
    read_train, read_dev, portions = _corpora(nlp, filled, training)
    last = max(nlp.pipe_names.index(name) for name in to_train)
    annotates = not set(training["annotating_components"]).isdisjoint(nlp.pipe_names[:last])  # for one trained later

    times = 2 if corpus_block(filled, "train_corpus").get("twice") else 1

    def report(docs: int, tokens: int) -> None:
        twice = ", each twice" if times > 1 else ""
        printer().info(f"Encoded {docs // times:,} documents, {tokens // times:,} tokens{twice}")

    return Setup(nlp, training, to_train, resumed, Corpus(read_train, annotates, report, portions), read_dev)


def distribute(setup: Setup, client: Client, code: Path | None, checkpoint: Checkpoint) -> Setup:
    """Let the components train on the workers of a cluster, in the shards that a checkpoint tells of, if any.

    RAISES ConfigError: If one was trained before.
    """
    from ..pipeline.shards import SHARDS, DistributedTraining

    if setup.resumed:
        what = ", ".join(map(repr, sorted(setup.resumed)))
        raise ConfigError(f"--dask trains from scratch, but {what} comes from a trained pipeline (source).")
    path = None if code is None else str(code.absolute())
    for name, pipe in setup.to_train.items():
        bar = tqdm(desc="Encoding", disable=None, leave=False, file=sys.stderr, unit=" parts")
        pipe.training = DistributedTraining(pipe.doc_model, client, code=path, made=partial(_show_parts, bar))
        pipe.training.n_shards = int(checkpoint.content.facts.get(name, {}).get(SHARDS, 0))
    setup.train.keeps = False
    return setup._replace(distributed=True)


def _show_parts(bar: Any, done: int, total: int) -> None:
    bar.total, bar.n = total, done
    bar.refresh()
    if done == total:
        bar.close()


def encode(setup: Setup, postpone: bool = True) -> None:
    """Read the training corpus and initialize the components to train.

    postpone (bool): Leave first stages to `Walk` where it initializes the component again, after annotating components.
    """
    printer().text("Reading and encoding the training corpus")
    names = setup.nlp.pipe_names
    for name, pipe in setup.to_train.items():
        pipe.training.report = partial(_report, name)
        annotated = not set(setup.training["annotating_components"]).isdisjoint(names[: names.index(name)])
        pipe.training.postponed = postpone and annotated and name not in setup.resumed
    with setup.nlp.select_pipes(disable=[*setup.training["frozen_components"], *setup.resumed]):
        setup.nlp.initialize(lambda: setup.train)


def _report(name: str, line: str) -> None:
    printer().text(f"{name}: {line}")


def _to_train(nlp: Language, frozen: list[str]) -> dict[str, CRFComponent]:
    from ..pipeline.component import CRFComponent

    pipes = {name: pipe for name, pipe in nlp.pipeline if name not in frozen}
    trainable = {name: pipe for name, pipe in pipes.items() if getattr(pipe, "is_trainable", False)}
    others = [name for name, pipe in trainable.items() if not isinstance(pipe, CRFComponent)]
    if others:
        raise ConfigError(
            f"crfseq fit trains CRF components only, but {', '.join(map(repr, others))} would have to be trained, too. "
            f"{_SEE}, or list them in [training] frozen_components if they are trained already."
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


class Walk:
    """Trains the components of a pipeline one after another.

    every, patience (int | None): Arguments of their `fit`; None for the default.
    """

    def __init__(self, setup: Setup, every: int | None = None, patience: int | None = None) -> None:
        self.interrupted = False
        self._setup, self._every, self._patience = setup, every, patience
        self._train, self._dev = setup.train, Corpus(setup.read_dev, setup.train.keeps or setup.distributed)
        self._scored = bool(self._dev.head(1))
        self._left = list(setup.to_train)
        self._annotated = False
        for pipe in setup.to_train.values():
            pipe.training.annotators = []

    def run(self) -> None:
        """Train all components, or until Ctrl-C."""
        try:
            for name, pipe in self._setup.nlp.pipeline:
                if name in self._setup.to_train:
                    self._prepare(name, self._setup.to_train[name])
                    self._fit(name, self._setup.to_train[name])
                    self._left.remove(name)
                if self.interrupted:
                    break
                if name in self._setup.training["annotating_components"] and self._left:
                    self._annotate(pipe)
        except KeyboardInterrupt:
            self.interrupted = True

    def _fit(self, name: str, pipe: CRFComponent, callback: Any = None) -> FitResult | None:
        result = pipe.fit(
            self._examples(name), dev=self._dev if self._scored else None, callback=callback, patience=self._patience,
            evaluate_every=scores_every(pipe, self._every), seed=self._setup.training["seed"],
        )  # fmt: skip
        self.interrupted = result.reason == "interrupted"
        return result

    def _prepare(self, name: str, pipe: CRFComponent) -> None:
        """Initialize a component again if its features have changed, and show its size."""
        from ..training.compatibility import part_name

        if (self._annotated or pipe.training.postponed) and name not in self._setup.resumed:  # features have changed
            pipe.training.postponed = False
            nlp = self._setup.nlp
            block = nlp.config.interpolate()["initialize"]["components"].get(name, {})  # such as given labels
            pipe.initialize(lambda: self._train, nlp=nlp, **util.registry.resolve(block))
        if name in self._setup.resumed:
            pipe.training.use_texts(self._setup.nlp)
        docs = [example.predicted for example in self._train.head(100)]
        for one in pipe.training.annotators if self._setup.distributed else ():
            docs = list(one.pipe(docs))
        warn_of_empty_columns(name, pipe.reads, docs, "training document", "training")
        _warn_of_sentences(self._setup.nlp, name, pipe)
        printer().info(f"Training {name}: {len(pipe.tags)} labels, {pipe.crf.theta.size:,} parameters")
        if taken := pipe.training.taken_over():
            printer().info(f"From the trained {name}: {taken}")
        for term in pipe.training.terms:
            size = f"{term.data.n_sequences:,} sequences, {term.data.encoded.n_tokens:,} tokens"
            printer().info(f"Term {term.name}: {size}, {term.settings.weight:g} * {part_name(term.settings.loss)}")

    def _examples(self, name: str) -> Corpus | None:
        """Return the examples to train on; None if the component holds them encoded."""
        return self._train if name in self._setup.resumed else None

    def _annotate(self, pipe: Any) -> None:
        """Write the predictions of a component, which later components take features from."""
        corpora = [self._dev] if self._setup.distributed else [self._train, self._dev]  # workers annotate their parts
        for examples in map(list, corpora):
            docs = [example.predicted for example in examples]
            done: Iterable[Any] = pipe.pipe(iter(docs)) if hasattr(pipe, "pipe") else map(pipe, docs)
            for example, doc in zip(examples, done, strict=True):
                example.predicted = doc
        self._annotated = True
        for name in self._left:
            self._setup.to_train[name].training.annotators.append(pipe)


def _warn_of_sentences(nlp: Language, name: str, pipe: CRFComponent) -> None:
    from ..features.document_words import DocumentWords
    from ..features.protocol import LabelAttributes
    from ..pipeline.columns import unit_of

    plugins = pipe.method.attributes.values()
    if unit_of(nlp) == "sentence" and any(isinstance(one, DocumentWords | LabelAttributes) for one in plugins):
        printer().warn(
            f'{name} has attributes of whole documents, but learns from single sentences: set unit = "document" in '
            'both corpus readers, or unit = "passage" if the files mark no documents'
        )


def warn_of_empty_columns(name: str, reads: Set[str], docs: Sequence[Doc], documents: str, section: str) -> None:
    """Warn of columns that a component reads and no Doc has; `section` of the config lists annotating components."""
    for column in sorted(reads - {"NORM", "SPACY"}):
        if not any(doc.has_annotation(column) for doc in docs):
            printer().warn(
                f"{name} reads {column}, which no {documents} has: list the component that sets it in [{section}] "
                "annotating_components, or the column under `given` of the corpus reader"
            )


def scores_every(pipe: CRFComponent, every: int | None) -> int:
    """Return the number of iterations between dev scores."""
    return every or (1 if pipe.method.optimizer.online else 10)


class Trainer(Walk):
    """Trains each component; `results` holds the `FitResult` of each trained one."""

    def __init__(
        self,
        setup: Setup,
        reporter: Reporter,
        evaluate_every: int | None,
        patience: int | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(setup, evaluate_every, patience)
        self._checkpoint = checkpoint
        self.results: dict[str, FitResult] = {}
        self._reporter = reporter
        if not self._scored:
            printer().warn("No dev corpus: training without scores; model-best will equal model-last")

    def _fit(self, name: str, pipe: CRFComponent, callback: Any = None) -> FitResult | None:
        self._reporter.start(name, self._train.n_tokens, scores_every(pipe, self._every), self._scored)
        pipe.training.checkpoint = self._checkpoint
        result = super()._fit(name, pipe, self._reporter)
        if result is not None and result.history:
            self.results[name] = result
            printer().text(f"{name}: {len(result.history)} iterations; {result.reason}")
        return result


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
    from ..training.folds import folds

    if setup.resumed:
        what = ", ".join(map(repr, sorted(setup.resumed)))
        raise ConfigError(f"--cross-validate trains from scratch, but {what} comes from a trained pipeline (source).")
    examples = list(setup.train)
    parts = folds([example.reference.text for example in examples], k, setup.training["seed"] or 0)
    trainings, sizes = [pipe.training for pipe in setup.to_train.values()], list[int]()
    if can_share(setup):
        for training in trainings:
            training.keeps = True
        encode(setup._replace(train=Corpus(lambda: examples, False)))
        sizes = [len(example.predicted) for example in examples]
    one_sequence_each = sizes and all(np.array_equal(np.diff(one.data.encoded.offsets), sizes) for one in trainings)
    for held in parts:
        started = perf_counter()
        kept = np.setdiff1d(np.arange(len(examples)), held)
        fold = setup._replace(train=Corpus(partial(fresh, examples, kept), setup.train.keeps))
        if one_sequence_each:
            for training in trainings:
                training.begin_anew(kept)
        else:
            encode(fold)
        walk = Walk(fold, every, patience)
        walk.run()
        if walk.interrupted:
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


def _print_folds(found: Sequence[Fold], k: int) -> None:
    if len(found) < k:
        printer().warn(f"Interrupted after {len(found)} of {k} folds")
    if not found:
        return
    weighted = found[0].setup.training["score_weights"]
    names = [*weighted, *(name for name in found[0].scores if name.endswith(SEQUENCES))]
    names = [name for name in names if all(isinstance(fold.scores.get(name), float) for fold in found)]
    values = 100 * np.array([[fold.scores[name] for name in names] for fold in found])
    rows = [
        (str(i + 1), f"{fold.n_documents - len(fold.numbers):,}", f"{len(fold.numbers):,}", *map("{:.2f}".format, row))
        for i, (fold, row) in enumerate(zip(found, values.tolist(), strict=True))
    ]
    rows.append(("mean", "", "", *map("{:.2f}".format, values.mean(0))))
    if len(found) > 1:
        rows.append(("sd", "", "", *map("{:.2f}".format, values.std(0, ddof=1))))
    header, aligns = ("fold", "trained on", "held out", *names), ("l", *"r" * (len(names) + 2))
    seconds = sum(fold.seconds for fold in found)
    printer().table(rows, header=header, title=f"{k}-fold cross-validation, {seconds:.0f} s", aligns=aligns)


def save(setup: Setup, trainer: Trainer, output: Path) -> Outcome:
    """Save the last and the best parameters as two pipelines, with scores in their meta.json."""
    results, reasons = trainer.results, {name: result.reason for name, result in trainer.results.items()}
    untrained = [name for name in setup.to_train if name not in results and name not in setup.resumed]
    if not results:
        return Outcome(None, None, {}, reasons, untrained, trainer.interrupted)
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
                shown |= {name: one for name, result in results.items() for one in result.history if one.best}
            losses = {name: one.report.loss / tokens for name, one in shown.items()}
            known = {name: result.scores[kind == "last"] for name, result in results.items()}
            scores, scored = score(setup, losses, known), parameters
        setup.save(output / folder)
    return Outcome(output / BEST, output / LAST, scores, reasons, untrained, trainer.interrupted)


def score(setup: Setup, losses: dict[str, float], known: Mapping[str, Scores] | None = None) -> dict[str, Any]:
    """Evaluate the pipeline and store the scores in its meta as ``spacy train`` does, with the loss per token.

    known (Mapping[str, Scores] | None): Scores of components; they are used for a pipeline of one.
    """
    nlp = setup.nlp
    scores = scores_alone(nlp, known or {})
    if scores is None:
        dev = list(setup.read_dev())
        scores = nlp.evaluate(dev) if dev else {}
    weighted = setup.training["score_weights"]
    kept = {name: value for name, value in scores.items() if name in weighted or name.endswith(SEQUENCES)}
    nlp.meta["performance"] = {**kept, **{f"{name}_loss": loss for name, loss in losses.items()}}
    return scores


def print_outcome(outcome: Outcome) -> None:
    """Print scores and files, and what to do next."""
    msg = printer()
    if outcome.best is None:
        msg.warn("Interrupted before the first iteration: nothing was trained, nothing is saved")
        return
    print_scores(outcome.scores)
    if outcome.interrupted:
        msg.warn("Interrupted: the best parameters so far are saved")
    if outcome.untrained:
        msg.warn(f"Not trained yet, all weights zero: {', '.join(outcome.untrained)}")
    msg.good(f"Saved {outcome.best} and {outcome.last}")
    suggest_next(outcome.best)


def print_scores(scores: dict[str, Any]) -> None:
    """Print the scores of a model, if there are any."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, float) and name != "speed"}
    if numbers:
        rows = {name: f"{100 * value:.2f}" for name, value in numbers.items()}
        printer().table(rows, title="Scores on the dev corpus", aligns=("l", "r"))


def suggest_next(model: Path) -> None:
    """Suggest commands that inspect and use a trained model."""
    config, name = util.load_config(model / "config.cfg").interpolate(), shlex.quote(str(model))
    block = corpus_block(config, "dev_corpus")
    dev = block.get("path") if reader_layout(block) else None
    advise(*([f"report {name} {shlex.quote(str(dev))}"] if dev else []), f"tag {name} texts.txt --output tagged/")
