"""The inline ranker against enumeration, its texts of a component, and visits of the terms of an objective."""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.losses.perceptron import Perceptron
from spacy_crfseq.optimizers.mistakes import AveragedPerceptron
from spacy_crfseq.papers.augmented.costs import F1, Cost, CostFunction, Evidence, Hamming, RequiredLabel
from spacy_crfseq.papers.augmented.ranker import InlineRanker
from spacy_crfseq.pipeline.objectives import further_terms, objective_of
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.schemes import find_invalid
from spacy_crfseq.training.dataset import Dataset
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import MISSING, Floats, Ints, Scores
from tests import reference
from tests.commands import Run, refused, worked
from tests.pipeline.helpers import FACTORIES, SENTENCES, blank, examples, gold_doc, pipe_of, registered, words_of
from tests.problems import BIGRAM_TEMPLATES, VOCAB, Training, plain_scores, random_problem, training_problem

CONFIG = Path(__file__).parents[3] / "configs" / "augmented_questions.cfg"
LABELS = ["O", "B-A", "I-A"]
CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all"},
    "no boundaries": {"boundaries": False},
    "tag dictionary": {"dictionary_size": 4},
}


@dataclass(frozen=True)
class Given:
    """The cost that a function of labels says, for any text."""

    cost: Callable[[Sequence[str]], float]

    def check(self, labels: Sequence[str], scheme: str) -> None:
        pass

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        return self.cost


# Steps, in numbers


def problem(seed: int = 3, **settings: Any) -> Training:
    return training_problem(seed, loss=Perceptron(), regularizer=NoRegularizer(), **settings)


def unlabelled(training: Training, sequences: Sequence[int], ranker: InlineRanker) -> Dataset:
    """Return some sequences without gold labels, and the texts that a ranker reads."""
    data = training.objective.data.take(np.array(sequences))
    sizes = np.diff(data.encoded.offsets).tolist()
    docs = [Doc(VOCAB, words=[f"w{t}" for t in range(size)]) for size in sizes]
    return data._replace(gold=np.full_like(data.gold, MISSING), inputs=ranker.read(docs, docs))


def stepped(
    training: Training, data: Dataset, ranker: InlineRanker, theta: Floats, rate: float, scheme: str | None = None
) -> Floats:
    """Return the weights after a step for each sequence."""
    term = Term(data, ranker.bind(LABELS, scheme))
    objective = Objective(
        training.objective.potential, [term], NoRegularizer(), dictionary=training.objective.dictionary
    )
    optimizer = AveragedPerceptron(rate=rate)
    state = optimizer.start(theta)
    optimizer.iterate(objective, state)
    return state.weights


def features_of(training: Training, data: Dataset, labels: Ints) -> Floats:
    """Return Phi [D]: how much each weight adds to the score of the labels."""
    size, offsets = training.layout.size, data.encoded.offsets
    phi = np.zeros(size)
    for i in range(size):
        unit = np.zeros(size)
        unit[i] = 1.0
        phi[i] = total_score(plain_scores(training.layout, unit, data.encoded), offsets, labels)
    training.objective.potential.zero_frozen(phi)
    return phi


def total_score(scores: Scores, offsets: np.ndarray, labels: Ints) -> float:
    return sum(
        reference.path_score(reference.sequence(scores, b, e), labels[b:e])
        for b, e in itertools.pairwise(offsets.tolist())
        if e > b
    )


def slow_ranking(scores: Scores, offsets: np.ndarray, scheme: str) -> list[Ints]:
    """Return all labellings of a sequence that fit a scheme, the best first."""
    paths = itertools.product(range(3), repeat=int(offsets[-1]))
    fitting = [path for path in paths if scheme == "plain" or find_invalid([LABELS[i] for i in path], scheme) is None]
    scored = [(total_score(scores, offsets, np.array(path)), np.array(path, np.int32)) for path in fitting]
    return [path for score, path in sorted(scored, key=lambda pair: -pair[0]) if score > -np.inf]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(6))
