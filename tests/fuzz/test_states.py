"""States of plug-ins in model files, and of optimizers in checkpoints, with wrong content under a right digest.

Memory is limited: a state may not take more than its size warrants.
"""

import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import srsly
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.pipeline.model_file import digest_of
from spacy_crfseq.training.checkpoint import Checkpoint
from spacy_crfseq.training.fit import fit
from tests.contracts.test_optimizers import make, problem_for
from tests.fuzz.oracle import CASES, attempt
from tests.pipeline.helpers import SENTENCES, bare_doc, blank, examples, initialize, pipe_of, registered
from tests.training.test_checkpoint import sealed

ROOM = 1 << 30
"""Bytes that a case may take in addition."""


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("lists")
    words = sorted({row[0] for rows in SENTENCES for row in rows})
    (folder / "classes.tsv").write_text("".join(f"{i % 4:03b}\t{word}\t3\n" for i, word in enumerate(words)))
    (folder / "names.txt").write_text("New York\nAnna\nthe old bridge\n")
    (folder / "functions.py").write_text("")
    return {
        "phrases": {"attributes": {"one": registered("attributes", "Phrases", path=str(folder / "names.txt"))}},
        "classes": {"attributes": {"one": registered("attributes", "WordClasses", path=str(folder / "classes.tsv"))}},
        "values": {"potentials": {"one": registered("potentials", "Values")}},
        "kernel": {
            "potentials": {"one": registered("potentials", "PolynomialKernel")},
            "optimizer": registered("optimizers", "DualPerceptron"),
            "loss": registered("losses", "Perceptron"),
            "regularizer": registered("regularizers", "NoRegularizer"),
        },
    }


@pytest.fixture(scope="module")
def stored(configs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The stored components, by the names of their plug-ins."""
    found = {}
    for name, config in configs.items():
        nlp = blank("crf_ner", **config)
        corpus = examples(nlp, "crf_ner")
        for example in corpus:
            give_values(example.predicted)
        initialize(nlp, corpus, fit=True)
        found[name] = srsly.msgpack_loads(pipe_of(nlp).to_bytes(exclude=["vocab"]))
    return found


def give_values(doc: Doc) -> Doc:
    doc._.crf_attributes = [[f"length:{len(token) / 10}", f"word={token.text}"] for token in doc]
    return doc


JUNK: list[Any] = [None, True, 0, -1, 2**31, 2**63 - 1, 0.5, float("nan"), "", "x", b"", b"\xff", [], {}, [[]], [0.0]]


def mutated(rng: np.random.Generator, value: Any) -> Any:
    """Return another value for one place of a tree: cut, doubled, of another type or shape, or extreme."""

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    if rng.random() < 0.15:
        return one_of(JUNK)
    if isinstance(value, np.ndarray):
        if value.size and rng.random() < 0.4:
            limits: Any = np.iinfo(value.dtype) if value.dtype.kind in "iu" else np.finfo(np.float32)
            extreme = value.copy()
            extreme.reshape(-1)[rng.integers(value.size)] = one_of([limits.max, limits.min, 0, limits.max // 2])
            return extreme
        at, dtype = int(rng.integers(len(value) + 1)), one_of(["<f4", "<i8", "|u1", "<c8"])
        with np.errstate(all="ignore"):
            other = value.astype(dtype)
        return one_of([value[:at], value[::-1].copy(), value[None], np.repeat(value, 3, 0), value[:0], other])
    if isinstance(value, bytes) and value:
        at = int(rng.integers(len(value)))
        flipped = value[:at] + bytes([value[at] ^ 1 << int(rng.integers(8))]) + value[at + 1 :]
        return one_of([flipped, value[:at], value * 2, value[8:], value[:-8]])
    if isinstance(value, dict | list) and value:
        key = one_of(sorted(value) if isinstance(value, dict) else range(len(value)))
        other = value.copy()
        if rng.random() < 0.8:
            other[key] = mutated(rng, value[key])
        else:
            del other[key]
        return other
    return one_of(JUNK)


@pytest.mark.parametrize("plugin", ["phrases", "classes", "values", "kernel"])
def test_the_state_of_a_plug_in(plugin: str, configs: Any, stored: Any) -> None:
    for number in range(CASES or 10):
        load_mutated(np.random.default_rng(number), plugin, configs, stored[plugin])


def load_mutated(rng: np.random.Generator, plugin: str, configs: Any, whole: dict[str, Any]) -> None:
    head = srsly.msgpack_loads(whole["model"])
    if configs[plugin].get("attributes"):
        head["attributes"] = {"one": mutated(rng, head["attributes"]["one"])}
    else:
        body = srsly.msgpack_loads(head["model"])
        head["model"] = srsly.msgpack_dumps({**body, "potentials": mutated(rng, body["potentials"])})
    packed = srsly.msgpack_dumps({**head, "digest": digest_of(head)})
    nlp = blank("crf_ner", **configs[plugin])

    def load() -> None:
        pipe_of(nlp).from_bytes(srsly.msgpack_dumps({**whole, "model": packed}), exclude=["vocab"])
        for rows in SENTENCES:
            pipe_of(nlp)(give_values(bare_doc(nlp, [row[0] for row in rows])))

    attempt(load)


NAMES = sorted(registry.optimizers.get_all())


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A checkpoint of each optimizer after two iterations, by its name."""
    found = {}
    for name in NAMES:
        training, optimizer = problem_for(name), make(name, max_iterations=2)
        path, theta = tmp_path_factory.mktemp("checkpoints") / "checkpoint", np.zeros(training.layout.size)
        checkpoint = Checkpoint(path, every=0.0)
        checkpoint.begin("x", {}, theta, partial(optimizer.start, theta), training.objective.blocks)
        fit(training.objective, optimizer, theta, saver=checkpoint, evaluate=np.sum)
        found[name] = path.read_bytes()
    return found


def test_checkpoints(checkpoints: dict[str, bytes], tmp_path: Path) -> None:
    for number in range(CASES or 60):
        name = NAMES[number % len(NAMES)]
        resume_mutated(np.random.default_rng(number), name, checkpoints[name], tmp_path / "damaged")


def resume_mutated(rng: np.random.Generator, name: str, whole: bytes, path: Path) -> None:
    content = srsly.msgpack_loads(whole)
    if rng.random() < 0.1:
        content = mutated(rng, content)
    else:
        part = ["facts", "run", "run", "run", "trained", "component"][rng.integers(6)]
        content[part] = mutated(rng, content[part])
    path.write_bytes(sealed(content))
    training, optimizer = problem_for(name), make(name, max_iterations=4)
    theta = np.zeros(training.layout.size)

    def begin_again() -> Any:
        start = partial(optimizer.start, theta)
        return Checkpoint.load(path).begin("x", {}, theta, start, training.objective.blocks) or ()

    found = attempt(begin_again, str(path))
    if found is not None:
        with np.errstate(all="ignore"):
            # numbers may be wrong, but their kinds are right
            attempt(lambda: fit(training.objective, optimizer, theta, begun=found[1]))
