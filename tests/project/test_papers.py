"""The papers' page is what the command makes of its results, and its data are what they should be.

Nothing is timed, and no corpus is needed.
"""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from bench._harness import STUDY as BENCH
from scripts.kit import NOT_RUN, Options, Skip, Study, load
from scripts.papers import _harness, cells, corpora, figures, hidden_markov, page, raw_training, tables, weights
from scripts.papers import task as task_of
from scripts.papers.corpus import Corpus
from scripts.papers.pages.nettalk import rank_correlation
from scripts.papers.runs import chunks, nettalk, partial, questions, raw_text, sparsity, tuned_tagger
from spacy_crfseq.pipeline.labels import gold_tags
from spacy_crfseq.types import Scores
from tests import reference
from tests.pipeline.helpers import blank, pipe_of
from tests.pipeline.helpers import examples as corpus_of

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, str(ROOT / "scripts" / "papers" / "run.py")]
METHOD = _harness.config("synthetic")["methods"]["L-BFGS"]
RESULTS = load(_harness.STUDY.folder)


def test_the_command_lists_its_experiments() -> None:
    done = subprocess.run([*RUN, "--list"], capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} >= set(RESULTS)


@pytest.mark.parametrize("study", [_harness.STUDY, BENCH], ids=["papers", "bench"])
def test_runs_can_be_sent_to_the_process_that_executes_them(study: Study) -> None:
    for run in study.load().values():
        assert pickle.loads(pickle.dumps(run)).name == run.name


def test_the_page_is_what_the_command_makes_of_its_results(tmp_path: Path) -> None:
    subprocess.run([*RUN, "--report", "--pages", str(tmp_path)], capture_output=True, check=True)
    expected = (ROOT / "docs" / "papers.md").read_text(encoding="utf8")
    assert (tmp_path / "papers.md").read_text(encoding="utf8") == expected


def test_a_page_without_results_says_so() -> None:
    page.load()
    template = page.TEMPLATE.read_text(encoding="utf8")
    text = page.render(template, {})
    assert text.count(NOT_RUN) == template.count("<!-- section: ") + 1  # and the table of machines
    assert template.count("<!-- section: ") == len(tables.tables())
    assert set(tables.MAKERS) <= set(tables.tables())
    assert "](figures/" not in text
    assert "<!--" not in text
    quick = {**RESULTS["synthetic-models"], "quick": True}
    assert page.render("Text.", {"synthetic-models": quick}).startswith("> **A quick run**")


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_page_is_made_of_a_single_result(name: str) -> None:
    text = page.render(page.TEMPLATE.read_text(encoding="utf8"), {name: RESULTS[name]})
    assert text.count(NOT_RUN) < len(tables.tables())
    assert "<!--" not in text


@pytest.mark.parametrize(
    ("text", "condition", "lines"),
    [
        ("a", "x['a'] < 2", "- met: a\n"),
        ("a", "x['a'] > 2", "- **not met**: a\n"),
        ("a", "x['missing'] > 2", "- not known: a\n"),
        ("{n:,} is {x[a]}", "n > 1000; for n in (1000, 2000)", "- **not met**: 1,000 is 1\n- met: 2,000 is 1\n"),
        ("{a}{b}", "a == b; for a, b in zip('xy', 'xz')", "- met: xx\n- **not met**: yz\n"),
        ("{a}{b}", "a == b == y; for a in 'x' for b in 'y'", "- **not met**: xy\n"),
    ],
)
def test_an_expectation_is_met_or_not_or_not_known(text: str, condition: str, lines: str) -> None:
    assert page.expectation(text, condition, {"x": {"a": 1}, "y": "y"}) == lines


def test_a_condition_that_names_nothing_is_an_error() -> None:
    with pytest.raises(NameError, match="mistake"):
        page.expectation("a", "mistake > 1", {})


