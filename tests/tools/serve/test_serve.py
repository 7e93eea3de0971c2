"""``crfseq serve``: requests as the tools send them, from their own documentation and tests, and hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import spacy
from starlette.testclient import TestClient

from spacy_crfseq.tools.serve.service import Service
from tests.commands import Run, refused, worked

NER = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
TAG = "{http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore}NamedEntity"
ID = "{http://www.omg.org/XMI}id"
INTERFACE = """<View><Labels name="ner" toName="doc"><Label value="PER"/><Label value="LOC"/></Labels>
<Text name="doc" value="$body"/></View>"""


def cas(text: str, tokens: list[tuple[int, int]], more: str = "", sentences: int = 1) -> str:
    """Return a document as INCEpTION writes it, positions in UTF-16."""
    size = len(text.encode("utf-16-le")) // 2
    ids = [str(20 + i) for i in range(len(tokens))]
    listed = "".join(
        f'<type4:Token xmi:id="{i}" sofa="1" begin="{a}" end="{b}" order="0"/>'
        for i, (a, b) in zip(ids, tokens, strict=True)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:tcas="http:///uima/tcas.ecore" '
        'xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
        'xmlns:type3="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore" '
        'xmlns:type4="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" xmi:version="2.0">'
        f'<cas:NULL xmi:id="0"/><type4:Sentence xmi:id="8" sofa="1" begin="0" end="{size}"/>{listed}{more}'
        f'<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="{text}"/>'
        f'<cas:View sofa="1" members="8 {" ".join(ids)} 90 91"/></xmi:XMI>'
    )


def request(document: str, **more: Any) -> dict[str, Any]:
    """Return a request as in INCEpTION's developer guide."""
    metadata = {"layer": NER, "feature": "value", "projectId": 1337, "anchoringMode": "tokens", "crossSentence": False}
    return {"metadata": metadata, "document": {"xmi": document, "documentId": 42, "userId": "testuser"}, **more}


def test_json(client: TestClient, model: Path) -> None:
    doc = spacy.load(model)("Olga Karlson finds a letter in Oslo .")
    spans = client.post("/annotate", json={"text": doc.text}).json()["spans"]
    assert [(s["start"], s["end"], s["label"]) for s in spans] == [
        (e.start_char, e.end_char, e.label_) for e in doc.ents
    ]
    assert spans
    assert all(0 < span["probability"] <= 1 for span in spans)
    many = client.post("/annotate", json={"texts": [doc.text, "", doc.text]}).json()["spans"]
    assert many == [spans, [], spans]


def test_label_studio_predicts_and_learns(client: TestClient, service: Service, tmp_path: Path) -> None:
    setup = client.post(
        "/setup", json={"project": "1.1700000000", "schema": INTERFACE, "hostname": "", "access_token": ""}
    )
    assert setup.json() == {"model_version": "crf_ner-0"}
    assert client.get("/health").json()["status"] == "UP"
    text = "😀 Olga Karlson finds a letter in Oslo ."
    tasks = [{"id": 7, "data": {"body": text}}]
    predicted = {"tasks": tasks, "project": "1.1700000000", "label_config": INTERFACE, "params": {"context": None}}
    result = client.post("/predict", json=predicted).json()["results"][0]
    assert result["model_version"] == "crf_ner-0"
    regions = result["result"]
    assert regions
    assert result["score"] == min(region["score"] for region in regions)
    for region in regions:
        value = region["value"]
        assert (region["from_name"], region["to_name"], region["type"]) == ("ner", "doc", "labels")
        units = text.encode("utf-16-le")[2 * value["start"] : 2 * value["end"]]
        assert units.decode("utf-16-le") == value["text"]
    start = len("😀 Olga Karlson finds a ".encode("utf-16-le")) // 2
    region = {"type": "labels", "value": {"start": start, "end": start + 6, "text": "letter", "labels": ["THING"]}}
    project = {"id": 1, "label_config": INTERFACE}
    annotation = {"id": 5, "task": 7, "result": [region]}
    event = {"action": "ANNOTATION_CREATED", "project": project, "task": tasks[0], "annotation": annotation}
    answer = client.post("/webhook", json=event)
    assert answer.status_code == 201
    assert answer.json()["result"] == {"texts": 1, "model_version": "crf_ner-1"}
    assert ("letter", "THING") in [(ent.text, ent.label_) for ent in spacy.load(tmp_path / "saved")(text).ents]
    spans = client.post("/annotate", json={"text": text}).json()["spans"]
    assert ("letter", "THING") in [(text[s["start"] : s["end"]], s["label"]) for s in spans]
    gone = {"action": "ANNOTATIONS_DELETED", "project": project, "annotations": [{"id": 5}]}
    assert client.post("/webhook", json=gone).json()["result"] == {"texts": 0, "model_version": "crf_ner-2"}
    assert "THING" not in [s["label"] for s in client.post("/annotate", json={"text": text}).json()["spans"]]
    assert client.post("/webhook", json={"action": "NO_SUCH_EVENT"}).json()["status"] == "Unknown event"


