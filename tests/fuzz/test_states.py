"""States of plug-ins in model files, and of optimizers in checkpoints, with wrong content under a right digest.

Memory is limited: a state may not take more than its size warrants.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.pipeline import storage
from spacy_crfseq.training.checkpoint import MAGIC, Checkpoint
from spacy_crfseq.training.fit import fit
from tests.contracts.test_optimizers import make, problem_for
from tests.fuzz.damage import changed
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import SENTENCES, bare_doc, blank, examples, initialize, pipe_of, registered

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


@st.composite
def odd_array(draw: Any, array: np.ndarray[Any, Any]) -> Any:
    """Draw an array in the place of another: cut, reordered, of another type or shape, or with extreme numbers."""
    at, kind, number = (draw(st.integers(0, size)) for size in (max(0, array.size - 1), 6, 3))
    if kind == 0 and array.size:
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(np.float32)
        extreme = array.copy()
        extreme.reshape(-1)[at] = [limits.max, limits.min, 0, limits.max // 2][number]
        return extreme
    if kind == 1:
        with np.errstate(all="ignore"):
            return array.astype(["<f4", "<i8", "|u1", "<c8"][number])
    return [array[:at], array[::-1], array[None], np.repeat(array, 3, 0), array[:0]][min(kind, 6) - 2]


@st.composite
def mutated(draw: Any, value: Any) -> Any:
    """Draw another value for one place of a tree."""
    if isinstance(value, np.ndarray):
        return draw(odd_array(value))
    if isinstance(value, dict | list) and value and draw(st.integers(0, 5)):
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        other = value.copy()
        other[key] = draw(mutated(value[key]))
        return other
    return draw(changed(value))


@cases(40)
@given(data=st.data(), plugin=st.sampled_from(["phrases", "classes", "values", "kernel"]))
def test_the_state_of_a_plug_in(data: st.DataObject, plugin: str, configs: Any, stored: Any) -> None:
    whole = stored[plugin]
    head = srsly.msgpack_loads(whole["model"])
    if configs[plugin].get("attributes"):
        head["attributes"] = {"one": data.draw(mutated(head["attributes"]["one"]))}
    else:
        body = srsly.msgpack_loads(head["model"])
        head["model"] = srsly.msgpack_dumps({**body, "kernels": data.draw(mutated(body["kernels"]))})
    packed = srsly.msgpack_dumps({**head, "digest": storage._digest(head)})
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


@cases(40)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_a_checkpoint(data: st.DataObject, name: str, checkpoints: Any, tmp_path_factory: Any) -> None:
    whole, begin = checkpoints[name], len(MAGIC) + 24
    size = int.from_bytes(whole[begin - 8 : begin], "little")
    header, arrays = json.loads(whole[begin : begin + size]), whole[begin + size :]
    part = data.draw(st.sampled_from(["facts", "run", "run", "run", "arrays", "trained", "component"]))
    if data.draw(st.booleans()):
        arrays = data.draw(changed(arrays) if arrays else st.binary())
        arrays = arrays if isinstance(arrays, bytes) else b""
    else:
        header[part] = data.draw(mutated(header[part]))
    new = json.dumps(header, default=str).encode()
    digest = blake2b(new + arrays, digest_size=16).digest()
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(MAGIC + digest + len(new).to_bytes(8, "little") + new + arrays)
    training, optimizer = problem_for(name), make(name, max_iterations=4)
    theta = np.zeros(training.layout.size)

    def begin_again() -> Any:
        start = partial(optimizer.start, theta)
        return Checkpoint.load(path).begin("x", {}, theta, start, training.objective.blocks) or ()

    found = attempt(begin_again, str(path))
    if found is not None:
        with np.errstate(all="ignore"):
            fit(training.objective, optimizer, theta, begun=found[1])  # numbers may be wrong, but their kinds are right
