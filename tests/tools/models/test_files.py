"""Files of models of CRFsuite and Wapiti: any model comes back or is refused, as is a damaged file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language

from spacy_crfseq import CRF
from spacy_crfseq.corpora import saved_models
from spacy_crfseq.corpora.saved_models import (
    NO_WEIGHTS,
    NamedWeights,
    SavedModel,
    read_crfsuite_model,
    read_saved_model,
    read_wapiti_model,
    write_crfsuite_model,
    write_wapiti_model,
)
from spacy_crfseq.errors import DataError, ModelFileError
from spacy_crfseq.tools.models.imported import import_pipeline
from spacy_crfseq.tools.models.settings import ImportSettings
from tests.pipeline.helpers import pipe_of
from tests.tools.models.programs import WAPITI, as_dict


class Files(NamedTuple):
    """A model of CRFsuite, and one of Wapiti."""

    binary: Path
    wapiti: Path

    def read(self, file: Path) -> SavedModel:
        return read_wapiti_model(file) if file.suffix == ".wapiti" else read_crfsuite_model(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    result = Files(*(tmp_path_factory.mktemp("models") / f"model.{name}" for name in ("crfsuite", "wapiti")))
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 10, "c2": 0.1})
    for labels in (["B-X", "é"], ["é", "O"], ["O", "B-X"]):
        trainer.append([["a", "two\nlines"], {"c": labels[1], "d --> e: ": 0.5, "Ж": True}], labels)
    trainer.train(str(result.binary))
    result.wapiti.write_text(WAPITI, encoding="utf8")
    return result


ODD = [
    "",
    "A",
    "B-X",
    "u",
    "u:w=x",
    "b",
    "b:t=y",
    "*:p=z",
    "x:1",
    "a\0b",
    "\ud800",
    "é",
    "\\xc3\\xa9",
    "\\xc3",
    "1:a,",
    "\n",
]


NAMES = st.sampled_from(ODD) | st.text(max_size=4)


WEIGHTS = st.sampled_from([0.0, 0.5, -2.0, 1e-310, 1e300, np.inf, -np.inf, np.nan])


@st.composite
def models(draw: st.DrawFn) -> SavedModel:
    """Draw a model of any names and weights, most of which no format can hold."""
    labels, n = draw(st.lists(NAMES, max_size=3)), 0
    n = len(labels)

    def table(width: int) -> NamedWeights:
        names = draw(st.lists(NAMES, max_size=3))
        cells = draw(st.lists(st.integers(0, len(names) * width - 1), unique=True)) if names and width else []
        rows, columns = np.divmod(np.array(cells, np.int64), max(1, width))
        return NamedWeights(names, rows, columns, np.array([draw(WEIGHTS) for _ in cells], np.float64))

    steps = np.array([draw(WEIGHTS) for _ in range(n * n)]).reshape(n, n)
    pairs = draw(st.sampled_from([NO_WEIGHTS, table(n * n)]))
    return SavedModel(labels, table(n), pairs, steps, draw(st.none() | st.lists(NAMES, max_size=3)))


@settings(max_examples=200)
@given(
    model=models(),
    name=st.sampled_from(["one.crfsuite", "one.wapiti", "one.wapiti.gz"]),
    of=st.sampled_from(["utf8", "latin1", "none"]),
)
def test_a_writer_refuses_what_its_reader_would_not_return(model: SavedModel, name: str, of: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        binary = name.endswith(".crfsuite")
        try:
            write_crfsuite_model(path, model, of) if binary else write_wapiti_model(path, model)
        except ModelFileError:
            assert not list(Path(folder).iterdir())
            return
        again = read_crfsuite_model(path, of) if binary else read_wapiti_model(path)
    assert again.labels == model.labels
    patterns = [*(model.patterns or ())]
    assert binary or again.patterns in (patterns, [*patterns, "b"])
    assert active(again.attributes) == active(model.attributes)
    # transitions may have the pattern of pairs of labels
    wholes = [
        exported.transitions.ravel()
        + sum((vector_of(exported, name) for name in (again.patterns or ())), np.zeros(exported.transitions.size))
        for exported in (again, model)
    ]
    np.testing.assert_array_equal(*wholes)
    rest = [
        {key: value for key, value in active(exported.pairs).items() if key[0] not in (again.patterns or ())}
        for exported in (again, model)
    ]
    assert rest[0] == rest[1]


def active(table: NamedWeights) -> dict[tuple[str, int], float]:
    return {key: value for key, value in as_dict(table).items() if value}


def vector_of(model: SavedModel, name: str) -> np.ndarray:
    """Return the weights of pairs of labels [L * L] of an attribute."""
    weights = np.zeros(model.transitions.size)
    for (other, column), value in as_dict(model.pairs).items():
        if other == name:
            weights[column] += value
    return weights


@pytest.mark.parametrize("patterns", [None, [], ["b"], ["u:%x[0,0]", "b"], ["*:t=%x[0,0]"]])
@pytest.mark.parametrize("labels", [[], ["A"], ["A", "B"]])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_a_model_without_attributes_or_transitions_or_with_one_label(
    labels: list[str], patterns: list[str] | None, step: float, tmp_path: Path
) -> None:
    """Without attributes, without transitions, with one label: they work like others.  Without labels: refused."""
    model = SavedModel(labels, NO_WEIGHTS, NO_WEIGHTS, np.full((len(labels),) * 2, step), patterns)
    path = tmp_path / "model"
    if not labels:
        for make in (partial(write_wapiti_model if patterns else write_crfsuite_model, path), _imported):
            with pytest.raises(ModelFileError, match="no labels"):
                make(model)
        assert not list(tmp_path.iterdir())
        return
    (write_crfsuite_model if patterns is None else write_wapiti_model)(path, model)
    again = read_saved_model(path)
    assert again is not None
    nlp = _imported(again)
    docs = [nlp.make_doc(text) for text in ("a b", "")]
    for doc in docs:
        doc._.crf_attributes = [["a"] for _ in doc]
    assert [token.tag_ for token in nlp(docs[0])] == [labels[0]] * 2
    first, last = nlp.get_pipe("crf_tagger").posterior(docs).marginals()
    assert len(last) == 0
    np.testing.assert_allclose(first, 1 / len(labels))
    if patterns is None:
        assert list(CRF(model_filename=str(path)).predict([[["a"]], []])) == [[labels[0]], []]


def _imported(model: SavedModel) -> Language:
    nlp = spacy.blank("xx")
    import_pipeline(nlp, model, ImportSettings(columns=() if model.patterns is None else ("word",)))
    return nlp


def test_every_cut_is_noticed(files: Files, tmp_path: Path) -> None:
    for source in (files.binary, files.wapiti):
        whole = source.read_bytes()
        for size in range(0, len(whole) - 2, 97):
            cut = tmp_path / source.name
            cut.write_bytes(whole[:size])
            with pytest.raises(ModelFileError):
                files.read(cut)


def test_a_small_file_of_many_labels_is_refused(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, small = "".join(f"{len(str(i))}:{i},\n" for i in range(20_000)), tmp_path / "x.wapiti"
    small.write_text(f"#mdl#2#0\n#rdr#1/1/0\n1:b,\n#qrk#20000\n{labels}#qrk#1\n1:b,\n", encoding="utf8")
    with pytest.raises(ModelFileError, match=r"x\.wapiti.*transitions of its 20,000 labels would take 3,200,000,000"):
        read_wapiti_model(small)
    saved_models.check_transitions(1_448, 1)
    saved_models.check_transitions(1_449, 8 * 1_449**2 // 64 + 1)
    with pytest.raises(ValueError, match="1,449 labels"):
        saved_models.check_transitions(1_449, 1)
    monkeypatch.setattr(saved_models, "LEAST", 0)
    monkeypatch.setattr(saved_models, "MOST", 0)
    for path in files:
        with pytest.raises(ModelFileError, match="would take"):
            files.read(path)


def test_a_model_that_a_format_cannot_hold(files: Files, tmp_path: Path) -> None:
    model = SavedModel(["A\0"], NO_WEIGHTS, NO_WEIGHTS, np.zeros((1, 1)))
    with pytest.raises(ModelFileError, match="has a NUL"):
        write_crfsuite_model(tmp_path / "model", model)
    with pytest.raises(ModelFileError, match="--encoding utf8"):
        write_crfsuite_model(tmp_path / "model", files.read(files.binary), "ascii")
    with pytest.raises(ModelFileError, match="by patterns"):
        write_wapiti_model(tmp_path / "model", model)
    weights = NamedWeights(["x:1"], *(np.zeros(1, np.int64),) * 2, np.ones(1))
    with pytest.raises(ModelFileError, match="'x:1' is no observation"):
        write_wapiti_model(tmp_path / "model", SavedModel(["A"], weights, NO_WEIGHTS, np.zeros((1, 1)), []))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("labels", "scheme", "public"),
    [
        (["O", "B-A", "I-A"], "IOB2", ["A"]), (["S", "B", "M", "E"], "BMES", ["SPAN"]),
        (["A-S", "O", "A-B", "A-I", "A-E"], "IOBES", ["A"]), (["O", "W-A", "W-B"], "BMEWO", ["A", "B"]),
    ],
)  # fmt: skip
def test_labels_of_a_model_may_be_tags_of_any_scheme(labels: list[str], scheme: str, public: list[str]) -> None:
    n = len(labels)
    weights = NamedWeights(["a"], np.zeros(n, np.int64), np.arange(n), np.ones(n))
    nlp = spacy.blank("xx")
    import_pipeline(nlp, SavedModel(labels, weights, NO_WEIGHTS, np.zeros((n, n))), ImportSettings("chunk"))
    pipe = pipe_of(nlp)
    assert (pipe.annotation.scheme, list(pipe.labels)) == (scheme, public)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["O", "B-A", "E-A", "L-A"], "are tags of no scheme: IOB2"), (["O", "NN"], "'NN' is neither"),
        (["O", "B-A", "A-B"], "'B-A' and another label are both B-A"),
    ],
)  # fmt: skip
def test_labels_that_are_no_tags_of_spans_are_refused(labels: list[str], message: str) -> None:
    n = len(labels)
    weights = NamedWeights(["a"], np.zeros(n, np.int64), np.arange(n), np.ones(n))
    with pytest.raises(DataError, match=message):
        import_pipeline(
            spacy.blank("xx"), SavedModel(labels, weights, NO_WEIGHTS, np.zeros((n, n))), ImportSettings("ent")
        )
