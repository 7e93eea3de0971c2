"""Training that continues from a trained component: what it takes over, what it minimises, what it refuses."""

import random
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.pipeline.start_from import aligned, penalty_factor
from spacy_crfseq.potentials.layout import DenseRows, Layout, cells
from spacy_crfseq.potentials.values import Values
from spacy_crfseq.regularizers.none import NoRegularizer
from tests.pipeline.helpers import (
    LBFGS,
    LBFGS_TIGHT,
    SCORES,
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
    result: dict[tuple[Any, str], float] = dict(zip(keys, crf.views.unigrams.tolist(), strict=True))
    for i, label in enumerate(crf.labels):
        result.update({("start", label): crf.views.start[i], ("end", label): crf.views.end[i]})
        result.update({(label, other): crf.views.transitions[i, j] for j, other in enumerate(crf.labels)})
    return result


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


def test_without_transitions_new_labels_have_none() -> None:
    features = {"features": templates("LOWER[0]", bigram_templates=["LOWER[0]"]), "transitions": False}
    nlp = gone_on(trained(**{**ALL, **features}), **features)
    assert "U-DRINK" in pipe_of(nlp).tags
    assert not pipe_of(nlp).crf.views.transitions.any()


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
    ents = [prediction["ents"] for prediction in predictions(nlp, "crf_ner")[:5]]
    assert ents == [prediction["ents"] for prediction in predictions(old, "crf_ner")[:5]]


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
    marginals = [
        pipe_of(pipeline).marginals(new_examples(pipeline)[0].predicted)
        for pipeline in (spacy.load(tmp_path / "m"), nlp)
    ]
    np.testing.assert_allclose(marginals[0], marginals[1], atol=1e-12)


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
def test_a_start_that_does_not_fit_the_config_is_refused(factory: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pipe_of(blank(factory, **config)).start_from(pipe_of(trained(optimizer=LBFGS)))
    with pytest.raises(ConfigError, match="has no model yet"):
        pipe_of(blank()).start_from(pipe_of(blank()))


# --- components that are initialized without training data and meet their examples one by one, as in spaCy's tutorials


TEXTS = [
    ("Who is Shaka Khan?", [(7, 17, "PERSON")]),
    ("I like London and Berlin.", [(7, 13, "LOC"), (18, 24, "LOC")]),
    ("hello there", []),
]


def tutorial_example(nlp: Language, text: str, entities: list[tuple[int, int, str]]) -> Example:
    return Example.from_dict(nlp.make_doc(text), {"entities": entities})


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [("AdaGrad", {}), ("SGD", {"support": "observed"}), ("LBFGS", {"min_count": 2}), ("AdaGrad", {"keep_names": True})],
)
def test_the_loop_of_the_tutorials(optimizer: str, settings: dict[str, Any]) -> None:
    nlp = spacy.blank("en")
    block = {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"}
    ner: Any = nlp.add_pipe("crf_ner", config={"optimizer": block, **settings})
    ner.add_label("PERSON")
    nlp.initialize()
    assert [token.ent_iob_ for token in nlp("I like London")] == ["O"] * 3
    texts = [*TEXTS]
    for seed in range(12):
        random.Random(seed).shuffle(texts)
        for text, entities in texts:
            nlp.update([tutorial_example(nlp, text, entities)])
    assert ner.labels == ("LOC", "PERSON"), "labels of spans come with the examples"
    for text, entities in TEXTS:
        assert [(ent.start_char, ent.end_char, ent.label_) for ent in nlp(text).ents] == entities
    names = ner.doc_model.feature_names
    assert len(names) == (sum(map(len, ner.crf.keys)) if settings.get("keep_names") else 0)


def test_the_model_becomes_that_of_the_whole_corpus(factory: str) -> None:
    closed, open_ = trained(factory), spacy.blank("xx")
    pipe: Any = open_.add_pipe(factory)
    for label in pipe_of(closed).labels:
        pipe.add_label(label)
    open_.initialize()
    batches = [[example] for example in examples(open_, factory)]
    for batch in [*batches, *batches, *batches]:
        open_.update(batch)
    for keys, wanted in zip(pipe.crf.keys, pipe_of(closed).crf.keys, strict=True):
        assert set(keys) == set(wanted)
    assert open_.evaluate(examples(open_, factory))[SCORES[factory]] > 0.9


def test_weights_are_carried_over() -> None:
    nlp = spacy.blank("en")
    ner: Any = nlp.add_pipe("crf_ner")
    nlp.initialize()
    first, second = (tutorial_example(nlp, *text) for text in TEXTS[:2])
    for _ in range(10):
        nlp.update([first])
    doc, tags = nlp.make_doc(TEXTS[0][0]), ner.tags
    [before], transitions = ner.model.predict([doc]), ner.crf.views.transitions.copy()
    assert before.any()
    ner.training.update([second], {})  # features and labels come; the optimizer has not worked on them yet
    [after] = ner.model.predict([doc])
    assert len(ner.tags) > len(tags) == before.shape[1]
    np.testing.assert_allclose(after[:, : len(tags)], before, atol=1e-6)
    np.testing.assert_array_equal(ner.crf.views.transitions[: len(tags), : len(tags)], transitions)


@pytest.mark.parametrize("given", [True, False])
def test_fit_after_it(given: bool) -> None:
    nlp = spacy.blank("xx")
    ner: Any = nlp.add_pipe("crf_ner")
    nlp.initialize()
    if not given:
        with pytest.raises(DataError, match="give examples to fit"):
            ner.fit()
        return
    ner.fit(examples(nlp))
    assert nlp.evaluate(examples(nlp))["ents_f"] == 1.0


def test_a_tagger_needs_labels() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_tagger")
    with pytest.raises(DataError, match="add_label before"):
        nlp.initialize()


def test_a_model_that_is_loaded_does_not_grow() -> None:
    nlp, other = trained("crf_ner"), spacy.blank("xx")
    ner: Any = other.add_pipe("crf_ner")
    other.initialize()
    ner.from_bytes(pipe_of(nlp).to_bytes())
    keys = [set(keys) for keys in ner.crf.keys]
    other.update(examples(other)[:1])
    assert [set(keys) for keys in ner.crf.keys] == keys


def test_labels_of_a_trained_model_stay() -> None:
    nlp = trained("crf_ner")
    labels = pipe_of(nlp).labels
    nlp.initialize()
    assert pipe_of(nlp).labels == labels


def test_negative_labels() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner")
    with pytest.raises(DataError, match=r"'!PERSON' begins with '!'.*incorrect_spans_key"):
        nlp.initialize(lambda: [tutorial_example(nlp, "Who is Shaka Khan?", [(7, 17, "!PERSON")])])


def test_negative_tags_of_a_tagger() -> None:
    nlp = trained("crf_tagger")
    doc = nlp("Anna saw Oslo")
    tag = doc[0].tag_
    wrong = Example.from_dict(nlp.make_doc(doc.text), {"tags": [f"!{tag}", doc[1].tag_, doc[2].tag_]})
    for _ in range(30):
        nlp.update([wrong])
    result = nlp(doc.text)
    assert result[0].tag_ != tag
    assert f"!{tag}" not in pipe_of(nlp).labels


def test_a_second_recognizer_adds_to_what_the_first_left_outside() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner", name="first")
    nlp.initialize()
    second = trained("crf_ner")
    doc = nlp("Anna saw Oslo")
    assert not doc.ents
    doc.set_ents([], blocked=[Span(doc, 2, 3)], default="unmodified")
    assert [ent.text for ent in pipe_of(second)(doc).ents] == ["Anna"]
    assert doc[2].ent_iob_ == "B", "blocked, as it was"
    assert not doc[2].ent_type_


def test_a_model_stored_early_has_all_features() -> None:
    nlp = spacy.blank("en")
    block = {"@crf_optimizers": "spacy_crfseq.AveragedPerceptron.v1"}
    methods = {"optimizer": block, "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"}}
    none = {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"}
    config = {**methods, "regularizer": none}
    ner: Any = nlp.add_pipe("crf_ner", config=config)
    nlp.initialize()
    nlp.update([tutorial_example(nlp, *TEXTS[0])])
    new = [tutorial_example(nlp, *text) for text in TEXTS[1:]]
    ner.training.update(new, {})
    again: Any = spacy.blank("en").add_pipe("crf_ner", config=config).from_bytes(ner.to_bytes())
    assert again.crf.layout.size == ner.crf.layout.size


class Others(Values):
    """Numbers of another kind."""


def test_a_potential_of_another_kind_begins_with_zeros() -> None:
    old = blank("crf_ner", **ALL, potentials={"more": registered("potentials", "Values")})
    corpus = examples(old)
    for example in corpus:
        example.predicted._.crf_attributes = [[("length", 0.5)] for _ in example.predicted]
    initialize(old, corpus)
    source, model = pipe_of(old).doc_model, pipe_of(blank("crf_ner", **ALL)).doc_model
    source.crf.added_views[0][:] = 1.0
    model.set_tags(source.labels.tags)
    for kind in (Others, Values):
        model.use_method(model.method._replace(potentials={"more": kind()}))
        crf = aligned(source, model)
        assert type(crf.added_potentials[0]) is kind
        assert crf.added_views[0].any() == (kind is Values)


@pytest.mark.parametrize(
    ("before", "now", "factor"), [(0, 5, 5.0), (5, 5, 5.0), (10, 5, 9.0), (5, 0, 21.0), (0, 0, 5.0)]
)
def test_the_penalty_grows_with_the_texts_behind_the_weights(before: int, now: int, factor: float) -> None:
    assert penalty_factor(before, now) == factor


def test_a_layout_united_with_another_has_the_steps_of_both() -> None:
    rows = DenseRows(2, 2)
    first, other = np.array([[True, False], [False, False]]), np.array([[False, True], [False, False]])
    layouts = [Layout(2, rows, rows, steps, True) for steps in (first, other, None)]
    result = layouts[0].united(layouts[1])
    assert result.steps is not None
    assert result.steps.tolist() == [[True, True], [False, False]]
    assert layouts[0].united(layouts[2]).steps is None
    assert layouts[2].united(layouts[0]).steps is None
