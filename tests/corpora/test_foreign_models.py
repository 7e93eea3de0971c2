"""Models of CRFsuite and Wapiti: what is read from a file, and that a damaged one is refused."""

import gzip
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.corpora import saved_models
from spacy_crfseq.corpora.saved_models import (
    NO_WEIGHTS,
    NamedWeights,
    SavedModel,
    read_crfsuite_model,
    read_wapiti_model,
    write_crfsuite_model,
    write_wapiti_model,
)
from spacy_crfseq.errors import CrfError, ModelFileError

WAPITI = """\
#mdl#2#7
#rdr#3/1/0
1:b,
11:u:w=%x[0,0],
12:*:p=%X[-1,1],
#qrk#2
1:A,
2:Ü,
#qrk#4
1:b,
7:u:w=x,y,
6:u:w=é,
6:*:p=dt,
0=0x1p-1
3=-0x1.8p+0
4=0x1p+0
7=7.552876e-02
8=10
12=-0x1p+0
13=0
"""
"""A model in Wapiti's format; anystyle's build of Wapiti writes decimal numbers."""


class Files(NamedTuple):
    """A model of CRFsuite, and one of Wapiti."""

    binary: Path
    wapiti: Path

    def read(self, file: Path) -> SavedModel:
        return read_wapiti_model(file) if file.suffix == ".wapiti" else read_crfsuite_model(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    found = Files(*(tmp_path_factory.mktemp("models") / f"model.{name}" for name in ("crfsuite", "wapiti")))
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 10, "c2": 0.1})
    for labels in (["B-X", "é"], ["é", "O"], ["O", "B-X"]):
        trainer.append([["a", "two\nlines"], {"c": labels[1], "d --> e: ": 0.5, "Ж": True}], labels)
    trainer.train(str(found.binary))
    found.wapiti.write_text(WAPITI, encoding="utf8")
    return found


def as_dict(table: NamedWeights) -> dict[tuple[str, int], float]:
    cells = zip(table.rows.tolist(), table.columns.tolist(), strict=True)
    return {(table.names[row], column): value for (row, column), value in zip(cells, table.values, strict=True)}


def test_crfsuite(files: Files) -> None:
    model = files.read(files.binary)
    assert sorted(model.labels) == ["B-X", "O", "é"]
    assert model.patterns is None
    assert {"a", "two\nlines", "c:é", "d --> e: ", "Ж"} <= set(model.attributes.names)
    assert np.abs(model.transitions).max() > 0.01


def test_wapiti(files: Files) -> None:
    model = files.read(files.wapiti)
    assert (model.labels, model.patterns) == (["A", "Ü"], ["b", "u:w=%x[0,0]", "*:p=%X[-1,1]"])
    assert model.transitions.tolist() == [[0.5, 0.0], [0.0, -1.5]]
    assert as_dict(model.attributes) == {
        ("u:w=x,y", 0): 1.0, ("u:w=é", 1): 0.07552876, ("*:p=dt", 0): 10.0,
    }  # fmt: skip
    assert as_dict(model.pairs) == {("*:p=dt", 2): -1.0, ("*:p=dt", 3): 0.0}


