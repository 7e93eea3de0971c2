"""Model files that are damaged or mixed up: an error that names the file, or the same predictions; never a pickle."""

import gc
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.pipeline.model_file import digest_of
from spacy_crfseq.pipeline.select import load_pipeline
from tests.fuzz.damage import changed, damaged
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import FACTORIES, bare_doc, blank

WORDS = ["Anna", "lives", "in", "New", "York", ".", "quux"]


@contextmanager
def never_a_pickle() -> Iterator[None]:
    """Refuse to unpickle anything, but for numba, whose caches of kernels are pickles."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something is unpickled")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("load", "loads", "Unpickler"):
            patch.setattr(pickle, name, refuse)
        yield


def predictions(pipe: Any) -> Any:
    doc = pipe(bare_doc(spacy.blank("xx"), WORDS, ["NNP", "VBZ", "IN", "NNP", "NNP", ".", "NN"]))
    return {key: value for key, value in doc.to_json().items() if key != "text"}


def load(folder: Path, factory: str) -> Any:
    """Load a component from its folder, and predict."""
    pipe = blank(factory).get_pipe(factory)
    with never_a_pickle():
        pipe.from_disk(folder / factory, exclude=["vocab"])
    return predictions(pipe)


def repacked(data: bytes, draw: Any) -> bytes:
    """Return a model file with other values in it, whose digest is right."""
    head = srsly.msgpack_loads(data)
    if draw(st.booleans()):
        body = srsly.msgpack_loads(head["model"])
        name = draw(st.sampled_from([*sorted(body), "state", "pair", "dictionary"]))
        body[name] = draw(changed(body.get(name)))
        head["model"] = srsly.msgpack_dumps(body)
    else:
        name = draw(st.sampled_from(sorted(head)))
        head[name] = draw(changed(head[name]))
    return bytes(srsly.msgpack_dumps({**head, "digest": digest_of(head)}))


@pytest.fixture(scope="module")
def copy(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(model, tmp_path_factory.mktemp("models") / "copy"))


@cases(15)
@given(
    data=st.data(), factory=st.sampled_from(FACTORIES), how=st.sampled_from(["bits", "bytes", "values", "other", "no"])
)
def test_a_model_file(data: st.DataObject, factory: str, how: str, model: Path, copy: Path) -> None:
    source, target = model / factory / "model", copy / factory / "model"
    whole = source.read_bytes()
    if how == "bits":
        at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
        target.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    elif how == "bytes":
        target.write_bytes(data.draw(damaged(whole)))
    elif how == "values":
        target.write_bytes(repacked(whole, data.draw))
    elif how == "other":
        shutil.copy(model / data.draw(st.sampled_from(FACTORIES)) / "model", target)
    else:
        target.unlink(missing_ok=True)
    outcome = attempt(lambda: load(copy, factory))
    assert gc.isenabled()
    if how in ("bits", "bytes", "other") and outcome is not None:
        assert outcome == load(model, factory)


@cases(12)
@given(data=st.data(), factory=st.sampled_from(FACTORIES))
def test_settings_of_a_component(data: st.DataObject, factory: str, model: Path, copy: Path) -> None:
    shutil.copy(model / factory / "model", copy / factory / "model")
    target = copy / factory / "cfg"
    entries = srsly.read_json(model / factory / "cfg")
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 2))):
            name = data.draw(st.sampled_from(sorted(entries)))
            entries[name] = data.draw(VALUES)
        srsly.write_json(target, entries)
    else:
        target.write_bytes(data.draw(damaged((model / factory / "cfg").read_bytes())))
    attempt(lambda: load(copy, factory))


VALUES: Any = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        1e300,
        1e-300,
        0.5,
        2**40,
        "",
        "O",
        "x",
        [],
        ["O"],
        ["B-X", "O"],
        [""],
        [1],
        {},
        {"a": 1},
    ]
)
FILES = [
    "meta.json",
    "config.cfg",
    "tokenizer",
    "crf_ner/cfg",
    "crf_ner/model",
    "vocab/strings.json",
    "vocab/lookups.bin",
]


@cases(3)
@given(data=st.data(), file=st.sampled_from(FILES))
def test_a_pipeline(data: st.DataObject, file: str, model: Path, copy: Path) -> None:
    shutil.rmtree(copy)
    shutil.copytree(model, copy)
    target = copy / file
    if data.draw(st.booleans()):
        target.unlink()
    elif file.startswith("crf_ner"):
        target.write_bytes(data.draw(damaged(target.read_bytes())))
    elif file == "config.cfg":
        text = target.read_text()
        lines = text.split("\n")
        at = data.draw(st.integers(0, len(lines) - 1))
        target.write_text("\n".join([*lines[:at], *lines[at + data.draw(st.integers(1, 5)) :]]))
    with never_a_pickle():
        nlp = attempt(lambda: load_pipeline(copy))
    if nlp is not None:
        attempt(lambda: predictions(nlp))


@pytest.mark.parametrize(
    "entry",
    [
        {"tags": None}, {"tags": [1]}, {"scheme": "IOB2"}, {"temperature": 0}, {"calibration": [1]},
        *({"calibration": {"PER": curve}} for curve in ([0.0, 1.0], [7, *range(6)], [*range(6), 1e9])),
    ],
    ids=str,
)  # fmt: skip
def test_impossible_settings_of_a_component_are_refused_by_name(entry: dict[str, Any], model: Path, copy: Path) -> None:
    shutil.rmtree(copy)
    shutil.copytree(model, copy)
    srsly.write_json(copy / "crf_ner" / "cfg", {**srsly.read_json(model / "crf_ner" / "cfg"), **entry})
    with pytest.raises(ModelFileError, match=next(iter(entry))):
        load(copy, "crf_ner")


def test_a_flipped_bit_of_a_weight(model: Path, copy: Path) -> None:
    shutil.rmtree(copy)
    shutil.copytree(model, copy)
    whole = (model / "crf_ner" / "model").read_bytes()
    at = whole.index(b"theta") + 200
    (copy / "crf_ner" / "model").write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
    with pytest.raises(ModelFileError, match="Train or copy it again"):
        load(copy, "crf_ner")
