"""The model: decoding and marginals against the oracle, storage, damaged files, more labels."""

import zlib
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import srsly

from spacy_crfseq import threads
from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.features.encoded import Encoded
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.packing import pack, unpack
from spacy_crfseq.potentials.layout import DenseRows, SparseRows
from spacy_crfseq.types import Scores
from spacy_crfseq.weights_file import weights_from_bytes, weights_to_bytes
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    TEMPLATES,
    Training,
    all_allowed,
    columns_of,
    frozen_encoder,
    plain_scores,
    training_problem,
)

LABELS = ["A", "B", "Ünï-code"]
KINDS = list(product(["observed", "all"], [(), BIGRAM_TEMPLATES]))
EVERY_KIND = pytest.mark.parametrize(("support", "bigram_templates"), KINDS)
FREE = all_allowed(3)


def make_model(
    support: str = "observed", bigram_templates: tuple[str, ...] = BIGRAM_TEMPLATES, dtype: type = np.float64
) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=10, support=support, bigram_templates=bigram_templates)
    return training.model(training.random_theta(np.random.default_rng(1)).astype(dtype), LABELS), training


def template_of_key(model: LinearChainCRF) -> list[dict[int, int]]:
    """Return the template of each attribute of both blocks by its key."""
    blocks = zip(model.keys, model.templates, strict=True)
    return [dict(zip(keys.tolist(), numbers.tolist(), strict=True)) for keys, numbers in blocks]


def all_scores(model: LinearChainCRF, training: Training) -> Scores:
    return model.posterior(training.encoded, FREE).source.scores((0, training.objective.n_sequences))


@EVERY_KIND
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_sums_of_weights(support: str, bigram_templates: tuple[str, ...], dtype: type) -> None:
    model, training = make_model(support, bigram_templates, dtype)
    for array, expected in zip(
        all_scores(model, training), plain_scores(model.layout, model.theta, training.encoded), strict=True
    ):
        assert array.dtype == dtype
        np.testing.assert_allclose(array, expected, atol=1e-5 if dtype == np.float32 else 1e-12)


@EVERY_KIND
def test_decoding_and_marginals_equal_the_enumeration(support: str, bigram_templates: tuple[str, ...]) -> None:
    model, training = make_model(support, bigram_templates)
    scores, offsets = plain_scores(model.layout, model.theta, training.encoded), training.encoded.offsets
    posterior = model.posterior(training.encoded, FREE)
    labels, marginals = posterior.decode(Viterbi()), posterior.marginals()
    reference.assert_exact(labels, marginals, scores, offsets)


@pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES])
@pytest.mark.parametrize("shard", [1, 20, 100])
def test_shards_of_any_size_give_the_same(
    bigram_templates: tuple[str, ...], shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, training = make_model(bigram_templates=bigram_templates)
    allowed = np.random.default_rng(0).random((training.encoded.n_tokens, 3)) < 0.7
    allowed[:, 0] |= ~allowed.any(1)

    def outputs() -> tuple[Any, ...]:
        encoded, objective = training.encoded, training.objective
        value, loss, gradient = objective.value_and_grad(model.theta)
        labels = model.posterior(encoded, FREE, allowed).decode(Viterbi())
        return labels, model.posterior(encoded, FREE).marginals(), value, loss, gradient

    expected = outputs()
    monkeypatch.setattr(threads, "SHARD_FLOATS", shard)
    assert len(list(threads.shards(training.encoded.offsets, model.linear.score_width))) > 1
    for actual, wanted in zip(outputs(), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12, atol=1e-12)


def test_shards_cover_every_sequence_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SHARD_FLOATS", 6)
    offsets = np.array([0, 0, 3, 3, 20, 21, 21])
    ranges = list(threads.shards(offsets, 2))
    assert [n for first, last in ranges for n in range(first, last)] == list(range(6))
    assert all(last == first + 1 or offsets[last] - offsets[first] <= 3 for first, last in ranges)


# --- storage --------------------------------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stored_model_is_the_same(support: str, bigram_templates: tuple[str, ...], dtype: type) -> None:
    model, training = make_model(support, bigram_templates, dtype)
    again = weights_from_bytes(weights_to_bytes(model))
    assert again.labels == LABELS
    assert again.theta.dtype == dtype
    np.testing.assert_array_equal(again.theta, model.theta)
    for mine, theirs in zip(again.keys, model.keys, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for array, expected in zip(all_scores(again, training), all_scores(model, training), strict=True):
        np.testing.assert_array_equal(array, expected)
    assert template_of_key(again) == template_of_key(model)
    assert weights_to_bytes(again) == weights_to_bytes(model)
    again.theta[:] = 0  # training may go on from a stored model


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"\x00" * 100, b"\x93\x01\x02\x03", srsly.msgpack_dumps({"a": 1}), b"PK\x03\x04" * 20]
)
def test_foreign_files(data: bytes) -> None:
    with pytest.raises(ModelFileError, match="no spacy_crfseq model"):
        weights_from_bytes(data)


