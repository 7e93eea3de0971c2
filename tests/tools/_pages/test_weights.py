"""Weights by template and the largest ones, against a plain reading of all weights."""

from itertools import product

import numpy as np
import pytest

from spacy_crfseq.features.templates import Plan
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.pipeline import feature_names as weights_module
from spacy_crfseq.pipeline.feature_names import features_with_largest_weights
from spacy_crfseq.tools._pages.weights import entries, largest_weights, weights_by_template
from tests.problems import BIGRAM_TEMPLATES, TEMPLATES, columns_of, growing_encoder, training_problem

LABELS = ["A", "B", "C"]
EVERY_KIND = pytest.mark.parametrize(("support", "pairs"), list(product(["observed", "all"], [(), BIGRAM_TEMPLATES])))
Named = dict[tuple[str, int], float]


def make_model(support: str, pairs: tuple[str, ...]) -> tuple[LinearChainCRF, tuple[Plan, Plan], list[Named]]:
    """Return a model, a fifth of its weights zero, its plans, and its weights by attribute name and column."""
    training = training_problem(7, support=support, bigram_templates=pairs)
    encoder = growing_encoder(training.vocabulary, TEMPLATES, pairs)  # the same again, with names
    encoder.encode(columns_of(training.vocabulary, encoder, training.sentences))
    rng = np.random.default_rng(1)
    theta = training.random_theta(rng)
    theta[rng.random(len(theta)) < 0.2] = 0
    blocks = encoder.features
    templates = blocks[0].templates, blocks[1].templates
    model = LinearChainCRF(LABELS, training.layout, theta, encoder.keys, templates=templates)
    named: list[Named] = []
    for block, rows, weights, width in zip(
        blocks, (model.layout.unigrams, model.layout.bigrams), model.views, (3, 9), strict=False
    ):
        names = block.names(training.vocabulary.text_of)
        places = (
            [(i, c) for i in range(rows.n_rows) for c in range(width)]
            if support == "all"
            else [(i, c) for i in range(rows.n_rows) for c in rows.cols[rows.ptr[i] : rows.ptr[i + 1]].tolist()]
        )
        named.append({(names[i], c): w for (i, c), w in zip(places, weights.tolist(), strict=True)})
    return model, (blocks[0].plan, blocks[1].plan), named


@EVERY_KIND
def test_weights_by_template(support: str, pairs: tuple[str, ...]) -> None:
    model, plans, named = make_model(support, pairs)
    rows = weights_by_template(model, plans)
    expected_names = [t.name for plan in plans for t in plan.templates]
    assert [row.template for row in rows] == [*expected_names, "", ""]
    for row in rows[:-2]:
        mine = {
            key: weight for key, weight in named[row.kind == "bigram"].items() if key[0].startswith(f"{row.template}=")
        }
        values = np.array(list(mine.values()))
        assert row.features == len({name for name, _ in mine})
        assert (row.weights, row.nonzero) == (len(values), np.count_nonzero(values))
        assert row.squares == pytest.approx((values**2).sum())
        assert row.density == pytest.approx(np.count_nonzero(values) / len(values))
    assert [row.kind for row in rows[-2:]] == ["transitions", "boundaries"]
    assert [row.weights for row in rows[-2:]] == [9, 6]
    assert sum(row.weights for row in rows) == model.layout.size
    assert sum(row.nonzero for row in rows) == np.count_nonzero(model.theta)
    assert sum(row.squares for row in rows) == pytest.approx((model.theta**2).sum())


@EVERY_KIND
@pytest.mark.parametrize("labels", [None, [0], [1, 2]])
@pytest.mark.parametrize("template", [None, (0, 2), (1, 0)])
@pytest.mark.parametrize("number", [1, 7, 10_000])
def test_largest_weights(
    support: str, pairs: tuple[str, ...], labels: list[int] | None, template: tuple[int, int] | None, number: int
) -> None:
    model, plans, named = make_model(support, pairs)
    if template and not plans[template[0]].templates:
        template = None  # this model has no templates of that block
    chosen = [
        weight
        for block, weights in enumerate(named)
        for (name, column), weight in weights.items()
        if (labels is None or column % 3 in labels)
        and (
            template is None
            or (block == template[0] and name.startswith(f"{plans[block].templates[template[1]].name}="))
        )
    ]
    positive, negative = largest_weights(model, number, labels=labels, template=template)
    assert [entry.weight for entry in positive] == sorted((w for w in chosen if w > 0), reverse=True)[:number]
    assert [entry.weight for entry in negative] == sorted(w for w in chosen if w < 0)[:number]
    for entry in (*positive, *negative):
        column = entry.label if entry.block == 0 else 3 * entry.before + entry.label
        result = entries(model)[entry.block].look_up(np.array([entry.feature]), np.array([column]))
        assert result.tolist() == [entry.weight]
        assert labels is None or entry.label in labels


@EVERY_KIND
def test_features_to_be_named_are_those_of_the_largest_weights(
    support: str, pairs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PORTION": 5, "NAMED_OF_LABEL": 4, "NAMED_OF_TEMPLATE": 2}.items():
        monkeypatch.setattr(weights_module, name, value)
    model, plans, _ = make_model(support, pairs)
    templates = [(block, row) for block, plan in enumerate(plans) for row in range(len(plan.templates))]
    ranked = [largest_weights(model, 4, labels=[label]) for label in range(3)]
    ranked += [largest_weights(model, 2, template=template) for template in templates]
    wanted = {(row.block, row.feature) for signs in ranked for sign in signs for row in sign}
    actual = features_with_largest_weights(model)
    assert [(block, row) for block, part in enumerate(actual) for row in part.tolist()] == sorted(wanted)


@EVERY_KIND
def test_looking_up(support: str, pairs: tuple[str, ...]) -> None:
    model, *_ = make_model(support, pairs)
    for entry in entries(model):
        np.testing.assert_array_equal(entry.look_up(entry.features, entry.columns), entry.weights)
        nobody = np.full(3, -1)
        assert not entry.look_up(nobody, np.array([0, 1, 2])).any()
