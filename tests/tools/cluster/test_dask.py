"""Training and tagging on a Dask cluster: objective, gradient, models and output of one process; lost workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_crfseq.errors import ClusterError, ConfigError, DataError, FormatError
from spacy_crfseq.pipeline import clusters
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.start_from import carry_over
from spacy_crfseq.pipeline.terms import reader_of
from spacy_crfseq.potentials import layout
from spacy_crfseq.tools.cluster import Dask
from spacy_crfseq.tools.cluster.workers import ShardFutures, gather, spread
from spacy_crfseq.tools.tag import TagSettings, tag
from spacy_crfseq.training.objective import Objective
from tests.commands import Run, refused


def kill_worker(client: Any) -> None:
    """Kill one of the workers, which a nanny starts anew."""
    pids = [nanny.pid for nanny in client.cluster.workers.values() if nanny.pid]
    os.kill(pids[0], getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has one of them


WORDS = ("Anna", "Zed", "saw", "Quux", "Town", "lends", "money", "to", "Blork", "in", "May", ".")
N_SENTENCES = 30


def corpus_text(seed: int, scheme: str = "IOB2", n: int = N_SENTENCES) -> str:
    """Return sentences of columns word, tag and chunk, some of which begin documents."""
    rng, lines = np.random.default_rng(seed), []
    for number in range(n):
        if number % 10 == 0:
            lines.append("-DOCSTART- X O\n")
        inside = False
        for word in rng.choice(len(WORDS), rng.integers(2, 9)):
            begins = WORDS[word][0].isupper()
            tag = "NNP" if begins else "VB" if word % 3 else "IN"
            chunk = f"{'I' if inside and begins else 'B'}-{'NP' if word % 2 else 'VP'}" if begins else "O"
            chunk = chunk if chunk[0] != "I" or (lines and lines[-1].split()[-1][2:] == chunk[2:]) else f"B{chunk[1:]}"
            lines.append(f"{WORDS[word]}{rng.integers(3)} {tag} {chunk}")
            inside = begins
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a training corpus in several files, another one, and raw text."""
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "train").mkdir()
    for number in range(3):
        (folder / "train" / f"{number}.conll").write_text(corpus_text(number), encoding="utf8")
    (folder / "other.conll").write_text(corpus_text(7, n=5), encoding="utf8")
    (folder / "raw.txt").write_text("".join(f"Zed saw Quux{n} in Town{n % 7} .\n" for n in range(50)), encoding="utf8")
    (folder / "labelled.txt").write_text("Zed\tB-NP=0.9\n", encoding="utf8")
    return folder


def pipeline(folder: Path, optimizer: dict[str, Any] | None = None, **component: Any) -> tuple[Language, CRFComponent]:
    """Return a pipeline that is not initialized, and its component."""
    reader = {"@readers": "spacy_crfseq.ConllReader.v1", "given": ["tag"]}
    default = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "tolerance": 1e-12, "gradient_tolerance": 1e-8}
    for term in component.get("terms", {}).values():
        if "path" in term["loss"]:
            term["loss"]["path"] = str(folder / "labelled.txt")
    settings = {"factory": "crf_chunker", "precision": "float64", "optimizer": optimizer or default, **component}
    config = Config(
        {
            "nlp": {"lang": "en", "pipeline": ["crf"]},
            "components": {"crf": settings},
            "corpora": {
                "train": {**reader, "path": str(folder / "train")},
                "dev": {**reader, "path": str(folder / "other.conll")},
                "raw": {"@readers": "spacy_crfseq.TextReader.v1", "path": str(folder / "raw.txt")},
            },
            "training": {"train_corpus": "corpora.train", "dev_corpus": "corpora.dev"},
        }
    )
    nlp = load_model_from_config(config, auto_fill=True)
    pipe = nlp.get_pipe("crf")
    assert isinstance(pipe, CRFComponent)
    return nlp, pipe


def initialize(nlp: Language, pipe: CRFComponent, client: Any = None) -> Objective:
    """Initialize a component from the corpora of the config; return its objective."""
    if client is not None:
        pipe.training.set(remote=Dask(client).training({}, None, lambda n, of: None))
    reader: Any = reader_of("", "corpora.train", nlp)
    pipe.initialize(lambda: reader.stream(nlp), nlp=nlp)
    with pipe.training.training_on() as (objective, _):
        return objective


def moved(first: CRFComponent, theta: Any, other: CRFComponent) -> Any:
    """Return parameters of a model as those of another with the same features in another order."""
    target = other.crf.at(np.zeros_like(other.crf.theta))
    carry_over(first.crf.at(theta), target)
    return target.theta


