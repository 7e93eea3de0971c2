"""INCEpTION's external recommender, version 1: documents as UIMA CAS in XMI, over POST /predict and /train.

https://inception-project.github.io: developer guide, "External recommender".  Predictions are annotations of the layer
with the feature, its score, and ``inception_internal_predicted``.  Positions are those of Java, which counts characters
above U+FFFF twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from ...errors import DataError
from .service import Annotated, CharSpan, Service

XMI = "{http://www.omg.org/XMI}"
CAS = "{http:///uima/cas.ecore}"
SEGMENTATION = "{http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore}"
PREDICTED = "inception_internal_predicted"


class Cas(NamedTuple):
    """A document.

    units: For each character and the end, its position in Java.
    """

    root: ElementTree.Element
    sofa: str
    text: str
    units: NDArray[np.int64]

    def bounds(self, element: ElementTree.Element) -> tuple[int, int]:
        """Return the characters of an annotation."""
        begin, end = (int(np.searchsorted(self.units, int(element.get(name, 0)))) for name in ("begin", "end"))
        return begin, end

    def annotations(self, tag: str) -> list[ElementTree.Element]:
        """Return the annotations of a type, in the order of the text."""
        found = [element for element in self.root.iter(tag) if element.get("sofa") == self.sofa]
        return sorted(found, key=self.bounds)


def read_cas(xmi: Any) -> Cas:
    """Return a document.  RAISES DataError: If it is no CAS with a text."""
    if not isinstance(xmi, str) or "<!DOCTYPE" in xmi:
        raise DataError("The document must be a string of XMI without a document type.")
    try:
        root = ElementTree.fromstring(xmi.encode("utf8"))
    except (ElementTree.ParseError, UnicodeEncodeError) as error:
        raise DataError(f"The document is no XMI ({error}).") from None
    for sofa in root.iter(f"{CAS}Sofa"):
        text = sofa.get("sofaString")
        if text:
            sizes = np.array([1 + (char > "\uffff") for char in text], np.int64)
            return Cas(root, sofa.get(f"{XMI}id", ""), text, np.append(0, np.cumsum(sizes)))
    raise DataError("The document has no text (cas:Sofa with a sofaString).")


def tag_of(layer: str) -> str:
    """Return the name of a UIMA type in XMI."""
    package, _, name = layer.rpartition(".")
    return f"{{http:///{package.replace('.', '/') or 'uima/noNamespace'}.ecore}}{name}"


def doc_of(service: Service, cas: Cas) -> Doc:
    """Return the tokens of a document with sentence starts, or those of the pipeline if it has none."""
    bounds = [cas.bounds(element) for element in cas.annotations(f"{SEGMENTATION}Token")]
    words, spaces, starts, at = list[str](), list[bool](), list[bool](), 0
    begins = {cas.bounds(element)[0] for element in cas.annotations(f"{SEGMENTATION}Sentence")}
    for begin, end in [pair for pair in bounds if pair[0] < pair[1]]:
        if begin < at:
            return service.nlp.make_doc(cas.text)
        gap = cas.text[at:begin]
        if gap == " " and words:
            spaces[-1] = True
        elif gap:
            words, spaces, starts = [*words, gap], [*spaces, False], [*starts, False]
        words, spaces, starts = [*words, cas.text[begin:end]], [*spaces, False], [*starts, begin in begins]
        at = end
    if not words:
        return service.nlp.make_doc(cas.text)
    if cas.text[at:]:
        words, spaces, starts = [*words, cas.text[at:]], [*spaces, False], [*starts, False]
    return Doc(service.nlp.vocab, words=words, spaces=spaces, sent_starts=starts if begins else None)  # type: ignore[arg-type]


def predict(service: Service, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer /predict: the document with predictions.  RAISES DataError: If it cannot be read."""
    tag, feature = _target(body)
    cas = read_cas(body["document"]["xmi"])
    view = next((each for each in cas.root.iter(f"{CAS}View") if each.get("sofa") == cas.sofa), None)
    if view is None:
        raise DataError("The document has no view of its text (cas:View).")
    old = [element for element in cas.annotations(tag) if element.get(PREDICTED) == "true"]
    gone = {element.get(f"{XMI}id") for element in old}
    for element in old:
        cas.root.remove(element)
    members = [member for member in view.get("members", "").split() if member not in gone]
    number = max((int(each.get(f"{XMI}id", 0)) for each in cas.root if each.get(f"{XMI}id", "0").isdigit()), default=0)
    for start, end, label, p in service.predict([doc_of(service, cas)])[0]:
        number += 1
        place = {"begin": str(cas.units[start]), "end": str(cas.units[end])}
        said = {feature: label, f"{feature}_score": f"{p:.6f}", PREDICTED: "true"}
        element = ElementTree.Element(tag, {f"{XMI}id": str(number), "sofa": cas.sofa, **place, **said})
        cas.root.insert(list(cas.root).index(view), element)
        members.append(str(number))
    view.set("members", " ".join(members))
    return {"document": ElementTree.tostring(cas.root, encoding="unicode", xml_declaration=True)}


def train(service: Service, body: Mapping[str, Any]) -> bool:
    """Answer /train; False if another training is under way.  RAISES DataError: If a document cannot be read.

    What follows the last sentence with an annotation counts as not annotated yet.
    """
    tag, feature = _target(body)
    texts = []
    for document in body["documents"]:
        cas = read_cas(document["xmi"])
        elements = [e for e in cas.annotations(tag) if e.get(PREDICTED) != "true" and e.get(feature)]
        spans = [CharSpan(*cas.bounds(element), element.get(feature, "")) for element in elements]
        last = max((span.end for span in spans), default=0)
        ends = [cas.bounds(element)[1] for element in cas.annotations(f"{SEGMENTATION}Sentence")]
        known = min((end for end in ends if end >= last), default=len(cas.text)) if spans else 0
        doc = doc_of(service, cas)
        texts.append(Annotated(doc, spans, sum(token.idx < known for token in doc)))
    return service.train(texts)


def _target(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body["metadata"]
    layer, feature = metadata["layer"], metadata["feature"]
    if not isinstance(layer, str) or not isinstance(feature, str) or not feature.isidentifier():
        raise DataError("The layer and the feature must be names.")
    return tag_of(layer), feature
