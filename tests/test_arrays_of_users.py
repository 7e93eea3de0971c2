"""Arrays that kernels would read beyond are refused wherever a user can pass them: losses, decoders, the posterior."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import registry
from spacy_crfseq.errors import DataError
from spacy_crfseq.inference.posterior import Posterior
from spacy_crfseq.kernels import UNCOMPILED, _compile
from spacy_crfseq.types import Batch, Loss, Scores, TextLoss
from tests.problems import all_allowed, made_losses, random_problem, text_of
from tests.test_posterior import make_case

N_LABELS, LENGTHS = 3, [4, 2]
OFFSETS, GOLD = np.array([0, 4, 6]), np.array([0, 1, 2, 0, 1, 2], np.int32)
BAD_OFFSETS: list[Any] = [[0, 4], [0, 4, 7], [1, 4, 6], [0, 5, 4, 6], [], [0, -1, 6], [0.0, 4.0, 6.0], [[0, 4, 6]]]
BAD_LABELS: list[Any] = [
    [0, 1, 2, 0, 1, 3],
    [0, 1, 2, 0, 1, 2**30],
    [0, 1, 2, 0, 1, -2],
    [0, 1, 2],
    [0.0] * 6,
    [[0]] * 6,
]
DECODERS = {name: make for name, make in registry.decoders.get_all().items() if not name.startswith("test.")}


def problem_scores() -> Scores:
    return random_problem(np.random.default_rng(0), n_labels=N_LABELS, lengths=LENGTHS, shared=True).scores


def swapped(array: Any) -> Any:
    """Return an array in the other byte order, as from a file of another machine."""
    return np.asarray(array).astype(np.asarray(array).dtype.newbyteorder())


def bad_scores() -> list[Scores]:
    good = problem_scores()
    return [
        good._replace(emissions=good.emissions[:4]),
        good._replace(emissions=good.emissions[:, :2]),
        good._replace(emissions=good.emissions.ravel()),
        good._replace(emissions=good.emissions[:, :0]),
        good._replace(transitions=good.transitions[0]),
        good._replace(transitions=np.repeat(good.transitions, 2, axis=0)),
        good._replace(transitions=good.transitions[:0]),
        good._replace(start=good.start[:2]),
        good._replace(end=np.zeros(4)),
        good._replace(start=good.start.astype(np.float32)),
        Scores(*map(swapped, good)),
        Scores(*(array.astype(np.float16) for array in good)),
        Scores(*(array.astype(np.int64) for array in good)),
    ]


def like(values: Any, dtype: type) -> np.ndarray:
    array = np.array(values)
    return array if array.dtype.kind == "f" and array.size else array.astype(dtype)


WEIGHTS = [np.ones(1), np.ones(3), np.ones((2, 1)), np.ones(2, np.int64), np.ones(2, "f2"), swapped([1.0, 1])]
BAD_BATCHES: list[tuple[dict[str, Any], str]] = [
    *(({"offsets": like(offsets, np.int64)}, "Offsets must") for offsets in BAD_OFFSETS),
    *(({"gold": like(labels, np.int32)}, "Gold labels must") for labels in BAD_LABELS),
    *(({"weights": weights}, "Weights must") for weights in WEIGHTS),
    ({"offsets": swapped(OFFSETS)}, "must be"),
    ({"gold": swapped(GOLD)}, "must be"),
]


@pytest.fixture(params=made_losses().items(), ids=lambda item: item[0])
def loss(request: pytest.FixtureRequest) -> Callable[..., float]:
    made: Loss = request.param[1]

    def call(scores: Scores, batch: Batch, grad: Scores | None = None) -> float:
        bound = made
        if isinstance(made, TextLoss):
            bound = made.bind(["A", "B", "C"], None)
            batch = batch._replace(inputs=made.read([text_of(6)], [text_of(6)]))
        return float(bound(scores, batch, scores.zeros_like() if grad is None else grad))

    return call


def test_losses_refuse_arrays_that_do_not_fit(loss: Callable[..., float]) -> None:
    scores, batch = problem_scores(), Batch(OFFSETS, GOLD, np.ones(2))
    assert np.isfinite(loss(scores, batch))
    for change, message in BAD_BATCHES:
        with pytest.raises(DataError, match=message):
            loss(scores, batch._replace(**change))
    for wrong in bad_scores():
        with pytest.raises(DataError, match="must"):
            loss(wrong, batch)
    good = scores.zeros_like()
    for name, array in good._asdict().items():
        for other in (array[:0] if name != "transitions" else array[:, :2], array.astype(np.float32)):
            with pytest.raises(DataError, match=f"gradient of {name} must"):
                loss(scores, batch, good._replace(**{name: other}))


def fixed(array: Any) -> Any:
    """Return a copy that cannot be written, as of a file that is mapped into memory."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def n_compiled() -> int:
    return 0 if UNCOMPILED else sum(len(kernel.signatures) for kernel in _compile.made)


