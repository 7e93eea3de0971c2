"""From decisions to a model: examples, training as `fit` does it, scores on what is held out, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from ...corpora.word_classes import lookups_languages
from ...errors import ConfigError
from ...files import replace_folder, replacing
from ...pipeline.configs import load_config
from ...pipeline.model_card import fill_card
from ...pipeline.select import one_crf_of, run_between
from ...pipeline.tasks import Entities, SpanGroups, TokenTags
from ...prf import Values
from ...schemes import TagSpan
from .._pages.bootstrap import interval
from .._pages.spans import span_counts
from .decoding import runs_of_tags
from .journal import Decision, Pins, TextTokens

if TYPE_CHECKING:
    from spacy.language import Language
    from thinc.api import Config

    from ...pipeline.component import CRFComponent

WRONG = "incorrect"
"""The group of spans that are known not to be there."""
FIELDS = "spacy_crfseq.LargeEntities.v1"
_SPANS = {
    "incorrect_spans_key": WRONG,
    "features": {"@crf_features": FIELDS},
    "decoder": {"@crf_decoders": "spacy_crfseq.MaxExpectedF1.v1"},
}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "entities": ("crf_ner", {**_SPANS, "support": "all"}),
    "chunks": ("crf_chunker", {**_SPANS, "support": "all"}),
    "tags": ("crf_tagger", {}),
    "fields": ("crf_tagger", {"features": {"@crf_features": FIELDS}, "support": "all"}),
}
"""The kinds of annotation: the factory and its settings.  Fields are runs of tokens with the same tag."""
BEST, TRAIN, DEV, CONFIG = "model-best", "train.spacy", "dev.spacy", "config.cfg"
ENOUGH, AHEAD = 0.005, 50
"""Annotation may stop if so many more texts are expected to add less than this to F1."""


def blank(task: str, lang: str, patterns: Path | None = None) -> Language:
    """Return an untrained pipeline.  RAISES ConfigError: If there is no such language."""
    import spacy

    factory, settings = TASKS[task]
    attributes: dict[str, Any] = {}
    regularizer = {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 0.5}
    if lang in lookups_languages():
        attributes["classes"] = {"@crf_attributes": _CLASSES, "lookups": lang}
    if patterns is not None:
        attributes["patterns"] = {"@crf_attributes": "spacy_crfseq.Phrases.v1", "path": str(patterns)}
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ConfigError(f"--lang {lang}: {error}") from None
    nlp.add_pipe(factory, config={**settings, "regularizer": regularizer, "attributes": attributes})
    return nlp


_CLASSES = "spacy_crfseq.WordClasses.v1"


def configured(path: Path) -> Language:
    """Return the untrained pipeline of a config."""
    from spacy.util import load_model_from_config

    return load_model_from_config(load_config(path, {}), auto_fill=True)


class Learner:
    """A pipeline, and the component in it that learns.

    model (str | None): The trained pipeline that it comes from, and from whose weights training goes on.
    runs (bool): Whether neighbouring tokens with the same tag are one span.
    RAISES ConfigError: If the pipeline has no such component, or it cannot be trained here.
    """

    def __init__(self, nlp: Language, component: str | None = None, model: str | None = None, runs: bool = False):
        self.nlp, self.model, self.runs = nlp, model, runs
        self.name, self.pipe = one_crf_of(nlp, component, model or "The config", spans_first=True)
        self.pipe.doc_model.refuse_networks("annotate", "Use a config without a network.")
        others = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False) and name != self.name]
        if others and model is None:
            raise ConfigError(f"The config has more to train than {self.name}: {', '.join(others)}. Give --model.")
        self._block = {key: value for key, value in nlp.get_pipe_config(self.name).items() if key != "factory"}
        self._factory = nlp.get_pipe_meta(self.name).factory
        self.source = self._copy(self.pipe) if model else None

    def first(self) -> CRFComponent | None:
        """Return the first predictor, before there are decisions: the component of the trained pipeline, if any."""
        return None if self.source is None else self._copy(self.source)

    def _copy(self, pipe: CRFComponent) -> CRFComponent:
        made: Any = self.nlp.create_pipe(self._factory, self.name, config=self._block)
        return made.from_bytes(pipe.to_bytes())  # type: ignore[no-any-return]

    def use_classes(self, path: Path) -> None:
        """Let features read the classes of words of a file."""
        attributes = {**self._block.get("attributes", {}), "words": {"@crf_attributes": _CLASSES, "path": str(path)}}
        self._block["attributes"] = attributes
        self.pipe = self.nlp.replace_pipe(self.name, self._factory, config=self._block)  # type: ignore[assignment]

    @property
    def plain(self) -> bool:
        """Whether each token has a tag of its own, so that there are no spans."""
        return self.pipe.annotation.scheme is None

    def ready(self, docs: Iterable[Doc]) -> list[Doc]:
        """Return Docs as earlier components leave them."""
        return run_between(self.nlp, docs, None, self.name)

    def train(self, decisions: Sequence[Decision], labels: Sequence[str]) -> CRFComponent:
        """Return a component that has learned from decisions, in their order, as `fit` does.

        labels: Those of the project; those of the pipeline that it starts from come first.
        """
        pipe: Any = self.nlp.create_pipe(self._factory, self.name, config=self._block)
        pipe.start_from(self.source)
        examples = self.examples(decisions)
        every = dict.fromkeys([*(self.source.labels if self.source else ()), *labels])
        pipe.initialize(lambda: examples, nlp=self.nlp, labels=list(every))
        pipe.fit()
        return pipe  # type: ignore[no-any-return]

    def examples(self, decisions: Iterable[Decision]) -> list[Example]:
        """Return decisions as training data."""
        gold = [self.gold(decision) for decision in decisions]
        return [Example(doc, ref) for doc, ref in zip(self.ready(map(self._bare, gold)), gold, strict=True)]

    def _bare(self, gold: Doc) -> Doc:
        words, spaces = [token.text for token in gold], [bool(token.whitespace_) for token in gold]
        return Doc(self.nlp.vocab, words=words, spaces=spaces)

    def doc(self, text: TextTokens) -> Doc:
        """Return the tokens of a text."""
        return Doc(self.nlp.vocab, words=list(text.words), spaces=None if text.spaces is None else list(text.spaces))

    def gold(self, decision: Decision, doc: Doc | None = None) -> Doc:
        """Return an annotated Doc, a new one if none is given; what is not known is missing."""
        doc, pins, task = doc or self.doc(decision.text), decision.pins, self.pipe.annotation
        old: Any = doc.ents if isinstance(task, Entities) else ()
        if isinstance(task, SpanGroups) and task.spans_key in doc.spans:
            old = doc.spans[task.spans_key]
        kept = {(span.start, span.end, span.label_): span for span in old}  # with its ids
        spans = [kept.get(span) or Span(doc, *span) for span in pins.spans]
        missing = missing_tokens(pins)
        allowed: dict[int, Sequence[str]] = dict(pins.choices)
        if isinstance(task, Entities):
            doc.set_ents(spans, missing=[Span(doc, t, t + 1) for t in sorted(missing)], default="outside")
            spans = []
        elif isinstance(task, SpanGroups) and not missing:
            doc.spans[task.spans_key], spans = spans, []
        elif isinstance(task, SpanGroups):
            inside = {t for span in pins.spans for t in range(span.start, span.end)}
            allowed |= {t: ["O"] for t in range(len(doc)) if t not in missing | inside}
        elif isinstance(task, TokenTags):
            for token, label in ((token, span.label_) for span in spans for token in span):
                _set_tag(token, task.attr, label)
            for start, end, label in pins.wrong:
                if end == start + 1 and task.attr == "tag":
                    _set_tag(doc[start], task.attr, f"!{label}")
            spans = []
        if pins.wrong and not self.plain:
            doc.spans[WRONG] = [Span(doc, start, end, label) for start, end, label in pins.wrong]
        if spans or allowed:
            self.pipe.clamp(doc, spans=spans, allowed=allowed)
        return doc

    def scored(self, pipe: CRFComponent, decisions: Sequence[Decision], labels: Sequence[str]) -> HeldOutScores:
        """Return how well a model predicts decisions that it has not learned from."""
        if not decisions:
            return HeldOutScores()
        docs = self.ready(self.doc(decision.text) for decision in decisions)
        of_docs = predicted(pipe, docs, self.runs)
        gold = [list(decision.pins.spans) for decision in decisions]
        hidden = [missing_tokens(decision.pins) for decision in decisions]
        kept = [
            [s for s in spans if out.isdisjoint(range(s.start, s.end))]
            for spans, out in zip(of_docs, hidden, strict=True)
        ]
        names = list(dict.fromkeys([*labels, *(span.label for spans in (*gold, *kept) for span in spans)]))
        counts = span_counts(gold, kept, names)
        value, low, high = (float(x) for x in interval(counts.sum(1), f1))
        shares = f1(counts.sum(0).astype(np.float64))
        by_label = {name: None if math.isnan(f) else f for name, f in zip(names, shares.tolist(), strict=True)}
        return HeldOutScores(_or_none(value), _or_none(low), _or_none(high), len(decisions), by_label)

    def save(self, folder: Path, pipe: CRFComponent, learned: Sequence[Decision], held_out: Sequence[Decision]) -> None:
        """Write the pipeline, the corpora that it was trained on and is scored on, and the config to train it again."""
        files: Any = {TRAIN: self.docbin(learned), DEV: self.docbin(held_out), CONFIG: self.config(folder, pipe)}
        for name, value in files.items():
            with replacing(folder / name) as file:
                value.to_disk(file)
        self.pipe.from_bytes(pipe.to_bytes())
        replace_folder(folder / BEST, fill_card(self.nlp).to_disk)

    def docbin(self, decisions: Iterable[Decision]) -> DocBin:
        """Return decisions in spaCy's binary format."""
        docs = [self.gold(decision) for decision in decisions]
        return DocBin(docs=docs, store_user_data=any(doc.user_data for doc in docs))

    def config(self, folder: Path, pipe: CRFComponent) -> Config:
        """Return the config with which `fit` trains the same model."""
        config = self.nlp.config.copy()
        reader = {"@readers": "spacy.Corpus.v1", "gold_preproc": True, "max_length": 0, "limit": 0, "augmenter": None}
        config["paths"] = {**config.get("paths", {}), "train": str(folder / TRAIN), "dev": None}
        config["corpora"] = {name: {**reader, "path": f"${{paths.{name}}}"} for name in ("train", "dev")}
        config["training"]["train_corpus"], config["training"]["dev_corpus"] = "corpora.train", "corpora.dev"
        config["initialize"]["components"][self.name] = {"labels": pipe.label_data}
        return config


