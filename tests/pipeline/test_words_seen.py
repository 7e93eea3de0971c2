"""Word classes of which a model keeps those of words in training texts, whenever these are read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language
from spacy.training import Example

from spacy_crfseq.pipeline.component import CRFComponent
from tests.pipeline.helpers import LBFGS, SENTENCES, blank, examples, initialize, inputs, pipe_of, registered

WORDS, FIRST = ({row[0] for sentence in part for row in sentence} for part in (SENTENCES, SENTENCES[:3]))
OTHERS = {"Dev", "Zed"}
"""Words with a class that no training text has."""
RAW = {"terms": {"raw": {"loss": {"@crf_losses": "spacy_crfseq.Entropy.v1"}}}}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Return those of a component whose features are classes, of the tiny corpus and other words."""
    file = tmp_path / "classes.tsv"
    words = sorted({*WORDS, *OTHERS})
    file.write_text("".join(f"{word}\t{i % 3}\n" for i, word in enumerate(words)), encoding="utf8")
    classes = registered("attributes", "WordClasses", path=str(file), keep="seen")
    return {"attributes": {"classes": classes}, "optimizer": LBFGS, "precision": "float64"}


def kept(nlp: Language, settings: dict[str, Any]) -> set[str]:
    """Return the words whose classes a pipeline has, those of its file, by which it predicts as it does itself."""
    stored = blank(**settings, decoder=nlp.config["components"][nlp.pipe_names[0]]["decoder"]).from_bytes(
        nlp.to_bytes()
    )
    own, other = (pipe_of(some).method.attributes["classes"] for some in (nlp, stored))
    words = {word for word in WORDS | OTHERS if other.class_of(word) is not None}
    assert words == {word for word in WORDS | OTHERS if own.class_of(word) is not None}
    assert other.to_state()["n"] == len(words)
    ours, theirs = (pipe_of(some).posterior(inputs(some, "crf_ner")).marginals() for some in (nlp, stored))
    for marginals, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(marginals, wanted)
    return words


def begun(settings: dict[str, Any]) -> Language:
    """Return a pipeline that has read the first sentences, and predicted labels of all words."""
    nlp = blank(**settings)
    pipe_of(nlp).initialize(lambda: examples(nlp)[:3], labels=["LOC", "ORG", "PER"], nlp=nlp)
    kept(nlp, settings)
    return nlp


def test_words_of_texts_that_are_only_predicted_are_left_out(settings: dict[str, Any]) -> None:
    nlp = blank(**settings)
    for _ in range(2):  # trained again, it reads its texts again
        initialize(nlp, examples(nlp), fit=True)
        list(nlp.pipe(["Dev"]))  # as a dev corpus is read before the model is stored
        assert kept(nlp, settings) == WORDS
    initialize(nlp, examples(nlp)[:3], fit=True)
    assert kept(nlp, settings) == FIRST, "those of the first training are forgotten"


@pytest.mark.parametrize("read", [
    lambda nlp, pipe: [nlp.update(examples(nlp)[i : i + 2]) for _ in range(2) for i in (0, 2, 4)],
    lambda nlp, pipe: pipe.fit(examples(nlp)),
    lambda nlp, pipe: pipe.fit(terms={"raw": [example.predicted for example in examples(nlp)]}),
    lambda nlp, pipe: pipe.fit(examples(nlp)[:3], terms={"raw": [example.predicted for example in examples(nlp)]}),
], ids=["batches", "other examples", "a term", "a term and examples"])  # fmt: skip
def test_words_of_texts_that_come_later_are_added(
    read: Callable[[Language, CRFComponent], Any], settings: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    settings |= RAW if "term" in request.node.callspec.id else {}
    nlp = begun(settings)
    read(nlp, pipe_of(nlp))
    assert kept(nlp, settings) == WORDS


def test_words_come_with_texts_that_another_pipeline_has_read_and_with_a_source(settings: dict[str, Any]) -> None:
    first, second = begun(settings), blank(**settings)
    pipe_of(first).training.set(keeps=True)
    initialize(first, examples(first), fit=True)
    texts = pipe_of(first).training.whole
    assert texts is not None
    pipe_of(second).training.begin(texts)
    assert kept(second, settings) == WORDS
    third = blank(**settings)
    pipe_of(third).start_from(pipe_of(first))
    initialize(third, examples(third)[:3], fit=True)
    assert kept(third, settings) == WORDS


def test_a_failed_initialization_leaves_words_and_the_expected_f1_of_the_trained_model(
    settings: dict[str, Any],
) -> None:
    def broken() -> Iterator[Example]:
        yield from examples(nlp)[:3]
        raise OSError("the disk is gone")

    nlp = blank(**settings, decoder=registered("decoders", "MaxExpectedF1"))
    initialize(nlp, examples(nlp), fit=True)
    decoder = pipe_of(nlp).method.decoder
    decoder.from_state({**decoder.to_state(), "expected_f": 0.4})
    state = decoder.to_state()
    with pytest.raises(OSError, match="the disk is gone"):
        pipe_of(nlp).initialize(broken, nlp=nlp)
    assert kept(nlp, settings) == WORDS
    assert decoder.to_state() == state
