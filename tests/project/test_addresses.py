"""The project in examples/addresses: its features, and a part of its measurements where the data are there."""

import importlib
import json
import os
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc

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


def test_segments(scripts: Any) -> None:
    """The arrays have what a plain loop over the words finds."""
    code = scripts("address_code")
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=text.split()) for text in TEXTS]
    names: dict[int, str] = {}
    found = code.Segments().read("SEGMENTS", docs, names)["SEGMENTS"]
    sets = [
        {names[value] for value in found.values[a:b].tolist()} for a, b in zip(found.ptr, found.ptr[1:], strict=False)
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
    for each in labels:
        runs = [label for label, _ in groupby(each)]
        assert len(set(runs)) == len(runs)
    texts, bulk = [" ".join(each) for each in words], scripts("tag_in_bulk")
    found = [*zip(words, labels, strict=True)]
    texts.insert(3, " ")
    found.insert(3, ([], []))
    assert list(bulk.tagged(ours.nlp, texts)) == found
    monkeypatch.setattr(bulk, "PORTION", 3)
    monkeypatch.setattr(bulk, "FIRST", 1)
    lines = "".join("".join(bulk.written(ours.nlp, texts, processes)) for processes in (1, 2))
    assert lines == 2 * "".join("\t".join(map("/".join, zip(*pair, strict=True))) + "\n" for pair in found)
