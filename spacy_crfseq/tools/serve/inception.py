"""INCEpTION's external recommender, version 1: documents as UIMA CAS in XMI, over POST /predict and /train.

https://inception-project.github.io: developer guide, "External recommender".  Predictions are annotations of the layer
with the feature, its score, and ``inception_internal_predicted``.  Positions are those of Java, in UTF-16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from xml.etree import ElementTree

from pydantic import AfterValidator
from spacy.tokens import Doc

from ...corpora.utf16 import units_of
from ...errors import DataError
from .schema import Label, RequestPart, characters, parsed
from .service import AnnotatedDoc, ScoredSpan, Service

ID = "{http://www.omg.org/XMI}id"
CAS = "{http:///uima/cas.ecore}"
SEGMENTATION = "{http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore}"
PREDICTED = "inception_internal_predicted"


def _checked_name(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name in UIMA")
    return name


def _checked_type(name: str) -> str:
    return ".".join(map(_checked_name, name.split(".")))


class Metadata(RequestPart):
    """The UIMA type that is predicted, and its feature."""

    layer: Annotated[str, AfterValidator(_checked_type)]
    feature: Annotated[str, AfterValidator(_checked_name)]


class CasDocument(RequestPart):
    """A document as a UIMA CAS in XMI."""

    xmi: str


class RecommenderRequest(RequestPart):
    """A request for predictions."""

    metadata: Metadata
    document: CasDocument


class TrainRequest(RequestPart):
    """Annotated documents to learn from."""

    metadata: Metadata
    documents: list[CasDocument]


class FeatureValue(RequestPart):
    """The label of an annotation."""

    value: Label


class Cas(NamedTuple):
    """A document.

    units: See `units_of`.
    """

    root: ElementTree.Element
    sofa: str
    text: str
    units: Sequence[int]

    def bounds(self, element: ElementTree.Element) -> tuple[int, int]:
        """Return the characters of an annotation.  RAISES DataError: If they are not in the text."""
        given = [element.get(name, "0") for name in ("begin", "end")]
        if not all(number.isdecimal() and len(number) < 19 for number in given):
            raise DataError(f"begin={given[0]!r} and end={given[1]!r} must be positions in the text.")
        return characters(self.units, int(given[0]), int(given[1]))

    def annotations(self, tag: str) -> list[tuple[tuple[int, int], ElementTree.Element]]:
        """Return the annotations of a type, after their characters, in the order of the text."""
        placed = [
            (self.bounds(element), element)
            for element in self.root
            if (element.tag, element.get("sofa")) == (tag, self.sofa)
        ]
        return sorted(placed, key=lambda item: item[0])


def read_cas(xmi: str) -> Cas:
    """Return a document.  RAISES DataError: If it is no CAS with a text."""
    if "<!DOCTYPE" in xmi:
        raise DataError("The document has a document type, which is not read.")
    try:
        root = ElementTree.fromstring(xmi.encode("utf8"))
    except (ElementTree.ParseError, UnicodeEncodeError) as error:
        raise DataError(f"The document is no XMI ({error}).") from None
    for sofa in root.iter(f"{CAS}Sofa"):
        text = sofa.get("sofaString")
        if text:
            return Cas(root, sofa.get(ID, ""), text, units_of(text))
    raise DataError("The document has no text (cas:Sofa with a sofaString).")


def tag_of(layer: str) -> str:
    """Return the name of a UIMA type in XMI."""
    package, _, name = layer.rpartition(".")
    return f"{{http:///{package.replace('.', '/') or 'uima/noNamespace'}.ecore}}{name}"


def doc_of(service: Service, cas: Cas) -> Doc:
    """Return the tokens of a document with sentence starts, or those of the pipeline if it has none.

    RAISES DataError: If it is too long, or a token or sentence is not in the text.
    """
    service.check_size(cas.text)
    words, spaces, starts, at = list[str](), list[bool](), list[bool](), 0

    def add(word: str, starts_here: bool) -> None:
        words.append(word)
        spaces.append(False)
        starts.append(starts_here)

    begins = {bounds[0] for bounds, _ in cas.annotations(f"{SEGMENTATION}Sentence")}
    for (begin, end), _ in cas.annotations(f"{SEGMENTATION}Token"):
        if begin == end:
            continue
        if begin < at:
            return service.tokens(cas.text)
        gap = cas.text[at:begin]
        if gap == " " and words:
            spaces[-1] = True
        elif gap:
            add(gap, False)
        add(cas.text[begin:end], begin in begins)
        at = end
    if not words:
        return service.tokens(cas.text)
    if cas.text[at:]:
        add(cas.text[at:], False)
    return Doc(service.nlp.vocab, words=words, spaces=spaces, sent_starts=starts if begins else None)  # type: ignore[arg-type]


def predict(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /predict: the document with predictions.  RAISES DataError: If it cannot be read."""
    request = parsed(RecommenderRequest, body)
    tag, feature, cas = tag_of(request.metadata.layer), request.metadata.feature, read_cas(request.document.xmi)
    old = [element for _, element in cas.annotations(tag) if element.get(PREDICTED) == "true"]
    gone, at = {element.get(ID) for element in old}, set(map(id, old))
    cas.root[:] = [element for element in cas.root if id(element) not in at]
    place = next(
        (i for i, element in enumerate(cas.root) if element.tag == f"{CAS}View" and element.get("sofa") == cas.sofa),
        None,
    )
    if place is None:
        raise DataError("The document has no view of its text (cas:View).")
    view = cas.root[place]
    first = 1 + max((int(element.get(ID, "")) for element in cas.root if element.get(ID, "").isdecimal()), default=0)
    new = []
    (spans,) = service.predict([doc_of(service, cas)], alternatives=True)
    for number, (start, end, label, p) in enumerate(spans, start=first):
        bounds = {"begin": str(cas.units[start]), "end": str(cas.units[end])}
        said = {feature: label, f"{feature}_score": f"{p:.6f}", PREDICTED: "true"}
        new.append(ElementTree.Element(tag, {ID: str(number), "sofa": cas.sofa, **bounds, **said}))
    cas.root[place:place] = new
    members = [member for member in view.get("members", "").split() if member not in gone]
    view.set("members", " ".join([*members, *(element.get(ID, "") for element in new)]))
    return {"document": ElementTree.tostring(cas.root, encoding="unicode", xml_declaration=True)}


def train(service: Service, body: Mapping[str, Any]) -> bool:
    """Answer /train; False if another training is under way.

    What follows the last sentence with an annotation counts as not annotated yet.
    RAISES DataError: If a document cannot be read, or learned from.
    """
    request = parsed(TrainRequest, body)
    tag, feature, texts = tag_of(request.metadata.layer), request.metadata.feature, []
    for document in request.documents:
        cas = read_cas(document.xmi)
        made = [item for item in cas.annotations(tag) if item[1].get(PREDICTED) != "true" and item[1].get(feature)]
        spans = [
            ScoredSpan(*bounds, parsed(FeatureValue, {"value": element.get(feature)}).value) for bounds, element in made
        ]
        last = max((span.end for span in spans), default=0)
        ends = [bounds[1] for bounds, _ in cas.annotations(f"{SEGMENTATION}Sentence")]
        certain = min((end for end in ends if end >= last), default=len(cas.text)) if spans else 0
        doc = doc_of(service, cas)
        texts.append(AnnotatedDoc(doc, spans, sum(token.idx < certain for token in doc)))
    return service.train(texts)
