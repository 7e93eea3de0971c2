"""The three components as spaCy sees them: training, labels, storage, prediction and the manners of a good citizen."""

import itertools
import math
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.schemes import tags_of
from tests.pipeline.helpers import (
    LBFGS_TIGHT,
    SCORES,
    SENTENCES,
    annotation,
    bare_doc,
    blank,
    examples,
    gold_doc,
    initialize,
    initialized,
    input_doc,
    inputs,
    pipe_of,
    predictions,
    registered,
    templates,
    trained,
    triples,
    words_of,
)


@pytest.fixture(scope="module", params=["IOB2", "BILUO"])
def ner_of_scheme(request: pytest.FixtureRequest) -> Language:
    return trained("crf_ner", scheme=request.param)


def losses_of(nlp: Language, factory: str, steps: int, **update: Any) -> list[float]:
    corpus = examples(nlp, factory)
    return [nlp.update(corpus, losses={}, **update)[factory] for _ in range(steps)]


def spans(doc: Doc) -> list[tuple[int, int, str]]:
    return triples(doc.ents)


# Training


def test_update_learns(factory: str) -> None:
    nlp = initialized(factory)
    losses = losses_of(nlp, factory, 12)
    assert all(math.isfinite(loss) and loss >= 0 for loss in losses)
    assert losses[-1] < losses[0] / 3
    assert nlp.evaluate(examples(nlp, factory))[SCORES[factory]] == 1.0
    key = {"crf_tagger": "tags", "crf_ner": "ents", "crf_chunker": "spans"}[factory]
    for example in examples(nlp, factory):
        assert annotation(nlp(example.predicted))[key] == annotation(example.reference)[key]


def test_fit(factory: str) -> None:
    nlp = initialized(factory)
    pipe = pipe_of(nlp)
    seen: list[int] = []
    result = pipe.fit(dev=examples(nlp, factory), callback=lambda progress: seen.append(progress.iteration))
    assert seen == [progress.iteration for progress in result.history]
    assert (pipe.crf.theta == result.best).all()
    assert nlp.evaluate(examples(nlp, factory))[SCORES[factory]] == result.best_score == 1.0
    shown = f"<FitResult: {len(seen)} iterations; {result.reason}; best score 1.0000; {len(result.best):,} parameters>"
    assert repr(result) == shown
    before = pipe.crf.theta.copy()
    assert "score" not in repr(pipe.fit(examples(nlp, factory)))
    assert not (pipe.crf.theta == before).all()


def test_a_loss_is_the_mean_per_token(factory: str) -> None:
    """The first pass of a batch optimizer begins at zero, where all labellings are equally likely."""
    optimizer = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "max_iterations": 1}
    nlp = initialized(factory, optimizer=optimizer, precision="float64")
    pipe = pipe_of(nlp)
    corpus = examples(nlp, factory)
    tokens = sum(len(example.reference) for example in corpus)
    assert not pipe.crf.theta.any()
    progress = pipe.fit().history[-1]
    assert progress.report.loss / tokens < math.log(len(pipe.tags))
    nlp.initialize(lambda: examples(nlp, factory))
    assert nlp.update(corpus)[factory] == pytest.approx(progress.report.loss / tokens)


def shuffled_batches(corpus: list[Example], size: int, epochs: int) -> Iterator[list[Example]]:
    order = random.Random(0)
    for _ in range(epochs):
        order.shuffle(corpus)
        yield from (corpus[i : i + size] for i in range(0, len(corpus), size))


@pytest.mark.parametrize("size", [2, 100])
def test_a_batch_optimizer_needs_no_special_batches(factory: str, size: int) -> None:
    config = {"optimizer": LBFGS_TIGHT, "precision": "float64"}
    fitted = trained(factory, **config)
    nlp = initialized(factory, **config)
    corpus = examples(nlp, factory)
    for batch in shuffled_batches(corpus, size, 300):
        nlp.update(batch)
    theta = pipe_of(nlp).crf.theta.copy()
    np.testing.assert_allclose(theta, pipe_of(fitted).crf.theta, atol=1e-3)
    for _ in range(3):
        assert math.isfinite(nlp.update(corpus)[factory])
    assert (pipe_of(nlp).crf.theta == theta).all()


