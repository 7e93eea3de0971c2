"""``crfseq sweep``: what it trains, skips, writes, goes on with and refuses."""

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
from spacy_crfseq.pipeline.project import load_config
from spacy_crfseq.pipeline.readers import read_examples
from spacy_crfseq.tools.sweep import Bench
from spacy_crfseq.tools.sweep.jobs import at_once, run_calls
from spacy_crfseq.tools.sweep.search import (
    Combination,
    Result,
    Space,
    add_result,
    importance_rows,
    read_grid,
    read_results,
    show,
)
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


def results_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "sweep.jsonl").read_text().splitlines()]


def table_of(result: Any) -> str:
    text: str = result.stdout
    return text[text.index("\n#  ") + 1 :]


@pytest.fixture(scope="module")
def swept(run: Run, configure: Any, paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("sweep")
    configure(folder / "c.cfg", "crf_ner")
    result = worked(run("sweep", write_grid(folder / "s.cfg", GRID), "--jobs 1 --output", folder / "out", *paths))
    return folder, result


@pytest.fixture
def sweep_on(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> Run:
    """Sweep over a grid, with a config of some components, into tmp_path / "out"."""

    def call(
        grid: str, *args: object, factories: Any = ("crf_ner",), component: str | None = None, **config: str
    ) -> Any:
        configure(tmp_path / "c.cfg", *factories, **config)
        file = write_grid(tmp_path / "s.cfg", grid + "\n", component=component)
        return run("sweep", file, "--output", tmp_path / "out", *paths, *args)

    return call


def test_one_result_a_combination_and_the_best_model(swept: tuple[Path, Any], corpus: Any) -> None:
    folder, result = swept
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["model-best", "sweep.html", "sweep.jsonl"]
    results = results_of(folder / "out")
    settings = [entry["settings"] for entry in results]
    lbfgs = {"@crf_optimizers": "LBFGS", "max_iterations": 30}
    assert settings == [
        {"optimizer": "AdaGrad", "regularizer": "L2", "regularizer.rho": 0.1},
        {"optimizer": "AdaGrad", "regularizer": "L2", "regularizer.rho": 1},
        {"optimizer": "AdaGrad", "regularizer": "L1", "regularizer.rho": 0.1},
        {"optimizer": "AdaGrad", "regularizer": "L1", "regularizer.rho": 1},
        {"optimizer": "AdaGrad", "regularizer": "NoRegularizer"},  # rho is not its setting: once
        {"optimizer": lbfgs, "regularizer": "L2", "regularizer.rho": 0.1},
        {"optimizer": lbfgs, "regularizer": "L2", "regularizer.rho": 1},
        {"optimizer": lbfgs, "regularizer": "NoRegularizer"},
    ]
    best = max(results, key=lambda entry: entry["score"])
    nlp = spacy.load(folder / "out" / "model-best")
    scores = nlp.evaluate(read_examples(nlp, corpus.dev, "conll2003"))
    assert scores["ents_f"] == pytest.approx(best["score"])
    assert nlp.meta["performance"]["ents_f"] == pytest.approx(best["score"])
    pipe: Any = nlp.get_pipe("crf_ner")
    assert np.count_nonzero(pipe.crf.theta) == best["active"]
    size = (folder / "out" / "model-best" / "crf_ner" / "model").stat().st_size
    assert size == pytest.approx(best["n_bytes"], abs=40)
    assert results[3]["active"] < results[1]["active"]
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
    assert shown == sorted((round(100 * entry["score"], 2) for entry in results_of(folder / "out")), reverse=True)
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


def test_started_again_it_goes_on(swept: tuple[Path, Any], run: Run, corpus: Any, tmp_path: Path) -> None:
    folder, _ = swept
    out = tmp_path / "out"
    out.mkdir()
    before = (folder / "out" / "sweep.jsonl").read_text()
    (out / "sweep.jsonl").write_text(before)
    elsewhere = tmp_path / "copied.conll"  # the contents count, not the name
    elsewhere.write_bytes(corpus.train.read_bytes())
    arguments = ("--output", out, "--paths.train", elsewhere, "--paths.dev", corpus.dev)
    result = worked(
        run("sweep", folder / "s.cfg", *arguments),
        "is not the best model that sweep.jsonl lists: training that one again",
        "1 to train, 7 done before",
    )
    assert (out / "model-best").is_dir()
    again = worked(run("sweep", folder / "s.cfg", *arguments), "0 to train, 8 done before")
    assert "Encoded" not in again.stdout
    assert table_of(again) == table_of(result)
    elsewhere.write_text(elsewhere.read_text() + "Bo NNP B-NP B-PER\n\n")
    worked(run("sweep", folder / "s.cfg", *arguments, "--sample 1"), "1 to train, 0 done before")


def test_other_settings_encode_anew(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'corpora.train.limit = [40, 80]\nfeatures = ["Entities", "S1"]\nloss = ["SequentialLog", "PointwiseLog"]'
    result = worked(sweep_on(grid, "--patience", "1"))
    assert result.stdout.count("Encoded 40 documents") == 2
    assert result.stdout.count("Encoded 80 documents") == 2
    results = results_of(tmp_path / "out")
    assert len(results) == 8
    weights = {json.dumps(entry["settings"]): entry["weights"] for entry in results}
    assert len(set(weights.values())) == 4
    order = list(product([40, 80], ["Entities", "S1"], ["SequentialLog", "PointwiseLog"]))
    ranks = {id(entry): -order.index(tuple(entry["settings"].values())) for entry in results}
    best = max(results, key=lambda entry: (entry["score"], ranks[id(entry)]))  # equal scores: the first in the grid
    config = spacy.load(tmp_path / "out" / "model-best").config
    assert config["corpora"]["train"]["limit"] == best["settings"]["corpora.train.limit"]
    assert best["settings"]["features"] in config["components"]["crf_ner"]["features"]["@crf_features"]
    assert best["settings"]["loss"] in config["components"]["crf_ner"]["loss"]["@crf_losses"]


def test_settings_that_leave_the_corpus_alone(
    sweep_on: Run, run: Run, configure: Any, paths: list[str], tmp_path: Path
) -> None:
    grid = 'support = ["all", "observed"]\nmin_count = [1, 2]\ntraining.seed = [0, 3]'
    result = worked(sweep_on(grid, "--patience 1 --jobs 1"))
    assert result.stdout.count("Encoded") == 1
    results = results_of(tmp_path / "out")
    assert len({entry["weights"] for entry in results}) == 4
    assert len({entry["objective"] for entry in results}) == 8
    for entry in (results[0], results[-1]):
        settings = entry["settings"]
        arguments = [f"--components.crf_ner.{key} {settings[key]}" for key in ("support", "min_count")]
        seed = f"--training.seed {settings['training.seed']}"
        worked(
            run(
                "fit",
                tmp_path / "c.cfg",
                "--output",
                tmp_path / "fit",
                *paths,
                "--patience 1 --force",
                seed,
                *arguments,
            )
        )
        log = [json.loads(line) for line in (tmp_path / "fit" / "log.jsonl").read_text().splitlines()]
        assert [line["objective"] for line in log if line["best"]][-1] == entry["objective"]
        assert len(log) == entry["iterations"]
    best = max(results, key=lambda entry: entry["score"])
    nlp: Any = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.config["training"]["seed"] == best["settings"]["training.seed"]
    assert nlp.config["components"]["crf_ner"]["support"] == best["settings"]["support"]
    assert nlp.get_pipe("crf_ner").doc_model.n_active == best["active"]


def test_two_at_once_find_the_same(swept: tuple[Path, Any], run: Run, paths: list[str], tmp_path: Path) -> None:
    def facts(folder: Path) -> list[dict[str, Any]]:
        return sorted(({**entry, "seconds": 0} for entry in results_of(folder)), key=lambda entry: entry["key"])

    worked(run("sweep", swept[0] / "s.cfg", "--output", tmp_path, *paths, "--jobs 2"))
    assert facts(tmp_path) == facts(swept[0] / "out")
    first, second = (spacy.load(folder / "model-best").get_pipe("crf_ner") for folder in (tmp_path, swept[0] / "out"))
    assert (first.crf.theta == second.crf.theta).all()  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-best", "sweep.html", "sweep.jsonl"]


def test_a_sample(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'regularizer = ["L2", "L1"]\nregularizer.rho = [0.1, 0.3, 1, 3, 10]\noptimizer.max_iterations = [1, 2]'
    worked(sweep_on(grid, "--sample 2", "--seed 5"), "2 to train, 0 done before")
    few = [entry["key"] for entry in results_of(tmp_path / "out")]
    worked(sweep_on(grid, "--sample 3", "--seed 5"), "1 to train, 2 done before")
    assert [entry["key"] for entry in results_of(tmp_path / "out")][:2] == few
    worked(sweep_on(grid, "--sample 2", "--seed 6"))
    assert len(results_of(tmp_path / "out")) > 3


def test_a_sample_that_learns_from_the_scores(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'regularizer = ["L2", "L1", "NoRegularizer"]\nregularizer.rho = [0.1, 1, 10]\nmin_count = [1, 1000000]'
    arguments = "--sampler tpe --sample 4 --jobs 1 --patience 1"
    worked(sweep_on(grid, arguments))
    keys = [entry["key"] for entry in results_of(tmp_path / "out")]
    assert len(set(keys)) == 4
    (tmp_path / "out" / "sweep.jsonl").unlink()
    worked(sweep_on(grid, arguments, "--force"))
    assert [entry["key"] for entry in results_of(tmp_path / "out")] == keys
    assert "Encoded" not in worked(sweep_on(grid, arguments)).stdout
    assert len(results_of(tmp_path / "out")) == 4
    refused(sweep_on(grid, "--sampler best"), "--sampler best: unknown")


def test_without_optuna(sweep_on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused(sweep_on("min_count = [1]"), "Install it: pip install 'spacy-crfseq[sweep]'")


def test_what_matters() -> None:
    def score(a: int, b: int) -> float:
        return 0.5 + 0.1 * a + 0.01 * b

    results = [Result(f"{a}{b}", {"a": a, "b": b, "c": 0}, score=score(a, b)) for a in range(3) for b in range(3)]
    _, rows = importance_rows([*results, Result("x", {"a": 0, "b": 9}, error="failed")])
    assert [row[0] for row in rows] == ["a", "b"]
    assert rows[0][1:] == ["99 %", "2", "71.00", "0", "51.00"]
    assert importance_rows(results[:1])[1] == []
    assert importance_rows([result._replace(score=0.5) for result in results])[1] == []
    lacking = [Result(str(i), {"a": 1, **({"b": i} if i else {})}, score=i / 10) for i in range(3)]
    assert importance_rows(lacking)[1] == [["b", "100 %", "2", "20.00", "-", "0.00"]]


def test_losses_that_read_texts(sweep_on: Run, tmp_path: Path) -> None:
    grid = 'loss = ["SequentialLog", "test.Lengths.v1"]\nregularizer.rho = [1, 2]'
    result = worked(sweep_on(grid, "--patience", "1"))
    assert result.stdout.count("Encoded") == 2  # the second loss is bound to labels, and reads the texts
    assert [entry["error"] for entry in results_of(tmp_path / "out")] == [None] * 4


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
    assert max(entry["score"] for entry in results_of(tmp_path / "out")) > 0.9
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
    failed = [entry for entry in results if entry["error"]]
    assert [entry["error"] for entry in failed if entry["settings"]["min_count"] == 1] == [
        "RuntimeError: the sky is falling"
    ]
    assert sum(entry["score"] is not None for entry in results) >= 1
    assert "failed" in result.stdout
    assert "the sky is falling" in (tmp_path / "out" / "sweep.html").read_text()
    again = sweep_on(grid, "--code", code)  # failures are tried again
    assert f"{len(failed)} to train, {4 - len(failed)} done before" in again.stdout


def test_ctrl_c_keeps_what_is_there(sweep_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid, train, calls = "regularizer.rho = [1, 2, 3]", Bench.train, list[str]()

    def interrupted(bench: Bench, run: Any, parent: int) -> Result:
        calls.append(run.key)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(bench, run, parent)

    with monkeypatch.context() as patch:
        patch.setattr(Bench, "train", interrupted)
        result = sweep_on(grid, "--jobs 1 --patience 1")
    assert result.exit_code == 130, result.stderr
    assert "Interrupted: run the same command again to continue" in result.stdout
    out = tmp_path / "out"
    assert (out / "sweep.html").is_file()
    assert spacy.load(out / "model-best")("Ada sees a dog in Oslo .").ents
    (line,) = (out / "sweep.jsonl").read_text().splitlines()
    with (out / "sweep.jsonl").open("a") as file:
        file.write('{"key": "cut sh')  # what a crash in the middle of a line leaves
    worked(sweep_on(grid, "--jobs 1 --patience 1"), "2 to train, 1 done before")
    assert (out / "sweep.jsonl").read_text().splitlines()[0] == line
    assert len(results_of(out)) == 3


def test_a_file_that_is_no_result(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    configure(tmp_path / "c.cfg", "crf_ner")
    grid = write_grid(tmp_path / "s.cfg", "regularizer.rho = [1]\n")
    (tmp_path / "sweep.jsonl").write_text('{"key": 1}\n{"some": "thing"}\n')
    refused(run("sweep", grid, "--output", tmp_path, *paths), "sweep.jsonl:1: this is no result of a sweep")
    (tmp_path / "sweep.jsonl").unlink()
    refused(run("sweep", grid, "--output", grid, *paths), "s.cfg is a file")


@pytest.mark.parametrize(("grid", "parts"), [
    ("regularizer.roh = [1]", ("s.cfg: [sweep.grid] regularizer.roh", "Did you mean 'rho'?")),
    ("regularizr = [1]", ("regularizr: [components.crf_ner] has no setting", "Did you mean 'regularizer'?")),
    ("components.crf_nr.min_count = [1]", ("there is no section [components.crf_nr]",)),
    ("regularizr.rho = [1]", ("regularizr.rho: there is no section [components.crf_ner.regularizr]",)),
    ("training.sed = [1]", ("[training] has no setting 'sed'", "Did you mean 'seed'?")),
    ('optimizer = ["LBFSG"]', ("optimizer: there is no function 'LBFSG'", "Did you mean 'LBFGS'?")),
    ('features = ["Entities.v2", "Entites.v2"]', ("no function 'Entites.v2'", "Chunking, Entities, Gazetteer")),
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
    worked(run("sweep", file, *arguments))
    assert len(results_of(tmp_path / "out")) == 2
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
    assert show({"@crf_losses": "spacy_crfseq.Hinge.v1", "cost": 2.0}) == "Hinge(cost=2.0)"
    assert str(Combination({}, {})) == "the config as it is"


def test_combinations_keep_what_the_config_says_of_its_own_function(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "s.cfg", 'optimizer = ["AdaGrad", "SGD"]\n', config="b.cfg")
    (tmp_path / "b.cfg").write_text('[nlp]\nlang = "xx"\n')
    block = {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1", "rate": 0.25}
    filled = {"components": {"x": {"optimizer": block}}}
    found = Space(read_grid(path, {}, load_config), filled, "x").all()
    place = ("components", "x", "optimizer")
    assert [one.changes[place] for one in found] == [block, {"@crf_optimizers": "spacy_crfseq.SGD.v1"}]


def test_a_cut_line_is_dropped_for_good(tmp_path: Path) -> None:
    table = tmp_path / "r.jsonl"
    first, second = (Result(key, {"a": 1}, score=0.5) for key in "xy")
    add_result(table, first)
    with table.open("a") as file:
        file.write('{"key": "z"')
    assert read_results(table) == {"x": first}
    add_result(table, second)
    assert read_results(table) == {"x": first, "y": second}


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


def test_how_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, number in ((1, 1), (16, 2)):
        monkeypatch.setattr("spacy_crfseq.tools.sweep.jobs.available", lambda cores=cores: cores)
        assert at_once(0) == number
    assert at_once(5) == 5
