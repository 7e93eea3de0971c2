"""Small random problems: scores as a loss sees them, and whole training problems over random words."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from spacy.attrs import LOWER, SHAPE
from spacy.lang.lex_attrs import word_shape
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_crfseq import registry
from spacy_crfseq.features.attributes import BUILT_IN
from spacy_crfseq.features.encoded import Encoded, Ids
from spacy_crfseq.features.encoder import (
    CollectedFeatures,
    Columns,
    FrozenEncoder,
    GrowingEncoder,
    LexemeValues,
    Lexicon,
    new_lexicon,
)
from spacy_crfseq.features.index import HashIndex
from spacy_crfseq.features.items import TEXT_FUNCTIONS
from spacy_crfseq.features.templates import Plan, make_plan, parse
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.papers.augmented.costs import Hamming
from spacy_crfseq.potentials.layout import Layout, SparseRows, WeightRows, make_layout
from spacy_crfseq.potentials.linear import CachedSums, Linear, Source
from spacy_crfseq.potentials.sums import Sum
from spacy_crfseq.potentials.tag_dictionary import make_dictionary
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.training.dataset import CandidateTable, Dataset
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import (
    MISSING,
    Batch,
    Candidates,
    Constraints,
    Floats,
    IncorrectSpan,
    Ints,
    Loss,
    Regularizer,
    Scores,
)

VOCAB = Vocab(lex_attr_getters={LOWER: str.lower, SHAPE: word_shape})

# --- scores ---------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Scores of a batch and what is known about its sequences."""

    scores: Scores
    batch: Batch

    def sequence_bounds(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.batch.offsets.tolist()))

    def only(self, n: int) -> Problem:
        """Return sequence n alone."""
        part = slice(*self.batch.offsets[n : n + 2].tolist())
        scores = self.scores._replace(emissions=self.scores.emissions[part].copy())
        if len(scores.transitions) > 1:
            scores = scores._replace(transitions=scores.transitions[part].copy())
        offsets, gold = np.array([0, part.stop - part.start]), self.batch.gold[part].copy()
        return Problem(scores, Batch(offsets, gold, self.batch.weights[n : n + 1].copy(), self.batch.candidates))

    def without_candidates(self) -> Problem:
        """Return the problem with missing labels in place of candidate sets."""
        gold = np.maximum(self.batch.gold, MISSING).astype(np.int32)
        return Problem(self.scores, Batch(self.batch.offsets, gold, self.batch.weights))


