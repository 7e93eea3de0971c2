"""Commands say the same of texts with line breaks between and inside of their names as of texts without."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.cli.train import train
from spacy.tokens import DocBin

from spacy_crfseq.cli.fit import fit
from spacy_crfseq.corpora.guessing import find_layout
from spacy_crfseq.pipeline import calibration
from spacy_crfseq.pipeline.clusters import Workers
from spacy_crfseq.pipeline.gold_file import read_gold
from spacy_crfseq.tools.active import active
from spacy_crfseq.tools.calibrate import calibrate
from spacy_crfseq.tools.debug_data import debug_data
from spacy_crfseq.tools.evaluate import evaluate
from spacy_crfseq.tools.models.exported import exported_model, write_exported
from spacy_crfseq.tools.prune import prune
from spacy_crfseq.tools.tag import TagSettings, tag
from tests.commands import Run, worked, write_corpus
from tests.pipeline.helpers import inputs, pipe_of, registered, templates, trained
from tests.pipeline.test_white_space import with_space

KINDS = ("plain", "spaced")
SPEEDS = ("tokens", "seconds", "tagging_seconds", "words_per_second", "tokens_per_second", "speed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a corpus of each kind."""
    root: Path = tmp_path_factory.mktemp("white_space")
    rng, nlp = random.Random(0), spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    for number, (part, size) in enumerate((("train", 40), ("dev", 20))):
        file = write_corpus(root / f"{part}.conll", size, number)
        docs = [example.reference for example in read_gold(nlp, file, find_layout(file).layout, ()).examples]
        for doc in docs:
            doc.has_unknown_spaces = False
        # a token of white space for each word: `spacy train` sorts examples by their numbers of tokens
        spaced = [with_space(doc, [rng.choice(["\n", "  ", "\t"]) for _ in doc]) for doc in docs]
        for kind, made in zip(KINDS, (docs, spaced), strict=True):
            (root / kind).mkdir(exist_ok=True)
            DocBin(docs=made).to_disk(root / kind / f"{part}.spacy")
    return root


def config_of(folder: Path, run: Run) -> None:
    for kind in KINDS:
        at = folder / kind
        if not (at / "ner.cfg").exists():
            options = ("--task", "ner", "--lang", "xx", "--goal", "fast")
            worked(
                run("init-config", at / "ner.cfg", *options, "--train", at / "train.spacy", "--dev", at / "dev.spacy")
            )
        if not (at / "fit").exists():
            fit(at / "ner.cfg", at / "fit")


@pytest.fixture
def both(folder: Path, run: Run) -> list[Path]:
    config_of(folder, run)
    return [folder / kind for kind in KINDS]


def theta(model: Path) -> Any:
    return spacy.load(model).get_pipe("crf_ner").crf.theta  # type: ignore[attr-defined]


def same(results: list[Any]) -> None:
    assert results[0] == results[1]


def test_fit(both: list[Path]) -> None:
    np.testing.assert_array_equal(*(theta(at / "fit" / "model-best") for at in both))


def test_fit_on_a_cluster(both: list[Path], client: Any) -> None:
    for at in both:
        fit(at / "ner.cfg", at / "cluster", workers=Workers(client))
    np.testing.assert_array_equal(*(theta(at / "cluster" / "model-best") for at in both))


def test_train(both: list[Path]) -> None:
    for at in both:
        train(at / "ner.cfg", at / "train")
    np.testing.assert_array_equal(*(theta(at / "train" / "model-best") for at in both))


def test_prune(both: list[Path]) -> None:
    for at in both:
        prune(str(at / "fit" / "model-best"), at / "pruned")
    np.testing.assert_array_equal(*(theta(at / "pruned") for at in both))


@pytest.mark.parametrize("raw", [False, True])
def test_evaluate(both: list[Path], raw: bool) -> None:
    def scores(at: Path) -> Any:
        corpus = at / "train.spacy"
        metrics = evaluate(str(at / "fit" / "model-best"), at / "dev.spacy", corpus=corpus, raw=raw).metrics
        for block in (metrics, *(metrics[form] for form in ("raw", "unsplit") if form in metrics)):
            for name in SPEEDS:
                block.pop(name, None)
        return metrics

    same([scores(at) for at in both])


def test_report(both: list[Path], run: Run) -> None:
    def figures(at: Path) -> Any:
        options = (at / "fit" / "model-best", at / "dev.spacy", "--corpus", at / "train.spacy", "--json")
        rows = json.loads(worked(run("report", *options, "--output", at / "report.html")).stdout)
        return {name: figure for name, figure in rows["crf_ner"].items() if name not in ("worst", "log")}

    same([figures(at) for at in both])


