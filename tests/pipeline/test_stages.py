"""Two stages: attributes that read the labels of a first stage, in training, in prediction and on disk."""

import pickle
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.features.documents import APART, DocumentLabels, DocumentWords
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.pipeline import structs
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.doc_posterior import ask
from spacy_crfseq.pipeline.first_stage import posterior_of
from spacy_crfseq.pipeline.prediction import doc_key, read_docs, with_docs, with_labels
from spacy_crfseq.pipeline.structs import read_tokens
from spacy_crfseq.tools.explain import explain
from spacy_crfseq.training.dataset import join

NLP = spacy.blank("en")
FEATURES = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["LOWER[-1..1]"]}
NAMES, TYPES = ["B-PER", "O", "U-LOC", "I-PER"], ["PER", "O", "LOC"]


@given(st.lists(st.lists(st.tuples(st.sampled_from(["Rome", "ROME", "the", "7", "Ada"]), st.integers(-1, 3)))))
def test_labels_elsewhere_are_those_of_a_search(rows: list[list[tuple[str, int]]]) -> None:
    docs = [Doc(NLP.vocab, words=[word for word, _ in sentence]) for sentence in rows]
    labels, strings = np.array([label for sentence in rows for _, label in sentence], np.int32), dict[int, str]()
    sets = DocumentLabels().read_labels("L", docs, labels, NAMES, strings)["L_ELSEWHERE"]
    actual = [[strings[v] for v in sets.values[b:e].tolist()] for b, e in zip(sets.ptr, sets.ptr[1:], strict=False)]
    expected = []
    for sentence in rows:
        for i, (word, label) in enumerate(sentence):
            same = [other for j, (text, other) in enumerate(sentence) if j != i and text.lower() == word.lower()]
            names = [NAMES[other] for other in same if other >= 0 and label >= 0 and word not in ("the", "7")]
            types = [name[-3:] for name in names]
            most = [f"mostly {max(TYPES, key=types.count)}"] if types else []
            expected.append({*names, *most})
    assert list(map(sorted, actual)) == list(map(sorted, expected))


def test_sentences_read_apart_are_docs_of_their_own() -> None:
    words, lengths = "Rome won . Rome lost . Oslo and Rome met Oslo .".split(), [3, 3, 6]  # noqa: SIM905
    ends = np.cumsum(lengths).tolist()
    whole = Doc(NLP.vocab, words=words, sent_starts=[i in (0, *ends) for i in range(len(words))])
    whole.user_data[APART] = True
    single = [Doc(NLP.vocab, words=words[end - n : end]) for n, end in zip(lengths, ends, strict=True)]
    labels = np.arange(len(words), dtype=np.int32) % len(NAMES)
    for docs in ([whole, *single], [*single, whole]):
        for sets in (
            DocumentLabels().read_labels("L", docs, np.tile(labels, 2), NAMES),
            DocumentWords().read("L", docs),
        ):
            keys = next(iter(sets.values())).keys.tolist()
            assert keys[: len(words)] == keys[len(words) :]
            assert any(keys[6:12]) > any(keys[:6])


def _examples(nlp: Language) -> list[Example]:
    """Return documents of two sentences: the first says what the name in the second is."""
    collected = []
    for number, name in enumerate(["Bo", "Ada", "Oslo", "Lima", "Ines", "Karl", "Quito", "Turin", "Olga", "Rome"]):
        label = "LOC" if name in ("Oslo", "Lima", "Quito", "Turin", "Rome") else "PER"
        first = ["in", name, "town"] if label == "LOC" else ["Mr", name, "said"]
        words = [*first, ".", "Then", name, "won", ".", str(number)]
        starts: Any = [i in (0, 4) for i in range(len(words))]
        doc = Doc(nlp.vocab, words=words, sent_starts=starts)
        doc.ents = [Span(doc, 1, 2, label), Span(doc, 5, 6, label)]
        collected.append(Example(Doc(nlp.vocab, words=words, sent_starts=starts), doc))
    return collected


