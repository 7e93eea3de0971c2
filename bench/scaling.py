"""Constants of distributed training: passes, encoding and vectors on one thread, and transfers through Dask."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, clock, in_process, one_thread, say, scratch, seconds
from bench.memory import perturbed, resident


class Task(NamedTuple):
    """A corpus in a file, with its reader."""

    name: str
    reader: str
    path: Path
    settings: dict[str, Any]
    lang: str


WORKERS = (2, 4, 8)
TASKS = 1000


@benchmark("scaling", minutes=3)
def scaling(options: Options) -> list[Row]:
    """Constants of training on one thread. Encoding is `initialize` from a file. A pass is the loss of a corpus and
    its gradient, with weights for observed pairs; the memory is that after a pass. The arithmetic is that of L-BFGS
    with the shortest history, 4 pairs. The corpora are CoNLL-2002 Spanish (9 labels), CoNLL-2000 (22 labels),
    UD English EWT (49 labels), and CoNLL-2000 repeated by the generator of memory-scale."""
    rows = []
    with one_thread(), scratch() as folder:
        for task in _tasks(options, folder):
            say(f"    {task.name}")
            rows += _of_task(options, task)
        size = options.few(100_000, 8_000_000)
        rows.append(Row("L-BFGS: arithmetic", "ns/weight", _arithmetic(size, options.rounds), kind="value"))
    return rows


def write_columns(sentences: Any, path: Path) -> None:
    """Write sentences as lines of word, tag and label."""
    with path.open("w", encoding="utf8") as file:
        for sentence in sentences:
            file.writelines(f"{' '.join(row)}\n" for row in zip(*sentence, strict=True))
            file.write("\n")


def _tasks(options: Options, folder: Path) -> list[Task]:
    chunks = options.corpus("conll2000", "train.txt")
    columns = {"columns": ["word", "tag", "chunk"], "given": ["tag"]}
    entities = {"columns": ["word", "_", "ent"], "on_invalid": "conlleval"}
    spanish, ewt = options.corpus("conll2002", "esp.train"), options.corpus("ud-english-ewt", "en_ewt-ud-train.conllu")
    write_columns(perturbed(corpora.read_columns(chunks), options.few(10_000, 3_000_000)), folder / "large.txt")
    return [
        Task("9 labels", "ConllReader", spanish, entities, "es"),
        Task("22 labels", "ConllReader", chunks, columns, "en"),
        Task("22 labels, large", "ConllReader", folder / "large.txt", columns, "en"),
        Task("49 labels", "ConlluReader", ewt, {}, "en"),
    ]


def _of_task(options: Options, task: Task) -> list[Row]:
    given = {"limit": options.few(200), **task.settings}
    runs = [in_process("scaling:measure", *task[:2], str(task.path), given, task.lang) for _ in range(options.rounds)]
    tokens, weights = runs[0][:2]
    encoding, passes, epochs = ([1e9 * run[k] / tokens for run in runs] for k in (2, 3, 4))
    return [
        Row(f"{task.name}: encoding of a file", "ns/token", encoding, kind="value"),
        Row(f"{task.name}: a pass", "ns/token", passes, kind="value", note=f"{tokens:,} tokens, {weights:,} weights"),
        Row(f"{task.name}: an epoch of AdaGrad", "ns/token", epochs, kind="value"),
        Row(f"{task.name}: memory", "bytes/token", [run[5] / tokens for run in runs], kind="value"),
    ]


def measure(name: str, reader: str, path: str, settings: dict[str, Any], lang: str) -> tuple[float, ...]:
    """Return tokens and weights of a corpus, the seconds of its encoding, of a pass and of an epoch, and its memory."""
    from spacy.util import registry

    from spacy_crfseq import registry as own
    from spacy_crfseq.pipeline.corpus import Corpus

    nlp, build = ours.blank(lang), _BUILDS[name.partition(",")[0]]
    config = ours.matched({**ours.LBFGS, "epochs": 0}, "observed")

    def encoded(limit: int) -> Any:
        read = registry.readers.get(f"spacy_crfseq.{reader}.v1")(Path(path), **{**settings, "limit": limit})
        corpus = Corpus(partial(read.stream, nlp), False, None, partial(read.portions, nlp))
        pipe = build(nlp, **config)
        pipe.initialize(lambda: corpus)
        return pipe

    encoded(100)
    before, started = resident(), clock()
    pipe = encoded(settings["limit"])
    spent = clock() - started
    theta = np.random.default_rng(0).normal(0, 0.1, len(pipe.crf.theta)).astype(np.float32)
    with pipe.training.training_on() as (objective, _):
        tokens, out = objective.data.encoded.n_tokens, np.empty_like(theta)
        times = [seconds(lambda: objective.value_and_grad(theta, out)) for _ in range(4)]
        memory = resident() - before
        online = own.optimizers.get("spacy_crfseq.AdaGrad.v1")()
        state = online.start(np.zeros_like(theta))
        epochs = [seconds(lambda: online.iterate(objective, state)) for _ in range(2)]
    return tokens, len(theta), spent, min(times), min(epochs), memory


def _recognizer(nlp: Any, **config: Any) -> Any:
    return ours.add(nlp, "crf_ner", **config, scheme="IOB2")


_BUILDS = {"9 labels": _recognizer, "22 labels": ours.chunker, "49 labels": ours.tagger}


def _arithmetic(size: int, rounds: int) -> list[float]:
    """Return the time of iterations without the objective's, in ns a weight."""
    from spacy_crfseq import registry

    optimizer = registry.optimizers.get("spacy_crfseq.LBFGS.v1")(epochs=0, history=4, tolerance=0.0)
    objective = _Bowl(size)
    state = optimizer.start(np.zeros(size, np.float32))
    spent = []
    for _ in range(6 + rounds):
        objective.spent, started = 0.0, clock()
        optimizer.iterate(objective, state)
        spent.append(1e9 * (clock() - started - objective.spent) / size)
    return spent[6:]


