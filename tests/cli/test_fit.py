"""``crfseq fit``: what it trains, writes, says and refuses."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import typer
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_crfseq.cli.fit import fit
from spacy_crfseq.cli.options import OF_SPACY_TRAIN, read_overrides
from spacy_crfseq.corpora import CUSTOM, PRESETS, Preset
from spacy_crfseq.corpora.layouts import DOCS, Asked, trained_layout
from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.files import replace_folder
from spacy_crfseq.pipeline import teacher as teacher_module
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.pipeline.corpus import Corpus
from spacy_crfseq.pipeline.corpus_reader import CorpusReader, read_examples
from spacy_crfseq.pipeline.pipeline_training import CHECKPOINT, PipelineTraining, set_up_from
from spacy_crfseq.pipeline.select import load_pipeline
from spacy_crfseq.pipeline.training import Training
from spacy_crfseq.tools.debug_data import Report, debug_data
from spacy_crfseq.training.checkpoint import Checkpoint
from tests import forks
from tests.commands import CRFSEQ, Run, posix, refused, worked
from tests.terminal import run_on_terminal

KEYS = {"component", "iteration", "seconds", "objective", "loss", "grad_norm", "active", "score", "best"}


@pytest.fixture
def fit_on(train_on: Run) -> Run:
    return lambda *factories, args=("--patience", "1"), **given: train_on("fit", *factories, args=args, **given)


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_dev_corpus_that_is_in_the_training_corpus(train_on: Run, corpus: Any, tmp_path: Path) -> None:
    text = corpus.train.read_text()
    (tmp_path / "all.conll").write_text(text * 2 + "\n" + corpus.dev.read_text())
    said = " ".join(
        train_on("fit", "crf_ner", args=["--patience 1", "--paths.train", tmp_path / "all.conll"]).stdout.split()
    )
    assert "too good. Take them out of one, unless the parts are to stay as published. Probabilities are not" in said
    assert "are in train, too (100.0 %): scores may be too good." in said
    findings = texts_of(debug_data(tmp_path / "all.conll", corpus.dev, layout=Asked("conll2003")))
    assert any(text in said for text in findings if "are in train" in text), "the words of debug-data"
    assert "in train" not in train_on("fit", "crf_ner", args=["--patience 1 --force"]).stdout


@pytest.mark.parametrize(
    ("of_train", "same"),
    [
        ({}, True),
        ({"joined": 1.0}, True),
        ({"joined": 0.7, "unit": "document", "twice": True}, True),
        ({"path": "copy.spacy", "@readers": "spacy.Corpus.v1"}, True),
        ({"limit": 2}, False),  # which sentences these are is not known
    ],
)
def test_copies_in_a_training_corpus_of_another_form(
    of_train: dict[str, Any], same: bool, configure: Any, corpus: Any, tmp_path: Path
) -> None:
    config, said = load_config(configure(tmp_path / "c.cfg", "crf_ner"), {}), list[str]()
    config["paths"] = {"train": str(corpus.dev), "dev": str(corpus.dev)}
    if "path" in of_train:
        docs = [example.reference for example in read_examples(spacy.blank("en"), corpus.dev, "conll2003")]
        DocBin(docs=docs).to_disk(tmp_path / "copy.spacy")
        config["corpora"]["train"] = {**of_train, "path": str(tmp_path / "copy.spacy")}
    else:
        config["corpora"]["train"].update(of_train)
    training = set_up_from(config, lambda kind, text: said.append(text))
    training.warn_of_leak()
    assert any("(100.0 %)" in text for text in said) == same, "before a pass over the corpus"
    said.clear()
    training.encode()
    training.warn_of_leak()
    assert any("(100.0 %)" in text for text in said) == same, said


def texts_of(report: Report) -> list[str]:
    return [" ".join(finding.text.split()) for finding in report.findings]


def test_writes_two_models_that_load_and_a_log(trained: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == ["log.jsonl", "model-best", "model-last"]
    for name in ("model-best", "model-last"):
        nlp = spacy.load(trained / name)
        assert nlp.pipe_names == ["crf_tagger", "crf_chunker", "crf_ner"]
        doc = nlp("Ada sees a dog in Oslo .")
        assert [ent.text for ent in doc.ents] == ["Ada", "Oslo"]
        assert [span.text for span in doc.spans["chunks"]][:3] == ["Ada", "sees", "a dog"]
    log = log_of(trained)
    assert all(set(entry) == KEYS for entry in log)
    assert list(dict.fromkeys(entry["component"] for entry in log)) == ["crf_tagger", "crf_chunker", "crf_ner"]
    for name in ("crf_tagger", "crf_chunker", "crf_ner"):
        entries = [entry for entry in log if entry["component"] == name]
        assert [entry["iteration"] for entry in entries] == list(range(1, len(entries) + 1))
        scores = [entry["score"] for entry in entries if entry["score"] is not None]
        best = [entry["score"] for entry in entries if entry["best"]]
        assert best == sorted(set(best))
        assert best[-1] == max(scores)
    sgd, lbfgs = log[0], next(entry for entry in log if entry["component"] == "crf_chunker")
    assert sgd["grad_norm"] is None
    assert sgd["score"] is not None
    assert lbfgs["grad_norm"] > 0
    assert lbfgs["score"] is None  # batch optimizers are scored every tenth iteration


@pytest.mark.parametrize("factories", [["crf_ner"], ["crf_tagger", "crf_chunker"]])
def test_scores_are_those_of_the_saved_models(factories: list[str], fit_on: Run, corpus: Any, tmp_path: Path) -> None:
    # the chunker reads given tags in training, and those of the tagger, which replaces them, in the pipeline
    args = ["--patience 1", *(["--components.crf_tagger.overwrite true"] if len(factories) > 1 else [])]
    worked(fit_on(*factories, args=args, given='["tag"]'))
    for name in ("model-best", "model-last"):
        nlp = spacy.load(tmp_path / "out" / name)
        scores = nlp.evaluate(read_examples(nlp, corpus.dev, "conll2003", given=["tag"]))
        performance = nlp.meta["performance"]
        keys = [key for key in scores if key.endswith(("_acc", "_f")) and scores[key] is not None]
        assert len(keys) == 2 * len(factories)
        for key in keys:
            assert performance[key] == pytest.approx(scores[key], abs=1e-9)  # of ten decimals


def test_piped_output_is_plain_lines(trained: Path) -> None:
    text = (trained.parent / "stdout.txt").read_text()
    assert not any(ord(char) < 32 and char != "\n" for char in text)
    lines = [line for line in text.splitlines() if line.startswith("crf_chunker iteration=")]
    log = [entry for entry in log_of(trained) if entry["component"] == "crf_chunker"]
    assert len(lines) == sum(entry["score"] is not None for entry in log)
    assert lines[0].startswith("crf_chunker iteration=10 objective=")
    assert "score=" in lines[0]
    assert lines[0].endswith(" *")
    assert f"Saved {trained / 'model-best'}" in text


def test_a_terminal_shows_a_table_and_curves(configure: Any, optimizers: Any, paths: list[str], tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner", components=optimizers["lbfgs"].format(name="crf_ner"))
    code, text = run_on_terminal([*CRFSEQ, "fit", str(config), "--output", str(tmp_path / "o"), *paths])
    assert code == 0, text
    assert re.search(r"\r *crf_ner \d+  objective [\d,.]+ [▁▂▃▄▅▆▇█]+", text)
    rows = re.findall(r"(?:^|[\r\n])crf_ner +(\d+) +[\d.]+ [^▁▂▃▄▅▆▇█\r\n]*\r\n", text)
    log = [entry for entry in log_of(tmp_path / "o") if entry["score"] is not None]
    assert [int(row) for row in rows] == [entry["iteration"] for entry in log]
    assert "UserWarning" not in text
    assert re.search(r"crfseq report \S+model-best \S+dev.conll\r\n", text)  # what to do next


def test_the_log_counts_active_weights(trained: Path) -> None:
    log = log_of(trained)
    assert all((entry["active"] is None) == (entry["score"] is None) for entry in log)
    crf = spacy.load(trained / "model-last").get_pipe("crf_chunker").crf  # type: ignore[attr-defined]
    last = [entry for entry in log if entry["component"] == "crf_chunker"][-1]
    assert last["active"] == np.count_nonzero(crf.theta) > 0
    performance = spacy.load(trained / "model-last").meta["performance"]
    assert performance["crf_ner_loss"] > 0
    assert "crf_tagger_loss" in performance


def test_components_see_the_predictions_of_annotating_ones(trained: Path, corpus: Any) -> None:
    # the chunker's TAG features come from predictions of the tagger: there is a weight for them
    nlp = spacy.load(trained / "model-best")
    chunker: Any = nlp.get_pipe("crf_chunker")
    assert chunker.reads == {"TAG"}
    examples = list(read_examples(nlp, corpus.dev, "conll2003"))
    untagged = list(nlp.pipe([example.predicted for example in examples], disable=["crf_tagger", "crf_ner"]))
    tagged = list(nlp.pipe([example.reference.copy() for example in examples], disable=["crf_tagger", "crf_ner"]))
    marginals = chunker.posterior(untagged).marginals(), chunker.posterior(tagged).marginals()
    assert any(np.abs(a - b).max() > 0.01 for a, b in zip(*marginals, strict=True))


def test_an_empty_corpus_and_a_count(fit_on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worked(fit_on("crf_tagger", "crf_ner")).stdout.count("Encoded ") == 1
    monkeypatch.setattr(CorpusReader, "stream", lambda reader, nlp: iter([]))
    refused(fit_on("crf_tagger", "crf_ner"), "[corpora.train] holds no documents")


def test_warns_when_features_find_nothing(fit_on: Run) -> None:
    assert "crf_chunker reads TAG, which no training document has" in worked(fit_on("crf_chunker")).stdout
    assert "reads TAG" not in fit_on("crf_chunker", given='["tag"]').stdout


def test_without_dev_corpus(fit_on: Run, corpus: Any, tmp_path: Path) -> None:
    result = worked(fit_on("crf_ner", corpora=["--paths.train", corpus.train], args=[]), "No dev corpus")
    assert "score=" not in result.stdout
    assert "crf_ner iteration=1 objective=" in result.stdout
    assert all(entry["score"] is None and not entry["best"] for entry in log_of(tmp_path / "out"))
    best, last = spacy.load(tmp_path / "out/model-best"), spacy.load(tmp_path / "out/model-last")
    assert best.config["training"]["dev_corpus"] == "corpora.dev"
    theta = [nlp.get_pipe("crf_ner").crf.theta for nlp in (best, last)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(*theta)


def test_scores_that_only_spacy_counts_may_have_a_weight(fit_on: Run, tmp_path: Path) -> None:
    weights = '{"ents_f": 1.0, "speed": 0.1, "ents_ff": null}'
    assert "score_weights" not in worked(fit_on("crf_ner", args=["--training.score_weights", weights])).output
    performance = spacy.load(tmp_path / "out" / "model-best").meta["performance"]
    assert performance["speed"] > 0
    assert "ents_f" in performance


def test_a_weight_for_a_score_that_the_pipeline_lacks_is_refused_before_training(fit_on: Run) -> None:
    for given in ("ents_ff", "pos_acc"):  # that of the tags is tag_acc
        result = fit_on("crf_tagger", "crf_ner", args=["--training.score_weights", json.dumps({given: 1.0})])
        refused(result, f"[training.score_weights] {given}: the pipeline has no such score. Did you mean")
        assert "Reading and encoding" not in result.output


def test_the_usual_weight_of_a_component_may_stay_where_it_predicts_another_attribute(
    fit_on: Run, tmp_path: Path
) -> None:
    (tmp_path / "pos.conll").write_text("Ada PROPN\nsees VERB\n\n" * 9)
    columns = [option for part in ("train", "dev") for option in (f"--corpora.{part}.columns", '["word", "pos"]')]
    corpora = ["--paths.train", tmp_path / "pos.conll", *columns]
    args = ["--components.crf_tagger.attr pos --patience 1", "--training.score_weights", '{"tag_acc": 1.0}']
    said = worked(fit_on("crf_tagger", corpora=corpora, args=args)).stdout
    assert "[training.score_weights] tag_acc: the pipeline has no such scores." in said
    wrong = [*args[:1], "--training.score_weights", '{"tag_acc": 1.0, "pos_ac": 1.0}']
    refused(fit_on("crf_tagger", corpora=corpora, args=wrong), "[training.score_weights] pos_ac: the pipeline has no")


def test_weights_for_scores_of_components_that_are_left_out_are_named_before_training(fit_on: Run) -> None:
    args = ["--nlp.pipeline", '["crf_tagger"]', "--training.score_weights", '{"tag_acc": 0.5, "ents_f": 0.5}']
    output = worked(fit_on("crf_tagger", "crf_ner", args=args)).output
    notice = output.index("[training.score_weights] ents_f: the pipeline has no such scores.")
    assert notice < output.index("Reading and encoding")


def test_overrides_reach_the_config(fit_on: Run, optimizers: Any, tmp_path: Path) -> None:
    args = ["--components.crf_ner.scheme=IOB2", "--components.crf_ner.min_count", "2", "--evaluate-every", "3"]
    args += ["--components.crf_ner.optimizer.max_iterations", "4"]
    worked(fit_on("crf_ner", components=optimizers["endless"].format(name="crf_ner"), args=args))
    pipe: Any = spacy.load(tmp_path / "out" / "model-best").get_pipe("crf_ner")
    assert pipe.annotation.scheme == "IOB2"
    assert pipe.method.min_count == 2
    assert [entry["iteration"] for entry in log_of(tmp_path / "out") if entry["score"] is not None] == [3, 4]


def test_patience_stops_early(fit_on: Run, optimizers: Any) -> None:
    result = fit_on("crf_ner", components=optimizers["endless"].format(name="crf_ner"), args=["--patience", "2"])
    assert "no better score in 2 evaluations" in worked(result).stdout


def test_an_objective_that_is_not_finite(fit_on: Run, optimizers: Any, tmp_path: Path) -> None:
    args = ["--components.crf_ner.optimizer.rate", "1e300"]
    result = fit_on("crf_ner", components=optimizers["endless"].format(name="crf_ner"), args=args)
    assert result.exit_code == 1
    assert "Training has no result: the objective is not finite" in result.stderr
    assert not (tmp_path / "out" / "model-best").exists()


@pytest.mark.parametrize("args", [["--nonsense", "3"], ["--trian=x"], ["-x"]])
def test_unknown_option(args: list[str], run: Run, configure: Any, tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="no such option"):
        read_overrides(args)
    result = run("fit", configure(tmp_path / "c.cfg", "crf_ner"), "--output", tmp_path / "out", *args)
    assert result.exit_code == 2
    assert "no such option" in result.stderr
    result = run("fit", configure(tmp_path / "c.cfg", "crf_ner"), "--outptu", tmp_path / "out")
    assert "--outptu: no such option. Did you mean --output?" in result.stderr


def test_settings_of_spacy_train_are_not_ignored_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    for name, instead in OF_SPACY_TRAIN.items():
        assert read_overrides([f"--{name}", "3"]) == {name: 3}
        assert f"--{name} is for 'spacy train' and changes nothing here. {instead}" in capsys.readouterr().out
    assert read_overrides(["--training.seed", "-1", "--a.c=-2.5"]) == {"training.seed": -1, "a.c": -2.5}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("reader", "layout"), [
    ({"@readers": "spacy.Corpus.v1"}, DOCS),
    ({"@readers": "spacy_crfseq.ConlluReader.v1", "encoding": "utf-16"}, PRESETS["conllu"]._replace(encoding="utf-16")),
    (
        {"@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "_", "ent"], "scheme": "BILUO"},
        Preset(CUSTOM, ("word", "_", "ent"), "BILUO", "utf8", "ent"),
    ),
    ({"@readers": "my.Reader.v1", "path": "a"}, None),
    (None, None),
])  # fmt: skip
def test_a_model_knows_the_layout_of_its_corpora(reader: dict[str, Any] | None, layout: Preset | None) -> None:
    config = {"training": {"dev_corpus": "corpora.dev", "train_corpus": "my"}, "corpora": {"dev": reader}}
    assert trained_layout(config) == layout


def test_code_is_imported(fit_on: Run, tmp_path: Path) -> None:
    code = tmp_path / "functions.py"
    code.write_text(
        "import spacy\n"
        "from spacy_crfseq.features.sets import FeatureSet\n"
        "spacy.registry.crf_features.register('cli_test.Words.v1', func=lambda: FeatureSet(('LOWER[0]',)))\n"
    )
    block = '[components.crf_ner.features]\n@crf_features = "cli_test.Words.v1"\n'
    worked(fit_on("crf_ner", components=block, args=["--patience", "1", "--code", code]))
    code.write_text("import nonsense_that_is_not_there\n")
    refused(fit_on("crf_ner", args=["--code", code]), f"{code} cannot be imported")
    refused(fit_on("crf_ner", args=["--code", "none.py"]), "none.py: no such file")
    config = str(tmp_path / "a.cfg")
    Path(config).touch()
    refused(fit_on("crf_ner", args=["--code", config]), f"{config}: not a Python file")


def test_given_labels_survive_a_second_initialization(fit_on: Run, tmp_path: Path) -> None:
    training = (
        'annotating_components = ["crf_tagger"]\n[initialize]\n[initialize.components]\n'
        '[initialize.components.crf_chunker]\nlabels = ["NP", "VP", "PP", "ADJP"]\n[training.logger]\n'
        '@loggers = "spacy.ConsoleLogger.v1"\n'
    )
    worked(fit_on("crf_tagger", "crf_chunker", training=training))
    assert "ADJP" in spacy.load(tmp_path / "out/model-best").get_pipe("crf_chunker").labels  # type: ignore[attr-defined]


def test_sourced_components_go_on_or_stay(
    run: Run, configure: Any, paths: list[str], trained: Path, tmp_path: Path
) -> None:
    source = f'[components.crf_tagger]\nsource = "{trained / "model-best"}"\n'
    source += '[components.crf_chunker]\nfactory = "crf_chunker"\n'
    training = 'annotating_components = ["crf_tagger"]\nfrozen_components = ["crf_tagger"]'
    config = configure(tmp_path / "c.cfg", components=source, training=training)
    config.write_text(config.read_text().replace("pipeline = []", 'pipeline = ["crf_tagger", "crf_chunker"]'))
    result = worked(run("fit", config, "--output", tmp_path / "frozen", *paths, "--patience 1"))
    assert "Training crf_tagger" not in result.stdout
    assert "reads TAG" not in result.stdout
    overrides = ["--training.frozen_components", "[]", "--patience", "1"]
    worked(run("fit", config, "--output", tmp_path / "resumed", *paths, *overrides))
    first = next(entry for entry in log_of(tmp_path / "resumed"))
    assert first["component"] == "crf_tagger"
    assert first["loss"] < log_of(trained)[0]["loss"]


def test_training_goes_on_from_a_pipeline(
    run: Run, configure: Any, paths: list[str], trained: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.conll"
    new.write_text("Ada NNP B-NP B-PER\nsold VBD B-VP O\nRex NNP B-NP B-PET\n", encoding="utf8")
    config = configure(tmp_path / "c.cfg", "crf_chunker", "crf_ner")
    config.write_text(
        config.read_text().replace("components.crf_chunker", "components.x").replace('["crf_chunker', '["x')
    )
    args = [*paths, "--paths.train", new, "--patience", "1", "--from", trained / "model-best"]
    result = worked(run("fit", config, "--output", tmp_path / "out", *args), "features taken")
    assert "x begins with weights of zero" in result.stderr + result.stdout
    nlp = spacy.load(tmp_path / "out/model-last")
    assert [(ent.text, ent.label_) for ent in nlp("Ada sees a dog in Oslo .").ents] == [("Ada", "PER"), ("Oslo", "LOC")]
    assert "PET" in nlp.get_pipe("crf_ner").labels  # type: ignore[attr-defined]


@pytest.mark.parametrize(("config", "output", "message"), [
    ("ner.cfg", "trained", "model-best"),
    ("other.cfg", "out", "has no CRF component 'other'"),
    ("sourced.cfg", "out", "--from: 'crf_ner' comes from a trained"),
])  # fmt: skip
def test_configs_that_cannot_go_on_from_a_pipeline_are_refused(
    config: str, output: str, message: str, run: Run, configure: Any, paths: list[str], trained: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("trained").symlink_to(trained)
    text = configure(tmp_path / "ner.cfg", "crf_ner").read_text()
    other = text.replace("components.crf_ner", "components.other").replace('["crf_ner', '["other')
    Path("other.cfg").write_text(other)
    Path("sourced.cfg").write_text(text.replace('factory = "crf_ner"', 'source = "trained/model-best"'))
    arguments = ["--output", output, "--force", "--from", "trained/model-best", *paths]
    refused(run("fit", config, *arguments), message, silent=False)
    assert not Path("out", "model-best").exists()


@pytest.mark.parametrize(("name", "message"), [
    ("nope.cfg", "nope.cfg: no such config file"),
    ("folder", "folder is a folder. Give a config file."),
    ("latin.cfg", "byte 14 of this config is not utf8"),
    ("empty.cfg", "empty.cfg is empty. To write a config, run"),
])  # fmt: skip
def test_a_config_that_cannot_be_read_is_refused(name: str, message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "latin.cfg").write_text("[nlp]\nlang = 'ñ'", encoding="latin-1")
    (tmp_path / "empty.cfg").write_text("\n")
    (tmp_path / "folder").mkdir()
    refused(run("fit", tmp_path / name, "--output", tmp_path / "out"), message)
    with pytest.raises(ConfigError, match=re.escape(message)):
        fit(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("[training.batcher]", "[trainig.batcher]", "Section 'trainig' is not defined"),
    ('factory = "crf_ner"', 'factory = "crf_nre"', "Can't find factory for 'crf_nre'"),
    ('factory = "crf_ner"', 'factory = "crf_ner"\nschme = "IOB2"', "unexpected argument: 'schme'"),
    ('factory = "crf_ner"', 'factory = "crf_ner"\nmin_count = 0', "min_count must be at least 1"),
    ("${paths.train}", "${paths.trian}", "paths.trian"),
    ("seed = 1", 'seed = 1\ntrain_corpus = "corpora.trian"', "corpora.trian"),
    ("seed = 1", 'seed = "x"', "training -> seed"),
    ("seed = 1", "seed = -1", "[training] seed: the seed must be between 0"),
    ("spacy_crfseq.full_batch.v1", "spacy_crfseq.full_btch.v1", "spacy_crfseq.full_btch.v1"),
])  # fmt: skip
def test_wrong_config(old: str, new: str, message: str, run: Run, configure: Any, paths: Any, tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    refused(run("fit", config, "--output", tmp_path / "out", *paths), message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("factories", "train", "dev", "silent", "parts"), [
    (["crf_ner"], None, None, True, ["--paths.train"]),
    (["crf_ner"], "train.conll", "none.conll", False, ["none.conll: no such file"]),
    (["crf_ner"], "plain.conll", None, False, ["'crf_ner'", "no gold annotation"]),
    (["crf_ner", "ner"], "train.conll", "train.conll", True, ["'ner'", "spacy train", "frozen_components"]),
    (["sentencizer"], "train.conll", "train.conll", True, ["no CRF component to train"]),
])  # fmt: skip
def test_corpora_and_components_that_cannot_be_trained_are_refused(
    factories: list[str],
    train: str | None,
    dev: str | None,
    silent: bool,
    parts: list[str],
    fit_on: Run,
    corpus: Any,
    tmp_path: Path,
) -> None:
    (tmp_path / "plain.conll").write_text("Ada NNP O -\n\n")
    (tmp_path / "train.conll").write_bytes(corpus.dev.read_bytes())
    named = {"--paths.train": train, "--paths.dev": dev}
    corpora = [part for option, name in named.items() if name for part in (option, tmp_path / name)]
    refused(fit_on(*factories, corpora=corpora), *parts, silent=silent)


def test_components_of_spacy_may_annotate(fit_on: Run) -> None:
    worked(fit_on("sentencizer", "crf_ner", training='annotating_components = ["sentencizer"]'))


def test_a_failed_save_keeps_the_old_model(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "new").touch()

    def fail(folder: Path) -> None:
        write(folder)
        raise KeyboardInterrupt

    model = tmp_path / "model"
    replace_folder(model, write)
    (model / "old").touch()
    with pytest.raises(KeyboardInterrupt):
        replace_folder(model, fail)
    assert sorted(path.name for path in model.iterdir()) == ["new", "old"]
    replace_folder(model, write)
    assert [path.name for path in model.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [model]


@posix
def test_a_model_that_a_killed_process_moved_aside_comes_back(trained: Path, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    shutil.copytree(trained / "model-best", tmp_path / f".m[1].{ended.pid}.old")
    assert load_pipeline(tmp_path / "m[1]").pipe_names
    assert [path.name for path in tmp_path.iterdir()] == ["m[1]"]
    (tmp_path / "m[1]").rename(tmp_path / f".m[1].{os.getpid()}.old")  # a process at work
    with pytest.raises(ConfigError, match="no such folder"):
        load_pipeline(tmp_path / "m[1]")


@posix
def test_ctrl_c_saves_the_best_so_far(
    configure: Any, optimizers: Any, paths: list[str], corpus: Any, tmp_path: Path
) -> None:
    endless = optimizers["endless"].format(name="crf_chunker")
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_chunker", "crf_ner", components=endless)
    out = tmp_path / "out"
    command = [*CRFSEQ, "fit", str(config), "--output", str(out), *paths, "--patience", "0"]
    process = forks.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("crf_chunker iteration=3"):
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "Interrupted: the best parameters so far are saved" in stdout
    assert "Not trained yet, all weights zero: crf_ner" in stdout
    for name in ("model-best", "model-last"):
        nlp = spacy.load(out / name)
        scores = nlp.evaluate(read_examples(nlp, corpus.dev, "conll2003"))
        assert scores["spans_chunks_f"] > 0.9
        assert nlp.meta["performance"]["spans_chunks_f"] == pytest.approx(scores["spans_chunks_f"])
        assert not nlp.get_pipe("crf_ner").crf.theta.any()  # type: ignore[attr-defined]
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "model-best", "model-last"]


@pytest.mark.parametrize(
    ("method", "said"), [("fit", "nothing was trained or saved"), ("initialize", "nothing was trained or saved")]
)
def test_interrupt_before_training(method: str, said: str, fit_on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, method, interrupt)
    result = fit_on("crf_ner")
    assert result.exit_code == 130
    assert said in result.stdout


@pytest.mark.parametrize("place", ["score", "model-last", "model-best"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_models_are_saved_ends_only_the_scoring(
    place: str, times: int, fit_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one ends the command; each folder is whole then, or not there."""
    interrupts = [KeyboardInterrupt] * times

    def interrupt() -> None:
        if interrupts:
            raise interrupts.pop()

    def score(*args: Any, **settings: Any) -> Any:
        if place == "score":
            interrupt()
        return scored(*args, **settings)

    def save(setup: Any, folder: Path) -> None:
        if folder.name == place:
            interrupt()
        saved(setup, folder)

    scored, saved = PipelineTraining.score, PipelineTraining.save
    monkeypatch.setattr(PipelineTraining, "score", score)
    monkeypatch.setattr(PipelineTraining, "save", save)
    result = fit_on("crf_tagger", "crf_ner", args=["--patience", "1"])
    assert result.exit_code == 130, result.stderr
    assert "Traceback" not in result.stderr
    there = {path.name for path in (tmp_path / "out").glob("model-*")}
    assert there == ({"model-best", "model-last"} if times == 1 else {"model-last"} if place == "model-best" else set())
    for name in there:
        assert spacy.load(tmp_path / "out" / name)("Ada sees a dog in Oslo .").ents
    assert list((tmp_path / "out").glob(".*.part")) == []


