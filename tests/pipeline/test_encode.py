"""A training set is compiled chunk by chunk from a stream, and comes out as if it had been read at once."""

import gc
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import DataError
from spacy_crfseq.features.attributes import LEXEME_FLAGS, LEXEME_HASHES
from spacy_crfseq.features.encoded import Encoded, take_sequences
from spacy_crfseq.pipeline import corpus as corpus_module
from spacy_crfseq.pipeline import corpus_encoder
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.corpus import Corpus
from spacy_crfseq.pipeline.evaluator import Evaluator, labelled_texts
from spacy_crfseq.pipeline.prediction import VocabInUse, lexeme_reader
from spacy_crfseq.pipeline.readers import create_conll_reader, create_conllu_reader
from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS,
    LBFGS_TIGHT,
    SENTENCES,
    bare_doc,
    blank,
    examples,
    gold_doc,
    initialize,
    input_doc,
    pipe_of,
    registered,
    templates,
    trained,
)
from tests.problems import ids_of_tokens

WITH_TAGS = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["ORTH[-1..0]", "TAG[-1..1]", "LOWER|TAG[-1]"]}


def initialized(
    factory: str, given: bool, chunk: int, monkeypatch: pytest.MonkeyPatch, **config: object
) -> CRFComponent:
    monkeypatch.setattr(corpus_module, "PORTION", chunk)
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe(factory, config={"optimizer": LBFGS_TIGHT, "keep_names": True, **config})
    source = examples(nlp, factory, repeat=2)
    if not given:
        source = [Example(bare_doc(nlp, [row[0] for row in rows]), gold_doc(nlp, rows)) for rows in SENTENCES]
    nlp.initialize(lambda: iter(source))
    return pipe


def attributes_of_tokens(pipe: CRFComponent, encoded: Encoded) -> list[set[str]]:
    store = encoded.unigrams.store
    collected = []
    for bags, attrs in zip(*encoded.unigrams.expanded(), strict=True):
        numbers = [*attrs[attrs >= 0]]
        for bag in bags:
            numbers += [*store.ids[store.ptr[bag] : store.ptr[bag + 1]]]
        collected.append({pipe.doc_model.feature_names[number] for number in numbers})
    return collected


@pytest.mark.parametrize(
    ("factory", "given", "min_count"),
    [("crf_tagger", True, 1), ("crf_chunker", True, 2), ("crf_chunker", False, 1), ("crf_ner", False, 2)],
)
def test_chunks_make_no_difference(factory: str, given: bool, min_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"features": WITH_TAGS} if factory != "crf_tagger" else {}
    whole, parts = (
        initialized(factory, given, chunk, monkeypatch, min_count=min_count, **features) for chunk in (100, 2)
    )
    assert whole.labels == parts.labels
    assert sorted(whole.doc_model.feature_names) == sorted(parts.doc_model.feature_names)
    data, other = whole.training.corpus.data, parts.training.corpus.data
    np.testing.assert_array_equal(data.gold, other.gold)
    np.testing.assert_array_equal(data.encoded.offsets, other.encoded.offsets)
    assert attributes_of_tokens(whole, data.encoded) == attributes_of_tokens(parts, other.encoded)
    assert whole.fit().history[-1].report.value == pytest.approx(parts.fit().history[-1].report.value, rel=1e-3)


@pytest.mark.parametrize("min_count", [1, 2])
def test_stored_texts_are_those_that_a_pipeline_reads(min_count: int) -> None:
    nlp = spacy.blank("xx")
    pair = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["ORTH[-2..2]", "SHAPE[0]", "ORTH[-1]|TAG[0]"]}
    config = {"features": {**pair, "bigram_templates": ["LOWER[0]"]}, "min_count": min_count}
    pipe = nlp.add_pipe("crf_tagger", config=config)
    source = examples(nlp, "crf_tagger", repeat=2)
    nlp.initialize(lambda: iter(source))
    stored = pipe.training.corpus.data
    read, _ = pipe.doc_model.encode([example.predicted for example in source])
    assert stored.gold.dtype == np.int8
    for order in (np.arange(stored.n_sequences), np.array([3, 1])):
        some, wanted = stored.take(order).encoded, take_sequences(read, order)[0]
        for block in (0, 1):
            assert ids_of_tokens(some[block]) == ids_of_tokens(wanted[block])


