"""Costs of whole labellings: contracts of all registered ones, and what each counts."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import spacy
from hypothesis import assume, given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError
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
from spacy_crfseq.schemes import find_invalid

LABELS = {"plain": ["NN", "NNP", "VB"], "IOB2": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]}


@Language.component("tests_tag_reader")
def read_tags(doc: Doc) -> Doc:
    """Take runs of proper nouns for persons, and any tag of an entity for the entity that it names."""
    iob = [token.tag_ if token.tag_ in LABELS["IOB2"] else "O" for token in doc]
    for t, token in enumerate(doc):
        if token.tag_ == "NNP":
            iob[t] = "I-PER" if t and doc[t - 1].tag_ == "NNP" else "B-PER"
    doc.ents = Doc(doc.vocab, words=[token.text for token in doc], ents=iob).ents
    return doc


RECOGNIZER = spacy.blank("en")
RECOGNIZER.add_pipe("tests_tag_reader", "crf_ner")
VOCAB = RECOGNIZER.vocab
ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {"labels": ["VB", "NNP"], "recognizer": RECOGNIZER},
    "IOB2": {"labels": ["B-PER", "I-LOC"], "recognizer": RECOGNIZER},
}
"""Arguments without a default, by their names."""


class Case(NamedTuple):
    """A cost, and the scheme of a component that it fits."""

    loss: Cost
    scheme: str


def cases() -> dict[str, Case]:
    """Return every registered cost with every scheme that it fits."""
    collected = {}
    for name, make in registry.costs.get_all().items():
        needed = [key for key, part in inspect.signature(make).parameters.items() if part.default is part.empty]
        for scheme, labels in LABELS.items():
            loss = make(**{key: ARGUMENTS[scheme][key] for key in needed})
            try:
                loss.check(labels, scheme)
            except ConfigError:
                continue
            collected[f"{name}, {scheme}"] = Case(loss, scheme)
    return collected


CASES = cases()
EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_loss_fits_something() -> None:
    assert {name.split(",")[0] for name in CASES} == set(registry.costs.get_all())


def evidence_of(gold: Sequence[str | None], truth: Sequence[str], root: int = 0) -> Evidence:
    """Return the evidence on a text whose full labels are `truth`."""
    words = [f"w{t}" for t in range(len(truth))]
    result = read_tags(Doc(VOCAB, words=words, tags=list(truth)))
    deps = ["root" if t == root else "dep" for t in range(len(truth))]
    doc = Doc(VOCAB, words=words, heads=[root] * len(truth), deps=deps)
    doc.set_ents(list(result.ents), default="outside")
    return Evidence(words, gold, doc)


def labellings(scheme: str, size: int) -> st.SearchStrategy[list[str]]:
    tags = st.lists(st.sampled_from(LABELS[scheme]), min_size=size, max_size=size)
    return tags.map(lambda result: valid(result, scheme))


def valid(tags: Sequence[str], scheme: str) -> list[str]:
    """Make each tag that is not allowed where it is begin a span."""
    result = list(tags)
    while (place := find_invalid(result, scheme)) is not None:
        result[place] = f"B-{result[place][2:]}"
    return result


@st.composite
def problems(draw: Any, scheme: str) -> tuple[Evidence, list[str], list[str]]:
    """Draw evidence, the labels behind it, and other labels."""
    size = draw(st.integers(1, 5))
    truth, result = draw(labellings(scheme, size)), draw(labellings(scheme, size))
    expected = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    gold = [tag if seen else None for tag, seen in zip(truth, expected, strict=True)]
    return evidence_of(gold, truth, draw(st.integers(0, size - 1))), truth, result


@EVERY_CASE
@given(data=st.data())
def test_costs_are_not_negative_and_their_arguments_are_left_alone(case: Case, data: st.DataObject) -> None:
    evidence, _, result = data.draw(problems(case.scheme))
    cost = case.loss(evidence)
    assume(cost is not None)
    assert cost is not None
    before, gold = list(result), list(evidence.gold)
    value = cost(result)
    assert isinstance(value, float)
    assert 0 <= value < np.inf
    assert cost(tuple(result)) == value
    assert (result, list(evidence.gold)) == (before, gold)


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
        result = [LABELS[case.scheme][i] for i in rng.integers(0, 2, 3)]
        cost = case.loss(evidence_of(truth, truth, 1))
        costs.add(cost(result) if cost is not None else 0)
    assert len(costs) > 1


@EVERY_CASE
def test_nothing_known_is_no_evidence_or_a_cost_of_nothing(case: Case) -> None:
    words = ["a", "b"]
    bare = Evidence(words, [None, None], Doc(VOCAB, words=words))
    assert case.loss(bare) is None


# Each for itself


def cost_of(loss: Cost, evidence: Evidence) -> CostFunction:
    cost = loss(evidence)
    assert cost is not None
    return cost


def test_hamming_counts_what_is_known_and_asked_for() -> None:
    evidence = evidence_of(["NN", None, "VB", "NN"], ["NN", "NN", "VB", "NN"])
    result = ["VB", "VB", "NN", "NN"]
    assert cost_of(Hamming(), evidence)(result) == 2
    assert cost_of(Hamming(labels=["NN"]), evidence)(result) == 1
    assert cost_of(Hamming(words=["W2", "w1"]), evidence)(result) == 1
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
    evidence, truth, actual = data.draw(problems("IOB2"))
    wanted, spans = (slow_spans(tags) for tags in (truth, actual))
    right = len(wanted & spans)
    precision, recall = (right / len(part) if part else 0.0 for part in (spans, wanted))
    expected = 2 * precision * recall / (precision + recall) if right else float(not wanted and not spans)
    assert cost_of(F1(), evidence._replace(gold=truth))(actual) == pytest.approx(1 - expected)


def test_f1_reads_unknown_tokens_as_outside() -> None:
    cost = cost_of(F1(), evidence_of(["B-PER", None, "O"], ["B-PER", "O", "O"]))
    assert cost(["B-PER", "B-LOC", "O"]) == 0
    assert cost(["B-PER", "I-PER", "O"]) == 0
    assert cost(["O", "B-LOC", "O"]) == 1


def test_entity_agreement_counts_the_errors_of_what_reads_the_tags() -> None:
    truth = ["NNP", "NNP", "VB", "NNP"]
    hamming, both = (cost_of(EntityAgreement(RECOGNIZER, f1=f1), evidence_of(truth, truth)) for f1 in (False, True))
    assert hamming(["NNP", "NNP", "NN", "NNP"]) == 0  # a wrong tag that nobody minds
    assert hamming(["NNP", "NN", "VB", "NNP"]) == 1
    assert both(["NNP", "NN", "VB", "NNP"]) == pytest.approx(1 + 1 / 2)
    assert hamming(["NN", "NNP", "VB", "NNP"]) == 2  # one entity lost, and the other begins at another token
    assert both(["VB"] * 4) == 4


def test_entity_agreement_leaves_unknown_tokens_out() -> None:
    truth = ["NNP", "VB", "NNP"]
    evidence = evidence_of(truth, truth)
    evidence.reference.set_ents(evidence.reference.ents[:1], missing=[evidence.reference[2:3]], default="outside")
    assert cost_of(EntityAgreement(RECOGNIZER, f1=True), evidence)(["NNP", "VB", "VB"]) == 0


def test_entity_tags_counts_tokens_of_entities_without_the_tags() -> None:
    truth = ["NNP", "NNP", "VB", "NNP"]
    evidence = evidence_of([None, "NN", "VB", None], truth)  # the second token is known to be a common noun
    tags, both = (cost_of(EntityTags(["NNP"], model), evidence) for model in (None, RECOGNIZER))
    assert [tags(result) for result in (truth, ["NNP", "NN", "NNP", "NN"], ["VB"] * 4)] == [0, 1, 2]
    assert both(["NNP", "NN", "VB", "NNP"]) == pytest.approx(1 / 2)  # one of two entities is found, and none wrong tag
    assert both(["VB"] * 4) == 3
    assert EntityTags(["NNP"])(evidence_of(["VB"], ["VB"])) is None  # no entity
    assert cost_of(EntityTags(["NNP"], RECOGNIZER), evidence_of(["VB"], ["VB"]))(["NNP"]) == 1


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
        (lambda: EntityAgreement(RECOGNIZER).check(["O"], "IOB2"), "applies to taggers only"),
        (
            lambda: EntityAgreement(RECOGNIZER, "ner").check(["NN"], "plain"),
            "no component 'ner'. Did you mean 'crf_ner'",
        ),
        (lambda: EntityTags(["NN"], RECOGNIZER, attr="dep").check(["NN"], "plain"), "attr = 'dep' is not supported"),
        (lambda: EntityAgreement("no/model").check(["NN"], "plain"), "no/model"),
    ],
)
def test_settings_that_cannot_work(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
