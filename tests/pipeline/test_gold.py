"""Gold Docs that tell only something: missing tokens, labels that tokens may have, spans that are not there."""

import json
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example

from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.pipeline.encode import content_key
from spacy_crfseq.pipeline.evidence import Partial, make_evidence, write_evidence
from spacy_crfseq.pipeline.labels import PartialTable, gold_tags
from spacy_crfseq.pipeline.readers import (
    create_annotation_reader,
    create_conll_reader,
    create_conllu_reader,
    create_crfsuite_reader,
)
from spacy_crfseq.pipeline.tasks import begin_stray_entities
from spacy_crfseq.pipeline.texts import load_docs
from spacy_crfseq.types import MISSING
from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS_TIGHT,
    bare_doc,
    blank,
    examples,
    initialize,
    initialized,
    pipe_of,
    registered,
    templates,
    trained,
    triples,
    words_of,
)

EVERYTHING = {"features": templates("LOWER[-1..1]")}


def allow(doc: Doc, factory: str, allowed: dict[int, list[str]], spans: Sequence[tuple[int, int, str]] = ()) -> None:
    write_evidence(doc, factory, make_evidence([Span(doc, *span) for span in spans], allowed))


def tags_of(nlp: Language, gold: Doc, predicted: Doc | None = None) -> list[Any]:
    pipe = pipe_of(nlp)
    predicted = bare_doc(nlp, words_of(gold)) if predicted is None else predicted
    return list(gold_tags(pipe.annotation, Example(predicted, gold), pipe.name))


def entities(nlp: Language, words: str, iob: Sequence[tuple[int, str]]) -> Doc:
    doc = bare_doc(nlp, words.split())
    table: Any = np.array([(i, nlp.vocab.strings.add(label) if label else 0) for i, label in iob], np.uint64)
    doc.from_array(["ENT_IOB", "ENT_TYPE"], table)
    return doc


# Missing tokens


def test_an_entity_beside_missing_tokens_ends_where_it_does() -> None:
    """As ``doc.ents`` has it; `set_ents` leaves such Docs."""
    nlp = blank("crf_ner")
    doc = bare_doc(nlp, ["a", "b", "c", "d", "e"])
    doc.set_ents([Span(doc, 0, 1, "PER"), Span(doc, 2, 4, "LOC")], default="missing")
    assert tags_of(nlp, doc) == ["U-PER", None, "B-LOC", "L-LOC", None]
    assert tags_of(blank("crf_ner", scheme="IOB2"), doc) == ["B-PER", None, "B-LOC", "I-LOC", None]
    assert tags_of(nlp, doc, bare_doc(nlp, ["a", "b", "cd", "e"])) == ["U-PER", None, "U-LOC", None]
    assert tags_of(nlp, doc, bare_doc(nlp, ["a", "bc", "d", "e"])) == ["U-PER", None, None, None]


def test_where_missing_tokens_tear_an_entity_its_prefix_is_open() -> None:
    """An entity that goes on behind missing tokens, as removed labels of single tokens leave it."""
    torn = [(3, "PER"), (0, ""), (1, "PER"), (0, ""), (3, "LOC"), (1, "LOC"), (2, "")]
    nlp = blank("crf_ner")
    first, second = Partial(("B-PER", "U-PER")), Partial(("I-PER", "L-PER"))
    assert tags_of(nlp, entities(nlp, "a b c d e f g", torn)) == [first, None, second, None, "B-LOC", "L-LOC", "O"]
    nlp = blank("crf_ner", scheme="IOB2")
    expected = ["B-PER", None, "I-PER", None, "B-LOC", "I-LOC", "O"]
    assert tags_of(nlp, entities(nlp, "a b c d e f g", torn)) == expected
    with pytest.raises(DataError, match=r"gold document 'a b c d e f g'.*I without B"):
        tags_of(nlp, entities(nlp, "a b c d e f g", torn), bare_doc(nlp, ["a", "bc", "d", "e", "f", "g"]))


