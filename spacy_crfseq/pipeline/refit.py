"""The last training of a pipeline, on the training and the dev corpus, once the dev corpus has decided what it can.

A first training, which the dev corpus has scored, says how many iterations each component learns, how its probabilities
are calibrated, and what its decoder expects.  Published results often come from such a model (Ratinov & Roth 2009,
"Design challenges and misconceptions in named entity recognition"); scikit-learn's searches call it `refit`.  No text
is left to score it.
"""

from __future__ import annotations

from functools import partial

from spacy import util

from ..corpora.layouts import corpus_block
from ..errors import count_of
from ..types import LearnedDecoder, Schedule
from .corpus import Corpus
from .pipeline_training import PipelineTraining, TrainingReporter, TrainingResults

FORM = ("joined", "twice", "apart")
"""Settings of readers that say in which form texts are learned from."""


def refit(
    training: PipelineTraining, trained: TrainingResults, dev: Corpus, reporter: TrainingReporter | None = None
) -> None:
    """Train the components again from the beginning, on both corpora.

    Afterwards the pipeline has the new weights, the calibration of the best ones before, and a note in its meta.  Its
    scores stay those that it had.

    trained (TrainingResults): Of all components, by the training that is repeated.
    dev (Corpus): See `dev_to_learn_from`.
    RAISES KeyboardInterrupt: Before the pipeline is trained.
    RAISES CrfError: If a corpus cannot be read.
    """
    best = {name: result.best_iteration.iteration for name, result in trained.results.items()}
    decoders = {name: pipe.method.decoder for name, pipe in training.to_train.items()}
    states = {name: of.to_state() for name, of in decoders.items() if isinstance(of, LearnedDecoder)}
    for pipe in training.to_train.values():
        pipe.training.set(teaches=False)  # decoders get their states of the first training
    both = training._replace(corpus=training.corpus + dev, dev=Corpus(list, keep=False))
    both.encode()
    for turn in both.turns():
        if reporter is not None:
            reporter.start(f"{turn.name}+dev", both.corpus.n_tokens, 1, scored=False)
        result = turn.fit(Schedule(iterations=best[turn.name]), reporter)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        training.say("text", f"{turn.name}+dev: {count_of(len(result.history), 'iteration')}; {result.reason}")
        turn.pipe.cfg.update(trained.results[turn.name].fitted_to_best)
        if isinstance(decoder := turn.pipe.method.decoder, LearnedDecoder):
            decoder.from_state(states[turn.name])
    both.nlp.meta["refit"] = best


def dev_to_learn_from(training: PipelineTraining) -> Corpus:
    """Return the dev corpus in the form in which the training corpus is learned from, where one reader reads both.

    Settings of readers of other packages may have other meanings, and stay.
    RAISES CrfError: If the reader refuses the settings.
    """
    from .corpus_reader import CorpusReader

    config = training.nlp.config.interpolate()
    block, of_train = corpus_block(config, "dev_corpus"), corpus_block(config, "train_corpus")
    form = {name: of_train[name] for name in FORM if name in of_train}
    if not form or block.get("@readers") != of_train.get("@readers"):
        return training.dev
    reader = util.registry.resolve({"dev": {**block, **form}})["dev"]
    if not isinstance(reader, CorpusReader):
        return training.dev
    portions = partial(reader.portions, training.nlp)
    return Corpus(partial(reader.stream, training.nlp), training.dev.keeps, None, portions)