def test_documents_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "PORTION", 10)
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    docs: list[weakref.ref[Doc]] = []
    most = 0

    def stream() -> Iterator[Example]:
        nonlocal most
        for i in range(100):
            rows = SENTENCES[i % len(SENTENCES)]
            example = Example(input_doc(nlp, "crf_ner", rows), gold_doc(nlp, rows))
            docs.append(weakref.ref(example.predicted))
            most = max(most, sum(doc() is not None for doc in docs))
            yield example
            del example

    gc.disable()
    try:
        nlp.initialize(stream)
    finally:
        gc.enable()
    assert most < 30


# --- scores of parameters on arrays: the same figures as those of Docs, or none -------------------------------------


SETTINGS = [(factory, {}) for factory in FACTORIES]
SETTINGS += [("crf_tagger", {"attr": "pos"}), ("crf_tagger", {"attr": "morph"}), ("crf_ner", {"scheme": "IOB2"})]


def dev_of(nlp: Language, factory: str) -> list[Example]:
    """Return a sentence without spaces that are known, one with them and another label, and a Doc of two sentences."""
    dev = examples(nlp, factory)
    spaced = Doc(nlp.vocab, words=["Anna", "saw", "Norway"], spaces=[True, True, False])
    gold = Doc(nlp.vocab, words=["Anna", "saw", "Norway"], tags=["NEW", "VBD", "NNP"], pos=["PROPN", "VERB", "NOUN"],
               morphs=["Number=Sing", "", "Case=Nom"], ents=["O", "O", "B-NEW"])  # fmt: skip
    gold.spans["chunks"] = [Span(gold, 0, 2, "NEW")]
    starts: list[Any] = [True, False, True, False]
    two = [Doc(nlp.vocab, words=[*"abcd"], sent_starts=starts) for _ in range(2)]
    two[1].set_ents([Span(two[1], 1, 2, "LOC"), Span(two[1], 2, 3, "LOC")])
    two[1].spans["chunks"] = [Span(two[1], 1, 2, "NP"), Span(two[1], 2, 3, "NP")]
    for token in two[1]:
        token.tag_, token.pos_ = "NNP", "NOUN"
        token.set_morph("Number=Sing")
    return [*dev, Example(spaced, gold), Example(*two)]


@pytest.mark.parametrize(("factory", "settings"), SETTINGS)
def test_scores_are_those_of_docs(factory: str, settings: dict[str, Any]) -> None:
    nlp = blank(factory, optimizer={**LBFGS, "max_iterations": 3}, **settings)
    initialize(nlp, examples(nlp, factory)[:3])
    pipe, dev = pipe_of(nlp), dev_of(nlp, factory)
    if settings.get("attr") == "morph":  # words without features are not annotated
        dev = [example for example in dev if all(token.morph for token in example.reference)]
    result = pipe.fit(dev=dev)
    for theta, scores in ((result.best, result.scores_of_best), (result.last, result.scores_of_last)):
        pipe.set_parameters(theta)
        actual = nlp.evaluate(dev)
        actual.pop("speed")
        assert scores == actual
        assert 0 < scores[pipe.annotation.score_name] < 1 or settings.get("attr") == "morph"


@pytest.mark.parametrize("what", ["unknown", "space", "other words", "decided", "threshold", "sentences"])
def test_no_scores_where_docs_are_needed(what: str) -> None:
    nlp = blank("crf_ner", optimizer={**LBFGS, "max_iterations": 1})
    nlp.get_pipe("crf_ner").cfg["threshold"] = 0.5 if what == "threshold" else 0.0  # type: ignore[attr-defined]
    initialize(nlp, examples(nlp))
    gold = gold_doc(nlp, SENTENCES[0])
    words = [token.text for token in gold]
    words = [*words[:3], "NewYork", "."] if what == "other words" else words
    ents: list[Any] = ["B-PER" if what == "decided" else "", *[""] * (len(words) - 1)]
    predicted = Doc(nlp.vocab, words=words, ents=ents if what == "decided" else None)
    if what == "unknown":
        gold.set_ents([], missing=[gold[1:2]], default="unmodified")
    elif what == "sentences":
        gold[3].is_sent_start = True
    elif what == "space":
        predicted, gold = (
            Doc(nlp.vocab, words=["a", " "], ents=["O", "O"] if annotated else None) for annotated in (0, 1)
        )
    result = pipe_of(nlp).fit(dev=[Example(predicted, gold)])
    assert result.scores_of_best is result.scores_of_last is None
    assert result.best_score is not None


