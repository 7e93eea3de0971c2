"""``crfseq fit --refit``: a third model, of the training and the dev corpus, as the best one is of the first."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import spacy

from spacy_crfseq.cli import fit as command
from spacy_crfseq.cli.fit import fit
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.pipeline.pipeline_training import PipelineTraining
from spacy_crfseq.pipeline.training import Training
from spacy_crfseq.types import Schedule
from tests.commands import Run, refused, worked, write_config, write_corpus
from tests.pipeline.helpers import pipe_of

MODELS = ["model-best", "model-last", "model-refit"]
BLOCKS = (
    '[components.crf_tagger.optimizer]\n@crf_optimizers = "spacy_crfseq.AdaGrad.v1"\nmax_iterations = 1\n'
    '[components.crf_ner.features]\n@crf_features = "spacy_crfseq.Templates.v1"\ntemplates = ["NORM", "TAG"]\n'
    '[components.crf_ner.decoder]\n@crf_decoders = "spacy_crfseq.RescoredSpans.v1"\n'
)
TRAINING = (
    'annotating_components = ["crf_tagger"]\n'
    '[training.before_to_disk]\n@callbacks = "spacy_crfseq.Calibrate.v1"\n'
)  # fmt: skip


class Refit(NamedTuple):
    """A run with --refit, and its files."""

    config: Path
    train: Path
    dev: Path
    output: Path
    stdout: str


@pytest.fixture(scope="module")
def done(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Refit:
    folder = tmp_path_factory.mktemp("refit")
    train, dev = write_corpus(folder / "train.conll", 60, 1), write_corpus(folder / "dev.conll", 300, 2)
    config = write_config(folder / "c.cfg", "crf_tagger", "crf_ner", components=BLOCKS, training=TRAINING)
    paths = ["--paths.train", train, "--paths.dev", dev]
    result = worked(run("fit", config, "--refit --output", folder / "out", *paths))
    return Refit(config, train, dev, folder / "out", result.stdout)


def test_a_refit_is_the_training_on_both_corpora_for_as_many_iterations_as_were_best(
    done: Refit, tmp_path: Path
) -> None:
    log = [json.loads(line) for line in (done.output / "log.jsonl").read_text().splitlines()]
    best = {entry["component"]: entry["iteration"] for entry in log if entry["best"]}
    nlp = spacy.load(done.output / "model-refit")
    assert nlp.meta["refit"] == best
    assert {entry["component"] for entry in log} == {*best, *(f"{name}+dev" for name in best)}
    (tmp_path / "both.conll").write_text(done.train.read_text() + done.dev.read_text())
    places: dict[str, Any] = {"paths.train": str(tmp_path / "both.conll"), "corpora.dev.path": None}
    places["training.before_to_disk"] = None
    fit(done.config, tmp_path / "out", overrides=places, schedule=Schedule(iterations=best["crf_ner"]))
    expected = spacy.load(tmp_path / "out" / "model-last")
    for name in best:
        assert np.array_equal(pipe_of(nlp, name).crf.theta, pipe_of(expected, name).crf.theta)


def test_calibration_decoder_and_scores_are_those_that_the_dev_corpus_gave(done: Refit) -> None:
    best, refit = (spacy.load(done.output / name) for name in ("model-best", "model-refit"))
    assert refit.meta["performance"] == best.meta["performance"]
    old, new = pipe_of(best, "crf_ner"), pipe_of(refit, "crf_ner")
    assert new.cfg["temperature"] == old.cfg["temperature"] != 1
    assert new.cfg["calibration"] == old.cfg["calibration"]
    decoder: Any = new.method.decoder
    assert decoder.to_state() == old.method.decoder.to_state()  # type: ignore[attr-defined]
    assert decoder.expected_f != 0.8
    assert "one was then trained again, on the development data" in refit.meta["notes"]
    assert "trained again" not in best.meta["notes"]
    assert f"Saved {done.output / 'model-refit'}, which learned from the dev corpus, too" in done.stdout


def test_models_of_parts_for_a_decoder_are_trained_once(done: Refit) -> None:
    assert done.stdout.count("Decoder: part 1 of 5") == 1


def test_judging_a_refit_on_its_dev_corpus_warns(done: Refit, run: Run) -> None:
    with pytest.warns(UserWarning, match=r"dev.conll: the model learned from these texts \(fit --refit\)"):
        worked(run("evaluate", done.output / "model-refit", done.dev, "--format conll2003"))
    worked(run("evaluate", done.output / "model-refit", done.train, "--format conll2003"))
    worked(run("evaluate", done.output / "model-best", done.dev, "--format conll2003"))


def test_the_dev_corpus_is_learned_from_in_the_form_of_the_training_corpus(train_on: Run) -> None:
    args = ["--refit --patience 1 --corpora.train.twice true --corpora.train.joined 0.5"]
    said = worked(train_on("fit", "crf_tagger", args=args)).stdout
    sizes = re.findall(r"Encoded (\d+) documents, \S+ tokens, each twice; some are of several sentences", said)
    assert sizes == ["75", "100"]  # of 120 sentences, and of 40 more


def test_a_refit_works_from_a_model_and_a_later_training_removes_it(
    done: Refit, train_on: Run, run: Run, paths: list[str], tmp_path: Path
) -> None:
    worked(train_on("fit", "crf_tagger", args=["--patience 1 --refit --from", done.output / "model-best"]))
    assert sorted(path.name for path in (tmp_path / "out").glob("model-*")) == MODELS
    refused(run("fit", tmp_path / "c.cfg", "--output", tmp_path / "out", *paths), "model-best exists", silent=False)
    removed = f"Removed {tmp_path / 'out/model-refit'}, which learned from the dev corpus in an earlier training"
    assert removed in " ".join(worked(train_on("fit", "crf_tagger", args=["--patience 1"])).stdout.split())
    assert sorted(path.name for path in (tmp_path / "out").glob("model-*")) == MODELS[:2]


def test_settings_of_a_reader_of_another_package_keep_their_meaning(train_on: Run, corpus: Any) -> None:
    @spacy.registry.readers("tests.joined.v1")
    def create(path: str, joined: float = 0.0) -> Any:
        return lambda nlp: read_examples(nlp, Path(path), "conll2003")

    blocks = ["--corpora.dev.@readers", "tests.joined.v1", "--corpora.dev.path", corpus.dev]
    blocks += ["--corpora.train.@readers", "tests.joined.v1", "--corpora.train.path", corpus.train]
    args = ["--patience 1 --refit --corpora.train.joined 0.5", *blocks]
    assert "Encoded 160 documents" in worked(train_on("fit", "crf_tagger", args=args)).stdout


def test_a_refit_learns_from_a_teacher_twice(done: Refit, train_on: Run, tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("Zed sees a quagga in Oslo .\nMary sold the blorks .\n", encoding="utf8")
    learn = ["--patience 1 --refit --teacher", done.output / "model-best", "--raw", tmp_path / "raw.txt"]
    said = worked(train_on("fit", "crf_ner", args=learn)).stdout
    assert said.count("Term teacher: 2 sequences") == 2
    assert (tmp_path / "out" / "model-refit").exists()


def test_an_error_of_the_second_training_comes_after_the_scores_of_the_first(train_on: Run, tmp_path: Path) -> None:
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    train.write_text("Ada NNP B-NP B-PER\nran VBD B-VP O\n\nit PRP B-NP O\nran VBD B-VP O\n\n" * 3)
    dev.write_text("Bo NNP B-NP B-PER\nsaw VBD B-VP O\nOslo NNP B-NP B-LOC\n\n")
    training = '\n[initialize]\n[initialize.components]\n[initialize.components.crf_ner]\nlabels = ["PER"]\n'
    corpora = ["--paths.train", train, "--paths.dev", dev]
    result = train_on("fit", "crf_ner", args=["--patience 1 --refit"], corpora=corpora, training=training)
    out = tmp_path / "out"
    refused(result, "the label 'U-LOC' is in the data but not among the component's labels", silent=False)
    for line in ("Scores on the dev corpus", f"Saved {out / 'model-best'}", "There is no model-refit"):
        assert line in result.stdout
    assert sorted(path.name for path in out.glob("model-*")) == MODELS[:2]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("end", [Killed, KeyboardInterrupt])
def test_a_refit_that_was_ended_in_the_second_training_can_be_resumed(
    end: type[BaseException], done: Refit, train_on: Run, run: Run, paths: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def kill(*args: Any) -> None:
        raise end

    args = ["--patience 1 --refit --from", done.output / "model-best"]
    monkeypatch.setattr(command, "CHECKPOINT_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(command, "train_on_both", kill)
        with pytest.raises(Killed) if end is Killed else nullcontext():
            said = train_on("fit", "crf_tagger", args=args).stdout
            assert "model-refit was not made. The same command with --resume makes it" in " ".join(said.split())
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint", "log.jsonl", *MODELS[:2]]
    before = pipe_of(spacy.load(out / "model-best"), "crf_tagger").crf.theta
    said = worked(run("fit", tmp_path / "c.cfg", "--resume --output", out, *args, *paths)).stdout
    assert "crf_tagger: goes on after iteration" in said
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", *MODELS]
    assert np.array_equal(pipe_of(spacy.load(out / "model-best"), "crf_tagger").crf.theta, before)


@pytest.mark.parametrize("place", ["encode", "fit", "save"])
def test_ctrl_c_in_the_second_training_keeps_the_models_of_the_first(
    place: str, train_on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = Training if place == "fit" else PipelineTraining
    method, calls = getattr(owner, place), list[Any]()

    def interrupt(*args: Any, **settings: Any) -> Any:
        calls.append(args)
        if len(calls) == (3 if place == "save" else 2):
            raise KeyboardInterrupt
        return method(*args, **settings)

    monkeypatch.setattr(owner, place, interrupt)
    result = train_on("fit", "crf_tagger", args=["--patience 1 --refit"])
    assert result.exit_code == 130, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["log.jsonl", *MODELS[:2]]
    assert f"Saved {tmp_path / 'out/model-best'}" in result.stdout
    said = " ".join(result.stdout.split())
    assert "Interrupted: model-best and model-last are complete; model-refit was not made." in said
    assert "The same command with --force trains both times" in said


def test_ctrl_c_in_the_first_training_says_that_there_is_no_second(
    train_on: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, method = list[Any](), Training.fit

    def interrupt(*args: Any, **settings: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return method(*args, **settings)

    monkeypatch.setattr(Training, "fit", interrupt)
    said = train_on("fit", "crf_tagger", "crf_chunker", args=["--patience 1 --refit"]).stdout
    assert "Interrupted: the best parameters so far are saved; model-refit was not made" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--paths.dev", ""], "there is none. Give --paths.dev, or leave --refit out"),
        (["--paths.dev", "TRAIN"], "most of it is in the training corpus"),
        (["--dask", "local:1"], "--refit trains in this process. Leave it out, or --dask"),
        (["--components.crf_tagger", '{"source": "MODEL"}'], "--refit trains from scratch, but 'crf_tagger' comes"),
    ],
)
def test_refits_that_are_refused(options: list[str], message: str, done: Refit, train_on: Run, corpus: Any) -> None:
    names = {"TRAIN": str(corpus.train), "MODEL": str(done.output / "model-best")}
    given = options
    for name, path in names.items():
        given = [option.replace(name, path) for option in given]
    refused(train_on("fit", "crf_tagger", args=["--refit", *given]), message, silent=False)


def test_a_refit_without_an_output_is_refused(done: Refit, run: Run) -> None:
    refused(run("fit", done.config, "--refit --cross-validate 2"), "--refit writes a model: give --output DIR, too")
