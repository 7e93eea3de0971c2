"""``crfseq fit`` and ``spacy train`` calibrate on the dev corpus if the config says so, and change no prediction."""

from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.pipeline.evaluator import Evaluator
from spacy_crfseq.pipeline.pipeline_training import PipelineTraining
from spacy_crfseq.pipeline.soft_labels import write_soft_labels
from spacy_crfseq.pipeline.spacy_train import Calibrate
from spacy_crfseq.pipeline.training import NO_DEV
from spacy_crfseq.tools.calibrate import calibrate
from tests.commands import Corpus, Run, worked, write_corpus
from tests.pipeline.helpers import LBFGS, blank, examples, initialize, pipe_of, registered, trained

BLOCK = '[training.before_to_disk]\n@callbacks = "spacy_crfseq.Calibrate.v1"\n'
NAMES = ("crf_tagger", "crf_ner")
FITTED = ("temperature", "calibration")


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("dev") / "dev.conll", 300, 5)


def predictions(model: Path, dev: Path) -> Any:
    nlp = spacy.load(model)
    docs = list(nlp.pipe(example.predicted for example in read_examples(nlp, dev, "conll2003")))
    return [[(token.tag_, token.ent_iob_, token.ent_type_) for token in doc] for doc in docs]


def test_fit_calibrates_the_best_and_the_last_model_as_the_callback_does(
    train_on: Run, corpus: Corpus, dev: Path, tmp_path: Path
) -> None:
    paths = ["--paths.train", corpus.train, "--paths.dev", dev]
    plain = worked(train_on("fit", *NAMES, corpora=paths)).stdout
    assert "temperature" not in plain
    before = predictions(tmp_path / "out/model-best", dev)
    said = worked(train_on("fit", *NAMES, corpora=paths, training=BLOCK)).stdout
    assert [line.split()[:2] for line in said.splitlines() if "cross-fitted" in line] == [
        ["crf_tagger:", "temperature"],
        ["crf_ner:", "temperature"],
    ]
    assert predictions(tmp_path / "out/model-best", dev) == before
    for model in ("model-best", "model-last"):
        nlp = spacy.load(tmp_path / "out" / model)
        pipes = [pipe_of(nlp, name) for name in NAMES]
        stored = [{key: pipe.cfg[key] for key in FITTED} for pipe in pipes]
        assert all(of_pipe["temperature"] != 1 for of_pipe in stored)
        for pipe in pipes:
            pipe.cfg.update(temperature=1.0, calibration={})
        assert Calibrate(then=lambda nlp: nlp)(nlp) is nlp
        assert [pipe.cfg["temperature"] for pipe in pipes] == pytest.approx(
            [of_pipe["temperature"] for of_pipe in stored], rel=1e-3
        )
    result = calibrate(tmp_path / "out/model-last", dev, "conll2003").results["crf_ner"]
    assert result.before.temperature == stored[1]["temperature"]
    assert result.before.whole.error < 0.05


def test_a_small_dev_corpus_leaves_probabilities_as_they_are(train_on: Run, tmp_path: Path) -> None:
    said = worked(train_on("fit", "crf_ner", training=BLOCK)).stdout
    assert "crf_ner: probabilities are not calibrated (dev corpus): " in said
    assert pipe_of(spacy.load(tmp_path / "out/model-best")).cfg["temperature"] == 1.0


