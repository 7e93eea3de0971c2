"""``crfseq evaluate --against``: figures of both pipelines, their changes text by text, warnings and refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora import PRESETS
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.tools.evaluate import evaluate
from spacy_crfseq.tools.evaluate.against import Compared, Comparison, compare
from tests.commands import Corpus, Run, refused, worked, write_corpus
from tests.html import Page


@pytest.fixture(scope="module")
def models(trained: Path, run: Run, configure: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recognizer, and one that has learnt from much less."""
    folder = tmp_path_factory.mktemp("against")
    good = spacy.load(trained / "model-best", exclude=["crf_chunker"])
    good.to_disk(folder / "good")
    train, dev = write_corpus(folder / "few.conll", 4, 9), write_corpus(folder / "dev.conll", 4, 8)
    config = configure(folder / "few.cfg", "crf_tagger", "crf_ner")
    worked(run("fit", config, "--output", folder / "out", "--paths.train", train, "--paths.dev", dev))
    return folder / "out/model-best", folder / "good"


@pytest.fixture(scope="module")
def done(models: tuple[Path, Path], corpus: Corpus) -> Compared:
    first, second = ((str(model), spacy.load(model)) for model in models)
    return compare(first, second, corpus.dev, PRESETS["conll2003"], samples=300)


def named(done: Compared, name: str) -> Comparison:
    return next(component for component in done.components if component.name == name)


def test_scores_are_those_of_each_alone(done: Compared, models: tuple[Path, Path], corpus: Corpus) -> None:
    first, second = (evaluate(model, corpus.dev, "conll2003").metrics for model in models)
    ner, tagger = named(done, "crf_ner"), named(done, "crf_tagger")
    assert (ner.whole.first, ner.whole.second) == pytest.approx((first["ents_f"], second["ents_f"]))
    assert (tagger.whole.first, tagger.whole.second) == pytest.approx((first["tag_acc"], second["tag_acc"]))
    for label, line in ner.labels.items():
        assert line.second == pytest.approx(second["ents_per_type"][label]["f"])
    assert ner.whole.difference == pytest.approx(second["ents_f"] - first["ents_f"])
    assert ner.whole.low <= ner.whole.difference <= ner.whole.high
    assert ner.whole.p < 0.05, "the second has learnt from thirty times as much"


def test_changes_are_counted_text_by_text(done: Compared, models: tuple[Path, Path], corpus: Corpus) -> None:
    collected = []
    for model in models:
        nlp = spacy.load(model)
        examples = list(read_examples(nlp, corpus.dev, "conll2003"))
        docs = list(nlp.pipe([example.predicted for example in examples]))
        collected.append([{(ent.start, ent.end, ent.label_) for ent in doc.ents} for doc in docs])
    gold = [{(ent.start, ent.end, ent.label_) for ent in example.reference.ents} for example in examples]
    component = named(done, "crf_ner")
    assert component.only_first == sum(len(g & a - b) for g, a, b in zip(gold, *collected, strict=True))
    assert component.only_second == sum(len(g & b - a) for g, a, b in zip(gold, *collected, strict=True)) > 0
    assert component.texts_second == sum(a != g == b for g, a, b in zip(gold, *collected, strict=True)) > 0
    fewer = {i + 1: len(g ^ a) - len(g ^ b) for i, (g, a, b) in enumerate(zip(gold, *collected, strict=True))}
    changes = {change.number: change.fewer for change in (*component.better, *component.worse)}
    assert changes == {number: n for number, n in fewer.items() if n}
    assert [change.fewer for change in component.better] == sorted((n for n in fewer.values() if n > 0), reverse=True)
    change = component.better[0]
    g, a, b = gold[change.number - 1], collected[0][change.number - 1], collected[1][change.number - 1]
    assert set(change.odd) == (g | a | b) - (g & a & b)


def test_tables_json_and_page(run: Run, models: tuple[Path, Path], corpus: Corpus, tmp_path: Path) -> None:
    options = [models[1], corpus.dev, "-f", "conll2003", "--against", models[0], "--samples", "100", "-n", "2"]
    result = worked(run("evaluate", *options, "--html", tmp_path / "page.html", "--output", tmp_path / "scores.json"))
    assert f"A is {models[0]}, B is {models[1]}" in result.stdout
    assert re.search(r"F1, all +\d\d\.\d\d +\d\d\.\d\d +\+\d+\.\d\d", result.stdout)
    assert "Better in B" in result.stdout
    assert re.search(r"    gold .*\n    A    .*\n    B    ", result.stdout)
    page = (tmp_path / "page.html").read_text()
    assert Page(page).links == []
    assert "crf_ner: better in B" in page
    printed = json.loads(run("evaluate", *options, "--json").stdout)["against"]
    assert json.loads((tmp_path / "scores.json").read_text())["against"] == printed
    figures = printed["components"]
    assert figures["crf_ner"]["all"]["p"] < 0.05
    assert len(figures["crf_ner"]["better"]) == 2
    assert figures["crf_tagger"]["score"] == "accuracy"


def test_warnings(run: Run, models: tuple[Path, Path], trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "people.conll").write_text("Ada NNP B-NP B-PER\nsees VBZ B-VP O\n. . O O\n\n" * 5)
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner")
    nlp.initialize(lambda: list(read_examples(nlp, tmp_path / "people.conll", "conll2003")))
    pipe.fit()  # type: ignore[attr-defined]
    nlp.tokenizer = nlp.tokenizer.__class__(nlp.vocab)  # no rules: spaces alone
    nlp.to_disk(tmp_path / "people")
    dev = tmp_path / "dev.spacy"
    other = spacy.blank("xx")
    docs = [other("Ada sees Oslo."), other("Bo sold a map.")]
    for doc in docs:
        doc.set_ents([doc.char_span(0, doc[0].idx + len(doc[0]), "PER")])
    spacy.tokens.DocBin(docs=docs).to_disk(dev)
    result = worked(run("evaluate", trained / "model-best", dev, "--against", tmp_path / "people"))
    assert "model-best has crf_tagger, crf_chunker; not compared." in result.stderr
    assert "tokenize 2 of the first 2 texts differently" in result.stderr
    assert "only B predicts LOC, ORG (crf_ner)" in result.stderr


def test_unusable_input_is_refused_with_its_reason(
    run: Run, models: tuple[Path, Path], corpus: Corpus, tmp_path: Path
) -> None:
    nlp = spacy.load(models[1], exclude=["crf_tagger"])
    nlp.rename_pipe("crf_ner", "ner")
    nlp.to_disk(tmp_path / "named")
    result = run("evaluate", models[0], corpus.dev, "-f conll2003 --against", tmp_path / "named")
    refused(result, "share no CRF component: they have ner and crf_tagger, crf_ner")
    for option in ("--component crf_ner", "--number 3", "--samples 9", "--html page.html"):
        refused(
            run("evaluate", models[0], corpus.dev, "-f conll2003", option), f"{option.split()[0]} is for a comparison"
        )