def with_value(place: int, value: Any, dtype: str) -> Callable[[bytes], bytes]:
    """Return a function that puts a value into a packed array."""

    def change(data: bytes) -> bytes:
        numbers = unpack(data, dtype, len(zlib.decompressobj().decompress(data)))
        numbers[place] = value
        return pack(numbers)

    return change


LABELS_DAMAGE: list[Any] = [[], [1, 2, 3], "ABC", None, ["A", "B", "A"]]
DAMAGE: list[tuple[str, Any, str]] = [
    ("version", 4, "version 4"),
    ("version", None, "version None"),
    ("format", "joblib", "no spacy_crfseq model"),
    *(("labels", labels, "labels") for labels in LABELS_DAMAGE),
    ("labels", [*LABELS, "D"], "do not fit its 4 labels"),
    ("theta", pack(np.zeros(3)), "end before or after"),
    *(("theta", theta, "damaged") for theta in (np.zeros((3, 3)), 1.0, None, b"", "text")),
    ("theta", lambda data: data + b"more", "4 bytes after"),
    ("theta", lambda data: data[:-9], "end before or after"),
    *(("precision", name, "not float32 or float64") for name in ("float16", "int32", ">f4", None)),
    ("theta", with_value(4, np.nan, "float64"), "1 of [0-9]+ weights are NaN or infinite"),
    ("theta", with_value(4, np.inf, "float64"), "1 of [0-9]+ weights are NaN or infinite"),
    ("used", np.ones(3, np.uint8), "24 parameters where"),
    ("steps", np.ones((2, 2), np.uint8), "do not fit its 3 labels"),
    ("steps", "yes", "do not fit its 3 labels|damaged"),
    ("state", None, "damaged"),
]
BLOCK_DAMAGE: dict[str, tuple[str, Any]] = {
    "no kind": ("kind", None),
    "columns out of range": ("cols", with_value(3, 99, "uint32")),
    "columns are missing": ("cols", None),
    "columns are a huge number": ("cols", [2**40]),
    "lengths are short": ("lengths", pack(np.array([1], np.uint32))),
    "lengths do not add up": ("lengths", with_value(0, 0, "uint32")),
    "huge lengths": ("lengths", with_value(0, 2**32 - 5, "uint32")),
    "many features": ("n", 10**12),
    "few features": ("n", 1),
    "fewer than no features": ("n", -1),
    "features are no number": ("n", None),
    "keys are short": ("keys", pack(np.ones(2, np.uint64))),
    "keys end too early": ("keys", lambda data: data[:-3]),
    "keys are no array": ("keys", lambda data: data[:-3] + b"abc"),
    "keys are a number": ("keys", 5),
    "templates are short": ("templates", pack(np.ones(2, np.uint16))),
    "templates are no numbers": ("templates", ["x"]),
}


def damage(stored: dict[str, Any], name: str, how: Any) -> None:
    stored[name] = how(stored[name]) if callable(how) else how


@pytest.mark.parametrize(("name", "how", "message"), DAMAGE)
def test_damaged_models(name: str, how: Any, message: str) -> None:
    stored = srsly.msgpack_loads(weights_to_bytes(make_model()[0]))
    damage(stored, name, how)
    with pytest.raises(ModelFileError, match=message) as caught:
        weights_from_bytes(srsly.msgpack_dumps(stored), "my/model")
    assert str(caught.value).startswith("my/model: ")


@pytest.mark.parametrize("case", BLOCK_DAMAGE)
@pytest.mark.parametrize("block", ["state", "pair"])
def test_damaged_blocks(case: str, block: str) -> None:
    stored = srsly.msgpack_loads(weights_to_bytes(make_model()[0]))
    damage(stored[block], *BLOCK_DAMAGE[case])
    with pytest.raises(ModelFileError, match="damaged"):
        weights_from_bytes(srsly.msgpack_dumps(stored))


