"""A model behind a server: predictions for texts, and training on what annotation tools send."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.tokens import Span as DocSpan
from spacy.training import Example

from ...files import replace_folder
from ...pipeline.doc_posterior import Scored
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from ...pipeline.tasks import Entities, SpanGroups


class CharSpan(NamedTuple):
    """A labelled span of characters, and its probability."""

    start: int
    end: int
    label: str
    probability: float = 1.0


class Annotated(NamedTuple):
    """A tokenized text with spans of characters; tokens from `known` on are not annotated."""

    doc: Doc
    spans: Sequence[CharSpan]
    known: int


class Service:
    """A pipeline and its component that predicts.

    output (Path | None): Where the pipeline is saved after a training.
    RAISES CrfError: If there is no such pipeline or component.
    """

    def __init__(self, model: str, component: str | None = None, output: Path | None = None) -> None:
        self.nlp, self.output, self.version = load_pipeline(model), output, 0
        self.name, self.pipe = one_crf_of(self.nlp, component, model, spans_first=True)
        self.pipe.doc_model.refuse_networks("serve", "Use a pipeline without a network.")
        self._block = {key: v for key, v in self.nlp.get_pipe_config(self.name).items() if key != "factory"}
        self._factory = self.nlp.get_pipe_meta(self.name).factory
        self._source, self._training = self.pipe, threading.Lock()
        self._kept: dict[Any, tuple[str, Sequence[CharSpan]]] = {}
        self._wake = threading.Lock()

    def predict(self, docs: Sequence[Doc]) -> list[list[CharSpan]]:
        """Return the spans of Docs that earlier components have not seen yet."""
        pipe, docs = self.pipe, run_between(self.nlp, docs, None, self.name)
        if not docs:
            return []
        found: list[list[Scored]] = pipe.posterior(docs, preset=True).spans()
        return [
            [CharSpan(doc[s].idx, doc[e - 1].idx + len(doc[e - 1]), label, p) for s, e, label, p in spans]
            for doc, spans in zip(docs, found, strict=True)
        ]

    def annotate(self, texts: Sequence[str]) -> list[list[CharSpan]]:
        """Return the spans of texts."""
        return self.predict([self.nlp.make_doc(text) for text in texts])

    def keep(self, key: Any, text: str, spans: Sequence[CharSpan] | None) -> int:
        """Keep or, if spans are None, forget an annotated text; return the number of texts that are kept."""
        with self._wake:
            self._kept.pop(key, None)
            if spans is not None:
                self._kept[key] = text, spans
            return len(self._kept)

    def train_kept(self) -> int:
        """Train on the texts that are kept, and return their number."""
        with self._wake:
            kept = list(self._kept.values())
        self.train([Annotated(doc := self.nlp.make_doc(text), spans, len(doc)) for text, spans in kept])
        return len(kept)

    def train(self, texts: Sequence[Annotated]) -> bool:
        """Train from the weights of the pipeline; return False if another training is under way.

        RAISES DataError: If the texts cannot be learned from.
        """
        texts = [text for text in texts if text.known]
        if not texts:
            return True
        if not self._training.acquire(blocking=False):
            return False
        try:
            docs = run_between(self.nlp, [text.doc.copy() for text in texts], None, self.name)
            examples = [Example(doc, self._gold(text)) for doc, text in zip(docs, texts, strict=True)]
            made: Any = self.nlp.create_pipe(self._factory, self.name, config=self._block)
            made.start_from(self._source)
            made.initialize(lambda: examples, nlp=self.nlp)
            made.fit()
            self.pipe, self.version = made, self.version + 1
            if self.output is not None:
                replace_folder(self.output, self._write)
        finally:
            self._training.release()
        return True

    def _write(self, folder: Path) -> None:
        self.nlp.to_disk(folder, exclude=[self.name])
        self.pipe.to_disk(folder / self.name)

    def _gold(self, text: Annotated) -> Doc:
        doc, spans, task = text.doc.copy(), list[DocSpan](), self.pipe.annotation
        taken: set[int] = set()
        for start, end, label, _ in text.spans:
            span = doc.char_span(start, end, label=label, alignment_mode="expand")
            if span is not None and taken.isdisjoint(range(span.start, span.end)):
                taken.update(range(span.start, span.end))
                spans.append(span)
        if isinstance(task, Entities):
            missing = [DocSpan(doc, t, t + 1) for t in range(text.known, len(doc)) if t not in taken]
            doc.set_ents(spans, missing=missing, default="outside")
        elif isinstance(task, SpanGroups):
            doc.spans[task.spans_key] = spans
        else:
            self.pipe.clamp(doc, spans=spans)
        return doc
