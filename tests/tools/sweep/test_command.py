"""``crfseq sweep``: what it trains, skips, writes, goes on with and refuses."""

import csv
import json
import os
import sys
import time
from functools import partial
from itertools import product
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

import tests.pipeline.test_terms  # noqa: F401 (registers losses)
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.tools.sweep import _contents
from spacy_crfseq.tools.sweep.bench import Bench
from spacy_crfseq.tools.sweep.grid import Combination, Space, read_grid, show
from spacy_crfseq.tools.sweep.jobs import at_once, run_calls
from spacy_crfseq.tools.sweep.results import CombinationResult, Repetition, as_csv, as_latex, result_rows
from spacy_crfseq.tools.sweep.study import importance_rows
from tests.commands import Run, refused, worked

GRID = """
optimizer = ["AdaGrad", {"@crf_optimizers": "LBFGS", "max_iterations": 30}]
regularizer = ["L2", "L1", "NoRegularizer"]
regularizer.rho = [0.1, 1]
"""


def write_grid(path: Path, grid: str, config: str = "c.cfg", component: str | None = None) -> Path:
    named = f'component = "{component}"\n' if component else ""
    path.write_text(f'[sweep]\nconfig = "{config}"\n{named}\n[sweep.grid]\n{grid}', encoding="utf8")
    return path