@pytest.mark.parametrize("step", ["adapt", "scores", "calibration"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_after_the_last_iteration_keeps_the_model(
    step: str, times: int, train_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = [KeyboardInterrupt] * times

    def interrupt(method: Any, *args: Any, **settings: Any) -> Any:
        if interrupts:
            raise interrupts.pop()
        return method(*args, **settings)

    monkeypatch.setattr(Evaluator, step, partialmethod(partial(interrupt, getattr(Evaluator, step))))
    monkeypatch.setattr(PipelineTraining, "score", partialmethod(partial(interrupt, PipelineTraining.score)))
    result = train_on("fit", "crf_ner", training=BLOCK)
    assert result.exit_code == 130, result.stderr
    assert "Interrupted: the best parameters so far are saved" in result.stdout
    for name in ("model-best", "model-last"):
        assert spacy.load(tmp_path / "out" / name)("Ada sees a dog in Oslo .").ents


def test_a_dev_corpus_that_was_learned_from_is_not_calibrated_on(train_on: Run, dev: Path) -> None:
    said = worked(
        train_on("fit", "crf_ner", training=BLOCK, args=["--patience 1 --paths.train", dev, "--paths.dev", dev])
    )
    assert "Probabilities are not calibrated on them" in " ".join(said.stdout.split())
    assert "cross-fitted" not in said.stdout


@pytest.mark.parametrize(
    ("decoder", "small", "said", "fitted"),
    [
        ("Viterbi", True, "(training corpus, by models of its parts, cross-fitted; perfect: 0.0", True),
        ("Viterbi", False, "no dev corpus: probabilities are not calibrated. Give --paths.dev", False),
        ("RescoredSpans", True, "as models of parts of the training corpus have corrected them", False),
    ],
)
def test_without_a_dev_corpus_parts_of_a_small_training_corpus_are_calibrated_on(
    train_on: Run, dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    decoder: str, small: bool, said: str, fitted: bool,
) -> None:  # fmt: skip
    if not small:
        monkeypatch.setattr("spacy_crfseq.pipeline.training.SMALL", 10)
    block = f'[components.crf_ner.decoder]\n@crf_decoders = "spacy_crfseq.{decoder}.v1"\n'
    paths = ["--paths.train", dev]
    shown = worked(
        train_on("fit", "crf_ner", components=block, training=BLOCK, corpora=paths, args=[]), "No dev corpus"
    )
    assert said in " ".join(shown.stdout.split())
    pipes = [pipe_of(spacy.load(tmp_path / "out" / model)) for model in ("model-best", "model-last")]
    assert [pipe.cfg["temperature"] != 1.0 for pipe in pipes] == [fitted, fitted]
    if fitted:
        held_out = write_corpus(tmp_path / "new.conll", 300, 6)
        result = calibrate(tmp_path / "out/model-best", held_out, "conll2003").results["crf_ner"]
        assert result.before.whole.error < 0.05


def test_without_a_dev_corpus_a_component_of_a_trained_pipeline_is_not_calibrated_and_says_so_once() -> None:
    nlp, said = trained("crf_ner", optimizer=LBFGS), list[str]()
    pipe_of(nlp).training.set(calibrates=True, has_dev=False, report=said.append)
    pipe_of(nlp).fit(examples(nlp))
    assert [line for line in said if "calibrat" in line] == [NO_DEV]


@pytest.mark.parametrize(("doubtful", "decoder"), [
    (False, "RescoredSpans"), (True, "RescoredSpans"), (False, "Viterbi"), (True, "Viterbi"),
])  # fmt: skip
def test_without_a_dev_corpus_labels_in_doubt_are_said_to_have_judged_only_where_there_are_some(
    doubtful: bool, decoder: str
) -> None:
    loss = registered("losses", "CrossEntropy")
    nlp, said = blank("crf_ner", optimizer=LBFGS, loss=loss, decoder=registered("decoders", decoder)), list[str]()
    pipe_of(nlp).training.set(calibrates=True, has_dev=False, report=said.append)
    corpus = examples(nlp, repeat=6)
    if doubtful:
        write_soft_labels(corpus[0].reference, "crf_ner", {0: [("", "U-PER", 0.75), ("", "O", 0.25)]})
    initialize(nlp, corpus, fit=True)
    (line,) = [line for line in said if "probabilities are" in line or "temperature" in line]
    assert ("in doubt: the others have judged" in line) is doubtful
    assert ("have corrected them" in line) is (decoder == "RescoredSpans")


def test_without_a_dev_corpus_gold_texts_among_those_with_doubtful_labels_are_calibrated_on(
    run: Run, dev: Path, tmp_path: Path
) -> None:
    gold, labels, config = write_corpus(tmp_path / "gold.conll", 150, 5), tmp_path / "l.spacy", tmp_path / "c.cfg"
    worked(run("aggregate", dev, "-o", labels, "--source", f"llm={dev},outside=unknown", "--gold", gold))
    worked(run("init-config", config, "--task ner --lang en --goal fast --train", labels))
    said = " ".join(worked(run("fit", config, "--output", tmp_path / "out"), "No dev corpus").stdout.split())
    assert "training corpus, by models of its parts" in said
    assert "labels of the training corpus are in doubt" in said


def test_a_model_without_probabilities_of_sentences_is_not_calibrated(train_on: Run, dev: Path, tmp_path: Path) -> None:
    loss, decoder = (f"[components.crf_ner.{name}]\n@crf_{name}" for name in ("loss", "decoder"))
    local = f'{loss}es = "spacy_crfseq.LocalLog.v1"\n{decoder}s = "spacy_crfseq.LocalViterbi.v1"\n'
    said = worked(train_on("fit", "crf_ner", components=local, training=BLOCK, args=["--paths.dev", dev])).stdout
    assert "crf_ner: probabilities are not calibrated: the model is normalised at each token" in said


def test_spacy_train_calibrates_what_it_saves(configure: Any, corpus: Corpus, dev: Path, tmp_path: Path) -> None:
    from spacy.cli.train import train

    config = configure(tmp_path / "c.cfg", "crf_ner", training=f"gpu_allocator = null\n{BLOCK}")
    paths = {"paths.train": str(corpus.train), "paths.dev": str(dev), "training.max_steps": 20}
    train(config, tmp_path / "out", overrides={**paths, "training.eval_frequency": 10})
    fitted = pipe_of(spacy.load(tmp_path / "out/model-best"))
    assert fitted.cfg["temperature"] != 1.0
    again = calibrate(tmp_path / "out/model-best", dev, "conll2003").results["crf_ner"]
    assert again.after.temperature == pytest.approx(fitted.cfg["temperature"], rel=1e-2)


def test_models_of_a_sweep_are_calibrated_when_they_are_saved(
    run: Run, configure: Any, corpus: Corpus, dev: Path, tmp_path: Path
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner", training=BLOCK)
    grid = f'[sweep]\nconfig = "{config}"\n[sweep.grid]\nregularizer.rho = [0.1, 1]\n'
    (tmp_path / "s.cfg").write_text(grid)
    paths = ["--paths.train", corpus.train, "--paths.dev", dev]
    worked(run("sweep", tmp_path / "s.cfg", "--patience 1 --jobs 1 --output", tmp_path / "out", *paths))
    assert pipe_of(spacy.load(tmp_path / "out/model-best")).cfg["temperature"] != 1.0
