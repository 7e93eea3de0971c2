"""The training loop outside spaCy, and checkpoints, from which it continues after the process was killed.

The loop iterates, evaluates and keeps the best parameters; a callback gets every `Progress`.

A run reads and encodes its corpus again, which gives the same features and numbers.  A checkpoint therefore has no
features: only the state of the run, and facts by which another corpus or config is refused.  The file is a line of
text, a digest, a header in JSON and the bytes of all arrays.  It names no types: the state that the optimizer of the
config starts with says what each value must be, and how long each array.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ClusterError, ConfigError, ModelFileError
from ..files import replacing
from ..optimizers.batch import BatchState, Point
from ..types import Floats, Objective, Optimizer, RowBlock, StepReport

ONLINE_PATIENCE = 5
"""The default patience of online optimizers."""

Scores: TypeAlias = dict[str, Any] | None


class Progress(NamedTuple):
    """State of a run after an iteration.

    iteration (int): Iterations so far, from 1.
    seconds (float): Wall time since the start, including evaluation.
    score (float | None): Development score, higher is better; None if it was not computed.
    best (bool): Whether this is the best score so far.
    active (int | None): Number of non-zero weights; None without an evaluation.
    """

    iteration: int
    seconds: float
    report: StepReport
    score: float | None
    best: bool
    active: int | None = None


class FitResult(NamedTuple):
    """Outcome of a run.

    best, last (Floats): [D] parameters with the best development score, if any was computed, and the final parameters.
    history (list[Progress]): One entry per iteration.
    reason (str): Reason for the end of the run.
    scores (tuple[Scores, Scores]): Those of `best` and `last` on the dev corpus, as `nlp.evaluate` names them; None
        where Docs are needed.
    """

    best: Floats
    last: Floats
    history: list[Progress]
    reason: str
    scores: tuple[Scores, Scores] = (None, None)

    def __repr__(self) -> str:
        score = "" if self.best_score is None else f"best score {self.best_score:.4f}; "
        return f"<FitResult: {len(self.history)} iterations; {self.reason}; {score}{len(self.best):,} parameters>"

    @property
    def best_score(self) -> float | None:
        """The highest development score, None if none was computed."""
        scores = [progress.score for progress in self.history if progress.score is not None]
        return max(scores) if scores else None


class RunState(NamedTuple):
    """A run after an iteration, from which it can continue.

    optimizer (Any): State of the optimizer.
    without_gain (int): Scores since the best one.
    """

    optimizer: Any
    history: list[Progress]
    best: Floats | None
    best_score: float
    without_gain: int


def fit(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    *,
    evaluate: Callable[[Floats], float] | None = None,
    evaluate_every: int = 1,
    patience: int | None = None,
    callback: Callable[[Progress], None] | None = None,
    saver: Checkpoint | None = None,
    begun: RunState | None = None,
) -> FitResult:
    """Train from `theta` until the optimizer converges, patience runs out, or Ctrl-C.

    evaluate (Callable): Maps parameters to a development score.
    patience (int | None): Evaluations without improvement before stopping; 0 never stops, None means
        `ONLINE_PATIENCE` with an online optimizer and 0 with another.
    saver (Checkpoint | None): Gets the state after each iteration, and after the loss of a cluster.
    begun (RunState | None): A run to continue; without iterations, it may say the score of theta itself.
    After an interrupt the best parameters so far are returned.
    RAISES ClusterError: If the objective is lost, after its state was saved.
    RAISES ConfigError: If parameters are not finite at the end, and no earlier ones were the best.
    """
    if patience is None:
        patience = ONLINE_PATIENCE if optimizer.online else 0
    run = begun or RunState(optimizer.start(theta), [], None, -np.inf, 0)
    room, started = np.empty_like(theta), perf_counter() - (run.history[-1].seconds if run.history else 0.0)

    try:
        while not (reason := _reason_to_stop(run, patience)):
            report, iteration = optimizer.iterate(objective, run.optimizer), len(run.history) + 1
            value, best, active = None, False, None
            due = iteration % max(1, evaluate_every) == 0 or report.converged
            if due and np.isfinite(report.value):
                weights = _exported(optimizer, run.optimizer, room)
                active = int(np.count_nonzero(weights != 0))  # twice as fast as without the comparison
                if evaluate is not None:
                    value = evaluate(weights)
                    best = value > run.best_score
                    if best:
                        run = run._replace(best=weights.copy(), best_score=value, without_gain=0)
                    else:
                        run = run._replace(without_gain=run.without_gain + 1)
            run.history.append(Progress(iteration, perf_counter() - started, report, value, best, active))
            if callback is not None:
                callback(run.history[-1])
            if saver is not None:
                saver.save(run)
    except KeyboardInterrupt:
        reason = "interrupted"
    except ClusterError:
        if saver is not None:
            saver.save(run, now=True)
        raise
    last = _exported(optimizer, run.optimizer, room)
    if run.best is None and not np.isfinite(last).all():
        raise ConfigError(f"Training has no result: {reason}. No weights are kept.")
    return FitResult(last if run.best is None else run.best, last, run.history, reason)


def _exported(optimizer: Optimizer, state: Any, room: Floats) -> Floats:
    """Return the parameters for prediction [D], perhaps in `room`; the next step may change them."""
    if isinstance(state, BatchState):  # it holds them; a copy may cost a tenth of a step
        return state.theta
    optimizer.export(state, room)
    return room


def _reason_to_stop(run: RunState, patience: int) -> str:
    if run.history and run.history[-1].report.converged:
        return run.history[-1].report.message
    if run.history and patience and run.without_gain >= patience:
        return f"no better score in {patience} evaluations"
    return ""


# Checkpoints

MAGIC = b"spacy_crfseq checkpoint 2\n"
NO_REPORT = StepReport(0.0, 0.0, 0.0, 0, False, "")
SHARE = 0.05
"""The largest share of the time that checkpoints may take."""
DERIVED = ("blocks", "free", "work", "memory")
"""Fields of states that are not stored, because they follow from the objective or hold nothing."""
DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)
"""What wrong values in a file lead to."""
DTYPES = {np.dtype(name).str: np.dtype(name) for name in ("float32", "float64")}


class Content(NamedTuple):
    """Content of a checkpoint.

    facts (dict): Of the config, and of each component so far; all as text.
    trained (dict): Results of the components that are trained, by name.
    run (RunState | None): That of the component in training.
    """

    facts: dict[str, dict[str, str]]
    trained: dict[str, FitResult]
    component: str = ""
    run: RunState | None = None


class Checkpoint:
    """The checkpoint of a run, a file that is written every now and then.

    every (float): Seconds between two checkpoints, at least.
    """

    def __init__(self, path: Path, every: float = 30.0) -> None:
        self.path, self.content, self.n_iterations = path, Content({}, {}), 0
        self._loaded: dict[str, Any] = {}  # what the file has of components that did not begin yet
        self._every, self._cost, self._last = every, 0.0, perf_counter()

    @classmethod
    def load(cls, path: Path, every: float = 30.0) -> Checkpoint:
        """Return the checkpoint in a file.

        RAISES ConfigError: If there is none.
        RAISES ModelFileError: If it cannot be read.
        """
        checkpoint = cls(path, every)
        try:
            loaded = _unpack(path.read_bytes())
            facts = {
                str(name): {str(key): str(facts_of[key]) for key in facts_of}
                for name, facts_of in loaded["facts"].items()
            }
            checkpoint.content = Content(facts, {}, str(loaded["component"]))
            results = [*loaded["trained"].values(), *filter(None, [loaded["run"]])]
            checkpoint.n_iterations = sum(len(facts_of["history"]) for facts_of in results)
        except FileNotFoundError:
            raise ConfigError(
                f"There is no checkpoint {path} to resume from: a run writes the first one after {every:.0f} seconds "
                "of training, and removes it at its end. Leave --resume out."
            ) from None
        except DAMAGED as error:
            raise checkpoint._unreadable(error) from error
        checkpoint._loaded = loaded
        return checkpoint

    def _unreadable(self, error: Exception) -> ModelFileError:
        return ModelFileError(f"{self.path}: this checkpoint cannot be read ({error}). Train again with --force.")

    def check(self, name: str, facts: Mapping[str, str]) -> None:
        """Note facts about the config or a component.  RAISES ConfigError: If the run began with others."""
        old = self.content.facts.setdefault(name, dict(facts))
        for key in sorted({*old, *facts}):
            was, now = old.get(key, "missing"), facts.get(key, "missing")
            if was != now:
                raise ConfigError(
                    f"{self.path} is of another run: {name}: {key} was {was[:200]}, and is {now[:200]}. Give the same "
                    "config and corpus, or train again with --force instead of --resume."
                )

    def begin(
        self,
        component: str,
        facts: Mapping[str, str],
        theta: Floats,
        start: Callable[[], Any],
        blocks: Sequence[RowBlock],
    ) -> tuple[FitResult | None, RunState | None]:
        """Return the result of a component, or the state of its run, if the checkpoint has them.

        theta (Floats): [D] parameters of the type that the run has.
        start (Callable): Returns the state with which the optimizer starts.
        blocks (list[RowBlock]): Those of the objective.
        RAISES ConfigError: As `check`.
        RAISES ModelFileError: If the file has something else than a state of this optimizer.
        """
        self.check(component, facts)
        if self.content.component != component:
            self.content = self.content._replace(component=component, run=None)
        loaded, own = self._loaded, component == self._loaded.get("component")
        history = [Progress(0, 0.0, NO_REPORT, None, False, None)]
        read = _Reader(loaded.get("arrays", []), theta, blocks)
        result, run = None, None
        try:
            if (stored := loaded.get("trained", {}).get(component)) is not None:
                result = read(stored, FitResult(theta, theta, history, ""))
            if own and loaded["run"] is not None:
                run = read(loaded["run"], RunState(start(), history, None, 0.0, 0))
        except DAMAGED as error:
            raise self._unreadable(error) from error
        if result is not None:
            self.content.trained[component] = result
        self.content = self.content._replace(run=run)
        return result, run

    def end(self, component: str, result: FitResult) -> None:
        """Note the result of a component."""
        self.content.trained[component] = result
        if self.content.component == component:
            self.content = self.content._replace(run=None)

    def save(self, run: RunState, *, now: bool = False) -> None:
        """Write the state of the component in training if it is time to, or `now`."""
        started = perf_counter()
        if not now and started - self._last < max(self._every, self._cost / SHARE):
            return
        self.content = self.content._replace(run=run)
        arrays: dict[int, NDArray[Any]] = {}
        try:
            stored = _plain(self.content, arrays)
        except TypeError as error:  # of an optimizer from elsewhere
            logging.getLogger("spacy_crfseq").warning("This run has no checkpoints: %s", error)
            self._last = float("inf")
            return
        parts = [np.ascontiguousarray(array) for array in arrays.values()]
        stored["arrays"] = [[part.dtype.str, part.shape] for part in parts]
        header = json.dumps(stored).encode()
        digest = blake2b(header, digest_size=16)
        for part in parts:
            digest.update(part.data.cast("B") if part.size else b"")
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            file.write(MAGIC + digest.digest() + len(header).to_bytes(8, "little") + header)
            for part in parts:
                part.tofile(file)
            file.flush()
            os.fsync(file.fileno())
        self._last = perf_counter()
        self._cost = self._last - started


def _plain(value: Any, arrays: dict[int, NDArray[Any]]) -> Any:
    """Return a value in terms of JSON, its arrays as numbers of `arrays`, to which they are added once each.

    RAISES TypeError: If it is neither a number, text, array or generator nor a list or record of these.
    """
    if isinstance(value, np.ndarray):
        arrays.setdefault(id(value), value)
        return {"array": list(arrays).index(id(value))}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, dict):
        return {name: _plain(item, arrays) for name, item in value.items()}
    if names := _names(value):
        return {name: _plain(getattr(value, name), arrays) for name in names}
    if isinstance(value, list | tuple):
        return [_plain(item, arrays) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")


def _names(record: Any) -> list[str]:
    """Return the stored fields of a named tuple or dataclass; none for anything else."""
    names = [field.name for field in fields(record)] if is_dataclass(record) else getattr(record, "_fields", ())
    return [name for name in names if name not in DERIVED]


def _unpack(data: bytes) -> dict[str, Any]:
    """Return the header of a checkpoint with its arrays.  RAISES ValueError: If its parts do not fit together."""
    if not data.startswith(MAGIC):
        raise ValueError("it is none of this release")
    begin = len(MAGIC) + 24
    end = begin + int.from_bytes(data[begin - 8 : begin], "little")
    if blake2b(memoryview(data)[begin:], digest_size=16).digest() != data[len(MAGIC) : begin - 8]:
        raise ValueError("it was cut short or changed")
    loaded: dict[str, Any] = json.loads(data[begin:end])
    arrays = []
    for name, shape in loaded["arrays"]:
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if min(shape, default=0) < 0 or count * DTYPES[name].itemsize > len(data) - end:
            raise ValueError(f"an array of the shape {shape} is longer than the file")
        arrays.append(np.frombuffer(data, DTYPES[name], count, end).reshape(shape).copy())
        end += arrays[-1].nbytes
    return {**loaded, "arrays": arrays}


class _Reader:
    """Turns the values of a checkpoint into records like those with which a run starts.

    theta, blocks: See `Checkpoint.begin`.
    """

    def __init__(self, arrays: list[NDArray[Any]], theta: Floats, blocks: Sequence[RowBlock]) -> None:
        self._arrays, self._blocks, self._theta = arrays, blocks, theta
        rows = sum(block.n_rows for block in blocks)
        self._lengths, self._varying = {1: {0, len(theta)}, 2: {0, rows}}, frozenset[str]()
        # what may be in the place of None, by the beginning of its annotation
        point = Point(theta, 0.0, 0.0, theta)
        self._optional = {"Floats": theta, "Point": point, "StepReport": NO_REPORT, "float": 0.0, "int": 0}

    def __call__(self, value: Any, like: Any, name: str = "") -> Any:
        """Return a value of the kind of `like`.  RAISES ValueError, TypeError, KeyError: If it is of another kind."""
        if isinstance(like, np.ndarray):
            return self._array(self._arrays[value["array"]], like, name)
        if isinstance(like, np.random.Generator):
            like.bit_generator.state = value
            return like
        if _names(like):
            return self._record(value, like)
        if isinstance(like, list):
            first = like[0] if like else 0.0
            each = value if isinstance(first, Progress) or not like else zip(value, like, strict=True)
            return [self(*item) if isinstance(item, tuple) else self(item, first) for item in each]
        if isinstance(like, tuple):
            return like
        if type(value) is not type(like) and not (isinstance(like, float) and type(value) is int):
            raise TypeError(f"{name} is {value!r}")
        return value

    def _array(self, array: NDArray[Any], like: NDArray[Any], name: str) -> NDArray[Any]:
        lengths = {len(like)} if like.size else self._lengths[like.ndim]
        fits = array.dtype == like.dtype and array.shape[1:] == like.shape[1:]
        if not fits or not (len(array) in lengths or name in self._varying):
            raise ValueError(f"{name} is an array of {array.dtype}, {array.shape}")
        return array

    def _record(self, value: Any, like: Any) -> Any:
        names = _names(like)
        if value.keys() != set(names):
            raise ValueError(f"it has {', '.join(value)}, not {', '.join(names)}")
        kinds = {field.name: field.type for field in fields(like)} if is_dataclass(like) else type(like).__annotations__
        self._varying = getattr(like, "varying", self._varying)
        restored_fields = {}
        for name in names:
            old = getattr(like, name)
            if old is None and value[name] is not None:
                kind = getattr(kinds[name], "__forward_arg__", kinds[name])
                old = self._optional[kind.split()[0]]
            restored_fields[name] = None if old is None else self(value[name], old, name)
        if not is_dataclass(like):
            return like._replace(**restored_fields)
        if hasattr(like, "blocks"):
            restored_fields["blocks"] = self._blocks
        restored = replace(like, **restored_fields)  # type: ignore[type-var]
        return restored
