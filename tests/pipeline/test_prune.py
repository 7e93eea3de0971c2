"""Pruned components: smaller, the same predictions, and ready for more training; and selected features."""

from typing import Any

import numpy as np
import pytest
import srsly
from spacy.language import Language

from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.pipeline.model_file import digest_of
from spacy_crfseq.potentials.layout import cells
from spacy_crfseq.tools.explain import explain
from spacy_crfseq.weights_file import weights_to_bytes
from tests.pipeline.helpers import (
    LBFGS,
    SCORES,
    blank,
    examples,
    inputs,
    pipe_of,
    predictions,
    templates,
    trained,
)

WITH_PAIRS = templates("LOWER[-1..1]", "SUFFIX2", bigram_templates=["LOWER[0]"])


def with_small_weights(factory: str, **config: Any) -> Language:
    """Return a trained pipeline in which half of the weights are zero."""
    nlp = trained(factory, optimizer=LBFGS, features=WITH_PAIRS, **config)
    pipe = pipe_of(nlp)
    theta = pipe.crf.theta.copy()
    theta[np.abs(theta) < np.median(np.abs(theta))] = 0
    pipe.set_parameters(theta)
    return nlp


@pytest.mark.parametrize("support", ["observed", "all"])
def test_without_zeros_predictions_are_the_same(factory: str, support: str) -> None:
    nlp = with_small_weights(factory, support=support, keep_names=True)
    pipe = pipe_of(nlp)
    before, marginals = predictions(nlp, factory), pipe.posterior(inputs(nlp, factory)).marginals()
    names = dict(zip(np.concatenate(pipe.crf.keys).tolist(), pipe.doc_model.feature_names, strict=True))
    noise = np.random.default_rng(0).random(len(pipe.crf.theta)).astype(np.float32)
    with_zeros = len(weights_to_bytes(pipe.crf.at(noise)))
    report = pipe.prune()
    assert predictions(nlp, factory) == before
    for actual, wanted in zip(pipe.posterior(inputs(nlp, factory)).marginals(), marginals, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    assert all(after < before for after, before in zip(report.after[:2], report.before[:2], strict=True))
    assert len(weights_to_bytes(pipe.crf)) < with_zeros  # files hold no zeros, before or after
    assert pipe.doc_model.feature_names == [names[key] for key in np.concatenate(pipe.crf.keys).tolist()]
    assert pipe.prune().after == report.after


@pytest.mark.parametrize("support", ["observed", "all"])
def test_rounded_weights_are_multiples_and_the_others_stay(factory: str, support: str) -> None:
    nlp = trained(factory, optimizer=LBFGS, features=WITH_PAIRS, support=support)
    pipe = pipe_of(nlp)
    before = {key: row.copy() for key, row in rows_of(pipe)}
    pipe.prune(bits=3)
    theta = pipe.crf.theta
    np.testing.assert_array_equal(8 * theta, np.rint(8 * theta))
    after = dict(rows_of(pipe))
    for key, row in before.items():
        np.testing.assert_array_equal(after.get(key, np.zeros_like(row)), np.rint(8 * row) / 8)
    assert all(
        (np.diff(keys[numbers == n].astype(np.int64)) > 0).all()
        for keys, numbers in zip(pipe.crf.keys, pipe.crf.templates, strict=True)
        for n in np.unique(numbers)
    )
    again = blank(factory, features=WITH_PAIRS, support=support)
    again.from_bytes(nlp.to_bytes())
    np.testing.assert_array_equal(pipe_of(again).crf.theta, theta)


@pytest.mark.parametrize(("run", "in_order"), [(1, True), (50, False)])
def test_features_get_the_order_in_which_the_file_is_smaller(run: int, in_order: bool) -> None:
    """Keys are smaller in order; weights that are equal in runs of collected features are not."""
    pipe = pipe_of(trained("crf_tagger", optimizer=LBFGS, features=WITH_PAIRS, support="all"))
    values = np.random.default_rng(0).random(len(pipe.crf.theta)).astype(np.float32)
    pipe.set_parameters(np.repeat(values, run)[: len(values)])
    collected = pipe.crf.compact()
    sizes = [len(weights_to_bytes(crf)) for crf in (collected.in_order(), collected)]
    pipe.prune()
    assert len(weights_to_bytes(pipe.crf)) == min(sizes) < max(sizes)
    np.testing.assert_array_equal(pipe.crf.keys[0], (collected.in_order() if in_order else collected).keys[0])


@pytest.mark.parametrize("bits", [-1, 31, 200])
def test_bits_that_no_weight_can_have_are_refused(factory: str, bits: int) -> None:
    pipe = pipe_of(trained(factory))
    before = pipe.crf.theta.copy()
    with pytest.raises(ConfigError, match=f"bits must be from 0 to 30, but {bits} was given"):
        pipe.prune(bits=bits)
    np.testing.assert_array_equal(pipe.crf.theta, before)


def rows_of(pipe: Any) -> list[tuple[tuple[int, int], np.ndarray]]:
    """Return the weights of each feature by block and key, 0 where it has none."""
    rows = []
    for block, (keys, weights) in enumerate(zip(pipe.crf.keys, pipe.crf.views, strict=False)):
        part = (pipe.crf.layout.unigrams, pipe.crf.layout.bigrams)[block]
        table = np.zeros((len(keys), part.width), np.float32)
        table.ravel()[cells(part)] = weights.ravel()
        rows += [((block, key), row) for key, row in zip(keys.tolist(), table, strict=True)]
    return rows


def test_training_goes_on_with_the_weights_that_are_left(factory: str) -> None:
    nlp = trained(factory, optimizer=LBFGS)
    pipe, corpus = pipe_of(nlp), examples(nlp, factory)
    largest = float(np.abs(pipe.crf.theta).max())
    size = pipe.prune(largest / 2).after.weights
    pipe.fit(corpus)
    assert pipe.size.weights == size
    for _ in range(5):
        losses = nlp.update(corpus, losses={})
    assert np.isfinite(losses[factory])
    pipe.add_label("NEW")
    assert pipe.size.weights > size


@pytest.mark.parametrize("threshold", [-1.0, 1e6])
def test_thresholds_out_of_range(threshold: float) -> None:
    nlp = trained("crf_ner", optimizer=LBFGS)
    before = predictions(nlp, "crf_ner")
    with pytest.raises(ConfigError, match="at least 0 and lower than the largest weight"):
        pipe_of(nlp).prune(threshold)
    assert predictions(nlp, "crf_ner") == before


@pytest.mark.parametrize(
    ("factory", "support", "features"),
    [
        ("crf_tagger", "observed", {}),
        ("crf_chunker", "observed", {"features": WITH_PAIRS}),
        ("crf_chunker", "all", {}),
        ("crf_ner", "all", {"features": WITH_PAIRS}),
    ],
)
def test_max_features(factory: str, support: str, features: dict[str, Any]) -> None:
    nlp = trained(factory, max_features=60, support=support, keep_names=True, optimizer=LBFGS, **features)
    corpus, pipe = examples(nlp, factory), pipe_of(nlp)
    layout = pipe.crf.layout
    assert layout.unigrams.size + layout.bigrams.size == 60
    assert len(pipe.doc_model.feature_names) == layout.unigrams.n_rows + layout.bigrams.n_rows <= 60
    assert nlp.evaluate(corpus)[SCORES[factory]] > 0.6
    nlp.update(corpus)  # examples are encoded anew, with the ids that are left
    again = blank(factory, **features).from_bytes(nlp.to_bytes())
    assert predictions(again, factory) == predictions(nlp, factory)


# --- features without weight are not stored, unless training may have to visit them yet -----------------------------


OWLQN = {
    "optimizer": {"@crf_optimizers": "spacy_crfseq.OWLQN.v1", "tolerance": 1e-9},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.L1.v1", "rho": 0.3},
}
PERCEPTRON = {
    "optimizer": {"@crf_optimizers": "spacy_crfseq.AveragedPerceptron.v1"},
    "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
}


def initialized(factory: str, method: dict[str, Any] = OWLQN) -> Language:
    nlp = blank(factory, **method)
    nlp.initialize(lambda: examples(nlp, factory, repeat=2))
    return nlp


def copied(nlp: Language, factory: str, method: dict[str, Any] = OWLQN) -> Language:
    return blank(factory, **method).from_bytes(nlp.to_bytes())


def n_features(nlp: Language) -> int:
    return sum(map(len, pipe_of(nlp).crf.keys))


def with_weights(nlp: Language) -> int:
    layout, views = pipe_of(nlp).crf.layout, pipe_of(nlp).crf.views
    owner = np.repeat(np.arange(layout.unigrams.n_rows), np.diff(layout.unigrams.ptr))
    return len(np.unique(owner[views.unigrams != 0]))


@pytest.mark.parametrize(
    ("factory", "method"), [("crf_tagger", OWLQN), ("crf_chunker", PERCEPTRON), ("crf_ner", OWLQN)]
)
def test_features_without_weight_are_not_stored(factory: str, method: dict[str, Any]) -> None:
    nlp = initialized(factory, method)
    pipe = pipe_of(nlp)
    pipe.fit()
    again = copied(nlp, factory, method)
    assert n_features(again) == with_weights(nlp) < n_features(nlp)
    assert pipe_of(again).doc_model.n_active == pipe.doc_model.n_active
    assert predictions(again, factory) == predictions(nlp, factory)
    docs, others = inputs(nlp, factory), inputs(again, factory)
    for first, other in zip(docs, others, strict=True):
        shown, same = (str(explain(p, doc).tokens) for p, doc in ((pipe, first), (pipe_of(again), other)))
        assert shown == same
    if method is OWLQN:
        marginals, wanted = pipe_of(again).posterior(others).marginals(), pipe.posterior(docs).marginals()
        np.testing.assert_array_equal(np.concatenate(marginals), np.concatenate(wanted))


@pytest.mark.parametrize(("factory", "method"), [("crf_chunker", PERCEPTRON), ("crf_ner", OWLQN)])
def test_training_goes_on(factory: str, method: dict[str, Any]) -> None:
    nlp = initialized(factory, method)
    pipe_of(nlp).fit()
    again = copied(nlp, factory, method)
    for _ in range(5):
        losses = again.update(examples(again, factory), losses={})
    assert np.isfinite(losses[factory])
    assert method is PERCEPTRON or predictions(again, factory) == predictions(nlp, factory)
    result = pipe_of(again).fit(examples(again, factory))
    assert result.history
    again.initialize(lambda: examples(again, factory, repeat=2))
    pipe_of(again).fit()
    np.testing.assert_array_equal(pipe_of(again).crf.theta, pipe_of(nlp).crf.theta)


def test_nothing_is_dropped_before_training() -> None:
    nlp = initialized("crf_ner")
    again, corpus = copied(nlp, "crf_ner"), examples(nlp, repeat=2)
    assert n_features(again) == n_features(nlp)
    assert (pipe_of(again).fit(corpus).best == pipe_of(nlp).fit(corpus).best).all()
    pipe_of(nlp).add_label("NEW")
    again = copied(nlp, "crf_ner")
    assert n_features(again) == n_features(nlp)
    assert pipe_of(again).crf.layout.size == pipe_of(nlp).crf.layout.size


def test_nothing_is_dropped_in_the_first_epoch() -> None:
    nlp = initialized("crf_chunker", PERCEPTRON)
    corpus = examples(nlp, "crf_chunker", repeat=2)
    nlp.update(corpus[:3])
    again = copied(nlp, "crf_chunker", PERCEPTRON)
    again = copied(again, "crf_chunker", PERCEPTRON)  # nor when it is stored once more
    assert n_features(again) == n_features(nlp)
    again.update(corpus)
    assert n_features(copied(again, "crf_chunker", PERCEPTRON)) == with_weights(again) < n_features(nlp)


@pytest.fixture(scope="module")
def fitted() -> Language:
    nlp = initialized("crf_ner")
    pipe_of(nlp).fit()
    return nlp


def stored_again(nlp: Any, **changed: Any) -> bytes:
    """Return the bytes of a recognizer with some entries of its model file changed, under a right digest."""
    stored = srsly.msgpack_loads(nlp.get_pipe("crf_ner").to_bytes(exclude=["vocab"]))
    head = {**srsly.msgpack_loads(stored["model"]), **changed, "digest": None}
    digest = changed.get("digest", digest_of(head))
    return bytes(srsly.msgpack_dumps({**stored, "model": srsly.msgpack_dumps({**head, "digest": digest})}))


@pytest.mark.parametrize(("changed", "said"), [
    ({}, ""),
    ({"version": 99}, "newer release.*pip install --upgrade"),
    ({"digest": None}, "no model of spacy_crfseq, or it was cut short"),
    ({"digest": b"0" * 16}, "no model of spacy_crfseq, or it was cut short"),
    ({"templates": np.zeros(3)}, "templates differ from the content that was written"),
    ({"n_sequences": np.zeros(3)}, "n_sequences differ from the content that was written"),
    ({"version": np.zeros(3)}, "version differ from the content that was written"),
    ({"model": srsly.msgpack_dumps({"format": "spacy_crfseq.LinearChainCRF", "version": 99})}, "newer release"),
    ({"model": srsly.msgpack_dumps({"format": np.zeros(3), "version": 1})}, "no spacy_crfseq model"),
    ({"functions": {"a": 1}}, "other feature templates"),
])  # fmt: skip
def test_a_model_file_with_other_entries(changed: dict[str, Any], said: str, fitted: Language) -> None:
    other, data = blank("crf_ner", **OWLQN), stored_again(fitted, **changed)
    if said:
        with pytest.raises(ModelFileError, match=said):
            pipe_of(other).from_bytes(data)
    else:
        pipe_of(other).from_bytes(data)
        assert predictions(other, "crf_ner") == predictions(fitted, "crf_ner")


def test_a_new_label_has_to_be_seen_everywhere() -> None:
    nlp = initialized("crf_ner", PERCEPTRON)
    whole = examples(nlp, "crf_ner", repeat=2)
    nlp.update(whole)
    pipe_of(nlp).add_label("NEW")
    nlp.update(whole[:1])
    assert n_features(copied(nlp, "crf_ner", PERCEPTRON)) == n_features(nlp)
    nlp.update(whole)
    assert n_features(copied(nlp, "crf_ner", PERCEPTRON)) < n_features(nlp)
