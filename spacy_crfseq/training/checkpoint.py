"""Checkpoints of long runs: a file from which training continues after the process was killed.

A run reads and encodes its corpus again, which gives the same features and numbers.  A checkpoint therefore has no
features: only the state of the run, and facts by which another corpus or config is refused.  It is a pickle, read by
an unpickler that creates nothing but NumPy arrays and generators, and the states of optimizers.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from ..errors import ConfigError, ModelFileError
from ..files import replacing
from .fit import FitResult, RunState

VERSION = 1
SHARE = 0.05
"""The largest share of the time that checkpoints may take."""
PACKAGE = tuple(f"spacy_crfseq.{part}" for part in ("optimizers.", "training.", "kernels.", "types"))
NUMPY = {
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.random._pickle": {"__generator_ctor", "__bit_generator_ctor"},
    "numpy.random._pcg64": {"PCG64"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
}


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
    version: int = VERSION


class Checkpoint:
    """The checkpoint of a run, a file that is written every now and then.

    every (float): Seconds between two checkpoints, at least.
    """

    def __init__(self, path: Path, content: Content | None = None, every: float = 30.0) -> None:
        self.path, self.content = path, content or Content({}, {})
        self._every, self._cost, self._last = every, 0.0, perf_counter()

    @classmethod
    def load(cls, path: Path, modules: Collection[str] = (), every: float = 30.0) -> Checkpoint:
        """Return the checkpoint in a file.

        modules (Collection[str]): Modules of other packages that may define states, those of the optimizers.
        RAISES ConfigError: If there is none.
        RAISES ModelFileError: If it cannot be read.
        """
        try:
            with path.open("rb") as file:
                content = _Unpickler(file, modules).load()
        except FileNotFoundError:
            raise ConfigError(f"There is no checkpoint {path} to resume from. Leave --resume out.") from None
        except Exception as error:  # pickle raises many kinds on foreign bytes
            raise ModelFileError(
                f"{path}: this checkpoint cannot be read ({error}). Train again with --force."
            ) from error
        if not isinstance(content, Content) or content.version != VERSION:
            raise ModelFileError(f"{path}: this is no checkpoint of this release. Train again with --force.")
        return cls(path, content, every)

    @property
    def n_iterations(self) -> int:
        """Iterations so far, of all components."""
        histories = [result.history for result in self.content.trained.values()]
        return sum(map(len, histories)) + (len(self.content.run.history) if self.content.run else 0)

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

    def begin(self, component: str, facts: Mapping[str, str]) -> tuple[FitResult | None, RunState | None]:
        """Return the result of a component, or the state of its run, if the checkpoint has them.

        RAISES ConfigError: As `check`.
        """
        self.check(component, facts)
        if component not in self.content.trained and self.content.component != component:
            self.content = self.content._replace(component=component, run=None)
        return self.content.trained.get(component), self.content.run

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
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            pickle.dump(self.content, file, protocol=5)
            file.flush()
            os.fsync(file.fileno())
        self._last = perf_counter()
        self._cost = self._last - started


class _Unpickler(pickle.Unpickler):
    """Creates states of optimizers and arrays, nothing else."""

    def __init__(self, file: Any, modules: Collection[str]) -> None:
        super().__init__(file)
        self._modules = modules

    def find_class(self, module: str, name: str) -> Any:
        known = name in NUMPY.get(module, ())
        if known or ((module.startswith(PACKAGE) or module in self._modules) and "." not in name):
            found = super().find_class(module, name)
            if known or isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")