def test_documents_of_which_nothing_is_known_teach_nothing(factory: str) -> None:
    """Through initialize, update and fit."""
    plain, more = blank(factory), blank(factory)
    for nlp in (plain, more):
        corpus = examples(nlp, factory)
        nothing = [Example(example.predicted, bare_doc(nlp, words_of(example.predicted))) for example in corpus]
        pipe = pipe_of(initialize(nlp, [*corpus, *(nothing if nlp is more else [])]))
        assert all((data.gold < 0).all() for data in pipe.training.compile(nothing))
        assert nlp.update(nothing)[pipe.name] == 0
    results = [pipe_of(nlp).fit(examples(nlp, factory)) for nlp in (plain, more)]
    np.testing.assert_array_equal(results[0].best, results[1].best)


# Labels that tokens may have


def test_one_label_that_is_allowed_is_a_gold_tag() -> None:
    nlp = blank("crf_ner")
    doc = bare_doc(nlp, ["a", "b", "c", "d"])
    doc.set_ents([], default="missing")
    allow(doc, "crf_ner", {0: ["B-PER"], 1: ["PER"], 2: ["O", "B-LOC", "O"]})
    assert tags_of(nlp, doc) == ["B-PER", Partial(("PER",)), Partial(("B-LOC", "O")), None]
    allow(doc, "another", {3: ["O"]})
    assert tags_of(nlp, doc)[3] is None


def test_spans_noted_on_a_gold_doc_are_known_while_the_others_are_missing() -> None:
    """So chunks of some of a document's tokens can be given, which a span group cannot tell."""
    doc = bare_doc(blank(), ["a", "b", "c", "d"])
    for scheme, expected in (
        ("IOB2", [None, "B-NP", "I-NP", Partial(None, ("I-NP",))]),
        ("BILUO", [None, "B-NP", "L-NP", None]),
    ):
        nlp = blank("crf_chunker", scheme=scheme)
        allow(doc, "crf_chunker", {}, [(1, 3, "NP")])
        assert tags_of(nlp, doc) == expected


def test_an_annotated_tag_may_be_among_those_that_a_note_allows() -> None:
    nlp = blank("crf_ner")
    doc = bare_doc(nlp, ["Anna", "saw", "Oslo"])
    doc.set_ents([Span(doc, 2, 3, "LOC")])
    allow(doc, "crf_ner", {1: ["O", "PER"], 2: ["LOC"]})
    assert tags_of(nlp, doc) == ["O", "O", "U-LOC"]


@pytest.mark.parametrize(("default", "allowed", "spans", "message"), [
    ("outside", {2: ["PER", "B-LOC"]}, [],
     r"'Anna saw Oslo', token 2 \('Oslo'\) is annotated as 'U-LOC', but .* noted to be 'PER' or 'B-LOC'"),
    ("outside", {}, [(1, 2, "PER")], r"token 1 \('saw'\) is annotated as 'O', but .* noted to be 'U-PER'"),
    ("outside", {3: ["O"]}, [], "has 3 tokens, but there is a note on tokens 3-4"),
    ("missing", {0: []}, [], r"token 0 .*no label is left"),
])  # fmt: skip
def test_a_note_that_contradicts_the_annotation_is_refused(
    default: str, allowed: dict[int, list[str]], spans: list[tuple[int, int, str]], message: str
) -> None:
    nlp = blank("crf_ner")
    doc = bare_doc(nlp, ["Anna", "saw", "Oslo"])
    doc.set_ents([Span(doc, 2, 3, "LOC")], default=default)
    allow(doc, "crf_ner", allowed, spans)
    with pytest.raises(DataError, match=message):
        tags_of(nlp, doc)


def test_notes_follow_tokens_that_stand_for_each_other() -> None:
    nlp = blank("crf_tagger")
    gold = bare_doc(nlp, ["do", "n't", "stop", "it"])
    predicted = bare_doc(nlp, ["don't", "stop", "i", "t"])
    allow(gold, "crf_tagger", {0: ["VB"], 1: ["RB"], 2: ["VB", "NN"], 3: ["PRP"]})
    assert tags_of(nlp, gold, predicted) == [None, Partial(("NN", "VB")), None, None]


