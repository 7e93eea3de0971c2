"""Checkpoints: files from which a training run continues after its process was killed.

A run reads and encodes its corpus again, which gives the same features and numbers.  A checkpoint therefore has no
features: only the state of the run, and facts by which another corpus or config is refused.  The file is one msgpack
map, whose last entry is a digest of all bytes before it.  It names no types, see `optimizers.states`, and reading it
runs no code.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import srsly
from srsly.msgpack import Packer

from ..errors import DAMAGED, ConfigError, ModelFileError
from ..files import collecting, replacing
from ..optimizers.states import plain, restored
from ..types import NO_REPORT, Floats, Resumable, RowBlock
from .fit import FitResult, Progress, RunState

if TYPE_CHECKING:
    from ..model import LinearChainCRF
    from .objective import Objective

FORMAT = "spacy_crfseq checkpoint 3"
SHARE = 0.05
"""The largest share of the time that checkpoints may take."""
DIGEST = 16
"""Bytes of the digest, the end of the file."""
PROGRESS = tuple(
    Progress(0, 0.0, NO_REPORT, score, False, active) for score, active in ((None, None), (None, 0), (0.0, 0))
)
"""Examples of iterations: without an evaluation, and evaluated without and with a dev corpus."""


class Content(NamedTuple):
    """The content of a checkpoint.

    facts (dict): Of the config, and of each component so far; all as text.
    trained (dict): Results of the components that are trained, by name.
    component (str): The name of the component in training.
    """

    facts: dict[str, dict[str, str]]
    trained: dict[str, FitResult]
    component: str = ""


class Checkpoint:
    """The checkpoint of a run, a file that is written every now and then.

    every (float): Seconds between two checkpoints, at least.
    """

    def __init__(self, path: Path, every: float = 30.0) -> None:
        self.path, self.content, self.n_iterations = path, Content({}, {}), 0
        self._loaded: dict[str, Any] = {"trained": {}, "component": "", "run": None}
        self._every, self._cost, self._last = every, 0.0, perf_counter()

    @classmethod
    def load(cls, path: Path, every: float = 30.0) -> Checkpoint:
        """Return the checkpoint in a file.

        RAISES ConfigError: If there is none.
        RAISES ModelFileError: If it cannot be read.
        """
        checkpoint = cls(path, every)
        try:
            checkpoint._take(_unpack(path.read_bytes()))
        except FileNotFoundError:
            raise ConfigError(
                f"There is no checkpoint {path} to resume from: a run writes the first one after {every:.0f} seconds "
                "of training, and removes it at its end. Leave --resume out."
            ) from None
        except DAMAGED as error:
            raise checkpoint._unreadable(error) from error
        return checkpoint

    def _take(self, loaded: dict[str, Any]) -> None:
        """Take the content of a file; results and the run stay as they are stored until their component begins."""
        facts = {str(name): {str(key): str(of[key]) for key in of} for name, of in loaded["facts"].items()}
        self.content = Content(facts, {}, str(loaded["component"]))
        histories = [stored["history"] for stored in (*loaded["trained"].values(), loaded["run"]) if stored]
        self.n_iterations = sum(map(len, histories))
        self._loaded = loaded

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
        self.content = self.content._replace(component=component)
        result, run, loaded = None, None, self._loaded
        try:
            if (stored := loaded["trained"].pop(component, None)) is not None:
                result = _result(stored, theta)
            if component == loaded["component"] and (stored := loaded.pop("run", None)) is not None:
                run = _run(stored, theta, start(), blocks)
        except DAMAGED as error:
            raise self._unreadable(error) from error
        if result is not None:
            self.content.trained[component] = result
        return result, run

    def end(self, component: str, result: FitResult) -> None:
        """Note the result of a component."""
        self.content.trained[component] = result

    def save(self, run: RunState, *, now: bool = False) -> None:
        """Write the state of the component in training if it is time to, or `now`."""
        started = perf_counter()
        if not now and started - self._last < max(self._every, self._cost / SHARE):
            return
        if not isinstance(run.optimizer, Resumable):
            kind = type(run.optimizer).__name__
            logging.getLogger("spacy_crfseq").warning("This run has no checkpoints: %s has no to_state", kind)
            self._last = float("inf")
            return
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            digest = blake2b(digest_size=DIGEST)

            def write(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            _write(_stored(self.content, run), write)
            write(srsly.msgpack_dumps(bytes(DIGEST))[:-DIGEST])
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        self._last = perf_counter()
        self._cost = self._last - started


def facts_of(crf: LinearChainCRF, objective: Objective) -> dict[str, str]:
    """Return the facts that must be the same where a run continues from a checkpoint."""
    gold, keys = blake2b(digest_size=16), blake2b(digest_size=16)
    for term in objective.terms:
        gold.update(term.data.gold.data)
    for block in crf.keys:
        keys.update(block.data)
    return {
        "the number of sequences": f"{objective.n_total:,}",
        "labels": ", ".join(crf.labels),
        "the number of parameters": f"{crf.theta.size:,} ({crf.theta.dtype})",
        "the hash of features": keys.hexdigest(),
        "the hash of gold labels": gold.hexdigest(),
    }


def _stored(content: Content, run: RunState) -> dict[str, Any]:
    """Return a content in terms of msgpack and NumPy arrays; the last of its entries, the digest, is still missing."""
    return {
        "format": FORMAT,
        "facts": content.facts,
        "trained": {
            name: {
                "best": None if result.best is result.last else result.best,
                "last": result.last,
                "history": plain(result.history),
                "reason": result.reason,
            }
            for name, result in content.trained.items()
        },
        "component": content.component,
        "run": {
            "optimizer": run.optimizer.to_state(),
            "history": plain(run.history),
            "best": run.best,
            "best_score": float(run.best_score),
            "without_gain": run.without_gain,
        },
        "digest": None,
    }


def _write(stored: dict[str, Any], write: Callable[[bytes], None]) -> None:
    """Write a map as msgpack, without the value of the last key; one array at a time, so that memory stays flat."""
    packer = Packer(use_bin_type=True)

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            write(packer.pack_map_header(len(value)))
            for key, item in value.items():
                write(packer.pack(key))
                walk(item)
        elif isinstance(value, list):
            write(packer.pack_array_header(len(value)))
            for item in value:
                walk(item)
        else:
            write(packer.pack(value))

    *entries, (last, _) = stored.items()
    write(packer.pack_map_header(len(stored)))
    for key, item in entries:
        write(packer.pack(key))
        walk(item)
    write(packer.pack(last))


def _unpack(data: bytes) -> dict[str, Any]:
    """Return the map in a file.  RAISES ValueError: If it is no checkpoint of this release, or damaged."""
    with collecting():
        if blake2b(memoryview(data)[:-DIGEST], digest_size=DIGEST).digest() != data[-DIGEST:]:
            raise ValueError("it was cut short or changed, or is of another release")
        loaded = srsly.msgpack_loads(data)
    if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
        raise ValueError("it is none of this release")
    return loaded


def _result(stored: dict[str, Any], theta: Floats) -> FitResult:
    """Return a stored result for parameters like theta [D].  RAISES ValueError, KeyError: If it is none."""
    last = restored(stored["last"], (theta,), "last", ())
    best = last if stored["best"] is None else restored(stored["best"], (theta,), "best", ())
    return FitResult(best, last, _history(stored), restored(stored["reason"], ("",), "reason", ()))


def _run(stored: dict[str, Any], theta: Floats, optimizer: Any, blocks: Sequence[RowBlock]) -> RunState:
    """Return a stored run for parameters like theta [D] and an optimizer's state; errors as in `_result`."""
    optimizer.from_state(stored["optimizer"], blocks)
    best = restored(stored["best"], (None, theta), "best", ())
    best_score = restored(stored["best_score"], (0.0,), "best_score", ())
    return RunState(optimizer, _history(stored), best, best_score, restored(stored["without_gain"], (0,), "gain", ()))


def _history(stored: dict[str, Any]) -> list[Progress]:
    return [restored(progress, PROGRESS, "history", ()) for progress in stored["history"]]