def _component(nlp: Language, method: Any = None, other: Any = None, **settings: Any) -> CRFComponent:
    block = {"@crf_attributes": "spacy_crfseq.DocumentLabels.v1", **settings}
    attributes = {"doc": block, **({"other": other} if other else {})}
    pipe: Any = nlp.add_pipe("crf_ner", config={"features": FEATURES, "attributes": attributes, **(method or {})})
    return pipe  # type: ignore[no-any-return]


def _trained(method: Any = None, **settings: Any) -> tuple[CRFComponent, list[Example]]:
    nlp = spacy.blank("en")
    pipe = _component(nlp, method, **settings)
    examples = _examples(nlp)
    nlp.initialize(lambda: iter(examples))
    pipe.fit()
    return pipe, examples


def test_the_first_stage_has_the_seed_of_the_config() -> None:
    weights = []
    for seed in (1, 1, 2):
        nlp = spacy.blank("en")
        pipe = _component(nlp)
        nlp.config["training"]["seed"] = seed
        nlp.initialize(lambda: _examples(nlp))  # noqa: B023
        assert pipe.doc_model.first is not None
        weights.append(pipe.doc_model.first.crf.theta)
    assert np.array_equal(*weights[:2])
    assert not np.array_equal(*weights[1:])


@pytest.fixture(scope="module")
def trained() -> tuple[CRFComponent, list[Example]]:
    return _trained()


def _new(name: str) -> Doc:
    words = ["Mr", name, "said", ".", "Then", name, "won", "."]
    starts: Any = [i in (0, 4) for i in range(len(words))]
    return Doc(spacy.blank("en").vocab, words=words, sent_starts=starts)


def _elsewhere(pipe: CRFComponent, doc: Doc, *, preset: bool = False) -> list[set[str]]:
    """Return the values of the attribute at the tokens of a Doc."""
    pipe.posterior([doc], preset=preset)  # looks words up in the vocab of the Doc
    reader, result = pipe.doc_model.feature_reader(), [set[str]() for _ in doc]
    for active in reader.active([doc], preset)[0]:
        for token, name in zip(active.tokens.tolist(), reader.names(0, active), strict=True):
            if name.startswith("DOC_ELSEWHERE[0]="):
                result[token].add(name.partition("=")[2])
    return result


