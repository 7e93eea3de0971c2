"""Label Studio's machine learning backend: its requests and answers, as `label_studio_ml` 2 has them.

https://github.com/HumanSignal/label-studio-ml-backend: POST /predict, /setup and /webhook, GET /health.  The tag of the
labelling interface that names labels (Labels, or any that ends so), and the Text that it belongs to, come with each
request.  Positions are those of JavaScript, which counts characters above U+FFFF twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ...errors import DataError
from .service import CharSpan, Service

KEEP = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
TRAIN = (*KEEP, "ANNOTATION_DELETED", "ANNOTATIONS_DELETED", "START_TRAINING")


class Interface(NamedTuple):
    """The names of the tag of labels and of the text, the key of the text in a task, and the labels."""

    from_name: str = "label"
    to_name: str = "text"
    key: str = "text"
    labels: tuple[str, ...] = ()


def interface_of(config: str | None) -> Interface:
    """Return what a labelling interface, in XML, says.  RAISES DataError: If it has no labels of a text."""
    if not config:
        return Interface()
    if "<!" in config.replace("<!--", ""):
        raise DataError("The labelling interface has a document type, which is not read.")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise DataError(f"The labelling interface is no XML ({error}).") from None
    texts = {tag.get("name", ""): tag.get("value", "$text").lstrip("$") for tag in root.iter() if tag.tag == "Text"}
    for tag in root.iter():
        to_name = tag.get("toName", "").split(",")[0]
        if tag.tag.endswith("Labels") and to_name in texts:
            labels = tuple(label.get("value", "") for label in tag.iter("Label"))
            return Interface(tag.get("name", "label"), to_name, texts[to_name], labels)
    raise DataError("The labelling interface has no <Labels> for a <Text>.")


def predict(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /predict: a prediction for each task, scored by its least sure span.

    RAISES DataError: If a task has no text.
    """
    interface, tasks = interface_of(body.get("label_config")), body["tasks"]
    texts = [_text_of(task, interface) for task in tasks]
    version, results = version_of(service), []
    for text, spans in zip(texts, service.annotate(texts), strict=True):
        kept = [span for span in spans if not interface.labels or span.label in interface.labels]
        regions = [_region(text, span, number, interface) for number, span in enumerate(kept)]
        score = min((span.probability for span in kept), default=1.0)
        results.append({"model_version": version, "score": round(score, 6), "result": regions})
    return {"results": results}


def setup(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /setup.  RAISES DataError: If the labelling interface cannot be used."""
    interface_of(body.get("schema"))
    return {"model_version": version_of(service)}


def webhook(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /webhook: keep an annotation that is created or updated, forget a deleted one, train on all.

    RAISES DataError: If the annotation cannot be read.
    """
    event = body["action"]
    if event not in TRAIN:
        return {"status": "Unknown event"}
    if event in KEEP:
        interface = interface_of((body.get("project") or {}).get("label_config"))
        text, annotation = _text_of(body["task"], interface), body["annotation"]
        spans = None if annotation.get("was_cancelled") else _spans(text, annotation.get("result") or [])
        service.keep(body["task"].get("id"), text, spans)
    elif event != "START_TRAINING":
        for task in body.get("tasks") or [body.get("task") or {}]:
            service.keep(task.get("id"), "", None)
    return {"result": {"texts": service.train_kept(), "model_version": version_of(service)}, "status": "ok"}


def version_of(service: Service) -> str:
    """Return the name of the present model."""
    return f"{service.name}-{service.version}"


def _text_of(task: Mapping[str, Any], interface: Interface) -> str:
    text = (task.get("data") or {}).get(interface.key)
    if not isinstance(text, str):
        raise DataError(f"A task has no text under {interface.key!r}.")
    return text


def _region(text: str, span: CharSpan, number: int, interface: Interface) -> dict[str, Any]:
    start, end = (len(text[:at].encode("utf-16-le")) // 2 for at in span[:2])
    value = {"start": start, "end": end, "text": text[span.start : span.end], "labels": [span.label]}
    names = {"from_name": interface.from_name, "to_name": interface.to_name, "type": "labels"}
    return {"id": f"crf{number}", **names, "value": value, "score": round(span.probability, 6)}


def _spans(text: str, result: Sequence[Any]) -> list[CharSpan]:
    units, found = text.encode("utf-16-le"), []
    for region in result:
        value = region.get("value") or {}
        if value.get("labels"):
            start, end = (len(units[: 2 * int(value[at])].decode("utf-16-le", "ignore")) for at in ("start", "end"))
            found.append(CharSpan(start, end, str(value["labels"][0])))
    return found
