"""`pipeline.fine_tuning`: data sets made of Docs, and what becomes of the component."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import spacy
from hypothesis import assume, given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.papers.augmented.costs import (
    F1,
    Cost,
    CostFunction,
    EntityAgreement,
    EntityTags,
    Evidence,
    Hamming,
    RequiredLabel,
)
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
    """White space has no label, and entities that are set already stay."""
    nlp = trained("crf_ner", scheme="BILUO")
    text = Doc(nlp.vocab, words=["Anna", "\n", "saw", "Oslo"], spaces=[False] * 4)
    text.ents = [Span(text, 3, 4, "LOC")]
    tried = ranked_labels(nlp, text, 200)
    assert {len(tags) for tags in tried} == {3}
    assert {tags[2] for tags in tried} == {"U-LOC"}
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


LABELS = {"plain": ["NN", "NNP", "VB"], "IOB2": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {"labels": ["VB", "NNP"], "component": "reader"},
    "IOB2": {"labels": ["B-PER", "I-LOC"], "component": "reader"},
}
"""Arguments without a default, by their names."""
VOCAB = spacy.blank("en").vocab


class Case(NamedTuple):
    """A cost, and the scheme of a component that it fits."""

    loss: Cost
    scheme: str


def cases() -> dict[str, Case]:
    """Return every registered cost with every scheme that it fits."""
    found = {}
    for name, make in registry.costs.get_all().items():
        needed = [key for key, part in inspect.signature(make).parameters.items() if part.default is part.empty]
        for scheme, labels in LABELS.items():
            loss = make(**{key: ARGUMENTS[scheme][key] for key in needed})
            try:
                loss.check(labels, scheme)
            except ConfigError:
                continue
            found[f"{name}, {scheme}"] = Case(loss, scheme)
    return found


CASES = cases()
EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_loss_fits_something() -> None:
    assert {name.split(",")[0] for name in CASES} == set(registry.costs.get_all())


def reader(words: Sequence[str]) -> Callable[[Sequence[str]], Doc]:
    """A recognizer that takes runs of proper nouns for persons, and any other label for the type it names."""

    def annotate(tags: Sequence[str]) -> Doc:
        iob = [tag if tag in LABELS["IOB2"] else "O" for tag in tags]
        for t, tag in enumerate(tags):
            if tag == "NNP":
                iob[t] = "I-PER" if t and tags[t - 1] == "NNP" else "B-PER"
        return Doc(VOCAB, words=list(words), ents=iob)

    return annotate


def evidence_of(gold: Sequence[str | None], truth: Sequence[str], root: int = 0) -> Evidence:
    """Return what is known of a text whose full labels are `truth`."""
    words = [f"w{t}" for t in range(len(truth))]
    found = reader(words)(truth)
    deps = ["root" if t == root else "dep" for t in range(len(truth))]
    doc = Doc(VOCAB, words=words, heads=[root] * len(truth), deps=deps)
    doc.set_ents(list(found.ents), default="outside")
    return Evidence(words, gold, doc, lambda name: reader(words))


def labellings(scheme: str, size: int) -> st.SearchStrategy[list[str]]:
    tags = st.lists(st.sampled_from(LABELS[scheme]), min_size=size, max_size=size)
    return tags.map(lambda found: valid(found, scheme))


def valid(tags: Sequence[str], scheme: str) -> list[str]:
    """Make each tag that is not allowed where it is begin a span."""
    found = list(tags)
    while (place := find_invalid(found, scheme)) is not None:
        found[place] = f"B-{found[place][2:]}"
    return found


@st.composite
def problems(draw: Any, scheme: str) -> tuple[Evidence, list[str], list[str]]:
    """Draw evidence, the labels behind it, and other labels."""
    size = draw(st.integers(1, 5))
    truth, found = draw(labellings(scheme, size)), draw(labellings(scheme, size))
    known = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    gold = [tag if seen else None for tag, seen in zip(truth, known, strict=True)]
    return evidence_of(gold, truth, draw(st.integers(0, size - 1))), truth, found


@EVERY_CASE
@given(data=st.data())
def test_costs_are_not_negative_and_their_arguments_are_left_alone(case: Case, data: st.DataObject) -> None:
    evidence, _, found = data.draw(problems(case.scheme))
    cost = case.loss(evidence)
    assume(cost is not None)
    assert cost is not None
    before, gold = list(found), list(evidence.gold)
    value = cost(found)
    assert isinstance(value, float)
    assert 0 <= value < np.inf
    assert cost(tuple(found)) == value
    assert (found, list(evidence.gold)) == (before, gold)


@EVERY_CASE
@given(data=st.data())
def test_gold_labels_cost_nothing(case: Case, data: st.DataObject) -> None:
    evidence, truth, _ = data.draw(problems(case.scheme))
    cost = case.loss(evidence._replace(gold=truth))
    assert cost is None or cost(truth) == 0


@EVERY_CASE
def test_it_can_tell_good_labels_from_bad_ones(case: Case) -> None:
    rng = np.random.default_rng(0)
    costs = set()
    for _ in range(100):
        truth = [LABELS[case.scheme][i] for i in rng.integers(0, 2, 3)]
        found = [LABELS[case.scheme][i] for i in rng.integers(0, 2, 3)]
        cost = case.loss(evidence_of(truth, truth, 1))
        costs.add(cost(found) if cost is not None else 0)
    assert len(costs) > 1


@EVERY_CASE
def test_nothing_known_is_no_evidence_or_a_cost_of_nothing(case: Case) -> None:
    words = ["a", "b"]
    bare = Evidence(words, [None, None], Doc(VOCAB, words=words), lambda name: reader(words))
    assert case.loss(bare) is None


# Each for itself


def cost_of(loss: Cost, evidence: Evidence) -> CostFunction:
    cost = loss(evidence)
    assert cost is not None
    return cost


def test_hamming_counts_what_is_known_and_asked_for() -> None:
    evidence = evidence_of(["NN", None, "VB", "NN"], ["NN", "NN", "VB", "NN"])
    found = ["VB", "VB", "NN", "NN"]
    assert cost_of(Hamming(), evidence)(found) == 2
    assert cost_of(Hamming(labels=["NN"]), evidence)(found) == 1
    assert cost_of(Hamming(words=["W2", "w1"]), evidence)(found) == 1
    assert Hamming(labels=["NNP"])(evidence) is None
    assert Hamming(words=["w1"])(evidence) is None


def test_required_label_looks_at_one_token() -> None:
    loss = RequiredLabel(["VB"])
    for gold in (["NN", "VB"], ["NN", None], [None, None]):
        cost = cost_of(loss, evidence_of(gold, ["NN", "VB"], root=1))
        assert [cost(tags) for tags in (["NN", "VB"], ["VB", "NN"], ["VB", "VB"])] == [0, 1, 0]
    assert loss(evidence_of(["NN", "VB"], ["NN", "VB"], root=0)) is None  # the root is no verb
    assert RequiredLabel(["VB"], dep="nsubj")(evidence_of(["VB"], ["VB"])) is None
    assert RequiredLabel(["VB"], dep="ROOT")(evidence_of(["VB"], ["VB"])) is not None


def slow_spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return all stretches that IOB2 tags mark: "B" and as many "I" of its type as follow, none after the last."""
    size = len(tags)
    return {
        (i, j, label)
        for label in ("PER", "LOC")
        for i in range(size)
        for j in range(i + 1, size + 1)
        if list(tags[i:j]) == [f"B-{label}"] + [f"I-{label}"] * (j - i - 1) and [*tags, "O"][j] != f"I-{label}"
    }