ENTROPY = {"corpus": "corpora.raw", "weight": 0.5, "loss": {"@crf_losses": "spacy_crfseq.Entropy.v1"}}
EXPECTATION = {
    "corpus": "corpora.raw",
    "loss": {"@crf_losses": "spacy_crfseq.GeneralizedExpectation.v1", "path": "labelled.txt"},
}
LABELLED = {"corpus": "corpora.dev", "weight": 2.0, "loss": {"@crf_losses": "spacy_crfseq.PointwiseLog.v1"}}
TEMPLATES = {
    "@crf_features": "spacy_crfseq.Templates.v1",
    "templates": ["LOWER[0]", "TAG[0]|TAG[1]"],
    "bigram_templates": ["LOWER[0]"],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all pairs of features and labels": {"support": "all", "boundaries": False},
    "all pairs where these are few": {"support": "auto"},
    "not all pairs where these are many": {"support": "auto"},
    "templates of label pairs": {"features": TEMPLATES, "n_threads": 2},
    "a frequency cut-off": {"min_count": 3},
    "a tag dictionary": {"tag_dictionary_size": 5, "tag_dictionary_min_count": 2},
    "raw text": {"terms": {"raw": ENTROPY}},
    "a second labelled corpus": {"terms": {"other": LABELLED, "raw": ENTROPY}},
    "a sum over the corpus": {"terms": {"raw": EXPECTATION}},
    "another loss": {"loss": {"@crf_losses": "spacy_crfseq.SequentialExp.v1"}},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_objective_and_gradient_are_those_of_one_process(
    name: str, corpora: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MANY_WEIGHTS", 100 if "many" in name else layout.MANY_WEIGHTS)
    alone, here = pipeline(corpora, **SETTINGS[name])
    nlp, there = pipeline(corpora, **SETTINGS[name])
    objective, shared = initialize(alone, here), initialize(nlp, there, client)
    assert here.tags == there.tags
    for block in (0, 1):
        assert set(here.crf.keys[block].tolist()) == set(there.crf.keys[block].tolist())
    rng = np.random.default_rng(0)
    theta = rng.normal(size=len(here.crf.theta)) / 4
    own = moved(here, theta, there)
    assert len(own) == len(theta)
    value, loss, gradient = objective.value_and_grad(theta)
    result, found_loss, found_gradient = shared.value_and_grad(own)
    np.testing.assert_allclose(
        [result, found_loss, shared.value(own)], [value, loss, objective.value(theta)], rtol=1e-12
    )
    np.testing.assert_allclose(found_gradient, moved(here, gradient, there), rtol=1e-9, atol=1e-12)


def test_models_are_equal(corpora: Path, client: Any) -> None:
    alone, here = pipeline(corpora, keep_names=True)
    reader: Any = reader_of("", "corpora.train", alone)
    here.initialize(lambda: reader.stream(alone), nlp=alone)
    result = here.fit()
    nlp, there = pipeline(corpora, keep_names=True)
    actual = there.fit_on(client, nlp)
    assert actual.history[-1].report.value == pytest.approx(result.history[-1].report.value, rel=1e-9)
    np.testing.assert_allclose(there.crf.theta, moved(here, here.crf.theta, there), atol=1e-5)
    assert sorted(there.doc_model.feature_names) == sorted(here.doc_model.feature_names)
    assert there.doc_model.largest_names() == here.doc_model.largest_names()
    doc, other = (pipeline("Anna1 saw Zed2 in Quux0 Town1 .") for pipeline in (nlp, alone))
    assert [str(span) for span in doc.spans["chunks"]] == [str(span) for span in other.spans["chunks"]]


def test_classes_of_words_that_any_shard_has_seen_are_kept_and_nothing_is_calibrated(
    corpora: Path, client: Any, tmp_path: Path
) -> None:
    names = "".join(f"{name}{n}\t{n % 3}\n" for name in ("Anna", "Quux", "Zed", "Town") for n in range(50))
    (tmp_path / "classes.tsv").write_text(f"{names}Dev\t1\n", encoding="utf8")
    classes = {"@crf_attributes": "spacy_crfseq.WordClasses.v1", "path": str(tmp_path / "classes.tsv"), "keep": "seen"}
    alone, here = pipeline(corpora, attributes={"classes": classes}, terms={"raw": ENTROPY})
    nlp, there = pipeline(corpora, attributes={"classes": classes}, terms={"raw": ENTROPY})
    initialize(alone, here)
    said = list[str]()
    there.training.set(calibrates=True, has_dev=False, report=said.append)
    initialize(nlp, there, client)
    own, other = (pipe.method.attributes["classes"].to_state() for pipe in (here, there))
    assert own == other
    assert 10 < own["n"] < 200
    there.training.fit()
    assert sum("probabilities are not calibrated. Give --paths.dev" in line for line in said) == 1


@pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD"])
def test_online_methods_are_mixed(optimizer: str, corpora: Path, client: Any) -> None:
    nlp, pipe = pipeline(corpora, {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1", "max_iterations": 4})
    reader: Any = reader_of("", "corpora.train", nlp)
    dev = list(reader(nlp))
    result = pipe.fit_on(client, nlp, dev)
    assert result.best_score is not None
    assert result.best_score > 0.9
    values = [progress.report.value for progress in result.history]
    assert values == sorted(values, reverse=True)
    again, other = pipeline(corpora, {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1", "max_iterations": 4})
    other.fit_on(client, again)
    np.testing.assert_array_equal(other.crf.theta, result.last)  # the same seed, the same shards


def test_lost_workers_change_nothing(corpora: Path, client: Any) -> None:
    nlp, pipe = pipeline(corpora)
    undisturbed = pipe.fit_on(client, nlp).last
    nlp, pipe = pipeline(corpora)
    killed: list[int] = []

    def kill(progress: Any) -> None:
        if progress.iteration in (2, 5):
            kill_worker(client)
            killed.append(progress.iteration)

    lost = pipe.fit_on(client, nlp, callback=kill).last
    assert killed == [2, 5]
    np.testing.assert_array_equal(lost, undisturbed)


def test_shards_are_spread_by_threads_and_move_as_little_as_they_can() -> None:
    assert spread([""] * 6, {"a": 1, "b": 2}) == ["b", "a", "b", "b", "a", "b"]
    homes = ["a", "b", "a", "b"]
    assert spread(homes, {"a": 1, "b": 1}) == homes
    assert spread(homes, {"b": 1}) == ["b"] * 4
    assert spread(["b"] * 4, {"b": 1, "c": 1}) == ["b", "b", "c", "c"]
    assert spread(homes, {"b": 1, "c": 1}) == ["c", "b", "c", "b"]
    assert spread(["a"], {"a": 1, "b": 1}) == ["a"]


def test_bad_files_are_named(corpora: Path, client: Any, tmp_path: Path) -> None:
    nlp, pipe = pipeline(corpora)
    bad = tmp_path / "bad.conll"
    bad.write_text(corpus_text(1) + "one column O\n\nonly two\n", encoding="utf8")
    nlp.config["corpora"]["train"]["path"] = str(tmp_path)
    line = bad.read_text(encoding="utf8").split("\n").index("only two") + 1
    with pytest.raises(DataError, match=rf"bad\.conll:{line}: 3 columns expected"):
        pipe.fit_on(client, nlp)


def test_unusable_input_is_refused_with_its_reason(corpora: Path, client: Any) -> None:
    for settings, message in (
        ({"max_features": 100}, "max_features"),
        ({"optimizer": {"@crf_optimizers": "spacy_crfseq.CoordinateDescent.v1"}}, "tokens of single features"),
    ):
        nlp, pipe = pipeline(corpora, **settings)
        with pytest.raises(ConfigError, match=message):
            pipe.fit_on(client, nlp)


def test_a_lost_scheduler_is_an_error_of_its_own() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    ) as local:
        lost = distributed.Client(local)
        cluster = ShardFutures(lost, 1, lambda line: None)
        lost.close()
        with pytest.raises(ClusterError, match="connection"):
            cluster.each(len)


# Tagging


@pytest.fixture(scope="module")
def model(trained: Path) -> Path:
    return trained / "model-best"


def write_texts(path: Path, size: int) -> Path:
    path.write_text("".join(f"Ada sees a dog in Oslo . Word{i}\n" for i in range(size)), encoding="utf8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_the_output_of_one_process(
    run: Run, model: Path, tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # workers have another working directory
    files = [write_texts(Path(f"{name}.txt"), 20 + i) for i, name in enumerate("abcde")]
    with files[1].open("ab") as file:
        file.write(b"\xff\n")
    address = client.scheduler.address
    result = run("tag", model, *files, "--output one --scores")
    done = run("tag", model, *files, "--output two --scores --dask", address)
    assert (done.exit_code, done.stderr) == (3, result.stderr)
    assert "b.txt:22: byte" in done.stderr
    assert "5 files: 110 texts, 880 tokens" in done.stdout
    assert "1 malformed line skipped" in done.stdout
    assert contents(Path("two")) == contents(Path("one"))
    again = run("tag", model, *files, "--output two --scores --dask", address)
    assert "5 complete already; 1 malformed line skipped, 1 of them earlier" in again.stdout
    strict = run("tag", model, *files, "--output three --strict --dask", address)
    refused(strict, "b.txt:22: byte")
    assert strict.stderr == run("tag", model, *files, "--output four --strict").stderr


def test_the_file_of_a_worker_that_dies(model: Path, tmp_path: Path, client: Any) -> None:
    files = [write_texts(tmp_path / f"{name}.txt", size) for name, size in (("a", 6_000), ("b", 100))]
    tag(TagSettings(str(model)), files, tmp_path / "one")

    def kill() -> None:
        while not any(path.stat().st_size for path in (tmp_path / "two").glob(".a.jsonl.*.part")):
            if done.wait(0.01):
                return
        kill_worker(client)
        killed.set()

    done, killed = threading.Event(), threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result = tag(TagSettings(str(model)), files, tmp_path / "two", dask=client)
    finally:
        done.set()
        killer.join()
    assert killed.is_set()
    assert result.new == result.counts
    assert result.new.texts == 6_100
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_other_files_are_left_when_one_fails(model: Path, tmp_path: Path, client: Any) -> None:
    (tmp_path / "a.jsonl").write_text("{no\n")
    files = [tmp_path / "a.jsonl", write_texts(tmp_path / "b.txt", 10_000)]
    with pytest.raises(FormatError, match=r"a\.jsonl:1: no JSON"):
        tag(TagSettings(str(model), strict=True), files, tmp_path / "out", dask=client)
    files[0].write_text("")
    write_texts(files[1], 10)
    done = tag(TagSettings(str(model), strict=True), files[1:], tmp_path / "out", force=True, dask=client)
    assert done.new.texts == 10


def die() -> None:
    os._exit(1)


def test_the_error_that_killed_a_worker_is_named(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(ClusterError, match=r"a\.txt: workers die of it"):
        gather(client, [client.submit(die)], "a.txt")


@pytest.mark.parametrize(("arguments", "message"), [
    ("a.txt -o out -j 2 --dask local:2", "leave --processes out"),
    ("a.txt -o out --dask local:x", "such as local:2"),
])  # fmt: skip
def test_options_that_cannot_work_are_refused(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").touch()
    refused(run("tag", model, *arguments.split()), message)


def test_nobody_answers(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.tools.cluster.TIMEOUT", 0.5)
    source = write_texts(tmp_path / "a.txt", 1)
    refused(run("tag", model, source, "-o", tmp_path / "out", "--dask tcp://127.0.0.1:9"), "no Dask scheduler answers")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer of Dask's own
def test_processes_that_do_not_start(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("dask.config")
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # new interpreters end at once
    source = write_texts(tmp_path / "a.txt", 1)
    with config.set({"distributed.worker.multiprocessing-method": "spawn"}):
        refused(run("tag", model, source, "-o", tmp_path / "out", "--dask local:1"), "local:1: processes have ended")


UNASKED = """
import sys
import spacy
from spacy_crfseq.cli.program import crfseq_cli
source, target, model = sys.argv[1:]
crfseq_cli(["tag", model, source, "--output", target], standalone_mode=False)
assert not {"dask", "distributed"} & set(sys.modules)
for name in ("dask", "distributed"):
    sys.modules[name] = None  # as if it were not installed
crfseq_cli(["tag", model, source, "--output", target, "--force", "--dask", "local:2"], standalone_mode=False)
"""


def test_dask_is_imported_only_if_asked_for(model: Path, tmp_path: Path) -> None:
    call = [sys.executable, "-c", UNASKED, write_texts(tmp_path / "a.txt", 1), tmp_path / "a.jsonl", model]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "1 text" in done.stdout) == (1, True), done.stderr
    assert "pip install 'spacy-crfseq[dask]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_room_of_clusters(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "entry_points", lambda group: [])
    with pytest.raises(ConfigError, match=r"--dask: nothing is installed .*spacy-crfseq\[dask\]"):
        tag(TagSettings(str(model)), [write_texts(tmp_path / "a.txt", 1)], tmp_path / "out", dask="host")