def test_a_word_is_labelled_as_elsewhere(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, _ = trained
    assert _elsewhere(pipe, _new("Zoe"))[5] == {"U-PER", "mostly PER"}
    (doc,) = pipe.pipe([_new("Zoe")])
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Zoe", "PER"), ("Zoe", "PER")]
    explained = {contribution.name for contribution in explain(pipe, _new("Zoe")).tokens[5].contributions}
    assert "DOC_ELSEWHERE[0]=U-PER" in explained


def test_plugins_of_both_stages_read_an_attribute_of_the_docs_once(
    trained: tuple[CRFComponent, list[Example]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, examples = trained
    asked: list[tuple[str, ...]] = []

    def read(docs: Any, names: Any) -> Any:
        asked.append(tuple(names))
        return read_tokens(docs, names)

    monkeypatch.setattr(structs, "read_tokens", read)
    texts = structs.Texts([example.reference for example in examples])
    features = FeatureSet(()).with_attributes({"words": DocumentWords(), "labels": DocumentLabels()})
    assert ([*features.by_docs], [*features.by_labels]) == (["WORDS"], ["LABELS"])
    columns = with_docs(read_docs(texts, ()), texts, features)
    tags = np.zeros(sum(map(len, texts)), np.int32)
    columns = with_labels(columns, texts, features, tags, pipe.tags)
    assert columns.text.sets.keys() == {"WORDS_NEAR", "LABELS_ELSEWHERE"}
    assert len(asked) == 1


def test_the_first_stage_respects_what_is_known(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, _ = trained
    doc = _new("Zoe")
    doc.ents = [Span(doc, 1, 2, "LOC")]
    assert _elsewhere(pipe, doc, preset=True)[5] == {"U-LOC", "mostly LOC"}
    assert pipe.posterior([doc], spans=[Span(doc, 5, 6, "LOC")]).spans()[0][0][:3] == (1, 2, "PER")
    (doc,) = pipe.pipe([doc])
    assert [ent.label_ for ent in doc.ents] == ["LOC", "LOC"]
    assert _elsewhere(pipe, doc)[5] == {"U-LOC", "mostly LOC"}  # as it was decided


def test_labels_of_a_training_text_respect_what_is_known(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, examples = trained
    strings, doc = dict[int, str](), examples[0].predicted.copy()
    for ents, expected in ([], {"U-PER", "mostly PER"}), ([Span(doc, 1, 2, "LOC")], {"U-LOC", "mostly LOC"}):
        doc.ents = ents
        columns = pipe.training.present()._replace(strings=strings).read(pipe.doc_model, [doc], ())
        assert {strings[key] for key in columns.text.sets["DOC_ELSEWHERE"].take(np.array([5]))[1].tolist()} == expected


def test_labels_of_a_training_text_do_not_depend_on_its_gold_labels() -> None:
    pipe, examples = _trained(folds=3)
    first, before = pipe.doc_model.first, pipe.training.example_encoder.held_out
    assert first is not None
    doc = examples[3].reference
    doc.ents = [Span(doc, ent.start, ent.end, "PER") for ent in doc.ents]
    pipe.initialize(lambda: iter(examples))
    key = doc_key(doc)
    assert before[key].tolist() == pipe.training.example_encoder.held_out[key].tolist()
    gold = [[f"U-{token.ent_type_}" if token.ent_type_ else "O" for token in e.reference] for e in _examples(NLP)]
    result = [[first.labels.tags[i] for i in labels] for labels in before.values()]
    assert gold != result  # though the first stage knows them:
    stage = first.current()
    again = [ask(stage, [example.predicted]).word_posterior.decode(stage.method.decoder) for example in examples]
    assert [[first.labels.tags[i] for i in labels] for labels in again] == gold


@pytest.mark.parametrize("settings", [{}, {"min_count": 2}, {"max_features": 9}, {"tag_dictionary_size": 2}])
def test_encoded_texts_get_the_labels_of_their_docs(settings: Any) -> None:
    nlp = spacy.blank("en")
    config = {"features": FEATURES, "tag_dictionary_min_count": 2, **settings}
    pipe: Any = nlp.add_pipe("crf_ner", config=config)
    examples = _examples(nlp)
    pipe.training.set(keeps=True)
    nlp.initialize(lambda: examples)
    pipe.training.learn(whole := pipe.training.whole, np.arange(4, 20))
    expected = pipe.posterior([example.predicted for example in examples[:2]]).all_labels
    again = posterior_of(pipe.doc_model, whole.take(np.arange(4))).decode(pipe.method.decoder)
    assert again.tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1


def test_copies_of_a_document_are_in_one_part() -> None:
    assert doc_key(_new("Zoe")) == doc_key(_new("Zoe")) != doc_key(_new("Ada"))


def test_updates_read_the_labels_of_the_training_texts() -> None:
    nlp = spacy.blank("en")
    pipe = _component(nlp)
    examples = _examples(nlp)
    nlp.initialize(lambda: iter(examples))
    data = pipe.training.corpus.data.encoded
    compiled = join(pipe.training.compile(_examples(nlp))).encoded
    predicted, _ = pipe.doc_model.encode([example.predicted for example in examples])
    sets = [[sorted(ids.store.ids[ids.store.ptr[b] : ids.store.ptr[b + 1]].tolist()) for b in ids.expanded()[0][:, -1]]
            for ids in (data.unigrams, compiled.unigrams, predicted.unigrams)]  # fmt: skip
    assert sets[0] == sets[1] != sets[2]


@pytest.mark.parametrize("copies", [1, 2])
def test_one_document_is_split(copies: int) -> None:
    nlp = spacy.blank("en")
    pipe = _component(nlp)
    examples = [_examples(nlp)[0] for _ in range(copies)]
    nlp.initialize(lambda: examples)
    assert all((labels >= 0).all() for labels in pipe.training.example_encoder.held_out.values())
    empty = Example(Doc(nlp.vocab), Doc(nlp.vocab))
    single = [Example(*(doc[:3].as_doc() for doc in (example.predicted, example.reference))) for example in examples]
    nlp.initialize(lambda: [*single, empty])
    assert all((labels == -1).all() for labels in pipe.training.example_encoder.held_out.values())
    pipe.fit()


def test_a_model_keeps_its_first_stage(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, _ = trained
    expected = pipe.posterior([_new("Zoe")]).marginals()[0]
    for other in (_component(spacy.blank("en")).from_bytes(pipe.to_bytes()), pickle.loads(pickle.dumps(pipe))):
        np.testing.assert_array_equal(other.posterior([_new("Zoe")]).marginals()[0], expected)
    single: Any = spacy.blank("en").add_pipe("crf_ner", config={"features": FEATURES})
    with pytest.raises(ModelFileError, match="other feature templates"):
        single.from_bytes(pipe.to_bytes())


def test_each_stage_has_its_own_potentials() -> None:
    kernel = {"@crf_potentials": "spacy_crfseq.PolynomialKernel.v1"}
    method = {
        "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
        "optimizer": {"@crf_optimizers": "spacy_crfseq.DualPerceptron.v1", "max_iterations": 2},
        "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
        "potentials": {"kernel": kernel},
    }
    pipe, _ = _trained(method)
    docs = [_new("Zoe")]
    expected = pipe.posterior(docs).labels
    pipe.method = pipe.method._replace(decoder=pipe.method.decoder)
    for copied in (pipe, _component(spacy.blank("en"), method).from_bytes(pipe.to_bytes())):
        assert [labels.tolist() for labels in copied.posterior(docs).labels] == [labels.tolist() for labels in expected]


def test_streams_and_zones(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, _ = trained
    nlp = spacy.blank("en")
    texts = ["Mr Zoe said. Then Zoe won.", "", "Zoe", "in Pau town. Then Pau won."]
    docs = [nlp(text) for text in texts]
    expected = [pipe.posterior([doc]).labels[0].tolist() for doc in docs]
    with nlp.memory_zone():
        actual = [labels.tolist() for labels in pipe.posterior([nlp(text) for text in texts]).labels]
    assert actual == expected
    assert pipe.posterior([]).all_labels.tolist() == []


def test_training_goes_on_with_the_first_stage(trained: tuple[CRFComponent, list[Example]]) -> None:
    nlp = spacy.blank("en")
    pipe = _component(nlp).from_bytes(trained[0].to_bytes())
    first = pipe.doc_model.first
    pipe.fit(_examples(nlp))
    assert pipe.doc_model.first is first
    assert pipe.training.example_encoder.held_out.keys() == trained[0].training.example_encoder.held_out.keys()


def test_training_without_initial_examples() -> None:
    nlp = spacy.blank("en")
    pipe = _component(nlp)
    nlp.initialize()
    pipe.fit(_examples(nlp))
    assert _elsewhere(pipe, _new("Zoe"))[5]


def test_the_first_stage_knows_what_is_given_in_a_question(trained: tuple[CRFComponent, list[Example]]) -> None:
    pipe, _ = trained
    noted, asked = _new("Zoe"), _new("Zoe")
    pipe.clamp(noted, spans=[Span(noted, 1, 2, "LOC")])
    wanted = pipe.posterior([noted])
    assert [span[:3] for span in wanted.spans()[0]] == [(1, 2, "LOC"), (5, 6, "LOC")]
    for condition in ({"spans": [Span(asked, 1, 2, "LOC")]}, {"allowed": {1: ["LOC"]}}):
        answers = pipe.posterior([asked], **condition)  # type: ignore[arg-type]
        np.testing.assert_allclose(answers.marginals()[0], wanted.marginals()[0], atol=1e-6)
