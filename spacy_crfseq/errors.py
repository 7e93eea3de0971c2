"""Exceptions of the package: their messages say what is wrong, where, and what to do next.

All of them are `ValueError`s, so that code which guards a spaCy pipeline with ``except ValueError`` keeps working.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path


class CrfError(ValueError):
    """Base of all errors raised by this package on a user's mistake."""


class ConfigError(CrfError):
    """A setting, template or combination of plug-ins that cannot work."""


class DataError(CrfError):
    """Training or evaluation data that cannot be used, such as an unknown label or an empty corpus."""


class NoExamplesError(DataError, TypeError):
    """No training examples; a `TypeError`, too, as spaCy's own components raise."""


class FormatError(DataError):
    """A line of an input file that cannot be read; its number counts from 1, and 0 is the whole file.

    ends: Whether nothing that follows in the file can be read, either, as with an error of the whole file.
    """

    def __init__(self, file: Path | str, line: int, message: str, *, ends: bool = False) -> None:
        self.file, self.line, self.what, self.ends = Path(file), line, message, ends or not line
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")

    def __reduce__(self) -> tuple[Callable[..., FormatError], tuple[Path, int, str]]:
        return partial(FormatError, ends=self.ends), (self.file, self.line, self.what)  # worker processes hand it on


class NotFittedError(CrfError, AttributeError):
    """An estimator that has not been fitted, of the types that scikit-learn's own error has."""


class ModelFileError(CrfError):
    """A stored model that is truncated, foreign, of another version, or holds impossible numbers."""


class ClusterError(CrfError):
    """The workers or the scheduler of a cluster are lost; training continues from its checkpoint."""


DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)
"""The exceptions that wrong values in a file lead to."""


def count_of(number: int, noun: str) -> str:
    """Return a number with a noun, such as "1 text" or "2,000 texts"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_of(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts of a list for a message, and "..." if there are more."""
    return [*texts[:most], *(["..."] if len(texts) > most else [])]


def near(name: str, choices: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known name that is nearest to one that may be misspelt, None if none is near.

    least (float): Share of the letters that they must have in common; see `difflib.get_close_matches`.
    Case does not matter for nearness, nor what precedes and follows the name of a function: "lbfgs" is near
    "spacy_crfseq.LBFGS.v1".
    """
    short = {_short(other): other for other in sorted(choices)}
    matches = get_close_matches(_short(name), short, n=1, cutoff=least)
    return short[matches[0]] if matches else None


def suggest(name: str, choices: Iterable[str], others: Iterable[str] = ()) -> str:
    """Return a sentence that lists the known names, after the one that is `near` if there is any.

    others (Iterable[str]): Names that may have been meant, too, and are not listed.
    """
    names = sorted(choices)
    meant = near(name, {*names, *others})
    hint = f"Did you mean {meant!r}? " if meant else ""
    return f"{hint}Known: {', '.join(names) or 'none'}."


def _short(name: str) -> str:
    return re.sub(r"\.v\d+$", "", name).rpartition(".")[2].casefold()
