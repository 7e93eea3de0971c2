"""``crfseq self-train``: what it keeps of raw texts, which round it saves, and what it refuses."""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq.pipeline.labels import gold_tags
from spacy_crfseq.tools.self_train import Settings
from tests.commands import Corpus, Run, refused, sentence, worked, write_corpus

module = sys.modules["spacy_crfseq.tools.self_train"]  # the package has the function under this name
ALL = ("crf_tagger", "crf_chunker", "crf_ner")
LOCAL = (
    '[components.crf_ner.loss]\n@crf_losses = "spacy_crfseq.LocalLog.v1"\n'
    '[components.crf_ner.decoder]\n@crf_decoders = "spacy_crfseq.LocalViterbi.v1"\n'
)


@pytest.fixture(scope="module")
def files(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A few labelled sentences, and more raw ones."""
    folder, rng = tmp_path_factory.mktemp("raw"), random.Random(5)
    texts = (" ".join(line.split()[0] for line in sentence(rng)) for _ in range(60))
    (folder / "raw.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
    (folder / "empty.txt").write_text("\n", encoding="utf8")
    return {
        "train": write_corpus(folder / "train.conll", 12, 4), "dev": corpus.dev,
        "raw": folder / "raw.txt", "empty": folder / "empty.txt",
    }  # fmt: skip


@pytest.fixture
def learn(train_on: Run, files: dict[str, Path]) -> Run:
    def call(*factories: str, args: str = "--rounds 1", raw: str = "raw", dev: bool = True, **config: str) -> Any:
        corpora = ["--paths.train", files["train"], *(["--paths.dev", files["dev"]] if dev else []), "--raw"]
        return train_on("self-train", *factories, args=args.split(), corpora=[*corpora, files[raw]], **config)

    return call


def rows_of(result: Any) -> list[list[str]]:
    """Return the rows of the table: round, component, sentences, tokens, score and perhaps a star."""
    table = result.stdout.partition("Learned from raw text")[2].partition("Scores on the dev")[0]
    return [line.split() for line in table.splitlines() if line.strip()][1:]


def test_all_components_learn_and_the_best_round_is_saved(learn: Run, tmp_path: Path) -> None:
    rows = rows_of(worked(learn(*ALL, args="--rounds 2 --threshold 0.5")))
    assert [row[:2] for row in rows] == [[str(number), name] for number in range(3) for name in ALL]
    assert all(row[2:4] == ["0", "0"] for row in rows[:3])
    assert all(0 < int(row[2]) <= 60 and int(row[3]) > int(row[2]) for row in rows[3:])
    means = [np.mean([float(row[4]) for row in rows[first : first + 3]]) for first in (0, 3, 6)]
    chosen = int(np.argmax(means))
    assert [row[0] for row in rows if row[-1] == "*"] == [str(chosen)] * 3
    performance = spacy.load(tmp_path / "out" / "model-best").meta["performance"]
    keys = ("tag_acc", "spans_chunks_f", "ents_f")
    assert [f"{100 * performance[key]:.2f}" for key in keys] == [row[4] for row in rows if row[0] == str(chosen)]


@pytest.mark.parametrize("unit", ["sentence", "token"])
def test_labels_above_the_threshold_are_kept(
    unit: str, files: dict[str, Path], configure: Callable[..., Path], tmp_path: Path
) -> None:
    overrides = {"paths.train": str(files["train"]), "paths.dev": str(files["dev"])}
    setup = module.set_up(configure(tmp_path / "c.cfg", *ALL), tmp_path / "out", overrides, [], False)
    module.encode(setup)
    for pipe in setup.to_train.values():
        pipe.fit()
    texts = [setup.nlp.make_doc(line) for line in files["raw"].read_text(encoding="utf8").splitlines()]
    settings = Settings(0.8, unit, 3, 0.25, None, None)
    examples, kept = module.label(setup, texts, settings)
    by_text = {example.reference.text: example for example in examples}
    assert all(example.reference._.crf_weight == 0.25 for example in examples)
    n_texts = 0
    for name, pipe in setup.to_train.items():
        sentences = tokens = 0
        for doc in setup.nlp.pipe([doc.copy() for doc in texts], disable=[name]):
            best, rows = pipe.nbest(doc, 1)[0], np.arange(len(doc))
            of_tags = pipe.marginals(doc)[rows, [pipe.tags.index(tag) for tag in best.tags]]
            sure = of_tags >= 0.8 if unit == "token" else np.full(len(doc), best.probability >= 0.8)
            wanted = [tag if certain else None for tag, certain in zip(best.tags, sure, strict=True)]
            example = by_text.get(doc.text)
            assert (wanted if example else [None] * len(doc)) == (
                gold_tags(pipe.annotation, example, name) if example else wanted
            )
            sentences, tokens = sentences + bool(sure.any()), tokens + int(sure.sum())
            n_texts += bool(sure.any())
        assert kept[name] == (sentences, tokens)
    assert n_texts > 0


def test_it_ends_where_nothing_is_certain(learn: Run) -> None:
    result = worked(learn("crf_tagger", args="--threshold 1"), "No sentence reaches the threshold of 1. Lower --thre")
    assert [row[0] for row in rows_of(result)] == ["0"]


def test_an_interrupt_keeps_the_best_round(learn: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "label", interrupted)
    result = learn("crf_ner")
    assert result.exit_code == 130
    assert "Interrupted: the best parameters so far are saved" in result.stdout
    assert spacy.load(tmp_path / "out" / "model-best")("Ada sees a dog .").ents


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"args": "--unit word"}, "--unit word: unknown unit."),
        ({"dev": False}, "self-train chooses by the score on a dev corpus"),
        ({"raw": "empty"}, "empty.txt: no text in these files"),
        ({"components": LOCAL}, "self-train takes probabilities of a model that is normalised over whole sequences"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], message: str, learn: Run) -> None:
    refused(learn("crf_ner", **changes), message, silent=False)