class _Bowl:
    """A sum of squares with its time taken off: implements `types.BatchObjective`."""

    n_threads, approachable, spent = 1, False, 0.0

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self._target, self._scale = rng.normal(size=size).astype(np.float32), rng.random(size, np.float32) ** 2 + 0.001

    def value_and_grad(self, theta: Any, out: Any = None) -> tuple[float, float, Any]:
        started = clock()
        change = theta - self._target
        out[:] = self._scale * change
        value = 0.5 * float(out @ change)
        self.spent += clock() - started
        return value, value, out


@benchmark("transfers", minutes=4)
def transfers(options: Options) -> list[Row]:
    """Times of dask.distributed between processes of this machine, which share its two cores. Tasks without data: a
    thousand submitted together, and one at a time. A vector of float32 that a worker fetches from another, the best of
    four. The broadcast of a vector from the client to all workers by `scatter`. The sum of a vector from each
    worker to the client, two at a time (the tree). With more than two workers, the cores are the limit, not Dask."""
    rows: list[Row] = []
    sizes = [10_000, 100_000] if options.quick else [1_000_000, 5_000_000, 25_000_000]
    for workers in WORKERS:
        say(f"    {workers} workers")
        figures = in_process("scaling:transfer", workers, sizes, options.rounds)
        if not rows:
            rows += [
                Row(label, "ms", figures[label], kind="value") for label in ("a task of many", "a task, there and back")
            ]
            where = "a vector of {:g} MB from worker to worker"
            rows += [Row(where.format(4e-6 * size), "GB/s", figures[f"moved {size}"], kind="value") for size in sizes]
        for size in sizes:
            for what in ("scatter", "tree sum"):
                label = f"{what}, {workers} workers, {4 * size / 1e6:g} MB"
                rows.append(Row(label, "s", figures[f"{what} {size}"], kind="value"))
    return rows


def transfer(workers: int, sizes: list[int], rounds: int) -> dict[str, list[float]]:
    """Return times in seconds by what was done; tasks in milliseconds."""
    from distributed import Client, LocalCluster

    spent_on: dict[str, list[float]] = {}

    def note(what: str, spent: float) -> None:
        spent_on.setdefault(what, []).append(spent)

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        addresses = list(client.scheduler_info(n_workers=-1)["workers"])
        client.gather(client.map(_nothing, range(TASKS), pure=False))
        for _ in range(rounds):
            note(
                "a task of many",
                1e3 / TASKS * seconds(lambda: client.gather(client.map(_nothing, range(TASKS), pure=False))),
            )
            single = seconds(lambda: [client.submit(_nothing, 0, pure=False).result() for _ in range(50)])
            note("a task, there and back", 1e3 / 50 * single)
            for size in sizes:
                _exchange(client, addresses, size, note)
    return spent_on


def _exchange(client: Any, addresses: list[str], size: int, note: Any) -> None:
    """Measure the way of a vector to all workers, and of a vector of each worker to their sum."""
    from distributed import wait

    held: list[Any] = []
    vector = np.random.default_rng().random(size, np.float32)
    note(f"scatter {size}", seconds(lambda: held.append(client.scatter(vector, broadcast=True, hash=False))))
    parts = [client.submit(np.negative, held[0], workers=[address], pure=False) for address in addresses]
    wait(parts)
    sink, times = addresses[1], []
    small = seconds(lambda: client.submit(len, "a", workers=[sink], pure=False).result())
    for _ in range(4):  # the first needs fresh memory
        part = client.submit(np.negative, held[0], workers=addresses[:1], pure=False)
        wait(part)
        times.append(seconds(lambda part=part: client.submit(len, part, workers=[sink], pure=False).result()))
        del part
    note(f"moved {size}", 4e-9 * size / max(min(times) - small, 1e-4))

    def total() -> None:
        level = parts
        while len(level) > 1:
            level = [client.submit(np.add, *level[i : i + 2], pure=False) for i in range(0, len(level), 2)]
        level[0].result()

    note(f"tree sum {size}", seconds(total))


def _nothing(number: int) -> int:
    return number
