"""The project in examples/addresses: its features, and a part of its measurements where the data are there."""

import importlib
import json
import os
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_crfseq.corpora.saved_models import NO_WEIGHTS, NamedWeights, SavedModel, write_crfsuite_model
from spacy_crfseq.features.entries import attribute_of, entries_in
from tests.project.pages import ROOT

FOLDER = ROOT / "examples" / "addresses"
TEXTS = ("12 N Main St, Apt 4, Springfield, IL 62701", "PO Box 7", "Oslo")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the scripts of the project by their names."""
    monkeypatch.syspath_prepend(str(FOLDER / "scripts"))
    return importlib.import_module


def test_features_of_usaddress(scripts: Any) -> None:
    """As its documentation describes them: a word, its neighbours and the ends of the address."""
    first, last = scripts("address_code").address_features(("100", "St."))
    own = {
        "abbrev": False, "digits": "all_digits", "word": False, "trailing.zeros": "00", "length": "d:3",
        "endsinpunc": False, "directional": False, "street_name": False, "has.vowels": False, "address.start": True,
    }  # fmt: skip
    assert {name: value for name, value in first.items() if name != "next"} == own
    assert last["previous"] == own
    assert last["word"] == "st"
    assert last["abbrev"]
    assert last["street_name"]
    assert first["next"]["address.end"]


def test_the_model_of_usaddress_on_arrays(scripts: Any, tmp_path: Path) -> None:
    """Labels and probabilities are CRFsuite's, also of an address without words, of one word, and with line breaks."""
    pycrfsuite, code = pytest.importorskip("pycrfsuite"), scripts("address_code")
    module = scripts("usaddress_model")
    texts = [*TEXTS, "", "(PO) Box\n#5&#38;6,", "Oslo\nNorway", "?"]
    sequences = [code.address_features(tuple(words)) if (words := module.WORD.findall(text)) else [] for text in TEXTS]
    names = sorted({attribute_of(entry)[0] for tokens in sequences for token in tokens for entry in entries_in(token)})
    rng, labels = np.random.default_rng(0), ["A", "B", "C"]
    rows, columns = np.divmod(np.arange(len(names) * len(labels)), len(labels))
    weights = NamedWeights(names, rows, columns, rng.normal(size=len(rows)))
    path = tmp_path / "usaddr.crfsuite"
    write_crfsuite_model(path, SavedModel(labels, weights, NO_WEIGHTS, rng.normal(size=(3, 3))))
    tagger, parser = pycrfsuite.Tagger(), module.Parser(path)
    tagger.open(str(path))
    for text, pairs, table in zip(texts, parser.parse_all(texts), parser.marginals(texts), strict=True):
        words = module.WORD.findall(text.replace("&#38;", "&"))
        expected = tagger.tag(code.address_features(tuple(words))) if words else []
        assert pairs == parser.parse(text) == list(zip(words, expected, strict=True))
        theirs = [[tagger.marginal(label, i) for label in parser.labels] for i in range(len(words))]
        np.testing.assert_allclose(table, np.reshape(theirs, (len(words), 3)), atol=1e-12)
    assert len(list(parser.parse_all(texts * 2000))) == 2000 * len(texts)
    (tmp_path / "in.txt").write_text("Oslo Lima\n\n12 Main St")
    module.main([str(tmp_path / "in.txt"), str(tmp_path / "out.tsv"), "--model", str(path)])
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert [[pair.partition("/")[0] for pair in line.split("\t")] for line in lines] == [
        ["Oslo", "Lima"], [""], ["12", "Main", "St"],
    ]  # fmt: skip
    with pytest.raises(ValueError, match="NUL between spaces"):
        list(parser.parse_all(["a \0 b"]))


def test_segments(scripts: Any) -> None:
    """The arrays have what a plain loop over the words finds."""
    code = scripts("address_code")
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=text.split()) for text in TEXTS]
    names: dict[int, str] = {}
    result = code.Segments().read("SEGMENTS", docs, names)["SEGMENTS"]
    sets = [
        {names[value] for value in result.values[a:b].tolist()}
        for a, b in zip(result.ptr, result.ptr[1:], strict=False)
    ]
    assert sets == [values for text in TEXTS for values in looped(code, text.split())]


def looped(code: Any, words: list[str]) -> list[set[str]]:
    kinds = [code.coarse(word) for word in words]
    ends = [i for i, word in enumerate(words) if word.endswith(",") or i == len(words) - 1]
    sets = []
    for i, kind in enumerate(kinds):
        end = next(j for j in ends if j >= i)
        first = max((j + 1 for j in ends if j < i), default=0)
        following = kinds[end + 1] if end + 1 < len(kinds) else "end"
        streets = ("street" in kinds[:i]) + 2 * ("street" in kinds[i + 1 :])
        distances = {f"from {min(i - first, 4)} {kind}", f"to {min(end - i, 4)} {kind}"}
        joined = {f"first {kinds[first]} {kind}", f"last {kinds[end]} {kind}", f"next {following} {kind}"}
        others = {f"both {kinds[first]} {kinds[end]}", f"streets {streets} {kind}", f"streets {streets}"}
        sets.append(joined | distances | others)
    return sets


def test_a_part_of_the_measurements(scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both configs train, labels occur once where that is asked for, and tagging in bulk finds the same."""
    data = Path(os.environ.get("CRFSEQ_DATA", "")) / "usaddress" / "labeled.xml"
    if not data.exists():
        pytest.skip("CRFSEQ_DATA is not set, or has no usaddress/labeled.xml")
    measure, output = scripts("measure"), tmp_path / "figures.json"
    measure.main(["--data", str(data), "--part", "folds", "--limit", "60", "--output", str(output)])
    figures = json.loads(output.read_text(encoding="utf8"))["folds"]
    assert {"spacy_crfseq, features of usaddress", "spacy_crfseq, own features"} <= set(figures)
    ours = measure.Ours("addresses", once=["*"])
    addresses = measure.read(data)[:80]
    ours.train(addresses[:60])
    words = [address.words for address in addresses[60:]]
    labels = ours.tag(words)
    for of_address in labels:
        runs = [label for label, _ in groupby(of_address)]
        assert len(set(runs)) == len(runs)
    texts, bulk = [" ".join(address) for address in words], scripts("tag_in_bulk")
    result = [*zip(words, labels, strict=True)]
    texts.insert(3, " ")
    result.insert(3, ([], []))
    assert list(bulk.tagged(ours.nlp, texts)) == result
    monkeypatch.setattr(bulk, "PORTION", 3)
    monkeypatch.setattr(bulk, "FIRST", 1)
    lines = "".join("".join(bulk.written(ours.nlp, texts, processes)) for processes in (1, 2))
    assert lines == 2 * "".join("\t".join(map("/".join, zip(*pair, strict=True))) + "\n" for pair in result)