def test_labels_that_no_component_knows_are_named() -> None:
    nlp = trained("crf_ner")
    doc = bare_doc(nlp, ["Anna", "lives"])
    for allowed in ({0: ["PRE", "O"]}, {0: ["PRE"]}):
        allow(doc, "crf_ner", allowed)
        with pytest.raises(DataError, match=r"document 'Anna lives', token 0 .*no label 'PRE'.*'PER'"):
            nlp.update([Example(bare_doc(nlp, ["Anna", "lives"]), doc)])
    allow(doc, "crf_ner", {0: ["PER", "LOC"]})
    nlp.update([Example(bare_doc(nlp, ["Anna", "lives"]), doc)])  # nothing of the bad ones has stayed behind


@pytest.mark.parametrize(
    ("factory", "allowed", "spans", "token", "left"),
    [
        ("crf_ner", {0: ["PER", "O"]}, [], 0, lambda tag: tag == "O" or tag.endswith("-PER")),
        ("crf_chunker", {}, [(0, 1, "NP")], 1, lambda tag: tag != "I-NP"),  # which would go on with the span
    ],
)
def test_training_sees_the_tags_that_are_left(
    factory: str, allowed: dict[int, list[str]], spans: list[Any], token: int, left: Any
) -> None:
    nlp = trained(factory)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, ["a", "b"])
    allow(doc, factory, allowed, spans)
    (data,) = pipe.training.compile([Example(bare_doc(nlp, ["a", "b"]), doc)])
    sets = data.batch(0, 1).candidates.sets[MISSING - 1 - data.gold[token]]
    assert [tag for tag, there in zip(pipe.tags, sets, strict=True) if there] == list(filter(left, pipe.tags))


def test_both_ways_of_training_make_the_same_model_and_a_docbin_keeps_the_notes() -> None:
    def data(nlp: Language) -> list[Example]:
        docs = [example.reference for example in examples(nlp)]
        docs[0].set_ents([], default="missing")
        allow(docs[0], "crf_ner", {0: ["PER"], 1: ["O"], 3: ["LOC", "ORG"], 4: ["LOC", "ORG"]})
        stored = DocBin(docs=docs, store_user_data=True).to_bytes()
        docs = list(DocBin(store_user_data=True).from_bytes(stored).get_docs(nlp.vocab))
        return [Example(bare_doc(nlp, words_of(doc)), doc) for doc in docs]

    fitted, stepped = (blank("crf_ner", optimizer={**LBFGS_TIGHT, "max_iterations": 30}) for _ in range(2))
    initialize(fitted, data(fitted), fit=True)
    initialize(stepped, data(stepped))
    for _ in range(40):
        stepped.update(data(stepped), sgd=lambda *_: None)
    thetas = [pipe_of(nlp).crf.theta for nlp in (fitted, stepped)]
    np.testing.assert_allclose(thetas[0], thetas[1], atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("BILUO", [Partial(("U-LOC", "U-PER")), "O", Partial(("B-LOC", "B-ORG")), Partial(("L-LOC", "L-ORG"))]),
        ("IOB2", [Partial(("B-LOC", "B-PER")), "O", Partial(("B-LOC", "B-ORG")), Partial(("I-LOC", "I-ORG"))]),
    ],
)
def test_spans_with_several_labels_of_a_file_are_candidates_in_any_component_and_binary_file(
    scheme: str, expected: list[Any], tmp_path: Path
) -> None:
    labels = [[0, 2, "PER"], [0, 2, "LOC"], [8, 16, "ORG"], [8, 16, "LOC"]]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Bo saw\n\nNew York", "entities": labels}))
    nlp = blank("crf_ner", scheme=scheme)
    with pytest.warns(UserWarning, match="2 spans with several labels, which are candidates"):
        (example,) = create_annotation_reader(tmp_path / "a.jsonl")(nlp)
    DocBin(docs=[example.reference], store_user_data=True).to_disk(tmp_path / "a.spacy")
    (stored,) = Corpus(tmp_path / "a.spacy")(nlp)
    for gold in (example.reference, stored.reference):
        words = [token for token in tags_of(nlp, gold, gold.copy()) if token is not None]
        assert words == expected


