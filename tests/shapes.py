"""Checks of array arguments, in tests alone: calls of kernels have arrays of the types and shapes that these document.

Types are those of annotations, by the aliases of `types.py`.  Shapes are those of docstrings, which say ``out [T, C]``
of a parameter and ``out (Floats): [T, C]`` of a field of a tuple; N, T, L and D stand for one number within a call,
other letters for one among the parameters or among the fields of a tuple.  So a docstring that is wrong fails tests,
and so does a caller whose arrays numba would compile a kernel for once more, or which a kernel would read beyond their
ends.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from spacy_crfseq import kernels
from spacy_crfseq.kernels import jit
from spacy_crfseq.kernels.sequences import PlainScores
from spacy_crfseq.types import Scores

MANY, SAMPLED = 500, 16
"""Calls of a kernel that are all checked, and the distance of later ones that are."""
SHAPE = r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"
PARAMETER = r"\b{name} " + SHAPE
FIELD = r"^ *(?:\w+, )*{name}\b[\w, ]*(?: \([^)]*\))?: " + SHAPE + r"(?! and)"
LETTER = re.compile(r"\b(?![NTLD]\b)[A-Z]\b")
SIZE = re.compile(r"([A-Za-z_]\w*)(?: \+ (\d+))?")


class DocumentedArray(NamedTuple):
    """An array in the arguments of a kernel: its name, its place in them, the type of its numbers, its dimensions."""

    name: str
    place: tuple[int, ...]
    number: Any
    dimensions: tuple[str, ...] | None


@cache
def documented_arrays(function: Any) -> list[DocumentedArray]:
    """Return the arrays among the parameters of a kernel, and in those that are tuples with names."""
    text = f"{inspect.getdoc(function)}\n{inspect.getdoc(kernels)}"
    hints = [(name, hint) for name, hint in get_type_hints(function).items() if name != "return"]
    return [array for i, (name, hint) in enumerate(hints) for array in _arrays(name, hint, (i,), text, PARAMETER)]


def _arrays(
    name: str, hint: Any, place: tuple[int, ...], text: str, pattern: str, owner: str = ""
) -> Iterator[DocumentedArray]:
    if get_origin(hint) is np.ndarray:
        shape = re.search(pattern.format(name=name), text, re.MULTILINE)
        dimensions = None if shape is None else tuple(LETTER.sub(rf"{owner}\g<0>", shape[1]).split(", "))
        [number] = get_args(get_args(hint)[1])
        yield DocumentedArray(name, place, number, dimensions)
    hint = Scores if hint == PlainScores else hint
    if hasattr(hint, "_fields"):
        for i, (field, part) in enumerate(get_type_hints(hint).items()):
            yield from _arrays(field, part, (*place, i), inspect.getdoc(hint) or "", FIELD, hint.__name__)


def check(arrays: Sequence[DocumentedArray], arguments: tuple[Any, ...]) -> None:
    """Raise TypeError unless the arrays in the arguments of a call are as documented; empty ones stand for none."""
    sizes: dict[str, int] = {}
    for array in arrays:
        value: Any = arguments
        for part in array.place:
            value = value[part]
        fits = value.dtype in (np.float32, np.float64) if array.number is Any else value.dtype == array.number
        if not fits or not value.flags.c_contiguous:
            order = "" if value.flags.c_contiguous else "not contiguous "
            wanted = "floats" if array.number is Any else array.number.__name__
            raise TypeError(f"{array.name} is {order}{value.dtype}, not {wanted}")
        shape, dimensions = value.shape, array.dimensions
        if value.size and dimensions is not None:
            fits = len(shape) == len(dimensions) and all(map(partial(_fits, sizes), shape, dimensions))
            if not fits:
                raise TypeError(f"{array.name} has the shape {shape}, not [{', '.join(dimensions)}] where {sizes}")


def _fits(sizes: dict[str, int], size: int, dimension: str) -> bool:
    """Return whether a size is that of a dimension such as "T", "T + 1" or "1 or T"; note the size of a new letter."""
    options = dimension.split(" or ")
    for option in options:
        if option.isdecimal():
            if size == int(option):
                return True
            continue
        term = SIZE.fullmatch(option)
        if term is None:  # words or a longer formula
            return True
        letter, more = term[1], int(term[2] or 0)
        if letter not in sizes and len(options) == 1:
            sizes[letter] = size - more
        if sizes.get(letter, size - more) == size - more:
            return True
    return False


class CheckedKernel(jit.Kernel):
    """A kernel that checks its arguments, and stays in its module, where others are replaced by numba's dispatchers.

    The steps of optimizers call some kernels so often that only a part of their calls is checked.
    """

    calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if not self.part and (self.calls < MANY or self.calls % SAMPLED == 0):
            check(documented_arrays(self.py_func), arguments)
        return super().__call__(*arguments)

    @property
    def compiled(self) -> Any:
        made = super().compiled
        names, name = self.py_func.__globals__, self.py_func.__name__
        if names.get(name) is made:
            names[name] = self
        return made
