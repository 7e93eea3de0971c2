"""Label Studio's events, as its serializers form them: what is kept, forgotten, refused, and learned in the end."""

import json
import threading
from typing import Any

import pytest

from spacy_crfseq.tools.serve import server
from spacy_crfseq.tools.serve.service import Service

INTERFACE = '<View><Labels name="ner" toName="doc"><Label value="A"/></Labels><Text name="doc" value="$body"/></View>'
PROJECT = {"id": 3, "title": "Texts", "label_config": INTERFACE, "task_number": 2}
TEXT = "Olga finds a letter in Oslo ."


def task(number: int, text: str = TEXT) -> dict[str, Any]:
    more = {"meta": {}, "created_at": "2024-01-01T00:00:00Z", "is_labeled": True, "overlap": 1, "project": 3}
    return {"id": number, "data": {"body": text}, **more}


def annotation(number: int, of: int, label: Any = "THING", start: Any = 13, end: Any = 19) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": "letter", "labels": [label]}
    region = {"id": "x", "from_name": "ner", "to_name": "doc", "type": "labels", "origin": "manual", "value": value}
    choice = {"from_name": "kind", "to_name": "doc", "type": "choices", "value": {"choices": ["good"]}}
    more = {"was_cancelled": False, "ground_truth": False, "lead_time": 2.5, "project": 3, "completed_by": 1}
    return {"id": number, "task": of, "result": [region, choice], "draft_created_at": None, **more}


def created(*pairs: tuple[dict[str, Any], dict[str, Any]], action: str = "ANNOTATIONS_CREATED") -> dict[str, Any]:
    tasks, annotations = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {"action": action, "annotation": annotations[::-1], "project": PROJECT, "task": tasks}


def webhook_event(
    number: int, of: int, action: str = "ANNOTATION_CREATED", text: str = TEXT, **values: Any
) -> dict[str, Any]:
    event = {"action": action, "annotation": annotation(number, of, **values), "project": PROJECT}
    return {**event, "task": task(of, text)}


def send(client: Any, event: dict[str, Any]) -> Any:
    answer = client.post("/webhook", json=event)
    assert answer.status_code == 201, answer.json()
    return answer.json()["result"]["texts"]


def labels(client: Any, text: str = TEXT) -> set[str]:
    return {span["label"] for span in client.post("/annotate", json={"text": text}).json()["spans"]}


def test_each_event_of_label_studio(client: Any, service: Service) -> None:
    assert send(client, webhook_event(1, 11)) == 1
    assert "THING" in labels(client)
    assert send(client, webhook_event(1, 11, "ANNOTATION_UPDATED", label="OTHER")) == 1
    assert "OTHER" in labels(client)
    assert send(client, created((task(12), annotation(2, 12)), (task(13), annotation(3, 13)))) == 3
    version, link = service.version, {"id": 4, "project": 3, "label": 9, "from_name": "ner"}
    for action, body in (
        ("TASKS_CREATED", {"tasks": [task(14)]}),
        ("PROJECT_CREATED", {}),
        ("PROJECT_UPDATED", {}),
        ("LABEL_LINK_CREATED", {"label_link": [link], "label": [{"id": 9, "value": ["A"]}]}),
        ("LABEL_LINK_UPDATED", {"label_link": link, "label": {"id": 9, "value": ["A"]}}),
        ("LABEL_LINK_DELETED", {"label_link": {"id": 4}}),
    ):
        assert send(client, {"action": action, "project": PROJECT, **body}) == 3
    assert service.version == version
    assert send(client, {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 1}], "project": PROJECT}) == 2
    assert "OTHER" not in labels(client)
    assert send(client, {"action": "TASKS_DELETED", "tasks": [{"id": 13}, {"id": 99}], "project": PROJECT}) == 1
    version = service.version
    assert send(client, {"action": "START_TRAINING", "project": PROJECT}) == 1
    assert service.version == version + 1
    assert send(client, {"action": "PROJECT_DELETED", "project": {"id": 3}}) == 0
    assert "THING" not in labels(client)


