"""Training: seconds to a given quality, and seconds to a given objective."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import corpora, ours
from bench._harness import (
    CLOCK,
    Measure,
    Options,
    Row,
    Skip,
    benchmark,
    clock,
    in_process,
    in_turn,
    need,
    one_thread,
    optional,
    run_command,
    scratch,
    seconds,
    timed,
)
from bench.corpora import Sentence, Task
from bench.ours import Trace

GOAL_F1 = 93.70
"""The F1 of CRF++'s features on CoNLL-2000 when they are trained well."""
MOST_EPOCHS = 12
CLOSE = 1e-4
"""How near, relatively, an objective must come to the peer's final one."""


# To a given quality


@benchmark("train-chunks", minutes=2.2)
def train_chunks(options: Options) -> list[Row]:
    """CoNLL-2000 in memory to a trained chunker, on one thread. Ours starts from Docs and runs the default
    optimizer for the fewest epochs that reach the F1. sklearn-crfsuite starts from sentences and includes its
    feature dictionaries."""
    need("sklearn_crfsuite")
    with one_thread():
        return [
            _train_chunks(options, "sklearn-crfsuite, L-BFGS, c2 = 1", GOAL_F1, 20, algorithm="lbfgs", c1=0.0, c2=1.0),
            _train_chunks(options, "sklearn-crfsuite, averaged perceptron", None, 6, algorithm="ap"),
        ]


def _train_chunks(options: Options, against: str, goal: float | None, target: float, **settings: Any) -> Row:
    nlp = ours.blank()
    limit = options.few(200)
    train, test = (corpora.chunks(options, nlp, part, limit) for part in ("train", "test"))
    if options.quick:
        settings["max_iterations"] = 5
    scores: dict[str, float] = {}
    epochs = 0

    def peer() -> float:
        spent, scores["peer"] = _sklearn(train, test, settings)
        return spent

    def own() -> float:
        nonlocal epochs
        epochs = epochs or _epochs_for(nlp, train, test, goal or scores["peer"])
        spent, scores["ours"] = _own_chunker(nlp, train, test, epochs)
        return spent

    figures = in_turn(options.rounds, {against: peer, "ours": own})
    note = f"F1 {scores['ours']:.2f} after {epochs} epochs; the peer's {scores['peer']:.2f}"
    label = "CoNLL-2000 from memory to a chunker" + (f" of F1 {goal:.1f}" if goal else " of the peer's F1")
    return Row(label, "s", figures["ours"], figures[against], against, "times", target, note)


def _sklearn(train: Task, test: Task, settings: dict[str, Any]) -> tuple[float, float]:
    """Return seconds and F1 of sklearn-crfsuite."""
    crf = need("sklearn_crfsuite").CRF(**settings)

    def work() -> None:
        rows = [corpora.chunk_dictionaries(sentence) for sentence in train.sentences]
        crf.fit(rows, [sentence.labels for sentence in train.sentences])

    spent = seconds(work)
    predicted = crf.predict([corpora.chunk_dictionaries(sentence) for sentence in test.sentences])
    gold = [sentence.labels for sentence in test.sentences]
    return spent, corpora.span_f1(gold, [corpora.spans_of(tags) for tags in predicted])


def _own_chunker(nlp: Any, train: Task, test: Task, epochs: int) -> tuple[float, float]:
    """Return seconds and F1 of ours."""
    pipe = ours.chunker(nlp, optimizer=ours.default_optimizer("crf_chunker", epochs), support="all")
    spent = seconds(lambda: ours.train(pipe, train.examples))
    gold = [sentence.labels for sentence in test.sentences]
    return spent, corpora.span_f1(gold, ours.predicted_chunks(pipe, test.examples))


def _epochs_for(nlp: Any, train: Task, test: Task, goal: float) -> int:
    """Return the fewest epochs that reach an F1, and warm the kernels by the way."""
    reached = (n for n in range(2, MOST_EPOCHS) if _own_chunker(nlp, train, test, n)[1] >= goal)
    return next(reached, MOST_EPOCHS)


class Files(NamedTuple):
    """A corpus in files: train and dev part, our config, component, settings, layout, score and target."""

    name: str
    train: tuple[str, ...]
    dev: tuple[str, ...]
    config: str
    component: str
    settings: tuple[str, ...]
    layout: str
    score: str
    target: float


