"""The grid of a sweep and its results: the file, the combinations that it describes, tables and a page.

A setting is written as in the overrides of ``fit``; one that is in no section of the config is one of the component.
A block such as a loss may be named by its function, a short name being that of this package's function.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from spacy.util import registry

from ...corpora.outputs import cut_line, whole_lines
from ...errors import ConfigError, FormatError, suggest

Place: TypeAlias = tuple[str, ...]
_EXAMPLE = "Write, for example, regularizer.rho = [0.1, 1, 10] under [sweep.grid]."


class GridFile(NamedTuple):
    """The file of a sweep: a training config, the component to train, and the values of each setting.

    config (Config): Its variables are not filled in.
    component: None for the only one.
    """

    file: Path
    config: Any
    component: str | None
    grid: dict[str, list[Any]]


class Combination(NamedTuple):
    """One combination of the values of a grid.

    settings: Values as the file has them, without those that its functions do not take.
    changes: The same by their places in the config, blocks written out, outer ones first.
    """

    settings: dict[str, Any]
    changes: dict[Place, Any]

    def __str__(self) -> str:
        return " ".join(f"{key}={show(value)}" for key, value in self.settings.items()) or "the config as it is"


def show(value: Any) -> str:
    """Return a value of a setting for people: a function by its short name and settings."""
    at = _registry_of(value)
    if at is None:
        return value if isinstance(value, str) else json.dumps(value)
    rest = ", ".join(f"{key}={show(part)}" for key, part in value.items() if key != at)
    return _short(value[at]) + (f"({rest})" if rest else "")


def read_grid(file: Path, overrides: dict[str, Any], load: Callable[[Path, dict[str, Any]], Any]) -> GridFile:
    """Read the file of a sweep; `overrides` go to its training config.

    load (Callable): Reads a config with some overrides.
    RAISES ConfigError: If it is no such file.
    """
    text = load(file, {})
    if not isinstance(sweep := text.pop("sweep", None), dict):
        raise ConfigError(f"{file}: there is no section [sweep]. {_EXAMPLE}")
    source, component, grid = (sweep.get(key) for key in ("config", "component", "grid"))
    for key in sweep.keys() - {"config", "component", "grid"}:
        hint = suggest(key, ("config", "component", "grid"))
        raise ConfigError(f"{file}: [sweep] has no setting {key!r}. {hint} List what to vary under [sweep.grid].")
    if not isinstance(grid, dict) or not grid:
        raise ConfigError(f"{file}: there is no setting under [sweep.grid]. {_EXAMPLE}")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            example = json.dumps([values] if values != [] else [1, 2])
            said = f"must be a list of values, but {values!r} was given. Write {key} = {example}."
            raise ConfigError(f"{file}: [sweep.grid] {key} {said}")
    if source is not None and text:
        raise ConfigError(
            f"{file}: [sweep] config = {source!r} names the training config, but the file has sections of one: "
            f"{', '.join(text)}. Take them out, or the setting `config`."
        )
    config = load(file if source is None else file.parent / str(source), overrides)
    config.pop("sweep", None)
    return GridFile(file, config, component, grid)


def changed(config: Any, changes: Mapping[Place, Any], filled: Mapping[str, Any]) -> Any:
    """Return a config with some settings changed; what it leaves to defaults is taken from `filled` where needed."""
    result = config.copy()
    for place, value in changes.items():
        block: Any = result
        for depth, key in enumerate(place[:-1], start=1):
            if not isinstance(block.get(key), dict):
                block[key] = deepcopy(_get(filled, place[:depth]))
            block = block[key]
        block[place[-1]] = deepcopy(value)
    return result


def varying(settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the settings that are not the same in all combinations."""
    for key in dict.fromkeys(key for combination in settings for key in combination):
        if len({json.dumps(combination.get(key), sort_keys=True) for combination in settings}) > 1:
            yield key