def test_a_change_of_the_notes_is_a_change_of_the_example() -> None:
    nlp = trained("crf_ner")
    pipe, doc = pipe_of(nlp), bare_doc(nlp, ["Anna"])
    example = Example(bare_doc(nlp, ["Anna"]), doc)
    keys = {content_key(pipe.doc_model, example)}
    for label in ("O", "PER"):
        allow(doc, "crf_ner", {0: [label]})
        keys.add(content_key(pipe.doc_model, example))
    assert len(keys) == 3


def test_labels_may_be_added_beside_candidate_sets() -> None:
    nlp = blank("crf_ner")
    doc = bare_doc(nlp, ["Anna"])
    allow(doc, "crf_ner", {0: ["PER", "LOC"]})
    corpus = [*examples(nlp), Example(bare_doc(nlp, ["Anna"]), doc)]
    pipe_of(nlp).add_label("MISC")
    initialize(nlp, corpus)
    assert "MISC" in pipe_of(nlp).labels
    nlp.update(corpus)
    pipe_of(nlp).add_label("WORK")
    nlp.update(corpus)
    assert np.isfinite(pipe_of(nlp).fit(corpus).history[-1].report.value)


@pytest.mark.parametrize(("kind", "name"), [("loss", "PointwiseLog"), ("optimizer", "CoordinateDescent")])
def test_methods_that_cannot_learn_from_candidate_sets_say_so(kind: str, name: str) -> None:
    block = {kind: registered({"loss": "losses"}.get(kind, "optimizers"), name)}
    nlp = blank("crf_ner", **block)
    doc = bare_doc(nlp, ["Anna"])
    allow(doc, "crf_ner", {0: ["PER", "LOC"]})
    example, name = Example(bare_doc(nlp, ["Anna"]), doc), f"the {kind} {name}"
    with pytest.raises(ConfigError, match=rf"\[components.crf_ner\].*{name} learns only.*SequentialLog.*AdaGrad"):
        initialize(nlp, [*examples(nlp), example])
    nlp = trained("crf_ner", **block)
    with pytest.raises(ConfigError, match=f"{name} learns only"):
        nlp.update([example])


# Spans that are not there


def wrong_spans(nlp: Language, doc: Doc, *spans: tuple[int, int, str]) -> Doc:
    doc.spans["wrong"] = [Span(doc, *span) for span in spans]
    return doc


def test_incorrect_spans_are_known_beside_what_else_is() -> None:
    nlp = blank("crf_ner", incorrect_spans_key="wrong")
    doc = bare_doc(nlp, ["a", "b", "c", "d"])
    doc.set_ents([Span(doc, 3, 4, "LOC")], outside=[Span(doc, 2, 3)], default="missing")
    wrong_spans(nlp, doc, (0, 1, "PER"), (0, 2, "PER"), (1, 3, "PER"), (3, 4, "PER"))
    assert tags_of(nlp, doc) == [Partial(wrong=(("PER", 1), ("PER", 2))), None, "O", "U-LOC"]
    assert tags_of(blank("crf_ner"), doc) == [None, None, "O", "U-LOC"]
    wrong_spans(nlp, doc, (0, 2, "PER"))
    assert tags_of(nlp, doc, bare_doc(nlp, ["ab", "c", "d"]))[0] == Partial(wrong=(("PER", 1),))
    assert tags_of(nlp, doc, bare_doc(nlp, ["a", "bc", "d"])) == [None, None, "U-LOC"]  # no such span can be told


