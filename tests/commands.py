"""A corpus of made-up sentences, a config to train on it, and a runner of commands in this process."""

import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from spacy_crfseq.corpora.layouts import read_preset

Run = Callable[..., Any]

CONFIG = """
[paths]
train = null
dev = null

[nlp]
lang = "xx"
pipeline = {pipeline}

[components]
{components}

[corpora]

[corpora.train]
@readers = "spacy_crfseq.ConllReader.v1"
path = ${{paths.train}}
columns = ["word", "tag", "chunk", "ent"]
given = {given}

[corpora.dev]
@readers = "spacy_crfseq.ConllReader.v1"
path = ${{paths.dev}}
columns = ["word", "tag", "chunk", "ent"]
given = {given}

[training]
seed = 1
{training}

[training.batcher]
@batchers = "spacy_crfseq.full_batch.v1"
"""

LBFGS = '[components.{name}.optimizer]\n@crf_optimizers = "spacy_crfseq.LBFGS.v1"\n'
ENDLESS = (
    '[components.{name}.optimizer]\n@crf_optimizers = "spacy_crfseq.SGD.v1"\nmax_iterations = 100000000\n'
    "tolerance = 0.0\n"
)

NAMES = ["Ada", "Mary", "Bo", "Ines", "Karl", "Olga"]
PLACES = ["Oslo", "Lima", "Turin", "Quito"]
NOUNS = ["dog", "train", "engine", "letter", "map"]
ADJECTIVES = ["old", "blue", "quick", "small"]
VERBS = ["sees", "finds", "sold", "paints"]


CRFSEQ = ["-W", "error", "-c", "from spacy.cli import setup_cli; setup_cli()", "crfseq"]
"""How Python calls a command in a process of its own, see `forks`."""

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT for one process, modes and locks of files")


def refused(result: Any, *parts: str, silent: bool = True) -> None:
    """Check that a command has ended with a paragraph on stderr, the exit code 1 and, if silent, an empty stdout."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == "" or not silent
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr
    assert not any(ord(char) < 32 and char != "\n" for char in result.stderr.expandtabs())


def worked(result: Any, *parts: str) -> Any:
    """Return the result of a command that has worked and said this on stdout."""
    assert result.exit_code == 0, result.stderr
    for part in parts:
        assert part in result.stdout
    return result


class Corpus(NamedTuple):
    train: Path
    dev: Path


def sentence(rng: random.Random) -> list[str]:
    """Return token lines "word tag chunk ent"; some words have two tags, so that nothing is learnt perfectly."""
    lines = []
    name, place = rng.choice(NAMES), rng.choice(PLACES)
    if rng.random() < 0.6:
        lines += [f"{name} NNP B-NP B-PER"]
        if rng.random() < 0.5:
            lines += [f"{rng.choice(NAMES)}son NNP I-NP I-PER"]
    else:
        lines += ["the DT B-NP O", f"{rng.choice(NOUNS)} NN I-NP O"]
    lines += [f"{rng.choice(VERBS)} VBZ B-VP O", "a DT B-NP O"]
    if rng.random() < 0.4:
        lines += [f"{rng.choice(ADJECTIVES)} JJ I-NP O"]
    lines += [f"{rng.choice(NOUNS)} {rng.choice(['NN', 'NN', 'NN', 'VB'])} I-NP O"]
    if rng.random() < 0.7:
        lines += ["in IN B-PP O", f"{place} NNP B-NP {rng.choice(['B-LOC', 'B-LOC', 'B-LOC', 'B-ORG'])}"]
    return [*lines, ". . O O"]


def write_corpus(path: Path, size: int, seed: int) -> Path:
    rng = random.Random(seed)
    path.write_text("".join("\n".join(sentence(rng)) + "\n\n" for _ in range(size)), encoding="utf8")
    return path


def write_trees(source: Path, target: Path) -> None:
    """Write the words and tags of a corpus as CoNLL-U, with the first verb as the root."""
    with target.open("w", encoding="utf8") as file:
        for sentence in read_preset(source, "conll2003"):
            tags = sentence.columns["tag"]
            root = next((i for i, tag in enumerate(tags) if tag.startswith("VB")), 0)
            for i, (word, tag) in enumerate(zip(sentence.words, tags, strict=True)):
                head, relation = (0, "root") if i == root else (root + 1, "dep")
                print(i + 1, word, "_", "_", tag, "_", head, relation, "_", "_", sep="\t", file=file)
            print(file=file)


def write_attributes(source: Path, target: Path) -> None:
    """Write a corpus as CRFsuite's items: a label and attributes a line."""
    with target.open("w", encoding="utf8") as file:
        for sentence in read_preset(source, "conll2003"):
            tags = sentence.columns["tag"]
            for word, tag, label in zip(sentence.words, tags, sentence.columns["chunk"], strict=True):
                names = (re.sub(r"([\\:])", r"\\\1", name) for name in (f"w={word}", f"t={tag}"))
                print(label, *names, sep="\t", file=file)
            print(file=file)


