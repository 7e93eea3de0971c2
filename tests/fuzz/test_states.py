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
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.pipeline.model_file import digest_of
from spacy_crfseq.training.checkpoint import Checkpoint
from spacy_crfseq.training.fit import fit
from spacy_crfseq.types import Schedule
from tests.contracts.test_optimizers import make, problem_for
from tests.fuzz.damage import changed
from tests.fuzz.oracle import attempt, cases
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
    collected = {}
    for name, config in configs.items():
        nlp = blank("crf_ner", **config)
        corpus = examples(nlp, "crf_ner")
        for example in corpus:
            give_values(example.predicted)
        initialize(nlp, corpus, fit=True)
        collected[name] = srsly.msgpack_loads(pipe_of(nlp).to_bytes(exclude=["vocab"]))
    return collected


def give_values(doc: Doc) -> Doc:
    doc._.crf_attributes = [[f"length:{len(token) / 10}", f"word={token.text}"] for token in doc]
    return doc


@pytest.mark.parametrize("plugin", ["phrases", "classes", "values", "kernel"])
@cases(10)
@given(data=st.data())
def test_the_state_of_a_plug_in(plugin: str, data: st.DataObject, configs: Any, stored: Any) -> None:
    whole, config = stored[plugin], configs[plugin]
    head = srsly.msgpack_loads(whole["model"])
    if config.get("attributes"):
        head["attributes"] = {"one": data.draw(changed(head["attributes"]["one"]))}
    else:
        body = srsly.msgpack_loads(head["model"])
        head["model"] = srsly.msgpack_dumps({**body, "potentials": data.draw(changed(body["potentials"]))})
    packed = srsly.msgpack_dumps({**head, "digest": digest_of(head)})
    nlp = blank("crf_ner", **config)

    def load() -> None:
        pipe_of(nlp).from_bytes(srsly.msgpack_dumps({**whole, "model": packed}), exclude=["vocab"])
        for rows in SENTENCES:
            pipe_of(nlp)(give_values(bare_doc(nlp, [row[0] for row in rows])))

    attempt(load)


NAMES = sorted(registry.optimizers.get_all())


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A checkpoint of each optimizer after two iterations, by its name."""
    collected = {}
    for name in NAMES:
        training, optimizer = problem_for(name), make(name, max_iterations=2)
        path, theta = tmp_path_factory.mktemp("checkpoints") / "checkpoint", np.zeros(training.layout.size)
        checkpoint = Checkpoint(path, every=0.0)
        checkpoint.begin("x", {}, theta, partial(optimizer.start, theta), training.objective.blocks)
        fit(training.objective, optimizer, theta, saver=checkpoint, evaluate=np.sum, schedule=Schedule(1))
        collected[name] = path.read_bytes()
    return collected


@pytest.mark.parametrize("name", NAMES)
@cases(3)
@given(data=st.data())
def test_checkpoints(name: str, data: st.DataObject, checkpoints: dict[str, bytes], folder: Path) -> None:
    content, path = srsly.msgpack_loads(checkpoints[name]), folder / "damaged"
    part = data.draw(st.sampled_from(["facts", "run", "run", "run", "trained", "component", ""]))
    if part:
        content[part] = data.draw(changed(content[part]))
    else:
        content = data.draw(changed(content))
    path.write_bytes(sealed(content))
    training, optimizer = problem_for(name), make(name, max_iterations=4)
    theta = np.zeros(training.layout.size)

    def begin_again() -> Any:
        start = partial(optimizer.start, theta)
        return Checkpoint.load(path).begin("x", {}, theta, start, training.objective.blocks) or ()

    outcome = attempt(begin_again, str(path))
    if outcome is not None:
        with np.errstate(all="ignore"):
            # numbers may be wrong, but their kinds are right
            attempt(lambda: fit(training.objective, optimizer, theta, begun=outcome[1]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("states")