def test_batches_are_collected_where_the_size_of_the_epoch_is_unknown(tmp_path: Path) -> None:
    """A loaded component was not initialized, so that the epoch ends where an example comes again."""
    nlp = initialized("crf_ner", optimizer=LBFGS_TIGHT)
    nlp = pickle.loads(pickle.dumps(nlp))
    losses = [nlp.update(batch)["crf_ner"] for batch in shuffled_batches(examples(nlp), 2, 60)]
    assert losses[0] == 0
    assert 0 < losses[-1] < 0.5
    assert nlp.evaluate(examples(nlp))["ents_f"] == 1.0


def test_inner_iterations() -> None:
    """Three updates of two iterations are six updates of one."""
    thetas = []
    for inner, steps in ((1, 6), (2, 3)):
        nlp = initialized("crf_ner", optimizer=LBFGS_TIGHT, inner_iterations=inner)
        losses_of(nlp, "crf_ner", steps)
        thetas.append(pipe_of(nlp).crf.theta)
    assert (thetas[0] == thetas[1]).all()


def test_accumulated_gradients() -> None:
    """Two halves taken in before one step are the whole taken in at once."""
    thetas, losses = [], []
    for parts in (1, 2):
        nlp = initialized("crf_ner", optimizer={"@crf_optimizers": "spacy_crfseq.SGD.v1", "rate": 0.5})
        pipe, corpus, result = pipe_of(nlp), examples(nlp, repeat=2), {}
        for first in range(0, len(corpus), len(corpus) // parts):
            pipe.update(corpus[first : first + len(corpus) // parts], sgd=None if parts == 1 else False, losses=result)
        assert result == {"crf_ner": 0.0}
        pipe.finish_update(None)
        thetas.append(pipe.crf.theta)
        losses.append(result["crf_ner"])
    assert (thetas[0] == thetas[1]).all()
    assert losses[0] == pytest.approx(losses[1])
    assert losses[0] > 0


def test_missing_tags_are_not_learnt() -> None:
    nlp = blank("crf_tagger")
    example = Example(bare_doc(nlp, [*"aba"]), Doc(nlp.vocab, words=[*"aba"], tags=["X", "", "X"]))
    assert pipe_of(initialize(nlp, [example])).tags == ("X",)
    assert nlp.update([example])["crf_tagger"] == 0
    assert [token.tag_ for token in nlp("a b a")] == ["X", "X", "X"]


def test_other_tokenization_of_the_gold_standard(factory: str) -> None:
    """The reference has one token where the pipeline makes two; what can be aligned is learnt."""
    nlp = blank(factory)
    ents, tags = ["B-PER", "O", "B-LOC"], ["NNP", "VBD", "NNP"]
    reference = Doc(nlp.vocab, words=["Anna", "saw", "Stratford-upon-Avon"], ents=ents, tags=tags)
    reference.spans["chunks"] = [Span(reference, 0, 1, "NP"), Span(reference, 2, 3, "NP")]
    words = ["Anna", "saw", "Stratford", "-", "upon", "-", "Avon"]
    predicted = Doc(nlp.vocab, words=words, spaces=[True, True, False, False, False, False, False])
    assert predicted.text == reference.text.strip()
    initialize(nlp, [Example(predicted, reference)] * 4, fit=True)
    annotated = annotation(nlp(predicted.copy()))
    if factory == "crf_tagger":
        assert annotated["tags"][:2] == ["NNP", "VBD"]
    elif factory == "crf_ner":
        assert annotated["ents"] == [(0, 1, "PER"), (2, 7, "LOC")]
    else:
        assert annotated["spans"]["chunks"] == [(0, 1, "NP"), (2, 7, "NP")]


# Labels


def test_labels(factory: str, pipeline: Language) -> None:
    pipe = pipe_of(pipeline)
    columns = {"crf_tagger": 1, "crf_chunker": 4, "crf_ner": 5}
    tags = {row[columns[factory]] for rows in SENTENCES for row in rows}
    assert set(pipe.label_data) == set(pipe.tags) == tags
    types = {tag.split("-")[1] for tag in tags if tag != "O"} if factory != "crf_tagger" else tags
    assert pipe.labels == tuple(sorted(types))


@pytest.mark.parametrize(
    ("factory", "labels", "tags"),
    [
        ("crf_ner", ["PER", "LOC", "ORG", "GPE", "PER"], tags_of(["PER", "LOC", "ORG", "GPE"], "BILUO")),
        ("crf_chunker", ["NP", "VP", "PP"], tags_of(["NP", "VP", "PP"], "IOB2")),
        ("crf_chunker", ["B-NP", "I-NP", "B-VP", "O", "B-PP"], ["O", "B-NP", "I-NP", "B-VP", "B-PP"]),
        ("crf_tagger", [*"abc", *sorted({row[1] for rows in SENTENCES for row in rows}), "a"], None),
    ],
)
def test_given_labels(factory: str, labels: list[str], tags: list[str] | None) -> None:
    nlp, expected = blank(factory), tags or list(dict.fromkeys(labels))
    for given_labels in (labels, expected):
        nlp.config["initialize"]["components"][factory] = {"labels": given_labels}
        assert pipe_of(initialize(nlp, examples(nlp, factory))).label_data == expected
        losses_of(nlp, factory, 10)
        assert nlp.evaluate(examples(nlp, factory))[SCORES[factory]] == 1.0


NEW = [["Felix", "NEW", "X", "_", "B-NEW", "U-NEW"], ["sleeps", "VBZ", "VERB", "_", "B-VP", "O"]]


def new_examples(nlp: Language, factory: str) -> list[Example]:
    return [Example(input_doc(nlp, factory, NEW), gold_doc(nlp, NEW))]


def learns_the_new_label(nlp: Language, factory: str) -> None:
    corpus = [*examples(nlp, factory), *new_examples(nlp, factory)]
    for _ in range(25):
        nlp.update(corpus)
    assert nlp.evaluate(new_examples(nlp, factory) + examples(nlp, factory))[SCORES[factory]] == 1.0


def test_without_transitions_label_pairs_count_through_bigram_templates_only(factory: str) -> None:
    features = templates("LOWER[0]", bigram_templates=["LOWER[0]"])
    nlp = trained(factory, transitions=False, optimizer=LBFGS_TIGHT, features=features)
    pipe = pipe_of(nlp)
    assert pipe.crf.views.bigrams.any()
    assert pipe.crf.views.start.any()
    assert not pipe.crf.views.transitions.any()
    pipe.add_label("NEW")
    pipe.fit(examples(nlp, factory))
    assert not pipe.crf.views.transitions.any()


@pytest.mark.parametrize(
    ("factory", "support"),
    [("crf_tagger", "observed"), ("crf_chunker", "all"), ("crf_ner", "observed"), ("crf_ner", "all")],
)
def test_add_label_to_a_trained_model(factory: str, support: str) -> None:
    nlp = trained(factory, support=support, precision="float64")
    pipe = pipe_of(nlp)
    before, old, emissions = predictions(nlp, factory), pipe.tags, pipe.model.predict(inputs(nlp, factory))
    assert pipe.add_label("NEW") == 1
    assert pipe.add_label("NEW") == 0
    assert "NEW" in pipe.labels
    assert pipe.tags[: len(old)] == old
    assert predictions(nlp, factory) == before
    widened = pipe.model.predict(inputs(nlp, factory))
    assert all((wide[:, : len(old)] == narrow).all() for wide, narrow in zip(widened, emissions, strict=True))
    assert pipe.model.get_dim("nO") == len(pipe.tags)
    assert predictions(nlp.from_bytes(nlp.to_bytes()), factory) == before
    learns_the_new_label(nlp, factory)


def test_add_label_before_training(factory: str) -> None:
    nlp = blank(factory)
    pipe = pipe_of(nlp)
    assert [pipe.add_label("NEW"), pipe.add_label("OTHER")] == [1, 1]
    assert pipe.labels == ("NEW", "OTHER")
    for _ in range(2):
        initialize(nlp, examples(nlp, factory))
        assert {"NEW", "OTHER"} < set(pipe.labels)
        learns_the_new_label(nlp, factory)


def test_add_label_completes_the_tags_of_a_known_label() -> None:
    """No location of three words was seen, so that the tag of its middle is not there."""
    nlp = trained()
    words = ["New", "York", "City"]
    corpus = [Example(bare_doc(nlp, words), Doc(nlp.vocab, words=words, ents=["B-LOC", "I-LOC", "I-LOC"]))]
    with pytest.raises(DataError, match=r"'I-LOC'.*add_label\('LOC'\)"):
        nlp.update(corpus)
    assert pipe_of(nlp).add_label("LOC") == 1
    assert pipe_of(nlp).add_label("LOC") == 0
    assert pipe_of(nlp).labels == ("LOC", "ORG", "PER")
    for _ in range(20):
        nlp.update([*corpus, *examples(nlp)])
    assert spans(nlp(corpus[0].predicted)) == [(0, 3, "LOC")]


# Storage


@pytest.mark.parametrize(
    ("factory", "precision", "support", "keep_names"),
    [
        ("crf_tagger", "float32", "observed", True),
        ("crf_chunker", "float64", "all", False),
        ("crf_ner", "float32", "all", True),
        ("crf_ner", "float64", "observed", False),
    ],
)
def test_stored_and_loaded(factory: str, precision: str, support: str, keep_names: bool, tmp_path: Path) -> None:
    nlp = trained(factory, precision=precision, support=support, keep_names=keep_names)
    pipe = pipe_of(nlp)
    assert pipe.crf.theta.dtype == precision
    assert bool(pipe.doc_model.feature_names) == keep_names
    nlp.to_disk(tmp_path / "model")
    fresh = spacy.blank("xx").from_config(nlp.config)
    copies = [spacy.load(tmp_path / "model"), fresh.from_bytes(nlp.to_bytes()), pickle.loads(pickle.dumps(nlp))]
    marginals = np.concatenate(pipe.posterior(inputs(nlp, factory)).marginals())
    for copy in copies:
        assert predictions(copy, factory) == predictions(nlp, factory)
        other = pipe_of(copy)
        names = dict(zip(np.concatenate(pipe.crf.keys).tolist(), pipe.doc_model.feature_names, strict=False))
        left = np.concatenate(other.crf.keys).tolist()  # a feature without weight is not stored
        assert other.doc_model.feature_names == [names[key] for key in left if names]
        assert other.label_data == pipe.label_data
        assert other.crf.theta.dtype == precision
        assert (np.concatenate(other.posterior(inputs(copy, factory)).marginals()) == marginals).all()
    assert pipe_of(copies[0]).to_bytes(exclude=["vocab"]) == pipe.to_bytes(exclude=["vocab"])


def test_an_untrained_component_is_stored_with_its_labels() -> None:
    nlp = blank()
    pipe_of(nlp).add_label("X")
    copy = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert pipe_of(copy).labels == ("X",)
    assert pipe_of(pickle.loads(pickle.dumps(nlp))).labels == ("X",)


def test_sourced(factory: str, pipeline: Language) -> None:
    other = spacy.blank("xx")
    other.add_pipe(factory, source=pipeline)
    assert predictions(other, factory) == predictions(pipeline, factory)
    words, tags = ["Wordsneverseen", "in", "Vocabulariesunknown"], ["NNP", "IN", "NNP"]
    assert annotation(other(bare_doc(other, words, tags))) == annotation(pipeline(bare_doc(pipeline, words, tags)))


def test_a_gazetteer(tmp_path: Path) -> None:
    """A word list tells unknown words apart, and travels with the model."""
    (tmp_path / "cities.txt").write_text("Oslo\nBern\nRome\n")
    city = registered("features", "Gazetteer", path=str(tmp_path / "cities.txt"))
    features = templates("CITY", functions={"CITY": city})
    nlp = blank(features=features, regularizer=registered("regularizers", "L2", rho=0.01))
    texts = [("see", "Oslo"), ("see", "Bern"), ("see", "Anna")]
    docs = [Doc(nlp.vocab, words=words, ents=["O", "O" if words[1] == "Anna" else "B-LOC"]) for words in texts]
    initialize(nlp, [Example(bare_doc(nlp, words_of(doc)), doc) for doc in docs], fit=True)
    nlp.to_disk(tmp_path / "model")
    (tmp_path / "cities.txt").unlink()
    for pipeline in (nlp, spacy.load(tmp_path / "model"), pickle.loads(pickle.dumps(nlp))):
        assert [len(pipeline(text).ents) for text in ("see Rome", "see Bob")] == [1, 0]


# Prediction


def test_prediction_before_training(factory: str) -> None:
    nlp = blank(factory)
    for act in (
        lambda: nlp("Anna"),
        lambda: pipe_of(nlp).crf,
        lambda: pipe_of(nlp).marginals(bare_doc(nlp, ["a"])),
        lambda: pipe_of(nlp).update(examples(nlp, factory)),
        lambda: pipe_of(nlp).fit(examples(nlp, factory)),
        lambda: pipe_of(nlp).prune(),
    ):
        with pytest.raises(ConfigError, match=rf"{factory}.*no model yet.*initialize"):
            act()


def test_short_docs(factory: str, pipeline: Language) -> None:
    tags = None if factory == "crf_tagger" else ["NN"]
    tagged = [bare_doc(pipeline, [word], tags) for word in ("Anna", "  ")]
    docs = [Doc(pipeline.vocab), *tagged, Doc(pipeline.vocab), pipeline.make_doc("\n")]
    one_by_one = [annotation(pipeline(doc.copy())) for doc in docs]
    assert [annotation(doc) for doc in pipeline.pipe([doc.copy() for doc in docs])] == one_by_one
    assert all(doc["ents"] == [] for doc in one_by_one[2:])
    assert [annotation(doc) for doc in pipeline.pipe([Doc(pipeline.vocab)])] == [one_by_one[0]]
    assert list(pipeline.pipe([])) == []
    pipe = pipe_of(pipeline)
    answers = pipe.posterior(docs)
    assert [table.shape for table in answers.marginals()] == [(len(doc), len(answers.tags)) for doc in docs]
    assert answers.tags[: len(pipe.tags)] == pipe.tags
    assert [table.shape for table in pipe.model.predict(docs)] == [(len(doc), len(pipe.tags)) for doc in docs]
    assert len(pipe.predict([]).labels) == 0


def test_batches_do_not_matter(factory: str, pipeline: Language) -> None:
    expected = predictions(pipeline, factory)
    for size in (1, 3, 1000):
        assert [annotation(doc) for doc in pipeline.pipe(inputs(pipeline, factory), batch_size=size)] == expected


@contextmanager
def random_weights(nlp: Language, seed: int) -> Iterator[None]:
    pipe = pipe_of(nlp)
    kept = pipe.crf.theta.copy()
    try:
        pipe.set_parameters(np.random.default_rng(seed).normal(0, 3, len(kept)).astype(kept.dtype))
        yield
    finally:
        pipe.set_parameters(kept)


def valid_entities(doc: Doc) -> None:
    """Check the rules that any prediction obeys; spaCy itself refuses overlaps."""
    for ent in doc.ents:
        assert not any(token.is_sent_start for token in ent[1:])
        assert not ent[0].is_space
        assert not ent[-1].is_space
        assert ent.label_ in ("PER", "LOC", "ORG")
    iob = [token.ent_iob_ for token in doc]
    assert all(tag in "OBI" and tag for tag in iob)
    assert not any(b == "I" and a not in "BI" for a, b in itertools.pairwise(["O", *iob]))


TEXT = st.lists(
    st.sampled_from(["Anna", "Bob", "New", "York", "Bank", "of", "Norway", "Oslo", " ", "\n", "\t ", ".", "saw"])
    | st.text(min_size=1, max_size=5),
    max_size=12,
).map(" ".join)


@settings(max_examples=80)
@given(seed=st.none() | st.integers(0, 1 << 31), text=TEXT, starts=st.lists(st.booleans(), min_size=40, max_size=40))
def test_entities_are_valid(ner_of_scheme: Language, seed: int | None, text: str, starts: list[bool]) -> None:
    """In any text, with the weights that were learnt and with any others."""
    doc = ner_of_scheme.make_doc(text)
    for token, start in zip(doc, starts, strict=False):
        token.is_sent_start = start
    with random_weights(ner_of_scheme, seed) if seed is not None else nullcontext():
        valid_entities(ner_of_scheme(doc))


@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 1 << 31))
def test_preset_entities_stay(ner_of_scheme: Language, data: st.DataObject, seed: int) -> None:
    """Whatever the weights, entities and blocked tokens of earlier components are kept, sentence starts or not."""
    nlp = ner_of_scheme
    words = data.draw(st.lists(st.sampled_from(["Anna", "York", "Bank", "of", "  ", "Oslo"]), min_size=1, max_size=8))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(words)))))
    labels = data.draw(st.lists(st.sampled_from(["PER", "LOC", "ORG", "OTHER", ""]), min_size=9, max_size=9))
    doc = Doc(nlp.vocab, words=words)
    for i in data.draw(st.sets(st.integers(0, len(words) - 1))):
        doc[i].is_sent_start = True
    parts = [(doc[a:b], label) for (a, b), label in zip(itertools.pairwise(cuts), labels, strict=False)]
    old = [Span(doc, part.start, part.end, label) for part, label in parts if label]
    blocked = [part for part, label in parts if not label]
    doc.set_ents(old, blocked=blocked)
    expected = spans(doc)
    with random_weights(nlp, seed):
        nlp(doc)
    assert set(expected) <= set(spans(doc))
    for span in blocked:
        assert not any(token.ent_type_ for token in span)
    new = [Span(doc, *span) for span in spans(doc) if span not in expected]
    assert not any(token.is_sent_start for span in new for token in span[1:])
    assert all(token.ent_iob != 0 for token in doc)