def results_of(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the table that `sweep_on` asks for, best first."""
    with (folder.parent / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table_of(result: Any) -> str:
    text: str = result.stdout
    return text[text.index("\n#  ") + 1 :]


@pytest.fixture(scope="module")
def swept(run: Run, configure: Any, paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("sweep")
    configure(folder / "c.cfg", "crf_ner")
    arguments = ("--jobs 1 --output", folder / "out", "--csv", folder / "results.csv", "--latex", folder / "t.tex")
    result = worked(run("sweep", write_grid(folder / "s.cfg", GRID), *arguments, *paths))
    return folder, result


@pytest.fixture
def sweep_on(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> Run:
    """Sweep over a grid, with a config of some components, into tmp_path / "out"."""

    def call(
        grid: str, *args: object, factories: Any = ("crf_ner",), component: str | None = None, **config: str
    ) -> Any:
        configure(tmp_path / "c.cfg", *factories, **config)
        file = write_grid(tmp_path / "s.cfg", grid + "\n", component=component)
        return run("sweep", file, "--output", tmp_path / "out", "--csv", tmp_path / "results.csv", *paths, *args)

    return call


def test_one_result_a_combination_and_the_best_model(swept: tuple[Path, Any], corpus: Any) -> None:
    folder, result = swept
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["model-best", "study.log", "sweep.html"]
    results = results_of(folder / "out")
    settings = {(row["optimizer"], row["regularizer"], row["regularizer.rho"]) for row in results}
    lbfgs = "LBFGS(max_iterations=30)"
    assert settings == {
        ("AdaGrad", "L2", "0.1"),
        ("AdaGrad", "L2", "1"),
        ("AdaGrad", "L1", "0.1"),
        ("AdaGrad", "L1", "1"),
        ("AdaGrad", "NoRegularizer", ""),  # rho is not its setting: once
        (lbfgs, "L2", "0.1"),
        (lbfgs, "L2", "1"),
        (lbfgs, "NoRegularizer", ""),
    }
    assert len(results) == 8
    best = results[0]
    nlp = spacy.load(folder / "out" / "model-best")
    scores = nlp.evaluate(read_examples(nlp, corpus.dev, "conll2003"))
    assert scores["ents_f"] == pytest.approx(float(best["mean"]))
    assert nlp.meta["performance"]["ents_f"] == pytest.approx(float(best["mean"]))
    pipe: Any = nlp.get_pipe("crf_ner")
    assert np.count_nonzero(pipe.crf.theta) == float(best["active"])
    size = (folder / "out" / "model-best" / "crf_ner" / "model").stat().st_size
    assert size == pytest.approx(float(best["n_bytes"]), abs=40)
    active = {row["regularizer.rho"]: float(row["active"]) for row in results if row["regularizer"] == "L1"}
    assert active["1"] < active["0.1"]
    assert "10 combinations: 8 to train, 0 done before, 2 skipped" in result.stdout
    assert result.stdout.count("Encoded ") == 1


def test_output_and_page_tell_all(swept: tuple[Path, Any]) -> None:
    folder, result = swept
    assert result.stdout.startswith("Skipped: optimizer=LBFGS(max_iterations=30) regularizer=L1 regularizer.rho=0.1; ")
    told = " ".join(result.stdout[: result.stdout.index("Encoded")].split())
    assert "the optimizer LBFGS cannot minimise the regularizer L1" in told
    lines = table_of(result).splitlines()
    assert lines[0].split()[:6] == ["#", "Dev", "score", "optimizer", "regularizer", "regularizer.rho"]
    shown = [float(line.split()[1]) for line in lines[2:10]]
    assert shown == [round(100 * float(row["mean"]), 2) for row in results_of(folder / "out")]
    assert shown == sorted(shown, reverse=True)
    assert not any(ord(char) < 32 and char != "\n" for char in result.stdout)
    page = (folder / "out" / "sweep.html").read_text()
    assert page.count("<tr>") == 1 + 8 + 1 + 3 + 1 + 2
    assert "What matters" in page
    assert ">seconds of training<" in page
    assert ">dev score, %<" in page
    for number in range(1, 9):
        assert page.count(f">{number}</text>") >= 2  # a point's place in the table, in both clouds
    assert "cannot minimise the regularizer L1" in page
    assert page.count("<svg") == 2  # score and time by optimizer and by regularizer; rho has two values: no chart
    assert "http" not in page.replace("http://www.w3.org", "")
    latex = (folder / "t.tex").read_text().splitlines()
    assert latex[2] == "optimizer & regularizer & regularizer.rho & score \\\\"
    assert [line.split(" & ")[-1] for line in latex[4:-2]] == [f"{score:.2f} \\\\" for score in shown]


def test_started_again_it_goes_on(swept: tuple[Path, Any], run: Run, corpus: Any, tmp_path: Path) -> None:
    folder, _ = swept
    out = tmp_path / "out"
    out.mkdir()
    (out / "study.log").write_bytes((folder / "out" / "study.log").read_bytes())
    elsewhere = tmp_path / "copied.conll"  # the contents count, not the name
    elsewhere.write_bytes(corpus.train.read_bytes())
    arguments = ("--output", out, "--paths.train", elsewhere, "--paths.dev", corpus.dev)
    result = worked(
        run("sweep", folder / "s.cfg", *arguments),
        "is not the best model that study.log lists: training that one again",
        "1 to train, 7 done before",
    )
    assert (out / "model-best").is_dir()
    again = worked(run("sweep", folder / "s.cfg", *arguments), "0 to train, 8 done before")
    assert "Encoded" not in again.stdout
    assert table_of(again) == table_of(result)
    write_grid(tmp_path / "more.cfg", GRID.replace("[0.1, 1]", "[0.1, 1, 3]"), str(folder / "c.cfg"))
    worked(run("sweep", tmp_path / "more.cfg", *arguments), "14 combinations: 3 to train, 8 done before, 3 skipped")
    elsewhere.write_text(elsewhere.read_text() + "Bo NNP B-NP B-PER\n\n")
    refused(run("sweep", folder / "s.cfg", *arguments), "study.log is of another sweep: its config or corpus was")
    refused(run("sweep", folder / "s.cfg", *arguments, "--sampler tpe"), "how many?")
    with (out / "study.log").open("a") as file:
        file.write('{"op_code": 5, "cut sh')  # what a crash in the middle of a line leaves
    elsewhere.write_bytes(corpus.train.read_bytes())
    worked(run("sweep", folder / "s.cfg", *arguments), "0 to train, 8 done before")


def test_other_settings_encode_anew(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'corpora.train.limit = [40, 80]\nfeatures = ["Entities", "S1"]\nloss = ["SequentialLog", "PointwiseLog"]'
    result = worked(sweep_on(grid, "--patience", "1"))
    assert result.stdout.count("Encoded 40 documents") == 2
    assert result.stdout.count("Encoded 80 documents") == 2
    results = results_of(tmp_path / "out")
    assert len(results) == 8
    weights: dict[tuple[str, str], set[str]] = {}
    for row in results:
        weights.setdefault((row["corpora.train.limit"], row["features"]), set()).add(row["weights"])
    assert [len(of_corpus) for of_corpus in weights.values()] == [1] * 4
    assert len(set.union(*weights.values())) == 4
    order = list(product(["40", "80"], ["Entities", "S1"], ["SequentialLog", "PointwiseLog"]))
    names = ("corpora.train.limit", "features", "loss")
    ranks = [(-float(row["mean"]), order.index(tuple(row[name] for name in names))) for row in results]
    assert ranks == sorted(ranks)  # equal scores: the first in the grid
    best, config = results[0], spacy.load(tmp_path / "out" / "model-best").config
    assert config["corpora"]["train"]["limit"] == int(best["corpora.train.limit"])
    assert best["features"] in config["components"]["crf_ner"]["features"]["@crf_features"]
    assert best["loss"] in config["components"]["crf_ner"]["loss"]["@crf_losses"]


def test_repetitions_are_those_of_fit_with_their_seeds(
    sweep_on: Run, run: Run, paths: list[str], tmp_path: Path
) -> None:
    grid = 'support = ["all", "observed"]\nmin_count = [1, 2]'
    result = worked(sweep_on(grid, "--patience 1 --jobs 1 --seeds 2"))
    assert result.stdout.count("Encoded") == 1
    results = results_of(tmp_path / "out")
    assert len({row["weights"] for row in results}) == 4
    for row in (results[0], results[-1]):
        scores = list(map(float, row["scores"].split()))
        assert float(row["mean"]) == pytest.approx(np.mean(scores))
        assert float(row["sd"]) == pytest.approx(np.std(scores, ddof=1))
        assert row["seeds"] == "1 2"  # the seed of the config, and the next one
        arguments = [f"--components.crf_ner.{key} {row[key]}" for key in ("support", "min_count")]
        best_of = []
        for seed in row["seeds"].split():
            fit = ("fit", tmp_path / "c.cfg", "--output", tmp_path / "fit", *paths, "--patience 1 --force", *arguments)
            worked(run(*fit, f"--training.seed {seed}"))
            log = [json.loads(line) for line in (tmp_path / "fit" / "log.jsonl").read_text().splitlines()]
            best_of.append([line for line in log if line["best"]][-1])
        assert [line["score"] for line in best_of] == pytest.approx(scores)
        assert float(row["objective"]) == pytest.approx(np.mean([line["objective"] for line in best_of]))
    best, nlp = results[0], spacy.load(tmp_path / "out" / "model-best")
    pipe: Any = nlp.get_pipe("crf_ner")
    assert nlp.config["components"]["crf_ner"]["support"] == best["support"]
    scores = list(map(float, best["scores"].split()))
    assert nlp.config["training"]["seed"] == 1 + scores.index(max(scores))  # the best repetition
    assert nlp.meta["performance"]["ents_f"] == pytest.approx(max(scores))
    assert pipe.crf.theta.any()
    assert "SD" in table_of(result)
    assert "95 % interval" in table_of(result)


def test_two_at_once_find_the_same(swept: tuple[Path, Any], run: Run, paths: list[str], tmp_path: Path) -> None:
    def facts(folder: Path) -> list[dict[str, str]]:
        return sorted(({**row, "seconds": ""} for row in results_of(folder)), key=str)

    arguments = ("--output", tmp_path / "out", "--csv", tmp_path / "results.csv", "--jobs 2")
    threads = "--components.crf_ner.n_threads 1"
    worked(run("sweep", swept[0] / "s.cfg", *arguments, *paths, threads))
    two = facts(tmp_path / "out")
    worked(run("sweep", swept[0] / "s.cfg", *arguments[:-1], *paths, threads, "--jobs 1 --force"))
    assert facts(tmp_path / "out") == two


def test_a_sampler_learns_from_the_scores_and_goes_on(sweep_on: Run, tmp_path: Path) -> None:
    grid = (
        'regularizer = ["L2", "L1"]\nmin_count = [1, 1000000]\n[sweep.ranges]\n'
        'regularizer.rho = [0.1, 10.0, "log"]\noptimizer.max_iterations = [1, 3]'
    )
    arguments = "--sampler tpe --jobs 1 --patience 1 --seed 5 --trials"
    worked(sweep_on(grid, arguments, "4"))
    first = results_of(tmp_path / "out")
    assert len(first) == 4
    assert all(0.1 <= float(row["regularizer.rho"]) <= 10 for row in first)
    assert {row["optimizer.max_iterations"] for row in first} <= {"1", "2", "3"}
    worked(sweep_on(grid, arguments, "6"), "2 to train, 4 done before")
    assert {row["regularizer.rho"] for row in first} < {row["regularizer.rho"] for row in results_of(tmp_path / "out")}
    assert "Encoded" not in worked(sweep_on(grid, arguments, "6"), "0 to train, 6 done before").stdout
    worked(sweep_on(grid, "--force", arguments, "4"))
    same = [{**row, "seconds": ""} for row in results_of(tmp_path / "out")]
    assert same == [{**row, "seconds": ""} for row in first]


BAD_RANGE = "[sweep.ranges] regularizer.rho must be [low, high]"


@pytest.mark.parametrize(("grid", "options", "message"), [
    ("min_count = [1]", "--sampler best --trials 2", "--sampler best: unknown"),
    ("min_count = [1]", "--trials 2", "--trials N is for a sampler"),
    ("[sweep.ranges]\nregularizer.rho = [1, 2]", "", "a grid has no ranges"),
    ("[sweep.ranges]\nregularizer.rho = [2, 1]", "--sampler tpe --trials 2", BAD_RANGE),
    ("[sweep.ranges]\nregularizer.rho = [1]", "--sampler tpe --trials 2", BAD_RANGE),
    ('[sweep.ranges]\nregularizer.rho = [1, 2, "lin"]', "--sampler tpe --trials 2", BAD_RANGE),
    ("[sweep.ranges]\nregularizer.rho = 3", "--sampler tpe --trials 2", BAD_RANGE),
])  # fmt: skip
def test_a_sampler_that_cannot_work_is_refused(grid: str, options: str, message: str, sweep_on: Run) -> None:
    refused(sweep_on(grid, *([options] if options else [])), message)


def test_a_sampler_that_needs_torch_says_so(sweep_on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.tools.sweep.study.find_spec", lambda name: None)
    refused(sweep_on("min_count = [1]", "--sampler gp --trials 2"), "pip install torch", silent=False)


def test_combinations_of_a_sampler_that_cannot_work_are_skipped(sweep_on: Run, tmp_path: Path) -> None:
    result = worked(sweep_on('loss = ["SequentialLog"]\nsupport = ["all", "sum"]', "--sampler random --trials 6"))
    assert "Skipped: loss=SequentialLog support=sum" in result.stdout
    assert [row["support"] for row in results_of(tmp_path / "out")] == ["all"]


def test_a_grid_needs_no_optuna(sweep_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    worked(sweep_on("min_count = [1, 2]", "--patience 1"), "2 combinations: 2 to train")
    assert len(results_of(tmp_path / "out")) == 2
    assert not (tmp_path / "out" / "study.log").exists()
    refused(sweep_on("min_count = [1]"), "model-best exists. Give another name, or --force")
    said = "--sampler tpe needs Optuna. Install it: pip install 'spacy-crfseq[sweep]'"
    refused(sweep_on("min_count = [1]", "--force --sampler tpe --trials 2"), said, silent=False)


def result_of(settings: dict[str, Any], *scores: float, error: str = "") -> CombinationResult:
    repetitions = [
        Repetition(seed, score, 2.0, 1.0, 10, 20, 3000, 5, 0.5, "converged") for seed, score in enumerate(scores)
    ]
    return CombinationResult(settings, repetitions, error)


def test_mean_deviation_and_interval_are_those_of_student() -> None:
    result = result_of({"a": 1}, 0.5, 0.6, 0.7, 0.8)
    assert result.score == pytest.approx(0.65)
    assert result.deviation == pytest.approx(0.1290994)
    assert result.interval == pytest.approx((0.4445744, 0.8554256), abs=1e-4)  # scipy.stats.t.interval
    many = result_of({"a": 1}, *[0.5, 0.7] * 15)
    assert many.interval == pytest.approx((0.5620188, 0.6379812), abs=1e-3)
    assert result_of({"a": 1}, 0.5).interval == (0.5, 0.5)
    assert result_of({"a": 1}, error="x").score == float("-inf")


def test_tables_show_failures_and_escape_what_latex_reads() -> None:
    results = [
        result_of({"a_b": {"@crf_losses": "spacy_crfseq.Hinge.v1", "cost": 2.0}, "c": "50%"}, 0.75, 0.85),
        result_of({"a_b": "x", "c": 1}, error="it, fails"),
    ]
    header, rows = result_rows(results)
    assert header[:6] == ["#", "Dev score", "SD", "95 % interval", "a_b", "c"]
    assert rows[0][:6] == ["1", "80.00", "7.07", "16.47-143.53", "Hinge(cost=2)", "50%"]
    assert rows[1] == ["-", "failed", "-", "-", "x", "1", *["-"] * 5]
    table = list(csv.DictReader(as_csv(results).splitlines()))
    assert (table[0]["scores"], table[0]["seeds"], table[0]["error"]) == ("0.75 0.85", "0 1", "")
    assert (table[1]["repetitions"], table[1]["mean"], table[1]["error"]) == ("0", "", "it, fails")
    assert "80.00 $\\pm$ 7.07 \\\\" in as_latex(results)
    both = as_latex([results[0], result_of({"a_b": "x", "c": "y^2~\\"}, 0.5)])
    assert "a\\_b & c & score" in both
    assert "50\\% & 80.00" in both
    assert "y\\textasciicircum{}2\\textasciitilde{}\\textbackslash{} & 50.00" in both


def test_settings_that_matter_are_ranked() -> None:
    def score(a: int, b: int) -> float:
        return 0.5 + 0.1 * a + 0.01 * b

    results = [result_of({"a": a, "b": b, "c": 0}, score(a, b)) for a in range(3) for b in range(3)]
    _, rows = importance_rows([*results, result_of({"a": 0, "b": 9}, error="failed")])
    assert [row[0] for row in rows] == ["a", "b"]
    assert rows[0][1:] == ["99 %", "2", "71.00", "0", "51.00"]
    assert importance_rows(results[:1])[1] == []
    assert importance_rows([result_of(result.settings, 0.5) for result in results])[1] == []
    lacking = [result_of({"a": 1, **({"b": i} if i else {})}, i / 10) for i in range(3)]
    assert importance_rows(lacking)[1] == [["b", "100 %", "2", "20.00", "-", "0.00"]]


def test_losses_that_read_texts(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'loss = ["SequentialLog", "test.Lengths.v1"]\nregularizer.rho = [1, 2]'
    result = worked(sweep_on(grid, "--patience", "1"))
    assert result.stdout.count("Encoded") == 2  # the second loss is bound to labels, and reads the texts
    assert [row["error"] for row in results_of(tmp_path / "out")] == [""] * 4


def test_first_stages_have_the_settings_of_their_combination(sweep_on: Run, tmp_path: Path) -> None:
    # the config has no attributes: the grid adds a block
    grid = 'attributes.near = [{"@crf_attributes": "spacy_crfseq.DocumentLabels.v1", "folds": 2}]\n'
    result = worked(sweep_on(grid + "regularizer.rho = [1, 30]", "--patience", "1", "--corpora.train.limit", "30"))
    assert result.stdout.count("on the whole corpus") == len(results_of(tmp_path / "out")) == 2


def test_a_component_that_reads_what_another_predicts(sweep_on: Run, tmp_path: Path) -> None:
    several, training = ("crf_tagger", "crf_chunker", "crf_ner"), 'annotating_components = ["crf_tagger"]'
    grid = "regularizer.rho = [0.1, 1, 30]"
    result = worked(sweep_on(grid, factories=several, component="crf_chunker", training=training))
    assert result.stdout.count("Training crf_tagger") == 1
    assert "Not trained, all weights zero: crf_ner" in result.stdout
    assert float(results_of(tmp_path / "out")[0]["mean"]) > 0.9
    nlp = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.meta["performance"]["tag_acc"] > 0.9  # the component before it was trained, too
    assert (tmp_path / "out" / "sweep.html").read_text().count("<svg") == 1


def test_a_failure_is_noted_and_the_rest_goes_on(sweep_on: Run, tmp_path: Path) -> None:
    code = tmp_path / "functions.py"
    code.write_text(
        "import spacy\n"
        "from spacy_crfseq.losses.sequential_log import SequentialLog\n"
        "class Bad(SequentialLog):\n"
        "    def __call__(self, scores, batch, grad):\n"
        "        raise RuntimeError('the sky is falling')\n"
        "spacy.registry.crf_losses.register('sweep_test.Bad.v1', func=Bad)\n"
    )
    grid = 'loss = ["Bad", "SequentialLog"]\nmin_count = [1, 1000000]'
    result = worked(sweep_on(grid, "--code", code))
    results = results_of(tmp_path / "out")
    failed = [row for row in results if row["error"]]
    assert [row["error"] for row in failed if row["min_count"] == "1"] == ["RuntimeError: the sky is falling"]
    assert sum(bool(row["mean"]) for row in results) >= 1
    assert "failed" in result.stdout
    assert "the sky is falling" in (tmp_path / "out" / "sweep.html").read_text()
    again = sweep_on(grid, "--code", code)  # failures are tried again
    assert f"{len(failed)} to train, {4 - len(failed)} done before" in again.stdout


@pytest.mark.parametrize("optuna", [True, False], ids=["with Optuna", "without"])
def test_ctrl_c_keeps_what_is_there(
    optuna: bool, sweep_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, train, calls = "regularizer.rho = [1, 2, 3]", Bench.train, list[str]()
    if not optuna:
        monkeypatch.setitem(sys.modules, "optuna", None)

    def interrupted(bench: Bench, candidate: Any, seeds: Any, parent: int) -> Any:
        calls.append(candidate.combination.key)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(bench, candidate, seeds, parent)

    with monkeypatch.context() as patch:
        patch.setattr(Bench, "train", interrupted)
        result = sweep_on(grid, "--jobs 1 --patience 1")
    assert result.exit_code == 130, result.stderr
    assert ("run the same command again to continue" in result.stdout) == optuna
    assert ("the same command begins anew" in result.stdout) != optuna
    out = tmp_path / "out"
    assert (out / "sweep.html").is_file()
    assert spacy.load(out / "model-best")("Ada sees a dog in Oslo .").ents
    (row,) = results_of(out)
    if optuna:
        worked(sweep_on(grid, "--jobs 1 --patience 1"), "2 to train, 1 done before")
        assert row in results_of(out)
        assert len(results_of(out)) == 3


def test_a_file_that_is_no_study(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    configure(tmp_path / "c.cfg", "crf_ner")
    grid = write_grid(tmp_path / "s.cfg", "regularizer.rho = [1]\n")
    (tmp_path / "study.log").write_text('{"some": "thing"}\n')
    said = "study.log:1: the file has not been written by this command"
    refused(run("sweep", grid, "--output", tmp_path, *paths), said, silent=False)
    assert (tmp_path / "study.log").read_text() == '{"some": "thing"}\n'
    (tmp_path / "study.log").unlink()
    refused(run("sweep", grid, "--output", grid, *paths), "s.cfg is a file")


@pytest.mark.parametrize(("grid", "parts"), [
    ("regularizer.roh = [1]", ("s.cfg: [sweep.grid] regularizer.roh", "Did you mean 'rho'?")),
    ("regularizr = [1]", ("regularizr: [components.crf_ner] has no setting", "Did you mean 'regularizer'?")),
    ("components.crf_nr.min_count = [1]", ("there is no section [components.crf_nr]",)),
    ("regularizr.rho = [1]", ("regularizr.rho: there is no section [components.crf_ner.regularizr]",)),
    ("training.sed = [1]", ("[training] has no setting 'sed'", "Did you mean 'seed'?")),
    ("training.seed = [1, 2]", ("training.seed: seeds are repetitions of a combination. Give --seeds N",)),
    ('optimizer = ["LBFSG"]', ("optimizer: there is no function 'LBFSG'", "Did you mean 'LBFGS'?")),
    ('features = ["Entities.v1", "Entites.v1"]', ("no function 'Entites.v1'", "Chunking, Entities, Gazetteer")),
    ("optimizer = [3]", ("must list names of functions or blocks", "@crf_optimizers")),
    ('optimizer = [{"@crf_optimizers": "LBFGS", "histry": 1}]', ("LBFGS has no setting 'histry'", "'history'")),
    ("regularizer.rho = 1", ("regularizer.rho must be a list", "Write regularizer.rho = [1].")),
    ("regularizer.rho = []", ("regularizer.rho must be a list of values",)),
    ('regularizer.rho = ["a"]', ("[sweep.grid] with regularizer.rho=a:", "rho")),
    ('min_count = ["a"]', ("[sweep.grid] with min_count=a:", "min_count")),
    ("min_count = [0]", ("no combination of [sweep.grid] can be trained", "min_count must be at least 1")),
    ("regularizer.rho = [-1]", ("no combination of [sweep.grid] can be trained",)),
    ("", ("there is no setting under [sweep.grid]",)),
    ("min_count = [1]\ncomponents.crf_ner.min_count = [2]", ("are the same setting",)),
])  # fmt: skip
def test_wrong_grid(grid: str, parts: tuple[str, ...], sweep_on: Run, tmp_path: Path) -> None:
    result = sweep_on(grid)
    refused(result, *parts)
    assert "Encoded" not in result.stdout
    assert not (tmp_path / "out").exists()


def test_wrong_file(run: Run, configure: Any, corpus: Any, paths: list[str], tmp_path: Path) -> None:
    config, file = configure(tmp_path / "c.cfg", "crf_ner", "crf_tagger"), tmp_path / "s.cfg"

    def check(*parts: str, of: Path = file, corpora: Any = paths) -> None:
        refused(run("sweep", of, "--output", tmp_path / "out", *corpora), *parts)

    check("no.cfg: no such config file", of=tmp_path / "no.cfg")
    check("c.cfg: there is no section [sweep]", of=config)
    write_grid(file, "min_count = [1]\n", config="none.cfg")
    check("none.cfg: no such config file")
    write_grid(file, "min_count = [1]\n")
    check("more than one CRF component", "--component crf_ner or crf_tagger")
    write_grid(file, "min_count = [1]\n", component="crf_nre")
    check("'crf_nre' is no CRF component to train")
    write_grid(file, "min_count = [1]\n", component="crf_ner")
    check("--paths.dev FILE", corpora=["--paths.train", corpus.train])
    file.write_text('[sweep]\nconfg = "c.cfg"\n[sweep.grid]\nmin_count = [1]\n')
    check("[sweep] has no setting 'confg'", "Did you mean 'config'?")
    file.write_text(config.read_text() + '[sweep]\nconfig = "c.cfg"\n[sweep.grid]\nmin_count = [1]\n')
    check("the file has sections of one: paths")


def test_a_config_with_its_grid_in_one_file(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    file = configure(tmp_path / "c.cfg", "crf_ner", "crf_tagger")
    file.write_text(file.read_text() + "[sweep]\n[sweep.grid]\nregularizer.rho = [1, 2]\n")
    arguments = ("--output", tmp_path / "out", "--component", "crf_tagger", *paths)
    worked(run("sweep", file, *arguments), "2 combinations: 2 to train")
    assert "sweep" not in spacy.load(tmp_path / "out" / "model-best").config


def test_the_example_is_a_grid() -> None:
    root = Path(__file__).parents[3]
    corpora = {f"paths.{name}": str(root / "assets" / "corpus" / f"{name}.conll") for name in ("train", "dev")}
    source = read_grid(root / "configs" / "sweep.cfg", corpora, load_config)
    filled = spacy.util.load_model_from_config(source.config, auto_fill=True).config.interpolate()
    assert source.component == "crf_ner"
    assert len(Space(source, filled, "crf_ner").all()) == 2 * 2 * (3 + 3 + 1)
    assert show("LBFGS") == "LBFGS"
    assert show(0.5) == "0.5"
    assert show(None) == "null"
    assert show({"@crf_losses": "spacy_crfseq.Hinge.v1", "cost": 2.0}) == "Hinge(cost=2)"
    assert str(Combination({}, {}, {})) == "the config as it is"


def test_combinations_keep_what_the_config_says_of_its_own_function(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "s.cfg", 'optimizer = ["AdaGrad", "SGD"]\n', config="b.cfg")
    (tmp_path / "b.cfg").write_text('[nlp]\nlang = "xx"\n')
    block = {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1", "rate": 0.25}
    filled = {"components": {"x": {"optimizer": block}}}
    configurations = Space(read_grid(path, {}, load_config), filled, "x").all()
    place = ("components", "x", "optimizer")
    assert [configuration.changes[place] for configuration in configurations] == [
        block,
        {"@crf_optimizers": "spacy_crfseq.SGD.v1"},
    ]


pytestmark = pytest.mark.skipif(at_once(2) < 2, reason="processes cannot be forked here")


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("n", [1, 3])
def test_all_results_come(n: int) -> None:
    seconds = (0.2, 0.0, 0.1, 0.01)
    results = list(run_calls(((name, partial(sleep, name)) for name in seconds), n))
    assert all(name == result for name, result in results)
    assert sorted(name for name, _ in results) == sorted(seconds)


def test_failures_are_results() -> None:
    calls: list[Any] = [lambda: 1 / 0, lambda: os._exit(3), lambda: 7]
    results = dict(run_calls(iter(enumerate(calls)), 2))
    assert isinstance(results[0], ZeroDivisionError)
    assert "ended with code 3" in str(results[1])
    assert results[2] == 7


def test_whoever_leaves_ends_the_processes() -> None:
    results = run_calls(((name, partial(sleep, name)) for name in (60.0, 0.0, 50.0)), 2)
    assert next(results) == (0.0, 0.0)
    results.close()
    assert not active_children()


def test_two_combinations_at_once_where_there_are_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, number in ((1, 1), (16, 2)):
        monkeypatch.setattr("spacy_crfseq.tools.sweep.jobs.available", lambda cores=cores: cores)
        assert at_once(0) == number
    assert at_once(5) == 5


def test_a_sweep_depends_on_the_contents_of_all_files_of_a_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.conll").write_text(name)
    paths = [tmp_path / "a.conll", tmp_path / "*.conll", Path(f"{tmp_path}/b.conll,{tmp_path}/a.conll"), tmp_path]
    before = [_contents(path) for path in paths]
    assert before[1] == before[2] != before[0]
    (tmp_path / "b.conll").write_text("other")
    assert [_contents(path) == old for path, old in zip(paths, before, strict=True)] == [True, False, False, False]
    assert _contents(tmp_path / "none*") == ""
