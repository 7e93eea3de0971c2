"""A config whose training corpus is labelled by sources: one step from sources to a model."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy import util
from spacy.tokens import DocBin

from spacy_crfseq.errors import CrfError
from spacy_crfseq.pipeline.evidence import WEIGHT_KEY
from spacy_crfseq.pipeline.soft_labels import read_soft_labels
from tests.commands import Run, worked
from tests.tools.aggregate.test_command import SENTENCES, write

CONFIG = """
[nlp]
lang = "en"
pipeline = ["crf_ner"]

[components]

[components.crf_ner]
factory = "crf_ner"

[components.crf_ner.loss]
@crf_losses = "spacy_crfseq.CrossEntropy.v1"

[corpora]

[corpora.train]
@readers = "spacy_crfseq.AggregatedReader.v1"
path = "texts.iob"
format = "iob"

[corpora.train.sources]
careful = "careful.iob"
wrong = "wrong.iob"
people = "people.iob,map=PER:O,outside=unknown"

[corpora.dev]
@readers = "spacy_crfseq.ConllReader.v1"
path = "careful.iob"
columns = ["word", "ent"]

[training]
max_steps = 4
eval_frequency = 2

[training.batcher]
@batchers = "spacy_crfseq.full_batch.v1"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(Path("texts.iob"), lambda *_: "O")
    for name in ("careful.iob", "people.iob"):
        write(Path(name))
    write(Path("wrong.iob"), lambda word, tag: "B-LOC" if word == "Ada" else tag)
    Path("ner.cfg").write_text(CONFIG)
    return Path("ner.cfg")


def reader(**changed: Any) -> Any:
    block = {"@readers": "spacy_crfseq.AggregatedReader.v1", "path": "texts.iob", "sources": {"a": "careful.iob"}}
    return util.registry.resolve({"corpus": {**block, **changed}})["corpus"]


def test_fit_trains_on_what_sources_say(config: Path, run: Run) -> None:
    worked(run("fit", "ner.cfg", "--output", "training"))
    nlp = spacy.load("training/model-best")
    assert [(ent.text, ent.label_) for ent in nlp("Oslo saw Bob Lee").ents] == [("Oslo", "LOC"), ("Bob Lee", "PER")]


def test_the_examples_are_those_of_the_command(config: Path, run: Run) -> None:
    line = "aggregate texts.iob -o out.spacy --weigh --source a=careful.iob --source b=wrong.iob"
    worked(run(*line.split()))
    nlp = spacy.blank("en")
    made = list(reader(sources={"a": "careful.iob", "b": "wrong.iob"}, weigh=True)(nlp))
    assert [str(example.predicted.ents) for example in made] == ["()"] * len(SENTENCES)
    written = DocBin().from_disk("out.spacy").get_docs(nlp.vocab)
    for example, doc in zip(made, written, strict=True):
        assert example.reference.to_json() == doc.to_json()
        assert read_soft_labels(example.reference, "crf_ner") == read_soft_labels(doc, "crf_ner")
        assert example.reference.user_data[WEIGHT_KEY] == doc.user_data[WEIGHT_KEY]


def test_another_label_model_is_a_block_of_its_own(config: Path) -> None:
    sources = {"a": "careful.iob", "b": "wrong.iob"}
    majority = {"@crf_label_models": "spacy_crfseq.Majority.v1"}
    nlp = spacy.blank("en")
    by_majority, by_chain = (list(reader(sources=sources, **more)(nlp)) for more in ({"label_model": majority}, {}))
    soft = [read_soft_labels(examples[0].reference, "crf_ner")[0] for examples in (by_majority, by_chain)]
    assert soft[0] != soft[1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"path": None}, "AggregatedReader.v1 has no path"),
        ({"label_model": {"@crf_label_models": "spacy_crfseq.HMM.v1", "unsaid": 0.0}}, "unsaid must be above 0"),
        ({"sources": {"a": "careful.iob,min=1"}}, "unknown setting 'min'"),
        ({"sources": {}}, "There is no source"),
        ({"min_probability": 2.0}, "min_probability = 2"),
        ({"gold": "none.iob"}, "none.iob"),
    ],
)
def test_settings_that_cannot_be_are_refused(config: Path, changed: Any, message: str) -> None:
    with pytest.raises(CrfError, match=message):
        list(reader(**changed)(spacy.blank("en")))
