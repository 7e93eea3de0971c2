"""Docs in spaCy's binary format: how they are written and read again."""

from pathlib import Path

import catalogue
import pytest
from spacy.tokens import Span
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from spacy_crfseq.pipeline.texts import load_docs, write_docs
from tests.pipeline.helpers import bare_doc, blank


def test_no_entry_points_are_searched_for_each_doc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, searched = blank("crf_ner"), list[str]()
    docs = [bare_doc(nlp, ["Ada", "Lovelace"]) for _ in range(5)]
    for doc in docs:
        doc.user_data["note"] = [1, 2]
        doc.spans["names"] = [Span(doc, 0, 2, "PER")]

    def search(registry: catalogue.Registry) -> list[object]:
        searched.append(registry.entry_point_namespace)
        return []

    monkeypatch.setattr(catalogue.Registry, "_get_entry_points", search)
    monkeypatch.setitem(catalogue.REGISTRY, ("test", "plugins", "new"), None)  # another plug-in, so one search is due
    write_docs(tmp_path / "names.spacy", docs)
    again = list(load_docs(tmp_path / "names.spacy", nlp.vocab))
    assert [doc.user_data["note"] for doc in again] == [(1, 2)] * 5
    assert [str(doc.spans["names"][0]) for doc in again] == ["Ada Lovelace"] * 5
    assert len(searched) == len(set(searched))


@pytest.mark.parametrize("plugins", [msgpack_encoders, msgpack_decoders])
def test_a_plugin_of_msgpack_that_is_registered_later_is_found(
    plugins: catalogue.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plugins.get_all()
    monkeypatch.setitem(catalogue.REGISTRY, (*plugins.namespace, "later"), print)
    assert plugins.get_all() == {**before, "later": print}
    monkeypatch.undo()
    assert plugins.get_all() == before


@pytest.mark.parametrize("plugins", [msgpack_encoders, msgpack_decoders])
def test_a_plugin_of_msgpack_that_is_registered_again_is_the_last_one(
    plugins: catalogue.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.REGISTRY, (*plugins.namespace, "again"), print)
    assert plugins.get_all()["again"] is print
    plugins.register("again", func=repr)
    assert plugins.get_all()["again"] is repr