def test_rows_become_columns_and_a_skipped_row_its_reason() -> None:
    rows = [{"a": 1, "b": {"c": 2000}}, {"a": 3}, {"a": 4, "skipped": "reason"}]
    lines = tables.columns(rows, [("A", "a"), ("C", "b.c"), ("both", "a / b.c"), ("text", "{a:.1f}")]).splitlines()
    assert lines[0] == "| A | C | both | text |"
    assert lines[2:] == [
        "| 1 | 2,000 | 1 / 2,000 | 1.0 |",
        "| 3 |  | 3 / – | 3.0 |",
        "| 4 | not run: reason |  |  |",
    ]
    assert tables.by(rows, "a") == {1: rows[0], 3: rows[1], 4: rows[2]}
    assert tables.by(rows, "a", "skipped") == {(4, "reason"): rows[2]}
    assert tables.figures_by(rows, ["a"], "b.c") == {1: 2000, 3: None, 4: None}
    assert tables.figures_by(rows, ["a", "skipped"], "row") == {(4, "reason"): rows[2]}


def test_a_table_is_what_its_data_file_says() -> None:
    rows = [{"rho1": 0.1, "sweep": 2.0, "active": {"all": 5000}}]
    text, names = tables.filled("nettalk-path", {"nettalk-path": {"rows": rows}})
    assert text.splitlines()[2] == "| 0.1 | 5,326 / 5,000 | 76 | 2 | 0.61 / – |"
    assert names["seconds"] == {0.1: 2.0}
    assert tables.tables()["nettalk-path"].columns[0] == "rho1"


def test_figures_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page.load()
    for folder in ("a", "b"):
        figures.draw(RESULTS, tmp_path / folder)
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert {"nettalk-methods.svg", "names-path.svg", "names-selection.svg", "synthetic-models.svg"} <= set(files)
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("name", sorted(file.stem for file in _harness.CONFIGS.glob("*.cfg")))
def test_configs_name_plugins_that_are_there(name: str) -> None:
    settings = _harness.config(name)
    for method in settings["methods"].values():
        given = {**settings.get("shared", {}), **method.get("component", method)}
        parts = {part: given[part] for part in task_of.PLUGINS if given[part] is not None}
        assert set(_harness.resolve(parts)) == set(parts)


def test_names_that_are_not_registered_are_named() -> None:
    with pytest.raises(Skip, match=r"spacy_crfseq\.Nothing\.v1"):
        _harness.resolve({"loss": {"@crf_losses": "spacy_crfseq.Nothing.v1"}})


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(Skip, match="CRFSEQ_DATA"):
        Options(None).corpus("conll2000/train.txt")
    with pytest.raises(Skip, match=r"conll2000/train\.txt is not"):
        Options(tmp_path).corpus("conll2000/train.txt")


def test_labels_are_removed_or_become_outside() -> None:
    nlp = blank("crf_ner")
    pipe, examples = pipe_of(nlp), corpus_of(nlp)
    whole = [tag for example in examples for tag in gold_tags(pipe.annotation, example, pipe.name)]
    for treatment, instead in ((partial.MISSING, None), (partial.OUTSIDE, "O")):
        made = partial.thinned(nlp, pipe, examples, 0.5, treatment, np.random.default_rng(0))
        left = [tag for example in made for tag in gold_tags(pipe.annotation, example, pipe.name)]
        assert 0 < sum(tag is None for tag in left) < len(left) or instead
        assert all(tag in (full, instead) for tag, full in zip(left, whole, strict=True))
        assert left != whole


def test_methods_learn_from_raw_text_and_from_no_label_of_it(tmp_path: Path) -> None:
    nlp = blank("crf_ner")
    examples = corpus_of(nlp)
    examples = 3 * examples  # words that occur often enough to be proposed
    raw = [spacy.tokens.Doc(nlp.vocab, words=[token.text for token in example.predicted]) for example in examples]
    texts = raw_training.Texts([examples], raw, examples, examples)
    settings = _harness.config("raw-text")
    result = raw_training.labels_of(examples, tags=False)
    labels = sorted(set(result) - {"O"})
    task = {"component": {"factory": "crf_ner"}, "labels": labels}
    trainer = raw_training.Trainer({**settings, "toy": task}, "toy", texts, tmp_path, quick=True)
    for name in ("weights", "self_training", "expectation", "derived"):
        model = trainer.train(trainer.complete(settings["methods"][name]), 0)
        counts = raw_text._counts(model, examples)
        assert 0 <= raw_text._score(counts.sum(0)) <= 100
        assert (counts[:, 0] <= counts[:, 1:].min(1)).all()
    assert sum(raw_training.proportions(result, labels).values()) == pytest.approx(1)
    assert all(example.reference._.crf_weight == 1 for example in examples)  # a method leaves no weights to the next