def test_a_step_equals_enumeration(case: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    training = problem(seed, n_sequences=30, templates=("ORTH[0]", "SUFFIX2"), **CASES[case])
    theta, k, rate = training.random_theta(rng), 5, 0.3
    costs = iter(rng.permutation(3**4).tolist())
    table = {path: float(next(costs)) for path in itertools.product(LABELS, repeat=4)}
    ranker = InlineRanker(Given(lambda labels: table[tuple(labels)]), k)
    chosen = np.flatnonzero(np.diff(training.objective.data.encoded.offsets) == 4)[:1].tolist()
    data = unlabelled(training, chosen, ranker)
    dictionary = training.objective.dictionary
    allowed = None if dictionary is None else dictionary.labels_of(data.encoded.dictionary_ids)
    scores = plain_scores(training.layout, theta, data.encoded)
    if allowed is not None:
        scores = scores._replace(emissions=np.where(allowed, scores.emissions, -np.inf))
    best = slow_ranking(scores, data.encoded.offsets, "IOB2")[:k]
    target = min(best, key=lambda labels: table[tuple(LABELS[i] for i in labels)])
    expected = theta + rate * (features_of(training, data, target) - features_of(training, data, best[0]))
    np.testing.assert_allclose(stepped(training, data, ranker, theta, rate, "IOB2"), expected, atol=1e-9)


def test_the_most_probable_of_equally_cheap_labellings_is_learned() -> None:
    training = problem(n_sequences=3, templates=("ORTH[0]",))
    theta, best = training.random_theta(np.random.default_rng(0)), list[Ints]()
    ranker = InlineRanker(Given(lambda labels: float([LABELS.index(label) for label in labels] == best[0].tolist())), 9)
    data = unlabelled(training, [0], ranker)
    assert data.encoded.n_tokens > 1
    best += slow_ranking(plain_scores(training.layout, theta, data.encoded), data.encoded.offsets, "plain")
    expected = theta + features_of(training, data, best[1]) - features_of(training, data, best[0])
    np.testing.assert_allclose(stepped(training, data, ranker, theta, 1.0), expected, atol=1e-9)


def test_no_labelling_cheaper_than_the_best_one_makes_no_step() -> None:
    training = problem(n_sequences=5)
    ranker = InlineRanker(Given(lambda labels: 1.0), 20)
    theta = training.random_theta(np.random.default_rng(0))
    data = unlabelled(training, range(5), ranker)
    np.testing.assert_array_equal(stepped(training, data, ranker, theta, 1.0), theta)


def test_a_cost_function_is_made_once_a_text_and_copies_make_their_own() -> None:
    training, made = problem(n_sequences=6), list[Evidence]()

    class Noted(Given):
        def __call__(self, evidence: Evidence) -> CostFunction | None:
            made.append(evidence)
            return super().__call__(evidence)

    ranker = InlineRanker(Noted(lambda labels: float(labels.count("O"))))
    lengths = np.diff(training.objective.data.encoded.offsets)
    data = unlabelled(training, range(6), ranker)
    theta, bound = training.random_theta(np.random.default_rng(0)), ranker.bind(LABELS, None)
    collected = []
    for loss in (bound, bound, copy.copy(bound)):
        objective = Objective(training.objective.potential, [Term(data, loss)], NoRegularizer())
        optimizer = AveragedPerceptron()
        state = optimizer.start(theta)
        optimizer.iterate(objective, state)
        collected.append((state.weights.tobytes(), len(made)))
    n_texts = int((lengths > 0).sum())
    assert collected == [(collected[0][0], n_texts), (collected[0][0], n_texts), (collected[0][0], 2 * n_texts)]
    assert collected[0][0] != theta.tobytes()


# Visits


def visited(visits: float, epochs: int) -> list[list[int]]:
    """Return the sequences of a term of ten that each epoch visits, next to twenty of the training corpus."""
    training = problem(n_sequences=30)
    seen: list[int] = []
    numbers = itertools.count()
    filled = np.flatnonzero(np.diff(training.objective.data.encoded.offsets))

    class Noted(Given):
        def __call__(self, evidence: Evidence) -> CostFunction | None:
            def cost(labels: Sequence[str]) -> float:
                seen.append(int(evidence.words[0]))
                return 0.0  # so that it is asked once a visit

            return cost

    ranker = InlineRanker(Noted(lambda labels: 0.0))
    data = unlabelled(training, filled[:10].tolist(), ranker)
    sizes = np.diff(data.encoded.offsets).tolist()
    docs = [Doc(VOCAB, words=[str(next(numbers))] * size) for size in sizes]
    data = data._replace(inputs=ranker.read(docs, docs))
    corpus = training.objective.data.take(filled[:20])
    terms = [training.objective.terms[0]._replace(data=corpus), Term(data, ranker.bind(LABELS, None), visits=visits)]
    objective = Objective(training.objective.potential, terms, NoRegularizer())
    rng, theta, result = np.random.default_rng(0), np.zeros(training.layout.size), list[list[int]]()
    assert objective.n_sequences == 20 + round(10 * visits)
    for _ in range(epochs):
        begun = len(seen)
        n_batches = sum(1 for batch in objective.minibatches(1, rng) if batch.loss_and_grad(theta))
        assert n_batches == objective.n_sequences
        result.append(seen[begun:])
    return result


def test_an_epoch_visits_each_text_of_a_term_as_often_as_it_says() -> None:
    (epoch,) = visited(2.0, 1)
    assert sorted(epoch[:10]) == sorted(epoch[10:]) == list(range(10))
    assert epoch[:10] != epoch[10:]
    (epoch,) = visited(1.3, 1)
    assert sorted(epoch[:10]) == list(range(10))
    assert len(epoch) == 13


def test_epochs_visit_different_parts_of_a_term() -> None:
    epochs = visited(0.3, 5)
    assert [len(set(epoch)) for epoch in epochs] == [3] * 5
    assert len({tuple(sorted(epoch)) for epoch in epochs}) > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"visits": -1}, "visits must be 0 or more"),
        ({"visits": "often"}, "visits must be a number"),
        ({"k": 1}, "k = 1 must be at least 2"),
        ({"optimizer": "LBFGS"}, "LBFGS cannot minimise the loss InlineRanker"),
    ],
)
def test_settings_that_cannot_work_are_refused(change: dict[str, Any], message: str) -> None:
    k, optimizer = change.pop("k", 2), change.pop("optimizer", "AdaGrad")
    loss = registered("losses", "InlineRanker", cost=registered("costs", "Hamming"), k=k)
    settings: Any = {"terms": {"more": {"loss": loss, **change}}, "optimizer": registered("optimizers", optimizer)}
    with pytest.raises(ConfigError, match=message):
        blank("crf_tagger", **settings)


