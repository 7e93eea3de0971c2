"""Models of CRFsuite: the same bytes in its file, the same answers as a component, and a component as its model."""

from __future__ import annotations

import itertools
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.corpora.saved_models import read_crfsuite_model, write_crfsuite_model
from spacy_crfseq.errors import ConfigError, DataError, NotFittedError
from spacy_crfseq.features import items
from spacy_crfseq.features.entries import CRFsuiteItems
from spacy_crfseq.tools.models.exported import exported_model
from spacy_crfseq.tools.models.imported import import_model, model_of, settings_for
from tests.commands import Run, refused, worked, write_models
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
from tests.tools.models.programs import LABELS, attributes, exported, imported, sequences

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed (pip install python-crfsuite)")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imported") / "model.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 30, "c2": 0.01})
    rng = np.random.default_rng(0)
    for words in sequences(rng, 60):
        trainer.append([attributes(words, i) for i in range(len(words))], rng.choice(LABELS, len(words)).tolist())
    trainer.train(str(path))
    return path


@settings(max_examples=15)
@given(data=st.data())
def test_a_model_of_crfsuite_is_written_byte_by_byte(data: st.DataObject) -> None:
    """Those that CRFsuite has trained, with names of any length, of which its hash reads twelve bytes at a time."""
    name = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
    names = data.draw(st.lists(name, min_size=1, max_size=60, unique=True))
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 4, "c1": 0.1})
    for labels in (["B-X", "é"], ["é", "O", "a longer label"], ["O", "B-X"]):
        trainer.append([data.draw(st.lists(st.sampled_from(names), unique=True)) for _ in labels], labels)
    with TemporaryDirectory() as folder:
        path, other = Path(folder) / "model", Path(folder) / "other"
        trainer.train(str(path))
        write_crfsuite_model(other, read_crfsuite_model(path))
        assert other.read_bytes() == path.read_bytes()


def test_an_imported_model_gives_crfsuites_answers(model: Path, tmp_path: Path) -> None:
    nlp, pipe = imported(read_crfsuite_model(model))
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    pipe, tagger = nlp.get_pipe("crf_tagger"), pycrfsuite.Tagger()
    tagger.open(str(model))
    for words in [*sequences(np.random.default_rng(1), 40), ["unseen"]]:
        items = [attributes(words, i) for i in range(len(words))]
        labels = tagger.tag(items)
        doc = Doc(nlp.vocab, words=words, tags=["NN"] * len(words))
        np.testing.assert_allclose(
            pipe.marginals(doc), [[tagger.marginal(y, i) for y in pipe.tags] for i in range(len(words))], atol=1e-12
        )
        assert [token.tag_ for token in pipe(doc)] == labels
    assert "WORD2FEATURES[0]=word:Ada" in pipe.doc_model.feature_names


def test_an_imported_chunker_predicts_valid_tags_only(model: Path) -> None:
    nlp, pipe = imported(read_crfsuite_model(model), "chunk")
    for words in sequences(np.random.default_rng(2), 20):
        best = pipe.posterior([Doc(nlp.vocab, words=words)]).all_labels
        tags = [pipe.tags[number] for number in best]
        assert all(tag != "I-X" or before != "O" for before, tag in itertools.pairwise(["O", *tags]))


def test_an_imported_model_can_be_trained_further(model: Path) -> None:
    nlp, pipe = imported(read_crfsuite_model(model))
    before = pipe.crf.theta.copy()
    docs = [Doc(nlp.vocab, words=["Ada", "saw", "Oslo"]) for _ in range(3)]
    examples = [Example(doc, Doc(nlp.vocab, words=["Ada", "saw", "Oslo"], tags=["I-X", "B-X", "I-X"])) for doc in docs]
    pipe.fit(examples)
    assert [token.tag_ for token in nlp("Ada saw Oslo")] == ["I-X", "B-X", "I-X"]
    assert len(pipe.crf.theta) == len(before)