def test_the_last_annotation_of_a_task_counts(client: Any) -> None:
    assert send(client, webhook_event(1, 11)) == 1
    assert send(client, webhook_event(2, 11, label="OTHER")) == 1
    assert labels(client) & {"THING", "OTHER"} == {"OTHER"}
    skipped = webhook_event(2, 11, "ANNOTATION_UPDATED")
    skipped["annotation"]["was_cancelled"] = True
    assert send(client, skipped) == 1
    assert labels(client) & {"THING", "OTHER"} == {"THING"}


@pytest.mark.parametrize(
    "bad",
    [
        {"label": ""}, {"label": " "}, {"label": "O"}, {"label": "-"}, {"label": "A\nB"}, {"label": "\ud800"},
        {"label": 3}, {"start": -1}, {"start": 19}, {"end": 10**30}, {"end": 30}, {"end": "19"}, {"end": 19.5},
        {"end": None}, {"text": "x " * 600_000}, {"text": "😀" * 20}, {"text": None},
    ],
)  # fmt: skip
def test_annotations_that_cannot_be_learned_are_refused_and_not_kept(
    bad: dict[str, Any], client: Any, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "spacy_crfseq")
    content, headers = json.dumps(webhook_event(1, 11, **bad)), {"content-type": "application/json"}
    answer = client.post("/webhook", content=content, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"] in caplog.text
    assert service.version == 0


def test_a_refused_annotation_is_not_among_those_that_are_learned(client: Any) -> None:
    answer = client.post("/webhook", json=webhook_event(1, 11, label=""))
    assert answer.status_code == 400
    assert send(client, webhook_event(2, 12)) == 1
    bulk = created((task(13), annotation(3, 13)), (task(14), annotation(4, 14, label="O")))
    answer = client.post("/webhook", json=bulk)
    assert answer.status_code == 400
    assert "The annotation 4 is not learned: 'labels.0' cannot be read: 'O' cannot be a label" in answer.json()["error"]
    assert send(client, {"action": "START_TRAINING"}) == 2


def test_a_string_of_labels_and_infinite_offsets_are_refused(client: Any) -> None:
    event = webhook_event(1, 11)
    event["annotation"]["result"][0]["value"]["labels"] = "PER"
    answer = client.post("/webhook", json=event)
    assert "'labels' cannot be read: Input should be a valid list" in answer.json()["error"]
    content = '{"action": "START_TRAINING", "n": Infinity}'
    answer = client.post("/webhook", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.parametrize("action", ["ANNOTATION_CREATED", "ANNOTATIONS_DELETED", "TASKS_DELETED", "PROJECT_DELETED"])
def test_events_without_payload_say_what_to_switch_on(action: str, client: Any) -> None:
    answer = client.post("/webhook", json={"action": action})
    assert answer.status_code == 400
    assert "Send payload" in answer.json()["error"]


def test_annotations_that_arrive_during_a_training_are_learned_after_it(
    client: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, learn = threading.Event(), threading.Event(), service._learn

    def slow(texts: Any) -> None:
        begun.set()
        assert go.wait(60)
        learn(texts)

    monkeypatch.setattr(service, "_learn", slow)
    first = threading.Thread(target=send, args=(client, webhook_event(1, 11)))
    first.start()
    assert begun.wait(60)
    assert send(client, webhook_event(2, 12, label="OTHER", text="Zed has a letter in it .", start=10, end=16)) == 2
    assert service.version == 0
    go.set()
    first.join(60)
    assert service.version == 2
    assert "OTHER" in labels(client, "Zed has a letter in it .")


def test_requests_that_are_too_large_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LARGEST", 1 << 20)
    assert client.post("/annotate", json={"text": "a " * 400_000}).status_code == 200
    answer = client.post("/annotate", json={"text": "a " * 600_000})
    assert answer.status_code == 413
    assert "more than 1 MiB" in answer.json()["error"]


def test_a_full_disk_is_reported(client: Any, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Any) -> None:
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(service, "_write", full)
    answer = client.post("/webhook", json=webhook_event(1, 11))
    assert answer.status_code == 507
    assert "No space left on device" in answer.json()["error"]
