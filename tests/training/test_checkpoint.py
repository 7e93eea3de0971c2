"""Checkpoints: the state of a run when its cluster is lost, and files that hold something else."""

import json
import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import srsly

import spacy_crfseq
from spacy_crfseq.errors import ClusterError, ModelFileError
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.training.checkpoint import DIGEST, Checkpoint
from spacy_crfseq.training.fit import FitResult, Progress, RunState, fit
from spacy_crfseq.types import NO_REPORT, Optimizer, Schedule, StepReport
from tests.problems import Training, training_problem

EACH = Schedule(evaluate_every=1)


@pytest.fixture(scope="module")
def training() -> Training:
    return training_problem(3, n_sequences=20)


def begin(checkpoint: Checkpoint, training: Training, optimizer: Optimizer) -> tuple[FitResult | None, RunState | None]:
    theta = np.zeros(training.layout.size)
    return checkpoint.begin("ner", {"labels": "A"}, theta, partial(optimizer.start, theta), training.objective.blocks)


def lose(progress: Progress) -> None:
    if progress.iteration == 4:
        raise ClusterError("The scheduler is lost.")


@pytest.fixture
def stored(training: Training, tmp_path: Path) -> Callable[[Optimizer], Path]:
    """Return a function that makes a checkpoint of a run after four iterations."""

    def store(optimizer: Optimizer) -> Path:
        checkpoint = Checkpoint(tmp_path / "checkpoint")
        begin(checkpoint, training, optimizer)
        theta = np.zeros(training.layout.size)
        with pytest.raises(ClusterError):
            fit(training.objective, optimizer, theta, callback=lose, saver=checkpoint, evaluate=np.sum, schedule=EACH)
        return tmp_path / "checkpoint"

    return store


def test_a_run_whose_cluster_is_lost_continues_from_its_last_iteration(training: Training, stored: Any) -> None:
    theta, optimizer = np.zeros(training.layout.size), LBFGS()
    path = stored(optimizer)
    whole = fit(training.objective, optimizer, theta, evaluate=np.sum, schedule=EACH)
    resumed = Checkpoint.load(path)
    assert resumed.n_iterations == 4
    _, begun = begin(resumed, training, optimizer)
    result = fit(training.objective, optimizer, theta, evaluate=np.sum, schedule=EACH, saver=resumed, begun=begun)
    assert [step.report for step in result.history] == [step.report for step in whole.history]
    assert result.last.tobytes() == whole.last.tobytes()
    assert result.best.tobytes() == whole.best.tobytes()


def test_results_of_trained_components_are_kept(training: Training, stored: Any) -> None:
    optimizer = AdaGrad(tolerance=0.0)
    result = fit(training.objective, optimizer, np.zeros(training.layout.size))
    checkpoint = Checkpoint(stored(optimizer))
    begin(checkpoint, training, optimizer)
    checkpoint.end("ner", result)
    checkpoint.save(RunState(optimizer.start(result.last), [], None, -np.inf, 0), now=True)
    kept, _ = begin(Checkpoint.load(checkpoint.path), training, optimizer)
    assert kept is not None
    assert kept.last.tobytes() == result.last.tobytes()
    assert repr(kept[2:4]) == repr(result[2:4])


def test_a_stored_run_is_given_to_its_own_component_alone(training: Training, stored: Any) -> None:
    theta, optimizer = np.zeros(training.layout.size), LBFGS()
    checkpoint = Checkpoint.load(stored(optimizer))
    start = partial(optimizer.start, theta)
    assert checkpoint.begin("another", {}, theta, start, training.objective.blocks) == (None, None)
    _, run = begin(checkpoint, training, optimizer)
    assert run is not None
    assert len(run.history) == 4


def change(path: Path, edit: Callable[[Any], None]) -> None:
    """Edit the content of a checkpoint, and give it the digest that then fits."""
    content = srsly.msgpack_loads(path.read_bytes())
    edit(content)
    path.write_bytes(sealed(content))


def sealed(content: Any) -> bytes:
    """Return a content as the bytes of a checkpoint with the right digest."""
    if isinstance(content, dict):
        content["digest"] = content.pop("digest", b"")  # the last entry
    data = srsly.msgpack_dumps(content)[:-DIGEST]
    return data + blake2b(data, digest_size=DIGEST).digest()