def test_preset_entities_of_white_space_alone_stay() -> None:
    nlp = trained()
    doc = Doc(nlp.vocab, words=["  ", "Anna", "\n", "in", "Oslo"])
    doc.set_ents([Span(doc, 0, 1, "PER"), Span(doc, 2, 3, "ORG")])
    assert {(0, 1, "PER"), (2, 3, "ORG")} <= set(spans(nlp(doc)))
    alone = Doc(nlp.vocab, words=["  "])
    alone.set_ents([Span(alone, 0, 1, "PER")])
    assert spans(nlp(alone)) == [(0, 1, "PER")]


def test_an_entity_ruler_before() -> None:
    nlp = trained()
    ruler = nlp.add_pipe("entity_ruler", before="crf_ner")
    patterns = [("GPE", "New York"), ("PER", "Oslo"), ("ORG", "of Norway"), ("LOC", "St. Louis")]
    ruler.add_patterns([{"label": label, "pattern": text, "id": text.lower()} for label, text in patterns])
    doc = nlp("Anna lives in New York . Bank of Norway lends Oslo")
    assert {(0, 1, "PER"), (3, 5, "GPE"), (7, 9, "ORG"), (10, 11, "PER")} <= set(spans(doc))
    assert doc[3].ent_id_ == "new york"
    nlp.add_pipe("sentencizer", before="entity_ruler")
    start = Doc(nlp.vocab, words=["in", "St.", "Louis"], sent_starts=[True, False, True])
    start.set_ents([Span(start, 1, 3, "LOC")])
    assert (1, 3, "LOC") in spans(nlp.get_pipe("crf_ner")(start))