@pytest.mark.parametrize("scheme", ["BMES", "BILUO", "IOB2"])
def test_a_span_cannot_be_gold_and_incorrect(scheme: str) -> None:
    nlp = blank("crf_ner", scheme=scheme, incorrect_spans_key="wrong")
    doc = bare_doc(nlp, ["New", "York", "is", "big"])
    doc.set_ents([Span(doc, 0, 2, "LOC")])
    message = r"'New York is big', token 0 \('New'\): a span 'LOC' of 2 tokens is both gold and incorrect"
    with pytest.raises(DataError, match=message):
        tags_of(nlp, wrong_spans(nlp, doc, (0, 2, "LOC")))
    assert tags_of(nlp, wrong_spans(nlp, doc, (0, 1, "LOC"), (1, 2, "LOC"), (0, 2, "ORG")))[2:] == ["O", "O"]


@pytest.mark.parametrize(("factory", "scheme"), [("crf_ner", "BILUO"), ("crf_chunker", "IOB2")])
@pytest.mark.parametrize(("words", "online"), [("Anna of Norway", True), ("Bank of Norway", False)])
def test_a_span_that_is_marked_wrong_is_not_predicted_any_more(
    factory: str, scheme: str, words: str, online: bool
) -> None:
    """Of one token and of three; nothing else is known of these documents."""
    optimizer = {} if online else {"optimizer": LBFGS_TIGHT}
    nlp = trained(factory, scheme=scheme, incorrect_spans_key="wrong", **optimizer, **EVERYTHING)
    pipe = pipe_of(nlp)

    def doc() -> Doc:
        return bare_doc(nlp, words.split(), ["NNP"] * 3 if factory == "crf_chunker" else None)

    def ents() -> list[tuple[int, int, str]]:
        predicted = nlp(doc())
        return triples(pipe.annotation.spans_in(predicted))

    before = ents()[0]
    gold = wrong_spans(nlp, bare_doc(nlp, words.split()), before)
    initialize(nlp, examples(nlp, factory) + [Example(doc(), gold) for _ in range(20)], fit=True)
    assert before not in ents()
    table, wanted = pipe.marginals(doc()), pipe.annotation.tags_of_span(before[1] - before[0], before[2])
    assert min(table[before[0] + i, pipe.tags.index(tag)] for i, tag in enumerate(wanted)) < 0.3


@pytest.mark.parametrize("scheme", ["IOBES", "BILUO", "IOB2"])
@pytest.mark.parametrize("span", [(1, 2, "LOC"), (1, 3, "LOC"), (0, 3, "LOC")])
def test_the_loss_of_an_incorrect_span_is_that_of_all_labellings_without_it(
    scheme: str, span: tuple[int, int, str]
) -> None:
    nlp = trained("crf_ner", scheme=scheme, incorrect_spans_key="wrong", precision="float64", optimizer=LBFGS_TIGHT)
    pipe, (doc, other) = pipe_of(nlp), [bare_doc(nlp, ["saw", "New", "York"]) for _ in range(2)]
    doc.set_ents([], outside=[Span(doc, 0, 1)] if span[0] else [], default="missing")
    (data,) = pipe.training.compile([Example(other, wrong_spans(nlp, doc, span))])
    scores = pipe.crf.posterior(data.encoded, pipe.doc_model.labels.constraints).source.scores((0, 1))
    wanted = pipe.annotation.tags_of_span(span[1] - span[0], span[2])
    total = right = 0.0
    for path in product(range(len(pipe.tags)), repeat=3):
        tags = [pipe.tags[label] for label in path]
        score = scores.start[path[0]] + scores.end[path[-1]] + sum(scores.emissions[t, k] for t, k in enumerate(path))
        score += sum(scores.transitions[0][pair] for pair in pairwise(path))
        total += np.exp(score)
        there = tags[span[0] : span[1]] == wanted and (span[1] == 3 or tags[span[1]] != f"I-{span[2]}")
        if not there and (not span[0] or tags[0] == "O"):
            right += np.exp(score)
    loss = pipe.method.loss(scores, data.batch(0, 1), scores.zeros_like())
    assert loss == pytest.approx(np.log(total / right), rel=1e-9)


def test_a_word_of_the_tag_dictionary_may_be_marked_wrong() -> None:
    nlp = blank(scheme="IOB2", incorrect_spans_key="wrong", tag_dictionary_size=50, tag_dictionary_min_count=1)
    wrong = wrong_spans(nlp, bare_doc(nlp, ["Oslo"]), (0, 1, "LOC"))
    initialize(nlp, [*examples(nlp), Example(bare_doc(nlp, ["Oslo"]), wrong)])
    assert np.isfinite(pipe_of(nlp).fit().history[-1].report.value)