def test_calibrate(both: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "WRONG", 1)
    monkeypatch.setattr(calibration, "FEW", 10)
    same([calibrate(str(at / "fit" / "model-best"), at / "dev.spacy", output=at / "calibrated") for at in both])


def test_active(both: list[Path]) -> None:
    def chosen(at: Path) -> Any:
        tasks = active(str(at / "fit" / "model-best"), at / "dev.spacy").tasks
        return [(task["meta"]["score"], [span["score"] for span in task["spans"]]) for task in tasks]

    same([chosen(at) for at in both])


def test_debug_data(both: list[Path]) -> None:
    def counts(at: Path) -> Any:
        report = debug_data(at / "train.spacy", at / "dev.spacy")
        return [(part.lengths, part.words, part.repeated, part.odd.count, part.columns["ent"].spans)
                for part in report.parts.values()]  # fmt: skip

    same([counts(at) for at in both])


def test_tag(both: list[Path]) -> None:
    def spans(at: Path) -> Any:
        tag(TagSettings(str(at / "fit" / "model-best"), scores=True), [at / "dev.spacy"], at / "tagged.jsonl")
        lines = map(json.loads, (at / "tagged.jsonl").read_text("utf8").splitlines())
        return [
            [(line["text"][e["start"] : e["end"]].split(), e["label"], e["score"]) for e in line["ents"]]
            for line in lines
        ]

    same([spans(at) for at in both])


def test_tag_as_conllu(both: list[Path], run: Run) -> None:
    def rows(at: Path) -> Any:
        options = (at / "fit" / "model-best", at / "dev.spacy", "--scores", "-o", at / "tagged.conllu")
        worked(run("tag", *options))
        lines = (at / "tagged.conllu").read_text("utf8").splitlines()
        return [line.split("\t")[1:] for line in lines if line[:1].isdigit()]

    result = [rows(at) for at in both]
    same(
        [
            [[row[0], *[field for field in row[-1].split("|") if field.startswith("Ent")]] for row in rows]
            for rows in result
        ]
    )


def test_raw_text(both: list[Path]) -> None:
    result, model = [], str(both[0] / "fit" / "model-best")
    for at, text in zip(
        both, ("Mary Adason sees a dog in Oslo .", "  Mary \t Adason  sees a dog in  Oslo ."), strict=True
    ):
        (at / "raw.txt").write_text(text + "\n", encoding="utf8")
        tag(TagSettings(str(model), scores=True), [at / "raw.txt"], at / "raw.jsonl")
        output = json.loads((at / "raw.jsonl").read_text("utf8"))
        result.append([(output["text"][e["start"] : e["end"]].split(), e["label"], e["score"]) for e in output["ents"]])
    assert len(result[0]) == 2
    same(result)


def test_annotations(both: list[Path]) -> None:
    """The spans of a JSONL file may have line breaks in them, for `debug-data` and for `evaluate`."""
    text, names = "Mary Adason sees a dog in Oslo .", [("Mary Adason", "PER"), ("Oslo", "LOC")]
    collected = list[Any]()
    for at, gap in zip(both, (" ", " \n"), strict=True):
        spans = [
            {"start": (begin := text.replace(" ", gap).index(name.replace(" ", gap))), "label": label,
             "end": begin + len(name.replace(" ", gap))} for name, label in names
        ]  # fmt: skip
        (at / "gold.jsonl").write_text(json.dumps({"text": text.replace(" ", gap), "spans": spans}) + "\n", "utf8")
        (part,) = debug_data(at / "gold.jsonl").parts.values()
        metrics = evaluate(str(both[0] / "fit" / "model-best"), at / "gold.jsonl").metrics
        collected.append(
            (part.lengths, part.odd.count, part.columns["ent"].spans, metrics["ents_f"], metrics["token_label_acc"])
        )
    same(collected)


@pytest.mark.parametrize("features", ["Templates", "TemplateFile"])
def test_export(folder: Path, features: str) -> None:
    lines = "U00:%x[-1,0]\nU01:%x[0,0]/%x[1,0]\nB\n"
    (folder / "template").write_text(lines)
    wapiti = features == "TemplateFile"
    pattern = registered("features", features, path=str(folder / "template"), columns=["word", "tag"])
    block = pattern if wapiti else templates("LOWER[-1..1]")
    nlp = trained(features=block)
    docs = [doc for doc in inputs(nlp, "crf_ner") if len(doc)]
    spaced = [with_space(doc, ["\n", "", "  ", "\t"] * 4) for doc in docs]
    for name, texts in (("plain", docs), ("spaced", spaced)):
        write_exported(folder / f"{name}.model", exported_model(pipe_of(nlp), texts, wapiti=wapiti))
    assert (folder / "plain.model").read_bytes() == (folder / "spaced.model").read_bytes()
