"""A linear-chain CRF over scores that a program brings itself, such as those of a neural network or of another model.

This is the border to the compiled recursions for arrays of users: `Chain` reads and checks them once, so that no wrong
shape, number or label gets as far as a kernel.  It needs neither spaCy nor a trained model.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import kernels
from .decoders.viterbi import best_labels, check_possible
from .errors import DataError
from .inference.lattice import Lattice, NBest
from .types import MISSING, Bools, Floats, Ints, Offsets, Scores

HIGHEST = {"f": 1e37, "d": 1e250}
"""Scores of a type must be below, so that their sums are in its range."""
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
NARROW, NUMBERS = frozenset("ef"), frozenset("efd" + np.typecodes["AllInteger"])
"""NumPy's characters of the types whose common type is float32, and of all types that scores may have."""
LARGEST = 1e30
"""The size below which factors of probabilities, weights and values must stay."""


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Chain:
    """The distribution of the labels of sequences, P(y | x) = exp(score(y)) / Z, for scores that are given.

    The score of a labelling is the sum of the emissions of its labels, of the transitions between neighbours, and of
    the start and end scores of its first and its last label.  Minus infinity forbids a label or a step.

    Arrays are NumPy's, lists, or whatever has ``__array__`` or ``__dlpack__``, such as tensors of PyTorch without a
    gradient.  Scores of tokens are copied only where that is needed, so do not change them afterwards.  If all scores
    are float32 or float16, computation and gradients are float32, else float64; values of whole sequences are float64.
    Answers for tokens have the shape of the emissions: [T, ...] or [B, T, ...].

    emissions (ArrayLike): [T, L], the tokens of all sequences one after another, or [B, T, L], one sequence a row.
    transitions (ArrayLike): [L, L], or one for each token: [T, L, L] or [B, T, L, L], entry t being the step to token t
        from the token before (not used at the first token of a sequence).  The axis before the last is the earlier
        label.
    start, end (ArrayLike | None): [L], 0 if they are left out.
    offsets (ArrayLike | None): [N + 1], for emissions [T, L]: sequence n has the tokens ``offsets[n]:offsets[n + 1]``.
        One sequence if neither these nor lengths are given.
    lengths (ArrayLike | None): [N] instead of offsets.  For emissions [B, T, L], the number of tokens of each row; the
        others are padding.
    mask (ArrayLike | None): [T] or [B, T], true (or 1) for the tokens of the chain.  The others are left out wherever
        they are, at the beginning and between two tokens as well: the tokens around them are neighbours.  Their scores
        and labels do not matter, and they have the label -1, the probability 0 and the gradient 0.
    allowed (ArrayLike | None): [T, L] or [B, T, L], false (or 0) for labels that a token cannot have.
    RAISES DataError: If shapes do not fit together, numbers are not scores, or `allowed` leaves a token no label.  All
        methods raise it if a sequence has no labelling.
    """

    _lattice: Lattice
    _places: Offsets | None
    _shapes: tuple[tuple[int, ...], tuple[int, ...]]

    def __init__(
        self,
        emissions: ArrayLike,
        transitions: ArrayLike,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        *,
        offsets: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
    ) -> None:
        given = {"emissions": emissions, "transitions": transitions}
        given |= {name: array for name, array in (("start", start), ("end", end)) if array is not None}
        arrays = {name: _array(name, array) for name, array in given.items()}
        dtype = _common_type(arrays)
        table, steps = arrays["emissions"], arrays["transitions"]
        if table.ndim not in (2, 3) or table.shape[-1] == 0:
            raise DataError(f"emissions must have the shape [T, L] or [B, T, L], L at least 1, not {table.shape}.")
        shape, n = table.shape[:-1], table.shape[-1]
        if steps.shape not in ((n, n), (1, n, n), (*shape, n, n)):
            raise DataError(f"transitions must have the shape {(n, n)} or {(*shape, n, n)}, not {steps.shape}.")
        bounds, places = _sequences(shape, offsets, lengths, mask)
        table, flat_steps = table.reshape(-1, n), steps.reshape(-1, n, n)
        if places is not None:
            table, flat_steps = table[places], flat_steps[places] if steps.shape[:-2] == shape else flat_steps
        # parameters that all tokens share are copied, as an optimizer writes the next ones into their memory
        ends = [arrays[name] if name in arrays else np.zeros(n, dtype) for name in ("start", "end")]
        if ends[0].shape != (n,) or ends[1].shape != (n,):
            raise DataError(f"start and end must have the shape {(n,)}, not {ends[0].shape} and {ends[1].shape}.")
        is_shared = len(flat_steps) == 1
        parameters = np.concatenate([*([flat_steps] if is_shared else []), *ends], axis=None, dtype=dtype)
        table = kernels.borders.take(table, dtype)
        flat_steps = parameters[: -2 * n].reshape(1, n, n) if is_shared else kernels.borders.take(flat_steps, dtype)
        scores = Scores(table, flat_steps, parameters[-2 * n : -n], parameters[-n:])
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_shapes", (shape, steps.shape))
        highest = HIGHEST[dtype.char]
        checked = [table.reshape(-1), parameters, *([] if is_shared else [flat_steps.reshape(-1)])]
        if not all(kernels.borders.all_below(numbers, highest) for numbers in checked):
            for name, array in zip(Scores._fields, scores, strict=True):
                if not (fits := array < highest).all():
                    self._refuse(f"{name} must be numbers below {highest:g}, or minus infinity", name, array, ~fits)
        if allowed is not None:
            possible = self._take(_flags("allowed", allowed, (*shape, n)))
            if not (some := possible.any(axis=-1)).all():
                token = int(np.argmin(some)) if places is None else int(places[np.argmin(some)])
                place = ", ".join(str(index) for index in np.unravel_index(token, shape))
                raise DataError(f"allowed[{place}] is false for all {n} labels: leave the token at least one.")
            scores = scores._replace(emissions=np.where(possible, scores.emissions, dtype.type(-np.inf)))
        object.__setattr__(self, "_lattice", Lattice(scores, bounds))

    def __repr__(self) -> str:
        n_tokens, n_labels = self._lattice.scores.emissions.shape
        return f"<Chain: {len(self.offsets) - 1:,} sequences, {n_tokens:,} tokens, {n_labels} labels>"

    @property
    def offsets(self) -> Offsets:
        """Offsets [N + 1] of the sequences among the tokens that are not masked."""
        return self._lattice.offsets

    def log_z(self) -> NDArray[np.float64]:
        """Return log Z of each sequence [N]: the log of the sum over all labellings, by the forward algorithm."""
        return self._lattice.log_z()

    def marginals(self) -> Floats:
        """Return P(y_t = k | x) [..., L], by the forward-backward algorithm (Rabiner 1989)."""
        return self._spread(self._lattice.marginals(), 0)

    def pair_marginals(self) -> Floats:
        """Return P(y_{t-1} = i, y_t = j | x) [..., L, L]; zeros at the first token of a sequence."""
        return self._spread(self._lattice.pair_marginals(), 0)

    def viterbi(self) -> Ints:
        """Return the labels of the most probable labelling of each sequence (Viterbi 1967)."""
        return self._spread(best_labels(*self._lattice[:2]), MISSING)

    def nbest(self, k: int) -> NBest:
        """Return the k most probable labellings [k, ...] of each sequence and their log-probabilities [k, N].

        A sequence with fewer labellings has the label -1 and minus infinity in place of the others.
        RAISES ConfigError: If k is less than 1.
        """
        labels, values = self._lattice.nbest(k)
        return NBest(self._spread_rows(labels), values)

    def sample(self, n: int, rng: np.random.Generator | int) -> Ints:
        """Return n independent labellings [n, ...] of each sequence, drawn by a generator or from a seed."""
        return self._spread_rows(self._lattice.sample(n, np.random.default_rng(rng)))

    def entropy(self) -> NDArray[np.float64]:
        """Return the entropy of each sequence's labellings [N], in nats (Mann & McCallum 2007)."""
        return self._lattice.entropies()

    def expectation(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the expected sum over its tokens of the values [..., L] of their labels, for each sequence [N]."""
        terms = (self._lattice.marginals() * self._values(values)).sum(1, dtype=np.float64)
        n_sequences = len(self.offsets) - 1
        owners = np.repeat(np.arange(n_sequences), np.diff(self.offsets))
        return np.bincount(owners, terms, n_sequences).astype(np.float64, copy=False)

    def log_prob(self, labels: ArrayLike) -> NDArray[np.float64]:
        """Return log P(labels | x) of each sequence [N]; minus infinity if they are forbidden.

        labels (ArrayLike): [...] whole numbers below L, or -1 where a label is not known: P sums over all labels there.
        """
        taken = self._labels(labels)
        if (taken >= 0).all():
            return np.minimum(self._lattice.path_scores(taken) - self._lattice.log_z(), 0)  # rounding
        numbers = np.arange(self._lattice.scores.emissions.shape[1])
        return self._lattice.log_shares((taken[:, None] < 0) | (taken[:, None] == numbers))

    def log_prob_of(self, sets: ArrayLike) -> NDArray[np.float64]:
        """Return the log-probability [N] that each token of a sequence has a label of its set (Tsuboi et al. 2008).

        sets (ArrayLike): [..., L] booleans (or 0 and 1), true for the labels of the set.
        """
        return self._lattice.log_shares(self._sets(sets))

    def log_z_and_grad(self, weights: ArrayLike | None = None) -> tuple[float, Scores]:
        """Return the sum over sequences of weight times `log_z`, and its gradient, which is the expected counts.

        Gradients of all methods are a named tuple of ``emissions``, ``transitions``, ``start`` and ``end``, of the
        shapes that were given.
        weights (ArrayLike | None): [N] of any sign, 1 if they are left out.
        """
        factors, grad = self._weights(weights), self._lattice.scores.zeros_like()
        log_z = self._add_expectations(self._lattice.scores, factors, grad)
        return float(factors @ log_z), self._shaped(grad)

    def log_prob_and_grad(self, labels: ArrayLike, weights: ArrayLike | None = None) -> tuple[float, Scores]:
        """Return the sum over sequences of weight times `log_prob`, and its gradient: minus the usual loss of a CRF.

        RAISES DataError: If the labels of a sequence with a weight are forbidden, as there is no gradient then.
        """
        taken, factors, grad = self._labels(labels), self._weights(weights), self._lattice.scores.zeros_like()
        value = kernels.lattice.log_loss(*self._lattice[:2], taken, -factors, grad)
        if not isfinite(value):
            check_possible(self.log_z())
            _check_probable(np.where(factors == 0, 0, self.log_prob(labels)))
        return value, self._shaped(grad)

    def log_prob_of_and_grad(self, sets: ArrayLike, weights: ArrayLike | None = None) -> tuple[float, Scores]:
        """Return the sum over sequences of weight times `log_prob_of`, and its gradient; DataError as the former."""
        scores, possible, factors = self._lattice.scores, self._sets(sets), self._weights(weights)
        grad, impossible = scores.zeros_like(), scores.emissions.dtype.type(-np.inf)
        agreeing = scores._replace(emissions=np.where(possible, scores.emissions, impossible))
        log_z = self._add_expectations(scores, -factors, grad)
        log_sums = self._add_expectations(agreeing, factors, grad, of_labels=True)
        return float(factors @ np.minimum(log_sums - log_z, 0)), self._shaped(grad)  # rounding

    def entropy_and_grad(self, weights: ArrayLike | None = None) -> tuple[float, Scores]:
        """Return the sum over sequences of weight times `entropy`, and its gradient."""
        factors, grad = self._weights(weights), self._lattice.scores.zeros_like()
        self._lattice.log_z()  # the kernel counts sequences without a labelling as 0
        value = kernels.chain.total_entropy(*self._lattice[:2], factors, grad)
        return value, self._shaped(grad)

    def expectation_and_grad(
        self, values: ArrayLike, weights: ArrayLike | None = None
    ) -> tuple[float, Scores]:  # fmt: skip
        """Return the sum over sequences of weight times `expectation`, and its gradient with the values held constant.

        A function of the marginals has this gradient if the values are its derivatives with respect to them.
        """
        table, factors, grad = self._values(values), self._weights(weights), self._lattice.scores.zeros_like()
        self._lattice.log_z()
        rows = np.arange(len(table), dtype=np.int32)
        value = kernels.chain.expected_sum(*self._lattice[:2], rows, table, factors, grad)
        return value, self._shaped(grad)

    def _add_expectations(
        self, scores: Scores, factors: NDArray[np.float64], grad: Scores, *, of_labels: bool = False
    ) -> NDArray[np.float64]:
        """Add the factors [N] times expected counts to `grad`; return log Z of sequences with a factor [N], else 0.

        of_labels: Whether a sequence that has no labelling is one whose labels are forbidden.
        """
        log_z = np.zeros(len(factors))
        kernels.lattice.log_loss(scores, self.offsets, kernels.lattice.NO_LABELS, factors, grad, log_z=log_z)
        (_check_probable if of_labels else check_possible)(log_z)
        return log_z

    # between the shapes of users and tokens one after another

    def _take(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the rows [T, ...] of the tokens of the chain."""
        flat = array.reshape(-1, *array.shape[len(self._shapes[0]) :])
        return flat if self._places is None else flat[self._places]

    def _spread(self, array: NDArray[Any], nothing: int) -> NDArray[Any]:
        """Return an array [T, ...] in the shape of the emissions, with a number for masked tokens."""
        shape = (*self._shapes[0], *array.shape[1:])
        if self._places is None:
            return array.reshape(shape)
        out = np.full(shape, nothing, array.dtype)
        out.reshape(-1, *array.shape[1:])[self._places] = array
        return out

    def _spread_rows(self, labels: Ints) -> Ints:
        """Return labels [k, T] in the shape of k emissions."""
        return np.ascontiguousarray(np.moveaxis(self._spread(labels.T, MISSING), -1, 0))

    def _shaped(self, grad: Scores) -> Scores:
        """Return a gradient in the shapes of the scores that were given."""
        shape, of_steps = self._shapes
        steps = self._spread(grad.transitions, 0) if of_steps[:-2] == shape else grad.transitions.reshape(of_steps)
        return Scores(self._spread(grad.emissions, 0), steps, grad.start, grad.end)

    # what else users give

    def _labels(self, labels: ArrayLike) -> Ints:
        """Return labels [T] that are known to be labels or -1."""
        array, n = _array("labels", labels), self._lattice.scores.emissions.shape[1]
        if array.shape != self._shapes[0] or array.dtype.kind not in "iu":
            raise DataError(f"labels must be whole numbers of the shape {self._shapes[0]}, not {_of(array)}.")
        taken = self._take(array)
        read = np.empty(len(taken), np.int32)
        # the type of PyTorch and NumPy alone has a kernel, which numba would compile once more for each other
        if taken.dtype == np.int64 and kernels.borders.read_labels(kernels.borders.take(taken, np.int64), n, read):
            return read
        if (wrong := (taken < MISSING) | (taken >= n)).any():
            what = f"labels must be from 0 to {n - 1}, or -1 where unknown; leave tokens out by `mask`"
            self._refuse(what, "labels", taken, wrong)
        return taken.astype(np.int32)

    def _sets(self, sets: ArrayLike) -> Bools:
        return self._take(_flags("sets", sets, (*self._shapes[0], self._lattice.scores.emissions.shape[1])))

    def _values(self, values: ArrayLike) -> Floats:
        array, like = _array("values", values), self._lattice.scores.emissions
        shape = (*self._shapes[0], like.shape[1])
        if array.shape != shape or array.dtype.kind not in "fiu":
            raise DataError(f"values must be numbers of the shape {shape}, not {_of(array)}.")
        taken = self._take(array)
        if not (in_range := np.abs(taken.astype(np.float64)) < LARGEST).all():
            self._refuse(f"values must be numbers of a size below {LARGEST:g}", "values", taken, ~in_range)
        return np.ascontiguousarray(taken, like.dtype)

    def _weights(self, weights: ArrayLike | None) -> NDArray[np.float64]:
        n_sequences = len(self.offsets) - 1
        if weights is None:
            return np.ones(n_sequences)
        array = _array("weights", weights)
        wide = array.astype(np.float64) if array.dtype.kind in "fiu" else np.full(array.shape, np.nan)
        if array.dtype.kind not in "fiu" or wide.shape != (n_sequences,):
            raise DataError(f"weights must be {n_sequences} numbers, one for each sequence, not {_of(array)}.")
        if not (in_range := np.abs(wide) < LARGEST).all():
            number = int(in_range.argmin())
            raise DataError(f"weights must be of a size below {LARGEST:g}, but weights[{number}] is {array[number]}.")
        return wide

    def _refuse(self, what: str, name: str, array: NDArray[Any], wrong: Bools) -> None:
        """Raise DataError for the first number of an array that is wrong, with its place in the array that was given.

        The array has a row for each token, unless its name is start, end, or transitions that all tokens share.
        """
        place = [int(number) for number in np.argwhere(wrong)[0]]
        value, (shape, of_steps) = array[tuple(place)], self._shapes
        if name == "transitions" and of_steps[:-2] != shape:
            place = place[1:] if len(of_steps) == 2 else place
        elif name not in ("start", "end"):
            token = place[0] if self._places is None else self._places[place[0]]
            place = [*map(int, np.unravel_index(token, shape)), *place[1:]]
        raise DataError(f"{what}, but {name}{place} is {value}.")


def _array(name: str, given: ArrayLike) -> NDArray[Any]:
    """Return an array of the values that were given, without a copy where they are one."""
    if type(given) is np.ndarray:
        return given
    if isinstance(given, np.ma.MaskedArray):
        raise DataError(f"{name} must not be a masked array; give its `data`, and which tokens count as `mask`.")
    try:
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            return np.from_dlpack(given)  # type: ignore[arg-type] # an ArrayLike is one of many things
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError, BufferError) as error:
        of_torch = type(given).__module__.split(".")[0] == "torch"
        advice = " Give a tensor of PyTorch as tensor.float().numpy(force=True)." if of_torch else ""
        raise DataError(f"{name} cannot be read as an array: {error}{advice}") from error