# Tags that continue no entity


def stray_docs(nlp: Language) -> list[Example]:
    """A text whose first tag is I-LOC, as in esp.train of CoNLL-2002, made as pages for newcomers make it."""
    rows = [("San", "I-LOC"), ("Diego", "I-LOC"), ("and", "O"), ("Ada", "B-PER")]
    words, tags = map(list, zip(*rows, strict=True))
    return [Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, ents=tags)) for _ in range(3)]


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO", "BMES"])
def test_a_stray_tag_begins_an_entity_in_training_and_scores(scheme: str) -> None:
    nlp = blank("crf_ner", scheme=scheme, **EVERYTHING)
    docs = stray_docs(nlp)
    with pytest.warns(UserWarning, match=r"'San Diego and Ada', token 0 \('San'\): I-LOC continues no entity"):
        initialize(nlp, docs, fit=True)
    scores = nlp.evaluate(stray_docs(nlp))  # which training has not seen; warned of once
    assert scores["ents_f"] == 1
    assert triples(docs[0].reference.ents) == [(0, 2, "LOC"), (3, 4, "PER")]


def test_stray_tags_of_another_tokenization() -> None:
    nlp = blank("crf_ner")
    gold = stray_docs(nlp)[0].reference
    with pytest.warns(UserWarning, match="continues no entity"):
        assert tags_of(nlp, gold, bare_doc(nlp, ["San", "Diego", "and", "A", "da"]))[:2] == ["B-LOC", "L-LOC"]


@pytest.mark.parametrize(
    ("iob", "expected"),
    [
        ([(2, ""), (1, "A"), (1, "A")], [(1, 3, "A")]),
        ([(3, "A"), (1, "B"), (1, "B")], [(0, 1, "A"), (1, 3, "B")]),
        ([(3, "A"), (1, "A"), (2, "")], [(0, 2, "A")]),
    ],
)
def test_which_tags_are_stray(iob: list[tuple[int, str]], expected: list[tuple[int, int, str]]) -> None:
    nlp = blank("crf_ner")
    doc = entities(nlp, "a b c", iob)
    begin_stray_entities(doc)
    assert triples(doc.ents) == expected


def test_stray_tags_of_a_binary_file_are_named_by_file_and_doc(tmp_path: Path) -> None:
    nlp = blank("crf_ner")
    DocBin(docs=[bare_doc(nlp, ["a"]), stray_docs(nlp)[0].reference]).to_disk(tmp_path / "gold.spacy")
    with pytest.warns(UserWarning, match=r"gold\.spacy, doc 2: .* I-LOC continues no entity") as seen:
        docs = list(load_docs(tmp_path / "gold.spacy", nlp.vocab))
    assert len(seen) == 1
    assert [ent.text for ent in docs[1].ents] == ["San Diego", "Ada"]


def test_a_corpus_kept_for_several_runs_has_its_candidate_sets() -> None:
    collected = []
    for keeps in (False, True):
        nlp = blank("crf_ner", optimizer=LBFGS_TIGHT)
        train = examples(nlp)
        train[0].reference.set_ents([], default="missing")
        allow(train[0].reference, "crf_ner", {0: ["PER", "O"]})
        pipe_of(nlp, "crf_ner").training.set(keeps=keeps)
        nlp.initialize(lambda: train)  # noqa: B023
        pipe_of(nlp, "crf_ner").fit()
        collected.append(pipe_of(nlp, "crf_ner").crf.theta)
    np.testing.assert_array_equal(*collected)


# --- weights of sequences: from files, Docs and stored corpora to the objective and to spaCy's updates --------------


COLUMNS = "Anna NNP {}\nsaw VBD {}\n\nOslo NNP {}\n\n"
CONLLU = "1\tAnna\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n\n"