def sentences_of(
    nlp: Language, words: Sequence[str], starts: Sequence[int], spans: Sequence[tuple[int, int]]
) -> Example:
    """Return a Doc with these sentences and spans, annotated for all tasks."""
    sent_starts: Any = [i in starts for i in range(len(words))]
    predicted, gold = (Doc(nlp.vocab, words=[*words], sent_starts=sent_starts) for _ in range(2))
    gold.set_ents([Span(gold, *span, "LOC") for span in spans], default="outside")
    gold.spans["chunks"] = [Span(gold, *span, "LOC") for span in spans]
    for token in gold:
        token.tag_ = "NNP"
    return Example(predicted, gold)


@pytest.mark.parametrize(
    ("words", "starts", "spans"),
    [
        (["New", "York", "won"], [0], [(0, 2)]),
        (["New", " ", "York"], [0], [(0, 1)]),
        (["New", "York", "\n\n"], [0], [(0, 2)]),
        (["New", "York", "won"], [0, 1], [(0, 2)]),
        (["New", "York", "won"], [0, 1], [(0, 1), (1, 2)]),
    ],
)
def test_scores_are_none_or_those_of_docs(
    factory: str, pipeline: Language, words: list[str], starts: list[int], spans: list[tuple[int, int]]
) -> None:
    dev = [sentences_of(pipeline, words, starts, spans), *examples(pipeline, factory)[:2]]
    evaluator = Evaluator(pipe_of(pipeline).doc_model, dev)
    scores, result = evaluator.scores(pipe_of(pipeline).crf.theta), pipeline.evaluate(dev)
    result.pop("speed")
    assert scores in (None, result)
    crossing = factory != "crf_tagger" and any(start < at < end for start, end in spans for at in starts)
    assert (scores is None) == (crossing or any(map(str.isspace, words)))


def test_spans_where_nothing_is_known_do_not_count() -> None:
    nlp = trained("crf_ner")
    (example,) = examples(nlp)[:1]
    gold = example.reference
    theta = pipe_of(nlp).crf.theta
    assert Evaluator(pipe_of(nlp).doc_model, [example])(theta) == 1
    unknown = next(ent for ent in gold.ents)
    gold.set_ents([ent for ent in gold.ents if ent != unknown], missing=[unknown], default="outside")
    assert Evaluator(pipe_of(nlp).doc_model, [example])(theta) == 1


# --- A corpus file read without docs gives what its docs give, and docs are made where they are needed --------------


COLUMNS = ["word", "tag", "pos", "morph", "chunk", "ent"]
WITH_TAGS_OF_PORTIONS = templates("ORTH[-1..0]", "TAG[0]", "SHAPE[0]|TAG[-1]")


def write(path: Path, changes: dict[int, dict[int, str]] | None = None) -> Path:
    """Write the sentences as columns, with changes by sentence and column of the first word."""
    blocks = []
    for number, sentence in enumerate(SENTENCES):
        rows = [[*row[:5], row[5].replace("U-", "B-").replace("L-", "I-")] for row in sentence]
        for column, value in (changes or {}).get(number, {}).items():
            rows[0][column] = value
        blocks.append("\n".join(" ".join(row) for row in rows))
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf8")
    return path


