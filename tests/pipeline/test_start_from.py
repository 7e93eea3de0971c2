"""Training that continues from a trained component: what it takes over, what it minimises, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.potentials.layout import cells
from spacy_crfseq.regularizers.none import NoRegularizer
from tests.pipeline.helpers import (
    LBFGS,
    LBFGS_TIGHT,
    WEAK,
    bare_doc,
    blank,
    examples,
    initialize,
    pipe_of,
    predictions,
    registered,
    templates,
    trained,
)  # fmt: skip

OLD, NEW = templates("LOWER[0]", "SUFFIX2[0]", "SHAPE[-1]"), templates("IS_TITLE[1]", "LOWER[0]", "SHAPE[-1]")
ALL = {"features": OLD, "optimizer": LBFGS, **WEAK}


def new_examples(nlp: Language) -> list[Example]:
    words = ["Zed", "drinks", "Akvavit", "in", "Oslo"]
    reference = Doc(
        nlp.vocab, words=words, tags=["NNP", "VBZ", "XX", "IN", "NNP"], ents=["B-PER", "O", "B-DRINK", "O", "B-LOC"]
    )
    predicted = bare_doc(nlp, words)
    predicted._.crf_attributes = [["n"], [("new", 0.5)], [], [], []]
    return [Example(predicted, reference)]


def gone_on(old: Language, factory: str = "crf_ner", fit: bool = True, **config: Any) -> Language:
    nlp = blank(factory, **{**ALL, **config})
    pipe_of(nlp).start_from(pipe_of(old))
    return initialize(nlp, new_examples(nlp), fit)


def weights_of(crf: LinearChainCRF) -> dict[tuple[Any, str], float]:
    """Return the weight of each feature and label, of each transition, and of each start and end."""
    rows, columns = np.divmod(cells(crf.layout.unigrams), len(crf.labels))
    keys = [(key, crf.labels[label]) for key, label in zip(crf.keys[0][rows].tolist(), columns.tolist(), strict=True)]
    found: dict[tuple[Any, str], float] = dict(zip(keys, crf.views.unigrams.tolist(), strict=True))
    for i, label in enumerate(crf.labels):
        found.update({("start", label): crf.views.start[i], ("end", label): crf.views.end[i]})
        found.update({(label, other): crf.views.transitions[i, j] for j, other in enumerate(crf.labels)})
    return found


@pytest.mark.parametrize("settings", [{}, {"support": "all"}, {"min_count": 2, "keep_names": True}])
@pytest.mark.parametrize("pruned", [False, True])
def test_all_that_was_learned_is_kept_and_all_else_is_zero(settings: dict[str, Any], pruned: bool) -> None:
    old = trained(**ALL, **settings)
    if pruned:
        pipe_of(old).prune(0.01)
    nlp = gone_on(old, fit=False, features=NEW, **settings)
    before, after = weights_of(pipe_of(old).crf), weights_of(pipe_of(nlp).crf)
    suffixes = {key for key, template in zip(*_features(old), strict=True) if template == "SUFFIX2[0]"}
    kept = {place: weight for place, weight in before.items() if place[0] not in suffixes}
    assert kept.items() <= after.items()
    assert not any(weight for place, weight in after.items() if place not in kept)
    assert pipe_of(nlp).tags[: len(pipe_of(old).tags)] == pipe_of(old).tags
    assert "U-DRINK" in pipe_of(nlp).tags
    assert {template for _, template in zip(*_features(nlp), strict=True)} <= {"LOWER[0]", "SHAPE[-1]", "IS_TITLE[1]"}
    names = pipe_of(nlp).doc_model.feature_names
    if settings.get("keep_names"):
        assert sorted(name.split("=")[0] for name in names) == sorted(_features(nlp)[1])


def _features(nlp: Language) -> tuple[list[int], list[str]]:
    crf = pipe_of(nlp).crf
    assert crf.templates is not None
    plan = pipe_of(nlp).doc_model.features.plans()[0]
    return crf.keys[0].tolist(), [plan.templates[number].name for number in crf.templates[0].tolist()]


@pytest.mark.parametrize("added", [{}, {"tag_dictionary_size": 50, "tag_dictionary_min_count": 1}])
def test_without_new_labels_predictions_begin_as_they_were(added: dict[str, Any]) -> None:
    old = trained("crf_tagger", **ALL, **added)
    nlp = blank("crf_tagger", **ALL, **added)
    pipe_of(nlp).start_from(pipe_of(old))
    initialize(nlp, examples(nlp)[:1])
    assert predictions(nlp, "crf_tagger") == predictions(old, "crf_tagger")
    words = [set(pipe.crf.dictionary.words.tolist()) for pipe in map(pipe_of, (old, nlp)) if pipe.crf.dictionary]
    assert not added or words[0] == words[1]


def test_the_penalty_is_on_changes_of_the_weights() -> None:
    old = trained(**ALL)
    nlp = gone_on(old, fit=False, optimizer=LBFGS_TIGHT)
    pipe = pipe_of(nlp)
    base = pipe.crf.theta.copy()
    with pipe.training.training_on() as (objective, _):
        loss = objective.under(NoRegularizer())
    initialize(nlp, new_examples(nlp), fit=True)
    crf, factor = pipe.crf, 1 + 4 * 5  # of five sentences behind the old weights, for the new one
    changes, slopes = weights_of(crf.at(crf.theta - base)), weights_of(crf.at(loss.value_and_grad(crf.theta)[2]))
    for place, change in changes.items():
        new = any(str(label).endswith("-DRINK") for label in place)
        assert slopes[place] == pytest.approx(-3.0 * (1 if new else factor) * change, abs=1e-5)
    assert pipe.doc_model.n_sequences == 6


@pytest.mark.parametrize(
    ("optimizer", "more"),
    [
        ("AdaGrad", {}),
        ("SGD", {}),
        ("RPROP", {}),
        ("OWLQN", {"regularizer": registered("regularizers", "ElasticNet", rho1=0.01, rho2=0.01)}),
        ("FISTA", {"regularizer": registered("regularizers", "GroupLasso", rho=0.01)}),
        (
            "AveragedPerceptron",
            {"loss": registered("losses", "Perceptron"), "regularizer": registered("regularizers", "NoRegularizer")},
        ),
    ],
)
def test_optimizers_learn_a_new_label_and_keep_the_old_ones(optimizer: str, more: dict[str, Any]) -> None:
    block = {
        "optimizer": registered("optimizers", optimizer),
        "regularizer": registered("regularizers", "L2", rho=0.01),
    }
    old = trained(**{**ALL, "regularizer": block["regularizer"]})
    nlp = gone_on(old, **{**block, **more})
    assert {(ent.text, ent.label_) for ent in nlp(new_examples(nlp)[0].predicted).ents} >= {("Akvavit", "DRINK")}
    found = [one["ents"] for one in predictions(nlp, "crf_ner")[:5]]
    assert found == [one["ents"] for one in predictions(old, "crf_ner")[:5]]


def test_stages_and_numbers_go_on_and_are_stored(tmp_path: Any) -> None:
    attributes = {"around": registered("attributes", "DocumentLabels")}
    config = {
        **ALL,
        "attributes": attributes,
        "potentials": {"numbers": registered("potentials", "Values", function=None)},
    }
    old = blank(**config)
    corpus = examples(old)
    for example in corpus:
        example.predicted._.crf_attributes = [["n", ("long", len(token) / 9)] for token in example.predicted]
    initialize(old, corpus, fit=True)
    nlp = gone_on(old, fit=False, **config)
    before, after = pipe_of(old), pipe_of(nlp)
    places = [after.tags.index(tag) for tag in before.tags]
    values = [pipe.crf.added_views[0].reshape(-1, len(pipe.tags)) for pipe in (before, after)]
    names: Any = [pipe.crf.small[0].keys for pipe in (before, after)]
    rows = np.isin(names[1], names[0])
    assert rows.tolist().count(False) == 1
    np.testing.assert_array_equal(values[1][np.ix_(rows, places)], values[0])
    assert after.fit().history
    nlp.to_disk(tmp_path / "m")
    found = [pipe_of(one).marginals(new_examples(one)[0].predicted) for one in (spacy.load(tmp_path / "m"), nlp)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


@pytest.mark.parametrize(
    ("factory", "config", "message"),
    [
        ("crf_tagger", {}, "whose task is"),
        ("crf_ner", {"scheme": "IOB2"}, "with the scheme BILUO"),
        ("crf_ner", {"max_features": 9}, "max_features = 0"),
        ("crf_ner", {"optimizer": registered("optimizers", "BlockCoordinateDescent")}, "LBFGS"),
        ("crf_ner", {"features": templates("LANG[0]")}, "none of its templates"),
    ],
)
def test_what_cannot_go_on_is_refused(factory: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pipe_of(blank(factory, **config)).start_from(pipe_of(trained(optimizer=LBFGS)))
    with pytest.raises(ConfigError, match="has no model yet"):
        pipe_of(blank()).start_from(pipe_of(blank()))