@given(st.data())
def test_f1_equals_the_reference(data: st.DataObject) -> None:
    evidence, truth, found = data.draw(problems("IOB2"))
    wanted, spans = (slow_spans(tags) for tags in (truth, found))
    right = len(wanted & spans)
    precision, recall = (right / len(part) if part else 0.0 for part in (spans, wanted))
    expected = 2 * precision * recall / (precision + recall) if right else float(not wanted and not spans)
    assert cost_of(F1(), evidence._replace(gold=truth))(found) == pytest.approx(1 - expected)


def test_f1_reads_unknown_tokens_as_outside() -> None:
    cost = cost_of(F1(), evidence_of(["B-PER", None, "O"], ["B-PER", "O", "O"]))
    assert cost(["B-PER", "B-LOC", "O"]) == 0
    assert cost(["B-PER", "I-PER", "O"]) == 0
    assert cost(["O", "B-LOC", "O"]) == 1


def test_entity_agreement_counts_the_errors_of_what_reads_the_tags() -> None:
    truth = ["NNP", "NNP", "VB", "NNP"]
    hamming, both = (cost_of(EntityAgreement("reader", f1=f1), evidence_of(truth, truth)) for f1 in (False, True))
    assert hamming(["NNP", "NNP", "NN", "NNP"]) == 0  # a wrong tag that nobody minds
    assert hamming(["NNP", "NN", "VB", "NNP"]) == 1
    assert both(["NNP", "NN", "VB", "NNP"]) == pytest.approx(1 + 1 / 2)
    assert hamming(["NN", "NNP", "VB", "NNP"]) == 2  # one entity lost, and the other begins at another token
    assert both(["VB"] * 4) == 4


def test_entity_agreement_leaves_unknown_tokens_out() -> None:
    truth = ["NNP", "VB", "NNP"]
    evidence = evidence_of(truth, truth)
    evidence.reference.set_ents(evidence.reference.ents[:1], missing=[evidence.reference[2:3]], default="outside")
    assert cost_of(EntityAgreement("reader", f1=True), evidence)(["NNP", "VB", "VB"]) == 0


def test_entity_tags_counts_tokens_of_entities_without_the_tags() -> None:
    truth = ["NNP", "NNP", "VB", "NNP"]
    evidence = evidence_of([None, "NN", "VB", None], truth)  # the second token is known to be a common noun
    tags, both = (cost_of(EntityTags(["NNP"], name), evidence) for name in ("", "reader"))
    assert [tags(found) for found in (truth, ["NNP", "NN", "NNP", "NN"], ["VB"] * 4)] == [0, 1, 2]
    assert both(["NNP", "NN", "VB", "NNP"]) == pytest.approx(1 / 2)  # one of two entities is found, and none wrong tag
    assert both(["VB"] * 4) == 3
    assert EntityTags(["NNP"])(evidence_of(["VB"], ["VB"])) is None  # no entity
    assert cost_of(EntityTags(["NNP"], "reader"), evidence_of(["VB"], ["VB"]))(["NNP"]) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EntityTags([]), "labels is empty"),
        (lambda: EntityTags(["NNP"]).check(["NN"], "plain"), "'NNP' is no label.*'NN'"),
        (lambda: EntityTags(["NNP"]).check(["O"], "IOB2"), "applies to taggers only"),
        (lambda: RequiredLabel([]), "labels is empty"),
        (lambda: RequiredLabel(["VB"], dep=""), "dep is empty"),
        (lambda: RequiredLabel(["VBS"]).check(["VB"], "plain"), "'VBS' is no label.*'VB'"),
        (lambda: Hamming(["X"]).check(["VB"], "plain"), "'X' is no label"),
        (lambda: F1().check(["VB"], "plain"), "predicts no spans"),
        (lambda: EntityAgreement("ner").check(["O"], "IOB2"), "applies to taggers only"),
    ],
)
def test_settings_that_cannot_work(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