_COLUMNS = '["word", "_", "_", "ent"]'
FILES = {
    "chunks": Files(
        "CoNLL-2000", ("conll2000", "train.txt"), ("conll2000", "test.txt"), "chunk_conll2000", "crf_chunker", (),
        "conll2000", "spans_chunks_f", 20,
    ),
    "english": Files(
        "CoNLL-2003 English", ("conll2003", "eng.train"), ("conll2003", "eng.testa"), "ner_conll2002", "crf_ner",
        ("--nlp.lang", "en", "--corpora.train.columns", _COLUMNS, "--corpora.dev.columns", _COLUMNS),
        "conll2003", "ents_f", 20,
    ),
    "tags": Files(
        "UD English EWT, XPOS", ("ud-english-ewt", "en_ewt-ud-train.conllu"),
        ("ud-english-ewt", "en_ewt-ud-dev.conllu"), "pos_ewt", "crf_tagger", (), "conllu", "tag_acc", 20,
    ),
    "entities": Files(
        "CoNLL-2002 Spanish", ("conll2002", "esp.train"), ("conll2002", "esp.testa"),
        "ner_conll2002", "crf_ner", (), "conll2002", "ents_f", 14,
    ),
}  # fmt: skip
INITIAL = "english"
"""The corpus on which the config of `init-config` is measured, too."""


@benchmark("fit-command", minutes=6.5)
def fit_command(options: Options) -> list[Row]:
    """Whole processes from files to a scored model: `crfseq fit` with AdaGrad, five epochs, and two models written at
    the end; sklearn-crfsuite with L-BFGS, from reading to predictions. Chunks have the same attributes in both; for
    tags and entities, the peer has words, affixes and shapes, 18 attributes per token. The configs are those of this
    project, whose features are of words; that of `init-config` has classes of words, lists of names and a calibration
    as well, and more epochs."""
    need("sklearn_crfsuite")
    return [row for kind in FILES for row in _fit_files(options, kind)]


def _fit_files(options: Options, kind: str) -> list[Row]:
    files = FILES[kind]
    train, dev = (str(options.corpus(*parts)) for parts in (files.train, files.dev))
    against = "sklearn-crfsuite, L-BFGS, c2 = 1"
    spacy = [sys.executable, "-m", "spacy", "crfseq"]
    component = f"--components.{files.component}"
    paths = ["--force", "--paths.train", train, "--paths.dev", dev, f"{component}.n_threads", "1"]
    epochs = [f"{component}.optimizer.max_iterations", "1" if options.quick else "5"]
    adagrad = [f"{component}.optimizer.@crf_optimizers", "spacy_crfseq.AdaGrad.v1", *epochs]
    scores: dict[str, float] = {}

    def peer() -> float:
        scores["peer"] = in_process("training:sklearn_files", kind, train, dev, options.few(2))
        return scores["peer"]

    with scratch() as folder:
        fits = {"": [f"configs/{files.config}.cfg", *adagrad, *files.settings]}
        if kind == INITIAL:
            initial = str(folder / "initial.cfg")
            run_command([*spacy, "init-config", initial, "--format", files.layout, "--train", train, "--lang", "en"])
            fits[", `init-config --goal fast`"] = [initial, *(epochs if options.quick else [])]
        contenders: dict[str, Measure] = {against: timed(peer)}
        for number, (name, fit) in enumerate(fits.items()):
            command = [*spacy, "fit", *fit, *paths, "--output", str(folder / str(number))]
            contenders[name] = timed(partial(run_command, command))
        figures = in_turn(options.rounds, contenders, warm=fits)
        for number, name in enumerate(fits):
            model, report = folder / str(number) / "model-last", folder / f"{number}.json"
            evaluate = [*spacy, "evaluate", str(model), dev, "--format", files.layout, "--output", str(report)]
            run_command(evaluate)
            scores[name] = 100 * json.loads(report.read_text())[files.score]
    measure = "accuracy" if kind == "tags" else "F1"
    return [
        Row(
            f"{files.name}{name}: files to a scored model", "s", figures[name], figures[against], against, "times",
            None if name else files.target, f"{measure} {scores[name]:.2f}; the peer's {scores['peer']:.2f}",
        )
        for name in fits
    ]  # fmt: skip


def sklearn_files(kind: str, train: str, dev: str, iterations: int) -> float:
    """Train sklearn-crfsuite on a file and return its F1 or accuracy on another, in per cent."""
    read = corpora.read_xpos if kind == "tags" else corpora.read_columns
    features: Any = corpora.chunk_dictionaries if kind == "chunks" else corpora.tag_attributes
    learn, judge = (read(Path(path)) for path in (train, dev))
    crf = need("sklearn_crfsuite").CRF(algorithm="lbfgs", c1=0.0, c2=1.0, max_iterations=iterations or None)
    crf.fit([features(sentence) for sentence in learn], [sentence.labels for sentence in learn])
    predicted = crf.predict([features(sentence) for sentence in judge])
    gold = [sentence.labels for sentence in judge]
    if kind != "tags":
        return corpora.span_f1(gold, [corpora.spans_of(tags) for tags in predicted])
    pairs = [pair for tags, own in zip(gold, predicted, strict=True) for pair in zip(tags, own, strict=True)]
    return 100 * sum(tag == own for tag, own in pairs) / len(pairs)