def test_visits_are_for_online_optimizers() -> None:
    term = {"loss": registered("losses", "SequentialLog"), "visits": 2.0}
    with pytest.raises(ConfigError, match=r"terms.more\]: visits.*LBFGS passes over all texts at once"):
        blank("crf_tagger", terms={"more": term}, optimizer=registered("optimizers", "LBFGS"))


# Texts of a component

COSTS: dict[str, Cost] = {"crf_tagger": Hamming(), "crf_chunker": F1(), "crf_ner": F1()}


def ranked(factory: str, cost: Cost, texts: Sequence[Example], k: int = 10, **settings: Any) -> Language:
    """Return a pipeline that has read its corpus and the texts of a term for the inline ranker."""
    nlp = blank(
        factory, loss=registered("losses", "Perceptron"), regularizer=registered("regularizers", "NoRegularizer"),
        optimizer=registered("optimizers", "AveragedPerceptron", max_iterations=1), **settings,
    )  # fmt: skip
    pipe = pipe_of(nlp)
    terms = {"more": {"loss": InlineRanker(cost, k), "corpus": None, "weight": 1.0}}
    pipe.method = pipe.method._replace(terms=terms)
    corpus = examples(nlp, factory)
    nlp.get_pipe(factory).initialize(lambda: corpus, nlp=nlp, terms={"more": lambda: texts})
    return nlp


def objective(nlp: Language) -> Objective:
    """Return the objective of the term alone."""
    pipe = pipe_of(nlp)
    pipe.training.complete_terms()
    return objective_of(pipe.doc_model, further_terms(pipe.doc_model, pipe.training.terms))


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_component_learns_from_a_cost_alone(factory: str) -> None:
    source = blank(factory)
    nlp = ranked(factory, COSTS[factory], examples(source, factory), 100, support="all")
    term = objective(nlp)
    optimizer = AveragedPerceptron(max_iterations=30)
    state = optimizer.start(np.zeros_like(pipe_of(nlp).crf.theta))
    reports = [optimizer.iterate(term, state) for _ in range(30)]
    assert sum(report.loss for report in reports[-3:]) < 0.5 * sum(report.loss for report in reports[1:4])
    pipe_of(nlp).set_parameters(optimizer.export(state))
    scores = nlp.evaluate(examples(nlp, factory))
    assert scores[pipe_of(nlp).annotation.score_name] > 0.6


def test_each_sentence_is_a_text_and_empty_docs_are_none() -> None:
    nlp = blank("crf_ner")
    doc = Doc.from_docs([gold_doc(nlp, rows) for rows in SENTENCES])
    starts = [i == 0 for rows in SENTENCES for i in range(len(rows))]
    for token, start in zip(doc, starts, strict=True):
        token.is_sent_start = start
    seen: list[Evidence] = []

    class Noted(Given):
        def __call__(self, evidence: Evidence) -> CostFunction | None:
            seen.append(evidence)
            return self.cost

    text, empty = Doc(nlp.vocab, words=words_of(doc), sent_starts=starts), Doc(nlp.vocab, words=[])
    cost = Noted(lambda labels: 0.0)
    (term,) = objective(ranked("crf_ner", cost, [Example(text, doc), Example(empty, empty.copy())])).terms
    assert term.data.n_sequences == len(SENTENCES)
    for evidence, rows in zip(seen, SENTENCES, strict=True):
        assert list(evidence.words) == [token.text for token in evidence.reference] == [row[0] for row in rows]
        assert [tag and tag[2:] for tag in evidence.gold] == [row[5][2:] for row in rows]
        wanted = [(span.start, span.label_) for span in gold_doc(nlp, rows).ents]
        assert [(span.start, span.label_) for span in evidence.reference.ents] == wanted