def random_problem(
    rng: np.random.Generator,
    *,
    n_labels: int,
    lengths: Sequence[int],
    shared: bool,
    dtype: type = np.float64,
    scale: float = 1.0,
    masked: float = 0.0,
    missing: float = 0.0,
    candidates: float = 0.0,
    weighted: bool = True,
) -> Problem:
    """Return random scores of the size `scale`.

    masked: Share of scores that are minus infinity; the gold labels stay possible, and no token shares all its scores.
    missing: Share of gold labels that are missing; the first sequence misses all where it is above a half.
    candidates: Share of tokens of which a candidate set is known, perhaps with spans that are not there.
    weighted: Weights between 0 and 3, of which about a quarter are zero; else all are one.
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_tokens = int(offsets[-1])
    gold = rng.integers(0, n_labels, n_tokens).astype(np.int32)
    steps = (1 if shared else n_tokens, n_labels, n_labels)
    shapes = ((n_tokens, n_labels), steps, n_labels, n_labels)
    scores = Scores(*((scale * rng.standard_normal(shape)).astype(dtype) for shape in shapes))
    if masked:
        forbid(rng, scores, gold, offsets, masked)
    right = gold.copy()
    gold[rng.random(n_tokens) < missing] = MISSING
    if missing > 0.5 and len(lengths):
        gold[: lengths[0]] = MISSING
    weights = np.ones(len(lengths))
    if weighted:
        weights = rng.uniform(0, 3, len(lengths)) * (rng.random(len(lengths)) < 0.75)
    batch = Batch(offsets, gold, weights)
    if candidates:
        batch = batch._replace(candidates=random_candidates(rng, n_labels))
        partly = rng.random(n_tokens) < candidates
        gold[partly] = MISSING - 1 - _fitting(rng, batch.candidates, right[partly])
    return Problem(scores, batch)


def random_candidates(rng: np.random.Generator, n_labels: int) -> Candidates:
    """Return sets with each label, and patterns of one to three tokens, which begin at some of them."""
    sets = rng.random((2 * n_labels, n_labels)) < 0.5
    sets[np.arange(2 * n_labels), np.arange(2 * n_labels) % n_labels] = True
    incorrect = []
    for number in range(n_labels, 2 * n_labels):
        for _ in range(rng.integers(0, 3)):
            labels = rng.random((rng.integers(1, 4), n_labels)) < 0.5
            incorrect.append(IncorrectSpan(number, max(1, len(labels) - int(rng.integers(2))), labels))
    return Candidates(sets, tuple(incorrect))


def _fitting(rng: np.random.Generator, candidates: Candidates, right: Ints) -> np.ndarray:
    """Return for each token a random set that has its right label, with which no wrong pattern begins."""
    fits = candidates.sets[:, right].T
    for span in candidates.incorrect:
        fits[span.labels[0, right], span.number] = False
    return np.array([rng.choice(np.flatnonzero(row)) for row in fits], np.int64)


def forbid(rng: np.random.Generator, scores: Scores, gold: Ints, offsets: np.ndarray, share: float) -> None:
    masks = Scores(*(rng.random(array.shape) < share for array in scores))
    tokens = np.arange(len(gold))
    masks.emissions[tokens, gold] = False
    for first, last in itertools.pairwise(offsets):
        if last > first:
            masks.start[gold[first]] = masks.end[gold[last - 1]] = False
        for t in range(first + 1, last):
            masks.transitions[0 if len(masks.transitions) == 1 else t, gold[t - 1], gold[t]] = False
    for array, mask in zip(scores, masks, strict=True):
        array[mask] = -np.inf


def problems(
    *,
    scales: Sequence[float] = (1.0,),
    maskable: bool = True,
    missing: bool = True,
    candidates: bool = False,
    dtypes: Sequence[type] = (np.float64,),
) -> st.SearchStrategy[Problem]:
    """Draw batches of up to four sequences of up to five tokens, one to four labels."""
    return st.builds(
        lambda seed, **chosen: random_problem(np.random.default_rng(seed), **chosen),
        st.integers(0, 2**32 - 1),
        n_labels=st.integers(1, 4),
        lengths=st.lists(st.integers(0, 5), max_size=4),
        shared=st.booleans(),
        dtype=st.sampled_from(dtypes),
        scale=st.sampled_from(scales),
        masked=st.sampled_from([0.0, 0.3] if maskable else [0.0]),
        missing=st.sampled_from([0.0, 0.3, 0.8] if missing else [0.0]),
        candidates=st.sampled_from([0.0, 0.3] if candidates else [0.0]),
        weighted=st.booleans(),
    )


REQUIRED: dict[str, dict[str, Any]] = {
    "spacy_crfseq.Expectation.v1": {"proportions": {"A": 0.3}},
    "spacy_crfseq.GeneralizedExpectation.v1": {"path": Path(__file__).parent / "labelled_features.tsv"},
    "spacy_crfseq.InlineRanker.v1": {"cost": Hamming()},
}
"""Settings without which some losses cannot be made; their labels are A, B, ..."""


def made_losses() -> dict[str, Loss]:
    """Return every registered loss by its name, without those that other tests register for themselves."""
    losses_by_name = {name: make for name, make in registry.losses.get_all().items() if not name.startswith("test.")}
    return {name: make(**REQUIRED.get(name, {})) for name, make in losses_by_name.items()}


def text_of(n_tokens: int) -> Doc:
    """Return a text in which the features of labelled_features.tsv occur, sometimes together."""
    return Doc(VOCAB, words=list(itertools.islice(itertools.cycle(["one", "1234", "Two", "that", "one"]), n_tokens)))


def all_allowed(n_labels: int) -> Constraints:
    """Return constraints that forbid nothing; each label is a span of its own."""
    everywhere, square = np.ones(n_labels, np.bool_), np.ones((n_labels, n_labels), np.bool_)
    return Constraints(everywhere, square, everywhere, ~square, ~everywhere)


def random_constraints(rng: np.random.Generator, problem: Problem, share: float) -> tuple[Constraints, np.ndarray]:
    """Return constraints and a mask that forbid about `share` and leave each sequence a labelling; random spans."""
    n_tokens, n_labels = problem.scores.emissions.shape
    flags = Scores(*map(np.zeros, ((n_tokens, n_labels), (1, n_labels, n_labels), n_labels, n_labels)))
    path = rng.integers(0, n_labels, n_tokens).astype(np.int32)
    forbid(rng, flags, path, problem.batch.offsets, share)
    allowed, steps, start, end = (np.isfinite(array) for array in flags)
    inside, outside = steps[0] & (rng.random(steps[0].shape) < 0.5), rng.random(n_labels) < 0.3
    inside[outside] = inside[:, outside] = False
    return Constraints(start, steps[0], end, inside, outside), allowed


def finite_differences(value: Callable[[], float], array: Floats, step: float = 1e-5) -> Floats:
    """Return d value() / d array, by central differences; `array` is changed in place and put back."""
    below, above = one_sided_differences(value, array, step)
    return (below + above) / 2


def one_sided_differences(value: Callable[[], float], array: Floats, step: float = 1e-5) -> tuple[Floats, Floats]:
    """Return the slopes of value() below and above each number of `array`, which is changed in place and put back."""
    here, slopes = value(), np.zeros((2, *array.shape))
    for place in np.ndindex(array.shape):
        before = array[place]
        for side, sign in zip(slopes, (-1, 1), strict=True):
            array[place] = before + sign * step
            side[place] = sign * (value() - here) / step
        array[place] = before
    return slopes[0], slopes[1]


# --- texts ----------------------------------------------------------------------------------------------------------


def hash_of(text: str) -> int:
    """Return a hash, as spaCy's string store would give one."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=b"words").digest(), "little")


