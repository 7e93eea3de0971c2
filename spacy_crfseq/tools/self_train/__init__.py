"""``crfseq self-train``: train, label raw texts, add what the model is certain of to the training corpus, train again.

Scudder (1965), "Probability of error of some adaptive pattern-recognition machines"; Yarowsky (1995).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy.util import minibatch
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, printer, say
from ...cli.fit import Reporter, print_outcome
from ...cli.options import read_file
from ...corpora.layouts import TEXTS_FILE_HELP as HELP
from ...corpora.outputs import check_output_folder, locked_folder
from ...errors import ConfigError, DataError, suggest
from ...pipeline.examples import Corpus, bare
from ...pipeline.project import BEST, LAST, LOG, Outcome, Setup, encode, fresh, save, set_up, train
from ...pipeline.select import run_between

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent
    from ...types import Bools

BATCH = 128
UNITS = ("sentence", "token")


class Settings(NamedTuple):
    """How to learn from raw texts; see the help of the command."""

    threshold: float
    unit: str
    rounds: int
    weight: float
    every: int | None
    patience: int | None


class Kept(NamedTuple):
    """The number of sentences and tokens of the raw texts that a component learns from; a sentence may be a part."""

    sentences: int = 0
    tokens: int = 0


class Round(NamedTuple):
    """What a round learned from and how it scored, by component."""

    kept: dict[str, Kept]
    scores: dict[str, float]

    @property
    def score(self) -> float:
        """The mean dev score."""
        return float(np.mean(list(self.scores.values())))


class SelfTrained(NamedTuple):
    """The rounds, the number of the one that is saved, and the outcome of its training."""

    rounds: list[Round]
    chosen: int
    outcome: Outcome


def self_train(
    config_path: options.Config,
    raw: Annotated[list[Path], typer.Option(help=f"{HELP}; repeat it for several")],
    output: Annotated[Path, options.output(f"Folder for {BEST}, {LAST} and {LOG}")],
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Least probability of labels to learn from")] = 0.9,
    unit: Annotated[str, typer.Option(help="What is kept: sentence or token")] = "sentence",
    rounds: Annotated[int, typer.Option(min=1, help="Most times to label the texts and train again")] = 3,
    weight: Annotated[float, typer.Option(min=0, help="Weight of a raw text; that of a labelled one is 1")] = 1.0,
    layout: options.TextLayout = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    *,
    overrides: dict[str, Any] | None = None,
) -> SelfTrained:
    """Learn from raw texts that the model labels itself.

    Round 0 trains on the labelled corpus, like 'crfseq fit'. Each further round labels the raw texts with the last
    model, keeps the sentences whose labels all together have a probability of --threshold or more, and trains from
    scratch on the labelled corpus and these. With --unit token, it keeps single tokens by the probability of their
    label; the labels of the others count as missing. Each component chooses for itself. The table shows, for each round
    and component, what was kept and the dev score. The round of the best dev score is saved (the mean over the
    components). Ctrl-C stops and saves the best so far.

    Errors of the model are learned, too. Compare with round 0, and with other thresholds.

    \b
    Example:
      python -m spacy crfseq self-train config.cfg --raw news.txt \\
          --threshold 0.95 --rounds 1 --output self-trained/ \\
          --paths.train train.conll --paths.dev dev.conll
    \f
    Train the CRFs of a config on its corpus and on raw texts, and save the pipeline of the best round.

    RAISES CrfError: If the config, the corpus or the texts cannot be used, or there is no dev corpus to choose by.
    """
    from ...training.compatibility import check_global

    if unit not in UNITS:
        raise ConfigError(f"--unit {unit}: unknown unit. {suggest(unit, UNITS)}")
    check_output_folder(output, *raw, pipelines=(BEST, LAST), force=force)
    setup = set_up(config_path, output, overrides or {}, (BEST, LAST), force, say)
    setup.refuse_trained("self-train")
    if next(iter(setup.read_dev()), None) is None:
        raise DataError("self-train chooses by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
    for name, pipe in setup.to_train.items():
        check_global(name, pipe.method.loss, "self-train")
    texts = [text.doc for path in raw for text in read_file(setup.nlp, path, layout)]
    if not texts:
        raise DataError(f"{', '.join(map(str, raw))}: no text in these files.")
    settings = Settings(threshold, unit, rounds, weight, evaluate_every, patience)
    with locked_folder(output), closing(Reporter(output / LOG)) as reporter:
        return _run(setup, texts, output, settings, reporter)


def _run(setup: Setup, texts: list[Doc], output: Path, settings: Settings, reporter: Reporter) -> SelfTrained:
    labelled, kept = list(setup.train), dict.fromkeys(setup.to_train, Kept())
    extra: list[Example] = []
    rounds, best, interrupted = list[Round](), list[tuple[int, Outcome]](), False
    try:
        for number in range(settings.rounds + 1):
            if number:
                extra, kept = label(setup, texts, settings)
                if kept == rounds[-1].kept:
                    other, hint = ("", ". Lower --threshold, or try --unit token") if number == 1 else ("other ", "")
                    printer().info(f"No {other}{settings.unit} reaches the threshold of {settings.threshold:g}{hint}")
                    break
                counts = "; ".join(f"{name} {n:,} sentences, {tokens:,} tokens" for name, (n, tokens) in kept.items())
                printer().text(f"Round {number} of {settings.rounds}, learning from raw text: {counts}")
            examples = [*fresh(labelled, range(len(labelled))), *extra]
            this = setup._replace(train=Corpus(partial(iter, examples), setup.train.keeps))
            encode(this)
            trained = train(this, reporter, settings.every, settings.patience)
            scores = {name: result.best_score or 0.0 for name, result in trained.results.items()}
            rounds.append(Round(kept, scores))
            if not best or (len(scores) == len(kept) and rounds[-1].score > rounds[best[-1][0]].score):
                best.append((number, save(this, trained, output)))
            interrupted = trained.interrupted
            if interrupted:
                break
    except KeyboardInterrupt:
        if not best:
            raise
        interrupted = True
    chosen, outcome = best[-1]
    return SelfTrained(rounds, chosen, outcome._replace(interrupted=interrupted))


def label(setup: Setup, texts: Sequence[Doc], settings: Settings) -> tuple[list[Example], dict[str, Kept]]:
    """Return the raw texts with the labels that the trained components are certain of, and how many these are."""
    from spacy.training import Example

    from ...pipeline.evidence import WEIGHT_KEY

    examples, kept = [], dict.fromkeys(setup.to_train, Kept())
    with tqdm(total=len(texts), disable=None, leave=False, file=sys.stderr, unit=" texts") as bar:
        for batch in minibatch(texts, BATCH):
            references, certain, before = [bare(doc) for doc in batch], set[int](), None
            docs = [doc.copy() for doc in batch]
            for name, pipe in setup.to_train.items():
                docs, before = run_between(setup.nlp, docs, before, name), name
                counts = _note(pipe, docs, references, settings)
                certain.update(counts)
                kept[name] = Kept(*map(sum, zip(kept[name], *counts.values(), strict=True)))
            for number in sorted(certain):
                references[number].user_data[WEIGHT_KEY] = settings.weight
                examples.append(Example(batch[number].copy(), references[number]))
            bar.update(len(batch))
    return examples, kept


def _note(pipe: CRFComponent, docs: list[Doc], references: list[Doc], settings: Settings) -> dict[int, Kept]:
    """Note the labels that a component is certain of on the references; return how many, by number of the text."""
    answers, counts = pipe.posterior(docs, preset=True), dict[int, Kept]()
    labels, distribution = answers.all_labels, answers.distribution
    sequence = np.repeat(np.arange(len(answers.offsets) - 1), np.diff(answers.offsets))
    if settings.unit == "token":
        certain: Bools = distribution.label_probabilities(labels) >= settings.threshold
    else:
        certain = (np.exp(distribution.log_probabilities(labels)) >= settings.threshold)[sequence]
    for number, reference in enumerate(references):
        first, last = answers.doc_offsets[number : number + 2].tolist()
        tokens = first + np.flatnonzero(certain[first:last])
        if len(tokens):
            pipe.clamp(reference, allowed={int(t) - first: [answers.tags[labels[t]]] for t in tokens})
            counts[number] = Kept(len(np.unique(sequence[tokens])), len(tokens))
    return counts


@command("self-train", "Train", "bootstrap", "selftrain", calls=self_train)
def _print(trained: SelfTrained) -> int:
    rows = []
    for number, round_ in enumerate(trained.rounds):
        for name, kept in round_.kept.items():
            score = f"{100 * round_.scores[name]:.2f}" if name in round_.scores else "-"
            mark = "*" if number == trained.chosen else ""
            rows.append((str(number), name, f"{kept.sentences:,}", f"{kept.tokens:,}", score, mark))
    header = ("Round", "Component", "Sentences", "Tokens", "Dev score", "")
    printer().table(rows, header=header, title="Learned from raw text", aligns=("r", "l", "r", "r", "r", "l"))
    print_outcome(trained.outcome)
    return INTERRUPTED if trained.outcome.interrupted else 0