def test_inception_predicts(client: TestClient) -> None:
    text = "😀 Olga Karlson finds a letter in Oslo ."
    bounds, at = list[tuple[int, int]](), 0
    for word in text.split():
        size = len(word.encode("utf-16-le")) // 2
        bounds.append((at, at + size))
        at += size + 1
    old = '<type3:NamedEntity xmi:id="90" sofa="1" begin="0" end="2" value="X" inception_internal_predicted="true"/>'
    kept = '<type3:NamedEntity xmi:id="91" sofa="1" begin="0" end="2" value="Y"/>'
    answer = client.post("/predict", json=request(cas(text, bounds, old + kept), typeSystem="<x/>"))
    assert answer.status_code == 200
    root = ElementTree.fromstring(answer.json()["document"])
    entities = {element.get(ID): element for element in root.iter(TAG)}
    members = next(root.iter("{http:///uima/cas.ecore}View")).get("members", "").split()
    assert "90" not in entities
    assert "91" in entities
    assert set(entities) <= set(members)
    assert "90" not in members
    assert len(set(members)) == len(members)
    new = [element for number, element in entities.items() if number != "91"]
    assert new
    for element in new:
        assert element.get("inception_internal_predicted") == "true"
        assert 0 < float(element.get("value_score", "0")) <= 1
        assert (int(element.get("begin", "")), int(element.get("end", ""))) in [
            (a, b) for a, _ in bounds for _, b in bounds if a < b
        ]
    assert len({element.get(ID) for element in root if element.get(ID)}) == sum(
        1 for element in root if element.get(ID)
    )


def test_the_example_of_inceptions_guide(client: TestClient) -> None:
    xmi = (
        '<?xml version="1.0" encoding="UTF-8"?> <xmi:XMI xmlns:tcas="http:///uima/tcas.ecore" '
        'xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" xmlns:cassis="http:///cassis.ecore" '
        'xmi:version="2.0"> <cas:NULL xmi:id="0"/> <tcas:DocumentAnnotation xmi:id="8" sofa="1" begin="0" end="47" '
        'language="x-unspecified"/> <cas:Sofa xmi:id="1" sofaNum="1" sofaID="mySofa" mimeType="text/plain" '
        'sofaString="Joe waited for the train . The train was late ."/> <cas:View sofa="1" members="8"/> </xmi:XMI>'
    )
    answer = client.post("/predict", json=request(xmi, typeSystem=""))
    assert answer.status_code == 200
    assert ElementTree.fromstring(answer.json()["document"]).tag == "{http://www.omg.org/XMI}XMI"
    assert client.post("/train", json={**request(xmi), "documents": [{"xmi": xmi}]}).status_code == 204


def test_inception_trains(client: TestClient, service: Service) -> None:
    text = "Olga finds a letter ."
    bounds = [(0, 4), (5, 10), (11, 12), (13, 19), (20, 21)]
    markup = '<type3:NamedEntity xmi:id="90" sofa="1" begin="13" end="19" value="THING"/>'
    answer = client.post("/train", json={**request(""), "documents": [{"xmi": cas(text, bounds, markup)}]})
    assert answer.status_code == 204
    assert answer.content == b""
    assert service.version == 1
    spans = client.post("/annotate", json={"text": text}).json()["spans"]
    assert ("letter", "THING") in [(text[s["start"] : s["end"]], s["label"]) for s in spans]
    with service._training:
        again = client.post("/train", json={**request(""), "documents": [{"xmi": cas(text, bounds, markup)}]})
    assert again.status_code == 429


HOSTILE = [
    "", "{", "[]", "3", "{}", '{"text": 3}', '{"texts": "a"}', '{"tasks": [{}]}', '{"tasks": 3}', "[" * 100_000,
    '{"tasks": [{"data": {"text": "a"}}], "label_config": "<View>"}', '{"schema": "<!DOCTYPE a><View/>"}',
    '{"action": "ANNOTATION_CREATED", "task": 3, "annotation": 4}',
    '{"document": {"xmi": "<!DOCTYPE x>"}, "metadata": {}}',
    '{"document": {"xmi": "<a/>"}, "metadata": {"layer": "a.B", "feature": "value"}}',
    '{"document": 3, "metadata": {"layer": "a.B", "feature": "va lue"}}',
    '{"documents": [3], "metadata": {"layer": "a.B", "feature": "value"}}',
]  # fmt: skip


@pytest.mark.parametrize("path", ["/annotate", "/predict", "/setup", "/webhook", "/train"])
def test_hostile_requests_are_refused(path: str, client: TestClient, service: Service) -> None:
    for body in HOSTILE:
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 201, 204, 400), body
        if answer.status_code == 400:
            assert answer.json()["error"], body
        assert service.version == 0, body


def test_other_names_of_this_machine_are_refused(client: TestClient) -> None:
    assert client.post("/annotate", json={"text": "a"}, headers={"host": "evil.example"}).status_code == 400
    assert client.post("/annotate", content='{"text": "a"}', headers={"content-type": "text/plain"}).status_code == 400


def test_the_command_refuses_what_is_no_pipeline(run: Run, tmp_path: Path) -> None:
    refused(run("serve", tmp_path / "none"), "no such folder")
    assert "Label Studio" in worked(run("serve", "--help")).output