# --- more labels ----------------------------------------------------------------------------------------------------


@EVERY_KIND
def test_new_labels_leave_old_scores_alone(support: str, bigram_templates: tuple[str, ...]) -> None:
    model, training = make_model(support, bigram_templates)
    labels = ["new", "B", "Ünï-code", "newer", "A"]
    wider = model.with_labels(labels)
    old = np.array([labels.index(label) for label in LABELS])
    before, after = all_scores(model, training), all_scores(wider, training)
    for actual, narrow in zip(after, before, strict=True):
        expected = np.zeros_like(actual)  # new labels score zero
        expected[(..., old[:, None], old) if narrow.ndim == 3 else (..., old)] = narrow
        np.testing.assert_array_equal(actual, expected)
    assert wider.theta.dtype == model.theta.dtype
    assert template_of_key(wider) == template_of_key(model)
    again = weights_from_bytes(weights_to_bytes(wider))
    np.testing.assert_array_equal(all_scores(again, training).emissions, after.emissions)


@pytest.mark.parametrize("support", ["observed", "all"])
def test_new_labels_can_be_learnt(support: str) -> None:
    """Every attribute gets a weight for a new label; what was held before is held still."""
    model, _ = make_model(support)
    wider = model.with_labels([*LABELS, "new"])
    places = np.arange(wider.layout.size, dtype=np.float64)
    wider.linear.zero_frozen(places)
    free = wider.layout.views(places)
    assert free.transitions[3].all()
    assert free.transitions[:, 3].all()
    if model.layout.steps is not None:
        np.testing.assert_array_equal(free.transitions[:3, :3] > 0, model.layout.steps)
    rows = wider.layout.unigrams
    if isinstance(rows, DenseRows):
        assert rows.width == 4
    else:
        assert (np.bincount(rows.cols, minlength=4)[3]) == rows.n_rows


@pytest.mark.parametrize("support", ["observed", "all"])
def test_a_model_without_transitions_stays_without(support: str) -> None:
    training = training_problem(7, support=support, transitions=False)
    wider = training.model(np.zeros(training.layout.size)).with_labels([*"ABC", "new"], transitions=False)
    free = np.ones(wider.layout.size)
    wider.linear.zero_frozen(free)
    assert not wider.layout.views(free).transitions.any()
    assert wider.layout.views(free).unigrams.all()


# --- compact models -------------------------------------------------------------------------------------------------


def compact_model(
    support: str, bigram_templates: tuple[str, ...], share: float, threshold: float
) -> tuple[LinearChainCRF, LinearChainCRF, Training, Encoded]:
    """Return a model with some small weights, its compact form, the problem, and its text as the latter sees it."""
    model, training = make_model(support, bigram_templates)
    rng = np.random.default_rng(2)
    theta = model.theta.copy()
    small = rng.random(len(theta)) < share
    theta[small] = rng.uniform(-threshold, threshold, small.sum())
    model.linear.zero_frozen(theta)
    model.set_theta(theta)
    compact = model.compact(threshold)
    encoder = frozen_encoder(training.vocabulary, TEMPLATES, bigram_templates, compact.keys)
    return model, compact, training, encoder.encode(columns_of(training.vocabulary, encoder, training.sentences))


@EVERY_KIND
@pytest.mark.parametrize("share", [0.0, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.2])
def test_a_compact_model_has_only_the_weights_that_count(
    support: str, bigram_templates: tuple[str, ...], share: float, threshold: float
) -> None:
    model, compact, training, encoded = compact_model(support, bigram_templates, share, threshold)
    large = np.where(np.abs(model.theta) > threshold, model.theta, 0)
    expected = plain_scores(model.layout, large, training.encoded)
    actual = compact.posterior(encoded, FREE).source.scores((0, len(encoded.offsets) - 1))
    for array, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.broadcast_to(array, wanted.shape), wanted, atol=1e-12)
    assert compact.layout.size == len(compact.theta)
    again = weights_from_bytes(weights_to_bytes(compact))
    np.testing.assert_array_equal(
        again.posterior(encoded, FREE).source.scores((0, 5)).emissions,
        compact.posterior(encoded, FREE).source.scores((0, 5)).emissions,
    )
    for rows, keys, old, weights in zip(
        (compact.layout.unigrams, compact.layout.bigrams), compact.keys, model.keys, compact.views, strict=False
    ):
        assert rows.n_rows == len(keys) <= len(old)
        assert set(keys.tolist()) <= set(old.tolist())
        if isinstance(rows, SparseRows):
            assert (np.abs(weights) > threshold).all()
            assert (np.diff(rows.ptr) > 0).all()
    for some, every in zip(template_of_key(compact), template_of_key(model), strict=True):
        assert some.items() <= every.items()
    if share == 1.0:
        assert not len(compact.keys[0])
    if model.layout.steps is None and share:  # transitions that are dropped are not learnt again
        np.testing.assert_array_equal(compact.layout.steps, compact.views.transitions != 0)