class Vocabulary:
    """A stand-in for spaCy's: knows the text of every hash, and lexical attributes."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def add(self, text: str) -> int:
        number = hash_of(text)
        self._texts[number] = text
        return number

    def text_of(self, number: int) -> str:
        return self._texts[number]

    def values_of(self, attributes: Sequence[str]) -> LexemeValues:
        """Return the function an encoder asks for the values of `attributes` of words."""

        def values(orths: Sequence[int]) -> np.ndarray:
            texts = [[_text_value(name, self._texts[orth]) for name in attributes] for orth in orths]
            numbers = [[0 if text is None else self.add(text) for text in row] for row in texts]
            return np.array(numbers, np.uint64).reshape(len(orths), len(attributes))

        return values


def _text_value(attribute: str, word: str) -> str | None:
    if attribute == "ORTH":
        return word
    return word.lower() if attribute == "LOWER" else TEXT_FUNCTIONS[attribute](word)


class Sentence(NamedTuple):
    """Words of a sequence with their tags; an empty tag is not set."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def _plans_and_lexicon(
    vocabulary: Vocabulary, templates: Sequence[str], bigram_templates: Sequence[str]
) -> tuple[Plan, Plan, Lexicon]:
    unigrams, bigrams = (make_plan(parse(texts, BUILT_IN)) for texts in (templates, bigram_templates))
    values_of = vocabulary.values_of(sorted({*unigrams.lexical, *bigrams.lexical}))
    return unigrams, bigrams, new_lexicon(unigrams, bigrams, values_of)


def growing_encoder(
    vocabulary: Vocabulary, templates: Sequence[str], bigram_templates: Sequence[str] = (), has_words: bool = False
) -> GrowingEncoder:
    return GrowingEncoder(*_plans_and_lexicon(vocabulary, templates, bigram_templates), has_words=has_words)


def frozen_encoder(
    vocabulary: Vocabulary,
    templates: Sequence[str],
    bigram_templates: Sequence[str],
    keys: tuple[np.ndarray, np.ndarray],
) -> FrozenEncoder:
    parts = _plans_and_lexicon(vocabulary, templates, bigram_templates)
    return FrozenEncoder(*parts, (HashIndex(keys[0]), HashIndex(keys[1])))


def columns_of(
    vocabulary: Vocabulary, encoder: GrowingEncoder | FrozenEncoder, sentences: Sequence[Sentence]
) -> Columns:
    """Return some sentences as the encoder reads them; every token column holds the tags."""
    words = [vocabulary.add(word) for sentence in sentences for word in sentence.words]
    tags = [vocabulary.add(tag) if tag else 0 for sentence in sentences for tag in sentence.tags]
    context = np.repeat(np.array(tags, np.uint64)[:, None], len(encoder.columns), axis=1)
    offsets = np.concatenate([[0], np.cumsum([len(sentence.words) for sentence in sentences])]).astype(np.int64)
    return Columns(np.array(words, np.uint64), context, offsets)


