"""A model behind a server: predictions for texts, and training on what annotation tools send."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.tokens import Doc, Span
from spacy.training import Example

from ...errors import DataError
from ...files import replace_folder
from ...pipeline.doc_posterior import Scored
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from ...pipeline.tasks import Entities, SpanGroups

if TYPE_CHECKING:
    from ...pipeline.component import CRFComponent


class ScoredSpan(NamedTuple):
    """A labelled span of characters, and its probability."""

    start: int
    end: int
    label: str
    probability: float = 1.0


class AnnotatedDoc(NamedTuple):
    """A tokenized text with spans of characters; tokens from `known` on are not annotated."""

    doc: Doc
    spans: Sequence[ScoredSpan]
    known: int


class Key(NamedTuple):
    """The numbers of a task and of an annotation of it."""

    task: int
    annotation: int | None


class Kept(NamedTuple):
    """An annotated text of a project."""

    text: str
    spans: Sequence[ScoredSpan]
    project: int | None = None


DOUBTFUL, LEAST, MOST = 0.9, 0.05, 2
"""A predicted span below the first probability gets alternatives above the second one, at most this number."""


def _rivals(predicted: Sequence[Scored], likely: Sequence[Scored]) -> list[Scored]:
    """Return the likeliest other spans that overlap each doubtful one, in the order of the text."""
    there, rivals = {span[:3] for span in predicted}, set[Scored]()
    others = [span for span in likely if span[:3] not in there]
    begins, longest = [span.start for span in others], max((span.end - span.start for span in others), default=0)
    for span in predicted:
        if span.probability < DOUBTFUL:
            first, after = bisect_left(begins, span.start - longest), bisect_left(begins, span.end)
            near = [other for other in others[first:after] if other.end > span.start]
            rivals.update(sorted(near, key=lambda other: -other.probability)[:MOST])
    return sorted(rivals)


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
        self._kept, self._changed = dict[Key, Kept](), False
        self._wake = threading.Lock()

    def predict(self, docs: Sequence[Doc], *, alternatives: bool = False) -> list[list[ScoredSpan]]:
        """Return the spans of Docs that earlier components have not seen yet.

        alternatives (bool): Add, after these, the `MOST` likeliest spans in the place of each doubtful one.
        """
        pipe, docs = self.pipe, run_between(self.nlp, docs, None, self.name)
        if not docs:
            return []
        answers = pipe.posterior(docs, preset=True)
        by_doc: list[list[Scored]] = answers.spans()
        if alternatives and pipe.annotation.scheme is not None:
            by_doc = [[*own, *_rivals(own, likely)] for own, likely in zip(by_doc, answers.likely(LEAST), strict=True)]
        return [
            [ScoredSpan(doc[s].idx, doc[e - 1].idx + len(doc[e - 1]), label, p) for s, e, label, p in spans]
            for doc, spans in zip(docs, by_doc, strict=True)
        ]

    def annotate(self, texts: Sequence[str]) -> list[list[ScoredSpan]]:
        """Return the spans of texts.  RAISES DataError: If one is too long."""
        return self.predict([self.tokens(text) for text in texts])

    def tokens(self, text: str) -> Doc:
        """Return the tokens of a text.  RAISES DataError: If it is too long."""
        self.check_size(text)
        return self.nlp.make_doc(text)

    def check_size(self, text: str) -> None:
        """RAISES DataError: If a text is longer than the pipeline takes."""
        if len(text) > self.nlp.max_length:
            raise DataError(f"A text has {len(text):,} characters, of {self.nlp.max_length:,} at most. Split it.")

    # Texts that are kept

    def keep(self, key: Key, kept: Kept | None) -> None:
        """Keep or, if it is None, forget an annotated text for `train_kept`.

        RAISES DataError: If it cannot be learned from; what was kept before then stays.
        """
        if kept is not None and not kept.spans and self.pipe.annotation.scheme is None:
            kept = None  # a text without tags teaches a tagger nothing
        doc = None if kept is None else self.tokens(kept.text)
        if kept is not None and doc is not None and len(doc):
            self._learner([AnnotatedDoc(doc, kept.spans, len(doc))])
        with self._wake:
            gone = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept  # the last of its task
            self._changed |= kept != gone

    def forget(self, gone: Callable[[Key, Kept], bool]) -> None:
        """Forget the texts for which a function is true."""
        with self._wake:
            left = {key: kept for key, kept in self._kept.items() if not gone(key, kept)}
            self._changed |= len(left) < len(self._kept)
            self._kept = left

    def train_kept(self, *, again: bool = False) -> int:
        """Train on the texts that are kept, if these have changed, and return their number.

        A training under way does it at its end.  Of several annotations of a task, the last one counts.
        again (bool): Train also if nothing has changed.
        RAISES DataError: If the texts cannot be learned from.
        """
        with self._wake:
            self._changed |= again
        self._catch_up()
        return len(self._last())

    def _last(self) -> list[Kept]:
        with self._wake:
            return list({key.task: kept for key, kept in self._kept.items()}.values())

    def _catch_up(self) -> None:
        """Train until nothing has changed since; who finds another training under way leaves it to that one."""
        failed: Exception | None = None
        while self._changed and self._training.acquire(blocking=False):
            try:
                self._changed, failed = False, None
                self._learn(
                    [AnnotatedDoc(doc := self.tokens(text), spans, len(doc)) for text, spans, _ in self._last()]
                )
            except (ValueError, OSError) as error:  # those who come now must not lose their annotations
                failed = error
            finally:
                self._training.release()
        if failed is not None:
            raise failed

    # Training

    def train(self, texts: Sequence[AnnotatedDoc]) -> bool:
        """Train from the weights of the pipeline; return False if another training is under way.

        RAISES DataError: If the texts cannot be learned from.
        """
        if not self._training.acquire(blocking=False):
            return False
        try:
            self._learn(texts)
        finally:
            self._training.release()
            self._catch_up()
        return True

    def _learn(self, texts: Sequence[AnnotatedDoc]) -> None:
        """Replace the model by one that has learned from texts; without any, by that of the pipeline."""
        texts, made = [text for text in texts if text.known], self._source
        if texts:
            made = self._learner(texts)
            made.fit()
        if made is not self.pipe:
            self.pipe, self.version = made, self.version + 1
            if self.output is not None:
                replace_folder(self.output, self._write)

    def _learner(self, texts: Sequence[AnnotatedDoc]) -> CRFComponent:
        """Return a component before it learns from texts.  RAISES DataError: If it cannot learn from them."""
        docs = run_between(self.nlp, [text.doc.copy() for text in texts], None, self.name)
        examples = [Example(doc, self._gold(text)) for doc, text in zip(docs, texts, strict=True)]
        made: Any = self.nlp.create_pipe(self._factory, self.name, config=self._block)
        made.start_from(self._source)
        made.initialize(lambda: examples, nlp=self.nlp)
        return made  # type: ignore[no-any-return]

    def _write(self, folder: Path) -> None:
        self.nlp.to_disk(folder, exclude=[self.name])
        self.pipe.to_disk(folder / self.name)

    def _gold(self, text: AnnotatedDoc) -> Doc:
        doc, spans, task = text.doc.copy(), list[Span](), self.pipe.annotation
        taken: set[int] = set()
        for start, end, label, _ in text.spans:
            span = doc.char_span(start, end, label=label, alignment_mode="expand")
            if span is not None and taken.isdisjoint(range(span.start, span.end)):
                taken.update(range(span.start, span.end))
                spans.append(span)
        if isinstance(task, Entities):
            missing = [Span(doc, t, t + 1) for t in range(text.known, len(doc)) if t not in taken]
            doc.set_ents(spans, missing=missing, default="outside")
        elif isinstance(task, SpanGroups):
            doc.spans[task.spans_key] = spans
        else:
            self.pipe.clamp(doc, spans=spans)
        return doc
