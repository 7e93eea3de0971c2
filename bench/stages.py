"""Where the time goes: stages of training and tagging, in nanoseconds a token."""

from __future__ import annotations

import functools
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, clock, one_thread, say

KERNELS = {
    "hashing": "hashing, index",
    "lattice": "forward-backward",
    "blocks": "forward-backward",
    "updates": "optimizer arithmetic",
    "gather": "gather",
    "paths": "decode",
    "lockstep": "gather, forward-backward and arithmetic in one kernel",
    "vectors": "optimizer arithmetic",
}
"""Stage of each module of kernels; the name of the kernel distinguishes rows of weights."""
METHODS = {
    "spacy_crfseq.pipeline.prediction:read_docs": "read",
    "spacy_crfseq.features.encoder:Encoder.encode": "encode, in Python",
    "spacy_crfseq.pipeline.tasks:SpanGroups.write": "write",
    "spacy_crfseq.pipeline.tasks:TokenTags.write": "write",
    "spacy_crfseq.pipeline.tasks:Entities.write": "write",
    "spacy_crfseq.pipeline.tasks:SpanGroups.gold_tags": "gold labels",
    "spacy_crfseq.pipeline.tasks:TokenTags.gold_tags": "gold labels",
    "spacy_crfseq.pipeline.build:make_layout": "layout",
}
"""Python functions that are a stage, less the kernels they call; those that do not exist are skipped."""
REST = "the rest, in Python"


class Stopwatch:
    """Adds up the time of each stage, what it calls taken off."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inner: list[float] = [0.0]

    def timing(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work` with its time added to a stage."""

        @functools.wraps(work)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            started = clock()
            try:
                return work(*args, **kwargs)
            finally:
                elapsed = clock() - started
                self.spent[stage] += elapsed - self._inner.pop()
                self._inner[-1] += elapsed

        return wrapper

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put the watch around all stages."""
        changed = [(owner, name, getattr(owner, name)) for owner, name, _ in _stages()]
        try:
            for owner, name, stage in _stages():
                setattr(owner, name, self.timing(stage, getattr(owner, name)))
            yield
        finally:
            for owner, name, original in reversed(changed):
                setattr(owner, name, original)


def _stages() -> list[tuple[Any, str, str]]:
    """Return (owner, attribute, stage) for every kernel and function to be timed."""
    stages = []
    for module, name, kernel in _kernels():
        short = module.__name__.rpartition(".")[2]
        stage = KERNELS.get(short) or _stage_of_rows(name)
        if callable(kernel):
            stages.append((module, name, stage))
    for path, stage in METHODS.items():
        module_name, _, names = path.partition(":")
        *owners, name = names.split(".")
        try:
            owner = functools.reduce(getattr, owners, importlib.import_module(module_name))
        except (ImportError, AttributeError):
            continue
        if hasattr(owner, name):
            stages.append((owner, name, stage))
    return stages


def _kernels() -> Iterator[tuple[Any, str, Any]]:
    """Yield the public compiled functions of every module of kernels."""
    import pkgutil

    from spacy_crfseq import kernels

    for info in pkgutil.iter_modules(kernels.__path__):
        if info.name not in (*KERNELS, "rows"):
            continue  # called by other kernels alone, which must find the originals at compilation
        module = importlib.import_module(f"{kernels.__name__}.{info.name}")
        for name, value in list(vars(module).items()):
            if not name.startswith("_") and hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                yield module, name, value


def _stage_of_rows(name: str) -> str:
    if "scatter" in name or name in ("collect_sparse", "from_table"):
        return "scatter"
    if name.startswith(("add", "gather", "expand")) or name in ("to_table", "split", "transpose"):
        return "gather"
    return "layout" if "mark" in name else f"other kernels ({name})"


@benchmark("stages", minutes=0.2)
def stages(options: Options) -> list[Row]:
    """Nanoseconds per token and pass in each stage, on one thread, on CoNLL-2000 with the 19 attributes of CRF++:
    encoding once, an iteration of L-BFGS, an epoch of the default optimizer, tagging of Docs. Stages below one per
    cent are left out. Timing each call has a small cost, which is largest in an online optimizer."""
    nlp = ours.blank()
    train, test = (corpora.chunks(options, nlp, part, options.few(200)) for part in ("train", "test"))
    epochs, iterations = 3, 10
    sgd = ours.default_optimizer("crf_chunker", epochs)
    tokens = sum(len(example.predicted) for example in train.examples)

    def initialized(**config: Any) -> Any:
        pipe = ours.chunker(nlp, **config)
        pipe.initialize(lambda: train.examples)
        return pipe

    exact = ours.matched({**ours.LBFGS, "max_iterations": iterations, "epochs": 0}, "observed")
    with one_thread():
        for settings in (exact, {"optimizer": sgd}):  # the watch may not be around kernels that others compile in
            pipe = ours.chunker(nlp, **settings)
            ours.train(pipe, train.examples[:50])
            list(pipe.pipe(ours.copies(test.examples[:50])))
        rows = _profile("initialize", tokens, lambda: initialized(**exact))
        rows += _profile("L-BFGS, an iteration", tokens * iterations, initialized(**exact).fit)
        online = initialized(optimizer=sgd)
        rows += _profile("default optimizer, an epoch", tokens * epochs, online.fit)
        docs = ours.copies(test.examples)
        list(online.pipe(docs))
        rows += _profile("tagging", sum(map(len, docs)), lambda: list(online.pipe(docs)))
    return rows


def _profile(label: str, tokens: int, work: Callable[[], object]) -> list[Row]:
    say(f"    {label}")
    watch = Stopwatch()
    with watch.installed():
        watch.timing(REST, work)()
    total = sum(watch.spent.values())
    largest = sorted(watch.spent.items(), key=lambda item: -item[1])
    rows = [Row(f"{label}: all", "ns/token", [1e9 * total / tokens], kind="value")]
    for stage, spent in largest:
        if spent > 0.01 * total:
            figure = [1e9 * spent / tokens]
            rows.append(Row(f"{label}: {stage}", "ns/token", figure, kind="value"))
    return rows
