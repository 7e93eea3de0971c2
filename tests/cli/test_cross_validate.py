"""``--cross-validate`` of `fit` and `debug-data`: scores of folds, and planted mistakes that are found again."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.corpora import write_columns
from spacy_crfseq.corpora.layouts import read_preset
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.pipeline.cross_validation import can_share, each_fold
from spacy_crfseq.pipeline.pipeline_training import set_up_from
from spacy_crfseq.schemes import TagSpan, decode_lenient, encode
from tests.commands import Corpus, Run, refused, worked
from tests.pipeline.helpers import registered

ROOT = Path(__file__).parents[2]


def numbers(line: str) -> list[float]:
    return [float(value) for value in re.findall(r"[\d.]+", line)]


def test_scores_of_folds_with_mean_and_spread(train_on: Run, run: Run, paths: list[str], tmp_path: Path) -> None:
    result = worked(train_on("fit", "crf_ner", args=["--cross-validate 3"]), "3-fold cross-validation")
    lines = result.stdout[result.stdout.index("fold ") :].splitlines()
    rows = {line.split()[0]: numbers(line) for line in lines if line}
    folds = [rows[str(number)] for number in (1, 2, 3)]
    assert [fold[1] + fold[2] for fold in folds] == [120] * 3
    scores = [fold[3] for fold in folds]
    assert rows["mean"][0] == pytest.approx(np.mean(scores), abs=0.01)
    assert rows["sd"][0] == pytest.approx(np.std(scores, ddof=1), abs=0.02)
    assert (tmp_path / "out" / "model-best").is_dir()  # --output asks for a model, too
    again = run("fit", tmp_path / "c.cfg", "--output", tmp_path / "out", "--cross-validate 3", *paths)
    refused(again, "--force")  # before any training


def test_without_output_no_model_is_written(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    worked(run("fit", config, "--cross-validate 2", *paths), "2-fold")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.cfg"]


def test_each_fold_has_one_first_stage_of_its_own(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    block = "[components.crf_ner.attributes]\n[components.crf_ner.attributes.document]\nfolds = 3\n"
    block += '@crf_attributes = "spacy_crfseq.DocumentLabels.v1"\n'
    annotating = 'annotating_components = ["crf_tagger"]'
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_ner", components=block, training=annotating)
    result = worked(run("fit", config, "--cross-validate 2", *paths, "--corpora.train.limit 30"), "2-fold")
    shown = result.stdout
    assert "learns from single sentences" in result.output
    assert shown.count("crf_ner: First stage: part 3 of 3") == shown.count("on the whole corpus") == 2


def test_sharing_the_encoded_corpus_changes_nothing(
    configure: Any, optimizers: Any, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = optimizers["lbfgs"].format(name="crf_ner")
    config = configure(tmp_path / "c.cfg", "crf_ner", components=block)
    scores: list[list[float]] = []
    sizes: list[list[int]] = []
    for shared in (True, False):
        monkeypatch.setattr(sys.modules[each_fold.__module__], "can_share", lambda _, shared=shared: shared)
        training = set_up_from(load_config(config, {"paths.train": str(corpus.train)}))
        result = [
            (fold.scores["ents_f"], training.to_train["crf_ner"].doc_model.n_active) for fold in each_fold(training, 3)
        ]
        scores.append([score for score, _ in result])
        sizes.append([active for _, active in result])
    assert scores[0] == pytest.approx(scores[1])
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("setting", "shared"),
    [
        ({}, True),
        ({"min_count": 2}, False),
        ({"max_features": 9}, False),
        ({"tag_dictionary_size": 5}, False),
        ({"attributes": {"classes": registered("attributes", "WordClasses", path="c", keep="seen")}}, False),
        ({"attributes": {"classes": registered("attributes", "WordClasses", path="c", keep="all")}}, True),
    ],
)
def test_folds_share_encoded_texts_unless_features_depend_on_other_texts(
    setting: dict[str, Any], shared: bool, configure: Any, corpus: Corpus, tmp_path: Path
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    overrides = {f"components.crf_ner.{name}": value for name, value in setting.items()}
    assert can_share(set_up_from(load_config(config, {"paths.train": str(corpus.train), **overrides}))) == shared


@pytest.mark.parametrize(("command", "config", "options", "message"), [
    ("fit", "c.cfg", "", "--output DIR"),
    ("fit", "c.cfg", "", "--cross-validate K"),
    ("fit", "c.cfg", "--cross-validate 1", "from 2 on"),
    ("fit", "c.cfg", "--cross-validate 500", "different documents"),
    ("fit", "c.cfg", "--cross-validate 2 --from model-best", "--cross-validate trains from scratch"),
    ("fit", "sourced.cfg", "--cross-validate 2", "'crf_ner' comes from a trained pipeline"),
    ("debug-data", "train.conll", "--format conll2003 --cross-validate 3", "give --config FILE"),
    ("debug-data", "train.conll", "--format conll2003 --config c.cfg --cross-validate 1", "from 2 on"),
])  # fmt: skip
def test_folds_that_cannot_be_made_are_refused(
    command: str, config: str, options: str, message: str, run: Run, trained: Path, configure: Any, corpus: Corpus,
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("model-best").symlink_to(trained / "model-best")
    Path("train.conll").symlink_to(corpus.train)
    text = configure(tmp_path / "c.cfg", "crf_ner").read_text()
    Path("sourced.cfg").write_text(text.replace('factory = "crf_ner"', 'source = "model-best"'))
    refused(run(command, config, *options.split(), *(paths if command == "fit" else ())), message, silent=False)


def plant(source: Path, target: Path, share: float, rng: random.Random) -> list[tuple[int, int]]:
    """Write a corpus with mistakes in some entities; return their lines, first and last."""
    sentences, planted, line = [], list[tuple[int, int]](), 1
    for sentence in read_preset(source, "conll2003"):
        spans = []
        for span in decode_lenient(sentence.columns["ent"]):
            if rng.random() < share:
                other = {"PER": "LOC", "LOC": "ORG", "ORG": "PER"}.get(span.label)
                spans += [TagSpan(span.start, span.end, other)] if other else []  # other types are left out
                planted.append((line + span.start, line + span.end - 1))
            else:
                spans.append(span)
        ents = encode(spans, len(sentence.words), "IOB2")
        sentences.append(sentence._replace(columns={**sentence.columns, "ent": ents}, document=0))
        line += len(sentence.words) + 1
    write_columns(target, sentences, ["word", "tag", "ent"])
    return planted


def test_planted_mistakes_are_on_top(run: Run, tmp_path: Path) -> None:
    path, config = tmp_path / "planted.conll", tmp_path / "c.cfg"
    planted = plant(ROOT / "assets/corpus/train.conll", path, 0.06, random.Random(1))
    worked(run("init-config", config, "--task ner --lang en --train", path))
    asked = f"--no-cost --json --cross-validate 3 -n {2 * len(planted)}"
    report = json.loads(worked(run("debug-data", path, "--config", config, asked)).stdout)
    suspects = report["label_errors"]["worst"]["crf_ner"]
    lines = [int(suspect["where"].rpartition(":")[2]) for suspect in suspects]
    hits = [{i for i, (first, last) in enumerate(planted) if first - 2 <= line <= last} for line in lines]
    result = set[int]().union(*hits)
    assert len(planted) > 20
    assert len(result) > 0.7 * len(planted)  # of about 500 entities
    assert sum(map(bool, hits[: len(planted)])) > 0.4 * len(planted)
    odds = [suspect["log_odds"] for suspect in suspects]
    assert odds == sorted(odds, reverse=True)
    assert report["label_errors"]["folds"] == 3


def test_mistakes_are_shown_with_their_lines(run: Run, configure: Any, corpus: Corpus, tmp_path: Path) -> None:
    lines = corpus.train.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line == "Ada NNP B-NP B-PER" and lines[i + 1].endswith(" O"))
    lines[at] = "Ada NNP B-NP B-LOC"
    path = tmp_path / "train.conll"
    path.write_text("\n".join(lines) + "\n")
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_ner")
    asked = ["--config", config, "--no-cost --cross-validate 2 -n 30", "-d", corpus.dev]
    shown = worked(run("debug-data", path, *asked), "crf_tagger: likely annotation errors").stdout
    said = rf":{at + 1}: annotated \[Ada LOC\] \([\d.e-]+\), predicted \[Ada PER\] \(\d\.\d+\)\n    Ada "
    assert re.search(said, shown)
    assert "2 trainings" in shown
