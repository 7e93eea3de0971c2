"""The study of Optuna behind a sweep: what to train next, a journal of what was trained, and which settings matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from ...corpora.outputs import cut_line, whole_lines
from ...errors import ConfigError
from .grid import Choices, Combination, Range, is_number
from .results import CombinationResult, Repetition, varying

JOURNAL = "study.log"
SAMPLERS = {"grid": "", "random": "RandomSampler", "tpe": "TPESampler", "gp": "GPSampler"}
"""Ways to choose the next combination, and Optuna's classes for them; a grid needs none."""
IMPORTANCE = (
    "Importance: the share of the variance of the dev score that a setting explains, by a functional analysis of "
    "variance (Hutter, Hoos & Leyton-Brown 2014)."
)


def load_optuna() -> Any:
    """Return Optuna, silent; None if it is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(path: Path, grid: str, facts: Mapping[str, str], sampler: str, seed: int) -> Any:
    """Return the study of a grid in a journal, new or to be continued; None for a grid where there is no Optuna.

    grid (str): What tells this grid from others, which have studies of their own in the journal.
    facts (Mapping): What all results in the journal depend on.
    sampler (str): One of `SAMPLERS`.
    RAISES ConfigError: If the sampler needs something that is not installed, or the journal has other facts.
    """
    optuna = load_optuna()
    if optuna is None:
        if sampler == "grid" and not path.exists():
            return None
        reason = f"--sampler {sampler} needs" if sampler != "grid" else f"{path} was written with"
        raise ConfigError(f"{reason} Optuna. Install it: pip install 'spacy-crfseq[sweep]'")
    if path.exists():
        whole_lines(path, b'{"op_code":')
        cut_line(path)  # what a kill in the middle of a line has left
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    for other in optuna.get_all_study_summaries(storage):
        for name in (name for name, fact in other.user_attrs.items() if fact != facts[name]):
            raise ConfigError(
                f"{path} is of another sweep: its {name} was another. Give another --output, or --force to begin anew."
            )
    study = optuna.create_study(study_name=grid, storage=storage, direction="maximize", load_if_exists=True)
    for name, fact in facts.items():
        study.set_user_attr(name, fact)
    if sampler == "grid":
        return study
    if sampler == "gp" and find_spec("torch") is None:
        raise ConfigError("--sampler gp needs PyTorch. Install it: pip install torch scipy")
    # with another seed when it goes on, or the sampler would repeat its first choices
    chosen = getattr(optuna.samplers, SAMPLERS[sampler])(seed=seed + len(study.trials))
    return optuna.load_study(study_name=grid, storage=storage, sampler=chosen)


def stored_results(path: Path, study: Any, *, everywhere: bool) -> list[CombinationResult]:
    """Return the results of the finished trials of a study, or of all studies in its journal."""
    if study is None:
        return []
    optuna = load_optuna()
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    names = optuna.get_all_study_names(storage) if everywhere else [study.study_name]
    trials = (trial for name in names for trial in optuna.load_study(study_name=name, storage=storage).trials)
    facts = [trial.user_attrs for trial in trials if trial.value is not None]
    return [CombinationResult(of["settings"], [Repetition(**fields) for fields in of["repetitions"]]) for of in facts]


def queue(study: Any, combination: Combination) -> Any:
    """Return a trial for a combination of a grid."""
    study.enqueue_trial(combination.picked)
    return study.ask()


def tell(study: Any, trial: Any, result: CombinationResult | None) -> None:
    """Tell a study the result of a trial, None or an error if it failed."""
    if result is None or not result.repetitions:
        study.tell(trial, state=load_optuna().trial.TrialState.FAIL)
        return
    trial.set_user_attr("settings", result.settings)
    trial.set_user_attr("repetitions", [repetition._asdict() for repetition in result.repetitions])
    study.tell(trial, result.score)


def suggest(trial: Any, key: str, values: Choices) -> Any:
    """Return the value of a trial for a setting: the number of a value of a list, or a value of a range."""
    if isinstance(values, Range):
        whole = type(values.low) is type(values.high) is int
        return (trial.suggest_int if whole else trial.suggest_float)(key, values.low, values.high, log=values.log)
    if all(map(is_number, values)) and list(values) == sorted(values):
        return int(trial.suggest_int(key, 0, len(values) - 1))
    return int(trial.suggest_categorical(key, range(len(values))))


def importance_rows(results: Sequence[CombinationResult]) -> tuple[list[str], list[list[str]]]:
    """Return how much each varying setting matters, the one that matters most first.

    Where a combination has no such setting, that counts as a value of its own.  There are no rows if all scores are
    equal, or Optuna is not installed.
    """
    optuna, scored = load_optuna(), [result for result in results if result.repetitions]
    header = ["Setting", "Importance", "Best value", "Mean score", "Worst value", "Mean score"]
    keys = list(varying([result.settings for result in scored]))
    if optuna is None or not keys or len({result.score for result in scored}) < 2:
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
        scores = {value: [result.score for result in scored if result.shown(key) == value] for value in choices[key]}
        means = sorted((100 * fmean(of_value), value) for value, of_value in scores.items())
        (low, worst), (high, best) = means[0], means[-1]
        rows.append([key, f"{100 * share:.0f} %", best, f"{high:.2f}", worst, f"{low:.2f}"])
    return header, rows