# Probabilities


# The tagger's settings


@pytest.mark.parametrize(("attr", "column"), [("tag", 1), ("pos", 2), ("morph", 3)])
def test_attributes(attr: str, column: int, tmp_path: Path) -> None:
    nlp, key = trained("crf_tagger", attr=attr), {"tag": "tags"}.get(attr, attr)
    assert nlp.evaluate(examples(nlp))[f"{attr}_acc"] == 1.0
    for example, rows in zip(examples(nlp), SENTENCES, strict=True):
        annotated = annotation(nlp(example.predicted))
        assert annotated[key] == [row[column].replace("_", "") for row in rows]
        assert not any(any(annotated[name]) for name in {"tags", "pos", "morph"} - {key})
    nlp.to_disk(tmp_path)
    assert predictions(spacy.load(tmp_path), "crf_tagger") == predictions(nlp, "crf_tagger")


def test_empty_features_count_in_the_score() -> None:
    """A token whose features are known to be none is scored, as spaCy's morphologizer does."""
    nlp = trained("crf_tagger", attr="morph")
    reference = Doc(nlp.vocab, words=["Anna", "in"], morphs=["Tense=Past", ""])
    assert nlp.evaluate([Example(bare_doc(nlp, ["Anna", "in"]), reference)])["morph_acc"] == 0.5


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("attr", ["tag", "pos", "morph"])
def test_overwrite(attr: str, overwrite: bool) -> None:
    nlp = trained("crf_tagger", attr=attr, overwrite=overwrite)
    field = {"tag": "tags"}.get(attr, attr)
    words = [row[0] for row in SENTENCES[0]]
    preset = {"tag": "XYZ", "pos": "X", "morph": "Foo=Bar"}[attr]
    doc = bare_doc(nlp, words)
    if attr == "morph":
        doc[0].set_morph(preset)
    else:
        setattr(doc[0], f"{attr}_", preset)
    annotated = annotation(nlp(doc))[field]
    untouched = annotation(nlp(bare_doc(nlp, words)))[field]
    assert annotated == (untouched if overwrite else [preset, *untouched[1:]])


def test_two_of_a_kind() -> None:
    """Two chunkers under two names and two keys do not mix."""
    nlp = spacy.blank("xx")
    for name in ("one", "two"):
        nlp.add_pipe("crf_chunker", name=name, config={"spans_key": name})
    corpus = examples(nlp, "crf_chunker")
    for example in corpus:
        chunks = list(example.reference.spans["chunks"])
        example.reference.spans["one"] = [span for span in chunks if span.label_ == "NP"]
        example.reference.spans["two"] = [span for span in chunks if span.label_ != "NP"]
    initialize(nlp, corpus)
    for _ in range(10):
        assert set(nlp.update(corpus)) == {"one", "two"}
    assert pipe_of(nlp, "one").labels == ("NP",)
    assert pipe_of(nlp, "two").labels == ("PP", "VP")
    scores = nlp.evaluate(corpus)
    assert scores["spans_one_f"] == scores["spans_two_f"] == 1.0
