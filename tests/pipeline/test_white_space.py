"""White space changes nothing: neither what is learned, nor what is found, nor with what probability."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.errors import DataError
from spacy_crfseq.pipeline.evidence import span_probability
from spacy_crfseq.pipeline.labels import gold_tags
from spacy_crfseq.pipeline.white_space import words_of
from spacy_crfseq.tools.explain import explain

from .helpers import (
    FACTORIES,
    LBFGS,
    bare_doc,
    blank,
    examples,
    inputs,
    pipe_of,
    registered,
    templates,
    trained,
    triples,
)  # fmt: skip

GAPS = st.lists(st.sampled_from(["", "", "", "\n", "  ", "\t", "\n\n", "\xa0"]), min_size=13, max_size=13)
"""White space that is put before each word of a text, and at its end."""
ATTRIBUTES: dict[str, Any] = {
    "near": registered("attributes", "DocumentWords"),
    "places": registered("attributes", "Phrases", lists={"CITY": ["New York", "Oslo"]}, window=1),
}
PAIRS = templates("LOWER[-1]", "LOWER[0]", "LOWER[1]", "SHAPE[0]", "SPACY[0]", bigram_templates=["LOWER[0]"])
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "documents": {"attributes": ATTRIBUTES},
    "stages": {"attributes": {"first": registered("attributes", "DocumentLabels", folds=2)}},
    "pairs": {"features": PAIRS},
    "dictionary": {"tag_dictionary_size": 1},
    "functions": {
        "features": templates("LOWER[0]", "NEAR[0]", token_functions={"NEAR": {"@crf_features": "tests.white_space"}})
    },
    "once": {"once": ["*"]},
}


@registry.features("tests.white_space")
def create_near() -> Any:
    def near(sequence: Sequence[Any], i: int) -> dict[str, Any]:
        words = [token.text for token in sequence]
        return {"before": words[max(0, i - 1)], "after": words[min(i + 1, len(words) - 1)], "of": str(len(words))}

    return near


def with_space(doc: Doc, gaps: Sequence[str]) -> Doc:
    """Return a copy of a Doc with a token of white space before some words; what its spans cover is the same."""
    words, spaces, places = list[str](), list[bool](), list[int]()
    for token, gap in zip([*doc, None], gaps, strict=False):
        if gap:
            words.append(gap)
            spaces.append(False)
        if token is not None:
            places.append(len(words))
            words.append(token.text)
            spaces.append(bool(token.whitespace_))
    spaced = Doc(doc.vocab, words=words, spaces=spaces)
    for token, place in zip(doc, places, strict=True):
        spaced[place].tag, spaced[place].pos = token.tag, token.pos
        spaced[place].set_morph(str(token.morph))
        if token.is_sent_start and token.i:
            spaced[place].is_sent_start = True

    def moved(span: Span) -> Span:
        return Span(spaced, places[span.start], places[span.end - 1] + 1, span.label)

    if doc.has_annotation("ENT_IOB"):
        spaced.set_ents([moved(ent) for ent in doc.ents], default="outside")
    for key, group in doc.spans.items():
        spaced.spans[key] = [moved(span) for span in group]
    return spaced


def words_in(doc: Doc) -> list[int]:
    return [token.i for token in doc if not token.is_space]


def predictions_of(nlp: Language, doc: Doc) -> dict[str, Any]:
    """Return everything that a component says of the words of a Doc."""
    pipe, places = pipe_of(nlp), words_in(doc)
    number = {place: i for i, place in enumerate(places)}

    def of_words(spans: Sequence[Any], label: str) -> list[tuple[Any, ...]]:
        return [(number[s.start], number[s.end - 1] + 1, getattr(s, label)) for s in spans]

    answers, n = pipe.posterior([doc]), len(pipe.tags)
    said = nlp(doc.copy())
    nbest = [(a.probability, [a.tags[i] for i in places], of_words(a.spans, "label_")) for a in pipe.nbest(doc, 4)]
    scored = answers.spans()[0]
    why = explain(pipe, doc)
    return {
        "tags": [[said[i].tag_, said[i].pos_, str(said[i].morph)] for i in places],
        "ents": of_words(said.ents, "label_"),
        "groups": {key: of_words(list(group), "label_") for key, group in said.spans.items()},
        "labels": answers.labels[0][places].tolist(),
        "marginals": answers.marginals()[0][places, :n].tolist(),
        "spans": [(number[s.start], number[s.end - 1] + 1, s.label, s.probability) for s in scored],
        "nbest": nbest,
        "log": answers.log_probabilities().tolist(),
        "entropy": answers.entropies().tolist(),
        "samples": answers.sample(3)[0][:, places].tolist(),
        "emissions": pipe.model.predict([doc])[0][places].tolist(),
        "why": [(number[t.token], *t[1:8], len(t.unknown)) for t in why.tokens],
        "contributions": [[(number[c.token], *c[1:]) for c in t.contributions] for t in why.tokens],
        "asked": [
            span_probability(pipe, Span(doc, places[a], places[b - 1] + 1, label))
            for a, b in ((0, 1), (0, 2), (1, 2)) if b <= len(places) for label in pipe.labels
        ],
    }  # fmt: skip


@cache
def learned(factory: str, which: str) -> Language:
    return trained(factory, scores=True, **SETTINGS[which])


@pytest.mark.parametrize("which", SETTINGS)
@settings(max_examples=4)
@given(data=st.data())
def test_white_space_changes_nothing_that_is_found(factory: str, which: str, data: st.DataObject) -> None:
    nlp = learned(factory, which)
    doc = data.draw(st.sampled_from(inputs(nlp, factory)))
    spaced = with_space(doc, data.draw(GAPS))
    assert predictions_of(nlp, spaced) == predictions_of(nlp, doc)


@settings(max_examples=15)
@given(data=st.data())
def test_white_space_changes_nothing_in_batches(data: st.DataObject) -> None:
    nlp = learned("crf_ner", "plain")
    docs = [*inputs(nlp, "crf_ner"), nlp.make_doc("")] * data.draw(st.integers(1, 12))  # by structs and without
    spaced = [with_space(doc, data.draw(GAPS)) for doc in docs]
    answers, expected = pipe_of(nlp).posterior(spaced), pipe_of(nlp).posterior(docs)
    for doc, labels, wanted in zip(spaced, answers.labels, expected.labels, strict=True):
        assert labels[words_in(doc)].tolist() == wanted.tolist()
    assert answers.log_probabilities().tolist() == expected.log_probabilities().tolist()
    assert [[s[2:] for s in spans] for spans in answers.spans()] == [
        [s[2:] for s in spans] for spans in expected.spans()
    ]
    texts = [[(ent.text.split(), ent.label_) for ent in doc.ents] for doc in nlp.pipe(docs)]
    assert [[(ent.text.split(), ent.label_) for ent in doc.ents] for doc in nlp.pipe(spaced)] == texts


def spaced_examples(nlp: Language, factory: str, gaps: Iterator[Sequence[str]], which: str) -> list[Example]:
    def changed(doc: Doc, sides: str) -> Doc:
        return with_space(doc, next(gaps)) if which in (sides, "both") else doc

    return [
        Example(changed(example.predicted, "predicted"), changed(example.reference, "reference"))
        for example in examples(nlp, factory)
    ]


@pytest.mark.parametrize("which", ["plain", "documents", "stages"])
@settings(max_examples=4)
@given(data=st.data(), side=st.sampled_from(["both", "predicted", "reference"]))
def test_white_space_changes_nothing_that_fit_learns(factory: str, which: str, side: str, data: st.DataObject) -> None:
    nlp = blank(factory, **SETTINGS[which])
    corpus = spaced_examples(nlp, factory, iter(lambda: data.draw(GAPS), None), side)
    nlp.initialize(lambda: corpus)
    result = pipe_of(nlp).fit(dev=corpus)
    same = learned_weights(factory, which)
    assert pipe_of(nlp).tags == same[0]
    assert (pipe_of(nlp).crf.theta == same[1]).all()
    assert result.best_score == same[2]


@cache
def learned_weights(factory: str, which: str) -> tuple[Any, ...]:
    nlp = blank(factory, **SETTINGS[which])
    corpus = examples(nlp, factory)
    nlp.initialize(lambda: corpus)
    result = pipe_of(nlp).fit(dev=corpus)
    return pipe_of(nlp).tags, pipe_of(nlp).crf.theta, result.best_score


@pytest.mark.parametrize("optimizer", [LBFGS, registered("optimizers", "AdaGrad")])
@settings(max_examples=3)
@given(data=st.data())
def test_white_space_changes_nothing_that_update_learns(
    factory: str, optimizer: dict[str, Any], data: st.DataObject
) -> None:
    weights = list[Any]()
    for side in ("neither", "both"):
        nlp = blank(factory, optimizer=optimizer)
        corpus = spaced_examples(nlp, factory, iter(lambda: data.draw(GAPS), None), side)
        nlp.initialize(lambda: corpus)  # noqa: B023
        losses = [nlp.update(corpus)[factory] for _ in range(3)]
        weights.append((losses, pipe_of(nlp).crf.theta.tolist()))
    assert weights[0] == weights[1]


# What white space itself gets


@cache
def ner(scheme: str) -> Language:
    return trained("crf_ner", scheme=scheme, scores=True)


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO", "IOBES"])
def test_white_space_in_an_entity_is_inside_of_it_and_other_white_space_outside(scheme: str) -> None:
    nlp, words = ner(scheme), ["\n", "Anna", " ", "lives", "in", "\t", "New", "\n", "York", "\n\n"]
    doc = nlp(Doc(nlp.vocab, words=words))
    assert triples(doc.ents) == [(1, 2, "PER"), (6, 9, "LOC")]
    assert [token.ent_iob_ for token in doc] == ["O", "B", "O", "O", "O", "O", "B", "I", "I", "O"]
    answers = pipe_of(nlp).posterior([doc.copy()])
    (labels,), (marginals,) = answers.labels, answers.marginals()
    assert [answers.tags[labels[i]] for i in (0, 7, 9)] == ["O", "I-LOC", "O"]
    np.testing.assert_allclose(marginals.sum(1), 1, rtol=1e-5)
    goes_on = [answers.tags.index(tag) for tag in ("I-LOC", "L-LOC", "E-LOC") if tag in pipe_of(nlp).tags]
    assert marginals[7, answers.tags.index("I-LOC")] == pytest.approx(float(marginals[8, goes_on].sum()))
    assert doc.ents[1]._.crf_score == doc.spans["crf_ner"].attrs["scores"][1] > 0.5
    assert pipe_of(nlp).nbest(doc, 1)[0].tags[7] == "I-LOC"
    assert triples(pipe_of(nlp).nbest(doc, 1)[0].spans) == triples(doc.ents)
    both = answers.distribution.label_probabilities(answers.all_labels)
    assert both.tolist() == pytest.approx(np.minimum(marginals[np.arange(10), labels], 1).tolist())


@pytest.mark.parametrize(("attr", "value"), [("tag", "_SP"), ("pos", "SPACE"), ("morph", "")])
def test_white_space_gets_the_tag_that_spacy_gives_it(attr: str, value: str) -> None:
    nlp = trained("crf_tagger", attr=attr, scores=True)
    doc = nlp(Doc(nlp.vocab, words=["Anna", "\n", "lives"]))
    assert str(getattr(doc[1], attr if attr == "morph" else f"{attr}_")) == value
    assert doc.has_annotation(attr.upper())
    assert [token._.crf_score is None for token in doc] == [False, True, False]
    assert [span[:2] for span in pipe_of(nlp).posterior([doc]).spans()[0]] == [(0, 1), (2, 3)]


def test_a_tagger_that_does_not_overwrite_keeps_the_tag_of_white_space() -> None:
    nlp = trained("crf_tagger", overwrite=False)
    doc = Doc(nlp.vocab, words=["Anna", "\n", " ", "lives"], tags=["", "MINE", "", "OLD"])
    assert [token.tag_ for token in nlp(doc)] == ["NNP", "MINE", "_SP", "OLD"]


def test_texts_of_white_space_alone() -> None:
    for factory in FACTORIES:
        nlp = learned(factory, "plain")
        docs = [Doc(nlp.vocab, words=words) for words in (["\n"], ["Anna"], [" ", "\n"], [], ["\n", "Bob"])]
        for batch in ([docs[0]], docs[:1] * 2, docs):
            answers = pipe_of(nlp).posterior(batch)
            assert [len(labels) for labels in answers.labels] == [len(doc) for doc in batch]
            assert answers.entropies().tolist() == [
                pipe_of(nlp).posterior([doc]).entropies()[0] if words_in(doc) else 0 for doc in batch
            ]
            assert [len(labellings) for labellings in answers.nbest(1)] == [1] * len(batch)
            assert [triples(doc.ents) for doc in nlp.pipe([doc.copy() for doc in batch])]
            repr(answers)


# What is known


def test_a_sentence_that_begins_with_white_space_begins_with_the_next_word() -> None:
    nlp = learned("crf_ner", "plain")
    doc = Doc(nlp.vocab, words=["New", "\n", "York", "\n"], sent_starts=[True, True, False, True])
    apart = Doc(nlp.vocab, words=["New", "York"], sent_starts=[True, True])
    answers, expected = pipe_of(nlp).posterior([doc]), pipe_of(nlp).posterior([apart])
    assert answers.marginals()[0][[0, 2]][:, : len(pipe_of(nlp).tags)].tolist() == expected.marginals()[0].tolist()
    assert answers.offsets.tolist() == [0, 2, 4]
    assert span_probability(pipe_of(nlp), Span(doc, 0, 3, "LOC")) == 0
    with pytest.raises(DataError, match="reaches over the end of a sentence"):
        pipe_of(nlp).posterior([doc], spans=[Span(doc, 0, 3, "LOC")])


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO", "BMES"])
def test_given_spans_may_have_white_space_in_them_and_at_their_ends(scheme: str) -> None:
    nlp = ner(scheme)
    pipe, words = pipe_of(nlp), ["\n", "Anna", "\n", "saw", " ", "Rain", "\n"]
    doc, bare = Doc(nlp.vocab, words=words), bare_doc(nlp, ["Anna", "saw", "Rain"])
    for start, end, first, last, label in (
        (1, 4, 0, 2, "LOC"),
        (0, 3, 0, 1, "PER"),
        (5, 7, 2, 3, "PER"),
        (0, 7, 0, 3, "ORG"),
    ):
        answers = pipe.posterior([doc], spans=[Span(doc, start, end, label)])
        expected = pipe.posterior([bare], spans=[Span(bare, first, last, label)])
        places = words_in(doc)
        assert answers.marginals()[0][places][:, : len(pipe.tags)].tolist() == expected.marginals()[0].tolist()
        assert [span.label for span in answers.spans()[0]] == [span.label for span in expected.spans()[0]]
    with pytest.raises(DataError, match="0-1 'ORG' has no word"):
        pipe.posterior([doc], spans=[Span(doc, 0, 1, "ORG")])
    with pytest.raises(DataError, match="given span 1-4 'LOC' overlaps"):
        pipe.posterior([doc], spans=[Span(doc, 0, 2, "PER"), Span(doc, 1, 4, "LOC")])


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO"])
def test_labels_given_to_white_space_hold_for_the_word_behind_it(scheme: str) -> None:
    nlp = ner(scheme)
    doc = Doc(nlp.vocab, words=["Anna", "lives", "in", "New", "\n", "York", "\n"])
    pipe = pipe_of(nlp)
    assert (3, 6, "LOC") in triples(nlp(doc.copy()).ents)
    answers = pipe.posterior([doc], allowed={4: ["O"]})
    assert all(span.end <= 4 or span.start >= 5 for span in answers.spans()[0])
    assert pipe.posterior([doc], allowed={4: ["LOC"]}).spans()[0][1][:3] == (3, 6, "LOC")
    surer = pipe.posterior([doc], allowed={4: ["I-LOC"]}).spans()[0][1].probability
    assert pipe.posterior([doc]).spans()[0][1].probability < surer <= 1
    with pytest.raises(DataError, match="no label is left for token 6"):
        pipe.posterior([doc], allowed={6: ["LOC"]})
    with pytest.raises(DataError, match="for token 7, but it has 7 tokens"):
        pipe.posterior([doc], allowed={7: ["LOC"]})
    tagger = pipe_of(learned("crf_tagger", "plain"))
    same = tagger.posterior([doc], allowed={4: ["NNP"]}).marginals()[0]
    assert same.tolist() == tagger.posterior([doc]).marginals()[0].tolist()


def test_entities_and_blocked_tokens_that_are_set_already_stay() -> None:
    nlp = learned("crf_ner", "plain")
    doc = Doc(nlp.vocab, words=["Anna", "lives", "in", "New", "\n", "York", "\n", "Oslo"])
    doc.set_ents([Span(doc, 6, 8, "MINE")], blocked=[Span(doc, 4, 5)], default="missing")
    nlp(doc)
    assert (6, 8, "MINE") in triples(doc.ents)
    assert all(ent.end <= 4 or ent.start >= 5 for ent in doc.ents)
    doc = Doc(nlp.vocab, words=["Anna", "\n", "saw", "Rain"])
    doc.set_ents([Span(doc, 0, 3, "ORG")], default="missing")
    assert triples(nlp(doc).ents)[0] == (0, 3, "ORG")
    assert doc.ents[0]._.crf_score is None


def test_gold_spans_lose_white_space_at_their_ends_only() -> None:
    nlp = learned("crf_ner", "plain")
    words = ["\n", "Anna", "\n", "saw", "\n", "New", " ", "York", "\n"]
    spans = [(0, 3, "PER"), (4, 9, "LOC")]
    gold = Doc(nlp.vocab, words=words)
    gold.ents = [Span(gold, *span) for span in spans]
    gold.spans["chunks"] = [Span(gold, *span) for span in spans]
    example = Example(Doc(nlp.vocab, words=words), gold)
    tags = ["O", "U-PER", "O", "O", "O", "B-LOC", "I-LOC", "L-LOC", "O"]
    assert gold_tags(pipe_of(nlp).annotation, example, "crf_ner") == tags
    chunker = pipe_of(learned("crf_chunker", "plain"))
    assert gold_tags(chunker.annotation, example, "crf_chunker") == [
        tag.replace("U-", "B-").replace("L-", "I-") for tag in tags
    ]
    assert triples(gold.ents) == spans  # which is the user's
    assert (
        gold_tags(pipe_of(nlp).annotation, Example(example.predicted, Doc(nlp.vocab, words=words)), "x") == [None] * 9
    )


def test_notes_on_gold_docs_are_about_tokens_with_white_space() -> None:
    nlp = learned("crf_ner", "plain")
    pipe, words = pipe_of(nlp), ["\n", "Anna", "saw", "\n", "Rain", "\n"]
    gold = Doc(nlp.vocab, words=words)
    pipe.clamp(gold, spans=[Span(gold, 2, 6, "ORG")], allowed={1: ["O"], 3: ["PER"]})
    tags = gold_tags(pipe.annotation, Example(Doc(nlp.vocab, words=words), gold), "crf_ner")
    assert tags == ["O", "O", "B-ORG", "I-ORG", "L-ORG", "O"]
    assert gold_tags(pipe.annotation, Example(bare_doc(nlp, ["Anna", "saw", "Rain"]), gold), "crf_ner") == [
        "O", "B-ORG", "L-ORG",
    ]  # fmt: skip


def test_a_copy_without_white_space_has_all_else() -> None:
    nlp = learned("crf_ner", "plain")
    for kind in (Doc, Span, Token):
        if not kind.has_extension("white_space_test"):
            kind.set_extension("white_space_test", default=0)
    doc = Doc(
        nlp.vocab, words=["\n", "Anna", " ", "saw", "Bob", "\n"], spaces=[False, False, False, True, False, False],
        tags=["_SP", "A", "_SP", "B", "C", "_SP"], pos=["SPACE", "PROPN", "SPACE", "VERB", "PROPN", "SPACE"],
        lemmas=["", "anna", "", "see", "bob", ""], heads=[1, 3, 1, 3, 3, 4], deps=["", "subj", "", "ROOT", "obj", ""],
        morphs=["", "Case=Nom", "", "Tense=Past", "", ""],
    )  # fmt: skip
    doc._.white_space_test, doc[3]._.white_space_test, doc[3:5]._.white_space_test = 1, 2, 3
    doc[2]._.white_space_test = 4
    doc.cats, doc.tensor = {"X": 1.0}, np.arange(6.0).reshape(6, 1)
    doc.spans["mine"] = [Span(doc, 2, 5, "M"), Span(doc, 0, 1, "M")]
    (words,) = words_of([doc])
    assert words.text == "Anna saw Bob"
    assert [token.lemma_ for token in words] == ["anna", "see", "bob"]
    assert [token.tag_ for token in words] == ["A", "B", "C"]
    assert [token.head.text for token in words] == ["saw", "saw", "saw"]
    assert [token.dep_ for token in words] == ["subj", "ROOT", "obj"]
    assert [str(token.morph) for token in words] == ["Case=Nom", "Tense=Past", ""]
    assert (words._.white_space_test, words[1]._.white_space_test, words[1:3]._.white_space_test) == (1, 2, 3)
    assert words.cats == {"X": 1.0}
    assert words.tensor.ravel().tolist() == [1, 3, 4]
    assert triples(words.spans["mine"]) == [(1, 3, "M")]
    assert words_of([words]) == [words]