class Space:
    """The settings of a grid: their places in the config, and their values, functions written out as blocks.

    filled (Mapping): The training config with all defaults.
    RAISES ConfigError: If a setting or a function does not exist, or a setting is there twice.
    """

    def __init__(self, source: GridFile, filled: Mapping[str, Any], component: str) -> None:
        self._file, self._grid, self._filled = source.file, source.grid, filled
        self._functions = lru_cache(lambda name: getattr(registry, name).get_all())
        names: dict[Place, str] = {}
        for key in source.grid:
            place = tuple(key.split("."))
            place = place if place[0] in filled else ("components", component, *place)
            if place in names:
                raise ConfigError(
                    f"{source.file}: [sweep.grid] {names[place]} and {key} are the same setting. Take one out."
                )
            names[place] = key
        self._places = {key: place for place, key in sorted(names.items(), key=lambda item: len(item[0]))}
        self._values = dict(source.grid)
        for key, place in self._places.items():
            if (at := _registry_of(now := _get(filled, place))) is not None:
                self._values[key] = [self._block(key, value, now, at) for value in source.grid[key]]
        for key, place in self._places.items():
            self._check_setting(key, place[:-1], place[-1])

    def choose(self, pick: Callable[[str, list[Any]], int]) -> Combination:
        """Return a combination of values that `pick` chooses, by the name of a setting and its values as given.

        A setting of a function is left out where the combination has another function that does not take it.
        """
        changes: dict[Place, Any] = {}
        settings: dict[str, Any] = {}
        for key, place in self._places.items():  # a block before its settings
            parent = place[:-1]
            if self._takes(changes.get(parent, _get(self._filled, parent)), place[-1]):
                number = pick(key, self._grid[key])
                changes[place], settings[key] = self._values[key][number], self._grid[key][number]
        return Combination({key: settings[key] for key in self._grid if key in settings}, changes)

    def all(self) -> list[Combination]:
        """Return all combinations, each once."""
        combinations: dict[str, Combination] = {}
        for numbers in product(*(range(len(self._values[key])) for key in self._places)):
            chosen = dict(zip(self._places, numbers, strict=True))
            combination = self.choose(lambda key, _: chosen[key])  # noqa: B023
            combinations.setdefault(json.dumps(list(combination.changes.items()), sort_keys=True), combination)
        return list(combinations.values())

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self._file}: [sweep.grid] {text}")

    def _block(self, key: str, value: Any, now: Mapping[str, Any], at: str) -> dict[str, Any]:
        # of a block given by its name; the function that the config has keeps its settings there
        block = {at: value} if isinstance(value, str) else value
        if not isinstance(block, dict) or not isinstance(block.get(at), str):
            raise self._error(
                f'{key} must list names of functions or blocks {{"{at}": NAME, ...}}, but {value!r} was given.'
            )
        registered, wanted = self._functions(at[1:]), block[at]
        full_names = {_short(name): name for name in registered}
        candidates = (wanted, f"spacy_crfseq.{wanted}.v1", f"spacy_crfseq.{wanted}", full_names.get(wanted))
        name = next((name for name in candidates if name in registered), None)
        if name is None:
            raise self._error(f"{key}: there is no function {wanted!r}. {suggest(wanted, {*map(_short, registered)})}")
        block = dict(now) if isinstance(value, str) and name == now[at] else {**block, at: name}
        for setting in block:
            if setting != at and not self._takes(block, setting):
                hint = suggest(setting, self._parameters(block) or [])
                raise self._error(f"{key}: {wanted} has no setting {setting!r}. {hint}")
        return block

    def _check_setting(self, key: str, parent: Place, name: str) -> None:
        # in the config or a function that the grid puts there
        outer = next((other for other, place in self._places.items() if place == parent), None)
        blocks = self._values[outer] if outer else [_get(self._filled, parent)]
        sections = [block for block in blocks if isinstance(block, dict)]
        if any(self._takes(block, name) for block in sections):
            return
        settings = {setting for block in sections for setting in self._parameters(block) or block}
        where = ".".join(parent)
        if settings:
            raise self._error(f"{key}: [{where}] has no setting {name!r}. {suggest(name, settings)}")
        raise self._error(
            f"{key}: there is no section [{where}]. Settings are those of the component "
            f"({parent[1] if len(parent) > 1 else name}), or begin with one of: {', '.join(self._filled)}."
        )

    def _takes(self, block: Any, name: str) -> bool:
        parameters = self._parameters(block)
        if parameters is None:  # an empty section, such as attributes, has room for any block
            return block == {} or name in (block or ())
        return name in parameters

    def _parameters(self, block: Any) -> list[str] | None:
        # what the function of a block takes; None where the block names none, or one that takes anything
        at = _registry_of(block)
        if at is None:
            return None
        parameters = inspect.signature(self._functions(at[1:])[block[at]]).parameters
        variable = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if variable else list(parameters)


def is_number(value: Any) -> bool:
    """Whether a value of a setting is a number."""
    return type(value) in (int, float)


def _registry_of(value: Any) -> str | None:
    # the key of a block that names its function, such as "@crf_losses"; None if it is no such block
    ats = [key for key in value if isinstance(key, str) and key.startswith("@")] if isinstance(value, dict) else []
    return ats[0] if len(ats) == 1 else None


def _get(config: Mapping[str, Any], place: Place) -> Any:
    value: Any = config
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _short(name: str) -> str:
    # without package and version
    parts = name.split(".")
    return parts[-2] if len(parts) > 1 and parts[-1][:1] == "v" else name


IMPORTANCE = (
    "Importance: the share of the variance of the dev score that a setting explains, by a functional analysis of "
    "variance (Hutter, Hoos & Leyton-Brown 2014)."
)


