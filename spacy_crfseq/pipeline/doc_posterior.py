"""The posterior distribution of the labels of Docs, as a component returns it.

Everything is computed on demand.  It respects the scheme of the tags, and `evidence`.  White space is no position of
the chain: inside of a span, it has the tag I-, elsewhere O.  Plain tags, which mark no spans, are repeated: white
space has the tag of the word before it, or else of the word after it, and is not among `spans`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

from ..errors import ConfigError
from ..inference.cover import cover
from ..inference.posterior import Posterior
from ..inference.spread import SpreadPosterior
from ..reliability import curved
from ..schemes import ANY, SpanArrays, encode, named_tags, spans_of, split_tag, tag_table
from ..threads import cached_property
from ..training.compatibility import check_global, is_local
from ..types import Bools, Floats, Ints, Offsets
from .calibration import span_probabilities
from .evidence import DocEvidence
from .prediction import DocColumns, Trained, allowed_labels
from .structs import by_doc


class Scored(NamedTuple):
    """A predicted span, as token numbers in its Doc, and the probability of these boundaries and this label."""

    start: int
    end: int
    label: str
    probability: float


class Labelling(NamedTuple):
    """The numbers of the tags of a whole Doc [tokens], and their log-probability in nats."""

    labels: Ints
    log_probability: float


class Alternative(NamedTuple):
    """One of the most probable labellings of a Doc: the tag of each token, and the spans that the tags make up."""

    probability: float
    tags: list[str]
    spans: list[Span]


Curves: TypeAlias = Mapping[str, Sequence[float]]
"""Those of types of spans, see `reliability.Curve`, and "*" for those without their own."""
LEAST_LIKELY = 0.01
"""Spans of smaller probabilities are not listed."""


class DocPosterior:
    """Queries about some Docs; each list has one entry per Doc.

    doc_offsets (Offsets): [docs + 1] tokens.
    tags (tuple[str, ...]): The L labels of the model, in the order of its numbers; then, if a Doc has white space, tags
        I- for it that the model does not have.
    word_posterior (Posterior): P(labels | texts) of the words alone.
    columns (DocColumns): Those of the Docs.
    decided (Mapping[int, DocEvidence]): Decisions of earlier components, by Doc.
    places (Offsets | None): [W] tokens of the words; None if all tokens are words.
    """

    def __init__(
        self, trained: Trained, word_posterior: Posterior, columns: DocColumns, decided: Mapping[int, DocEvidence]
    ) -> None:
        self._trained, self.word_posterior, self.columns, self.decided = trained, word_posterior, columns, decided
        gaps, labels = columns.gaps, trained.labels
        self.doc_offsets = columns.doc_offsets if gaps is None else gaps.doc_offsets
        self._spread = spread = None if gaps is None else labels.spread(gaps, columns.text.offsets)
        self._posterior = word_posterior if spread is None else SpreadPosterior(word_posterior, spread)
        self.places = None if spread is None else spread.places
        self.tags = labels.tags if spread is None else labels.token_tags
        self._scheme, self._calibration = labels.annotation.scheme, trained.calibration

    @property
    def distribution(self) -> Posterior | SpreadPosterior:
        """P(labels | texts) of all Docs together; errors as of `check_probabilities`."""
        self.check_probabilities()
        return self._posterior

    def __len__(self) -> int:
        return len(self.doc_offsets) - 1

    def __repr__(self) -> str:
        n_tokens = int(self.doc_offsets[-1])
        asked = "labels, spans(), marginals(), nbest(k), sample(n), log_probabilities(), entropies()"
        return (
            f"<DocPosterior of {len(self):,} Docs, {n_tokens:,} tokens, {len(self.tags)} tags; ask for lists with an "
            f"entry for each Doc: {asked}>"
        )

    def _repr_html_(self) -> str:
        return posterior_table(self)

    @property
    def has_probabilities(self) -> bool:
        """Whether there are probabilities of spans and sentences: not if the model is normalised at each token."""
        return not is_local(self._trained.method.loss)

    def check_probabilities(self) -> None:
        """RAISES ConfigError: If the model is normalised at each token, so that sequences have no probabilities."""
        check_global(self._trained.labels.component, self._trained.method.loss, "this question")

    # Of all Docs together

    @cached_property
    def _decoded(self) -> tuple[Ints, Bools]:
        """The numbers of the predicted tags [T], and whether those of each sequence [N] are certainly the best."""
        method, exact = self._trained.method, np.ones(len(self.word_posterior.offsets) - 1, np.bool_)
        labels = self.word_posterior.decode(method.decoder, method.n_threads, exact)
        if least := {label: share for label, share in self._trained.cover.items() if share < 1}:
            self._check_cover()
            groups, values = self.groups([*least]), np.array([*least.values()])
            labels = cover(self.word_posterior, labels, groups, values, method.decoder, method.n_threads)
        return labels if self._spread is None else self._spread.labels(labels), exact

    def _check_cover(self) -> None:
        """RAISES ConfigError: If words cannot be put into spans by their probability."""
        name, method = self._trained.labels.component, self._trained.method
        check_global(name, method.loss, "a threshold for recall")
        if self._scheme is None or self.word_posterior.rules is not None:
            reason = "its tags mark no spans" if self._scheme is None else "once and order limit its labels"
            raise ConfigError(f"{name}: a threshold for recall is not possible: {reason}.")

    def groups(self, types: Sequence[str]) -> Bools:
        """Return which labels of the model each type of spans has [types, L]; "*" stands for all types.

        RAISES ConfigError: If there is no such type.
        """
        outside, labels = self.word_posterior.constraints.outside, self._trained.labels
        return np.array([
            ~outside if name == ANY else named_tags([name], labels.tags, self._scheme, labels.component)[0] & ~outside
            for name in types
        ])  # fmt: skip

    @property
    def all_labels(self) -> Ints:
        """The numbers of the predicted tags [T]."""
        return self._decoded[0]

    @cached_property
    def all_spans(self) -> SpanArrays:
        """The predicted spans [S]; with plain tags, the words, whose types are the numbers of their tags."""
        labels = self.all_labels
        if self._scheme is not None:
            return spans_of(labels, self.offsets, tag_table(self.tags, self._scheme))
        tokens = np.arange(len(labels)) if self.places is None else self.places
        sequence = np.repeat(np.arange(len(self.word_posterior.offsets) - 1), np.diff(self.word_posterior.offsets))
        return SpanArrays(sequence, tokens, tokens + 1, labels[tokens].astype(np.int64))

    @cached_property
    def all_probabilities(self) -> NDArray[np.float64]:
        """The probabilities of `all_spans` [S], by the temperature and the curves that were fitted.

        With curves, those of spans that share a token may add up to more than 1, but not if a decoder such as
        `RescoredSpans` has corrected them.
        """
        return self._at(self._posterior.temperature, self._calibration)

    def probabilities_at(self, temperature: float) -> NDArray[np.float64]:
        """Return the probabilities of `all_spans` [S] at another temperature alone; the spans stay the same."""
        return self._at(temperature, {})

    def _at(self, temperature: float, curves: Curves) -> NDArray[np.float64]:
        spans = self.all_spans
        if self._scheme is None:
            self.check_probabilities()
            return self.word_posterior._replace(temperature=temperature).label_probabilities(
                spans.type.astype(np.int32)
            )
        return self._probabilities(temperature, curves, self.all_labels, spans.start, spans.end)

    def _probabilities(
        self, temperature: float, curves: Curves, labels: Ints, starts: Offsets, ends: Offsets
    ) -> NDArray[np.float64]:
        """Return the probabilities of spans [S], corrected if the decoder has learned to, then calibrated."""
        self.check_probabilities()

        def by_type(probabilities: NDArray[np.float64], first_labels: Ints) -> NDArray[np.float64]:
            names = [name if (name := split_tag(tag)[1]) in curves else ANY for tag in self.tags]
            out, of_span = probabilities.copy(), np.array(names)[first_labels]
            for name, curve in curves.items():
                own = of_span == name
                out[own] = curved(probabilities[own], curve)
            return out

        def of_words(labels: Ints, starts: Offsets, ends: Offsets) -> NDArray[np.float64]:
            places, decoder = (labels, starts, ends), self._trained.method.decoder
            return span_probabilities(self.word_posterior, decoder, temperature, *places, by_type if curves else None)

        if self._spread is None:
            return of_words(labels, starts, ends)
        return SpreadPosterior(self.word_posterior, self._spread, of_words).span_probabilities(labels, starts, ends)

    # Doc by Doc

    @property
    def labels(self) -> list[Ints]:
        """The numbers of the predicted tags of each Doc [tokens]."""
        return self._by_doc(self.all_labels)

    @property
    def exact(self) -> Bools:
        """Whether the labels of each Doc [docs] are certainly the best that `once` and `order` allow.

        Others are the best among the most likely labellings: too many labels could occur in too many ways there.
        """
        is_exact: Bools = self._sums((~self._decoded[1]).astype(np.float64)) == 0
        return is_exact

    def missing(self) -> NDArray[np.float64]:
        """Return how much of the probability of each Doc [docs] is left out under `once` and `order`, an upper bound.

        Marginals, spans, alternatives, entropies and samples are those of the labellings that are not left out.
        """
        return np.minimum(self._sums(self.distribution.missing()), 1.0)

    def spans(self) -> list[list[Scored]]:
        """Return the predicted spans; for a tagger, its words with their tags."""
        arrays, names = self.all_spans, self._types
        bounds, starts, ends = (array.tolist() for array in by_doc(arrays, self.doc_offsets))
        labels = map(names.__getitem__, arrays.type.tolist())
        scored = list(map(Scored, starts, ends, labels, self.all_probabilities.tolist()))
        return [scored[first:last] for first, last in pairwise(bounds)]

    def likely(self, least: float) -> list[list[Scored]]:
        """Return the spans with a probability of at least `least`, predicted or not, in the order of each text.

        RAISES ConfigError: If tags mark no spans, or `least` is below 0.01: more spans than people look at.
        """
        if self._scheme is None or not least >= LEAST_LIKELY:
            reason = "its tags mark no spans" if self._scheme is None else f"least must be {LEAST_LIKELY} or more"
            raise ConfigError(f"{self._trained.labels.component}: {reason}.")
        tokens = np.arange(self.distribution.n_tokens) if self.places is None else self.places
        rows = sorted(self.word_posterior.candidates(least)[0].tolist())
        left = [(int(tokens[a]), int(tokens[b - 1]) + 1, split_tag(self.tags[tag])[1]) for a, b, tag in rows]
        number, scored = {tag: i for i, tag in enumerate(self.tags)}, list[Scored]()
        while left:  # spans that do not overlap are asked for at once
            rest, starts, ends, names = list[tuple[int, int, str]](), list[int](), list[int](), list[str]()
            labels = np.zeros(self.distribution.n_tokens, np.int32)
            for start, end, name in left:
                if ends and start < ends[-1]:
                    rest.append((start, end, name))
                    continue
                tags = encode([(0, end - start, name)], end - start, self._scheme)
                labels[start:end] = [number[tag] for tag in tags]
                starts.append(start)
                ends.append(end)
                names.append(name)
            places = np.array(starts, np.int64), np.array(ends, np.int64)
            values = self._probabilities(self._posterior.temperature, self._calibration, labels, *places).tolist()
            scored += map(Scored, starts, ends, names, values)
            left = rest
        kept = sorted(span for span in scored if span.probability >= least)
        bounds = np.searchsorted([span.start for span in kept], self.doc_offsets).tolist()
        return [
            [Scored(start - offset, end - offset, label, p) for start, end, label, p in kept[first:last]]
            for (first, last), offset in zip(pairwise(bounds), self.doc_offsets.tolist(), strict=False)
        ]

    def marginals(self) -> list[Floats]:
        """Return P(tag of token t | text) as [tokens, L], L the number of `tags`."""
        return self._by_doc(self.distribution.marginals())

    def word_marginals(self) -> list[Floats]:
        """Return the marginals of each Doc without those of white space [words, L]."""
        self.check_probabilities()
        return np.split(self.word_posterior.marginals(), self.columns.doc_offsets[1:-1])

    def log_probabilities(self) -> NDArray[np.float64]:
        """Return the log-probability of each Doc's predicted labels [docs]."""
        return self._sums(self.distribution.log_probabilities(self.all_labels))

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each Doc's labels [docs], in nats."""
        return self._sums(self.distribution.entropies())

    def nbest(self, k: int) -> list[list[Labelling]]:
        """Return the k best labellings of each Doc, or all there are.  RAISES ConfigError: If k is less than 1."""
        self.check_probabilities()
        labels, scores = self.word_posterior.nbest(k).merged(self.word_posterior.offsets, self._sequence_bounds)
        labels = labels if self._spread is None else self._spread.labels(labels)
        return [
            [Labelling(labels[i, first:last], score) for i, score in enumerate(of_doc) if score > -np.inf]
            for (first, last), of_doc in zip(pairwise(self.doc_offsets.tolist()), scores.T.tolist(), strict=True)
        ]

    def alternative(self, doc: Doc, labelling: Labelling) -> Alternative:
        """Return a labelling of one of the Docs as tags and spans."""
        tags, spans = [self.tags[label] for label in labelling.labels], []
        if self._scheme is not None:
            table = tag_table(self.tags, self._scheme)
            arrays = spans_of(labelling.labels, np.array([0, len(doc)]), table)
            rows = zip(arrays.start.tolist(), arrays.end.tolist(), arrays.type.tolist(), strict=True)
            spans = [Span(doc, start, end, table.types[kind]) for start, end, kind in rows]
        return Alternative(float(np.exp(labelling.log_probability)), tags, spans)

    def probability(self, start: int, tags: Sequence[str]) -> float:
        """Return the probability of a span with these tags, `start` counted over all Docs; 0 for unknown tags."""
        if not set(tags) <= set(self.tags):
            return 0.0
        labels, end = np.zeros(self.distribution.n_tokens, np.int32), start + len(tags)
        labels[start:end] = [self.tags.index(tag) for tag in tags]
        temperature, span = self._posterior.temperature, (np.array([start]), np.array([end]))
        return float(self._probabilities(temperature, self._calibration, labels, *span)[0])

    def sample(self, n: int, seed: int = 0) -> list[Ints]:
        """Return n random labellings of each Doc [n, tokens].  RAISES ConfigError: If n is negative."""
        if n < 0:
            raise ConfigError(f"The number of samples must be 0 or more, but {n} was given.")
        drawn = self.distribution.sample(n, np.random.default_rng(seed))
        return np.split(drawn, self.doc_offsets[1:-1], axis=1)

    @property
    def offsets(self) -> Offsets:
        """Offsets [N + 1] of the sequences that make up the Docs, in tokens."""
        return self._posterior.offsets

    @property
    def _types(self) -> Sequence[str]:
        return self.tags if self._scheme is None else tag_table(self.tags, self._scheme).types

    @property
    def _sequence_bounds(self) -> NDArray[np.int64]:
        return np.searchsorted(self.word_posterior.offsets, self.columns.doc_offsets)

    def _sums(self, of_sequences: NDArray[np.float64]) -> NDArray[np.float64]:
        home = np.repeat(np.arange(len(self)), np.diff(self._sequence_bounds))
        return np.bincount(home, of_sequences, len(self)).astype(np.float64)

    def _by_doc(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        return np.split(values, self.doc_offsets[1:-1])


def ask(
    trained: Trained,
    docs: Sequence[Doc],
    given: Mapping[int, DocEvidence] | None = None,
    *,
    preset: bool = False,
) -> DocPosterior:
    """Return the distribution of the labels of Docs; arguments and errors as of `allowed_labels`."""
    columns = trained.reader.read(docs, trained.encoder.columns, given, preset)
    allowed, decided = allowed_labels(trained.labels, docs, columns, given, preset)
    return DocPosterior(trained, trained.posterior(docs, columns, allowed), columns, decided)


# What components and posteriors show of themselves: a line in a terminal, a table in a notebook

MOST_LABELS, MOST_DOCS, MOST_SPANS = 12, 20, 8
"""The largest numbers that are named: labels of a component, Docs of a posterior, spans of a Doc."""


def facts_of(pipe: Any) -> list[tuple[str, str]]:
    """Return the names and values of facts about a `CRFComponent`, which imports this module."""
    model, method = pipe.doc_model, pipe.method
    plugins = (method.loss, method.regularizer, method.optimizer)
    facts = [("labels", _listed(pipe.labels, MOST_LABELS)), ("state", "not trained")]
    if model.has_weights:
        crf, active = model.crf, model.n_active
        n_features = crf.layout.unigrams.n_rows + crf.layout.bigrams.n_rows
        facts[1] = ("state", "trained" if active else "initialized, all weights are zero")
        facts.append(("size", f"{n_features:,} features, {len(crf.theta):,} weights, {active:,} of them not zero"))
    facts.append(("templates", f"{sum(len(plan.templates) for plan in model.features.plans())}"))
    facts.append(("method", ", ".join(type(plugin).__name__ for plugin in plugins)))
    return facts


def line_of(pipe: Any) -> str:
    """Return the facts about a component in one line."""
    return f"<CRFComponent {pipe.name!r}: {'; '.join(f'{name}: {value}' for name, value in facts_of(pipe))}>"


def posterior_table(answers: Any) -> str:
    """Return a `DocPosterior` as HTML: for each Doc its predictions and their probabilities, where there are any."""
    rows = []
    sure = answers.has_probabilities
    logarithms = answers.log_probabilities() if sure else [0.0] * len(answers)
    spans = answers.spans()[:MOST_DOCS] if sure else [[] for _ in range(min(len(answers), MOST_DOCS))]
    for number, (labels, scored) in enumerate(zip(answers.labels, spans, strict=False)):
        words = [f"{start}\N{EN DASH}{end} {label} {p:.2f}" for start, end, label, p in scored]
        if not sure:
            words = [answers.tags[label] for label in labels.tolist()]
        whole = f"{np.exp(logarithms[number]):.3f}" if sure else ""
        rows.append((str(number), str(len(labels)), _listed(words, MOST_SPANS), whole))
    more = f", the first {MOST_DOCS} shown" if len(answers) > MOST_DOCS else ""
    header = ("Doc", "tokens", "predictions", "probability")
    return html_table(f"DocPosterior, {len(answers):,} Docs{more}", rows, header)


def html_table(title: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return a small table as HTML; all text is escaped."""
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "none"