def test_nettalk_is_read_and_the_first_symbol_alone_has_a_lemma(tmp_path: Path) -> None:
    file = tmp_path / "nettalk.data"
    file.write_text("ab\tAB\t01\t0\nabc\tABC\t012\t0\nab\tA-\t01\t0\nb\tB\t1\t0\n")
    texts = corpora.read_nettalk(file)
    assert texts == [("ab", "AB"), ("abc", "ABC"), ("ab", "A-"), ("b", "B")]
    example = corpora.as_examples(spacy.blank("en"), texts)[1]
    assert [token.lemma_ for token in example.predicted] == ["a", "", ""]
    assert [token.tag_ for token in example.reference] == ["A", "B", "C"]
    file.write_text("ab\tA\t01\t0\n")
    with pytest.raises(ValueError, match=r"line 1: 'ab' has 2 letters, 1 phonemes"):
        corpora.read_nettalk(file)


def test_words_are_split_by_seed_and_stay_together() -> None:
    pairs = [(f"word{n % 40}", f"{n}") for n in range(60)]
    parts = corpora.split_words(pairs, (0.5, 0.25), seed=3)
    assert parts == corpora.split_words(pairs, (0.5, 0.25), seed=3)
    assert parts != corpora.split_words(pairs, (0.5, 0.25), seed=4)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    words = [{word for word, _ in part} for part in parts]
    assert [len(part) for part in words] == [20, 10, 10]
    assert len(set.union(*words)) == 40


def hmm() -> hidden_markov.HiddenMarkov:
    return hidden_markov.make_hmm(**_harness.config("synthetic")["hmm"])