def test_white_space_is_no_word_of_a_text() -> None:
    nlp = blank("crf_tagger")
    words = ["Anna", "\n", "ran"]
    gold = Doc(nlp.vocab, words=words, tags=["NNP", "_SP", "VBD"], spaces=[False] * 3)
    text = Doc(nlp.vocab, words=words, spaces=[False] * 3)
    (term,) = objective(ranked("crf_tagger", Hamming(), [Example(text, gold)])).terms
    assert term.data.encoded.n_tokens == 2


def test_texts_without_evidence_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nlp = blank("crf_tagger")
    corpus = examples(nlp, "crf_tagger")
    bare = [Example(example.predicted, example.predicted.copy()) for example in corpus]
    with caplog.at_level("INFO", "spacy"):
        (term,) = objective(ranked("crf_tagger", Hamming(), [*corpus, *bare])).terms
    assert term.data.n_sequences == len(corpus)
    assert f"{len(corpus)} of {2 * len(corpus)} sentences have evidence" in caplog.text
    with pytest.raises(DataError, match=r"terms.more\]: there is no evidence for InlineRanker in any of 5 sentences"):
        objective(ranked("crf_tagger", Hamming(), bare))
    with pytest.raises(DataError, match="no evidence for InlineRanker"):
        objective(ranked("crf_tagger", RequiredLabel(["VBZ"]), corpus))


def test_gold_documents_with_other_tokens_are_refused() -> None:
    nlp = blank("crf_tagger")
    apart = Example(Doc(nlp.vocab, words=["New York"]), Doc(nlp.vocab, words=["New", "York"], tags=["NNP"] * 2))
    with pytest.raises(DataError, match=r"'New York.*has other tokens in its gold document.*Hamming"):
        ranked("crf_tagger", Hamming(), [apart])


def test_a_cost_that_does_not_fit_the_component_is_refused() -> None:
    corpus = examples(blank("crf_tagger"), "crf_tagger")
    with pytest.raises(ConfigError, match="predicts no spans"):
        objective(ranked("crf_tagger", F1(), corpus))


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_costs_that_are_negative_or_not_finite_are_refused(cost: float) -> None:
    term = objective(ranked("crf_tagger", Given(lambda labels: cost), examples(blank("crf_tagger"), "crf_tagger")))
    optimizer = AveragedPerceptron()
    with pytest.raises(DataError, match=r"Given gave a cost of .* 1 - score"):
        optimizer.iterate(term, optimizer.start(np.zeros(term.potential.size, np.float32)))


def test_an_unbound_ranker_says_what_it_needs() -> None:
    drawn = random_problem(np.random.default_rng(0), n_labels=2, lengths=[2], shared=True)
    with pytest.raises(ConfigError, match="call bind"):
        InlineRanker(Hamming())(*drawn, drawn.scores.zeros_like())
    with pytest.raises(ConfigError, match="what read"):
        InlineRanker(Hamming()).bind(["A", "B"], None)(*drawn, drawn.scores.zeros_like())


# The example


QUESTION = [
    (1, "Where", "WRB", 4, "advmod"),
    (2, "did", "VBD", 4, "aux"),
    (3, "she", "PRP", 4, "nsubj"),
    (4, "go", "VB", 0, "root"),
    (5, "?", ".", 4, "punct"),
]


def test_the_example_config_continues_from_a_trained_tagger(run: Run, tmp_path: Path) -> None:
    lines = "".join("{}\t{}\t_\t_\t{}\t_\t{}\t{}\t_\t_\n".format(*cells) for cells in QUESTION) + "\n"
    labels = '--components.crf_tagger.terms.questions.loss.cost.labels=["VB","VBD"]'
    (tmp_path / "q.conllu").write_text(lines * 3, encoding="utf8")
    paths = [f"--paths.{name}={tmp_path / 'q.conllu'}" for name in ("train", "dev")]
    worked(run("fit", CONFIG.parent / "pos_ewt.cfg", "--output", tmp_path / "first", *paths))
    args = ("--from", tmp_path / "first" / "model-best", "--output", tmp_path / "out")
    worked(run("fit", CONFIG, *args, *paths, labels, f"--paths.questions={tmp_path / 'q.conllu'}"))
    doc = spacy.load(tmp_path / "out" / "model-best")(spacy.blank("en")("Where did she go ?").text)
    assert doc[3].tag_ == "VB"
    (tmp_path / "q.conllu").write_text(lines.replace("root", "dep"), encoding="utf8")
    missing = run("fit", CONFIG, *args, "--force", *paths, labels, f"--paths.questions={tmp_path / 'q.conllu'}")
    refused(missing, "terms.questions]: there is no evidence for InlineRanker", silent=False)