def filled(model: LinearChainCRF) -> LinearChainCRF:
    """Return the model with parameters of which none is zero."""
    return model.at(np.random.default_rng(1).random(len(model.theta)).astype(model.theta.dtype))


@EVERY_KIND
@pytest.mark.parametrize("share", [0.0, 0.1, 0.7])
def test_without_zeros_the_scores_are_the_same(support: str, bigram_templates: tuple[str, ...], share: float) -> None:
    model, compact, training, encoded = compact_model(support, bigram_templates, share, 0.0)
    n_sequences = training.objective.n_sequences
    before, after = all_scores(model, training), compact.posterior(encoded, FREE).source.scores((0, n_sequences))
    for array, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert len(weights_to_bytes(compact)) <= len(weights_to_bytes(filled(model))) + 100  # which transitions are learnt


# --- zeros are not stored -------------------------------------------------------------------------------------------


def sparse_model(support: str, bigram_templates: tuple[str, ...], share: float) -> tuple[LinearChainCRF, Training]:
    model, training = make_model(support, bigram_templates)
    rng = np.random.default_rng(5)
    return model.at(np.where(rng.random(len(model.theta)) < share, 0, model.theta).astype(np.float32)), training


@EVERY_KIND
@pytest.mark.parametrize("share", [0.1, 0.7, 0.95, 1.0])
def test_zeros_are_not_stored(support: str, bigram_templates: tuple[str, ...], share: float) -> None:
    model, _ = sparse_model(support, bigram_templates, share)
    data = weights_to_bytes(model)
    again = weights_from_bytes(data)
    np.testing.assert_array_equal(again.theta, model.theta)
    assert share < 0.5 or len(data) < len(weights_to_bytes(filled(model)))


@EVERY_KIND
@pytest.mark.parametrize("share", [0.1, 0.7, 0.95])
def test_without_unused_features(support: str, bigram_templates: tuple[str, ...], share: float) -> None:
    model, training = sparse_model(support, bigram_templates, share)
    small = model.without_unused()
    columns = [np.diff(rows.ptr) if hasattr(rows, "ptr") else rows.width for rows in model.layout[1:3]]
    for keys, rows, weights, kept, wide in zip(
        model.keys, model.layout[1:3], model.views, small.keys, columns, strict=False
    ):
        owner = np.repeat(np.arange(rows.n_rows), wide)
        assert kept.tolist() == [key for number, key in enumerate(keys.tolist()) if weights[owner == number].any()]
    assert (small.layout.steps is None) == (model.layout.steps is None)
    for shared in ("transitions", "start", "end"):
        np.testing.assert_array_equal(getattr(small.views, shared), getattr(model.views, shared))
    encoder = frozen_encoder(training.vocabulary, TEMPLATES, bigram_templates, small.keys)
    encoded = encoder.encode(columns_of(training.vocabulary, encoder, training.sentences))
    actual = small.posterior(encoded, FREE).source.scores((0, training.objective.n_sequences))
    for array, expected in zip(actual, all_scores(model, training), strict=True):
        np.testing.assert_array_equal(np.broadcast_to(array, expected.shape), expected)
    assert small.without_unused() is small


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored.update(used=stored["used"][1:]),
        lambda stored: stored.update(n_theta=stored["n_theta"] + 8),
        lambda stored: stored.update(n_theta=-1),
        lambda stored: stored.update(n_theta=2**62),
        lambda stored: stored.update(theta=stored["theta"][1:]),
        lambda stored: stored.pop("n_theta"),
        lambda stored: stored.update(used="yes"),
    ],
)
def test_damaged_zeros(damage: Any) -> None:
    stored = srsly.msgpack_loads(weights_to_bytes(sparse_model("observed", (), 0.5)[0]))
    damage(stored)
    with pytest.raises(ModelFileError, match="damaged"):
        weights_from_bytes(srsly.msgpack_dumps(stored))