def test_a_new_component_starts_from_an_imported_model(model: Path) -> None:
    saved = read_crfsuite_model(model)
    (nlp, old), pipe = imported(saved), imported(saved)[1]
    texts = sequences(np.random.default_rng(3), 5)
    docs = [Doc(nlp.vocab, words=words) for words in texts]
    gold = [Doc(nlp.vocab, words=words, tags=["B-X"] * len(words)) for words in texts]
    examples = [Example(*pair) for pair in zip(docs, gold, strict=True)]
    before = [old.marginals(doc) for doc in docs]
    pipe.start_from(old)
    pipe.initialize(lambda: examples)
    for doc, expected in zip(docs, before, strict=True):
        np.testing.assert_allclose(pipe.marginals(doc), expected, atol=1e-9)
    pipe.fit()
    label = pipe.tags.index("B-X")
    assert sum(pipe.marginals(doc)[:, label].sum() for doc in docs) > sum(
        marginals[:, label].sum() for marginals in before
    )


def test_an_imported_model_reads_noted_attributes(model: Path) -> None:
    read = read_crfsuite_model(model)
    nlp = spacy.blank("xx")
    pipe = import_model(nlp, read, "tag", settings_for(read))
    plain = import_model(spacy.blank("xx"), read, "tag", settings_for(read, numbers=False))
    doc = Doc(nlp.vocab, words=["_", "_"])
    doc._.crf_attributes = [["bias", "word:Ada", "new"], ["bias", ("length", 0.5)]]
    weights = np.zeros((len(read.attributes.names), 3))
    weights[read.attributes.rows, read.attributes.columns] = read.attributes.values
    of = dict(zip(read.attributes.names, weights, strict=True))
    expected = [of["bias"] + of["word:Ada"], of["bias"] + 0.5 * of["length"]]
    np.testing.assert_allclose(pipe.model.predict([doc])[0], expected, atol=1e-14)
    with pytest.raises(DataError, match=r"'length' has the value 0.5"):
        plain(doc)


@pytest.mark.parametrize("module", ["spacy_crfseq", "sklearn_crfsuite"])
def test_an_estimator_becomes_a_component(module: str) -> None:
    rng = np.random.default_rng(6)
    X = [[attributes(words, i) for i in range(len(words))] for words in sequences(rng, 30)]
    y = [rng.choice(LABELS, len(tokens)).tolist() for tokens in X]
    crf = pytest.importorskip(module).CRF(c2=0.1, max_iterations=20)
    with pytest.raises(NotFittedError):
        model_of(crf)
    nlp, pipe = imported(model_of(crf.fit(X, y)))
    for words in sequences(rng, 10):
        expected = crf.predict_marginals([[attributes(words, i) for i in range(len(words))]])[0]
        marginals = pipe.marginals(Doc(nlp.vocab, words=words)).tolist()
        for first, other in zip(marginals, expected, strict=True):
            assert dict(zip(pipe.tags, first, strict=True)) == pytest.approx(other, abs=1e-4)


def test_items_are_those_of_python_crfsuite() -> None:
    for words in sequences(np.random.default_rng(3), 20):
        result = [CRFsuiteItems(attributes)(words, i) for i in range(len(words))]
        mine = [dict((name, 1.0) if isinstance(name, str) else name for name in names) for names in result]
        theirs = pycrfsuite.ItemSequence([attributes(words, i) for i in range(len(words))]).items()
        for first, other in zip(mine, theirs, strict=True):
            assert first.keys() == {name for name, value in other.items() if value}
            once = {name: value for name, value in other.items() if value and name[-1] != "x" and name != "before:word"}
            assert {name: first[name] for name in once} == once  # `items` shows one of several values
    assert CRFsuiteItems(lambda sentence, i: ["a", "a", "b", ("c", 0.5), ("d", {"e"})])([], 0) == [
        ("a", 2.0), "b", ("c", 0.5), "d:e",
    ]  # fmt: skip
    for wrong in ("text", 1, {"a": object()}, [1], {1: 2}):
        with pytest.raises(DataError):
            CRFsuiteItems(lambda sentence, i, wrong=wrong: wrong)([], 0)
    with pytest.raises(ConfigError, match="must be a token function"):
        CRFsuiteItems(1)  # type: ignore[arg-type]