def ids_of_tokens(ids: Ids) -> list[list[int]]:
    """Return the attribute ids of each token, bags opened, in ascending order."""
    contents = [part.tolist() for part in np.split(ids.store.ids, ids.store.ptr[1:-1])]
    return [
        sorted([a for bag in bags for a in contents[bag]] + attrs[attrs >= 0].tolist())
        for bags, attrs in zip(*ids.expanded(), strict=True)
    ]


def random_sentences(rng: np.random.Generator, n: int, longest: int = 6) -> list[Sentence]:
    """Return sentences over a few words and tags, some of them empty."""
    words = ("the", "The", "cat", "U.S.", "sat", "on", "1990-95", "mat-2", "a")
    tags = ("DT", "NN", "VB", "")
    lengths = rng.integers(0, longest + 1, n)
    return [
        Sentence(tuple(rng.choice(words, length).tolist()), tuple(rng.choice(tags, length).tolist()))
        for length in lengths
    ]


# --- training problems ----------------------------------------------------------------------------------------------

TEMPLATES = ("LOWER[-1..1]", "SUFFIX2", "TAG[0]", "TAG[-1]|TAG[0]", "LOWER[-1]|TAG[0]")
BIGRAM_TEMPLATES = ("BRIEF_SHAPE", "TAG[0]")


class Training(NamedTuple):
    """A training problem and the parts it was made of."""

    objective: Objective
    encoder: FrozenEncoder
    encoded: Encoded
    features: tuple[CollectedFeatures, CollectedFeatures]
    vocabulary: Vocabulary
    sentences: list[Sentence]

    @property
    def layout(self) -> Layout:
        return self.objective.layout

    def model(self, theta: Floats, labels: Sequence[str] = "ABC") -> LinearChainCRF:
        """Return the model with these parameters."""
        templates = self.features[0].templates, self.features[1].templates
        return LinearChainCRF(labels, self.layout, theta, self.encoder.keys, self.objective.dictionary, templates)

    def random_theta(self, rng: np.random.Generator, scale: float = 0.5) -> Floats:
        """Return parameters [D], those that are not learnt zero."""
        theta = scale * rng.standard_normal(self.layout.size)
        Linear(self.layout).zero_frozen(theta)
        return theta


def training_problem(
    seed: int = 0,
    *,
    n_sequences: int = 12,
    n_labels: int = 3,
    templates: Sequence[str] = TEMPLATES,
    bigram_templates: Sequence[str] = (),
    support: str = "observed",
    boundaries: bool = True,
    transitions: bool = True,
    missing: float = 0.0,
    candidates: float = 0.0,
    weighted: bool = False,
    dictionary_size: int = 0,
    loss: Loss | None = None,
    regularizer: Regularizer | None = None,
) -> Training:
    """Return a training problem over random words, whose labels depend on them in part."""
    rng = np.random.default_rng(seed)
    sentences = random_sentences(rng, n_sequences)
    vocabulary = Vocabulary()
    growing = growing_encoder(vocabulary, templates, bigram_templates, bool(dictionary_size))
    encoded = growing.encode(columns_of(vocabulary, growing, sentences))
    words = [word for sentence in sentences for word in sentence.words]
    gold = np.array([len(word) % n_labels for word in words], np.int32)
    noisy = rng.random(len(gold)) < 0.3
    gold[noisy] = rng.integers(0, n_labels, noisy.sum())
    right = gold.copy()
    gold[rng.random(len(gold)) < missing] = MISSING
    weights = rng.uniform(0.5, 2, n_sequences) if weighted else np.ones(n_sequences)
    table = CandidateTable()
    if candidates:
        table.now = random_candidates(rng, n_labels)
        partly = rng.random(len(gold)) < candidates
        gold[partly] = MISSING - 1 - _fitting(rng, table.now, right[partly])
    n_features = growing.unigrams.index.size, growing.bigrams.index.size
    observed = Dataset(encoded, gold, weights, table).observed()
    kinds: dict[str, Any] = {"support": support, "boundaries": boundaries, "transitions": transitions}
    layout = make_layout(observed.encoded, observed.gold, n_labels, n_features, **kinds)
    dictionary = words = None
    if growing.dictionary_words is not None:
        known_words = growing.dictionary_words.keys, encoded.dictionary_ids, gold, all_allowed(n_labels)
        dictionary, _ = make_dictionary(*known_words, dictionary_size, 2)
        words = dictionary.word_index()
    encoder, renumbered = growing.frozen(growing.keys, words)
    encoded, features = renumbered(encoded), growing.features
    data, loss, regularizer = Dataset(encoded, gold, weights, table), loss or SequentialLog(), regularizer or L2(1.0)
    parts: dict[str, Any] = {"dictionary": dictionary, "templates": features[0].templates}
    objective = Objective(Linear(layout), [Term(data, loss)], regularizer, **parts)
    return Training(objective, encoder, encoded, features, vocabulary, sentences)


