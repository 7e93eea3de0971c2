"""Training on the workers of a local Dask cluster: speed, bytes moved, memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_process, need, say, scratch
from bench.memory import peak, perturbed
from bench.scaling import write_columns

FILES = 16
ITERATIONS = 40
BIG, LIMIT = 30_000_000, "2GiB"


class Run(NamedTuple):
    """A training: seconds to encode, seconds of the fastest iteration, the last objective, weights, bytes moved.

    moved (float): By an iteration, from worker to worker and to the driver, as Dask counts them.
    """

    encoding: float
    iteration: float
    value: float
    weights: int
    moved: float = 0.0


@benchmark("cluster", minutes=5)
def cluster(options: Options) -> list[Row]:
    """Iterations of L-BFGS in one process, on a cluster of one worker and on a cluster of two, one thread each; the
    fastest of 40. The corpus has 3 million tokens in 16 files: CoNLL-2000 repeated by the generator of memory-scale,
    22 labels, observed pairs. Bytes moved are those that Dask counts, from workers to each other and to the driver.
    The first copy of the weights, from the driver to a worker, is not among them."""
    need("distributed")
    tokens = options.few(50_000, 3_000_000)
    with scratch() as folder:
        parts = write_parts(options, folder, tokens)
        kinds = {"alone": None, "one": 1, "two": 2}
        runs: dict[str, list[Run]] = {kind: [] for kind in kinds}
        for number in range(options.rounds):
            for kind, workers in kinds.items():
                runs[kind].append(Run(*in_process("cluster:train", workers, parts, ITERATIONS)))
                say(f"    round {number + 1}, {kind}: {runs[kind][-1]}")
    alone, single, two = ([run.iteration for run in runs[kind]] for kind in kinds)
    size = runs["two"][0].weights
    note = f"objectives {', '.join(f'{kind_runs[0].value:,.2f}' for kind_runs in runs.values())}; {size:,} weights"
    rate = {kind: [tokens / run.encoding for run in kind_runs] for kind, kind_runs in runs.items()}
    moved = [run.moved / 1e6 for run in runs["two"]]
    return [
        Row("an iteration, two workers", "s", two, single, "one worker", "times", 1.7, note),
        Row("an iteration, one worker", "s", single, alone, "one process"),
        Row("an iteration, two workers", "s", two, alone, "one process"),
        Row("encoding, two workers", "tokens/s", rate["two"], rate["one"], "one worker"),
        Row("encoding, two workers", "tokens/s", rate["two"], rate["alone"], "one process"),
        Row("bytes moved by an iteration, two workers", "MB", moved, [3 * 4e-6 * size] * len(moved), "3 vectors"),
    ]


@benchmark("cluster-memory", minutes=15)
def cluster_memory(options: Options) -> list[Row]:
    """L-BFGS on 30 million tokens of the same kind, with two workers of one thread that Dask limits to 2 GiB each."""
    need("distributed")
    tokens = options.few(50_000, BIG)
    with scratch() as folder:
        parts = write_parts(options, folder, tokens)
        run, peaks, written = in_process("cluster:train_within", parts, 12, LIMIT)
    return memory_rows(tokens, Run(*run), peaks, written)


def memory_rows(tokens: int, run: Run, peaks: list[float], written: list[float]) -> list[Row]:
    """Return the rows of `cluster_memory`."""
    return [
        Row("encoding", "us/token", [1e6 * run.encoding / tokens], kind="value"),
        Row("an iteration", "s", [run.iteration], kind="value", note=f"{run.weights:,} weights"),
        Row("largest memory of a worker", "MB", [max(peaks) / 1e6], kind="value", target=2147),
        Row("the same, of its tokens", "bytes/token", [2 * max(peaks) / tokens], kind="value"),
        Row("written to disk by both workers", "MB", [sum(written) / 1e6], kind="value"),
    ]


CONLL, SETTINGS = "spacy_crfseq.ConllReader.v1", {"columns": ["word", "_", "ent"], "on_invalid": "conlleval"}


@benchmark("mixing", minutes=5)
def mixing(options: Options) -> list[Row]:
    """The best dev score of AdaGrad with default settings, in one process and mixed over four shards: F1 of chunks and
    entities, accuracy of UPOS. The dev part of CoNLL-2000 is its training part from the 8,001st sentence on."""
    need("distributed")
    with scratch() as folder:
        sentences = options.corpus("conll2000", "train.txt").read_text(encoding="utf8").strip().split("\n\n")
        chunks = [folder / "train.txt", folder / "dev.txt"]
        for path, part in zip(chunks, (sentences[:8000], sentences[8000:]), strict=True):
            path.write_text("\n\n".join(part) + "\n\n", encoding="utf8")
        tags = [options.corpus("ud-english-ewt", f"en_ewt-ud-{part}.conllu") for part in ("train", "dev")]
        entities = [options.corpus("conll2002", f"esp.{part}") for part in ("train", "testa")]
        return [
            *_mixed("CoNLL-2000 chunks", "crf_chunker", chunks, {"@readers": CONLL, "given": ["tag"]}),
            *_mixed("UD English EWT, UPOS", "crf_tagger", tags, {"@readers": "spacy_crfseq.ConlluReader.v1"}),
            *_mixed("CoNLL-2002 Spanish entities", "crf_ner", entities, {"@readers": CONLL, **SETTINGS}),
        ]


def _mixed(what: str, factory: str, paths: list[Path], reader: dict[str, Any]) -> Iterator[Row]:
    from distributed import Client
    from spacy import util

    from spacy_crfseq.pipeline.corpus import Corpus

    train, dev = ({**reader, "path": str(path)} for path in paths)
    config = {
        "nlp": {"lang": "xx", "pipeline": ["crf"]},
        "components": {"crf": {"factory": factory, "optimizer": {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1"}}},
        "corpora": {"train": train, "dev": dev},
        "training": {"train_corpus": "corpora.train", "dev_corpus": "corpora.dev"},
    }
    for kind, workers in (("one process", 0), ("mixed, four shards", 4)):
        nlp = util.load_model_from_config(config, auto_fill=True)
        reading, scored = util.resolve_dot_names(nlp.config.interpolate(), ["corpora.train", "corpora.dev"])
        pipe: Any = nlp.get_pipe("crf")
        if workers:
            with Client(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
                result = pipe.fit_on(client, nlp, list(scored(nlp)))
        else:
            pipe.initialize(partial(Corpus, partial(reading.stream, nlp), False), nlp=nlp)
            result = pipe.fit(dev=list(scored(nlp)))
        say(f"    {what}, {kind}: {result.best_score}")
        yield Row(f"{what}, {kind}", "%", [100 * result.best_score], kind="value", note=f"{len(result.history)} epochs")


def write_parts(options: Options, folder: Path, tokens: int) -> str:
    """Write so many tokens to a few files of about the same size; return their folder."""
    sentences = perturbed(corpora.read_columns(options.corpus("conll2000", "train.txt")), tokens)
    for number in range(FILES):
        write_columns(_until(sentences, tokens / FILES), folder / f"{number}.txt")
    return str(folder)


def _until(sentences: Iterator[corpora.Sentence], tokens: float) -> Iterator[corpora.Sentence]:
    for sentence in sentences:
        yield sentence
        tokens -= len(sentence.words)
        if tokens <= 0:
            return


# In processes of their own


def train(workers: int | None, folder: str, iterations: int) -> Run:
    """Train on so many workers; None for this process."""
    if workers is None:
        return _train(folder, iterations, None)
    with _client(workers, 0) as client:
        return _train(folder, iterations, client)


def train_within(folder: str, iterations: int, limit: str) -> tuple[Run, list[float], list[float]]:
    """Train on two workers with limited memory; return their peaks and what they wrote to disk, in bytes."""
    with _client(2, limit) as client:
        run = _train(folder, iterations, client)
        return run, list(client.run(peak).values()), list(client.run(_spilled).values())


@contextmanager
def _client(workers: int, memory: Any) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": memory}
    with (
        LocalCluster(n_workers=workers, **settings) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def _train(folder: str, iterations: int, client: Any) -> Run:
    from spacy.util import registry

    from spacy_crfseq.pipeline.corpus import Corpus

    nlp, stamps, values, sent = ours.blank(), list[float](), list[float](), list[float]()
    settings = {"path": folder, "columns": ["word", "tag", "chunk"], "given": ["tag"]}
    nlp.config["corpora"] = {"train": {"@readers": "spacy_crfseq.ConllReader.v1", **settings}}
    nlp.config["training"]["train_corpus"] = "corpora.train"
    optimizer = {**ours.LBFGS, "epochs": 0, "tolerance": 0.0, "max_iterations": iterations}
    pipe = ours.chunker(nlp, **ours.matched(optimizer, "observed"))

    def watch(progress: Any) -> None:
        if client is not None and progress.iteration in (1, iterations):
            sent.append(sum(client.run(_sent).values()))
        stamps.append(perf_counter())
        values.append(progress.report.value)

    stamps.append(perf_counter())
    if client is None:
        read = registry.readers.get("spacy_crfseq.ConllReader.v1")(**settings)
        corpus = Corpus(partial(read.stream, nlp), False, None, partial(read.portions, nlp))
        pipe.initialize(lambda: corpus)
        pipe.fit(callback=watch)
    else:
        pipe.fit_on(client, nlp, callback=watch)
    first, *gaps = [last - first for first, last in pairwise(stamps)]
    moved = (sent[-1] - sent[0]) / len(gaps) if sent else 0.0
    return Run(first - min(gaps), min(gaps), values[-1], len(pipe.crf.theta), moved)


def _sent(dask_worker: Any) -> float:
    return float(dask_worker.transfer_outgoing_bytes_total)


def _spilled(dask_worker: Any) -> float:
    return float(dask_worker.data.cumulative_metrics["disk-write", "bytes"])