def module(path: Path) -> Any:
    return SimpleNamespace(**run_path(str(path.with_name(f"{path.stem}_items.py"))))


@pytest.mark.parametrize("keep_names", [False, True])
@pytest.mark.parametrize("factory", FACTORIES)
def test_crfsuite_gives_the_answers_of_an_exported_component(factory: str, keep_names: bool, tmp_path: Path) -> None:
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
        result = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(doc))]
        np.testing.assert_allclose(result, marginals, atol=1e-9)
    if factory == "crf_chunker":
        with pytest.raises(ValueError, match="give TAG, one value for each of the 1 words"):
            other.items(["Anna"])


def noted(doc: Doc) -> list[list[Any]]:
    return [[f"w={token.text}", ("length", len(token) / 10), ("2" if len(token) > 3 else "1", 0.5)] for token in doc]


def test_noted_attributes_with_values_are_exported(tmp_path: Path) -> None:
    given_ = registered("features", "Attributes")
    nlp = blank(
        "crf_tagger", features=templates("GIVEN[0]", token_functions={"GIVEN": given_}), boundaries=False,
        potentials={"values": registered("potentials", "Values")}, precision="float64",
    )  # fmt: skip
    corpus = examples(nlp)
    for example in corpus:
        example.predicted._.crf_attributes = noted(example.predicted)
    initialize(nlp, corpus, fit=True)
    docs = [example.predicted for example in corpus]
    model = exported(nlp, tmp_path / "model.crfsuite", "crf_tagger", docs)
    assert {"length", "1", "2", "w=Anna"} <= set(model.model.attributes.names)
    assert not model.module
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model.crfsuite"))
    pipe = pipe_of(nlp)
    for doc, marginals in zip(docs, pipe.posterior(docs).marginals(), strict=True):
        tagger.set([dict((name, 1.0) if isinstance(name, str) else name for name in names) for names in noted(doc)])
        result = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(doc))]
        np.testing.assert_allclose(result, marginals, atol=1e-9)
    with pytest.raises(DataError, match="in none of the texts"):
        exported_model(pipe, docs[:1], wapiti=False)


def test_tags_that_no_boundary_bars_are_noted(tmp_path: Path) -> None:
    given_ = registered("features", "Attributes")
    nlp = blank("crf_ner", features=templates("GIVEN[0]", token_functions={"GIVEN": given_}), boundaries=False)
    corpus = examples(nlp)
    for example in corpus:
        example.predicted._.crf_attributes = [[token.text] for token in example.predicted]
    initialize(nlp, corpus, fit=True)
    docs = [example.predicted for example in corpus]
    assert "may begin or end with a tag" in exported(nlp, tmp_path / "model.crfsuite", "crf_ner", docs).notes[0]