class Result(NamedTuple):
    """The result of one combination.

    key, settings: A hash of everything that the result depends on; the combination, as in the grid.
    error: The reason for a missing score.
    score: The best dev score; the other figures are those of its parameters.
    objective, loss: Values on the training set, summed over its sequences.
    active, weights, n_bytes: Number of non-zero weights, and of all; the size of the model's file without zeros.
    iterations, seconds, reason: Figures of the whole run, including scores; why it ended.
    """

    key: str
    settings: dict[str, Any]
    error: str | None = None
    score: float | None = None
    objective: float | None = None
    loss: float | None = None
    active: int = 0
    weights: int = 0
    n_bytes: int = 0
    iterations: int = 0
    seconds: float = 0.0
    reason: str = ""

    def shown(self, key: str) -> str:
        """Return the value of a setting for people, "-" if the combination has no such setting."""
        return show(self.settings[key]) if key in self.settings else "-"


def read_results(file: Path) -> dict[str, Result]:
    """Return all results of a file by key; a line that a crash cut short is dropped from it.

    RAISES FormatError: If the file has other contents.
    """
    results: dict[str, Result] = {}
    if file.exists():
        for number, line in enumerate(whole_lines(file, b'{"key": '), start=1):
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError) as error:
                message = f"this is no result of a sweep ({error}). Give another --output, or move the file away."
                raise FormatError(file, number, message) from error
            results[result.key] = result
        cut_line(file)
    return results


def add_result(file: Path, result: Result) -> None:
    """Append a result to a file, a JSON object in a line, and flush it to disk."""
    with file.open("a", encoding="utf8") as lines:
        lines.write(json.dumps(result._asdict(), allow_nan=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def result_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of results: its header and its rows."""
    keys = list(varying([result.settings for result in results]))
    rows = []
    for number, result in enumerate(results, start=1):
        settings = [result.shown(key) for key in keys]
        if result.score is None:
            rows.append(["-", "failed", *settings, *["-"] * 5])
            continue
        objective = "-" if result.objective is None else f"{result.objective:,.1f}"
        figures = [objective, f"{result.active:,}", str(result.iterations)]
        size = f"{result.n_bytes / 1e3:,.0f}"
        rows.append([str(number), f"{100 * result.score:.2f}", *settings, *figures, f"{result.seconds:.2f}", size])
    return ["#", "Dev score", *keys, "Objective", "Active", "Iterations", "Seconds", "KB"], rows


def load_optuna() -> Any:
    """Return Optuna, silent.  RAISES ConfigError: If it is not installed."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("sweep needs Optuna. Install it: pip install 'spacy-crfseq[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def importance_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return how much each varying setting matters, the one that matters most first; no rows if all scores are equal.

    Where a combination has no such setting, that counts as a value of its own.
    """
    optuna, scored = load_optuna(), [result for result in results if result.score is not None]
    header = ["Setting", "Importance", "Best value", "Mean score", "Worst value", "Mean score"]
    keys = list(varying([result.settings for result in scored]))
    if not keys or len({result.score for result in scored}) < 2:
        return header, []
    choices = {key: sorted({result.shown(key) for result in scored}) for key in keys}
    spaces = {key: optuna.distributions.CategoricalDistribution(choices[key]) for key in keys}
    study = optuna.create_study(direction="maximize")
    for result in scored:
        values = {key: result.shown(key) for key in keys}
        study.add_trial(optuna.create_trial(params=values, distributions=spaces, value=result.score))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    rows = []
    for key, share in optuna.importance.get_param_importances(study, evaluator=evaluator).items():
        scores = {
            value: [result.score or 0.0 for result in scored if result.shown(key) == value] for value in choices[key]
        }
        means = sorted((100 * sum(of_value) / len(of_value), value) for value, of_value in scores.items())
        (low, worst), (high, best) = means[0], means[-1]
        rows.append([key, f"{100 * share:.0f} %", best, f"{high:.2f}", worst, f"{low:.2f}"])
    return header, rows


def make_page(sweep: Any) -> str:
    """Return the page of a sweep: results, what matters, and the scores by the time of training."""
    from .._pages.html import render

    ranked, skipped = sweep.ranked, sweep.skipped.items()
    scored = [result for result in ranked if result.score is not None]
    return render(
        "tools/sweep/page.html", sweep=sweep, results=result_rows(ranked), importance=importance_rows(ranked),
        meaning=IMPORTANCE,
        keys=[
            key
            for key in varying([result.settings for result in scored])
            if not all(is_number(result.settings.get(key, 0)) for result in scored)
        ],
        failed=[(str(Combination(one.settings, {})), one.error or "") for one in ranked if one.score is None],
        skipped=[(str(combination), reason) for reason, several in skipped for combination in several],
    )  # fmt: skip
