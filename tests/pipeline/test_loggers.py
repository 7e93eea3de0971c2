"""``spacy_crfseq.Logger.v1`` under a real ``spacy train``: piped, on a terminal, and in a file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import spacy
from spacy.cli._util import app
from typer.testing import CliRunner

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline import steps
from spacy_crfseq.pipeline.spacy_train import create_logger
from tests.pipeline.helpers import examples as corpus_of
from tests.pipeline.helpers import initialized, pipe_of, registered
from tests.terminal import run_on_terminal

KEYS = ["component", "iteration", "seconds", "objective", "loss", "grad_norm", "active", "score", "best"]
CONFIG = """
[nlp]
lang = "xx"
pipeline = {pipeline}
[components]
{components}
[corpora]
[corpora.train]
@readers = "spacy_crfseq.ConllReader.v1"
path = "{corpus}"
columns = ["word", "tag", "chunk", "ent"]
[corpora.dev]
@readers = "spacy_crfseq.ConllReader.v1"
path = "{corpus}"
columns = ["word", "tag", "chunk", "ent"]
[training]
max_steps = 12
eval_frequency = 4
[training.batcher]
{batcher}
[training.logger]
@loggers = "spacy_crfseq.Logger.v1"
path = "{log}"
"""
FULL = '@batchers = "spacy_crfseq.full_batch.v1"'
SMALL = '@batchers = "spacy.batch_by_sequence.v1"\nsize = 4'
SPACY = "from spacy.cli import setup_cli; setup_cli()"


def configure(folder: Path, *names: str, batcher: str = FULL, lbfgs: tuple[str, ...] = ()) -> Path:
    corpus = folder / "corpus.conll"
    if not corpus.exists():
        rows = ["Ada NNP B-NP B-PER", "sees VBZ B-VP O", "the DT B-NP O", "map NN I-NP O", "", "Bo NNP B-NP B-PER",
                "sold VBD B-VP O", "Oslo NNP B-NP B-LOC", ""]  # fmt: skip
        corpus.write_text("\n".join(rows * 8))
    blocks = ""
    for name in names:
        blocks += f'[components.{name}]\nfactory = "{name}"\n'
        if name in lbfgs:
            blocks += f'[components.{name}.optimizer]\n@crf_optimizers = "spacy_crfseq.LBFGS.v1"\n'
    path = folder / "config.cfg"
    log = folder / "logs" / "l.jsonl"
    text = CONFIG.format(pipeline=json.dumps(names), components=blocks, corpus=corpus, batcher=batcher, log=log)
    nlp = spacy.util.load_model_from_config(spacy.util.load_config_from_str(text), auto_fill=True)
    nlp.config.to_disk(path)
    return path


def train(config: Path) -> str:
    done = CliRunner().invoke(app, ["train", str(config)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert not re.search("[▁▂▃▄▅▆▇█\r]", done.stdout + done.stderr)
    return done.stdout


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "l.jsonl").read_text().splitlines()]


def test_one_component_has_columns_of_its_own(tmp_path: Path) -> None:
    lines = train(configure(tmp_path, "crf_ner", lbfgs=("crf_ner",))).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("E "))
    assert lines[start].split()[:4] == ["E", "#", "LOSS", "CRF_NER"]
    assert lines[start].split()[-5:] == ["SCORE", "OBJECTIVE", "|GRADIENT|", "ACTIVE", "SECONDS"]
    table = lines[start : start + 6]
    assert len({len(line) for line in table}) == 1
    log = log_of(tmp_path)
    assert [list(entry) for entry in log] == [KEYS] * 4
    assert [entry["iteration"] for entry in log] == [1, 5, 9, 13]
    for line, entry in zip(table[2:], log, strict=True):
        objective, norm, active, _ = line.split()[-4:]
        assert float(objective) == pytest.approx(entry["objective"], abs=0.005)
        assert float(norm) == pytest.approx(entry["grad_norm"], rel=1e-3)
        assert int(active) == entry["active"] > 0
    objectives = [entry["objective"] for entry in log]
    assert objectives == sorted(objectives, reverse=True)
    assert log[-1]["score"] == 1.0
    assert [entry["best"] for entry in log][-1]


def test_several_components_have_a_line_each(tmp_path: Path) -> None:
    stdout = train(configure(tmp_path, "crf_tagger", "crf_chunker", "crf_ner", lbfgs=("crf_chunker",)))
    assert len(re.findall(r"^ +crf_tagger  objective [\d.]+  active \d+$", stdout, re.M)) == 4
    assert len(re.findall(r"^ +crf_chunker  objective [\d.]+  \|gradient\| \S+  active \d+$", stdout, re.M)) == 4
    log = log_of(tmp_path)
    assert [entry["component"] for entry in log] == ["crf_tagger", "crf_chunker", "crf_ner"] * 4
    assert all((entry["grad_norm"] is None) == (entry["component"] != "crf_chunker") for entry in log)
    assert {entry["score"] for entry in log[-3:]} == {1.0}


def test_before_the_first_iteration_there_is_nothing_to_tell(tmp_path: Path) -> None:
    stdout = train(configure(tmp_path, "crf_ner", batcher=SMALL, lbfgs=("crf_ner",)))  # 16 sentences: 4 steps an epoch
    first = next(line for line in stdout.splitlines() if re.match(r" +0 +0 ", line))
    assert first.split()[-4:-1] == ["-", "-", "0"]
    assert [entry["iteration"] for entry in log_of(tmp_path)] == [5, 9, 13]


def test_curves_on_a_terminal(tmp_path: Path) -> None:
    config = configure(tmp_path, "crf_ner", batcher=SMALL)
    command = [sys.executable, "-W", "error:::spacy_crfseq", "-c", SPACY, "train", str(config)]
    code, text = run_on_terminal(command)
    assert code == 0, text
    assert re.search(r"crf_ner objective [\d,.]+ [▁▂▃▄▅▆▇█]+  score [\d.]+ [▁▂▃▄▅▆▇█]+", text)
    rows = re.findall(r"(?:^|[\r\n]) +\d+ +(\d+) [^▁▂▃▄▅▆▇█\r\n]*\r\n", text)
    assert rows == ["0", "4", "8", "12"]  # curves are gone where rows of the table are printed


def test_online_figures_are_of_the_whole_training_set() -> None:
    nlp = initialized("crf_ner", 4, optimizer=registered("optimizers", "AdaGrad"))
    pipe, examples = cast(Any, pipe_of(nlp)), corpus_of(nlp, repeat=4)
    assert steps.figures(pipe.training) is None
    met = []
    for first in range(0, len(examples), 2):
        pipe.update(examples[first : first + 2])
        pipe.finish_update(None)
        met.append(pipe.training.run.report)
    report = steps.figures(pipe.training, restart=True)
    assert report.loss == pytest.approx(sum(one.loss for one in met))
    assert report.value == pytest.approx(report.loss + met[-1].value - met[-1].loss)
    assert np.isnan(report.grad_norm)
    assert steps.figures(pipe.training).loss == report.loss
    pipe.update(examples[:2])
    pipe.finish_update(None)
    assert steps.figures(pipe.training).loss == pytest.approx(pipe.training.run.report.loss * len(examples) / 2)
    assert pipe.doc_model.n_active == np.count_nonzero(pipe.crf.theta) > 0
    assert pipe.annotation.score_name == "ents_f"


def test_the_path_must_be_one_that_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder\. Give a file, such as log.jsonl"):
        create_logger(str(tmp_path))
    (tmp_path / "file").touch()
    set_up = create_logger(str(tmp_path / "file" / "log.jsonl"))
    with pytest.raises(ConfigError, match=r"\[training.logger\] path = .* cannot be written"):
        set_up(spacy.blank("xx"))