MARKED = [
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
"""Bars that join values, backslashes before them, and markers beyond the ends of a sentence."""


@pytest.mark.parametrize("keep_names", [False, True])
def test_words_that_look_like_parts_of_names(keep_names: bool, tmp_path: Path) -> None:
    features = templates("LOWER[0]", "LOWER[1]", "ORTH[-1]", "LOWER[0]|LOWER[1]", "ORTH[-1]|ORTH[0]|ORTH[1]")
    nlp = blank("crf_tagger", features=features, keep_names=keep_names, precision="float64")
    rng, corpus = np.random.default_rng(0), []
    for _ in range(60):
        words = [MARKED[i] for i in rng.integers(0, len(MARKED), rng.integers(1, 5))]
        gold = Doc(nlp.vocab, words, tags=[f"T{rng.integers(3)}" for _ in words])
        corpus.append(Example(Doc(nlp.vocab, words), gold))
    initialize(nlp, corpus, fit=True)
    pipe, path = pipe_of(nlp), tmp_path / "model.crfsuite"
    exported(nlp, path, "crf_tagger", [] if keep_names else [example.predicted for example in corpus])
    tagger, other = pycrfsuite.Tagger(), module(path)
    tagger.open(str(path))
    texts = [[MARKED[i] for i in rng.integers(0, len(MARKED), rng.integers(1, 6))] for _ in range(300)]
    marginals = pipe.posterior([Doc(nlp.vocab, words) for words in texts]).marginals()
    for words, rows in zip(texts, marginals, strict=True):
        tagger.set(other.items(words))
        result = [[tagger.marginal(tag, i) for tag in pipe.tags] for i in range(len(words))]
        np.testing.assert_allclose(result, rows, atol=1e-9)


@given(text=st.text(min_size=1, max_size=8) | st.sampled_from(["Élan", "B2B", "x" * 120, "ⅧⅧ", "Ⓐ", "—", "McDonald's"]))
def test_items_are_those_of_spacy(text: str) -> None:
    lexeme = spacy.blank("xx").vocab[text]
    for name, function in items.LEXEME_FUNCTIONS.items():
        value = getattr(lexeme, name.lower() if name.startswith("IS_") else f"{name.lower()}_")
        assert (function(text) or "") == (value if isinstance(value, str) else "1" if value else ""), name


def test_the_command_makes_a_pipeline_of_a_model(run: Run, tmp_path: Path) -> None:
    folder = tmp_path
    write_models(folder)
    code = ["--features", "my_project.word2features.v1", "--code", folder / "features.py"]
    command = ["import-model", folder / "model.crfsuite", folder / "out", *code]
    worked(run(*command), "2 labels and", "a crf_tagger")
    assert [token.tag_ for token in spacy.load(folder / "out")("Ada saw Bo")] == ["B-X", "O", "B-X"]
    refused(run(*command), "--force")
    worked(run(*command, "--labels", "ent", "--force", "--lang", "de"))
    nlp = spacy.load(folder / "out")
    assert nlp.lang == "de"
    assert [ent.text for ent in nlp("Ada saw Bo").ents] == ["Ada", "Bo"]
    text = worked(run("explain", folder / "out", "-n", 3, "--code", folder / "features.py")).stdout
    assert "WORD2FEATURES[0]=title" in text


def test_the_command_makes_a_model_of_a_pipeline(trained: Path, run: Run, corpus: Any, tmp_path: Path) -> None:
    target = tmp_path / "model.crfsuite"
    command = ["export-model", trained / "model-best", target, "--component", "crf_ner"]
    assert "crf_ner" in worked(run(*command), "model_items.py").stdout
    tagger, namespace = pycrfsuite.Tagger(), {"__name__": "items"}
    tagger.open(str(target))
    exec(compile((tmp_path / "model_items.py").read_text(), "items", "exec"), namespace)
    nlp = spacy.load(trained / "model-best")
    for words in (["Ada", "sees", "Oslo", "."], ["the", "train", "in", "Lima"]):
        tags = [f"{t.ent_iob_}-{t.ent_type_}".rstrip("-") for t in nlp(spacy.tokens.Doc(nlp.vocab, words=words))]
        items: Any = namespace["items"]
        biluo = tagger.tag(items(words))
        assert [tag.replace("U-", "B-").replace("L-", "I-") for tag in biluo] == tags
    refused(run(*command), "--force")
    worked(run(*command, "--force", "--texts", corpus.train))
    mine = tmp_path / "other_items.py"
    mine.write_text("mine")
    refused(run(*command[:2], tmp_path / "other.crfsuite", "-p", "crf_ner"), "other_items.py", "--force")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "other.crfsuite").exists()
    refused(run(*command[:2], tmp_path / "model.txt"), ".crfsuite, .wapiti or .wapiti.gz")
    refused(run(*command[:2], tmp_path / "model.wapiti", "-p", "crf_ner"), "TemplateFile")
    refused(run(*command, "--force", "--texts", tmp_path / "none.txt"), "none.txt")