def read(path: Path, factory: str, by_portions: bool, settings: dict[str, Any], reader: dict[str, Any]) -> Any:
    """Return a component initialized on a file, and whether each portion had docs."""
    nlp = blank(factory, **settings)
    corpus = create_conll_reader(path, **{"columns": COLUMNS, **reader})
    had_docs: list[bool] = []

    def portions(size: int, *args: Any) -> Any:
        for part in corpus.portions(nlp, size, *args):
            had_docs.append(isinstance(part, list))
            yield part

    sizes: list[tuple[int, int]] = []
    source = Corpus(
        partial(corpus.stream, nlp), False, lambda *size: sizes.append(size), portions if by_portions else None
    )
    nlp.initialize(lambda: source)
    return pipe_of(nlp), had_docs, sizes


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[int, dict[int, str]], list[bool]]] = {
    "tags": ("crf_tagger", {}, {}, {}, [False] * 3),
    "entities": ("crf_ner", {}, {}, {}, [False] * 3),
    "given tags": ("crf_chunker", {"features": WITH_TAGS_OF_PORTIONS}, {"given": ["tag"]}, {}, [False] * 3),
    "a tag dictionary": ("crf_tagger", {"tag_dictionary_size": 2}, {}, {}, [False] * 3),
    "parts of speech": ("crf_tagger", {"attr": "pos"}, {}, {0: {2: "_"}}, [False] * 3),
    "other scheme": ("crf_ner", {"scheme": "IOB2"}, {"scheme": "IOB2"}, {}, [False] * 3),
    "invalid": ("crf_ner", {}, {"on_invalid": "conlleval"}, {1: {5: "I-LOC"}}, [False] * 3),
    "a limit": ("crf_ner", {}, {"limit": 3}, {}, [False] * 2),
    "features": ("crf_tagger", {"attr": "morph"}, {}, {}, [True] * 3),
    "tags of gold docs": ("crf_chunker", {"features": WITH_TAGS_OF_PORTIONS}, {}, {}, [True] * 3),
    "a negative tag": ("crf_tagger", {}, {}, {2: {1: "!NNP"}}, [False, True, False]),
    "missing": ("crf_ner", {}, {}, {2: {5: "-"}}, [False, True, False]),
    "weight": ("crf_ner", {}, {"weight": 2.0}, {}, [False] * 3),
    "documents": ("crf_ner", {}, {"unit": "document"}, {}, [True]),
    "twice": ("crf_ner", {}, {"twice": True}, {}, [True] * 5),
    "joined": ("crf_ner", {}, {"joined": 0.5}, {}, [True] * 2),
    "a word of white space": ("crf_ner", {}, {}, {2: {0: "\N{NO-BREAK SPACE}"}}, [False, True, False]),
}


@pytest.mark.filterwarnings("ignore:.*not valid IOB2")
@pytest.mark.parametrize("case", CASES)
def test_portions_are_encoded_as_docs_are(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "PORTION", 2)
    factory, settings, reader, changes, expected = CASES[case]
    path = write(tmp_path / "train.conll", changes)
    (pipe, had_docs, size), (other, _, other_size) = (
        read(path, factory, by_portions, settings, reader) for by_portions in (True, False)
    )
    assert had_docs == expected
    assert size == other_size
    assert pipe.label_data == other.label_data
    data, wanted = pipe.training.corpus.data, other.training.corpus.data
    for own, theirs in ((data.gold, wanted.gold), (data.weights, wanted.weights)):
        np.testing.assert_array_equal(own, theirs)
    for first, two in (
        (data.encoded.unigrams, wanted.encoded.unigrams),
        (data.encoded.bigrams, wanted.encoded.bigrams),
    ):
        np.testing.assert_array_equal(first.plain().columns, two.plain().columns)
    np.testing.assert_array_equal(data.encoded.offsets, wanted.encoded.offsets)
    for keys, their_keys in zip(pipe.crf.keys, other.crf.keys, strict=True):
        np.testing.assert_array_equal(keys, their_keys)
    np.testing.assert_array_equal(pipe.fit().last, other.fit().last)


@pytest.mark.filterwarnings("ignore:.*not valid IOB2")
@pytest.mark.parametrize(
    ("case", "reader"),
    [
        *((case, {}) for case in ("given tags", "parts of speech", "other scheme", "invalid", "missing", "documents")),
        ("entities", {"given": ["ent"]}),
    ],
)
def test_scores_of_sentences_without_docs_are_those_of_their_docs(
    case: str, reader: dict[str, Any], tmp_path: Path
) -> None:
    factory, settings, changed, changes, had_docs = CASES[case]
    nlp = blank(factory, optimizer={**LBFGS, "max_iterations": 3}, **settings)
    initialize(nlp, examples(nlp, factory)[:2])
    read = create_conll_reader(write(tmp_path / "dev.conll", changes), **{"columns": COLUMNS, **changed, **reader})
    pipe, dev = pipe_of(nlp), Corpus(partial(read, nlp), False, None, partial(read.portions, nlp))
    pipe.fit()
    assert (labelled_texts(pipe.doc_model, dev) is None) == (True in had_docs or bool(reader))
    own, theirs = Evaluator(pipe.doc_model, dev), Evaluator(pipe.doc_model, list(dev))
    assert own(pipe.crf.theta) == theirs(pipe.crf.theta)
    assert own.scores(pipe.crf.theta) == theirs.scores(pipe.crf.theta)
    fits = [evaluator.calibration(evaluator.posterior(pipe.crf.theta)) for evaluator in (own, theirs)]
    assert fits[0] == fits[1]


