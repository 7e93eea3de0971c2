"""INCEpTION's documents with annotations where none can be."""

from typing import Any
from xml.etree import ElementTree

import pytest

from spacy_crfseq.tools.serve import service as module
from spacy_crfseq.tools.serve.service import Service
from tests.tools.serve.test_serve import TAG, cas, request

TEXT = "Olga \U0001f692 finds a letter ."
TOKENS = [(0, 4), (5, 7), (8, 13), (14, 15), (16, 22), (23, 24)]


def entity(begin: object, end: object, value: str = "THING") -> str:
    return f'<type3:NamedEntity xmi:id="90" sofa="1" begin="{begin}" end="{end}" value="{value}"/>'


@pytest.mark.parametrize(
    "more",
    [
        entity(-1, 4), entity(0, 99), entity(0, 10**30), entity(4, 0), entity(6, 7), entity("a", 4), entity("", 4),
        entity(0.5, 4), entity(0, 4, "O"), entity(0, 4, " "), entity(0, 4, "a&#10;b"),
        '<type4:Token xmi:id="90" sofa="1" begin="0" end="99"/>',
    ],
)  # fmt: skip
def test_positions_and_labels_that_cannot_be_are_refused(more: str, client: Any, service: Service) -> None:
    document = cas(TEXT, TOKENS, more)
    answer = client.post("/train", json={**request(""), "documents": [{"xmi": document}]})
    assert answer.status_code == 400
    assert len(answer.json()["error"].split()) > 3
    assert service.version == 0
    good = cas(TEXT, TOKENS, entity(16, 22))
    assert client.post("/train", json={**request(""), "documents": [{"xmi": good}]}).status_code == 204
    spans = client.post("/annotate", json={"text": TEXT}).json()["spans"]
    assert ("letter", "THING") in [(TEXT[span["start"] : span["end"]], span["label"]) for span in spans]


def test_texts_that_are_too_long_are_refused(client: Any, service: Service) -> None:
    service.nlp.max_length = 20
    answer = client.post("/predict", json=request(cas(TEXT, TOKENS)))
    assert answer.status_code == 400
    assert "of 20 at most" in answer.json()["error"]


@pytest.mark.parametrize("layer", ["", "a b", "a..B", "*", "a/b", "[1]", "{x}y", "a.B>"])
@pytest.mark.parametrize("path", ["predict", "train"])
def test_layers_that_are_no_types_are_refused(path: str, layer: str, client: Any) -> None:
    body = {**request(cas(TEXT, TOKENS)), "documents": []}
    body["metadata"]["layer"] = layer
    answer = client.post(f"/{path}", json=body)
    assert answer.status_code == 400
    assert "'metadata.layer' cannot be read: " in answer.json()["error"]


def test_doubtful_spans_come_with_likely_others(client: Any, service: Service, monkeypatch: Any) -> None:
    def spans(document: str) -> list[tuple[str, str, float]]:
        result = [element.attrib for element in ElementTree.fromstring(document).iter(TAG)]
        return [(entity["begin"], entity["end"], float(entity["value_score"])) for entity in result]

    body = request(cas(TEXT, TOKENS))
    monkeypatch.setattr(module, "DOUBTFUL", 0.0)
    alone = spans(client.post("/predict", json=body).json()["document"])
    monkeypatch.setattr(module, "DOUBTFUL", 2.0)
    monkeypatch.setattr(module, "LEAST", 0.01)
    monkeypatch.setattr(module, "MOST", 1)
    others = spans(client.post("/predict", json=body).json()["document"])
    assert others[: len(alone)] == alone
    assert len(alone) < len(others) <= 2 * len(alone)
    for begin, end, score in others[len(alone) :]:
        assert 0.01 <= score < 1
        assert any(int(begin) < int(b) and int(a) < int(end) for a, b, _ in alone)