FEATURES = """
def word2features(sentence, i):
    word = str(sentence[i])
    return {"word": word, "length": len(word) / 10, "title": word.istitle()}
"""
REGISTERED = """
from spacy_crfseq import registry

@registry.features("my_project.word2features.v1")
def create():
    return word2features
"""
WAPITI = "#mdl#2#2\n#rdr#1/0/0\n11:u:w=%x[0,0],\n#qrk#2\n1:A,\n1:B,\n#qrk#1\n5:u:w=x,\n1=0x1p+2\n0=0x1p+1\n"


def write_models(folder: Path) -> None:
    """Write a model of CRFsuite, the code of its features, and a model of Wapiti."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    (folder / "features.py").write_text(FEATURES + REGISTERED)
    (folder / "model.wapiti").write_text(WAPITI)
    functions: dict[str, Any] = {}
    exec(FEATURES, functions)
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20})
    for words, labels in ((["Ada", "saw", "it"], ["B-X", "O", "O"]), (["it", "saw", "Bo"], ["O", "O", "B-X"])):
        trainer.append([functions["word2features"](words, i) for i in range(3)], labels)
    trainer.train(str(folder / "model.crfsuite"))


def write_config(path: Path, *factories: str, components: str = "", training: str = "", given: str = "[]") -> Path:
    """Write a config with a component for each factory, under its own name."""
    blocks = "".join(f'[components.{name}]\nfactory = "{name}"\n' for name in factories)
    pipeline = str(list(factories)).replace("'", '"')
    text = CONFIG.format(pipeline=pipeline, components=blocks + components, training=training, given=given)
    path.write_text(text, encoding="utf8")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    return Corpus(write_corpus(folder / "train.conll", 120, 1), write_corpus(folder / "dev.conll", 40, 2))


@pytest.fixture(scope="session")
def paths(corpus: Corpus) -> list[str]:
    """The overrides that name the corpora."""
    return ["--paths.train", str(corpus.train), "--paths.dev", str(corpus.dev)]


def invoke(*args: object, stdin: bytes = b"") -> Any:
    """Run ``crfseq ARGS`` in this process; several options may be in one string, with spaces between."""
    from spacy_crfseq.cli.program import crfseq_cli

    split = (arg.split() if isinstance(arg, str) and arg.startswith("-") else [str(arg)] for arg in args)
    return CliRunner().invoke(crfseq_cli, [word for words in split for word in words], input=stdin)


@pytest.fixture(scope="session")
def run() -> Run:
    return invoke


@pytest.fixture
def train_on(run: Run, paths: list[str], tmp_path: Path) -> Run:
    """Run a command on a config with some components, for tmp_path / "out"; args are its further arguments."""

    def call(command: str, *factories: str, args: Sequence[object] = (), corpora: Any = paths, **config: str) -> Any:
        written = write_config(tmp_path / "c.cfg", *factories, **config)
        return run(command, written, "--force --output", tmp_path / "out", *corpora, *args)

    return call


@pytest.fixture(scope="session")
def configure() -> Callable[..., Path]:
    return write_config


@pytest.fixture(scope="session")
def optimizers() -> dict[str, str]:
    """Blocks for a component's optimizer: batch, and one that never ends."""
    return {"lbfgs": LBFGS, "endless": ENDLESS}


@pytest.fixture(scope="session")
def trained(corpus: Corpus, paths: list[str], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of all three components, the tagger's output being input of the chunker."""
    folder = tmp_path_factory.mktemp("trained")
    names, training = ("crf_tagger", "crf_chunker", "crf_ner"), 'annotating_components = ["crf_tagger"]'
    block = LBFGS.format(name="crf_chunker")
    config = write_config(folder / "all.cfg", *names, components=block, training=training)
    result = worked(run("fit", config, "--output", folder / "out", *paths))
    (folder / "stdout.txt").write_text(result.stdout, encoding="utf8")
    return folder / "out"


@pytest.fixture(scope="session")
def local(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recognizer that is normalised at each token, and so has no probabilities."""
    import spacy

    from spacy_crfseq.pipeline.corpus_reader import read_examples

    nlp = spacy.blank("xx")
    loss, decoder = {"@crf_losses": "spacy_crfseq.LocalLog.v1"}, {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"}
    pipe: Any = nlp.add_pipe("crf_ner", config={"loss": loss, "decoder": decoder})
    nlp.initialize(lambda: list(read_examples(nlp, corpus.train, "conll2003")))
    pipe.fit()
    folder = tmp_path_factory.mktemp("local") / "model"
    nlp.to_disk(folder)
    return folder