def test_it_is_kept_of_sentences_without_docs_whether_spaces_are_known(tmp_path: Path) -> None:
    nlp = trained("crf_tagger")
    words = "".join(f"{i}\t{word}\t_\tNOUN\tNNP\t_\t0\t_\t_\t_\n" for i, word in enumerate(("a", "b"), start=1))
    (tmp_path / "dev.conllu").write_text(f"{words}\n", encoding="utf8")
    read = create_conllu_reader(tmp_path / "dev.conllu")
    dev = Corpus(partial(read, nlp), False, None, partial(read.portions, nlp))
    assert labelled_texts(pipe_of(nlp).doc_model, dev) is not None
    scores = [Evaluator(pipe_of(nlp).doc_model, of).scores(pipe_of(nlp).crf.theta) for of in (dev, list(dev))]
    assert scores[0] == scores[1]
    assert scores[0] is not None
    assert scores[0]["token_acc"] == 1


@pytest.mark.parametrize("changes", [{1: {5: "I-LOC"}}, {1: {2: "NOUNS"}}])
def test_errors_of_columns_that_the_task_does_not_need(changes: dict[int, dict[int, str]], tmp_path: Path) -> None:
    path = write(tmp_path / "train.conll", changes)
    with pytest.raises(DataError, match=r"train\.conll:8"):
        read(path, "crf_tagger", True, {}, {})


def test_docs_are_made_where_features_read_them(tmp_path: Path) -> None:
    words = {"attributes": {"doc": registered("attributes", "DocumentWords")}}
    pipe, had_docs, _ = read(write(tmp_path / "train.conll"), "crf_ner", True, words, {})
    assert isinstance(pipe, CRFComponent)
    assert had_docs == []
    assert isinstance(next(create_conll_reader(tmp_path / "train.conll", COLUMNS).stream(blank())), Example)


def test_the_model_learns_from_columns_as_they_are_and_knows_those_of_gold_docs() -> None:
    """A column that only gold Docs have gives features that `annotating_components` may bring, but no input."""
    nlp = blank("crf_ner", features=WITH_TAGS_OF_PORTIONS)
    corpus = examples(nlp, "crf_ner")
    assert not any(token.tag for example in corpus for token in example.predicted)
    nlp.initialize(lambda: corpus)
    pipe = pipe_of(nlp)
    own, features = pipe.training.corpus.data, set(range(len(pipe.crf.keys[0])))
    docs = [example.predicted for example in corpus], [example.reference for example in corpus]
    plain, tagged = (ids_of_tokens(pipe.doc_model.encode(texts)[0].unigrams) for texts in docs)
    assert ids_of_tokens(own.encoded.unigrams) == plain != tagged
    assert {*chain(*plain)} < {*chain(*tagged)} == features


@given(st.lists(st.integers(-300, 300) | st.sampled_from([-129, -128, 127, 128, 32767, 32768]), max_size=4))
def test_labels_are_stored_in_the_smallest_type_that_holds_them(labels: list[int]) -> None:
    gold = np.array(labels, np.int32)
    kind = corpus_encoder.type_for(gold)
    assert gold.astype(kind).tolist() == labels
    smaller = [np.dtype(t) for t in (np.int8, np.int16, np.int32) if np.dtype(t).itemsize < kind.itemsize]
    assert all(gold.astype(t).tolist() != labels for t in smaller)


@pytest.mark.parametrize("lang", ["en", "es", "xx"])
def test_words_without_lexemes_have_the_values_of_lexemes(lang: str) -> None:
    vocab = spacy.blank(lang).vocab
    words = ["Adas", "NAÏVES", "10,56", "«", "$", "\n\n", "http://a.org", "x@y.de", "the", "el", "IS_TITLE", "ab-12"]
    names, orths = [*LEXEME_HASHES, *LEXEME_FLAGS], [vocab.strings.add(word) for word in words]
    computed = lexeme_reader(VocabInUse(vocab), [name for name in names if name != "IS_OOV"], {})(orths)
    assert "Adas" not in vocab
    vocab["NAÏVES"].is_stop = True
    values = lexeme_reader(VocabInUse(vocab), names, {})(orths)
    expected = [[getattr(vocab[word], name.lower()) for name in names] for word in words]
    np.testing.assert_array_equal(values, np.array(expected, np.uint64))
    expected[1][names.index("IS_STOP")] = False
    np.testing.assert_array_equal(computed, np.delete(np.array(expected, np.uint64), names.index("IS_OOV"), axis=1))
    assert {vocab.strings[value] for value in values[0, :5].tolist()} == {"Adas", "adas", "Xxxx", "A", "das"}