def edit(*keys: Any, value: Any) -> Callable[[Any], None]:
    def apply(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return apply


STATE = ("run", "optimizer")
RANDOM = json.dumps({"bit_generator": "PCG64", "state": {"state": 1, "inc": 1}, "has_uint32": 0, "uinteger": 0})


@pytest.mark.parametrize(("optimizer", "wrong"), [
    (LBFGS(), edit(*STATE, "theta", value={b"nd": True, b"type": "<f8", b"shape": [1 << 60], b"data": bytes(8)})),
    (LBFGS(), edit(*STATE, "theta", value={b"nd": True, b"type": "|O", b"shape": [1], b"data": bytes(8)})),
    (LBFGS(), edit(*STATE, "theta", value=np.zeros(3))),
    (LBFGS(), edit(*STATE, "gradient", value=np.zeros(0))),
    (LBFGS(), edit(*STATE, "values", value=["x"])),
    (LBFGS(), edit(*STATE, "history", "rows", value=[np.zeros(3)] * 9)),
    (LBFGS(), edit("run", "best", value=np.zeros(3))),
    (LBFGS(), edit(*STATE, "history", "slot", value=10**6)),
    (LBFGS(), edit(*STATE, "history", "used", value=-1)),
    (LBFGS(), edit(*STATE, "theta", value=10**9)),
    (LBFGS(), edit(*STATE, "done", value=3)),
    (LBFGS(), edit(*STATE, "more", value=1)),
    (LBFGS(), edit("run", "optimizer", value=[])),
    (LBFGS(), edit("run", "history", 0, value=None)),
    (AdaGrad(), edit(*STATE, "rng", value=RANDOM.replace('"state": 1', f'"state": {1 << 200}'))),
    (AdaGrad(), edit(*STATE, "rng", value=RANDOM.replace("PCG64", "MT19937"))),
    (AdaGrad(), edit(*STATE, "rng", value="[" * 10_000)),
    (AdaGrad(), edit(*STATE, "seen", value=np.zeros((1, 2)))),
    (AdaGrad(), edit(*STATE, "seen", value=np.zeros((0, 2)))),
    (AdaGrad(), edit(*STATE, "others", value=[{}])),
])  # fmt: skip
def test_wrong_content_under_a_right_digest_is_refused(
    optimizer: Any, wrong: Callable[[Any], None], training: Training, stored: Any
) -> None:
    path = stored(optimizer)
    change(path, lambda content: None)
    assert begin(Checkpoint.load(path), training, optimizer)[1] is not None
    change(path, wrong)
    with pytest.raises(ModelFileError, match="this checkpoint cannot be read"):
        begin(Checkpoint.load(path), training, optimizer)


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: data[: len(data) // 2], lambda data: data[:100] + b"x" + data[101:],
    lambda data: data + b"x",
])  # fmt: skip
def test_a_file_with_another_digest_is_refused(damage: Callable[[bytes], bytes], stored: Any) -> None:
    path = stored(LBFGS())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFileError, match="was cut short or changed"):
        Checkpoint.load(path)


class Halving:
    """An optimizer whose state, a list with the parameters, no checkpoint can store."""

    requires, penalties, online, max_iterations = frozenset({"value_and_grad"}), frozenset({"none"}), False, 3

    def start(self, theta: Any) -> list[Any]:
        return [theta + 1, 0]

    def iterate(self, objective: Any, state: list[Any]) -> StepReport:
        state[:] = state[0] / 2, state[1] + 1
        return NO_REPORT._replace(converged=state[1] == self.max_iterations, message="it has halved them enough")

    def export(self, state: list[Any]) -> Any:
        return state[0]


def test_a_state_that_cannot_be_stored_is_reported_once(training: Training, tmp_path: Path, caplog: Any) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint", every=0.0)
    caplog.set_level("WARNING", "spacy_crfseq")
    result = fit(training.objective, Halving(), np.zeros(training.layout.size), saver=checkpoint)
    assert (result.last == 1 / 8).all()
    assert caplog.text.count("This run has no checkpoints: list has no to_state") == 1
    assert not checkpoint.path.exists()


def test_nothing_unpickles_but_compiled_kernels() -> None:
    """A pickle runs code, as a compiled kernel does, which numba writes and reads as one."""
    calls = r"\b(pickle|marshal|shelve|dill|joblib)\.(loads?|Unpickler|open)\b|\b(eval|exec)\("
    risky = re.compile(rf"{calls}|allow_pickle(?!=False)")
    folder = Path(spacy_crfseq.__file__).parent
    result = {
        (file.relative_to(folder).as_posix(), match[0])
        for file in folder.rglob("*.py")
        for match in risky.finditer(file.read_text(encoding="utf8"))
    }
    assert result == {("kernels/_cache.py", "pickle.loads")}
