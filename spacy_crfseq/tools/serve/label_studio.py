"""Label Studio's machine learning backend: its requests and answers, as `label_studio_ml` 2 has them.

https://github.com/HumanSignal/label-studio-ml-backend: POST /predict, /setup and /webhook, GET /health.  The tag of the
labelling interface that names labels (Labels, or any that ends so), and the Text that it belongs to, come with each
request.  Positions are those of JavaScript, in UTF-16.  Events: https://labelstud.io/guide/webhook_reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from xml.etree import ElementTree

from pydantic import BeforeValidator, Field

from ...corpora.utf16 import units_of
from ...errors import DataError
from .schema import Label, RequestPart, characters, parsed
from .service import Kept, Key, ScoredSpan, Service

KEEP = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
FORGET = {"ANNOTATIONS_DELETED": "annotations", "TASKS_DELETED": "tasks", "PROJECT_DELETED": "project"}
"""The key of what each event deletes."""
NOTHING = (
    "TASKS_CREATED", "PROJECT_CREATED", "PROJECT_UPDATED", "LABEL_LINK_CREATED", "LABEL_LINK_UPDATED",
    "LABEL_LINK_DELETED",
)  # fmt: skip
"""Events that change no annotation."""
START = "START_TRAINING"
"""The event of the button in the settings of a model."""


class Task(RequestPart):
    """A task to predict: its data by their keys."""

    data: dict[str, Any]


class TaskOfEvent(Task):
    """A task of a project."""

    id: int


class Region(RequestPart):
    """A part of an annotation: a span if its value has labels, else a choice, a relation or another kind."""

    from_name: str | None = None
    to_name: str | None = None
    value: dict[str, Any] = Field(default_factory=dict)


class Labelled(RequestPart):
    """The value of a span."""

    start: int
    end: int
    labels: Annotated[list[Label], Field(max_length=1)]


class AnnotationOfTask(RequestPart):
    """An annotation; without its task, it is of the only one that comes with it."""

    id: int | None = None
    task: int | None = None
    was_cancelled: bool | None = None
    result: list[Region] | None = None


class ProjectOfTask(RequestPart):
    """A project, with the labelling interface in XML."""

    id: int | None = None
    label_config: str | None = None


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class PredictRequest(RequestPart):
    """A request for predictions."""

    tasks: list[Task]
    label_config: str | None = None


class SetupRequest(RequestPart):
    """The labelling interface of a project that takes up the model."""

    schema_: str | None = Field(None, alias="schema")


class Event(RequestPart):
    """An event of a project; without `send_payload`, the action is all that comes."""

    action: str
    project: ProjectOfTask | None = None


class KeepEvent(Event):
    """Annotations that are created or updated, and their tasks: lists under singular names if there may be several."""

    task: Annotated[list[TaskOfEvent], BeforeValidator(_listed)]
    annotation: Annotated[list[Any], BeforeValidator(_listed)]


class Deleted(RequestPart):
    """The number of something that is deleted."""

    id: int


class Interface(NamedTuple):
    """The names of the tag of labels and of the text, the key of the text in a task, and the labels.

    given: Whether this is what a request says; another one may have any names.
    """

    from_name: str = "label"
    to_name: str = "text"
    key: str = "text"
    labels: tuple[str, ...] = ()
    given: bool = False


def interface_of(config: str | None) -> Interface:
    """Return the interface that an XML text describes.  RAISES DataError: If it has no labels of a text."""
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
            return Interface(tag.get("name", "label"), to_name, texts[to_name], labels, given=True)
    raise DataError("The labelling interface has no <Labels> for a <Text>.")


def predict(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /predict: a prediction for each task, scored by its least sure span.

    RAISES DataError: If the request is malformed, or a task has no text.
    """
    request = parsed(PredictRequest, body)
    interface = interface_of(request.label_config)
    texts = [_text_of(task, interface) for task in request.tasks]
    version, results = version_of(service), []
    for text, spans in zip(texts, service.annotate(texts), strict=True):
        kept = [span for span in spans if not interface.labels or span.label in interface.labels]
        score = min((span.probability for span in kept), default=1.0)
        result = _regions(text, kept, interface)
        results.append({"model_version": version, "score": round(score, 6), "result": result})
    return {"results": results}


