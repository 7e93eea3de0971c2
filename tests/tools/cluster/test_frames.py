"""Frames annotated by dask.dataframe, dask.bag and Spark have what the pipeline finds."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.readers import read_examples
from spacy_crfseq.tools.cluster.frames import FrameAnnotator

pd = pytest.importorskip("pandas")

TEXTS = ["Ada sees Oslo .", "the old map", "Mary paints a letter in Lima .", None, "Oslo"]
LINES = (
    "Ada NNP B-NP B-PER\nsees VBZ B-VP O\nOslo NNP B-NP B-LOC\n\n"
    "Mary NNP B-NP B-PER\nin IN B-PP O\nLima NNP B-NP B-LOC\n\n"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "train.conll").write_text(LINES * 5)
    nlp = spacy.blank("xx")
    for name in ("crf_tagger", "crf_ner"):
        nlp.add_pipe(name)
    nlp.initialize(lambda: list(read_examples(nlp, folder / "train.conll", "conll2003")))
    for _, pipe in nlp.pipeline:
        pipe.fit()
    nlp.to_disk(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def nlp(model: Path) -> Language:
    return spacy.load(model)


@pytest.fixture
def frame() -> Any:
    return pd.DataFrame({"text": TEXTS, "id": range(10, 15)}, index=list("abcde"))


def spans(nlp: Language) -> list[tuple[Any, ...]]:
    return [
        (10 + i, "ents", span.label_, span.start_char, span.end_char, span.text)
        for i, text in enumerate(TEXTS) if text for span in nlp(text).ents
    ]  # fmt: skip


def test_spans(model: Path, nlp: Language, frame: Any) -> None:
    annotate = pickle.loads(pickle.dumps(FrameAnnotator(model, keep=["id"], scores=True)))
    found = annotate(frame)
    assert list(found.columns) == ["id", "layer", "label", "start", "end", "span", "score"]
    assert [tuple(row)[1:-1] for row in found.itertuples()] == spans(nlp)
    assert len(found) >= 4
    assert [frame.id[label] for label in found.index] == list(found.id)
    assert found.score.between(0, 1).all()
    pd.testing.assert_frame_equal(annotate(frame[:0]), found[:0])


def test_tokens(model: Path, nlp: Language, frame: Any) -> None:
    found = FrameAnnotator(model, keep=["id"], tokens=["tag"])(frame)
    expected = [
        (10 + i, token.text, token.idx, token.idx + len(token), token.tag_)
        for i, text in enumerate(TEXTS) if text for token in nlp(text)
    ]  # fmt: skip
    assert [tuple(row)[1:] for row in found.itertuples()] == expected


def test_refused(model: Path, frame: Any) -> None:
    with pytest.raises(ConfigError, match=r"no column 'words' \(it has text, id\)"):
        FrameAnnotator(model, "words")(frame)
    with pytest.raises(ConfigError, match="does not set lemma"):
        FrameAnnotator(model, tokens=["lemma"])(frame)
    with pytest.raises(ConfigError, match="no such folder"):
        FrameAnnotator("nowhere")


def test_dask_dataframe(model: Path, nlp: Language, frame: Any) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    annotate = FrameAnnotator(model, keep=["id"])
    parts = dataframe.from_pandas(frame, npartitions=2)
    found = parts.map_partitions(annotate, meta=annotate(parts._meta)).compute(scheduler="threads")
    assert [tuple(row)[1:] for row in found.itertuples()] == spans(nlp)


def test_dask_bag(model: Path, nlp: Language) -> None:
    bag = pytest.importorskip("dask.bag")
    annotate, texts = FrameAnnotator(model), [text for text in TEXTS if text]
    entries = bag.from_sequence(texts, npartitions=2).map_partitions(annotate.entries).compute(scheduler="threads")
    assert [entry["text"] for entry in entries] == texts
    assert [[ent["label"] for ent in entry["ents"]] for entry in entries] == [
        [ent.label_ for ent in nlp(text).ents] for text in texts
    ]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark(model: Path, nlp: Language, frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    annotate = FrameAnnotator(model, keep=["id"], scores=True)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        texts = session.createDataFrame(list(zip(TEXTS, frame.id.tolist(), strict=True)), "text string, id long")
        rows = texts.mapInPandas(annotate.each, schema=f"id long, {annotate.schema}").collect()
    finally:
        session.stop()
    assert sorted(tuple(row)[:-1] for row in rows) == sorted(spans(nlp))
