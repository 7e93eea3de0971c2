"""Labels with probabilities on gold Docs: what training makes of them, on the way from a file to a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example

from spacy_crfseq import Chain
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline.encode import content_key
from spacy_crfseq.pipeline.evidence import KEY, Partial
from spacy_crfseq.pipeline.labels import gold_tags
from spacy_crfseq.pipeline.soft_labels import read_soft_labels, soft_labels, write_soft_labels
from tests.pipeline.helpers import LBFGS_TIGHT, bare_doc, blank, initialize, initialized, pipe_of, templates

WORDS = ["Acme", "bought", "Globex"]
SOFT: Any = {0: [("", "U-ORG", 0.75), ("", "O", 0.25)], 1: [("U-ORG", "O", 0.75), ("O", "O", 0.25)]}
CROSS = {"loss": {"@crf_losses": "spacy_crfseq.CrossEntropy.v1"}}


def gold_doc(nlp: Language, soft: Any = SOFT, words: list[str] = WORDS) -> Doc:
    doc = bare_doc(nlp, words)
    doc.set_ents([Span(doc, 2, 3, "ORG")])
    write_soft_labels(doc, "crf_ner", soft)
    return doc


def tags_of(nlp: Language, gold: Doc, predicted: Doc) -> list[Any]:
    return list(gold_tags(pipe_of(nlp).annotation, Example(predicted, gold), "crf_ner"))


def test_probabilities_replace_the_labels_of_their_tokens_alone() -> None:
    nlp = blank("crf_ner")
    first, second, third = tags_of(nlp, gold_doc(nlp), bare_doc(nlp, WORDS))
    assert first == Partial(("O", "U-ORG"), shares=(("", "U-ORG", 0.75), ("", "O", 0.25)))
    assert (second, third) == ("O", "U-ORG")  # a token with one label needs no probabilities


def test_tokens_that_do_not_correspond_have_no_label_and_say_nothing_of_the_next() -> None:
    nlp = blank("crf_ner")
    soft = {2: [("O", "U-ORG", 0.5), ("O", "O", 0.5)], 1: SOFT[0]}
    gold = gold_doc(nlp, soft)
    joined = tags_of(nlp, gold, bare_doc(nlp, ["Acmebought", "Globex"]))
    assert joined[1] == Partial(("O", "U-ORG"), shares=(("", "U-ORG", 0.5), ("", "O", 0.5)))
    assert not isinstance(joined[0], Partial)


def test_white_space_has_no_part_in_them() -> None:
    nlp = blank("crf_ner")
    words = ["Acme", "\n", "bought", "Globex"]
    doc = bare_doc(nlp, words)
    write_soft_labels(doc, "crf_ner", {2: [("O", "O", 0.5), ("O", "U-ORG", 0.5)], 1: SOFT[0]})
    tags = gold_tags(pipe_of(nlp).annotation, Example(bare_doc(nlp, words), doc), "crf_ner")
    assert [isinstance(tag, Partial) for tag in tags] == [False, False, True, False]
    assert tags[2].shares == (("O", "O", 0.5), ("O", "U-ORG", 0.5))  # type: ignore[union-attr]


def test_labels_that_a_user_has_noted_count_more_than_soft_ones() -> None:
    nlp = blank("crf_ner")
    gold = gold_doc(nlp)
    pipe_of(nlp).clamp(gold, allowed={0: ["U-ORG"]})
    assert tags_of(nlp, gold, bare_doc(nlp, WORDS))[0] == "U-ORG"
    assert read_soft_labels(gold, "crf_ner")
    pipe_of(nlp).clamp(gold)
    assert isinstance(tags_of(nlp, gold, bare_doc(nlp, WORDS))[0], Partial)


def test_they_are_part_of_the_content_of_an_example() -> None:
    nlp = initialized("crf_ner", **CROSS)
    pipe, predicted = pipe_of(nlp), bare_doc(nlp, WORDS)
    keys = {content_key(pipe.doc_model, Example(predicted, gold_doc(nlp, soft))) for soft in ({}, SOFT, {0: SOFT[0]})}
    assert len(keys) == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_a_component_learns_the_probabilities_of_a_file(tmp_path: Path, streamed: bool) -> None:
    """Without a penalty and features of neighbours, the posterior of the model is that of the labels."""
    features = {
        "features": templates("LOWER[0]"),
        "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
    }
    nlp = blank("crf_ner", **CROSS, **features, optimizer=LBFGS_TIGHT)
    rng = np.random.default_rng(0)
    tags = ["O", "U-ORG", "U-PER"]  # which may all follow each other
    teacher = Chain(rng.normal(0, 1, (3, 3)), rng.normal(0, 1, (3, 3)))
    doc = bare_doc(nlp, WORDS)
    doc.set_ents([], default="outside")
    write_soft_labels(doc, "crf_ner", soft_labels(tags, teacher.marginals(), teacher.pair_marginals()))
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "train.spacy")
    read = list(Corpus(tmp_path / "train.spacy")(nlp))
    initialize(nlp, read, fit=not streamed)
    for _ in range(60 if streamed else 0):
        nlp.update(read)
    pipe = pipe_of(nlp)
    marginals = pipe.marginals(bare_doc(nlp, WORDS))[:, [pipe.tags.index(tag) for tag in tags]]
    np.testing.assert_allclose(marginals, teacher.marginals(), atol=1e-3)


def test_other_losses_are_refused() -> None:
    nlp = blank("crf_ner")
    with pytest.raises(ConfigError, match=r"labels with probabilities, but the loss SequentialLog .*CrossEntropy"):
        nlp.initialize(lambda: [Example(bare_doc(nlp, WORDS), gold_doc(nlp))])


def changed(doc: Doc, **values: Any) -> Doc:
    doc.user_data[KEY]["crf_ner"]["shares"].update(values)
    return doc


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda nlp: gold_doc(nlp, {3: SOFT[0]}), "labels are given for token 3, but it has 3 tokens"),
        (lambda nlp: gold_doc(nlp, {0: SOFT[0][:1]}), "token 0: the probabilities of its tags must .* not to 0.75"),
        (lambda nlp: gold_doc(nlp, {0: [("", "O", float("nan"))]}), "probabilities of its tags must"),
        (lambda nlp: gold_doc(nlp, {0: [("", "O", -0.5), ("", "U-ORG", 1.5)]}), "probabilities of its tags must"),
        (lambda nlp: changed(gold_doc(nlp), tokens=9), "had 9 tokens, but it has 3 now"),
        (lambda nlp: changed(gold_doc(nlp), tags=[]), "noted for 'crf_ner' are damaged"),
        (lambda nlp: changed(gold_doc(nlp), token=np.array([7, 7, 1, 1])), "there is a note on tokens 7-8"),
    ],
)
def test_wrong_probabilities_are_refused(make: Any, message: str) -> None:
    nlp = blank("crf_ner")
    with pytest.raises(DataError, match=message):
        tags_of(nlp, make(nlp), bare_doc(nlp, WORDS))


def test_spans_known_to_be_wrong_in_the_same_text_are_refused() -> None:
    nlp = blank("crf_ner", incorrect_spans_key="incorrect")
    gold = gold_doc(nlp)
    gold.spans["incorrect"] = [Span(gold, 1, 2, "ORG")]
    with pytest.raises(DataError, match="has labels with probabilities, and spans that are incorrect"):
        tags_of(nlp, gold, bare_doc(nlp, WORDS))


def test_only_tokens_that_are_not_surely_outside_are_noted() -> None:
    shares = np.array([[1.0, 0.0], [0.2, 0.8], [0.0, 1.0], [0.9995, 0.0005]])
    soft = soft_labels(["O", "U-ORG"], shares, np.zeros((4, 2, 2)))
    assert soft == {1: [("", "O", 0.2), ("", "U-ORG", 0.8)], 2: [("", "U-ORG", 1.0)]}