def weighted(nlp: Language, factory: str, weights: Sequence[float]) -> list[Example]:
    corpus = examples(nlp, factory)
    for example, weight in zip(corpus, weights, strict=True):
        example.reference._.crf_weight = weight
    return corpus


def value_and_grad(nlp: Language, data: list[Example]) -> tuple[float, Any]:
    with pipe_of(nlp).training.training_on(data) as (objective, _):
        value, _, grad = objective.value_and_grad(np.random.default_rng(0).normal(size=objective.layout.size))
    return value, grad


@pytest.mark.parametrize(
    ("factory", "loss"), [*zip(FACTORIES, ["SequentialLog", "PointwiseLog", "SequentialExp"], strict=True)]
)
def test_a_weight_counts_a_sequence_so_many_times(factory: str, loss: str) -> None:
    config = {"loss": {"@crf_losses": f"spacy_crfseq.{loss}.v1"}, "optimizer": LBFGS_TIGHT}
    nlp = initialized(factory, precision="float64", **config)
    corpus = examples(nlp, factory)
    value, grad = value_and_grad(nlp, weighted(nlp, factory, [2, 0, 1, 1, 3]))
    expected, slope = value_and_grad(nlp, [corpus[0], corpus[0], corpus[2], corpus[3], corpus[4], corpus[4], corpus[4]])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-9, atol=1e-12)


def test_initialize_takes_weights_in_and_they_are_part_of_an_example() -> None:
    nlp = blank("crf_ner")
    data = weighted(nlp, "crf_ner", [1, 2, 3, 4, 0.5])
    pipe = pipe_of(initialize(nlp, data))
    assert pipe.training.corpus.data.weights.tolist() == [1, 2, 3, 4, 0.5]
    before = content_key(pipe.doc_model, data[1])
    data[1].reference._.crf_weight = 5.0
    assert content_key(pipe.doc_model, data[1]) != before
    assert pipe.training.compile([data[1]])[0].weights.tolist() == [5]


def test_all_sequences_of_a_doc_have_its_weight() -> None:
    nlp = initialized("crf_ner")
    words, starts = ["Anna", "saw", "Bob", "Oslo"], [True, False, False, True]
    gold = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "B-PER", "B-LOC"])
    gold._.crf_weight = 2
    empty = Doc(nlp.vocab)
    empty._.crf_weight = 7
    pairs = [Example(Doc(nlp.vocab), empty), Example(Doc(nlp.vocab, words=words, sent_starts=starts), gold)]
    none, both = pipe_of(nlp).training.compile(pairs)
    assert (none.weights.tolist(), both.weights.tolist()) == ([], [2, 2])


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "2", None])
def test_weights_that_are_no_numbers_are_refused(weight: Any) -> None:
    nlp = initialized("crf_ner")
    data = weighted(nlp, "crf_ner", [1, 1, 1, 1, weight])
    with pytest.raises(DataError, match=r"'Rain.*crf_weight must be a number of at least 0"):
        pipe_of(nlp).fit(data)


def read(reader: Any) -> list[float]:
    return [example.reference._.crf_weight for example in reader(spacy.blank("xx"))]


@pytest.mark.parametrize(
    ("values", "weight", "unit", "expected"),
    [
        (("2", "_", "0.5"), 1.0, "sentence", [2, 0.5]),
        (("2", "2.0", "0"), 3.0, "sentence", [6, 0]),
        (("2", "_", "2"), 1.0, "document", [2]),
        (("1", "1", "1"), 0.0, "sentence", [0, 0]),
    ],
)
def test_columns_of_weights(
    tmp_path: Path, values: tuple[str, ...], weight: float, unit: str, expected: list[float]
) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(COLUMNS.format(*values))
    assert read(create_conll_reader(file, ["word", "tag", "weight"], unit=unit, weight=weight)) == expected


