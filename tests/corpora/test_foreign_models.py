"""Models of CRFsuite and Wapiti: what is read from a file, and that a damaged one is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.corpora import saved_models
from spacy_crfseq.corpora.saved_models import NamedWeights, SavedModel, read_crfsuite_model, read_wapiti_model
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
    ("1:A", "1:B", "twice"), ("1:A", "0:", "twice"), ("0x1p-1", "0x1p99999", "too large"),
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