# To a given objective


@benchmark("lbfgs-observed", minutes=1.6)
def lbfgs_observed(options: Options) -> list[Row]:
    """Exact L-BFGS on CoNLL-2000 chunks with 22 labels, the same attributes, and weights for observed pairs, to the
    objective (within 1e-4) at which CRFsuite stops; one thread, from ids in memory to weights."""
    nlp = ours.blank()
    task = corpora.chunks(options, nlp, "train", options.few(200))
    return _to_objective(options, nlp, task, ours.chunker, corpora.chunk_attributes, 15)


@benchmark("lbfgs-xpos", minutes=2.5)
def lbfgs_xpos(options: Options) -> list[Row]:
    """The same on UD English EWT with language-specific tags: 49 labels, 18 attributes per token."""
    nlp = ours.blank()
    task = corpora.xpos(options, nlp, "train", options.few(200))
    return _to_objective(options, nlp, task, ours.tagger, corpora.tag_attributes, 15)


def _to_objective(
    options: Options,
    nlp: Any,
    task: Task,
    build: Callable[..., Any],
    attributes: Callable[[Sentence], list[list[str]]],
    target: float,
) -> list[Row]:
    items = _items(task, attributes)
    peers: list[Trace] = []
    own: list[Trace] = []
    other = _underthesea(task, attributes, 4 if options.quick else 10)

    def peer() -> float:
        peers.append(_crfsuite(task, items, 20 if options.quick else 0))
        return peers[-1].seconds

    def us() -> float:
        pipe = build(nlp, **ours.matched(ours.LBFGS, "observed"))
        pipe.initialize(lambda: task.examples)
        notes["sizes"] = ours.sizes(pipe)
        own.append(ours.fit_until(pipe, goal=peers[-1].values[-1] * (1 + CLOSE)))
        return own[-1].seconds

    notes: dict[str, str] = {}
    against = "CRFsuite, L-BFGS, c2 = 1"
    with one_thread():
        _warm(nlp, task, build, "observed")
        figures = in_turn(options.rounds, {against: peer, "ours": us, **other})
    goal = peers[-1].values[-1] * (1 + CLOSE)
    note = (
        f"{own[-1].values[-1]:,.1f} in {len(own[-1].values)} iterations; the peer stops at {peers[-1].values[-1]:,.1f} "
    )
    note += f"after {len(peers[-1].values)}; {notes['sizes']}"
    early = [trace.reached(trace.values[-1] * (1 + CLOSE)) for trace in peers]
    note_early = f"the clock of the peer stops when it first reaches {goal:,.1f}"
    return [
        Row("to the peer's final objective", "s", figures["ours"], figures[against], against, "times", target, note),
        Row("the same, both stopped at that objective", "s", figures["ours"], early, against, note=note_early),
        Row("an iteration", "s", [t.iteration for t in own], [t.iteration for t in peers], against),
        *(Row("an iteration", "s", [t.iteration for t in own], figures[name], name) for name in other),
    ]


@benchmark("lbfgs-all", minutes=1)
def lbfgs_all(options: Options) -> list[Row]:
    """An iteration of L-BFGS on CoNLL-2000 with a weight for every attribute and label (7.4 million), on one
    thread: the median of ten iterations after the first; for Wapiti and CRF++, the difference of two runs."""
    nlp = ours.blank()
    task = corpora.chunks(options, nlp, "train", options.few(200))
    items = _items(task, corpora.chunk_attributes)
    iterations = 4 if options.quick else 11
    possible = {"feature.possible_states": True, "feature.possible_transitions": True}

    def us() -> float:
        pipe = ours.chunker(nlp, **ours.matched(ours.LBFGS, "all"))
        pipe.initialize(lambda: task.examples)
        return ours.fit_until(pipe, iterations=iterations).iteration

    contenders: dict[str, Measure] = {
        "ours": us,
        "CRFsuite": lambda: _crfsuite(task, items, iterations, **possible).iteration,
    }
    with scratch() as folder, one_thread():
        corpus = _write_columns(task.sentences, folder / "train.txt")
        contenders |= {name: make(folder, corpus, iterations) for name, make in _FILE_PEERS.items() if _on_path(name)}
        _warm(nlp, task, ours.chunker, "all")
        figures = in_turn(options.rounds, contenders)
    targets = {"CRFsuite": 15.0, "Wapiti": 15.0}
    return [
        Row("an iteration, all features", "s", figures["ours"], figures[name], name, "times", targets.get(name))
        for name in contenders
        if name != "ours"
    ]


