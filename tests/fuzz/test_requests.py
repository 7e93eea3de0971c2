"""Requests to `serve` in which anything may be damaged: answered or refused in words, and nobody else suffers."""

import copy
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # recent releases prefer another package
    from starlette.testclient import TestClient

from spacy_crfseq.tools.serve.server import make_app
from spacy_crfseq.tools.serve.service import Service
from tests.fuzz.oracle import cases
from tests.pipeline.helpers import FACTORIES

TEXT = "Anna saw New York \U0001f692 in Oslo ."
INTERFACE = '<View><Labels name="ner" toName="doc"><Label value="PER"/></Labels><Text name="doc" value="$body"/></View>'
XMI = (
    '<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
    'xmlns:cas="http:///uima/cas.ecore" xmlns:c="http:///custom.ecore" '
    'xmlns:t="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" xmi:version="2.0">'
    '<cas:NULL xmi:id="0"/><t:Sentence xmi:id="8" sofa="1" begin="0" end="28"/>'
    '<t:Token xmi:id="20" sofa="1" begin="0" end="4"/><t:Token xmi:id="21" sofa="1" begin="5" end="8"/>'
    '<t:Token xmi:id="22" sofa="1" begin="9" end="17"/><c:Span xmi:id="30" sofa="1" begin="0" end="4" value="PER"/>'
    '<c:Span xmi:id="31" sofa="1" begin="9" end="17" value="LOC" inception_internal_predicted="true"/>'
    f'<cas:Sofa xmi:id="1" sofaNum="1" sofaString="{TEXT}"/><cas:View sofa="1" members="8 20 30 31"/></xmi:XMI>'
)
REGION = {"from_name": "ner", "to_name": "doc", "type": "labels", "value": {"start": 0, "end": 4, "labels": ["PER"]}}
ANNOTATION = {"id": 5, "task": 7, "was_cancelled": False, "result": [REGION, copy.deepcopy(REGION)]}
ANNOTATION["result"][1]["value"] |= {"start": 9, "end": 17, "text": "New York"}  # type: ignore[index]
TASK = {"id": 7, "data": {"body": TEXT}}
PROJECT = {"id": 3, "label_config": INTERFACE}
OF_LAYER = {"metadata": {"layer": "custom.Span", "feature": "value", "projectId": 1}}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("annotate", {"text": TEXT}),
    ("annotate", {"texts": [TEXT, ""]}),
    ("setup", {"project": "3.17", "schema": INTERFACE}),
    ("predict", {"tasks": [TASK], "project": "3.17", "label_config": INTERFACE}),
    ("predict", {**OF_LAYER, "document": {"xmi": XMI, "documentId": 4}, "typeSystem": ""}),
    ("train", {**OF_LAYER, "documents": [{"xmi": XMI}, {"xmi": XMI}], "typeSystem": ""}),
    ("webhook", {"action": "ANNOTATION_CREATED", "annotation": ANNOTATION, "task": TASK, "project": PROJECT}),
    ("webhook", {"action": "ANNOTATIONS_CREATED", "annotation": [ANNOTATION], "task": [TASK], "project": PROJECT}),
    ("webhook", {"action": "ANNOTATION_UPDATED", "annotation": ANNOTATION, "task": TASK, "project": PROJECT}),
    ("webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 5}], "project": PROJECT}),
    ("webhook", {"action": "TASKS_DELETED", "tasks": [{"id": 7}], "project": PROJECT}),
    ("webhook", {"action": "PROJECT_DELETED", "project": {"id": 99}}),
    ("webhook", {"action": "START_TRAINING", "project": PROJECT}),
]
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 3, 27, 28, 29, 30, 10**30, -(10**30), 0.0, 4.5, 1e308, float("inf"), float("nan"), "",
    " ", "O", "-", "PER", "B-PER", "\n", "\x00", "a\nb", "\ud800", "\u2028", "0", "<View/>", "<a", "$body", [], [[]],
    {}, [None], [0], ["PER"], ["A", "B"], {"id": 5}, TEXT, XMI, INTERFACE, "\U0001f692" * 30, "x" * 3000, "\uffff",
    "id", "TASKS_DELETED", "ANNOTATION_CREATED", "ANNOTATION_DELETED",
]  # fmt: skip
GOOD = {
    "action": "ANNOTATION_CREATED",
    "annotation": {"id": 1001, "task": 1001, "result": []},
    "task": {"id": 1001, "data": {"text": "Anna lives in New York ."}},
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all places of a value: a list or object and a key of it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def damaged(draw: Any, text: str) -> str:
    """Return a text, mostly XML, with another number or name, or a part twice or missing."""
    how, parts = draw(st.sampled_from(["value", "cut", "twice", "insert"])), list(re.finditer(r'"[^"]*"', text))
    if how == "value" and parts:
        part = draw(st.sampled_from(parts))
        value = draw(st.sampled_from([repr(odd).strip("'") for odd in ODD]) | st.integers(-2, 40).map(str))
        return f'{text[: part.start()]}"{value}"{text[part.end() :]}'
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    end = min(end, start + 60)
    middle = {"cut": "", "twice": text[start:end] * 2, "insert": draw(st.text(max_size=3)) + text[start:end]}
    return text[:start] + middle.get(how, "") + text[end:]


def damage(draw: Any, body: dict[str, Any]) -> None:
    """Change a body in one place."""
    where, key = draw(st.sampled_from(places(body) or [(body, "text")]))
    how = draw(st.sampled_from(["odd", "odd", "gone", "nested", "text"]))
    if how == "gone":
        where.pop(key) if isinstance(where, list) else where.pop(key, None)
    elif how == "nested":
        where[key] = draw(st.sampled_from([[where.get(key)] if isinstance(where, dict) else [where[key]], {"id": 7}]))
    elif how == "text" and isinstance(where, dict) and isinstance(where.get(key), str):
        where[key] = damaged(draw, where[key])
    else:
        where[key] = copy.deepcopy(draw(st.sampled_from(ODD) | st.integers(-2, 40) | st.text(max_size=5)))


@pytest.fixture(scope="module")
def clients(model: Path) -> dict[str, tuple[Service, TestClient]]:
    """A service for each kind of component, and a client of it."""
    services = {name: Service(str(model), name) for name in FACTORIES}
    return {name: (service, TestClient(make_app(service))) for name, service in services.items()}


@cases(60)
@given(data=st.data())
def test_damaged_requests(data: st.DataObject, clients: dict[str, tuple[Service, TestClient]]) -> None:
    service, client = clients[data.draw(st.sampled_from(FACTORIES))]
    service.forget(lambda key, kept: True)
    headers = {"content-type": "application/json"}
    for _ in range(data.draw(st.integers(1, 2))):
        path, body = copy.deepcopy(data.draw(st.sampled_from(BODIES)))
        for _ in range(data.draw(st.integers(0, 3))):
            damage(data.draw, body)
        answer = client.post(f"/{path}", content=json.dumps(body), headers=headers)
        assert answer.status_code in (200, 201, 204, 400), (path, body)
        if answer.status_code == 400:
            assert len(answer.json()["error"].split()) > 3
        elif answer.status_code != 204:
            json.loads(answer.text)
    answer = client.post("/webhook", content=json.dumps(GOOD), headers=headers)  # for other users
    assert answer.status_code == 201, answer.json()
    assert client.post("/annotate", json={"text": TEXT}).status_code == 200