def test_losses_take_labels_of_any_size_and_arrays_that_cannot_be_written(loss: Callable[..., float]) -> None:
    """No kernel is compiled once more for them."""
    scores, batch = problem_scores(), Batch(OFFSETS, GOLD, np.ones(2))
    wanted, n = loss(scores, batch), n_compiled()
    others = Batch(fixed(OFFSETS), fixed(GOLD.astype(np.int64)), fixed(np.ones(2, np.float32)))
    value = loss(Scores(*map(fixed, scores)), others, scores.zeros_like())
    assert value == pytest.approx(wanted, rel=1e-12)
    assert n_compiled() == n


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_take_arrays_that_cannot_be_written(name: str) -> None:
    decoder, free, scores = DECODERS[name](), all_allowed(N_LABELS), problem_scores()
    wanted, n = decoder(scores, OFFSETS, free), n_compiled()
    labels = decoder(Scores(*map(fixed, scores)), fixed(OFFSETS.astype(np.int32)), free)
    assert labels.tolist() == wanted.tolist()
    assert n_compiled() == n


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_refuse_arrays_that_do_not_fit(name: str) -> None:
    decoder, free, scores = DECODERS[name](), all_allowed(N_LABELS), problem_scores()
    assert len(decoder(scores, OFFSETS, free)) == 6
    for offsets in BAD_OFFSETS:
        with pytest.raises(DataError, match="Offsets must"):
            decoder(scores, like(offsets, np.int64), free)
    for wrong in bad_scores():
        with pytest.raises(DataError, match="must"):
            decoder(wrong, OFFSETS, free)
    for allowed in (np.ones((6, 2), np.bool_), np.ones((5, 3), np.bool_), np.ones((6, 3))):
        with pytest.raises(DataError, match="Allowed labels must"):
            decoder(scores, OFFSETS, free, allowed)


def posterior() -> Posterior:
    problem = random_problem(np.random.default_rng(0), n_labels=N_LABELS, lengths=LENGTHS, shared=True)
    return make_case(problem, all_allowed(N_LABELS), np.ones((6, N_LABELS), np.bool_)).posterior


@pytest.mark.parametrize("labels", [*BAD_LABELS, [0, 1, 2, 0, 1, -1]], ids=str)
@pytest.mark.parametrize("ask", ["label_probabilities", "log_probabilities", "spans", "expected_f"])
def test_the_posterior_refuses_labels_that_do_not_fit(ask: str, labels: Any) -> None:
    with pytest.raises(DataError, match="Labels must"):
        getattr(posterior(), ask)(like(labels, np.int32))
    with pytest.raises(DataError, match="Labels must"):
        posterior().span_probabilities(like(labels, np.int32), np.array([0]), np.array([1]))


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([0], [7]), ([6], [7]), ([-1], [1]), ([2], [2]), ([3], [2]), ([3], [5]), ([2, 0], [3, 1]),
     ([0, 1], [1]), ([0.0], [1.0])],
)  # fmt: skip
def test_the_posterior_refuses_spans_that_do_not_fit(starts: Any, ends: Any) -> None:
    with pytest.raises(DataError, match="Span"):
        posterior().span_probabilities(GOLD, np.array(starts), np.array(ends))
    with pytest.raises(DataError, match="Spans must"):
        posterior().span_probabilities(GOLD, swapped([0]), swapped([1]))
    assert len(posterior().span_probabilities(GOLD, np.array([0, 1, 4]), np.array([4, 2, 6]))) == 3
