"""``crfseq find-regularization``: what it shows, chooses, writes and refuses."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.optimizers.lbfgs import OWLQN
from spacy_crfseq.papers.batch import FISTA
from spacy_crfseq.papers.path import PathStep, choose, command, follow, has_passed_its_best, schedule, sparse_start
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.types import Floats, Optimizer
from tests.commands import Run, refused, worked
from tests.problems import Training, training_problem

FIND = "find-regularization"
KEYS = ["rho1", "objective", "loss", "unigrams", "pairs", "score", "iterations", "seconds", "chosen"]
SHORT = ("--from", "16", "--to", "1", "--steps", "5")
QUICK = ("--from", "16", "--to", "2", "--steps", "4")
CAPPED = '[components.{}.optimizer]\n@crf_optimizers = "spacy_crfseq.OWLQN.v1"\nmax_iterations = 25\n'
"""An optimizer that stops early, for tests that do not look at what it finds."""


def table_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "path.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def followed(run: Run, configure: Any, paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("path")
    config = configure(folder / "c.cfg", "crf_ner")
    result = worked(run(FIND, config, "--output", folder / "out", *paths, *SHORT, "--within", "3", "--rho2", "0.1"))
    return folder / "out", result


def test_writes_the_chosen_model_and_a_table(followed: tuple[Path, Any], corpus: Any) -> None:
    folder, _ = followed
    assert sorted(path.name for path in folder.iterdir()) == ["model-best", "path.html", "path.jsonl"]
    table = table_of(folder)
    assert [list(step) for step in table] == [KEYS] * 5
    assert [step["rho1"] for step in table] == pytest.approx([16, 8, 4, 2, 1])
    sizes = [step["unigrams"] + step["pairs"] for step in table]
    assert sizes == sorted(sizes)
    chosen = next(step for step in table if step["chosen"])
    near = [step for step in table if step["score"] >= max(other["score"] for other in table) - 0.03]
    assert chosen == near[0]
    assert chosen != table[-1]
    nlp = spacy.load(folder / "model-best")
    scores = nlp.evaluate(read_examples(nlp, corpus.dev, "conll2003"))
    assert scores["ents_f"] == pytest.approx(chosen["score"])
    assert nlp.meta["performance"]["ents_f"] == pytest.approx(scores["ents_f"])
    crf = nlp.get_pipe("crf_ner").crf  # type: ignore[attr-defined]
    assert np.count_nonzero(crf.theta) == chosen["unigrams"] + chosen["pairs"]
    page = (folder / "path.html").read_text()
    assert page.count("<svg") == 1
    assert page.count("<title>chosen ") == 2
    assert f"rho1 = {chosen['rho1']:.4g} is chosen" in page
    assert page.count("<tr>") == 6


def test_the_stored_config_tells_how_the_model_was_trained(
    followed: tuple[Path, Any], run: Run, paths: list[str], tmp_path: Path
) -> None:
    folder, result = followed
    chosen = next(step for step in table_of(folder) if step["chosen"])
    lines = [line for line in result.stdout.splitlines() if line.startswith("rho1=")]
    assert len(lines) == 5
    assert lines[0].startswith("rho1=16 objective=")
    assert f"Saved {folder / 'model-best'}" in result.stdout
    block = spacy.load(folder / "model-best").config["components"]["crf_ner"]
    assert "AdaGrad cannot follow a path: using OWLQN instead" in result.stdout
    assert block["optimizer"]["@crf_optimizers"] == "spacy_crfseq.OWLQN.v1"
    assert block["regularizer"] == {
        "@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": pytest.approx(chosen["rho1"]), "rho2": 0.1
    }  # fmt: skip
    worked(run("fit", folder / "model-best" / "config.cfg", "--output", tmp_path, *paths))
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert last["objective"] == pytest.approx(chosen["objective"], rel=1e-3)


def test_the_optimizer_of_the_config_is_used_where_it_can(train_on: Run, tmp_path: Path) -> None:
    block = '[components.crf_ner.optimizer]\n@crf_optimizers = "spacy_crfseq.FISTA.v1"\nmax_iterations = 3\n'
    result = worked(train_on(FIND, "crf_ner", components=block, args=("--from", "1000", "--to", "30", "--steps", "2")))
    assert "OWLQN" not in result.stdout
    table = table_of(tmp_path / "out")
    assert [step["iterations"] for step in table] == [1, 3]
    assert table[0]["unigrams"] + table[0]["pairs"] == 0


def test_without_ends_it_begins_sparse_and_stops_past_the_best(train_on: Run, tmp_path: Path) -> None:
    block = '[components.crf_ner.regularizer]\n@crf_regularizers = "spacy_crfseq.L2.v1"\nrho = 0.5\n'
    result = worked(train_on(FIND, "crf_ner", components=block))
    table = table_of(tmp_path / "out")
    n_weights = int(re.search(r"([\d,]+) parameters", result.stdout)[1].replace(",", ""))  # type: ignore[index]
    sizes = [step["unigrams"] + step["pairs"] for step in table]
    assert 0.002 < sizes[0] / n_weights < 0.05
    strengths = [step["rho1"] for step in table]
    assert strengths == pytest.approx([strengths[0] / 3**k for k in range(len(table))])
    assert 2 < len(table) < 12
    best = max(step["score"] for step in table[:-2])
    assert all(step["score"] < best + 0.001 for step in table[-2:])
    block = spacy.load(tmp_path / "out" / "model-best").config["components"]["crf_ner"]
    assert block["regularizer"]["rho2"] == 0.5


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (("--from", "60", "--to", "6"), "last of the path, so a weaker penalty may do better: go on with --from 6"),
        (("--from", "1", "--to", "0.5", "--within", "50"), "is the first of the path, so a smaller one may do as well"),
    ],
)
def test_a_choice_at_the_edge_is_not_silent(ends: tuple[str, ...], said: str, train_on: Run) -> None:
    result = worked(train_on(FIND, "crf_ner", components=CAPPED.format("crf_ner"), args=(*ends, "--steps", "2")))
    assert said in " ".join(result.stdout.split())


def test_one_component_of_several(train_on: Run, tmp_path: Path) -> None:
    def follow(*args: str) -> Any:
        return train_on(FIND, "crf_tagger", "crf_ner", components=CAPPED.format("crf_ner"), args=(*QUICK, *args))

    unread(follow(), "more than one CRF component", "--component crf_tagger or crf_ner")
    unread(follow("--component", "ner"), "'ner' is no CRF component", "crf_ner")
    assert "Not trained, all weights zero: crf_tagger" in worked(follow("--component", "crf_ner")).stdout
    nlp: Any = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.get_pipe("crf_ner").crf.theta.any()
    assert not nlp.get_pipe("crf_tagger").crf.theta.any()


def test_features_that_an_untrained_component_would_write(
    run: Run, configure: Any, paths: list[str], trained: Path, tmp_path: Path
) -> None:
    annotating, block = 'annotating_components = ["crf_tagger"]', CAPPED.format("crf_chunker")
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_chunker", components=block, training=annotating)
    arguments = ("--output", tmp_path / "out", *paths, *QUICK, "--component", "crf_chunker")
    unread(run(FIND, config, *arguments), "crf_chunker reads TAG, but crf_tagger", "source = FOLDER")
    text = config.read_text().replace('factory = "crf_tagger"', f'source = "{trained / "model-best"}"')
    config.write_text(text)
    worked(run(FIND, config, *arguments))
    assert table_of(tmp_path / "out")[-1]["score"] > 0.9


def unread(result: Any, *parts: str) -> None:
    """Check that a command has been refused before a large corpus was read."""
    refused(result, *parts, silent=False)
    assert "Encoded" not in result.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["--from", "1", "--to", "2"], "larger strength down to a smaller one"),
    (["--to", "0"], "--to must be above 0"),
    (["--within", "-1"], "--within 0 or more"),
    (["--to", "nan"], "--to"),
])  # fmt: skip
def test_settings_out_of_range(arguments: list[str], message: str, train_on: Run, tmp_path: Path) -> None:
    unread(train_on(FIND, "crf_ner", args=arguments), message)
    assert not (tmp_path / "out").exists()


def test_it_needs_a_dev_corpus_and_a_config(run: Run, train_on: Run, corpus: Any, tmp_path: Path) -> None:
    train = ["--paths.train", corpus.train]
    unread(train_on(FIND, "crf_ner", corpora=train), "--paths.dev")
    unread(run(FIND, tmp_path / "no.cfg", "--output", tmp_path / "out"), "no.cfg: no such config file")
    unread(run(FIND, tmp_path / "c.cfg", "--output", tmp_path / "c.cfg", *train), "c.cfg is a file")


@pytest.mark.parametrize(
    ("method", "models", "said"),
    [("add", 3, "Interrupted: the choice among the models so far is saved"), ("watch", 0, "nothing is saved")],
)
def test_ctrl_c_keeps_the_choice_so_far(
    method: str, models: int, said: str, train_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, calls = getattr(command._PathBar, method), list[Any]()

    def stop(bar: Any, progress: Any) -> None:
        act(bar, progress)
        calls.append(progress)
        if len(calls) == models + 1:  # in the fit, or before the fourth model is shown
            raise KeyboardInterrupt

    monkeypatch.setattr(command._PathBar, method, stop)
    result = train_on(FIND, "crf_ner", components=CAPPED.format("crf_ner"), args=QUICK)
    assert result.exit_code == 130
    assert said in result.stdout
    best = tmp_path / "out" / "model-best"
    assert best.exists() == bool(models)
    if models:
        assert len(table_of(tmp_path / "out")) == models
        assert spacy.load(best).get_pipe("crf_ner").crf.theta.any()  # type: ignore[attr-defined]


TIGHT = {"tolerance": 1e-10, "gradient_tolerance": 1e-7}


def problem() -> Training:
    return training_problem(6, n_sequences=30, templates=("LOWER", "TAG[0]"), bigram_templates=("TAG[0]",))


def density(theta: Floats) -> float:
    """A score that likes large models."""
    return np.count_nonzero(theta) / len(theta)


@pytest.mark.parametrize("optimizer", [OWLQN(**TIGHT), FISTA(**TIGHT)], ids=["OWLQN", "FISTA"])
def test_every_model_is_the_minimum_for_its_strength(optimizer: Optimizer) -> None:
    training, theta, strengths = problem(), np.zeros(problem().layout.size), schedule(4.0, 0.5, 4)
    path = follow(training.objective, optimizer, strengths, theta, density, rho2=0.1)
    steps, thetas = zip(*((step, weights.copy()) for step, weights in path), strict=True)
    assert not theta.any()
    assert [step.rho1 for step in steps] == pytest.approx([4, 2, 1, 0.5])
    for step in steps:
        ((alone, _),) = follow(training.objective, OWLQN(**TIGHT), [step.rho1], theta, density, rho2=0.1)
        assert step.objective == pytest.approx(alone.objective, rel=1e-7)
        assert (step.unigrams, step.pairs, step.score) == (alone.unigrams, alone.pairs, alone.score)
    last = training.objective.under(ElasticNet(0.5, 0.1))
    assert last.value(thetas[3]) == pytest.approx(steps[3].objective)
    views = training.layout.views(thetas[3])
    pairs = np.count_nonzero(views.transitions) + np.count_nonzero(views.bigrams)
    assert steps[3].pairs == pairs
    assert steps[3].active == np.count_nonzero(thetas[3])
    assert 0 < pairs < steps[3].active


def test_the_path_begins_where_few_weights_are_active() -> None:
    training = training_problem(6, n_sequences=60, n_labels=6)
    theta = np.zeros(training.layout.size)
    first, near = sparse_start(training.objective, OWLQN(**TIGHT), theta, rho2=0.1)
    assert not theta.any()
    assert 0 < np.count_nonzero(near) < 0.1 * len(theta)
    ((step, _),) = follow(training.objective, OWLQN(**TIGHT), [first], theta, density, rho2=0.1)
    assert 0 < step.active < 0.1 * len(theta)


@pytest.mark.parametrize(
    ("scores", "passed"),
    [
        ([0.5, 0.6], False),
        ([0.5, 0.6, 0.7], False),
        ([0.5, 0.7, 0.6], False),
        ([0.7, 0.6, 0.65], True),
        ([0.7, 0.7005, 0.7008], True),
        ([0.7, 0.6, 0.702], False),
        ([0.0, 0.0, 0.0, 0.0], False),
    ],
)
def test_a_path_has_passed_its_best(scores: list[float], passed: bool) -> None:
    assert has_passed_its_best(steps_of([(i, score) for i, score in enumerate(scores)])) == passed


def test_schedules() -> None:
    assert schedule(8, 1, 4) == pytest.approx([8, 4, 2, 1])
    assert schedule(8, 1, 1) == [8]
    assert schedule(8, 8, 3) == [8]
    for first, last, steps in ((1, 2, 3), (1, 0, 3), (float("nan"), 1, 3), (2, 1, 0)):
        with pytest.raises(ConfigError, match=r"path (needs|goes)"):
            schedule(first, last, steps)


def steps_of(rows: Sequence[tuple[int, float]]) -> list[PathStep]:
    return [PathStep(1.0, 1.0, 1.0, active, 0, score, 1, 0.0) for active, score in rows]


@pytest.mark.parametrize(
    ("within", "chosen"), [(0.0, 3), (0.005, 3), (0.01, 2), (0.05, 1), (1.0, 0)], ids=lambda value: str(value)
)
def test_the_smallest_model_near_the_best_is_chosen(within: float, chosen: int) -> None:
    assert choose(steps_of([(0, 0.0), (10, 0.90), (20, 0.93), (30, 0.94), (40, 0.94), (50, 0.92)]), within) == chosen