def _warm(nlp: Any, task: Task, build: Callable[..., Any], support: str) -> None:
    """Compile or load what a run needs, on a few examples."""
    pipe = build(nlp, **ours.matched(ours.LBFGS, support))
    pipe.initialize(lambda: task.examples[:50])
    ours.fit_until(pipe, iterations=3)


def _items(task: Task, attributes: Callable[[Sentence], list[list[str]]]) -> list[Any]:
    sequence = need("pycrfsuite").ItemSequence
    return [sequence(attributes(sentence)) for sentence in task.sentences]


def _crfsuite(task: Task, items: Sequence[Any], iterations: int, **settings: Any) -> Trace:
    """Train python-crfsuite by L-BFGS with c2 = 1; its clock starts when the data are in its memory as numbers."""
    pycrfsuite = need("pycrfsuite")
    values: list[float] = []
    stamps: list[float] = []

    class Recorder(pycrfsuite.Trainer):  # type: ignore[misc, name-defined]
        def message(self, message: str) -> None:
            self.logparser.feed(message)
            if message.startswith("Seconds required for this iteration"):
                values.append(self.logparser.last_iteration["loss"])
                stamps.append(clock() - started)

    trainer = Recorder(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, **settings})
    if iterations:
        trainer.set_params({"max_iterations": iterations})
    for sequence, sentence in zip(items, task.sentences, strict=True):
        trainer.append(sequence, sentence.labels)
    with scratch() as folder:
        started = clock()
        trainer.train(str(folder / "model"))
        return Trace(clock() - started, values, stamps)


def _underthesea(task: Task, attributes: Callable[[Sentence], list[list[str]]], iterations: int) -> dict[str, Measure]:
    """Return underthesea_core's trainer (Rust), timed as a long run less a short one; nothing where it is missing."""
    module = optional("underthesea_core")
    if module is None:
        return {}
    rows, labels = [attributes(sentence) for sentence in task.sentences], [s.labels for s in task.sentences]

    def train(n: int) -> float:
        settings = {"l1_penalty": 0.0, "l2_penalty": 1.0, "max_iterations": n, "verbose": 0}
        return seconds(lambda: module.CRFTrainer(loss_function="lbfgs", **settings).train(rows, labels))

    return {"underthesea_core, L-BFGS, l2 = 1": lambda: (train(2 + iterations) - train(2)) / iterations}


# Peers that are commands over files

_PARTS = [
    "w[-2]", "w[-1]", "w[0]", "w[1]", "w[2]", "w[-1]|w[0]", "w[0]|w[1]",
    "p[-2]", "p[-1]", "p[0]", "p[1]", "p[2]", "p[-2]|p[-1]", "p[-1]|p[0]", "p[0]|p[1]", "p[1]|p[2]",
    "p[-2]|p[-1]|p[0]", "p[-1]|p[0]|p[1]", "p[0]|p[1]|p[2]",
]  # fmt: skip
_COMMANDS = {"Wapiti": "wapiti", "CRF++": "crf_learn"}


def _on_path(name: str) -> bool:
    import shutil

    return shutil.which(_COMMANDS[name]) is not None


def _pattern(folder: Path, name: str, prefix: str) -> str:
    """Write the template file in the language that both commands share; return its path."""
    lines = []
    for number, parts in enumerate(_PARTS):
        cells = [f"%x[{part[2:-1]},{'wp'.index(part[0])}]" for part in parts.split("|")]
        lines.append(f"{prefix}{number:02d}:{'/'.join(cells)}")
    path = folder / f"{name}.pattern"
    path.write_text("\n".join([*lines, "B"]) + "\n", encoding="utf8")
    return str(path)


def _write_columns(sentences: Sequence[Sentence], path: Path) -> str:
    blocks = ["\n".join(map(" ".join, zip(*sentence, strict=True))) for sentence in sentences]
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf8")
    return str(path)


def _wapiti(folder: Path, corpus: str, iterations: int) -> Measure:
    pattern = _pattern(folder, "wapiti", "U")
    command = ["wapiti", "train", "-a", "l-bfgs", "-1", "0", "-2", "2", "-t", "1", "-p", pattern]
    return _difference(lambda n: [*command, "-i", str(n), corpus, str(folder / "wapiti.model")], iterations)