def plain_dictionary(training: Training, size: int, min_count: int = 2) -> dict[str, set[int]]:
    """Return the labels that each frequent word has in the data, counted one token at a time."""
    words = [word for sentence in training.sentences for word in sentence.words]
    gold = training.objective.batch.gold.tolist()
    counts = Counter(word for word, label in zip(words, gold, strict=True) if label >= 0)
    labels: dict[str, set[int]] = {word: set() for word, count in counts.most_common(size) if count >= min_count}
    for word, label in zip(words, gold, strict=True):
        if word in labels and label >= 0:
            labels[word].add(label)
    return labels


def plain_scores(layout: Layout, theta: Floats, encoded: Encoded) -> Scores:
    """Return the scores of all sequences from dense weight matrices, one token at a time."""
    n, views = layout.n_labels, layout.views(theta)
    unigrams = _plain_sums(layout.unigrams, views.unigrams, encoded.unigrams)
    bigrams = _plain_sums(layout.bigrams, views.bigrams, encoded.bigrams)
    transitions = views.transitions + bigrams.reshape(-1, n, n) if layout.bigrams.n_rows else views.transitions[None]
    return Scores(unigrams, transitions, views.start, views.end)


def _plain_sums(rows: WeightRows, weights: Floats, ids: Ids) -> Floats:
    dense, out = np.zeros((rows.n_rows, rows.width)), np.zeros((ids.columns.shape[0], rows.width))
    if isinstance(rows, SparseRows):
        dense[np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr)), rows.cols] = weights
    else:
        dense[:] = weights.reshape(dense.shape)
    for target, attributes in zip(out, ids_of_tokens(ids), strict=True):
        target += dense[attributes].sum(0)
    return out


def source_of(potential: Linear | Sum, theta: Floats, text: Encoded) -> Source:
    """Return the scores of a text for prediction."""
    linear, small = (potential.linear, potential.small) if isinstance(potential, Sum) else (potential, ())
    own, *others = potential.split(theta) if isinstance(potential, Sum) else [theta]
    views = linear.layout.views(own)
    tables = [CachedSums(*table) for table in zip(linear.rows, views, strict=False)]
    return Source(tables, views, text, list(zip(small, others, strict=True)))


def newton_optimum(objective: Objective) -> tuple[Floats, float]:
    """Return the minimum of a small convex objective and its value, by Newton steps on a numerical Hessian."""
    theta = np.zeros(objective.potential.size)
    for _ in range(50):
        value, _, gradient = objective.value_and_grad(theta)
        if np.linalg.norm(gradient) < 1e-10:
            break
        direction = -np.linalg.solve(_hessian(objective, theta), gradient)
        size = 1.0
        while size > 1e-8 and objective.value(theta + size * direction) > value + 1e-12 * abs(value):
            size /= 2
        theta = theta + size * direction
    return theta, objective.value(theta)


def _hessian(objective: Objective, theta: Floats, step: float = 1e-5) -> Floats:
    rows = []
    for i in range(len(theta)):
        shift = np.zeros(len(theta))
        shift[i] = step
        above, below = (objective.value_and_grad(theta + sign * shift)[2] for sign in (1, -1))
        rows.append((above - below) / (2 * step))
    hessian = np.array(rows)
    held = ~hessian.any(1)
    hessian[held, held] = 1.0  # parameters that are not learnt stay where they are
    return (hessian + hessian.T) / 2
