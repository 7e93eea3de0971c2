"""Mistakes of users: each mistake has an error that says what to do, or a result that is right all the same."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
from catalogue import RegistryError
from confection import ConfigValidationError
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError, ModelFileError
from spacy_crfseq.features.documents import DocumentLabels
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.pipeline.model_file import digest_of
from spacy_crfseq.pipeline.readers import create_conll_reader
from spacy_crfseq.pipeline.spacy_train import full_batch
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.types import Strengths
from tests.pipeline.helpers import bare_doc, blank, examples, pipe_of, predictions, trained

TEMPLATES = "spacy_crfseq.Templates.v1"
REGISTRIES = {"loss": "crf_losses", "regularizer": "crf_regularizers", "optimizer": "crf_optimizers"}


def read(folder: Path, text: str) -> list[Example]:
    path = folder / "corpus.txt"
    path.write_text(text)
    return list(create_conll_reader(path, ["word", "tag", "chunk"])(spacy.blank("xx")))


def templates(*texts: Any, **settings: Any) -> Language:
    return blank(features={"@crf_features": TEMPLATES, "templates": [*texts], **settings})


def gazetteer(path: Path, name: str = "CITY") -> Language:
    function = {"@crf_features": "spacy_crfseq.Gazetteer.v1", "path": str(path)}
    return templates("LOWER", name, functions={name: function})


def plugin(kind: str, name: str, registry: str | None = None, **settings: Any) -> Language:
    return blank(**{kind: {f"@{registry or REGISTRIES[kind]}": f"spacy_crfseq.{name}.v1", **settings}})


def optimizer(name: str, **settings: Any) -> Language:
    return plugin("optimizer", name, **settings)


def regularizer(name: str, **settings: Any) -> Language:
    return plugin("regularizer", name, **settings)


def stored(folder: Path, change: Callable[[bytes], bytes]) -> Language:
    return spacy.load(store(folder, change))


def pair(regularizer: str, optimizer: str) -> Language:
    blocks = {"regularizer": regularizer, "optimizer": optimizer}
    return blank(**{kind: {f"@{REGISTRIES[kind]}": f"spacy_crfseq.{name}.v1"} for kind, name in blocks.items()})


def with_document_labels(count: int, **config: Any) -> Language:
    labels = {"@crf_attributes": "spacy_crfseq.DocumentLabels.v1"}
    return blank("crf_tagger", attributes={f"labels{i}": labels for i in range(count)}, **config)


def margins(loss: str) -> Language:
    names = {"loss": loss, "regularizer": "NoRegularizer", "optimizer": "PassiveAggressive"}
    return blank(**{kind: {f"@{REGISTRIES[kind]}": f"spacy_crfseq.{name}.v1"} for kind, name in names.items()})


def local(**config: Any) -> Language:
    """A component that is normalised at each token."""
    loss, decoder = {"@crf_losses": "spacy_crfseq.LocalLog.v1"}, {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"}
    return blank(loss=loss, decoder=decoder, **config)


def initialized(corpus: Iterable[Example], factory: str = "crf_ner", **config: Any) -> Language:
    nlp = blank(factory, **config)
    corpus = list(corpus)
    nlp.initialize(lambda: corpus)
    return nlp


def example(words: list[str], nlp: Language | None = None, **annotation: Any) -> Example:
    vocab = (nlp or spacy.blank("xx")).vocab
    return Example(Doc(vocab, words=words), Doc(vocab, words=words, **annotation))


def overlapping() -> list[Example]:
    corpus = examples(spacy.blank("xx"), "crf_chunker")
    doc = corpus[0].reference
    doc.spans["chunks"] = [Span(doc, 0, 3, "NP"), Span(doc, 2, 4, "VP")]
    return corpus


def initialized_with(labels: Any) -> None:
    nlp = blank()
    pipe_of(nlp).initialize(lambda: examples(nlp), nlp=nlp, labels=labels)


@dataclass(frozen=True)
class FakeL1:
    """A penalty with a corner at zero."""

    smooth: bool = False
    strengths: Strengths | None = None

    def over(self, blocks: Any) -> FakeL1:
        return self

    def value(self, weights: Any) -> float:
        return float(abs(weights).sum())

    def add_grad(self, weights: Any, grad: Any) -> None: ...

    def prox(self, weights: Any, step: float) -> None: ...


def with_l1(optimizer: str) -> None:
    spacy.registry.crf_regularizers("crfseq_tests.FakeL1.v1", func=FakeL1)
    regularizer = {"@crf_regularizers": "crfseq_tests.FakeL1.v1"}
    blank(regularizer=regularizer, optimizer={"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"})


def store(folder: Path, change: Callable[[bytes], bytes], **config: Any) -> Path:
    """Train, store, and damage the model file by `change`."""
    nlp = trained("crf_ner", **config)
    nlp.to_disk(folder / "model")
    file = folder / "model" / "crf_ner" / "model"
    file.write_bytes(change(file.read_bytes()))
    return folder / "model"


def resealed(head: dict[str, Any]) -> bytes:
    return bytes(srsly.msgpack_dumps({**head, "digest": digest_of(head)}))


def changed_body(**changes: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        head = srsly.msgpack_loads(data)
        body = {**srsly.msgpack_loads(head["model"]), **changes}
        return resealed({**head, "model": srsly.msgpack_dumps(body)})

    return change


def other_templates(folder: Path) -> None:
    path = store(folder, lambda data: data)
    config = spacy.util.load_config(path / "config.cfg")
    config["components"]["crf_ner"]["features"] = {"@crf_features": TEMPLATES, "templates": ["LOWER"]}
    config.to_disk(path / "config.cfg")
    spacy.load(path)


def broken_cfg(folder: Path, text: str) -> None:
    path = store(folder, lambda data: data)
    (path / "crf_ner" / "cfg").write_text(text)
    spacy.load(path)


Cases = dict[str, tuple[Any, ...]]
"""Mistakes, what the message must say, and the error where it is another one than that of the group."""

DATA: Cases = {
    "overlapping gold spans": (lambda f: initialized(overlapping(), "crf_chunker"), "overlaps"),
    "no examples": (lambda f: initialized([]), r"no training examples.*\[corpora\.train\]"),
    "empty corpus in a full batch": (lambda f: list(full_batch([])), r"corpus is empty.*--paths\.train"),
    "only empty docs": (lambda f: initialized([example([])]), "no gold annotation"),
    "no gold entities": (lambda f: initialized([example(["a"])]), "crf_ner.*no gold annotation"),
    "no gold tags": (lambda f: initialized([example(["a"])], "crf_tagger"), "no gold annotation.*attr = 'tag'"),
    "no gold spans": (lambda f: initialized([example(["a"])], "crf_chunker"), "no gold annotation.*'chunks'"),
    "unseen label": (lambda f: trained().update([example(["a"], ents=["B-NEW"])]), "'U-NEW'.*add_label"),
    "label not among those given": (lambda f: initialized_with(["PER", "LOC"]), "'B-ORG'.*labels given to initialize"),
    "a doc instead of an example": (lambda f: trained().update([spacy.blank("xx")("a")]), "E978.*Example", TypeError),
    "fit on nothing": (lambda f: pipe_of(trained()).fit([]), "no training examples"),
    "fit after loading": (lambda f: pipe_of(spacy.load(store(f, lambda data: data))).fit(), "give examples to fit"),
    "empty label": (lambda f: pipe_of(trained()).add_label(""), "non-empty string.*''", ConfigError),
    "label that is no string": (lambda f: pipe_of(blank()).add_label(3), "non-empty string.*3", ConfigError),
}

CONFIGS: Cases = {
    "unknown attribute": (lambda f: templates("LOWR[0]"), "'LOWR'.*Did you mean 'LOWER'"),
    "no templates": (lambda f: templates(), "at least one template"),
    "window of S3": (lambda f: plugin("features", "S3", "crf_features", window=0), "S3: window must be at least 1"),
    "unknown support": (lambda f: blank(support="observd"), "support = 'observd'.*Did you mean 'observed'"),
    "unknown precision": (lambda f: blank(precision="float16"), "precision = 'float16'.*float32"),
    "unknown scheme": (lambda f: blank(scheme="BIO"), "scheme must be .*IOB2.*'BIO' was given"),
    "a scheme that is only read": (lambda f: blank(scheme="IOB1"), "scheme must be .*'IOB1'"),
    "unknown attr": (lambda f: blank("crf_tagger", attr="tags"), "attr 'tags'.*Did you mean 'tag'"),
    "min_count": (lambda f: blank(min_count=0), "min_count must be at least 1, but 0"),
    "n_threads": (lambda f: blank(n_threads=-1), "n_threads must be 0.*or more, but -1"),
    "inner_iterations": (lambda f: blank(inner_iterations=-3), "inner_iterations must be at least 1, but -3"),
    "threshold above 1": (lambda f: blank(threshold=1.5), "threshold is a probability.*1.5"),
    "negative threshold": (lambda f: blank("crf_chunker", threshold=-0.1), "threshold.*-0.1"),
    "threshold that is no number": (lambda f: blank(threshold=float("nan")), "threshold.*nan", ValueError),
    "negative rho": (lambda f: regularizer("L2", rho=-1.0), "rho must be 0 or more, but -1"),
    "rho that is no number": (lambda f: L2(rho=float("nan")), "rho must be 0 or more, but nan"),
    "negative cap": (lambda f: plugin("loss", "SequentialExp", cap=-1.0), "cap must be from 0 to 30"),
    "cap over float32": (lambda f: plugin("loss", "PointwiseExp", cap=90.0), "but it is 90"),
    "SGD batches": (lambda f: optimizer("SGD", batch_size=0), "batch_size.*at least 1"),
    "SGD rate": (lambda f: optimizer("SGD", rate=-1.0), "rate.*0 or more"),
    "AdaGrad batches": (lambda f: optimizer("AdaGrad", batch_size=0), "batch_size.*at least 1"),
    "AdaGrad rate": (lambda f: optimizer("AdaGrad", rate=0.0), "rate must be positive"),
    "LBFGS history": (lambda f: optimizer("LBFGS", history=-1), "history.*0 or more"),
    "LBFGS tolerance": (lambda f: optimizer("LBFGS", tolerance=-1.0), "tolerance.*0 or more"),
    "SGD and L1": (lambda f: with_l1("SGD"), "SGD cannot minimise the regularizer FakeL1.*A pair that works"),
    "LBFGS and L1": (lambda f: with_l1("LBFGS"), "LBFGS.*FakeL1.*differentiable.*FakeL1 with spacy_crfseq.FISTA.v1"),
    "LBFGS and a net": (
        lambda f: pair("ElasticNet", "LBFGS"),
        "LBFGS with spacy_crfseq.L2.v1; or ElasticNet with spacy_crfseq.OWLQN.v1",
    ),
    "OWLQN and groups": (
        lambda f: pair("GroupLasso", "OWLQN"),
        "OWLQN.*GroupLasso.*L1 norm.*GroupLasso with spacy_crfseq.FISTA.v1",
    ),
    "L1 strength": (lambda f: regularizer("L1", rho=-1.0), "L1: rho must be 0 or more"),
    "group lasso strength": (lambda f: regularizer("GroupLasso", rho=-1.0), "GroupLasso: rho must be 0 or more"),
    "elastic net strength": (lambda f: regularizer("ElasticNet", rho2=-1.0), "ElasticNet: rho2 must be 0 or more"),
    "elastic net mix": (lambda f: regularizer("ElasticNetMix", alpha=1.5), "alpha must be between 0 and 1"),
    "elastic net mix strength": (lambda f: regularizer("ElasticNetMix", gamma=-1.0), "gamma must be 0 or more"),
    "OWLQN history": (lambda f: optimizer("OWLQN", history=-1), "OWLQN: history.*0 or more"),
    "RPROP step": (lambda f: optimizer("RPROP", first_step=0.0), "first_step.*positive"),
    "FISTA iterations": (lambda f: optimizer("FISTA", max_iterations=0), "at least 1"),
    "conjugate gradients": (lambda f: optimizer("ConjugateGradient", update="Pr"), "'Pr' is unknown.*PR"),
    "a penalty as optimizer": (
        lambda f: plugin("optimizer", "L2", "crf_regularizers"),
        "optimizer.*is L2, which is no optimizer.*LBFGS",
    ),
    "SGD as a penalty": (lambda f: plugin("regularizer", "SGD", "crf_optimizers"), "is SGD, which is no regularizer"),
    "a regularizer as loss": (lambda f: plugin("loss", "L2", "crf_regularizers"), "loss.*must be a loss"),
    "a loss as features": (lambda f: plugin("features", "SequentialLog", "crf_losses"), "must name a feature set"),
    "unknown plug-in": (lambda f: plugin("loss", "SequentialLogg"), "SequentialLogg.*SequentialLog.v1", RegistryError),
    "unknown setting": (lambda f: blank(treshold=0.5), "treshold", ConfigValidationError),
    "unknown setting of a plug-in": (lambda f: regularizer("L2", strength=2.0), "strength", ConfigValidationError),
    "wrong type": (lambda f: blank(min_count="many"), "min_count", ConfigValidationError),
    "missing gazetteer": (
        lambda f: gazetteer(f / "no.txt").initialize(lambda: examples(spacy.blank("xx"))),
        r"no\.txt: no such file",
    ),
    "gazetteer that is a folder": (lambda f: gazetteer(f), "cannot read the word list"),
    "gazetteer with the name of an attribute": (lambda f: gazetteer(Path(__file__), "SHAPE"), "SHAPE.*rename"),
    "folds of document labels": (lambda f: DocumentLabels(folds=1), "at least 2"),
    "two attributes of document labels": (lambda f: with_document_labels(2), "keep one of them"),
    "document labels of a margin": (
        lambda f: with_document_labels(1, optimizer={"@crf_optimizers": "spacy_crfseq.PassiveAggressive.v1"}),
        "cannot minimise",
    ),
    "an optimizer of margins": (
        lambda f: margins("Perceptron"),
        "PassiveAggressive cannot minimise the loss Perceptron.*a margin.*PassiveAggressive with spacy_crfseq.Hinge",
    ),
    "a threshold without probabilities": (
        lambda f: local(threshold=0.5),
        "threshold = 0.5 takes .*LocalLog.*SequentialLog",
    ),
    "a number as a potential": (
        lambda f: blank(potentials={"lengths": 3}),
        r"potentials.lengths\] is 3, which is not a potential",
    ),
    "incorrect spans among the spans": (
        lambda f: blank("crf_chunker", incorrect_spans_key="chunks"),
        "incorrect_spans_key must differ from spans_key, which is 'chunks'",
    ),
    "max_features": (lambda f: blank(max_features=-1), "max_features must be 0"),
    "size of the tag dictionary": (lambda f: blank(tag_dictionary_size=-1), "tag_dictionary_size must be 0"),
    "tag dictionary counts": (
        lambda f: blank(tag_dictionary_min_count=0),
        "tag_dictionary_min_count must be at least 1",
    ),
}

MODELS: Cases = {
    "truncated model": (lambda f: stored(f, lambda data: data[:-100]), "cut short.*copy it again"),
    "empty model": (lambda f: stored(f, lambda data: b""), "no model of spacy_crfseq"),
    "foreign model": (lambda f: stored(f, lambda data: b"\x80PK nothing of ours"), "crf_ner/model"),
    "foreign message": (lambda f: stored(f, lambda data: srsly.msgpack_dumps([1, 2])), "no model of"),
    "labels missing": (lambda f: stored(f, changed_body(labels=["O"])), "not there"),
    "other scheme": (lambda f: stored(f, changed_body(labels=[*"OabcdefG"])), "'a'", (ModelFileError, DataError)),
    "other templates": (other_templates, "trained with other feature templates.*lies beside the model"),
    "settings that are no JSON": (lambda f: broken_cfg(f, "{"), "no JSON file"),
    "settings of something else": (lambda f: broken_cfg(f, json.dumps([1])), "settings of a component"),
}


GROUPS = ((DATA, DataError), (CONFIGS, ConfigError), (MODELS, ModelFileError))


@pytest.mark.parametrize(
    ("error", "case"), [pytest.param(error, case, id=name) for cases, error in GROUPS for name, case in cases.items()]
)
def test_unusable_input_is_refused_with_its_reason(
    error: type[Exception], case: tuple[Any, ...], tmp_path: Path
) -> None:
    act, match, *other = case
    with pytest.raises(other[0] if other else error) as caught:
        act(tmp_path)
    message = str(caught.value)
    assert re.search(match, message, re.DOTALL), message
    assert len(message.splitlines()) < 40


# What looks bad and is not


def test_null_characters_are_characters(tmp_path: Path) -> None:
    (result,) = read(tmp_path, "a\0b NN B-NP\n")
    assert result.reference[0].text == "a\0b"
    nlp = initialized([result], "crf_tagger")
    assert [token.tag_ for token in nlp(result.predicted)] == ["NN"]


@pytest.mark.parametrize("ents", [["O", "O"], ["B-A", "I-A"]])
def test_one_label(ents: list[str]) -> None:
    nlp = initialized([example(["a", "b"], ents=ents)])
    pipe_of(nlp).fit()
    assert len(nlp(bare_doc(nlp, ["a", "b"])).ents) == (ents[0] != "O")
    assert nlp.update([example(["a", "b"], ents=ents)])["crf_ner"] >= 0


@pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])
@pytest.mark.parametrize("factory", ["crf_tagger", "crf_ner"])
def test_one_token(factory: str, optimizer: str) -> None:
    corpus = [example(["Rain"], ents=["B-X"], tags=["NN"])]
    nlp = initialized(corpus, factory, optimizer={"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"})
    pipe_of(nlp).fit()
    doc = nlp("Rain")
    assert (doc[0].tag_, doc[0].ent_type_) == (("NN", "") if factory == "crf_tagger" else ("", "X"))


@pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])
def test_empty_updates(optimizer: str) -> None:
    nlp = trained("crf_ner", optimizer={"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"})
    before = predictions(nlp, "crf_ner")
    assert nlp.update([]) == {} or nlp.update([])["crf_ner"] == 0
    assert np.isfinite(nlp.update([example([]), example([])])["crf_ner"])
    assert pipe_of(nlp).update([]) == {"crf_ner": 0.0}
    assert predictions(nlp, "crf_ner") == before


def test_empty_docs_in_a_corpus() -> None:
    nlp = blank()
    corpus = [example([], nlp), *examples(nlp), example([], nlp)]
    nlp.initialize(lambda: corpus)
    for _ in range(10):
        assert np.isfinite(nlp.update(corpus)["crf_ner"])
    assert nlp.evaluate(examples(nlp))["ents_f"] == 1.0


def test_a_refused_update_leaves_the_component_as_it_was() -> None:
    nlp = trained()
    before = predictions(nlp, "crf_ner")
    with pytest.raises(DataError):
        nlp.update([example(["Anna", "a"], ents=["B-NEW", "O"])])
    assert predictions(nlp, "crf_ner") == before
    assert nlp.update(examples(nlp))["crf_ner"] > 0


def test_a_failing_feature_function_leaves_the_component_as_it_was() -> None:
    def fussy(text: str) -> str | None:
        if text == "trap":
            raise RuntimeError("trap")
        return "1" if text[:1].isupper() else None

    features = FeatureSet(("LOWER[-1..1]", "FUSSY[-1..1]"), functions={"FUSSY": fussy})
    spacy.registry.crf_features("crfseq_tests.Fussy.v1", func=lambda: features)
    nlp = trained("crf_ner", features={"@crf_features": "crfseq_tests.Fussy.v1"})
    before = predictions(nlp, "crf_ner")
    with pytest.raises(RuntimeError, match="trap"):
        nlp("one trap and more")
    assert predictions(nlp, "crf_ner") == before
    assert len(nlp("one new sentence and more of Norway").ents) <= 1


@pytest.mark.parametrize("scale", [1e30, -1e30, 3e38, 1e-40])
def test_extreme_weights(scale: float) -> None:
    nlp = trained()
    pipe = pipe_of(nlp)
    pipe.set_parameters((np.sign(pipe.crf.theta) * scale).astype(np.float32))
    doc = nlp("Anna lives in New York . Bank of Norway")
    assert all(token.ent_iob != 0 for token in doc)
    if scale == 3e38:  # sums of such weights are infinite
        with pytest.raises(DataError, match="out of range"):
            pipe.marginals(doc)
    else:
        assert pipe.marginals(doc).sum(1) == pytest.approx(1.0, abs=1e-5)


def test_a_very_long_sentence() -> None:
    nlp = trained()
    words = ["Anna", "lives", "in", "New", "York", "."] * 16_667
    doc = bare_doc(nlp, words)
    started = time.perf_counter()
    nlp(doc)
    assert len(doc.ents) == 2 * 16_667
    gold = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "O", "B-LOC", "I-LOC", "O"] * 16_667)
    losses = nlp.update([Example(bare_doc(nlp, words), gold)])
    assert np.isfinite(losses["crf_ner"])
    assert pipe_of(nlp).marginals(doc).shape[0] == len(words)
    assert time.perf_counter() - started < 10


def test_numbers_below_one_in_fit() -> None:
    """Negative or zero counts of evaluations stand for "always" and "never", not for an endless loop."""
    nlp = trained()
    result = pipe_of(nlp).fit(examples(nlp), examples(nlp), evaluate_every=0, patience=0)
    assert result.best_score == 1.0
    assert len(pipe_of(nlp).fit(examples(nlp), examples(nlp), evaluate_every=-1, patience=-2).history) >= 1


def test_a_label_given_twice() -> None:
    nlp = blank()
    pipe_of(nlp).initialize(lambda: examples(nlp), nlp=nlp, labels=["PER", "LOC", "PER", "ORG", "LOC"])
    assert pipe_of(nlp).labels == ("LOC", "ORG", "PER")
    assert len(pipe_of(nlp).tags) == 13