def _crfpp(folder: Path, corpus: str, iterations: int) -> Measure:
    pattern = _pattern(folder, "crfpp", "U")
    command = ["crf_learn", "-f", "1", "-c", "0.5", "-p", "1"]
    return _difference(lambda n: [*command, "-m", str(n), pattern, corpus, str(folder / "crfpp.model")], iterations)


_FILE_PEERS: dict[str, Callable[[Path, str, int], Measure]] = {"Wapiti": _wapiti, "CRF++": _crfpp}


def _difference(command: Callable[[int], list[str]], iterations: int) -> Measure:
    """Return a contender that measures an iteration as a long run less a short one."""

    def measure() -> float:
        short, long = (seconds(partial(run_command, command(n))) for n in (2, 2 + iterations))
        return (long - short) / iterations

    return measure


# Threads


@benchmark("threads", minutes=1.5)
def threads(options: Options) -> list[Row]:
    """One thread compared with several in one process: the default optimizer on chunks of CoNLL-2000, tags of UD
    English EWT and entities of CoNLL-2002 (Spanish), L-BFGS and tagging of Docs on the first. Training is `fit` alone,
    from encoded text to weights."""
    import os

    from spacy_crfseq.pipeline.settings import Method

    if "n_threads" not in Method._fields:
        raise Skip("this version has no setting n_threads")
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < options.threads:
        raise Skip(f"the process may use {len(os.sched_getaffinity(0))} core, {options.threads} are needed")
    corpus = str(options.corpus("conll2000").parent)
    env = {"NUMBA_NUM_THREADS": str(options.threads), CLOCK: "wall"}  # processor time would count every thread
    figures = in_process("training:threads_worker", corpus, options.rounds, options.threads, options.quick, env=env)
    return [
        Row(label, "s", many, single, "ours with one thread", "times", target, f"{options.threads} threads")
        for label, (single, many, target) in figures.items()
    ]


def threads_worker(data: str, rounds: int, n: int, quick: bool) -> dict[str, tuple[list[float], list[float], float]]:
    """Measure everything with one thread and with n in turn."""
    options = Options(Path(data), quick=quick, rounds=rounds, threads=n)
    nlp, limit, epochs = ours.blank(), options.few(200), "three epochs of the default optimizer"
    chunks = corpora.chunks(options, nlp, "train", limit)
    tags, entities = corpora.xpos(options, nlp, "train", limit), corpora.entities(options, nlp, "train", limit)
    ner = partial(ours.add, factory="crf_ner")
    kinds: dict[str, tuple[Callable[[int], float], float]] = {
        f"{epochs}, chunks": (_threads_fit(nlp, chunks, ours.chunker, "crf_chunker"), 1.6),
        f"{epochs}, tags": (_threads_fit(nlp, tags, ours.tagger, "crf_tagger"), 1.6),
        f"{epochs}, entities": (_threads_fit(nlp, entities, ner, "crf_ner"), 1.6),
        "ten iterations of L-BFGS, chunks": (_threads_fit(nlp, chunks, ours.chunker, ""), 1.8),
        "tagging of Docs": (lambda k: _threads_tag(nlp, chunks, k), 1.7),
    }
    result = {}
    for label, (measure, target) in kinds.items():
        contenders = {f"{label}, {k} threads": partial(measure, k) for k in (1, n)}
        single, many = in_turn(rounds, contenders, warm=contenders).values()
        result[label] = single, many, target
    return result


def _threads_fit(nlp: Any, task: Task, build: Callable[..., Any], factory: str) -> Callable[[int], float]:
    """Return a function that trains with some threads, by the default optimizer of a factory or else by L-BFGS."""
    lbfgs = {**ours.LBFGS, "max_iterations": 10, "epochs": 0}
    optimizer = {**ours.default_optimizer(factory, 3), "tolerance": 0.0} if factory else lbfgs

    def measure(n: int) -> float:
        pipe = build(nlp, optimizer=optimizer, n_threads=n)
        pipe.initialize(lambda: task.examples)
        return seconds(pipe.fit)

    return measure


def _threads_tag(nlp: Any, task: Task, n: int) -> float:
    pipe = ours.chunker(nlp, optimizer=ours.default_optimizer("crf_chunker", 1), n_threads=n)
    ours.train(pipe, task.examples)
    docs = ours.copies(task.examples)
    list(pipe.pipe(docs))
    return seconds(lambda: list(pipe.pipe(docs)))
