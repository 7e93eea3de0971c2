"""`pipeline.fine_tuning`: data sets made of Docs, and what becomes of the component."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.papers.augmented.costs import F1, CostFunction, Evidence, Hamming, RequiredLabel
from spacy_crfseq.papers.augmented.training import Settings, Source, TuningSet, fine_tune
from spacy_crfseq.schemes import find_invalid
from tests.pipeline.helpers import FACTORIES, SENTENCES, examples, gold_doc, pipe_of, trained, words_of

LOSSES = {"crf_tagger": Hamming(), "crf_chunker": F1(), "crf_ner": F1()}


@pytest.mark.parametrize("factory", FACTORIES)
def test_it_learns_from_a_cost_alone(factory: str) -> None:
    nlp = trained(factory)
    pipe = pipe_of(nlp)
    pipe.set_parameters(np.zeros_like(pipe.crf.theta))
    seen: list[float] = []
    some = Source("some", examples(nlp, factory), LOSSES[factory])
    result = fine_tune(
        nlp, factory, [some], Settings(k=100, rounds=30), dev=some,
        callback=lambda progress, reports: seen.append(reports[0].cost),
    )  # fmt: skip
    assert seen[-1] < 0.5 * seen[0]
    np.testing.assert_array_equal(pipe.crf.theta, result.best)
    assert result.best_score is not None
    assert result.best_score > -0.5 * seen[0]


def test_a_document_is_one_example_and_empty_ones_are_none() -> None:
    nlp = trained("crf_ner")
    doc = Doc.from_docs([gold_doc(nlp, rows) for rows in SENTENCES])
    starts = [i == 0 for rows in SENTENCES for i in range(len(rows))]
    for token, start in zip(doc, starts, strict=True):
        token.is_sent_start = start
    text, empty = Doc(nlp.vocab, words=words_of(doc), sent_starts=starts), Doc(nlp.vocab, words=[])
    corpus = [Example(text, doc), Example(empty, empty.copy())]
    sets: list[TuningSet] = []
    sources = [Source("gold", corpus), Source("cost", corpus, F1())]
    fine_tune(nlp, "crf_ner", sources, Settings(rounds=1), begin=lambda made, score: sets.extend(made))
    assert [source.n_examples for source in sets] == [len(SENTENCES), 1]
    assert [source.data.n_sequences for source in sets] == [len(SENTENCES)] * 2
    assert (sets[1].data.gold == -1).all()


def ranked_labels(nlp: Language, text: Doc, k: int) -> list[list[str]]:
    """Return the labellings of a text that the ranker looks at."""
    tried: list[list[str]] = []

    class Spy(Hamming):
        def __call__(self, evidence: Evidence) -> CostFunction | None:
            def cost(tags: Sequence[str]) -> float:
                tried.append(list(tags))
                return 1.0

            return cost

    source = Source("cost", [Example(text, text.copy())], Spy())
    fine_tune(nlp, nlp.pipe_names[-1], [source], Settings(k=k, rounds=1, turns=1))
    assert tried[0] == tried[1]  # the best one is judged, then the first of the list
    return tried[1:]


def test_labels_that_may_not_stand_at_a_token_are_not_ranked() -> None:
    """No entity begins or ends on whitespace, and entities that are set already stay."""
    nlp = trained("crf_ner", scheme="BILUO")
    text = Doc(nlp.vocab, words=["Anna", "\n", "saw", "Oslo"], spaces=[False] * 4)
    text.ents = [Span(text, 3, 4, "LOC")]
    tried = ranked_labels(nlp, text, 200)
    assert {tags[1][0] for tags in tried} == {"O", "I"}
    assert {tags[3] for tags in tried} == {"U-LOC"}
    assert len({tags[0] for tags in tried}) > 3
    assert all(find_invalid(tags, "BILUO") is None for tags in tried)


def test_what_is_noted_on_a_document_holds_for_what_is_ranked() -> None:
    nlp = trained("crf_tagger")
    text = Doc(nlp.vocab, words=["Anna", "ran"])
    pipe_of(nlp).clamp(text, allowed={1: ["VBD", "NN"]})
    assert {tags[1] for tags in ranked_labels(nlp, text, 9)} == {"VBD", "NN"}


def test_the_tag_dictionary_holds_for_what_is_ranked() -> None:
    nlp = trained("crf_tagger", tag_dictionary_size=100, tag_dictionary_min_count=1)
    tried = ranked_labels(nlp, Doc(nlp.vocab, words=["Anna", "ran"]), 5)
    assert {tags[0] for tags in tried} == {"NNP"}
    assert len({tags[1] for tags in tried}) == 5


def test_data_and_losses_that_cannot_be_used() -> None:
    nlp = trained("crf_tagger")
    corpus = examples(nlp, "crf_tagger")
    bare = [Example(example.predicted, example.predicted.copy()) for example in corpus]
    apart = [Example(Doc(nlp.vocab, words=["New York"]), Doc(nlp.vocab, words=["New", "York"], tags=["NNP"] * 2))]
    good, empty = Source("a", corpus), Source("a", [])
    cases: list[tuple[type[Exception], str, list[Source], Source | None]] = [
        (ConfigError, "no data set", [], None),
        (DataError, "'a' is empty", [empty], None),
        (DataError, "'a' holds no gold labels", [Source("a", bare)], None),
        (DataError, "'a' holds no evidence for Hamming in any of its 5", [Source("a", bare, Hamming())], None),
        (DataError, "'a' holds no evidence for RequiredLabel", [Source("a", corpus, RequiredLabel(["VBZ"]))], None),
        (DataError, "other tokens in its gold document", [Source("a", apart, Hamming())], None),
        (ConfigError, "predicts no spans", [Source("a", corpus, F1())], None),
        (DataError, "dev corpus is empty", [good], empty),
        (DataError, "dev corpus holds no gold labels", [good], Source("dev", bare)),
    ]
    for kind, message, sources, dev in cases:
        with pytest.raises(kind, match=message):
            fine_tune(nlp, "crf_tagger", sources, Settings(), dev=dev)
    with pytest.raises(ConfigError, match=r"no CRF component 'tagger'\. Did you mean 'crf_tagger'"):
        fine_tune(nlp, "tagger", [Source("a", corpus)], Settings())


def test_a_model_normalised_at_each_token_is_refused() -> None:
    local = {
        "loss": {"@crf_losses": "spacy_crfseq.LocalLog.v1"},
        "decoder": {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"},
    }
    nlp = trained("crf_tagger", **local)
    with pytest.raises(ConfigError, match=r"fine-tuning.*normalised at each token"):
        fine_tune(nlp, "crf_tagger", [Source("a", examples(nlp, "crf_tagger"))], Settings())


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_a_cost_that_is_none(cost: float) -> None:
    class Broken:
        def check(self, labels: Sequence[str], scheme: str) -> None:
            pass

        def __call__(self, evidence: Evidence) -> CostFunction | None:
            return lambda tags: cost

    nlp = trained("crf_tagger")
    source = Source("some", examples(nlp, "crf_tagger"), Broken())
    with pytest.raises(DataError, match=r"'some': Broken gave a cost of .* 1 - score"):
        fine_tune(nlp, "crf_tagger", [source], Settings(rounds=1))