@settings(max_examples=15)
@given(data=st.data())
def test_a_model_of_crfsuite_is_written_byte_by_byte(data: st.DataObject) -> None:
    """Those that CRFsuite has trained, with names of any length, of which its hash reads twelve bytes at a time."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    name = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
    names = data.draw(st.lists(name, min_size=1, max_size=60, unique=True))
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 4, "c1": 0.1})
    for labels in (["B-X", "é"], ["é", "O", "a longer label"], ["O", "B-X"]):
        trainer.append([data.draw(st.lists(st.sampled_from(names), unique=True)) for _ in labels], labels)
    with TemporaryDirectory() as folder:
        path, other = Path(folder) / "model", Path(folder) / "other"
        trainer.train(str(path))
        write_crfsuite_model(other, read_crfsuite_model(path))
        assert other.read_bytes() == path.read_bytes()


def test_a_model_of_wapiti_is_written(files: Files, tmp_path: Path) -> None:
    model = files.read(files.wapiti)
    write_wapiti_model(tmp_path / "one.wapiti", model)
    again = files.read(tmp_path / "one.wapiti")
    assert again[::4] == model[::4]
    assert again.transitions.tolist() == model.transitions.tolist()
    assert as_dict(again.attributes) == as_dict(model.attributes)
    assert as_dict(again.pairs) == {("*:p=dt", 2): -1.0}
    text = (tmp_path / "one.wapiti").read_text(encoding="utf8")
    assert text.startswith("#mdl#2#6\n#rdr#3/1/0\n1:b,\n11:u:w=%x[0,0],\n")
    assert "=0x1.4p+3\n" in text
    assert "=-0x1.8p+0\n" in text
    write_wapiti_model(tmp_path / "two.wapiti.gz", again)
    assert gzip.decompress((tmp_path / "two.wapiti.gz").read_bytes()).decode() == text
    write_wapiti_model(tmp_path / "three", model._replace(patterns=["u:w=%x[0,3]"], labels=["\\xc3", "O"]))
    data = (tmp_path / "three").read_bytes()
    assert b"#rdr#2/3/0\n11:u:w=%x[0,3],\n1:b,\n#qrk#2\n1:\xc3,\n" in data  # a pattern for transitions, a cut character


def test_what_cannot_be_written(files: Files, tmp_path: Path) -> None:
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
        each.transitions.ravel()
        + sum((vector_of(each, name) for name in (again.patterns or ())), np.zeros(each.transitions.size))
        for each in (again, model)
    ]
    np.testing.assert_array_equal(*wholes)
    rest = [
        {key: value for key, value in active(each.pairs).items() if key[0] not in (again.patterns or ())}
        for each in (again, model)
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


def test_a_packed_model_of_any_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_models, "LEAST", 1 << 10)
    path = tmp_path / "model.gz"
    path.write_bytes(gzip.compress(WAPITI.encode() + b" " * (1 << 20)))
    with pytest.raises(ModelFileError, match="it is packed, and has more than"):
        read_wapiti_model(path)


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_are_refused(files: Files, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(files))
    damaged = bytearray(source.read_bytes())
    begin = data.draw(st.integers(0, len(damaged) - 1))
    damaged[begin : data.draw(st.sampled_from([begin + 1, len(damaged)]))] = data.draw(st.binary(max_size=4))
    other = source.with_name(f"damaged{source.suffix}")
    other.write_bytes(damaged)
    with suppress(CrfError):
        model = files.read(other)
        assert np.isfinite(model.attributes.values).all()
        assert model.attributes.columns.max(initial=0) < len(model.labels)


def test_every_cut_is_noticed(files: Files, tmp_path: Path) -> None:
    for source in (files.binary, files.wapiti):
        whole = source.read_bytes()
        for size in range(0, len(whole) - 2, 97):
            cut = tmp_path / source.name
            cut.write_bytes(whole[:size])
            with pytest.raises(ModelFileError):
                files.read(cut)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("#mdl#2#", "#mdl#1#", "maxent or memm"), ("/0\n", "/1\n", "maxent or memm"), ("#mdl#2#7", "#mdl#2#9", "7 of 9"),
    ("0x1p-1", "nan", "no finite"), ("13=0", "14=0", "not there"), ("u:w=é", "x:w=é", "none of u, b"),
    ("1:A", "1:B", "twice"), ("1:A", "0:", "is empty"), ("0x1p-1", "0x1p99999", "too large"),
])  # fmt: skip
def test_errors_of_wapiti(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "model"
    path.write_text(WAPITI.replace("2:Ü", "1:B").replace(old, new, 1), encoding="utf8")
    with pytest.raises(ModelFileError, match=message):
        read_wapiti_model(path)


def test_many_labels_in_a_small_file(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