def setup(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /setup.  RAISES DataError: If the labelling interface cannot be used."""
    interface_of(parsed(SetupRequest, body).schema_)
    return {"model_version": version_of(service)}


def webhook(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /webhook: keep annotations that are created or updated, forget deleted ones, train on all.

    RAISES DataError: If the event lacks its payload, or an annotation cannot be learned from; it is not kept then.
    """
    event = parsed(Event, body).action
    if event not in (*KEEP, *FORGET, *NOTHING, START):
        return {"status": "Unknown event"}
    needed = "annotation" if event in KEEP else FORGET.get(event)
    if needed is not None and needed not in body:
        raise DataError(
            f"{event} comes without {needed!r}. Switch on 'Send payload' for this address in Label Studio: in the "
            "settings of the project, under Webhooks."
        )
    refused: list[str] = []
    if event in KEEP:
        refused = _keep(service, parsed(KeepEvent, body))
    elif needed is not None:
        _forget(service, needed, {parsed(Deleted, item).id for item in _listed(body[needed])})
    texts = service.train_kept(again=event == START)
    if refused:
        raise DataError(" ".join(refused))
    return {"result": {"texts": texts, "model_version": version_of(service)}, "status": "ok"}


def version_of(service: Service) -> str:
    """Return the name of the present model."""
    return f"{service.name}-{service.version}"


def _keep(service: Service, event: KeepEvent) -> list[str]:
    """Keep annotations, and return what is wrong with those that cannot be learned from."""
    project, refused = event.project or ProjectOfTask(), list[str]()
    interface, tasks = interface_of(project.label_config), {task.id: task for task in event.task}
    for item in event.annotation:
        try:
            annotation = parsed(AnnotationOfTask, item)
            number = annotation.task if annotation.task is not None or len(tasks) != 1 else next(iter(tasks))
            if number is None or number not in tasks:
                raise DataError(f"it is of the task {number}, which does not come with it.")
            key, text = Key(number, annotation.id), _text_of(tasks[number], interface)
            spans = _spans(text, annotation.result or [], interface)
            service.keep(key, None if annotation.was_cancelled else Kept(text, spans, project.id))
        except DataError as error:
            number = item.get("id") if isinstance(item, dict) else None
            refused.append(f"The annotation {number!r} is not learned: {error}")
    return refused


def _forget(service: Service, kind: str, ids: set[int]) -> None:
    if kind == "annotations":
        service.forget(lambda key, _: key.annotation in ids)
    elif kind == "tasks":
        service.forget(lambda key, _: key.task in ids)
    else:
        service.forget(lambda _, kept: kept.project in ids)


def _text_of(task: Task, interface: Interface) -> str:
    text = task.data.get(interface.key)
    if not isinstance(text, str):
        raise DataError(f"A task has no text under {interface.key!r}.")
    return text


def _regions(text: str, spans: Sequence[ScoredSpan], interface: Interface) -> list[dict[str, Any]]:
    names = {"from_name": interface.from_name, "to_name": interface.to_name, "type": "labels"}
    units, regions = units_of(text), []
    for number, (start, end, label, probability) in enumerate(spans):
        value = {"start": units[start], "end": units[end], "text": text[start:end], "labels": [label]}
        regions.append({"id": f"crf{number}", **names, "value": value, "score": round(probability, 6)})
    return regions


def _spans(text: str, regions: Sequence[Region], interface: Interface) -> list[ScoredSpan]:
    """Return the spans of the tag of labels."""
    units, spans, names = units_of(text), list[ScoredSpan](), (interface.from_name, interface.to_name)
    for region in regions:
        other = interface.given and names != (region.from_name or names[0], region.to_name or names[1])
        if not other and region.value.get("labels"):
            value = parsed(Labelled, region.value)
            start, end = characters(units, value.start, value.end)
            if start == end:
                raise DataError(f"The span {value.labels[0]!r} at {value.start} is empty.")
            spans.append(ScoredSpan(start, end, value.labels[0]))
    return spans
