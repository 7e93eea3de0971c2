"""``crfseq weigh``: what it shows, the files that it writes, and training on them and through the reader."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.pipeline.readers import create_annotation_reader, create_conll_reader
from tests.commands import CONFIG, Corpus, Run, refused, worked

LABELLED = "-DOCSTART- -X-\n\n{}Oslo NNP\nlies VBZ\n\n"
SAYS = "Anna\tNNP\nsays\tVBZ\n\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    train, raw = tmp_path / "train.conll", tmp_path / "raw.conll"
    train.write_text(LABELLED.format(SAYS * 3))
    raw.write_text("Anna X\nsays X\n\n" + "Oslo X\nlies X\n\n" * 3)
    return train, raw


def test_the_table_and_a_file_with_weights(files: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    train, raw = files
    args = (train, "--columns word,tag --by counts --target", raw)
    result = worked(run("weigh", *args, "--output", tmp_path / "out.conll"), "4 labelled texts, 4 texts of the target")
    assert "Effective sample size: 1.7 (42.9%)" in result.stdout
    assert "3 Oslo lies" in " ".join(result.stdout.split())
    assert "--columns word,tag,weight" in result.stdout
    expected = "-DOCSTART- -X- _\n\n" + "Anna\tNNP\t0.333333\nsays\tVBZ\t_\n\n" * 3 + "Oslo NNP 3\nlies VBZ _\n\n"
    assert (tmp_path / "out.conll").read_text() == expected
    reader = create_conll_reader(tmp_path / "out.conll", ["word", "tag", "weight"])
    weights = [example.reference._.crf_weight for example in reader(spacy.blank("en"))]
    assert weights == pytest.approx([1 / 3] * 3 + [3], rel=1e-5)
    refused(run("weigh", *args, "--output", tmp_path / "out.conll"), "exists")


def test_binary_files_and_exports_get_weights(files: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    train, raw = files
    spacy_file, jsonl, weighted = tmp_path / "w.spacy", tmp_path / "train.jsonl", tmp_path / "w.jsonl"
    worked(run("weigh", train, "--columns word,tag --by counts --target", raw, "--output", spacy_file))
    docs = DocBin().from_disk(spacy_file).get_docs(spacy.blank("en").vocab)
    assert [doc._.crf_weight for doc in docs] == pytest.approx([1 / 3] * 3 + [3], rel=1e-5)
    lines = [{"text": "Anna says", "answer": "accept", "weight": 2}, {"text": "no", "answer": "ignore"}]
    lines += [{"text": "Oslo lies", "answer": "accept", "key": "é"}]
    jsonl.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(UserWarning, match="ignored"):
        worked(run("weigh", jsonl, "--by counts --target", raw, "--output", weighted))
    rows = [json.loads(line) for line in weighted.read_text(encoding="utf8").splitlines()]
    assert rows == [{**lines[0], "weight": 1.0}, {**lines[2], "weight": 1.5}]
    examples = create_annotation_reader(weighted)(spacy.blank("en"))
    assert [example.reference._.crf_weight for example in examples] == [1, 1.5]


def test_several_files_get_the_weights_of_one(files: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    """Also where a file lacks the blank line at its end."""
    _, raw = files
    parts, columns = tmp_path / "parts", "--columns word,tag --by counts --target"
    parts.mkdir()
    for name, text in (("a", SAYS.rstrip("\n")), ("b", SAYS * 2), ("c", "Oslo\tNNP\nlies\tVBZ\n")):
        (parts / f"{name}.conll").write_text(text)
    worked(run("weigh", parts, columns, raw, "--output", tmp_path / "out.conll"))
    rows = "Anna\tNNP\t0.333333\nsays\tVBZ\t_\n\n" * 3 + "Oslo\tNNP\t3\nlies\tVBZ\t_\n"
    assert (tmp_path / "out.conll").read_text().replace("\n\n\n", "\n\n") == rows
    for name, text in (("a", "Anna says"), ("b", "Oslo lies")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": text, "answer": "accept"}) + "\n")
    worked(run("weigh", tmp_path / "*.jsonl", "--by counts --target", raw, "--output", tmp_path / "out.jsonl"))
    result = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(entry["text"], entry["weight"]) for entry in result] == [("Anna says", 0.5), ("Oslo lies", 1.5)]


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("--by cluster", ["unknown weighting", "clusters"]),
        ("--by ratio -k 3", ["has no setting 'k'"]),
        ("--by counts --observation words", ["observation"]),
        ("--cap 0.5", ["cap must be 0 (none) or more than 1"]),
    ],
)
def test_options_that_do_not_fit_are_refused(files: tuple[Path, Path], option: str, parts: list[str], run: Run) -> None:
    refused(run("weigh", files[0], "--columns word,tag --target", files[1], option), *parts)


def test_training_through_the_reader(corpus: Corpus, paths: list[str], tmp_path: Path, run: Run) -> None:
    reader = '@readers = "spacy_crfseq.ConllReader.v1"\npath = {}\ncolumns = ["word", "tag", "chunk", "ent"]\n'
    weighted = (
        '[corpora.train]\n@readers = "spacy_crfseq.WeightedReader.v1"\n\n'
        '[corpora.train.weighting]\n@crf_weightings = "spacy_crfseq.Clusters.v1"\nk = 2\n\n'
        f"[corpora.train.corpus]\n{reader.format('${paths.train}')}\n"
        f"[corpora.train.target]\n{reader.format(corpus.dev)}\n[corpora.dev]"
    )
    block = '[components.crf_tagger]\nfactory = "crf_tagger"\n'
    text = CONFIG.format(pipeline='["crf_tagger"]', components=block, training="", given="[]")
    begin, end = text.index("[corpora.train]"), text.index("[corpora.dev]")
    (tmp_path / "c.cfg").write_text(text[:begin] + weighted + text[end + len("[corpora.dev]") :])
    worked(run("fit", tmp_path / "c.cfg", "--output", tmp_path / "out", *paths))
    assert (tmp_path / "out" / "model-best" / "config.cfg").is_file()
    result = worked(
        run("debug-data", corpus.train, "--config", tmp_path / "c.cfg")
    )  # takes the place of the inner file
    assert "crf_tagger" in result.stdout