def test_an_earlier_model_stays_until_the_new_one_is_written(
    fit_on: Run, paths: list[str], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}

    worked(fit_on("crf_ner"))
    before = contents()
    again = run("fit", tmp_path / "c.cfg", "--output", tmp_path / "out", *paths)
    refused(again, "model-best exists. Give another name, or --force to replace it")

    def interrupt(*args: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "fit", interrupt)
        assert fit_on("crf_ner", args=[]).exit_code == 130
    assert contents() == before
    worked(fit_on("crf_ner", args=[], training="max_epochs = 3"))
    assert contents() != before


# --- A corpus of ``crfseq fit``: read again for each use, or kept ---------------------------------------------------


class Source:
    """Three docs of two tokens; counts how often it was opened."""

    def __init__(self) -> None:
        self.opened = 0
        self._nlp = spacy.blank("xx")

    def __call__(self) -> Iterator[Example]:
        self.opened += 1
        for _ in range(3):
            doc = Doc(self._nlp.vocab, words=["a", "b"])
            yield Example(doc, doc.copy())


@pytest.mark.parametrize("keep", [False, True])
def test_counts_once(keep: bool) -> None:
    source, told = Source(), list[tuple[int, int]]()
    corpus = Corpus(source, keep, lambda docs, tokens: told.append((docs, tokens)))
    assert len(corpus.head(2)) == 2
    assert bool(told) == keep
    assert corpus.n_tokens == 6
    assert len(list(corpus)) == 3
    assert told == [(3, 6)]
    assert source.opened == (1 if keep else 3)
    assert (next(iter(corpus)) is next(iter(corpus))) == keep