def _common_type(arrays: dict[str, NDArray[Any]]) -> np.dtype[Any]:
    """Return the type to compute with: float32 if all scores are float32 or float16, else float64."""
    kinds = {array.dtype.char for array in arrays.values()}
    if not kinds <= NUMBERS:
        name, array = next(item for item in arrays.items() if item[1].dtype.char not in NUMBERS)
        raise DataError(f"{name} must be float32 or float64 numbers, not {_of(array)}.")
    return SINGLE if kinds <= NARROW else DOUBLE


def _flags(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Bools:
    """Return booleans of a shape that were given as such, or as 0 and 1."""
    array = _array(name, given)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise DataError(f"{name} must be booleans of the shape {shape}, not {_of(array)}.")
    if array.dtype.kind == "b":
        return array
    if not ((array == 0) | (array == 1)).all():
        raise DataError(f"{name} must be booleans, or numbers that are 0 or 1.")
    return array.astype(np.bool_)


def _sequences(
    shape: tuple[int, ...], offsets: ArrayLike | None, lengths: ArrayLike | None, mask: ArrayLike | None
) -> tuple[Offsets, Offsets | None]:
    """Return the offsets [N + 1] of sequences among the tokens of the chain, and their places [T].

    None for the places if these are all tokens.
    """
    keep = None if mask is None else _flags("mask", mask, shape)
    if offsets is not None and (lengths is not None or len(shape) == 2):
        raise DataError("offsets are for emissions [T, L] without lengths; give lengths or a mask.")
    counts = None if lengths is None else _whole("lengths", lengths)
    if len(shape) == 2:
        if counts is not None:
            if counts.shape != shape[:1] or counts.max(initial=0) > shape[1] or counts.min(initial=0) < 0:
                raise DataError(
                    f"lengths must be {shape[0]} whole numbers from 0 to {shape[1]}, not {counts.tolist()}."
                )
            within = np.arange(shape[1]) < counts[:, None]
            keep = within if keep is None else within & keep
        if keep is None:
            return np.arange(shape[0] + 1, dtype=np.int64) * shape[1], None
        bounds = np.zeros(shape[0] + 1, np.int64)
        flat = kernels.borders.take(keep, keep.dtype).reshape(-1)
        is_whole = kernels.borders.add_up(flat, shape[1], bounds) == keep.size
        return bounds, None if is_whole else np.flatnonzero(keep)
    if counts is not None:
        if counts.sum() != shape[0] or counts.min(initial=0) < 0:
            raise DataError(f"lengths must be whole numbers that add up to the {shape[0]} tokens, not {counts.sum()}.")
        bounds = np.append(0, np.cumsum(counts))
    else:
        bounds = np.array([0, shape[0]], np.int64) if offsets is None else _whole("offsets", offsets)
        kernels.borders.check_offsets(bounds, shape[0])
    if keep is None or keep.all():
        return bounds, None
    return np.append(0, np.cumsum(keep, dtype=np.int64))[bounds], np.flatnonzero(keep)


def _whole(name: str, given: ArrayLike) -> Offsets:
    array = _array(name, given)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{name} must be a list of whole numbers, not {_of(array)}.")
    return array.astype(np.int64)


def _check_probable(values: NDArray[np.float64]) -> None:
    """Raise DataError if the log-probability of the labels of a sequence is minus infinity."""
    if np.isneginf(values).any():
        number, what = int(np.isneginf(values).argmax()), "has labels that its scores forbid, so there is no gradient"
        advice = (
            "Correct the labels or the scores, or give it the weight 0; log_prob returns its value, minus infinity."
        )
        raise DataError(f"Sequence {number} {what}. {advice}")


def _of(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
