"""``crfseq fine-tune``: train a component of a trained pipeline further, on several corpora, each with its own loss.

The config has a block [fine_tune], a block [fine_tune.sets.NAME] for each corpus, and [fine_tune.dev].
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy import util
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, Rows, printer, say
from ...cli.fit import print_scores
from ...corpora.outputs import check_output_folder, locked_folder
from ...errors import ConfigError, suggest
from ...files import replace_folder
from ...pipeline.project import BEST, LAST, LOG, load_config, warn_of_empty_columns
from ...pipeline.select import load_pipeline, model_folder, one_crf_of
from ...registry import check_types

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

    from ...training.fit import FitResult, Progress
    from .costs import Cost
    from .training import SetReport, Settings, Source, TuningSet

    ReadDev = Callable[[], list[Example]]

DEV, INTERRUPT = "dev", "interrupted"
NUMBERS = {"k": "int", "rate": "float", "rounds": "int", "turns": "int", "seed": "int"}
PATIENCE = 5
_KNOWN = ("component", "sets", "dev", "schedule", "annotating_components", "patience", *NUMBERS)


def fine_tune(
    model: options.Model,
    config_path: options.Config,
    output: Annotated[Path, typer.Option("--output", "-o", help=f"Folder for {BEST}, {LAST} and {LOG}")],
    force: options.Force = False,
    *,
    overrides: dict[str, Any] | None = None,
) -> FitResult:
    """Train a component further on several corpora, each with its own loss.

    A corpus without a loss is learned from its gold labels. For the others, a function of the registry crf_costs
    assigns a cost to predicted labels: of the k best labellings, the cheapest one is taken as gold. The config has a
    block [fine_tune] with component, k, rate, rounds, turns, seed, patience and schedule, a block
    [fine_tune.sets.NAME.corpus] with a reader and an optional [fine_tune.sets.NAME.loss] for each corpus, and
    [fine_tune.dev.corpus]. Each round shows the mean cost of an example of each corpus before its update; without a
    loss, the number of wrong tokens. Ctrl-C stops and saves the best model so far.

    \b
    Example: a tagger learns from questions with only the main verb annotated
      python -m spacy crfseq fine-tune training/model-best \\
          configs/fine_tune_questions.cfg --output tuned/ \\
          --paths.train train.conllu --paths.questions questions.conllu \\
          --paths.dev dev.conllu --fine_tune.k 20
    \f
    Train a component of a pipeline as a config says, and save the pipeline.

    force (bool): Replace models that are in the folder, unless one of them is `model`.
    RAISES CrfError: On a config, corpus or loss that cannot be used.
    """
    from .training import fine_tune as train

    model_folder(model)
    check_output_folder(output, model, pipelines=(BEST, LAST), files=(LOG,), force=force)
    block, msg = _read_config(config_path, overrides or {}), printer()
    nlp = load_pipeline(model)
    block.setdefault("seed", nlp.config.interpolate()["training"].get("seed") or 0)
    settings, patience = _settings(block)
    name = block["component"]
    _, pipe = one_crf_of(nlp, name, str(model))
    msg.info(f"Reading {', '.join(block['sets'])}")
    sources, dev, read_dev = _sources(nlp, block)
    for source in sources:
        docs = [example.predicted for example in list(source.examples)[:100]]
        warn_of_empty_columns(say, name, pipe.reads, docs, f"document of {source.name}", "fine_tune")
    before, fitted = pipe.crf.theta.copy(), dict(pipe.cfg)
    with locked_folder(output):
        sizes = {source.name: len(list(source.examples)) for source in sources}
        with closing(TuningReporter(output / LOG, settings, sizes)) as reporter:
            result = train(
                nlp, name, sources, settings, dev=dev, patience=patience, begin=reporter.begin,
                callback=reporter, watch=reporter.watch,
            )  # fmt: skip
        if not result.history:
            msg.warn("Interrupted before the end of the first round: nothing is saved")
            return result
        kept = bool((result.best == before).all())
        scores = _save(nlp, name, result, read_dev, output, fitted if kept else {})
    msg.text(f"Ended: {result.reason}")
    print_scores(scores)
    if result.reason == INTERRUPT:
        msg.warn("Interrupted: the best parameters so far are saved")
    if kept:
        msg.warn("No round did better on the dev corpus than the model as it was, which is model-best now")
    msg.good(f"Saved {output / BEST} and {output / LAST}")
    return result


def _read_config(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    block = load_config(path, overrides, ["fine_tune"]).interpolate().get("fine_tune")
    if not isinstance(block, dict):
        raise ConfigError(f"{path} has no block [fine_tune]. See configs/fine_tune_questions.cfg for one.")
    for key in block:
        if key not in _KNOWN:
            raise ConfigError(f"[fine_tune] {key}: no such setting. {suggest(key, _KNOWN)}")
    if not isinstance(block.get("component"), str):
        raise ConfigError('[fine_tune] must name the component to train, such as component = "crf_tagger".')
    sets = block.get("sets")
    if not isinstance(sets, dict) or not sets:
        raise ConfigError("[fine_tune] has no data set: add a block [fine_tune.sets.NAME.corpus] with a reader each.")
    for name, part in {**{f"sets.{name}": part for name, part in sets.items()}, DEV: block.get(DEV, {})}.items():
        _check_set(name, part)
    return dict(block)


def _check_set(name: str, block: Any) -> None:
    keys = list(block) if isinstance(block, dict) else [str(block)]
    known = ("corpus", "loss")
    for key in keys:
        if key not in known:
            raise ConfigError(f"[fine_tune.{name}] {key}: no such setting. {suggest(key, known)}")
    if keys and "@readers" not in (block.get("corpus") or {}):
        raise ConfigError(f"[fine_tune.{name}.corpus] must name a reader, such as spacy_crfseq.ConlluReader.v1.")
    if "loss" in keys and "@crf_costs" not in (block["loss"] or {}):
        raise ConfigError(f"[fine_tune.{name}.loss] must name a cost of crf_costs, such as Hamming.v1.")


def _settings(block: dict[str, Any]) -> tuple[Settings, int]:
    from .training import Settings

    check_types("[fine_tune]", {**NUMBERS, "patience": "int"}, block)
    schedule, patience = block.get("schedule", {}), block.get("patience", PATIENCE)
    if not isinstance(schedule, dict):
        raise ConfigError("[fine_tune.schedule] must be a block with a line NAME = NUMBER for each data set.")
    check_types("[fine_tune.schedule]", dict.fromkeys(schedule, "int"), schedule)
    if patience < 0:
        raise ConfigError("[fine_tune] patience must be 0 (wait for ever) or more.")
    return Settings(schedule=schedule, **{key: block[key] for key in NUMBERS if key in block}), patience


def _sources(nlp: Language, block: dict[str, Any]) -> tuple[list[Source], Source | None, ReadDev | None]:
    """Return the data sets with their losses, that of the dev corpus, and what reads its examples anew."""
    from ...pipeline.terms import annotated
    from .training import Source

    annotating = _annotating(nlp, block)
    for name, part in block["sets"].items():
        if not _has_path(part):
            raise ConfigError(
                f"[fine_tune.sets.{name}.corpus] has no path. Give it in the config, or where the config refers to "
                f"[paths], on the command line: --paths.{name} FILE."
            )
    made = {name: _make(part, f"fine_tune.sets.{name}") for name, part in block["sets"].items()}
    dev_block = block.get(DEV) or {}
    dev = _make(dev_block, f"fine_tune.{DEV}") if dev_block and _has_path(dev_block) else None

    def examples_of(read: Callable[[Language], Iterable[Example]]) -> list[Example]:
        return list(reduce(lambda examples, pipe: annotated(pipe, examples), annotating, read(nlp)))

    sources = [Source(name, examples_of(read), loss) for name, (read, loss) in made.items()]
    if dev is None:
        return sources, None, None
    read_dev = partial(examples_of, dev[0])
    return sources, Source(DEV, read_dev(), dev[1]), read_dev


def _has_path(part: dict[str, Any]) -> bool:
    return part["corpus"].get("path", "?") not in (None, "")


def _annotating(nlp: Language, block: dict[str, Any]) -> list[Any]:
    names = block.get("annotating_components", [])
    for name in names:
        if name not in nlp.pipe_names or name == block["component"]:
            others = [other for other in nlp.pipe_names if other != block["component"]]
            raise ConfigError(
                f"[fine_tune] annotating_components: no component {name!r} beside the one that is trained. "
                f"{suggest(str(name), others)}"
            )
    return [pipe for name, pipe in nlp.pipeline if name in names]


def _make(part: dict[str, Any], name: str) -> tuple[Any, Cost | None]:
    """Return the reader and the loss of a set; errors name its block."""
    blocks = {f"{name}.{key}": part[key] for key in ("corpus", "loss") if key in part}
    reader, *loss = (util.registry.resolve({key: block})[key] for key, block in blocks.items())
    return reader, loss[0] if loss else None


def _save(
    nlp: Language, name: str, result: FitResult, read_dev: ReadDev | None, output: Path, fitted: Mapping[str, Any]
) -> dict[str, Any]:
    """Save the last and the best model; return the scores of the best one on the dev corpus."""
    from ...pipeline.spacy_train import fill_card

    pipe: Any = nlp.get_pipe(name)
    weights = (nlp.config.get("training") or {}).get("score_weights") or {}
    scores: dict[str, Any] = {}
    for folder, theta, values in ((LAST, result.last, {}), (BEST, result.best, fitted)):
        pipe.set_parameters(theta)  # which resets what was fitted
        pipe.cfg.update(values)
        if read_dev is not None and not (scores and (result.best == result.last).all()):
            scores = nlp.evaluate(read_dev())
            kept = {key: scores[key] for key in weights if key in scores}
            nlp.meta["performance"] = {**nlp.meta.get("performance", {}), **kept}
        replace_folder(output / folder, fill_card(nlp).to_disk)
    return scores


class TuningReporter:
    """Shows each round and writes it to a log."""

    def __init__(self, log: Path, settings: Settings, read: dict[str, int]) -> None:
        self._path, self._settings, self._read = log, settings, read
        self._log: Any = None
        self._bar: Any = None
        self._steps, self._n_sets = 0, 0

    def begin(self, sets: Sequence[TuningSet], score: float | None) -> None:
        """Say what will be trained on; score: On the dev corpus, before the training."""
        self._log = self._path.open("w", encoding="utf8")
        for source in sets:
            kind, n_read = "gold labels" if source.costs is None else "a cost", self._read[source.name]
            rest = f", of {n_read:,} that were read" if n_read > source.n_examples else ""
            printer().info(f"{source.name}: {source.n_examples:,} examples with {kind}{rest}")
        self._steps, self._n_sets, names = self._settings.steps_of(sets), len(sets), [source.name for source in sets]
        widths = [4, *(max(9, len(name)) for name in names), 9, 8, 1]
        aligns = [*"r" * (len(widths) - 1), "l"]
        columns = ["#", *names, "Dev score", "Seconds", ""]
        self._rows = Rows(columns, ["round", *names, "score", "seconds", ""], widths, aligns)
        self._rows.begin()
        if score is not None:
            self._show(0, [], score, 0.0, False)

    def watch(self) -> None:
        """Take in a step; the bar is there on terminals only."""
        if self._bar is None:
            self._bar = tqdm(total=self._steps, disable=None, leave=False, file=sys.stderr)
        self._bar.update(1)

    def __call__(self, progress: Progress, reports: Sequence[SetReport]) -> None:
        """Take in a round."""
        self._close_bar()
        self._show(progress.iteration, reports, progress.score, progress.seconds, progress.best)

    def close(self) -> None:
        """Close the log and take the bar away."""
        self._close_bar()
        if self._log is not None:
            self._log.close()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show(self, number: int, reports: Sequence[SetReport], score: float | None, seconds: float, best: bool) -> None:
        entry = {"round": number, "seconds": round(seconds, 4), "sets": [report._asdict() for report in reports]}
        known = score is not None and math.isfinite(score)
        self._log.write(json.dumps({**entry, "score": score if known else None, "best": bool(best)}) + "\n")
        self._log.flush()
        costs = [f"{report.cost:.4f}" for report in reports] or ["-"] * self._n_sets
        shown = "-" if score is None else f"{100 * score:.2f}"
        self._rows.add([str(number), *costs, shown, f"{seconds:.2f}", "*" if best else ""])


@command("fine-tune", "Train", "finetune", "augment", calls=fine_tune)
def _exit_code(result: FitResult) -> int:
    return INTERRUPTED if result.reason == INTERRUPT else 0
