"""Components as models of CRFsuite and Wapiti: the same labels and probabilities there, and what cannot be written."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.corpora.saved_models import read_saved_model
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.features import items
from spacy_crfseq.tools.models.exported import EDGES, exported_model, write_exported
from spacy_crfseq.tools.models.imported import import_pipeline
from tests.pipeline.helpers import (
    FACTORIES,
    blank,
    examples,
    initialize,
    inputs,
    pipe_of,
    registered,
    templates,
    trained,
)

PATTERNS = 'u:w=%x[0,0]\nu:bag=%X[-1,0]\nu:bag=%X[1,0]\n*:t=%x[0,1]/%x[-1,1]\nu:end=%m[0,0,".?.?$"]\nu\nb\n'
LINEAR = {"boundaries": False}
VALUES = {"values": registered("potentials", "Values")}
OWN = registered("features", "WapitiPatterns", patterns=["u:%x[0,0]"], columns=["word"])


def docs_of(nlp: Language, factory: str) -> list[Doc]:
    return [example.predicted for example in examples(nlp, factory)]


def exported(nlp: Language, path: Path, factory: str, docs: list[Doc] | None = None) -> Any:
    """Write the last component to a file, and return what was written."""
    found = docs_of(nlp, factory) if docs is None else docs
    model = exported_model(pipe_of(nlp), found, wapiti=".wapiti" in path.suffixes)
    assert write_exported(path, model)[0] == path
    return model


def module(path: Path) -> Any:
    return SimpleNamespace(**run_path(str(path.with_name(f"{path.stem}_items.py"))))


@pytest.mark.parametrize("keep_names", [False, True])
@pytest.mark.parametrize("factory", FACTORIES)
def test_crfsuite_gives_the_same_answers(factory: str, keep_names: bool, tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    (tmp_path / "paths.txt").write_text("0110\tanna\t3\n0111\tOslo\t2\n10\tlives\t1\n")
    classes = registered("attributes", "WordClasses", path=str(tmp_path / "paths.txt"), prefixes=[2, 0])
    nlp = trained(factory, attributes={"classes": classes}, keep_names=keep_names, precision="float64")
    pipe, path = pipe_of(nlp), tmp_path / "model.crfsuite"
    pipe.cfg["temperature"] = 1.5
    assert not exported(nlp, path, factory, [] if keep_names else None).notes
    tagger, other = pycrfsuite.Tagger(), module(path)
    tagger.open(str(path))
    docs = [doc for doc in inputs(nlp, factory) if len(doc)]
    answers = pipe.posterior(docs)
    for doc, labels, marginals in zip(docs, answers.labels, answers.marginals(), strict=True):
        columns = {"TAG": [token.tag_ for token in doc]} if factory == "crf_chunker" else {}
        assert tagger.tag(other.items([token.text for token in doc], **columns)) == [pipe.tags[y] for y in labels]
        found = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(doc))]
        np.testing.assert_allclose(found, marginals, atol=1e-9)
    if factory == "crf_chunker":
        with pytest.raises(ValueError, match="give TAG, one value for each of the 1 words"):
            other.items(["Anna"])


@pytest.mark.parametrize("of_tokens", [False, True])
@pytest.mark.parametrize("name", ["model.wapiti", "model.wapiti.gz"])
def test_wapiti_gives_the_same_answers(name: str, of_tokens: bool, tmp_path: Path) -> None:
    """As a pipeline computes them from a model of Wapiti, which has a test of its own."""
    (tmp_path / "patterns").write_text(PATTERNS)
    features = registered("features", "TemplateFile", path=str(tmp_path / "patterns"), columns=["word", "tag"])
    if of_tokens:
        patterns = [line.replace("$", "%d") for line in PATTERNS.split("\n") if line]
        own = registered("features", "WapitiPatterns", patterns=patterns, columns=["word", "tag"])
        functions = {"WAPITI": own, "WAPITI_PAIRS": {**own, "pairs": True}}
        features = templates("WAPITI[0]", bigram_templates=["WAPITI_PAIRS[0]"], token_functions=functions)
    nlp = trained("crf_chunker", features=features, precision="float64", boundaries=not of_tokens)
    pipe_of(nlp).cfg["temperature"] = 1.5
    exported(nlp, tmp_path / name, "crf_chunker")
    model = read_saved_model(tmp_path / name)
    assert model is not None
    assert model.patterns == PATTERNS.split() + EDGES
    again = spacy.blank("xx")
    import_pipeline(again, model, "chunk", columns=["word", "tag"])
    one, other = (pipe_of(each).posterior(inputs(each, "crf_chunker")) for each in (nlp, again))
    assert pipe_of(nlp).tags == pipe_of(again).tags
    np.testing.assert_allclose(np.concatenate(one.marginals()), np.concatenate(other.marginals()), atol=1e-9)
    exported(again, tmp_path / f"again.{name}", "crf_chunker", [])
    assert (tmp_path / f"again.{name}").read_bytes() == (tmp_path / name).read_bytes()


def attributes(doc: Doc) -> list[list[Any]]:
    return [[f"w={token.text}", ("length", len(token) / 10), ("2" if len(token) > 3 else "1", 0.5)] for token in doc]


def test_attributes_with_values(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    given_ = registered("features", "Attributes")
    nlp = blank(
        "crf_tagger", features=templates("GIVEN[0]", token_functions={"GIVEN": given_}), **LINEAR,
        potentials={"values": registered("potentials", "Values")}, precision="float64",
    )  # fmt: skip
    corpus = examples(nlp)
    for example in corpus:
        example.predicted._.crf_attributes = attributes(example.predicted)
    initialize(nlp, corpus, fit=True)
    docs = [example.predicted for example in corpus]
    model = exported(nlp, tmp_path / "model.crfsuite", "crf_tagger", docs)
    assert {"length", "1", "2", "w=Anna"} <= set(model.model.attributes.names)
    assert not model.module
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model.crfsuite"))
    pipe = pipe_of(nlp)
    for doc, marginals in zip(docs, pipe.posterior(docs).marginals(), strict=True):
        tagger.set([dict((one, 1.0) if isinstance(one, str) else one for one in each) for each in attributes(doc)])
        found = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(doc))]
        np.testing.assert_allclose(found, marginals, atol=1e-9)
    with pytest.raises(DataError, match="in none of the texts"):
        exported_model(pipe, docs[:1], wapiti=False)


@pytest.mark.parametrize(("name", "block", "message"), [
    ("crfsuite", registered("features", "Attributes"), "'w' has other weights with the value 1 than with others"),
    ("wapiti", OWN, "the potential values.*no potentials"),
])  # fmt: skip
def test_attributes_with_values_that_a_format_cannot_hold(
    name: str, block: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """After training, a name has weights of its own where it has values."""
    features = templates("GIVEN[0]", token_functions={"GIVEN": block})
    nlp = blank("crf_tagger", features=features, **LINEAR, potentials=VALUES)
    corpus = examples(nlp)
    for example in corpus:
        words = enumerate(token.text for token in example.predicted)
        example.predicted._.crf_attributes = [[("w", 0.5) if i % 2 else "w", word] for i, word in words]
    initialize(nlp, corpus, fit=True)
    with pytest.raises(ConfigError, match=message):
        exported(nlp, tmp_path / f"model.{name}", "crf_tagger", [example.predicted for example in corpus])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("settings", "kind", "message"), [
    ({"features": templates("LOWER[0]", bigram_templates=["LOWER[0]"])}, "crfsuite", "bigram_templates = "),
    ({"features": templates("LIKE_NUM[0]", "LOWER[0]")}, "crfsuite", "'LIKE_NUM'"),
    ({"tag_dictionary_size": 5, "tag_dictionary_min_count": 1}, "crfsuite", "tag_dictionary_size = 0"),
    ({"attributes": {"words": registered("attributes", "DocumentWords")}}, "crfsuite", "attributes of documents"),
    ({"features": templates("OWN[0]", token_functions={"OWN": OWN}), **LINEAR}, "crfsuite", "CRFsuiteItems"),
    ({}, "wapiti", "TemplateFile"),
    ({"loss": registered("losses", "LocalLog"), "decoder": registered("decoders", "LocalViterbi")}, "crfsuite",
     "normalised at each token"),
    ({"once": ["*"]}, "crfsuite", "once or order"),
    ({"order": ["NNP", "VBZ"]}, "crfsuite", "once or order"),
])  # fmt: skip
def test_what_a_format_cannot_hold(settings: dict[str, Any], kind: str, message: str, tmp_path: Path) -> None:
    nlp = trained("crf_tagger", **settings)
    with pytest.raises(ConfigError, match=message):
        exported(nlp, tmp_path / f"model.{kind}", "crf_tagger")
    assert not list(tmp_path.iterdir())


def test_unknown_names_and_edges_of_given_attributes(tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text(PATTERNS)
    features = registered("features", "TemplateFile", path=str(tmp_path / "patterns"), columns=["word", "tag"])
    nlp = trained("crf_ner", features=features)
    with pytest.raises(DataError, match=r"occur in none of the texts.*keep_names = true"):
        exported(nlp, tmp_path / "model.wapiti", "crf_ner", docs_of(nlp, "crf_ner")[:1])
    given_ = registered("features", "Attributes")
    for settings in (LINEAR, {}):
        nlp = blank("crf_ner", features=templates("GIVEN[0]", token_functions={"GIVEN": given_}), **settings)
        corpus = examples(nlp)
        for example in corpus:
            example.predicted._.crf_attributes = [[token.text] for token in example.predicted]
        initialize(nlp, corpus, fit=True)
        docs = [example.predicted for example in corpus]
        if settings:
            notes = exported(nlp, tmp_path / "model.crfsuite", "crf_ner", docs).notes
            assert "may begin or end with a tag" in notes[0]
        else:
            with pytest.raises(ConfigError, match=r"first and last labels.*boundaries = false"):
                exported(nlp, tmp_path / "other.crfsuite", "crf_ner", docs)


@given(text=st.text(min_size=1, max_size=8) | st.sampled_from(["Élan", "B2B", "x" * 120, "ⅧⅧ", "Ⓐ", "—", "McDonald's"]))
def test_items_are_those_of_spacy(text: str) -> None:
    lexeme = spacy.blank("xx").vocab[text]
    for name, function in items.LEXEME_FUNCTIONS.items():
        value = getattr(lexeme, name.lower() if name.startswith("IS_") else f"{name.lower()}_")
        assert (function(text) or "") == (value if isinstance(value, str) else "1" if value else ""), name


WORDS = [
    "a",
    "b",
    "c|a",
    "|",
    "\\",
    "\\|",
    "_B+1",
    "_B-1",
    "\\_B+1",
    "_B",
    "x\\_B+1",
    "_START",
    "LOWER[0]=a",
    "a\tb",
    "a:b",
    "=",
    '"',
    "é",
]


@pytest.mark.parametrize("keep_names", [False, True])
def test_words_that_look_like_parts_of_names(keep_names: bool, tmp_path: Path) -> None:
    """Bars that join values, backslashes before them, and markers beyond the ends of a sentence."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    features = templates("LOWER[0]", "LOWER[1]", "ORTH[-1]", "LOWER[0]|LOWER[1]", "ORTH[-1]|ORTH[0]|ORTH[1]")
    nlp = blank("crf_tagger", features=features, keep_names=keep_names, precision="float64")
    rng, corpus = np.random.default_rng(0), []
    for _ in range(60):
        words = [WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 5))]
        gold = Doc(nlp.vocab, words, tags=[f"T{rng.integers(3)}" for _ in words])
        corpus.append(Example(Doc(nlp.vocab, words), gold))
    initialize(nlp, corpus, fit=True)
    pipe, path = pipe_of(nlp), tmp_path / "model.crfsuite"
    exported(nlp, path, "crf_tagger", [] if keep_names else [example.predicted for example in corpus])
    tagger, other = pycrfsuite.Tagger(), module(path)
    tagger.open(str(path))
    texts = [[WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 6))] for _ in range(300)]
    marginals = pipe.posterior([Doc(nlp.vocab, words) for words in texts]).marginals()
    for words, rows in zip(texts, marginals, strict=True):
        tagger.set(other.items(words))
        found = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(words))]
        np.testing.assert_allclose(found, rows, atol=1e-9)


def test_names_of_two_functions_and_of_other_tokens_are_refused(tmp_path: Path) -> None:
    """A program that computes the attributes of a token knows nothing of functions and offsets."""
    own = registered("features", "CRFsuiteItems", function=registered("features", "Attributes"))
    for names, message in (
        (["ONE[0]", "OTHER[0]"], "two features have the name 'w=Anna'"),
        (["ONE[-1]"], "the attributes .*'ONE'"),
    ):
        functions = {name: own for name in ("ONE", "OTHER") if name in " ".join(names)}
        nlp = blank("crf_tagger", features=templates(*names, token_functions=functions), **LINEAR)
        corpus = examples(nlp)
        for example in corpus:
            example.predicted._.crf_attributes = [[f"w={token.text}"] for token in example.predicted]
        initialize(nlp, corpus, fit=True)
        with pytest.raises((ConfigError, DataError), match=message):
            exported(nlp, tmp_path / "model.crfsuite", "crf_tagger", [example.predicted for example in corpus])
    assert not list(tmp_path.iterdir())
