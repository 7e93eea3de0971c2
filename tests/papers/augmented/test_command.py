"""``crfseq fine-tune``: what it trains, shows, writes and refuses."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq.papers.augmented.command import TuningReporter
from spacy_crfseq.pipeline.readers import read_examples
from tests.commands import Run, refused, worked

BUNDLED = Path(__file__).parents[3] / "assets" / "corpus"
ENTITIES = """
[components.crf_ner.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["LOWER[-1..1]", "SHAPE[0]", "TAG[-1..1]"]
"""
HAMMING = '@crf_costs = "spacy_crfseq.Hamming.v1"'
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


def test_without_a_dev_corpus_the_last_is_the_best(tune: Run, tmp_path: Path) -> None:
    worked(tune("crf_tagger", *blocks()[:2], rounds=1, turns=50))
    best, last = (theta_of(tmp_path / "out" / name) for name in ("model-best", "model-last"))
    np.testing.assert_array_equal(best, last)
    assert [entry["round"] for entry in log_of(tmp_path / "out")] == [1]


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


LOSS = "fine_tune.sets.more.loss"
WRONG: list[tuple[list[str], list[str]]] = [
    (["--fine_tune.component", "crf_tager"], ["no CRF component 'crf_tager'", "Did you mean 'crf_tagger'"]),
    (["--fine_tune.kk", "3"], ["[fine_tune] kk: no such setting", "Did you mean 'k'"]),
    (["--fine_tune.k", "2.5"], ["[fine_tune]: k must be a whole number"]),
    (["--fine_tune.patience", "-1"], ["patience must be 0"]),
    (["--fine_tune.schedule", "[1, 3]"], ["[fine_tune.schedule] must be a block"]),
    (["--fine_tune.sets", "{}"], ["[fine_tune] has no data set"]),
    (["--fine_tune.sets.more.los", "1"], ["[fine_tune.sets.more] los: no such setting", "'loss'"]),
    (["--fine_tune.sets.more.corpus", "{}"], ["[fine_tune.sets.more.corpus] must name a reader"]),
    ([f"--{LOSS}", "{}"], ["must name a cost of crf_costs"]),
    (["--fine_tune.annotating_components", '["crf_tagger"]'], ["no component 'crf_tagger' beside"]),
    ([f"--{LOSS}.labels", '["NNX"]'], ["'NNX' is no label of the component"]),
    (["--fine_tune.sets.more.corpus.path", "no.conll"], ["no.conll"]),
]


@pytest.mark.parametrize(("arguments", "messages"), WRONG, ids=lambda value: " ".join(value))
def test_configs_that_cannot_work(arguments: list[str], messages: list[str], tune: Run, tmp_path: Path) -> None:
    refused(tune("crf_tagger", *blocks(), args=arguments), *messages, silent=False)
    assert not (tmp_path / "out" / "model-best").exists()


def test_files_that_are_not_there(run: Run, model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "a.cfg", "crf_tagger", *blocks())
    refused(run("fine-tune", model, tmp_path / "no.cfg", "--output", tmp_path / "out"), "no.cfg: no such config file")
    refused(run("fine-tune", model, config, "--output", config), "a.cfg is a file")
    refused(run("fine-tune", tmp_path / "no-model", config, "--output", tmp_path / "out"), "no-model")
    (tmp_path / "empty.cfg").write_text("[paths]\n")
    refused(run("fine-tune", model, tmp_path / "empty.cfg", "--output", tmp_path / "out"), "no block [fine_tune]")


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


QUESTION = [
    (1, "Where", "WRB", 4, "advmod"),
    (2, "did", "VBD", 4, "aux"),
    (3, "she", "PRP", 4, "nsubj"),
    (4, "go", "VB", 0, "root"),
    (5, "?", ".", 4, "punct"),
]