def _set_tag(token: Any, attr: str, label: str) -> None:
    if attr == "morph":
        token.set_morph(label)
    else:
        setattr(token, f"{attr}_", label)


def missing_tokens(pins: Pins) -> set[int]:
    """Return the tokens whose annotation is not known, or known in part only."""
    inside = {t for span in pins.spans for t in range(span.start, span.end)}
    doubtful = {t for span in pins.wrong for t in range(span.start, span.end)}
    return {*pins.unknown, *pins.choices, *doubtful} - inside


def predicted(pipe: CRFComponent, docs: Sequence[Doc], runs: bool) -> list[list[TagSpan]]:
    """Return the spans that a model predicts for Docs."""
    if runs:
        return [[TagSpan(*span[:3]) for span in runs_of_tags(pipe.posterior([doc]))] for doc in docs]
    return [[TagSpan(*span[:3]) for span in spans] for spans in pipe.posterior(docs).spans()] if docs else []


# Scores


class HeldOutScores(NamedTuple):
    """F1 with its interval on so many texts, and that of each label; None where it is not defined."""

    f1: float | None = None
    low: float | None = None
    high: float | None = None
    texts: int = 0
    by_label: Mapping[str, float | None] = {}


def f1(counts: Values) -> Values:
    """Return F1 for counts [..., 3] of correct, predicted and gold spans; nan without spans."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values: Values = 2 * counts[..., 0] / (counts[..., 1] + counts[..., 2])
    return values


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def expected_gain(curve: Sequence[Mapping[str, Any]], ahead: int = AHEAD) -> float | None:
    """Return how much F1 so many more texts are likely to add, by a power law through the scores of earlier models.

    The law is a - b * n^-c (Hestness et al. 2017, "Deep learning scaling is predictable, empirically"), found by least
    squares with c on a grid; scores count as much as they have texts to be computed on.  None if these are too few.
    """
    points = [(c["texts"], c["f1"], c["held_out"]) for c in curve if c["f1"] is not None and c["held_out"] >= 5]
    if len(points) < 5 or points[-1][0] < 2 * points[0][0]:
        return None
    n, y, weight = (np.array(column, np.float64) for column in zip(*points, strict=True))
    best: tuple[float, float] | None = None
    for c in (0.25, 0.5, 0.75, 1.0):
        table = np.stack([np.ones_like(n), -(n**-c)], 1) * np.sqrt(weight)[:, None]
        solution = np.linalg.lstsq(table, y * np.sqrt(weight), rcond=None)[0]
        error = float(((table @ solution - y * np.sqrt(weight)) ** 2).sum())
        gain = float(max(solution[1], 0.0) * (n[-1] ** -c - (n[-1] + ahead) ** -c))
        best = (error, gain) if best is None or error < best[0] else best
    return None if best is None else best[1]


# The time of a user

PRIOR = np.array([1.5, 0.12, 0.6, 2.5])
"""Seconds for a text, a token to read, a span to judge, and an action."""
STRENGTH = 8.0
"""The texts that the prior counts as."""


def time_model(rows: Sequence[tuple[float, float, float, float]]) -> NDArray[np.float64]:
    """Return the seconds that a user needs for a text, a token, a span and an action: least squares around `PRIOR`.

    rows: Tokens, spans, actions and seconds of each text; pauses count as three times the median at most.
    """
    if not rows:
        return PRIOR
    table = np.array(rows, np.float64)
    seconds = np.minimum(table[:, 3], 3 * np.median(table[:, 3]))
    x = np.column_stack([np.ones(len(table)), table[:, :3]]) * PRIOR
    noise = max(float(np.var(seconds)), 1e-6) / max(float(np.mean(seconds)) ** 2, 1e-6)
    ridge = STRENGTH * max(noise, 0.05) * np.eye(4) * float(np.mean((x**2).sum(1)))
    factors = np.linalg.solve(x.T @ x + ridge, x.T @ seconds + ridge @ np.ones(4))
    fitted: NDArray[np.float64] = PRIOR * np.clip(factors, 0.05, 20)
    return fitted