def shares(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return how often each column goes with each row."""
    counts = np.zeros(shape)
    np.add.at(counts, (rows.ravel(), columns.ravel()), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def test_synthetic_data_are_reproducible_and_follow_the_model() -> None:
    model = hmm()
    for table in (model.start[None], model.step, model.emit):
        np.testing.assert_allclose(table.sum(axis=1), 1)
        assert (table > 0).all()
    np.testing.assert_array_equal(model.emit[4], model.emit[5])
    labels, symbols = model.sample(np.random.default_rng(0), 4000, 6)
    np.testing.assert_array_equal((labels, symbols), model.sample(np.random.default_rng(0), 4000, 6))
    np.testing.assert_allclose(shares(labels, symbols, model.emit.shape), model.emit, atol=0.03)
    np.testing.assert_allclose(shares(labels[:, :-1], labels[:, 1:], model.step.shape), model.step, atol=0.03)


def test_the_best_labels_have_the_highest_posterior() -> None:
    model = hmm()
    _, symbols = model.sample(np.random.default_rng(1), 3, 4)
    start, steps, emit = (np.log(table) for table in (model.start, model.step, model.emit))
    for row, result in zip(symbols, model.best_labels(symbols), strict=True):
        scores = Scores(emit[:, row].T, steps[None], start, np.zeros_like(start))
        np.testing.assert_array_equal(result, reference.marginals(scores).argmax(axis=1))


def small_task(**component: Any) -> task_of.Task:
    nlp = spacy.blank("en")
    settings = _harness.config("synthetic")
    texts = hidden_markov.as_texts(*hmm().sample(np.random.default_rng(2), 30, 5))
    examples = corpora.as_examples(nlp, texts)
    features = settings["features"]["both"]
    return task_of.Task(nlp, {**settings["component"], **component}, features, examples, {"dev": examples})


def test_simulated_estimators_follow_their_theory() -> None:
    design = cells.DESIGNS["misspecified"]
    assert design.q.sum() == pytest.approx(1)
    assert design.bayes() == pytest.approx(0.017, abs=1e-6)
    plain, exact = (
        cells.theory(cells.DESIGNS["well specified"], weighting) for weighting in (cells.ORDINARY, cells.WEIGHTED)
    )
    assert plain.excess == pytest.approx(exact.excess)  # H = I = J if the model is right
    assert plain.excess == pytest.approx(cells.WORDS / 2)
    inverse, none = cells.inverse_counts(np.array([0.5, 0.1]), 3)
    assert none == pytest.approx([0.125, 0.729])
    assert inverse == pytest.approx([3 / 8 + 3 / 16 + 1 / 24, 0.243 + 0.027 / 2 + 0.001 / 3])
    sample = cells.draw(np.random.default_rng(0), design, 100_000, 300)
    for estimator in (cells.ORDINARY, cells.WEIGHTED):
        limit = cells.theory(design, estimator)
        result = cells.estimates(design, sample, estimator, 0.1, limit.theta)
        excess = 100_000 * (cells.risks(result, design.q, design.eta) - limit.risk)
        assert excess.mean() == pytest.approx(limit.excess, rel=0.1)
    assert cells.theory(design, cells.WEIGHTED).excess < cells.theory(design, cells.ORDINARY).excess / 3


@pytest.mark.parametrize("support", ["all", "observed"])
def test_runs_are_watched_and_come_to_the_optimum(support: str) -> None:
    task = small_task(support=support)
    result = task.fit(METHOD, watch=lambda theta: {"score": task.score("dev", theta)})
    assert result.iterations == len(result.trace)
    assert result.trace[-1]["active"] == task.active(result.theta)["all"] <= task.size
    assert result.optimality < 0.01
    assert result.trace[-1]["score"] == task.score("dev", result.theta) > 30
    again = task.fit(METHOD, start=result.theta)
    assert again.objective == pytest.approx(result.objective, rel=1e-3)


def test_each_run_along_a_path_begins_where_the_last_one_ended() -> None:
    task = small_task()
    method = _harness.config("synthetic")["methods"]["SBCD"]
    path = dict(task.along(method, [1.0, 0.1]))
    assert [*path] == [1.0, 0.1]
    alone = task.fit(task_of.changed(method, regularizer={"rho1": 0.1}))
    assert path[0.1].objective < alone.objective  # of as many sweeps, from zero
    assert path[1.0].objective > path[0.1].objective


@pytest.mark.parametrize("support", ["all", "observed"])
def test_parts_of_the_weights_are_found_again(support: str) -> None:
    task = small_task(support=support)
    theta = np.random.default_rng(0).normal(size=task.layout.size).astype(np.float32)
    kept = np.abs(theta) > 0.7
    part, smaller = task.layout.restricted(kept), task.layout.move(theta, kept)
    again = np.zeros_like(theta)
    again[weights.within(task.layout, part)] = smaller
    np.testing.assert_array_equal(again, np.where(np.abs(theta) > 0.7, theta, 0))


def test_a_part_of_the_weights_is_trained() -> None:
    task = small_task()
    whole = task.fit(METHOD)
    bound = float(np.sort(np.abs(whole.theta))[-40])
    part = task.layout.restricted(np.abs(whole.theta) > bound)
    result = task.fit(METHOD, layout=part, start=whole.theta)
    weights = task.layout.size - task.layout.n_labels * (task.layout.n_labels + 2)
    assert not result.theta[:weights][np.abs(whole.theta[:weights]) < bound].any()
    assert result.objective > whole.objective


def test_weights_of_words_and_tags_are_counted_by_threshold(tmp_path: Path) -> None:
    (tmp_path / "conll2000").mkdir()
    for name in ("train.txt", "test.txt"):
        (tmp_path / "conll2000" / name).write_text(20 * "He PRP B-NP\nsaw VBD B-VP\nhim PRP B-NP\n. . O\n\n")
    rows = sparsity.hierarchy(Options(tmp_path, quick=True))
    assert [row["threshold"] for row in rows] == [0.0, 1.0, 2.0, 3.0]
    assert (rows[0]["F1"], rows[0]["words"]["observations"], rows[0]["tags"]["observations"]) == (100, 4, 3)
    counts = [row[name]["weights"] for name in ("words", "tags") for row in rows]
    assert counts[:4] == sorted(counts[:4], reverse=True)
    assert counts[4:] == sorted(counts[4:], reverse=True)


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    """Two words, names after "in"; part of speech and chunk of each are those of the word."""
    rows = ["in IN I-PP O", "Rome NNP I-NP I-LOC", "and CC O O", "-DOCSTART- -X- O O", "Bonn NNP I-NP I-LOC"]
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / "conll2003").mkdir(exist_ok=True)
        (tmp_path / "conll2003" / name).write_text("\n".join(rows[:3]) + "\n\n" + "\n\n".join(rows[3:]) + "\n")
    return tmp_path


def test_observations_and_labels_are_read_as_they_are(columns: Path) -> None:
    corpus = chunks.ThesisCorpus("names", Options(columns, quick=True))
    examples = corpus.parts["train"]
    assert [[token.tag_ for token in example.reference] for example in examples] == [["O", "I-LOC", "O"], ["I-LOC"]]
    seen = [[(token.lemma_, token.norm_, token.tag_) for token in example.predicted] for example in examples]
    assert seen == [[("IN", "I-PP", ""), ("NNP", "I-NP", ""), ("CC", "O", "")], [("NNP", "I-NP", "")]]


def test_scores_and_weights_of_a_pattern_are_counted(columns: Path) -> None:
    corpus = chunks.ThesisCorpus("names", Options(columns))
    task = corpus.pattern_task("word", keep_names=True)
    theta = np.zeros(task.layout.size, np.float32)
    assert corpus.scores(task, "A", theta) in (chunks.Scores(50, 0, 0, 0), chunks.Scores(50, 50, 50, 50))
    trained = task.fit(corpus.settings["methods"]["L2"])
    assert corpus.scores(task, "A", trained.theta) == chunks.Scores(100, 100, 100, 100)
    assert chunks.n_weights(task) == 4 * 2  # words and labels
    assert chunks.kept(task) == {"(y,x1)": [8, 8]}
    words = chunks.heaviest(task, 2)
    assert list(words.values()) == sorted(words.values(), reverse=True)
    assert set(words) < {"in", "Rome", "and", "Bonn"}


def test_weights_of_symbols_are_found_and_orphans_counted() -> None:
    task = small_task()
    theta = np.arange(1.0, len(task.pipe.crf.theta) + 1).astype(np.float32)
    result = weights.weights_of(task, theta, "eaz")
    for example in task.parts["dev"][:3]:
        ids, _ = task.features_of([example.predicted])
        here = dict(zip((token.text for token in example.predicted), ids[0].features, strict=True))
        rows = task.layout.views(theta).unigrams.reshape(-1, len(task.labels))
        for number, symbol in enumerate("ea"):
            if symbol in here:
                np.testing.assert_array_equal(result.unigrams[number], rows[here[symbol]])
    assert result.unigrams[:2].all()
    assert not result.unigrams[2].any()  # there is no z
    assert not result.bigrams[2].any()
    kept = weights.Weights(np.array([[0, 2.0]]), np.array([[[1.0, 1.0], [0, 0]]]))
    np.testing.assert_array_equal(kept.orphans(), [[True, False]])
    np.testing.assert_array_equal(kept.kept(1.0).unigrams, [[0, 1]])


def test_texts_have_margins_and_mistakes_are_counted() -> None:
    task = small_task(decoder={"@crf_decoders": "spacy_crfseq.Viterbi.v1"})
    trained = task.fit(METHOD)
    texts, margins = task.tags("dev", trained.theta), task.margins("dev", trained.theta)
    wrong = [text.errors() for text in texts]
    assert task_of.token_error(texts) == pytest.approx(100 - task.score("dev", trained.theta))
    assert all(margin > 0 if errors else abs(margin) < 1e-4 for margin, errors in zip(margins, wrong, strict=True))
    listed = nettalk._mistakes(task, trained.theta, "dev")
    assert sum(int(errors) * count for errors, count in listed["words by errors"].items()) == sum(wrong) > 0
    assert sum(count for *_, count in listed["confusions"]) <= sum(wrong)
    assert listed["worst words"][0][-1] == pytest.approx(max(margins), abs=0.01)


def test_only_weights_that_are_learned_are_counted() -> None:
    whole, few = small_task(transitions=True, boundaries=True), small_task()
    assert whole.size == len(whole.pipe.crf.theta)
    assert few.size == whole.size - 6 * (6 + 2)


def test_rank_correlation_is_that_of_mean_ranks() -> None:
    assert rank_correlation([1, 2, 2, 4], [10, 20, 20, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    with pytest.raises(ValueError, match="2"):
        rank_correlation([1, 2], [1, 2])


def test_tables_of_numbers_are_texts_and_back() -> None:
    values = np.array([[0.5, -2.0], [1234.0, 0.0]])
    assert weights.compact("ab", values) == {"a": "0.5 -2", "b": "1.23e+03 0"}
    np.testing.assert_array_equal(weights.expanded(weights.compact("ab", values)), [[0.5, -2], [1230, 0]])
    assert tables.against(None, 0.5) == "– / 0.5"


def test_each_question_is_tested_once() -> None:
    folds = questions.folds_of(10, 3, seed=0)
    assert sorted(number for fold in folds for number in fold) == list(range(10))
    assert [len(fold) for fold in folds] == [4, 3, 3]
    assert folds != questions.folds_of(10, 3, seed=1)


TREES = (
    (("He", "PRP", 1, "nsubj"), ("sleeps", "VBZ", 1, "ROOT"), (".", ".", 1, "punct")),
    (("Does", "VBZ", 2, "aux"), ("he", "PRP", 2, "nsubj"), ("sleep", "VB", 2, "ROOT"), ("?", ".", 2, "punct")),
    (("Why", "WRB", 0, "ROOT"), ("?", ".", 0, "punct")),
)


@pytest.fixture
def english(tmp_path: Path) -> questions.Questions:
    folder = tmp_path / "ud-english-ewt"
    folder.mkdir()
    rows = [
        [
            f"{number}\t{word}\t_\t{'VERB' if tag.startswith('V') else 'X'}\t{tag}\t_"
            f"\t{0 if dep == 'ROOT' else head + 1}\t{dep.lower()}\t_\t_"
            for number, (word, tag, head, dep) in enumerate(tree, start=1)
        ]
        for tree in TREES
    ]
    for part in ("train", "dev", "test"):
        text = "".join("\n".join(lines) + "\n\n" for lines in rows)
        (folder / f"en_ewt-ud-{part}.conllu").write_text(text)
    return questions.Questions("tag", Options(tmp_path, quick=True))


def test_questions_are_parted_from_other_sentences(english: questions.Questions) -> None:
    counts = [len(part) for part in (english.source, english.pool, english.dev, english.others)]
    assert counts == [1, 4, 2, 1]
    assert english.task.data.n_sequences == 1
    assert [str(english.main_verb(example)) for example in english.dev] == ["sleep", "None"]


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [
        (questions.VERB, [["", "", "VB", ""]]),
        (questions.TAG, [["", "", "VB", ""]]),
        (questions.ALL, [["VBZ", "PRP", "VB", "."]]),
    ],
)
def test_nothing_is_told_of_questions_but_what_is_known(
    english: questions.Questions, evidence: str, kept: list[list[str]]
) -> None:
    examples, loss = english.evidence(english.dev[:1], evidence)
    assert [[token.tag_ for token in example.reference] for example in examples] == kept
    assert ("cost" in loss) == (evidence != questions.ALL)
    assert [token.tag_ for token in english.dev[0].reference] == ["VBZ", "PRP", "VB", "."]


@pytest.mark.parametrize("evidence", [questions.TAG, questions.ALL])
def test_a_tagger_learns_what_is_known_of_questions(english: questions.Questions, evidence: str) -> None:
    start = english.train(seed=0)
    assert english.right(start, english.dev)["right_verbs"] == 0
    nothing = english.adapt(start, [], questions.NOTHING, seed=0)
    assert english.right(nothing, english.dev)["right_verbs"] == 0
    english.settings["augmented"]["sentences"] = 0.05  # one sentence has to come with all questions many times
    result = english.right(english.adapt(start, english.pool, evidence, seed=0, k=200), english.dev)
    assert (result["verbs"], result["right_verbs"], result["tokens"]) == (1, 1, 6)
    assert result["right"] >= (4 if evidence == questions.ALL else 1)


def tuned(name: str, data: Path) -> tuned_tagger.TunedTagger:
    corpus = Corpus(name, Options(data), tuned_tagger.read_with_tags)
    return tuned_tagger.TunedTagger(corpus, 0, Options(data, quick=True))


@pytest.fixture
def tagged_entities(tmp_path: Path) -> tuned_tagger.TunedTagger:
    """540 words that are spelt alike, each in a sentence of its own; every third is tagged as a name and an entity."""
    (tmp_path / "conll2002").mkdir()
    text = "".join(
        f"vive VMI O\n{chr(97 + n % 26)}{chr(97 + n // 26)}eno {'NC O' if n % 3 else 'NP B-LOC'}\n. Fp O\n\n"
        for n in range(540)
    )
    for part in ("train", "testa", "testb"):
        (tmp_path / "conll2002" / f"esp.{part}").write_text(text)
    return tuned("tagger-for-entities", tmp_path)


def test_a_tagger_is_judged_by_entities_alone(tagged_entities: tuned_tagger.TunedTagger) -> None:
    judged, labelled = tagged_entities.judged, tagged_entities.labelled
    assert len(judged) == len(labelled) == len(tagged_entities.tagged) == 100
    for without, whole in zip(judged, labelled, strict=True):
        assert not any(token.tag_ for doc in (without.predicted, without.reference) for token in doc)
        assert [token.tag_ for token in whole.reference] == ["VMI", "NP", "Fp"]
        assert [str(entity) for entity in without.reference.ents] == [whole.reference[1].text]


@pytest.mark.parametrize("evidence", [tuned_tagger.ERRORS, tuned_tagger.ERRORS_F1, tuned_tagger.TAUGHT])
def test_a_tagger_learns_from_the_recognizer(tagged_entities: tuned_tagger.TunedTagger, evidence: str) -> None:
    alone = tagged_entities.entities(tagged_entities.adapt(tuned_tagger.AGAIN))["test"]
    assert tagged_entities.entities(tagged_entities.adapt(evidence))["test"] > alone
    assert tagged_entities.entities(None)["test"] == 100  # by the tags of the file


@pytest.fixture
def names(tmp_path: Path) -> tuned_tagger.TunedTagger:
    """Words that are spelt alike, each in a sentence of its own; every third is tagged as a name and an entity."""
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}eno" for n in range(540)]
    for folder, files in (("conll2000", ["train.txt"]), ("conll2003", ["eng.train", "eng.testa", "eng.testb"])):
        (tmp_path / folder).mkdir()
        entity = "" if folder == "conll2000" else " O"
        tags = ["NN" if n % 3 else "NNP" if n % 2 else "NNPS" for n in range(540)]
        rows = [f"{word} {tag} O" for word, tag in zip(words, tags, strict=True)]
        ends = ["" if folder == "conll2000" else " O" if n % 3 else " I-LOC" for n in range(540)]
        lines = [f"in IN O{entity}\n{row}{end}\n. . O{entity}\n\n" for row, end in zip(rows, ends, strict=True)]
        for file in files:
            (tmp_path / folder / file).write_text("".join(lines))
    return tuned("tagger-for-names", tmp_path)


def test_a_tagger_learns_that_names_are_proper_nouns(names: tuned_tagger.TunedTagger) -> None:
    assert not any(
        token.tag_ for example in names.judged for doc in (example.predicted, example.reference) for token in doc
    )
    alone = names.tags(names.adapt(tuned_tagger.AGAIN))
    for kind in (tuned_tagger.NOUNS, tuned_tagger.NOUNS_F1):
        assert names.tags(names.adapt(kind)) > alone
    assert names.tags(None) == 100  # by the tags of the file
    assert set(names.entities(None)) == {"dev", "test"}