@pytest.mark.parametrize(
    ("values", "unit", "line", "message"),
    [
        (("x", "_", "1"), "sentence", 1, "'x' in column 'weight' is not a weight"),
        (("_", "1", "1"), "sentence", 1, "'_' in column"),
        (("1", "_", "-1"), "sentence", 4, "'-1' in column"),
        (("1", "nan", "1"), "sentence", 2, "'nan' in column"),
        (("1", "2", "1"), "sentence", 2, "the weight 2 differs from the 1 before it"),
        (("1", "_", "2"), "document", 4, "the weight 2 differs"),
    ],
)
def test_wrong_weights_are_refused_with_their_line(
    tmp_path: Path, values: tuple[str, ...], unit: str, line: int, message: str
) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(COLUMNS.format(*values))
    with pytest.raises(FormatError, match=rf"weights.txt:{line}: {message}"):
        read(create_conll_reader(file, ["word", "tag", "weight"], unit=unit))


def test_readers_have_a_weight_for_the_whole_corpus(tmp_path: Path) -> None:
    file, attributes = tmp_path / "a.conllu", tmp_path / "a.txt"
    file.write_text(CONLLU)
    attributes.write_text("NNP\tw=Anna\n\n")
    assert read(create_conllu_reader(file, weight=2.5)) == [2.5]
    assert read(create_crfsuite_reader(attributes, weight=2.5)) == [2.5]
    with pytest.raises(ConfigError, match=r"weight = -1"):
        create_conllu_reader(file, weight=-1.0)
    (example,) = create_conllu_reader(file)(spacy.blank("xx"))
    assert not example.reference.user_data  # stored Docs without are read faster


def test_exports_of_annotation_tools_have_weights(tmp_path: Path) -> None:
    file, text = tmp_path / "train.jsonl", '{"text": "Anna saw Oslo", "spans": [], "answer": "accept"'
    notes = ['"weight": 2', '"meta": {"weight": 0.5}', '"weight": 0, "meta": {"weight": 3}', '"meta": {"weight": "kg"}']
    file.write_text("".join(f"{text}, {note}}}\n" for note in notes))
    assert read(create_annotation_reader(file, weight=2.0)) == [4, 1, 0, 2]
    for wrong in ('"2"', "-1", "true", "NaN", "null"):
        file.write_text(f'{text}}}\n{text}, "weight": {wrong}}}\n')
        with pytest.raises(FormatError, match=r'train.jsonl:2: "weight" must be a number of at least 0'):
            read(create_annotation_reader(file))


def test_stored_corpora_keep_weights(tmp_path: Path) -> None:
    nlp = initialized("crf_ner")
    gold = [example.reference for example in weighted(nlp, "crf_ner", [1, 2, 0.5, 1, 1])]
    DocBin(docs=gold, store_user_data=True).to_disk(tmp_path / "train.spacy")
    read = pipe_of(nlp).training.compile(list(Corpus(tmp_path / "train.spacy")(nlp)))
    assert [example.weights[0] for example in read] == [1, 2, 0.5, 1, 1]


# --- what one part of the knowledge about a token must not make of another ------------------------------------------


def test_a_label_that_is_allowed_alone_is_not_taken_where_a_span_ends_before_it() -> None:
    nlp = blank("crf_ner", scheme="IOB2")
    gold = bare_doc(nlp, ["Ada", "Lovelace", "Byron", "met"])
    allow(gold, "crf_ner", {2: ["I-PER"]}, [(0, 2, "PER")])
    with pytest.raises(DataError, match=r"token 2 \('Byron'\).*leaves no label"):
        nlp.initialize(lambda: [*examples(nlp), Example(bare_doc(nlp, words_of(gold)), gold)])


def test_candidate_sets_follow_tags_that_are_others_of_the_same_number() -> None:
    table = PartialTable(pipe_of(blank("crf_ner", scheme="IOB2")).annotation)
    table.number(Partial(("PER",)))
    table.number(Partial(None, barred=("O",)))
    for tags in (["O", "B-PER", "I-PER", "B-LOC"], ["B-LOC", "O", "I-PER", "B-PER"], ["O", "B-PER", "I-PER", "B-LOC"]):
        table.resolve(tags)
        rows = [[tag.endswith("PER") for tag in tags], [tag != "O" for tag in tags]]
        assert table.now[0].tolist() == rows
