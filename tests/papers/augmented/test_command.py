"""``crfseq fine-tune``: what it trains, shows, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq.features.encoder import Encoded, Ids
from spacy_crfseq.features.index import BagStore
from spacy_crfseq.papers.augmented.command import TuningReporter
from spacy_crfseq.papers.augmented.training import SetReport, Settings, TuningSet, gold_set
from spacy_crfseq.pipeline.readers import read_examples
from spacy_crfseq.training.dataset import Dataset
from spacy_crfseq.training.fit import Progress
from spacy_crfseq.types import StepReport
from tests.commands import Run, refused, worked

BUNDLED = Path(__file__).parents[3] / "assets" / "corpus"
ENTITIES = """
[components.crf_ner.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["LOWER[-1..1]", "SHAPE[0]", "TAG[-1..1]"]
"""
HAMMING = '@crf_costs = "spacy_crfseq.Hamming.v1"'
F1 = '@crf_costs = "spacy_crfseq.F1.v1"'
AGREEMENT = '@crf_costs = "spacy_crfseq.EntityAgreement.v1"\ncomponent = "crf_ner"\nf1 = true'
KEYS = {"round", "seconds", "sets", "score", "best"}


def corpus_block(name: str, path: Path, loss: str = "", **settings: Any) -> str:
    """Return the block of a corpus, such as "sets.gold" or "dev"."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    reader = f'@readers = "spacy_crfseq.ConllReader.v1"\npath = "{path}"\ncolumns = ["word", "tag", "chunk", "ent"]\n'
    text = f"\n[fine_tune.{name}]\n\n[fine_tune.{name}.corpus]\n{reader}{lines}"
    return text + (f"\n[fine_tune.{name}.loss]\n{loss}\n" if loss else "")


def write_config(path: Path, component: str, *blocks: str, **settings: Any) -> Path:
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    text = f'[fine_tune]\ncomponent = "{component}"\n{lines}\n[fine_tune.sets]\n{"".join(blocks)}'
    path.write_text(text, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def model(run: Run, configure: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline trained on a part of the bundled corpus; the chunker and the recognizer read the tagger's tags."""
    folder = tmp_path_factory.mktemp("fine_tune")
    names, training = ("crf_tagger", "crf_chunker", "crf_ner"), 'annotating_components = ["crf_tagger"]'
    config = configure(folder / "c.cfg", *names, components=ENTITIES, training=training)
    paths = ("--paths.train", BUNDLED / "train.conll", "--corpora.train.limit 120")
    worked(run("fit", config, "--output", folder / "out", *paths))
    return folder / "out" / "model-last"


@pytest.fixture
def tune(run: Run, model: Path, tmp_path: Path) -> Run:
    """Run ``fine-tune`` on a config of these blocks and settings, for tmp_path / "out"."""

    def call(component: str, *blocks: str, args: Sequence[object] = (), **settings: Any) -> Any:
        config = write_config(tmp_path / "a.cfg", component, *blocks, **settings)
        return run("fine-tune", model, config, "--force --output", tmp_path / "out", *args)

    return call


def theta_of(path: Path) -> Any:
    return spacy.load(path).get_pipe("crf_tagger").crf.theta  # type: ignore[attr-defined]


def blocks(loss: str = HAMMING, **settings: Any) -> tuple[str, str, str]:
    """Return what the model was trained on, more text with a loss, and a dev corpus."""
    train, dev = BUNDLED / "train.conll", BUNDLED / "dev.conll"
    return (
        corpus_block("sets.gold", train, limit=120, **settings),
        corpus_block("sets.more", train, loss, **settings),
        corpus_block("dev", dev, **settings),
    )


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def score(model: Path, key: str, **settings: Any) -> float:
    nlp = spacy.load(model)
    return float(nlp.evaluate(list(read_examples(nlp, BUNDLED / "dev.conll", "conll2003", **settings)))[key])


@pytest.fixture(scope="module")
def tuned(run: Run, model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("tuned")
    config = write_config(folder / "a.cfg", "crf_tagger", *blocks(), rounds=4, k=5, rate=0.3)
    result = worked(run("fine-tune", model, config, "--output", folder / "out"))
    return folder / "out", result


def test_it_writes_two_models_and_a_log(tuned: tuple[Path, Any], model: Path) -> None:
    folder, _ = tuned
    assert sorted(path.name for path in folder.iterdir()) == ["log.jsonl", "model-best", "model-last"]
    log = log_of(folder)
    assert [entry["round"] for entry in log] == [0, 1, 2, 3, 4]
    assert all(set(entry) == KEYS for entry in log)
    assert log[0]["sets"] == []
    assert log[0]["score"] == pytest.approx(score(model, "tag_acc"))
    assert [part["name"] for part in log[1]["sets"]] == ["gold", "more"]
    assert {part["examples"] for entry in log[1:] for part in entry["sets"]} == {log[1]["sets"][0]["examples"]}
    costs = [entry["sets"][1]["cost"] for entry in log[1:]]
    assert costs[-1] < 0.75 * costs[0]
    best = max(entry["score"] for entry in log)
    assert best > log[0]["score"]
    assert score(folder / "model-best", "tag_acc") == pytest.approx(best)
    assert score(folder / "model-last", "tag_acc") == pytest.approx(log[-1]["score"])
    assert spacy.load(folder / "model-best").meta["performance"]["tag_acc"] == pytest.approx(best)
    before, after = (dict(spacy.load(path).pipeline) for path in (model, tuned[0] / "model-best"))
    for name in ("crf_chunker", "crf_ner"):
        np.testing.assert_array_equal(after[name].crf.theta, before[name].crf.theta)  # type: ignore[attr-defined]
    assert (after["crf_tagger"].crf.theta != before["crf_tagger"].crf.theta).any()  # type: ignore[attr-defined]


def test_piped_output_is_a_line_a_round(tuned: tuple[Path, Any]) -> None:
    folder, result = tuned
    assert not any(ord(char) < 32 and char != "\n" for char in result.stdout)
    lines = [line for line in result.stdout.splitlines() if line.startswith("round=")]
    assert lines[0].startswith("round=0 score=")
    assert lines[1].startswith("round=1 gold=")
    assert " more=" in lines[1]
    assert lines[1].endswith(" *")
    assert "gold: 120 examples with gold labels" in result.stdout
    assert "examples with a cost" in result.stdout
    assert "Ended: 4 rounds were run" in result.stdout
    assert f"Saved {folder / 'model-best'}" in result.stdout
    assert result.stderr == ""


def test_seeds_reproduce_and_overrides_are_heard(
    tuned: tuple[Path, Any], run: Run, model: Path, tmp_path: Path
) -> None:
    config = tuned[0].parent / "a.cfg"
    for seed in (0, 1):
        arguments = (f"--fine_tune.seed {seed} --fine_tune.rounds 1 --fine_tune.turns 20 --fine_tune.schedule", MORE)
        worked(run("fine-tune", model, config, "--output", tmp_path / str(seed), *arguments))
    worked(run("fine-tune", model, config, "--output", tmp_path / "again", *arguments))
    first, second, third = (theta_of(tmp_path / name / "model-last") for name in ("0", "1", "again"))
    np.testing.assert_array_equal(second, third)
    assert (first != second).any()
    parts = log_of(tmp_path / "0")[1]["sets"]
    assert parts[1]["examples"] == 2 * parts[0]["examples"]


def test_a_recognizer_learns_whole_documents_by_their_f1(tune: Run, tmp_path: Path) -> None:
    given = {"given": ["tag"], "unit": "document"}
    sets = corpus_block("sets.documents", BUNDLED / "train.conll", F1, **given)
    dev = corpus_block("dev", BUNDLED / "dev.conll", F1, **given)
    result = worked(tune("crf_ner", sets, dev, rounds=5, k=40), "documents: 54 examples with a cost")
    log = log_of(tmp_path / "out")
    assert log[-1]["sets"][0]["cost"] < log[1]["sets"][0]["cost"]
    assert all(-1 <= entry["score"] <= 0 for entry in log)  # minus the mean cost
    assert max(entry["score"] for entry in log) > log[0]["score"]
    assert "No round did better" not in result.stdout


def test_a_tagger_learns_from_the_recognizer_that_reads_its_tags(tune: Run, tmp_path: Path) -> None:
    gold, more, _ = blocks(AGREEMENT)
    dev = corpus_block("dev", BUNDLED / "dev.conll", AGREEMENT, limit=40)
    worked(tune("crf_tagger", gold, more, dev, rounds=2, turns=150, k=4))
    log = log_of(tmp_path / "out")
    assert log[1]["sets"][1]["steps"] > 0
    assert log[0]["score"] < 0


def test_without_a_dev_corpus_the_last_is_the_best(tune: Run, tmp_path: Path) -> None:
    worked(tune("crf_tagger", *blocks()[:2], rounds=1, turns=50))
    best, last = (theta_of(tmp_path / "out" / name) for name in ("model-best", "model-last"))
    np.testing.assert_array_equal(best, last)
    assert [entry["round"] for entry in log_of(tmp_path / "out")] == [1]


def test_columns_that_the_component_reads(tune: Run, tmp_path: Path) -> None:
    sets = corpus_block("sets.gold", BUNDLED / "train.conll", limit=30)
    result = tune("crf_chunker", sets, rounds=1)
    assert "crf_chunker reads TAG, which no document of gold has" in " ".join(result.stdout.split())
    first = log_of(tmp_path / "out")[0]["sets"][0]["cost"]
    result = worked(tune("crf_chunker", sets, args=["--fine_tune.annotating_components", '["crf_tagger"]'], rounds=1))
    assert "reads TAG" not in result.stdout
    assert log_of(tmp_path / "out")[0]["sets"][0]["cost"] < first


def test_where_nothing_is_better_the_model_stays(tune: Run, model: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.conll"
    wrong.write_text("".join(f"{word} UH O O\n\n" for word in ("the", "of", "a", "in", ".", "and") * 5))
    _, _, dev = blocks()
    worked(tune("crf_tagger", corpus_block("sets.wrong", wrong), dev, rounds=1, rate=9), "No round did better")
    out = tmp_path / "out"
    before, best, last = map(theta_of, (model, out / "model-best", out / "model-last"))
    np.testing.assert_array_equal(best, before)
    assert (last != before).any()


def test_ctrl_c_keeps_the_best_so_far(tune: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = TuningReporter.__call__

    def stop(reporter: TuningReporter, progress: Any, reports: Any) -> None:
        call(reporter, progress, reports)
        if progress.iteration == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TuningReporter, "__call__", stop)
    result = tune("crf_tagger", *blocks(), rounds=50, turns=100)
    assert result.exit_code == 130
    assert "Interrupted: the best parameters so far are saved" in result.stdout
    best = max(entry["score"] for entry in log_of(tmp_path / "out"))
    assert score(tmp_path / "out" / "model-best", "tag_acc") == pytest.approx(best)


def test_ctrl_c_in_the_first_round(tune: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: TuningReporter) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TuningReporter, "watch", stop)
    result = tune("crf_tagger", *blocks())
    assert result.exit_code == 130
    assert "nothing is saved" in result.stdout
    assert not (tmp_path / "out" / "model-best").exists()


LOSS = "fine_tune.sets.more.loss"
WRONG: list[tuple[str, list[str], list[str]]] = [
    ("crf_tager", [], ["no CRF component 'crf_tager'", "Did you mean 'crf_tagger'"]),
    ("crf_tagger", ["--fine_tune.kk", "3"], ["[fine_tune] kk: no such setting", "Did you mean 'k'"]),
    ("crf_tagger", ["--fine_tune.k", "1"], ["k = 1 must be at least 2"]),
    ("crf_tagger", ["--fine_tune.k", "2.5"], ["[fine_tune] k = 2.5 must be a whole number"]),
    ("crf_tagger", ["--fine_tune.rate", "fast"], ["[fine_tune] rate = 'fast' must be a number"]),
    ("crf_tagger", ["--fine_tune.patience", "-1"], ["patience must be 0"]),
    ("crf_tagger", ["--fine_tune.schedule", '{"les": 2}'], ["no data set 'les'"]),
    ("crf_tagger", ["--fine_tune.schedule", "[1, 3]"], ["[fine_tune.schedule] must be a block"]),
    ("crf_tagger", ["--fine_tune.schedule", '{"more": 0}'], ["more = 0 must be at least 1"]),
    ("crf_tagger", ["--fine_tune.sets", "{}"], ["[fine_tune] has no data set"]),
    ("crf_tagger", ["--fine_tune.sets.more.los", "1"], ["[fine_tune.sets.more] los: no such setting", "'loss'"]),
    ("crf_tagger", ["--fine_tune.sets.more.corpus", "{}"], ["[fine_tune.sets.more.corpus] must name a reader"]),
    ("crf_tagger", [f"--{LOSS}", "{}"], ["must name a cost of crf_costs"]),
    ("crf_tagger", ["--fine_tune.annotating_components", '["crf_tagger"]'], ["no component 'crf_tagger' beside"]),
    ("crf_tagger", [f"--{LOSS}.labels", '["NNX"]'], ["'NNX' is no label of the component"]),
    ("crf_tagger", [f"--{LOSS}.labels", '["UH"]', "--fine_tune.sets.more.corpus.limit", "1"], ["holds no evidence"]),
    ("crf_ner", [f"--{LOSS}.labels", '["NN"]'], ["'NN' is no label of the component", "B-PER"]),
    ("crf_tagger", [f"--{LOSS}", '{"@crf_costs": "spacy_crfseq.F1.v1"}'], ["a tagger predicts no spans"]),
    (
        "crf_tagger",
        [f"--{LOSS}", '{"@crf_costs": "spacy_crfseq.EntityAgreement.v1", "component": "ner"}'],
        ["no component 'ner' beside", "Did you mean 'crf_ner'"],
    ),
    ("crf_tagger", [f"--{LOSS}", '{"@crf_costs": "spacy_crfseq.Haming.v1"}'], ["Haming.v1"]),
    ("crf_tagger", ["--fine_tune.sets.more.corpus.path", "no.conll"], ["no.conll"]),
]


@pytest.mark.parametrize(("component", "arguments", "messages"), WRONG, ids=lambda value: " ".join(value))
def test_configs_that_cannot_work(
    component: str, arguments: list[str], messages: list[str], tune: Run, tmp_path: Path
) -> None:
    refused(tune(component, *blocks(), args=arguments), *messages, silent=False)
    assert not (tmp_path / "out" / "model-best").exists()


def test_files_that_are_not_there(run: Run, model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "a.cfg", "crf_tagger", *blocks())
    refused(run("fine-tune", model, tmp_path / "no.cfg", "--output", tmp_path / "out"), "no.cfg: no such config file")
    refused(run("fine-tune", model, config, "--output", config), "a.cfg is a file")
    refused(run("fine-tune", tmp_path / "no-model", config, "--output", tmp_path / "out"), "no-model")
    (tmp_path / "empty.cfg").write_text("[paths]\n")
    refused(run("fine-tune", model, tmp_path / "empty.cfg", "--output", tmp_path / "out"), "no block [fine_tune]")


def test_a_model_normalised_at_each_token(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    local = (
        '[components.crf_tagger.loss]\n@crf_losses = "spacy_crfseq.LocalLog.v1"\n'
        '[components.crf_tagger.decoder]\n@crf_decoders = "spacy_crfseq.LocalViterbi.v1"\n'
    )
    fitted = configure(tmp_path / "c.cfg", "crf_tagger", components=local)
    result = worked(run("fit", fitted, "--output", tmp_path / "local", *paths))
    config = write_config(tmp_path / "a.cfg", "crf_tagger", *blocks())
    result = run("fine-tune", tmp_path / "local" / "model-last", config, "--output", tmp_path / "out")
    refused(result, "fine-tuning", "normalised at each token", silent=False)


@pytest.mark.parametrize("blind", [False, True])
def test_the_example_config_is_valid(run: Run, tmp_path: Path, model: Path, blind: bool) -> None:
    config = Path(__file__).parents[3] / "configs" / "fine_tune_questions.cfg"
    conllu = tmp_path / "q.conllu"
    question = "".join("{}\t{}\t_\t_\t{}\t_\t{}\t{}\t_\t_\n".format(*cells) for cells in QUESTION) + "\n"
    conllu.write_text(question + question.replace("root", "dep") * blind, encoding="utf8")
    paths = [f"--paths.{name}={conllu}" for name in ("train", "dev", "questions")]
    result = worked(run("fine-tune", model, config, "--output", tmp_path / "out", *paths))
    assert f"questions: 1 examples with a cost{', of 2 that were read' * blind}\n" in result.stdout
    no = [model, config, "--output", tmp_path / "no"]
    lacking = run("fine-tune", *no, *paths[:2])
    refused(lacking, "[fine_tune.sets.questions.corpus] has no path", "--paths.questions FILE", silent=False)
    loss = run("fine-tune", *no, *paths, "--fine_tune.sets.questions.loss.deep x")
    assert "fine_tune.sets.questions.loss -> deep" in loss.stderr


MORE = '{"more": 2}'
QUESTION = [
    (1, "Where", "WRB", 4, "advmod"),
    (2, "did", "VBD", 4, "aux"),
    (3, "she", "PRP", 4, "nsubj"),
    (4, "go", "VB", 0, "root"),
    (5, "?", ".", 4, "punct"),
]


def test_a_terminal_shows_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    data, costs = Dataset(ENCODED, np.zeros(2, np.int32), np.ones(2)), [lambda labels: 0.0] * 2
    sets = [gold_set("gold", data), TuningSet("a long name", data, costs)]
    reporter = TuningReporter(tmp_path / "log.jsonl", Settings(), {"gold": 2, "a long name": 2})
    reporter.begin(sets, 0.5)
    report = StepReport(1.0, 1.0, float("nan"), 1, False, "")
    reports = [SetReport("gold", 2, 1, 0.25), SetReport("a long name", 2, 1, 0.75)]
    reporter(Progress(1, 2.0, report, 0.625, True), reports)
    reporter.close()
    header, rule, first, second = capsys.readouterr().out.splitlines()[-4:]
    assert header.split() == ["#", "gold", "a", "long", "name", "Dev", "score", "Seconds"]
    assert set(rule) == {"-", " "}
    assert first.split() == ["0", "-", "-", "50.00", "0.00"]
    assert second.split() == ["1", "0.2500", "0.7500", "62.50", "2.00", "*"]
    assert len(header.rstrip()) == len(second.rstrip(" *"))


NO_IDS = Ids(np.zeros((2, 0), np.int32), np.zeros((2, 0), np.int32), BagStore())
ENCODED = Encoded(NO_IDS, NO_IDS, np.arange(3), None)
"""Two sequences of one token without features."""
