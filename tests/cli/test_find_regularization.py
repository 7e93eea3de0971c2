"""``crfseq find-regularization``: what it shows, chooses, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq.pipeline.readers import read_examples

Run = Callable[..., Any]
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
    result = run(FIND, config, "--output", folder / "out", *paths, *SHORT, "--within", "3", "--rho2", "0.1")
    assert result.exit_code == 0, result.stderr
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


def test_a_picture_of_the_path(followed: tuple[Path, Any]) -> None:
    folder, _ = followed
    page = (folder / "path.html").read_text()
    chosen = next(step for step in table_of(folder) if step["chosen"])
    assert page.count("<svg") == 1
    assert page.count("<title>chosen ") == 2
    assert f"rho1 = {chosen['rho1']:.4g} is chosen" in page
    assert page.count("<tr>") == 6


def test_the_stored_config_tells_how_the_model_was_trained(
    followed: tuple[Path, Any], run: Run, paths: list[str], tmp_path: Path
) -> None:
    folder, result = followed
    chosen = next(step for step in table_of(folder) if step["chosen"])
    block = spacy.load(folder / "model-best").config["components"]["crf_ner"]
    assert "AdaGrad cannot follow a path: OWLQN takes its place" in result.stdout
    assert block["optimizer"]["@crf_optimizers"] == "spacy_crfseq.OWLQN.v1"
    assert block["regularizer"] == {
        "@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": pytest.approx(chosen["rho1"]), "rho2": 0.1
    }  # fmt: skip
    again = run("fit", folder / "model-best" / "config.cfg", "--output", tmp_path, *paths)
    assert again.exit_code == 0, again.stderr
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert last["objective"] == pytest.approx(chosen["objective"], rel=1e-3)


def test_piped_output_is_a_line_a_model(followed: tuple[Path, Any]) -> None:
    folder, result = followed
    assert not any(ord(char) < 32 and char != "\n" for char in result.stdout)
    lines = [line for line in result.stdout.splitlines() if line.startswith("rho1=")]
    assert len(lines) == 5
    assert lines[0].startswith("rho1=16 objective=")
    assert f"Saved {folder / 'model-best'}" in result.stdout
    assert "Chosen: rho1 = " in result.stdout
    assert "iteration" not in result.stderr


def test_the_optimizer_of_the_config_is_used_where_it_can(
    run: Run, configure: Any, paths: list[str], tmp_path: Path
) -> None:
    block = '[components.crf_ner.optimizer]\n@crf_optimizers = "spacy_crfseq.FISTA.v1"\nmax_iterations = 3\n'
    config = configure(tmp_path / "c.cfg", "crf_ner", components=block)
    result = run(FIND, config, "--output", tmp_path / "out", *paths, "--steps", "2", "--to", "30")
    assert result.exit_code == 0, result.stderr
    assert "OWLQN" not in result.stdout
    table = table_of(tmp_path / "out")
    assert [step["iterations"] for step in table] == [1, 3]
    assert table[0]["unigrams"] + table[0]["pairs"] == 0


def test_one_component_of_several(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_ner", components=CAPPED.format("crf_ner"))
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *QUICK)
    refused(result, "more than one CRF component", "--component crf_tagger or crf_ner")
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *QUICK, "--component", "ner")
    refused(result, "--component ner: no such CRF component", "crf_ner")
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *QUICK, "--component", "crf_ner")
    assert result.exit_code == 0, result.stderr
    assert "Not trained, all weights zero: crf_tagger" in result.stdout
    nlp: Any = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.get_pipe("crf_ner").crf.theta.any()
    assert not nlp.get_pipe("crf_tagger").crf.theta.any()


def test_features_that_an_untrained_component_would_write(
    run: Run, configure: Any, paths: list[str], trained: Path, tmp_path: Path
) -> None:
    annotating = 'annotating_components = ["crf_tagger"]'
    block = CAPPED.format("crf_chunker")
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_chunker", components=block, training=annotating)
    arguments = ("--output", tmp_path / "out", *paths, *QUICK, "--component", "crf_chunker")
    refused(run(FIND, config, *arguments), "crf_chunker reads TAG, but crf_tagger", "source = FOLDER")
    text = config.read_text().replace('factory = "crf_tagger"', f'source = "{trained / "model-best"}"')
    config.write_text(text)
    result = run(FIND, config, *arguments)
    assert result.exit_code == 0, result.stderr
    assert table_of(tmp_path / "out")[-1]["score"] > 0.9


def refused(result: Any, *parts: str) -> None:
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.stderr
    assert "Encoded" not in result.stdout  # said before a large corpus is read
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "1", "--to", "2"], "larger strength down to a smaller one"),
        (["--to", "0"], "--to must be above 0"),
        (["--rho2", "-1"], "--rho2 and --within 0 or more"),
        (["--within", "-1"], "--within 0 or more"),
    ],
)
def test_settings_out_of_range(
    arguments: list[str], message: str, run: Run, configure: Any, paths: list[str], tmp_path: Path
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    refused(run(FIND, config, "--output", tmp_path / "out", *paths, *arguments), message)
    assert not (tmp_path / "out").exists()


def test_a_loss_that_no_optimizer_of_a_path_can_minimise(
    run: Run, configure: Any, paths: list[str], tmp_path: Path
) -> None:
    block = '[components.crf_ner.loss]\n@crf_losses = "spacy_crfseq.Hinge.v1"\n'
    config = configure(tmp_path / "c.cfg", "crf_ner", components=block)
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *SHORT)
    refused(result, "OWLQN cannot minimise the loss Hinge", "OWLQN with spacy_crfseq.SequentialLog.v1")
    assert not (tmp_path / "out").exists()


def test_it_needs_a_dev_corpus_and_a_config(run: Run, configure: Any, corpus: Any, tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    refused(run(FIND, config, "--output", tmp_path / "out", "--paths.train", corpus.train), "--paths.dev")
    for strength in ("inf", "nan", "-1"):
        refused(run(FIND, config, "--output", tmp_path / "out", "--to", strength), "--to")
    refused(run(FIND, tmp_path / "no.cfg", "--output", tmp_path / "out"), "no.cfg: no such config file")
    refused(run(FIND, config, "--output", config, "--paths.train", corpus.train), "c.cfg is a file")


def test_ctrl_c_keeps_the_choice_so_far(
    run: Run, configure: Any, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spacy_crfseq.cli.find_regularization import PathReporter

    show = PathReporter.show

    def stop(reporter: PathReporter, steps: Any) -> None:
        show(reporter, steps)
        if len(steps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(PathReporter, "show", stop)
    config = configure(tmp_path / "c.cfg", "crf_ner", components=CAPPED.format("crf_ner"))
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *QUICK)
    assert result.exit_code == 130
    assert "Interrupted: the choice among the models so far is saved" in result.stdout
    assert len(table_of(tmp_path / "out")) == 3
    assert spacy.load(tmp_path / "out" / "model-best").get_pipe("crf_ner").crf.theta.any()  # type: ignore[attr-defined]


def test_ctrl_c_before_the_first_model(
    run: Run, configure: Any, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spacy_crfseq.cli.find_regularization import PathReporter

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PathReporter, "watch", stop)
    config = configure(tmp_path / "c.cfg", "crf_ner", components=CAPPED.format("crf_ner"))
    result = run(FIND, config, "--output", tmp_path / "out", *paths, *QUICK)
    assert result.exit_code == 130
    assert "nothing is saved" in result.stdout
    assert not (tmp_path / "out" / "model-best").exists()