# --- ``crfseq fit --resume``: a run that was killed ends as one that was not ----------------------------------------


NAMES = ("crf_tagger", "crf_ner")
COMPONENTS = """
[components.crf_tagger.optimizer]
@crf_optimizers = "spacy_crfseq.LBFGS.v1"
max_iterations = 12

[components.crf_ner.optimizer]
@crf_optimizers = "spacy_crfseq.SGD.v1"
max_iterations = 80
tolerance = 0.0
rate = 0.001
"""
FIT = """
import sys
from pathlib import Path
from spacy_crfseq import threads
from spacy_crfseq.cli import fit
from spacy_crfseq.types import Schedule
fit.CHECKPOINT_EVERY = 0.0
threads.available = lambda: 1  # as in the process of the tests
config, output, train, dev = sys.argv[1:]
overrides = {"paths.train": train, "paths.dev": dev}
fit.fit(Path(config), Path(output), overrides=overrides, schedule=Schedule(patience=0))
"""


def iterations(folder: Path) -> list[tuple[str, int, float]]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(line["component"], line["iteration"], line["objective"]) for line in lines]


@pytest.fixture(scope="module")
def killed(
    configure: Callable[..., Path], corpus: Any, paths: list[str], run: Run, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A folder with the config, and the output of a run that was killed while it trained the second component."""
    folder = tmp_path_factory.mktemp("killed")
    training = 'annotating_components = ["crf_tagger"]'
    config = configure(folder / "c.cfg", *NAMES, components=COMPONENTS, training=training)
    output = folder / "out"
    child = forks.start(["-c", FIT, config, output, corpus.train, corpus.dev])
    until = time.monotonic() + 60
    while time.monotonic() < until and child.poll() is None:
        if (output / CHECKPOINT).exists() and len(iterations(output)) > 20:
            child.kill()
            break
        time.sleep(0.005)
    assert child.wait() == -9
    assert not (output / "model-best").exists()
    return config, output


@pytest.mark.parametrize(("options", "parts"), [
    ("", ["checkpoint", "--resume", "--force"]),
    ("--resume --components.crf_ner.optimizer.batch_size 3", ["components.crf_ner.optimizer.batch_size", "3"]),
    ("--resume --cross-validate 3", ["--resume"]),
])  # fmt: skip
def test_a_killed_run_goes_on_with_resume_and_its_own_settings_alone(
    options: str, parts: list[str], killed: tuple[Path, Path], run: Run, paths: list[str]
) -> None:
    config, output = killed
    refused(run("fit", config, "--output", output, *options.split(), "--patience 0", *paths), *parts, silent=False)
    assert (output / CHECKPOINT).exists()


def test_a_killed_run_ends_as_one_that_was_not(
    killed: tuple[Path, Path], run: Run, paths: list[str], tmp_path: Path
) -> None:
    config, output = killed
    args = ("--patience 0", *paths)
    stored = Checkpoint.load(output / CHECKPOINT)
    name, place = stored.content.component, f"the checkpoint {output / CHECKPOINT}"
    begun = stored.n_iterations - (12 if name == "crf_ner" else 0)  # those of the tagger
    said = worked(run("fit", config, "--output", output, "--resume", *args)).stdout
    assert f"{name}: goes on after iteration {begun} of {place}" in said
    assert (f"crf_tagger: its 12 iterations are in {place}" in said) == (name == "crf_ner")
    said = worked(run("fit", config, "--output", tmp_path / "whole", *args)).stdout
    assert "checkpoint" not in said
    assert not (output / CHECKPOINT).exists()
    assert iterations(output) == iterations(tmp_path / "whole")
    for model in ("model-best", "model-last"):
        first, other = (spacy.load(folder / model) for folder in (output, tmp_path / "whole"))
        for name in NAMES:
            assert first.get_pipe(name).to_bytes() == other.get_pipe(name).to_bytes()
        assert first.meta["performance"] == other.meta["performance"]


def test_resume_without_a_checkpoint_is_refused(run: Run, train_on: Run, tmp_path: Path) -> None:
    refused(train_on("fit", "crf_ner", args=["--resume"]), "no checkpoint", str(tmp_path / "out"), silent=False)


def test_a_count_of_documents_says_that_sentences_are_joined(train_on: Run) -> None:
    said = worked(train_on("fit", "crf_ner", args=["--patience 1 --corpora.train.joined 0.5"])).stdout
    assert re.search(r"Encoded \d+ documents, 878 tokens; some are of several sentences, since joined = 0\.5\n", said)
    assert "joined" not in worked(train_on("fit", "crf_ner", args=["--patience 1 --force"])).stdout


def test_a_short_run_leaves_no_checkpoint(train_on: Run, tmp_path: Path) -> None:
    worked(train_on("fit", "crf_ner", args=["--patience 1"]))
    assert not (tmp_path / "out" / CHECKPOINT).exists()


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        """The attack of a checkpoint: a type of the package led to any function of any module."""
        return eval, ("print('run')",)


@pytest.mark.parametrize("content", [pickle.dumps(Harmful()), pickle.dumps([1]), b"", b"\x80\x05foreign"])
def test_foreign_files_are_refused_and_not_run(content: bytes, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(ModelFileError, match="checkpoint"):
        Checkpoint.load(tmp_path / "checkpoint")
    assert capsys.readouterr().out == ""


def test_a_pipeline_learns_from_a_teacher_on_raw_texts(
    fit_on: Run, paths: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_on("crf_tagger", "crf_ner")
    teacher, raw, config = tmp_path / "out" / "model-best", tmp_path / "raw.txt", tmp_path / "c.cfg"
    raw.write_text("Zed sees a quagga in Oslo .\nMary sold the blorks .\n" * 4, encoding="utf8")
    learn = ["fit", config, "--patience 1", "--output", tmp_path / "new", *paths, "--teacher", teacher, "--raw", raw]
    weight = ["--components.crf_ner.terms.teacher.weight", "0.5", "--corpora.teacher.limit", "6"]
    loaded = list[str]()
    monkeypatch.setattr(teacher_module, "load_pipeline", lambda model: (loaded.append(model), load_pipeline(model))[1])
    said = worked(run(*learn, *weight), "Term teacher: 6 sequences", "0.5 * CrossEntropy", "1 * CrossEntropy")
    assert said.stdout.count("Term teacher") == 2
    assert len(loaded) == 2, "once for each component"
    shutil.rmtree(teacher)
    raw.unlink()
    assert [entity.text for entity in spacy.load(tmp_path / "new" / "model-best")("Ada sold a map").ents] == ["Ada"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--teacher", "model"], "--teacher labels raw texts: give both"),
        (["--raw", "raw.txt"], "--teacher labels raw texts: give both"),
        (["--teacher", "model", "--raw", "raw.txt"], "model: no such folder"),
        (["--teacher", "model", "--raw", "raw.txt", "--training.frozen_components", '["crf_ner"]'], "no CRF component"),
        (
            ["--teacher", "m", "--raw", "r", "--components.crf_x.terms.teacher.weight", "2"],
            "no such component to train",
        ),
        (
            ["--teacher", "m", "--raw", "r", "--components.crf_ner.terms.teacher.temperature", "2"],
            "temperature is a setting of the corpus. Give --corpora.teacher.temperature 2",
        ),
    ],
)
def test_teachers_that_are_refused(
    configure: Any, paths: list[str], run: Run, tmp_path: Path, options: list[str], message: str
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    result = run("fit", config, "--output", tmp_path / "out", *paths, *options)
    refused(result, message, silent=False)
    assert "encoding the training corpus" not in result.output
    assert not (tmp_path / "out" / "model-best").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corpora.teacher.temperature", "-2"], "[corpora.teacher] temperature = -2: give a number"),
        (
            ["--corpora.teacher.temperature", "hot"],
            "[corpora.teacher] temperature must be a number, but 'hot' was given",
        ),
        (["--corpora.teacher.labels", '{"GPE": "LOC"}'], "labels: the teacher has no label 'GPE'"),
        (["--corpora.teacher.component", "crf_x"], "The pipeline in training has no CRF component 'crf_x'"),
        (["--corpora.teacher.format", "jsonl"], "raw.txt:1: "),
    ],
)
def test_mistakes_in_a_lesson_end_a_training_before_it_begins(
    trained: Path, configure: Any, paths: list[str], run: Run, tmp_path: Path, options: list[str], message: str
) -> None:
    raw, config = tmp_path / "raw.txt", configure(tmp_path / "c.cfg", "crf_ner")
    raw.write_text("Zed sees a quagga in Oslo .\n", encoding="utf8")
    learn = ["--teacher", trained / "model-best", "--raw", raw]
    result = run("fit", config, "--output", tmp_path / "new", *paths, *learn, *options)
    refused(result, message, silent=False)
    assert "encoding the training corpus" not in result.output
